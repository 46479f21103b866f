/* Truncation alone, on wavefunctions made for it: weights, entropy and discarded weight against reduced
   density matrices by plain loops, both methods of finding them, multiplets, discarded weight, tiny singular
   values, noise, and wavefunctions that cannot be truncated.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "base/dense.h"
#include "dmrg/sectorfill.h"
#include "kl_test.h"

/* An engine of full blocks opened at centre c, with psi at hand. */
typedef struct bench {
    core_job j;
    kl_engine *e;
    int64_t n;   /* length of one wavefunction */
    double *psi; /* [nstate][n] */
    kl_bigop *row_op, *col_op;
} bench;

static void put(bench *b)
{
    kl_err err = {""};
    expect_ok(b->j.ex->vt.upload(b->j.ex, b->e->psi, b->psi, b->n * b->e->nstate, &err), err);
}

static void bench_open_wide(bench *b, int m, const char *model, const char *lattice, const char *sets,
                            const char *charge, int nstate, int centre, uint64_t seed)
{
    kl_err err = {""};
    core_open(&b->j, core_model(model, NULL), lattice, NULL, sets);
    const kl_engine_opts o = {.target = core_charge(b->j.model, charge),
                              .nstate = nstate,
                              .strategy = KL_STRATEGY_AUTO,
                              .solver = KL_SOLVER_DAVIDSON,
                              .max_basis = 20,
                              .seed = seed};
    expect_ok(kl_engine_create(b->j.terms, b->j.ex, &o, &b->e, &err), err);
    expect_ok(kl_engine_start(b->e, m, 0, NULL, &err), err);
    for (int c = 0; c < centre; c++) {
        const kl_solve_opts so = {.tol = 1e-10, .max_apply = 30};
        const kl_trunc_opts to = {.m = 1000, .nstate = nstate, .noise = 1e-3};
        double energy[KL_MAX_STATE];
        kl_eig_stats stats;
        kl_trunc_info info;
        expect_ok(kl_engine_solve(b->e, &so, energy, &stats, &err), err);
        expect_ok(kl_engine_move(b->e, 1, &to, &info, &err), err);
    }
    b->n = b->e->layout.n;
    b->psi = malloc((size_t)(b->n * nstate) * sizeof *b->psi);
    for (int s = 0; s < nstate; s++) {
        double *const x = b->psi + s * b->n;
        for (int64_t i = 0; i < b->n; i++)
            x[i] = pow(fabs(kl_test_uniform(&seed)), 3) * kl_test_uniform(&seed);
        const double norm = sqrt(core_dot(b->n, x, x));
        for (int64_t i = 0; i < b->n; i++) x[i] /= norm;
    }
    put(b);
    expect_ok(kl_bigop_create(b->e->left_block[centre], b->e->row, centre, &b->row_op, &err), err);
    expect_ok(kl_bigop_create(b->e->right_block[centre + 2], b->e->col, centre + 1, &b->col_op, &err), err);
}

static void bench_open(bench *b, const char *model, const char *lattice, const char *sets, const char *charge,
                       int nstate, int centre, uint64_t seed)
{
    bench_open_wide(b, 24, model, lattice, sets, charge, nstate, centre, seed);
}

static void bench_close(bench *b)
{
    free(b->psi);
    kl_bigop_destroy(&b->row_op);
    kl_bigop_destroy(&b->col_op);
    kl_engine_destroy(&b->e);
    core_close(&b->j);
}

static kl_status truncate(bench *b, kl_side side, const kl_trunc_opts *o, kl_isometry **iso,
                          kl_trunc_info *info, kl_err *err)
{
    kl_exec *const ex = b->j.ex;
    kl_dptr data;
    const kl_wave wave = kl_engine_wave(b->e);
    kl_status st =
        kl_truncate(ex, side, &wave, side == KL_LEFT ? b->row_op : b->col_op, o, iso, &data, info, err);
    if (st == KL_OK) st = kl_alloc(&(*iso)->data, (*iso)->ndata, KL_MEM_STATE, err);
    if (st == KL_OK) st = ex->vt.download(ex, (*iso)->data, data, (*iso)->ndata, err);
    ex->vt.release(ex, &data);
    if (st != KL_OK) kl_isometry_destroy(iso);
    return st;
}

/* Averaged reduced density matrix of sector c of one side, dim x dim. */
static double *density(const bench *b, kl_side side, int c, int *dim)
{
    const kl_layout *const lay = &b->e->layout;
    const kl_basis *const row = &b->e->row->basis, *const col = &b->e->col->basis;
    const int i = side == KL_LEFT ? c : lay->back[c], j = side == KL_LEFT ? lay->pair[c] : c,
              n = *dim = side == KL_LEFT ? row->dim[c] : col->dim[c];
    double *const rho = calloc((size_t)n * (size_t)n, sizeof *rho);
    if (i < 0 || j < 0) return rho;
    for (int s = 0; s < b->e->nstate; s++) {
        const double *const x = b->psi + s * b->n + lay->off[i];
        for (int p = 0; p < n; p++)
            for (int q = 0; q < n; q++)
                for (int k = 0; k < (side == KL_LEFT ? col->dim[j] : row->dim[i]); k++) {
                    const int64_t a =
                        side == KL_LEFT ? p + (int64_t)k * row->dim[i] : k + (int64_t)p * row->dim[i];
                    const int64_t d =
                        side == KL_LEFT ? q + (int64_t)k * row->dim[i] : k + (int64_t)q * row->dim[i];
                    rho[p + (int64_t)q * n] += x[a] * x[d] / b->e->nstate;
                }
    }
    return rho;
}

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x > y ? -1 : x < y;
}

/* All weights of one side, largest first; how many. */
static int64_t weights(const bench *b, kl_side side, double **out)
{
    kl_err err = {""};
    const kl_basis *const mine = side == KL_LEFT ? &b->e->row->basis : &b->e->col->basis;
    double *const all = *out = calloc((size_t)mine->total, sizeof *all);
    int64_t n = 0;
    for (int c = 0; c < mine->nsec; c++) {
        int dim;
        double *const rho = density(b, side, c, &dim);
        expect_ok(kl_dense_eig(dim, rho, dim, all + n, &err), err);
        n += dim;
        free(rho);
    }
    qsort(all, (size_t)n, sizeof *all, descending);
    return n;
}

/* sum over kept states of <o| rho |o>, and orthonormal columns. */
static double weight_kept(const bench *b, kl_side side, const kl_isometry *o)
{
    double sum = 0;
    for (int k = 0; k < o->basis.nsec; k++) {
        int dim;
        double *const rho = density(b, side, o->sec[k], &dim);
        const double *const a = o->data + o->off[k];
        for (int x = 0; x < o->basis.dim[k]; x++) {
            for (int y = 0; y <= x; y++)
                expect_near(core_dot(dim, a + (int64_t)x * dim, a + (int64_t)y * dim), x == y, 1e-13 * dim);
            for (int p = 0; p < dim; p++)
                sum += a[p + (int64_t)x * dim] * core_dot(dim, rho + (int64_t)p * dim, a + (int64_t)x * dim);
        }
        free(rho);
    }
    return sum;
}

/* Trace of the product of two projectors. */
static double shared(const kl_isometry *a, const kl_isometry *b)
{
    double sum = 0;
    for (int k = 0; k < a->basis.nsec; k++) {
        const int l = kl_basis_find(&b->basis, a->basis.q[k]);
        if (l < 0) continue;
        const int rows = a->enlarged->basis.dim[a->sec[k]];
        for (int x = 0; x < a->basis.dim[k]; x++)
            for (int y = 0; y < b->basis.dim[l]; y++) {
                const double d = core_dot(rows, a->data + a->off[k] + (int64_t)x * rows,
                                          b->data + b->off[l] + (int64_t)y * rows);
                sum += d * d;
            }
    }
    return sum;
}

static const struct {
    const char *model, *lattice, *sets, *charge;
    int centre;
} cases[] = {{"heisenberg", "chain:8", "h=normal(0,1)", "Sz=1", 3},
             {"heisenberg", "chain:8", "h=normal(0,1)", NULL, 1},
             {"heisenberg", "chain:6", NULL, "Sz=-2", 0},
             {"hubbard", "chain:5", "mu=normal(0,1)", "N_up=3 N_dn=2", 1},
             {"hubbard", "chain:4", NULL, "N_up=4 N_dn=1", 2},
             {"strange", "chain:4", NULL, "parity=1", 1},
             {"free_spins", "chain:7", NULL, NULL, 2},
             {"kondo", "chain:3", NULL, "N=2 Sz=1/2", 1}};

static void test_weights(void **state)
{
    kl_err err = {""};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int nstate = 1; nstate <= 3; nstate++) {
            bench b;
            bench_open(&b, cases[k].model, cases[k].lattice, cases[k].sets, cases[k].charge, nstate,
                       cases[k].centre, k + 1);
            for (int side = KL_LEFT; side <= KL_RIGHT; side++) {
                double *w;
                const int64_t n = weights(&b, side, &w);
                double entropy = 0;
                for (int64_t i = n - 1; i >= 0; i--)
                    if (w[i] > 0) entropy -= w[i] * log(w[i]);
                for (int m = 1; m < n + 3; m += 1 + m / 3) {
                    kl_isometry *o[2] = {NULL, NULL};
                    kl_trunc_info info[2];
                    for (int precise = 0; precise < 2; precise++) {
                        const kl_trunc_opts t = {.m = m, .m_min = 1, .nstate = nstate, .precise = precise};
                        kl_test_case("%s nstate=%d side=%d m=%d precise=%d", b.j.name, nstate, side, m,
                                     precise);
                        expect_ok(truncate(&b, side, &t, &o[precise], &info[precise], &err), err);
                        expect_eq(info[precise].m, o[precise]->basis.total);
                        /* random weights: no multiplets */
                        expect_true(info[precise].m <= (m > nstate ? m : nstate));
                        double out = 0;
                        for (int64_t i = n - 1; i >= info[precise].m; i--) out += w[i] > 0 ? w[i] : 0;
                        expect_near(info[precise].discarded, out, 1e-13);
                        expect_near(info[precise].entropy, entropy, 1e-12);
                        expect_near(weight_kept(&b, side, o[precise]), 1 - out, 1e-13);
                        int64_t real = 0; /* with weight */
                        for (int64_t i = 0; i < n; i++) real += w[i] > 1e-15;
                        if (m <= real) expect_true(info[precise].m >= m);
                    }
                    if (info[0].m == info[1].m && info[0].m < n && (m >= n || w[info[0].m - 1] > 1e-10))
                        expect_near(shared(o[0], o[1]), info[0].m, 1e-5);
                    kl_isometry_destroy(&o[0]);
                    kl_isometry_destroy(&o[1]);
                }
                for (int d = 1; d < 9; d += 2) { /* by weight */
                    kl_isometry *o = NULL;
                    kl_trunc_info info;
                    const kl_trunc_opts t = {.m = 1000, .m_min = 1, .discard = pow(10, -d), .nstate = nstate};
                    expect_ok(truncate(&b, side, &t, &o, &info, &err), err);
                    kl_test_case("%s nstate=%d side=%d discard=1e-%d", b.j.name, nstate, side, d);
                    expect_true(info.discarded <= t.discard);
                    if (info.m > nstate)
                        expect_true(info.discarded + w[info.m - 1] > t.discard * (1 - 1e-12));
                    kl_isometry_destroy(&o);
                    const kl_trunc_opts least = {.m = 1000, .m_min = 6, .discard = 0.9, .nstate = nstate};
                    expect_ok(truncate(&b, side, &least, &o, &info, &err), err);
                    expect_true(info.m >= 6 || info.discarded < 1e-15);
                    kl_isometry_destroy(&o);
                }
                free(w);
            }
            bench_close(&b);
        }
    core_no_memory();
}

/* What a device makes of its matrices, here one reflection after the other. */
static int reduce_calls;

static kl_status reduce_there(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr all, double *d,
                              double *e, kl_err *err)
{
    double *const p = kl_test_guarded(4096);
    (void)ex, (void)err;
    reduce_calls++;
    for (int i = 0; i < nmat; d += n[i], e += n[i++]) {
        double *const a = (double *)kl_dptr_at(all, off[i]).addr;
        for (int j = 0, rows = n[i]; j < rows; j++) {
            double *const v = a + (int64_t)j * rows, squares = 0, pv = 0;
            d[j] = v[j], e[j] = j + 1 < rows ? v[j + 1] : 0;
            for (int r = 0; r <= j; r++) v[r] = 0;
            for (int r = j + 2; r < rows; r++) squares += v[r] * v[r];
            if (squares == 0) {
                if (j + 1 < rows) v[j + 1] = 0;
                continue;
            }
            const double alpha = -copysign(sqrt(squares + e[j] * e[j]), e[j]), scale = 1 / (e[j] - alpha),
                         tau = 2 / (1 + squares * scale * scale);
            for (int r = j + 2; r < rows; r++) v[r] *= scale;
            v[j + 1] = 1, e[j] = alpha;
            for (int r = j + 1; r < rows; r++) {
                p[r] = 0;
                for (int c = j + 1; c < rows; c++) p[r] += tau * a[r + (int64_t)c * rows] * v[c];
                pv += p[r] * v[r];
            }
            for (int r = j + 1; r < rows; r++) p[r] -= 0.5 * tau * pv * v[r];
            for (int c = j + 1; c < rows; c++)
                for (int r = j + 1; r < rows; r++) a[r + (int64_t)c * rows] -= v[r] * p[c] + p[r] * v[c];
        }
    }
    kl_test_free(p);
    return KL_OK;
}

/* Sectors so large that only what is kept of their eigenvectors is made, by several threads: the weight that
   m states can hold, orthonormal columns, and the states that singular values give; all of it also where an
   executor makes the matrices tridiagonal. */
static void test_turned(void **state)
{
    /* density matrices, singular values, and density matrices reduced there: those of 160 rows and more, all;
       of 129 and more vectors are shared out */
    enum { WAYS = 4 };
    kl_err err = {""};
    bench b;
    (void)state;
    bench_open_wide(&b, 320, "heisenberg", "chain:20", "h=normal(0,1)", "Sz=0", 2, 9, 3);
    for (int side = KL_LEFT; side <= KL_RIGHT; side++) {
        double *w;
        const int64_t n = weights(&b, side, &w);
        for (int m = 1; m < n + 50; m += KL_TEST_WATCHED ? 1 + 4 * m : 1 + m) {
            kl_isometry *o[WAYS] = {NULL};
            kl_trunc_info info[WAYS];
            for (int way = 0; way < WAYS; way++) {
                const kl_trunc_opts t = {.m = m, .nstate = 2, .precise = way == 1};
                const int calls = reduce_calls;
                b.j.ex->vt.tridiagonal = way < 2 ? NULL : reduce_there;
                b.j.ex->eigen.least = way == 2 ? 160 : 0;
                kl_test_case("side=%d m=%d way=%d", side, m, way);
                expect_ok(truncate(&b, side, &t, &o[way], &info[way], &err), err);
                expect_true(info[way].matrix_max >= 160);
                expect_eq(reduce_calls - calls, way > 1);
                double out = 0;
                for (int64_t i = n - 1; i >= info[way].m; i--) out += w[i] > 0 ? w[i] : 0;
                expect_near(info[way].discarded, out, 1e-13);
                expect_near(weight_kept(&b, side, o[way]), 1 - out, 1e-13);
            }
            for (int way = 1; way < WAYS && w[info[0].m - 1] > 1e-9; way++) {
                expect_eq(info[0].m, info[way].m);
                expect_near(shared(o[0], o[way]), info[0].m, 1e-5);
            }
            for (int way = 0; way < WAYS; way++) kl_isometry_destroy(&o[way]);
        }
        free(w);
    }
    /* no memory anywhere in it, back-transforms included, here and there */
    for (int64_t k = 1; k < 400; k += KL_TEST_WATCHED ? 11 : 3) {
        b.j.ex->vt.tridiagonal = k < 200 ? NULL : reduce_there;
        kl_isometry *o = NULL;
        kl_trunc_info info;
        const kl_trunc_opts t = {.m = 100, .nstate = 2};
        kl_dense_release();
        const int64_t live = kl_mem_live_total();
        kl_mem_fail_after(k % 200);
        const kl_status st = truncate(&b, KL_LEFT, &t, &o, &info, &err);
        kl_mem_fail_after(0);
        if (st == KL_OK) kl_isometry_destroy(&o);
        kl_dense_release();
        expect_true(st == KL_OK || (st == KL_ENOMEM && o == NULL));
        expect_eq(kl_mem_live_total(), live);
    }
    bench_close(&b);
    core_no_memory();
}

/* Weights all equal: whatever m, all stay. */
static void test_multiplet(void **state)
{
    kl_err err = {""};
    bench b;
    (void)state;
    bench_open(&b, "heisenberg", "chain:8", NULL, NULL, 1, 3, 1);
    const kl_layout *const lay = &b.e->layout;
    memset(b.psi, 0, (size_t)b.n * sizeof *b.psi);
    int64_t rank = 0;
    for (int i = 0; i < lay->nsec; i++) {
        if (lay->pair[i] < 0) continue;
        const int r = b.e->row->basis.dim[i], c = b.e->col->basis.dim[lay->pair[i]];
        for (int k = 0; k < r && k < c; k++, rank++) b.psi[lay->off[i] + k + (int64_t)k * r] = 1;
    }
    for (int64_t i = 0; i < b.n; i++) b.psi[i] /= sqrt((double)rank);
    put(&b);
    for (int precise = 0; precise < 2; precise++)
        for (int side = KL_LEFT; side <= KL_RIGHT; side++) {
            kl_isometry *o = NULL;
            kl_trunc_info info;
            const kl_trunc_opts t = {.m = 1, .nstate = 1, .precise = precise};
            expect_ok(truncate(&b, side, &t, &o, &info, &err), err);
            expect_eq(info.m, rank);
            expect_near(info.discarded, 0, 1e-14);
            expect_near(info.entropy, log((double)rank), 1e-13);
            kl_isometry_destroy(&o);
        }
    bench_close(&b);
    core_no_memory();
}

/* Singular values down to 1e-14 of the largest: `precise` finds them, with their vectors, where a density
   matrix is blind. Two wavefunctions: the second one holds the even ones only, of other columns. */
static void test_tiny_values(void **state)
{
    kl_err err = {""};
    (void)state;
    for (int nstate = 1; nstate <= 2; nstate++) {
        bench b;
        bench_open(&b, "free_spins", "chain:8", NULL, NULL, nstate, 3, 1);
        const int r = b.e->row->basis.dim[0], c = b.e->col->basis.dim[0], values = 6;
        expect_true(r >= 12 && c >= 12);
        memset(b.psi, 0, (size_t)(b.n * nstate) * sizeof *b.psi);
        for (int k = 0; k < values; k++) /* u_k = (e_k + e_{k+6}) / sqrt 2 */
            for (int h = 0; h < 4; h++)
                b.psi[(nstate == 2 && k % 2 ? b.n : 0) + k + 6 * (h & 1) + (int64_t)(k + 6 * (h >> 1)) * r] =
                    pow(10, -2.5 * k) / 2;
        put(&b);
        for (int side = KL_LEFT; side <= KL_RIGHT; side++) {
            kl_isometry *o = NULL;
            kl_trunc_info info;
            const kl_trunc_opts t = {.m = values, .nstate = nstate, .precise = 1};
            expect_ok(truncate(&b, side, &t, &o, &info, &err), err);
            expect_eq(info.m, values);
            for (int k = 0; k < values; k++) {
                const double *const x = o->data + (int64_t)k * o->enlarged->basis.dim[0];
                kl_test_case("%d states, side %d value %d", nstate, side, k);
                expect_near(fabs(x[k] + x[k + 6]) / sqrt(2), 1, 1e-2);
            }
            expect_true(info.discarded < 1e-28);
            kl_isometry_destroy(&o);
        }
        bench_close(&b);
    }
    core_no_memory();
}

/* A product state has one state; noise opens the sectors that H leads to, and costs next to no weight. */
static void test_noise(void **state)
{
    kl_err err = {""};
    bench b;
    (void)state;
    bench_open(&b, "heisenberg", "chain:8", NULL, NULL, 1, 3, 1);
    memset(b.psi, 0, (size_t)b.n * sizeof *b.psi);
    const int i = kl_basis_find(&b.e->row->basis, kl_qn_zero());
    b.psi[b.e->layout.off[i]] = 1;
    put(&b);
    for (int side = KL_LEFT; side <= KL_RIGHT; side++) {
        kl_isometry *o = NULL;
        kl_trunc_info info;
        kl_trunc_opts t = {.m = 10, .nstate = 1};
        expect_ok(truncate(&b, side, &t, &o, &info, &err), err);
        expect_eq(info.m, 1);
        expect_near(info.entropy, 0, 1e-14);
        kl_isometry_destroy(&o);
        t.noise = 1e-6;
        expect_ok(truncate(&b, side, &t, &o, &info, &err), err);
        expect_eq(o->basis.nsec, 2); /* of S+ and S- on the spin next to the cut one gives something */
        expect_eq(o->basis.q[1].v[0] - o->basis.q[0].v[0], 2);
        expect_near(weight_kept(&b, side, o), 1, 1e-5);
        kl_isometry_destroy(&o);
        t.m = 1; /* however small m is, a sector that noise has opened keeps a state */
        expect_ok(truncate(&b, side, &t, &o, &info, &err), err);
        expect_eq(o->basis.nsec, 2);
        kl_isometry_destroy(&o);
    }
    bench_close(&b);
    core_no_memory();
}

typedef struct found {
    double w;
    int sec;
} found;

static int falling(const void *pa, const void *pb)
{
    const double a = ((const found *)pa)->w, b = ((const found *)pb)->w;
    return (a < b) - (a > b);
}

/* What is wanted of every sector: the largest set of weights that makes no more than m states when its
   sectors are made even; and a sixteenth more, in whole tiles, unless the number is fixed. Returns how many
   that are. */
static int64_t fill_up(const found *all, int64_t n, const kl_basis *whole, int m, int fixed, int *want,
                       int *there)
{
    int64_t total = m + 1, keep = n < m ? n : m;
    memset(there, 0, (size_t)whole->nsec * sizeof *there);
    for (int64_t i = 0; i < n; i++) there[all[i].sec]++;
    for (; total > m; keep--) {
        memset(want, 0, (size_t)whole->nsec * sizeof *want);
        for (int64_t i = total = 0; i < keep; i++) want[all[i].sec]++;
        for (int c = 0; c < whole->nsec; c++) total += want[c] += want[c] % 2 && want[c] < there[c];
    }
    int more = fixed ? 0 : m / 16;
    static const int unit[] = {32, 16, 8}, above[] = {112, 48, 24}, below[] = {1 << 30, 112, 48};
    for (int u = 0; u < 3; u++)
        for (int c = 0; c < whole->nsec; c++) {
            if (want[c] <= above[u] || want[c] > below[u]) continue;
            int lack = 0;
            while ((want[c] + lack) % unit[u] && want[c] + lack < there[c]) lack++;
            if (lack > more) continue;
            want[c] += lack, more -= lack, total += lack;
        }
    return total;
}

/* Whole tiles, sectors of many states first, as far as what may be added goes, and no more than there are. */
static void test_fill(void **state)
{
    enum { N = 9 };
    static const int dim[N] = {10, 246, 38, 130, 113, 96, 60, 24, 300},
                     there[N] = {99, 999, 999, 999, 999, 96, 62, 99, 310};
    static const int want[3][N] = {{10, 256, 40, 160, 128, 96, 62, 24, 310},
                                   {10, 256, 40, 130, 113, 96, 62, 24, 300},
                                   {10, 246, 38, 130, 113, 96, 60, 24, 300}};
    static const int64_t more[3] = {1000, 14, 0};
    (void)state;
    for (int t = 0; t < 3; t++) {
        int got[N];
        memcpy(got, dim, sizeof got);
        kl_sectors_fill(N, got, there, more[t]);
        for (int c = 0; c < N; c++)
            kl_test_case("more=%d sector %d", (int)more[t], c), expect_eq(got[c], want[t][c]);
    }
}

/* For a device: sectors filled up, little more in all than asked for; even ones, and never more, where the
   number is fixed or a weight decides. */
static void test_full(void **state)
{
    static const struct {
        int wide, sites, centre, from, to, step;
    } sizes[] = {{80, 14, 6, 60, 90, 1}, {320, 20, 9, 90, 600, 51}};
    kl_err err = {""};
    (void)state;
    for (int t = 0; t < 2; t++) {
        bench b;
        int nfull = 0, nmore = 0, nmade = 0;
        char chain[16];
        snprintf(chain, sizeof chain, "chain:%d", sizes[t].sites);
        bench_open_wide(&b, sizes[t].wide, "heisenberg", chain, NULL, NULL, 1, sizes[t].centre, 1);
        b.j.ex->space = KL_SPACE_DEVICE; /* which it is not, but says so */
        for (int side = KL_LEFT; side <= KL_RIGHT; side++) {
            const kl_basis *const whole = side == KL_LEFT ? &b.e->row->basis : &b.e->col->basis;
            found *const all = calloc((size_t)whole->total, sizeof *all);
            int *const want = calloc(2 * (size_t)whole->nsec, sizeof *want);
            int64_t n = 0;
            for (int c = 0; c < whole->nsec; c++) {
                int dim;
                double *const rho = density(&b, side, c, &dim), *const w = calloc((size_t)dim, sizeof *w);
                expect_ok(kl_dense_eig(dim, rho, dim, w, &err), err);
                for (int i = 0; i < dim; i++)
                    if (w[i] > 1e-15) all[n++] = (found){w[i], c};
                free(rho);
                free(w);
            }
            qsort(all, (size_t)n, sizeof *all, falling);
            for (int m = sizes[t].from; m < sizes[t].to; m += sizes[t].step)
                /* 2: a discarded weight that nothing is left out for */
                for (int fixed = 0; fixed < 3; fixed++) {
                    kl_isometry *o = NULL;
                    kl_trunc_info info;
                    const kl_trunc_opts opts = {
                        .m = m, .nstate = 1, .fill = fixed == 1, .discard = fixed == 2 ? 1e-300 : 0};
                    expect_ok(truncate(&b, side, &opts, &o, &info, &err), err);
                    kl_test_case("m=%d side=%d fixed=%d: %lld of %lld states in %d of %d sectors", m, side,
                                 fixed, (long long)o->basis.total, (long long)whole->total, o->basis.nsec,
                                 whole->nsec);
                    expect_eq(info.m, o->basis.total);
                    if (m < 8 * whole->nsec || n < m) { /* as they come */
                        expect_true(o->basis.total == m || n < m);
                        kl_isometry_destroy(&o);
                        continue;
                    }
                    nfull++, nmore += o->basis.total > m;
                    const int64_t total = fill_up(all, n, whole, m, fixed, want, want + whole->nsec);
                    expect_true(total <= m + m / 16 && total + whole->nsec >= m);
                    /* and weights of rounding alone fill up, too */
                    if (fixed == 1) expect_true(o->basis.total <= m && o->basis.total >= total);
                    else expect_eq(o->basis.total, total);
                    for (int c = 0; c < o->basis.nsec && fixed != 1; c++)
                        expect_eq(o->basis.dim[c], want[kl_basis_find(whole, o->basis.q[c])]);
                    kl_isometry_destroy(&o);
                }
            /* of a basis that is made up, likewise */
            for (int m = sizes[t].from; m < sizes[t].to; m += sizes[t].step) {
                int total = 0;
                if (m < 8 * whole->nsec) continue;
                expect_ok(kl_engine_share(b.e, side, sizes[t].centre + 1, m, whole, want, &err), err);
                kl_test_case("m=%d side=%d: a basis that is made up", m, side);
                for (int c = 0; c < whole->nsec; total += want[c++])
                    expect_true(want[c] == whole->dim[c] || want[c] % 2 == 0);
                expect_true(total <= m + m / 16);
                for (int c = 0; c < whole->nsec; c++)
                    nmade += want[c] > 24 && want[c] < whole->dim[c] && want[c] % 8 == 0;
            }
            free(all);
            free(want);
        }
        expect_true(nfull >= 16 && nmore >= 8 && (t == 0 || nmade >= 16));
        bench_close(&b);
    }
    core_no_memory();
}

static void test_nothing(void **state)
{
    kl_err err = {""};
    bench b;
    (void)state;
    bench_open(&b, "heisenberg", "chain:6", NULL, NULL, 1, 2, 1);
    for (int bad = 0; bad < 2; bad++)
        for (int precise = 0; precise < 2; precise++)
            for (int side = KL_LEFT; side <= KL_RIGHT; side++) {
                kl_isometry *o = NULL;
                kl_trunc_info info;
                const kl_trunc_opts t = {.m = 10, .nstate = 1, .precise = precise};
                for (int64_t k = 0; k < b.n; k++) b.psi[k] = bad ? NAN : 0;
                put(&b);
                err.text[0] = 0;
                expect_true(truncate(&b, side, &t, &o, &info, &err) != KL_OK);
                expect_true(err.text[0] && !strchr(err.text, '\n') && o == NULL);
            }
    bench_close(&b);
    core_no_memory();
}

/* What a device's executor offers, here by LAPACK: the same bits must come out, whoever finds the
   eigenvectors. */
static int eigen_calls, eigen_matrices;

static kl_status eigen_there(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a, double *w,
                             kl_err *err)
{
    kl_status st = KL_OK;
    (void)ex;
    eigen_calls++;
    eigen_matrices += nmat;
    for (int i = 0; i < nmat && st == KL_OK; w += n[i++])
        st = kl_dense_eig(n[i], (double *)kl_dptr_at(a, off[i]).addr, n[i] > 1 ? n[i] : 1, w, err);
    return st;
}

static void test_eigen_there(void **state)
{
    static const kl_trunc_opts wanted[] = {{.m = 20, .nstate = 2},
                                           {.m = 9, .nstate = 2, .noise = 1e-4},
                                           {.m = 1000, .nstate = 2, .discard = 1e-5},
                                           {.m = 30, .nstate = 2, .fill = 1}};
    kl_err err = {""};
    bench b;
    (void)state;
    bench_open(&b, "hubbard", "chain:8", "U=4", "N_up=4 N_dn=4", 2, 3, 5);
    const int i = b.e->layout.pair[0] >= 0 ? 0 : 1; /* one sector without weight, in both states */
    for (int s = 0; s < 2; s++)
        for (int64_t k = 0; k < (int64_t)b.e->row->basis.dim[i] * b.e->col->basis.dim[b.e->layout.pair[i]];
             k++)
            b.psi[s * b.n + b.e->layout.off[i] + k] = 0;
    put(&b);
    eigen_calls = 0;
    for (int c = 0; c < 4; c++)
        for (int side = KL_LEFT; side <= KL_RIGHT; side++) {
            kl_isometry *o[2] = {NULL, NULL};
            kl_trunc_info info[2];
            kl_test_case("case %d side %d", c, side);
            for (int there = 0; there < 2; there++) {
                b.j.ex->vt.eigen = there ? eigen_there : NULL;
                /* not worth it: as if it were not there; only the large ones; all */
                b.j.ex->eigen.least = !there ? 0 : c == 0 && side == KL_RIGHT ? 1000000 : c > 1 ? 12 : 0;
                b.j.ex->eigen.ntime = c == 1 ? 2 : 0; /* both equally fast: about half of the work */
                b.j.ex->eigen.time[0] = (kl_eigen_time){4, 1e-6, 1e-6};
                b.j.ex->eigen.time[1] = (kl_eigen_time){40, 1e-3, 1e-3};
                expect_ok(truncate(&b, side, &wanted[c], &o[there], &info[there], &err), err);
            }
            expect_true(memcmp(&info[0], &info[1], sizeof *info) == 0);
            expect_eq(o[0]->basis.nsec, o[1]->basis.nsec);
            expect_true(memcmp(o[0]->basis.dim, o[1]->basis.dim, (size_t)o[0]->basis.nsec * sizeof(int)) ==
                        0);
            expect_eq(o[0]->ndata, o[1]->ndata);
            expect_true(memcmp(o[0]->data, o[1]->data, (size_t)o[0]->ndata * sizeof(double)) == 0);
            kl_isometry_destroy(&o[0]);
            kl_isometry_destroy(&o[1]);
        }
    expect_eq(eigen_calls, 7);
    expect_true(eigen_matrices > 0 && eigen_matrices < 7 * b.e->row->basis.nsec);
    b.j.ex->vt.eigen = eigen_there, b.j.ex->eigen.least = 0, b.j.ex->eigen.ntime = 2;
    eigen_calls = 0;
    /* half of a millisecond saved at most each time: what takes so long to open has to wait */
    for (int c = 0; c < 60; c++) {
        kl_isometry *o = NULL;
        kl_trunc_info info;
        b.j.ex->eigen.opening = 1e-3;
        const double before = b.j.ex->eigen.saved;
        expect_ok(truncate(&b, KL_LEFT, &wanted[1], &o, &info, &err), err);
        kl_isometry_destroy(&o);
        expect_true(before >= 1e-3 ? b.j.ex->eigen.saved == before : b.j.ex->eigen.saved > before);
        expect_eq(eigen_calls > 0, b.j.ex->eigen.saved >= 1e-3);
    }
    expect_true(eigen_calls > 1 && eigen_calls < 60);
    for (int64_t k = 1; k < 40; k++) { /* no memory anywhere in it: refused, nothing left behind */
        kl_isometry *o = NULL;
        kl_trunc_info info;
        const int64_t live = kl_mem_live_total();
        kl_mem_fail_after(k);
        const kl_status st = truncate(&b, KL_LEFT, &wanted[1], &o, &info, &err);
        kl_mem_fail_after(0);
        if (st == KL_OK) kl_isometry_destroy(&o);
        expect_true(st == KL_OK || (st == KL_ENOMEM && o == NULL));
        expect_true(kl_mem_live_total() <= live + (1 << 20)); /* LAPACK's work space is kept */
    }
    bench_close(&b);
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_weights),    cmocka_unit_test(test_turned),
                                       cmocka_unit_test(test_multiplet),  cmocka_unit_test(test_tiny_values),
                                       cmocka_unit_test(test_noise),      cmocka_unit_test(test_fill),
                                       cmocka_unit_test(test_full),       cmocka_unit_test(test_nothing),
                                       cmocka_unit_test(test_eigen_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
