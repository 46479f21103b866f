/* The Hamiltonian of two enlarged blocks in one charge sector as operation records: y = H x (nemes2014, Eqs.
   9-13), its diagonal, and the layout of the wavefunction: segment of row sector I holds dim(I) x dim(J)
   numbers, column-major, J being the sector that completes I.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SUPERBLOCK_H
#define KL_SUPERBLOCK_H
#include "comm/share.h"
#include "dmrg/block.h"
#include "solve/linop.h"

typedef struct kl_layout {
    int nsec;         /* row sectors */
    int npair;        /* of them with a partner */
    int *pair;        /* [nsec]: column sector, or -1 */
    int *back;        /* [column sectors]: row sector, or -1 */
    int64_t *off;     /* [nsec] */
    int64_t n;
} kl_layout;

/* Of the wavefunctions of charge target between two bases. */
kl_status kl_layout_create(const kl_model *m, const kl_basis *row, const kl_basis *col, kl_qn target,
                           kl_layout *out, kl_err *err) KL_MUST_CHECK;
void kl_layout_clear(kl_layout *l);

/* Wavefunctions of two enlarged blocks; borrows all of it. */
typedef struct kl_wave {
    const kl_enlarged *row, *col; /* left block (x) site, site (x) right block */
    const kl_layout *layout;
    kl_dptr psi; /* [states][layout->n], on the executor */
} kl_wave;

typedef struct kl_superblock {
    kl_layout layout;
    kl_batch batch;     /* y = H x */
    kl_linop op;
    kl_dptr diagonal;
    kl_exec *ex;
    kl_dptr whole; /* of a vector that ranks share */
} kl_superblock;

/* left and right: the operators of one cut on its two sides. They and their bases must live as long. spread:
   1: where ranks share the list and it is worth it, op is for vectors that are spread over them: op.begin. */
kl_status kl_superblock_create(kl_exec *ex, const kl_bigop *left, const kl_bigop *right, kl_qn target,
                               int spread, kl_superblock **out, kl_err *err) KL_MUST_CHECK;
void kl_superblock_destroy(kl_superblock **s);

/* Only the records, nothing allocated on the executor or run: for plans. */
kl_status kl_superblock_records(const kl_bigop *left, const kl_bigop *right, const kl_layout *lay,
                                kl_batch *batch, kl_err *err) KL_MUST_CHECK;
/* Bytes of such a list at most, of operators that are not multiplied out. */
int64_t kl_superblock_list_bytes(const kl_bigop *left, const kl_bigop *right, const kl_layout *lay);

#endif
