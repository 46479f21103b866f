/* Thick-restart Lanczos (Wu and Simon 2000) in blocks of nroot, every product orthogonalized against the
   whole basis. No W is stored and no residual is formed: half the memory of Davidson and less work per
   product, but no preconditioner.

   The basis is V = [done | open]. For each done vector v, H v = sum over all of V of b: column v of B. The
   residual of a Ritz vector y made of done vectors is what H y has in the open ones, |B[open][done] y|.

   1. The orthonormal start vectors are the open part.
   2. H times the open vectors; each product, orthogonalized against all of V, gives its column of B and a new
      open vector. A product that lies in V adds none.
   3. Ritz pairs of B[done][done] and their residuals from B[open][done].
   4. Done when every residual is below its target or at the level of rounding. Without open vectors the space
      is closed under H: random ones are taken in to see whether something lies lower (the guard), then the
      answer is exact.
   5. When the next block would not fit: the best Ritz vectors become the done part, with B = diag(theta) and
      B[open][done] transformed. To 2.
   SPDX-License-Identifier: Apache-2.0 */
#include "solve/lanczos.h"
#include "base/dense.h"
#include "base/mem.h"
#include "solve/ortho.h"
#include "base/prof.h"

#include <math.h>
#include <string.h>

typedef struct solver {
    const kl_linop *h;
    kl_exec *ex;
    const kl_eig_opts *opts;
    kl_eig_stats *stats;
    int64_t n, ld;
    int nroot, limit; /* limit: columns of V */
    int nspare;
    int k, top;       /* done vectors, and all of them */
    kl_ortho v;
    kl_dptr memory, spare;
    double *goal, *told; /* [nroot] what residuals have to reach; those found, the caller's */
    double *host, *b, *y, *small, *theta, *coef; /* b, y, small: [limit][limit] */
} solver;

/* A restart keeps at least nroot + 1 vectors in addition to two blocks, the open one and the one that its
   product makes. Lanczos has no W, so the bound that Davidson sets for V and W together leaves room for
   that. */
static int basis_limit(const kl_eig_opts *opts, int64_t n)
{
    const int wanted = opts->max_basis > 0 ? opts->max_basis : KL_EIG_BASIS + 4 * opts->nroot;
    const int least = 3 * opts->nroot + 3;
    const int limit = wanted > least ? wanted : least;
    return n < limit ? (int)n : limit;
}

static int spare_columns(const kl_eig_opts *opts, int64_t n)
{
    const int limit = basis_limit(opts, n);
    const int most = limit - 2 * opts->nroot, half = limit / 2;
    const int keep = half > opts->nroot + 1 ? half : opts->nroot + 1;
    return n <= limit ? opts->nroot : (keep < most ? keep : most);
}

int kl_lanczos_columns(const kl_eig_opts *opts, int64_t n)
{
    return basis_limit(opts, n) + spare_columns(opts, n);
}

static kl_dptr column(const solver *s, kl_dptr base, int j) { return kl_dptr_at(base, j * s->ld); }

static kl_status open(solver *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t limit = s->limit, square = limit * limit;
    KL_TRY(kl_alloc(&s->host, 3 * square + 4 * (limit + 1), KL_MEM_WORK, err));
    s->b = s->host;
    s->y = s->b + square;
    s->small = s->y + square;
    s->theta = s->small + square;
    s->coef = s->theta + limit + 1;
    s->goal = s->coef + limit + 1;
    KL_TRY(s->ex->vt.alloc(s->ex, (limit + s->nspare) * s->ld, &s->memory, err));
    s->spare = column(s, s->memory, s->limit);
    s->v = (kl_ortho){
        .c = {.ex = s->ex, .n = s->n, .ld = s->ld, .ndev = s->limit, .nplace = 1, .dev = s->memory},
        .scratch = s->goal + limit + 1,
        .h = s->h,
        .random = s->opts->seed};
out:
    return st;
}

/* 1. From the first nroot columns of V as they are; the basis starts anew. */
static kl_status begin(solver *s, kl_err *err)
{
    kl_status st = KL_OK;
    for (s->top = 0; s->top < s->nroot; s->top++) {
        double left;
        KL_TRY(kl_ortho_last(&s->v, s->top, &left, NULL, err));
        if (left == 0.0) KL_TRY(kl_ortho_fresh(&s->v, s->top, err));
    }
    s->k = 0;
out:
    return st;
}

/* 2. `count` open vectors are multiplied; the products stand behind V until each is used. */
static kl_status expand(solver *s, int count, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t limit = s->limit, start = kl_prof_clock();
    const int first = s->top;
    /* When V is all of the space there is no room behind it, and none is needed but for the coefficients:
       those go through the spare columns. */
    const int behind = first + count <= s->limit;
    const kl_dptr product = behind ? kl_ortho_at(&s->v, first) : s->spare;
    KL_TRY(s->h->apply(s->h, count, kl_ortho_at(&s->v, s->k), s->ld, product, s->ld, err));
    s->stats->napply += count;
    s->stats->seconds_apply += 1e-9 * (double)(kl_prof_clock() - start);
    for (int c = 0; c < count; c++) {
        const kl_dptr w = column(s, product, c);
        double left = 0.0;
        memset(s->coef, 0, (size_t)(limit + 1) * sizeof(double));
        if (s->top < s->limit) {
            if (w.addr != kl_ortho_at(&s->v, s->top).addr)
                s->ex->vt.copy(s->ex, s->n, w, kl_ortho_at(&s->v, s->top));
            KL_TRY(kl_ortho_last(&s->v, s->top, &left, s->coef, err));
        } else {
            s->ex->vt.dots(s->ex, s->n, s->top, s->v.c.dev, s->ld, w, s->coef);
        }
        const int rows = left > 0.0 ? s->top + 1 : s->top;
        KL_TRY(kl_eig_project(s->stats, rows, s->coef, s->k, limit, s->b, err));
        s->k++;
        s->top = rows;
    }
out:
    return st;
}

/* 3. Residual of a root. */
static double root_residual(const solver *s, int root)
{
    const int64_t limit = s->limit;
    const double *const y = s->y + root * limit;
    double square = 0.0;
    for (int i = s->k; i < s->top; i++) {
        double sum = 0.0;
        for (int j = 0; j < s->k; j++) sum += s->b[i + j * limit] * y[j];
        square += sum * sum;
    }
    return sqrt(square);
}

static double norm_seen(const solver *s)
{
    double largest = 0.0;
    for (int j = 0; j < s->k; j++) {
        double sum = 0.0;
        for (int i = 0; i < s->top; i++) sum += s->b[i + j * s->limit] * s->b[i + j * s->limit];
        largest = fmax(largest, sum);
    }
    return sqrt(largest);
}

/* First p columns of V = the first p Ritz vectors. */
static void transform(solver *s, int p)
{
    for (int j = 0; j < p; j++)
        s->ex->vt.combine(s->ex, s->n, s->k, s->v.c.dev, s->ld, s->y + (int64_t)j * s->limit, 0.0,
                          column(s, s->spare, j));
}

static void take_spare(solver *s, int p)
{
    for (int j = 0; j < p; j++) s->ex->vt.copy(s->ex, s->n, column(s, s->spare, j), kl_ortho_at(&s->v, j));
}

/* 5. */
static void restart(solver *s)
{
    const int64_t limit = s->limit;
    const int nopen = s->top - s->k;
    int p = s->nspare < s->k - 1 ? s->nspare : s->k - 1;
    const int most = s->limit - 2 * nopen;
    if (p > most) p = most;
    transform(s, p);
    take_spare(s, p);
    for (int i = 0; i < nopen; i++)
        for (int j = 0; j < p; j++) {
            double sum = 0.0;
            for (int row = 0; row < s->k; row++) sum += s->b[s->k + i + row * limit] * s->y[row + j * limit];
            s->small[i + j * limit] = sum;
        }
    for (int i = 0; i < nopen; i++)
        s->ex->vt.copy(s->ex, s->n, kl_ortho_at(&s->v, s->k + i), kl_ortho_at(&s->v, p + i));
    memset(s->b, 0, (size_t)(limit * limit) * sizeof(double));
    for (int j = 0; j < p; j++) {
        s->b[j + j * limit] = s->theta[j];
        for (int i = 0; i < nopen; i++)
            s->b[p + i + j * limit] = s->b[j + (p + i) * limit] = s->small[i + j * limit];
    }
    s->k = p;
    s->top = p + nopen;
    s->stats->nrestart++;
}

/* What iterate() remembers from step to step. */
typedef struct course {
    double best, previous; /* the worst residual: at its smallest, and a step before */
    int step, best_step;
    int guard_step; /* < 0: no guard has been needed */
    int confirmed; /* restarts at the last confirmation */
    int have_goal; /* 1: s->goal is set */
} course;

/* ---- what is kept: where the run is stopped, or in the step behind a restart ---- */

static const int MARK = 7003; /* the first of the numbers that this solver keeps */

static int64_t kept_numbers(const solver *s, int top)
{
    return 4 + KL_EIG_STATS + KL_KEEP_BITS + 7 + s->nroot + (int64_t)top * top;
}

/* ORDER of the numbers. */
static void list_state(solver *s, course *c, kl_keep_list *l)
{
    int mark = MARK;
    kl_keep_int(l, &mark);
    kl_keep_int(l, &s->nroot);
    kl_keep_int(l, &s->top);
    kl_keep_int(l, &s->k);
    kl_eig_stats_list(l, s->stats);
    kl_keep_bits(l, &s->v.random);
    kl_keep_reals(l, 1, &c->best);
    kl_keep_reals(l, 1, &c->previous);
    kl_keep_int(l, &c->step);
    kl_keep_int(l, &c->best_step);
    kl_keep_int(l, &c->guard_step);
    kl_keep_int(l, &c->confirmed);
    kl_keep_int(l, &c->have_goal);
    kl_keep_reals(l, s->nroot, s->goal);
    for (int j = 0; j < s->top; j++) kl_keep_reals(l, s->top, s->b + (int64_t)j * s->limit);
}

static kl_status list_columns(const solver *s, kl_dptr **out, kl_err *err)
{
    const kl_status st = kl_alloc(out, s->top, KL_MEM_WORK, err);
    for (int j = 0; j < s->top && st == KL_OK; j++) (*out)[j] = kl_ortho_at(&s->v, j);
    return st;
}

static kl_status keep(solver *s, const course *c, kl_err *err)
{
    kl_status st = KL_OK;
    course told = *c;
    double *number = NULL;
    kl_dptr *vector = NULL;
    const int64_t n = kept_numbers(s, s->top);
    KL_TRY(kl_alloc(&number, n, KL_MEM_WORK, err));
    KL_TRY(list_columns(s, &vector, err));
    list_state(s, &told, &(kl_keep_list){.at = number});
    const kl_keep out = {.nnumber = n, .number = number, .nvector = s->top, .vector = vector};
    KL_TRY(s->opts->keeper->write(s->opts->keeper->self, &out, err));
out:
    kl_free(&number);
    kl_free(&vector);
    return st;
}

static kl_status take_up(solver *s, course *c, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_keep *const from = s->opts->keeper->from;
    const double *const f = from->number;
    kl_dptr *vector = NULL;
    if (from->nnumber < 4 || f[0] != MARK || f[1] != s->nroot || !(f[2] >= s->nroot && f[2] <= s->limit) ||
        !(f[3] >= s->nroot && f[3] <= f[2]) || f[2] - f[3] > s->nroot || from->nvector != (int)f[2] ||
        from->nnumber != kept_numbers(s, (int)f[2]))
        return kl_eig_refuse(from, "Lanczos", s->nroot, err);
    list_state(s, c, &(kl_keep_list){.at = (double *)(uintptr_t)f, .reading = 1});
    if (c->guard_step < -1 || c->best_step < 0 || s->stats->napply < 0 || c->step < 0)
        return kl_eig_refuse(from, "Lanczos", s->nroot, err);
    KL_TRY(list_columns(s, &vector, err));
    KL_TRY(kl_keep_take(from, s->h, s->top, vector, err));
out:
    kl_free(&vector);
    return st;
}

/* 3. */
static kl_status ritz_values(solver *s, course *c, double *worst, kl_err *err)
{
    kl_status st = KL_OK;
    kl_eig_stats *const stats = s->stats;
    const int64_t limit = s->limit;
    for (int j = 0; j < s->k; j++) memcpy(s->y + j * limit, s->b + j * limit, (size_t)s->k * sizeof(double));
    KL_TRY(kl_dense_eig(s->k, s->y, s->limit, s->theta, err));
    *worst = 0.0;
    stats->converged = 1;
    for (int root = 0; root < s->nroot; root++) {
        const double r = root_residual(s, root);
        s->told[root] = r;
        if (!c->have_goal) s->goal[root] = fmax(s->opts->tol, s->opts->tol_rel * r);
        *worst = fmax(*worst, r);
        if (r > s->goal[root]) stats->converged = 0;
    }
    c->have_goal = 1;
out:
    return st;
}

static kl_status iterate(solver *s, kl_err *err)
{
    kl_status st = KL_OK;
    kl_eig_stats *const stats = s->stats;
    const int64_t limit = s->limit;
    const int max_apply = s->opts->max_apply > 0 ? s->opts->max_apply : KL_EIG_APPLY;
    course c = {.best = INFINITY, .guard_step = -1};
    int resumed = s->opts->keeper != NULL && s->opts->keeper->from != NULL, restarted = 0;
    if (resumed) KL_TRY(take_up(s, &c, err));
    for (;; c.step++, resumed = 0) {
        const int budget = max_apply - stats->napply;
        int count = s->top - s->k;
        if (budget < count && c.have_goal) count = budget;
        if (!resumed) KL_TRY(expand(s, count, err));
        double worst;
        KL_TRY(ritz_values(s, &c, &worst, err));
        /* 4. */
        const double norm_h = norm_seen(s), rounding = KL_EIG_ROUNDING * norm_h;
        kl_eig_watch(s->opts, stats, s->theta[0], s->told[0]);
        if ((stats->stopped || restarted) && kl_eig_due(s->opts, stats)) KL_TRY(keep(s, &c, err));
        restarted = 0;
        if (worst < 0.5 * c.best) {
            c.best = worst;
            c.best_step = c.step;
        }
        const int complete = s->k == kl_linop_dim(s->h), closed = s->top == s->k,
                  spent = stats->napply >= max_apply;
        const int stuck =
            !stats->converged &&
            (worst <= rounding || (worst < 1e-12 * norm_h && c.step - c.best_step >= KL_EIG_STALL_STEPS));
        const int suspect = closed || kl_eig_closed(c.step, worst, c.previous, rounding);
        c.previous = worst;
        if (c.guard_step < 0 && suspect) c.guard_step = s->opts->trust_start ? KL_EIG_GUARD_STEPS : 0;
        const int guarded = c.guard_step < 0 || c.guard_step++ >= KL_EIG_GUARD_STEPS,
                  settled = (stats->converged || stuck) && guarded;
        const int sure =
            stats->nrestart - c.confirmed < KL_EIG_RECHECK_RESTARTS || max_apply - stats->napply < s->nroot;
        if (complete || spent || (settled && sure)) {
            stats->stagnated = stuck;
            stats->stopped = 0;
            break;
        }
        if (stats->stopped) break;
        if (settled) {
            c.confirmed = stats->nrestart;
            transform(s, s->nroot);
            take_spare(s, s->nroot);
            memset(s->b, 0, (size_t)(limit * limit) * sizeof(double));
            KL_TRY(begin(s, err));
            continue;
        }

        /* 5. */
        const int nopen = closed ? 1 : s->top - s->k;
        if (s->limit < kl_linop_dim(s->h) && s->top + (closed ? 1 : 0) + nopen > s->limit) {
            restart(s);
            restarted = 1;
        }
        if (closed) {
            KL_TRY(kl_ortho_fresh(&s->v, s->top, err));
            s->top++;
        }
    }
out:
    return st;
}

kl_status kl_lanczos_solve(const kl_linop *h, const kl_eig_opts *opts, kl_dptr x, int64_t ldx, double *energy,
                           double *residual, kl_eig_stats *stats, kl_err *err)
{
    kl_status st = KL_OK;
    solver s = {.h = h,
                .ex = h->ex,
                .opts = opts,
                .stats = stats,
                .n = h->n,
                .ld = kl_eig_stride(h->n),
                .nroot = opts->nroot,
                .told = residual};
    s.limit = basis_limit(opts, kl_linop_dim(h));
    s.nspare = spare_columns(opts, kl_linop_dim(h));
    KL_TRY(open(&s, err));
    const int resumed = opts->keeper != NULL && opts->keeper->from != NULL;
    for (int j = 0; j < s.nroot && !resumed; j++)
        s.ex->vt.copy(s.ex, s.n, kl_dptr_at(x, j * ldx), kl_ortho_at(&s.v, j));
    if (!resumed) KL_TRY(begin(&s, err));
    KL_TRY(iterate(&s, err));
    for (int root = 0; root < s.nroot; root++) {
        KL_TRY(kl_ortho_ritz(&s.v, s.k, s.y + (int64_t)root * s.limit, kl_dptr_at(x, root * ldx), err));
        energy[root] = s.theta[root];
    }
out:
    if (s.memory.addr != 0) s.ex->vt.release(s.ex, &s.memory);
    kl_free(&s.host);
    return st;
}
