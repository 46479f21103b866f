/* Each row has its own stream of random numbers, so that any number of threads makes the same matrix.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/cimatrix.h"

#include <string.h>

#include "base/mem.h"
#include "base/par.h"
#include "base/random.h"

/* Table 3 */
static const struct {
    int64_t expansion, longest, longest_row;
} printed[KL_CIMATRIX_COUNT] = {
    {9678327, 1074, 5314},  {9673031, 1069, 6144},  {9666827, 1078, 22358}, {9670529, 1068, 21549},
    {9669733, 1060, 4233},  {9673530, 1069, 28394}, {9666857, 1079, 21836}, {9670234, 1077, 20148},
    {9661419, 1067, 12787}, {9670316, 1064, 25678},
};

void kl_cimatrix_printed(int number, int64_t *expansion, int64_t *longest, int64_t *longest_row)
{
    *expansion = printed[number - 1].expansion;
    *longest = printed[number - 1].longest;
    *longest_row = printed[number - 1].longest_row;
}

void kl_cimatrix_sparsity(const kl_spmat_facts *f, int64_t nrow, double *reference, double *expansion)
{
    const double all = (double)nrow * (double)nrow;
    *reference = 1 - (double)f->nnz_reference / (0.1 * all);
    *expansion = 1 - (double)f->nnz_expansion / (0.9 * all);
}

typedef struct filling {
    int64_t nrow, left; /* columns of the reference space */
    int nleft;          /* non-zeros of a row in it */
    uint64_t seed;
    const int64_t *off;
    uint32_t *column;
    double *value;
    uint64_t **bits;    /* [nthread][(nrow + 63) / 64] */
} filling;

enum { ROWS = 64 };

static uint64_t below(uint64_t *state, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)kl_random_next(state) * n) >> 64);
}

/* `count` distinct columns of [low, high), ascending. */
static void choose(uint64_t *state, uint64_t *bits, int64_t low, int64_t high, int64_t count, uint32_t *out)
{
    const int64_t width = high - low;
    if (64 * count >= width) { /* dense: mark, then read the marks in order */
        memset(bits, 0, (size_t)((width + 63) / 64) * sizeof(*bits));
        for (int64_t have = 0; have < count;) {
            const uint64_t c = below(state, (uint64_t)width), bit = UINT64_C(1) << (c % 64);
            have += (bits[c / 64] & bit) == 0;
            bits[c / 64] |= bit;
        }
        for (int64_t w = 0; w < (width + 63) / 64; w++)
            for (uint64_t rest = bits[w]; rest != 0; rest &= rest - 1)
                *out++ = (uint32_t)(low + 64 * w + __builtin_ctzll(rest));
        return;
    }
    for (int64_t have = 0; have < count;) {
        const uint32_t c = (uint32_t)(low + (int64_t)below(state, (uint64_t)width));
        int64_t k = have;
        while (k > 0 && out[k - 1] > c) k--;
        if (k > 0 && out[k - 1] == c) continue;
        memmove(out + k + 1, out + k, (size_t)(have - k) * sizeof(*out));
        out[k] = c;
        have++;
    }
}

static void fill_task(void *self, int64_t task, int thread)
{
    const filling *const f = self;
    for (int64_t i = task * ROWS; i < (task + 1) * ROWS && i < f->nrow; i++) {
        uint64_t state = f->seed + (uint64_t)i * UINT64_C(0xd1342543de82ef95);
        const int64_t from = f->off[i], n = f->off[i + 1] - from;
        choose(&state, f->bits[thread], 0, f->left, f->nleft, f->column + from);
        choose(&state, f->bits[thread], f->left, f->nrow, n - f->nleft, f->column + from + f->nleft);
        for (int64_t k = from; k < from + n; k++) f->value[k] = kl_random_uniform(&state);
    }
}

/* Lengths right of the reference space: a bell; for the printed matrices moved by ones until sum and longest
   row are the table's. */
static void choose_lengths(uint64_t seed, int64_t nrow, int number, int large, int64_t *length)
{
    uint64_t state = seed;
    int64_t sum = 0;
    const int exact = nrow == KL_CIMATRIX_SMALL;
    const int64_t most = exact ? printed[number - 1].longest - KL_CIMATRIX_BOUNDARY : INT64_MAX;
    for (int64_t i = 0; i < nrow; i++) {
        length[i] = large ? 17 + (int64_t)below(&state, 21) : 295;
        for (int k = 0; k < 8 && !large; k++) length[i] += (int64_t)below(&state, 35) - 17;
        if (length[i] >= most) length[i] = most - 1;
        sum += length[i];
    }
    if (!exact) return;
    const int64_t row = printed[number - 1].longest_row - 1;
    sum += most - length[row];
    length[row] = most;
    while (sum != printed[number - 1].expansion) {
        const int64_t i = (int64_t)below(&state, (uint64_t)nrow),
                      step = sum < printed[number - 1].expansion ? 1 : -1;
        if (i == row || length[i] + step >= most || length[i] + step < 1) continue;
        length[i] += step;
        sum += step;
    }
}

kl_status kl_cimatrix_create(int64_t nrow, int number, int nthread, kl_spmat **out, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t *off = NULL;
    uint32_t *column = NULL;
    double *value = NULL;
    const int large = nrow > 262144;
    filling f = {.nrow = nrow,
                 .left = nrow / 10,
                 .nleft = large ? 60 : KL_CIMATRIX_BOUNDARY,
                 .seed = UINT64_C(20180824) + (uint64_t)number};
    *out = NULL;
    if (number < 1 || number > KL_CIMATRIX_COUNT || nrow < 16384 || nrow > INT32_MAX)
        return kl_fail(err, KL_EINPUT, "matrix %d of %lld rows; there are 1 to %d, of 16384 rows or more",
                       number, (long long)nrow, KL_CIMATRIX_COUNT);
    KL_TRY(kl_alloc(&off, nrow + 1, KL_MEM_MATRIX, err));
    choose_lengths(f.seed * 3, nrow, number, large, off + 1);
    for (int64_t i = 0; i < nrow; i++) off[i + 1] += off[i] + f.nleft;
    KL_TRY(kl_realloc(&column, off[nrow], KL_MEM_MATRIX, err));
    KL_TRY(kl_realloc(&value, off[nrow], KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&f.bits, nthread, KL_MEM_WORK, err));
    for (int t = 0; t < nthread; t++) KL_TRY(kl_alloc(&f.bits[t], (nrow + 63) / 64, KL_MEM_WORK, err));
    f.off = off;
    f.column = column;
    f.value = value;
    kl_par_for(nthread, (nrow + ROWS - 1) / ROWS, fill_task, &f);
    KL_TRY(kl_spmat_take_csr(nrow, nrow, 0, &off, &column, &value, out, err));
out:
    for (int t = 0; t < nthread && f.bits != NULL; t++) kl_free(&f.bits[t]);
    kl_free(&f.bits);
    kl_free(&off);
    kl_free(&column);
    kl_free(&value);
    return st;
}
