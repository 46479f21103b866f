/* What the eigensolvers do between steps.
   SPDX-License-Identifier: Apache-2.0 */
#include "eigbase.h"

const char *const kl_line_name[KL_NLINE] = {"2: W = H V", "3: V^T w", "4: small eigenproblem", "5: V y", "6: residual", "10: correction", "12: V^T r", "13: r - V s"}; /* ORDER KL_LINE */

kl_status kl_eig_keep(const kl_eig_opts *opts, const kl_eig_stats *stats, kl_dptr x, int64_t ldx, kl_err *err)
{
    const kl_keeper *const k = opts->keeper;
    if (!k || !(stats->stopped || k->due(k->self))) return KL_OK;
    const double number = opts->before + stats->napply;
    kl_keep out = {.nnumber = 1, .number = &number, .nvector = opts->nroot};
    for (int i = 0; i < opts->nroot; i++) out.vector[i] = kl_dptr_at(x, i * ldx);
    return k->write(k->self, &out, err);
}

kl_status kl_eig_watch(const kl_eig_opts *opts, kl_eig_stats *stats, double energy, double residual, kl_dptr x, int64_t ldx, kl_err *err)
{
    if (opts->step && !stats->stopped) stats->stopped = opts->step(opts->self, stats->napply, energy, residual) != 0;
    return x.addr ? kl_eig_keep(opts, stats, x, ldx, err) : KL_OK;
}
