/* Expectation values by growing operators of the left block over the isometries of a canonical state: see
   measure.h. Outline of <A_i B_j>:
   1. L_i, the operator A_i in the left states of cut j, grows by one site at a time, all i < j side by side
      as one list of records;
   2. at site j the centre tensor T makes B_j its dual X = sum T B_j T^T over the site and all that is
      right of it;
   3. <A_i B_j> is the scalar product of L_i and X, one call for all i.
   So N sites take N(N+1)/2 growth steps of one operator, and nothing is computed per pair but a scalar
   product.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/measurebase.h"
#include "dmrg/measuresite.h"
#include "base/blas.h"
#include "base/mem.h"
#include "phase.h"
#include "dmrg/superblock.h"
#include <math.h>
#include <string.h>

void kl_measure_destroy(kl_measure **pm)
{
    kl_measure *const m = *pm;
    if (!m) return;
    for (int p = 0; m->can && p < m->can->nsite; p++) {
        if (m->centre) m->ex->vt.release(m->ex, &m->centre[p]);
        if (m->at) kl_free(&m->at[p]);
        if (m->site) kl_free(&m->site[p]);
    }
    if (m->can && m->iso != m->can->there) kl_free(&m->iso);
    kl_free(&m->centre);
    kl_free(&m->length);
    kl_free(&m->at);
    kl_free(&m->site);
    kl_canonical_destroy(&m->can);
    kl_free(pm);
}

kl_canonical *kl_measure_state(const kl_measure *m) { return m->can; }

void kl_opshape_clear(kl_opshape *s)
{
    kl_free(&s->dst);
    kl_free(&s->off);
}

kl_status kl_opshape_make(const kl_model *model, const kl_basis *b, kl_qn shift, kl_opshape *s, kl_err *err)
{
    kl_status st = KL_OK;
    *s = (kl_opshape){.shift = shift, .nsec = b->nsec};
    KL_TRY(kl_alloc(&s->dst, b->nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&s->off, b->nsec, KL_MEM_WORK, err));
    for (int i = 0; i < b->nsec; i++) {
        s->dst[i] = kl_basis_find(b, kl_qn_add(model, b->q[i], shift));
        s->off[i] = s->len;
        if (s->dst[i] >= 0) s->len += (int64_t)b->dim[s->dst[i]] * b->dim[i];
    }
out:
    return st;
}

/* Centre tensor of site p on the executor, the density matrix of the site. */
static kl_status open_site(kl_measure *m, int p, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = m->ex;
    const kl_isometry *const a = m->can->left[p];
    const kl_layout *const lay = &m->can->layout[p + 1];
    kl_dptr bond = {0};
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_alloc(&m->at[p], a->basis.nsec, KL_MEM_STATE, err));
    for (int k = 0; k < a->basis.nsec; k++) {
        const int rows = a->enlarged->basis.dim[a->sec[k]], cols = kl_measure_beyond(m->can, p, k),
                  rank = a->basis.dim[k];
        m->at[p][k] = b.ny;
        KL_TRY(kl_batch_open_group(&b, b.ny, (int64_t)rows * cols, err));
        KL_TRY(kl_batch_reserve(&b, 1, err));
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                      .at_a = KL_AT_LEFT,
                                      .at_b = KL_AT_X,
                                      .at_c = KL_AT_Y,
                                      .m = rows,
                                      .n = cols,
                                      .k = rank,
                                      .lda = rows,
                                      .ldb = rank,
                                      .ldc = rows,
                                      .a = a->off[k],
                                      .b = lay->off[k],
                                      .c = b.ny,
                                      .alpha = 1};
        kl_batch_close_group(&b, 0);
        b.ny += (int64_t)rows * cols;
    }
    b.nx = lay->n;
    m->length[p] = b.ny;
    KL_TRY(kl_alloc(&m->site[p], (int64_t)a->enlarged->d * a->enlarged->d, KL_MEM_STATE, err));
    if (ex->space == KL_SPACE_HOST) m->iso[p].addr = (uintptr_t)a->data; /* of the canonical state itself */
    KL_TRY(kl_exec_copy_in(ex, m->can->bond[p + 1], lay->n, &bond, err));
    KL_TRY(ex->vt.alloc(ex, b.ny, &m->centre[p], err));
    b.base[KL_AT_LEFT] = m->iso[p];
    KL_TRY(kl_batch_run(&b, ex, bond, m->centre[p], err));
    KL_TRY(kl_measure_density(m, p, m->centre[p], m->site[p], err));
    kl_measure_put_by(m, p, m->length[p]);
out:
    kl_batch_clear(&b);
    ex->vt.release(ex, &bond);
    return st;
}

kl_status kl_measure_create(kl_exec *ex, const kl_state *s, int which, const kl_lattice *lat,
                            kl_measure **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_measure *m = NULL;
    const int n = s->nsite;
    KL_TRY(kl_alloc(&m, 1, KL_MEM_STATE, err));
    m->ex = ex;
    m->lat = lat;
    if (lat->nsite != n) {
        st = kl_fail(err, KL_EINPUT, "a state of %d sites cannot be measured on lattice %.100s of %d", n,
                     lat->spec, lat->nsite);
        goto out;
    }
    KL_TRY(kl_canonical_create(ex, s, which, &m->can, err));
    if (m->can->there) m->iso = m->can->there;
    else KL_TRY(kl_alloc(&m->iso, n, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&m->centre, n, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&m->length, n, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&m->at, n, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&m->site, n, KL_MEM_STATE, err));
    for (int p = 0; p < n; p++) KL_TRY(open_site(m, p, err));
out:
    if (st != KL_OK) kl_measure_destroy(&m);
    *out = m;
    return st;
}

static int type_at(const kl_measure *m, int p) { return (int)(m->can->type[p] - m->can->model->type); }

/* sum_ts a[t][s] w[t][s]; 0 for a NULL. */
static double traced(const kl_measure *m, int p, const double *a)
{
    const int d = m->can->type[p]->dim;
    double sum = 0;
    for (int i = 0; a && i < d * d; i++) sum += a[i] * m->site[p][i];
    return sum;
}

kl_status kl_measure_local(const kl_measure *m, const kl_siteop *a, double *value, kl_err *err)
{
    if (kl_model_spin(m->can->model) >= 0) return kl_measurespin_local(m, a, value, err);
    for (int p = 0; p < m->can->nsite; p++) value[m->lat->order[p]] = traced(m, p, a->mat[type_at(m, p)]);
    return KL_OK;
}

kl_status kl_measure_populations(const kl_measure *m, int *d, double **value, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = m->can->nsite;
    *d = 0;
    for (int p = 0; p < n; p++)
        if (m->can->type[p]->dim > *d) *d = m->can->type[p]->dim;
    KL_TRY(kl_alloc(value, (int64_t)n * *d, KL_MEM_MISC, err));
    if (kl_model_spin(m->can->model) >= 0) return kl_measurespin_populations(m, *d, *value, err);
    for (int p = 0; p < n; p++)
        for (int s = 0; s < m->can->type[p]->dim; s++)
            (*value)[m->lat->order[p] * *d + s] = m->site[p][s * (m->can->type[p]->dim + 1)];
out:
    return st;
}

kl_status kl_measure_charge_error(const kl_measure *m, double *error, kl_err *err)
{
    (void)err;
    const kl_model *const model = m->can->model;
    *error = 0;
    for (int c = 0; c < model->ncharge; c++) {
        /* sums modulo n, and of spins, are no sums of densities */
        if (model->charge[c].modulus || model->charge[c].spin) continue;
        double sum = -m->can->target.v[c];
        for (int p = 0; p < m->can->nsite; p++)
            for (int s = 0; s < m->can->type[p]->dim; s++)
                sum += m->can->type[p]->state_charge[s][c] * m->site[p][s * (m->can->type[p]->dim + 1)];
        *error = fmax(*error, fabs(sum));
    }
    return KL_OK;
}

/* ---- parts of site operators with one charge shift each ---- */

typedef struct part {
    kl_qn shift;
    int odd;
    int *n;         /* [ntype] */
    kl_elem **elem; /* [ntype][n] */
} part;

typedef struct parts {
    int ntype, n;
    part *list;
} parts;

static void clear_parts(parts *x)
{
    for (int k = 0; k < x->n; k++) {
        for (int t = 0; x->list[k].elem && t < x->ntype; t++) kl_free(&x->list[k].elem[t]);
        kl_free(&x->list[k].elem);
        kl_free(&x->list[k].n);
    }
    kl_free(&x->list);
    x->n = 0;
}

static kl_status add_element(const kl_model *model, parts *x, int t, int row, int col, double value,
                             kl_err *err)
{
    kl_status st = KL_OK;
    const kl_site_type *const type = &model->type[t];
    const kl_qn shift =
        kl_qn_sub(model, kl_qn_of(model, type->state_charge[row]), kl_qn_of(model, type->state_charge[col]));
    int k = 0;
    while (k < x->n && kl_qn_cmp(x->list[k].shift, shift)) k++;
    if (k == x->n) {
        KL_TRY(kl_realloc(&x->list, x->n + 1, KL_MEM_WORK, err));
        x->list[x->n++] = (part){.shift = shift, .odd = kl_qn_odd(model, shift)};
        KL_TRY(kl_alloc(&x->list[k].n, model->ntype, KL_MEM_WORK, err));
        KL_TRY(kl_alloc(&x->list[k].elem, model->ntype, KL_MEM_WORK, err));
    }
    part *const p = &x->list[k];
    KL_TRY(kl_realloc(&p->elem[t], p->n[t] + 1, KL_MEM_WORK, err));
    p->elem[t][p->n[t]++] = (kl_elem){row, col, value};
out:
    return st;
}

static kl_status add_matrix(const kl_model *model, parts *x, int t, const double *a, kl_err *err)
{
    const int d = model->type[t].dim;
    x->ntype = model->ntype;
    for (int c = 0; c < d; c++)
        for (int r = 0; r < d; r++)
            if (a[r + c * d] != 0) {
                const kl_status st = add_element(model, x, t, r, c, a[r + c * d], err);
                if (st != KL_OK) return st;
            }
    return KL_OK;
}

static kl_status make_parts(const kl_siteop *a, parts *x, kl_err *err)
{
    for (int t = 0; t < a->model->ntype; t++)
        if (a->mat[t]) {
            const kl_status st = add_matrix(a->model, x, t, a->mat[t], err);
            if (st != KL_OK) return st;
        }
    return KL_OK;
}

/* What stands on the sites between: one part without a shift, the identity for NULL. */
static kl_status make_between(const kl_measure *m, const kl_siteop *s, parts *x, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const model = m->can->model;
    for (int t = 0; !s && t < model->ntype; t++) {
        x->ntype = model->ntype;
        for (int i = 0; i < model->type[t].dim; i++) KL_TRY(add_element(model, x, t, i, i, 1, err));
    }
    if (!s) return KL_OK;
    if (!kl_siteop_conserves(s))
        return kl_fail(err, KL_EINPUT,
                       "operator '%.200s' is to stand between others: it must conserve every charge and not "
                       "vanish on any site type",
                       s->text);
    KL_TRY(make_parts(s, x, err));
out:
    return st;
}

/* ---- operators of the left block of one cut, all with one shift ---- */

typedef struct carried {
    kl_opshape sh;
    int n;        /* operators, one behind the other, sh.len each */
    kl_dptr data;
} carried;

static void drop_carried(const kl_measure *m, carried *c)
{
    kl_opshape_clear(&c->sh);
    m->ex->vt.release(m->ex, &c->data);
    c->n = 0;
}

kl_carry kl_measure_carry(const kl_measure *m, int p, int k, int k2, const kl_elem *el, int odd)
{
    const kl_isometry *const a = m->can->left[p];
    const kl_enlarged *const e = a->enlarged;
    const int col = a->sec[k] * e->d + el->col, row = a->sec[k2] * e->d + el->row, i = e->part_sec[col];
    return (kl_carry){.row_rows = e->block.dim[e->part_sec[row]],
                      .rows = e->basis.dim[a->sec[k2]],
                      .col_rows = e->block.dim[i],
                      .cols = e->basis.dim[a->sec[k]],
                      .row_dim = a->basis.dim[k2],
                      .col_dim = a->basis.dim[k],
                      .row = a->off[k2] + e->part_off[row],
                      .col = a->off[k] + e->part_off[col],
                      .coef = el->value * kl_phase_record(odd, kl_qn_odd(m->can->model, e->block.q[i]))};
}

int64_t kl_measure_push_carry(kl_batch *b, const kl_carry *c)
{
    const int is_identity = c->op < 0;
    if (!is_identity)
        *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                     .at_a = KL_AT_X,
                                     .at_b = KL_AT_LEFT,
                                     .at_c = KL_AT_WORK,
                                     .m = c->row_rows,
                                     .n = c->col_dim,
                                     .k = c->col_rows,
                                     .lda = c->row_rows,
                                     .ldb = c->cols,
                                     .ldc = c->row_rows,
                                     .a = c->op,
                                     .b = c->col,
                                     .alpha = 1};
    *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                 .ta = 1,
                                 .beta = 1,
                                 .at_a = KL_AT_LEFT,
                                 .at_b = is_identity ? KL_AT_LEFT : KL_AT_WORK,
                                 .at_c = KL_AT_Y,
                                 .m = c->row_dim,
                                 .n = c->col_dim,
                                 .k = c->row_rows,
                                 .lda = c->rows,
                                 .ldb = is_identity ? c->cols : c->row_rows,
                                 .ldc = c->row_dim,
                                 .a = c->row,
                                 .b = is_identity ? c->col : 0,
                                 .c = c->y,
                                 .alpha = c->coef};
    return is_identity ? 0 : (int64_t)c->row_rows * c->col_dim;
}

/* Operators of cut p+1: those of `in` times `on` at site p, then (one more, if not NULL) 1 times `fresh` at
   site p. */
static kl_status grow(const kl_measure *m, int p, const carried *in, const part *on, const part *fresh,
                      carried *out, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const model = m->can->model;
    const kl_isometry *const a = m->can->left[p];
    const kl_enlarged *const e = a->enlarged;
    const int t = type_at(m, p), d = e->d;
    const kl_qn shift = in->n   ? kl_qn_add(model, in->sh.shift, on->shift)
                        : fresh ? fresh->shift
                                : kl_qn_zero();
    kl_batch b;
    kl_batch_init(&b);
    *out = (carried){.n = in->n + (fresh != NULL)};
    KL_TRY(kl_opshape_make(model, &a->basis, shift, &out->sh, err));
    KL_TRY(m->ex->vt.alloc(m->ex, out->n * out->sh.len, &out->data, err));
    for (int o = 0; o < out->n && out->sh.len; o++) {
        const int new = o == in->n;
        const part *const x = new ? fresh : on;
        for (int k = 0; k < a->basis.nsec; k++) {
            const int k2 = out->sh.dst[k];
            if (k2 < 0) continue;
            const int big = a->sec[k], big2 = a->sec[k2], dim = a->basis.dim[k], dim2 = a->basis.dim[k2];
            const int64_t y = o * out->sh.len + out->sh.off[k];
            int64_t nwork = 0;
            KL_TRY(kl_batch_open_group(&b, y, (int64_t)dim * dim2, err));
            KL_TRY(kl_batch_reserve(&b, 2 * x->n[t], err));
            for (int r = 0; r < x->n[t]; r++) {
                const kl_elem *const el = &x->elem[t][r];
                const int i = e->part_sec[big * d + el->col];
                const int j = i < 0 || new ? i : in->sh.dst[i];
                if (j < 0 || e->part_sec[big2 * d + el->row] != j) continue;
                kl_carry c = kl_measure_carry(m, p, k, k2, el, x->odd);
                c.op = new ? -1 : o * in->sh.len + in->sh.off[i];
                c.y = y;
                const int64_t needed = kl_measure_push_carry(&b, &c);
                if (needed > nwork) nwork = needed;
            }
            kl_batch_close_group(&b, nwork);
        }
    }
    b.zero = 1;
    b.base[KL_AT_LEFT] = m->iso[p];
    if (b.ngroup) KL_TRY(kl_batch_run(&b, m->ex, in->n ? in->data : m->iso[p], out->data, err));
out:
    kl_batch_clear(&b);
    if (st != KL_OK) drop_carried(m, out);
    return st;
}

kl_status kl_measure_kept(const kl_measure *m, int p, int **kept, kl_err *err)
{
    const kl_isometry *const a = m->can->left[p];
    const kl_status st = kl_alloc(kept, a->enlarged->basis.nsec, KL_MEM_WORK, err);
    for (int k = 0; st == KL_OK && k < a->enlarged->basis.nsec; k++) (*kept)[k] = -1;
    for (int k = 0; st == KL_OK && k < a->basis.nsec; k++) (*kept)[a->sec[k]] = k;
    return st;
}

kl_rec kl_measure_trace(const kl_measure *m, int p, int k, const kl_elem *el, int64_t to, double coef)
{
    const kl_isometry *const a = m->can->left[p];
    const kl_enlarged *const e = a->enlarged;
    const int d = e->d, big = a->sec[k], rows = e->basis.dim[big],
              dj = e->block.dim[e->part_sec[big * d + el->row]];
    return (kl_rec){.kind = KL_REC_GEMM,
                    .tb = 1,
                    .beta = 1,
                    .at_a = KL_AT_X,
                    .at_b = KL_AT_X,
                    .at_c = KL_AT_Y,
                    .m = dj,
                    .n = e->block.dim[e->part_sec[big * d + el->col]],
                    .k = kl_measure_beyond(m->can, p, k),
                    .lda = rows,
                    .ldb = rows,
                    .ldc = dj,
                    .a = m->at[p][k] + e->part_off[big * d + el->row],
                    .b = m->at[p][k] + e->part_off[big * d + el->col],
                    .c = to,
                    .alpha = coef};
}

/* value[o] = <in[o] times x at site p>, in's operators being those of cut p. */
static kl_status close_pairs(const kl_measure *m, int p, const carried *in, const part *x, double *value,
                             kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const model = m->can->model;
    const kl_isometry *const a = m->can->left[p];
    const kl_enlarged *const e = a->enlarged;
    const int t = type_at(m, p), d = e->d;
    kl_dptr dual = {0};
    int *kept = NULL;
    kl_batch b;
    kl_batch_init(&b);
    for (int o = 0; o < in->n; o++) value[o] = 0;
    if (!in->sh.len || !x->n[t]) return KL_OK;
    KL_TRY(kl_measure_kept(m, p, &kept, err));
    KL_TRY(m->ex->vt.alloc(m->ex, in->sh.len, &dual, err));
    for (int i = 0; i < in->sh.nsec; i++) {
        const int j = in->sh.dst[i];
        if (j < 0) continue;
        const int di = e->block.dim[i], dj = e->block.dim[j];
        KL_TRY(kl_batch_open_group(&b, in->sh.off[i], (int64_t)di * dj, err));
        KL_TRY(kl_batch_reserve(&b, x->n[t], err));
        for (int r = 0; r < x->n[t]; r++) {
            const kl_elem *const el = &x->elem[t][r];
            const int big = e->home[i * d + el->col];
            if (big < 0 || kept[big] < 0 || e->part_sec[big * d + el->row] != j) continue;
            *kl_batch_push(&b) =
                kl_measure_trace(m, p, kept[big], el, in->sh.off[i],
                                 el->value * kl_phase_record(x->odd, kl_qn_odd(model, e->block.q[i])));
        }
        kl_batch_close_group(&b, 0);
    }
    b.zero = 1;
    KL_TRY(kl_measure_run(m, p, &b, dual, err));
    m->ex->vt.dots(m->ex, in->sh.len, in->n, in->data, in->sh.len, dual, value);
out:
    kl_batch_clear(&b);
    m->ex->vt.release(m->ex, &dual);
    kl_free(&kept);
    return st;
}

/* For all positions p < q: u = <A_p between B_q>; value[p][q] += upper * u, value[q][p] += lower * u. */
static kl_status pass(const kl_measure *m, const part *a, const part *between, const part *b, double upper,
                      double lower, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = m->can->nsite;
    double *u = NULL;
    int *at = NULL; /* position of each operator carried */
    carried now = {0}, next = {0};
    KL_TRY(kl_alloc(&u, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&at, n, KL_MEM_WORK, err));
    for (int q = 0; q < n; q++) {
        if (now.n) {
            KL_TRY(close_pairs(m, q, &now, b, u, err));
            for (int o = 0; o < now.n; o++) {
                value[at[o] * (int64_t)n + q] += upper * u[o];
                value[q * (int64_t)n + at[o]] += lower * u[o];
            }
        }
        const int fresh = a->n[type_at(m, q)] > 0;
        if (q == n - 1 || (!now.n && !fresh)) continue;
        if (fresh) at[now.n] = q;
        KL_TRY(grow(m, q, &now, between, fresh ? a : NULL, &next, err));
        drop_carried(m, &now);
        now = next;
        next = (carried){0};
    }
out:
    drop_carried(m, &now);
    kl_free(&u);
    kl_free(&at);
    return st;
}

/* <A_p B_p> for A B as matrices. */
static double same_site(const kl_measure *m, int p, const double *a, const double *b)
{
    const int d = m->can->type[p]->dim;
    double sum = 0;
    if (!a || !b) return 0;
    for (int c = 0; c < d; c++)
        for (int k = 0; k < d; k++)
            if (b[k + c * d] != 0)
                for (int r = 0; r < d; r++) sum += a[r + k * d] * b[k + c * d] * m->site[p][r + c * d];
    return sum;
}

kl_status kl_measure_pairs(kl_measure *m, const kl_siteop *a, const kl_siteop *between, const kl_siteop *b,
                           int connected, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const model = m->can->model;
    const int n = m->can->nsite;
    parts pa = {0}, pb = {0}, ps = {0};
    double *v = NULL;
    if (kl_model_spin(model) >= 0) return kl_measurespin_pairs(m, a, between, b, connected, value, err);
    KL_TRY(kl_alloc(&v, (int64_t)n * n, KL_MEM_WORK, err));
    KL_TRY(make_parts(a, &pa, err));
    KL_TRY(make_parts(b, &pb, err));
    KL_TRY(make_between(m, between, &ps, err));
    /* <A_q B_p>, q > p, is <B_p A_q> with the sign of exchange, and also <A_p B_q> where B is the adjoint of
       A: then one pass does both */
    const int equal = kl_siteop_equal(a, b),
              adjoint = kl_siteop_adjoint(a, b) && (!between || kl_siteop_adjoint(between, between));
    for (int i = 0; i < pa.n; i++)
        for (int j = 0; j < pb.n; j++) {
            const part *const x = &pa.list[i], *const y = &pb.list[j];
            if (kl_qn_cmp(kl_qn_add(model, x->shift, y->shift), kl_qn_zero())) continue;
            const double sign = kl_phase_exchange(x->odd, y->odd);
            KL_TRY(pass(m, x, ps.list, y, 1, adjoint ? 1 : equal ? sign : 0, v, err));
            if (!adjoint && !equal) KL_TRY(pass(m, y, ps.list, x, 0, sign, v, err));
        }
    for (int p = 0; p < n; p++)
        v[p * (int64_t)(n + 1)] = same_site(m, p, a->mat[type_at(m, p)], b->mat[type_at(m, p)]);
    for (int p = 0; p < n; p++)
        for (int q = 0; q < n; q++) {
            const double product =
                connected ? traced(m, p, a->mat[type_at(m, p)]) * traced(m, q, b->mat[type_at(m, q)]) : 0;
            value[m->lat->order[p] * (int64_t)n + m->lat->order[q]] = v[p * (int64_t)n + q] - product;
        }
out:
    clear_parts(&pa);
    clear_parts(&pb);
    clear_parts(&ps);
    kl_free(&v);
    return st;
}

/* ---- products on a list of sites ---- */

/* One choice of parts, sorted: value += sign * <...>. pos[n] rises, equal positions stand together. */
static kl_status add_sorted(const kl_measure *m, int n, const int *pos, const part *const *x,
                            const part *between, double sign, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const model = m->can->model;
    carried now = {0}, next = {0};
    parts one = {0};
    double *a = NULL, *ab = NULL;
    int k = 0;
    for (int p = pos[0]; p <= pos[n - 1]; p++) {
        const int t = type_at(m, p), d = m->can->type[p]->dim;
        const part *here = between;
        if (pos[k] == p) { /* the product of all that stands on this site, as one operator */
            KL_TRY(kl_alloc(&a, (int64_t)d * d, KL_MEM_WORK, err));
            KL_TRY(kl_alloc(&ab, (int64_t)d * d, KL_MEM_WORK, err));
            for (int i = 0; i < d; i++) a[i * (d + 1)] = 1;
            for (; k < n && pos[k] == p; k++) {
                memset(ab, 0, (size_t)(d * d) * sizeof *ab);
                for (int r = 0; r < x[k]->n[t]; r++) {
                    const kl_elem *const el = &x[k]->elem[t][r];
                    for (int i = 0; i < d; i++) ab[i + el->col * d] += a[i + el->row * d] * el->value;
                }
                memcpy(a, ab, (size_t)(d * d) * sizeof *a);
            }
            if (k == n && p == pos[0]) {
                *value += sign * traced(m, p, a);
                goto out;
            }
            clear_parts(&one);
            KL_TRY(add_matrix(model, &one, t, a, err));
            kl_free(&a);
            kl_free(&ab);
            if (!one.n) goto out; /* the product vanishes */
            here = one.list;
        }
        if (p == pos[n - 1]) {
            double u;
            KL_TRY(close_pairs(m, p, &now, here, &u, err));
            *value += sign * u;
            break;
        }
        KL_TRY(grow(m, p, &now, here, now.n ? NULL : here, &next, err));
        drop_carried(m, &now);
        now = next;
        next = (carried){0};
    }
out:
    drop_carried(m, &now);
    clear_parts(&one);
    kl_free(&a);
    kl_free(&ab);
    return st;
}

kl_status kl_measure_product(kl_measure *m, int n, const int *site, const kl_siteop *const *op,
                             const kl_siteop *between, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const model = m->can->model;
    parts *all = NULL, ps = {0};
    int *choice = NULL, *key = NULL, *odd = NULL, *perm = NULL;
    const part **x = NULL;
    *value = 0;
    if (n < 1) return kl_fail(err, KL_EINPUT, "a product of %d operators is to be measured; 1 at least", n);
    for (int k = 0; k < n; k++)
        if (site[k] < 0 || site[k] >= m->can->nsite)
            return kl_fail(err, KL_EINPUT, "a product has an operator on site %d; allowed are 0 to %d",
                           site[k], m->can->nsite - 1);
    if (kl_model_spin(model) >= 0) return kl_measurespin_product(m, n, site, op, between, value, err);
    KL_TRY(kl_alloc(&all, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&choice, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&key, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&odd, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&perm, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&x, n, KL_MEM_WORK, err));
    for (int k = 0; k < n; k++) {
        KL_TRY(make_parts(op[k], &all[k], err));
        if (!all[k].n) goto out;
    }
    KL_TRY(make_between(m, between, &ps, err));
    for (int k = 0; k >= 0;) {
        kl_qn sum = kl_qn_zero();
        for (k = 0; k < n; k++) {
            const part *const p = &all[k].list[choice[k]];
            sum = kl_qn_add(model, sum, p->shift);
            key[k] = m->lat->position[site[k]];
            odd[k] = p->odd;
        }
        if (!kl_qn_cmp(sum, kl_qn_zero())) {
            const double sign = kl_phase_sort(n, key, odd, perm);
            for (k = 0; k < n; k++) x[k] = &all[perm[k]].list[choice[perm[k]]];
            KL_TRY(add_sorted(m, n, key, x, ps.list, sign, value, err));
        }
        for (k = n - 1; k >= 0 && ++choice[k] == all[k].n; k--) choice[k] = 0;
    }
out:
    for (int k = 0; all && k < n; k++) clear_parts(&all[k]);
    clear_parts(&ps);
    kl_free(&all);
    kl_free(&choice);
    kl_free(&key);
    kl_free(&odd);
    kl_free(&perm);
    kl_free(&x);
    return st;
}
