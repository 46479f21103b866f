/* Site tensors of states and of Hamiltonians: see tensors.h.

   A Hamiltonian, from the growth records of left blocks. L(b) of cut k, times (-1)^N of the sites to its left
   where it is odd, is a channel of bond k; where L(b) is not self-adjoint its transpose is another one. Then
   1. a record L(in) (x) o of L(out) is the matrix o in channels (in, out), its columns times (-1)^n of the
      site where L(out) is odd: the signs of the block's own sites are in the channel (in) already;
   2. the transpose of L(out) is made of the transposed factors in the same order, with the sign of their
      exchange;
   3. the constant goes from channel to channel of the identity, and is added at the last site.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/tensors.h"

#include <string.h>

#include "base/blas.h"
#include "base/mem.h"
#include "phase.h"

void kl_tensors_destroy(kl_tensors **pt)
{
    kl_tensors *const t = *pt;
    if (t == NULL) return;
    for (int p = 0; t->bond != NULL && p <= t->nsite; p++) kl_basis_clear(&t->bond[p]);
    for (int p = 0; t->site != NULL && p < t->nsite; p++) {
        kl_free(&t->site[p].block);
        kl_free(&t->site[p].data);
    }
    kl_free(&t->bond);
    kl_free(&t->site);
    kl_free(&t->type);
    kl_free(pt);
}

static kl_status create(const kl_model *model, int nsite, const kl_site_type *const *type, kl_tensors **out,
                        kl_err *err)
{
    kl_status st = KL_OK;
    kl_tensors *t = NULL;
    if (kl_model_spin(model) >= 0)
        return kl_fail(err, KL_EINPUT,
                       "tensors: the total spin is a charge; H has those of this problem with Sz, or N_up "
                       "and N_dn, in its place");
    KL_TRY(kl_alloc(&t, 1, KL_MEM_STATE, err));
    t->model = model;
    t->nsite = nsite;
    KL_TRY(kl_alloc(&t->type, nsite, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&t->bond, nsite + 1, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&t->site, nsite, KL_MEM_STATE, err));
    memcpy(t->type, type, (size_t)nsite * sizeof *type);
    *out = t;
    t = NULL;
out:
    kl_tensors_destroy(&t);
    return st;
}

/* Blocks of a site by the sector of the left bond and the local states. */
typedef struct block_index {
    int d, nfrom; /* nfrom 0: a state */
    int64_t n, *at; /* [left sectors][d][nfrom]: the block, or -1 */
} block_index;

static kl_status open_index(const kl_tensors *t, int p, int nfrom, block_index *x, kl_err *err)
{
    x->d = t->type[p]->dim;
    x->nfrom = nfrom;
    x->n = (int64_t)t->bond[p].nsec * x->d * (nfrom > 0 ? nfrom : 1);
    const kl_status st = kl_alloc(&x->at, x->n, KL_MEM_WORK, err);
    for (int64_t i = 0; st == KL_OK && i < x->n; i++) x->at[i] = -1;
    return st;
}

static int64_t place(const block_index *x, int left, int state, int from)
{
    const int64_t i = (int64_t)left * x->d + state;
    return x->nfrom > 0 ? i * x->nfrom + from : i;
}

static double *block_data(kl_tensor *s, const block_index *x, int left, int state, int from)
{
    const int64_t i = x->at[place(x, left, state, from)];
    return i >= 0 ? s->data + s->block[i].at : NULL;
}

/* Makes the blocks whose index is marked by 0, full of zeros. The right bond has their sectors. */
static kl_status make_blocks(kl_tensors *t, int p, block_index *x, kl_err *err)
{
    kl_status st = KL_OK;
    kl_tensor *const s = &t->site[p];
    const kl_basis *const left = &t->bond[p], *const right = &t->bond[p + 1];
    const int (*const charge)[KL_MAX_CHARGE] = t->type[p]->state_charge;
    const int nfrom = x->nfrom > 0 ? x->nfrom : 1;
    int64_t nblock = 0;
    for (int64_t i = 0; i < x->n; i++) nblock += x->at[i] == 0;
    KL_TRY(kl_alloc(&s->block, nblock, KL_MEM_STATE, err));
    for (int64_t i = 0; i < x->n; i++) {
        if (x->at[i] < 0) continue;
        kl_tensor_block b = {
            .left = (int)(i / nfrom / x->d), .state = (int)(i / nfrom % x->d), .at = s->ndata};
        b.from = x->nfrom > 0 ? (int)(i % nfrom) : -1;
        kl_qn q = kl_qn_add(t->model, left->q[b.left], kl_qn_of(t->model, charge[b.state]));
        if (b.from >= 0) q = kl_qn_sub(t->model, q, kl_qn_of(t->model, charge[b.from]));
        b.right = kl_basis_find(right, q);
        s->ndata += (int64_t)left->dim[b.left] * right->dim[b.right];
        x->at[i] = s->nblock;
        s->block[s->nblock++] = b;
    }
    KL_TRY(kl_alloc(&s->data, s->ndata, KL_MEM_STATE, err));
out:
    return st;
}

/* ---------------------------------------------------------------- states */

/* The bond right of the centre by the charge of the sites to its left. sector[right sector]: its number
   there, or -1. */
static kl_status bond_from_right(const kl_canonical *c, int cut, kl_basis *to, int *sector, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_basis *const left = kl_canonical_left(c, cut), *const right = kl_canonical_right(c, cut);
    KL_TRY(kl_alloc(&to->q, left->nsec, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&to->dim, left->nsec, KL_MEM_STATE, err));
    for (int j = 0; j < right->nsec; j++) sector[j] = -1;
    for (int i = 0; i < left->nsec; i++) {
        const int j = c->layout[cut].pair[i];
        if (j < 0) continue;
        sector[j] = to->nsec;
        to->q[to->nsec] = left->q[i];
        to->dim[to->nsec++] = right->dim[j];
        to->total += right->dim[j];
    }
out:
    return st;
}

/* The part of an isometry that belongs to one state of its site. */
typedef struct piece {
    int near, far; /* sectors of the block that the site was added to, and of the states that were kept */
    int state, rows, cols, ld;
    const double *data; /* [cols][ld] */
} piece;

static int piece_of(const kl_isometry *iso, int k, int state, piece *x)
{
    const kl_enlarged *const e = iso->enlarged;
    const int big = iso->sec[k], near = e->part_sec[big * e->d + state];
    if (near < 0) return 0;
    *x = (piece){.near = near,
                 .far = k,
                 .state = state,
                 .rows = e->block.dim[near],
                 .cols = iso->basis.dim[k],
                 .ld = e->basis.dim[big],
                 .data = iso->data + iso->off[k] + e->part_off[big * e->d + state]};
    return 1;
}

/* A site at the centre or left of it: the isometry, at the centre times the matrix of the bond behind it. */
static kl_status left_tensor(const kl_canonical *c, int p, int at_centre, kl_tensors *t, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_isometry *const iso = c->left[p];
    const kl_layout *const lay = &c->layout[p + 1];
    const int d = t->type[p]->dim;
    block_index index = {0};
    piece x;
    KL_TRY(kl_canonical_bring(c, p, err));
    KL_TRY(open_index(t, p, 0, &index, err));
    for (int k = 0; k < iso->basis.nsec; k++)
        for (int s = 0; s < d; s++)
            if (piece_of(iso, k, s, &x) && (!at_centre || lay->pair[k] >= 0))
                index.at[place(&index, x.near, s, 0)] = 0;
    KL_TRY(make_blocks(t, p, &index, err));
    for (int k = 0; k < iso->basis.nsec; k++)
        for (int s = 0; s < d; s++) {
            if (!piece_of(iso, k, s, &x)) continue;
            double *const to = block_data(&t->site[p], &index, x.near, s, 0);
            if (to == NULL) continue;
            if (at_centre) { /* to^T = bond^T piece^T */
                const int n = kl_canonical_right(c, p + 1)->dim[lay->pair[k]];
                kl_dgemm('T', 'T', n, x.rows, x.cols, 1, c->bond[p + 1] + lay->off[k], x.cols, x.data, x.ld,
                         0, to, n);
                continue;
            }
            for (int a = 0; a < x.rows; a++)
                for (int b = 0; b < x.cols; b++) to[(int64_t)a * x.cols + b] = x.data[a + (int64_t)b * x.ld];
        }
out:
    kl_free(&index.at);
    return st;
}

/* A site right of the centre; here and beyond: sectors of its two bonds by those of the right bases. */
static kl_status right_tensor(const kl_canonical *c, int p, const int *here, const int *beyond, kl_tensors *t,
                              kl_err *err)
{
    kl_status st = KL_OK;
    const kl_isometry *const iso = c->right[p];
    const int d = t->type[p]->dim;
    block_index index = {0};
    piece x;
    KL_TRY(open_index(t, p, 0, &index, err));
    for (int k = 0; k < iso->basis.nsec; k++)
        for (int s = 0; s < d; s++)
            if (piece_of(iso, k, s, &x) && here[k] >= 0 && beyond[x.near] >= 0)
                index.at[place(&index, here[k], s, 0)] = 0;
    KL_TRY(make_blocks(t, p, &index, err));
    for (int k = 0; k < iso->basis.nsec; k++)
        for (int s = 0; s < d; s++) {
            if (!piece_of(iso, k, s, &x) || here[k] < 0) continue;
            double *const to = block_data(&t->site[p], &index, here[k], s, 0);
            for (int a = 0; a < x.cols && to != NULL; a++)
                memcpy(to + (int64_t)a * x.rows, x.data + (int64_t)a * x.ld, (size_t)x.rows * sizeof *to);
        }
out:
    kl_free(&index.at);
    return st;
}

kl_status kl_tensors_of_state(const kl_canonical *c, int centre, kl_tensors **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_tensors *t = NULL;
    int *here = NULL, *beyond = NULL;
    if (centre < 0 || centre >= c->nsite)
        return kl_fail(err, KL_EINPUT, "tensors: the centre is to be at position %d; allowed: 0 to %d",
                       centre, c->nsite - 1);
    KL_TRY(create(c->model, c->nsite, c->type, &t, err));
    for (int p = 0; p <= centre; p++) KL_TRY(kl_basis_copy(kl_canonical_left(c, p), &t->bond[p], err));
    for (int p = 0; p < centre; p++) KL_TRY(left_tensor(c, p, 0, t, err));
    for (int p = centre; p < c->nsite; p++) {
        kl_free(&here);
        here = beyond;
        beyond = NULL;
        KL_TRY(kl_alloc(&beyond, kl_canonical_right(c, p + 1)->nsec, KL_MEM_WORK, err));
        KL_TRY(bond_from_right(c, p + 1, &t->bond[p + 1], beyond, err));
        if (p == centre) KL_TRY(left_tensor(c, p, 1, t, err));
        else KL_TRY(right_tensor(c, p, here, beyond, t, err));
    }
    *out = t;
    t = NULL;
out:
    kl_free(&here);
    kl_free(&beyond);
    kl_tensors_destroy(&t);
    return st;
}

/* ---------------------------------------------------------------- Hamiltonians */

/* A state of a bond: L(op), or its transpose. */
typedef struct channel {
    kl_qn shift;
    int odd;
    int sector, index; /* in the bond */
} channel;

typedef struct cut_channels {
    int n;
    int *of[2]; /* [operators of the cut]: channel of L(op), of its transpose */
    int identity; /* channel of the identity, -1: none */
    int added; /* 1: no operator of the cut is the identity, its channel is there for the constant */
    channel *list;
} cut_channels;

static void clear_channels(cut_channels *c)
{
    kl_free(&c->of[0]);
    kl_free(&c->of[1]);
    kl_free(&c->list);
}

/* The channels of a cut, sorted into sectors. */
static kl_status list_channels(const kl_mpo *m, int cut, cut_channels *c, kl_basis *bond, kl_err *err)
{
    kl_status st = KL_OK;
    const int nop = m->nop[cut], most = 2 * nop + 1;
    *c = (cut_channels){.identity = -1};
    for (int dag = 0; dag < 2; dag++) KL_TRY(kl_alloc(&c->of[dag], nop, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&c->list, most, KL_MEM_WORK, err));
    for (int b = 0; b < nop; b++) {
        const kl_cut_op *const op = &m->op[cut][b];
        c->of[0][b] = c->of[1][b] = c->n;
        if (op->left_identity) c->identity = c->n;
        c->list[c->n++] = (channel){.shift = op->shift, .odd = op->odd};
        if (op->self) continue;
        c->of[1][b] = c->n;
        c->list[c->n++] = (channel){.shift = kl_qn_sub(m->model, kl_qn_zero(), op->shift), .odd = op->odd};
    }
    c->added = c->identity < 0 && cut < m->nsite && m->constant != 0;
    if (c->added) c->identity = c->n;
    /* the last bond has one state whatever the terms */
    if (c->added || c->n == 0) c->list[c->n++] = (channel){.shift = kl_qn_zero()};
    KL_TRY(kl_alloc(&bond->q, c->n, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&bond->dim, c->n, KL_MEM_STATE, err));
    bond->total = c->n;
    for (int i = 0; i < c->n; i++) { /* charges, ascending */
        int k = 0;
        while (k < bond->nsec && kl_qn_cmp(bond->q[k], c->list[i].shift) < 0) k++;
        if (k < bond->nsec && kl_qn_cmp(bond->q[k], c->list[i].shift) == 0) continue;
        memmove(&bond->q[k + 1], &bond->q[k], (size_t)(bond->nsec - k) * sizeof *bond->q);
        bond->q[k] = c->list[i].shift;
        bond->nsec++;
    }
    for (int i = 0; i < c->n; i++) {
        c->list[i].sector = kl_basis_find(bond, c->list[i].shift);
        c->list[i].index = bond->dim[c->list[i].sector]++;
    }
out:
    return st;
}

/* One entry of the matrices of a site: coef * op from channel `in` to channel `out`. */
typedef struct entry {
    int in, out, op;
    double coef;
} entry;

/* 1. and 2. The entry of a growth record of L(b), or of its transpose. */
static entry entry_of(const kl_mpo *m, int p, int b, int dag, const kl_grow *w, const cut_channels *left,
                      const cut_channels *right)
{
    const kl_cut_op *const in = &m->op[p][w->in];
    const kl_site_op *const o = &m->type[p]->op[w->op];
    entry e = {left->of[w->dag][w->in], right->of[dag][b], w->op, w->coef};
    if (!dag) return e;
    e.in = left->of[!w->dag][w->in];
    e.op = o->adjoint;
    e.coef *= o->adjoint_factor * kl_phase_exchange(in->odd, o->odd) * (in->self != 0 ? in->self : 1);
    return e;
}

typedef struct entries {
    int64_t n;
    entry *list;
} entries;

static kl_status list_entries(const kl_mpo *m, int p, const cut_channels *left, const cut_channels *right,
                              entries *x, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t most = 2;
    for (int b = 0; b < m->nop[p + 1]; b++) most += 2 * (int64_t)m->left[p][b].n;
    KL_TRY(kl_alloc(&x->list, most, KL_MEM_WORK, err));
    for (int b = 0; b < m->nop[p + 1]; b++)
        for (int dag = 0; dag < (m->op[p + 1][b].self != 0 ? 1 : 2); dag++)
            for (int64_t r = m->left[p][b].first; r < m->left[p][b].first + m->left[p][b].n; r++)
                x->list[x->n++] = entry_of(m, p, b, dag, &m->grow[r], left, right);
    /* 3. */
    if (p == m->nsite - 1 && m->constant != 0)
        x->list[x->n++] = (entry){left->identity, 0, KL_OP_IDENTITY, m->constant};
    if (right->added) x->list[x->n++] = (entry){left->identity, right->identity, KL_OP_IDENTITY, 1};
out:
    return st;
}

static kl_status operator_tensor(const kl_mpo *m, int p, const cut_channels *left, const cut_channels *right,
                                 kl_tensors *t, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_site_type *const type = m->type[p];
    entries x = {0};
    block_index index = {0};
    KL_TRY(list_entries(m, p, left, right, &x, err));
    KL_TRY(open_index(t, p, type->dim, &index, err));
    for (int fill = 0; fill < 2; fill++) {
        for (int64_t i = 0; i < x.n; i++) {
            const entry *const e = &x.list[i];
            const channel *const in = &left->list[e->in], *const out = &right->list[e->out];
            const kl_site_op *const o = &type->op[e->op];
            for (int k = 0; k < o->nelem; k++) {
                const int to = o->elem[k].row, from = o->elem[k].col;
                if (!fill) {
                    index.at[place(&index, in->sector, to, from)] = 0;
                    continue;
                }
                const int odd = kl_qn_odd(m->model, kl_qn_of(m->model, type->state_charge[from]));
                double *const w = block_data(&t->site[p], &index, in->sector, to, from);
                w[(int64_t)in->index * t->bond[p + 1].dim[out->sector] + out->index] +=
                    e->coef * o->elem[k].value * kl_phase_exchange(out->odd, odd);
            }
        }
        if (!fill) KL_TRY(make_blocks(t, p, &index, err));
    }
out:
    kl_free(&x.list);
    kl_free(&index.at);
    return st;
}

kl_status kl_tensors_of_terms(const kl_terms *terms, kl_tensors **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_tensors *t = NULL;
    kl_mpo *m = NULL;
    cut_channels left = {0}, right = {0};
    KL_TRY(create(terms->model, terms->nsite, terms->type, &t, err));
    KL_TRY(kl_mpo_create(terms, &m, err));
    KL_TRY(list_channels(m, 0, &left, &t->bond[0], err));
    for (int p = 0; p < m->nsite; p++) {
        KL_TRY(list_channels(m, p + 1, &right, &t->bond[p + 1], err));
        KL_TRY(operator_tensor(m, p, &left, &right, t, err));
        clear_channels(&left);
        left = right;
        right = (cut_channels){0};
    }
    *out = t;
    t = NULL;
out:
    clear_channels(&left);
    clear_channels(&right);
    kl_mpo_destroy(&m);
    kl_tensors_destroy(&t);
    return st;
}
