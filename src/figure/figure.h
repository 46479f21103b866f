/* A figure as numbers: panels of curves, of a value over a plane, or of a lattice; what was left out and why.
   Results become one in panels.c and panelsmany.c; drawn, or written as CSV and JSON, it is the same numbers.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_FIGURE_H
#define KL_FIGURE_H
#include <stdio.h>

#include "io/geometry.h"

/* ORDER KL_STROKE: figure.c */
typedef enum kl_stroke {
    KL_STROKE_POINTS,
    KL_STROKE_BOTH, /* points joined by a line */
    KL_STROKE_LINE,
    KL_STROKE_BAND, /* a line in a band of its errors */
    KL_STROKE_FIT /* a thin line that no measured number stands on */
} kl_stroke;

typedef struct kl_series {
    char name[120];
    kl_stroke stroke;
    int64_t n;
    double *x, *y, *error; /* [n], error NULL: none is told */
} kl_series;

typedef enum kl_panel_kind {
    KL_PANEL_CURVES,
    KL_PANEL_PLANE, /* z over a grid of x and y */
    KL_PANEL_LATTICE /* values on sites and bonds */
} kl_panel_kind;

typedef struct kl_panel {
    kl_panel_kind kind;
    char title[160], x[80], y[80], note[240];
    int log_x, log_y;
    int nseries;
    kl_series *series;
    /* a plane: */
    int64_t nx, ny;
    double *grid_x, *grid_y, *z; /* [nx], [ny], z[ny][nx] */
    int noutline;
    double outline[12][2]; /* a closed line over it: the Brillouin zone */
    /* a lattice: */
    const kl_geometry *g;
    const double (*xy)[2];
    int nsite;
    double *site, *bond; /* [nsite], [g->nbond]; NaN: not drawn */
} kl_panel;

typedef struct kl_figure {
    char title[600];
    int npanel;
    kl_panel *panel;
    int nleft;
    char (*left)[200];
} kl_figure;

void kl_figure_clear(kl_figure *f);
/* The new panel stays with f; pointers to older ones may move. */
kl_status kl_figure_add(kl_figure *f, kl_panel_kind kind, const char *title, kl_panel **out,
                        kl_err *err) KL_MUST_CHECK;
/* A series of n zeros. */
kl_status kl_panel_add(kl_panel *p, const char *name, kl_stroke stroke, int64_t n, int errors,
                       kl_series **out, kl_err *err) KL_MUST_CHECK;
kl_status kl_figure_leave(kl_figure *f, const char *what, const char *why, kl_err *err) KL_MUST_CHECK;

/* One line a number: panel, series, x, y, value, error. */
void kl_figure_csv(const kl_figure *f, FILE *to);
void kl_figure_json(const kl_figure *f, FILE *to);

typedef struct kl_figure_look {
    int columns; /* columns of panels: 1 or 2, as wide as one or two columns of a paper */
    int dark;
} kl_figure_look;
/* Into .svg, .png or .pdf, as kl_plot_run. */
kl_status kl_figure_draw(const kl_figure *f, kl_figure_look look, const char *output,
                         kl_err *err) KL_MUST_CHECK;

#endif
