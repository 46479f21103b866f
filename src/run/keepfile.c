/* What a run keeps of itself, in a file: see keepfile.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/keepfile.h"

#include <stdint.h>

#include "base/mem.h"

/* Vectors on their way to or from a file, the first of them called `first' there. */
typedef struct part_of {
    kl_exec *ex;
    const kl_dptr *vector;
    int first;
} part_of;

static kl_status take_part(void *self, int vector, int64_t first, int64_t count, double *to, kl_err *err)
{
    const part_of *const p = self;
    return p->ex->vt.download(p->ex, to, kl_dptr_at(p->vector[vector - p->first], first), count, err);
}

static kl_status put_part(void *self, int vector, int64_t first, int64_t count, double *from, kl_err *err)
{
    const part_of *const p = self;
    return p->ex->vt.upload(p->ex, kl_dptr_at(p->vector[vector - p->first], first), from, count, err);
}

static kl_status fetch(void *self, int first, int count, const kl_dptr *to, kl_err *err)
{
    const kl_keepfile *const k = self;
    part_of p = {k->ex, to, first};
    kl_result_run run = {.self = &p, .part = put_part, .first = first, .count = count};
    const kl_status st = k->read(k->path, &run, err);
    kl_free(&run.number);
    kl_free(&run.n);
    return st;
}

kl_status kl_keepfile_write(kl_keepfile *k, int stage, const kl_keep *kept, kl_err *err)
{
    kl_status st = KL_OK;
    part_of p = {k->ex, kept->vector, 0};
    int64_t *length = NULL;
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
