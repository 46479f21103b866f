/* Independent tasks shared out among threads: for code that is no kernel of an executor but worth more than one core.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PAR_H
#define KL_PAR_H
#include "base.h"

/* One task; thread counts from 0. What a task writes must not depend on the thread that runs it. */
typedef void kl_par_fn(void *self, int64_t task, int thread);

/* Runs tasks 0..ntask-1, in any order, by at most nthread threads; back when all are done. */
void kl_par_for(int nthread, int64_t ntask, kl_par_fn *fn, void *self);

#endif
