/* Expectation values in a state of the total spin, on its multiplets: see measurebase.h. The component with
   M = S is meant. The whole with its left edge, which has the spin S, is a singlet, so that only scalars have
   a value; tensors of the edge make them of the others:
       <S S| A1_q1 A2_q2 ... |S S> = sum over L (2L+1) <S -S L 0|S -S> <G^L_0 A1_q1 A2_q2 ...>
   with G^L of the edge whose reduced matrix is 1. Coupled from the left, each operator of the product brings
   one Clebsch-Gordan coefficient, which depends on no site; what is carried through the blocks is a tensor of
   the rank that the rest of the product has. For S = 0 there is L = 0 alone, the identity.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "dmrg/measurespin.h"
#include "model/wigner.h"
#include "phase.h"
#include <math.h>

enum { RECORDS_MOST = 200000 }; /* that are listed before they are run */

void kl_tensors_clear(const kl_measure *m, kl_level *l)
{
    for (int k = 0; k < l->n; k++) {
        kl_free(&l->list[k].dst);
        kl_free(&l->list[k].off);
    }
    kl_free(&l->list);
    m->ex->vt.release(m->ex, &l->data);
    l->n = 0;
}

static int spin_index(const kl_measure *m) { return kl_model_spin(m->can->model); }

int kl_tensors_spin(const kl_measure *m) { return m->can->target.v[spin_index(m)]; }

kl_status kl_tensors_add(const kl_measure *m, const kl_basis *b, kl_qn shift, int rank, int n, kl_level *l,
                         kl_err *err)
{
    kl_status st = KL_OK;
    const int spin = spin_index(m);
    const int64_t at = l->n > 0 ? l->list[l->n - 1].at + l->list[l->n - 1].n * l->list[l->n - 1].len : 0;
    KL_TRY(kl_realloc(&l->list, l->n + 1, KL_MEM_WORK, err));
    kl_tensors *const x = &l->list[l->n++];
    *x = (kl_tensors){.shift = shift, .rank = rank, .nsec = b->nsec, .n = n, .at = at};
    KL_TRY(kl_alloc(&x->dst, (int64_t)(rank + 1) * b->nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&x->off, (int64_t)(rank + 1) * b->nsec, KL_MEM_WORK, err));
    for (int c = 0; c <= rank; c++)
        for (int i = 0; i < b->nsec; i++) {
            kl_qn q = kl_qn_add(m->can->model, b->q[i], shift);
            const int from = b->q[i].v[spin], to = from + 2 * c - rank, k = c * b->nsec + i;
            q.v[spin] = (int16_t)to;
            x->dst[k] = kl_triangle(from, rank, to) ? kl_basis_find(b, q) : -1;
            x->off[k] = x->len;
            if (x->dst[k] >= 0) x->len += (int64_t)b->dim[x->dst[k]] * b->dim[i];
        }
out:
    return st;
}

kl_status kl_tensors_room(const kl_measure *m, kl_level *l, kl_err *err)
{
    int64_t length = 0;
    for (int k = 0; k < l->n; k++) length += l->list[k].n * l->list[k].len;
    return length > 0 ? m->ex->vt.alloc(m->ex, length, &l->data, err) : KL_OK;
}

kl_status kl_tensors_start(const kl_measure *m, int n, kl_level *l, kl_err *err)
{
    kl_status st = KL_OK;
    const double one = 1;
    for (int L = 1; L <= n; L++) {
        KL_TRY(kl_tensors_add(m, kl_canonical_left(m->can, 0), kl_qn_zero(), 2 * L, 1, l, err));
    }
    KL_TRY(kl_tensors_room(m, l, err));
    for (int k = 0; k < n; k++)
        KL_TRY(m->ex->vt.upload(m->ex, kl_dptr_at(l->data, l->list[k].at), &one, 1, err));
out:
    return st;
}

double kl_tensors_weight(const kl_measure *m, int L)
{
    const int S = kl_tensors_spin(m);
    return (2 * L + 1) * kl_clebsch(S, -S, 2 * L, 0, S, -S);
}

int kl_tensors_place(const kl_measure *m, const kl_tensors *x, const kl_basis *b, int i, int j)
{
    if (x == NULL) return i == j ? 0 : -1;
    const int spin = spin_index(m), d = b->q[j].v[spin] - b->q[i].v[spin] + x->rank;
    if (d < 0 || d % 2 != 0 || d > 2 * x->rank) return -1;
    return x->dst[d / 2 * x->nsec + i] == j ? d / 2 * x->nsec + i : -1;
}

double kl_tensors_couple(const kl_tensors_piece *z, const kl_tensors *in, const kl_irreducible *x,
                         const kl_elem *el)
{
    const kl_measure *const m = z->m;
    const kl_isometry *const a = m->can->left[z->p];
    const kl_enlarged *const e = a->enlarged;
    const int i = e->part_sec[a->sec[z->from] * e->d + el->col],
              j = e->part_sec[a->sec[z->to] * e->d + el->row], spin = spin_index(m);
    if (i < 0 || j < 0 || kl_tensors_place(m, in, &e->block, i, j) < 0) return 0;
    const kl_leg block = {e->block.q[i].v[spin], in != NULL ? in->rank : 0, e->block.q[j].v[spin]},
                 site = {e->site->spin[el->col], x->rank, e->site->spin[el->row]},
                 both = {a->basis.q[z->from].v[spin], z->rank, a->basis.q[z->to].v[spin]};
    const double g = kl_couple(block, site, both);
    return fabs(g) < KL_SPIN_ZERO
               ? 0
               : g * el->value * kl_phase_record(x->odd, kl_qn_odd(m->can->model, e->block.q[i]));
}

void kl_tensors_push(kl_tensors_piece *z, const kl_tensors *in, int which, const kl_elem *el, double coef)
{
    const kl_isometry *const a = z->m->can->left[z->p];
    const kl_enlarged *const e = a->enlarged;
    const int d = e->d, big = a->sec[z->from], big2 = a->sec[z->to], i = e->part_sec[big * d + el->col],
              j = e->part_sec[big2 * d + el->row];
    const kl_carry c = {.op = in == NULL ? -1
                                         : in->at + which * in->len +
                                               in->off[kl_tensors_place(z->m, in, &e->block, i, j)],
                        .row_rows = e->block.dim[j],
                        .rows = e->basis.dim[big2],
                        .col_rows = e->block.dim[i],
                        .cols = e->basis.dim[big],
                        .row_dim = a->basis.dim[z->to],
                        .col_dim = a->basis.dim[z->from],
                        .row = a->off[z->to] + e->part_off[big2 * d + el->row],
                        .col = a->off[z->from] + e->part_off[big * d + el->col],
                        .y = z->y,
                        .coef = coef};
    const int64_t needed = kl_measure_push_carry(z->batch, &c);
    if (needed > z->nwork) z->nwork = needed;
}

kl_status kl_tensors_open(kl_tensors_piece *z, int64_t y, int64_t n, int most, kl_err *err)
{
    kl_status st = KL_OK;
    z->y = y;
    z->nwork = 0;
    KL_TRY(kl_batch_open_group(z->batch, y, n, err));
    KL_TRY(kl_batch_reserve(z->batch, 2 * (int64_t)most, err));
out:
    return st;
}

/* All operators of a list between two sectors. */
static kl_status list_pieces(kl_tensors_piece *z, const kl_level *now, const kl_recipe *r,
                             const kl_tensors *out, int where, double *coef, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_basis *const b = &z->m->can->left[z->p]->basis;
    const int t = kl_tensors_type(z->m, z->p), ncarried = r->carried >= 0 ? now->list[r->carried].n : 0;
    const int64_t size = (int64_t)b->dim[z->from] * b->dim[z->to];
    for (int k = 0; ncarried > 0 && k < r->by->n[t]; k++)
        coef[k] = kl_tensors_couple(z, &now->list[r->carried], r->by, &r->by->elem[t][k]);
    for (int o = 0; o < ncarried; o++) {
        KL_TRY(kl_tensors_open(z, out->at + o * out->len + out->off[where], size, r->by->n[t], err));
        for (int k = 0; k < r->by->n[t]; k++)
            if (coef[k] != 0) kl_tensors_push(z, &now->list[r->carried], o, &r->by->elem[t][k], coef[k]);
        kl_batch_close_group(z->batch, z->nwork);
    }
    if (out->n == ncarried) return KL_OK;
    int most = 0;
    for (int s = 0; s < r->nsource; s++) most += r->list[s].x->n[t];
    KL_TRY(kl_tensors_open(z, out->at + ncarried * out->len + out->off[where], size, most, err));
    for (int s = 0; s < r->nsource; s++) {
        const kl_source *const from = &r->list[s];
        const kl_tensors *const in = from->from < 0 ? NULL : &now->list[from->from];
        for (int k = 0; k < from->x->n[t]; k++) {
            const kl_elem *const el = &from->x->elem[t][k];
            const double c = from->weight * kl_tensors_couple(z, in, from->x, el);
            if (c != 0) kl_tensors_push(z, in, 0, el, c);
        }
    }
    kl_batch_close_group(z->batch, z->nwork);
out:
    return st;
}

static kl_status run_list(const kl_measure *m, int p, kl_batch *b, const kl_level *now, const kl_level *next,
                          kl_err *err)
{
    b->zero = 1;
    b->base[KL_AT_LEFT] = m->iso[p];
    const kl_status st =
        b->ngroup > 0 ? kl_batch_run(b, m->ex, now->n > 0 ? now->data : m->iso[p], next->data, err) : KL_OK;
    kl_batch_reset(b);
    return st;
}

kl_status kl_tensors_grow(const kl_measure *m, int p, int n, const kl_recipe *r, kl_level *now, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_basis *const b = &m->can->left[p]->basis;
    const int d = m->can->type[p]->dim;
    kl_level next = {0};
    double *coef = NULL;
    kl_batch batch;
    kl_batch_init(&batch);
    KL_TRY(kl_alloc(&coef, (int64_t)d * d, KL_MEM_WORK, err));
    for (int k = 0; k < n; k++)
        KL_TRY(kl_tensors_add(m, b, r[k].shift, r[k].rank,
                              (r[k].carried >= 0 ? now->list[r[k].carried].n : 0) + (r[k].nsource > 0), &next,
                              err));
    KL_TRY(kl_tensors_room(m, &next, err));
    for (int k = 0; k < n; k++)
        for (int at = 0; at < (r[k].rank + 1) * b->nsec; at++) {
            const kl_tensors *const out = &next.list[k];
            kl_tensors_piece z = {
                .m = m, .p = p, .rank = out->rank, .from = at % b->nsec, .to = out->dst[at], .batch = &batch};
            if (z.to < 0) continue;
            KL_TRY(list_pieces(&z, now, &r[k], out, at, coef, err));
            if (batch.nrec > RECORDS_MOST) KL_TRY(run_list(m, p, &batch, now, &next, err));
        }
    KL_TRY(run_list(m, p, &batch, now, &next, err));
    kl_tensors_clear(m, now);
    *now = next;
    next = (kl_level){0};
out:
    kl_batch_clear(&batch);
    kl_free(&coef);
    kl_tensors_clear(m, &next);
    return st;
}

kl_status kl_tensors_close(const kl_measure *m, int p, const kl_level *now, int which,
                           const kl_irreducible *x, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_tensors *const in = &now->list[which];
    const kl_isometry *const a = m->can->left[p];
    const kl_enlarged *const e = a->enlarged;
    const int t = kl_tensors_type(m, p), d = e->d, spin = spin_index(m);
    kl_dptr dual = {0};
    int *kept = NULL;
    kl_batch b;
    kl_batch_init(&b);
    for (int o = 0; o < in->n; o++) value[o] = 0;
    if (in->len == 0 || x->n[t] == 0) return KL_OK;
    KL_TRY(kl_measure_kept(m, p, &kept, err));
    KL_TRY(m->ex->vt.alloc(m->ex, in->len, &dual, err));
    for (int at = 0; at < (in->rank + 1) * in->nsec; at++) {
        const int i = at % in->nsec, j = in->dst[at];
        if (j < 0) continue;
        KL_TRY(kl_batch_open_group(&b, in->off[at], (int64_t)e->block.dim[i] * e->block.dim[j], err));
        KL_TRY(kl_batch_reserve(&b, x->n[t], err));
        for (int r = 0; r < x->n[t]; r++) {
            const kl_elem *const el = &x->elem[t][r];
            const int big = e->home[i * d + el->col];
            if (big < 0 || kept[big] < 0 || e->part_sec[big * d + el->row] != j) continue;
            const int whole = e->basis.q[big].v[spin];
            const double g = kl_couple((kl_leg){e->block.q[i].v[spin], in->rank, e->block.q[j].v[spin]},
                                       (kl_leg){e->site->spin[el->col], x->rank, e->site->spin[el->row]},
                                       (kl_leg){whole, 0, whole});
            if (fabs(g) < KL_SPIN_ZERO) continue;
            *kl_batch_push(&b) = kl_measure_trace(
                m, p, kept[big], el, in->off[at],
                g * el->value * kl_phase_record(x->odd, kl_qn_odd(m->can->model, e->block.q[i])));
        }
        kl_batch_close_group(&b, 0);
    }
    b.zero = 1;
    KL_TRY(kl_measure_run(m, p, &b, dual, err));
    m->ex->vt.dots(m->ex, in->len, in->n, kl_dptr_at(now->data, in->at), in->len, dual, value);
out:
    kl_batch_clear(&b);
    m->ex->vt.release(m->ex, &dual);
    kl_free(&kept);
    return st;
}

/* ---- operators of one site ---- */

kl_recipe kl_tensors_edge(int k, const kl_irreducible *one)
{
    return (kl_recipe){.rank = 2 * (k + 1), .carried = k, .by = one};
}

kl_status kl_tensors_each_site(const kl_measure *m, double *const *mat, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const model = m->can->model;
    const int n = m->can->nsite;
    int nL = 0;
    kl_irreducibles x = {0}, one = {0};
    kl_recipe *r = NULL;
    kl_level now = {0};
    KL_TRY(kl_irreducibles_add_identity(model, &one, err));
    for (int t = 0; t < model->ntype; t++)
        if (mat[t] != NULL) KL_TRY(kl_irreducibles_add(model, t, mat[t], &x, err));
    for (int k = 0; k < x.n; k++)
        if (x.list[k].rank % 2 == 0 && x.list[k].part == 0 && x.list[k].rank / 2 > nL)
            nL = x.list[k].rank / 2;
    if (nL > kl_tensors_spin(m)) nL = kl_tensors_spin(m);
    KL_TRY(kl_alloc(&r, nL + 1, KL_MEM_WORK, err));
    for (int k = 0; k < nL; k++) r[k] = kl_tensors_edge(k, one.list);
    KL_TRY(kl_tensors_start(m, nL, &now, err));
    for (int p = 0; p < n; p++) {
        const int t = kl_tensors_type(m, p), d = m->can->type[p]->dim;
        value[p] = 0;
        for (int k = 0; k < x.n; k++) {
            const kl_irreducible *const o = &x.list[k];
            const int L = o->rank / 2;
            double u;
            if (o->part != 0 || L > nL || kl_qn_cmp(o->shift, kl_qn_zero()) != 0) continue;
            for (int i = 0; L == 0 && i < o->n[t]; i++)
                value[p] += o->elem[t][i].value * m->site[p][o->elem[t][i].row + o->elem[t][i].col * d];
            if (L == 0) continue;
            KL_TRY(kl_tensors_close(m, p, &now, L - 1, o, &u, err));
            value[p] += kl_tensors_weight(m, L) * kl_clebsch(o->rank, 0, o->rank, 0, 0, 0) * u;
        }
        if (nL > 0 && p + 1 < n) KL_TRY(kl_tensors_grow(m, p, nL, r, &now, err));
    }
out:
    kl_tensors_clear(m, &now);
    kl_irreducibles_clear(&x);
    kl_irreducibles_clear(&one);
    kl_free(&r);
    return st;
}

kl_status kl_measurespin_local(const kl_measure *m, const kl_siteop *a, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    double *v = NULL;
    KL_TRY(kl_alloc(&v, m->can->nsite, KL_MEM_WORK, err));
    KL_TRY(kl_tensors_each_site(m, a->mat, v, err));
    for (int p = 0; p < m->can->nsite; p++) value[m->lat->order[p]] = v[p];
out:
    kl_free(&v);
    return st;
}

kl_status kl_measurespin_populations(const kl_measure *m, int d, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const model = m->can->model;
    double **mat = NULL, *v = NULL;
    KL_TRY(kl_alloc(&mat, model->ntype, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&v, m->can->nsite, KL_MEM_WORK, err));
    for (int t = 0; t < model->ntype; t++)
        KL_TRY(kl_alloc(&mat[t], (int64_t)model->type[t].dim * model->type[t].dim, KL_MEM_WORK, err));
    for (int s = 0; s < d; s++) {
        for (int t = 0; t < model->ntype; t++)
            for (int i = 0; i < model->type[t].dim; i++) mat[t][i * (model->type[t].dim + 1)] = i == s;
        KL_TRY(kl_tensors_each_site(m, mat, v, err));
        for (int p = 0; p < m->can->nsite; p++) value[m->lat->order[p] * (int64_t)d + s] = v[p];
    }
out:
    for (int t = 0; mat != NULL && t < model->ntype; t++) kl_free(&mat[t]);
    kl_free(&mat);
    kl_free(&v);
    return st;
}
