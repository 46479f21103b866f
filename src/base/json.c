/* JSON writer. Does not parse and does not buffer: what is written is out.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <assert.h>
#include <math.h>

kl_json kl_json_begin(FILE *to)
{
    kl_json j = {to, 0, {0}};
    return j;
}

/* Bytes of the UTF-8 sequence at p, 0 when it is malformed, overlong or a surrogate. */
static int utf8_length(const unsigned char *p)
{
    if (p[0] < 0x80) return 1;
    const int n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc2 ? 2 : 0;
    if (n == 0 || p[0] > 0xf4) return 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

static void quoted(kl_json *j, const char *text)
{
    fputc('"', j->to);
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0';) {
        const int n = utf8_length(p);
        if (n == 0) {
            fputs("\\ufffd", j->to);
            p++;
            continue;
        }
        if (*p == '"' || *p == '\\') fprintf(j->to, "\\%c", *p);
        else if (*p == '\n') fputs("\\n", j->to);
        else if (*p == '\t') fputs("\\t", j->to);
        else if (*p < 0x20 || *p == 0x7f) fprintf(j->to, "\\u%04x", *p);
        else fwrite(p, 1, (size_t)n, j->to);
        p += n;
    }
    fputc('"', j->to);
}

static void lead(kl_json *j, const char *key)
{
    if (j->depth > 0) {
        if (j->filled[j->depth - 1]) fputc(',', j->to);
        j->filled[j->depth - 1] = 1;
        if (key != NULL) fprintf(j->to, "\n%*s", 2 * j->depth, "");
    }
    if (key != NULL) {
        quoted(j, key);
        fputs(": ", j->to);
    }
}

void kl_json_open(kl_json *j, const char *key, char bracket)
{
    assert(j->depth < KL_JSON_DEPTH);
    lead(j, key);
    fputc(bracket, j->to);
    j->filled[j->depth++] = 0;
}

void kl_json_close(kl_json *j, char bracket)
{
    assert(j->depth > 0);
    j->depth--;
    if (bracket == '}' && j->filled[j->depth]) fprintf(j->to, "\n%*s", 2 * j->depth, "");
    fputc(bracket, j->to);
}

void kl_json_end(kl_json *j)
{
    assert(j->depth == 0);
    fputc('\n', j->to);
}

void kl_json_text(kl_json *j, const char *key, const char *text)
{
    lead(j, key);
    if (text == NULL) fputs("null", j->to);
    else quoted(j, text);
}

void kl_json_real(kl_json *j, const char *key, double x)
{
    lead(j, key);
    if (isfinite(x)) fprintf(j->to, "%.17g", x);
    else fputs("null", j->to);
}

void kl_json_int(kl_json *j, const char *key, int64_t x)
{
    lead(j, key);
    fprintf(j->to, "%lld", (long long)x);
}

void kl_json_bool(kl_json *j, const char *key, int x)
{
    lead(j, key);
    fputs(x ? "true" : "false", j->to);
}

void kl_json_reals(kl_json *j, const char *key, int64_t n, const double *x)
{
    kl_json_open(j, key, '[');
    for (int64_t i = 0; i < n; i++) kl_json_real(j, NULL, x[i]);
    kl_json_close(j, ']');
}
