/* Truncation by products against the exact one of the same wavefunctions, in whole sweeps of small models:
   what is left out, what is said to be left out, orthonormal states, multiplets, energies, and bits on
   several threads.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/dense.h"
#include "core.h"
#include "kl_test.h"
#include <limits.h>

typedef struct sweeps {
    const char *model, *variant, *lattice, *sets, *charge;
    int nstate, precise;
    int m[6]; /* of each sweep, 0 behind the last */
    kl_truncation way;
} sweeps;

static const sweeps cases[] = {
    {"heisenberg", "S=1", "chain:14", NULL, "Sz=0", 1, 0, {40, 90, 120}, KL_TRUNCATION_PRODUCTS},
    {"heisenberg", NULL, "cylinder:5x4", NULL, "Sz=0", 1, 0, {100, 200, 200}, KL_TRUNCATION_PRODUCTS},
    {"hubbard", NULL, "chain:12", "U=8", "N_up=6 N_dn=6", 1, 1, {60, 150, 150}, KL_TRUNCATION_PRODUCTS},
    {"hubbard",
     NULL,
     "chain:12",
     "mu=normal(0,1)",
     "N_up=6 N_dn=5",
     1,
     0,
     {60, 120, 120},
     KL_TRUNCATION_PRODUCTS},
    {"hubbard", NULL, "cylinder:3x4", "U=4", "N_up=6 N_dn=6", 1, 0, {120, 240, 240}, KL_TRUNCATION_AUTO},
    {"free_spins", NULL, "chain:14", "hx=0.7", NULL, 1, 1, {12, 30, 30}, KL_TRUNCATION_PRODUCTS},
    {"hubbard",
     NULL,
     "chain:10",
     "mu=normal(0,1)",
     "N_up=5 N_dn=5",
     3,
     0,
     {80, 160, 160},
     KL_TRUNCATION_PRODUCTS},
};

/* <o| rho |o> summed over the states of an isometry, of what was psi; and its columns are orthonormal. */
static double kept_weight(kl_engine *e, kl_side side, const kl_isometry *o, kl_dptr data)
{
    const kl_layout *const lay = &e->layout;
    const double *const psi = (const double *)e->psi.addr, *const all = (const double *)data.addr;
    double sum = 0;
    for (int k = 0; k < o->basis.nsec; k++) {
        const int c = o->sec[k], rows = o->enlarged->basis.dim[c], left = side == KL_LEFT;
        const int i = left ? c : lay->back[c], j = left ? lay->pair[c] : c;
        const double *const a = all + o->off[k];
        const int p = e->row->basis.dim[i], q = e->col->basis.dim[j];
        for (int x = 0; x < o->basis.dim[k]; x++) {
            for (int y = 0; y <= x; y++)
                expect_near(core_dot(rows, a + (int64_t)x * rows, a + (int64_t)y * rows), x == y, 1e-13);
            for (int s = 0; s < e->nstate; s++) {
                const double *const seg = psi + s * lay->n + lay->off[i];
                for (int z = 0; z < (left ? q : p); z++) {
                    double dot = 0;
                    for (int r = 0; r < rows; r++)
                        dot += a[r + (int64_t)x * rows] *
                               (left ? seg[r + (int64_t)z * p] : seg[z + (int64_t)r * p]);
                    sum += dot * dot / e->nstate;
                }
            }
        }
    }
    return sum;
}

typedef struct tally {
    double exact, products; /* sums of discarded weights */
    int nmove, ntried, nagain;
} tally;

static int nspectrum; /* truncations that were asked for all weights */

/* Tridiagonal matrices, for those that only their values are wanted of. */
static kl_status reduce_here(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr all, double *d,
                             double *e, kl_err *err)
{
    kl_status st = KL_OK;
    (void)ex;
    for (int i = 0; i < nmat && st == KL_OK; d += n[i], e += n[i++]) {
        double *const factor = kl_test_guarded((int64_t)KL_DENSE_PANEL * n[i]);
        st = kl_dense_eig_reduce(n[i], (double *)kl_dptr_at(all, off[i]).addr, n[i], d, e, factor, err);
        e[n[i] - 1] = 0;
        kl_test_free(factor);
    }
    return st;
}

/* They may be read later, too, from the same matrices: the same states are kept, as those are without. */
static void check_unread(kl_engine *e, kl_side side, const kl_trunc_opts *all, const kl_trunc_info *at_once,
                         const kl_trunc_info *found)
{
    kl_err err = {""};
    kl_trunc_opts o = *all;
    kl_trunc_info info;
    kl_isometry *iso = NULL;
    kl_dptr data;
    kl_entropies *entropies = NULL;
    double entropy[2], again[2];
    const kl_wave wave = kl_engine_wave(e);
    expect_ok(kl_entropies_create(2, (const double[2]){7, 8}, &entropies, &err), err);
    o.unread = kl_entropies_open(entropies, 1);
    expect_ok(kl_truncate(e->ex, side, &wave, NULL, &o, &iso, &data, &info, &err), err);
    expect_true(isnan(info.entropy));
    expect_eq(o.unread->npart, info.nleast);
    expect_eq(info.nleast, found->nleast);
    expect_near(info.discarded, found->discarded, 0);
    kl_entropies_put(entropies, 1, info.entropy);
    expect_ok(kl_entropies_read(entropies, e->ex, 3, entropy, &err), err);
    expect_near(entropy[0], 7, 0);
    expect_near(entropy[1], at_once->entropy, 1e-13);
    kl_entropies_put(entropies, 0, 9);
    expect_ok(kl_entropies_read(entropies, e->ex, 1, again, &err), err);
    expect_near(again[0], 9, 0);
    expect_near(again[1], entropy[1], 0); /* once read it stays */
    kl_entropies_destroy(&entropies);
    kl_isometry_destroy(&iso);
    e->ex->vt.release(e->ex, &data);
}

/* Where only what goes was diagonalized, all weights may be asked for besides: the same states
   are kept, but those that are rounding, which are known as such then. */
static void check_spectrum(kl_engine *e, kl_side side, const kl_trunc_opts *o, const kl_trunc_info *exact,
                           const kl_trunc_info *found)
{
    kl_err err = {""};
    kl_trunc_opts all = *o;
    kl_trunc_info info;
    kl_isometry *iso = NULL;
    kl_dptr data;
    const kl_wave wave = kl_engine_wave(e);
    all.spectrum = 1;
    const int least = e->ex->eigen.least;
    e->ex->vt.tridiagonal = reduce_here;
    e->ex->eigen.least = INT_MAX; /* no vectors by these */
    expect_ok(kl_truncate(e->ex, side, &wave, NULL, &all, &iso, &data, &info, &err), err);
    check_unread(e, side, &all, &info, found);
    e->ex->vt.tridiagonal = NULL;
    e->ex->eigen.least = least;
    expect_eq(info.nleast, found->nleast);
    if (exact->discarded > 1e-13) expect_eq(info.m, found->m);
    expect_near(1 - kept_weight(e, side, iso, data), info.discarded, 1e-13);
    expect_near(info.discarded, found->discarded, 1e-3 * found->discarded + 1e-13);
    expect_near(info.entropy, exact->entropy, 1e-3 * exact->entropy + 50 * exact->discarded);
    kl_isometry_destroy(&iso);
    e->ex->vt.release(e->ex, &data);
    nspectrum++;
}

/* One move, after the exact truncation of the same wavefunctions. */
static void move(const sweeps *k, kl_engine *e, int direction, int m, int settled, tally *sum)
{
    kl_err err = {""};
    const kl_side side = direction > 0 ? KL_LEFT : KL_RIGHT;
    kl_trunc_opts o = {.m = m, .nstate = e->nstate, .precise = k->precise, .way = KL_TRUNCATION_EXACT};
    const kl_wave wave = kl_engine_wave(e);
    const kl_warm warm = {e->warm, e->warm_data};
    kl_trunc_info exact, found;
    kl_isometry *iso = NULL;
    kl_dptr data;
    expect_ok(kl_truncate(e->ex, side, &wave, NULL, &o, &iso, &data, &exact, &err), err);
    kl_isometry_destroy(&iso);
    e->ex->vt.release(e->ex, &data);
    expect_eq(exact.ntried, 0);
    o.way = k->way;
    o.settled = settled;
    o.warm = e->warm && e->warm_side != side ? &warm : NULL;
    expect_ok(kl_truncate(e->ex, side, &wave, NULL, &o, &iso, &data, &found, &err), err);
    const double kept = kept_weight(e, side, iso, data);
    kl_isometry_destroy(&iso);
    e->ex->vt.release(e->ex, &data);
    const double floor = k->precise ? 1e-22 : 1e-13;
    expect_near(1 - kept, found.discarded, 1e-13);
    if (exact.discarded > floor) {
        expect_true(found.m >= exact.m - 1);
        if (found.m == exact.m) {
            if (!(found.discarded <= exact.discarded * 1.001))
                print_error("%s: ratio %.5f, m %d, centre %d\n", kl_test_text,
                            found.discarded / exact.discarded, m, e->centre);
            expect_true(found.discarded <= exact.discarded * 1.001);
            expect_true(found.discarded >= exact.discarded * (1 - 1e-6) - (k->precise ? 0 : 1e-15));
            sum->exact += exact.discarded;
            sum->products += found.discarded;
        }
    }
    expect_true(isnan(found.entropy) == (found.nleast > 0));
    if (found.nleast > 0) check_spectrum(e, side, &o, &exact, &found);
    else expect_near(found.entropy, exact.entropy, 1e-3 * exact.entropy + 50 * exact.discarded);
    sum->nmove++;
    sum->ntried += found.ntried;
    sum->nagain += found.nattempt - 1;
    expect_ok(kl_engine_move(e, direction, &o, &found, &err), err);
}

static void run_case(const sweeps *k, int threads, double *energy, double **psi, int64_t *n, tally *sum)
{
    kl_err err = {""};
    core_job j;
    kl_engine *e = NULL;
    kl_exec *ex = NULL;
    core_open(&j, core_model(k->model, k->variant), k->lattice, NULL, k->sets);
    expect_ok(kl_exec_open_host(threads, &ex, &err), err);
    const kl_engine_opts opts = {
        .target = core_charge(j.model, k->charge), .nstate = k->nstate, .max_basis = 20, .seed = 1};
    expect_ok(kl_engine_create(j.terms, ex, &opts, &e, &err), err);
    expect_ok(kl_engine_start(e, 24, 0, NULL, &err), err);
    for (int sweep = 0; sweep < 6 && k->m[sweep]; sweep++)
        for (int direction = 1; direction >= -1; direction -= 2)
            while (direction > 0 ? e->centre < e->nsite - 2 : e->centre > 0) {
                const kl_solve_opts so = {.tol = 1e-8, .max_apply = 20, .trust_start = sweep > 0};
                kl_eig_stats stats;
                expect_ok(kl_engine_solve(e, &so, energy, &stats, &err), err);
                move(k, e, direction, k->m[sweep], sweep > 0, sum);
            }
    *n = e->layout.n * e->nstate;
    *psi = malloc((size_t)*n * sizeof **psi);
    memcpy(*psi, (const double *)e->psi.addr, (size_t)*n * sizeof **psi);
    kl_engine_destroy(&e);
    kl_exec_close(&ex);
    core_close(&j);
}

static void test_runs(void **state)
{
    (void)state;
    const int all = sizeof cases / sizeof *cases;
    /* only the second one has sectors that lose few columns; test_bits has another */
    for (int c = KL_TEST_WATCHED; c < all; c += KL_TEST_WATCHED ? all : 1) {
        double energy[KL_MAX_STATE], *psi;
        int64_t n;
        tally sum = {0};
        kl_test_case("%s %s, case %d", cases[c].model, cases[c].lattice, c);
        run_case(&cases[c], 1, energy, &psi, &n, &sum);
        print_message("%s: %d truncations, %d sectors tried, %d again, %.5f of the best\n", kl_test_text,
                      sum.nmove, sum.ntried, sum.nagain, sum.products / sum.exact);
        expect_true(sum.ntried > sum.nmove / 20);
        free(psi);
    }
    expect_true(nspectrum > 0);
    core_no_memory();
}

/* The same bits on any number of threads. */
static void test_bits(void **state)
{
    enum { CASE = 2 };
    double *first = NULL;
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        double energy[KL_MAX_STATE], *psi;
        int64_t n;
        tally sum = {0};
        run_case(&cases[CASE], threads, energy, &psi, &n, &sum);
        if (!first) first = psi;
        else {
            expect_true(memcmp(first, psi, (size_t)n * sizeof *psi) == 0);
            free(psi);
        }
    }
    free(first);
    core_no_memory();
}

/* With noise: of large density matrices only the leading part, from which hardly more is left out, of the
   wavefunctions too. */
static void test_noise(void **state)
{
    enum { M = KL_TEST_WATCHED ? 250 : 500 };
    kl_err err = {""};
    core_job j;
    kl_engine *e = NULL;
    double energy[KL_MAX_STATE];
    int tried = 0;
    (void)state;
    core_open(&j, core_model("hubbard", NULL), "cylinder:4x4", NULL, "U=6");
    const kl_engine_opts opts = {
        .target = core_charge(j.model, "N_up=8 N_dn=7"), .nstate = 1, .max_basis = 20, .seed = 1};
    expect_ok(kl_engine_create(j.terms, j.ex, &opts, &e, &err), err);
    expect_ok(kl_engine_start(e, 24, 0, NULL, &err), err);
    for (int sweep = 0; sweep < 2; sweep++)
        for (int direction = 1; direction >= -1; direction -= 2)
            while (direction > 0 ? e->centre < e->nsite - 2 : e->centre > 0) {
                const kl_solve_opts so = {.tol = 1e-4, .max_apply = 3, .trust_start = sweep > 0};
                kl_eig_stats stats;
                expect_ok(kl_engine_solve(e, &so, energy, &stats, &err), err);
                const kl_side side = direction > 0 ? KL_LEFT : KL_RIGHT;
                const kl_wave wave = kl_engine_wave(e);
                kl_trunc_opts o = {.m = sweep ? M : M / 2, .nstate = 1, .noise = sweep ? 1e-5 : 1e-4};
                kl_trunc_info info[2];
                double kept[2];
                kl_test_case("sweep %d, centre %d", sweep, e->centre);
                for (int k = 0; k < 2; k++) {
                    kl_isometry *iso = NULL;
                    kl_dptr data;
                    o.way = k ? KL_TRUNCATION_PRODUCTS : KL_TRUNCATION_EXACT;
                    expect_ok(kl_truncate(e->ex, side, &wave, direction > 0 ? e->row_op : e->col_op, &o, &iso,
                                          &data, &info[k], &err),
                              err);
                    kept[k] = kept_weight(e, side, iso, data);
                    kl_isometry_destroy(&iso);
                    e->ex->vt.release(e->ex, &data);
                }
                tried += info[1].ntried;
                expect_near(info[1].m, info[0].m, 2);
                if (info[1].m == info[0].m) {
                    expect_true(info[1].discarded <= 1.001 * info[0].discarded + 1e-13);
                    expect_near(kept[1], kept[0], 1e-3 * (1 - kept[0]) + 1e-9);
                }
                expect_ok(kl_engine_move(e, direction, &o, &info[0], &err), err);
            }
    expect_true(tried > (KL_TEST_WATCHED ? 5 : 20));
    kl_engine_destroy(&e);
    core_close(&j);
    core_no_memory();
}

/* Whole runs: energies agree within their error bars, and within their differences from one another's best.
 */
static void test_energies(void **state)
{
    static const struct {
        const char *model, *variant, *lattice, *sets, *charge;
        double accuracy;
        int nstate;
    } runs[] = {{"hubbard", NULL, "chain:12", "U=6", "N_up=6 N_dn=6", 1e-8, 1},
                {"heisenberg", "S=1", "chain:14", NULL, "Sz=1", 1e-6, 2}};
    kl_err err = {""};
    (void)state;
    for (size_t c = KL_TEST_WATCHED; c < sizeof runs / sizeof *runs; c++) {
        double energy[KL_NTRUNCATION][2], bar[KL_NTRUNCATION];
        core_job j;
        core_open(&j, core_model(runs[c].model, runs[c].variant), runs[c].lattice, NULL, runs[c].sets);
        for (kl_truncation way = 0; way < KL_NTRUNCATION; way++) {
            core_run r = core_auto(runs[c].accuracy, core_charge(j.model, runs[c].charge), runs[c].nstate,
                                   KL_STRATEGY_AUTO);
            r.opts.truncation = way;
            expect_ok(kl_dmrg_run(j.terms, j.ex, &r.opts, NULL, &r.state, &r.res, &err), err);
            expect_eq(r.res.stop, KL_STOP_CONVERGED);
            for (int s = 0; s < runs[c].nstate; s++) energy[way][s] = r.res.energy[s];
            bar[way] = r.res.error_estimate;
            core_drop(&r);
        }
        for (kl_truncation way = 0; way < KL_NTRUNCATION; way++)
            for (int s = 0; s < runs[c].nstate; s++) {
                kl_test_case("%s %s state %d, %s", runs[c].model, runs[c].lattice, s,
                             kl_truncation_name[way]);
                expect_near(energy[way][s], energy[KL_TRUNCATION_EXACT][s],
                            bar[way] + bar[KL_TRUNCATION_EXACT]);
                if (s == 0) expect_near(bar[way], bar[KL_TRUNCATION_EXACT], 0.5 * bar[KL_TRUNCATION_EXACT]);
            }
        core_close(&j);
    }
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs), cmocka_unit_test(test_bits),
                                       cmocka_unit_test(test_energies), cmocka_unit_test(test_noise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
