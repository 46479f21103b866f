/* See outputs.h. Two names are one file where device and inode are the same, or, before there is a file,
   where folder and last part are.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "run/outputs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MOST_IRREP = 8,
    MOST_OUTPUT = 2 + 2 * MOST_IRREP,
};

typedef struct output {
    const char *option;
    const char *named; /* what the user wrote */
    char path[1100];
    int is_result;     /* written after --start was read */
} output;

static int resolve(const char *path, char out[PATH_MAX])
{
    char folder[PATH_MAX], real[PATH_MAX];
    const char *const slash = strrchr(path, '/'), *const last = slash != NULL ? slash + 1 : path;
    if (snprintf(folder, sizeof folder, "%.*s", slash == NULL ? 1 : (int)(slash - path) + 1,
                 slash == NULL ? "." : path) >= (int)sizeof folder)
        return 0;
    return realpath(folder, real) != NULL && snprintf(out, PATH_MAX, "%s/%s", real, last) < PATH_MAX;
}

static int same_file(const char *a, const char *b)
{
    struct stat x, y;
    char p[PATH_MAX], q[PATH_MAX];
    const int there = stat(a, &x) == 0, too = stat(b, &y) == 0;
    if (there && too) return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    return !there && !too && resolve(a, p) && resolve(b, q) && strcmp(p, q) == 0;
}

static int ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static kl_status against(const output *w, const char *what, const char *input, kl_err *err)
{
    if (input == NULL || !same_file(w->path, input)) return KL_OK;
    if (strcmp(w->path, w->named) != 0)
        return kl_fail(err, KL_EINPUT,
                       "%s %.200s: writes %.200s, which would replace %s that is read; give another name",
                       w->option, w->named, w->path, what);
    return kl_fail(err, KL_EINPUT, "%s %.200s: would replace %s that is read, %.200s; give another name",
                   w->option, w->named, what, input);
}

static kl_status against_inputs(const kl_options *o, const char *job, const output *w, kl_err *err)
{
    kl_status st = KL_OK;
    char file[1100];
    KL_TRY(against(w, "the job file", job, err));
    if (o->command == KL_CMD_CI || o->molecule) KL_TRY(against(w, "the FCIDUMP file", o->file, err));
    if (o->command == KL_CMD_PLOT) KL_TRY(against(w, "the file", o->file, err));
    for (int i = 0; i < o->more.n; i++) KL_TRY(against(w, "the file", o->more.text[i], err));
    if (o->model != NULL && (strchr(o->model, '/') != NULL || ends_with(o->model, ".lua")))
        KL_TRY(against(w, "the model file", o->model, err));
    if (o->lattice != NULL && ends_with(o->lattice, ".lua"))
        KL_TRY(against(w, "the lattice file", o->lattice, err));
    if (!w->is_result && kl_start_of(o->start, NULL) == KL_START_FILE)
        KL_TRY(against(w, "the --start file", o->start, err));
    for (int i = 0; i < o->parameter.n; i++) {
        const char *const value = o->parameter.text[i] + kl_split_name(o->parameter.text[i]);
        if (strncmp(value, "=@", 2) == 0) KL_TRY(against(w, "the file of a --parameter", value + 2, err));
    }
    for (int i = 0; i < o->measure.n; i++)
        if (sscanf(o->measure.text[i], " overlap( %1000[^)]", file) == 1) {
            for (size_t n = strlen(file); n > 0 && file[n - 1] == ' '; n--) file[n - 1] = '\0';
            KL_TRY(against(w, "the file of --measure overlap", file, err));
        }
out:
    return st;
}

static void add(output *list, int *n, const char *option, const char *named, int number, int is_result)
{
    output *const w = &list[(*n)++];
    *w = (output){.option = option, .named = named, .is_result = is_result};
    if (number > 1) snprintf(w->path, sizeof w->path, "%.1000s-%d", named, number);
    else snprintf(w->path, sizeof w->path, "%.1000s", named);
}

kl_status kl_outputs_check(const kl_options *o, const char *job, kl_err *err)
{
    kl_status st = KL_OK;
    output list[MOST_OUTPUT];
    int n = 0;
    if (o->plan) return KL_OK; /* writes nothing */
    /* not when a sweep comes to need it */
    if (o->scratch != NULL && access(o->scratch, W_OK | X_OK) != 0)
        KL_TRY(kl_fail(err, KL_EINPUT, "--scratch %.300s: no file can be made there: %s", o->scratch,
                       strerror(errno)));
    if (o->resume != NULL) add(list, &n, "--resume", o->resume, 1, 1);
    else if (o->output != NULL && strcmp(o->output, "none") != 0 && o->sweep_parameter == NULL)
        add(list, &n, "--output", o->output, 1, 1);
    if (o->csv != NULL && strcmp(o->csv, "-") != 0) add(list, &n, "--csv", o->csv, 1, 0);
    if (o->save_records != NULL) add(list, &n, "--save-records", o->save_records, 1, 0);
    /* one for each irrep, the later ones with a number */
    for (int k = 1; k <= MOST_IRREP && o->command == KL_CMD_CI; k++) {
        if (o->matrix != NULL) add(list, &n, "--matrix", o->matrix, k, 0);
        if (o->arrays != NULL) add(list, &n, "--arrays", o->arrays, k, 0);
    }
    for (int i = 0; i < n; i++) {
        KL_TRY(against_inputs(o, job, &list[i], err));
        for (int k = 0; k < i; k++)
            if (same_file(list[i].path, list[k].path))
                KL_TRY(kl_fail(err, KL_EINPUT,
                               "%s %.200s: %s %.200s writes the same file, %.200s; give another name",
                               list[i].option, list[i].named, list[k].option, list[k].named, list[i].path));
    }
out:
    return st;
}

kl_status kl_outputs_check_one(const kl_options *o, const char *path, kl_err *err)
{
    output list[2];
    int n = 0;
    add(list, &n, "--output", path, 1, 1);
    if (o->save_records != NULL && same_file(path, o->save_records))
        return kl_fail(err, KL_EINPUT,
                       "--output %.200s: --save-records %.200s writes the same file; give another name", path,
                       o->save_records);
    return against_inputs(o, NULL, &list[0], err);
}
