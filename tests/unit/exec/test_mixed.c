/* Two executors behind one table (mixed.h): who takes what, that the second one never begins before the first
   is done, lists, whole runs, and what is refused. Both are the host in truth; the first one puts vector
   operations off until somebody waits for them, as a device does.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "kl_test.h"
#include "lists.h"
#include "exec/mixed.h"

typedef struct late {
    kl_op op;
    int64_t n;
    double a, b;
    kl_dptr x, y;
} late;

static kl_vtable plain; /* the host's */
static kl_exec *second;
static int asked[2][KL_NOP], refuse, waits;
static int64_t wants; /* bytes of work space that lists are said to need by the second one */
static int64_t has; /* bytes that the first one has left */
static late queue[256];
static int nlate;

static void flush(kl_exec *ex)
{
    for (int i = 0; i < nlate; i++) {
        const late *const l = &queue[i];
        if (l->op == KL_OP_COPY) plain.copy(ex, l->n, l->x, l->y);
        else plain.axpby(ex, l->n, l->a, l->x, l->b, l->y);
    }
    nlate = 0;
}

/* Counted; 1: done at once. */
static int now(kl_exec *ex, kl_op op)
{
    const int which = ex == second;
    asked[which][op]++;
    if (!which && op != KL_OP_COPY && op != KL_OP_AXPBY) flush(ex);
    return which;
}

static void put_off(kl_exec *ex, late l)
{
    if (nlate == sizeof queue / sizeof *queue) flush(ex);
    queue[nlate++] = l;
}

static void its_copy(kl_exec *ex, int64_t n, kl_dptr src, kl_dptr dst)
{
    if (now(ex, KL_OP_COPY)) plain.copy(ex, n, src, dst);
    else put_off(ex, (late){KL_OP_COPY, n, 0, 0, src, dst});
}

static void its_axpby(kl_exec *ex, int64_t n, double a, kl_dptr x, double b, kl_dptr y)
{
    if (now(ex, KL_OP_AXPBY)) plain.axpby(ex, n, a, x, b, y);
    else put_off(ex, (late){KL_OP_AXPBY, n, a, b, x, y});
}

static void its_fill(kl_exec *ex, int64_t n, double a, kl_dptr y)
{
    flush(ex);
    plain.fill(ex, n, a, y);
}

static void its_release(kl_exec *ex, kl_dptr *p)
{
    if (ex != second) flush(ex); /* memory is given to the next one in the order of things */
    plain.release(ex, p);
}

static void its_precondition(kl_exec *ex, int64_t n, kl_dptr d, double theta, double floor, kl_dptr r,
                             kl_dptr t)
{
    now(ex, KL_OP_PRECONDITION);
    plain.precondition(ex, n, d, theta, floor, r, t);
}

static void its_dots(kl_exec *ex, int64_t n, int nvec, kl_dptr v, int64_t ldv, kl_dptr x, double *out)
{
    now(ex, KL_OP_DOTS);
    plain.dots(ex, n, nvec, v, ldv, x, out);
}

static void its_combine(kl_exec *ex, int64_t n, int nvec, kl_dptr v, int64_t ldv, const double *c, double b,
                        kl_dptr y)
{
    now(ex, KL_OP_COMBINE);
    plain.combine(ex, n, nvec, v, ldv, c, b, y);
}

static void its_fuse(kl_exec *ex, int64_t n, const kl_fuse *f, double *dots)
{
    now(ex, KL_OP_FUSE);
    plain.fuse(ex, n, f, dots);
}

static kl_status its_upload(kl_exec *ex, kl_dptr dst, const double *src, int64_t n, kl_err *err)
{
    now(ex, KL_OP_UPLOAD);
    return plain.upload(ex, dst, src, n, err);
}

static kl_status its_download(kl_exec *ex, double *dst, kl_dptr src, int64_t n, kl_err *err)
{
    if (!now(ex, KL_OP_DOWNLOAD) && n == 1) waits++;
    return plain.download(ex, dst, src, n, err);
}

static kl_status its_prepare(kl_exec *ex, kl_batch *b, kl_err *err)
{
    if (ex == second && refuse) return kl_fail(err, KL_ENOMEM, "none left");
    return plain.batch_prepare(ex, b, err);
}

static kl_status its_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err)
{
    now(ex, KL_OP_BATCH);
    return plain.batch_apply(ex, b, x, y, err);
}

static void its_batch_explain(kl_exec *ex, const kl_batch *b, kl_batch_plan *plan)
{
    plain.batch_explain(ex, b, plan);
    if (ex == second) plan->work_bytes = wants;
}

static int64_t its_room(kl_exec *ex) { return ex == second ? INT64_MAX : has; }

static const kl_mixed_time table[] = {
    {KL_OP_COPY, 100, {8e-6, 1e-6}},         {KL_OP_COPY, 10000, {80e-6, 20e-6}},
    {KL_OP_AXPBY, 100, {8e-6, 9e-6}},        {KL_OP_AXPBY, 10000, {90e-6, 50e-6}},
    {KL_OP_DOTS, 100, {30e-6, 8e-6}},        {KL_OP_DOTS, 10000, {80e-6, 79e-6}},
    {KL_OP_COMBINE, 10000, {1e-3, 0.97e-3}}, {KL_OP_FUSE, 100, {50e-6, 20e-6}},
    {KL_OP_FUSE, 10000, {50e-6, 60e-6}},     {KL_OP_BATCH, 4, {50e-6, 20e-6}},
    {KL_OP_BATCH, 64, {50e-6, 60e-6}},
};
enum { NTIME = sizeof table / sizeof *table };

static void open_both(kl_exec *of[2])
{
    kl_err err = {""};
    for (int k = 0; k < 2; k++) {
        expect_ok(kl_exec_open_host(1, &of[k], &err), err);
        plain = of[k]->vt;
        kl_vtable *const v = &of[k]->vt;
        v->copy = its_copy, v->axpby = its_axpby, v->fill = its_fill, v->release = its_release,
        v->precondition = its_precondition, v->dots = its_dots, v->combine = its_combine, v->fuse = its_fuse;
        v->upload = its_upload, v->download = its_download, v->batch_prepare = its_prepare,
        v->batch_apply = its_apply, v->batch_explain = its_batch_explain, v->room = its_room;
    }
    second = of[1], of[0]->name = "one", of[1]->name = "two";
    refuse = nlate = 0, wants = 0, has = INT64_MAX;
    memset(asked, 0, sizeof asked);
    waits = 0;
}

static kl_exec *open_pick(void)
{
    kl_err err = {""};
    kl_exec *of[2] = {NULL}, *out = NULL;
    open_both(of);
    expect_ok(kl_exec_open_mixed_take(&of[0], &of[1], NULL, table, NTIME, &out, &err), err);
    expect_true(of[0] == NULL && of[1] == NULL && out->vt.alloc == plain.alloc);
    assert_string_equal(out->name, "one and two");
    memset(asked, 0, sizeof asked);
    return out;
}

static int close_all(void **state)
{
    (void)state;
    return kl_mem_live_total() == 0 ? 0 : -1;
}

static void test_which(void **state)
{
    (void)state;
    const kl_mixed_time *by;
    static const struct {
        kl_op op;
        double size;
        int which;
    } cases[] = {
        {KL_OP_COPY, 1, 0},    {KL_OP_COPY, 100, 0}, {KL_OP_COPY, 900, 0},    {KL_OP_COPY, 1100, 1},
        {KL_OP_COPY, 1e12, 1}, {KL_OP_AXPBY, 5, 0},  {KL_OP_AXPBY, 1e4, 1},   {KL_OP_PRECONDITION, 1e4, 1},
        {KL_OP_DOTS, 100, 1},  {KL_OP_DOTS, 1e4, 0}, {KL_OP_COMBINE, 1e4, 0}, {KL_OP_FUSE, 1, 1},
        {KL_OP_FUSE, 1e4, 0},  {KL_OP_BATCH, 0, 1},  {KL_OP_BATCH, 3.9, 1},   {KL_OP_BATCH, 17, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kl_test_case("case %zu", i);
        expect_eq(kl_mixed_which(table, NTIME, cases[i].op, cases[i].size, &by), cases[i].which);
        expect_true(by != NULL && by->op == (cases[i].op == KL_OP_PRECONDITION ? KL_OP_AXPBY : cases[i].op));
    }
    expect_eq(kl_mixed_which(table, NTIME, KL_OP_KRON, 100, &by), 0);
    expect_true(by == NULL);
    expect_true(kl_mixed_ever(table, NTIME) && !kl_mixed_ever(table, 1) && !kl_mixed_ever(table, 0));
}

static void test_vectors(void **state)
{
    (void)state;
    kl_err err = {""};
    kl_exec *ex = open_pick();
    for (int large = 0; large < 2; large++) {
        const int64_t n = large ? 12345 : 77;
        double *const x = kl_test_guarded(n), *const y = kl_test_guarded(n), dots[3], sum = 0;
        const double c[2] = {0.5, -2};
        uint64_t seed = 5;
        kl_dptr v = {0};
        for (int64_t i = 0; i < n; i++) x[i] = kl_test_uniform(&seed);
        expect_ok(ex->vt.alloc(ex, 3 * n, &v, &err), err);
        const kl_dptr b = kl_dptr_at(v, n), to = kl_dptr_at(v, 2 * n);
        memset(asked, 0, sizeof asked);
        waits = 0;
        expect_ok(ex->vt.upload(ex, v, x, n, &err), err);
        ex->vt.fill(ex, n, 3.0, to);
        ex->vt.copy(ex, n, v, b); /* b = x */
        ex->vt.axpby(ex, n, 2.0, v, 1.0, b); /* b = 3 x */
        ex->vt.precondition(ex, n, b, 9.0, 0.5, b, to); /* to = 3 x / (3 x - 9) */
        ex->vt.axpby(ex, n, 1.0, to, 1.0, v); /* v = x + to: late at the first one */
        ex->vt.combine(ex, n, 2, v, n, c, 1.0, to); /* to += v / 2 - 2 b */
        ex->vt.copy(ex, n, to, b);
        ex->vt.dots(ex, n, 2, v, n, to, dots);
        const kl_dptr in[1] = {b};
        ex->vt.fuse(ex, n, &(kl_fuse){.nin = 1, .npair = 1, .in = in, .pair = (const int[1][2]){{0, 0}}},
                    dots + 2);
        expect_ok(ex->vt.download(ex, y, to, n, &err), err);
        for (int64_t i = 0; i < n; i++) {
            const double t = 3 * x[i] / (3 * x[i] - 9), want = t + (x[i] + t) / 2 - 6 * x[i];
            expect_near(y[i], want, 1e-13);
            sum += want * want;
        }
        expect_near(dots[2], sum, 1e-12 * sum);
        expect_near(dots[1], sum, 1e-12 * sum); /* b is a copy of what it is multiplied with */
        kl_test_case("large=%d", large);
        expect_eq(asked[large][KL_OP_COPY], 2);
        expect_eq(asked[large][KL_OP_AXPBY], 2);
        expect_eq(asked[large][KL_OP_PRECONDITION], 1);
        expect_eq(asked[0][KL_OP_COMBINE], 1);
        expect_eq(asked[!large][KL_OP_DOTS], 1);
        expect_eq(asked[!large][KL_OP_FUSE], 1);
        for (int op = 0; op < KL_NOP; op++) expect_eq(asked[0][op] == 0 || asked[1][op] == 0, 1);
        expect_eq(waits, large ? 5 : 2); /* one before each of the second one's */
        kl_choice choice;
        expect_ok(kl_exec_explain(ex, &(kl_call){.op = KL_OP_COPY, .n = n}, &choice, &err), err);
        assert_string_equal(choice.exec, large ? "two" : "one");
        expect_true(strstr(choice.why, large ? "auto: one 80 us, two 20 us at 10000"
                                             : "auto: one 8 us, two 1 us at 100") != NULL);
        expect_ok(kl_exec_explain(ex, &(kl_call){.op = KL_OP_UPLOAD, .n = n}, &choice, &err), err);
        expect_true(strcmp(choice.exec, "one") == 0 && !strstr(choice.why, "auto"));
        ex->vt.release(ex, &v);
        kl_test_free(x), kl_test_free(y);
    }
    kl_exec_close(&ex);
}

/* One list on the host and on both; who had it. */
static int one_list(kl_exec *ex, kl_exec *host, kl_batch *b, int64_t room)
{
    kl_err err = {""};
    double *const x = kl_test_guarded(room), *const left = kl_test_guarded(room),
                  *const right = kl_test_guarded(room), *y[2] = {NULL};
    uint64_t seed = 3;
    kl_choice choice;
    kl_batch_plan plan;
    for (int64_t i = 0; i < room; i++)
        x[i] = kl_test_uniform(&seed), left[i] = kl_test_uniform(&seed), right[i] = kl_test_uniform(&seed);
    b->base[KL_AT_LEFT].addr = (uintptr_t)left, b->base[KL_AT_RIGHT].addr = (uintptr_t)right;
    memset(asked, 0, sizeof asked);
    for (int k = 0; k < 2; k++) {
        kl_exec *const e = k ? ex : host;
        y[k] = kl_test_guarded(b->ny);
        if (k)
            expect_ok(
                kl_exec_explain(e, &(kl_call){.op = KL_OP_BATCH, .n = b->nx, .batch = b}, &choice, &err),
                err);
        expect_ok(e->vt.batch_prepare(e, b, &err), err);
        e->vt.batch_explain(e, b, &plan);
        double *const late_x = kl_test_guarded(room);
        e->vt.axpby(e, room, 1.0, (kl_dptr){(uintptr_t)x}, 0.0, (kl_dptr){(uintptr_t)late_x});
        expect_ok(e->vt.batch_apply(e, b, (kl_dptr){(uintptr_t)late_x}, (kl_dptr){(uintptr_t)y[k]}, &err),
                  err);
        kl_test_free(late_x);
        e->vt.batch_release(e, b);
        expect_true(b->prepared == NULL);
    }
    for (int64_t i = 0; i < b->ny; i++) expect_true(y[1][i] == y[0][i] || (isnan(y[0][i]) && isnan(y[1][i])));
    const int which = asked[1][KL_OP_BATCH];
    expect_eq(asked[0][KL_OP_BATCH], !which);
    if (!refuse && !wants) assert_string_equal(choice.exec, which ? "two" : "one");
    kl_test_free(x), kl_test_free(left), kl_test_free(right), kl_test_free(y[0]), kl_test_free(y[1]);
    return which;
}

static void test_lists(void **state)
{
    (void)state;
    kl_err err = {""};
    kl_exec *ex = open_pick(), *host = NULL;
    expect_ok(kl_exec_open_host(1, &host, &err), err);
    int seen[2] = {0};
    for (int round = 0; round < 60; round++) {
        const int most = 1 + round % 60;
        const int64_t room = (int64_t)(most + 3) * (most + 3) + 7;
        uint64_t seed = (uint64_t)round;
        kl_batch b;
        kl_batch_init(&b);
        kl_test_case("round %d", round);
        lists_random(&b, room, 1 + lists_below(&seed, 9), most, round % 3 == 0, round % 2, &seed);
        const kl_mixed_time *by;
        const int want = kl_mixed_which(table, NTIME, KL_OP_BATCH, kl_batch_mean_size(&b), &by);
        expect_eq(one_list(ex, host, &b, room), want);
        seen[want]++;
        ex->projection = KL_PROJECTION_NOSTREAMS; /* asked for by name: the first one knows what that is */
        expect_eq(one_list(ex, host, &b, room), 0);
        ex->projection = KL_PROJECTION_AUTO;
        refuse = 1; /* no memory there: the first one has it */
        expect_eq(one_list(ex, host, &b, room), 0);
        refuse = 0;
        wants = 1000, has = 15000; /* too much for what is left */
        expect_eq(one_list(ex, host, &b, room), 0);
        has = 16000;
        expect_eq(one_list(ex, host, &b, room), want);
        wants = 0, has = INT64_MAX;
        kl_batch_clear(&b);
    }
    expect_true(seen[0] > 5 && seen[1] > 5);
    kl_exec_close(&host);
    kl_exec_close(&ex);
}

/* A whole run, its operations alternately here and there: the host's energy. */
static void test_ground(void **state)
{
    (void)state;
    core_job j;
    kl_exec *ex = open_pick();
    core_open(&j, core_model("hubbard", "F=1/2"), "chain:6", NULL, "U=4");
    double energy[2];
    kl_exec *const own = j.ex;
    for (int w = 0; w < 2; w++) {
        core_run r = core_auto(1e-11, core_charge(j.model, "N_up=3 N_dn=3"), 1, KL_STRATEGY_L11R);
        j.ex = w ? ex : own;
        core_go(&j, &r);
        energy[w] = r.res.energy[0];
        core_drop(&r);
    }
    j.ex = own;
    expect_near(energy[1], energy[0], 1e-12 * fabs(energy[0]));
    expect_true(asked[1][KL_OP_BATCH] > 0 && asked[1][KL_OP_DOTS] > 0 && asked[0][KL_OP_COMBINE] > 0 &&
                asked[0][KL_OP_AXPBY] > 0 && waits > asked[1][KL_OP_BATCH]);
    core_close(&j);
    kl_exec_close(&ex);
}

static int opened;

static kl_status open_later(void *self, kl_exec **out, kl_err *err)
{
    kl_exec **const it = self;
    opened++;
    if (!*it) return kl_fail(err, KL_EABSENT, "none here");
    *out = *it;
    *it = NULL;
    return KL_OK;
}

/* The second one is opened when what it would have saved comes to what that takes: 60 us a copy, 30 a list
   here. */
static void test_later(void **state)
{
    (void)state;
    kl_err err = {""};
    for (int w = 0; w < 4; w++) { /* copies; lists; explain; copies, but there is none */
        enum { N = 5000 };
        kl_exec *of[2] = {NULL}, *none = NULL, *ex = NULL, *host = NULL;
        kl_dptr v = {0};
        kl_choice choice;
        open_both(of);
        if (w == 3) kl_exec_close(&of[1]);
        opened = 0;
        const kl_mixed_later later = {open_later, &of[1], 125e-6};
        expect_ok(kl_exec_open_mixed_take(&of[0], &none, &later, table, NTIME, &ex, &err), err);
        expect_ok(kl_exec_open_host(1, &host, &err), err);
        assert_string_equal(ex->name, "one");
        expect_ok(ex->vt.alloc(ex, 2 * N, &v, &err), err);
        memset(asked, 0, sizeof asked);
        kl_test_case("w=%d", w);
        if (w == 1) {
            for (int round = 0; round < 6; round++) {
                uint64_t seed = 3;
                kl_batch b;
                kl_batch_init(&b);
                lists_random(&b, 47, 3, 3, 0, 0, &seed);
                b.base[KL_AT_LEFT] = b.base[KL_AT_RIGHT] = v;
                expect_ok(ex->vt.batch_prepare(ex, &b, &err), err);
                expect_ok(ex->vt.batch_apply(ex, &b, v, kl_dptr_at(v, N), &err), err);
                ex->vt.batch_release(ex, &b);
                kl_batch_clear(&b);
                expect_eq(opened, round >= 4);
                /* the list that opened it is the first one's still */
                expect_eq(asked[1][KL_OP_BATCH], round >= 5);
            }
        } else if (w == 2) {
            expect_ok(kl_exec_explain(ex, &(kl_call){.op = KL_OP_COPY, .n = 100}, &choice, &err), err);
            expect_true(opened == 0 && strcmp(choice.exec, "one") == 0 &&
                        strstr(choice.why, "auto: one 8 us, the other 1 us at 100") != NULL);
            expect_ok(kl_exec_explain(ex, &(kl_call){.op = KL_OP_COPY, .n = N}, &choice, &err), err);
            expect_true(opened == 1 && strcmp(choice.exec, "two") == 0);
        } else {
            ex->vt.fill(ex, 2 * N, 1.0, v);
            for (int round = 0; round < 5; round++) {
                ex->vt.copy(ex, 100, v, kl_dptr_at(v, N)); /* these count for nothing */
                ex->vt.copy(ex, N, v, kl_dptr_at(v, N));
                expect_eq(opened, round >= 2);
                expect_eq(asked[1][KL_OP_COPY], w == 3 || round < 2 ? 0 : round - 1);
            }
        }
        assert_string_equal(ex->name, w == 3 ? "one" : "one and two");
        ex->vt.release(ex, &v);
        kl_exec_close(&ex);
        kl_exec_close(&host);
    }
}

static void test_memory(void **state)
{
    (void)state;
    kl_err err = {""};
    kl_exec *of[2] = {NULL}, *out = NULL;
    for (int k = 0; k < 2; k++) expect_ok(kl_exec_open_host(1, &of[k], &err), err);
    for (int64_t k = 1; k <= 3; k++) {
        kl_mem_fail_after(k);
        expect_eq(kl_exec_open_mixed_take(&of[0], &of[1], NULL, table, NTIME, &out, &err), KL_ENOMEM);
        kl_mem_fail_after(0);
        expect_true(of[0] && of[1] && out == NULL);
    }
    for (int k = 0; k < 2; k++) kl_exec_close(&of[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_which), cmocka_unit_test(test_vectors),
                                       cmocka_unit_test(test_lists), cmocka_unit_test(test_ground),
                                       cmocka_unit_test(test_later), cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, close_all);
}
