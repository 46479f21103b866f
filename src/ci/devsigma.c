/* y = H x with H = T_alpha + T_beta + V_ab, x a matrix X[ia][ib] of blocks by irrep, on a device.

   1. Y = X T_alpha + T_beta X, block by block, as one list of dense products. T of an irrep has as many
      elements as a block of a vector that has as many
      alpha as beta strings, so that it is kept dense whatever its zeros: tensor cores are that much faster.
   2. V_ab: the rows of one irrep, slab by slab. All rows of X that a pair of alpha orbitals leads to are
      fetched into the pair's panel; one product for each
      irrep of pairs with the integrals (pq|rs) makes panels of beta's pairs, of all rows of the slab at once;
      these land where beta's moves lead.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/devsigma.h"

#include <limits.h>
#include <string.h>

#include "base/mem.h"
#include "ci/devarrays.h"
#include "exec/moves.h"
#include "record/record.h"

enum {
    SLAB_DOUBLES = 1 << 24,  /* 128 MiB of panels before the product, and as much after it */
    MOST_UNITS = 1 << 25     /* rows of panels in a slab: kernels count threads in an int */
};

struct kl_devsigma {
    kl_exec *ex;
    const kl_slater *h;
    kl_slater_pairs pairs;
    int nirrep;
    kl_batch one;           /* 1. */
    kl_batch both[8];       /* 2. by irrep of the rows */
    kl_moves moves[8];
    int64_t slab[8];        /* rows of a slab; 0: nothing to do */
    kl_dptr panel, moved;   /* of a slab, before and after the product */
    kl_devarrays arrays;
};

static inline int low_bit(uint64_t x) { return __builtin_ctzll(x); }

static int64_t rows_of(const kl_strings *x, int g) { return x->first[g + 1] - x->first[g]; }

/* ---------------------------------------------------------------- 1. one spin */

/* As many electrons of each spin in the same orbitals: both have the same T, half of the core in each. */
static int same_spins(const kl_devsigma *s)
{
    return !s->h->f->unrestricted && s->h->s->nalpha == s->h->s->nbeta;
}

static kl_status make_one(kl_devsigma *s, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_detspace *const d = s->h->s;
    double *t = NULL;
    kl_dptr all;
    int64_t at[2][8] = {{0}}, n = 0, longest = 0;
    for (int spin = 0; spin < 2; spin++)
        for (int g = 0; g < s->nirrep; g++) {
            const int64_t k = rows_of(spin == 0 ? d->a : d->b, g);
            at[spin][g] = spin == 1 && same_spins(s) ? at[0][g] : n;
            if (spin == 0 || !same_spins(s)) n += k * k;
            if (k > longest) longest = k;
        }
    const int64_t room = s->ex->vt.room(s->ex);
    if (longest > INT32_MAX || n > room / 8)
        return kl_fail(err, KL_ENOMEM,
                       "executor %s: H of each spin alone takes %.3g MB (%lld strings in one irrep); there "
                       "is room for %.3g MB (--exec host keeps it sparse)",
                       s->ex->name, 8e-6 * (double)n, (long long)longest, 1e-6 * (double)room);
    KL_TRY(kl_devarrays_take(&s->arrays, n, &all, err));
    KL_TRY(kl_alloc(&t, longest * longest, KL_MEM_WORK, err));
    for (int spin = same_spins(s); spin < 2; spin++)
        for (int g = 0; g < s->nirrep; g++) {
            const int64_t k = rows_of(spin == 0 ? d->a : d->b, g);
            if (k == 0) continue;
            kl_slater_spin_block(s->h, spin, g, t);
            for (int64_t i = 0; i < k && same_spins(s); i++) t[i * (k + 1)] += 0.5 * s->h->f->core;
            KL_TRY(s->ex->vt.upload(s->ex, kl_dptr_at(all, at[spin][g]), t, k * k, err));
        }
    for (int g = 0; g < s->nirrep; g++) {
        const int64_t na = rows_of(d->a, g), nb = rows_of(d->b, g ^ d->target),
                      off = d->row_off[d->a->first[g]];
        if (na == 0 || nb == 0) continue;
        KL_TRY(kl_batch_open_group(&s->one, off, na * nb, err));
        KL_TRY(kl_batch_reserve(&s->one, 2, err));
        /* columns of a record's matrix are rows of X */
        *kl_batch_push(&s->one) = (kl_rec){.kind = KL_REC_GEMM,
                                           .at_a = KL_AT_X,
                                           .at_b = KL_AT_LEFT,
                                           .at_c = KL_AT_Y,
                                           .m = (int32_t)nb,
                                           .n = (int32_t)na,
                                           .k = (int32_t)na,
                                           .lda = (int32_t)nb,
                                           .ldb = (int32_t)na,
                                           .ldc = (int32_t)nb,
                                           .a = off,
                                           .b = at[0][g],
                                           .c = off,
                                           .alpha = 1.0};
        *kl_batch_push(&s->one) = (kl_rec){.kind = KL_REC_GEMM,
                                           .beta = 1,
                                           .at_a = KL_AT_LEFT,
                                           .at_b = KL_AT_X,
                                           .at_c = KL_AT_Y,
                                           .m = (int32_t)nb,
                                           .n = (int32_t)na,
                                           .k = (int32_t)nb,
                                           .lda = (int32_t)nb,
                                           .ldb = (int32_t)nb,
                                           .ldc = (int32_t)nb,
                                           .a = at[1][g ^ d->target],
                                           .b = off,
                                           .c = off,
                                           .alpha = 1.0};
        kl_batch_close_group(&s->one, 0);
    }
    s->one.nx = s->one.ny = d->n;
    s->one.base[KL_AT_LEFT] = all;
    s->one.lasting = 1;
    KL_TRY(kl_batch_close(&s->one, err));
    KL_TRY(s->ex->vt.batch_prepare(s->ex, &s->one, err));
out:
    kl_free(&t);
    return st;
}

/* ---------------------------------------------------------------- 2. both spins */

static int64_t pair_of(const kl_devsigma *s, const int *first, int64_t pq)
{
    return first[s->pairs.irrep[pq]] + s->pairs.local[pq];
}

/* from: alpha's moves, by row and pair. */
static kl_status send_moves(kl_devsigma *s, int g, const int *first, kl_moves *m, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_strings *const a = s->h->s->a;
    int32_t *from = NULL;
    uintptr_t at;
    KL_TRY(kl_alloc(&from, m->nrow * m->npair, KL_MEM_WORK, err));
    for (int64_t i = 0; i < m->nrow; i++) {
        const int64_t ia = a->first[g] + i;
        int32_t *const row = from + i * m->npair;
        for (uint64_t o = a->bits[ia]; o != 0; o &= o - 1)
            row[pair_of(s, first, kl_pair(low_bit(o), low_bit(o)))] = (int32_t)(ia + 1);
        for (int64_t k = a->move_off[ia]; k < a->move_off[ia + 1]; k++) {
            const int32_t to = a->move[k].to + 1;
            row[pair_of(s, first, a->move[k].pair)] = a->move[k].sign < 0 ? -to : to;
        }
    }
    KL_TRY(kl_devarrays_send(&s->arrays, from, 4 * m->nrow * m->npair, &at, err));
    m->from = (const int32_t *)at;
out:
    kl_free(&from);
    return st;
}

/* land: beta's moves, by string, from the lowest orbital and to the lowest one first: all strings have as
   many, and neighbours then take theirs from the same panel, side by side. */
static kl_status send_landings(kl_devsigma *s, int gb, const int *first, const int64_t *panel,
                               const int32_t *length, kl_moves *m, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_strings *const b = s->h->s->b;
    kl_landing *land = NULL;
    uintptr_t at;
    KL_TRY(kl_alloc(&land, (int64_t)m->nmove * m->nb, KL_MEM_WORK, err));
    for (int64_t i = 0; i < m->nb; i++) {
        const int64_t ib = b->first[gb] + i;
        const uint64_t x = b->bits[ib];
        kl_landing *to = land + i;
        for (uint64_t o = x; o != 0; o &= o - 1, to += m->nb) {
            const int64_t p = pair_of(s, first, kl_pair(low_bit(o), low_bit(o)));
            *to = (kl_landing){(int32_t)(panel[p] + i), length[p]};
        }
        for (int64_t j = b->move_off[ib]; j < b->move_off[ib + 1]; j++) {
            const kl_move *const v = &b->move[j];
            const int64_t p = pair_of(s, first, v->pair);
            const int hole = __builtin_popcountll(x & ((UINT64_C(1) << v->p) - 1)),
                      place = __builtin_popcountll(~x & ((UINT64_C(1) << v->q) - 1));
            to[(hole * (b->norb - b->nelec) + place) * m->nb] =
                (kl_landing){(int32_t)(panel[p] + v->to - b->first[b->irrep[v->to]]),
                             v->sign < 0 ? -length[p] : length[p]};
        }
    }
    KL_TRY(kl_devarrays_send(&s->arrays, land, (int64_t)sizeof(*land) * m->nmove * m->nb, &at, err));
    m->land = (const kl_landing *)at;
out:
    kl_free(&land);
    return st;
}

/* Tables and products for the rows of irrep g. v: where the integrals of an irrep of pairs are. */
static kl_status make_both(kl_devsigma *s, int g, int64_t slab, kl_dptr integrals, const int64_t *v,
                           const int64_t *row_off, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_detspace *const d = s->h->s;
    const int gb = g ^ d->target;
    kl_moves *const m = &s->moves[g];
    kl_batch *const list = &s->both[g];
    int first[9] = {0};
    int64_t *panel = NULL, at = 0, width = 0;
    int32_t *length = NULL;
    uintptr_t there;
    *m = (kl_moves){.nrow = rows_of(d->a, g),
                    .off = d->row_off[d->a->first[g]],
                    .npair = (int32_t)s->h->f->npair,
                    .nb = (int32_t)rows_of(d->b, gb),
                    .nmove = d->nbeta * (d->norb - d->nbeta + 1),
                    .row_off = row_off};
    if (m->nrow == 0 || m->nb == 0 || d->nalpha == 0 || d->nbeta == 0) return KL_OK;
    for (int x = 0; x < s->nirrep; x++) {
        first[x + 1] = first[x] + s->pairs.n[x];
        width += s->pairs.n[x] * rows_of(d->b, gb ^ x);
    }
    /* slabs of equal height */
    int64_t most = slab / width;
    if (most > MOST_UNITS / m->npair) most = MOST_UNITS / m->npair;
    if (most < 1) most = 1;
    const int64_t nslab = (m->nrow + most - 1) / most, rows = (m->nrow + nslab - 1) / nslab;
    if (width > INT32_MAX / rows)
        return kl_fail(
            err, KL_EINPUT,
            "executor %s: a row has %d strings and %d orbital pairs: more than its tables can count",
            s->ex->name, m->nb, m->npair);
    s->slab[g] = rows;
    KL_TRY(kl_alloc(&panel, m->npair, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&length, m->npair, KL_MEM_WORK, err));
    for (int x = 0; x < s->nirrep; x++) {
        const int64_t n = rows_of(d->b, gb ^ x), np = s->pairs.n[x];
        for (int64_t p = first[x]; p < first[x + 1]; p++) {
            panel[p] = at + (p - first[x]) * rows * n;
            length[p] = (int32_t)n;
        }
        if (n > 0 && np > 0) {
            KL_TRY(kl_batch_open_group(list, at, np * rows * n, err));
            KL_TRY(kl_batch_reserve(list, 1, err));
            *kl_batch_push(list) = (kl_rec){.kind = KL_REC_GEMM,
                                            .tb = 1,
                                            .at_a = KL_AT_X,
                                            .at_b = KL_AT_LEFT,
                                            .at_c = KL_AT_Y,
                                            .m = (int32_t)(rows * n),
                                            .n = (int32_t)np,
                                            .k = (int32_t)np,
                                            .lda = (int32_t)(rows * n),
                                            .ldb = (int32_t)np,
                                            .ldc = (int32_t)(rows * n),
                                            .a = at,
                                            .b = v[x],
                                            .c = at,
                                            .alpha = 1.0};
            kl_batch_close_group(list, 0);
        }
        at += np * rows * n;
    }
    list->nx = list->ny = at;
    list->base[KL_AT_LEFT] = integrals;
    list->lasting = 1;
    KL_TRY(kl_batch_close(list, err));
    KL_TRY(s->ex->vt.batch_prepare(s->ex, list, err));
    KL_TRY(kl_devarrays_send(&s->arrays, panel, 8 * m->npair, &there, err));
    m->panel = (const int64_t *)there;
    KL_TRY(kl_devarrays_send(&s->arrays, length, 4 * m->npair, &there, err));
    m->length = (const int32_t *)there;
    KL_TRY(send_moves(s, g, first, m, err));
    KL_TRY(send_landings(s, gb, first, panel, length, m, err));
    KL_TRY(kl_devarrays_send(&s->arrays, m, sizeof(*m), &there, err));
    m->self = (const kl_moves *)there;
out:
    kl_free(&panel);
    kl_free(&length);
    return st;
}

/* ---------------------------------------------------------------- all of it */

kl_status kl_devsigma_create(kl_exec *ex, const kl_slater *h, int64_t slab, kl_devsigma **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_devsigma *s = NULL;
    kl_dptr integrals;
    int64_t v[8] = {0}, n = 0, panels = 0;
    uintptr_t row_off;
    *out = NULL;
    if (slab <= 0) { /* both panels take an eighth of the device at most */
        const int64_t part = ex->vt.room(ex) / 8 / (2 * (int64_t)sizeof(double));
        slab = part < SLAB_DOUBLES ? part : SLAB_DOUBLES;
    }
    KL_TRY(kl_alloc(&s, 1, KL_MEM_MISC, err));
    s->ex = s->arrays.ex = ex;
    s->h = h;
    s->nirrep = h->s->nirrep;
    KL_TRY(kl_slater_pairs_make(h->f, &s->pairs, err));
    KL_TRY(make_one(s, err));
    for (int x = 0; x < s->nirrep; x++) {
        v[x] = n;
        n += (int64_t)s->pairs.n[x] * s->pairs.n[x];
    }
    KL_TRY(kl_devarrays_take(&s->arrays, n, &integrals, err));
    for (int x = 0; x < s->nirrep; x++)
        if (s->pairs.n[x] > 0)
            KL_TRY(ex->vt.upload(ex, kl_dptr_at(integrals, v[x]), s->pairs.v[x],
                                 (int64_t)s->pairs.n[x] * s->pairs.n[x], err));
    KL_TRY(kl_devarrays_send(&s->arrays, h->s->row_off, 8 * h->s->a->n, &row_off, err));
    for (int g = 0; g < s->nirrep; g++) {
        KL_TRY(make_both(s, g, slab, integrals, v, (const int64_t *)row_off, err));
        if (s->both[g].nx > panels) panels = s->both[g].nx;
    }
    KL_TRY(kl_devarrays_take(&s->arrays, panels, &s->panel, err));
    KL_TRY(kl_devarrays_take(&s->arrays, panels, &s->moved, err));
    *out = s;
    s = NULL;
out:
    kl_devsigma_destroy(&s);
    return st;
}

void kl_devsigma_destroy(kl_devsigma **sigma)
{
    kl_devsigma *const s = *sigma;
    if (s == NULL) return;
    s->ex->vt.batch_release(s->ex, &s->one);
    kl_batch_clear(&s->one);
    for (int g = 0; g < 8; g++) {
        s->ex->vt.batch_release(s->ex, &s->both[g]);
        kl_batch_clear(&s->both[g]);
    }
    kl_devarrays_clear(&s->arrays);
    kl_slater_pairs_clear(&s->pairs);
    kl_free(sigma);
}

int64_t kl_devsigma_flops(const kl_devsigma *s)
{
    double flop = s->one.flop;
    for (int g = 0; g < s->nirrep; g++)
        if (s->slab[g] > 0) flop += s->both[g].flop / (double)s->slab[g] * (double)s->moves[g].nrow;
    return (int64_t)flop;
}

kl_status kl_devsigma_apply(kl_devsigma *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy,
                            kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = s->ex;
    const int ahead = ex->ahead;
    ex->ahead = 1; /* the order of things on the device is all that matters here */
    for (int k = 0; k < nvec; k++) {
        const kl_dptr xk = kl_dptr_at(x, k * ldx), yk = kl_dptr_at(y, k * ldy);
        KL_TRY(ex->vt.batch_apply(ex, &s->one, xk, yk, err));
        for (int g = 0; g < s->nirrep; g++) {
            const kl_moves *const m = &s->moves[g];
            for (int64_t row = 0; s->slab[g] > 0 && row < m->nrow; row += s->slab[g]) {
                const int64_t n = m->nrow - row < s->slab[g] ? m->nrow - row : s->slab[g];
                KL_TRY(ex->vt.moves_fetch(ex, m, row, n, xk, s->panel, err));
                KL_TRY(ex->vt.batch_apply(ex, &s->both[g], s->panel, s->moved, err));
                KL_TRY(ex->vt.moves_land(ex, m, row, n, s->moved, yk, err));
            }
        }
    }
out:
    ex->ahead = ahead;
    return st;
}
