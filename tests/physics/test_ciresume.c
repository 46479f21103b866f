/* Configuration interaction that is stopped, at any step or where a checkpoint is due, and goes on: to the
   same bits.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci_kit.h"
#include "kl_test.h"
#include "saver.h"

#include "base/mem.h"
#include "ci/ci.h"

static int look(void *self, int irrep, int napply, double energy, double residual)
{
    (void)irrep, (void)napply, (void)energy, (void)residual;
    return saver_stops(self);
}

static int count(void *self, int irrep, int napply, double energy, double residual)
{
    (void)irrep, (void)napply, (void)energy, (void)residual;
    ++*(int *)self;
    return 0;
}

static void expect_same(const kl_ci_result *a, const kl_ci_result *b)
{
    expect_eq(a->nstate, b->nstate);
    expect_eq(a->converged, b->converged);
    for (int k = 0; k < a->nstate; k++) {
        const kl_ci_state *const x = &a->state[k], *const y = &b->state[k];
        expect_true(x->energy == y->energy && x->residual == y->residual);
        expect_eq(memcmp(&x->s2, &y->s2, sizeof x->s2), 0); /* or both NAN */
        expect_true(memcmp(x->leading, y->leading, sizeof(double) * (size_t)x->nleading) == 0);
    }
    for (int g = 0; g < 8; g++) {
        expect_eq(a->block[g].napply, b->block[g].napply);
        expect_true(a->block[g].residual == b->block[g].residual);
    }
}

/* Stopped after `every' looks again and again, or at the `every'-th due checkpoint; until it arrives. */
static int in_legs(const kl_fcidump *f, const kl_ci_opts *o, int every, int by_due, kl_ci_result *r)
{
    kl_err err;
    saver s[2] = {{.ex = ex}, {.ex = ex}};
    int legs = 0;
    for (;; legs++) {
        saver *const now = &s[legs % 2], *const before = &s[(legs + 1) % 2];
        now->looks = by_due ? 0 : every;
        now->countdown = by_due ? every : 0;
        const kl_keeper keeper = {
            .self = now, .due = saver_due, .write = saver_write, .from = legs > 0 ? &before->kept : NULL};
        const kl_ci_monitor m = {.self = now, .step = look, .keeper = &keeper};
        expect_ok(kl_ci_run(f, ex, o, &m, r, &err), err);
        if (!r->stopped) break;
        assert_true(legs < 500 && now->have);
        kl_ci_result_clear(r);
        saver_close(before);
    }
    for (int i = 0; i < 2; i++) saver_close(&s[i]);
    return legs;
}

static void test_same_bits(void **state)
{
    (void)state;
    static const struct {
        const char *file, *space;
        int irrep, nroot, basis;
        kl_solver solver;
    } list[] = {{"n2-sto3g.fcidump", "cisdtq", 0, 2, 6, KL_SOLVER_DAVIDSON},
                {"n2-sto3g.fcidump", "full", -1, 3, 0, KL_SOLVER_DAVIDSON},
                {"oh-uhf-sto3g.fcidump", "cisd", -1, 2, 0, KL_SOLVER_DAVIDSON},
                {"h6-chain-sto6g.fcidump", "full", 0, 3, 9, KL_SOLVER_LANCZOS}};
    for (size_t c = 0; c < sizeof list / sizeof *list; c++) {
        kl_err err;
        kl_fcidump *f = load(list[c].file);
        kl_ci_opts o = ask(list[c].space, list[c].nroot);
        kl_ci_result whole, r;
        int nlook = 0, resumed = 0;
        const kl_ci_monitor counting = {.self = &nlook, .step = count};
        o.irrep = list[c].irrep;
        o.max_basis = list[c].basis;
        o.solver = list[c].solver;
        o.tol = 1e-8;
        o.pspace = 10;
        expect_ok(kl_ci_run(f, ex, &o, &counting, &whole, &err), err);
        for (int every = 1; every < nlook; every += 1 + (KL_TEST_WATCHED ? 2 * every : every / 2)) {
            kl_test_case("%s %s, stopped every %d of %d looks", list[c].file, list[c].space, every, nlook);
            if (every == 1) continue; /* each leg looks at its first step again */
            resumed += in_legs(f, &o, every, 0, &r);
            expect_same(&whole, &r);
            kl_ci_result_clear(&r);
        }
        for (int due = 1; due < 4; due++) {
            kl_test_case("%s %s, checkpoint %d", list[c].file, list[c].space, due);
            resumed += in_legs(f, &o, due, 1, &r);
            expect_same(&whole, &r);
            kl_ci_result_clear(&r);
        }
        expect_true(resumed > 2);
        kl_ci_result_clear(&whole);
        kl_fcidump_destroy(&f);
    }
}

/* What another run kept, and numbers that somebody wrote on purpose. */
static void test_foreign(void **state)
{
    (void)state;
    kl_err err;
    kl_fcidump *f = load("n2-sto3g.fcidump");
    kl_ci_opts o = ask("cisdt", 2);
    kl_ci_result r;
    saver s = {.ex = ex, .looks = 6};
    const kl_keeper keeper = {.self = &s, .due = saver_due, .write = saver_write};
    kl_ci_monitor m = {.self = &s, .step = look, .keeper = &keeper};
    o.irrep = 0;
    o.tol = 1e-9;
    o.pspace = 10;
    expect_ok(kl_ci_run(f, ex, &o, &m, &r, &err), err);
    assert_true(r.stopped && s.have);
    kl_ci_result_clear(&r);
    const kl_keeper again = {.self = &s, .due = saver_due, .write = saver_write, .from = &s.kept};
    m = (kl_ci_monitor){.keeper = &again};
    o.nroot = 7;
    expect_refused(kl_ci_run(f, ex, &o, &m, &r, &err), KL_EINPUT, err, "roots");
    o = ask("cisd", 2);
    o.irrep = 0;
    expect_refused(kl_ci_run(f, ex, &o, &m, &r, &err), KL_EINPUT, err, "this run needs");
    o = ask("cisdt", 2);
    o.irrep = 0;
    o.pspace = 10;
    o.max_apply = 40;
    for (int64_t k = 0; k < s.kept.nnumber && k < 90; k++)
        for (int w = 0; w < 4; w++) {
            static const double wild[] = {-2, 0.5, 3, 1e300};
            const double was = s.number[k];
            kl_test_case("number %d is %g", (int)k, wild[w]);
            s.number[k] = wild[w];
            const kl_status st = kl_ci_run(f, ex, &o, &m, &r, &err);
            expect_true(st == KL_OK || st == KL_EINPUT || st == KL_ENOCONV);
            if (k < 1) expect_eq(st, KL_EINPUT);
            if (st == KL_OK) kl_ci_result_clear(&r);
            s.number[k] = was;
        }
    saver_close(&s);
    kl_fcidump_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits), cmocka_unit_test(test_foreign)};
    return cmocka_run_group_tests(tests, open_exec, close_exec);
}
