/* The commands of kronlat. Ties options, tasks, DMRG, result files and reports together; computes and prints
   nothing itself. Exit status: 0 when a run ended, converged or not (the report says which); 2 for bad input,
   no memory or no disk, with one line on stderr; 130 when interrupted. A checkpoint that cannot be written is
   told once and does not end a run; a final result that cannot be does, after the report was printed.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/bench.h"
#include "cli/cicli.h"
#include "cli/commandline.h"
#include "cli/completion.h"
#include "io/cifile.h"
#include "config.h"
#include "cli/edreport.h"
#include "cli/edrun.h"
#include "cli/explain.h"
#include "cli/inventory.h"
#include "base/isa.h"
#include "cli/job.h"
#include "cli/manpage.h"
#include "cli/lastwords.h"
#include "base/mem.h"
#include "cli/outputs.h"
#include "cli/pace.h"
#include "base/partial.h"
#include "cli/plot.h"
#include "cli/report.h"
#include "cli/request.h"
#include "cli/runfile.h"
#include "io/sealed.h"
#include "cli/task.h"
#include "cli/venue.h"

enum { STATUS_OK = 0, STATUS_BAD = 2, STATUS_INTERRUPTED = 130 };

static volatile sig_atomic_t interrupts;
/* a name of our own making that nothing may have been written to yet, "" for none */
static char reserved[1024];

static void release_name(void)
{
    kl_runfile_release(reserved);
    reserved[0] = '\0';
}

static pthread_t writer; /* the thread that makes files */

/* The first signal asks the run to stop at the next bond; another one ends the program there and then. */
static void on_signal(int number)
{
    if (!pthread_equal(pthread_self(), writer)) { /* while it is here no new file appears */
        pthread_kill(writer, number);
        return;
    }
    if (++interrupts > 1) {
        kl_runfile_release(reserved);
        kl_partial_abandon();
        signal(number, SIG_DFL);
        raise(number);
    }
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    writer = pthread_self();
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGXFSZ, &action, NULL); /* a file size limit is an error of write, told like a full disk */
}

/* Matrices of truncation and lists come and go by the hundred each bond. Kept by the allocator they need no
   new pages each time, a twentieth of a run; vectors go back to the system. */
static void keep_memory(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 256 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 16 << 20);
#endif
}

static int was_interrupted(void *none)
{
    (void)none;
    return interrupts > 0;
}

/* ---------------------------------------------------------------- one run of DMRG */

typedef struct run {
    const kl_options *o;
    kl_task *t;
    kl_result *r;
    kl_progress progress;
    char path[1024];          /* result file, "" for none */
    kl_pace pace;             /* of its checkpoints */
    kl_status unmeasured;     /* KL_OK, or why what --measure asks for is missing: the run itself is kept */
    kl_err why;
    double started;
} run;

static int checkpoint_due(void *self)
{
    const run *x = self;
    return kl_pace_due(&x->pace);
}

static void on_step(void *self, const kl_dmrg_step *s)
{
    run *x = self;
    kl_progress_step(&x->progress, s);
}

static void on_sweep(void *self, const kl_dmrg_row *row, int nrow)
{
    run *x = self;
    kl_progress_sweep(&x->progress, &row[nrow - 1], nrow);
}

/* Sweep ends come thick in small runs: those within a second of the last file are left out, and lose no more
   than that second. */
static kl_status on_checkpoint(void *self, const kl_state *state, const kl_dmrg_row *row, int nrow,
                               int direction, kl_err *err)
{
    run *x = self;
    (void)err;
    const double start = kl_clock();
    if (start - x->pace.last < fmin(1.0, x->pace.every)) return KL_OK;
    x->r->sweep_done = nrow - (direction != 0);
    x->r->dmrg.direction = direction;
    kl_err why;
    kl_status st = kl_result_set_rows(x->r, nrow, row, x->t->dmrg.nstate, &why);
    if (st == KL_OK) st = kl_result_write(x->path, x->r, state, &why);
    kl_pace_done(&x->pace, start, st, &why);
    return KL_OK;
}

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

/* All --measure against model and lattice, before hours are spent. Files to overlap with must be there
   already. */
static kl_status check_measure(const kl_options *o, const kl_task *t, kl_err *err)
{
    for (int i = 0; i < o->measure.n; i++) {
        const kl_status st = kl_request_check(o->measure.text[i], t->model, t->lat, err);
        if (st != KL_OK) return st;
    }
    return KL_OK;
}

/* What --measure asks for, on the state found or read, and behind a run what is told in any case; adds to the
   result. */
static kl_status measure(const kl_options *o, const kl_task *t, const kl_state *state, int after_run,
                         kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    const char **text = NULL, *standard[KL_REQUEST_STANDARD];
    const int nstandard = after_run ? kl_request_standard(t->model, standard) : 0;
    int n = 0;
    KL_TRY(kl_alloc(&text, o->measure.n + nstandard, KL_MEM_MISC, err));
    for (; n < o->measure.n; n++) text[n] = o->measure.text[n];
    for (int i = 0; i < nstandard; i++) {
        int asked = 0;
        for (int k = 0; k < o->measure.n; k++) asked |= !strcmp(o->measure.text[k], standard[i]);
        if (!asked) text[n++] = standard[i];
    }
    const kl_request_scene scene = {t->terms, t->lat, t->params, t->venue ? kl_venue_last(t->venue) : t->ex};
    KL_TRY(kl_request_run(&scene, n, text, state, kl_manifold_size(&r->dmrg), r, err));
out:
    kl_free(&text);
    return st;
}

/* Energies of one run; *state in: the start or NULL, out: what was found. done: the finished part of a
   resumed run, or NULL. */
static kl_status run_once(run *x, kl_state **state, const kl_result *done, const char *swept, double value,
                          kl_err *err)
{
    kl_status st = KL_OK;
    char *text = NULL;
    kl_dmrg_result found = {0};
    kl_task *const t = x->t;
    const kl_dmrg_monitor monitor = {x,
                                     on_step,
                                     on_sweep,
                                     was_interrupted,
                                     x->path[0] != '\0' ? on_checkpoint : NULL,
                                     x->path[0] != '\0' ? checkpoint_due : NULL};
    kl_result_destroy(&x->r);
    KL_TRY(kl_runfile_options(x->o, t, swept, value, &text, err));
    KL_TRY(kl_result_create(t->model, t->lat, t->params, t->dmrg.target, t->dmrg.seed, KL_VERSION,
                            x->o->command_line, text, &x->r, err));
    t->dmrg.ndone = done != NULL ? done->sweep_done : 0;
    t->dmrg.direction = done != NULL ? done->dmrg.direction : 0;
    t->dmrg.done = done != NULL ? done->dmrg.row : NULL;
    x->pace = kl_pace_begin(x->o->checkpoint_every);
    KL_TRY(kl_dmrg_run(t->terms, t->ex, &t->dmrg, &monitor, state, &found, err));
    KL_TRY(kl_result_set_dmrg(x->r, &found, err));
    x->r->finished = found.stop != KL_STOP_INTERRUPTED;
    /* the row of a broken sweep stands in the table */
    x->r->sweep_done = found.nrow - (found.direction != 0);
    if (x->r->finished) x->unmeasured = measure(x->o, t, *state, 1, x->r, &x->why);
out:
    kl_progress_end(&x->progress);
    kl_dmrg_result_clear(&found);
    kl_free(&text);
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
    if (x->o->json) kl_report_result_json(stdout, x->r, &facts);
    else kl_report_result(stdout, x->r, &facts);
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
    const kl_dmrg_result *d = &x->r->dmrg;
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
static kl_status run_scan(run *x, int *status, kl_err *err)
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
    for (int64_t i = 0; i < n && interrupts == 0 && x->unmeasured == KL_OK; i++) {
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
        if (!x->r->finished) break;
        item[ndone++] = item_of(x, label);
        if (lowest >= 0 && item[ndone - 1].energy[0] >= item[lowest].energy[0]) continue;
        lowest = ndone - 1;
        if (path[0] == '\0') continue;
        if (x->o->output == NULL) KL_TRY(reserve_name(x, NULL, err));
        else memcpy(x->path, path, sizeof(path));
        KL_TRY(kl_result_write(x->path, x->r, state, err));
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
    if (x->unmeasured != KL_OK) KL_TRY(kl_fail(err, x->unmeasured, "%s", x->why.text));
    if (interrupts > 0 && ndone < n) {
        kl_report_error("interrupted; the sectors above are done");
        *status = STATUS_INTERRUPTED;
    }
out:
    kl_state_destroy(&state);
    kl_free(&item);
    kl_free(&sector);
    return st;
}

/* One run for each value, each from the state before. */
static kl_status run_values(run *x, kl_state **state, int *status, kl_err *err)
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
    for (int i = 0; i < n && interrupts == 0 && x->unmeasured == KL_OK; i++) {
        snprintf(label, sizeof(label), "%s=%.10g", name, value[i]);
        KL_TRY(kl_task_set(x->t, name, value[i], err));
        KL_TRY(choose_path(x, label, err));
        snprintf(x->progress.prefix, sizeof(x->progress.prefix), "%s  ", label);
        x->progress.have_energy = 0;
        KL_TRY(run_once(x, state, NULL, name, value[i], err));
        if (x->path[0] != '\0') KL_TRY(kl_result_write(x->path, x->r, *state, err));
        if (x->r->finished) item[ndone++] = item_of(x, label);
    }
    print_table(x, text, ndone, item, 0);
    if (x->unmeasured != KL_OK) KL_TRY(kl_fail(err, x->unmeasured, "%s", x->why.text));
    if (interrupts > 0 && ndone < n) {
        if (x->r != NULL && !x->r->finished) tell_interrupted(x, x->path);
        else kl_report_error("interrupted; the values above are done");
        *status = STATUS_INTERRUPTED;
    }
out:
    kl_free(&item);
    kl_free(&value);
    return st;
}

static kl_status run_single(run *x, kl_state **state, const kl_result *done, int *status, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(choose_path(x, NULL, err));
    KL_TRY(run_once(x, state, done, NULL, 0, err));
    kl_err why;
    const kl_status written = x->path[0] != '\0' ? kl_result_write(x->path, x->r, *state, &why) : KL_OK;
    char path[sizeof(x->path)];
    memcpy(path, x->path, sizeof(path));
    if (written != KL_OK) x->path[0] = '\0';
    print_result(x); /* before a full disk ends it: the energy is there */
    if (written != KL_OK) KL_TRY(kl_fail(err, written, "%s", why.text));
    if (x->unmeasured != KL_OK) KL_TRY(kl_fail(err, x->unmeasured, "%s", x->why.text));
    if (!x->r->finished) {
        tell_interrupted(x, path);
        *status = STATUS_INTERRUPTED;
    }
out:
    return st;
}

static int is_result_file(const char *start)
{
    return start != NULL && strcmp(start, "neel") != 0 && strncmp(start, "product:", 8) != 0;
}

static kl_status command_growth(const kl_options *o, kl_err *err);

static kl_status command_dmrg(kl_options *o, int *status, kl_err *err)
{
    kl_status st = KL_OK;
    run x = {.o = o, .started = kl_clock()};
    kl_state *state = NULL;
    kl_result *done = NULL;
    if (o->infinite) {
        KL_TRY(kl_options_check(o, err));
        return command_growth(o, err);
    }
    if (o->resume != NULL) {
        KL_TRY(kl_result_read(o->resume, &done, err));
        if (kl_edreport_is(done))
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "--resume: %.300s is of exact diagonalization: kronlat ed --resume %.300s",
                           o->resume, o->resume));
        if (done->finished)
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "--resume: the run in %.300s has finished; to go on from its state with other "
                           "settings give --start %.300s",
                           o->resume, o->resume));
        KL_TRY(kl_runfile_adopt(o, done, err));
    }
    KL_TRY(kl_options_check(o, err));
    KL_TRY(kl_outputs_check(o, NULL, err));
    KL_TRY(kl_task_create(o, 0, &x.t, err));
    KL_TRY(check_measure(o, x.t, err));
    KL_TRY(kl_task_charges(x.t, err));
    KL_TRY(kl_task_settle(x.t, err));
    if ((x.t->scanning || o->sweep_parameter != NULL) && o->measure.n > 0 && o->output != NULL &&
        strcmp(o->output, "none") == 0)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--measure: a table of many runs tells energies alone, and with --output none nothing "
                       "would be left of what is measured; give --output FILE"));
    kl_progress_begin(&x.progress, o->verbose, o->nschedule);
    if (x.t->scanning) {
        if (o->resume != NULL || is_result_file(o->start))
            KL_TRY(kl_fail(
                err, KL_EINPUT,
                "--charge scan starts every sector afresh; it takes no --resume and no --start FILE"));
        KL_TRY(run_scan(&x, status, err));
        goto out;
    }
    KL_TRY(kl_task_aim(x.t, x.t->target, err));
    for (int i = 0; i < o->measure.n; i++)
        KL_TRY(kl_request_check_other(&(kl_request_scene){x.t->terms, x.t->lat, x.t->params, x.t->ex},
                                      o->measure.text[i], x.t->target, err));
    if (done != NULL) {
        KL_TRY(kl_result_match(o->resume, done, x.t->model, x.t->lat, x.t->params, x.t->target, 1, err));
        if (o->nschedule > 0 && done->sweep_done >= o->nschedule)
            KL_TRY(kl_fail(err, KL_EINPUT, "--resume: %.300s is past the %d sweeps of the schedule",
                           o->resume, o->nschedule));
        KL_TRY(kl_result_read_state(o->resume, x.t->terms, &state, err));
        if (state->nstate < x.t->dmrg.nstate)
            KL_TRY(kl_fail(err, KL_EINPUT, "--resume: %.300s holds %d states, --states asks for %d",
                           o->resume, state->nstate, x.t->dmrg.nstate));
    } else if (is_result_file(o->start)) {
        KL_TRY(kl_result_read(o->start, &done, err));
        KL_TRY(kl_result_match(o->start, done, x.t->model, x.t->lat, x.t->params, x.t->target, 0, err));
        KL_TRY(kl_result_read_state(o->start, x.t->terms, &state, err));
        kl_result_destroy(&done);
    }
    if (o->sweep_parameter != NULL) KL_TRY(run_values(&x, &state, status, err));
    else KL_TRY(run_single(&x, &state, done, status, err));
out:
    release_name();
    kl_state_destroy(&state);
    kl_result_destroy(&done);
    kl_result_destroy(&x.r);
    kl_task_destroy(&x.t);
    return st;
}

/* ---------------------------------------------------------------- plan and growth */

static kl_status command_plan(const kl_options *o, kl_err *err)
{
    static const int ladder[] = {64, 128, 256, 512, 1024};
    enum { NLADDER = sizeof(ladder) / sizeof(ladder[0]) };
    kl_status st = KL_OK;
    kl_task *t = NULL;
    kl_dmrg_plan plan[NLADDER];
    char charges[256], lattice[256];
    int n = 0;
    memset(plan, 0, sizeof(plan));
    KL_TRY(kl_options_check(o, err));
    if (o->method != NULL && strcmp(o->method, "ed") == 0) return kl_edrun_plan(o, err);
    KL_TRY(kl_task_create(o, (int)o->sites, &t, err));
    KL_TRY(kl_task_charges(t, err));
    KL_TRY(kl_task_one_sector(t, "a plan is for", err));
    KL_TRY(kl_task_aim(t, t->target, err));
    KL_TRY(kl_task_exec(o, &t->ex, err));
    const int widest = kl_options_widest(o);
    for (int i = 0; i < (widest > 0 ? 1 : NLADDER); i++) {
        KL_TRY(kl_dmrg_make_plan(t->terms, t->ex, &t->dmrg, widest > 0 ? widest : ladder[i], &plan[i], err));
        n = i + 1;
    }
    snprintf(lattice, sizeof(lattice), "%.200s, %d sites", t->lat->spec, t->lat->nsite);
    const kl_report_head head = {t->model, lattice,
                                 kl_qn_print(t->model, t->target, charges, sizeof(charges))};
    if (o->json) kl_report_plan_json(stdout, &head, n, plan);
    else kl_report_plan(stdout, &head, n, plan);
out:
    for (int i = 0; i < n; i++) kl_dmrg_plan_clear(&plan[i]);
    kl_task_destroy(&t);
    return st;
}

typedef struct growth {
    const kl_task *whole; /* of the full length */
    kl_qn target;
    int nsite;
} growth;

/* Terms of a chain of nsite sites and the reachable charges nearest to the target's share of it. */
static kl_status growth_terms(void *self, int nsite, kl_terms **out, kl_qn *target, kl_err *err)
{
    const growth *g = self;
    kl_status st = KL_OK;
    kl_task *t = NULL;
    kl_qn *sector = NULL;
    int64_t n = 0;
    const kl_model *const m = g->whole->model;
    KL_TRY(kl_task_chain(g->whole, nsite, &t, err));
    KL_TRY(kl_dmrg_sectors(t->terms, &sector, &n, err));
    double best = INFINITY;
    for (int64_t i = 0; i < n; i++) {
        double far = 0;
        for (int c = 0; c < m->ncharge; c++) {
            const double wanted =
                m->charge[c].modulus > 0 ? g->target.v[c] : (double)g->target.v[c] * nsite / g->nsite;
            far += (sector[i].v[c] - wanted) * (sector[i].v[c] - wanted);
        }
        if (far < best) {
            best = far;
            *target = sector[i];
        }
    }
    *out = t->terms;
    t->terms = NULL;
out:
    kl_free(&sector);
    kl_task_destroy(&t);
    return st;
}

static kl_status command_growth(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *t = NULL;
    kl_growth_row *row = NULL;
    char charges[256], lattice[64];
    if (o->sites < 4 || o->sites % 2 != 0)
        return kl_fail(
            err, KL_EINPUT,
            "--sites: growth adds two sites at a time and needs an even number from 4 on, not %lld",
            (long long)o->sites);
    KL_TRY(kl_options_check(o, err));
    KL_TRY(kl_outputs_check(o, NULL, err));
    KL_TRY(kl_task_create(o, 0, &t, err));
    KL_TRY(kl_task_charges(t, err));
    KL_TRY(kl_task_one_sector(t, "growth is for", err));
    for (int i = 0; i < t->model->nparam; i++) {
        const kl_param_kind kind = t->model->param[i].kind;
        const kl_result_param list = {.n = kind == KL_PARAM_SCALAR ? 0
                                           : kind == KL_PARAM_SITE ? t->params->nsite
                                                                   : t->params->nbond,
                                      .value = t->params->array[i]};
        if (list.n > 0 && !kl_result_param_even(&list))
            KL_TRY(kl_fail(
                err, KL_EINPUT,
                "--parameter %s: growth begins with 4 sites and takes one value for all of them, no list",
                t->model->param[i].name));
    }
    KL_TRY(kl_task_exec(o, &t->ex, err));
    const int n = ((int)o->sites - 2) / 2;
    KL_TRY(kl_alloc(&row, n, KL_MEM_MISC, err));
    growth g = {t, t->target, (int)o->sites};
    const kl_growth_opts opts = {.nsite = (int)o->sites,
                                 .m = o->m > 0 ? (int)o->m : 256,
                                 .strategy = t->dmrg.strategy,
                                 .tol = 1e-8,
                                 .max_basis = o->basis > 0 ? (int)o->basis : 20,
                                 .records = o->save_records,
                                 .seed = t->dmrg.seed,
                                 .self = &g,
                                 .make_terms = growth_terms};
    KL_TRY(kl_dmrg_grow(&opts, t->ex, row, err));
    snprintf(lattice, sizeof(lattice), "chain, grown from 4 to %d sites, m = %d, %s, %d thread%s", opts.nsite,
             opts.m, t->ex->name, t->ex->nthread, t->ex->nthread == 1 ? "" : "s");
    const kl_report_head head = {t->model, lattice,
                                 kl_qn_print(t->model, t->target, charges, sizeof(charges))};
    if (o->json) kl_report_growth_json(stdout, &head, n, row);
    else kl_report_growth(stdout, &head, n, row);
out:
    kl_free(&row);
    kl_task_destroy(&t);
    return st;
}

/* ---------------------------------------------------------------- files */

static kl_status command_show(const kl_options *o, kl_err *err)
{
    kl_result *r = NULL;
    if (kl_cifile_is(o->file)) return kl_cicli_show(o, err);
    const kl_status st = kl_result_read(o->file, &r, err);
    if (st != KL_OK) return st;
    const int ed = kl_edreport_is(r);
    if (o->json) (ed ? kl_edreport_json : kl_report_result_json)(stdout, r, NULL);
    else (ed ? kl_edreport_text : kl_report_result)(stdout, r, NULL);
    kl_result_destroy(&r);
    return KL_OK;
}

/* The system is that of the file's own options. */
static kl_status command_measure(kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result *r = NULL;
    kl_task *t = NULL;
    kl_state *state = NULL;
    const double started = kl_clock();
    int held = -1;
    if (o->measure.n == 0)
        return kl_fail(err, KL_EINPUT,
                       "measure: --measure is missing; `kronlat measure --help' lists what can be measured");
    held = kl_sealed_hold(o->file); /* or what others measure meanwhile would be lost */
    if (interrupts > 0)
        KL_TRY(kl_fail(err, KL_EIO, "%.300s: interrupted while another program had the file", o->file));
    KL_TRY(kl_result_read(o->file, &r, err));
    o->command = KL_CMD_DMRG;
    const kl_text_list asked = o->measure;
    o->measure = (kl_text_list){0}; /* what was asked of the run is in the file */
    st = kl_runfile_adopt(o, r, err);
    for (int i = 0; i < o->measure.n; i++) kl_free(&o->measure.text[i]);
    kl_free(&o->measure.text);
    o->measure = asked;
    if (st != KL_OK) goto out;
    KL_TRY(kl_task_create(o, 0, &t, err));
    KL_TRY(check_measure(o, t, err));
    KL_TRY(kl_task_charges(t, err));
    KL_TRY(kl_result_match(o->file, r, t->model, t->lat, t->params, t->target, 0, err));
    KL_TRY(kl_result_read_state(o->file, t->terms, &state, err));
    KL_TRY(kl_task_exec(o, &t->ex, err));
    KL_TRY(measure(o, t, state, 0, r, err));
    st = kl_result_write(o->file, r, state, err);
    if (held >= 0) close(held);
    held = -1;
    const kl_run_facts facts = {t->ex->name, t->ex->nthread, st == KL_OK ? o->file : NULL,
                                kl_clock() - started};
    if (o->json) kl_report_result_json(stdout, r, &facts);
    else kl_report_result(stdout, r, &facts);
out:
    if (held >= 0) close(held);
    kl_state_destroy(&state);
    kl_task_destroy(&t);
    kl_result_destroy(&r);
    return st;
}

static kl_status command_plot(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result *r = NULL;
    char path[1024];
    if (o->output != NULL) snprintf(path, sizeof(path), "%s", o->output);
    else {
        const size_t length = strlen(o->file);
        const int cut = length > 3 && strcmp(o->file + length - 3, ".h5") == 0 ? 3 : 0;
        snprintf(path, sizeof(path), "%.*s.svg", (int)(length - (size_t)cut), o->file);
    }
    KL_TRY(kl_outputs_check(o, NULL, err));
    KL_TRY(kl_result_read(o->file, &r, err));
    KL_TRY(kl_plot_result(r, path, err));
    printf("%s\n", path);
out:
    kl_result_destroy(&r);
    return st;
}

/* ---------------------------------------------------------------- main */

/* stdout may be a full disk or a closed pipe: what was not written must not look like success. */
static kl_status flush_output(kl_err *err)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return KL_OK;
    return kl_fail(err, KL_EIO, "the report cannot be written to stdout: %s", strerror(errno));
}

static kl_status command_ed(kl_options *o, int *status, kl_err *err)
{
    int stopped = 0;
    const kl_status st = kl_edrun_command(o, &stopped, err);
    if (st == KL_OK && stopped) *status = STATUS_INTERRUPTED;
    return st;
}

static kl_status command_ci(kl_options *o, int *status, kl_err *err)
{
    int stopped = 0;
    const kl_status st = kl_cicli_run(o, &stopped, err);
    if (st == KL_OK && stopped) *status = STATUS_INTERRUPTED;
    return st;
}

static kl_status command_man(const kl_options *o, kl_err *err)
{
    kl_command command;
    const kl_status st = kl_manpage_command(o->file, &command, err);
    if (st == KL_OK) kl_manpage_print(command);
    return st;
}

static int is_bench(kl_command command)
{
    return command == KL_CMD_BENCH || command == KL_CMD_TUNE ||
           (command >= KL_CMD_BENCH_GEMM && command <= KL_CMD_BENCH_CUDA);
}

static kl_status dispatch(kl_options *o, int *status, kl_err *err)
{
    kl_status st = KL_OK;
    if (o->command == KL_CMD_VERSION || o->version) {
        printf("kronlat %s\n", KL_VERSION);
        return KL_OK;
    }
    if (o->command == KL_CMD_HELP || o->help) {
        kl_commandline_help(o->command);
        return KL_OK;
    }
    if (o->command == KL_CMD_RUN) {
        char *job = o->file; /* a job of ci names a file of its own */
        o->file = NULL;
        st = kl_job_load(job, o, err);
        if (st == KL_OK) st = kl_outputs_check(o, job, err);
        kl_free(&job);
    }
    if (st != KL_OK) return st;
    switch (o->command) {
    case KL_CMD_DMRG: return command_dmrg(o, status, err);
    case KL_CMD_ED: return command_ed(o, status, err);
    case KL_CMD_CI: return command_ci(o, status, err);
    case KL_CMD_PLAN: return command_plan(o, err);
    case KL_CMD_EXPLAIN: return kl_explain_command(o, err);
    case KL_CMD_GROWTH: return command_growth(o, err);
    case KL_CMD_MODELS: return kl_inventory_models(o, err);
    case KL_CMD_DEVICES: return kl_inventory_devices(o, err);
    case KL_CMD_MEASURE: return command_measure(o, err);
    case KL_CMD_SHOW: return command_show(o, err);
    case KL_CMD_PLOT: return command_plot(o, err);
    case KL_CMD_COMPLETION: return kl_completion_script(o->file, err);
    case KL_CMD_MAN: return command_man(o, err);
    default:
        if (is_bench(o->command)) return kl_bench_run(o, err);
        return kl_fail(err, KL_EABSENT, "%s is not built into this program", kl_command_name(o->command));
    }
}

int main(int argc, char **argv)
{
    kl_err err = {{0}};
    kl_options *o = NULL;
    int status = STATUS_OK;
    char help[] = "--help", *words[] = {argv[0], argc > 2 ? argv[2] : NULL, help, NULL};
    keep_memory();
    (void)kl_isa_flush_denormals();
    kl_lastwords_prepare(STATUS_BAD);
    /* `help COMMAND' is `COMMAND --help' */
    if (argc > 2 && strcmp(argv[1], "help") == 0) argc = 3, argv = words;
    kl_status st = kl_isa_check(&err);
    if (st != KL_OK) {
        kl_report_error(err.text);
        return STATUS_BAD;
    }
    (void)kl_on_interrupt((kl_interrupt){was_interrupted, NULL});
    if (argc > 2 && strcmp(argv[1], "completion") == 0 && strcmp(argv[2], "--words") == 0) {
        kl_completion_words(argc - 3, argv + 3); /* asked by the scripts, at every press of the key */
        return STATUS_OK;
    }
    st = kl_commandline_parse(argc - 1, argv + 1, &o, &err);
    if (st == KL_OK && !is_bench(o->command)) catch_signals(); /* a benchmark has nothing to save */
    if (st == KL_OK) st = dispatch(o, &status, &err);
    if (st == KL_OK) st = flush_output(&err);
    if (st != KL_OK) {
        fflush(stdout);
        kl_report_error(err.text);
        status = interrupts > 0 ? STATUS_INTERRUPTED : STATUS_BAD;
    }
    kl_options_destroy(&o);
    return status;
}
