/* Panels of one result: see panels.h. Spectra and temperatures are in panelsed.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "figure/panels.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "figure/fit.h"
#include "figure/panelsed.h"

enum { MOST_DISTANCE = 400 };

static int begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

const kl_measured *kl_panels_find(const kl_result *r, const char *name)
{
    for (int i = 0; i < r->nmeasured; i++)
        if (strcmp(r->measured[i].name, name) == 0) return &r->measured[i];
    return NULL;
}

int kl_panels_line(const kl_result *r)
{
    const int chain = begins(r->lattice, "chain"), ring = begins(r->lattice, "ring");
    for (int p = 0; p < r->nsite && r->order != NULL; p++)
        if (r->order[p] != p) return 0;
    return chain ? 1 : ring ? 2 : 0;
}

int kl_panels_plane(const kl_result *r)
{
    int x = 0, y = 0;
    for (int i = 1; i < r->nsite && r->xy != NULL; i++) {
        x |= fabs(r->xy[i][0] - r->xy[0][0]) > 1e-9;
        y |= fabs(r->xy[i][1] - r->xy[0][1]) > 1e-9;
    }
    return x && y;
}

void kl_panels_pretty(const char *op, char *out, size_t size)
{
    static const char *const word[][2] = {
        {"cdag_up", "c†↑"}, {"cdag_dn", "c†↓"}, {"c_up", "c↑"}, {"c_dn", "c↓"}, {"n_up", "n↑"},
        {"n_dn", "n↓"},     {"docc", "n↑n↓"},   {"cdag", "c†"}, {"Sz", "Sᶻ"},   {"Sp", "S⁺"},
        {"Sm", "S⁻"},       {"bdag", "b†"},     {"sz", "σᶻ"},   {"sx", "σˣ"},   {"expipi", "exp iπ"},
    };
    size_t n = 0;
    out[0] = '\0';
    while (*op != '\0' && n + 8 < size) {
        size_t length = 0;
        while (isalnum((unsigned char)op[length]) || op[length] == '_') length++;
        size_t w = 0;
        while (w < sizeof word / sizeof *word &&
               !(strlen(word[w][0]) == length && strncmp(op, word[w][0], length) == 0))
            w++;
        if (length == 0) length = 1;
        const int known = w < sizeof word / sizeof *word;
        n += (size_t)snprintf(out + n, size - n, "%.*s", known ? 100 : (int)length, known ? word[w][1] : op);
        op += length;
    }
}

/* What is told of the orbitals of a molecule, one number each. */
static const struct {
    const char *name, *title, *x, *y;
} of_orbitals[] = {
    {"molecule/natural_occupations", "natural occupations", "natural orbital", "electrons"},
    {"molecule/orbital_entropies", "entropy of each orbital", "active orbital, in the file's order", "S"},
};

void kl_panels_title(const kl_result *r, const kl_measured *m, char *out, size_t size)
{
    static const struct {
        const char *folder, *before, *behind;
    } row[] = {{"local/", "⟨", "⟩ by site"},
               {"correlation/", "correlation ⟨", "⟩"},
               {"connected/", "connected correlation ⟨", "⟩"},
               {"string/", "string correlation ⟨", "⟩"},
               {"structure/", "structure factor of ⟨", "⟩"}};
    char op[200];
    (void)r;
    snprintf(out, size, "%s", m->name);
    for (size_t k = 0; k < sizeof of_orbitals / sizeof *of_orbitals; k++)
        if (strcmp(m->name, of_orbitals[k].name) == 0) snprintf(out, size, "%s", of_orbitals[k].title);
    for (size_t k = 0; k < sizeof row / sizeof *row; k++)
        if (begins(m->name, row[k].folder)) {
            kl_panels_pretty(m->name + strlen(row[k].folder), op, sizeof op);
            for (char *c = op; *c != '\0'; c++)
                if (*c == ',') *c = ' '; /* ⟨A B⟩ */
            snprintf(out, size, "%s%s%s", row[k].before, op, row[k].behind);
        }
}

/* A mean value that the state's distance from the exact one makes nothing. */
static double noise_of(const kl_result *r) { return fmax(1e-9, 0.01 * r->dmrg.distance); }

const double *kl_panels_entropy(const kl_result *r)
{
    const kl_measured *const m = kl_panels_find(r, "entropy");
    if (r->dmrg.entropy != NULL) return r->dmrg.entropy;
    return m != NULL && m->rank == 1 && m->shape[0] == r->nsite - 1 ? m->data : NULL;
}

/* ---------------------------------------------------------------- convergence, entropies, levels */

/* Energies above the extrapolated one; where that is not below all of them, above the lowest sweep, which no
   logarithm shows. */
static kl_status energies(const kl_result *r, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    kl_panel *p;
    kl_series *s;
    const kl_dmrg_result *const d = &r->dmrg;
    double best = INFINITY;
    int falling = 0, lowest = 0, n = 0;
    for (int i = 0; i < d->nrow; i++)
        if (d->row[i].energy[0] < best) {
            best = d->row[i].energy[0];
            lowest = i;
        }
    const double rounding = 1e-13 * fmax(1, fabs(best));
    for (int i = 0; i < d->nrow; i++) falling += d->row[i].energy[0] > best + rounding;
    if (falling == 0) return KL_OK;
    const int beyond =
        r->finished && isfinite(d->energy_extrapolated) && d->energy_extrapolated < best - rounding;
    const double from = beyond ? d->energy_extrapolated : best;
    KL_TRY(kl_figure_add(f, KL_PANEL_CURVES,
                         beyond ? "energy above the extrapolated one" : "energy above the lowest sweep", &p,
                         err));
    snprintf(p->x, sizeof p->x, "sweep");
    snprintf(p->y, sizeof p->y, beyond ? "E - E extrapolated" : "E - E lowest");
    p->log_y = 1;
    KL_TRY(kl_panel_add(p, "", KL_STROKE_BOTH, beyond ? d->nrow : falling, 0, &s, err));
    for (int i = 0; i < d->nrow; i++) {
        if (!(d->row[i].energy[0] > from + rounding)) continue;
        s->x[n] = i + 1;
        s->y[n++] = d->row[i].energy[0] - from;
    }
    if (beyond) snprintf(p->note, sizeof p->note, "extrapolated: %.12g", from);
    else snprintf(p->note, sizeof p->note, "the lowest is sweep %d of %d: %.12g", lowest + 1, d->nrow, best);
out:
    return st;
}

static kl_status discarded(const kl_result *r, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    kl_panel *p;
    kl_series *s;
    const kl_dmrg_result *const d = &r->dmrg;
    int some = 0;
    for (int i = 0; i < d->nrow; i++) some += d->row[i].discarded > 0;
    if (some < 2) return KL_OK; /* one point tells nothing of a course */
    KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, "discarded weight", &p, err));
    snprintf(p->x, sizeof p->x, "sweep");
    snprintf(p->y, sizeof p->y, "weight");
    p->log_y = 1;
    KL_TRY(kl_panel_add(p, "", KL_STROKE_BOTH, d->nrow, 0, &s, err));
    for (int i = 0; i < d->nrow; i++) {
        s->x[i] = i + 1;
        s->y[i] = d->row[i].discarded;
    }
out:
    return st;
}

static kl_status entropies(const kl_result *r, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    kl_panel *p;
    kl_series *s, *fit;
    const double *const e = kl_panels_entropy(r);
    const int line = kl_panels_line(r), n = r->nsite - 1;
    double c, error;
    int marginal;
    if (e == NULL || n < 1) return KL_OK;
    KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, "entanglement entropy", &p, err));
    snprintf(p->x, sizeof p->x, "sites before the cut");
    snprintf(p->y, sizeof p->y, "S");
    KL_TRY(kl_panel_add(p, "", KL_STROKE_BOTH, n, 0, &s, err));
    for (int i = 0; i < n; i++) {
        s->x[i] = i + 1;
        s->y[i] = e[i];
    }
    if (kl_result_components(r) > 1) { /* the spin stands on the left: no chord's logarithm */
        snprintf(p->note, sizeof p->note, "S > 0: of the right part, in the equal mixture of all Sz");
        return KL_OK;
    }
    if (line == 0) return KL_OK;
    KL_TRY(kl_panel_add(p, "", KL_STROKE_FIT, n, 0, &fit, err));
    memcpy(fit->x, p->series[0].x, sizeof(double) * (size_t)n);
    if (kl_fit_charge(r->nsite, line == 2, e, &c, &error, &marginal, fit->y) && c > 0.1 && error < 0.25 * c)
        snprintf(p->note, sizeof p->note, "central charge c = %.4f ± %.4f (%s)", c, error,
                 line == 2  ? "closed"
                 : marginal ? "open ends, with logarithms"
                            : "open ends");
    else {
        for (int i = 0; i < n; i++) fit->y[i] = NAN;
        if (n >= 12)
            snprintf(p->note, sizeof p->note,
                     "no central charge: the entropy does not follow ln of the chord");
    }
out:
    return st;
}

static kl_status levels(const kl_result *r, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    kl_panel *p;
    kl_series *s;
    const kl_measured *const all = kl_panels_find(r, "ed/spectrum");
    const int whole = all != NULL && all->rank == 1;
    const int64_t n = whole ? all->shape[0] : r->dmrg.nstate;
    const double *const e = whole ? all->data : r->dmrg.energy;
    if (n < 2) return KL_OK;
    KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, "energies above the lowest", &p, err));
    snprintf(p->x, sizeof p->x, "state");
    snprintf(p->y, sizeof p->y, "E - E lowest");
    KL_TRY(kl_panel_add(p, "", KL_STROKE_POINTS, n, 0, &s, err));
    for (int64_t k = 0; k < n; k++) {
        s->x[k] = (double)k;
        s->y[k] = e[k] - e[0];
    }
out:
    return st;
}

/* ---------------------------------------------------------------- profiles and maps */

/* "3" of "state_3/local/Sz", with what stands behind it; NULL: of the lowest state alone. */
static const char *behind_state(const char *name, char *who, size_t size)
{
    const char *const slash = strchr(name, '/');
    if (slash == NULL || (!begins(name, "state_") && !begins(name, "manifold/"))) return NULL;
    if (name[0] == 'm') snprintf(who, size, "mean of the multiplet");
    else snprintf(who, size, "state %.*s", (int)(slash - name - 6), name + 6);
    return slash + 1;
}

/* The same quantity of other states, as further curves. */
static kl_status of_other_states(const kl_result *r, const kl_measured *m, kl_panel *p, kl_err *err)
{
    kl_status st = KL_OK;
    kl_series *s;
    char who[40];
    for (int i = 0; i < r->nmeasured; i++) {
        const kl_measured *const other = &r->measured[i];
        const char *const name = behind_state(other->name, who, sizeof who);
        if (name == NULL || strcmp(name, m->name) != 0 || other->rank != 1 || other->shape[0] != m->shape[0])
            continue;
        if (p->series[0].name[0] == '\0') snprintf(p->series[0].name, sizeof p->series[0].name, "state 0");
        KL_TRY(kl_panel_add(p, who, KL_STROKE_BOTH, m->shape[0], 0, &s, err));
        memcpy(s->x, p->series[0].x, sizeof(double) * (size_t)s->n);
        memcpy(s->y, other->data, sizeof(double) * (size_t)s->n);
    }
out:
    return st;
}

static int compare_reals(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int kl_panels_columns(const kl_result *r, const double *value, int most, double *x, double *mean)
{
    double *all = NULL;
    int n = 0;
    kl_err err;
    if (kl_alloc(&all, r->nsite, KL_MEM_WORK, &err) != KL_OK) return 0;
    for (int i = 0; i < r->nsite; i++) all[i] = r->xy[i][0];
    qsort(all, (size_t)r->nsite, sizeof *all, compare_reals);
    for (int i = 0; i < r->nsite && n < most; i++)
        if (n == 0 || all[i] > x[n - 1] + 1e-6) x[n++] = all[i];
    for (int k = 0; k < n; k++) {
        int count = 0;
        mean[k] = 0;
        for (int i = 0; i < r->nsite; i++)
            if (fabs(r->xy[i][0] - x[k]) < 1e-6) {
                mean[k] += value[i];
                count++;
            }
        mean[k] /= count;
    }
    kl_free(&all);
    return n;
}

/* Averages over the sites of equal x. */
static kl_status columns(const kl_result *r, const double *value, const char *title, const char *y,
                         kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    double *x = NULL;
    kl_panel *p;
    kl_series *s;
    KL_TRY(kl_alloc(&x, 2 * (int64_t)r->nsite, KL_MEM_WORK, err));
    const int n = kl_panels_columns(r, value, r->nsite, x, x + r->nsite);
    if (n < 3 || n == r->nsite) goto out;
    char all[200];
    snprintf(all, sizeof all, "%s, mean of each column", title);
    KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, all, &p, err));
    snprintf(p->x, sizeof p->x, "x");
    snprintf(p->y, sizeof p->y, "%s", y);
    KL_TRY(kl_panel_add(p, "", KL_STROKE_BOTH, n, 0, &s, err));
    memcpy(s->x, x, sizeof *x * (size_t)n);
    memcpy(s->y, x + r->nsite, sizeof *x * (size_t)n);
out:
    kl_free(&x);
    return st;
}

kl_status kl_panels_map(const kl_result *r, const char *title, const double *site, const double *bond,
                        kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    kl_panel *p;
    double most = 0, most_bond = 0;
    int negative = 0;
    KL_TRY(kl_figure_add(f, KL_PANEL_LATTICE, title, &p, err));
    p->g = &r->geometry;
    p->xy = (const double (*)[2])r->xy;
    p->nsite = r->nsite;
    if (site != NULL) {
        KL_TRY(kl_alloc(&p->site, r->nsite, KL_MEM_MISC, err));
        memcpy(p->site, site, sizeof(double) * (size_t)r->nsite);
    }
    if (bond != NULL) {
        KL_TRY(kl_alloc(&p->bond, r->geometry.nbond, KL_MEM_MISC, err));
        memcpy(p->bond, bond, sizeof(double) * (size_t)r->geometry.nbond);
    }
    for (int i = 0; site != NULL && i < r->nsite; i++)
        if (isfinite(site[i])) {
            most = fmax(most, fabs(site[i]));
            negative |= site[i] < 0;
        }
    for (int64_t b = 0; bond != NULL && b < r->geometry.nbond; b++)
        if (isfinite(bond[b])) {
            most_bond = fmax(most_bond, fabs(bond[b]));
            negative |= bond[b] < 0;
        }
    if (fmax(most, most_bond) == 0) snprintf(p->note, sizeof p->note, "nothing above the noise");
    else
        snprintf(p->note, sizeof p->note, "%s%.3g%s", site != NULL ? "area: largest " : "width: largest ",
                 site != NULL ? most : most_bond, negative ? "; blue positive, orange negative" : "");
out:
    return st;
}

static kl_status profile(const kl_result *r, const kl_measured *m, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    kl_panel *p;
    kl_series *s;
    char title[160], y[80], op[60];
    double *value = NULL;
    const char *const slash = strchr(m->name, '/');
    kl_panels_title(r, m, title, sizeof title);
    kl_panels_pretty(slash != NULL ? slash + 1 : m->name, op, sizeof op);
    snprintf(y, sizeof y, "⟨%s⟩", op);
    KL_TRY(kl_alloc(&value, r->nsite, KL_MEM_WORK, err));
    for (int i = 0; i < r->nsite; i++) value[i] = fabs(m->data[i]) > noise_of(r) ? m->data[i] : 0;
    if (kl_panels_plane(r)) {
        KL_TRY(kl_panels_map(r, title, value, NULL, f, err));
        KL_TRY(columns(r, value, y, y, f, err));
        goto out;
    }
    KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, title, &p, err));
    snprintf(p->x, sizeof p->x, "site");
    snprintf(p->y, sizeof p->y, "%s", y);
    KL_TRY(kl_panel_add(p, "", KL_STROKE_BOTH, r->nsite, 0, &s, err));
    for (int i = 0; i < r->nsite; i++) s->x[i] = i;
    for (size_t k = 0; k < sizeof of_orbitals / sizeof *of_orbitals; k++) {
        if (strcmp(m->name, of_orbitals[k].name) != 0) continue;
        snprintf(p->x, sizeof p->x, "%s", of_orbitals[k].x);
        snprintf(p->y, sizeof p->y, "%s", of_orbitals[k].y);
        for (int i = 0; i < r->nsite; i++) s->x[i] = i + 1; /* orbitals are counted from 1 */
    }
    memcpy(s->y, value, sizeof(double) * (size_t)r->nsite);
    KL_TRY(of_other_states(r, m, p, err));
out:
    kl_free(&value);
    return st;
}

/* ---------------------------------------------------------------- correlations */

/* Of a lattice with coordinates: pairs in the same row, by their distance along x. */
static int row_decay(const kl_result *r, const kl_measured *m, int most, double *distance, double *value)
{
    const double around = kl_panels_around(r);
    int n = 0, *count = NULL;
    kl_err err;
    if (kl_alloc(&count, most, KL_MEM_WORK, &err) != KL_OK) return 0;
    for (int i = 0; i < r->nsite; i++)
        for (int j = 0; j < r->nsite; j++) {
            double dx = r->xy[j][0] - r->xy[i][0];
            if (fabs(r->xy[j][1] - r->xy[i][1]) > 1e-6 || dx < 1e-6) continue;
            dx = fmin(dx, around - dx);
            int k = 0;
            while (k < n && fabs(distance[k] - dx) > 1e-6) k++;
            if (k == most) continue;
            if (k == n) {
                distance[n] = dx;
                value[n++] = 0;
            }
            value[k] += m->data[(int64_t)i * r->nsite + j];
            count[k]++;
        }
    for (int k = 0; k < n; k++) value[k] /= count[k];
    for (int k = 1; k < n; k++) /* by distance; they come nearly so */
        for (int l = k; l > 0 && distance[l] < distance[l - 1]; l--) {
            const double d = distance[l], v = value[l];
            distance[l] = distance[l - 1];
            value[l] = value[l - 1];
            distance[l - 1] = d;
            value[l - 1] = v;
        }
    kl_free(&count);
    return n;
}

int kl_panels_decay(const kl_result *r, const kl_measured *m, int most, double *distance, double *value)
{
    const int line = kl_panels_line(r), n = r->nsite;
    int count = 0;
    if (line == 0) return kl_panels_plane(r) ? row_decay(r, m, most, distance, value) : 0;
    const int last = line == 2 ? n / 2 : n - 1;
    for (int d = 1; d <= last && count < most; d++) {
        double sum = 0;
        if (line == 2)
            for (int i = 0; i < n; i++) sum += m->data[(int64_t)i * n + (i + d) % n] / n;
        else { /* the two pairs that lie about the middle; of the ends there is one */
            const int i = (n - d) / 2, j = (n - d) % 2 == 0 ? i - 1 : i + d + 1 < n ? i + 1 : i;
            sum = 0.5 * (m->data[(int64_t)i * n + i + d] + m->data[(int64_t)j * n + j + d]);
        }
        distance[count] = d;
        value[count++] = sum;
    }
    return count;
}

static kl_status decay_panels(const kl_result *r, const kl_measured *m, const char *title, kl_figure *f,
                              kl_err *err)
{
    kl_status st = KL_OK;
    double distance[MOST_DISTANCE], value[MOST_DISTANCE];
    const int n = kl_panels_decay(r, m, MOST_DISTANCE, distance, value);
    kl_decay d;
    kl_panel *p;
    kl_series *s, *fit;
    if (n < 3) return KL_OK;
    /* distant pairs decide; the ends of an open chain disturb the farthest ones */
    const int far = kl_panels_line(r) == 1 ? n / 2 : n, near = n > 12 ? 2 : 0;
    const int fitted = far - near >= 4 && kl_fit_decay(far - near, distance + near, value + near, 1e-8, &d);
    for (int logs = 2; logs >= 1; logs--) {
        char all[200];
        snprintf(all, sizeof all, "%s: %s", title, logs == 2 ? "both axes logarithmic" : "logarithmic");
        KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, all, &p, err));
        snprintf(p->x, sizeof p->x, "distance");
        snprintf(p->y, sizeof p->y, "|correlation|");
        p->log_y = 1;
        p->log_x = logs == 2;
        KL_TRY(kl_panel_add(p, "", KL_STROKE_BOTH, n, 0, &s, err));
        for (int k = 0; k < n; k++) {
            s->x[k] = distance[k];
            s->y[k] = fabs(value[k]) > 1e-14 ? fabs(value[k]) : 0;
        }
        if (!fitted) continue;
        KL_TRY(kl_panel_add(p, "", KL_STROKE_FIT, n, 0, &fit, err));
        for (int k = 0; k < n; k++) {
            fit->x[k] = distance[k];
            fit->y[k] = logs == 2 ? exp(d.power_log - d.power * log(distance[k]))
                                  : exp(d.length_log - distance[k] / d.length);
        }
        const char *const better = (d.power_rms < d.length_rms) == (logs == 2) &&
                                           (logs == 2 ? d.power_error < d.power : d.length_error < d.length)
                                       ? "; the better fit"
                                       : "";
        if (logs == 2)
            snprintf(p->note, sizeof p->note, "power law: exponent %.3f ± %.3f%s", d.power, d.power_error,
                     better);
        else
            snprintf(p->note, sizeof p->note, "exponential: length %.3g ± %.2g%s", d.length, d.length_error,
                     better);
    }
out:
    return st;
}

/* The site nearest to the middle of all. */
static int middle_site(const kl_result *r)
{
    double at[2] = {0, 0}, best = INFINITY;
    int found = 0;
    for (int i = 0; i < r->nsite; i++)
        for (int k = 0; k < 2; k++) at[k] += r->xy[i][k] / r->nsite;
    for (int i = 0; i < r->nsite; i++) {
        const double away = hypot(r->xy[i][0] - at[0], r->xy[i][1] - at[1]);
        if (away > best - 1e-9) continue;
        best = away;
        found = i;
    }
    return found;
}

/* S(k) = 1/N sum cos(k (r_i - r_j)) C_ij at any k, for a lattice with coordinates that has all pairs. */
static kl_status zone(const kl_result *r, const kl_measured *m, const char *title, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    enum { SIDE = 81 };
    const double PI = 3.14159265358979323846, reach = 2.2;
    kl_panel *p;
    const int n = r->nsite;
    char all[200];
    double *c = NULL, *s = NULL;
    snprintf(all, sizeof all, "structure factor from %s", title);
    KL_TRY(kl_figure_add(f, KL_PANEL_PLANE, all, &p, err));
    snprintf(p->x, sizeof p->x, "qx / π");
    snprintf(p->y, sizeof p->y, "qy / π");
    p->nx = p->ny = SIDE;
    KL_TRY(kl_alloc(&p->grid_x, SIDE, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&p->grid_y, SIDE, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&p->z, SIDE * SIDE, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&c, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&s, n, KL_MEM_WORK, err));
    for (int k = 0; k < SIDE; k++) p->grid_x[k] = p->grid_y[k] = reach * (2.0 * k / (SIDE - 1) - 1);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            double sum = 0;
            for (int i = 0; i < n; i++) {
                const double phase = PI * (p->grid_x[x] * r->xy[i][0] + p->grid_y[y] * r->xy[i][1]);
                c[i] = cos(phase);
                s[i] = sin(phase);
            }
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++) sum += m->data[(int64_t)i * n + j] * (c[i] * c[j] + s[i] * s[j]);
            p->z[y * SIDE + x] = sum / n;
        }
    kl_panels_zone(&r->geometry, p);
    snprintf(p->note, sizeof p->note, "%s", p->noutline > 0 ? "outline: the first Brillouin zone" : "");
out:
    kl_free(&c);
    kl_free(&s);
    return st;
}

/* Of orbitals of a molecule, or of sites, in the order of DMRG; on a lattice also lines on its bonds. */
static kl_status information(const kl_result *r, const kl_measured *m, const char *title, kl_figure *f,
                             kl_err *err)
{
    kl_status st = KL_OK;
    kl_panel *p;
    const int n = r->nsite;
    double *bond = NULL;
    if (strcmp(m->name, "mutual") == 0 && kl_panels_plane(r)) {
        KL_TRY(kl_alloc(&bond, r->geometry.nbond, KL_MEM_WORK, err));
        for (int64_t b = 0; b < r->geometry.nbond; b++)
            bond[b] = kl_geometry_is(&r->geometry, b, "nn")
                          ? m->data[(int64_t)r->geometry.bond[b][0] * n + r->geometry.bond[b][1]]
                          : NAN;
        KL_TRY(kl_panels_map(r, "mutual information on bonds", NULL, bond, f, err));
    }
    KL_TRY(kl_figure_add(f, KL_PANEL_PLANE, title, &p, err));
    snprintf(p->x, sizeof p->x, "position");
    snprintf(p->y, sizeof p->y, "position");
    p->nx = p->ny = n;
    KL_TRY(kl_alloc(&p->grid_x, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&p->grid_y, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&p->z, (int64_t)n * n, KL_MEM_MISC, err));
    for (int i = 0; i < n; i++) {
        p->grid_x[i] = p->grid_y[i] = i;
        for (int j = 0; j < n; j++)
            p->z[(int64_t)i * n + j] = i == j ? 0 : m->data[(int64_t)r->order[i] * n + r->order[j]];
    }
out:
    kl_free(&bond);
    return st;
}

static kl_status correlation(const kl_result *r, const kl_measured *m, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    char title[160], all[200];
    double *site = NULL, *bond = NULL;
    const int n = r->nsite, from = middle_site(r);
    kl_panels_title(r, m, title, sizeof title);
    if (kl_panels_plane(r)) {
        KL_TRY(kl_alloc(&site, n, KL_MEM_WORK, err));
        for (int j = 0; j < n; j++) site[j] = j == from ? NAN : m->data[(int64_t)from * n + j];
        snprintf(all, sizeof all, "%s with site %d", title, from);
        KL_TRY(kl_panels_map(r, all, site, NULL, f, err));
        KL_TRY(kl_alloc(&bond, r->geometry.nbond, KL_MEM_WORK, err));
        for (int64_t b = 0; b < r->geometry.nbond; b++)
            bond[b] = kl_geometry_is(&r->geometry, b, "nn")
                          ? m->data[(int64_t)r->geometry.bond[b][0] * n + r->geometry.bond[b][1]]
                          : NAN;
        snprintf(all, sizeof all, "%s on bonds", title);
        if (r->geometry.nbond > 0) KL_TRY(kl_panels_map(r, all, NULL, bond, f, err));
        if (!begins(m->name, "string/") && n <= 400) KL_TRY(zone(r, m, title, f, err));
    }
    KL_TRY(decay_panels(r, m, title, f, err));
out:
    kl_free(&site);
    kl_free(&bond);
    return st;
}

/* ---------------------------------------------------------------- all of it */

static kl_status measured(const kl_result *r, const kl_measured *m, kl_figure *f, kl_err *err)
{
    char who[40];
    const int n = r->nsite;
    if (m->rank == 0 || behind_state(m->name, who, sizeof who) != NULL) return KL_OK;
    if (begins(m->name, "ed/") || begins(m->name, "thermal/") || begins(m->name, "spectral/") ||
        begins(m->name, "poles/") || strcmp(m->name, "entropy") == 0 ||
        strcmp(m->name, "spectrum/charges") == 0 || strcmp(m->name, "molecule/order") == 0 ||
        strcmp(m->name, "molecule/irreps") == 0)
        return KL_OK;
    const int square = m->rank == 2 && m->shape[0] == n && m->shape[1] == n;
    if (square && strcmp(m->name, "molecule/mutual_information") == 0)
        return information(r, m, "mutual information of orbitals, in their order along the sites", f, err);
    if (square && strcmp(m->name, "mutual") == 0)
        return information(r, m, "mutual information of sites, in the order of DMRG", f, err);
    if (strcmp(m->name, "spectrum/weights") == 0 && m->rank == 2 && m->shape[0] == n - 1)
        return kl_panels_schmidt(r, m, f, err);
    if (begins(m->name, "density/")) return kl_figure_leave(f, m->name, "a density matrix is not drawn", err);
    if (begins(m->name, "molecule/") && m->rank > 1)
        return kl_figure_leave(f, m->name, "of a molecule's matrices the mutual information alone is drawn",
                               err);
    if (begins(m->name, "local/") && m->rank == 1 && m->shape[0] == n) return profile(r, m, f, err);
    if (begins(m->name, "structure/")) return kl_panels_structure(r, m, f, err);
    if (begins(m->name, "bond/") || begins(m->name, "bondcorr/") || begins(m->name, "bondconnected/") ||
        begins(m->name, "energies/"))
        return kl_panels_bonds(r, m, f, err);
    if (begins(m->name, "product/")) return kl_panels_product(m, f, err);
    if (square) return correlation(r, m, f, err);
    if (m->rank == 1 && m->shape[0] == n) return profile(r, m, f, err);
    return kl_figure_leave(f, m->name, "no panel shows an array of this kind", err);
}

static void title_of(const kl_result *r, kl_figure *f)
{
    char charges[200], energy[60] = "";
    double told = r->finished && r->dmrg.nstate > 0 ? r->dmrg.energy[0] : INFINITY;
    for (int i = 0; i < r->dmrg.nrow && !r->finished; i++) told = fmin(told, r->dmrg.row[i].energy[0]);
    if (isfinite(told)) snprintf(energy, sizeof energy, ", E = %.12g", told);
    kl_result_print_charges(r, charges, sizeof charges);
    snprintf(f->title, sizeof f->title, "%.60s%s%.60s%s, %.100s, %d sites%s%s%s", r->model,
             r->variant[0] != '\0' ? "(" : "", r->variant, r->variant[0] != '\0' ? ")" : "", r->lattice,
             r->nsite, charges[0] != '\0' ? ", " : "", charges, energy);
}

kl_status kl_panels_one(const kl_result *r, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    title_of(r, f);
    KL_TRY(energies(r, f, err));
    KL_TRY(discarded(r, f, err));
    KL_TRY(entropies(r, f, err));
    KL_TRY(levels(r, f, err));
    KL_TRY(kl_panels_spectra(r, f, err));
    KL_TRY(kl_panels_thermal(r, f, err));
    for (int i = 0; i < r->nmeasured; i++) KL_TRY(measured(r, &r->measured[i], f, err));
out:
    return st;
}
