/* One value of one option: its syntax, its limits, and where it is kept. Knows no model: names of parameters
   and charges are checked where the model is known.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "run/optiontable.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* ---------------------------------------------------------------- texts of a form of their own */

enum { MAX_SWEEPS = 100000 };

size_t kl_split_name(const char *text)
{
    const char *equals = strchr(text, '=');
    return equals == NULL ? 0 : (size_t)(equals - text);
}

kl_start kl_start_of(const char *text, const char **list)
{
    static const char product[] = "product:", path[] = "path:";
    if (list != NULL) *list = NULL;
    if (text == NULL) return KL_START_NONE;
    if (strcmp(text, "neel") == 0) return KL_START_NEEL;
    const int is_path = strncmp(text, path, sizeof path - 1) == 0;
    if (!is_path && strncmp(text, product, sizeof product - 1) != 0) return KL_START_FILE;
    if (list != NULL) *list = strchr(text, ':') + 1;
    return is_path ? KL_START_PATH : KL_START_PRODUCT;
}

static kl_status check_start(const char *where, const char *value, kl_err *err)
{
    const size_t length = strlen(value);
    const char *list;
    const kl_start kind = kl_start_of(value, &list);
    const int is_file = length > 3 && strcmp(value + length - 3, ".h5") == 0;
    if (kind == KL_START_NEEL || (list != NULL && *list != '\0') || is_file || strchr(value, '/') != NULL)
        return KL_OK;
    return kl_fail(err, KL_EINPUT,
                   "%s: '%s' is no start; allowed: neel, product:STATE,STATE,..., path:SPIN,SPIN,..., or a "
                   "result file (RESULT.h5)",
                   where, value);
}

static kl_status check_order(const char *where, const char *value, kl_err *err)
{
    static const char *const word[] = {"column", "snake", "fiedler", NULL};
    for (int i = 0; word[i] != NULL; i++)
        if (strcmp(value, word[i]) == 0) return KL_OK;
    if (value[0] != '\0' && value[strspn(value, "0123456789, ")] == '\0') return KL_OK;
    return kl_fail(
        err, KL_EINPUT,
        "%s: '%s' is no order; allowed: column, snake, fiedler, or all sites separated by commas (0,2,1,...)",
        where, value);
}

/* "64:1e-4*2", of the schedule `all` -> one row, made count times. item is taken apart. */
static kl_status read_entry(const char *where, char *item, kl_sweep_text *row, int64_t *count, kl_err *err)
{
    char entry[128];
    int64_t m = 0;
    snprintf(entry, sizeof entry, "%s", item);
    *row = (kl_sweep_text){0};
    *count = 1;
    char *star = strchr(item, '*');
    if (star != NULL) *star++ = '\0';
    char *noise = strchr(item, ':');
    if (noise != NULL) *noise++ = '\0';
    char *tol = noise == NULL ? NULL : strchr(noise, ':');
    if (tol != NULL) *tol++ = '\0';
    if (!kl_parse_int(item, &m) || m < 1 || m > 1000000)
        return kl_fail(err, KL_EINPUT, "%s: m is '%s' in '%s'; allowed: an integer from 1 to 1000000", where,
                       item, entry);
    row->m = (int)m;
    if (noise != NULL && (!kl_parse_double(noise, &row->noise) || row->noise < 0 || row->noise > 1))
        return kl_fail(err, KL_EINPUT, "%s: noise is '%s' in '%s'; allowed: a number from 0 to 1", where,
                       noise, entry);
    if (tol != NULL && (!kl_parse_double(tol, &row->tol) || row->tol <= 0 || row->tol > 1))
        return kl_fail(err, KL_EINPUT, "%s: tol is '%s' in '%s'; allowed: a number above 0, at most 1", where,
                       tol, entry);
    if (star != NULL && (!kl_parse_int(star, count) || *count < 1 || *count > MAX_SWEEPS))
        return kl_fail(err, KL_EINPUT, "%s: count is '%s' in '%s'; allowed: an integer from 1 to %d", where,
                       star, entry, (int)MAX_SWEEPS);
    return KL_OK;
}

/* "64:1e-4*2,256" -> rows, one per sweep. */
static kl_status check_schedule(kl_options *o, const char *where, const char *value, kl_err *err)
{
    kl_status st = KL_OK;
    char item[128];
    int n = 0;
    kl_free(&o->schedule_row);
    o->nschedule = 0;
    for (const char *p = value;; p++) {
        kl_sweep_text row;
        int64_t count;
        const size_t length = strcspn(p, ",");
        if (length == 0 || length >= sizeof(item))
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "%s: '%s' has an empty or overlong entry; an entry is m[:noise[:tol]][*count], as "
                           "in 64:1e-4*2,256*4",
                           where, value));
        memcpy(item, p, length);
        item[length] = '\0';
        p += length;
        KL_TRY(read_entry(where, item, &row, &count, err));
        if (n + count > MAX_SWEEPS)
            KL_TRY(kl_fail(err, KL_EINPUT, "%s: more than %d sweeps", where, (int)MAX_SWEEPS));
        KL_TRY(kl_realloc(&o->schedule_row, n + count, KL_MEM_MISC, err));
        for (int64_t i = 0; i < count; i++) o->schedule_row[n++] = row;
        if (*p == '\0') break;
    }
    if (o->schedule_row[n - 1].noise > 0)
        KL_TRY(kl_fail(
            err, KL_EINPUT,
            "%s: the last sweep of '%s' has noise %g; it must have none, or the energy is the noise's", where,
            value, o->schedule_row[n - 1].noise));
    o->nschedule = n;
out:
    return st;
}

kl_status kl_options_sweep(const char *text, int *n, double **value, kl_err *err)
{
    enum { MAX_VALUES = 10000 };
    kl_status st = KL_OK;
    *n = 0;
    *value = NULL;
    const size_t name = kl_split_name(text);
    const char *rest = name == 0 ? "" : text + name + 1;
    char part[64];
    double bound[3];
    int nbound = 0;
    const char *separator = strchr(rest, ':') != NULL ? ":" : ",";
    if (name == 0) KL_TRY(kl_fail(err, KL_EINPUT, "'%s' is not NAME=FROM:TO:STEP or NAME=a,b,...", text));
    for (const char *p = rest;; p++) {
        const size_t length = strcspn(p, separator);
        double x = 0;
        snprintf(part, sizeof(part), "%.*s", (int)(length < sizeof(part) ? length : sizeof(part) - 1), p);
        if (length >= sizeof(part) || !kl_parse_double(part, &x))
            KL_TRY(kl_fail(err, KL_EINPUT, "'%s' is not a number in '%s' (NAME=FROM:TO:STEP or NAME=a,b,...)",
                           part, text));
        if (*separator == ':') {
            if (nbound == 3) KL_TRY(kl_fail(err, KL_EINPUT, "'%s' has more than FROM:TO:STEP", text));
            bound[nbound++] = x;
        } else {
            if (*n == MAX_VALUES)
                KL_TRY(kl_fail(err, KL_EINPUT, "'%s' has more than %d values", text, (int)MAX_VALUES));
            KL_TRY(kl_realloc(value, *n + 1, KL_MEM_MISC, err));
            (*value)[(*n)++] = x;
        }
        p += length;
        if (*p == '\0') break;
    }
    if (*separator == ':') {
        if (nbound != 3) KL_TRY(kl_fail(err, KL_EINPUT, "'%s' is not NAME=FROM:TO:STEP", text));
        const double steps = (bound[1] - bound[0]) / bound[2];
        if (bound[2] == 0 || !(steps >= 0))
            KL_TRY(kl_fail(err, KL_EINPUT, "'%s': steps of %g never lead from %g to %g", text, bound[2],
                           bound[0], bound[1]));
        if (steps >= (double)MAX_VALUES)
            KL_TRY(kl_fail(err, KL_EINPUT, "'%s' makes %.0f values, at most %d are allowed", text,
                           floor(steps) + 1, (int)MAX_VALUES));
        const int count = (int)floor(steps + 1e-9) + 1;
        KL_TRY(kl_alloc(value, count, KL_MEM_MISC, err));
        for (int i = 0; i < count; i++) (*value)[i] = bound[0] + i * bound[2];
        *n = count;
    }
out:
    if (st != KL_OK) {
        kl_free(value);
        *n = 0;
    }
    return st;
}

kl_status kl_options_values(const char *what, const char *text, int *n, double **value, kl_err *err)
{
    char named[256];
    if (snprintf(named, sizeof(named), "%s=%s", what, text) >= (int)sizeof(named))
        return kl_fail(err, KL_EINPUT, "%s: the list is too long", what);
    return kl_options_sweep(named, n, value, err);
}

kl_status kl_options_integers(const char *name, const kl_text_list *list, int64_t low, int64_t high, int most,
                              int64_t *out, kl_err *err)
{
    if (list->n > most) return kl_fail(err, KL_EINPUT, "%s: at most %d values", name, most);
    for (int i = 0; i < list->n; i++)
        if (!kl_parse_int(list->text[i], &out[i]) || out[i] < low || out[i] > high)
            return kl_fail(err, KL_EINPUT, "%s: '%s' is not a whole number from %lld to %lld", name,
                           list->text[i], (long long)low, (long long)high);
    return KL_OK;
}

/* A list of numbers; with a name before it or without. */
static kl_status check_numbers(const char *where, const char *value, int is_named, kl_err *err)
{
    int n = 0;
    double *x = NULL;
    kl_status st =
        is_named ? kl_options_sweep(value, &n, &x, err) : kl_options_values(where, value, &n, &x, err);
    if (st != KL_OK && is_named) st = kl_fail(err, st, "%s: %s", where, err->text);
    kl_free(&x);
    return st;
}

static kl_status check_syntax(kl_options *o, kl_syntax syntax, const char *where, const char *value,
                              kl_err *err)
{
    switch (syntax) {
    case KL_SYNTAX_ANY: return KL_OK;
    case KL_SYNTAX_SCHEDULE: return check_schedule(o, where, value, err);
    case KL_SYNTAX_ORDER: return check_order(where, value, err);
    case KL_SYNTAX_START: return check_start(where, value, err);
    case KL_SYNTAX_SWEEP: return check_numbers(where, value, 1, err);
    case KL_SYNTAX_VALUES: return check_numbers(where, value, 0, err);
    case KL_SYNTAX_FILE:
    case KL_SYNTAX_FILLED: break;
    }
    return value[0] == '\0' ? kl_fail(err, KL_EINPUT, "%s: the value is empty", where) : KL_OK;
}

/* ---------------------------------------------------------------- one value */

/* "auto|lr|l11r" holds the word. */
static int is_choice(const char *allowed, const char *word)
{
    const size_t length = strlen(word);
    for (const char *p = allowed; *p != '\0';) {
        const size_t here = strcspn(p, "|");
        if (here == length && length > 0 && memcmp(p, word, length) == 0) return 1;
        p += here;
        if (*p == '|') p++;
    }
    return 0;
}

static kl_status set_text(char **field, const char *value, kl_err *err)
{
    char *copy = kl_strdup(value);
    if (copy == NULL) return kl_fail(err, KL_ENOMEM, "no memory for the option value '%.40s'", value);
    kl_free(field);
    *field = copy;
    return KL_OK;
}

static kl_status append(kl_text_list *list, const char *value, kl_option_source from, kl_err *err)
{
    kl_status st = kl_realloc(&list->text, list->n + 1, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    list->text[list->n] = NULL;
    st = set_text(&list->text[list->n], value, err);
    if (st != KL_OK) return st;
    list->n++;
    if (from == KL_FROM_COMMAND_LINE) list->ntyped = list->n;
    return KL_OK;
}

static kl_status add_named(const kl_option_row *row, kl_text_list *list, const char *where, const char *value,
                           kl_option_source from, kl_err *err)
{
    const size_t name = kl_split_name(value);
    const int bare = strcmp(row->name, "charge") == 0 && strcmp(value, "scan") == 0;
    if ((name == 0 || value[name + 1] == '\0') && !bare)
        return kl_fail(err, KL_EINPUT, "%s: '%s' is not %s", where, value, row->allowed);
    for (int i = 0; i < list->n; i++) {
        const size_t other = kl_split_name(list->text[i]);
        if (other != name || memcmp(list->text[i], value, name) != 0) continue;
        if (from == KL_FROM_FILE && i < list->ntyped) return KL_OK;
        return kl_fail(err, KL_EINPUT, "%s: given twice, as '%s' and as '%s'", where, list->text[i], value);
    }
    return append(list, value, from, err);
}

/* "N_up=2,N_dn=2" is two entries: a comma begins one where a '=' follows before the next comma. The comma of
   a list (h=1,2,3), and of a file's name, does not. */
static kl_status add_several(const kl_option_row *row, kl_text_list *list, const char *where,
                             const char *value, kl_option_source from, kl_err *err)
{
    kl_status st = KL_OK;
    char *copy = NULL;
    KL_TRY(set_text(&copy, value, err));
    for (char *entry = copy, *next; entry != NULL; entry = next) {
        const char *const is = strchr(entry, '=');
        next = is != NULL && is[1] != '@' ? strchr(entry, ',') : NULL;
        while (next != NULL && next[1 + strcspn(next + 1, ",=")] != '=') next = strchr(next + 1, ',');
        if (next != NULL) *next++ = '\0';
        KL_TRY(add_named(row, list, where, entry, from, err));
    }
out:
    kl_free(&copy);
    return st;
}

/* A number, with a unit behind it or without. */
static int read_bytes(const char *value, double *out)
{
    static const char letter[] = "kMGT";
    char number[40];
    const size_t length = strlen(value), unit = strcspn(value, "kKMGTB");
    const char *const at = strchr(letter, value[unit] == 'K' ? 'k' : value[unit]);
    if (unit == 0 || unit >= sizeof number) return 0;
    memcpy(number, value, unit);
    number[unit] = '\0';
    if (!kl_parse_double(number, out)) return 0;
    if (unit == length || strcmp(value + unit, "B") == 0) return 1;
    if (at == NULL || *at == '\0') return 0;
    const int binary = strcmp(value + unit + 1, "iB") == 0;
    if (!binary && strcmp(value + unit + 1, "B") != 0) return 0;
    for (const char *p = letter; p <= at; p++) *out *= binary ? 1024 : 1000;
    return 1;
}

/* Texts stand as they came; the same one twice is one. */
static kl_status add_text(kl_text_list *list, const char *value, kl_option_source from, kl_err *err)
{
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->text[i], value) == 0) return KL_OK;
    return append(list, value, from, err);
}

static kl_status refuse_choice(const kl_option_row *row, const char *where, const char *value, kl_err *err)
{
    char words[128];
    snprintf(words, sizeof(words), "%s", row->allowed);
    for (char *c = words; *c != '\0'; c++)
        if (*c == '|') *c = ' ';
    return kl_fail(err, KL_EINPUT, "%s: '%s' was given; allowed: %s", where, value, words);
}

/* A value that stands alone. */
static kl_status set_single(char *field, const kl_option_row *row, const char *where, const char *value,
                            kl_err *err)
{
    int64_t whole = 0;
    double x = 0;
    switch (row->kind) {
    case KL_VALUE_FLAG: *(int *)(void *)field = 1; return KL_OK;
    case KL_VALUE_INT:
        if (!kl_parse_int(value, &whole) || (double)whole < row->min || (double)whole > row->max)
            return kl_fail(err, KL_EINPUT, "%s: '%s' was given; allowed: an integer from %.0f to %.0f", where,
                           value, row->min, row->max);
        *(int64_t *)(void *)field = whole;
        return KL_OK;
    case KL_VALUE_REAL:
        if (!kl_parse_double(value, &x) || !(x >= row->min && x <= row->max))
            return kl_fail(err, KL_EINPUT, "%s: '%s' was given; allowed: a number from %g to %g", where,
                           value, row->min, row->max);
        *(double *)(void *)field = x;
        return KL_OK;
    case KL_VALUE_BYTES:
        if (!read_bytes(value, &x) || !(x >= row->min && x <= row->max))
            return kl_fail(err, KL_EINPUT,
                           "%s: '%s' was given; allowed: %g to %g bytes, as a number or with kB, MB, GB, TB, "
                           "KiB, MiB, GiB or TiB behind it",
                           where, value, row->min, row->max);
        *(double *)(void *)field = x;
        return KL_OK;
    case KL_VALUE_CHOICE:
        if (!is_choice(row->allowed, value)) return refuse_choice(row, where, value, err);
        break;
    default: break;
    }
    return set_text((char **)(void *)field, value, err);
}

kl_status kl_option_set(kl_options *o, const kl_option_row *row, const char *where, const char *value,
                        kl_option_source from, kl_err *err)
{
    const int index = (int)(row - kl_option_table);
    char *const field = (char *)o + row->offset;
    kl_text_list *const list = (kl_text_list *)(void *)field;
    const int is_list = row->kind == KL_VALUE_LIST || row->kind == KL_VALUE_NAMED;
    if (!is_list && o->given[index] > from) return KL_OK;
    if (!is_list && o->given[index] == from && row->kind != KL_VALUE_FLAG)
        return kl_fail(err, KL_EINPUT, "%s: given twice, the second time as '%s'", where, value);
    kl_status st = check_syntax(o, row->syntax, where, value, err);
    if (st != KL_OK) return st;
    if (row->kind == KL_VALUE_LIST) st = add_text(list, value, from, err);
    else if (row->kind == KL_VALUE_NAMED) st = add_several(row, list, where, value, from, err);
    else st = set_single(field, row, where, value, err);
    if (st == KL_OK && o->given[index] < from) o->given[index] = (unsigned char)from;
    return st;
}
