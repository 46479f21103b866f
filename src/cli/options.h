/* What the user asked for, from the command line (argp) or a job file: one table describes every option once,
   for both and for the help. Checks each value by itself; whether values fit the model is task.c's business.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_OPTIONS_H
#define KL_OPTIONS_H
#include "base/base.h"

/* ORDER KL_CMD: rows of `command_table` in options.c */
typedef enum kl_command {
    KL_CMD_DMRG,
    KL_CMD_ED,
    KL_CMD_CI,
    KL_CMD_RUN,
    KL_CMD_PLAN,
    KL_CMD_EXPLAIN,
    KL_CMD_GROWTH,
    KL_CMD_MODELS,
    KL_CMD_DEVICES,
    KL_CMD_MEASURE,
    KL_CMD_SHOW,
    KL_CMD_PLOT,
    KL_CMD_BENCH,
    KL_CMD_TUNE,
    KL_NCMD,
    KL_CMD_HELP = KL_NCMD,
    KL_CMD_VERSION,
} kl_command;

typedef struct kl_text_list {
    int n;
    int ntyped; /* the first ones came from the command line and win over a job file's of the same name */
    char **text; /* [n] */
} kl_text_list;

/* One entry of --schedule: m[:noise[:tol]], written out once per sweep. */
typedef struct kl_sweep_text {
    int m;
    double noise, tol; /* tol 0: automatic */
} kl_sweep_text;

#define KL_MAX_OPTION 128
#define KL_NO_MS2 1000000

/* Field names are option names with _ for -. Numbers that were not given are 0 (checkpoint_every: 60), texts
   NULL. */
typedef struct kl_options {
    kl_command command;
    char *model; /* MODEL */
    char *file; /* JOB.lua, RESULT.h5 */

    int64_t sites;
    char *lattice, *order;
    int double_bonds;
    kl_text_list parameter, charge, pin, measure;

    int64_t m, m_min, states, max_sweeps, basis, seed;
    double accuracy, discard;
    char *schedule, *strategy, *solver, *start;
    char *form, *method; /* ed: halves; plan: of what */
    int64_t max_products, neumann_order, samples, steps;
    char *precondition, *frequencies, *temperatures;
    kl_text_list spectral;
    double broadening;
    char *space, *irrep, *store, *format, *matrix, *arrays; /* ci */
    int64_t roots, frozen, electrons, ms2, boundary, slice, sigma, pspace; /* ms2: KL_NO_MS2 when not given */
    double residual, memory, device_memory;
    kl_text_list reference;
    int half, density, plan;
    int infinite, full_sectors;
    char *sweep_parameter;

    char *exec, *projection, *hybrid, *save_records;
    int64_t threads;

    char *output, *resume;
    double checkpoint_every;
    int json, verbose;
    int help, version;

    /* filled from the texts above by the checks of this file */
    int nschedule;
    kl_sweep_text *schedule_row; /* [nschedule] */

    /* by row of the table: 0 no, 1 by the job file, 2 on the command line */
    unsigned char given[KL_MAX_OPTION];
    char *command_line; /* the words as typed, for the result file */
} kl_options;

/* Reads the words after the program's name. EINPUT: one line that names the option, the value seen and what
   is allowed. help and version are only noted. For KL_CMD_RUN the job file's values come later, through
   kl_options_set. */
kl_status kl_options_parse(int argc, char **argv, kl_options **out, kl_err *err) KL_MUST_CHECK;
void kl_options_destroy(kl_options **o);

/* One value of a job file; key is an option's name with - or _, `where` opens the message ("job.lua"). What
   the command line gave stays. */
kl_status kl_options_set(kl_options *o, const char *where, const char *key, const char *value,
                         kl_err *err) KL_MUST_CHECK;

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

/* After the last value: combinations that contradict each other. */
kl_status kl_options_check(const kl_options *o, kl_err *err) KL_MUST_CHECK;

/* The most states that --m or --schedule asks for; 0: neither was given. */
int kl_options_widest(const kl_options *o);

/* The help of a command, or of the program for KL_CMD_HELP, on stdout. */
void kl_options_help(kl_command command);
/* "dmrg"; NULL for KL_CMD_HELP. */
const char *kl_command_name(kl_command command);

/* The i-th option that was given, as name and value, in the table's order (lists: the values one by one); 0
   behind the last. The value is the option's own text or stands in `number`. For the result file: enough to
   see, and to repeat, what was asked. */
int kl_options_given(const kl_options *o, int i, const char **name, const char **value, char number[40]);

/* The first of these option names, NULL behind the last, that stands on the command line; NULL: none does,
   whatever a job file or a result says. */
const char *kl_options_typed(const kl_options *o, const char *const *names);

/* "U=0:8:0.5" or "U=0,1,4" -> the values, both ends included. */
kl_status kl_options_sweep(const char *text, int *n, double **value, kl_err *err) KL_MUST_CHECK;

/* The same without a name: "0.1:2:0.1" or "0.5,1". what: for messages. */
kl_status kl_options_values(const char *what, const char *text, int *n, double **value,
                            kl_err *err) KL_MUST_CHECK;

/* "NAME=VALUE" -> length of NAME, 0 when there is no "=" or no name. */
size_t kl_split_name(const char *text);

#endif
