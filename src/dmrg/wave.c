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
        const int own = kl_step_from_other(col->site, s);
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
        const int own = kl_step_from_other(row->site, s);
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

/* Zeros, where the list does not write all n numbers. */
static void clear_rest(kl_exec *ex, const kl_batch *b, int64_t n, kl_dptr psi)
{
    if (kl_batch_written(b) < n) ex->vt.fill(ex, n, 0.0, psi);
}

kl_status kl_wave_transform(kl_exec *ex, int direction, int nstate, const kl_wave *from, kl_isometry_on made,
                            kl_isometry_on opened, const kl_wave *to, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    const step t = {.from = from, .to = to, .made = made.iso, .opened = opened.iso, .b = &b};
    for (int k = 0; k < made.iso->basis.nsec; k++)
        for (int v = 0; v < nstate; v++)
            KL_TRY(direction > 0 ? to_the_right(&t, k, v, err) : to_the_left(&t, k, v, err));
    b.base[KL_AT_LEFT] = direction > 0 ? made.data : opened.data;
    b.base[KL_AT_RIGHT] = direction > 0 ? opened.data : made.data;
    clear_rest(ex, &b, nstate * to->layout->n, to->psi);
    KL_TRY(kl_batch_run(&b, ex, from->psi, to->psi, err));
out:
    kl_batch_clear(&b);
    return st;
}

void kl_ahead_clear(kl_exec *ex, kl_ahead *a)
{
    kl_layout_clear(&a->layout);
    ex->vt.release(ex, &a->psi);
}

/* What is carried from a centre of one site. */
typedef struct carried {
    int right, nstate;
    const kl_wave *from;
    const kl_absorbed *absorbed;
    const kl_isometry *made;
    const kl_enlarged *next; /* the made side with the absorbed site */
    const kl_layout *to;
} carried;

/* C = O_k^T psi or psi O_k, and D = C with the absorbed site back: O C^T's transpose, or O C. Returns numbers
   of WORK. */
static int64_t push_products(const carried *t, int k, int v, kl_batch *b)
{
    const kl_layout *const lay = t->from->layout;
    const kl_isometry *const o = t->absorbed->by.iso;
    const int side = t->made->sec[k], few = t->right ? lay->pair[side] : lay->back[side];
    const int high = t->made->enlarged->basis.dim[side], mk = t->made->basis.dim[k];
    const int narrow = o->basis.dim[few], wide = o->enlarged->basis.dim[o->sec[few]];
    const int64_t c = (int64_t)mk * narrow, x = v * lay->n + lay->off[t->right ? side : few];
    kl_rec first = {.kind = KL_REC_GEMM, .at_c = KL_AT_WORK, .k = high, .alpha = 1};
    kl_rec second = {.kind = KL_REC_GEMM, .at_c = KL_AT_WORK, .k = narrow, .c = c, .alpha = 1};
    if (t->right) {
        first.ta = 1;
        first.at_a = KL_AT_LEFT, first.a = t->made->off[k], first.lda = high;
        first.at_b = KL_AT_X, first.b = x, first.ldb = high;
        first.m = first.ldc = mk, first.n = narrow;
        second.tb = 1;
        second.at_a = KL_AT_WORK, second.lda = mk;
        second.at_b = KL_AT_RIGHT, second.b = o->off[few], second.ldb = wide;
        second.m = second.ldc = mk, second.n = wide;
    } else {
        first.at_a = KL_AT_X, first.a = x, first.lda = narrow;
        first.at_b = KL_AT_RIGHT, first.b = t->made->off[k], first.ldb = high;
        first.m = first.ldc = narrow, first.n = mk;
        second.at_a = KL_AT_LEFT, second.a = o->off[few], second.lda = wide;
        second.at_b = KL_AT_WORK, second.ldb = narrow;
        second.m = second.ldc = wide, second.n = mk;
    }
    *kl_batch_push(b) = first;
    *kl_batch_push(b) = second;
    return c + (int64_t)mk * wide;
}

/* Sector k of the new isometry: the parts of D go where the absorbed site is one of the side that is made. */
static kl_status carry_sector(const carried *t, int k, int v, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_layout *const lay = t->from->layout;
    const kl_isometry *const o = t->absorbed->by.iso;
    const kl_enlarged *const w = t->absorbed->wide, *const next = t->next;
    const int side = t->made->sec[k], few = t->right ? lay->pair[side] : lay->back[side];
    const int mk = t->made->basis.dim[k];
    if (few < 0) return KL_OK;
    const int j = o->sec[few], wide = w->basis.dim[j];
    const int64_t d = (int64_t)mk * o->basis.dim[few]; /* where D begins */
    KL_TRY(kl_batch_open_group(b, 0, 0, err));
    KL_TRY(kl_batch_reserve(b, 2 + w->d, err));
    const int64_t nwork = push_products(t, k, v, b);
    for (int s = 0; s < w->d; s++) {
        /* the step of the same multiplet from the other side */
        const int own = kl_step_from_other(w->site, s);
        const int r = w->part_sec[j * w->d + s], to = next->home[k * next->d + own];
        if (r < 0 || to < 0 || (t->right ? t->to->pair[to] : t->to->back[to]) != r) continue;
        const int states = w->block.dim[r], part = w->part_off[j * w->d + s];
        const int64_t at = next->part_off[to * next->d + own];
        kl_rec copy = {.kind = KL_REC_ADD, .at_a = KL_AT_WORK, .at_c = KL_AT_Y, .alpha = 1};
        if (t->right) {
            copy.m = copy.lda = mk, copy.n = states;
            copy.a = d + (int64_t)part * mk;
            copy.c = v * t->to->n + t->to->off[to] + at, copy.ldc = next->basis.dim[to];
        } else {
            copy.m = copy.ldc = states, copy.n = mk;
            copy.a = d + part, copy.lda = wide;
            copy.c = v * t->to->n + t->to->off[r] + at * states;
        }
        *kl_batch_push(b) = copy;
    }
    kl_batch_close_group(b, nwork);
out:
    return st;
}

kl_status kl_wave_carry(kl_exec *ex, int direction, int nstate, const kl_wave *from,
                        const kl_absorbed *absorbed, kl_isometry_on made, const kl_enlarged *next,
                        const kl_ahead *to, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    const int right = direction > 0;
    const carried t = {right, nstate, from, absorbed, made.iso, next, &to->layout};
    kl_batch_init(&b);
    for (int k = 0; k < made.iso->basis.nsec; k++)
        for (int v = 0; v < nstate; v++) KL_TRY(carry_sector(&t, k, v, &b, err));
    b.base[KL_AT_LEFT] = right ? made.data : absorbed->by.data;
    b.base[KL_AT_RIGHT] = right ? absorbed->by.data : made.data;
    clear_rest(ex, &b, nstate * to->layout.n, to->psi);
    KL_TRY(kl_batch_run(&b, ex, from->psi, to->psi, err));
out:
    kl_batch_clear(&b);
    return st;
}

kl_status kl_wave_open(kl_exec *ex, int direction, int nstate, const kl_ahead *from, kl_isometry_on opened,
                       const kl_wave *to, kl_err *err)
{
    kl_status st = KL_OK;
    const int right = direction > 0;
    const kl_layout *const in = &from->layout, *const lay = to->layout;
    const kl_isometry *const o = opened.iso;
    const kl_basis *const made = right ? &to->row->basis : &to->col->basis;
    kl_batch b;
    kl_batch_init(&b);
    for (int e = 0; e < made->nsec * nstate; e++) {
        const int sec = e / nstate, v = e % nstate, r = right ? in->pair[sec] : in->back[sec];
        if (r < 0 || (right ? lay->pair[sec] : lay->back[sec]) != o->sec[r]) continue;
        const int wide = o->enlarged->basis.dim[o->sec[r]], states = o->basis.dim[r], dim = made->dim[sec];
        const int64_t x = v * in->n + in->off[right ? sec : r];
        const int64_t y = v * lay->n + lay->off[right ? sec : o->sec[r]];
        kl_rec rec = {.kind = KL_REC_GEMM, .at_c = KL_AT_Y, .k = states, .c = y, .alpha = 1};
        if (right) {
            rec.tb = 1;
            rec.at_a = KL_AT_X, rec.a = x, rec.lda = dim;
            rec.at_b = KL_AT_RIGHT, rec.b = o->off[r], rec.ldb = wide;
            rec.m = rec.ldc = dim, rec.n = wide;
        } else {
            rec.at_a = KL_AT_LEFT, rec.a = o->off[r], rec.lda = wide;
            rec.at_b = KL_AT_X, rec.b = x, rec.ldb = states;
            rec.m = rec.ldc = wide, rec.n = dim;
        }
        KL_TRY(kl_batch_open_group(&b, y, (int64_t)dim * wide, err));
        KL_TRY(kl_batch_reserve(&b, 1, err));
        *kl_batch_push(&b) = rec;
        kl_batch_close_group(&b, 0);
    }
    clear_rest(ex, &b, nstate * lay->n, to->psi);
    b.nx = nstate * in->n, b.ny = nstate * lay->n;
    b.base[right ? KL_AT_RIGHT : KL_AT_LEFT] = opened.data;
    KL_TRY(kl_batch_run(&b, ex, from->psi, to->psi, err));
out:
    kl_batch_clear(&b);
    return st;
}
