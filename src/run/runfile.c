/* Options in result files, and the names of these files.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "run/runfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/checked.h"
#include "model/embedded.h"

/* Adds "name=text" and a line break; line breaks inside a text would make two lines of one, and no option
   holds any. */
static kl_status add_line(char **out, int64_t *used, const char *name, const char *text, kl_err *err)
{
    const int64_t n = (int64_t)strlen(name) + (int64_t)strlen(text) + 2;
    const kl_status st = kl_realloc(out, *used + n + 1, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    snprintf(*out + *used, (size_t)n + 1, "%s=%s\n", name, text);
    for (char *c = *out + *used; c < *out + *used + n - 1; c++)
        if (*c == '\n') *c = ' ';
    *used += n;
    return KL_OK;
}

/* The order of the orbitals as a list, so that it does not depend on how it was found. */
static kl_status add_order(const kl_moleculetask *t, char **out, int64_t *used, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = t->m->norb;
    char *list = NULL;
    size_t at = 0;
    KL_TRY(kl_alloc(&list, 12 * (int64_t)n, KL_MEM_WORK, err));
    for (int p = 0; p < n; p++)
        at += (size_t)snprintf(list + at, 12, "%s%d", p > 0 ? "," : "", t->number[t->m->order[p]]);
    KL_TRY(add_line(out, used, "order", list, err));
out:
    kl_free(&list);
    return st;
}

kl_status kl_runfile_options(const kl_options *o, const kl_task *t, const kl_runfile_point *at, char **out,
                             kl_err *err)
{
    kl_status st = KL_OK;
    int64_t used = 0;
    const char *name, *text;
    char number[40], charge[1100]; /* names as long as models have them */
    *out = NULL;
    KL_TRY(add_line(out, &used, t->molecule != NULL ? "fcidump" : "model",
                    t->molecule != NULL ? o->file : o->model, err));
    if (t->molecule != NULL) {
        snprintf(number, sizeof number, "%d", kl_molecule_irrep(t->molecule->m, t->dmrg.target) + 1);
        KL_TRY(add_line(out, &used, "irrep", number, err));
        KL_TRY(add_order(t->molecule, out, &used, err));
    }
    for (int c = 0; c < t->model->ncharge; c++) {
        const kl_charge *q = &t->model->charge[c];
        if (t->molecule != NULL && !q->spin) continue; /* electrons and irreps have options of their own */
        const long long num = (long long)t->dmrg.target.v[c] * q->unit_num;
        if (t->scanning && t->scan[c])
            snprintf(charge, sizeof(charge), "%.500s=%.500s", q->name,
                     t->scan_values[c] != NULL ? t->scan_values[c] : "scan");
        else
            snprintf(charge, sizeof(charge), num % q->unit_den == 0 ? "%.1000s=%lld" : "%.1000s=%lld/%d",
                     q->name, num % q->unit_den == 0 ? num / q->unit_den : num, q->unit_den);
        KL_TRY(add_line(out, &used, "charge", charge, err));
    }
    const size_t swept = at == NULL ? 0 : kl_split_name(at->sweep);
    if (at != NULL) {
        snprintf(charge, sizeof(charge), "%.*s=%.17g", (int)swept, at->sweep, at->value);
        KL_TRY(add_line(out, &used, "parameter", charge, err));
        KL_TRY(add_line(out, &used, "sweep-parameter", at->sweep, err));
        snprintf(charge, sizeof(charge), "%d", at->index);
        KL_TRY(add_line(out, &used, "sweep-index", charge, err));
    }
    for (int i = 0; kl_options_given(o, i, &name, &text, number); i++) {
        if (strcmp(name, "charge") == 0 || strcmp(name, "sweep-parameter") == 0 || strcmp(name, "start") == 0)
            continue;
        if (t->molecule != NULL && (strcmp(name, "irrep") == 0 || strcmp(name, "order") == 0)) continue;
        if (swept > 0 && strcmp(name, "parameter") == 0 && kl_split_name(text) == swept &&
            memcmp(text, at->sweep, swept) == 0)
            continue;
        KL_TRY(add_line(out, &used, name, text, err));
    }
out:
    if (st != KL_OK) kl_free(out);
    return st;
}

kl_status kl_runfile_reserve(const kl_task *t, const char *label, char *path, size_t size, kl_err *err)
{
    char charges[256], stem[700];
    kl_qn_print(t->model, t->dmrg.target, charges, sizeof(charges));
    char length[16] = "";
    if (strchr(t->lat->spec, ':') == NULL) snprintf(length, sizeof(length), "%d", t->lat->nsite);
    const int spin = kl_model_spin(t->model);
    if (t->molecule != NULL && spin >= 0)
        snprintf(charges, sizeof charges, "-S=%g", t->dmrg.target.v[spin] / 2.0);
    else if (t->molecule != NULL) charges[0] = '\0';
    if (t->molecule != NULL)
        snprintf(stem, sizeof stem, "%.*s-%d-irrep%d%s", (int)strcspn(t->lat->spec, "."), t->lat->spec,
                 t->lat->nsite, kl_molecule_irrep(t->molecule->m, t->dmrg.target) + 1, charges);
    else
        snprintf(stem, sizeof(stem), "%s-%.200s%s%s%s", t->model->name, t->lat->spec, length,
                 charges[0] != '\0' ? "-" : "", charges);
    for (char *c = stem; *c != '\0'; c++) {
        if (*c == ' ') *c = ',';
        if (*c == '/' || *c == ':') *c = '_';
    }
    char number[24] = "";
    for (int k = 2;; k++) {
        const int n = snprintf(path, size, "%s%s%s%s.h5", stem, number, label != NULL ? "." : "",
                               label != NULL ? label : "");
        if (n >= (int)size)
            return kl_fail(err, KL_EINPUT, "%.80s...: the name of the file is too long; give --output", path);
        const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0)
            return close(fd) == 0
                       ? KL_OK
                       : kl_fail(err, KL_EIO, "%.300s: cannot be written: %s", path, strerror(errno));
        if (errno != EEXIST)
            return kl_fail(err, KL_EIO, "%.300s: cannot be written: %s", path, strerror(errno));
        snprintf(number, sizeof(number), "-%d", k);
    }
}

void kl_runfile_release(const char *path)
{
    struct stat info;
    if (path[0] != '\0' && lstat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0)
        unlink(path);
}

kl_status kl_runfile_no_model(const char *path, kl_err *err)
{
    if (kl_fcidump_is(path))
        return kl_fail(err, KL_EINPUT,
                       "%.300s: begins with &FCI, as a molecule's integrals do, and no model; `kronlat ci' "
                       "and `kronlat dmrg' take those",
                       path);
    if (kl_checked_is(path))
        return kl_fail(
            err, KL_EINPUT,
            "%.300s: holds a result and no model; --start and --resume take it, `kronlat show' and "
            "`kronlat measure' read it",
            path);
    return KL_OK;
}

/* 1: the name is of one of the program's models, and of no file. */
static int is_model_name(const char *name)
{
    struct stat info;
    for (const kl_embedded *m = kl_embedded_models; m->name != NULL; m++)
        if (strcmp(m->name, name) == 0) return stat(name, &info) != 0;
    return 0;
}

kl_status kl_runfile_integrals(const char *path, kl_fcidump **out, kl_err *err)
{
    if (kl_checked_is(path))
        return kl_fail(err, KL_EINPUT,
                       "%.300s: holds a result and no integrals; allowed here: an FCIDUMP file, which begins "
                       "with &FCI (--resume goes on from a result, `kronlat show' reads it)",
                       path);
    if (is_model_name(path))
        return kl_fail(err, KL_EINPUT,
                       "%s is a model, which dmrg and ed take; allowed here: a molecule, as an FCIDUMP file",
                       path);
    return kl_fcidump_read(path, out, err);
}

/* What a checkpoint of DMRG cannot go on with: fewer states kept than it has would cut what it holds, and be
   written over it; other wavefunctions have left no trace in truncations that are behind. */
static kl_status check_resumed(const kl_options *o, const kl_result *done, int64_t m, int64_t states,
                               kl_err *err)
{
    const kl_dmrg_result *const d = &done->dmrg;
    if (done->finished || d->nrow == 0) return KL_OK;
    if (o->states > 0 && o->states != states)
        return kl_fail(err, KL_EINPUT,
                       "--resume: the run in %.300s is one of --states %lld, not %lld; to begin another from "
                       "its state give --start %.300s",
                       o->resume, (long long)states, (long long)o->states, o->resume);
    const int64_t reached = d->row[d->nrow - 1].m;
    if (o->m > 0 && o->m < reached && (m == 0 || o->m < m))
        return kl_fail(
            err, KL_EINPUT,
            "--resume: --m %lld would cut the %lld states in %.300s and replace it; give --m %lld or "
            "more, or --start %.300s",
            (long long)o->m, (long long)reached, o->resume, (long long)reached, o->resume);
    return KL_OK;
}

char *kl_runfile_line(char **rest, char **value)
{
    for (char *line = strsep(rest, "\n"); line != NULL; line = strsep(rest, "\n")) {
        char *const equals = strchr(line, '=');
        if (equals == NULL) continue;
        *equals = '\0';
        *value = equals + 1;
        return line;
    }
    return NULL;
}

kl_status kl_runfile_adopt(kl_options *o, const kl_result *done, kl_err *err)
{
    kl_status st = KL_OK;
    char *copy = kl_strdup(done->options);
    int64_t m = 0, states = 1; /* of the file */
    if (copy == NULL) return kl_fail(err, KL_ENOMEM, "no memory for the options in %.300s", o->resume);
    char *rest = copy, *value;
    for (char *line; (line = kl_runfile_line(&rest, &value)) != NULL;) {
        if (strcmp(line, "model") == 0 && o->model != NULL) continue;
        if (strcmp(line, "fcidump") == 0 && o->molecule && o->file != NULL) continue;
        if (strncmp(line, "sweep-", 6) == 0) continue; /* kl_runfile_swept tells these */
        if (strcmp(line, "m") == 0) m = strtoll(value, NULL, 10);
        if (strcmp(line, "states") == 0) states = strtoll(value, NULL, 10);
        if (kl_options_foreign(o, line)) continue; /* version 0.1.0 took more, and did nothing with it */
        KL_TRY(kl_options_set(o, o->resume, line, value, err));
    }
    if (o->resume != NULL) KL_TRY(check_resumed(o, done, m, states, err));
out:
    kl_free(&copy);
    return st;
}

/* What a line of a result's options says of the system. */
enum {
    LINE_OTHER, /* nothing */
    LINE_ANY,   /* the model, a parameter, a pin, the seed of random arrays */
    LINE_PLACE, /* the sites */
    LINE_CHARGE,
};
static int line_about(const char *name)
{
    static const struct {
        const char *name;
        int about;
    } known[] = {{"model", LINE_ANY},   {"parameter", LINE_ANY},      {"pin", LINE_ANY},
                 {"seed", LINE_ANY},    {"sites", LINE_PLACE},        {"lattice", LINE_PLACE},
                 {"order", LINE_PLACE}, {"double-bonds", LINE_PLACE}, {"charge", LINE_CHARGE}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) return known[i].about;
    return LINE_OTHER;
}

/* 1: a line, "seed", "2" or "parameter", "U=4", is of what is swept. */
static int is_swept(const kl_options *o, const char *name, const char *value)
{
    if (o->sweep_parameter == NULL) return 0;
    const size_t length = kl_split_name(o->sweep_parameter);
    return (strlen(name) == length && memcmp(name, o->sweep_parameter, length) == 0) ||
           (kl_split_name(value) == length && memcmp(value, o->sweep_parameter, length) == 0);
}

kl_status kl_runfile_adopt_system(kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result *r = NULL;
    char *copy = NULL;
    if (kl_runfile_of_molecule(o->start))
        return kl_fail(
            err, KL_EINPUT,
            "--start: %.300s is of a molecule, whose integrals are not in it: kronlat dmrg FCIDUMP "
            "--start %.300s",
            o->start, o->start);
    KL_TRY(kl_option_says("start", kl_result_read(o->start, &r, err), err));
    copy = kl_strdup(r->options);
    if (copy == NULL) KL_TRY(kl_fail(err, KL_ENOMEM, "no memory for the options in %.300s", o->start));
    const int given[] = {[LINE_OTHER] = 1, /* not wanted */
                         [LINE_ANY] = 0,
                         [LINE_PLACE] = o->sites > 0 || o->lattice != NULL,
                         [LINE_CHARGE] = o->charge.n > 0};
    char *rest = copy, *value;
    for (char *line; (line = kl_runfile_line(&rest, &value)) != NULL;)
        if (!given[line_about(line)] && !is_swept(o, line, value))
            KL_TRY(kl_options_set(o, o->start, line, value, err));
out:
    kl_free(&copy);
    kl_result_destroy(&r);
    return st;
}

/* The value of the first line that begins with `key', up to the line's end; NULL: there is none. */
static const char *line_of(const char *lines, const char *key, size_t length)
{
    for (const char *line = lines; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, key, length) == 0) return line + length;
    return NULL;
}

int kl_runfile_of_molecule(const char *path)
{
    kl_result *r = NULL;
    kl_err ignored;
    if (kl_result_read(path, &r, &ignored) != KL_OK) return 0;
    const int is = line_of(r->options, "fcidump=", strlen("fcidump=")) != NULL;
    kl_result_destroy(&r);
    return is;
}

kl_status kl_runfile_swept(const kl_result *r, char **text, kl_runfile_point *at, kl_err *err)
{
    char key[160], number[2][64] = {"", ""};
    int64_t index = 0;
    *text = NULL;
    const char *const sweep = line_of(r->options, "sweep-parameter=", strlen("sweep-parameter="));
    if (sweep == NULL) return KL_OK;
    const size_t length = strcspn(sweep, "\n");
    const kl_status st = kl_alloc(text, (int64_t)length + 1, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    memcpy(*text, sweep, length);
    (*text)[length] = '\0';
    const int used = snprintf(key, sizeof key, "parameter=%.*s=", (int)kl_split_name(*text), *text);
    const char *const found[2] = {line_of(r->options, key, (size_t)used),
                                  line_of(r->options, "sweep-index=", strlen("sweep-index="))};
    for (int i = 0; i < 2 && found[i] != NULL && used < (int)sizeof key; i++)
        snprintf(number[i], sizeof number[i], "%.*s", (int)strcspn(found[i], "\n"), found[i]);
    *at = (kl_runfile_point){.sweep = *text};
    if (kl_parse_double(number[0], &at->value) && kl_parse_int(number[1], &index) && index >= 0 &&
        index < INT32_MAX) {
        at->index = (int)index;
        return KL_OK;
    }
    kl_free(text);
    return kl_fail(err, KL_EINPUT, "a result file of a sweep does not say which value is its own");
}
