/* A state or a Hamiltonian as a chain of site tensors in dense blocks by charge, for other programs: plain
   arrays that need no executor. Charges are sums of U(1) and Z_n; the total spin is refused.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TENSORS_H
#define KL_TENSORS_H
#include "dmrg/canonical.h"
#include "dmrg/mpo.h"

/* The matrix between a sector of the left bond and one of the right bond. */
typedef struct kl_tensor_block {
    int left, right; /* sectors of the bonds */
    int state; /* local state that the site is in, of a Hamiltonian: that it comes to */
    int from; /* of a Hamiltonian: local state that it comes from; of a state -1 */
    int64_t at; /* of the matrix in data: [dim left][dim right], row-major */
} kl_tensor_block;

typedef struct kl_tensor {
    int64_t nblock;
    kl_tensor_block *block; /* [nblock] by left, state, from */
    int64_t ndata;
    double *data;
} kl_tensor;

/* Bond k lies between positions k - 1 and k. Sector charges: of a state the charge of the sites to its left,
   of a Hamiltonian what its operators add to it there. charge(right) = charge(left) + charge(state) -
   charge(from). The tensors are those of a plain tensor product: nothing is left to do about the signs of
   fermions, whose modes are filled in the order of positions. */
typedef struct kl_tensors {
    const kl_model *model;
    int nsite;
    const kl_site_type **type; /* [nsite] */
    kl_basis *bond; /* [nsite + 1] */
    kl_tensor *site; /* [nsite] */
} kl_tensors;

/* The tensors of c: left isometries before position `centre`, right isometries behind it, and the state's
   norm and sign there. EINPUT: no such position; the total spin is a charge. */
kl_status kl_tensors_of_state(const kl_canonical *c, int centre, kl_tensors **out, kl_err *err) KL_MUST_CHECK;

/* The whole Hamiltonian, its constant included; both outer bonds have one state. EINPUT: the total spin is a
   charge. */
kl_status kl_tensors_of_terms(const kl_terms *t, kl_tensors **out, kl_err *err) KL_MUST_CHECK;

void kl_tensors_destroy(kl_tensors **t);

#endif
