/* Sectors that lose few columns: see leadingleast.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/leadingleast.h"
#include "base/mem.h"

enum {
    WORTH = 128,     /* columns from which it takes less time than all eigenvectors on a device, */
    WORTH_TEST = 40, /* and where products are asked for */
};
#define FEW_STAY 0.7 /* of all columns: most sectors lose too much then */

kl_status kl_leading_least_find(kl_leading *l, const kl_leading_opts *o, const int64_t *off, kl_dptr gram,
                                kl_err *err)
{
    kl_status st = KL_OK;
    const int worth = o->way == KL_TRUNCATION_PRODUCTS ? WORTH_TEST : WORTH;
    kl_least *const least = &l->least;
    const int may = l->range.ex->vt.roots != NULL || o->way == KL_TRUNCATION_PRODUCTS;
    if (!may || o->spectrum || l->npart == 0 || o->m < FEW_STAY * l->ncolumn) return KL_OK;
    least->ex = l->range.ex;
    KL_TRY(kl_alloc(&least->part, l->npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&l->least_of, l->nsec, KL_MEM_WORK, err));
    least->stay = (double)o->m / l->ncolumn;
    for (int c = 0; c < l->nsec; c++) {
        const int part = l->part[c];
        l->least_of[c] = -1;
        if (part < 0 || o->least[c] > 0 || l->way[c].mode != KL_RANGE_DUAL || l->way[c].width < worth)
            continue;
        l->least_of[c] = least->npart;
        least->part[least->npart++] = (kl_least_part){.n = l->way[c].width, .gram = off[c]};
    }
    KL_TRY(kl_least_find(least, gram, err));
out:
    return st;
}

int kl_leading_nleast(const kl_leading *l)
{
    int count = 0;
    for (int i = 0; i < l->least.npart; i++) count += l->least.part[i].tried > 0;
    return count;
}

const kl_least_part *kl_leading_least(const kl_leading *l, int c)
{
    const int nth = l->least_of ? l->least_of[c] : -1;
    return nth >= 0 && l->least.part[nth].tried > 0 ? &l->least.part[nth] : NULL;
}

void kl_leading_least_weights(const kl_least_part *p, double *w)
{
    double known = 0;
    for (int i = 0; i < p->tried; i++) known += w[i] = p->value[i];
    for (int i = p->tried; i < p->n; i++) w[i] = (p->trace - known) / (p->n - p->tried);
}

kl_status kl_leading_least_states(kl_leading *l, const int *count, const int64_t *from, int64_t nz, kl_dptr z,
                                  kl_err *err)
{
    kl_status st = KL_OK;
    int *drop = NULL;
    int64_t *to = NULL;
    if (l->least.npart == 0) return KL_OK;
    KL_TRY(kl_alloc(&drop, l->least.npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&to, l->least.npart, KL_MEM_WORK, err));
    for (int c = 0; c < l->nsec; c++) {
        const int nth = l->least_of[c];
        if (nth < 0) continue;
        const int kept = count[l->part[c]];
        to[nth] = kept > 0 ? from[l->part[c]] : -1;
        drop[nth] = l->least.part[nth].n - kept;
    }
    KL_TRY(kl_least_rest(&l->least, drop, to, nz, z, err));
out:
    kl_free(&drop);
    kl_free(&to);
    return st;
}
