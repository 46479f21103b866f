/* H v by rows in any space of determinants, with elements that are made as they are needed, as kernels do it:
   tables, and the loops of both kernels, once for CUDA and for OpenMP regions. devrows.c makes the tables,
   rowsigma.h has the same product on the host.

   The determinants with one alpha string are a row, by ascending beta string, and x is first put in the order
   of rows. Then a thread makes an element of y, over the strings that its own two are connected with, in
   their order: no two threads write the same number, and bits do not depend on how many there are. Where a
   string's determinant stands in a row is looked up: rows with the same beta strings, of which a space cut by
   levels has few kinds, share a table of places; of spaces with many kinds a row is searched by halves.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DETS_H
#define KL_DETS_H
#include <stdint.h>
#include "base/dev.h"

/* How many pairs of strings are compared in the time of one listed move that is looked up. */
enum { KL_DETS_PAIRS = 4 };

/* An electron goes from orbital p to q (kl_move of determinant.h). */
typedef struct kl_dets_move {
    double single; /* the element of the string alone */
    int32_t to, pair; /* pair: kl_pair(p, q), or ~ of it where the sign is -1 */
} kl_dets_move;

typedef struct kl_dets_two {
    double value;
    int64_t to;
} kl_dets_two;

/* Strings of one spin. */
typedef struct kl_dets_strings {
    const uint64_t *bits; /* [n] */
    const uint8_t *irrep; /* [n] */
    const int64_t *move_to; /* [nirrep n + 1] moves of string i to irrep g: from move_to[nirrep i + g] */
    const kl_dets_move *move;
    const int64_t *two_off; /* [n + 1] */
    const kl_dets_two *two; /* double excitations, by ascending string */
} kl_dets_strings;

/* Two copies, both with device addresses: one on the host, one on the device at `self`. */
typedef struct kl_dets kl_dets;
struct kl_dets {
    int64_t n, nrow; /* determinants, and elements of y that are made */
    int64_t nbeta;
    int32_t nirrep, target, npair, nkind; /* nkind 0: rows are searched */
    const int64_t *row_off; /* [alpha strings + 1] */
    const int32_t *beta; /* [n] by rows */
    const int32_t *position; /* [n] in a vector; NULL: rows stand there as they are */
    const int32_t *alpha; /* [nrow] the row of each element that is made */
    const int32_t *made; /* [nrow] its number in the order of rows; NULL: all are made */
    const int32_t *kind; /* [alpha strings] */
    const int32_t *place; /* [nkind][nbeta] place in the row, -1: none */
    const double *diagonal; /* [n] by rows */
    const double *v; /* [npair][npair] integrals, alpha pair and beta pair */
    kl_dets_strings a, b;
    double *x; /* [n] by rows */
    const kl_dets *self;
};

/* As kl_pair of fcidump.h. */
KL_DEV int kl_dets_pair(int p, int q) { return p > q ? p * (p + 1) / 2 + q : q * (q + 1) / 2 + p; }

/* The number of the lowest bit that is set. */
KL_DEV int kl_dets_low(uint64_t x)
{
#ifdef __CUDACC__
    return __ffsll((long long)x) - 1;
#else
    return __builtin_ctzll(x);
#endif
}

/* How many bits are set. */
KL_DEV int kl_dets_count(uint64_t x)
{
#ifdef __CUDACC__
    return __popcll(x);
#else
    return __builtin_popcountll(x);
#endif
}

/* x of element t in the order of rows. */
KL_DEV void kl_dets_gather(const kl_dets *d, int64_t t, const double *x)
{
    d->x[t] = x[d->position ? d->position[t] : t];
}

/* Where the determinant of row ja and beta string jb stands in the order of rows; -1: nowhere. */
KL_DEV int64_t kl_dets_find(const kl_dets *d, int64_t ja, int64_t jb)
{
    int64_t low = d->row_off[ja], high = d->row_off[ja + 1];
    const int64_t end = high;
    if (d->nkind > 0) {
        const int32_t at = d->place[d->kind[ja] * d->nbeta + jb];
        return at < 0 ? -1 : low + at;
    }
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (d->beta[middle] < jb) low = middle + 1;
        else high = middle;
    }
    return low < end && d->beta[low] == jb ? low : -1;
}

/* sum over the orbitals of `bits` of v[pair(o, o)] */
KL_DEV double kl_dets_repulsion(const double *v, uint64_t bits)
{
    double e = 0;
    for (uint64_t o = bits; o != 0; o &= o - 1) {
        const int p = kl_dets_low(o);
        e += v[kl_dets_pair(p, p)];
    }
    return e;
}

/* The same over v[pair(o, o)][pair]. */
KL_DEV double kl_dets_repulsion_of(const kl_dets *d, int pair, uint64_t bits)
{
    double e = 0;
    for (uint64_t o = bits; o != 0; o &= o - 1) {
        const int p = kl_dets_low(o);
        e += d->v[(int64_t)kl_dets_pair(p, p) * d->npair + pair];
    }
    return e;
}

/* A move's pair of orbitals, and its sign. */
KL_DEV int kl_dets_pair_of(const kl_dets_move *m) { return m->pair < 0 ? ~m->pair : m->pair; }
KL_DEV double kl_dets_sign_of(const kl_dets_move *m) { return m->pair < 0 ? -1.0 : 1.0; }

/* One: alpha stays, and one or two electrons of beta move. */
KL_DEV double kl_dets_beta(const kl_dets *d, int64_t ia, int64_t ib)
{
    const uint64_t alpha = d->a.bits[ia];
    const int64_t *const moves = d->b.move_to + d->nirrep * ib + d->b.irrep[ib];
    double e = 0;
    for (int64_t m = moves[0]; m < moves[1]; m++) {
        const kl_dets_move *const v = d->b.move + m;
        const int64_t at = kl_dets_find(d, ia, v->to);
        if (at >= 0)
            e += (v->single + kl_dets_sign_of(v) * kl_dets_repulsion_of(d, kl_dets_pair_of(v), alpha)) *
                 d->x[at];
    }
    for (int64_t k = d->b.two_off[ib]; k < d->b.two_off[ib + 1]; k++) {
        const int64_t at = kl_dets_find(d, ia, d->b.two[k].to);
        if (at >= 0) e += d->b.two[k].value * d->x[at];
    }
    return e;
}

/* Two: alpha moves to ja by u, and an electron of beta moves or none does. */
KL_DEV double kl_dets_both(const kl_dets *d, int64_t ia, int64_t ib, const kl_dets_move *u)
{
    const int64_t ja = u->to, row = d->row_off[ja], length = d->row_off[ja + 1] - row;
    const int64_t *const moves = d->b.move_to + d->nirrep * ib + (d->a.irrep[ja] ^ d->target);
    const double *const v = d->v + (int64_t)kl_dets_pair_of(u) * d->npair;
    const uint64_t bits = d->b.bits[ib];
    const double sign = kl_dets_sign_of(u);
    int64_t same = -1;
    double e = 0;
    if (length == 0) return 0;
    if (length < KL_DETS_PAIRS * (moves[1] - moves[0])) {
        for (int64_t j = row; j < row + length; j++) {
            const uint64_t other = d->b.bits[d->beta[j]], apart = bits ^ other;
            const int many = kl_dets_count(apart);
            if (many == 0) same = j;
            if (many != 2) continue;
            const int p = kl_dets_low(apart & bits), q = kl_dets_low(apart & other), low = p < q ? p : q,
                      high = p < q ? q : p;
            const uint64_t between = (((uint64_t)1 << high) - 1) & ~(((uint64_t)2 << low) - 1);
            const double x = kl_dets_count(bits & between) % 2 ? -d->x[j] : d->x[j];
            e += v[kl_dets_pair(p, q)] * x;
        }
    } else {
        for (int64_t m = moves[0]; m < moves[1]; m++) {
            const kl_dets_move *const w = d->b.move + m;
            const int64_t at = kl_dets_find(d, ja, w->to);
            if (at >= 0) e += v[kl_dets_pair_of(w)] * (kl_dets_sign_of(w) * d->x[at]);
        }
        if (d->a.irrep[ja] == d->a.irrep[ia]) same = kl_dets_find(d, ja, ib);
    }
    e *= sign;
    if (same >= 0) e += (u->single + sign * kl_dets_repulsion(v, bits)) * d->x[same];
    return e;
}

/* Element t of those that are made. */
KL_DEV void kl_dets_row(const kl_dets *d, int64_t t, double *y)
{
    const int64_t k = d->made ? d->made[t] : t, ia = d->alpha[t], ib = d->beta[k];
    double e = d->diagonal[k] * d->x[k] + kl_dets_beta(d, ia, ib);
    for (int64_t m = d->a.move_to[d->nirrep * ia]; m < d->a.move_to[d->nirrep * (ia + 1)]; m++)
        e += kl_dets_both(d, ia, ib, d->a.move + m);
    /* three: two electrons of alpha move */
    for (int64_t j = d->a.two_off[ia]; j < d->a.two_off[ia + 1]; j++) {
        const int64_t at = kl_dets_find(d, d->a.two[j].to, ib);
        if (at >= 0) e += d->a.two[j].value * d->x[at];
    }
    y[d->position ? d->position[k] : k] = e;
}

#endif
