/* One run of DMRG from options to a result: see dmrgrun.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/dmrgrun.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/prof.h"
#include "comm/share.h"
#include "config.h"
#include "dmrg/components.h"
#include "dmrg/schedule.h"
#include "run/bartrial.h"
#include "run/edresult.h"
#include "run/outputs.h"
#include "run/runfile.h"
#include "run/placement.h"

int kl_dmrgrun_starts_from_file(const kl_options *o)
{
    if (o->molecule) return o->start != NULL;
    return kl_start_of(o->start, NULL) == KL_START_FILE;
}

int kl_dmrgrun_manifold(const kl_dmrg_result *d)
{
    const double near = fmax(2 * d->error_estimate, 64 * DBL_EPSILON * fabs(d->energy[0]));
    int n = 1;
    while (n < d->nstate && d->energy[n] - d->energy[0] <= near) n++;
    return n;
}

int kl_dmrgrun_energy_converged(const kl_dmrg_result *d)
{
    return d->stop == KL_STOP_CONVERGED && d->wait != KL_WAIT_SPIN && d->wait != KL_WAIT_SECTORS;
}

void kl_dmrgrun_mixed(kl_dmrg_result *d, double before, double wanted)
{
    if (d->stop != KL_STOP_CONVERGED || !(d->error_estimate > before)) return;
    if (!(d->error_estimate <= wanted)) d->wait = KL_WAIT_SPIN;
}

int kl_dmrgrun_converged(const kl_dmrg_result *d)
{
    return kl_dmrgrun_energy_converged(d) && !(d->unresolved > 0);
}

/* ---------------------------------------------------------------- before the run */

kl_request_scene kl_dmrgrun_scene(const kl_task *t, kl_exec *ex)
{
    return (kl_request_scene){t->terms, kl_task_plain(t),       t->lat,         t->params,
                              ex,       t->dmrg.host_bytes > 0, t->dmrg.scratch};
}

kl_status kl_dmrgrun_check_measure(const kl_task *t, kl_err *err)
{
    for (int i = 0; i < t->o->measure.n; i++) {
        const kl_status st = kl_request_check(t->o->measure.text[i], kl_task_named(t), t->lat, err);
        if (st != KL_OK) return st;
    }
    return KL_OK;
}

static kl_status read_done(kl_options *o, kl_result **done, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_option_says("resume", kl_result_read(o->resume, done, err), err));
    if (kl_edresult_is(*done))
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--resume: %.300s is of exact diagonalization: kronlat ed --resume %.300s", o->resume,
                       o->resume));
    if ((*done)->finished)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--resume: the run in %.300s has finished; to go on from its state with other "
                       "settings give --start %.300s",
                       o->resume, o->resume));
    KL_TRY(kl_runfile_adopt(o, *done, err));
out:
    return st;
}

kl_status kl_dmrgrun_prepare(const kl_options *o, const kl_task_given *given, kl_task **t, kl_err *err)
{
    kl_status st = KL_OK;
    *t = NULL;
    KL_TRY(kl_options_check(o, err));
    KL_TRY(kl_outputs_check(o, NULL, err));
    KL_TRY(kl_task_create_given(o, given, t, err));
    KL_TRY(kl_dmrgrun_check_measure(*t, err));
    KL_TRY(kl_task_charges(*t, err));
    KL_TRY(kl_task_settle(*t, err));
out:
    if (st != KL_OK) kl_task_destroy(t);
    return st;
}

kl_status kl_dmrgrun_open(kl_options *o, const kl_task_given *given, kl_task **t, kl_result **done,
                          kl_err *err)
{
    kl_status st = KL_OK;
    *t = NULL;
    *done = NULL;
    if (o->resume != NULL) KL_TRY(read_done(o, done, err));
    KL_TRY(kl_dmrgrun_prepare(o, given, t, err));
out:
    if (st != KL_OK) kl_result_destroy(done);
    return st;
}

kl_status kl_dmrgrun_check_start(kl_task *t, const char *path, const kl_result *from, int *spin, kl_err *err)
{
    kl_status st = KL_OK;
    kl_qn own = kl_qn_zero();
    *spin = 0;
    if (kl_result_has_spin(from) == (kl_model_spin(t->model) >= 0))
        return kl_result_match(path, from, t->model, t->lat, t->params, t->target, KL_MATCH_START, err);
    if (kl_model_spin(t->model) >= 0)
        return kl_fail(err, KL_EINPUT,
                       "%.300s: holds a state without S, which need not be of one total spin; a run with S "
                       "starts from nothing, a path or a result with S",
                       path);
    KL_TRY(kl_task_twin(t, err));
    for (int c = 0; c < from->ncharge && c < KL_MAX_CHARGE; c++) own.v[c] = (int16_t)from->charge[c].value;
    KL_TRY(kl_result_match(path, from, t->twin->model, t->lat, t->params, own, KL_MATCH_START, err));
    *spin = 1;
out:
    return st;
}

/* The state in the file of --start. */
static kl_status read_start(kl_task *t, const char *path, kl_state **state, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result *from = NULL;
    kl_state *narrow = NULL;
    int spin;
    KL_TRY(kl_option_says("start", kl_result_read(path, &from, err), err));
    KL_TRY(kl_dmrgrun_check_start(t, path, from, &spin, err));
    if (spin) {
        KL_TRY(kl_result_read_state(path, t->twin, &narrow, err));
        KL_TRY(kl_components_create(t->ex, narrow, 0, t->terms, &t->target, state, err));
    } else KL_TRY(kl_result_read_state(path, t->terms, state, err));
out:
    kl_state_destroy(&narrow);
    kl_result_destroy(&from);
    return st;
}

kl_status kl_dmrgrun_start(kl_task *t, const kl_result *done, kl_state **state, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_options *const o = t->o;
    const kl_request_scene scene = kl_dmrgrun_scene(t, t->ex);
    KL_TRY(kl_task_aim(t, t->target, err));
    for (int i = 0; i < o->measure.n; i++)
        KL_TRY(kl_request_check_other(&scene, o->measure.text[i], t->target, err));
    if (done != NULL) {
        KL_TRY(kl_result_match(o->resume, done, t->model, t->lat, t->params, t->target, KL_MATCH_RUN, err));
        if (!done->finished && o->nschedule > 0 && done->sweep_done > o->nschedule)
            KL_TRY(kl_fail(err, KL_EINPUT, "--resume: %.300s is past the %d sweeps of the schedule",
                           o->resume, o->nschedule));
        KL_TRY(kl_result_read_state(o->resume, t->terms, state, err));
        if ((*state)->nstate < t->dmrg.nstate)
            KL_TRY(kl_fail(err, KL_EINPUT, "--resume: %.300s holds %d states, --states asks for %d",
                           o->resume, (*state)->nstate, t->dmrg.nstate));
    } else if (kl_dmrgrun_starts_from_file(o)) {
        KL_TRY(read_start(t, o->start, state, err));
    }
out:
    return st;
}

/* ---------------------------------------------------------------- the run */

static int asked_to_stop(void *self)
{
    return kl_ranks_any(((const kl_dmrgrun *)self)->t->ex, kl_interrupted());
}

/* Waits for the checkpoint that a thread writes, if there is one. */
static void end_keeping(kl_dmrgrun *x)
{
    kl_err why;
    if (x->keeping == NULL) return;
    const kl_status st = kl_result_wait(&x->keeping, &why);
    kl_pace_done(&x->pace, kl_prof_seconds(), st, &why); /* the run has not waited for it */
}

/* Sweep ends come thick in small runs: those within a second of the last file are left out, and lose no more
   than that second. One that a thread is late for is made up for when it is done. */
static int wants_checkpoint(kl_dmrgrun *x, int at_end)
{
    if (x->keeping != NULL && kl_result_is_written(x->keeping)) end_keeping(x);
    if (at_end) x->owed = kl_prof_seconds() - x->pace.last >= fmin(1.0, x->pace.every);
    return x->keeping == NULL && (x->owed || (!at_end && kl_pace_due(&x->pace)));
}

static int checkpoint_due(void *self, int at_end)
{
    kl_dmrgrun *const x = self;
    kl_exec *const ex = x->t->ex;
    return kl_ranks_any(ex, kl_ranks_first(ex) && wants_checkpoint(x, at_end)); /* by one clock */
}

static void on_step(void *self, const kl_dmrg_step *step)
{
    const kl_watch *const w = ((const kl_dmrgrun *)self)->watch;
    if (w != NULL && w->bond != NULL) w->bond(w->self, step);
}

/* Who waits may not know of the total spin. */
static void tell_of_spin(kl_dmrgrun *x)
{
    const double soon = 20; /* seconds: such runs end before they could be begun again */
    char take[160], text[400];
    if (x->advised || kl_prof_seconds() - x->began < soon) return;
    x->advised = 1;
    if (x->done != NULL || !kl_task_spin_instead(x->t, take, sizeof take)) return;
    const kl_model *const m = x->t->model;
    const char *const these = m->ncharge > 1 ? "these charges" : m->charge[0].name;
    snprintf(text, sizeof text, "this H keeps the total spin: %s%s%s finds the lowest state of that spin, %s",
             take, x->t->molecule != NULL ? "" : " in place of ", x->t->molecule != NULL ? "" : these,
             x->t->ex->space == KL_SPACE_DEVICE ? "faster" : "some four to nine times faster");
    kl_watch_note(x->watch, text);
}

static void on_sweep(void *self, const kl_dmrg_row *row, int nrow)
{
    kl_dmrgrun *const x = self;
    const kl_watch *const w = x->watch;
    if (w != NULL && w->sweep != NULL) w->sweep(w->self, row, nrow);
    tell_of_spin(x);
}

static void on_given_up(void *self)
{
    const kl_dmrgrun *const x = self;
    if (x->t->o->start != NULL)
        kl_watch_note(x->watch,
                      "the first sweep from --start ended above a product of site states: sweeps begin "
                      "again with the lowest product found, not with what was given");
}

static void on_left_device(void *self, const char *why)
{
    const kl_dmrgrun *const x = self;
    char text[sizeof(kl_err) + 160];
    snprintf(text, sizeof text, "%.400s; the host goes on from there", why);
    kl_watch_note(x->watch, text);
}

static kl_exec *executor_of(const kl_task *t)
{
    return t->placement ? kl_placement_last(t->placement) : t->ex;
}

/* A device's sweeps are short beside the file that their state takes, and the host has memory for a second
   state then: they go on while a thread writes. */
static kl_status on_checkpoint(void *self, kl_state **state, const kl_dmrg_row *row, int nrow, int direction,
                               kl_err *err)
{
    kl_dmrgrun *const x = self;
    (void)err;
    const double start = kl_prof_seconds();
    if (!kl_ranks_first(x->t->ex)) return KL_OK;
    x->r->sweep_done = nrow - (direction != 0);
    x->r->dmrg.direction = direction;
    x->owed = 0;
    kl_err why;
    kl_status st = kl_result_set_rows(x->r, nrow, row, x->t->dmrg.nstate, &why);
    if (st == KL_OK && executor_of(x->t)->space == KL_SPACE_DEVICE)
        st = kl_result_checkpoint(x->path, x->r, state, &x->keeping, &why);
    else if (st == KL_OK) st = kl_result_write(x->path, x->r, *state, &why);
    if (x->keeping == NULL) kl_pace_done(&x->pace, start, st, &why);
    return KL_OK;
}

/* What is asked for, and after a run what is told in any case. */
static kl_status measure_by(const kl_task *t, kl_exec *ex, const kl_state *state, int nmanifold,
                            int after_run, kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_options *const o = t->o;
    const char **text = NULL, *standard[KL_REQUEST_STANDARD];
    const int nstandard = after_run ? kl_request_standard(kl_task_named(t), standard) : 0;
    int n = 0;
    KL_TRY(kl_alloc(&text, o->measure.n + nstandard, KL_MEM_MISC, err));
    for (; n < o->measure.n; n++) text[n] = o->measure.text[n];
    for (int i = 0; i < nstandard; i++) {
        int asked = 0;
        for (int k = 0; k < o->measure.n; k++) asked |= !strcmp(o->measure.text[k], standard[i]);
        if (!asked) text[n++] = standard[i];
    }
    const kl_request_scene scene = kl_dmrgrun_scene(t, ex);
    KL_TRY(kl_request_run(&scene, n, text, state, nmanifold, r, err));
out:
    kl_free(&text);
    return st;
}

kl_status kl_dmrgrun_measure(const kl_task *t, const kl_state *state, int after_run, kl_result *r,
                             kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = executor_of(t);
    kl_exec *host = NULL;
    KL_TRY(measure_by(t, ex, state, kl_dmrgrun_manifold(&r->dmrg), after_run, r, err));
    if (!after_run || t->molecule == NULL) goto out;
    const kl_schedule s = {.opts = &t->dmrg, .unit = kl_terms_units(t->terms), .nsite = t->terms->nsite};
    const kl_terms *const plain = kl_task_plain(t);
    const double before = r->dmrg.error_estimate;
    st = kl_moleculetask_measure(t->molecule, ex, t->lat, plain, state, t->o->two_body, r, err);
    if (st == KL_ENOMEM && ex->space == KL_SPACE_DEVICE && !ex->ranks) {
        KL_TRY(kl_exec_open_host(ex->nthread, &host, err)); /* which has the memory */
        st = kl_moleculetask_measure(t->molecule, host, t->lat, plain, state, t->o->two_body, r, err);
    }
    kl_dmrgrun_mixed(&r->dmrg, before, kl_schedule_wanted(&s, r->dmrg.energy[0]));
out:
    kl_exec_close(&host);
    return st;
}

/* Entropies of an unfinished sweep go with its checkpoints. Version 0.1.0 kept none: then they are made from
   the state at the end. */
static kl_status keep_entropies(kl_dmrgrun *x, int keeps, kl_err *err)
{
    kl_dmrg_opts *const d = &x->t->dmrg;
    const double *const before = x->done != NULL ? x->done->dmrg.entropy : NULL;
    const int64_t n = x->t->lat->nsite - 1;
    d->entropy = NULL;
    if (!keeps || (d->direction != 0 && before == NULL)) return KL_OK;
    const kl_status st = kl_alloc(&x->r->dmrg.entropy, n, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    if (before != NULL) memcpy(x->r->dmrg.entropy, before, sizeof(double) * (size_t)n);
    d->entropy = x->r->dmrg.entropy;
    return KL_OK;
}

/* All ranks tell what their parts took: ORDER KL_PART, then ORDER KL_PROF, then the whole. */
static kl_status tell_seconds(const kl_exec *ex, const kl_dmrg_result *r, kl_err *err)
{
    double mine[KL_NPART + KL_NPROF + 1];
    if (!ex->ranks) return KL_OK;
    memcpy(mine, r->seconds_part, sizeof r->seconds_part);
    memcpy(mine + KL_NPART, r->inside.seconds, sizeof r->inside.seconds);
    mine[KL_NPART + KL_NPROF] = r->seconds;
    return kl_comm_tell_seconds(ex->ranks->comm, KL_NPART + KL_NPROF + 1, mine, err);
}

/* A large state goes to the disk while it is measured. */
static void begin_file(kl_dmrgrun *x, const kl_state *state)
{
    kl_err ignored; /* then all is written at the end */
    const int keeps = x->path != NULL && x->path[0] != '\0';
    if (!keeps || !kl_ranks_first(x->t->ex) || !kl_result_worth_thread(state)) return;
    if (kl_result_begin(x->path, x->r, state, &x->keeping, &x->writing, &ignored) != KL_OK) x->writing = NULL;
}

/* What a run tells in any case: more ranks are not worth their messages for that, as it goes from site to
   site. */
static void on_meanwhile(void *self, const kl_state *state)
{
    kl_dmrgrun *const x = self;
    begin_file(x, state);
    x->unmeasured = measure_by(x->t, kl_share_alone(executor_of(x->t)), state, 1, 1, x->r, &x->why);
    x->measured = 1;
}

/* All ranks know what became of it on the first. */
static void tell_measured(kl_dmrgrun *x)
{
    kl_comm *const c = x->t->ex->ranks ? x->t->ex->ranks->comm : NULL;
    if (c == NULL) return;
    kl_comm_broadcast(c, 0, &x->measured, sizeof x->measured);
    if (!x->measured) return;
    kl_comm_broadcast(c, 0, &x->unmeasured, sizeof x->unmeasured);
    kl_comm_broadcast(c, 0, &x->why, sizeof x->why);
}

kl_status kl_dmrgrun_go(kl_dmrgrun *x, kl_state **state, kl_err *err)
{
    kl_status st = KL_OK;
    char *text = NULL;
    kl_dmrg_result found = {0};
    kl_task *const t = x->t;
    const int keeps = x->path != NULL && x->path[0] != '\0';
    const kl_dmrg_monitor monitor = {.self = x,
                                     .step = on_step,
                                     .sweep = on_sweep,
                                     .given_up = on_given_up,
                                     .left_device = on_left_device,
                                     .interrupted = asked_to_stop,
                                     .checkpoint = keeps ? on_checkpoint : NULL,
                                     .due = keeps ? checkpoint_due : NULL,
                                     .meanwhile =
                                         t->molecule == NULL && t->o->measure.n == 0 ? on_meanwhile : NULL};
    x->unmeasured = KL_OK;
    x->measured = 0;
    kl_result_destroy(&x->r);
    KL_TRY(kl_runfile_options(t->o, t, x->at, &text, err));
    const kl_result_origin origin = {KL_VERSION, t->o->command_line, text};
    KL_TRY(kl_result_create(t->model, t->lat, t->params, t->dmrg.target, t->dmrg.seed, &origin, &x->r, err));
    t->dmrg.ndone = x->done != NULL ? x->done->sweep_done : 0;
    t->dmrg.direction = x->done != NULL ? x->done->dmrg.direction : 0;
    t->dmrg.done = x->done != NULL ? x->done->dmrg.row : NULL;
    KL_TRY(keep_entropies(x, keeps, err));
    x->pace = kl_pace_begin(t->o->checkpoint_every, x->watch);
    x->began = kl_prof_seconds();
    KL_TRY(kl_dmrg_run(t->terms, t->ex, &t->dmrg, &monitor, state, &found, err));
    KL_TRY(tell_seconds(t->ex, &found, err));
    t->dmrg.entropy = NULL;
    KL_TRY(kl_bartrial(x, &monitor, &found, err));
    KL_TRY(kl_result_set_dmrg(x->r, &found, err));
    if (t->molecule != NULL) KL_TRY(kl_moleculetask_tell(t->molecule, x->r, err));
    x->r->finished = found.stop != KL_STOP_INTERRUPTED;
    /* the row of a broken sweep stands in the table */
    x->r->sweep_done = found.nrow - (found.direction != 0);
    if (!x->r->finished) goto out;
    tell_measured(x);
    if (x->measured) goto out;
    begin_file(x, *state);
    x->unmeasured = kl_dmrgrun_measure(t, *state, 1, x->r, &x->why);
out:
    end_keeping(x);
    if (st != KL_OK || !x->r->finished) kl_result_drop(&x->writing);
    kl_dmrg_result_clear(&found);
    kl_free(&text);
    return st;
}
