/* Fits of figures: see fit.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "figure/fit.h"

#include <math.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

/* Normal equations of columns of length 1: the terms are few and far from parallel. */
int kl_fit_linear(int n, int p, const double (*a)[KL_FIT_TERMS], const double *y, double *coef, double *rms)
{
    double gram[KL_FIT_TERMS][KL_FIT_TERMS + 1] = {{0}}, size[KL_FIT_TERMS] = {0}, left = 0;
    if (n < p) return 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < p; k++) size[k] += a[i][k] * a[i][k];
    for (int k = 0; k < p; k++)
        if (!(size[k] > 0)) return 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < p; k++) {
            for (int l = 0; l < p; l++) gram[k][l] += a[i][k] * a[i][l] / sqrt(size[k] * size[l]);
            gram[k][p] += a[i][k] * y[i] / sqrt(size[k]);
        }
    for (int k = 0; k < p; k++) { /* Gauss without pivots: the matrix is positive */
        if (!(gram[k][k] > 1e-13)) return 0;
        for (int l = k + 1; l < p; l++) {
            const double f = gram[l][k] / gram[k][k];
            for (int m = k; m <= p; m++) gram[l][m] -= f * gram[k][m];
        }
    }
    for (int k = p - 1; k >= 0; k--) {
        coef[k] = gram[k][p];
        for (int l = k + 1; l < p; l++) coef[k] -= gram[k][l] * coef[l];
        coef[k] /= gram[k][k];
    }
    for (int k = 0; k < p; k++) coef[k] /= sqrt(size[k]);
    for (int i = 0; i < n; i++) {
        double rest = y[i];
        for (int k = 0; k < p; k++) rest -= coef[k] * a[i][k];
        left += rest * rest;
    }
    *rms = sqrt(left / n);
    return isfinite(*rms);
}

/* ---------------------------------------------------------------- the central charge */

enum {
    MOST_CUT = 4096,
    NTRIM = 5,
};
static const double trim[NTRIM] = {1.0 / 16, 1.0 / 8, 1.0 / 6, 1.0 / 5, 1.0 / 4};

/* Of open chains: isotropic ones of 64 and 128 sites are 1.3 and 1.5 / ln^2 too low, with k = 0.58; XXZ
   chains of 64 with Delta = 0.8 and 0.7 are 1.0 and 0.75 / ln^2 too low, with k = 0.62 and 0.66. At
   Delta = 1/2 there are no logarithms, and k = 0.74; nor are there where J2 = 0.2411 J1 ends them in an
   isotropic chain, and k = 0.50. Isotropic rings of 16 to 64 sites are 0.108 / ln^3 too high, and do not
   alternate. */
static const double LOGARITHMS = 2, LOGARITHMS_CLOSED = 0.15;
static const double LOG_NONE = 0.52, LOG_FROM = 0.55, LOG_TO = 0.66, LOG_END = 0.74;

/* How much of the logarithms an open chain may have whose alternation falls by this exponent: 0 to 1. */
static double share_of_logarithms(double decay)
{
    if (decay < LOG_FROM) return fmax(0, (decay - LOG_NONE) / (LOG_FROM - LOG_NONE));
    return fmin(1, fmax(0, (LOG_END - decay) / (LOG_END - LOG_TO)));
}

typedef struct charge_fit {
    double c, constant, rms, shift, decay;
} charge_fit;

static double log_chord(int nsite, int closed, double shift, int l)
{
    if (closed) return log(nsite / PI * sin(PI * l / nsite));
    const double length = nsite + shift;
    return log(4 * length / PI * sin(PI * (2 * l + shift) / (2 * length)));
}

/* With given exponent and shift, cuts from `first' on, as many left out at the other end. */
static int try_charge(int nsite, int closed, const double *s, int first, double decay, charge_fit *out)
{
    double a[MOST_CUT][KL_FIT_TERMS];
    double coef[KL_FIT_TERMS];
    int n = 0;
    for (int l = first; l <= nsite - first && n < MOST_CUT; l++, n++) {
        const double chord = log_chord(nsite, closed, out->shift, l), sign = l % 2 ? -1 : 1;
        a[n][0] = chord / (closed ? 3 : 6);
        a[n][1] = 1;
        a[n][2] = sign * exp(-decay * chord);
        a[n][3] = sign * exp(-(decay + 1) * chord);
    }
    if (n < 8 || !kl_fit_linear(n, 4, (const double (*)[KL_FIT_TERMS])a, s + first - 1, coef, &out->rms))
        return 0;
    out->c = coef[0];
    out->constant = coef[1];
    return 1;
}

/* The best exponent, and the best shift of an open end where it is free. */
static int best_charge(int nsite, int closed, const double *s, int first, int free_shift, charge_fit *best)
{
    best->rms = INFINITY;
    const double last = free_shift ? 6.01 : 1.01;
    for (double shift = free_shift ? -1 : 1; shift < last; shift += 0.25)
        for (double decay = 0.2; decay < 2; decay += 0.1) {
            charge_fit now = {.shift = shift, .decay = decay};
            if (try_charge(nsite, closed, s, first, decay, &now) && now.rms < best->rms) *best = now;
        }
    const double about = best->decay;
    for (int k = -4; k <= 4 && isfinite(best->rms); k++) {
        charge_fit now = {.shift = best->shift, .decay = about + 0.02 * k};
        if (try_charge(nsite, closed, s, first, now.decay, &now) && now.rms < best->rms) *best = now;
    }
    return isfinite(best->rms);
}

int kl_fit_charge(int nsite, int closed, const double *s, double *c, double *error, int *marginal,
                  double *curve)
{
    charge_fit told = {0}, now = {0};
    double low = INFINITY, high = -INFINITY;
    int found = 0;
    if (nsite < 12) return 0;
    for (int k = 0; k < NTRIM; k++)
        for (int free_shift = 0; free_shift <= !closed; free_shift++) {
            const int first = (int)ceil(trim[k] * nsite) > 2 ? (int)ceil(trim[k] * nsite) : 2;
            if (!best_charge(nsite, closed, s, first, free_shift, &now)) continue;
            low = fmin(low, now.c);
            high = fmax(high, now.c);
            /* told: from an eighth of the chain on, where there are cuts enough, with the free shift */
            if (!found || k <= 1) told = now;
            found = 1;
        }
    if (!found) return 0;
    *c = told.c;
    *error = fmax(high - told.c, told.c - low);
    const double longest = log_chord(nsite, closed, told.shift, nsite / 2);
    const double share = told.c > 0.1 ? share_of_logarithms(told.decay) : 0;
    *marginal = !closed && share > 0;
    if (closed) *error = fmax(*error, fabs(told.c) * LOGARITHMS_CLOSED / (longest * longest * longest));
    else *error = fmax(*error, fabs(told.c) * share * LOGARITHMS / (longest * longest));
    for (int l = 1; curve != NULL && l < nsite; l++)
        curve[l - 1] = told.c / (closed ? 3 : 6) * log_chord(nsite, closed, told.shift, l) + told.constant;
    return 1;
}

/* ---------------------------------------------------------------- decays */

/* ln |C| by 1 and x: slope, and its error: how far it moves when the nearer half is left out, and no less
   than what is left of the points makes it uncertain. */
static int slope(int n, const double *x, const double *y, double *out, double *error, double *start,
                 double *rms)
{
    double a[400][KL_FIT_TERMS], coef[KL_FIT_TERMS], half;
    if (n > 400) n = 400;
    for (int i = 0; i < n; i++) {
        a[i][0] = 1;
        a[i][1] = x[i];
    }
    if (!kl_fit_linear(n, 2, (const double (*)[KL_FIT_TERMS])a, y, coef, rms)) return 0;
    *out = coef[1];
    *start = coef[0];
    const int skip = n / 2 < n - 3 ? n / 2 : n - 3;
    double mean = 0, spread = 0;
    for (int i = 0; i < n; i++) mean += x[i] / n;
    for (int i = 0; i < n; i++) spread += (x[i] - mean) * (x[i] - mean);
    if (!kl_fit_linear(n - skip, 2, (const double (*)[KL_FIT_TERMS])a + skip, y + skip, coef, &half))
        return 0;
    *error = fmax(fabs(coef[1] - *out), *rms * sqrt(n / ((n - 2) * spread)));
    return 1;
}

int kl_fit_decay(int n, const double *r, const double *c, double least, kl_decay *out)
{
    double x[400], lx[400], y[400], largest = 0, k, e;
    int m = 0;
    for (int i = 0; i < n; i++) largest = fmax(largest, fabs(c[i]));
    for (int i = 0; i < n && m < 400; i += 2) {
        /* of two neighbours the larger: what oscillates has its envelope */
        const int at = i + 1 < n && fabs(c[i + 1]) > fabs(c[i]) ? i + 1 : i;
        if (!(fabs(c[at]) > least * largest) || !(r[at] > 0)) continue;
        x[m] = r[at];
        lx[m] = log(r[at]);
        y[m++] = log(fabs(c[at]));
    }
    if (m < 4 || !slope(m, lx, y, &k, &e, &out->power_log, &out->power_rms) || k >= 0) return 0;
    out->power = -k;
    out->power_error = e;
    if (!slope(m, x, y, &k, &e, &out->length_log, &out->length_rms) || k >= 0) return 0;
    out->length = -1 / k;
    out->length_error = e / (k * k);
    return 1;
}

/* ---------------------------------------------------------------- long systems */

static int limit_by(int n, const double *l, const double *y, const int *power, int terms, kl_limit *out)
{
    double a[400][KL_FIT_TERMS];
    if (n > 400 || n <= terms) return 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < terms; k++) a[i][k] = pow(l[i], -power[k]);
    if (!kl_fit_linear(n, terms, (const double (*)[KL_FIT_TERMS])a, y, out->coef, &out->rms)) return 0;
    out->value = out->coef[0];
    out->rms *= sqrt((double)n / (n - terms));
    out->n = terms;
    memcpy(out->power, power, sizeof(int) * (size_t)terms);
    return 1;
}

int kl_fit_limit(int n, const double *l, const double *y, kl_limit *out)
{
    static const int form[][KL_FIT_TERMS] = {{0, 1},    {0, 2},       {0, 1, 2},    {0, 2, 3},   {0, 2, 4},
                                             {0, 1, 3}, {0, 1, 2, 3}, {0, 2, 3, 4}, {0, 2, 4, 6}};
    static const int terms[] = {2, 2, 3, 3, 3, 3, 4, 4, 4};
    enum { NFORM = sizeof terms / sizeof *terms };
    kl_limit all[NFORM], without;
    int best = -1, shortest = 0;
    double few_l[400], few_y[400];
    for (int k = 0; k < NFORM; k++) {
        if (!limit_by(n, l, y, form[k], terms[k], &all[k])) all[k].rms = INFINITY;
        else if (best < 0 || all[k].rms < all[best].rms) best = k;
    }
    if (best < 0) return 0;
    *out = all[best];
    out->error = 0;
    for (int k = 0; k < NFORM; k++) /* forms that fit nearly as well */
        if (all[k].rms <= 10 * all[best].rms) out->error = fmax(out->error, fabs(all[k].value - out->value));
    for (int i = 1; i < n; i++)
        if (l[i] < l[shortest]) shortest = i;
    int m = 0;
    for (int i = 0; i < n && m < 400; i++)
        if (i != shortest) {
            few_l[m] = l[i];
            few_y[m++] = y[i];
        }
    if (m >= terms[best]) {
        double a[400][KL_FIT_TERMS];
        for (int i = 0; i < m; i++)
            for (int k = 0; k < terms[best]; k++) a[i][k] = pow(few_l[i], -form[best][k]);
        if (kl_fit_linear(m, terms[best], (const double (*)[KL_FIT_TERMS])a, few_y, without.coef,
                          &without.rms))
            out->error = fmax(out->error, 2 * fabs(without.coef[0] - out->value));
    }
    return 1;
}
