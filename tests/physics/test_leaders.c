/* The determinants that runs of molecules begin with: of the right electrons and irrep, each once, by falling
   weight; their energy bounds the exact one from above, closely; descents leave closed shells where electrons
   repel each other on every site; the same in every run.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci_kit.h"

#include <math.h>
#include <string.h>

#include "ci/leaders.h"
#include "ci/slater.h"

static int irrep_of(const kl_fcidump *f, const uint64_t det[2])
{
    int g = 0;
    for (int spin = 0; spin < 2; spin++)
        for (int p = 0; p < f->norb; p++)
            if (det[spin] >> p & 1) g ^= f->irrep[p];
    return g;
}

static double energy_of(const kl_fcidump *f, const uint64_t d[2])
{
    return kl_slater_element(f, d[0], d[1], d[0], d[1]);
}

/* What holds of any: electrons, irrep, order, no two alike; the lowest state of the irrep lies below. */
static void check(const kl_fcidump *f, const kl_leaders_ask *ask, const kl_leaders *l)
{
    const int up = __builtin_popcountll(ask->first[0]), dn = __builtin_popcountll(ask->first[1]);
    expect_true(l->n > 0 && l->n <= ask->most);
    for (int k = 0; k < l->n; k++) {
        expect_eq(__builtin_popcountll(l->det[k][0]), up);
        expect_eq(__builtin_popcountll(l->det[k][1]), dn);
        expect_eq(irrep_of(f, l->det[k]), ask->irrep);
        expect_true(k == 0 || l->weight[k] <= l->weight[k - 1]);
        expect_true(energy_of(f, l->det[k]) >= l->energy - 1e-9);
        for (int i = 0; i < k; i++) expect_true(memcmp(l->det[i], l->det[k], sizeof *l->det) != 0);
    }
}

static void test_energies(void **state)
{
    (void)state;
    kl_err err;
    static const struct {
        const char *file;
        uint64_t first[2];
        int irrep;
        double least, within; /* the exact energy of this irrep; what a few hundred determinants leave */
    } of[] = {{"lih-sto3g.fcidump", {3, 3}, 0, -7.882403410335505, 1e-5},
              {"n2-sto3g.fcidump", {0x7f, 0x7f}, 0, -107.65282873057855, 3e-2},
              {"h10-chain-sto6g.fcidump", {0x1f, 0x1f}, 0, -5.424385376333, 8e-2}};
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        kl_leaders a, b;
        kl_fcidump *f = load(of[k].file);
        const kl_leaders_ask ask = {
            .first = {of[k].first[0], of[k].first[1]}, .irrep = of[k].irrep, .nstate = 1, .most = 64};
        kl_test_case("%s", of[k].file);
        expect_ok(kl_leaders_find(f, &ask, &a, &err), err);
        check(f, &ask, &a);
        expect_true(a.energy >= of[k].least - 1e-9 && a.energy <= of[k].least + of[k].within);
        expect_ok(kl_leaders_find(f, &ask, &b, &err), err);
        expect_eq(a.n, b.n);
        expect_true(memcmp(a.det, b.det, sizeof *a.det * (size_t)a.n) == 0 && a.energy == b.energy);
        kl_leaders_clear(&a);
        kl_leaders_clear(&b);
        kl_fcidump_destroy(&f);
    }
}

/* Of a lattice with a repulsion on each site, from doubly occupied sites. */
static void test_descents(void **state)
{
    (void)state;
    kl_err err;
    kl_leaders l;
    kl_fcidump *f = load("hubbard-3x2.fcidump");
    const kl_leaders_ask ask = {.first = {7, 7}, .irrep = 0, .nstate = 1, .most = 40};
    expect_ok(kl_leaders_find(f, &ask, &l, &err), err);
    check(f, &ask, &l);
    expect_eq(l.det[0][0] & l.det[0][1], 0);
    expect_true(energy_of(f, l.det[0]) < energy_of(f, ask.first) - 2.9);
    kl_leaders_clear(&l);
    kl_fcidump_destroy(&f);
}

/* Unrestricted orbitals; another irrep than the first determinant's; several states; none there. */
static void test_cases(void **state)
{
    (void)state;
    kl_err err;
    kl_leaders l;
    kl_fcidump *f = load("oh-uhf-sto3g.fcidump");
    kl_leaders_ask ask = {.first = {0x1f, 0xf}, .nstate = 1, .most = 1000};
    for (ask.irrep = 0; ask.irrep < f->nirrep; ask.irrep++) {
        kl_test_case("irrep %d", ask.irrep);
        expect_ok(kl_leaders_find(f, &ask, &l, &err), err);
        if (l.n > 0) check(f, &ask, &l);
        kl_leaders_clear(&l);
    }
    kl_fcidump_destroy(&f);
    f = load("n2-sto3g.fcidump");
    ask = (kl_leaders_ask){.first = {0x7f, 0x7f}, .irrep = 4, .nstate = 3, .most = 20};
    expect_ok(kl_leaders_find(f, &ask, &l, &err), err);
    check(f, &ask, &l);
    expect_true(l.weight[0] > 0.3 && l.n == 20);
    kl_leaders_clear(&l);
    ask.first[0] = ask.first[1] = 0;
    expect_ok(kl_leaders_find(f, &ask, &l, &err), err);
    expect_eq(l.n, 0);
    kl_fcidump_destroy(&f);
}

static int occupation(const uint64_t det[2], int p)
{
    return (int)(det[0] >> p & 1) + 2 * (int)(det[1] >> p & 1);
}

/* Sum of P log(P / (Pp Pq)) over all determinants, where all are told. */
static double information(const kl_leaders *l, int p, int q)
{
    double both[16] = {0}, one[2][4] = {{0}}, sum = 0;
    for (int k = 0; k < l->n; k++) {
        const int a = occupation(l->det[k], p), b = occupation(l->det[k], q);
        const double x = l->weight[k] * l->weight[k];
        both[4 * a + b] += x;
        one[0][a] += x;
        one[1][b] += x;
    }
    for (int k = 0; k < 16; k++)
        if (both[k] > 0) sum += both[k] * log(both[k] / (one[0][k / 4] * one[1][k % 4]));
    return sum;
}

/* Of LiH, all of whose determinants are told; of N2 pi with pi* and sigma with sigma* know most of each
   other. */
static void test_mutual(void **state)
{
    (void)state;
    kl_err err;
    kl_leaders l;
    kl_fcidump *f = load("lih-sto3g.fcidump");
    const kl_leaders_ask all = {.first = {3, 3}, .nstate = 1, .most = 1000};
    expect_ok(kl_leaders_find(f, &all, &l, &err), err);
    for (int p = 0; p < f->norb; p++)
        for (int q = 0; q < f->norb; q++) {
            kl_test_case("%d %d", p, q);
            expect_near(l.mutual[p * f->norb + q], p == q ? 0 : information(&l, p, q), 1e-9);
        }
    kl_leaders_clear(&l);
    kl_fcidump_destroy(&f);
    f = load("n2-sto3g.fcidump");
    const int n = f->norb;
    const kl_leaders_ask some = {.first = {0x7f, 0x7f}, .nstate = 1, .most = 1};
    expect_ok(kl_leaders_find(f, &some, &l, &err), err);
    for (int p = 2; p < n; p++) {
        int best = p == 0;
        for (int q = 0; q < n; q++) {
            expect_true(l.mutual[p * n + q] == l.mutual[q * n + p]);
            if (l.mutual[p * n + q] > l.mutual[p * n + best]) best = q;
        }
        kl_test_case("orbital %d, which knows most of %d", p, best);
        if (f->irrep[p] % 4 != 0) expect_eq(f->irrep[p] % 4, f->irrep[best] % 4);
    }
    kl_leaders_clear(&l);
    kl_fcidump_destroy(&f);
}

static void test_allocations(void **state)
{
    (void)state;
    kl_err err;
    kl_fcidump *f = load("lih-sto3g.fcidump");
    const kl_leaders_ask ask = {.first = {3, 3}, .nstate = 1, .most = 10};
    for (int64_t k = 1;; k++) {
        kl_leaders l;
        kl_dense_release();
        const int64_t before = kl_mem_live_total();
        kl_mem_fail_after(k);
        const kl_status st = kl_leaders_find(f, &ask, &l, &err);
        kl_mem_fail_after(0);
        if (st == KL_OK) kl_leaders_clear(&l);
        kl_dense_release();
        expect_eq(kl_mem_live_total(), before);
        if (st == KL_OK) break;
        expect_eq(st, KL_ENOMEM);
    }
    kl_fcidump_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_energies), cmocka_unit_test(test_descents),
                                       cmocka_unit_test(test_cases), cmocka_unit_test(test_mutual),
                                       cmocka_unit_test(test_allocations)};
    return cmocka_run_group_tests(tests, open_exec, close_exec);
}
