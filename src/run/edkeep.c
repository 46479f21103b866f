/* Checkpoints of exact diagonalization.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/edkeep.h"

#include "base/prof.h"

static int due(void *self)
{
    const kl_edkeep *const k = self;
    const kl_exec *const ex = k->file.ex;
    return kl_ranks_any(ex, kl_ranks_first(ex) && kl_pace_due(&k->pace)); /* by one clock */
}

static kl_status write_file(void *self, const kl_result_run *run, kl_err *err)
{
    const kl_edkeep *const k = self;
    return kl_result_write_run(k->file.path, k->r, run, err);
}

static kl_status write(void *self, const kl_keep *kept, kl_err *err)
{
    kl_edkeep *const k = self;
    (void)err;
    kl_err why;
    const double start = kl_prof_seconds();
    const int64_t three = 3;
    k->r->finished = 0;
    if (k->seen && kl_result_add(k->r, "ed/so_far", "products with H, lowest energy, its residual", 1, &three,
                                 k->seen, &why) != KL_OK)
        return KL_OK;
    k->file.n = k->n;
    k->file.begin = k->begin;
    const int stage = (int)k->stage + (k->sorted ? KL_EDSTAGES : 0);
    kl_pace_done(&k->pace, start, kl_keepfile_write(&k->file, stage, kept, &why), &why);
    return KL_OK;
}

void kl_edkeep_open(kl_edkeep *k, kl_exec *ex, const char *path, double every, const kl_watch *watch)
{
    *k = (kl_edkeep){.path = path, .pace = kl_pace_begin(every, watch)};
    k->file =
        (kl_keepfile){.ex = ex, .path = path, .read = kl_result_read_run, .write = write_file, .self = k};
    k->keeper = (kl_keeper){.self = k, .due = due, .write = write};
}

void kl_edkeep_close(kl_edkeep *k)
{
    k->keeper.from = NULL;
    kl_keepfile_close(&k->file);
}

kl_status kl_edkeep_read(kl_edkeep *k, kl_err *err)
{
    int stage;
    const kl_status st = kl_keepfile_read(&k->file, &stage, err);
    if (st != KL_OK) return st;
    k->sorted = stage >= KL_EDSTAGES;
    k->stage = (kl_edstage)(stage - (k->sorted ? KL_EDSTAGES : 0));
    return KL_OK;
}

kl_status kl_edkeep_vectors(kl_edkeep *k, int64_t n, kl_err *err)
{
    const kl_keep *const from = &k->file.from;
    for (int v = 0; v < from->nvector; v++)
        if (n > 0 && from->n[v] != n)
            return kl_fail(err, KL_EINPUT,
                           "--resume: %.300s holds a vector of %lld numbers; this run needs %lld", k->path,
                           (long long)from->n[v], (long long)n);
    k->keeper.from = from;
    return KL_OK;
}
