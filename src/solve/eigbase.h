/* What the eigensolvers share: options, results, and what rounding leaves. Knows none of them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EIGBASE_H
#define KL_EIGBASE_H
#include "solve/keep.h"
#include "solve/linop.h"
#include "solve/worth.h"

typedef enum kl_solver { KL_SOLVER_DAVIDSON, KL_SOLVER_LANCZOS } kl_solver;

/* A better inverse of H - theta than that of the diagonal: t = r / (d - theta) with |d - theta| >= floor for
   all but the part it knows more of. r and t are device vectors of length n and do not overlap. */
typedef struct kl_precond {
    void *self;
    void (*apply)(const struct kl_precond *p, double theta, double floor, kl_dptr r, kl_dptr t);
} kl_precond;

/* Parts of a Davidson iteration by the lines of Alg. 3 in nemes2014. ORDER KL_LINE: kl_line_name in
   eigbase.c */
typedef enum kl_line {
    KL_LINE_PRODUCT,  /* 2: W = H V */
    KL_LINE_PROJECT,  /* 3: V^T w */
    KL_LINE_SMALL,    /* 4: the small eigenproblem */
    KL_LINE_RITZ,     /* 5: x = V y */
    KL_LINE_RESIDUAL, /* 6: r = W y - lambda x, and its norm */
    KL_LINE_CORRECT,  /* 10 */
    KL_LINE_OVERLAP,  /* 12: s = V^T r */
    KL_LINE_REMOVE,   /* 13: r - V s, and again where that was not enough */
    KL_NLINE
} kl_line;
extern const char *const kl_line_name[KL_NLINE];

typedef struct kl_eig_opts {
    kl_solver solver;
    int nroot;         /* >= 1 */
    int max_basis;     /* vectors kept, >= nroot + 2; 0: 16 + 4 nroot */
    int max_apply;     /* products with H at most; 0: 1000 */
    double tol;        /* target for |H x - E x| of every root, absolute */
    double tol_rel;    /* stop also when the residual has fallen to tol_rel times the first one; 0: off */
    /* Davidson: number of roots, the last, that are guards: followed only until nothing of theirs can lie
       below the others */
    int nguard;
    /* Davidson: 0: until then; else guards are states to be known, too, to so many times the residual */
    double guard_loose;
    double ceiling; /* Davidson, with bounded: the same for any root above it */
    int bounded;
    kl_worth worth; /* Davidson of one root: stop also when a product more is not worth it */
    uint64_t seed; /* of random components */
    /* 0: a start that is an eigenvector to rounding (a product state may be one, of any energy) is checked by
       up to 30 products from a random direction; 1: it is taken as it is */
    int trust_start;
    const kl_precond *precond; /* Davidson and LOBPCG; NULL: the diagonal */
    /* Davidson: 1: preconditions below the least element of the diagonal, for starts that are far from the
       answer; LOBPCG always does */
    int stay_below;
    /* Davidson: 1: waits for the device after every line, so that stats->seconds_line tells them apart */
    int lines;
    void *self; /* of the monitor: */
    /* lowest root; nonzero: stop; may be NULL */
    int (*step)(void *self, int napply, double energy, double residual);
    /* NULL, or gets all that a run needs to go on to the same bits: between steps where the run is stopped,
       and where that is due LOBPCG's between steps, the others' at restarts */
    const kl_keeper *keeper;
} kl_eig_opts;

typedef struct kl_eig_stats {
    int napply, nrestart;
    int nfar; /* vectors of the basis that stayed on the host, the device having no room for them */
    int converged; /* all roots reached tol (or tol_rel), and guards are settled */
    /* the monitor said so; the vectors are what there was. Not set where a run ends all the same: it is not
       to be taken up again */
    int stopped;
    int stagnated; /* tol is below what this arithmetic can reach; the residual is the best there is */
    double seconds_apply, seconds_all;
    double seconds_line[KL_NLINE]; /* with opts->lines */
} kl_eig_stats;

/* Solvers call it between steps: asks the monitor whether to stop. */
void kl_eig_watch(const kl_eig_opts *opts, kl_eig_stats *stats, double energy, double residual);
/* Row and column k of the symmetric B[limit][limit] up to n: coef[n], overlaps of a product with H. ENOCONV:
   one is not finite. */
kl_status kl_eig_project(const kl_eig_stats *stats, int n, const double *coef, int k, int64_t limit,
                         double *b, kl_err *err) KL_MUST_CHECK;
/* 1: the keeper, if there is one, is to get the solver's state now. */
int kl_eig_due(const kl_eig_opts *opts, const kl_eig_stats *stats);
/* What every solver keeps of its stats. */
void kl_eig_stats_list(kl_keep_list *l, kl_eig_stats *stats);
enum { KL_EIG_STATS = 4 };
/* EINPUT: what is kept is no state of this solver in this run. */
kl_status kl_eig_refuse(const kl_keep *k, const char *solver, int nroot, kl_err *err) KL_MUST_CHECK;

/* What rounding alone leaves of a residual, in units of the largest |H v| seen. */
#define KL_EIG_ROUNDING (4 * 2.220446049250313e-16)

enum {
    KL_EIG_BASIS = 16, /* max_basis where none is given: this, and 4 for each root */
    KL_EIG_APPLY = 1000, /* max_apply where none is given */
    KL_EIG_STALL_STEPS = 20, /* without progress near rounding: nothing more will come */
    /* products spent to see whether something lies below a start that was exact */
    KL_EIG_GUARD_STEPS = 30,
    /* restarts after which a convergence by recurrences is confirmed by fresh products */
    KL_EIG_RECHECK_RESTARTS = 8
};

/* 1: H does not lead out of the basis, or so little that the largest residual fell all at once, to its target
   or just above it; in the first step, where |H| may not be known yet: it is nothing. Something may lie below
   then that the basis does not see. */
static inline int kl_eig_closed(int step, double worst, double previous, double rounding)
{
    return step == 0 ? worst <= 64.0 * rounding : worst < 1e-6 * previous;
}

/* The least element of H's diagonal, infinite without one. */
kl_status kl_eig_below(const kl_linop *h, double *below, kl_err *err) KL_MUST_CHECK;

/* Distance of columns, at least n: 64-byte aligned, and no two neighbours at the same line of a cache. */
static inline int64_t kl_eig_stride(int64_t n)
{
    const int64_t lines = (n + 7) / 8;
    return 8 * (lines + (lines % 2 == 0));
}

#endif
