/* Matrices shared between an executor and the threads of this machine: see eigshare.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/eigshare.h"
#include <math.h>

/* Between sizes that were measured the time is a power of the size; beyond them n^3 by LAPACK, and n^2 by the
   executor, whose time is that of memory. */
static double eigen_seconds(const kl_exec *ex, int n, int there)
{
    const kl_eigen_time *const t = ex->eigen.time;
    int i = 0;
    while (i < ex->eigen.ntime && t[i].n < n) i++;
    const kl_eigen_time *const above = &t[i < ex->eigen.ntime ? i : i - 1];
    const kl_eigen_time *const below = &t[i > 0 ? i - 1 : 0];
    const double a = there ? below->there : below->here;
    const double b = there ? above->there : above->here;
    if (below->n == above->n) return a * pow((double)n / below->n, there ? n < below->n ? 0 : 2 : 3);
    return a * pow(b / a, log((double)n / below->n) / log((double)above->n / below->n));
}

enum { DRIVERS = 2 }; /* threads that the executor wants for itself while it works */

int kl_eigen_threads(const kl_exec *ex)
{
    return ex->nthread > 2 * DRIVERS ? ex->nthread - DRIVERS : ex->nthread;
}

kl_eigen_share kl_eigen_share_best(const kl_exec *ex, const int *dim, int n, int whole)
{
    /* of LAPACK's time, the part behind tridiagonal matrices, whoever made them: all threads share it */
    const double vectors = whole ? 0 : 0.25;
    const int reduces = !ex->vt.eigen;
    kl_eigen_share best = {0};
    int most = 0;
    double rest = 0, there = 0, moved = 0, least = INFINITY;
    if (!ex->vt.eigen && !ex->vt.tridiagonal) return best;
    while (most < n && dim[most] >= ex->eigen.least) most++;
    if (ex->eigen.ntime == 0) {
        best.there = most;
        return best;
    }
    for (int i = 0; i < n; i++) rest += eigen_seconds(ex, dim[i], 0);
    for (int k = 0; k <= most; k++) {
        const double one = k < n ? eigen_seconds(ex, dim[k], 0) : 0;
        const int nthread = k > 0 ? kl_eigen_threads(ex) : ex->nthread;
        const double here = (1 - vectors) * fmax(one, rest / nthread);
        const double behind = vectors * (rest + (reduces ? moved : 0)) / ex->nthread;
        const double time = fmax(here, there) + behind;
        if (k == 0) best.alone_seconds = time;
        if (time < least) {
            least = time;
            best.there = k;
            best.here_seconds = here + behind;
            best.there_seconds = there + behind;
        }
        if (k == n) break;
        rest -= one;
        moved += one;
        if (!reduces) there += eigen_seconds(ex, dim[k], 1);
        /* each step reads and writes what is left of the matrix */
        else
            there += (k == 0 ? ex->eigen.reduce_row * dim[0] : 0) +
                     ex->eigen.reduce_byte * 16.0 / 3.0 * pow(dim[k], 3);
    }
    return best;
}

/* Of what opening takes: with so much saved it begins, so that runs that are soon over do not wait for it. */
#define SOON 0.1

int kl_eigen_share_next(kl_exec *ex, const int *dim, int n, int whole)
{
    const kl_eigen_share share = kl_eigen_share_best(ex, dim, n, whole);
    if (share.there == 0 || ex->eigen.saved >= ex->eigen.opening) return share.there;
    ex->eigen.saved += share.alone_seconds - fmax(share.here_seconds, share.there_seconds);
    if (ex->vt.eigen_soon && ex->eigen.saved >= SOON * ex->eigen.opening) ex->vt.eigen_soon(ex);
    return ex->eigen.saved >= ex->eigen.opening ? share.there : 0;
}
