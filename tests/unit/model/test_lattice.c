/* Lattices: bond counts and classes by hand count, shortest images, orders, and one line for every bad spec.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "kl_test.h"
#include "model/lattice.h"

static kl_lattice *make(const char *spec, int nsite, int doubled)
{
    kl_lattice *lat = NULL;
    kl_err err = {""};
    if (kl_lattice_create(spec, nsite, doubled, &lat, &err) != KL_OK) fail_msg("%s: %s", spec, err.text);
    return lat;
}

static int count(const kl_lattice *lat, const char *name)
{
    const int c = kl_lattice_class(lat, name);
    int n = 0;
    for (int b = 0; b < lat->nbond; b++)
        for (int k = 0; k < lat->bond[b].nclass; k++) n += lat->bond[b].cls[k] == c;
    return c < 0 ? -1 : n;
}

static void test_counts(void **state)
{
    static const struct {
        const char *spec;
        int doubled, nsite, nn, nnn, d3, leg, rung, diag;
    } row[] = {
        {"chain:1", 0, 1, 0, 0, 0, -1, -1, -1},         {"chain:2", 0, 2, 1, 0, 0, -1, -1, -1},
        {"chain:8", 0, 8, 7, 6, 5, -1, -1, -1},         {"ring:1", 0, 1, 0, 0, 0, -1, -1, -1},
        {"ring:2", 0, 2, 1, 0, 0, -1, -1, -1},          {"ring:2", 1, 2, 2, 0, 0, -1, -1, -1},
        {"ring:3", 0, 3, 3, 0, 0, -1, -1, -1},          {"ring:4", 0, 4, 4, 2, 0, -1, -1, -1},
        {"ring:4", 1, 4, 4, 4, 0, -1, -1, -1},          {"ring:7", 1, 7, 7, 7, 7, -1, -1, -1},
        {"ladder:6x2", 0, 12, 16, 10, 8, 10, 6, 10},    {"square:3x3", 0, 9, 12, 8, 6, 6, 6, 8},
        {"cylinder:3x4", 0, 12, 20, 16, 10, 8, 12, 16}, {"cylinder:3x2", 0, 6, 7, 4, 2, 4, 3, 4},
        {"cylinder:3x2", 1, 6, 10, 8, 2, 4, 6, 8},      {"torus:2x2", 0, 4, 4, 2, 0, 2, 2, 2},
        {"torus:2x2", 1, 4, 8, 8, 0, 4, 4, 8},          {"torus:3x3", 0, 9, 18, 18, 0, 9, 9, 18},
        {"torus:4x4", 0, 16, 32, 32, 16, 16, 16, 32},   {"torus:4x4", 1, 16, 32, 32, 32, 16, 16, 32},
        {"torus:5x1", 0, 5, 5, 0, 5, 5, 0, 0},
    };
    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        kl_lattice *lat = make(row[k].spec, 0, row[k].doubled);
        const int want[] = {row[k].nsite, row[k].nn,   row[k].nnn, row[k].d3,
                            row[k].leg,   row[k].rung, row[k].diag};
        const int have[] = {lat->nsite,        count(lat, "nn"),   count(lat, "nnn"), count(lat, "d3"),
                            count(lat, "leg"), count(lat, "rung"), count(lat, "diag")};
        for (int c = 0; c < 7; c++)
            if (have[c] != want[c])
                fail_msg("%s (double %d), column %d: %d, expected %d", row[k].spec, row[k].doubled, c,
                         have[c], want[c]);
        for (int b = 0; b < lat->nbond; b++) {
            const kl_bond *x = &lat->bond[b];
            assert_true(x->i >= 0 && x->i < x->j && x->j < lat->nsite);
            if (b > 0) assert_true(x[-1].i < x->i || (x[-1].i == x->i && x[-1].j <= x->j));
            assert_true(fabs(x->r - kl_lattice_distance(lat, x->i, x->j)) < 1e-14);
            assert_true(x->r == kl_lattice_distance(lat, x->j, x->i));
        }
        kl_lattice_destroy(&lat);
    }
    core_no_memory();
}

static void test_distance(void **state)
{
    (void)state;
    kl_lattice *ring = make("ring", 10, 0), *cyl = make("cylinder:6x4", 24, 0);
    assert_true(kl_lattice_distance(ring, 1, 8) == 3.0);
    assert_true(kl_lattice_distance(cyl, 0, 3) == 1.0);               /* round the circumference */
    assert_true(kl_lattice_distance(cyl, 0, 20) == 5.0);              /* open along the length */
    assert_true(fabs(kl_lattice_distance(cyl, 0, 7) - sqrt(2.0)) < 1e-15);
    assert_true(cyl->xy[7][0] == 1.0 && cyl->xy[7][1] == 3.0);
    kl_lattice_destroy(&ring);
    kl_lattice_destroy(&cyl);
}

static void expect_order(kl_lattice *lat, const char *how, const int *want)
{
    kl_err err = {""};
    if (kl_lattice_reorder(lat, how, &err) != KL_OK) fail_msg("%s %s: %s", lat->spec, how, err.text);
    for (int p = 0; p < lat->nsite; p++) {
        if (lat->order[p] != want[p])
            fail_msg("%s %s: site %d at position %d, expected %d", lat->spec, how, lat->order[p], p, want[p]);
        assert_int_equal(lat->position[lat->order[p]], p);
    }
}

static void test_orders(void **state)
{
    (void)state;
    kl_lattice *grid = make("square:3x3", 0, 0), *chain = make("chain:7", 0, 0), *ring = make("ring:6", 0, 0),
               *ladder = make("ladder:5x2", 0, 0);
    expect_order(grid, "snake", (int[]){0, 1, 2, 5, 4, 3, 6, 7, 8});
    expect_order(grid, "2,1,0,3,4,5,8,7,6", (int[]){2, 1, 0, 3, 4, 5, 8, 7, 6});
    expect_order(grid, "column", (int[]){0, 1, 2, 3, 4, 5, 6, 7, 8});
    /* of the two degenerate directions the one of the numbering */
    expect_order(grid, "fiedler", (int[]){0, 1, 2, 3, 4, 5, 6, 7, 8});
    expect_order(chain, "fiedler", (int[]){0, 1, 2, 3, 4, 5, 6});
    /* folded: no bond is longer than two positions */
    expect_order(ring, "fiedler", (int[]){1, 0, 2, 3, 5, 4});
    expect_order(ladder, "fiedler", (int[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    kl_lattice_destroy(&grid);
    kl_lattice_destroy(&chain);
    kl_lattice_destroy(&ring);
    kl_lattice_destroy(&ladder);

    /* A scrambled path in two pieces: pieces in order of their smallest site, each as a path. */
    static const int path[] = {0, 3, 1, 4, 2}, other[] = {5, 7, 6};
    const char *nn = "nn";
    kl_lattice *file = NULL;
    kl_err err;
    assert_int_equal(kl_lattice_create_empty("two.lua", 8, &file, &err), KL_OK);
    for (int k = 0; k < 4; k++)
        assert_int_equal(kl_lattice_add_bond(file, path[k], path[k + 1], 1.0, &nn, 1, &err), KL_OK);
    for (int k = 0; k < 2; k++)
        assert_int_equal(kl_lattice_add_bond(file, other[k + 1], other[k], 2.5, &nn, 1, &err), KL_OK);
    assert_int_equal(kl_lattice_finish(file, &err), KL_OK);
    expect_order(file, "fiedler", (int[]){0, 3, 1, 4, 2, 5, 7, 6});
    assert_true(kl_lattice_distance(file, 5, 7) == 2.5);
    kl_lattice_destroy(&file);
    core_no_memory();
}

static void test_large(void **state)
{
    (void)state;
    kl_lattice *lat = make("chain:10000", 0, 0);
    assert_int_equal(count(lat, "nn"), 9999);
    assert_int_equal(count(lat, "d9"), 9991);
    kl_lattice_destroy(&lat);
    lat = make("torus:100x100", 0, 0);
    assert_int_equal(count(lat, "nn"), 20000);
    kl_lattice_destroy(&lat);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *spec;
        int nsite;
        const char *words[4];
    } row[] = {
        {"chian:8", 0, {"chian", "did you mean chain", "cylinder:6x4"}},
        {"", 0, {"allowed"}},
        {"chain", 0, {"number of sites", "chain:32"}},
        {"chain:0", 0, {"at least 1"}},
        {"chain:-3", 0, {"at least 1"}},
        {"chain:8x2", 0, {"8x2", "number of sites"}},
        {"chain:8.5", 0, {"8.5"}},
        {"square", 16, {"square:6x4"}},
        {"square:4", 0, {"\"4\"", "LxW"}},
        {"square:4x", 0, {"LxW"}},
        {"square:x4", 0, {"LxW"}},
        {"torus:4x0", 0, {"at least 1"}},
        {"ladder:6x2", 8, {"12 sites", "8"}},
        {"square:99999999999x9", 0, {"at most 1000000"}},
        {"square:4611686018427387904x4", 0, {"at most 1000000"}},
        {"chain:99999999999999999999", 0, {"number of sites"}},
        {"pyrochlore:3x3", 0, {"pyrochlore", "allowed"}},
    };
    static const char *const orders[][3] = {{"snaek", "did you mean snake"},
                                            {"0,1", "2 sites are listed"},
                                            {"0,1,2,2", "occurs twice"},
                                            {"0,1,2,4", "\"4\""},
                                            {"0,1,2,x", "\"x\""},
                                            {"", "allowed"}};
    kl_lattice *lat = NULL;
    kl_err err;
    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++)
        core_refused(kl_lattice_create(row[k].spec, row[k].nsite, 0, &lat, &err), &err, row[k].words);
    assert_null(lat);
    lat = make("chain:4", 0, 0);
    for (size_t k = 0; k < sizeof orders / sizeof *orders; k++)
        core_refused(kl_lattice_reorder(lat, orders[k][0], &err), &err, orders[k] + 1);
    for (int p = 0; p < 4; p++) assert_int_equal(lat->order[p], p);
    kl_lattice_destroy(&lat);

    const char *nn[] = {"nn", "nn"};
    assert_int_equal(kl_lattice_create_empty("mine.lua", 0, &lat, &err), KL_EINPUT);
    assert_int_equal(kl_lattice_create_empty("mine.lua", 3, &lat, &err), KL_OK);
    core_refused(kl_lattice_add_bond(lat, 0, 3, 1.0, nn, 1, &err), &err,
                 (const char *[]){"(0, 3)", "0 to 2", NULL});
    core_refused(kl_lattice_add_bond(lat, 1, 1, 1.0, nn, 1, &err), &err, (const char *[]){"itself", NULL});
    core_refused(kl_lattice_add_bond(lat, 0, 1, NAN, nn, 1, &err), &err, (const char *[]){"length", NULL});
    core_refused(kl_lattice_add_bond(lat, 0, 1, 1.0, nn, 0, &err), &err, (const char *[]){"0 classes", NULL});
    core_refused(kl_lattice_add_bond(lat, 0, 1, 1.0, nn, 2, &err), &err, (const char *[]){"twice", NULL});
    assert_int_equal(kl_lattice_add_bond(lat, 0, 1, 1.0, nn, 1, &err), KL_OK);
    assert_int_equal(kl_lattice_add_bond(lat, 1, 0, 1.0, nn, 1, &err), KL_OK);
    core_refused(kl_lattice_finish(lat, &err), &err, (const char *[]){"(0, 1)", "listed twice", NULL});
    kl_lattice_destroy(&lat);
    core_no_memory();
}

static void test_no_memory(void **state)
{
    kl_lattice *lat = NULL;
    kl_err err;
    (void)state;
    for (int64_t k = 1; k < 200; k++) {
        kl_mem_fail_after(k);
        kl_status st = kl_lattice_create("torus:3x4", 0, 0, &lat, &err);
        if (st == KL_OK) st = kl_lattice_reorder(lat, "fiedler", &err);
        kl_mem_fail_after(0);
        kl_lattice_destroy(&lat);
        core_no_memory();
        if (st == KL_OK) return;
        assert_int_equal(st, KL_ENOMEM);
    }
    fail_msg("the lattice needs more than 200 allocations");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts),   cmocka_unit_test(test_distance),
                                       cmocka_unit_test(test_orders),   cmocka_unit_test(test_large),
                                       cmocka_unit_test(test_refusals), cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
