/* Exact diagonalization: the lowest states of a term list in one charge sector, without truncation. Prints
   nothing; tells its steps to a monitor.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_ED_H
#define KL_ED_H
#include "solve/eig.h"
#include "ed/bipartition.h"
#include "ed/kronspread.h"
#include "exec/spmv.h"

/* ORDER KL_ED: kl_ed_solver_name */
typedef enum kl_ed_solver {
    KL_ED_AUTO,     /* one state: LANCZOS; more: LOBPCG; a sector of up to KL_ED_FULL_AUTO states: FULL */
    KL_ED_LANCZOS,  /* one state: three vectors, without the state itself; more: thick restart */
    KL_ED_DAVIDSON,
    KL_ED_LOBPCG,
    KL_ED_FULL,     /* all states, by LAPACK */
} kl_ed_solver;
extern const char *const kl_ed_solver_name[];

enum {
    KL_ED_FULL_MOST = 10000, /* states of a sector that LAPACK takes */
    KL_ED_FULL_AUTO = 400,
};
enum { KL_ED_GUARDS = 2 }; /* vectors more than the states asked for */

/* The solver where none is asked for. */
kl_ed_solver kl_ed_solver_for(double dim, int nstate);
/* EINPUT: too large for all states. */
kl_status kl_ed_check_full(double dim, kl_err *err) KL_MUST_CHECK;

typedef struct kl_ed kl_ed;

/* H on its basis, ready to be applied: vectors live on ex, and ranks share them where it has ranks. */
struct kl_ed {
    double unit;           /* what kron, matrix and op count energies in: kl_terms_in_own_unit */
    kl_exec *ex;
    kl_bipartition *space;
    kl_kron *kron;         /* of whole vectors; where ranks share them, the source of: */
    kl_kronspread *spread;
    int64_t *begin;        /* op.begin */
    kl_linop op;
    kl_spmat *matrix;      /* NULL: nothing is stored; of this rank's rows */
    kl_spmv *spmv;
    kl_dptr whole;         /* with a stored matrix: the vector that ranks share */
    double seconds_build;
};
/* target: of the sector. EINPUT: an empty sector, or a form that the model does not have; ENOMEM where its
   tables do not fit. Borrows terms and ex. */
kl_status kl_ed_create(const kl_terms *terms, kl_qn target, kl_bipartition_form form, kl_exec *ex,
                       kl_ed **out, kl_err *err) KL_MUST_CHECK;
void kl_ed_destroy(kl_ed **ed);

/* From now on H is multiplied as a stored matrix in one of the formats of spmat.h (half: one half of it,
   where the format can). most: bytes that it may take, 0: no limit; ENOMEM beyond. */
kl_status kl_ed_store(kl_ed *ed, const kl_spopts *format, int half, double most, kl_err *err) KL_MUST_CHECK;

/* v[n], device: random, 0 where no state is; the same on every machine and for any number of threads. */
kl_status kl_ed_random(const kl_ed *ed, uint64_t seed, kl_dptr v, kl_err *err) KL_MUST_CHECK;

typedef enum kl_ed_stop {
    KL_ED_CONVERGED,
    KL_ED_STAGNATED,
    KL_ED_MAX_APPLY,
    KL_ED_INTERRUPTED,
    KL_ED_STUCK
} kl_ed_stop;

/* ORDER KL_ED_PRECONDITION: kl_ed_precondition_name */
typedef enum kl_ed_precondition { KL_ED_DIAGONAL, KL_ED_NEUMANN, KL_ED_BARE } kl_ed_precondition;
extern const char *const kl_ed_precondition_name[];

typedef struct kl_ed_opts {
    kl_ed_solver solver;
    kl_ed_precondition precondition; /* DAVIDSON and LOBPCG */
    int neumann;         /* order of the expansion; 0: 2 */
    int nstate;          /* 1 or more; LOBPCG: up to KL_LOBPCG_MOST */
    double accuracy;     /* wanted relative error of the energies; 0: 1e-10 */
    int max_basis, max_apply; /* 0: the solver's */
    uint64_t seed;
    int want_vectors;
    int sorted;          /* 1: of flavours as KL_BIPARTITION_SORTED; who makes the space knows it */
    /* 1: vectors are given as the energies leave them; one state by LANCZOS leaves none */
    int as_found;
    void *self;          /* of the monitor: */
    int (*step)(void *self, int napply, double energy, double residual); /* nonzero: stop; may be NULL */
    const kl_keeper *keeper; /* NULL, or keeps what kl_ed_run goes on from; not asked by FULL */
} kl_ed_opts;

typedef struct kl_ed_result {
    kl_ed_solver solver;
    int nstate;                     /* found: fewer than asked for in a small sector */
    /* [nstate] each: */
    double *energy;                 /* the constant of the terms included; ascending */
    double *residual;               /* |H x - E x|; by recurrences where no vector was wanted */
    double *error;                  /* bound of the energy's error: the residual, or residual^2 / gap */
    /* states that share this energy as far as is known; 0: not known (one state by LANCZOS) */
    int *multiplet;
    int open_multiplet;             /* 1: the last multiplet may go on beyond the states looked at */
    double attainable;              /* no error below this means anything */
    int64_t dim, n;
    int napply, nrestart, nvector;  /* nvector: vectors of length n held at most */
    kl_ed_stop stop;
    double seconds, seconds_apply;
    int nfull;                      /* FULL: all energies */
    double *full;                   /* [nfull] */
} kl_ed_result;

/* vectors: NULL, or [nstate] on return the states, device, at *vectors + k * *ldv; to be released by the
   caller. */
kl_status kl_ed_run(kl_ed *ed, const kl_ed_opts *opts, kl_dptr *vectors, int64_t *ldv, kl_ed_result *result,
                    kl_err *err) KL_MUST_CHECK;
void kl_ed_result_clear(kl_ed_result *r);
/* Room for what is told of nstate states, and of none, all 0. */
kl_status kl_ed_result_states(kl_ed_result *r, int nstate, kl_err *err) KL_MUST_CHECK;

/* <x| coef * string |x> / <x|x> for strings of a term list, value[nterm]; x device. */
kl_status kl_ed_expect(const kl_ed *ed, const kl_terms *strings, kl_dptr x, double *value,
                       kl_err *err) KL_MUST_CHECK;

/* <x| the sum of the list |x> / <x|x> of nvec vectors, its constant included; x[nvec][ldx], device. */
kl_status kl_ed_expect_sum(const kl_ed *ed, const kl_terms *list, int nvec, kl_dptr x, int64_t ldx,
                           double *value, kl_err *err) KL_MUST_CHECK;

/* What a run would need. */
typedef struct kl_ed_plan {
    kl_bipartition_size size;
    /* one vector; the lists of the halves, about, and for all states the matrix */
    double vector_bytes, table_bytes;
    int nvector;
    kl_ed_solver solver;              /* which it would be */
    double seconds_apply;             /* about */
    double slower;                    /* than a product in flavours of as many states: 1 for those */
    double row_nonzeros;              /* of a stored matrix, about */
} kl_ed_plan;
/* Allocates nothing of the sector's size. EINPUT as kl_ed_create and kl_ed_run. */
kl_status kl_ed_make_plan(const kl_terms *terms, kl_qn target, kl_bipartition_form form,
                          const kl_ed_opts *opts, int nthread, kl_ed_plan *plan, kl_err *err) KL_MUST_CHECK;

#endif
