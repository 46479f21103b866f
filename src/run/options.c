/* All options of a run: how values come in from files, what contradicts what, and how they are told again.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "run/optiontable.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

kl_status kl_options_create(kl_command command, kl_options **out, kl_err *err)
{
    const kl_status st = kl_alloc(out, 1, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    (*out)->command = command;
    (*out)->checkpoint_every = 60;
    (*out)->ms2 = KL_NO_MS2;
    (*out)->device = -1;
    (*out)->threshold = 1e-12;
    return KL_OK;
}

static void clear_list(kl_text_list *list)
{
    for (int i = 0; i < list->n; i++) kl_free(&list->text[i]);
    kl_free(&list->text);
    list->n = 0;
}

static int is_text(const kl_option_row *row)
{
    return row->kind == KL_VALUE_TEXT || row->kind == KL_VALUE_CHOICE;
}

static int is_list(const kl_option_row *row)
{
    return row->kind == KL_VALUE_NAMED || row->kind == KL_VALUE_LIST;
}

void kl_options_destroy(kl_options **options)
{
    kl_options *o = *options;
    if (o == NULL) return;
    for (int i = 0; i < kl_noption; i++) {
        const kl_option_row *const row = &kl_option_table[i];
        char *const field = (char *)o + row->offset;
        if (is_text(row)) kl_free((char **)(void *)field);
        if (is_list(row)) clear_list((kl_text_list *)(void *)field);
    }
    clear_list(&o->more);
    clear_list(&o->typed);
    kl_free(&o->model);
    kl_free(&o->file);
    kl_free(&o->schedule_row);
    kl_free(&o->command_line);
    kl_free(options);
}

int kl_options_widest(const kl_options *o)
{
    int m = (int)o->m;
    for (int i = 0; i < o->nschedule; i++)
        if (o->schedule_row[i].m > m) m = o->schedule_row[i].m;
    return m;
}

/* ---------------------------------------------------------------- values from files */

static const kl_option_row *job_row(const kl_options *o, const char *key)
{
    const char *const name = strcmp(key, "p") == 0 ? "parameter" : key;
    const kl_option_row *const row = kl_option_find(name, strlen(name), KL_BIT(kl_command_of(o)));
    return row != NULL && row->group != KL_GROUP_HELP ? row : NULL;
}

int kl_options_foreign(const kl_options *o, const char *key)
{
    return job_row(o, key) == NULL && kl_option_find(key, strlen(key), KL_ALL_COMMANDS) != NULL;
}

/* The words of a job that are no options. */
static char **job_field(kl_options *o, const char *key)
{
    if (strcmp(key, "model") == 0) return &o->model;
    const int of_molecules = o->command == KL_CMD_CI || kl_command_of_molecule(o->command) != o->command;
    return strcmp(key, "fcidump") == 0 && of_molecules ? &o->file : NULL;
}

kl_status kl_options_kind(const kl_options *o, const char *where, const char *key, kl_option_kind *out,
                          kl_err *err)
{
    static const kl_option_kind kind[] = {
        [KL_VALUE_FLAG] = KL_OPTION_FLAG,  [KL_VALUE_INT] = KL_OPTION_INT,
        [KL_VALUE_REAL] = KL_OPTION_REAL,  [KL_VALUE_BYTES] = KL_OPTION_REAL,
        [KL_VALUE_TEXT] = KL_OPTION_TEXT,  [KL_VALUE_CHOICE] = KL_OPTION_TEXT,
        [KL_VALUE_NAMED] = KL_OPTION_LIST, [KL_VALUE_LIST] = KL_OPTION_LIST};
    *out = KL_OPTION_TEXT;
    if (strcmp(key, "command") == 0 || job_field((kl_options *)(uintptr_t)o, key) != NULL) return KL_OK;
    const kl_option_row *const row = job_row(o, key);
    if (row == NULL) return kl_option_refuse(kl_command_of(o), where, "", key, err);
    *out = kind[row->kind];
    return KL_OK;
}

static kl_status set_command(kl_options *o, const char *where, const char *value, kl_err *err)
{
    for (int i = 0; i < KL_NJOB_COMMAND; i++)
        if (strcmp(value, kl_command_name(kl_job_command[i])) == 0) {
            o->command = kl_job_command[i];
            return KL_OK;
        }
    return kl_fail(err, KL_EINPUT, "%s: command is '%s'; allowed: dmrg ed ci plan growth", where, value);
}

kl_status kl_options_set(kl_options *o, const char *where, const char *key, const char *value, kl_err *err)
{
    if (strcmp(key, "command") == 0) return set_command(o, where, value, err);
    char **const field = job_field(o, key);
    if (field != NULL) {
        char *const copy = kl_strdup(value);
        if (copy == NULL) return kl_fail(err, KL_ENOMEM, "no memory for the option value '%.40s'", value);
        kl_free(field);
        *field = copy;
        o->molecule |= field == &o->file && o->command != KL_CMD_CI;
        return KL_OK;
    }
    const kl_option_row *const row = job_row(o, key);
    if (row == NULL) return kl_option_refuse(kl_command_of(o), where, "", key, err);
    char place[512];
    snprintf(place, sizeof(place), "%s: %s", where, key);
    return kl_option_set(o, row, place, value, KL_FROM_FILE, err);
}

kl_status kl_options_take_typed(kl_options *o, kl_err *err)
{
    for (int pass = 0; pass < 2; pass++) /* the method first: it says whose options the others are */
        for (int i = 0; i < o->typed.n; i++) {
            const char *const text = o->typed.text[i];
            const size_t length = kl_split_name(text);
            char name[64], where[72];
            snprintf(name, sizeof name, "%.*s", (int)length, text);
            if ((strcmp(name, "method") == 0) == (pass == 1)) continue;
            const kl_option_row *const row = kl_option_find(name, length, KL_BIT(kl_command_of(o)));
            if (row == NULL)
                return kl_option_refuse(kl_command_of(o), kl_command_name(kl_command_of(o)), "--", name, err);
            snprintf(where, sizeof where, "--%s", name);
            const kl_status st = kl_option_set(o, row, where, text + length + 1, KL_FROM_COMMAND_LINE, err);
            if (st != KL_OK) return st;
        }
    clear_list(&o->typed);
    return KL_OK;
}

/* ---------------------------------------------------------------- as a whole */

/* Row by which an option was given; NULL: it was not. */
static const kl_option_row *given_row(const kl_options *o, const char *name)
{
    for (int i = 0; i < kl_noption; i++)
        if (o->given[i] && strcmp(kl_option_table[i].name, name) == 0) return &kl_option_table[i];
    return NULL;
}

/* Is `name` given, with one of the values "a|b" where some are named? */
static int is_given(const kl_options *o, const char *name, const char *values)
{
    const kl_option_row *const row = given_row(o, name);
    if (row == NULL || values == NULL) return row != NULL;
    const char *const value = *(char *const *)(const void *)((const char *)o + row->offset);
    const size_t length = strlen(value);
    for (const char *v = values; v != NULL; v = strchr(v, '|') ? strchr(v, '|') + 1 : NULL)
        if (strncmp(v, value, length) == 0 && (v[length] == '\0' || v[length] == '|')) return 1;
    return 0;
}

/* Options that only say how another one is done, without that one. */
static kl_status refuse_idle(const kl_options *o, kl_err *err)
{
    static const kl_command_set ED = KL_BIT(KL_CMD_ED), CI = KL_BIT(KL_CMD_CI),
                                BENCH = KL_BIT(KL_CMD_BENCH_ED);
    const struct {
        kl_command_set commands;
        const char *option, *of, *value, *or_of;
    } row[] = {
        {ED, "broadening", "spectral", NULL, NULL},
        {ED, "frequencies", "spectral", NULL, NULL},
        {ED, "samples", "temperatures", NULL, NULL},
        {ED, "steps", "spectral", NULL, "temperatures"},
        {ED, "format", "store", "matrix", NULL},
        {ED, "boundary", "store", "matrix", NULL},
        {ED, "slice", "store", "matrix", NULL},
        {ED, "sigma", "store", "matrix", NULL},
        {ED, "half", "store", "matrix", NULL},
        {ED, "memory", "store", "matrix", NULL},
        {ED | CI, "boundary", "format", "hybrid", NULL},
        {ED | CI, "slice", "format", "sell|sellr", NULL},
        {ED | CI, "sigma", "format", "sell|sellr", NULL},
        {ED | BENCH, "neumann-order", "precondition", "neumann", NULL},
        {ED | BENCH, "precondition", "solver", "davidson|lobpcg", "states"},
        {ED, "basis", "solver", "davidson|lanczos", NULL},
        {KL_ALL_COMMANDS, "m-min", "discard", NULL, NULL},
        {ED, "checkpoint-every", "output", NULL, NULL},
    };
    for (size_t k = 0; k < sizeof(row) / sizeof(row[0]); k++) {
        if (!(row[k].commands & KL_BIT(o->command)) || !is_given(o, row[k].option, NULL)) continue;
        if (is_given(o, row[k].of, row[k].value)) continue;
        if (row[k].or_of != NULL && is_given(o, row[k].or_of, NULL)) continue;
        const int named = row[k].value != NULL, more = row[k].or_of != NULL;
        return kl_fail(err, KL_EINPUT, "--%s has no effect without --%s%s%s%s%s", row[k].option, row[k].of,
                       named ? " " : "", named ? row[k].value : "", more ? " or --" : "",
                       more ? row[k].or_of : "");
    }
    if ((ED & KL_BIT(o->command)) && o->states <= 1 && is_given(o, "basis", NULL) &&
        is_given(o, "solver", "lanczos"))
        return kl_fail(err, KL_EINPUT,
                       "--basis has no effect on one state by --solver lanczos, which keeps three vectors");
    return KL_OK;
}

static kl_status refuse_rivals(const kl_options *o, kl_err *err)
{
    static const char *const rival[][3] = {
        {"schedule", "m", "the schedule says m for each sweep"},
        {"schedule", "accuracy", "the schedule fixes the sweeps, --accuracy makes its own"},
        {"schedule", "max-sweeps", "the schedule fixes the sweeps"},
        {"resume", "start", "a resumed run starts from its checkpoint"},
        {"resume", "output", "a resumed run writes to the file that it goes on from"},
        {"resume", "sweep-parameter", "a resumed run goes on with the values that it was begun with"},
        {"temperatures", "spectral", "one is for all temperatures, the other for none"},
        {"temperatures", "measure", "a measurement is of single states"},
        {"temperatures", "states", "all states count"},
        {"temperatures", "solver", "typical states have their own"},
        {"temperatures", "accuracy", "its error is that of the samples; give --samples"},
        {"temperatures", "max-products", "give --steps of each of the --samples"},
        {"temperatures", "basis", "typical states keep none"},
        {"infinite", "resume", "growth keeps no checkpoint"},
        {"infinite", "start", "growth starts from random vectors"},
        {"infinite", "sweep-parameter", "growth is one run"},
        {"infinite", "schedule", "growth has no sweeps; give --m"},
        {"infinite", "max-products", "growth solves to its tolerance"},
        {"infinite", "full-sectors", "growth keeps m states and no more"},
        {"infinite", "measure", "growth keeps no state"},
        {"infinite", "output", "growth writes no result file"},
        {"infinite", "lattice", "growth builds chains; give --sites"},
    };
    for (size_t k = 0; k < sizeof(rival) / sizeof(rival[0]); k++)
        if (is_given(o, rival[k][0], NULL) && is_given(o, rival[k][1], NULL))
            return kl_fail(err, KL_EINPUT, "--%s and --%s exclude each other: %s", rival[k][0], rival[k][1],
                           rival[k][2]);
    return KL_OK;
}

int kl_options_scan(const kl_options *o)
{
    for (int i = 0; i < o->charge.n; i++) {
        const size_t name = kl_split_name(o->charge.text[i]);
        const char *const value = o->charge.text[i] + (name > 0 ? name + 1 : 0);
        if (strcmp(value, "scan") == 0 || strpbrk(value, ":,") != NULL) return 1;
    }
    return 0;
}

/* What a swept parameter cannot go together with. */
static kl_status check_sweep(const kl_options *o, kl_err *err)
{
    if (o->sweep_parameter == NULL) return KL_OK;
    const size_t swept = kl_split_name(o->sweep_parameter);
    for (int i = 0; i < o->parameter.n; i++)
        if (kl_split_name(o->parameter.text[i]) == swept &&
            memcmp(o->parameter.text[i], o->sweep_parameter, swept) == 0)
            return kl_fail(err, KL_EINPUT,
                           "--parameter %s and --sweep-parameter %s: one of them says what %.*s is, not both",
                           o->parameter.text[i], o->sweep_parameter, (int)swept, o->sweep_parameter);
    return KL_OK;
}

static kl_status check_ci(const kl_options *o, kl_err *err)
{
    if (o->model != NULL)
        return kl_fail(err, KL_EINPUT, "ci: model is '%s'; ci has no model, its integrals come from fcidump",
                       o->model);
    if (o->file == NULL) return kl_fail(err, KL_EINPUT, "ci: fcidump is missing; it is the file to read");
    return KL_OK;
}

kl_status kl_options_check(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_command command = kl_command_of(o);
    for (int i = 0; i < kl_noption; i++)
        if (o->given[i] && !(kl_option_table[i].commands & KL_BIT(command)))
            return kl_option_refuse(command, kl_command_name(command), "--", kl_option_table[i].name, err);
    const kl_subject subject = kl_command_table[command].subject;
    if (command == KL_CMD_CI || command == KL_CMD_EXPLAIN_CI) KL_TRY(check_ci(o, err));
    if (o->molecule && command != KL_CMD_EXPLAIN_CI && (o->model != NULL || o->file == NULL))
        return o->model != NULL ? kl_fail(err, KL_EINPUT,
                                          "%s: model is '%.100s' and fcidump '%.100s'; one of them, not both",
                                          kl_command_name(o->command), o->model, o->file)
                                : kl_fail(err, KL_EINPUT, "%s: fcidump is missing; it is the file to read",
                                          kl_command_name(o->command));
    if (subject == KL_SUBJECT_MODEL && o->model == NULL)
        return kl_fail(err, KL_EINPUT, "%s: model is missing; `kronlat models' lists the models",
                       kl_command_name(command));
    KL_TRY(refuse_rivals(o, err));
    if (o->resume == NULL) KL_TRY(refuse_idle(o, err)); /* what a file brought along was accepted once */
    if (o->m_min > 0 && o->m > 0 && o->m_min > o->m)
        return kl_fail(err, KL_EINPUT, "--m-min: %lld is above --m %lld", (long long)o->m_min,
                       (long long)o->m);
    if (o->basis > 0 && o->basis < o->states + 2)
        return kl_fail(err, KL_EINPUT, "--basis: %lld was given; %lld states need at least %lld",
                       (long long)o->basis, (long long)o->states, (long long)o->states + 2);
    KL_TRY(check_sweep(o, err));
out:
    return st;
}

/* ---------------------------------------------------------------- what was given */

int kl_options_given(const kl_options *o, int i, const char **name, const char **value, char number[40])
{
    for (int r = 0; r < kl_noption; r++) {
        const kl_option_row *const row = &kl_option_table[r];
        const int group = row->group & ~KL_RARE;
        if (!o->given[r] || group == KL_GROUP_HELP || group == KL_GROUP_OUTPUT) continue;
        const char *const field = (const char *)o + row->offset;
        const kl_text_list *const list = (const kl_text_list *)(const void *)field;
        const int count = is_list(row) ? list->n : 1;
        if (i >= count) {
            i -= count;
            continue;
        }
        *name = row->name;
        *value = number;
        switch (row->kind) {
        case KL_VALUE_FLAG: *value = "true"; break;
        case KL_VALUE_INT:
            snprintf(number, 40, "%lld", (long long)*(const int64_t *)(const void *)field);
            break;
        case KL_VALUE_REAL:
        case KL_VALUE_BYTES: snprintf(number, 40, "%.17g", *(const double *)(const void *)field); break;
        case KL_VALUE_NAMED:
        case KL_VALUE_LIST: *value = list->text[i]; break;
        default: *value = *(char *const *)(const void *)field; break;
        }
        return 1;
    }
    return 0;
}

const char *kl_options_typed(const kl_options *o, const char *const *names)
{
    for (; *names != NULL; names++) {
        const kl_option_row *const row = given_row(o, *names);
        if (row != NULL && o->given[row - kl_option_table] == KL_FROM_COMMAND_LINE) return *names;
    }
    return NULL;
}

kl_status kl_option_says(const char *option, kl_status st, kl_err *err)
{
    return st == KL_OK ? KL_OK : kl_fail(err, st, "--%s: %s", option, err != NULL ? err->text : "");
}
