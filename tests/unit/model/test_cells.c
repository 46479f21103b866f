/* Lattices with a unit cell: numbers of bonds and plaquettes, translation invariance, classes, coordinates,
   tilted clusters, momenta, and one line for every bad spec.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "kl_test.h"
#include "model/lattice.h"

enum { MOST = 120 };

static kl_lattice *make(const char *spec)
{
    kl_lattice *lat = NULL;
    kl_err err = {""};
    if (kl_lattice_create(spec, 0, 0, &lat, &err) != KL_OK) fail_msg("%s: %s", spec, err.text);
    return lat;
}

static int is_of(const kl_lattice *lat, int b, const char *name)
{
    const int c = kl_lattice_class(lat, name);
    for (int k = 0; k < lat->bond[b].nclass; k++)
        if (lat->bond[b].cls[k] == c) return 1;
    return 0;
}

static int count(const kl_lattice *lat, const char *name)
{
    int n = 0;
    for (int b = 0; b < lat->nbond; b++) n += is_of(lat, b, name);
    return n;
}

static int degree(const kl_lattice *lat, const char *name, int site)
{
    int n = 0;
    for (int b = 0; b < lat->nbond; b++)
        n += is_of(lat, b, name) && (lat->bond[b].i == site || lat->bond[b].j == site);
    return n;
}

static char joined[MOST][MOST];

static void join(const kl_lattice *lat, const char *name, const char *more)
{
    memset(joined, 0, sizeof joined);
    for (int b = 0; b < lat->nbond; b++)
        if (is_of(lat, b, name) || (more && is_of(lat, b, more)))
            joined[lat->bond[b].i][lat->bond[b].j] = joined[lat->bond[b].j][lat->bond[b].i] = 1;
}

/* Closed walks of n different sites without a chord, each counted once for every start and direction. */
static int rings_from(int nsite, int n, int *path, int length)
{
    int found = 0;
    if (length == n) return joined[path[n - 1]][path[0]];
    for (int k = 0; k < nsite; k++) {
        int good = joined[path[length - 1]][k];
        for (int p = 0; p < length && good; p++)
            good = path[p] != k && (p == length - 1 || (p == 0 && length == n - 1) || !joined[path[p]][k]);
        if (!good) continue;
        path[length] = k;
        found += rings_from(nsite, n, path, length + 1);
    }
    return found;
}

static int rings(int nsite, int n)
{
    int path[16], found = 0;
    for (int i = 0; i < nsite; i++) {
        path[0] = i;
        found += rings_from(nsite, n, path, 1);
    }
    return found / (2 * n);
}

/* On tori, per cell: neighbours of each shell, and the smallest plaquettes. */
static void test_coordination(void **state)
{
    static const struct {
        const char *spec;
        int cells, sub;
        int near[3][3]; /* by shell and sublattice */
        int side, plaquettes;
    } row[] = {
        {"triangular:torus:6x6", 36, 1, {{6}, {6}, {6}}, 3, 2},
        {"honeycomb:torus:5x5", 25, 2, {{3, 3}, {6, 6}, {3, 3}}, 6, 1},
        {"kagome:torus:4x4", 16, 3, {{4, 4, 4}, {4, 4, 4}, {6, 6, 6}}, 3, 2},
        {"kagome:torus:4x5", 20, 3, {{4, 4, 4}, {4, 4, 4}, {6, 6, 6}}, 6, 1},
        {"lieb:torus:5x5", 25, 3, {{4, 2, 2}, {0, 4, 4}, {4, 4, 4}}, 8, 1},
        {"torus:5,1x-1,5", 26, 1, {{4}, {4}, {4}}, 4, 1},
        {"square:torus:6x6", 36, 1, {{4}, {4}, {4}}, 4, 1},
        {"checkerboard:torus:4x4", 16, 2, {{4, 4}, {2, 2}, {4, 4}}, 4, 2},
        {"diamond:ring:7", 7, 3, {{4, 2, 2}, {2, 3, 3}, {0, 2, 2}}, 4, 1},
    };
    static const char *const shell[3] = {"nn", "nnn", "d3"};
    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        kl_lattice *lat = make(row[k].spec);
        assert_int_equal(lat->nsite, row[k].cells * row[k].sub);
        for (int i = 0; i < lat->nsite; i++)
            for (int s = 0; s < 3; s++)
                if (degree(lat, shell[s], i) != row[k].near[s][i % row[k].sub])
                    fail_msg("%s: site %d has %d neighbours of class %s, expected %d", row[k].spec, i,
                             degree(lat, shell[s], i), shell[s], row[k].near[s][i % row[k].sub]);
        join(lat, "nn", NULL);
        const int found = rings(lat->nsite, row[k].side);
        if (found != row[k].plaquettes * row[k].cells)
            fail_msg("%s: %d plaquettes of %d sites", row[k].spec, found, row[k].side);
        for (int b = 0; b < lat->nbond; b++) {
            double way[2];
            kl_lattice_step(lat, lat->bond[b].i, lat->bond[b].j, way);
            assert_true(fabs(lat->bond[b].r - hypot(way[0], way[1])) < 1e-9);
            assert_true(fabs(lat->bond[b].r - kl_lattice_distance(lat, lat->bond[b].j, lat->bond[b].i)) <
                        1e-9);
        }
        kl_lattice_destroy(&lat);
    }
    core_no_memory();
}

static void test_classes(void **state)
{
    (void)state;
    kl_lattice *lat = make("kagome:torus:4x4");
    static const char *const nn[] = {"x", "y", "z", "AB", "AC", "BC"};
    for (int k = 0; k < 6; k++) assert_int_equal(count(lat, nn[k]), 32);
    assert_int_equal(count(lat, "nnn_AB"), 32);
    assert_int_equal(count(lat, "d3_line"), 96);
    assert_int_equal(count(lat, "d3_hexagon"), 48);
    assert_string_equal(lat->site_class[4], "B");
    kl_lattice_destroy(&lat);
    lat = make("checkerboard:torus:4x4");
    assert_int_equal(count(lat, "cross"), 32);
    assert_int_equal(count(lat, "empty"), 32);
    join(lat, "nn", "cross");
    int full = 0; /* four sites that are all joined: the crossed plaquettes */
    for (int a = 0; a < 32; a++)
        for (int b = 0; b < a; b++)
            for (int c = 0; c < b; c++)
                for (int d = 0; d < c; d++)
                    full += joined[a][b] && joined[a][c] && joined[a][d] && joined[b][c] && joined[b][d] &&
                            joined[c][d];
    assert_int_equal(full, 16);
    kl_lattice_destroy(&lat);
    core_no_memory();
}

/* A bond of each kind less one for every row or column that an open end cuts; the circumference as named. */
static void test_forms(void **state)
{
    static const struct {
        const char *spec;
        int nsite, nn;
        double around;
    } row[] = {
        {"triangular:4x3", 12, 4 * 2 + 3 * 3 + 3 * 2, 0},
        {"triangular:YC4x5", 20, 5 * 4 + 2 * 4 * 4, 4},
        {"triangular:XC4x5", 20, 4 * 4 + 4 * 9, 2 * 1.7320508075688772},
        {"honeycomb:XC6x4", 24, 33, 3 * 1.7320508075688772},
        {"honeycomb:YC4x3", 12, 16, 3},
        {"kagome:YC6x8", 72, 138, 6},
        {"kagome:XC8x3", 36, 4 * (3 * 6 - 1 - 1), 4 * 1.7320508075688772},
        {"lieb:YC6x4", 36, 45, 6},
        {"checkerboard:YC4x4", 16, 28, 4},
        {"square:YC4x6", 24, 44, 4},
        {"diamond:5", 15, 18, 0},
        {"cylinder:5x-1,4", 20, 0, 0},
    };
    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        kl_lattice *lat = make(row[k].spec);
        if (lat->nsite != row[k].nsite || (row[k].nn > 0 && count(lat, "nn") != row[k].nn))
            fail_msg("%s: %d sites, %d bonds", row[k].spec, lat->nsite, count(lat, "nn"));
        if (row[k].around > 0) assert_true(fabs(lat->cells.period[0][1] - row[k].around) < 1e-12);
        for (int b = 0; b < lat->nbond; b++) assert_true(lat->bond[b].i < lat->bond[b].j);
        kl_lattice_destroy(&lat);
    }
    core_no_memory();
}

/* The tilted words of a plain torus are that torus. */
static void test_same_torus(void **state)
{
    (void)state;
    kl_lattice *a = make("torus:4x3"), *b = make("torus:4,0x0,3"), *c = make("torus:4,3x0,3");
    assert_int_equal(a->nbond, b->nbond);
    assert_int_equal(a->nbond, c->nbond);
    for (int k = 0; k < a->nbond; k++) {
        assert_int_equal(a->bond[k].i, b->bond[k].i);
        assert_int_equal(a->bond[k].j, b->bond[k].j);
        assert_int_equal(a->bond[k].i, c->bond[k].i);
        assert_true(fabs(a->bond[k].r - b->bond[k].r) < 1e-12);
    }
    kl_lattice_destroy(&a);
    kl_lattice_destroy(&b);
    kl_lattice_destroy(&c);
    core_no_memory();
}

/* The momenta of a torus are all different modulo the reciprocal lattice, and plane waves by them fit it. */
static void test_momenta(void **state)
{
    static const char *const spec[] = {"kagome:torus:3x2", "torus:4,2x-2,4", "triangular:torus:2,2x-2,4",
                                       "diamond:ring:5"};
    (void)state;
    for (int k = 0; k < 4; k++) {
        kl_lattice *lat = make(spec[k]);
        double (*q)[2] = NULL;
        int shape[2];
        kl_err err;
        assert_int_equal(kl_lattice_momenta(lat, shape, &q, &err), KL_OK);
        const int n = shape[0] * shape[1], sub = lat->cells.nsub;
        assert_int_equal(n * sub, lat->nsite);
        for (int a = 0; a < n; a++) {
            for (int t = 0; t < lat->cells.nperiod; t++) {
                const double turns =
                    (q[a][0] * lat->cells.period[t][0] + q[a][1] * lat->cells.period[t][1]) / (2 * M_PI);
                assert_true(fabs(turns - round(turns)) < 1e-9);
            }
            for (int b = 0; b < a; b++) { /* orthogonal waves */
                double re = 0, im = 0;
                for (int i = 0; i < lat->nsite; i += sub) {
                    const double phase =
                        (q[a][0] - q[b][0]) * lat->xy[i][0] + (q[a][1] - q[b][1]) * lat->xy[i][1];
                    re += cos(phase);
                    im += sin(phase);
                }
                assert_true(hypot(re, im) < 1e-9);
            }
        }
        kl_free(&q);
        kl_lattice_destroy(&lat);
    }
    core_no_memory();
}

static void test_refusals(void **state)
{
    static const struct {
        const char *spec, *part[3];
    } row[] = {
        {"kagome", {"extent is missing", "kagome:YCnxL"}},
        {"kagome:YC5x4", {"multiples of 2, not 5"}},
        {"kagome:ZC4x4", {"no such form"}},
        {"kagome:4", {"cannot be read", "torus"}},
        {"kagome:2,1x3", {"only a torus"}},
        {"honeycomb:torus:2,1x4,2", {"span no area"}},
        {"diamond:0", {"diamond:ring:N"}},
        {"triangular:0x3", {"at least 1"}},
        {"kagome:4000x4000", {"48000000 sites", "1000000"}},
        {"kagom:4x4", {"did you mean kagome?"}},
        {"torus:1,999999999x2,3", {"cannot be read"}},
    };
    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        kl_lattice *lat = NULL;
        kl_err err = {""};
        core_refused(kl_lattice_create(row[k].spec, 0, 0, &lat, &err), &err, row[k].part);
    }
    core_no_memory();
}

static void test_no_memory(void **state)
{
    kl_lattice *lat = NULL;
    kl_err err;
    (void)state;
    for (int64_t k = 1; k < 400; k++) {
        kl_mem_fail_after(k);
        const kl_status st = kl_lattice_create("kagome:YC4x2", 0, 0, &lat, &err);
        kl_mem_fail_after(0);
        kl_lattice_destroy(&lat);
        core_no_memory();
        if (st == KL_OK) return;
        assert_int_equal(st, KL_ENOMEM);
    }
    fail_msg("the lattice needs more than 400 allocations");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_coordination), cmocka_unit_test(test_classes),
                                       cmocka_unit_test(test_forms),        cmocka_unit_test(test_same_torus),
                                       cmocka_unit_test(test_momenta),      cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
