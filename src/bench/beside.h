/* Another program, run in the same minute as a benchmark, and what its lines say.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BESIDE_H
#define KL_BESIDE_H
#include "base/base.h"

/* Runs a command and echoes its lines. *rate: R of 'H v ... R M states/s', *energy: E of 'E ENERGY', 0 where
   there is none. *cpu: S of 'cpu S s' on the energy's line, else the CPU seconds of the whole command, its
   start included. */
kl_status kl_beside_run(const char *command, double *rate, double *energy, double *cpu,
                        kl_err *err) KL_MUST_CHECK;

#endif
