/* Copies of the offload executor beside its regions: by a stream of the CUDA driver's, in the context that
   the offload runtime works in. A region is done when it returns, so no copy has to wait for one; whoever
   joins a copy waits on the host. Where there is no such driver a copy is made when it is asked for.
   SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "base/mem.h"
#include "offload.h"
#include <dlfcn.h>
#include <omp.h>
#include <string.h>

typedef struct kl_offload_copies {
    void *stream;
    void *ticket[KL_NTICKET]; /* events */
    int next;
    int (*copy)(uintptr_t to, uintptr_t from, size_t bytes, void *stream);
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
    if (c->stream) c->drop_stream(c->stream);
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
    *(void **)&c->record = dlsym(self->driver, "cuEventRecord");
    *(void **)&c->wait = dlsym(self->driver, "cuEventSynchronize");
    *(void **)&c->drop_event = dlsym(self->driver, "cuEventDestroy_v2");
    *(void **)&c->drop_stream = dlsym(self->driver, "cuStreamDestroy_v2");
    int good = make_stream && make_event && c->copy && c->record && c->wait && c->drop_event &&
               c->drop_stream && make_stream(&c->stream, NON_BLOCKING) == 0;
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

int kl_offload_copy_async(kl_exec *ex, int64_t n, kl_dptr src, kl_dptr dst, int how)
{
    const kl_offload *const self = ex->self;
    kl_offload_copies *const c = self->copies;
    if (!c) {
        if (n > 0) copy_now(self, n, src, dst);
        return 0;
    }
    if (n > 0) c->copy(dst.addr, src.addr, (size_t)n * sizeof(double), c->stream);
    if (how & KL_COPY_MORE) return -1;
    const int ticket = c->next;
    c->next = (c->next + 1) % KL_NTICKET;
    c->record(c->ticket[ticket], c->stream);
    return ticket;
}

void kl_offload_join(kl_exec *ex, int ticket, int host)
{
    const kl_offload *const self = ex->self;
    (void)host;
    if (self->copies) self->copies->wait(self->copies->ticket[ticket]);
}
