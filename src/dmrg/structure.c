/* Structure factors from correlations: see measure.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "dmrg/measure.h"
#include <math.h>

void kl_structure_factor(const kl_lattice *lat, const double *pair, int nk, const double (*k)[2],
                         double *value)
{
    const int n = lat->nsite;
    for (int a = 0; a < nk; a++) {
        double sum = 0;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                sum += pair[i * (int64_t)n + j] * cos(k[a][0] * (lat->xy[i][0] - lat->xy[j][0]) +
                                                      k[a][1] * (lat->xy[i][1] - lat->xy[j][1]));
        value[a] = sum / n;
    }
}

kl_status kl_structure_momenta(const kl_lattice *lat, int *nk, double (**k)[2], kl_err *err)
{
    kl_status st = KL_OK;
    *nk = 0;
    if (lat->kind == KL_LATTICE_FILE)
        return kl_fail(
            err, KL_EINPUT,
            "lattice %.100s comes from a file and has no grid of momenta; measure corr(A,B) and transform it",
            lat->spec);
    const int n = lat->lx * lat->ly;
    KL_TRY(kl_alloc(k, n, KL_MEM_MISC, err));
    for (int i = 0; i < n; i++) {
        (*k)[i][0] = 2 * M_PI * (i / lat->ly) / lat->lx;
        (*k)[i][1] = 2 * M_PI * (i % lat->ly) / lat->ly;
    }
    *nk = n;
out:
    return st;
}
