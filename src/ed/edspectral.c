/* Spectral functions.
   1. The sector that O leads to, and H on it. 2. O|0>, element by element: each asks where it comes from. 3.
      Lanczos from there; every ten steps the fraction is
   evaluated on all frequencies, until it stands still. 4. Poles and weights from the tridiagonal matrix. 5.
   The curve from them, on a window that shows them all. Orthogonality is not kept: a Ritz value that comes
   twice shares its weight, and the fraction does not notice.
   SPDX-License-Identifier: Apache-2.0 */
#include "ed/edspectral.h"
#include "base/dense.h"
#include "solve/recurrence.h"
#include "base/mem.h"
#include "base/par.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_STEPS = 1000,
    LOOK_EVERY = 10,
    GRID = 501,
    CHUNK = 1 << 14,
};

kl_status kl_ed_spectral_shift(const kl_siteop *op, kl_qn *shift, int *odd, kl_err *err)
{
    const kl_model *const m = op->model;
    int have = 0;
    *shift = kl_qn_zero();
    for (int t = 0; t < m->ntype; t++) {
        const kl_site_type *const type = &m->type[t];
        for (int col = 0; op->mat[t] && col < type->dim; col++)
            for (int row = 0; row < type->dim; row++) {
                if (op->mat[t][row + col * type->dim] == 0.0) continue;
                const kl_qn q =
                    kl_qn_sub(m, kl_qn_of(m, type->state_charge[row]), kl_qn_of(m, type->state_charge[col]));
                if (have && kl_qn_cmp(q, *shift) != 0)
                    return kl_fail(err, KL_EINPUT,
                                   "operator '%s': it changes the charges in more ways than one; a spectral "
                                   "function needs one that leads to one sector",
                                   op->text);
                *shift = q;
                have = 1;
            }
    }
    *odd = kl_qn_odd(m, *shift);
    return KL_OK;
}

/* ---------------------------------------------------------------- O|0> */

typedef struct acting {
    const kl_bipartition *from, *to;
    const kl_siteop *op;
    const double *coef, *x;
    double *y;
    int odd, *state; /* [threads][nsite] */
    int64_t first, last; /* elements that are made */
} acting;

static void act(void *self, int64_t task, int thread)
{
    const acting *const a = self;
    const int64_t begin = a->first + task * CHUNK, end = begin + CHUNK < a->last ? begin + CHUNK : a->last;
    for (int p = 0; p < a->to->nsite; p++) {
        const double *const mat = a->op->mat[a->to->type[p] - a->to->model->type];
        if (a->coef[p] != 0.0 && mat)
            kl_bipartition_act(
                &(kl_bipartition_op){
                    .from = a->from, .to = a->to, .p = p, .a = mat, .odd = a->odd, .c = a->coef[p]},
                begin, end, a->x, a->y, a->state + (int64_t)thread * a->to->nsite);
    }
}

static kl_status start_vector(const kl_ed *ed, const kl_ed *to, kl_dptr x, const kl_siteop *op,
                              const double *coef, int odd, kl_dptr y, kl_err *err)
{
    kl_status st = KL_OK;
    double *from = NULL, *out = NULL;
    int *state = NULL;
    const int64_t all = kl_linop_all(&ed->op), first = to->begin ? to->begin[kl_ranks_mine(to->ex)] : 0;
    KL_TRY(kl_alloc(&from, all, KL_MEM_VECTOR, err));
    KL_TRY(kl_alloc(&out, kl_linop_all(&to->op), KL_MEM_VECTOR, err));
    KL_TRY(kl_alloc(&state, (int64_t)ed->ex->nthread * ed->space->nsite, KL_MEM_WORK, err));
    KL_TRY(kl_ranks_download(ed->ex, ed->begin, all, x, from, err));
    acting a = {ed->space, to->space, op, coef, from, out, odd, state, first, first + to->op.n};
    kl_par_for(ed->ex->nthread, (to->op.n + CHUNK - 1) / CHUNK, act, &a);
    KL_TRY(ed->ex->vt.upload(ed->ex, y, out + first, to->op.n, err));
out:
    kl_free(&from);
    kl_free(&out);
    kl_free(&state);
    return st;
}

/* ---------------------------------------------------------------- the fraction */

typedef struct fraction { /* in the unit of ed */
    const kl_ed_spectral_opts *opts;
    double unit;
    kl_ed_spectral *out;
    double e0, *alpha, *beta, *d, *s; /* d, s: theta [max], tridiagonal matrix [max^2] */
    int most;                         /* levels */
} fraction;

static double value(const fraction *f, int m, double omega)
{
    const double complex z = omega + f->e0 + f->opts->broadening / f->unit * I;
    double complex g = 0.0;
    for (int j = m - 1; j >= 0; j--)
        g = 1.0 / (z - f->alpha[j] - (j + 1 < m ? f->beta[j] * f->beta[j] * g : 0.0));
    return -cimag(g) * f->out->total / 3.14159265358979323846;
}

/* 4. Ritz values above e0 in f->d, their weights in the first row of f->s. */
static kl_status diagonalize(fraction *f, int m, kl_err *err)
{
    memset(f->s, 0, (size_t)m * (size_t)m * sizeof(double));
    for (int j = 0; j < m; j++) {
        f->s[j + j * m] = f->alpha[j] - f->e0;
        if (j + 1 < m) f->s[j + 1 + j * m] = f->beta[j];
    }
    return kl_dense_eig(m, f->s, m, f->d, err);
}

static kl_chain on_step(void *self, int done)
{
    fraction *const f = self;
    const int n = f->opts->nomega > 0 ? f->opts->nomega : GRID, seen = done - LOOK_EVERY;
    if (done % LOOK_EVERY != 0) return KL_CHAIN_ON;
    double change = 0.0, most = 0.0;
    double from = INFINITY, to = -INFINITY; /* no pole lies outside */
    for (int j = 0; j < done; j++) {
        const double spread = (j > 0 ? f->beta[j - 1] : 0.0) + (j + 1 < done ? f->beta[j] : 0.0);
        from = fmin(from, f->alpha[j] - spread - f->e0);
        to = fmax(to, f->alpha[j] + spread - f->e0);
    }
    for (int i = 0; i < n; i++) {
        const double w = f->opts->nomega > 0 ? f->opts->omega[i] / f->unit : from + (to - from) * i / (n - 1),
                     now = value(f, done, w);
        change = fmax(change, seen > 0 ? fabs(now - value(f, seen, w)) : INFINITY);
        most = fmax(most, now);
    }
    f->out->converged = change <= 1e-6 * most;
    if (f->out->converged || done == f->most) return KL_CHAIN_ENOUGH;
    f->out->stopped = f->opts->step && f->opts->step(f->opts->self, done, change / f->unit);
    return f->out->stopped ? KL_CHAIN_PAUSE : KL_CHAIN_ON;
}

typedef struct pole {
    double energy, weight;
} pole;

static int by_energy(const void *a, const void *b)
{
    const pole *const p = a, *const q = b;
    return p->energy != q->energy ? (p->energy > q->energy) - (p->energy < q->energy)
                                  : (p->weight > q->weight) - (p->weight < q->weight);
}

/* 5. */
kl_status kl_ed_spectral_finish(kl_ed_spectral *s, const kl_ed_spectral_opts *opts, kl_err *err)
{
    kl_status st = KL_OK;
    const double eta = opts->broadening, unit = kl_unit_of(eta, KL_USUAL), width = eta / unit;
    const int n = s->npole;
    pole *all = NULL;
    KL_TRY(kl_alloc(&all, n, KL_MEM_WORK, err));
    for (int j = 0; j < n; j++) all[j] = (pole){s->pole[j], s->weight[j]};
    if (n > 0) qsort(all, (size_t)n, sizeof(*all), by_energy);
    s->npole = 0;
    /* copies that lost orthogonality made, or parts of a sum share, count as one in their middle */
    for (int j = 0; j < n; j++) {
        const int last = s->npole - 1;
        if (last >= 0 && all[j].energy - s->pole[last] <= 1e-10 * (all[n - 1].energy - all[0].energy)) {
            s->weight[last] += all[j].weight;
            if (s->weight[last] > 0.0)
                s->pole[last] += (all[j].energy - s->pole[last]) * all[j].weight / s->weight[last];
            continue;
        }
        s->pole[s->npole] = all[j].energy;
        s->weight[s->npole++] = all[j].weight;
    }
    /* Poles with weight, and room for their tails. */
    double from = 0.0, to = 1.0;
    int seen = 0;
    for (int j = 0; j < s->npole; j++)
        if (s->weight[j] > 1e-6 * s->total) {
            if (!seen) from = s->pole[j];
            to = s->pole[j];
            seen = 1;
        }
    from -= 10 * eta;
    to += 10 * eta;
    s->nomega = opts->nomega > 0 ? opts->nomega : GRID;
    KL_TRY(kl_alloc(&s->omega, s->nomega, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&s->a, s->nomega, KL_MEM_MISC, err));
    for (int i = 0; i < s->nomega; i++) {
        s->omega[i] = opts->nomega > 0 ? opts->omega[i] : from + (to - from) * i / (GRID - 1);
        for (int j = 0; j < s->npole; j++) {
            const double far = (s->omega[i] - s->pole[j]) / unit;
            s->a[i] += s->weight[j] * width / (far * far + width * width) / 3.14159265358979323846 / unit;
        }
    }
out:
    kl_free(&all);
    return st;
}

kl_status kl_ed_spectral_run(const kl_ed *ed, const kl_terms *terms, kl_dptr x, double e0,
                             const kl_siteop *op, const double *coef, const kl_ed_spectral_opts *opts,
                             kl_ed_spectral *out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = ed->ex;
    kl_ed *other = NULL;
    kl_dptr v[3] = {{0}};
    kl_qn shift;
    kl_bipartition_size size;
    kl_err none;
    double *host = NULL, norm;
    int odd, done = 0;
    const int64_t max = opts->max_steps > 0 ? opts->max_steps : MAX_STEPS;
    *out = (kl_ed_spectral){0};
    fraction f = {.opts = opts, .unit = ed->unit, .out = out, .e0 = e0 / ed->unit};
    if (!(opts->broadening > 0.0))
        KL_TRY(kl_fail(err, KL_EINPUT, "a spectral function with the broadening %g; it has to be above 0",
                       opts->broadening));
    KL_TRY(kl_ed_spectral_shift(op, &shift, &odd, err));
    KL_TRY(kl_alloc(&host, 3 * max + max * max, KL_MEM_WORK, err));
    f.alpha = host;
    f.beta = host + max;
    f.d = f.beta + max;
    f.s = f.d + max;
    /* 1. */
    const kl_qn target = kl_qn_add(terms->model, ed->space->target, shift);
    const kl_bipartition_form form = !ed->space->flavours ? KL_BIPARTITION_SITES
                                     : ed->space->right.behind > 0
                                         ? KL_BIPARTITION_FLAVOURS | KL_BIPARTITION_SORTED
                                         : KL_BIPARTITION_FLAVOURS;
    const int same = kl_qn_cmp(target, ed->space->target) == 0,
              empty = !same && kl_bipartition_measure(terms, target, form, &size, &none) != KL_OK;
    if (!empty) {
        if (!same) KL_TRY(kl_ed_create(terms, target, form, ex, &other, err));
        const kl_ed *const to = same ? ed : other;
        out->dim = to->space->dim;
        for (int i = 0; i < 3; i++) KL_TRY(ex->vt.alloc(ex, to->op.n, &v[i], err));
        KL_TRY(start_vector(ed, to, x, op, coef, odd, v[0], err)); /* 2. */
        ex->vt.dots(ex, to->op.n, 1, v[0], to->op.n, v[0], &norm);
        out->total = norm;
        /* as many as the sector has states are not all of it: orthogonality is lost during the steps */
        f.most = (int)max;
        /* 3. */
        kl_recurrence_run run = {.m = f.most,
                                 .alpha = f.alpha,
                                 .beta = f.beta,
                                 .keeper = opts->keeper,
                                 .step = on_step,
                                 .self = &f};
        KL_TRY(kl_recurrence_chain(&to->op, v, &run, err));
        done = run.done;
        if (!out->stopped && done < max) out->converged = 1;
    } else {
        out->converged = 1;
    }
    out->nstep = done;
    KL_TRY(kl_alloc(&out->pole, done, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&out->weight, done, KL_MEM_MISC, err));
    if (done > 0) KL_TRY(diagonalize(&f, done, err));
    for (int j = 0; j < done; j++) {
        out->pole[j] = f.d[j] * ed->unit;
        out->weight[j] = out->total * f.s[(int64_t)j * done] * f.s[(int64_t)j * done];
    }
    out->npole = done;
    KL_TRY(kl_ed_spectral_finish(out, opts, err));
out:
    for (int i = 0; i < 3; i++) ex->vt.release(ex, &v[i]);
    kl_ed_destroy(&other);
    kl_free(&host);
    if (st != KL_OK) kl_ed_spectral_clear(out);
    return st;
}

void kl_ed_spectral_clear(kl_ed_spectral *s)
{
    kl_free(&s->pole);
    kl_free(&s->weight);
    kl_free(&s->omega);
    kl_free(&s->a);
}
