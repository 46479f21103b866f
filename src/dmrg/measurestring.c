/* Strings between sites as the lattice numbers them, whatever the order of DMRG. Where that is the numbering
   kl_measure_pairs does all of them in one pass; elsewhere each string is a product of its own.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/measure.h"
#include "base/mem.h"

#include <string.h>

static int is_numbering(const kl_lattice *lat)
{
    int same = 1;
    for (int p = 0; p < lat->nsite; p++) same &= lat->order[p] == p;
    return same;
}

kl_status kl_measure_string_product(kl_measure *m, const kl_lattice *lat, int n, const int *site,
                                    const kl_siteop *const *op, const kl_siteop *between, double *value,
                                    kl_err *err)
{
    kl_status st = KL_OK;
    const kl_siteop **all = NULL;
    int *at = NULL, *taken = NULL, low = lat->nsite, high = -1, count = n;
    if (!between || is_numbering(lat)) return kl_measure_product(m, n, site, op, between, value, err);
    KL_TRY(kl_alloc(&all, n + lat->nsite, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&at, n + lat->nsite, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&taken, lat->nsite, KL_MEM_WORK, err));
    for (int k = 0; k < n; k++) {
        all[k] = op[k];
        at[k] = site[k];
        taken[site[k]] = 1;
        low = site[k] < low ? site[k] : low;
        high = site[k] > high ? site[k] : high;
    }
    for (int i = low + 1; i < high; i++)
        if (!taken[i]) {
            all[count] = between;
            at[count++] = i;
        }
    KL_TRY(kl_measure_product(m, count, at, all, NULL, value, err));
out:
    kl_free(&all);
    kl_free(&at);
    kl_free(&taken);
    return st;
}

kl_status kl_measure_strings(kl_measure *m, const kl_lattice *lat, const kl_siteop *a,
                             const kl_siteop *between, const kl_siteop *b, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = lat->nsite;
    const kl_siteop *const two[2] = {a, b};
    if (is_numbering(lat)) return kl_measure_pairs(m, a, between, b, 0, value, err);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            const int site[2] = {i, j};
            KL_TRY(kl_measure_string_product(m, lat, 2, site, two, between, &value[i * (int64_t)n + j], err));
        }
out:
    return st;
}
