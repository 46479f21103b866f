/* The system that a result is of: names and numbers, and a problem made of its file. See kronlat.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strsep */
#endif
#include "lib/handles.h"

#include <string.h>

#include "base/mem.h"

const char *kronlat_result_text(const kronlat_result *result, const char *what)
{
    const kl_result *const r = result->r;
    if (r == NULL || what == NULL) return NULL;
    const struct {
        const char *name, *text;
    } all[] = {{"model", r->model},     {"variant", r->variant},           {"formula", r->formula},
               {"lattice", r->lattice}, {"command_line", r->command_line}, {"program", r->program}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, what) == 0) return all[i].text;
    return NULL;
}

/* What a run was asked for besides its system: not to be asked for again. */
static int is_of_run(const char *name)
{
    static const char *const word[] = {"measure", "spectral", "output", "resume", "start"};
    if (strncmp(name, "sweep-", 6) == 0) return 1;
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        if (strcmp(name, word[i]) == 0) return 1;
    return 0;
}

static kl_status from_file(const char *path, kronlat_problem **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result *r = NULL;
    char *copy = NULL;
    kronlat_error *const why = kronlat_error_create();
    if (why == NULL) KL_TRY(kl_fail(err, KL_ENOMEM, "no memory for a problem"));
    if (path == NULL) KL_TRY(kl_fail(err, KL_EINPUT, "the name of the file is NULL"));
    if (kl_cifile_is(path)) KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: a result of ci holds no problem", path));
    KL_TRY(kl_result_read(path, &r, err));
    copy = kl_strdup(r->options);
    if (copy == NULL) KL_TRY(kl_fail(err, KL_ENOMEM, "no memory for the options in %.300s", path));
    char *rest = copy;
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        char *const equals = strchr(line, '=');
        if (equals == NULL) continue;
        *equals = '\0';
        const int is_model = strcmp(line, "model") == 0;
        if (!is_model && (*out == NULL || is_of_run(line))) continue;
        if (is_model) KL_TRY(kl_status_of(kronlat_problem_create(equals + 1, out, why), why, err));
        else KL_TRY(kl_status_of(kronlat_problem_set(*out, line, equals + 1, why), why, err));
    }
    if (*out == NULL) KL_TRY(kl_fail(err, KL_EINPUT, "%.300s names no model", path));
out:
    if (st != KL_OK) {
        kronlat_problem_destroy(*out);
        *out = NULL;
    }
    kronlat_error_destroy(why);
    kl_free(&copy);
    kl_result_destroy(&r);
    return st;
}

kronlat_status kronlat_problem_create_result(const char *path, kronlat_problem **out, kronlat_error *error)
{
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(NULL);
    *out = NULL;
    return kl_visit_end(v, from_file(path, out, &err), &err, error);
}
