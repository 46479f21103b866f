/* Thermodynamics from typical states.
   1. In each sector the lowest states by themselves, for a random vector has a share of a single state that
      varies by more than its mean: at low temperatures nothing else would count. 2. `nsample` random vectors
      |r> without them; Lanczos from each gives energies e_j and weights w_j = dim |<r|j>|^2, dim being the
      number of the other states, so that the sum of w_j f(e_j), averaged over r, estimates the trace of f(H)
      over these: exactly in its moments up to twice the number of steps, with an error of sqrt(dim) over the
      samples. 3. A sector of few states by all its energies. 4. Sums over sectors at a temperature; every sum
      is taken once with all samples and once without each of them, which makes the error bars, with what
      random vectors are known to vary by.
   SPDX-License-Identifier: Apache-2.0 */
#include "ed/edthermal.h"
#include "base/dense.h"
#include "solve/lobpcg.h"
#include "solve/recurrence.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum {
    STEPS = 100,
    EXACT = -1,
    BETWEEN = -1,
    LOWEST = -2,
    LOOK_EVERY = 10,
};
#define APART 1e-6 /* of the energy: two levels */
#define LEFT_OVER 1e-8 /* of a state's weight, which is 1 on average */
#define LOW 6 /* such states of a sector, */
#define MANY_UNTIL 1048576.0 /* of up to this many states; of a larger one the lowest alone */

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
    int sample; /* to go on with in the next sector; LOWEST: with its lowest states; BETWEEN: none */
    int low; /* its states that stand by themselves */
    kl_keep chain; /* and its recurrence, or what the solver of the lowest states kept */
};

/* ---------------------------------------------------------------- what is kept */

/* ORDER: sectors that are in, those by all energies, products, states, lowest energy, current sample,
   points, states that stand by themselves of the current sector, and of those that are in; then the points;
   then the recurrence. */
enum {
    HEAD = 9,
    POINT = 3 + KL_MAX_CHARGE,
};

static kl_status pack(const kl_thermal *t, int64_t nsector, double dim, int sample, const kl_keep *chain,
                      kl_err *err)
{
    kl_status st = KL_OK;
    double *number = NULL;
    kl_keep out = {.nnumber = HEAD + POINT * t->n};
    if (chain) {
        out = *chain;
        out.nnumber += HEAD + POINT * t->n;
    }
    KL_TRY(kl_alloc(&number, out.nnumber, KL_MEM_MISC, err));
    const double head[HEAD] = {
        (double)nsector, (double)t->facts.nfull, (double)t->facts.napply, dim, t->facts.lowest, sample,
        (double)t->n,    (double)t->low,         (double)t->facts.nlow};
    memcpy(number, head, sizeof(head));
    for (int64_t i = 0; i < t->n; i++) {
        double *const to = number + HEAD + POINT * i;
        to[0] = t->p[i].energy;
        to[1] = t->p[i].weight;
        to[2] = t->p[i].sample;
        for (int c = 0; c < KL_MAX_CHARGE; c++) to[3 + c] = t->p[i].q.v[c];
    }
    if (chain) memcpy(number + HEAD + POINT * t->n, chain->number, (size_t)chain->nnumber * sizeof(double));
    out.number = number;
    st = t->opts.keeper->write(t->opts.keeper->self, &out, err);
out:
    kl_free(&number);
    return st;
}

static int is_count(double x, double most) { return x >= 0 && x <= most && x == floor(x); }

static kl_status unpack(kl_thermal *t, const kl_keep *from, kl_err *err)
{
    kl_status st = KL_OK;
    const double *const f = from->number;
    if (from->nnumber < HEAD || !is_count(f[0], 0x1p53) || !is_count(f[1], f[0]) || !is_count(f[2], 0x1p53) ||
        !is_count(f[6], (double)((from->nnumber - HEAD) / POINT)) ||
        !(f[5] >= (double)LOWEST && f[5] < t->opts.nsample) || !is_count(f[7], KL_LOBPCG_MOST) ||
        !is_count(f[8], 0x1p53))
        return kl_fail(err, KL_EINPUT,
                       "thermodynamics: the %lld numbers kept are not those of a sum over %d samples",
                       (long long)from->nnumber, t->opts.nsample);
    t->n = t->room = (int64_t)f[6];
    KL_TRY(kl_alloc(&t->p, t->room, KL_MEM_MISC, err));
    t->facts = (kl_thermal_facts){.nsector = (int64_t)f[0],
                                  .nfull = (int64_t)f[1],
                                  .napply = (int64_t)f[2],
                                  .nlow = (int64_t)f[8],
                                  .dim = f[3],
                                  .lowest = f[4]};
    t->sample = (int)f[5];
    t->low = (int)f[7];
    for (int64_t i = 0; i < t->n; i++) {
        const double *const p = f + HEAD + POINT * i;
        t->p[i] = (point){.energy = p[0], .weight = p[1], .sample = (int)p[2]};
        if (!(p[2] >= (double)EXACT && p[2] < t->opts.nsample))
            KL_TRY(kl_fail(err, KL_EINPUT, "thermodynamics: a kept energy is of sample %g of %d", p[2],
                           t->opts.nsample));
        for (int c = 0; c < KL_MAX_CHARGE; c++) t->p[i].q.v[c] = (int16_t)p[3 + c];
    }
    t->chain = kl_keep_behind(from, HEAD + POINT * t->n, 0);
out:
    return st;
}

kl_ed_opts kl_thermal_lowest(double dim)
{
    const int many = dim <= MANY_UNTIL;
    return (kl_ed_opts){.solver = many ? KL_ED_LOBPCG : KL_ED_LANCZOS,
                        .nstate = !many            ? 1
                                  : dim >= 8 * LOW ? LOW
                                                   : (int)dim / 8,
                        .accuracy = 1e-10,
                        .want_vectors = 1,
                        .as_found = many};
}

kl_status kl_thermal_create(const kl_model *m, const kl_thermal_opts *opts, kl_thermal **out, kl_err *err)
{
    kl_status st = KL_OK;
    *out = NULL;
    if (opts->nsample < 1)
        return kl_fail(err, KL_EINPUT, "%d samples; at least 1 is needed, 2 for error bars", opts->nsample);
    KL_TRY(kl_alloc(out, 1, KL_MEM_MISC, err));
    (*out)->model = m;
    (*out)->opts = *opts;
    (*out)->facts.lowest = INFINITY;
    (*out)->sample = BETWEEN;
    if (opts->nstep == 0) (*out)->opts.nstep = STEPS;
    if (opts->full == 0) (*out)->opts.full = KL_ED_FULL_AUTO;
    if (opts->keeper && opts->keeper->from) KL_TRY(unpack(*out, opts->keeper->from, err));
out:
    if (st != KL_OK) kl_thermal_destroy(out);
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

/* 3. */
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

typedef struct watch {
    kl_thermal *t;
    const double *alpha, *beta;
    int m, sample, stopped;
    kl_status st;
    kl_err *err;
} watch;

static kl_status extremes(const watch *s, int m, double *lowest, double *highest)
{
    kl_status st = KL_OK;
    KL_TRY(kl_dense_tridiagonal(m, s->alpha, s->beta, 0, 1, lowest, NULL, 0, s->err));
    KL_TRY(kl_dense_tridiagonal(m, s->alpha, s->beta, m - 1, 1, highest, NULL, 0, s->err));
out:
    return st;
}

static kl_chain on_step(void *self, int done)
{
    watch *const s = self;
    const kl_thermal_opts *const o = &s->t->opts;
    if (done >= s->m) return KL_CHAIN_ENOUGH;
    /* does the lowest energy stand still? Then nothing is left for further steps to tell at any
       temperature */
    if (done % LOOK_EVERY == 0 && done > LOOK_EVERY) {
        double now, before, top;
        s->st = extremes(s, done - LOOK_EVERY, &before, &top);
        if (s->st == KL_OK) s->st = extremes(s, done, &now, &top);
        if (s->st != KL_OK || before - now < 1e-13 * (top - now)) return KL_CHAIN_ENOUGH;
    }
    s->stopped = o->step && o->step(o->self, s->sample, done);
    return s->stopped ? KL_CHAIN_PAUSE : KL_CHAIN_ON;
}

static int keep_due(void *self)
{
    const watch *const s = self;
    return s->t->opts.keeper->due(s->t->opts.keeper->self);
}

static kl_status keep_write(void *self, const kl_keep *chain, kl_err *err)
{
    const watch *const s = self;
    const kl_thermal *const t = s->t;
    return pack(t, t->facts.nsector, t->facts.dim, s->sample, chain, err);
}

typedef struct lowstates {
    kl_dptr x; /* [n][ldx], device: states that stand by themselves */
    int64_t ldx;
    int n;
} lowstates;

static kl_status low_write(void *self, const kl_keep *solver, kl_err *err)
{
    const watch *const s = self;
    const kl_thermal *const t = s->t;
    return pack(t, t->facts.nsector, t->facts.dim, LOWEST, solver, err);
}

static int low_step(void *self, int napply, double energy, double residual)
{
    watch *const s = self;
    const kl_thermal_opts *const o = &s->t->opts;
    (void)energy, (void)residual;
    s->stopped = o->step && o->step(o->self, -1, napply);
    return s->stopped;
}

/* How many of the states found stand by themselves: as far as a level ends for sure. Which states of a
   multiplet are found, if not all are, is up to rounding, and so would be random vectors without them. */
static int count_good(const kl_ed_result *r)
{
    int n = 0;
    if (r->stop != KL_ED_CONVERGED && r->stop != KL_ED_STAGNATED) return 0;
    const double size = fmax(fabs(r->energy[0]), fabs(r->energy[r->nstate - 1]));
    for (int i = 1; i < r->nstate; i++)
        if (r->energy[i] - r->energy[i - 1] > APART * size) n = i;
    return n > 0 ? n : r->nstate;
}

/* 1. A run that goes on with samples has their energies already; the states it finds once more. */
static kl_status find_lowest(kl_thermal *t, kl_ed *ed, lowstates *out, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    kl_ed_result r = {0};
    watch w = {.t = t};
    kl_keeper keeper = {.self = &w, .due = keep_due, .write = low_write};
    const int have = t->sample >= 0;
    kl_ed_opts opts = kl_thermal_lowest((double)ed->space->dim);
    opts.seed = t->opts.seed;
    opts.self = &w;
    opts.step = low_step;
    if (t->sample == LOWEST) keeper.from = &t->chain;
    if (t->opts.keeper && !have) opts.keeper = &keeper;
    if (opts.nstate == 0) goto out;
    KL_TRY(kl_ed_run(ed, &opts, &out->x, &out->ldx, &r, err));
    *stopped = r.stop == KL_ED_INTERRUPTED;
    if (*stopped) goto out;
    out->n = have ? t->low : count_good(&r);
    for (int i = 0; i < out->n && !have; i++)
        KL_TRY(push(t, r.energy[i], 1.0, EXACT, ed->space->target, err));
    if (!have) t->facts.napply += r.napply;
out:
    if (st == KL_OK && !*stopped) {
        t->low = out->n;
        if (!have) t->sample = BETWEEN;
    }
    kl_ed_result_clear(&r);
    return st;
}

/* Takes the lowest states out of v; twice, for rounding. */
static kl_status take_out(const kl_ed *ed, const lowstates *low, kl_dptr v, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = ed->ex;
    double *c = NULL;
    if (low->n == 0) return KL_OK;
    KL_TRY(kl_alloc(&c, low->n, KL_MEM_WORK, err));
    for (int twice = 0; twice < 2; twice++) {
        ex->vt.dots(ex, ed->op.n, low->n, low->x, low->ldx, v, c);
        for (int i = 0; i < low->n; i++) c[i] = -c[i];
        ex->vt.combine(ex, ed->op.n, low->n, low->x, low->ldx, c, 1.0, v);
    }
out:
    kl_free(&c);
    return st;
}

/* 2. Sector after sector is counted when all its samples are in: a part of them would count like all. */
static kl_status add_samples(kl_thermal *t, kl_ed *ed, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = ed->ex;
    kl_dptr v[3] = {{0}};
    double *host = NULL;
    lowstates low = {.n = 0};
    const int64_t before = t->n;
    KL_TRY(find_lowest(t, ed, &low, stopped, err));
    if (*stopped) {
        t->n = before;
        goto out;
    }
    const int64_t dim = ed->space->dim - low.n;
    const int64_t m = t->opts.nstep < dim ? t->opts.nstep : dim;
    KL_TRY(kl_alloc(&host, 3 * m + m * m, KL_MEM_WORK, err));
    double *const energy = host + 2 * m, *const a = host + 3 * m;
    watch w = {.t = t, .m = (int)m, .alpha = host, .beta = host + m, .err = err};
    kl_keeper keeper = {.self = &w, .due = keep_due, .write = keep_write};
    if (t->sample != BETWEEN) {
        w.sample = t->sample;
        keeper.from = &t->chain;
        t->sample = BETWEEN;
    }
    for (int i = 0; i < 3; i++) KL_TRY(ex->vt.alloc(ex, ed->op.n, &v[i], err));
    for (; w.sample < t->opts.nsample; w.sample++) {
        /* no seed's samples are another's */
        if (!keeper.from) {
            KL_TRY(kl_ed_random(ed, kl_hash_mix(kl_hash_mix(KL_HASH_EMPTY, t->opts.seed), (uint64_t)w.sample),
                                v[0], err));
            KL_TRY(take_out(ed, &low, v[0], err));
        }
        kl_recurrence_run run = {.m = (int)m,
                                 .alpha = host,
                                 .beta = host + m,
                                 .keeper = t->opts.keeper ? &keeper : NULL,
                                 .step = on_step,
                                 .self = &w};
        KL_TRY(kl_recurrence_chain(&ed->op, v, &run, err));
        const int done = run.done;
        keeper.from = NULL;
        if (w.st != KL_OK) KL_TRY(w.st);
        if (w.stopped) {
            *stopped = 1;
            t->n = before;
            goto out;
        }
        t->facts.napply += done;
        memset(a, 0, (size_t)done * (size_t)done * sizeof(double));
        for (int64_t j = 0; j < done; j++) {
            a[j + j * done] = w.alpha[j];
            if (j + 1 < done) a[j + 1 + j * done] = w.beta[j];
        }
        KL_TRY(kl_dense_eig(done, a, done, energy, err));
        for (int64_t j = 0; j < done; j++)
            KL_TRY(push(t, energy[j] * ed->unit, (double)dim * a[j * done] * a[j * done], w.sample,
                        ed->space->target, err));
    }
out:
    for (int i = 0; i < 3; i++) ex->vt.release(ex, &v[i]);
    ex->vt.release(ex, &low.x);
    kl_free(&host);
    return st;
}

kl_status kl_thermal_add(kl_thermal *t, kl_ed *ed, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_keeper *const k = t->opts.keeper;
    *stopped = 0;
    if (ed->space->dim <= t->opts.full) KL_TRY(add_full(t, ed, err));
    else KL_TRY(add_samples(t, ed, stopped, err));
    if (*stopped) return KL_OK;
    t->facts.nlow += t->low;
    t->low = 0;
    t->facts.nsector++;
    t->facts.dim += (double)ed->space->dim;
    if (k && k->due(k->self)) KL_TRY(pack(t, t->facts.nsector, t->facts.dim, BETWEEN, NULL, err));
out:
    return st;
}

/* ---------------------------------------------------------------- 4. sums */

enum { NSUM = 3 + 2 * KL_MAX_CHI }; /* Z, E, E^2, and Q, Q^2 of each that has a susceptibility */

int kl_thermal_charges(const kl_model *m, kl_thermal_charge out[KL_MAX_CHI])
{
    int up = -1, down = -1, n = 0;
    for (int c = 0; c < m->ncharge; c++) {
        out[n] = (kl_thermal_charge){.name = m->charge[c].name};
        out[n++].factor[c] = m->charge[c].modulus > 0 ? 0.0 : 1.0;
        if (m->charge[c].modulus > 0) continue;
        if (strcmp(m->charge[c].name, "N_up") == 0) up = c;
        if (strcmp(m->charge[c].name, "N_dn") == 0) down = c;
    }
    if (up < 0 || down < 0) return n;
    out[n] = (kl_thermal_charge){.name = "N"};
    out[n].factor[up] = out[n].factor[down] = 1.0;
    n++;
    out[n] = (kl_thermal_charge){.name = "Sz"};
    out[n].factor[up] = 0.5;
    out[n].factor[down] = -0.5;
    return n + 1;
}

static double value_of(const kl_model *m, const kl_thermal_charge *of, kl_qn q)
{
    double v = 0;
    for (int c = 0; c < m->ncharge; c++)
        v += of->factor[c] * (double)q.v[c] * m->charge[c].unit_num / m->charge[c].unit_den;
    return v;
}

/* Energies are counted from `lowest`. */
static void to_row(int nchi, const double *s, double lowest, double temperature, kl_thermal_row *r)
{
    const double e = s[1] / s[0];
    *r = (kl_thermal_row){.temperature = temperature, .energy = lowest + e};
    r->heat = fmax(0.0, s[2] / s[0] - e * e) / temperature / temperature; /* T^2 may underflow */
    r->entropy = log(s[0]) + e / temperature;
    for (int c = 0; c < nchi; c++) {
        const double q = s[3 + 2 * c] / s[0];
        r->chi[c] = fmax(0.0, s[4 + 2 * c] / s[0] - q * q) / temperature;
    }
}

/* What few samples make of an error bar: their spread is uncertain itself, and twice the bar holds as often
   as of many samples (95.45 %) by Student's t of `free` degrees of freedom, here as a series in 1 / free. */
static double widened(int free)
{
    const double x = 1.0 / free;
    return free == 1 ? 6.98 : 1 + x * (1.25 + x * (1.531 + x * (1.43 + x * 1.1)));
}

/* Adds to var, of energy, heat, entropy and susceptibilities, what the samples' vectors are known to vary
   by: dim <r|A|r> of vectors on the sphere has the variance 2 dim / (dim + 2) (Tr A^2 - (Tr A)^2 / dim), A
   being what an observable changes by for a trace of f(H). Where few states count, some samples agree by
   chance, and their spread says nothing. Units as in kl_thermal_evaluate. */
static void add_known(const kl_thermal *t, const kl_thermal_charge *charge, int nchi, const double *all,
                      double unit, double heat, double *var)
{
    const int r = t->opts.nsample;
    const double z = all[0], mean = all[1] / z, cv = all[2] / z - mean * mean;
    double trace[3 + KL_MAX_CHI] = {0}, square[3 + KL_MAX_CHI] = {0}, dim = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const point *const p = &t->p[i];
        if (p->sample != EXACT) {
            const double e = (p->energy - t->facts.lowest) / unit, w = p->weight / r, f = exp(-e / heat) / z;
            double a[3 + KL_MAX_CHI] = {e - mean, ((e - mean) * (e - mean) - cv) / heat / heat,
                                        1 + (e - mean) / heat};
            for (int c = 0; c < nchi; c++) {
                const double q = all[3 + 2 * c] / z, off = value_of(t->model, &charge[c], p->q) - q;
                a[3 + c] = (off * off - (all[4 + 2 * c] / z - q * q)) / heat;
            }
            dim += w;
            /* heat may be so little that a is none, and a weight so little that it is what rounding left of
               the states that stand by themselves */
            for (int k = 0; k < 3 + nchi && f > 0 && p->weight > LEFT_OVER; k++) {
                trace[k] += w * f * a[k];
                square[k] += w * f * a[k] * f * a[k];
            }
        }
        if (i + 1 < t->n && kl_qn_cmp(p->q, p[1].q) == 0) continue;
        for (int k = 0; k < 3 + nchi && dim > 0; k++)
            var[k] += 2 * dim / (dim + 2) / r * fmax(0, square[k] - trace[k] * trace[k] / dim);
        memset(trace, 0, sizeof trace);
        memset(square, 0, sizeof square);
        dim = 0;
    }
}

kl_status kl_thermal_evaluate(const kl_thermal *t, double temperature, kl_thermal_row *row, kl_err *err)
{
    kl_status st = KL_OK;
    kl_thermal_charge charge[KL_MAX_CHI];
    const int r = t->opts.nsample, nchi = kl_thermal_charges(t->model, charge);
    double (*sum)[NSUM] = NULL; /* [r + 1]: of each sample, and of what is exact */
    double spread = 0;
    if (!(temperature > 0.0))
        return kl_fail(err, KL_EINPUT, "a temperature of %g; it has to be above 0", temperature);
    if (t->n == 0) return kl_fail(err, KL_EINPUT, "thermodynamics of no sector at all");
    KL_TRY(kl_alloc(&sum, r + 1, KL_MEM_WORK, err));
    for (int64_t i = 0; i < t->n; i++) spread = fmax(spread, t->p[i].energy - t->facts.lowest);
    const double unit = kl_unit_of(spread, KL_USUAL), lowest = t->facts.lowest / unit,
                 heat = temperature / unit;
    for (int64_t i = 0; i < t->n; i++) {
        const point *const p = &t->p[i];
        double *const s = sum[p->sample == EXACT ? r : p->sample];
        const double e = (p->energy - t->facts.lowest) / unit, w = p->weight * exp(-e / heat);
        s[0] += w;
        s[1] += w * e;
        s[2] += w * e * e;
        for (int c = 0; c < nchi; c++) {
            const double q = value_of(t->model, &charge[c], p->q);
            s[3 + 2 * c] += w * q;
            s[4 + 2 * c] += w * q * q;
        }
    }
    double all[NSUM];
    for (int k = 0; k < NSUM; k++) {
        all[k] = sum[r][k];
        for (int i = 0; i < r; i++) all[k] += sum[i][k] / r;
    }
    to_row(nchi, all, lowest, heat, row);
    if (r == 1 && t->facts.nfull < t->facts.nsector) {
        row->energy_error = row->heat_error = row->entropy_error = NAN;
        for (int c = 0; c < nchi; c++) row->chi_error[c] = NAN;
    } else if (t->facts.nfull < t->facts.nsector) {
        double var[3 + KL_MAX_CHI] = {0};
        for (int i = 0; i < r; i++) {
            kl_thermal_row without;
            double part[NSUM];
            for (int k = 0; k < NSUM; k++)
                part[k] = sum[r][k] + ((all[k] - sum[r][k]) * r - sum[i][k]) / (r - 1);
            to_row(nchi, part, lowest, heat, &without);
            const double d[3] = {without.energy - row->energy, without.heat - row->heat,
                                 without.entropy - row->entropy};
            for (int k = 0; k < 3; k++) var[k] += d[k] * d[k];
            for (int c = 0; c < nchi; c++)
                var[3 + c] += (without.chi[c] - row->chi[c]) * (without.chi[c] - row->chi[c]);
        }
        const double scale = (double)(r - 1) / r * widened(r - 1) * widened(r - 1);
        double known[3 + KL_MAX_CHI] = {0};
        add_known(t, charge, nchi, all, unit, heat, known);
        for (int k = 0; k < 3 + nchi; k++) var[k] = fmax(scale * var[k], known[k]);
        row->energy_error = sqrt(var[0]);
        row->heat_error = sqrt(var[1]);
        row->entropy_error = sqrt(var[2]);
        for (int c = 0; c < nchi; c++) row->chi_error[c] = sqrt(var[3 + c]);
    }
    row->temperature = temperature;
    row->energy *= unit;
    row->energy_error *= unit;
    for (int c = 0; c < nchi; c++) {
        row->chi[c] /= unit;
        row->chi_error[c] /= unit;
    }
out:
    kl_free(&sum);
    return st;
}
