/* Shares of a list, joined in their order: see tileshares.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "device/tileshares.h"
#include "base/par.h"
#include "device/tilecells.h"
#include <string.h>

enum {
    WORTH = 3000, /* records from which threads are woken */
    EACH = 4,     /* shares of a thread: they differ in what they cost */
};

int kl_tile_hands(int nthread, int64_t nrec) { return nrec >= WORTH && nthread > 1 ? nthread : 1; }

typedef struct share {
    kl_tile_plan_maker own;
    int64_t from, to; /* groups, or outputs */
    int nsequential;
    int64_t dest, use, link, output; /* what the shares before have */
    kl_status status;
    kl_err error;
} share;

typedef struct sharing {
    kl_tile_plan_maker *s;
    const kl_batch *b;
    uint64_t work;
    share *share;
} sharing;

void kl_tile_maker_clear(kl_tile_plan_maker *s)
{
    kl_free(&s->dest);
    kl_free(&s->use);
    kl_free(&s->link);
    kl_free(&s->output);
    kl_free(&s->sorted);
    kl_free(&s->live);
    kl_free(&s->span);
    kl_free(&s->border);
}

static kl_status find_groups(kl_tile_plan_maker *s, const kl_batch *b, int64_t from, int64_t to,
                             int *nsequential, kl_err *err)
{
    kl_status st = KL_OK;
    for (int64_t g = from; g < to; g++) {
        const int64_t ndest = s->ndest, nuse = s->nuse;
        int foreseen;
        KL_TRY(kl_tile_outputs_find(s, b, (int)g, &foreseen, err));
        if (foreseen && !kl_tile_cells_tangled(s, b, ndest)) continue;
        s->ndest = ndest;
        s->nuse = nuse;
        ++*nsequential;
        KL_TRY(kl_tile_outputs_in_order(s, b, (int)g, err));
    }
out:
    return st;
}

static void find_task(void *self, int64_t task, int thread)
{
    const sharing *const x = self;
    share *const h = &x->share[task];
    (void)thread;
    h->status = find_groups(&h->own, x->b, h->from, h->to, &h->nsequential, &h->error);
}

static kl_status write_dests(kl_tile_plan_maker *s, const kl_batch *b, int64_t from, int64_t to,
                             uint64_t work, kl_err *err)
{
    kl_status st = KL_OK;
    for (int64_t i = from; i < to; i++) KL_TRY(kl_tile_cells_write(s, b, &s->dest[i], work, err));
out:
    return st;
}

static void write_task(void *self, int64_t task, int thread)
{
    const sharing *const x = self;
    share *const h = &x->share[task];
    (void)thread;
    h->status = write_dests(&h->own, x->b, h->from, h->to, x->work, &h->error);
}

/* Outputs and uses of a share behind those of the shares before. */
static void join_dests(void *self, int64_t task, int thread)
{
    const sharing *const x = self;
    const share *const h = &x->share[task];
    (void)thread;
    for (int64_t i = 0; i < h->own.ndest; i++) {
        kl_tile_output *const d = &x->s->dest[h->dest + i];
        *d = h->own.dest[i];
        d->home += (int)h->dest;
        if (d->first >= 0) d->first += h->use, d->last += h->use;
    }
    for (int64_t i = 0; i < h->own.nuse; i++) {
        kl_use *const u = &x->s->use[h->use + i];
        *u = h->own.use[i];
        if (u->next >= 0) u->next += h->use;
        if (u->da >= 0) u->da += (int)h->dest;
        if (u->db >= 0) u->db += (int)h->dest;
    }
}

static void join_outputs(void *self, int64_t task, int thread)
{
    const sharing *const x = self;
    const share *const h = &x->share[task];
    (void)thread;
    if (h->own.nlink > 0)
        memcpy(x->s->link + h->link, h->own.link, (size_t)h->own.nlink * sizeof *h->own.link);
    for (int64_t i = 0; i < h->own.noutput; i++) {
        kl_output *const o = &x->s->output[h->output + i];
        *o = h->own.output[i];
        o->first += h->link;
    }
}

/* `count` shares of n groups or outputs, of nearly equal weight. */
static kl_status divide(sharing *x, int count, const int64_t *before, int64_t n, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(&x->share, count, KL_MEM_RECORD, err));
    for (int64_t k = 0, i = 0; k < count; k++) {
        share *const h = &x->share[k];
        h->from = i;
        while (i < n && before[i] * count < before[n] * (k + 1)) i++;
        if (k + 1 == count) i = n;
        h->to = i;
        h->own.adds = x->s->adds;
    }
out:
    return st;
}

/* Where each share's part begins in the whole; the first error, if there is one. */
static kl_status count_up(sharing *x, int count, share *sum, kl_err *err)
{
    *sum = (share){0};
    for (int k = 0; k < count; k++) {
        share *const h = &x->share[k];
        if (h->status != KL_OK) return kl_fail(err, h->status, "%s", h->error.text);
        h->dest = sum->dest, h->use = sum->use, h->link = sum->link, h->output = sum->output;
        sum->dest += h->own.ndest, sum->use += h->own.nuse;
        sum->link += h->own.nlink, sum->output += h->own.noutput;
        sum->nsequential += h->nsequential;
    }
    return KL_OK;
}

kl_status kl_tile_shares_find(int nthread, kl_tile_plan_maker *s, const kl_batch *b, int *nsequential,
                              kl_err *err)
{
    kl_status st = KL_OK;
    const int hands = kl_tile_hands(nthread, b->nrec), count = EACH * hands;
    sharing x = {.s = s, .b = b};
    int64_t *before = NULL;
    share sum;
    *nsequential = 0;
    if (hands == 1) return find_groups(s, b, 0, b->ngroup, nsequential, err);
    KL_TRY(kl_alloc(&before, b->ngroup + 1, KL_MEM_RECORD, err));
    for (int g = 0; g < b->ngroup; g++) before[g + 1] = before[g] + b->group[g].last - b->group[g].first;
    KL_TRY(divide(&x, count, before, b->ngroup, err));
    kl_par_for(hands, count, find_task, &x);
    KL_TRY(count_up(&x, count, &sum, err));
    KL_ROOM_FOR(s->dest, sum.dest, s->cap_dest);
    KL_ROOM_FOR(s->use, sum.use, s->cap_use);
    s->ndest = sum.dest;
    s->nuse = sum.use;
    kl_par_for(hands, count, join_dests, &x);
    *nsequential = sum.nsequential;
out:
    for (int k = 0; x.share && k < count; k++) kl_tile_maker_clear(&x.share[k].own);
    kl_free(&x.share);
    kl_free(&before);
    return st;
}

kl_status kl_tile_shares_write(int nthread, kl_tile_plan_maker *s, const kl_batch *b, uint64_t work,
                               kl_err *err)
{
    kl_status st = KL_OK;
    const int hands = kl_tile_hands(nthread, b->nrec), count = EACH * hands;
    sharing x = {.s = s, .b = b, .work = work};
    int64_t *before = NULL;
    share sum;
    if (hands == 1) return write_dests(s, b, 0, s->ndest, work, err);
    KL_TRY(kl_alloc(&before, s->ndest + 1, KL_MEM_RECORD, err));
    for (int64_t i = 0; i < s->ndest; i++) {
        before[i + 1] = before[i] + 1;
        for (int64_t u = s->dest[i].first; u >= 0; u = s->use[u].next) before[i + 1]++;
    }
    KL_TRY(divide(&x, count, before, s->ndest, err));
    for (int k = 0; k < count; k++) {
        x.share[k].own.dest = s->dest, x.share[k].own.use = s->use; /* for reading */
        x.share[k].own.ndest = s->ndest, x.share[k].own.nuse = s->nuse;
    }
    kl_par_for(hands, count, write_task, &x);
    KL_TRY(count_up(&x, count, &sum, err));
    KL_ROOM_FOR(s->output, sum.output, s->cap_output);
    KL_ROOM_FOR(s->link, sum.link, s->cap_link);
    s->noutput = sum.output;
    s->nlink = sum.link;
    kl_par_for(hands, count, join_outputs, &x);
out:
    for (int k = 0; x.share && k < count; k++) {
        x.share[k].own.dest = NULL, x.share[k].own.use = NULL;
        kl_tile_maker_clear(&x.share[k].own);
    }
    kl_free(&x.share);
    kl_free(&before);
    return st;
}
