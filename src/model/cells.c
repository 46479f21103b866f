/* Lattices that are copies of a unit cell: triangular, honeycomb, kagome, Lieb, checkerboard, the diamond
   chain, and tilted squares; open, cylinders and tori. A family is a table of basis vectors and coordinates;
   its bonds are the pairs at the three shortest distances, found here and not listed. Outline:
   1. the spec says which vectors span the cluster (a row of cells, what closes the circumference), and which
      of them are closed;
   2. columns of cells are numbered along the circumference; any cell is led back to one of them by the closed
      vectors (of a torus by their Hermite normal form);
   3. displacements of the three shells, with the classes of shell, direction and sublattices, are walked from
      every cell; one that has a shorter image is left out, as on boxes (lattice.c).
   Names XC and YC: Stoudenmire and White, Annu. Rev. Condens. Matter Phys. 3, 111 (2012).
   SPDX-License-Identifier: Apache-2.0 */
#include "model/latticebase.h"
#include "base/mem.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOT2 1.41421356237309504880
#define ROOT3 1.73205080756887729353
#define TOL 1e-9

enum {
    MOST_SUB = 3,
    NSHELL = 3,
    REACH = 3,
    MOST_STEP = 64,
    WORD = 16,
};

/* A circumference that is called n closes n/unit times the vector (a, b), in cells. unit 0: there is none. */
typedef struct around {
    int unit, a, b;
} around;

typedef struct family {
    const char *name;
    int nsub, line; /* line: a chain of cells */
    double basis[2][2], place[MOST_SUB][2];
    around yc, xc;
} family;

/* Lengths are in units of the nearest-neighbour distance. */
static const family families[] = {
    {"square", 1, 0, {{1, 0}, {0, 1}}, {{0, 0}}, {1, 0, 1}, {2, -1, 1}},
    {"triangular", 1, 0, {{1, 0}, {0.5, ROOT3 / 2}}, {{0, 0}}, {1, 0, 1}, {2, -1, 2}},
    {"honeycomb", 2, 0, {{ROOT3, 0}, {ROOT3 / 2, 1.5}}, {{0, 0}, {0, 1}}, {4, -1, 2}, {2, 0, 1}},
    {"kagome", 3, 0, {{2, 0}, {1, ROOT3}}, {{0, 0}, {1, 0}, {0.5, ROOT3 / 2}}, {2, 0, 1}, {4, -1, 2}},
    {"lieb", 3, 0, {{2, 0}, {0, 2}}, {{0, 0}, {1, 0}, {0, 1}}, {2, 0, 1}, {4, -1, 1}},
    {"checkerboard", 2, 0, {{ROOT2, 0}, {0, ROOT2}}, {{ROOT2 / 2, 0}, {0, ROOT2 / 2}}, {2, -1, 1}, {2, 0, 1}},
    {"diamond",
     3,
     1,
     {{ROOT2, 0}, {0, 0}},
     {{0, 0}, {ROOT2 / 2, ROOT2 / 2}, {ROOT2 / 2, -ROOT2 / 2}},
     {0, 0, 0},
     {0, 0, 0}},
};
enum { NFAMILY = sizeof families / sizeof *families };

typedef enum form { OPEN, CYLINDER, TORUS, YC, XC, NFORM } form;
static const char *const form_word[] = {"open", "cylinder", "torus", "YC", "XC"}; /* ORDER form */

/* What a spec says. */
typedef struct plan {
    const family *f;
    form form;
    int columns, rows; /* cells of the grid */
    int64_t span[2][2]; /* as in kl_cells */
    int64_t given[2][2]; /* of a torus: the vectors as they were given, which bound the picture */
    int zigzag; /* cells of a column slant, and are led back: 0 no, 1 along rows, 2 along columns */
} plan;

/* A displacement that makes a bond: from sublattice `from' to `to' of the cell (dx, dy) away. */
typedef struct step {
    int from, to, dx, dy, shell;
    double x, y, r;
} step;

static int starts(const char *spec, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(spec, name, n) == 0 && (spec[n] == ':' || spec[n] == '\0');
}

/* Square families of the boxes keep their words; a comma, or a form behind square:, is for this file. */
int kl_cells_take(const char *spec)
{
    const char *const colon = strchr(spec, ':');
    if (colon != NULL && (starts(spec, "cylinder") || starts(spec, "torus")))
        return strchr(colon, ',') != NULL;
    if (starts(spec, "square")) return colon != NULL && isalpha((unsigned char)colon[1]);
    for (int k = 1; k < NFAMILY; k++)
        if (starts(spec, families[k].name)) return 1;
    return 0;
}

/* ---- 1. ---- */

static int64_t floor_div(int64_t a, int64_t b)
{
    const int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

/* "4" or "4,-2"; *pair says which. */
static int read_extent(const char *text, size_t n, int64_t v[2], int *pair)
{
    char part[64];
    if (n == 0 || n >= sizeof part) return 0;
    memcpy(part, text, n);
    part[n] = 0;
    char *const comma = strchr(part, ',');
    *pair = comma != NULL;
    if (comma != NULL) *comma = 0;
    if (!kl_parse_int(part, &v[0]) || llabs(v[0]) > KL_MAX_SITE) return 0;
    v[1] = 0;
    return comma == NULL || (kl_parse_int(comma + 1, &v[1]) && llabs(v[1]) <= KL_MAX_SITE);
}

static kl_status refuse(const char *spec, const family *f, const char *why, kl_err *err)
{
    if (f->line)
        return kl_fail(err, KL_EINPUT,
                       "lattice \"%.200s\": %s; allowed: %s:N and %s:ring:N, N cells of %d sites", spec, why,
                       f->name, f->name, f->nsub);
    return kl_fail(
        err, KL_EINPUT,
        "lattice \"%.200s\": %s; allowed: %s:LxW, %s:cylinder:LxW, %s:torus:LxW (cells; of tilted ones "
        "their vectors, torus:3,0x-1,2), %s:YCnxL, %s:XCnxL",
        spec, why, f->name, f->name, f->name, f->name, f->name);
}

/* The circumference by its name: the number of spacings, or sites, around. */
static kl_status named_around(const char *spec, plan *p, int64_t n, kl_err *err)
{
    const around *const a = p->form == YC ? &p->f->yc : &p->f->xc;
    char why[96];
    if (n < a->unit || n % a->unit != 0) {
        snprintf(why, sizeof why, "%s has circumferences that are multiples of %d, not %lld",
                 form_word[p->form], a->unit, (long long)n);
        return refuse(spec, p->f, why, err);
    }
    p->span[1][0] = n / a->unit * a->a;
    p->span[1][1] = n / a->unit * a->b;
    return KL_OK;
}

/* Columns and rows that every cell of the cluster can be led back to: Hermite normal form of a torus. */
static int normal_form(plan *p)
{
    int64_t a = p->given[0][0], b = p->given[1][0], s = p->given[0][1], t = p->given[1][1];
    while (b != 0) {
        const int64_t q = floor_div(a, b), c = a - q * b, u = s - q * t;
        a = b;
        s = t;
        b = c;
        t = u;
    }
    if (a == 0 || t == 0 || llabs(a) > KL_MAX_SITE || llabs(t) > KL_MAX_SITE) return 0;
    if (a < 0) {
        a = -a;
        s = -s;
    }
    p->columns = (int)a;
    p->rows = (int)llabs(t);
    p->span[0][0] = a;
    p->span[0][1] = s - floor_div(s, p->rows) * p->rows;
    p->span[1][0] = 0;
    p->span[1][1] = p->rows;
    return 1;
}

/* Text behind the family and its form: the extents. */
static kl_status read_extents(const char *spec, const char *text, plan *p, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t first[2], second[2];
    int pair[2];
    const char *const cross = strpbrk(text, "xX");
    if (cross == NULL || !read_extent(text, (size_t)(cross - text), first, &pair[0]) ||
        !read_extent(cross + 1, strlen(cross + 1), second, &pair[1]))
        return refuse(spec, p->f, "its extent cannot be read", err);
    if ((pair[0] && p->form != TORUS) || (pair[1] && p->form != TORUS && p->form != CYLINDER))
        return refuse(spec, p->f, "only a torus, and the circumference of a cylinder, take vectors", err);
    const int64_t length = p->form == YC || p->form == XC ? second[0] : first[0];
    p->span[0][0] = length;
    if (p->form == YC || p->form == XC) KL_TRY(named_around(spec, p, first[0], err));
    else {
        p->span[1][0] = pair[1] ? second[0] : 0;
        p->span[1][1] = pair[1] ? second[1] : second[0];
    }
    if (p->form == TORUS) {
        memcpy(p->given, p->span, sizeof p->given);
        if (pair[0]) memcpy(p->given[0], first, sizeof first);
        if (!normal_form(p)) return refuse(spec, p->f, "its vectors span no area", err);
        return KL_OK;
    }
    if (length < 1 || p->span[1][1] < 1)
        return refuse(spec, p->f, "a length and the rows of a circumference are at least 1", err);
    p->columns = (int)length;
    p->rows = (int)p->span[1][1];
    p->zigzag = p->form == OPEN ? 1 : p->span[1][0] == 0 ? 2 : 0;
out:
    return st;
}

static kl_status read_line(const char *spec, const char *text, plan *p, kl_err *err)
{
    int64_t n = 0;
    if (strncmp(text, "ring", 4) == 0) {
        p->form = TORUS;
        text += 4 + (text[4] == ':');
    }
    if (!kl_parse_int(text, &n) || n < 1 || n > KL_MAX_SITE)
        return refuse(spec, p->f, "it needs a number of cells", err);
    p->columns = (int)n;
    p->rows = 1;
    p->span[0][0] = p->given[0][0] = n;
    p->span[1][1] = p->given[1][1] = 1;
    return KL_OK;
}

static kl_status read_spec(const char *spec, plan *p, kl_err *err)
{
    const char *text = strchr(spec, ':');
    *p = (plan){.f = &families[0]};
    for (int k = 0; k < NFAMILY; k++)
        if (starts(spec, families[k].name)) p->f = &families[k];
    if (text == NULL) return refuse(spec, p->f, "its extent is missing", err);
    text++;
    if (p->f->line) return read_line(spec, text, p, err);
    if (starts(spec, "cylinder")) p->form = CYLINDER;
    else if (starts(spec, "torus")) p->form = TORUS;
    else if (isalpha((unsigned char)*text)) {
        int k = 0;
        while (k < NFORM && strncmp(text, form_word[k], strlen(form_word[k])) != 0) k++;
        if (k == NFORM) return refuse(spec, p->f, "there is no such form", err);
        p->form = (form)k;
        text += strlen(form_word[k]);
        text += *text == ':';
    }
    return read_extents(spec, text, p, err);
}

/* ---- 2. ---- */

/* basis . span, in Cartesian components. */
static void vector_of(const kl_cells *c, const double n[2], double v[2])
{
    for (int k = 0; k < 2; k++) v[k] = n[0] * c->basis[0][k] + n[1] * c->basis[1][k];
}

/* Cell (n1, n2) of grid position (x, y). */
static void cell_at(const plan *p, const kl_cells *c, int x, int y, int64_t n[2])
{
    const double lean = c->basis[0][0] * c->basis[1][0] + c->basis[0][1] * c->basis[1][1];
    const double along = hypot(c->basis[0][0], c->basis[0][1]), up = hypot(c->basis[1][0], c->basis[1][1]);
    n[0] = x;
    n[1] = y;
    if (p->zigzag == 1) n[0] -= (int64_t)floor(y * lean / (along * along) + TOL);
    else if (p->zigzag == 2) n[1] -= (int64_t)floor(x * lean / (up * up) + TOL);
    else if (p->form != TORUS) n[0] += floor_div(y * p->span[1][0], p->span[1][1]);
}

/* Grid position of cell n, or 0 where the cluster ends. */
static int place_of(const plan *p, const kl_cells *c, const int64_t n[2], int *x, int *y)
{
    int64_t shift[2], column = n[0], row = n[1];
    if (p->form == TORUS) {
        const int64_t k = floor_div(column, p->columns);
        column -= k * p->span[0][0];
        row -= k * p->span[0][1];
        *x = (int)column;
        *y = (int)(row - floor_div(row, p->rows) * p->rows);
        return 1;
    }
    if (p->zigzag != 2 && p->form != OPEN) { /* around, by the vector that closes it */
        const int64_t k = floor_div(row, p->rows);
        column -= k * p->span[1][0];
        row -= k * p->span[1][1];
    }
    if (p->zigzag == 2) {
        if (column < 0 || column >= p->columns) return 0;
        cell_at(p, c, (int)column, 0, shift);
        row -= shift[1];
        *x = (int)column;
        *y = (int)(row - floor_div(row, p->rows) * p->rows);
        return 1;
    }
    if (row < 0 || row >= p->rows) return 0;
    cell_at(p, c, 0, (int)row, shift);
    column -= shift[0];
    *x = (int)column;
    *y = (int)row;
    return column >= 0 && column < p->columns;
}

/* The shorter of two closed vectors first, the other one as short as it can be (Lagrange and Gauss). */
static void reduce(double v[2][2])
{
    for (int turn = 0; turn < 200; turn++) {
        const double aa = v[0][0] * v[0][0] + v[0][1] * v[0][1], bb = v[1][0] * v[1][0] + v[1][1] * v[1][1];
        if (bb < aa - TOL) {
            for (int k = 0; k < 2; k++) {
                const double keep = v[0][k];
                v[0][k] = v[1][k];
                v[1][k] = keep;
            }
            continue;
        }
        const double q = round((v[0][0] * v[1][0] + v[0][1] * v[1][1]) / aa);
        if (q == 0) return;
        for (int k = 0; k < 2; k++) v[1][k] -= q * v[0][k];
    }
}

void kl_cells_step(const kl_lattice *lat, int i, int j, double vector[2])
{
    const kl_cells *const c = &lat->cells;
    const double (*const t)[2] = c->period;
    const double x = lat->xy[j][0] - lat->xy[i][0], y = lat->xy[j][1] - lat->xy[i][1];
    double k[2] = {0, 0}, best = INFINITY;
    if (c->nperiod == 1) k[0] = round((x * t[0][0] + y * t[0][1]) / (t[0][0] * t[0][0] + t[0][1] * t[0][1]));
    if (c->nperiod == 2) {
        const double area = t[0][0] * t[1][1] - t[0][1] * t[1][0];
        k[0] = round((x * t[1][1] - y * t[1][0]) / area);
        k[1] = round((y * t[0][0] - x * t[0][1]) / area);
    }
    for (int a = c->nperiod > 0 ? -1 : 0; a <= (c->nperiod > 0); a++)
        for (int b = c->nperiod > 1 ? -1 : 0; b <= (c->nperiod > 1); b++) {
            const double dx = x - (k[0] + a) * t[0][0] - (k[1] + b) * t[1][0];
            const double dy = y - (k[0] + a) * t[0][1] - (k[1] + b) * t[1][1];
            if (hypot(dx, dy) > best - TOL) continue;
            best = hypot(dx, dy);
            vector[0] = dx;
            vector[1] = dy;
        }
}

/* Basis and closed vectors; a circumference stands upright. */
static void lay_out(const plan *p, kl_cells *c)
{
    double v[2][2], n[2], turn = 0;
    c->nsub = p->f->nsub;
    c->grid[0] = p->columns;
    c->grid[1] = p->rows;
    memcpy(c->basis, p->f->basis, sizeof c->basis);
    for (int k = 0; k < 2; k++)
        for (int l = 0; l < 2; l++) c->span[k][l] = (int)p->span[k][l];
    for (int k = 0; k < 2; k++) {
        n[0] = (double)p->span[k][0];
        n[1] = (double)p->span[k][1];
        vector_of(c, n, v[k]);
    }
    c->nperiod = p->form == OPEN ? 0 : p->form == TORUS && !p->f->line ? 2 : 1;
    if (c->nperiod == 1 && !p->f->line) {
        turn = atan2(v[1][0], v[1][1]);
        for (int k = 0; k < 2; k++) {
            const double x = c->basis[k][0], y = c->basis[k][1];
            c->basis[k][0] = x * cos(turn) - y * sin(turn);
            c->basis[k][1] = x * sin(turn) + y * cos(turn);
        }
        c->period[0][1] = hypot(v[1][0], v[1][1]);
    } else if (c->nperiod == 1) memcpy(c->period[0], v[0], sizeof v[0]);
    else if (c->nperiod == 2) {
        memcpy(c->period, v, sizeof v);
        reduce(c->period);
    }
}

/* Where the sites lie: of a torus in the area that its vectors span, as they were given. */
static void place_sites(const plan *p, kl_lattice *lat)
{
    const kl_cells *const c = &lat->cells;
    const double turn = atan2(c->basis[0][1], c->basis[0][0]) - atan2(p->f->basis[0][1], p->f->basis[0][0]);
    for (int i = 0; i < lat->nsite; i++) {
        const int cell = i / c->nsub;
        int64_t n[2];
        cell_at(p, c, cell / p->rows, cell % p->rows, n);
        if (p->form == TORUS) {
            const int64_t det = p->given[0][0] * p->given[1][1] - p->given[0][1] * p->given[1][0];
            const int64_t a = floor_div(n[0] * p->given[1][1] - n[1] * p->given[1][0], det);
            const int64_t b = floor_div(n[1] * p->given[0][0] - n[0] * p->given[0][1], det);
            for (int k = 0; k < 2; k++) n[k] -= a * p->given[0][k] + b * p->given[1][k];
        }
        const double at[2] = {(double)n[0], (double)n[1]}, *const s = p->f->place[i % c->nsub];
        vector_of(c, at, lat->xy[i]);
        lat->xy[i][0] += s[0] * cos(turn) - s[1] * sin(turn);
        lat->xy[i][1] += s[0] * sin(turn) + s[1] * cos(turn);
        /* rows that climb are led back around the circumference */
        if (c->nperiod == 1 && !p->f->line && !p->zigzag && fabs(c->basis[0][1]) > TOL)
            lat->xy[i][1] -= floor(lat->xy[i][1] / c->period[0][1] + TOL) * c->period[0][1];
        for (int k = 0; k < 2; k++) /* a zero, but for what rotating it left */
            if (fabs(lat->xy[i][k]) < TOL) lat->xy[i][k] = 0;
    }
    lat->has_xy = 1;
}

/* ---- 3. ---- */

static int compare_shells(const void *pa, const void *pb)
{
    const step *const a = pa, *const b = pb;
    if (a->shell != b->shell) return a->shell - b->shell;
    if (a->from != b->from) return a->from - b->from;
    if (a->to != b->to) return a->to - b->to;
    return a->dx != b->dx ? a->dx - b->dx : a->dy - b->dy;
}

/* All displacements up to the third distance, each pair of opposite ones once: from the lower letter to the
   higher, of one letter along growing columns, then rows. */
static int find_steps(const family *f, step *list)
{
    double shell[NSHELL];
    int n = 0;
    for (int k = 0; k < NSHELL; k++) shell[k] = INFINITY;
    for (int round = 0; round <= NSHELL; round++) {
        /* rounds 0 to NSHELL - 1 find the distances, the last one the displacements */
        for (int from = 0; from < f->nsub; from++)
            for (int to = from; to < f->nsub; to++)
                for (int dx = -REACH; dx <= REACH; dx++)
                    for (int dy = f->line ? 0 : -REACH; dy <= (f->line ? 0 : REACH); dy++) {
                        if (from == to && (dx < 0 || (dx == 0 && dy <= 0))) continue;
                        const double x =
                            f->place[to][0] - f->place[from][0] + dx * f->basis[0][0] + dy * f->basis[1][0];
                        const double y =
                            f->place[to][1] - f->place[from][1] + dx * f->basis[0][1] + dy * f->basis[1][1];
                        const double r = hypot(x, y);
                        if (round < NSHELL) {
                            if (round == 0 || r > shell[round - 1] + TOL)
                                shell[round] = fmin(shell[round], r);
                            continue;
                        }
                        for (int k = 0; k < NSHELL && n < MOST_STEP; k++)
                            if (fabs(r - shell[k]) < TOL)
                                list[n++] = (step){from, to, dx, dy, k, x, y, shell[k]};
                    }
    }
    qsort(list, (size_t)n, sizeof *list, compare_shells);
    return n;
}

/* The angle of a displacement, from 0 on and less than pi. */
static double angle_of(const step *s)
{
    const double a = atan2(s->y, s->x);
    return a < -TOL ? a + 3.14159265358979323846 : a > 3.14159265358979323846 - TOL ? 0.0 : fmax(a, 0.0);
}

/* Which of the directions of its shell, by angle; *n: how many there are. */
static int direction_of(int nstep, const step *list, const step *s, int *n)
{
    double seen[MOST_STEP];
    int count = 0, before = 0;
    for (int k = 0; k < nstep; k++) {
        if (list[k].shell != s->shell) continue;
        const double a = angle_of(&list[k]);
        int known = 0;
        for (int l = 0; l < count; l++) known |= fabs(seen[l] - a) < 1e-6;
        if (known) continue;
        seen[count++] = a;
        before += a < angle_of(s) - 1e-6;
    }
    *n = count;
    return before;
}

/* Whether a site of the lattice lies halfway. */
static int passes_site(const family *f, const step *s)
{
    const double x = f->place[s->from][0] + s->x / 2, y = f->place[s->from][1] + s->y / 2;
    for (int t = 0; t < f->nsub; t++)
        for (int dx = -REACH; dx <= REACH; dx++)
            for (int dy = -REACH; dy <= REACH; dy++)
                if (hypot(f->place[t][0] + dx * f->basis[0][0] + dy * f->basis[1][0] - x,
                          f->place[t][1] + dx * f->basis[0][1] + dy * f->basis[1][1] - y) < TOL)
                    return 1;
    return 0;
}

/* Names of the classes of a displacement: shell, direction, sublattices, and what a family calls it. */
static int name_classes(const family *f, int nstep, const step *list, const step *s, char name[][WORD])
{
    static const char *const shell_word[NSHELL] = {"nn", "nnn", "d3"};
    static const char *const prefix[NSHELL] = {"", "nnn_", "d3_"};
    int n = 0, ndir = 0;
    snprintf(name[n++], WORD, "%s", shell_word[s->shell]);
    /* of the checkerboard only every other plaquette has its diagonals */
    const int cross = strcmp(f->name, "checkerboard") == 0 && s->shell == 1;
    if (cross && (s->from == 0) != (s->dx != 0)) {
        snprintf(name[0], WORD, "empty");
        return n;
    }
    if (cross) snprintf(name[n++], WORD, "cross");
    const int dir = direction_of(nstep, list, s, &ndir);
    if (ndir == 2 || ndir == 3) snprintf(name[n++], WORD, "%s%c", prefix[s->shell], "xyz"[dir]);
    if (f->nsub > 1) snprintf(name[n++], WORD, "%s%c%c", prefix[s->shell], 'A' + s->from, 'A' + s->to);
    if (strcmp(f->name, "kagome") == 0 && s->shell == 2)
        snprintf(name[n++], WORD, "%s", passes_site(f, s) ? "d3_line" : "d3_hexagon");
    if (f == &families[0] && s->shell == 0) snprintf(name[n++], WORD, "%s", dir == 0 ? "leg" : "rung");
    if (f == &families[0] && s->shell == 1) snprintf(name[n++], WORD, "diag");
    return n;
}

static kl_status add_bonds(const plan *p, kl_lattice *lat, int double_bonds, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_cells *const c = &lat->cells;
    step list[MOST_STEP];
    const int nstep = find_steps(p->f, list);
    for (int s = 0; s < nstep; s++) {
        const step *const d = &list[s];
        char name[KL_MAX_BOND_CLASS][WORD];
        kl_bond bond = {.r = d->r, .nclass = name_classes(p->f, nstep, list, d, name)};
        for (int k = 0; k < bond.nclass; k++) KL_TRY(kl_lattice_add_class(lat, name[k], &bond.cls[k], err));
        for (int cell = 0; cell < p->columns * p->rows; cell++) {
            int64_t n[2];
            double shortest[2];
            int x = 0, y = 0;
            cell_at(p, c, cell / p->rows, cell % p->rows, n);
            n[0] += d->dx;
            n[1] += d->dy;
            if (p->f->line && c->nperiod == 0 && (n[0] < 0 || n[0] >= p->columns)) continue;
            if (!place_of(p, c, n, &x, &y)) continue;
            const int i = cell * c->nsub + d->from, j = (x * p->rows + y) * c->nsub + d->to;
            if (i == j) continue;
            kl_cells_step(lat, i, j, shortest);
            if (hypot(shortest[0], shortest[1]) < d->r - TOL) continue;
            bond.i = i < j ? i : j;
            bond.j = i < j ? j : i;
            bond.reversed = i > j;
            KL_TRY(kl_lattice_push_bond(lat, &bond, err));
        }
    }
    kl_lattice_sort_bonds(lat, double_bonds);
out:
    return st;
}

kl_status kl_cells_create(const char *spec, int nsite, int double_bonds, kl_lattice **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_lattice *lat = NULL;
    plan p;
    KL_TRY(read_spec(spec, &p, err));
    const int64_t total = (int64_t)p.columns * p.rows * p.f->nsub;
    if (total > KL_MAX_SITE)
        return kl_fail(err, KL_EINPUT, "lattice \"%.200s\" has %lld sites; there may be at most %d", spec,
                       (long long)total, KL_MAX_SITE);
    if (nsite > 0 && nsite != total)
        return kl_fail(err, KL_EINPUT,
                       "lattice \"%.200s\" has %lld sites but %d were asked for; give one of the two", spec,
                       (long long)total, nsite);
    KL_TRY(kl_lattice_create_sites(spec, (int)total, &lat, err));
    lat->kind = KL_LATTICE_CELLS;
    lat->lx = p.columns;
    lat->ly = p.rows * p.f->nsub;
    lay_out(&p, &lat->cells);
    lat->periodic_x = p.form == TORUS;
    lat->periodic_y = p.form != OPEN && !p.f->line;
    place_sites(&p, lat);
    for (int i = 0; i < lat->nsite && p.f->nsub > 1; i++) {
        const char letter[2] = {(char)('A' + i % p.f->nsub), 0};
        lat->site_class[i] = kl_strdup(letter);
        if (lat->site_class[i] == NULL) KL_TRY(kl_fail(err, KL_ENOMEM, "out of memory for the sublattices"));
    }
    KL_TRY(add_bonds(&p, lat, double_bonds, err));
    *out = lat;
    lat = NULL;
out:
    kl_lattice_destroy(&lat);
    return st;
}

/* k . span[0] = 2 pi x and k . span[1] = 2 pi y: the grid has each momentum once, as span[1] has no column
   beyond those of span[0] (of cylinders span[0] has no row). */
static void cell_momenta(const kl_lattice *lat, double (*k)[2])
{
    const kl_cells *const c = &lat->cells;
    double v[2][2];
    for (int a = 0; a < 2; a++) {
        const double n[2] = {c->span[a][0], c->span[a][1]};
        vector_of(c, n, v[a]);
    }
    if (c->basis[1][0] == 0 && c->basis[1][1] == 0) { /* a line of cells: any vector across it will do */
        v[1][0] = -v[0][1];
        v[1][1] = v[0][0];
    }
    const double area = v[0][0] * v[1][1] - v[0][1] * v[1][0];
    for (int i = 0; i < c->grid[0] * c->grid[1]; i++) {
        const double a = 2 * 3.14159265358979323846 * (i / c->grid[1]),
                     b = 2 * 3.14159265358979323846 * (i % c->grid[1]);
        k[i][0] = (a * v[1][1] - b * v[0][1]) / area;
        k[i][1] = (b * v[0][0] - a * v[1][0]) / area;
    }
}

void kl_lattice_grid(const kl_lattice *lat, int shape[2])
{
    shape[0] = lat->kind == KL_LATTICE_CELLS ? lat->cells.grid[0] : lat->lx;
    shape[1] = lat->kind == KL_LATTICE_CELLS ? lat->cells.grid[1] : lat->ly;
}

kl_status kl_lattice_momenta(const kl_lattice *lat, int shape[2], double (**k)[2], kl_err *err)
{
    kl_status st = KL_OK;
    if (lat->kind == KL_LATTICE_FILE)
        return kl_fail(
            err, KL_EINPUT,
            "lattice %.100s comes from a file and has no grid of momenta; measure corr(A,B) and transform it",
            lat->spec);
    kl_lattice_grid(lat, shape);
    KL_TRY(kl_alloc(k, (int64_t)shape[0] * shape[1], KL_MEM_MISC, err));
    if (lat->kind == KL_LATTICE_CELLS) {
        cell_momenta(lat, *k);
        return KL_OK;
    }
    for (int i = 0; i < shape[0] * shape[1]; i++) {
        (*k)[i][0] = 2 * 3.14159265358979323846 * (i / lat->ly) / lat->lx;
        (*k)[i][1] = 2 * 3.14159265358979323846 * (i % lat->ly) / lat->ly;
    }
out:
    return st;
}
