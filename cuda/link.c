/* Devices of several ranks, linked by NCCL, which is opened when the first link wants it. Exchanges run on a
   stream of their own, at the same time as the products.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "device.h"
#ifdef KL_CUDA_NCCL
#include <dlfcn.h>
#include <nccl.h>
#include <string.h>

_Static_assert(sizeof(ncclUniqueId) == KL_LINK_NAME, "a link is known by NCCL's own name");

/* What is used of the library. */
typedef struct nccl {
    __typeof__(&ncclGetUniqueId) name;
    __typeof__(&ncclCommInitRank) open;
    __typeof__(&ncclCommDestroy) destroy;
    __typeof__(&ncclGroupStart) begin;
    __typeof__(&ncclGroupEnd) end;
    __typeof__(&ncclSend) send;
    __typeof__(&ncclRecv) receive;
    __typeof__(&ncclGetErrorString) text;
} nccl;

struct kl_cuda_link {
    nccl of;
    ncclComm_t comm;
    cudaStream_t stream;
    cudaEvent_t before, done[KL_NLINK]; /* in turn, one an exchange */
    int next;
};

static kl_status find_library(kl_cuda *self, nccl *out, kl_err *err)
{
    void *const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) return self->host->fail(err, KL_EABSENT, "NCCL is not here: %s", dlerror());
    *(void **)&out->name = dlsym(library, "ncclGetUniqueId");
    *(void **)&out->open = dlsym(library, "ncclCommInitRank");
    *(void **)&out->destroy = dlsym(library, "ncclCommDestroy");
    *(void **)&out->begin = dlsym(library, "ncclGroupStart");
    *(void **)&out->end = dlsym(library, "ncclGroupEnd");
    *(void **)&out->send = dlsym(library, "ncclSend");
    *(void **)&out->receive = dlsym(library, "ncclRecv");
    *(void **)&out->text = dlsym(library, "ncclGetErrorString");
    if (!out->name || !out->open || !out->destroy || !out->begin || !out->end || !out->send ||
        !out->receive || !out->text)
        return self->host->fail(err, KL_EABSENT, "this NCCL has no ncclSend; 2.7 or later is wanted");
    return KL_OK;
}

static kl_status check(kl_cuda *self, const nccl *n, ncclResult_t code, kl_err *err)
{
    if (code == ncclSuccess) return KL_OK;
    return self->host->fail(err, KL_EBROKEN, "NCCL: %s", n->text(code));
}

kl_status kl_cuda_link_name(kl_exec *ex, char name[KL_LINK_NAME], kl_err *err)
{
    kl_status st = KL_OK;
    nccl n;
    ncclUniqueId id;
    KL_TRY(find_library(ex->self, &n, err));
    KL_TRY(check(ex->self, &n, n.name(&id), err));
    memcpy(name, &id, sizeof id);
out:
    return st;
}

kl_status kl_cuda_link_open(kl_exec *ex, int rank, int size, const char name[KL_LINK_NAME], kl_err *err)
{
    kl_status st = KL_OK;
    kl_cuda *const self = ex->self;
    ncclUniqueId id;
    memcpy(&id, name, sizeof id);
    cudaSetDevice(self->device); /* whatever thread this is */
    KL_TRY(self->host->alloc_bytes((void **)&self->link, 1, sizeof *self->link, KL_MEM_MISC, err));
    kl_cuda_link *const l = self->link;
    KL_TRY(find_library(self, &l->of, err));
    KL_TRY(check(self, &l->of, l->of.open(&l->comm, size, id, rank), err));
    int good = cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking) == cudaSuccess &&
               cudaEventCreateWithFlags(&l->before, cudaEventDisableTiming) == cudaSuccess;
    for (int i = 0; i < KL_NLINK && good; i++)
        good = cudaEventCreateWithFlags(&l->done[i], cudaEventDisableTiming) == cudaSuccess;
    if (!good)
        KL_TRY(self->host->fail(err, KL_ENOMEM, "--exec cuda: no stream for exchanges with other ranks"));
out:
    if (st != KL_OK) kl_cuda_link_close(self);
    return st;
}

void kl_cuda_link_close(kl_cuda *self)
{
    kl_cuda_link *const l = self->link;
    if (!l) return;
    if (l->stream) cudaStreamSynchronize(l->stream);
    if (l->comm) l->of.destroy(l->comm);
    for (int i = 0; i < KL_NLINK; i++)
        if (l->done[i]) cudaEventDestroy(l->done[i]);
    if (l->before) cudaEventDestroy(l->before);
    if (l->stream) cudaStreamDestroy(l->stream);
    self->host->free_ptr((void **)&self->link);
}

kl_status kl_cuda_link_start(kl_exec *ex, int npart, const kl_ranks_part *part, int *ticket, kl_err *err)
{
    kl_status st = KL_OK;
    kl_cuda *const self = ex->self;
    kl_cuda_link *const l = self->link;
    *ticket = l->next++ % KL_NLINK;
    cudaEventRecord(l->before, self->stream);
    cudaStreamWaitEvent(l->stream, l->before, 0);
    KL_TRY(check(self, &l->of, l->of.begin(), err));
    for (int i = 0; i < npart; i++) {
        const kl_ranks_part *const p = &part[i];
        double *const at = kl_device(p->at);
        if (p->n == 0) continue;
        KL_TRY(check(self, &l->of,
                     p->send ? l->of.send(at, (size_t)p->n, ncclDouble, p->peer, l->comm, l->stream)
                             : l->of.receive(at, (size_t)p->n, ncclDouble, p->peer, l->comm, l->stream),
                     err));
    }
    KL_TRY(check(self, &l->of, l->of.end(), err));
    cudaEventRecord(l->done[*ticket], l->stream);
    KL_TRY(kl_cuda_check(self, "an exchange with other ranks", err));
out:
    return st;
}

void kl_cuda_link_join(kl_exec *ex, int ticket)
{
    kl_cuda *const self = ex->self;
    cudaStreamWaitEvent(self->stream, self->link->done[ticket], 0);
}
#endif
