/* The order of a molecule's orbitals along the sites: orbitals that exchange much should be neighbours
   (Olivares-Amaya et al., J. Chem. Phys. 142 (2015) 034102).
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dense.h"
#include "base/mem.h"
#include "base/random.h"
#include "chem/molecule.h"

typedef struct ranked {
    double value;
    int orbital;
} ranked;

static int by_value(const void *pa, const void *pb)
{
    const ranked *const a = pa, *const b = pb;
    if (a->value != b->value) return a->value < b->value ? -1 : 1;
    return a->orbital - b->orbital;
}

/* (pq|pq), of both spins together where they differ. */
static double exchange(const kl_fcidump *f, int p, int q)
{
    const int64_t at = kl_pair(p, q) * f->npair + kl_pair(p, q);
    return (fabs(f->eri[0][at]) + fabs(f->eri[1][at])) / 2;
}

/* Orders the orbitals of one group, orbital[n], by the second eigenvector of its Laplacian. Its sign is
   chosen so that the group's first orbital is on its negative side. */
static kl_status order_group(const kl_fcidump *f, int n, int *orbital, kl_err *err)
{
    kl_status st = KL_OK;
    double *lap = NULL, *w = NULL;
    ranked *rank = NULL;
    if (n <= 2) return KL_OK;
    KL_TRY(kl_alloc(&lap, (int64_t)n * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&w, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&rank, n, KL_MEM_WORK, err));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) {
            const double x = exchange(f, orbital[i], orbital[j]);
            lap[(int64_t)i * n + i] += x;
            lap[(int64_t)j * n + j] += x;
            lap[(int64_t)i * n + j] -= x;
            lap[(int64_t)j * n + i] -= x;
        }
    KL_TRY(kl_dense_eig(n, lap, n, w, err));
    const double *const second = lap + n;
    const double sign = second[0] > 0 ? -1 : 1;
    for (int k = 0; k < n; k++) rank[k] = (ranked){sign * second[k], orbital[k]};
    qsort(rank, (size_t)n, sizeof *rank, by_value);
    for (int k = 0; k < n; k++) orbital[k] = rank[k].orbital;
out:
    kl_free(&lap);
    kl_free(&w);
    kl_free(&rank);
    return st;
}

/* Groups of orbitals that exchange integrals join, in the order of their first orbitals. */
static kl_status fiedler(const kl_fcidump *f, int *order, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = f->norb;
    char *seen = NULL;
    double most = 0;
    int done = 0;
    KL_TRY(kl_alloc(&seen, n, KL_MEM_WORK, err));
    for (int p = 0; p < n; p++)
        for (int q = 0; q < p; q++) most = fmax(most, exchange(f, p, q));
    for (int first = 0; first < n; first++) {
        if (seen[first]) continue;
        const int from = done;
        order[done++] = first;
        seen[first] = 1;
        for (int k = from; k < done; k++)
            for (int q = 0; q < n; q++) {
                if (seen[q] || !(exchange(f, order[k], q) > 1e-12 * most)) continue;
                seen[q] = 1;
                order[done++] = q;
            }
        KL_TRY(order_group(f, done - from, order + from, err));
    }
out:
    kl_free(&seen);
    return st;
}

/* The orbital that users know by this number; -1: there is none. */
static int numbered(const kl_fcidump *f, const int *number, int64_t n)
{
    for (int p = 0; p < f->norb; p++)
        if (n == (number != NULL ? number[p] : p + 1)) return p;
    return -1;
}

static kl_status listed(const kl_fcidump *f, const int *number, const char *how, int *order, kl_err *err)
{
    kl_status st = KL_OK;
    char *seen = NULL;
    int n = 0;
    KL_TRY(kl_alloc(&seen, f->norb, KL_MEM_WORK, err));
    for (const char *p = how;; p++) {
        char word[24] = "";
        int64_t orbital = 0;
        const size_t length = strcspn(p, ",");
        if (length < sizeof word) memcpy(word, p, length);
        const int at = kl_parse_int(word, &orbital) ? numbered(f, number, orbital) : -1;
        if (at < 0)
            KL_TRY(
                kl_fail(err, KL_EINPUT,
                        "'%.40s' at place %d is no orbital of the run; allowed: fiedler, genetic, "
                        "canonical, or a list of all its %d orbitals as the file numbers them, from %d to %d",
                        p, n + 1, f->norb, number != NULL ? number[0] : 1,
                        number != NULL ? number[f->norb - 1] : f->norb));
        if (seen[at]) KL_TRY(kl_fail(err, KL_EINPUT, "orbital %d stands there twice", (int)orbital));
        seen[at] = 1;
        order[n++] = at;
        p += length;
        if (*p == '\0') break;
    }
    if (n < f->norb) KL_TRY(kl_fail(err, KL_EINPUT, "%d orbitals are listed; the run has %d", n, f->norb));
out:
    kl_free(&seen);
    return st;
}

/* ---------------------------------------------------------------- genetic */

enum { PARENTS = 32, GENERATIONS = 400 };

/* How much the orbitals exchange, times the square of how far they lie apart. */
static double cost_of(int n, const double *exchanged, const int *order)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) sum += exchanged[order[i] * (int64_t)n + order[j]] * (i - j) * (i - j);
    return sum;
}

static int below(uint64_t *seed, int n) { return (int)(kl_random_next(seed) % (uint64_t)n); }

/* A stretch of one parent where it was, the others in the order of the second one; then a stretch is
   reversed, or an orbital moved. */
static void breed(int n, const int *a, const int *b, int *child, uint64_t *seed)
{
    int from = below(seed, n), to = below(seed, n);
    if (from > to) {
        const int t = from;
        from = to;
        to = t;
    }
    int at = 0;
    for (int k = 0; k < n; k++) {
        int taken = 0;
        for (int i = from; i <= to && !taken; i++) taken = a[i] == b[k];
        if (taken) continue;
        if (at == from) at = to + 1;
        child[at++] = b[k];
    }
    memcpy(child + from, a + from, (size_t)(to - from + 1) * sizeof *a);
    const int i = below(seed, n), j = below(seed, n), low = i < j ? i : j, high = i < j ? j : i;
    if (kl_random_next(seed) % 2 == 0) {
        for (int x = low, y = high; x < y; x++, y--) {
            const int t = child[x];
            child[x] = child[y];
            child[y] = t;
        }
    } else {
        const int moved = child[i];
        memmove(child + i, child + i + 1, (size_t)(n - 1 - i) * sizeof *child);
        memmove(child + j + 1, child + j, (size_t)(n - 1 - j) * sizeof *child);
        child[j] = moved;
    }
}

/* Improves an order (Olivares-Amaya et al.): of the parents and their children the better half lives on. The
   best is never lost, so that the result is no worse than what came in. */
static kl_status genetic(const kl_fcidump *f, int *order, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = f->norb;
    int *pool = NULL;
    double *exchanged = NULL;
    ranked rank[2 * PARENTS];
    int place[2 * PARENTS];
    uint64_t seed = 1;
    KL_TRY(kl_alloc(&pool, (int64_t)2 * PARENTS * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&exchanged, (int64_t)n * n, KL_MEM_WORK, err));
    for (int p = 0; p < n; p++)
        for (int q = 0; q < n; q++) exchanged[p * (int64_t)n + q] = exchange(f, p, q);
    for (int k = 0; k < 2 * PARENTS; k++) {
        place[k] = k;
        memcpy(pool + (int64_t)k * n, order, (size_t)n * sizeof *order);
    }
    for (int g = 0; g < GENERATIONS && n > 2; g++) {
        for (int k = PARENTS; k < 2 * PARENTS; k++)
            breed(n, pool + (int64_t)place[below(&seed, PARENTS)] * n,
                  pool + (int64_t)place[below(&seed, PARENTS)] * n, pool + (int64_t)place[k] * n, &seed);
        for (int k = 0; k < 2 * PARENTS; k++)
            rank[k] = (ranked){cost_of(n, exchanged, pool + (int64_t)place[k] * n), place[k]};
        qsort(rank, 2 * PARENTS, sizeof *rank, by_value);
        for (int k = 0; k < 2 * PARENTS; k++) place[k] = rank[k].orbital;
    }
    memcpy(order, pool + (int64_t)place[0] * n, (size_t)n * sizeof *order);
out:
    kl_free(&pool);
    kl_free(&exchanged);
    return st;
}

kl_status kl_orbitals_order(const kl_fcidump *f, const int *number, const char *how, int *order, kl_err *err)
{
    const int better = strcmp(how, "genetic") == 0;
    if (better || strcmp(how, "fiedler") == 0) {
        const kl_status st = fiedler(f, order, err);
        return st == KL_OK && better ? genetic(f, order, err) : st;
    }
    if (strcmp(how, "canonical") != 0) return listed(f, number, how, order, err);
    for (int p = 0; p < f->norb; p++) order[p] = p;
    return KL_OK;
}
