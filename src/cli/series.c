/* See series.h. Each run has options, a task and a file of its own, so that its result says all of it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cli/series.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/rankscli.h"
#include "cli/runtable.h"
#include "config.h"
#include "ed/bipartition.h"
#include "model/modelread.h"
#include "run/edresult.h"
#include "run/optiontable.h"
#include "run/outputs.h"
#include "run/runfile.h"

enum {
    MOST_RUN = 10000,
    SWEPT_SITES = -1,
    SWEPT_SEED = -2,
};

typedef struct series {
    kl_options *o;
    const kl_series_method *method;
    char *pattern; /* of the names of files; NULL: as --output is not given */
    char *text; /* "U=0:8:4"; NULL: nothing is swept */
    char name[96]; /* "U" */
    int nvalue;
    double *value;
    int parameter; /* entry of o->parameter that is swept; SWEPT_SITES, SWEPT_SEED: that option */
    int n;
    kl_report_item *item; /* [n] */
    char title[256];
    int sifts; /* 1: the sectors of one scan, of which the lowest alone keeps its file */
    int stopped;
} series;

/* SWEPT_SITES, SWEPT_SEED, or 0 for a parameter of the model. */
static int swept_option(const kl_options *o)
{
    return strncmp(o->sweep_parameter, "sites=", 6) == 0  ? SWEPT_SITES
           : strncmp(o->sweep_parameter, "seed=", 5) == 0 ? SWEPT_SEED
                                                          : 0;
}

/* 1: what is swept chooses local spaces, so that no state can be carried from value to value. */
static int sweeps_structure(const kl_options *o)
{
    enum { MOST = 64 };
    const char *setting[MOST + 1];
    char name[96];
    kl_tables *tables = NULL;
    kl_err later; /* what is wrong with the model is said when it is opened */
    int n = 0;
    for (int i = 0; i < o->parameter.n && n < MOST; i++) setting[n++] = o->parameter.text[i];
    setting[n] = NULL;
    if (o->model == NULL || kl_modelread_find(o->model, setting, &tables, &later) != KL_OK) return 0;
    snprintf(name, sizeof name, "%.*s", (int)kl_split_name(o->sweep_parameter), o->sweep_parameter);
    const int structural = kl_task_structural(tables->model, name);
    kl_tables_destroy(&tables);
    return structural;
}

int kl_series_is(const kl_options *o)
{
    if (o->resume != NULL || o->molecule) return 0;
    if (o->sweep_parameter != NULL)
        return swept_option(o) < 0 || o->command == KL_CMD_ED || kl_options_scan(o) || sweeps_structure(o);
    return o->output != NULL && strchr(o->output, '{') != NULL;
}

/* ---------------------------------------------------------------- names */

/* The value of a name in "U=4 Sz=0"; its length in *n; NULL: none. */
static const char *label_value(const char *label, const char *name, size_t length, size_t *n)
{
    for (const char *p = label; *p != '\0'; p += strcspn(p, " "), p += *p == ' ') {
        if (strncmp(p, name, length) != 0 || p[length] != '=') continue;
        *n = strcspn(p + length + 1, " ");
        return p + length + 1;
    }
    return NULL;
}

kl_status kl_series_name(const char *pattern, const char *label, char out[1024], kl_err *err)
{
    size_t at = 0, n;
    if (strchr(pattern, '{') == NULL) {
        const size_t length = strlen(pattern),
                     cut = length > 3 && strcmp(pattern + length - 3, ".h5") == 0 ? 3 : 0;
        if (snprintf(out, 1024, "%.*s.%s.h5", (int)(length - cut), pattern, label) >= 1000)
            return kl_fail(err, KL_EINPUT, "--output: the name is too long");
        for (char *c = out + length - cut; *c != '\0'; c++) *c = *c == ' ' ? ',' : *c == '/' ? '_' : *c;
        return KL_OK;
    }
    for (const char *p = pattern; *p != '\0'; p++) {
        const char *const end = *p == '{' ? strchr(p, '}') : NULL;
        const char *value = p;
        n = 1;
        if (*p == '{' && end == NULL)
            return kl_fail(err, KL_EINPUT, "--output %.200s: a '{' has no '}' behind it", pattern);
        if (end != NULL) {
            value = label_value(label, p + 1, (size_t)(end - p - 1), &n);
            if (value == NULL)
                return kl_fail(err, KL_EINPUT, "--output: nothing is called '%.*s' here; known: %s",
                               (int)(end - p - 1), p + 1, label);
        }
        if (at + n > 1000) return kl_fail(err, KL_EINPUT, "--output: the name is too long");
        for (size_t k = 0; k < n; k++) out[at++] = (char)(end != NULL && value[k] == '/' ? '_' : value[k]);
        if (end != NULL) p = end;
    }
    out[at] = '\0';
    return KL_OK;
}

/* EINPUT where files of several values of `name' would have one name. */
static kl_status check_pattern(const series *s, const char *name, int64_t nvalue, kl_err *err)
{
    char word[128];
    snprintf(word, sizeof word, "{%.100s}", name);
    if (s->pattern == NULL || strchr(s->pattern, '{') == NULL || nvalue < 2 ||
        strstr(s->pattern, word) != NULL)
        return KL_OK;
    return kl_fail(err, KL_EINPUT,
                   "--output %.200s: several values of %s would write the same file; the name needs %s",
                   s->pattern, name, word);
}

/* ---------------------------------------------------------------- one run */

kl_status kl_series_done(const kl_task *t, const char *path, kl_result **done, kl_err *err)
{
    kl_status st = KL_OK;
    char *text = NULL;
    kl_err ignored;
    *done = NULL;
    if (path == NULL || access(path, R_OK) != 0) return KL_OK;
    if (kl_result_read(path, done, &ignored) != KL_OK) return KL_OK; /* it will be replaced */
    KL_TRY(kl_runfile_options(t->o, t, NULL, &text, err));
    const int same = strcmp(text, (*done)->options) == 0 && strcmp((*done)->program, KL_VERSION) == 0 &&
                     kl_edresult_is(*done) == (t->o->command == KL_CMD_ED) &&
                     kl_result_match(path, *done, t->model, t->lat, t->params, t->dmrg.target, KL_MATCH_RUN,
                                     &ignored) == KL_OK;
    if (!same) kl_result_destroy(done);
out:
    kl_free(&text);
    return st;
}

/* Where a scan that keeps its lowest state puts a sector meanwhile: "out.Sz=0.part.h5". */
static kl_status name_file(const series *s, const char *label, char path[1024], kl_err *err)
{
    char part[160];
    if (!s->sifts) return kl_series_name(s->pattern, label, path, err);
    snprintf(part, sizeof part, "%.120s.part", label);
    return kl_series_name(s->pattern, part, path, err);
}

static kl_status take_path(series *s, kl_task *t, const char *label, kl_err *err)
{
    kl_status st = KL_OK;
    char path[1024];
    if (s->pattern == NULL) return KL_OK;
    KL_TRY(name_file(s, label, path, err));
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->item[i].output, path) == 0)
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "--output %.200s: the runs %s and %s would write the same file, %.200s",
                           s->pattern, s->item[i].label, label, path));
    KL_TRY(kl_outputs_check_one(t->o, path, err));
    kl_free(&s->o->output);
    s->o->output = kl_strdup(path);
    if (s->o->output == NULL) KL_TRY(kl_fail(err, KL_ENOMEM, "no memory for the name of a file"));
out:
    return st;
}

/* The row that was added last beside those from `first' on, the sectors of one value. The row that is not,
   or no more, the lowest of them; -1: it is the only one. */
static int mark_lowest(series *s, int first)
{
    const int last = s->n - 1;
    int low = first;
    while (low < last && !s->item[low].lowest) low++;
    const int below = low < last && s->item[last].energy[0] < s->item[low].energy[0];
    s->item[last].lowest = low == last || below;
    if (below) s->item[low].lowest = 0;
    return low == last ? -1 : below ? low : last;
}

/* Leaves of a sector's file what its run has found: the state of the lowest alone is wanted. */
static kl_status thin(const series *s, const kl_task *t, kl_report_item *row, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result *r = NULL;
    if (row->output[0] == '\0') goto out;
    if (s->pattern == NULL) {
        if (kl_ranks_first(t->ex)) unlink(row->output); /* its name was free: it is of this scan's making */
        row->output[0] = '\0';
    } else if (kl_ranks_first(t->ex)) {
        KL_TRY(kl_result_read(row->output, &r, err));
        KL_TRY(kl_result_write(row->output, r, NULL, err));
    }
out:
    kl_result_destroy(&r);
    return st;
}

/* All sectors are done: the file of the lowest takes the name that was asked for, the others go. */
static kl_status keep_lowest(series *s, kl_err *err)
{
    for (int i = 0; i < s->n; i++) {
        kl_report_item *const row = &s->item[i];
        if (row->output[0] == '\0' || s->pattern == NULL) continue;
        if (!row->lowest) {
            if (kl_rankscli_tells()) unlink(row->output);
            row->output[0] = '\0';
            continue;
        }
        if (kl_rankscli_tells() && rename(row->output, s->pattern) != 0)
            return kl_fail(err, KL_EIO, "--output: %.300s cannot be renamed to %.300s: %s", row->output,
                           s->pattern, strerror(errno));
        snprintf(row->output, sizeof row->output, "%.500s", s->pattern);
    }
    return KL_OK;
}

/* first: of the rows of the same value; -1: it has one. */
static kl_status add_row(series *s, const kl_task *t, const kl_report_item *row, int first, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_realloc(&s->item, s->n + 1, KL_MEM_MISC, err));
    s->item[s->n++] = *row;
    const int higher = first >= 0 ? mark_lowest(s, first) : -1;
    if (s->sifts && higher >= 0) KL_TRY(thin(s, t, &s->item[higher], err));
    if (kl_rankscli_tells()) KL_TRY(kl_runtable_csv(s->o, s->n, s->item, &(kl_gaptable){0}, err));
out:
    return st;
}

/* The label of a run, "U=4 N=2": which sector names, "" for none, behind what is swept. */
static void label_run(const char *which, const char *charges, char label[128])
{
    snprintf(label, 128, "%s%s%s", which, which[0] != '\0' && charges[0] != '\0' ? " " : "", charges);
}

/* The sector t->target; first as in add_row. */
static kl_status run_one(series *s, kl_task *t, const char *label, int first, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result *done = NULL, *r = NULL;
    char path[1024] = "", note[1200];
    kl_report_item row;
    t->dmrg.target = t->target;
    KL_TRY(take_path(s, t, label, err));
    if (t->o->temperatures == NULL) KL_TRY(kl_series_done(t, s->pattern ? s->o->output : NULL, &done, err));
    if (done != NULL && done->finished) {
        snprintf(note, sizeof note, "%s: taken from %.1000s, which holds this run", label, s->o->output);
        if (kl_rankscli_tells()) kl_report_note(note);
        row = kl_runtable_item(t, done, label, s->o->output);
        KL_TRY(add_row(s, t, &row, first, err));
        goto out;
    }
    KL_TRY(s->method->go(s->method->self, t, done, label, &r, path, err));
    s->stopped = !r->finished;
    if (s->stopped) goto out;
    row = kl_runtable_item(t, r, label, path);
    KL_TRY(add_row(s, t, &row, first, err));
out:
    kl_result_destroy(&done);
    kl_result_destroy(&r);
    return st;
}

/* ---------------------------------------------------------------- all of them */

static kl_status set_value(series *s, int i, kl_err *err)
{
    kl_text_list *const list = &s->o->parameter;
    char text[160];
    if (s->pattern != NULL) kl_free(&s->o->output);
    if (s->text == NULL) return KL_OK;
    if (s->parameter < 0) {
        const double v = s->value[i], most = s->parameter == SWEPT_SITES ? 1e6 : 9007199254740992.0;
        if (!(v >= 1 && v <= most) || v != floor(v))
            return kl_fail(err, KL_EINPUT, "--sweep-parameter: %s=%.10g is no %s", s->name, v,
                           s->parameter == SWEPT_SITES ? "number of sites"
                                                       : "seed: a whole number from 1 on");
        *(s->parameter == SWEPT_SITES ? &s->o->sites : &s->o->seed) = (int64_t)v;
        return KL_OK;
    }
    snprintf(text, sizeof text, "%s=%.17g", s->name, s->value[i]);
    kl_free(&list->text[s->parameter]);
    list->text[s->parameter] = kl_strdup(text);
    return list->text[s->parameter] != NULL ? KL_OK
                                            : kl_fail(err, KL_ENOMEM, "no memory for --sweep-parameter");
}

static void mark_given(kl_options *o, const char *name)
{
    const kl_option_row *const row = kl_option_find(name, strlen(name), KL_BIT(kl_command_of(o)));
    if (row != NULL) o->given[row - kl_option_table] = KL_FROM_COMMAND_LINE;
}

/* What is swept, and where in the options its value stands. */
static kl_status begin(series *s, kl_err *err)
{
    kl_status st = KL_OK;
    kl_options *const o = s->o;
    s->nvalue = 1;
    if (o->output != NULL && strcmp(o->output, "none") != 0) { /* each run has a name of its own there */
        s->pattern = o->output;
        o->output = NULL;
    }
    if (o->sweep_parameter == NULL) return KL_OK;
    s->parameter = swept_option(o) < 0 ? swept_option(o) : o->parameter.n;
    s->text = o->sweep_parameter; /* to each run its value is one that was given */
    o->sweep_parameter = NULL;
    snprintf(s->name, sizeof s->name, "%.*s", (int)kl_split_name(s->text), s->text);
    KL_TRY(kl_options_sweep(s->text, &s->nvalue, &s->value, err));
    KL_TRY(check_pattern(s, s->name, s->nvalue, err));
    if (s->parameter < 0) {
        const int sites = s->parameter == SWEPT_SITES;
        if ((sites ? o->sites : o->seed) > 0)
            KL_TRY(kl_fail(err, KL_EINPUT, "--%s and --sweep-parameter %s: one of them says %s, not both",
                           s->name, s->text, sites ? "how many sites" : "which seed"));
        mark_given(o, s->name);
        goto out;
    }
    KL_TRY(kl_realloc(&o->parameter.text, o->parameter.n + 1, KL_MEM_MISC, err));
    o->parameter.text[o->parameter.n++] = NULL;
    mark_given(o, "parameter");
out:
    return st;
}

/* How many runs there will be of a scan: other sizes have other sectors, other values perhaps no
   reflection. */
static void tell_sectors(const series *s, int64_t n, const int64_t *image)
{
    char note[160], at[60] = "";
    int64_t nimage = 0;
    for (int64_t i = 0; i < n; i++) nimage += image[i] >= 0;
    if (n < 2 || !kl_rankscli_tells()) return;
    if (s->nvalue > 1)
        snprintf(at, sizeof at, " at %s of %d values",
                 nimage == 0 && s->parameter != SWEPT_SITES ? "each" : "the first", s->nvalue);
    if (nimage == 0) snprintf(note, sizeof note, "%lld sectors%s, one run each", (long long)n, at);
    else
        snprintf(note, sizeof note, "%lld sectors%s, %lld runs: the others are reflections of these",
                 (long long)n, at, (long long)(n - nimage));
    kl_report_note(note);
}

/* After the first run of a scan: how long the others will take, if they are like it and somebody waits. */
static void tell_time(int64_t n, const int64_t *image, int64_t done, double seconds)
{
    char note[120];
    int64_t left = 0;
    for (int64_t k = done + 1; k < n; k++) left += image[k] < 0;
    const double all = seconds * (double)left;
    if (all < 20 || !kl_rankscli_tells()) return;
    snprintf(note, sizeof note, "the first took %.2g s: about %.2g %s for the %lld others", seconds,
             all < 120    ? all
             : all < 7200 ? all / 60
                          : all / 3600,
             all < 120    ? "s"
             : all < 7200 ? "minutes"
                          : "hours",
             (long long)left);
    kl_report_note(note);
}

/* Sector k of a scan; the runs of DMRG are for as many states as a small one has. */
static kl_status take_sector(const series *s, kl_task *t, kl_qn sector, kl_err *err)
{
    kl_status st = KL_OK;
    kl_bipartition_size size;
    t->target = sector;
    t->scanning = 0; /* one sector: so says its file */
    memset(t->scan, 0, sizeof t->scan);
    if (s->o->command != KL_CMD_DMRG || s->o->states < 2) return KL_OK;
    KL_TRY(kl_bipartition_measure(t->terms, sector, KL_BIPARTITION_SITES, &size, err));
    t->dmrg.nstate = size.dim < (double)s->o->states ? (int)size.dim : (int)s->o->states;
out:
    return st;
}

/* A sector that H reflects into one that is done. */
static kl_status add_image(series *s, const kl_task *t, const kl_report_item *of, const char *label,
                           int first, kl_err *err)
{
    kl_report_item row = *of;
    row.output[0] = '\0';
    snprintf(row.label, sizeof row.label, "%s", label);
    return add_row(s, t, &row, first, err);
}

/* All sectors of a scan. Where each is to have its file, each is run, the images of others as well. */
static kl_status run_scan(series *s, kl_task *t, const char *which, kl_err *err)
{
    kl_status st = KL_OK;
    kl_qn *sector = NULL;
    int64_t n = 0, *image = NULL;
    char label[128], charges[96] = "";
    const int first = s->n;
    KL_TRY(kl_task_sectors(t, &n, &sector, err));
    for (int c = 0; c < t->model->ncharge; c++)
        if (t->scan[c]) KL_TRY(check_pattern(s, t->model->charge[c].name, s->sifts ? 1 : n, err));
    if (s->n + n > MOST_RUN) KL_TRY(kl_fail(err, KL_EINPUT, "these are more than %d runs", (int)MOST_RUN));
    KL_TRY(kl_alloc(&image, n, KL_MEM_MISC, err));
    if (s->sifts) KL_TRY(kl_task_images(t, n, sector, image, err));
    else
        for (int64_t k = 0; k < n; k++) image[k] = -1;
    if (n > 0) kl_qn_print(t->model, sector[0], charges, sizeof charges);
    label_run(which, charges, label);
    KL_TRY(kl_gaptable_check(s->o->gap.n, s->o->gap.text, label, err));
    if (first == 0) tell_sectors(s, n, image);
    for (int64_t k = 0; k < n && !s->stopped; k++) {
        kl_qn_print(t->model, sector[k], charges, sizeof charges);
        label_run(which, charges, label);
        if (image[k] >= 0) {
            KL_TRY(add_image(s, t, &s->item[first + image[k]], label, first, err));
            continue;
        }
        KL_TRY(take_sector(s, t, sector[k], err));
        const double start = kl_clock();
        KL_TRY(run_one(s, t, label, first, err));
        if (first == 0 && k == 0) tell_time(n, image, k, kl_clock() - start);
        s->stopped |= k + 1 < n && kl_ranks_any(t->ex, kl_interrupted());
    }
out:
    kl_free(&image);
    kl_free(&sector);
    return st;
}

/* The runs of one value: of the charges that are given, or one for each sector. */
static kl_status run_value(series *s, int i, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *t = NULL;
    char label[128], charges[96], which[64] = "";
    KL_TRY(set_value(s, i, err));
    KL_TRY(s->method->open(s->method->self, s->o, &t, err));
    const int many = t->scanning && s->o->temperatures == NULL,
              named = s->pattern != NULL && strchr(s->pattern, '{') != NULL;
    s->sifts = many && s->text == NULL && !named;
    /* a title that names the first of several variants would say it of all */
    const size_t length = s->text != NULL ? strlen(s->name) : 0;
    const int swept =
        length > 0 && strncmp(t->model->variant, s->name, length) == 0 && t->model->variant[length] == '=';
    const char *const variant = swept ? "" : t->model->variant;
    if (i == 0)
        snprintf(s->title, sizeof s->title, "%s%s%s%s, %s%s", t->model->name, *variant ? "(" : "", variant,
                 *variant ? ")" : "", s->text != NULL ? s->text : t->lat->spec,
                 s->sifts ? ", by sector" : "");
    if (s->text != NULL) snprintf(which, sizeof which, "%.40s=%.10g", s->name, s->value[i]);
    if (many) {
        KL_TRY(run_scan(s, t, which, err));
    } else {
        if (s->n + 1 > MOST_RUN)
            KL_TRY(kl_fail(err, KL_EINPUT, "these are more than %d runs", (int)MOST_RUN));
        kl_qn_print(t->model, t->target, charges, sizeof charges);
        label_run(which, named ? charges : "", label);
        KL_TRY(kl_gaptable_check(s->o->gap.n, s->o->gap.text, label, err));
        KL_TRY(run_one(s, t, label, -1, err));
    }
    s->stopped |= i + 1 < s->nvalue && kl_ranks_any(t->ex, kl_interrupted());
out:
    kl_task_destroy(&t);
    return st;
}

static kl_status tell(const series *s, int stopped, kl_err *err)
{
    const kl_status st = kl_runtable_tell(s->o, s->title, s->n, s->item, s->sifts, err);
    if (st != KL_OK || !stopped || !kl_rankscli_tells()) return st;
    kl_report_error(s->pattern != NULL
                        ? "interrupted; the same command goes on with what is left"
                        : "interrupted; the runs above are done, and with --output FILE the same "
                          "command would go on with what is left");
    return KL_OK;
}

kl_status kl_series_run(kl_options *o, const kl_series_method *method, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    series s = {.o = o, .method = method};
    kl_err untold;
    KL_TRY(kl_options_check(o, err));
    KL_TRY(kl_gaptable_check(o->gap.n, o->gap.text, NULL, err));
    KL_TRY(begin(&s, err));
    for (int i = 0; i < s.nvalue && !s.stopped && st == KL_OK; i++) st = run_value(&s, i, err);
    if (s.sifts && !s.stopped && st == KL_OK) st = keep_lowest(&s, err);
    if (s.sifts && st == KL_OK && kl_rankscli_tells())
        st = kl_runtable_csv(o, s.n, s.item, &(kl_gaptable){0}, err);
    if (st == KL_OK) st = tell(&s, s.stopped, err);
    else if (s.n > 0) (void)(tell(&s, s.stopped, &untold) == KL_OK);
    *stopped = s.stopped;
out:
    kl_free(&s.item);
    kl_free(&s.value);
    kl_free(&s.pattern);
    kl_free(&s.text);
    return st;
}
