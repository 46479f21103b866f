/* What sweeps (dmrg.c) and the look beyond what they find (probe.c) share.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DMRGBASE_H
#define KL_DMRGBASE_H
#include "dmrg/dmrg.h"
#include "dmrg/engine.h"
#include "dmrg/entropies.h"
#include "dmrg/schedule.h"
#include "dmrg/valleys.h"

typedef struct kl_dmrg_course {
    kl_engine *e;
    const kl_dmrg_opts *o;
    const kl_dmrg_monitor *mon;
    kl_dmrg_result *res;
    kl_schedule plan; /* what the sweeps that are made ask for */
    double energy[KL_MAX_STATE];
    double constant;
    kl_exec *where; /* of the last sweep of its own */
    kl_exec *cpu; /* opened for a probe, or where a device had no memory left; NULL: none was needed */
    int left; /* 1: that device was left */
    int probing; /* 1: these sweeps look for states that the run missed, and are not its own */
    /* of the current sweep: its clock, and what stood in its row before this process */
    double sweep_start, seconds_before, flop_before;
    int turn; /* centre where sweeps may turn round for the other half is an image; -1: none does */
    int turned; /* 1: this one has, */
    double unfolded; /* with that energy before */
    int look; /* centre: kl_onesite_look_at */
    int sweep, istep, interrupted; /* interrupted: the direction it was in */
    double discarded, entropy; /* of the last truncation */
    kl_entropies *entropies;
    int lopsided; /* see lopsided.h, signstrings.h */
    kl_valley_settled other; /* valleys */
    /* what ranks did apart from each other, at the end: not the run's */
    double apart;
    kl_prof_times before; /* the run, and what was measured apart */
} kl_dmrg_course;

/* 1: st says that the device has no memory for the bond at the centre. The host does it again, and what
   follows. */
int kl_dmrg_leaves_device(kl_dmrg_course *r, kl_status st, const kl_err *err);

kl_dmrg_row kl_dmrg_new_row(const kl_dmrg_course *r, const kl_stage *g);
/* Optimizes the bonds to the right of the centre; nstep: of all the sweep, as is told. */
kl_status kl_dmrg_go_right(kl_dmrg_course *r, const kl_stage *g, int nstep, kl_dmrg_row *row,
                           kl_err *err) KL_MUST_CHECK;
/* There and back again over all bonds, from wherever the centre is. */
kl_status kl_dmrg_go_over(kl_dmrg_course *r, const kl_stage *g, int to_right, int nstep, kl_dmrg_row *row,
                          kl_err *err) KL_MUST_CHECK;

/* Where a sweep of few states is fast: launches take a device longer. Without memory the old executor. */
kl_exec *kl_dmrg_fast_for_few(kl_dmrg_course *r, int m);
/* Where sweeps may turn round in the middle (halves.h): r->turn; and r->look, on this side of it. */
kl_status kl_dmrg_find_turn(kl_dmrg_course *r, kl_err *err) KL_MUST_CHECK;
/* At that centre: r->turned says whether it has; the engine is then at the first centre of the way back. */
kl_status kl_dmrg_turn_round(kl_dmrg_course *r, const kl_stage *g, kl_dmrg_row *row,
                             kl_err *err) KL_MUST_CHECK;
/* A projection leaves more to solve than the bonds behind it have. */
void kl_dmrg_solve_turned(const kl_dmrg_course *r, kl_solve_opts *so);
/* Behind the solve of the first centre of the way back: whether images were worth what they replaced. */
void kl_dmrg_judge_turn(kl_dmrg_course *r, kl_dmrg_row *row);
/* Bonds that the one at the centre counts for: in a sweep that has turned round its image as well. */
int kl_dmrg_counts(const kl_dmrg_course *r);
/* 1: the entropy of the bond that is left in this direction is told. */
int kl_dmrg_told(const kl_dmrg_course *r, int direction);
/* At the end of a sweep, which may be interrupted: what was summed over all bonds also counts images. */
void kl_dmrg_end_turned(kl_dmrg_course *r, const kl_stage *g, kl_dmrg_row *row);
/* Of one state that the sweeps of a run end with: where H is its own image and this state is neither even nor
   odd, what it and its image together lie lower is looked at. Where that is more than the error bar of a run
   that may go on, *both are the two (twins.h), for sweeps that part them, and the last row says that a
   state lies close; else *both is NULL and the run's rival knows. */
kl_status kl_dmrg_find_twins(kl_dmrg_course *r, const kl_state *state, int may_go_on, kl_state **both,
                             kl_err *err) KL_MUST_CHECK;
/* 1: an automatic run that goes on had better look at its state's image: sweeps that may keep more states
   find none, or the state has been no image of itself for some sweeps. */
int kl_dmrg_asks_image(const kl_dmrg_course *r);
/* entropy[nsite - 1]: of the other half's cuts those of their images. */
void kl_dmrg_image_entropies(const kl_dmrg_course *r, double *entropy);

/* A few cheap sweeps with guards, from the state at the end of a run, which the engine holds: the gaps go
   into the last row. A state that lies close to the wanted ones has then support in the basis, which it may
   have lost before; sweeps of one state alone cannot tell. The engine's state is spoilt. */
kl_status kl_dmrg_probe(kl_dmrg_course *r, const kl_state *state, kl_err *err) KL_MUST_CHECK;

enum { KL_WHOLE_APPLY = 2000 }; /* products for each state of a sector that is solved as a whole */
/* The guard of a sector that is solved as a whole, which its sweeps need not carry: solved together with the
   states once, where the last bond holds the sector, it tells the gap, and so how good the state is. The
   states stay as they are. */
kl_status kl_dmrg_look_beyond(kl_dmrg_course *r, kl_dmrg_row *row, kl_err *err) KL_MUST_CHECK;

#endif
