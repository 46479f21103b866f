/* See forecast.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/forecast.h"

#include <math.h>

const char *const kl_dmrg_wait_text[] = {
    "nothing",
    "more sweeps without noise",
    "less truncation: more states kept",
    "sweeps that change the energy less",
    "smaller residuals of the eigensolver",
    "a kept state as low as the energy told",
    "states that lie close to be told apart",
    "other sweeps that tell the error bar, which were interrupted",
    "a state of one total spin: its <S^2> is that of several mixed, and the error is told larger for that",
    "a search through all sectors that H keeps: it was cut, or not made, and a lower state may be missed",
};

/* The last sweep before `at` that kept fewer states; -1: there is none without noise. */
static int narrower(const kl_dmrg_row *row, int at)
{
    int k = at - 1;
    while (k >= 0 && row[k].m_reached >= row[at].m_reached) k--;
    return k >= 0 && !(row[k].noise > 0) ? k : -1;
}

int kl_forecast_make(const kl_dmrg_row *row, int nrow, double wanted, kl_forecast *out)
{
    enum { MOST_SWEEP = 40 };
    const int c = nrow - 1, b = nrow > 0 && !(row[c].noise > 0) ? narrower(row, c) : -1,
              a = b >= 0 ? narrower(row, b) : -1;
    if (a < 0) return 0;
    const double fell = row[b].energy[0] - row[c].energy[0], before = row[a].energy[0] - row[b].energy[0];
    if (!(fell > 0) || !(before > fell) || !(wanted > 0)) return 0;
    /* each sweep falls by `ratio' of the one before; all that are left, doubled as the error bar is */
    const double ratio = fell / before, left = 2 * fell * ratio / (1 - ratio);
    const double n = left > wanted ? ceil(log(wanted / left) / log(ratio)) : 1;
    if (n > (double)(int)MOST_SWEEP) return 0;
    const double wider = (double)row[c].m_reached / row[b].m_reached;
    /* between the square of m and its cube, and what was seen */
    const double seen = row[b].seconds > 0 ? row[c].seconds / row[b].seconds : 0,
                 slower = fmin(fmax(seen, pow(wider, 1.5)), pow(wider, 3));
    *out = (kl_forecast){.sweeps = (int)n, .m = row[c].m_reached * pow(wider, n)};
    for (int k = 1; k <= out->sweeps; k++) out->seconds += row[c].seconds * pow(slower, k);
    return 1;
}

static double slope(const kl_dmrg_row *a, const kl_dmrg_row *b)
{
    return (a->energy[0] - b->energy[0]) / (a->discarded - b->discarded);
}

int kl_forecast_lone(const kl_dmrg_row *row, int nrow)
{
    const double steady = 2; /* slopes that differ by no more are one */
    const kl_dmrg_row *const b = &row[nrow - 1], *const a = b - 1, *const z = a - 1;
    if (nrow < 2 || a->m >= b->m || b->sites == 1) return 0;
    if (nrow < 3 || z->noise > 0 || z->m >= a->m) return 1;
    const double x = slope(z, a), y = slope(a, b);
    return !(x > 0 && y > 0 && fmax(x, y) <= steady * fmin(x, y));
}
