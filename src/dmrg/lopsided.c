/* See lopsided.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/lopsided.h"
#include "base/mem.h"
#include "model/mirror.h"
#include <math.h>

#define LOPSIDED 0.2 /* of the weight */

/* *found 1: H has such a symmetry, and the sector is its own image. Constants in the map of charges are those
   of all sites: of one site it says nothing then. */
static kl_status find_symmetry(const kl_terms *t, kl_qn target, int *found, kl_mirror *by, kl_err *err)
{
    const kl_status st = kl_mirror_find(t, found, by, err);
    if (st != KL_OK) return st;
    for (int c = 0; *found && c < KL_MAX_CHARGE; c++) *found = by->sum[c] == 0;
    if (*found) *found = kl_qn_cmp(kl_mirror_image(t->model, by, target), target) == 0;
    return KL_OK;
}

kl_status kl_state_lopsided(const kl_terms *t, kl_qn target, const kl_state *s, int *yes, kl_err *err)
{
    kl_status st = KL_OK;
    kl_mirror by;
    double *weight = NULL, all = 0, differ = 0;
    int found;
    *yes = 0;
    if (s->centre != 0 || kl_model_spin(t->model) >= 0) return KL_OK;
    KL_TRY(find_symmetry(t, target, &found, &by, err));
    if (!found) return KL_OK;
    const kl_basis *const row = &s->row->basis;
    KL_TRY(kl_alloc(&weight, row->nsec, KL_MEM_WORK, err));
    for (int i = 0; i < row->nsec; i++) {
        const int j = s->pair[i];
        const int64_t n = j < 0 ? 0 : (int64_t)row->dim[i] * s->col->basis.dim[j];
        weight[i] = 0;
        for (int64_t k = 0; k < n; k++) weight[i] += s->psi[s->psi_off[i] + k] * s->psi[s->psi_off[i] + k];
        all += weight[i];
    }
    for (int i = 0; i < row->nsec; i++) {
        const int image = kl_basis_find(row, kl_mirror_image(t->model, &by, row->q[i]));
        differ += fabs(weight[i] - (image < 0 ? 0 : weight[image])) / 2;
    }
    *yes = differ > LOPSIDED * all;
out:
    kl_free(&weight);
    return st;
}
