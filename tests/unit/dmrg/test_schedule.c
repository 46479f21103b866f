/* What the automatic schedule makes of the sweeps so far, from rows written by hand.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/schedule.h"
#include "kl_test.h"
#include <math.h>

enum { MOST = 16 };

/* A run of one state with unit couplings on 20 sites, E near -10, wanted to 1e-8: 1e-7. */
typedef struct scene {
    kl_dmrg_opts opts;
    kl_schedule plan;
    kl_dmrg_result res;
    kl_dmrg_row row[MOST];
} scene;

static void begin(scene *s)
{
    *s = (scene){.opts = {.nstate = 1, .accuracy = 1e-8},
                 .plan = {.unit = {1, 1, 1}, .nsite = 20, .sector = 1e6},
                 .res = {.nstate = 1}};
    s->plan.opts = &s->opts;
    s->res.row = s->row;
}

/* The next row: of that m, energy and discarded weight, and gaps of the guards if there are any. */
static kl_dmrg_row *add(scene *s, int m, int held, double energy, double discarded, double gap1, double gap2)
{
    kl_dmrg_row *const row = &s->row[s->res.nrow];
    *row = (kl_dmrg_row){.m = m,
                         .m_reached = m,
                         .held = held,
                         .discarded = discarded,
                         .residual = 1e-6,
                         .gap = {gap1, gap2},
                         .dim_max = 1000};
    row->noise = s->res.nrow == 0 ? 1e-4 : s->res.nrow == 1 ? 1e-6 : 0;
    row->energy[0] = energy;
    row->change = s->res.nrow ? energy - row[-1].energy[0] : NAN;
    s->res.nrow++;
    return row;
}

/* The first four sweeps, with guards at these gaps. */
static void open_with(scene *s, double gap1, double gap2)
{
    begin(s);
    add(s, 24, 3, -9.9, 1e-4, gap1, gap2);
    add(s, 24, 3, -9.99, 1e-5, gap1, gap2);
    add(s, 32, 3, -9.999, 1e-6, gap1, gap2);
    add(s, 56, 3, -9.99990, 1e-7, gap1, gap2);
}

/* A run that went on from a state in another valley: a line through sweeps before it tells of the way there,
   0.6, and not of truncation. */
static void test_other_valley(void **state)
{
    (void)state;
    for (int left = 0; left < 2; left++) {
        scene s;
        open_with(&s, 0.4, 0.5);
        add(&s, 96, 1, -9.99991, 2e-8, NAN, NAN)->again = left;
        add(&s, 152, 1, -10.6, 1e-8, NAN, NAN);
        add(&s, 152, 1, -10.6, 1e-8, NAN, NAN);
        const kl_outlook now = kl_schedule_outlook(&s.plan, &s.res);
        expect_true(left ? now.truncation < 1e-3 : now.truncation > 1);
    }
}

static void test_guards(void **state)
{
    kl_dmrg_stop stop;
    scene s;
    (void)state;
    begin(&s);
    expect_eq(kl_schedule_stage(&s.plan, &s.res).held, 3);
    expect_eq(kl_schedule_stage(&s.plan, &s.res).m, 24);
    expect_true(kl_schedule_stage(&s.plan, &s.res).noise > 0);
    s.plan.sector = 2; /* no more than there are */
    expect_eq(kl_schedule_stage(&s.plan, &s.res).held, 2);
    open_with(&s, 0.4, 0.5); /* ordinary gaps: the guards have served */
    expect_eq(kl_schedule_stage(&s.plan, &s.res).held, 1);
    expect_eq(kl_schedule_ends(&s.plan, &s.res, &stop), 0);
    open_with(&s, 1e-4, 0.5); /* one that the energy is not known well enough for */
    expect_eq(kl_schedule_stage(&s.plan, &s.res).held, 2);
    open_with(&s, 1e-4, 2e-4);
    expect_eq(kl_schedule_stage(&s.plan, &s.res).held, 3);
    open_with(&s, 1e-9, 0.5); /* closer than the accuracy asks: ignored, and in the bar */
    expect_eq(kl_schedule_stage(&s.plan, &s.res).held, 1);
    open_with(&s, 0.4, 0.5);
    s.row[3].gap[0] = 0.2; /* a gap that falls by half is not known yet */
    expect_eq(kl_schedule_stage(&s.plan, &s.res).held, 2);
    open_with(&s, 1e-4, 0.5);
    s.opts.m_max = 56; /* no more states to come: guards give back what they took, after two sweeps there */
    expect_eq(kl_schedule_stage(&s.plan, &s.res).held, 2);
    add(&s, 56, 2, -9.99991, 1e-7, 1e-4, NAN);
    expect_eq(kl_schedule_stage(&s.plan, &s.res).held, 1);
    expect_eq(kl_schedule_ends(&s.plan, &s.res, &stop), 0);
    add(&s, 56, 1, -9.99999, 1e-8, NAN, NAN);
    add(&s, 56, 1, -9.99999, 1e-8, NAN, NAN);
    expect_eq(kl_schedule_ends(&s.plan, &s.res, &stop), 1);
    expect_eq(stop, KL_STOP_M_MAX);
}

/* Two states of one energy, to the last digit: that is no gap of 0, but a state that may be a mixture. */
static void test_equal(void **state)
{
    scene s;
    (void)state;
    open_with(&s, 0, 0.5);
    add(&s, 96, 1, -10, 1e-12, NAN, NAN);
    add(&s, 152, 1, -10 - 1e-10, 1e-13, NAN, NAN);
    const kl_outlook o = kl_schedule_outlook(&s.plan, &s.res);
    expect_true(o.unresolved > 0 && o.unresolved < 1e-13);
    expect_near(o.gap, 0.5, 1e-15);
    expect_near(o.distance, 1, 0);
    expect_eq(o.wait, KL_WAIT_NOTHING);
}

/* Two wanted states that lie close mix as easily as one with what lies beyond; within the bar they are any
   two of a plane. */
static void test_wanted_close(void **state)
{
    static const double apart[] = {0.2, 1e-6, 1e-13};
    (void)state;
    for (size_t k = 0; k < sizeof apart / sizeof *apart; k++) {
        scene s;
        open_with(&s, 0.4, 0.5);
        s.opts.nstate = s.res.nstate = 2;
        for (int i = 0; i < 4; i++) s.row[i].energy[1] = s.row[i].energy[0] + apart[k];
        s.row[3].noise = s.row[2].noise = 0;
        for (int i = 0; i < 2; i++) s.row[2].energy[i] = s.row[3].energy[i] + 1e-9;
        s.row[3].discarded = 1e-15;
        const kl_outlook o = kl_schedule_outlook(&s.plan, &s.res);
        kl_test_case("two states %g apart", apart[k]);
        expect_true(o.bar > 1e-10 && o.bar < 1e-7 && o.mixed == 0);
        expect_near(o.distance, k == 2 ? 1 : sqrt(o.bar / fmin(0.05, apart[k])), 1e-9);
    }
}

/* A run that ends while guards are still carried tells of them: the next state is theirs, and one within the
   error bar may be part of what is kept. */
static void test_carried_guards(void **state)
{
    static const double gap[] = {0, 1e-10, 5e-6, 0.4};
    (void)state;
    for (size_t k = 0; k < sizeof gap / sizeof *gap; k++) {
        scene s;
        open_with(&s, gap[k], 0.5);
        s.row[3].noise = s.row[2].noise = 0;
        s.row[2].energy[0] = s.row[3].energy[0] + 1e-9;
        s.row[3].discarded = 1e-15;
        const kl_outlook o = kl_schedule_outlook(&s.plan, &s.res);
        const int mixed = gap[k] < 1e-9;
        kl_test_case("a guard %g above", gap[k]);
        expect_true(o.bar > 1e-10 && o.bar < 1e-8);
        expect_eq(o.wait, KL_WAIT_NOTHING);
        expect_eq(o.mixed > 0, mixed);
        expect_near(o.next, mixed ? 0.5 : gap[k], 1e-15);
        if (mixed) expect_near(o.distance, 1, 0);
        else expect_near(o.distance, sqrt(o.bar / fmin(0.05, gap[k])), 1e-12);
    }
}

/* What truncations cost from the middle to the end of a sweep may be lacking at the middle, too. */
static void test_kept_bar(void **state)
{
    scene s;
    (void)state;
    open_with(&s, 0.5, 1);
    add(&s, 96, 1, -10, 1e-16, NAN, NAN)->kept = 3e-8;
    add(&s, 96, 1, -10 - 1e-12, 1e-16, NAN, NAN)->kept = 3e-8;
    const kl_outlook o = kl_schedule_outlook(&s.plan, &s.res);
    expect_true(o.truncation < 1e-8 && o.bar >= 3e-8);
    expect_eq(o.wait, KL_WAIT_NOTHING);
}

static void test_gap(void **state)
{
    scene s;
    (void)state;
    open_with(&s, 1e-3, 0.5);
    add(&s, 96, 1, -10, 1e-12, NAN, NAN)->residual = 1e-5;
    add(&s, 152, 1, -10 - 1e-10, 1e-13, NAN, NAN)->residual = 1e-5;
    kl_outlook o = kl_schedule_outlook(&s.plan, &s.res);
    expect_near(o.wanted, 1e-7, 1e-12);
    expect_near(o.gap, 1e-3, 1e-15);
    expect_near(o.solver, 1e-7, 1e-12); /* residual^2 / gap */
    expect_true(o.truncation < 1e-9);
    expect_true(o.bar >= 1e-7 - 1e-12);
    open_with(&s, 1e-9, 0.5);
    add(&s, 96, 1, -10, 1e-12, NAN, NAN);
    add(&s, 152, 1, -10, 1e-13, NAN, NAN);
    o = kl_schedule_outlook(&s.plan, &s.res);
    expect_near(o.unresolved, 1e-9, 1e-20); /* not told apart, and no divisor of residuals */
    expect_true(o.bar >= 1e-9);
    expect_near(o.gap, 0.5, 1e-15);
    expect_eq(o.wait, KL_WAIT_NOTHING);
    /* the tolerance follows the gap */
    open_with(&s, 1e-4, 0.5);
    s.row[3].change = -1e-9, s.row[3].discarded = 1e-16, s.row[2].discarded = 1e-15,
    s.row[2].energy[0] = s.row[3].energy[0] + 1e-12;
    const kl_stage near = kl_schedule_stage(&s.plan, &s.res);
    open_with(&s, 0.4, 0.5);
    s.row[3].change = -1e-9, s.row[3].discarded = 1e-16, s.row[2].discarded = 1e-15,
    s.row[2].energy[0] = s.row[3].energy[0] + 1e-12;
    const kl_stage far = kl_schedule_stage(&s.plan, &s.res);
    expect_eq(near.held, 1);
    expect_true(near.tol < 0.1 * far.tol && near.max_apply == 6 * far.max_apply);
}

/* What weight left out explains of a change: by a slope that two steps before had alike, and by no other. */
static void test_slope(void **state)
{
    (void)state;
    for (int steady = 0; steady < 2; steady++) {
        scene s;
        begin(&s);
        add(&s, 24, 3, -9.9, 1e-4, 0.4, 0.5);
        add(&s, 24, 3, -9.99, 1e-5, 0.4, 0.5);
        add(&s, 32, 1, -10 + 4e-4, 1e-6, NAN, NAN); /* 400 a weight */
        add(&s, 56, 1, -10 + 4e-5, steady ? 1e-7 : 7e-7, NAN, NAN);
        add(&s, 96, 1, -10 + 4e-6, 1e-8, NAN, NAN);
        add(&s, 152, 1, -10 + 8e-9, 2e-11, NAN, NAN);
        const kl_outlook o = kl_schedule_outlook(&s.plan, &s.res);
        expect_eq(o.wait, steady ? KL_WAIT_NOTHING : KL_WAIT_CHANGE);
        expect_near(o.change, steady ? 0 : 3.992e-6 - 1e-6, 1e-12);
    }
}

/* What is missing decides what the next sweep does. */
static void test_waits(void **state)
{
    kl_dmrg_stop stop;
    scene s;
    (void)state;
    begin(&s);
    add(&s, 24, 3, -9.9, 1e-4, 0.4, 0.5);
    add(&s, 24, 3, -9.99, 1e-5, 0.4, 0.5);
    add(&s, 32, 3, -9.999, 1e-6, 0.4, 0.5);
    expect_eq(kl_schedule_outlook(&s.plan, &s.res).wait, KL_WAIT_SWEEPS); /* noise in the sweep before */
    add(&s, 56, 3, -9.99990, 1e-7, 0.4, 0.5);
    expect_eq(kl_schedule_outlook(&s.plan, &s.res).wait, KL_WAIT_TRUNCATION);
    add(&s, 88, 1, -9.99998, 1e-8, NAN, NAN);
    add(&s, 136, 1, -10.0, 1e-9, NAN, NAN);
    expect_eq(kl_schedule_outlook(&s.plan, &s.res).wait, KL_WAIT_TRUNCATION);
    const kl_stage grown = kl_schedule_stage(&s.plan, &s.res);
    expect_true(grown.m > 136 && grown.m <= 1.75 * 136);
    /* next to nothing is discarded, and the energy moves: the same m with more products */
    add(&s, 200, 1, -10.0 - 1e-6, 1e-13, NAN, NAN);
    add(&s, 200, 1, -10.0 - 2e-6, 1e-13, NAN, NAN);
    expect_eq(kl_schedule_outlook(&s.plan, &s.res).wait, KL_WAIT_CHANGE);
    const kl_stage again = kl_schedule_stage(&s.plan, &s.res);
    expect_eq(again.m, 200);
    expect_true(again.max_apply > grown.max_apply && again.tol_rel < grown.tol_rel);
    /* residuals */
    add(&s, 200, 1, -10.0 - 2e-6, 1e-13, NAN, NAN)->residual = 1e-3;
    expect_eq(kl_schedule_outlook(&s.plan, &s.res).wait, KL_WAIT_SOLVER);
    expect_true(kl_schedule_outlook(&s.plan, &s.res).bar >= 1e-6 / 0.05);
    expect_eq(kl_schedule_ends(&s.plan, &s.res, &stop), 0);
    /* the state kept */
    kl_dmrg_row *const last = add(&s, 200, 1, -10.0 - 2e-6, 1e-13, NAN, NAN);
    last->kept = 1e-5;
    expect_eq(kl_schedule_outlook(&s.plan, &s.res).wait, KL_WAIT_KEPT);
    expect_eq(kl_schedule_ends(&s.plan, &s.res, &stop), 0);
    last->kept = 1e-9;
    expect_eq(kl_schedule_outlook(&s.plan, &s.res).wait, KL_WAIT_NOTHING);
    expect_eq(kl_schedule_ends(&s.plan, &s.res, &stop), 1);
    expect_eq(stop, KL_STOP_CONVERGED);
    expect_eq(kl_schedule_unguarded(&s.plan, &s.res), 0);
}

/* Where nothing is waited for the whole bar is within the accuracy, with states that are not told apart. */
static void test_whole_bar(void **state)
{
    scene s;
    int ended = 0, close = 0;
    (void)state;
    for (double gap = 1e-9; gap < 1e-7; gap *= 1.3)
        for (double left = 1e-11; left < 1e-8; left *= 1.4) {
            open_with(&s, gap, 0.5);
            add(&s, 96, 1, -9.9999999, left, NAN, NAN);
            add(&s, 96, 1, -9.9999999 - left, left, NAN, NAN);
            const kl_outlook o = kl_schedule_outlook(&s.plan, &s.res);
            kl_test_case("gap %g, discarded %g", gap, left);
            if (o.wait != KL_WAIT_NOTHING) continue;
            expect_true(o.bar <= o.wanted * (1 + 1e-12));
            ended++;
            close += o.unresolved > 0 && o.bar > 0.8 * o.wanted;
        }
    expect_true(ended > 30 && close > 0);
}

/* Sweeps that carried unlike numbers of states make no line, and two energies equal to rounding none that is
   flat. */
static void test_lines(void **state)
{
    scene s;
    (void)state;
    open_with(&s, 0.4, 0.5);
    add(&s, 96, 1, -9.999901, 1e-8, NAN, NAN);
    kl_outlook o = kl_schedule_outlook(&s.plan, &s.res);
    expect_near(o.truncation, 1e-6 + 8 * 20 * 1e-8, 1e-9); /* 8 for each of 20 sites */
    s.plan.nsite = 4;
    o = kl_schedule_outlook(&s.plan, &s.res);
    expect_near(o.truncation, 1e-6 + 100 * 1e-8, 1e-9);
    begin(&s);
    for (int k = 0; k < 4; k++) add(&s, 24 + 8 * k, 1, -10, 1e-3, NAN, NAN);
    add(&s, 96, 1, -10 - 1e-15, 1e-6, NAN, NAN);
    o = kl_schedule_outlook(&s.plan, &s.res);
    expect_true(o.truncation >= 0.05 * 1e-6);
}

/* Sweeps of one site, of m and variance; m may repeat. */
static void add_one_site(scene *s, int m, double energy, double variance)
{
    kl_dmrg_row *const row = add(s, m, 1, energy, 1e-5, NAN, NAN);
    row->sites = 1;
    row->variance = variance;
    row->noise = 0;
}

/* Energies and variances of a Hubbard cylinder of 8x4 (it is -23.565 to 5e-3) by sweeps that had not settled:
   a line from the one sweep at m = 1000 has a slope of 1, and left a bar of 0.64. It is believed where that
   sweep was not alone at its m or an earlier line was as steep; else no more is taken than where there is
   none. */
static void test_doubtful_line(void **state)
{
    (void)state;
    for (int settled = 0; settled < 2; settled++)
        for (int steep = 0; steep < 2; steep++) {
            scene s;
            begin(&s);
            for (int k = 0; k < 2; k++) add(&s, 125 << k, 1, -21.3 - k, 1e-3, NAN, NAN);
            if (steep) add_one_site(&s, 500, -23.205380, 0.65);
            if (settled) add_one_site(&s, 1000, -23.34, 0.49);
            add_one_site(&s, 1000, -23.351486, 0.483388);
            add_one_site(&s, 2000, -23.480110, 0.403877);
            add_one_site(&s, 2000, -23.515483, 0.313097);
            const double bar = kl_schedule_outlook(&s.plan, &s.res).truncation, change = 0.035373;
            const double line = 2 * 0.163997 * 0.313097 / (0.483388 - 0.313097);
            kl_test_case("settled %d, steep before %d", settled, steep);
            expect_near(bar, change + (settled || steep ? line : 0.313097), 2e-5);
            expect_true(bar > -23.515483 + 23.57);
        }
}

/* The same cylinder, by a schedule that ends at 512 states: the line in the variance bends later, a bar by
   it alone would be 0.19. */
static void test_early_line(void **state)
{
    (void)state;
    for (int given = 0; given < 2; given++) {
        scene s;
        begin(&s);
        s.opts.nsweep = given ? 6 : 0;
        add(&s, 128, 1, -22.826093, 7.9e-4, NAN, NAN);
        add_one_site(&s, 256, -23.166493, 1.03);
        add_one_site(&s, 512, -23.295436, 0.48);
        add_one_site(&s, 512, -23.304853, 0.41);
        const kl_outlook o = kl_schedule_outlook(&s.plan, &s.res);
        kl_test_case("given %d", given);
        expect_near(o.limit, -23.304853 - 0.0915, 1e-3);
        expect_near(o.truncation, given ? 0.4194 : 0.1925, 1e-3);
        expect_eq(o.truncation > -23.304853 + 23.565, given);
    }
}

/* A probe that saw a state close by: the bar spans it; an automatic run goes on with both. */
static void test_probe(void **state)
{
    kl_dmrg_sweep sweep[3] = {{24, 0, 1e-8}, {32, 0, 1e-8}, {48, 0, 1e-8}};
    kl_dmrg_stop stop;
    scene s;
    (void)state;
    for (int given = 0; given < 2; given++) {
        begin(&s);
        if (given) s.opts.nsweep = 3, s.opts.sweep = sweep;
        else s.plan.m_start = 48;
        for (int k = 0; k < 3; k++) add(&s, given ? sweep[k].m : 48, 1, -10, 1e-13, NAN, NAN)->noise = 0;
        expect_eq(kl_schedule_ends(&s.plan, &s.res, &stop), 1);
        expect_eq(stop, given ? KL_STOP_SCHEDULE : KL_STOP_CONVERGED);
        expect_eq(kl_schedule_unguarded(&s.plan, &s.res), 1);
        s.row[2].gap[0] = 1e-3, s.row[2].gap[1] = 0.4, s.row[2].probed = 1;
        expect_eq(kl_schedule_unguarded(&s.plan, &s.res), 0);
        const kl_outlook o = kl_schedule_outlook(&s.plan, &s.res);
        expect_near(o.unresolved, 1e-3, 1e-18);
        expect_true(o.bar >= 1e-3 && o.wait == KL_WAIT_GUARD);
        expect_eq(kl_schedule_ends(&s.plan, &s.res, &stop), given);
        if (!given) expect_eq(kl_schedule_stage(&s.plan, &s.res).held, 2);
        s.row[2].gap[0] = 0.3; /* and an ordinary gap ends the run */
        expect_eq(kl_schedule_ends(&s.plan, &s.res, &stop), 1);
        expect_near(kl_schedule_outlook(&s.plan, &s.res).gap, 0.3, 1e-15);
    }
}

/* A guard that a sweep loses comes back as a higher state: what was seen before still counts. */
static void test_lost_guard(void **state)
{
    scene s;
    (void)state;
    for (int probed = 0; probed < 2; probed++) {
        open_with(&s, 0.4, 0.5);
        add(&s, 88, 2, -10, 1e-14, 2e-6, probed ? 0.08 : NAN);
        add(&s, 88, 2, -10, 1e-14, 2e-6, probed ? 0.08 : NAN)->probed = probed;
        add(&s, 144, 2, -10 - 1e-9, 1e-14, 0.45, NAN);
        const kl_outlook o = kl_schedule_outlook(&s.plan, &s.res);
        kl_test_case("probed %d", probed);
        expect_near(o.gap, 2e-6, 2e-9);
        expect_near(o.solver, 1e-12 / 2e-6, 1e-9); /* residuals of 1e-6 */
        s.row[6].gap[0] = 1e-6; /* the same one, known better */
        expect_near(kl_schedule_outlook(&s.plan, &s.res).next, 1e-6, 1e-12);
    }
    /* one whose gap falls from sweep to sweep when m ends the run is not known */
    open_with(&s, 0.4, 0.5);
    s.opts.m_max = 56;
    add(&s, 56, 2, -10, 1e-14, 1.6e-5, NAN);
    add(&s, 56, 2, -10, 1e-14, 4.5e-7, NAN);
    add(&s, 56, 1, -10, 1e-14, NAN, NAN);
    add(&s, 56, 1, -10, 1e-14, NAN, NAN)->residual = 1e-8;
    const kl_outlook o = kl_schedule_outlook(&s.plan, &s.res);
    expect_near(o.unresolved, 4.5e-7, 1e-12);
    expect_eq(o.wait, KL_WAIT_GUARD);
}

/* An energy that another sweep found lower exists: two states once reached what the last two lack. */
static void test_seen_lower(void **state)
{
    scene s;
    (void)state;
    open_with(&s, 0.4, 0.5);
    s.opts.m_max = 56;
    add(&s, 56, 1, -10 - 5e-7, 1e-8, NAN, NAN);
    for (int k = 0; k < 2; k++) add(&s, 56, 1, -10, 0, NAN, NAN);
    const kl_outlook o = kl_schedule_outlook(&s.plan, &s.res);
    expect_near(o.truncation, 0, 1e-12);
    expect_near(o.bar, 5e-7, 1e-12);
    expect_eq(o.wait, KL_WAIT_TRUNCATION);
    s.row[4].energy[0] = -10 - 5e-8; /* less than is wanted */
    expect_eq(kl_schedule_outlook(&s.plan, &s.res).wait, KL_WAIT_NOTHING);
}

/* A sector that was solved as a whole: what lies above its energy is the error, whatever m. */
static void test_whole(void **state)
{
    scene s;
    (void)state;
    begin(&s);
    s.plan.whole = 1, s.plan.block = 64, s.plan.sector = 5000;
    expect_eq(kl_schedule_stage(&s.plan, &s.res).m, 64);
    expect_eq(kl_schedule_stage(&s.plan, &s.res).held, 1);
    add(&s, 64, 1, -10, 1e-6, NAN, NAN)->dim_max = 5000;
    add(&s, 64, 1, -10, 1e-6, NAN, NAN)->residual = 1e-3;
    add(&s, 96, 1, -10 + 1e-5, 1e-8, NAN, NAN);
    add(&s, 96, 1, -10 + 1e-5, 1e-8, NAN, NAN);
    const kl_outlook o = kl_schedule_outlook(&s.plan, &s.res);
    expect_near(o.truncation, 1e-5, 1e-12);
    expect_near(o.solver, 1e-6, 1e-15); /* of the sweep that knew it */
    expect_eq(o.wait, KL_WAIT_TRUNCATION);
    expect_true(kl_schedule_stage(&s.plan, &s.res).precise);
    expect_eq(kl_schedule_unguarded(&s.plan, &s.res), 0);
}

/* The kept state is as far off as its energy and rounding let it be, though a sweep knew the exact energy. */
static void test_distance(void **state)
{
    static const double above[] = {1e-5, 0};
    (void)state;
    for (size_t k = 0; k < sizeof above / sizeof *above; k++)
        for (int last = 0; last < 2; last++) {
            scene s;
            begin(&s);
            s.plan.whole = 1, s.plan.block = 64, s.plan.sector = 5000;
            for (int i = 0; i < 4; i++) {
                kl_dmrg_row *const row = add(&s, 8, 1, i < 2 ? -10 : -10 + above[k], 0, NAN, NAN);
                row->dim_max = i < 2 || last ? 5000 : 1000;
                row->residual = 0;
            }
            const double told = kl_schedule_outlook(&s.plan, &s.res).distance;
            kl_test_case("%g above the exact energy, the last sweep %s", above[k],
                         last ? "whole" : "not whole");
            if (last) expect_near(told, 0, 0);
            else if (k == 0) expect_near(told, sqrt(1e-5 / 0.05), 1e-9);
            else expect_true(told > 1e-8 && told < 1e-6);
        }
}

/* Where the energy is exact the state may lack the square of twenty times the accuracy. */
static void test_whole_state(void **state)
{
    static const double lacks[] = {1e-6, 1e-12, 5e-14, 3e-14, 0};
    (void)state;
    for (size_t k = 0; k < sizeof lacks / sizeof *lacks; k++) {
        kl_dmrg_stop stop = KL_STOP_M_MAX;
        scene s;
        begin(&s);
        s.plan.whole = 1, s.plan.block = 64, s.plan.sector = 5000;
        for (int i = 0; i < 4; i++) {
            kl_dmrg_row *const row = add(&s, 64 + 8 * i, 1, -10, i < 3 ? 1e-5 : lacks[k], NAN, NAN);
            row->dim_max = 5000;
            row->residual = 1e-9;
        }
        kl_test_case("%g left out", lacks[k]);
        expect_eq(kl_schedule_ends(&s.plan, &s.res, &stop), lacks[k] < 4e-14);
        expect_eq(kl_schedule_outlook(&s.plan, &s.res).wait,
                  lacks[k] < 4e-14 ? KL_WAIT_NOTHING : KL_WAIT_KEPT);
        if (lacks[k] < 4e-14) expect_eq(stop, KL_STOP_CONVERGED);
        else expect_true(kl_schedule_stage(&s.plan, &s.res).m > 88);
        expect_true(kl_schedule_stage(&s.plan, &s.res).tol <= 1e-7);
    }
}

/* A schedule's sweeps have two sites while there is noise, but for those of many states behind the first
   where sites have two states. */
static void test_sites(void **state)
{
    kl_dmrg_sweep sweep[] = {{.m = 1200, .noise = 1e-4},
                             {.m = 399, .noise = 1e-5},
                             {.m = 400, .noise = 1e-5},
                             {.m = 1000, .noise = 1e-6},
                             {.m = 1200, .noise = 0}};
    static const struct {
        kl_sites asked;
        int most, noisy, last; /* sites of sweeps three and four, and of the last */
    } cases[] = {{KL_SITES_AUTO, 2, 1, 1},
                 {KL_SITES_ONE, 2, 1, 1},
                 {KL_SITES_TWO, 2, 2, 2},
                 {KL_SITES_AUTO, 4, 2, 1},
                 {KL_SITES_AUTO, 1, 2, 1}};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        scene s;
        begin(&s);
        s.opts.nsweep = 5;
        s.opts.sweep = sweep;
        s.opts.sites = cases[c].asked;
        s.plan.site_most = cases[c].most;
        for (int k = 0; k < 5; k++) {
            const kl_stage next = kl_schedule_stage(&s.plan, &s.res);
            kl_test_case("case %d, sweep %d", (int)c, k + 1);
            expect_eq(next.m, sweep[k].m);
            expect_true(next.noise == sweep[k].noise);
            expect_eq(next.sites, k < 2 ? 2 : k < 4 ? cases[c].noisy : cases[c].last);
            add(&s, next.m, 1, -10, 1e-5, NAN, NAN)->noise = next.noise;
        }
    }
}

/* Where values are measured, sweeps for the state follow when the energy waits for nothing: two at least,
   four at most, of two sites and of next to all the states that have weight. */
static void test_closing(void **state)
{
    (void)state;
    for (int good = 0; good < 2; good++) {
        kl_dmrg_stop stop = KL_STOP_M_MAX;
        scene s;
        open_with(&s, 0.4, 0.5);
        s.plan.block = 512;
        for (int k = 0; k < 4; k++) s.row[k].wait = KL_WAIT_TRUNCATION;
        add(&s, 96, 1, -10, 1e-12, NAN, NAN)->wait = KL_WAIT_TRUNCATION;
        add(&s, 152, 1, -10 - 1e-10, 1e-13, NAN, NAN)->wait = KL_WAIT_NOTHING;
        kl_test_case("a state that is %s after two", good ? "good" : "not good");
        expect_eq(kl_schedule_ends(&s.plan, &s.res, &stop), 1);
        s.opts.measured = 1;
        const double before = kl_schedule_outlook(&s.plan, &s.res).distance;
        for (int k = 0; k < 4 - 2 * good; k++) {
            expect_eq(kl_schedule_ends(&s.plan, &s.res, &stop), 0);
            const kl_stage next = kl_schedule_stage(&s.plan, &s.res);
            expect_eq(next.m, 2048);
            expect_eq(next.sites, 2);
            expect_eq(next.held, 1);
            expect_true(next.precise && next.noise == 0 && next.discard > 0 && next.discard < 4e-14);
            expect_near(next.tol, 0.1 * 2e-7 * 0.05, 1e-20); /* of twenty times the accuracy, and the gap */
            kl_dmrg_row *const row = add(&s, next.m, 1, -10 - 1e-10, good ? 1e-15 : 1e-13, NAN, NAN);
            row->residual = 1e-9;
            row->sites = 2;
        }
        expect_eq(kl_schedule_ends(&s.plan, &s.res, &stop), 1);
        expect_eq(stop, KL_STOP_CONVERGED);
        const kl_outlook o = kl_schedule_outlook(&s.plan, &s.res);
        if (good) expect_near(o.distance, sqrt(20 * 1e-15) + 1e-9 / 0.05, 1e-12);
        else expect_true(o.distance > 1e-6);
        expect_true(o.distance < before && o.bar >= 1e-13);
        s.opts.max_sweep = 6; /* and not more than were allowed */
        s.res.nrow = 6;
        expect_eq(kl_schedule_ends(&s.plan, &s.res, &stop), 1);
        s.opts.max_sweep = 0;
        s.plan.sector = 2 * KL_CLOSED_MOST;
        expect_eq(kl_schedule_ends(&s.plan, &s.res, &stop), 1);
        /* a larger sector for 1e-10 alone, where it does not take too many states: weights fall as the sixth
           power of m, then as the first */
        s.res.nrow = 4;
        s.opts.accuracy = 1e-10;
        add(&s, 152, 1, -10, 1e-13, NAN, NAN)->wait = KL_WAIT_TRUNCATION;
        add(&s, 304, 1, -10 - 1e-13, 1e-13 / (good ? 64 : 2), NAN, NAN)->wait = KL_WAIT_NOTHING;
        expect_eq(kl_schedule_ends(&s.plan, &s.res, &stop), !good);
    }
}

/* A schedule without noise tells no bar of a molecule that began from a determinant. */
static void test_many_sectors(void **state)
{
    scene s;
    (void)state;
    for (int many = 0; many < 2; many++)
        for (int noise = 0; noise < 2; noise++)
            for (int saved = 0; saved < 2; saved++) {
                open_with(&s, 0.4, 0.5);
                s.opts.many_sectors = many;
                s.plan.m_start = saved ? 24 : 0;
                for (int k = 0; k < s.res.nrow; k++) s.row[k].noise = noise && k == 0 ? 1e-4 : 0;
                expect_eq(isfinite(kl_schedule_outlook(&s.plan, &s.res).bar), !many || noise || saved);
                s.plan.whole = 1; /* a sector that was solved as a whole has them all */
                s.row[3].dim_max = (int64_t)s.plan.sector;
                expect_true(isfinite(kl_schedule_outlook(&s.plan, &s.res).bar));
            }
}

/* A schedule whose last m has one sweep: of a molecule, its weight alone tells at least twice what a settled
   one does, whatever the line is. */
static void test_lone_sweep(void **state)
{
    scene s;
    (void)state;
    for (int many = 0; many < 2; many++)
        for (int given = 0; given < 2; given++) {
            kl_dmrg_sweep sweep[4] = {{0}};
            begin(&s);
            s.opts.many_sectors = many;
            s.opts.nsweep = given ? 4 : 0;
            s.opts.sweep = sweep;
            add(&s, 50, 1, -9.990, 1e-4, NAN, NAN);
            add(&s, 50, 1, -9.991, 1e-4, NAN, NAN);
            add(&s, 50, 1, -9.991, 1e-4, NAN, NAN);
            add(&s, 100, 1, -9.992, 1e-5, NAN, NAN);
            const kl_outlook o = kl_schedule_outlook(&s.plan, &s.res);
            kl_test_case("many %d given %d", many, given);
            expect_true(many && given ? o.bar >= 2 * 160 * 1e-5 : o.bar < 160 * 1e-5);
            expect_true((s.row[3].energy[0] - o.limit) * 2 <= o.bar + 1e-12);
        }
}

/* The next row of what the schedule asks for. */
static kl_dmrg_row *follow(scene *s, double energy, double discarded)
{
    const kl_stage next = kl_schedule_stage(&s->plan, &s->res);
    kl_dmrg_row *const row = add(s, next.m, next.held, energy, discarded, NAN, NAN);
    row->noise = next.noise;
    return row;
}

/* Guards took states from many small sectors: where m cannot grow, noise opens these when guards are let go;
   and once more where a state leaves room and nothing says that it holds all. */
static void test_lost_sectors(void **state)
{
    scene s;
    kl_dmrg_stop stop;
    (void)state;
    for (int many = 0; many < 2; many++)
        for (int cap = 0; cap < 2; cap++) {
            open_with(&s, 0.4, 0.5);
            s.opts.many_sectors = many;
            s.opts.m_max = cap ? 56 : 0;
            expect_eq(kl_schedule_stage(&s.plan, &s.res).held, 1);
            const kl_dmrg_row *row = follow(&s, -9.9999, 1e-7);
            expect_near(row->noise, many && cap ? 1e-4 : 0, 0);
            if (many && cap) expect_eq(row->m, 56);
            row = follow(&s, -9.99991, 1e-7);
            expect_near(row->noise, many && cap ? 1e-5 : 0, 0);
            row = follow(&s, -9.99991, 1e-7);
            expect_near(row->noise, 0, 0);
            follow(&s, -9.99991, 1e-7);
            follow(&s, -9.99991, 0)->m_reached = 40;
            s.res.row[s.res.nrow - 1].noise = 0;
            expect_eq(kl_schedule_outlook(&s.plan, &s.res).bar < INFINITY, 1);
            if (!(many && cap)) continue;
            s.row[4].m_reached = s.row[5].m_reached = 30; /* what noise kept were fewer */
            expect_true(!(kl_schedule_outlook(&s.plan, &s.res).bar < INFINITY));
            expect_eq(kl_schedule_ends(&s.plan, &s.res, &stop), 0);
            expect_near(follow(&s, -9.99991, 1e-7)->noise, 1e-5, 0);
            expect_near(follow(&s, -9.99991, 1e-7)->noise, 0, 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guards),         cmocka_unit_test(test_equal),
        cmocka_unit_test(test_carried_guards), cmocka_unit_test(test_gap),
        cmocka_unit_test(test_slope),          cmocka_unit_test(test_waits),
        cmocka_unit_test(test_whole_bar),      cmocka_unit_test(test_lines),
        cmocka_unit_test(test_doubtful_line),  cmocka_unit_test(test_early_line),
        cmocka_unit_test(test_probe),          cmocka_unit_test(test_whole),
        cmocka_unit_test(test_distance),       cmocka_unit_test(test_wanted_close),
        cmocka_unit_test(test_whole_state),    cmocka_unit_test(test_sites),
        cmocka_unit_test(test_closing),        cmocka_unit_test(test_many_sectors),
        cmocka_unit_test(test_lone_sweep),     cmocka_unit_test(test_other_valley),
        cmocka_unit_test(test_lost_sectors),   cmocka_unit_test(test_kept_bar),
        cmocka_unit_test(test_lost_guard),     cmocka_unit_test(test_seen_lower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
