/* Symmetric matrices to tridiagonal ones, all of a call side by side: kernels/reduce.cu.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/reduce.h"

static void run(const kl_cuda *self, int nmat, int total, const kl_tridiagonal_matrix *table,
                const kl_tridiagonal_matrix *there, const int *owner, double *a, double *vector)
{
    const int largest = table[0].n;
    int active = nmat;
    for (int j = 0; j < largest; j++) {
        const int blocks = kl_tridiagonal_blocks(table, j, &active);
        const kl_tridiagonal_vectors u = kl_tridiagonal_turn(vector, total, j);
        kl_cuda_reduce_step(self, j, blocks, largest, there, owner, a, &u);
    }
}

kl_status kl_cuda_tridiagonal(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a, double *d,
                              double *e, kl_err *err)
{
    kl_status st = KL_OK;
    kl_cuda *const self = ex->self;
    const kl_cuda_host *const host = self->host;
    kl_tridiagonal_matrix *table = NULL;
    int *order = NULL, *owner = NULL, total = 0;
    void *block = NULL;
    for (int i = 0; i < nmat; i++) total += n[i];
    if (total == 0) return KL_OK;
    cudaSetDevice(self->device); /* whatever thread this is */
    KL_TRY(host->alloc_bytes((void **)&order, 2 * (int64_t)nmat, sizeof *order, KL_MEM_WORK, err));
    KL_TRY(host->alloc_bytes((void **)&table, nmat, sizeof *table, KL_MEM_WORK, err));
    const int64_t work = kl_tridiagonal_lay_out(nmat, n, off, self->nsm, KL_REDUCE_COLUMNS, order, table);
    if (!kl_cuda_reduce_fits(self, table[0].n)) {
        cudaGetLastError();
        st = host->fail(err, KL_ENOMEM, "--exec cuda: a matrix of %d rows is too large to be reduced",
                        table[0].n);
        goto out;
    }
    KL_TRY(host->alloc_bytes((void **)&owner, work, sizeof *owner, KL_MEM_WORK, err));
    kl_tridiagonal_owners(nmat, table, owner);
    const int64_t bytes = (int64_t)total * (int64_t)sizeof(double), tables = nmat * (int64_t)sizeof *table,
                  owners = work * (int64_t)sizeof *owner;
    KL_TRY(host->pool_alloc(&self->pool, KL_TRIDIAGONAL_VECTORS * bytes + tables + owners, &block, err));
    double *const vector = block;
    kl_tridiagonal_matrix *const there =
        (kl_tridiagonal_matrix *)(vector + KL_TRIDIAGONAL_VECTORS * (int64_t)total);
    int *const owner_there = (int *)(there + nmat);
    if (kl_cuda_put(self, there, table, tables) != 0 || kl_cuda_put(self, owner_there, owner, owners) != 0)
        KL_TRY(kl_cuda_check(self, "tridiagonal matrices", err));
    run(self, nmat, total, table, there, owner_there, kl_device(a), vector);
    if (kl_cuda_get(self, d, vector + 4 * (int64_t)total, bytes) != 0 ||
        kl_cuda_get(self, e, vector + 5 * (int64_t)total, bytes) != 0)
        KL_TRY(kl_cuda_check(self, "tridiagonal matrices", err));
    const int broken = kl_tridiagonal_broken(nmat, n, d, e);
    if (broken >= 0)
        st = host->fail(err, KL_EINPUT, "eigenvectors: a matrix of %d rows has elements that are not finite",
                        n[broken]);
out:
    host->pool_release(&self->pool, block);
    host->free_ptr((void **)&order);
    host->free_ptr((void **)&table);
    host->free_ptr((void **)&owner);
    return st;
}
