/* Triangles of Gram matrices: see gramfactor.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/gramfactor.h"
#include "base/clones.h"
#include "base/dense.h"
#include "base/gemm.h"
#include <math.h>
#include <string.h>

enum {
    LEAF = 32,  /* rows that plain loops take */
    STAGES = 3, /* of Gram matrices: 1e-9 each */
};
#define STAGE 1e-9
#define NOISE 1e-22 /* of the largest value: what the vectors of one stage leave in the next */

/* The matrices of one factorization: all have leading dimension ld. */
typedef struct factor {
    kl_gemm_fn *gemm;
    int ld;
    double *spare; /* as large as the matrix */
    kl_gram_found *found;
} factor;

/* a: the lower triangle becomes L of L L^T; m: its inverse, lower, zeros above. Columns behind a bad one
   leave it alone: it gets 1 on the diagonal, 0 below, and 1 in alone[n]. */
KL_CLONED static void leaf(int n, double *a, double *m, int ld, double *alone, kl_gram_found *found)
{
    for (int j = 0; j < n; j++) {
        double *const col = a + (int64_t)j * ld;
        const double d = col[j];
        alone[j] = !(d >= KL_GRAM_RESOLVED);
        if (!(d >= KL_GRAM_RESOLVED)) {
            found->nbad++;
            col[j] = 1;
            for (int i = j + 1; i < n; i++) col[i] = 0;
            continue;
        }
        if (d < found->least) found->least = d;
        const double root = sqrt(d), inverse = 1 / root;
        col[j] = root;
        for (int i = j + 1; i < n; i++) col[i] *= inverse;
        for (int k = j + 1; k < n; k++) {
            double *const to = a + (int64_t)k * ld;
            const double f = col[k];
            for (int i = k; i < n; i++) to[i] -= f * col[i];
        }
    }
    for (int j = 0; j < n; j++) {
        double *const x = m + (int64_t)j * ld;
        for (int i = 0; i < n; i++) x[i] = i == j;
        for (int k = j; k < n; k++) {
            const double *const col = a + (int64_t)k * ld;
            const double f = x[k] /= col[k];
            for (int i = k + 1; i < n; i++) x[i] -= f * col[i];
        }
    }
}

/* Halves, so that nearly all is products. */
static void halve(const factor *f, int n, double *a, double *m, double *alone)
{
    const int ld = f->ld;
    if (n <= LEAF) {
        leaf(n, a, m, ld, alone, f->found);
        return;
    }
    const int h = (n / 2 + 7) / 8 * 8, rest = n - h;
    double *const below = a + h, *const corner = below + (int64_t)h * ld, *const mbelow = m + h;
    halve(f, h, a, m, alone);
    f->gemm(0, 1, rest, h, h, 1.0, below, ld, m, ld, 0.0, f->spare, rest);
    for (int j = 0; j < h; j++) {
        double *const to = below + (int64_t)j * ld;
        const double *const from = f->spare + (int64_t)j * rest;
        for (int i = 0; i < rest; i++) to[i] = alone[j] > 0 ? 0 : from[i];
    }
    f->gemm(0, 1, rest, rest, h, -1.0, below, ld, below, ld, 1.0, corner, ld);
    double *const mcorner = mbelow + (int64_t)h * ld;
    halve(f, rest, corner, mcorner, alone + h);
    f->gemm(0, 0, rest, h, h, -1.0, below, ld, m, ld, 0.0, f->spare, rest);
    f->gemm(0, 0, rest, h, rest, 1.0, mcorner, ld, f->spare, rest, 0.0, mbelow, ld);
    for (int j = h; j < n; j++) memset(m + (int64_t)j * ld, 0, (size_t)h * sizeof *m);
}

void kl_gram_factor(int n, double *g, double *r, int drop, double *work, kl_gram_found *found)
{
    double *const a = work, *const m = a + (int64_t)n * n, *const norm = m + (int64_t)n * n,
                  *const alone = norm + n;
    *found = (kl_gram_found){.least = 1};
    memset(a, 0, (size_t)n * (size_t)n * sizeof *a);
    for (int j = 0; j < n; j++) {
        norm[j] = g[j + (int64_t)j * n] > 0 ? sqrt(g[j + (int64_t)j * n]) : 0;
        found->ndead += norm[j] == 0;
    }
    for (int j = 0; j < n;
         j++) /* columns of norm 1: those of a wavefunction differ by all that a double holds */
        for (int i = j; i < n; i++)
            a[i + (int64_t)j * n] =
                norm[i] > 0 && norm[j] > 0 ? g[i + (int64_t)j * n] / norm[i] / norm[j] : i == j;
    const factor f = {kl_gemm_choose(NULL), n, g, found};
    halve(&f, n, a, m, alone);
    for (int j = 0; j < n; j++) {
        for (int i = 0; i <= j; i++) {
            const double t = norm[i] > 0 && norm[j] > 0 ? m[j + (int64_t)i * n] / norm[i] : 0;
            g[i + (int64_t)j * n] = drop && alone[j] > 0 ? 0 : t;
        }
        for (int i = j + 1; i < n; i++) g[i + (int64_t)j * n] = 0;
    }
    for (int j = 0; r && j < n; j++) {
        for (int i = 0; i <= j; i++)
            r[i + (int64_t)j * n] = drop && alone[i] > 0 ? 0 : a[j + (int64_t)i * n] * norm[j];
        for (int i = j + 1; i < n; i++) r[i + (int64_t)j * n] = 0;
    }
}

kl_status kl_gram_graded(int n, const double *r, double *w, double *z, double *work, kl_err *err)
{
    kl_status st = KL_OK;
    kl_gemm_fn *const gemm = kl_gemm_choose(NULL);
    double most = 0;
    double *const b = work, *const g = b + (int64_t)n * n, *const turned = g + (int64_t)n * n;
    if (n == 0) return KL_OK;
    gemm(1, 0, n, n, n, 1.0, r, n, r, n, 0.0, z, n);
    KL_TRY(kl_dense_eig(n, z, n, w, err));
    most = w[n - 1];
    for (int stage = 1, count = n; stage < STAGES; stage++) {
        const double least = STAGE * w[count - 1];
        int small = 0;
        while (small < count && w[small] < least) small++;
        if (small == 0) break;
        count = small;
        gemm(0, 0, n, count, n, 1.0, r, n, z, n, 0.0, b, n);
        gemm(1, 0, count, count, n, 1.0, b, n, b, n, 0.0, g, count);
        KL_TRY(kl_dense_eig(count, g, count, w, err));
        gemm(0, 0, n, count, count, 1.0, z, n, g, count, 0.0, turned, n);
        memcpy(z, turned, (size_t)n * (size_t)count * sizeof *z);
    }
    for (int i = 0; i < n; i++) w[i] = w[i] > NOISE * most ? w[i] : 0;
out:
    return st;
}
