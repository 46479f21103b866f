/* Exact diagonalization as options ask for it: sectors solved, what is measured on them, thermodynamics, and
   checkpoints. Prints nothing; leaves the result to the caller.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EDRUN_H
#define KL_EDRUN_H
#include "run/edkeep.h"
#include "run/task.h"
#include "ed/ed.h"

/* What --form, the options of the solver, and those of a stored matrix say. */
kl_bipartition_form kl_edrun_form(const kl_options *o);
void kl_edrun_opts(const kl_task *t, kl_ed_opts *out);
/* H of a sector, ready to be applied: memory is checked before it is taken. */
kl_status kl_edrun_operator(const kl_task *t, kl_qn target, const kl_ed_opts *opts, kl_ed **ed,
                            kl_err *err) KL_MUST_CHECK;

/* Opens t->ex, which is asked for, or where the products with H of all sectors are made first. */
kl_status kl_edrun_exec(kl_task *t, kl_err *err) KL_MUST_CHECK;

/* Reads what --resume names, whose options o takes over; checks everything that can be checked before work
   begins; makes the task, its executor opened. given: as for kl_task_create_given. *done: NULL without
   --resume. */
kl_status kl_edrun_open(kl_options *o, const kl_task_given *given, kl_task **t, kl_result **done,
                        kl_err *err) KL_MUST_CHECK;

typedef struct kl_edrun {
    kl_task *t;            /* borrowed, as are those below */
    const kl_watch *watch; /* NULL: nobody is told */
    const char *path;      /* of checkpoints; NULL: none */
    int going_on;          /* 1: path holds the checkpoint to go on from */
    int want_vectors;      /* 1: the states are kept below, measured or not */
    kl_result *r;          /* what is found, the caller's to destroy */
    int stopped;           /* 1: kl_interrupted said yes; r is what a checkpoint would say */
    int kept;              /* 1: there is a checkpoint */
    kl_ed *ed; /* with want_vectors, the caller's to destroy: H, and its [nstate] states on the */
    kl_dptr x; /* executor, ldx apart, to be released */
    int64_t ldx;
    kl_terms *square; /* S^2, or NULL: edspin.h */
    double seen[3]; /* products, lowest energy and its residual at the last step */
} kl_edrun;

/* One sector, with what is measured and its spectral functions. */
kl_status kl_edrun_sector(kl_edrun *x, kl_qn target, kl_err *err) KL_MUST_CHECK;
/* Thermodynamics, summed over the sectors that --charge scans. */
kl_status kl_edrun_thermal(kl_edrun *x, kl_err *err) KL_MUST_CHECK;
/* The lowest energies of one sector alone: no states, nothing measured, no checkpoint. */
kl_status kl_edrun_energies(kl_edrun *x, kl_qn target, kl_err *err) KL_MUST_CHECK;
/* ENOMEM where one of the sectors does not fit. */
kl_status kl_edrun_check_memory(const kl_task *t, int64_t n, const kl_qn *sector, kl_err *err) KL_MUST_CHECK;
/* Gives back what want_vectors kept, and r. */
void kl_edrun_clear(kl_edrun *x);

/* 1: --output names a file. */
int kl_edrun_writes(const kl_options *o);

#endif
