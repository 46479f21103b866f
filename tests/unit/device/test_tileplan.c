/* Launches from records, run here piece by piece in any order that blocks of a device may take them, against
   the records run one by one: random lists, every kind of block that a kernel may have. What one tile writes
   and another reads without having been told to wait shows as a difference.
   SPDX-License-Identifier: Apache-2.0 */
#include "kl_test.h"
#include "lists.h"
#include "device/tileplan.h"
#include "device/tileshape.h"
#include "record/concat.h"
#include <stdlib.h>

typedef struct memory {
    int64_t room, ny;
    double *x, *left, *right, *y;
} memory;

static const double *from(const kl_rec *r, int second, const memory *m, const double *work)
{
    const int at = second ? r->at_b : r->at_a;
    return (at == KL_AT_X       ? m->x
            : at == KL_AT_LEFT  ? m->left
            : at == KL_AT_RIGHT ? m->right
            : at == KL_AT_Y     ? m->y
                                : work) +
           (second ? r->b : r->a);
}

/* The records in their order. */
static void run_records(const kl_batch *b, const memory *m, double *work)
{
    for (int g = 0; g < b->ngroup; g++) {
        const kl_group *const q = &b->group[g];
        for (int64_t i = 0; b->zero && i < q->ny; i++) m->y[q->y + i] = 0.0;
        for (int64_t i = q->first; i < q->last; i++) {
            const kl_rec *const r = &b->rec[i];
            double *const c = (r->at_c == KL_AT_Y ? m->y : work) + r->c;
            for (int col = 0; col < r->n; col++)
                for (int row = 0; row < r->m; row++) {
                    double s = r->kind == KL_REC_FILL ? 1.0 : 0.0;
                    if (r->kind == KL_REC_ADD)
                        s = from(r, 0, m,
                                 work)[r->ta ? col + (int64_t)row * r->lda : row + (int64_t)col * r->lda];
                    for (int k = 0; r->kind == KL_REC_GEMM && k < r->k; k++)
                        s += from(r, 0, m,
                                  work)[r->ta ? k + (int64_t)row * r->lda : row + (int64_t)k * r->lda] *
                             from(r, 1, m,
                                  work)[r->tb ? col + (int64_t)k * r->ldb : k + (int64_t)col * r->ldb];
                    double *const to = c + row + (int64_t)col * r->ldc;
                    *to = r->alpha * s + (r->beta ? *to : 0.0);
                }
        }
    }
}

static void run_cells(const kl_tile_plan *p, const kl_launch *l, const memory *m)
{
    for (const kl_tile_cell *c = p->cell + l->first; c < p->cell + l->first + l->n; c++)
        for (int col = c->col; col < c->col + c->n; col++)
            for (int row = c->row; row < c->row + c->m; row++) {
                double *const to = (double *)(uintptr_t)kl_where(c->c, c->flags, KL_P_C, m->x, m->y) + row +
                                   (int64_t)col * c->ldc;
                double s = c->flags & KL_P_BETA ? *to : 0.0;
                for (const kl_summand *t = p->term + c->first; t < p->term + c->first + c->count; t++) {
                    const double *const a =
                        (const double *)(uintptr_t)kl_where(t->a, t->flags, KL_P_A, m->x, m->y);
                    s += t->alpha * (t->flags & KL_P_END
                                         ? 1.0
                                         : a[t->flags & KL_P_TA ? (int64_t)row * t->lda + col
                                                                : row + (int64_t)col * t->lda]);
                }
                *to = s;
            }
}

enum { MOST = 64 /* rows and columns of a tile */ };

/* A tile under computation: the piece that comes next, NULL before the first, and the sums so far. */
typedef struct under_way {
    const kl_piece *piece;
    double (*acc)[MOST];
    int done;
} under_way;

typedef struct progress {
    /* tiles of the first level that are written; tiles that had to wait between pieces, some pieces being
       done */
    int64_t nfirst, nlate;
    uint8_t turn[KL_TURNS];
} progress;

static void run_piece(const kl_piece *p, const memory *m, double (*acc)[MOST])
{
    const int rows = kl_rows_of(p->mn), cols = kl_cols_of(p->mn);
    const double *const a = (const double *)(uintptr_t)kl_where(p->a, p->flags, KL_P_A, m->x, m->y),
                        *const b = (const double *)(uintptr_t)kl_where(p->b, p->flags, KL_P_B, m->x, m->y);
    double *const c = (double *)(uintptr_t)kl_where(p->c, p->flags, KL_P_C, m->x, m->y);
    expect_true(rows <= MOST && cols <= MOST && rows > 0 && cols > 0);
    if (p->flags & KL_P_ADD) expect_eq(p->k, cols);
    for (int j = 0; j < cols; j++)
        for (int i = 0; i < rows; i++) {
            if (p->flags & KL_P_ADD)
                acc[j][i] += a[p->flags & KL_P_TA ? (int64_t)i * p->lda + j : i + (int64_t)j * p->lda];
            for (int k = 0; !(p->flags & KL_P_ADD) && k < p->k; k++)
                acc[j][i] += a[p->flags & KL_P_TA ? k + (int64_t)i * p->lda : i + (int64_t)k * p->lda] *
                             b[p->flags & KL_P_TB ? j + (int64_t)k * p->ldb : k + (int64_t)j * p->ldb];
            acc[j][i] *= p->factor;
            if (!(p->flags & KL_P_LAST)) continue;
            double *const to = c + i + (int64_t)j * p->ldc;
            *to = acc[j][i] + (p->flags & KL_P_BETA ? *to : 0.0);
            acc[j][i] = 0.0;
        }
}

/* Tile t of a launch, or a part of one, as far as it goes without waiting; a part runs as a whole when its
   turn has come. */
static void run_tile(const kl_piece *base, int64_t t, const kl_launch *l, const memory *m, progress *now,
                     under_way *w)
{
    const kl_piece *p = w->piece ? w->piece : base + t;
    if ((p->flags & KL_P_PART) && now->turn[p->turn >> 8] != (p->turn & 255)) return;
    for (;; p = base + p->next) {
        if ((p->flags & KL_P_NEXT) && now->nfirst != l->nbefore) {
            now->nlate += p != base + t && !w->piece;
            if (p != base + t) w->piece = p;
            return;
        }
        if (!w->acc) w->acc = calloc(MOST, sizeof *w->acc);
        run_piece(p, m, w->acc);
        if (p->flags & KL_P_FIRST) now->nfirst++;
        if (p->flags & KL_P_OVER)
            now->turn[p->turn >> 8] = p->flags & KL_P_FINAL ? 0 : (uint8_t)((p->turn & 255) + 1);
        if (p->next <= 0) break;
    }
    free(w->acc);
    w->done = 1;
}

/* The tiles of a launch in an order of chance, each as far as it need not wait. Returns how many had to on
   their way. */
static int64_t run_tiles(const kl_tile_plan *p, const kl_launch *l, const memory *m, uint64_t *seed)
{
    static progress now;
    under_way *const tile = calloc((size_t)l->n + 1, sizeof *tile);
    now = (progress){0};
    for (int64_t left = l->n; left > 0;) {
        const int64_t t = lists_below(seed, (int)l->n);
        if (tile[t].done) continue;
        run_tile(p->piece + l->first, t, l, m, &now, &tile[t]);
        left -= tile[t].done;
    }
    expect_true(l->nbefore == 0 || now.nfirst == l->nbefore);
    for (int i = 0; i < KL_TURNS; i++) expect_eq(now.turn[i], 0); /* ready for the next launch */
    free(tile);
    return now.nlate;
}

/* The list by its launches against the list record by record. Returns how many tiles had to wait on their
   way. */
static int64_t expect_same(const kl_batch *b, const kl_tile_plan *p, const double *work, const memory *at,
                           int most, uint64_t *seed)
{
    memory m = *at;
    int64_t late = 0;
    double *const want = kl_test_guarded(b->ny), *const got = kl_test_guarded(b->ny),
                  *const own = kl_test_guarded(b->nwork);
    m.y = want;
    run_records(b, &m, own);
    m.y = got;
    for (int64_t i = 0; i < p->nlaunch; i++) {
        const kl_launch *const l = &p->launch[i];
        if (l->products) late += run_tiles(p, l, &m, seed);
        else run_cells(p, l, &m);
    }
    for (int64_t i = 0; i < b->ny; i++)
        if (!isnan(want[i]) || !isnan(got[i]))
            expect_near(got[i], want[i], 1e-13 * most * (1 + fabs(want[i])));
    kl_test_guards_hold(got, b->ny);
    kl_test_guards_hold(work, p->nwork);
    kl_test_free(want), kl_test_free(got), kl_test_free(own);
    return late;
}

static memory memory_of(int64_t room, kl_batch *b, uint64_t *seed)
{
    memory m = {.room = room,
                .x = kl_test_guarded(room),
                .left = kl_test_guarded(room),
                .right = kl_test_guarded(room)};
    for (int64_t i = 0; i < room; i++)
        m.x[i] = kl_test_uniform(seed), m.left[i] = kl_test_uniform(seed), m.right[i] = kl_test_uniform(seed);
    b->base[KL_AT_LEFT].addr = (uintptr_t)m.left, b->base[KL_AT_RIGHT].addr = (uintptr_t)m.right;
    return m;
}

static void memory_free(memory *m) { kl_test_free(m->x), kl_test_free(m->left), kl_test_free(m->right); }

static const kl_tile_plan_opts small_blocks = {.unit_m = 8,
                                               .unit_n = 4,
                                               .most_m = 4,
                                               .most_n = 3,
                                               .depth = 2,
                                               .nblock = 13,
                                               .cost_part = 4200,
                                               .cost_unit = 64,
                                               .cost_row = 24,
                                               .cost_col = 24,
                                               .cost_least = 300,
                                               .cost_tile = 100};

static void test_lists(void **state)
{
    int levels = 0, turns = 0, adds = 0;
    int64_t lone = 0;
    void *spare = NULL;
    (void)state;
    for (int round = 0; round < 240; round++) {
        uint64_t seed = (uint64_t)round;
        kl_err err = {""};
        kl_batch b;
        kl_tile_plan p;
        kl_tile_plan_opts o = small_blocks;
        const int most = round % 8 == 0 ? 150 : 1 + round % 50, wild = round % 5 == 0;
        o.adds = round / 2 % 4 > 0, o.parts = round / 2 % 4 > 1, o.levels = round / 2 % 4 > 2,
        o.whole = round % 7 == 0;
        if (round % 3 == 1) o.cost_lone = 60, o.most_lone = 30;
        const int64_t room = (int64_t)(most + 3) * (most + 3) + 7;
        kl_test_case("round %d most=%d wild=%d adds=%d parts=%d levels=%d", round, most, wild, o.adds,
                     o.parts, o.levels);
        kl_batch_init(&b);
        lists_random(&b, room, 1 + lists_below(&seed, 6), most, wild, round % 2, &seed);
        for (int64_t i = 0; i < b.nrec && round % 3 == 0; i++) /* equal coefficients */
            if (fabs(b.rec[i].alpha) > 0.5) b.rec[i].alpha = copysign(0.5, b.rec[i].alpha);
        memory m = memory_of(room, &b, &seed);
        expect_ok(kl_tile_plan_open(&b, &o, round % 4 ? 1 << 20 : (int64_t)most * most,
                                    round % 6 < 4 ? &spare : NULL, &p, &err),
                  err);
        double *const work = kl_test_guarded(p.nwork);
        expect_ok(kl_tile_plan_write(&b, (uint64_t)(uintptr_t)work, &p, &err), err);
        for (int64_t i = 0; i < p.nlaunch; i++) {
            const kl_launch *const l = &p.launch[i];
            levels += l->nbefore > 0, lone += l->nlone;
            expect_true(!l->adds || o.adds);
            expect_true(l->nlone == 0 || (o.cost_lone > 0 && l->nbefore == 0));
            for (int64_t t = l->n - l->nlone; t < l->n; t++)
                expect_eq(p.piece[l->first + t].flags & (KL_P_ROWS | KL_P_COLS | KL_P_PART), 1 | 1 << 4);
            if (!l->products || o.adds) continue;
            double units = 0, steps = 0;
            for (int64_t t = 0; t < l->n - l->nlone; t++)
                for (const kl_piece *q = &p.piece[l->first + t];; q = &p.piece[l->first + q->next]) {
                    const int n = (q->k + o.depth - 1) / o.depth, rows = (int)(q->flags & KL_P_ROWS),
                              cols = (int)(q->flags & KL_P_COLS) >> 4;
                    units += (double)rows * cols * n, steps += n;
                    if (q->next <= 0) break;
                }
            expect_near(l->units, steps > 0 ? units / steps : 0, 1e-12 * l->units);
        }
        for (int64_t i = 0; i < p.npiece; i++)
            turns += (p.piece[i].flags & KL_P_PART) != 0, adds += (p.piece[i].flags & KL_P_ADD) != 0;
        expect_same(&b, &p, work, &m, most, &seed);
        kl_tile_plan_clear(&p);
        kl_batch_clear(&b);
        memory_free(&m), kl_test_free(work);
    }
    kl_tile_plan_free_spare(&spare);
    expect_true(levels > 10 && turns > 10 && adds > 100 && lone > 100); /* all of it was met */
}

/* y = sum of L x R^T and L x, as in a superblock: two levels in one launch, where what needs no L x comes
   first. */
static void test_levels(void **state)
{
    int64_t late = 0;
    (void)state;
    for (int round = 0; round < 40; round++) {
        uint64_t seed = 99 + (uint64_t)round;
        kl_err err = {""};
        kl_batch b;
        kl_tile_plan p;
        kl_tile_plan_opts o = small_blocks;
        const int most = 1 + round;
        o.adds = round % 4 > 0, o.levels = 1;
        kl_test_case("round %d", round);
        kl_batch_init(&b);
        b.zero = 1;
        for (int g = 0; g < 4; g++) {
            const int m = 1 + lists_below(&seed, most), n = 1 + lists_below(&seed, most);
            expect_ok(kl_batch_open_group(&b, b.ny, (int64_t)m * n, &err), err);
            for (int i = 0; i < 3; i++) {
                const int k = 1 + lists_below(&seed, most), both = lists_below(&seed, 3);
                const double alpha = i == 1 ? -1.5 : 0.5;
                expect_ok(kl_batch_reserve(&b, 2, &err), err);
                *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                              .beta = !both,
                                              .at_a = KL_AT_LEFT,
                                              .at_b = KL_AT_X,
                                              .at_c = both ? KL_AT_WORK : KL_AT_Y,
                                              .m = m,
                                              .n = n,
                                              .k = k,
                                              .lda = m,
                                              .ldb = k,
                                              .ldc = m,
                                              .a = lists_below(&seed, 9),
                                              .b = lists_below(&seed, 9),
                                              .c = both ? 0 : b.ny,
                                              .alpha = alpha};
                if (both)
                    *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                                  .tb = 1,
                                                  .beta = 1,
                                                  .at_a = KL_AT_WORK,
                                                  .at_b = KL_AT_RIGHT,
                                                  .at_c = KL_AT_Y,
                                                  .m = m,
                                                  .n = n,
                                                  .k = n,
                                                  .lda = m,
                                                  .ldb = n,
                                                  .ldc = m,
                                                  .b = lists_below(&seed, 9),
                                                  .c = b.ny,
                                                  .alpha = 1};
            }
            kl_batch_close_group(&b, (int64_t)m * n);
            b.ny += (int64_t)m * n;
        }
        memory m = memory_of((int64_t)(most + 1) * (most + 1) + 9, &b, &seed);
        b.nx = m.room;
        expect_ok(kl_batch_close(&b, &err), err);
        expect_ok(kl_tile_plan_open(&b, &o, 1 << 20, NULL, &p, &err), err);
        double *const work = kl_test_guarded(p.nwork);
        expect_ok(kl_tile_plan_write(&b, (uint64_t)(uintptr_t)work, &p, &err), err);
        expect_eq(p.nlaunch, 1);
        late += expect_same(&b, &p, work, &m, most, &seed);
        kl_tile_plan_clear(&p);
        kl_batch_clear(&b);
        memory_free(&m), kl_test_free(work);
    }
    expect_true(late > 10);
}

static void write_plan(const kl_batch *b, const kl_tile_plan_opts *o, kl_tile_plan *out)
{
    kl_err err = {""};
    expect_ok(kl_tile_plan_open(b, o, 1 << 16, NULL, out, &err), err);
    expect_ok(kl_tile_plan_write(b, 64, out, &err), err);
}

static void expect_equal_plans(const kl_tile_plan *a, const kl_tile_plan *b)
{
    expect_eq(a->nwork, b->nwork);
    expect_eq(a->nround, b->nround);
    expect_eq(a->nsequential, b->nsequential);
    expect_eq(a->nlaunch, b->nlaunch);
    expect_eq(a->npiece, b->npiece);
    expect_eq(a->ncell, b->ncell);
    expect_eq(a->nterm, b->nterm);
    expect_true(a->padded == b->padded);
    expect_eq(memcmp(a->launch, b->launch, (size_t)a->nlaunch * sizeof *a->launch), 0);
    for (int64_t i = 0; i < a->npiece; i++)
        if (memcmp(&a->piece[i], &b->piece[i], sizeof *a->piece)) fail_msg("piece %lld", (long long)i);
    expect_eq(a->ncell == 0 ? 0 : memcmp(a->cell, b->cell, (size_t)a->ncell * sizeof *a->cell), 0);
    expect_eq(a->nterm == 0 ? 0 : memcmp(a->term, b->term, (size_t)a->nterm * sizeof *a->term), 0);
}

/* Sums of operators stand side by side: outputs of few columns, as tall as matrices have numbers, one or a
   few products each. */
static void tall_list(kl_batch *b, uint64_t *seed)
{
    kl_err err = {""};
    kl_batch_init(b);
    for (int g = 0; g < 3; g++) {
        const int m = 60000 + 2 * lists_below(seed, 20000), n = 1 + lists_below(seed, 9),
                  nrec = 1 + lists_below(seed, 3);
        expect_ok(kl_batch_open_group(b, b->ny, (int64_t)m * n, &err), err);
        expect_ok(kl_batch_reserve(b, nrec, &err), err);
        for (int i = 0; i < nrec; i++) {
            const int k = 1 + lists_below(seed, 40);
            *kl_batch_push(b) = (kl_rec){.kind = lists_below(seed, 5) ? KL_REC_GEMM : KL_REC_ADD,
                                         .beta = i > 0 || g == 1,
                                         .at_a = KL_AT_LEFT,
                                         .at_b = KL_AT_RIGHT,
                                         .at_c = KL_AT_Y,
                                         .m = m,
                                         .n = n,
                                         .k = k,
                                         .lda = m,
                                         .ldb = k,
                                         .ldc = m,
                                         .c = b->ny,
                                         .alpha = 0.5 + i};
        }
        kl_batch_close_group(b, 0);
        b->ny += (int64_t)m * n;
    }
    expect_ok(kl_batch_close(b, &err), err);
}

/* Of a tile by its pieces: what it costs, and the numbers of C that it writes. */
static double cost_of(const kl_tile_plan_opts *o, const kl_piece *base, int64_t t, int64_t *written)
{
    int64_t steps = 0, pieces = 0;
    const kl_piece *q = base + t;
    *written += (int64_t)kl_rows_of(q->mn) * kl_cols_of(q->mn);
    for (;; q = base + q->next) {
        /* what stood there is no part of the sum */
        if (q->a != q->c || !(q->flags & KL_P_ADD)) {
            steps += q->flags & KL_P_ADD ? 1 : (q->k + o->depth - 1) / o->depth;
            pieces++;
        }
        if (q->next <= 0) break;
    }
    return kl_tile_shape_cost(o, (int)(base[t].flags & KL_P_ROWS), (int)(base[t].flags & KL_P_COLS) >> 4,
                              steps, pieces);
}

/* Few records make tiles by the thousand: any number of threads lists the same ones, the costliest first,
   those of an output that cost the same down its columns; and they write every number once. */
static void test_tall(void **state)
{
    (void)state;
    for (int round = 0; round < 12; round++) {
        uint64_t seed = 31 + (uint64_t)round;
        kl_batch b;
        kl_tile_plan one, many;
        kl_tile_plan_opts o = small_blocks;
        int64_t written = 0;
        o.adds = 1;
        o.together = round % 3 == 0 ? 1000 : 0;
        kl_test_case("round %d", round);
        tall_list(&b, &seed);
        b.once = round % 2;
        write_plan(&b, &o, &one);
        expect_eq(one.nlaunch, 1);
        expect_true(one.ntile > 4096);
        double before = INFINITY;
        for (int64_t t = 0; t < one.launch[0].n; t++) {
            const double cost = cost_of(&o, one.piece, t, &written);
            if (o.together == 0) expect_true(cost <= before);
            const int64_t last = t > 0 ? (int64_t)one.piece[t - 1].c : -1, here = (int64_t)one.piece[t].c;
            if (cost == before && one.piece[t].ldc == one.piece[t - 1].ldc) expect_true(here > last);
            before = cost;
        }
        expect_eq(written, b.ny);
        o.nthread = 3;
        write_plan(&b, &o, &many);
        expect_equal_plans(&one, &many);
        kl_tile_plan_clear(&many);
        kl_tile_plan_clear(&one);
        kl_batch_clear(&b);
    }
}

/* A list that is long enough to be shared out is planned the same by any number of threads. */
static void test_threads(void **state)
{
    (void)state;
    for (int round = 0; round < 8; round++) {
        uint64_t seed = 7 + (uint64_t)round;
        kl_batch b;
        kl_tile_plan one, many;
        kl_tile_plan_opts o = small_blocks;
        const int most = 20;
        o.adds = round % 4 > 0, o.parts = round % 4 > 1, o.levels = round % 4 > 2;
        if (round % 3 == 1) o.cost_lone = 60, o.most_lone = 30;
        kl_test_case("round %d", round);
        kl_batch_init(&b);
        lists_random(&b, 700, 1500, most, round % 2, round % 2, &seed);
        expect_true(b.nrec > 3000);
        write_plan(&b, &o, &one);
        for (o.nthread = 2; o.nthread <= 5; o.nthread += 3) {
            write_plan(&b, &o, &many);
            expect_equal_plans(&one, &many);
            kl_tile_plan_clear(&many);
        }
        kl_tile_plan_clear(&one);
        kl_batch_clear(&b);
    }
}

/* Products as a library has them: whole outputs, those of one output one after the other. */
static void run_whole(const kl_tile_plan *p, const kl_launch *l, const memory *m)
{
    for (int64_t t = 0; t < l->n; t++)
        for (const kl_piece *q = &p->piece[l->first + t];; q = &p->piece[l->first + q->next]) {
            const double *const a = (const double *)(uintptr_t)kl_where(q->a, q->flags, KL_P_A, m->x, m->y),
                                *const b =
                                    (const double *)(uintptr_t)kl_where(q->b, q->flags, KL_P_B, m->x, m->y);
            double *const c = (double *)(uintptr_t)kl_where(q->c, q->flags, KL_P_C, m->x, m->y);
            for (int j = 0; j < kl_cols_of(q->mn); j++)
                for (int i = 0; i < kl_rows_of(q->mn); i++) {
                    double sum = 0;
                    for (int k = 0; k < q->k; k++)
                        sum += a[q->flags & KL_P_TA ? k + (int64_t)i * q->lda : i + (int64_t)k * q->lda] *
                               b[q->flags & KL_P_TB ? j + (int64_t)k * q->ldb : k + (int64_t)j * q->ldb];
                    double *const to = c + i + (int64_t)j * q->ldc;
                    *to = q->factor * sum + (q->flags & KL_P_BETA ? *to : 0.0);
                }
            if (q->next <= 0) break;
        }
}

/* Y += (A X) B^T or B (A X), some of them for one output, as superblocks have them. */
static void list_pairs(kl_batch *b, int ngroup, int most, uint64_t *seed)
{
    kl_err err = {""};
    b->zero = 1;
    for (int g = 0; g < ngroup; g++) {
        const int m = 1 + lists_below(seed, most), n = 1 + lists_below(seed, most);
        expect_ok(kl_batch_open_group(b, b->ny, (int64_t)m * n, &err), err);
        expect_ok(kl_batch_reserve(b, 16, &err), err);
        for (int q = lists_below(seed, 8); q > 0; q--) {
            const int k = 1 + lists_below(seed, most), j = 1 + lists_below(seed, most),
                      left = lists_below(seed, 3) == 0, ta = lists_below(seed, 2), tb = lists_below(seed, 2);
            kl_rec w = {.kind = KL_REC_GEMM,
                        .ta = (uint8_t)ta,
                        .at_a = KL_AT_LEFT,
                        .at_b = KL_AT_X,
                        .at_c = KL_AT_WORK,
                        .m = left ? k : m,
                        .n = left ? n : k,
                        .k = j,
                        .ldb = j,
                        .alpha = kl_test_uniform(seed)};
            kl_rec u = {.kind = KL_REC_GEMM,
                        .beta = 1,
                        .at_a = left ? KL_AT_RIGHT : KL_AT_WORK,
                        .at_b = left ? KL_AT_WORK : KL_AT_RIGHT,
                        .at_c = KL_AT_Y,
                        .c = b->ny,
                        .m = m,
                        .n = n,
                        .k = k,
                        .ldc = m,
                        .alpha = kl_test_uniform(seed)};
            w.ldc = w.m, w.lda = ta ? j : w.m;
            if (left) u.ta = (uint8_t)tb, u.lda = tb ? k : m, u.ldb = k;
            else u.tb = (uint8_t)tb, u.lda = m, u.ldb = tb ? n : k;
            *kl_batch_push(b) = w;
            *kl_batch_push(b) = u;
        }
        kl_batch_close_group(b, (int64_t)most * most);
        b->ny += (int64_t)m * n;
    }
    b->nx = (int64_t)most * most;
    expect_ok(kl_batch_close(b, &err), err);
}

/* Lists whose products were joined, planned as one call of a library for a level: what they do alone. */
static void test_joined(void **state)
{
    static const kl_tile_plan_opts library = {
        .unit_m = 1, .unit_n = 1, .most_m = 65535, .most_n = 65535, .depth = 16, .nblock = 132, .apart = 1};
    int64_t fewer = 0;
    (void)state;
    for (int round = 0; round < 60; round++) {
        uint64_t seed = (uint64_t)round;
        kl_err err = {""};
        kl_batch b, joined, pack;
        kl_tile_plan p;
        const int most = 1 + round % 50;
        const int64_t room = (int64_t)(most + 3) * (most + 3) + 7;
        kl_test_case("round %d most=%d", round, most);
        kl_batch_init(&b);
        if (round % 3 == 0) lists_random(&b, room, 1 + lists_below(&seed, 12), most, round % 2, 1, &seed);
        else list_pairs(&b, 1 + lists_below(&seed, 12), most, &seed);
        memory m = memory_of(room, &b, &seed);
        expect_ok(kl_concat(&b, &joined, &pack, &err), err);
        fewer += b.nrec - joined.nrec;
        double *const stack = kl_test_guarded(pack.ny), *const want = kl_test_guarded(b.ny),
                      *const got = kl_test_guarded(b.ny), *const own = kl_test_guarded(b.nwork);
        m.y = stack;
        run_records(&pack, &m, NULL);
        joined.base[KL_AT_STACK].addr = (uintptr_t)stack;
        expect_ok(kl_tile_plan_open(&joined, &library, 1 << 20, NULL, &p, &err), err);
        double *const work = kl_test_guarded(p.nwork);
        expect_ok(kl_tile_plan_write(&joined, (uint64_t)(uintptr_t)work, &p, &err), err);
        m.y = want;
        run_records(&b, &m, own);
        m.y = got;
        for (int64_t i = 0; i < p.nlaunch; i++) {
            if (p.launch[i].products) run_whole(&p, &p.launch[i], &m);
            else run_cells(&p, &p.launch[i], &m);
        }
        for (int64_t i = 0; i < b.ny; i++)
            if (!isnan(want[i]) || !isnan(got[i]))
                expect_near(got[i], want[i], 1e-12 * most * (1 + fabs(want[i])));
        kl_test_guards_hold(got, b.ny), kl_test_guards_hold(work, p.nwork);
        kl_tile_plan_clear(&p);
        kl_batch_clear(&b), kl_batch_clear(&joined), kl_batch_clear(&pack);
        memory_free(&m), kl_test_free(work), kl_test_free(stack);
        kl_test_free(want), kl_test_free(got), kl_test_free(own);
    }
    expect_true(fewer > 300); /* were joined */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lists), cmocka_unit_test(test_levels),
                                       cmocka_unit_test(test_threads), cmocka_unit_test(test_tall),
                                       cmocka_unit_test(test_joined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
