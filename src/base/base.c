/* Error messages, checked sizes, "did you mean" and numbers read in the C locale. Allocates nothing but the C
   locale, once.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/base.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kl_status kl_fail(kl_err *err, kl_status st, const char *fmt, ...)
{
    if (err == NULL) return st;
    /* Through a second buffer: callers prepend to an error by passing err->text itself as an argument. */
    char text[sizeof(err->text)];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    /* One line, always: messages quote input, and input may hold anything. */
    for (char *c = text; *c != '\0'; c++)
        if (*c == '\n' || *c == '\r') *c = ' ';
    memcpy(err->text, text, sizeof(text));
    return st;
}

kl_saying kl_said(double x)
{
    kl_saying s;
    if (isnan(x)) snprintf(s.text, sizeof s.text, "not a number");
    else if (isinf(x)) snprintf(s.text, sizeof s.text, x > 0 ? "infinite" : "minus infinite");
    else snprintf(s.text, sizeof s.text, "%g", x);
    return s;
}

int64_t kl_gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

int kl_mul_size(int64_t a, int64_t b, int64_t *out)
{
    *out = 0;
    if (a < 0 || b < 0) return 0;
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product)) return 0;
    *out = product;
    return 1;
}

enum { WORD_MAX = 64 }; /* longer words are compared by their first WORD_MAX characters */

/* Edit distance with transpositions (optimal string alignment), letters without regard to case. */
static int edit_distance(const char *a, const char *b)
{
    int row[3][WORD_MAX + 1];
    const int na = (int)strnlen(a, WORD_MAX);
    const int nb = (int)strnlen(b, WORD_MAX);
    for (int j = 0; j <= nb; j++) row[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *const now = row[i % 3];
        const int *const last = row[(i + 2) % 3];
        const int *const before = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= nb; j++) {
            const int ca = tolower((unsigned char)a[i - 1]);
            const int cb = tolower((unsigned char)b[j - 1]);
            int best = last[j - 1] + (ca != cb);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            if (i > 1 && j > 1 && ca == tolower((unsigned char)b[j - 2]) &&
                cb == tolower((unsigned char)a[i - 2]) && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[na % 3][nb];
}

const char *kl_closest(const char *word, const char *const *list)
{
    const char *best = NULL;
    int best_distance = 0;
    for (; *list != NULL; list++) {
        const int distance = edit_distance(word, *list);
        if (best == NULL || distance < best_distance) {
            best = *list;
            best_distance = distance;
        }
    }
    /* Near: at most one wrong letter in three, and never all of a short word. */
    const int length = (int)strnlen(word, WORD_MAX);
    const int allowed = length < 3 ? length - 1 : (length + 2) / 3;
    return best != NULL && best_distance <= allowed ? best : NULL;
}

/* The C locale, made once and kept for the life of the process; (locale_t)0 when it cannot be made. */
static locale_t c_locale(void)
{
    static _Atomic(locale_t) kept;
    locale_t have = atomic_load_explicit(&kept, memory_order_acquire);
    if (have != (locale_t)0) return have;
    locale_t made = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (made == (locale_t)0) return made;
    if (atomic_compare_exchange_strong(&kept, &have, made)) return made;
    freelocale(made); /* another thread was first */
    return have;
}

static const char *skip_space(const char *p)
{
    while (*p == ' ' || (*p >= '\t' && *p <= '\r')) p++;
    return p;
}

/* One finite number at p; *end is behind it. "inf", "nan" and what overflows are refused. */
static int read_number(const char *p, char **end, locale_t c, double *out)
{
    const double value = strtod_l(p, end, c);
    if (*end == p || !isfinite(value)) return 0;
    *out = value;
    return 1;
}

static _Thread_local kl_interrupt interrupt; /* of the call that this thread is in */

kl_interrupt kl_on_interrupt(kl_interrupt whom)
{
    const kl_interrupt before = interrupt;
    interrupt = whom;
    return before;
}

int kl_interrupted(void) { return interrupt.asked != NULL && interrupt.asked(interrupt.self); }

int kl_parse_double(const char *text, double *out)
{
    const locale_t c = c_locale();
    if (c == (locale_t)0) return 0;
    char *end;
    double value;
    if (!read_number(text, &end, c, &value)) return 0;
    const char *rest = skip_space(end);
    if (*rest == '/') {
        double divisor;
        if (!read_number(rest + 1, &end, c, &divisor) || divisor == 0.0) return 0;
        value /= divisor;
        if (!isfinite(value)) return 0;
        rest = skip_space(end);
    }
    if (*rest != '\0') return 0;
    *out = value;
    return 1;
}

int kl_parse_int(const char *text, int64_t *out)
{
    char *end;
    const int saved = errno;
    errno = 0;
    const long long value = strtoll(text, &end, 10); /* digits and signs only: no locale enters in base 10 */
    const int range = errno == ERANGE;
    errno = saved;
    if (end == text || range || *skip_space(end) != '\0') return 0;
    *out = (int64_t)value;
    return 1;
}

double kl_unit_of(double size, int usual)
{
    const int e = size > 0 && isfinite(size) ? ilogb(size) : 0;
    return e >= -usual && e <= usual ? 1.0 : ldexp(1.0, e);
}

double kl_bound_in(double bound, double unit)
{
    const double product = bound * unit;
    return bound > 0 && product < DBL_MIN ? DBL_MIN : product;
}
