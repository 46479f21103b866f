/* See gaps.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/gaps.h"
#include <math.h>

const kl_dmrg_row *kl_gaps_row(const kl_dmrg_result *res, int i)
{
    for (int k = res->nrow - 1; k >= 0; k--)
        if (isfinite(res->row[k].gap[i])) return &res->row[k];
    return NULL;
}

static int highest(const kl_dmrg_result *res) { return res->nstate > 0 ? res->nstate - 1 : 0; }

double kl_gaps_in(const kl_dmrg_result *res, const kl_dmrg_row *row, int i)
{
    const kl_dmrg_row *const b = &res->row[res->nrow - 1];
    const int top = highest(res);
    double gap = fmax(row->gap[i], 0);
    for (const kl_dmrg_row *a = res->row; a < row; a++) {
        /* its energy at the middle bond is not kept, and lies between these two; noise moves it further */
        if (!isfinite(a->gap[i]) || a->noise > 0 || !(a->kept >= 0)) continue;
        const double fell = fmax(a->energy[top] + a->kept - b->energy[top], 0);
        /* a probe's own energy is not known either */
        if (a->probed && !(i + 1 < KL_NGUARD && row->gap[i] > a->gap[i + 1] + fell)) continue;
        gap = fmin(gap, fmax(a->gap[i], 0) + fell);
    }
    return gap;
}

int kl_gaps_falls(const kl_dmrg_result *res, const kl_dmrg_row *row, int i, double falling)
{
    if (row == res->row || row->probed || row[-1].probed || !isfinite(row[-1].gap[i])) return 0;
    return row->gap[i] < falling * row[-1].gap[i];
}

double kl_gaps_lower(const kl_dmrg_result *res, int nstate)
{
    const kl_dmrg_row *const b = &res->row[res->nrow - 1];
    double lower = 0;
    for (const kl_dmrg_row *a = res->row; a < b; a++)
        for (int i = 0; i < nstate; i++) lower = fmax(lower, b->energy[i] - a->energy[i]);
    return lower;
}

double kl_gaps_within(const kl_dmrg_row *row, int nstate, double bar)
{
    double gap = INFINITY;
    for (int i = 0; i + 1 < nstate; i++) gap = fmin(gap, fabs(row->energy[i + 1] - row->energy[i]));
    return gap > bar ? gap : 0;
}
