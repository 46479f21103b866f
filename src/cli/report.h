/* All that the program prints: reports as text and as JSON, the progress line, and the one line of an error.
   Computes nothing that a result does not hold.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_REPORT_H
#define KL_REPORT_H
#include <stdio.h>

#include "run/rankplan.h"
#include "base/json.h"
#include "cli/gaptable.h"
#include "io/result.h"

/* What a run knows besides its result; for `show` there is none. */
typedef struct kl_run_facts {
    const char *exec;     /* "host" */
    int nthread;
    const char *output;   /* NULL: no file */
    double seconds;       /* of the whole program so far */
    double host_memory;   /* bytes that it was to keep to; 0: no limit */
    const char *command;  /* NULL: the one that the result is of */
    const struct kl_edreport_scan *scan; /* sectors that were looked at before this one; NULL: none */
    const kl_exec *ran;   /* NULL: nothing more is told of it */
} kl_run_facts;

/* Where ex keeps on the host what its device has no room for: what that is, and seconds of a product as they
   were expected, of its copies and of its work alone, and as they were taken; seconds: of `products' products
   (0: not known). */
void kl_report_streamed(FILE *to, const kl_exec *ex, double seconds, double products);

/* "kronlat: TEXT" on stderr, below a progress line if there is one. */
void kl_report_error(const char *text);
void kl_report_note(const char *text); /* the same for what is worth knowing and no failure */

/* "1.25 GB", "3.2 Tflop" */
const char *kl_report_bytes(double bytes, char buf[32]);
const char *kl_report_flop(double flop, char buf[32]);

/* The finished run, or what a file holds. facts may be NULL. */
void kl_report_result(FILE *to, const kl_result *r, const kl_run_facts *facts);
void kl_report_result_json(FILE *to, const kl_result *r, const kl_run_facts *facts);

/* The parts of these that reports of other methods share. */
void kl_report_head_of(FILE *to, const kl_result *r, const kl_run_facts *facts);
void kl_report_measured(FILE *to, const kl_measured *m, int nsite);
void kl_report_cutoff(FILE *to, const kl_result *r);
void kl_report_json_cutoff(kl_json *j, double weight, int site);
/* A document begins: what wrote it, and for which command. */
void kl_report_json_open(kl_json *j, const char *version, const char *command);
void kl_report_json_head(kl_json *j, const kl_result *r, const char *command);
/* Whose document it is: of `show' there are no facts. */
const char *kl_report_command(const kl_run_facts *facts, const char *of_method);
/* without: names that begin so are left out; NULL: none are */
void kl_report_json_measured(kl_json *j, const kl_result *r, const char *without);
void kl_report_json_facts(kl_json *j, const kl_run_facts *facts);

/* Many runs of one model: a table with a row for each value of a parameter or each sector. */
enum { KL_REPORT_VALUES = 8 };
typedef struct kl_report_item {
    char label[128];   /* "U=0.5", "N_up=2 N_dn=2" */
    int exact;         /* 1: of exact diagonalization, without discarded and m */
    int nvalue;        /* what was measured, in one number each: */
    char name[KL_REPORT_VALUES][64]; /* as --measure has it */
    double value[KL_REPORT_VALUES];
    int nstate;
    double energy[KL_MAX_STATE], error_estimate, discarded;
    int m;
    kl_dmrg_stop stop;
    kl_dmrg_wait wait;
    int energy_converged, converged; /* kl_dmrgrun_converged */
    int cut;           /* 1: a cut-off ends a space of bosons, and its highest state has at most: */
    double cut_weight;
    int cut_site;
    int lowest;        /* 1 or 0: of the sectors that were tried; -1: there was no choice */
    char output[512];  /* "" for none */
} kl_report_item;
/* The sectors of a scan, whose lowest states are told together: as many as were asked for, at most. */
typedef struct kl_report_sectors {
    int n;
    const void *item; /* [n] */
    /* how many states sector i has, their energies (ascending), and its name */
    int (*states)(const void *item, int i, const double **energy, const char **name);
} kl_report_sectors;
void kl_report_levels_text(FILE *to, const kl_report_sectors *s);
void kl_report_levels_json(kl_json *j, const kl_report_sectors *s);

/* What is to be said of the runs whose cut-off shows. 0: nothing. */
int kl_report_cut_rows(int n, const kl_report_item *item, char *text, size_t size);

/* A row for each of the n runs; levels 1: they are the sectors of one scan, whose lowest states are told. */
void kl_report_table(FILE *to, const char *title, int n, const kl_report_item *item, int levels);
void kl_report_table_json(FILE *to, const char *title, int n, const kl_report_item *item, int levels,
                          const kl_gaptable *gaps);

typedef struct kl_report_head { /* what plans and growth are about */
    const kl_model *model;
    const char *lattice, *charges;
} kl_report_head;
/* map and histogram of the last */
void kl_report_plan(FILE *to, const kl_report_head *head, int n, const kl_dmrg_plan *plan);
/* ranks[nrank]: those of the last plan */
void kl_report_plan_json(FILE *to, const kl_report_head *head, int n, const kl_dmrg_plan *plan, int nrank,
                         const kl_rankplan *ranks);
/* A plan of every sector of a scan, in one line each. */
typedef struct kl_report_planned {
    char charges[128];
    int image; /* the sector before it of which H makes this one a reflection, or -1: then it is run */
    int m, npair;
    int64_t states, dim, nrecord, memory_bytes;
    double flop_apply, seconds_sweep;
} kl_report_planned;
/* What one line says of a plan; charges and image are left to the caller. */
void kl_report_planned_take(kl_report_planned *p, const kl_dmrg_plan *plan);
void kl_report_planscan(FILE *to, const kl_report_head *head, int64_t n, const kl_report_planned *sector);
void kl_report_planscan_json(FILE *to, const kl_report_head *head, int64_t n,
                             const kl_report_planned *sector);
/* What JSON of both kinds of plans begins with, and what it says in one line's place. */
void kl_report_plan_open(kl_json *j, const kl_report_head *head);
void kl_report_planned_json(kl_json *j, const kl_report_planned *p);
/* What several ranks would take of what takes one process `unit`: a sweep, a product. */
void kl_report_rankplan(FILE *to, const char *unit, const kl_rankrate *between, int n,
                        const kl_rankplan *row);
void kl_report_rankplan_json(kl_json *j, int n, const kl_rankplan *row);
/* The ways to run the list of H x, and what each takes of the device's memory; nothing where there is one
   way. */
void kl_report_ways(FILE *to, const kl_dmrg_plan *plan);
/* What little memory of the device costs a sweep, by the rates of the bus; nothing where these are not
   known. */
void kl_report_beyond(FILE *to, const kl_dmrg_plan *plan);
void kl_report_ways_json(kl_json *j, const kl_dmrg_plan *plan);
/* A line for each iteration, then the form of nemes2014, Table 5. */
void kl_report_infinite(FILE *to, const kl_report_head *head, int n, const kl_infinite_row *row);
void kl_report_infinite_json(FILE *to, const kl_report_head *head, int n, const kl_infinite_row *row);

/* The progress line: on stderr, only where that is a terminal. */
typedef struct kl_progress {
    int live;           /* the line is drawn */
    int verbose;        /* a line for each sweep, terminal or not */
    int nsweep;         /* known number of sweeps, 0: not known */
    int sweep_before;   /* done before this run (resumed) */
    double last, sweep_start, previous_energy;
    int sweep, have_energy;
    char prefix[160];   /* "U=0.5  " */
    /* of runs that say themselves how many states they keep: absolute and relative; 0: not wanted */
    double wanted, accuracy;
    char forecast[96];  /* "  about 3 more sweeps, to m = 1600: 2 min" */
} kl_progress;
void kl_progress_begin(kl_progress *p, int verbose, int nsweep);
void kl_progress_step(kl_progress *p, const kl_dmrg_step *s);
void kl_progress_sweep(kl_progress *p, const kl_dmrg_row *row, int nrow);
void kl_progress_end(kl_progress *p); /* clears the line */

/* "4 ranks, the first: ", as long as they share the work; "": one process. */
enum { KL_REPORT_RANKS = 40 };
const char *kl_report_ranks(char out[KL_REPORT_RANKS]);

/* Seconds of a clock that only goes forward. */
double kl_clock(void);

#endif
