/* See kronparts.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/kronparts.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

enum { LANES = KL_KRON_LANES };

/* ---------------------------------------------------------------- borders */

kl_kronborder kl_kronparts_tile(const kl_kron *k, int64_t place)
{
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        if (place < b->off + b->ntile * b->nl * LANES)
            return (kl_kronborder){i, (place - b->off) / (b->nl * LANES)};
    }
    return (kl_kronborder){k->nblock, 0};
}

/* Rows stay together by eight, as the loops take them. */
void kl_kronparts_rows(const kl_kron *k, int npiece, kl_kronborder *out)
{
    double all = 0.0, before = 0.0;
    for (int64_t i = 0; i < k->nblock; i++) all += (double)k->block[i].nl * (double)k->block[i].ntile;
    int p = 0;
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        const double own = (double)b->nl * (double)b->ntile;
        for (; p <= npiece && all * p / npiece < before + own; p++) {
            const int64_t at =
                LANES * (int64_t)floor((all * p / npiece - before) / (double)b->ntile / (double)LANES + 0.5);
            out[p] = (kl_kronborder){i, at < b->nl ? at : b->nl};
        }
        before += own;
    }
    for (; p <= npiece; p++) out[p] = (kl_kronborder){k->nblock, 0};
    out[npiece] = (kl_kronborder){k->nblock, 0};
}

/* ---------------------------------------------------------------- the halo */

static int64_t column(const kl_kron_op *o, int64_t p)
{
    return o->idx16 ? (int64_t)o->idx16[p] : (int64_t)o->idx32[p];
}

kl_status kl_kronhalo_find(const kl_kron *k, const kl_kronborder *from, const kl_kronborder *to,
                           kl_kronhalo *out, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t *base = NULL, n = 0;
    char *wanted = NULL;
    *out = (kl_kronhalo){0};
    KL_TRY(kl_alloc(&base, k->nblock + 1, KL_MEM_WORK, err));
    for (int64_t i = 0; i < k->nblock; i++) base[i + 1] = base[i] + k->block[i].nl;
    KL_TRY(kl_alloc(&wanted, base[k->nblock], KL_MEM_WORK, err));
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        const int64_t low = kl_kronborder_in(from, i, b->nl), high = kl_kronborder_in(to, i, b->nl);
        for (int64_t c = 0; c < b->ncross; c++)
            for (int64_t p = b->cross[c].a->ptr[low]; low < high && p < b->cross[c].a->ptr[high]; p++)
                wanted[base[b->cross[c].source] + column(b->cross[c].a, p)] = 1;
    }
    for (int64_t l = 0; l < base[k->nblock]; l++) n += wanted[l];
    KL_TRY(kl_alloc(&out->first, k->nblock + 1, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&out->row, n, KL_MEM_WORK, err));
    n = 0;
    for (int64_t i = 0; i < k->nblock; i++) {
        for (int64_t l = 0; l < k->block[i].nl; l++)
            if (wanted[base[i] + l]) out->row[n++] = (uint32_t)l;
        out->first[i + 1] = n;
    }
out:
    kl_free(&base);
    kl_free(&wanted);
    if (st != KL_OK) kl_kronhalo_clear(out);
    return st;
}

void kl_kronhalo_clear(kl_kronhalo *h)
{
    kl_free(&h->first);
    kl_free(&h->row);
}

/* ---------------------------------------------------------------- tables */

int kl_kronparts_has_right(const kl_kron *k)
{
    for (int64_t i = 0; i < k->nblock; i++)
        if (k->block[i].b || k->block[i].ncross > 0) return 1;
    return 0;
}

/* Work of pieces needs a number above 0 each. */
static void count(kl_kron *k)
{
    k->n = k->ntile_max = k->ntile_all = 0;
    for (int64_t i = 0; i < k->nblock; i++) {
        kl_kron_block *const b = &k->block[i];
        b->off = k->n;
        b->first_tile = k->ntile_all;
        b->cost_left = fmax(b->cost_left, 1.0);
        b->cost_right = fmax(b->cost_right, 1.0);
        k->n += b->ntile * b->nl * LANES;
        k->ntile_all += b->ntile;
        if (b->ntile > k->ntile_max) k->ntile_max = b->ntile;
    }
}

/* nrow rows of `width` numbers out of rows of `all`. */
static kl_status cut_columns(const double *from, int64_t nrow, int64_t all, int64_t first, int64_t width,
                             double **out, kl_err *err)
{
    const kl_status st = kl_alloc(out, nrow * width, KL_MEM_MISC, err);
    for (int64_t i = 0; i < nrow && st == KL_OK; i++)
        memcpy(*out + i * width, from + i * all + first, (size_t)width * sizeof(double));
    return st;
}

kl_status kl_kronparts_left(const kl_kron *k, const kl_kronborder *from, const kl_kronborder *to,
                            kl_kron **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_kron *part = NULL;
    KL_TRY(kl_alloc(&part, 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&part->block, k->nblock, KL_MEM_MISC, err));
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        const int64_t low = kl_kronborder_in(from, i, b->ntile), high = kl_kronborder_in(to, i, b->ntile),
                      first = low * LANES, width = (high - low) * LANES;
        if (low >= high) continue;
        kl_kron_block *const p = &part->block[part->nblock++];
        *p = (kl_kron_block){.nl = b->nl,
                             .nr = b->nr - first < width ? b->nr - first : width,
                             .ntile = high - low,
                             .a = b->a,
                             .dl = b->dl,
                             .nbit = b->nbit,
                             .mask = b->mask,
                             .nfeature = b->nfeature,
                             .fl = b->fl,
                             .cost_left = b->cost_left};
        KL_TRY(cut_columns(b->dr, 1, b->ntile * LANES, first, width, &p->dr, err));
        KL_TRY(cut_columns(b->bits, b->nbit, b->ntile * LANES, first, width, &p->bits, err));
        KL_TRY(cut_columns(b->fr, b->nfeature, b->ntile * LANES, first, width, &p->fr, err));
    }
    count(part);
    *out = part;
    part = NULL;
out:
    kl_kronparts_destroy(&part);
    return st;
}

/* Rows low to high of a, columns by their index in list[n]. */
static kl_status cut_rows(const kl_kron_op *a, int64_t low, int64_t high, const uint32_t *list, int64_t n,
                          kl_kron_op **out, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t first = a->ptr[low], nnz = a->ptr[high] - first;
    kl_kron_op *o = NULL;
    KL_TRY(kl_alloc(&o, 1, KL_MEM_MISC, err));
    *o = (kl_kron_op){.nrow = high - low, .ncol = n, .nnz = nnz, .unit = a->unit, .scale = a->scale};
    KL_TRY(kl_alloc(&o->ptr, o->nrow + 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&o->idx32, nnz, KL_MEM_MISC, err));
    for (int64_t l = 0; l <= o->nrow; l++) o->ptr[l] = (uint32_t)(a->ptr[low + l] - first);
    if (a->unit) {
        KL_TRY(kl_alloc(&o->minus, o->nrow, KL_MEM_MISC, err));
        for (int64_t l = 0; l < o->nrow; l++) o->minus[l] = (uint32_t)(a->minus[low + l] - first);
    } else {
        KL_TRY(kl_alloc(&o->coef, nnz, KL_MEM_MISC, err));
        memcpy(o->coef, a->coef + first, (size_t)nnz * sizeof(double));
    }
    for (int64_t p = 0; p < nnz; p++) {
        int64_t left = 0, right = n - 1;
        const int64_t wanted = column(a, first + p);
        while (left < right) {
            const int64_t mid = (left + right) / 2;
            if ((int64_t)list[mid] < wanted) left = mid + 1;
            else right = mid;
        }
        o->idx32[p] = (uint32_t)left;
    }
    *out = o;
    o = NULL;
out:
    kl_kron_op_destroy(&o);
    return st;
}

static kl_status cut_block(const kl_kron_block *b, int64_t low, int64_t high, const kl_kronhalo *halo,
                           const int64_t *source, kl_kron_block *p, kl_err *err)
{
    kl_status st = KL_OK;
    *p = (kl_kron_block){
        .nl = high - low, .nr = b->nr, .ntile = b->ntile, .b = b->b, .cost_right = b->cost_right};
    KL_TRY(kl_alloc(&p->cross, b->ncross, KL_MEM_MISC, err)); /* first: it says that dl is not borrowed */
    KL_TRY(kl_alloc(&p->dl, p->nl, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&p->dr, p->ntile * LANES, KL_MEM_MISC, err));
    for (int64_t c = 0; c < b->ncross; c++) {
        const kl_kron_cross *const g = &b->cross[c];
        const int64_t first = halo->first[g->source];
        if (g->a->ptr[low] == g->a->ptr[high]) continue;
        kl_kron_cross *const to = &p->cross[p->ncross];
        to->source = source[g->source];
        to->b = g->b;
        KL_TRY(cut_rows(g->a, low, high, halo->row + first, halo->first[g->source + 1] - first, &to->a, err));
        p->ncross++;
    }
out:
    return st;
}

kl_status kl_kronparts_right(const kl_kron *k, const kl_kronborder *from, const kl_kronborder *to,
                             const kl_kronhalo *halo, kl_kron **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_kron *part = NULL;
    int64_t *source = NULL, own = 0, at;
    *out = NULL;
    KL_TRY(kl_alloc(&part, 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&part->block, 2 * k->nblock, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&source, k->nblock, KL_MEM_WORK, err));
    for (int64_t i = 0; i < k->nblock; i++)
        own += kl_kronborder_in(from, i, k->block[i].nl) < kl_kronborder_in(to, i, k->block[i].nl);
    if (own == 0) goto out;
    at = own;
    for (int64_t i = 0; i < k->nblock; i++)
        if (halo->first[i + 1] > halo->first[i]) source[i] = at++;
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        const int64_t low = kl_kronborder_in(from, i, b->nl), high = kl_kronborder_in(to, i, b->nl);
        if (low < high) KL_TRY(cut_block(b, low, high, halo, source, &part->block[part->nblock++], err));
    }
    count(part);
    at = part->n;
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        const int64_t nl = halo->first[i + 1] - halo->first[i];
        if (nl == 0) continue;
        part->block[source[i]] = (kl_kron_block){.off = at, .nl = nl, .nr = b->nr, .ntile = b->ntile};
        at += b->ntile * nl * LANES;
        if (b->ntile > part->ntile_max) part->ntile_max = b->ntile;
    }
    *out = part;
    part = NULL;
out:
    kl_free(&source);
    kl_kronparts_destroy(&part);
    return st;
}

void kl_kronparts_wanted(const kl_kron *k, int64_t low, int64_t high, char *wanted)
{
    const kl_kron_op *const o = k->block->b;
    memset(wanted, 0, (size_t)k->block->ntile);
    for (int64_t r = low * LANES; r < high * LANES && r < o->nrow; r++)
        for (uint32_t p = o->ptr[r]; p < o->ptr[r + 1]; p++) wanted[column(o, p) / LANES] = 1;
    if (high > low) memset(wanted + low, 0, (size_t)(high - low));
}

/* Rows of b of the tiles [low, high); place[tile] of what they read. */
static kl_status cut_tiles(const kl_kron_op *b, int64_t low, int64_t high, const int64_t *place, int64_t ncol,
                           kl_kron_op **out, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t r0 = low * LANES, r1 = high * LANES < b->nrow ? high * LANES : b->nrow, first = b->ptr[r0],
                  nnz = b->ptr[r1] - first;
    kl_kron_op *o = NULL;
    KL_TRY(kl_alloc(&o, 1, KL_MEM_MISC, err));
    *o = (kl_kron_op){.nrow = r1 - r0, .ncol = ncol, .nnz = nnz, .unit = b->unit, .scale = b->scale};
    KL_TRY(kl_alloc(&o->ptr, o->nrow + 1, KL_MEM_MISC, err));
    if (ncol <= UINT16_MAX + 1) KL_TRY(kl_alloc(&o->idx16, nnz, KL_MEM_MISC, err));
    else KL_TRY(kl_alloc(&o->idx32, nnz, KL_MEM_MISC, err));
    for (int64_t r = 0; r <= o->nrow; r++) o->ptr[r] = (uint32_t)(b->ptr[r0 + r] - first);
    if (b->unit) {
        KL_TRY(kl_alloc(&o->minus, o->nrow, KL_MEM_MISC, err));
        for (int64_t r = 0; r < o->nrow; r++) o->minus[r] = (uint32_t)(b->minus[r0 + r] - first);
    } else {
        KL_TRY(kl_alloc(&o->coef, nnz, KL_MEM_MISC, err));
        memcpy(o->coef, b->coef + first, (size_t)nnz * sizeof(double));
    }
    for (int64_t p = 0; p < nnz; p++) {
        const int64_t c = column(b, first + p), to = place[c / LANES] * LANES + c % LANES;
        if (o->idx16) o->idx16[p] = (uint16_t)to;
        else o->idx32[p] = (uint32_t)to;
    }
    *out = o;
    o = NULL;
out:
    kl_kron_op_destroy(&o);
    return st;
}

kl_status kl_kronparts_beyond(const kl_kron *k, const kl_kronborder *from, const kl_kronborder *to,
                              int64_t nother, const int64_t *other, kl_kron **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_kron *part = NULL;
    int64_t *place = NULL;
    const kl_kron_block *const b = k->block;
    const int64_t low = kl_kronborder_in(from, 0, b->ntile), high = kl_kronborder_in(to, 0, b->ntile),
                  n = high - low;
    *out = NULL;
    KL_TRY(kl_kronparts_left(k, from, to, &part, err));
    if (n == 0) goto out;
    KL_TRY(kl_alloc(&place, b->ntile, KL_MEM_WORK, err));
    for (int64_t t = low; t < high; t++) place[t] = t - low;
    for (int64_t i = 0; i < nother; i++) place[other[i]] = n + i;
    KL_TRY(cut_tiles(b->b, low, high, place, (n + nother) * LANES, &part->block->b, err));
    part->block->cost_right = b->cost_right;
    *out = part;
    part = NULL;
out:
    kl_free(&place);
    kl_kronparts_destroy(&part);
    return st;
}

void kl_kronparts_beyond_destroy(kl_kron **part)
{
    if (*part && (*part)->nblock > 0) kl_kron_op_destroy(&(*part)->block->b);
    kl_kronparts_destroy(part);
}

/* What is not borrowed: of tiles dr, bits and fr; of rows the diagonal's zeros and the cut operators. */
void kl_kronparts_destroy(kl_kron **part)
{
    kl_kron *k = *part;
    if (!k) return;
    for (int64_t i = 0; k->block && i < k->nblock; i++) {
        kl_kron_block *const b = &k->block[i];
        if (b->cross) kl_free(&b->dl);
        kl_free(&b->dr);
        kl_free(&b->bits);
        kl_free(&b->fr);
        for (int64_t c = 0; c < b->ncross; c++) kl_kron_op_destroy(&b->cross[c].a);
        kl_free(&b->cross);
    }
    kl_free(&k->block);
    kl_free(part);
}
