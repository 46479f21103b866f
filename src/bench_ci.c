/* Sparse formats on a matrix with the statistics of mahmoud2018, on a Matrix Market file, or on the matrix of a molecule. A line for each format
   and number of vectors: residual against plain sums over rows, time, GB/s, and the share of the copy rate measured in the same run.
   SPDX-License-Identifier: Apache-2.0 */
#include "bench_ci.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ci.h"
#include "mem.h"
#include "mmfile.h"
#include "options.h"
#include "par.h"
#include "random.h"
#include "report.h"
#include "spmv.h"
#include "task.h"

static const char usage[] =
    "Usage: kronlat bench ci [FCIDUMP | MATRIX.mtx] [OPTIONS]\n"
    "Without a file: a matrix with the statistics of mahmoud2018, Table 3 (655 non-zeros a row in the left tenth, about 295 in the rest).\n"
    "  --rows N          of that matrix (32768); 1048576 takes 12 GB\n"
    "  --threads N       threads (as many as cores)\n"
    "  --seconds S       time spent on one line (0.3)\n"
    "With an FCIDUMP file the options of `kronlat ci' that choose a space (--space, --irrep, --frozen, --half, ...) hold: building, products in every\n"
    "format, without a matrix where the space is full, and the whole run.\n";

typedef struct bench {
    kl_exec *ex;
    int nthread;
    double seconds;   /* for one line */
    double copy_rate; /* GB/s */
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

static kl_status measure_copy(bench *b, kl_err *err)
{
    enum { N = 1 << 24 };
    kl_status st = KL_OK;
    double *x = NULL;
    KL_TRY(kl_alloc(&x, 2 * (int64_t)N, KL_MEM_WORK, err));
    copy_job job = {x, x + N, N, N / (16 * b->nthread)};
    const double begin = kl_clock();
    for (int k = 0; k < 3 || kl_clock() - begin < b->seconds; k++) {
        const double start = kl_clock();
        kl_par_for(b->nthread, (N + job.chunk - 1) / job.chunk, copy_task, &job);
        if (k > 0) b->copy_rate = fmax(b->copy_rate, 16e-9 * (double)N / (kl_clock() - start));
    }
    printf("copy, %d thread%s: %.2f GB/s (read and written)\n", b->nthread, b->nthread == 1 ? "" : "s", b->copy_rate);
out:
    kl_free(&x);
    return st;
}

/* ---------------------------------------------------------------- products */

/* What every format must give, by long sums over the rows of the CSR matrix; scale[nrow]: sum |a x|, largest over the vectors. */
static kl_status plain_product(const kl_spmat *m, int nvec, const double *x, double *y, double *scale, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t *column = NULL;
    double *value = NULL;
    KL_TRY(kl_alloc(&column, m->longest, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&value, m->longest, KL_MEM_WORK, err));
    memset(y, 0, (size_t)(m->nrow * nvec) * sizeof(double));
    memset(scale, 0, (size_t)m->nrow * sizeof(double));
    for (int v = 0; v < nvec; v++)
        for (int64_t i = 0; i < m->nrow; i++) {
            const double *const xv = x + v * m->ncol;
            double *const yv = y + v * m->nrow;
            const int64_t n = kl_spmat_row(m, i, column, value);
            double sum = 0, size = 0;
            for (int64_t k = 0; k < n; k++) {
                sum += value[k] * xv[column[k]];
                size += fabs(value[k] * xv[column[k]]);
                if (m->symmetric && column[k] != i) yv[column[k]] += value[k] * xv[i];
            }
            yv[i] += sum;
            scale[i] = fmax(scale[i], size);
        }
out:
    kl_free(&column);
    kl_free(&value);
    return st;
}

static kl_status one_line(const bench *b, const kl_spmat *m, int nvec, const double *x, const double *wanted, double norm, double *y, kl_err *err)
{
    kl_status st = KL_OK;
    kl_spmv *s = NULL;
    double worst = 0, best = INFINITY;
    const int64_t sums = m->nrow * nvec;
    KL_TRY(kl_spmv_create(b->ex, m, &s, err));
    KL_TRY(kl_spmv_apply(s, nvec, (kl_dptr){(uintptr_t)x}, m->ncol, (kl_dptr){(uintptr_t)y}, m->nrow, err));
    for (int64_t k = 0; k < sums; k++) worst = fmax(worst, fabs(y[k] - wanted[k]));
    const double limit = 8 * 2.3e-16 * sqrt((double)m->longest + 1);
    worst /= norm;
    if (!(worst <= limit)) {
        st = kl_fail(err, KL_EBROKEN, "%s with %d vectors: residual %.1e is above %.1e; no time is told", kl_spformat_name(m->format), nvec, worst, limit);
        goto out;
    }
    const double begin = kl_clock();
    do {
        const double start = kl_clock();
        KL_TRY(kl_spmv_apply(s, nvec, (kl_dptr){(uintptr_t)x}, m->ncol, (kl_dptr){(uintptr_t)y}, m->nrow, err));
        best = fmin(best, kl_clock() - start);
    } while (kl_clock() - begin < b->seconds);
    const double bytes = (double)kl_spmv_bytes(m, nvec), nnz = (double)m->nnz * (m->symmetric ? 2 : 1);
    printf("resid %.0e PASS | %-6s%s u%d nvec=%-2d | %9.3f ms  %7.2f GB/s (%3.0f %% of copy)  %6.2f GFLOP/s | %9.2f MB, formula %9.2f\n", worst,
           kl_spformat_name(m->format), m->symmetric ? " half" : "", 8 * m->index_bytes, nvec, 1e3 * best, 1e-9 * bytes / best, 100e-9 * bytes / best / b->copy_rate,
           2e-9 * nnz * nvec / best, 1e-6 * (double)kl_spmat_measured_bytes(m), 1e-6 * (double)kl_spmat_formula_bytes(m));
    fflush(stdout);
out:
    kl_spmv_destroy(&s);
    return st;
}

/* Every format that can hold the matrix, 1 to 16 vectors. */
static kl_status bench_matrix(const bench *b, const char *name, const kl_spmat *csr, kl_err *err)
{
    static const int vectors[] = {1, 2, 4, 8, 16};
    enum { MOST = 16 };
    kl_status st = KL_OK;
    kl_spmat *m = NULL;
    double *x = NULL, *y = NULL, *wanted = NULL, *scale = NULL, norm = 1e-300;
    kl_spmat_facts facts;
    kl_spmat_look(csr, 0, &facts);
    printf("%s: %lld rows, %lld non-zeros%s, longest row %lld (row %lld), sparsity %.6f; BOUNDARY %lld: %lld left (sparsity %.6f), %lld right (%.6f)\n", name,
           (long long)csr->nrow, (long long)csr->nnz, csr->symmetric ? " in one half" : "", (long long)csr->longest, (long long)csr->longest_row, facts.sparsity,
           (long long)facts.boundary, (long long)facts.nnz_reference, facts.sparsity_reference, (long long)facts.nnz_expansion, facts.sparsity_expansion);
    KL_TRY(kl_alloc(&x, csr->ncol * MOST, KL_MEM_VECTOR, err));
    KL_TRY(kl_alloc(&y, csr->nrow * MOST, KL_MEM_VECTOR, err));
    KL_TRY(kl_alloc(&wanted, csr->nrow * MOST, KL_MEM_VECTOR, err));
    KL_TRY(kl_alloc(&scale, csr->nrow, KL_MEM_VECTOR, err));
    for (int64_t k = 0; k < csr->ncol * MOST; k++) x[k] = sin(0.7 * (double)k + 1.0);
    KL_TRY(plain_product(csr, MOST, x, wanted, scale, err));
    for (int64_t i = 0; i < csr->nrow; i++) norm = fmax(norm, scale[i]);
    for (int format = 0; format < KL_NSP; format++)
        for (int narrow = 0; narrow < (csr->ncol <= 65536 ? 2 : 1); narrow++) {
            if (csr->symmetric && format != KL_SP_CSR && format != KL_SP_HYBRID) continue;
            const kl_spopts opts = {.format = (kl_spformat)format, .index_bytes = narrow ? 2 : 4};
            const double places = format == KL_SP_ELL || format == KL_SP_ELLR ? (double)csr->nrow * (double)csr->longest : 0;
            if (places > 4 * (double)csr->nnz + 1e6) {
                printf("%-6s would take %.0f MB for its padding: left out\n", kl_spformat_name((kl_spformat)format), 12e-6 * places);
                continue;
            }
            KL_TRY(kl_spmat_convert(csr, &opts, &m, err));
            for (size_t v = 0; v < sizeof(vectors) / sizeof(*vectors); v++) KL_TRY(one_line(b, m, vectors[v], x, wanted, norm, y, err));
            kl_spmat_destroy(&m);
        }
out:
    kl_spmat_destroy(&m);
    kl_free(&x);
    kl_free(&y);
    kl_free(&wanted);
    kl_free(&scale);
    return st;
}

/* ---------------------------------------------------------------- the paper's matrices */

/* `count` distinct ascending columns in [low, high), one in each of as many equal strips. */
static void choose_columns(uint64_t *state, int64_t low, int64_t high, int64_t count, uint32_t *out)
{
    for (int64_t k = 0; k < count; k++) {
        const int64_t from = low + (high - low) * k / count, to = low + (high - low) * (k + 1) / count;
        out[k] = (uint32_t)(from + (int64_t)(kl_random_next(state) % (uint64_t)(to - from)));
    }
}

static kl_status paper_matrix(int64_t n, kl_spmat **out, kl_err *err)
{
    enum { LEFT = 655, RIGHT = 295, SPREAD = 120 }; /* Table 3: 655 each, 9.67 million of 32,768 rows, longest 1060 to 1079 */
    kl_status st = KL_OK;
    int64_t *off = NULL, nnz = 0;
    uint32_t *column = NULL;
    double *value = NULL;
    uint64_t seed = 20180824;
    KL_TRY(kl_alloc(&off, n + 1, KL_MEM_MATRIX, err));
    for (int64_t i = 0; i < n; i++) {
        int64_t right = RIGHT; /* a bell: the sum of eight */
        for (int k = 0; k < 8; k++) right += (int64_t)(kl_random_next(&seed) % (SPREAD / 4 + 1)) - SPREAD / 8;
        off[i + 1] = off[i] + LEFT + right;
    }
    KL_TRY(kl_realloc(&column, off[n], KL_MEM_MATRIX, err));
    KL_TRY(kl_realloc(&value, off[n], KL_MEM_MATRIX, err));
    for (int64_t i = 0; i < n; i++) {
        choose_columns(&seed, 0, n / 10, LEFT, column + nnz);
        choose_columns(&seed, n / 10, n, off[i + 1] - off[i] - LEFT, column + nnz + LEFT);
        for (; nnz < off[i + 1]; nnz++) value[nnz] = (double)(int64_t)(kl_random_next(&seed) >> 12) * 0x1p-52;
    }
    KL_TRY(kl_spmat_take_csr(n, n, 0, &off, &column, &value, out, err));
out:
    kl_free(&off);
    kl_free(&column);
    kl_free(&value);
    return st;
}

/* ---------------------------------------------------------------- molecules */

typedef struct molecule {
    const bench *b;
    char name[300];
} molecule;

static kl_status on_matrix(void *self, int irrep, const kl_spmat *csr, kl_err *err)
{
    const molecule *const m = self;
    char name[400];
    snprintf(name, sizeof(name), "%s, irrep %d", m->name, irrep + 1);
    return bench_matrix(m->b, name, csr, err);
}

static void print_run(const char *how, const kl_ci_result *r)
{
    int64_t n = 0;
    int products = 0;
    double build = 0, solve = 0;
    for (int g = 0; g < r->nirrep; g++) {
        n += r->block[g].ndet;
        products += r->block[g].napply;
        build += r->block[g].seconds_build;
        solve += r->block[g].seconds_solve;
    }
    printf("resid %.0e %s | %s: %lld determinants, E %.12f | build %.3f s, solve %.3f s (%d products), all %.3f s\n", r->state[0].residual,
           r->converged ? "PASS" : "NOT CONVERGED", how, (long long)n, r->state[0].energy, build, solve, products, r->seconds_all);
    fflush(stdout);
}

static kl_status bench_molecule(const bench *b, const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_fcidump *f = NULL;
    kl_ci_result r = {0};
    molecule m = {.b = b};
    const kl_ci_monitor monitor = {.self = &m, .matrix = on_matrix};
    kl_ci_opts ci = {.irrep = o->irrep != NULL && strcmp(o->irrep, "all") != 0 ? o->irrep[0] - '1' : -1, .nroot = o->roots > 0 ? (int)o->roots : 1,
                     .frozen = (int)o->frozen, .nelec = (int)o->electrons, .have_ms2 = o->ms2 != KL_NO_MS2, .ms2 = o->ms2 != KL_NO_MS2 ? (int)o->ms2 : 0,
                     .half = o->half, .tol = o->residual, .seed = 1, .nthread = b->nthread, .pspace = (int)o->pspace, .max_basis = (int)o->basis};
    KL_TRY(kl_ci_parse_space(o->space != NULL ? o->space : "cisd", &ci, err));
    KL_TRY(kl_fcidump_read(o->file, &f, err));
    snprintf(m.name, sizeof(m.name), "%.150s %.100s", o->file, o->space != NULL ? o->space : "cisd");
    if (ci.full) {
        ci.store = KL_CI_DIRECT;
        KL_TRY(kl_ci_run(f, b->ex, &ci, NULL, &r, err));
        print_run("without a matrix", &r);
        kl_ci_result_clear(&r);
    }
    if (!ci.full || (o->store != NULL && strcmp(o->store, "matrix") == 0)) {
        ci.store = KL_CI_MATRIX;
        KL_TRY(kl_ci_run(f, b->ex, &ci, NULL, &r, err));
        print_run(ci.half ? "stored half" : "stored matrix", &r);
        kl_ci_result_clear(&r);
        ci.tol = 1e3; /* a product or two: the run above was the one that counts */
        KL_TRY(kl_ci_run(f, b->ex, &ci, &monitor, &r, err));
    }
out:
    kl_ci_result_clear(&r);
    kl_fcidump_destroy(&f);
    return st;
}

/* ---------------------------------------------------------------- the command */

kl_status kl_bench_ci(int argc, char **argv, kl_err *err)
{
    enum { MOST_WORDS = 64 };
    static char no_file[] = "none";
    kl_status st = KL_OK;
    char *words[MOST_WORDS + 2];
    int n = 0, have_file = 0;
    int64_t rows = 32768;
    bench b = {.seconds = 0.3};
    kl_options *o = NULL;
    kl_spmat *csr = NULL;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            return KL_OK;
        }
        const int is_rows = strcmp(argv[i], "--rows") == 0, is_seconds = strcmp(argv[i], "--seconds") == 0;
        if (!is_rows && !is_seconds) {
            if (n == MOST_WORDS) return kl_fail(err, KL_EINPUT, "bench ci: more than %d words", MOST_WORDS);
            if (i > 0 && argv[i][0] != '-' && (i == 1 || argv[i - 1][0] != '-')) have_file = 1;
            words[n++] = argv[i];
            continue;
        }
        if (++i == argc) return kl_fail(err, KL_EINPUT, "%s: the value is missing", argv[i - 1]);
        if (is_rows && (!kl_parse_int(argv[i], &rows) || rows < 16384 || rows > 16777216))
            return kl_fail(err, KL_EINPUT, "--rows: '%s' was given; allowed: 16384 to 16777216", argv[i]);
        if (is_seconds && (!kl_parse_double(argv[i], &b.seconds) || !(b.seconds >= 0 && b.seconds <= 3600)))
            return kl_fail(err, KL_EINPUT, "--seconds: '%s' was given; allowed: 0 to 3600", argv[i]);
    }
    if (!have_file) words[n++] = no_file;
    words[n] = NULL;
    KL_TRY(kl_options_parse(n, words, &o, err));
    KL_TRY(kl_task_exec(o, &b.ex, err));
    b.nthread = b.ex->nthread;
    KL_TRY(measure_copy(&b, err));
    const size_t length = strlen(o->file);
    if (!have_file) {
        KL_TRY(paper_matrix(rows, &csr, err));
        KL_TRY(bench_matrix(&b, "like mahmoud2018", csr, err));
    } else if (length > 4 && strcmp(o->file + length - 4, ".mtx") == 0) {
        KL_TRY(kl_mmfile_read(o->file, &csr, err));
        KL_TRY(bench_matrix(&b, o->file, csr, err));
    } else KL_TRY(bench_molecule(&b, o, err));
out:
    kl_spmat_destroy(&csr);
    kl_exec_close(&b.ex);
    kl_options_destroy(&o);
    return st;
}
