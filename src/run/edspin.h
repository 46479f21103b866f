/* The total spin of states of exact diagonalization, by <S^2>.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EDSPIN_H
#define KL_EDSPIN_H
#include "ed/ed.h"
#include "io/result.h"
#include "run/task.h"

/* S^2 on the sites of a task, in the operators of its model. *square is NULL where the model has no total
   spin, or hundreds of terms, or where S^2 leads out of a sector. To be freed by kl_edspin_destroy. */
kl_status kl_edspin_create(kl_task *t, kl_terms **square, kl_err *err) KL_MUST_CHECK;
void kl_edspin_destroy(kl_terms **square);

/* Adds <S^2> of nstate states, x[nstate][ldx] on the device, to a result: "ed/s2". */
kl_status kl_edspin_add(const kl_terms *square, const kl_ed *ed, int nstate, kl_dptr x, int64_t ldx,
                        kl_result *r, kl_err *err) KL_MUST_CHECK;

/* 1 and "1/2" where <S^2> is S (S + 1) to what the eigenvectors' errors allow. */
int kl_edspin_text(double s2, char out[16]);

#endif
