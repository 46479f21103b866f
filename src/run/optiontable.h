/* The table of all options and of all commands, each described once: the command line, job files, help, man
   pages and completion read it. Holds no values: options.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_OPTIONTABLE_H
#define KL_OPTIONTABLE_H
#include "run/options.h"

typedef enum kl_subject {
    KL_SUBJECT_NONE,
    KL_SUBJECT_MODEL,
    KL_SUBJECT_OPTIONAL_MODEL,
    KL_SUBJECT_FILE,
    KL_SUBJECT_FILES, /* one or more */
    KL_SUBJECT_OPTIONAL_FILE,
    KL_SUBJECT_SHELL,  /* of `kronlat completion' */
    KL_SUBJECT_COMMAND /* of `kronlat man', optional */
} kl_subject;

typedef struct kl_command_row {
    const char *name;    /* as it is typed, of several words for those behind KL_NCMD */
    kl_subject subject;
    const char *args;    /* as the usage line shows it */
    const char *summary; /* a line */
    const char *text;    /* behind the options: an example, and what a reader would ask next; may be NULL */
} kl_command_row;

typedef enum kl_value_kind {
    KL_VALUE_FLAG,
    KL_VALUE_INT,
    KL_VALUE_REAL,
    KL_VALUE_BYTES,
    KL_VALUE_TEXT,
    KL_VALUE_CHOICE,
    KL_VALUE_NAMED, /* list of NAME=VALUE */
    KL_VALUE_LIST   /* of texts */
} kl_value_kind;

/* What a text has to look like. */
typedef enum kl_syntax {
    KL_SYNTAX_ANY,
    KL_SYNTAX_FILE, /* a file to read or to write, not empty */
    KL_SYNTAX_FILLED,
    KL_SYNTAX_SCHEDULE,
    KL_SYNTAX_ORDER,
    KL_SYNTAX_START,
    KL_SYNTAX_SWEEP,
    KL_SYNTAX_VALUES
} kl_syntax;

/* Heading in the help; options that few need stand apart, behind the daily ones. */
enum {
    KL_GROUP_SYSTEM = 1,
    KL_GROUP_ACCURACY,
    KL_GROUP_RUN,
    KL_GROUP_MACHINE,
    KL_GROUP_OUTPUT,
    KL_GROUP_HELP,
    KL_NGROUP,
    KL_RARE = 16
};

/* Bits 1 << KL_CMD_*. */
typedef uint64_t kl_command_set;

/* An option that means different things has several rows of one name, whose commands are not the same. */
typedef struct kl_option_row {
    const char *name;
    int letter;          /* short form, 0 for none */
    const char *arg;     /* NULL for a flag */
    int group;           /* KL_GROUP_*, with KL_RARE */
    kl_command_set commands;
    kl_value_kind kind;
    size_t offset;       /* of its field in kl_options */
    double min, max;     /* numbers: allowed values, both included */
    const char *allowed; /* KL_VALUE_CHOICE: "a|b|c"; KL_VALUE_NAMED: what an entry looks like */
    kl_syntax syntax;
    const char *help;
} kl_option_row;

extern const kl_option_row kl_option_table[];
extern const int kl_noption;
extern const kl_command_row kl_command_table[KL_NCMD_ALL];

#define KL_BIT(command) (UINT64_C(1) << (command))
#define KL_ALL_COMMANDS (~UINT64_C(0))

/* Bits of the rows that a command takes; of KL_CMD_RUN: those of all that a job may ask for. */
kl_command_set kl_commands_taken(kl_command command);
/* Bits of the rows that its help shows: of a plan both methods, of DMRG models and molecules. */
kl_command_set kl_commands_of_help(kl_command command);
/* "--method ed: " or "FCIDUMP: " where a command takes the row for some of its subjects alone, else "". */
const char *kl_option_method_note(kl_command command, const kl_option_row *row);
/* The command as it is of a molecule, where there is one: else itself. */
kl_command kl_command_of_molecule(kl_command command);
/* The command whose options were meant: of a plan by its method, of DMRG by what it is about. */
kl_command kl_command_of(const kl_options *o);
/* What a job file may ask for, and their number. */
enum { KL_NJOB_COMMAND = 5 };
extern const kl_command kl_job_command[KL_NJOB_COMMAND];

/* Row of an option by its long name (length characters, - and _ alike) among those with one of these bits;
   NULL if there is none. */
const kl_option_row *kl_option_find(const char *name, size_t length, kl_command_set commands);
/* The same by its letter. */
const kl_option_row *kl_option_letter(int letter, kl_command_set commands);

/* EINPUT: an option that is unknown or belongs elsewhere; says what is meant, or where it belongs. dashes:
   "--", or "" in a job, whose keys that are no options are candidates too. */
kl_status kl_option_refuse(kl_command command, const char *where, const char *dashes, const char *name,
                           kl_err *err) KL_MUST_CHECK;

/* Sets one value; `where` is how the user knows its origin: "--m", "job.lua: m". */
kl_status kl_option_set(kl_options *o, const kl_option_row *row, const char *where, const char *value,
                        kl_option_source from, kl_err *err) KL_MUST_CHECK;

#endif
