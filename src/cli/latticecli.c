/* `kronlat lattice': what a lattice has, as text, JSON or a picture. Computes nothing of it: model/lattice.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/latticecli.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/json.h"
#include "cli/plot.h"
#include "cli/plotmap.h"
#include "config.h"
#include "io/geometry.h"
#include "run/task.h"

/* How many bonds are of class c; the fewest and most at a site; the shortest and longest. */
typedef struct counts {
    int n, least, most;
    double low, high;
} counts;

static kl_status count_class(const kl_lattice *lat, int c, counts *out, kl_err *err)
{
    kl_status st = KL_OK;
    int *at = NULL;
    *out = (counts){.low = INFINITY};
    KL_TRY(kl_alloc(&at, lat->nsite, KL_MEM_WORK, err));
    for (int b = 0; b < lat->nbond; b++)
        for (int k = 0; k < lat->bond[b].nclass; k++) {
            if (lat->bond[b].cls[k] != c) continue;
            out->n++;
            at[lat->bond[b].i]++;
            at[lat->bond[b].j]++;
            out->low = fmin(out->low, lat->bond[b].r);
            out->high = fmax(out->high, lat->bond[b].r);
        }
    out->least = out->most = at[0];
    for (int i = 1; i < lat->nsite; i++) {
        out->least = at[i] < out->least ? at[i] : out->least;
        out->most = at[i] > out->most ? at[i] : out->most;
    }
out:
    kl_free(&at);
    return st;
}

static const char *closed(const kl_lattice *lat)
{
    if (lat->kind == KL_LATTICE_FILE) return "";
    return lat->periodic_x   ? ", closed all around"
           : lat->periodic_y ? ", a cylinder closed around its columns"
                             : ", open";
}

static kl_status print_classes(const kl_lattice *lat, kl_err *err)
{
    kl_status st = KL_OK;
    printf("\n%-14s %8s %12s   %s\n", "class", "bonds", "at a site", "length");
    for (int c = 0; c < lat->nbond_class; c++) {
        counts n;
        char at[32], length[64] = "";
        KL_TRY(count_class(lat, c, &n, err));
        snprintf(at, sizeof at, n.least == n.most ? "%d" : "%d to %d", n.least, n.most);
        if (n.n > 0)
            snprintf(length, sizeof length, n.high - n.low < 1e-9 ? "%.6g" : "%.6g to %.6g", n.low, n.high);
        printf("%-14s %8d %12s   %s\n", lat->bond_class[c], n.n, at, length);
    }
out:
    return st;
}

/* The neighbours that a site has by bonds of one class, or by any where c is -1. */
static void print_neighbours(const kl_lattice *lat, int i, int c)
{
    int n = 0;
    for (int b = 0; b < lat->nbond; b++) {
        const kl_bond *const bond = &lat->bond[b];
        int taken = c < 0;
        for (int k = 0; k < bond->nclass; k++) taken |= bond->cls[k] == c;
        if (!taken || (bond->i != i && bond->j != i)) continue;
        printf("%s%d", n++ > 0 ? " " : "", bond->i == i ? bond->j : bond->i);
    }
}

enum { MOST_ROWS = 2000 };

static kl_status print_text(const kl_lattice *lat, kl_err *err)
{
    kl_status st = KL_OK;
    const int nn = kl_lattice_class(lat, "nn"), rows = lat->nsite < MOST_ROWS ? lat->nsite : MOST_ROWS;
    int straight = 1, named = 0;
    printf("lattice      %s, %d sites%s\n", lat->spec, lat->nsite, closed(lat));
    if (lat->kind == KL_LATTICE_CELLS)
        printf("cells        %d columns of %d, %d %s each\n", lat->cells.grid[0], lat->cells.grid[1],
               lat->cells.nsub, lat->cells.nsub > 1 ? "sites" : "site");
    for (int k = 0; k < lat->cells.nperiod && lat->kind == KL_LATTICE_CELLS; k++)
        printf("%s(%.6g, %.6g)\n", k == 0 ? "closed by    " : "             ", lat->cells.period[k][0],
               lat->cells.period[k][1]);
    KL_TRY(print_classes(lat, err));
    for (int i = 0; i < lat->nsite; i++) {
        straight &= lat->order[i] == i;
        named |= lat->site_name[i] != NULL;
    }
    printf("\n%6s%s%s%s%s   %s\n", "site", straight ? "" : "  position",
           lat->has_xy ? "          x          y" : "", named ? "  name      " : "", "  class",
           nn >= 0 ? "nn" : "bonds");
    for (int i = 0; i < rows; i++) {
        printf("%6d", i);
        if (!straight) printf("%10d", lat->position[i]);
        if (lat->has_xy) printf(" %10.6g %10.6g", lat->xy[i][0], lat->xy[i][1]);
        if (named) printf("  %-10s", lat->site_name[i] != NULL ? lat->site_name[i] : "");
        printf("  %-5s   ", lat->site_class[i] != NULL ? lat->site_class[i] : "");
        print_neighbours(lat, i, nn);
        printf("\n");
    }
    if (rows < lat->nsite) printf("... (%d sites; --json has all)\n", lat->nsite);
out:
    return st;
}

static void print_json(const kl_lattice *lat)
{
    kl_json j = kl_json_begin(stdout);
    kl_json_open(&j, NULL, '{');
    kl_json_text(&j, "program", "kronlat");
    kl_json_text(&j, "version", KL_VERSION);
    kl_json_text(&j, "command", "lattice");
    kl_json_text(&j, "lattice", lat->spec);
    kl_json_open(&j, "sites", '[');
    for (int i = 0; i < lat->nsite; i++) {
        kl_json_open(&j, NULL, '{');
        kl_json_int(&j, "position", lat->position[i]);
        if (lat->has_xy) kl_json_reals(&j, "xy", 2, lat->xy[i]);
        kl_json_text(&j, "name", lat->site_name[i]);
        kl_json_text(&j, "class", lat->site_class[i]);
        kl_json_close(&j, '}');
    }
    kl_json_close(&j, ']');
    kl_json_open(&j, "bonds", '[');
    for (int b = 0; b < lat->nbond; b++) {
        const kl_bond *const bond = &lat->bond[b];
        kl_json_open(&j, NULL, '{');
        kl_json_int(&j, "from", bond->reversed ? bond->j : bond->i);
        kl_json_int(&j, "to", bond->reversed ? bond->i : bond->j);
        kl_json_real(&j, "length", bond->r);
        kl_json_open(&j, "classes", '[');
        for (int c = 0; c < bond->nclass; c++) kl_json_text(&j, NULL, lat->bond_class[bond->cls[c]]);
        kl_json_close(&j, ']');
        kl_json_close(&j, '}');
    }
    kl_json_close(&j, ']');
    kl_json_close(&j, '}');
    kl_json_end(&j);
}

/* ---------------------------------------------------------------- the picture */

typedef struct picture {
    const kl_lattice *lat;
    const kl_geometry *g;
} picture;

static void draw(FILE *to, const void *self, const char *terminal)
{
    const picture *const p = self;
    char title[256];
    const double wide = kl_plotmap_width(p->lat->nsite, (const double (*)[2])p->lat->xy);
    kl_plot_page(to, terminal, (int)(wide > 1 ? 900 : 900 * fmax(wide, 0.3)),
                 (int)(wide > 1 ? 100 + 900 / fmin(wide, 10) : 960));
    snprintf(title, sizeof title, "%s, %d sites", p->lat->spec, p->lat->nsite);
    kl_plotmap_lattice(to, title, p->g, p->lat->nsite, (const double (*)[2])p->lat->xy, p->lat->order);
    fprintf(to, "unset output\n");
}

kl_status kl_latticecli_show(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_lattice *lat = NULL;
    kl_geometry g = {0};
    kl_options asked = *o; /* shares what o owns */
    const char *const output = o->output != NULL ? o->output : "lattice.svg";
    if (o->output != NULL && !o->plot)
        return kl_fail(err, KL_EINPUT, "--output has no effect without --plot");
    asked.lattice = o->file;
    KL_TRY(kl_task_lattice(&asked, NULL, 0, &lat, err));
    if (o->plot && !lat->has_xy)
        KL_TRY(kl_fail(err, KL_EINPUT, "--plot: the sites of lattice %.200s have no x and y", lat->spec));
    if (o->plot) {
        KL_TRY(kl_geometry_copy(lat, &g, err));
        const picture p = {lat, &g};
        KL_TRY(kl_plot_run(draw, &p, "--output", output, err));
    }
    if (o->json) print_json(lat);
    else KL_TRY(print_text(lat, err));
    if (o->plot && !o->json) printf("\npicture      %s\n", output);
out:
    kl_geometry_clear(&g);
    kl_lattice_destroy(&lat);
    return st;
}
