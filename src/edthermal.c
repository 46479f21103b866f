/* Thermodynamics from typical states.
   1. In each sector `nsample` random vectors |r>; Lanczos from each gives energies e_j and weights w_j = dim |<r|j>|^2, so that the sum of w_j f(e_j), averaged
   over r, estimates the trace of f(H): exactly in its moments up to twice the number of steps, with an error of sqrt(dim) over the samples. 2. A sector of
   few states by all its energies. 3. Sums over sectors at a temperature; every sum is taken once with all samples and once without each of them.
   SPDX-License-Identifier: Apache-2.0 */
#include "edthermal.h"
#include "dense.h"
#include "lean.h"
#include "mem.h"

#include <math.h>
#include <string.h>

enum { STEPS = 100, EXACT = -1, LOOK_EVERY = 10 };

typedef struct point {
    double energy, weight;
    int sample; /* EXACT: in every estimate */
    kl_qn q;
} point;

struct kl_thermal {
    const kl_model *model;
    kl_thermal_opts opts;
    int64_t n, room;
    point *p;
    kl_thermal_facts facts;
};

kl_status kl_thermal_create(const kl_model *m, const kl_thermal_opts *opts, kl_thermal **out, kl_err *err)
{
    kl_status st = KL_OK;
    *out = NULL;
    if (opts->nsample < 1) return kl_fail(err, KL_EINPUT, "%d samples; at least 1 is needed, 2 for error bars", opts->nsample);
    KL_TRY(kl_alloc(out, 1, KL_MEM_MISC, err));
    (*out)->model = m;
    (*out)->opts = *opts;
    (*out)->facts.lowest = INFINITY;
    if (opts->nstep == 0) (*out)->opts.nstep = STEPS;
    if (opts->full == 0) (*out)->opts.full = KL_ED_FULL_AUTO;
out:
    return st;
}

void kl_thermal_destroy(kl_thermal **t)
{
    if (*t) kl_free(&(*t)->p);
    kl_free(t);
}

kl_thermal_facts kl_thermal_about(const kl_thermal *t) { return t->facts; }

static kl_status push(kl_thermal *t, double energy, double weight, int sample, kl_qn q, kl_err *err)
{
    kl_status st = KL_OK;
    if (t->n == t->room) {
        t->room = t->room ? 2 * t->room : 1024;
        KL_TRY(kl_realloc(&t->p, t->room, KL_MEM_MISC, err));
    }
    t->p[t->n++] = (point){energy, weight, sample, q};
    t->facts.lowest = fmin(t->facts.lowest, energy);
out:
    return st;
}

/* 2. */
static kl_status add_full(kl_thermal *t, kl_ed *ed, kl_err *err)
{
    kl_status st = KL_OK;
    kl_ed_result r = {0};
    const kl_ed_opts opts = {.solver = KL_ED_FULL, .nstate = 1};
    KL_TRY(kl_ed_run(ed, &opts, NULL, NULL, &r, err));
    for (int i = 0; i < r.nfull; i++) KL_TRY(push(t, r.full[i], 1.0, EXACT, ed->space->target, err));
    t->facts.napply += r.napply;
    t->facts.nfull++;
out:
    kl_ed_result_clear(&r);
    return st;
}

/* The lowest energy stands still: nothing is left for further steps to tell at any temperature. */
typedef struct watch {
    kl_thermal *t;
    const double *alpha, *beta;
    double *a, *w, last;
    int sample, stopped;
    kl_status st;
    kl_err *err;
} watch;

static kl_status diagonalize(watch *s, int m)
{
    memset(s->a, 0, (size_t)m * (size_t)m * sizeof(double));
    for (int j = 0; j < m; j++) {
        s->a[j + j * m] = s->alpha[j];
        if (j + 1 < m) s->a[j + 1 + j * m] = s->beta[j];
    }
    return kl_dense_eig(m, s->a, m, s->w, s->err);
}

static int on_step(void *self, int done)
{
    watch *const s = self;
    const kl_thermal_opts *const o = &s->t->opts;
    s->stopped = o->step && o->step(o->self, s->sample, done);
    if (s->stopped || done % LOOK_EVERY != 0) return s->stopped;
    s->st = diagonalize(s, done);
    if (s->st != KL_OK) return 1;
    const double fell = s->last - s->w[0], width = s->w[done - 1] - s->w[0];
    s->last = s->w[0];
    return fell < 1e-13 * width;
}

/* 1. */
kl_status kl_thermal_add(kl_thermal *t, kl_ed *ed, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = ed->ex;
    kl_dptr v[3] = {{0}};
    double *host = NULL;
    const int64_t dim = ed->space->dim, before = t->n;
    const int64_t m = t->opts.nstep < dim ? t->opts.nstep : dim;
    *stopped = 0;
    t->facts.nsector++;
    t->facts.dim += (double)dim;
    if (dim <= t->opts.full) return add_full(t, ed, err);
    KL_TRY(kl_alloc(&host, 3 * m + m * m, KL_MEM_WORK, err));
    watch w = {.t = t, .alpha = host, .beta = host + m, .w = host + 2 * m, .a = host + 3 * m, .err = err};
    for (int i = 0; i < 3; i++) KL_TRY(ex->vt.alloc(ex, ed->op.n, &v[i], err));
    for (w.sample = 0; w.sample < t->opts.nsample; w.sample++) {
        double norm;
        int done;
        w.last = INFINITY;
        KL_TRY(kl_ed_random(ed, t->opts.seed + (uint64_t)w.sample, v[0], err));
        KL_TRY(kl_lean_chain(&ed->op, v, (int)m, host, host + m, &norm, &done, &w, on_step, err));
        if (w.st != KL_OK) KL_TRY(w.st);
        t->facts.napply += done;
        if (w.stopped) { /* a part of the samples would count like all */
            *stopped = 1;
            t->n = before;
            t->facts.nsector--;
            t->facts.dim -= (double)dim;
            goto out;
        }
        KL_TRY(diagonalize(&w, done));
        for (int j = 0; j < done; j++) KL_TRY(push(t, w.w[j], (double)dim * w.a[(int64_t)j * done] * w.a[(int64_t)j * done], w.sample, ed->space->target, err));
    }
out:
    for (int i = 0; i < 3; i++) ex->vt.release(ex, &v[i]);
    kl_free(&host);
    return st;
}

/* ---------------------------------------------------------------- 3. sums */

enum { NSUM = 3 + 2 * KL_MAX_CHARGE }; /* Z, E, E^2, and Q, Q^2 of each charge */

static double charge_of(const kl_model *m, kl_qn q, int c)
{
    return m->charge[c].modulus > 0 ? 0.0 : (double)q.v[c] * m->charge[c].unit_num / m->charge[c].unit_den;
}

/* Energies are counted from `lowest`. */
static void to_row(const kl_model *m, const double *s, double lowest, double temperature, kl_thermal_row *r)
{
    const double e = s[1] / s[0];
    *r = (kl_thermal_row){.temperature = temperature, .energy = lowest + e};
    r->heat = fmax(0.0, s[2] / s[0] - e * e) / (temperature * temperature);
    r->entropy = log(s[0]) + e / temperature;
    for (int c = 0; c < m->ncharge; c++) {
        const double q = s[3 + 2 * c] / s[0];
        r->chi[c] = fmax(0.0, s[4 + 2 * c] / s[0] - q * q) / temperature;
    }
}

kl_status kl_thermal_evaluate(const kl_thermal *t, double temperature, kl_thermal_row *row, kl_err *err)
{
    kl_status st = KL_OK;
    const int r = t->opts.nsample;
    double (*sum)[NSUM] = NULL; /* [r + 1]: of each sample, and of what is exact */
    if (!(temperature > 0.0)) return kl_fail(err, KL_EINPUT, "a temperature of %g; it has to be above 0", temperature);
    if (t->n == 0) return kl_fail(err, KL_EINPUT, "thermodynamics of no sector at all");
    KL_TRY(kl_alloc(&sum, r + 1, KL_MEM_WORK, err));
    for (int64_t i = 0; i < t->n; i++) {
        const point *const p = &t->p[i];
        double *const s = sum[p->sample == EXACT ? r : p->sample];
        const double e = p->energy - t->facts.lowest, w = p->weight * exp(-e / temperature);
        s[0] += w;
        s[1] += w * e;
        s[2] += w * e * e;
        for (int c = 0; c < t->model->ncharge; c++) {
            const double q = charge_of(t->model, p->q, c);
            s[3 + 2 * c] += w * q;
            s[4 + 2 * c] += w * q * q;
        }
    }
    double all[NSUM];
    for (int k = 0; k < NSUM; k++) {
        all[k] = sum[r][k];
        for (int i = 0; i < r; i++) all[k] += sum[i][k] / r;
    }
    to_row(t->model, all, t->facts.lowest, temperature, row);
    if (r > 1 && t->facts.nfull < t->facts.nsector) {
        double var[3 + KL_MAX_CHARGE] = {0};
        for (int i = 0; i < r; i++) {
            kl_thermal_row without;
            double part[NSUM];
            for (int k = 0; k < NSUM; k++) part[k] = sum[r][k] + ((all[k] - sum[r][k]) * r - sum[i][k]) / (r - 1);
            to_row(t->model, part, t->facts.lowest, temperature, &without);
            const double d[3] = {without.energy - row->energy, without.heat - row->heat, without.entropy - row->entropy};
            for (int k = 0; k < 3; k++) var[k] += d[k] * d[k];
            for (int c = 0; c < t->model->ncharge; c++) var[3 + c] += (without.chi[c] - row->chi[c]) * (without.chi[c] - row->chi[c]);
        }
        const double scale = (double)(r - 1) / r;
        row->energy_error = sqrt(scale * var[0]);
        row->heat_error = sqrt(scale * var[1]);
        row->entropy_error = sqrt(scale * var[2]);
        for (int c = 0; c < t->model->ncharge; c++) row->chi_error[c] = sqrt(scale * var[3 + c]);
    }
out:
    kl_free(&sum);
    return st;
}
