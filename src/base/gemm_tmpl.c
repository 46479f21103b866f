/* The small product kernel, compiled once per instruction set: C tiles of up to 3 vectors x 8 (or 4) columns
   held in registers, A read by vectors straight from its columns (a transposed A goes through a packed
   panel), B broadcast. Rows past the edge are masked, not padded.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/gemm.h"
#include <stddef.h>

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

#if defined(KL_ISA_avx512)
#include <immintrin.h>
#define KL_ISA avx512
#define W 8  /* doubles in a vector */
#define NR 8 /* columns of a tile: 24 accumulators of 32 registers */
typedef __m512d vec;
typedef __mmask8 mask;
static inline mask mask_of(int rows) { return (mask)(rows >= W ? 0xff : (1 << rows) - 1); }
static inline vec load(const double *p) { return _mm512_loadu_pd(p); }
static inline vec load_tail(const double *p, mask k) { return _mm512_maskz_loadu_pd(k, p); }
static inline void store(double *p, vec x) { _mm512_storeu_pd(p, x); }
static inline void store_tail(double *p, mask k, vec x) { _mm512_mask_storeu_pd(p, k, x); }
static inline vec splat(double x) { return _mm512_set1_pd(x); }
static inline vec fma_(vec a, vec b, vec c) { return _mm512_fmadd_pd(a, b, c); }
static inline vec mul(vec a, vec b) { return _mm512_mul_pd(a, b); }
#elif defined(KL_ISA_avx2)
#include <immintrin.h>
#define KL_ISA avx2
#define W 4
#define NR 4
typedef __m256d vec;
typedef __m256i mask;
static inline mask mask_of(int rows)
{
    return _mm256_set_epi64x(rows > 3 ? -1 : 0, rows > 2 ? -1 : 0, rows > 1 ? -1 : 0, rows > 0 ? -1 : 0);
}
static inline vec load(const double *p) { return _mm256_loadu_pd(p); }
static inline vec load_tail(const double *p, mask k) { return _mm256_maskload_pd(p, k); }
static inline void store(double *p, vec x) { _mm256_storeu_pd(p, x); }
static inline void store_tail(double *p, mask k, vec x) { _mm256_maskstore_pd(p, k, x); }
static inline vec splat(double x) { return _mm256_set1_pd(x); }
static inline vec fma_(vec a, vec b, vec c) { return _mm256_fmadd_pd(a, b, c); }
static inline vec mul(vec a, vec b) { return _mm256_mul_pd(a, b); }
#else
#define KL_ISA generic
#define W 2
#define NR 4
typedef double vec __attribute__((vector_size(16)));
typedef int mask; /* rows in the vector, 1 or 2 */
static inline mask mask_of(int rows) { return rows >= W ? W : rows; }
static inline vec load(const double *p) { return (vec){p[0], p[1]}; }
static inline vec load_tail(const double *p, mask k) { return (vec){p[0], k > 1 ? p[1] : 0.0}; }
static inline void store(double *p, vec x)
{
    p[0] = x[0];
    p[1] = x[1];
}
static inline void store_tail(double *p, mask k, vec x)
{
    p[0] = x[0];
    if (k > 1) p[1] = x[1];
}
static inline vec splat(double x) { return (vec){x, x}; }
static inline vec fma_(vec a, vec b, vec c) { return a * b + c; }
static inline vec mul(vec a, vec b) { return a * b; }
#endif

/* Tiles live in registers only when these loops vanish; gcc needs to be told. */
#define UNROLL _Pragma("GCC unroll 8")

#define V 3        /* vectors in a tile's column */
#define MR (V * W) /* rows of a full tile */
#define BC 16384   /* numbers of B that are read by one panel of A after the other: 128 KiB */
#define KC 256     /* depth of a packed panel of a transposed A: MR x KC stays in L1/L2 */

/* One tile: nv vectors (the last one masked) x nr columns, nv and nr constants after inlining. b(p, j) at
   b[p*sp + j*sj]. */
static inline __attribute__((always_inline)) void
tile(const int nv, const int nr, const int k, const double alpha, const double *a, const ptrdiff_t lda,
     const double *b, const ptrdiff_t sp, const ptrdiff_t sj, const int read_c, double *c,
     const ptrdiff_t ldc, const mask last)
{
    vec acc[V][NR];
    UNROLL
    for (int j = 0; j < nr; j++) {
        UNROLL
        for (int v = 0; v < nv; v++) acc[v][j] = splat(0.0);
    }
    for (int p = 0; p < k; p++, a += lda, b += sp) {
        vec av[V];
        UNROLL
        for (int v = 0; v < nv - 1; v++) av[v] = load(a + v * W);
        av[nv - 1] = load_tail(a + (nv - 1) * W, last);
        UNROLL
        for (int j = 0; j < nr; j++) {
            const vec bj = splat(b[j * sj]);
            UNROLL
            for (int v = 0; v < nv; v++) acc[v][j] = fma_(av[v], bj, acc[v][j]);
        }
    }
    const vec al = splat(alpha);
    UNROLL
    for (int j = 0; j < nr; j++) {
        double *cj = c + j * ldc;
        UNROLL
        for (int v = 0; v < nv - 1; v++)
            store(cj + v * W, read_c ? fma_(al, acc[v][j], load(cj + v * W)) : mul(al, acc[v][j]));
        double *ct = cj + (nv - 1) * W;
        store_tail(ct, last,
                   read_c ? fma_(al, acc[nv - 1][j], load_tail(ct, last)) : mul(al, acc[nv - 1][j]));
    }
}

typedef void tile_fn(int k, double alpha, const double *a, ptrdiff_t lda, const double *b, ptrdiff_t sp,
                     ptrdiff_t sj, int read_c, double *c, ptrdiff_t ldc, mask last);

/* b(p, j) has unit stride in p (plain B) or in j (transposed B): two bodies, so that addresses are constants
   plus one register. */
#define TILE(nv, nr)                                                                                   \
    static void tile_##nv##_##nr(int k, double alpha, const double *a, ptrdiff_t lda, const double *b, \
                                 ptrdiff_t sp, ptrdiff_t sj, int read_c, double *c, ptrdiff_t ldc,     \
                                 mask last)                                                            \
    {                                                                                                  \
        if (sj == 1) tile(nv, nr, k, alpha, a, lda, b, sp, 1, read_c, c, ldc, last);                   \
        else tile(nv, nr, k, alpha, a, lda, b, 1, sj, read_c, c, ldc, last);                           \
    }
#define TILES(nr) TILE(1, nr) TILE(2, nr) TILE(3, nr)
/* clang-format off */
TILES(1) TILES(2) TILES(3) TILES(4)
#if NR == 8
TILES(5) TILES(6) TILES(7) TILES(8)
#endif
#define ROW(nv) tile_##nv##_1, tile_##nv##_2, tile_##nv##_3, tile_##nv##_4
#define ROW8(nv) tile_##nv##_5, tile_##nv##_6, tile_##nv##_7, tile_##nv##_8
static tile_fn *const tile_of[V][NR] = {
#if NR == 8
    {ROW(1), ROW8(1)}, {ROW(2), ROW8(2)}, {ROW(3), ROW8(3)},
#else
    {ROW(1)}, {ROW(2)}, {ROW(3)},
#endif
};
/* clang-format on */

/* Eight rows of A, or four, at columns p and on, become columns of a panel. */
#if defined(KL_ISA_avx512)
static inline void turn(const double *a, const ptrdiff_t lda, double *panel)
{
    vec r[8], t[8], u[8];
    UNROLL
    for (int i = 0; i < 8; i++) r[i] = load(a + i * lda);
    UNROLL
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm512_unpacklo_pd(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_pd(r[i], r[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 2; i++) {
        u[i] = _mm512_shuffle_f64x2(t[i], t[i + 2], 0x88);
        u[i + 2] = _mm512_shuffle_f64x2(t[i], t[i + 2], 0xdd);
        u[i + 4] = _mm512_shuffle_f64x2(t[i + 4], t[i + 6], 0x88);
        u[i + 6] = _mm512_shuffle_f64x2(t[i + 4], t[i + 6], 0xdd);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        store(panel + i * MR, _mm512_shuffle_f64x2(u[i], u[i + 4], 0x88));
        store(panel + (i + 4) * MR, _mm512_shuffle_f64x2(u[i], u[i + 4], 0xdd));
    }
}
#elif defined(KL_ISA_avx2)
static inline void turn(const double *a, const ptrdiff_t lda, double *panel)
{
    const vec r0 = load(a), r1 = load(a + lda), r2 = load(a + 2 * lda), r3 = load(a + 3 * lda);
    const vec t0 = _mm256_unpacklo_pd(r0, r1), t1 = _mm256_unpackhi_pd(r0, r1);
    const vec t2 = _mm256_unpacklo_pd(r2, r3), t3 = _mm256_unpackhi_pd(r2, r3);
    store(panel, _mm256_permute2f128_pd(t0, t2, 0x20));
    store(panel + MR, _mm256_permute2f128_pd(t1, t3, 0x20));
    store(panel + 2 * MR, _mm256_permute2f128_pd(t0, t2, 0x31));
    store(panel + 3 * MR, _mm256_permute2f128_pd(t1, t3, 0x31));
}
#else
static inline void turn(const double *a, const ptrdiff_t lda, double *panel)
{
    for (int i = 0; i < W; i++)
        for (int j = 0; j < W; j++) panel[j * MR + i] = a[i * lda + j];
}
#endif

/* Rows of A, depth numbers of each, as the columns of a panel. */
static void pack(int rows, int depth, const double *a, ptrdiff_t lda, double *panel)
{
    int r = 0;
    for (; r + W <= rows; r += W) {
        int p = 0;
        for (; p + W <= depth; p += W) turn(a + r * lda + p, lda, panel + p * MR + r);
        for (; p < depth; p++)
            for (int i = r; i < r + W; i++) panel[p * MR + i] = a[i * lda + p];
    }
    for (; r < rows; r++)
        for (int p = 0; p < depth; p++) panel[p * MR + r] = a[r * lda + p];
}

/* C += alpha A B, or C = alpha A B, where C has rows and columns. */
typedef struct product {
    int ta, m, n, k;
    double alpha;
    const double *a, *b; /* b(p, j) at b[p*sp + j*sj] */
    ptrdiff_t lda, sp, sj;
    int read_first;
    double *c;
    ptrdiff_t ldc;
} product;

/* Panel by panel of A. Tiles of even size: 4 vectors go as 2 + 2, 9 columns as 5 + 4.
   panel: [MR * KC], where a transposed A goes; or NULL. */
static inline __attribute__((always_inline)) void panels(const product *p, double *panel)
{
    const int m = p->m, n = p->n, k = p->k;
    const int nvec = (m + W - 1) / W, nti = (nvec + V - 1) / V, ntj = (n + NR - 1) / NR;
    const int vec_each = nvec / nti, vec_more = nvec % nti, col_each = n / ntj, col_more = n % ntj;
    for (int ti = 0, v0 = 0, nv; ti < nti; ti++, v0 += nv) {
        nv = vec_each + (ti < vec_more);
        const int i0 = v0 * W, rows = m - i0 < nv * W ? m - i0 : nv * W;
        const mask last = mask_of(rows - (nv - 1) * W);
        const int depth = panel ? KC : k;
        for (int p0 = 0; p0 < k; p0 += depth) {
            const int kp = k - p0 < depth ? k - p0 : depth;
            const double *ap = p->a + i0;
            ptrdiff_t ld = p->lda;
            if (panel) {
                pack(rows, kp, p->a + p0 + (ptrdiff_t)i0 * p->lda, p->lda, panel);
                ap = panel;
                ld = MR;
            }
            for (int tj = 0, j0 = 0, nr; tj < ntj; tj++, j0 += nr) {
                nr = col_each + (tj < col_more);
                tile_of[nv - 1][nr - 1](kp, p->alpha, ap, ld, p->b + p0 * p->sp + j0 * p->sj, p->sp, p->sj,
                                        p->read_first || p0 > 0, p->c + i0 + (ptrdiff_t)j0 * p->ldc, p->ldc,
                                        last);
            }
        }
    }
}

/* Apart, so that other products have no panel on their stack: sanitizers watch it anew in every call, for
   longer than a small product takes. */
static __attribute__((noinline)) void packed(const product *p)
{
    double panel[MR * KC] __attribute__((aligned(64)));
    panels(p, panel);
}

void PASTE(kl_gemm_, KL_ISA)(int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                             const double *b, int ldb, double beta, double *c, int ldc)
{
    if (m <= 0 || n <= 0) return;
    if (beta != 1.0 && (beta != 0.0 || k <= 0)) {
        for (int j = 0; j < n; j++)
            for (int i = 0; i < m; i++)
                c[i + (ptrdiff_t)j * ldc] = beta == 0.0 ? 0.0 : beta * c[i + (ptrdiff_t)j * ldc];
    }
    const int read_first = beta != 0.0;
    const ptrdiff_t sp = tb ? ldb : 1, sj = tb ? 1 : ldb;
    if (!ta && m <= MR && n <= NR) { /* one tile: the smallest sectors are many */
        const int nv = (m + W - 1) / W;
        tile_of[nv - 1][n - 1](k, alpha, a, lda, b, sp, sj, read_first, c, ldc, mask_of(m - (nv - 1) * W));
        return;
    }
    /* Every panel of A reads all of B, which some columns at a time stay in the cache for. */
    const int wide = k > 0 ? BC / (k < KC ? k : KC) / NR * NR : n;
    if (m > MR && n > wide) {
        for (int j = 0; j < n; j += wide)
            PASTE(kl_gemm_, KL_ISA)(ta, tb, m, n - j < wide ? n - j : wide, k, alpha, a, lda, b + j * sj, ldb,
                                    read_first, c + (ptrdiff_t)j * ldc, ldc);
        return;
    }
    const product p = {ta, m, n, k, alpha, a, b, lda, sp, sj, read_first, c, ldc};
    if (ta) packed(&p);
    else panels(&p, NULL);
}
