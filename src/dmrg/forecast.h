/* What an automatic run still has before it: how many states and how long. A guess from the sweeps made,
   which decides nothing.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_FORECAST_H
#define KL_FORECAST_H
#include "dmrg/dmrg.h"

typedef struct kl_forecast {
    int sweeps; /* still to be made */
    double m; /* states that the last of them keeps */
    double seconds;
} kl_forecast;

/* From what the energy fell by as m grew, sweep by sweep. wanted: absolute error. 0: three sweeps without
   noise and of different m are not there yet, or their energies do not settle. */
int kl_forecast_make(const kl_dmrg_row *row, int nrow, double wanted, kl_forecast *out);

/* 1: the last sweep is the only one at its m, more than before, and the lines through the sweeps before are
   not as steep as that to it: its discarded weight may tell too little, since the states that it began from
   were fewer. Of two sites at a time. */
int kl_forecast_lone(const kl_dmrg_row *row, int nrow);

#endif
