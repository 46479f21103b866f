/* Numbers and vectors that a run goes on from: see keep.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "solve/keep.h"

#include <string.h>

kl_status kl_keep_take(const kl_keep *k, const kl_linop *h, int count, const kl_dptr *to, kl_err *err)
{
    if (k->fetch) return k->fetch(k->self, k->first, count, h->begin, to, err);
    for (int i = 0; i < count; i++) h->ex->vt.copy(h->ex, h->n, k->vector[i], to[i]);
    return KL_OK;
}

kl_keep kl_keep_behind(const kl_keep *k, int64_t nnumber, int nvector)
{
    kl_keep rest = *k;
    rest.number += nnumber;
    rest.nnumber -= nnumber;
    rest.nvector -= nvector;
    rest.first += nvector;
    if (rest.n) rest.n += nvector;
    if (rest.begin) rest.begin += nvector;
    if (rest.vector) rest.vector += nvector;
    if (rest.far) rest.far += nvector;
    return rest;
}

void kl_keep_reals(kl_keep_list *l, int64_t n, double *x)
{
    if (n > 0) memcpy(l->reading ? x : l->at, l->reading ? l->at : x, (size_t)n * sizeof *x);
    l->at += n;
}

void kl_keep_int(kl_keep_list *l, int *x)
{
    /* of a file that somebody wrote on purpose it may be anything */
    if (l->reading) *x = *l->at >= INT32_MIN && *l->at <= INT32_MAX ? (int)*l->at : 0;
    else *l->at = *x;
    l->at++;
}

void kl_keep_bits(kl_keep_list *l, uint64_t *x)
{
    if (l->reading) {
        uint64_t part[KL_KEEP_BITS];
        for (int i = 0; i < KL_KEEP_BITS; i++)
            part[i] = l->at[i] >= 0 && l->at[i] <= UINT32_MAX ? (uint64_t)l->at[i] : 0;
        *x = part[0] | part[1] << 32;
    } else {
        l->at[0] = (double)(uint32_t)*x;
        l->at[1] = (double)(*x >> 32);
    }
    l->at += KL_KEEP_BITS;
}
