/* What all C tests share: comparisons that print both values and the case (seed, shape), random numbers,
   guard words. Header only; cmocka.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TEST_H
#define KL_TEST_H
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/random.h"

/* 1 where sanitizers watch every access, which takes ten times as long: tests do there less of what they do
   many times. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { KL_TEST_WATCHED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { KL_TEST_WATCHED = 1 };
#else
enum { KL_TEST_WATCHED = 0 };
#endif
#else
enum { KL_TEST_WATCHED = 0 };
#endif

/* Of a program's tests those alone whose names KL_TEST_ONLY matches, where it is set: test_b* */
__attribute__((constructor, unused)) static void kl_test_only(void)
{
    const char *const pattern = getenv("KL_TEST_ONLY");
    if (pattern != NULL) cmocka_set_test_filter(pattern);
}

/* `all`, or what KL_TEST_ROUNDS allows if that is less, for tools that watch from outside. */
static int kl_test_allowed(int all)
{
    const char *const text = getenv("KL_TEST_ROUNDS");
    const int most = text ? atoi(text) : 0;
    return most > 0 && most < all ? most : all;
}

/* Rounds of a test that has `all` of them. */
__attribute__((unused)) static int kl_test_rounds(int all)
{
    return kl_test_allowed(KL_TEST_WATCHED ? (all + 5) / 6 : all);
}

/* Of a table of `all` cases every so manyth, for such tools alone: no more cases than they are allowed. */
__attribute__((unused)) static int kl_test_step(int all)
{
    return (all + kl_test_allowed(all) - 1) / kl_test_allowed(all);
}

/* The same where each case takes long: every `watched`-th under the sanitizers, too. */
__attribute__((unused)) static int kl_test_stride(int all, int watched)
{
    const int step = kl_test_step(all);
    return KL_TEST_WATCHED && watched > step ? watched : step;
}

/* The case that runs, named in every failure: kl_test_case("n=%d seed=%d", n, seed). */
static char kl_test_text[256] = "";

__attribute__((unused, format(printf, 1, 2))) static void kl_test_case(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(kl_test_text, sizeof(kl_test_text), fmt, args);
    va_end(args);
}

/* Of a file in tests/data; the text is kept until the next call. */
__attribute__((unused)) static const char *kl_test_data(const char *file)
{
    static char path[512];
    const char *root = getenv("KRONLAT_DATA");
    snprintf(path, sizeof(path), "%s/tests/data/%s", root != NULL ? root : ".", file);
    return path;
}

__attribute__((unused)) static void kl_test_near(const char *what, double seen, double wanted, double allowed,
                                                 const char *file, int line)
{
    if (fabs(seen - wanted) <= allowed) return; /* false for NaN */
    print_error("%s:%d: %s is %.17g, wanted %.17g: off by %.3g, allowed %.3g [%s]\n", file, line, what, seen,
                wanted, fabs(seen - wanted), allowed, kl_test_text);
    _fail(file, line);
}

__attribute__((unused)) static void kl_test_equal(const char *what, int64_t seen, int64_t wanted,
                                                  const char *file, int line)
{
    if (seen == wanted) return;
    print_error("%s:%d: %s is %lld, wanted %lld [%s]\n", file, line, what, (long long)seen, (long long)wanted,
                kl_test_text);
    _fail(file, line);
}

__attribute__((unused)) static void kl_test_ok(const char *what, kl_status st, const kl_err *err,
                                               const char *file, int line)
{
    if (st == KL_OK) return;
    print_error("%s:%d: %s gave status %d: %s [%s]\n", file, line, what, (int)st, err->text, kl_test_text);
    _fail(file, line);
}

__attribute__((unused)) static void kl_test_true(const char *what, int seen, const char *file, int line)
{
    if (seen) return;
    print_error("%s:%d: not true: %s [%s]\n", file, line, what, kl_test_text);
    _fail(file, line);
}

/* |seen - wanted| <= allowed, absolute. */
#define expect_near(seen, wanted, allowed) \
    kl_test_near(#seen, (seen), (wanted), (allowed), __FILE__, __LINE__)
/* Integers. */
#define expect_eq(seen, wanted) kl_test_equal(#seen, (int64_t)(seen), (int64_t)(wanted), __FILE__, __LINE__)
#define expect_true(condition) kl_test_true(#condition, (condition) != 0, __FILE__, __LINE__)
/* A call that must succeed, with a kl_err of this name in sight. */
#define expect_ok(call, err) kl_test_ok(#call, (call), &(err), __FILE__, __LINE__)
/* A call that must fail with this status and a message that holds this text. */
#define expect_refused(call, status, err, part)                              \
    do {                                                                     \
        (err).text[0] = '\0';                                                \
        expect_eq((call), (status));                                         \
        if (strstr((err).text, (part)) == NULL) {                            \
            print_error("message without \"%s\": %s\n", (part), (err).text); \
            _fail(__FILE__, __LINE__);                                       \
        }                                                                    \
    } while (0)

/* The same numbers on every machine. */
static inline uint64_t kl_test_bits(uint64_t *state) { return kl_random_next(state); }
static inline double kl_test_uniform(uint64_t *state) { return kl_random_uniform(state); } /* in (-1, 1) */

/* n doubles between two rows of guard words; the array itself filled with NaN, so that what is read before it
   is written shows. */
enum { KL_TEST_GUARD = 8 };
#define KL_TEST_GUARD_WORD 1.2345678901234567e+123

__attribute__((unused)) static double *kl_test_guarded(int64_t n)
{
    double *const all = malloc((size_t)(n + 2 * KL_TEST_GUARD) * sizeof(double));
    assert_non_null(all);
    for (int64_t i = 0; i < n + 2 * KL_TEST_GUARD; i++)
        all[i] = i < KL_TEST_GUARD || i >= n + KL_TEST_GUARD ? KL_TEST_GUARD_WORD : (double)NAN;
    return all + KL_TEST_GUARD;
}

__attribute__((unused)) static void kl_test_guards_hold(const double *p, int64_t n)
{
    for (int i = 0; i < KL_TEST_GUARD; i++) {
        expect_true(p[-1 - i] == KL_TEST_GUARD_WORD);
        expect_true(p[n + i] == KL_TEST_GUARD_WORD);
    }
}

__attribute__((unused)) static void kl_test_free(double *p)
{
    if (p != NULL) free(p - KL_TEST_GUARD);
}

/* A solver's monitor that asks it to stop at one look. */
typedef struct kl_test_looker {
    int look, stop_at;
} kl_test_looker;

__attribute__((unused)) static int kl_test_stop_at_look(void *self, int napply, double energy,
                                                        double residual)
{
    kl_test_looker *const l = self;
    (void)napply, (void)energy, (void)residual;
    return ++l->look == l->stop_at;
}

#endif
