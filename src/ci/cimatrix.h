/* Matrices with the statistics of the twenty of mahmoud2018: for 32,768 rows those of its Tables 3 to 5,
   number by number; for 1,048,576 rows, of which only times are printed there, the same shape with 87
   non-zeros a row.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CIMATRIX_H
#define KL_CIMATRIX_H
#include "sparse/spmat.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KL_CIMATRIX_SMALL = 32768,
    KL_CIMATRIX_LARGE = 1048576,
    KL_CIMATRIX_COUNT = 10,
};

/* number: 1 to 10, as in the tables. nrow: any from 16384 on; up to 262,144 rows are filled like the small
   ones, more like the large ones. */
kl_status kl_cimatrix_create(int64_t nrow, int number, int nthread, kl_spmat **out,
                             kl_err *err) KL_MUST_CHECK;

/* What the tables print of matrix `number` (32,768 rows): non-zeros right of the BOUNDARY of 655, longest row
   and which (from 1). */
void kl_cimatrix_printed(int number, int64_t *expansion, int64_t *longest, int64_t *longest_row);
enum { KL_CIMATRIX_BOUNDARY = 655 };
/* Sparsity of both regions as Table 4 has it: the reference space is a tenth of all columns, 3276.8 of
   32,768, wherever a row's BOUNDARY-th non-zero lies. */
void kl_cimatrix_sparsity(const kl_spmat_facts *f, int64_t nrow, double *reference, double *expansion);

#ifdef __cplusplus
}
#endif
#endif
