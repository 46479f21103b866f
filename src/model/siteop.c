/* Operators of one site from text: see siteop.h. A recursive descent over the text, once for each site type,
   on dense matrices.
   SPDX-License-Identifier: Apache-2.0 */
#include "model/siteop.h"
#include "base/mem.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_DEPTH = 32,
    MAX_NAME = 64,
};

typedef struct reader {
    const kl_site_type *type;
    const char *text, *at;
    int depth;
    char missing[MAX_NAME]; /* a name that this type lacks; the text is read to its end all the same */
    kl_err *err;
} reader;

static kl_status read_sum(reader *r, double *m);

static void skip_blanks(reader *r)
{
    while (*r->at == ' ') r->at++;
}

static kl_status bad(const reader *r, const char *what)
{
    if (*r->at == '\0') return kl_fail(r->err, KL_EINPUT, "operator '%.200s': %s at the end", r->text, what);
    return kl_fail(r->err, KL_EINPUT, "operator '%.200s': %s at '%.40s'", r->text, what, r->at);
}

static void set_identity(int d, double a, double *m)
{
    memset(m, 0, (size_t)d * (size_t)d * sizeof *m);
    for (int i = 0; i < d; i++) m[i * (d + 1)] = a;
}

static int is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* Length of a number at the start of text: digits, a point, an exponent. */
static size_t number_length(const char *c)
{
    size_t n = 0;
    while (is_digit(c[n]) || c[n] == '.') n++;
    if (n && (c[n] == 'e' || c[n] == 'E') &&
        (is_digit(c[n + 1]) || ((c[n + 1] == '-' || c[n + 1] == '+') && is_digit(c[n + 2])))) {
        n += 2;
        while (is_digit(c[n])) n++;
    }
    return n;
}

static kl_status read_number(reader *r, double *out)
{
    char word[MAX_NAME];
    const size_t n = number_length(r->at);
    snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : 0), r->at);
    if (!n || !kl_parse_double(word, out)) return bad(r, "a number is expected");
    r->at += n;
    return KL_OK;
}

static kl_status read_expipi(reader *r, double *m)
{
    const int d = r->type->dim;
    const char *const from = r->at;
    const kl_status st = read_sum(r, m);
    if (st != KL_OK || r->missing[0]) return st;
    for (int c = 0; c < d; c++)
        for (int i = 0; i < d; i++) {
            double *const x = &m[i + c * d];
            if (i != c) {
                if (*x != 0.0)
                    return kl_fail(
                        r->err, KL_EINPUT,
                        "operator '%.200s': expipi() needs a diagonal operator, and '%.*s' is none", r->text,
                        (int)(r->at - from < 200 ? r->at - from : 200), from);
                continue;
            }
            const double whole = nearbyint(*x);
            if (fabs(*x - whole) > 1e-9)
                return kl_fail(
                    r->err, KL_EINPUT,
                    "operator '%.200s': expipi() of %g in state %s is no real number; whole numbers only",
                    r->text, *x, r->type->state_name[c]);
            *x = fmod(fabs(whole), 2.0) > 0.5 ? -1.0 : 1.0;
        }
    return KL_OK;
}

/* The matrices are real: the adjoint is the transpose. */
static kl_status read_adjoint(reader *r, double *m)
{
    const int d = r->type->dim;
    const kl_status st = read_sum(r, m);
    if (st != KL_OK || r->missing[0]) return st;
    for (int c = 0; c < d; c++)
        for (int i = 0; i < c; i++) {
            const double x = m[i + c * d];
            m[i + c * d] = m[c + i * d];
            m[c + i * d] = x;
        }
    return KL_OK;
}

/* A name that the type has not becomes `missing'. */
static kl_status read_name(reader *r, const char *name, double *m)
{
    const int d = r->type->dim;
    const kl_site_word *w = r->type->word;
    int a = 0;
    while (a < r->type->nop && (!r->type->op[a].named || strcmp(r->type->op[a].name, name) != 0)) a++;
    memset(m, 0, (size_t)d * (size_t)d * sizeof *m);
    if (a < r->type->nop) {
        const kl_site_op *const op = &r->type->op[a];
        for (int k = 0; k < op->nelem; k++) m[op->elem[k].row + op->elem[k].col * d] = op->elem[k].value;
        return KL_OK;
    }
    while (w != NULL && w->name != NULL && strcmp(w->name, name) != 0) w++;
    if (w != NULL && w->name != NULL) {
        reader inside = {.type = r->type, .text = w->text, .at = w->text, .depth = r->depth, .err = r->err};
        return read_sum(&inside, m);
    }
    snprintf(r->missing, sizeof r->missing, "%s", name);
    return KL_OK;
}

static kl_status read_atom(reader *r, double *m)
{
    const int d = r->type->dim;
    kl_status st = KL_OK;
    skip_blanks(r);
    if (++r->depth > MAX_DEPTH) return bad(r, "too many brackets");
    if (*r->at == '-') {
        r->at++;
        KL_TRY(read_atom(r, m));
        for (int i = 0; i < d * d; i++) m[i] = -m[i];
    } else if (*r->at == '(') {
        r->at++;
        KL_TRY(read_sum(r, m));
        if (*r->at != ')') return bad(r, "')' is missing");
        r->at++;
    } else if (is_digit(*r->at) || *r->at == '.') {
        double x;
        KL_TRY(read_number(r, &x));
        set_identity(d, x, m);
    } else if (is_letter(*r->at)) {
        char name[MAX_NAME];
        size_t n = 0;
        while (is_letter(r->at[n]) || is_digit(r->at[n])) n++;
        if (n >= sizeof name) return bad(r, "a name is too long");
        memcpy(name, r->at, n);
        name[n] = '\0';
        if (r->at[n] == '(') {
            const int adjoint = strcmp(name, "adj") == 0;
            if (!adjoint && strcmp(name, "expipi") != 0)
                return bad(r, "the only functions are adj(X) and expipi(X)");
            r->at += n + 1;
            KL_TRY(adjoint ? read_adjoint(r, m) : read_expipi(r, m));
            if (*r->at != ')') return bad(r, "')' is missing");
            r->at++;
        } else {
            r->at += n;
            KL_TRY(read_name(r, name, m));
        }
    } else return bad(r, "an operator, a number or '(' is expected");
    r->depth--;
out:
    return st;
}

static kl_status read_product(reader *r, double *m)
{
    kl_status st = KL_OK;
    const int d = r->type->dim;
    double *b = NULL, *ab = NULL;
    KL_TRY(kl_alloc(&b, d * d, KL_MEM_WORK, r->err));
    KL_TRY(kl_alloc(&ab, d * d, KL_MEM_WORK, r->err));
    KL_TRY(read_atom(r, m));
    for (skip_blanks(r); *r->at == '*' || *r->at == '/'; skip_blanks(r)) {
        if (*r->at++ == '/') {
            double x;
            skip_blanks(r);
            KL_TRY(read_number(r, &x));
            if (x == 0) {
                st = bad(r, "division by zero");
                goto out;
            }
            for (int i = 0; i < d * d; i++) m[i] /= x;
            continue;
        }
        KL_TRY(read_atom(r, b));
        memset(ab, 0, (size_t)(d * d) * sizeof *ab);
        for (int c = 0; c < d; c++)
            for (int k = 0; k < d; k++)
                if (b[k + c * d] != 0.0)
                    for (int i = 0; i < d; i++) ab[i + c * d] += m[i + k * d] * b[k + c * d];
        memcpy(m, ab, (size_t)(d * d) * sizeof *m);
    }
out:
    kl_free(&b);
    kl_free(&ab);
    return st;
}

static kl_status read_sum(reader *r, double *m)
{
    kl_status st = KL_OK;
    const int d = r->type->dim;
    double *b = NULL;
    KL_TRY(kl_alloc(&b, d * d, KL_MEM_WORK, r->err));
    KL_TRY(read_product(r, m));
    for (skip_blanks(r); *r->at == '+' || *r->at == '-'; skip_blanks(r)) {
        const double sign = *r->at++ == '-' ? -1.0 : 1.0;
        KL_TRY(read_product(r, b));
        for (int i = 0; i < d * d; i++) m[i] += sign * b[i];
    }
out:
    kl_free(&b);
    return st;
}

enum { MOST_LISTED = 64 };

/* Adds a name that is new to list[MOST_LISTED], *n of them, with NULL behind the last. A product is known by
   its factors. */
static void list_name(const char *name, const char **list, int *n)
{
    for (int k = 0; k < *n; k++)
        if (strcmp(list[k], name) == 0) return;
    if (strchr(name, '*') != NULL || *n + 1 >= MOST_LISTED) return;
    list[(*n)++] = name;
    list[*n] = NULL;
}

static kl_status no_such_name(const kl_model *m, const char *text, const char *name, kl_err *err)
{
    const char *list[MOST_LISTED] = {NULL};
    char all[512] = "";
    int n = 0;
    for (int t = 0; t < m->ntype; t++) {
        for (int a = 1; a < m->type[t].nop; a++)
            if (m->type[t].op[a].named) list_name(m->type[t].op[a].name, list, &n);
        for (const kl_site_word *w = m->type[t].word; w != NULL && w->name != NULL; w++)
            list_name(w->name, list, &n);
    }
    for (int k = 0; k < n; k++) {
        const size_t at = strlen(all);
        snprintf(all + at, sizeof all - at, "%s%s", k > 0 ? ", " : "", list[k]);
    }
    const char *const near = kl_closest(name, list);
    return kl_fail(err, KL_EINPUT, "operator '%.200s': '%s' is no operator of model %s%s%s%s; it has %s",
                   text, name, m->name, near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "",
                   all);
}

kl_status kl_siteop_create(const kl_model *m, const char *text, kl_siteop **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_siteop *o = NULL;
    char missing[MAX_NAME] = "";
    int nhave = 0;
    KL_TRY(kl_alloc(&o, 1, KL_MEM_MISC, err));
    o->model = m;
    o->text = kl_strdup(text);
    KL_TRY(kl_alloc(&o->mat, m->ntype, KL_MEM_MISC, err));
    if (!o->text) {
        st = kl_fail(err, KL_ENOMEM, "no memory for the name of an operator");
        goto out;
    }
    for (int t = 0; t < m->ntype; t++) {
        reader r = {.type = &m->type[t], .text = o->text, .at = o->text, .err = err};
        KL_TRY(kl_alloc(&o->mat[t], (int64_t)r.type->dim * r.type->dim, KL_MEM_MISC, err));
        KL_TRY(read_sum(&r, o->mat[t]));
        if (*r.at) {
            st = bad(&r, "'+', '-', '*', '/' or the end is expected");
            goto out;
        }
        if (r.missing[0]) {
            memcpy(missing, r.missing, sizeof missing);
            kl_free(&o->mat[t]);
        } else nhave++;
    }
    if (!nhave) st = no_such_name(m, text, missing, err);
out:
    if (st != KL_OK) kl_siteop_destroy(&o);
    *out = o;
    return st;
}

void kl_siteop_destroy(kl_siteop **po)
{
    kl_siteop *const o = *po;
    if (!o) return;
    for (int t = 0; o->mat && t < o->model->ntype; t++) kl_free(&o->mat[t]);
    kl_free(&o->mat);
    kl_free(&o->text);
    kl_free(po);
}

static int same(const kl_siteop *a, const kl_siteop *b, int transposed)
{
    for (int t = 0; t < a->model->ntype; t++) {
        const int d = a->model->type[t].dim;
        if (!a->mat[t] != !b->mat[t]) return 0;
        for (int c = 0; a->mat[t] && c < d; c++)
            for (int i = 0; i < d; i++)
                if (a->mat[t][i + c * d] != b->mat[t][transposed ? c + i * d : i + c * d]) return 0;
    }
    return 1;
}

int kl_siteop_adjoint(const kl_siteop *a, const kl_siteop *b) { return same(a, b, 1); }
int kl_siteop_equal(const kl_siteop *a, const kl_siteop *b) { return same(a, b, 0); }

int kl_siteop_conserves(const kl_siteop *a)
{
    for (int t = 0; t < a->model->ntype; t++) {
        const kl_site_type *const type = &a->model->type[t];
        int any = 0;
        for (int c = 0; a->mat[t] && c < type->dim; c++)
            for (int i = 0; i < type->dim; i++) {
                if (a->mat[t][i + c * type->dim] == 0) continue;
                any = 1;
                for (int q = 0; q < a->model->ncharge; q++)
                    if (type->state_charge[i][q] != type->state_charge[c][q]) return 0;
            }
        if (!any) return 0;
    }
    return 1;
}
