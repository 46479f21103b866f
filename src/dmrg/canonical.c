/* A matrix product state with its centre at every cut: see canonical.h. Outline:
   1. the two-site centre becomes a bond between the enlarged basis on its left and an isometry of its second
      site;
   2. the centre walks to the left end: right isometries everywhere;
   3. it walks to the right end: left isometries, and the bond of every cut.
   A step multiplies by records, and makes the columns of each sector's matrix orthonormal by gramcolumns.h,
   both on the executor; where a matrix has fewer rows than columns its basis is kept as it is. A device keeps
   the left isometries: to bring them to the host takes longer than to make them.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/canonical.h"
#include "base/blas.h"
#include "base/dense.h"
#include "base/mem.h"
#include "base/par.h"
#include "dmrg/gramcolumns.h"
#include "dmrg/wave.h"
#include <math.h>
#include <string.h>

#define TINY 1e-15 /* of a norm of 1: below, a Schmidt value is rounding */

const kl_basis *kl_canonical_left(const kl_canonical *c, int cut)
{
    return cut == 0 ? &c->edge : &c->left[cut - 1]->basis;
}
const kl_basis *kl_canonical_right(const kl_canonical *c, int cut)
{
    return cut == c->nsite ? &c->end : &c->right[cut]->basis;
}

static void drop_schmidt(kl_canonical *c)
{
    for (int p = 0; c->schmidt && p <= c->nsite; p++) kl_free(&c->schmidt[p]);
    kl_free(&c->schmidt);
}

void kl_canonical_destroy(kl_canonical **pc)
{
    kl_canonical *const c = *pc;
    if (!c) return;
    drop_schmidt(c);
    for (int p = 0; p <= c->nsite; p++) {
        if (c->layout) kl_layout_clear(&c->layout[p]);
        if (c->bond) kl_free(&c->bond[p]);
        if (p == c->nsite) break;
        if (c->there) c->ex->vt.release(c->ex, &c->there[p]);
        if (c->left) kl_isometry_destroy(&c->left[p]);
        if (c->right && p < c->borrowed) kl_isometry_destroy(&c->right[p]);
    }
    kl_free(&c->left);
    kl_free(&c->there);
    kl_free(&c->right);
    kl_free(&c->layout);
    kl_free(&c->bond);
    kl_free(&c->type);
    kl_basis_clear(&c->edge);
    kl_basis_clear(&c->end);
    kl_free(pc);
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

/* The matrices of one site, t of lay.n numbers: rows the enlarged basis e of the site, columns the states
   beyond it. Sectors without weight are no part of the new bases. */
typedef struct site_matrices {
    kl_enlarged *e;
    const kl_basis *beyond;
    kl_layout lay;
    int *weight; /* [e->basis.nsec]: 1 where there is any */
    double *t;
} site_matrices;

static void clear_matrices(site_matrices *x)
{
    kl_enlarged_destroy(&x->e);
    kl_layout_clear(&x->lay);
    kl_free(&x->weight);
    kl_free(&x->t);
}

static kl_status shape_matrices(const kl_canonical *c, site_matrices *x, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_layout_create(c->model, &x->e->basis, x->beyond, c->target, &x->lay, err));
    KL_TRY(kl_alloc(&x->weight, x->e->basis.nsec, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&x->t, x->lay.n, KL_MEM_WORK, err));
out:
    return st;
}

/* t = q r: from what t and the triangles have become, sectors in parallel. */
typedef struct decomposition {
    const kl_layout *from, *to; /* of t; of the bond, which is r, or r^T where the sweep goes to the left */
    const kl_basis *beyond;
    kl_isometry *q; /* without numbers: it stays on the device */
    const double *t;
    double *bond;
    int leftward;
    kl_column_block *block; /* [sectors of q] those whose columns were made orthonormal have a width */
    double *tri;
} decomposition;

static void take_apart(void *self, int64_t i, int thread)
{
    const decomposition *const x = self;
    const int sec = x->q->sec[i], rows = x->q->enlarged->basis.dim[sec],
              cols = x->beyond->dim[x->from->pair[sec]], k = x->q->basis.dim[i];
    const double *const t = x->t + x->from->off[sec];
    double *const q = x->q->data ? x->q->data + x->q->off[i] : NULL;
    double *const r = x->bond + x->to->off[x->leftward ? x->to->back[i] : i];
    (void)thread;
    if (q && x->block[i].width > 0) memcpy(q, t, (size_t)rows * (size_t)cols * sizeof *q);
    else if (q) {
        memset(q, 0, (size_t)k * (size_t)k * sizeof *q);
        for (int a = 0; a < k; a++) q[a * ((int64_t)k + 1)] = 1;
    }
    const double *const triangle = x->block[i].width > 0 ? x->tri + x->block[i].gram : t;
    if (!x->leftward) memcpy(r, triangle, (size_t)k * (size_t)cols * sizeof *r);
    for (int a = 0; a < k && x->leftward; a++)
        for (int b = 0; b < cols; b++) r[b + (int64_t)a * cols] = triangle[a + (int64_t)b * k];
}

/* q from t, both on the device; of t what has fewer rows than columns comes to the host. */
static kl_status keep_there(kl_exec *ex, const decomposition *d, int64_t n, kl_dptr t, double *host,
                            kl_dptr *to, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_isometry *const q = d->q;
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(ex->vt.alloc(ex, q->ndata, to, err));
    for (int i = 0; i < q->basis.nsec; i++) {
        const int rows = q->enlarged->basis.dim[q->sec[i]], k = q->basis.dim[i];
        const int64_t at = d->from->off[q->sec[i]];
        const kl_rec same = {.kind = KL_REC_ADD,
                             .at_a = KL_AT_X,
                             .at_c = KL_AT_Y,
                             .m = rows,
                             .n = k,
                             .lda = rows,
                             .ldc = rows,
                             .a = at,
                             .c = q->off[i],
                             .alpha = 1};
        KL_TRY(kl_batch_open_group(&b, q->off[i], (int64_t)rows * k, err));
        KL_TRY(kl_batch_reserve(&b, 2, err));
        if (d->block[i].width > 0) *kl_batch_push(&b) = same;
        else {
            *kl_batch_push(&b) = (kl_rec){
                .kind = KL_REC_FILL, .at_c = KL_AT_Y, .m = rows, .n = k, .ldc = rows, .c = q->off[i]};
            *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_FILL,
                                          .beta = 1,
                                          .at_c = KL_AT_Y,
                                          .m = 1,
                                          .n = k,
                                          .ldc = rows + 1,
                                          .c = q->off[i],
                                          .alpha = 1};
            const int64_t numbers = (int64_t)rows * d->beyond->dim[d->from->pair[q->sec[i]]];
            KL_TRY(ex->vt.download(ex, host + at, kl_dptr_at(t, at), numbers, err));
        }
        kl_batch_close_group(&b, 0);
    }
    b.nx = n, b.ny = q->ndata;
    KL_TRY(kl_batch_run(&b, ex, t, *to, err));
    kl_exec_keep_operators(ex, q->ndata, to);
out:
    kl_batch_clear(&b);
    return st;
}

/* R = Q^T T of the columns q that t has become, to the host. */
static kl_status find_triangles(kl_exec *ex, const decomposition *d, const kl_gramcolumns *columns, int64_t n,
                                kl_dptr q, kl_dptr t, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < columns->nblock; i++) {
        const kl_column_block *const p = &d->block[i];
        if (p->width == 0) continue;
        KL_TRY(kl_batch_push_alone(&b, (int64_t)p->width * p->width,
                                   (kl_rec){.kind = KL_REC_GEMM,
                                            .ta = 1,
                                            .at_a = KL_AT_LEFT,
                                            .at_b = KL_AT_X,
                                            .at_c = KL_AT_Y,
                                            .m = p->width,
                                            .n = p->width,
                                            .k = p->rows,
                                            .lda = p->rows,
                                            .ldb = p->rows,
                                            .ldc = p->width,
                                            .a = p->at,
                                            .b = p->at,
                                            .c = p->gram,
                                            .alpha = 1},
                                   err));
    }
    if (b.ngroup == 0) goto out;
    b.nx = n, b.ny = columns->ngram;
    b.base[KL_AT_LEFT] = q;
    KL_TRY(kl_batch_run(&b, ex, t, columns->gram, err));
    KL_TRY(ex->vt.download(ex, d->tri, columns->gram, columns->ngram, err));
out:
    kl_batch_clear(&b);
    return st;
}

/* Columns of the matrices in *t become orthonormal, and come to the host with their triangles, or, where
   `there' is not NULL, stay on the device. */
static kl_status orthonormalize(kl_exec *ex, decomposition *d, int64_t n, kl_dptr *t, double *host,
                                kl_dptr *there, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_isometry *const q = d->q;
    const int roots = ex->vt.roots != NULL; /* 1: the executor makes them by itself */
    kl_gramcolumns columns = {0};
    kl_dptr spare = {0}, was = {0};
    KL_TRY(kl_alloc(&d->block, q->basis.nsec, KL_MEM_WORK, err));
    for (int i = 0; i < q->basis.nsec; i++) {
        const int rows = q->enlarged->basis.dim[q->sec[i]], cols = d->beyond->dim[d->from->pair[q->sec[i]]];
        d->block[i] =
            (kl_column_block){.rows = rows, .width = rows < cols ? 0 : cols, .at = d->from->off[q->sec[i]]};
    }
    KL_TRY(kl_gramcolumns_open(ex, q->basis.nsec, d->block, &columns, err));
    KL_TRY(kl_realloc(&d->tri, columns.ngram, KL_MEM_WORK, err));
    KL_TRY(ex->vt.alloc(ex, n, &spare, err));
    ex->vt.copy(ex, n, *t, spare); /* sectors of fewer rows than columns stay in either */
    if (roots) {
        KL_TRY(ex->vt.alloc(ex, n, &was, err));
        ex->vt.copy(ex, n, *t, was);
    } else kl_gramcolumns_unit(&columns, d->block, d->tri);
    const kl_gramcolumns_at at = {d->block, t, &spare, n};
    const kl_gramcolumns_opts o = {.dependent = KL_DEPENDENT_REPLACED,
                                   .first = roots ? KL_FIRST_ROOTS : KL_FIRST_PASSES,
                                   .tri = roots ? NULL : d->tri};
    KL_TRY(kl_gramcolumns_run(&columns, &at, &o, err));
    ex->vt.release(ex, &spare);
    if (roots) KL_TRY(find_triangles(ex, d, &columns, n, *t, was, err));
    ex->vt.release(ex, &was);
    if (there) KL_TRY(keep_there(ex, d, n, *t, host, there, err));
    else KL_TRY(ex->vt.download(ex, host, *t, n, err));
out:
    ex->vt.release(ex, &spare);
    ex->vt.release(ex, &was);
    kl_gramcolumns_close(&columns);
    return st;
}

/* Matrices of site p, in *t on the executor -> its isometry on the side that the centre comes from, and the
   bond beyond it. */
static kl_status leave_site(kl_canonical *c, kl_exec *ex, int p, int leftward, site_matrices *x, kl_dptr *t,
                            kl_err *err)
{
    kl_status st = KL_OK;
    kl_isometry **const to = leftward ? &c->right[p] : &c->left[p];
    kl_dptr *const there = !leftward && c->there ? &c->there[p] : NULL;
    const int cut = leftward ? p : p + 1, n = x->e->basis.nsec;
    int *sec = NULL, *dim = NULL, kept = 0;
    decomposition d = {
        .from = &x->lay, .to = &c->layout[cut], .beyond = x->beyond, .t = x->t, .leftward = leftward};
    KL_TRY(kl_alloc(&sec, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&dim, n, KL_MEM_WORK, err));
    for (int k = 0; k < n; k++) {
        if (!x->weight[k]) continue;
        const int rows = x->e->basis.dim[k], cols = x->beyond->dim[x->lay.pair[k]];
        sec[kept] = k, dim[kept++] = rows < cols ? rows : cols;
    }
    kl_isometry_destroy(to);
    if (there) KL_TRY(kl_isometry_shape_take(&x->e, kept, sec, dim, to, err));
    else KL_TRY(kl_isometry_blank_take(&x->e, kept, sec, dim, to, err));
    d.q = *to;
    kl_layout_clear(&c->layout[cut]);
    kl_free(&c->bond[cut]);
    KL_TRY(kl_layout_create(c->model, leftward ? x->beyond : &d.q->basis, leftward ? &d.q->basis : x->beyond,
                            c->target, &c->layout[cut], err));
    KL_TRY(kl_alloc(&c->bond[cut], c->layout[cut].n, KL_MEM_STATE, err));
    d.bond = c->bond[cut];
    KL_TRY(orthonormalize(ex, &d, x->lay.n, t, x->t, there, err));
    kl_par_for(ex->nthread, kept, take_apart, &d);
out:
    kl_free(&sec);
    kl_free(&dim);
    kl_free(&d.block);
    kl_free(&d.tri);
    return st;
}

/* The matrices of a wavefunction's sectors, transposed and by its norm. */
typedef struct turning {
    const kl_state *s;
    const double *psi;
    double norm;
    site_matrices *x;
} turning;

static void turn_sector(void *self, int64_t i, int thread)
{
    enum { TILE = 32 };
    const turning *const u = self;
    const int j = u->s->pair[i];
    (void)thread;
    if (j < 0) return;
    const int rows = u->s->row->basis.dim[i], cols = u->s->col->basis.dim[j];
    const double *const from = u->psi + u->s->psi_off[i];
    double *const to = u->x->t + u->x->lay.off[j];
    int weight = 0;
    for (int a0 = 0; a0 < rows; a0 += TILE)
        for (int b = 0; b < cols; b++)
            for (int a = a0; a < rows && a < a0 + TILE; a++) {
                const double now = from[a + (int64_t)b * rows] / u->norm;
                to[b + (int64_t)a * cols] = now;
                weight |= now != 0;
            }
    u->x->weight[j] = weight;
}

/* 1. psi of the state's centre -> right isometry of its second site, bond between it and the enlarged left
   basis. */
static kl_status open_centre(kl_canonical *c, kl_exec *ex, const kl_state *s, const double *psi, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_basis *const row = &s->row->basis;
    site_matrices x = {.beyond = row};
    double norm = 0;
    kl_dptr t = {0};
    for (int64_t i = 0; i < s->npsi; i++) norm += psi[i] * psi[i];
    if (!(norm > 0) || !isfinite(norm))
        return kl_fail(err, KL_EINPUT,
                       "the state to be measured has norm^2 %s; it must be positive and finite",
                       kl_said(norm).text);
    norm = sqrt(norm);
    KL_TRY(kl_enlarged_copy(s->col, &x.e, err));
    KL_TRY(shape_matrices(c, &x, err));
    turning u = {s, psi, norm, &x};
    kl_par_for(ex->nthread, row->nsec, turn_sector, &u);
    KL_TRY(kl_exec_copy_in(ex, x.t, x.lay.n, &t, err));
    KL_TRY(leave_site(c, ex, s->centre + 1, 1, &x, &t, err));
out:
    ex->vt.release(ex, &t);
    clear_matrices(&x);
    return st;
}

/* All states of an enlarged basis, as they are. */
static kl_status keep_all(const kl_enlarged *from, kl_isometry **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_enlarged *e = NULL;
    int *sec = NULL;
    KL_TRY(kl_alloc(&sec, from->basis.nsec, KL_MEM_WORK, err));
    for (int k = 0; k < from->basis.nsec; k++) sec[k] = k;
    KL_TRY(kl_enlarged_copy(from, &e, err));
    KL_TRY(kl_isometry_create_take(&e, from->basis.nsec, sec, NULL, out, err));
    for (int k = 0; k < from->basis.nsec; k++)
        for (int i = 0; i < from->basis.dim[k]; i++)
            (*out)->data[(*out)->off[k] + i * ((int64_t)from->basis.dim[k] + 1)] = 1;
out:
    kl_enlarged_destroy(&e);
    kl_free(&sec);
    return st;
}

/* Left isometries wait on the host until the device has room for so many numbers. */
static void make_room(const kl_canonical *c, int64_t doubles)
{
    const int64_t bytes = 9 * doubles; /* pools give it in steps of an eighth */
    if (!c->there || !c->ex->vt.alloc_far) return;
    for (int p = 0; p < c->nsite && c->ex->vt.room(c->ex) < bytes; p++)
        if (c->there[p].addr) kl_exec_move_operators(c->ex, 1, c->left[p]->ndata, &c->there[p]);
}

/* 2. and 3. The bond on one side of site p and the site's isometry `from` of the other -> isometry of this
   side, bond beyond the site, whose states on the other side are `beyond`. */
static kl_status step(kl_canonical *c, kl_exec *ex, int p, int leftward, const kl_isometry *from,
                      const kl_basis *beyond, kl_err *err)
{
    kl_status st = KL_OK;
    const int here = leftward ? p + 1 : p;
    const kl_layout *const bond = &c->layout[here];
    partner other = {c->model, beyond, c->target};
    site_matrices x = {.beyond = beyond};
    kl_dptr left = {0}, arg = {0}, t = {0};
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_enlarged_create(c->model, leftward ? kl_canonical_right(c, here) : kl_canonical_left(c, here),
                              c->type[p], has_partner, &other, &x.e, err));
    KL_TRY(shape_matrices(c, &x, err));
    make_room(c, 5 * x.lay.n + from->ndata + 2 * bond->n);
    const kl_enlarged *const e = x.e;
    const int d = e->d;
    for (int k = 0; k < e->basis.nsec; k++) {
        const int rows = e->basis.dim[k], l = x.lay.pair[k], cols = beyond->dim[l];
        KL_TRY(kl_batch_reserve(&b, d, err));
        for (int s = 0; s < d; s++) {
            const int j = e->part_sec[k * d + s], i = j < 0 ? -1 : leftward ? bond->back[j] : bond->pair[j];
            if (i < 0) continue;
            const int big = from->sec[i], rank = from->basis.dim[i], dim = e->block.dim[j];
            const int own = kl_step_from_other(e->site, s);
            if (from->enlarged->part_sec[big * d + own] != l) continue;
            if (!x.weight[k]) KL_TRY(kl_batch_open_group(&b, x.lay.off[k], (int64_t)rows * cols, err));
            x.weight[k] = 1;
            *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                          .ta = (uint8_t)leftward,
                                          .tb = 1,
                                          .beta = 1,
                                          .at_a = KL_AT_X,
                                          .at_b = KL_AT_LEFT,
                                          .at_c = KL_AT_Y,
                                          .m = dim,
                                          .n = cols,
                                          .k = rank,
                                          .lda = leftward ? rank : dim,
                                          .ldb = from->enlarged->basis.dim[big],
                                          .ldc = rows,
                                          .a = bond->off[leftward ? i : j],
                                          .b = from->off[i] + from->enlarged->part_off[big * d + own],
                                          .c = x.lay.off[k] + e->part_off[k * d + s],
                                          .alpha = 1};
        }
        if (x.weight[k]) kl_batch_close_group(&b, 0);
    }
    b.zero = 1, b.nx = bond->n, b.ny = x.lay.n;
    KL_TRY(kl_exec_copy_in(ex, c->bond[here], bond->n, &arg, err));
    KL_TRY(kl_exec_copy_in(ex, from->data, from->ndata, &left, err));
    KL_TRY(ex->vt.alloc(ex, x.lay.n, &t, err));
    b.base[KL_AT_LEFT] = left;
    KL_TRY(kl_batch_run(&b, ex, arg, t, err));
    ex->vt.release(ex, &left);
    ex->vt.release(ex, &arg);
    KL_TRY(leave_site(c, ex, p, leftward, &x, &t, err));
out:
    kl_batch_clear(&b);
    ex->vt.release(ex, &left);
    ex->vt.release(ex, &arg);
    ex->vt.release(ex, &t);
    clear_matrices(&x);
    return st;
}

kl_status kl_canonical_create(kl_exec *ex, const kl_state *s, int which, kl_canonical **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_canonical *c = NULL;
    kl_isometry *first = NULL;
    const int n = s->nsite, at = s->centre;
    KL_TRY(kl_alloc(&c, 1, KL_MEM_STATE, err));
    c->model = s->model;
    c->nsite = n;
    c->target = s->target;
    c->ex = ex;
    if (ex->space == KL_SPACE_DEVICE) KL_TRY(kl_alloc(&c->there, n, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&c->left, n, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&c->right, n, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&c->layout, n + 1, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&c->bond, n + 1, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&c->type, n, KL_MEM_STATE, err));
    memcpy(c->type, s->type, (size_t)n * sizeof *c->type);
    KL_TRY(kl_basis_copy(&s->edge, &c->edge, err));
    KL_TRY(kl_basis_copy(&s->end, &c->end, err));
    if (which < 0 || which >= s->nstate || !s->psi) {
        st = kl_fail(err, KL_EINPUT, "wavefunction %d is to be measured; the state has 0 to %d", which,
                     s->nstate - 1);
        goto out;
    }
    c->borrowed = at + 2;
    for (int p = c->borrowed; p < n; p++) c->right[p] = s->right[p];
    KL_TRY(open_centre(c, ex, s, s->psi + which * s->npsi, err));
    KL_TRY(keep_all(s->row, &first, err));
    for (int p = at; p >= 0; p--)
        KL_TRY(
            step(c, ex, p, 1, p == at ? first : s->left[p], p == 0 ? &c->edge : &s->left[p - 1]->basis, err));
    for (int p = 0; p < n; p++) KL_TRY(step(c, ex, p, 0, c->right[p], kl_canonical_right(c, p + 1), err));
out:
    kl_isometry_destroy(&first);
    if (st != KL_OK) kl_canonical_destroy(&c);
    *out = c;
    return st;
}

kl_status kl_canonical_bring(const kl_canonical *c, int p, kl_err *err)
{
    kl_status st = KL_OK;
    kl_isometry *const iso = c->left[p];
    double *data = NULL;
    if (!c->there || iso->data) return KL_OK;
    KL_TRY(kl_realloc(&data, iso->ndata, KL_MEM_STATE, err));
    KL_TRY(c->ex->vt.download(c->ex, data, c->there[p], iso->ndata, err));
    iso->data = data;
    data = NULL;
out:
    kl_free(&data);
    return st;
}

/* Singular values of one sector of one bond. */
typedef struct singular {
    kl_canonical *c;
    int *cut, *sec; /* [tasks] */
    int64_t *to; /* [tasks] index in schmidt[cut] */
    kl_status *st;
    kl_err *err;
} singular;

static void values_of(void *self, int64_t task, int thread)
{
    const singular *const x = self;
    kl_canonical *const c = x->c;
    const int cut = x->cut[task], sec = x->sec[task], rows = kl_canonical_left(c, cut)->dim[sec],
              cols = kl_canonical_right(c, cut)->dim[c->layout[cut].pair[sec]];
    const int64_t n = (int64_t)rows * cols;
    double *const s = c->schmidt[cut] + x->to[task], *a = NULL;
    kl_status st = KL_OK;
    kl_err *const err = &x->err[task];
    (void)thread;
    KL_TRY(kl_realloc(&a, n, KL_MEM_WORK, err));
    memcpy(a, c->bond[cut] + c->layout[cut].off[sec], (size_t)n * sizeof *a);
    KL_TRY(kl_dense_svd(rows, cols, a, rows, s, NULL, 1, NULL, 1, err));
    for (int i = 0; i < rows && i < cols; i++)
        if (s[i] < TINY) s[i] = 0;
out:
    x->st[task] = st;
    kl_free(&a);
}

kl_status kl_canonical_schmidt(kl_canonical *c, int nthread, kl_err *err)
{
    kl_status st = KL_OK;
    singular x = {.c = c};
    int64_t ntask = 0, most = 0;
    if (c->schmidt) return KL_OK;
    for (int cut = 0; cut <= c->nsite; cut++) most += c->layout[cut].npair;
    KL_TRY(kl_alloc(&x.cut, most, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&x.sec, most, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&x.to, most, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&x.st, most, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&x.err, most, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&c->schmidt, c->nsite + 1, KL_MEM_STATE, err));
    for (int cut = 0; cut <= c->nsite; cut++) {
        const kl_basis *const b = kl_canonical_left(c, cut);
        KL_TRY(kl_alloc(&c->schmidt[cut], b->total, KL_MEM_STATE, err));
        int64_t at = 0;
        for (int k = 0; k < b->nsec; at += b->dim[k++])
            if (c->layout[cut].pair[k] >= 0) x.cut[ntask] = cut, x.sec[ntask] = k, x.to[ntask++] = at;
    }
    kl_par_for(nthread, ntask, values_of, &x);
    for (int64_t i = 0; i < ntask; i++)
        if (x.st[i] != KL_OK) KL_TRY(kl_fail(err, x.st[i], "%s", x.err[i].text));
out:
    if (st != KL_OK) drop_schmidt(c);
    kl_free(&x.cut);
    kl_free(&x.sec);
    kl_free(&x.to);
    kl_free(&x.st);
    kl_free(&x.err);
    return st;
}

double kl_canonical_entropy(const kl_canonical *c, int cut)
{
    const kl_basis *const b = kl_canonical_left(c, cut);
    const int spin = kl_model_spin(c->model);
    double sum = 0;
    for (int64_t k = 0, i = 0; k < b->nsec; k++)
        for (const int64_t end = i + b->dim[k]; i < end; i++) {
            const double w = c->schmidt[cut][i] * c->schmidt[cut][i];
            if (w > 0) sum -= w * log(w);
            /* w is that of a whole multiplet */
            if (w > 0 && spin >= 0) sum += w * log(b->q[k].v[spin] + 1.0);
        }
    return sum > 0 ? sum : 0;
}

static kl_status check_sites(const kl_canonical *a, const kl_canonical *b, kl_err *err)
{
    if (a->nsite != b->nsite)
        return kl_fail(err, KL_EINPUT, "overlap of states of %d and %d sites; they must have the same sites",
                       a->nsite, b->nsite);
    if (a->model->ncharge != b->model->ncharge)
        return kl_fail(err, KL_EINPUT, "overlap of states with %d and %d charges; they must have the same",
                       a->model->ncharge, b->model->ncharge);
    for (int p = 0; p < a->nsite; p++) {
        int differ = a->type[p]->dim != b->type[p]->dim;
        for (int s = 0; !differ && s < a->type[p]->dim; s++)
            differ = kl_qn_cmp(kl_qn_of(a->model, a->type[p]->state_charge[s]),
                               kl_qn_of(b->model, b->type[p]->state_charge[s])) != 0;
        if (differ)
            return kl_fail(err, KL_EINPUT, "overlap of states whose sites differ at position %d: %s and %s",
                           p, a->type[p]->name, b->type[p]->name);
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
        KL_TRY(kl_canonical_bring(a, p, err));
        KL_TRY(kl_canonical_bring(b, p, err));
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
                kl_dgemm('N', 'N', di, n, dj, 1, now[i], di,
                         y->data + y->off[l] + y->enlarged->part_off[yl * d + s], y->enlarged->basis.dim[yl],
                         0, work, di);
                kl_dgemm('T', 'N', m, n, di, 1, x->data + x->off[k] + x->enlarged->part_off[xk * d + s],
                         x->enlarged->basis.dim[xk], work, di, 1, next[k], m);
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
