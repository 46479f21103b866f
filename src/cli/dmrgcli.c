/* `kronlat dmrg': names of result files, progress and reports of runs that run/dmrgrun.h makes; scans of
   sectors and of a parameter. Computes nothing itself.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/dmrgcli.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/partial.h"
#include "cli/report.h"
#include "ed/halves.h"
#include "io/sealed.h"
#include "run/dmrgrun.h"
#include "run/outputs.h"
#include "run/runfile.h"
#include "run/venue.h"

/* a name of our own making that nothing may have been written to yet, "" for none */
static char reserved[1024];

void kl_dmrgcli_abandon(void) { kl_runfile_release(reserved); }

static void release_name(void)
{
    kl_runfile_release(reserved);
    reserved[0] = '\0';
}

typedef struct run {
    const kl_options *o;
    kl_task *t;
    kl_dmrgrun go;
    kl_watch watch;
    kl_progress progress;
    char path[1024]; /* result file, "" for none */
    double started;
} run;

static void on_bond(void *self, const kl_dmrg_step *step) { kl_progress_step(&((run *)self)->progress, step); }

static void on_sweep(void *self, const kl_dmrg_row *row, int nrow)
{
    kl_progress_sweep(&((run *)self)->progress, &row[nrow - 1], nrow);
}

static void on_note(void *self, const char *text)
{
    (void)self;
    kl_report_note(text);
}

/* ---------------------------------------------------------------- files */

/* What was reserved before and not used is given back. */
static kl_status reserve_name(run *x, const char *label, kl_err *err)
{
    sigset_t before;
    release_name();
    kl_signals_wait(&before);
    const kl_status st = kl_runfile_reserve(x->t, label, x->path, sizeof(x->path), err);
    if (st == KL_OK) snprintf(reserved, sizeof(reserved), "%s", x->path);
    kl_signals_come(&before);
    return st;
}

/* Where this run's result goes; label tells the runs of a parameter sweep apart: out.h5 -> out.U=0.5.h5. */
static kl_status choose_path(run *x, const char *label, kl_err *err)
{
    const kl_options *o = x->o;
    x->path[0] = '\0';
    if (o->resume != NULL) snprintf(x->path, sizeof(x->path), "%s", o->resume);
    else if (o->output != NULL && strcmp(o->output, "none") == 0) return KL_OK;
    else if (o->output == NULL) {
        const kl_status st = reserve_name(x, label, err);
        return st == KL_OK ? kl_sealed_probe(x->path, err) : st;
    } else snprintf(x->path, sizeof(x->path), "%s", o->output);
    if (label != NULL) {
        char stem[1024];
        snprintf(stem, sizeof(stem), "%s", x->path);
        const size_t length = strlen(stem);
        if (length > 3 && strcmp(stem + length - 3, ".h5") == 0) stem[length - 3] = '\0';
        if (snprintf(x->path, sizeof(x->path), "%s.%s.h5", stem, label) >= (int)sizeof(x->path))
            return kl_fail(err, KL_EINPUT, "--output: the name is too long");
    }
    if (strlen(x->path) > 1000) return kl_fail(err, KL_EINPUT, "--output: the name is too long");
    if (label != NULL) {
        const kl_status st = kl_outputs_check_one(o, x->path, err);
        if (st != KL_OK) return st;
    }
    return kl_sealed_probe(x->path, err);
}

/* ---------------------------------------------------------------- one run */

/* *state in: the start or NULL, out: what was found. done: the finished part of a resumed run, or NULL. */
static kl_status run_once(run *x, kl_state **state, const kl_result *done, const char *swept, double value,
                          kl_err *err)
{
    kl_result_destroy(&x->go.r);
    x->go = (kl_dmrgrun){
        .t = x->t, .watch = &x->watch, .path = x->path, .done = done, .swept = swept, .value = value};
    const kl_status st = kl_dmrgrun_go(&x->go, state, err);
    kl_progress_end(&x->progress);
    return st;
}

static void facts_of(const run *x, kl_run_facts *facts)
{
    *facts = (kl_run_facts){x->t->venue ? kl_venue_name(x->t->venue) : x->t->ex->name, x->t->ex->nthread,
                            x->path[0] != '\0' ? x->path : NULL, kl_clock() - x->started};
}

static void print_result(const run *x)
{
    kl_run_facts facts;
    facts_of(x, &facts);
    if (x->o->json) kl_report_result_json(stdout, x->go.r, &facts);
    else kl_report_result(stdout, x->go.r, &facts);
    fflush(stdout);
}

static void tell_interrupted(const run *x, const char *written)
{
    char text[1400];
    if (written[0] == '\0') snprintf(text, sizeof(text), "interrupted; nothing was kept (--output none)");
    else
        snprintf(text, sizeof(text), "interrupted; go on with: kronlat %s --resume %s",
                 kl_command_name(KL_CMD_DMRG), written);
    kl_report_error(text);
    (void)x;
}

static kl_report_item item_of(const run *x, const char *label)
{
    const kl_dmrg_result *d = &x->go.r->dmrg;
    kl_report_item item = {.nstate = d->nstate,
                           .error_estimate = d->error_estimate,
                           .discarded = d->discarded,
                           .m = d->nrow > 0 ? d->row[d->nrow - 1].m_reached : 0,
                           .stop = d->stop};
    snprintf(item.label, sizeof(item.label), "%s", label);
    snprintf(item.output, sizeof(item.output), "%.500s", x->path);
    memcpy(item.energy, d->energy, sizeof(item.energy));
    return item;
}

static void print_table(const run *x, const char *what, int n, const kl_report_item *item, int mark_lowest)
{
    char title[512];
    snprintf(title, sizeof(title), "%s%s%s%s, %s, %s", x->t->model->name,
             x->t->model->variant[0] != '\0' ? "(" : "", x->t->model->variant,
             x->t->model->variant[0] != '\0' ? ")" : "", x->t->lat->spec, what);
    if (x->o->json) kl_report_table_json(stdout, title, n, item, mark_lowest);
    else kl_report_table(stdout, title, n, item, mark_lowest);
    fflush(stdout);
}

/* All sectors that were asked for; the state of the lowest is written. */
static kl_status run_scan(run *x, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    kl_qn *sector = NULL;
    int64_t n = 0;
    int ndone = 0, lowest = -1;
    kl_report_item *item = NULL;
    kl_state *state = NULL;
    KL_TRY(kl_task_sectors(x->t, &n, &sector, err));
    x->t->scanning = 0; /* each run is of one sector, and so says its file */
    KL_TRY(kl_alloc(&item, n, KL_MEM_MISC, err));
    if (x->o->output == NULL || strcmp(x->o->output, "none") != 0) {
        x->t->dmrg.target = sector[0];
        KL_TRY(choose_path(x, NULL, err));
    }
    char path[sizeof(x->path)];
    memcpy(path, x->path, sizeof(path));
    x->path[0] = '\0'; /* no checkpoints of sectors that may not be the one */
    release_name();
    for (int64_t i = 0; i < n && !kl_interrupted() && x->go.unmeasured == KL_OK; i++) {
        char label[128];
        KL_TRY(kl_task_aim(x->t, sector[i], err));
        if (x->o->states > 1) { /* of a small sector all that there are */
            kl_halves_size size;
            KL_TRY(kl_halves_measure(x->t->terms, sector[i], KL_HALVES_SITES, &size, err));
            x->t->dmrg.nstate = size.dim < (double)x->o->states ? (int)size.dim : (int)x->o->states;
        }
        kl_qn_print(x->t->model, sector[i], label, sizeof(label));
        snprintf(x->progress.prefix, sizeof(x->progress.prefix), "%s (%lld of %lld)  ", label,
                 (long long)i + 1, (long long)n);
        x->progress.have_energy = 0;
        kl_state_destroy(&state);
        KL_TRY(run_once(x, &state, NULL, NULL, 0, err));
        if (!x->go.r->finished) break;
        item[ndone++] = item_of(x, label);
        if (lowest >= 0 && item[ndone - 1].energy[0] >= item[lowest].energy[0]) continue;
        lowest = ndone - 1;
        if (path[0] == '\0') continue;
        if (x->o->output == NULL) KL_TRY(reserve_name(x, NULL, err));
        else memcpy(x->path, path, sizeof(path));
        KL_TRY(kl_result_write(x->path, x->go.r, state, err));
        if (lowest > 0 && x->o->output == NULL)
            for (int k = 0; k < lowest; k++)
                if (item[k].output[0] != '\0') {
                    unlink(item[k].output); /* of this scan's own making, and no longer the lowest */
                    item[k].output[0] = '\0';
                }
        for (int k = 0; k < lowest; k++) item[k].output[0] = '\0';
        snprintf(item[lowest].output, sizeof(item[lowest].output), "%.500s", x->path);
        x->path[0] = '\0';
    }
    print_table(x, "all sectors", ndone, item, 1);
    if (x->go.unmeasured != KL_OK) KL_TRY(kl_fail(err, x->go.unmeasured, "%s", x->go.why.text));
    if (kl_interrupted() && ndone < n) {
        kl_report_error("interrupted; the sectors above are done");
        *stopped = 1;
    }
out:
    kl_state_destroy(&state);
    kl_free(&item);
    kl_free(&sector);
    return st;
}

/* One run for each value, each from the state before. */
static kl_status run_values(run *x, kl_state **state, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    double *value = NULL;
    int n = 0, ndone = 0;
    char name[96], label[128];
    kl_report_item *item = NULL;
    const char *text = x->o->sweep_parameter;
    snprintf(name, sizeof(name), "%.*s", (int)kl_split_name(text), text);
    KL_TRY(kl_options_sweep(text, &n, &value, err));
    KL_TRY(kl_alloc(&item, n, KL_MEM_MISC, err));
    for (int i = 0; i < n && !kl_interrupted() && x->go.unmeasured == KL_OK; i++) {
        snprintf(label, sizeof(label), "%s=%.10g", name, value[i]);
        KL_TRY(kl_task_set(x->t, name, value[i], err));
        KL_TRY(choose_path(x, label, err));
        snprintf(x->progress.prefix, sizeof(x->progress.prefix), "%s  ", label);
        x->progress.have_energy = 0;
        KL_TRY(run_once(x, state, NULL, name, value[i], err));
        if (x->path[0] != '\0') KL_TRY(kl_result_write(x->path, x->go.r, *state, err));
        if (x->go.r->finished) item[ndone++] = item_of(x, label);
    }
    print_table(x, text, ndone, item, 0);
    if (x->go.unmeasured != KL_OK) KL_TRY(kl_fail(err, x->go.unmeasured, "%s", x->go.why.text));
    if (kl_interrupted() && ndone < n) {
        if (x->go.r != NULL && !x->go.r->finished) tell_interrupted(x, x->path);
        else kl_report_error("interrupted; the values above are done");
        *stopped = 1;
    }
out:
    kl_free(&item);
    kl_free(&value);
    return st;
}

static kl_status run_single(run *x, kl_state **state, const kl_result *done, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(choose_path(x, NULL, err));
    KL_TRY(run_once(x, state, done, NULL, 0, err));
    kl_err why;
    const kl_status written = x->path[0] != '\0' ? kl_result_write(x->path, x->go.r, *state, &why) : KL_OK;
    char path[sizeof(x->path)];
    memcpy(path, x->path, sizeof(path));
    if (written != KL_OK) x->path[0] = '\0';
    print_result(x); /* before a full disk ends it: the energy is there */
    if (written != KL_OK) KL_TRY(kl_fail(err, written, "%s", why.text));
    if (x->go.unmeasured != KL_OK) KL_TRY(kl_fail(err, x->go.unmeasured, "%s", x->go.why.text));
    if (!x->go.r->finished) {
        tell_interrupted(x, path);
        *stopped = 1;
    }
out:
    return st;
}

kl_status kl_dmrgcli_run(kl_options *o, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    run x = {.o = o, .started = kl_clock()};
    kl_state *state = NULL;
    kl_result *done = NULL;
    x.watch = (kl_watch){.self = &x, .note = on_note, .bond = on_bond, .sweep = on_sweep};
    KL_TRY(kl_dmrgrun_open(o, NULL, &x.t, &done, err));
    if ((x.t->scanning || o->sweep_parameter != NULL) && o->measure.n > 0 && o->output != NULL &&
        strcmp(o->output, "none") == 0)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--measure: a table of many runs tells energies alone, and with --output none nothing "
                       "would be left of what is measured; give --output FILE"));
    kl_progress_begin(&x.progress, o->verbose, o->nschedule);
    if (x.t->scanning) {
        if (o->resume != NULL || kl_dmrgrun_starts_from_file(o))
            KL_TRY(kl_fail(
                err, KL_EINPUT,
                "--charge scan starts every sector afresh; it takes no --resume and no --start FILE"));
        KL_TRY(run_scan(&x, stopped, err));
        goto out;
    }
    KL_TRY(kl_dmrgrun_start(x.t, done, &state, err));
    if (o->sweep_parameter != NULL) KL_TRY(run_values(&x, &state, stopped, err));
    else KL_TRY(run_single(&x, &state, done, stopped, err));
out:
    release_name();
    kl_state_destroy(&state);
    kl_result_destroy(&done);
    kl_result_destroy(&x.go.r);
    kl_task_destroy(&x.t);
    return st;
}
