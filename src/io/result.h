/* Results and checkpoints, one checked HDF5 file (checked.h) for both: what was asked, energies by sweep,
   measurements, and what to go on from.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RESULT_H
#define KL_RESULT_H
#include "dmrg/dmrg.h"
#include "io/geometry.h"

/* One measured array: <Sz> by site, a two-point matrix, entropies. name is a path below /measurements without
   leading slash ("local/Sz"). */
typedef struct kl_measured {
    char *name;
    char *note; /* what it is, a line; may be NULL */
    int rank; /* 0..KL_H5_MAX_RANK */
    int64_t shape[KL_H5_MAX_RANK];
    double *data;
} kl_measured;

typedef struct kl_result_charge {
    char *name;
    int modulus, unit_num, unit_den; /* as in kl_charge */
    int value; /* stored integer of the state */
} kl_result_charge;

typedef struct kl_result_param {
    char *name;
    int is_array;
    int64_t n;
    double *value; /* [n], n = 1 for scalars */
    int some; /* 1: of an array terms use the entries below alone, as of bonds of one class */
    int64_t nused;
    int64_t *used; /* [nused], ascending */
} kl_result_param;

/* The values that were given or could have been: count of them, and the k-th. */
int64_t kl_result_param_count(const kl_result_param *p);
double kl_result_param_at(const kl_result_param *p, int64_t k);
/* 1: there are values, and all are the same. */
int kl_result_param_even(const kl_result_param *p);

/* All that a file holds but the state. */
typedef struct kl_result {
    char *program; /* version that wrote it */
    char *command_line;
    char *options; /* "name=value" lines */
    char *model, *variant, *formula;
    uint64_t model_hash;
    int hash_of_text; /* 1: an older file, whose model_hash is of the texts of the model and the generator */
    char *lattice; /* spec */
    uint64_t lattice_hash;
    int nsite;
    int *order; /* [nsite] lattice number by position */
    double (*xy)[2]; /* [nsite] by lattice number */
    kl_geometry geometry; /* empty in files of version 0.1.0 */
    int ncharge;
    kl_result_charge *charge;
    int nparam;
    kl_result_param *param;
    uint64_t seed;
    int finished; /* 0: a checkpoint of an unfinished run */
    int sweep_done; /* position in the schedule */
    kl_dmrg_result dmrg; /* a checkpoint has its rows only */
    int nmeasured;
    kl_measured *measured;
} kl_result;

/* Who made a result, and what was asked. */
typedef struct kl_result_origin {
    const char *program, *command_line, *options; /* as in kl_result */
} kl_result_origin;

/* Empty but for who and what: copies names, numbers and order. */
kl_status kl_result_create(const kl_model *m, const kl_lattice *lat, const kl_params *p, kl_qn target,
                           uint64_t seed, const kl_result_origin *origin, kl_result **out,
                           kl_err *err) KL_MUST_CHECK;
void kl_result_destroy(kl_result **r);

/* A charge that has no one value, results being sums over sectors. */
void kl_result_drop_charge(kl_result *r, int c);

/* Sets r->dmrg to a copy. */
kl_status kl_result_set_dmrg(kl_result *r, const kl_dmrg_result *from, kl_err *err) KL_MUST_CHECK;
kl_status kl_result_set_rows(kl_result *r, int nrow, const kl_dmrg_row *row, int nstate,
                             kl_err *err) KL_MUST_CHECK;

/* Adds a copy; a former one of that name is replaced. */
kl_status kl_result_add(kl_result *r, const char *name, const char *note, int rank, const int64_t *shape,
                        const double *data, kl_err *err) KL_MUST_CHECK;

/* Replaces path as a whole. On failure (EIO: full disk, no permission) an older file is as it was. state may
   be NULL. */
kl_status kl_result_write(const char *path, const kl_result *r, const kl_state *state,
                          kl_err *err) KL_MUST_CHECK;

/* The same in two steps, for a state that takes a while to write: begin puts it into a file by a thread of
   its own; end, which waits for that, adds all of r, and the file takes the place of path. path and state are
   borrowed; of r the size is told at begin. *before: NULL, or a checkpoint that this one waits for. */
typedef struct kl_result_writing kl_result_writing;
kl_status kl_result_begin(const char *path, const kl_result *r, const kl_state *state,
                          kl_result_writing **before, kl_result_writing **w, kl_err *err) KL_MUST_CHECK;
kl_status kl_result_end(kl_result_writing **w, const kl_result *r, kl_err *err) KL_MUST_CHECK;
/* Instead of end: path is as it was. Accepts NULL. */
void kl_result_drop(kl_result_writing **w);

/* The whole file by a thread while the run goes on, to be ended by wait, which tells what became of it;
   *state is taken, r->dmrg copied, path and all else of r borrowed. */
kl_status kl_result_checkpoint(const char *path, const kl_result *r, kl_state **state,
                               kl_result_writing **w, kl_err *err) KL_MUST_CHECK;
int kl_result_is_written(const kl_result_writing *w); /* 1: wait returns at once */
kl_status kl_result_wait(kl_result_writing **w, kl_err *err) KL_MUST_CHECK;

/* Whether a state is so large that begin and end are worth it. */
int kl_result_worth_thread(const kl_state *state);

/* EIO or EINPUT with one line for files that are foreign, cut short, changed, of another format or of
   impossible shape. */
kl_status kl_result_read(const char *path, kl_result **out, kl_err *err) KL_MUST_CHECK;

/* An unfinished run of exact diagonalization: the numbers and vectors that are kept (keep.h), the vectors
   handed over in parts. */
typedef struct kl_result_run {
    int stage; /* what keeps them, 0 to 9: the caller's to tell */
    int64_t nnumber;
    double *number; /* read: to be freed by the caller */
    int nvector;
    int64_t *n; /* [nvector] length of each; read: to be freed by the caller */
    int first, count; /* reading: the vectors that are wanted */
    void *self; /* writing: fills to[count] from entries first.. of a vector; reading: takes them */
    kl_status (*part)(void *self, int vector, int64_t first, int64_t count, double *host, kl_err *err);
} kl_result_run;

/* As kl_result_write, with such a run instead of a state. */
kl_status kl_result_write_run(const char *path, const kl_result *r, const kl_result_run *run,
                              kl_err *err) KL_MUST_CHECK;

/* Numbers and sizes; then, if part is not NULL, count vectors from the first on. EINPUT: a file without one,
   or numbers that are not finite. */
kl_status kl_result_read_run(const char *path, kl_result_run *run, kl_err *err) KL_MUST_CHECK;

/* The state, for use with these terms, whose model it borrows. Checks that every tensor is an isometry and
   every number finite. */
kl_status kl_result_read_state(const char *path, const kl_terms *terms, kl_state **out,
                               kl_err *err) KL_MUST_CHECK;

/* 1: its charges have the total spin. */
int kl_result_has_spin(const kl_result *r);
/* States that each of its levels stands for: 2 S + 1 with the total spin, else 1. */
int kl_result_components(const kl_result *r);

/* What a result is used for. */
typedef enum kl_match {
    KL_MATCH_START, /* as a first guess: the fingerprint of an older file is not asked for */
    KL_MATCH_STATE, /* as a state that is measured */
    KL_MATCH_RUN, /* as a run that goes on: parameters and bonds are equal, too */
} kl_match;

/* Whether the state in r fits this use: the same model, sites and order, and charge. */
kl_status kl_result_match(const char *path, const kl_result *r, const kl_model *m, const kl_lattice *lat,
                          const kl_params *p, kl_qn target, kl_match use, kl_err *err) KL_MUST_CHECK;

/* 64-bit fingerprint of sites, classed bonds and order. */
uint64_t kl_lattice_fingerprint(const kl_lattice *lat);

/* "Sz=1/2 N=3" of the file's own charges; returns buf. */
char *kl_result_print_charges(const kl_result *r, char *buf, size_t size);

#endif
