/* Reflections of charges: wherever one is found, the oracle's energies of both sectors are the same, whatever
   the parameters; it is found where a textbook has it, and not where a field or a charge forbids it.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "kl_test.h"
#include "model/mirror.h"

static const char *const lattices[] = {"chain:2", "chain:4", "ring:3", "ladder:2x2", NULL};
static int nfound;

static void same_energies(const core_job *j, uint64_t seed)
{
    enum { MOST = 3 };
    kl_err err = {""};
    kl_mirror by;
    int found, n;
    (void)seed;
    expect_ok(kl_mirror_find(j->terms, &found, &by, &err), err);
    if (!found) return;
    nfound++;
    oracle *o = oracle_create(j->model, j->lat, j->par);
    kl_qn *q = core_sectors(j, 5, &n);
    for (int i = 0; i < n; i++) {
        double a[MOST], b[MOST];
        const kl_qn other = kl_mirror_image(j->model, &by, q[i]);
        kl_test_case("%s, sector %d", j->name, i);
        expect_eq(kl_qn_cmp(kl_mirror_image(j->model, &by, other), q[i]), 0);
        const int have = oracle_energies(o, core_of(q[i]).charge, MOST, a, NULL);
        expect_eq(oracle_energies(o, core_of(other).charge, MOST, b, NULL), have);
        for (int k = 0; k < have && k < MOST; k++) expect_near(b[k], a[k], 1e-12 * fmax(1, fabs(a[k])));
    }
    kl_free(&q);
    oracle_destroy(&o);
}

static void test_same_energies(void **state)
{
    (void)state;
    nfound = 0;
    core_every_lattice(kl_models_builtin, kl_models_nbuiltin, lattices, 800, CORE_ONE_ORDER, same_energies);
    core_every_lattice(core_models, core_nmodel, lattices, 800, CORE_ONE_ORDER, same_energies);
    expect_true(nfound >= 10);
}

static void test_known(void **state)
{
    static const struct {
        const char *model, *variant, *lattice, *sets, *charges, *image; /* image NULL: there is none */
    } cases[] = {{"heisenberg", "S=1/2", "chain:6", NULL, "Sz=2", "Sz=-2"},
                 {"heisenberg", "S=1", "ring:5", "Delta=0.3", "Sz=1", "Sz=-1"},
                 {"heisenberg", "S=1/2", "chain:6", "h=0.1", "Sz=2", NULL},
                 {"heisenberg", "S=1/2", "chain:6", "h=uniform(-1,1)", "Sz=2", NULL},
                 {"hubbard", "F=1/2", "ladder:2x2", "U=3", "N_up=1 N_dn=3", "N_up=3 N_dn=1"},
                 {"tj", NULL, "chain:4", NULL, "N_up=1 N_dn=2", "N_up=2 N_dn=1"}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        core_job j;
        kl_err err = {""};
        kl_mirror by;
        int found;
        kl_test_case("%s %s", cases[k].model, cases[k].sets ? cases[k].sets : "");
        core_open(&j, core_model(cases[k].model, cases[k].variant), cases[k].lattice, NULL, cases[k].sets);
        expect_ok(kl_mirror_find(j.terms, &found, &by, &err), err);
        expect_eq(found, cases[k].image != NULL);
        if (found)
            expect_eq(kl_qn_cmp(kl_mirror_image(j.model, &by, core_charge(j.model, cases[k].charges)),
                                core_charge(j.model, cases[k].image)),
                      0);
        core_close(&j);
    }
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_energies), cmocka_unit_test(test_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
