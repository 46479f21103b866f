/* A matrix product state with its centre at every cut: see canonical.h. Outline:
   1. the two-site centre is split by singular values into the isometries of its sites and the bond between them;
   2. the centre walks to the left end, by QR: right isometries everywhere;
   3. it walks to the right end, by singular values: left isometries onto Schmidt states, bonds and Schmidt values of every cut.
   SPDX-License-Identifier: Apache-2.0 */
#include "canonical.h"
#include "blas.h"
#include "dense.h"
#include "mem.h"
#include "par.h"
#include <math.h>
#include <string.h>

#define TINY 1e-15 /* of a norm of 1: below, a Schmidt value is rounding */

const kl_basis *kl_canonical_left(const kl_canonical *c, int cut) { return cut == 0 ? &c->edge : &c->left[cut - 1]->basis; }
const kl_basis *kl_canonical_right(const kl_canonical *c, int cut) { return cut == c->nsite ? &c->edge : &c->right[cut]->basis; }

void kl_canonical_destroy(kl_canonical **pc)
{
    kl_canonical *const c = *pc;
    if (!c) return;
    for (int p = 0; p <= c->nsite; p++) {
        if (c->schmidt) kl_free(&c->schmidt[p]);
        if (c->layout) kl_layout_clear(&c->layout[p]);
        if (c->bond) kl_free(&c->bond[p]);
        if (p == c->nsite) break;
        if (c->left) kl_isometry_destroy(&c->left[p]);
        if (c->right) kl_isometry_destroy(&c->right[p]);
    }
    kl_free(&c->left);
    kl_free(&c->right);
    kl_free(&c->schmidt);
    kl_free(&c->layout);
    kl_free(&c->bond);
    kl_free(&c->type);
    kl_basis_clear(&c->edge);
    kl_free(pc);
}

static kl_status copy_isometry(const kl_isometry *from, kl_isometry **to, kl_err *err)
{
    kl_status st = KL_OK;
    kl_enlarged *e = NULL;
    KL_TRY(kl_enlarged_copy(from->enlarged, &e, err));
    KL_TRY(kl_isometry_create_take(&e, from->basis.nsec, from->sec, from->basis.dim, to, err));
    memcpy((*to)->data, from->data, (size_t)from->ndata * sizeof(double));
out:
    kl_enlarged_destroy(&e);
    return st;
}

/* Sectors that the other side of a cut completes to the target. */
typedef struct partner {
    const kl_model *model;
    const kl_basis *other;
    kl_qn target;
} partner;

static int has_partner(void *self, kl_qn q)
{
    const partner *const p = self;
    return kl_basis_find(p->other, kl_qn_sub(p->model, p->target, q)) >= 0;
}

/* Matrices of a centre by enlarged sector, and what their decompositions leave. */
typedef struct pieces {
    int n;          /* sectors kept */
    int *sec, *dim; /* enlarged sector, states kept */
    double *u, *v;  /* new isometry: rows x dim; rest: dim x cols (SVD) */
    double *s;      /* singular values, dim each, one sector behind the other */
    int64_t nu, nv, ns;
} pieces;

static void clear_pieces(pieces *x)
{
    kl_free(&x->sec);
    kl_free(&x->dim);
    kl_free(&x->u);
    kl_free(&x->v);
    kl_free(&x->s);
}

/* The decompositions of one centre's matrices, sector beside sector: fill() writes matrix i, rows[i] x cols[i], zeros so far. */
typedef struct splitting {
    const int *rows, *cols;
    void (*fill)(void *self, int i, double *t);
    void *self;
    double **u;   /* [sectors]: u, then v, then s of what is larger than TINY; NULL where nothing is */
    int *dim;     /* [sectors] */
    kl_status *st;
    kl_err *err;
} splitting;

/* t (rows x cols) = u s v of sector i. */
static void split_one(void *self, int64_t i, int thread)
{
    splitting *const x = self;
    const int rows = x->rows[i], cols = x->cols[i], k = rows < cols ? rows : cols;
    kl_status st = KL_OK;
    kl_err *const err = &x->err[i];
    double *t = NULL, *work = NULL;
    int n = 0;
    (void)thread;
    if (k == 0) return;
    KL_TRY(kl_alloc(&t, (int64_t)rows * cols, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&work, (int64_t)k * (rows + cols + 1), KL_MEM_WORK, err));
    double *const u = work, *const vt = u + (int64_t)k * rows, *const s = vt + (int64_t)k * cols;
    x->fill(x->self, (int)i, t);
    KL_TRY(kl_dense_svd(rows, cols, t, rows, s, u, rows, vt, k, err));
    while (n < k && s[n] > TINY) n++;
    if (n == 0) goto out;
    KL_TRY(kl_realloc(&x->u[i], (int64_t)n * (rows + cols + 1), KL_MEM_WORK, err));
    double *const to = x->u[i] + (int64_t)n * rows;
    memcpy(x->u[i], u, (size_t)n * (size_t)rows * sizeof *u);
    for (int c = 0; c < cols; c++)
        for (int j = 0; j < n; j++) to[j + (int64_t)c * n] = vt[j + (int64_t)c * k];
    memcpy(to + (int64_t)n * cols, s, (size_t)n * sizeof *s);
    x->dim[i] = n;
out:
    x->st[i] = st;
    kl_free(&t);
    kl_free(&work);
}

static kl_status split(int nthread, int nsec, const int *rows, const int *cols, void (*fill)(void *self, int i, double *t), void *self, pieces *out, kl_err *err)
{
    kl_status st = KL_OK;
    splitting x = {.rows = rows, .cols = cols, .fill = fill, .self = self};
    *out = (pieces){0};
    KL_TRY(kl_alloc(&x.u, nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&x.dim, nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&x.st, nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&x.err, nsec, KL_MEM_WORK, err));
    kl_par_for(nthread, nsec, split_one, &x);
    for (int i = 0; i < nsec; i++) {
        if (x.st[i] != KL_OK) KL_TRY(kl_fail(err, x.st[i], "%s", x.err[i].text));
        out->nu += (int64_t)x.dim[i] * rows[i], out->nv += (int64_t)x.dim[i] * cols[i], out->ns += x.dim[i];
    }
    KL_TRY(kl_alloc(&out->sec, nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&out->dim, nsec, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&out->u, out->nu, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&out->v, out->nv, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&out->s, out->ns, KL_MEM_WORK, err));
    int64_t nu = 0, nv = 0, ns = 0;
    for (int i = 0; i < nsec; i++) {
        const int64_t n = x.dim[i], part_u = n * rows[i], part_v = n * cols[i];
        if (n == 0) continue;
        out->sec[out->n] = i;
        out->dim[out->n++] = (int)n;
        memcpy(out->u + nu, x.u[i], (size_t)part_u * sizeof(double));
        memcpy(out->v + nv, x.u[i] + part_u, (size_t)part_v * sizeof(double));
        memcpy(out->s + ns, x.u[i] + part_u + part_v, (size_t)n * sizeof(double));
        nu += part_u, nv += part_v, ns += n;
    }
out:
    for (int i = 0; x.u && i < nsec; i++) kl_free(&x.u[i]);
    kl_free(&x.u);
    kl_free(&x.dim);
    kl_free(&x.st);
    kl_free(&x.err);
    return st;
}

static kl_status set_bond(kl_canonical *c, int cut, kl_err *err)
{
    kl_status st = KL_OK;
    kl_layout_clear(&c->layout[cut]);
    kl_free(&c->bond[cut]);
    KL_TRY(kl_layout_create(c->model, kl_canonical_left(c, cut), kl_canonical_right(c, cut), c->target, &c->layout[cut], err));
    KL_TRY(kl_alloc(&c->bond[cut], c->layout[cut].n, KL_MEM_STATE, err));
out:
    return st;
}

typedef struct centre {
    const kl_state *s;
    const double *psi;
    double norm;
} centre;

static void fill_centre(void *self, int i, double *t)
{
    const centre *const c = self;
    const int64_t n = (int64_t)c->s->row->basis.dim[i] * c->s->col->basis.dim[c->s->pair[i]];
    for (int64_t k = 0; k < n; k++) t[k] = c->psi[c->s->psi_off[i] + k] / c->norm;
}

/* 1. psi of the state's centre -> left and right isometry of its two sites, bond between them. */
static kl_status open_centre(kl_canonical *c, const kl_state *s, const double *psi, int nthread, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_basis *const row = &s->row->basis, *const col = &s->col->basis;
    const int at = s->centre, n = row->nsec;
    double norm = 0;
    pieces x = {0};
    kl_enlarged *e = NULL;
    int *csec = NULL, *cdim = NULL, *from = NULL, *width = NULL;
    for (int64_t i = 0; i < s->npsi; i++) norm += psi[i] * psi[i];
    if (!(norm > 0) || !isfinite(norm)) return kl_fail(err, KL_EINPUT, "the state to be measured has norm^2 %g; it must be positive and finite", norm);
    KL_TRY(kl_alloc(&width, n, KL_MEM_WORK, err));
    for (int i = 0; i < n; i++) width[i] = s->pair[i] < 0 ? 0 : col->dim[s->pair[i]];
    KL_TRY(split(nthread, n, row->dim, width, fill_centre, &(centre){s, psi, sqrt(norm)}, &x, err));
    KL_TRY(kl_enlarged_copy(s->row, &e, err));
    KL_TRY(kl_isometry_create_take(&e, x.n, x.sec, x.dim, &c->left[at], err));
    memcpy(c->left[at]->data, x.u, (size_t)x.nu * sizeof(double));
    /* the right isometry has its sectors in rising charge, that is in another order than the rows' */
    KL_TRY(kl_alloc(&csec, x.n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&cdim, x.n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&from, col->nsec, KL_MEM_WORK, err));
    for (int j = 0; j < col->nsec; j++) from[j] = -1;
    for (int k = 0; k < x.n; k++) from[s->pair[x.sec[k]]] = k;
    int m = 0;
    for (int j = 0; j < col->nsec; j++)
        if (from[j] >= 0) csec[m] = j, cdim[m++] = x.dim[from[j]];
    KL_TRY(kl_enlarged_copy(s->col, &e, err));
    KL_TRY(kl_isometry_create_take(&e, m, csec, cdim, &c->right[at + 1], err));
    int64_t v = 0, sv = 0;
    KL_TRY(set_bond(c, at + 1, err));
    for (int k = 0; k < x.n; k++) {
        const int j = s->pair[x.sec[k]], q = col->dim[j], d = x.dim[k];
        const int to = kl_basis_find(&c->right[at + 1]->basis, col->q[j]);
        double *const b = c->right[at + 1]->data + c->right[at + 1]->off[to], *const bond = c->bond[at + 1] + c->layout[at + 1].off[k];
        for (int i = 0; i < d; i++) {
            for (int r = 0; r < q; r++) b[r + (int64_t)i * q] = x.v[v + i + (int64_t)r * d];
            bond[i * (d + 1)] = x.s[sv + i];
        }
        v += (int64_t)d * q, sv += d;
    }
out:
    clear_pieces(&x);
    kl_free(&width);
    kl_free(&csec);
    kl_free(&cdim);
    kl_free(&from);
    kl_enlarged_destroy(&e);
    return st;
}

/* 2. Bond at cut p+1 and the left isometry a of site p -> right isometry of site p, bond at cut p. */
static kl_status step_left(kl_canonical *c, int p, const kl_isometry *a, const kl_basis *a_block, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_layout *const lay = &c->layout[p + 1];
    const double *const bond = c->bond[p + 1];
    partner other = {c->model, a_block, c->target};
    kl_enlarged *e = NULL;
    kl_isometry *b = NULL;
    int *sec = NULL, *dim = NULL;
    double *t = NULL, **held = NULL;
    int nheld = 0;
    KL_TRY(kl_enlarged_create(c->model, kl_canonical_right(c, p + 1), c->type[p], has_partner, &other, &e, err));
    const int n = e->basis.nsec, d = e->d;
    KL_TRY(kl_alloc(&sec, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&dim, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&held, n, KL_MEM_WORK, err));
    for (int k = 0; k < n; k++) {
        const int l = kl_basis_find(a_block, kl_qn_sub(c->model, c->target, e->basis.q[k]));
        const int rows = e->basis.dim[k], cols = a_block->dim[l];
        int any = 0;
        KL_TRY(kl_alloc(&t, (int64_t)rows * cols, KL_MEM_WORK, err));
        for (int s = 0; s < d; s++) {
            const int j = e->part_sec[k * d + s];
            if (j < 0 || lay->back[j] < 0) continue;
            const int i = lay->back[j], big = a->sec[i], mid = a->basis.dim[i];
            if (a->enlarged->part_sec[big * d + s] != l) continue;
            kl_dgemm('T', 'T', e->block.dim[j], cols, mid, 1, bond + lay->off[i], mid, a->data + a->off[i] + a->enlarged->part_off[big * d + s],
                     a->enlarged->basis.dim[big], 0, t + e->part_off[k * d + s], rows);
            any = 1;
        }
        if (!any) {
            kl_free(&t);
            continue;
        }
        sec[nheld] = k;
        dim[nheld] = rows < cols ? rows : cols;
        held[nheld++] = t;
        t = NULL;
    }
    KL_TRY(kl_isometry_create_take(&e, nheld, sec, dim, &b, err));
    c->right[p] = b;
    kl_layout_clear(&c->layout[p]);
    kl_free(&c->bond[p]);
    KL_TRY(kl_layout_create(c->model, a_block, &b->basis, c->target, &c->layout[p], err));
    KL_TRY(kl_alloc(&c->bond[p], c->layout[p].n, KL_MEM_STATE, err));
    for (int k = 0; k < nheld; k++) {
        const int rows = b->enlarged->basis.dim[b->sec[k]], l = c->layout[p].back[k], cols = a_block->dim[l];
        double *const q = b->data + b->off[k];
        if (rows >= cols) {
            memcpy(q, held[k], (size_t)rows * (size_t)cols * sizeof *q);
            KL_TRY(kl_dense_qr(rows, cols, q, rows, err));
        } else
            for (int i = 0; i < rows; i++) q[i * ((int64_t)rows + 1)] = 1;
        kl_dgemm('T', 'N', cols, dim[k], rows, 1, held[k], rows, q, rows, 0, c->bond[p] + c->layout[p].off[l], cols);
    }
out:
    kl_enlarged_destroy(&e);
    kl_free(&sec);
    kl_free(&dim);
    kl_free(&t);
    for (int k = 0; k < nheld; k++) kl_free(&held[k]);
    kl_free(&held);
    return st;
}

typedef struct rightward {
    const kl_canonical *c;
    int p;
    const kl_enlarged *e;
    const int *pair; /* [sectors] the sector beyond that completes each */
} rightward;

static void fill_right(void *self, int i, double *t)
{
    const rightward *const x = self;
    const kl_canonical *const c = x->c;
    const kl_enlarged *const e = x->e;
    const kl_layout *const lay = &c->layout[x->p];
    const kl_isometry *const b = c->right[x->p];
    const int d = e->d, rows = e->basis.dim[i], j = x->pair[i], cols = kl_canonical_right(c, x->p + 1)->dim[j];
    for (int s = 0; s < d; s++) {
        const int l = e->part_sec[i * d + s];
        if (l < 0 || lay->pair[l] < 0) continue;
        const int r = lay->pair[l], big = b->sec[r];
        if (b->enlarged->part_sec[big * d + s] != j) continue;
        kl_dgemm('N', 'T', e->block.dim[l], cols, b->basis.dim[r], 1, c->bond[x->p] + lay->off[l], e->block.dim[l],
                 b->data + b->off[r] + b->enlarged->part_off[big * d + s], b->enlarged->basis.dim[big], 0, t + e->part_off[i * d + s], rows);
    }
}

/* 3. Bond at cut p and the right isometry of site p -> left isometry of site p, Schmidt values and bond at cut p+1. */
static kl_status step_right(kl_canonical *c, int p, int nthread, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_basis *const next = kl_canonical_right(c, p + 1);
    partner other = {c->model, next, c->target};
    kl_enlarged *e = NULL;
    pieces x = {0};
    int *pair = NULL, *width = NULL;
    KL_TRY(kl_enlarged_create(c->model, kl_canonical_left(c, p), c->type[p], has_partner, &other, &e, err));
    const int n = e->basis.nsec;
    KL_TRY(kl_alloc(&pair, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&width, n, KL_MEM_WORK, err));
    for (int i = 0; i < n; i++) {
        pair[i] = kl_basis_find(next, kl_qn_sub(c->model, c->target, e->basis.q[i]));
        width[i] = next->dim[pair[i]];
    }
    KL_TRY(split(nthread, n, e->basis.dim, width, fill_right, &(rightward){c, p, e, pair}, &x, err));
    kl_isometry_destroy(&c->left[p]);
    KL_TRY(kl_isometry_create_take(&e, x.n, x.sec, x.dim, &c->left[p], err));
    memcpy(c->left[p]->data, x.u, (size_t)x.nu * sizeof(double));
    kl_free(&c->schmidt[p + 1]);
    KL_TRY(kl_alloc(&c->schmidt[p + 1], x.ns, KL_MEM_STATE, err));
    memcpy(c->schmidt[p + 1], x.s, (size_t)x.ns * sizeof(double));
    KL_TRY(set_bond(c, p + 1, err));
    int64_t v = 0, s = 0;
    for (int k = 0; k < x.n; k++) {
        const int cols = next->dim[c->layout[p + 1].pair[k]], m = x.dim[k];
        double *const to = c->bond[p + 1] + c->layout[p + 1].off[k];
        for (int j = 0; j < cols; j++)
            for (int i = 0; i < m; i++) to[i + (int64_t)j * m] = x.s[s + i] * x.v[v + i + (int64_t)j * m];
        v += (int64_t)m * cols, s += m;
    }
out:
    clear_pieces(&x);
    kl_free(&pair);
    kl_free(&width);
    kl_enlarged_destroy(&e);
    return st;
}

kl_status kl_canonical_create(const kl_state *s, int which, int nthread, kl_canonical **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_canonical *c = NULL;
    kl_isometry *first = NULL;
    const int n = s->nsite;
    KL_TRY(kl_alloc(&c, 1, KL_MEM_STATE, err));
    c->model = s->model;
    c->nsite = n;
    c->target = s->target;
    KL_TRY(kl_alloc(&c->left, n, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&c->right, n, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&c->schmidt, n + 1, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&c->layout, n + 1, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&c->bond, n + 1, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&c->type, n, KL_MEM_STATE, err));
    memcpy(c->type, s->type, (size_t)n * sizeof *c->type);
    KL_TRY(kl_basis_copy(&s->edge, &c->edge, err));
    if (which < 0 || which >= s->nstate || !s->psi) {
        st = kl_fail(err, KL_EINPUT, "wavefunction %d is to be measured; the state has 0 to %d", which, s->nstate - 1);
        goto out;
    }
    for (int p = s->centre + 2; p < n; p++) KL_TRY(copy_isometry(s->right[p], &c->right[p], err));
    KL_TRY(open_centre(c, s, s->psi + which * s->npsi, nthread, err));
    first = c->left[s->centre];
    c->left[s->centre] = NULL;
    for (int p = s->centre; p >= 0; p--)
        KL_TRY(step_left(c, p, p == s->centre ? first : s->left[p], p == 0 ? &c->edge : &s->left[p - 1]->basis, err));
    KL_TRY(kl_alloc(&c->schmidt[0], 1, KL_MEM_STATE, err));
    c->schmidt[0][0] = 1;
    for (int p = 0; p < n; p++) KL_TRY(step_right(c, p, nthread, err));
out:
    kl_isometry_destroy(&first);
    if (st != KL_OK) kl_canonical_destroy(&c);
    *out = c;
    return st;
}

double kl_canonical_entropy(const kl_canonical *c, int cut)
{
    const int64_t n = kl_canonical_left(c, cut)->total;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double w = c->schmidt[cut][i] * c->schmidt[cut][i];
        if (w > 0) sum -= w * log(w);
    }
    return sum > 0 ? sum : 0;
}

static kl_status check_sites(const kl_canonical *a, const kl_canonical *b, kl_err *err)
{
    if (a->nsite != b->nsite) return kl_fail(err, KL_EINPUT, "overlap of states of %d and %d sites; they must have the same sites", a->nsite, b->nsite);
    if (a->model->ncharge != b->model->ncharge)
        return kl_fail(err, KL_EINPUT, "overlap of states with %d and %d charges; they must have the same", a->model->ncharge, b->model->ncharge);
    for (int p = 0; p < a->nsite; p++) {
        int differ = a->type[p]->dim != b->type[p]->dim;
        for (int s = 0; !differ && s < a->type[p]->dim; s++)
            differ = kl_qn_cmp(kl_qn_of(a->model, a->type[p]->state_charge[s]), kl_qn_of(b->model, b->type[p]->state_charge[s])) != 0;
        if (differ)
            return kl_fail(err, KL_EINPUT, "overlap of states whose sites differ at position %d: %s and %s", p, a->type[p]->name, b->type[p]->name);
    }
    return KL_OK;
}

kl_status kl_canonical_overlap(const kl_canonical *a, const kl_canonical *b, double *out, kl_err *err)
{
    kl_status st = KL_OK;
    double **now = NULL, **next = NULL, *work = NULL;
    int nnow = 1, nnext = 0;
    *out = 0;
    KL_TRY(check_sites(a, b, err));
    if (kl_qn_cmp(a->target, b->target)) return KL_OK;
    KL_TRY(kl_alloc(&now, 1, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&now[0], 1, KL_MEM_WORK, err));
    now[0][0] = 1;
    /* now[i] = <a's states | b's states> of a's sector i; NULL where b has no such sector */
    for (int p = 0; p < a->nsite; p++) {
        const kl_isometry *const x = a->left[p], *const y = b->left[p];
        const int d = a->type[p]->dim;
        int64_t wide = 1;
        for (int k = 0; k < y->basis.nsec; k++) {
            const int64_t w = kl_canonical_left(a, p)->total * y->basis.dim[k];
            if (w > wide) wide = w;
        }
        KL_TRY(kl_alloc(&work, wide, KL_MEM_WORK, err));
        nnext = x->basis.nsec;
        KL_TRY(kl_alloc(&next, nnext, KL_MEM_WORK, err));
        for (int k = 0; k < nnext; k++) {
            const int l = kl_basis_find(&y->basis, x->basis.q[k]);
            if (l < 0) continue;
            const int xk = x->sec[k], yl = y->sec[l], m = x->basis.dim[k], n = y->basis.dim[l];
            KL_TRY(kl_alloc(&next[k], (int64_t)m * n, KL_MEM_WORK, err));
            for (int s = 0; s < d; s++) {
                const int i = x->enlarged->part_sec[xk * d + s], j = y->enlarged->part_sec[yl * d + s];
                if (i < 0 || j < 0 || !now[i]) continue;
                const int di = x->enlarged->block.dim[i], dj = y->enlarged->block.dim[j];
                kl_dgemm('N', 'N', di, n, dj, 1, now[i], di, y->data + y->off[l] + y->enlarged->part_off[yl * d + s], y->enlarged->basis.dim[yl], 0, work, di);
                kl_dgemm('T', 'N', m, n, di, 1, x->data + x->off[k] + x->enlarged->part_off[xk * d + s], x->enlarged->basis.dim[xk], work, di, 1, next[k], m);
            }
        }
        kl_free(&work);
        for (int k = 0; k < nnow; k++) kl_free(&now[k]);
        kl_free(&now);
        now = next, nnow = nnext;
        next = NULL, nnext = 0;
    }
    if (now[0]) *out = now[0][0] * a->bond[a->nsite][0] * b->bond[b->nsite][0];
out:
    for (int k = 0; now && k < nnow; k++) kl_free(&now[k]);
    for (int k = 0; next && k < nnext; k++) kl_free(&next[k]);
    kl_free(&now);
    kl_free(&next);
    kl_free(&work);
    return st;
}
