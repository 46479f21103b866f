/* What the tests of the DMRG core share: a model on a lattice in one call, and bases of blocks written out in
   the full Hilbert space, so that whatever blocks, superblocks and isometries say can be compared with the
   oracle. Linked with the oracle; asserts by cmocka.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TEST_CORE_H
#define KL_TEST_CORE_H
#include "dmrg/canonical.h"
#include "dmrg/dmrg.h"
#include "dmrg/engine.h"
#include "oracle.h"
#include "sparse/spmat.h"

/* Models of the tests' own (tests/meson.build): ORDER in core.c */
extern const kl_model *const core_models[];
extern const int core_nmodel;

/* Built in or of the tests; variant NULL: the first of that name. Fails the test when there is none. */
const kl_model *core_model(const char *name, const char *variant);

typedef struct core_job {
    const kl_model *model;
    kl_lattice *lat;
    kl_params *par;
    kl_terms *terms;
    kl_exec *ex;
    char name[256];
} core_job;

/* sets: "U=4 h=uniform(-1,1)", divided by blanks; NULL for the defaults. order NULL: column. */
void core_open(core_job *j, const kl_model *m, const char *lattice, const char *order, const char *sets);
/* Every parameter random: scalars in (-2, 2) without 0, arrays normal. */
void core_open_random(core_job *j, const kl_model *m, const char *lattice, const char *order, uint64_t seed);
void core_close(core_job *j);
/* Calls check for each of the models on each of the lattices (the list ends in NULL) where it has at most
   `most` states, parameters random; runs of sites exist on chains and rings only. The sites are in the
   lattice's own order and in a random one, alternately or both, and then in a snake on grids too. */
typedef enum core_orders { CORE_ONE_ORDER, CORE_EVERY_ORDER } core_orders;
typedef void core_check(const core_job *j, uint64_t seed);
void core_every_lattice(const kl_model *const *models, int nmodel, const char *const *lattices, int64_t most,
                        core_orders orders, core_check *check);
/* Charge sectors of a job in their order, to be freed with kl_free: all, or `most` of them, the first, the
   last and others between (of one: the middle). */
kl_qn *core_sectors(const core_job *j, int most, int *n);
/* Every block of memory was given back. */
void core_no_memory(void);
/* st is EINPUT, and err one line that holds all these texts (the list ends in NULL). */
void core_refused(kl_status st, const kl_err *err, const char *const *words);

/* Columns of a basis in the product space of its sites, the first site slowest, compressed: column c has
   (idx, val) at [first[c], first[c+1]). */
typedef struct core_space {
    int64_t dim, ncol;
    int64_t *first, *idx;
    double *val;
} core_space;

core_space *core_space_edge(void);
/* block (x) site of e, or site (x) block; columns sector by sector of e. */
core_space *core_space_enlarge(const core_space *block, const kl_enlarged *e, kl_side side);
core_space *core_space_truncate(const core_space *enlarged, const kl_isometry *iso);
void core_space_free(core_space **s);

/* full[row->dim * col->dim] = the wavefunction x in the bases of row and col, and the transposed map. */
void core_expand(const kl_layout *lay, const kl_basis *row_basis, const kl_basis *col_basis,
                 const core_space *row, const core_space *col, const double *x, double *full);
void core_project(const kl_layout *lay, const kl_basis *row_basis, const kl_basis *col_basis,
                  const core_space *row, const core_space *col, const double *full, double *x);

/* Wavefunction i of a state in the full space, to be freed. */
double *core_state_vector(const kl_state *s, int i);
/* The wavefunctions of an engine in the full space, [nstate][dim]; to be freed. */
double *core_engine_vectors(const kl_engine *e, int64_t dim);
/* Weights of a cut, falling, those of a multiplet once for each of its states. w has room for all states of
   the cut's basis; returns how many were written. */
int core_cut_weights(const kl_canonical *c, int cut, double *w);

/* H of the oracle on full vectors. */
typedef struct core_full {
    oracle *o;
    oracle_sector *s; /* all of the space */
    double norm; /* largest column sum of |H|: no smaller than |H| */
} core_full;
core_full core_full_open(const core_job *j);
core_full core_full_take(oracle *o); /* the oracle is closed with it */
void core_full_close(core_full *f);

/* "Sz=1/2 N=3" -> a target; NULL or "" is all zero. */
kl_qn core_charge(const kl_model *m, const char *text);
/* A target as the oracle takes it. */
typedef struct core_integers {
    int charge[KL_MAX_CHARGE];
} core_integers;
core_integers core_of(kl_qn q);

/* A run with everything that it needs; res and state to be freed by core_drop. */
typedef struct core_run {
    kl_dmrg_opts opts;
    kl_dmrg_result res;
    kl_state *state;
} core_run;
/* Six sweeps at m, noise in the first two, eigensolver to rounding: exact where m is all. */
core_run core_exact(int m, kl_qn target, int nstate, kl_strategy strategy);
/* The automatic schedule. */
core_run core_auto(double accuracy, kl_qn target, int nstate, kl_strategy strategy);
void core_go(const core_job *j, core_run *r);
void core_drop(core_run *r);

/* Counts the steps of a run, and asks it to stop when there have been so many. */
typedef struct core_watcher {
    int step, stop_after;
} core_watcher;
kl_dmrg_monitor core_watch(core_watcher *w); /* one that is told and asked as `self` */

/* A ground state known to many digits; `allowed` is relative. m: six sweeps of that many states, 0: the
   automatic schedule to a tenth of `allowed`. */
typedef struct core_known {
    const char *model, *variant, *lattice, *order, *sets, *charge;
    double energy, allowed;
    int m;
} core_known;

void core_known_check(const core_known *k);

/* An executor as a device's with `most` bytes, and with far memory, that is the host in truth.
   core_small_far: bytes that went far since it was opened. */
kl_status core_open_small(int64_t most, kl_exec **out, kl_err *err);
int64_t core_small_far(const kl_exec *ex);

/* A CSR matrix of rows of `mean` non-zeros more or less, every ninth empty; columns either far apart or close
   together, a third of them below `dense`. */
kl_spmat *core_sparse(int64_t nrow, int64_t ncol, int64_t mean, int64_t dense, uint64_t seed);

/* Both halves of a CSR matrix of which one is stored. */
kl_spmat *core_whole(const kl_spmat *half);

double core_dot(int64_t n, const double *a, const double *b);
/* Host arrays to and from the executor. */
kl_dptr core_upload(kl_exec *ex, int64_t n, const double *x);
void core_download(kl_exec *ex, int64_t n, kl_dptr p, double *x);

#endif
