/* What a run keeps of itself, in a file: see keepfile.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/keepfile.h"

#include <stdint.h>
#include <string.h>

#include "base/mem.h"

/* Vectors that are written to or read from a file, the first of them called `first' there. */
typedef struct part_of {
    kl_exec *ex;
    const kl_dptr *vector;
    const double *const *far; /* NULL, or those that lie on the host */
    const int64_t *const *begin; /* of each; NULL: all as `same' */
    const int64_t *same;
    int first;
} part_of;

/* What the first rank asks of all ranks: a part of a vector; vector < 0: nothing more. */
typedef struct question {
    int64_t vector, first, count;
} question;

static kl_status answer(const part_of *p, const question *q, double *to, kl_err *err)
{
    const int64_t v = q->vector - p->first;
    const int64_t *const begin = p->begin && p->begin[v] ? p->begin[v] : p->same;
    return kl_ranks_collect(p->ex, begin, p->vector[v], p->far ? p->far[v] : NULL, q->first, q->count, to,
                            err);
}

static kl_status take_part(void *self, int vector, int64_t first, int64_t count, double *to, kl_err *err)
{
    const part_of *const p = self;
    question q = {vector, first, count};
    if (!kl_ranks_spread(p->ex)) {
        const double *const far = p->far ? p->far[vector - p->first] : NULL;
        if (!far)
            return p->ex->vt.download(p->ex, to, kl_dptr_at(p->vector[vector - p->first], first), count, err);
        memcpy(to, far + first, (size_t)count * sizeof *to);
        return KL_OK;
    }
    kl_comm_broadcast(p->ex->ranks->comm, 0, &q, sizeof q);
    return answer(p, &q, to, err);
}

static kl_status hand_over(const part_of *p, kl_err *err)
{
    kl_status st = KL_OK;
    for (question q;;) {
        kl_comm_broadcast(p->ex->ranks->comm, 0, &q, sizeof q);
        if (q.vector < 0) break;
        KL_TRY(answer(p, &q, NULL, err));
    }
out:
    return st;
}

static kl_status put_part(void *self, int vector, int64_t first, int64_t count, double *from, kl_err *err)
{
    const part_of *const p = self;
    const int64_t *const begin = p->same;
    const int me = kl_ranks_mine(p->ex);
    int64_t low = first, high = first + count, origin = 0;
    if (begin) {
        origin = begin[me];
        if (low < origin) low = origin;
        if (high > begin[me + 1]) high = begin[me + 1];
    }
    if (low >= high) return KL_OK;
    return p->ex->vt.upload(p->ex, kl_dptr_at(p->vector[vector - p->first], low - origin), from + low - first,
                            high - low, err);
}

static kl_status fetch(void *self, int first, int count, const int64_t *begin, const kl_dptr *to, kl_err *err)
{
    const kl_keepfile *const k = self;
    part_of p = {.ex = k->ex, .vector = to, .same = begin, .first = first};
    kl_result_run run = {.self = &p, .part = put_part, .first = first, .count = count};
    const kl_status st = k->read(k->path, &run, err);
    kl_free(&run.number);
    kl_free(&run.n);
    return st;
}

kl_status kl_keepfile_write(kl_keepfile *k, int stage, const kl_keep *kept, kl_err *err)
{
    kl_status st = KL_OK;
    part_of p = {
        .ex = k->ex, .vector = kept->vector, .far = kept->far, .begin = kept->begin, .same = k->begin};
    int64_t *length = NULL;
    if (!kl_ranks_first(k->ex)) return kl_ranks_spread(k->ex) ? hand_over(&p, err) : KL_OK;
    KL_TRY(kl_alloc(&length, kept->nvector, KL_MEM_WORK, err));
    for (int v = 0; v < kept->nvector; v++) length[v] = kept->n && kept->n[v] > 0 ? kept->n[v] : k->n;
    const kl_result_run run = {.stage = stage,
                               .nnumber = kept->nnumber,
                               .number = (double *)(uintptr_t)kept->number,
                               .nvector = kept->nvector,
                               .n = length,
                               .self = &p,
                               .part = take_part};
    st = k->write(k->self, &run, err);
    const question none = {.vector = -1};
    if (kl_ranks_spread(k->ex))
        kl_comm_broadcast(k->ex->ranks->comm, 0, (void *)(uintptr_t)&none, sizeof none);
out:
    kl_free(&length);
    return st;
}

kl_status kl_keepfile_read(kl_keepfile *k, int *stage, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result_run run = {0};
    KL_TRY(k->read(k->path, &run, err));
    *stage = run.stage;
    k->number = run.number;
    k->length = run.n;
    k->from = (kl_keep){.nnumber = run.nnumber,
                        .number = run.number,
                        .nvector = run.nvector,
                        .n = run.n,
                        .self = k,
                        .fetch = fetch};
out:
    return st;
}

void kl_keepfile_close(kl_keepfile *k)
{
    kl_free(&k->number);
    kl_free(&k->length);
}
