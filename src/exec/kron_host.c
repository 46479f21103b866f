/* The host executor's entries for sums of Kronecker products: threads over 8 left states at a time, then over
   tiles, each element of y written by one thread in a fixed order, so the bits of a result depend neither on
   timing nor on the number of threads.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/kron_host.h"
#include "base/isa.h"
#include "exec/kron_kernel.h"
#include "base/mem.h"
#include "base/par.h"

#include <stdlib.h>
#include <string.h>

enum { LANES = KL_KRON_LANES };

const kl_kron_kernel *kl_kron_choose(void)
{
    static const kl_kron_kernel *const all[KL_NISA] = {/* ORDER KL_ISA */
#if defined(__x86_64__)
                                                       &kl_kron_avx512, &kl_kron_avx2,
#else
                                                       NULL, NULL,
#endif
                                                       &kl_kron_generic};
    return all[kl_isa_choose()];
}

/* What the host keeps in addition to the tables. */
typedef struct host_kron {
    const kl_kron_kernel *kernel;
    int nthread;
    int64_t buffer; /* doubles of one of a thread's two */
    double *work; /* [nthread][2][buffer] */
    double *dot; /* [ntile_all] */
    double *before_right, *before_left; /* [nblock + 1] cost of the blocks before */
} host_kron;

/* doubles of a vector from which y is not wanted in the caches between the two halves of a product */
enum {
    STREAM_FROM = 1 << 20,
    PARALLEL_FROM = 1 << 14,
    PIECES = 8
}; /* of a half of a product for each thread */

kl_status kl_host_kron_prepare(kl_exec *ex, kl_kron *k, kl_err *err)
{
    kl_status st = KL_OK;
    host_kron *h = NULL;
    KL_TRY(kl_alloc(&h, 1, KL_MEM_MISC, err));
    k->device = h;
    h->kernel = kl_kron_choose();
    h->nthread = k->n < PARALLEL_FROM ? 1 : ex->nthread;
    h->buffer = k->ntile_max * LANES * LANES + LANES;
    for (int64_t i = 0; i < k->nblock; i++) { /* columns that are not its own: kl_kron_beyond */
        const kl_kron_op *const b = k->block[i].b;
        const int64_t all = b ? (b->ncol + LANES - 1) / LANES * LANES * LANES + LANES : 0;
        if (all > h->buffer) h->buffer = all;
    }
    int64_t all;
    if (!kl_mul_size(2 * h->nthread, h->buffer, &all))
        KL_TRY(kl_fail(err, KL_ENOMEM, "work space of %d threads is beyond any machine", h->nthread));
    KL_TRY(kl_alloc(&h->work, all, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&h->dot, k->ntile_all, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&h->before_right, k->nblock + 1, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&h->before_left, k->nblock + 1, KL_MEM_WORK, err));
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        h->before_right[i + 1] = h->before_right[i] + (double)((b->nl + LANES - 1) / LANES) * b->cost_right;
        h->before_left[i + 1] = h->before_left[i] + (double)b->ntile * b->cost_left;
    }
    return st;
out:
    kl_host_kron_release(ex, k);
    return st;
}

void kl_host_kron_release(kl_exec *ex, kl_kron *k)
{
    (void)ex;
    host_kron *h = k->device;
    if (!h) return;
    kl_free(&h->work);
    kl_free(&h->dot);
    kl_free(&h->before_right);
    kl_free(&h->before_left);
    kl_free(&h);
    k->device = NULL;
}

/* Units [from, to) of a block of n units in piece t of nt: those that begin in it. A unit costs `one`, and
   what stands before the block costs `before`. */
static void share(double before, double one, int64_t n, double all, int t, int nt, int64_t *from, int64_t *to)
{
    const double first = all * t / nt, last = all * (t + 1) / nt;
    double a = (first - before) / one, b = (last - before) / one;
    a = a<0 ? 0 : a>(double) n ? (double)n : a;
    b = b<0 ? 0 : b>(double) n ? (double)n : b;
    *from = (int64_t)a + ((double)(int64_t)a < a); /* rounded up: the same number on both sides of a border */
    *to = t + 1 == nt ? n : (int64_t)b + ((double)(int64_t)b < b);
}

typedef struct kron_job {
    const kl_kron *k;
    const host_kron *h;
    const double *x;
    double *y;
    int stream, npiece, adds;
    const kl_kron_beyond *beyond;
} kron_job;

static void right_task(void *self, int64_t piece, int thread)
{
    const kron_job *const j = self;
    const host_kron *const h = j->h;
    double *const z = h->work + 2 * thread * h->buffer, *const acc = z + h->buffer;
    int64_t from, to;
    for (int64_t i = 0; i < j->k->nblock; i++) {
        const kl_kron_block *const b = &j->k->block[i];
        share(h->before_right[i], b->cost_right, (b->nl + LANES - 1) / LANES, h->before_right[j->k->nblock],
              (int)piece, j->npiece, &from, &to);
        if (from < to)
            h->kernel->right(j->k, b, from * LANES, to * LANES < b->nl ? to * LANES : b->nl, j->x, j->y, z,
                             acc, j->stream);
    }
}

static void left_task(void *self, int64_t piece, int thread)
{
    const kron_job *const j = self;
    const host_kron *const h = j->h;
    int64_t from, to;
    (void)thread;
    for (int64_t i = 0; i < j->k->nblock; i++) {
        const kl_kron_block *const b = &j->k->block[i];
        share(h->before_left[i], b->cost_left, b->ntile, h->before_left[j->k->nblock], (int)piece, j->npiece,
              &from, &to);
        double *const dot = h->dot + b->first_tile;
        for (; from < to; from++) dot[from] = h->kernel->left(b, from, j->adds, j->x, j->y);
    }
}

/* Pieces are taken by whoever is free: another program that has a core for a while holds up one of them, not
   half of the product. */
static kron_job job_of(const kl_kron *k, kl_dptr xp, kl_dptr yp, int nthread)
{
    return (kron_job){.k = k,
                      .h = k->device,
                      .x = (const double *)xp.addr,
                      .y = (double *)yp.addr,
                      .npiece = nthread > 1 ? PIECES * nthread : 1};
}

kl_status kl_host_kron_apply(kl_exec *ex, const kl_kron *k, kl_dptr xp, kl_dptr yp, double *xy, kl_err *err)
{
    (void)ex;
    (void)err;
    const host_kron *const h = k->device;
    const int nthread = kl_par_is_inside() ? 1 : h->nthread;
    kron_job job = job_of(k, xp, yp, nthread);
    job.adds = 1;
    job.stream = k->n >= STREAM_FROM && yp.addr % (LANES * sizeof(double)) == 0;
    kl_par_for(nthread, job.npiece, right_task, &job);
    kl_par_for(nthread, job.npiece, left_task, &job);
    if (xy) {
        *xy = 0.0;
        for (int64_t i = 0; i < k->ntile_all; i++) *xy += h->dot[i];
    }
    return KL_OK;
}

/* ---------------------------------------------------------------- a product in parts */

kl_status kl_host_kron_left(kl_exec *ex, const kl_kron *k, int adds, kl_dptr xp, kl_dptr yp, kl_err *err)
{
    (void)ex;
    (void)err;
    const host_kron *const h = k->device;
    kron_job job = job_of(k, xp, yp, h->nthread);
    job.adds = adds;
    kl_par_for(h->nthread, job.npiece, left_task, &job);
    return KL_OK;
}

static void beyond_task(void *self, int64_t piece, int thread)
{
    const kron_job *const j = self;
    const kl_kron_block *const b = j->k->block;
    const kl_kron_beyond *const a = j->beyond;
    const int64_t strips = (a->last - a->first + LANES - 1) / LANES,
                  from = a->first + strips * piece / j->npiece * LANES,
                  to = a->first + strips * (piece + 1) / j->npiece * LANES;
    j->h->kernel->beyond(b, from, to < a->last ? to : a->last, j->x,
                         (const double *)a->x.addr + (from - a->first) * LANES, (a->last - a->first) * LANES,
                         j->y, j->h->work + 2 * thread * j->h->buffer);
}

kl_status kl_host_kron_beyond(kl_exec *ex, const kl_kron *k, const kl_kron_beyond *b, kl_dptr xp, kl_dptr yp,
                              kl_err *err)
{
    (void)ex;
    (void)err;
    const host_kron *const h = k->device;
    kron_job job = job_of(k, xp, yp, h->nthread);
    job.beyond = b;
    kl_par_for(h->nthread, job.npiece, beyond_task, &job);
    return KL_OK;
}
