/* Lanczos with three vectors.
   1. v from the start. 2. w = H v, alpha = v . w in the same pass; w -= alpha v + beta u and |w| in one pass;
   u, v,
      w are exchanged, none is ever scaled: lengths go
   into the coefficients. 3. Lowest Ritz value of the tridiagonal matrix and its residual, beta times the last
   component. 4. Converged when the residual is below the wanted error. residual^2 / gap would be so after two
   thirds of the steps; but the gap is not known: before two levels close to each other are resolved the Ritz
   value settles between them, and looks converged by all that the recurrence shows. 5. For the state the same
   recurrence runs again from the same start and adds up x.
   6. A recurrence that grew too long is begun anew from its x.
   Where H can be added to a vector and there is no memory for w, or two vectors are asked for, u becomes
   H v - beta u in its own place, one more pass (Paige 1972: alpha = v . (H v - beta u)); as exact.
   No orthogonality is kept by force: it is lost towards what has converged, and a second copy of the lowest
   value comes only long after that, when the run has ended.
   SPDX-License-Identifier: Apache-2.0 */
#include "solve/recurrence.h"
#include "base/dense.h"
#include "base/mem.h"
#include "base/prof.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    DEFAULT_APPLY = 2000,
    DEFAULT_LENGTH = 600,
};

typedef struct solver {
    const kl_linop *h;
    const kl_recurrence_opts *opts;
    kl_recurrence_stats *stats;
    int two; /* 1: without w */
    kl_dptr u, v, w;
    double nu, nv;         /* their lengths */
    int m, length;         /* steps made; room */
    double *alpha, *beta;  /* [length + 1]; beta[j] couples j and j + 1 */
    /* of the matrix of coefficients: its lowest value, how far the highest lies above, and the lowest's
       vector [length] */
    double lowest, width, *s;
    double norm_h;
    kl_dptr origin;        /* start of a begun-anew recurrence; addr 0: opts->start */
    int summing, summed;   /* in the second run; steps of it that are done */
    double *kept;          /* room for 7. */
} solver;

/* adds: y += H x. */
static kl_status apply(solver *s, int adds, kl_dptr x, kl_dptr y, double *xy, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t t = kl_prof_clock();
    if (adds) KL_TRY(s->h->add_dot(s->h, x, y, xy, err));
    else if (s->h->apply_dot) {
        KL_TRY(s->h->apply_dot(s->h, x, y, xy, err));
    } else {
        KL_TRY(s->h->apply(s->h, 1, x, s->h->n, y, s->h->n, err));
        s->h->ex->vt.dots(s->h->ex, s->h->n, 1, x, s->h->n, y, xy);
    }
    s->stats->napply++;
    s->stats->seconds_apply += 1e-9 * (double)(kl_prof_clock() - t);
    if (!isfinite(*xy))
        st = kl_fail(err, KL_ENOCONV,
                     "product %d with H gave x . H x = %s; H or the vector holds values that are not finite",
                     s->stats->napply, kl_said(*xy).text);
out:
    return st;
}

/* 1. */
static kl_status begin(solver *s, kl_err *err)
{
    kl_status st = KL_OK;
    double square;
    if (s->origin.addr) s->h->ex->vt.copy(s->h->ex, s->h->n, s->origin, s->v);
    else KL_TRY(s->opts->start(s->opts->self, s->v, err));
    s->h->ex->vt.dots(s->h->ex, s->h->n, 1, s->v, s->h->n, s->v, &square);
    if (!(square > 0.0) || !isfinite(square))
        KL_TRY(
            kl_fail(err, KL_EINPUT, "Lanczos: the start vector has the norm %s", kl_said(sqrt(square)).text));
    s->nv = sqrt(square);
    s->nu = 1.0;
out:
    return st;
}

/* 7. ORDER: pack and unpack. */
enum { KEPT_FIXED = 12 };

static int64_t pack(const solver *s, double *to)
{
    const kl_recurrence_stats *const t = s->stats;
    const double fixed[KEPT_FIXED] = {
        s->m,  s->length, s->summing, s->summed,   s->origin.addr != 0, s->nu,
        s->nv, s->norm_h, t->napply,  t->nrestart, t->residual,         t->converged + 2 * t->stagnated};
    const int64_t l = s->length;
    memcpy(to, fixed, sizeof(fixed));
    memcpy(to + KEPT_FIXED, s->alpha, (size_t)l * sizeof(double));
    memcpy(to + KEPT_FIXED + l, s->beta, (size_t)l * sizeof(double));
    memcpy(to + KEPT_FIXED + 2 * l, s->s, (size_t)l * sizeof(double));
    to[KEPT_FIXED + 3 * l] = s->lowest;
    return KEPT_FIXED + 3 * l + 1;
}

static kl_status unpack(solver *s, const kl_keep *k, kl_err *err)
{
    kl_recurrence_stats *const t = s->stats;
    const double *const f = k->number;
    const int64_t l = s->length;
    const int third = k->nnumber == KEPT_FIXED + 3 * l + 1 && (f[2] != 0.0 || f[4] != 0.0);
    if (k->nnumber != KEPT_FIXED + 3 * l + 1 || f[1] != (double)l || k->nvector != 2 + third ||
        !(f[0] >= 0.0 && f[0] <= (double)l) || !(f[3] >= 0.0 && f[3] <= f[0]))
        return kl_fail(err, KL_EINPUT,
                       "Lanczos: the %lld numbers and %d vectors kept are not those of a recurrence of %lld "
                       "steps at most",
                       (long long)k->nnumber, k->nvector, (long long)l);
    s->m = (int)f[0];
    s->summing = (int)f[2];
    s->summed = (int)f[3];
    s->nu = f[5];
    s->nv = f[6];
    s->norm_h = f[7];
    t->napply = (int)f[8];
    t->nrestart = (int)f[9];
    t->residual = f[10];
    t->converged = (int)f[11] & 1;
    t->stagnated = (int)f[11] >> 1 & 1;
    memcpy(s->alpha, f + KEPT_FIXED, (size_t)l * sizeof(double));
    memcpy(s->beta, f + KEPT_FIXED + l, (size_t)l * sizeof(double));
    memcpy(s->s, f + KEPT_FIXED + 2 * l, (size_t)l * sizeof(double));
    s->lowest = f[KEPT_FIXED + 3 * l];
    return KL_OK;
}

static kl_status keep(solver *s, kl_dptr x, int now, kl_err *err)
{
    const kl_keeper *const k = s->opts->keeper;
    if (!k || !(now || k->due(k->self))) return KL_OK;
    const kl_dptr vector[3] = {s->u, s->v, s->summing ? x : s->origin};
    kl_keep out = {.number = s->kept, .nvector = s->summing || s->origin.addr ? 3 : 2, .vector = vector};
    out.nnumber = pack(s, s->kept);
    return k->write(k->self, &out, err);
}

/* 2. Without w: H v - beta u takes the place of u. */
static kl_status step_in_place(solver *s, int j, kl_dptr x, double add, int first_x, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = s->h->ex;
    const int64_t n = s->h->n;
    double xy, square;
    if (j > 0) ex->vt.combine(ex, n, 0, s->u, n, NULL, -s->beta[j - 1] * s->nv / s->nu, s->u);
    else ex->vt.fill(ex, n, 0.0, s->u);
    KL_TRY(apply(s, 1, s->v, s->u, &xy, err));
    const double alpha = xy / (s->nv * s->nv);
    const kl_dptr in[3] = {s->u, s->v, x}, out[2] = {s->u, x};
    const double with[6] = {1.0 / s->nv, -alpha / s->nv, 0.0, 0.0, add / s->nv, first_x ? 0.0 : 1.0},
                 without[2] = {1.0 / s->nv, -alpha / s->nv};
    const int with_x = x.addr != 0, nin = with_x ? 3 : 2, pair[1][2] = {{nin, nin}};
    const kl_fuse f = {.nin = nin,
                       .nout = with_x ? 2 : 1,
                       .npair = 1,
                       .in = in,
                       .out = out,
                       .c = with_x ? with : without,
                       .pair = pair};
    ex->vt.fuse(ex, n, &f, &square);
    s->alpha[j] = alpha;
    s->beta[j] = sqrt(square);
    const kl_dptr next = s->u;
    s->u = s->v;
    s->nu = s->nv;
    s->v = next;
    s->nv = s->beta[j];
out:
    return st;
}

/* 2. Step j; add: x += add * v in the same pass, x addressed when add != 0. */
static kl_status step(solver *s, int j, kl_dptr x, double add, int first_x, kl_err *err)
{
    kl_status st = KL_OK;
    double xy, square;
    if (s->two) return step_in_place(s, j, x, add, first_x, err);
    KL_TRY(apply(s, 0, s->v, s->w, &xy, err));
    const double alpha = xy / (s->nv * s->nv), beta = j > 0 ? s->beta[j - 1] : 0.0;
    const kl_dptr in[4] = {s->w, s->v, s->u, x}, out[2] = {s->w, x};
    const double c[8] = {1.0 / s->nv, -alpha / s->nv, -beta / s->nu, 0.0,
                         0.0,         add / s->nv,    0.0,           first_x ? 0.0 : 1.0};
    const int with_x = x.addr != 0, nin = with_x ? 4 : 3, pair[1][2] = {{nin, nin}};
    double cut[3] = {c[0], c[1], c[2]};
    const kl_fuse f = {.nin = nin,
                       .nout = with_x ? 2 : 1,
                       .npair = 1,
                       .in = in,
                       .out = out,
                       .c = with_x ? c : cut,
                       .pair = pair};
    s->h->ex->vt.fuse(s->h->ex, s->h->n, &f, &square);
    s->alpha[j] = alpha;
    s->beta[j] = sqrt(square);
    const kl_dptr old = s->u;
    s->u = s->v;
    s->nu = s->nv;
    s->v = s->w;
    s->nv = s->beta[j];
    s->w = old;
out:
    return st;
}

/* 3. Of the first m steps. */
static kl_status ritz(solver *s, int m, kl_err *err)
{
    kl_status st = KL_OK;
    double top;
    KL_TRY(kl_dense_tridiagonal(m, s->alpha, s->beta, 0, 1, &s->lowest, s->s, m, err));
    KL_TRY(kl_dense_tridiagonal(m, s->alpha, s->beta, m - 1, 1, &top, NULL, 0, err));
    s->width = top - s->lowest;
    s->norm_h = fmax(s->norm_h, fmax(fabs(s->lowest), fabs(top)));
    s->stats->residual = s->beta[m - 1] * fabs(s->s[m - 1]);
out:
    return st;
}

/* 4. One recurrence; *closed: the space of the start is exhausted. */
static kl_status run(solver *s, int *closed, kl_err *err)
{
    kl_status st = KL_OK;
    const int max_apply = s->opts->max_apply > 0 ? s->opts->max_apply : DEFAULT_APPLY;
    kl_recurrence_stats *const t = s->stats;
    const kl_dptr none = {0};
    if (s->m == 0) KL_TRY(begin(s, err));
    *closed = 0;
    while (s->m < s->length) {
        KL_TRY(step(s, s->m, none, 0.0, 0, err));
        s->norm_h = fmax(s->norm_h, fabs(s->alpha[s->m++])); /* the first step has no other */
        const double rounding = 4 * DBL_EPSILON * s->norm_h;
        *closed = s->beta[s->m - 1] <= rounding * sqrt((double)s->m) || s->m >= kl_linop_all(s->h);
        if (s->m < 8 || s->m % 3 == 0 || *closed || s->m == s->length || t->napply >= max_apply) {
            KL_TRY(ritz(s, s->m, err));
            const int exact = t->residual <= 8 * DBL_EPSILON * s->norm_h;
            const double tol = fmax(s->opts->tol, s->opts->tol_rel * fmax(fabs(s->lowest), 1e-3 * s->width));
            t->converged = s->m >= 3 && t->residual <= tol;
            t->stagnated = !t->converged && exact && !*closed;
            if (*closed) t->converged = 1;
            const int stop = s->opts->step && s->opts->step(s->opts->self, t->napply, s->lowest, t->residual);
            /* stopped here it would go on with a step too many; sum_up() asks again */
            if (t->converged || t->stagnated || t->napply >= max_apply) break;
            if (stop) {
                t->stopped = 1;
                KL_TRY(keep(s, none, 1, err));
                break;
            }
        }
        KL_TRY(keep(s, none, 0, err));
    }
out:
    return st;
}

/* 5. */
static kl_status sum_up(solver *s, kl_dptr x, kl_err *err)
{
    kl_status st = KL_OK;
    const int m = s->m;
    if (!s->summing) KL_TRY(begin(s, err));
    s->summing = 1;
    for (; s->summed + 1 < m; s->summed++) {
        if (s->summed > 0) KL_TRY(keep(s, x, 0, err));
        if (s->summed > 0 && s->opts->step &&
            s->opts->step(s->opts->self, s->stats->napply, s->lowest, s->stats->residual)) {
            s->stats->stopped = 1;
            KL_TRY(keep(s, x, 1, err));
            return KL_OK;
        }
        KL_TRY(step(s, s->summed, x, s->s[s->summed], s->summed == 0, err));
    }
    const kl_vtable *const vt = &s->h->ex->vt;
    vt->axpby(s->h->ex, s->h->n, s->s[m - 1] / s->nv, s->v, m > 1 ? 1.0 : 0.0, x);
    double square;
    vt->dots(s->h->ex, s->h->n, 1, x, s->h->n, x, &square);
    vt->combine(s->h->ex, s->h->n, 0, x, s->h->n, NULL, 1.0 / sqrt(square), x);
    s->summing = s->summed = 0;
out:
    return st;
}

/* u, v, and w where there is memory for it, or no doing without it. */
static kl_status take_vectors(solver *s, int want_vector, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = s->h->ex;
    KL_TRY(ex->vt.alloc(ex, s->h->n, &s->u, err));
    KL_TRY(ex->vt.alloc(ex, s->h->n, &s->v, err));
    s->two = s->opts->two && s->h->add_dot;
    if (!s->two) st = ex->vt.alloc(ex, s->h->n, &s->w, err);
    if (!s->two && s->h->add_dot && kl_ranks_any(ex, st == KL_ENOMEM)) {
        ex->vt.release(ex, &s->w);
        s->two = 1;
        st = KL_OK;
    }
    s->stats->nvector = (s->two ? 2 : 3) + (want_vector != 0);
out:
    return st;
}

/* One more vector where the caller has none. */
static kl_status take_room(const solver *s, kl_dptr *own, kl_dptr *x, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(s->h->ex->vt.alloc(s->h->ex, s->h->n, own, err));
    s->stats->nvector++;
    *x = *own;
out:
    return st;
}

kl_status kl_recurrence_solve(const kl_linop *h, const kl_recurrence_opts *opts, kl_dptr x, double *energy,
                              kl_recurrence_stats *stats, kl_err *err)
{
    kl_status st = KL_OK;
    solver s = {.h = h, .opts = opts, .stats = stats};
    double *host = NULL;
    kl_dptr own = {0};
    const kl_vtable *const vt = &h->ex->vt;
    const int max_apply = opts->max_apply > 0 ? opts->max_apply : DEFAULT_APPLY;
    *stats = (kl_recurrence_stats){0};
    if (!opts->want_vector) x.addr = 0;
    if (kl_linop_all(h) < 1)
        return kl_fail(err, KL_EINPUT, "Lanczos: a matrix of %lld rows; at least 1 is needed",
                       (long long)kl_linop_all(h));
    if (!(opts->tol >= 0.0))
        return kl_fail(err, KL_EINPUT, "Lanczos: a tolerance of %g; 0 or more is allowed", opts->tol);
    s.length = opts->length > 0 ? opts->length : DEFAULT_LENGTH;
    const int64_t l = s.length;
    KL_TRY(kl_alloc(&host, 6 * (l + 1) + KEPT_FIXED, KL_MEM_WORK, err));
    s.alpha = host;
    s.beta = s.alpha + l + 1;
    s.s = s.beta + l + 1;
    s.kept = s.s + l + 1;
    KL_TRY(take_vectors(&s, opts->want_vector, err));
    const kl_keep *const from = opts->keeper ? opts->keeper->from : NULL;
    if (from) {
        KL_TRY(unpack(&s, from, err));
        if (!x.addr && from->nvector > 2) KL_TRY(take_room(&s, &own, &x, err));
        const kl_dptr to[3] = {s.u, s.v, x};
        KL_TRY(kl_keep_take(from, h, from->nvector, to, err));
    }
    if (from && from->nvector > 2) {
        if (!s.summing || from->number[4] != 0.0) s.origin = x;
    }
    for (;;) {
        int closed;
        if (!s.summing) KL_TRY(run(&s, &closed, err));
        *energy = s.lowest;
        stats->norm_h = s.norm_h;
        if (stats->stopped) break;
        const int done = stats->converged || stats->stagnated || stats->napply >= max_apply;
        if (done && !opts->want_vector) break;
        if (!x.addr) KL_TRY(take_room(&s, &own, &x, err)); /* 6. needs memory to begin from */
        KL_TRY(sum_up(&s, x, err));
        if (stats->stopped) break;
        if (done) {
            double e, square;
            const kl_dptr hx = s.two ? s.u : s.w;
            KL_TRY(apply(&s, 0, x, hx, &e, err));
            const kl_dptr in[2] = {hx, x}, out[1] = {hx};
            const double c[2] = {1.0, -e};
            const int pair[1][2] = {{2, 2}};
            const kl_fuse f = {.nin = 2, .nout = 1, .npair = 1, .in = in, .out = out, .c = c, .pair = pair};
            vt->fuse(h->ex, h->n, &f, &square);
            stats->residual = sqrt(square);
            *energy = e;
            break;
        }
        s.origin = x;
        s.m = 0;
        stats->nrestart++;
    }
out:
    vt->release(h->ex, &own);
    vt->release(h->ex, &s.u);
    vt->release(h->ex, &s.v);
    vt->release(h->ex, &s.w);
    kl_free(&host);
    return st;
}

/* ---------------------------------------------------------------- the bare recurrence */

/* ORDER: steps, length of the start, nu, nv; then alpha and beta of the steps. */
enum { CHAIN_FIXED = 4 };

static kl_status chain_keep(const solver *s, const kl_keeper *k, int done, double norm, kl_err *err)
{
    kl_status st = KL_OK;
    double *number = NULL;
    KL_TRY(kl_alloc(&number, CHAIN_FIXED + 2 * (int64_t)done, KL_MEM_WORK, err));
    number[0] = done;
    number[1] = norm;
    number[2] = s->nu;
    number[3] = s->nv;
    memcpy(number + CHAIN_FIXED, s->alpha, (size_t)done * sizeof(double));
    memcpy(number + CHAIN_FIXED + done, s->beta, (size_t)done * sizeof(double));
    const kl_dptr vector[2] = {s->u, s->v};
    const int64_t n[2] = {kl_linop_all(s->h), kl_linop_all(s->h)}, *const begin[2] = {s->h->begin,
                                                                                      s->h->begin};
    const kl_keep out = {.nnumber = CHAIN_FIXED + 2 * done,
                         .number = number,
                         .nvector = 2,
                         .vector = vector,
                         .n = n,
                         .begin = begin};
    st = k->write(k->self, &out, err);
out:
    kl_free(&number);
    return st;
}

static kl_status chain_take(solver *s, const kl_keep *from, int m, int *done, double *norm, kl_err *err)
{
    const double *const f = from->number;
    if (from->nvector != 2 || from->nnumber < CHAIN_FIXED || !(f[0] >= 1 && f[0] <= m) ||
        from->nnumber != CHAIN_FIXED + 2 * (int64_t)f[0])
        return kl_fail(
            err, KL_EINPUT,
            "Lanczos: the %lld numbers and %d vectors kept are not those of a recurrence of %d steps at most",
            (long long)from->nnumber, from->nvector, m);
    *done = (int)f[0];
    *norm = f[1];
    s->nu = f[2];
    s->nv = f[3];
    memcpy(s->alpha, f + CHAIN_FIXED, (size_t)*done * sizeof(double));
    memcpy(s->beta, f + CHAIN_FIXED + *done, (size_t)*done * sizeof(double));
    const kl_dptr to[2] = {s->u, s->v};
    return kl_keep_take(from, s->h, 2, to, err);
}

kl_status kl_recurrence_chain(const kl_linop *h, const kl_dptr vector[3], kl_recurrence_run *run, kl_err *err)
{
    kl_status st = KL_OK;
    const int m = run->m;
    const double *const alpha = run->alpha, *const beta = run->beta;
    const kl_keeper *const keeper = run->keeper;
    kl_recurrence_stats stats = {0};
    solver s = {.h = h,
                .stats = &stats,
                .v = vector[0],
                .u = vector[1],
                .w = vector[2],
                .nu = 1.0,
                .alpha = run->alpha,
                .beta = run->beta};
    const kl_dptr none = {0};
    double square, size = 0.0;
    run->done = 0;
    if (keeper && keeper->from) {
        KL_TRY(chain_take(&s, keeper->from, m, &run->done, &run->norm, err));
        for (int j = 0; j < run->done; j++) size = fmax(size, fmax(fabs(alpha[j]), beta[j]));
    } else {
        h->ex->vt.dots(h->ex, h->n, 1, s.v, h->n, s.v, &square);
        run->norm = s.nv = sqrt(square);
        if (!isfinite(run->norm))
            KL_TRY(kl_fail(err, KL_EINPUT, "Lanczos: the start vector has the norm %s",
                           kl_said(run->norm).text));
        if (run->norm == 0.0) return KL_OK;
    }
    while (run->done < m) {
        KL_TRY(step(&s, run->done, none, 0.0, 0, err));
        size = fmax(size, fmax(fabs(alpha[run->done]), beta[run->done]));
        run->done++;
        if (beta[run->done - 1] <= 16 * DBL_EPSILON * size) break;
        const kl_chain next = run->step ? run->step(run->self, run->done) : KL_CHAIN_ON;
        if (keeper && run->done < m &&
            (next == KL_CHAIN_PAUSE || (next == KL_CHAIN_ON && keeper->due(keeper->self))))
            KL_TRY(chain_keep(&s, keeper, run->done, run->norm, err));
        if (next != KL_CHAIN_ON) break;
    }
out:
    return st;
}
