/* Sparse formats: each against CSR on random matrices with empty and long rows, products against plain sums
   for 1 to 17 vectors, memory against the formulas of mahmoud2018, the paper's own statistics, Matrix Market
   written, read and mutated, every allocation failing.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "kl_test.h"
#include <unistd.h>

#include "exec/exec.h"
#include "sparse/mmfile.h"
#include "exec/spmv.h"

/* Rows of 0 to 8 non-zeros, some empty, one in 37 nearly full. */
static kl_spmat *random_matrix(int64_t nrow, int64_t ncol, uint64_t *seed, double *dense)
{
    int64_t *off = NULL, n = 0;
    uint32_t *column = NULL;
    double *value = NULL;
    kl_spmat *m = NULL;
    kl_err err;
    for (int64_t k = 0; k < nrow * ncol; k++) dense[k] = 0;
    expect_ok(kl_alloc(&off, nrow + 1, KL_MEM_MATRIX, &err), err);
    expect_ok(kl_alloc(&column, nrow * ncol, KL_MEM_MATRIX, &err), err);
    expect_ok(kl_alloc(&value, nrow * ncol, KL_MEM_MATRIX, &err), err);
    for (int64_t i = 0; i < nrow; i++) {
        const uint64_t kind = kl_test_bits(seed) % 37;
        const double share = kind == 0 ? 0.9 : kind < 6 ? 0.0 : fmin(1.0, 8.0 / (double)ncol);
        for (int64_t j = 0; j < ncol; j++) {
            if (0.5 * (kl_test_uniform(seed) + 1.0) >= share) continue;
            column[n] = (uint32_t)j;
            dense[i * ncol + j] = value[n++] = kl_test_uniform(seed);
        }
        off[i + 1] = n;
    }
    expect_ok(kl_spmat_take_csr(nrow, ncol, 0, &off, &column, &value, &m, &err), err);
    return m;
}

static void check_product(kl_exec *ex, const kl_spmat *m, const double *dense, int nvec, uint64_t *seed)
{
    kl_err err;
    kl_spmv *s = NULL;
    const int64_t ldx = m->ncol + 3, ldy = m->nrow + 5;
    double *const x = kl_test_guarded(ldx * nvec), *const y = kl_test_guarded(ldy * nvec);
    for (int64_t k = 0; k < ldx * nvec; k++) x[k] = kl_test_uniform(seed);
    expect_ok(kl_spmv_create(ex, m, KL_SPMV_MANY, &s, &err), err);
    for (int twice = 0; twice < 2; twice++)
        expect_ok(kl_spmv_apply(s, nvec, (kl_dptr){(uintptr_t)x}, ldx, (kl_dptr){(uintptr_t)y}, ldy, &err),
                  err);
    for (int v = 0; v < nvec; v++) {
        for (int64_t i = 0; i < m->nrow; i++) {
            double sum = 0, size = 0;
            for (int64_t j = 0; j < m->ncol; j++) {
                sum += dense[i * m->ncol + j] * x[j + v * ldx];
                size += fabs(dense[i * m->ncol + j] * x[j + v * ldx]);
            }
            expect_near(y[i + v * ldy], sum, 4 * 2.3e-16 * sqrt((double)m->ncol) * size);
        }
        for (int64_t i = m->nrow; i < ldy; i++) expect_true(isnan(y[i + v * ldy]));
    }
    kl_test_guards_hold(y, ldy * nvec);
    kl_spmv_destroy(&s);
    kl_test_free(x);
    kl_test_free(y);
}

static void test_formats(void **state)
{
    (void)state;
    static const int64_t size[][2] = {{0, 0},   {1, 1},     {31, 31}, {33, 20},
                                      {20, 33}, {597, 597}, {0, 5},   {5, 0}};
    static const int vectors[] = {0, 1, 2, 3, 8, 16, 17};
    kl_err err;
    kl_exec *ex = NULL;
    uint64_t seed = 7;
    expect_ok(kl_exec_open_host(2, &ex, &err), err);
    for (size_t k = 0; k < sizeof(size) / sizeof(*size); k++) {
        const int64_t nrow = size[k][0], ncol = size[k][1];
        double *const dense = malloc((size_t)(nrow * ncol + 1) * sizeof(double));
        kl_spmat *csr = random_matrix(nrow, ncol, &seed, dense);
        for (int format = 0; format < KL_NSP; format++)
            for (int variant = 0; variant < 4; variant++) {
                const kl_spopts opts = {.format = (kl_spformat)format,
                                        .boundary = variant == 1   ? 3
                                                    : variant == 2 ? 700
                                                                   : 0,
                                        .height = variant == 1   ? 7
                                                  : variant == 3 ? 100
                                                                 : 0,
                                        .sigma = variant == 2 ? 64 : 0,
                                        .index_bytes = variant == 3 ? 4 : 0,
                                        .nthread = 1 + variant % 2};
                kl_spmat *m = NULL;
                kl_test_case("%s %lldx%lld variant %d", kl_spformat_name((kl_spformat)format),
                             (long long)nrow, (long long)ncol, variant);
                expect_ok(kl_spmat_convert(csr, &opts, &m, &err), err);
                expect_eq(kl_spmat_measured_bytes(m), kl_spmat_formula_bytes(m));
                expect_eq(m->index_bytes, variant == 3 ? 4 : 2);
                int64_t *const column = malloc((size_t)(m->longest + 1) * sizeof(*column));
                double *const value = malloc((size_t)(m->longest + 1) * sizeof(*value));
                for (int64_t i = 0; i < nrow; i++) {
                    const int64_t have = kl_spmat_row(m, i, column, value);
                    int64_t n = 0;
                    for (int64_t j = 0; j < ncol; j++) {
                        if (dense[i * ncol + j] == 0.0) continue;
                        expect_true(n < have && column[n] == j);
                        expect_near(value[n], dense[i * ncol + j], 0);
                        n++;
                    }
                    expect_eq(n, have);
                }
                free(column);
                free(value);
                for (size_t v = 0; v < sizeof(vectors) / sizeof(*vectors); v++)
                    check_product(ex, m, dense, vectors[v], &seed);
                kl_spmat_destroy(&m);
            }
        kl_spmat_destroy(&csr);
        free(dense);
    }
    kl_exec_close(&ex);
    expect_eq(kl_mem_live_total(), 0);
}

static void test_bipartition(void **state)
{
    (void)state;
    static const int64_t size[] = {0, 1, 31, 33, 597};
    kl_err err;
    kl_exec *ex = NULL;
    uint64_t seed = 11;
    expect_ok(kl_exec_open_host(2, &ex, &err), err);
    for (size_t k = 0; k < sizeof(size) / sizeof(*size); k++) {
        const int64_t n = size[k];
        int64_t *off = NULL, nnz = 0;
        uint32_t *column = NULL;
        double *value = NULL, *const dense = calloc((size_t)(n * n + 1), sizeof(double));
        kl_spmat *whole = NULL, *half = NULL, *hybrid = NULL, *again = NULL;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++)
                if (kl_test_uniform(&seed) > 0.95)
                    dense[i * n + j] = dense[j * n + i] = kl_test_uniform(&seed);
        expect_ok(kl_alloc(&off, n + 1, KL_MEM_MATRIX, &err), err);
        expect_ok(kl_alloc(&column, n * n, KL_MEM_MATRIX, &err), err);
        expect_ok(kl_alloc(&value, n * n, KL_MEM_MATRIX, &err), err);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < n; j++) {
                if (dense[i * n + j] == 0.0) continue;
                column[nnz] = (uint32_t)j;
                value[nnz++] = dense[i * n + j];
            }
            off[i + 1] = nnz;
        }
        expect_ok(kl_spmat_take_csr(n, n, 0, &off, &column, &value, &whole, &err), err);
        expect_ok(kl_spmat_half(whole, &half, &err), err);
        again = core_whole(half);
        expect_eq(again->nnz, nnz);
        const kl_spopts opts = {.format = KL_SP_HYBRID, .boundary = 5};
        expect_ok(kl_spmat_convert(half, &opts, &hybrid, &err), err);
        expect_eq(kl_spmat_measured_bytes(hybrid), kl_spmat_formula_bytes(hybrid));
        for (int nvec = 1; nvec <= 16; nvec += 5) {
            kl_test_case("half of %lld, %d vectors", (long long)n, nvec);
            check_product(ex, half, dense, nvec, &seed);
            check_product(ex, hybrid, dense, nvec, &seed);
            check_product(ex, again, dense, nvec, &seed);
        }
        const kl_spopts ell = {.format = KL_SP_ELL};
        kl_spmat *none = NULL;
        expect_refused(kl_spmat_convert(half, &ell, &none, &err), KL_EINPUT, err, "symmetric");
        kl_spmat_destroy(&whole);
        kl_spmat_destroy(&half);
        kl_spmat_destroy(&hybrid);
        kl_spmat_destroy(&again);
        free(dense);
    }
    double *const dense = calloc(16 * 16, sizeof(double));
    kl_spmat *m = random_matrix(16, 16, &seed, dense), *half = NULL;
    expect_refused(kl_spmat_half(m, &half, &err), KL_EINPUT, err, "not symmetric: element (");
    kl_spmat_destroy(&m);
    free(dense);
    kl_exec_close(&ex);
    expect_eq(kl_mem_live_total(), 0);
}

/* 32,768 rows, 655 non-zeros a row to the left of column 3277, the others beyond: matrix 1 of Tables 3 and 4,
   an eighth of its height. The formulas of section 4.1 with 4-byte words, in MiB as Table 5. */
static void test_paper(void **state)
{
    (void)state;
    enum {
        N = 32768,
        ROWS = N / 8,
        LEFT = 655,
        EDGE = 3277,
    };
    kl_err err;
    int64_t *off = NULL, n = 0;
    uint32_t *column = NULL;
    double *value = NULL;
    kl_spmat *csr = NULL;
    uint64_t seed = 3;
    int64_t expansion = 0, longest = 0;
    expect_ok(kl_alloc(&off, ROWS + 1, KL_MEM_MATRIX, &err), err);
    expect_ok(kl_alloc(&column, (int64_t)ROWS * 1100, KL_MEM_MATRIX, &err), err);
    expect_ok(kl_alloc(&value, (int64_t)ROWS * 1100, KL_MEM_MATRIX, &err), err);
    for (int64_t i = 0; i < ROWS; i++) {
        const int64_t right = 200 + (int64_t)(kl_test_bits(&seed) % 191);
        for (int64_t k = 0; k < LEFT; k++)
            column[n + k] = (uint32_t)(k * EDGE / LEFT + (int64_t)(kl_test_bits(&seed) % 4));
        for (int64_t k = 0; k < right; k++)
            column[n + LEFT + k] = (uint32_t)(EDGE + 4 + k * (N - EDGE - 5) / right);
        for (int64_t k = 0; k < LEFT + right; k++) value[n + k] = 1.0;
        expansion += right;
        if (LEFT + right > longest) longest = LEFT + right;
        off[i + 1] = n += LEFT + right;
    }
    expect_ok(kl_spmat_take_csr(ROWS, N, 0, &off, &column, &value, &csr, &err), err);
    kl_spmat_facts facts;
    kl_spmat_look(csr, LEFT, &facts);
    expect_eq(facts.nnz_reference, (int64_t)ROWS * LEFT);
    expect_eq(facts.nnz_expansion, expansion);
    expect_eq(facts.longest, longest);
    expect_near(facts.sparsity_reference, 0.8001, 0.001);
    expect_near(facts.sparsity_expansion, 0.990, 0.001);
    const int64_t rows = ROWS, all = n;
    const int64_t formula[KL_NSP] = {[KL_SP_CSR] = all * 12 + (rows + 1) * 4,
                                     [KL_SP_ELL] = rows * longest * 12,
                                     [KL_SP_ELLR] = rows * longest * 12 + rows * 4,
                                     [KL_SP_HYBRID] = 3 * rows * 4 + rows * LEFT * 12 + expansion * 12};
    for (int format = 0; format < KL_NSP; format++) {
        kl_spmat *m = NULL;
        const kl_spopts opts = {.format = (kl_spformat)format, .boundary = LEFT, .index_bytes = 4};
        kl_test_case("%s", kl_spformat_name((kl_spformat)format));
        expect_ok(kl_spmat_convert(csr, &opts, &m, &err), err);
        if (formula[format] > 0) expect_eq(kl_spmat_measured_bytes(m), formula[format]);
        expect_eq(kl_spmat_measured_bytes(m), kl_spmat_formula_bytes(m));
        if (format == KL_SP_SELL) expect_true(kl_spmat_measured_bytes(m) < formula[KL_SP_ELL]);
        kl_spmat_destroy(&m);
    }
    /* left to itself, the boundary pads by 2 % at most, in whole warps */
    kl_spmat *m = NULL;
    const kl_spopts chosen = {.format = KL_SP_HYBRID};
    expect_ok(kl_spmat_convert(csr, &chosen, &m, &err), err);
    expect_eq(m->width % 32, 0);
    expect_true(m->width >= 832 && (double)(m->nplace + m->nrest - m->nnz) <= 0.02 * (double)m->nnz);
    kl_spmat_destroy(&m);
    kl_spmat_destroy(&csr);
    expect_eq(kl_mem_live_total(), 0);
}

static kl_status read_text(const char *text, kl_spmat **m, kl_err *err)
{
    FILE *from = fmemopen((void *)(uintptr_t)text, strlen(text), "rb");
    assert_non_null(from);
    const kl_status st = kl_mmfile_read_stream(from, "t", m, err);
    fclose(from);
    return st;
}

static void test_matrix_market(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"x\n", "t:1: a Matrix Market file begins"},
        {"%%MatrixMarket matrix array real general\n1 1\n", "coordinate"},
        {"%%MatrixMarket matrix coordinate complex general\n1 1 1\n", "complex"},
        {"%%MatrixMarket matrix coordinate real skew-symmetric\n1 1 1\n", "skew"},
        {"%%MatrixMarket matrix coordinate real general\n2 2\n", "rows columns"},
        {"%%MatrixMarket matrix coordinate real general\n-2 2 0\n", "t:2"},
        {"%%MatrixMarket matrix coordinate real general\n2 2 9\n", "9 non-zeros"},
        {"%%MatrixMarket matrix coordinate real symmetric\n2 3 1\n1 1 1\n", "symmetric"},
        {"%%MatrixMarket matrix coordinate real general\n2 2 1\n", "ends after 0 of 1"},
        {"%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1.0\n", "t:3: row '3'"},
        {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 0 1.0\n", "t:3: column '0'"},
        {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 inf\n", "t:3: value"},
        {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1\n", "t:3: 2 words"},
        {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n1 1 1\n", "more than the 1"},
    };
    static const char good[] = "%%MatrixMarket matrix coordinate real symmetric\n% a comment\n\n3 3 4\n1 1 "
                               "2.5\n3 1 -1e-3\n2 2 1\n1 3 4\n";
    kl_err err;
    kl_spmat *m = NULL, *again = NULL;
    for (size_t k = 0; k < sizeof(bad) / sizeof(*bad); k++) {
        kl_test_case("%s", bad[k][0]);
        expect_refused(read_text(bad[k][0], &m, &err), KL_EINPUT, err, bad[k][1]);
    }
    expect_ok(read_text(good, &m, &err), err);
    expect_eq(m->nnz, 3); /* (3,1) and (1,3) of a symmetric file are one entry: added */
    expect_near(m->rest_value[2], 4 - 1e-3, 1e-15);
    char path[] = "/tmp/kronlat-mm-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    uint64_t seed = 5;
    double *const dense = malloc(40 * 30 * sizeof(double));
    kl_spmat *random = random_matrix(40, 30, &seed, dense);
    for (int k = 0; k < 2; k++) {
        const kl_spmat *const from = k == 0 ? m : random;
        expect_ok(kl_mmfile_write(path, from, "a comment", &err), err);
        expect_ok(kl_mmfile_read(path, &again, &err), err);
        expect_eq(again->nnz, from->nnz);
        expect_eq(again->symmetric, from->symmetric);
        for (int64_t e = 0; e < from->nnz; e++) expect_near(again->rest_value[e], from->rest_value[e], 0);
        expect_eq(memcmp(again->rest_column, from->rest_column, 2 * (size_t)from->nnz), 0);
        kl_spmat_destroy(&again);
    }
    unlink(path);
    free(dense);
    kl_spmat_destroy(&random);
    kl_spmat_destroy(&m);

    static const char spice[] = "0123456789.-+e%MatrixMarket \n\t";
    for (int round = 0; round < 5000; round++) {
        char text[512];
        snprintf(text, sizeof(text) - 32, "%s", good);
        for (int c = 0; c < 1 + round % 4; c++) {
            const size_t n = strlen(text), at = 30 + kl_test_bits(&seed) % (n - 30);
            const uint64_t how = kl_test_bits(&seed) % 3;
            if (how == 0) text[at] = spice[kl_test_bits(&seed) % (sizeof(spice) - 1)];
            if (how == 1) memmove(text + at, text + at + 1, n - at);
            if (how == 2) text[at] = (char)(1 + kl_test_bits(&seed) % 255);
        }
        long long rows = 0, columns = 0;
        const char *const sizes = strstr(text, "\n\n");
        /* legal, and slow */
        if (sizes != NULL && sscanf(sizes, "%lld %lld", &rows, &columns) == 2 &&
            (rows > 100000 || columns > 100000))
            continue;
        kl_test_case("round %d", round);
        err.text[0] = '\0';
        if (read_text(text, &m, &err) != KL_OK) expect_true(err.text[0] != '\0' && m == NULL);
        kl_spmat_destroy(&m);
    }
    expect_eq(kl_mem_live_total(), 0);
}

static void test_allocations(void **state)
{
    (void)state;
    for (int format = 0; format < KL_NSP; format++)
        for (int64_t k = 1;; k++) {
            kl_err err;
            kl_exec *ex = NULL;
            kl_spmat *csr = NULL, *m = NULL;
            kl_spmv *s = NULL;
            double x[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, y[9];
            const kl_spopts opts = {.format = (kl_spformat)format, .sigma = 2};
            expect_ok(kl_exec_open_host(1, &ex, &err), err);
            kl_test_case("%s, allocation %lld fails", kl_spformat_name((kl_spformat)format), (long long)k);
            kl_mem_fail_after(k);
            kl_status st =
                read_text("%%MatrixMarket matrix coordinate real general\n3 3 3\n1 1 2.5\n3 1 -1e-3\n2 2 1\n",
                          &csr, &err);
            if (st == KL_OK) st = kl_spmat_convert(csr, &opts, &m, &err);
            if (st == KL_OK) st = kl_spmv_create(ex, m, KL_SPMV_MANY, &s, &err);
            if (st == KL_OK)
                st = kl_spmv_apply(s, 3, (kl_dptr){(uintptr_t)x}, 3, (kl_dptr){(uintptr_t)y}, 3, &err);
            kl_mem_fail_after(0);
            kl_spmv_destroy(&s);
            kl_spmat_destroy(&m);
            kl_spmat_destroy(&csr);
            kl_exec_close(&ex);
            expect_eq(kl_mem_live_total(), 0);
            if (st == KL_OK) break;
            expect_true(st == KL_ENOMEM || format == KL_SP_HYBRID);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_formats), cmocka_unit_test(test_bipartition),
                                       cmocka_unit_test(test_paper), cmocka_unit_test(test_matrix_market),
                                       cmocka_unit_test(test_allocations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
