/* Runs of a problem: see kronlat.h. What they compute is made in src/run.
   SPDX-License-Identifier: Apache-2.0 */
#include "lib/handles.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "dmrg/components.h"
#include "io/checked.h"
#include "run/cirun.h"
#include "run/dmrgrun.h"
#include "run/edrun.h"
#include "run/runfile.h"

/* ---------------------------------------------------------------- who is told */

kronlat_stage kronlat_progress_stage(const kronlat_progress *progress) { return progress->stage; }
int64_t kronlat_progress_done(const kronlat_progress *progress) { return progress->done; }
int64_t kronlat_progress_of(const kronlat_progress *progress) { return progress->of; }
int kronlat_progress_sweep(const kronlat_progress *progress) { return progress->sweep; }
int kronlat_progress_states(const kronlat_progress *progress) { return progress->states; }
double kronlat_progress_energy(const kronlat_progress *progress) { return progress->energy; }
double kronlat_progress_residual(const kronlat_progress *progress) { return progress->residual; }

static void tell(void *problem, kronlat_progress what)
{
    const kronlat_problem *const p = problem;
    if (p->told != NULL) p->told(p->told_self, &what);
}

static void on_bond(void *self, const kl_dmrg_step *s)
{
    tell(self, (kronlat_progress){.stage = KRONLAT_STAGE_BOND,
                                  .done = s->istep,
                                  .of = s->nstep,
                                  .sweep = s->sweep + 1,
                                  .states = s->m,
                                  .energy = s->energy,
                                  .residual = s->residual});
}

static void on_sweep(void *self, const kl_dmrg_row *row, int nrow)
{
    const kl_dmrg_row *const last = &row[nrow - 1];
    tell(self, (kronlat_progress){.stage = KRONLAT_STAGE_SWEEP,
                                  .done = nrow,
                                  .sweep = nrow,
                                  .states = last->m_reached,
                                  .energy = last->energy[0],
                                  .residual = last->change});
}

static void on_product(void *self, int nproduct, double energy, double residual)
{
    tell(self, (kronlat_progress){
                   .stage = KRONLAT_STAGE_PRODUCT, .done = nproduct, .energy = energy, .residual = residual});
}

static void on_level(void *self, int level, double change)
{
    tell(self,
         (kronlat_progress){.stage = KRONLAT_STAGE_LEVEL, .done = level, .energy = NAN, .residual = change});
}

static void on_sample(void *self, const char *charges, int sample, int step)
{
    (void)charges;
    (void)sample;
    tell(self,
         (kronlat_progress){.stage = KRONLAT_STAGE_SAMPLE, .done = step, .energy = NAN, .residual = NAN});
}

static void on_block(void *self, int irrep, const kl_ci_block *block, int done)
{
    tell(self, (kronlat_progress){.stage = KRONLAT_STAGE_BLOCK,
                                  .done = irrep + 1,
                                  .energy = NAN,
                                  .residual = done ? block->residual : NAN});
}

static void on_block_product(void *self, int irrep, int nproduct, double energy, double residual)
{
    (void)irrep;
    on_product(self, nproduct, energy, residual);
}

static void on_note(void *self, const char *text)
{
    const kronlat_problem *const p = self;
    if (p->noted != NULL) p->noted(p->noted_self, text);
}

kl_watch kl_problem_watch(const kronlat_problem *p)
{
    if (p->watch != NULL) return *p->watch;
    return (kl_watch){.self = (void *)(uintptr_t)p,
                      .note = on_note,
                      .bond = on_bond,
                      .sweep = on_sweep,
                      .product = on_product,
                      .level = on_level,
                      .sample = on_sample,
                      .block = on_block,
                      .block_product = on_block_product};
}

/* ---------------------------------------------------------------- what all have */

/* Where result and checkpoints go; NULL: nowhere. The program says it apart from its options. */
static const char *path_of(const kronlat_problem *p, const kl_options *o)
{
    if (p->scene != NULL && p->scene->borrowed) return p->path != NULL && p->path[0] != '\0' ? p->path : NULL;
    if (o->resume != NULL) return o->resume;
    return o->output != NULL && strcmp(o->output, "none") != 0 ? o->output : NULL;
}

/* The status of a run that has come to a result, whatever became of it. */
static kl_status verdict(const kronlat_result *r, int stopped, kl_err *err)
{
    if (r->unwritten != KL_OK) return kl_fail(err, r->unwritten, "%s", r->why.text);
    if (r->unmeasured != KL_OK) return kl_fail(err, r->unmeasured, "%s", r->why.text);
    if (stopped) return kl_fail(err, (kl_status)KRONLAT_CANCELLED, "the run was cancelled");
    return KL_OK;
}

/* ---------------------------------------------------------------- DMRG */

/* A copy of the state of a result, for this task. */
static kl_status take_start(const kronlat_result *start, kl_task *t, kl_state **state, kl_err *err)
{
    kl_status st = KL_OK;
    int spin;
    if (start->state == NULL)
        return kl_fail(err, KL_EINPUT, "start: the result holds no state to start from");
    KL_TRY(kl_dmrgrun_check_start(t, "start", start->r, &spin, err));
    if (spin) KL_TRY(kl_components_create(t->ex, start->state, 0, t->terms, &t->target, state, err));
    else KL_TRY(kl_state_copy(start->state, t->terms, state, err));
out:
    return st;
}

static kl_status begin(kronlat_problem *p, const kronlat_result *start, kl_state **state, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *const t = p->scene->t;
    const kl_options *const o = t->o;
    if (!p->scene->borrowed) {
        KL_TRY(kl_task_one_sector(t, "kronlat_dmrg is for", err));
        if (start != NULL && (o->resume != NULL || o->start != NULL))
            KL_TRY(kl_fail(err, KL_EINPUT, "start and the option %s exclude each other",
                           o->resume != NULL ? "resume" : "start"));
        KL_TRY(kl_dmrgrun_start(t, p->scene->done, state, err));
        if (path_of(p, o) != NULL) KL_TRY(kl_checked_probe(path_of(p, o), err));
    }
    if (start != NULL) KL_TRY(take_start(start, t, state, err));
    if (p->scene->borrowed) {
        *state = p->state;
        p->state = NULL;
    }
out:
    return st;
}

static kl_status dmrg(kronlat_problem *p, const kronlat_result *start, kronlat_result **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_state *state = NULL;
    kl_watch watch = kl_problem_watch(p);
    kl_dmrgrun x = {.watch = &watch, .at = p->at};
    KL_TRY(kl_problem_scene(p, KL_CMD_DMRG, err));
    KL_TRY(begin(p, start, &state, err));
    x.t = p->scene->t;
    x.done = p->scene->done;
    x.path = path_of(p, x.t->o);
    KL_TRY(kl_dmrgrun_go(&x, &state, err));
    kl_err why;
    const int writes = x.path != NULL && kl_ranks_first(x.t->ex);
    const kl_status written = x.writing ? kl_result_end(&x.writing, x.r, &why)
                              : writes  ? kl_result_write(x.path, x.r, state, &why)
                                        : KL_OK;
    const int stopped = !x.r->finished;
    KL_TRY(kl_handle_result("dmrg", p->scene, &x.r, &state, NULL, out, err));
    (*out)->kept = x.pace.kept;
    (*out)->unwritten = written;
    (*out)->unmeasured = x.unmeasured;
    if (written != KL_OK) (*out)->why = why;
    else if (x.unmeasured != KL_OK) (*out)->why = x.why;
    KL_TRY(verdict(*out, stopped, err));
out:
    kl_state_destroy(&state);
    kl_result_destroy(&x.r);
    return st;
}

kronlat_status kronlat_dmrg(kronlat_problem *problem, const kronlat_result *start, kronlat_result **out,
                            kronlat_error *error)
{
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(problem);
    *out = NULL;
    return kl_visit_end(v, dmrg(problem, start, out, &err), &err, error);
}

/* ---------------------------------------------------------------- exact diagonalization */

/* The states of x as the caller's operator orders them. */
static kl_status keep_vectors(const kl_edrun *x, kronlat_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    kl_places places = {0};
    double *v = NULL;
    const int nstate = r->r->dmrg.nstate;
    kl_exec *const ex = x->t->ex;
    KL_TRY(kl_places_create(x->ed, ex->nthread, &places, err));
    KL_TRY(kl_alloc(&v, x->ed->op.n, KL_MEM_VECTOR, err));
    KL_TRY(kl_alloc(&r->vector, places.dim * nstate, KL_MEM_VECTOR, err));
    r->dim = places.dim;
    for (int k = 0; k < nstate; k++) {
        double *const to = r->vector + k * places.dim;
        KL_TRY(ex->vt.download(ex, v, kl_dptr_at(x->x, k * x->ldx), x->ed->op.n, err));
        for (int64_t i = 0; i < places.dim; i++)
            to[i] = places.sign != NULL ? places.sign[i] * v[places.at[i]] : v[places.at[i]];
        r->nvector = k + 1;
    }
out:
    kl_free(&v);
    kl_places_clear(&places);
    return st;
}

static kl_status ed(kronlat_problem *p, kronlat_result **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_watch watch = kl_problem_watch(p);
    kl_edrun x = {.watch = &watch, .want_vectors = p->keep_vectors};
    KL_TRY(kl_problem_scene(p, KL_CMD_ED, err));
    kl_task *const t = x.t = p->scene->t;
    const int thermal = t->o->temperatures != NULL;
    if (!thermal) KL_TRY(kl_task_one_sector(t, "without \"temperatures\" kronlat_ed is for", err));
    x.going_on = p->scene->done != NULL;
    x.path = path_of(p, t->o);
    if (thermal) KL_TRY(kl_edrun_thermal(&x, err));
    else KL_TRY(kl_edrun_sector(&x, t->target, err));
    kl_err why;
    const int writes = x.path != NULL && !x.stopped && kl_ranks_first(t->ex);
    const kl_status written = writes ? kl_result_write(x.path, x.r, NULL, &why) : KL_OK;
    KL_TRY(kl_handle_result("ed", p->scene, &x.r, NULL, NULL, out, err));
    (*out)->kept = x.kept;
    (*out)->unwritten = written;
    if (written != KL_OK) (*out)->why = why;
    if (x.want_vectors && x.x.addr && !x.stopped) KL_TRY(keep_vectors(&x, *out, err));
    KL_TRY(verdict(*out, x.stopped, err));
out:
    if (x.t != NULL) kl_edrun_clear(&x);
    return st;
}

kronlat_status kronlat_ed(kronlat_problem *problem, kronlat_result **out, kronlat_error *error)
{
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(problem);
    *out = NULL;
    return kl_visit_end(v, ed(problem, out, &err), &err, error);
}

static kl_status ed_energies(kronlat_problem *p, kronlat_result **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_watch watch = kl_problem_watch(p);
    kl_edrun x = {.watch = &watch};
    KL_TRY(kl_problem_scene(p, KL_CMD_ED, err));
    x.t = p->scene->t;
    KL_TRY(kl_task_one_sector(x.t, "kronlat_ed_energies is for", err));
    if (p->scene->done != NULL)
        KL_TRY(kl_fail(err, KL_EINPUT, "resume: kronlat_ed goes on; energies alone have no checkpoint"));
    KL_TRY(kl_edrun_energies(&x, x.t->target, err));
    KL_TRY(kl_handle_result("ed", p->scene, &x.r, NULL, NULL, out, err));
    KL_TRY(verdict(*out, x.stopped, err));
out:
    kl_result_destroy(&x.r);
    return st;
}

kronlat_status kronlat_ed_energies(kronlat_problem *problem, kronlat_result **out, kronlat_error *error)
{
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(problem);
    *out = NULL;
    return kl_visit_end(v, ed_energies(problem, out, &err), &err, error);
}

/* ---------------------------------------------------------------- configuration interaction */

static kl_status ci(kronlat_problem *p, kronlat_result **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_watch watch = kl_problem_watch(p);
    const int borrowed = p->scene != NULL && p->scene->borrowed;
    kl_options *own = NULL, *o = borrowed ? p->scene->o : NULL;
    kl_fcidump *read = NULL;
    kl_cirun x = {.watch = &watch};
    if (o == NULL && p->fcidump == NULL && p->integrals == NULL)
        return kl_fail(err, KL_EINPUT, "the problem is model %s; kronlat_ci is for molecules", p->model);
    if (o == NULL) {
        KL_TRY(kl_problem_options(p, KL_CMD_CI, &own, err));
        o = own;
    }
    KL_TRY(kl_cirun_open(o, &x, err));
    x.opts.keep_vectors = p->keep_vectors;
    if (p->integrals == NULL) KL_TRY(kl_runfile_integrals(o->file, &read, err));
    x.watch = &watch;
    x.integrals = p->integrals != NULL ? p->integrals : read;
    KL_TRY(kl_cirun_begin(&x, err));
    KL_TRY(kl_cirun_go(&x, err));
    kl_err why;
    const int stopped = x.record.r.stopped;
    const kl_status written = x.path != NULL && !stopped && kl_ranks_first(x.ex)
                                  ? kl_cifile_write(x.path, &x.record, NULL, &why)
                                  : KL_OK;
    KL_TRY(kl_handle_result("ci", NULL, NULL, NULL, &x.record, out, err));
    snprintf((*out)->executor, sizeof(*out)->executor, "%s", x.ex->name);
    (*out)->nthread = x.ex->nthread;
    (*out)->kept = x.pace.kept;
    (*out)->unwritten = written;
    if (written != KL_OK) (*out)->why = why;
    KL_TRY(verdict(*out, stopped, err));
out:
    kl_cirun_clear(&x);
    kl_fcidump_destroy(&read);
    kl_options_destroy(&own);
    return st;
}

kronlat_status kronlat_ci(kronlat_problem *problem, kronlat_result **out, kronlat_error *error)
{
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(problem);
    *out = NULL;
    return kl_visit_end(v, ci(problem, out, &err), &err, error);
}
