/* Copies during the products, on streams of their own, each with a ticket.
   SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

kl_status kl_cuda_loads_open(kl_cuda *self, kl_err *err)
{
    kl_status st = KL_OK;
    if (self->loads) return KL_OK;
    KL_TRY(self->host->alloc_bytes((void **)&self->loads, 1, sizeof *self->loads, KL_MEM_MISC, err));
    kl_cuda_loads *const l = self->loads;
    int good = cudaStreamCreateWithFlags(&l->copies, cudaStreamNonBlocking) == cudaSuccess &&
               cudaStreamCreateWithFlags(&l->back, cudaStreamNonBlocking) == cudaSuccess &&
               cudaEventCreateWithFlags(&l->here, cudaEventDisableTiming) == cudaSuccess;
    for (int i = 0; i < KL_NTICKET && good; i++)
        good = cudaEventCreateWithFlags(&l->ticket[i], cudaEventDisableTiming) == cudaSuccess;
    if (!good) {
        kl_cuda_loads_close(self);
        st = self->host->fail(err, KL_ENOMEM, "--exec cuda: no stream for copies");
    }
out:
    return st;
}

void kl_cuda_loads_close(kl_cuda *self)
{
    kl_cuda_loads *const l = self->loads;
    if (!l) return;
    for (int i = 0; i < KL_NTICKET; i++)
        if (l->ticket[i]) cudaEventDestroy(l->ticket[i]);
    if (l->here) cudaEventDestroy(l->here);
    if (l->copies) cudaStreamDestroy(l->copies);
    if (l->back) cudaStreamDestroy(l->back);
    self->host->free_ptr((void **)&self->loads);
}

/* The stream of a copy, which waits for what was asked for if it has to. */
static cudaStream_t begin(kl_cuda *self, int how)
{
    kl_cuda_loads *const l = self->loads;
    cudaStream_t const stream = how & KL_COPY_BACK ? l->back : l->copies;
    if (how & KL_COPY_AFTER) {
        cudaEventRecord(l->here, self->stream);
        cudaStreamWaitEvent(stream, l->here, 0);
    }
    return stream;
}

static int end(kl_cuda_loads *l, cudaStream_t stream, int how)
{
    if (how & KL_COPY_MORE) return -1;
    const int ticket = l->next;
    l->next = (l->next + 1) % KL_NTICKET;
    cudaEventRecord(l->ticket[ticket], stream);
    return ticket;
}

int kl_cuda_copy_async(kl_exec *ex, int64_t n, kl_dptr src, kl_dptr dst, int how)
{
    kl_cuda *const self = ex->self;
    cudaStream_t const stream = begin(self, how);
    if (n > 0)
        cudaMemcpyAsync(kl_device(dst), kl_device(src), (size_t)n * sizeof(double), cudaMemcpyDefault,
                        stream);
    return end(self->loads, stream, how);
}

int kl_cuda_copy_pieces(kl_exec *ex, const kl_copy_pieces *c, int how)
{
    kl_cuda *const self = ex->self;
    cudaStream_t const stream = begin(self, how);
    if (c->n > 0 && c->npiece > 0)
        cudaMemcpy2DAsync(kl_device(c->dst), (size_t)c->dst_stride * sizeof(double), kl_device(c->src),
                          (size_t)c->src_stride * sizeof(double), (size_t)c->n * sizeof(double),
                          (size_t)c->npiece, cudaMemcpyDefault, stream);
    return end(self->loads, stream, how);
}

void kl_cuda_join(kl_exec *ex, int ticket, int host)
{
    kl_cuda *const self = ex->self;
    if (host) cudaEventSynchronize(self->loads->ticket[ticket]);
    else cudaStreamWaitEvent(self->stream, self->loads->ticket[ticket], 0);
}
