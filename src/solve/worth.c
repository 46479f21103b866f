/* See worth.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "solve/worth.h"
#include <math.h>

/* The gain of a correction goes as the square of the residual that it is made of, so that the last gain tells
   the next one: in sweeps of Heisenberg and Hubbard cylinders within a third. */
int kl_worth_ends(const kl_worth *w, kl_worth_seen *seen, int step, double energy, double residual)
{
    int ends = 0;
    if (step == 0) seen->first = energy;
    else if (w->share > 0 && seen->residual > 0) {
        const double fall = residual / seen->residual, next = (seen->last - energy) * fall * fall;
        const double lost = seen->first - w->before, gained = seen->first - energy;
        ends = next < w->share * fmax(lost, fmin(gained, w->error));
    }
    seen->last = energy;
    seen->residual = residual;
    return ends;
}
