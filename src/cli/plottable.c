/* See plottable.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/plottable.h"
#include "base/infile.h"
#include "base/mem.h"
#include "cli/plot.h"
#include "cli/plotsweep.h"

#include <math.h>
#include <string.h>

enum {
    MOST_BYTES = 1 << 20,
    MOST_NAME = 64, /* different cases, quantities or units */
    WIDTH = 560,    /* of the graphs without their names; pixels, as all lengths here */
    LINE = 24,      /* of a case, if its numbers are points */
    BAR = 8,        /* of a bar; between the bars of two cases is one, too */
    FRAME = 90,     /* of a panel: title, numbers and name of its axis */
    LETTER = 9,
};

typedef enum column { CASE, QUANTITY, VALUE, UNIT, NCOLUMN } column;
static const char *const column_name[NCOLUMN] = {"case", "quantity", "value", "unit"}; /* ORDER column */

/* Different texts, in the order in which they come. */
typedef struct names {
    int n;
    const char *text[MOST_NAME];
} names;

typedef struct row {
    int which[NCOLUMN]; /* numbers of case, quantity and unit */
    double value;
} row;

typedef struct table {
    names name[NCOLUMN];
    int nrow;
    row *row;
} table;

/* Cuts the field that begins at *at out of its line, without its quotes, and moves *at behind it; NULL: the
   line has no more. */
static char *next_field(char **at)
{
    char *from = *at, *to = from, *const field = from;
    if (from == NULL) return NULL;
    if (*from == '"') {
        for (from++; *from != '\0' && (*from != '"' || from[1] == '"'); from++) {
            if (*from == '"') from++;
            *to++ = *from;
        }
        from += *from == '"';
    }
    while (*from != '\0' && *from != ',') *to++ = *from++;
    *at = *from == ',' ? from + 1 : NULL;
    *to = '\0';
    return field;
}

static kl_status number_of(names *list, const char *text, const char *what, int *number, kl_err *err)
{
    *number = 0;
    while (*number < list->n && strcmp(list->text[*number], text) != 0) ++*number;
    if (*number < list->n) return KL_OK;
    if (list->n == MOST_NAME)
        return kl_fail(err, KL_EINPUT, "has more than %d names in the column %s", MOST_NAME, what);
    list->text[list->n++] = text;
    return KL_OK;
}

static kl_status read_head(char *line, int where[NCOLUMN], kl_err *err)
{
    for (int c = 0; c < NCOLUMN; c++) where[c] = -1;
    char *field;
    for (int k = 0; (field = next_field(&line)) != NULL; k++)
        for (int c = 0; c < NCOLUMN; c++)
            if (strcmp(field, column_name[c]) == 0) where[c] = k;
    for (int c = 0; c < NCOLUMN; c++)
        if (where[c] < 0)
            return kl_fail(err, KL_EINPUT, "has no column '%s'; case, quantity, value and unit are wanted",
                           column_name[c]);
    return KL_OK;
}

static kl_status read_row(table *t, char *line, const int where[NCOLUMN], kl_err *err)
{
    kl_status st = KL_OK;
    const char *text[NCOLUMN] = {NULL};
    char *field;
    row r = {.which = {0}};
    for (int k = 0; (field = next_field(&line)) != NULL; k++)
        for (int c = 0; c < NCOLUMN; c++)
            if (where[c] == k) text[c] = field;
    for (int c = 0; c < NCOLUMN; c++)
        if (text[c] == NULL) return kl_fail(err, KL_EINPUT, "has no %s", column_name[c]);
    if (!kl_parse_double(text[VALUE], &r.value) || !isfinite(r.value))
        return kl_fail(err, KL_EINPUT, "'%.40s' is no number", text[VALUE]);
    if (text[UNIT][0] == '\0') return KL_OK;
    for (int c = 0; c < NCOLUMN; c++)
        if (c != VALUE) KL_TRY(number_of(&t->name[c], text[c], column_name[c], &r.which[c], err));
    t->row[t->nrow++] = r;
out:
    return st;
}

/* The names point into `text`, which is cut up. */
static kl_status read_table(table *t, const char *path, char *text, kl_err *err)
{
    kl_status st = KL_OK;
    int where[NCOLUMN], number = 1, nline = 1;
    kl_err why;
    for (const char *c = text; *c != '\0'; c++) nline += *c == '\n';
    KL_TRY(kl_alloc(&t->row, nline, KL_MEM_MISC, err));
    for (char *line = text, *next; line != NULL; line = next, number++) {
        next = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        line[strcspn(line, "\r")] = '\0';
        if (line[0] == '\0') continue;
        st = number == 1 ? read_head(line, where, &why) : read_row(t, line, where, &why);
        if (st != KL_OK) return kl_fail(err, st, "%.300s:%d: %s", path, number, why.text);
        if (number == 1 && next == NULL) break;
    }
    if (t->nrow == 0)
        return kl_fail(err, KL_EINPUT, "%.300s: holds no row with a unit; there is nothing to draw", path);
out:
    return st;
}

/* Cases of a unit: line[case] counts them from 0 on, -1: it has none. */
static int lines_of(const table *t, int unit, int line[MOST_NAME])
{
    int n = 0;
    for (int c = 0; c < MOST_NAME; c++) line[c] = -1;
    for (int i = 0; i < t->nrow; i++)
        if (t->row[i].which[UNIT] == unit && line[t->row[i].which[CASE]] < 0)
            line[t->row[i].which[CASE]] = n++;
    return n;
}

static void range_of(const table *t, int unit, double *low, double *high)
{
    *low = INFINITY, *high = -INFINITY;
    for (int i = 0; i < t->nrow; i++)
        if (t->row[i].which[UNIT] == unit) {
            *low = fmin(*low, t->row[i].value);
            *high = fmax(*high, t->row[i].value);
        }
}

static int is_logarithm(double low, double high) { return low > 0 && high > 20 * low; }

/* Bars stand where the axis begins at 0, points elsewhere: the length of a bar is its number. */
static int has_bars(const table *t, int unit)
{
    double low, high;
    range_of(t, unit, &low, &high);
    return low > 0 && low < 0.5 * high && !is_logarithm(low, high);
}

/* The axis of a unit: a logarithm where its numbers are very different, else from 0 on where that does not
   press them together. No point lies on the frame. */
static void write_axis(FILE *to, const table *t, int unit)
{
    double low, high;
    range_of(t, unit, &low, &high);
    if (is_logarithm(low, high)) {
        const double room = pow(high / low, 0.04);
        fprintf(to, "set logscale x\nset xrange [%.6g:%.6g]\n", low / room, high * room);
        return;
    }
    const double from = has_bars(t, unit) ? 0 : low - 0.04 * (high - low);
    fprintf(to, "unset logscale x\n");
    if (high > low) fprintf(to, "set xrange [%.6g:%.6g]\n", from, high + 0.04 * (high - from));
    else fprintf(to, "set xrange [*:*]\n");
}

static int has(const table *t, int unit, int quantity)
{
    for (int i = 0; i < t->nrow; i++)
        if (t->row[i].which[UNIT] == unit && t->row[i].which[QUANTITY] == quantity) return 1;
    return 0;
}

/* Bars of a case, and which of them row i has: they stand in the order of the quantities. */
static int bars_of(const table *t, int i, int *which)
{
    const row *const r = &t->row[i];
    int n = 0;
    *which = 0;
    for (int k = 0; k < t->nrow; k++) {
        const row *const o = &t->row[k];
        if (o->which[UNIT] != r->which[UNIT] || o->which[CASE] != r->which[CASE]) continue;
        n++;
        *which +=
            o->which[QUANTITY] < r->which[QUANTITY] || (o->which[QUANTITY] == r->which[QUANTITY] && k < i);
    }
    return n;
}

static int most_bars(const table *t, int unit)
{
    int most = 0, which;
    for (int i = 0; i < t->nrow; i++) {
        const int n = t->row[i].which[UNIT] == unit ? bars_of(t, i, &which) : 0;
        if (n > most) most = n;
    }
    return most;
}

static int line_height(const table *t, int unit)
{
    const int tall = has_bars(t, unit) ? BAR * (most_bars(t, unit) + 1) : 0;
    return tall > LINE ? tall : LINE;
}

/* A number, the middle of its line and, of a bar, its lower and its upper edge. */
static void write_number(FILE *to, const table *t, int i, int line)
{
    const row *const r = &t->row[i];
    fprintf(to, "%.17g %d", r->value, line);
    if (has_bars(t, r->which[UNIT])) {
        int which;
        const int n = bars_of(t, i, &which);
        const double tall = (double)BAR / line_height(t, r->which[UNIT]), from = line - 0.5 * n * tall;
        fprintf(to, " %.6g %.6g", from + which * tall, from + (which + 1) * tall);
    }
    fprintf(to, "\n");
}

static void write_panel(FILE *to, const table *t, int unit)
{
    static const char *const colour[] = {"#4477aa", "#ee6677", "#228833", "#ccbb44",
                                         "#66ccee", "#aa3377", "#bbbbbb"}; /* Paul Tol's, bright */
    const int ncolour = sizeof colour / sizeof *colour;
    int line[MOST_NAME], drawn = 0;
    const int n = lines_of(t, unit, line), bars = has_bars(t, unit);
    for (int q = 0; q < t->name[QUANTITY].n; q++) {
        fprintf(to, "$d%d_%d << EOD\n", unit, q);
        for (int i = 0; i < t->nrow; i++)
            if (t->row[i].which[UNIT] == unit && t->row[i].which[QUANTITY] == q)
                write_number(to, t, i, line[t->row[i].which[CASE]]);
        fprintf(to, "EOD\n");
    }
    fprintf(to, "set yrange [%g:-0.5]\nset ytics (", n - 0.5);
    for (int c = 0; c < t->name[CASE].n; c++)
        if (line[c] >= 0) {
            fprintf(to, "%s", drawn++ ? ", " : "");
            kl_plot_quote(to, t->name[CASE].text[c]);
            fprintf(to, " %d", line[c]);
        }
    fprintf(to, ")\n");
    write_axis(to, t, unit);
    fprintf(to, "set xlabel ");
    kl_plot_quote(to, t->name[UNIT].text[unit]);
    fprintf(to, "\nplot ");
    drawn = 0;
    for (int q = 0; q < t->name[QUANTITY].n; q++)
        if (has(t, unit, q)) {
            fprintf(to, "%s$d%d_%d using ", drawn++ ? ", " : "", unit, q);
            if (bars) fprintf(to, "(0):2:(0):1:3:4 with boxxyerror fillstyle solid noborder");
            else fprintf(to, "1:2 with points pointtype %d pointsize 1 linewidth 1.5", q % 13 + 1);
            fprintf(to, " linecolor rgb '%s' title ", colour[q % ncolour]);
            kl_plot_quote(to, t->name[QUANTITY].text[q]);
        }
    fprintf(to, "\n");
}

static int longest(const names *list)
{
    int most = 0;
    for (int i = 0; i < list->n; i++)
        if ((int)strlen(list->text[i]) > most) most = (int)strlen(list->text[i]);
    return most;
}

static int panel_height(const table *t, int unit)
{
    int line[MOST_NAME], series = 0;
    const int n = lines_of(t, unit, line);
    for (int q = 0; q < t->name[QUANTITY].n; q++) series += has(t, unit, q);
    const int lines = n * line_height(t, unit), key = series * LINE;
    return FRAME + (lines > key ? lines : key);
}

static void write_script(FILE *to, const void *self, const char *terminal)
{
    const table *const t = self;
    int height = 0, below = 0;
    const int left = LETTER * longest(&t->name[CASE]) + 30, right = LETTER * longest(&t->name[QUANTITY]) + 60,
              width = WIDTH + left + right;
    for (int u = 0; u < t->name[UNIT].n; u++) height += panel_height(t, u);
    kl_plot_page(to, terminal, width, height);
    const double begin = (double)left / width, end = 1 - (double)right / width;
    fprintf(to,
            "set grid\nset key at screen %g, graph 1 left top Left reverse samplen 1\nset multiplot\n"
            "set lmargin at screen %g\nset rmargin at screen %g\n",
            end + 10.0 / width, begin, end);
    for (int u = t->name[UNIT].n - 1; u >= 0; u--) {
        const int tall = panel_height(t, u);
        fprintf(to, "set origin 0,%g\nset size 1,%g\n", (double)below / height, (double)tall / height);
        write_panel(to, t, u);
        below += tall;
    }
    fprintf(to, "unset multiplot\nunset output\n");
}

int kl_plottable_is(const char *path)
{
    const size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".csv") == 0;
}

kl_status kl_plottable_run(const char *path, int columns, const char *output, kl_err *err)
{
    kl_status st = KL_OK;
    table t = {.nrow = 0};
    kl_figure f = {.npanel = 0};
    char *text = NULL;
    int64_t n;
    KL_TRY(kl_infile_read(path, MOST_BYTES, &text, &n, err));
    if ((int64_t)strlen(text) != n) KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: holds a zero byte", path));
    if (kl_plotsweep_is(text)) {
        KL_TRY(kl_plotsweep_figure(text, path, &f, err));
        st = kl_figure_draw(&f, (kl_figure_look){columns, 0}, output, err);
        goto out;
    }
    KL_TRY(read_table(&t, path, text, err));
    KL_TRY(kl_plot_run(write_script, &t, "--output", output, err));
out:
    kl_figure_clear(&f);
    kl_free(&t.row);
    kl_free(&text);
    return st;
}
