/* What eigenvectors of symmetric matrices cost here and on an executor: measured when a device is tuned, told
   by the executor where it was not, read by eigshare.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EIGCOST_H
#define KL_EIGCOST_H

/* Of a matrix of n rows: seconds by LAPACK, on one of all threads that do so, and by vt.eigen, which has one
   matrix after the other. */
enum { KL_EIGEN_TIMES = 8 };
typedef struct kl_eigen_time {
    int n;
    double here, there;
} kl_eigen_time;

typedef struct kl_eigen_cost {
    int least; /* rows from which vt.eigen or vt.tridiagonal is worth asking */
    /* how many matrices vt.eigen gets, while LAPACK has the others, follows from these times, sizes
       ascending; it gets all of `least` rows and more where there are none */
    int ntime;
    kl_eigen_time time[KL_EIGEN_TIMES];
    /* seconds that vt.tridiagonal takes for a row of the largest matrix, and for a byte that it reads or
       writes */
    double reduce_row, reduce_byte;
    /* seconds until vt.eigen can begin with the first matrix ever; and what it would have saved so far */
    double opening, saved;
    double factored; /* rows cubed of the matrices that vt.roots was wanted for so far */
} kl_eigen_cost;

#endif
