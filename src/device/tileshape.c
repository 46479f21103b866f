/* Sizes of tiles: see tileshape.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "device/tileshape.h"
#include "base/par.h"
#include "base/parsort.h"
#include "device/tileshares.h"
#include "device/tilespan.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

static double larger(double a, double b) { return a > b ? a : b; }

/* Cycles of a step of a tile. */
static double step_cost(const kl_tile_plan_opts *p, int um, int un)
{
    const double wave = um * un * p->cost_unit + um * p->cost_row + un * p->cost_col;
    const double slices = p->rate > 0 ? 8.0 * p->depth * (um * p->unit_m + un * p->unit_n) / p->rate : 0;
    return larger(wave, larger(slices, p->cost_least));
}

static double whole_cost(const kl_tile_plan_opts *p, double step, int um, int un, int64_t steps,
                         int64_t pieces)
{
    return (double)steps * step + (double)(pieces - 1) * p->cost_piece + p->cost_tile + 100.0 * um * un;
}

double kl_tile_shape_cost(const kl_tile_plan_opts *p, int um, int un, int64_t steps, int64_t pieces)
{
    return whole_cost(p, step_cost(p, um, un), um, un, steps, pieces);
}

/* What steps of small tiles cost, for outputs by the thousand. */
enum { PACES = 8 };
typedef struct pace {
    const kl_tile_plan_opts *p;
    double step[PACES][PACES];
} pace;

static pace pace_of(const kl_tile_plan_opts *p)
{
    pace t = {.p = p};
    for (int m = 0; m < PACES; m++)
        for (int n = 0; n < PACES; n++) t.step[m][n] = step_cost(p, m + 1, n + 1);
    return t;
}

static double cost_of(const pace *t, int um, int un, int64_t steps, int64_t pieces)
{
    const double step = um <= PACES && un <= PACES ? t->step[um - 1][un - 1] : step_cost(t->p, um, un);
    return whole_cost(t->p, step, um, un, steps, pieces);
}

int64_t kl_tile_shape_steps(const kl_tile_plan_maker *s, kl_output *o, int depth)
{
    int64_t steps = 0;
    for (int i = 0; i < 2; i++)
        if (o->depth[i] == depth) return o->steps[i];
    for (int64_t i = o->first; i < o->first + o->count; i++) steps += kl_link_steps(&s->link[i], depth);
    const int at = o->depth[0] != 0;
    o->depth[at] = depth;
    return o->steps[at] = steps;
}

typedef kl_tile_load load;

/* When a launch ends, roughly: the costliest tile may begin last. */
static double makespan_about(double work, double dearest, int nblock)
{
    return fmax(work / nblock + 0.5 * dearest * (1 - 1.0 / nblock), dearest);
}

static int units_of(int rows, int unit) { return (rows + unit - 1) / unit; }

void kl_tile_shape_tiles(const kl_tile_plan_opts *p, const kl_output *o, int most_m, int most_n, int *um,
                         int *un, int *tm, int *tn)
{
    *um = units_of(o->m, p->unit_m), *un = units_of(o->n, p->unit_n);
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

/* Units of an output, how many tiles they make across or down, and of how many units: the first `more` have
   `units`, the others one less. */
typedef struct cut_side {
    int n, units, more;
} cut_side;

static cut_side cut_of(int units, int most)
{
    const int n = units <= most ? 1 : (units + most - 1) / most, each = n > 1 ? units / n : units,
              more = units - n * each;
    return (cut_side){n, each + (more > 0), more > 0 ? more : n};
}

/* The tiles of an output of um x un units, the costliest kind first; returns what they cost together. extra:
   of each tile. */
static double loads_of(const pace *p, int um, int un, int most_m, int most_n, int64_t steps, int64_t pieces,
                       double extra, load l[KINDS])
{
    const cut_side down = cut_of(um, most_m), across = cut_of(un, most_n);
    double sum = 0;
    for (int k = 0; k < KINDS; k++) {
        const int less_m = k & 1, less_n = k >> 1;
        const int64_t n = (int64_t)(less_m ? down.n - down.more : down.more) *
                          (less_n ? across.n - across.more : across.more);
        l[k] = (load){0, n};
        if (n == 0) continue;
        l[k].cost = cost_of(p, down.units - less_m, across.units - less_n, steps, pieces) + extra;
        sum += l[k].cost * (double)n;
    }
    return sum;
}

/* Neighbours in the order of their cost that are alike, as outputs of many sectors are: what one costs, all
   do. */
typedef struct alike {
    int64_t first, n;
    int um, un; /* units of each */
    int64_t steps, pieces;
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
    load *l[SIZES]; /* [n][KINDS]; NULL: of this size nothing is there */
    double *work[SIZES]; /* [n] */
    kind *sorted[SIZES]; /* [n * KINDS]: those that there are, the costliest first; NULL: not sorted yet */
    int64_t nsorted[SIZES];
} costs;

/* Of all the alike, for one size. */
typedef struct costing {
    const pace *p;
    const int *try_m, *try_n;
    double extra; /* of each tile */
    int t;
    costs *c;
} costing;

enum { TOGETHER = 512 }; /* outputs that a thread takes at a time */

static void cost_task(void *self, int64_t task, int thread)
{
    const costing *const x = self;
    costs *const c = x->c;
    const int t = x->t, most_m = x->try_m[t], most_n = x->try_n[t];
    (void)thread;
    for (int64_t g = task * TOGETHER; g < c->n && g < (task + 1) * TOGETHER; g++) {
        const alike *const one = &c->a[g];
        load *const l = c->l[t] + KINDS * g;
        /* one tile, as of the largest size */
        if (t > 0 && one->um <= most_m && one->un <= most_n) {
            memcpy(l, c->l[0] + KINDS * g, KINDS * sizeof *l);
            c->work[t][g] = c->work[0][g];
        } else
            c->work[t][g] =
                loads_of(x->p, one->um, one->un, most_m, most_n, one->steps, one->pieces, x->extra, l);
    }
}

/* What size t costs, once; most lists have so many tiles that the largest size is all that is asked for. */
static kl_status make_costs(costing *x, int t, kl_err *err)
{
    kl_status st = KL_OK;
    costs *const c = x->c;
    if (c->l[t]) return KL_OK;
    KL_TRY(kl_realloc(&c->l[t], KINDS * c->n, KL_MEM_RECORD, err));
    KL_TRY(kl_realloc(&c->work[t], c->n, KL_MEM_RECORD, err));
    x->t = t;
    kl_par_for(c->hands, (c->n + TOGETHER - 1) / TOGETHER, cost_task, x);
out:
    return st;
}

static void clear_costs(costs *c)
{
    for (int t = 0; t < SIZES; t++) {
        kl_free(&c->l[t]);
        kl_free(&c->work[t]);
        kl_free(&c->sorted[t]);
    }
}

/* Which are alike; of their costs there is nothing any more. */
static void find_alike(const kl_tile_plan_maker *s, const kl_tile_plan_opts *p, kl_output *o, int64_t n,
                       costs *c)
{
    clear_costs(c);
    c->n = 0;
    for (int64_t i = 0; i < n; i++) {
        const kl_output *const before = i > 0 ? &o[i - 1] : NULL;
        const int64_t steps = kl_tile_shape_steps(s, &o[i], p->depth);
        if (before && before->m == o[i].m && before->n == o[i].n && before->count == o[i].count &&
            c->a[c->n - 1].steps == steps)
            c->a[c->n - 1].n++;
        else
            c->a[c->n++] =
                (alike){i, 1, units_of(o[i].m, p->unit_m), units_of(o[i].n, p->unit_n), steps, o[i].count};
    }
}

/* Tiles of all outputs, of size t. */
typedef struct all_tiles {
    double work, dearest;
    int64_t n;
} all_tiles;

static all_tiles all_of(const costs *c, int t)
{
    all_tiles all = {0};
    for (int64_t g = 0; g < c->n; g++)
        for (int k = 0; k < KINDS; k++) {
            const load one = c->l[t][KINDS * g + k];
            const int64_t n = one.n * c->a[g].n;
            if (n == 0) continue;
            all.work += one.cost * (double)n;
            all.n += n;
            if (one.cost > all.dearest) all.dearest = one.cost;
        }
    return all;
}

/* What the tiles of all outputs cost, those from `at` on of size u, the others of size t. */
static double work_of(const costs *c, int t, int u, int64_t at)
{
    double sum = 0;
    for (int64_t g = 0; g < c->n; g++) {
        const alike a = c->a[g];
        const int64_t large = at <= a.first ? 0 : at - a.first < a.n ? at - a.first : a.n;
        for (int half = 0; half < 2; half++) {
            const load *const one = c->l[half ? u : t] + KINDS * g;
            const int64_t times = half ? a.n - large : large;
            for (int k = 0; k < KINDS && times > 0; k++)
                if (one[k].n > 0) sum += one[k].cost * (double)(one[k].n * times);
        }
    }
    return sum;
}

/* Tiles of size t in the order in which blocks take them, once for all the tries. */
static kl_status sort_kinds(costs *c, int t, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t n = 0;
    if (c->sorted[t]) return KL_OK;
    KL_TRY(kl_realloc(&c->sorted[t], KINDS * c->n, KL_MEM_RECORD, err));
    for (int64_t i = 0; i < KINDS * c->n; i++) {
        const load one = c->l[t][i];
        if (one.n > 0) c->sorted[t][n++] = (kind){one.cost, i / KINDS, one.n};
    }
    c->nsorted[t] = n;
    KL_TRY(kl_sort_falling(c->sorted[t], n, sizeof *c->sorted[t], offsetof(kind, cost), err));
out:
    return st;
}

/* Outputs of the alike `of` that are before `at`, or from there on. */
static int64_t outputs_of(const costs *c, int64_t of, int64_t at, int after)
{
    const alike a = c->a[of];
    const int64_t before = at <= a.first ? 0 : at - a.first < a.n ? at - a.first : a.n;
    return after ? a.n - before : before;
}

/* The tiles of all outputs, the costliest first, those of outputs from `at` on of size u, the others of size
   t, both sorted; returns how many kinds there are. */
static int64_t gather(const costs *c, int t, int u, int64_t at, load *l)
{
    const kind *const large = c->sorted[t], *const small = c->sorted[u];
    int64_t n = 0, i = 0, k = 0;
    while (i < c->nsorted[t] || k < c->nsorted[u]) {
        const int after = i == c->nsorted[t] || (k < c->nsorted[u] && small[k].cost > large[i].cost);
        const kind *const one = after ? &small[k++] : &large[i++];
        const int64_t times = outputs_of(c, one->of, at, after);
        if (times > 0) l[n++] = (load){one->cost, one->each * times};
    }
    return n;
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
        for (; at < c->a[g].first + c->a[g].n && left > share; at++) left -= c->work[t][g];
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
    const pace *p;
    kl_output *o;
    int64_t n;
    int lone;
    double extra; /* of each tile */
    double *alone; /* [n] */
} pricing;

static void price_task(void *self, int64_t task, int thread)
{
    const pricing *const x = self;
    (void)thread;
    for (int64_t i = task * TOGETHER; i < x->n && i < (task + 1) * TOGETHER; i++) {
        load one[KINDS];
        kl_output *const o = &x->o[i];
        const kl_tile_plan_opts *const p = x->p->p;
        const int64_t steps = kl_tile_shape_steps(x->s, o, p->depth);
        const double otherwise = loads_of(x->p, units_of(o->m, p->unit_m), units_of(o->n, p->unit_n),
                                          p->most_m, p->most_n, steps, o->count, x->extra, one),
                     alone = x->lone && p->cost_lone > 0 ? cost_lone(p, o, steps, x->extra, otherwise) : 0;
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
    pace paces = pace_of(first);
    pricing price = {.s = s, .p = &paces, .o = o, .n = n, .lone = lone, .extra = listing(b)};
    KL_TRY(kl_realloc(&price.alone, n, KL_MEM_RECORD, err));
    kl_par_for(c.hands, (n + TOGETHER - 1) / TOGETHER, price_task, &price);
    for (int64_t i = 0; i < n; i++) rest += price.alone[i];
    /* the costliest first; all are of one slot */
    KL_TRY(kl_sort_falling(o, n, sizeof *o, offsetof(kl_output, cost), err));
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
        costing x = {&paces, try_m, try_n, listing(b), 0, &c};
        paces = pace_of(p);
        find_alike(s, p, o, n, &c);
        kl_free(&l);
        /* going through the motions takes some 50 ns a tile and a try, and is worth a tenth of what the
           device takes */
        int brief = b->once;
        for (int t = 0; t < SIZES; t++) {
            KL_TRY(make_costs(&x, t, err));
            const all_tiles all = all_of(&c, t);
            const double work = all.work, dearest = all.dearest;
            const int64_t ntile = all.n;
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
                    KL_TRY(make_costs(&x, u, err));
                    double time = many ? work / p->nblock : makespan_about(work, dearest, p->nblock);
                    if (!many && !brief) {
                        if (u > t) at = small_from[q];
                        if (u > t && work_of(&c, t, u, at) / p->nblock >= 0.985 * best) continue;
                        KL_TRY(sort_kinds(&c, t, err));
                        KL_TRY(sort_kinds(&c, u, err));
                        if (!l) KL_TRY(kl_realloc(&l, 2 * (2 * KINDS * c.n + 1), KL_MEM_RECORD, err));
                        time = kl_tile_span(l, gather(&c, t, u, at, l), p->nblock, 0.985 * best);
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
                KL_TRY(sort_kinds(&c, t, err));
                if (!l) KL_TRY(kl_realloc(&l, 2 * (2 * KINDS * c.n + 1), KL_MEM_RECORD, err));
                load *const whole_ones = l + 2 * KINDS * c.n + 1;
                const int64_t m =
                    cut_the_rest(p, whole, parts, whole_ones, gather(&c, t, t, n, whole_ones), l);
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
