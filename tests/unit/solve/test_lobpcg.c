/* Fused vector steps against plain loops, Lanczos with three vectors, and LOBPCG where such programs are
   known to fail: starts that are exact, dependent or zero, multiplets, tolerances below rounding, any scale,
   spaces hardly larger than the block, operators that give NaN.
   SPDX-License-Identifier: Apache-2.0 */
#include "kl_test.h"
#include "base/dense.h"
#include "solve/recurrence.h"
#include "solve/lobpcg.h"

static double told[KL_LOBPCG_MOST]; /* residuals, by the run that was the last */

/* ---------------------------------------------------------------- fused steps */

static void test_fuse(void **state)
{
    (void)state;
    kl_err err = {""};
    static const int64_t sizes[] = {0, 1, 31, 33, 255, 257, 597, 70001};
    for (int threads = 1; threads <= 3; threads++) {
        kl_exec *ex = NULL;
        expect_ok(kl_exec_open_host(threads, &ex, &err), err);
        for (size_t z = 0; z < sizeof sizes / sizeof *sizes; z++)
            for (int nin = 1; nin <= 9; nin += 4)
                for (int nout = 0; nout <= 6; nout += 2) {
                    const int64_t n = sizes[z];
                    uint64_t seed = (uint64_t)(n * 100 + nin * 10 + nout);
                    kl_test_case("n=%lld nin=%d nout=%d threads=%d", (long long)n, nin, nout, threads);
                    double *v[9], *w[6], c[54], dots[64];
                    double *old = calloc((size_t)(n * nin) + 1, sizeof *old);
                    kl_dptr in[9], out[6];
                    int pair[64][2], np = 0;
                    for (int j = 0; j < nin; j++) {
                        v[j] = kl_test_guarded(n);
                        for (int64_t i = 0; i < n; i++) v[j][i] = old[j * n + i] = kl_test_uniform(&seed);
                        in[j].addr = (uintptr_t)v[j];
                    }
                    for (int k = 0; k < nout; k++) { /* the first ones replace inputs */
                        w[k] = k < nin && k % 2 == 0 ? v[k] : kl_test_guarded(n);
                        out[k].addr = (uintptr_t)w[k];
                        for (int j = 0; j < nin; j++)
                            c[k * nin + j] = (j + k) % 4 == 3 ? 0.0 : kl_test_uniform(&seed);
                    }
                    for (int a = 0; a < nin + nout; a++)
                        for (int b = 0; b <= a && np < 64; b++) pair[np][0] = a, pair[np++][1] = b;
                    const kl_fuse f = {.nin = nin,
                                       .nout = nout,
                                       .npair = np,
                                       .in = in,
                                       .out = out,
                                       .c = c,
                                       .pair = (const int (*)[2])pair};
                    ex->vt.fuse(ex, n, &f, dots);
                    double want[64] = {0};
                    for (int64_t i = 0; i < n; i++) {
                        double x[15];
                        for (int j = 0; j < nin; j++) x[j] = old[j * n + i];
                        for (int k = 0; k < nout; k++) {
                            x[nin + k] = 0;
                            for (int j = 0; j < nin; j++) x[nin + k] += c[k * nin + j] * x[j];
                            expect_near(w[k][i], x[nin + k], 1e-14 * nin);
                        }
                        for (int p = 0; p < np; p++) want[p] += x[pair[p][0]] * x[pair[p][1]];
                    }
                    for (int p = 0; p < np; p++) expect_near(dots[p], want[p], 4e-14 * (double)(n + 1) * nin);
                    for (int j = 0; j < nin; j++) kl_test_guards_hold(v[j], n);
                    for (int k = 0; k < nout; k++) {
                        kl_test_guards_hold(w[k], n);
                        if (!(k < nin && k % 2 == 0)) kl_test_free(w[k]);
                    }
                    for (int j = 0; j < nin; j++) kl_test_free(v[j]);
                    free(old);
                }
        kl_exec_close(&ex);
    }
    expect_eq(kl_mem_live_total(), 0);
}

/* ---------------------------------------------------------------- matrices */

/* A = Q D Q, Q = 1 - 2 u u^T / u.u: any spectrum, no structure; cheap to apply. */
typedef struct matrix {
    int64_t n;
    double *d, *u;
    int bad_after; /* products until NaN comes; 0: never */
    int count;
} matrix;

static kl_status apply(const kl_linop *h, int nvec, kl_dptr xp, int64_t ldx, kl_dptr yp, int64_t ldy,
                       kl_err *err)
{
    (void)err;
    matrix *const m = h->self;
    for (int k = 0; k < nvec; k++) {
        const double *const x = (const double *)xp.addr + k * ldx;
        double *const y = (double *)yp.addr + k * ldy;
        double uu = 0, ux = 0, uy = 0;
        for (int64_t i = 0; i < m->n; i++) uu += m->u[i] * m->u[i], ux += m->u[i] * x[i];
        for (int64_t i = 0; i < m->n; i++) y[i] = m->d[i] * (x[i] - 2 * ux / uu * m->u[i]);
        for (int64_t i = 0; i < m->n; i++) uy += m->u[i] * y[i];
        for (int64_t i = 0; i < m->n; i++) y[i] -= 2 * uy / uu * m->u[i];
        if (m->bad_after && ++m->count > m->bad_after) y[m->n / 2] = (double)NAN;
    }
    return KL_OK;
}

static kl_status apply_dot(const kl_linop *h, kl_dptr xp, kl_dptr yp, double *xy, kl_err *err)
{
    const kl_status st = apply(h, 1, xp, h->n, yp, h->n, err);
    *xy = 0.0;
    for (int64_t i = 0; i < h->n; i++) *xy += ((const double *)xp.addr)[i] * ((const double *)yp.addr)[i];
    return st;
}

static matrix matrix_open(int64_t n, uint64_t seed)
{
    matrix m = {.n = n, .d = calloc((size_t)n, sizeof(double)), .u = calloc((size_t)n, sizeof(double))};
    for (int64_t i = 0; i < n; i++) {
        m.d[i] = (double)i / (double)n * 4 - 1;
        m.u[i] = kl_test_uniform(&seed);
    }
    return m;
}

static void matrix_close(matrix *m) { free(m->d), free(m->u); }

/* Solves with nb vectors of which nwant count; energies must be the lowest of d, sorted, and residuals those
   of the vectors. How: products alone, products that bring x . H x, or a preconditioner, which is none here
   (H = Q D Q knows nothing of D's order). */
enum { PRODUCTS, WITH_DOTS, PRECONDITIONED, NHOW };

static kl_eig_stats solve_how(matrix *m, int how, int nb, int nwant, double tol, const double *start,
                              double allowed)
{
    kl_err err = {""};
    kl_exec *ex = NULL;
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    kl_linop h = {
        .n = m->n, .ex = ex, .self = m, .apply = apply, .apply_dot = how == WITH_DOTS ? apply_dot : NULL};
    double *x = calloc((size_t)(m->n * nb), sizeof *x), *hx = calloc((size_t)m->n, sizeof *hx),
           *flat = calloc((size_t)m->n, sizeof *flat), e[16], size = 0;
    for (int64_t i = 0; i < m->n; i++) size = fmax(size, fabs(m->d[i]));
    for (int64_t i = 0; i < m->n; i++) flat[i] = size * (1.5 + 0.3 * sin((double)i));
    if (how == PRECONDITIONED) h.diagonal.addr = (uintptr_t)flat;
    uint64_t seed = 9;
    for (int64_t i = 0; i < m->n * nb; i++) x[i] = start ? start[i] : kl_test_uniform(&seed);
    kl_eig_stats stats;
    const kl_eig_opts opts = {.nroot = nb, .tol = tol, .max_apply = 4000 * nb, .seed = 3};
    expect_ok(kl_lobpcg_solve(&h, &opts, nwant, (kl_dptr){(uintptr_t)x}, m->n, e, told, &stats, &err), err);
    double *d = calloc((size_t)m->n, sizeof *d);
    memcpy(d, m->d, (size_t)m->n * sizeof *d);
    for (int64_t i = 1; i < m->n; i++)
        for (int64_t k = i; k > 0 && d[k - 1] > d[k]; k--) {
            const double t = d[k];
            d[k] = d[k - 1];
            d[k - 1] = t;
        }
    for (int k = 0; k < nwant; k++) expect_near(e[k], d[k], allowed);
    for (int k = 0; k < nb; k++)
        for (int q = 0; q <= k; q++) {
            double s = 0;
            for (int64_t i = 0; i < m->n; i++) s += x[k * m->n + i] * x[q * m->n + i];
            expect_near(s, k == q, 1e-8);
        }
    for (int k = 0; k < nb; k++) { /* nothing is told that is not so */
        double left = 0;
        expect_ok(
            apply(&h, 1, (kl_dptr){(uintptr_t)(x + k * m->n)}, m->n, (kl_dptr){(uintptr_t)hx}, m->n, &err),
            err);
        for (int64_t i = 0; i < m->n; i++) left = hypot(left, hx[i] - e[k] * x[k * m->n + i]);
        expect_near(left, told[k], 0.01 * told[k] + 1e-12 * size);
        if (k < nwant && stats.converged) expect_true(left <= 1.01 * tol + 1e-12 * size);
    }
    free(d), free(hx), free(flat);
    free(x);
    kl_exec_close(&ex);
    return stats;
}

/* By each form; what the first says of itself. */
static kl_eig_stats solve(matrix *m, int nb, int nwant, double tol, const double *start, double allowed)
{
    kl_eig_stats first = {0};
    for (int how = PRODUCTS; how < NHOW; how++) {
        const kl_eig_stats s = solve_how(m, how, nb, nwant, tol, start, allowed);
        if (how == PRODUCTS) first = s;
        else expect_eq(s.converged, first.converged);
    }
    return first;
}

static void test_usual(void **state)
{
    (void)state;
    for (int64_t n = 40; n <= 1000; n *= 5)
        for (int nb = 1; nb <= 7; nb += 3) {
            kl_test_case("n=%lld nb=%d", (long long)n, nb);
            matrix m = matrix_open(n, 5);
            const kl_eig_stats s = solve(&m, nb, nb > 2 ? nb - 2 : nb, 1e-7, NULL, 1e-9);
            expect_true(s.converged);
            matrix_close(&m);
        }
}

static void test_hard(void **state)
{
    (void)state;
    kl_eig_stats s;
    { /* a triplet cut by the number of roots, and one kept whole by guards */
        matrix m = matrix_open(300, 6);
        m.d[17] = m.d[100] = m.d[200] = -2;
        kl_test_case("triplet");
        s = solve(&m, 2, 2, 1e-8, NULL, 1e-10);
        expect_true(s.converged);
        s = solve(&m, 5, 3, 1e-8, NULL, 1e-10);
        expect_true(s.converged);
        matrix_close(&m);
    }
    { /* tolerances that no arithmetic reaches */
        matrix m = matrix_open(200, 7);
        kl_test_case("tol 0");
        s = solve(&m, 3, 1, 0.0, NULL, 1e-12);
        expect_true(!s.converged && s.stagnated);
        expect_true(told[0] < 1e-12);
        matrix_close(&m);
    }
    for (int nb = 1; nb <= 4; nb++) { /* on and on after convergence: it stays where it is */
        matrix m = matrix_open(80, 14);
        /* what is lowest lies close together as well */
        for (int64_t i = 0; i < m.n; i++) m.d[i] = i < 4 ? -2 - 1e-7 * (double)i : m.d[i];
        kl_test_case("past convergence, nb=%d", nb);
        s = solve(&m, nb, nb, 0.0, NULL, nb < 4 ? 1e-9 : 1e-12);
        expect_true(s.stagnated);
        /* a cut cluster rotates within itself, and where that stops is up to the rounding of the BLAS at
           hand */
        for (int k = 0; k < nb; k++) expect_true(told[k] < (nb < 4 ? 1e-5 : 1e-9));
        matrix_close(&m);
    }
    for (int scale = -1; scale <= 1; scale++) { /* any unit */
        matrix m = matrix_open(150, 8);
        const double unit = scale < 0 ? 1e-120 : scale > 0 ? 1e+120 : 1;
        for (int64_t i = 0; i < m.n; i++) m.d[i] *= unit;
        kl_test_case("unit %g", unit);
        s = solve(&m, 3, 2, 1e-8 * unit, NULL, 1e-10 * unit);
        expect_true(s.converged);
        matrix_close(&m);
    }
    { /* zero, dependent and exact starts; the exact one is the highest state */
        matrix m = matrix_open(120, 9);
        double *const x = calloc((size_t)(3 * m.n), sizeof *x);
        kl_test_case("zero starts");
        s = solve(&m, 3, 2, 1e-8, x, 1e-10);
        expect_true(s.converged);
        for (int64_t i = 0; i < m.n; i++) x[i] = x[m.n + i] = x[2 * m.n + i] = sin((double)i);
        kl_test_case("equal starts");
        s = solve(&m, 3, 2, 1e-8, x, 1e-10);
        expect_true(s.converged);
        double uu = 0;
        for (int64_t i = 0; i < m.n; i++) uu += m.u[i] * m.u[i];
        for (int64_t i = 0; i < m.n; i++) x[i] = (i == m.n - 1) - 2 * m.u[m.n - 1] * m.u[i] / uu;
        /* a Gram matrix that is not positive */
        kl_test_case("starts that differ in the last digits, and starts of any length");
        uint64_t seed = 2;
        double *const y = calloc((size_t)(3 * m.n), sizeof *y);
        for (int64_t i = 0; i < 3 * m.n; i++) y[i] = sin((double)(i % m.n)) + 1e-15 * kl_test_uniform(&seed);
        s = solve(&m, 3, 2, 1e-8, y, 1e-10);
        expect_true(s.converged);
        for (int64_t i = 0; i < 3 * m.n; i++)
            y[i] = kl_test_uniform(&seed) * (i < m.n ? 1e-150 : i < 2 * m.n ? 1 : 1e150);
        s = solve(&m, 3, 2, 1e-8, y, 1e-10);
        expect_true(s.converged);
        free(y);
        kl_test_case("highest state as start");
        s = solve(&m, 1, 1, 1e-8, x, 1e-10);
        expect_true(s.converged);
        free(x);
        matrix_close(&m);
    }
    for (int64_t n = 1; n <= 8; n++) /* hardly larger than the block */
        for (int nb = 1; nb <= n && nb <= 4; nb++) {
            kl_test_case("n=%lld nb=%d", (long long)n, nb);
            matrix m = matrix_open(n, 10);
            s = solve(&m, nb, nb, 1e-10, NULL, 1e-9);
            expect_true(s.converged || s.stagnated);
            matrix_close(&m);
        }
    { /* all of a spectrum one number */
        matrix m = matrix_open(60, 11);
        for (int64_t i = 0; i < m.n; i++) m.d[i] = 0.25;
        kl_test_case("multiple of 1");
        s = solve(&m, 4, 2, 1e-10, NULL, 1e-12);
        expect_true(s.converged);
        matrix_close(&m);
    }
    expect_eq(kl_mem_live_total(), 0);
}

/* Asked to stop at any look: it does, unless it ends there, by itself or once a fresh product has said so. */
static void test_stopped(void **state)
{
    (void)state;
    enum {
        N = 120,
        NB = 3,
    };
    kl_err err = {""};
    for (int how = 0; how < 2; how++) { /* to the tolerance, and below what can be reached */
        matrix m = matrix_open(N, 5);
        kl_exec *ex = NULL;
        expect_ok(kl_exec_open_host(1, &ex, &err), err);
        kl_linop h = {.n = N, .ex = ex, .self = &m, .apply = apply};
        kl_eig_stats whole = {0}, stats;
        double x[NB * N], want[NB * N] = {0}, e[NB];
        for (int stop = 0, looks = 1; stop <= looks; stop++) {
            kl_test_case("case %d stopped at look %d of %d", how, stop, looks);
            kl_test_looker l = {.stop_at = stop};
            uint64_t seed = 9;
            for (int i = 0; i < NB * N; i++) x[i] = kl_test_uniform(&seed);
            const kl_eig_opts opts = {.nroot = NB,
                                      .tol = how == 0 ? 1e-7 : 0.0,
                                      .max_apply = 4000,
                                      .seed = 3,
                                      .self = &l,
                                      .step = kl_test_stop_at_look};
            expect_ok(kl_lobpcg_solve(&h, &opts, 2, (kl_dptr){(uintptr_t)x}, N, e, told, &stats, &err), err);
            if (stop == 0) {
                whole = stats;
                looks = l.look;
                memcpy(want, x, sizeof x);
                expect_true((stats.converged || stats.stagnated) && !stats.stopped && looks > 3);
            } else if (stats.stopped) {
                expect_true(stop < looks && stats.napply <= whole.napply);
            } else {
                expect_true(stop >= looks - 1 && stats.napply == whole.napply &&
                            stats.converged == whole.converged && stats.stagnated == whole.stagnated);
                expect_eq(memcmp(want, x, sizeof x), 0);
            }
        }
        kl_exec_close(&ex);
        matrix_close(&m);
    }
    expect_eq(kl_mem_live_total(), 0);
}

static void test_nan(void **state)
{
    (void)state;
    kl_err err = {""};
    kl_exec *ex = NULL;
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    for (int after = 1; after <= 21; after += 5) {
        matrix m = matrix_open(100, 12);
        m.bad_after = after;
        const kl_linop h = {.n = m.n, .ex = ex, .self = &m, .apply = apply};
        double x[200], e[2];
        uint64_t seed = 1;
        for (int i = 0; i < 200; i++) x[i] = kl_test_uniform(&seed);
        kl_eig_stats stats;
        const kl_eig_opts opts = {.nroot = 2, .tol = 1e-9};
        expect_refused(kl_lobpcg_solve(&h, &opts, 1, (kl_dptr){(uintptr_t)x}, 100, e, told, &stats, &err),
                       KL_ENOCONV, err, "finite");
        matrix_close(&m);
    }
    kl_exec_close(&ex);
    kl_dense_release();
    expect_eq(kl_mem_live_total(), 0);
}

/* ---------------------------------------------------------------- three vectors, or two */

static kl_status add_dot(const kl_linop *h, kl_dptr xp, kl_dptr yp, double *xy, kl_err *err)
{
    double *const y = (double *)yp.addr, *const hx = calloc((size_t)h->n, sizeof *hx);
    const kl_status st = apply(h, 1, xp, h->n, (kl_dptr){(uintptr_t)hx}, h->n, err);
    *xy = 0.0;
    for (int64_t i = 0; i < h->n; i++) {
        y[i] += hx[i];
        *xy += ((const double *)xp.addr)[i] * y[i];
    }
    free(hx);
    return st;
}

/* The third vector that is asked for has no room. */
static int nasked;
static kl_status (*true_alloc)(kl_exec *, int64_t, kl_dptr *, kl_err *);
static kl_status two_alloc(kl_exec *ex, int64_t n, kl_dptr *p, kl_err *err)
{
    if (++nasked != 3) return true_alloc(ex, n, p, err);
    return kl_fail(err, KL_ENOMEM, "no room for a third vector");
}

static kl_status lean_start(void *self, kl_dptr v, kl_err *err)
{
    const matrix *const m = self;
    uint64_t seed = 77;
    (void)err;
    for (int64_t i = 0; i < m->n; i++) ((double *)v.addr)[i] = kl_test_uniform(&seed);
    return KL_OK;
}

enum { THREE, TWO, NO_ROOM, NLEAN };

static void test_lean(void **state)
{
    (void)state;
    kl_err err = {""};
    kl_exec *ex = NULL;
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    true_alloc = ex->vt.alloc;
    for (int64_t n = 1; n <= 1000; n = n * 3 + 1)
        for (int length = 20; length <= 300; length += 280) /* the short ones begin anew */
            for (int k = 0; k < 2 * NLEAN; k++) {
                const int want = k % 2, how = k / 2;
                matrix m = matrix_open(n, 13);
                const kl_linop h = {
                    .n = n, .ex = ex, .self = &m, .apply = apply, .add_dot = how == THREE ? NULL : add_dot};
                nasked = 0;
                ex->vt.alloc = how == NO_ROOM ? two_alloc : true_alloc;
                double *x = calloc((size_t)n, sizeof *x), e;
                kl_recurrence_stats s;
                const kl_recurrence_opts o = {.tol = 1e-11,
                                              .length = length,
                                              .want_vector = want,
                                              .two = how == TWO,
                                              .self = &m,
                                              .start = lean_start};
                kl_test_case("n=%lld length=%d vector=%d how=%d", (long long)n, length, want, how);
                expect_ok(kl_recurrence_solve(&h, &o, (kl_dptr){(uintptr_t)x}, &e, &s, &err), err);
                expect_near(e, -1, 1e-10);
                expect_true(s.converged);
                /* a recurrence that begins anew takes one of the caller's for its state */
                expect_eq(s.nvector, (how == THREE ? 3 : 2) + (want || s.nrestart > 0));
                double norm = 0;
                for (int64_t i = 0; i < n; i++) norm += x[i] * x[i];
                expect_near(norm, want, 1e-12);
                expect_true(s.residual < 1e-10);
                free(x);
                matrix_close(&m);
            }
    kl_exec_close(&ex);
    kl_dense_release();
    expect_eq(kl_mem_live_total(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fuse),    cmocka_unit_test(test_usual), cmocka_unit_test(test_hard),
        cmocka_unit_test(test_stopped), cmocka_unit_test(test_nan),   cmocka_unit_test(test_lean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
