/* Sparse formats on a matrix with the statistics of mahmoud2018, on a Matrix Market file, or on the matrix of
   a molecule. A line for each format and number of vectors: residual against plain sums over rows, time,
   GB/s, and the share of the copy rate measured in the same run.
   SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench_ci.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/beside.h"
#include "ci/ci.h"
#include "ci/cimatrix.h"
#include "base/mem.h"
#include "run/runfile.h"
#include "sparse/mmfile.h"
#include "run/options.h"
#include "base/par.h"
#include "base/prof.h"
#include "base/random.h"
#include "cli/report.h"
#include "exec/spmv.h"
#include "run/task.h"

typedef struct bench {
    kl_exec *ex;
    int nthread;
    double seconds; /* for one line */
    double ceiling; /* GB/s: a device's copy rate, the host's reading rate */
    const char *ceiling_name;
    double exact; /* energy; 0: not known */
    const char *beside;
    int tables;
    FILE *csv; /* NULL, or the tables for `kronlat plot' */
    double yardstick[KL_SPMV_MAX_VEC + 1]; /* ms of cuSPARSE, by number of vectors; 0: not measured */
} bench;

/* ---------------------------------------------------------------- ceiling */

typedef struct copy_job {
    const double *from;
    double *to;
    int64_t n, chunk;
} copy_job;

static void copy_task(void *self, int64_t task, int thread)
{
    const copy_job *const j = self;
    const int64_t from = task * j->chunk, n = j->n - from < j->chunk ? j->n - from : j->chunk;
    (void)thread;
    memcpy(j->to + from, j->from + from, (size_t)n * sizeof(double));
}

/* Seconds; of one thread of the host CPU seconds, which other programs on the machine do not lengthen. */
static double now(const bench *b)
{
    return b->ex->space == KL_SPACE_HOST && b->nthread == 1 ? kl_prof_cpu_seconds() : kl_clock();
}

/* The executor has done all it was asked for when a number of it is here. */
static kl_status wait(kl_exec *ex, kl_dptr p, kl_err *err)
{
    double one;
    return ex->space == KL_SPACE_HOST ? KL_OK : ex->vt.download(ex, &one, p, 1, err);
}

static kl_status measure_ceiling(bench *b, kl_err *err)
{
    enum {
        N = 1 << 24,
        MANY = 10,
    };
    kl_status st = KL_OK;
    kl_exec *const ex = b->ex;
    kl_dptr x = {0};
    double copy = 0, read = 0, dot;
    const int device = ex->space == KL_SPACE_DEVICE, many = device ? MANY : 1;
    const int64_t n = device ? 4 * (int64_t)N : N;
    const double begin = kl_clock();
    KL_TRY(ex->vt.alloc(ex, 2 * n, &x, err));
    ex->vt.fill(ex, 2 * n, 1.0, x);
    copy_job job = {(const double *)x.addr, (double *)x.addr + n, n, n / (16 * b->nthread)};
    for (int k = 0; k < 3 || kl_clock() - begin < b->seconds; k++) {
        const double start = now(b);
        if (device) {
            for (int i = 0; i < many; i++) ex->vt.copy(ex, n, x, kl_dptr_at(x, n));
            KL_TRY(wait(ex, x, err));
        } else kl_par_for(b->nthread, (n + job.chunk - 1) / job.chunk, copy_task, &job);
        const double middle = now(b);
        for (int i = 0; i < many; i++) ex->vt.dots(ex, n, 1, kl_dptr_at(x, n), n, x, &dot);
        if (k == 0) continue;
        copy = fmax(copy, 16e-9 * (double)n * many / (middle - start));
        read = fmax(read, 16e-9 * (double)n * many / (now(b) - middle));
    }
    b->ceiling = device ? copy : read;
    b->ceiling_name = device ? "copy" : "reading";
    printf("%s, %s, %d thread%s: copy %.4g GB/s (read and written), reading %.4g GB/s%s\n", ex->name,
           ex->where, b->nthread, b->nthread == 1 ? "" : "s", copy, read,
           !device && b->nthread == 1 ? "; times are CPU times" : "");
out:
    ex->vt.release(ex, &x);
    return st;
}

/* ---------------------------------------------------------------- products */

enum { MOST_VECTORS = 16 };

/* What every format must give, by long sums over the rows of the CSR matrix: a vector a task, or some of its
   rows where nothing is mirrored; norm: largest sum |a x| of a row that a thread met. */
enum { PLAIN_ROWS = 16384 };

typedef struct plain_job {
    const kl_spmat *m;
    const double *x;
    double *y, *norm;
    int64_t rows; /* of a task */
} plain_job;

static void plain_task(void *self, int64_t task, int thread)
{
    plain_job *const j = self;
    const kl_spmat *const m = j->m;
    const int64_t pieces = (m->nrow + j->rows - 1) / j->rows, v = task / pieces,
                  from = task % pieces * j->rows, to = from + j->rows < m->nrow ? from + j->rows : m->nrow;
    const double *const x = j->x + v * m->ncol;
    double *const y = j->y + v * m->nrow;
    memset(y + from, 0, (size_t)(to - from) * sizeof(double));
    for (int64_t i = from; i < to; i++) {
        double sum = 0, size = 0;
        for (int64_t k = kl_sp_offset(m, m->start, i); k < kl_sp_offset(m, m->start, i + 1); k++) {
            const int64_t c = kl_sp_column(m, m->rest_column, k);
            sum += m->rest_value[k] * x[c];
            size += fabs(m->rest_value[k] * x[c]);
            if (m->symmetric && c != i) y[c] += m->rest_value[k] * x[i];
        }
        y[i] += sum;
        j->norm[thread] = fmax(j->norm[thread], size);
    }
}

/* A matrix with vectors on the executor and what must come out. */
typedef struct trial {
    const kl_spmat *csr;
    int nvec;
    kl_dptr x, y;
    double *wanted, *seen; /* [nvec][nrow] */
    double norm;
} trial;

/* Not copied into other formats. */
static int is_large(const kl_spmat *csr) { return kl_spmat_measured_bytes(csr) > 2000000000; }

static void trial_clear(bench *b, trial *t)
{
    b->ex->vt.release(b->ex, &t->x);
    b->ex->vt.release(b->ex, &t->y);
    kl_free(&t->wanted);
    kl_free(&t->seen);
}

static kl_status trial_make(bench *b, const kl_spmat *csr, int nvec, trial *t, kl_err *err)
{
    kl_status st = KL_OK;
    double *x = NULL, *norm = NULL;
    *t = (trial){.csr = csr, .nvec = nvec, .norm = 1e-300};
    memset(b->yardstick, 0, sizeof(b->yardstick));
    KL_TRY(kl_alloc(&x, csr->ncol * nvec, KL_MEM_VECTOR, err));
    KL_TRY(kl_alloc(&t->wanted, csr->nrow * nvec, KL_MEM_VECTOR, err));
    KL_TRY(kl_alloc(&t->seen, csr->nrow * nvec, KL_MEM_VECTOR, err));
    KL_TRY(b->ex->vt.alloc(b->ex, csr->ncol * nvec, &t->x, err));
    KL_TRY(b->ex->vt.alloc(b->ex, csr->nrow * nvec, &t->y, err));
    for (int64_t k = 0; k < csr->ncol * nvec; k++) x[k] = kl_random_at(7, k);
    KL_TRY(b->ex->vt.upload(b->ex, t->x, x, csr->ncol * nvec, err));
    KL_TRY(kl_alloc(&norm, b->nthread, KL_MEM_WORK, err));
    plain_job job = {.m = csr,
                     .x = x,
                     .y = t->wanted,
                     .norm = norm,
                     .rows = csr->symmetric && csr->nrow > 0 ? csr->nrow : PLAIN_ROWS};
    kl_par_for(b->nthread, (csr->nrow + job.rows - 1) / job.rows * nvec, plain_task, &job);
    for (int k = 0; k < b->nthread; k++) t->norm = fmax(t->norm, norm[k]);
out:
    kl_free(&x);
    kl_free(&norm);
    if (st != KL_OK) trial_clear(b, t);
    return st;
}

/* Checks one product, then times many. *ms: of one, the best of several rounds. */
static kl_status one_way(const bench *b, const trial *t, kl_spmv *s, int nvec, double *ms, double *worst,
                         kl_err *err)
{
    kl_status st = KL_OK;
    const kl_spmat *const m = s->m;
    double best = INFINITY;
    const int many = b->ex->space == KL_SPACE_DEVICE ? 20 : 1;
    *worst = 0;
    b->ex->vt.fill(b->ex, m->nrow * nvec, NAN, t->y);
    KL_TRY(kl_spmv_apply(s, nvec, t->x, m->ncol, t->y, m->nrow, err));
    KL_TRY(b->ex->vt.download(b->ex, t->seen, t->y, m->nrow * nvec, err));
    for (int64_t k = 0; k < m->nrow * nvec; k++) {
        const double far = fabs(t->seen[k] - t->wanted[k]);
        *worst = far <= *worst ? *worst : far; /* NaN stays */
    }
    *worst /= t->norm;
    const double limit = 8 * 2.3e-16 * sqrt((double)m->longest + 1);
    if (!(*worst <= limit))
        return kl_fail(err, KL_EBROKEN,
                       "%s, way %s, with %d vectors: residual %.1e is above %.1e; no time is told",
                       kl_spformat_name(m->format), kl_spway_name(s->way), nvec, *worst, limit);
    const double begin = kl_clock();
    do {
        const double start = now(b);
        for (int k = 0; k < many; k++) KL_TRY(kl_spmv_apply(s, nvec, t->x, m->ncol, t->y, m->nrow, err));
        KL_TRY(wait(b->ex, t->y, err));
        best = fmin(best, (now(b) - start) / many);
    } while (kl_clock() - begin < b->seconds);
    *ms = 1e3 * best;
out:
    return st;
}

static kl_status one_line(bench *b, const trial *t, kl_spmv *s, kl_spway asked, int nvec, kl_err *err)
{
    const kl_spmat *const m = s->m;
    double ms, worst;
    char how[40] = "", ratio[40] = "", speed[200];
    const kl_status st = one_way(b, t, s, nvec, &ms, &worst, err);
    if (st != KL_OK) return st;
    const double bytes = (double)kl_spmv_bytes(m, nvec), nnz = (double)m->nnz * (m->symmetric ? 2 : 1);
    if (asked == KL_SPWAY_CUSPARSE) b->yardstick[nvec] = ms;
    if (b->ex->space == KL_SPACE_DEVICE) snprintf(how, sizeof(how), " %-8s", kl_spway_name(asked));
    if (s->threads > 0) snprintf(how, sizeof(how), " %-8s %4d threads", kl_spway_name(asked), s->threads);
    if (b->yardstick[nvec] > 0 && ms > 0)
        snprintf(ratio, sizeof(ratio), "  %5.2f x cuSPARSE", b->yardstick[nvec] / ms);
    if (ms > 0)
        snprintf(speed, sizeof(speed), "%9.4f ms  %7.2f GB/s (%3.0f %% of %s)  %7.2f GFLOP/s%s", ms,
                 1e-6 * bytes / ms, 100e-6 * bytes / ms / b->ceiling, b->ceiling_name, 2e-6 * nnz * nvec / ms,
                 ratio);
    else snprintf(speed, sizeof(speed), "too short for the clock");
    printf("resid %.0e PASS | %-6s%s u%d%s nvec=%-2d | %s | %9.2f MB, formula %9.2f\n", worst,
           kl_spformat_name(m->format), m->symmetric ? " half" : "", 8 * m->index_bytes, how, nvec, speed,
           1e-6 * (double)kl_spmat_measured_bytes(m), 1e-6 * (double)kl_spmat_formula_bytes(m));
    fflush(stdout);
    return KL_OK;
}

/* One way, prepared once, with 1, 2, 4, ... up to `most` vectors; few: 1 and 8 alone. A way that is not for
   this matrix says nothing. */
static kl_status lines(bench *b, const trial *t, const kl_spmat *m, kl_spway way, int threads, int most,
                       int few, kl_err *err)
{
    kl_spmv *s = NULL;
    kl_status st = kl_spmv_create_way(b->ex, m, way, threads, &s, err);
    if (st == KL_EABSENT) return KL_OK;
    if (st == KL_OK && b->ex->space == KL_SPACE_DEVICE && threads == 0)
        printf("way %s%s%s: laid out and there in %.3f s\n", kl_spway_name(way),
               s->way != way ? ", which is " : "", s->way != way ? kl_spway_name(s->way) : "", s->seconds);
    for (int nvec = 1; st == KL_OK && nvec <= most; nvec *= 2)
        if (!few || nvec == 1 || nvec == 8) st = one_line(b, t, s, way, nvec, err);
    kl_spmv_destroy(&s);
    return st;
}

/* CSR by every way of the device, the yardsticks first, and the hybrid with the paper's blocks of threads; of
   a large matrix what a run takes and what is fastest, next to the library. */
static kl_status bench_ways(bench *b, const trial *t, kl_err *err)
{
    static const kl_spway all[] = {KL_SPWAY_CUSPARSE, KL_SPWAY_CSR5,  KL_SPWAY_WARP,
                                   KL_SPWAY_PACKED,   KL_SPWAY_TILES, KL_SPWAY_AUTO},
                          some[] = {KL_SPWAY_CUSPARSE, KL_SPWAY_WARP, KL_SPWAY_AUTO};
    static const int threads[] = {32, 64, 128, 256, 512};
    kl_status st = KL_OK;
    kl_spmat *m = NULL;
    const int large = is_large(t->csr);
    const kl_spway *const way = large ? some : all;
    for (size_t k = 0; k < (large ? sizeof(some) : sizeof(all)) / sizeof(*all); k++)
        KL_TRY(lines(b, t, t->csr, way[k], 0,
                     way[k] == KL_SPWAY_CSR5 || (large && way[k] == KL_SPWAY_AUTO) ? 1 : t->nvec, 0, err));
    if (t->csr->symmetric || large) goto out;
    KL_TRY(kl_spmat_convert(
        t->csr,
        &(kl_spopts){.format = KL_SP_HYBRID,
                     .boundary = t->csr->nrow == KL_CIMATRIX_SMALL ? KL_CIMATRIX_BOUNDARY : 0,
                     .nthread = b->nthread},
        &m, err));
    for (int k = KL_SPWAY_WARP; k <= KL_SPWAY_WARPS; k++)
        for (size_t i = k == KL_SPWAY_WARPS; i < sizeof(threads) / sizeof(*threads); i++)
            KL_TRY(lines(b, t, m, (kl_spway)k, threads[i], 1, 0, err));
out:
    kl_spmat_destroy(&m);
    return st;
}

/* Every format that can hold the matrix, 1 to 16 vectors. */
static kl_status bench_matrix(bench *b, const char *name, const kl_spmat *csr, kl_err *err)
{
    kl_status st = KL_OK;
    kl_spmat *m = NULL;
    trial t = {0};
    kl_spmat_facts facts;
    const int device = b->ex->space == KL_SPACE_DEVICE;
    kl_spmat_look(csr, 0, &facts);
    printf("%s: %lld rows, %lld non-zeros%s, longest row %lld (row %lld), sparsity %.6f; BOUNDARY %lld: %lld "
           "left (sparsity %.6f), %lld right (%.6f)\n",
           name, (long long)csr->nrow, (long long)csr->nnz, csr->symmetric ? " in one half" : "",
           (long long)csr->longest, (long long)csr->longest_row, facts.sparsity, (long long)facts.boundary,
           (long long)facts.nnz_reference, facts.sparsity_reference, (long long)facts.nnz_expansion,
           facts.sparsity_expansion);
    KL_TRY(trial_make(b, csr, is_large(csr) ? 4 : MOST_VECTORS, &t, err));
    if (device) KL_TRY(bench_ways(b, &t, err));
    for (int format = 0; format < KL_NSP; format++)
        for (int narrow = 0; narrow < (csr->ncol <= 65536 ? 2 : 1); narrow++) {
            if (csr->symmetric && format != KL_SP_CSR && format != KL_SP_HYBRID) continue;
            if (is_large(csr) && (format != KL_SP_CSR || device)) continue;
            /* shown already; on devices the narrow columns only */
            if (device && (format == KL_SP_CSR || (narrow == 0 && csr->ncol <= 65536))) continue;
            const kl_spopts opts = {
                .format = (kl_spformat)format, .index_bytes = narrow ? 2 : 4, .nthread = b->nthread};
            const double places =
                format == KL_SP_ELL || format == KL_SP_ELLR ? (double)csr->nrow * (double)csr->longest : 0;
            if (places > 4 * (double)csr->nnz + 1e6) {
                printf("%-6s would take %.0f MB for its padding: left out\n",
                       kl_spformat_name((kl_spformat)format), 12e-6 * places);
                continue;
            }
            if (!is_large(csr)) KL_TRY(kl_spmat_convert(csr, &opts, &m, err));
            KL_TRY(lines(b, &t, m != NULL ? m : csr, KL_SPWAY_AUTO, 0, t.nvec, device, err));
            kl_spmat_destroy(&m);
        }
out:
    kl_spmat_destroy(&m);
    trial_clear(b, &t);
    return st;
}

/* ---------------------------------------------------------------- the paper's tables */

/* A number of a table, as `kronlat plot' takes them. */
static void put_number(const bench *b, const char *name, const char *quantity, double value, const char *unit)
{
    if (b->csv) fprintf(b->csv, "\"%s\",\"%s\",%.9g,%s\n", name, quantity, value, unit);
}

/* A row of Tables 3 to 5: what is made and what is printed, and megabytes (MiB, as there) by format, each
   equal to its formula. */
static kl_status table_memory(const bench *b, int number, const kl_spmat *csr, kl_err *err)
{
    const int nthread = b->nthread;
    static const kl_spformat formats[] = {KL_SP_CSR, KL_SP_ELL, KL_SP_SELL, KL_SP_HYBRID};
    kl_status st = KL_OK;
    kl_spmat *m = NULL;
    kl_spmat_facts f;
    int64_t expansion, longest, row;
    kl_spmat_look(csr, KL_CIMATRIX_BOUNDARY, &f);
    kl_cimatrix_printed(number, &expansion, &longest, &row);
    double sparsity[2];
    kl_cimatrix_sparsity(&f, csr->nrow, &sparsity[0], &sparsity[1]);
    const int same = f.nnz_expansion == expansion && f.longest == longest && f.longest_row + 1 == row;
    printf("%2d | %lld %lld %lld, longest %lld in row %lld: %s | %.6f %.6f %.6f (by "
           "row %.6f %.6f) | MiB",
           number, (long long)f.nnz_reference, (long long)f.nnz_expansion, (long long)f.nnz,
           (long long)f.longest, (long long)f.longest_row + 1,
           csr->nrow != KL_CIMATRIX_SMALL ? "times only are printed"
           : same                         ? "as printed"
                                          : "NOT as printed",
           sparsity[0], sparsity[1], f.sparsity, f.sparsity_reference, f.sparsity_expansion);
    char name[40];
    snprintf(name, sizeof name, "matrix %d", number);
    put_number(b, name, "non-zeros", 1e-6 * (double)f.nnz, "million non-zeros");
    put_number(b, name, "left tenth of the columns", sparsity[0], "sparsity");
    put_number(b, name, "the rest", sparsity[1], "sparsity");
    put_number(b, name, "all", f.sparsity, "sparsity");
    for (size_t k = 0; k < sizeof(formats) / sizeof(*formats); k++) {
        KL_TRY(kl_spmat_convert(
            csr,
            &(kl_spopts){.format = formats[k],
                         .index_bytes = 4,
                         .boundary = formats[k] == KL_SP_HYBRID
                                         ? (csr->nrow == KL_CIMATRIX_SMALL ? KL_CIMATRIX_BOUNDARY : 60)
                                         : 0,
                         .nthread = nthread},
            &m, err));
        const int64_t bytes = kl_spmat_measured_bytes(m);
        printf(" %s %.2f", kl_spformat_name(formats[k]), (double)bytes / 1048576);
        put_number(b, name, kl_spformat_name(formats[k]), (double)bytes / 1048576, "MiB");
        if (bytes != kl_spmat_formula_bytes(m))
            KL_TRY(kl_fail(err, KL_EBROKEN, "%s takes %lld bytes; its formula says %lld",
                           kl_spformat_name(formats[k]), (long long)bytes,
                           (long long)kl_spmat_formula_bytes(m)));
        kl_spmat_destroy(&m);
    }
    printf(" = formula\n");
out:
    kl_spmat_destroy(&m);
    return st;
}

enum { NWAY = 6 };

/* A row of Tables 9 and 10 in ms: cuSPARSE, CSR5, Alg. 7 with blocks of 16 and 32 threads, section 4.2, and
   what is taken here; Tables 6 to 8 are the three in the middle. boundary: of the hybrid format; 0: it is
   chosen. */
static kl_status table_speed(bench *b, const char *name, const kl_spmat *csr, int64_t boundary,
                             double sum[NWAY], kl_err *err)
{
    static const char *const quantity[NWAY] = {"cuSPARSE",     "CSR5, our writing", "blocks of 16",
                                               "blocks of 32", "blocks of 64",      "this program"};
    kl_status st = KL_OK;
    kl_spmat *m = NULL;
    kl_spmv *s = NULL;
    trial t = {0};
    double ms[NWAY], worst, most = 0;
    KL_TRY(trial_make(b, csr, 1, &t, err));
    KL_TRY(kl_spmat_convert(
        csr,
        &(kl_spopts){.format = KL_SP_HYBRID, .index_bytes = 4, .boundary = boundary, .nthread = b->nthread},
        &m, err));
    const struct {
        const kl_spmat *m;
        kl_spway way;
        int threads;
    } column[NWAY] = {{csr, KL_SPWAY_CUSPARSE, 0}, {csr, KL_SPWAY_CSR5, 0}, {m, KL_SPWAY_WARP, 16},
                      {m, KL_SPWAY_WARP, 32},      {m, KL_SPWAY_WARPS, 64}, {csr, KL_SPWAY_AUTO, 0}};
    for (int k = 0; k < NWAY; k++) {
        ms[k] = -1; /* where the executor does not know this way */
        st = kl_spmv_create_way(b->ex, column[k].m, column[k].way, column[k].threads, &s, err);
        if (st == KL_EABSENT) continue;
        if (st != KL_OK) goto out;
        KL_TRY(one_way(b, &t, s, 1, &ms[k], &worst, err));
        kl_spmv_destroy(&s);
        sum[k] += ms[k];
        most = fmax(most, worst);
    }
    st = KL_OK;
    printf("%s | resid %.0e PASS |", name, most);
    for (int k = 0; k < NWAY; k++) printf(ms[k] < 0 ? "         -" : " %9.4f", ms[k]);
    for (int k = 0; k < NWAY; k++)
        if (ms[k] >= 0) put_number(b, name, quantity[k], ms[k], "ms");
    if (ms[0] > 0) printf(" | %.2f x cuSPARSE", ms[0] / ms[NWAY - 1]);
    putchar('\n');
    fflush(stdout);
out:
    kl_spmv_destroy(&s);
    kl_spmat_destroy(&m);
    trial_clear(b, &t);
    return st;
}

static kl_status bench_tables(bench *b, int64_t rows, kl_err *err)
{
    kl_status st = KL_OK;
    kl_spmat *csr = NULL;
    double sum[NWAY] = {0};
    const int device = b->ex->space == KL_SPACE_DEVICE;
    printf("mahmoud2018, Tables 3 to 5: non-zeros left, right, in all, longest row | sparsity left, right, "
           "in all, the left being a tenth of the columns (by row: up to its 655th non-zero) | memory\n");
    if (device)
        printf("and Table %s, ms: cuSPARSE, CSR5, half a warp a row (16 threads a block), a warp a row (32), "
               "two warps "
               "a row (64), "
               "this program's choice\n",
               rows == KL_CIMATRIX_SMALL ? "9" : "10");
    for (int number = 1; number <= KL_CIMATRIX_COUNT; number++) {
        KL_TRY(kl_cimatrix_create(rows, number, b->nthread, &csr, err));
        /* of the others times only are printed */
        if (number == 1 || rows == KL_CIMATRIX_SMALL) KL_TRY(table_memory(b, number, csr, err));
        char name[40];
        snprintf(name, sizeof name, "matrix %d", number);
        if (device)
            KL_TRY(
                table_speed(b, name, csr, rows == KL_CIMATRIX_SMALL ? KL_CIMATRIX_BOUNDARY : 60, sum, err));
        kl_spmat_destroy(&csr);
    }
    if (device) {
        printf("mean                 |");
        for (int k = 0; k < NWAY; k++) printf(" %9.4f", sum[k] / (int)KL_CIMATRIX_COUNT);
        putchar('\n');
    }
out:
    kl_spmat_destroy(&csr);
    return st;
}

/* ---------------------------------------------------------------- molecules */

typedef struct molecule {
    bench *b;
    char name[300];
    double seconds, cpu; /* that products took meanwhile */
} molecule;

/* A real matrix in the tables. */
static kl_status real_row(bench *b, const char *name, const kl_spmat *csr, kl_err *err)
{
    kl_spmat_facts f;
    double sum[NWAY];
    kl_spmat_look(csr, 0, &f);
    for (int k = 0; k < NWAY; k++) sum[k] = 0;
    printf("%s: %lld rows, %lld non-zeros, longest row %lld, sparsity %.6f\n", name, (long long)csr->nrow,
           (long long)csr->nnz, (long long)csr->longest, f.sparsity);
    put_number(b, name, "non-zeros", 1e-6 * (double)csr->nnz, "million non-zeros");
    put_number(b, name, "all", f.sparsity, "sparsity");
    return b->ex->space == KL_SPACE_DEVICE ? table_speed(b, name, csr, 0, sum, err) : KL_OK;
}

static kl_status on_matrix(void *self, int irrep, const kl_spmat *csr, kl_err *err)
{
    molecule *const m = self;
    char name[400];
    const double start = kl_clock(), cpu = kl_prof_cpu_seconds();
    snprintf(name, sizeof(name), "%s, irrep %d", m->name, irrep + 1);
    const kl_status st = m->b->tables ? real_row(m->b, name, csr, err) : bench_matrix(m->b, name, csr, err);
    m->seconds += kl_clock() - start;
    m->cpu += kl_prof_cpu_seconds() - cpu;
    return st;
}

/* A whole run, its energy against what is known and what another program finds. */
static kl_status one_run(molecule *m, const char *how, const kl_fcidump *f, const kl_ci_opts *ci,
                         const kl_ci_monitor *monitor, kl_err *err)
{
    kl_status st = KL_OK;
    bench *const b = m->b;
    kl_ci_result r = {0};
    int64_t n = 0;
    int products = 0;
    double build = 0, solve = 0, list = 0, matrix = 0, bring = 0, flop = 0;
    const double cpu0 = kl_prof_cpu_seconds();
    m->seconds = m->cpu = 0;
    KL_TRY(kl_ci_run(f, b->ex, ci, monitor, &r, err));
    const double cpu = kl_prof_cpu_seconds() - cpu0 - m->cpu;
    for (int g = 0; g < r.nirrep; g++) {
        n += r.block[g].ndet;
        products += r.block[g].napply;
        build += r.block[g].seconds_build;
        solve += r.block[g].seconds_solve;
        list += r.block[g].seconds_list;
        matrix += r.block[g].seconds_matrix;
        bring += r.block[g].seconds_bring;
        flop += (double)r.block[g].flops * r.block[g].napply;
    }
    printf("resid %.0e %s | %s: %lld determinants, E %.12f | build %.3f s (determinants %.3f",
           r.state[0].residual, r.converged ? "PASS" : "NOT CONVERGED", how, (long long)n, r.state[0].energy,
           build - m->seconds, list);
    if (flop == 0) printf(", matrix %.3f, layout and upload %.3f", matrix, bring);
    printf("), solve %.3f s (%d products", solve, products);
    if (flop > 0) printf(", %.4g GFLOP in all", 1e-9 * flop);
    printf("), all %.3f s, CPU %.2f s, %d thread%s\n", r.seconds_all - m->seconds, cpu, b->nthread,
           b->nthread == 1 ? "" : "s");
    for (int g = 0; g < r.nirrep; g++)
        if (r.block[g].way != KL_SPWAY_AUTO)
            printf("  irrep %d: products by way %s; another layout pays from %lld products on (0: none)\n",
                   g + 1, kl_spway_name(r.block[g].way), (long long)r.block[g].way_pays);
    fflush(stdout);
    if (b->exact != 0) {
        const double off = fabs(r.state[0].energy - b->exact);
        if (!(off <= 1e-10))
            KL_TRY(kl_fail(err, KL_EBROKEN, "bench ci: the energy is %.12f, %.1e away from %.12f",
                           r.state[0].energy, off, b->exact));
        printf("  %.1e from %.12f: PASS\n", off, b->exact);
    }
    if (b->beside != NULL) {
        double rate, energy, theirs;
        KL_TRY(kl_beside_run(b->beside, &rate, &energy, &theirs, err));
        if (energy != 0 && theirs > 0)
            printf("  energies differ by %.1e; CPU time %.2f s, beside %.2f s, ratio %.3f\n",
                   fabs(energy - r.state[0].energy), cpu, theirs, cpu / theirs);
    }
out:
    kl_ci_result_clear(&r);
    return st;
}

static kl_status bench_molecule(bench *b, const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_fcidump *f = NULL;
    molecule m = {.b = b};
    const kl_ci_monitor monitor = {.self = &m, .matrix = on_matrix};
    kl_ci_opts ci = {.irrep = o->irrep != NULL && strcmp(o->irrep, "all") != 0 ? o->irrep[0] - '1' : -1,
                     .nroot = o->roots > 0 ? (int)o->roots : 1,
                     .frozen = (int)o->frozen,
                     .nelec = (int)o->electrons,
                     .have_ms2 = o->ms2 != KL_NO_MS2,
                     .ms2 = o->ms2 != KL_NO_MS2 ? (int)o->ms2 : 0,
                     .half = o->half,
                     .tol = o->residual,
                     .seed = 1,
                     .nthread = b->nthread,
                     .pspace = (int)o->pspace,
                     .max_basis = (int)o->basis};
    KL_TRY(kl_ci_parse_space(o->space != NULL ? o->space : "cisd", &ci, err));
    KL_TRY(kl_runfile_integrals(o->file, &f, err));
    const char *const slash = strrchr(o->file, '/');
    snprintf(m.name, sizeof(m.name), "%.150s %.100s", slash ? slash + 1 : o->file,
             o->space != NULL ? o->space : "cisd");
    if (ci.full || (o->store != NULL && strcmp(o->store, "direct") == 0)) {
        ci.store = KL_CI_DIRECT;
        KL_TRY(one_run(&m, "without a matrix", f, &ci, NULL, err));
    }
    if (!ci.full || (o->store != NULL && strcmp(o->store, "matrix") == 0)) {
        ci.store = KL_CI_MATRIX;
        KL_TRY(one_run(&m, ci.half ? "stored half" : "stored matrix", f, &ci, &monitor, err));
    }
out:
    kl_fcidump_destroy(&f);
    return st;
}

/* ---------------------------------------------------------------- the command */

kl_status kl_bench_ci(kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_bench_options *const asked = &o->bench;
    const int have_file = o->file != NULL;
    const int64_t rows = asked->rows > 0 ? asked->rows : KL_CIMATRIX_SMALL;
    const int number = asked->number > 0 ? (int)asked->number : 1;
    if (asked->csv && !asked->tables)
        return kl_fail(err, KL_EINPUT, "--csv: the tables are written; add --tables");
    bench b = {.tables = asked->tables,
               .seconds = kl_options_typed(o, (const char *const[]){"seconds", NULL}) ? asked->seconds : 0.3,
               .exact = asked->exact,
               .beside = asked->beside.n > 0 ? asked->beside.text[0] : NULL};
    kl_spmat *csr = NULL;
    o->command = KL_CMD_CI;
    KL_TRY(kl_task_exec(o, &b.ex, err));
    b.nthread = b.ex->nthread;
    KL_TRY(measure_ceiling(&b, err));
    const size_t length = have_file ? strlen(o->file) : 0;
    if (asked->csv) {
        b.csv = fopen(asked->csv, "w");
        if (!b.csv) KL_TRY(kl_fail(err, KL_EIO, "--csv: '%s' cannot be written", asked->csv));
        fprintf(b.csv, "case,quantity,value,unit\n");
    }
    if (asked->tables) {
        KL_TRY(bench_tables(&b, rows, err));
        if (have_file) KL_TRY(bench_molecule(&b, o, err));
    } else if (!have_file) {
        KL_TRY(kl_cimatrix_create(rows, number, b.nthread, &csr, err));
        KL_TRY(bench_matrix(&b, "like mahmoud2018", csr, err));
    } else if (length > 4 && strcmp(o->file + length - 4, ".mtx") == 0) {
        KL_TRY(kl_mmfile_read(o->file, &csr, err));
        KL_TRY(bench_matrix(&b, o->file, csr, err));
    } else KL_TRY(bench_molecule(&b, o, err));
out:
    if (b.csv && fclose(b.csv) != 0 && st == KL_OK)
        st = kl_fail(err, KL_EIO, "--csv: '%s' cannot be written", asked->csv);
    kl_spmat_destroy(&csr);
    kl_exec_close(&b.ex);
    return st;
}
