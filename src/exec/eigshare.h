/* Who diagonalizes the density matrices of a truncation: the executor gets the largest, while the threads of
   this machine have the others, so that both are done as soon as possible.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EIGSHARE_H
#define KL_EIGSHARE_H
#include "exec/exec.h"

typedef struct kl_eigen_share {
    int there; /* matrices that the executor gets, the largest first */
    /* seconds that this machine takes with its matrices, that the executor takes with its own, and that this
       machine would take with all; 0 where they are not known */
    double here_seconds, there_seconds, alone_seconds;
} kl_eigen_share;

/* dim[n]: rows of the matrices, largest first. whole: 1: a thread has a matrix to its end; 0: all threads
   share what is done behind tridiagonal matrices. */
kl_eigen_share kl_eigen_share_best(const kl_exec *ex, const int *dim, int n, int whole);

/* The same in the course of a run, where opening the executor's library takes time: the executor gets nothing
   until sharing would have saved as much. Returns `there`. */
int kl_eigen_share_next(kl_exec *ex, const int *dim, int n, int whole);

/* Threads that are left for matrices while the executor has some. */
int kl_eigen_threads(const kl_exec *ex);

#endif
