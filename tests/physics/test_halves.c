/* Sweeps over one half of a lattice: which H are their own image; that a fold leaves a wavefunction that is
   its own image as it was, in the full space, and one that is not alone; whole runs against sweeps over all
   of the lattice.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "dmrg/dmrgbase.h"
#include "dmrg/halves.h"
#include "dmrg/onesite.h"
#include "dmrg/canonical.h"
#include "dmrg/twins.h"
#include "kl_test.h"
#include "model/inversion.h"
#include "spin_kit.h"
#include <ctype.h>
#include <string.h>

static kl_err err;

/* ---- which H ---- */

static void test_keeps(void **state)
{
    static const struct {
        const char *model, *variant, *lattice, *sets;
        int keeps;
    } list[] = {
        {"heisenberg", "S=1/2", "chain:9", "h=0.3", 1},
        {"heisenberg", "S=1/2", "chain:8", "h=uniform(-1,1)", 0},
        {"heisenberg", "S=1/2", "cylinder:4x3", NULL, 1},
        {"heisenberg", "S=1/2", "ring:8", NULL, 1},
        {"j1j2", "S=1/2", "cylinder:4x4", "J2=0.5", 1},
        {"hubbard", "F=1/2", "chain:7", "U=4", 1},
        {"hubbard", "F=1/2", "ladder:4x2", "U=4", 1},
        {"hubbard", "F=1/2", "chain:6", "mu=normal(0,1)", 0},
        {"tj", NULL, "ladder:4x2", NULL, 1},
        {"kondo", NULL, "chain:4", NULL, 1},
        {"longrange", "S=1/2", "chain:8", NULL, 1},
        /* c_i c_j changes its sign */
        {"pairing", NULL, "chain:6", "Delta=0.5", 0},
        {"pairing", NULL, "chain:6", "Delta=0", 1},
    };
    (void)state;
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        core_job j;
        core_open(&j, core_model(list[k].model, list[k].variant), list[k].lattice, NULL, list[k].sets);
        kl_test_case("%s %s", j.name, list[k].sets ? list[k].sets : "");
        if (list[k].keeps >= 0) expect_eq(kl_inversion_keeps(j.terms), list[k].keeps);
        core_close(&j);
    }
    core_no_memory();
}

/* A string more at one end, and its image at the other. */
static void test_pinned(void **state)
{
    static const char *const models[][2] = {{"heisenberg", "Sz"}, {"hubbard", "n_up"}};
    (void)state;
    for (int k = 0; k < 2; k++) {
        core_job j;
        core_open(&j, core_model(models[k][0], NULL), "chain:8", NULL, NULL);
        const int op = kl_site_op_find(j.terms->type[0], models[k][1]);
        kl_test_case("%s", models[k][0]);
        expect_true(op >= 0 && kl_inversion_keeps(j.terms));
        for (int end = 0; end < 2; end++) {
            const kl_op_at at = {.pos = end ? 7 : 0, .op = op};
            expect_ok(kl_terms_add(j.terms, 0.25, 1, &at, 0, &err), err);
            expect_ok(kl_terms_merge(j.terms, &err), err);
            expect_eq(kl_inversion_keeps(j.terms), end);
        }
        core_close(&j);
    }
    core_no_memory();
}

/* ---- one fold, in the full space ---- */

typedef struct fold_case {
    const char *model, *variant, *lattice, *sets, *charge;
    int nstate;
} fold_case;

static void step(kl_engine *e, int direction, int one, double *energy)
{
    const kl_trunc_opts to = {.m = 1 << 20, .nstate = e->nstate};
    const kl_solve_opts so = {.tol = 1e-11, .max_apply = 200, .trust_start = 1};
    kl_eig_stats stats;
    kl_trunc_info info;
    kl_expand_info grown;
    expect_ok(kl_engine_move(e, direction, &to, &info, &err), err);
    if (!energy) return;
    if (one) expect_ok(kl_onesite_absorb(e, direction, 1 << 20, 1, 7, &grown, &err), err);
    expect_ok(kl_engine_solve(e, &so, energy, &stats, &err), err);
}

/* The right isometries of e, from `begin' on, are the left ones but for signs, and orthonormal like these. */
static void check_images(const kl_engine *e, int begin)
{
    for (int p = begin; p < e->nsite; p++) {
        const kl_isometry *const r = e->right[p];
        double *const a = malloc((size_t)r->ndata * sizeof *a);
        core_download(e->ex, r->ndata, e->right_data[p], a);
        for (int k = 0; k < r->basis.nsec; k++) {
            const int rows = r->enlarged->basis.dim[r->sec[k]], cols = r->basis.dim[k];
            for (int c = 0; c < cols; c++)
                for (int d = 0; d <= c; d++)
                    expect_near(
                        core_dot(rows, a + r->off[k] + (int64_t)c * rows, a + r->off[k] + (int64_t)d * rows),
                        c == d, 1e-13);
        }
        free(a);
    }
}

static void check_fold(const fold_case *t, int one)
{
    core_job j;
    kl_engine *e = NULL;
    core_open(&j, core_model(t->model, t->variant), t->lattice, NULL, t->sets);
    core_full full = core_full_open(&j);
    const int64_t dim = full.o->dim;
    const kl_engine_opts o = {.target = core_charge(j.model, t->charge),
                              .nstate = t->nstate,
                              .strategy = KL_STRATEGY_AUTO,
                              .max_basis = 20,
                              .seed = 3};
    double energy[KL_MAX_STATE], again[KL_MAX_STATE], lost = -1;
    int done = -1;
    expect_ok(kl_engine_create(j.terms, j.ex, &o, &e, &err), err);
    expect_ok(kl_engine_start(e, 1 << 20, 0, NULL, &err), err);
    const int n = e->nsite, turn = kl_halves_turn(n), back = kl_halves_back(n);
    kl_test_case("%s %s one site %d", j.name, t->charge, one);
    /* random wavefunctions are no images of themselves, and stay */
    while (e->centre < turn) step(e, 1, 0, NULL);
    double *before = core_engine_vectors(e, dim);
    expect_ok(kl_halves_fold(e, -1, &done, &lost, &err), err);
    double *after = core_engine_vectors(e, dim);
    expect_true(done == 0 && e->centre == turn);
    for (int64_t i = 0; i < dim * t->nstate; i++) expect_near(after[i], before[i], 0);
    free(before);
    free(after);
    for (int sweep = 0; sweep < 3; sweep++) {
        while (e->centre < n - 2) step(e, 1, one, energy);
        while (e->centre > 0) step(e, -1, one, energy);
    }
    while (e->centre < turn - 1) step(e, 1, one, energy);
    step(e, 1, 0, NULL);
    before = core_engine_vectors(e, dim);
    expect_ok(kl_halves_fold(e, 1e-9, &done, &lost, &err), err);
    expect_near(lost, 0, 1e-11);
    expect_true(done == 1 && e->centre == back);
    after = core_engine_vectors(e, dim);
    for (int v = 0; v < t->nstate; v++) {
        const double *const x = before + v * dim, *const y = after + v * dim;
        expect_near(core_dot(dim, x, y), core_dot(dim, x, x), 1e-10);
        expect_near(core_dot(dim, y, y), core_dot(dim, x, x), 1e-10);
    }
    check_images(e, turn + 1);
    expect_ok(kl_engine_energy(e, again, &err), err);
    for (int v = 0; v < t->nstate; v++) expect_near(again[v], energy[v], 1e-9 * full.norm);
    while (e->centre > 0) step(e, -1, one, again);
    for (int v = 0; v < t->nstate; v++) expect_near(again[v], energy[v], 1e-9 * full.norm);
    while (e->centre < n - 2) step(e, 1, one, again); /* all blocks are there */
    for (int v = 0; v < t->nstate; v++) expect_near(again[v], energy[v], 1e-9 * full.norm);
    free(before);
    free(after);
    kl_engine_destroy(&e);
    core_full_close(&full);
    core_close(&j);
}

static void test_folds(void **state)
{
    static const fold_case list[] = {
        {"heisenberg", "S=1/2", "chain:8", NULL, "Sz=0", 1},
        {"heisenberg", "S=1/2", "chain:7", NULL, "Sz=1/2", 2},
        {"heisenberg", "S=1", "chain:6", NULL, "Sz=1", 1},
        {"j1j2", "S=1/2", "cylinder:4x2", "J2=0.4", "Sz=0", 3},
        {"hubbard", "F=1/2", "chain:6", "U=3", "N_up=3 N_dn=2", 1},
        {"hubbard", "F=1/2", "chain:5", "U=3", "N_up=3 N_dn=3", 2},
        {"hubbard", "F=1/2", "ladder:3x2", "U=2", "N_up=2 N_dn=3", 1},
        {"tj", NULL, "chain:6", NULL, "N_up=2 N_dn=2", 1},
        {"kondo", NULL, "chain:4", NULL, "N=3 Sz=1/2", 1},
        {"ising", NULL, "chain:7", "h=0.7", "parity=1", 2},
        {"bose_hubbard", NULL, "chain:5", "U=3", "N=4", 1},
    };
    (void)state;
    for (size_t k = 0; k < sizeof list / sizeof *list; k++)
        for (int one = 0; one < 2; one++) check_fold(&list[k], one);
    core_no_memory();
}

/* ---- a state and its image ---- */

static double overlap_of(kl_exec *ex, const kl_state *a, int i, const kl_state *b, int k)
{
    kl_canonical *x = NULL, *y = NULL;
    double out = 0;
    expect_ok(kl_canonical_create(ex, a, i, &x, &err), err);
    expect_ok(kl_canonical_create(ex, b, k, &y, &err), err);
    expect_ok(kl_canonical_overlap(x, y, &out, &err), err);
    kl_canonical_destroy(&x);
    kl_canonical_destroy(&y);
    return out;
}

/* Energies of its wavefunctions; the state is taken. */
static void energies_of(const kl_engine *like, kl_exec *ex, kl_state **s, double *energy)
{
    kl_engine *e = NULL;
    kl_engine_opts o = kl_engine_options(like);
    o.nstate = (*s)->nstate;
    expect_ok(kl_engine_create(like->terms, ex, &o, &e, &err), err);
    expect_ok(kl_engine_resume_take(e, s, &err), err);
    expect_ok(kl_engine_energy(e, energy, &err), err);
    kl_engine_destroy(&e);
}

/* Of random states, which are no images of themselves: the energy of the image is theirs, the image of that
   they are themselves, and both together hold both. */
static void check_twins(const fold_case *t, int spin)
{
    static const char *const none[] = {NULL};
    const char *const some[] = {t->sets, NULL};
    system_t s;
    kl_exec *ex;
    kl_engine *e = NULL;
    kl_state *here = NULL, *image = NULL, *back = NULL, *both = NULL;
    double energy[2], other[2];
    open_system(&s, t->model, NULL, spin, t->lattice, 0, t->sets ? some : none);
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    const kl_engine_opts o = {.target = core_charge(s.model, t->charge),
                              .nstate = 1,
                              .strategy = KL_STRATEGY_AUTO,
                              .max_basis = 20,
                              .seed = 5};
    kl_test_case("%s %s %s", t->model, t->lattice, t->charge);
    expect_ok(kl_engine_create(s.terms, ex, &o, &e, &err), err);
    expect_ok(kl_engine_start(e, 12, 0, NULL, &err), err);
    expect_ok(kl_engine_energy(e, energy, &err), err);
    expect_ok(kl_engine_state(e, energy, &here, &err), err);
    expect_ok(kl_twins_image(ex, here, &image, &err), err);
    const double same = overlap_of(ex, here, 0, image, 0);
    expect_true(fabs(same) < 0.9);
    expect_ok(kl_twins_image(ex, image, &back, &err), err);
    expect_near(fabs(overlap_of(ex, here, 0, back, 0)), 1, 1e-11);
    expect_ok(kl_twins_find(ex, e, here, 0.99999, &other[0], &both, &err), err);
    expect_near(other[0], same, 1e-12);
    expect_true(both && both->nstate == 2);
    expect_near(fabs(overlap_of(ex, both, 0, here, 0)), 1, 1e-11);
    expect_near(fabs(overlap_of(ex, both, 1, image, 0)), 1, 1e-11);
    energies_of(e, ex, &image, other);
    expect_near(other[0], energy[0], 1e-11);
    energies_of(e, ex, &both, other);
    for (int v = 0; v < 2; v++) expect_near(other[v], energy[0], 1e-11);
    kl_state_destroy(&here);
    kl_state_destroy(&back);
    kl_engine_destroy(&e);
    kl_exec_close(&ex);
    close_system(&s);
}

/* Rows as letters: . not folded, f folded, h higher so, n no image; a capital: half of its m is used. */
static void test_asks_image(void **state)
{
    static const struct {
        const char *rows;
        int nsweep, asks;
    } list[] = {
        {"....", 0, 0},     {"..nn", 0, 0},  {"..nnn", 0, 1},  {"..nn.", 0, 1},    {"..nn..", 0, 0},
        {"..nn....", 0, 1}, {"..nnf", 0, 0}, {"..nnfn", 0, 0}, {"..nnfnn.", 0, 1}, {"..nnh.", 0, 0},
        {"...h..", 0, 0},   {"..nnn", 5, 0}, {"....N", 0, 1},  {"..F.N", 0, 0},
    };
    (void)state;
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        kl_dmrg_row row[10] = {{.m = 0}};
        const int n = (int)strlen(list[k].rows);
        for (int i = 0; i < n; i++) {
            const char c = list[k].rows[i];
            row[i].m = 100;
            row[i].m_reached = isupper((unsigned char)c) ? 50 : 100;
            row[i].folded = tolower((unsigned char)c) == 'n'   ? KL_NO_IMAGE
                            : tolower((unsigned char)c) == 'f' ? KL_FOLDED
                            : c == 'h'                         ? KL_FOLDED_HIGHER
                                                               : KL_NOT_FOLDED;
        }
        const kl_dmrg_opts o = {.nsweep = list[k].nsweep};
        kl_dmrg_result res = {.row = row, .nrow = n};
        const kl_dmrg_course r = {.o = &o, .res = &res};
        kl_test_case("%s", list[k].rows);
        expect_eq(kl_dmrg_asks_image(&r), list[k].asks);
    }
}

static void test_twins(void **state)
{
    static const fold_case list[] = {
        {"heisenberg", "S=1/2", "chain:9", NULL, "Sz=1/2", 0},
        {"heisenberg", "S=1/2", "chain:8", NULL, "S=0", 1},
        {"hubbard", "F=1/2", "chain:7", "U=3", "N_up=3 N_dn=2", 0},
        {"hubbard", "F=1/2", "chain:6", "U=3", "N_up=3 N_dn=3", 0},
        {"hubbard", "F=1/2", "chain:6", "U=3", "N=6 S=0", 1},
        {"tj", NULL, "ladder:3x2", NULL, "N_up=2 N_dn=3", 0},
        {"kondo", NULL, "chain:5", NULL, "N=4 Sz=1/2", 0},
        {"bose_hubbard", NULL, "chain:6", "U=3", "N=5", 0},
        {"ising", NULL, "chain:8", "h=0.7", "parity=1", 0},
    };
    (void)state;
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) check_twins(&list[k], list[k].nstate);
    core_no_memory();
}

/* ---- whole runs ---- */

typedef struct run_case {
    const char *model, *lattice, *charge;
    int spin, m, nstate;
} run_case;

static core_run run_of(const system_t *s, const run_case *t, kl_sites sites, int whole)
{
    core_run r = core_exact(t->m, core_charge(s->model, t->charge), t->nstate, KL_STRATEGY_AUTO);
    kl_exec *ex;
    r.opts.sites = sites;
    r.opts.max_apply = 60; /* no sector is solved as a whole */
    r.opts.whole_sweeps = whole;
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    expect_ok(kl_dmrg_run(s->terms, ex, &r.opts, NULL, &r.state, &r.res, &err), err);
    kl_exec_close(&ex);
    return r;
}

static void check_run(const run_case *t, kl_sites sites)
{
    static const char *const settings[] = {"U=4", NULL};
    system_t s;
    open_system(&s, t->model, NULL, t->spin, t->lattice, 0, settings);
    core_run half = run_of(&s, t, sites, 0), all = run_of(&s, t, sites, 1);
    int folded = 0;
    double exact[KL_MAX_STATE];
    kl_state *state = NULL;
    kl_test_case("%s %s %s sites %d", t->model, t->lattice, t->charge, sites);
    for (int i = 0; i < half.res.nrow; i++) folded += kl_is_folded(half.res.row[i].folded);
    for (int i = 0; i < all.res.nrow; i++) expect_eq(all.res.row[i].folded, KL_NOT_FOLDED);
    expect_true(folded >= 3);
    levels(&s, core_charge(s.model, t->charge), KL_STRATEGY_AUTO, t->nstate, exact, &state); /* as a whole */
    for (int i = 0; i < t->nstate; i++) {
        expect_near(half.res.energy[i], exact[i], 1e-10 * fabs(exact[i]));
        expect_near(all.res.energy[i], exact[i], 1e-10 * fabs(exact[i]));
    }
    kl_state_destroy(&state);
    expect_true(half.res.napply < all.res.napply);
    for (int c = 0; c + 1 < s.terms->nsite; c++) expect_near(half.res.entropy[c], all.res.entropy[c], 1e-6);
    core_drop(&half);
    core_drop(&all);
    close_system(&s);
}

/* The same energies and entropies as by sweeps over all of the lattice, where nothing is truncated, with
   fewer products. */
static void test_runs(void **state)
{
    static const run_case list[] = {
        {"heisenberg", "chain:12", "Sz=0", 0, 64, 1},       {"heisenberg", "chain:11", "Sz=1/2", 0, 64, 3},
        {"hubbard", "chain:8", "N_up=4 N_dn=3", 0, 256, 1}, {"heisenberg", "chain:12", "S=0", 1, 64, 1},
        {"heisenberg", "chain:10", "S=0", 1, 64, 2},        {"hubbard", "chain:8", "N=8 S=0", 1, 256, 1},
    };
    (void)state;
    for (size_t k = 0; k < sizeof list / sizeof *list; k++)
        for (int sites = KL_SITES_TWO; sites <= KL_SITES_ONE; sites++) check_run(&list[k], (kl_sites)sites);
    core_no_memory();
}

/* What lies beyond the bases is nearly all at the bond in the middle where m is most of what the others have:
   without it errors were told too small, here by a factor of five. Energy: sweeps of 1307 states, which are
   all. */
static void test_bar(void **state)
{
    static const char *const settings[] = {"J=0.3", NULL};
    system_t s;
    kl_exec *ex;
    int folded = 0;
    (void)state;
    if (KL_TEST_WATCHED) skip();
    open_system(&s, "tj", NULL, 0, "ladder:7x2", 0, settings);
    core_run r = core_auto(1e-11, core_charge(s.model, "N_up=4 N_dn=4"), 1, KL_STRATEGY_AUTO);
    r.opts.sites = KL_SITES_AUTO;
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    expect_ok(kl_dmrg_run(s.terms, ex, &r.opts, NULL, &r.state, &r.res, &err), err);
    for (int i = 0; i < r.res.nrow; i++) folded += r.res.row[i].folded == KL_FOLDED;
    expect_true(folded > 3);
    expect_near(r.res.energy[0], -11.08984479172516, r.res.error_estimate);
    kl_exec_close(&ex);
    core_drop(&r);
    close_system(&s);
    core_no_memory();
}

/* A spin in one of two places that are images of each other: the lowest state is in both, 7.4e-8 lower.
   Energy: free fermions. */
static void test_two_wells(void **state)
{
    static const char *const settings[] = {
        "Delta=0",
        "h=-2,1.3,-2.3,1.7,1.7,-1.4,-0.1,0.6,-2.6,-3.8,-3.5,2.9,2.9,-3.5,-3.8,-2.6,0.6,-0.1,-1.4,1.7,1.7,"
        "-2.3,1.3,-2",
        NULL};
    system_t s;
    kl_exec *ex;
    (void)state;
    if (KL_TEST_WATCHED) skip();
    open_system(&s, "heisenberg", NULL, 0, "chain:24", 0, settings);
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    for (int whole = 0; whole < 2; whole++) {
        core_run r = core_auto(1e-10, core_charge(s.model, "Sz=-3"), 1, KL_STRATEGY_AUTO);
        r.opts.sites = KL_SITES_AUTO;
        r.opts.whole_sweeps = whole;
        expect_ok(kl_dmrg_run(s.terms, ex, &r.opts, NULL, &r.state, &r.res, &err), err);
        kl_test_case("whole %d", whole);
        expect_near(r.res.energy[0], -24.28643118692825, r.res.error_estimate + 1e-12);
        expect_true(r.res.error_estimate < 1e-8 && fabs(r.res.gap - 1.48e-7) < 1e-8);
        core_drop(&r);
    }
    kl_exec_close(&ex);
    close_system(&s);
    core_no_memory();
}

/* A run that ends by its schedule makes no more sweeps, but its bar knows of both: 1.2e-3 at 1.6e-4 else.
   Energy: free electrons. */
static void test_two_wells_by_schedule(void **state)
{
    static const char text[] = "-- H = electrons that hop\n"
                               "site(electron())\n"
                               "conserve { \"N_up\", \"N_dn\" }\n"
                               "parameters { t = per_bond(1), mu = per_site(0) }\n"
                               "bond(\"nn\", -t * (cdag_up(i)*c_up(j) + cdag_dn(i)*c_dn(j) + hc))\n"
                               "onsite(-mu * n(i))\n";
    static const char *const settings[] = {
        "t=1.403317,0.721762,1.368343,0.891298,1.388963,0.555287,0.815206,0.31734,1.286273,0.696762,0.574362,"
        "0.819293,1.413466,1.413466,0.819293,0.574362,0.696762,1.286273,0.31734,0.815206,0.555287,1.388963,"
        "0.891298,1.368343,0.721762,1.403317",
        "mu=-0.261955,-0.421785,-0.436371,0.955077,-0.390529,0.494543,-0.597868,0.496139,0.420696,-0.433884,"
        "-0.087956,0.466527,0.81186,-0.621456,0.81186,0.466527,-0.087956,-0.433884,0.420696,0.496139,"
        "-0.597868,0.494543,-0.390529,0.955077,-0.436371,-0.421785,-0.261955",
        NULL};
    kl_dmrg_sweep sweep[] = {{40, 1e-4, 0}, {40, 1e-4, 0}, {80, 1e-6, 0}, {80, 0, 0}, {80, 0, 0}};
    system_t s;
    kl_exec *ex;
    (void)state;
    if (KL_TEST_WATCHED) skip();
    open_system(&s, "wells.lua", text, 0, "chain:27", 0, settings);
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    core_run r = {.opts = {.nstate = 1, .nsweep = 5, .sweep = sweep, .seed = 1, .sites = KL_SITES_AUTO}};
    r.opts.strategy = KL_STRATEGY_LR;
    r.opts.target = core_charge(s.model, "N_up=9 N_dn=7");
    expect_ok(kl_dmrg_run(s.terms, ex, &r.opts, NULL, &r.state, &r.res, &err), err);
    expect_near(r.res.energy[0], -28.761242372749727, r.res.error_estimate);
    expect_true(r.res.error_estimate < 1e-2 && r.res.distance == 1);
    r.opts.sweep = NULL; /* not from the heap */
    core_drop(&r);
    kl_exec_close(&ex);
    close_system(&s);
    core_no_memory();
}

/* One hole at one end of a ladder, or at the other: 100 sweeps went on towards both, 2.9e-6 too high, and
   kept no more states than they had. Energy: `kronlat ed`. */
static void test_stalls(void **state)
{
    static const char *const settings[] = {"J=3.5", NULL};
    system_t s;
    kl_exec *ex;
    (void)state;
    if (KL_TEST_WATCHED) skip();
    open_system(&s, "tj", NULL, 0, "ladder:8x2", 0, settings);
    core_run r = core_auto(1e-10, core_charge(s.model, "N_up=8 N_dn=7"), 1, KL_STRATEGY_AUTO);
    r.opts.sites = KL_SITES_AUTO;
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    expect_ok(kl_dmrg_run(s.terms, ex, &r.opts, NULL, &r.state, &r.res, &err), err);
    expect_eq(r.res.stop, KL_STOP_CONVERGED);
    expect_true(r.res.nrow < 25);
    expect_near(r.res.energy[0], -46.329444844082, r.res.error_estimate + 1e-11);
    kl_exec_close(&ex);
    core_drop(&r);
    close_system(&s);
    core_no_memory();
}

/* A domain wall stays where it is, and is no image of itself. */
static void test_not_folded(void **state)
{
    static const char *const settings[] = {"J=-1", "Delta=4", NULL};
    const run_case t = {"heisenberg", "chain:14", "Sz=0", 0, 8, 1};
    system_t s;
    (void)state;
    open_system(&s, t.model, NULL, 0, t.lattice, 0, settings);
    core_run half = run_of(&s, &t, KL_SITES_TWO, 0), all = run_of(&s, &t, KL_SITES_TWO, 1);
    expect_true(kl_halves_possible(s.terms, core_charge(s.model, "Sz=0")));
    expect_near(half.res.energy[0], all.res.energy[0], 1e-10);
    expect_true(!kl_is_folded(half.res.row[half.res.nrow - 1].folded));
    core_drop(&half);
    core_drop(&all);
    close_system(&s);
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeps),
        cmocka_unit_test(test_pinned),
        cmocka_unit_test(test_folds),
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_not_folded),
        cmocka_unit_test(test_bar),
        cmocka_unit_test(test_two_wells),
        cmocka_unit_test(test_stalls),
        cmocka_unit_test(test_two_wells_by_schedule),
        cmocka_unit_test(test_asks_image),
        cmocka_unit_test(test_twins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
