/* Expectation values of operator strings on a state of exact diagonalization: see ed.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "ed/ed.h"
#include "ed/kronsum.h"

/* value[v] = x_v . K x_v / x_v . x_v */
static kl_status expect_one(const kl_ed *ed, kl_kron *k, int nvec, kl_dptr x, int64_t ldx, kl_dptr y,
                            double *value, kl_err *err)
{
    kl_status st = KL_OK;
    kl_kronspread *spread = NULL;
    kl_exec *const ex = ed->ex;
    if (ed->begin) KL_TRY(kl_kronspread_create(k, ex, ed->begin, &spread, err));
    else KL_TRY(ex->vt.kron_prepare(ex, k, err));
    for (int v = 0; v < nvec; v++) {
        const kl_dptr at = kl_dptr_at(x, v * ldx);
        double square;
        ex->vt.dots(ex, ed->op.n, 1, at, ed->op.n, at, &square);
        if (spread) {
            KL_TRY(kl_kronspread_apply(spread, at, y, NULL, err));
            ex->vt.dots(ex, ed->op.n, 1, at, ed->op.n, y, &value[v]);
        } else KL_TRY(ex->vt.kron_apply(ex, k, at, y, &value[v], err));
        value[v] /= square;
    }
out:
    if (!ed->begin) ex->vt.kron_release(ex, k);
    kl_kronspread_destroy(&spread);
    return st;
}

kl_status kl_ed_expect(const kl_ed *ed, const kl_terms *strings, kl_dptr x, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    kl_kron *k = NULL;
    kl_dptr y = {0};
    KL_TRY(ed->ex->vt.alloc(ed->ex, ed->op.n, &y, err));
    for (int64_t t = 0; t < strings->nterm; t++) {
        KL_TRY(kl_kron_compile(ed->space, strings, t, t + 1, &k, err));
        KL_TRY(expect_one(ed, k, 1, x, 0, y, &value[t], err));
        kl_kron_destroy(&k);
    }
out:
    kl_kron_destroy(&k);
    ed->ex->vt.release(ed->ex, &y);
    return st;
}

kl_status kl_ed_expect_sum(const kl_ed *ed, const kl_terms *list, int nvec, kl_dptr x, int64_t ldx,
                           double *value, kl_err *err)
{
    kl_status st = KL_OK;
    kl_kron *k = NULL;
    kl_dptr y = {0};
    KL_TRY(ed->ex->vt.alloc(ed->ex, ed->op.n, &y, err));
    KL_TRY(kl_kron_compile(ed->space, list, 0, list->nterm, &k, err));
    KL_TRY(expect_one(ed, k, nvec, x, ldx, y, value, err));
out:
    kl_kron_destroy(&k);
    ed->ex->vt.release(ed->ex, &y);
    return st;
}
