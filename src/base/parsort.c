/* Pieces sorted side by side and merged in pairs: see parsort.h.
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
