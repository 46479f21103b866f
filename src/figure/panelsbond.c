/* Panels of operators on bonds: see panels.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "figure/panels.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "figure/fit.h"

enum { MOST_DISTANCE = 400 };

/* The bonds of the class that a measurement names behind its first slash; *n: how many. */
static kl_status bonds_of(const kl_result *r, const kl_measured *m, int *n, int64_t **bond, kl_err *err)
{
    kl_status st = KL_OK;
    char name[64];
    const char *const text = strchr(m->name, '/') + 1;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ","), text);
    *n = 0;
    KL_TRY(kl_alloc(bond, r->geometry.nbond, KL_MEM_WORK, err));
    for (int64_t b = 0; b < r->geometry.nbond; b++)
        if (kl_geometry_is(&r->geometry, b, name)) (*bond)[(*n)++] = b;
out:
    return st;
}

void kl_panels_bond_title(const kl_measured *m, char *title, size_t size)
{
    char op[160];
    const char *const text = strchr(m->name, '/') + 1, *const comma = strchr(text, ',');
    if (strncmp(m->name, "energies/", strlen("energies/")) == 0) {
        snprintf(title, size, "energy on bonds %.100s", text);
        return;
    }
    kl_panels_pretty(comma != NULL ? comma + 1 : "S·S", op, sizeof op);
    snprintf(title, size, "⟨%.110s⟩ on bonds %.*s", op, (int)strcspn(text, ","), text);
}

double kl_panels_around(const kl_result *r)
{
    const kl_geometry *const g = &r->geometry;
    double around = INFINITY;
    for (int64_t b = 0; b < g->nbond; b++) {
        double more[2]; /* what the way over the bond has beyond the difference of coordinates */
        for (int k = 0; k < 2; k++)
            more[k] = g->vector[b][k] - (r->xy[g->bond[b][1]][k] - r->xy[g->bond[b][0]][k]);
        if (fabs(more[1]) < 1e-6 && fabs(more[0]) > 1e-6) around = fmin(around, fabs(more[0]));
    }
    return around;
}

/* Middle of a bond. */
static void middle(const kl_result *r, int64_t b, double at[2])
{
    for (int k = 0; k < 2; k++) at[k] = r->xy[r->geometry.bond[b][0]][k] + 0.5 * r->geometry.vector[b][k];
}

static kl_status profile(const kl_result *r, const kl_measured *m, int n, const int64_t *bond, kl_figure *f,
                         kl_err *err)
{
    kl_status st = KL_OK;
    kl_panel *p;
    kl_series *s;
    char title[160];
    kl_panels_bond_title(m, title, sizeof title);
    KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, title, &p, err));
    snprintf(p->x, sizeof p->x, "middle of the bond");
    snprintf(p->y, sizeof p->y, "value");
    KL_TRY(kl_panel_add(p, "", KL_STROKE_BOTH, n, 0, &s, err));
    for (int k = 0; k < n; k++) {
        double at[2];
        middle(r, bond[k], at);
        s->x[k] = at[0];
        s->y[k] = m->data[k];
    }
out:
    return st;
}

int kl_panels_bond_decay(const kl_result *r, const kl_measured *m, int most, double *distance, double *value)
{
    const double around = kl_panels_around(r);
    int n = 0, nd = 0, *count = NULL;
    int64_t *bond = NULL;
    kl_err err;
    if (bonds_of(r, m, &n, &bond, &err) != KL_OK || m->rank != 2 || m->shape[0] != n || m->shape[1] != n ||
        kl_alloc(&count, most, KL_MEM_WORK, &err) != KL_OK)
        goto out;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            double from[2], to[2];
            middle(r, bond[a], from);
            middle(r, bond[b], to);
            double dx = to[0] - from[0];
            if (fabs(to[1] - from[1]) > 1e-6 || dx < 1e-6) continue;
            dx = fmin(dx, around - dx);
            int k = 0;
            while (k < nd && fabs(distance[k] - dx) > 1e-6) k++;
            if (k == most) continue;
            if (k == nd) value[nd++] = 0;
            distance[k] = dx;
            value[k] += m->data[(int64_t)a * n + b];
            count[k]++;
        }
    for (int k = 0; k < nd; k++) value[k] /= count[k];
out:
    kl_free(&bond);
    kl_free(&count);
    return nd;
}

/* By how far two bonds are apart along x in the same row, means over all such pairs. */
static kl_status decay(const kl_result *r, const kl_measured *m, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    double distance[MOST_DISTANCE], value[MOST_DISTANCE];
    kl_panel *p;
    kl_series *s, *fit;
    kl_decay d;
    char title[160];
    const int nd = kl_panels_bond_decay(r, m, MOST_DISTANCE, distance, value);
    if (nd < 2) return kl_figure_leave(f, m->name, "no two of its bonds lie in a row", err);
    kl_panels_bond_title(m, title, sizeof title);
    KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, title, &p, err));
    snprintf(p->x, sizeof p->x, "distance along the row");
    snprintf(p->y, sizeof p->y, "|correlation|");
    p->log_x = p->log_y = 1;
    KL_TRY(kl_panel_add(p, "", KL_STROKE_POINTS, nd, 0, &s, err));
    for (int k = 0; k < nd; k++) {
        s->x[k] = distance[k];
        s->y[k] = fabs(value[k]);
    }
    if (!kl_fit_decay(nd, distance, value, 1e-8, &d)) return KL_OK;
    KL_TRY(kl_panel_add(p, "", KL_STROKE_FIT, nd, 0, &fit, err));
    for (int k = 0; k < nd; k++) {
        fit->x[k] = distance[k];
        fit->y[k] = exp(d.power_log - d.power * log(distance[k]));
    }
    snprintf(p->note, sizeof p->note, "exponent %.2f ± %.2f, or length %.2g ± %.1g; better: %s", d.power,
             d.power_error, d.length, d.length_error, d.power_rms < d.length_rms ? "power" : "exponential");
out:
    return st;
}

kl_status kl_panels_bonds(const kl_result *r, const kl_measured *m, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t *bond = NULL;
    double *value = NULL;
    int n;
    char title[160];
    KL_TRY(bonds_of(r, m, &n, &bond, err));
    if (n == 0 || m->shape[0] != n || (m->rank == 2 && m->shape[1] != n) || m->rank > 2) {
        KL_TRY(kl_figure_leave(f, m->name, "the file does not tell its bonds", err));
        goto out;
    }
    if (m->rank == 2) KL_TRY(decay(r, m, f, err));
    else if (!kl_panels_plane(r)) KL_TRY(profile(r, m, n, bond, f, err));
    else {
        KL_TRY(kl_alloc(&value, r->geometry.nbond, KL_MEM_WORK, err));
        for (int64_t b = 0; b < r->geometry.nbond; b++) value[b] = NAN;
        for (int k = 0; k < n; k++) value[bond[k]] = m->data[k];
        kl_panels_bond_title(m, title, sizeof title);
        KL_TRY(kl_panels_map(r, title, NULL, value, f, err));
    }
out:
    kl_free(&bond);
    kl_free(&value);
    return st;
}

/* "i", "j": what a product over letters has as its indices; returns how many. */
static int letters_of(const char *text, char letter[4])
{
    int n = 0;
    for (const char *at = strchr(text, '@'); at != NULL; at = strchr(at + 1, '@')) {
        const char *const c = at + 1 + strspn(at + 1, " ");
        const int ends = c[0] != '\0' && (c[1] == '\0' || strchr("+,; ", c[1]) != NULL);
        if (ends && strchr("ijkl", c[0]) != NULL && memchr(letter, c[0], (size_t)n) == NULL)
            letter[n++] = c[0];
    }
    return n;
}

kl_status kl_panels_product(const kl_measured *m, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    kl_panel *p;
    kl_series *s;
    char letter[4], title[160], op[140];
    const char *const text = strchr(m->name, '/') + 1;
    if (letters_of(text, letter) != m->rank || m->rank > 2)
        return kl_figure_leave(f, m->name, "products over one letter or two are drawn", err);
    kl_panels_pretty(text, op, sizeof op);
    snprintf(title, sizeof title, "⟨%s⟩", op);
    KL_TRY(kl_figure_add(f, m->rank == 1 ? KL_PANEL_CURVES : KL_PANEL_PLANE, title, &p, err));
    snprintf(p->x, sizeof p->x, "site %c", letter[0]);
    if (m->rank == 1) {
        snprintf(p->y, sizeof p->y, "value");
        KL_TRY(kl_panel_add(p, "", KL_STROKE_BOTH, m->shape[0], 0, &s, err));
        for (int64_t i = 0; i < m->shape[0]; i++) {
            s->x[i] = (double)i;
            s->y[i] = m->data[i];
        }
        return KL_OK;
    }
    snprintf(p->y, sizeof p->y, "site %c", letter[1]);
    p->nx = m->shape[0];
    p->ny = m->shape[1];
    KL_TRY(kl_alloc(&p->grid_x, p->nx, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&p->grid_y, p->ny, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&p->z, p->nx * p->ny, KL_MEM_MISC, err));
    for (int64_t i = 0; i < p->nx; i++) p->grid_x[i] = (double)i;
    for (int64_t j = 0; j < p->ny; j++) p->grid_y[j] = (double)j;
    for (int64_t i = 0; i < p->nx; i++)
        for (int64_t j = 0; j < p->ny; j++) p->z[j * p->nx + i] = m->data[i * p->ny + j];
out:
    return st;
}
