/* Where --exec auto runs: small problems on the host, large ones on the device that the tune table says is
   faster from some size on. DMRG asks before every sweep, so that a run begins on the host and moves when it
   keeps enough states; a device that no sweep asks for is never opened. Exact diagonalization and
   configuration interaction ask once, for all products that they are about to make.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PLACEMENT_H
#define KL_PLACEMENT_H
#include "dmrg/dmrg.h"
#include "run/options.h"
#include "run/tune.h"

/* Products with H that exact diagonalization or configuration interaction is about to make. */
typedef struct kl_work {
    kl_timed what;   /* KL_TIMED_KRON, KL_TIMED_SPMV, KL_TIMED_SIGMA or KL_TIMED_ROWS */
    double size;     /* as that is measured */
    double scale;    /* what a product takes, of what was measured at that size */
    double n;        /* numbers of a vector */
    double products; /* about */
    double block;    /* of these, products by a solver that works on `width' vectors at a time */
    double width;
    double bytes;    /* of vectors, tables and matrix, wherever they are */
    double tables;   /* of these, of tables */
    double least;    /* of vectors that a device must have in any case; the solver keeps the others far */
} kl_work;

enum { KL_WORK_TIMES = KL_TUNE_NEXEC };
/* Seconds of all of it on each executor, its opening and the way of the matrix included; NAN: not
   measured. */
void kl_work_seconds(const kl_tune *t, int64_t nwork, const kl_work *work, double seconds[KL_WORK_TIMES]);

typedef struct kl_placement {
    kl_tune table;
    kl_exec *host, *device; /* host: borrowed; device: NULL until it is wanted */
    int which;              /* of kl_tune_exec; 0: the host for all */
    int refused;            /* 1: the device is not there, or is not the one that was measured */
    int alone;              /* 1: no second executor beside it */
    int64_t from;           /* states from which on a sweep is faster there */
    int64_t device_memory;
    kl_device_choice wanted; /* of --device */
    /* Seconds of a sweep of m states of this run on the host, by its plan; NULL: no run is known, and opening
       a device is worth it. */
    double (*sweep_seconds)(void *run, int m);
    void *run;
    int nsweep; /* of the run's schedule; 0: it is automatic */
    const kl_dmrg_sweep *sweep;
    kl_terms *const *terms; /* borrowed, as what follows is */
    const kl_dmrg_opts *opts;
    int asked, began; /* most states that opening was not worth it for, and those that it was */
    char why[256], name[48];
} kl_placement;

/* 1 when the options leave the choice to the program. */
int kl_placement_automatic(const kl_options *o);

/* The device of --device, or of this rank. */
kl_device_choice kl_placement_device(const kl_options *o);
/* Reads the tune table, where there is one; opens nothing. */
kl_status kl_placement_create(const kl_options *o, kl_exec *host, kl_placement **out,
                              kl_err *err) KL_MUST_CHECK;
void kl_placement_destroy(kl_placement **p);

/* The run with these options asks it before its sweeps, and it asks the run's plan; terms may be made
   later. */
void kl_placement_plan(kl_placement *p, kl_terms *const *terms, kl_dmrg_opts *opts);

/* Seconds that the sweeps to come, from the first of m states on, would take less on the device, by the run's
   plan on the host times how far the table has the device ahead. */
double kl_placement_gain(const kl_placement *p, int m);

/* The executor for sweeps of m states: kl_dmrg_opts.place. A device that is not open is opened where these
   sweeps gain more than that takes. */
kl_exec *kl_placement_at(void *placement, int m);

/* Where it has run so far, in a word or two, and the executor that ran last. */
const char *kl_placement_name(kl_placement *p);
kl_exec *kl_placement_last(const kl_placement *p);

/* Where all of nwork parts run, one after the other: where the tune table says that they are done first, of
   those that have the memory. *out: a device, the caller's, or NULL: `host', whose `chosen' says why. */
kl_status kl_placement_work(const kl_options *o, int64_t nwork, const kl_work *work, kl_exec *host,
                            kl_exec **out, kl_err *err) KL_MUST_CHECK;

/* The same for the command of several ranks: what each would take for its share of the work, or for sweeps of
   the most states that it will keep, where every rank has such a device; all ranks call. */
kl_status kl_placement_ranks(const kl_options *o, int64_t nwork, const kl_work *work, kl_exec *host,
                             kl_exec **out, kl_err *err) KL_MUST_CHECK;

/* Times of eigenvectors on this device and on its host, of a table that was measured on it. */
void kl_placement_eigen(const kl_tune *t, int which, kl_exec *device);

#endif
