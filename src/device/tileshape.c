/* Sizes of tiles: see tileshape.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "device/tileshape.h"
#include "base/par.h"
#include "base/parsort.h"
#include "device/tileshares.h"
#include "device/tilespan.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int kl_tile_shape_by_slot(const void *pa, const void *pb)
{
    const kl_output *const a = pa, *const b = pb;
    if (a->slot != b->slot) return a->slot < b->slot ? -1 : 1;
    if (a->cost != b->cost) return a->cost > b->cost ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

double kl_tile_shape_cost(const kl_tile_plan_opts *p, int um, int un, int64_t steps, int64_t pieces)
{
    const double wave = um * un * p->cost_unit + um * p->cost_row + un * p->cost_col;
    const double slices = p->rate > 0 ? 8.0 * p->depth * (um * p->unit_m + un * p->unit_n) / p->rate : 0;
    return (double)steps * fmax(wave, fmax(slices, p->cost_least)) + (double)(pieces - 1) * p->cost_piece +
           p->cost_tile + 100.0 * um * un;
}

int64_t kl_tile_shape_steps(const kl_tile_plan_maker *s, const kl_batch *b, kl_output *o, int depth)
{
    int64_t steps = 0;
    if (o->depth == depth) return o->steps;
    for (int64_t i = o->first; i < o->first + o->count; i++) {
        const kl_rec *const r = &b->rec[s->use[s->link[i].use].rec];
        s->link[i].steps = r->kind == KL_REC_GEMM ? (r->k + depth - 1) / depth : 1;
        steps += s->link[i].steps;
    }
    o->depth = depth;
    return o->steps = steps;
}

typedef kl_tile_load load;

/* When a launch ends, roughly: the costliest tile may begin last. */
static double makespan_about(double work, double dearest, int nblock)
{
    return fmax(work / nblock + 0.5 * dearest * (1 - 1.0 / nblock), dearest);
}

void kl_tile_shape_tiles(const kl_tile_plan_opts *p, const kl_output *o, int most_m, int most_n, int *um,
                         int *un, int *tm, int *tn)
{
    *um = (o->m + p->unit_m - 1) / p->unit_m, *un = (o->n + p->unit_n - 1) / p->unit_n;
    *tm = (*um + most_m - 1) / most_m, *tn = (*un + most_n - 1) / most_n;
}

enum { KINDS = 4 }; /* of tiles of one output: with a row of units more or less, and a column of them */

/* What the host takes to list a tile, several threads at it, in cycles of all the device's blocks: the fewer
   tiles a list has that is used once, the better. */
static double listing(const kl_batch *b)
{
    enum { CYCLES = 6000 };
    return b->once ? CYCLES : 0;
}

/* The tiles of an output, the costliest kind first; returns what they cost together. extra: of each tile. */
static double loads_of(const kl_tile_plan_opts *p, const kl_output *o, int most_m, int most_n, int64_t steps,
                       double extra, load l[KINDS])
{
    int um, un, tm, tn;
    double sum = 0;
    kl_tile_shape_tiles(p, o, most_m, most_n, &um, &un, &tm, &tn);
    const int more_m = um % tm, more_n = un % tn; /* number of those that have one more */
    for (int k = 0; k < KINDS; k++) {
        const int less_m = k & 1, less_n = k >> 1;
        const int64_t n = (int64_t)(less_m   ? more_m ? tm - more_m : 0
                                    : more_m ? more_m
                                             : tm) *
                          (less_n   ? more_n ? tn - more_n : 0
                           : more_n ? more_n
                                    : tn);
        l[k] = (load){n > 0 ? kl_tile_shape_cost(p, (um + tm - 1) / tm - less_m, (un + tn - 1) / tn - less_n,
                                                 steps, o->count) +
                                  extra
                            : 0,
                      n};
        sum += l[k].cost * (double)n;
    }
    return sum;
}

/* Neighbours in the order of their cost that are alike, as outputs of many sectors are: what one costs, all
   do. */
typedef struct alike {
    int64_t first, n;
} alike;

enum { SIZES = 7 };

/* Tiles of one of the alike that cost the same. */
typedef struct kind {
    double cost;
    int64_t of, each; /* which of the alike; tiles of each of its outputs */
} kind;

/* An output of each of the alike, for each size: its tiles, and their cost together. */
typedef struct costs {
    int64_t n;
    int hands; /* threads that make them */
    alike *a;
    load *l; /* [SIZES][n][KINDS] */
    double *work; /* [SIZES][n] */
    kind *sorted; /* [SIZES][n * KINDS]: those that there are, the costliest first */
    int64_t nsorted[SIZES]; /* -1: not sorted yet */
    int made[SIZES]; /* 1: of this size l and work are there */
} costs;

/* Of all the alike, for one size. */
typedef struct costing {
    const kl_tile_plan_opts *p;
    const kl_output *o;
    const int *try_m, *try_n;
    double extra; /* of each tile */
    int t;
    costs *c;
} costing;

enum { TOGETHER = 512 }; /* outputs that a thread takes at a time */

static void cost_task(void *self, int64_t task, int thread)
{
    const costing *const x = self;
    const kl_tile_plan_opts *const p = x->p;
    costs *const c = x->c;
    const int t = x->t;
    (void)thread;
    for (int64_t g = task * TOGETHER; g < c->n && g < (task + 1) * TOGETHER; g++) {
        const kl_output *const one = &x->o[c->a[g].first];
        load *const l = c->l + KINDS * (t * c->n + g);
        /* one tile, as of the largest size */
        if (t > 0 && one->m <= x->try_m[t] * p->unit_m && one->n <= x->try_n[t] * p->unit_n) {
            memcpy(l, c->l + KINDS * g, KINDS * sizeof *l);
            c->work[t * c->n + g] = c->work[g];
        } else c->work[t * c->n + g] = loads_of(p, one, x->try_m[t], x->try_n[t], one->steps, x->extra, l);
    }
}

/* What size t costs, once; most lists have so many tiles that the largest size is all that is asked for. */
static void make_costs(costing *x, int t)
{
    costs *const c = x->c;
    if (c->made[t]) return;
    x->t = t;
    kl_par_for(c->hands, (c->n + TOGETHER - 1) / TOGETHER, cost_task, x);
    c->made[t] = 1;
}

static void clear_costs(costs *c)
{
    kl_free(&c->l);
    kl_free(&c->work);
    kl_free(&c->sorted);
}

/* Which are alike, and room for their costs. */
static kl_status find_alike(const kl_tile_plan_maker *s, const kl_batch *b, const kl_tile_plan_opts *p,
                            kl_output *o, int64_t n, costs *c, kl_err *err)
{
    kl_status st = KL_OK;
    c->n = 0;
    for (int64_t i = 0; i < n; i++) {
        const kl_output *const before = i > 0 ? &o[i - 1] : NULL;
        const int64_t steps = kl_tile_shape_steps(s, b, &o[i], p->depth);
        if (before && before->m == o[i].m && before->n == o[i].n && before->count == o[i].count &&
            before->steps == steps)
            c->a[c->n - 1].n++;
        else c->a[c->n++] = (alike){i, 1};
    }
    clear_costs(c); /* so that nothing is copied */
    KL_TRY(kl_realloc(&c->l, SIZES * KINDS * c->n, KL_MEM_RECORD, err));
    KL_TRY(kl_realloc(&c->work, SIZES * c->n, KL_MEM_RECORD, err));
    KL_TRY(kl_realloc(&c->sorted, SIZES * KINDS * c->n, KL_MEM_RECORD, err));
    for (int t = 0; t < SIZES; t++) c->nsorted[t] = -1, c->made[t] = 0;
out:
    return st;
}

/* The tiles of all outputs, those from `at` on of size u, the others of size t; returns how many kinds there
   are. */
static int64_t gather(const costs *c, int t, int u, int64_t at, load *l)
{
    int64_t n = 0;
    for (int64_t g = 0; g < c->n; g++) {
        const alike a = c->a[g];
        const int64_t large = at <= a.first ? 0 : at - a.first < a.n ? at - a.first : a.n;
        for (int half = 0; half < 2; half++) {
            const load *const one = c->l + KINDS * ((half ? u : t) * c->n + g);
            const int64_t times = half ? a.n - large : large;
            for (int k = 0; k < KINDS && times > 0; k++)
                if (one[k].n > 0) l[n++] = (load){one[k].cost, one[k].n * times};
        }
    }
    return n;
}

static int by_kind_cost(const void *pa, const void *pb)
{
    const kind *const a = pa, *const b = pb;
    if (a->cost != b->cost) return a->cost > b->cost ? -1 : 1;
    return a->of < b->of ? -1 : a->of > b->of;
}

/* Tiles of size t in the order in which blocks take them, once for all the tries. */
static const kind *sorted_kinds(costs *c, int t)
{
    kind *const to = c->sorted + t * KINDS * c->n;
    if (c->nsorted[t] >= 0) return to;
    int64_t n = 0;
    for (int64_t i = 0; i < KINDS * c->n; i++) {
        const load one = c->l[KINDS * t * c->n + i];
        if (one.n > 0) to[n++] = (kind){one.cost, i / KINDS, one.n};
    }
    qsort(to, (size_t)n, sizeof *to, by_kind_cost);
    c->nsorted[t] = n;
    return to;
}

/* Outputs of the alike `of` that are before `at`, or from there on. */
static int64_t outputs_of(const costs *c, int64_t of, int64_t at, int after)
{
    const alike a = c->a[of];
    const int64_t before = at <= a.first ? 0 : at - a.first < a.n ? at - a.first : a.n;
    return after ? a.n - before : before;
}

/* As gather() makes them, the costliest first. */
static int64_t gather_sorted(costs *c, int t, int u, int64_t at, load *l)
{
    const kind *const large = sorted_kinds(c, t), *const small = sorted_kinds(c, u);
    int64_t n = 0, i = 0, k = 0;
    while (i < c->nsorted[t] || k < c->nsorted[u]) {
        const int after = i == c->nsorted[t] || (k < c->nsorted[u] && small[k].cost > large[i].cost);
        const kind *const one = after ? &small[k++] : &large[i++];
        const int64_t times = outputs_of(c, one->of, at, after);
        if (times > 0) l[n++] = (load){one->cost, one->each * times};
    }
    return n;
}

static double sum_of(const load *l, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += l[i].cost * (double)l[i].n;
    return sum;
}

/* All tiles of from[n], the costliest first, but the `whole` costliest are cut into parts; l has room for one
   more. A part adds to what the parts before it wrote, which takes a while. Returns the number of kinds in l,
   the costliest first. */
static int64_t cut_the_rest(const kl_tile_plan_opts *p, int64_t whole, int parts, const load *from, int64_t n,
                            load *l)
{
    int64_t split = 0, m = 0; /* of from[split] some are left whole, of those before it all */
    while (split < n && whole >= from[split].n) whole -= from[split++].n;
    const int64_t nwhole = split + (split < n && whole > 0);
    for (int64_t i = 0, k = split; i < nwhole || k < n;) {
        const double cut = k < n ? from[k].cost / parts + p->cost_part : 0;
        if (i < nwhole && (k == n || from[i].cost >= cut)) {
            l[m++] = (load){from[i].cost, i < split ? from[i].n : whole};
            i++;
        } else {
            l[m++] = (load){cut, (from[k].n - (k == split ? whole : 0)) * parts};
            k++;
        }
    }
    return m;
}

/* The output from which on those of size t have `share` of all work. */
static int64_t from_share(const costs *c, int t, int64_t n, double share, double work)
{
    double left = work;
    int64_t at = 0;
    for (int64_t g = 0; g < c->n && at < n && left > share; g++)
        for (; at < c->a[g].first + c->a[g].n && left > share; at++) left -= c->work[t * c->n + g];
    return at;
}

/* Lone tiles: what they take of a block in all, if that is less than whole blocks would; else 0. */
static double cost_lone(const kl_tile_plan_opts *p, const kl_output *o, int64_t steps, double extra,
                        double otherwise)
{
    int um, un, tm, tn;
    kl_tile_shape_tiles(p, o, 1, 1, &um, &un, &tm, &tn);
    const double cost = (double)um * un * ((double)steps * p->cost_lone + extra);
    return steps <= p->most_lone && cost < otherwise ? cost : 0;
}

/* What an output costs in tiles of the largest size, or alone. */
typedef struct pricing {
    const kl_tile_plan_maker *s;
    const kl_batch *b;
    const kl_tile_plan_opts *p;
    kl_output *o;
    int64_t n;
    int lone;
    double *alone; /* [n] */
} pricing;

static void price_task(void *self, int64_t task, int thread)
{
    const pricing *const x = self;
    (void)thread;
    for (int64_t i = task * TOGETHER; i < x->n && i < (task + 1) * TOGETHER; i++) {
        load one[KINDS];
        kl_output *const o = &x->o[i];
        const int64_t steps = kl_tile_shape_steps(x->s, x->b, o, x->p->depth);
        const double extra = listing(x->b),
                     otherwise = loads_of(x->p, o, x->p->most_m, x->p->most_n, steps, extra, one),
                     alone = x->lone && x->p->cost_lone > 0 ? cost_lone(x->p, o, steps, extra, otherwise) : 0;
        o->cost = alone > 0 ? 0 : one[0].cost;
        o->lone = alone > 0;
        x->alone[i] = alone;
    }
}

static void set_size(kl_output *o, const int *most) { o->most_m = most[0], o->most_n = most[1]; }

kl_status kl_tile_shape_choose(const kl_tile_plan_maker *s, const kl_batch *b, const kl_tile_plan_opts *first,
                               kl_output *o, int64_t n, int lone, kl_tile_shape *cut, kl_err *err)
{
    enum {
        MANY = 32 /* tiles of a block: then the end is all the same, */,
        MANY_ONCE = 8 /* or shorter than what a list that is used once is planned for */,
        SHARES = 3,
        TRIES = 6,
        BRIEF = 560
    };
    static const double share[SHARES] = {0.15, 0.3, 0.5}; /* of all work that gets the smaller size */
    static const int tries[TRIES] = {2, 3, 4, 6, 8, KL_PARTS}; /* parts of a sum */
    kl_status st = KL_OK;
    costs c = {.hands = kl_tile_hands(first->nthread, b->nrec)};
    load *l = NULL;
    double best = INFINITY, rest = 0; /* of lone tiles, which fill gaps */
    int64_t from; /* outputs from here on get the small size */
    int large[2] = {first->most_m, first->most_n}, small[2] = {0, 0};
    *cut = (kl_tile_shape){first, 0, 0, 1};
    pricing price = {.s = s, .b = b, .p = first, .o = o, .n = n, .lone = lone};
    KL_TRY(kl_realloc(&price.alone, n, KL_MEM_RECORD, err));
    kl_par_for(c.hands, (n + TOGETHER - 1) / TOGETHER, price_task, &price);
    for (int64_t i = 0; i < n; i++) rest += price.alone[i];
    /* the costliest first; all are of one slot */
    kl_par_sort(c.hands, o, n, sizeof *o, kl_tile_shape_by_slot);
    for (; n > 0 && o[n - 1].lone; n--) o[n - 1].most_m = o[n - 1].most_n = 1;
    from = n;
    KL_TRY(kl_realloc(&c.a, n, KL_MEM_RECORD, err));
    int nth = 0;
    for (const kl_tile_plan_opts *p = first->whole || first->apart ? NULL : first; p; p = p->other, nth++) {
        const int large_m = p->most_m, half_m = (large_m + 1) / 2, quarter_m = (large_m + 3) / 4,
                  large_n = p->most_n, half_n = (large_n + 1) / 2;
        const int try_m[SIZES] = {large_m, large_m, large_m, half_m, half_m, quarter_m, quarter_m},
                  try_n[SIZES] = {large_n, (3 * large_n + 3) / 4, half_n, large_n, half_n,
                                  half_n,  (large_n + 2) / 3};
        costing x = {p, o, try_m, try_n, listing(b), 0, &c};
        KL_TRY(find_alike(s, b, p, o, n, &c, err));
        kl_free(&l);
        KL_TRY(kl_realloc(&l, 2 * (2 * KINDS * c.n + 1), KL_MEM_RECORD, err));
        /* going through the motions takes some 50 ns a tile and a try, and is worth a tenth of what the
           device takes */
        int brief = b->once;
        for (int t = 0; t < SIZES; t++) {
            make_costs(&x, t);
            const int64_t nl = gather(&c, t, t, n, l);
            const double work = sum_of(l, nl);
            int64_t ntile = 0;
            double dearest = 0;
            for (int64_t i = 0; i < nl; i++)
                ntile += l[i].n, dearest = l[i].cost > dearest ? l[i].cost : dearest;
            const int many = ntile > (int64_t)(b->once ? MANY_ONCE : MANY) * p->nblock;
            if (t == 0) brief |= b->lasting && work < (double)BRIEF * p->nblock * (double)ntile;
            if ((work + rest) / p->nblock >= 0.985 * best) continue; /* however well the blocks are filled */
            int64_t small_from[SHARES];
            for (int q = 0; q < SHARES && !many && !brief; q++)
                small_from[q] = from_share(&c, t, n, share[q] * work, work);
            /* brief: two sizes in one list have never paid */
            for (int u = t; u < (many || brief ? t + 1 : SIZES); u++)
                for (int q = 0; q < (u == t ? 1 : SHARES); q++) {
                    int64_t at = u == t ? n : 0;
                    make_costs(&x, u);
                    double time = many ? work / p->nblock : makespan_about(work, dearest, p->nblock);
                    if (!many && !brief) {
                        if (u > t) at = small_from[q];
                        const int64_t m = gather(&c, t, u, at, l);
                        if (u > t && sum_of(l, m) / p->nblock >= 0.985 * best) continue;
                        time = kl_tile_span(l, gather_sorted(&c, t, u, at, l), p->nblock, 0.985 * best);
                    }
                    time = fmax(time, (work + rest) / p->nblock);
                    if (time >= 0.985 * best) continue;
                    best = time, *cut = (kl_tile_shape){p, nth, 0, 1}, from = at;
                    large[0] = try_m[t], large[1] = try_n[t], small[0] = try_m[u], small[1] = try_n[u];
                }
            /* Few tiles, most blocks without one at the end: cut the sums of the last round's, or of all. */
            for (int k = 0; t == 0 && p->parts && !brief && ntile <= 8 * (int64_t)p->nblock &&
                            best > 1.05 * work / p->nblock && k < 2 * TRIES;
                 k++) {
                const int parts = tries[k / 2];
                const int64_t whole = k % 2 ? ntile / p->nblock * p->nblock : 0;
                if (ntile - whole > KL_TURNS) continue;
                load *const all = l + 2 * KINDS * c.n + 1;
                const int64_t m = cut_the_rest(p, whole, parts, all, gather_sorted(&c, t, t, n, all), l);
                const double time = kl_tile_span(l, m, p->nblock, 0.985 * best);
                /* eight steps at least */
                if (time >= 0.985 * best || dearest / parts < 8 * p->cost_least) continue;
                best = time, *cut = (kl_tile_shape){p, nth, whole, parts}, from = n;
                large[0] = try_m[t], large[1] = try_n[t];
            }
            if (many) break;
        }
    }
    for (int64_t i = 0; i < n; i++) set_size(&o[i], i < from ? large : small);
out:
    kl_free(&price.alone);
    kl_free(&c.a);
    clear_costs(&c);
    kl_free(&l);
    return st;
}
