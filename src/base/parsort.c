/* Pieces sorted side by side and merged in pairs, and numbers by their digits: see parsort.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/parsort.h"
#include "base/mem.h"
#include "base/par.h"
#include <stdlib.h>
#include <string.h>

enum {
    PIECES = 8,   /* a power of two */
    WORTH = 1024, /* elements from which threads are woken */
};

typedef struct sorting {
    char *from, *to;
    int64_t n;
    size_t size;
    int (*compare)(const void *, const void *);
    int npiece; /* in `from`, sorted */
} sorting;

static int64_t start(const sorting *s, int64_t piece) { return s->n * piece / s->npiece; }

static void sort_task(void *self, int64_t piece, int thread)
{
    const sorting *const s = self;
    const int64_t from = start(s, piece), n = start(s, piece + 1) - from;
    (void)thread;
    qsort(s->from + (size_t)from * s->size, (size_t)n, s->size, s->compare);
}

static void merge_task(void *self, int64_t pair, int thread)
{
    const sorting *const s = self;
    const size_t size = s->size;
    const char *a = s->from + (size_t)start(s, 2 * pair) * size,
               *b = s->from + (size_t)start(s, 2 * pair + 1) * size;
    const char *const a_end = b, *const b_end = s->from + (size_t)start(s, 2 * pair + 2) * size;
    char *to = s->to + (a - s->from);
    (void)thread;
    while (a < a_end && b < b_end) {
        const int first = s->compare(a, b) <= 0;
        memcpy(to, first ? a : b, size);
        to += size;
        *(first ? &a : &b) += size;
    }
    memcpy(to, a, (size_t)(a_end - a));
    memcpy(to + (a_end - a), b, (size_t)(b_end - b));
}

/* Lists often come in order already, and sorting those takes as long as any. */
static int is_sorted(const char *base, int64_t n, size_t size, int (*compare)(const void *, const void *))
{
    for (int64_t i = 1; i < n; i++, base += size)
        if (compare(base, base + size) > 0) return 0;
    return 1;
}

void kl_par_sort(int nthread, void *base, int64_t n, size_t size, int (*compare)(const void *, const void *))
{
    char *other = NULL;
    kl_err ignored;
    if (is_sorted(base, n, size, compare)) return;
    if (nthread <= 1 || n < WORTH || kl_realloc(&other, n * (int64_t)size, KL_MEM_WORK, &ignored) != KL_OK) {
        if (n > 1) qsort(base, (size_t)n, size, compare);
        return;
    }
    sorting s = {base, other, n, size, compare, PIECES};
    kl_par_for(nthread, PIECES, sort_task, &s);
    for (; s.npiece > 1; s.npiece /= 2) {
        kl_par_for(nthread, s.npiece / 2, merge_task, &s);
        char *const was = s.from;
        s.from = s.to;
        s.to = was;
    }
    if (s.from != base) memcpy(base, s.from, (size_t)n * size);
    kl_free(&other);
}

enum {
    DIGITS = 8, /* bytes of a number, */
    VALUES = 256, /* each with so many values */
    FEW = 64, /* elements that are put in their place one by one */
};

/* Bits that rise in the order that is wanted, and where the element is. */
typedef struct key {
    uint64_t bits;
    int64_t nth;
} key;

/* key[n] in order, other[n] being room; returns which of the two they end in. */
static key *by_digits(int64_t n, key *keys, key *other)
{
    int64_t count[DIGITS][VALUES] = {{0}};
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < DIGITS; d++) count[d][keys[i].bits >> 8 * d & (VALUES - 1)]++;
    for (int d = 0; d < DIGITS; d++) {
        int64_t at = 0, *const from = count[d];
        if (from[keys[0].bits >> 8 * d & (VALUES - 1)] == n) continue; /* they all have this one */
        for (int v = 0; v < VALUES; v++) {
            const int64_t here = from[v];
            from[v] = at;
            at += here;
        }
        for (int64_t i = 0; i < n; i++) other[from[keys[i].bits >> 8 * d & (VALUES - 1)]++] = keys[i];
        key *const was = keys;
        keys = other;
        other = was;
    }
    return keys;
}

static void one_by_one(int64_t n, key *keys)
{
    for (int64_t i = 1; i < n; i++) {
        const key k = keys[i];
        int64_t to = i;
        for (; to > 0 && keys[to - 1].bits > k.bits; to--) keys[to] = keys[to - 1];
        keys[to] = k;
    }
}

/* The bits of numbers that are not negative rise as these do. */
static uint64_t bits_of(const char *number, uint64_t turned)
{
    uint64_t bits;
    memcpy(&bits, number, sizeof bits);
    return bits ^ turned;
}

static kl_status sort_numbers(void *base, int64_t n, size_t size, size_t at, uint64_t turned, kl_err *err)
{
    kl_status st = KL_OK;
    key *keys = NULL;
    char *sorted = NULL;
    const char *const number = (const char *)base + at;
    int64_t i = 1;
    while (i < n &&
           bits_of(number + (size_t)(i - 1) * size, turned) <= bits_of(number + (size_t)i * size, turned))
        i++;
    if (i >= n) return KL_OK;
    KL_TRY(kl_realloc(&keys, 2 * n, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&sorted, n * (int64_t)size, KL_MEM_WORK, err));
    for (i = 0; i < n; i++) keys[i] = (key){bits_of(number + (size_t)i * size, turned), i};
    if (n < FEW) one_by_one(n, keys);
    const key *const in_order = n < FEW ? keys : by_digits(n, keys, keys + n);
    for (i = 0; i < n; i++)
        memcpy(sorted + (size_t)i * size, (const char *)base + (size_t)in_order[i].nth * size, size);
    memcpy(base, sorted, (size_t)n * size);
out:
    kl_free(&keys);
    kl_free(&sorted);
    return st;
}

kl_status kl_sort_falling(void *base, int64_t n, size_t size, size_t at, kl_err *err)
{
    return sort_numbers(base, n, size, at, UINT64_MAX, err);
}

kl_status kl_sort_rising(void *base, int64_t n, size_t size, size_t at, kl_err *err)
{
    return sort_numbers(base, n, size, at, 0, err);
}
