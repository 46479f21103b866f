/* Products for any target, in plain OpenMP: a team of SHARE threads does a tile of 64 x 64, a thread 8 x 4
   sums of it. In the memory that a team shares lie two slices of both factors, each of DEPTH values of k.
   While one is multiplied every thread already holds its part of the next in registers: what comes from far
   has the time of a whole slice, and a slice takes one barrier. On a target whose threads are a processor's a
   team is one thread, which does the work of all.

   Register budget 168, set for this file at its compile step: three teams a multiprocessor.
   SPDX-License-Identifier: Apache-2.0 */
#include "products.h"
#include "target.h"
#include <omp.h>

enum {
    SIDE = 64,
    DEPTH = 16,
    MY_ROWS = 8,
    MY_COLS = 4,
    ROW_THREADS = SIDE / MY_ROWS,
    COL_THREADS = SIDE / MY_COLS,
    SHARE = ROW_THREADS * COL_THREADS,
    PART = SIDE * DEPTH / SHARE,
    LINE = SIDE +
           2 /* numbers of one k, and two more: then 8 values of k of two rows lie in 16 different banks */,
    SLICE = 2 * DEPTH * LINE,
#if defined(__NVPTX__) || defined(__AMDGCN__)
    EACH = 1 /* of SHARE that a thread of the target is */
#else
    EACH = SHARE
#endif
};

const kl_tile_plan_opts kl_plain_opts = {.unit_m = 8,
                                         .unit_n = 8,
                                         .most_m = SIDE / 8,
                                         .most_n = SIDE / 8,
                                         .depth = DEPTH,
                                         .nblock = 1024,
                                         .whole = 1,
                                         .adds = 1,
                                         .cost_least = 1000};

#define ALWAYS static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")

ALWAYS int least(int a, int b) { return a < b ? a : b; }

/* Where the sums of a thread are: pairs of rows and of columns, each of which one load brings. Of four
   neighbours two share their rows and two their columns, so that a load serves half a warp at once. */
ALWAYS int row_of(int t, int r) { return 2 * (t / 2 % ROW_THREADS) + r / 2 * 2 * ROW_THREADS + r % 2; }
ALWAYS int col_of(int t, int c)
{
    return 2 * (t % 2 + t / (2 * ROW_THREADS) * 2) + c / 2 * 2 * COL_THREADS + c % 2;
}

/* Number i of a thread's part of a factor's slice: neighbours are neighbours in memory, which runs along k
   where `deep`. */
ALWAYS int part_k(int t, int deep, int i) { return deep ? t % 8 + i % 2 * 8 : (t + SHARE * i) / SIDE; }
ALWAYS int part_line(int t, int deep, int i)
{
    return deep ? t / 8 + i / 2 * (SHARE / 8) : (t + SHARE * i) % SIDE;
}
_Static_assert(DEPTH == 16, "two times eight");

/* Where only `there` rows or columns exist: 1 if a thread's part or sums, which begin at that one, are
   wanted. On a GPU all threads of a team work as long as one of them does. */
ALWAYS int wanted(int first, int there) { return EACH == 1 || first < there; }

/* Only some of these rows (or columns) and values of k exist; others are read twice, for sums
   that are never written, or to be 0. */
ALWAYS void fetch_part(int t, const int deep, const double *from, int ld, int there, int left, double *part)
{
    if (!wanted(part_line(t, deep, 0), there)) return;
    UNROLL
    for (int i = 0; i < PART; i++) {
        const int line = least(part_line(t, deep, i), there - 1), k = least(part_k(t, deep, i), left - 1);
        part[i] = from[deep ? k + (int64_t)line * ld : line + (int64_t)k * ld];
    }
}

/* A thread's part of both factors of a piece, from k = l on. */
ALWAYS void fetch(int t, const kl_piece *p, int l, const double *x, const double *y, double (*part)[PART])
{
    if (p->flags & KL_P_ADD) return;
    const int m = kl_rows_of(p->mn), n = kl_cols_of(p->mn), lda = p->lda, ldb = p->ldb, left = p->k - l;
    const double *const a = (const double *)(uintptr_t)kl_where(p->a, p->flags, KL_P_A, x, y);
    const double *const b = (const double *)(uintptr_t)kl_where(p->b, p->flags, KL_P_B, x, y);
    if (p->flags & KL_P_TA) fetch_part(t, 1, a + l, lda, m, left, part[0]);
    else fetch_part(t, 0, a + (int64_t)l * lda, lda, m, left, part[0]);
    if (p->flags & KL_P_TB) fetch_part(t, 0, b + (int64_t)l * ldb, ldb, n, left, part[1]);
    else fetch_part(t, 1, b + l, ldb, n, left, part[1]);
}

/* Only here are fetched numbers looked at: whoever looks waits for them. */
ALWAYS void keep(int t, const kl_piece *p, int l, double (*part)[PART], double *slice)
{
    if (p->flags & KL_P_ADD) return;
    const int deep_a = (p->flags & KL_P_TA) != 0, deep_b = (p->flags & KL_P_TB) == 0, left = p->k - l;
    UNROLL
    for (int i = 0; i < PART && wanted(part_line(t, deep_a, 0), kl_rows_of(p->mn)); i++)
        slice[part_k(t, deep_a, i) * LINE + part_line(t, deep_a, i)] =
            part_k(t, deep_a, i) < left ? part[0][i] : 0.0;
    UNROLL
    for (int i = 0; i < PART && wanted(part_line(t, deep_b, 0), kl_cols_of(p->mn)); i++)
        slice[(DEPTH + part_k(t, deep_b, i)) * LINE + part_line(t, deep_b, i)] = part[1][i];
}

ALWAYS void multiply(int t, const double *slice, double (*sum)[MY_ROWS])
{
    const double *const a = slice + row_of(t, 0), *const b = slice + DEPTH * LINE + col_of(t, 0);
    UNROLL
    for (int k = 0; k < DEPTH; k++) {
        kl_two u[MY_ROWS / 2], v[MY_COLS / 2];
        UNROLL
        for (int r = 0; r < MY_ROWS / 2; r++) u[r] = *(const kl_two *)(a + k * LINE + r * 2 * ROW_THREADS);
        UNROLL
        for (int c = 0; c < MY_COLS / 2; c++) v[c] = *(const kl_two *)(b + k * LINE + c * 2 * COL_THREADS);
        UNROLL
        for (int c = 0; c < MY_COLS; c++) UNROLL
        for (int r = 0; r < MY_ROWS; r++) sum[c][r] += u[r / 2][r % 2] * v[c / 2][c % 2];
    }
}

/* sum += op(A). */
ALWAYS void add_matrix(int t, const kl_piece *p, const double *x, const double *y, double (*sum)[MY_ROWS])
{
    const double *const a = (const double *)(uintptr_t)kl_where(p->a, p->flags, KL_P_A, x, y);
    const int m = kl_rows_of(p->mn), n = kl_cols_of(p->mn), ta = (p->flags & KL_P_TA) != 0;
    const int64_t below = ta ? p->lda : 1, right = ta ? 1 : p->lda;
    UNROLL
    for (int c = 0; c < MY_COLS; c++) UNROLL
    for (int r = 0; r < MY_ROWS; r++)
        sum[c][r] += a[least(row_of(t, r), m - 1) * below + least(col_of(t, c), n - 1) * right];
}

/* The end of a piece. */
ALWAYS void finish(int t, const kl_piece *p, const double *x, double *y, double (*sum)[MY_ROWS])
{
    const double f = p->factor;
    const int m = kl_rows_of(p->mn), n = kl_cols_of(p->mn), write = (p->flags & KL_P_LAST) != 0,
              beta = (p->flags & KL_P_BETA) != 0;
    double *const to = (double *)(uintptr_t)kl_where(p->c, p->flags, KL_P_C, x, y);
    UNROLL
    for (int c = 0; c < MY_COLS; c++) UNROLL
    for (int r = 0; r < MY_ROWS; r++) {
        const int i0 = row_of(t, r), j0 = col_of(t, c);
        sum[c][r] *= f;
        if (!write) continue;
        if (i0 < m && j0 < n)
            to[i0 + (int64_t)j0 * p->ldc] = sum[c][r] + (beta ? to[i0 + (int64_t)j0 * p->ldc] : 0.0);
        sum[c][r] = 0.0;
    }
}

/* The tile that begins with piece p, by `first` and the EACH - 1 after it of a team's SHARE. slice:
   [2][SLICE], shared. */
ALWAYS void product(int first, const kl_piece *piece, const kl_piece *p, const double *x, double *y,
                    double *slice)
{
    double sum[EACH][MY_COLS][MY_ROWS], part[2][PART];
    for (int e = 0; e < EACH; e++) {
        UNROLL
        for (int c = 0; c < MY_COLS; c++) UNROLL
        for (int r = 0; r < MY_ROWS; r++) sum[e][c][r] = 0.0;
        fetch(first + e, p, 0, x, y, part);
        keep(first + e, p, 0, part, slice);
    }
    for (int l = 0, turn = 0, end = 0; !end; turn = 1 - turn) {
        const int last = (p->flags & KL_P_ADD) || l + DEPTH >= p->k, then = last ? 0 : l + DEPTH;
        const kl_piece *const next = last ? piece + p->next : p;
        end = last && p->next <= 0;
#pragma omp barrier
        for (int e = 0; e < EACH; e++) {
            const int mine = wanted(row_of(first + e, 0), kl_rows_of(p->mn)) &&
                             wanted(col_of(first + e, 0), kl_cols_of(p->mn));
            if (!end) fetch(first + e, next, then, x, y, part);
            if (mine && p->flags & KL_P_ADD) add_matrix(first + e, p, x, y, sum[e]);
            else if (mine) multiply(first + e, slice + turn * SLICE, sum[e]);
            if (mine && last) finish(first + e, p, x, y, sum[e]);
            if (!end) keep(first + e, next, then, part, slice + (1 - turn) * SLICE);
        }
        p = next;
        l = then;
    }
#pragma omp barrier
}

void kl_offload_plain(const kl_offload *self, const kl_piece *piece, int ntile, const double *x, double *y)
{
    const int threads = self->arch ? SHARE : 1,
              teams = self->arch ? ntile : least(ntile, least(omp_get_max_threads(), omp_get_num_procs()));
    if (ntile == 0) return;
    KL_TEAMS(teams, threads, is_device_ptr(piece, x, y) firstprivate(threads, ntile))
    {
        double slice[2 * SLICE] __attribute__((aligned(16)));
#if defined(__NVPTX__) || defined(__AMDGCN__)
#pragma omp allocate(slice) allocator(omp_pteam_mem_alloc)
#endif
#pragma omp parallel num_threads(threads)
        /* there may be fewer teams than tiles */
        for (int i = omp_get_team_num(); i < ntile; i += omp_get_num_teams())
            product(omp_get_thread_num() * EACH, piece, piece + i, x, y, slice);
    }
}
