/* Checkpoints of exact diagonalization.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/edkeep.h"

#include <stdint.h>

#include "base/mem.h"
#include "base/prof.h"

static int due(void *self)
{
    const kl_edkeep *const k = self;
    return kl_pace_due(&k->pace);
}

typedef struct part_of {
    kl_exec *ex;
    const kl_dptr *vector;
} part_of;

static kl_status take_part(void *self, int vector, int64_t first, int64_t count, double *to, kl_err *err)
{
    const part_of *const p = self;
    return p->ex->vt.download(p->ex, to, kl_dptr_at(p->vector[vector], first), count, err);
}

static kl_status put_part(void *self, int vector, int64_t first, int64_t count, double *from, kl_err *err)
{
    const part_of *const p = self;
    return p->ex->vt.upload(p->ex, kl_dptr_at(p->vector[vector], first), from, count, err);
}

static kl_status write(void *self, const kl_keep *kept, kl_err *err)
{
    kl_edkeep *const k = self;
    (void)err;
    kl_err why;
    part_of p = {k->ex, kept->vector};
    kl_result_run run = {.stage = k->stage,
                         .nnumber = kept->nnumber,
                         .number = (double *)(uintptr_t)kept->number,
                         .nvector = kept->nvector,
                         .self = &p,
                         .part = take_part};
    for (int v = 0; v < kept->nvector; v++) run.n[v] = kept->n[v] > 0 ? kept->n[v] : k->n;
    const double start = kl_prof_seconds();
    const int64_t three = 3;
    k->r->finished = 0;
    if (k->seen && kl_result_add(k->r, "ed/so_far", "products with H, lowest energy, its residual", 1, &three,
                                 k->seen, &why) != KL_OK)
        return KL_OK;
    kl_pace_done(&k->pace, start, kl_result_write_run(k->path, k->r, &run, &why), &why);
    return KL_OK;
}

void kl_edkeep_open(kl_edkeep *k, kl_exec *ex, const char *path, double every, const kl_watch *watch)
{
    *k = (kl_edkeep){.ex = ex, .path = path, .pace = kl_pace_begin(every, watch)};
    k->keeper = (kl_keeper){.self = k, .due = due, .write = write};
}

void kl_edkeep_close(kl_edkeep *k)
{
    k->keeper.from = NULL;
    for (int i = 0; i < KL_KEEP_VECTORS; i++)
        if (k->from.vector[i].addr) k->ex->vt.release(k->ex, &k->from.vector[i]);
    kl_free(&k->number);
}

kl_status kl_edkeep_read(kl_edkeep *k, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result_run run = {0};
    KL_TRY(kl_result_read_run(k->path, &run, err));
    k->stage = (kl_edstage)run.stage;
    k->number = run.number;
    k->from = (kl_keep){.nnumber = run.nnumber, .number = run.number, .nvector = run.nvector};
    for (int v = 0; v < run.nvector; v++) k->from.n[v] = run.n[v];
out:
    return st;
}

kl_status kl_edkeep_vectors(kl_edkeep *k, int64_t n, kl_err *err)
{
    kl_status st = KL_OK;
    part_of p = {k->ex, k->from.vector};
    kl_result_run run = {.self = &p, .part = put_part};
    for (int v = 0; v < k->from.nvector; v++) {
        if (n > 0 && k->from.n[v] != n)
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "--resume: %.300s holds a vector of %lld numbers; this run needs %lld", k->path,
                           (long long)k->from.n[v], (long long)n));
        KL_TRY(k->ex->vt.alloc(k->ex, k->from.n[v], &k->from.vector[v], err));
    }
    KL_TRY(kl_result_read_run(k->path, &run, err));
    kl_free(&run.number);
    k->keeper.from = &k->from;
out:
    return st;
}
