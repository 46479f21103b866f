/* Fewer, larger products from a record list: see concat.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "record/concat.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

/* A product into WORK and the one product that reads it. */
typedef struct unit {
    int64_t make, use;
    int right; /* the second is W B (1) or A W (0) */
} unit;

static int same_place(const unit *a, const unit *b, const kl_rec *rec)
{
    const kl_rec *const p = &rec[a->use], *const q = &rec[b->use];
    return a->right == b->right && p->c == q->c && p->m == q->m && p->n == q->n && p->ldc == q->ldc;
}

/* rows x cols numbers from `at` on lie in what w writes, all of which is one run. */
static int covers(const kl_rec *w, int64_t at, int rows, int cols, int ld)
{
    return at >= w->c && at + (int64_t)ld * (cols - 1) + rows <= w->c + (int64_t)w->m * w->n;
}

/* 1 when record i makes a whole intermediate, i + 1 is its only reader, reads all of it as it stands and adds
   it to y. */
static int is_unit(const kl_batch *b, int64_t i, int64_t last, unit *u)
{
    if (i + 1 >= last) return 0;
    const kl_rec *const w = &b->rec[i], *const r = &b->rec[i + 1];
    if (w->kind != KL_REC_GEMM || w->at_c != KL_AT_WORK || w->beta || w->k == 0 || w->ldc != w->m) return 0;
    /* units run behind all else, which may have written anew what it reads */
    if (w->at_a == KL_AT_WORK || w->at_b == KL_AT_WORK) return 0;
    if (r->kind != KL_REC_GEMM || r->at_c != KL_AT_Y || !r->beta || r->k == 0) return 0;
    const int left_reads = r->at_a == KL_AT_WORK, right_reads = r->at_b == KL_AT_WORK;
    if (left_reads == right_reads) return 0;
    if (left_reads &&
        (r->ta || r->a != w->c || r->lda != w->m || r->m != w->m || r->k != w->n || r->at_b < KL_AT_LEFT))
        return 0;
    if (right_reads &&
        (r->tb || r->b != w->c || r->ldb != w->m || r->k != w->m || r->n != w->n || r->at_a < KL_AT_LEFT))
        return 0;
    const kl_rec *latest = NULL; /* writes anew what a later reader wants: then it does not want this */
    for (int64_t k = i + 2; k < last; k++) {
        const kl_rec *const s = &b->rec[k];
        const int reads_a = s->kind != KL_REC_FILL && s->at_a == KL_AT_WORK,
                  reads_b = s->kind == KL_REC_GEMM && s->at_b == KL_AT_WORK;
        if (reads_a && !(latest && covers(latest, s->a, s->ta ? s->kind == KL_REC_GEMM ? s->k : s->n : s->m,
                                          s->ta                    ? s->m
                                          : s->kind == KL_REC_GEMM ? s->k
                                                                   : s->n,
                                          s->lda)))
            return 0;
        if (reads_b && !(latest && covers(latest, s->b, s->tb ? s->n : s->k, s->tb ? s->k : s->n, s->ldb)))
            return 0;
        if (s->at_c == KL_AT_WORK && !s->beta && s->ldc == s->m) latest = s;
    }
    *u = (unit){i, i + 1, left_reads};
    return 1;
}

/* Units [0, n) of one output as one product; their W from `at` doubles of WORK on. */
static kl_status merge(const kl_batch *in, const unit *u, int64_t n, int64_t at, kl_batch *out,
                       kl_batch *pack, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_rec first = in->rec[u[0].use];
    /* of the stacked operand that is not summed over */
    const int right = u[0].right, side = right ? first.n : first.m;
    int64_t all = 0, done = 0;
    for (int64_t i = 0; i < n; i++) all += in->rec[u[i].use].k;
    KL_TRY(kl_batch_reserve(out, n + 1, err));
    KL_TRY(kl_batch_open_group(pack, pack->ny, side * all, err));
    KL_TRY(kl_batch_reserve(pack, n, err));
    for (int64_t i = 0; i < n; i++) {
        kl_rec w = in->rec[u[i].make];
        const kl_rec r = in->rec[u[i].use];
        w.c = right ? at + done * w.m : at + done;
        w.ldc = right ? w.m : (int32_t)all;
        *kl_batch_push(out) = w;
        kl_rec s = {.kind = KL_REC_ADD,
                    .at_c = KL_AT_Y,
                    .m = side,
                    .n = r.k,
                    .ldc = side,
                    .c = pack->ny + done * side,
                    .alpha = r.alpha};
        if (right) s.ta = !r.tb, s.at_a = r.at_b, s.a = r.b, s.lda = r.ldb;
        else s.ta = r.ta, s.at_a = r.at_a, s.a = r.a, s.lda = r.lda;
        *kl_batch_push(pack) = s;
        done += r.k;
    }
    kl_rec whole = first;
    whole.k = (int32_t)all;
    whole.alpha = 1;
    if (right)
        whole.a = at, whole.lda = first.m, whole.at_b = KL_AT_STACK, whole.b = pack->ny, whole.ldb = side,
        whole.tb = 1;
    else
        whole.b = at, whole.ldb = (int32_t)all, whole.at_a = KL_AT_STACK, whole.a = pack->ny,
        whole.lda = side, whole.ta = 0;
    *kl_batch_push(out) = whole;
    kl_batch_close_group(pack, 0);
    pack->ny += side * all;
out:
    return st;
}

kl_status kl_concat(const kl_batch *in, kl_batch *out, kl_batch *pack, kl_err *err)
{
    kl_status st = KL_OK;
    unit *list = NULL;
    char *taken = NULL;
    kl_batch_init(out);
    kl_batch_init(pack);
    KL_TRY(kl_alloc(&list, in->nrec, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&taken, in->nrec, KL_MEM_RECORD, err));
    for (int g = 0; g < in->ngroup; g++) {
        const kl_group *const from = &in->group[g];
        int64_t nunit = 0, nwork = from->nwork;
        KL_TRY(kl_batch_open_group(out, from->y, from->ny, err));
        KL_TRY(kl_batch_reserve(out, from->last - from->first, err));
        int plain = in->zero == 0; /* a list that may overwrite keeps its order */
        for (int64_t i = from->first; i < from->last; i++)
            plain |= in->rec[i].at_c == KL_AT_Y && !in->rec[i].beta;
        for (int64_t i = from->first; i < from->last; i++) {
            if (!plain && is_unit(in, i, from->last, &list[nunit])) nunit++, i++;
            else *kl_batch_push(out) = in->rec[i];
        }
        memset(taken, 0, (size_t)nunit);
        for (int64_t i = 0; i < nunit; i++) { /* those of one output together, behind what stays as it is */
            unit swap;
            int64_t n = 1, size = 0, all = 0;
            if (taken[i]) continue;
            for (int64_t k = i + 1; k < nunit; k++)
                if (same_place(&list[i], &list[k], in->rec))
                    swap = list[i + n], list[i + n] = list[k], list[k] = swap, n++;
            for (int64_t k = i; k < i + n; k++) {
                const kl_rec *const w = &in->rec[list[k].make];
                taken[k] = 1;
                size += (int64_t)w->m * w->n;
                all += in->rec[list[k].use].k;
            }
            if (all > INT32_MAX) {
                st = kl_fail(err, KL_EINPUT, "concat: %lld columns in one row; at most %d are possible",
                             (long long)all, INT32_MAX);
                goto out;
            }
            KL_TRY(merge(in, list + i, n, from->nwork, out, pack, err));
            if (from->nwork + size > nwork) nwork = from->nwork + size;
        }
        kl_batch_close_group(out, nwork);
    }
    out->zero = in->zero, out->nx = in->nx, out->ny = in->ny;
    memcpy(out->base, in->base, sizeof out->base);
    memcpy(pack->base, in->base, sizeof pack->base);
    KL_TRY(kl_batch_close(out, err));
    KL_TRY(kl_batch_close(pack, err));
out:
    kl_free(&list);
    kl_free(&taken);
    return st;
}
