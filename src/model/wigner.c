/* Wigner's symbols by Racah's sum, its terms by their ratios and its factorials as mantissa and exponent: no
   logarithms, which would cost three digits.
   SPDX-License-Identifier: Apache-2.0 */
#include "model/wigner.h"
#include <math.h>
#include <stdint.h>

enum { NFACTORIAL = 3 * KL_WIGNER_MOST };

typedef struct factorial {
    double mantissa;
    int exponent;
} factorial;

/* A product of factorials and of their inverses, as far as it is made. */
typedef struct product {
    double mantissa;
    int exponent;
} product;

static double sign(int n) { return n % 2 == 0 ? 1.0 : -1.0; }

/* n! = mantissa * 2^exponent; a table of each thread, which grows. */
static _Thread_local factorial table[NFACTORIAL + 1];
static _Thread_local int known;

static factorial factorial_of(int n)
{
    if (known == 0) {
        table[0] = (factorial){1.0, 0};
        known = 1;
    }
    for (; known <= n && known <= NFACTORIAL; known++) {
        int shift;
        const double m = frexp(table[known - 1].mantissa * known, &shift);
        table[known] = (factorial){m, table[known - 1].exponent + shift};
    }
    return table[n <= NFACTORIAL ? n : NFACTORIAL];
}

static void times(product *p, int n)
{
    const factorial f = factorial_of(n);
    p->mantissa *= f.mantissa;
    p->exponent += f.exponent;
}

static void over(product *p, int n)
{
    const factorial f = factorial_of(n);
    p->mantissa /= f.mantissa;
    p->exponent -= f.exponent;
}

static void times_triangle(product *p, int a, int b, int c)
{
    times(p, (a + b - c) / 2);
    times(p, (a - b + c) / 2);
    times(p, (b + c - a) / 2);
    over(p, (a + b + c) / 2 + 1);
}

/* front * sqrt(square) */
static double times_root(product front, product square)
{
    int shift;
    square.mantissa = frexp(square.mantissa, &shift);
    square.exponent += shift;
    if (square.exponent % 2 != 0) {
        square.mantissa *= 2;
        square.exponent--;
    }
    return ldexp(front.mantissa * sqrt(square.mantissa), front.exponent + square.exponent / 2);
}

static int smallest(int a, int b) { return a < b ? a : b; }
static int largest(int a, int b) { return a > b ? a : b; }

double kl_wigner_6j(int a, int b, int c, int d, int e, int f)
{
    if (!kl_triangle(a, b, c) || !kl_triangle(a, e, f) || !kl_triangle(d, b, f) || !kl_triangle(d, e, c))
        return 0;
    const int low[4] = {(a + b + c) / 2, (a + e + f) / 2, (d + b + f) / 2, (d + e + c) / 2};
    const int high[3] = {(a + b + d + e) / 2, (b + c + e + f) / 2, (c + a + f + d) / 2};
    const int first = largest(largest(low[0], low[1]), largest(low[2], low[3])),
              last = smallest(smallest(high[0], high[1]), high[2]);
    double term = 1, sum = 1;
    for (int k = first; k < last; k++) {
        term *= -(k + 2.0) * (high[0] - k) * (high[1] - k) * (high[2] - k);
        term /= (k + 1.0 - low[0]) * (k + 1.0 - low[1]) * (k + 1.0 - low[2]) * (k + 1.0 - low[3]);
        sum += term;
    }
    product front = {1, 0}, square = {1, 0};
    times(&front, first + 1);
    for (int i = 0; i < 4; i++) over(&front, first - low[i]);
    for (int i = 0; i < 3; i++) over(&front, high[i] - first);
    times_triangle(&square, a, b, c);
    times_triangle(&square, a, e, f);
    times_triangle(&square, d, b, f);
    times_triangle(&square, d, e, c);
    return sign(first) * sum * times_root(front, square);
}

double kl_wigner_9j(int a, int b, int c, int d, int e, int f, int g, int h, int i)
{
    if (!kl_triangle(a, b, c) || !kl_triangle(d, e, f) || !kl_triangle(g, h, i) || !kl_triangle(a, d, g) ||
        !kl_triangle(b, e, h) || !kl_triangle(c, f, i))
        return 0;
    const int ai = a > i ? a - i : i - a, fb = f > b ? f - b : b - f, dh = d > h ? d - h : h - d;
    const int first = largest(largest(ai, fb), dh), last = smallest(smallest(a + i, f + b), d + h);
    double sum = 0;
    for (int x = first; x <= last; x += 2)
        sum += sign(x) * (x + 1) * kl_wigner_6j(a, b, c, f, i, x) * kl_wigner_6j(d, e, f, b, x, h) *
               kl_wigner_6j(g, h, i, x, a, d);
    return sum;
}

double kl_clebsch(int j1, int m1, int j2, int m2, int j, int m)
{
    if (m1 + m2 != m || !kl_triangle(j1, j2, j)) return 0;
    if (m1 > j1 || -m1 > j1 || m2 > j2 || -m2 > j2 || m > j || -m > j) return 0;
    if ((j1 + m1) % 2 != 0 || (j2 + m2) % 2 != 0) return 0;
    /* terms (-1)^k / (k! (down[0] - k)! (down[1] - k)! (down[2] - k)! (up[0] + k)! (up[1] + k)!) */
    const int down[3] = {(j1 + j2 - j) / 2, (j1 - m1) / 2, (j2 + m2) / 2},
              up[2] = {(j - j2 + m1) / 2, (j - j1 - m2) / 2};
    const int first = largest(0, largest(-up[0], -up[1])),
              last = smallest(smallest(down[0], down[1]), down[2]);
    double term = 1, sum = 1;
    for (int k = first; k < last; k++) {
        term *= -1.0 * (down[0] - k) * (down[1] - k) * (down[2] - k);
        term /= (k + 1.0) * (up[0] + k + 1.0) * (up[1] + k + 1.0);
        sum += term;
    }
    product front = {1, 0}, square = {1, 0};
    over(&front, first);
    for (int i = 0; i < 3; i++) over(&front, down[i] - first);
    for (int i = 0; i < 2; i++) over(&front, up[i] + first);
    times_triangle(&square, j1, j2, j);
    for (int way = -1; way <= 1; way += 2) {
        times(&square, (j1 + way * m1) / 2);
        times(&square, (j2 + way * m2) / 2);
        times(&square, (j + way * m) / 2);
    }
    square.mantissa *= j + 1;
    return sign(first) * sum * times_root(front, square);
}

static double couple(kl_leg a, kl_leg b, kl_leg whole)
{
    const int J = whole.from, K = whole.k, I = whole.to;
    if (b.k == 0) { /* the operator passes over the second factor */
        if (b.from != b.to || K != a.k || !kl_triangle(a.from, a.k, a.to) || !kl_triangle(J, K, I)) return 0;
        if (K == 0) return a.from == a.to && I == J;
        return sign((a.to + b.from + J + K) / 2) * sqrt((a.to + 1.0) * (J + 1.0)) *
               kl_wigner_6j(a.to, I, b.from, J, a.from, K);
    }
    if (a.k == 0) {
        if (a.from != a.to || K != b.k || !kl_triangle(b.from, b.k, b.to) || !kl_triangle(J, K, I)) return 0;
        return sign((a.from + b.from + I + K) / 2) * sqrt((b.to + 1.0) * (J + 1.0)) *
               kl_wigner_6j(b.to, I, a.from, J, b.from, K);
    }
    return sqrt((a.to + 1.0) * (b.to + 1.0) * (K + 1.0) * (J + 1.0)) *
           kl_wigner_9j(a.from, b.from, J, a.k, b.k, K, a.to, b.to, I);
}

/* The same few coefficients are asked for by every piece of every operator: those of a thread are kept, each
   under the nine numbers that it is of. */
enum {
    KEPT = 1 << 14,
    LEG_BITS = 7,
};

static uint64_t pack_leg(kl_leg x)
{
    return (uint64_t)x.from << 2 * LEG_BITS | (uint64_t)x.k << LEG_BITS | (uint64_t)x.to;
}

static int fits_leg(kl_leg x) { return ((x.from | x.k | x.to) >> LEG_BITS) == 0; }

double kl_couple(kl_leg a, kl_leg b, kl_leg whole)
{
    static _Thread_local struct {
        uint64_t key; /* 0: none */
        double value;
    } kept[KEPT];
    if (!fits_leg(a) || !fits_leg(b) || !fits_leg(whole)) return couple(a, b, whole);
    const uint64_t key = ((pack_leg(a) << 3 * LEG_BITS | pack_leg(b)) << 3 * LEG_BITS | pack_leg(whole)) + 1;
    uint64_t at = key * UINT64_C(0x9e3779b97f4a7c15);
    at = (at ^ at >> 29) >> 7 & (KEPT - 1);
    if (kept[at].key != key) {
        kept[at].value = couple(a, b, whole);
        kept[at].key = key;
    }
    return kept[at].value;
}

double kl_tilde(int to, int from, int k)
{
    return sign((from + k - to) / 2) * sqrt((from + 1.0) / (to + 1.0));
}

double kl_scalar(int to, int from, int k) { return sqrt((to + 1.0) / ((from + 1.0) * (k + 1.0))); }

double kl_swap(int x, int a, int b, int c, int xa, int xb)
{
    return sign((a + b + xa + xb) / 2) * sqrt((xa + 1.0) * (xb + 1.0)) * kl_wigner_6j(a, x, xa, b, c, xb);
}
