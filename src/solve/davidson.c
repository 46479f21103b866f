/* Davidson's method (Alg. 3 of nemes2014) for a few lowest roots.

   1. The start vectors, made orthonormal, are the first basis V; zero or dependent ones are replaced by
      random directions.
   2. W = H V for the new vectors only; every later residual comes from W without a product.
   3. B = V^T W, one column per new vector; B y = theta y by LAPACK.
   4. When the next vectors would not fit: thick restart. The best Ritz vectors and those of the step before
      (Stathopoulos,
      GD+k) stay; V, W and B are transformed, nothing is multiplied by H.
   5. For each root x = V y, r = W y - theta x. Done when every |r| is below its target or cannot fall any
      further.
   6. t = -(M^-1 r) + e M^-1 x with M = diag(H) - theta, kept away from zero, and e such that t is orthogonal
      to x (Olsen).
   7. t, orthonormal to V, is the next vector of V; a random direction where nothing is left of it. Back to 2.

   Guards (opts->nguard) are roots above the wanted ones, so that states in the wrong order are noticed: they
   are improved like these, but only as long as their residual leaves it open whether they belong below;
   with opts->guard_loose until it is so many times the residual that the wanted ones are to have.

   A start that is an eigenvector to rounding, or a sum of a few, may miss the lowest one, and nothing in
   steps 2 to 7 would notice. Then one root more is followed for a few steps from a random direction (the
   guard); what comes up below takes over.
   SPDX-License-Identifier: Apache-2.0 */
#include "solve/davidson.h"
#include "base/mem.h"
#include "solve/davidsonbase.h"
#include "base/prof.h"

#include <math.h>
#include <string.h>

/* times the goal: what a guard as low as a wanted root has to reach; its energy is exact to about the
   square */
static const double GUARD_LOOSE = 10.0;

typedef kl_davidson solver;
typedef kl_davidson_course course;
typedef kl_davidson_moment moment;

static kl_dptr column(const solver *s, kl_dptr base, int j) { return kl_dptr_at(base, j * s->ld); }

static int basis_limit(const kl_eig_opts *opts, int64_t n)
{
    const int wanted = opts->max_basis > 0 ? opts->max_basis : KL_EIG_BASIS + 4 * opts->nroot;
    const int limit = wanted > opts->nroot + 2 ? wanted : opts->nroot + 2;
    return n < limit ? (int)n : limit;
}

/* Vectors kept over a restart, and how many of them are this step's Ritz vectors: one more than the roots,
   and as many again of the step before, for these make a short basis converge like conjugate gradients. In a
   very short one they go before the spare Ritz vector, and before having a new vector for every root at
   once. */
static int kept(int limit, int nwant, int *nritz)
{
    int ritz = nwant + 1 > limit / 4 ? nwant + 1 : limit / 4;
    int most = limit - nwant > 2 * nwant + 1 ? limit - nwant : 2 * nwant + 1;
    if (most > limit - 1) most = limit - 1;
    if (ritz + nwant > most) ritz = most - nwant > nwant ? most - nwant : nwant;
    *nritz = ritz;
    return ritz + nwant < most ? ritz + nwant : most;
}

/* x, r and M^-1 x need three; a restart of nroot and of nroot + 1 roots its own. */
static int spare_columns(const kl_eig_opts *opts, int64_t n)
{
    const int limit = basis_limit(opts, n);
    /* a collapse passes all roots through them, also where the basis is the space */
    int ritz, most = opts->nroot > 3 ? opts->nroot : 3;
    for (int nwant = opts->nroot; nwant <= opts->nroot + 1 && limit < n; nwant++) {
        const int total = kept(limit, nwant, &ritz);
        if (total > most) most = total;
    }
    return most;
}

int kl_davidson_columns(const kl_eig_opts *opts, int64_t n)
{
    return 2 * basis_limit(opts, n) + spare_columns(opts, n);
}

/* Columns that are on the device in any case, with one more of each kind for what comes from the host. */
int kl_davidson_least_columns(const kl_eig_opts *opts, int64_t n)
{
    return opts->nroot + spare_columns(opts, n) + 2 * (opts->nroot + 3);
}

/* All columns on the device, or as many as it has room for, those of V before those of W: V is read more
   often. What stays on the host is worked on there. */
static kl_status place_columns(solver *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t room = s->ex->vt.room(s->ex), bytes = s->ld * (int64_t)sizeof(double), limit = s->limit,
                  places = s->nroot + 2;
    /* device memory comes in steps of an eighth */
    const int64_t fit = room == INT64_MAX ? INT64_MAX : room / 9 * 8 / bytes;
    int64_t nv = limit, nw = limit, nplace = 0;
    const int kept_split = kl_davidson_kept_split(s, &nv, &nw);
    if (kept_split || fit < 2 * limit + s->nspare) {
        nplace = places;
        /* one more of each for what comes from the host */
        const int64_t left = fit - s->nspare - 2 * (places + 1);
        if (kept_split && nv + nw > left) {
            st = kl_fail(err, KL_ENOMEM,
                         "the device has room for %lld vectors of %lld numbers; the run that goes on had "
                         "%lld there",
                         (long long)fit, (long long)s->n, (long long)(fit - left + nv + nw));
            goto out;
        }
        if (!kept_split) {
            nv = left < limit ? left : limit;
            nw = left - nv < limit ? left - nv : limit;
        }
        if (nv < s->nroot) {
            st =
                kl_fail(err, KL_ENOMEM,
                        "the device has room for %lld vectors of %lld numbers; the eigensolver needs %lld "
                        "there at least",
                        (long long)fit, (long long)s->n, (long long)kl_davidson_least_columns(s->opts, s->n));
            goto out;
        }
        KL_TRY(kl_exec_open_host(s->ex->nthread, &s->cpu, err));
        if (s->ex->vt.alloc_far) KL_TRY(s->ex->vt.alloc_far(s->ex, s->n, &s->pinned, err));
        KL_TRY(kl_alloc(&s->far, (2 * limit - nv - nw) * s->ld + (s->pinned.addr ? 0 : s->n), KL_MEM_VECTOR,
                        err));
        s->ticket = -1;
    }
    KL_TRY(s->ex->vt.alloc(s->ex, (nv + nw + s->nspare + (nplace ? 2 * (nplace + 1) : 0)) * s->ld, &s->memory,
                           err));
    const kl_columns c = {.ex = s->ex,
                          .cpu = s->cpu,
                          .n = s->n,
                          .ld = s->ld,
                          .nplace = nplace ? (int)nplace : 1,
                          .buffer = s->pinned.addr ? (double *)s->pinned.addr
                                    : s->far       ? s->far + (2 * limit - nv - nw) * s->ld
                                                   : NULL,
                          .ticket = s->pinned.addr ? &s->ticket : NULL};
    s->v.c = s->w = c;
    s->v.c.ndev = (int)nv, s->v.c.dev = s->memory, s->v.c.host = s->far;
    s->w.ndev = (int)nw, s->w.dev = column(s, s->memory, (int)nv),
    s->w.host = s->far ? s->far + (limit - nv) * s->ld : NULL;
    s->spare = column(s, s->memory, (int)(nv + nw));
    s->v.c.place = column(s, s->spare, s->nspare);
    s->w.place = column(s, s->v.c.place, (int)nplace + 1);
    s->stats->nfar = (int)(2 * limit - nv - nw);
out:
    return st;
}

static kl_status open(solver *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t limit = s->limit, square = limit * limit;
    KL_TRY(kl_alloc(&s->host, 5 * square + 4 * (limit + 1), KL_MEM_WORK, err));
    s->b = s->host;
    s->y = s->b + square;
    s->z = s->y + square;
    s->old = s->z + square;
    s->small = s->old + square;
    s->theta = s->small + square;
    s->coef = s->theta + limit + 1;
    s->goal = s->coef + limit + 1;
    KL_TRY(place_columns(s, err));
    s->v.scratch = s->goal + limit + 1;
    s->v.h = s->h;
    s->v.random = s->opts->seed;
    /* and KL_LINE_REMOVE behind it */
    if (s->opts->lines) s->v.seconds = &s->stats->seconds_line[KL_LINE_OVERLAP];
out:
    return st;
}

/* Ends the time of a line; KL_NLINE: of nothing in particular. */
static kl_status lap(solver *s, kl_line line, kl_err *err)
{
    kl_status st = KL_OK;
    double ignored;
    if (!s->opts->lines) return KL_OK;
    if (s->ex->space == KL_SPACE_DEVICE) st = s->ex->vt.download(s->ex, &ignored, s->spare, 1, err);
    const double now = kl_prof_seconds();
    if (line < KL_NLINE) s->stats->seconds_line[line] += now - s->clock;
    s->clock = now;
    return st;
}

/* 1. */
static kl_status load_starts(solver *s, kl_dptr x, int64_t ldx, kl_err *err)
{
    kl_status st = KL_OK;
    for (s->k = 0; s->k < s->nroot; s->k++) {
        double left;
        s->ex->vt.copy(s->ex, s->n, kl_dptr_at(x, s->k * ldx), kl_ortho_at(&s->v, s->k));
        KL_TRY(kl_ortho_last(&s->v, s->k, &left, NULL, err));
        if (left == 0.0) KL_TRY(kl_ortho_fresh(&s->v, s->k, err));
    }
out:
    return st;
}

/* 2., 3. */
static kl_status project(solver *s, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(lap(s, KL_NLINE, err));
    const int64_t start = kl_prof_clock();
    const int together = s->cpu ? 1 : s->k - s->kw; /* columns that are being made stand anywhere */
    for (int j = s->kw; j < s->k; j += together)
        KL_TRY(
            s->h->apply(s->h, together, kl_ortho_at(&s->v, j), s->ld, kl_columns_at(&s->w, j), s->ld, err));
    s->stats->napply += s->k - s->kw;
    s->stats->seconds_apply += 1e-9 * (double)(kl_prof_clock() - start);
    KL_TRY(lap(s, KL_LINE_PRODUCT, err));
    const int64_t limit = s->limit;
    for (; s->kw < s->k; s->kw++) {
        const int j = s->kw;
        KL_TRY(kl_columns_dots(&s->v.c, j + 1, kl_columns_at(&s->w, j), s->coef, err));
        KL_TRY(kl_columns_settle(&s->w, j, err));
        KL_TRY(kl_eig_project(s->stats, j + 1, s->coef, j, limit, s->b, err));
    }
    KL_TRY(lap(s, KL_LINE_PROJECT, err));
    KL_TRY(kl_davidson_small_problem(s, err));
    KL_TRY(lap(s, KL_LINE_SMALL, err));
out:
    return st;
}

/* Largest |H v| known, by the part of it that lies in V; and what lies between the Ritz values. */
static double norm_seen(const solver *s, double *spread)
{
    double largest = 0.0;
    for (int j = 0; j < s->k; j++) {
        double sum = 0.0;
        for (int i = 0; i < s->k; i++) sum += s->b[i + j * s->limit] * s->b[i + j * s->limit];
        largest = fmax(largest, sum);
    }
    *spread = s->theta[s->k - 1] - s->theta[0];
    return sqrt(largest);
}

static double dot_small(int n, const double *a, const double *b)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Columns of z: Ritz vectors and what those of the step before add to them. Returns how many. */
static int choose_kept(solver *s)
{
    const int64_t limit = s->limit;
    int nritz;
    const int most = kept(s->limit, s->nwant, &nritz);
    memcpy(s->z, s->y, (size_t)(nritz * limit) * sizeof(double));
    int p = nritz;
    for (int i = 0; i < s->nwant && i < s->kold && p < most; i++) {
        double *const z = s->z + p * limit;
        for (int row = 0; row < s->k; row++) z[row] = row < s->kold ? s->old[row + i * limit] : 0.0;
        double norm = 0.0;
        for (int pass = 0; pass < 2; pass++) {
            for (int j = 0; j < p; j++) {
                const double c = dot_small(s->k, s->z + j * limit, z);
                for (int row = 0; row < s->k; row++) z[row] -= c * s->z[row + j * limit];
            }
            norm = sqrt(dot_small(s->k, z, z));
            if (pass == 0 && norm < 1e-14) break; /* the state has not moved: nothing but rounding */
            for (int row = 0; row < s->k; row++) z[row] /= norm;
        }
        if (norm >= 0.5) p++;
    }
    return p;
}

/* c[p] = c[k] z, through the spare columns. */
static kl_status transform(solver *s, const kl_columns *c, int p, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dptr in[KL_FUSE_MOST];
    /* one pass over all columns where memory is the host's */
    if (s->ex->vt.ritz && !s->cpu && s->k <= KL_FUSE_MOST && p <= KL_FUSE_MOST_OUT) {
        for (int j = 0; j < s->k; j++) in[j] = kl_columns_at(c, j);
        for (int j = 0; j < p; j++)
            memcpy(s->small + j * s->k, s->z + (int64_t)j * s->limit, (size_t)s->k * sizeof(double));
        s->ex->vt.fuse(s->ex, s->n, &(kl_fuse){.nin = s->k, .nout = p, .in = in, .out = in, .c = s->small},
                       NULL);
        goto out;
    }
    for (int j = 0; j < p; j++)
        KL_TRY(kl_columns_combine(c, s->k, s->z + (int64_t)j * s->limit, 0.0, column(s, s->spare, j), err));
    for (int j = 0; j < p; j++) {
        s->ex->vt.copy(s->ex, s->n, column(s, s->spare, j), kl_columns_at(c, j));
        KL_TRY(kl_columns_settle(c, j, err));
    }
out:
    return st;
}

/* 4. Afterwards the Ritz vectors are the first unit vectors. */
static kl_status restart(solver *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t limit = s->limit;
    const int p = choose_kept(s);
    KL_TRY(transform(s, &s->v.c, p, err));
    KL_TRY(transform(s, &s->w, p, err));
    for (int j = 0; j < p; j++) { /* small = B z, then B = z^T small */
        double *const bz = s->small + j * limit;
        memset(bz, 0, (size_t)s->k * sizeof(double));
        for (int i = 0; i < s->k; i++)
            for (int row = 0; row < s->k; row++) bz[row] += s->b[row + i * limit] * s->z[i + j * limit];
    }
    for (int j = 0; j < p; j++)
        for (int i = 0; i <= j; i++)
            s->b[i + j * limit] = s->b[j + i * limit] =
                dot_small(s->k, s->z + i * limit, s->small + j * limit);
    s->k = s->kw = p;
    s->stats->nrestart++;
    KL_TRY(kl_davidson_small_problem(s, err));
out:
    return st;
}

/* 5. x in spare 0, r in spare 1; *norm = |r|. */
static kl_status root_residual(solver *s, int root, double *norm, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = s->ex;
    const double *const y = s->y + (int64_t)root * s->limit;
    const kl_dptr x = column(s, s->spare, 0), r = column(s, s->spare, 1);
    double square;
    KL_TRY(lap(s, KL_NLINE, err));
    if (ex->vt.ritz && !s->cpu) {
        const kl_ritz both = {.k = s->k,
                              .ld = s->ld,
                              .v = s->v.c.dev,
                              .w = s->w.dev,
                              .x = x,
                              .r = r,
                              .y = y,
                              .theta = s->theta[root]};
        ex->vt.ritz(ex, s->n, &both, &square);
        *norm = sqrt(square);
        return lap(s, KL_LINE_RESIDUAL, err);
    }
    KL_TRY(kl_columns_combine(&s->v.c, s->k, y, 0.0, x, err));
    KL_TRY(lap(s, KL_LINE_RITZ, err));
    KL_TRY(kl_columns_combine(&s->w, s->k, y, 0.0, r, err));
    ex->vt.fuse(ex, s->n,
                &(kl_fuse){.nin = 2,
                           .nout = 1,
                           .npair = 1,
                           .in = (const kl_dptr[2]){r, x},
                           .out = &r,
                           .c = (const double[2]){1.0, -s->theta[root]},
                           .pair = (const int[1][2]){{2, 2}}},
                &square);
    *norm = sqrt(square);
    KL_TRY(lap(s, KL_LINE_RESIDUAL, err));
out:
    return st;
}

static void precondition(const solver *s, double theta, double floor, kl_dptr r, kl_dptr t)
{
    const kl_precond *const p = s->opts->precond;
    if (p != NULL) p->apply(p, theta, floor, r, t);
    else s->ex->vt.precondition(s->ex, s->n, s->h->diagonal, theta, floor, r, t);
}

/* 6. Into column `to` of V, from what root_residual() left; the sign does not matter. */
static kl_status correct(solver *s, int root, double norm, double spread, int plain, int to, kl_err *err)
{
    kl_exec *const ex = s->ex;
    const kl_dptr x = column(s, s->spare, 0), r = column(s, s->spare, 1), mx = column(s, s->spare, 2),
                  t = kl_ortho_at(&s->v, to);
    if (s->h->diagonal.addr == 0 || plain) {
        ex->vt.copy(ex, s->n, r, t);
        return lap(s, KL_LINE_CORRECT, err);
    }
    /* theta is known to |r| only, so a smaller denominator means nothing; and a thousandth of the spectrum
       seen is the least in any case: below it one component alone would make up t. */
    const double floor = fmax(fmax(0.1 * norm, 1e-3 * spread), 1e-300);
    const double theta = fmin(s->theta[root], s->below);
    double by_x[2]; /* t . x, M^-1 x . x */
    if (ex->vt.correct && !s->opts->precond) {
        kl_correction c = {.diag = s->h->diagonal, .r = r, .x = x, .t = t, .theta = theta, .floor = floor};
        ex->vt.correct_dots(ex, s->n, &c, by_x);
        c.e = isfinite(by_x[0] / by_x[1]) ? by_x[0] / by_x[1] : 0.0;
        ex->vt.correct(ex, s->n, &c);
        return lap(s, KL_LINE_CORRECT, err);
    }
    precondition(s, theta, floor, r, t);
    precondition(s, theta, floor, x, mx);
    ex->vt.fuse(ex, s->n,
                &(kl_fuse){.nin = 3,
                           .npair = 2,
                           .in = (const kl_dptr[3]){x, t, mx},
                           .pair = (const int[2][2]){{0, 1}, {0, 2}}},
                by_x);
    /* |e| |M^-1 x| far above |t| would leave nothing but M^-1 x: then its direction is as good as any, so no
       further care is taken. */
    const double e = by_x[0] / by_x[1];
    if (isfinite(e)) ex->vt.axpby(ex, s->n, -e, mx, 1.0, t);
    return lap(s, KL_LINE_CORRECT, err);
}

/* What a root's residual has to fall to. |r| bounds the distance of an eigenvalue: a quarter of the distance
   down to the wanted ones is enough for what lies above them. */
static double target(const solver *s, int root, double goal)
{
    const kl_eig_opts *const o = s->opts;
    const int nwanted = s->nroot - o->nguard;
    double ceiling = o->bounded ? o->ceiling : INFINITY;
    if (root >= nwanted && o->guard_loose > 0) return o->guard_loose * goal;
    if (root >= nwanted) ceiling = fmin(ceiling, s->theta[nwanted - 1]);
    const double enough = root >= nwanted ? GUARD_LOOSE * goal : goal;
    return fmax(enough, 0.25 * (s->theta[root] - ceiling));
}

/* Adds a hundredth of a random direction to column k of V: a start vector may lie in a subspace that H does
   not leave. */
static kl_status disturb(solver *s, kl_err *err)
{
    kl_status st = KL_OK;
    double square;
    const kl_dptr t = kl_ortho_at(&s->v, s->k), kept_t = column(s, s->spare, 2);
    s->ex->vt.copy(s->ex, s->n, t, kept_t);
    s->ex->vt.dots(s->ex, s->n, 1, kept_t, s->ld, kept_t, &square);
    KL_TRY(kl_ortho_random(&s->v, s->k, err));
    s->ex->vt.axpby(s->ex, s->n, 1.0, kept_t, 0.01 * sqrt(square), t);
out:
    return st;
}

/* Ritz vectors alone, to be multiplied afresh. */
static kl_status collapse(solver *s, kl_err *err)
{
    kl_status st = KL_OK;
    memcpy(s->z, s->y, (size_t)((int64_t)s->nroot * s->limit) * sizeof(double));
    KL_TRY(transform(s, &s->v.c, s->nroot, err));
    for (s->k = 0; s->k < s->nroot; s->k++) {
        double left;
        KL_TRY(kl_ortho_last(&s->v, s->k, &left, NULL, err));
        if (left == 0.0) KL_TRY(kl_ortho_fresh(&s->v, s->k, err));
    }
    s->kw = s->kold = 0;
    s->nwant = s->nroot;
out:
    return st;
}

typedef enum next { GO_ON, SEE_BELOW, CONFIRM, STOP } next;

static kl_status correct_root(solver *s, moment *m, int root, double r, kl_err *err)
{
    if (m->ncandidate >= m->room) return KL_OK;
    const double spread = m->spread > 0.0 ? m->spread : r;
    return correct(s, root, r, spread, m->plain, s->k + m->ncandidate++, err);
}

/* 5., 6.: residuals and corrections, which stand behind V and are not yet orthogonal to it. */
static kl_status correct_all(solver *s, course *c, moment *m, kl_err *err)
{
    kl_status st = KL_OK;
    kl_eig_stats *const stats = s->stats;
    m->guard_done = s->nwant == s->nroot;
    for (int root = 0; root < s->nwant && root < s->k; root++) {
        double r;
        KL_TRY(root_residual(s, root, &r, err));
        if (root == s->nroot) { /* the guard's */
            const double above = s->theta[root] - s->theta[root - 1];
            m->guard_done = c->guard_step >= KL_EIG_GUARD_STEPS || r <= fmax(m->rounding, 0.1 * above);
            if (!m->guard_done) KL_TRY(correct_root(s, m, root, r, err));
            continue;
        }
        if (!isfinite(r)) {
            st = kl_fail(err, KL_ENOCONV, "the residual of root %d is %s after %d products with H", root,
                         kl_said(r).text, stats->napply);
            goto out;
        }
        s->residual[root] = r;
        if (m->step == 0) s->goal[root] = fmax(s->opts->tol, s->opts->tol_rel * r);
        if (root == 0 && m->step == 0) c->first0 = r;
        if (root < s->nroot - s->opts->nguard) m->worst = fmax(m->worst, r);
        if (r <= target(s, root, s->goal[root])) continue;
        m->worst_open = fmax(m->worst_open, r);
        m->open_roots++;
        KL_TRY(correct_root(s, m, root, r, err));
    }
    stats->converged = m->open_roots == 0;
out:
    return st;
}

/* What follows from the residuals of a step. */
static next decide(solver *s, course *c, const moment *m)
{
    kl_eig_stats *const stats = s->stats;
    const int complete = s->k == kl_linop_dim(s->h);
    const double lagging = m->open_roots > 0 ? m->worst_open : m->worst;
    if (lagging < 0.5 * c->best) {
        c->best = lagging;
        c->best_step = m->step;
    }
    if (!m->guard_done) { /* what comes up from below starts anew */
        c->best = INFINITY;
        c->best_step = m->step;
    }
    /* Where rounding decides, a residual wanders; it is not asked to fall any more. */
    const int wanders = lagging < 1e-12 * m->norm_h && m->step - c->best_step >= KL_EIG_STALL_STEPS;
    const int stuck = m->open_roots > 0 && (lagging <= m->rounding || complete || wanders);
    const int closed = kl_eig_closed(m->step, m->worst, c->previous, m->rounding);
    c->previous = m->worst;
    const int suspect = closed && !c->guarded && !complete && !s->opts->trust_start &&
                        s->nroot + 1 < s->limit && m->budget > s->nroot;
    const int settled = (stuck || stats->converged) && (m->guard_done || complete);
    const int sure = stats->nrestart - c->confirmed < KL_EIG_RECHECK_RESTARTS || m->budget < s->nroot;
    if (!suspect && (settled ? sure : complete || m->room <= 0)) { /* the last: max_apply */
        stats->stagnated = settled && !stats->converged;
        stats->stopped = 0;
        return STOP;
    }
    if (stats->stopped) return STOP;
    return suspect ? SEE_BELOW : settled ? CONFIRM : GO_ON;
}

/* A guard: a random direction in addition to the roots alone, for other Ritz vectors of a closed V are
   eigenvectors and lead nowhere. */
static kl_status add_guard(solver *s, kl_err *err)
{
    kl_status st = KL_OK;
    if (s->k > s->nroot) KL_TRY(collapse(s, err));
    s->nwant = s->nroot + 1;
    KL_TRY(kl_ortho_fresh(&s->v, s->k, err));
    s->k++;
out:
    return st;
}

/* 7.: corrections join V. */
static kl_status extend(solver *s, course *c, const moment *m, kl_err *err)
{
    kl_status st = KL_OK;
    const int stalled = m->step == 2 && !c->disturbed && s->residual[0] > 0.5 * c->first0;
    if (stalled && m->ncandidate > 0) {
        c->disturbed = 1;
        KL_TRY(disturb(s, err));
    }
    const int from = s->k;
    for (int i = 0; i < m->ncandidate && s->k < s->limit; i++) {
        double left;
        if (from + i != s->k)
            s->ex->vt.copy(s->ex, s->n, kl_ortho_at(&s->v, from + i), kl_ortho_at(&s->v, s->k));
        KL_TRY(kl_ortho_last(&s->v, s->k, &left, NULL, err));
        if (left > 0.0) s->k++;
    }
    if (s->k == from) {
        KL_TRY(kl_ortho_fresh(&s->v, from, err));
        s->k++;
    }
    /* For the next restart; project() overwrites y. */
    s->kold = from;
    memcpy(s->old, s->y, (size_t)((int64_t)(s->nwant < from ? s->nwant : from) * s->limit) * sizeof(double));
out:
    return st;
}

/* 2. to 4. */
static kl_status begin_step(solver *s, const course *c, moment *m, kl_err *err)
{
    kl_status st = KL_OK;
    kl_eig_stats *const stats = s->stats;
    int nritz;
    KL_TRY(project(s, err));
    m->norm_h = norm_seen(s, &m->spread);
    const int room = s->limit - s->k, fresh_room = s->limit - kept(s->limit, s->nwant, &nritz);
    if (s->limit < kl_linop_dim(s->h) && room < (s->nwant < fresh_room ? s->nwant : fresh_room)) {
        KL_TRY(restart(s, err));
        kl_eig_watch(s->opts, stats, s->theta[0], s->residual[0]);
        if (kl_eig_due(s->opts, stats)) KL_TRY(kl_davidson_keep(s, c, m, err));
    }
out:
    return st;
}

static kl_status iterate(solver *s, kl_err *err)
{
    kl_status st = KL_OK;
    kl_eig_stats *const stats = s->stats;
    const int max_apply = s->opts->max_apply > 0 ? s->opts->max_apply : KL_EIG_APPLY;
    course c = {.best = INFINITY};
    kl_worth_seen seen = {0};
    moment first = {.step = 0};
    int resumed = s->opts->keeper != NULL && s->opts->keeper->from != NULL;
    if (resumed) KL_TRY(kl_davidson_take_up(s, &c, &first, err));
    for (int step = first.step;; step++, resumed = 0) {
        moment m = {.step = step, .norm_h = first.norm_h, .spread = first.spread};
        if (!resumed) KL_TRY(begin_step(s, &c, &m, err));
        m.rounding = KL_EIG_ROUNDING * m.norm_h;
        m.room = s->limit - s->k;
        /* A diagonal that says little of H can hold the residual where it is for ever, with a short basis at
           least. Without progress for a whole basis the bare residual alternates with it: that is conjugate
           gradients in effect, which always arrive. */
        m.plain = (step - c.best_step) / s->limit % 2 == 1;
        m.budget = max_apply - stats->napply;
        if (m.room > m.budget) m.room = m.budget;
        KL_TRY(correct_all(s, &c, &m, err));
        const int asked = stats->stopped;
        kl_eig_watch(s->opts, stats, s->theta[0], s->residual[0]);
        if (stats->stopped && !asked && s->opts->keeper) KL_TRY(kl_davidson_keep(s, &c, &m, err));
        const next then = decide(s, &c, &m);
        const int enough =
            s->nroot == 1 && kl_worth_ends(&s->opts->worth, &seen, step, s->theta[0], s->residual[0]);
        if (then == STOP || (then == GO_ON && enough)) break;
        if (then == SEE_BELOW) {
            c.guarded = 1;
            KL_TRY(add_guard(s, err));
            continue;
        }
        if (then == CONFIRM) {
            c.confirmed = stats->nrestart;
            KL_TRY(collapse(s, err));
            continue;
        }
        if (m.guard_done) s->nwant = s->nroot;
        else c.guard_step++;
        KL_TRY(extend(s, &c, &m, err));
    }
out:
    return st;
}

kl_status kl_davidson_solve(const kl_linop *h, const kl_eig_opts *opts, kl_dptr x, int64_t ldx,
                            double *energy, double *residual, kl_eig_stats *stats, kl_err *err)
{
    kl_status st = KL_OK;
    solver s = {.h = h,
                .ex = h->ex,
                .opts = opts,
                .stats = stats,
                .n = h->n,
                .ld = kl_eig_stride(h->n),
                .nroot = opts->nroot,
                .nwant = opts->nroot,
                .residual = residual,
                .below = INFINITY};
    s.limit = basis_limit(opts, kl_linop_dim(h));
    s.nspare = spare_columns(opts, kl_linop_dim(h));
    KL_TRY(open(&s, err));
    if (opts->stay_below) KL_TRY(kl_eig_below(h, &s.below, err));
    if (!opts->keeper || !opts->keeper->from) KL_TRY(load_starts(&s, x, ldx, err));
    KL_TRY(iterate(&s, err));
    for (int root = 0; root < s.nroot; root++) {
        KL_TRY(kl_ortho_ritz(&s.v, s.k, s.y + (int64_t)root * s.limit, kl_dptr_at(x, root * ldx), err));
        energy[root] = s.theta[root];
    }
out:
    if (s.memory.addr != 0) s.ex->vt.release(s.ex, &s.memory);
    if (s.ticket >= 0 && s.pinned.addr) s.ex->vt.join(s.ex, s.ticket, 1);
    if (s.pinned.addr) s.ex->vt.release(s.ex, &s.pinned);
    kl_exec_close(&s.cpu);
    kl_free(&s.far);
    kl_free(&s.host);
    return st;
}
