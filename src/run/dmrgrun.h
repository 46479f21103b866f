/* A run of DMRG as options ask for it: what it starts from, its checkpoints, what is measured behind it.
   Prints nothing; writes checkpoints, and leaves the result to the caller.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DMRGRUN_H
#define KL_DMRGRUN_H
#include "run/pace.h"
#include "run/request.h"
#include "run/runfile.h"

/* Reads what --resume names, whose options o takes over where it has none of its own; checks everything that
   can be checked before work begins; makes the task, its executor opened. given: as for kl_task_create.
   *done: the part of the run that is done, NULL without --resume. */
kl_status kl_dmrgrun_open(kl_options *o, const kl_task_given *given, kl_task **t, kl_result **done,
                          kl_err *err) KL_MUST_CHECK;

/* For the one sector t->target: aims at it, and reads the state to go on from (--resume, --start FILE);
   *state NULL: there is none. */
kl_status kl_dmrgrun_start(kl_task *t, const kl_result *done, kl_state **state, kl_err *err) KL_MUST_CHECK;

/* The same for options that are complete, without --resume. */
kl_status kl_dmrgrun_prepare(const kl_options *o, const kl_task_given *given, kl_task **t,
                             kl_err *err) KL_MUST_CHECK;

typedef struct kl_dmrgrun {
    kl_task *t;            /* borrowed, as are those below */
    const kl_watch *watch; /* NULL: nobody is told */
    const char *path;      /* of checkpoints; NULL or "": none */
    const kl_result *done; /* NULL, or the part that is done */
    const kl_runfile_point *at; /* NULL, or the value of a sweep that this run is of */
    kl_result *r;         /* what is found, the caller's to destroy */
    kl_status unmeasured; /* KL_OK, or why what --measure asks for is missing: the run itself is kept */
    kl_err why;
    int measured; /* 1: unmeasured says what became of it, of the first of several ranks */
    kl_pace pace;
    double began; /* seconds of the clock */
    int advised;  /* 1: the total spin was told of, if there is any */
    kl_result_writing *keeping; /* NULL, or the checkpoint that a thread writes */
    int owed; /* 1: a sweep ended while it did, of which none was kept */
    kl_result_writing *writing; /* NULL, or the file that holds the state of r already: kl_result_end */
} kl_dmrgrun;

/* *state in: the start or NULL; out: what was found. x->r is not finished where kl_interrupted said yes. */
kl_status kl_dmrgrun_go(kl_dmrgrun *x, kl_state **state, kl_err *err) KL_MUST_CHECK;

/* What measurements of this task read. */
kl_request_scene kl_dmrgrun_scene(const kl_task *t, kl_exec *ex);
/* EINPUT where model or lattice has not what --measure asks for. */
kl_status kl_dmrgrun_check_measure(const kl_task *t, kl_err *err) KL_MUST_CHECK;
/* Measures what --measure asks for, and after a run what is told in any case; adds it to r. */
kl_status kl_dmrgrun_measure(const kl_task *t, const kl_state *state, int after_run, kl_result *r,
                             kl_err *err) KL_MUST_CHECK;

/* EINPUT where the state of a result is no start for this task. *spin = 1: it has a total spin and the task
   none: it is a state of t->twin, to be written out. */
kl_status kl_dmrgrun_check_start(kl_task *t, const char *path, const kl_result *from, int *spin,
                                 kl_err *err) KL_MUST_CHECK;

/* 1: --start names a result file. */
int kl_dmrgrun_starts_from_file(const kl_options *o);

/* How many of the lowest energies cannot be told apart: at least 1. */
int kl_dmrgrun_manifold(const kl_dmrg_result *d);

/* 1: the energy is known to the wanted accuracy. */
int kl_dmrgrun_energy_converged(const kl_dmrg_result *d);
/* After <S^2> has made the error bar larger than `before': a run that had converged has not where the bar
   is above `wanted'. */
void kl_dmrgrun_mixed(kl_dmrg_result *d, double before, double wanted);
/* 1: and so is the state: no other lies within the error bar. */
int kl_dmrgrun_converged(const kl_dmrg_result *d);

#endif
