/* Products with H on devices: the packed lists walked on the host as a device walks them, the kernels' own
   text run there (warps.h), then, where there is a GPU, the CUDA and offload executors themselves, each
   against the host executor; models of all kinds, unequal fillings, odd sizes, groups so small that most
   entries cross their borders. With KL_TEST_MUST_RUN a missing GPU is a failure.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "exec/kronparts.h"
#include "device/devkron.h"
#include "ed/ed.h"
#include "kl_test.h"
#include "warps.h"
#include "device/kron_device.h"

enum { LANES = KL_KRON_LANES };

/* ---------------------------------------------------------------- the lists on the host */

static void *get_block(void *ctx, int64_t bytes)
{
    return (void)ctx, aligned_alloc(256, (size_t)(bytes + 255) / 256 * 256);
}
static void give_block(void *ctx, void *block) { (void)ctx, free(block); }
static int put_bytes(void *ctx, void *to, const void *from, int64_t bytes)
{
    return (void)ctx, memcpy(to, from, (size_t)bytes), 0;
}

/* Entry of slot k (near slots first, then far ones) in `row`: its column, -1 for none, and value. */
static int64_t entry(const kl_devkron_op *o, int right, int64_t row, uint32_t g0, uint32_t g1, int k,
                     double *value)
{
    const int rows = right ? KL_DEVKRON_RIGHT_ROWS : KL_DEVKRON_LEFT_ROWS;
    const kl_devkron_span *const s = &o->span[row / rows];
    const int far = k >= 2 * (int)s->near_count, slot = far ? k - 2 * (int)s->near_count : k;
    const int64_t pair = (far     ? s->far_first
                          : right ? s->near_first
                                  : 2 * (int64_t)s->near_first) +
                         slot / 2,
                  coef = (2 * pair + slot % 2) * rows + row % rows;
    if (slot >= 2 * (int)(far ? s->far_count : s->near_count)) return -2;
    if (far) {
        const uint32_t e = kl_devkron_far(o, s->far_first, slot, rows, (int)(row % rows));
        *value = o->unit ? (e >> 31 ? -o->scale : o->scale) : o->far_coef[coef];
        return (e & 0x7fffffff) == KL_DEVKRON_NONE ? -1 : (int64_t)(e & 0x7fffffff);
    }
    const uint32_t word = o->near[kl_devkron_near_at(s->near_first, slot / 2, right, (int)(row % rows))],
                   local = kl_devkron_near_state(word, slot % 2, right),
                   n = (g1 - g0 + LANES - 1) / LANES * LANES;
    *value =
        o->unit ? (kl_devkron_near_minus(word, slot % 2, right) ? -o->scale : o->scale) : o->near_coef[coef];
    return local >= n ? -1 : (int64_t)(g0 + local);
}

/* Rows that meet in an access want different banks, in every near slot, those without an entry too. */
static void check_banks(const kl_devkron_op *o, int right, int64_t nrow)
{
    const int rows = right ? KL_DEVKRON_RIGHT_ROWS : KL_DEVKRON_LEFT_ROWS, meet = right ? LANES : 2;
    for (int64_t t = 0; o->near && t < (nrow + rows - 1) / rows; t++)
        for (int slot = 0; slot < 2 * (int)o->span[t].near_count; slot++)
            for (int first = 0; first < rows; first += meet) {
                unsigned seen = 0;
                for (int i = first; i < first + meet; i++) {
                    const uint32_t w = o->near[kl_devkron_near_at(o->span[t].near_first, slot / 2, right, i)];
                    seen |= 1u << kl_devkron_near_state(w, slot % 2, right) % (unsigned)meet;
                }
                expect_true(seen == (1u << meet) - 1);
            }
}

static double diagonal(const kl_devkron_block *b, int64_t l, int64_t r)
{
    const int64_t width = b->ntile * LANES;
    double d = (b->dl ? b->dl[l] : 0.0) + b->dr[r];
    if (b->even && b->nbit > 0) d += b->bit_value * __builtin_popcountll(kl_devkron_mask(b, l) & b->with[r]);
    for (int k = 0; k < b->nbit && !b->even; k++)
        d += (kl_devkron_mask(b, l) >> k & 1) ? b->bits[k * width + r] : 0.0;
    for (int f = 0; f < b->nfeature; f++) d += b->fl[l * b->nfeature + f] * b->fr[f * width + r];
    return d;
}

static int64_t place(const kl_devkron_block *b, int64_t l, int64_t r)
{
    return b->off + (r / LANES * b->nl + l) * LANES + r % LANES;
}

static void walk(const kl_devkron *p, const double *x, double *y)
{
    for (int64_t i = 0; i < p->nright; i++) {
        const kl_devkron_block *const b = &p->block[p->right[i].block];
        const uint32_t g0 = b->right.group[p->right[i].group], g1 = b->right.group[p->right[i].group + 1];
        const int64_t nl8 = (b->nl + LANES - 1) / LANES * LANES;
        for (int64_t l = (int64_t)p->right[i].strip * LANES;
             l < b->nl && l < ((int64_t)p->right[i].strip + 1) * LANES; l++)
            for (int64_t r = g0; r < g1; r++) {
                double sum = 0.0, v = 0.0;
                int64_t j;
                for (int k = 0; (j = entry(&b->right, 1, r, g0, g1, k, &v)) != -2; k++)
                    if (j >= 0) sum += v * x[place(b, l, j)];
                for (int c = 0; c < b->ncross; c++) {
                    const kl_devkron_cross *const g = &b->cross[c];
                    for (int m = 0; m < g->most; m++) {
                        const double va = g->val[m * nl8 + l];
                        for (int k = 0; va != 0.0 && (j = entry(&g->b, 1, r, 0, 0, k, &v)) != -2; k++)
                            if (j >= 0)
                                sum +=
                                    va * v *
                                    x[g->off + (j / LANES * g->nl + g->col[m * nl8 + l]) * LANES + j % LANES];
                    }
                }
                expect_true(isnan(y[place(b, l, r)])); /* every element once */
                y[place(b, l, r)] = sum;
            }
    }
    for (int64_t i = 0; i < p->nleft; i++) {
        const kl_devkron_block *const b = &p->block[p->left[i].block];
        const uint32_t g0 = b->left.group[p->left[i].group], g1 = b->left.group[p->left[i].group + 1];
        for (int64_t r = (int64_t)p->left[i].strip * LANES;
             r < b->nr && r < ((int64_t)p->left[i].strip + 1) * LANES; r++)
            for (int64_t l = g0; l < g1; l++) {
                double sum = diagonal(b, l, r) * x[place(b, l, r)], v = 0.0;
                int64_t j;
                for (int k = 0; (j = entry(&b->left, 0, l, g0, g1, k, &v)) != -2; k++)
                    if (j >= 0) sum += v * x[place(b, j, r)];
                y[place(b, l, r)] += sum;
            }
    }
}

enum {
    LEFT_TEAM = 96,
    RIGHT_TEAM = 64,
};

typedef struct team {
    const kl_devkron *p;
    kl_devkron_item item;
    int plain, adds;
    double *memory, *y, sum;
    const double *x;
    const kl_kron_others *others; /* NULL: x is whole */
} team;

static void right_thread(void *arg)
{
    team *const t = arg;
    double part = 0.0; /* one thread is told */
    kl_kron_others mine = {0};
    if (t->others) mine = *t->others, mine.partial = &part;
    kl_kron_right(&t->p->block[t->item.block], t->item, RIGHT_TEAM, t->plain ? t->p->plain_right : 0,
                  t->others ? &mine : NULL, t->memory, t->x, t->y);
    t->sum += part;
}

static void left_thread(void *arg)
{
    team *const t = arg;
    double part = 0.0; /* one thread is told */
    const kl_kron_room room = {t->memory, kl_kron_table_at(t->p)};
    kl_kron_left(&t->p->block[t->item.block], t->item, LEFT_TEAM, t->plain ? t->p->plain_left : 0, t->adds,
                 room, t->x, t->y, &part);
    t->sum += part;
}

/* The kernels themselves, whatever they come to be compiled for: as plain as the lists allow, and as if these
   allowed nothing. Returns x . y. */
static double run_kernels(const kl_devkron *p, int plain, const double *x, double *y)
{
    const int bytes[2] = {kl_kron_left_bytes(p), kl_kron_right_bytes(p)};
    double *const memory = aligned_alloc(128, (size_t)(bytes[bytes[1] > bytes[0]] + 127) / 128 * 128);
    team t = {.p = p, .plain = plain, .adds = 1, .memory = memory, .x = x, .y = y};
    warps.memory = (char *)memory;
    for (int right = 1; right >= 0; right--) {
        warps.bytes = bytes[right];
        for (int64_t i = 0; i < (right ? p->nright : p->nleft); i++) {
            t.item = right ? p->right[i] : p->left[i];
            memset(memory, 0xff, (size_t)warps.bytes); /* NaN */
            warps_run(1, right ? RIGHT_TEAM : LEFT_TEAM, right ? right_thread : left_thread, &t);
        }
    }
    free(memory);
    return t.sum;
}

/* ---------------------------------------------------------------- a product in parts */

/* Tiles of x that `part' reads beyond its own, left states [first, last). */
static double *others_of(const kl_kron_block *b, int64_t nother, const int64_t *other, int64_t first,
                         int64_t last, const double *x)
{
    const int64_t n = (last - first) * LANES;
    double *const to = aligned_alloc(64, (size_t)(nother * n + 8) * sizeof *to);
    for (int64_t i = 0; i < nother; i++)
        memcpy(to + i * n, x + (other[i] * b->nl + first) * LANES, (size_t)n * sizeof *to);
    return to;
}

/* y of the tiles [low, high) of the one block of k; x . y of them. */
static double run_parts(const kl_kron *k, int64_t low, int64_t high, const kl_devkron_opts *o, int plain,
                        const double *x, double *y)
{
    kl_err err = {""};
    const kl_kron_block *const b = k->block;
    const int64_t most = 0, middle = b->nl / 2 / LANES * LANES;
    const int64_t border[] = {0, middle, b->nl};
    kl_pool pool = {.get = get_block, .give = give_block, .put = put_bytes, .most = &most};
    const kl_kronborder from = {0, low}, to = {0, high};
    char *const wanted = calloc((size_t)b->ntile, 1);
    int64_t *const other = calloc((size_t)b->ntile, sizeof *other), nother = 0;
    kl_kron *part;
    kl_kronparts_wanted(k, low, high, wanted);
    for (int64_t t = 0; t < b->ntile; t++)
        if (wanted[t]) other[nother++] = t;
    expect_ok(kl_kronparts_beyond(k, &from, &to, nother, other, &part, &err), err);
    expect_ok(kl_devkron_prepare(part, o, &pool, &err), err);
    const kl_devkron *const p = part->device;
    const int bytes[2] = {kl_kron_left_bytes(p), kl_kron_right_bytes(p)};
    double *const memory = aligned_alloc(128, (size_t)(bytes[bytes[1] > bytes[0]] + 127) / 128 * 128);
    team t = {.p = p, .plain = plain, .memory = memory, .x = x + low * b->nl * LANES, .y = y};
    warps.memory = (char *)memory;
    warps.bytes = bytes[0];
    for (int64_t i = 0; i < p->nleft; i++) {
        t.item = p->left[i];
        memset(memory, 0xff, (size_t)warps.bytes);
        warps_run(1, LEFT_TEAM, left_thread, &t);
    }
    warps.bytes = bytes[1];
    for (int half = 0; half < 2; half++) {
        const int64_t first = border[half], last = border[half + 1];
        double *const others = others_of(b, nother, other, first, last, x);
        for (int64_t i = 0; i < p->nright; i++) {
            const int64_t l = (int64_t)p->right[i].strip * LANES;
            if (l < first || l >= last) continue;
            const kl_kron_others there = {others + (l - first) * LANES, (uint32_t)((last - first) * LANES),
                                          (uint32_t)(high - low), NULL};
            t.item = p->right[i];
            t.others = &there;
            memset(memory, 0xff, (size_t)warps.bytes);
            warps_run(1, RIGHT_TEAM, right_thread, &t);
        }
        free(others);
    }
    kl_devkron_release(part, &pool);
    kl_pool_clear(&pool);
    kl_kronparts_beyond_destroy(&part);
    free(memory), free(wanted), free(other);
    return t.sum;
}

/* ---------------------------------------------------------------- cases */

/* Wanted: y = H x by the host, and its size; the same of a vector that is 1 where last tiles have no states,
   and 0 elsewhere. */
typedef struct sample {
    kl_ed *ed;
    int64_t n;
    double *x, *y, size, dot;
    double *beyond, *beyond_y;
} sample;

static sample take_sample(const core_job *j, kl_qn q, kl_bipartition_form form)
{
    kl_err err = {""};
    sample s = {0};
    expect_ok(kl_ed_create(j->terms, q, form, j->ex, &s.ed, &err), err);
    s.n = s.ed->op.n;
    s.x = calloc((size_t)s.n, sizeof *s.x), s.y = calloc((size_t)s.n, sizeof *s.y);
    s.beyond = calloc((size_t)s.n, sizeof *s.beyond), s.beyond_y = calloc((size_t)s.n, sizeof *s.beyond_y);
    kl_dptr x, y;
    double dot;
    expect_ok(j->ex->vt.alloc(j->ex, s.n, &x, &err), err);
    expect_ok(j->ex->vt.alloc(j->ex, s.n, &y, &err), err);
    expect_ok(kl_ed_random(s.ed, 7, x, &err), err);
    expect_ok(j->ex->vt.kron_apply(j->ex, s.ed->kron, x, y, &s.dot, &err), err);
    core_download(j->ex, s.n, x, s.x);
    core_download(j->ex, s.n, y, s.y);
    for (int64_t i = 0; i < s.n; i++) s.size = fmax(s.size, fabs(s.y[i]));
    s.size = fmax(s.size, 1.0);
    for (int64_t i = 0; i < s.n; i++) s.beyond[i] = !kl_bipartition_unrank(s.ed->space, i, (int[64]){0});
    expect_ok(j->ex->vt.upload(j->ex, x, s.beyond, s.n, &err), err);
    expect_ok(j->ex->vt.kron_apply(j->ex, s.ed->kron, x, y, &dot, &err), err);
    core_download(j->ex, s.n, y, s.beyond_y);
    j->ex->vt.release(j->ex, &x);
    j->ex->vt.release(j->ex, &y);
    j->ex->vt.kron_release(j->ex, s.ed->kron);
    return s;
}

static void drop_sample(const core_job *j, sample *s)
{
    kl_err err = {""};
    expect_ok(j->ex->vt.kron_prepare(j->ex, s->ed->kron, &err), err); /* what ed releases */
    kl_ed_destroy(&s->ed);
    free(s->x), free(s->y), free(s->beyond), free(s->beyond_y);
}

static void on_host(const core_job *j, kl_qn q, kl_bipartition_form form)
{
    static const kl_devkron_opts opts[] = {{{{64, 24}, {64, 24}}, {{64, 32}, {64, 32}}},
                                           {{{96, 24}, {160, 24}}, {{128, 32}, {192, 32}}},
                                           {{{1760, 24}, {1760, 24}}, {{1536, 32}, {1536, 32}}}};
    sample s = take_sample(j, q, form);
    double *const y = calloc((size_t)s.n, sizeof *y);
    for (size_t i = 0; i < sizeof opts / sizeof *opts; i++) {
        kl_err err = {""};
        const int64_t most = 0;
        kl_pool pool = {.get = get_block, .give = give_block, .put = put_bytes, .most = &most};
        expect_ok(kl_devkron_prepare(s.ed->kron, &opts[i], &pool, &err), err);
        const kl_devkron *const p = s.ed->kron->device;
        expect_true(p->left_states <= opts[i].left[p->left_room].most &&
                    p->right_states <= opts[i].right[p->right_room].most);
        for (int64_t k = 0; k < s.n; k++)
            y[k] = kl_bipartition_unrank(s.ed->space, k, (int[64]){0}) ? NAN : 0.0;
        walk(p, s.x, y);
        for (int64_t k = 0; k < p->nblock; k++) {
            check_banks(&p->block[k].left, 0, p->block[k].nl);
            check_banks(&p->block[k].right, 1, p->block[k].nr);
        }
        for (int64_t k = 0; k < s.n; k++) expect_near(y[k], s.y[k], 1e-13 * s.size);
        for (int plain = 1; plain >= KL_TEST_WATCHED; plain--) {
            for (int64_t k = 0; k < s.n; k++) y[k] = (double)NAN;
            expect_near(run_kernels(p, plain, s.x, y), s.dot, 1e-13 * s.size * (double)s.n);
            for (int64_t k = 0; k < s.n; k++) expect_near(y[k], s.y[k], 1e-13 * s.size);
            /* solvers may take random directions that have a part there: it must lie above all of H, and stay
               there */
            run_kernels(p, plain, s.beyond, y);
            for (int64_t k = 0; k < s.n; k++) expect_near(y[k], s.beyond_y[k], 1e-12 * s.size);
        }
        kl_devkron_release(s.ed->kron, &pool);
        kl_pool_clear(&pool);
        const kl_kron_block *const b = s.ed->kron->block;
        if (s.ed->kron->nblock > 1 || b->ncross > 0 || !b->b || b->ntile < 2) continue;
        for (int plain = 1; plain >= KL_TEST_WATCHED; plain--) {
            const int64_t third = (b->ntile + 2) / 3, tile = b->nl * LANES;
            double dot = 0.0;
            for (int64_t k = 0; k < s.n; k++) y[k] = (double)NAN;
            dot += run_parts(s.ed->kron, 0, third, &opts[i], plain, s.x, y);
            dot += run_parts(s.ed->kron, third, b->ntile, &opts[i], plain, s.x, y + third * tile);
            for (int64_t k = 0; k < s.n; k++) expect_near(y[k], s.y[k], 1e-13 * s.size);
            expect_near(dot, s.dot, 1e-13 * s.size * (double)s.n);
        }
    }
    free(y);
    drop_sample(j, &s);
}

static kl_exec *devices[2], *device; /* CUDA, offload, NULL where there is none; the one at work */

static void on_device(const core_job *j, kl_qn q, kl_bipartition_form form)
{
    static const char *const states[] = {"64", "96", ""};
    sample s = take_sample(j, q, form);
    const kl_vtable *const vt = &device->vt;
    double *const y = calloc((size_t)s.n, sizeof *y), *const want = calloc((size_t)s.n, sizeof *want);
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        kl_err err = {""};
        kl_dptr dx, dy;
        double dot = 0.0;
        setenv("KRONLAT_KRON_STATES", states[i], 1);
        expect_ok(vt->kron_prepare(device, s.ed->kron, &err), err);
        expect_ok(vt->alloc(device, s.n + 16, &dx, &err), err);
        expect_ok(vt->alloc(device, s.n + 16, &dy, &err), err);
        vt->fill(device, s.n + 16, (double)NAN, dx);
        vt->fill(device, s.n + 16, (double)NAN, dy);
        if (vt->kron_random) {
            expect_ok(vt->kron_random(device, s.ed->kron, 7, 0, kl_dptr_at(dx, 8), &err), err);
            core_download(device, s.n, kl_dptr_at(dx, 8), y);
            for (int64_t k = 0; k < s.n; k++) expect_true(y[k] == s.x[k]);
            expect_ok(vt->kron_random(device, s.ed->kron, 7, 900, kl_dptr_at(dx, 8), &err), err);
            core_download(device, s.n, kl_dptr_at(dx, 8), y);
            for (int64_t k = 0; k < s.n; k++)
                expect_true(y[k] == (s.x[k] == 0.0 ? 0.0 : kl_random_at(7, 900 + k)));
        }
        expect_ok(vt->upload(device, kl_dptr_at(dx, 8), s.x, s.n, &err), err);
        expect_ok(vt->kron_apply(device, s.ed->kron, kl_dptr_at(dx, 8), kl_dptr_at(dy, 8), &dot, &err), err);
        core_download(device, s.n, kl_dptr_at(dy, 8), y);
        for (int64_t k = 0; k < s.n; k++) expect_near(y[k], s.y[k], 1e-13 * s.size);
        expect_near(dot, s.dot, 1e-13 * s.size * (double)s.n);
        expect_ok(vt->upload(device, kl_dptr_at(dx, 8), s.beyond, s.n, &err), err);
        expect_ok(vt->kron_apply(device, s.ed->kron, kl_dptr_at(dx, 8), kl_dptr_at(dy, 8), NULL, &err), err);
        core_download(device, s.n, kl_dptr_at(dy, 8), want);
        for (int64_t k = 0; k < s.n; k++) expect_near(want[k], s.beyond_y[k], 1e-12 * s.size);
        expect_ok(vt->upload(device, kl_dptr_at(dx, 8), s.x, s.n, &err), err);
        double again = 0.0, guard[8];
        vt->fill(device, s.n, (double)NAN, kl_dptr_at(dy, 8));
        expect_ok(vt->kron_apply(device, s.ed->kron, kl_dptr_at(dx, 8), kl_dptr_at(dy, 8), &again, &err),
                  err);
        core_download(device, s.n, kl_dptr_at(dy, 8), want);
        expect_true(again == dot && memcmp(want, y, (size_t)s.n * sizeof *y) == 0);
        for (int side = 0; side < 2; side++) {
            core_download(device, 8, kl_dptr_at(dy, side ? s.n + 8 : 0), guard);
            for (int k = 0; k < 8; k++) expect_true(isnan(guard[k]));
        }
        if (vt->kron_diagonal) {
            kl_kron_diagonal(s.ed->kron, 0, s.ed->kron->n, want);
            expect_ok(vt->kron_diagonal(device, s.ed->kron, kl_dptr_at(dy, 8), &err), err);
            core_download(device, s.n, kl_dptr_at(dy, 8), y);
            for (int64_t k = 0; k < s.n; k++) expect_near(y[k], want[k], 1e-13 * (s.size + fabs(want[k])));
        }
        vt->release(device, &dx);
        vt->release(device, &dy);
        vt->kron_release(device, s.ed->kron);
        s.ed->kron->device = NULL;
    }
    unsetenv("KRONLAT_KRON_STATES");
    free(y), free(want);
    drop_sample(j, &s);
}

typedef struct job {
    const char *model, *lattice, *sets, *charge;
} job;

static const job jobs[] = {
    {"hubbard", "ladder:3x2", NULL, "N_up=3 N_dn=3"},
    {"hubbard", "square:3x3", "U=4", "N_up=4 N_dn=4"},
    {"hubbard", "square:3x3", "U=4", "N_up=2 N_dn=7"},
    {"hubbard", "torus:3x4", "U=3", "N_up=6 N_dn=5"},
    {"hubbard", "ladder:5x2", "U=4", "N_up=1 N_dn=9"},
    {"hubbard", "chain:11", "U=-2", "N_up=0 N_dn=5"},
    {"hubbard", "ring:9", "U=4 mu=uniform(-1,1)", "N_up=4 N_dn=3"},
    {"extended_hubbard", "square:3x3", "U=4 V=0.5", "N_up=4 N_dn=5"},
    {"heisenberg", "ring:17", NULL, "Sz=1/2"},
    {"heisenberg", "torus:4x4", NULL, "Sz=0"},
    {"bose_hubbard", "chain:7", NULL, "N=7"},
    {"kondo", "chain:5", NULL, "N=5 Sz=0"},
    {"holstein", "chain:3", NULL, "N_up=2 N_dn=1"},
    {"tj", "square:3x3", NULL, "N_up=3 N_dn=3"},
    {"pairing", "chain:10", NULL, "parity=0"},
    {"ising", "ring:12", NULL, "parity=1"},
};

static void each_job(void (*check)(const core_job *, kl_qn, kl_bipartition_form))
{
    const int all = sizeof jobs / sizeof *jobs, step = device ? kl_test_step(all) : kl_test_stride(all, 3);
    for (int i = 0; i < all; i += step) {
        const job *const k = &jobs[i];
        core_job j;
        core_open(&j, core_model(k->model, NULL), k->lattice, NULL, k->sets);
        for (int form = KL_BIPARTITION_SITES; form <= KL_BIPARTITION_FLAVOURS; form++) {
            kl_err err = {""};
            kl_bipartition_size size;
            const kl_qn q = core_charge(j.model, k->charge);
            if (kl_bipartition_measure(j.terms, q, (kl_bipartition_form)form, &size, &err) != KL_OK) continue;
            kl_test_case("%s, %s, %s, %s", j.name, k->charge,
                         form == KL_BIPARTITION_SITES ? "sites" : "flavours",
                         device ? device->name : "lists");
            check(&j, q, (kl_bipartition_form)form);
        }
        core_close(&j);
    }
}

/* Random parameters: no entry is like another, no bit is worth the same everywhere. */
static void each_random(void (*check)(const core_job *, kl_qn, kl_bipartition_form))
{
    const int all = sizeof jobs / sizeof *jobs, step = device ? kl_test_step(all) : kl_test_stride(all, 5);
    for (int i = step / 2; i < all; i += step) {
        core_job j;
        core_open_random(&j, core_model(jobs[i].model, NULL), jobs[i].lattice, NULL, 100 + i);
        kl_test_case("%s, %s, %s", j.name, jobs[i].charge, device ? device->name : "lists");
        check(&j, core_charge(j.model, jobs[i].charge), KL_BIPARTITION_AUTO);
        core_close(&j);
    }
}

static void test_lists(void **state)
{
    (void)state;
    each_job(on_host);
}

static void test_lists_random(void **state)
{
    (void)state;
    each_random(on_host);
}

static void test_device(void **state)
{
    (void)state;
    if (!devices[0] && !devices[1]) skip();
    for (int i = 0; i < 2; i++) {
        device = devices[i];
        if (!device) continue;
        each_job(on_device);
        each_random(on_device);
    }
}

/* What a pool says where no more is allowed: in bytes that it takes, also for a block of nothing. */
static void test_limit(void **state)
{
    (void)state;
    kl_err err = {""};
    const int64_t most = 1000;
    kl_pool pool = {.get = get_block, .give = give_block, .put = put_bytes, .most = &most};
    void *block, *none;
    expect_ok(kl_pool_alloc(&pool, 400, &block, &err), err);
    expect_eq(kl_pool_alloc(&pool, 0, &none, &err), KL_ENOMEM);
    expect_true(strstr(err.text, "512 of 1000 bytes are taken, 512 more are wanted (--device-memory)") !=
                NULL);
    kl_pool_release(&pool, block);
    kl_pool_clear(&pool);
}

static void test_memory(void **state)
{
    (void)state;
    core_no_memory();
}

/* The GPU, where there is one, by each executor that was built. */
static int open_devices(void **state)
{
    (void)state;
    const char *const must = getenv("KL_TEST_MUST_RUN");
    for (int i = 0; i < 2; i++) {
        kl_err err = {""};
        const kl_status st = i == 0 ? kl_exec_open_cuda(KL_ANY_DEVICE, &devices[i], &err)
                                    : kl_exec_open_offload(KL_ANY_DEVICE, 0, &devices[i], &err);
        if (st == KL_OK) continue;
        devices[i] = NULL;
        if (st == KL_EABSENT && !must) continue;
        print_error("%s\n", err.text);
        return -1;
    }
    return 0;
}

static int close_devices(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        if (devices[i]) kl_exec_close(&devices[i]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_lists_random),
        cmocka_unit_test_setup_teardown(test_device, open_devices, close_devices),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
