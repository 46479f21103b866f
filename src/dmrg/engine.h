/* The moving parts of DMRG: blocks of every length on both sides, the wavefunction at a two-site centre, one
   bond optimized, one step to the next. Schedules and stopping are the matter of dmrg.c and infinite.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_ENGINE_H
#define KL_ENGINE_H
#include "dmrg/parts.h"
#include "dmrg/reaches.h"
#include "dmrg/state.h"
#include "dmrg/superblock.h"
#include "dmrg/truncate.h"
#include "dmrg/wave.h"
#include "solve/eig.h"

typedef struct kl_engine {
    kl_exec *ex;
    const kl_terms *terms;
    kl_mpo *mpo;
    int nsite, nstate;
    int nwanted; /* wavefunctions of full weight, the others are guards: kl_engine_weigh */
    kl_qn target;
    kl_strategy strategy;
    kl_solver solver;
    int max_basis;
    uint64_t seed;
    kl_reaches *reaches; /* and what it has: */
    const kl_reach *reach_left, *reach_right; /* [nsite+1] by cut */
    kl_isometry **left, **right;     /* [nsite], as in kl_state, but without data: */
    kl_dptr *left_data, *right_data; /* [nsite], the matrices are on the executor */
    kl_block **left_block;  /* [nsite+1] by cut */
    kl_block **right_block; /* [nsite+1] by cut */
    int centre;
    /* the isometry that was opened last: its columns hold the wavefunction as it was before it was
       optimized */
    kl_isometry *warm; /* NULL at first */
    kl_dptr warm_data;
    kl_side warm_side; /* what it is of: no help for a truncation of that side, where the sweep reverses */
    /* the block that it made, until the centre is solved: of a device with room for it; else NULL */
    kl_block *warm_block;
    /* the wavefunctions with the side that was opened last in the basis of `warm`, until the centre is
       solved; psi.addr 0: not there */
    kl_ahead ahead;
    kl_enlarged *row, *col; /* bases of the centre */
    kl_layout layout;
    kl_dptr psi; /* [nstate][layout.n] */
    double residual[KL_MAX_STATE]; /* |H x - E x| of each, of the last solve */
    kl_bigop *row_op, *col_op; /* enlarged operators of the centre; made when wanted */
    kl_bigop *dense[2]; /* those multiplied out, while there is room to keep them for growth */
    struct kl_onesite *one; /* NULL, or what became of one of the centre's sites: see onesite.h */
    int64_t absorb_bytes; /* wanted beside operators while a site is absorbed; 0: none is */
    double seconds[KL_NPART], seconds_line[KL_NLINE];
    kl_list_cost list; /* of the last centre whose lines were counted */
    double flop;
    int full; /* as kl_trunc_opts.full, for bases that are made up */
    int64_t host_bytes; /* 0, or what to keep to of the host's memory where files help: engineroom.h */
    int64_t lr_bytes; /* of them what operators multiplied out may take, whatever else is in memory */
    const char *scratch; /* borrowed: the folder of these, or NULL */
    int64_t bond_bytes, bond_begin; /* what the last bond took besides, and what there was before it */
    int64_t nlr_too_large; /* centres where l-1-1-r replaced LR, for want of memory */
    int64_t napply, dim_max, sector_max, matrix_max, nsector_sum, nsector_count;
} kl_engine;

/* The wavefunctions of the centre, as truncation and transformation take them. */
static inline kl_wave kl_engine_wave(const kl_engine *e)
{
    return (kl_wave){.row = e->row, .col = e->col, .layout = &e->layout, .psi = e->psi};
}

typedef struct kl_engine_opts {
    kl_qn target; /* the sector */
    int nstate; /* wavefunctions carried */
    kl_strategy strategy;
    kl_solver solver;
    int max_basis; /* vectors that the eigensolver may keep; 0: see kl_engine_basis */
    uint64_t seed;
    int full; /* as kl_trunc_opts.full */
    int64_t host_bytes, lr_bytes; /* as in kl_engine; scratch is borrowed */
    const char *scratch;
    kl_reaches *reaches; /* of an engine that is there meanwhile, or NULL */
} kl_engine_opts;

/* Operators of every cut but no tensors: start or resume gives them. terms and ex are borrowed. EINPUT: an
   empty sector. */
kl_status kl_engine_create(const kl_terms *terms, kl_exec *ex, const kl_engine_opts *o, kl_engine **out,
                           kl_err *err) KL_MUST_CHECK;
void kl_engine_destroy(kl_engine **e);

/* Random isometries of about m states right of position 1 whose sectors can all be completed, and a random
   wavefunction at centre 0. product: [nproduct][nsite] the state of each position, with a total spin the step
   by which its multiplet goes to those before: the first wavefunctions are then the first of these products,
   which differ, and the isometries hold all of them exactly. */
kl_status kl_engine_start(kl_engine *e, int m, int nproduct, const int *product, kl_err *err) KL_MUST_CHECK;
/* Takes the tensors of a state over (the state is destroyed) and rebuilds the operators. */
kl_status kl_engine_resume_take(kl_engine *e, kl_state **state, kl_err *err) KL_MUST_CHECK;
/* Carries nstate wavefunctions from here on: the first of those there are, and zeros, which the
   eigensolver begins at random. */
kl_status kl_engine_hold(kl_engine *e, int nstate, kl_err *err) KL_MUST_CHECK;
/* Wavefunctions, of norm 1, to weights: those behind the first nwanted are guards, and take little of what
   a truncation or an expansion keeps. The sum of all squares stays. The next solve makes their norms 1
   again. */
void kl_engine_weigh(kl_engine *e, int nwanted);
/* Adds what `from` has counted: times, flops, the largest sizes. */
void kl_engine_count_on(kl_engine *e, const kl_engine *from);
/* Gives a copy of everything as a state. */
kl_status kl_engine_state(const kl_engine *e, const double *energy, kl_state **out,
                          kl_err *err) KL_MUST_CHECK;
/* The same to the first rank, which writes files; all ranks call, *out is NULL on the others. */
kl_status kl_engine_state_first(const kl_engine *e, const double *energy, kl_state **out,
                                kl_err *err) KL_MUST_CHECK;

/* What an engine was made with. */
kl_engine_opts kl_engine_options(const kl_engine *e);
/* The same state at the same centre on another executor, where *e is from then on; what was counted stays. */
kl_status kl_engine_go_to(kl_engine **e, kl_exec *ex, const double *energy, kl_err *err) KL_MUST_CHECK;
/* Operators of blocks and of the centre, where memory is wanted for what comes before the engine's end. */
void kl_engine_drop_operators(kl_engine *e);

/* EINPUT: no state has these charges; with the total spin, which S go with the others. */
kl_status kl_engine_no_state(const kl_terms *terms, kl_qn target, kl_err *err) KL_MUST_CHECK;
/* Pieces that the infinite-lattice algorithm and plans put together by themselves. */
/* Left: block 0..pos-1 (x) site pos; right: site pos (x) block pos+1..; sectors that the other side cannot
   complete are left out. */
kl_status kl_engine_enlarge(const kl_engine *e, kl_side side, int pos, const kl_basis *block,
                            kl_enlarged **out, kl_err *err) KL_MUST_CHECK;
/* product[nsite + 1]: the charges of sites p.. of a product of site states. EINPUT: it is not in the
   sector. */
kl_status kl_engine_product_charges(const kl_engine *e, const int *start /* [nsite] */, kl_qn *product,
                                    kl_err *err) KL_MUST_CHECK;
/* dim[basis->nsec]: about m states of a block of that basis at a cut, shared among its sectors by the numbers
   of paths that both sides have of completing them. */
kl_status kl_engine_share(const kl_engine *e, kl_side side, int cut, int m, const kl_basis *basis, int *dim,
                          kl_err *err) KL_MUST_CHECK;
/* Its matrices come from *data, on the executor, or, where that is nothing, from its own. */
kl_status kl_engine_set_isometry_take(kl_engine *e, kl_side side, int pos, kl_isometry **iso, kl_dptr *data,
                                      kl_err *err) KL_MUST_CHECK;
/* The block beyond position pos from the block before it and the isometry there. */
kl_status kl_engine_rebuild(kl_engine *e, kl_side side, int pos, kl_err *err) KL_MUST_CHECK;
/* Centre c with these bases and wavefunctions, which are taken; the isometry of its site ahead in this
   direction, which is there, was opened for it. */
void kl_engine_put_centre_take(kl_engine *e, int c, int direction, kl_enlarged **row, kl_enlarged **col,
                               kl_layout *layout, kl_dptr *psi);
/* Centre c over the blocks that are there, with a random wavefunction. */
kl_status kl_engine_open(kl_engine *e, int c, kl_err *err) KL_MUST_CHECK;

/* What the superblock is of the sector. */
typedef enum kl_solve_scope {
    KL_SOLVE_PART, /* a part: solved by the engine's solver */
    KL_SOLVE_SECTOR, /* all of it, for blocks hold all of their states: solved by Lanczos, exactly */
    /* the same from random vectors added to the wavefunctions, which may be eigenvectors, but not the lowest
       */
    KL_SOLVE_SECTOR_AFRESH
} kl_solve_scope;

typedef struct kl_solve_opts {
    double tol, tol_rel;
    kl_worth worth;
    int max_apply;
    int nguard; /* wavefunctions, the last, that need not be solved as exactly as the others */
    const char *records; /* NULL, or the file that the list of H x is added to */
    const char *title; /* its title there */
    int lines; /* 1: times of Davidson's lines are wanted */
    int trust_start; /* 1: the wavefunction comes from sweeps, no eigenvector that happens to be there */
    kl_solve_scope scope;
} kl_solve_opts;

/* States of the sector, and those of the larger block at the middle bond if it holds all that the sector
   needs. *work: about the multiplications of a product with H there, where each state of the sector meets the
   states of an enlarged block's sector by each operator of the middle cut. */
void kl_engine_size(const kl_engine *e, double *sector, double *block, double *work);

/* Vectors that the eigensolver may keep: `wanted` (0: 20, more for many states), but no more than max_apply
   products can fill. */
int kl_engine_basis(int wanted, int nstate, int max_apply);

/* Bytes of vectors of length n that an eigensolver wants on the device in any case. */
int64_t kl_engine_least_bytes(int64_t n, int nstate);
/* 1: dense operators of LR leave it that much; where not, a centre takes l-1-1-r's. */
int kl_engine_lr_fits(kl_exec *ex, int64_t dense_doubles, int64_t n, int nstate);

/* Enlarged operators of the centre, where they are not there yet. */
kl_status kl_engine_make_operators(kl_engine *e, kl_err *err) KL_MUST_CHECK;

/* Lowest states of H at the centre, from the wavefunction that is there. energy[nstate] without the terms'
   constant. */
kl_status kl_engine_solve(kl_engine *e, const kl_solve_opts *o, double *energy, kl_eig_stats *stats,
                          kl_err *err) KL_MUST_CHECK;

/* Truncates and moves the centre by direction (+1 or -1). */
kl_status kl_engine_move(kl_engine *e, int direction, const kl_trunc_opts *o, kl_trunc_info *info,
                         kl_err *err) KL_MUST_CHECK;

/* <psi|H|psi> of each state at the centre, after a start or resume. */
kl_status kl_engine_energy(kl_engine *e, double *energy, kl_err *err) KL_MUST_CHECK;

#endif
