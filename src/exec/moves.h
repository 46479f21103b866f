/* V_ab of a full space of determinants, which moves an electron of each spin, as kernels do it for slabs of
   rows of x (alpha strings): their tables, and the loops of both kernels, once for CUDA and for OpenMP
   regions. devsigma.c makes the tables.

   Every orbital pair has a panel for the rows of a slab. Fetched, row i of pair p's panel is the row of x
   that p moves row i to, with its sign, or zeros. Products with the integrals transform panels of alpha's
   pairs into panels of beta's. Each element of y takes nmove of their numbers as they land.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MOVES_H
#define KL_MOVES_H
#include <stdint.h>
#include "base/dev.h"

/* threads that share a row of a panel, and rows that share a thread as they land */
enum {
    KL_MOVES_LANES = 32,
    KL_MOVES_ROWS = 4,
};

typedef struct kl_landing {
    int32_t at, step; /* row i takes panel[at + i |step|], or its negative where step < 0 */
} kl_landing;

/* Rows of one irrep, each of nb beta strings. Two copies, both with device addresses: one on the host, one on
   the device at `self`. */
typedef struct kl_moves kl_moves;
struct kl_moves {
    int64_t nrow; /* alpha strings of the irrep */
    int64_t off; /* where the first of their rows begins in x and y */
    int32_t npair, nb, nmove, unused;
    /* [nrow][npair] row of x among those of all irreps, from 1 on, negative for a minus; 0: none */
    const int32_t *from;
    const int64_t *row_off; /* [all rows] where a row of x begins */
    const int64_t *panel; /* [npair] where a panel begins */
    const int32_t *length; /* [npair] of one of its rows */
    const kl_landing *land; /* [nmove][nb] */
    const kl_moves *self;
};

/* Row unit / npair of the slab that begins with row `first` of the irrep, pair unit % npair. */
KL_DEV void kl_moves_fetch(const kl_moves *m, int64_t first, int unit, int lane, const double *x,
                           double *panel)
{
    const int row = unit / m->npair, pair = unit - row * m->npair, n = m->length[pair];
    const int32_t from = m->from[(first + row) * m->npair + pair];
    double *const to = panel + m->panel[pair] + (int64_t)row * n;
    if (from == 0) {
        for (int j = lane; j < n; j += KL_MOVES_LANES) to[j] = 0.0;
        return;
    }
    const double *const source = x + m->row_off[(from < 0 ? -from : from) - 1], sign = from < 0 ? -1.0 : 1.0;
    for (int j = lane; j < n; j += KL_MOVES_LANES) to[j] = sign * source[j];
}

/* Beta string unit % nb of KL_MOVES_ROWS rows of a slab of nrow. */
KL_DEV void kl_moves_land(const kl_moves *m, int64_t first, int nrow, int unit, const double *panel,
                          double *y)
{
    const int group = unit / m->nb, b = unit - group * m->nb, row = KL_MOVES_ROWS * group;
    const int last = nrow - 1 - row; /* rows past the end take the last one's numbers and go nowhere */
    double sum[KL_MOVES_ROWS] = {0.0, 0.0, 0.0, 0.0};
    for (int k = 0; k < m->nmove; k++) {
        const kl_landing l = m->land[(int64_t)k * m->nb + b];
        const int step = l.step < 0 ? -l.step : l.step;
        const double sign = l.step < 0 ? -1.0 : 1.0;
        const double *const p = panel + l.at + (int64_t)row * step;
        for (int i = 0; i < KL_MOVES_ROWS; i++) sum[i] += sign * p[(int64_t)(i < last ? i : last) * step];
    }
    double *const to = y + m->off + (first + row) * m->nb + b;
    for (int i = 0; i < KL_MOVES_ROWS && i <= last; i++) to[(int64_t)i * m->nb] += sum[i];
}

#endif
