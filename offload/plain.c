/* Products for any target, in plain OpenMP: a tile of 64 x 64 is 128 iterations, each with 4 x 8 sums of its own; neighbours share what they load through
   the cache. No barriers and no shared memory, so it needs nothing of a target but loops.
   SPDX-License-Identifier: Apache-2.0 */
#include "products.h"
#include "target.h"

enum { SHARE = 128, ROWS = 16, COLS = 8, MY_ROWS = 4, MY_COLS = 8 };

const kl_plan_opts kl_plain_opts = {.unit_m = ROWS, .unit_n = COLS, .most_m = MY_ROWS, .most_n = MY_COLS, .depth = 4, .nblock = 1024};

static inline int least(int a, int b) { return a < b ? a : b; }

static inline void product(int i, const kl_piece *piece, const double *x, double *y)
{
    const kl_piece *p = piece + i / SHARE;
    const int row = i % ROWS, col = i % SHARE / ROWS;
    double sum[MY_COLS][MY_ROWS];
#pragma clang loop unroll(full)
    for (int c = 0; c < MY_COLS; c++)
        for (int r = 0; r < MY_ROWS; r++) sum[c][r] = 0.0;
    for (;;) {
        const int m = (int)(p->mn & 0xffff), n = (int)(p->mn >> 16), k = p->k, ta = (p->flags & KL_P_TA) != 0, tb = (p->flags & KL_P_TB) != 0;
        if (row >= m || col >= n) return; /* the same for all pieces of a tile */
        const double *const pa = (const double *)(uintptr_t)kl_where(p->a, p->flags, KL_P_A, x, y);
        const double *const pb = (const double *)(uintptr_t)kl_where(p->b, p->flags, KL_P_B, x, y);
        const int64_t along = ta ? p->lda : 1, below = ta ? 1 : p->lda, beside = tb ? 1 : p->ldb, under = tb ? p->ldb : 1;
        const double *a[MY_ROWS], *b[MY_COLS];
        for (int r = 0; r < MY_ROWS; r++) a[r] = pa + least(row + ROWS * r, m - 1) * along; /* what is not there is read twice and never written */
        for (int c = 0; c < MY_COLS; c++) b[c] = pb + least(col + COLS * c, n - 1) * beside;
        for (int l = 0; l < k; l++) {
            double u[MY_ROWS];
#pragma clang loop unroll(full)
            for (int r = 0; r < MY_ROWS; r++) u[r] = a[r][l * below];
#pragma clang loop unroll(full)
            for (int c = 0; c < MY_COLS; c++) {
                const double v = b[c][l * under];
#pragma clang loop unroll(full)
                for (int r = 0; r < MY_ROWS; r++) sum[c][r] += u[r] * v;
            }
        }
        const double f = p->factor;
        const int write = (p->flags & KL_P_LAST) != 0, beta = (p->flags & KL_P_BETA) != 0;
        double *const to = (double *)(uintptr_t)kl_where(p->c, p->flags, KL_P_C, x, y);
#pragma clang loop unroll(full)
        for (int c = 0; c < MY_COLS; c++)
#pragma clang loop unroll(full)
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
    const int all = ntile * SHARE, teams = self->arch ? (all + KL_BLOCK - 1) / KL_BLOCK : self->teams;
    if (all == 0) return;
    KL_FLAT(teams, is_device_ptr(piece, x, y) firstprivate(all))
    for (int i = 0; i < all; i++) product(i, piece, x, y);
}
