/* The automatic schedule of DMRG: how many states the next sweep keeps and carries, how exactly it solves,
   how far off the energy still is, and when a run may stop. Pure functions of the sweeps made so far; dmrg.c
   acts on what they say. Holds no state of its own, so that a run that is resumed decides as the one that was
   killed would have.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SCHEDULE_H
#define KL_SCHEDULE_H
#include "dmrg/dmrg.h"

typedef struct kl_schedule {
    const kl_dmrg_opts *opts;
    kl_units unit;    /* of the energies */
    int nsite;
    int site_most;    /* states of the largest site */
    double sector;    /* states of the sector */
    int whole;        /* 1: the sector is small enough to be solved as a whole at the middle bond */
    int block;        /* states of the larger block next to the middle bond when none is left out */
    int m_start;      /* states of the saved state that the run began from; 0: it began afresh */
} kl_schedule;

typedef struct kl_stage { /* orders for one sweep */
    int m;                /* states kept */
    int sites;            /* optimized together: 1 or 2 */
    int held;             /* wavefunctions carried: the wanted ones and the guards above them */
    double noise;
    /* residual at which the eigensolver may stop: absolute, and relative to the first one */
    double tol, tol_rel;
    int max_apply;        /* products with H a bond */
    int precise;          /* see kl_trunc_opts */
    int m_min;            /* see kl_trunc_opts */
    double discard;
    int settling;         /* 1: neither expands nor truncates on its way back, see settle.h */
} kl_stage;

/* What is known of the energy after some sweeps. Energies and errors are absolute. */
typedef struct kl_outlook {
    double wanted;       /* accuracy asked for */
    /* error left by truncation, and what further sweeps at this m would still change; INFINITY: not known */
    double truncation;
    double change; /* the part of it that is change, not truncation */
    /* error left by the eigensolver: residual^2 / gap, or the residual itself where the sector is solved as a
       whole */
    double solver;
    double lower; /* what another sweep found below the energy told */
    double kept; /* <H> of the state at the end of the sweep, above the energy told */
    /* where the energy is exact: the weight that its state is short of, and what that may be */
    double lacks, lacks_wanted;
    /* what that may be: the wanted accuracy, and less where a sector is solved as a whole, whose values are
       meant to be exact */
    double kept_wanted;
    /* norm of the difference between that state and the exact one, by its energy and the gap; 1: it may be a
       mixture */
    double distance;
    /* from the highest wanted state to the lowest one not held that counts; INFINITY: no guard was looked
       at */
    double gap;
    /* gap of states that are not told apart from the wanted ones: they lie within this; 0: there are none */
    double unresolved;
    /* the same two with guards that are still carried, which enter no decision: what is told */
    double next, mixed;
    double bar; /* error bar of the energy: the largest of the above that bound it */
    /* where values are measured: the residual at which the state is as good as its energy */
    double residual_wanted;
    double limit; /* energy of the lowest state, extrapolated to no discarded weight */
    kl_dmrg_wait wait; /* what keeps the accuracy from being reached; KL_WAIT_NOTHING: it is reached */
} kl_outlook;

/* The error of the energy that a run is to reach; of s opts, unit and nsite are asked for. */
double kl_schedule_wanted(const kl_schedule *s, double energy);

/* The rows of result so far, of which there is at least one. */
kl_outlook kl_schedule_outlook(const kl_schedule *s, const kl_dmrg_result *result);

/* Orders for the sweep that comes next. */
kl_stage kl_schedule_stage(const kl_schedule *s, const kl_dmrg_result *result);
/* Of the cheap sweeps that look for states which a run may have missed; `sweep` counts from 0 to
   KL_PROBE_SWEEPS - 1. */
enum { KL_PROBE_SWEEPS = 3 };
kl_stage kl_schedule_probe(const kl_schedule *s, int sweep);

/* 1: a run ends with the rows so far, and *stop says why; 0: another sweep is to be made. */
int kl_schedule_ends(const kl_schedule *s, const kl_dmrg_result *result, kl_dmrg_stop *stop);
/* 1: no row tells what lies above the wanted states, so that it has to be probed before the run ends. */
int kl_schedule_unguarded(const kl_schedule *s, const kl_dmrg_result *result);

#endif
