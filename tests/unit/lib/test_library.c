/* kronlat.h from outside: every call, wrong input with its line, results against exact energies and against
   each other, threads, and the caller's own solver.
   SPDX-License-Identifier: Apache-2.0 */
#include "library_kit.h"

#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static kronlat_problem *heisenberg(const char *sites)
{
    const char *const set[] = {"sites", sites, "charge", "Sz=0", "threads", "1", NULL};
    return problem_of("heisenberg", set);
}

static kronlat_problem *hubbard(const char *form)
{
    const char *const set[] = {"lattice", "ring:6",  "p", "U=4",  "charge", "N_up=3", "charge",
                               "N_dn=2",  "threads", "2", "form", form,     NULL};
    return problem_of("hubbard", set);
}

/* ---------------------------------------------------------------- problems */

static void test_settings(void **state)
{
    (void)state;
    int n = 0, num, den, modulus;
    const char *name;
    kronlat_problem *p = heisenberg("6");
    good(kronlat_problem_sites(p, &n, error));
    assert_int_equal(n, 6);
    good(kronlat_problem_set(p, "sites", "8", error)); /* a later value replaces the earlier one */
    good(kronlat_problem_sites(p, &n, error));
    assert_int_equal(n, 8);
    good(kronlat_problem_charges(p, &n, error));
    assert_int_equal(n, 1);
    good(kronlat_problem_charge(p, 0, &name, &num, &den, &modulus, error));
    assert_string_equal(name, "Sz");
    assert_true(num == 1 && den == 2 && modulus == 0);
    bad(kronlat_problem_charge(p, 1, &name, NULL, NULL, NULL, error), "no charge 1");
    good(kronlat_problem_site_dimension(p, 7, &n, error));
    assert_int_equal(n, 2);
    bad(kronlat_problem_site_dimension(p, 8, &n, error), "0 to 7");
    good(kronlat_problem_site_state(p, 0, 0, &name, error));
    assert_true(strcmp(name, "up") == 0 || strcmp(name, "dn") == 0);
    bad(kronlat_problem_set(p, "m", "0", error), "1 to");
    bad(kronlat_problem_set(p, "nonsense", "1", error), "nonsense");
    static const char *const list[] = {"measure", "spectral", "reference", "parameter", "p", "charge", "pin"};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        assert_int_equal(kronlat_option_is_list(list[i]), 1);
    assert_int_equal(kronlat_option_is_list("schedule"), 0);
    assert_int_equal(kronlat_option_is_list("nonsense"), 0);
    assert_int_equal(kronlat_option_is_list(NULL), 0);
    assert_int_equal(kronlat_option_is_of("spectral", "ed"), 1);
    assert_int_equal(kronlat_option_is_of("spectral", "dmrg"), 0);
    assert_int_equal(kronlat_option_is_of("device_memory", "dmrg"), 1);
    assert_int_equal(kronlat_option_is_of("irrep", "dmrg"), 1); /* of molecules */
    assert_int_equal(kronlat_option_is_of("p", "ed"), 1);
    assert_int_equal(kronlat_option_is_of("nonsense", "ed"), 0);
    assert_int_equal(kronlat_option_is_of(NULL, "ed"), 0);
    assert_int_equal(kronlat_option_is_of("m", NULL), 0);
    bad(kronlat_problem_set(p, "json", "true", error), "command line");
    bad(kronlat_problem_set(p, "csv", "table.csv", error), "command line");
    bad(kronlat_problem_set(p, "double_bonds", "yes", error), "true or false");
    bad(kronlat_problem_set_charge(p, "Sz", 1, 0, error), "denominator");
    good(kronlat_problem_set_charge(p, "Sz", 3, 1, error));
    good(kronlat_problem_set_charge(p, "Sz", -2, -2, error)); /* the same charge once more: Sz = 1 */
    good(kronlat_problem_set(p, "space", "cisd", error));     /* another method's, not looked at */
    kronlat_result *r = NULL;
    good(kronlat_ed(p, &r, error));
    assert_true(fabs(kronlat_result_energy(r, 0) + 2.9807732) < 1 && kronlat_result_states(r) == 1);
    kronlat_result_destroy(r);
    bad(kronlat_ci(p, &r, error), "molecules");
    assert_null(r);
    good(kronlat_problem_set(p, "charge", "Sz=17", error));
    bad(kronlat_dmrg(p, NULL, &r, error), "allowed: Sz: -4 to 4");
    good(kronlat_problem_set(p, "charge", NULL, error));
    bad(kronlat_dmrg(p, NULL, &r, error), "Sz");
    kronlat_problem_destroy(p);
    bad(kronlat_problem_create(NULL, &p, error), "NULL");
    good(kronlat_problem_create("heisenber", &p, error));
    bad(kronlat_problem_sites(p, &n, error), "heisenberg");
    kronlat_problem_destroy(p);
    kronlat_problem_destroy(NULL);
    kronlat_result_destroy(NULL);
    kronlat_operator_destroy(NULL);
}

static const char own_model[] =
    "-- H = sum_<ij> J_ij [ (S+_i S-_j + S-_i S+_j)/2 + Sz_i Sz_j ] - sum_i h_i Sz_i\n"
    "site(spin(1/2))\nconserve \"Sz\"\nparameters { J = per_bond(1), h = per_site(0) }\n"
    "bond(\"nn\", J * ((Sp(i)*Sm(j) + hc)/2 + Sz(i)*Sz(j)))\nonsite(-h * Sz(i))\n";

/* The text gives what the shipped model does, bond by bond and site by site. */
static void test_text(void **state)
{
    (void)state;
    const double j[3] = {1.0, 2.0, 3.0}, h[4] = {0.1, -0.2, 0.3, -0.4};
    kronlat_problem *p = NULL;
    kronlat_operator *op = NULL;
    double d[6], want[6];
    int site[4];
    good(kronlat_problem_create_text("own.lua", own_model, &p, error));
    good(kronlat_problem_set(p, "sites", "4", error));
    good(kronlat_problem_set_charge(p, "Sz", 0, 1, error));
    good(kronlat_problem_set_parameter(p, "J", 3, j, error));
    good(kronlat_problem_set_parameter(p, "h", 4, h, error));
    good(kronlat_operator_create(p, &op, error));
    assert_int_equal(kronlat_operator_dimension(op), 6);
    good(kronlat_operator_diagonal(op, d, error));
    for (int i = 0; i < 6; i++) {
        const char *name[4];
        double sz[4];
        good(kronlat_operator_state(op, i, site, error));
        for (int k = 0; k < 4; k++) {
            good(kronlat_problem_site_state(p, k, site[k], &name[k], error));
            sz[k] = strcmp(name[k], "up") == 0 ? 0.5 : -0.5;
        }
        want[i] = 0;
        for (int k = 0; k < 3; k++) want[i] += j[k] * sz[k] * sz[k + 1];
        for (int k = 0; k < 4; k++) want[i] -= h[k] * sz[k];
        assert_true(fabs(d[i] - want[i]) < 1e-14);
    }
    bad(kronlat_problem_set_parameter(p, "J", 2, j, error) == KRONLAT_OK
            ? kronlat_problem_sites(p, site, error)
            : KRONLAT_BROKEN,
        "J");
    kronlat_operator_destroy(op);
    kronlat_problem_destroy(p);
    good(kronlat_problem_create_text("own.lua", "-- H\nnonsense {}\n", &p, error));
    bad(kronlat_problem_sites(p, site, error), "own.lua:2");
    kronlat_problem_destroy(p);
}

/* A lattice of arrays, and couplings as arrays: against the same by names. */
static void test_arrays(void **state)
{
    (void)state;
    const double xy[6][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}};
    const int bond[7][2] = {{0, 1}, {2, 3}, {4, 5}, {0, 2}, {2, 4}, {1, 3}, {3, 5}};
    const char *const cls[7] = {"nn rung", "nn rung", "nn rung", "nn leg", "nn leg", "nn leg", "nn leg"};
    kronlat_problem *p = heisenberg("6"), *q = NULL;
    kronlat_result *a = NULL, *b = NULL;
    bad(kronlat_problem_set_lattice(p, "mine", 6, NULL, NULL, 1, (const int[]){0, 6}, NULL, error), "0 to 5");
    bad(kronlat_problem_set_lattice(p, "mine", 6, NULL, NULL, 1, (const int[]){2, 2}, NULL, error), "itself");
    good(kronlat_problem_set_lattice(p, "mine", 6, &xy[0][0], NULL, 7, &bond[0][0], cls, error));
    bad(kronlat_ed(p, &a, error), "sites and bonds");
    good(kronlat_problem_set(p, "sites", NULL, error));
    good(kronlat_ed(p, &a, error));
    q = heisenberg(NULL);
    good(kronlat_problem_set(q, "lattice", "ladder:3x2", error));
    good(kronlat_ed(q, &b, error));
    assert_true(fabs(kronlat_result_energy(a, 0) - kronlat_result_energy(b, 0)) < 1e-12);
    kronlat_result_destroy(a);
    kronlat_result_destroy(b);
    bad(kronlat_problem_set_parameter(q, "J", 1, (const double[]){NAN}, error), "not finite");
    good(kronlat_problem_set_parameter(q, "J", 1, (const double[]){2.0}, error));
    good(kronlat_ed(q, &b, error));
    good(kronlat_ed(p, &a, error));
    assert_true(fabs(2 * kronlat_result_energy(a, 0) - kronlat_result_energy(b, 0)) < 1e-11);
    kronlat_result_destroy(a);
    kronlat_result_destroy(b);
    kronlat_problem_destroy(p);
    kronlat_problem_destroy(q);
}

/* ---------------------------------------------------------------- runs */

typedef struct counts {
    int bond, sweep, product, most, asked;
    double energy;
} counts;

static void count(void *self, const kronlat_progress *p)
{
    counts *const c = self;
    c->bond += kronlat_progress_stage(p) == KRONLAT_STAGE_BOND;
    c->sweep += kronlat_progress_stage(p) == KRONLAT_STAGE_SWEEP;
    c->product += kronlat_progress_stage(p) == KRONLAT_STAGE_PRODUCT;
    c->energy = kronlat_progress_energy(p);
    if (kronlat_progress_stage(p) == KRONLAT_STAGE_BOND)
        assert_true(kronlat_progress_done(p) <= kronlat_progress_of(p) && kronlat_progress_states(p) > 0);
}

static int stop_there(void *self)
{
    counts *const c = self;
    return ++c->asked > c->most;
}

static void test_dmrg(void **state)
{
    (void)state;
    const double exact = -6.911737145575103; /* chain of 16 */
    counts c = {.most = 1 << 30};
    int rank;
    int64_t shape[4];
    const double *data;
    kronlat_problem *p = heisenberg("16");
    kronlat_result *r = NULL, *again = NULL;
    good(kronlat_problem_set(p, "measure", "corr(Sz,Sz)", error));
    kronlat_problem_on_progress(p, count, &c);
    kronlat_problem_on_cancel(p, stop_there, &c);
    good(kronlat_dmrg(p, NULL, &r, error));
    assert_true(fabs(kronlat_result_energy(r, 0) - exact) < 1e-8);
    assert_true(fabs(kronlat_result_energy(r, 0) - exact) < 10 * kronlat_result_error(r, 0) + 1e-12);
    assert_true(c.bond > 20 && c.sweep > 1 && c.asked > 20 && fabs(c.energy - exact) < 1e-6);
    assert_true(kronlat_result_finished(r) && kronlat_result_converged(r));
    assert_string_equal(kronlat_result_method(r), "dmrg");
    good(kronlat_result_array(r, "correlation/Sz,Sz", &rank, shape, &data, error));
    assert_true(rank == 2 && shape[0] == 16 && shape[1] == 16 && shape[2] == 0);
    assert_true(fabs(data[0] - 0.25) < 1e-9 && fabs(data[1] - data[16]) < 1e-9);
    good(kronlat_result_measure(r, "Sz", error));
    good(kronlat_result_array(r, "local/Sz", &rank, shape, &data, error));
    for (int i = 0; i < 16; i++) assert_true(fabs(data[i]) < 1e-6);
    bad(kronlat_result_measure(r, "corr(Sz)", error), "takes 2");
    bad(kronlat_result_measure(r, "string(Sz,Sz,Sz)\ncorr(Sz)", error), "takes 2");
    assert_int_equal(kronlat_result_array(r, "string/Sz,Sz,Sz", NULL, NULL, NULL, error), KRONLAT_BAD_INPUT);
    good(kronlat_result_measure(r, "entropy\ncorr(Sp,Sm)", error));
    good(kronlat_result_array(r, "entropy", &rank, shape, &data, error));
    assert_true(rank == 1 && shape[0] == 15 && fabs(data[0] - log(2)) < 1e-9);
    good(kronlat_result_array(r, "correlation/Sp,Sm", &rank, shape, &data, error));
    assert_true(rank == 2 && fabs(data[0] - 0.5) < 1e-6);
    bad(kronlat_result_array(r, "local/nothing", NULL, NULL, NULL, error), "local/nothing");
    int seen = 0;
    for (int i = 0; i < kronlat_result_count(r); i++)
        seen += strcmp(kronlat_result_name(r, i), "sweep/energy") == 0;
    assert_int_equal(seen, 1);
    assert_null(kronlat_result_name(r, kronlat_result_count(r)));
    /* another coupling, from this state: one energy scale */
    good(kronlat_problem_set_parameter(p, "J", 1, (const double[]){0.5}, error));
    good(kronlat_dmrg(p, r, &again, error));
    assert_true(fabs(2 * kronlat_result_energy(again, 0) - exact) < 1e-7);
    kronlat_problem_destroy(p); /* results live on */
    good(kronlat_result_measure(again, "energy", error));
    good(kronlat_result_array(again, "energy", NULL, NULL, &data, error));
    assert_true(fabs(2 * data[0] - exact) < 1e-7);
    kronlat_result_destroy(again);
    kronlat_result_destroy(r);
}

static void test_cancel(void **state)
{
    (void)state;
    counts c = {.most = 12};
    kronlat_problem *p = heisenberg("16");
    kronlat_result *r = NULL;
    kronlat_problem_on_cancel(p, stop_there, &c);
    assert_int_equal(kronlat_dmrg(p, NULL, &r, error), KRONLAT_CANCELLED);
    assert_int_equal(kronlat_error_status(error), KRONLAT_CANCELLED);
    assert_non_null(r); /* what there is */
    assert_int_equal(kronlat_result_finished(r), 0);
    kronlat_result_destroy(r);
    c = (counts){.most = 3};
    assert_int_equal(kronlat_ed(p, &r, error), KRONLAT_CANCELLED);
    assert_true(r == NULL || !kronlat_result_finished(r));
    kronlat_result_destroy(r);
    kronlat_problem_on_cancel(p, NULL, NULL);
    good(kronlat_ed(p, &r, error));
    kronlat_result_destroy(r);
    kronlat_problem_destroy(p);
}

/* Energies alone: of every sector those that a whole run finds, and nothing besides. */
static void test_energies(void **state)
{
    (void)state;
    counts c = {.most = 3};
    kronlat_problem *p = heisenberg("8");
    kronlat_result *alone = NULL, *whole = NULL;
    good(kronlat_problem_set(p, "states", "2", error));
    good(kronlat_problem_set(p, "measure", "Sz", error));
    for (int sz = 0; sz < 4; sz++) {
        good(kronlat_problem_set_charge(p, "Sz", sz, 1, error));
        good(kronlat_ed_energies(p, &alone, error));
        good(kronlat_ed(p, &whole, error));
        assert_int_equal(kronlat_result_states(alone), 2);
        assert_true(kronlat_result_finished(alone) && kronlat_result_dimension(alone) == 0);
        for (int k = 0; k < 2; k++) {
            const double bar = 1e-12 + kronlat_result_error(alone, k) + kronlat_result_error(whole, k);
            assert_true(fabs(kronlat_result_energy(alone, k) - kronlat_result_energy(whole, k)) < bar);
        }
        good(kronlat_result_array(whole, "local/Sz", NULL, NULL, NULL, error));
        bad(kronlat_result_array(alone, "local/Sz", NULL, NULL, NULL, error), "local/Sz");
        kronlat_result_destroy(alone);
        kronlat_result_destroy(whole);
    }
    good(kronlat_problem_set(p, "charge", NULL, error));
    good(kronlat_problem_set(p, "charge", "scan", error));
    bad(kronlat_ed_energies(p, &alone, error), "one sector");
    assert_null(alone);
    kronlat_problem_destroy(p);
    p = heisenberg("16");
    kronlat_problem_on_cancel(p, stop_there, &c);
    assert_int_equal(kronlat_ed_energies(p, &alone, error), KRONLAT_CANCELLED);
    assert_true(alone != NULL && !kronlat_result_finished(alone));
    kronlat_result_destroy(alone);
    kronlat_problem_destroy(p);
}

static char path[] = "/tmp/kronlat-library-XXXXXX";

static void test_files(void **state)
{
    (void)state;
    kronlat_problem *p = heisenberg("8"), *q = heisenberg("8"), *other = heisenberg("10");
    kronlat_result *r = NULL, *back = NULL, *more = NULL;
    const double *a, *b;
    close(mkstemp(path));
    good(kronlat_problem_set(p, "output", path, error));
    good(kronlat_dmrg(p, NULL, &r, error));
    good(kronlat_result_load(q, path, &back, error));
    assert_true(kronlat_result_energy(back, 0) == kronlat_result_energy(r, 0));
    good(kronlat_result_measure(r, "n_of_nothing", error) == KRONLAT_BAD_INPUT ? KRONLAT_OK : KRONLAT_BROKEN);
    good(kronlat_result_measure(r, "entropy", error));
    good(kronlat_result_measure(back, "entropy", error));
    good(kronlat_result_array(r, "entropy", NULL, NULL, &a, error));
    good(kronlat_result_array(back, "entropy", NULL, NULL, &b, error));
    for (int i = 0; i < 7; i++) assert_true(fabs(a[i] - b[i]) < 1e-12);
    good(kronlat_dmrg(q, back, &more, error)); /* from a file's state */
    assert_true(fabs(kronlat_result_energy(more, 0) - kronlat_result_energy(r, 0)) < 1e-9);
    kronlat_result_destroy(more);
    kronlat_result_destroy(back);
    bad(kronlat_result_load(other, path, &back, error), path);
    assert_null(back);
    good(kronlat_result_load(NULL, path, &back, error));
    bad(kronlat_result_measure(back, "Sz", error), "no state");
    bad(kronlat_dmrg(p, back, &more, error), "no state");
    /* the system that the file is of, and what the result says of it */
    assert_string_equal(kronlat_result_text(back, "model"), "heisenberg");
    const char *json = NULL;
    assert_int_equal(kronlat_result_figure(1, &back, NULL, &json, error), KRONLAT_OK);
    assert_non_null(strstr(json, "\"title\": \"entanglement entropy\""));
    assert_int_equal(kronlat_result_figure(2, (kronlat_result *[]){back, back}, NULL, &json, error),
                     KRONLAT_BAD_INPUT);
    assert_null(json);
    assert_int_equal(kronlat_result_figure(2, (kronlat_result *[]){back, back},
                                           (const char *[]){"one", "other"}, &json, error),
                     KRONLAT_OK);
    assert_non_null(strstr(json, "\"name\": \"other\""));
    assert_string_equal(kronlat_result_text(back, "lattice"), "chain");
    assert_null(kronlat_result_text(back, "nothing"));
    good(kronlat_result_array(back, "charge/Sz", NULL, NULL, &a, error));
    assert_true(a[0] == 0);
    good(kronlat_result_array(back, "parameter/J", NULL, NULL, &a, error));
    assert_true(a[0] == 1);
    int64_t shape[4];
    good(kronlat_result_array(back, "site/xy", NULL, shape, &a, error));
    assert_true(shape[0] == 8 && shape[1] == 2 && a[6] == 3 && a[7] == 0);
    kronlat_result_destroy(back);
    kronlat_problem *again = NULL;
    good(kronlat_problem_create_result(path, &again, error));
    good(kronlat_result_load(again, path, &back, error));
    good(kronlat_result_measure(back, "Sz", error));
    kronlat_problem_destroy(again);
    assert_int_equal(kronlat_problem_create_result("/nonexistent/x.h5", &again, error), KRONLAT_IO);
    assert_null(again);
    assert_int_equal(kronlat_result_dimension(back), 0);
    kronlat_result_destroy(back);
    good(kronlat_result_save(r, path, error));
    assert_int_equal(kronlat_result_save(r, "/nonexistent/x.h5", error), KRONLAT_IO);
    assert_int_equal(kronlat_result_load(NULL, "/nonexistent/x.h5", &back, error), KRONLAT_IO);
    unlink(path);
    kronlat_result_destroy(r);
    kronlat_problem_destroy(p);
    kronlat_problem_destroy(q);
    kronlat_problem_destroy(other);
}

/* ---------------------------------------------------------------- y = H x */

/* The lowest eigenvalue by a solver of the caller's own: power iteration on shift - H. */
static double lowest(kronlat_operator *op, double shift, int steps, double *x, double *y)
{
    const int64_t n = kronlat_operator_dimension(op);
    double e = 0;
    for (int64_t i = 0; i < n; i++) x[i] = 1.0 + 0.1 * sin((double)(i * i));
    for (int k = 0; k < steps; k++) {
        double xx = 0, xy = 0;
        good(kronlat_operator_apply(op, 1, x, n, y, n, error));
        for (int64_t i = 0; i < n; i++) xx += x[i] * x[i], xy += x[i] * y[i];
        e = xy / xx;
        for (int64_t i = 0; i < n; i++) x[i] = (shift * x[i] - y[i]) / sqrt(xx);
        double size = 0;
        for (int64_t i = 0; i < n; i++) size += x[i] * x[i];
        for (int64_t i = 0; i < n; i++) x[i] /= sqrt(size);
    }
    return e;
}

static void check_operator(kronlat_problem *p, int64_t dimension)
{
    kronlat_operator *op = NULL;
    kronlat_result *r = NULL;
    good(kronlat_operator_create(p, &op, error));
    const int64_t n = kronlat_operator_dimension(op);
    assert_int_equal(n, dimension);
    double *const x = calloc((size_t)(6 * n), sizeof *x), *const y = x + 2 * n, *const d = x + 4 * n;
    int site[64];
    /* diagonal and symmetry, element by element */
    good(kronlat_operator_diagonal(op, d, error));
    for (int64_t i = 0; i < n; i += 1 + n / 23) {
        memset(x, 0, (size_t)(2 * n) * sizeof *x);
        x[i] = x[n + (i * 7 + 3) % n] = 1.0;
        good(kronlat_operator_apply(op, 2, x, n, y, n, error));
        assert_true(fabs(y[i] - d[i]) < 1e-12);
        assert_true(fabs(y[(i * 7 + 3) % n] - y[n + i]) < 1e-12);
        good(kronlat_operator_state(op, i, site, error));
        assert_int_equal(kronlat_operator_find(op, site), i);
    }
    bad(kronlat_operator_state(op, n, site, error), "no basis state");
    bad(kronlat_operator_apply(op, 1, x, n - 1, y, n, error), "stride");
    site[0] = 99;
    assert_int_equal(kronlat_operator_find(op, site), -1);
    /* energies, and the states of kronlat_ed in the same order */
    kronlat_problem_keep_vectors(p, 1);
    good(kronlat_ed(p, &r, error));
    const double e = kronlat_result_energy(r, 0);
    assert_true(fabs(lowest(op, 10.0, 400, x, y) - e) < 1e-6);
    assert_true(kronlat_result_dimension(r) == n);
    good(kronlat_result_vector(r, 0, n, x, error));
    good(kronlat_operator_apply(op, 1, x, n, y, n, error));
    double worst = 0, size = 0;
    for (int64_t i = 0; i < n; i++) worst = fmax(worst, fabs(y[i] - e * x[i])), size += x[i] * x[i];
    assert_true(worst < 1e-5 && fabs(size - 1) < 1e-9);
    bad(kronlat_result_vector(r, 0, n + 1, x, error), "there are 1");
    bad(kronlat_result_vector(r, 1, n, x, error), "there are 1");
    free(x);
    kronlat_operator_destroy(op);
    kronlat_result_destroy(r);
}

/* The total spin: measured, written and read, with the states of Sz named; the start of a run with Sz. */
static void test_spin(void **state)
{
    (void)state;
    static char file[] = "/tmp/kronlat-library-XXXXXX";
    const char *const with[] = {"sites",  "6",   "p",       "U=4", "charge", "N=6",
                                "charge", "S=1", "threads", "1",   NULL},
                      *const without[] = {"sites",  "6",      "p",       "U=4", "charge", "N_up=4",
                                          "charge", "N_dn=2", "threads", "1",   NULL};
    kronlat_problem *p = problem_of("hubbard", with), *q = problem_of("hubbard", without), *again = NULL;
    kronlat_result *r = NULL, *back = NULL, *plain = NULL;
    const char *name;
    const double *a, *b;
    int n, dimension;
    close(mkstemp(file));
    good(kronlat_problem_charges(p, &n, error)); /* before any run */
    assert_int_equal(n, 2);
    good(kronlat_problem_charge(p, 1, &name, NULL, NULL, NULL, error));
    assert_string_equal(name, "S");
    good(kronlat_problem_site_dimension(p, 0, &dimension, error));
    good(kronlat_problem_site_state(p, 0, 1, &name, error));
    assert_int_equal(dimension, 4);
    assert_string_equal(name, "up");
    good(kronlat_dmrg(p, NULL, &r, error));
    good(kronlat_dmrg(q, r, &plain, error));
    assert_true(fabs(kronlat_result_energy(r, 0) - kronlat_result_energy(plain, 0)) < 1e-9);
    bad(kronlat_dmrg(p, plain, &back, error), "holds a state without S");
    bad(kronlat_ed(p, &back, error), "--charge N_up=4 --charge N_dn=2");
    good(kronlat_result_save(r, file, error));
    good(kronlat_problem_create_result(file, &again, error));
    good(kronlat_result_load(again, file, &back, error));
    assert_true(kronlat_result_energy(back, 0) == kronlat_result_energy(r, 0));
    good(kronlat_result_measure(back, "corr(cdag_up,c_up)", error));
    good(kronlat_result_measure(plain, "corr(cdag_up,c_up)", error));
    good(kronlat_result_array(back, "correlation/cdag_up,c_up", NULL, NULL, &a, error));
    good(kronlat_result_array(plain, "correlation/cdag_up,c_up", NULL, NULL, &b, error));
    for (int i = 0; i < 36; i++) assert_true(fabs(a[i] - b[i]) < 1e-4);
    unlink(file);
    kronlat_result_destroy(back);
    kronlat_result_destroy(plain);
    kronlat_result_destroy(r);
    kronlat_problem_destroy(again);
    kronlat_problem_destroy(q);
    kronlat_problem_destroy(p);
}

static void test_operator(void **state)
{
    (void)state;
    kronlat_problem *p = heisenberg("10");
    check_operator(p, 252);
    good(kronlat_problem_set(p, "store", "matrix", error));
    check_operator(p, 252);
    kronlat_problem_destroy(p);
    static const char *const form[] = {"sites", "flavours"};
    for (int k = 0; k < 2; k++) {
        p = hubbard(form[k]);
        check_operator(p, 300);
        kronlat_problem_destroy(p);
    }
}

/* Both forms have one basis and one H: the product form's order of modes is not seen. */
static void test_forms(void **state)
{
    (void)state;
    kronlat_operator *op[2];
    double x[300], y[2][300];
    for (int k = 0; k < 2; k++) {
        kronlat_problem *const p = hubbard(k == 0 ? "sites" : "flavours");
        good(kronlat_operator_create(p, &op[k], error));
        kronlat_problem_destroy(p);
    }
    for (int i = 0; i < 300; i++) {
        int site[6];
        memset(x, 0, sizeof x);
        x[i] = 1;
        good(kronlat_operator_apply(op[0], 1, x, 300, y[0], 300, error));
        good(kronlat_operator_state(op[0], i, site, error));
        memset(x, 0, sizeof x);
        x[kronlat_operator_find(op[1], site)] = 1;
        good(kronlat_operator_apply(op[1], 1, x, 300, y[1], 300, error));
        for (int j = 0; j < 300; j++) {
            good(kronlat_operator_state(op[0], j, site, error));
            assert_true(fabs(y[0][j] - y[1][kronlat_operator_find(op[1], site)]) < 1e-13);
        }
    }
    kronlat_operator_destroy(op[0]);
    kronlat_operator_destroy(op[1]);
}

/* ---------------------------------------------------------------- molecules */

/* Two orbitals and two electrons: the 2x2 singlet block by hand. */
static void test_integrals(void **state)
{
    (void)state;
    const double h[2][2] = {{-1.2, 0}, {0, -0.5}}, j11 = 0.7, j22 = 0.6, j12 = 0.65, k = 0.18, core = 0.7;
    double eri[2][2][2][2] = {{{{0}}}};
    const int irrep[2] = {0, 1};
    kronlat_problem *p = NULL;
    kronlat_result *r = NULL;
    eri[0][0][0][0] = j11;
    eri[1][1][1][1] = j22;
    eri[0][0][1][1] = eri[1][1][0][0] = j12;
    eri[0][1][0][1] = eri[0][1][1][0] = eri[1][0][0][1] = eri[1][0][1][0] = k;
    const double a = 2 * h[0][0] + j11, b = 2 * h[1][1] + j22;
    const double exact = core + (a + b) / 2 - sqrt((a - b) * (a - b) / 4 + k * k);
    good(kronlat_problem_create_integrals(2, 2, 0, 0, core, &h[0][0], &eri[0][0][0][0], &p, error));
    good(kronlat_problem_set_irreps(p, 2, irrep, error));
    good(kronlat_problem_set(p, "space", "full", error));
    good(kronlat_problem_set(p, "roots", "4", error));
    good(kronlat_problem_set(p, "density", "true", error));
    good(kronlat_ci(p, &r, error));
    assert_int_equal(kronlat_result_states(r), 4);
    assert_true(fabs(kronlat_result_energy(r, 0) - exact) < 1e-10);
    const double *s2, *density;
    int64_t shape[4];
    good(kronlat_result_array(r, "s2", NULL, NULL, &s2, error));
    assert_true(fabs(s2[0]) < 1e-9);
    good(kronlat_result_array(r, "density_alpha", NULL, shape, &density, error));
    assert_true(shape[0] == 2 && shape[1] == 2 && fabs(density[0] + density[3] - 1) < 1e-9);
    bad(kronlat_result_determinants(r, 0, NULL, NULL, NULL, NULL, error), "keeps no determinants");
    kronlat_result_destroy(r);
    /* the lowest state: a pair in orbital 0 or in orbital 1, with the ratio of the two-state problem */
    kronlat_problem_keep_vectors(p, 1);
    good(kronlat_ci(p, &r, error));
    int64_t n;
    const uint64_t *alpha, *beta;
    const double *c;
    double pair[2] = {0};
    good(kronlat_result_determinants(r, 0, &n, &alpha, &beta, &c, error));
    for (int64_t i = 0; i < n; i++)
        if (alpha[i] == beta[i]) pair[alpha[i] - 1] = c[i];
    assert_true(fabs(pair[0] * pair[0] + pair[1] * pair[1] - 1) < 1e-10);
    assert_true(fabs(pair[1] / pair[0] - (exact - core - a) / k) < 1e-5);
    bad(kronlat_result_determinants(r, 4, &n, NULL, NULL, NULL, error), "state 4");
    kronlat_result_destroy(r);
    bad(kronlat_ed(p, &r, error), "molecule");
    /* DMRG of the same: what only full configuration interaction takes is ignored */
    good(kronlat_problem_set(p, "accuracy", "1e-11", error));
    good(kronlat_problem_set(p, "two_body", "true", error));
    good(kronlat_problem_set(p, "threads", "1", error));
    int rank;
    const double *two, *made;
    good(kronlat_problem_set(p, "irrep", "1", error));
    good(kronlat_dmrg(p, NULL, &r, error));
    assert_true(fabs(kronlat_result_energy(r, 0) - exact) < 1e-10);
    good(kronlat_result_array(r, "molecule/two_body", &rank, shape, &two, error));
    assert_true(rank == 4 && shape[0] == 2 && shape[3] == 2);
    assert_true(fabs(two[0] + two[3] + two[12] + two[15] - 2) < 1e-9);
    good(kronlat_result_array(r, "molecule/energy_of_densities", NULL, NULL, &made, error));
    assert_true(fabs(made[0] - exact) < 1e-9);
    kronlat_result_destroy(r);
    kronlat_problem_destroy(p);
    eri[0][0][1][1] = 0.9;
    bad(kronlat_problem_create_integrals(2, 2, 0, 0, core, &h[0][0], &eri[0][0][0][0], &p, error),
        "mirror image");
    eri[0][0][1][1] = j12;
    bad(kronlat_problem_create_integrals(2, 2, 1, 0, core, &h[0][0], &eri[0][0][0][0], &p, error), "ms2 1");
    assert_null(p);
    const double mixed[2][2] = {{-1.2, 0.1}, {0.1, -0.5}};
    good(kronlat_problem_create_integrals(2, 2, 0, 0, core, &mixed[0][0], &eri[0][0][0][0], &p, error));
    bad(kronlat_problem_set_irreps(p, 2, irrep, error), "joins orbitals");
    bad(kronlat_problem_set_irreps(p, 2, (const int[]){0, 9}, error), "0 to 7");
    bad(kronlat_problem_set_irreps(p, 3, irrep, error), "3 are given for 2");
    kronlat_problem_destroy(p);
    p = heisenberg("4");
    bad(kronlat_problem_set_irreps(p, 2, irrep, error), "no integrals");
    kronlat_problem_destroy(p);
}

/* H of a molecule for a solver of the caller's, in spaces with frozen orbitals and without a matrix. */
static void check_molecule(const char *space, const char *frozen, const char *irrep, int64_t dimension)
{
    const char *const set[] = {"space", space, "frozen", frozen, "irrep", irrep, "residual", "1e-9", NULL};
    kronlat_problem *p = NULL;
    kronlat_operator *op = NULL;
    kronlat_result *r = NULL;
    int orbital[8];
    good(kronlat_problem_create_fcidump(kl_test_data("h2o-sto3g.fcidump"), &p, error));
    for (int k = 0; set[k] != NULL; k += 2) good(kronlat_problem_set(p, set[k], set[k + 1], error));
    good(kronlat_operator_create(p, &op, error));
    good(kronlat_ci(p, &r, error));
    kronlat_problem_destroy(p); /* the operator lives on */
    const int64_t n = kronlat_operator_dimension(op);
    assert_int_equal(n, dimension);
    assert_int_equal(kronlat_operator_sites(op), 7);
    assert_int_equal(kronlat_operator_position(op, 6), 6);
    assert_int_equal(kronlat_operator_position(op, 7), -1);
    double *const x = calloc((size_t)(5 * n), sizeof *x), *const y = x + 2 * n, *const d = x + 4 * n;
    good(kronlat_operator_diagonal(op, d, error));
    for (int64_t i = 0; i < n; i += 1 + n / 11) {
        const int64_t j = (i * 7 + 3) % n;
        memset(x, 0, (size_t)(2 * n) * sizeof *x);
        x[i] = x[n + j] = 1.0;
        good(kronlat_operator_apply(op, 2, x, n, y, n, error));
        assert_true(fabs(y[i] - d[i]) < 1e-11 && fabs(y[j] - y[n + i]) < 1e-11);
        good(kronlat_operator_state(op, i, orbital, error));
        int electrons = 0;
        for (int k = 0; k < 7; k++) electrons += orbital[k] % 2 + orbital[k] / 2;
        assert_int_equal(electrons, 10);
        assert_int_equal(kronlat_operator_find(op, orbital), i);
    }
    orbital[0] = 4;
    assert_int_equal(kronlat_operator_find(op, orbital), -1);
    assert_true(fabs(lowest(op, -50.0, 1500, x, y) - kronlat_result_energy(r, 0)) < 1e-6);
    free(x);
    kronlat_operator_destroy(op);
    kronlat_result_destroy(r);
}

static void test_molecule(void **state)
{
    (void)state;
    kronlat_problem *p = NULL;
    kronlat_operator *op = NULL;
    check_molecule("full", "0", "1", 133);
    check_molecule("cisd", "1", "1", 31);
    check_molecule("cas:6,5", "0", "2", 24);
    good(kronlat_problem_create_fcidump(kl_test_data("h2o-sto3g.fcidump"), &p, error));
    bad(kronlat_operator_create(p, &op, error), "one irrep");
    good(kronlat_problem_set(p, "irrep", "8", error));
    bad(kronlat_operator_create(p, &op, error), "1 to 4");
    assert_null(op);
    kronlat_problem_destroy(p);
}

/* ---------------------------------------------------------------- a guest in somebody's program */

typedef struct worker {
    pthread_t id;
    const char *sites;
    double exact, found;
} worker;

static void *work(void *self)
{
    worker *const w = self;
    kronlat_error *const own = kronlat_error_create();
    kronlat_problem *p = NULL;
    kronlat_result *r = NULL;
    if (kronlat_problem_create("heisenberg", &p, own) == KRONLAT_OK &&
        kronlat_problem_set(p, "sites", w->sites, own) == KRONLAT_OK &&
        kronlat_problem_set(p, "threads", "2", own) == KRONLAT_OK &&
        kronlat_problem_set_charge(p, "Sz", 0, 1, own) == KRONLAT_OK &&
        kronlat_dmrg(p, NULL, &r, own) == KRONLAT_OK)
        w->found = kronlat_result_energy(r, 0);
    kronlat_result_destroy(r);
    kronlat_problem_destroy(p);
    kronlat_error_destroy(own);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    worker w[3] = {{.sites = "8", .exact = -3.374932598687898},
                   {.sites = "12", .exact = -5.142090632840531},
                   {.sites = "16", .exact = -6.911737145575103}};
    for (int k = 0; k < 3; k++) assert_int_equal(pthread_create(&w[k].id, NULL, work, &w[k]), 0);
    for (int k = 0; k < 3; k++) {
        pthread_join(w[k].id, NULL);
        assert_true(fabs(w[k].found - w[k].exact) < 1e-8);
    }
}

static void test_guest(void **state)
{
    (void)state;
    kronlat_problem *p = heisenberg("8");
    kronlat_result *r = NULL;
    fesetround(FE_UPWARD);
    char *const before = setlocale(LC_ALL, NULL);
    good(kronlat_dmrg(p, NULL, &r, error));
    assert_int_equal(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    assert_string_equal(setlocale(LC_ALL, NULL), before);
    const double e = kronlat_result_energy(r, 0);
    kronlat_result_destroy(r);
    good(kronlat_dmrg(p, NULL, &r, error));
    assert_true(kronlat_result_energy(r, 0) == e); /* the caller's rounding was not ours */
    kronlat_result_destroy(r);
    kronlat_problem_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings), cmocka_unit_test(test_text),      cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_dmrg),     cmocka_unit_test(test_cancel),    cmocka_unit_test(test_energies),
        cmocka_unit_test(test_files),    cmocka_unit_test(test_spin),      cmocka_unit_test(test_operator),
        cmocka_unit_test(test_forms),    cmocka_unit_test(test_integrals), cmocka_unit_test(test_molecule),
        cmocka_unit_test(test_threads),  cmocka_unit_test(test_guest),
    };
    return cmocka_run_group_tests(tests, make_error, drop_error);
}
