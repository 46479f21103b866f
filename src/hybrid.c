/* Processor and device together on one list: see hybrid.h.

   1. The work of each output is its records' flops; the wanted share of the device follows from the step function at the list's mean matrix size.
   2. Outputs go to the device, largest first, as long as the share is not exceeded; the others are the host's.
   3. Where the share is still far off, the records of the largest output of the host are cut in two, and what the host makes of it is added.
   4. An apply: x comes down, the device begins, the host does its part, its segments of y go up.
   Operands of the host's records are copied once, when the list is prepared.
   SPDX-License-Identifier: Apache-2.0 */
#include "hybrid.h"
#include "mem.h"
#include "prof.h"
#include "record.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEP = 16 };

typedef struct hybrid {
    kl_exec ex; /* first: what callers hold */
    kl_exec *device, *host;
    int nstep;
    double size[MOST_STEP], ratio[MOST_STEP];
} hybrid;

typedef struct shared {
    kl_batch here, there;     /* the host's records, and the device's */
    double *operand[KL_NAT];  /* of the host's; x and y among them */
    kl_dptr sum;              /* on the device: the host's part of an output that is cut */
    int64_t cut_y, cut_n;     /* its segment; cut_n 0: none */
    int shares;               /* 0: the whole list is the device's, as it stands */
} shared;

static double ratio_at(const hybrid *h, double size)
{
    double r = h->ratio[0];
    for (int i = 0; i < h->nstep && h->size[i] <= size; i++) r = h->ratio[i];
    return r;
}

/* Flop-weighted mean of (m n k)^(1/3). */
static double mean_size(const kl_batch *b)
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

static kl_status add_group(kl_batch *to, const kl_batch *from, const kl_group *g, int64_t first, int64_t last, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_batch_open_group(to, g->y, g->ny, err));
    KL_TRY(kl_batch_reserve(to, last - first, err));
    for (int64_t i = first; i < last; i++) *kl_batch_push(to) = from->rec[i];
    kl_batch_close_group(to, g->nwork);
out:
    return st;
}

/* Last record before which a group may be cut so that the first part has no more than `flop`: an intermediate is made there and nothing later reads an older one. */
static int64_t cut_at(const kl_batch *b, const kl_group *g, double flop)
{
    int64_t cut = g->first;
    double done = 0;
    for (int64_t i = g->first; i < g->last && done <= flop; i++) {
        const kl_rec *const r = &b->rec[i];
        int free_of = r->at_c == KL_AT_Y || !r->beta, made = 0;
        for (int64_t k = i; k < g->last && free_of; k++) {
            const kl_rec *const s = &b->rec[k];
            const int reads = (s->kind != KL_REC_FILL && s->at_a == KL_AT_WORK) || (s->kind == KL_REC_GEMM && s->at_b == KL_AT_WORK);
            if (reads && !made) free_of = 0;
            if (s->at_c == KL_AT_WORK && !s->beta) made = 1;
            if (s->at_c == KL_AT_WORK && s->beta && !made) free_of = 0;
            if (s->at_c == KL_AT_Y && !s->beta) free_of = 0;
            if (made) break; /* each unit makes its intermediate before it is read */
        }
        if (free_of) cut = i;
        done += kl_rec_flop(r);
    }
    return cut;
}

static kl_status share_out(const hybrid *h, const kl_batch *b, shared *s, kl_err *err)
{
    kl_status st = KL_OK;
    const double ratio = ratio_at(h, mean_size(b)), wanted = b->flop * ratio / (1 + ratio);
    double given = 0;
    int next = -1; /* largest output of the host */
    char *mine = NULL;
    KL_TRY(kl_alloc(&mine, b->ngroup, KL_MEM_RECORD, err));
    for (int i = 0; i < b->ngroup; i++) {
        const kl_group *const g = &b->group[b->order[i]];
        if (given + g->flop <= wanted || g->flop == 0) given += g->flop;
        else mine[b->order[i]] = 1, next = next < 0 ? b->order[i] : next;
    }
    const int cut = next >= 0 && wanted - given > 0.05 * b->flop && b->zero;
    for (int i = 0; i < b->ngroup; i++) {
        const kl_group *const g = &b->group[i];
        const int64_t at = cut && i == next ? cut_at(b, g, wanted - given) : mine[i] ? g->first : g->last;
        if (at > g->first || !mine[i]) KL_TRY(add_group(&s->there, b, g, g->first, at, err));
        if (at < g->last) KL_TRY(add_group(&s->here, b, g, at, g->last, err));
        if (mine[i] && at > g->first && at < g->last) s->cut_y = g->y, s->cut_n = g->ny;
    }
    s->here.zero = s->there.zero = b->zero;
    s->here.nx = s->there.nx = b->nx, s->here.ny = s->there.ny = b->ny;
    memcpy(s->there.base, b->base, sizeof b->base);
    KL_TRY(kl_batch_close(&s->here, err));
    KL_TRY(kl_batch_close(&s->there, err));
out:
    kl_free(&mine);
    return st;
}

/* Copies of what the host's records read beside x. */
static kl_status fetch_operands(kl_exec *device, const kl_batch *b, shared *s, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t size[KL_NAT] = {0};
    for (int64_t i = 0; i < s->here.nrec; i++) {
        const kl_rec *const r = &s->here.rec[i];
        const int gemm = r->kind == KL_REC_GEMM;
        if (r->kind == KL_REC_FILL) continue;
        const int64_t cols_a = gemm ? (r->ta ? r->m : r->k) : (r->ta ? r->m : r->n), rows_a = gemm ? (r->ta ? r->k : r->m) : (r->ta ? r->n : r->m);
        const int64_t cols_b = r->tb ? r->k : r->n, rows_b = r->tb ? r->n : r->k;
        const int64_t end_a = r->a + (cols_a - 1) * r->lda + rows_a, end_b = r->b + (cols_b - 1) * r->ldb + rows_b;
        if (end_a > size[r->at_a]) size[r->at_a] = end_a;
        if (gemm && end_b > size[r->at_b]) size[r->at_b] = end_b;
    }
    size[KL_AT_X] = b->nx, size[KL_AT_Y] = b->ny, size[KL_AT_WORK] = 0;
    for (int k = 0; k < KL_NAT; k++) {
        if (size[k] == 0) continue;
        KL_TRY(kl_alloc(&s->operand[k], size[k], k == KL_AT_X || k == KL_AT_Y ? KL_MEM_VECTOR : KL_MEM_BLOCK, err));
        s->here.base[k].addr = (uintptr_t)s->operand[k];
        if (k != KL_AT_X && k != KL_AT_Y) KL_TRY(device->vt.download(device, s->operand[k], b->base[k], size[k], err));
    }
    if (s->cut_n > 0) KL_TRY(device->vt.alloc(device, s->cut_n, &s->sum, err));
out:
    return st;
}

static void take_apart(hybrid *h, shared *s)
{
    if (s->there.prepared) h->device->vt.batch_release(h->device, &s->there);
    if (s->here.prepared) h->host->vt.batch_release(h->host, &s->here);
    h->device->vt.release(h->device, &s->sum);
    for (int k = 0; k < KL_NAT; k++) kl_free(&s->operand[k]);
    kl_batch_clear(&s->here);
    kl_batch_clear(&s->there);
    kl_free(&s);
}

/* What the device sees of a list that is not shared. */
static kl_batch whole(const kl_batch *b, const shared *s)
{
    kl_batch view = *b;
    view.prepared = s ? s->there.prepared : NULL;
    return view;
}

static kl_status hybrid_prepare(kl_exec *ex, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    hybrid *const h = (hybrid *)ex;
    shared *s = NULL;
    KL_TRY(kl_alloc(&s, 1, KL_MEM_RECORD, err));
    h->device->projection = ex->projection;
    if (b->lasting) KL_TRY(share_out(h, b, s, err));
    s->shares = s->here.ngroup > 0;
    if (s->shares) {
        KL_TRY(fetch_operands(h->device, b, s, err));
        KL_TRY(h->device->vt.batch_prepare(h->device, &s->there, err));
        KL_TRY(h->host->vt.batch_prepare(h->host, &s->here, err));
    } else {
        kl_batch_clear(&s->there);
        kl_batch view = *b;
        KL_TRY(h->device->vt.batch_prepare(h->device, &view, err));
        s->there.prepared = view.prepared;
    }
    b->prepared = s;
    s = NULL;
out:
    if (s) take_apart(h, s);
    return st;
}

static void hybrid_release(kl_exec *ex, kl_batch *b)
{
    hybrid *const h = (hybrid *)ex;
    shared *const s = b->prepared;
    if (!s) return;
    if (!s->shares) {
        kl_batch view = whole(b, s);
        h->device->vt.batch_release(h->device, &view);
        s->there.prepared = NULL;
    }
    take_apart(h, s);
    b->prepared = NULL;
}

static kl_status hybrid_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err)
{
    kl_status st = KL_OK;
    const hybrid *const h = (const hybrid *)ex;
    const shared *const s = b->prepared;
    kl_exec *const d = h->device;
    if (!s->shares) {
        const kl_batch view = whole(b, s);
        return d->vt.batch_apply(d, &view, x, y, err);
    }
    double *const hx = s->operand[KL_AT_X], *const hy = s->operand[KL_AT_Y];
    KL_TRY(d->vt.download(d, hx, x, b->nx, err));
    KL_TRY(d->vt.batch_apply(d, &s->there, x, y, err));
    KL_TRY(h->host->vt.batch_apply(h->host, &s->here, (kl_dptr){(uintptr_t)hx}, (kl_dptr){(uintptr_t)hy}, err));
    for (int i = 0; i < s->here.ngroup; i++) {
        const kl_group *const g = &s->here.group[i];
        if (s->cut_n > 0 && g->y == s->cut_y) {
            KL_TRY(d->vt.upload(d, s->sum, hy + g->y, g->ny, err));
            d->vt.axpby(d, g->ny, 1.0, s->sum, 1.0, kl_dptr_at(y, g->y));
        } else KL_TRY(d->vt.upload(d, kl_dptr_at(y, g->y), hy + g->y, g->ny, err));
    }
out:
    return st;
}

static void hybrid_batch_explain(kl_exec *ex, const kl_batch *b, kl_batch_plan *plan)
{
    const hybrid *const h = (const hybrid *)ex;
    const shared *const s = b->prepared;
    const kl_batch view = s && s->shares ? s->there : whole(b, s);
    h->device->vt.batch_explain(h->device, &view, plan);
}

static void hybrid_close(kl_exec *ex)
{
    hybrid *const h = (hybrid *)ex;
    kl_exec_close(&h->device);
    kl_exec_close(&h->host);
}

/* Time of one apply of 8 products of n, the better of two after one that is not counted. */
static kl_status time_of(kl_exec *ex, int n, double *seconds, kl_err *err)
{
    kl_status st = KL_OK;
    enum { MANY = 8 };
    kl_batch b;
    kl_dptr p = {0}, x = {0}, y = {0};
    double last;
    const int64_t one = (int64_t)n * n;
    kl_batch_init(&b);
    *seconds = INFINITY;
    for (int i = 0; i < MANY; i++) {
        KL_TRY(kl_batch_open_group(&b, i * one, one, err));
        KL_TRY(kl_batch_reserve(&b, 1, err));
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM, .beta = 1, .at_a = KL_AT_LEFT, .at_b = KL_AT_X, .at_c = KL_AT_Y, .m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n,
                                      .b = i * one, .c = i * one, .alpha = 1};
        kl_batch_close_group(&b, 0);
    }
    b.zero = 1, b.nx = b.ny = MANY * one;
    KL_TRY(ex->vt.alloc(ex, one, &p, err));
    KL_TRY(ex->vt.alloc(ex, MANY * one, &x, err));
    KL_TRY(ex->vt.alloc(ex, MANY * one, &y, err));
    ex->vt.fill(ex, one, 0.3, p);
    ex->vt.fill(ex, MANY * one, 0.7, x);
    b.base[KL_AT_LEFT] = p;
    KL_TRY(kl_batch_close(&b, err));
    KL_TRY(ex->vt.batch_prepare(ex, &b, err));
    for (int k = 0; k < 3; k++) {
        const double t0 = kl_prof_seconds();
        KL_TRY(ex->vt.batch_apply(ex, &b, x, y, err));
        KL_TRY(ex->vt.download(ex, &last, y, 1, err));
        if (k > 0) *seconds = fmin(*seconds, kl_prof_seconds() - t0);
    }
out:
    if (b.prepared) ex->vt.batch_release(ex, &b);
    kl_batch_clear(&b);
    ex->vt.release(ex, &p);
    ex->vt.release(ex, &x);
    ex->vt.release(ex, &y);
    return st;
}

static kl_status measure(hybrid *h, kl_err *err)
{
    static const int sizes[] = {32, 128, 512, 1024};
    kl_status st = KL_OK;
    for (int i = 0; i < 4; i++) {
        double here, there;
        KL_TRY(time_of(h->host, sizes[i], &here, err));
        KL_TRY(time_of(h->device, sizes[i], &there, err));
        h->size[i] = i == 0 ? 0 : sizes[i] / 1.5;
        h->ratio[i] = here / there;
        h->nstep = i + 1;
    }
out:
    return st;
}

static kl_status read_steps(hybrid *h, const char *text, kl_err *err)
{
    for (const char *p = text; *p;) {
        char word[2][32];
        const char *const colon = strchr(p, ':'), *end = p + strcspn(p, ",");
        const int good = colon && colon < end && colon - p < 32 && end - colon - 1 < 32 && h->nstep < MOST_STEP;
        if (good) {
            memcpy(word[0], p, (size_t)(colon - p)), word[0][colon - p] = '\0';
            memcpy(word[1], colon + 1, (size_t)(end - colon - 1)), word[1][end - colon - 1] = '\0';
        }
        if (!good || !kl_parse_double(word[0], &h->size[h->nstep]) || !kl_parse_double(word[1], &h->ratio[h->nstep]) || !(h->size[h->nstep] >= 0) || !(h->ratio[h->nstep] > 0) ||
            (h->nstep > 0 && h->size[h->nstep] <= h->size[h->nstep - 1]))
            return kl_fail(err, KL_EINPUT, "--hybrid: '%.60s' at '%.30s': allowed are auto, or SIZE:RATIO,... of at most %d ascending sizes and ratios above 0", text, p, MOST_STEP);
        h->nstep++;
        p = *end ? end + 1 : end;
    }
    return h->nstep > 0 ? KL_OK : kl_fail(err, KL_EINPUT, "--hybrid: nothing is given; allowed are auto, or SIZE:RATIO,...");
}

kl_status kl_exec_open_hybrid_take(kl_exec **device, int nthread, const char *steps, kl_exec **out, kl_err *err)
{
    kl_status st = KL_OK;
    hybrid *h = NULL;
    *out = NULL;
    KL_TRY(kl_alloc(&h, 1, KL_MEM_MISC, err));
    if (strcmp(steps, "auto")) KL_TRY(read_steps(h, steps, err));
    KL_TRY(kl_exec_open_host(nthread, &h->host, err));
    h->device = *device;
    if (!strcmp(steps, "auto")) {
        st = measure(h, err);
        if (st != KL_OK) h->device = NULL;
        if (st != KL_OK) goto out;
    }
    h->ex = *h->device;
    h->device->ahead = 1;
    h->ex.vt.batch_prepare = hybrid_prepare;
    h->ex.vt.batch_apply = hybrid_apply;
    h->ex.vt.batch_release = hybrid_release;
    h->ex.vt.batch_explain = hybrid_batch_explain;
    h->ex.vt.close = hybrid_close;
    *device = NULL;
    *out = &h->ex;
    return KL_OK;
out:
    if (h) kl_exec_close(&h->host);
    kl_free(&h);
    return st;
}
