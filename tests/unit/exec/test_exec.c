/* Every vector entry of the host's table against plain loops: odd sizes, padded strides, outputs full of NaN,
   guard words, any number of threads.
   SPDX-License-Identifier: Apache-2.0 */
#include "kl_test.h"
#include "exec/exec.h"
#include "record/record.h"

static const double EPS = 2.220446049250313e-16;
static const int64_t sizes[] = {0, 1, 31, 33, 597, 4097, 120001};
enum {
    NSIZE = sizeof(sizes) / sizeof(*sizes),
    NTHREAD = 3,
};

static kl_dptr dptr(const double *p) { return (kl_dptr){(uintptr_t)p}; }

static void fill(double *p, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++) p[i] = kl_test_uniform(&seed);
}

typedef struct fixture {
    kl_exec *ex[NTHREAD];
} fixture;

static int setup(void **state)
{
    static fixture f;
    static const int threads[NTHREAD] = {1, 2, 3};
    kl_err err;
    for (int t = 0; t < NTHREAD; t++)
        if (kl_exec_open_host(threads[t], &f.ex[t], &err) != KL_OK) return -1;
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *const f = *state;
    for (int t = 0; t < NTHREAD; t++) kl_exec_close(&f->ex[t]);
    return kl_mem_live_total() == 0 ? 0 : -1;
}

static void test_open(void **state)
{
    (void)state;
    kl_exec *ex = NULL;
    kl_err err;
    expect_ok(kl_exec_open_host(0, &ex, &err), err);
    expect_true(ex->nthread >= 1 && ex->space == KL_SPACE_HOST);
    assert_string_equal(ex->name, "host");
    void *entries[sizeof(ex->vt) / sizeof(void *)];
    memcpy(entries, &ex->vt, sizeof(ex->vt));
    const size_t free_to_lack[] = {
        offsetof(kl_vtable, eigen), offsetof(kl_vtable, eigen_soon), offsetof(kl_vtable, tridiagonal),
        offsetof(kl_vtable, kron_random), offsetof(kl_vtable, kron_diagonal), offsetof(kl_vtable, kron_dot),
        /* callers do these on the host */
        offsetof(kl_vtable, roots),
        /* all its memory is near */
        offsetof(kl_vtable, alloc_far), offsetof(kl_vtable, is_far), offsetof(kl_vtable, copy_async),
        offsetof(kl_vtable, copy_pieces), offsetof(kl_vtable, join),
        /* rows come and go in loops of sigma.c and rowsigma.c */
        offsetof(kl_vtable, moves_fetch), offsetof(kl_vtable, moves_land), offsetof(kl_vtable, dets_apply),
        /* lists of rows are read as they are */
        offsetof(kl_vtable, rows_prepare), offsetof(kl_vtable, rows_release),
        /* memory of the host goes to other ranks by MPI */
        offsetof(kl_vtable, ranked), offsetof(kl_vtable, link_name), offsetof(kl_vtable, link_open),
        offsetof(kl_vtable, link_start), offsetof(kl_vtable, link_join)};
    for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
        int may = 0;
        for (size_t k = 0; k < sizeof(free_to_lack) / sizeof(*free_to_lack); k++)
            may |= free_to_lack[k] == i * sizeof(void *);
        expect_true(entries[i] != NULL || may); /* complete else */
    }
    kl_exec_close(&ex);
    expect_true(ex == NULL);
    kl_exec_close(&ex);
    expect_refused(kl_exec_open_host(-2, &ex, &err), KL_EINPUT, err, "-2 threads");
    const int64_t live = kl_mem_live_total();
    kl_mem_fail_after(1);
    expect_eq(kl_exec_open_host(1, &ex, &err), KL_ENOMEM);
    kl_mem_fail_after(0);
    expect_true(ex == NULL);
    expect_eq(kl_mem_live_total(), live);
}

static void test_alloc(void **state)
{
    kl_exec *const ex = ((fixture *)*state)->ex[0];
    kl_err err;
    for (int s = 0; s < NSIZE; s++) {
        const int64_t n = sizes[s];
        kl_test_case("n=%lld", (long long)n);
        double *const from = kl_test_guarded(n), *const to = kl_test_guarded(n);
        fill(from, n, 3);
        kl_dptr p = {0}, q = {0};
        expect_ok(ex->vt.alloc(ex, n, &p, &err), err);
        expect_ok(ex->vt.alloc(ex, n, &q, &err), err);
        expect_true(p.addr != 0 && p.addr != q.addr && p.addr % 64 == 0);
        expect_ok(ex->vt.upload(ex, p, from, n, &err), err);
        ex->vt.copy(ex, n, p, q);
        expect_ok(ex->vt.download(ex, to, q, n, &err), err);
        for (int64_t i = 0; i < n; i++) expect_true(to[i] == from[i]);
        kl_test_guards_hold(to, n);
        ex->vt.release(ex, &p);
        ex->vt.release(ex, &q);
        expect_true(p.addr == 0);
        ex->vt.release(ex, &p); /* none */
        kl_test_free(from);
        kl_test_free(to);
    }
    kl_dptr p, q;
    const int64_t live = kl_mem_live_total(); /* nothing is kept for the next */
    expect_ok(ex->vt.alloc(ex, 1 << 20, &p, &err), err);
    expect_ok(ex->vt.alloc(ex, 10, &q, &err), err);
    ex->vt.release(ex, &p);
    ex->vt.release(ex, &q);
    expect_eq(kl_mem_live_total(), live);
    p = (kl_dptr){7};
    expect_refused(ex->vt.alloc(ex, INT64_MAX / 16, &p, &err), KL_ENOMEM, err, "vectors");
    expect_true(p.addr == 0);
}

static void test_axpby(void **state)
{
    const fixture *const f = *state;
    static const double factors[][2] = {{1.0, 0.0}, {-0.7, 1.0}, {2.0, -0.3}, {0.0, 1.0}, {0.0, 0.0}};
    for (int s = 0; s < NSIZE; s++)
        for (int t = 0; t < NTHREAD; t++)
            for (int c = 0; c < 5; c++) {
                const int64_t n = sizes[s];
                const double a = factors[c][0], b = factors[c][1];
                kl_test_case("n=%lld threads=%d a=%g b=%g", (long long)n, f->ex[t]->nthread, a, b);
                double *const x = kl_test_guarded(n), *const y = kl_test_guarded(n),
                              *const old = kl_test_guarded(n);
                fill(x, n, 1);
                if (b != 0.0) fill(y, n, 2); /* else NaN, which must not be read */
                memcpy(old, y, (size_t)n * sizeof(double));
                f->ex[t]->vt.axpby(f->ex[t], n, a, dptr(x), b, dptr(y));
                for (int64_t i = 0; i < n; i++)
                    expect_near(y[i], a * x[i] + (b != 0.0 ? b * old[i] : 0.0), 4 * EPS);
                kl_test_guards_hold(y, n);
                kl_test_free(x);
                kl_test_free(y);
                kl_test_free(old);
            }
}

static void test_dots_combine(void **state)
{
    const fixture *const f = *state;
    static const int counts[] = {0, 1, 2, 4, 7, 16, 21};
    for (int s = 0; s < NSIZE; s++)
        for (int q = 0; q < 7; q++) {
            const int64_t n = sizes[s], ldv = n + 5;
            const int nvec = counts[q];
            double *const v = kl_test_guarded(nvec * ldv), *const x = kl_test_guarded(n),
                          *const y = kl_test_guarded(n);
            double *const out = kl_test_guarded(nvec), *const first = kl_test_guarded(nvec),
                          *const old = kl_test_guarded(n), *const same = kl_test_guarded(n);
            double c[21];
            fill(x, n, 4);
            fill(c, 21, 5);
            for (int j = 0; j < nvec; j++) fill(v + j * ldv, n, 10 + (uint64_t)j); /* padding stays NaN */
            for (int t = 0; t < NTHREAD; t++) {
                kl_exec *const ex = f->ex[t];
                kl_test_case("n=%lld nvec=%d threads=%d", (long long)n, nvec, ex->nthread);
                ex->vt.dots(ex, n, nvec, dptr(v), ldv, dptr(x), out);
                for (int j = 0; j < nvec; j++) {
                    double sum = 0.0;
                    for (int64_t i = 0; i < n; i++) sum += v[i + j * ldv] * x[i];
                    expect_near(out[j], sum, 4 * EPS * (double)n);
                }
                kl_test_guards_hold(out, nvec);
                /* The bits do not depend on the number of threads. */
                if (t == 0) memcpy(first, out, (size_t)nvec * sizeof(double));
                expect_true(nvec == 0 || memcmp(first, out, (size_t)nvec * sizeof(double)) == 0);
                for (int kind = 0; kind < 3; kind++) {
                    const double b = kind == 0 ? 0.0 : kind == 1 ? 1.0 : -0.4;
                    for (int64_t i = 0; i < n; i++) y[i] = NAN;
                    if (b != 0.0) fill(y, n, 6);
                    memcpy(old, y, (size_t)n * sizeof(double));
                    ex->vt.combine(ex, n, nvec, dptr(v), ldv, c, b, dptr(y));
                    for (int64_t i = 0; i < n; i++) {
                        double sum = b != 0.0 ? b * old[i] : 0.0;
                        for (int j = 0; j < nvec; j++) sum += c[j] * v[i + j * ldv];
                        expect_near(y[i], sum, 4 * EPS * (nvec + 1));
                    }
                    kl_test_guards_hold(y, n);
                    if (kind == 2 && t == 0) memcpy(same, y, (size_t)n * sizeof(double));
                    if (kind == 2) expect_true(n == 0 || memcmp(same, y, (size_t)n * sizeof(double)) == 0);
                }
            }
            kl_test_free(v);
            kl_test_free(x);
            kl_test_free(y);
            kl_test_free(out);
            kl_test_free(first);
            kl_test_free(old);
            kl_test_free(same);
        }
}

static void test_precondition(void **state)
{
    const fixture *const f = *state;
    for (int s = 0; s < NSIZE; s++)
        for (int t = 0; t < NTHREAD; t++)
            for (int in_place = 0; in_place < 2; in_place++) {
                const int64_t n = sizes[s];
                kl_test_case("n=%lld threads=%d in place=%d", (long long)n, f->ex[t]->nthread, in_place);
                double *const d = kl_test_guarded(n), *const r = kl_test_guarded(n),
                              *const out = kl_test_guarded(n), *const old = kl_test_guarded(n);
                fill(d, n, 1);
                fill(r, n, 2);
                /* one denominator is exactly zero */
                const double theta = n > 0 ? d[n / 2] : 0.0, floor = 0.2;
                memcpy(old, r, (size_t)n * sizeof(double));
                double *const to = in_place ? r : out;
                f->ex[t]->vt.precondition(f->ex[t], n, dptr(d), theta, floor, dptr(r), dptr(to));
                for (int64_t i = 0; i < n; i++) {
                    double gap = d[i] - theta;
                    if (fabs(gap) < floor) gap = gap < 0.0 ? -floor : floor;
                    expect_near(to[i], old[i] / gap, 4 * EPS / floor);
                }
                kl_test_guards_hold(to, n);
                kl_test_free(d);
                kl_test_free(r);
                kl_test_free(out);
                kl_test_free(old);
            }
}

/* A step of Davidson's method: x = V y, r = W y - theta x; t = (r - e x) / M, which may replace r. */
static void test_davidson_step(void **state)
{
    const fixture *const f = *state;
    static const int counts[] = {1, 2, 3, 5, 6, 9};
    for (int s = 0; s < NSIZE; s++)
        for (int q = 0; q < 6; q++) {
            const int64_t n = sizes[s], ld = n + 3;
            const int k = counts[q];
            double *const v = kl_test_guarded(k * ld), *const w = kl_test_guarded(k * ld),
                          *const d = kl_test_guarded(n), *const t = kl_test_guarded(n);
            double *const out[4] = {kl_test_guarded(n), kl_test_guarded(n), kl_test_guarded(n),
                                    kl_test_guarded(n)};
            double y[9], first[3];
            fill(y, 9, 5);
            fill(d, n, 6);
            for (int j = 0; j < k; j++) { /* padding stays NaN */
                fill(v + j * ld, n, 10 + (uint64_t)j);
                fill(w + j * ld, n, 30 + (uint64_t)j);
            }
            /* one denominator is exactly zero */
            const double theta = n > 0 ? d[n / 2] : 0.0, floor = 0.2;
            for (int thread = 0; thread < NTHREAD; thread++) {
                kl_exec *const ex = f->ex[thread];
                double *const x = out[thread > 0 ? 2 : 0], *const r = out[thread > 0 ? 3 : 1];
                double told[3], want[3] = {0, 0, 0};
                kl_test_case("n=%lld k=%d threads=%d", (long long)n, k, ex->nthread);
                const kl_ritz z = {k, ld, dptr(v), dptr(w), dptr(x), dptr(r), y, theta};
                ex->vt.ritz(ex, n, &z, &told[0]);
                kl_correction c = {dptr(d), dptr(r), dptr(x), dptr(t), theta, floor, 0.3};
                ex->vt.correct_dots(ex, n, &c, told + 1);
                ex->vt.correct(ex, n, &c);
                for (int64_t i = 0; i < n; i++) {
                    double a = 0, b = 0, gap = d[i] - theta;
                    for (int j = 0; j < k; j++) {
                        a += y[j] * v[i + j * ld];
                        b += y[j] * w[i + j * ld];
                    }
                    if (fabs(gap) < floor) gap = gap < 0.0 ? -floor : floor;
                    expect_near(x[i], a, 4 * EPS * (k + 1));
                    expect_near(r[i], b - theta * a, 8 * EPS * (k + 1));
                    expect_near(t[i], (r[i] - 0.3 * x[i]) / gap, 16 * EPS / floor * (k + 1));
                    want[0] += r[i] * r[i];
                    want[1] += r[i] * x[i] / gap;
                    want[2] += x[i] * x[i] / gap;
                }
                for (int j = 0; j < 3; j++)
                    expect_near(told[j], want[j], 64 * EPS * (double)(n + 1) * k * k / floor);
                if (thread == 0) memcpy(first, told, sizeof first);
                /* The bits do not depend on the number of threads. */
                expect_true(memcmp(first, told, sizeof first) == 0);
                expect_true(n == 0 || (memcmp(x, out[0], (size_t)n * sizeof *x) == 0 &&
                                       memcmp(r, out[1], (size_t)n * sizeof *r) == 0));
                c.t = c.r;
                ex->vt.correct(ex, n, &c);
                expect_true(n == 0 || memcmp(r, t, (size_t)n * sizeof *r) == 0);
                ex->vt.ritz(ex, n, &z, &told[0]);
                kl_test_guards_hold(t, n);
                kl_test_guards_hold(x, n);
                kl_test_guards_hold(r, n);
            }
            kl_test_free(v);
            kl_test_free(w);
            kl_test_free(d);
            kl_test_free(t);
            for (int i = 0; i < 4; i++) kl_test_free(out[i]);
        }
}

/* Groups of two products through WORK that write `rows` of a segment's n rows, zeros where there are more. */
static kl_status list_of_groups(int ngroup, int n, int rows, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    for (int g = 0; g < ngroup; g++) {
        KL_TRY(kl_batch_open_group(b, (int64_t)g * n * n, (int64_t)n * n, err));
        KL_TRY(kl_batch_reserve(b, 2, err));
        kl_rec r = {.kind = KL_REC_GEMM, .m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n, .alpha = 1};
        r.at_a = KL_AT_LEFT, r.at_b = KL_AT_X, r.at_c = KL_AT_WORK, r.b = (int64_t)g * n * n;
        *kl_batch_push(b) = r;
        r.at_a = KL_AT_LEFT, r.at_b = KL_AT_WORK, r.at_c = KL_AT_Y, r.b = 0, r.c = (int64_t)g * n * n;
        r.m = rows, r.beta = 1;
        *kl_batch_push(b) = r;
        kl_batch_close_group(b, (int64_t)n * n);
    }
    b->zero = b->lasting = 1;
    b->nx = b->ny = (int64_t)ngroup * n * n;
    KL_TRY(kl_batch_close(b, err));
out:
    return st;
}

/* Vectors side by side have the bits that they have one by one, in lists for one thread and for many. */
static void test_batch_many(void **state)
{
    enum {
        NVEC = 5,
        PAD = 7,
    };
    static const int shape[][3] = {{2, 3, 3},   {7, 12, 12},   {7, 12, 9},
                                   {5, 60, 60}, {2, 150, 150}, {2, 150, 90}};
    fixture *const f = *state;
    for (size_t k = 0; k < sizeof shape / sizeof *shape; k++) {
        kl_err err = {""};
        kl_batch b;
        const int n = shape[k][1];
        const int64_t len = (int64_t)shape[k][0] * n * n, ld = len + PAD;
        double *const x = kl_test_guarded(NVEC * ld), *const left = kl_test_guarded((int64_t)n * n);
        double *const one = kl_test_guarded(NVEC * ld), *const many = kl_test_guarded(NVEC * ld);
        kl_batch_init(&b);
        expect_ok(list_of_groups(shape[k][0], n, shape[k][2], &b, &err), err);
        fill(x, NVEC * ld, k), fill(left, (int64_t)n * n, k + 9);
        b.base[KL_AT_LEFT] = dptr(left);
        for (int t = 0; t < NTHREAD; t++) {
            kl_exec *const ex = f->ex[t];
            kl_test_case("%d groups of %d rows, %d threads", shape[k][0], n, ex->nthread);
            expect_ok(ex->vt.batch_prepare(ex, &b, &err), err);
            for (int v = 0; v < NVEC && t == 0; v++)
                expect_ok(ex->vt.batch_apply(ex, &b, dptr(x + v * ld), dptr(one + v * ld), &err), err);
            expect_ok(ex->vt.batch_apply_many(ex, &b, NVEC, dptr(x), ld, dptr(many), ld, &err), err);
            ex->vt.batch_release(ex, &b);
            for (int v = 0; v < NVEC; v++)
                expect_true(memcmp(one + v * ld, many + v * ld, (size_t)len * sizeof *one) == 0);
            for (int i = 0; i < PAD; i++) expect_true(isnan(many[len + i]));
        }
        double sum = 0;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) sum += left[i * n] * left[i + j * n] * x[j];
        expect_near(one[0], sum, 1e-12 * n * n);
        if (shape[k][2] < n) expect_eq(one[n - 1], 0);
        kl_batch_clear(&b);
        kl_test_free(x), kl_test_free(left), kl_test_free(one), kl_test_free(many);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),         cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_axpby),        cmocka_unit_test(test_dots_combine),
        cmocka_unit_test(test_precondition), cmocka_unit_test(test_davidson_step),
        cmocka_unit_test(test_batch_many),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
