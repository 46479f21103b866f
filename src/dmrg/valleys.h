/* Valleys that sweeps may have missed: beside a transition of the first order the state that sweeps settle in
   need not be the lowest, and no guard, residual or variance tells, for nothing local leads from one to the
   other. Where one part of H is weakened for a while the other state is the lower one by far, and when the
   part comes back sweeps stay with it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_VALLEYS_H
#define KL_VALLEYS_H
#include "dmrg/dmrg.h"
#include "dmrg/engine.h"

typedef struct kl_valley {
    kl_state *state; /* NULL: there is none */
    double energy; /* the constant included */
} kl_valley;

/* What searches have settled. */
typedef struct kl_valley_settled {
    double
        rival; /* above 0: another state lies within this of the one found, and is not told apart; 0: none */
    int strings; /* that may differ between states of one placement (places.h) */
    int ntrial; /* of the last search, with a part weakened or with moves */
    int cut; /* 1: not all placements were asked for, or not all strings tried: a lower state may be missed */
    int nshaken; /* states that sweeps with noise led below the one found */
    int known; /* 1: a search led to a state of this energy, to be found next, and looked around there: */
    double energy, bar;
    double beyond; /* its rival */
} kl_valley_settled;

typedef struct kl_valley_here { /* what a run has found */
    const kl_state *state;
    double energy, bar;
    double flop; /* that the run took */
    int kept, m; /* states that it keeps, and trials are to keep; 0: a few */
    int ended; /* 1: the run has not converged, its number of states or its schedule ended it */
    int mixed; /* 1: it is known that other states are not told apart from it */
    const int *product; /* [nsite] of site states: trials begin with it; NULL: at random */
} kl_valley_here;

/* A trial: two half-sweeps of each of n changed Hs, one going on from the other, then of t; *out stays
   without a state where it ends far above `here`. *flop grows by what it took. */
kl_status kl_valleys_follow(const kl_terms *t, int n, kl_terms *const *changed, kl_exec *ex,
                            const kl_engine_opts *e, const kl_valley_here *here, kl_valley *out, double *flop,
                            kl_err *err) KL_MUST_CHECK;

/* A cheap half-sweep: bases of m states, max_apply products with H at a bond. */
typedef struct kl_valley_pass {
    int m, max_apply, direction;
    double noise;
    int fresh; /* 1: the wavefunction is random */
} kl_valley_pass;
/* *energy: the lowest on the way, without the constant. */
kl_status kl_valleys_pass(kl_engine *e, const kl_valley_pass *pass, double *energy,
                          kl_err *err) KL_MUST_CHECK;

/* 1: a run by these options looks for one: of one state, begun by itself. */
int kl_valleys_wanted(const kl_dmrg_opts *o);

/* H has as many parts as lines of the model have given terms. Where there are two or three, the one of the
   largest coupling is weakened in a cheap trial: a sweep with noise, then one of the whole H; so are the
   others where the run was so long that this is next to nothing. Where sites have labels that H keeps, their
   placements are searched first (places.h); where there are other strings that no charge tells
   (stringtrials.h), trials with moves that H forbids follow.
   *lower: a state below the one that a run by `o` has found; its state NULL: there is none. settled->rival
   above 0: another state lies within this of it, by a run of its own; such a run begins with a trial's state
   that ends close and differs from the one found by its overlap. *settled is zeroed before the first call,
   and is the same for those of one run.
   Where there are such parts and all else ends no lower, sweeps with noise and more states follow from the
   state found: what joins sites weakly over three positions is seen neither by two-site residuals nor by the
   two-site variance, and a state may have lost what it leads to. So may one in disorder where strings join
   sites that are no neighbours; there such sweeps are fewer, and follow short runs alone.
   Where parts of H are joined by nothing or hardly, a trial begins with the charges that the lowest energies
   of these parts ask for (partcharges.h).
   Where couplings differ from place to place, or there are such parts, charges that are far from where they
   belong are looked for (straycharges.h).
   Of a run that has not converged these charges and those of such parts are all that is looked at: trials
   move charges between parts, and the lowest state is followed by a run of its own as long as the one found;
   settled->rival becomes twice what a trial ended lower by than the error bar allows, where that run does
   not.
   e: how engines are made, of one wavefunction. */
kl_status kl_valleys_compare(const kl_terms *t, kl_exec *ex, const kl_engine_opts *e, const kl_dmrg_opts *o,
                             const kl_dmrg_monitor *mon, const kl_valley_here *here, kl_valley *lower,
                             kl_valley_settled *settled, kl_err *err) KL_MUST_CHECK;

/* Options of a run beside the one by `o`: it begins by itself, goes on from nothing, and looks for no other
   valley. */
kl_dmrg_opts kl_valleys_alone(const kl_dmrg_opts *o);

#endif
