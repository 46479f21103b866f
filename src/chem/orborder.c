/* The order of a molecule's orbitals along the sites: orbitals that exchange much should be neighbours
   (Olivares-Amaya et al., J. Chem. Phys. 142 (2015) 034102).
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dense.h"
#include "base/mem.h"
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

static kl_status listed(const kl_fcidump *f, const char *how, int *order, kl_err *err)
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
        if (!kl_parse_int(word, &orbital) || orbital < 1 || orbital > f->norb)
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "order: '%.40s' at place %d is no orbital; allowed: fiedler, canonical, or a list "
                           "of all orbitals from 1 to %d",
                           p, n + 1, f->norb));
        if (seen[orbital - 1])
            KL_TRY(kl_fail(err, KL_EINPUT, "order: orbital %d stands there twice", (int)orbital));
        seen[orbital - 1] = 1;
        order[n++] = (int)orbital - 1;
        p += length;
        if (*p == '\0') break;
    }
    if (n < f->norb)
        KL_TRY(kl_fail(err, KL_EINPUT, "order: %d orbitals are listed; the file has %d", n, f->norb));
out:
    kl_free(&seen);
    return st;
}

kl_status kl_orbitals_order(const kl_fcidump *f, const char *how, int *order, kl_err *err)
{
    if (strcmp(how, "fiedler") == 0) return fiedler(f, order, err);
    if (strcmp(how, "canonical") != 0) return listed(f, how, order, err);
    for (int p = 0; p < f->norb; p++) order[p] = p;
    return KL_OK;
}
