/* States kept by weight: see select.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/select.h"
#include "dmrg/sectorfill.h"
#include <string.h>

/* 1: a comes first. */
static int is_first(const kl_weight *a, const kl_weight *b)
{
    if (a->w != b->w) return a->w > b->w;
    return a->sec != b->sec ? a->sec < b->sec : a->column > b->column;
}

/* The end of what is in order from `from` on. */
static int64_t run_end(kl_weight *const *w, int64_t from, int64_t n)
{
    while (from + 1 < n && is_first(w[from], w[from + 1])) from++;
    return from < n ? from + 1 : n;
}

static void merge(kl_weight *const *a, int64_t na, kl_weight *const *b, int64_t nb, kl_weight **to)
{
    while (na > 0 && nb > 0) {
        const int first = is_first(*b, *a);
        *to++ = first ? *b : *a;
        b += first, nb -= first;
        a += !first, na -= !first;
    }
    memcpy(to, na > 0 ? a : b, (size_t)(na + nb) * sizeof *to);
}

void kl_weights_sort(int64_t n, kl_weight *w, kl_weight **sorted, kl_weight **spare)
{
    for (int64_t i = 0; i < n; i++) sorted[i] = &w[n - 1 - i]; /* sectors rise */
    while (run_end(sorted, 0, n) < n) {
        for (int64_t from = 0, end; from < n; from = end) {
            const int64_t middle = run_end(sorted, from, n);
            end = run_end(sorted, middle, n);
            merge(sorted + from, middle - from, sorted + middle, end - middle, spare + from);
        }
        memcpy(sorted, spare, (size_t)n * sizeof *sorted);
    }
}

/* How many of the largest weights stay by number and weight alone; most: the number asked for. */
static int64_t by_weight(const kl_selection *s, kl_weight *const *w, int64_t n, int64_t most)
{
    int64_t keep = n < most ? n : most;
    while (keep > 1 && w[keep - 1]->w < s->floor) keep--;
    if (s->discard > 0) {
        double tail = s->unseen;
        for (int64_t i = n - 1; i >= keep; i--) tail += w[i]->w;
        while (keep > s->nstate && keep > s->m_min && tail + w[keep - 1]->w <= s->discard)
            tail += w[--keep]->w;
    }
    return keep;
}

/* Whether weight i, behind the cut, belongs to the multiplet before it. Weights that are only nearly known
   would chain neighbours without end, were they compared one with the next. */
static int is_equal(const kl_selection *s, kl_weight *const *w, int64_t cut, int64_t i)
{
    const double exact = w[i - 1]->w * (1 - KL_EQUAL_WEIGHTS);
    return w[i]->w > exact || w[i]->w > w[cut - 1]->w * (1 - s->cluster);
}

int64_t kl_select(const kl_selection *s, kl_weight *const *w, int64_t n, int nsec, int *room)
{
    /* of each sector: states kept so far, states with weight, and states that it is filled up to */
    int *const have = room, *const there = room + nsec, *const want = room + 2 * nsec;
    const int most = s->m > s->nstate ? s->m : s->nstate; /* fewer would not hold all wavefunctions */
    int64_t keep = by_weight(s, w, n, most), lack = 0;
    memset(have, 0, (size_t)nsec * sizeof *have);
    memset(there, 0, (size_t)nsec * sizeof *there);
    for (int64_t i = 0; i < n; i++) {
        have[w[i]->sec] += i < keep;
        there[w[i]->sec] += i < keep || w[i]->w > s->floor;
    }
    /* the set that even sectors are made of shrinks until these are no more than was asked for */
    const int even = s->even && keep >= KL_FULL_FROM * (int64_t)nsec;
    for (int c = 0; even && c < nsec; c++) lack += kl_sector_even(have[c], there[c]) - have[c];
    while (even && keep > s->nstate && keep > s->m_min && keep + lack > most) {
        const int c = w[--keep]->sec;
        lack -= kl_sector_even(have[c], there[c]) - have[c];
        have[c]--;
        lack += kl_sector_even(have[c], there[c]) - have[c];
    }
    /* never cut a multiplet */
    const int64_t cut = keep;
    while (cut > 0 && keep < n && w[keep]->w > s->floor && is_equal(s, w, cut, keep)) have[w[keep++]->sec]++;
    for (int64_t i = 0; i < keep; i++) w[i]->keep = 1;
    for (int c = 0; c < nsec; c++) want[c] = even ? kl_sector_even(have[c], there[c]) : have[c];
    if (even && s->full) kl_sectors_fill(nsec, want, there, most / KL_MORE);
    int64_t total = keep;
    for (int64_t i = keep; even && i < n; i++) {
        if (have[w[i]->sec] == want[w[i]->sec]) continue;
        have[w[i]->sec]++;
        w[i]->keep = 1;
        total++;
    }
    for (int64_t i = keep; s->reopen && i < n && total < keep + 1 + s->m / 4; i++) {
        if (have[w[i]->sec] > 0 || w[i]->w <= 0) continue;
        have[w[i]->sec] = 1;
        w[i]->keep = 1;
        total++;
    }
    return total;
}
