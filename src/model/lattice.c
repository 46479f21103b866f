/* Sites, classed bonds and the order in which DMRG meets the sites. Knows nothing of operators. The
   lattices of this file are boxes of lx columns of ly sites, open or closed in either direction, whose bonds
   are a few displacements walked from every site; chains are boxes one site wide. Lattices with a unit cell
   are in cells.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "model/latticebase.h"
#include "base/dense.h"
#include "base/mem.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* sites of one connected piece: the dense eigenproblem takes 8 n^2 bytes and n^3 time */
#define MAX_FIEDLER 4000
#define CHAIN_REACH 9
#define LENGTH_TOL 1e-9

static const char *const allowed =
    "chain:N, ring:N, ladder:LxW, square:LxW, cylinder:LxW or torus:LxW, such as cylinder:6x4, triangular, "
    "honeycomb, kagome, lieb, checkerboard (kagome:YC6x8, kagome:torus:2x2), diamond:N";

/* A displacement that makes a bond, with the classes of that bond. */
typedef struct step {
    int dx, dy;
    const char *cls[3];
} step;

static const step chain_step[CHAIN_REACH] = {
    {1, 0, {"nn"}}, {2, 0, {"nnn"}}, {3, 0, {"d3"}}, {4, 0, {"d4"}}, {5, 0, {"d5"}},
    {6, 0, {"d6"}}, {7, 0, {"d7"}},  {8, 0, {"d8"}}, {9, 0, {"d9"}},
};
static const step grid_step[] = {
    {1, 0, {"nn", "leg", "x"}},
    {0, 1, {"nn", "rung", "y"}},
    {1, 1, {"nnn", "diag"}},
    {1, -1, {"nnn", "diag"}},
    {2, 0, {"d3"}},
    {0, 2, {"d3"}},
};

/* Component of the shortest image of a displacement d along a direction of the given length; of two that are
   as short the positive one. */
static int image(int d, int length, int periodic)
{
    if (!periodic) return d;
    d = (d % length + length) % length;
    return d > length - d ? d - length : d;
}

static int shortest(int d, int length, int periodic) { return abs(image(d, length, periodic)); }

void kl_lattice_step(const kl_lattice *lat, int i, int j, double vector[2])
{
    if (lat->kind == KL_LATTICE_CELLS) {
        kl_cells_step(lat, i, j, vector);
        return;
    }
    if (lat->kind == KL_LATTICE_FILE) {
        for (int k = 0; k < 2; k++) vector[k] = lat->xy[j][k] - lat->xy[i][k];
        return;
    }
    vector[0] = image(j / lat->ly - i / lat->ly, lat->lx, lat->periodic_x);
    vector[1] = image(j % lat->ly - i % lat->ly, lat->ly, lat->periodic_y);
}

double kl_lattice_distance(const kl_lattice *lat, int i, int j)
{
    if (i == j) return 0.0;
    if (lat->kind == KL_LATTICE_CELLS) {
        double vector[2];
        kl_cells_step(lat, i, j, vector);
        return hypot(vector[0], vector[1]);
    }
    if (lat->kind == KL_LATTICE_FILE) {
        const int a = i < j ? i : j, b = i < j ? j : i;
        int lo = 0, hi = lat->nbond;
        while (lo < hi) {
            const int mid = lo + (hi - lo) / 2;
            const kl_bond *m = &lat->bond[mid];
            if (m->i < a || (m->i == a && m->j < b)) lo = mid + 1;
            else hi = mid;
        }
        if (lo < lat->nbond && lat->bond[lo].i == a && lat->bond[lo].j == b) return lat->bond[lo].r;
        return lat->has_xy ? hypot(lat->xy[i][0] - lat->xy[j][0], lat->xy[i][1] - lat->xy[j][1])
                           : (double)NAN;
    }
    const int dx = shortest(i / lat->ly - j / lat->ly, lat->lx, lat->periodic_x);
    const int dy = shortest(i % lat->ly - j % lat->ly, lat->ly, lat->periodic_y);
    return dy == 0 ? dx : dx == 0 ? dy : hypot(dx, dy);
}

int kl_lattice_site(const kl_lattice *lat, const char *text)
{
    int64_t i;
    for (int s = 0; s < lat->nsite; s++)
        if (lat->site_name[s] != NULL && strcmp(lat->site_name[s], text) == 0) return s;
    if (!kl_parse_int(text, &i)) return -1;
    if (i < 0) i += lat->nsite;
    return i >= 0 && i < lat->nsite ? (int)i : -1;
}

const char *const kl_position_class[] = {"first", "last", "ends", "even", "odd", NULL};

int kl_is_position_class(const char *name)
{
    for (int k = 0; kl_position_class[k] != NULL; k++)
        if (strcmp(name, kl_position_class[k]) == 0) return 1;
    return 0;
}

int kl_lattice_class(const kl_lattice *lat, const char *name)
{
    for (int c = 0; c < lat->nbond_class; c++)
        if (strcmp(lat->bond_class[c], name) == 0) return c;
    return -1;
}

static kl_status copy_string(char **out, const char *s, kl_err *err)
{
    *out = kl_strdup(s);
    return *out != NULL ? KL_OK : kl_fail(err, KL_ENOMEM, "out of memory for the name \"%.100s\"", s);
}

kl_status kl_lattice_add_class(kl_lattice *lat, const char *name, int *index, kl_err *err)
{
    kl_status st = KL_OK;
    *index = kl_lattice_class(lat, name);
    if (*index >= 0) return KL_OK;
    KL_TRY(kl_realloc(&lat->bond_class, lat->nbond_class + 1, KL_MEM_MISC, err));
    KL_TRY(copy_string(&lat->bond_class[lat->nbond_class], name, err));
    *index = lat->nbond_class++;
out:
    return st;
}

/* Grows by doubling: capacity is the next power of two, at least 16. */
kl_status kl_lattice_push_bond(kl_lattice *lat, const kl_bond *b, kl_err *err)
{
    const int n = lat->nbond;
    if (n == 0 || (n >= 16 && (n & (n - 1)) == 0)) {
        kl_status st = KL_OK;
        KL_TRY(kl_realloc(&lat->bond, n == 0 ? 16 : 2 * (int64_t)n, KL_MEM_MISC, err));
    out:
        if (st != KL_OK) return st;
    }
    lat->bond[lat->nbond++] = *b;
    return KL_OK;
}

/* All but the direction: two of a kind are one bond unless bonds are doubled. */
static int compare_kinds(const void *pa, const void *pb)
{
    const kl_bond *a = pa, *b = pb;
    if (a->i != b->i) return a->i < b->i ? -1 : 1;
    if (a->j != b->j) return a->j < b->j ? -1 : 1;
    if (a->r != b->r) return a->r < b->r ? -1 : 1;
    return a->nclass > 0 && b->nclass > 0 ? a->cls[0] - b->cls[0] : a->nclass - b->nclass;
}

static int compare_bonds(const void *pa, const void *pb)
{
    const int kind = compare_kinds(pa, pb);
    return kind != 0 ? kind : ((const kl_bond *)pa)->reversed - ((const kl_bond *)pb)->reversed;
}

void kl_lattice_sort_bonds(kl_lattice *lat, int double_bonds)
{
    int n = 0;
    if (lat->nbond > 0) qsort(lat->bond, (size_t)lat->nbond, sizeof *lat->bond, compare_bonds);
    if (double_bonds) return;
    for (int b = 0; b < lat->nbond; b++)
        if (n == 0 || compare_kinds(&lat->bond[n - 1], &lat->bond[b]) != 0) lat->bond[n++] = lat->bond[b];
    lat->nbond = n;
}

static kl_status add_steps(kl_lattice *lat, const step *steps, int nstep, int double_bonds, kl_err *err)
{
    kl_status st = KL_OK;
    for (int s = 0; s < nstep; s++) {
        kl_bond proto = {0};
        for (int c = 0; c < 3 && steps[s].cls[c] != NULL; c++)
            KL_TRY(kl_lattice_add_class(lat, steps[s].cls[c], &proto.cls[proto.nclass++], err));
        const int dx = steps[s].dx, dy = steps[s].dy;
        proto.r = dy == 0 ? abs(dx) : dx == 0 ? abs(dy) : hypot(dx, dy);
        /* A displacement with a shorter image joins nearer neighbours, which have their own class. */
        if (shortest(dx, lat->lx, lat->periodic_x) != abs(dx) ||
            shortest(dy, lat->ly, lat->periodic_y) != abs(dy))
            continue;
        for (int i = 0; i < lat->nsite; i++) {
            int x = i / lat->ly + dx, y = i % lat->ly + dy;
            if (lat->periodic_x) x = (x + lat->lx) % lat->lx;
            if (lat->periodic_y) y = (y + lat->ly) % lat->ly;
            if (x < 0 || x >= lat->lx || y < 0 || y >= lat->ly) continue;
            const int j = x * lat->ly + y;
            if (i == j) continue;
            proto.i = i < j ? i : j;
            proto.j = i < j ? j : i;
            proto.reversed = i > j;
            KL_TRY(kl_lattice_push_bond(lat, &proto, err));
        }
    }
    kl_lattice_sort_bonds(lat, double_bonds);
out:
    return st;
}

kl_status kl_lattice_create_sites(const char *spec, int nsite, kl_lattice **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_lattice *lat = NULL;
    KL_TRY(kl_alloc(&lat, 1, KL_MEM_MISC, err));
    lat->nsite = nsite;
    KL_TRY(copy_string(&lat->spec, spec, err));
    KL_TRY(kl_alloc(&lat->xy, nsite, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&lat->site_name, nsite, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&lat->site_class, nsite, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&lat->order, nsite, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&lat->position, nsite, KL_MEM_MISC, err));
    for (int i = 0; i < nsite; i++) lat->order[i] = lat->position[i] = i;
    *out = lat;
    lat = NULL;
out:
    kl_lattice_destroy(&lat);
    return st;
}

/* "12" or "3x4" after the colon; 1 when all of the text was that. */
static int parse_extent(const char *text, int two, int64_t *lx, int64_t *ly)
{
    char part[32];
    const char *cross = two ? strpbrk(text, "xX") : NULL;
    if (two != (cross != NULL)) return 0;
    const size_t n = cross != NULL ? (size_t)(cross - text) : strlen(text);
    if (n == 0 || n >= sizeof part) return 0;
    memcpy(part, text, n);
    part[n] = 0;
    *ly = 1;
    if (!kl_parse_int(part, lx)) return 0;
    return cross == NULL || kl_parse_int(cross + 1, ly);
}

kl_status kl_lattice_create(const char *spec, int nsite, int double_bonds, kl_lattice **out, kl_err *err)
{
    static const struct {
        const char *name;
        int two, periodic_x, periodic_y;
    } kinds[] = {{"chain", 0, 0, 0},  {"ring", 0, 1, 0},     {"ladder", 1, 0, 0},
                 {"square", 1, 0, 0}, {"cylinder", 1, 0, 1}, {"torus", 1, 1, 1}};
    static const char *const names[] = {"chain",        "ring",       "ladder",    "square", "cylinder",
                                        "torus",        "triangular", "honeycomb", "kagome", "lieb",
                                        "checkerboard", "diamond",    NULL};
    kl_status st = KL_OK;
    kl_lattice *lat = NULL;
    int64_t lx = 0, ly = 1, total = 0;
    int kind = -1;

    if (kl_cells_take(spec)) return kl_cells_create(spec, nsite, double_bonds, out, err);
    const char *colon = strchr(spec, ':');
    const size_t n = colon != NULL ? (size_t)(colon - spec) : strlen(spec);
    for (int k = 0; k < 6; k++)
        if (strlen(kinds[k].name) == n && memcmp(spec, kinds[k].name, n) == 0) kind = k;
    if (kind < 0) {
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)(n < 60 ? n : 60), spec);
        const char *near = kl_closest(word, names);
        return kl_fail(err, KL_EINPUT, "lattice \"%.200s\" is unknown%s%s%s; allowed: %s, or a Lua file",
                       spec, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "", allowed);
    }
    if (colon == NULL && kinds[kind].two)
        return kl_fail(err, KL_EINPUT, "lattice \"%s\" needs its extent LxW, such as %s:6x4", spec, spec);
    if (colon == NULL) {
        if (nsite <= 0)
            return kl_fail(err, KL_EINPUT,
                           "lattice \"%s\" needs a number of sites, such as %s:32 or --sites 32", spec, spec);
        lx = nsite;
    } else if (!parse_extent(colon + 1, kinds[kind].two, &lx, &ly)) {
        return kl_fail(err, KL_EINPUT, "lattice \"%.200s\": \"%.100s\" is not %s; allowed: %s", spec,
                       colon + 1, kinds[kind].two ? "an extent LxW" : "a number of sites", allowed);
    }
    if (lx < 1 || ly < 1 || !kl_mul_size(lx, ly, &total) || total > KL_MAX_SITE)
        return kl_fail(err, KL_EINPUT,
                       "lattice \"%.200s\": every extent must be at least 1 and there may be at most %d "
                       "sites, such as cylinder:6x4",
                       spec, KL_MAX_SITE);
    if (colon != NULL && nsite > 0 && nsite != total)
        return kl_fail(err, KL_EINPUT,
                       "lattice \"%.200s\" has %lld sites but %d were asked for; give one of the two", spec,
                       (long long)total, nsite);

    KL_TRY(kl_lattice_create_sites(spec, (int)total, &lat, err));
    lat->kind = kinds[kind].two          ? KL_LATTICE_GRID
                : kinds[kind].periodic_x ? KL_LATTICE_RING
                                         : KL_LATTICE_CHAIN;
    lat->lx = (int)lx;
    lat->ly = (int)ly;
    lat->periodic_x = kinds[kind].periodic_x;
    lat->periodic_y = kinds[kind].periodic_y;
    lat->has_xy = 1;
    for (int i = 0; i < lat->nsite; i++) {
        lat->xy[i][0] = i / lat->ly;
        lat->xy[i][1] = i % lat->ly;
    }
    if (lat->kind == KL_LATTICE_GRID)
        KL_TRY(add_steps(lat, grid_step, (int)(sizeof grid_step / sizeof *grid_step), double_bonds, err));
    else KL_TRY(add_steps(lat, chain_step, CHAIN_REACH, double_bonds, err));
    *out = lat;
    lat = NULL;
out:
    kl_lattice_destroy(&lat);
    return st;
}

void kl_lattice_destroy(kl_lattice **lattice)
{
    kl_lattice *lat = *lattice;
    if (lat == NULL) return;
    for (int i = 0; i < lat->nsite; i++) {
        if (lat->site_name != NULL) kl_free(&lat->site_name[i]);
        if (lat->site_class != NULL) kl_free(&lat->site_class[i]);
    }
    for (int c = 0; c < lat->nbond_class; c++) kl_free(&lat->bond_class[c]);
    kl_free(&lat->spec);
    kl_free(&lat->xy);
    kl_free(&lat->site_name);
    kl_free(&lat->site_class);
    kl_free(&lat->bond);
    kl_free(&lat->bond_class);
    kl_free(&lat->order);
    kl_free(&lat->position);
    kl_free(lattice);
}

kl_status kl_lattice_create_empty(const char *name, int nsite, kl_lattice **out, kl_err *err)
{
    kl_status st = KL_OK;
    if (nsite < 1 || nsite > KL_MAX_SITE)
        return kl_fail(err, KL_EINPUT, "lattice %.200s has %d sites; allowed are 1 to %d", name, nsite,
                       KL_MAX_SITE);
    KL_TRY(kl_lattice_create_sites(name, nsite, out, err));
    (*out)->kind = KL_LATTICE_FILE;
    (*out)->lx = nsite;
    (*out)->ly = 1;
out:
    return st;
}

kl_status kl_lattice_add_bond(kl_lattice *lat, int i, int j, double r, const char *const *classes, int nclass,
                              kl_err *err)
{
    kl_status st = KL_OK;
    kl_bond b = {.i = i < j ? i : j, .j = i < j ? j : i, .r = r, .reversed = i > j};
    if (b.i < 0 || b.j >= lat->nsite)
        return kl_fail(err, KL_EINPUT, "lattice %.200s: bond (%d, %d) leaves the sites 0 to %d", lat->spec, i,
                       j, lat->nsite - 1);
    if (i == j)
        return kl_fail(err, KL_EINPUT, "lattice %.200s: bond (%d, %d) joins a site to itself", lat->spec, i,
                       j);
    if (nclass < 1 || nclass > KL_MAX_BOND_CLASS)
        return kl_fail(err, KL_EINPUT, "lattice %.200s: bond (%d, %d) has %d classes; allowed are 1 to %d",
                       lat->spec, i, j, nclass, KL_MAX_BOND_CLASS);
    if (!(r > 0.0) || !isfinite(r))
        return kl_fail(err, KL_EINPUT,
                       "lattice %.200s: bond (%d, %d) has length %s; it must be positive and finite",
                       lat->spec, i, j, kl_said(r).text);
    for (int c = 0; c < nclass; c++) {
        int k = 0;
        KL_TRY(kl_lattice_add_class(lat, classes[c], &k, err));
        for (int d = 0; d < b.nclass; d++)
            if (b.cls[d] == k)
                return kl_fail(err, KL_EINPUT,
                               "lattice %.200s: bond (%d, %d) names its class \"%.60s\" twice", lat->spec, i,
                               j, classes[c]);
        b.cls[b.nclass++] = k;
    }
    KL_TRY(kl_lattice_push_bond(lat, &b, err));
out:
    return st;
}

static int share_class(const kl_bond *a, const kl_bond *b)
{
    for (int c = 0; c < a->nclass; c++)
        for (int d = 0; d < b->nclass; d++)
            if (a->cls[c] == b->cls[d]) return a->cls[c];
    return -1;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

kl_status kl_lattice_finish(kl_lattice *lat, kl_err *err)
{
    kl_status st = KL_OK;
    const char **name = NULL;
    int nname = 0;
    if (lat->nbond > 0) qsort(lat->bond, (size_t)lat->nbond, sizeof *lat->bond, compare_bonds);
    for (int b = 0; b < lat->nbond; b++)
        for (int a = b - 1; a >= 0 && lat->bond[a].i == lat->bond[b].i && lat->bond[a].j == lat->bond[b].j;
             a--) {
            const int c = share_class(&lat->bond[a], &lat->bond[b]);
            if (c >= 0)
                return kl_fail(err, KL_EINPUT,
                               "lattice %.200s: bond (%d, %d) of class \"%.60s\" is listed twice", lat->spec,
                               lat->bond[b].i, lat->bond[b].j, lat->bond_class[c]);
        }
    KL_TRY(kl_alloc(&name, lat->nsite, KL_MEM_MISC, err));
    for (int i = 0; i < lat->nsite; i++) {
        if (!isfinite(lat->xy[i][0]) || !isfinite(lat->xy[i][1])) {
            st = kl_fail(err, KL_EINPUT,
                         "lattice %.200s: site %d has coordinates (%s, %s); they must be finite", lat->spec,
                         i, kl_said(lat->xy[i][0]).text, kl_said(lat->xy[i][1]).text);
            goto out;
        }
        if (lat->site_name[i] != NULL) name[nname++] = lat->site_name[i];
    }
    if (nname > 1) qsort(name, (size_t)nname, sizeof *name, compare_names);
    for (int k = 1; k < nname; k++)
        if (strcmp(name[k - 1], name[k]) == 0) {
            st =
                kl_fail(err, KL_EINPUT, "lattice %.200s: two sites are named \"%.100s\"", lat->spec, name[k]);
            goto out;
        }
    for (int p = 0; p < lat->nsite; p++) lat->order[p] = lat->position[p] = p;
out:
    kl_free(&name);
    return st;
}

typedef struct ranked {
    double value;
    int site;
} ranked;

static int compare_value(const void *pa, const void *pb)
{
    const ranked *a = pa, *b = pb;
    if (a->value != b->value) return a->value < b->value ? -1 : 1;
    return a->site - b->site;
}

static int compare_site(const void *pa, const void *pb)
{
    return ((const ranked *)pa)->site - ((const ranked *)pb)->site;
}

/* Orders the n sites of one connected piece (ascending on entry) by the second eigenvector of its Laplacian.
   A degenerate second eigenvalue leaves LAPACK free to return any basis of its space, so the vector taken is
   the projection of a fixed one (the site number, centred) on that space, which no choice of basis changes;
   its overlap with the fixed one is positive, which settles the direction. Sites with equal components keep
   their numbering. */
static kl_status fiedler_piece(const kl_lattice *lat, int n, int *site, int *local, const int *use,
                               kl_err *err)
{
    kl_status st = KL_OK;
    double *lap = NULL, *w = NULL, *v = NULL;
    ranked *rank = NULL;
    if (n <= 2) return KL_OK;
    if (n > MAX_FIEDLER)
        return kl_fail(err, KL_EINPUT,
                       "order fiedler of %d connected sites needs too large a dense eigenproblem; allowed up "
                       "to %d (use snake, column or a list)",
                       n, MAX_FIEDLER);
    KL_TRY(kl_alloc(&lap, (int64_t)n * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&w, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&v, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&rank, n, KL_MEM_WORK, err));
    for (int k = 0; k < n; k++) local[site[k]] = k;
    for (int b = 0; b < lat->nbond; b++) {
        const int i = local[lat->bond[b].i], j = local[lat->bond[b].j];
        if (!use[b] || i < 0 || j < 0) continue;
        lap[(int64_t)i * n + i] += 1.0;
        lap[(int64_t)j * n + j] += 1.0;
        lap[(int64_t)i * n + j] -= 1.0;
        lap[(int64_t)j * n + i] -= 1.0;
    }
    for (int k = 0; k < n; k++) local[site[k]] = -1;
    KL_TRY(kl_dense_eig(n, lap, n, w, err));
    int last = 1;
    while (last + 1 < n && w[last + 1] - w[1] < 1e-9 * w[n - 1]) last++;
    /* Powers of the centred number: a space that is even about the centre has no overlap with the first. */
    for (int power = 1; power <= 3; power++) {
        double norm = 0.0, full = 0.0;
        memset(v, 0, (size_t)n * sizeof *v);
        for (int c = 1; c <= last; c++) {
            double dot = 0.0;
            for (int k = 0; k < n; k++) dot += lap[(int64_t)c * n + k] * pow((2.0 * k - (n - 1)) / n, power);
            for (int k = 0; k < n; k++) v[k] += dot * lap[(int64_t)c * n + k];
            norm += dot * dot;
        }
        for (int k = 0; k < n; k++) full += pow((2.0 * k - (n - 1)) / n, 2 * power);
        if (norm > 1e-6 * full) break;
    }
    double largest = 0.0;
    for (int k = 0; k < n; k++) {
        rank[k] = (ranked){v[k], site[k]};
        largest = fmax(largest, fabs(v[k]));
    }
    qsort(rank, (size_t)n, sizeof *rank, compare_value);
    for (int from = 0, k = 1; k <= n; k++)
        if (k == n || rank[k].value - rank[k - 1].value > 1e-8 * largest) {
            qsort(rank + from, (size_t)(k - from), sizeof *rank, compare_site);
            from = k;
        }
    for (int k = 0; k < n; k++) site[k] = rank[k].site;
out:
    kl_free(&lap);
    kl_free(&w);
    kl_free(&v);
    kl_free(&rank);
    return st;
}

static int root_of(int *parent, int i)
{
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
}

/* Nearest neighbours decide the order where the lattice names any: a box lists farther classes whether or not
   a model has such terms. */
static kl_status fiedler_order(const kl_lattice *lat, int *order, kl_err *err)
{
    kl_status st = KL_OK;
    int *use = NULL, *parent = NULL, *local = NULL;
    const int nn = kl_lattice_class(lat, "nn");
    int n = 0;
    KL_TRY(kl_alloc(&use, lat->nbond, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&parent, lat->nsite, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&local, lat->nsite, KL_MEM_WORK, err));
    for (int i = 0; i < lat->nsite; i++) {
        parent[i] = i;
        local[i] = -1;
    }
    for (int b = 0; b < lat->nbond; b++) {
        const kl_bond *bond = &lat->bond[b];
        use[b] = nn < 0;
        for (int c = 0; c < bond->nclass; c++) use[b] |= bond->cls[c] == nn;
        if (!use[b]) continue;
        const int a = root_of(parent, bond->i), z = root_of(parent, bond->j);
        if (a < z) parent[z] = a;
        else parent[a] = z;
    }
    for (int first = 0; first < lat->nsite; first++) {
        if (root_of(parent, first) != first) continue;
        const int from = n;
        for (int i = first; i < lat->nsite; i++)
            if (root_of(parent, i) == first) order[n++] = i;
        KL_TRY(fiedler_piece(lat, n - from, order + from, local, use, err));
    }
out:
    kl_free(&use);
    kl_free(&parent);
    kl_free(&local);
    return st;
}

static kl_status listed_order(const kl_lattice *lat, const char *how, int *order, kl_err *err)
{
    kl_status st = KL_OK;
    char *seen = NULL;
    int n = 0;
    KL_TRY(kl_alloc(&seen, lat->nsite, KL_MEM_WORK, err));
    for (const char *p = how; *p != 0;) {
        char part[32];
        const size_t len = strcspn(p, ", ");
        int64_t site = 0;
        snprintf(part, sizeof part, "%.*s", (int)(len < 31 ? len : 31), p);
        if (!kl_parse_int(part, &site) || site < 0 || site >= lat->nsite) {
            st = kl_fail(err, KL_EINPUT,
                         "entry %d is \"%s\"; allowed are column, snake, fiedler or all sites 0 to %d "
                         "once, such as 0,2,1",
                         n + 1, part, lat->nsite - 1);
            goto out;
        }
        if (seen[site]) {
            st = kl_fail(err, KL_EINPUT, "site %lld occurs twice; each of the sites 0 to %d must occur once",
                         (long long)site, lat->nsite - 1);
            goto out;
        }
        seen[site] = 1;
        order[n++] = (int)site;
        p += len;
        p += strspn(p, ", ");
    }
    if (n != lat->nsite)
        st = kl_fail(err, KL_EINPUT, "%d sites are listed; the lattice has %d", n, lat->nsite);
out:
    kl_free(&seen);
    return st;
}

kl_status kl_lattice_reorder(kl_lattice *lat, const char *how, kl_err *err)
{
    static const char *const names[] = {"column", "snake", "fiedler", NULL};
    kl_status st = KL_OK;
    int *order = NULL;
    KL_TRY(kl_alloc(&order, lat->nsite, KL_MEM_WORK, err));
    if (strcmp(how, "column") == 0 || strcmp(how, "snake") == 0) {
        const int snake = how[0] == 's';
        for (int p = 0; p < lat->nsite; p++) {
            const int x = p / lat->ly, y = p % lat->ly;
            order[p] = snake && x % 2 == 1 ? x * lat->ly + (lat->ly - 1 - y) : p;
        }
    } else if (strcmp(how, "fiedler") == 0) {
        KL_TRY(fiedler_order(lat, order, err));
    } else if (how[0] >= '0' && how[0] <= '9') {
        KL_TRY(listed_order(lat, how, order, err));
    } else {
        const char *near = kl_closest(how, names);
        st = kl_fail(err, KL_EINPUT,
                     "order \"%.100s\" is unknown%s%s%s; allowed are column, snake, fiedler or a list of "
                     "sites such as 0,2,1",
                     how, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
        goto out;
    }
    memcpy(lat->order, order, (size_t)lat->nsite * sizeof *order);
    for (int p = 0; p < lat->nsite; p++) lat->position[order[p]] = p;
out:
    kl_free(&order);
    return st;
}
