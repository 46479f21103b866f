/* Weights and states by LAPACK on threads, and by the executor where it has something for large ones.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/spectra.h"
#include "base/dense.h"
#include "base/divide.h"
#include "base/gramfactor.h"
#include "base/mem.h"
#include "base/par.h"
#include "base/smalleig.h"
#include "dmrg/reflect.h"
#include "exec/eigshare.h"
#include <stdlib.h>
#include <string.h>

#define SURE_DIFFERENCE 1e-11 /* of all weight: a difference of two norms that is right to 1e-4 */

/* One sector's states and their weights. The states are, before they are gathered, one of
   - the columns of vec;
   - with the executor, where the density matrix was: vec is NULL and reduced.n is 0;
   - the vectors of `reduced`, the tridiagonal matrix that the density matrix became;
   the first and the last of these still lack the reflections of a matrix that was made tridiagonal. */
typedef struct spectrum {
    /* numbers of a state, in the basis of the columns that were tried where the sector is done by products;
       states, 0 where the sector has no weight */
    int rows, n;
    double *vec, *w; /* [n][rows], [n] */
    kl_divided reduced;
    const double *
        reflections; /* the reflections, where the density matrix was; NULL: none, or the executor has them */
    double *factor; /* their factors (kl_dense_eig_transform) */
} spectrum;

struct kl_spectra {
    kl_exec *ranks; /* each has its own sectors, */
    kl_exec *ex; /* on the executor as one of this rank alone */
    const kl_density *of;
    const kl_basis *mine;
    int singular;
    kl_leading lead; /* sectors by products */
    double *triangle; /* of those, with singular values: see kl_range_triangle */
    /* |psi|^2 of what they leave out, summed over the states; of this rank's; negative: not known yet */
    double lost, lost_here;
    double *host; /* the wavefunctions, or density matrices */
    int *rows; /* [sectors] of the matrices */
    int64_t *off; /* [sectors] of the density matrices */
    int64_t *place; /* [sectors] the same, -1 for sectors by products, and those of other ranks */
    int64_t length; /* numbers of all density matrices of this rank */
    int nown; /* sectors of this rank, */
    int *order; /* [nown] largest first */
    int *dim; /* [nown] their rows, in that order */
    int64_t *at; /* [nown] rows of the sectors before, in that order */
    int largest; /* rows, of any sector */
    int nthere; /* sectors, the largest, whose states the executor finds */
    kl_dptr rho; /* where their density matrices were, here */
    double *diagonal, *subdiagonal; /* from `at` on, of density matrices that became tridiagonal */
    kl_status status_there; /* how the executor fared */
    kl_err error_there;
    spectrum *sp; /* [sectors] */
    kl_err *error; /* [sectors] */
    kl_status *status; /* [sectors] */
};

/* Singular vectors of sector c: of the segments of all wavefunctions side by side, this side's states as
   rows. */
static kl_status decompose(const kl_spectra *t, int c, spectrum *sp, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_wave *const wave = &t->of->wave;
    const kl_layout *const lay = wave->layout;
    const int nstate = t->of->nstate, left = t->of->side == KL_LEFT;
    const int i = left ? c : lay->back[c], j = left ? lay->pair[c] : c;
    double *a = NULL, *other = NULL;
    if (i < 0 || j < 0) return KL_OK;
    const int p = wave->row->basis.dim[i], q = wave->col->basis.dim[j];
    const int rows = left ? p : q, width = left ? q : p;
    const int cols = width * nstate, k = rows < cols ? rows : cols;
    KL_TRY(kl_alloc(&sp->w, k, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&sp->vec, (int64_t)rows * k, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&other, (int64_t)k * cols, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&a, (int64_t)rows * cols, KL_MEM_WORK, err));
    for (int s = 0; s < nstate; s++) {
        const double *const seg = t->host + s * lay->n + lay->off[i];
        double *const to = a + (int64_t)s * rows * width;
        for (int x = 0; !left && x < p; x++)
            for (int y = 0; y < q; y++) to[y + (int64_t)x * q] = seg[x + (int64_t)y * p];
        if (left) memcpy(to, seg, (size_t)p * (size_t)q * sizeof *seg);
    }
    KL_TRY(kl_dense_svd(rows, cols, a, rows, sp->w, sp->vec, rows, other, k, err));
    for (int s = 0; s < k; s++) sp->w[s] *= sp->w[s];
    sp->n = k;
out:
    kl_free(&a);
    kl_free(&other);
    return st;
}

/* Eigenvectors of the nth sector's density matrix; a larger one becomes tridiagonal, and reflections come
   into its memory. */
static kl_status diagonalize(const kl_spectra *t, int nth, spectrum *sp, kl_err *err)
{
    kl_status st = KL_OK;
    const int c = t->order[nth], n = sp->rows;
    double *const rho = t->host + t->off[c], *const d = t->diagonal + t->at[nth],
                  *const e = t->subdiagonal + t->at[nth];
    double sum = 0;
    for (int r = 0; r < n; r++) sum += rho[(int64_t)r * (n + 1)];
    if (sum == 0) return KL_OK;
    if (n > KL_SMALL_EIG) { /* it pays to wait until it is known which states are kept */
        KL_TRY(kl_realloc(&sp->factor, (int64_t)KL_DENSE_PANEL * n, KL_MEM_WORK, err));
        KL_TRY(kl_dense_eig_reduce(n, rho, n, d, e, sp->factor, err));
        sp->reflections = rho;
    }
    if (n > KL_DIVIDE_WHOLE) {
        sp->reduced.n = n; /* its vectors are shared out */
        goto out;
    }
    KL_TRY(kl_alloc(&sp->w, n, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&sp->vec, (int64_t)n * n, KL_MEM_WORK, err));
    if (sp->reflections) KL_TRY(kl_dense_eig_tridiagonal(n, d, e, sp->w, sp->vec, n, err));
    else {
        memcpy(sp->vec, rho, (size_t)n * (size_t)n * sizeof *rho);
        KL_TRY(kl_dense_eig(n, sp->vec, n, sp->w, err));
    }
    for (int s = 0; s < n; s++) sp->w[s] = sp->w[s] > 0 ? sp->w[s] : 0;
    sp->n = n;
out:
    return st;
}

/* Weights of the sectors that are the executor's; their states stay there, where the density matrices were.
   KL_ENOMEM, KL_EABSENT: it had no memory for it, or no library. */
static kl_status diagonalize_there(kl_spectra *t, kl_err *err)
{
    kl_status st = KL_OK;
    double *w = NULL;
    int *dim = NULL;
    int64_t *off = NULL, at = 0;
    const int64_t total = t->mine->total;
    KL_TRY(kl_alloc(&dim, t->nthere, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&off, t->nthere, KL_MEM_WORK, err));
    for (int i = 0; i < t->nthere; i++) {
        dim[i] = t->rows[t->order[i]];
        off[i] = t->off[t->order[i]];
    }
    if (!t->ex->vt.eigen) {
        KL_TRY(t->ex->vt.tridiagonal(t->ex, t->nthere, dim, off, t->rho, t->diagonal, t->subdiagonal, err));
        for (int i = 0; i < t->nthere; i++) t->sp[t->order[i]].rows = t->sp[t->order[i]].reduced.n = dim[i];
        goto out;
    }
    KL_TRY(kl_alloc(&w, total, KL_MEM_WORK, err));
    /* nothing may fail for memory when the density matrices are gone */
    for (int i = 0; i < t->nthere; i++) KL_TRY(kl_alloc(&t->sp[t->order[i]].w, dim[i], KL_MEM_WORK, err));
    KL_TRY(t->ex->vt.eigen(t->ex, t->nthere, dim, off, t->rho, w, err));
    for (int i = 0; i < t->nthere; at += dim[i++]) {
        spectrum *const sp = &t->sp[t->order[i]];
        sp->rows = dim[i];
        if (sp->rows == 0 || !(w[at + sp->rows - 1] > 0)) continue; /* nothing of the wavefunction is here */
        for (int s = 0; s < sp->rows; s++) sp->w[s] = w[at + s] > 0 ? w[at + s] : 0;
        sp->n = sp->rows;
    }
out:
    for (int i = 0; i < t->nthere && st != KL_OK; i++) kl_free(&t->sp[t->order[i]].w);
    kl_free(&w);
    kl_free(&dim);
    kl_free(&off);
    return st;
}

/* Weights of all the matrices that became tridiagonal. */
static kl_status solve_reduced(kl_spectra *t, int nthread, kl_err *err)
{
    kl_status st = KL_OK;
    const int nsec = t->nown;
    kl_divided *divided = NULL;
    const double **d = NULL, **e = NULL;
    int *n = NULL, *sec = NULL, count = 0;
    KL_TRY(kl_alloc(&divided, nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&d, nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&e, nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&n, nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&sec, nsec, KL_MEM_WORK, err));
    for (int i = 0; i < nsec; i++) {
        if (t->sp[t->order[i]].reduced.n == 0) continue;
        n[count] = t->sp[t->order[i]].reduced.n;
        sec[count] = t->order[i];
        d[count] = t->diagonal + t->at[i];
        e[count++] = t->subdiagonal + t->at[i];
    }
    KL_TRY(kl_divide(nthread, count, n, d, e, divided, err));
    for (int i = 0; i < count; i++) t->sp[sec[i]].reduced = divided[i];
    for (int i = 0; i < count; i++) {
        spectrum *const sp = &t->sp[sec[i]];
        if (!(sp->reduced.w[n[i] - 1] > 0)) continue; /* nothing of the wavefunction is here */
        KL_TRY(kl_alloc(&sp->w, n[i], KL_MEM_WORK, err));
        for (int s = 0; s < n[i]; s++) sp->w[s] = sp->reduced.w[s] > 0 ? sp->reduced.w[s] : 0;
        sp->n = n[i];
    }
out:
    kl_free(&divided);
    kl_free(&d);
    kl_free(&e);
    kl_free(&n);
    kl_free(&sec);
    return st;
}

/* Density matrices of sectors [from, to) in the order of their sizes, to the host: neighbours in one copy. */
static kl_status fetch(kl_spectra *t, int from, int to, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = t->mine->nsec;
    char *wanted = NULL;
    KL_TRY(kl_alloc(&wanted, n, KL_MEM_WORK, err));
    if (!t->host) KL_TRY(kl_realloc(&t->host, t->length, KL_MEM_WORK, err));
    for (int i = from; i < to; i++) wanted[t->order[i]] = 1;
    for (int c = 0, end; c < n; c = end) {
        for (end = c + 1; end < n && wanted[end] == wanted[c]; end++) continue;
        const int64_t stop = end < n ? t->off[end] : t->length;
        if (wanted[c])
            KL_TRY(t->ex->vt.download(t->ex, t->host + t->off[c], kl_dptr_at(t->rho, t->off[c]),
                                      stop - t->off[c], err));
    }
out:
    kl_free(&wanted);
    return st;
}

/* Singular vectors of sector c by the triangle of its leading columns. */
static kl_status decompose_triangle(const kl_spectra *t, int c, spectrum *sp, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = sp->rows;
    const double *const triangle = t->triangle + t->lead.range.part[t->lead.part[c]].gram;
    double *work = NULL;
    KL_TRY(kl_alloc(&sp->w, n, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&sp->vec, (int64_t)n * n, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&work, 3 * (int64_t)n * n, KL_MEM_WORK, err));
    KL_TRY(kl_gram_graded(n, triangle, sp->w, sp->vec, work, err));
    sp->n = n;
out:
    kl_free(&work);
    return st;
}

static void one_sector(kl_spectra *t, int nth)
{
    const int c = t->order[nth];
    spectrum *const sp = &t->sp[c];
    kl_err *const err = &t->error[c];
    sp->rows = t->rows[c];
    if (!t->singular) t->status[c] = diagonalize(t, nth, sp, err);
    else if (t->lead.part[c] >= 0) t->status[c] = decompose_triangle(t, c, sp, err);
    else t->status[c] = decompose(t, c, sp, err);
}

/* Task 0 is all that the executor does, while other threads take the sectors that are left. */
static void one_task(void *self, int64_t task, int thread)
{
    kl_spectra *const t = self;
    (void)thread;
    if (t->nthere == 0) one_sector(t, (int)task);
    else if (task > 0) one_sector(t, t->nthere + (int)task - 1);
    else t->status_there = diagonalize_there(t, &t->error_there);
}

typedef struct sized {
    int dim, sec;
} sized;

static int by_size(const void *pa, const void *pb)
{
    const sized *const a = pa, *const b = pb;
    return a->dim != b->dim ? b->dim - a->dim : a->sec - b->sec;
}

static int is_own(const kl_spectra *t, int c) { return t->lead.owner[c] == kl_ranks_mine(t->ranks); }

/* Sectors by size, and memory for what is found in them. */
static kl_status lay_out(kl_spectra *t, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = t->mine->nsec;
    sized *size = NULL;
    KL_TRY(kl_alloc(&size, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->sp, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->rows, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->off, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->place, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->order, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->dim, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->at, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->error, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->status, n, KL_MEM_WORK, err));
    for (int c = 0; c < n; c++) {
        const int own = is_own(t, c);
        t->rows[c] = t->lead.way[c].products ? t->lead.way[c].width : t->mine->dim[c];
        if (t->rows[c] > t->largest) t->largest = t->rows[c];
        t->off[c] = t->length;
        t->place[c] = own && t->lead.part[c] < 0 ? t->length : -1;
        if (!own) continue;
        size[t->nown++] = (sized){t->rows[c], c};
        t->length += (int64_t)t->rows[c] * t->rows[c];
    }
    qsort(size, (size_t)t->nown, sizeof *size, by_size);
    for (int c = 0; c < t->nown; c++) {
        t->order[c] = size[c].sec;
        t->dim[c] = size[c].dim;
        t->at[c] = c > 0 ? t->at[c - 1] + size[c - 1].dim : 0;
    }
out:
    kl_free(&size);
    return st;
}

/* What the matrices are made of: the wavefunctions come to the host, or density matrices to the executor, and
   those that are not its own from there to the host. */
static kl_status prepare(kl_spectra *t, double noise, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = t->ex;
    const int n = t->nown, products = t->lead.npart > 0;
    if (products) KL_TRY(kl_range_find(&t->lead.range, err));
    if (products && t->singular) {
        /* what is lost is so little then that a difference of norms would be rounding */
        KL_TRY(kl_range_lost(&t->lead.range, &t->lost_here, err));
        KL_TRY(kl_realloc(&t->triangle, t->lead.range.ngram, KL_MEM_WORK, err));
        KL_TRY(kl_range_triangle(&t->lead.range, t->triangle, err));
    }
    if (t->singular && t->lead.npart == n) goto out;
    if (t->singular) {
        const int64_t numbers = t->of->wave.layout->n * t->of->nstate;
        KL_TRY(kl_alloc(&t->host, numbers, KL_MEM_WORK, err));
        KL_TRY(ex->vt.download(ex, t->host, t->of->wave.psi, numbers, err));
        goto out;
    }
    KL_TRY(kl_alloc(&t->diagonal, t->mine->total, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->subdiagonal, t->mine->total, KL_MEM_WORK, err));
    t->nthere = kl_eigen_share_next(ex, t->dim, n); /* only small density matrices come to the host */
    KL_TRY(ex->vt.alloc(ex, t->length, &t->rho, err));
    kl_density exact = *t->of;
    if (products || kl_ranks_size(t->ranks) > 1) {
        exact.place = t->place;
        exact.nplace = t->length;
    }
    if (products)
        KL_TRY(kl_range_gram(&t->lead.range, t->of->nstate, t->off, t->lead.sec, t->length, t->rho, err));
    KL_TRY(kl_density_make(ex, &exact, t->rho, err));
    if (noise > 0) KL_TRY(kl_density_add_noise(t->ranks, &exact, noise, t->rho, err));
    KL_TRY(fetch(t, t->nthere, n, err));
    if (t->nthere == 0) ex->vt.release(ex, &t->rho);
out:
    return st;
}

/* All matrices, side by side; those of the executor here after all, where it had no memory or no library. */
static kl_status decompose_all(kl_spectra *t, kl_err *err)
{
    enum { WORTH_THREADS = 24 }; /* rows of the largest matrix */
    kl_status st = KL_OK;
    const int n = t->nown, asked = t->nthere;
    const int nthread = kl_spectra_largest(t) < WORTH_THREADS ? 1 : t->ex->nthread;
    kl_par_for(asked > 0 ? kl_eigen_threads(t->ex) : nthread, n - asked + (asked > 0), one_task, t);
    if (t->status_there == KL_ENOMEM || t->status_there == KL_EABSENT) {
        KL_TRY(fetch(t, 0, asked, err));
        t->nthere = 0;
        kl_par_for(nthread, asked, one_task, t);
    } else if (t->status_there != KL_OK) {
        st = kl_fail(err, t->status_there, "%s", t->error_there.text);
        goto out;
    }
    for (int i = 0; i < n; i++) {
        const int c = t->order[i];
        if (t->status[c] == KL_OK) continue;
        st = kl_fail(err, t->status[c], "%s", t->error[c].text);
        goto out;
    }
    KL_TRY(solve_reduced(t, nthread, err));
out:
    return st;
}

kl_status kl_spectra_create(kl_exec *ex, const kl_density *d, const kl_leading_opts *o, double noise,
                            kl_spectra **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_spectra *t = NULL;
    KL_TRY(kl_alloc(&t, 1, KL_MEM_WORK, err));
    t->ranks = ex;
    t->ex = kl_share_alone(ex);
    t->of = d;
    t->mine = kl_density_mine(d);
    t->singular = o->precise;
    t->lost = t->lost_here = -1;
    KL_TRY(kl_leading_choose(ex, d, o, &t->lead, err));
    KL_TRY(lay_out(t, err));
    KL_TRY(prepare(t, noise, err));
    KL_TRY(decompose_all(t, err));
out:
    if (st != KL_OK) kl_spectra_destroy(&t);
    *out = t;
    return st;
}

void kl_spectra_destroy(kl_spectra **s)
{
    kl_spectra *const t = *s;
    if (!t) return;
    t->ex->vt.release(t->ex, &t->rho);
    kl_leading_clear(&t->lead);
    kl_free(&t->triangle);
    kl_free(&t->rows);
    kl_free(&t->place);
    for (int c = 0; t->sp && c < t->mine->nsec; c++) {
        kl_free(&t->sp[c].vec);
        kl_free(&t->sp[c].w);
        kl_free(&t->sp[c].factor);
        kl_divided_clear(&t->sp[c].reduced);
    }
    kl_free(&t->sp);
    kl_free(&t->off);
    kl_free(&t->order);
    kl_free(&t->dim);
    kl_free(&t->error);
    kl_free(&t->status);
    kl_free(&t->host);
    kl_free(&t->at);
    kl_free(&t->diagonal);
    kl_free(&t->subdiagonal);
    kl_free(s);
}

int kl_spectra_largest(const kl_spectra *t) { return t->largest; }

int kl_spectra_tried(const kl_spectra *t) { return kl_leading_tried(&t->lead); }

int kl_spectra_narrow(const kl_spectra *t, const int *kept, int *least)
{
    return kl_leading_narrow(&t->lead, kept, least);
}

/* Weight of what products leave out, of `seen` in all: a difference of norms where that is not rounding. */
static kl_status lost_weight(kl_spectra *t, double seen, double *lost, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = t->of->wave.layout->n * t->of->nstate;
    double all = 0;
    *lost = 0;
    if (t->lead.nproducts == 0) goto out;
    if (!t->singular) {
        t->ex->vt.dots(t->ex, n, 1, t->of->wave.psi, n, t->of->wave.psi, &all);
        *lost = all / t->of->nstate - seen;
        if (*lost > SURE_DIFFERENCE * seen) goto out;
    }
    if (t->lost < 0) {
        if (t->lead.npart == 0) t->lost_here = 0;
        if (t->lost_here < 0) KL_TRY(kl_range_lost(&t->lead.range, &t->lost_here, err));
        t->lost = t->lost_here;
        kl_ranks_sum(t->ranks, 1, &t->lost);
    }
    *lost = t->singular ? t->lost : t->lost / t->of->nstate;
out:
    return st;
}

/* All ranks get the weights of all sectors. */
static kl_status share_weights(kl_spectra *t, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = t->mine->nsec;
    kl_share_list *list = NULL;
    if (kl_ranks_size(t->ranks) == 1) return KL_OK;
    KL_TRY(kl_alloc(&list, n, KL_MEM_WORK, err));
    for (int c = 0; c < n; c++) list[c] = (kl_share_list){t->lead.owner[c], t->sp[c].n, t->sp[c].w};
    st = kl_share_lists(t->ranks, n, list, err);
    for (int c = 0; c < n; c++) {
        t->sp[c].n = list[c].count;
        t->sp[c].w = list[c].number;
    }
out:
    kl_free(&list);
    return st;
}

kl_status kl_spectra_weights(kl_spectra *t, kl_weight **w, int64_t *n, double *unseen, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t count = 0;
    double sum = 0, lost = 0;
    KL_TRY(share_weights(t, err));
    for (int c = 0; c < t->mine->nsec; c++) count += t->sp[c].n;
    KL_TRY(kl_realloc(w, count, KL_MEM_WORK, err));
    *n = 0;
    for (int c = 0; c < t->mine->nsec; c++)
        for (int s = 0; s < t->sp[c].n; s++) {
            (*w)[(*n)++] = (kl_weight){.w = t->sp[c].w[s], .sec = c, .column = s};
            sum += t->sp[c].w[s];
        }
    KL_TRY(lost_weight(t, sum, &lost, err));
    sum += lost;
    *unseen = lost / sum;
    if (!(sum > 0)) {
        st = kl_fail(err, KL_EBROKEN, "truncation: the wavefunction has no weight (norm^2 %g)", sum);
        goto out;
    }
    for (int64_t i = 0; i < *n; i++) (*w)[i].w /= sum;
out:
    return st;
}

/* Neighbouring columns of one sector that are kept, and where the isometry has them. */
typedef struct columns {
    const spectrum *sp;
    double *to;
    int first, count;
    kl_status status;
} columns;
static int there(const spectrum *sp) { return !sp->vec && sp->reduced.n == 0; }

/* To the host, unless they are with the executor. */
static void bring_columns(void *self, int64_t task, int thread)
{
    columns *const c = (columns *)self + task;
    const spectrum *const sp = c->sp;
    (void)thread;
    if (there(sp)) return;
    if (sp->vec)
        memcpy(c->to, sp->vec + (int64_t)c->first * sp->rows,
               (size_t)c->count * (size_t)sp->rows * sizeof *c->to);
    else kl_divided_columns(&sp->reduced, c->first, c->count, c->to);
    if (sp->reflections)
        c->status =
            kl_dense_eig_transform(sp->rows, sp->reflections, sp->rows, sp->factor, c->count, c->to, NULL);
}

/* Back-transforms the vectors of those runs whose reflections the executor has: they begin at data as they do
   at `host`. */
static kl_status transform_reduced(const kl_spectra *t, int64_t nrun, const columns *run, const double *host,
                                   int64_t ndata, kl_dptr data, kl_err *err)
{
    kl_status st = KL_OK;
    int *n = NULL, *count = NULL, nmat = 0;
    int64_t *off = NULL, *at = NULL;
    KL_TRY(kl_alloc(&n, t->nthere, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&count, t->nthere, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&off, t->nthere, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&at, t->nthere, KL_MEM_WORK, err));
    const spectrum *last = NULL;
    for (int64_t k = 0; k < nrun; k++) {
        const spectrum *const sp = run[k].sp;
        if (sp->reduced.n == 0 || sp->reflections) continue;
        if (sp != last) {
            n[nmat] = sp->rows;
            off[nmat] = t->off[sp - t->sp];
            at[nmat++] = run[k].to - host;
        }
        count[nmat - 1] += run[k].count;
        last = sp;
    }
    const kl_reflections q = {.nmat = nmat, .n = n, .off = off, .v = t->rho, .nv = t->length};
    const kl_reflected z = {.count = count, .at = at, .data = data, .ndata = ndata};
    KL_TRY(kl_reflect(t->ex, &q, &z, err));
out:
    kl_free(&n);
    kl_free(&count);
    kl_free(&off);
    kl_free(&at);
    return st;
}

/* Sector by sector: from where the kept states are to data[ndata], `total` states. */
static kl_status gather(const kl_spectra *t, const kl_weight *w, int64_t nw, int64_t total, int64_t ndata,
                        kl_dptr data, kl_err *err)
{
    enum { TOGETHER = 48 }; /* columns a thread transforms at a time */
    kl_status st = KL_OK;
    double *host = NULL;
    columns *run = NULL;
    /* numbers of data so far; those from `from` to `end` are still on the host */
    int64_t at = 0, from = 0, end = 0, nrun = 0;
    int making = 0, transforming = 0; /* columns here; with reflections that the executor has */
    KL_TRY(kl_realloc(&host, ndata, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&run, total, KL_MEM_WORK, err));
    for (int64_t i = 0; i < nw; i++) {
        if (!w[i].keep) continue;
        const spectrum *const sp = &t->sp[w[i].sec];
        if (!is_own(t, w[i].sec)) {
            at += t->rows[w[i].sec];
            continue;
        }
        columns *const last = nrun > 0 ? &run[nrun - 1] : NULL;
        if (last && last->sp == sp && last->first + last->count == w[i].column &&
            (there(sp) || last->count < TOGETHER))
            last->count++;
        else run[nrun++] = (columns){.sp = sp, .to = host + at, .first = w[i].column, .count = 1};
        making |= sp->reflections || sp->reduced.n > 0;
        transforming |= sp->reduced.n > 0 && !sp->reflections;
        at += sp->rows;
    }
    kl_par_for(making ? t->ex->nthread : 1, nrun, bring_columns, run);
    for (int64_t k = 0; k < nrun; k++) {
        const spectrum *const sp = run[k].sp;
        const int64_t place = run[k].to - host, count = (int64_t)run[k].count * sp->rows;
        if (run[k].status != KL_OK) {
            st = kl_fail(err, run[k].status, "truncation: no memory to transform %d kept states of %d rows",
                         run[k].count, sp->rows);
            goto out;
        }
        if (place > end) { /* others' lie between */
            KL_TRY(t->ex->vt.upload(t->ex, kl_dptr_at(data, from), host + from, end - from, err));
            from = place;
        }
        end = place + count;
        if (!there(sp)) continue;
        KL_TRY(t->ex->vt.upload(t->ex, kl_dptr_at(data, from), host + from, place - from, err));
        t->ex->vt.copy(t->ex, count,
                       kl_dptr_at(t->rho, t->off[sp - t->sp] + (int64_t)run[k].first * sp->rows),
                       kl_dptr_at(data, place));
        from = end;
    }
    KL_TRY(t->ex->vt.upload(t->ex, kl_dptr_at(data, from), host + from, end - from, err));
    if (transforming) KL_TRY(transform_reduced(t, nrun, run, host, ndata, data, err));
out:
    kl_free(&run);
    kl_free(&host);
    return st;
}

/* States in the basis of the columns that were tried become states of the sectors. */
static kl_status expand(kl_spectra *t, const kl_weight *w, int64_t nw, const kl_isometry *iso,
                        int64_t nreduced, kl_dptr reduced, kl_dptr data, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t *from = NULL, at = 0, nweight = 0;
    double *weight = NULL;
    int *count = NULL;
    KL_TRY(kl_alloc(&count, t->lead.npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&from, 2 * (int64_t)t->lead.npart, KL_MEM_WORK, err));
    int64_t *const to = from + t->lead.npart;
    KL_TRY(kl_alloc(&weight, iso->basis.total, KL_MEM_WORK, err));
    for (int64_t i = 0; i < nw; i++)
        if (w[i].keep && t->lead.part[w[i].sec] >= 0)
            weight[nweight++] = t->sp[w[i].sec].w[w[i].column] * t->of->nstate;
    for (int k = 0; k < iso->basis.nsec; k++) {
        const int c = iso->sec[k], part = t->lead.part[c];
        const int64_t n = (int64_t)t->rows[c] * iso->basis.dim[k];
        if (part < 0 && is_own(t, c))
            t->ex->vt.copy(t->ex, n, kl_dptr_at(reduced, at), kl_dptr_at(data, iso->off[k]));
        if (part >= 0) {
            count[part] = iso->basis.dim[k];
            from[part] = at;
            to[part] = iso->off[k];
        }
        at += n;
    }
    const kl_range_view view = {count, from, to, weight};
    st = kl_range_columns(&t->lead.range, &view, reduced, nreduced, iso->ndata, data, err);
out:
    kl_free(&count);
    kl_free(&from);
    kl_free(&weight);
    return st;
}

/* All ranks get the states of all sectors. */
static kl_status share_states(const kl_spectra *t, const kl_isometry *iso, kl_dptr data, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = iso->basis.nsec;
    kl_share_piece *piece = NULL;
    KL_TRY(kl_alloc(&piece, n, KL_MEM_WORK, err));
    for (int k = 0; k < n; k++) {
        const int c = iso->sec[k];
        piece[k] =
            (kl_share_piece){t->lead.owner[c], iso->off[k], (int64_t)t->mine->dim[c] * iso->basis.dim[k]};
    }
    KL_TRY(kl_share_exchange_there(t->ranks, n, piece, data, err));
out:
    kl_free(&piece);
    return st;
}

kl_status kl_spectra_states(kl_spectra *t, const kl_weight *w, int64_t nw, const kl_isometry *iso,
                            kl_dptr data, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dptr reduced = {0};
    int64_t nreduced = 0;
    if (t->lead.nproducts == 0) {
        KL_TRY(gather(t, w, nw, iso->basis.total, iso->ndata, data, err));
        return share_states(t, iso, data, err);
    }
    for (int k = 0; k < iso->basis.nsec; k++) nreduced += (int64_t)t->rows[iso->sec[k]] * iso->basis.dim[k];
    KL_TRY(t->ex->vt.alloc(t->ex, nreduced, &reduced, err));
    KL_TRY(gather(t, w, nw, iso->basis.total, nreduced, reduced, err));
    KL_TRY(expand(t, w, nw, iso, nreduced, reduced, data, err));
    KL_TRY(share_states(t, iso, data, err));
out:
    t->ex->vt.release(t->ex, &reduced);
    return st;
}
