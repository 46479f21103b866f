/* Pictures of a lattice: see plotmap.h. Writes gnuplot's commands and data; reads no result.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/plotmap.h"

#include <math.h>

#include "cli/plot.h"

static const double EDGE = 0.6; /* of a spacing, around the outermost sites */

static void limits(int nsite, const double (*xy)[2], double low[2], double high[2])
{
    for (int k = 0; k < 2; k++) {
        low[k] = INFINITY;
        high[k] = -INFINITY;
        for (int i = 0; i < nsite; i++) {
            low[k] = fmin(low[k], xy[i][k]);
            high[k] = fmax(high[k], xy[i][k]);
        }
    }
}

double kl_plotmap_width(int nsite, const double (*xy)[2])
{
    double low[2], high[2];
    limits(nsite, xy, low, high);
    return (high[0] - low[0] + 2 * EDGE) / (high[1] - low[1] + 2 * EDGE);
}

/* 1: drawn in the lattice's own picture. */
static int is_shown(const kl_geometry *g, int64_t b, int has_nn)
{
    return !has_nn || kl_geometry_is(g, b, "nn") || kl_geometry_is(g, b, "cross");
}

static int colour_of(const kl_geometry *g, int64_t b)
{
    static const char *const direction[] = {"x", "y", "z"};
    static const int colour[] = {0x1f6fb4, 0x2a9d5c, 0xb0521f}; /* read on white and on black */
    for (int k = 0; k < 3; k++)
        if (kl_geometry_is(g, b, direction[k])) return colour[k];
    return 0x8a8a8a;
}

/* One line "x y dx dy colour", or two halves where the bond leads out of the picture. */
static void put_bond(FILE *to, const kl_geometry *g, int64_t b, const double (*xy)[2])
{
    const int i = g->bond[b][0], j = g->bond[b][1], colour = colour_of(g, b);
    const double *const vector = g->vector[b];
    const double miss = hypot(xy[j][0] - xy[i][0] - vector[0], xy[j][1] - xy[i][1] - vector[1]);
    if (miss < 1e-6) {
        fprintf(to, "%.6g %.6g %.6g %.6g %d\n", xy[i][0], xy[i][1], vector[0], vector[1], colour);
        return;
    }
    fprintf(to, "%.6g %.6g %.6g %.6g %d\n", xy[i][0], xy[i][1], 0.4 * vector[0], 0.4 * vector[1], colour);
    fprintf(to, "%.6g %.6g %.6g %.6g %d\n", xy[j][0], xy[j][1], -0.4 * vector[0], -0.4 * vector[1], colour);
}

/* What the colours are, below the picture. */
static void put_legend(FILE *to, const kl_geometry *g, int has_nn, int has_path)
{
    static const char *const name[] = {"x blue", "y green", "z brown", "others grey"};
    static const int colour[] = {0x1f6fb4, 0x2a9d5c, 0xb0521f, 0x8a8a8a};
    int there[4] = {0}, n = 0;
    for (int64_t b = 0; b < g->nbond; b++)
        for (int k = 0; k < 4; k++) there[k] |= is_shown(g, b, has_nn) && colour_of(g, b) == colour[k];
    fprintf(to, "set xlabel 'bonds: ");
    for (int k = 0; k < 4; k++)
        if (there[k]) fprintf(to, "%s%s", n++ > 0 ? ", " : "", name[k]);
    fprintf(to, "%s' font ',11'\n", has_path ? "; yellow: the order of DMRG" : "");
}

void kl_plotmap_lattice(FILE *to, const char *title, const kl_geometry *g, int nsite, const double (*xy)[2],
                        const int *order)
{
    double low[2], high[2];
    int has_nn = 0, shown = 0;
    limits(nsite, xy, low, high);
    for (int64_t b = 0; b < g->nbond; b++) has_nn |= kl_geometry_is(g, b, "nn");
    fprintf(to, "$bonds << EOD\n");
    for (int64_t b = 0; b < g->nbond; b++)
        if (is_shown(g, b, has_nn)) {
            put_bond(to, g, b, xy);
            shown++;
        }
    fprintf(to, "EOD\n$sites << EOD\n");
    for (int i = 0; i < nsite; i++) fprintf(to, "%.6g %.6g %d\n", xy[i][0], xy[i][1], i);
    fprintf(to, "EOD\n$path << EOD\n");
    for (int p = 0; p + 1 < nsite; p++) {
        const double *const a = xy[order[p]], *const z = xy[order[p + 1]];
        fprintf(to, "%.6g %.6g %.6g %.6g\n", a[0], a[1], z[0] - a[0], z[1] - a[1]);
    }
    fprintf(to, "EOD\n");
    if (shown > 0) put_legend(to, g, has_nn, nsite > 1);
    fprintf(to, "set title ");
    kl_plot_quote(to, title);
    /* Points and numbers shrink with the spacing that is left to them. */
    const double room = fmax((high[0] - low[0] + 2 * EDGE) / 900, (high[1] - low[1] + 2 * EDGE) / 900);
    const double point = fmin(4.5, 0.05 / room), font = fmin(14, 0.19 / room);
    fprintf(to,
            "\nset size ratio -1\nunset border\nunset xtics\nunset ytics\nunset key\n"
            "set xrange [%.6g:%.6g]\nset yrange [%.6g:%.6g]\n"
            "set style arrow 2 head filled size graph 0.008,20 linewidth 1.5 linecolor rgb '#e0a030'\n",
            low[0] - EDGE, high[0] + EDGE, low[1] - EDGE, high[1] + EDGE);
    fprintf(to, "plot ");
    if (shown > 0)
        fprintf(to, "$bonds using 1:2:3:4:5 with vectors nohead linewidth 4 linecolor rgb variable, ");
    if (nsite > 1) fprintf(to, "$path using 1:2:3:4 with vectors arrowstyle 2, ");
    fprintf(to, "$sites using 1:2 with points pointtype 7 pointsize %.3g linecolor rgb '#404040'", point);
    if (font >= 4) fprintf(to, ", $sites using 1:2:3 with labels font ',%.3g' textcolor rgb '#ffffff'", font);
    fprintf(to, "\n");
}

enum {
    BLUE = 0x3a7fc4,
    ORANGE = 0xd5702a,
};

/* The least distance of two sites that a bond joins: what circles may fill. */
static double spacing(const kl_geometry *g)
{
    double least = INFINITY;
    for (int64_t b = 0; b < g->nbond; b++) least = fmin(least, hypot(g->vector[b][0], g->vector[b][1]));
    return isfinite(least) && least > 0 ? least : 1;
}

static double largest(int64_t n, const double *v)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(v[i])) most = fmax(most, fabs(v[i]));
    return most > 0 ? most : 1;
}

/* Lines "x y dx dy colour width": what leads out of the picture is drawn as two stubs. */
static void put_value_bonds(FILE *to, const kl_geometry *g, const double (*xy)[2], const double *bond,
                            int dark)
{
    const double most = bond != NULL ? largest(g->nbond, bond) : 1;
    for (int64_t b = 0; b < g->nbond; b++) {
        const int i = g->bond[b][0], j = g->bond[b][1];
        const double *const vector = g->vector[b];
        const int valued = bond != NULL && isfinite(bond[b]);
        if (!valued && (bond != NULL || !kl_geometry_is(g, b, "nn"))) continue;
        const int colour = !valued ? (dark ? 0x505058 : 0xc8c8c8) : bond[b] >= 0 ? BLUE : ORANGE;
        const double width = valued ? 0.3 + 7.7 * fabs(bond[b]) / most : 1;
        if (hypot(xy[j][0] - xy[i][0] - vector[0], xy[j][1] - xy[i][1] - vector[1]) < 1e-6)
            fprintf(to, "%.6g %.6g %.6g %.6g %d %.3g\n", xy[i][0], xy[i][1], vector[0], vector[1], colour,
                    width);
        else {
            fprintf(to, "%.6g %.6g %.6g %.6g %d %.3g\n", xy[i][0], xy[i][1], 0.4 * vector[0], 0.4 * vector[1],
                    colour, width);
            fprintf(to, "%.6g %.6g %.6g %.6g %d %.3g\n", xy[j][0], xy[j][1], -0.4 * vector[0],
                    -0.4 * vector[1], colour, width);
        }
    }
}

void kl_plotmap_values(FILE *to, const kl_geometry *g, int nsite, const double (*xy)[2], const double *site,
                       const double *bond, int dark)
{
    double low[2], high[2];
    const double radius = 0.42 * spacing(g), most = site != NULL ? largest(nsite, site) : 1;
    limits(nsite, xy, low, high);
    fprintf(to, "$bonds << EOD\n");
    put_value_bonds(to, g, xy, bond, dark);
    fprintf(to, "0 0 0 0 0 0\nEOD\n$sites << EOD\n"); /* never without a line */
    for (int i = 0; i < nsite; i++) {
        const int valued = site != NULL && isfinite(site[i]);
        fprintf(to, "%.6g %.6g %.6g %d\n", xy[i][0], xy[i][1],
                valued ? radius * sqrt(fabs(site[i]) / most) : 0.06 * spacing(g),
                !valued        ? 0x808080
                : site[i] >= 0 ? BLUE
                               : ORANGE);
    }
    fprintf(to,
            "EOD\nset size ratio -1\nunset logscale\nunset grid\nunset border\nunset xtics\nunset ytics\n"
            "set key off\nset xrange [%.6g:%.6g]\nset yrange [%.6g:%.6g]\n"
            "plot $bonds using 1:2:3:4:5 with vectors nohead linewidth 1 linecolor rgb variable",
            low[0] - EDGE, high[0] + EDGE, low[1] - EDGE, high[1] + EDGE);
    /* gnuplot has no variable width of lines: one pass for each of some widths */
    for (int w = 2; w <= 8 && bond != NULL; w++)
        fprintf(
            to,
            ", $bonds using 1:($6>%g?$2:NaN):3:4:5 with vectors nohead linewidth %d linecolor rgb variable",
            w - 0.5, w);
    fprintf(to, ", $sites using 1:2:3:4 with circles fillstyle solid noborder linecolor rgb variable\n"
                "set size noratio\nset border\nset xtics\nset ytics\nset grid\n");
}
