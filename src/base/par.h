/* Independent tasks shared out among threads: the only threads of the host. A thread that waits for work
   looks for it as long as the work that it has done is worth it and then sleeps; short jobs wake nobody; and
   nobody waits for a thread that has not come: on a busy machine whoever runs does all the tasks.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PAR_H
#define KL_PAR_H
#include "base/base.h"

/* One task; thread counts from 0. What a task writes must not depend on the thread that runs it. */
typedef void kl_par_fn(void *self, int64_t task, int thread);

/* Runs tasks 0..ntask-1 by at most nthread threads; back when all are done. A task that calls either does all
   of it on its own thread, and so does a second thread of the program that comes while the first is at it.
   for: tasks are begun in their order, so that large ones come first.
   split: each thread begins with its own part, the same each time, so that data stay near. */
void kl_par_for(int nthread, int64_t ntask, kl_par_fn *fn, void *self);
void kl_par_split(int nthread, int64_t ntask, kl_par_fn *fn, void *self);

/* Of nthread, how many some work is worth, where `worth` of it is worth another thread; 1 at least. */
int kl_par_hands(int nthread, double work, double worth);

int kl_par_is_inside(void); /* 1: a task runs on this thread */
int kl_par_cpus(void); /* processors that are ours: affinity, and the quota of cgroups */
/* Threads where nobody says how many: as many as cores, fewer where OMP_NUM_THREADS is smaller. */
int kl_par_threads(int cores);

#endif
