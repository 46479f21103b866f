/* Wavefunctions carried one site on by operation records: see wave.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/wave.h"

typedef struct step {
    const kl_wave *from, *to;
    const kl_isometry *made, *opened;
    kl_batch *b;
} step;

/* Sector k of the new isometry times segment (i, j) of wavefunction v: C = O_k^T psi. Then column part (s, r)
   of C, opened by the isometry of site c+2, is row part (k, s) of the next centre. */
static kl_status to_the_right(const step *t, int k, int v, kl_err *err)
{
    const kl_enlarged *const col = t->from->col, *const row_to = t->to->row;
    const kl_layout *const lay = t->from->layout, *const lay_to = t->to->layout;
    const int i = t->made->sec[k], j = lay->pair[i], mk = t->made->basis.dim[k];
    if (i < 0 || j < 0) return KL_OK;
    const int di = t->from->row->basis.dim[i], dj = col->basis.dim[j];
    kl_status st = kl_batch_open_group(t->b, 0, 0, err);
    if (st == KL_OK) st = kl_batch_reserve(t->b, 1 + t->from->row->d + col->d, err);
    if (st != KL_OK) return st;
    *kl_batch_push(t->b) = (kl_rec){.kind = KL_REC_GEMM,
                                    .ta = 1,
                                    .at_a = KL_AT_LEFT,
                                    .at_b = KL_AT_X,
                                    .at_c = KL_AT_WORK,
                                    .m = mk,
                                    .n = dj,
                                    .k = di,
                                    .lda = di,
                                    .ldb = di,
                                    .ldc = mk,
                                    .a = t->made->off[k],
                                    .b = v * lay->n + lay->off[i],
                                    .alpha = 1};
    for (int s = 0; s < col->d; s++) {
        /* the step of the same multiplet from the other side: on the left it is s */
        const int own = col->site->other != NULL ? col->site->other[s] : s;
        const int r = col->part_sec[j * col->d + s], to = row_to->home[k * col->d + own];
        if (r < 0 || to < 0 || lay_to->pair[to] < 0) continue;
        const int wide = t->opened->enlarged->basis.dim[t->opened->sec[r]];
        *kl_batch_push(t->b) =
            (kl_rec){.kind = KL_REC_GEMM,
                     .tb = 1,
                     .at_a = KL_AT_WORK,
                     .at_b = KL_AT_RIGHT,
                     .at_c = KL_AT_Y,
                     .m = mk,
                     .n = wide,
                     .k = t->opened->basis.dim[r],
                     .lda = mk,
                     .ldb = wide,
                     .ldc = row_to->basis.dim[to],
                     .a = (int64_t)col->part_off[j * col->d + s] * mk,
                     .b = t->opened->off[r],
                     .c = v * lay_to->n + lay_to->off[to] + row_to->part_off[to * row_to->d + own],
                     .alpha = 1};
    }
    kl_batch_close_group(t->b, (int64_t)mk * dj);
    return KL_OK;
}

/* Its mirror image: C = psi O_k, whose row part (l, s), opened by the isometry of site c-1, is column part
   (s, k) of the next centre. */
static kl_status to_the_left(const step *t, int k, int v, kl_err *err)
{
    const kl_enlarged *const row = t->from->row, *const col_to = t->to->col;
    const kl_layout *const lay = t->from->layout, *const lay_to = t->to->layout;
    const int j = t->made->sec[k], i = lay->back[j], mk = t->made->basis.dim[k];
    if (i < 0 || j < 0) return KL_OK;
    const int di = row->basis.dim[i], dj = t->from->col->basis.dim[j];
    kl_status st = kl_batch_open_group(t->b, 0, 0, err);
    if (st == KL_OK) st = kl_batch_reserve(t->b, 1 + row->d + t->from->col->d, err);
    if (st != KL_OK) return st;
    *kl_batch_push(t->b) = (kl_rec){.kind = KL_REC_GEMM,
                                    .at_a = KL_AT_X,
                                    .at_b = KL_AT_RIGHT,
                                    .at_c = KL_AT_WORK,
                                    .m = di,
                                    .n = mk,
                                    .k = dj,
                                    .lda = di,
                                    .ldb = dj,
                                    .ldc = di,
                                    .a = v * lay->n + lay->off[i],
                                    .b = t->made->off[k],
                                    .alpha = 1};
    for (int s = 0; s < row->d; s++) {
        const int own = row->site->other != NULL ? row->site->other[s] : s;
        const int l = row->part_sec[i * row->d + s], to = col_to->home[k * row->d + own];
        if (l < 0 || to < 0 || lay_to->back[to] < 0) continue;
        const int tall = t->opened->enlarged->basis.dim[t->opened->sec[l]];
        *kl_batch_push(t->b) = (kl_rec){.kind = KL_REC_GEMM,
                                        .at_a = KL_AT_LEFT,
                                        .at_b = KL_AT_WORK,
                                        .at_c = KL_AT_Y,
                                        .m = tall,
                                        .n = mk,
                                        .k = t->opened->basis.dim[l],
                                        .lda = tall,
                                        .ldb = di,
                                        .ldc = tall,
                                        .a = t->opened->off[l],
                                        .b = row->part_off[i * row->d + s],
                                        .c = v * lay_to->n + lay_to->off[lay_to->back[to]] +
                                             (int64_t)col_to->part_off[to * col_to->d + own] * tall,
                                        .alpha = 1};
    }
    kl_batch_close_group(t->b, (int64_t)di * mk);
    return KL_OK;
}

kl_status kl_wave_transform(kl_exec *ex, int direction, int nstate, const kl_wave *from, kl_isometry_on made,
                            kl_isometry_on opened, const kl_wave *to, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    const step t = {.from = from, .to = to, .made = made.iso, .opened = opened.iso, .b = &b};
    ex->vt.fill(ex, nstate * to->layout->n, 0.0, to->psi);
    for (int k = 0; k < made.iso->basis.nsec; k++)
        for (int v = 0; v < nstate; v++)
            KL_TRY(direction > 0 ? to_the_right(&t, k, v, err) : to_the_left(&t, k, v, err));
    b.base[KL_AT_LEFT] = direction > 0 ? made.data : opened.data;
    b.base[KL_AT_RIGHT] = direction > 0 ? opened.data : made.data;
    KL_TRY(kl_batch_run(&b, ex, from->psi, to->psi, err));
out:
    kl_batch_clear(&b);
    return st;
}
