/* Launches from records: see tileplan.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "device/tileplan.h"
#include "base/par.h"
#include "base/parsort.h"
#include "device/tilepieces.h"
#include "device/tileshape.h"
#include "device/tileshares.h"
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* Bytes of pieces up to which the memory of a plan is kept for the next one. */
#define WORTH_KEEPING ((int64_t)1 << 26)

void kl_tile_plan_free_spare(void **spare)
{
    kl_tile_plan_maker *s = *spare;
    *spare = NULL;
    if (!s) return;
    kl_free(&s->piece);
    kl_free(&s->cell);
    kl_free(&s->term);
    kl_tile_maker_clear(s);
    kl_free(&s);
}

kl_status kl_tile_plan_open(const kl_batch *b, const kl_tile_plan_opts *o, int64_t budget, void **spare,
                            kl_tile_plan *p, kl_err *err)
{
    kl_status st = KL_OK;
    *p = (kl_tile_plan){.o = *o, .spare = spare};
    if (spare && *spare) {
        p->planner = *spare;
        *spare = NULL;
    } else KL_TRY(kl_alloc(&p->planner, 1, KL_MEM_RECORD, err));
    kl_tile_plan_maker *const s = p->planner;
    s->ndest = s->nuse = s->nlink = s->noutput = s->nlive = 0;
    p->piece = s->piece, p->cell = s->cell, p->term = s->term;
    s->piece = NULL, s->cell = NULL, s->term = NULL;
    s->adds = o->adds;
    KL_TRY(kl_tile_shares_find(o->nthread, s, b, &p->nsequential, err));
    kl_tile_outputs_place(s, budget, &p->nwork, &p->nround);
out:
    return st;
}

void kl_tile_plan_forget(kl_tile_plan *p)
{
    kl_tile_plan_maker *const s = p->planner;
    void *own = s, **const to = p->spare && !*p->spare ? p->spare : &own;
    if (!s) return;
    s->piece = p->piece, s->cell = p->cell, s->term = p->term;
    p->piece = NULL, p->cell = NULL, p->term = NULL;
    p->planner = NULL;
    *to = s;
    if (to == &own || s->cap_piece * (int64_t)sizeof(kl_piece) > WORTH_KEEPING) kl_tile_plan_free_spare(to);
}

void kl_tile_plan_clear(kl_tile_plan *p)
{
    kl_tile_plan_forget(p);
    kl_free(&p->launch);
}

/* What need not wait comes first. Then equal coefficients together: a change of coefficient costs a pass over
   the accumulators. */
static int by_alpha(const void *pa, const void *pb)
{
    const kl_link *const a = pa, *const b = pb;
    if (a->late != b->late) return a->late - b->late;
    if (a->alpha != b->alpha) return a->alpha < b->alpha ? -1 : 1;
    return a->rec < b->rec ? -1 : a->rec > b->rec;
}

/* What launches are written from and to. */
typedef struct writer {
    kl_tile_plan_maker *s;
    const kl_batch *b;
    uint64_t work; /* where WORK begins */
    kl_tile_plan *p;
    kl_piece *base; /* of the launch that is being written: its pieces, first the heads of parts */
    int hands; /* threads */
} writer;

static kl_tile_from from_of(const writer *w) { return (kl_tile_from){w->s, w->b, w->work}; }

/* Ratios of coefficients, for all tiles of an output. 1: one is so far from its neighbour that the sum is
   written in between, and is not cut into parts, whose blocks may add only at their end. */
static int make_ratios(kl_link *l, int64_t n)
{
    int far = 0;
    for (int64_t k = 0; k < n; k++) {
        const double ratio = k + 1 < n ? l[k].alpha / l[k + 1].alpha : 1.0;
        l[k].ratio = fabs(ratio) < 1e100 && fabs(ratio) > 1e-100 ? ratio : 0.0;
        far |= l[k].ratio == 0.0;
    }
    return far;
}

/* Outputs [0, n) of one launch and, where there are more, [n, n + after), which read what these write. */
typedef struct level_pair {
    kl_output *o;
    int64_t n, after;
    kl_tile_shape cut[2]; /* of the two levels */
} level_pair;

/* Links of output i in the order in which they are summed. 1: its sum is not to be cut into parts. */
static int order_links(const writer *out, const level_pair *l, int64_t i, int depth)
{
    kl_link *const link = out->s->link + l->o[i].first;
    const int64_t n = l->o[i].count;
    int mixed = 0;
    for (int64_t k = 0; k < n; k++) {
        link[k].late = i >= l->n && (link[k].da >= 0 || link[k].db >= 0);
        link[k].steps = kl_link_steps(&link[k], depth);
        mixed |= link[k].alpha != link[0].alpha || link[k].late != link[0].late;
    }
    if (mixed) qsort(link, (size_t)n, sizeof *link, by_alpha);
    const int far = make_ratios(link, n);
    return l->o[i].lone || far;
}

/* How an output is cut, down or across: the first `more` of n tiles have one unit more than the others. */
typedef struct cuts {
    int n, units, more;
} cuts;

/* Tiles of an output that cost the same, which a launch has behind each other: of its grid, down the columns,
   those whose kind is in the mask. Tall outputs have tiles by the thousand, but few runs. */
typedef struct run {
    const kl_output *o;
    int level; /* of the launch */
    int once; /* sums are not to be cut */
    unsigned mask; /* bit 2 i + j: kinds of tiles with i units of rows and j of columns more */
    cuts down, across;
    int rows[2]; /* of its tiles that a column has, one without and one with a unit more */
    int nth; /* of its output */
    int64_t steps, more; /* pieces behind the head of a tile that is whole */
    double cost; /* of a tile */
    int64_t first, n; /* tiles */
} run;

enum { KINDS = 4 };

static int of_kind(const cuts *c, int more) { return more ? c->more : c->n - c->more; }

static void set_kinds(run *r, unsigned mask)
{
    r->mask = mask;
    r->n = 0;
    for (int more = 0; more < 2; more++) {
        r->rows[more] = 0;
        for (int i = 0; i < 2; i++)
            if (mask >> (2 * i + more) & 1) r->rows[more] += of_kind(&r->down, i);
        r->n += (int64_t)r->rows[more] * of_kind(&r->across, more);
    }
}

/* Units of all its tiles. */
static double units_of_run(const run *r)
{
    double sum = 0;
    for (int k = 0; k < KINDS; k++)
        if (r->mask >> k & 1)
            sum += (double)of_kind(&r->down, k >> 1) * (r->down.units + (k >> 1)) *
                   of_kind(&r->across, k & 1) * (r->across.units + (k & 1));
    return sum;
}

static int least(int a, int b) { return a < b ? a : b; }
static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

static int units_before(const cuts *c, int n) { return n * c->units + least(n, c->more); }

/* Its tile number k, of fewer than INT32_MAX. */
static kl_tile tile_of(const run *r, const kl_tile_plan_opts *q, int k)
{
    const int wide = r->rows[1] * r->across.more, more = k < wide;
    const int at = more ? k : k - wide, rows = r->rows[more];
    const int col = at / rows + (more ? 0 : r->across.more),
              row = at % rows + (r->mask >> (2 + more) & 1 ? 0 : r->down.more);
    kl_tile w = {.o = r->o,
                 .um = r->down.units + (row < r->down.more),
                 .un = r->across.units + more,
                 .row = q->unit_m * units_before(&r->down, row),
                 .col = q->unit_n * units_before(&r->across, col)};
    w.m = least(w.um * q->unit_m, r->o->m - w.row);
    w.n = least(w.un * q->unit_n, r->o->n - w.col);
    return w;
}

/* The runs of output i in list[KINDS], of which the others have no tiles. */
static void list_runs(const writer *out, const level_pair *l, int64_t i, run *list)
{
    const kl_output *const o = &l->o[i];
    const kl_tile_plan_opts *const q = l->cut[i >= l->n].p;
    int um, un, tm, tn, nlist = 0;
    run one = {.o = o, .level = i >= l->n, .nth = (int)i};
    for (int k = 0; k < KINDS; k++) list[k].n = 0;
    one.steps = kl_tile_shape_steps(out->s, &l->o[i], q->depth);
    one.once = order_links(out, l, i, q->depth);
    one.more = kl_tile_further_pieces(out->s, q, o, &(kl_tile_part){.to = one.steps});
    kl_tile_shape_tiles(q, o, o->most_m, o->most_n, &um, &un, &tm, &tn);
    one.down = (cuts){tm, um / tm, um % tm};
    one.across = (cuts){tn, un / tn, un % tn};
    if (one.steps <= q->together) {
        one.cost = kl_tile_shape_cost(q, (um + tm - 1) / tm, (un + tn - 1) / tn, one.steps, o->count);
        set_kinds(&one, (1U << KINDS) - 1);
        list[0] = one;
        return;
    }
    for (int k = 0; k < KINDS; k++) {
        run *same = list;
        set_kinds(&one, 1U << k);
        if (one.n == 0) continue;
        one.cost = kl_tile_shape_cost(q, um / tm + (k >> 1), un / tn + (k & 1), one.steps, o->count);
        while (same < list + nlist && same->cost != one.cost) same++;
        if (same < list + nlist) set_kinds(same, same->mask | one.mask);
        else list[nlist++] = one;
    }
}

/* Some tiles and what is written of them: first how much, then from where on. */
typedef struct stretch {
    int64_t nhead, nmore, nturn;
    kl_tile_pen pen;
} stretch;

typedef struct writing {
    const writer *out;
    const level_pair *l;
    int hands; /* threads */
    run *run; /* [nrun] */
    int64_t nrun, ntile;
    int64_t nbefore; /* tiles of the first level */
    stretch *stretch;
} writing;

/* Parts of tile i of all, which is in run r. */
static int parts_of(const writing *x, const run *r, int64_t i)
{
    const kl_tile_shape *const c = &x->l->cut[r->level];
    if (r->once || i - (r->level ? x->nbefore : 0) < c->whole) return 1;
    return r->steps < c->parts ? (int)r->steps : c->parts;
}

/* Room for the pieces of all tiles behind those of earlier launches. */
static kl_status make_room(writer *out, const writing *x, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t npiece = 0;
    for (int64_t k = 0; k < x->nrun; k++) {
        const run *const r = &x->run[k];
        /* a part may begin inside a product, and what stands there is one more */
        npiece += r->n * (r->o->count + 2 * parts_of(x, r, r->first + r->n - 1));
    }
    if (npiece > INT32_MAX) {
        st = kl_fail(err, KL_ENOMEM, "plan: %lld pieces in one launch; at most %d are possible",
                     (long long)npiece, INT32_MAX);
        goto out;
    }
    if (out->p->npiece + npiece > out->s->cap_piece) {
        KL_TRY(kl_realloc(&out->p->piece, out->p->npiece + npiece, KL_MEM_RECORD, err));
        out->s->cap_piece = out->p->npiece + npiece;
    }
    out->base = out->p->piece + out->p->npiece;
out:
    return st;
}

enum { TOGETHER = 256 }; /* tiles, or outputs, that a thread takes at a time */

static int64_t tasks_of(int64_t n) { return (n + TOGETHER - 1) / TOGETHER; }

/* Part k of several, or of one. */
static kl_tile_part part_of(const writing *x, const run *r, int parts, int k, int64_t turn)
{
    kl_tile_part one = {.from = k > 0 ? r->steps * k / parts : 0,
                        .to = k + 1 < parts ? r->steps * (k + 1) / parts : r->steps,
                        .turn = parts > 1 ? (uint32_t)(turn << 8 | k) : 0,
                        .mark = parts > 1 ? (uint32_t)KL_P_PART : 0};
    if (k + 1 == parts)
        one.mark |= (uint32_t)KL_P_FINAL | (x->l->after > 0 && r->level == 0 ? (uint32_t)KL_P_FIRST : 0);
    if (r->level == 1) one.mark |= (uint32_t)KL_P_NEXT;
    return one;
}

/* The run that tile i is in. */
static const run *run_at(const writing *x, int64_t i)
{
    int64_t low = 0, high = x->nrun - 1;
    while (low < high) {
        const int64_t mid = (low + high + 1) / 2;
        if (x->run[mid].first <= i) low = mid;
        else high = mid - 1;
    }
    return &x->run[low];
}

static void count_task(void *self, int64_t task, int thread)
{
    const writing *const x = self;
    const run *r = run_at(x, task * TOGETHER);
    stretch *const count = &x->stretch[task];
    const int64_t end = least_of(x->ntile, (task + 1) * TOGETHER);
    (void)thread;
    for (int64_t i = task * TOGETHER; i < end; r++)
        for (const int64_t past = least_of(end, r->first + r->n); i < past; i++) {
            const int parts = parts_of(x, r, i);
            count->nhead += parts, count->nturn += parts > 1;
            if (parts == 1) count->nmore += r->more;
            for (int k = 0; k < parts && parts > 1; k++) {
                const kl_tile_part one = part_of(x, r, parts, k, 0);
                count->nmore += kl_tile_further_pieces(x->out->s, x->l->cut[r->level].p, r->o, &one);
            }
        }
}

/* Runs come by cost, and so from all over the list. */
static void look_ahead(const writing *x, const run *r)
{
    const kl_link *const link = x->out->s->link;
    const run *const end = x->run + x->nrun;
    if (r + 8 < end) __builtin_prefetch(r[8].o);
    if (r + 4 < end) __builtin_prefetch(&link[r[4].o->first]);
    if (r + 2 < end) __builtin_prefetch(&x->out->b->rec[link[r[2].o->first].rec]);
}

static void write_task(void *self, int64_t task, int thread)
{
    enum { ALIKE = 3 }; /* tiles of an output from which the others are copies */
    const writing *const x = self;
    const kl_tile_from from = from_of(x->out);
    kl_piece *const base = x->out->base;
    kl_tile_pen *const pen = &x->stretch[task].pen;
    const run *r = run_at(x, task * TOGETHER);
    const int64_t end = least_of(x->ntile, (task + 1) * TOGETHER);
    int64_t turn = x->stretch[task].nturn;
    kl_tile_pattern pattern;
    (void)thread;
    for (int64_t i = task * TOGETHER; i < end; r++) {
        const kl_tile_plan_opts *const q = x->l->cut[r->level].p;
        const int64_t past = least_of(end, r->first + r->n);
        const int copies = past - i >= ALIKE && r->o->count + 2 <= KL_PATTERN;
        int made = 0;
        look_ahead(x, r);
        for (; i < past; i++) {
            const kl_tile w = tile_of(r, q, (int)(i - r->first));
            const int parts = parts_of(x, r, i);
            if (copies && parts == 1) {
                const kl_tile_part whole = part_of(x, r, 1, 0, turn);
                if (!made) kl_tile_pattern_make(&from, q, &w, &whole, &pattern);
                made = 1;
                kl_tile_pattern_write(&pattern, q, &w, base, pen);
                continue;
            }
            for (int k = 0; k < parts; k++) {
                const kl_tile_part one = part_of(x, r, parts, k, turn);
                kl_tile_write_part(&from, q, &w, &one, base, pen);
            }
            turn += parts > 1;
        }
    }
}

/* The pieces of all tiles, and the launch. */
static kl_status write_tiles(writer *out, writing *x, kl_err *err)
{
    kl_status st = KL_OK;
    kl_tile_plan *const p = out->p;
    const level_pair *const l = x->l;
    const int64_t ntask = tasks_of(x->ntile);
    int64_t nhead = 0, nmore = 0, nturn = 0, nlone = 0;
    double units = 0, steps_of_all = 0;
    int adds = 0;
    KL_TRY(kl_alloc(&x->stretch, ntask, KL_MEM_RECORD, err));
    kl_par_for(x->hands, ntask, count_task, x);
    for (int64_t k = 0; k < ntask; k++) nhead += x->stretch[k].nhead;
    for (int64_t k = 0, head = 0; k < ntask; k++) {
        stretch *const s = &x->stretch[k];
        s->pen = (kl_tile_pen){.head = head, .more = nhead + nmore};
        head += s->nhead;
        nmore += s->nmore;
        nturn += s->nturn;
        s->nturn = nturn - s->nturn;
    }
    kl_par_for(x->hands, ntask, write_task, x);
    for (int64_t k = 0; k < ntask; k++) {
        p->padded += x->stretch[k].pen.padded;
        adds |= x->stretch[k].pen.adds;
    }
    for (int64_t k = 0; k < x->nrun; k++) {
        const run *const r = &x->run[k];
        if (r->o->lone) {
            nlone += r->n;
            continue;
        }
        units += units_of_run(r) * (double)r->steps;
        steps_of_all += (double)r->n * (double)r->steps;
    }
    p->launch[p->nlaunch++] = (kl_launch){.products = 1,
                                          .kind = l->cut[0].kind,
                                          .adds = adds,
                                          .first = p->npiece,
                                          .n = nhead,
                                          .nlone = nlone,
                                          .nbefore = l->after > 0 ? x->nbefore : 0,
                                          .units = steps_of_all > 0 ? units / steps_of_all : 0};
    p->npiece += nhead + nmore;
    p->ntile += nhead;
out:
    kl_free(&x->stretch);
    return st;
}

static void list_task(void *self, int64_t task, int thread)
{
    const writing *const x = self;
    const int64_t n = x->l->n + x->l->after;
    (void)thread;
    for (int64_t i = task * TOGETHER; i < n && i < (task + 1) * TOGETHER; i++)
        list_runs(x->out, x->l, i, x->run + KINDS * i);
}

/* The costliest first, of each level and of the lone ones behind the others; outputs come so already. */
static kl_status sort_runs(writing *x, kl_err *err)
{
    kl_status st = KL_OK;
    for (int64_t from = 0, to; from < x->nrun; from = to) {
        const run *const first = &x->run[from];
        for (to = from + 1; to < x->nrun && x->run[to].level == first->level; to++)
            if (x->run[to].o->lone != first->o->lone) break;
        KL_TRY(kl_sort_falling(x->run + from, to - from, sizeof *x->run, offsetof(run, cost), err));
    }
out:
    return st;
}

/* One launch of products. */
static kl_status write_products(writer *out, kl_output *o, int64_t n, int64_t after, kl_err *err)
{
    enum { MANY = 4096 }; /* tiles from which threads are woken, however few records they are made of */
    kl_status st = KL_OK;
    const int nthread = out->p->o.nthread;
    level_pair l = {.o = o, .n = n, .after = after};
    writing x = {.out = out, .l = &l, .hands = out->hands};
    KL_TRY(kl_tile_shape_choose(out->s, out->b, &out->p->o, o, n, after == 0, &l.cut[0], err));
    if (after > 0) KL_TRY(kl_tile_shape_choose(out->s, out->b, &out->p->o, o + n, after, 0, &l.cut[1], err));
    KL_TRY(kl_realloc(&x.run, KINDS * (n + after), KL_MEM_RECORD, err));
    kl_par_for(x.hands, tasks_of(n + after), list_task, &x);
    for (int64_t k = 0; k < KINDS * (n + after); k++)
        if (x.run[k].n > 0) x.run[x.nrun++] = x.run[k];
    KL_TRY(sort_runs(&x, err));
    for (int64_t k = 0; k < x.nrun; k++) {
        x.run[k].first = x.ntile;
        x.ntile += x.run[k].n;
        if (x.run[k].level == 0) x.nbefore = x.ntile;
    }
    if (x.ntile >= MANY && nthread > 1) x.hands = nthread;
    KL_TRY(make_room(out, &x, err));
    KL_TRY(write_tiles(out, &x, err));
out:
    kl_free(&x.run);
    return st;
}

/* One launch that adds matrices. */
static kl_status write_sums(writer *w, const kl_output *o, int64_t n, kl_err *err)
{
    kl_status st = KL_OK;
    kl_tile_plan_maker *const s = w->s;
    kl_tile_plan *const p = w->p;
    const int64_t first = p->ncell;
    const kl_tile_from from = from_of(w);
    for (int64_t i = 0; i < n; i++) {
        const int64_t term = p->nterm;
        for (int64_t k = o[i].first; k < o[i].first + o[i].count; k++) {
            const kl_rec r = kl_upright(&w->b->rec[s->link[k].rec]);
            KL_ROOM(p->term, p->nterm, s->cap_term);
            kl_summand *const to = &p->term[p->nterm++];
            *to = (kl_summand){.alpha = r.alpha, .lda = r.lda, .flags = r.ta ? KL_P_TA : 0};
            if (r.kind == KL_REC_FILL) {
                to->flags = KL_P_END;
                continue;
            }
            const int dr = s->link[k].row, dc = s->link[k].col;
            to->a = kl_tile_operand(&from, r.at_a, s->link[k].da,
                                    r.a + (r.ta ? (int64_t)dr * r.lda + dc : dr + (int64_t)dc * r.lda),
                                    KL_P_A, &to->flags);
        }
        const int tall = o[i].m < 128  ? o[i].m
                         : o[i].n == 1 ? KL_CELL
                                       : 128,
                  wide = tall > 0 ? KL_CELL / tall : 1;
        for (int col = 0; col < o[i].n; col += wide)
            for (int row = 0; row < o[i].m; row += tall) {
                KL_ROOM(p->cell, p->ncell, s->cap_cell);
                p->cell[p->ncell++] = (kl_tile_cell){.c = o[i].c,
                                                     .ldc = o[i].ldc,
                                                     .row = row,
                                                     .col = col,
                                                     .m = o[i].m - row < tall ? o[i].m - row : tall,
                                                     .n = o[i].n - col < wide ? o[i].n - col : wide,
                                                     .first = (int32_t)term,
                                                     .count = (int32_t)o[i].count,
                                                     .flags = o[i].flags};
            }
    }
    if (p->ncell > INT32_MAX / KL_CELL || p->nterm > INT32_MAX) {
        st = kl_fail(err, KL_ENOMEM,
                     "plan: %lld cells and %lld terms in one list; at most %d cells are possible",
                     (long long)p->ncell, (long long)p->nterm, INT32_MAX / KL_CELL);
        goto out;
    }
    p->launch[p->nlaunch++] = (kl_launch){.first = first, .n = p->ncell - first};
out:
    return st;
}

static int64_t end_of_slot(const kl_tile_plan_maker *s, int64_t i)
{
    int64_t j = i;
    while (j < s->noutput && s->output[j].slot == s->output[i].slot) j++;
    return j;
}

/* Outputs [i, j) of one slot: is there a product among them, or only matrices that are added? */
static int is_product_slot(const kl_tile_plan_maker *s, int64_t i, int64_t j)
{
    for (int64_t k = i; k < j && (s->output[k].slot & 1); k++)
        for (int64_t q = s->output[k].first; q < s->output[k].first + s->output[k].count; q++)
            if (s->link[q].k > 0) return 1;
    return 0;
}

kl_status kl_tile_plan_write(const kl_batch *b, uint64_t work, kl_tile_plan *p, kl_err *err)
{
    kl_status st = KL_OK;
    kl_tile_plan_maker *const s = p->planner;
    writer w = {.s = s, .b = b, .work = work, .p = p, .hands = kl_tile_hands(p->o.nthread, b->nrec)};
    int64_t nslot = 0;
    KL_TRY(kl_tile_shares_write(p->o.nthread, s, b, work, err));
    KL_TRY(kl_tile_outputs_sort(s, w.hands, &nslot, err));
    KL_TRY(kl_alloc(&p->launch, nslot, KL_MEM_RECORD, err));
    for (int64_t i = 0, j, k; i < s->noutput; i = k) {
        j = k = end_of_slot(s, i);
        if (is_product_slot(s, i, j)) {
            if (p->o.levels && j < s->noutput && s->output[i].slot >> 40 == s->output[j].slot >> 40 &&
                is_product_slot(s, j, end_of_slot(s, j)))
                k = end_of_slot(s, j);
            KL_TRY(write_products(&w, s->output + i, j - i, k - j, err));
        } else KL_TRY(write_sums(&w, s->output + i, j - i, err));
    }
    if (b->flop > 0) p->padded /= b->flop;
out:
    return st;
}
