/* Rows of vectors that ranks send each other, by CUDA: eight threads a row of rows.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "../device.h"
#include "exec/rows.h"

enum { TEAM = 256 };
static const int64_t most_teams = 1 << 20;

typedef struct device_rows {
    kl_dptr run, row;
} device_rows;

template <int ADD>
static __global__ void __launch_bounds__(TEAM)
    move(int64_t n, int64_t nrun, const kl_rows_run *__restrict__ run, const uint32_t *__restrict__ row,
         double *vector, double *buffer)
{
    for (int64_t i = blockIdx.x * (int64_t)TEAM + threadIdx.x; i < n; i += (int64_t)gridDim.x * TEAM) {
        double *const in = vector + kl_rows_place(run, nrun, row, i / KL_ROW) + i % KL_ROW;
        if (ADD) *in += buffer[i];
        else buffer[i] = *in;
    }
}

extern "C" kl_status kl_cuda_rows_prepare(kl_exec *ex, kl_rows *r, kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    device_rows *d = NULL;
    kl_status st = self->host->alloc_bytes((void **)&d, 1, sizeof *d, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    r->device = d;
    const int64_t runs = r->nrun * (int64_t)sizeof *r->run, rows = r->nlist * (int64_t)sizeof *r->row;
    if (st == KL_OK) st = kl_cuda_alloc(ex, runs / 8 + 1, &d->run, err);
    if (st == KL_OK) st = kl_cuda_alloc(ex, rows / 8 + 1, &d->row, err);
    if (st == KL_OK && (kl_cuda_put(self, (void *)d->run.addr, r->run, runs) != 0 ||
                        kl_cuda_put(self, (void *)d->row.addr, r->row, rows) != 0))
        st = self->host->fail(err, KL_EBROKEN, "lists of rows could not be copied to the device");
    return st;
}

extern "C" void kl_cuda_rows_release(kl_exec *ex, kl_rows *r)
{
    device_rows *const d = (device_rows *)r->device;
    kl_cuda_release(ex, &d->run);
    kl_cuda_release(ex, &d->row);
    ((kl_cuda *)ex->self)->host->free_ptr(&r->device);
}

template <int ADD>
static kl_status launch(kl_exec *ex, const kl_rows *r, kl_dptr vector, kl_dptr buffer, kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    const device_rows *const d = (const device_rows *)r->device;
    const int64_t teams = (r->n + TEAM - 1) / TEAM;
    if (teams == 0) return KL_OK;
    move<ADD><<<(unsigned)(teams < most_teams ? teams : most_teams), TEAM, 0, self->stream>>>(
        r->n, r->nrun, (const kl_rows_run *)d->run.addr, (const uint32_t *)d->row.addr, kl_device(vector),
        kl_device(buffer));
    return kl_cuda_check(self, "rows of a vector", err);
}

extern "C" kl_status kl_cuda_rows_take(kl_exec *ex, const kl_rows *r, kl_dptr x, kl_dptr buffer, kl_err *err)
{
    return launch<0>(ex, r, x, buffer, err);
}

extern "C" kl_status kl_cuda_rows_add(kl_exec *ex, const kl_rows *r, kl_dptr buffer, kl_dptr y, kl_err *err)
{
    return launch<1>(ex, r, y, buffer, err);
}
