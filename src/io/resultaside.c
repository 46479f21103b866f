/* Results that a thread writes while the run goes on: see result.h. A checkpoint is all that thread's; of the
   last file it writes the state, which is the most of it.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/resultput.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/aside.h"
#include "base/mem.h"
#include "io/checked.h"
#include "io/statefile.h"

struct kl_result_writing {
    kl_checked file;
    const char *path;
    int64_t bytes;
    const kl_state *state;
    kl_result_writing *before; /* a checkpoint that is waited for, or NULL */
    kl_result r; /* of a checkpoint: borrows all but its dmrg */
    kl_state *own; /* of a checkpoint */
    pthread_t thread;
    int has_thread;
    atomic_int written; /* 1: a checkpoint's thread has nothing left to do */
    kl_status put; /* not KL_OK: there is no file, for what err says */
    kl_err err;
};

/* Waits for its thread. */
static void join(const kl_result_writing *w)
{
    if (w->has_thread) pthread_join(w->thread, NULL);
}

/* What became of what its thread wrote. */
static kl_status ended(const kl_result_writing *w, kl_err *err)
{
    join(w);
    return w->put == KL_OK ? KL_OK : kl_fail(err, w->put, "%s", w->err.text);
}

static void clear(kl_result_writing **pw)
{
    kl_dmrg_result_clear(&(*pw)->r.dmrg);
    kl_free(pw);
}

static void *put_state(void *self)
{
    kl_result_writing *const w = self;
    kl_checked *const f = &w->file;
    if (w->before != NULL) { /* which this file is to replace, whatever became of it */
        join(w->before);
        clear(&w->before);
    }
    w->put = kl_checked_create(w->path, w->bytes, f, &w->err);
    if (w->put == KL_OK) w->put = kl_checked_pause(f, kl_statefile_put(&f->out, w->state, &w->err), &w->err);
    return NULL;
}

static void *put_checkpoint(void *self)
{
    kl_result_writing *const w = self;
    w->put = kl_result_write(w->path, &w->r, w->own, &w->err);
    kl_state_destroy(&w->own); /* the run's next one may be made */
    atomic_store(&w->written, 1);
    return NULL;
}

int kl_result_worth_thread(const kl_state *state)
{
    return kl_statefile_size(state) >= 4000000; /* numbers */
}

kl_status kl_result_begin(const char *path, const kl_result *r, const kl_state *state,
                          kl_result_writing **before, kl_result_writing **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result_writing *w = NULL;
    KL_TRY(kl_alloc(&w, 1, KL_MEM_MISC, err));
    w->path = path;
    w->bytes = kl_result_bytes(r, state, NULL);
    w->state = state;
    w->before = *before;
    *before = NULL;
    w->has_thread = kl_aside_begin(&w->thread, put_state, w);
    if (!w->has_thread) put_state(w);
out:
    *out = w;
    return st;
}

kl_status kl_result_checkpoint(const char *path, const kl_result *r, kl_state **state,
                               kl_result_writing **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result_writing *w = NULL;
    *out = NULL;
    KL_TRY(kl_alloc(&w, 1, KL_MEM_MISC, err));
    w->path = path;
    w->r = *r;
    w->r.dmrg = (kl_dmrg_result){0};
    KL_TRY(kl_result_set_dmrg(&w->r, &r->dmrg, err));
    w->own = *state;
    *state = NULL;
    w->has_thread = kl_aside_begin(&w->thread, put_checkpoint, w);
    if (!w->has_thread) put_checkpoint(w);
    *out = w;
    w = NULL;
out:
    kl_free(&w);
    return st;
}

int kl_result_is_written(const kl_result_writing *w) { return atomic_load(&w->written); }

kl_status kl_result_wait(kl_result_writing **pw, kl_err *err)
{
    const kl_status st = ended(*pw, err);
    clear(pw);
    return st;
}

kl_status kl_result_end(kl_result_writing **pw, const kl_result *r, kl_err *err)
{
    kl_result_writing *const w = *pw;
    kl_status st = ended(w, err);
    if (st == KL_OK) st = kl_checked_resume(&w->file, err);
    if (st == KL_OK) st = kl_checked_finish(&w->file, kl_result_put(&w->file.out, r, NULL, NULL, err), err);
    clear(pw);
    return st;
}

void kl_result_drop(kl_result_writing **pw)
{
    kl_result_writing *const w = *pw;
    if (w == NULL) return;
    join(w);
    if (w->put == KL_OK) kl_atomic_drop(&w->file.atomic);
    clear(pw);
}
