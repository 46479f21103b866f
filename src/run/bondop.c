/* Operators of a bond: see bondop.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/bondop.h"
#include "base/mem.h"
#include "model/qn.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum {
    WORD = 64,
    DEPTH = 16,
};

typedef struct sum {
    int n;
    kl_bondstring s[KL_BONDOP_STRINGS];
} sum;

typedef struct reader {
    const char *text, *at;
    kl_bondop *x;
    int depth;
    kl_err *err;
} reader;

void kl_bondop_destroy(kl_bondop **px)
{
    kl_bondop *const x = *px;
    if (x == NULL) return;
    for (int k = 0; k < x->nop; k++) kl_siteop_destroy(&x->op[k]);
    kl_free(px);
}

static kl_status refuse(const reader *r, const char *why)
{
    return kl_fail(r->err, KL_EINPUT,
                   "'%.200s': %s; an operator of a bond is like Sz(i)*Sz(j) or "
                   "(cdag_up(i)*c_up(j) + hc)/2",
                   r->text, why);
}

/* The one amount by which an operator changes the charges. */
static int find_shift(const kl_model *m, const kl_siteop *op, kl_qn *shift)
{
    int found = 0;
    for (int t = 0; t < m->ntype; t++) {
        const kl_site_type *const type = &m->type[t];
        for (int e = 0; op->mat[t] != NULL && e < type->dim * type->dim; e++) {
            if (op->mat[t][e] == 0) continue;
            const kl_qn q = kl_qn_sub(m, kl_qn_of(m, type->state_charge[e % type->dim]),
                                      kl_qn_of(m, type->state_charge[e / type->dim]));
            if (found && kl_qn_cmp(q, *shift) != 0) return 0;
            *shift = q;
            found = 1;
        }
    }
    if (!found) *shift = kl_qn_zero();
    return 1;
}

/* Index of an operator among those of x. */
static kl_status add_op(kl_bondop *x, const char *text, int *place, kl_err *err)
{
    kl_status st = KL_OK;
    for (int k = 0; k < x->nop; k++)
        if (strcmp(x->op[k]->text, text) == 0) {
            *place = k;
            return KL_OK;
        }
    if (x->nop == KL_BONDOP_OPS)
        return kl_fail(err, KL_EINPUT,
                       "'%.100s': an operator of a bond has %d different site operators at most", text,
                       KL_BONDOP_OPS);
    KL_TRY(kl_siteop_create(x->model, text, &x->op[x->nop], err));
    if (!find_shift(x->model, x->op[x->nop], &x->shift[x->nop])) {
        kl_siteop_destroy(&x->op[x->nop]);
        return kl_fail(err, KL_EINPUT,
                       "'%.100s' changes the charges by several amounts; write its parts as a sum", text);
    }
    x->adjoint[x->nop] = -1;
    *place = x->nop++;
out:
    return st;
}

static kl_status adjoint_of(kl_bondop *x, int k, int *place, kl_err *err)
{
    kl_status st = KL_OK;
    char text[2 * WORD + 8];
    if (x->adjoint[k] < 0) {
        const char *const name = x->op[k]->text;
        if (strncmp(name, "adj(", 4) == 0)
            snprintf(text, sizeof text, "%.*s", (int)strlen(name) - 5, name + 4);
        else snprintf(text, sizeof text, "adj(%.*s)", WORD, name);
        KL_TRY(add_op(x, text, &x->adjoint[k], err));
        x->adjoint[x->adjoint[k]] = k;
    }
    *place = x->adjoint[k];
out:
    return st;
}

static kl_status append(reader *r, sum *to, const kl_bondstring *s)
{
    if (to->n == KL_BONDOP_STRINGS) return refuse(r, "it has too many products");
    to->s[to->n++] = *s;
    return KL_OK;
}

/* (A B)^+ = B^+ A^+ */
static kl_status adjoint_string(kl_bondop *x, const kl_bondstring *s, kl_bondstring *out, kl_err *err)
{
    kl_status st = KL_OK;
    *out = (kl_bondstring){.coef = s->coef, .n = s->n};
    for (int k = 0; k < s->n; k++) {
        out->end[k] = s->end[s->n - 1 - k];
        KL_TRY(adjoint_of(x, s->op[s->n - 1 - k], &out->op[k], err));
    }
out:
    return st;
}

static void blank(reader *r)
{
    while (*r->at == ' ') r->at++;
}

static int take(reader *r, char c)
{
    blank(r);
    if (*r->at != c) return 0;
    r->at++;
    return 1;
}

static kl_status read_sum(reader *r, sum *out);

/* "0.5", "2e-3" */
static int read_number(reader *r, double *value)
{
    char text[WORD];
    size_t n = strspn(r->at, "0123456789.");
    if (n > 0 && (r->at[n] == 'e' || r->at[n] == 'E')) {
        n++;
        if (r->at[n] == '-' || r->at[n] == '+') n++;
        n += strspn(r->at + n, "0123456789");
    }
    if (n == 0 || n >= sizeof text) return 0;
    snprintf(text, sizeof text, "%.*s", (int)n, r->at);
    if (!kl_parse_double(text, value)) return 0;
    r->at += n;
    return 1;
}

/* NAME(i), adj(NAME)(j) */
static kl_status read_operator(reader *r, kl_bondstring *s)
{
    kl_status st = KL_OK;
    char name[WORD], text[WORD + 8];
    size_t n = 0;
    while (isalnum((unsigned char)r->at[n]) || r->at[n] == '_') n++;
    if (n == 0 || n >= sizeof name) return refuse(r, "a number, an operator or a bracket is missing");
    snprintf(name, sizeof name, "%.*s", (int)n, r->at);
    snprintf(text, sizeof text, "%s", name);
    r->at += n;
    if (strcmp(name, "adj") == 0) {
        if (!take(r, '(')) return refuse(r, "adj is written adj(NAME)(i)");
        n = strcspn(r->at, ")");
        if (r->at[n] != ')' || n >= sizeof name) return refuse(r, "')' is missing behind adj");
        snprintf(text, sizeof text, "adj(%.*s)", (int)n, r->at);
        r->at += n + 1;
    }
    if (!take(r, '(')) return refuse(r, "each operator needs its end of the bond, as in Sz(i)");
    blank(r);
    if (*r->at != 'i' && *r->at != 'j') return refuse(r, "the ends of a bond are i and j");
    s->end[0] = *r->at++ == 'j';
    if (!take(r, ')')) return refuse(r, "')' is missing behind i or j");
    s->coef = 1;
    s->n = 1;
    KL_TRY(add_op(r->x, text, &s->op[0], r->err));
out:
    return st;
}

static kl_status read_factor(reader *r, sum *out)
{
    kl_status st = KL_OK;
    kl_bondstring s = {.coef = 1};
    out->n = 0;
    blank(r);
    if (take(r, '(')) {
        if (++r->depth > DEPTH) return refuse(r, "brackets are nested too deeply");
        KL_TRY(read_sum(r, out));
        r->depth--;
        return take(r, ')') ? KL_OK : refuse(r, "')' is missing");
    }
    if (!read_number(r, &s.coef)) KL_TRY(read_operator(r, &s));
    KL_TRY(append(r, out, &s));
out:
    return st;
}

static kl_status multiply(reader *r, const sum *a, const sum *b, sum *out)
{
    kl_status st = KL_OK;
    out->n = 0;
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++) {
            kl_bondstring s = a->s[i];
            if (s.n + b->s[k].n > KL_BONDOP_FACTORS) return refuse(r, "a product has 4 operators at most");
            s.coef *= b->s[k].coef;
            for (int l = 0; l < b->s[k].n; l++, s.n++) {
                s.op[s.n] = b->s[k].op[l];
                s.end[s.n] = b->s[k].end[l];
            }
            KL_TRY(append(r, out, &s));
        }
out:
    return st;
}

static kl_status read_product(reader *r, sum *out)
{
    kl_status st = KL_OK;
    sum next, both;
    KL_TRY(read_factor(r, out));
    for (;;) {
        blank(r);
        if (take(r, '*')) {
            KL_TRY(read_factor(r, &next));
            KL_TRY(multiply(r, out, &next, &both));
            *out = both;
        } else if (take(r, '/')) {
            double by = 0;
            blank(r);
            if (!read_number(r, &by) || by == 0) return refuse(r, "only numbers divide");
            for (int k = 0; k < out->n; k++) out->s[k].coef /= by;
        } else return KL_OK;
    }
out:
    return st;
}

/* hc: the adjoint of all that stands to its left in the bracket, as in model files. */
static kl_status read_sum(reader *r, sum *out)
{
    kl_status st = KL_OK;
    sum next;
    int sign = 1, first = 1;
    out->n = 0;
    for (;;) {
        blank(r);
        if (take(r, '-')) sign = -1;
        else if (take(r, '+')) sign = 1;
        else if (!first) return KL_OK;
        blank(r);
        if (!first && strncmp(r->at, "hc", 2) == 0 && !isalnum((unsigned char)r->at[2]) && r->at[2] != '(' &&
            r->at[2] != '_') {
            const int n = out->n;
            r->at += 2;
            for (int k = 0; k < n; k++) {
                kl_bondstring s;
                KL_TRY(adjoint_string(r->x, &out->s[k], &s, r->err));
                s.coef *= sign;
                KL_TRY(append(r, out, &s));
            }
        } else {
            KL_TRY(read_product(r, &next));
            for (int k = 0; k < next.n; k++) {
                next.s[k].coef *= sign;
                KL_TRY(append(r, out, &next.s[k]));
            }
        }
        first = 0;
        sign = 1;
    }
out:
    return st;
}

kl_status kl_bondop_read(const char *text, const kl_model *m, kl_bondop **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_bondop *x = NULL;
    sum all;
    KL_TRY(kl_alloc(&x, 1, KL_MEM_MISC, err));
    x->model = m;
    reader r = {text, text, x, 0, err};
    KL_TRY(read_sum(&r, &all));
    blank(&r);
    if (*r.at != '\0') KL_TRY(refuse(&r, "there is more than an operator"));
    x->nstring = all.n;
    memcpy(x->string, all.s, sizeof all.s[0] * (size_t)all.n);
    *out = x;
    x = NULL;
out:
    kl_bondop_destroy(&x);
    return st;
}

kl_status kl_bondop_adjoint(const kl_bondop *x, kl_bondop **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_bondop *y = NULL;
    KL_TRY(kl_alloc(&y, 1, KL_MEM_MISC, err));
    y->model = x->model;
    for (int k = 0; k < x->nop; k++) {
        int place;
        KL_TRY(add_op(y, x->op[k]->text, &place, err));
    }
    for (int k = 0; k < x->nstring; k++) {
        KL_TRY(adjoint_string(y, &x->string[k], &y->string[k], err));
        y->nstring = k + 1;
    }
    *out = y;
    y = NULL;
out:
    kl_bondop_destroy(&y);
    return st;
}

static kl_qn total(const kl_bondop *x, const kl_bondstring *s, kl_qn from)
{
    for (int k = 0; k < s->n; k++) from = kl_qn_add(x->model, from, x->shift[s->op[k]]);
    return from;
}

const char *kl_bondop_forbidden(const kl_bondop *x, const kl_bondop *y, char *by, size_t size)
{
    const kl_model *const m = x->model;
    kl_qn last = kl_qn_zero();
    for (int i = 0; i < x->nstring; i++)
        for (int k = 0; k < (y != NULL ? y->nstring : 1); k++) {
            last = total(x, &x->string[i], kl_qn_zero());
            if (y != NULL) last = total(y, &y->string[k], last);
            if (kl_qn_cmp(last, kl_qn_zero()) == 0) return NULL;
        }
    int c = 0;
    while (c < m->ncharge - 1 && last.v[c] == 0) c++;
    kl_charge_print(&m->charge[c], last.v[c], by, size);
    return m->charge[c].name;
}

kl_status kl_bondop_bonds(const kl_lattice *lat, int cls, int *n, int (**bond)[2], kl_err *err)
{
    kl_status st = KL_OK;
    *n = 0;
    KL_TRY(kl_alloc(bond, lat->nbond, KL_MEM_WORK, err));
    for (int b = 0; b < lat->nbond; b++)
        for (int c = 0; c < lat->bond[b].nclass; c++) {
            const kl_bond *const x = &lat->bond[b];
            if (x->cls[c] != cls) continue;
            (*bond)[*n][0] = x->reversed ? x->j : x->i;
            (*bond)[(*n)++][1] = x->reversed ? x->i : x->j;
        }
out:
    return st;
}

/* Behind the n factors that are there. */
static int put(const kl_bondop *x, const kl_bondstring *s, const int bond[2], int n, int *site,
               const kl_siteop **op, int *odd)
{
    for (int k = 0; k < s->n; k++, n++) {
        site[n] = bond[s->end[k]];
        op[n] = x->op[s->op[k]];
        odd[n] = kl_qn_odd(x->model, x->shift[s->op[k]]);
    }
    return n;
}

kl_status kl_bondop_each(const kl_bondop *x, const kl_bondop *y, int nbond, const int (*bond)[2],
                         kl_bondop_fn *tell, void *self, kl_err *err)
{
    kl_status st = KL_OK;
    int site[2 * KL_BONDOP_FACTORS], odd[2 * KL_BONDOP_FACTORS];
    const kl_siteop *op[2 * KL_BONDOP_FACTORS];
    for (int b = 0; b < nbond; b++)
        for (int i = 0; i < x->nstring; i++) {
            const kl_bondstring *const s = &x->string[i];
            const int n = put(x, s, bond[b], 0, site, op, odd);
            const kl_qn half = total(x, s, kl_qn_zero());
            if (y == NULL && kl_qn_cmp(half, kl_qn_zero()) == 0)
                KL_TRY(tell(self, b, s->coef, n, site, op, odd, err));
            for (int k = 0; y != NULL && k < y->nstring; k++) {
                const kl_bondstring *const z = &y->string[k];
                if (kl_qn_cmp(total(y, z, half), kl_qn_zero()) != 0) continue;
                for (int c = 0; c < nbond; c++) {
                    const int all = put(y, z, bond[c], n, site, op, odd);
                    KL_TRY(tell(self, (int64_t)b * nbond + c, s->coef * z->coef, all, site, op, odd, err));
                }
            }
        }
out:
    return st;
}
