/* Every shipped model that has the total spin, on small lattices: the lowest levels of each S are those of
   exact diagonalization with Sz = S that are not there with Sz = S + 1, as often as they are there, and there
   are as many multiplets as such states.
   SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"
#include "spin_kit.h"
#include <math.h>

enum { MOST = 1500 };

/* Takes the levels `away` out of `from`; returns how many are left. */
static int without(int n, double *from, int naway, const double *away)
{
    int left = 0;
    for (int i = 0, k = 0; i < n; i++) {
        if (k < naway && fabs(from[i] - away[k]) < 1e-9) k++;
        else from[left++] = from[i];
    }
    return left;
}

/* 1: the charges of a plain sector are those of the component with that 2 Sz, and of the other charges of q.
   Flavours are counted from the largest projection down. */
static int is_component(const kl_model *m, kl_qn plain, const kl_model *spin, kl_qn q, int twice)
{
    const kl_charge *const last = &m->charge[m->ncharge - 1];
    int n = 0, sz = 0;
    if (strcmp(last->name, "Sz") == 0) {
        sz = 2 * plain.v[m->ncharge - 1] * last->unit_num / last->unit_den;
        return sz == twice && (kl_model_spin(spin) == 0 || plain.v[0] == q.v[0]);
    }
    for (int c = 0; c < m->ncharge; c++) n += plain.v[c], sz += (m->ncharge - 1 - 2 * c) * plain.v[c];
    return sz == twice && n == q.v[0];
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* All levels with that 2 Sz and the other charges of q. */
static int levels_with(const system_t *spin, const system_t *plain, const oracle *o, kl_qn q, int twice,
                       double *w)
{
    kl_err err;
    kl_reach all;
    int n = 0;
    expect_ok(kl_reach_create(plain->model, plain->terms->type, 0, plain->terms->nsite, 0, &all, &err), err);
    for (int64_t i = 0; i < all.n; i++)
        if (is_component(plain->model, all.q[i], spin->model, q, twice))
            n += oracle_energies(o, core_of(all.q[i]).charge, MOST - n, w + n, NULL);
    expect_true(n < MOST);
    kl_reach_clear(&all);
    qsort(w, (size_t)n, sizeof *w, ascending);
    return n;
}

/* Levels of the multiplets with these charges and spin, ascending. */
static int exact_levels(const system_t *spin, const system_t *plain, const oracle *o, kl_qn q, double *w)
{
    double above[MOST];
    const int twice = q.v[kl_model_spin(spin->model)], n = levels_with(spin, plain, o, q, twice, w),
              m = levels_with(spin, plain, o, q, twice + 2, above), left = without(n, w, m, above);
    expect_eq(left, n - m);
    return left;
}

static void check_sector(const system_t *spin, const system_t *plain, const oracle *o, const kl_reach *all,
                         int64_t i)
{
    char text[128];
    double w[MOST], energy[4];
    kl_state *state = NULL;
    const int n = exact_levels(spin, plain, o, all->q[i], w), nstate = n < 4 ? n : 4;
    kl_test_case("%s %s, %s", spin->model->name, spin->model->variant,
                 kl_qn_print(spin->model, all->q[i], text, sizeof text));
    expect_near(exp(all->log_count[i]), n, 1e-9 * n);
    levels(spin, all->q[i], i % 2 ? KL_STRATEGY_LR : KL_STRATEGY_L11R, nstate, energy, &state);
    for (int k = 0; k < nstate; k++) expect_near(energy[k], w[k], 1e-10);
    kl_state_destroy(&state);
}

/* All spins of every third number of particles. */
static void check_model(const char *name, const char *lattice, const char *const *setting)
{
    kl_err err;
    system_t spin, plain;
    kl_reach all;
    open_system(&spin, name, NULL, 1, lattice, 0, setting);
    open_system(&plain, name, NULL, 0, lattice, 0, setting);
    oracle *o = oracle_create(plain.model, plain.lat, plain.par);
    expect_ok(kl_reach_create(spin.model, spin.terms->type, 0, spin.terms->nsite, 0, &all, &err), err);
    for (int64_t i = 0; i < all.n; i++)
        if (kl_model_spin(spin.model) == 0 || all.q[i].v[0] % 3 == spin.terms->nsite % 3)
            check_sector(&spin, &plain, o, &all, i);
    kl_reach_clear(&all);
    oracle_destroy(&o);
    close_system(&spin);
    close_system(&plain);
}

static void test_shipped(void **unused)
{
    static const struct {
        const char *model, *lattice, *setting[4];
    } list[] = {{"heisenberg", "ring:6", {"S=1/2", NULL}},
                {"heisenberg", "ladder:2x2", {"S=3/2", "J=0.7", NULL}},
                {"j1j2", "ring:7", {"J2=0.6", NULL}},
                {"longrange", "chain:5", {"S=1", "alpha=1.5", NULL}},
                {"blbq", "ring:4", {"beta=-0.4", NULL}},
                {"hubbard", "square:2x2", {"U=3", "mu=0.2", NULL}},
                {"hubbard", "chain:2", {"F=3/2", "U=2", NULL}},
                {"extended_hubbard", "ring:4", {"U=3", "V=1.2", NULL}},
                {"tj", "ring:5", {"J=0.5", NULL}},
                {"kondo", "chain:3", {"J=1.3", "U=0.4", NULL}},
                {"holstein", "chain:3", {"n_max=1", "U=2", NULL}}};
    (void)unused;
    for (size_t k = 0; k < sizeof list / sizeof *list; k++)
        check_model(list[k].model, list[k].lattice, list[k].setting);
}

/* The others have none, or change it. */
static void test_without(void **unused)
{
    static const char *const name[] = {"ising", "bose_hubbard", "pairing"};
    (void)unused;
    for (size_t k = 0; k < sizeof name / sizeof *name; k++) {
        kl_err err;
        kl_tables *tables = NULL;
        expect_refused(kl_modelread_spin(name[k], NULL, 0, NULL, &tables, &err), KL_EINPUT, err, ".lua:");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shipped), cmocka_unit_test(test_without)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
