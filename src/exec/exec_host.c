/* The host executor: the complete table on ordinary memory. Vector operations are memory-bound, so each reads
   its vectors once, a few columns at a time, in pieces that stay in cache; sums are taken over a partition
   that depends on the length alone, so the bits of a result depend neither on timing nor on the number of
   threads. Block products are batch_host.c's.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/exec.h"
#include "exec/baselines.h"
#include "base/clones.h"
#include "exec/batch_host.h"
#include "exec/fuse_host.h"
#include "exec/kron_host.h"
#include "exec/kron_kernel.h"
#include "exec/piece_host.h"
#include "exec/rows_host.h"
#include "exec/spmv_host.h"
#include "base/blas.h"
#include "base/dense.h"
#include "base/mem.h"
#include "base/prof.h"
#include "base/par.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    PARALLEL = 50000, /* doubles read and written below which threads cost more than they bring */
    PIECE = 1024, /* rows worked on at a time: x and y stay in the first cache while V streams by */
    MAX_CHUNK = 256, /* parts of a sum */
    MIN_CHUNK_ROWS = 4 * PIECE,
    GROUP = 16, /* columns of a sum taken in one pass over x */
};

static double *at(kl_dptr p) { return (double *)p.addr; }

/* ---- inner loops on one piece ---- */

KL_CLONED static void add1(int64_t n, double a, const double *x, double *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] += a * x[i];
}

KL_CLONED static void set1(int64_t n, double a, const double *x, double *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = a * x[i];
}

KL_CLONED static void axpby1(int64_t n, double a, const double *x, double b, double *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = a * x[i] + b * y[i];
}

KL_CLONED static void divide1(int64_t n, const double *d, double theta, double floor, const double *r,
                              double *t)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const double gap = d[i] - theta;
        const double size = fabs(gap) < floor ? floor : fabs(gap);
        t[i] = r[i] / copysign(size, gap);
    }
}

/* ---- partition ---- */

/* n rows as nchunk chunks of *rows, the last one shorter: a function of n alone. */
static int chunks(int64_t n, int64_t *rows)
{
    int64_t size = (n + MAX_CHUNK - 1) / MAX_CHUNK;
    if (size < MIN_CHUNK_ROWS) size = MIN_CHUNK_ROWS;
    size = (size + PIECE - 1) / PIECE * PIECE;
    *rows = size;
    return (int)((n + size - 1) / size);
}

/* Of a loop over n rows of so many vectors. */
static int threads_for(const kl_exec *ex, int64_t n, int nvec)
{
    return n * nvec < PARALLEL || kl_par_is_inside() ? 1 : ex->nthread;
}

/* A loop over vectors: rows [from, to) are chunk number `chunk`. */
typedef void chunk_fn(const void *self, int chunk, int64_t from, int64_t to);

typedef struct chunk_job {
    chunk_fn *fn;
    const void *self;
    int64_t n, rows;
} chunk_job;

static void chunk_task(void *self, int64_t chunk, int thread)
{
    const chunk_job *const j = self;
    const int64_t from = chunk * j->rows;
    (void)thread;
    j->fn(j->self, (int)chunk, from, from + j->rows < j->n ? from + j->rows : j->n);
}

/* nvec: vectors that are read or written. Returns how many chunks there are. */
static int for_chunks(const kl_exec *ex, int64_t n, int nvec, chunk_fn *fn, const void *self)
{
    chunk_job job = {fn, self, n, 0};
    const int nchunk = chunks(n, &job.rows);
    kl_par_split(threads_for(ex, n, nvec), nchunk, chunk_task, &job);
    return nchunk;
}

/* What the loops of the table need, by the names of kl_exec's functions. */
typedef struct operands {
    double a, b;
    const double *x, *v, *c;
    double *y, (*sum)[GROUP];
    int64_t ldv;
    int nvec;
} operands;

/* ---- the table ---- */

static kl_status host_alloc(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err)
{
    kl_status st = KL_OK;
    double *p = NULL;
    (void)ex;
    *out = (kl_dptr){0};
    /* realloc from nothing: no pass over memory that is written next anyway */
    KL_TRY(kl_realloc(&p, n, KL_MEM_VECTOR, err));
    out->addr = (uintptr_t)p;
out:
    return st;
}

static void host_release(kl_exec *ex, kl_dptr *p)
{
    double *memory = at(*p);
    (void)ex;
    p->addr = 0;
    kl_free(&memory);
}

static kl_status host_upload(kl_exec *ex, kl_dptr dst, const double *src, int64_t n, kl_err *err)
{
    (void)ex;
    (void)err;
    if (n > 0) memcpy(at(dst), src, (size_t)n * sizeof(double));
    return KL_OK;
}

static kl_status host_download(kl_exec *ex, double *dst, kl_dptr src, int64_t n, kl_err *err)
{
    (void)ex;
    (void)err;
    if (n > 0) memcpy(dst, at(src), (size_t)n * sizeof(double));
    return KL_OK;
}

static void copy_chunk(const void *self, int chunk, int64_t from, int64_t to)
{
    const operands *const o = self;
    (void)chunk;
    memmove(o->y + from, o->x + from, (size_t)(to - from) * sizeof(double));
}

static void host_copy(kl_exec *ex, int64_t n, kl_dptr src, kl_dptr dst)
{
    for_chunks(ex, n, 2, copy_chunk, &(operands){.x = at(src), .y = at(dst)});
}

static void fill_chunk(const void *self, int chunk, int64_t from, int64_t to)
{
    const operands *const o = self;
    (void)chunk;
    for (int64_t i = from; i < to; i++) o->y[i] = o->a;
}

static void host_fill(kl_exec *ex, int64_t n, double a, kl_dptr yp)
{
    for_chunks(ex, n, 1, fill_chunk, &(operands){.a = a, .y = at(yp)});
}

static void axpby_chunk(const void *self, int chunk, int64_t from, int64_t to)
{
    const operands *const o = self;
    (void)chunk;
    if (o->b == 0.0) set1(to - from, o->a, o->x + from, o->y + from);
    else if (o->b == 1.0) add1(to - from, o->a, o->x + from, o->y + from);
    else axpby1(to - from, o->a, o->x + from, o->b, o->y + from);
}

static void host_axpby(kl_exec *ex, int64_t n, double a, kl_dptr xp, double b, kl_dptr yp)
{
    for_chunks(ex, n, 3, axpby_chunk, &(operands){.a = a, .b = b, .x = at(xp), .y = at(yp)});
}

/* sum[ncol] += V[from..to) . x[from..to), ncol <= GROUP. */
static void dots_chunk(int64_t from, int64_t to, int ncol, const double *v, int64_t ldv, const double *x,
                       double *sum)
{
    for (int64_t row = from; row < to; row += PIECE) {
        const int64_t n = to - row < PIECE ? to - row : PIECE;
        kl_piece_dots(n, ncol, v + row, ldv, x + row, sum);
    }
}

static void dots_task(const void *self, int chunk, int64_t from, int64_t to)
{
    const operands *const o = self;
    for (int j = 0; j < o->nvec; j++) o->sum[chunk][j] = 0.0;
    dots_chunk(from, to, o->nvec, o->v, o->ldv, o->x, o->sum[chunk]);
}

static void host_dots(kl_exec *ex, int64_t n, int nvec, kl_dptr vp, int64_t ldv, kl_dptr xp, double *out)
{
    double sum[MAX_CHUNK][GROUP];
    for (int first = 0; first < nvec; first += GROUP) {
        const int ncol = nvec - first < GROUP ? nvec - first : GROUP;
        const int nchunk = for_chunks(
            ex, n, ncol + 1, dots_task,
            &(operands){.x = at(xp), .v = at(vp) + first * ldv, .ldv = ldv, .nvec = ncol, .sum = sum});
        for (int j = 0; j < ncol; j++) {
            double all = 0.0;
            for (int chunk = 0; chunk < nchunk; chunk++) all += sum[chunk][j];
            out[first + j] = all;
        }
    }
}

static void combine_chunk(int64_t from, int64_t to, int nvec, const double *v, int64_t ldv, const double *c,
                          double b, double *y)
{
    for (int64_t row = from; row < to; row += PIECE) {
        const int64_t n = to - row < PIECE ? to - row : PIECE;
        kl_piece_combine(n, nvec, c, v + row, ldv, b, y + row);
    }
}

static void combine_task(const void *self, int chunk, int64_t from, int64_t to)
{
    const operands *const o = self;
    (void)chunk;
    combine_chunk(from, to, o->nvec, o->v, o->ldv, o->c, o->b, o->y);
}

static void host_combine(kl_exec *ex, int64_t n, int nvec, kl_dptr vp, int64_t ldv, const double *c, double b,
                         kl_dptr yp)
{
    for_chunks(ex, n, nvec + 1, combine_task,
               &(operands){.b = b, .v = at(vp), .c = c, .y = at(yp), .ldv = ldv, .nvec = nvec});
}

/* A division takes as long as several vectors. d: o->v; theta: o->a; floor: o->b. */
static void precondition_chunk(const void *self, int chunk, int64_t from, int64_t to)
{
    const operands *const o = self;
    (void)chunk;
    divide1(to - from, o->v + from, o->a, o->b, o->x + from, o->y + from);
}

static void host_precondition(kl_exec *ex, int64_t n, kl_dptr diag, double theta, double floor, kl_dptr rp,
                              kl_dptr tp)
{
    for_chunks(ex, n, 8, precondition_chunk,
               &(operands){.a = theta, .b = floor, .x = at(rp), .v = at(diag), .y = at(tp)});
}

/* ---- a step of Davidson's method ---- */

typedef struct step_job {
    const kl_ritz *ritz;
    const kl_correction *correct;
    double (*sum)[2]; /* [chunks] */
} step_job;

static void ritz_task(const void *self, int chunk, int64_t from, int64_t to)
{
    const step_job *const job = self;
    const kl_ritz *const z = job->ritz;
    double *const x = at(z->x), *const r = at(z->r);
    double sum = 0.0;
    for (int64_t row = from; row < to; row += PIECE) {
        const int64_t n = to - row < PIECE ? to - row : PIECE;
        kl_piece_combine(n, z->k, z->y, at(z->v) + row, z->ld, 0.0, x + row);
        kl_piece_combine(n, z->k, z->y, at(z->w) + row, z->ld, 0.0, r + row);
        sum += kl_piece_residual(n, z->theta, x + row, r + row);
    }
    job->sum[chunk][0] = sum;
}

static void host_ritz(kl_exec *ex, int64_t n, const kl_ritz *z, double *square)
{
    double sum[MAX_CHUNK][2];
    const int nchunk = for_chunks(ex, n, 2 * z->k + 2, ritz_task, &(step_job){.ritz = z, .sum = sum});
    *square = 0.0;
    for (int c = 0; c < nchunk; c++) *square += sum[c][0];
}

static void correct_dots_task(const void *self, int chunk, int64_t from, int64_t to)
{
    const step_job *const job = self;
    const kl_correction *const c = job->correct;
    job->sum[chunk][0] = job->sum[chunk][1] = 0.0;
    kl_piece_correct_dots(to - from, at(c->diag) + from, c->theta, c->floor, at(c->r) + from, at(c->x) + from,
                          job->sum[chunk]);
}

static void host_correct_dots(kl_exec *ex, int64_t n, const kl_correction *c, double *dots)
{
    double sum[MAX_CHUNK][2];
    const int nchunk = for_chunks(ex, n, 8, correct_dots_task, &(step_job){.correct = c, .sum = sum});
    dots[0] = dots[1] = 0.0;
    for (int k = 0; k < nchunk; k++) {
        dots[0] += sum[k][0];
        dots[1] += sum[k][1];
    }
}

static void correct_task(const void *self, int chunk, int64_t from, int64_t to)
{
    const kl_correction *const c = ((const step_job *)self)->correct;
    (void)chunk;
    kl_piece_correct(to - from, at(c->diag) + from, c->theta, c->floor, at(c->r) + from, c->e,
                     at(c->x) + from, at(c->t) + from);
}

static void host_correct(kl_exec *ex, int64_t n, const kl_correction *c)
{
    for_chunks(ex, n, 8, correct_task, &(step_job){.correct = c});
}

static void host_batch_explain(kl_exec *ex, const kl_batch *b, kl_batch_plan *plan)
{
    (void)ex;
    (void)b;
    *plan = (kl_batch_plan){.kernel = "host"};
}

static kl_status host_trial(kl_exec *ex, kl_trial *t, kl_err *err)
{
    const int n = (int)t->n;
    if ((t->way != KL_WAY_OWN && t->way != KL_WAY_LIBRARY && t->way != KL_WAY_GEMM) ||
        (t->way == KL_WAY_GEMM && t->op != KL_OP_DOTS) ||
        (t->way == KL_WAY_LIBRARY && t->op != KL_OP_DOTS && t->op != KL_OP_COMBINE))
        return kl_fail(err, KL_EABSENT, "the host has no way \"%s\" to do %s", kl_way_name[t->way],
                       kl_op_name[t->op]);
    if (t->way != KL_WAY_OWN && (t->n > INT32_MAX || t->ldv > INT32_MAX))
        return kl_fail(err, KL_EABSENT, "BLAS counts rows to %d; asked for %lld", INT32_MAX,
                       (long long)(t->n > t->ldv ? t->n : t->ldv));
    const int64_t start = kl_prof_clock();
    for (int r = 0; r < t->repeat; r++) {
        if (t->way == KL_WAY_GEMM)
            kl_dgemm('T', 'N', t->nvec, 1, n, 1.0, at(t->v), (int)t->ldv, at(t->x), n, 0.0, t->out, t->nvec);
        else if (t->way == KL_WAY_LIBRARY && t->op == KL_OP_DOTS)
            kl_dgemv('T', n, t->nvec, 1.0, at(t->v), (int)t->ldv, at(t->x), 0.0, t->out);
        else if (t->way == KL_WAY_LIBRARY)
            kl_dgemv('N', n, t->nvec, 1.0, at(t->v), (int)t->ldv, t->c, 0.0, at(t->y));
        else if (t->op == KL_OP_DOTS) host_dots(ex, t->n, t->nvec, t->v, t->ldv, t->x, t->out);
        else if (t->op == KL_OP_COMBINE) host_combine(ex, t->n, t->nvec, t->v, t->ldv, t->c, 0.0, t->y);
        else if (t->op == KL_OP_COPY) host_copy(ex, t->n, t->x, t->y);
        else host_axpby(ex, t->n, t->c[0], t->x, 1.0, t->y);
    }
    t->seconds = 1e-9 * (double)(kl_prof_clock() - start) / t->repeat;
    return KL_OK;
}

static const kl_baselines host_baselines = {.trial = host_trial};

static int64_t host_room(kl_exec *ex)
{
    (void)ex;
    return INT64_MAX;
}

static kl_status host_explain(kl_exec *ex, const kl_call *call, kl_choice *c, kl_err *err)
{
    int nthread;
    (void)err;
    switch (call->op) {
    case KL_OP_BATCH: kl_host_batch_choice(ex, call->batch, c); break;
    case KL_OP_KRON:
        c->kernel = "tiles of 8 states";
        snprintf(c->why, sizeof c->why, "%s kernels", kl_kron_choose()->name);
        break;
    case KL_OP_SPMV:
        c->kernel = kl_spformat_name(call->matrix->format);
        snprintf(c->why, sizeof c->why, "as it is stored, %d thread%s", ex->nthread,
                 ex->nthread == 1 ? "" : "s");
        break;
    case KL_OP_SIGMA:
        c->kernel = "small dense products";
        snprintf(c->why, sizeof c->why, "pairs of orbitals by BLAS, strings of one spin by lists");
        break;
    case KL_OP_UPLOAD:
    case KL_OP_DOWNLOAD:
        c->kernel = "copy";
        snprintf(c->why, sizeof c->why, "vectors lie in the host's memory");
        break;
    default:
        c->kernel = "loops";
        nthread = threads_for(ex, call->n, call->nvec + 1);
        snprintf(c->why, sizeof c->why, "%d thread%s (all from %d elements of all vectors on)", nthread,
                 nthread == 1 ? "" : "s", PARALLEL);
    }
    return KL_OK;
}

static void host_close(kl_exec *ex)
{
    (void)ex;
    kl_dense_release();
}

kl_status kl_exec_open_host(int nthread, kl_exec **out, kl_err *err)
{
    kl_status st = KL_OK;
    *out = NULL;
    if (nthread < 0)
        return kl_fail(err, KL_EINPUT,
                       "%d threads; 0 (as many as cores, or OMP_NUM_THREADS) or more are allowed", nthread);
    kl_blas_init();
    KL_TRY(kl_alloc(out, 1, KL_MEM_MISC, err));
    (*out)->name = "host";
    (*out)->space = KL_SPACE_HOST;
    (*out)->nthread = nthread > 0 ? nthread : kl_par_threads(kl_par_cpus());
    snprintf((*out)->where, sizeof(*out)->where, "%d thread%s of this machine", (*out)->nthread,
             (*out)->nthread == 1 ? "" : "s");
    (*out)->baselines = &host_baselines;
    (*out)->vt = (kl_vtable){
        .alloc = host_alloc,
        .release = host_release,
        .upload = host_upload,
        .download = host_download,
        .copy = host_copy,
        .fill = host_fill,
        .axpby = host_axpby,
        .dots = host_dots,
        .combine = host_combine,
        .precondition = host_precondition,
        .ritz = host_ritz,
        .correct_dots = host_correct_dots,
        .correct = host_correct,
        .batch_prepare = kl_host_batch_prepare,
        .batch_apply = kl_host_batch_apply,
        .batch_apply_many = kl_host_batch_apply_many,
        .batch_release = kl_host_batch_release,
        .fuse = kl_host_fuse,
        .kron_prepare = kl_host_kron_prepare,
        .kron_apply = kl_host_kron_apply,
        .kron_release = kl_host_kron_release,
        .kron_left = kl_host_kron_left,
        .kron_beyond = kl_host_kron_beyond,
        .batch_explain = host_batch_explain,
        .room = host_room,
        .explain = host_explain,
        .spmv_prepare = kl_host_spmv_prepare,
        .spmv_apply = kl_host_spmv_apply,
        .spmv_release = kl_host_spmv_release,
        .rows_take = kl_host_rows_take,
        .rows_add = kl_host_rows_add,
        .close = host_close,
    };
out:
    return st;
}
