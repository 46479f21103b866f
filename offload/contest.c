/* The conventional and the tuned kernels of yamada2020, Figs. 1 and 2, by target regions that every target
   has, to be timed against our own H v; and their LOBPCG, Fig. 3, with one operation of the executor for each
   of theirs on vectors. As in cuda/baselines/contest.cu vectors are plain column-major matrices, with one
   entry stored for every diagonal element. Times are by the host's clock, for a region is done when it
   returns.
   SPDX-License-Identifier: Apache-2.0 */
#include "contest.h"
#include "base/mem.h"
#include "base/prof.h"
#include "base/random.h"
#include "device/pencil.h"
#include "target.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum {
    LANES = KL_KRON_LANES,
    SIDE = 32,
    PITCH = SIDE + 1,
    STRIP = 8,
    TEAM = 256,
    ROUNDS = 7,
    ENTRIES = 2048, /* of the sparse matrix that a tuned team has room for */
};

#define ALWAYS static inline __attribute__((always_inline))

/* A sparse matrix on the device, by rows. */
typedef struct csr {
    int n, nnz;
    int most[2]; /* entries of SIDE rows, and of STRIP rows, that a team brings */
    kl_dptr ptr, col, val;
} csr;

/* What a team has in its memory. */
typedef struct team_room {
    double val[ENTRIES], square[SIDE * PITCH];
    int col[ENTRIES];
} team_room;

/* The sizes of V, and a sparse matrix as kernels read it. */
typedef struct factor {
    int nl, nr;
    const int *ptr, *col;
    const double *val;
} factor;

/* ---------------------------------------------------------------- kernels of Figs. 1 and 2 */

ALWAYS int at_most(int a, int b) { return a < b ? a : b; }

/* Rows from `row` on, `rows` of them, to the team's memory. */
ALWAYS void bring(int t, int row, int rows, factor a, team_room *s)
{
    const int first = a.ptr[row], n = a.ptr[row + rows] - first;
    for (int k = t; k < n; k += omp_get_num_threads()) {
        s->val[k] = a.val[first + k];
        s->col[k] = a.col[first + k];
    }
}

/* Block `block` of W += A V from the transposed copy R, through a square of the team's memory; tuned: with
   the rows of A there as well. */
ALWAYS void left_block(int t, int block, int tuned, factor a, const double *r, double *w, team_room *s)
{
    const int across = (a.nl + SIDE - 1) / SIDE, i0 = block % across * SIDE, j0 = block / across * SIDE,
              rows = at_most(SIDE, a.nl - i0), cols = at_most(SIDE, a.nr - j0), step = omp_get_num_threads(),
              first = tuned ? a.ptr[i0] : 0;
    const double *const entry = tuned ? s->val : a.val;
    const int *const place = tuned ? s->col : a.col;
    if (tuned) bring(t, i0, rows, a, s);
    for (int e = t; e < SIDE * SIDE; e += step) {
        const int x = e % SIDE, y = e / SIDE;
        if (x < rows && y < cols) s->square[x * PITCH + y] = w[i0 + x + (int64_t)(j0 + y) * a.nl];
    }
#pragma omp barrier
    for (int e = t; e < SIDE * SIDE; e += step) {
        const int x = e % SIDE, y = e / SIDE;
        if (y >= rows || x >= cols) continue;
        double sum = s->square[y * PITCH + x];
        for (int k = a.ptr[i0 + y] - first; k < a.ptr[i0 + y + 1] - first; k++)
            sum += entry[k] * r[j0 + x + (int64_t)place[k] * a.nr];
        s->square[y * PITCH + x] = sum;
    }
#pragma omp barrier
    for (int e = t; e < SIDE * SIDE; e += step) {
        const int x = e % SIDE, y = e / SIDE;
        if (x < rows && y < cols) w[i0 + x + (int64_t)(j0 + y) * a.nl] = s->square[x * PITCH + y];
    }
#pragma omp barrier
}

/* W += V B^T; tuned: W = D V + V B^T in one loop. */
ALWAYS void right_block(int t, int block, int tuned, factor a, const double *d, const double *v, double *w,
                        team_room *s)
{
    const int across = (a.nl + SIDE - 1) / SIDE, i0 = block % across * SIDE, j0 = block / across * STRIP,
              rows = at_most(SIDE, a.nl - i0), cols = at_most(STRIP, a.nr - j0), step = omp_get_num_threads(),
              first = tuned ? a.ptr[j0] : 0;
    const double *const entry = tuned ? s->val : a.val;
    const int *const place = tuned ? s->col : a.col;
    if (tuned) bring(t, j0, cols, a, s);
#pragma omp barrier
    for (int e = t; e < SIDE * STRIP; e += step) {
        const int x = e % SIDE, y = e / SIDE;
        if (x >= rows || y >= cols) continue;
        const int64_t at = i0 + x + (int64_t)(j0 + y) * a.nl;
        double sum = tuned ? d[at] * v[at] : w[at];
        for (int k = a.ptr[j0 + y] - first; k < a.ptr[j0 + y + 1] - first; k++)
            sum += v[i0 + x + (int64_t)place[k] * a.nl] * entry[k];
        w[at] = sum;
    }
#pragma omp barrier
}

/* out[j + i nc] = in[i + j nr] for a column-major nr x nc matrix `in' */
ALWAYS void turn_block(int t, int block, int nr, int nc, const double *in, double *out, team_room *s)
{
    const int across = (nr + SIDE - 1) / SIDE, i0 = block % across * SIDE, j0 = block / across * SIDE,
              rows = at_most(SIDE, nr - i0), cols = at_most(SIDE, nc - j0), step = omp_get_num_threads();
    for (int e = t; e < SIDE * SIDE; e += step) {
        const int x = e % SIDE, y = e / SIDE;
        if (x < rows && y < cols) s->square[y * PITCH + x] = in[i0 + x + (int64_t)(j0 + y) * nr];
    }
#pragma omp barrier
    for (int e = t; e < SIDE * SIDE; e += step) {
        const int x = e % SIDE, y = e / SIDE;
        if (y < rows && x < cols) out[j0 + x + (int64_t)(i0 + y) * nc] = s->square[x * PITCH + y];
    }
#pragma omp barrier
}

/* ---------------------------------------------------------------- regions */

#if defined(__NVPTX__) || defined(__AMDGCN__)
#define IN_TEAM _Pragma("omp allocate(s) allocator(omp_pteam_mem_alloc)")
#else
#define IN_TEAM
#endif

/* BODY for every block, by a team each. */
#define BLOCKS(self, COUNT, BODY, ...)                                                                  \
    do {                                                                                                \
        const int kl_blocks = (COUNT), kl_own = (self)->arch ? TEAM : 1,                                \
                  kl_teams = (self)->arch ? kl_blocks : at_most(kl_blocks, omp_get_num_procs());        \
        KL_TEAMS(kl_teams, kl_own, __VA_ARGS__ firstprivate(kl_own, kl_blocks))                         \
        {                                                                                               \
            team_room s;                                                                                \
            IN_TEAM                                                                                     \
            KL_PRAGMA(omp parallel num_threads(kl_own))                                                 \
            for (int block = omp_get_team_num(); block < kl_blocks; block += omp_get_num_teams()) BODY; \
        }                                                                                               \
    } while (0)

typedef struct contest {
    kl_exec *ex;
    kl_offload *self;
    const kl_kron *k;
    int nl, nr;
    int64_t n; /* of a plain vector */
    csr a, b;
    kl_dptr d, r, v[6]; /* diagonal; V transposed; vectors */
} contest;

static int blocks_of(int n, int side) { return (n + side - 1) / side; }

static void left(const contest *c, int tuned, double *w)
{
    const int nl = c->nl, nr = c->nr, n = blocks_of(nl, SIDE) * blocks_of(nr, SIDE);
    const int *const ptr = (const int *)c->a.ptr.addr, *const col = (const int *)c->a.col.addr;
    const double *const val = kl_device(c->a.val), *const r = kl_device(c->r);
    if (tuned)
        BLOCKS(c->self, n,
               left_block(omp_get_thread_num(), block, 1, (factor){nl, nr, ptr, col, val}, r, w, &s),
               is_device_ptr(ptr, col, val, r, w) firstprivate(nl, nr));
    else
        BLOCKS(c->self, n,
               left_block(omp_get_thread_num(), block, 0, (factor){nl, nr, ptr, col, val}, r, w, &s),
               is_device_ptr(ptr, col, val, r, w) firstprivate(nl, nr));
}

static void right(const contest *c, int tuned, const double *v, double *w)
{
    const int nl = c->nl, nr = c->nr, n = blocks_of(nl, SIDE) * blocks_of(nr, STRIP);
    const int *const ptr = (const int *)c->b.ptr.addr, *const col = (const int *)c->b.col.addr;
    const double *const val = kl_device(c->b.val), *const d = kl_device(c->d);
    if (tuned)
        BLOCKS(c->self, n,
               right_block(omp_get_thread_num(), block, 1, (factor){nl, nr, ptr, col, val}, d, v, w, &s),
               is_device_ptr(ptr, col, val, d, v, w) firstprivate(nl, nr));
    else
        BLOCKS(c->self, n,
               right_block(omp_get_thread_num(), block, 0, (factor){nl, nr, ptr, col, val}, d, v, w, &s),
               is_device_ptr(ptr, col, val, d, v, w) firstprivate(nl, nr));
}

static void turn(const contest *c, const double *v)
{
    const int nl = c->nl, nr = c->nr;
    double *const r = kl_device(c->r);
    BLOCKS(c->self, blocks_of(nl, SIDE) * blocks_of(nr, SIDE),
           turn_block(omp_get_thread_num(), block, nl, nr, v, r, &s),
           is_device_ptr(v, r) firstprivate(nl, nr));
}

static void times_diagonal(const contest *c, const double *v, double *w)
{
    const int n = (int)c->n;
    const double *const d = kl_device(c->d);
    KL_KERNEL(c->self, n, w[t] = d[t] * v[t], is_device_ptr(d, v, w));
}

/* The parts of H v, ORDER of kl_kron_contest's rows. */
static void part(const contest *c, int how, int what, const double *v, double *w)
{
    const int tuned = how == KL_CONTEST_TUNED;
    switch (what) {
    case 0:
        if (!tuned) times_diagonal(c, v, w);
        break;
    case 1: right(c, tuned, v, w); break;
    case 2: left(c, tuned, w); break;
    case 3: turn(c, v); break;
    default: break; /* products of the transposed copy are never turned back */
    }
}

static kl_status apply(const contest *c, int how, kl_dptr v, kl_dptr w, kl_err *err)
{
    static const int order[] = {0, 3, 1, 2};
    if (how == KL_CONTEST_OURS) return c->ex->vt.kron_apply(c->ex, c->k, v, w, NULL, err);
    for (int i = 0; i < 4; i++) part(c, how, order[i], kl_device(v), kl_device(w));
    return KL_OK;
}

/* ---------------------------------------------------------------- times */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Median of ROUNDS, milliseconds, the first run dropped; what < 0: all of H v. */
static kl_status clock_of(const contest *c, int how, int what, double *median, kl_err *err)
{
    kl_status st = KL_OK;
    double ms[ROUNDS + 1];
    for (int i = 0; i <= ROUNDS; i++) {
        const double start = kl_prof_seconds();
        if (what >= 0) part(c, how, what, kl_device(c->v[0]), kl_device(c->v[1]));
        else KL_TRY(apply(c, how, c->v[0], c->v[1], err));
        ms[i] = 1e3 * (kl_prof_seconds() - start);
    }
    qsort(ms + 1, ROUNDS, sizeof *ms, by_size);
    *median = ms[1 + ROUNDS / 2];
out:
    return st;
}

static double dot(const contest *c, int64_t n, int i, int j)
{
    double s = NAN;
    c->ex->vt.dots(c->ex, n, 1, c->v[i], n, c->v[j], &s);
    return s;
}

static void scale(const contest *c, int64_t n, int i, double f)
{
    c->ex->vt.combine(c->ex, n, 0, c->v[i], n, NULL, f, c->v[i]);
}

static void add(const contest *c, int64_t n, int to, double f, int from)
{
    c->ex->vt.axpby(c->ex, n, f, c->v[from], 1.0, c->v[to]);
}

/* Fig. 3, ten inner products a step. */
static kl_status lobpcg(const contest *c, int how, int64_t n, int steps, kl_kron_contest *out, kl_err *err)
{
    enum { x, X, w, W, p, P };
    kl_status st = KL_OK;
    const kl_vtable *const vt = &c->ex->vt;
    KL_TRY(apply(c, how, c->v[x], c->v[X], err));
    const double size = sqrt(dot(c, n, x, x));
    scale(c, n, x, 1 / size);
    scale(c, n, X, 1 / size);
    double mu = dot(c, n, x, X);
    vt->copy(c->ex, n, c->v[X], c->v[w]);
    add(c, n, w, -mu, x);
    scale(c, n, w, 1 / sqrt(dot(c, n, w, w)));
    vt->fill(c->ex, n, 0.0, c->v[p]);
    vt->fill(c->ex, n, 0.0, c->v[P]);
    const double start = kl_prof_seconds();
    for (int step = 0; step < steps; step++) {
        double a[3][3], b[3][3], s[3] = {0, 0, 0};
        KL_TRY(apply(c, how, c->v[w], c->v[W], err));
        static const int basis[3] = {w, x, p};
        for (int i = 0; i < 3; i++)
            for (int j = 0; j <= i; j++) {
                a[i][j] = a[j][i] = dot(c, n, basis[j], basis[i] + 1);
                b[i][j] = b[j][i] = i == j && i != 1 ? 1 : dot(c, n, basis[j], basis[i]);
            }
        if (step == 0 || !kl_pencil_lowest(3, a, b, &mu, s)) {
            s[2] = 0.0;
            if (!kl_pencil_lowest(2, a, b, &mu, s))
                KL_TRY(kl_fail(err, KL_ENOCONV, "the tables of yamada2020: w and x are not independent"));
        }
        scale(c, n, p, s[2]);
        scale(c, n, P, s[2]);
        add(c, n, p, s[0], w);
        add(c, n, P, s[0], W);
        scale(c, n, x, s[1]);
        scale(c, n, X, s[1]);
        add(c, n, x, 1.0, p);
        add(c, n, X, 1.0, P);
        vt->copy(c->ex, n, c->v[X], c->v[w]);
        add(c, n, w, -mu, x);
        const double length = sqrt(dot(c, n, p, p));
        scale(c, n, p, 1 / length);
        scale(c, n, P, 1 / length);
        scale(c, n, w, 1 / sqrt(dot(c, n, w, w)));
    }
    out->seconds[how] = kl_prof_seconds() - start;
    out->energy[how] = mu;
out:
    return st;
}

/* ---------------------------------------------------------------- the executor's entry */

/* Bytes to the device, as whole doubles. */
static kl_status send(const contest *c, const void *from, int64_t bytes, kl_dptr *to, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(c->ex->vt.alloc(c->ex, bytes / 8 + 1, to, err));
    if (kl_offload_put(c->self, kl_device(*to), from, bytes) != 0)
        st = kl_fail(err, KL_EBROKEN, "%lld bytes could not be copied to the device", (long long)bytes);
out:
    return st;
}

static kl_status put_csr(const contest *c, const kl_kron_op *o, int64_t n, csr *to, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t nnz = o ? o->nnz : 0;
    int *ptr = NULL, *col = NULL;
    double *val = NULL;
    to->n = (int)n;
    to->nnz = (int)nnz;
    KL_TRY(kl_alloc(&ptr, n + 1, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&col, nnz, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&val, nnz, KL_MEM_WORK, err));
    for (int64_t i = 0; o && i < n; i++) {
        ptr[i + 1] = (int)o->ptr[i + 1];
        for (uint32_t q = o->ptr[i]; q < o->ptr[i + 1]; q++) {
            col[q] = o->idx16 ? (int)o->idx16[q] : (int)o->idx32[q];
            val[q] = !o->unit ? o->coef[q] : q < o->minus[i] ? o->scale : -o->scale;
        }
    }
    for (int which = 0; which < 2; which++) {
        const int64_t rows = which ? STRIP : SIDE;
        for (int64_t i = 0; i < n; i += rows) {
            const int entries = ptr[i + rows < n ? i + rows : n] - ptr[i];
            if (entries > to->most[which]) to->most[which] = entries;
        }
    }
    KL_TRY(send(c, ptr, (n + 1) * (int64_t)sizeof *ptr, &to->ptr, err));
    KL_TRY(send(c, col, nnz * (int64_t)sizeof *col, &to->col, err));
    KL_TRY(send(c, val, nnz * (int64_t)sizeof *val, &to->val, err));
out:
    kl_free(&ptr);
    kl_free(&col);
    kl_free(&val);
    return st;
}

/* tiles[k->n] of the host to a plain vector of the device. */
static kl_status put_plain(const contest *c, const double *tiles, double *plain, kl_dptr to, kl_err *err)
{
    for (int64_t j = 0; j < c->nr; j++)
        for (int64_t i = 0; i < c->nl; i++)
            plain[j * c->nl + i] = tiles[(j / LANES * c->nl + i) * LANES + j % LANES];
    return c->ex->vt.upload(c->ex, to, plain, c->n, err);
}

/* A random vector to v[0], in tiles or plain. */
static kl_status start(const contest *c, int plain, double *host, kl_err *err)
{
    double *const tiles = host, *const other = host + c->k->n;
    for (int64_t j = 0; j < c->k->block->ntile * LANES; j++)
        for (int64_t i = 0; i < c->nl; i++) {
            const int64_t at = (j / LANES * c->nl + i) * LANES + j % LANES;
            tiles[at] = j < c->nr ? kl_random_at(11, at) : 0.0;
        }
    return plain ? put_plain(c, tiles, other, c->v[0], err)
                 : c->ex->vt.upload(c->ex, c->v[0], tiles, c->k->n, err);
}

/* Largest deviation of v[1] from v[4], both plain, relative to the largest element. */
static kl_status compare(const contest *c, double *host, double *worst, kl_err *err)
{
    kl_status st = KL_OK;
    double *const a = host, *const b = host + c->k->n, off = 0, most = 0;
    KL_TRY(c->ex->vt.download(c->ex, a, c->v[1], c->n, err));
    KL_TRY(c->ex->vt.download(c->ex, b, c->v[4], c->n, err));
    for (int64_t i = 0; i < c->n; i++) {
        const double d = fabs(a[i] - b[i]);
        off = d > off || isnan(d) ? d : off;
        most = fmax(most, fabs(b[i]));
    }
    *worst = off / most;
out:
    return st;
}

static kl_status prepare(contest *c, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_kron_block *const b = c->k->block;
    if (c->k->nblock != 1 || b->ncross != 0 || b->nl * b->nr > INT32_MAX)
        return kl_fail(err, KL_EINPUT,
                       "the tables of yamada2020 are for H = D + A (x) 1 + 1 (x) B with fewer than 2^31 "
                       "states: a Hubbard model in its product form");
    c->nl = (int)b->nl;
    c->nr = (int)b->nr;
    c->n = b->nl * b->nr;
    KL_TRY(put_csr(c, b->a, b->nl, &c->a, err));
    KL_TRY(put_csr(c, b->b, b->nr, &c->b, err));
    if (c->a.most[0] > ENTRIES || c->b.most[1] > ENTRIES)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "the tables of yamada2020: %d entries of some rows; a team has room for %d",
                       c->a.most[0] > c->b.most[1] ? c->a.most[0] : c->b.most[1], ENTRIES));
    KL_TRY(c->ex->vt.alloc(c->ex, c->n, &c->d, err));
    KL_TRY(c->ex->vt.alloc(c->ex, c->n, &c->r, err));
    for (int i = 0; i < 6; i++) KL_TRY(c->ex->vt.alloc(c->ex, c->k->n, &c->v[i], err));
out:
    return st;
}

static void finish(contest *c)
{
    kl_dptr *const all[] = {&c->a.ptr, &c->a.col, &c->a.val, &c->b.ptr, &c->b.col, &c->b.val, &c->d,
                            &c->r,     &c->v[0],  &c->v[1],  &c->v[2],  &c->v[3],  &c->v[4],  &c->v[5]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->addr) c->ex->vt.release(c->ex, all[i]);
}

kl_status kl_offload_kron_contest(kl_exec *ex, const kl_kron *k, kl_kron_contest *out, kl_err *err)
{
    kl_status st = KL_OK;
    contest c = {.ex = ex, .self = ex->self, .k = k};
    double *host = NULL;
    const int steps = out->steps;
    *out = (kl_kron_contest){.steps = steps, .vectors = "single operations"};
    KL_TRY(prepare(&c, err));
    /* see cuda/baselines/contest.cu */
    out->flop = (double)c.n * (46.8 + 2.0 * ((double)c.a.nnz / c.nl + (double)c.b.nnz / c.nr));
    KL_TRY(kl_alloc(&host, 2 * k->n, KL_MEM_WORK, err));
    kl_kron_diagonal(k, 0, k->n, host);
    KL_TRY(put_plain(&c, host, host + k->n, c.d, err));
    KL_TRY(start(&c, 0, host, err));
    KL_TRY(clock_of(&c, KL_CONTEST_OURS, -1, &out->total[KL_CONTEST_OURS], err));
    KL_TRY(ex->vt.download(ex, host, c.v[1], k->n, err));
    KL_TRY(put_plain(&c, host, host + k->n, c.v[4], err));
    KL_TRY(start(&c, 1, host, err));
    static const int ways[] = {KL_CONTEST_CONVENTIONAL, KL_CONTEST_TUNED};
    for (int i = 0; i < 2; i++) {
        const int how = ways[i];
        ex->vt.fill(ex, c.n, NAN, c.v[1]);
        KL_TRY(clock_of(&c, how, -1, &out->total[how], err));
        KL_TRY(compare(&c, host, &out->worst[how], err));
        for (int what = how == KL_CONTEST_TUNED ? 1 : 0; what < 4; what++)
            KL_TRY(clock_of(&c, how, what, &out->ms[how][what], err));
    }
    for (int how = KL_CONTEST_CONVENTIONAL; how <= KL_CONTEST_OURS && steps > 0; how++) {
        if (how == KL_CONTEST_CUSPARSE) continue;
        KL_TRY(start(&c, how != KL_CONTEST_OURS, host, err));
        KL_TRY(lobpcg(&c, how, how == KL_CONTEST_OURS ? k->n : c.n, steps, out, err));
    }
out:
    kl_free(&host);
    finish(&c);
    return st;
}
