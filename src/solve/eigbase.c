/* What the eigensolvers do between steps.
   SPDX-License-Identifier: Apache-2.0 */
#include "solve/eigbase.h"
#include "base/mem.h"
#include <math.h>

/* ORDER KL_LINE */
const char *const kl_line_name[KL_NLINE] = {"2: W = H V", "3: V^T w",    "4: small eigenproblem",
                                            "5: V y",     "6: residual", "10: correction",
                                            "12: V^T r",  "13: r - V s"};

void kl_eig_watch(const kl_eig_opts *opts, kl_eig_stats *stats, double energy, double residual)
{
    if (opts->step && !stats->stopped)
        stats->stopped = opts->step(opts->self, stats->napply, energy, residual) != 0;
}

kl_status kl_eig_project(const kl_eig_stats *stats, int n, const double *coef, int k, int64_t limit,
                         double *b, kl_err *err)
{
    for (int i = 0; i < n; i++) {
        if (!isfinite(coef[i]))
            return kl_fail(err, KL_ENOCONV,
                           "product %d with H gave %s in the projected matrix; H or the vector holds values "
                           "that are not finite",
                           stats->napply, kl_said(coef[i]).text);
        b[i + k * limit] = b[k + i * limit] = coef[i];
    }
    return KL_OK;
}

int kl_eig_due(const kl_eig_opts *opts, const kl_eig_stats *stats)
{
    const kl_keeper *const k = opts->keeper;
    return k && (stats->stopped || k->due(k->self));
}

void kl_eig_stats_list(kl_keep_list *l, kl_eig_stats *stats)
{
    kl_keep_int(l, &stats->napply);
    kl_keep_int(l, &stats->nrestart);
    kl_keep_int(l, &stats->converged);
    kl_keep_int(l, &stats->stagnated);
}

kl_status kl_eig_refuse(const kl_keep *k, const char *solver, int nroot, kl_err *err)
{
    return kl_fail(
        err, KL_EINPUT,
        "%s: the %lld numbers and %d vectors kept are not those of a run on %d vectors; go on with the "
        "same solver and number of states",
        solver, (long long)k->nnumber, k->nvector, nroot);
}

kl_status kl_eig_below(const kl_linop *h, double *below, kl_err *err)
{
    enum { PART = 1 << 16 };
    kl_status st = KL_OK;
    double *part = NULL;
    *below = INFINITY;
    if (h->diagonal.addr == 0) return KL_OK;
    KL_TRY(kl_alloc(&part, h->n < PART ? h->n : PART, KL_MEM_WORK, err));
    for (int64_t at = 0; at < h->n; at += PART) {
        const int64_t k = h->n - at < PART ? h->n - at : PART;
        KL_TRY(h->ex->vt.download(h->ex, part, kl_dptr_at(h->diagonal, at), k, err));
        for (int64_t i = 0; i < k; i++) *below = fmin(*below, part[i]);
    }
    *below = kl_ranks_least(h->ex, *below);
out:
    kl_free(&part);
    return st;
}
