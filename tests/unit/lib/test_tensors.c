/* Tensors of states and of Hamiltonians by kronlat.h: contracted as the header says, against y = H x, the
   vectors of exact diagonalization, and energies.
   SPDX-License-Identifier: Apache-2.0 */
#include "library_kit.h"

#include <math.h>
#include <stdlib.h>

enum {
    MAX_SITES = 32,
    MAX_BOND = 400,
};

/* ---------------------------------------------------------------- contraction */

/* First state of a sector among all states of its bond. */
static int64_t first_of(const kronlat_tensors *t, int bond, int sector)
{
    int64_t n = 0, dim;
    for (int k = 0; k < sector; k++) {
        good(kronlat_tensors_sector(t, bond, k, NULL, &dim, error));
        n += dim;
    }
    return n;
}

static int64_t dim_of(const kronlat_tensors *t, int bond, int sector)
{
    int64_t dim;
    good(kronlat_tensors_sector(t, bond, sector, NULL, &dim, error));
    return dim;
}

static int64_t states_of(const kronlat_tensors *t, int bond)
{
    return first_of(t, bond, kronlat_tensors_sectors(t, bond));
}

/* psi(s) of an MPS, f NULL, or <s| H |f> of an MPO; s and f by site. */
static double element(const kronlat_tensors *t, const int *s, const int *f)
{
    double row[MAX_BOND] = {1}, next[MAX_BOND];
    for (int p = 0; p < kronlat_tensors_sites(t); p++) {
        const int site = kronlat_tensors_site(t, p);
        memset(next, 0, sizeof next);
        for (int64_t i = 0; i < kronlat_tensors_blocks(t, p); i++) {
            int left, state, from, right;
            const double *a;
            good(kronlat_tensors_block(t, p, i, &left, &state, &from, &right, &a, error));
            if (state != s[site] || (f != NULL ? from != f[site] : from != -1)) continue;
            const int64_t l0 = first_of(t, p, left), r0 = first_of(t, p + 1, right);
            const int64_t nl = dim_of(t, p, left), nr = dim_of(t, p + 1, right);
            for (int64_t l = 0; l < nl; l++)
                for (int64_t r = 0; r < nr; r++) next[r0 + r] += row[l0 + l] * a[l * nr + r];
        }
        memcpy(row, next, sizeof row);
    }
    return row[0];
}

/* Every block joins the charges that the header says. */
static void check_charges(kronlat_problem *p, const kronlat_tensors *t, const int *charge_of_state)
{
    int ncharge, modulus[8], l[8], r[8];
    good(kronlat_problem_charges(p, &ncharge, error));
    for (int c = 0; c < ncharge; c++)
        good(kronlat_problem_charge(p, c, NULL, NULL, NULL, &modulus[c], error));
    for (int k = 0; k < kronlat_tensors_sites(t); k++)
        for (int64_t i = 0; i < kronlat_tensors_blocks(t, k); i++) {
            int left, state, from, right;
            good(kronlat_tensors_block(t, k, i, &left, &state, &from, &right, NULL, error));
            good(kronlat_tensors_sector(t, k, left, l, NULL, error));
            good(kronlat_tensors_sector(t, k + 1, right, r, NULL, error));
            for (int c = 0; c < ncharge; c++) {
                int d = l[c] + charge_of_state[state * ncharge + c] - r[c];
                if (from >= 0) d -= charge_of_state[from * ncharge + c];
                assert_int_equal(modulus[c] > 0 ? d % modulus[c] : d, 0);
            }
        }
}

/* <psi| H |psi> of chains: environments of (bra, H, ket) from left to right. */
static double expectation(const kronlat_tensors *a, const kronlat_tensors *w)
{
    int64_t na = 1, nw = 1;
    double *e = calloc(1, sizeof *e), out;
    e[0] = 1;
    for (int p = 0; p < kronlat_tensors_sites(a); p++) {
        const int64_t ma = states_of(a, p + 1), mw = states_of(w, p + 1);
        double *const next = calloc((size_t)(ma * mw * ma), sizeof *next);
        for (int64_t iw = 0; iw < kronlat_tensors_blocks(w, p); iw++) {
            int lw, s, f, rw;
            const double *h;
            good(kronlat_tensors_block(w, p, iw, &lw, &s, &f, &rw, &h, error));
            for (int64_t ib = 0; ib < kronlat_tensors_blocks(a, p); ib++)
                for (int64_t ik = 0; ik < kronlat_tensors_blocks(a, p); ik++) {
                    int lb, sb, rb, lk, sk, rk;
                    const double *bra, *ket;
                    good(kronlat_tensors_block(a, p, ib, &lb, &sb, NULL, &rb, &bra, error));
                    good(kronlat_tensors_block(a, p, ik, &lk, &sk, NULL, &rk, &ket, error));
                    if (sb != s || sk != f) continue;
                    const int64_t b0 = first_of(a, p, lb), k0 = first_of(a, p, lk), w0 = first_of(w, p, lw);
                    const int64_t b1 = first_of(a, p + 1, rb), k1 = first_of(a, p + 1, rk),
                                  w1 = first_of(w, p + 1, rw);
                    const int64_t nb = dim_of(a, p, lb), nk = dim_of(a, p, lk), nv = dim_of(w, p, lw);
                    const int64_t mb = dim_of(a, p + 1, rb), mk = dim_of(a, p + 1, rk),
                                  mv = dim_of(w, p + 1, rw);
                    for (int64_t v = 0; v < nv; v++)
                        for (int64_t v1 = 0; v1 < mv; v1++) {
                            if (h[v * mv + v1] == 0) continue;
                            for (int64_t b = 0; b < nb; b++)
                                for (int64_t k = 0; k < nk; k++) {
                                    const double x =
                                        e[((b0 + b) * nw + w0 + v) * na + k0 + k] * h[v * mv + v1];
                                    for (int64_t i = 0; i < mb && x != 0; i++)
                                        for (int64_t j = 0; j < mk; j++)
                                            next[((b1 + i) * mw + w1 + v1) * ma + k1 + j] +=
                                                x * bra[b * mb + i] * ket[k * mk + j];
                                }
                        }
                }
        }
        free(e);
        e = next;
        na = ma;
        nw = mw;
    }
    out = e[0];
    free(e);
    return out;
}

/* ---------------------------------------------------------------- Hamiltonians */

static void check_mpo(kronlat_problem *p, double most)
{
    kronlat_operator *op = NULL;
    kronlat_tensors *t = NULL;
    good(kronlat_operator_create(p, &op, error));
    good(kronlat_problem_mpo(p, &t, error));
    const int64_t n = kronlat_operator_dimension(op);
    const int nsite = kronlat_tensors_sites(t);
    double *const x = calloc((size_t)(2 * n), sizeof *x), *const y = x + n, worst = 0, size = 0;
    int s[MAX_SITES], f[MAX_SITES];
    assert_int_equal(nsite, kronlat_operator_sites(op));
    assert_int_equal(states_of(t, 0), 1);
    assert_int_equal(states_of(t, nsite), 1);
    for (int k = 0; k < nsite; k++)
        assert_int_equal(kronlat_operator_position(op, kronlat_tensors_site(t, k)), k);
    const int64_t step = 1 + n / 12; /* some columns, all rows */
    for (int64_t j = 0; j < n; j += step) {
        memset(x, 0, (size_t)n * sizeof *x);
        x[j] = 1;
        good(kronlat_operator_apply(op, 1, x, n, y, n, error));
        good(kronlat_operator_state(op, j, f, error));
        for (int64_t i = 0; i < n; i++) {
            good(kronlat_operator_state(op, i, s, error));
            worst = fmax(worst, fabs(element(t, s, f) - y[i]));
            size = fmax(size, fabs(y[i]));
        }
    }
    assert_true(size > 1e-3 * most && size < most);
    assert_true(worst < 1e-13 * most);
    free(x);
    kronlat_tensors_destroy(t);
    kronlat_operator_destroy(op);
}

/* Interactions with a constant, correlated hopping and pairs, on bonds that cross. */
static const char odd_model[] =
    "-- H = sum t (c+_i c_j + h.c.) + V (n_i - 1/2) (n_j - 1/2) + K (c+_i n_j c_k + h.c.) + D c+_i c+_j c_k "
    "c_l\n"
    "site(electron())\nconserve { \"N_up\", \"N_dn\" }\n"
    "parameters { t = 0.7, V = 1.3, K = -0.4, D = 0.6, h = per_site(0) }\n"
    "bond(\"nn\", t * (sum(s, cdag(i,s)*c(j,s)) + hc) + V * (n(i) - 1/2) * (n(j) - 1/2))\n"
    "run(3, K * (sum(s, cdag(i,s)*n(j)*c(k,s)) + hc))\n"
    "run(4, D * (cdag_up(l)*cdag_dn(j)*c_up(k)*c_dn(i) + hc))\n"
    "onsite(h * n(i))\n";

static void test_mpo(void **state)
{
    (void)state;
    static const char *const spins[] = {
        "lattice", "torus:3x2", "charge", "Sz=0", "p", "h=0.3,0.1,-0.2,0.4,0.5,-0.7", NULL};
    static const char *const electrons[] = {"lattice", "torus:3x2", "charge", "N_up=3", "charge",
                                            "N_dn=2",  "p",         "U=4",    NULL};
    static const char *const pairs[] = {"lattice", "ring:8", "charge", "parity=1", "p", "V=0.3", NULL};
    static const char *const local[] = {"lattice", "ring:4", "charge", "N=3", "charge", "Sz=1/2", NULL};
    static const char *const far[] = {"sites", "8", "charge", "Sz=0", NULL};
    static const char *const small[] = {"sites", "6", "charge", "Sz=0", "p", "J=1e-200", NULL};
    const struct {
        const char *model;
        const char *const *set;
    } row[] = {{"heisenberg", spins},
               {"hubbard", electrons},
               {"pairing", pairs},
               {"kondo", local},
               {"longrange", far}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        kronlat_problem *const p = problem_of(row[k].model, row[k].set);
        check_mpo(p, 60);
        kronlat_problem_destroy(p);
    }
    kronlat_problem *p = NULL;
    const double h[5] = {0.1, 0.2, 0.3, -0.4, 0.5};
    good(kronlat_problem_create_text("odd.lua", odd_model, &p, error));
    good(kronlat_problem_set(p, "lattice", "ring:5", error));
    good(kronlat_problem_set(p, "charge", "N_up=2", error));
    good(kronlat_problem_set(p, "charge", "N_dn=3", error));
    good(kronlat_problem_set_parameter(p, "h", 5, h, error));
    check_mpo(p, 60);
    kronlat_problem_destroy(p);
    p = problem_of("heisenberg", small);
    check_mpo(p, 1e-199);
    kronlat_problem_destroy(p);
}

/* ---------------------------------------------------------------- states */

/* sum_s A^T A = 1 left of the centre, sum_s A A^T = 1 right of it. */
static void check_isometry(const kronlat_tensors *t, int position, int left_of_centre)
{
    const int bond = left_of_centre ? position + 1 : position;
    const int64_t n = states_of(t, bond);
    double *const g = calloc((size_t)(n * n), sizeof *g);
    for (int64_t i = 0; i < kronlat_tensors_blocks(t, position); i++) {
        int left, right;
        const double *a;
        good(kronlat_tensors_block(t, position, i, &left, NULL, NULL, &right, &a, error));
        const int64_t nl = dim_of(t, position, left), nr = dim_of(t, position + 1, right);
        const int64_t at = first_of(t, bond, left_of_centre ? right : left);
        for (int64_t l = 0; l < nl; l++)
            for (int64_t r = 0; r < nr; r++)
                if (left_of_centre)
                    for (int64_t q = 0; q < nr; q++)
                        g[(at + r) * n + at + q] += a[l * nr + r] * a[l * nr + q];
                else
                    for (int64_t q = 0; q < nl; q++)
                        g[(at + l) * n + at + q] += a[l * nr + r] * a[q * nr + r];
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) assert_true(fabs(g[i * n + j] - (i == j)) < 1e-12);
    free(g);
}

/* The states of DMRG at full m are those of exact diagonalization, wherever the centre is. */
static void check_mps(kronlat_problem *p, int nstate, const int *charge_of_state)
{
    kronlat_operator *op = NULL;
    kronlat_result *dmrg = NULL, *ed = NULL;
    int s[MAX_SITES];
    kronlat_problem_keep_vectors(p, 1);
    good(kronlat_operator_create(p, &op, error));
    good(kronlat_ed(p, &ed, error));
    good(kronlat_dmrg(p, NULL, &dmrg, error));
    const int64_t n = kronlat_operator_dimension(op);
    const int nsite = kronlat_operator_sites(op), centre[] = {nsite / 2, 0, nsite - 1};
    double *const x = calloc((size_t)(3 * n), sizeof *x), *const first = x + n, *const y = x + 2 * n;
    for (int k = 0; k < nstate; k++)
        for (int c = 0; c < 3; c++) {
            kronlat_tensors *t = NULL;
            good(kronlat_result_mps(dmrg, k, centre[c], &t, error));
            check_charges(p, t, charge_of_state);
            for (int q = 0; q < nsite; q++)
                if (q != centre[c]) check_isometry(t, q, q < centre[c]);
            double norm = 0, overlap = 0, differ = 0;
            good(kronlat_result_vector(ed, k, n, x, error));
            for (int64_t i = 0; i < n; i++) {
                good(kronlat_operator_state(op, i, s, error));
                y[i] = element(t, s, NULL);
                if (c == 0) first[i] = y[i];
                norm += y[i] * y[i];
                overlap += x[i] * y[i];
                differ = fmax(differ, fabs(y[i] - first[i]));
            }
            assert_true(fabs(norm - 1) < 1e-12);
            assert_true(fabs(fabs(overlap) - 1) < 1e-8);
            assert_true(differ < 1e-13);
            kronlat_tensors_destroy(t);
        }
    free(x);
    kronlat_operator_destroy(op);
    kronlat_result_destroy(dmrg);
    kronlat_result_destroy(ed);
}

static void test_mps(void **state)
{
    (void)state;
    static const char *const spins[] = {
        "lattice", "ladder:4x2", "charge", "Sz=1", "states", "2", "p", "h=0.3,0.1,-0.2,0.4,0.5,-0.7,0.1,0.2",
        NULL};
    static const char *const electrons[] = {
        "lattice", "torus:3x2", "charge", "N_up=2", "charge",
        "N_dn=3",  "p",         "U=4",    "p",      "mu=0.1,0.2,-0.3,0.45,-0.15,0",
        NULL};
    static const int up_down[] = {1, -1}, updn[] = {0, 0, 1, 0, 0, 1, 1, 1};
    kronlat_problem *p = problem_of("heisenberg", spins);
    check_mps(p, 2, up_down);
    kronlat_problem_destroy(p);
    p = problem_of("hubbard", electrons);
    check_mps(p, 1, updn);
    kronlat_problem_destroy(p);
}

/* Truncated states of longer chains: <MPS| MPO |MPS> is the energy of the state that was kept. */
static void test_energy(void **state)
{
    (void)state;
    static const char *const spins[] = {"sites", "20", "charge", "Sz=0", "schedule", "12*6", NULL};
    static const char *const electrons[] = {"sites",  "10",         "charge", "N_up=4",   "charge",
                                            "N_dn=5", "p",          "U=3",    "schedule", "16*6",
                                            "pin",    "n_up@2=0.3", NULL};
    static const char *const *const set[] = {spins, electrons};
    for (int k = 0; k < 2; k++) {
        kronlat_problem *const p = problem_of(k == 0 ? "heisenberg" : "hubbard", set[k]);
        kronlat_result *r = NULL;
        kronlat_tensors *a = NULL, *w = NULL;
        const double *kept;
        good(kronlat_dmrg(p, NULL, &r, error));
        good(kronlat_problem_mpo(p, &w, error));
        good(kronlat_result_mps(r, 0, 3, &a, error));
        good(kronlat_result_array(r, "energy_kept", NULL, NULL, &kept, error));
        assert_true(fabs(expectation(a, w) - kept[0]) < 1e-10);
        kronlat_problem_destroy(p); /* tensors live on */
        kronlat_result_destroy(r);
        assert_int_equal(kronlat_tensors_site(w, 2), kronlat_tensors_site(a, 2));
        kronlat_tensors_destroy(a);
        kronlat_tensors_destroy(w);
    }
}

/* ---------------------------------------------------------------- wrong input */

static void test_refusals(void **state)
{
    (void)state;
    static const char *const set[] = {"sites", "6", "charge", "Sz=0", NULL};
    static const char *const total[] = {"sites", "6", "charge", "S=0", NULL};
    kronlat_problem *p = problem_of("heisenberg", set);
    kronlat_result *r = NULL;
    kronlat_tensors *t = NULL;
    good(kronlat_ed(p, &r, error));
    bad(kronlat_result_mps(r, 0, 0, &t, error), "no state");
    assert_null(t);
    kronlat_result_destroy(r);
    good(kronlat_dmrg(p, NULL, &r, error));
    bad(kronlat_result_mps(r, 1, 0, &t, error), "allowed: 0 to 0");
    bad(kronlat_result_mps(r, 0, 6, &t, error), "allowed: 0 to 5");
    good(kronlat_result_mps(r, 0, 5, &t, error));
    bad(kronlat_tensors_sector(t, 7, 0, NULL, NULL, error), "no bond 7");
    bad(kronlat_tensors_sector(t, 0, 1, NULL, NULL, error), "no sector 1");
    bad(kronlat_tensors_block(t, 6, 0, NULL, NULL, NULL, NULL, NULL, error), "no position 6");
    bad(kronlat_tensors_block(t, 0, 99, NULL, NULL, NULL, NULL, NULL, error), "no block 99");
    assert_int_equal(kronlat_tensors_site(t, 6), -1);
    assert_int_equal(kronlat_tensors_dimension(t, -1), -1);
    assert_int_equal(kronlat_tensors_dimension(t, 0), 2);
    assert_int_equal(kronlat_tensors_sectors(t, 7), -1);
    assert_int_equal(kronlat_tensors_blocks(t, 6), -1);
    kronlat_tensors_destroy(t);
    kronlat_tensors_destroy(NULL);
    kronlat_result_destroy(r);
    kronlat_problem_destroy(p);
    p = problem_of("heisenberg", total);
    good(kronlat_dmrg(p, NULL, &r, error));
    bad(kronlat_problem_mpo(p, &t, error), "total spin");
    assert_null(t);
    kronlat_result_destroy(r);
    kronlat_problem_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mpo),
        cmocka_unit_test(test_mps),
        cmocka_unit_test(test_energy),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, make_error, drop_error);
}
