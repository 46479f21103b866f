/* Many inverse Cholesky factors: see roots.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/roots.h"
#include "base/gramfactor.h"
#include "base/mem.h"
#include "base/par.h"
#include <math.h>

typedef struct job {
    const kl_roots *r;
    double *host;
    double *work; /* of each thread */
    int64_t nwork;
} job;

static void factor(const job *j, int i, int thread, int nthread)
{
    kl_gram_found found;
    if (j->r->n[i] == 0) return;
    kl_gram_factor(nthread, j->r->n[i], j->host + j->r->off[i], NULL, 0, j->work + thread * j->nwork, &found);
    j->r->good[i] = found.nbad == 0 && found.ndead == 0;
}

static void task(void *self, int64_t i, int thread) { factor(self, (int)i, thread, 1); }

static kl_status find_here(kl_exec *ex, const kl_roots *r, kl_err *err)
{
    enum { WIDE = 256 }; /* rows from which all threads share a matrix */
    kl_status st = KL_OK;
    job j = {.r = r};
    int64_t widest = 0;
    for (int i = 0; i < r->count; i++) widest = r->n[i] > widest ? r->n[i] : widest;
    j.nwork = 2 * widest * widest + 4 * widest;
    KL_TRY(kl_realloc(&j.host, r->length, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&j.work, j.nwork * ex->nthread, KL_MEM_WORK, err));
    KL_TRY(ex->vt.download(ex, j.host, r->a, r->length, err));
    if (widest < WIDE) kl_par_for(ex->nthread, r->count, task, &j);
    for (int i = 0; widest >= WIDE && i < r->count; i++) factor(&j, i, 0, ex->nthread);
    KL_TRY(ex->vt.upload(ex, r->t, j.host, r->length, err));
out:
    kl_free(&j.host);
    kl_free(&j.work);
    return st;
}

/* Whether the executor has them. Its library takes up to a second to load where no run has read it from the
   disk before: a thread begins with the first matrix, and the first ones are factorized here. */
static int there(kl_exec *ex, const kl_roots *r)
{
    static const double early = 2e9; /* rows cubed: 0.1 s of one thread */
    if (!ex->vt.roots) return 0;
    if (ex->eigen.opening == 0 || ex->eigen.factored >= early) return 1;
    if (ex->vt.eigen_soon) ex->vt.eigen_soon(ex);
    for (int i = 0; i < r->count; i++) ex->eigen.factored += pow(r->n[i], 3);
    return ex->eigen.factored >= early;
}

kl_status kl_roots_find(kl_exec *ex, const kl_roots *r, kl_err *err)
{
    for (int i = 0; i < r->count; i++) r->good[i] = 1;
    if (there(ex, r)) {
        const kl_status st = ex->vt.roots(ex, r->count, r->n, r->off, r->a, r->t, r->good, err);
        if (st != KL_EABSENT) return st;
    }
    return find_here(ex, r, err);
}
