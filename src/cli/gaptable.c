/* See gaptable.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/gaptable.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"

enum {
    MOST_TERM = 16,
    MOST_SHIFT = 8,
    MOST_DEPTH = 8, /* brackets in brackets */
};

typedef struct shift {
    const char *name;
    size_t length;
    double by;
} shift;

typedef struct term {
    double coef;
    int nshift;
    shift shift[MOST_SHIFT];
} term;

typedef struct reader {
    const char *text, *at;
    int nterm;
    term term[MOST_TERM];
} reader;

static kl_status refuse(const reader *r, const char *wanted, kl_err *err)
{
    const int ends = *r->at == '\0';
    return kl_fail(err, KL_EINPUT,
                   "--gap '%.200s': %s %s%.40s%s; as 'E(N+1)+E(N-1)-2E', E being the energy of a run, E(N+1) "
                   "that of the one with N larger by 1",
                   r->text, wanted, ends ? "at the end" : "where '", ends ? "" : r->at,
                   ends ? "" : "' stands");
}

static char next(reader *r)
{
    while (*r->at == ' ') r->at++;
    return *r->at;
}

static int take(reader *r, char c)
{
    const int yes = next(r) == c;
    r->at += yes;
    return yes;
}

/* Digits and a point; where there are none, 0. */
static int take_number(reader *r, double *x)
{
    char word[40];
    next(r);
    const size_t n = strspn(r->at, "0123456789.");
    if (n == 0 || n >= sizeof word) return 0;
    memcpy(word, r->at, n);
    word[n] = '\0';
    if (!kl_parse_double(word, x)) return 0;
    r->at += n;
    return 1;
}

/* N, N+1, N-1/2 */
static kl_status take_shift(reader *r, term *t, kl_err *err)
{
    double by = 0, part = 1;
    next(r);
    shift s = {.name = r->at};
    if (!isdigit((unsigned char)*s.name))
        while (isalnum((unsigned char)s.name[s.length]) || s.name[s.length] == '_') s.length++;
    r->at += s.length;
    if (s.length == 0) return refuse(r, "the name of a charge or of what is swept has to stand", err);
    if (t->nshift == MOST_SHIFT) return refuse(r, "no more names are possible", err);
    const int down = take(r, '-');
    if (down || take(r, '+')) {
        if (!take_number(r, &by)) return refuse(r, "a number has to stand", err);
        if (take(r, '/') && (!take_number(r, &part) || part == 0))
            return refuse(r, "a number has to stand", err);
    }
    s.by = (down ? -1 : 1) * by / part;
    t->shift[t->nshift++] = s;
    return KL_OK;
}

/* E, E(N+1), E(N_up+1,N_dn-1) */
static kl_status take_energy(reader *r, double coef, kl_err *err)
{
    kl_status st = KL_OK;
    if (!take(r, 'E')) return refuse(r, "E has to stand", err);
    if (r->nterm == MOST_TERM) return refuse(r, "no more energies are possible", err);
    term *const t = &r->term[r->nterm++];
    *t = (term){.coef = coef};
    if (!take(r, '(')) return KL_OK;
    do KL_TRY(take_shift(r, t, err));
    while (take(r, ','));
    if (!take(r, ')')) KL_TRY(refuse(r, "')' has to stand", err));
out:
    return st;
}

static kl_status take_sum(reader *r, int depth, kl_err *err)
{
    kl_status st = KL_OK;
    double coef = take(r, '-') ? -1 : 1;
    for (;;) {
        double x;
        const int first = r->nterm;
        if (take_number(r, &x)) {
            coef *= x;
            if (take(r, '/')) {
                if (!take_number(r, &x) || x == 0) KL_TRY(refuse(r, "a number has to stand", err));
                coef /= x;
            }
            take(r, '*');
        }
        if (take(r, '(')) {
            if (depth == MOST_DEPTH) KL_TRY(refuse(r, "no more brackets are possible", err));
            KL_TRY(take_sum(r, depth + 1, err));
            if (!take(r, ')')) KL_TRY(refuse(r, "')' has to stand", err));
            for (int i = first; i < r->nterm; i++) r->term[i].coef *= coef;
        } else KL_TRY(take_energy(r, coef, err));
        if (take(r, '/')) {
            if (!take_number(r, &x) || x == 0) KL_TRY(refuse(r, "a number has to stand", err));
            for (int i = first; i < r->nterm; i++) r->term[i].coef /= x;
        }
        coef = take(r, '-') ? -1 : take(r, '+') ? 1 : 0;
        if (coef == 0) break;
    }
out:
    return st;
}

static kl_status read_sum(const char *text, reader *r, kl_err *err)
{
    *r = (reader){.text = text, .at = text};
    const kl_status st = take_sum(r, 0, err);
    if (st == KL_OK && next(r) != '\0') return refuse(r, "nothing more is possible", err);
    return st;
}

/* The value of a name in "U=4 Sz=1/2"; *n: its length; NULL: the label has no such name. */
static const char *value_of(const char *label, const char *name, size_t length, size_t *n)
{
    for (const char *p = label; *p != '\0'; p += strcspn(p, " "), p += *p == ' ') {
        if (strncmp(p, name, length) != 0 || p[length] != '=') continue;
        *n = strcspn(p + length + 1, " ");
        return p + length + 1;
    }
    return NULL;
}

static double number_of(const char *text, size_t n)
{
    char word[64];
    double x, y = 1;
    snprintf(word, sizeof word, "%.*s", (int)n, text);
    char *const bar = strchr(word, '/');
    if (bar != NULL) *bar = '\0';
    if (!kl_parse_double(word, &x) || (bar != NULL && !kl_parse_double(bar + 1, &y))) return NAN;
    return x / y;
}

/* 1: `other' has the values of `label', but for those that t moves. */
static int is_moved(const term *t, const char *label, const char *other)
{
    for (const char *p = label; *p != '\0'; p += strcspn(p, " "), p += *p == ' ') {
        const size_t length = strcspn(p, "= ");
        size_t n, m;
        const char *const own = value_of(label, p, length, &n), *const its = value_of(other, p, length, &m);
        if (own == NULL || its == NULL) return own == its && strncmp(other, p, length) == 0;
        const shift *s = NULL;
        for (int i = 0; i < t->nshift; i++)
            if (t->shift[i].length == length && memcmp(t->shift[i].name, p, length) == 0) s = &t->shift[i];
        const double to = number_of(own, n) + (s ? s->by : 0);
        if (s && !(fabs(number_of(its, m) - to) <= 1e-9 * fmax(1, fabs(to)))) return 0;
        if (!s && (n != m || memcmp(own, its, n) != 0)) return 0;
    }
    return 1;
}

static kl_status check_names(const reader *r, const char *label, kl_err *err)
{
    size_t n;
    for (int i = 0; i < r->nterm; i++)
        for (int k = 0; k < r->term[i].nshift; k++) {
            const shift *const s = &r->term[i].shift[k];
            if (value_of(label, s->name, s->length, &n) == NULL)
                return kl_fail(err, KL_EINPUT, "--gap '%.200s': nothing is called '%.*s' in this table; known: %s",
                               r->text, (int)s->length, s->name, label);
        }
    return KL_OK;
}

kl_status kl_gaptable_check(int nformula, char *const *formula, const char *label, kl_err *err)
{
    kl_status st = KL_OK;
    reader r;
    for (int i = 0; i < nformula; i++) {
        KL_TRY(read_sum(formula[i], &r, err));
        if (label != NULL) KL_TRY(check_names(&r, label, err));
    }
out:
    return st;
}

/* The sum for row i. */
static void add_up(const reader *r, int n, const kl_gaptable_row *row, int i, double *value, double *error)
{
    *value = *error = 0;
    for (int k = 0; k < r->nterm; k++) {
        const term *const t = &r->term[k];
        int j = 0;
        while (j < n && !is_moved(t, row[i].label, row[j].label)) j++;
        if (j == n) {
            *value = *error = NAN;
            return;
        }
        *value += t->coef * row[j].energy;
        *error += fabs(t->coef) * row[j].error;
    }
}

kl_status kl_gaptable_create(int nformula, char *const *formula, int n, const kl_gaptable_row *row,
                             kl_gaptable *out, kl_err *err)
{
    kl_status st = KL_OK;
    reader r;
    *out = (kl_gaptable){.nformula = nformula, .n = n, .formula = formula, .row = row};
    if (nformula == 0 || n == 0) return KL_OK;
    KL_TRY(kl_alloc(&out->value, (int64_t)nformula * n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&out->error, (int64_t)nformula * n, KL_MEM_MISC, err));
    KL_TRY(kl_gaptable_check(nformula, formula, row[0].label, err));
    for (int f = 0; f < nformula; f++) {
        KL_TRY(read_sum(formula[f], &r, err));
        for (int i = 0; i < n; i++)
            add_up(&r, n, row, i, &out->value[(int64_t)f * n + i], &out->error[(int64_t)f * n + i]);
    }
out:
    if (st != KL_OK) kl_gaptable_clear(out);
    return st;
}

void kl_gaptable_clear(kl_gaptable *g)
{
    kl_free(&g->value);
    kl_free(&g->error);
}

void kl_gaptable_print(FILE *to, const kl_gaptable *g)
{
    int width = 8;
    for (int i = 0; i < g->n; i++)
        if ((int)strlen(g->row[i].label) > width) width = (int)strlen(g->row[i].label);
    for (int f = 0; f < g->nformula && g->n > 0; f++) {
        int told = 0;
        fprintf(to, "%s\n", g->formula[f]);
        for (int i = 0; i < g->n; i++) {
            const double value = g->value[(int64_t)f * g->n + i], error = g->error[(int64_t)f * g->n + i];
            if (isnan(value)) continue;
            fprintf(to, "%-*s %23.12g %10.1e\n", width, g->row[i].label, value, error);
            told = 1;
        }
        if (!told) fprintf(to, "%-*s of no run are all the others in the table\n", width, "");
    }
}

void kl_gaptable_json(kl_json *j, const kl_gaptable *g)
{
    if (g->nformula == 0) return;
    kl_json_open(j, "gaps", '[');
    for (int f = 0; f < g->nformula; f++) {
        kl_json_open(j, NULL, '{');
        kl_json_text(j, "formula", g->formula[f]);
        kl_json_open(j, "values", '[');
        for (int i = 0; i < g->n; i++) {
            if (isnan(g->value[(int64_t)f * g->n + i])) continue;
            kl_json_open(j, NULL, '{');
            kl_json_text(j, "label", g->row[i].label);
            kl_json_real(j, "value", g->value[(int64_t)f * g->n + i]);
            kl_json_real(j, "error", g->error[(int64_t)f * g->n + i]);
            kl_json_close(j, '}');
        }
        kl_json_close(j, ']');
        kl_json_close(j, '}');
    }
    kl_json_close(j, ']');
}
