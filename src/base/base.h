/* Status, error message and checked size arithmetic: what every other file needs and nothing more.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BASE_H
#define KL_BASE_H
#include <stdint.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 0: done. Positive: nothing was changed, mend the cause and call again. Negative: the object may only be
   destroyed. */
typedef enum kl_status {
    KL_OK = 0,
    /* the user's input is wrong; the message says what, the value seen, what is allowed and where */
    KL_EINPUT = 1,
    KL_ENOMEM = 2,   /* an allocation failed */
    KL_EIO = 3,      /* a file could not be read or written */
    KL_ENOCONV = 4,  /* an iteration stopped above its tolerance */
    KL_EABSENT = 5,  /* not built in, or the device is not there */
    KL_EBROKEN = -1, /* an object is left unusable */
} kl_status;

typedef struct kl_err {
    char text[1024]; /* one line, no newline at its end */
} kl_err;

#if defined(__GNUC__)
#define KL_MUST_CHECK __attribute__((warn_unused_result))
#define KL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define KL_MUST_CHECK
#define KL_PRINTF(fmt, args)
#endif

/* Writes the message (err may be NULL) and returns st, so that `return kl_fail(err, KL_EINPUT, "...")` reads
   well. */
kl_status kl_fail(kl_err *err, kl_status st, const char *fmt, ...) KL_PRINTF(3, 4);

/* How a message names a value that need not be finite: kl_said(x).text in six digits, "not a number",
   "infinite" or "minus infinite". */
typedef struct kl_saying {
    char text[32];
} kl_saying;
kl_saying kl_said(double x);

/* Runs a call; on failure leaves through the label `out` with its status in `st`. Hides the goto and nothing
   else. */
#define KL_TRY(call)               \
    do {                           \
        st = (call);               \
        if (st != KL_OK) goto out; \
    } while (0)

/* *out = a * b, or 0 when it does not fit; a, b >= 0. */
int kl_mul_size(int64_t a, int64_t b, int64_t *out);

/* Greatest common divisor, not negative; that of 0 and b is |b|. */
int64_t kl_gcd(int64_t a, int64_t b);

/* A hash h of some words, and one word more; for fingerprints and checksums, begun with KL_HASH_EMPTY. */
#define KL_HASH_EMPTY UINT64_C(0xcbf29ce484222325)
static inline uint64_t kl_hash_mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 29);
}

/* Candidate nearest to `word` by edit distance, NULL when none is near: for "did you mean". list ends in
   NULL. */
const char *kl_closest(const char *word, const char *const *list);

/* Who is asked whether to stop: asked(self) is nonzero when the caller wants an end. asked NULL: nobody. */
typedef struct kl_interrupt {
    int (*asked)(void *self);
    void *self;
} kl_interrupt;

/* Long waits (files, Lua) and runs on this thread ask `whom` from now on; returns who was asked before, to be
   set again. The library catches no signals. */
kl_interrupt kl_on_interrupt(kl_interrupt whom);
/* The answer of whom this thread asks; 0 where nobody is. */
int kl_interrupted(void);

/* What numbers of about this size are counted in while one computes with them, so that no square of theirs
   overflows or vanishes: 1 for sizes from 2^-usual to 2^usual, else a power of two, which changes no
   digit. */
double kl_unit_of(double size, int usual);
enum { KL_USUAL = 128 }; /* sixth powers, and the rounding of squares, are still numbers */
/* bound * unit for an error bound >= 0: not 0 unless bound is, even where the product is too small for a
   number. */
double kl_bound_in(double bound, double unit);

/* Reads all of text as a number in the C locale, whatever the process set; accepts "1/2". Returns 1 on
   success. */
int kl_parse_double(const char *text, double *out);
int kl_parse_int(const char *text, int64_t *out);

#ifdef __cplusplus
}
#endif
#endif
