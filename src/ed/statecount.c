/* Numbers of combinations that reach charges.
   SPDX-License-Identifier: Apache-2.0 */
#include "ed/statecount.h"
#include "base/mem.h"

#include <stdlib.h>

static void clear(kl_statecount *w)
{
    kl_free(&w->q);
    kl_free(&w->count);
    w->n = 0;
}

typedef struct entry {
    kl_qn q;
    double count;
} entry;

static int by_charge(const void *a, const void *b)
{
    return kl_qn_cmp(((const entry *)a)->q, ((const entry *)b)->q);
}

static kl_status extend(const kl_model *m, const kl_statecount *from, const kl_site_type *site,
                        kl_statecount *to, kl_err *err)
{
    kl_status st = KL_OK;
    entry *all = NULL;
    kl_statecount next = {0};
    KL_TRY(kl_alloc(&all, from->n * site->dim, KL_MEM_MISC, err));
    int64_t n = 0, k = 0;
    for (int s = 0; s < site->dim; s++) {
        const kl_qn c = kl_qn_of(m, site->state_charge[s]);
        for (int64_t i = 0; i < from->n; i++) all[n++] = (entry){kl_qn_add(m, from->q[i], c), from->count[i]};
    }
    qsort(all, (size_t)n, sizeof *all, by_charge);
    for (int64_t i = 0; i < n; i++) {
        if (k > 0 && kl_qn_cmp(all[k - 1].q, all[i].q) == 0) all[k - 1].count += all[i].count;
        else all[k++] = all[i];
    }
    KL_TRY(kl_alloc(&next.q, k, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&next.count, k, KL_MEM_MISC, err));
    for (int64_t i = 0; i < k; i++) next.q[i] = all[i].q, next.count[i] = all[i].count;
    next.n = k;
    *to = next;
out:
    if (st != KL_OK) clear(&next);
    kl_free(&all);
    return st;
}

kl_status kl_statecount_create(const kl_model *m, const kl_site_type *const *type, int npos,
                               kl_statecount **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_statecount *w = NULL;
    KL_TRY(kl_alloc(&w, npos + 1, KL_MEM_MISC, err));
    *out = w;
    KL_TRY(kl_alloc(&w[0].q, 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&w[0].count, 1, KL_MEM_MISC, err));
    w[0].n = 1;
    w[0].count[0] = 1.0;
    for (int p = 0; p < npos; p++) KL_TRY(extend(m, &w[p], type[p], &w[p + 1], err));
out:
    return st;
}

void kl_statecount_free(kl_statecount **w, int npos)
{
    for (int p = 0; *w && p <= npos; p++) clear(&(*w)[p]);
    kl_free(w);
}

int64_t kl_statecount_find(const kl_statecount *w, kl_qn q)
{
    int64_t lo = 0, hi = w->n - 1;
    while (lo <= hi) {
        const int64_t mid = (lo + hi) / 2;
        const int c = kl_qn_cmp(w->q[mid], q);
        if (c == 0) return mid;
        if (c < 0) lo = mid + 1;
        else hi = mid - 1;
    }
    return -1;
}
