/* Sectors of a saved state: see fitstate.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/fitstate.h"
#include "base/mem.h"
#include <string.h>

static int is_same(const kl_basis *a, const kl_basis *b)
{
    int same = a->nsec == b->nsec;
    for (int i = 0; same && i < a->nsec; i++)
        same = a->dim[i] == b->dim[i] && kl_qn_cmp(a->q[i], b->q[i]) == 0;
    return same;
}

static int fits(const kl_enlarged *a, const kl_enlarged *b)
{
    return is_same(&a->basis, &b->basis) && is_same(&a->block, &b->block);
}

static kl_status no_fit(kl_err *err)
{
    return kl_fail(err, KL_EBROKEN, "the saved state has a sector of a size that its basis does not make");
}

/* The isometry at pos, whose block has these states now. A sector that can be completed has all of its parts:
   its rows are those that it had. */
static kl_status fit_isometry(const kl_engine *e, kl_side side, int pos, const kl_basis *block,
                              kl_isometry **iso, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_isometry *const old = *iso;
    kl_enlarged *en = NULL;
    kl_isometry *made = NULL;
    int *from = NULL, *sec = NULL, *dim = NULL, n = 0;
    KL_TRY(kl_engine_enlarge(e, side, pos, block, &en, err));
    if (fits(en, old->enlarged)) goto out;
    KL_TRY(kl_alloc(&from, old->basis.nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&sec, old->basis.nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&dim, old->basis.nsec, KL_MEM_WORK, err));
    for (int k = 0; k < old->basis.nsec; k++) {
        const int at = kl_basis_find(&en->basis, old->basis.q[k]);
        if (at < 0) continue;
        if (en->basis.dim[at] != old->enlarged->basis.dim[old->sec[k]]) {
            st = no_fit(err);
            goto out;
        }
        from[n] = k, sec[n] = at, dim[n++] = old->basis.dim[k];
    }
    KL_TRY(kl_isometry_create_take(&en, n, sec, dim, &made, err));
    for (int k = 0; k < n; k++)
        memcpy(made->data + made->off[k], old->data + old->off[from[k]],
               (size_t)dim[k] * (size_t)made->enlarged->basis.dim[sec[k]] * sizeof *made->data);
    kl_isometry_destroy(iso);
    *iso = made;
    made = NULL;
out:
    kl_enlarged_destroy(&en);
    kl_isometry_destroy(&made);
    kl_free(&from);
    kl_free(&sec);
    kl_free(&dim);
    return st;
}

/* The wavefunctions over other bases of the two sites; what these have more is zero. */
static kl_status move_psi(kl_state *s, const kl_basis *row, const kl_basis *col, const kl_layout *lay,
                          kl_err *err)
{
    kl_status st = KL_OK;
    double *psi = NULL;
    KL_TRY(kl_alloc(&psi, lay->n * s->nstate, KL_MEM_STATE, err));
    for (int i = 0; i < s->row->basis.nsec; i++) {
        const int j = s->pair[i];
        if (j < 0) continue;
        const int rows = s->row->basis.dim[i], cols = s->col->basis.dim[j];
        const int to = kl_basis_find(row, s->row->basis.q[i]), other = to < 0 ? -1 : lay->pair[to];
        if (other < 0 || row->dim[to] != rows || col->dim[other] != cols) {
            st = no_fit(err);
            goto out;
        }
        for (int k = 0; k < s->nstate; k++)
            memcpy(psi + k * lay->n + lay->off[to], s->psi + k * s->npsi + s->psi_off[i],
                   (size_t)rows * (size_t)cols * sizeof *psi);
    }
    kl_free(&s->psi);
    s->psi = psi;
    psi = NULL;
    s->npsi = lay->n;
out:
    kl_free(&psi);
    return st;
}

static kl_status fit_centre(const kl_engine *e, kl_state *s, const kl_basis *left, const kl_basis *right,
                            kl_err *err)
{
    kl_status st = KL_OK;
    kl_enlarged *row = NULL, *col = NULL;
    kl_layout lay = {0};
    KL_TRY(kl_engine_enlarge(e, KL_LEFT, s->centre, left, &row, err));
    KL_TRY(kl_engine_enlarge(e, KL_RIGHT, s->centre + 1, right, &col, err));
    if (fits(row, s->row) && fits(col, s->col)) goto out;
    KL_TRY(kl_layout_create(e->terms->model, &row->basis, &col->basis, e->target, &lay, err));
    KL_TRY(move_psi(s, &row->basis, &col->basis, &lay, err));
    kl_enlarged_destroy(&s->row);
    kl_enlarged_destroy(&s->col);
    s->row = row, s->col = col;
    row = col = NULL;
    kl_free(&s->pair);
    kl_free(&s->psi_off);
    s->pair = lay.pair, s->psi_off = lay.off;
    lay.pair = NULL, lay.off = NULL;
    kl_free(&s->narrow); /* of one site: it is made anew */
    s->nnarrow = 0;
out:
    kl_enlarged_destroy(&row);
    kl_enlarged_destroy(&col);
    kl_layout_clear(&lay);
    return st;
}

kl_status kl_engine_fit_state(const kl_engine *e, kl_state *s, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_basis *left = &s->edge, *right = &s->end, *block = left;
    const int c = s->centre, n = s->nsite;
    for (int p = 0; p <= c; p++) {
        if (p == c) left = block;
        if (s->left[p] == NULL) continue;
        KL_TRY(fit_isometry(e, KL_LEFT, p, block, &s->left[p], err));
        block = &s->left[p]->basis;
    }
    block = right;
    for (int p = n - 1; p > c; p--) {
        if (p == c + 1) right = block;
        if (s->right[p] == NULL) continue;
        KL_TRY(fit_isometry(e, KL_RIGHT, p, block, &s->right[p], err));
        block = &s->right[p]->basis;
    }
    KL_TRY(fit_centre(e, s, left, right, err));
out:
    return st;
}
