/* Exact diagonalization of sectors with millions of states: energies known from elsewhere, by two threads;
   the state itself, and its double occupancy against the derivative of the energy.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "ed/ed.h"
#include "kl_test.h"

static double lowest(const char *model, const char *variant, const char *lattice, const char *sets, int a,
                     int b, double accuracy)
{
    kl_err err = {""};
    core_job j;
    kl_ed *ed = NULL;
    kl_ed_result r;
    const kl_qn q = {{(int16_t)a, (int16_t)b}};
    core_open(&j, core_model(model, variant), lattice, NULL, sets);
    j.ex->nthread = 2;
    expect_ok(kl_ed_create(j.terms, q, KL_BIPARTITION_AUTO, j.ex, &ed, &err), err);
    expect_ok(kl_ed_run(ed, &(kl_ed_opts){.nstate = 1, .accuracy = accuracy}, NULL, NULL, &r, &err), err);
    kl_test_case("%s: %d products, %d vectors, %.2f s", j.name, r.napply, r.nvector, r.seconds);
    expect_eq(r.stop, KL_ED_CONVERGED);
    expect_true(r.nvector <= 4);
    print_message("%s: E0 = %.14g, %d products, %.2f s\n", j.name, r.energy[0], r.napply, r.seconds);
    const double e = r.energy[0];
    kl_ed_result_clear(&r);
    kl_ed_destroy(&ed);
    core_close(&j);
    return e;
}

static void test_tori(void **state)
{
    (void)state;
    expect_near(lowest("hubbard", "F=1/2", "torus:4x4", "U=4", 4, 4, 1e-10), -17.53489779664120,
                1e-10 * 17.5);
    expect_near(lowest("hubbard", "F=1/2", "torus:4x4", "U=8", 4, 4, 1e-10), -16.46062675368178,
                1e-10 * 16.4);
    expect_near(lowest("hubbard", "F=1/2", "torus:4x4", "U=4", 5, 5, 1e-10), -19.58093752541910,
                1e-10 * 19.5);
    expect_near(lowest("hubbard", "F=1/2", "torus:4x4", "U=8", 5, 5, 1e-10), -17.51036669487866,
                1e-10 * 17.5);
}

/* 131 and 166 million states, three vectors of 1.05 and 1.33 GB: eight minutes, so only where they are asked
   for. */
static void test_hundred_million(void **state)
{
    (void)state;
    if (!getenv("KL_TEST_HUGE")) {
        print_message("SKIP: set KL_TEST_HUGE for sectors of more than a hundred million states\n");
        skip();
    }
    if (kl_mem_machine_bytes() < 8e9) {
        print_message("SKIP: 4 GB of vectors, and this machine has %.1f GB\n", 1e-9 * kl_mem_machine_bytes());
        skip();
    }
    expect_near(lowest("hubbard", "F=1/2", "square:4x4", "U=4", 7, 7, 2e-11), -13.55915998646, 1e-10 * 13.5);
    expect_near(lowest("hubbard", "F=1/2", "torus:4x4", "U=4", 8, 8, 2e-11), -13.621854821162, 1e-10 * 13.6);
    expect_near(lowest("hubbard", "F=1/2", "torus:4x4", "U=8", 8, 8, 2e-11), -8.468875014197, 1e-10 * 8.4);
    expect_near(lowest("hubbard", "F=1/2", "chain:16", "U=1", 8, 8, 2e-11), -15.993949905974936,
                1e-10 * 15.9);
    expect_near(lowest("hubbard", "F=1/2", "chain:16", "U=2", 8, 8, 2e-11), -12.966716745928655,
                1e-10 * 12.9);
    expect_near(lowest("hubbard", "F=1/2", "chain:16", "U=4", 8, 8, 2e-11), -8.818767454811657, 1e-10 * 8.8);
    expect_near(lowest("hubbard", "F=1/2", "chain:16", "U=8", 8, 8, 2e-11), -5.037134091652217, 1e-10 * 5.0);
}

static void test_ring(void **state)
{
    (void)state;
    expect_near(lowest("heisenberg", "S=1/2", "ring:24", "J=1", 0, 0, 1e-10), -10.67001451653293,
                1e-10 * 10.6);
}

/* dE/dU is the double occupancy: Hellmann and Feynman, by a state and by energies. */
static void test_derivative(void **state)
{
    (void)state;
    kl_err err = {""};
    core_job j;
    kl_ed *ed = NULL;
    kl_ed_result r;
    kl_dptr x;
    int64_t ld;
    core_open(&j, core_model("hubbard", "F=1/2"), "cylinder:3x4", NULL, "U=4");
    expect_ok(kl_ed_create(j.terms, (kl_qn){{6, 6}}, KL_BIPARTITION_AUTO, j.ex, &ed, &err), err);
    expect_ok(kl_ed_run(ed, &(kl_ed_opts){.nstate = 1, .accuracy = 1e-12}, &x, &ld, &r, &err), err);
    double all = 0;
    for (int p = 0; p < 12; p++) {
        kl_op_at op = {p, kl_site_op_find(j.terms->type[p], "docc"), 0};
        kl_term term = {.coef = 1, .nop = 1};
        const kl_terms one = {.model = j.model,
                              .nsite = 12,
                              .type = j.terms->type,
                              .nterm = 1,
                              .term = &term,
                              .nop = 1,
                              .op = &op};
        double value;
        expect_ok(kl_ed_expect(ed, &one, x, &value, &err), err);
        all += value;
    }
    j.ex->vt.release(j.ex, &x);
    kl_ed_result_clear(&r);
    kl_ed_destroy(&ed);
    core_close(&j);
    const double up = lowest("hubbard", "F=1/2", "cylinder:3x4", "U=4.001", 6, 6, 1e-13),
                 dn = lowest("hubbard", "F=1/2", "cylinder:3x4", "U=3.999", 6, 6, 1e-13);
    expect_near(all, (up - dn) / 0.002, 1e-6);
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tori),
        cmocka_unit_test(test_hundred_million),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_derivative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
