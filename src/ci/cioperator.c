/* Products with H of one irrep: see cioperator.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/cioperator.h"

#include "base/mem.h"
#include "ci/ciunit.h"
#include "phase.h"

void kl_ci_operator_destroy(kl_ci_operator **pop)
{
    kl_ci_operator *const op = *pop;
    if (op == NULL) return;
    if (op->sector.op.ex != NULL) kl_cisector_clear(&op->sector, op->sector.op.ex);
    kl_ciorbitals_clear(&op->orbitals);
    kl_fcidump_destroy(&op->f);
    kl_free(&op->diagonal);
    kl_free(pop);
}

kl_status kl_ci_operator_create(const kl_fcidump *f, kl_exec *ex, const kl_ci_opts *opts,
                                kl_ci_operator **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_ci_operator *op = NULL;
    kl_ci_opts o = *opts;
    kl_ci_block info = {0};
    if (o.irrep < 0 && f->nirrep > 1)
        return kl_fail(err, KL_EINPUT, "an operator is of one irrep; the option irrep says which: 1 to %d",
                       f->nirrep);
    KL_TRY(kl_ci_check(&o, err));
    KL_TRY(kl_alloc(&op, 1, KL_MEM_MISC, err));
    op->sector.op.ex = ex;
    op->sector.irrep = o.irrep < 0 ? 0 : o.irrep;
    if (o.nthread < 1) o.nthread = ex->nthread;
    KL_TRY(kl_ci_in_own_unit(f, &op->f, &op->unit, err));
    KL_TRY(kl_ciorbitals_make(op->f, &o, &op->orbitals, err));
    KL_TRY(kl_cisector_open(&op->sector, &op->orbitals, ex, &o, NULL, &info, &op->diagonal, err));
    if (info.ndet == 0)
        KL_TRY(kl_fail(err, KL_EINPUT, "no determinant of irrep %d in this space", op->sector.irrep + 1));
    *out = op;
    op = NULL;
out:
    kl_ci_operator_destroy(&op);
    return st;
}

void kl_ci_operator_at(const kl_ci_operator *op, int64_t i, int *occupation, int *sign)
{
    const kl_ciorbitals *const l = &op->orbitals;
    const kl_detspace *const s = op->sector.space;
    int64_t ia, ib;
    kl_detspace_at(s, i, &ia, &ib);
    const uint64_t a = s->a->bits[ia], b = s->b->bits[ib];
    for (int p = 0; p < l->f->norb; p++) occupation[p] = 0;
    for (int p = 0; p < l->ncore; p++) occupation[l->core[p]] = 3;
    for (int p = 0; p < l->nactive; p++) occupation[l->active[p]] = (int)(a >> p & 1) + 2 * (int)(b >> p & 1);
    *sign = kl_phase_flavour_major(a, b); /* the pairs of inactive orbitals pass everything */
}

int64_t kl_ci_operator_find(const kl_ci_operator *op, const int *occupation)
{
    const kl_ciorbitals *const l = &op->orbitals;
    uint64_t a = 0, b = 0;
    int electrons = 0, core = 0;
    for (int p = 0; p < l->f->norb; p++) {
        if (occupation[p] < 0 || occupation[p] > 3) return -1;
        electrons += (occupation[p] & 1) + (occupation[p] >> 1);
    }
    for (int p = 0; p < l->ncore; p++) core += occupation[l->core[p]] == 3;
    for (int p = 0; p < l->nactive; p++) {
        a |= (uint64_t)(occupation[l->active[p]] & 1) << p;
        b |= (uint64_t)(occupation[l->active[p]] >> 1) << p;
    }
    /* an electron in a deleted orbital is one too many */
    if (core < l->ncore || electrons != l->nalpha + l->nbeta) return -1;
    return kl_detspace_find(op->sector.space, a, b);
}
