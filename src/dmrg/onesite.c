/* One-site centres: see onesite.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/onesite.h"
#include "base/mem.h"
#include "dmrg/renorm.h"
#include <string.h>

/* A block as if it were an enlarged one: its operators have one part each. */
static kl_status bare_basis(const kl_basis *b, kl_enlarged **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_enlarged *e = NULL;
    KL_TRY(kl_alloc(&e, 1, KL_MEM_MISC, err));
    KL_TRY(kl_basis_copy(b, &e->basis, err));
out:
    if (st != KL_OK) kl_enlarged_destroy(&e);
    *out = e;
    return st;
}

static kl_status bare_operators(const kl_block *b, const kl_enlarged *bare, kl_bigop **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_bigop *g = NULL;
    const int n = b->basis.nsec;
    const int64_t all = (int64_t)b->nop * n;
    KL_TRY(kl_alloc(&g, 1, KL_MEM_RECORD, err));
    *g = (kl_bigop){.block = b, .enlarged = bare, .cut = b->cut, .nop = b->nop};
    KL_TRY(kl_alloc(&g->dst, all, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&g->src, all, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&g->first, all + 1, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&g->part, all, KL_MEM_RECORD, err));
    g->cap_part = all;
    memcpy(g->dst, b->dst, (size_t)all * sizeof *g->dst);
    memcpy(g->src, b->src, (size_t)all * sizeof *g->src);
    for (int64_t at = 0; at < all; at++) {
        const int from = (int)(at % n), to = b->dst[at];
        g->first[at] = g->npart;
        if (to < 0) continue;
        g->part[g->npart++] = (kl_part){.nrow = b->basis.dim[to],
                                        .ncol = b->basis.dim[from],
                                        .ld = b->basis.dim[to],
                                        .off = b->off[at],
                                        .coef = 1};
    }
    g->first[all] = g->npart;
out:
    if (st != KL_OK) kl_bigop_destroy(&g);
    *out = g;
    return st;
}

/* The wavefunctions from one form to the other: psi times the isometry of the absorbed site, or its
   transpose. */
static kl_status turn(const kl_engine *e, const kl_onesite *one, const kl_layout *lay1, int back, kl_dptr from,
                      kl_dptr to, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_isometry *const iso = one->iso;
    const kl_layout *const lay2 = &one->layout;
    const kl_basis *const other = one->side == KL_LEFT ? &e->col->basis : &e->row->basis;
    const int left = one->side == KL_LEFT;
    kl_batch q;
    kl_batch_init(&q);
    for (int v = 0; v < e->nstate; v++)
        for (int k = 0; k < iso->basis.nsec; k++) {
            const int c = iso->sec[k], wide = iso->enlarged->basis.dim[c], few = iso->basis.dim[k];
            /* row sectors of the segment in the two forms */
            const int i1 = left ? k : lay1->back[k], i2 = left ? c : lay2->back[c];
            if (i1 < 0 || i2 < 0 || lay1->pair[i1] < 0 || lay2->pair[i2] < 0) continue;
            const int high = other->dim[left ? lay1->pair[i1] : i1];
            const int64_t at1 = v * lay1->n + lay1->off[i1], at2 = v * lay2->n + lay2->off[i2];
            const int lda = left ? (back ? few : wide) : high, ldc = left ? (back ? wide : few) : high;
            const int out = back ? wide : few, in = back ? few : wide;
            KL_TRY(kl_batch_open_group(&q, back ? at2 : at1, (int64_t)high * out, err));
            KL_TRY(kl_batch_reserve(&q, 1, err));
            *kl_batch_push(&q) = (kl_rec){.kind = KL_REC_GEMM,
                                          .ta = (uint8_t)(left && !back),
                                          .tb = (uint8_t)(!left && back),
                                          .at_a = left ? KL_AT_LEFT : KL_AT_X,
                                          .at_b = left ? KL_AT_X : KL_AT_LEFT,
                                          .at_c = KL_AT_Y,
                                          .m = left ? out : high,
                                          .n = left ? high : out,
                                          .k = in,
                                          .lda = left ? wide : lda,
                                          .ldb = left ? lda : wide,
                                          .ldc = ldc,
                                          .a = left ? iso->off[k] : (back ? at1 : at2),
                                          .b = left ? (back ? at1 : at2) : iso->off[k],
                                          .c = back ? at2 : at1,
                                          .alpha = 1};
            kl_batch_close_group(&q, 0);
        }
    e->ex->vt.fill(e->ex, e->nstate * (back ? lay2->n : lay1->n), 0.0, to);
    q.nx = e->nstate * (back ? lay1->n : lay2->n);
    q.ny = e->nstate * (back ? lay2->n : lay1->n);
    q.base[KL_AT_LEFT] = one->data;
    KL_TRY(kl_batch_run(&q, e->ex, from, to, err));
out:
    kl_batch_clear(&q);
    return st;
}

static void clear(const kl_engine *e, kl_onesite **pone)
{
    kl_onesite *const one = *pone;
    if (!one) return;
    kl_enlarged_destroy(&one->enlarged);
    kl_layout_clear(&one->layout);
    kl_isometry_destroy(&one->iso);
    e->ex->vt.release(e->ex, &one->data);
    kl_block_destroy(&one->block);
    kl_free(pone);
}

void kl_onesite_destroy(kl_engine *e) { clear(e, &e->one); }

kl_status kl_onesite_absorb(kl_engine *e, int direction, int more, uint64_t seed, kl_expand_info *info,
                            kl_err *err)
{
    kl_status st = KL_OK;
    const kl_side side = direction > 0 ? KL_RIGHT : KL_LEFT;
    kl_onesite *one = NULL;
    kl_enlarged *bare = NULL;
    kl_bigop *op = NULL;
    kl_layout lay = {0};
    kl_dptr psi = {0};
    *info = (kl_expand_info){0};
    if (e->one || !e->warm || e->warm_side != side) return KL_OK;
    KL_TRY(kl_engine_make_operators(e, err));
    KL_TRY(kl_alloc(&one, 1, KL_MEM_MISC, err));
    one->side = side;
    const kl_bigop *const far = side == KL_LEFT ? e->row_op : e->col_op;
    const kl_expand_opts o = {.side = side,
                              .wave = kl_engine_wave(e),
                              .nstate = e->nstate,
                              .near = side == KL_LEFT ? e->col_op : e->row_op,
                              .far = far,
                              .known = {e->warm, e->warm_data},
                              .more = more,
                              .seed = seed};
    KL_TRY(kl_expand(e->ex, &o, &one->iso, &one->data, info, err));
    KL_TRY(kl_block_grow(e->ex, far, one->iso, one->data, &one->block, err));
    KL_TRY(bare_basis(&one->block->basis, &bare, err));
    KL_TRY(bare_operators(one->block, bare, &op, err));
    KL_TRY(kl_layout_create(e->terms->model, side == KL_LEFT ? &bare->basis : &e->row->basis,
                            side == KL_LEFT ? &e->col->basis : &bare->basis, e->target, &lay, err));
    KL_TRY(e->ex->vt.alloc(e->ex, lay.n * e->nstate, &psi, err));
    one->layout = e->layout;
    st = turn(e, one, &lay, 0, e->psi, psi, err);
    one->layout = (kl_layout){0};
    if (st != KL_OK) goto out;
    /* nothing fails from here on */
    kl_enlarged **const basis = side == KL_LEFT ? &e->row : &e->col;
    kl_bigop **const ops = side == KL_LEFT ? &e->row_op : &e->col_op;
    kl_bigop_destroy(ops);
    one->enlarged = *basis;
    one->layout = e->layout;
    *basis = bare, *ops = op, e->layout = lay;
    bare = NULL, op = NULL, lay = (kl_layout){0};
    e->ex->vt.release(e->ex, &e->psi);
    e->psi = psi;
    psi.addr = 0;
    e->one = one;
    one = NULL;
out:
    clear(e, &one);
    kl_bigop_destroy(&op);
    kl_enlarged_destroy(&bare);
    kl_layout_clear(&lay);
    e->ex->vt.release(e->ex, &psi);
    return st;
}

kl_status kl_onesite_restore(kl_engine *e, kl_err *err)
{
    kl_status st = KL_OK;
    kl_onesite *const one = e->one;
    kl_dptr psi = {0};
    if (!one) return KL_OK;
    KL_TRY(e->ex->vt.alloc(e->ex, one->layout.n * e->nstate, &psi, err));
    KL_TRY(turn(e, one, &e->layout, 1, e->psi, psi, err));
    kl_bigop_destroy(&e->row_op);
    kl_bigop_destroy(&e->col_op);
    kl_enlarged **const basis = one->side == KL_LEFT ? &e->row : &e->col;
    kl_enlarged_destroy(basis);
    kl_layout_clear(&e->layout);
    *basis = one->enlarged, e->layout = one->layout;
    one->enlarged = NULL, one->layout = (kl_layout){0};
    e->ex->vt.release(e->ex, &e->psi);
    e->psi = psi;
    psi.addr = 0;
    clear(e, &e->one);
out:
    e->ex->vt.release(e->ex, &psi);
    return st;
}
