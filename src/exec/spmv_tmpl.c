/* Loops of the sparse products for one width of column indices (KL_INDEX_BITS), every format, 1 to 16 vectors
   side by side. Compiled twice by meson. Does not start threads.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/spmv.h"
#include "base/clones.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if KL_INDEX_BITS == 16
typedef uint16_t column;
#define UNITS kl_spmv_units_16
#define ROWS_GATHERED kl_spmv_rows_gathered_16
#else
typedef uint32_t column;
#define UNITS kl_spmv_units_32
#define ROWS_GATHERED kl_spmv_rows_gathered_32
#endif

/* The sanitizers instrument the resolver of a clone before they are ready. */
enum {
    MAX_HEIGHT = 512, /* sums that are kept side by side */
    FEW = 4, /* rows that several vectors take at a time */
    CHAINS = 4, /* sums of one row and vector */
    /* sums of one row side by side, and how far ahead its non-zeros are asked for */
    AT_ONCE = 16,
    AHEAD = 256
};

/* sum[nv] += a run of one row. nv is a constant at every call. */
static inline __attribute__((always_inline)) void run(int64_t n, const double *value, const column *col,
                                                      int nv, const double *x, double *sum)
{
    if (nv == 1) {
        double s[AT_ONCE] = {0}, rest = 0;
        int64_t k = 0;
        for (; k + AT_ONCE <= n; k += AT_ONCE) {
            /* rows follow each other: this may be the next one's */
            for (int line = 0; line < AT_ONCE; line += 8) __builtin_prefetch(value + k + line + AHEAD);
#pragma omp simd
            for (int j = 0; j < AT_ONCE; j++) s[j] += value[k + j] * x[col[k + j]];
        }
#pragma omp simd reduction(+ : rest)
        for (int64_t j = k; j < n; j++) rest += value[j] * x[col[j]];
        for (int j = 0; j < AT_ONCE; j++) rest += s[j];
        sum[0] += rest;
        return;
    }
    /* the loop's own: these stay in registers. One sum alone would wait for itself at every non-zero */
    double s[CHAINS][KL_SPMV_MAX_VEC];
    int64_t k = 0;
    for (int c = 0; c < CHAINS; c++)
        for (int v = 0; v < nv; v++) s[c][v] = 0;
    for (; k + CHAINS <= n; k += CHAINS) {
        __builtin_prefetch(value + k + AHEAD);
        for (int c = 0; c < CHAINS; c++) {
            const double a = value[k + c];
            const double *const xk = x + (int64_t)col[k + c] * nv;
#pragma omp simd
            for (int v = 0; v < nv; v++) s[c][v] += a * xk[v];
        }
    }
    for (; k < n; k++)
        for (int v = 0; v < nv; v++) s[0][v] += value[k] * x[(int64_t)col[k] * nv + v];
    for (int v = 0; v < nv; v++) sum[v] += (s[0][v] + s[1][v]) + (s[2][v] + s[3][v]);
}

/* The same, and z[column] += value * own: the mirrored half. The diagonal is no mirror image of anything. */
static inline __attribute__((always_inline)) void run_both(int64_t n, int64_t row, const double *value,
                                                           const column *col, int nv, const double *x,
                                                           const double *own, double *z, double *sum)
{
    double s[KL_SPMV_MAX_VEC], mine[KL_SPMV_MAX_VEC];
    for (int v = 0; v < nv; v++) s[v] = sum[v], mine[v] = own[v];
    for (int64_t k = 0; k < n; k++) {
        const double a = value[k];
        const int64_t c = (int64_t)col[k];
        double *const zc = z + c * nv;
#pragma omp simd
        for (int v = 0; v < nv; v++) s[v] += a * x[c * nv + v];
        if (c == row) continue;
#pragma omp simd
        for (int v = 0; v < nv; v++) zc[v] += a * mine[v];
    }
    for (int v = 0; v < nv; v++) sum[v] = s[v];
}

static inline __attribute__((always_inline)) void rows(const kl_spmat *m, int64_t from, int64_t to, int nv,
                                                       const double *x, double *y, double *z)
{
    const column *const regular = m->column, *const rest = m->rest_column;
    for (int64_t i = from; i < to; i++) {
        double sum[KL_SPMV_MAX_VEC] = {0};
        const int64_t start = kl_sp_offset(m, m->start, i);
        const int64_t end = m->end != NULL ? kl_sp_offset(m, m->end, i) : kl_sp_offset(m, m->start, i + 1);
        const int64_t width =
            m->length != NULL && (int64_t)m->length[i] < m->width ? (int64_t)m->length[i] : m->width;
        if (z != NULL) {
            run_both(width, i, m->value + i * m->width, regular + i * m->width, nv, x, x + i * nv, z, sum);
            run_both(end - start, i, m->rest_value + start, rest + start, nv, x, x + i * nv, z, sum);
        } else {
            if (width > 0) run(width, m->value + i * m->width, regular + i * m->width, nv, x, sum);
            run(end - start, m->rest_value + start, rest + start, nv, x, sum);
        }
        for (int v = 0; v < nv; v++) y[i * nv + v] = sum[v];
    }
}

/* Rows side by side, `step` apart in the arrays: entry k of row r is at k * step + r. ELL reads columns of
   all rows, a slice its own. One vector: all rows of the group advance entry by entry. Several: a few rows at
   a time, whose sums stay in registers. */
static inline __attribute__((always_inline)) void few_rows(int nrow, int64_t width, int64_t step,
                                                           const double *value, const column *col, int nv,
                                                           const double *x, double *sum)
{
    double s[FEW * KL_SPMV_MAX_VEC];
    for (int k = 0; k < nrow * nv; k++) s[k] = 0;
    for (int64_t k = 0; k < width; k++)
        for (int r = 0; r < nrow; r++) {
            const double a = value[k * step + r];
            const double *const xk = x + (int64_t)col[k * step + r] * nv;
            for (int v = 0; v < nv; v++) s[r * nv + v] += a * xk[v];
        }
    for (int k = 0; k < nrow * nv; k++) sum[k] = s[k];
}

static inline __attribute__((always_inline)) void side_by_side(const kl_spmat *m, int64_t first_row, int nrow,
                                                               int64_t width, int64_t place, int64_t step,
                                                               int nv, const double *x, double *y)
{
    const column *const col = (const column *)m->column + place;
    const double *const value = m->value + place;
    double sum[MAX_HEIGHT];
    if (nv == 1) {
        for (int r = 0; r < nrow; r++) sum[r] = 0;
        for (int64_t k = 0; k < width; k++) {
            const double *const a = value + k * step;
            const column *const c = col + k * step;
#pragma omp simd
            for (int r = 0; r < nrow; r++) sum[r] += a[r] * x[c[r]];
        }
    } else {
        const int few = nv >= 16 ? 1 : nv >= 8 ? 2 : FEW; /* their sums fill half the registers of AVX2 */
        int r = 0;
        for (; r + few <= nrow; r += few) few_rows(few, width, step, value + r, col + r, nv, x, sum + r * nv);
        for (; r < nrow; r++) few_rows(1, width, step, value + r, col + r, nv, x, sum + r * nv);
    }
    for (int r = 0; r < nrow; r++) {
        const int64_t row = m->order != NULL ? (int64_t)m->order[first_row + r] : first_row + r;
        for (int v = 0; v < nv; v++) y[row * nv + v] = sum[r * nv + v];
    }
}

/* R forms know where a row ends: a group of rows stops at its longest. */
static int64_t longest_of(const kl_spmat *m, int64_t first_row, int nrow, int64_t width)
{
    if (m->length == NULL) return width;
    int64_t most = 0;
    for (int r = 0; r < nrow; r++) {
        const int64_t n = m->length[m->order != NULL ? (int64_t)m->order[first_row + r] : first_row + r];
        if (n > most) most = n;
    }
    return most;
}

static inline __attribute__((always_inline)) void all(const kl_spmat *m, int64_t from, int64_t to, int nv,
                                                      const double *x, double *y, double *z)
{
    if (m->format == KL_SP_CSR || m->format == KL_SP_HYBRID) {
        rows(m, from, to, nv, x, y, z);
        return;
    }
    if (m->format == KL_SP_ELL || m->format == KL_SP_ELLR) {
        const int most = MAX_HEIGHT / nv;
        for (int64_t i = from; i < to; i += most) {
            const int n = to - i < most ? (int)(to - i) : most;
            side_by_side(m, i, n, longest_of(m, i, n, m->width), i, m->nrow, nv, x, y);
        }
        return;
    }
    for (int64_t s = from; s < to; s++) {
        const int64_t place = kl_sp_offset(m, m->slice_off, s),
                      width = (kl_sp_offset(m, m->slice_off, s + 1) - place) / m->height;
        const int64_t most = MAX_HEIGHT / nv;
        for (int64_t r = 0; r < m->height && s * m->height + r < m->nrow; r += most) {
            const int64_t row = s * m->height + r;
            int64_t n = m->height - r < most ? m->height - r : most;
            if (row + n > m->nrow) n = m->nrow - row;
            side_by_side(m, row, (int)n, longest_of(m, row, (int)n, width), place + r, m->height, nv, x, y);
        }
    }
}

KL_CLONED void UNITS(const kl_spmat *m, int64_t from, int64_t to, int nv, const double *x, double *y,
                     double *z)
{
    switch (nv) {
    case 1: all(m, from, to, 1, x, y, z); break;
    case 2: all(m, from, to, 2, x, y, z); break;
    case 4: all(m, from, to, 4, x, y, z); break;
    case 8: all(m, from, to, 8, x, y, z); break;
    default: all(m, from, to, 16, x, y, z); break;
    }
}

#if defined(__x86_64__)
/* Four columns as indices of a gather. */
static inline __attribute__((always_inline, target("avx2,fma"))) __m128i four(const column *c)
{
#if KL_INDEX_BITS == 16
    return _mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i *)c));
#else
    return _mm_loadu_si128((const __m128i *)c);
#endif
}

/* Compilers take elements of x one by one, which is a fourth slower on matrices of CI than the instruction
   for it. */
static inline __attribute__((always_inline, target("avx2,fma"))) double
run_gathered(int64_t n, const double *value, const column *col, const double *x)
{
    __m256d s[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()};
    double rest = 0;
    int64_t k = 0;
    for (; k + AT_ONCE <= n; k += AT_ONCE) {
        for (int line = 0; line < AT_ONCE; line += 8) __builtin_prefetch(value + k + line + AHEAD);
        __builtin_prefetch(col + k + AHEAD);
        for (int j = 0; j < 4; j++)
            s[j] = _mm256_fmadd_pd(_mm256_loadu_pd(value + k + 4 * j),
                                   _mm256_i32gather_pd(x, four(col + k + 4 * j), 8), s[j]);
    }
    for (; k + 4 <= n; k += 4)
        s[0] = _mm256_fmadd_pd(_mm256_loadu_pd(value + k), _mm256_i32gather_pd(x, four(col + k), 8), s[0]);
    for (; k < n; k++) rest += value[k] * x[col[k]];
    const __m256d sum = _mm256_add_pd(_mm256_add_pd(s[0], s[1]), _mm256_add_pd(s[2], s[3]));
    const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(sum), _mm256_extractf128_pd(sum, 1));
    return rest + _mm_cvtsd_f64(half) + _mm_cvtsd_f64(_mm_unpackhi_pd(half, half));
}

__attribute__((target("avx2,fma"))) void ROWS_GATHERED(const kl_spmat *m, int64_t from, int64_t to,
                                                       const double *x, double *y)
{
    const column *const regular = m->column, *const rest = m->rest_column;
    for (int64_t i = from; i < to; i++) {
        const int64_t start = kl_sp_offset(m, m->start, i);
        const int64_t end = m->end != NULL ? kl_sp_offset(m, m->end, i) : kl_sp_offset(m, m->start, i + 1);
        double sum = 0;
        if (m->width > 0)
            sum = run_gathered(m->length != NULL && (int64_t)m->length[i] < m->width ? (int64_t)m->length[i]
                                                                                     : m->width,
                               m->value + i * m->width, regular + i * m->width, x);
        y[i] = sum + run_gathered(end - start, m->rest_value + start, rest + start, x);
    }
}
#endif
