/* The search for products of site states with a low energy, and runs that begin again with them: against all
   products of the sector, counted with the oracle's H, and with every allocation failing in turn; the search
   for another valley likewise.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/dense.h"
#include "core.h"
#include "dmrg/products.h"
#include "dmrg/valleys.h"
#include "kl_test.h"

enum { MOST = 5 /* products asked for */ };

static kl_engine *engine_of(const core_job *j, kl_qn target)
{
    kl_err err = {""};
    kl_engine *e = NULL;
    const kl_engine_opts o = {.target = target, .nstate = 1, .max_basis = 20, .seed = 1};
    expect_ok(kl_engine_create(j->terms, j->ex, &o, &e, &err), err);
    return e;
}

static int rising(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Diagonal elements of the sector, by the oracle; to be freed. */
static double *diagonal_of(const oracle_sector *s)
{
    double *const d = calloc((size_t)s->dim + 1, sizeof *d);
    for (int64_t i = 0; i < s->nelem; i++)
        if (s->row[i] == s->col[i]) d[s->row[i]] += s->value[i];
    return d;
}

/* Every product found is one of the sector, with its energy, no two are the same, and where parts of few
   sites are few enough for the search to keep all, they are the lowest there are. */
static void check_sector(const core_job *j, const oracle *o, kl_qn target)
{
    kl_err err = {""};
    kl_products found;
    kl_engine *e = engine_of(j, target);
    const core_integers charge = core_of(target);
    oracle_sector *s = oracle_sector_create(o, charge.charge);
    double *const diagonal = diagonal_of(s), *const sorted = diagonal_of(s);
    qsort(sorted, (size_t)s->dim, sizeof *sorted, rising);
    expect_ok(kl_products_find(e, MOST, &found, &err), err);
    expect_eq(found.n, s->dim < MOST ? s->dim : MOST);
    const double scale = 1e-12 * (1 + fabs(sorted[0]) + fabs(sorted[s->dim - 1]));
    for (int k = 0; k < found.n; k++) {
        const int *const state = found.state + (int64_t)k * o->n;
        int64_t at = 0, row = 0;
        for (int p = 0; p < o->n; p++) at += state[p] * o->stride[p];
        while (row < s->dim && s->state[row] != at) row++;
        expect_true(row < s->dim);
        if (row == s->dim) break;
        expect_near(found.energy[k] + j->terms->constant, diagonal[row], scale);
        expect_true(k == 0 || found.energy[k] >= found.energy[k - 1]);
        for (int i = 0; i < k; i++)
            expect_true(memcmp(state, found.state + (int64_t)i * o->n, sizeof *state * (size_t)o->n) != 0);
        expect_true(diagonal[row] >= sorted[k] - scale);
        if (s->dim <= 8) expect_near(diagonal[row], sorted[k], scale);
    }
    kl_products_clear(&found);
    free(diagonal);
    free(sorted);
    oracle_sector_destroy(&s);
    kl_engine_destroy(&e);
}

static void check_job(const core_job *j, uint64_t seed)
{
    int n;
    kl_qn *const sector = core_sectors(j, 5, &n);
    oracle *o = oracle_create(j->model, j->lat, j->par);
    for (int k = 0; k < n; k++) {
        kl_test_case("%s, sector %d of %d, seed %llu", j->name, k, n, (unsigned long long)seed);
        check_sector(j, o, sector[k]);
    }
    oracle_destroy(&o);
    kl_free(&sector);
}

static void test_against_all(void **state)
{
    static const char *const lattices[] = {"chain:5", "ring:4", "ladder:2x2", "chain:3", NULL};
    const kl_model *plain[64];
    int n = 0;
    (void)state;
    for (int i = 0; i < core_nmodel; i++)
        if (kl_model_spin(core_models[i]) < 0 && n < 64) plain[n++] = core_models[i];
    core_every_lattice(plain, n, lattices, 4096, CORE_ONE_ORDER, check_job);
    core_no_memory();
}

/* The energies of known states: walls of a ferromagnet, order of an antiferromagnet, pairs far apart. */
static void test_known(void **state)
{
    static const struct {
        const char *model, *lattice, *sets, *charge;
        double energy;
        int ground; /* products as low as that */
    } list[] = {
        {"heisenberg", "chain:40", "J=-1 Delta=2", "Sz=0", -39 * 0.5 + 1, 2},
        {"heisenberg", "chain:40", "J=-1 Delta=2", "Sz=7", -39 * 0.5 + 1, 2},
        {"heisenberg", "chain:40", "J=1", "Sz=0", -39 * 0.25, 2},
        {"heisenberg", "ladder:12x2", "J=1", "Sz=0", -34 * 0.25, 2},
        {"heisenberg", "chain:9", "J=1 h=0,0,0,0,5,0,0,0,0", "Sz=1/2", -8 * 0.25 - 2.5, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        kl_err err = {""};
        kl_products found;
        core_job j;
        core_open(&j, core_model(list[i].model, NULL), list[i].lattice, NULL, list[i].sets);
        kl_engine *e = engine_of(&j, core_charge(j.model, list[i].charge));
        expect_ok(kl_products_find(e, MOST, &found, &err), err);
        kl_test_case("%s %s", j.name, list[i].sets);
        for (int k = 0; k < found.n && k <= list[i].ground; k++)
            expect_true(k < list[i].ground ? fabs(found.energy[k] - list[i].energy) < 1e-12
                                           : found.energy[k] > list[i].energy + 1e-3);
        expect_true(found.n > list[i].ground);
        kl_products_clear(&found);
        kl_engine_destroy(&e);
        core_close(&j);
    }
    core_no_memory();
}

static void count(void *self) { ++*(int *)self; }

/* Every allocation fails in turn, of the search alone and of a run that gives its start up: an error each
   time, nothing left behind. */
static void test_run_out(void **state)
{
    static const int trap[] = {0, 0, 0, 1, 1, 1, 1, 1, 0, 0};
    kl_err err = {""};
    (void)state;
    core_job j;
    core_open(&j, core_model("heisenberg", "S=1/2"), "chain:10", NULL, "J=-1 Delta=9");
    kl_engine *e = engine_of(&j, kl_qn_zero());
    kl_status st = KL_ENOMEM;
    int64_t k = 1;
    for (; st != KL_OK && k < 1000; k++) {
        kl_products found;
        kl_mem_fail_after(k);
        st = kl_products_find(e, MOST, &found, &err);
        kl_mem_fail_after(0);
        kl_test_case("search, allocation %lld", (long long)k);
        expect_true(st == KL_OK || (st == KL_ENOMEM && found.n == 0 && found.state == NULL));
        kl_products_clear(&found);
    }
    expect_true(k > 20 && k < 1000);
    kl_engine_destroy(&e);
    int given_up = 0;
    const kl_dmrg_monitor mon = {.self = &given_up, .given_up = count};
    st = KL_ENOMEM;
    const int step = kl_test_stride(6, 6);
    for (k = 1; st != KL_OK; k += k % 100 < 50 ? step : 2 * step) {
        core_run r = core_exact(4, kl_qn_zero(), 1, KL_STRATEGY_AUTO);
        r.opts.nsweep = 2;
        for (int i = 0; i < 2; i++) r.opts.sweep[i].noise = 0;
        r.opts.max_apply = 4;
        r.opts.start = trap;
        given_up = 0;
        kl_dense_release();
        err.text[0] = 0;
        kl_mem_fail_after(k);
        st = kl_dmrg_run(j.terms, j.ex, &r.opts, &mon, &r.state, &r.res, &err);
        kl_mem_fail_after(0);
        kl_test_case("run, allocation %lld", (long long)k);
        expect_true(st == KL_OK || (st == KL_ENOMEM && err.text[0]));
        core_drop(&r);
        kl_dense_release();
    }
    expect_eq(given_up, 1);
    core_close(&j);
    core_no_memory();
}

/* Singlets on four rungs, 0.04 below a chain of spins 1, whose energy is -4.6457513110646: told apart by a
   run of its own; given up where singlets are said to lie higher; and every allocation fails in turn. */
static void test_valley(void **state)
{
    kl_err err = {""};
    const double crossing = 4.6457513110646 / 4;
    (void)state;
    core_job j;
    core_open(&j, core_model("coupled_chains", NULL), "ladder:4x2", NULL, "Jx=1 Jr=1.1714378277662");
    core_run r = core_auto(1e-8, kl_qn_zero(), 1, KL_STRATEGY_AUTO);
    core_go(&j, &r);
    expect_near(r.res.energy[0], -3 * (crossing + 0.01), 1e-8);
    const kl_engine_opts same = {.target = kl_qn_zero(), .nstate = 1, .max_basis = 20, .seed = 1};
    for (int high = 0; high < 2; high++) {
        const kl_valley_here here = {
            .state = r.state, .energy = r.res.energy[0] + high, .bar = 1e-8, .flop = 1e12};
        kl_status st = KL_ENOMEM;
        int64_t k = 1;
        for (; st != KL_OK; k += 1 + k / 6) {
            kl_valley lower;
            kl_valley_settled settled = {0};
            kl_dense_release();
            kl_mem_fail_after(k);
            st = kl_valleys_compare(j.terms, j.ex, &same, &r.opts, NULL, &here, &lower, &settled, &err);
            kl_mem_fail_after(0);
            kl_test_case("valley, allocation %lld", (long long)k);
            expect_true(st == KL_OK || (st == KL_ENOMEM && lower.state == NULL));
            if (st != KL_OK) continue;
            expect_true(settled.rival == 0 && (lower.state != NULL) == high);
            if (high) expect_true(lower.energy < here.energy - 0.9);
            kl_state_destroy(&lower.state);
            kl_dense_release();
        }
        expect_true(k > 1000);
    }
    core_drop(&r);
    core_close(&j);
    core_no_memory();
}

/* Trials with moves are for H with strings alone: a chain of electrons has none, and its one trial weakens
   the larger part; two chains that nothing joins have four, and one that begins with
   the charges that the energies of the parts ask for. */
static void test_trials(void **state)
{
    static const struct {
        const char *model, *lattice, *values;
        int n;
    } list[] = {{"hubbard", "chain:6", "U=4", 1}, {"coupled_chains", "ladder:4x2", "Jr=0", 5}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        kl_err err = {""};
        kl_valley lower;
        kl_valley_settled settled = {0};
        core_job j;
        core_open(&j, core_model(list[i].model, NULL), list[i].lattice, NULL, list[i].values);
        kl_test_case("%s", j.name);
        const kl_qn half = i == 0 ? core_charge(j.terms->model, "N_up=3 N_dn=3") : kl_qn_zero();
        core_run r = core_auto(1e-8, half, 1, KL_STRATEGY_AUTO);
        core_go(&j, &r);
        const kl_engine_opts same = {.target = half, .nstate = 1, .max_basis = 20, .seed = 1};
        const kl_valley_here here = {
            .state = r.state, .energy = r.res.energy[0], .bar = 1e-8, .flop = r.res.flop};
        expect_ok(kl_valleys_compare(j.terms, j.ex, &same, &r.opts, NULL, &here, &lower, &settled, &err),
                  err);
        expect_eq(settled.ntrial, list[i].n);
        kl_state_destroy(&lower.state);
        core_drop(&r);
        core_close(&j);
    }
    core_no_memory();
}

/* A schedule whose only noise is in its first sweep, so short that a product of site states lies below what
   that finds: a wall of doubly occupied sites or singly occupied ones of no energy, which H alone does not
   leave. ed: -8.8389633225. */
static void test_short_schedule(void **state)
{
    (void)state;
    kl_dmrg_sweep sweep[] = {{20, 1e-4, 1e-3}, {60, 0, 1e-3}, {60, 0, 1e-3}, {60, 0, 1e-3}};
    core_job j;
    core_open(&j, core_model("hubbard", NULL), "cylinder:4x3", NULL, "U=4");
    core_run r = {.opts = {.nstate = 1, .nsweep = 4, .sweep = sweep, .seed = 1, .max_apply = 2}};
    r.opts.target = core_charge(j.model, "N_up=6 N_dn=6");
    core_go(&j, &r);
    const kl_dmrg_row *const row = r.res.row;
    expect_true(row[0].again && !row[1].again && row[1].noise > 0 && row[2].noise == 0);
    kl_test_case("%.12g +- %g", r.res.energy[0], r.res.error_estimate);
    expect_true(row[0].energy[0] > 0 && r.res.energy[0] < -7);
    r.opts.sweep = NULL; /* not from the heap */
    core_drop(&r);
    core_close(&j);
    core_no_memory();
}

/* Charges at every cut are shared by engines of one sector alone, and stay for who is left. */
static void test_reaches(void **state)
{
    (void)state;
    core_job j;
    kl_err err = {""};
    kl_reaches *a = NULL, *b = NULL, *c = NULL;
    core_open(&j, core_model("hubbard", "F=1/2"), "chain:6", NULL, NULL);
    const kl_qn target = core_charge(j.model, "N_up=3 N_dn=2");
    expect_ok(kl_reaches_take(j.terms, target, NULL, &a, &err), err);
    expect_ok(kl_reaches_take(j.terms, target, a, &b, &err), err);
    expect_ok(kl_reaches_take(j.terms, core_charge(j.model, "N_up=3 N_dn=3"), a, &c, &err), err);
    expect_true(a == b && c != a);
    kl_reaches_leave(&a);
    expect_true(a == NULL && b->left[3].n == 16 && b->right[6].n == 1);
    expect_true(kl_reach_find(&b->left[6], target) >= 0);
    kl_reaches_leave(&b);
    kl_reaches_leave(&c);
    core_close(&j);
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_all),    cmocka_unit_test(test_known),  cmocka_unit_test(test_reaches),
        cmocka_unit_test(test_run_out),        cmocka_unit_test(test_valley), cmocka_unit_test(test_trials),
        cmocka_unit_test(test_short_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
