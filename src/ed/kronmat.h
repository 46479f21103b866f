/* A sum of Kronecker products written out as a sparse matrix: what `stored' means in exact diagonalization,
   and a check of the product that stores nothing.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_KRONMAT_H
#define KL_KRONMAT_H
#include "exec/kron.h"
#include "sparse/spmat.h"

/* CSR matrix of the rows from begin to end, of k->n columns; elements that are no state (ends of last tiles)
   have their diagonal alone. ENOMEM, before anything is allocated, when it would take more than `most` bytes
   (0: no limit); EINPUT beyond 2^32 columns. */
kl_status kl_kron_matrix(const kl_kron *k, int64_t begin, int64_t end, int nthread, double most,
                         kl_spmat **out, kl_err *err) KL_MUST_CHECK;

#endif
