/* kl_eig_closed, the question whether a basis has closed under H, asked along Krylov sequences that this test
   makes itself, and what both solvers do with the answer.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/dense.h"
#include "kl_test.h"
#include "solve/eig.h"

enum {
    N = 90, /* states */
    BLOCK = 7 /* those of a block that is all but closed */
};

/* H; the block is coupled to the other states by one element alone. */
typedef struct matrix {
    double a[N * N], values[N], block; /* all eigenvalues; the lowest of the block alone */
} matrix;

static kl_status apply(const kl_linop *h, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy,
                       kl_err *err)
{
    const matrix *const m = h->self;
    (void)err;
    for (int v = 0; v < nvec; v++)
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int j = 0; j < N; j++) sum += m->a[i + j * N] * ((const double *)x.addr)[j + v * ldx];
            ((double *)y.addr)[i + v * ldy] = sum;
        }
    return KL_OK;
}

static void lowest(int n, const double *a, int lda, double *values)
{
    kl_err err;
    double *const copy = malloc((size_t)n * n * sizeof *copy);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) copy[i + j * n] = a[i + j * lda];
    expect_ok(kl_dense_eig(n, copy, n, values, &err), err);
    free(copy);
}

static void build(matrix *m, double coupling, uint64_t seed)
{
    double block[BLOCK];
    for (int j = 0; j < N; j++)
        for (int i = 0; i <= j; i++) {
            const int crosses = i < BLOCK && j >= BLOCK;
            m->a[i + j * N] = crosses ? 0 : kl_test_uniform(&seed);
            m->a[j + i * N] = m->a[i + j * N];
        }
    m->a[BLOCK - 1 + BLOCK * N] = m->a[BLOCK + (BLOCK - 1) * N] = coupling;
    lowest(N, m->a, N, m->values);
    lowest(BLOCK, m->a, N, block);
    m->block = block[0];
}

static double dot(const double *x, const double *y)
{
    double sum = 0;
    for (int i = 0; i < N; i++) sum += x[i] * y[i];
    return sum;
}

/* x := H v without its parts along the k vectors of the basis; returns the norm that is left. */
static double next_vector(const matrix *m, const double *basis, int k, double *x)
{
    const double *const v = basis + (size_t)(k - 1) * N;
    for (int i = 0; i < N; i++) {
        x[i] = 0;
        for (int j = 0; j < N; j++) x[i] += m->a[i + j * N] * v[j];
    }
    for (int pass = 0; pass < 2; pass++)
        for (int b = 0; b < k; b++) {
            const double s = dot(basis + (size_t)b * N, x);
            for (int i = 0; i < N; i++) x[i] -= s * basis[(size_t)b * N + i];
        }
    return sqrt(dot(x, x));
}

/* |H x - E x| of the lowest Ritz vector of k basis vectors, as the vectors themselves give it. */
static double residual_of(const matrix *m, const double *basis, int k)
{
    kl_err err;
    double small[N * N], theta[N], x[N] = {0}, r[N] = {0};
    for (int a = 0; a < k; a++)
        for (int b = 0; b < k; b++) {
            small[a + b * k] = 0;
            for (int i = 0; i < N; i++)
                for (int j = 0; j < N; j++)
                    small[a + b * k] += basis[(size_t)a * N + i] * m->a[i + j * N] * basis[(size_t)b * N + j];
        }
    expect_ok(kl_dense_eig(k, small, k, theta, &err), err);
    for (int a = 0; a < k; a++)
        for (int i = 0; i < N; i++) x[i] += small[a] * basis[(size_t)a * N + i];
    for (int i = 0; i < N; i++) {
        r[i] = -theta[0] * x[i];
        for (int j = 0; j < N; j++) r[i] += m->a[i + j * N] * x[j];
    }
    return sqrt(dot(r, r));
}

/* The first step at which the question is answered by yes, or -1, of a Krylov sequence from x. */
static int first_closed(const matrix *m, const double *x, int most)
{
    static double basis[N * N];
    const double rounding = KL_EIG_ROUNDING * fmax(fabs(m->values[0]), fabs(m->values[N - 1]));
    double previous = INFINITY, next[N];
    double length = sqrt(dot(x, x));
    for (int i = 0; i < N; i++) next[i] = x[i];
    for (int step = 0; step < most; step++) {
        for (int i = 0; i < N; i++) basis[(size_t)step * N + i] = next[i] / length;
        const double worst = residual_of(m, basis, step + 1);
        if (kl_eig_closed(step, worst, previous, rounding)) return step;
        previous = worst;
        length = next_vector(m, basis, step + 1, next);
    }
    return -1;
}

/* It closes after as many steps as the block has states where next to nothing leads out, and at no step where
   something does: residuals that fall from step to step, down to rounding, are no such thing. */
static void test_where(void **state)
{
    static const double coupling[] = {0, 1e-14, 1e-12, 1e-3, 0.1, 1};
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)kl_test_rounds(3); seed++)
        for (size_t c = 0; c < sizeof coupling / sizeof *coupling; c++) {
            matrix m;
            build(&m, coupling[c], seed);
            double x[N] = {0};
            for (int i = 0; i < BLOCK; i++) x[i] = 1 + i;
            kl_test_case("coupling %g, seed %d", coupling[c], (int)seed);
            expect_eq(first_closed(&m, x, 60), coupling[c] < 1e-6 ? BLOCK - 1 : -1);
        }
}

/* In the first step there is nothing to compare with: an eigenvector to rounding has closed, one that lacks a
   little has not. */
static void test_first_step(void **state)
{
    (void)state;
    kl_err err;
    matrix m;
    build(&m, 0.5, 4);
    double vectors[N * N], values[N], x[N];
    memcpy(vectors, m.a, sizeof vectors);
    expect_ok(kl_dense_eig(N, vectors, N, values, &err), err);
    for (int k = 0; k < N; k += 11) {
        kl_test_case("eigenvector %d", k);
        expect_eq(first_closed(&m, vectors + k * N, 1), 0);
        for (int i = 0; i < N; i++) x[i] = vectors[i + k * N] + 1e-8 * vectors[i + (k + 1) % N * N];
        expect_eq(first_closed(&m, x, 1), -1);
    }
    /* H that is nothing, with nothing known of its size */
    expect_eq(kl_eig_closed(0, 0, INFINITY, 0), 1);
    expect_eq(kl_eig_closed(1, 0, 0, 0), 0);
}

/* From a start in a closed block the lowest state of all is found, by both solvers; a start that is to be
   trusted is taken as it is, with the block's. */
static void test_solvers(void **state)
{
    (void)state;
    kl_err err;
    kl_exec *ex = NULL;
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    for (uint64_t seed = 1; seed <= 3; seed++)
        for (int solver = 0; solver < 2; solver++)
            for (int trust = 0; trust < 2; trust++) {
                matrix m;
                build(&m, 0, seed);
                const kl_linop h = {.n = N, .ex = ex, .self = &m, .apply = apply};
                double x[N] = {0}, energy, residual;
                for (int i = 0; i < BLOCK; i++) x[i] = 1 + i;
                const kl_eig_opts opts = {
                    .solver = solver, .nroot = 1, .tol = 1e-10, .seed = 1, .trust_start = trust};
                kl_eig_stats stats;
                kl_test_case("solver %d, seed %d, trust %d", solver, (int)seed, trust);
                expect_ok(
                    kl_eig_solve(&h, &opts, (kl_dptr){(uintptr_t)x}, N, &energy, &residual, &stats, &err),
                    err);
                expect_true(stats.converged && m.values[0] < m.block - 1);
                expect_near(energy, trust ? m.block : m.values[0], 1e-10);
            }
    kl_exec_close(&ex);
    expect_eq(kl_mem_live_total(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where),
        cmocka_unit_test(test_first_step),
        cmocka_unit_test(test_solvers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
