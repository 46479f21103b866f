/* Run-time numbers of a model: scalars and per-site or per-bond arrays, from the text that a user writes.
   SPDX-License-Identifier: Apache-2.0 */
#include "model/params.h"
#include "base/infile.h"
#include "base/mem.h"
#include "base/random.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 1 << 28 }; /* bytes of a file of numbers */

static uint64_t start_random(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name != 0; name++) h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return seed ^ h;
}

/* a + b * x with two roundings on every machine: a compiler may not fuse through a volatile. */
static double plus_times(double a, double b, double x)
{
    const volatile double product = b * x;
    return a + product;
}

static double draw_uniform(uint64_t *state, double a, double b)
{
    return plus_times(a, b - a, (double)(kl_random_next(state) >> 11) * 0x1p-53);
}

/* -log2(s / 2^62) for 0 < s <= 2^62, one bit at a time by squaring: libm's log may differ between machines,
   this cannot. */
static double minus_log2(uint64_t s)
{
    int whole = 0;
    while (s < (UINT64_C(1) << 62)) {
        s <<= 1;
        whole++;
    }
    uint64_t m = s << 1; /* 1.63 fixed point, in [1, 2) */
    uint64_t fraction = 0;
    for (int bit = 0; bit < 48; bit++) {
        const unsigned __int128 square = (unsigned __int128)m * m; /* 2.126 */
        const int carry = (int)(square >> 127);
        m = (uint64_t)(square >> (63 + carry));
        fraction = fraction << 1 | (uint64_t)carry;
    }
    return (double)whole - (double)fraction * 0x1p-48;
}

static double draw_normal(uint64_t *state, double mean, double sigma)
{
    for (;;) {
        const uint64_t bits = kl_random_next(state);
        const int64_t u = (int64_t)(bits >> 32) - (INT64_C(1) << 31),
                      v = (int64_t)(bits & 0xffffffffu) - (INT64_C(1) << 31);
        const uint64_t s = (uint64_t)(u * u) + (uint64_t)(v * v); /* of the circle of radius 2^31 */
        if (s == 0 || s >= UINT64_C(1) << 62) continue;
        const double length2 = (double)s * 0x1p-62,
                     scale = sqrt(2.0 * 0.69314718055994531 * minus_log2(s) / length2);
        return plus_times(mean, sigma, (double)u * 0x1p-31 * scale);
    }
}

/* Lists the bonds of the classes whose terms read the bond array k; all bonds when no term does. */
static kl_status list_bonds(kl_params *p, const kl_lattice *lat, int k, kl_err *err)
{
    const kl_model *m = p->model;
    kl_status st = KL_OK;
    char *used = NULL;
    int any = 0;
    KL_TRY(kl_alloc(&used, lat->nbond_class, KL_MEM_MISC, err));
    for (int t = 0; t < m->nterm; t++) {
        const kl_term_def *term = &m->term[t];
        const int c = term->place == KL_PLACE_BOND ? kl_lattice_class(lat, term->where) : -1;
        if (c >= 0 && kl_coef_reads(&term->coef, k)) any = used[c] = 1;
    }
    KL_TRY(kl_alloc(&p->entry[k], lat->nbond, KL_MEM_MISC, err));
    for (int b = 0; b < lat->nbond; b++) {
        int take = !any;
        for (int c = 0; c < lat->bond[b].nclass; c++) take |= used[lat->bond[b].cls[c]];
        if (take) p->entry[k][p->nentry[k]++] = b;
    }
out:
    kl_free(&used);
    return st;
}

kl_status kl_params_create(const kl_model *m, const kl_lattice *lat, kl_params **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_params *p = NULL;
    KL_TRY(kl_alloc(&p, 1, KL_MEM_MISC, err));
    p->model = m;
    p->nsite = lat->nsite;
    p->nbond = lat->nbond;
    KL_TRY(kl_alloc(&p->scalar, m->nparam, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&p->array, m->nparam, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&p->nentry, m->nparam, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&p->entry, m->nparam, KL_MEM_MISC, err));
    for (int k = 0; k < m->nparam; k++) {
        p->scalar[k] = m->param[k].value;
        if (m->param[k].kind == KL_PARAM_SCALAR) continue;
        const int n = m->param[k].kind == KL_PARAM_SITE ? lat->nsite : lat->nbond;
        KL_TRY(kl_alloc(&p->array[k], n, KL_MEM_MISC, err));
        for (int i = 0; i < n; i++) p->array[k][i] = m->param[k].value;
        if (m->param[k].kind == KL_PARAM_BOND) {
            KL_TRY(list_bonds(p, lat, k, err));
            continue;
        }
        KL_TRY(kl_alloc(&p->entry[k], n, KL_MEM_MISC, err));
        for (int i = 0; i < n; i++) p->entry[k][i] = i;
        p->nentry[k] = n;
    }
    *out = p;
    p = NULL;
out:
    kl_params_destroy(&p);
    return st;
}

void kl_params_destroy(kl_params **params)
{
    kl_params *p = *params;
    if (p == NULL) return;
    for (int k = 0; k < p->model->nparam; k++) {
        if (p->array != NULL) kl_free(&p->array[k]);
        if (p->entry != NULL) kl_free(&p->entry[k]);
    }
    kl_free(&p->scalar);
    kl_free(&p->array);
    kl_free(&p->nentry);
    kl_free(&p->entry);
    kl_free(params);
}

static kl_status unknown_name(const kl_model *m, const char *name, kl_err *err)
{
    kl_status st = KL_OK;
    const char **list = NULL;
    char all[600] = "";
    size_t used = 0;
    KL_TRY(kl_alloc(&list, m->nparam + 1, KL_MEM_MISC, err));
    for (int k = 0; k < m->nparam; k++) {
        list[k] = m->param[k].name;
        if (used < sizeof all)
            used +=
                (size_t)snprintf(all + used, sizeof all - used, "%s%s", k > 0 ? ", " : "", m->param[k].name);
    }
    if (m->nparam == 0) {
        st = kl_fail(err, KL_EINPUT, "model %s has no parameter \"%.100s\"; it has none at all", m->name,
                     name);
        goto out;
    }
    const char *near = kl_closest(name, list);
    st = kl_fail(err, KL_EINPUT, "model %s has no parameter \"%.100s\"%s%s%s; it has %s", m->name, name,
                 near ? " (did you mean " : "", near ? near : "", near ? "?)" : "", all);
out:
    kl_free(&list);
    return st;
}

/* A number, or [-]name, [-]name/number, [-]name*number of a scalar parameter. */
static int parse_argument(const kl_params *p, const char *text, double *out)
{
    char word[128];
    while (isspace((unsigned char)*text)) text++;
    if (kl_parse_double(text, out)) return 1;
    const double sign = *text == '-' ? -1.0 : 1.0;
    if (*text == '-' || *text == '+') text++;
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || text[n] == '_') n++;
    if (n == 0 || n >= sizeof word) return 0;
    memcpy(word, text, n);
    word[n] = 0;
    const char *rest = text + n;
    while (isspace((unsigned char)*rest)) rest++;
    double factor = 1.0;
    if ((*rest == '/' || *rest == '*') && !kl_parse_double(rest + 1, &factor)) return 0;
    if (*rest != 0 && *rest != '/' && *rest != '*') return 0;
    for (int k = 0; k < p->model->nparam; k++)
        if (p->model->param[k].kind == KL_PARAM_SCALAR && strcmp(p->model->param[k].name, word) == 0) {
            *out = sign * (*rest == '/' ? p->scalar[k] / factor : p->scalar[k] * factor);
            return 1;
        }
    return 0;
}

/* 1 when text is NAME(...); the two arguments are then parsed into a and b. */
static int is_call(const char *text, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(text, name, n) == 0 && text[n + strspn(text + n, " ")] == '(';
}

static kl_status parse_call(const kl_params *p, const char *name, const char *text, double arg[2],
                            kl_err *err)
{
    char part[2][160];
    const char *open = strchr(text, '('), *close = strrchr(text, ')'), *comma = strchr(text, ',');
    const int whole = close != NULL && close[1 + strspn(close + 1, " ")] == 0 && comma != NULL &&
                      comma < close && strchr(comma + 1, ',') == NULL;
    if (!whole || comma - open - 1 >= 160 || close - comma - 1 >= 160)
        return kl_fail(
            err, KL_EINPUT,
            "parameter %s=\"%.100s\": expected uniform(a,b) or normal(mean,sigma), such as uniform(-1,1)",
            name, text);
    snprintf(part[0], sizeof part[0], "%.*s", (int)(comma - open - 1), open + 1);
    snprintf(part[1], sizeof part[1], "%.*s", (int)(close - comma - 1), comma + 1);
    for (int k = 0; k < 2; k++)
        if (!parse_argument(p, part[k], &arg[k]) || !isfinite(arg[k]))
            return kl_fail(err, KL_EINPUT,
                           "parameter %s=\"%.100s\": \"%.60s\" is neither a finite number nor a scalar "
                           "parameter of model %s, such as uniform(-1,1)",
                           name, text, part[k], p->model->name);
    return KL_OK;
}

static const char *entry_noun(const kl_params *p, int k)
{
    return p->model->param[k].kind == KL_PARAM_SITE ? "sites" : "bonds that its terms use";
}

/* Numbers separated by blanks, commas, semicolons or line ends; # starts a comment. Messages name line
   numbers when file is not NULL. */
static kl_status parse_list(const kl_params *p, int k, const char *file, const char *text, double *value,
                            kl_err *err)
{
    const char *name = p->model->param[k].name;
    const int want = p->nentry[k];
    int n = 0, line = 1;
    for (const char *c = text; *c != 0;) {
        if (*c == '\n') line++;
        if (*c == '#') {
            c += strcspn(c, "\n");
            continue;
        }
        if (strchr(" \t\r\n,;", *c) != NULL) {
            c++;
            continue;
        }
        char word[80];
        const size_t len = strcspn(c, " \t\r\n,;#");
        double x = 0.0;
        snprintf(word, sizeof word, "%.*s", (int)(len < 79 ? len : 79), c);
        if (len >= sizeof word || !kl_parse_double(word, &x) || !isfinite(x)) {
            if (file != NULL)
                return kl_fail(err, KL_EINPUT,
                               "%.300s:%d: \"%s\" is not a finite number (parameter %s; one number per line "
                               "or blank, # for comments)",
                               file, line, word, name);
            return kl_fail(err, KL_EINPUT,
                           "parameter %s: entry %d is \"%s\", not a finite number; allowed for an array: a "
                           "number, a,b,c..., @file, uniform(a,b), normal(mean,sigma)",
                           name, n + 1, word);
        }
        if (n < want) value[n] = x;
        n++;
        c += len;
    }
    if (n != want)
        return kl_fail(err, KL_EINPUT,
                       "parameter %s%s%.300s has %d numbers; expected %d, one for each of the %s", name,
                       file ? "=@" : "", file ? file : "", n, want, entry_noun(p, k));
    return KL_OK;
}

static kl_status read_text(const char *name, const char *path, char **out, kl_err *err)
{
    int64_t n = 0;
    kl_err why;
    kl_status st = kl_infile_read(path, MAX_FILE, out, &n, &why);
    if (st != KL_OK)
        return kl_fail(err, st == KL_ENOMEM ? st : KL_EINPUT, "parameter %s: %s", name, why.text);
    if (memchr(*out, 0, (size_t)n) == NULL) return KL_OK;
    kl_free(out);
    return kl_fail(err, KL_EINPUT, "parameter %s=@%.300s: the file is not text (it has a zero byte)", name,
                   path);
}

static kl_status set_array(kl_params *p, int k, const char *text, uint64_t seed, kl_err *err)
{
    const char *name = p->model->param[k].name;
    const int n = p->nentry[k];
    kl_status st = KL_OK;
    double *value = NULL, x = 0.0, arg[2];
    char *content = NULL;
    KL_TRY(kl_alloc(&value, n, KL_MEM_MISC, err));
    if (kl_parse_double(text, &x)) {
        if (!isfinite(x)) {
            st = kl_fail(err, KL_EINPUT, "parameter %s=%.100s is not finite", name, text);
            goto out;
        }
        for (int i = 0; i < n; i++) value[i] = x;
    } else if (text[0] == '@') {
        KL_TRY(read_text(name, text + 1, &content, err));
        KL_TRY(parse_list(p, k, text + 1, content, value, err));
    } else if (is_call(text, "uniform")) {
        uint64_t state = start_random(seed, name);
        KL_TRY(parse_call(p, name, text, arg, err));
        for (int i = 0; i < n; i++) value[i] = draw_uniform(&state, arg[0], arg[1]);
    } else if (is_call(text, "normal")) {
        uint64_t state = start_random(seed, name);
        KL_TRY(parse_call(p, name, text, arg, err));
        if (arg[1] < 0.0) {
            st = kl_fail(err, KL_EINPUT, "parameter %s=\"%.100s\": sigma is %g; it may not be negative", name,
                         text, arg[1]);
            goto out;
        }
        for (int i = 0; i < n; i++) value[i] = draw_normal(&state, arg[0], arg[1]);
    } else {
        KL_TRY(parse_list(p, k, NULL, text, value, err));
    }
    for (int i = 0; i < n; i++) p->array[k][p->entry[k][i]] = value[i];
out:
    kl_free(&value);
    kl_free(&content);
    return st;
}

kl_status kl_params_set(kl_params *p, const char *name, const char *text, uint64_t seed, kl_err *err)
{
    const kl_model *m = p->model;
    int k = 0;
    double x = 0.0;
    while (k < m->nparam && strcmp(m->param[k].name, name) != 0) k++;
    if (k == m->nparam) return unknown_name(m, name, err);
    if (m->param[k].kind != KL_PARAM_SCALAR) return set_array(p, k, text, seed, err);
    if (!kl_parse_double(text, &x) || !isfinite(x)) {
        const int array = text[0] == '@' || strchr(text, ',') != NULL || strchr(text, '(') != NULL;
        const char *const hint = array               ? "; it is not an array"
                                 : strchr(text, ':') ? "; several values in turn are for --sweep-parameter"
                                                     : "";
        return kl_fail(err, KL_EINPUT,
                       "parameter %s=\"%.100s\": expected one finite number, such as %s=0.5 or %s=1/2%s",
                       name, text, name, name, hint);
    }
    p->scalar[k] = x;
    return KL_OK;
}
