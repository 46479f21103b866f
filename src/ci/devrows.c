/* See devrows.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/devrows.h"

#include <limits.h>
#include <string.h>

#include "base/mem.h"
#include "ci/devarrays.h"
#include "exec/dets.h"

/* A table of places takes at most as much as this many vectors, or some memory that is nothing. */
enum {
    PLACE_VECTORS = 4,
    PLACE_BYTES = 1 << 20,
};

struct kl_devrows {
    kl_exec *ex;
    kl_devarrays arrays;
    kl_dets d;
};

/* Sends an array of the host's and keeps its address in a field, whatever that points to. */
#define SEND(s, from, count, field)                                                                    \
    do {                                                                                               \
        uintptr_t there;                                                                               \
        KL_TRY(kl_devarrays_send(&(s)->arrays, from, (int64_t)sizeof *(from) * (count), &there, err)); \
        (field) = (void *)there;                                                                       \
    } while (0)

static int64_t beta_of(const kl_detspace *s, int64_t ia, int64_t k)
{
    return s->full ? s->row_first[ia] + (k - s->row_off[ia]) : s->row_beta[k];
}

static int64_t position_of(const kl_detspace *s, int64_t k) { return s->full ? k : s->row_pos[k]; }

/* ---------------------------------------------------------------- strings */

static kl_status send_moves(kl_devrows *s, const kl_strings *t, const double *single, kl_dets_strings *out,
                            kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = t->move_off[t->n];
    kl_dets_move *move = NULL;
    KL_TRY(kl_alloc(&move, n + 1, KL_MEM_WORK, err));
    for (int64_t m = 0; m < n; m++) {
        const kl_move *const v = &t->move[m];
        move[m] = (kl_dets_move){single[m], v->to, v->sign < 0 ? ~(int32_t)v->pair : v->pair};
    }
    SEND(s, move, n, out->move);
    SEND(s, t->move_to, t->nirrep * t->n + 1, out->move_to);
out:
    kl_free(&move);
    return st;
}

static kl_status send_twos(kl_devrows *s, const kl_slater *h, int spin, int64_t nstring, kl_dets_strings *out,
                           kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = h->two_off[spin][nstring];
    kl_dets_two *two = NULL;
    KL_TRY(kl_alloc(&two, n + 1, KL_MEM_WORK, err));
    for (int64_t k = 0; k < n; k++) two[k] = (kl_dets_two){h->two[spin][k], h->two_to[spin][k]};
    SEND(s, two, n, out->two);
    SEND(s, h->two_off[spin], nstring + 1, out->two_off);
out:
    kl_free(&two);
    return st;
}

static kl_status send_strings(kl_devrows *s, const kl_slater *h, int spin, kl_dets_strings *out, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_strings *const t = spin == 0 ? h->s->a : h->s->b;
    SEND(s, t->bits, t->n, out->bits);
    SEND(s, t->irrep, t->n, out->irrep);
    KL_TRY(send_moves(s, t, h->single[spin], out, err));
    KL_TRY(send_twos(s, h, spin, t->n, out, err));
out:
    return st;
}

/* ---------------------------------------------------------------- rows */

static int same_row(const kl_detspace *d, const int32_t *beta, int64_t ia, int64_t ja)
{
    const int64_t n = d->row_off[ia + 1] - d->row_off[ia];
    return n == d->row_off[ja + 1] - d->row_off[ja] &&
           (n == 0 || memcmp(beta + d->row_off[ia], beta + d->row_off[ja], (size_t)n * sizeof *beta) == 0);
}

/* FNV-1a over beta strings. */
static uint64_t row_hash(const int32_t *beta, int64_t n)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (int64_t k = 0; k < n; k++) h = (h ^ (uint32_t)beta[k]) * UINT64_C(1099511628211);
    return h ^ h >> 32;
}

/* kind[alpha strings]: rows with the same beta strings have the same one; first[kind]: one of its rows.
   Returns their number, 0 where it is above `most'. */
static int64_t find_kinds(const kl_detspace *d, const int32_t *beta, int64_t most, int32_t *kind,
                          int64_t *first, int32_t *table, uint64_t mask)
{
    int64_t n = 0;
    for (int64_t ia = 0; ia < d->a->n; ia++) {
        uint64_t at = row_hash(beta + d->row_off[ia], d->row_off[ia + 1] - d->row_off[ia]) & mask;
        while (table[at] != 0 && !same_row(d, beta, ia, first[table[at] - 1])) at = (at + 1) & mask;
        if (table[at] == 0) {
            if (n == most) return 0;
            first[n] = ia;
            table[at] = (int32_t)++n;
        }
        kind[ia] = table[at] - 1;
    }
    return n;
}

/* Tables of places where there are few kinds of rows; else rows are searched. */
static kl_status send_places(kl_devrows *s, const kl_detspace *d, const int32_t *beta, kl_err *err)
{
    kl_status st = KL_OK;
    int32_t *kind = NULL, *table = NULL, *place = NULL;
    int64_t *first = NULL;
    uint64_t mask = 1;
    const int64_t each = d->b->n * (int64_t)sizeof *place,
                  vectors = PLACE_VECTORS * d->n * (int64_t)sizeof(double),
                  room = vectors > PLACE_BYTES ? vectors : PLACE_BYTES,
                  most = room / each < d->a->n ? room / each : d->a->n;
    while ((int64_t)mask < 2 * d->a->n) mask = 2 * mask + 1;
    KL_TRY(kl_alloc(&kind, d->a->n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&first, most + 1, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&table, (int64_t)mask + 1, KL_MEM_WORK, err));
    const int64_t n = find_kinds(d, beta, most, kind, first, table, mask);
    if (n == 0) goto out;
    KL_TRY(kl_alloc(&place, n * d->b->n, KL_MEM_WORK, err));
    for (int64_t i = 0; i < n * d->b->n; i++) place[i] = -1;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = d->row_off[first[i]]; k < d->row_off[first[i] + 1]; k++)
            place[i * d->b->n + beta[k]] = (int32_t)(k - d->row_off[first[i]]);
    SEND(s, kind, d->a->n, s->d.kind);
    SEND(s, place, n * d->b->n, s->d.place);
    s->d.nkind = (int32_t)n;
out:
    kl_free(&kind);
    kl_free(&first);
    kl_free(&table);
    kl_free(&place);
    return st;
}

/* Which elements are made, and their rows. */
static kl_status send_made(kl_devrows *s, const kl_detspace *d, const uint8_t *stored, kl_err *err)
{
    kl_status st = KL_OK;
    int32_t *alpha = NULL, *made = NULL;
    int64_t n = 0;
    KL_TRY(kl_alloc(&alpha, d->n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&made, d->n, KL_MEM_WORK, err));
    for (int64_t ia = 0; ia < d->a->n; ia++)
        for (int64_t k = d->row_off[ia]; k < d->row_off[ia + 1] && !(stored && stored[ia]); k++) {
            alpha[n] = (int32_t)ia;
            made[n++] = (int32_t)k;
        }
    s->d.nrow = n;
    SEND(s, alpha, n, s->d.alpha);
    if (n < d->n) SEND(s, made, n, s->d.made);
out:
    kl_free(&alpha);
    kl_free(&made);
    return st;
}

static kl_status send_rows(kl_devrows *s, const kl_slater *h, const double *diagonal, const uint8_t *stored,
                           int search, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_detspace *const d = h->s;
    int32_t *beta = NULL;
    double *by_rows = NULL;
    kl_dptr x;
    KL_TRY(kl_alloc(&beta, d->n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&by_rows, d->n, KL_MEM_WORK, err));
    for (int64_t ia = 0; ia < d->a->n; ia++)
        for (int64_t k = d->row_off[ia]; k < d->row_off[ia + 1]; k++) {
            beta[k] = (int32_t)beta_of(d, ia, k);
            by_rows[k] = diagonal[position_of(d, k)];
        }
    SEND(s, d->row_off, d->a->n + 1, s->d.row_off);
    SEND(s, beta, d->n, s->d.beta);
    SEND(s, by_rows, d->n, s->d.diagonal);
    if (!d->full) SEND(s, d->row_pos, d->n, s->d.position);
    if (!search) KL_TRY(send_places(s, d, beta, err));
    KL_TRY(send_made(s, d, stored, err));
    KL_TRY(kl_devarrays_take(&s->arrays, d->n, &x, err));
    s->d.x = (double *)x.addr;
out:
    kl_free(&beta);
    kl_free(&by_rows);
    return st;
}

/* ---------------------------------------------------------------- the whole */

kl_status kl_devrows_create(kl_exec *ex, const kl_slater *h, const double *diagonal, const uint8_t *stored,
                            int search, kl_devrows **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_devrows *s = NULL;
    const kl_detspace *const d = h->s;
    *out = NULL;
    if (!ex->vt.dets_apply)
        return kl_fail(err, KL_EABSENT, "executor %s has no kernels for elements as they are needed",
                       ex->name);
    if (d->n > INT_MAX || d->a->n > INT_MAX || d->b->n > INT_MAX)
        return kl_fail(err, KL_ENOMEM, "executor %s: %lld determinants; 2^31 - 1 are supported", ex->name,
                       (long long)d->n);
    KL_TRY(kl_alloc(&s, 1, KL_MEM_MISC, err));
    s->ex = s->arrays.ex = ex;
    s->d = (kl_dets){
        .n = d->n, .nbeta = d->b->n, .nirrep = d->nirrep, .target = d->target, .npair = (int32_t)h->f->npair};
    SEND(s, h->f->eri[2], h->f->npair * h->f->npair, s->d.v);
    KL_TRY(send_strings(s, h, 0, &s->d.a, err));
    KL_TRY(send_strings(s, h, 1, &s->d.b, err));
    KL_TRY(send_rows(s, h, diagonal, stored, search, err));
    const kl_dets *const d_there = &s->d;
    SEND(s, d_there, 1, s->d.self);
    *out = s;
    s = NULL;
out:
    kl_devrows_destroy(&s);
    return st;
}

void kl_devrows_destroy(kl_devrows **rows)
{
    kl_devrows *const s = *rows;
    if (s == NULL) return;
    kl_devarrays_clear(&s->arrays);
    kl_free(rows);
}

kl_status kl_devrows_apply(kl_devrows *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy,
                           kl_err *err)
{
    kl_status st = KL_OK;
    for (int v = 0; v < nvec && s->d.nrow > 0; v++)
        KL_TRY(s->ex->vt.dets_apply(s->ex, &s->d, kl_dptr_at(x, v * ldx), kl_dptr_at(y, v * ldy), err));
out:
    return st;
}
