/* What is told of a molecule's state by DMRG against the full vector of configuration interaction: one- and
   two-body density matrices by spin, entropies of one and two orbitals, S^2, leading determinants; and all
   strings of a Hamiltonian, whose sum is the energy.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci_kit.h"
#include "core.h"
#include "base/dense.h"
#include "chem/densities.h"
#include "dmrg/measure.h"
#include "model/lattice.h"
#include "phase.h"
#include <math.h>
#include <string.h>

enum {
    MODES_MOST = 14,
    LEADING = 8,
};

/* The vector over all occupations of the modes: bit p orbital p up, bit norb + p orbital p down. */
typedef struct exact {
    int norb;
    int64_t n;
    double *psi, energy, s2;
} exact;

static int below(uint64_t x, int mode) { return __builtin_popcountll(x & ((UINT64_C(1) << mode) - 1)) & 1; }

static exact by_ci(const kl_fcidump *f, int irrep, int nelec, int *nalpha, int *nbeta)
{
    kl_err err;
    kl_ci_result r;
    kl_ci_opts o = ask("full", 1);
    o.irrep = irrep;
    o.nelec = nelec;
    o.have_ms2 = nelec > 0;
    o.tol = 1e-9;
    o.keep_vectors = 1;
    exact e = {.norb = f->norb, .n = INT64_C(1) << 2 * f->norb};
    expect_ok(kl_ci_run(f, ex, &o, NULL, &r, &err), err);
    expect_ok(kl_alloc(&e.psi, e.n, KL_MEM_WORK, &err), err);
    for (int64_t i = 0; i < r.state[0].ndet; i++)
        e.psi[r.state[0].det[0][i] | r.state[0].det[1][i] << f->norb] = r.state[0].coef[i];
    e.energy = r.state[0].energy;
    e.s2 = r.state[0].s2;
    *nalpha = r.nalpha;
    *nbeta = r.nbeta;
    kl_ci_result_clear(&r);
    return e;
}

/* y = c_a c_b x. */
static void annihilate(const exact *e, int a, int b, const double *x, double *y)
{
    memset(y, 0, (size_t)e->n * sizeof *y);
    for (int64_t i = 0; i < e->n; i++) {
        uint64_t k = (uint64_t)i;
        int odd = below(k, b);
        if (x[i] == 0 || !(k >> b & 1)) continue;
        k ^= UINT64_C(1) << b;
        if (!(k >> a & 1)) continue;
        odd ^= below(k, a);
        y[k ^ UINT64_C(1) << a] = odd ? -x[i] : x[i];
    }
}

static void check_two(const exact *e, double *const gamma[3])
{
    kl_err err;
    const int n = e->norb, spins[3][2] = {{0, 0}, {1, 1}, {0, 1}};
    double *y = NULL;
    expect_ok(kl_alloc(&y, e->n * n * n, KL_MEM_WORK, &err), err);
    for (int k = 0; k < 3; k++) {
        double worst = 0;
        for (int q = 0; q < n; q++)
            for (int s = 0; s < n; s++)
                annihilate(e, s + n * spins[k][1], q + n * spins[k][0], e->psi, y + (q * n + s) * e->n);
        for (int p = 0; p < n; p++)
            for (int r = 0; r < n; r++)
                for (int q = 0; q < n; q++)
                    for (int s = 0; s < n; s++) {
                        const double *const a = y + (p * n + r) * e->n, *const b = y + (q * n + s) * e->n;
                        double want = 0;
                        for (int64_t i = 0; i < e->n; i++) want += a[i] * b[i];
                        worst = fmax(worst, fabs(gamma[k][((p * n + q) * n + r) * n + s] - want));
                    }
        kl_test_case("two-body %d of %d orbitals, E %.6f", k, n, e->energy);
        expect_near(worst, 0, 2e-7);
    }
    kl_free(&y);
}

/* Of the modes in the mask, the rest traced out. */
static double entropy_of(const exact *e, uint64_t mask)
{
    kl_err err;
    double rho[256] = {0}, w[16], sum = 0;
    int mode[4], n = 0;
    for (int k = 0; k < 2 * e->norb; k++)
        if (mask >> k & 1) mode[n++] = k;
    for (int64_t rest = 0; rest < e->n; rest++) {
        double x[16];
        if ((uint64_t)rest & mask) continue;
        for (int s = 0; s < 1 << n; s++) {
            uint64_t at = (uint64_t)rest;
            int odd = 0;
            for (int k = 0; k < n; k++)
                if (s >> k & 1) at |= UINT64_C(1) << mode[k];
            /* each mode of the mask goes in front of those that are not of it */
            for (int k = 0; k < n; k++)
                if (s >> k & 1) odd ^= below(at & ~mask, mode[k]);
            x[s] = odd ? -e->psi[at] : e->psi[at];
        }
        for (int a = 0; a < 1 << n; a++)
            for (int b = 0; b < 1 << n; b++) rho[a + (b << n)] += x[a] * x[b];
    }
    expect_ok(kl_dense_eig(1 << n, rho, 1 << n, w, &err), err);
    for (int k = 0; k < 1 << n; k++)
        if (w[k] > 0) sum -= w[k] * log(w[k]);
    return sum;
}

static uint64_t modes_of(int norb, int p) { return UINT64_C(1) << p | UINT64_C(1) << (norb + p); }

static void check_information(const exact *e, kl_densities *d, const double *value)
{
    kl_err err;
    double entropy[MODES_MOST], information[MODES_MOST * MODES_MOST];
    const int n = e->norb;
    expect_ok(kl_densities_information(d, value, entropy, information, &err), err);
    for (int p = 0; p < n; p++) {
        kl_test_case("entropy of orbital %d", p + 1);
        expect_near(entropy[p], entropy_of(e, modes_of(n, p)), 1e-6);
        expect_near(information[p * n + p], entropy[p], 0);
        for (int q = 0; q < p; q++) {
            const double both = entropy_of(e, modes_of(n, p) | modes_of(n, q));
            kl_test_case("of orbitals %d and %d", p + 1, q + 1);
            expect_near(information[p * n + q], entropy[p] + entropy[q] - both, 2e-6);
            expect_near(information[q * n + p], information[p * n + q], 0);
        }
    }
}

static void check_leading(const exact *e, kl_measure *m, const int *order)
{
    kl_err err;
    int state[LEADING * MODES_MOST], n = 0, odd[2 * MODES_MOST], key[2 * MODES_MOST];
    double x[LEADING], largest = 0;
    expect_ok(kl_measure_leading(m, LEADING, state, x, &n, &err), err);
    expect_true(n > 0);
    for (int64_t i = 0; i < e->n; i++) largest = fmax(largest, fabs(e->psi[i]));
    expect_near(fabs(x[0]), largest, 1e-7);
    double turn = 0;
    for (int k = 0; k < n; k++) {
        uint64_t at = 0;
        int count = 0;
        for (int p = 0; p < e->norb; p++)
            for (int spin = 0; spin < 2; spin++) {
                const int mode = spin * e->norb + order[p];
                if (!(state[k * e->norb + order[p]] >> spin & 1)) continue;
                odd[count] = 1;
                key[count++] = mode;
                at |= UINT64_C(1) << mode;
            }
        const double have = x[k] * kl_phase_sort(count, key, odd, NULL);
        if (k == 0) turn = have * e->psi[at] < 0 ? -1 : 1;
        kl_test_case("leading %d", k);
        expect_near(turn * have, e->psi[at], 1e-7);
        if (k > 0) expect_true(fabs(x[k]) <= fabs(x[k - 1]) + 1e-12);
    }
}

static kl_lattice *sites_of(const kl_molecule *m)
{
    kl_err err;
    kl_lattice *lat = NULL;
    expect_ok(kl_lattice_create_empty("molecule", m->norb, &lat, &err), err);
    expect_ok(kl_lattice_finish(lat, &err), err);
    memcpy(lat->order, m->order, (size_t)m->norb * sizeof *lat->order);
    memcpy(lat->position, m->position, (size_t)m->norb * sizeof *lat->position);
    return lat;
}

static void check_hamiltonian(kl_measure *m, const kl_terms *t, double energy)
{
    kl_err err;
    double *value = NULL, sum = t->constant;
    expect_ok(kl_alloc(&value, t->nterm, KL_MEM_WORK, &err), err);
    expect_ok(kl_measure_terms(m, t, value, &err), err);
    for (int64_t i = 0; i < t->nterm; i++) sum += t->term[i].coef * value[i];
    kl_test_case("sum of all strings");
    expect_near(sum, energy, 1e-10);
    kl_free(&value);
}

/* nelec: 0 for those of the file. */
static void check(const char *file, const char *how, int irrep, int nelec)
{
    kl_err err;
    kl_fcidump *f = load(file);
    kl_molecule *m = NULL;
    kl_densities *d = NULL;
    kl_measure *measure = NULL;
    kl_qn target;
    int order[MODES_MOST], na, nb;
    exact e = by_ci(f, irrep, nelec, &na, &nb);
    expect_ok(kl_orbitals_order(f, NULL, how, NULL, order, &err), err);
    expect_ok(kl_molecule_create(f, order, 0, 0, &m, &err), err);
    expect_ok(kl_molecule_target(m, na, nb, irrep, &target, &err), err);
    kl_lattice *lat = sites_of(m);
    core_job j = {.model = &m->model, .terms = m->terms, .ex = ex};
    core_run r = core_exact(4096, target, 1, KL_STRATEGY_AUTO);
    core_go(&j, &r);
    const int n = f->norb;
    double *one[2] = {NULL, NULL}, *gamma[3] = {NULL, NULL, NULL}, *value = NULL;
    for (int k = 0; k < 2; k++) expect_ok(kl_alloc(&one[k], n * n, KL_MEM_WORK, &err), err);
    for (int k = 0; k < 3; k++) expect_ok(kl_alloc(&gamma[k], n * n * n * n, KL_MEM_WORK, &err), err);
    expect_ok(kl_densities_create(m, 1, &d, &err), err);
    expect_ok(kl_alloc(&value, kl_densities_terms(d)->nterm, KL_MEM_WORK, &err), err);
    expect_ok(kl_measure_create(ex, r.state, 0, lat, &measure, &err), err);
    expect_ok(kl_measure_terms(measure, kl_densities_terms(d), value, &err), err);
    kl_densities_one(d, value, one[0], one[1]);
    kl_densities_two(d, value, gamma);
    kl_test_case("%s %s", file, how);
    expect_near(kl_densities_energy(f, one[0], one[1], (const double *const *)gamma), e.energy, 1e-9);
    const double s2 = kl_densities_spin(d, value, na - nb);
    if (!f->unrestricted) expect_near(s2, e.s2, 1e-7);
    expect_true(s2 == 0 || fabs(s2) > 4e-16); /* what rounding leaves of a singlet is told as 0 */
    check_two(&e, gamma);
    check_information(&e, d, value);
    check_leading(&e, measure, m->order);
    check_hamiltonian(measure, m->terms, r.res.energy[0]);
    for (int k = 0; k < 3; k++) kl_free(&gamma[k]);
    for (int k = 0; k < 2; k++) kl_free(&one[k]);
    kl_free(&value);
    kl_free(&e.psi);
    kl_measure_destroy(&measure);
    kl_densities_destroy(&d);
    core_drop(&r);
    kl_lattice_destroy(&lat);
    kl_molecule_destroy(&m);
    kl_fcidump_destroy(&f);
}

static void test_against_ci(void **state)
{
    (void)state;
    check("lih-sto3g.fcidump", "fiedler", 0, 0);
    check("lih-sto3g.fcidump", "6,1,4,3,5,2", 1, 0);
    /* of the radical itself two states are degenerate */
    check("oh-uhf-sto3g.fcidump", "2,6,1,3,5,4", 0, 8);
    check("h6-chain-sto6g.fcidump", "canonical", 0, 0);
}

/* A failed allocation anywhere leaves nothing behind. */
static void test_memory(void **state)
{
    (void)state;
    kl_err err;
    kl_fcidump *f = load("lih-sto3g.fcidump");
    kl_molecule *m = NULL;
    kl_densities *d = NULL;
    kl_measure *measure = NULL;
    kl_qn target;
    int order[MODES_MOST], n;
    expect_ok(kl_orbitals_order(f, NULL, "canonical", NULL, order, &err), err);
    expect_ok(kl_molecule_create(f, order, 0, 0, &m, &err), err);
    expect_ok(kl_molecule_target(m, 2, 2, 0, &target, &err), err);
    kl_lattice *lat = sites_of(m);
    core_job j = {.model = &m->model, .terms = m->terms, .ex = ex};
    core_run r = core_exact(20, target, 1, KL_STRATEGY_AUTO);
    core_go(&j, &r);
    expect_ok(kl_measure_create(ex, r.state, 0, lat, &measure, &err), err);
    const int64_t before = kl_mem_live_total();
    for (int64_t k = 1;; k += k < 40 ? 1 : k / 8) {
        double *value = NULL, x[LEADING];
        int place[LEADING * MODES_MOST];
        kl_mem_fail_after(k);
        kl_status st = kl_densities_create(m, 1, &d, &err);
        if (st == KL_OK) st = kl_alloc(&value, kl_densities_terms(d)->nterm, KL_MEM_WORK, &err);
        if (st == KL_OK) st = kl_measure_terms(measure, kl_densities_terms(d), value, &err);
        if (st == KL_OK) st = kl_measure_leading(measure, LEADING, place, x, &n, &err);
        kl_mem_fail_after(0);
        kl_free(&value);
        kl_densities_destroy(&d);
        expect_eq(kl_mem_live_total(), before);
        if (st == KL_OK) break;
        expect_eq(st, KL_ENOMEM);
    }
    kl_measure_destroy(&measure);
    core_drop(&r);
    kl_lattice_destroy(&lat);
    kl_molecule_destroy(&m);
    kl_fcidump_destroy(&f);
}

/* Rows by hand: <S^2>, 2 M, what is mixed. */
static void test_mixed_spins(void **state)
{
    static const struct {
        double s2;
        int ms2;
        double mixed;
    } row[] = {{0, 0, 0},      {-1e-9, 0, 0},   {1e-3, 0, 0},       {0.3, 0, 0.3},  {2.001, 0, 0},
               {1.5, 0, 1.5},  {3.18, 0, 3.18}, {6.0 - 1e-4, 0, 0}, {0.75, 1, 0},   {0.75, -1, 0},
               {1.25, 1, 0.5}, {3.75, 1, 0},    {2, 2, 0},          {2.5, -2, 0.5}, {6, 2, 0}};
    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        kl_test_case("<S^2> = %g, 2 M = %d", row[k].s2, row[k].ms2);
        expect_near(kl_densities_spin_mixed(row[k].s2, row[k].ms2), row[k].mixed, 1e-12);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_ci), cmocka_unit_test(test_memory),
                                       cmocka_unit_test(test_mixed_spins)};
    return cmocka_run_group_tests(tests, open_exec, close_exec);
}
