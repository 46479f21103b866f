/* See window.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/window.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/prof.h"

static const double PATIENCE_S = 2;

static void leave_all(kl_window *w)
{
    for (int r = 0; w->there && r < kl_ranks_size(w->ex); r++)
        if (w->there[r].addr) w->ex->peers->leave(w->ex, &w->there[r]);
}

static uint32_t count_at(kl_exec *ex, kl_dptr at, kl_err *err)
{
    uint32_t word[2] = {0};
    double number = 0.0;
    if (ex->vt.download(ex, &number, at, 1, err) == KL_OK) memcpy(word, &number, sizeof word);
    return word[0];
}

/* Every rank writes its number into the others' memory and looks whether theirs have come. */
static int try_out(kl_window *w, kl_err *err)
{
    kl_exec *const ex = w->ex;
    const int size = kl_ranks_size(ex), me = kl_ranks_mine(ex);
    for (int r = 0; r < size; r++)
        if (r != me) ex->peers->tell(ex, r % 2, kl_dptr_at(w->there[r], me), (uint32_t)me + 1);
    ex->peers->end(ex);
    int good = ex->peers->check(ex, err) == KL_OK;
    (void)count_at(ex, w->own, err); /* what was asked for is done */
    if (kl_comm_most(ex->ranks->comm, !good)) return 0;
    for (int r = 0; r < size; r++)
        good = good && (r == me || count_at(ex, kl_dptr_at(w->own, r), err) == (uint32_t)r + 1);
    if (kl_comm_most(ex->ranks->comm, !good)) return 0;
    ex->vt.fill(ex, size, 0.0, w->own);
    (void)count_at(ex, w->own, err);
    return !kl_comm_most(ex->ranks->comm, 0); /* all are at 0 before anyone begins */
}

kl_status kl_window_open(kl_exec *ex, int64_t n, kl_window **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_window *w = NULL;
    char mine[KL_PEER_NAME] = "", *all = NULL;
    const int size = kl_ranks_size(ex), me = kl_ranks_mine(ex);
    const char *const wish = getenv("KRONLAT_PEERS");
    const int off = wish && strcmp(wish, "off") == 0;
    kl_err why;
    *out = NULL;
    if (size < 2 || kl_comm_most(ex->ranks->comm, off || !ex->peers || ex->ranks->comm->nhost > 1))
        return KL_OK;
    KL_TRY(kl_alloc(&w, 1, KL_MEM_MISC, err));
    w->ex = ex;
    KL_TRY(kl_alloc(&w->there, size, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&all, size * KL_PEER_NAME, KL_MEM_MISC, err));
    int good = ex->peers->make(ex, n, &w->own, mine, &why) == KL_OK;
    if (kl_comm_most(ex->ranks->comm, !good)) goto none;
    kl_comm_gather(ex->ranks->comm, mine, all, KL_PEER_NAME);
    for (int r = 0; r < size && good; r++)
        if (r != me) good = ex->peers->reach(ex, all + (size_t)r * KL_PEER_NAME, &w->there[r], &why) == KL_OK;
    if (kl_comm_most(ex->ranks->comm, !good) || !try_out(w, &why)) goto none;
    kl_ranks_say_where(ex, ", into others' memory");
    *out = w;
    w = NULL;
    goto out;
none:
    leave_all(w);
    (void)kl_comm_most(ex->ranks->comm, 0); /* nobody is there any more */
out:
    if (w) {
        if (w->own.addr) ex->peers->drop(ex, &w->own);
        kl_free(&w->there);
        kl_free(&w);
    }
    kl_free(&all);
    return st;
}

void kl_window_close(kl_window **window, int64_t counts, uint32_t last)
{
    kl_window *const w = *window;
    if (!w) return;
    kl_exec *const ex = w->ex;
    const double until = kl_prof_seconds() + PATIENCE_S;
    kl_err err;
    int come = 0;
    ex->peers->end(ex);
    while (!come && kl_prof_seconds() < until) {
        come = 1;
        for (int r = 0; r < kl_ranks_size(ex); r++)
            come = come && (r == kl_ranks_mine(ex) ||
                            (int32_t)(count_at(ex, kl_dptr_at(w->own, counts + r), &err) - last) >= 0);
    }
    leave_all(w);
    if (come) ex->peers->drop(ex, &w->own);
    kl_free(&w->there);
    kl_free(window);
}
