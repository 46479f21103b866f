/* Sectors of strings that no charge tells: how many there are, the energy of H and a string, and
   trials that look for other values.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/dense.h"
#include "core.h"
#include "dmrg/signstrings.h"
#include "dmrg/stringtrials.h"
#include "kl_test.h"

enum { MOST = 64 };

static void test_count(void **state)
{
    static const struct {
        const char *model, *variant, *lattice;
        int n;
    } list[] = {
        {"heisenberg", "S=1/2", "chain:6", 0},   {"heisenberg", "S=1", "chain:6", 0},
        {"hubbard", "F=1/2", "chain:5", 0},      {"plain_ising", NULL, "chain:6", 1},
        {"falicov_kimball", NULL, "chain:6", 5}, {"compass", NULL, "square:3x2", 5},
    };
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        kl_err err = {""};
        int n;
        core_job j;
        core_open(&j, core_model(list[i].model, list[i].variant), list[i].lattice, NULL, NULL);
        kl_test_case("%s", j.name);
        expect_ok(kl_stringtrials_count(j.terms, &n, &err), err);
        expect_eq(n, list[i].n);
        core_close(&j);
    }
    core_no_memory();
}

/* A run that has converged waits for sectors that it left out: of labels, and of many strings. */
static void test_tell(void **state)
{
    static const struct {
        const char *model, *lattice;
        kl_dmrg_stop stop;
        int searched, strings, waits;
    } list[] = {
        {"compass", "square:2x2", KL_STOP_CONVERGED, 0, 4, 0},
        {"compass", "square:3x2", KL_STOP_CONVERGED, 0, 5, 1},
        {"compass", "square:3x2", KL_STOP_CONVERGED, 1, 5, 0},
        {"compass", "square:3x2", KL_STOP_M_MAX, 0, 5, 0},
        {"falicov_kimball", "chain:4", KL_STOP_CONVERGED, 0, 3, 1},
        {"falicov_kimball", "chain:4", KL_STOP_CONVERGED, 1, 3, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        kl_dmrg_result res = {.stop = list[i].stop, .searched = list[i].searched};
        core_job j;
        core_open(&j, core_model(list[i].model, NULL), list[i].lattice, NULL, NULL);
        kl_test_case("%s, %d", j.name, (int)i);
        kl_stringtrials_tell(j.terms, &res);
        expect_eq(res.strings, list[i].strings);
        expect_eq(res.wait, list[i].waits ? KL_WAIT_SECTORS : KL_WAIT_NOTHING);
        core_close(&j);
    }
    core_no_memory();
}

/* A large coefficient leaves the states of one value of a string alone; the lower of the two energies is
   that of H, whichever string it is. */
static void test_string_terms(void **state)
{
    (void)state;
    kl_err err = {""};
    core_job j;
    kl_signstrings list;
    double lowest = 0;
    core_open(&j, core_model("falicov_kimball", NULL), "chain:4", NULL, NULL);
    expect_ok(kl_signstrings_find(j.terms, 0, MOST, &list, &err), err);
    const kl_qn target = core_charge(j.model, "Nc=2 Nf=2");
    core_run all = core_auto(1e-9, target, 1, KL_STRATEGY_AUTO);
    core_go(&j, &all);
    for (int k = 0; k < list.n; k++) {
        double both[2];
        for (int side = 0; side < 2; side++) {
            kl_stringterms with;
            expect_ok(kl_stringterms_create(j.terms, &list, k, side ? 10 : -10, &with, &err), err);
            kl_terms *const own = j.terms;
            j.terms = &with.terms;
            core_run r = core_auto(1e-9, target, 1, KL_STRATEGY_AUTO);
            core_go(&j, &r);
            double value;
            expect_ok(kl_signstrings_value(&list, k, r.state, &value, &err), err);
            kl_test_case("string %d, side %d", k, side);
            expect_near(value, side ? -1 : 1, 1e-8);
            both[side] = r.res.energy[0] + 10;
            expect_true(both[side] > all.res.energy[0] - 1e-8);
            core_drop(&r);
            j.terms = own;
            kl_stringterms_clear(&with);
        }
        lowest = fmin(both[0], both[1]);
        expect_near(lowest, all.res.energy[0], 1e-8);
    }
    expect_true(lowest < 0);
    kl_signstrings_clear(&list);
    core_drop(&all);
    core_close(&j);
    core_no_memory();
}

/* Every allocation fails in turn. */
static void test_run_out(void **state)
{
    (void)state;
    kl_err err = {""};
    core_job j;
    core_open(&j, core_model("falicov_kimball", NULL), "chain:5", NULL, "U=8");
    const kl_qn target = core_charge(j.model, "Nc=2 Nf=2");
    core_run r = core_auto(1e-9, target, 1, KL_STRATEGY_AUTO);
    core_go(&j, &r);
    r.opts.alone = 1;
    const kl_engine_opts same = {.target = target, .nstate = 1, .max_basis = 20, .seed = 1};
    const kl_valley_here here = {.state = r.state, .energy = r.res.energy[0], .bar = 1e-8, .flop = 1e12};
    kl_status st = KL_ENOMEM;
    int64_t k = 1;
    for (; st != KL_OK; k += 1 + k / 5) {
        kl_valley lower;
        kl_valley_settled settled = {0};
        kl_dense_release();
        kl_mem_fail_after(k);
        st = kl_stringtrials_compare(j.terms, j.ex, &same, &r.opts, NULL, &here, &lower, &settled, &err);
        kl_mem_fail_after(0);
        kl_test_case("allocation %lld", (long long)k);
        expect_true(st == KL_OK || (st == KL_ENOMEM && lower.state == NULL));
        if (st == KL_OK) expect_true(lower.state == NULL && settled.cut == 0);
    }
    expect_true(k > 1000);
    core_drop(&r);
    core_close(&j);
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count),
        cmocka_unit_test(test_tell),
        cmocka_unit_test(test_string_terms),
        cmocka_unit_test(test_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
