/* See ranks.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/ranks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/aside.h"
#include "base/mem.h"

/* ---------------------------------------------------------------- the executor */

static void spread_dots(kl_exec *ex, int64_t n, int nvec, kl_dptr v, int64_t ldv, kl_dptr x, double *out)
{
    ex->ranks->own.dots(ex, n, nvec, v, ldv, x, out);
    kl_comm_sum(ex->ranks->comm, nvec, out);
}

static void spread_fuse(kl_exec *ex, int64_t n, const kl_fuse *f, double *dots)
{
    ex->ranks->own.fuse(ex, n, f, dots);
    if (f->npair > 0) kl_comm_sum(ex->ranks->comm, f->npair, dots);
}

static void spread_ritz(kl_exec *ex, int64_t n, const kl_ritz *z, double *square)
{
    ex->ranks->own.ritz(ex, n, z, square);
    kl_comm_sum(ex->ranks->comm, 1, square);
}

static void spread_correct_dots(kl_exec *ex, int64_t n, const kl_correction *c, double *dots)
{
    ex->ranks->own.correct_dots(ex, n, c, dots);
    kl_comm_sum(ex->ranks->comm, 2, dots);
}

static void spread_close(kl_exec *ex)
{
    void (*const close)(kl_exec *) = ex->ranks->own.close;
    kl_ranks_unlink(ex->ranks);
    kl_free(&ex->ranks);
    close(ex);
}

kl_status kl_ranks_join(kl_exec *ex, kl_comm *comm, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(&ex->ranks, 1, KL_MEM_MISC, err));
    *ex->ranks = (kl_ranks){.comm = comm, .own = ex->vt, .spread = 1};
    KL_TRY(kl_ranks_link(ex, comm, ex->ranks, err));
    kl_ranks_overlay(&ex->vt);
    ex->vt.close = spread_close;
out:
    if (st != KL_OK) kl_free(&ex->ranks);
    return st;
}

void kl_ranks_overlay(kl_vtable *vt)
{
    vt->dots = spread_dots;
    vt->fuse = spread_fuse;
    if (vt->ritz) vt->ritz = spread_ritz;
    if (vt->correct_dots) vt->correct_dots = spread_correct_dots;
}

/* ---------------------------------------------------------------- devices that reach each other */

struct kl_linking {
    kl_exec *ex; /* of the run, whatever twins it has */
    kl_comm *comm;
    kl_status (*open)(kl_exec *ex, int rank, int size, const char name[KL_LINK_NAME], kl_err *err);
    char name[KL_LINK_NAME];
    pthread_t thread;
    int opening; /* 1: there is such a thread */
    int good, known, linked; /* on this rank; 1: all ranks know; on all */
};

static void *open_link(void *self)
{
    kl_linking *const l = self;
    kl_err why;
    l->good = l->open(l->ex, l->comm->rank, l->comm->size, l->name, &why) == KL_OK;
    return NULL;
}

static void begin_thread(kl_linking *l)
{
    l->opening = kl_aside_begin(&l->thread, open_link, l);
    if (!l->opening) open_link(l);
}

static void end_thread(kl_linking *l)
{
    if (l->opening) pthread_join(l->thread, NULL);
    l->opening = 0;
}

kl_status kl_ranks_link(kl_exec *ex, kl_comm *comm, kl_ranks *to, kl_err *err)
{
    kl_status st = KL_OK;
    char name[KL_LINK_NAME] = "";
    kl_err why;
    to->linked = 0;
    to->linking = NULL;
    if (ex->vt.ranked) ex->vt.ranked(ex);
    if (kl_comm_most(comm, ex->vt.link_open == NULL)) return KL_OK;
    const int good = comm->rank > 0 || ex->vt.link_name(ex, name, &why) == KL_OK;
    if (kl_comm_most(comm, !good)) return KL_OK;
    kl_comm_broadcast(comm, 0, name, sizeof name);
    KL_TRY(kl_alloc(&to->linking, 1, KL_MEM_MISC, err));
    *to->linking = (kl_linking){.ex = ex, .comm = comm, .open = ex->vt.link_open};
    memcpy(to->linking->name, name, sizeof name);
    begin_thread(to->linking);
    to->linked = 1;
out:
    return st;
}

/* Where it fails on any rank, as where two ranks have one device, all go through the hosts. All ranks ask,
   with their first transfer. */
static int is_linked(kl_exec *ex)
{
    kl_linking *const l = ex->ranks->linking;
    if (l == NULL) return ex->ranks->linked;
    if (!l->known) {
        end_thread(l);
        l->linked = !kl_comm_most(l->comm, !l->good);
        l->known = 1;
        if (l->linked) kl_ranks_say_where(l->ex, ", to others by NCCL");
    }
    ex->ranks->linked = l->linked;
    return l->linked;
}

void kl_ranks_unlink(kl_ranks *r)
{
    if (r->linking) end_thread(r->linking);
    kl_free(&r->linking);
}

int kl_ranks_threads(int nthread, int asked)
{
    const kl_comm *const c = kl_comm_world();
    return asked || c == NULL || c->sharing < 2 ? nthread : (nthread + 1) / 2;
}

void kl_ranks_say_where(kl_exec *ex, const char *how)
{
    const size_t n = strlen(ex->where), room = sizeof ex->where - n;
    if (strstr(ex->where, how) == NULL && strlen(how) < room) memcpy(ex->where + n, how, strlen(how) + 1);
}

int kl_ranks_any(const kl_exec *ex, int mine)
{
    return ex->ranks ? kl_comm_most(ex->ranks->comm, mine != 0) != 0 : mine;
}

double kl_ranks_least(const kl_exec *ex, double mine)
{
    return ex->ranks ? kl_comm_least(ex->ranks->comm, mine) : mine;
}

void kl_ranks_sum(const kl_exec *ex, int64_t n, double *x)
{
    if (ex->ranks) kl_comm_sum(ex->ranks->comm, n, x);
}

kl_status kl_ranks_even(const kl_exec *ex, int64_t n, int64_t unit, int64_t **begin, kl_err *err)
{
    kl_status st = KL_OK;
    const int size = kl_ranks_size(ex);
    const int64_t units = (n + unit - 1) / unit;
    KL_TRY(kl_alloc(begin, size + 1, KL_MEM_MISC, err));
    for (int r = 0; r <= size; r++) {
        const int64_t at = (units / size * r + units % size * r / size) * unit;
        (*begin)[r] = at < n ? at : n;
    }
out:
    return st;
}

/* ---------------------------------------------------------------- transfers */

struct kl_transfer {
    kl_comm_wait *wait;
    int npart;
    int linked, ticket;  /* 1: from device to device, and what it is known by */
    kl_ranks_part *part; /* received through the host */
    double *host;        /* where a device's numbers travel */
};

static void discard(kl_transfer **t)
{
    if (*t == NULL) return;
    kl_free(&(*t)->part);
    kl_free(&(*t)->host);
    kl_free(t);
}

/* Host memory of every part: its own, or a part of t->host. */
static kl_status places(kl_exec *ex, kl_transfer *t, kl_comm_part *list, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t all = 0;
    for (int i = 0; i < t->npart; i++) all += t->part[i].n;
    if (ex->space == KL_SPACE_DEVICE) KL_TRY(kl_realloc(&t->host, all, KL_MEM_WORK, err));
    all = 0;
    for (int i = 0; i < t->npart; i++) {
        const kl_ranks_part *const p = &t->part[i];
        list[i] = (kl_comm_part){p->peer, p->send, t->host ? t->host + all : (double *)p->at.addr, p->n};
        if (t->host && p->send) KL_TRY(ex->vt.download(ex, list[i].at, p->at, p->n, err));
        all += p->n;
    }
out:
    return st;
}

kl_status kl_ranks_start(kl_exec *ex, int npart, const kl_ranks_part *part, kl_transfer **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_transfer *t = NULL;
    kl_comm_part *list = NULL;
    *out = NULL;
    KL_TRY(kl_alloc(&t, 1, KL_MEM_MISC, err));
    t->linked = ex->space == KL_SPACE_DEVICE && is_linked(ex);
    if (t->linked) {
        KL_TRY(ex->vt.link_start(ex, npart, part, &t->ticket, err));
        *out = t;
        t = NULL;
        goto out;
    }
    KL_TRY(kl_alloc(&t->part, npart, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&list, npart, KL_MEM_MISC, err));
    memcpy(t->part, part, (size_t)npart * sizeof *part);
    t->npart = npart;
    KL_TRY(places(ex, t, list, err));
    KL_TRY(kl_comm_start(ex->ranks->comm, npart, list, &t->wait, err));
    *out = t;
    t = NULL;
out:
    kl_free(&list);
    discard(&t);
    return st;
}

kl_status kl_ranks_finish(kl_exec *ex, kl_transfer **transfer, kl_err *err)
{
    kl_status st = KL_OK;
    kl_transfer *const t = *transfer;
    if (t == NULL) return KL_OK;
    if (t->linked) {
        ex->vt.link_join(ex, t->ticket);
        goto out;
    }
    kl_comm_finish(ex->ranks->comm, &t->wait);
    int64_t at = 0;
    for (int i = 0; t->host && i < t->npart; at += t->part[i++].n)
        if (!t->part[i].send) KL_TRY(ex->vt.upload(ex, t->part[i].at, t->host + at, t->part[i].n, err));
out:
    discard(transfer);
    return st;
}

/* ---------------------------------------------------------------- whole vectors */

/* Part r of `whole` from rank r, mine to all others; both in the executor's memory. */
kl_status kl_ranks_gather_start(kl_exec *ex, const int64_t *begin, kl_dptr x, kl_dptr whole,
                                kl_transfer **out, kl_err *err)
{
    kl_status st = KL_OK;
    const int size = kl_ranks_size(ex), me = kl_ranks_mine(ex);
    kl_ranks_part *part = NULL;
    int n = 0;
    *out = NULL;
    KL_TRY(kl_alloc(&part, 2 * size, KL_MEM_MISC, err));
    for (int r = 0; r < size; r++) {
        if (r == me) continue;
        part[n++] = (kl_ranks_part){r, 1, x, begin[me + 1] - begin[me]};
        part[n++] = (kl_ranks_part){r, 0, kl_dptr_at(whole, begin[r]), begin[r + 1] - begin[r]};
    }
    KL_TRY(kl_ranks_start(ex, n, part, out, err));
    ex->vt.copy(ex, begin[me + 1] - begin[me], x, kl_dptr_at(whole, begin[me]));
out:
    kl_free(&part);
    return st;
}

kl_status kl_ranks_gather(kl_exec *ex, const int64_t *begin, kl_dptr x, kl_dptr whole, kl_err *err)
{
    kl_status st = KL_OK;
    kl_transfer *t = NULL;
    KL_TRY(kl_ranks_gather_start(ex, begin, x, whole, &t, err));
    KL_TRY(kl_ranks_finish(ex, &t, err));
out:
    return st;
}

kl_status kl_ranks_download(kl_exec *ex, const int64_t *begin, int64_t n, kl_dptr x, double *whole,
                            kl_err *err)
{
    kl_status st = KL_OK;
    if (begin == NULL) return ex->vt.download(ex, whole, x, n, err);
    const int size = kl_ranks_size(ex), me = kl_ranks_mine(ex);
    kl_comm_part *part = NULL;
    kl_comm_wait *wait = NULL;
    int count = 0;
    KL_TRY(kl_alloc(&part, 2 * size, KL_MEM_MISC, err));
    KL_TRY(ex->vt.download(ex, whole + begin[me], x, begin[me + 1] - begin[me], err));
    for (int r = 0; r < size; r++) {
        if (r == me) continue;
        part[count++] = (kl_comm_part){r, 1, whole + begin[me], begin[me + 1] - begin[me]};
        part[count++] = (kl_comm_part){r, 0, whole + begin[r], begin[r + 1] - begin[r]};
    }
    KL_TRY(kl_comm_start(ex->ranks->comm, count, part, &wait, err));
    kl_comm_finish(ex->ranks->comm, &wait);
out:
    kl_free(&part);
    return st;
}

kl_status kl_ranks_collect(kl_exec *ex, const int64_t *begin, kl_dptr x, const double *far, int64_t first,
                           int64_t count, double *to, kl_err *err)
{
    kl_status st = KL_OK;
    const int size = kl_ranks_size(ex), me = kl_ranks_mine(ex);
    kl_comm_part *part = NULL;
    kl_comm_wait *wait = NULL;
    double *mine = NULL;
    int n = 0;
    KL_TRY(kl_alloc(&part, size, KL_MEM_MISC, err));
    for (int r = 0; r < size; r++) {
        const int64_t low = begin[r] > first ? begin[r] : first,
                      high = begin[r + 1] < first + count ? begin[r + 1] : first + count;
        if (low >= high) continue;
        if (r == me && me > 0) KL_TRY(kl_realloc(&mine, high - low, KL_MEM_WORK, err));
        double *const here = me > 0 ? mine : to + low - first;
        if (r == me && far) memcpy(here, far + low - begin[me], (size_t)(high - low) * sizeof *here);
        else if (r == me) KL_TRY(ex->vt.download(ex, here, kl_dptr_at(x, low - begin[me]), high - low, err));
        if (r == me && me > 0) part[n++] = (kl_comm_part){0, 1, mine, high - low};
        if (r > 0 && me == 0) part[n++] = (kl_comm_part){r, 0, to + low - first, high - low};
    }
    KL_TRY(kl_comm_start(ex->ranks->comm, n, part, &wait, err));
    kl_comm_finish(ex->ranks->comm, &wait);
out:
    kl_free(&part);
    kl_free(&mine);
    return st;
}

kl_status kl_ranks_upload(kl_exec *ex, const int64_t *begin, int64_t n, kl_dptr x, const double *whole,
                          kl_err *err)
{
    const int me = kl_ranks_mine(ex);
    if (begin == NULL) return ex->vt.upload(ex, x, whole, n, err);
    return ex->vt.upload(ex, x, whole + begin[me], begin[me + 1] - begin[me], err);
}
