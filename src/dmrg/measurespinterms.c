/* Expectation values of all strings of a term list at once, in a state of the total spin: see measure.h.
   Outline:
   1. spinpaths.c makes coupled beginnings and ends of the strings;
   2. from right to left the dual D of every end, <[T x end]^0> = sum T D for any tensor T of the left block,
      where [T x [X x R]^K]^0 = [[T x X]^K' x R]^0: D is what a grown tensor is multiplied with, carried back;
   3. from left to right the beginnings grow, and one matrix product gives all scalar products with the ends.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "dmrg/spinpaths.h"
#include "model/wigner.h"
#include "phase.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_MOST = 200000 }; /* records that are made before they are run */

typedef struct level { /* tensors of one cut */
    kl_level t;
    int *of, *index; /* [nodes] which list, -1: not there; where in it */
    int nlive;
    int *live; /* [nlive] nodes */
} level;

typedef struct work {
    const kl_measure *m;
    const kl_terms *t;
    double *value;
    kl_irreducibles one;
    kl_spinpaths path;
    level *rest;    /* [nsite + 1] by cut */
    kl_err *err;
} work;

/* ---------------------------------------------------------------- tensors of a cut */

static void level_clear(const kl_measure *m, level *l)
{
    kl_tensors_clear(m, &l->t);
    kl_free(&l->of);
    kl_free(&l->index);
    kl_free(&l->live);
    l->nlive = 0;
}

/* How a live node comes from those of the cut beside. */
typedef struct growth {
    int node, in; /* in: -1: nothing was before */
    int list, from, op; /* op -1: it goes on over the site */
} growth;

static growth growth_of(const kl_nodes *s, int p, int i, const level *beside)
{
    const int here = s->list[i].pos == p, in = here ? s->list[i].other : i;
    return (growth){
        .node = i, .in = in, .from = in < 0 ? -1 : beside->of[in], .op = here ? s->list[i].op : -1};
}

static int by_kind(const void *pa, const void *pb)
{
    const growth *const a = pa, *const b = pb;
    if (a->list != b->list) return a->list - b->list;
    if (a->from != b->from) return a->from - b->from;
    return a->op != b->op ? a->op - b->op : a->node - b->node;
}

/* Room for the nodes in l->live, over the left basis of a cut, and how they grow at site p; dual: matrices
   that take tensors of the opposite shift. */
static kl_status lay_out(const work *w, const kl_nodes *s, int cut, int p, const level *beside, level *l,
                         growth **g)
{
    kl_status st = KL_OK;
    const int dual = s == &w->path.end;
    const kl_model *const model = w->m->can->model;
    kl_node *family = NULL; /* of shift and rank; until: how many */
    int n = 0;
    KL_TRY(kl_alloc(&l->of, s->n, KL_MEM_WORK, w->err));
    KL_TRY(kl_alloc(&l->index, s->n, KL_MEM_WORK, w->err));
    KL_TRY(kl_alloc(g, l->nlive, KL_MEM_WORK, w->err));
    for (int i = 0; i < s->n; i++) l->of[i] = -1;
    for (int i = 0; i < l->nlive; i++) {
        const kl_node *const x = &s->list[l->live[i]];
        const kl_qn shift = dual ? kl_qn_sub(model, kl_qn_zero(), x->shift) : x->shift;
        int k = 0;
        while (k < n && (family[k].rank != x->rank || kl_qn_cmp(family[k].shift, shift) != 0)) k++;
        if (k == n) {
            KL_TRY(kl_realloc(&family, n + 1, KL_MEM_WORK, w->err));
            family[n++] = (kl_node){.rank = x->rank, .shift = shift};
        }
        l->of[l->live[i]] = k;
        l->index[l->live[i]] = family[k].until++;
        (*g)[i] = growth_of(s, p, l->live[i], beside);
        (*g)[i].list = k;
    }
    for (int k = 0; k < n; k++)
        KL_TRY(kl_tensors_add(w->m, kl_canonical_left(w->m->can, cut), family[k].shift, family[k].rank,
                              family[k].until, &l->t, w->err));
    KL_TRY(kl_tensors_room(w->m, &l->t, w->err));
    if (l->nlive > 0) qsort(*g, (size_t)l->nlive, sizeof **g, by_kind);
out:
    kl_free(&family);
    return st;
}

/* Runs what has been listed at site p, from `from` into `to`. */
static kl_status run_list(const work *w, int p, kl_batch *b, const level *from, const level *to)
{
    const kl_measure *const m = w->m;
    b->zero = 1;
    b->base[KL_AT_LEFT] = m->iso[p];
    b->base[KL_AT_RIGHT] = m->centre[p];
    const kl_status st =
        b->ngroup > 0 ? kl_batch_run(b, m->ex, from->t.n > 0 ? from->t.data : m->iso[p], to->t.data, w->err)
                      : KL_OK;
    kl_batch_reset(b);
    return st;
}

/* How many of g[0..n) grow alike. */
static int run_of(const growth *g, int n)
{
    int k = 1;
    while (k < n && g[k].list == g[0].list && g[k].from == g[0].from && g[k].op == g[0].op) k++;
    return k;
}

static const kl_irreducible *acting(const work *w, int op)
{
    return op < 0 ? w->one.list : w->path.reduced[op].x;
}

typedef kl_status (*lister)(const work *w, int p, const growth *g, int n, const level *from, const level *to,
                            kl_batch *b);

/* All of a level by runs that grow alike. */
static kl_status make_level(const work *w, int p, const growth *g, const level *from, const level *to,
                            lister list)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0, n; i < to->nlive; i += n) {
        n = run_of(g + i, to->nlive - i);
        KL_TRY(list(w, p, g + i, n, from, to, &b));
        if (b.nrec > LIST_MOST) KL_TRY(run_list(w, p, &b, from, to));
    }
    KL_TRY(run_list(w, p, &b, from, to));
out:
    kl_batch_clear(&b);
    return st;
}

/* ---------------------------------------------------------------- 2. duals of ends */

/* Of elements that nothing stands behind: parts of the centre tensor with itself. */
static void push_last(const work *w, int p, const int *kept, const kl_tensors *out, int at, int64_t y,
                      const kl_irreducible *x, kl_batch *b)
{
    const kl_measure *const m = w->m;
    const kl_enlarged *const e = m->can->left[p]->enlarged;
    const int i = at % out->nsec, j = out->dst[at], d = e->d, t = kl_tensors_type(m, p),
              spin = kl_model_spin(m->can->model);
    for (int r = 0; r < x->n[t]; r++) {
        const kl_elem *const el = &x->elem[t][r];
        const int big = e->home[i * d + el->col];
        if (big < 0 || kept[big] < 0 || e->part_sec[big * d + el->row] != j) continue;
        const int whole = e->basis.q[big].v[spin];
        const double g = kl_couple((kl_leg){e->block.q[i].v[spin], out->rank, e->block.q[j].v[spin]},
                                   (kl_leg){e->site->spin[el->col], x->rank, e->site->spin[el->row]},
                                   (kl_leg){whole, 0, whole});
        if (fabs(g) < KL_SPIN_ZERO) continue;
        kl_rec *const last = kl_batch_push(b);
        *last = kl_measure_trace(m, p, kept[big], el, y,
                                 g * el->value *
                                     kl_phase_record(x->odd, kl_qn_odd(m->can->model, e->block.q[i])));
        last->at_a = last->at_b = KL_AT_RIGHT;
    }
}

/* One element of a piece, before the ends of `behind`; op and y of it are the caller's. */
typedef struct dual_step {
    kl_carry c;
    int64_t off;
} dual_step;

/* The elements of x that make piece `at` of a dual: returns how many. */
static int dual_steps(const work *w, int p, const int *kept, const kl_tensors *out, int at,
                      const kl_irreducible *x, const kl_tensors *in, dual_step *step)
{
    const kl_measure *const m = w->m;
    const kl_isometry *const a = m->can->left[p];
    const kl_enlarged *const e = a->enlarged;
    const int i = at % out->nsec, j = out->dst[at], d = e->d, t = kl_tensors_type(m, p);
    int n = 0;
    for (int r = 0; r < x->n[t]; r++) {
        const kl_elem *const el = &x->elem[t][r];
        const int big = e->home[i * d + el->col], big2 = e->home[j * d + el->row];
        if (big < 0 || big2 < 0 || kept[big] < 0 || kept[big2] < 0) continue;
        const int k = kept[big], k2 = kept[big2], where = kl_tensors_place(m, in, &a->basis, k, k2);
        if (where < 0) continue;
        const kl_tensors_piece z = {.m = m, .p = p, .rank = in->rank, .from = k, .to = k2};
        const double coef = kl_tensors_couple(&z, out, x, el);
        if (coef == 0) continue;
        step[n++] = (dual_step){.c = {.row_rows = e->block.dim[j],
                                      .rows = e->basis.dim[big2],
                                      .col_rows = e->block.dim[i],
                                      .cols = e->basis.dim[big],
                                      .row_dim = a->basis.dim[k2],
                                      .col_dim = a->basis.dim[k],
                                      .row = a->off[k2] + e->part_off[big2 * d + el->row],
                                      .col = a->off[k] + e->part_off[big * d + el->col],
                                      .coef = coef},
                                .off = in->off[where]};
    }
    return n;
}

static kl_status list_duals(const work *w, int p, const growth *g, int n, const level *behind,
                            const level *to, kl_batch *b)
{
    kl_status st = KL_OK;
    const kl_basis *const block = &w->m->can->left[p]->enlarged->block;
    const kl_irreducible *const x = acting(w, g->op);
    const kl_tensors *const out = &to->t.list[g->list], *const in =
                                                            g->in < 0 ? NULL : &behind->t.list[g->from];
    const int most = x->n[kl_tensors_type(w->m, p)];
    int *kept = NULL;
    dual_step *step = NULL;
    KL_TRY(kl_measure_kept(w->m, p, &kept, w->err));
    KL_TRY(kl_alloc(&step, most, KL_MEM_WORK, w->err));
    for (int at = 0; at < (out->rank + 1) * out->nsec; at++) {
        if (out->dst[at] < 0) continue;
        const int64_t size = (int64_t)block->dim[at % out->nsec] * block->dim[out->dst[at]];
        const int steps = in != NULL ? dual_steps(w, p, kept, out, at, x, in, step) : 0;
        for (int o = 0; o < n; o++) {
            const int64_t y = out->at + to->index[g[o].node] * out->len + out->off[at];
            int64_t nwork = 0;
            KL_TRY(kl_batch_open_group(b, y, size, w->err));
            KL_TRY(kl_batch_reserve(b, 2 * most, w->err));
            if (in == NULL) push_last(w, p, kept, out, at, y, x, b);
            for (int k = 0; k < steps; k++) {
                kl_carry c = step[k].c;
                c.op = in->at + behind->index[g[o].in] * in->len + step[k].off;
                c.y = y;
                const int64_t needed = kl_measure_push_back(b, &c);
                nwork = needed > nwork ? needed : nwork;
            }
            kl_batch_close_group(b, nwork);
        }
    }
out:
    kl_free(&kept);
    kl_free(&step);
    return st;
}

static kl_status make_duals(const work *w, int p, const level *behind, level *l)
{
    kl_status st = KL_OK;
    growth *g = NULL;
    KL_TRY(lay_out(w, &w->path.end, p, p, behind, l, &g));
    KL_TRY(make_level(w, p, g, behind, l, list_duals));
out:
    kl_free(&g);
    return st;
}

static kl_status make_rests(work *w)
{
    kl_status st = KL_OK;
    const int n = w->m->can->nsite;
    KL_TRY(kl_alloc(&w->rest, n + 1, KL_MEM_WORK, w->err));
    for (int p = n - 1; p > 0; p--) {
        level *const l = &w->rest[p];
        KL_TRY(kl_alloc(&l->live, w->path.end.n, KL_MEM_WORK, w->err));
        for (int i = 0; i < w->path.end.n; i++) {
            const kl_node *const x = &w->path.end.list[i];
            if (x->until >= 0 && x->until <= p && x->pos >= p) l->live[l->nlive++] = i;
        }
        KL_TRY(make_duals(w, p, &w->rest[p + 1], l));
    }
out:
    return st;
}

/* ---------------------------------------------------------------- 3. beginnings, and the two together */

static kl_status list_growth(const work *w, int p, const growth *g, int n, const level *now,
                             const level *next, kl_batch *b)
{
    kl_status st = KL_OK;
    const kl_basis *const basis = &w->m->can->left[p]->basis;
    const kl_irreducible *const x = acting(w, g->op);
    const kl_tensors *const out = &next->t.list[g->list], *const in =
                                                              g->in < 0 ? NULL : &now->t.list[g->from];
    const int t = kl_tensors_type(w->m, p);
    double *coef = NULL;
    KL_TRY(kl_alloc(&coef, x->n[t], KL_MEM_WORK, w->err));
    for (int at = 0; at < (out->rank + 1) * out->nsec; at++) {
        kl_tensors_piece z = {
            .m = w->m, .p = p, .rank = out->rank, .from = at % out->nsec, .to = out->dst[at], .batch = b};
        if (z.to < 0) continue;
        for (int k = 0; k < x->n[t]; k++) coef[k] = kl_tensors_couple(&z, in, x, &x->elem[t][k]);
        for (int o = 0; o < n; o++) {
            const int64_t y = out->at + next->index[g[o].node] * out->len + out->off[at];
            const int which = in != NULL ? now->index[g[o].in] : 0;
            KL_TRY(kl_tensors_open(&z, y, (int64_t)basis->dim[z.from] * basis->dim[z.to], x->n[t], w->err));
            for (int k = 0; k < x->n[t]; k++)
                if (coef[k] != 0) kl_tensors_push(&z, in, which, &x->elem[t][k], coef[k]);
            kl_batch_close_group(b, z.nwork);
        }
    }
out:
    kl_free(&coef);
    return st;
}

/* The beginnings of cut p + 1 from those of cut p, which are dropped. */
static kl_status grow(const work *w, int p, level *now)
{
    kl_status st = KL_OK;
    level next = {0};
    growth *g = NULL;
    KL_TRY(kl_alloc(&next.live, w->path.begin.n, KL_MEM_WORK, w->err));
    for (int i = 0; i < w->path.begin.n; i++)
        if (w->path.begin.list[i].pos <= p && w->path.begin.list[i].until > p) next.live[next.nlive++] = i;
    KL_TRY(lay_out(w, &w->path.begin, p + 1, p, now, &next, &g));
    KL_TRY(make_level(w, p, g, now, &next, list_growth));
    level_clear(w->m, now);
    *now = next;
    next = (level){0};
out:
    kl_free(&g);
    level_clear(w->m, &next);
    return st;
}

/* The tensors of the edge: cut 0. */
static kl_status open_edge(const work *w, level *l)
{
    kl_status st = KL_OK;
    int n = 0;
    KL_TRY(kl_alloc(&l->of, w->path.begin.n, KL_MEM_WORK, w->err));
    KL_TRY(kl_alloc(&l->index, w->path.begin.n, KL_MEM_WORK, w->err));
    for (int i = 0; i < w->path.begin.n; i++) {
        const kl_node *const x = &w->path.begin.list[i];
        l->of[i] = x->pos < 0 ? x->rank / 2 - 1 : -1;
        n = l->of[i] >= n ? l->of[i] + 1 : n;
    }
    KL_TRY(kl_tensors_start(w->m, n, &l->t, w->err));
out:
    return st;
}

/* The paths whose ends begin at cut p. */
static kl_status close_paths(work *w, int p, const level *l)
{
    kl_status st = KL_OK;
    level r = {0};
    double *product = NULL;
    KL_TRY(kl_alloc(&r.live, w->path.end.n, KL_MEM_WORK, w->err));
    for (int i = 0; i < w->path.end.n; i++)
        if (w->path.end.list[i].pos == p && w->path.first[i + 1] > w->path.first[i]) r.live[r.nlive++] = i;
    if (r.nlive == 0) goto out;
    KL_TRY(make_duals(w, p, &w->rest[p + 1], &r));
    for (int g = 0; g < r.t.n; g++) {
        const kl_tensors *const y = &r.t.list[g];
        int f = 0;
        while (f < l->t.n && (l->t.list[f].rank != y->rank || kl_qn_cmp(l->t.list[f].shift, y->shift) != 0))
            f++;
        if (f == l->t.n || y->len == 0) continue;
        const kl_tensors *const x = &l->t.list[f];
        KL_TRY(kl_realloc(&product, (int64_t)x->n * y->n, KL_MEM_WORK, w->err));
        KL_TRY(kl_measure_scalars(
            w->m, (kl_scalars){x->len, x->n, y->n, kl_dptr_at(l->t.data, x->at), kl_dptr_at(r.t.data, y->at)},
            product, w->err));
        for (int i = 0; i < r.nlive; i++) {
            const int end = r.live[i];
            if (r.of[end] != g) continue;
            for (int64_t k = w->path.first[end]; k < w->path.first[end + 1]; k++) {
                const kl_path *const o = &w->path.path[k];
                if (l->of[o->begin] == f)
                    w->value[o->term] += o->coef * product[l->index[o->begin] + (int64_t)r.index[end] * x->n];
            }
        }
    }
out:
    level_clear(w->m, &r);
    kl_free(&product);
    return st;
}

static kl_status go_right(work *w)
{
    kl_status st = KL_OK;
    level now = {0};
    KL_TRY(open_edge(w, &now));
    for (int p = 0; p < w->m->can->nsite; p++) {
        if (now.nlive > 0) KL_TRY(close_paths(w, p, &now));
        if (p + 1 < w->m->can->nsite) KL_TRY(grow(w, p, &now));
        level_clear(w->m, &w->rest[p]);
    }
out:
    level_clear(w->m, &now);
    return st;
}

/* Strings of one operator: each operator at all sites. */
static kl_status single_terms(work *w)
{
    kl_status st = KL_OK;
    const kl_terms *const t = w->t;
    double **mat = NULL, *each = NULL;
    KL_TRY(kl_alloc(&mat, t->model->ntype, KL_MEM_WORK, w->err));
    KL_TRY(kl_alloc(&each, w->m->can->nsite, KL_MEM_WORK, w->err));
    for (int type = 0; type < t->model->ntype; type++)
        for (int op = 0; op < t->model->type[type].nop; op++) {
            const kl_site_type *const s = &t->model->type[type];
            int asked = 0;
            for (int64_t i = 0; i < t->nterm; i++) {
                const kl_op_at *const o = &t->op[t->term[i].first];
                if (t->term[i].nop != 1 || o->op != op || t->type[o->pos] != s) continue;
                if (!asked) {
                    KL_TRY(kl_alloc(&mat[type], (int64_t)s->dim * s->dim, KL_MEM_WORK, w->err));
                    for (int k = 0; k < s->op[op].nelem; k++)
                        mat[type][s->op[op].elem[k].row + s->op[op].elem[k].col * s->dim] =
                            s->op[op].elem[k].value;
                    KL_TRY(kl_tensors_each_site(w->m, mat, each, w->err));
                    asked = 1;
                    kl_free(&mat[type]);
                }
                w->value[i] = each[o->pos];
            }
        }
out:
    for (int k = 0; mat != NULL && k < t->model->ntype; k++) kl_free(&mat[k]);
    kl_free(&mat);
    kl_free(&each);
    return st;
}

static void clear_work(work *w)
{
    for (int p = 0; w->rest != NULL && p <= w->m->can->nsite; p++) level_clear(w->m, &w->rest[p]);
    kl_free(&w->rest);
    kl_spinpaths_clear(&w->path);
    kl_irreducibles_clear(&w->one);
}

kl_status kl_measurespin_terms(const kl_measure *m, const kl_terms *t, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    work w = {.m = m, .t = t, .value = value, .path = {.m = m, .t = t}, .err = err};
    memset(value, 0, (size_t)t->nterm * sizeof *value);
    KL_TRY(kl_irreducibles_add_identity(m->can->model, &w.one, err));
    KL_TRY(single_terms(&w));
    KL_TRY(kl_spinpaths_make(&w.path, err));
    KL_TRY(make_rests(&w));
    KL_TRY(go_right(&w));
out:
    clear_work(&w);
    return st;
}
