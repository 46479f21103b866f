/* Charges left and right of every cut: see reaches.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/reaches.h"
#include "base/mem.h"
#include "dmrg/dmrg.h"
#include "dmrg/engine.h"
#include <string.h>

enum { MOST = 200000 /* sectors per cut that are looked at; beyond, the likeliest */ };

static int alike(const kl_reaches *r, const kl_terms *t, kl_qn target)
{
    return r->nsite == t->nsite && r->model == t->model && kl_qn_cmp(r->target, target) == 0 &&
           memcmp(r->type, t->type, sizeof *r->type * (size_t)t->nsite) == 0;
}

/* 1: all sites are alike, so that as many sites of either end have the same charges. */
static int one_type(const kl_terms *t)
{
    for (int p = 1; p < t->nsite; p++)
        if (t->type[p] != t->type[0]) return 0;
    return 1;
}

static kl_status find(kl_reaches *r, const kl_terms *t, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = t->nsite;
    KL_TRY(kl_alloc(&r->left, n + 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&r->right, n + 1, KL_MEM_MISC, err));
    const kl_qn edge = kl_qn_edge(t->model, r->target);
    KL_TRY(kl_reach_from(t->model, edge, t->type, 0, 0, 0, &r->left[0], err));
    for (int p = 0; p < n; p++)
        KL_TRY(kl_reach_extend(t->model, &r->left[p], t->type[p], MOST, &r->left[p + 1], err));
    if (kl_reach_find(&r->left[n], kl_qn_sub(t->model, r->target, kl_qn_zero())) < 0) {
        st = kl_engine_no_state(t, r->target, err);
        goto out;
    }
    KL_TRY(kl_reach_create(t->model, t->type, n, n, 0, &r->right[n], err));
    const int same = kl_qn_cmp(edge, kl_qn_zero()) == 0 && one_type(t);
    for (int p = n - 1; p >= 0; p--)
        KL_TRY(same ? kl_reach_copy(&r->left[n - p], &r->right[p], err)
                    : kl_reach_extend(t->model, &r->right[p + 1], t->type[p], MOST, &r->right[p], err));
out:
    return st;
}

kl_status kl_reaches_take(const kl_terms *terms, kl_qn target, kl_reaches *known, kl_reaches **out,
                          kl_err *err)
{
    kl_status st = KL_OK;
    kl_reaches *r = NULL;
    *out = NULL;
    if (known && alike(known, terms, target)) {
        known->users++;
        *out = known;
        return KL_OK;
    }
    KL_TRY(kl_alloc(&r, 1, KL_MEM_MISC, err));
    *r = (kl_reaches){.users = 1, .nsite = terms->nsite, .target = target, .model = terms->model};
    KL_TRY(kl_alloc(&r->type, terms->nsite, KL_MEM_MISC, err));
    memcpy(r->type, terms->type, sizeof *r->type * (size_t)terms->nsite);
    KL_TRY(find(r, terms, err));
    *out = r;
    r = NULL;
out:
    kl_reaches_leave(&r);
    return st;
}

void kl_reaches_leave(kl_reaches **pr)
{
    kl_reaches *const r = *pr;
    *pr = NULL;
    if (!r || --r->users > 0) return;
    for (int p = 0; p <= r->nsite; p++) {
        if (r->left) kl_reach_clear(&r->left[p]);
        if (r->right) kl_reach_clear(&r->right[p]);
    }
    kl_free(&r->left);
    kl_free(&r->right);
    kl_free(&r->type);
    kl_reaches *gone = r;
    kl_free(&gone);
}

kl_status kl_dmrg_sectors(const kl_terms *terms, kl_qn **out, int64_t *n, kl_err *err)
{
    kl_reach r;
    const kl_status st = kl_reach_create(terms->model, terms->type, 0, terms->nsite, 0, &r, err);
    if (st != KL_OK) return st;
    kl_free(&r.log_count);
    *out = r.q;
    *n = r.n;
    return KL_OK;
}
