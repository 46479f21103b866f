/* Lists of operation records.
   SPDX-License-Identifier: Apache-2.0 */
#include "record/record.h"
#include "base/mem.h"
#include <math.h>
#include <string.h>

void kl_batch_init(kl_batch *b) { *b = (kl_batch){0}; }

void kl_batch_clear(kl_batch *b)
{
    kl_free(&b->rec);
    kl_free(&b->group);
    kl_free(&b->order);
    kl_batch_init(b);
}

void kl_batch_reset(kl_batch *b)
{
    b->nrec = 0;
    b->ngroup = 0;
    b->nwork = 0;
    b->flop = b->bytes = 0;
}

kl_status kl_batch_reserve(kl_batch *b, int64_t n, kl_err *err)
{
    if (b->nrec + n <= b->cap_rec) return KL_OK;
    const int64_t cap = b->nrec + n > 2 * b->cap_rec ? b->nrec + n + 64 : 2 * b->cap_rec;
    const kl_status st = kl_realloc(&b->rec, cap, KL_MEM_RECORD, err);
    if (st == KL_OK) b->cap_rec = cap;
    return st;
}

kl_status kl_batch_open_group(kl_batch *b, int64_t y, int64_t ny, kl_err *err)
{
    if (b->ngroup == b->cap_group) {
        const int cap = 2 * b->cap_group + 16;
        const kl_status st = kl_realloc(&b->group, cap, KL_MEM_RECORD, err);
        if (st != KL_OK) return st;
        b->cap_group = cap;
    }
    b->group[b->ngroup++] = (kl_group){.first = b->nrec, .last = b->nrec, .y = y, .ny = ny};
    return KL_OK;
}

double kl_rec_flop(const kl_rec *r)
{
    return r->kind == KL_REC_GEMM ? 2.0 * r->m * r->n * r->k : 2.0 * r->m * r->n;
}

static double bytes_of(const kl_rec *r)
{
    const double mn = (double)r->m * r->n;
    const double in = r->kind == KL_REC_GEMM ? (double)r->m * r->k + (double)r->k * r->n : mn;
    return 8.0 * (in + (r->beta ? 2 : 1) * mn);
}

double kl_batch_mean_size(const kl_batch *b)
{
    double sum = 0, all = 0;
    for (int64_t i = 0; i < b->nrec; i++) {
        const kl_rec *const r = &b->rec[i];
        if (r->kind != KL_REC_GEMM) continue;
        sum += kl_rec_flop(r) * cbrt((double)r->m * r->n * r->k);
        all += kl_rec_flop(r);
    }
    return all > 0 ? sum / all : 0;
}

void kl_batch_close_group(kl_batch *b, int64_t nwork)
{
    kl_group *const g = &b->group[b->ngroup - 1];
    g->last = b->nrec;
    g->nwork = nwork;
    for (int64_t i = g->first; i < g->last; i++) {
        g->flop += kl_rec_flop(&b->rec[i]);
        b->bytes += bytes_of(&b->rec[i]);
    }
    b->flop += g->flop;
    if (nwork > b->nwork) b->nwork = nwork;
}

kl_status kl_batch_push_alone(kl_batch *b, int64_t ny, kl_rec r, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_batch_open_group(b, r.c, ny, err));
    KL_TRY(kl_batch_reserve(b, 1, err));
    *kl_batch_push(b) = r;
    kl_batch_close_group(b, 0);
out:
    return st;
}

int64_t kl_batch_written(const kl_batch *b)
{
    int64_t n = 0;
    for (int64_t i = 0; i < b->nrec; i++)
        if (b->rec[i].at_c == KL_AT_Y && !b->rec[i].beta) n += (int64_t)b->rec[i].m * b->rec[i].n;
    return n;
}

void kl_batch_count(kl_batch *b)
{
    b->flop = b->bytes = 0;
    for (int k = 0; k < b->ngroup; k++) {
        kl_group *const g = &b->group[k];
        g->flop = 0;
        for (int64_t i = g->first; i < g->last; i++) {
            g->flop += kl_rec_flop(&b->rec[i]);
            b->bytes += bytes_of(&b->rec[i]);
        }
        b->flop += g->flop;
    }
}

kl_status kl_batch_join(kl_batch *b, const kl_batch *more, int64_t y, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t from = b->nrec;
    KL_TRY(kl_batch_reserve(b, more->nrec, err));
    for (int64_t i = 0; i < more->nrec; i++) {
        kl_rec *const r = kl_batch_push(b);
        *r = more->rec[i];
        if (r->at_c == KL_AT_Y) r->c += y;
    }
    for (int i = 0; i < more->ngroup; i++) {
        const kl_group *const g = &more->group[i];
        KL_TRY(kl_batch_open_group(b, g->y + y, g->ny, err));
        b->group[b->ngroup - 1] = *g;
        b->group[b->ngroup - 1].first += from;
        b->group[b->ngroup - 1].last += from;
        b->group[b->ngroup - 1].y += y;
    }
    if (more->nwork > b->nwork) b->nwork = more->nwork;
    b->flop += more->flop;
    b->bytes += more->bytes;
out:
    return st;
}

/* Groups by falling flops, equal ones as they stand: digit by digit, as lists of molecules have a group for
   every operator and sector. Flops are whole numbers. */
static void sort_groups(const kl_batch *b, uint64_t most, int *order, int *other)
{
    enum {
        BITS = 11,
        DIGITS = 1 << BITS,
    };
    int count[DIGITS + 1];
    int *from = order, *to = other;
    for (int i = 0; i < b->ngroup; i++) order[i] = i;
    for (int shift = 0; shift < 64 && most >> shift > 0; shift += BITS) {
        memset(count, 0, sizeof count);
        for (int i = 0; i < b->ngroup; i++)
            count[((most - (uint64_t)b->group[i].flop) >> shift) % DIGITS + 1]++;
        for (int d = 0; d < DIGITS; d++) count[d + 1] += count[d];
        for (int i = 0; i < b->ngroup; i++)
            to[count[((most - (uint64_t)b->group[from[i]].flop) >> shift) % DIGITS]++] = from[i];
        int *const swap = from;
        from = to, to = swap;
    }
    if (from != order) memcpy(order, from, (size_t)b->ngroup * sizeof *order);
}

/* Most lists have few groups and do little: sorting must not take longer. */
static void order_few(kl_batch *b)
{
    for (int i = 0; i < b->ngroup; i++) {
        int at = i;
        for (; at > 0 && b->group[b->order[at - 1]].flop < b->group[i].flop; at--)
            b->order[at] = b->order[at - 1];
        b->order[at] = i;
    }
}

kl_status kl_batch_close(kl_batch *b, kl_err *err)
{
    enum { FEW = 48 };
    kl_status st = KL_OK;
    int *other = NULL;
    double most = 0;
    KL_TRY(kl_realloc(&b->order, b->ngroup, KL_MEM_RECORD, err));
    if (b->ngroup <= FEW) {
        order_few(b);
        goto out;
    }
    KL_TRY(kl_alloc(&other, b->ngroup, KL_MEM_RECORD, err));
    for (int i = 0; i < b->ngroup; i++) most = b->group[i].flop > most ? b->group[i].flop : most;
    sort_groups(b, (uint64_t)most, b->order, other);
out:
    kl_free(&other);
    return st;
}
