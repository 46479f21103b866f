/* See operands.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/operands.h"
#include "base/mem.h"
#include "base/par.h"
#include "base/random.h"

enum { PIECE = 1 << 16 };

typedef struct fill_job {
    double *x;
    int64_t n;
    uint64_t seed;
} fill_job;

static void fill_piece(void *self, int64_t task, int thread)
{
    const fill_job *const j = self;
    const int64_t to = (task + 1) * PIECE < j->n ? (task + 1) * PIECE : j->n;
    (void)thread;
    for (int64_t i = task * PIECE; i < to; i++) j->x[i] = kl_random_at(j->seed, i);
}

void kl_operands_fill(int nthread, int64_t n, uint64_t seed, double *x)
{
    fill_job j = {x, n, seed};
    kl_par_for(nthread, (n + PIECE - 1) / PIECE, fill_piece, &j);
}

typedef struct matrix_job {
    int64_t n, each, *off;
    uint32_t *column;
    double *value;
    uint64_t seed;
} matrix_job;

static void fill_rows(void *self, int64_t task, int thread)
{
    const matrix_job *const j = self;
    const int64_t step = j->n / j->each, rows = PIECE / j->each,
                  to = (task + 1) * rows < j->n ? (task + 1) * rows : j->n;
    (void)thread;
    for (int64_t i = task * rows; i < to; i++) {
        uint64_t seed = j->seed + UINT64_C(0xd1342543de82ef95) * (uint64_t)i;
        j->off[i] = i * j->each;
        /* one in each of `each` stretches of the row: ascending, anywhere */
        for (int64_t k = i * j->each; k < (i + 1) * j->each; k++) {
            j->column[k] =
                (uint32_t)((k - i * j->each) * step + (int64_t)(kl_random_next(&seed) % (uint64_t)step));
            j->value[k] = kl_random_uniform(&seed);
        }
    }
}

kl_status kl_operands_matrix(int nthread, int64_t n, int64_t each, kl_spmat **out, kl_err *err)
{
    kl_status st = KL_OK;
    matrix_job j = {.n = n, .each = each, .seed = 4242};
    KL_TRY(kl_alloc(&j.off, n + 1, KL_MEM_MATRIX, err));
    KL_TRY(kl_realloc(&j.column, n * each, KL_MEM_MATRIX, err));
    KL_TRY(kl_realloc(&j.value, n * each, KL_MEM_MATRIX, err));
    kl_par_for(nthread, (n + PIECE / each - 1) / (PIECE / each), fill_rows, &j);
    j.off[n] = n * each;
    KL_TRY(kl_spmat_take_csr(n, n, 0, &j.off, &j.column, &j.value, out, err));
out:
    kl_free(&j.off);
    kl_free(&j.column);
    kl_free(&j.value);
    return st;
}
