/* The small block of a configuration interaction. See pspace.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/pspace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dense.h"
#include "base/mem.h"
#include "ci/slater.h"

static void block_apply(const kl_precond *p, double theta, double floor, kl_dptr r, kl_dptr t)
{
    const kl_pspace *const b = p->self;
    kl_err ignored;
    b->ex->vt.precondition(b->ex, b->n, b->diagonal, theta, floor, r, t);
    for (int k = 0; k < b->nrun; k++)
        if (b->ex->vt.download(b->ex, b->in + b->run[k].first, kl_dptr_at(r, b->run[k].at), b->run[k].n,
                               &ignored) != KL_OK)
            return;
    for (int j = 0; j < b->size; j++) {
        double sum = 0;
        for (int i = 0; i < b->size; i++) sum += b->vector[i + j * b->size] * b->in[i];
        const double gap = b->energy[j] - theta;
        b->mid[j] = sum / copysign(fmax(fabs(gap), floor), gap);
    }
    memset(b->in, 0, (size_t)b->size * sizeof(double));
    for (int j = 0; j < b->size; j++)
        for (int i = 0; i < b->size; i++) b->in[i] += b->vector[i + j * b->size] * b->mid[j];
    for (int k = 0; k < b->nrun; k++)
        if (b->ex->vt.upload(b->ex, kl_dptr_at(t, b->run[k].at), b->in + b->run[k].first, b->run[k].n,
                             &ignored) != KL_OK)
            return;
}

typedef struct low_det {
    double e;
    int64_t at;
} low_det;

static int by_energy(const void *x, const void *y)
{
    const low_det *const a = x, *const b = y;
    if (a->e != b->e) return a->e < b->e ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

/* Open shells of a determinant whose partners are looked for: 2^12 subsets. */
enum { MOST_OPEN = 12 };

/* The lowest of d, at most `want` and without cutting a group of equal ones; by energy. */
static kl_status lowest_dets(int64_t n, const double *d, int want, low_det **out, int *size, kl_err *err)
{
    kl_status st = KL_OK;
    const int room = (int)(n < want + 1 ? n : want + 1);
    low_det *heap = NULL; /* largest on top */
    int have = 0;
    KL_TRY(kl_alloc(&heap, room, KL_MEM_WORK, err));
    for (int64_t i = 0; i < n; i++) {
        low_det x = {d[i], i};
        if (have == room && x.e >= heap[0].e) continue;
        int k;
        if (have < room) {
            for (k = have++; k > 0 && by_energy(&heap[(k - 1) / 2], &x) < 0; k = (k - 1) / 2)
                heap[k] = heap[(k - 1) / 2];
        } else {
            for (k = 0;;) {
                int child = 2 * k + 1;
                if (child >= room) break;
                if (child + 1 < room && by_energy(&heap[child], &heap[child + 1]) < 0) child++;
                if (by_energy(&heap[child], &x) <= 0) break;
                heap[k] = heap[child];
                k = child;
            }
        }
        heap[k] = x;
    }
    qsort(heap, (size_t)have, sizeof(*heap), by_energy);
    if (have > want) {
        int cut = want;
        while (cut > want / 2 && heap[cut].e - heap[cut - 1].e < 1e-9) cut--;
        have = cut > want / 2 ? cut : want;
    }
    *out = heap;
    *size = have;
    return KL_OK;
out:
    kl_free(&heap);
    return st;
}

static int has(const int64_t *sorted, int n, int64_t at)
{
    int low = 0, high = n;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (sorted[middle] < at) low = middle + 1;
        else high = middle;
    }
    return low < n && sorted[low] == at;
}

static void insert(int64_t *sorted, int *n, int64_t at)
{
    int k = (*n)++;
    for (; k > 0 && sorted[k - 1] > at; k--) sorted[k] = sorted[k - 1];
    sorted[k] = at;
}

/* Positions of all determinants of the space that differ from (a, b) in the spins of its open shells alone;
   at most `room` of them, else 0. */
static int partners(const kl_detspace *s, uint64_t a, uint64_t b, int room, int64_t *at)
{
    const uint64_t open = a ^ b, both = a & b;
    const int up = __builtin_popcountll(a & ~b);
    uint64_t spin = 0;
    int n = 0;
    if (__builtin_popcountll(open) > MOST_OPEN) return 0;
    do { /* all subsets of the open shells */
        if (__builtin_popcountll(spin) == up) {
            const int64_t found = kl_detspace_find(s, both | spin, both | (open & ~spin));
            if (found >= 0 && n == room) return 0;
            if (found >= 0) at[n++] = found;
        }
        spin = (spin - open) & open;
    } while (spin != 0);
    return n;
}

/* The lowest determinants and their partners in spin, ascending. Where no partner is missing H and S^2 of the
   block commute, and its eigenvectors have a spin. One whose partners do not fit in is left
   out of a block that is half full, and stands alone in an emptier one: a low determinant is worth more than
   a spin. */
static kl_status with_partners(const kl_detspace *s, const low_det *low, int nlow, int64_t **out, int *size,
                               kl_err *err)
{
    kl_status st = KL_OK;
    int64_t *sorted = NULL, *group = NULL;
    int n = 0;
    KL_TRY(kl_alloc(&sorted, nlow, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&group, nlow, KL_MEM_WORK, err));
    for (int i = 0; i < nlow; i++) {
        int64_t ia, ib;
        if (has(sorted, n, low[i].at)) continue;
        kl_detspace_at(s, low[i].at, &ia, &ib);
        const int m = partners(s, s->a->bits[ia], s->b->bits[ib], nlow - n, group);
        for (int k = 0; k < m; k++)
            if (!has(sorted, n, group[k])) insert(sorted, &n, group[k]);
        if (m == 0 && n < (nlow + 1) / 2) insert(sorted, &n, low[i].at);
    }
    *out = sorted;
    *size = n;
    sorted = NULL;
out:
    kl_free(&sorted);
    kl_free(&group);
    return st;
}

kl_status kl_pspace_make(kl_pspace *b, const kl_fcidump *g, const kl_detspace *s, kl_exec *ex,
                         kl_dptr diagonal, const double *d, int want, kl_err *err)
{
    kl_status st = KL_OK;
    low_det *low = NULL;
    int64_t *at = NULL;
    int nlow;
    uint64_t (*bits)[2] = NULL;
    KL_TRY(lowest_dets(s->n, d, want, &low, &nlow, err));
    KL_TRY(with_partners(s, low, nlow, &at, &b->size, err));
    const int n = b->size;
    b->ex = ex;
    b->n = s->n;
    b->diagonal = diagonal;
    b->precond = (kl_precond){b, block_apply};
    KL_TRY(kl_alloc(&bits, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&b->run, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&b->vector, (int64_t)n * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&b->energy, 3 * (int64_t)n, KL_MEM_WORK, err));
    b->in = b->energy + n;
    b->mid = b->in + n;
    for (int i = 0; i < n; i++) {
        int64_t ia, ib;
        kl_detspace_at(s, at[i], &ia, &ib);
        bits[i][0] = s->a->bits[ia];
        bits[i][1] = s->b->bits[ib];
        if (b->nrun > 0 && at[i] == b->run[b->nrun - 1].at + b->run[b->nrun - 1].n) b->run[b->nrun - 1].n++;
        else b->run[b->nrun++] = (kl_pspace_run){at[i], i, 1};
        for (int j = 0; j <= i; j++)
            b->vector[i + j * n] = kl_slater_element(g, bits[i][0], bits[i][1], bits[j][0], bits[j][1]);
    }
    KL_TRY(kl_dense_eig(n, b->vector, n, b->energy, err));
out:
    kl_free(&low);
    kl_free(&at);
    kl_free(&bits);
    return st;
}

void kl_pspace_clear(kl_pspace *b)
{
    kl_free(&b->run);
    kl_free(&b->vector);
    kl_free(&b->energy);
}
