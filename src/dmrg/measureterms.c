/* Expectation values of all strings of a term list at once: see measure.h. Outline:
   1. a string of n operators is cut behind its first n/2: prefixes and suffixes are shared between strings;
   2. from right to left, the dual of every rest of a suffix at every cut where it is asked for: the matrix D
      with <L rest> = sum L D for any operator L of the block on the left;
   3. from left to right, the prefixes grow by one site at a time; at each site the duals of the suffixes that
      begin there are made, and one matrix product gives all scalar products of the two.
   Of strings with four operators on K sites that are K^3 growth steps and K^4 scalar products.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/measurebase.h"
#include "base/mem.h"
#include "phase.h"
#include <string.h>

enum { LIST_MOST = 200000 }; /* records that are made before they are run */

typedef struct node { /* an operator and what stands before it (of prefixes), or behind it (of suffixes) */
    int pos, op;
    int other; /* node, -1: nothing */
    int until; /* cut: the last that asks for a prefix, the first that asks for what is behind an operator */
    kl_qn shift;
} node;

typedef struct nodes {
    int n;
    int64_t room, nhash; /* nhash: a power of two */
    node *list;
    int *hash; /* node + 1 */
} nodes;

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
    nodes prefix, suffix;
    int *of[2]; /* [nterm] prefix and suffix of a term of two operators or more */
    level *rest; /* [nsite + 1] by cut */
    kl_elem *one; /* the identity of the largest site */
    int *kept; /* sector of an enlarged block to that of its isometry, -1: none; of one site */
    double *value;
    kl_err *err;
} work;

/* ---------------------------------------------------------------- 1. prefixes and suffixes */

static uint64_t key_of(int pos, int op, int other)
{
    uint64_t x = ((uint64_t)(uint32_t)pos << 40) ^ ((uint64_t)(uint32_t)op << 32) ^ (uint32_t)other;
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15ULL;
    return x ^ (x >> 29);
}

static kl_status rehash(nodes *s, kl_err *err)
{
    kl_free(&s->hash);
    s->nhash = s->nhash > 0 ? 2 * s->nhash : 1024;
    const kl_status st = kl_alloc(&s->hash, s->nhash, KL_MEM_WORK, err);
    for (int i = 0; st == KL_OK && i < s->n; i++) {
        uint64_t h = key_of(s->list[i].pos, s->list[i].op, s->list[i].other);
        while (s->hash[h & (uint64_t)(s->nhash - 1)] != 0) h++;
        s->hash[h & (uint64_t)(s->nhash - 1)] = i + 1;
    }
    return st;
}

static kl_status intern(const work *w, nodes *s, kl_op_at o, int other, int *out)
{
    kl_status st = KL_OK;
    const kl_model *const model = w->m->can->model;
    if (2 * ((int64_t)s->n + 1) > s->nhash) KL_TRY(rehash(s, w->err));
    uint64_t h = key_of(o.pos, o.op, other);
    for (; s->hash[h & (uint64_t)(s->nhash - 1)] != 0; h++) {
        const int i = s->hash[h & (uint64_t)(s->nhash - 1)] - 1;
        const node *const x = &s->list[i];
        *out = i;
        if (x->pos == o.pos && x->op == o.op && x->other == other) return KL_OK;
    }
    if (s->n == s->room) {
        s->room = 2 * s->room + 256;
        KL_TRY(kl_realloc(&s->list, s->room, KL_MEM_WORK, w->err));
    }
    const kl_qn shift = kl_qn_of(model, w->t->type[o.pos]->op[o.op].shift);
    s->list[s->n] = (node){.pos = o.pos,
                           .op = o.op,
                           .other = other,
                           .until = -1,
                           .shift = other < 0 ? shift : kl_qn_add(model, shift, s->list[other].shift)};
    s->hash[h & (uint64_t)(s->nhash - 1)] = s->n + 1;
    *out = s->n++;
out:
    return st;
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
    /* a longer prefix begins with a shorter one, which has to be there until it does */
    for (int i = w->prefix.n - 1; i >= 0; i--) {
        const node *const x = &w->prefix.list[i];
        if (x->other >= 0 && w->prefix.list[x->other].until < x->pos) w->prefix.list[x->other].until = x->pos;
    }
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
static kl_status lay_out(const work *w, const nodes *s, const kl_basis *basis, int dual, level *l)
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

/* Sectors of the enlarged block of site p that its isometry keeps. */
static kl_status note_kept(work *w, int p)
{
    const kl_isometry *const a = w->m->can->left[p];
    kl_free(&w->kept);
    const kl_status st = kl_alloc(&w->kept, a->enlarged->basis.nsec, KL_MEM_WORK, w->err);
    for (int k = 0; st == KL_OK && k < a->enlarged->basis.nsec; k++) w->kept[k] = -1;
    for (int k = 0; st == KL_OK && k < a->basis.nsec; k++) w->kept[a->sec[k]] = k;
    return st;
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
            const int ld = e->basis.dim[big], ld2 = e->basis.dim[big2];
            const int64_t col = e->part_off[big * d + el->col], row = e->part_off[big2 * d + el->row];
            kl_rec last = {.kind = KL_REC_GEMM,
                           .beta = 1,
                           .at_c = KL_AT_Y,
                           .m = dj,
                           .n = di,
                           .lda = ld2,
                           .ldc = dj,
                           .c = s->y + s->out->off[i],
                           .alpha = el->value *
                                    kl_phase_record(x.odd, kl_qn_odd(w->m->can->model, e->block.q[i]))};
            if (s->in == NULL) {
                last.tb = 1;
                last.at_a = last.at_b = KL_AT_RIGHT;
                last.k = kl_measure_beyond(w->m->can, p, k);
                last.ldb = ld;
                last.a = w->m->at[p][k] + row;
                last.b = w->m->at[p][k] + col;
                *kl_batch_push(b) = last;
                continue;
            }
            const int dim = a->basis.dim[k], dim2 = a->basis.dim[k2];
            *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                         .tb = 1,
                                         .at_a = KL_AT_X,
                                         .at_b = KL_AT_LEFT,
                                         .at_c = KL_AT_WORK,
                                         .m = dim2,
                                         .n = di,
                                         .k = dim,
                                         .lda = dim2,
                                         .ldb = ld,
                                         .ldc = dim2,
                                         .a = s->x + s->in->off[k],
                                         .b = a->off[k] + col,
                                         .alpha = 1};
            if ((int64_t)dim2 * di > nwork) nwork = (int64_t)dim2 * di;
            last.at_a = KL_AT_LEFT;
            last.at_b = KL_AT_WORK;
            last.k = dim2;
            last.ldb = dim2;
            last.a = a->off[k2] + row;
            *kl_batch_push(b) = last;
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
    KL_TRY(note_kept(w, p));
    for (int i = 0; i < l->nlive; i++) {
        const node *const x = &w->suffix.list[l->live[i]];
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
            const node *const x = &w->suffix.list[i];
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
        const node *const x = &w->prefix.list[next.live[i]];
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

/* out[nl][nr], nl the faster: scalar products of all operators of one family with all duals of another. */
static kl_status all_products(const work *w, const level *l, const family *f, const level *r, const family *g,
                              double **out)
{
    kl_status st = KL_OK;
    kl_exec *const ex = w->m->ex;
    const int64_t n = (int64_t)f->n * g->n;
    kl_dptr c = {0};
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_realloc(out, n, KL_MEM_WORK, w->err));
    KL_TRY(ex->vt.alloc(ex, n, &c, w->err));
    KL_TRY(kl_batch_open_group(&b, 0, n, w->err));
    KL_TRY(kl_batch_reserve(&b, 1, w->err));
    *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                  .ta = 1,
                                  .at_a = KL_AT_X,
                                  .at_b = KL_AT_RIGHT,
                                  .at_c = KL_AT_Y,
                                  .m = f->n,
                                  .n = g->n,
                                  .k = (int)f->sh.len,
                                  .lda = (int)f->sh.len,
                                  .ldb = (int)f->sh.len,
                                  .ldc = f->n,
                                  .a = f->at,
                                  .b = g->at,
                                  .alpha = 1};
    kl_batch_close_group(&b, 0);
    b.base[KL_AT_RIGHT] = r->data;
    KL_TRY(kl_batch_run(&b, ex, l->data, c, w->err));
    KL_TRY(ex->vt.download(ex, *out, c, n, w->err));
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
        KL_TRY(all_products(w, l, &l->family[f], &r, &r.family[g], &product));
        for (int i = 0; i < r.nlive; i++) {
            const int x = r.live[i];
            if (r.of[x] != g) continue;
            for (int64_t k = first[x]; k < first[x + 1]; k++) {
                const int u = w->of[0][order[k]];
                if (l->of[u] == f)
                    w->value[order[k]] = product[l->index[u] + (int64_t)r.index[x] * l->family[f].n];
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
    const int n = m->can->nsite;
    int d = 0;
    if (t->nsite != n)
        return kl_fail(err, KL_EINPUT, "strings on %d sites cannot be measured on a state of %d", t->nsite,
                       n);
    for (int p = 0; p < n; p++)
        if (t->type[p]->dim > d) d = t->type[p]->dim;
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
    kl_free(&w.prefix.list);
    kl_free(&w.prefix.hash);
    kl_free(&w.suffix.list);
    kl_free(&w.suffix.hash);
    kl_free(&w.of[0]);
    kl_free(&w.of[1]);
    kl_free(&w.one);
    kl_free(&w.kept);
    return st;
}
