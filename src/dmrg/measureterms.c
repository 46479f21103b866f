/* Expectation values of all strings of a term list at once: see measure.h. Outline:
   1. a string of n operators is cut behind its first n/2: prefixes and suffixes are shared between strings;
   2. from right to left, the dual of every rest of a suffix at every cut where it is asked for: the matrix D
      with <L rest> = sum L D for any operator L of the block on the left;
   3. from left to right, the prefixes grow by one site at a time; at each site the duals of the suffixes that
      begin there are made, and one matrix product gives all scalar products of the two.
   Of strings with four operators on K sites that are K^3 growth steps and K^4 scalar products.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/measurebase.h"
#include "dmrg/measurenodes.h"
#include "base/mem.h"
#include "phase.h"
#include <string.h>

enum { LIST_MOST = 200000 }; /* records that are made before they are run */

typedef struct family { /* operators of one cut and of one charge shift */
    kl_opshape sh;
    int n;
    int64_t at;
} family;

typedef struct level { /* operators of one cut */
    int nfamily;
    family *family;
    int *of; /* [nodes] family, -1: the node is not there */
    int *index; /* [nodes] in the family */
    int nlive;
    int *live; /* [nlive] nodes */
    kl_dptr data;
} level;

typedef struct acting { /* of a site */
    int n, odd;
    const kl_elem *elem;
} acting;

typedef struct work {
    const kl_measure *m;
    const kl_terms *t;
    kl_nodes prefix, suffix;
    int *of[2]; /* [nterm] prefix and suffix of a term of two operators or more */
    level *rest; /* [nsite + 1] by cut */
    kl_elem *one; /* the identity of the largest site */
    int *kept; /* sector of an enlarged block to that of its isometry, -1: none; of one site */
    double *value;
    kl_err *err;
} work;

/* ---------------------------------------------------------------- 1. prefixes and suffixes */

static kl_status intern(const work *w, kl_nodes *s, kl_op_at o, int other, int *out)
{
    const kl_model *const model = w->m->can->model;
    const kl_qn shift = kl_qn_of(model, w->t->type[o.pos]->op[o.op].shift);
    const kl_node x = {.pos = o.pos,
                       .op = o.op,
                       .other = other,
                       .until = -1,
                       .shift = other < 0 ? shift : kl_qn_add(model, shift, s->list[other].shift)};
    return kl_nodes_find(s, &x, out, w->err);
}

static kl_status cut_terms(work *w)
{
    kl_status st = KL_OK;
    const kl_terms *const t = w->t;
    for (int side = 0; side < 2; side++) KL_TRY(kl_alloc(&w->of[side], t->nterm, KL_MEM_WORK, w->err));
    for (int64_t i = 0; i < t->nterm; i++) {
        const kl_op_at *const op = t->op + t->term[i].first;
        const int n = t->term[i].nop, before = n / 2;
        int x = -1;
        if (n < 2) continue;
        for (int k = 0; k < before; k++) KL_TRY(intern(w, &w->prefix, op[k], x, &x));
        w->of[0][i] = x;
        if (w->prefix.list[x].until < op[before].pos) w->prefix.list[x].until = op[before].pos;
        x = -1;
        for (int k = n - 1; k >= before; k--) {
            KL_TRY(intern(w, &w->suffix, op[k], x, &x));
            int *const until = &w->suffix.list[x].until;
            if (k > before && (*until < 0 || *until > op[k - 1].pos + 1)) *until = op[k - 1].pos + 1;
        }
        w->of[1][i] = x;
    }
    kl_nodes_keep(&w->prefix);
out:
    return st;
}

/* ---------------------------------------------------------------- operators of a cut */

static void level_clear(const kl_measure *m, level *l)
{
    for (int k = 0; k < l->nfamily; k++) kl_opshape_clear(&l->family[k].sh);
    kl_free(&l->family);
    kl_free(&l->of);
    kl_free(&l->index);
    kl_free(&l->live);
    m->ex->vt.release(m->ex, &l->data);
    l->nfamily = 0;
    l->nlive = 0;
}

/* Room for the nodes in l->live over this basis; dual: their matrices take operators of the opposite
   shift. */
static kl_status lay_out(const work *w, const kl_nodes *s, const kl_basis *basis, int dual, level *l)
{
    kl_status st = KL_OK;
    const kl_model *const model = w->m->can->model;
    int64_t length = 0;
    KL_TRY(kl_alloc(&l->of, s->n, KL_MEM_WORK, w->err));
    KL_TRY(kl_alloc(&l->index, s->n, KL_MEM_WORK, w->err));
    for (int i = 0; i < s->n; i++) l->of[i] = -1;
    for (int i = 0; i < l->nlive; i++) {
        const kl_qn own = s->list[l->live[i]].shift, shift = dual ? kl_qn_sub(model, kl_qn_zero(), own) : own;
        int k = 0;
        while (k < l->nfamily && kl_qn_cmp(l->family[k].sh.shift, shift) != 0) k++;
        if (k == l->nfamily) {
            KL_TRY(kl_realloc(&l->family, l->nfamily + 1, KL_MEM_WORK, w->err));
            l->family[l->nfamily++] = (family){.n = 0};
            KL_TRY(kl_opshape_make(model, basis, shift, &l->family[k].sh, w->err));
        }
        l->of[l->live[i]] = k;
        l->index[l->live[i]] = l->family[k].n++;
    }
    for (int k = 0; k < l->nfamily; k++) {
        l->family[k].at = length;
        length += l->family[k].n * l->family[k].sh.len;
    }
    if (length > 0) KL_TRY(w->m->ex->vt.alloc(w->m->ex, length, &l->data, w->err));
out:
    return st;
}

static int64_t place_of(const level *l, int i)
{
    const family *const f = &l->family[l->of[i]];
    return f->at + l->index[i] * f->sh.len;
}

static acting act(const work *w, int p, int op)
{
    const kl_site_type *const type = w->t->type[p];
    if (op == KL_OP_IDENTITY) return (acting){type->dim, 0, w->one};
    return (acting){type->op[op].nelem, type->op[op].odd, type->op[op].elem};
}

/* One product of each element: a first matrix into WORK, unless there is none, then a second one. */
typedef struct step {
    const kl_opshape *in; /* NULL: nothing before */
    int64_t x; /* where its operator begins */
    const kl_opshape *out;
    int64_t y;
} step;

static kl_status open_list(kl_batch *b, const work *w, int p, const step *s, int64_t at, int64_t n,
                           const acting *x)
{
    b->zero = 1;
    b->base[KL_AT_LEFT] = w->m->iso[p];
    b->base[KL_AT_RIGHT] = w->m->centre[p];
    const kl_status st = kl_batch_open_group(b, s->y + at, n, w->err);
    return st == KL_OK ? kl_batch_reserve(b, 2 * x->n, w->err) : st;
}

/* Runs what has been listed, from `from` into `to`. */
static kl_status run_list(kl_batch *b, const kl_measure *m, kl_dptr from, kl_dptr to, kl_err *err)
{
    const kl_status st = b->ngroup > 0 ? kl_batch_run(b, m->ex, from, to, err) : KL_OK;
    kl_batch_reset(b);
    return st;
}

/* ---------------------------------------------------------------- 2. duals */

int64_t kl_measure_push_back(kl_batch *b, const kl_carry *c)
{
    *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                 .tb = 1,
                                 .at_a = KL_AT_X,
                                 .at_b = KL_AT_LEFT,
                                 .at_c = KL_AT_WORK,
                                 .m = c->row_dim,
                                 .n = c->col_rows,
                                 .k = c->col_dim,
                                 .lda = c->row_dim,
                                 .ldb = c->cols,
                                 .ldc = c->row_dim,
                                 .a = c->op,
                                 .b = c->col,
                                 .alpha = 1};
    *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                 .beta = 1,
                                 .at_a = KL_AT_LEFT,
                                 .at_b = KL_AT_WORK,
                                 .at_c = KL_AT_Y,
                                 .m = c->row_rows,
                                 .n = c->col_rows,
                                 .k = c->row_dim,
                                 .lda = c->rows,
                                 .ldb = c->row_dim,
                                 .ldc = c->row_rows,
                                 .a = c->row,
                                 .c = c->y,
                                 .alpha = c->coef};
    return (int64_t)c->row_dim * c->col_rows;
}

/* The dual at cut p of an operator at site p and what stands behind it: D = sum A_row D' A_col^T over its
   elements, where D' is the dual behind, or made of centre tensors where nothing is. */
static kl_status list_dual(const work *w, int p, acting x, const step *s, kl_batch *b)
{
    kl_status st = KL_OK;
    const kl_isometry *const a = w->m->can->left[p];
    const kl_enlarged *const e = a->enlarged;
    const int d = e->d;
    for (int i = 0; i < s->out->nsec; i++) {
        const int j = s->out->dst[i];
        if (j < 0) continue;
        const int di = e->block.dim[i], dj = e->block.dim[j];
        int64_t nwork = 0;
        KL_TRY(open_list(b, w, p, s, s->out->off[i], (int64_t)di * dj, &x));
        for (int r = 0; r < x.n; r++) {
            const kl_elem *const el = &x.elem[r];
            const int big = e->home[i * d + el->col], big2 = e->home[j * d + el->row];
            if (big < 0 || big2 < 0 || w->kept[big] < 0 || w->kept[big2] < 0) continue;
            const int k = w->kept[big], k2 = w->kept[big2];
            if (s->in != NULL ? s->in->dst[k] != k2 : k != k2) continue;
            const double coef =
                el->value * kl_phase_record(x.odd, kl_qn_odd(w->m->can->model, e->block.q[i]));
            if (s->in == NULL) {
                kl_rec *const r0 = kl_batch_push(b);
                *r0 = kl_measure_trace(w->m, p, k, el, s->y + s->out->off[i], coef);
                r0->at_a = r0->at_b = KL_AT_RIGHT;
                continue;
            }
            const kl_carry c = {.op = s->x + s->in->off[k],
                                .row_rows = dj,
                                .rows = e->basis.dim[big2],
                                .col_rows = di,
                                .cols = e->basis.dim[big],
                                .row_dim = a->basis.dim[k2],
                                .col_dim = a->basis.dim[k],
                                .row = a->off[k2] + e->part_off[big2 * d + el->row],
                                .col = a->off[k] + e->part_off[big * d + el->col],
                                .y = s->y + s->out->off[i],
                                .coef = coef};
            const int64_t needed = kl_measure_push_back(b, &c);
            nwork = needed > nwork ? needed : nwork;
        }
        kl_batch_close_group(b, nwork);
    }
out:
    return st;
}

/* The duals at cut p of the suffixes in l->live, from those at cut p + 1. */
static kl_status make_duals(work *w, int p, const level *behind, level *l)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(lay_out(w, &w->suffix, kl_canonical_left(w->m->can, p), 1, l));
    kl_free(&w->kept);
    KL_TRY(kl_measure_kept(w->m, p, &w->kept, w->err));
    for (int i = 0; i < l->nlive; i++) {
        const kl_node *const x = &w->suffix.list[l->live[i]];
        const int here = x->pos == p, in = here ? x->other : l->live[i];
        const step s = {.in = in < 0 ? NULL : &behind->family[behind->of[in]].sh,
                        .x = in < 0 ? 0 : place_of(behind, in),
                        .out = &l->family[l->of[l->live[i]]].sh,
                        .y = place_of(l, l->live[i])};
        KL_TRY(list_dual(w, p, act(w, p, here ? x->op : KL_OP_IDENTITY), &s, &b));
        if (b.nrec > LIST_MOST) KL_TRY(run_list(&b, w->m, behind->data, l->data, w->err));
    }
    KL_TRY(run_list(&b, w->m, behind->data, l->data, w->err));
out:
    kl_batch_clear(&b);
    return st;
}

static kl_status make_rests(work *w)
{
    kl_status st = KL_OK;
    const int n = w->m->can->nsite;
    for (int p = n - 1; p > 0; p--) {
        level *const l = &w->rest[p];
        KL_TRY(kl_alloc(&l->live, w->suffix.n, KL_MEM_WORK, w->err));
        for (int i = 0; i < w->suffix.n; i++) {
            const kl_node *const x = &w->suffix.list[i];
            if (x->until >= 0 && x->until <= p && x->pos >= p) l->live[l->nlive++] = i;
        }
        KL_TRY(make_duals(w, p, &w->rest[p + 1], l));
    }
out:
    return st;
}

/* ---------------------------------------------------------------- 3. prefixes, and the two together */

/* An operator of cut p + 1: one of cut p, or the identity, times one of site p. */
static kl_status list_growth(const work *w, int p, acting x, const step *s, kl_batch *b)
{
    kl_status st = KL_OK;
    const kl_isometry *const a = w->m->can->left[p];
    const kl_enlarged *const e = a->enlarged;
    const int d = e->d;
    for (int k = 0; k < a->basis.nsec; k++) {
        const int k2 = s->out->dst[k];
        if (k2 < 0) continue;
        const int big = a->sec[k], big2 = a->sec[k2], dim = a->basis.dim[k], dim2 = a->basis.dim[k2];
        int64_t nwork = 0;
        KL_TRY(open_list(b, w, p, s, s->out->off[k], (int64_t)dim * dim2, &x));
        for (int r = 0; r < x.n; r++) {
            const kl_elem *const el = &x.elem[r];
            const int i = e->part_sec[big * d + el->col], j = i < 0 || s->in == NULL ? i : s->in->dst[i];
            if (j < 0 || e->part_sec[big2 * d + el->row] != j) continue;
            kl_carry c = kl_measure_carry(w->m, p, k, k2, el, x.odd);
            c.op = s->in == NULL ? -1 : s->x + s->in->off[i];
            c.y = s->y + s->out->off[k];
            const int64_t needed = kl_measure_push_carry(b, &c);
            if (needed > nwork) nwork = needed;
        }
        kl_batch_close_group(b, nwork);
    }
out:
    return st;
}

/* The prefixes of cut p + 1 from those of cut p, which are dropped. */
static kl_status grow_prefixes(work *w, int p, level *now)
{
    kl_status st = KL_OK;
    level next = {0};
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_alloc(&next.live, w->prefix.n, KL_MEM_WORK, w->err));
    for (int i = 0; i < w->prefix.n; i++)
        if (w->prefix.list[i].pos <= p && w->prefix.list[i].until > p) next.live[next.nlive++] = i;
    KL_TRY(lay_out(w, &w->prefix, kl_canonical_left(w->m->can, p + 1), 0, &next));
    for (int i = 0; i < next.nlive; i++) {
        const kl_node *const x = &w->prefix.list[next.live[i]];
        const int here = x->pos == p, in = here ? x->other : next.live[i];
        const step s = {.in = in < 0 ? NULL : &now->family[now->of[in]].sh,
                        .x = in < 0 ? 0 : place_of(now, in),
                        .out = &next.family[next.of[next.live[i]]].sh,
                        .y = place_of(&next, next.live[i])};
        KL_TRY(list_growth(w, p, act(w, p, here ? x->op : KL_OP_IDENTITY), &s, &b));
        if (b.nrec > LIST_MOST) KL_TRY(run_list(&b, w->m, now->data, next.data, w->err));
    }
    KL_TRY(run_list(&b, w->m, now->data, next.data, w->err));
    level_clear(w->m, now);
    *now = next;
    next = (level){0};
out:
    kl_batch_clear(&b);
    level_clear(w->m, &next);
    return st;
}

kl_status kl_measure_scalars(const kl_measure *m, kl_scalars s, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = m->ex;
    const int64_t n = (int64_t)s.nleft * s.nright;
    kl_dptr c = {0};
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(ex->vt.alloc(ex, n, &c, err));
    KL_TRY(kl_batch_open_group(&b, 0, n, err));
    KL_TRY(kl_batch_reserve(&b, 1, err));
    *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                  .ta = 1,
                                  .at_a = KL_AT_X,
                                  .at_b = KL_AT_RIGHT,
                                  .at_c = KL_AT_Y,
                                  .m = s.nleft,
                                  .n = s.nright,
                                  .k = (int)s.length,
                                  .lda = (int)s.length,
                                  .ldb = (int)s.length,
                                  .ldc = s.nleft,
                                  .alpha = 1};
    kl_batch_close_group(&b, 0);
    b.base[KL_AT_RIGHT] = s.right;
    KL_TRY(kl_batch_run(&b, ex, s.left, c, err));
    KL_TRY(ex->vt.download(ex, value, c, n, err));
out:
    kl_batch_clear(&b);
    ex->vt.release(ex, &c);
    return st;
}

/* Values of the terms whose suffixes begin at cut p. order[nterm]: terms by suffix; first[suffixes + 1]. */
static kl_status close_terms(work *w, int p, const level *l, const int64_t *order, const int64_t *first)
{
    kl_status st = KL_OK;
    level r = {0};
    double *product = NULL;
    KL_TRY(kl_alloc(&r.live, w->suffix.n, KL_MEM_WORK, w->err));
    for (int i = 0; i < w->suffix.n; i++)
        if (w->suffix.list[i].pos == p && first[i + 1] > first[i]) r.live[r.nlive++] = i;
    if (r.nlive == 0) goto out;
    KL_TRY(make_duals(w, p, &w->rest[p + 1], &r));
    for (int g = 0; g < r.nfamily; g++) {
        int f = 0;
        while (f < l->nfamily && kl_qn_cmp(l->family[f].sh.shift, r.family[g].sh.shift) != 0) f++;
        if (f == l->nfamily || l->family[f].sh.len == 0) continue;
        const family *const x = &l->family[f], *const y = &r.family[g];
        KL_TRY(kl_realloc(&product, (int64_t)x->n * y->n, KL_MEM_WORK, w->err));
        KL_TRY(kl_measure_scalars(
            w->m, (kl_scalars){x->sh.len, x->n, y->n, kl_dptr_at(l->data, x->at), kl_dptr_at(r.data, y->at)},
            product, w->err));
        for (int i = 0; i < r.nlive; i++) {
            const int end = r.live[i];
            if (r.of[end] != g) continue;
            for (int64_t k = first[end]; k < first[end + 1]; k++) {
                const int u = w->of[0][order[k]];
                if (l->of[u] == f) w->value[order[k]] = product[l->index[u] + (int64_t)r.index[end] * x->n];
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
    const int64_t nterm = w->t->nterm;
    level now = {0};
    int64_t *order = NULL, *first = NULL;
    KL_TRY(kl_alloc(&order, nterm, KL_MEM_WORK, w->err));
    KL_TRY(kl_alloc(&first, w->suffix.n + 2, KL_MEM_WORK, w->err));
    for (int64_t i = 0; i < nterm; i++) first[w->t->term[i].nop < 2 ? 0 : w->of[1][i] + 2] += 1;
    first[0] = 0;
    for (int x = 1; x <= w->suffix.n; x++) first[x + 1] += first[x];
    for (int64_t i = 0; i < nterm; i++)
        if (w->t->term[i].nop > 1) order[first[w->of[1][i] + 1]++] = i;
    for (int p = 0; p < w->m->can->nsite; p++) {
        if (now.nlive > 0) KL_TRY(close_terms(w, p, &now, order, first));
        if (p + 1 < w->m->can->nsite) KL_TRY(grow_prefixes(w, p, &now));
        level_clear(w->m, &w->rest[p]);
    }
out:
    level_clear(w->m, &now);
    kl_free(&order);
    kl_free(&first);
    return st;
}

/* Of one site: from its density matrix. */
static void close_singles(work *w)
{
    for (int64_t i = 0; i < w->t->nterm; i++) {
        if (w->t->term[i].nop != 1) continue;
        const kl_op_at at = w->t->op[w->t->term[i].first];
        const kl_site_op *const o = &w->t->type[at.pos]->op[at.op];
        const int d = w->t->type[at.pos]->dim;
        for (int k = 0; k < o->nelem; k++)
            w->value[i] += o->elem[k].value * w->m->site[at.pos][o->elem[k].row + o->elem[k].col * d];
    }
}

kl_status kl_measure_terms(kl_measure *m, const kl_terms *t, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    work w = {.m = m, .t = t, .value = value, .err = err};
    const int n = m->can->nsite, d = kl_terms_most_states(t);
    if (t->nsite != n)
        return kl_fail(err, KL_EINPUT, "strings on %d sites cannot be measured on a state of %d", t->nsite,
                       n);
    if (kl_model_spin(m->can->model) >= 0) return kl_measurespin_terms(m, t, value, err);
    memset(value, 0, (size_t)t->nterm * sizeof *value);
    KL_TRY(kl_alloc(&w.one, d, KL_MEM_WORK, err));
    for (int s = 0; s < d; s++) w.one[s] = (kl_elem){s, s, 1};
    KL_TRY(kl_alloc(&w.rest, n + 1, KL_MEM_WORK, err));
    KL_TRY(cut_terms(&w));
    KL_TRY(make_rests(&w));
    close_singles(&w);
    KL_TRY(go_right(&w));
out:
    for (int p = 0; w.rest != NULL && p <= n; p++) level_clear(m, &w.rest[p]);
    kl_free(&w.rest);
    kl_nodes_clear(&w.prefix);
    kl_nodes_clear(&w.suffix);
    kl_free(&w.of[0]);
    kl_free(&w.of[1]);
    kl_free(&w.one);
    kl_free(&w.kept);
    return st;
}
