/* From options to the objects of a run: model, lattice, parameters, terms, charges, executor and the options
   of DMRG. All checks that need the model are here; prints nothing.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TASK_H
#define KL_TASK_H
#include "run/moleculetask.h"
#include "run/placement.h"
#include "model/tables.h"

/* What a caller has in memory, instead of what options would name. */
typedef struct kl_task_given {
    const kl_fcidump *integrals; /* NULL, or those of a molecule */
    const char *model_text; /* NULL, or a model description; o->model is its name in messages */
    int64_t model_size;
    void *self;
    /* NULL, or makes the lattice */
    kl_status (*lattice)(void *self, kl_lattice **out, kl_err *err);
    int no_run; /* 1: the system is read, whatever the command of the options */
} kl_task_given;

typedef struct kl_task {
    const kl_options *o;     /* borrowed */
    /* What the task is about: a model on a lattice, or a molecule, whose orbitals are the sites of lat. */
    kl_tables *tables; /* own the model; NULL in a task that borrows it, and of a molecule */
    kl_moleculetask *molecule; /* NULL: a model on a lattice */
    const kl_model *model;
    kl_task_given given; /* what it points to is borrowed */
    /* the sites of the model's other variant, with the total spin or without; kl_task_twin makes them, but
       with the total spin they are there */
    kl_tables *twin_tables;
    kl_terms *twin;
    kl_lattice *lat;
    kl_params *params;
    kl_terms *terms;
    kl_exec *ex;
    struct kl_placement *placement; /* where sweeps run under --exec auto, beginning on ex; else NULL */
    kl_dmrg_opts dmrg; /* sweep and start belong to the task */
    kl_dmrg_sweep *sweep;
    int *start;
    kl_qn target; /* charges given; those to scan are 0 */
    int scan[KL_MAX_CHARGE]; /* 1: try all values of this charge */
    /* of one that is scanned "0:2" or "0,1,3", borrowed from the options; NULL: all its values */
    const char *scan_values[KL_MAX_CHARGE];
    int scanning;
} kl_task;

/* The task of kl_task_create at its full length; given may be NULL. */
kl_status kl_task_create_given(const kl_options *o, const kl_task_given *given, kl_task **out,
                               kl_err *err) KL_MUST_CHECK;

/* Makes twin. */
kl_status kl_task_twin(kl_task *t, kl_err *err) KL_MUST_CHECK;
/* The sites without the total spin where the task has it; NULL where it has none. */
const kl_terms *kl_task_plain(const kl_task *t);
/* The model whose operators and states the user names: without the total spin. */
const kl_model *kl_task_named(const kl_task *t);
/* 1: the run of t->dmrg.target can have the total spin as a charge, too; take: the options for that, of the
   lowest spin that the sector has. Reads and checks the other variant of the model: not for free. */
int kl_task_spin_instead(kl_task *t, char *take, size_t size);
/* What the total spin as a charge does not go with. */
kl_status kl_task_check_spin(const kl_task *t, kl_err *err) KL_MUST_CHECK;

/* nsite_only > 0: a chain of that length, whatever the options say (growth). Charges and start are left to
   kl_task_charges. */
kl_status kl_task_create(const kl_options *o, int nsite_only, kl_task **out, kl_err *err) KL_MUST_CHECK;
void kl_task_destroy(kl_task **t);

/* The same as `whole` on a chain of nsite sites, for growth, which makes terms at every length. Borrows the
   model of `whole`. */
kl_status kl_task_chain(const kl_task *whole, int nsite, kl_task **out, kl_err *err) KL_MUST_CHECK;

/* Reads --charge: every charge must be there, in range, and reachable by itself. Fills target, scan and
   scanning. */
kl_status kl_task_charges(kl_task *t, kl_err *err) KL_MUST_CHECK;
/* EINPUT where charges are scanned and `what` ("a plan is for") is of one sector. */
kl_status kl_task_one_sector(const kl_task *t, const char *what, kl_err *err) KL_MUST_CHECK;

/* Fills start from the list of --start path:, for dmrg.target. */
kl_status kl_task_path_start(kl_task *t, const char *list, kl_err *err) KL_MUST_CHECK;
/* Sets dmrg.target, and dmrg.start from --start neel, product: or path:, whose charge must be the target. */
kl_status kl_task_aim(kl_task *t, kl_qn target, kl_err *err) KL_MUST_CHECK;

/* 1: `name' is one of the structural parameters that chose the tables of m. */
int kl_task_structural(const kl_model *m, const char *name);

/* Sectors that --charge scan means, ascending. */
kl_status kl_task_sectors(const kl_task *t, int64_t *n, kl_qn **sector, kl_err *err) KL_MUST_CHECK;

/* image[n]: the sector before it in the list that has the same energies, H being its own reflection (Sz ->
   -Sz, N_up and N_dn exchanged); -1: none. */
kl_status kl_task_images(const kl_task *t, int64_t n, const kl_qn *sector, int64_t *image,
                         kl_err *err) KL_MUST_CHECK;

/* Another value of one parameter: params and terms anew. */
kl_status kl_task_set(kl_task *t, const char *name, double value, kl_err *err) KL_MUST_CHECK;

/* The parts of kl_task_create. */
kl_status kl_task_model(const kl_options *o, kl_tables **out, kl_err *err) KL_MUST_CHECK;
/* The lattice alone; given may be NULL, nsite_only as in kl_task_create. */
kl_status kl_task_lattice(const kl_options *o, const kl_task_given *given, int nsite_only, kl_lattice **out,
                          kl_err *err) KL_MUST_CHECK;
/* For sweeps of DMRG, and for products one by one. */
kl_status kl_task_exec(const kl_options *o, kl_exec **out, kl_err *err) KL_MUST_CHECK;
/* For exact diagonalization and configuration interaction, which say what is to be done. */
kl_status kl_task_exec_work(const kl_options *o, int64_t nwork, const kl_work *work, kl_exec **out,
                            kl_err *err) KL_MUST_CHECK;

/* Opens t->ex for runs of DMRG: under --exec auto every sweep goes where it is faster. */
kl_status kl_task_settle(kl_task *t, kl_err *err) KL_MUST_CHECK;

/* --threads, else the processors that this process may use. */
int kl_task_threads(const kl_options *o);

#endif
