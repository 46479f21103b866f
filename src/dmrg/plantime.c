/* How long a sweep would take: see plantime.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/plantime.h"
#include "base/dense.h"
#include "base/gemm.h"
#include "base/mem.h"
#include "base/prof.h"
#include "dmrg/leading.h"
#include "exec/eigshare.h"
#include <math.h>
#include <stdlib.h>

/* ORDER KL_PLAN */
const char *const kl_plan_part_name[KL_NPLAN] = {"products with H", "truncation", "growth of blocks",
                                                 "operators and records", "copies over the bus"};

#define HOST_STEP 2e-4 /* seconds of a step here, beside all work */
#define DEVICE_STEP 5e-3 /* the same on a device: lists, launches and what is waited for */
#define EXPANSION 5.0 /* growth of blocks that expanding bases is worth */
#define SETTLING 0.3 /* of a truncation: a basis of all columns instead */
/* Of the eigensolver's vectors on the host, for each product with H: passes that add one to another. */
#define VECTOR_PASSES 8.0
/* Of a sweep on the host, done by one thread however many there are. */
#define ONE_THREAD 0.2

/* GFLOP/s of the small product kernel at the sizes of a middling sector, in a few milliseconds. */
static kl_status measure_rate(int n, double *flops, kl_err *err)
{
    kl_status st = KL_OK;
    double *a = NULL;
    kl_gemm_fn *const gemm = kl_gemm_choose(NULL);
    n = n < 4 ? 4 : n > 200 ? 200 : n;
    KL_TRY(kl_alloc(&a, 3 * (int64_t)n * n, KL_MEM_WORK, err));
    *flops = 0;
    /* the best of a few: other programs may have the processor now and then */
    for (int sample = 0; sample < 6; sample++) {
        const int runs = (int)(2e7 / (2.0 * n * n * n)) + 1;
        const double t0 = kl_prof_seconds();
        for (int i = 0; i < runs; i++)
            gemm(0, 0, n, n, n, 1.0, a, n, a + (int64_t)n * n, n, 1.0, a + 2 * (int64_t)n * n, n);
        const double rate = 2.0 * n * n * n * runs / (kl_prof_seconds() - t0);
        if (rate > *flops) *flops = rate;
    }
out:
    kl_free(&a);
    return st;
}

/* Seconds of an eigenproblem of n rows here, by the cube of n. */
static kl_status measure_eigen(int n, double *seconds, kl_err *err)
{
    enum {
        LEAST = 24,
        MOST = 128,
        SAMPLES = 3,
    };
    kl_status st = KL_OK;
    double *a = NULL, *w = NULL;
    uint64_t state = 1;
    n = n < LEAST ? LEAST : n > MOST ? MOST : n;
    KL_TRY(kl_alloc(&a, (int64_t)n * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&w, n, KL_MEM_WORK, err));
    *seconds = INFINITY;
    for (int sample = 0; sample < SAMPLES; sample++) {
        for (int64_t i = 0; i < (int64_t)n * n; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            a[i] = (double)(state >> 40) / (double)(1 << 24);
        }
        const double t0 = kl_prof_seconds();
        KL_TRY(kl_dense_eig(n, a, n, w, err));
        *seconds = fmin(*seconds, (kl_prof_seconds() - t0) / ((double)n * n * n));
    }
out:
    kl_free(&a);
    kl_free(&w);
    return st;
}

/* Seconds a number that adding one vector of n numbers to another takes. */
static kl_status measure_pass(int64_t n, double *seconds, kl_err *err)
{
    enum {
        MOST = 1 << 20,
        SAMPLES = 4,
    };
    kl_status st = KL_OK;
    double *x = NULL;
    n = n < 1 ? 1 : n > MOST ? MOST : n;
    KL_TRY(kl_alloc(&x, 2 * n, KL_MEM_WORK, err));
    double *const y = x + n;
    *seconds = INFINITY;
    for (int sample = 0; sample < SAMPLES; sample++) {
        const double t0 = kl_prof_seconds();
        for (int64_t i = 0; i < n; i++) y[i] += 0.5 * x[i];
        *seconds = fmin(*seconds, (kl_prof_seconds() - t0) / (double)n);
        x[0] = y[n - 1]; /* so that no pass is left out */
    }
out:
    kl_free(&x);
    return st;
}

/* The same of a device: products of n rows, as a list that is run as often as a step would. */
static kl_status measure_device(kl_exec *ex, int n, double *flops, kl_err *err)
{
    enum {
        MOST = 512,
        LEAST = 32,
        PRODUCTS = 64,
        RUNS = 3,
        APPLIED = 4,
    };
    kl_status st = KL_OK;
    kl_dptr v = {0};
    kl_batch b;
    double last;
    n = n < LEAST ? LEAST : n > MOST ? MOST : n / 2 * 2;
    /* a quarter of what there is at most */
    const int64_t each = (int64_t)n * n, room = ex->vt.room ? ex->vt.room(ex) : INT64_MAX,
                  fit = room / 4 / (int64_t)sizeof(double) / (3 * each);
    const int products = fit < 1 ? 1 : fit < PRODUCTS ? (int)fit : PRODUCTS;
    const int64_t all = products * each;
    kl_batch_init(&b);
    KL_TRY(ex->vt.alloc(ex, 3 * all, &v, err));
    ex->vt.fill(ex, 3 * all, 0.5, v);
    for (int i = 0; i < products; i++) {
        KL_TRY(kl_batch_open_group(&b, i * each, each, err));
        KL_TRY(kl_batch_reserve(&b, 1, err));
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                      .at_a = KL_AT_LEFT,
                                      .at_b = KL_AT_X,
                                      .at_c = KL_AT_Y,
                                      .m = n,
                                      .n = n,
                                      .k = n,
                                      .lda = n,
                                      .ldb = n,
                                      .ldc = n,
                                      .a = i * each,
                                      .b = i * each,
                                      .c = i * each,
                                      .alpha = 1};
        kl_batch_close_group(&b, 0);
    }
    b.nx = b.ny = all;
    b.base[KL_AT_LEFT] = kl_dptr_at(v, all);
    KL_TRY(kl_batch_close(&b, err));
    KL_TRY(ex->vt.batch_prepare(ex, &b, err));
    *flops = 0;
    for (int i = 0; i < RUNS && st == KL_OK; i++) {
        const double t0 = kl_prof_seconds();
        for (int k = 0; k < APPLIED && st == KL_OK; k++)
            st = ex->vt.batch_apply(ex, &b, v, kl_dptr_at(v, 2 * all), err);
        if (st == KL_OK) st = ex->vt.download(ex, &last, v, 1, err);
        const double rate = (double)APPLIED * b.flop / (kl_prof_seconds() - t0);
        if (rate > *flops) *flops = rate;
    }
    ex->vt.batch_release(ex, &b);
out:
    kl_batch_clear(&b);
    ex->vt.release(ex, &v);
    return st;
}

static int descending(const void *pa, const void *pb)
{
    const int a = *(const int *)pa, b = *(const int *)pb;
    return (a < b) - (a > b);
}

/* Of a truncation at the middle bond: dim[nsector] of the eigenproblems, descending; returns the flops of
   what products do. */
static double truncation(const kl_plan_middle *mid, int there, int *dim)
{
    double flop = 0;
    for (int k = 0; k < mid->nsector; k++) {
        const kl_plan_sector *const s = &mid->sector[k];
        const kl_sector_case here = {.way = KL_TRUNCATION_AUTO,
                                     .rows = s->rows,
                                     .wide = mid->nstate * s->cols,
                                     .known = s->kept,
                                     .growth = 1,
                                     .there = there,
                                     .narrow = mid->narrow};
        const kl_sector_way way = kl_sector_choose(&here);
        dim[k] = way.width;
        flop += (way.products ? 10.0 * way.width : 2.0 * s->rows) * s->rows * here.wide;
    }
    qsort(dim, (size_t)mid->nsector, sizeof *dim, descending);
    return flop;
}

/* Of a sweep. */
static double growth_flop(const kl_plan_middle *mid)
{
    return mid->nlike * (1 + EXPANSION * mid->narrow) * mid->growth_flop;
}

void kl_plan_host_of(const kl_plan_middle *mid, const kl_plan_host *r, int nthread, double seconds[KL_NPLAN])
{
    const double threads = ONE_THREAD + (1 - ONE_THREAD) / nthread,
                 vectors = VECTOR_PASSES * r->pass * (double)(mid->dim * mid->nstate);
    double cubes = 0;
    for (int k = 0; k < mid->nsector; k++) cubes += pow(r->width[k], 3);
    seconds[KL_PLAN_PRODUCTS] =
        threads * mid->nlike * mid->nproduct * (mid->flop / r->rate + vectors) + mid->nstep * HOST_STEP;
    seconds[KL_PLAN_TRUNCATION] = threads * mid->nlike * (cubes * r->eigen + r->flop / r->rate);
    seconds[KL_PLAN_GROWTH] = threads * growth_flop(mid) / r->rate;
}

double kl_plan_settled(const double seconds[KL_NPLAN])
{
    double sum = 0;
    for (int k = 0; k < KL_NPLAN; k++) sum += seconds[k];
    return sum - ((1 - SETTLING) * seconds[KL_PLAN_TRUNCATION] +
                  EXPANSION / (1 + EXPANSION) * seconds[KL_PLAN_GROWTH]) /
                     2;
}

static kl_status host_seconds(const kl_exec *ex, const kl_plan_middle *mid, double seconds[KL_NPLAN],
                              double *rate, kl_err *err)
{
    kl_status st = KL_OK;
    int *width = NULL;
    kl_plan_host r;
    KL_TRY(kl_alloc(&width, mid->nsector, KL_MEM_WORK, err));
    r.width = width;
    r.flop = truncation(mid, 0, width);
    KL_TRY(measure_rate(mid->mean_rows, &r.rate, err));
    KL_TRY(measure_eigen(mid->nsector > 0 ? width[0] : 1, &r.eigen, err));
    KL_TRY(measure_pass(mid->dim, &r.pass, err));
    kl_plan_host_of(mid, &r, ex->nthread, seconds);
    *rate = r.rate;
out:
    kl_free(&width);
    return st;
}

kl_status kl_plan_seconds(kl_exec *ex, const kl_plan_middle *mid, double seconds[KL_NPLAN], double *rate,
                          kl_err *err)
{
    kl_status st = KL_OK;
    int *dim = NULL;
    seconds[KL_PLAN_BUS] = 0;
    seconds[KL_PLAN_LISTS] = mid->nstep * mid->list_seconds;
    if (ex->space == KL_SPACE_HOST || !ex->eigen.ntime) return host_seconds(ex, mid, seconds, rate, err);
    KL_TRY(kl_alloc(&dim, mid->nsector, KL_MEM_WORK, err));
    const double flop = truncation(mid, 1, dim);
    const kl_eigen_share eigen = kl_eigen_share_best(ex, dim, mid->nsector, 0);
    KL_TRY(measure_device(ex, (int)cbrt(mid->flop / (2.0 * fmax(mid->nrecord, 1))), rate, err));
    seconds[KL_PLAN_PRODUCTS] = mid->nlike * mid->nproduct * mid->flop / *rate;
    seconds[KL_PLAN_GROWTH] = growth_flop(mid) / *rate;
    seconds[KL_PLAN_TRUNCATION] = mid->nlike * (fmax(eigen.here_seconds, eigen.there_seconds) + flop / *rate);
    seconds[KL_PLAN_LISTS] += mid->nstep * DEVICE_STEP;
out:
    kl_free(&dim);
    return st;
}
