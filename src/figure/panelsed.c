/* Panels of spectral functions, thermodynamics and structure factors: see panelsed.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "figure/panelsed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "figure/panels.h"

static const double PI = 3.14159265358979323846;
enum {
    MOST_SPECTRA = 400,
    NFREQUENCY = 501,
    MOST_MOMENTUM = 1000,
};

static int begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* ---------------------------------------------------------------- spectral functions */

/* spectral/OP@WHERE, taken apart. */
typedef struct spectrum {
    const kl_measured *m;
    char op[80], where[60];
    int momentum;
    long q[2];
    int used;
} spectrum;

static int read_spectrum(const kl_measured *m, spectrum *out)
{
    const char *const op = m->name + strlen("spectral/"), *const at = strrchr(op, '@');
    if (m->rank != 2 || m->shape[1] != 2 || m->shape[0] < 2 || at == NULL) return 0;
    *out = (spectrum){.m = m};
    snprintf(out->op, sizeof out->op, "%.*s", (int)(at - op), op);
    snprintf(out->where, sizeof out->where, "%s", at + 1);
    out->momentum = begins(at + 1, "q=");
    if (!out->momentum) return 1;
    char *end;
    out->q[0] = strtol(at + 3, &end, 10);
    if (*end == ',') out->q[1] = strtol(end + 1, NULL, 10);
    return labs(out->q[0]) <= MOST_MOMENTUM && labs(out->q[1]) <= MOST_MOMENTUM;
}

static int compare_spectra(const void *pa, const void *pb)
{
    const spectrum *const a = pa, *const b = pb;
    const int op = strcmp(a->op, b->op);
    if (op != 0) return op;
    if (a->momentum != b->momentum) return a->momentum - b->momentum;
    if (a->q[1] != b->q[1]) return a->q[1] < b->q[1] ? -1 : 1;
    if (a->q[0] != b->q[0]) return a->q[0] < b->q[0] ? -1 : 1;
    return strcmp(a->where, b->where);
}

/* A at frequency w by straight lines between the stored ones, 0 beyond them. */
static double value_at(const kl_measured *m, double w)
{
    const int64_t n = m->shape[0];
    int64_t lo = 0, hi = n - 1;
    if (n < 2 || w < m->data[0] || w > m->data[2 * hi]) return 0;
    while (hi - lo > 1) {
        const int64_t mid = (lo + hi) / 2;
        if (m->data[2 * mid] <= w) lo = mid;
        else hi = mid;
    }
    const double step = m->data[2 * hi] - m->data[2 * lo], t = step > 0 ? (w - m->data[2 * lo]) / step : 0;
    return (1 - t) * m->data[2 * lo + 1] + t * m->data[2 * hi + 1];
}

static kl_status curve(kl_panel *p, const spectrum *s, const char *name, double sign, kl_err *err)
{
    kl_status st = KL_OK;
    kl_series *to;
    const int64_t n = s->m->shape[0];
    KL_TRY(kl_panel_add(p, name, KL_STROKE_LINE, n, 0, &to, err));
    for (int64_t k = 0; k < n; k++) {
        to->x[k] = sign * s->m->data[2 * k];
        to->y[k] = s->m->data[2 * k + 1];
    }
out:
    return st;
}

/* Momenta of one direction as a plane: every one from the lowest to the highest, in numerical order; those of
   which nothing is known stay empty and are told. */
static kl_status plane(const kl_result *r, int n, const spectrum *s, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    kl_panel *p;
    char op[80], title[160], lacking[80] = "";
    const int along = s[0].q[1] == s[n - 1].q[1] && s[0].q[0] != s[n - 1].q[0] ? 0 : -1;
    const int64_t length = r->geometry.grid[0] > 0 ? r->geometry.grid[0] : r->nsite;
    double low = INFINITY, high = -INFINITY, most = 0;
    kl_panels_pretty(s[0].op, op, sizeof op);
    snprintf(title, sizeof title, "spectral function of %s", op);
    KL_TRY(kl_figure_add(f, KL_PANEL_PLANE, title, &p, err));
    p->nx = along == 0 ? s[n - 1].q[0] - s[0].q[0] + 1 : n;
    p->ny = NFREQUENCY;
    snprintf(p->x, sizeof p->x, along == 0 ? "q / π" : "momenta in the order of their numbers");
    snprintf(p->y, sizeof p->y, "ω");
    for (int k = 0; k < n; k++) {
        low = fmin(low, s[k].m->data[0]);
        high = fmax(high, s[k].m->data[2 * (s[k].m->shape[0] - 1)]);
    }
    KL_TRY(kl_alloc(&p->grid_x, p->nx, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&p->grid_y, p->ny, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&p->z, p->nx * p->ny, KL_MEM_MISC, err));
    for (int64_t y = 0; y < p->ny; y++) p->grid_y[y] = low + (high - low) * (double)y / (NFREQUENCY - 1);
    for (int64_t x = 0, k = 0; x < p->nx; x++) {
        const int known = along != 0 || s[k].q[0] == s[0].q[0] + x;
        p->grid_x[x] = along == 0 ? 2.0 * (double)(s[0].q[0] + x) / (double)length : (double)x;
        if (!known)
            snprintf(lacking + strlen(lacking), sizeof lacking - strlen(lacking), " %lld",
                     (long long)(s[0].q[0] + x));
        for (int64_t y = 0; y < p->ny; y++) {
            p->z[y * p->nx + x] = known ? value_at(s[k].m, p->grid_y[y]) : NAN;
            if (known) most = fmax(most, p->z[y * p->nx + x]);
        }
        k += known;
    }
    int64_t last = 1;
    for (int64_t i = 0; i < p->nx * p->ny; i++) {
        if (fabs(p->z[i]) < 1e-6 * most) p->z[i] = 0; /* noise is nothing */
        if (p->z[i] > 2e-3 * most) last = i / p->nx;
    }
    /* what is empty above all weight is not shown */
    p->ny = last + last / 10 + 2 < p->ny ? last + last / 10 + 2 : p->ny;
    if (lacking[0] != '\0') snprintf(p->note, sizeof p->note, "not computed: q =%s", lacking);
out:
    return st;
}

/* Removal of what an addition adds: "c_up" of "cdag_up", "c" of "cdag". */
static int is_removal(const char *removal, const char *addition)
{
    const char *const dag = strstr(addition, "dag");
    char name[80];
    if (dag == NULL) return 0;
    snprintf(name, sizeof name, "%.*s%s", (int)(dag - addition), addition, dag + 3);
    return strcmp(name, removal) == 0;
}

static kl_status single(int n, spectrum *s, int k, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    kl_panel *p;
    char op[80], title[160];
    int other = -1;
    for (int l = 0; l < n; l++)
        if (!s[l].used && strcmp(s[l].where, s[k].where) == 0 &&
            (is_removal(s[l].op, s[k].op) || is_removal(s[k].op, s[l].op)))
            other = l;
    kl_panels_pretty(s[k].op, op, sizeof op);
    snprintf(title, sizeof title,
             other >= 0 ? "A(ω): addition and removal at %.60s" : "spectral function of %.80s@%.40s",
             other >= 0 ? s[k].where : op, s[k].where);
    KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, title, &p, err));
    snprintf(p->x, sizeof p->x, "ω");
    snprintf(p->y, sizeof p->y, "A");
    s[k].used = 1;
    if (other < 0) return curve(p, &s[k], "", 1, err);
    s[other].used = 1;
    const int first_adds = is_removal(s[other].op, s[k].op);
    KL_TRY(curve(p, &s[first_adds ? k : other], "addition", 1, err));
    KL_TRY(curve(p, &s[first_adds ? other : k], "removal", -1, err));
out:
    return st;
}

kl_status kl_panels_spectra(const kl_result *r, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    spectrum *s = NULL;
    int n = 0;
    KL_TRY(kl_alloc(&s, MOST_SPECTRA, KL_MEM_WORK, err));
    for (int i = 0; i < r->nmeasured; i++) {
        if (!begins(r->measured[i].name, "spectral/")) continue;
        if (n == MOST_SPECTRA)
            KL_TRY(kl_figure_leave(f, r->measured[i].name, "a figure shows 400 spectra", err));
        else if (read_spectrum(&r->measured[i], &s[n])) n++;
        else KL_TRY(kl_figure_leave(f, r->measured[i].name, "it is no spectrum that a panel shows", err));
    }
    qsort(s, (size_t)n, sizeof *s, compare_spectra);
    for (int k = 0; k < n; k++) {
        int same = k;
        while (same < n && s[same].momentum && strcmp(s[same].op, s[k].op) == 0) same++;
        if (s[k].used || same - k < 3) continue;
        KL_TRY(plane(r, same - k, s + k, f, err));
        for (int l = k; l < same; l++) s[l].used = 1;
    }
    for (int k = 0; k < n; k++)
        if (!s[k].used) KL_TRY(single(n, s, k, f, err));
out:
    kl_free(&s);
    return st;
}

/* ---------------------------------------------------------------- thermodynamics */

kl_status kl_panels_thermal(const kl_result *r, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    static const struct {
        const char *name, *title, *y;
    } row[] = {{"energy", "energy per site", "E / N"},
               {"heat", "heat capacity per site", "C / N"},
               {"entropy", "entropy per site", "S / N"},
               {"chi_", "susceptibility per site of ", "χ / N"}};
    const kl_measured *const t = kl_panels_find(r, "thermal/temperature");
    if (t == NULL || t->rank != 1) return KL_OK;
    for (int i = 0; i < 4 * r->nmeasured; i++) {
        const int k = i / r->nmeasured;
        const kl_measured *const m = &r->measured[i % r->nmeasured];
        kl_panel *p;
        kl_series *s;
        char title[120];
        if (!begins(m->name, "thermal/") || m->rank != 2 || m->shape[1] != 2 || m->shape[0] != t->shape[0] ||
            !begins(m->name + strlen("thermal/"), row[k].name))
            continue;
        snprintf(title, sizeof title, "%s%s", row[k].title, k == 3 ? m->name + strlen("thermal/chi_") : "");
        KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, title, &p, err));
        snprintf(p->x, sizeof p->x, "temperature T");
        snprintf(p->y, sizeof p->y, "%s", row[k].y);
        KL_TRY(kl_panel_add(p, "", KL_STROKE_BAND, t->shape[0], 1, &s, err));
        double most = 0; /* 0 where all levels are known or one sample tells no error: no band is drawn */
        for (int64_t a = 0; a < t->shape[0]; a++) {
            s->x[a] = t->data[a];
            s->y[a] = m->data[2 * a] / r->nsite;
            s->error[a] = m->data[2 * a + 1] / r->nsite;
            if (s->error[a] > most) most = s->error[a];
        }
        if (most > 0) snprintf(p->note, sizeof p->note, "band: one standard error");
    }
out:
    return st;
}

/* ---------------------------------------------------------------- structure factors */

/* Cuts a polygon by the line of points as near to g as to 0. */
static int cut(int n, double v[12][2], const double g[2])
{
    double out[12][2];
    const double half = 0.5 * (g[0] * g[0] + g[1] * g[1]);
    int m = 0;
    for (int k = 0; k < n && m < 11; k++) {
        const double *const a = v[k], *const b = v[(k + 1) % n];
        const double da = a[0] * g[0] + a[1] * g[1] - half, db = b[0] * g[0] + b[1] * g[1] - half;
        if (da <= 1e-9) memcpy(out[m++], a, sizeof out[0]);
        if ((da < -1e-9 && db > 1e-9) || (da > 1e-9 && db < -1e-9)) {
            const double t = da / (da - db);
            out[m][0] = a[0] + t * (b[0] - a[0]);
            out[m++][1] = a[1] + t * (b[1] - a[1]);
        }
    }
    memcpy(v, out, sizeof(double) * 2 * (size_t)m);
    return m;
}

void kl_panels_zone(const kl_geometry *g, kl_panel *p)
{
    const double area = g->basis[0][0] * g->basis[1][1] - g->basis[0][1] * g->basis[1][0];
    if (fabs(area) < 1e-9) return;
    const double b[2][2] = {{2 * g->basis[1][1] / area, -2 * g->basis[1][0] / area},
                            {-2 * g->basis[0][1] / area, 2 * g->basis[0][0] / area}};
    double v[12][2] = {{-9, -9}, {9, -9}, {9, 9}, {-9, 9}};
    int n = 4;
    for (int i = -2; i <= 2; i++)
        for (int j = -2; j <= 2; j++) {
            const double at[2] = {i * b[0][0] + j * b[1][0], i * b[0][1] + j * b[1][1]};
            if (i != 0 || j != 0) n = cut(n, v, at);
        }
    p->noutline = n;
    memcpy(p->outline, v, sizeof v);
}

/* n momenta 0, 1, ... of 2 pi / n, moved into (-pi, pi]: in units of pi, ascending, and which each is. */
static kl_status fold(int64_t n, double **at, int64_t **which, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(at, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(which, n, KL_MEM_WORK, err));
    for (int64_t i = 0; i < n; i++) {
        (*which)[i] = (n / 2 + 1 + i) % n;
        (*at)[i] = 2.0 * (double)((*which)[i] > n / 2 ? (*which)[i] - n : (*which)[i]) / (double)n;
    }
out:
    return st;
}

/* All momenta of a grid along x and y as a map of the first Brillouin zone. */
static kl_status zone_map(const kl_result *r, const kl_measured *m, const char *title, kl_figure *f,
                          kl_err *err)
{
    kl_status st = KL_OK;
    kl_panel *p;
    int64_t *ix = NULL, *iy = NULL;
    KL_TRY(kl_figure_add(f, KL_PANEL_PLANE, title, &p, err));
    snprintf(p->x, sizeof p->x, "qx / π");
    snprintf(p->y, sizeof p->y, "qy / π");
    p->nx = m->shape[0];
    p->ny = m->shape[1];
    KL_TRY(fold(p->nx, &p->grid_x, &ix, err));
    KL_TRY(fold(p->ny, &p->grid_y, &iy, err));
    KL_TRY(kl_alloc(&p->z, p->nx * p->ny, KL_MEM_MISC, err));
    for (int64_t x = 0; x < p->nx; x++)
        for (int64_t y = 0; y < p->ny; y++) p->z[y * p->nx + x] = m->data[ix[x] * p->ny + iy[y]];
    kl_panels_zone(&r->geometry, p);
    snprintf(p->note, sizeof p->note, "%s", p->noutline > 0 ? "outline: the first Brillouin zone" : "");
out:
    kl_free(&ix);
    kl_free(&iy);
    return st;
}

kl_status kl_panels_structure(const kl_result *r, const kl_measured *m, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    kl_panel *p;
    kl_series *s;
    char title[160];
    kl_panels_title(r, m, title, sizeof title);
    if (m->rank == 1) {
        KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, title, &p, err));
        snprintf(p->x, sizeof p->x, "q / π");
        snprintf(p->y, sizeof p->y, "S(q)");
        KL_TRY(kl_panel_add(p, "", KL_STROKE_BOTH, m->shape[0], 0, &s, err));
        for (int64_t k = 0; k < m->shape[0]; k++) {
            s->x[k] = 2.0 * (double)k / (double)m->shape[0];
            s->y[k] = m->data[k];
        }
        return KL_OK;
    }
    if (m->rank != 2 || r->geometry.grid[0] != m->shape[0] || r->geometry.grid[1] != m->shape[1])
        return kl_figure_leave(f, m->name, "the file does not tell its momenta", err);
    /* a row of the plane for each momentum across, the momenta along on it */
    const double (*const k)[2] = (const double (*)[2])r->geometry.k;
    const int64_t across = m->shape[1], along = m->shape[0];
    int square = 1; /* the two directions are those of x and y */
    for (int64_t i = 0; i < along * across; i++)
        square &= fabs(k[i][0] - k[i / across * across][0]) < 1e-9 && fabs(k[i][1] - k[i % across][1]) < 1e-9;
    if (square && across > 2) KL_TRY(zone_map(r, m, title, f, err));
    KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, title, &p, err));
    if (square) snprintf(p->x, sizeof p->x, "qx / π");
    else
        snprintf(p->x, sizeof p->x, "t of q = q₀ + t (%.3g, %.3g) π", (double)along * k[across][0] / PI,
                 (double)along * k[across][1] / PI);
    snprintf(p->y, sizeof p->y, "S(q)");
    for (int64_t y = 0; y < across; y++) {
        char name[60];
        if (square) snprintf(name, sizeof name, "qy = %.3g π", k[y][1] / PI);
        else snprintf(name, sizeof name, "q₀ = (%.2g, %.2g) π", k[y][0] / PI, k[y][1] / PI);
        KL_TRY(kl_panel_add(p, name, KL_STROKE_BOTH, along, 0, &s, err));
        for (int64_t x = 0; x < along; x++) {
            s->x[x] = square ? k[x * across][0] / PI : (double)x / (double)along;
            s->y[x] = m->data[x * across + y];
        }
    }
out:
    return st;
}
