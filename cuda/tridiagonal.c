/* Symmetric matrices to tridiagonal ones, all of a call side by side: kernels/reduce.cu.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/reduce.h"
#include <math.h>

/* The matrices by their rows, largest first, and the blocks that each has: those that are done first come
   last. place[nmat]: where its vectors begin. */
static int lay_out(const kl_cuda *self, int nmat, const int *n, const int64_t *off, int *order,
                   kl_reduce_matrix *table)
{
    double squares = 0;
    int work = 0, at = 0;
    for (int i = 0; i < nmat; i++) {
        int k = i;
        squares += (double)n[i] * n[i];
        for (; k > 0 && n[order[k - 1]] < n[i]; k--) order[k] = order[k - 1];
        order[k] = i;
    }
    for (int i = 0; i < nmat; at += n[i++])
        for (int k = 0; k < nmat; k++)
            if (order[k] == i) table[k] = (kl_reduce_matrix){.off = off[i], .n = n[i], .at = at};
    for (int k = 0; k < nmat; k++) {
        const int rows = table[k].n, most = (rows + KL_REDUCE_COLUMNS - 1) / KL_REDUCE_COLUMNS;
        const int share = (int)ceil(2.0 * self->nsm * rows * rows / squares);
        table[k].first = work;
        table[k].blocks = share < most ? share : most;
        work += table[k].blocks;
    }
    return work;
}

static void run(const kl_cuda *self, int nmat, int total, const kl_reduce_matrix *table,
                const kl_reduce_matrix *there, const int *owner, double *a, double *vector)
{
    const int largest = table[0].n;
    int active = nmat;
    for (int j = 0; j < largest; j++) {
        while (active > 0 && table[active - 1].n <= j) active--;
        const int odd = j & 1;
        const kl_reduce_vectors u = {.v = vector + (odd ? 0 : total),
                                     .p = vector + (odd ? 2 * total : 3 * total),
                                     .next_v = vector + (odd ? total : 0),
                                     .next_p = vector + (odd ? 3 * total : 2 * total),
                                     .d = vector + 4 * total,
                                     .e = vector + 5 * total};
        kl_cuda_reduce_step(self, j, table[active - 1].first + table[active - 1].blocks, largest, there,
                            owner, a, &u);
    }
}

kl_status kl_cuda_tridiagonal(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a, double *d,
                              double *e, kl_err *err)
{
    kl_status st = KL_OK;
    kl_cuda *const self = ex->self;
    const kl_cuda_host *const host = self->host;
    kl_reduce_matrix *table = NULL;
    int *order = NULL, *owner = NULL, total = 0;
    void *block = NULL;
    for (int i = 0; i < nmat; i++) total += n[i];
    if (total == 0) return KL_OK;
    cudaSetDevice(self->device); /* whatever thread this is */
    KL_TRY(host->alloc_bytes((void **)&order, nmat, sizeof *order, KL_MEM_WORK, err));
    KL_TRY(host->alloc_bytes((void **)&table, nmat, sizeof *table, KL_MEM_WORK, err));
    const int work = lay_out(self, nmat, n, off, order, table);
    if (!kl_cuda_reduce_fits(self, table[0].n)) {
        cudaGetLastError();
        st = host->fail(err, KL_ENOMEM, "--exec cuda: a matrix of %d rows is too large to be reduced",
                        table[0].n);
        goto out;
    }
    KL_TRY(host->alloc_bytes((void **)&owner, work, sizeof *owner, KL_MEM_WORK, err));
    for (int i = 0; i < nmat; i++)
        for (int k = 0; k < table[i].blocks; k++) owner[table[i].first + k] = i;
    const int64_t bytes = (int64_t)total * (int64_t)sizeof(double), tables = nmat * (int64_t)sizeof *table,
                  owners = work * (int64_t)sizeof *owner;
    KL_TRY(host->pool_alloc(&self->pool, 6 * bytes + tables + owners, &block, err));
    double *const vector = block;
    kl_reduce_matrix *const there = (kl_reduce_matrix *)(vector + 6 * (int64_t)total);
    int *const owner_there = (int *)(there + nmat);
    if (kl_cuda_put(self, there, table, tables) != 0 || kl_cuda_put(self, owner_there, owner, owners) != 0)
        KL_TRY(kl_cuda_check(self, "tridiagonal matrices", err));
    run(self, nmat, total, table, there, owner_there, kl_device(a), vector);
    if (kl_cuda_get(self, d, vector + 4 * (int64_t)total, bytes) != 0 ||
        kl_cuda_get(self, e, vector + 5 * (int64_t)total, bytes) != 0)
        KL_TRY(kl_cuda_check(self, "tridiagonal matrices", err));
    for (int i = 0, at = 0; i < nmat; at += n[i++])
        for (int k = 0; k < n[i]; k++)
            if (!isfinite(d[at + k]) || !isfinite(e[at + k])) {
                st = host->fail(err, KL_EINPUT,
                                "eigenvectors: a matrix of %d rows has elements that are not finite", n[i]);
                goto out;
            }
out:
    host->pool_release(&self->pool, block);
    host->free_ptr((void **)&order);
    host->free_ptr((void **)&table);
    host->free_ptr((void **)&owner);
    return st;
}
