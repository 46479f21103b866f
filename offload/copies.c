/* Copies of the offload executor beside its regions: by streams of the CUDA driver's, in the context that
   the offload runtime works in. A region is done when it returns, so no copy has to wait for one; whoever
   joins a copy waits on the host. Where there is no such driver a copy is made when it is asked for.
   SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "base/mem.h"
#include "offload.h"
#include <dlfcn.h>
#include <omp.h>
#include <string.h>

/* CUDA_MEMCPY2D of cuda.h, of which whole rows in unified memory are used. */
typedef struct copy2d {
    size_t from_x, from_y;
    int from_kind;
    const void *from_host;
    uintptr_t from;
    void *from_array;
    size_t from_pitch, to_x, to_y;
    int to_kind;
    void *to_host;
    uintptr_t to;
    void *to_array;
    size_t to_pitch, width, height;
} copy2d;

typedef struct kl_offload_copies {
    void *stream[2]; /* of KL_COPY_BACK the second */
    void *ticket[KL_NTICKET]; /* events */
    int next;
    int (*copy)(uintptr_t to, uintptr_t from, size_t bytes, void *stream);
    int (*copy_rows)(const copy2d *c, void *stream);
    int (*record)(void *event, void *stream);
    int (*wait)(void *event);
    int (*drop_event)(void *event);
    int (*drop_stream)(void *stream);
} kl_offload_copies;

void kl_offload_copies_close(kl_offload *self)
{
    kl_offload_copies *c = self->copies;
    if (!c) return;
    for (int i = 0; i < KL_NTICKET; i++)
        if (c->ticket[i]) c->drop_event(c->ticket[i]);
    for (int i = 0; i < 2; i++)
        if (c->stream[i]) c->drop_stream(c->stream[i]);
    kl_free(&c);
    self->copies = NULL;
}

/* Numbers: cuda.h. What is missing leaves copies that are made at once. */
void kl_offload_copies_open(kl_offload *self)
{
    enum {
        NON_BLOCKING = 1,
        DISABLE_TIMING = 2,
    };
    int (*make_stream)(void **, unsigned), (*make_event)(void **, unsigned);
    kl_offload_copies *c = NULL;
    if (!self->driver || kl_alloc(&c, 1, KL_MEM_MISC, NULL) != KL_OK) return;
    self->copies = c;
    *(void **)&make_stream = dlsym(self->driver, "cuStreamCreate");
    *(void **)&make_event = dlsym(self->driver, "cuEventCreate");
    *(void **)&c->copy = dlsym(self->driver, "cuMemcpyAsync");
    *(void **)&c->copy_rows = dlsym(self->driver, "cuMemcpy2DAsync_v2");
    *(void **)&c->record = dlsym(self->driver, "cuEventRecord");
    *(void **)&c->wait = dlsym(self->driver, "cuEventSynchronize");
    *(void **)&c->drop_event = dlsym(self->driver, "cuEventDestroy_v2");
    *(void **)&c->drop_stream = dlsym(self->driver, "cuStreamDestroy_v2");
    int good = make_stream && make_event && c->copy && c->copy_rows && c->record && c->wait &&
               c->drop_event && c->drop_stream && make_stream(&c->stream[0], NON_BLOCKING) == 0 &&
               make_stream(&c->stream[1], NON_BLOCKING) == 0;
    for (int i = 0; i < KL_NTICKET && good; i++) good = make_event(&c->ticket[i], DISABLE_TIMING) == 0;
    if (!good) kl_offload_copies_close(self);
}

static void copy_now(const kl_offload *self, int64_t n, kl_dptr src, kl_dptr dst)
{
    const size_t bytes = (size_t)n * sizeof(double);
#if KL_OFFLOAD_ON_HOST
    (void)self;
    memcpy(kl_device(dst), kl_device(src), bytes);
#else
    const int host = omp_get_initial_device(),
              from = kl_pool_has(&self->far, kl_device(src)) ? host : self->device,
              to = kl_pool_has(&self->far, kl_device(dst)) ? host : self->device;
    omp_target_memcpy(kl_device(dst), kl_device(src), bytes, 0, 0, to, from);
#endif
}

static int end(kl_offload_copies *c, void *stream, int how)
{
    if (how & KL_COPY_MORE) return -1;
    const int ticket = c->next;
    c->next = (c->next + 1) % KL_NTICKET;
    c->record(c->ticket[ticket], stream);
    return ticket;
}

static void *stream_of(const kl_offload_copies *c, int how) { return c->stream[how & KL_COPY_BACK ? 1 : 0]; }

int kl_offload_copy_async(kl_exec *ex, int64_t n, kl_dptr src, kl_dptr dst, int how)
{
    const kl_offload *const self = ex->self;
    kl_offload_copies *const c = self->copies;
    if (!c) {
        if (n > 0) copy_now(self, n, src, dst);
        return 0;
    }
    if (n > 0) c->copy(dst.addr, src.addr, (size_t)n * sizeof(double), stream_of(c, how));
    return end(c, stream_of(c, how), how);
}

int kl_offload_copy_pieces(kl_exec *ex, const kl_copy_pieces *p, int how)
{
    enum { UNIFIED = 4 };
    const kl_offload *const self = ex->self;
    kl_offload_copies *const c = self->copies;
    const size_t each = sizeof(double);
    for (int64_t i = 0; !c && i < p->npiece; i++)
        copy_now(self, p->n, kl_dptr_at(p->src, i * p->src_stride), kl_dptr_at(p->dst, i * p->dst_stride));
    if (!c) return 0;
    const copy2d all = {.from_kind = UNIFIED,
                        .from = p->src.addr,
                        .from_pitch = (size_t)p->src_stride * each,
                        .to_kind = UNIFIED,
                        .to = p->dst.addr,
                        .to_pitch = (size_t)p->dst_stride * each,
                        .width = (size_t)p->n * each,
                        .height = (size_t)p->npiece};
    if (p->n > 0 && p->npiece > 0 && c->copy_rows(&all, stream_of(c, how)) != 0)
        for (int64_t i = 0; i < p->npiece; i++) /* a stride may be longer than the driver allows */
            c->copy(kl_dptr_at(p->dst, i * p->dst_stride).addr, kl_dptr_at(p->src, i * p->src_stride).addr,
                    (size_t)p->n * each, stream_of(c, how));
    return end(c, stream_of(c, how), how);
}

void kl_offload_join(kl_exec *ex, int ticket, int host)
{
    const kl_offload *const self = ex->self;
    (void)host;
    if (self->copies) self->copies->wait(self->copies->ticket[ticket]);
}
