/* What davidson.c works on, and davidsonkeep.c writes down.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DAVIDSONBASE_H
#define KL_DAVIDSONBASE_H
#include "solve/eigbase.h"
#include "solve/ortho.h"

typedef struct kl_davidson {
    const kl_linop *h;
    kl_exec *ex;
    const kl_eig_opts *opts;
    kl_eig_stats *stats;
    int64_t n, ld;
    int nroot, nwant; /* nwant: nroot, and one more while the guard looks on */
    int limit;        /* columns of V and of W */
    int nspare;       /* further columns: x, r, M^-1 x and the results of a restart */
    int k, kw;        /* vectors in V, and how many of them are multiplied */
    kl_ortho v;
    kl_columns w;
    kl_dptr memory, spare;
    kl_exec *cpu;     /* where the basis does not fit on the device: */
    double *far;      /* its columns that stay on the host, */
    kl_dptr pinned;   /* and a buffer between the two, where the device reaches the host's memory */
    int ticket;
    double *host;     /* one allocation behind the arrays below, each [limit][limit] or [limit + 1] */
    double *b, *y, *z, *old, *theta, *coef, *small;
    double *goal;     /* [nroot] residual that a root has to reach */
    double *residual; /* [nroot] the caller's */
    double below;     /* preconditioners stay below it */
    double clock;     /* at the last lap */
    int kold;         /* rows of old: Ritz vectors of the step before */
} kl_davidson;

/* What the iteration remembers from step to step. */
typedef struct kl_davidson_course {
    double first0; /* residual of root 0 at the start */
    double best; /* the smallest that the lagging residual has been, */
    int best_step; /* and when */
    double previous; /* the worst residual of the step before */
    int disturbed, guarded; /* 1: these have been tried */
    int guard_step; /* steps that the guard has taken */
    int confirmed; /* restarts at the last confirmation */
} kl_davidson_course;

/* One step: what bounds it, and what it has found. */
typedef struct kl_davidson_moment {
    int step, room, budget; /* new vectors that the basis and the products left allow */
    int plain; /* 1: the bare residual instead of a correction */
    double norm_h, spread, rounding;
    int open_roots, ncandidate, guard_done;
    double worst, worst_open; /* residuals: of all, and of roots that have not converged */
} kl_davidson_moment;

/* Step 3 of davidson.c: y and theta of the k vectors. */
kl_status kl_davidson_small_problem(kl_davidson *s, kl_err *err) KL_MUST_CHECK;

/* Lets the keeper have the state in the middle of step m->step: V, W and B are whole, corrections are yet to
   be made. Which columns wait on the host is kept, too: sums over them are made in another order. */
kl_status kl_davidson_keep(kl_davidson *s, const kl_davidson_course *c, const kl_davidson_moment *m,
                           kl_err *err) KL_MUST_CHECK;
/* 1: the keeper brings a run of which *nv columns of V and *nw of W were on the device. */
int kl_davidson_kept_split(const kl_davidson *s, int64_t *nv, int64_t *nw);
/* The inverse. */
kl_status kl_davidson_take_up(kl_davidson *s, kl_davidson_course *c, kl_davidson_moment *m,
                              kl_err *err) KL_MUST_CHECK;

#endif
