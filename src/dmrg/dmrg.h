/* Density matrix renormalization group: ground and low excited states of a term list in one charge sector.
   Infinite-lattice growth and finite-lattice sweeps, two sites at a time. Prints nothing; tells its steps to
   a monitor.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DMRG_H
#define KL_DMRG_H
#include "solve/eig.h"
#include "base/prof.h"
#include "record/record.h"
#include "exec/bus.h"
#include "dmrg/leading.h"
#include "dmrg/parts.h"
#include "dmrg/planbeyond.h"
#include "dmrg/plantime.h"
#include "dmrg/state.h"

/* One sweep: there and back again over all bonds. */
typedef struct kl_dmrg_sweep {
    int m;            /* states kept at most (a cluster of equal weights may overshoot it) */
    double noise;     /* weight of the subspace expansion; 0 in the last sweeps */
    double tol;       /* residual target of the eigensolver, absolute */
} kl_dmrg_sweep;

typedef struct kl_dmrg_row kl_dmrg_row;

/* States beyond the wanted ones that a run carries at first, or looks for at its end: without them a sweep
   can settle in a mixture of nearly degenerate states, of which neither residual nor variance nor change
   tells anything. */
enum { KL_NGUARD = 2 };

/* states of the first sweeps of the automatic schedule where sectors are many and small */
enum { KL_FIRST_MANY = 96 };

/* States: runs of fewer end by a trial with more of them, beside whose terms those of the run stay
   (bartrial.h). */
enum { KL_TRIED_BELOW = 64 };

/* States of such a trial: four times as many, KL_TRIED_BELOW at most, and 16 at least, for four are less than
   a site of two orbitals has. */
static inline int kl_dmrg_trial_m(int kept)
{
    const int more = kept < 4 ? 16 : 4 * kept;
    return kept >= KL_TRIED_BELOW ? kept : more < KL_TRIED_BELOW ? more : KL_TRIED_BELOW;
}

/* states of a sector whose state can be made exact by sweeps that keep next to all of a block */
#define KL_CLOSED_MOST 4194304.0

/* What a run that goes on waits for. ORDER kl_dmrg_wait_text */
typedef enum kl_dmrg_wait {
    KL_WAIT_NOTHING,
    KL_WAIT_SWEEPS, /* noise is on, or there are too few sweeps to compare */
    KL_WAIT_TRUNCATION, /* m is too small */
    KL_WAIT_CHANGE, /* sweeps change the energy by more than truncation explains */
    KL_WAIT_SOLVER, /* residuals are too large for the gap to the next state */
    KL_WAIT_KEPT, /* the state kept lies above the energy told */
    KL_WAIT_GUARD, /* states that lie close are not told apart yet */
    KL_WAIT_TRIAL, /* the trial that tells the error bar (run/bartrial.h), which was interrupted */
    KL_WAIT_SPIN, /* the energy is good enough but for states of several spins that are mixed in */
    KL_WAIT_SECTORS /* a search through the sectors of strings that H keeps, which was cut or not made */
} kl_dmrg_wait;
extern const char *const kl_dmrg_wait_text[];

/* Sites that are optimized together. ORDER KL_SITES: names in dmrg.c */
typedef enum kl_sites {
    KL_SITES_TWO,
    KL_SITES_ONE, /* after the bond ahead was expanded by states that H leads to: onesite.h */
    KL_SITES_AUTO, /* whichever takes less time; one, as far as is known */
    KL_NSITES
} kl_sites;
extern const char *const kl_sites_name[KL_NSITES];

typedef struct kl_dmrg_opts {
    kl_strategy strategy;
    kl_solver solver;
    int nstate; /* 1..KL_MAX_STATE, state-averaged */
    kl_qn target;
    /* wanted relative error of the energy; schedule follows from it when nsweep is 0. 0: 1e-9 */
    double accuracy;
    double error; /* wanted absolute error of the energy, instead of it; 0: accuracy says it */
    /* 1: sectors are many and small, as those of molecules are: the automatic schedule keeps more states and
       noise for longer at first, or sectors that the ground state needs are lost */
    int many_sectors;
    int nsweep; /* entries of `sweep`; 0: automatic */
    kl_dmrg_sweep *sweep;
    int m_max; /* cap of the automatic schedule; 0: 4096 */
    int m_min; /* states kept at least where the discarded weight would allow fewer */
    /* truncate to this weight instead of to m alone (dynamic block state selection); 0: off */
    double discard;
    int max_sweep; /* of the automatic schedule; 0: 100 */
    /* 1: values will be measured on the state: the automatic schedule ends, where a sector is no larger than
       KL_CLOSED_MOST, by sweeps that make the state as good as its energy; so it does in a larger one for an
       accuracy of 1e-10, where these sweeps need no more than about a thousand states */
    int measured;
    int alone; /* 1: no other valley than the start's is looked for: valleys.h */
    /* [nstart][nsite] state of each position for a start from products: the first ones are what the wanted
       states begin with, the bases hold the others; NULL: chosen */
    const int *start;
    int nstart; /* 0: one */
    uint64_t seed;
    int max_basis; /* Davidson; 0: 20 */
    int max_apply; /* products with H per step at most; 0: automatic */
    const char *records; /* NULL, or a file for the lists of H x at the middle bond, one a sweep */
    /* sweeps already made, when going on from a checkpoint: the schedule goes on behind them, */
    int ndone;
    const kl_dmrg_row *done; /* and these rows [ndone] open the result's; */
    /* +1, -1: the checkpoint lies in the middle of a forward or backward half-sweep, of which done[ndone] is
       the row so far; what follows is then what would have followed, to the bit */
    int direction;
    /* [nsite - 1] entropies by cut, brought up to date before every checkpoint, and where direction is not 0
       read from there; NULL: the caller keeps none */
    double *entropy;
    /* 1: sectors filled up as devices keep them: then runs here and there differ by rounding alone */
    int full;
    kl_truncation truncation;
    kl_sites sites;
    int whole_sweeps; /* 1: over all bonds, also where one half is the image of the other */
    int64_t host_bytes; /* 0, or what to keep to of the host's memory: operators of far cuts wait in files */
    int64_t
        lr_bytes; /* of it what operators multiplied out (LR) may take, the same for runs that are resumed */
    const char *scratch; /* the folder of these files; NULL: see scratch.h */
    /* for plans: bytes of what is made before the run, its terms among it */
    int64_t held_bytes;
    void *placer; /* of the next: */
    /* NULL: all of it on the executor given. Else asked before a sweep of m states where it should run; when
       that is not where the last one ran, the state moves there and its operators are made anew */
    kl_exec *(*place)(void *placer, int m);
} kl_dmrg_opts;

/* Products that a run starts from. */
static inline int kl_dmrg_starts(const kl_dmrg_opts *o)
{
    return o->start == NULL ? 0 : o->nstart > 0 ? o->nstart : 1;
}

typedef struct kl_dmrg_step { /* one optimized bond */
    int sweep, direction; /* direction +1: left to right, -1 back */
    int bond; /* between positions bond and bond + 1 */
    int m; /* states kept */
    int nstep, istep; /* steps in this sweep and number of this one */
    int64_t dim; /* size of H_SB */
    int napply;
    double energy; /* lowest */
    double discarded, entropy;
    double residual;
} kl_dmrg_step;

/* Whether a sweep went over one half of the lattice, the other one being its image (halves.h). */
typedef enum kl_folded {
    KL_NOT_FOLDED,
    KL_FOLDED,
    /* so it did, but the energy of images was higher: the best state of so few states is no image of itself,
       and later sweeps go over all of it */
    KL_FOLDED_HIGHER,
    KL_NO_IMAGE /* it did not, for its state was no image of itself at all (turning.c) */
} kl_folded;
static inline int kl_is_folded(int folded) { return folded == KL_FOLDED || folded == KL_FOLDED_HIGHER; }

struct kl_dmrg_row { /* one sweep, as reported */
    int m, m_reached;
    /* of the widest cut: m_reached, but with the total spin the components of its multiplets; 0: not known
       (files of version 0.1.0) */
    int64_t states;
    int sites; /* optimized together: 1 or 2; 0: not known (files of version 0.1.0), two */
    double noise;
    double energy[KL_MAX_STATE]; /* lowest of the sweep, at the middle bond */
    double change;
    double discarded; /* largest of the sweep */
    /* of one-site sweeps: two-site variance of the energy, from what H psi has beyond every bond's basis in
       the backward half-sweep, of all wavefunctions on average; NAN: not looked at. In the square of `unit`,
       for squares of energies in joules are too small for a number. */
    double variance, unit;
    double seconds;
    int64_t napply;
    int64_t dim_max;
    double flop;
    /* wavefunctions carried at its end, guards included; 0: not known (files of version 0.1.0) */
    int held;
    /* states of the saved state that the run began from; 0: it began afresh, or gave that state up */
    int m_start;
    /* 1: behind it the run began again, from products of site states that lie lower, or went on from a state
       with other charges in parts of H */
    int again;
    int folded; /* kl_folded */
    /* largest |H x - E x| of the wanted states that the eigensolver reached in the backward half-sweep; NAN:
       not known */
    double residual;
    /* largest <H> - energy of the wanted states at the end of the sweep; NAN: not known */
    double kept;
    /* from the highest wanted state to each guard, at the middle bond in the backward half-sweep; NAN: not
       looked at */
    double gap[KL_NGUARD];
    int probed; /* 1: the gaps come from a probe after the sweep */
    int wait; /* kl_dmrg_wait after this sweep */
};

typedef enum kl_dmrg_stop {
    KL_STOP_CONVERGED,
    KL_STOP_SCHEDULE,
    KL_STOP_MAX_SWEEP,
    KL_STOP_M_MAX,
    KL_STOP_INTERRUPTED,
    KL_STOP_DISCARD
} kl_dmrg_stop;

enum { KL_MOST_STRINGS = 64 }; /* that are counted */

typedef struct kl_dmrg_result {
    int nstate;
    /* lowest of the last sweep, near its middle bond; the constant of the terms included */
    double *energy; /* [nstate], as is the next: kl_dmrg_result_levels */
    /* <H> of the states returned: from the middle to the end of the sweep they were truncated at every
       bond */
    double *energy_kept;
    /* absolute: of truncation, of sweeps not done, of residuals, and of states not told apart; see
       kl_outlook */
    double error_estimate;
    /* to the next state above the wanted ones, roughly; INFINITY: not known */
    double gap;
    /* states not told apart from the wanted ones lie within this; 0: there are none */
    double unresolved;
    /* of the state returned from the exact one, roughly: values measured on it are good to twice that times
       the operator's norm at worst; 1: it may be a mixture; 0: not known */
    double distance;
    /* products of signs and flips of sites that H keeps and no charge tells: 2^strings sectors, of which
       trials have looked into some; 0, too: not known */
    int strings;
    int searched; /* 1: none of these sectors was left out; not kept in files, where `wait' says it */
    kl_dmrg_wait wait; /* what kept the accuracy from being reached */
    double energy_extrapolated;
    double discarded; /* of the last sweep */
    kl_dmrg_stop stop;
    /* of the sweep that was interrupted, whose row is the last one; 0: none was */
    int direction;
    int nrow;
    kl_dmrg_row *row; /* [nrow] */
    double *entropy; /* [nsite-1] of the lowest state, by cut */
    int64_t napply;
    double flop, seconds;
    /* the largest met, for reports in the form of nemes2014 Table 5 */
    int64_t dim_max, sector_max, matrix_max;
    double sector_mean; /* average number of sectors of an enlarged block */
    double seconds_part[KL_NPART]; /* ORDER KL_PART */
    kl_prof_times inside; /* them; 0 of results from files */
} kl_dmrg_result;

typedef struct kl_dmrg_monitor {
    void *self;
    void (*step)(void *self, const kl_dmrg_step *s); /* after each bond; may be NULL */
    void (*sweep)(void *self, const kl_dmrg_row *row, int nrow); /* after each sweep; may be NULL */
    /* after the first sweep, where a wanted state ended above a product of site states: what the run began
       with is given up; may be NULL */
    void (*given_up)(void *self);
    /* once, where a device had no memory left for a bond, as `why' says: the host goes on; may be NULL */
    void (*left_device)(void *self, const char *why);
    /* asked at each bond; nonzero: stop there, keeping the state; may be NULL */
    int (*interrupted)(void *self);
    /* At sweep ends but the last (direction 0) and at bonds within a sweep (direction +1 or -1: row[nrow - 1]
       belongs to an unfinished one), where `due' says so; without it, at all such ends. *state may be taken.
       May be NULL. */
    kl_status (*checkpoint)(void *self, kl_state **state, const kl_dmrg_row *row, int nrow, int direction,
                            kl_err *err);
    int (*due)(void *self, int at_end);
    /* On the first of several ranks, while the last one looks beyond the state at the end of a schedule: for
       what is done with the state that the run returns, without the others. May be NULL. */
    void (*meanwhile)(void *self, const kl_state *state);
    const struct kl_trunc_watch *truncations; /* NULL, or who is told of each, a probe's apart */
} kl_dmrg_monitor;

/* Finds the lowest nstate states of terms in sector opts->target. *state: NULL to begin from opts->start or
   from scratch, else a state to go on from (same sites and charges; other m or parameters welcome); on return
   the state found. EINPUT when the sector is empty. */
kl_status kl_dmrg_run(const kl_terms *terms, kl_exec *ex, const kl_dmrg_opts *opts,
                      const kl_dmrg_monitor *monitor, kl_state **state, kl_dmrg_result *result,
                      kl_err *err) KL_MUST_CHECK;
void kl_dmrg_result_clear(kl_dmrg_result *r);
/* Room for the energies of nstate states, all 0; energy[0] is there for none, too. */
kl_status kl_dmrg_result_levels(kl_dmrg_result *r, int nstate, kl_err *err) KL_MUST_CHECK;

/* Infinite-lattice algorithm on its own, as in nemes2014: from 4 sites to nsite by two sites a step, m
   states, random start vectors. make_terms gives the terms for a length. rows: one per iteration. */
typedef struct kl_infinite_row {
    double dim_all; /* of the superblock without charges: (states of a block x states of a site)^2 */
    int nsite, m;
    int64_t dim, sector_max, matrix_max;
    int nsector;
    int napply;
    double energy, tol, residual /* asked for; reached */, discarded, flop, seconds;
    double seconds_part[KL_NPART]; /* ORDER KL_PART; APPLY lies inside SOLVE */
    double seconds_line[KL_NLINE]; /* ORDER KL_LINE, all inside SOLVE */
    int lr_too_large; /* 1: l-1-1-r replaced LR, for want of memory */
    int64_t memory_bytes, device_bytes;
    kl_list_cost list;
} kl_infinite_row;
typedef struct kl_infinite_opts {
    int nsite, m;
    kl_strategy strategy;
    double tol; /* residual, in units of the couplings (the gap of kl_units) */
    int max_basis;
    const char *records; /* NULL, or a file for the lists of H x, one an iteration */
    uint64_t seed;
    void *self;
    kl_status (*make_terms)(void *self, int nsite, kl_terms **out, kl_qn *target, kl_err *err);
    void (*each)(void *self, const kl_infinite_row *row); /* after every iteration; may be NULL */
} kl_infinite_opts;
kl_status kl_dmrg_infinite(const kl_infinite_opts *opts, kl_exec *ex,
                           kl_infinite_row *rows /* [(nsite-2)/2] */, kl_err *err) KL_MUST_CHECK;

/* Products with H per bond at most in the last sweeps of a run. */
int kl_dmrg_max_apply(const kl_dmrg_opts *o);

/* What a run would need, before it runs: sectors and record counts at the middle bond for m states, memory
   and flops. */
typedef struct kl_dmrg_plan {
    int m;
    int64_t states; /* at the middle cut: m, or with the total spin the states of m multiplets */
    int nsite;
    int sites; /* optimized together: 2, or 1, as in sweeps without noise */
    int halves; /* 1: sweeps go over one half of the lattice, the other one being its image */
    int absorbed; /* states of the block that has the other site then */
    int64_t dim; /* of H_SB at the middle bond */
    int nsector; /* sector pairs of the wavefunction there */
    int64_t nrecord;
    int bond_op_max, bond_op_mid; /* operators kept at a cut: largest, middle */
    double flop_apply; /* one H x */
    int64_t memory_bytes; /* the larger of what its sweeps take, and what is measured of its last state */
    int64_t sweep_bytes, measuring_bytes;
    int64_t device_bytes; /* of a device, with blocks that wait for who wants as much, at most; else 0 */
    int64_t process_bytes; /* of all that the process takes then; 0 on a device */
    int products; /* with H at a bond, as `seconds' count them */
    double seconds_sweep; /* estimate from a measured rate, */
    double seconds_part[KL_NPLAN]; /* and of what it is made */
    double seconds_settled; /* the same of a sweep that truncates nothing on its way back; 0: there is none */
    double rate; /* that rate, flop a second */
    double apply_seconds; /* one H x where everything is on the device */
    kl_bus bus; /* measured where the device's memory is limited, else 0 */
    kl_plan_beyond beyond; /* what that adds; all 0 where it was not asked */
    int npair;
    int64_t solver_doubles; /* of that memory: the eigensolver's vectors, */
    int max_basis; /* its basis, */
    int64_t operator_doubles; /* the blocks and isometries */
    int matrix_max; /* rows of the largest density matrix */
    int64_t centre_doubles; /* the operators that one H x reads, */
    int64_t dense_doubles; /* and those of LR, made or not */
    /* 1: LR is asked for, and l-1-1-r taken, since the device has no memory for these */
    int lr_too_large;
    int64_t least_bytes; /* of vectors that must be on the device */
    int64_t room_bytes; /* what the device can give out; 0: not known */
    int nway; /* ways to run the list there are to choose from */
    struct kl_dmrg_way {
        const char *name;
        int64_t operator_bytes, list_bytes, moved_bytes, total_bytes;
        double seconds; /* that planning its list takes the host */
        int fits, taken;
    } way[KL_NPROJECTION];
    /* the lists of H x and of a truncation's density matrices at the middle bond, closed, without operands */
    kl_batch apply, density;
    /* [npair] work per patch pair */
    struct kl_dmrg_pair {
        kl_qn left, right;
        int64_t rows, cols;
        int64_t at; /* where its part of a vector begins */
        double flop;
    } *pair;
    /* [ncell] the work of C[I,J], the part of H that leads from pair J to pair I (elwasif), where there is
       any: sums of products A (x) B, two records each or one */
    int ncell;
    struct kl_dmrg_cell {
        int to, from; /* of pair */
        int64_t records;
        double flop;
    } *cell;
} kl_dmrg_plan;
/* For m states and the strategy and solver of opts; times a small product on ex, allocates no operators.
   EINPUT: an empty sector. */
kl_status kl_dmrg_make_plan(const kl_terms *terms, kl_exec *ex, const kl_dmrg_opts *opts, int m,
                            kl_dmrg_plan *plan, kl_err *err) KL_MUST_CHECK;
void kl_dmrg_plan_clear(kl_dmrg_plan *plan);

/* Every charge sector that the sites can make, ascending; for error messages and --charge scan. *out has n
   entries. */
kl_status kl_dmrg_sectors(const kl_terms *terms, kl_qn **out, int64_t *n, kl_err *err) KL_MUST_CHECK;

#endif
