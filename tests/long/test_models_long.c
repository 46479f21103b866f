/* Energies that take longer than a few seconds: ladders that need a thousand states, and long chains.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "kl_test.h"

static const core_known list[] = {
    {"heisenberg", "S=1/2", "chain:100", NULL, NULL, NULL, -44.127739893296235, 1e-10, 0},
    {"tj", NULL, "ladder:6x2", NULL, NULL, "N_up=5 N_dn=5", -6.997166042546927, 1e-9, 0},
    {"hubbard", "F=1/2", "ladder:6x2", NULL, "U=4", "N_up=6 N_dn=6", -7.846350569211074, 1e-9, 0},
    {"hubbard", "F=1/2", "chain:16", NULL, "U=1", "N_up=8 N_dn=8", -15.993949905974936, 1e-10, 0},
    {"hubbard", "F=1/2", "chain:32", NULL, "U=8", "N_up=16 N_dn=16", -10.275379040029596, 1e-10, 0},
    {"hubbard", "F=1/2", "ring:12", NULL, "U=4", "N_up=6 N_dn=6", -6.920353562419, 1e-9, 0},
    {"hubbard", "F=3/2", "chain:8", NULL, "U=4", "N_1=2 N_2=2 N_3=2 N_4=2", -5.845687533207021, 1e-8, 0},
    {"heisenberg", "S=1/2", "torus:4x4", NULL, NULL, NULL, -0.701780200 * 16, 1e-8, 0},
    /* of the same kinds, overnight */
    {"heisenberg", "S=1/2", "chain:64", NULL, NULL, NULL, -28.175424859743183, 1e-10, 0},
    {"hubbard", "F=1/2", "ladder:6x2", NULL, "U=8", "N_up=6 N_dn=6", -4.730255555119437, 1e-9, 0},
    {"hubbard", "F=1/2", "chain:16", NULL, "U=2", "N_up=8 N_dn=8", -12.966716745928655, 1e-10, 0},
    {"hubbard", "F=1/2", "chain:32", NULL, "U=4", "N_up=16 N_dn=16", -17.994578365126786, 1e-10, 0},
    {"hubbard", "F=1/2", "chain:32", NULL, "U=8", "N_up=14 N_dn=14", -16.433831592745582, 1e-10, 0},
    {"hubbard", "F=1/2", "ring:10", NULL, "U=8", "N_up=5 N_dn=5", -3.314996729088, 1e-9, 0},
    /* nearly all states: ED in disguise */
    {"hubbard", "F=1/2", "cylinder:3x4", NULL, "U=4", "N_up=6 N_dn=6", -9.205275862050465, 1e-9, 0},
};
enum { NOFTEN = 8 }; /* the first ones, in every run of the suite long */

static void test_list(void **state)
{
    (void)state;
    const size_t n = getenv("KL_TEST_HUGE") ? sizeof list / sizeof *list : NOFTEN;
    for (size_t k = 0; k < n; k++) {
        print_message("%s %s %s\n", list[k].model, list[k].lattice, list[k].sets ? list[k].sets : "");
        core_known_check(&list[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
