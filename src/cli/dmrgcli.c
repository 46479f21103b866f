/* Runs of DMRG. Outline of the command:
   1. what a file to resume says is taken over, options are checked, the system is made;
   2. one run, or one for each sector, or one for each value of a parameter, each from the state before;
   3. every run checkpoints into its file, and its result replaces the checkpoint.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cli/dmrgcli.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/atomicfile.h"
#include "lib/handles.h"
#include "run/dmrgrun.h"
#include "run/edresult.h"
#include "run/outputs.h"
#include "cli/planrun.h"
#include "cli/rankscli.h"
#include "comm/ranks.h"
#include "cli/report.h"
#include "cli/runtable.h"
#include "cli/series.h"
#include "cli/tasknotes.h"
#include "run/runfile.h"
#include "run/task.h"
#include "run/placement.h"
#include "io/checked.h"

/* The values of --sweep-parameter. */
typedef struct sweep {
    char *text; /* "U=0:8:0.5"; NULL: there is none */
    char name[96];
    int n, first; /* first: where a resumed run goes on */
    double *value; /* [n] */
} sweep;

typedef struct run {
    const kl_options *o;
    kl_task *t;
    kl_result *r; /* of the last run */
    kl_status unmeasured, unwritten; /* KL_OK, or what became of --measure, and of the file */
    kl_err why;
    kl_watch watch;
    kl_progress progress;
    char path[1024];          /* result file, "" for none */
    char stem[1024];          /* of the files of a resumed sweep: "out" of out.U=0.5.h5; "" for none */
    sweep sweep;
    double started;
} run;

static void on_bond(void *self, const kl_dmrg_step *step)
{
    if (kl_rankscli_tells()) kl_progress_step(&((run *)self)->progress, step);
}

static void on_sweep(void *self, const kl_dmrg_row *row, int nrow)
{
    if (kl_rankscli_tells()) kl_progress_sweep(&((run *)self)->progress, row, nrow);
}

static void on_note(void *self, const char *text)
{
    (void)self;
    if (kl_rankscli_tells()) kl_report_note(text);
}

/* a name of our own making that nothing may have been written to yet, "" for none */
static char reserved[1024];

void kl_dmrgcli_release(void)
{
    kl_runfile_release(reserved);
    reserved[0] = '\0';
}

/* What was reserved before and not used is given back. */
static kl_status reserve_name(run *x, const char *label, kl_err *err)
{
    sigset_t before;
    kl_dmrgcli_release();
    kl_signals_wait(&before);
    const kl_status st = kl_runfile_reserve(x->t, label, x->path, sizeof(x->path), err);
    if (st == KL_OK) snprintf(reserved, sizeof(reserved), "%s", x->path);
    kl_signals_come(&before);
    return st;
}

/* label tells the runs of a parameter sweep apart. */
static kl_status find_path(run *x, const char *label, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_options *o = x->o;
    x->path[0] = '\0';
    if (o->resume == NULL && o->output != NULL && strcmp(o->output, "none") == 0) return KL_OK;
    if (o->resume == NULL && o->output == NULL) {
        KL_TRY(reserve_name(x, label, err));
        return kl_checked_probe(x->path, err);
    }
    const char *const named = o->resume != NULL ? o->resume : o->output;
    if (label != NULL) KL_TRY(kl_series_name(o->resume != NULL ? x->stem : named, label, x->path, err));
    else if (snprintf(x->path, sizeof(x->path), "%s", named) > 1000)
        return kl_fail(err, KL_EINPUT, "--output: the name is too long");
    if (label != NULL) KL_TRY(kl_outputs_check_one(o, x->path, err));
    KL_TRY(kl_checked_probe(x->path, err));
out:
    return st;
}

/* Where this run's result goes. The first rank finds it, for it alone writes there. */
static kl_status choose_path(run *x, const char *label, kl_err *err)
{
    const kl_status st = kl_ranks_first(x->t->ex) ? find_path(x, label, err) : KL_OK;
    if (st == KL_OK && x->t->ex->ranks) kl_comm_broadcast(x->t->ex->ranks->comm, 0, x->path, sizeof x->path);
    return st;
}

/* 1 when somebody has asked this run to stop, on any rank. */
static int is_interrupted(const run *x) { return kl_ranks_any(x->t->ex, kl_interrupted()); }

/* *state in: the start or NULL, out: what was found. done: the finished part of a resumed run, or NULL. */
static kl_status run_once(run *x, kl_state **state, const kl_result *done, const kl_runfile_point *at,
                          kl_err *err)
{
    kl_status st = KL_OK;
    kronlat_problem *problem = NULL;
    kronlat_result *r = NULL;
    kronlat_error *const why = kronlat_error_create();
    if (why == NULL) return kl_fail(err, KL_ENOMEM, "no memory to begin");
    kl_result_destroy(&x->r);
    KL_TRY(kl_problem_borrow((kl_options *)(uintptr_t)x->o, x->t, (kl_result *)(uintptr_t)done, &x->watch,
                             &problem, err));
    problem->path = x->path;
    problem->at = at;
    problem->state = *state;
    *state = NULL;
    const kronlat_status found = kronlat_dmrg(problem, NULL, &r, why);
    if (r == NULL) KL_TRY(kl_status_of(found, why, err));
    x->unmeasured = r->unmeasured;
    x->unwritten = r->unwritten;
    x->why = r->why;
    x->r = r->r;
    r->r = NULL;
    *state = r->state;
    r->state = NULL;
out:
    kl_progress_end(&x->progress);
    if (problem != NULL) kl_state_destroy(&problem->state);
    kronlat_result_destroy(r);
    kronlat_problem_destroy(problem);
    kronlat_error_destroy(why);
    return st;
}

static void facts_of(const run *x, kl_run_facts *facts)
{
    *facts = (kl_run_facts){.exec = x->t->placement ? kl_placement_name(x->t->placement) : x->t->ex->name,
                            .nthread = x->t->ex->nthread,
                            .output = x->path[0] != '\0' ? x->path : NULL,
                            .seconds = kl_clock() - x->started,
                            .host_memory = x->o->host_memory};
}

static void print_result(const run *x)
{
    kl_run_facts facts;
    facts_of(x, &facts);
    if (x->o->json) kl_report_result_json(stdout, x->r, &facts);
    else kl_report_result(stdout, x->r, &facts);
    fflush(stdout);
}

static void tell_interrupted(const char *written)
{
    char text[1400];
    if (!kl_rankscli_tells()) return;
    if (written[0] == '\0') snprintf(text, sizeof(text), "interrupted; nothing was kept (--output none)");
    else
        snprintf(text, sizeof(text), "interrupted; go on with: kronlat %s --resume %s",
                 kl_command_name(KL_CMD_DMRG), written);
    kl_report_error(text);
}

static kl_status print_table(const run *x, const char *what, int n, const kl_report_item *item, kl_err *err)
{
    char title[512];
    const char *const variant = x->t->model->variant;
    snprintf(title, sizeof(title), "%s%s%s%s, %s, %s", x->t->model->name, variant[0] != '\0' ? "(" : "",
             variant, variant[0] != '\0' ? ")" : "", x->t->lat->spec, what);
    return kl_runtable_tell(x->o, title, n, item, 0, err);
}

/* ---------------------------------------------------------------- along a parameter */

/* The values that are asked for, or those of the run that is resumed at one of them. */
static kl_status plan_sweep(run *x, const char *text, const kl_runfile_point *at, kl_err *err)
{
    kl_status st = KL_OK;
    sweep *const s = &x->sweep;
    s->text = kl_strdup(text);
    if (s->text == NULL) return kl_fail(err, KL_ENOMEM, "no memory for --sweep-parameter");
    snprintf(s->name, sizeof(s->name), "%.*s", (int)kl_split_name(text), text);
    KL_TRY(kl_options_sweep(text, &s->n, &s->value, err));
    if (at == NULL) goto out;
    s->first = at->index;
    if (at->index >= s->n || s->value[at->index] != at->value)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--resume: %.300s is of %s=%.17g, which is not value %d of its sweep, %s",
                       x->o->resume, s->name, at->value, at->index + 1, text));
out:
    return st;
}

static void label_of(const sweep *s, int i, char label[128])
{
    snprintf(label, 128, "%s=%.10g", s->name, s->value[i]);
}

/* "out.U=0.5.h5" -> "out", from which the names of the other values' files are made. */
static void find_stem(run *x)
{
    char label[128], end[140];
    label_of(&x->sweep, x->sweep.first, label);
    snprintf(end, sizeof(end), ".%s.h5", label);
    snprintf(x->stem, sizeof(x->stem), "%s", x->o->resume);
    const size_t length = strlen(x->stem), tail = strlen(end);
    if (length > tail && strcmp(x->stem + length - tail, end) == 0) x->stem[length - tail] = '\0';
}

/* The file of another value of a resumed sweep; *r NULL: there is none. EINPUT: it is of something else. */
static kl_status read_other(const run *x, int i, const kl_result *done, char path[1024], kl_result **r,
                            kl_err *err)
{
    kl_status st = KL_OK;
    char label[128], *text = NULL;
    kl_runfile_point at = {0};
    *r = NULL;
    label_of(&x->sweep, i, label);
    KL_TRY(kl_series_name(x->stem, label, path, err));
    if (access(path, F_OK) != 0) return KL_OK;
    KL_TRY(kl_result_read(path, r, err));
    KL_TRY(kl_runfile_swept(*r, &text, &at, err));
    const int same = text != NULL && strcmp(text, x->sweep.text) == 0 && at.value == x->sweep.value[i] &&
                     (*r)->model_hash == done->model_hash && (*r)->lattice_hash == done->lattice_hash;
    if (!same)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--resume: %.300s is in the way: it is no file of the sweep that is resumed; move it",
                       path));
out:
    kl_free(&text);
    if (st != KL_OK) kl_result_destroy(r);
    return st;
}

/* What is there of a resumed sweep: the values before go into the table, those behind will be replaced. */
static kl_status look_around(const run *x, const kl_result *done, kl_report_item *item, int *n, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result *r = NULL;
    char path[1024], label[128];
    for (int i = 0; i < x->sweep.n; i++) {
        if (i == x->sweep.first) continue;
        KL_TRY(read_other(x, i, done, path, &r, err));
        label_of(&x->sweep, i, label);
        if (i < x->sweep.first && r != NULL && r->finished)
            item[(*n)++] = kl_runtable_item(x->t, r, label, path);
        kl_result_destroy(&r);
    }
out:
    return st;
}

/* The run of value i; done: its checkpoint, NULL for none. */
static kl_status run_value(run *x, int i, kl_state **state, const kl_result *done, kl_err *err)
{
    kl_status st = KL_OK;
    char label[128];
    label_of(&x->sweep, i, label);
    KL_TRY(kl_task_set(x->t, x->sweep.name, x->sweep.value[i], err));
    KL_TRY(choose_path(x, done != NULL ? NULL : label, err));
    snprintf(x->progress.prefix, sizeof(x->progress.prefix), "%s  ", label);
    x->progress.have_energy = 0;
    const kl_runfile_point at = {x->sweep.text, i, x->sweep.value[i]};
    KL_TRY(run_once(x, state, done, &at, err));
    if (x->unwritten != KL_OK) KL_TRY(kl_fail(err, x->unwritten, "%s", x->why.text));
out:
    return st;
}

/* One run for each value, each from the state before; done: the file of the first one, if it is resumed. */
static kl_status run_values(run *x, kl_state **state, const kl_result *done, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    const sweep *const s = &x->sweep;
    int n = 0, i = s->first;
    char label[128];
    kl_report_item *item = NULL;
    KL_TRY(kl_alloc(&item, s->n, KL_MEM_MISC, err));
    label_of(s, i, label);
    KL_TRY(kl_gaptable_check(x->o->gap.n, x->o->gap.text, label, err));
    if (done != NULL) KL_TRY(look_around(x, done, item, &n, err));
    if (done != NULL && done->finished) {
        label_of(s, i++, label);
        item[n++] = kl_runtable_item(x->t, done, label, x->o->resume);
    }
    for (; i < s->n && !is_interrupted(x) && x->unmeasured == KL_OK; i++) {
        KL_TRY(run_value(x, i, state, done != NULL && !done->finished && i == s->first ? done : NULL, err));
        if (!x->r->finished) break;
        label_of(s, i, label);
        item[n++] = kl_runtable_item(x->t, x->r, label, x->path);
        if (kl_rankscli_tells()) KL_TRY(kl_runtable_csv(x->o, n, item, &(kl_gaptable){0}, err));
    }
    KL_TRY(print_table(x, s->text, n, item, err));
    if (x->unmeasured != KL_OK) KL_TRY(kl_fail(err, x->unmeasured, "%s", x->why.text));
    if (is_interrupted(x) && i < s->n) {
        tell_interrupted(x->r != NULL ? x->path : x->o->resume != NULL ? x->o->resume : "");
        *stopped = 1;
    }
out:
    kl_free(&item);
    return st;
}

/* ---------------------------------------------------------------- the command */

static kl_status run_single(run *x, kl_state **state, const kl_result *done, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(choose_path(x, NULL, err));
    KL_TRY(run_once(x, state, done, NULL, err));
    char path[sizeof(x->path)];
    memcpy(path, x->path, sizeof(path));
    if (x->unwritten != KL_OK) x->path[0] = '\0';
    print_result(x); /* before a full disk ends it: the energy is there */
    if (x->unwritten != KL_OK) KL_TRY(kl_fail(err, x->unwritten, "%s", x->why.text));
    if (x->unmeasured != KL_OK) KL_TRY(kl_fail(err, x->unmeasured, "%s", x->why.text));
    if (!x->r->finished) {
        tell_interrupted(path);
        *stopped = 1;
    }
out:
    return st;
}

/* What the file to resume says, before anything else is looked at. */
static kl_status take_over(run *x, kl_options *o, kl_result **done, kl_err *err)
{
    kl_status st = KL_OK;
    char *text = NULL;
    kl_runfile_point at;
    KL_TRY(kl_option_says("resume", kl_result_read(o->resume, done, err), err));
    if (kl_edresult_is(*done))
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--resume: %.300s is of exact diagonalization: kronlat ed --resume %.300s", o->resume,
                       o->resume));
    KL_TRY(kl_runfile_swept(*done, &text, &at, err));
    if (text != NULL) {
        KL_TRY(plan_sweep(x, text, &at, err));
        find_stem(x);
    }
    if ((*done)->finished && x->sweep.first + 1 >= x->sweep.n)
        KL_TRY(
            kl_fail(err, KL_EINPUT,
                    "--resume: the run in %.300s has finished; to go on from its state with other settings: "
                    "kronlat dmrg %s--start %.300s --m ... --output ...",
                    o->resume, o->molecule ? "FCIDUMP " : "", o->resume));
    KL_TRY(kl_runfile_adopt(o, *done, err));
    if (o->molecule && access(o->file, R_OK) != 0)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--resume: %.300s goes on with the integrals of %.300s, which cannot be read: %s; say "
                       "where they are: kronlat dmrg FILE --resume %.300s",
                       o->resume, o->file, strerror(errno), o->resume));
out:
    kl_free(&text);
    return st;
}

/* What a table of many runs cannot do. */
static kl_status check_many(const run *x, kl_err *err)
{
    const kl_options *const o = x->o;
    const int nowhere = o->output != NULL && strcmp(o->output, "none") == 0;
    if ((x->t->scanning || x->sweep.text != NULL) && o->measure.n > 0 && nowhere)
        return kl_fail(err, KL_EINPUT,
                       "--measure: a table of many runs tells energies alone, and with --output none nothing "
                       "would be left of what is measured; give --output FILE");
    if (x->t->scanning && (o->resume != NULL || kl_dmrgrun_starts_from_file(o)))
        return kl_fail(err, KL_EINPUT,
                       "--charge scan starts every sector afresh; it takes no --resume and no --start FILE");
    return kl_runtable_check(o, x->t->scanning || x->sweep.text != NULL, err);
}

/* What is still to come is told of runs that choose their states themselves. */
static void begin_progress(run *x)
{
    const kl_options *const o = x->o;
    kl_progress_begin(&x->progress, o->verbose, o->nschedule);
    if (o->nschedule > 0 || o->m > 0 || o->discard > 0) return;
    x->progress.wanted = x->t->dmrg.error;
    x->progress.accuracy = x->t->dmrg.accuracy > 0 ? x->t->dmrg.accuracy : 1e-9;
}

/* Runs of a series: their options, and the task of the first where it is there already. */
typedef struct runner {
    kl_options *o;
    kl_task *ready;
} runner;

static kl_status open_one(void *self, kl_options *o, kl_task **t, kl_err *err)
{
    runner *const all = self;
    kl_status st = KL_OK;
    if (all->ready == NULL) KL_TRY(kl_dmrgrun_prepare(o, NULL, t, err));
    else *t = all->ready;
    all->ready = NULL;
    KL_TRY(kl_tasknotes(*t, err));
out:
    return st;
}

/* One of a series of runs. */
static kl_status run_one(void *self, kl_task *t, kl_result *done, const char *label, kl_result **r,
                         char *path, kl_err *err)
{
    kl_status st = KL_OK;
    kl_options *const o = ((const runner *)self)->o;
    run x = {.o = o, .t = t, .started = kl_clock()};
    x.watch = (kl_watch){.self = &x, .note = on_note, .bond = on_bond, .sweep = on_sweep};
    kl_state *state = NULL;
    if (done != NULL) o->resume = o->output; /* which kl_dmrgrun_start reads the state from */
    st = kl_dmrgrun_start(t, done, &state, err);
    o->resume = NULL;
    if (st != KL_OK) goto out;
    KL_TRY(choose_path(&x, NULL, err));
    begin_progress(&x);
    snprintf(x.progress.prefix, sizeof(x.progress.prefix), "%s  ", label);
    KL_TRY(run_once(&x, &state, done, NULL, err));
    if (x.unwritten != KL_OK) KL_TRY(kl_fail(err, x.unwritten, "%s", x.why.text));
    if (x.unmeasured != KL_OK) KL_TRY(kl_fail(err, x.unmeasured, "%s", x.why.text));
    memcpy(path, x.path, sizeof(x.path));
    *r = x.r;
    x.r = NULL;
out:
    kl_dmrgcli_release();
    kl_state_destroy(&state);
    kl_result_destroy(&x.r);
    return st;
}

kl_status kl_dmrgcli_run(kl_options *o, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    run x = {.o = o, .started = kl_clock()};
    runner all = {.o = o};
    const kl_series_method series = {&all, open_one, run_one};
    if (o->model == NULL && o->resume == NULL && !o->molecule && kl_dmrgrun_starts_from_file(o)) {
        const kl_status told = kl_runfile_adopt_system(o, err);
        if (told != KL_OK) return told;
    }
    if (kl_series_is(o)) return kl_series_run(o, &series, stopped, err);
    x.watch = (kl_watch){.self = &x, .note = on_note, .bond = on_bond, .sweep = on_sweep};
    kl_state *state = NULL;
    kl_result *done = NULL;
    if (o->infinite) {
        KL_TRY(kl_options_check(o, err));
        return kl_planrun_growth(o, err);
    }
    if (o->resume != NULL) KL_TRY(take_over(&x, o, &done, err));
    KL_TRY(kl_options_check(o, err));
    if (o->sweep_parameter != NULL) KL_TRY(plan_sweep(&x, o->sweep_parameter, NULL, err));
    KL_TRY(kl_dmrgrun_prepare(o, NULL, &x.t, err));
    KL_TRY(check_many(&x, err));
    if (x.t->scanning) {
        all.ready = x.t;
        x.t = NULL;
        KL_TRY(kl_series_run(o, &series, stopped, err));
        goto out;
    }
    KL_TRY(kl_tasknotes(x.t, err));
    begin_progress(&x);
    KL_TRY(kl_dmrgrun_start(x.t, done, &state, err));
    if (x.sweep.text != NULL) KL_TRY(run_values(&x, &state, done, stopped, err));
    else KL_TRY(run_single(&x, &state, done, stopped, err));
out:
    kl_dmrgcli_release();
    kl_free(&x.sweep.text);
    kl_free(&x.sweep.value);
    kl_state_destroy(&state);
    kl_result_destroy(&done);
    kl_result_destroy(&x.r);
    kl_task_destroy(&x.t);
    return st;
}
