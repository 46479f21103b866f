/* Figures as numbers: see figure.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "figure/figure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/json.h"
#include "config.h"

static void clear_panel(kl_panel *p)
{
    for (int s = 0; s < p->nseries; s++) {
        kl_free(&p->series[s].x);
        kl_free(&p->series[s].y);
        kl_free(&p->series[s].error);
    }
    kl_free(&p->series);
    kl_free(&p->grid_x);
    kl_free(&p->grid_y);
    kl_free(&p->z);
    kl_free(&p->site);
    kl_free(&p->bond);
}

void kl_figure_clear(kl_figure *f)
{
    for (int k = 0; k < f->npanel; k++) clear_panel(&f->panel[k]);
    kl_free(&f->panel);
    kl_free(&f->left);
    *f = (kl_figure){.npanel = 0};
}

kl_status kl_figure_add(kl_figure *f, kl_panel_kind kind, const char *title, kl_panel **out, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_realloc(&f->panel, f->npanel + 1, KL_MEM_MISC, err));
    *out = &f->panel[f->npanel++];
    memset(*out, 0, sizeof **out);
    (*out)->kind = kind;
    snprintf((*out)->title, sizeof(*out)->title, "%s", title);
out:
    return st;
}

kl_status kl_panel_add(kl_panel *p, const char *name, kl_stroke stroke, int64_t n, int errors,
                       kl_series **out, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_realloc(&p->series, p->nseries + 1, KL_MEM_MISC, err));
    kl_series *const s = *out = &p->series[p->nseries++];
    memset(s, 0, sizeof *s);
    snprintf(s->name, sizeof s->name, "%s", name);
    s->stroke = stroke;
    s->n = n;
    KL_TRY(kl_alloc(&s->x, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&s->y, n, KL_MEM_MISC, err));
    if (errors) KL_TRY(kl_alloc(&s->error, n, KL_MEM_MISC, err));
out:
    return st;
}

kl_status kl_figure_leave(kl_figure *f, const char *what, const char *why, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_realloc(&f->left, f->nleft + 1, KL_MEM_MISC, err));
    snprintf(f->left[f->nleft++], sizeof *f->left, "%.90s: %.100s", what, why);
out:
    return st;
}

/* ---------------------------------------------------------------- as numbers */

/* A text in quotes, its own doubled; one that begins with what a table program takes for a formula is safe in
   its own column, which no program computes with. */
static void put_field(FILE *to, const char *text)
{
    fputc('"', to);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"') fputc('"', to);
        fputc(*c == '\n' || *c == '\r' ? ' ' : *c, to);
    }
    fputc('"', to);
}

static void put_row(FILE *to, const kl_panel *p, const char *series, const double *const value[4])
{
    put_field(to, p->title);
    fputc(',', to);
    put_field(to, series);
    for (int k = 0; k < 4; k++) {
        fputc(',', to);
        if (value[k] != NULL && isfinite(*value[k])) fprintf(to, "%.17g", *value[k]);
    }
    fputc('\n', to);
}

/* Where a bond is drawn: its middle. */
static void middle(const kl_panel *p, int64_t b, double at[2])
{
    for (int k = 0; k < 2; k++) at[k] = p->xy[p->g->bond[b][0]][k] + 0.5 * p->g->vector[b][k];
}

void kl_figure_csv(const kl_figure *f, FILE *to)
{
    fprintf(to, "panel,series,x,y,value,error\n");
    for (int k = 0; k < f->npanel; k++) {
        const kl_panel *const p = &f->panel[k];
        for (int s = 0; s < p->nseries; s++)
            for (int64_t i = 0; i < p->series[s].n; i++)
                put_row(to, p, p->series[s].name,
                        (const double *[]){&p->series[s].x[i], &p->series[s].y[i], NULL,
                                           p->series[s].error != NULL ? &p->series[s].error[i] : NULL});
        for (int64_t i = 0; i < p->nx * p->ny; i++)
            put_row(to, p, "plane",
                    (const double *[]){&p->grid_x[i % p->nx], &p->grid_y[i / p->nx], &p->z[i], NULL});
        for (int i = 0; p->site != NULL && i < p->nsite; i++)
            put_row(to, p, "sites", (const double *[]){&p->xy[i][0], &p->xy[i][1], &p->site[i], NULL});
        for (int64_t b = 0; p->bond != NULL && b < p->g->nbond; b++) {
            double at[2];
            middle(p, b, at);
            if (isfinite(p->bond[b]))
                put_row(to, p, "bonds", (const double *[]){&at[0], &at[1], &p->bond[b], NULL});
        }
    }
}

/* ORDER KL_STROKE */
static const char *const drawn_as[] = {"points", "points and lines", "line", "band", "fit"};

static void put_series(kl_json *j, const kl_series *s)
{
    kl_json_open(j, NULL, '{');
    kl_json_text(j, "name", s->name);
    kl_json_bool(j, "fit", s->stroke == KL_STROKE_FIT);
    kl_json_text(j, "drawn_as", drawn_as[s->stroke]);
    kl_json_reals(j, "x", s->n, s->x);
    kl_json_reals(j, "y", s->n, s->y);
    if (s->error != NULL) kl_json_reals(j, "error", s->n, s->error);
    kl_json_close(j, '}');
}

static void put_lattice(kl_json *j, const kl_panel *p)
{
    if (p->site != NULL) kl_json_reals(j, "sites", p->nsite, p->site);
    if (p->bond == NULL) return;
    kl_json_open(j, "bonds", '[');
    for (int64_t b = 0; b < p->g->nbond; b++) {
        if (!isfinite(p->bond[b])) continue;
        kl_json_open(j, NULL, '{');
        kl_json_int(j, "from", p->g->bond[b][0]);
        kl_json_int(j, "to", p->g->bond[b][1]);
        kl_json_real(j, "value", p->bond[b]);
        kl_json_close(j, '}');
    }
    kl_json_close(j, ']');
}

void kl_figure_json(const kl_figure *f, FILE *to)
{
    kl_json j = kl_json_begin(to);
    kl_json_open(&j, NULL, '{');
    kl_json_text(&j, "program", "kronlat");
    kl_json_text(&j, "version", KL_VERSION);
    kl_json_text(&j, "command", "plot");
    kl_json_text(&j, "title", f->title);
    kl_json_open(&j, "panels", '[');
    for (int k = 0; k < f->npanel; k++) {
        const kl_panel *const p = &f->panel[k];
        kl_json_open(&j, NULL, '{');
        kl_json_text(&j, "title", p->title);
        kl_json_text(&j, "x", p->x);
        kl_json_text(&j, "y", p->y);
        kl_json_text(&j, "note", p->note);
        kl_json_bool(&j, "log_x", p->log_x);
        kl_json_bool(&j, "log_y", p->log_y);
        kl_json_open(&j, "series", '[');
        for (int s = 0; s < p->nseries; s++) put_series(&j, &p->series[s]);
        kl_json_close(&j, ']');
        if (p->kind == KL_PANEL_PLANE) {
            kl_json_reals(&j, "plane_x", p->nx, p->grid_x);
            kl_json_reals(&j, "plane_y", p->ny, p->grid_y);
            kl_json_reals(&j, "plane", p->nx * p->ny, p->z);
            if (p->noutline > 0) kl_json_reals(&j, "outline", 2 * p->noutline, p->outline[0]);
        }
        if (p->kind == KL_PANEL_LATTICE) put_lattice(&j, p);
        kl_json_close(&j, '}');
    }
    kl_json_close(&j, ']');
    kl_json_open(&j, "left_out", '[');
    for (int k = 0; k < f->nleft; k++) kl_json_text(&j, NULL, f->left[k]);
    kl_json_close(&j, ']');
    kl_json_close(&j, '}');
    kl_json_end(&j);
}
