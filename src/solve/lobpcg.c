/* Locally optimal block preconditioned conjugate gradients with fused vector work.
   1. X orthonormal, AX = H X, Rayleigh-Ritz. 2. W = AX - X theta, preconditioned where H has a diagonal, or
      by what the caller brought. 3. AW = H W for the columns that have not converged
   (soft locking: the others stay in the basis). 4. All inner products of S = [X W P] and AS. 5. Rayleigh-Ritz
   on S: columns scaled to length 1 (Fig. 3's S_B with the norm of x put right), directions of S_B that are
   rounding only left out, so that no factorization can fail; the result is checked.
   6. One pass: X, AX, P, AP and W anew, with their inner products: those of the next 4. but for W . AW, since
      x . Aw = w . Ax. So 4. is a pass of its own only for a
   preconditioned W, a wide block, and after 7. 7. X and AX are made afresh when x has drifted from
   orthonormality, when theta rises, and before convergence is believed. 8. When nothing moves any more P is
   dropped once; then W is random for a step, some times; then the stop says stagnated.
   SPDX-License-Identifier: Apache-2.0 */
#include "solve/lobpcg.h"
#include "base/dense.h"
#include "base/mem.h"
#include "solve/ortho.h"
#include "base/prof.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    DEFAULT_APPLY = 2000,
    REFRESH_STEPS = 60,
    STALL_STEPS = REFRESH_STEPS, /* one refresh at least may help */
    /* steps with random directions, where residuals stand still far from rounding */
    SHAKES = 4,
    MOST = 3 * KL_LOBPCG_MOST
};
/* times rounding: residuals that stand still above that are held by the directions at hand, not by
   arithmetic */
static const double FAR = 1e6;

/* ORDER of the column groups in memory and in the lists of inputs */
enum { X, AX, W, AW, P, AP, NGROUP };

typedef struct solver {
    const kl_linop *h;
    kl_exec *ex;
    const kl_eig_opts *opts;
    kl_eig_stats *stats;
    int nb, nwant;
    int64_t n, ld;
    kl_dptr memory;
    int nact, act[KL_LOBPCG_MOST];   /* columns of W in use */
    int np, pcol[KL_LOBPCG_MOST];    /* columns of P in use */
    /* 6. left all products of X, W and P in these two, [MOST][MOST], but for those of W and AW: */
    int known;
    /* of S and S, and of S and AS; column b of group X, W, P is number b, nb + b, 2 nb + b */
    double *kb, *ka;
    double waw;                   /* the only W . AW, taken with the product, */
    int has_waw;                  /* if so */
    double theta[KL_LOBPCG_MOST], residual[KL_LOBPCG_MOST];
    double *told;                 /* residuals, the caller's */
    double norm_h;
    /* the least element of the diagonal: preconditioners stay below it. Above, where random starts lie, they
       would lead to states close by instead of down */
    double below;
    /* W holds residuals in this unit, so that squares of theirs neither vanish nor overflow */
    double unit;
    double *sa, *sb, *y, *work, *lambda, *c; /* small matrices [MOST][MOST], host */
    double *coef, *dots;
    int (*pair)[2];
    double *host;
} solver;

int kl_lobpcg_columns(int nroot) { return NGROUP * nroot; }

static kl_dptr col(const solver *s, int group, int j)
{
    return kl_dptr_at(s->memory, ((int64_t)group * s->nb + j) * s->ld);
}

/* wanted: also waw, where the same pass gives it. */
static kl_status apply(solver *s, int from, int to, int j, int wanted, kl_err *err)
{
    const int64_t t = kl_prof_clock();
    s->has_waw = wanted && s->h->apply_dot;
    const kl_status st = s->has_waw ? s->h->apply_dot(s->h, col(s, from, j), col(s, to, j), &s->waw, err)
                                    : s->h->apply(s->h, 1, col(s, from, j), s->ld, col(s, to, j), s->ld, err);
    s->stats->napply++;
    s->stats->seconds_apply += 1e-9 * (double)(kl_prof_clock() - t);
    return st;
}

static void fuse(const solver *s, int nin, const kl_dptr *in, int nout, const kl_dptr *out, const double *c,
                 int npair, const int (*pair)[2], double *dots)
{
    for (int first = 0; first < npair || (first == 0 && nout > 0); first += KL_FUSE_MOST_PAIR) {
        const int now = npair - first < KL_FUSE_MOST_PAIR ? npair - first : KL_FUSE_MOST_PAIR;
        const kl_fuse f = {
            .nin = nin, .nout = nout, .npair = now, .in = in, .out = out, .c = c, .pair = pair + first};
        s->ex->vt.fuse(s->ex, s->n, &f, dots + first);
    }
}

/* A list of pairs under construction. */
static int push_pair(solver *s, int np, int a, int b)
{
    s->pair[np][0] = a;
    s->pair[np][1] = b;
    return np + 1;
}

/* 4. sb = S^T S, sa = S^T AS for k columns given by their numbers and addresses, column-major, leading
   dimension k. */
static void gram(solver *s, int k, const int *number, const kl_dptr *v, const kl_dptr *av)
{
    kl_dptr in[2 * MOST];
    int np = 0, nin = 0, place[MOST];
    /* What is read: everything, or the columns of W. */
    for (int i = 0; i < k; i++) {
        const int is_w = number[i] / s->nb == 1;
        place[i] = -1;
        if (s->known && (!is_w || s->has_waw)) continue;
        place[i] = nin;
        in[nin++] = v[i];
        in[nin++] = av[i];
    }
    for (int j = 0; j < k; j++)
        for (int i = 0; i <= j; i++) {
            if (place[i] < 0 || place[j] < 0) continue;
            if (!s->known) np = push_pair(s, np, place[i], place[j]);
            np = push_pair(s, np, place[i], place[j] + 1);
        }
    if (np > 0) fuse(s, nin, in, 0, NULL, NULL, np, (const int (*)[2])s->pair, s->dots);
    np = 0;
    for (int j = 0; j < k; j++)
        for (int i = 0; i <= j; i++) {
            const int at = number[i] + number[j] * MOST, read = place[i] >= 0 && place[j] >= 0;
            const double b = s->known ? s->kb[at] : s->dots[np++];
            const double a = read                                               ? s->dots[np++]
                             : number[i] == number[j] && number[i] / s->nb == 1 ? s->waw
                                                                                : s->ka[at];
            s->sb[i + j * k] = s->sb[j + i * k] = b;
            s->sa[i + j * k] = s->sa[j + i * k] = a;
        }
}

/* 5. Lowest nb Ritz pairs of the k columns: theta and c[k][nb]. *rank: independent directions found. */
static kl_status rayleigh_ritz(solver *s, int k, int *rank, kl_err *err)
{
    kl_status st = KL_OK;
    double scale[MOST];
    for (int i = 0; i < k; i++) {
        const double square = s->sb[i + i * k];
        if (!isfinite(square) || !isfinite(s->sa[i + i * k])) {
            st = kl_fail(err, KL_ENOCONV,
                         "after %d products with H an inner product is %s; H or a vector holds values that "
                         "are not finite",
                         s->stats->napply, kl_said(square).text);
            goto out;
        }
        scale[i] = square > 0.0 ? 1.0 / sqrt(square) : 0.0;
    }
    for (int j = 0; j < k; j++)
        for (int i = 0; i < k; i++) {
            s->y[i + j * k] = s->sb[i + j * k] * scale[i] * scale[j];
            s->sa[i + j * k] *= scale[i] * scale[j];
            s->norm_h = fmax(s->norm_h, fabs(s->sa[i + j * k]));
        }
    KL_TRY(kl_dense_eig(k, s->y, k, s->lambda, err));
    int first = 0;
    while (first < k && s->lambda[first] <= 1e-12 * s->lambda[k - 1]) first++;
    const int r = k - first;
    *rank = r;
    for (int j = 0; j < r; j++)
        for (int i = 0; i < k; i++) s->y[i + (first + j) * k] /= sqrt(s->lambda[first + j]);
    const double *const y = s->y + first * k;
    for (int j = 0; j < r; j++)
        for (int i = 0; i < k; i++) { /* work = sa y */
            double sum = 0.0;
            for (int l = 0; l < k; l++) sum += s->sa[i + l * k] * y[l + j * k];
            s->work[i + j * k] = sum;
        }
    for (int j = 0; j < r; j++)
        for (int i = 0; i < r; i++) {
            double sum = 0.0;
            for (int l = 0; l < k; l++) sum += y[l + i * k] * s->work[l + j * k];
            s->sb[i + j * r] = sum;
        }
    for (int j = 0; j < r; j++)
        for (int i = 0; i < j; i++)
            s->sb[i + j * r] = s->sb[j + i * r] = 0.5 * (s->sb[i + j * r] + s->sb[j + i * r]);
    KL_TRY(kl_dense_eig(r, s->sb, r, s->lambda, err));
    for (int b = 0; b < s->nb && b < r; b++) {
        s->theta[b] = s->lambda[b];
        for (int i = 0; i < k; i++) {
            double sum = 0.0;
            for (int l = 0; l < r; l++) sum += y[i + l * k] * s->sb[l + b * r];
            s->c[i + b * k] = sum * scale[i];
        }
    }
out:
    return st;
}

/* 6. From the columns S and AS with X first: X, AX, W for all, P, AP for the columns `with_p`. xx: lengths of
   the new x, squared. */
static void update(solver *s, int k, const kl_dptr *v, const kl_dptr *av, int with_p, double *xx)
{
    const int nb = s->nb, nin = 2 * k;
    kl_dptr in[2 * MOST], out[5 * KL_LOBPCG_MOST];
    /* of the new columns: their numbers, where they and their images are among the outputs; -1: to come */
    int number[MOST], at[MOST], image[MOST], n = 0;
    memcpy(in, v, (size_t)k * sizeof *in);
    memcpy(in + k, av, (size_t)k * sizeof *in);
    int nout = 0;
    memset(s->coef, 0, (size_t)(5 * nb * nin) * sizeof(double));
    for (int b = 0; b < nb; b++) {
        double *const cx = s->coef + (int64_t)nout * nin, *const cax = cx + nin, *const cw = cax + nin;
        out[nout] = col(s, X, b);
        out[nout + 1] = col(s, AX, b);
        out[nout + 2] = col(s, W, b);
        number[n] = b, at[n] = nin + nout, image[n++] = nin + nout + 1;
        number[n] = nb + b, at[n] = nin + nout + 2, image[n++] = -1;
        for (int i = 0; i < k; i++) {
            const double c = s->c[i + b * k];
            cx[i] = cax[k + i] = c;
            cw[k + i] = c / s->unit;
            cw[i] = -s->theta[b] / s->unit * c;
        }
        nout += 3;
        if (with_p && s->residual[b] > 0.0) { /* the part of the step that is not x */
            double *const cp = s->coef + (int64_t)nout * nin, *const cap = cp + nin;
            out[nout] = col(s, P, b);
            out[nout + 1] = col(s, AP, b);
            for (int i = nb; i < k; i++) cp[i] = cap[k + i] = s->c[i + b * k];
            number[n] = 2 * nb + b, at[n] = nin + nout, image[n++] = nin + nout + 1;
            nout += 2;
        }
    }
    /* Lengths of X and W, or all products: with the image of the one or of the other, H being symmetric. */
    int np = 0;
    s->known = n * (n + 1) <= KL_FUSE_MOST_PAIR;
    for (int j = 0; j < n; j++)
        for (int i = 0; i <= j; i++) {
            if (s->known ? 1 : i == j && number[i] < 2 * nb) np = push_pair(s, np, at[i], at[j]);
            if (s->known && (image[i] >= 0 || image[j] >= 0))
                np = push_pair(s, np, image[j] >= 0 ? at[i] : image[i], image[j] >= 0 ? image[j] : at[j]);
        }
    fuse(s, nin, in, nout, out, s->coef, np, (const int (*)[2])s->pair, s->dots);
    np = 0;
    for (int j = 0; j < n; j++)
        for (int i = 0; i <= j; i++) {
            const int one = number[i] + number[j] * MOST, other = number[j] + number[i] * MOST;
            if (s->known ? 1 : i == j && number[i] < 2 * nb) s->kb[one] = s->kb[other] = s->dots[np++];
            if (s->known && (image[i] >= 0 || image[j] >= 0)) s->ka[one] = s->ka[other] = s->dots[np++];
        }
    for (int b = 0; b < nb; b++) {
        s->residual[b] = sqrt(s->kb[(nb + b) * (MOST + 1)]) * s->unit;
        xx[b] = s->kb[b * (MOST + 1)];
    }
}

/* 1., 7. X as it stands -> orthonormal Ritz vectors with fresh products. */
static kl_status refresh(solver *s, int keep_p, kl_err *err)
{
    kl_status st = KL_OK;
    const int nb = s->nb;
    int number[KL_LOBPCG_MOST];
    kl_dptr v[KL_LOBPCG_MOST], av[KL_LOBPCG_MOST];
    double xx[KL_LOBPCG_MOST];
    kl_ortho o = {
        .c = {.ex = s->ex, .n = s->n, .ld = s->ld, .ndev = s->nb + 1, .nplace = 1, .dev = col(s, X, 0)},
        .scratch = s->dots,
        .h = s->h,
        .random = s->opts->seed + 77};
    for (int b = 0; b < nb; b++) {
        double left;
        KL_TRY(kl_ortho_last(&o, b, &left, NULL, err));
        if (left == 0.0) KL_TRY(kl_ortho_fresh(&o, b, err));
    }
    for (int b = 0; b < nb; b++) {
        KL_TRY(apply(s, X, AX, b, 0, err));
        number[b] = b;
        v[b] = col(s, X, b);
        av[b] = col(s, AX, b);
    }
    s->known = 0;
    gram(s, nb, number, v, av);
    int rank;
    KL_TRY(rayleigh_ritz(s, nb, &rank, err));
    if (rank < nb)
        KL_TRY(kl_fail(
            err, KL_ENOCONV,
            "LOBPCG: %d orthonormal vectors have only %d directions; H is not what it was a moment ago", nb,
            rank));
    if (s->unit == 0.0) s->unit = s->norm_h > 0.0 ? ldexp(1.0, ilogb(s->norm_h)) : 1.0;
    update(s, nb, v, av, 0, xx);
    if (!keep_p) s->np = 0;
    if (s->np > 0) s->known = 0;
out:
    return st;
}

/* Column b of W, of random numbers. */
static kl_status random_direction(solver *s, int b, uint64_t number, kl_err *err)
{
    kl_ortho o = {.c = {.ex = s->ex, .n = s->n, .ld = s->ld, .ndev = 1, .nplace = 1, .dev = col(s, W, b)},
                  .scratch = s->dots,
                  .h = s->h,
                  .random = s->opts->seed + 1000 + number + 7919 * (uint64_t)b};
    s->known = 0;
    return kl_ortho_random(&o, 0, err);
}

/* What iterate() remembers from step to step. */
typedef struct course {
    double best; /* the worst residual at its smallest, */
    int best_step; /* and when */
    double last_theta; /* sum of the values a step before; INFINITY: not to be compared */
    int fresh; /* 1: X and AX are fresh products */
    int since_refresh; /* steps */
    int dropped; /* 1: P has been dropped because nothing moved */
    int shaken; /* steps with random directions because nothing moved */
    int guard_until; /* step until which random directions look for what lies below */
} course;

/* 7. */
static kl_status make_fresh(solver *s, course *c, int keep_p, kl_err *err)
{
    const kl_status st = refresh(s, keep_p, err);
    c->fresh = 1;
    c->since_refresh = 0;
    c->last_theta = INFINITY;
    return st;
}

/* Residuals of all columns, and the columns that have not converged. */
static kl_status take_residuals(solver *s, double rounding, double *worst, kl_err *err)
{
    kl_status st = KL_OK;
    *worst = 0.0;
    s->nact = 0;
    for (int b = 0; b < s->nb; b++) {
        s->told[b] = s->residual[b];
        if (!isfinite(s->residual[b]))
            KL_TRY(kl_fail(err, KL_ENOCONV, "the residual of root %d is %s after %d products with H", b,
                           kl_said(s->residual[b]).text, s->stats->napply));
        if (b < s->nwant) *worst = fmax(*worst, s->residual[b]);
        /* guards that have converged rest as well */
        if (s->residual[b] > fmax(s->opts->tol, rounding)) s->act[s->nact++] = b;
    }
out:
    return st;
}

/* 2., 3.: W becomes random where that is asked for, else it is preconditioned. */
static kl_status make_directions(solver *s, int shake, int guard, int step, kl_err *err)
{
    kl_status st = KL_OK;
    if (shake) {
        for (int a = 0; a < s->nact; a++) KL_TRY(random_direction(s, s->act[a], (uint64_t)step, err));
    } else if (guard && s->nact == 0) {
        s->act[s->nact++] = 0;
        KL_TRY(random_direction(s, 0, (uint64_t)step, err));
    } else if (s->h->diagonal.addr != 0) {
        s->known = 0;
        for (int a = 0; a < s->nact; a++) {
            const int b = s->act[a];
            const double theta = fmin(s->theta[b], s->below), near = 1e-3 * s->norm_h;
            /* Where theta lies below the whole diagonal, all differences are positive, and small ones are
               told from large ones: of low states that differ by 1e-7 of H, as Hubbard's at large U, a floor
               would make one. */
            const double least = s->theta[b] < s->below ? fmin(near, s->below - s->theta[b]) : near;
            const double floor = fmax(fmax(0.1 * s->residual[b], least), 1e-300);
            if (s->opts->precond) { /* AW is free until W is multiplied */
                s->ex->vt.copy(s->ex, s->n, col(s, W, b), col(s, AW, b));
                s->opts->precond->apply(s->opts->precond, theta, floor, col(s, AW, b), col(s, W, b));
            } else {
                s->ex->vt.precondition(s->ex, s->n, s->h->diagonal, theta, floor, col(s, W, b), col(s, W, b));
            }
        }
    }
out:
    return st;
}

/* The basis S = [X W P] and AS of a step: columns and their numbers. */
typedef struct basis {
    kl_dptr v[MOST], av[MOST];
    int number[MOST], k;
} basis;

static kl_status make_basis(solver *s, basis *t, kl_err *err)
{
    kl_status st = KL_OK;
    const int nb = s->nb;
    for (t->k = 0; t->k < nb; t->k++) {
        t->number[t->k] = t->k;
        t->v[t->k] = col(s, X, t->k);
        t->av[t->k] = col(s, AX, t->k);
    }
    for (int a = 0; a < s->nact; a++, t->k++) {
        KL_TRY(apply(s, W, AW, s->act[a], s->known && s->nact == 1, err));
        t->number[t->k] = nb + s->act[a];
        t->v[t->k] = col(s, W, s->act[a]);
        t->av[t->k] = col(s, AW, s->act[a]);
    }
    for (int a = 0; a < s->np; a++) {
        int active = 0;
        for (int i = 0; i < s->nact; i++) active |= s->act[i] == s->pcol[a];
        if (!active) continue;
        t->number[t->k] = 2 * nb + s->pcol[a];
        t->v[t->k] = col(s, P, s->pcol[a]);
        t->av[t->k++] = col(s, AP, s->pcol[a]);
    }
out:
    return st;
}

/* 6., 7.: P lives on for the columns that moved. */
static kl_status advance(solver *s, course *c, const basis *t, kl_err *err)
{
    kl_status st = KL_OK;
    const int nb = s->nb;
    double xx[KL_LOBPCG_MOST], keep[KL_LOBPCG_MOST], drift = 0.0, sum = 0.0;
    memcpy(keep, s->residual, sizeof(keep));
    for (int b = 0; b < nb; b++) s->residual[b] = 0.0;
    for (int a = 0; a < s->nact; a++) s->residual[s->act[a]] = keep[s->act[a]] > 0.0 ? keep[s->act[a]] : 1.0;
    s->np = 0;
    for (int b = 0; b < nb; b++)
        if (s->residual[b] > 0.0) s->pcol[s->np++] = b;
    update(s, t->k, t->v, t->av, 1, xx);
    c->fresh = 0;
    for (int b = 0; b < nb; b++) {
        drift = fmax(drift, fabs(xx[b] - 1.0));
        sum += s->theta[b];
    }
    c->since_refresh++;
    const int risen = sum > c->last_theta + 1e-10 * s->norm_h * nb;
    c->last_theta = sum;
    if (!(drift < 1e-9) || risen || c->since_refresh >= REFRESH_STEPS) {
        KL_TRY(make_fresh(s, c, drift < 1e-9 && !risen, err));
        s->stats->nrestart++;
    }
out:
    return st;
}

/* ---- what is kept between two steps ---- */

static const int MARK = 7002; /* the first of the numbers that this solver keeps */

static int64_t kept_numbers(const solver *s)
{
    const int nb = s->nb;
    return 4 + KL_EIG_STATS + 8 + 6 + 3 * nb + 2 * (3 * (int64_t)nb) * (3 * nb);
}

/* ORDER of the numbers. */
static void list_state(solver *s, course *c, int *step, kl_keep_list *l)
{
    const int nb = s->nb;
    int mark = MARK;
    kl_keep_int(l, &mark);
    kl_keep_int(l, &s->nb);
    kl_keep_int(l, &s->nwant);
    kl_keep_int(l, step);
    kl_eig_stats_list(l, s->stats);
    kl_keep_reals(l, 1, &c->best);
    kl_keep_reals(l, 1, &c->last_theta);
    kl_keep_int(l, &c->best_step);
    kl_keep_int(l, &c->fresh);
    kl_keep_int(l, &c->since_refresh);
    kl_keep_int(l, &c->dropped);
    kl_keep_int(l, &c->shaken);
    kl_keep_int(l, &c->guard_until);
    kl_keep_int(l, &s->known);
    kl_keep_int(l, &s->has_waw);
    kl_keep_int(l, &s->np);
    kl_keep_reals(l, 1, &s->waw);
    kl_keep_reals(l, 1, &s->norm_h);
    kl_keep_reals(l, 1, &s->unit);
    kl_keep_reals(l, nb, s->theta);
    kl_keep_reals(l, nb, s->residual);
    for (int i = 0; i < nb; i++) kl_keep_int(l, &s->pcol[i]);
    for (int j = 0; j < 3 * nb; j++) {
        kl_keep_reals(l, 3 * nb, s->kb + (int64_t)j * MOST);
        kl_keep_reals(l, 3 * nb, s->ka + (int64_t)j * MOST);
    }
}

/* X, AX, W, and the columns of P and AP in use. */
static int list_columns(const solver *s, kl_dptr *out)
{
    static const int group[] = {X, AX, W};
    int n = 0;
    for (int g = 0; g < 3; g++)
        for (int b = 0; b < s->nb; b++) out[n++] = col(s, group[g], b);
    for (int a = 0; a < s->np; a++) {
        out[n++] = col(s, P, s->pcol[a]);
        out[n++] = col(s, AP, s->pcol[a]);
    }
    return n;
}

static kl_status keep(solver *s, const course *c, int step, kl_err *err)
{
    kl_status st = KL_OK;
    course told = *c;
    double *number = NULL;
    kl_dptr vector[5 * KL_LOBPCG_MOST];
    KL_TRY(kl_alloc(&number, kept_numbers(s), KL_MEM_WORK, err));
    list_state(s, &told, &step, &(kl_keep_list){.at = number});
    const int n = list_columns(s, vector);
    const kl_keep out = {.nnumber = kept_numbers(s), .number = number, .nvector = n, .vector = vector};
    KL_TRY(s->opts->keeper->write(s->opts->keeper->self, &out, err));
out:
    kl_free(&number);
    return st;
}

static kl_status take_up(solver *s, course *c, int *step, kl_err *err)
{
    const kl_keep *const from = s->opts->keeper->from;
    const double *const f = from->number;
    kl_dptr vector[5 * KL_LOBPCG_MOST];
    if (from->nnumber != kept_numbers(s) || f[0] != MARK || f[1] != s->nb || f[2] != s->nwant)
        return kl_eig_refuse(from, "LOBPCG", s->nb, err);
    list_state(s, c, step, &(kl_keep_list){.at = (double *)(uintptr_t)f, .reading = 1});
    int sound = s->np >= 0 && s->np <= s->nb && c->guard_until <= KL_EIG_GUARD_STEPS && c->best_step >= 0 &&
                s->stats->napply >= 0 && *step >= 0;
    for (int i = 0; sound && i < s->np; i++) sound = s->pcol[i] >= 0 && s->pcol[i] < s->nb;
    if (!sound || list_columns(s, vector) != from->nvector) return kl_eig_refuse(from, "LOBPCG", s->nb, err);
    return kl_keep_take(from, s->h, from->nvector, vector, err);
}

static kl_status iterate(solver *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int max_apply = s->opts->max_apply > 0 ? s->opts->max_apply : DEFAULT_APPLY;
    kl_eig_stats *const stats = s->stats;
    course c = {.best = INFINITY, .last_theta = INFINITY, .fresh = 1, .guard_until = -1};
    int first = 0;
    if (s->opts->keeper && s->opts->keeper->from) KL_TRY(take_up(s, &c, &first, err));
    else KL_TRY(refresh(s, 0, err));
    for (int step = first;; step++) {
        const double rounding = KL_EIG_ROUNDING * s->norm_h;
        double worst;
        KL_TRY(take_residuals(s, rounding, &worst, err));
        if (worst < 0.7 * c.best) {
            c.best = worst;
            c.best_step = step;
        }
        stats->converged = worst <= s->opts->tol;
        kl_eig_watch(s->opts, stats, s->theta[0], s->residual[0]);
        if (kl_eig_due(s->opts, stats)) KL_TRY(keep(s, &c, step, err));
        const int exact = worst <= rounding, stuck = exact || step - c.best_step >= STALL_STEPS;
        if (step == 0 && (stats->converged || exact) && !s->opts->trust_start) {
            /* A start that is an eigenvector, of any energy, has nothing to move it: random directions in
               addition see what lies below. */
            c.guard_until = KL_EIG_GUARD_STEPS;
        }
        const int spent = stats->napply + (s->nact > 0 ? s->nact : 1) > max_apply;
        const int settled = (stats->converged || stuck || spent) && step >= c.guard_until;
        if (settled) {
            if (!c.fresh && !spent) { /* 7. believed only of fresh products */
                KL_TRY(make_fresh(s, &c, 1, err));
                step--;
                continue;
            }
            const int no_more = c.dropped && (c.shaken == SHAKES || worst <= FAR * rounding);
            if (stats->converged || exact || spent || no_more) {
                stats->stagnated = !stats->converged && !spent;
                stats->stopped = 0;
                break;
            }
        }
        if (stats->stopped) break;
        const int shake = settled && c.dropped;
        if (settled) { /* 8. */
            c.shaken += c.dropped;
            c.dropped = 1;
            s->np = 0;
            c.best = INFINITY;
            c.best_step = step;
        }
        KL_TRY(make_directions(s, shake, step < c.guard_until, step, err));
        if (s->nact == 0) break; /* every column is exact, and so is the answer */
        basis t;
        int rank;
        KL_TRY(make_basis(s, &t, err));
        gram(s, t.k, t.number, t.v, t.av); /* 4. */
        KL_TRY(rayleigh_ritz(s, t.k, &rank, err)); /* 5. */
        if (rank < s->nb) { /* X itself has lost a direction: nothing was overwritten yet */
            KL_TRY(make_fresh(s, &c, 0, err));
            continue;
        }
        KL_TRY(advance(s, &c, &t, err));
    }
out:
    return st;
}

kl_status kl_lobpcg_solve(const kl_linop *h, const kl_eig_opts *opts, int nwant, kl_dptr x, int64_t ldx,
                          double *energy, double *residual, kl_eig_stats *stats, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t start = kl_prof_clock();
    solver s = {.h = h,
                .ex = h->ex,
                .opts = opts,
                .stats = stats,
                .nb = opts->nroot,
                .nwant = nwant,
                .told = residual,
                .n = h->n,
                .ld = kl_eig_stride(h->n)};
    *stats = (kl_eig_stats){0};
    if (kl_linop_all(h) < 1)
        return kl_fail(err, KL_EINPUT, "LOBPCG: a matrix of %lld rows; at least 1 is needed",
                       (long long)kl_linop_all(h));
    if (opts->nroot < 1 || opts->nroot > KL_LOBPCG_MOST || opts->nroot > kl_linop_all(h) || nwant < 1 ||
        nwant > opts->nroot)
        return kl_fail(err, KL_EINPUT,
                       "LOBPCG: %d of %d vectors for a matrix of %lld rows; 1 to %lld are allowed", nwant,
                       opts->nroot, (long long)kl_linop_all(h),
                       (long long)(kl_linop_all(h) < KL_LOBPCG_MOST ? kl_linop_all(h) : KL_LOBPCG_MOST));
    if (!(opts->tol >= 0.0))
        return kl_fail(err, KL_EINPUT, "LOBPCG: a tolerance of %g; 0 or more is allowed", opts->tol);
    const int64_t square = (int64_t)MOST * MOST, npair = (int64_t)MOST * (MOST + 1),
                  ncoef = (int64_t)5 * KL_LOBPCG_MOST * 2 * MOST;
    KL_TRY(kl_alloc(&s.host, 7 * square + MOST + npair + ncoef, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&s.pair, npair, KL_MEM_WORK, err));
    s.sa = s.host;
    s.sb = s.sa + square;
    s.y = s.sb + square;
    s.work = s.y + square;
    s.c = s.work + square;
    s.kb = s.c + square;
    s.ka = s.kb + square;
    s.lambda = s.ka + square;
    s.dots = s.lambda + MOST;
    s.coef = s.dots + npair;
    KL_TRY(s.ex->vt.alloc(s.ex, (int64_t)NGROUP * s.nb * s.ld, &s.memory, err));
    for (int b = 0; b < s.nb; b++) s.ex->vt.copy(s.ex, s.n, kl_dptr_at(x, b * ldx), col(&s, X, b));
    KL_TRY(kl_eig_below(h, &s.below, err));
    KL_TRY(iterate(&s, err));
    for (int b = 0; b < s.nb; b++) {
        double norm2;
        const kl_dptr to = kl_dptr_at(x, b * ldx);
        s.ex->vt.copy(s.ex, s.n, col(&s, X, b), to);
        s.ex->vt.dots(s.ex, s.n, 1, to, ldx, to, &norm2);
        s.ex->vt.combine(s.ex, s.n, 0, to, ldx, NULL, 1.0 / sqrt(norm2), to);
        energy[b] = s.theta[b];
    }
out:
    if (s.memory.addr) s.ex->vt.release(s.ex, &s.memory);
    kl_free(&s.pair);
    kl_free(&s.host);
    stats->seconds_all = 1e-9 * (double)(kl_prof_clock() - start);
    return st;
}
