/* Inner loops of sums of Kronecker products; meson compiles this file once per instruction set with
   -DKL_ISA_avx512, -DKL_ISA_avx2 or neither. All work is on tiles 8 lanes wide, so that one entry of a sparse
   list is one 8-wide addition; entries with plus come before those with minus.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/kron_kernel.h"

#include <string.h>
#if defined(KL_ISA_avx512) || defined(KL_ISA_avx2)
#include <immintrin.h>
#endif

/* Eight doubles; memory need not be aligned to them. */
#if defined(KL_ISA_avx512)
#define NV 1
typedef double vec __attribute__((vector_size(64)));
typedef double vec_at __attribute__((vector_size(64), aligned(8), may_alias));
#elif defined(KL_ISA_avx2)
#define NV 2
typedef double vec __attribute__((vector_size(32)));
typedef double vec_at __attribute__((vector_size(32), aligned(8), may_alias));
#else
#define NV 4
typedef double vec __attribute__((vector_size(16)));
typedef double vec_at __attribute__((vector_size(16), aligned(8), may_alias));
#endif
enum {
    LANES = KL_KRON_LANES,
    VW = LANES / NV,
};
typedef struct oct {
    vec v[NV];
} oct;

#define INLINE static inline __attribute__((always_inline))
#define FOR_V for (int q_ = 0; q_ < NV; q_++)

INLINE oct load(const double *p)
{
    oct a;
    FOR_V a.v[q_] = *(const vec_at *)(p + q_ * VW);
    return a;
}
INLINE void store(double *p, oct a) { FOR_V *(vec_at *)(p + q_ * VW) = a.v[q_]; }
INLINE oct zero(void)
{
    oct a;
    FOR_V a.v[q_] = (vec){0};
    return a;
}
INLINE oct add(oct a, oct b)
{
    FOR_V a.v[q_] += b.v[q_];
    return a;
}
INLINE oct sub(oct a, oct b)
{
    FOR_V a.v[q_] -= b.v[q_];
    return a;
}
INLINE oct scaled(oct a, double c)
{
    FOR_V a.v[q_] *= c;
    return a;
}
/* a + c b */
INLINE oct fma1(oct a, double c, oct b)
{
    FOR_V a.v[q_] += c * b.v[q_];
    return a;
}
/* a + b c */
INLINE oct fma8(oct a, oct b, oct c)
{
    FOR_V a.v[q_] += b.v[q_] * c.v[q_];
    return a;
}
INLINE double sum(oct a)
{
    double t[LANES];
    store(t, a);
    return ((t[0] + t[4]) + (t[1] + t[5])) + ((t[2] + t[6]) + (t[3] + t[7]));
}

/* Past the caches; p is aligned to 64. */
INLINE void stream_out(double *p, oct a)
{
#if defined(KL_ISA_avx512)
    _mm512_stream_pd(p, (__m512d)a.v[0]);
#elif defined(KL_ISA_avx2)
    _mm256_stream_pd(p, (__m256d)a.v[0]);
    _mm256_stream_pd(p + 4, (__m256d)a.v[1]);
#else
    store(p, a);
#endif
}
INLINE void fence(void)
{
#if defined(KL_ISA_avx512) || defined(KL_ISA_avx2)
    _mm_sfence();
#endif
}

/* r[i][j] <-> r[j][i] */
INLINE void transpose(oct r[LANES])
{
#if defined(KL_ISA_avx512)
    const __m512d a0 = _mm512_unpacklo_pd((__m512d)r[0].v[0], (__m512d)r[1].v[0]),
                  a1 = _mm512_unpackhi_pd((__m512d)r[0].v[0], (__m512d)r[1].v[0]);
    const __m512d a2 = _mm512_unpacklo_pd((__m512d)r[2].v[0], (__m512d)r[3].v[0]),
                  a3 = _mm512_unpackhi_pd((__m512d)r[2].v[0], (__m512d)r[3].v[0]);
    const __m512d a4 = _mm512_unpacklo_pd((__m512d)r[4].v[0], (__m512d)r[5].v[0]),
                  a5 = _mm512_unpackhi_pd((__m512d)r[4].v[0], (__m512d)r[5].v[0]);
    const __m512d a6 = _mm512_unpacklo_pd((__m512d)r[6].v[0], (__m512d)r[7].v[0]),
                  a7 = _mm512_unpackhi_pd((__m512d)r[6].v[0], (__m512d)r[7].v[0]);
    const __m512d b0 = _mm512_shuffle_f64x2(a0, a2, 0x88), b1 = _mm512_shuffle_f64x2(a1, a3, 0x88);
    const __m512d b2 = _mm512_shuffle_f64x2(a0, a2, 0xdd), b3 = _mm512_shuffle_f64x2(a1, a3, 0xdd);
    const __m512d b4 = _mm512_shuffle_f64x2(a4, a6, 0x88), b5 = _mm512_shuffle_f64x2(a5, a7, 0x88);
    const __m512d b6 = _mm512_shuffle_f64x2(a4, a6, 0xdd), b7 = _mm512_shuffle_f64x2(a5, a7, 0xdd);
    r[0].v[0] = (vec)_mm512_shuffle_f64x2(b0, b4, 0x88);
    r[1].v[0] = (vec)_mm512_shuffle_f64x2(b1, b5, 0x88);
    r[2].v[0] = (vec)_mm512_shuffle_f64x2(b2, b6, 0x88);
    r[3].v[0] = (vec)_mm512_shuffle_f64x2(b3, b7, 0x88);
    r[4].v[0] = (vec)_mm512_shuffle_f64x2(b0, b4, 0xdd);
    r[5].v[0] = (vec)_mm512_shuffle_f64x2(b1, b5, 0xdd);
    r[6].v[0] = (vec)_mm512_shuffle_f64x2(b2, b6, 0xdd);
    r[7].v[0] = (vec)_mm512_shuffle_f64x2(b3, b7, 0xdd);
#elif defined(KL_ISA_avx2)
    oct t[LANES];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) { /* 4 x 4: rows 4i.., columns 4j.. */
            const __m256d x0 = (__m256d)r[4 * i].v[j], x1 = (__m256d)r[4 * i + 1].v[j],
                          x2 = (__m256d)r[4 * i + 2].v[j], x3 = (__m256d)r[4 * i + 3].v[j];
            const __m256d a0 = _mm256_unpacklo_pd(x0, x1), a1 = _mm256_unpackhi_pd(x0, x1),
                          a2 = _mm256_unpacklo_pd(x2, x3), a3 = _mm256_unpackhi_pd(x2, x3);
            t[4 * j].v[i] = (vec)_mm256_permute2f128_pd(a0, a2, 0x20);
            t[4 * j + 1].v[i] = (vec)_mm256_permute2f128_pd(a1, a3, 0x20);
            t[4 * j + 2].v[i] = (vec)_mm256_permute2f128_pd(a0, a2, 0x31);
            t[4 * j + 3].v[i] = (vec)_mm256_permute2f128_pd(a1, a3, 0x31);
        }
    for (int i = 0; i < LANES; i++) r[i] = t[i];
#else
    double t[LANES][LANES];
    for (int i = 0; i < LANES; i++) store(t[i], r[i]);
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < i; j++) {
            const double c = t[i][j];
            t[i][j] = t[j][i];
            t[j][i] = c;
        }
    for (int i = 0; i < LANES; i++) r[i] = load(t[i]);
#endif
}

/* ---- one row of a sparse matrix on a column of octets ---- */

/* bits of a form, known where a loop is compiled */
enum {
    UNIT = 1,
    WIDE = 2,
};

INLINE int form_of(const kl_kron_op *o) { return (o->unit ? UNIT : 0) | (o->idx32 ? WIDE : 0); }

INLINE int64_t column(const kl_kron_op *o, int form, uint32_t p)
{
    return form & WIDE ? (int64_t)o->idx32[p] : (int64_t)o->idx16[p];
}

INLINE oct row_sum(const kl_kron_op *o, int form, int64_t i, const double *x)
{
    oct a = zero();
    const uint32_t end = o->ptr[i + 1];
    uint32_t p = o->ptr[i];
    if (form & UNIT) {
        oct b = zero();
        const uint32_t minus = o->minus[i];
        for (; p < minus; p++) a = add(a, load(x + column(o, form, p) * LANES));
        for (; p < end; p++) b = add(b, load(x + column(o, form, p) * LANES));
        return sub(a, b); /* scale is left to the caller */
    }
    for (; p < end; p++) a = fma1(a, o->coef[p], load(x + column(o, form, p) * LANES));
    return a;
}

/* ---- 1 (x) b and cross terms ---- */

/* z[r] = 8 left states, x[l0 + lane][r]; lanes behind l1 repeat the last one. */
INLINE void gather_own(const kl_kron_block *b, int64_t l0, int count, const double *x, double *z)
{
    const int64_t stride = b->nl * LANES;
    const double *from = x + b->off + l0 * LANES;
    for (int64_t t = 0; t < b->ntile; t++, from += stride) {
        oct r[LANES];
        for (int k = 0; k < LANES; k++) r[k] = load(from + (k < count ? k : count - 1) * LANES);
        transpose(r);
        for (int k = 0; k < LANES; k++) store(z + (t * LANES + k) * LANES, r[k]);
    }
}

/* z[r] = sum over the sources l of each lane, coef x[l][r]; 0 when no lane has a source. */
INLINE int gather_cross(const kl_kron_op *a, const kl_kron_block *s, int64_t l0, int count, const double *x,
                        double *z)
{
    enum { MOST = 4 }; /* sources a lane taken in one pass */
    uint32_t p[LANES], end[LANES];
    int64_t most = 0;
    for (int k = 0; k < LANES; k++) {
        p[k] = k < count ? a->ptr[l0 + k] : 0;
        end[k] = k < count ? a->ptr[l0 + k + 1] : 0;
        if ((int64_t)end[k] - p[k] > most) most = (int64_t)end[k] - p[k];
    }
    if (most == 0) return 0;
    const int64_t stride = s->nl * LANES;
    for (int64_t done = 0; done < most; done += MOST) {
        const double *from[MOST][LANES];
        double c[MOST][LANES];
        const int now = most - done < MOST ? (int)(most - done) : MOST;
        for (int m = 0; m < now; m++)
            for (int k = 0; k < LANES; k++) {
                const int64_t at = p[k] + done + m;
                const int there = at < end[k];
                const int64_t l = !there ? 0 : a->idx32 ? (int64_t)a->idx32[at] : (int64_t)a->idx16[at];
                from[m][k] = x + s->off + l * LANES;
                c[m][k] = !there                  ? 0.0
                          : !a->unit              ? a->coef[at]
                          : at < a->minus[l0 + k] ? a->scale
                                                  : -a->scale;
            }
        for (int64_t t = 0; t < s->ntile; t++) {
            oct r[LANES];
            for (int k = 0; k < LANES; k++) {
                r[k] = scaled(load(from[0][k] + t * stride), c[0][k]);
                for (int m = 1; m < now; m++) r[k] = fma1(r[k], c[m][k], load(from[m][k] + t * stride));
            }
            transpose(r);
            double *const to = z + t * LANES * LANES;
            for (int k = 0; k < LANES; k++)
                store(to + k * LANES, done == 0 ? r[k] : add(r[k], load(to + k * LANES)));
        }
    }
    return 1;
}

/* z as by gather_own, from `ntile' tiles of what lies elsewhere. */
INLINE void gather_others(int64_t ntile, int64_t stride, int count, const double *from, double *z)
{
    for (int64_t t = 0; t < ntile; t++, from += stride) {
        oct r[LANES];
        for (int k = 0; k < LANES; k++) r[k] = load(from + (k < count ? k : count - 1) * LANES);
        transpose(r);
        for (int k = 0; k < LANES; k++) store(z + (t * LANES + k) * LANES, r[k]);
    }
}

INLINE void put(double *y, const kl_kron_block *b, int64_t l0, int64_t t, int count, oct r[LANES], int stream)
{
    transpose(r);
    double *const to = y + b->off + (t * b->nl + l0) * LANES;
    if (stream && count == LANES)
        for (int k = 0; k < LANES; k++) stream_out(to + k * LANES, r[k]);
    else
        for (int k = 0; k < count; k++) store(to + k * LANES, r[k]);
}

/* Without cross terms sums go straight to y. next: the following 8 left states in tile 0, or NULL: they lie
   too far apart from tile to tile for the processor to see them coming, so they are called for while these
   are worked on. */
INLINE void right_plain(const kl_kron_block *b, int form, int64_t l0, int count, const double *z, double *y,
                        int stream, const double *next)
{
    const kl_kron_op *const o = b->b;
    const double scale = o->scale;
    const int64_t stride = b->nl * LANES;
    for (int64_t t = 0; t < b->ntile; t++) {
        oct r[LANES];
        if (next)
            for (int k = 0; k < LANES; k++) __builtin_prefetch(next + t * stride + k * LANES, 0, 2);
        const int64_t left = b->nr - t * LANES;
        for (int k = 0; k < LANES; k++) {
            if (k < left) r[k] = row_sum(o, form, t * LANES + k, z);
            else r[k] = zero();
            if (form & UNIT) r[k] = scaled(r[k], scale);
        }
        put(y, b, l0, t, count, r, stream);
    }
}

/* y += b z */
INLINE void right_adds(const kl_kron_block *b, int form, int64_t l0, int count, const double *z, double *y)
{
    const kl_kron_op *const o = b->b;
    for (int64_t t = 0; t < b->ntile; t++) {
        double *const to = y + b->off + (t * b->nl + l0) * LANES;
        const int64_t left = b->nr - t * LANES;
        oct r[LANES];
        for (int k = 0; k < LANES; k++) {
            if (k < left) r[k] = row_sum(o, form, t * LANES + k, z);
            else r[k] = zero();
            if (form & UNIT) r[k] = scaled(r[k], o->scale);
        }
        transpose(r);
        for (int k = 0; k < count; k++) store(to + k * LANES, add(load(to + k * LANES), r[k]));
    }
}

/* acc[r] = or += b z */
INLINE void right_sum(const kl_kron_op *o, int form, const double *z, double *acc, int first)
{
    for (int64_t i = 0; i < o->nrow; i++) {
        if (!first && o->ptr[i] == o->ptr[i + 1]) continue;
        oct s = row_sum(o, form, i, z);
        if (form & UNIT) s = scaled(s, o->scale);
        store(acc + i * LANES, first ? s : add(s, load(acc + i * LANES)));
    }
}

#define BY_FORM(call, o)               \
    switch (form_of(o)) {              \
    case 0: call(0); break;            \
    case UNIT: call(UNIT); break;      \
    case WIDE: call(WIDE); break;      \
    default: call(UNIT | WIDE); break; \
    }

static void right(const kl_kron *k, const kl_kron_block *b, int64_t l0, int64_t l1, const double *x,
                  double *y, double *z, double *acc, int stream)
{
    for (; l0 < l1; l0 += LANES) {
        const int count = l1 - l0 < LANES ? (int)(l1 - l0) : LANES;
        if (b->b) gather_own(b, l0, count, x, z);
        if (b->ncross == 0 && b->b) {
            const double *const next = l0 + 2 * LANES <= l1 ? x + b->off + (l0 + LANES) * LANES : NULL;
#define PLAIN(form) right_plain(b, form, l0, count, z, y, stream, next)
            BY_FORM(PLAIN, b->b)
            continue;
        }
        if (b->b) {
#define SUM(form) right_sum(b->b, form, z, acc, 1)
            BY_FORM(SUM, b->b)
            memset(acc + b->nr * LANES, 0, (size_t)(b->ntile * LANES - b->nr) * LANES * sizeof(double));
        } else {
            memset(acc, 0, (size_t)(b->ntile * LANES * LANES) * sizeof(double));
        }
        for (int64_t c = 0; c < b->ncross; c++) {
            const kl_kron_cross *const g = &b->cross[c];
            if (!gather_cross(g->a, &k->block[g->source], l0, count, x, z)) continue;
#define MORE(form) right_sum(g->b, form, z, acc, 0)
            BY_FORM(MORE, g->b)
        }
        for (int64_t t = 0; t < b->ntile; t++) {
            oct r[LANES];
            for (int i = 0; i < LANES; i++) r[i] = load(acc + (t * LANES + i) * LANES);
            put(y, b, l0, t, count, r, stream);
        }
    }
    if (stream) fence();
}

static void beyond(const kl_kron_block *b, int64_t l0, int64_t l1, const double *x, const double *others,
                   int64_t stride, double *y, double *z)
{
    const int64_t more = (b->b->ncol + LANES - 1) / LANES - b->ntile;
    for (; l0 < l1; l0 += LANES, others += LANES * LANES) {
        const int count = l1 - l0 < LANES ? (int)(l1 - l0) : LANES;
        gather_own(b, l0, count, x, z);
        gather_others(more, stride, count, others, z + b->ntile * LANES * LANES);
#define ADDS(form) right_adds(b, form, l0, count, z, y)
        BY_FORM(ADDS, b->b)
    }
}

/* ---- diagonal and a (x) 1 ---- */

enum {
    GROUP = 4,
    TABLE = 1 << GROUP,
    MOST_GROUP = 64 / GROUP,
};

/* table[g][m] = sum of the bit vectors of this tile that are set in m, so that a mask of many bits costs an
   addition for every four. */
INLINE void make_tables(const kl_kron_block *b, int64_t t, double (*table)[TABLE][LANES])
{
    const int64_t n = b->ntile * LANES;
    for (int g = 0; g * GROUP < b->nbit; g++) {
        memset(table[g][0], 0, sizeof(table[g][0]));
        for (int m = 1; m < TABLE; m++) {
            const int bit = g * GROUP + __builtin_ctz((unsigned)m);
            const oct rest = load(table[g][m & (m - 1)]);
            store(table[g][m], bit < b->nbit ? add(rest, load(b->bits + bit * n + t * LANES)) : rest);
        }
    }
}

INLINE oct diagonal(const kl_kron_block *b, int64_t t, int64_t l, int ngroup, oct dr,
                    double (*table)[TABLE][LANES])
{
    oct d = dr;
    const double c = b->dl[l];
    FOR_V d.v[q_] += c;
    if (ngroup > 0) {
        uint64_t mask = b->mask[l];
        for (int g = 0; g < ngroup; g++, mask >>= GROUP) d = add(d, load(table[g][mask & (TABLE - 1)]));
    }
    for (int f = 0; f < b->nfeature; f++)
        d = fma1(d, b->fl[l * b->nfeature + f], load(b->fr + f * b->ntile * LANES + t * LANES));
    return d;
}

INLINE double left_form(const kl_kron_block *b, int form, int ngroup, int64_t t, int adds, const double *x,
                        double *y, double (*table)[TABLE][LANES])
{
    const oct dr = load(b->dr + t * LANES);
    const double *const xt = x + b->off + t * b->nl * LANES;
    double *const yt = y + b->off + t * b->nl * LANES;
    const kl_kron_op *const o = b->a;
    /* hops go all over a tile: the next one has to be there before */
    const double *const next = t + 1 < b->ntile ? xt + b->nl * LANES : xt;
    oct dot = zero();
    for (int64_t l = 0; l < b->nl; l++) {
        __builtin_prefetch(next + l * LANES, 0, 2);
        const oct own = load(xt + l * LANES);
        oct s = fma8(adds ? load(yt + l * LANES) : zero(), diagonal(b, t, l, ngroup, dr, table), own);
        if (o) {
            const oct h = row_sum(o, form, l, xt);
            s = form & UNIT ? fma1(s, o->scale, h) : add(s, h);
        }
        store(yt + l * LANES, s);
        dot = fma8(dot, s, own);
    }
    return sum(dot);
}

static double left(const kl_kron_block *b, int64_t t, int adds, const double *x, double *y)
{
    double table[MOST_GROUP][TABLE][LANES];
    const int ngroup = (b->nbit + GROUP - 1) / GROUP;
    make_tables(b, t, table);
    double dot = 0.0;
    if (!b->a) return left_form(b, 0, ngroup, t, adds, x, y, table);
    if (ngroup == 4 && b->nfeature == 0) { /* sixteen sites: the loop over groups unrolled */
#define FOUR(form) dot = left_form(b, form, 4, t, adds, x, y, table)
        BY_FORM(FOUR, b->a)
        return dot;
    }
#define ANY(form) dot = left_form(b, form, ngroup, t, adds, x, y, table)
    BY_FORM(ANY, b->a)
    return dot;
}

#if defined(KL_ISA_avx512)
const kl_kron_kernel kl_kron_avx512 = {"avx512", right, left, beyond};
#elif defined(KL_ISA_avx2)
const kl_kron_kernel kl_kron_avx2 = {"avx2", right, left, beyond};
#else
const kl_kron_kernel kl_kron_generic = {"generic", right, left, beyond};
#endif
