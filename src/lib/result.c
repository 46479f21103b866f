/* Results: their arrays by name, more measurements, files. See kronlat.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strsep */
#endif
#include "lib/handles.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/par.h"
#include "run/dmrgrun.h"
#include "run/edresult.h"
#include "run/request.h"

/* ---------------------------------------------------------------- arrays without a name in the file */

static kl_status add(kronlat_result *r, const char *name, int rank, int64_t n0, int64_t n1,
                     const double *data, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = rank == 0 ? 1 : rank == 1 ? n0 : n0 * n1;
    kl_measured m = {.rank = rank, .shape = {rank > 0 ? n0 : 0, rank > 1 ? n1 : 0, 0}};
    KL_TRY(kl_realloc(&r->array, r->narray + 1, KL_MEM_MISC, err));
    m.name = kl_strdup(name);
    if (m.name == NULL) KL_TRY(kl_fail(err, KL_ENOMEM, "no memory for the result"));
    KL_TRY(kl_alloc(&m.data, n, KL_MEM_MISC, err));
    if (n > 0) memcpy(m.data, data, (size_t)n * sizeof(double));
    r->array[r->narray++] = m;
    return KL_OK;
out:
    kl_free(&m.name);
    kl_free(&m.data);
    return st;
}

static const kl_measured *find(const kronlat_result *r, const char *name)
{
    for (int i = 0; i < r->narray; i++)
        if (strcmp(r->array[i].name, name) == 0) return &r->array[i];
    for (int i = 0; r->r != NULL && i < r->r->nmeasured; i++)
        if (strcmp(r->r->measured[i].name, name) == 0) return &r->r->measured[i];
    return NULL;
}

/* What every sweep tells, a list each. */
static kl_status add_sweeps(kronlat_result *r, kl_err *err)
{
    static const char *const name[] = {"sweep/m",         "sweep/energy",  "sweep/change",
                                       "sweep/discarded", "sweep/seconds", "sweep/residual"};
    enum { NNAME = sizeof name / sizeof *name };
    kl_status st = KL_OK;
    const kl_dmrg_result *const d = &r->r->dmrg;
    double *v = NULL;
    KL_TRY(kl_alloc(&v, d->nrow + 1, KL_MEM_MISC, err));
    for (int k = 0; k < NNAME; k++) {
        for (int i = 0; i < d->nrow; i++) {
            const kl_dmrg_row *const row = &d->row[i];
            const double of[NNAME] = {row->m_reached, row->energy[0], row->change,
                                      row->discarded, row->seconds,   row->residual};
            v[i] = of[k];
        }
        KL_TRY(add(r, name[k], 1, d->nrow, 0, v, err));
    }
out:
    kl_free(&v);
    return st;
}

/* A parameter as it was given, or could have been: see kl_result_param. */
static kl_status add_parameter(kronlat_result *r, const kl_result_param *p, kl_err *err)
{
    kl_status st = KL_OK;
    char name[300];
    double *value = NULL;
    const int64_t n = kl_result_param_count(p);
    snprintf(name, sizeof name, "parameter/%.200s", p->name);
    KL_TRY(kl_alloc(&value, n + 1, KL_MEM_MISC, err));
    for (int64_t k = 0; k < n; k++) value[k] = kl_result_param_at(p, k);
    KL_TRY(add(r, name, p->is_array, n, 0, value, err));
out:
    kl_free(&value);
    return st;
}

/* Bonds, and which of them a class has. */
static kl_status add_bonds(kronlat_result *r, const kl_geometry *g, kl_err *err)
{
    kl_status st = KL_OK;
    char name[300];
    double *v = NULL;
    if (g->nbond == 0) return KL_OK;
    KL_TRY(kl_alloc(&v, 2 * g->nbond, KL_MEM_WORK, err));
    for (int64_t b = 0; b < 2 * g->nbond; b++) v[b] = g->bond[b / 2][b % 2];
    KL_TRY(add(r, "bond/sites", 2, g->nbond, 2, v, err));
    KL_TRY(add(r, "bond/vector", 2, g->nbond, 2, &g->vector[0][0], err));
    KL_TRY(add(r, "bond/length", 1, g->nbond, 0, g->length, err));
    for (int c = 0; c < g->nclass; c++) {
        for (int64_t b = 0; b < g->nbond; b++) v[b] = kl_geometry_is(g, b, g->classes[c]);
        snprintf(name, sizeof name, "bond/class/%.200s", g->classes[c]);
        KL_TRY(add(r, name, 1, g->nbond, 0, v, err));
    }
out:
    kl_free(&v);
    return st;
}

/* Coordinates of the sites, and the values of parameters and charges. */
static kl_status add_system(kronlat_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    char name[300];
    const kl_result *const d = r->r;
    if (d->xy != NULL) KL_TRY(add(r, "site/xy", 2, d->nsite, 2, &d->xy[0][0], err));
    KL_TRY(add_bonds(r, &d->geometry, err));
    for (int k = 0; k < d->nparam; k++) KL_TRY(add_parameter(r, &d->param[k], err));
    for (int c = 0; c < d->ncharge; c++) {
        const kl_result_charge *const q = &d->charge[c];
        const double value = (double)q->value * q->unit_num / q->unit_den;
        snprintf(name, sizeof name, "charge/%.200s", q->name);
        KL_TRY(add(r, name, 0, 0, 0, &value, err));
    }
out:
    return st;
}

static kl_status add_lattice_states(kronlat_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_dmrg_result *const d = &r->r->dmrg;
    const int is_ed = strcmp(r->method, "ed") == 0;
    const kl_measured *const bound = find(r, "ed/error");
    double *error = NULL;
    KL_TRY(kl_alloc(&error, d->nstate, KL_MEM_MISC, err));
    for (int k = 0; k < d->nstate; k++)
        error[k] =
            bound != NULL && bound->rank == 1 && k < bound->shape[0] ? bound->data[k] : d->error_estimate;
    KL_TRY(add(r, "energy", 1, d->nstate, 0, d->energy, err));
    KL_TRY(add(r, "error", 1, d->nstate, 0, error, err));
    KL_TRY(add_system(r, err));
    if (is_ed) goto out;
    KL_TRY(add(r, "energy_kept", 1, d->nstate, 0, d->energy_kept, err));
    KL_TRY(add(r, "energy_extrapolated", 0, 0, 0, &d->energy_extrapolated, err));
    KL_TRY(add(r, "discarded", 0, 0, 0, &d->discarded, err));
    if (d->entropy != NULL) KL_TRY(add(r, "entropy/cut", 1, r->r->nsite - 1, 0, d->entropy, err));
    KL_TRY(add_sweeps(r, err));
out:
    kl_free(&error);
    return st;
}

static kl_status add_ci_states(kronlat_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_ci_result *const c = &r->ci.r;
    enum { NLIST = 5 };
    static const char *const list[NLIST] = {"energy", "error", "residual", "s2", "irrep"};
    char name[80];
    const int n = c->nstate;
    double *v = NULL;
    KL_TRY(kl_alloc(&v, n, KL_MEM_MISC, err));
    for (int i = 0; i < NLIST; i++) {
        for (int k = 0; k < n; k++) {
            const kl_ci_state *const s = &c->state[k];
            v[k] = (const double[NLIST]){s->energy, s->residual, s->residual, s->s2, s->irrep}[i];
        }
        KL_TRY(add(r, list[i], 1, n, 0, v, err));
    }
    KL_TRY(add(r, "reference_energy", 0, 0, 0, &c->reference_energy, err));
    for (int k = 0; k < n; k++) {
        const kl_ci_state *const s = &c->state[k];
        const char *const word[] = {"density_alpha", "density_beta", "natural",
                                    "natural_alpha", "natural_beta", "level_weight"};
        const double *const data[] = {s->density[0],      s->density[1],      s->natural,
                                      s->natural_spin[0], s->natural_spin[1], s->level_weight};
        for (int i = 0; i < 6; i++) {
            if (data[i] == NULL) continue;
            if (k > 0) snprintf(name, sizeof name, "state_%d/%s", k, word[i]);
            else snprintf(name, sizeof name, "%s", word[i]);
            KL_TRY(add(r, name, i < 2 ? 2 : 1, i < 5 ? c->norb : c->nlevel, c->norb, data[i], err));
        }
    }
out:
    kl_free(&v);
    return st;
}

/* ---------------------------------------------------------------- making and unmaking */

void kronlat_result_destroy(kronlat_result *result)
{
    kronlat_result *r = result;
    if (r == NULL) return;
    for (int i = 0; i < r->narray; i++) {
        kl_free(&r->array[i].name);
        kl_free(&r->array[i].data);
    }
    kl_free(&r->array);
    kl_free(&r->vector);
    kl_free(&r->figure);
    kl_state_destroy(&r->state);
    kl_result_destroy(&r->r);
    kl_cifile_clear(&r->ci);
    kl_scene_release(&r->scene);
    kl_free(&r);
}

kl_status kl_handle_result(const char *method, kl_scene *scene, kl_result **r, kl_state **state,
                           kl_ci_record *ci, kronlat_result **out, kl_err *err)
{
    kl_status st = KL_OK;
    kronlat_result *made = NULL;
    KL_TRY(kl_alloc(&made, 1, KL_MEM_MISC, err));
    made->method = method;
    made->scene = kl_scene_keep(scene);
    if (r != NULL) {
        made->r = *r;
        *r = NULL;
    }
    if (state != NULL) {
        made->state = *state;
        *state = NULL;
    }
    if (ci != NULL) {
        made->ci = *ci;
        *ci = (kl_ci_record){0};
    }
    if (made->r != NULL) KL_TRY(add_lattice_states(made, err));
    else KL_TRY(add_ci_states(made, err));
    *out = made;
    made = NULL;
out:
    kronlat_result_destroy(made);
    return st;
}

/* ---------------------------------------------------------------- what it says */

const char *kronlat_result_method(const kronlat_result *result) { return result->method; }

int kronlat_result_finished(const kronlat_result *result)
{
    return result->r != NULL ? result->r->finished : result->ci.finished;
}

int kronlat_result_converged(const kronlat_result *result)
{
    if (!kronlat_result_finished(result)) return 0;
    return result->r != NULL ? kl_dmrgrun_converged(&result->r->dmrg) : result->ci.r.converged;
}

int kronlat_result_energy_converged(const kronlat_result *result)
{
    if (!kronlat_result_finished(result)) return 0;
    return result->r != NULL ? kl_dmrgrun_energy_converged(&result->r->dmrg) : result->ci.r.converged;
}

int kronlat_result_states(const kronlat_result *result)
{
    return result->r != NULL ? result->r->dmrg.nstate : result->ci.r.nstate;
}

static double entry(const kronlat_result *r, const char *name, int state)
{
    const kl_measured *const m = find(r, name);
    return m != NULL && state >= 0 && state < m->shape[0] ? m->data[state] : NAN;
}

double kronlat_result_energy(const kronlat_result *result, int state)
{
    return entry(result, "energy", state);
}

double kronlat_result_error(const kronlat_result *result, int state) { return entry(result, "error", state); }

int kronlat_result_count(const kronlat_result *result)
{
    return result->narray + (result->r != NULL ? result->r->nmeasured : 0);
}

const char *kronlat_result_name(const kronlat_result *result, int i)
{
    if (i < 0 || i >= kronlat_result_count(result)) return NULL;
    return i < result->narray ? result->array[i].name : result->r->measured[i - result->narray].name;
}

kronlat_status kronlat_result_array(const kronlat_result *result, const char *name, int *rank, int64_t *shape,
                                    const double **data, kronlat_error *error)
{
    kl_status st = KL_OK;
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(NULL);
    const kl_measured *const m = name != NULL ? find(result, name) : NULL;
    if (m == NULL)
        st = kl_fail(&err, KL_EINPUT, "the result has no array '%.200s'; kronlat_result_name lists them",
                     name != NULL ? name : "(NULL)");
    if (rank != NULL) *rank = m != NULL ? m->rank : 0;
    for (int k = 0; k < KL_H5_MAX_RANK && shape != NULL; k++)
        shape[k] = m != NULL && k < m->rank ? m->shape[k] : 0;
    if (data != NULL) *data = m != NULL ? m->data : NULL;
    return kl_visit_end(v, st, &err, error);
}

int64_t kronlat_result_dimension(const kronlat_result *result)
{
    return result->vector != NULL ? result->dim : 0;
}

kronlat_status kronlat_result_vector(const kronlat_result *result, int state, int64_t n, double *x,
                                     kronlat_error *error)
{
    kl_status st = KL_OK;
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(NULL);
    if (result->vector == NULL)
        st = kl_fail(&err, KL_EINPUT,
                     "the result keeps no vectors; kronlat_problem_keep_vectors asks kronlat_ed for them");
    else if (state < 0 || state >= result->nvector || n != result->dim)
        st = kl_fail(&err, KL_EINPUT, "vector %d of %lld numbers: there are %d, of %lld numbers", state,
                     (long long)n, result->nvector, (long long)result->dim);
    else memcpy(x, result->vector + state * result->dim, (size_t)n * sizeof *x);
    return kl_visit_end(v, st, &err, error);
}

kronlat_status kronlat_result_determinants(const kronlat_result *result, int state, int64_t *n,
                                           const uint64_t **alpha, const uint64_t **beta,
                                           const double **coefficient, kronlat_error *error)
{
    kl_status st = KL_OK;
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(NULL);
    const int there = state >= 0 && state < result->ci.r.nstate;
    const kl_ci_state none = {0}, *const s = there ? &result->ci.r.state[state] : &none;
    if (s->coef == NULL)
        st = kl_fail(&err, KL_EINPUT,
                     "the result keeps no determinants of state %d; kronlat_problem_keep_vectors asks "
                     "kronlat_ci for them",
                     state);
    if (n != NULL) *n = s->ndet;
    if (alpha != NULL) *alpha = s->det[0];
    if (beta != NULL) *beta = s->det[1];
    if (coefficient != NULL) *coefficient = s->coef;
    return kl_visit_end(v, st, &err, error);
}

/* ---------------------------------------------------------------- measuring */

/* The requests in `lines`, one a line. The program has an executor of its own, which its options name. */
static kl_status measure(kronlat_result *r, char *lines, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *host = NULL;
    const char **what = NULL;
    int n = 0;
    if (r->state == NULL || r->scene == NULL)
        return kl_fail(err, KL_EINPUT,
                       "the result holds no state to be measured; ed measures what its options ask for");
    const kl_task *const t = r->scene->t;
    for (char *rest = lines, *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        KL_TRY(kl_request_check(line, kl_task_named(t), t->lat, err));
        KL_TRY(kl_realloc(&what, n + 1, KL_MEM_MISC, err));
        what[n++] = line;
    }
    kl_exec *ex = r->scene->borrowed ? t->ex : NULL;
    if (ex == NULL) KL_TRY(kl_exec_open_host(kl_task_threads(t->o), &host, err)); /* a run may be at work */
    const kl_request_scene scene = kl_dmrgrun_scene(t, ex != NULL ? ex : host);
    KL_TRY(kl_request_run(&scene, n, what, r->state, kl_dmrgrun_manifold(&r->r->dmrg), r->r, err));
out:
    kl_free(&what);
    kl_exec_close(&host);
    return st;
}

kronlat_status kronlat_result_measure(kronlat_result *result, const char *what, kronlat_error *error)
{
    kl_err err = {{0}};
    kl_status st = KL_OK;
    const kl_visit v = kl_visit_begin(NULL);
    char *lines = what != NULL ? kl_strdup(what) : NULL;
    /* the program may be asked to stop here, too */
    if (result->scene != NULL && result->scene->borrowed) (void)kl_on_interrupt(v.before);
    if (what == NULL) st = kl_fail(&err, KL_EINPUT, "what is to be measured is NULL");
    else if (lines == NULL) st = kl_fail(&err, KL_ENOMEM, "no memory for what is to be measured");
    else st = measure(result, lines, &err);
    kl_free(&lines);
    return kl_visit_end(v, st, &err, error);
}

/* ---------------------------------------------------------------- files */

kronlat_status kronlat_result_save(const kronlat_result *result, const char *path, kronlat_error *error)
{
    kl_status st;
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(NULL);
    if (path == NULL || path[0] == '\0') st = kl_fail(&err, KL_EINPUT, "the name of the file is missing");
    else if (result->r != NULL) st = kl_result_write(path, result->r, result->state, &err);
    else st = kl_cifile_write(path, &result->ci, NULL, &err);
    return kl_visit_end(v, st, &err, error);
}

kl_status kl_handle_state(kronlat_problem *p, const char *path, kronlat_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *t = NULL;
    KL_TRY(kl_problem_system(p, &t, err));
    kl_qn target = kl_qn_zero(); /* the file's own charges: the sector may be any */
    if (r->r->ncharge == t->model->ncharge)
        for (int c = 0; c < r->r->ncharge; c++) target.v[c] = (int16_t)r->r->charge[c].value;
    KL_TRY(kl_result_match(path, r->r, t->model, t->lat, t->params, target, KL_MATCH_STATE, err));
    KL_TRY(kl_result_read_state(path, t->terms, &r->state, err));
    r->scene = kl_scene_keep(p->scene);
out:
    return st;
}

static kl_status load(kronlat_problem *p, const char *path, kronlat_result **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_ci_record ci = {0};
    kl_result *r = NULL;
    if (path == NULL) return kl_fail(err, KL_EINPUT, "the name of the file is NULL");
    if (kl_cifile_is(path)) {
        KL_TRY(kl_cifile_read(path, &ci, err));
        KL_TRY(kl_handle_result("ci", NULL, NULL, NULL, &ci, out, err));
        goto out;
    }
    KL_TRY(kl_result_read(path, &r, err));
    const int is_ed = kl_edresult_is(r);
    KL_TRY(kl_handle_result(is_ed ? "ed" : "dmrg", NULL, &r, NULL, NULL, out, err));
    if (p != NULL && !is_ed) KL_TRY(kl_handle_state(p, path, *out, err));
out:
    kl_cifile_clear(&ci);
    kl_result_destroy(&r);
    if (st != KL_OK) {
        kronlat_result_destroy(*out);
        *out = NULL;
    }
    return st;
}

kronlat_status kronlat_result_load(kronlat_problem *problem, const char *path, kronlat_result **out,
                                   kronlat_error *error)
{
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(problem);
    *out = NULL;
    return kl_visit_end(v, load(problem, path, out, &err), &err, error);
}
