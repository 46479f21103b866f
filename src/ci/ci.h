/* Configuration interaction: from integrals to energies, states and what they say. One irrep at a time; the
   matrix stored in one of the formats, in part, or not at all.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CI_H
#define KL_CI_H
#include "solve/eig.h"
#include "ci/detstate.h"
#include "chem/fcidump.h"
#include "exec/spmv.h"

/* MIXED: as many rows of the matrix as memory_bytes has room for, the elements of the others made as they are
   needed. AUTO: DIRECT for full spaces, else MIXED, which is all of the matrix where that fits. */
typedef enum kl_ci_store { KL_CI_AUTO, KL_CI_MATRIX, KL_CI_DIRECT, KL_CI_MIXED } kl_ci_store;

typedef struct kl_ci_opts {
    int full; /* all determinants of the active orbitals */
    uint64_t levels; /* else: bit k, k-fold excitations of a reference */
    int cas_nelec, cas_norb; /* 0: all that are not frozen */
    int frozen; /* lowest doubly occupied orbitals that stay so */
    int nelec; /* 0: as the file says */
    int ms2, have_ms2; /* have_ms2 0: as the file says */
    int irrep; /* from 0; -1: the lowest states of all */
    int nroot;
    int nref;
    /* occupations by orbital of the file: 2 u d 0 ("2222ud00"); none: the file's own, its first orbitals, */
    const char *const *ref;
    int lowest; /* or 1: the determinant of lowest energy, found by descent from there */
    int closed; /* 1: of those, where there are as many up as down electrons, one of closed shells */
    /* 1: more active orbitals than determinants have bits for are welcome; kl_ciorbitals.ref is not made */
    int wide;

    kl_ci_store store;
    int half; /* store half of the symmetric matrix */
    kl_spopts format;
    int64_t memory_bytes; /* no larger matrix is stored; 0: 1/2 of the machine's */

    kl_solver solver;
    double tol; /* on |H x - E x|; 0: 1e-6 (of the file's own unit, where that is far from hartree) */
    int max_basis, max_apply, pspace; /* 0: chosen */
    uint64_t seed;
    int nthread;
    int density; /* one-body density matrices and natural occupations */
    int keep_vectors; /* the states themselves; at most 64 orbitals */
} kl_ci_opts;

/* "cis", "cid", "cisd", "cisdt", "cisdtq", "level:N", "full" (or "fci"), "cas:ELECTRONS,ORBITALS" */
kl_status kl_ci_parse_space(const char *text, kl_ci_opts *o, kl_err *err) KL_MUST_CHECK;

enum { KL_CI_LEADING = 8 };

typedef struct kl_ci_state {
    double energy, s2, residual; /* s2: NAN for unrestricted orbitals */
    int irrep;
    int nleading;
    /* largest coefficients, of determinants (determinant.h) of all orbitals of the file; the first is
       positive */
    double leading[KL_CI_LEADING];
    char *leading_text[KL_CI_LEADING]; /* their occupations, all orbitals of the file */
    /* [norb][norb] alpha, beta, all orbitals of the file; NULL if not asked for */
    double *density[2];
    /* [norb] occupations, descending; NULL for unrestricted orbitals, where the density matrices have no
       common basis: */
    double *natural;
    double *natural_spin[2]; /* [norb] those of each spin */
    double *level_weight; /* [nlevel] of a listed space, else NULL */
    /* NULL if not asked for: [ndet] determinants (determinant.h) of all orbitals of the file */
    int64_t ndet;
    uint64_t *det[2]; /* bit p: orbital p is occupied, alpha and beta */
    double *coef;
} kl_ci_state;

typedef struct kl_ci_block { /* one irrep */
    int64_t ndet, nalpha_string, nbeta_string;
    int64_t nnz, matrix_bytes, formula_bytes; /* 0: matrix-free */
    int64_t flops; /* of one product, of what no matrix holds */
    int64_t rows_made; /* in a listed space: rows whose elements are made as they are needed, */
    int made_there; /* 1: by the device */
    kl_spmat_facts facts;
    int napply, converged;
    double seconds_build, seconds_solve;
    /* of build: determinants and elements of strings; matrix in its format; layout and upload */
    double seconds_list, seconds_matrix, seconds_bring;
    double residual;
    kl_spway way; /* of products with the matrix on a device */
    int64_t way_pays; /* products from which on another layout would be made; 0: none */
} kl_ci_block;

typedef struct kl_ci_result {
    int norb, nalpha, nbeta, nirrep, nactive, ninactive; /* of the file's orbitals */
    double reference_energy;
    char *reference; /* occupations of the first reference */
    char note[256];
    int direct; /* matrix-free */
    kl_spformat format; /* of the stored matrix */
    int half;
    int nlevel;
    int64_t level_count[2 * KL_DET_MAX_ORB + 1]; /* listed spaces, all blocks together */
    kl_ci_block block[8]; /* ndet 0: not part of the run */
    int nstate, converged, stopped; /* stopped: step said so; there are no states */
    kl_ci_state *state; /* [nstate] by energy */
    double seconds_all;
} kl_ci_result;

typedef struct kl_ci_monitor {
    void *self;
    void (*block)(void *self, int irrep, const kl_ci_block *b, int done); /* done 0: built; 1: solved */
    /* A matrix as it is built (CSR, whole or half), before it is used: to write it out; stored: as it will be
       used. Any failure ends the run. */
    kl_status (*matrix)(void *self, int irrep, const kl_spmat *csr, kl_err *err);
    kl_status (*stored)(void *self, int irrep, const kl_spmat *m, kl_err *err);
    /* Between steps of the solver; nonzero: stop. */
    int (*step)(void *self, int irrep, int napply, double energy, double residual);
    /* NULL, or keeps all that a run needs to go on to the same bits, and has what it goes on from. */
    const kl_keeper *keeper;
    /* NULL, or the start vectors of a checkpoint that has no more (host, [nvec][n]); *nvec 0: there are
       none. */
    kl_status (*load)(void *self, int irrep, int most, int64_t n, int *nvec, double *x, kl_err *err);
} kl_ci_monitor;

/* EINPUT: what no run can be made of, whatever the integrals. */
kl_status kl_ci_check(const kl_ci_opts *o, kl_err *err) KL_MUST_CHECK;

/* The file's integrals are not changed. monitor may be NULL, and each of its calls. */
kl_status kl_ci_run(const kl_fcidump *f, kl_exec *ex, const kl_ci_opts *o, const kl_ci_monitor *monitor,
                    kl_ci_result *out, kl_err *err) KL_MUST_CHECK;
void kl_ci_result_clear(kl_ci_result *r);

/* What a run would need. */
typedef struct kl_ci_plan {
    int norb, nalpha, nbeta, nirrep, nactive, ninactive;
    double reference_energy;
    char *reference;
    char note[256];
    int nlevel, closed_shell;
    /* by irrep, [8]: all; exactly k outside of the reference */
    double det[9][2 * KL_DET_MAX_ORB + 1], csf[9][2 * KL_DET_MAX_ORB + 1];
    int64_t ndet[8]; /* of the asked space, by irrep */
    int64_t nnz[8]; /* of its matrix; -1: too many determinants to look */
    int nnz_sampled[8]; /* counted on some of the rows only: about */
    double stored[8]; /* about the share of it that a run would store */
    int64_t bytes_vectors[8]; /* -1: far above what any machine has */
} kl_ci_plan;
/* Determinants that H connects one with, itself included, in a full space without symmetry. */
double kl_ci_connected(int norb, int nalpha, int nbeta);
/* About what a run is, found in no time: by irrep, 0 where none is looked at. A truncated space has fewer
   non-zeros. */
typedef struct kl_ci_size {
    int norb, nalpha, nbeta; /* active ones */
    double connected[8]; /* non-zeros of a row */
    double ndet[8];
    double vector_bytes[8]; /* of the solver */
    /* of these, what a device must have in any case: while the irrep is solved, and all the time */
    double least_bytes[8], kept_bytes[8];
} kl_ci_size;
kl_status kl_ci_measure(const kl_fcidump *f, const kl_ci_opts *o, kl_ci_size *out, kl_err *err) KL_MUST_CHECK;
/* 1: products without a stored matrix. */
int kl_ci_is_direct(const kl_ci_opts *o);
/* About the share of a matrix of nnz non-zeros that a run would store. */
double kl_ci_stored_share(const kl_ci_opts *o, double nnz);

/* Counts determinants, and the non-zeros of their matrix where that is quick; stores neither. */
kl_status kl_ci_make_plan(const kl_fcidump *f, const kl_ci_opts *o, kl_ci_plan *out,
                          kl_err *err) KL_MUST_CHECK;
void kl_ci_plan_clear(kl_ci_plan *p);

#endif
