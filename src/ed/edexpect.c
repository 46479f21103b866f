/* What strings of operators are worth on a state of exact diagonalization: see ed.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "ed/ed.h"
#include "ed/kronsum.h"

/* x . K x */
static kl_status expect_one(const kl_ed *ed, kl_kron *k, kl_dptr x, kl_dptr y, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    kl_kronspread *spread = NULL;
    kl_exec *const ex = ed->ex;
    if (ed->begin) {
        KL_TRY(kl_kronspread_create(k, ex, ed->begin, &spread, err));
        KL_TRY(kl_kronspread_apply(spread, x, y, err));
        ex->vt.dots(ex, ed->op.n, 1, x, ed->op.n, y, value);
    } else {
        KL_TRY(ex->vt.kron_prepare(ex, k, err));
        KL_TRY(ex->vt.kron_apply(ex, k, x, y, value, err));
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
    double square;
    KL_TRY(ed->ex->vt.alloc(ed->ex, ed->op.n, &y, err));
    ed->ex->vt.dots(ed->ex, ed->op.n, 1, x, ed->op.n, x, &square);
    for (int64_t t = 0; t < strings->nterm; t++) {
        KL_TRY(kl_kron_compile(ed->space, strings, t, t + 1, &k, err));
        KL_TRY(expect_one(ed, k, x, y, &value[t], err));
        kl_kron_destroy(&k);
        value[t] /= square;
    }
out:
    kl_kron_destroy(&k);
    ed->ex->vt.release(ed->ex, &y);
    return st;
}
