/* Weights and states by LAPACK on threads, and by the executor where it has something for large ones.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/spectrum.h"
#include "base/dense.h"
#include "base/gramfactor.h"
#include "base/mem.h"
#include "base/par.h"
#include "dmrg/sectorsvd.h"
#include "exec/eigshare.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SURE_DIFFERENCE 1e-11 /* of all weight: a difference of two norms that is right to 1e-4 */

static double trace(int n, const double *rho)
{
    double sum = 0;
    for (int r = 0; r < n; r++) sum += rho[(int64_t)r * (n + 1)];
    return sum;
}

static kl_status make_room(kl_spectrum *sp, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(&sp->w, sp->rows, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&sp->vec, (int64_t)sp->rows * sp->rows, KL_MEM_WORK, err));
out:
    return st;
}

/* There are weights. */
static void settle(kl_spectrum *sp)
{
    for (int s = 0; s < sp->rows; s++) sp->w[s] = sp->w[s] > 0 ? sp->w[s] : 0;
    sp->n = sp->rows;
}

/* The nth sector's large density matrix becomes tridiagonal, and reflections come into its memory; its
   eigenvectors where they are not shared out. It pays to wait until it is known which states are kept. */
static kl_status diagonalize(const kl_spectra *t, int nth, kl_spectrum *sp, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = sp->rows;
    double *const rho = t->host + t->off[t->order[nth]], *const d = t->diagonal + t->at[nth],
                  *const e = t->subdiagonal + t->at[nth];
    if (trace(n, rho) == 0) return KL_OK;
    KL_TRY(kl_realloc(&sp->factor, (int64_t)KL_DENSE_PANEL * n, KL_MEM_WORK, err));
    KL_TRY(kl_dense_eig_reduce(n, rho, n, d, e, sp->factor, err));
    sp->reflections = rho;
    if (n > KL_DIVIDE_WHOLE) {
        sp->reduced.n = n;
        goto out;
    }
    KL_TRY(make_room(sp, err));
    KL_TRY(kl_dense_eig_tridiagonal(n, d, e, sp->w, sp->vec, n, err));
    settle(sp);
out:
    return st;
}

/* Eigenvectors of the small density matrices of sectors from the nth on. */
static kl_status diagonalize_few(kl_spectra *t, int nth, int count, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dense_matrix m[KL_DENSE_FEW] = {{0}};
    kl_spectrum *of[KL_DENSE_FEW];
    int n = 0;
    for (int i = nth; i < nth + count; i++) {
        const int c = t->order[i];
        kl_spectrum *const sp = &t->sp[c];
        sp->rows = t->rows[c];
        const double *const rho = t->host + t->off[c];
        if (trace(sp->rows, rho) == 0) continue;
        KL_TRY(make_room(sp, err));
        memcpy(sp->vec, rho, (size_t)sp->rows * (size_t)sp->rows * sizeof *rho);
        m[n] = (kl_dense_matrix){sp->rows, sp->vec, sp->w};
        of[n++] = sp;
    }
    KL_TRY(kl_dense_eig_few(n, m, err));
    for (int i = 0; i < n; i++) settle(of[i]);
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
        kl_spectrum *const sp = &t->sp[t->order[i]];
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
        kl_spectrum *const sp = &t->sp[sec[i]];
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
static kl_status decompose_triangle(const kl_spectra *t, int c, kl_spectrum *sp, kl_err *err)
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
    kl_spectrum *const sp = &t->sp[c];
    kl_err *const err = &t->error[c];
    sp->rows = t->rows[c];
    if (!t->singular) t->status[c] = diagonalize(t, nth, sp, err);
    else if (t->lead.part[c] >= 0) t->status[c] = decompose_triangle(t, c, sp, err);
    else t->status[c] = kl_sector_svd(t->of, t->host, c, &sp->vec, &sp->w, &sp->n, err);
}

/* What threads do: sectors [first, small) of the order one by one, [small, last) `few` at a time. */
typedef struct share {
    kl_spectra *t;
    int there; /* 1: task 0 is all that the executor does */
    int first, small, last, few;
} share;

static void one_task(void *self, int64_t task, int thread)
{
    const share *const s = self;
    kl_spectra *const t = s->t;
    (void)thread;
    if (s->there && task == 0) {
        t->status_there = diagonalize_there(t, &t->error_there);
        return;
    }
    const int nth = s->first + (int)task - s->there;
    if (nth < s->small) {
        one_sector(t, nth);
        return;
    }
    const int from = s->small + (nth - s->small) * s->few, left = s->last - from, c = t->order[from];
    t->status[c] = diagonalize_few(t, from, left < s->few ? left : s->few, &t->error[c]);
}

/* Sectors [first, last) by threads, and those before by the executor, if there is any. */
static void share_out(kl_spectra *t, int nthread, int there, int first, int last)
{
    share s = {.t = t, .there = there, .first = first, .small = last, .last = last, .few = 1};
    while (!t->singular && s.small > first && t->dim[s.small - 1] <= KL_DENSE_SMALL) s.small--;
    double cubes = 0;
    for (int i = first; i < last; i++) cubes += pow(t->dim[i], 3);
    const int hands = there ? nthread : kl_par_hands(nthread, cubes, KL_DENSE_WORTH);
    const int nsmall = last - s.small, each = nsmall / hands;
    s.few = each < 1 ? 1 : each < KL_DENSE_FEW ? each : KL_DENSE_FEW;
    kl_par_for(hands, there + s.small - first + (nsmall + s.few - 1) / s.few, one_task, &s);
}

typedef struct sized {
    int dim, sec;
} sized;

static int by_size(const void *pa, const void *pb)
{
    const sized *const a = pa, *const b = pb;
    return a->dim != b->dim ? b->dim - a->dim : a->sec - b->sec;
}

/* Where the sectors' matrices lie, and this rank's by size. */
static kl_status order_sectors(kl_spectra *t, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = t->mine->nsec;
    sized *size = NULL;
    KL_TRY(kl_alloc(&size, n, KL_MEM_WORK, err));
    t->length = 0;
    t->nown = t->largest = 0;
    for (int c = 0; c < n; c++) {
        const int own = kl_spectra_own(t, c);
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

/* Memory for what is found in the sectors. */
static kl_status lay_out(kl_spectra *t, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = t->mine->nsec;
    KL_TRY(kl_alloc(&t->sp, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->rows, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->off, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->place, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->order, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->dim, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->at, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->error, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->status, n, KL_MEM_WORK, err));
    for (int c = 0; c < n; c++) t->rows[c] = t->lead.way[c].products ? t->lead.way[c].width : t->mine->dim[c];
    KL_TRY(order_sectors(t, err));
out:
    return st;
}

/* Room for this rank's matrices, Q^T rho Q in place of the density matrices of which only the leading part is
   looked for. */
static kl_status make_top_room(kl_spectra *t, kl_dptr *all, kl_err *err)
{
    int64_t length = 0;
    for (int c = 0; c < t->mine->nsec; c++) {
        const kl_dominant_part *const p = kl_spectra_top(t, c);
        const int64_t rows = p ? p->tried : t->rows[c];
        if (kl_spectra_own(t, c)) length += rows * rows;
    }
    return t->ex->vt.alloc(t->ex, length, all, err);
}

/* These matrices. */
static void take_their_place(kl_spectra *t, kl_dptr all)
{
    int64_t at = 0;
    for (int c = 0; c < t->mine->nsec; c++) {
        const kl_dominant_part *const p = kl_spectra_top(t, c);
        const int64_t rows = p ? p->tried : t->rows[c], numbers = rows * rows;
        if (!kl_spectra_own(t, c)) continue;
        t->ex->vt.copy(t->ex, numbers, p ? kl_dptr_at(t->top.b, p->b) : kl_dptr_at(t->rho, t->off[c]),
                       kl_dptr_at(all, at));
        at += numbers;
    }
    t->ex->vt.release(t->ex, &t->rho);
    t->rho = all;
}

/* With noise, of large sectors only the leading part is diagonalized, where the executor makes factors fast.
   Without memory for that, on any rank, all is as it was. */
static kl_status take_top(kl_spectra *t, const kl_leading_opts *o, kl_err *err)
{
    enum {
        WORTH = 192, /* rows from which it takes less time on a device, */
        WORTH_TEST = 40, /* and where products are asked for */
    };
    kl_status st = KL_OK;
    const int n = t->mine->nsec, test = o->asked == KL_TRUNCATION_PRODUCTS;
    kl_dptr all = {0};
    if (o->asked == KL_TRUNCATION_EXACT) return KL_OK;
    if (kl_ranks_any(t->ranks, !(t->ex->vt.roots || test))) return KL_OK;
    KL_TRY(kl_alloc(&t->top.part, n, KL_MEM_WORK, err));
    t->top_looked = 1;
    t->top.ranks = t->ranks;
    t->top.ex = t->ex;
    t->top.npart = n;
    t->top.m = o->m;
    t->top.worth = test ? WORTH_TEST : WORTH;
    for (int c = 0; c < n; c++)
        t->top.part[c] = (kl_dominant_part){
            .n = t->rows[c], .owner = t->lead.owner[c], .at = t->off[c], .whole = o->least[c] > 0};
    KL_TRY(kl_dominant_look(&t->top, t->rho, err));
    st = kl_dominant_find(&t->top, t->rho, err);
    if (st == KL_OK) st = make_top_room(t, &all, err);
    if (st != KL_OK && st != KL_ENOMEM) goto out;
    const int none = kl_ranks_any(t->ranks, st == KL_ENOMEM);
    st = KL_OK;
    for (int c = 0; c < n && none; c++) t->top.part[c].tried = 0;
    if (none) goto out;
    take_their_place(t, all);
    all.addr = 0;
    KL_TRY(kl_dominant_agree(&t->top, err));
    for (int c = 0; c < n; c++) {
        const kl_dominant_part *const p = kl_spectra_top(t, c);
        if (p) t->rows[c] = p->tried;
    }
    KL_TRY(order_sectors(t, err));
out:
    t->ex->vt.release(t->ex, &all);
    return st;
}

/* Weights of the sectors of which only what goes is diagonalized, which are in no order any more. */
static kl_status take_least(kl_spectra *t, kl_err *err)
{
    kl_status st = KL_OK;
    int nown = 0;
    int64_t at = 0;
    for (int i = 0; i < t->nown; i++) {
        const int c = t->order[i];
        const kl_least_part *const p = kl_leading_least(&t->lead, c);
        kl_spectrum *const sp = &t->sp[c];
        t->order[nown] = c;
        t->dim[nown] = t->dim[i];
        t->at[nown] = at; /* tridiagonal matrices stand one after the other */
        nown += !p;
        if (!p) at += t->dim[i];
        if (!p) continue;
        KL_TRY(kl_alloc(&sp->w, p->n, KL_MEM_WORK, err));
        kl_leading_least_weights(p, sp->w);
        sp->rows = sp->n = p->n;
    }
    t->nown = nown;
out:
    return st;
}

/* What the matrices are made of: the wavefunctions come to the host, or density matrices to the executor, and
   those that are not its own from there to the host. */
static kl_status prepare(kl_spectra *t, const kl_leading_opts *o, double noise, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = t->ex;
    const int products = t->lead.npart > 0;
    if (products) KL_TRY(kl_range_find(&t->lead.range, err));
    if (products && t->singular) {
        /* what is lost is so little then that a difference of norms would be rounding */
        KL_TRY(kl_range_lost(&t->lead.range, &t->lost_here, err));
        KL_TRY(kl_realloc(&t->triangle, t->lead.range.ngram, KL_MEM_WORK, err));
        KL_TRY(kl_range_triangle(&t->lead.range, t->triangle, err));
    }
    if (t->singular && t->lead.npart == t->nown) goto out;
    if (t->singular) {
        const int64_t numbers = t->of->wave.layout->n * t->of->nstate;
        KL_TRY(kl_alloc(&t->host, numbers, KL_MEM_WORK, err));
        KL_TRY(ex->vt.download(ex, t->host, t->of->wave.psi, numbers, err));
        goto out;
    }
    KL_TRY(kl_alloc(&t->diagonal, t->mine->total, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->subdiagonal, t->mine->total, KL_MEM_WORK, err));
    KL_TRY(ex->vt.alloc(ex, t->length, &t->rho, err));
    kl_density exact = *t->of;
    if (products || kl_ranks_size(t->ranks) > 1) {
        exact.place = t->place;
        exact.nplace = t->length;
    }
    if (products)
        KL_TRY(kl_range_gram(&t->lead.range, t->of->nstate, t->off, t->lead.sec, t->length, t->rho, err));
    if (products) {
        KL_TRY(kl_leading_least_find(&t->lead, o, t->off, t->rho, err));
        KL_TRY(take_least(t, err));
    }
    KL_TRY(kl_density_make(ex, &exact, t->rho, err));
    if (noise > 0) {
        KL_TRY(kl_density_add_noise(t->ranks, &exact, noise, t->rho, err));
        KL_TRY(take_top(t, o, err));
    }
    t->nthere = kl_eigen_share_next(ex, t->dim, t->nown, 0); /* only small matrices come to the host */
    KL_TRY(fetch(t, t->nthere, t->nown, err));
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
    share_out(t, asked > 0 ? kl_eigen_threads(t->ex) : nthread, asked > 0, asked, n);
    if (t->status_there == KL_ENOMEM || t->status_there == KL_EABSENT) {
        KL_TRY(fetch(t, 0, asked, err));
        t->nthere = 0;
        share_out(t, nthread, 0, 0, asked);
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
    KL_TRY(prepare(t, o, noise, err));
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
    kl_dominant_clear(&t->top);
    kl_free(&t->top.part);
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

int kl_spectra_tried(const kl_spectra *t)
{
    int count = kl_leading_tried(&t->lead) - kl_leading_nleast(&t->lead) + t->nleast;
    for (int c = 0; c < t->mine->nsec; c++) count += kl_spectra_top(t, c) != NULL;
    return count;
}

int kl_spectra_least(const kl_spectra *t) { return t->nleast; }

/* What the owners of sectors know of those in which too much goes. */
static kl_status share_narrow(const kl_spectra *t, int *least, int *narrow, kl_err *err)
{
    kl_status st = KL_OK;
    double *next = NULL;
    if (t->nleast == 0 || kl_ranks_size(t->ranks) == 1) goto out;
    KL_TRY(kl_alloc(&next, t->mine->nsec, KL_MEM_WORK, err));
    for (int c = 0; c < t->mine->nsec; c++)
        if (kl_leading_least(&t->lead, c) && least[c] > 0) next[c] = least[c];
    kl_ranks_sum(t->ranks, t->mine->nsec, next);
    for (int c = 0; c < t->mine->nsec; c++) {
        if (!(next[c] > 0)) continue;
        least[c] = (int)next[c];
        *narrow = 1;
    }
out:
    kl_free(&next);
    return st;
}

kl_status kl_spectra_narrow(const kl_spectra *t, const int *kept, int *least, int *narrow, kl_err *err)
{
    *narrow = kl_leading_narrow(&t->lead, kept, least);
    for (int c = 0; c < t->mine->nsec; c++) {
        const kl_dominant_part *const p = kl_spectra_top(t, c);
        if (!p || kl_dominant_sure(p->tried, kept[c])) continue;
        least[c] = p->n;
        *narrow = 1;
    }
    return share_narrow(t, least, narrow, err);
}

/* Weight of what products leave out, of `seen` in all: a difference of norms where that is not rounding. */
static kl_status lost_weight(kl_spectra *t, double seen, double *lost, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = t->of->wave.layout->n * t->of->nstate;
    double all = 0;
    *lost = 0;
    if (t->top_looked) { /* of density matrices with noise: what their traces have beyond it */
        for (int c = 0; c < t->mine->nsec; c++) all += t->top.part[c].trace;
        *lost = all > seen ? all - seen : 0;
        goto out;
    }
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

/* All ranks get the weights of all sectors, and of how many not all were looked for. */
static kl_status share_weights(kl_spectra *t, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = t->mine->nsec;
    kl_share_list *list = NULL;
    t->nleast = (int)kl_ranks_total(t->ranks, kl_leading_nleast(&t->lead));
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
    t->sum = sum;
    *unseen = lost / sum;
    if (!(sum > 0)) {
        st = kl_fail(err, KL_EBROKEN, "truncation: the wavefunction has no weight (norm^2 %s)",
                     kl_said(sum).text);
        goto out;
    }
    for (int64_t i = 0; i < *n; i++) (*w)[i].w /= sum;
out:
    return st;
}

kl_status kl_spectra_unread_take(kl_spectra *t, int spin, const kl_weight *w, int64_t n, kl_unread *u,
                                 kl_err *err)
{
    kl_status st = KL_OK;
    u->open = kl_ranks_any(t->ranks, t->lead.put_off);
    if (!u->open) return KL_OK;
    KL_TRY(kl_alloc(&u->part, t->nleast, KL_MEM_WORK, err));
    for (int c = 0; c < t->mine->nsec; c++) {
        const kl_least_part *const p = kl_leading_least(&t->lead, c);
        const int states = spin < 0 ? 1 : t->mine->q[c].v[spin] + 1;
        if (p) u->part[u->npart++] = (kl_unread_part){.n = p->n, .states = states, .at = p->row};
    }
    for (int64_t i = 0; i < n; i++) {
        const double states = spin < 0 ? 1 : t->mine->q[w[i].sec].v[spin] + 1;
        if (w[i].w > 0 && kl_spectra_own(t, w[i].sec) && !kl_leading_least(&t->lead, w[i].sec))
            u->known += w[i].w * log(states / w[i].w);
    }
    u->sum = t->sum;
    u->d = t->lead.diagonal;
    u->e = t->lead.beside;
    t->lead.diagonal = t->lead.beside = NULL;
out:
    return st;
}
