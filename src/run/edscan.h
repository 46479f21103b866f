/* What a scan over sectors by exact diagonalization has found so far, kept beside its result file until all
   is done, so that the same command goes on. Whole sectors: one that was stopped begins again.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EDSCAN_H
#define KL_EDSCAN_H
#include "ed/ed.h"
#include "run/task.h"

typedef struct kl_edscan {
    int n; /* sectors */
    int64_t nstate; /* of all of them */
    double *sector; /* [n] rows, see edscan.c */
    double *state; /* [nstate] rows */
} kl_edscan;

/* Those that the file holds of this very scan, whose sectors begin by the same ones; none where there is no
   such file. */
kl_status kl_edscan_read(const kl_task *t, const char *path, int64_t n, const kl_qn *sector, kl_edscan *s,
                         kl_err *err) KL_MUST_CHECK;

/* Sector k < s->n. */
kl_status kl_edscan_take(const kl_edscan *s, int k, kl_ed_result *to, kl_err *err) KL_MUST_CHECK;

/* Adds a sector, and writes the file. */
kl_status kl_edscan_add(const kl_task *t, const char *path, kl_qn sector, const kl_ed_result *found,
                        kl_edscan *s, kl_err *err) KL_MUST_CHECK;
void kl_edscan_clear(kl_edscan *s);

#endif
