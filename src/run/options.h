/* What the user asked for, as values: filled by the command line (commandline.h), a job file (job.h) or a
   result file, one value at a time. Checks each value by itself and against the others; whether values fit
   the model is task.c's business. The table of all options is in optiontable.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_OPTIONS_H
#define KL_OPTIONS_H
#include "base/base.h"

/* ORDER KL_CMD: rows of the table in commands.c. Those behind KL_NCMD have options of their own, but are no
   words behind `kronlat': what `kronlat bench' measures, the other method of a plan, and DMRG of a
   molecule. */
typedef enum kl_command {
    KL_CMD_DMRG,
    KL_CMD_ED,
    KL_CMD_CI,
    KL_CMD_RUN,
    KL_CMD_PLAN,
    KL_CMD_EXPLAIN,
    KL_CMD_GROWTH,
    KL_CMD_MODELS,
    KL_CMD_LATTICE,
    KL_CMD_DEVICES,
    KL_CMD_MEASURE,
    KL_CMD_SHOW,
    KL_CMD_PLOT,
    KL_CMD_BENCH,
    KL_CMD_TUNE,
    KL_CMD_COMPLETION,
    KL_CMD_MAN,
    KL_NCMD,
    KL_CMD_PLAN_ED = KL_NCMD,
    KL_CMD_EXPLAIN_ED,
    KL_CMD_EXPLAIN_CI,
    KL_CMD_DMRG_MOLECULE,
    KL_CMD_PLAN_MOLECULE,
    KL_CMD_EXPLAIN_MOLECULE,
    KL_CMD_BENCH_GEMM,
    KL_CMD_BENCH_GEMV_TRANS,
    KL_CMD_BENCH_GEMV_NORMAL,
    KL_CMD_BENCH_COMPARE,
    KL_CMD_BENCH_DMRG,
    KL_CMD_BENCH_ED,
    KL_CMD_BENCH_CI,
    KL_CMD_BENCH_RUN,
    KL_CMD_BENCH_AUTO,
    KL_CMD_BENCH_HX,
    KL_CMD_BENCH_REPLAY,
    KL_CMD_BENCH_OFFLOAD,
    KL_CMD_BENCH_CUDA,
    KL_NCMD_ALL,
    KL_CMD_HELP = KL_NCMD_ALL,
    KL_CMD_VERSION,
} kl_command;

typedef struct kl_text_list {
    int n;
    int ntyped;  /* the first ones came from the command line and win over a job file's of the same name */
    char **text; /* [n] */
} kl_text_list;

/* One entry of --schedule: m[:noise[:tol]], written out once per sweep. */
typedef struct kl_sweep_text {
    int m;
    double noise, tol; /* tol 0: automatic */
} kl_sweep_text;

#define KL_MAX_OPTION 192
#define KL_NO_MS2 1000000

/* Options of `kronlat bench' and `kronlat tune'. */
typedef struct kl_bench_options {
    double exact, seconds, csr;
    kl_text_list beside, m, height, width, belt, hybrid, projection;
    int64_t rows, number, elements, list, rounds;
    int tables, host, shapes, own, quick;
    char *replay, *only, *csv, *json, *plot, *from, *program;
} kl_bench_options;

/* Field names are option names with _ for -. Numbers that were not given are 0 (checkpoint_every: 60,
   threshold: 1e-12), texts NULL. */
typedef struct kl_options {
    kl_command command;
    char *model; /* MODEL */
    /* JOB.lua, RESULT.h5, FCIDUMP; of lattice the SPEC, of completion the shell, of man the command */
    char *file;
    kl_text_list more; /* files behind the first one, of plot */
    int molecule; /* 1: DMRG, its plan or explanation is of the FCIDUMP file, not of a model on a lattice */

    int64_t sites;
    char *lattice, *order;
    int double_bonds;
    kl_text_list parameter, charge, pin, measure, gap;

    int64_t m, m_min, states, max_sweeps, basis, seed;
    double accuracy, discard;
    char *schedule, *strategy, *solver, *start, *truncation, *sites_per_step, *inversion;
    char *form, *method; /* ed: halves; plan: of what */
    int64_t max_products, neumann_order, samples, steps;
    char *precondition, *frequencies, *temperatures;
    kl_text_list spectral;
    double broadening;
    char *space, *irrep, *store, *format, *matrix, *arrays; /* ci */
    int64_t roots, frozen, electrons, ms2;                  /* ms2: KL_NO_MS2 when not given */
    int64_t boundary, slice, sigma, pspace;
    double residual, memory, device_memory, host_memory, threshold;
    kl_text_list reference;
    int half, density, two_body, plan, plot;
    int infinite, full_sectors;
    char *sweep_parameter;

    char *exec, *projection, *hybrid, *save_records, *scratch;
    int64_t ranks; /* 0: not given */
    int64_t threads, device; /* device: -1 when not given */

    char *output, *resume, *csv, *theme;
    int64_t columns;
    double checkpoint_every;
    int json, verbose;
    int help, version;
    kl_bench_options bench;

    /* filled from the texts above by the checks of this file */
    int nschedule;
    kl_sweep_text *schedule_row; /* [nschedule] */

    unsigned char given[KL_MAX_OPTION]; /* by row of the table: 0 no, 1 by a file, 2 on the command line */
    kl_text_list typed;                 /* for KL_CMD_RUN: "name=value", until the job says whose options */
    int planned;                        /* 1: of a job what its run would need is wanted */
    char *command_line;                 /* the words as typed, for the result file */
} kl_options;

/* Where a value comes from; a later source does not replace what the command line gave. */
typedef enum kl_option_source {
    KL_FROM_FILE = 1,
    KL_FROM_COMMAND_LINE = 2,
} kl_option_source;

/* Nothing given. */
kl_status kl_options_create(kl_command command, kl_options **out, kl_err *err) KL_MUST_CHECK;
void kl_options_destroy(kl_options **o);

/* One value of a job file or a result file; key is an option's name with - or _, `where` opens the message
   ("job.lua"). What the command line gave stays. */
kl_status kl_options_set(kl_options *o, const char *where, const char *key, const char *value,
                         kl_err *err) KL_MUST_CHECK;
/* 1: key is an option of some command, though not of this one: files of older versions may hold such. */
int kl_options_foreign(const kl_options *o, const char *key);
/* What was typed behind a job file, now that the job has said its command and method. */
kl_status kl_options_take_typed(kl_options *o, kl_err *err) KL_MUST_CHECK;

/* What a job file's key takes: */
typedef enum kl_option_kind {
    KL_OPTION_FLAG,
    KL_OPTION_INT,
    KL_OPTION_REAL,
    KL_OPTION_TEXT,
    KL_OPTION_LIST
} kl_option_kind;
kl_status kl_options_kind(const kl_options *o, const char *where, const char *key, kl_option_kind *out,
                          kl_err *err) KL_MUST_CHECK;

/* After the last value: options that another method takes, and combinations that contradict each other. */
kl_status kl_options_check(const kl_options *o, kl_err *err) KL_MUST_CHECK;

/* 1: --charge leaves the values of some charges open: scan, a range or a list. */
int kl_options_scan(const kl_options *o);

/* The most states that --m or --schedule asks for; 0: neither was given. */
int kl_options_widest(const kl_options *o);

/* "dmrg"; NULL for KL_CMD_HELP. */
const char *kl_command_name(kl_command command);

/* The i-th option that was given, as name and value, in the table's order (lists: the values one by one);
   0 behind the last. The value is the option's own text or stands in `number`. For the result file: enough
   to see, and to repeat, what was asked. */
int kl_options_given(const kl_options *o, int i, const char **name, const char **value, char number[40]);

/* The first of these option names, NULL behind the last, that stands on the command line; NULL: none does,
   whatever a job file or a result says. */
const char *kl_options_typed(const kl_options *o, const char *const *names);

/* "U=0:8:0.5" or "U=0,1,4" -> the values, both ends included. */
kl_status kl_options_sweep(const char *text, int *n, double **value, kl_err *err) KL_MUST_CHECK;

/* The same without a name: "0.1:2:0.1" or "0.5,1". what: for messages. */
kl_status kl_options_values(const char *what, const char *text, int *n, double **value,
                            kl_err *err) KL_MUST_CHECK;

/* Whole numbers from low to high, each an entry of a list option. name: for messages; most: entries of
   out. */
kl_status kl_options_integers(const char *name, const kl_text_list *list, int64_t low, int64_t high, int most,
                              int64_t *out, kl_err *err) KL_MUST_CHECK;

/* "NAME=VALUE" -> length of NAME, 0 when there is no "=" or no name. */
size_t kl_split_name(const char *text);

/* A lower layer's message about the value of an option, behind the option's name as it is typed. */
kl_status kl_option_says(const char *option, kl_status st, kl_err *err) KL_MUST_CHECK;

/* What --start says. */
typedef enum kl_start {
    KL_START_NONE, /* there is none */
    KL_START_NEEL,
    KL_START_PRODUCT,
    KL_START_PATH,
    KL_START_FILE
} kl_start;
/* *list: NULL, or what stands behind the colon. */
kl_start kl_start_of(const char *text, const char **list);

#endif
