/* Writes one JSON document: nesting, commas, escapes and numbers that read back to the same bits. Knows
   nothing of what it writes.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_JSON_H
#define KL_JSON_H
#include <stdint.h>
#include <stdio.h>

#define KL_JSON_DEPTH 16

typedef struct kl_json {
    FILE *to;
    int depth;
    int filled[KL_JSON_DEPTH]; /* something was written at this depth */
} kl_json;

/* A document on this stream. */
kl_json kl_json_begin(FILE *to);
void kl_json_end(kl_json *j); /* everything is closed by now; ends the line */

/* key NULL: an element of an array. Every open is matched by a close. */
void kl_json_open(kl_json *j, const char *key, char bracket); /* '{' or '[' */
void kl_json_close(kl_json *j, char bracket);                 /* '}' or ']' */
/* NULL: null; bytes that are no UTF-8 become U+FFFD */
void kl_json_text(kl_json *j, const char *key, const char *text);
void kl_json_real(kl_json *j, const char *key, double x);         /* %.17g; what is not finite: null */
void kl_json_int(kl_json *j, const char *key, int64_t x);
void kl_json_bool(kl_json *j, const char *key, int x);
void kl_json_reals(kl_json *j, const char *key, int64_t n, const double *x);

#endif
