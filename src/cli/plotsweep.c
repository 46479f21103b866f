/* See plotsweep.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/plotsweep.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char head[] = "rows,width,exec,way,belt,seconds,gb_per_s,of_reading,of_library,residual";

int kl_plotsweep_is(const char *text) { return strncmp(text, head, sizeof head - 1) == 0; }

typedef struct sweep_row {
    double rows, width, rate;
    char name[64], what[16];
} sweep_row;

static kl_status read_row(char *line, sweep_row *r, kl_err *err)
{
    enum { ROWS, WIDTH, EXEC, WAY, BELT, SECONDS, RATE, REST, OPERATION = 10, NFIELD };
    char *field[NFIELD] = {NULL};
    int n = 0;
    double belt;
    for (char *at = line; n < NFIELD && at != NULL; n++) {
        field[n] = at;
        at = strchr(at, ',');
        if (at != NULL) *at++ = '\0';
    }
    if (n < OPERATION || !kl_parse_double(field[ROWS], &r->rows) ||
        !kl_parse_double(field[WIDTH], &r->width) || !kl_parse_double(field[BELT], &belt) ||
        !kl_parse_double(field[RATE], &r->rate) || !isfinite(r->rate) || !(r->rows >= 1) || !(r->width >= 1))
        return kl_fail(err, KL_EINPUT, "is no row of a table that bench gemv_trans --csv wrote");
    snprintf(r->name, sizeof r->name, "%.20s %.20s", field[EXEC], field[WAY]);
    const size_t used = strlen(r->name);
    if (belt > 0) snprintf(r->name + used, sizeof r->name - used, ", belts of %.0f", belt);
    snprintf(r->what, sizeof r->what, "%.15s", n == NFIELD ? field[OPERATION] : "V^T x");
    return KL_OK;
}

static int same_panel(const sweep_row *a, const sweep_row *b)
{
    return a->rows == b->rows && strcmp(a->what, b->what) == 0;
}

static int same_curve(const sweep_row *a, const sweep_row *b)
{
    return same_panel(a, b) && strcmp(a->name, b->name) == 0;
}

/* Whether none of the rows before i is alike. */
static int is_first(const sweep_row *row, int i, int (*same)(const sweep_row *, const sweep_row *))
{
    for (int k = 0; k < i; k++)
        if (same(&row[k], &row[i])) return 0;
    return 1;
}

static kl_status add_panel(kl_figure *f, const sweep_row *row, int n, int first, kl_err *err)
{
    kl_status st = KL_OK;
    kl_panel *p;
    char title[160];
    snprintf(title, sizeof title, "%s of %.10g rows", row[first].what, row[first].rows);
    KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, title, &p, err));
    snprintf(p->x, sizeof p->x, "columns of V");
    snprintf(p->y, sizeof p->y, "GB/s");
    for (int i = first; i < n; i++) {
        kl_series *s;
        int count = 0;
        if (!same_panel(&row[first], &row[i]) || !is_first(row, i, same_curve)) continue;
        for (int k = i; k < n; k++) count += same_curve(&row[i], &row[k]);
        KL_TRY(
            kl_panel_add(p, row[i].name, count > 1 ? KL_STROKE_BOTH : KL_STROKE_POINTS, count, 0, &s, err));
        for (int k = i, at = 0; k < n; k++)
            if (same_curve(&row[i], &row[k])) s->x[at] = row[k].width, s->y[at++] = row[k].rate;
    }
out:
    return st;
}

kl_status kl_plotsweep_figure(char *text, const char *path, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    sweep_row *row = NULL;
    int n = 0, nline = 1, number = 1;
    kl_err why;
    for (const char *c = text; *c != '\0'; c++) nline += *c == '\n';
    KL_TRY(kl_alloc(&row, nline, KL_MEM_MISC, err));
    for (char *line = text, *next; line != NULL; line = next, number++) {
        next = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        line[strcspn(line, "\r")] = '\0';
        if (number == 1 || line[0] == '\0') continue;
        if (read_row(line, &row[n], &why) != KL_OK)
            KL_TRY(kl_fail(err, KL_EINPUT, "%.300s:%d: %s", path, number, why.text));
        n++;
    }
    if (n == 0) KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: holds no row; there is nothing to draw", path));
    snprintf(f->title, sizeof f->title, "Products of tall matrices with vectors (nemes2014, Figs. 6 to 11)");
    for (int i = 0; i < n; i++)
        if (is_first(row, i, same_panel)) KL_TRY(add_panel(f, row, n, i, err));
out:
    kl_free(&row);
    return st;
}
