/* What the handles of kronlat.h hold, and what every function of it does as it begins and ends. The program's
   commands may look inside; other programs cannot.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_HANDLES_H
#define KL_HANDLES_H
#include "kronlat.h"

#include "ed/ed.h"
#include "io/cifile.h"
#include "io/result.h"
#include "run/runfile.h"
#include "run/watch.h"

struct kronlat_error {
    kronlat_status status;
    kl_err err;
};

/* The objects of a run, shared by a problem and by what came of it. Once it is made nobody changes its model,
   lattice and terms. */
typedef struct kl_scene {
    _Atomic int nuser;
    int borrowed; /* 1: o and t are the program's */
    kl_options *o;
    kl_task *t; /* NULL for ci */
    kl_result *done; /* what "resume" names, or NULL */
} kl_scene;

/* One user less; the last one frees it. And one user more: returns s. NULL is accepted. */
void kl_scene_release(kl_scene **s);
kl_scene *kl_scene_keep(kl_scene *s);

typedef struct kl_setting {
    char *name, *value; /* name with - for _ */
} kl_setting;

/* Sites and bonds as they were given. */
typedef struct kl_given_lattice {
    char *name;
    int nsite;
    double *xy; /* [nsite][2] or NULL */
    char **site_class; /* [nsite] or NULL */
    int64_t nbond;
    int *bond; /* [nbond][2] */
    char **bond_class; /* [nbond] or NULL */
} kl_given_lattice;

struct kronlat_problem {
    char *model; /* name or path; NULL for a molecule */
    char *model_text; /* NULL, or its description */
    char *fcidump; /* NULL, or a file of integrals */
    kl_fcidump *integrals; /* NULL, or those in memory */
    int nsetting;
    kl_setting *setting;
    kl_given_lattice *lattice;
    kl_scene *scene; /* NULL: to be made */
    kl_command made_for;
    int keep_vectors;
    void (*told)(void *self, const kronlat_progress *progress);
    void *told_self;
    int (*asked)(void *self);
    void *asked_self;
    void (*noted)(void *self, const char *text);
    void *noted_self;
    /* of the program's own runs: */
    const kl_watch *watch; /* instead of the callbacks above */
    const char *path; /* of result and checkpoints, instead of "output" */
    const kl_runfile_point *at; /* NULL, or the value of a sweep that this run is of */
    kl_state *state; /* NULL, or what it starts from, which it takes */
};

struct kronlat_progress {
    kronlat_stage stage;
    int64_t done, of;
    int sweep, states;
    double energy, residual;
};

struct kronlat_result {
    const char *method;
    kl_scene *scene; /* NULL: the system is not known */
    kl_result *r; /* of dmrg and ed */
    kl_state *state; /* of dmrg, or NULL */
    kl_ci_record ci; /* of ci */
    char executor[16]; /* of a run of ci: where, and by how many threads */
    int nthread;
    int narray;
    kl_measured *array; /* what r does not hold under a name */
    int64_t dim;
    int nvector;
    double *vector; /* [nvector][dim] of ed, or NULL */
    char *figure; /* the last that was asked for, or NULL */
    /* of a run: whether a checkpoint is there, what was not measured, and what was not written */
    int kept;
    kl_status unmeasured, unwritten;
    kl_err why; /* of the first of these */
};

/* At the beginning: our floating-point mode, and whom to ask; at the end: as they were. */
typedef struct kl_visit {
    uint64_t mode;
    kl_interrupt before;
} kl_visit;
kl_visit kl_visit_begin(const kronlat_problem *p);
/* Returns st as the header has it; notes it in e, which may be NULL. why: its message. */
kronlat_status kl_visit_end(kl_visit v, kl_status st, const kl_err *why, kronlat_error *e);

/* A problem around what the program has made of its command line: options, task and what is done are borrowed
   and stay the caller's. */
kl_status kl_problem_borrow(kl_options *o, kl_task *t, kl_result *done, const kl_watch *watch,
                            kronlat_problem **out, kl_err *err) KL_MUST_CHECK;

/* The scene of a problem for a command, made anew where settings have changed. */
kl_status kl_problem_scene(kronlat_problem *p, kl_command command, kl_err *err) KL_MUST_CHECK;
/* One of its own, for a handle that has to be free of the problem. */
kl_status kl_problem_new_scene(const kronlat_problem *p, kl_command command, kl_scene **out,
                               kl_err *err) KL_MUST_CHECK;
/* Model, lattice and terms alone, whatever is still missing for a run. */
kl_status kl_problem_system(kronlat_problem *p, kl_task **t, kl_err *err) KL_MUST_CHECK;
/* Options of a command as they are set. */
/* What kronlat_problem_charge tells, of any model. */
kl_status kl_tell_charge(const kl_model *m, int c, const char **name, int *numerator, int *denominator,
                         int *modulus, kl_err *err) KL_MUST_CHECK;
kl_status kl_problem_options(const kronlat_problem *p, kl_command command, kl_options **out,
                             kl_err *err) KL_MUST_CHECK;
/* Who is told: the callbacks of p. */
kl_watch kl_problem_watch(const kronlat_problem *p);

/* A result of a method, with what it takes over: r and state, or ci; each may be NULL. It keeps the scene. */
kl_status kl_handle_result(const char *method, kl_scene *scene, kl_result **r, kl_state **state,
                           kl_ci_record *ci, kronlat_result **out, kl_err *err) KL_MUST_CHECK;

/* Reads the state in the file at `path`, which r was loaded from. EINPUT: it is not of the system of p. */
kl_status kl_handle_state(kronlat_problem *p, const char *path, kronlat_result *r, kl_err *err) KL_MUST_CHECK;

/* What the library's answer is below it. */
kl_status kl_status_of(kronlat_status status, const kronlat_error *e, kl_err *err);

/* Indices and signs of a sector's states: see operator.c. */
typedef struct kl_places {
    int64_t dim;
    int64_t *at; /* [dim] index of state i in a vector of the executor */
    signed char *sign; /* [dim] +-1, NULL: all +1 */
} kl_places;
kl_status kl_places_create(const kl_ed *ed, int nthread, kl_places *out, kl_err *err) KL_MUST_CHECK;
void kl_places_clear(kl_places *p);

#endif
