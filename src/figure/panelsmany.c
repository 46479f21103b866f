/* Panels of several results: see panels.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "figure/panels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "figure/fit.h"

enum { MOST_RESULT = 400 };

/* In what but the axis results differ. */
typedef struct difference {
    int model, lattice, sector, parameter;
} difference;

typedef struct many {
    int n;
    kl_result *const *r;
    const char *const *path;
    int param; /* of each result the one scalar that differs, -1: none, or several */
    int charge; /* where all else is equal, the one charge that differs, -1: none, or several */
    int sectors; /* different charges of systems of one size */
    int sizes; /* different numbers of sites */
    int one_system; /* they are of one model, kind of lattice and set of parameters */
    difference any; /* where there is an axis: between any two; so there are several lines against it */
} many;

/* The value of a parameter that is one number, maybe the same on all sites or bonds; else NAN. */
static double scalar(const kl_result *r, int k)
{
    return kl_result_param_even(&r->param[k]) ? kl_result_param_at(&r->param[k], 0) : NAN;
}

static double charge_of(const kl_result *r, int c)
{
    return (double)r->charge[c].value * r->charge[c].unit_num / r->charge[c].unit_den;
}

static void compare_charges(many *all)
{
    int found = 0;
    const kl_result *const first = all->r[0];
    for (int i = 1; i < all->n; i++) {
        if (all->r[i]->ncharge != first->ncharge || strcmp(all->r[i]->model, first->model) != 0) return;
        for (int c = 0; c < first->ncharge; c++)
            if (strcmp(all->r[i]->charge[c].name, first->charge[c].name) != 0) return;
    }
    for (int c = 0; c < first->ncharge; c++) {
        int differs = 0;
        for (int i = 1; i < all->n; i++) differs |= charge_of(all->r[i], c) != charge_of(first, c);
        if (differs) {
            found++;
            all->charge = c;
        }
    }
    all->sectors = found > 0 && !all->sizes;
    if (found != 1 || all->param >= 0 || all->sizes) all->charge = -1;
}

static void compare_parameters(many *all)
{
    int found = 0;
    const kl_result *const first = all->r[0];
    for (int i = 1; i < all->n; i++) {
        all->sizes |= all->r[i]->nsite != first->nsite;
        if (all->r[i]->nparam != first->nparam) return;
    }
    for (int k = 0; k < first->nparam; k++) {
        int differs = 0, uneven = isnan(scalar(first, k));
        for (int i = 1; i < all->n; i++) {
            differs |= strcmp(all->r[i]->param[k].name, first->param[k].name) != 0 ||
                       scalar(all->r[i], k) != scalar(first, k);
            uneven |= isnan(scalar(all->r[i], k));
        }
        if (differs && !uneven) {
            found++;
            all->param = k;
        }
    }
    if (found != 1) all->param = -1;
}

/* By the parameter or charge in which they differ. */
static int has_axis(const many *all) { return all->param >= 0 || all->charge >= 0; }

static double axis(const many *all, const kl_result *r)
{
    return all->param >= 0 ? scalar(r, all->param) : charge_of(r, all->charge);
}

static const char *axis_name(const many *all)
{
    return all->param >= 0 ? all->r[0]->param[all->param].name : all->r[0]->charge[all->charge].name;
}

/* 1: all values of parameter k are the same in both. */
static int same_parameter(const kl_result *a, const kl_result *b, int k)
{
    const kl_result_param *const p = &a->param[k], *const q = &b->param[k];
    const int64_t n = kl_result_param_count(p);
    if (strcmp(p->name, q->name) != 0 || n != kl_result_param_count(q)) return 0;
    for (int64_t i = 0; i < n; i++)
        if (kl_result_param_at(p, i) != kl_result_param_at(q, i)) return 0;
    return 1;
}

static int same_charge(const kl_result *a, const kl_result *b, int c)
{
    return strcmp(a->charge[c].name, b->charge[c].name) == 0 && charge_of(a, c) == charge_of(b, c);
}

static int same_lattice(const kl_result *a, const kl_result *b)
{
    return a->nsite == b->nsite && strcmp(a->lattice, b->lattice) == 0;
}

static int same_model(const kl_result *a, const kl_result *b)
{
    return strcmp(a->model, b->model) == 0 && strcmp(a->variant, b->variant) == 0;
}

static difference compare_results(const many *all, const kl_result *a, const kl_result *b)
{
    difference d = {!same_model(a, b), !same_lattice(a, b), a->ncharge != b->ncharge, a->nparam != b->nparam};
    for (int c = 0; c < a->ncharge && !d.sector; c++) d.sector = c != all->charge && !same_charge(a, b, c);
    for (int k = 0; k < a->nparam && !d.parameter; k++)
        d.parameter = k != all->param && !same_parameter(a, b, k);
    return d;
}

static void add_words(char *out, size_t size, const char *words)
{
    const size_t used = strlen(out);
    snprintf(out + used, size - used, "%s%s", used > 0 ? ", " : "", words);
}

/* Values that differ among the results; of one that is no number the name of the file tells it. */
static void add_parameters(const many *all, int i, char *out, size_t size)
{
    const kl_result *const r = all->r[i];
    const char *const slash = strrchr(all->path[i], '/');
    char words[100];
    int uneven = 0;
    for (int k = 0; k < r->nparam; k++) {
        int differs = 0;
        for (int j = 0; j < all->n; j++)
            differs |= same_model(r, all->r[j]) && same_lattice(r, all->r[j]) && k != all->param &&
                       k < all->r[j]->nparam && !same_parameter(r, all->r[j], k);
        uneven |= differs && isnan(scalar(r, k));
        if (!differs || isnan(scalar(r, k))) continue;
        snprintf(words, sizeof words, "%.40s = %.6g", r->param[k].name, scalar(r, k));
        add_words(out, size, words);
    }
    if (uneven) add_words(out, size, slash != NULL ? slash + 1 : all->path[i]);
}

/* A sector goes with its system: half filling has another N at each size. */
static void compare_lines(many *all)
{
    for (int a = 0; a < all->n; a++)
        for (int b = 0; b < a; b++) {
            const difference d = compare_results(all, all->r[a], all->r[b]);
            all->any.model |= d.model;
            all->any.lattice |= d.lattice;
            all->any.sector |= d.sector && !d.lattice && !d.model;
            all->any.parameter |= d.parameter && !d.model;
        }
}

/* What results of one line against the axis share, of that in which lines differ; adds it to out. */
static void name_of_line(const many *all, int i, char *out, size_t size)
{
    const kl_result *const r = all->r[i];
    char words[100];
    if (all->any.model) add_words(out, size, r->model);
    if (all->any.lattice) {
        int other = 0; /* in more than their length */
        for (int k = 0; k < all->n; k++) other |= strcmp(r->lattice, all->r[k]->lattice) != 0;
        if (other) snprintf(words, sizeof words, "%.60s", r->lattice);
        if (other) add_words(out, size, words);
        snprintf(words, sizeof words, "L = %d", r->nsite);
        if (strchr(r->lattice, ':') == NULL) add_words(out, size, words);
    }
    kl_result_print_charges(r, words, sizeof words);
    if (all->any.sector) add_words(out, size, words);
    if (all->any.parameter) add_parameters(all, i, out, size);
}

/* "cylinder" of "cylinder:8x4". */
static size_t kind_of_lattice(const kl_result *r) { return strcspn(r->lattice, ":"); }

/* 1: the results are of one system but for its size and sector, so that a line through sizes means something.
   Values by site or bond cannot be compared. */
static int of_one_system(const many *all)
{
    const kl_result *const a = all->r[0];
    for (int i = 1; i < all->n; i++) {
        const kl_result *const b = all->r[i];
        if (strcmp(a->model, b->model) != 0 || strcmp(a->variant, b->variant) != 0) return 0;
        if (kind_of_lattice(a) != kind_of_lattice(b) ||
            strncmp(a->lattice, b->lattice, kind_of_lattice(a)) != 0 || a->nparam != b->nparam)
            return 0;
        for (int k = 0; k < a->nparam; k++)
            if (strcmp(a->param[k].name, b->param[k].name) != 0 ||
                fabs(scalar(a, k) - scalar(b, k)) > 0) /* not of NAN */
                return 0;
    }
    return 1;
}

/* What tells a result from the others. */
static void name_of(const many *all, int i, char *out, size_t size)
{
    const kl_result *const r = all->r[i];
    char charges[100];
    const char *const slash = strrchr(all->path[i], '/');
    kl_result_print_charges(r, charges, sizeof charges);
    if (has_axis(all)) {
        snprintf(out, size, "%s = %.6g", axis_name(all), axis(all, r));
        name_of_line(all, i, out, size);
    } else if (all->sizes && all->one_system) snprintf(out, size, "L = %d %.60s", r->nsite, charges);
    else if (all->sectors && all->one_system) snprintf(out, size, "%s", charges);
    else snprintf(out, size, "%s", slash != NULL ? slash + 1 : all->path[i]);
}

/* Least squares need numbers in order. */
typedef struct point {
    double x, y;
} point;

static int compare_points(const void *pa, const void *pb)
{
    const point *const a = pa, *const b = pb;
    return a->x < b->x ? -1 : a->x > b->x ? 1 : (a->y > b->y) - (a->y < b->y);
}

static kl_status points(kl_panel *p, const char *name, kl_stroke stroke, int n, const point *v, kl_err *err)
{
    kl_status st = KL_OK;
    kl_series *s;
    KL_TRY(kl_panel_add(p, name, stroke, n, 0, &s, err));
    for (int i = 0; i < n; i++) {
        s->x[i] = v[i].x;
        s->y[i] = v[i].y;
    }
out:
    return st;
}

/* ---------------------------------------------------------------- sizes */

/* 1: another result is of the same sector and has more states, or came first: a gap is between two states. */
static int is_double(const many *all, int i)
{
    const kl_result *const r = all->r[i];
    char charges[100], other[100];
    kl_result_print_charges(r, charges, sizeof charges);
    for (int k = 0; k < all->n; k++) {
        const kl_result *const b = all->r[k];
        if (k == i || b->nsite != r->nsite) continue;
        kl_result_print_charges(b, other, sizeof other);
        if (strcmp(charges, other) == 0 &&
            (b->dmrg.nstate > r->dmrg.nstate || (b->dmrg.nstate == r->dmrg.nstate && k < i)))
            return 1;
    }
    return 0;
}

/* The difference of the two lowest energies of all results of each size: of two states of one, or of two
   sectors. */
static int gaps(const many *all, point *out)
{
    int n = 0;
    for (int i = 0; i < all->n; i++) {
        double low[2] = {INFINITY, INFINITY};
        int seen = 0;
        for (int j = 0; j < i; j++) seen |= all->r[j]->nsite == all->r[i]->nsite;
        for (int j = i; j < all->n && !seen; j++) {
            if (all->r[j]->nsite != all->r[i]->nsite || is_double(all, j)) continue;
            for (int k = 0; k < all->r[j]->dmrg.nstate; k++) {
                const double e = all->r[j]->dmrg.energy[k];
                if (e < low[0]) {
                    low[1] = low[0];
                    low[0] = e;
                } else low[1] = fmin(low[1], e);
            }
        }
        if (!seen && isfinite(low[1])) out[n++] = (point){all->r[i]->nsite, low[1] - low[0]};
    }
    qsort(out, (size_t)n, sizeof *out, compare_points);
    return n;
}

static int energies_per_site(const many *all, point *out)
{
    int n = 0;
    for (int i = 0; i < all->n; i++) {
        int lowest = all->r[i]->dmrg.nstate > 0;
        for (int j = 0; j < all->n && lowest; j++)
            if (j != i && all->r[j]->nsite == all->r[i]->nsite && all->r[j]->dmrg.nstate > 0)
                lowest = all->r[i]->dmrg.energy[0] < all->r[j]->dmrg.energy[0] ||
                         (all->r[i]->dmrg.energy[0] == all->r[j]->dmrg.energy[0] && i < j);
        if (lowest) out[n++] = (point){all->r[i]->nsite, all->r[i]->dmrg.energy[0] / all->r[i]->nsite};
    }
    qsort(out, (size_t)n, sizeof *out, compare_points);
    return n;
}

/* Against 1/L, with the limit of endless systems. */
static kl_status against_size(const char *title, const char *y, int n, point *v, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    enum { NCURVE = 101 };
    double l[MOST_RESULT], value[MOST_RESULT];
    kl_panel *p;
    kl_series *s;
    kl_limit to;
    if (n < 2) return KL_OK;
    KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, title, &p, err));
    snprintf(p->x, sizeof p->x, "1 / L");
    snprintf(p->y, sizeof p->y, "%s", y);
    for (int i = 0; i < n; i++) {
        l[i] = v[i].x;
        value[i] = v[i].y;
        v[i].x = 1 / v[i].x;
    }
    KL_TRY(points(p, "", KL_STROKE_POINTS, n, v, err));
    if (n < 3 || !kl_fit_limit(n, l, value, &to)) {
        snprintf(p->note, sizeof p->note, "three sizes at least are needed for a limit");
        return KL_OK;
    }
    KL_TRY(kl_panel_add(p, "", KL_STROKE_FIT, NCURVE, 0, &s, err));
    for (int i = 0; i < NCURVE; i++) {
        s->x[i] = v[0].x * i / (NCURVE - 1);
        for (int k = 0; k < to.n; k++) s->y[i] += to.coef[k] * pow(s->x[i], to.power[k]);
    }
    KL_TRY(kl_panel_add(p, "L → ∞", KL_STROKE_POINTS, 1, 1, &s, err));
    s->y[0] = to.value;
    s->error[0] = to.error;
    /* to two digits of the error */
    const int digits = to.error > 0 ? (int)fmin(9, fmax(0, ceil(1 - log10(to.error)))) : 9;
    size_t used = (size_t)snprintf(p->note, sizeof p->note, "limit %.*f ± %.*f by terms in", digits, to.value,
                                   digits, to.error);
    for (int k = 1; k < to.n && used < sizeof p->note; k++)
        used += (size_t)snprintf(p->note + used, sizeof p->note - used, to.power[k] == 1 ? " 1/L" : " 1/L^%d",
                                 to.power[k]);
out:
    return st;
}

/* ---------------------------------------------------------------- a parameter */

static double mean(const kl_measured *m)
{
    double sum = 0;
    int64_t n = 1;
    for (int k = 0; k < m->rank; k++) n *= m->shape[k];
    for (int64_t i = 0; i < n; i++) sum += m->data[i] / (double)n;
    return sum;
}

/* 1: how exact a state is, and nothing of the system: "variance", "state_1/variance". */
static int is_variance(const char *name)
{
    const char *const slash = strrchr(name, '/');
    return strcmp(slash != NULL ? slash + 1 : name, "variance") == 0;
}

/* 1: a number for each bond of a class. */
static int is_by_bond(const kl_measured *m) { return m->rank == 1 && strncmp(m->name, "bond/", 5) == 0; }

/* line[n]: the line of each result, in the order in which lines are met; returns how many there are. */
static int find_lines(const many *all, int *line)
{
    int n = 0;
    for (int i = 0; i < all->n; i++) {
        line[i] = -1;
        for (int k = 0; k < i && line[i] < 0; k++) {
            const difference d = compare_results(all, all->r[i], all->r[k]);
            if (!d.model && !d.lattice && !d.sector && !d.parameter) line[i] = line[k];
        }
        if (line[i] < 0) line[i] = n++;
    }
    return n;
}

/* What result r has against the axis: -2 the energy per site, -1 the gap to its second state, else the mean
   of m; 0: it has none. */
static int value_of(const kl_result *r, int what, const kl_measured *m, double *y)
{
    const kl_measured *const here = m == NULL ? NULL : kl_panels_find(r, m->name);
    if (what == -2 && r->dmrg.nstate > 0) *y = r->dmrg.energy[0] / r->nsite;
    else if (what == -1 && r->dmrg.nstate > 1) *y = r->dmrg.energy[1] - r->dmrg.energy[0];
    else if (here != NULL && here->rank == m->rank) *y = mean(here);
    else return 0;
    return 1;
}

/* Energies and averages that every result has, against the parameter or charge in which they differ: a line
   for each system and sector. */
static kl_status against_axis(const many *all, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    point v[MOST_RESULT];
    int line[MOST_RESULT];
    kl_panel *p;
    const kl_result *const first = all->r[0];
    const int nline = find_lines(all, line);
    for (int what = -2; what < first->nmeasured; what++) {
        const kl_measured *const m = what < 0 ? NULL : &first->measured[what];
        char title[200] = "energy per site", y[80] = "E per site";
        int count = 0;
        double value;
        if (m != NULL && m->rank != 0 && strncmp(m->name, "local/", 6) != 0 && !is_by_bond(m)) continue;
        if (m != NULL && m->rank == 0 && is_variance(m->name)) continue;
        for (int i = 0; i < all->n; i++) count += value_of(all->r[i], what, m, &value);
        if (count < 2) continue;
        if (what == -1) {
            snprintf(title, sizeof title, "gap of the sector");
            snprintf(y, sizeof y, "E1 - E0");
        }
        if (m != NULL) {
            kl_panels_title(first, m, title, sizeof title - 40);
            if (is_by_bond(m)) kl_panels_bond_title(m, title, sizeof title - 40);
            if (m->rank > 0)
                snprintf(title + strlen(title), 30, ", mean over %s", is_by_bond(m) ? "bonds" : "sites");
            snprintf(y, sizeof y, "mean");
        }
        KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, title, &p, err));
        snprintf(p->x, sizeof p->x, "%s", axis_name(all));
        snprintf(p->y, sizeof p->y, "%s", y);
        for (int k = 0; k < nline; k++) {
            char name[120] = "";
            int n = 0;
            for (int i = 0; i < all->n; i++)
                if (line[i] == k && value_of(all->r[i], what, m, &value)) {
                    if (n == 0 && nline > 1) name_of_line(all, i, name, sizeof name);
                    v[n++] = (point){axis(all, all->r[i]), value};
                }
            if (n == 0) continue;
            qsort(v, (size_t)n, sizeof *v, compare_points);
            KL_TRY(points(p, name, KL_STROKE_BOTH, n, v, err));
        }
    }
out:
    return st;
}

/* ---------------------------------------------------------------- curves side by side */

static kl_status overlay_entropy(const many *all, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    kl_panel *p = NULL;
    kl_series *s;
    char name[120];
    for (int i = 0; i < all->n; i++) {
        const double *const e = kl_panels_entropy(all->r[i]);
        if (e == NULL) continue;
        if (p == NULL) {
            KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, "entanglement entropy", &p, err));
            snprintf(p->x, sizeof p->x, "sites before the cut / all sites");
            snprintf(p->y, sizeof p->y, "S");
        }
        name_of(all, i, name, sizeof name);
        KL_TRY(kl_panel_add(p, name, KL_STROKE_BOTH, all->r[i]->nsite - 1, 0, &s, err));
        for (int k = 0; k < all->r[i]->nsite - 1; k++) {
            s->x[k] = (k + 1.0) / all->r[i]->nsite;
            s->y[k] = e[k];
        }
    }
out:
    return st;
}

typedef enum shown {
    SHOWN_NOT,
    SHOWN_PROFILE, /* by site, or of a lattice in the plane by column */
    SHOWN_MOMENTA,
    SHOWN_PAIRS,
    SHOWN_BONDS,
    SHOWN_THERMAL,
    SHOWN_SPECTRUM,
} shown;

static shown shown_as(const many *all, const kl_measured *m)
{
    const int n = all->r[0]->nsite;
    if (strncmp(m->name, "bondcorr/", 9) == 0 || strncmp(m->name, "bondconnected/", 14) == 0)
        return m->rank == 2 ? SHOWN_BONDS : SHOWN_NOT;
    if (strncmp(m->name, "product/", 8) == 0) return SHOWN_NOT;
    if (strncmp(m->name, "structure/", 10) == 0) return m->rank == 1 ? SHOWN_MOMENTA : SHOWN_NOT;
    if (m->rank == 1 && m->shape[0] == n) return SHOWN_PROFILE;
    if (m->rank != 2) return SHOWN_NOT;
    if (m->shape[0] == n && m->shape[1] == n && strcmp(m->name, "mutual") != 0) return SHOWN_PAIRS;
    if (m->shape[1] == 2 && strncmp(m->name, "thermal/", 8) == 0) return SHOWN_THERMAL;
    return m->shape[1] == 2 && strncmp(m->name, "spectral/", 9) == 0 ? SHOWN_SPECTRUM : SHOWN_NOT;
}

/* What one result has of it; *n 0: nothing. x, y, error: [most] */
static void curve_of(const kl_result *r, const kl_measured *m, shown as, int most, int *n, double *x,
                     double *y, double *error)
{
    const kl_measured *const t = as == SHOWN_THERMAL ? kl_panels_find(r, "thermal/temperature") : NULL;
    const int64_t length = m->shape[0] < most ? m->shape[0] : most;
    *n = 0;
    switch (as) {
    case SHOWN_PAIRS: *n = kl_panels_decay(r, m, most, x, y); break;
    case SHOWN_BONDS: *n = kl_panels_bond_decay(r, m, most, x, y); break;
    case SHOWN_PROFILE:
        if (kl_panels_plane(r)) {
            *n = kl_panels_columns(r, m->data, most, x, y);
            break;
        }
        for (; *n < length; ++*n) {
            x[*n] = *n;
            y[*n] = m->data[*n];
        }
        break;
    case SHOWN_MOMENTA:
        for (; *n < length; ++*n) {
            x[*n] = 2.0 * *n / (double)m->shape[0];
            y[*n] = m->data[*n];
        }
        break;
    case SHOWN_THERMAL:
        if (t == NULL || t->shape[0] != m->shape[0]) break;
        for (; *n < length; ++*n) {
            x[*n] = t->data[*n];
            y[*n] = m->data[2 * *n] / r->nsite;
            error[*n] = m->data[2 * *n + 1] / r->nsite;
        }
        break;
    case SHOWN_SPECTRUM:
        for (; *n < length; ++*n) {
            x[*n] = m->data[2 * *n];
            y[*n] = m->data[2 * *n + 1];
        }
        break;
    case SHOWN_NOT: break;
    }
    for (int k = 0; k < *n && (as == SHOWN_PAIRS || as == SHOWN_BONDS); k++) y[k] = fabs(y[k]);
}

static kl_status open_overlay(const kl_result *r, const kl_measured *m, shown as, kl_figure *f, kl_panel **p,
                              kl_err *err)
{
    static const char *const x[] = {
        "", "site", "q / π", "distance", "distance along the row", "temperature T", "ω"};
    const int columns = as == SHOWN_PROFILE && kl_panels_plane(r);
    kl_status st = KL_OK;
    char title[200], op[60];
    const char *const slash = strchr(m->name, '/');
    if (as == SHOWN_BONDS) kl_panels_bond_title(m, title, sizeof title);
    else kl_panels_title(r, m, title, sizeof title - 30);
    if (columns) snprintf(title + strlen(title), 30, ", mean of each column");
    KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, title, p, err));
    snprintf((*p)->x, sizeof(*p)->x, "%s", columns ? "x" : x[as]);
    kl_panels_pretty(slash != NULL ? slash + 1 : m->name, op, sizeof op);
    if (as == SHOWN_PROFILE) snprintf((*p)->y, sizeof(*p)->y, "⟨%s⟩", op);
    else
        snprintf((*p)->y, sizeof(*p)->y, "%s",
                 as == SHOWN_THERMAL    ? "per site"
                 : as == SHOWN_SPECTRUM ? "A(ω)"
                 : as == SHOWN_MOMENTA  ? "S(q)"
                                        : "|correlation|");
    (*p)->log_x = (*p)->log_y = as == SHOWN_PAIRS || as == SHOWN_BONDS;
out:
    return st;
}

/* Profiles, decays of pairs, and averages by temperature or frequency of one name. */
static kl_status overlay(const many *all, const kl_measured *m, kl_figure *f, kl_err *err)
{
    enum { MOST_POINT = 20000 };
    kl_status st = KL_OK;
    kl_panel *p = NULL;
    kl_series *s;
    char name[120];
    double *x = NULL, *y, *error;
    int n;
    const shown as = shown_as(all, m);
    if (m->rank == 0) return KL_OK;
    if (is_by_bond(m) && has_axis(all)) return KL_OK; /* their means are drawn */
    if (as == SHOWN_NOT) return kl_figure_leave(f, m->name, "only plots of one result show it", err);
    KL_TRY(kl_alloc(&x, 3 * MOST_POINT, KL_MEM_WORK, err));
    y = x + MOST_POINT;
    error = y + MOST_POINT;
    for (int i = 0; i < all->n; i++) {
        const kl_measured *const here = kl_panels_find(all->r[i], m->name);
        if (here == NULL || here->rank != m->rank) continue;
        curve_of(all->r[i], here, as, MOST_POINT, &n, x, y, error);
        if (n < 2) continue;
        if (p == NULL) KL_TRY(open_overlay(all->r[0], m, as, f, &p, err));
        name_of(all, i, name, sizeof name);
        KL_TRY(kl_panel_add(p, name,
                            as == SHOWN_THERMAL    ? KL_STROKE_BAND
                            : as == SHOWN_SPECTRUM ? KL_STROKE_LINE
                                                   : KL_STROKE_BOTH,
                            n, as == SHOWN_THERMAL, &s, err));
        memcpy(s->x, x, sizeof *x * (size_t)n);
        memcpy(s->y, y, sizeof *y * (size_t)n);
        if (as == SHOWN_THERMAL) memcpy(s->error, error, sizeof *error * (size_t)n);
    }
    if (p == NULL) KL_TRY(kl_figure_leave(f, m->name, "its lattice shows no distances", err));
out:
    kl_free(&x);
    return st;
}

/* 1: by size and the parameter that differs, result i belongs behind k. */
static int is_behind(const many *all, int i, int k)
{
    const kl_result *const a = all->r[i], *const b = all->r[k];
    if (a->nsite != b->nsite) return a->nsite > b->nsite;
    return has_axis(all) && axis(all, a) > axis(all, b);
}

kl_status kl_panels_many(int n, kl_result *const *given, const char *const *given_path, kl_figure *f,
                         kl_err *err)
{
    kl_status st = KL_OK;
    kl_result *r[MOST_RESULT];
    const char *path[MOST_RESULT];
    many all = {.n = n, .r = r, .path = path, .param = -1, .charge = -1};
    point v[MOST_RESULT];
    if (n > MOST_RESULT)
        return kl_fail(err, KL_EINPUT, "plot: %d results are given; allowed: %d in one picture", n,
                       MOST_RESULT);
    memcpy(r, given, sizeof *r * (size_t)n);
    memcpy(path, given_path, sizeof *path * (size_t)n);
    compare_parameters(&all);
    compare_charges(&all);
    for (int i = 1; i < n; i++) /* else as they were given */
        for (int k = i; k > 0 && is_behind(&all, k - 1, k); k--) {
            kl_result *const one = r[k];
            const char *const name = path[k];
            r[k] = r[k - 1];
            path[k] = path[k - 1];
            r[k - 1] = one;
            path[k - 1] = name;
        }
    all.one_system = of_one_system(&all);
    if (has_axis(&all)) compare_lines(&all);
    snprintf(f->title, sizeof f->title, "%.100s, %d results", r[0]->model, n);
    for (int i = 1; i < n; i++)
        if (strcmp(r[i]->model, r[0]->model) != 0) snprintf(f->title, sizeof f->title, "%d results", n);
    if (all.sizes && !all.one_system)
        KL_TRY(kl_figure_leave(
            f, "gap and energy against size",
            "the results differ in more than size and sector: in model, lattice or parameters", err));
    else if (all.sizes) {
        int count = gaps(&all, v);
        KL_TRY(against_size("gap against size", "gap", count, v, f, err));
        count = energies_per_site(&all, v);
        KL_TRY(against_size("energy per site against size", "E per site", count, v, f, err));
    }
    if (has_axis(&all)) KL_TRY(against_axis(&all, f, err));
    if (n <= 12) KL_TRY(overlay_entropy(&all, f, err));
    else KL_TRY(kl_figure_leave(f, "curves by site", "a panel shows those of 12 results", err));
    for (int i = 0; i < r[0]->nmeasured && n <= 12; i++)
        if (strncmp(r[0]->measured[i].name, "state_", 6) != 0 &&
            strncmp(r[0]->measured[i].name, "ed/", 3) != 0 &&
            strncmp(r[0]->measured[i].name, "poles/", 6) != 0 &&
            strcmp(r[0]->measured[i].name, "thermal/temperature") != 0)
            KL_TRY(overlay(&all, &r[0]->measured[i], f, err));
out:
    return st;
}
