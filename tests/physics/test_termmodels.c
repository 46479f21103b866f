/* Terms of every shipped model on every lattice that it allows, and the oracle against itself.
   SPDX-License-Identifier: Apache-2.0 */
#include "termsetup.h"
#include "model/modelread.h"

/* The oracle against itself: Lanczos and dense, expectation values of a state known by hand. */
static void test_oracle(void **state)
{
    const kl_model *heis = core_model("heisenberg", "S=1/2"), *hub = core_model("hubbard", "F=1/2");
    double w[3], psi[1 << 14];
    (void)state;
    term_setup s = term_make(heis, "chain:14", "column", NULL);
    oracle *o = oracle_create(heis, s.lat, s.par);
    assert_int_equal(oracle_energies(o, (int[]){0}, 2, w, psi), 2); /* dimension 3432: Lanczos */
    expect_near(w[0], -6.0267246618621, 1e-9); /* Heisenberg chain of 14 */
    double bonds = 0.0;
    for (int i = 0; i < 13; i++)
        bonds += 3.0 * oracle_expect(o, psi, 2, (int[]){i, i + 1}, (const char *[]){"Sz", "Sz"});
    expect_near(bonds, w[0], 1e-6); /* a singlet's energy from its z correlations */
    oracle_destroy(&o);
    term_drop(&s);

    s = term_make(hub, "ring:4", "2,0,3,1", (const char *[]){"U=0", "t=1", NULL});
    o = oracle_create(hub, s.lat, s.par);
    assert_int_equal(oracle_energies(o, (int[]){1, 1}, 1, w, psi), 1);
    expect_near(w[0], -4.0, 1e-13); /* two electrons at k = 0 */
    for (int i = 0; i < 4; i++) /* <c+_i c_j> */
        for (int j = 0; j < 4; j++)
            expect_near(oracle_expect(o, psi, 2, (int[]){i, j}, (const char *[]){"cdag_up", "c_up"}), 0.25,
                        1e-13);
    oracle_destroy(&o);
    term_drop(&s);
}

/* Every model file shipped, its arrays random and its scalars off their defaults, on the lattices that its
   bond classes allow. */
static void test_every_model(void **state)
{
    static const char *const lattices[] = {"chain:N",           "ring:N",      "ladder:2x2", "torus:2x2",
                                           "torus:2x2 doubled", "cylinder:2x2"};
    static const char *const small[] = {"n_max=2", NULL};
    kl_err err = {""};
    int nmodel = 0, nrun = 0;
    (void)state;
    for (const kl_embedded *e = kl_embedded_models; e->name != NULL; e++) {
        kl_tables *tables = NULL;
        const char *const *structural =
            strstr(e->name, "holstein") != NULL || strstr(e->name, "bose") != NULL ? small : NULL;
        const char *const path = e->name;
        if (kl_modelread_text(path, e->text, e->size, structural, &tables, &err) != KL_OK)
            fail_msg("%s", err.text);
        const kl_model *const m = tables->model;
        nmodel++;
        int dim = 1, n = 0;
        for (int t = 0; t < m->ntype; t++) dim = m->type[t].dim > dim ? m->type[t].dim : dim;
        for (int64_t all = dim; all <= 600 && n < 6; all *= dim) n++;
        if (n < 2) n = 2;
        for (size_t l = 0; l < sizeof lattices / sizeof *lattices; l++) {
            char spec[32], name[32], text[64];
            kl_lattice *lat = NULL;
            term_setup s = {NULL, NULL, NULL};
            if (l >= 2 && n < 4) continue;
            if (l < 2) snprintf(spec, sizeof spec, "%.*s%d", (int)(strlen(lattices[l]) - 1), lattices[l], n);
            else snprintf(spec, sizeof spec, "%.*s", (int)strcspn(lattices[l], " "), lattices[l]);
            assert_int_equal(kl_lattice_create(spec, 0, l == 4, &lat, &err), KL_OK);
            assert_int_equal(kl_lattice_reorder(lat, l % 2 ? "fiedler" : "snake", &err), KL_OK);
            s.lat = lat;
            assert_int_equal(kl_params_create(m, lat, &s.par, &err), KL_OK);
            for (int k = 0; k < m->nparam; k++) {
                snprintf(name, sizeof name, "%s", m->param[k].name);
                if (m->param[k].kind == KL_PARAM_SCALAR)
                    snprintf(text, sizeof text, "%.3f", m->param[k].value + 0.137 * (k + 1));
                else snprintf(text, sizeof text, "normal(%.3f,0.5)", m->param[k].value);
                if (kl_params_set(s.par, name, text, 3, &err) != KL_OK) fail_msg("%s: %s", path, err.text);
            }
            const kl_status st = kl_terms_create(m, lat, s.par, &s.terms, &err);
            if (st == KL_OK) {
                oracle *o = oracle_create(m, lat, s.par);
                term_compare(&s, o);
                oracle_destroy(&o);
                nrun++;
            } else if (strstr(err.text, "lacks") == NULL || l < 2) {
                fail_msg("%s on %s: %s", path, spec, err.text);
            }
            term_drop(&s);
        }
        kl_tables_destroy(&tables);
    }
    print_message("%d models, %d lattices\n", nmodel, nrun);
    assert_true(nmodel > 0 && nrun >= 2 * nmodel);
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_oracle), cmocka_unit_test(test_every_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
