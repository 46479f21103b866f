/* Memory that devices of other processes write into: see peers.h. By the driver's handles for other
   processes, copies on a stream of their own, and writes and waits that streams do by themselves.
   SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <cuda.h>
#include <string.h>

_Static_assert(sizeof(cudaIpcMemHandle_t) <= KL_PEER_NAME, "a name is CUDA's own handle");

typedef CUresult stream_value_fn(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags);

struct kl_cuda_peers {
    cudaStream_t stream;
    cudaEvent_t event;
    stream_value_fn *write, *wait;
    int bad; /* 1: something could not be asked for */
};

static kl_status find_function(const kl_cuda *self, const char *name, stream_value_fn **out, kl_err *err)
{
    enum { SINCE = 12000 };
    void *found = NULL;
    enum cudaDriverEntryPointQueryResult how;
    if (cudaGetDriverEntryPointByVersion(name, &found, SINCE, cudaEnableDefault, &how) != cudaSuccess ||
        how != cudaDriverEntryPointSuccess) {
        cudaGetLastError();
        return self->host->fail(err, KL_EABSENT, "the driver has no %s", name);
    }
    memcpy(out, &found, sizeof found);
    return KL_OK;
}

static kl_status open_peers(kl_cuda *self, kl_err *err)
{
    kl_status st = KL_OK;
    if (self->peers) return KL_OK;
    KL_TRY(self->host->alloc_bytes((void **)&self->peers, 1, sizeof *self->peers, KL_MEM_MISC, err));
    KL_TRY(find_function(self, "cuStreamWriteValue32", &self->peers->write, err));
    KL_TRY(find_function(self, "cuStreamWaitValue32", &self->peers->wait, err));
    if (cudaStreamCreateWithFlags(&self->peers->stream, cudaStreamNonBlocking) != cudaSuccess ||
        cudaEventCreateWithFlags(&self->peers->event, cudaEventDisableTiming) != cudaSuccess)
        KL_TRY(self->host->fail(err, KL_ENOMEM, "--exec cuda: no stream for exchanges with other ranks"));
out:
    if (st != KL_OK) kl_cuda_peers_close(self);
    return st;
}

void kl_cuda_peers_close(kl_cuda *self)
{
    struct kl_cuda_peers *const p = self->peers;
    if (!p) return;
    if (p->stream) cudaStreamSynchronize(p->stream);
    if (p->event) cudaEventDestroy(p->event);
    if (p->stream) cudaStreamDestroy(p->stream);
    self->host->free_ptr((void **)&self->peers);
}

static kl_status peers_make(kl_exec *ex, int64_t n, kl_dptr *at, char name[KL_PEER_NAME], kl_err *err)
{
    kl_status st = KL_OK;
    kl_cuda *const self = ex->self;
    cudaIpcMemHandle_t handle;
    KL_TRY(open_peers(self, err));
    KL_TRY(kl_cuda_alloc(ex, n, at, err)); /* a block of the pool is a block of CUDA's */
    if (cudaMemsetAsync(kl_device(*at), 0, (size_t)n * sizeof(double), self->stream) != cudaSuccess ||
        cudaStreamSynchronize(self->stream) != cudaSuccess ||
        cudaIpcGetMemHandle(&handle, kl_device(*at)) != cudaSuccess) {
        cudaGetLastError();
        kl_cuda_release(ex, at);
        KL_TRY(self->host->fail(err, KL_EABSENT, "no other process can reach this device's memory"));
    }
    memcpy(name, &handle, sizeof handle);
out:
    return st;
}

static kl_status peers_reach(kl_exec *ex, const char name[KL_PEER_NAME], kl_dptr *there, kl_err *err)
{
    const kl_cuda *const self = ex->self;
    cudaIpcMemHandle_t handle;
    void *at = NULL;
    memcpy(&handle, name, sizeof handle);
    if (cudaIpcOpenMemHandle(&at, handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess) {
        cudaGetLastError();
        return self->host->fail(err, KL_EABSENT, "another rank's device cannot be reached");
    }
    there->addr = (uintptr_t)at;
    return KL_OK;
}

static void peers_leave(kl_exec *ex, kl_dptr *there)
{
    const kl_cuda *const self = ex->self;
    cudaStreamSynchronize(self->peers->stream);
    cudaStreamSynchronize(self->stream);
    cudaIpcCloseMemHandle(kl_device(*there));
    there->addr = 0;
}

static void after(struct kl_cuda_peers *p, cudaStream_t first, cudaStream_t then)
{
    p->bad |= cudaEventRecord(p->event, first) != cudaSuccess ||
              cudaStreamWaitEvent(then, p->event, 0) != cudaSuccess;
}

static void peers_begin(kl_exec *ex)
{
    const kl_cuda *const self = ex->self;
    after(self->peers, self->stream, self->peers->stream);
}

static void peers_end(kl_exec *ex)
{
    const kl_cuda *const self = ex->self;
    after(self->peers, self->peers->stream, self->stream);
}

static void peers_put(kl_exec *ex, int64_t nrow, int64_t n, kl_dptr from, int64_t ldf, kl_dptr to,
                      int64_t ldt)
{
    struct kl_cuda_peers *const p = ((kl_cuda *)ex->self)->peers;
    const size_t one = sizeof(double);
    if (nrow == 0 || n == 0) return;
    p->bad |= cudaMemcpy2DAsync(kl_device(to), (size_t)ldt * one, kl_device(from), (size_t)ldf * one,
                                (size_t)n * one, (size_t)nrow, cudaMemcpyDefault, p->stream) != cudaSuccess;
}

static void peers_tell(kl_exec *ex, int aside, kl_dptr at, uint32_t count)
{
    const kl_cuda *const self = ex->self;
    struct kl_cuda_peers *const p = self->peers;
    p->bad |= p->write((CUstream)(aside ? p->stream : self->stream), (CUdeviceptr)at.addr, count,
                       CU_STREAM_WRITE_VALUE_DEFAULT) != CUDA_SUCCESS;
}

static void peers_await(kl_exec *ex, int aside, kl_dptr at, uint32_t count)
{
    const kl_cuda *const self = ex->self;
    struct kl_cuda_peers *const p = self->peers;
    p->bad |= p->wait((CUstream)(aside ? p->stream : self->stream), (CUdeviceptr)at.addr, count,
                      CU_STREAM_WAIT_VALUE_GEQ) != CUDA_SUCCESS;
}

static kl_status peers_check(kl_exec *ex, kl_err *err)
{
    const kl_cuda *const self = ex->self;
    const kl_status st = kl_cuda_check(self, "an exchange with other ranks", err);
    if (st != KL_OK || !self->peers->bad) return st;
    return self->host->fail(err, KL_EBROKEN, "--exec cuda: an exchange with other ranks is refused");
}

const kl_peers kl_cuda_peers_table = {
    .make = peers_make,
    .drop = kl_cuda_release,
    .reach = peers_reach,
    .leave = peers_leave,
    .begin = peers_begin,
    .end = peers_end,
    .put = peers_put,
    .tell = peers_tell,
    .await = peers_await,
    .check = peers_check,
};
