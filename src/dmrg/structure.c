/* Structure factors from correlations: see measure.h.
   SPDX-License-Identifier: Apache-2.0 */
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
