/* A figure as gnuplot's commands and data: see figure.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "figure/figure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plot.h"
#include "cli/plotmap.h"

enum {
    WIDE = 520,
    HIGH = 380,
    NCOLOUR = 8,
};

typedef struct page {
    const kl_figure *f;
    kl_figure_look look;
} page;

/* On light and on dark paper; told apart by those who see few colours (after Okabe and Ito). */
static const char *const colour[2][NCOLOUR] = {
    {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f7f7f", "#8856a7"},
    {"#56b4e9", "#ff8c42", "#2fc99a", "#e59ac6", "#e0c050", "#4a8fe0", "#a8a8a8", "#b79be8"}};

static void put_data(FILE *to, int panel, const kl_panel *p)
{
    for (int s = 0; s < p->nseries; s++) {
        const kl_series *const c = &p->series[s];
        fprintf(to, "$p%d_%d << EOD\n", panel, s);
        for (int64_t i = 0; i < c->n; i++) {
            const int drawn = isfinite(c->x[i]) && isfinite(c->y[i]) && (!p->log_y || c->y[i] > 0) &&
                              (!p->log_x || c->x[i] > 0);
            if (!drawn) {
                fprintf(to, "\n"); /* a gap in the line */
                continue;
            }
            fprintf(to, "%.17g %.17g %.17g\n", c->x[i], c->y[i],
                    c->error != NULL && isfinite(c->error[i]) ? c->error[i] : 0.0);
        }
        fprintf(to, "EOD\n");
    }
    if (p->kind != KL_PANEL_PLANE) return;
    fprintf(to, "$p%d_z << EOD\n", panel);
    for (int64_t y = 0; y < p->ny; y++) {
        for (int64_t x = 0; x < p->nx; x++)
            fprintf(to, "%.17g %.17g %.17g\n", p->grid_x[x], p->grid_y[y], p->z[y * p->nx + x]);
        fprintf(to, "\n");
    }
    fprintf(to, "EOD\n");
    if (p->noutline == 0) return;
    fprintf(to, "$p%d_o << EOD\n", panel);
    for (int k = 0; k <= p->noutline; k++)
        fprintf(to, "%.17g %.17g\n", p->outline[k % p->noutline][0], p->outline[k % p->noutline][1]);
    fprintf(to, "EOD\n");
}

static void label(FILE *to, const char *what, const char *text)
{
    fprintf(to, "set %s ", what);
    kl_plot_quote(to, text);
    fprintf(to, "\n");
}

static int is_drawable(const kl_panel *p, const kl_series *s)
{
    for (int64_t i = 0; i < s->n; i++)
        if (isfinite(s->x[i]) && isfinite(s->y[i]) && (!p->log_y || s->y[i] > 0) &&
            (!p->log_x || s->x[i] > 0))
            return 1;
    return 0;
}

/* What the curves that are drawn span in x or y. */
static void span(const kl_panel *p, int of_y, double out[2])
{
    out[0] = INFINITY;
    out[1] = -INFINITY;
    for (int s = 0; s < p->nseries; s++)
        for (int64_t i = 0; i < p->series[s].n; i++) {
            const double x = p->series[s].x[i], y = p->series[s].y[i], v = of_y ? y : x;
            if (!isfinite(x) || !isfinite(y) || (p->log_x && x <= 0) || (p->log_y && y <= 0)) continue;
            out[0] = fmin(out[0], v);
            out[1] = fmax(out[1], v);
        }
}

/* 1: x are whole numbers, such as sites and sweeps. */
static int counts(const kl_panel *p)
{
    for (int s = 0; s < p->nseries; s++)
        for (int64_t i = 0; i < p->series[s].n; i++)
            if (p->series[s].x[i] != floor(p->series[s].x[i])) return 0;
    return 1;
}

/* Series with names stand in a key: more than two of them beside the panel. */
static int names(const kl_panel *p)
{
    int n = 0;
    for (int s = 0; s < p->nseries; s++) n += p->series[s].name[0] != '\0';
    return n;
}

/* Labels at 1, 2 and 5 of each decade where the powers of ten alone would be one or two. */
static void log_tics(FILE *to, char axis, const double range[2])
{
    static const double few[] = {1, 2, 5}, many[] = {1, 2, 3, 4, 5, 6, 8};
    const double decades = log10(range[1] / range[0]);
    const int close = axis == 'x' && decades < 0.9; /* labels of y are long, and stand above each other */
    const double *const at = close ? many : few;
    const int n = close ? 7 : 3;
    int put = 0;
    if (!(decades < 2)) {
        fprintf(to, "set %ctics autofreq\n", axis);
        return;
    }
    fprintf(to, "set %ctics (", axis);
    for (int k = (int)floor(log10(range[0])); k <= (int)ceil(log10(range[1])); k++)
        for (int m = 0; m < n; m++) fprintf(to, "%s%g", put++ > 0 ? ", " : "", at[m] * pow(10, k));
    fprintf(to, ")\n");
}

/* Labels of x in a panel that its key has made narrow: a round step, of which about four fit. */
static double wide_step(double length)
{
    const double about = length / 4, ten = pow(10, floor(log10(about)));
    return ten * (about < 1.5 * ten ? 1 : about < 3.5 * ten ? 2 : about < 7.5 * ten ? 5 : 10);
}

/* Of curves on one value gnuplot would show the noise. */
static void ranges(FILE *to, const kl_panel *p)
{
    double x[2], y[2];
    span(p, 0, x);
    span(p, 1, y);
    fprintf(to, "%s logscale x\n%s logscale y\n", p->log_x ? "set" : "unset", p->log_y ? "set" : "unset");
    if (p->log_y && isfinite(y[0])) log_tics(to, 'y', y);
    else fprintf(to, "set ytics autofreq\n");
    if (!isfinite(y[0])) fprintf(to, "set yrange [%s]\n", p->log_y ? "0.1:1" : "-1:1");
    else if (!p->log_y && y[1] - y[0] <= 1e-7 * fmax(1, fmax(fabs(y[0]), fabs(y[1]))))
        fprintf(to, "set yrange [%.17g:%.17g]\n", y[0] - 1, y[1] + 1);
    else fprintf(to, "set yrange [*:*]\n");
    if (!isfinite(x[0])) {
        fprintf(to, "set xrange [%s]\nset xtics autofreq\n", p->log_x ? "1:10" : "0:1");
    } else if (p->log_x) {
        fprintf(to, "set xrange [%.17g:%.17g]\n", 0.9 * x[0], 1.1 * x[1]);
        log_tics(to, 'x', x);
    } else {
        const double room = x[1] > x[0] ? 0.03 * (x[1] - x[0]) : 0.5;
        fprintf(to, "set xrange [%.17g:%.17g]\n", x[0] - room, x[1] + room);
        if (counts(p) && x[1] - x[0] < (names(p) > 2 ? 9 : 13)) fprintf(to, "set xtics 1\n");
        else if (names(p) > 2 && x[1] > x[0]) fprintf(to, "set xtics %.17g\n", wide_step(x[1] - x[0]));
        else fprintf(to, "set xtics autofreq\n");
    }
}

/* again: of a colour that stands for another series already, told apart by dots */
static void stroke(FILE *to, int panel, int s, const kl_series *c, const char *pen, int again)
{
    const char *const style =
        c->stroke == KL_STROKE_POINTS && c->error != NULL ? "yerrorbars pointtype 7 pointsize 0.5"
        : c->stroke == KL_STROKE_POINTS                   ? "points pointtype 7 pointsize 0.6"
        : c->stroke == KL_STROKE_BOTH ? "linespoints pointtype 7 pointsize 0.5 linewidth 1.5"
        : c->stroke == KL_STROKE_FIT  ? "lines linewidth 1.5 dashtype 2"
                                      : "lines linewidth 1.8";
    if (c->stroke == KL_STROKE_BAND)
        fprintf(to,
                "$p%d_%d using 1:($2-$3):($2+$3) with filledcurves linecolor rgb '%s' fillstyle transparent "
                "solid "
                "0.25 noborder notitle, ",
                panel, s, pen);
    const int line = c->stroke != KL_STROKE_POINTS && c->stroke != KL_STROKE_FIT;
    fprintf(to, "$p%d_%d using %s with %s%s linecolor rgb '%s' ", panel, s,
            c->stroke == KL_STROKE_POINTS && c->error != NULL ? "1:2:3" : "1:2", style,
            again && line ? " dashtype 3" : "", pen);
    if (c->name[0] == '\0') fprintf(to, "notitle");
    else {
        fprintf(to, "title ");
        kl_plot_quote(to, c->name);
    }
}

/* The corner for a key inside a panel: the one that fewest points are in. */
static const char *free_corner(const kl_panel *p)
{
    static const char *const corner[] = {"top right", "top left", "bottom right", "bottom left"};
    double range[2][2];
    int inside[4] = {0}, best = 0;
    for (int of_y = 0; of_y < 2; of_y++) {
        span(p, of_y, range[of_y]);
        for (int k = 0; k < 2; k++)
            if (of_y ? p->log_y : p->log_x) range[of_y][k] = log(range[of_y][k]);
    }
    for (int s = 0; s < p->nseries; s++)
        for (int64_t i = 0; i < p->series[s].n; i++) {
            const double x = p->series[s].x[i], y = p->series[s].y[i];
            const double at_x = ((p->log_x ? log(x) : x) - range[0][0]) / (range[0][1] - range[0][0]);
            const double at_y = ((p->log_y ? log(y) : y) - range[1][0]) / (range[1][1] - range[1][0]);
            if (!isfinite(at_x) || !isfinite(at_y) || fabs(at_x - 0.5) < 0.15 || fabs(at_y - 0.5) < 0.25)
                continue;
            inside[(at_x < 0.5) + 2 * (at_y < 0.5)]++;
        }
    for (int k = 1; k < 4; k++)
        if (inside[k] < inside[best]) best = k;
    return corner[best];
}

static void draw_curves(FILE *to, int panel, const kl_panel *p, int dark)
{
    int drawn = 0, pen = 0;
    const int named = names(p);
    ranges(to, p);
    fprintf(to, "set format y '%s'\n", p->log_y ? "%.0e" : "%g");
    if (named > 2) fprintf(to, "set key outside right samplen 1.2 font ',8'\n");
    else if (named > 0) fprintf(to, "set key inside %s samplen 1.5 font ',9'\n", free_corner(p));
    else fprintf(to, "set key off\n");
    fprintf(to, "plot ");
    for (int s = 0; s < p->nseries; s++) {
        const kl_series *const c = &p->series[s];
        /* a fit has the colour of what it fits */
        const int at = c->stroke == KL_STROKE_FIT && pen > 0 ? pen - 1 : pen++;
        if (!is_drawable(p, c)) continue;
        fprintf(to, "%s", drawn++ ? ", " : "");
        stroke(to, panel, s, c, colour[dark != 0][at % NCOLOUR], at >= NCOLOUR);
    }
    fprintf(to, "%s\n", drawn ? "" : "[0:1] -2 notitle");
}

/* Half a cell around the outermost centres. */
static void edges(int64_t n, const double *x, double out[2])
{
    const double half = n > 1 ? 0.5 * (x[n - 1] - x[0]) / (double)(n - 1) : 0.5;
    out[0] = x[0] - half;
    out[1] = x[n - 1] + half;
}

static void draw_plane(FILE *to, int panel, const kl_panel *p, int dark)
{
    double x[2], y[2];
    edges(p->nx, p->grid_x, x);
    edges(p->ny, p->grid_y, y);
    fprintf(to,
            "unset logscale\nset format y '%%g'\nset ytics autofreq\nset key off\nset xrange "
            "[%.17g:%.17g]\nset yrange "
            "[%.17g:%.17g]\n"
            "set cbrange [*:*]\nset colorbox\nset palette defined (%s)\n",
            x[0], x[1], y[0], y[1],
            dark ? "0 '#16161a', 0.15 '#3b4cc0', 0.5 '#e0a030', 1 '#fff6d0'"
                 : "0 '#ffffff', 0.15 '#9cc4e4', 0.5 '#1f5fa8', 1 '#0a1030'");
    double least = 0, most = 0;
    for (int64_t i = 0; i < p->nx * p->ny; i++) {
        least = fmin(least, isfinite(p->z[i]) ? p->z[i] : 0);
        most = fmax(most, isfinite(p->z[i]) ? p->z[i] : 0);
    }
    if (least > -1e-9) fprintf(to, "set cbrange [0:*]\n");
    else if (least <
             -0.02 * most) /* both signs: nothing is the colour of the paper, as on the lattice's maps */
        fprintf(to, "set cbrange [%.17g:%.17g]\nset palette defined (-1 '#d5702a', 0 '%s', 1 '#3a7fc4')\n",
                -fmax(most, -least), fmax(most, -least), dark ? "#16161a" : "#ffffff");
    fprintf(to, "set xtics %s\n", p->noutline > 0 ? "1" : "autofreq");
    if (p->noutline > 0) fprintf(to, "set size ratio -1\n");
    fprintf(to, "plot $p%d_z using 1:2:3 with image notitle", panel);
    if (p->noutline > 0)
        fprintf(to, ", $p%d_o using 1:2 with lines linewidth 1.5 linecolor rgb '#d55e00' notitle", panel);
    fprintf(to, "\nset size noratio\nunset colorbox\n");
}

/* Of axes: a map takes them away, and they come back black. */
static void put_ink(FILE *to, int dark)
{
    const char *const ink = dark ? "#e6e6e6" : "#202020";
    fprintf(to,
            "set border linecolor rgb '%s'\nset xtics textcolor rgb '%s'\nset ytics textcolor rgb '%s'\n"
            "set grid linecolor rgb '%s'\n",
            ink, ink, ink, dark ? "#404048" : "#dddddd");
}

/* In one column a long title breaks behind the comma that is nearest to its middle. */
static void put_title(FILE *to, const char *title, int columns)
{
    char first[sizeof(((kl_figure *)0)->title)];
    const int length = (int)strlen(title);
    int at = 0;
    for (int k = 1; k + 2 < length; k++)
        if (strncmp(title + k, ", ", 2) == 0 && (at == 0 || abs(2 * k - length) < abs(2 * at - length)))
            at = k;
    if (columns > 1 || length < 60 || at == 0) {
        kl_plot_quote(to, title);
        return;
    }
    snprintf(first, sizeof first, "%.*s", at + 1, title);
    kl_plot_quote(to, first);
    fprintf(to, ".\"\\n\".");
    kl_plot_quote(to, title + at + 2);
}

static void write_script(FILE *to, const void *self, const char *terminal)
{
    const page *const g = self;
    const kl_figure *const f = g->f;
    const int n = f->npanel > 0 ? f->npanel : 1, columns = n > 1 ? g->look.columns : 1,
              rows = (n + columns - 1) / columns;
    const char *const ink = g->look.dark ? "#e6e6e6" : "#202020";
    for (int k = 0; k < f->npanel; k++) put_data(to, k, &f->panel[k]);
    kl_plot_sheet(to, terminal, WIDE * columns, HIGH * rows + 50, g->look.dark);
    put_ink(to, g->look.dark);
    fprintf(to,
            "set cbtics font ',9' textcolor rgb '%s'\nset title textcolor rgb '%s' font "
            "',11'\nset xlabel textcolor "
            "rgb '%s' font ',10'\n"
            "set ylabel textcolor rgb '%s' font ',10'\nset key textcolor rgb '%s'\n"
            "set multiplot layout %d,%d title ",
            ink, ink, ink, ink, ink, rows, columns);
    put_title(to, f->title, columns);
    fprintf(to, " textcolor rgb '%s' font ',10'\n", ink);
    for (int k = 0; k < f->npanel; k++) {
        const kl_panel *const p = &f->panel[k];
        fprintf(to, "set tics font ',9'\n"); /* a map of a lattice has unset them */
        label(to, "title", p->title);
        label(to, "ylabel", p->y);
        /* the note stands below the axis, where no curve is */
        fprintf(to, "set xlabel ");
        kl_plot_quote(to, p->x);
        if (p->note[0] != '\0') {
            fprintf(to, ".\"\\n\".");
            kl_plot_quote(to, p->note);
        }
        fprintf(to, "\n");
        put_ink(to, g->look.dark);
        if (p->kind == KL_PANEL_CURVES) draw_curves(to, k, p, g->look.dark);
        else if (p->kind == KL_PANEL_PLANE) draw_plane(to, k, p, g->look.dark);
        else kl_plotmap_values(to, p->g, p->nsite, p->xy, p->site, p->bond, g->look.dark);
    }
    if (f->npanel == 0) fprintf(to, "set yrange [0:1]\nplot [0:1] -1 notitle\n");
    fprintf(to, "unset multiplot\nunset output\n");
}

kl_status kl_figure_draw(const kl_figure *f, kl_figure_look look, const char *output, kl_err *err)
{
    const page p = {f, look};
    return kl_plot_run(write_script, &p, "--output", output, err);
}
