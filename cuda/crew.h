/* Threads that drive streams of their own while the caller drives one, kept from call to call: a new thread
   costs more than small matrices take, and more where it has never seen the device. The pool of par.h is of
   no use here, for its threads have LAPACK's matrices meanwhile.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CUDA_CREW_H
#define KL_CUDA_CREW_H
#include "device.h"

/* fn(arg[i]) for i below n, at most KL_NSOLVER: arg[0] by the caller, the others by a thread each, or not at
   all where one could not be made. Back when all are done. */
void kl_cuda_crew_run(kl_cuda *self, int n, void *(*fn)(void *), void *const *arg);
void kl_cuda_crew_close(kl_cuda *self);

#endif
