/* Products for any target, in plain OpenMP: a tile of 64 x 64 is 128 iterations, each with 4 x 8 sums of its own; neighbours share what they load through
   the cache. No barriers and no shared memory, so it needs nothing of a target but loops.
   SPDX-License-Identifier: Apache-2.0 */
#include "products.h"
#include "target.h"

enum { SHARE = 128, ROWS = 16, COLS = 8, MY_ROWS = 4, MY_COLS = 8 };

const kl_tiling_opts kl_plain_opts = {.unit_m = ROWS, .unit_n = COLS, .most_m = MY_ROWS, .most_n = MY_COLS, .depth = 4, .nblock = 1024, .whole = 1, .adds = 1, .cost_least = 1000};

#define ALWAYS static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")

ALWAYS int least(int a, int b) { return a < b ? a : b; }

/* The numbers of one value of k. */
ALWAYS void ask(const double *a, const double *b, const int64_t *at, const int64_t *bt, double *u, double *v)
{
    UNROLL
    for (int r = 0; r < MY_ROWS; r++) u[r] = a[at[r]];
    UNROLL
    for (int c = 0; c < MY_COLS; c++) v[c] = b[bt[c]];
}

ALWAYS void multiply(const double *u, const double *v, double (*sum)[MY_ROWS])
{
    UNROLL
    for (int c = 0; c < MY_COLS; c++)
        UNROLL
        for (int r = 0; r < MY_ROWS; r++) sum[c][r] += u[r] * v[c];
}

/* sum += op(A) op(B) of one piece. The transposes and whether the tile is full are constants where this is used, so most addresses are one register and a number. */
ALWAYS void add(const int ta, const int tb, const int full, const kl_piece *p, const double *a, const double *b, int row, int col, double (*sum)[MY_ROWS])
{
    const int m = (int)(p->mn & 0xffff), n = (int)(p->mn >> 16), k = p->k, lda = p->lda, ldb = p->ldb;
    const int64_t below = ta ? 1 : lda, under = tb ? ldb : 1;
    int64_t at[MY_ROWS], bt[MY_COLS]; /* what is not there is read twice and never written */
    UNROLL
    for (int r = 0; r < MY_ROWS; r++) at[r] = (int64_t)(full ? row + ROWS * r : least(row + ROWS * r, m - 1)) * (ta ? lda : 1);
    UNROLL
    for (int c = 0; c < MY_COLS; c++) bt[c] = (int64_t)(full ? col + COLS * c : least(col + COLS * c, n - 1)) * (tb ? 1 : ldb);
    double u[2][MY_ROWS], v[2][MY_COLS];
    ask(a, b, at, bt, u[0], v[0]);
    int l = 0;
    for (; l + 2 <= k; l += 2) { /* two sets in turn: one is asked for while the other is used */
        a += below, b += under;
        ask(a, b, at, bt, u[1], v[1]);
        multiply(u[0], v[0], sum);
        if (l + 2 < k) a += below, b += under; /* else the last numbers come again, for nobody */
        ask(a, b, at, bt, u[0], v[0]);
        multiply(u[1], v[1], sum);
    }
    if (l < k) multiply(u[0], v[0], sum);
}

/* sum += op(A). */
ALWAYS void add_matrix(const kl_piece *p, const double *a, int row, int col, double (*sum)[MY_ROWS])
{
    const int m = (int)(p->mn & 0xffff), n = (int)(p->mn >> 16), ta = (p->flags & KL_P_TA) != 0;
    const int64_t below = ta ? p->lda : 1, right = ta ? 1 : p->lda;
    UNROLL
    for (int c = 0; c < MY_COLS; c++)
        UNROLL
        for (int r = 0; r < MY_ROWS; r++) sum[c][r] += a[least(row + ROWS * r, m - 1) * below + least(col + COLS * c, n - 1) * right];
}

ALWAYS void product(int i, const kl_piece *piece, const double *x, double *y)
{
    const kl_piece *p = piece + i / SHARE;
    const int row = i % ROWS, col = i % SHARE / ROWS, m = (int)(p->mn & 0xffff), n = (int)(p->mn >> 16);
    const int full = m == ROWS * MY_ROWS && n == COLS * MY_COLS;
    if (row >= m || col >= n) return; /* all pieces of a tile are of one size */
    double sum[MY_COLS][MY_ROWS];
    UNROLL
    for (int c = 0; c < MY_COLS; c++)
        UNROLL
        for (int r = 0; r < MY_ROWS; r++) sum[c][r] = 0.0;
    for (;;) {
        const double *const a = (const double *)(uintptr_t)kl_where(p->a, p->flags, KL_P_A, x, y);
        const double *const b = (const double *)(uintptr_t)kl_where(p->b, p->flags, KL_P_B, x, y);
        const int turned = (p->flags & KL_P_TA ? 1 : 0) + (p->flags & KL_P_TB ? 2 : 0);
        if (p->flags & KL_P_ADD) add_matrix(p, a, row, col, sum);
        else if (full && turned == 0) add(0, 0, 1, p, a, b, row, col, sum);
        else if (full && turned == 1) add(1, 0, 1, p, a, b, row, col, sum);
        else if (full && turned == 2) add(0, 1, 1, p, a, b, row, col, sum);
        else if (full) add(1, 1, 1, p, a, b, row, col, sum);
        else if (turned == 0) add(0, 0, 0, p, a, b, row, col, sum);
        else if (turned == 1) add(1, 0, 0, p, a, b, row, col, sum);
        else if (turned == 2) add(0, 1, 0, p, a, b, row, col, sum);
        else add(1, 1, 0, p, a, b, row, col, sum);
        const double f = p->factor;
        const int write = (p->flags & KL_P_LAST) != 0, beta = (p->flags & KL_P_BETA) != 0;
        double *const to = (double *)(uintptr_t)kl_where(p->c, p->flags, KL_P_C, x, y);
        UNROLL
        for (int c = 0; c < MY_COLS; c++)
            UNROLL
            for (int r = 0; r < MY_ROWS; r++) {
                const int i0 = row + ROWS * r, j0 = col + COLS * c;
                sum[c][r] *= f;
                if (!write) continue;
                if (i0 < m && j0 < n) to[i0 + (int64_t)j0 * p->ldc] = sum[c][r] + (beta ? to[i0 + (int64_t)j0 * p->ldc] : 0.0);
                sum[c][r] = 0.0;
            }
        if (p->next <= 0) return;
        p = piece + p->next;
    }
}

void kl_offload_plain(const kl_offload *self, const kl_piece *piece, int ntile, const double *x, double *y)
{
    const int all = ntile * SHARE, teams = self->arch ? ntile : self->teams, threads = SHARE; /* a tile a team, so that none waits for its neighbours */
    if (all == 0) return;
    KL_FLAT_OF(teams, threads, is_device_ptr(piece, x, y) firstprivate(all))
    for (int i = 0; i < all; i++) product(i, piece, x, y);
}
