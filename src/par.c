/* Tasks by OpenMP, taken one by one as threads come free.
   SPDX-License-Identifier: Apache-2.0 */
#include "par.h"

#include <omp.h>

void kl_par_for(int nthread, int64_t ntask, kl_par_fn *fn, void *self)
{
    if (nthread <= 1 || ntask <= 1 || omp_in_parallel()) {
        for (int64_t task = 0; task < ntask; task++) fn(self, task, 0);
        return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(nthread)
    for (int64_t task = 0; task < ntask; task++) fn(self, task, omp_get_thread_num());
}
