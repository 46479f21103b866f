/* The host executor's fused vector step: any number of linear combinations and inner products in one pass
   over memory. A piece of every vector is read into the first cache, all sums over it are taken, and then all
   outputs are written; sums are over a partition that depends on the length alone.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/fuse_host.h"
#include "base/clones.h"
#include "base/par.h"

#include <string.h>

enum {
    /* rows at a time: 24 vectors of it fill half of an L1 cache of 96 KiB, 8 of them one of 32 */
    PIECE = 256,
    PARALLEL = 50000,
    MAX_CHUNK = 256,
    MIN_CHUNK_ROWS = 16 * PIECE,
};

KL_CLONED static double dot(int64_t n, const double *a, const double *b)
{
    double s = 0.0;
#pragma omp simd reduction(+ : s)
    for (int64_t i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}

KL_CLONED static void set3(int64_t n, double p, const double *a, double q, const double *b, double r,
                           const double *c, double *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = p * a[i] + (q * b[i] + r * c[i]);
}

KL_CLONED static void add3(int64_t n, double p, const double *a, double q, const double *b, double r,
                           const double *c, double *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] += p * a[i] + (q * b[i] + r * c[i]);
}

/* y = sum_j c[j] in_j over a piece; vectors with c = 0 are not read. */
static void combine(int64_t n, int nin, const double *const *in, const double *c, double *y)
{
    int used[KL_FUSE_MOST], nused = 0;
    for (int j = 0; j < nin; j++)
        if (c[j] != 0.0) used[nused++] = j;
    if (nused == 0) memset(y, 0, (size_t)n * sizeof(double));
    for (int k = 0; k < nused; k += 3) {
        const int a = used[k], b = used[k + 1 < nused ? k + 1 : k], d = used[k + 2 < nused ? k + 2 : k];
        const double q = k + 1 < nused ? c[b] : 0.0, r = k + 2 < nused ? c[d] : 0.0;
        if (k == 0) set3(n, c[a], in[a], q, in[b], r, in[d], y);
        else add3(n, c[a], in[a], q, in[b], r, in[d], y);
    }
}

static void chunk(const kl_fuse *f, int64_t from, int64_t to, double *sum)
{
    double out[KL_FUSE_MOST_OUT][PIECE] __attribute__((aligned(64)));
    const double *in[KL_FUSE_MOST + KL_FUSE_MOST_OUT];
    for (int p = 0; p < f->npair; p++) sum[p] = 0.0;
    for (int64_t row = from; row < to; row += PIECE) {
        const int64_t n = to - row < PIECE ? to - row : PIECE;
        for (int j = 0; j < f->nin; j++) in[j] = (const double *)f->in[j].addr + row;
        for (int k = 0; k < f->nout; k++) {
            combine(n, f->nin, in, f->c + k * f->nin, out[k]);
            in[f->nin + k] = out[k];
        }
        for (int p = 0; p < f->npair; p++) sum[p] += dot(n, in[f->pair[p][0]], in[f->pair[p][1]]);
        for (int k = 0; k < f->nout; k++)
            memcpy((double *)f->out[k].addr + row, out[k], (size_t)n * sizeof(double));
    }
}

typedef struct fuse_job {
    const kl_fuse *f;
    int64_t n, rows;
    double sum[MAX_CHUNK][KL_FUSE_MOST_PAIR];
} fuse_job;

static void chunk_task(void *self, int64_t c, int thread)
{
    fuse_job *const j = self;
    (void)thread;
    chunk(j->f, c * j->rows, (c + 1) * j->rows < j->n ? (c + 1) * j->rows : j->n, j->sum[c]);
}

void kl_host_fuse(kl_exec *ex, int64_t n, const kl_fuse *f, double *dots)
{
    int64_t rows = (n + MAX_CHUNK - 1) / MAX_CHUNK;
    if (rows < MIN_CHUNK_ROWS) rows = MIN_CHUNK_ROWS;
    rows = (rows + PIECE - 1) / PIECE * PIECE;
    const int nchunk = (int)((n + rows - 1) / rows),
              nthread = n * (f->nin + f->nout) < PARALLEL ? 1 : ex->nthread;
    fuse_job job; /* a quarter of a megabyte, which would be filled with zeros for nothing */
    job.f = f, job.n = n, job.rows = rows;
    kl_par_split(nthread, nchunk, chunk_task, &job);
    for (int p = 0; p < f->npair; p++) {
        dots[p] = 0.0;
        for (int c = 0; c < nchunk; c++) dots[p] += job.sum[c][p];
    }
}
