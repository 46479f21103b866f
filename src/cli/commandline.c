/* The command line. Outline:
   1. the first word is a command; of `bench' the second one, too, of a plan its method chooses options, and
      of DMRG whether it is about a molecule;
   2. the others are options, by their letters or long names, which may be shortened, and at most one subject;
   3. what a command cannot do without is asked for.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/commandline.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/infile.h"
#include "base/mem.h"
#include "chem/fcidump.h"
#include "model/modelread.h"
#include "run/dmrgrun.h"
#include "run/optiontable.h"
#include "run/runfile.h"

typedef struct words {
    kl_options *o;
    kl_command command; /* whose options they are */
    kl_command_set taken;
    int argc, at;
    char **argv;
} words;

/* ---------------------------------------------------------------- 1. the command */

static kl_status unknown_command(const char *word, kl_err *err)
{
    const char *names[KL_NCMD + 1];
    for (int c = 0; c < KL_NCMD; c++) names[c] = kl_command_name((kl_command)c);
    names[KL_NCMD] = NULL;
    const char *const near = kl_closest(word, names);
    if (kl_modelread_shipped(word) != NULL)
        return kl_fail(err, KL_EINPUT,
                       "'%s' is a model, no command; `kronlat dmrg %s' or `kronlat ed %s', "
                       "for example",
                       word, word, word);
    if (near == NULL)
        return kl_fail(err, KL_EINPUT, "unknown command '%s'; `kronlat --help' lists them", word);
    return kl_fail(err, KL_EINPUT, "unknown command '%s'; did you mean `%s'? `kronlat --help' lists them",
                   word, near);
}

/* 1: this word begins the long option `name' or gives it a value. */
static int begins(const char *word, const char *name, size_t least)
{
    const size_t length = strcspn(word, "=");
    return length >= least && length <= strlen(name) && strncmp(word, name, length) == 0;
}

static int has_word(int argc, char **argv, const char *name, size_t least)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (begins(argv[i], name, least)) return i + 1;
    return 0;
}

/* What `kronlat bench' is to measure. */
static kl_status bench_command(int argc, char **argv, kl_command *out, kl_err *err)
{
    const size_t skip = strlen("bench ");
    char all[200] = "";
    *out = KL_CMD_BENCH;
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) return KL_OK;
    for (int c = KL_CMD_BENCH_GEMM; c <= KL_CMD_BENCH_CUDA; c++) {
        const char *const what = kl_command_name((kl_command)c) + skip;
        if (strcmp(what, argv[1]) == 0) *out = (kl_command)c;
        if (strchr(what, ' ') == NULL)
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", all[0] ? ", " : "", what);
    }
    if (*out == KL_CMD_BENCH) return kl_fail(err, KL_EINPUT, "bench: '%s' is not one of %s", argv[1], all);
    if (*out == KL_CMD_BENCH_HX && has_word(argc, argv, "--replay", strlen("--r")))
        *out = KL_CMD_BENCH_REPLAY;
    return KL_OK;
}

/* The method of a plan is looked for before the other options are read. */
static kl_command method_of(kl_command command, int argc, char **argv)
{
    const int i = has_word(argc, argv, "--method", strlen("--me"));
    if (i == 0) return command;
    const char *const inside = strchr(argv[i - 1], '=');
    const char *const value = inside != NULL ? inside + 1 : i < argc ? argv[i] : "";
    if (strcmp(value, "ci") == 0 && command == KL_CMD_EXPLAIN) return KL_CMD_EXPLAIN_CI;
    if (strcmp(value, "ed") != 0) return command;
    return command == KL_CMD_PLAN ? KL_CMD_PLAN_ED : KL_CMD_EXPLAIN_ED;
}

/* Whether DMRG is about a molecule is found likewise: one of the words, or the run that goes on, says so. */
static int names_molecule(int argc, char **argv)
{
    const int i = has_word(argc, argv, "--resume", strlen("--res"));
    if (i > 0) {
        const char *const inside = strchr(argv[i - 1], '=');
        if (kl_runfile_of_molecule(inside != NULL ? inside + 1 : i < argc ? argv[i] : "")) return 1;
    }
    for (int k = 1; k < argc; k++)
        if (argv[k][0] != '-' && kl_fcidump_is(argv[k])) return 1;
    return 0;
}

/* Whether a plan is wanted of a job: a word names a file in Lua that returns something at its end, where that
   of a function has its own `end' behind it. Models return nothing, lattices stand behind their option. Lines
   are looked at here, for nothing of Lua runs before the command is known (gen/language.lua has another
   question: what to tell of a file that is no model). */
static int names_job(int argc, char **argv)
{
    for (int k = 1; k < argc; k++) {
        const char *const end = strrchr(argv[k], '.');
        struct stat info;
        FILE *from = NULL;
        char line[256];
        kl_err ignored;
        int found = 0;
        if (argv[k][0] == '-' || end == NULL || strcmp(end, ".lua") != 0) continue;
        if (begins(argv[k - 1], "--lattice", strlen("--la"))) continue;
        if (stat(argv[k], &info) != 0 || !S_ISREG(info.st_mode)) continue;
        if (kl_infile_open(argv[k], &from, &ignored) != KL_OK) continue;
        while (fgets(line, sizeof line, from) != NULL) {
            if (strncmp(line, "return", 6) == 0 && strchr(" {\t\r\n", line[6]) != NULL) found = 1;
            if (strncmp(line, "end", 3) == 0) found = 0;
        }
        fclose(from);
        if (found) return 1;
    }
    return 0;
}

static kl_status find_command(int argc, char **argv, words *w, kl_err *err)
{
    const char *const first = argc > 0 ? argv[0] : "--help";
    int c = 0;
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0)
        c = KL_CMD_HELP;
    else if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0) c = KL_CMD_VERSION;
    else
        while (c < KL_NCMD && strcmp(first, kl_command_name((kl_command)c)) != 0) c++;
    if (c == KL_NCMD) return unknown_command(first, err);
    w->command = w->o->command = (kl_command)c;
    w->at = 1;
    if (c == KL_CMD_PLAN && names_job(argc, argv)) {
        c = KL_CMD_RUN;
        w->command = w->o->command = KL_CMD_RUN;
        w->o->planned = 1;
    }
    if (c == KL_CMD_PLAN || c == KL_CMD_EXPLAIN) w->command = method_of(w->o->command, argc, argv);
    if (kl_command_of_molecule(w->command) != w->command && names_molecule(argc, argv)) {
        w->o->molecule = 1;
        w->command = kl_command_of_molecule(w->command);
    }
    if (c == KL_CMD_BENCH) {
        const kl_status st = bench_command(argc, argv, &w->command, err);
        if (st != KL_OK) return st;
        if (w->command != KL_CMD_BENCH) w->at = 2;
        w->o->command = w->command;
    }
    w->taken = c < KL_NCMD ? kl_commands_taken(w->command) : 0;
    return KL_OK;
}

/* ---------------------------------------------------------------- 2. options and the subject */

static kl_status take(words *w, const kl_option_row *row, const char *value, kl_err *err)
{
    char where[80];
    if (w->command == KL_CMD_RUN && row->group != KL_GROUP_HELP) {
        kl_text_list *const list = &w->o->typed;
        kl_status st = kl_realloc(&list->text, list->n + 1, KL_MEM_MISC, err);
        if (st != KL_OK) return st;
        const int64_t length = (int64_t)strlen(row->name) + (int64_t)strlen(value) + 2;
        list->text[list->n] = NULL;
        st = kl_alloc(&list->text[list->n], length, KL_MEM_MISC, err);
        if (st != KL_OK) return st;
        snprintf(list->text[list->n++], (size_t)length, "%s=%s", row->name, value);
        return KL_OK;
    }
    snprintf(where, sizeof where, "--%s", row->name);
    return kl_option_set(w->o, row, where, value, KL_FROM_COMMAND_LINE, err);
}

/* The value that an option takes stands in its own word or is the next one. */
static kl_status take_with_value(words *w, const kl_option_row *row, const char *inside, kl_err *err)
{
    if (inside != NULL) return take(w, row, inside, err);
    if (w->at >= w->argc)
        return kl_fail(err, KL_EINPUT, "--%s: the value is missing; it takes %s", row->name, row->arg);
    const char *const value = w->argv[w->at++];
    if (strcmp(value, "--help") == 0) { /* asked in the middle of a line */
        w->o->help = 1;
        return KL_OK;
    }
    return take(w, row, value, err);
}

/* Exact, or the only option that begins so. */
static kl_status long_row(const words *w, const char *name, size_t length, const kl_option_row **out,
                          kl_err *err)
{
    char text[80], all[200] = "";
    snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text - 1), name);
    *out = kl_option_find(name, length, w->taken);
    if (*out != NULL) return KL_OK;
    if (kl_option_find(name, length, KL_ALL_COMMANDS) != NULL) /* another command's, and no abbreviation */
        return kl_option_refuse(w->command, kl_command_name(w->command), "--", text, err);
    for (int i = 0; i < kl_noption; i++) {
        const kl_option_row *const row = &kl_option_table[i];
        if (!(row->commands & w->taken) || length == 0 || strncmp(row->name, name, length) != 0) continue;
        if (*out != NULL && strcmp((*out)->name, row->name) == 0)
            continue; /* of `run': another command's row */
        *out = row;
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s--%s", all[0] ? ", " : "", row->name);
    }
    if (strchr(all, ',') != NULL)
        return kl_fail(err, KL_EINPUT, "%s: --%s may be %s", kl_command_name(w->command), text, all);
    return *out != NULL ? KL_OK : kl_option_refuse(w->command, kl_command_name(w->command), "--", text, err);
}

static kl_status long_option(words *w, const char *word, kl_err *err)
{
    const char *const name = word + 2;
    const size_t length = strcspn(name, "=");
    const char *const inside = name[length] == '=' ? name + length + 1 : NULL;
    const kl_option_row *row;
    const kl_status st = long_row(w, name, length, &row, err);
    if (st != KL_OK) return st;
    if (row->arg != NULL) return take_with_value(w, row, inside, err);
    if (inside != NULL)
        return kl_fail(err, KL_EINPUT, "--%s: takes no value, '%s' was given", row->name, inside);
    return take(w, row, "", err);
}

/* "-vn4": flags one behind the other, then one option with its value. */
static kl_status short_options(words *w, const char *word, kl_err *err)
{
    const char *const where = kl_command_name(w->command);
    for (const char *c = word + 1; *c != '\0'; c++) {
        const kl_option_row *const row = kl_option_letter(*c, w->taken);
        if (row == NULL) return kl_option_refuse(w->command, where, "-", (const char[]){*c, '\0'}, err);
        if (row->arg != NULL) return take_with_value(w, row, c[1] != '\0' ? c + 1 : NULL, err);
        const kl_status st = take(w, row, "", err);
        if (st != KL_OK) return st;
    }
    return KL_OK;
}

static kl_status subject(words *w, const char *word, kl_err *err)
{
    const kl_command_row *const row = &kl_command_table[w->command];
    const int is_model = row->subject == KL_SUBJECT_MODEL || row->subject == KL_SUBJECT_OPTIONAL_MODEL;
    char **const field = is_model ? &w->o->model : &w->o->file;
    if (row->subject == KL_SUBJECT_NONE) return kl_fail(err, KL_EINPUT, "%s: takes no '%s'", row->name, word);
    if (*field != NULL && w->command == KL_CMD_PLAN && strcmp(*field, "ed") == 0)
        return kl_fail(err, KL_EINPUT, "plan: of exact diagonalization it is kronlat plan --method ed %s",
                       word);
    if (*field != NULL && row->subject == KL_SUBJECT_FILES && word[0] != '\0') {
        kl_text_list *const more = &w->o->more;
        const kl_status st = kl_realloc(&more->text, more->n + 1, KL_MEM_MISC, err);
        if (st != KL_OK) return st;
        more->text[more->n] = kl_strdup(word);
        if (more->text[more->n] == NULL) return kl_fail(err, KL_ENOMEM, "no memory for '%.40s'", word);
        more->n++;
        return KL_OK;
    }
    if (*field != NULL && is_model && strchr(word, '=') != NULL)
        return kl_fail(err, KL_EINPUT,
                       "%s: '%s' stands alone; a parameter is given by --parameter %s, a "
                       "charge by --charge %s",
                       row->name, word, word, word);
    if (*field != NULL)
        return kl_fail(err, KL_EINPUT, "%s: one %s, not two: '%s' and '%s'", row->name, row->args, *field,
                       word);
    if (word[0] == '\0') return kl_fail(err, KL_EINPUT, "%s: %s is empty", row->name, row->args);
    *field = kl_strdup(word);
    return *field != NULL ? KL_OK : kl_fail(err, KL_ENOMEM, "no memory for '%.40s'", word);
}

static kl_status read_words(words *w, kl_err *err)
{
    kl_status st = KL_OK;
    int no_more = 0; /* "--" was met */
    while (st == KL_OK && w->at < w->argc) {
        const char *const word = w->argv[w->at++];
        if (no_more || word[0] != '-' || word[1] == '\0') st = subject(w, word, err);
        else if (strcmp(word, "--") == 0) no_more = 1;
        else if (word[1] == '-') st = long_option(w, word, err);
        else st = short_options(w, word, err);
    }
    return st;
}

/* ---------------------------------------------------------------- 3. what is missing */

static kl_status check_subject(const words *w, kl_err *err)
{
    const kl_options *const o = w->o;
    const kl_command_row *const row = &kl_command_table[w->command];
    const int resumed = o->resume != NULL; /* then the file says it */
    const int started = w->command == KL_CMD_DMRG && kl_dmrgrun_starts_from_file(o); /* then as well */
    if (row->subject == KL_SUBJECT_MODEL && o->model == NULL && !resumed && !started)
        return kl_fail(err, KL_EINPUT, "%s: MODEL is missing; `kronlat models' lists the models", row->name);
    const int of_molecule = w->command == KL_CMD_CI || w->command == KL_CMD_DMRG_MOLECULE;
    const int of_file = row->subject == KL_SUBJECT_FILE || row->subject == KL_SUBJECT_FILES;
    if (of_file && o->file == NULL && !(of_molecule && resumed))
        return kl_fail(err, KL_EINPUT, "%s: %s is missing; `kronlat %s --help' has examples", row->name,
                       row->args, row->name);
    if (row->subject == KL_SUBJECT_SHELL && o->file == NULL)
        return kl_fail(err, KL_EINPUT, "%s: the shell is missing; allowed: %s", row->name, row->args);
    return KL_OK;
}

/* The words as they were typed, quoted where a shell would want it. */
static kl_status join_words(int argc, char **argv, char **out, kl_err *err)
{
    size_t length = 1;
    for (int i = 0; i < argc; i++) length += strlen(argv[i]) + 3;
    const kl_status st = kl_alloc(out, (int64_t)length, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    char *p = *out;
    for (int i = 0; i < argc; i++) {
        const int quoted = argv[i][0] == '\0' || strpbrk(argv[i], " \t\n()*'\"$@&;|<>") != NULL;
        const char *const quote = quoted ? "'" : "";
        p += sprintf(p, "%s%s%s%s", i > 0 ? " " : "", quote, argv[i], quote);
    }
    return KL_OK;
}

kl_status kl_commandline_parse(int argc, char **argv, kl_options **out, kl_err *err)
{
    kl_status st = KL_OK;
    words w = {.argc = argc, .argv = argv};
    *out = NULL;
    KL_TRY(kl_options_create(KL_CMD_HELP, &w.o, err));
    KL_TRY(join_words(argc, argv, &w.o->command_line, err));
    KL_TRY(find_command(argc, argv, &w, err));
    if (w.taken != 0) KL_TRY(read_words(&w, err));
    if (w.taken != 0 && !w.o->help && !w.o->version) KL_TRY(check_subject(&w, err));
    *out = w.o;
    w.o = NULL;
out:
    kl_options_destroy(&w.o);
    return st;
}
