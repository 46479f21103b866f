/* What the eigensolvers do between steps.
   SPDX-License-Identifier: Apache-2.0 */
#include "solve/eigbase.h"
#include "base/mem.h"
#include <math.h>

/* ORDER KL_LINE */
const char *const kl_line_name[KL_NLINE] = {"2: W = H V", "3: V^T w",    "4: small eigenproblem",
                                            "5: V y",     "6: residual", "10: correction",
                                            "12: V^T r",  "13: r - V s"};

kl_status kl_eig_keep(const kl_eig_opts *opts, const kl_eig_stats *stats, kl_dptr x, int64_t ldx, kl_err *err)
{
    const kl_keeper *const k = opts->keeper;
    if (!k || !(stats->stopped || k->due(k->self))) return KL_OK;
    const double number = opts->before + stats->napply;
    kl_keep out = {.nnumber = 1, .number = &number, .nvector = opts->nroot};
    for (int i = 0; i < opts->nroot; i++) out.vector[i] = kl_dptr_at(x, i * ldx);
    return k->write(k->self, &out, err);
}

kl_status kl_eig_watch(const kl_eig_opts *opts, kl_eig_stats *stats, double energy, double residual,
                       kl_dptr x, int64_t ldx, kl_err *err)
{
    if (opts->step && !stats->stopped)
        stats->stopped = opts->step(opts->self, stats->napply, energy, residual) != 0;
    return x.addr ? kl_eig_keep(opts, stats, x, ldx, err) : KL_OK;
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
out:
    kl_free(&part);
    return st;
}
