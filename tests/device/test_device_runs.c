/* What the program runs, on executors of devices, compiled once for each: the lists of superblocks against
   the host's, ground states of DMRG and exact diagonalization, hybrid and mixed executors, and the device's
   memory back at the end. On a GPU run it with OMP_TARGET_OFFLOAD=MANDATORY; without one the CUDA tests say
   SKIP.
   SPDX-License-Identifier: Apache-2.0 */
#include "device_kit.h"
#include "core.h"
#include "base/dense.h"
#include "ed/ed.h"
#include "exec/baselines.h"
#include "exec/hybrid.h"
#include "exec/streamed.h"
#include "kl_test.h"
#include "lists.h"
#include "tally.h"
#include "exec/mixed.h"
#include "record/record.h"
#include "dmrg/opdense.h"
#include "dmrg/superblock.h"
#include "dmrg/reflect.h"
#if !KL_TEST_CUDA
#include <omp.h>
#endif

/* ---- the program's own lists ---- */

/* Every model that is built in, and both strategies: the ground state on the device against the host's; of
   every other model the device gets all density matrices, however small. The rule for equal: 1e-10
   relative. */
static void ground_states(fixture *f, kl_projection how)
{
    f->ex[0]->projection = f->ex[1]->projection = how;
    static const struct {
        const char *model, *variant, *lattice, *sets, *charge;
    } cases[] = {
        {"heisenberg", "S=1/2", "chain:10", NULL, "Sz=0"},
        {"heisenberg", "S=1", "chain:6", NULL, "Sz=0"},
        {"heisenberg", "S=1/2", "ladder:4x2", "h=normal(0,1)", "Sz=0"},
        {"hubbard", "F=1/2", "chain:6", "U=4", "N_up=3 N_dn=3"},
        {"hubbard", "F=1/2", "ladder:3x2", "U=2 mu=normal(0,1)", "N_up=3 N_dn=2"},
    };
    /* an odd step, so that both strategies come up */
    const int all = 2 * (int)(sizeof cases / sizeof *cases), step = kl_test_stride(all, 7) | 1;
    for (int k = 0; k < all; k += step) {
        core_job j;
        core_open(&j, core_model(cases[k / 2].model, cases[k / 2].variant), cases[k / 2].lattice, NULL,
                  cases[k / 2].sets);
        const kl_qn target = core_charge(j.model, cases[k / 2].charge);
        double energy[3];
        kl_exec *const own = j.ex, *const run[3] = {own, f->ex[0], f->ex[1]};
        for (int w = 0; w < 3; w++) {
            core_run r = core_auto(1e-11, target, 1, k % 2 ? KL_STRATEGY_L11R : KL_STRATEGY_LR);
            j.ex = run[w];
            const int least = j.ex->eigen.least, times = j.ex->eigen.ntime;
            if (k / 2 % 2) j.ex->eigen.least = 0, j.ex->eigen.ntime = 0;
            core_go(&j, &r);
            j.ex->eigen.least = least, j.ex->eigen.ntime = times;
            energy[w] = r.res.energy[0];
            core_drop(&r);
        }
        j.ex = own;
        for (int w = 1; w < 3; w++) expect_near(energy[w], energy[0], 1e-10 * fabs(energy[0]));
        core_close(&j);
    }
    f->ex[0]->projection = f->ex[1]->projection = KL_PROJECTION_AUTO;
}

static void test_ground(void **state)
{
    ground_states(*state, KL_PROJECTION_AUTO);
    /* all operators on the host, all the time */
    if (((fixture *)*state)->ex[0]->vt.alloc_far) ground_states(*state, KL_PROJECTION_NOSTORAGE);
}

/* Truncations of one-site steps leave out no more than they must, and say what it is. */
static void test_truncations(void **state)
{
    fixture *const f = *state;
    for (int which = 0; which < (KL_TEST_WATCHED ? 1 : 2); which++) {
        /* where m doubles bases are taken whole, and nothing is left out */
        const kl_dmrg_sweep sweeps[] = {{.m = 60, .noise = 1e-4, .tol = 1e-4},
                                        {.m = 100, .tol = 1e-5},
                                        {.m = 180, .tol = 1e-5},
                                        {.m = 320, .tol = 1e-5},
                                        {.m = 320, .tol = 1e-5}};
        enum { NSWEEP = (int)(sizeof sweeps / sizeof *sweeps) - KL_TEST_WATCHED };
        tally sum = {.narrow = 1};
        kl_err err = {""};
        core_job j;
        core_open(&j, core_model("heisenberg", "S=1/2"), "cylinder:5x4", NULL, NULL);
        kl_exec *const own = j.ex;
        core_run r = core_auto(1e-6, core_charge(j.model, "Sz=0"), 1, KL_STRATEGY_AUTO);
        const kl_trunc_watch watch = {&sum, tally_look};
        const kl_dmrg_monitor monitor = {.truncations = &watch};
        r.opts.truncation = KL_TRUNCATION_PRODUCTS;
        r.opts.sites = KL_SITES_ONE;
        r.opts.max_apply = 3;
        r.opts.whole_sweeps = 1; /* twice as many truncations */
        r.opts.nsweep = NSWEEP;
        r.opts.sweep = malloc(sizeof sweeps);
        memcpy(r.opts.sweep, sweeps, sizeof sweeps);
        kl_test_case("executor %d", which);
        j.ex = f->ex[which];
        expect_ok(kl_dmrg_run(j.terms, j.ex, &r.opts, &monitor, &r.state, &r.res, &err), err);
        print_message(
            "executor %d: %d truncations, %d sectors by what goes, %.6f of the best, %.6f at most\n", which,
            sum.nlooked, sum.nleast, sum.found / sum.best, sum.worst);
        expect_true(sum.nleast > (KL_TEST_WATCHED ? 10 : 20));
        for (int c = 0; c < j.terms->nsite - 1; c++)
            expect_true(r.res.entropy[c] > 0 && r.res.entropy[c] < log(400));
        expect_near(r.res.energy[0], -13, 1);
        core_drop(&r);
        j.ex = own;
        core_close(&j);
    }
}

/* The host's share and the device's: every ratio, measured ones too, operators on the device and on the
   host; the same results. */
static void test_hybrid(void **state)
{
    fixture *const f = *state;
    static const char *const steps[] = {"0:0.3", "0:1,20:3", "auto"};
    kl_err err = {""};
    for (int w = 0; w < 3; w++) {
        kl_exec *device = NULL, *all = NULL;
        expect_ok(open_one(w == 1, &device, &err), err);
        expect_ok(kl_exec_open_hybrid_take(&device, 2, steps[w], &all, &err), err);
        const int rounds = kl_test_rounds(60);
        for (int round = 0; round < rounds; round++) {
            uint64_t seed = (uint64_t)(1000 * w + round);
            const int most = 1 + round % 60;
            const int64_t room = (int64_t)(most + 3) * (most + 3) + 7;
            kl_batch b;
            kl_batch_init(&b);
            kl_test_case("%s round %d", steps[w], round);
            lists_random(&b, room, 1 + lists_below(&seed, 20), most, round % 7 == 0, round % 5 != 0, &seed);
            b.lasting = round % 6 != 0;
            all->projection =
                all->vt.alloc_far && round % 3 == 0 ? KL_PROJECTION_NOSTORAGE : KL_PROJECTION_AUTO;
            compare(f->host, all, &b, room, round & 1, 30.0 * most);
            kl_batch_clear(&b);
        }
        kl_exec_close(&all);
    }
}

/* Operations that read what the one before wrote; numbers they give: out[7]; the last two stand where
   coefficients stood. */
static void chain(kl_exec *ex, int64_t n, kl_dptr v, double out[7])
{
    const double c[2] = {0.3, -0.4};
    const kl_dptr a = v, b = kl_dptr_at(v, n), t = kl_dptr_at(v, 2 * n), pair[2] = {a, t};
    ex->vt.axpby(ex, n, 0.5, a, 0.25, b);
    ex->vt.precondition(ex, n, b, 3.0, 0.1, b, t);
    ex->vt.combine(ex, n, 2, v, n, c, 1.0, t);
    ex->vt.copy(ex, n, t, b);
    ex->vt.dots(ex, n, 3, v, n, b, out);
    ex->vt.axpby(ex, n, 1.0, b, 1.0, a);
    if (ex->vt.fuse)
        ex->vt.fuse(ex, n,
                    &(kl_fuse){.nin = 2, .npair = 2, .in = pair, .pair = (const int[2][2]){{0, 1}, {1, 1}}},
                    out + 3);
    else out[3] = out[4] = 0;
    out[5] = 0.5, out[6] = -0.25;
    if (ex->vt.fuse)
        ex->vt.fuse(ex, n,
                    &(kl_fuse){.nin = 2,
                               .nout = 1,
                               .npair = 2,
                               .in = pair,
                               .out = &t,
                               .c = out + 5,
                               .pair = (const int[2][2]){{0, 2}, {2, 2}}},
                    out + 5);
}

/* Operation by operation here and there, on the same memory: by this executor and by offload's plain kernels,
   or offload's own next to CUDA. */
static void test_mixed(void **state)
{
    fixture *const f = *state;
    static const kl_op op[] = {KL_OP_COPY, KL_OP_AXPBY, KL_OP_DOTS, KL_OP_COMBINE, KL_OP_FUSE};
    enum { NOP = sizeof op / sizeof *op };
    kl_err err = {""};
    kl_mixed_time time[2 * NOP + 2];
    kl_exec *first = NULL, *second = NULL, *all = NULL;
    if (kl_exec_open_offload(KL_ANY_DEVICE, !KL_TEST_CUDA, &second, &err) == KL_EABSENT) skip();
    expect_ok(open_one(0, &first, &err), err);
    for (int k = 0; k < NOP; k++) /* neighbours never at the same index */
        for (int large = 0; large < 2; large++)
            time[2 * k + large] = (kl_mixed_time){
                op[k], large ? 10000 : 100, {(k + large) % 2 ? 1e-3 : 1e-6, (k + large) % 2 ? 1e-6 : 1e-3}};
    time[2 * NOP] = (kl_mixed_time){KL_OP_BATCH, 4, {1e-3, 1e-6}},
             time[2 * NOP + 1] = (kl_mixed_time){KL_OP_BATCH, 100, {1e-6, 1e-3}};
    expect_ok(kl_exec_open_mixed_take(&first, &second, NULL, time, 2 * NOP + 2, &all, &err), err);
    for (int s = 0; s < NSIZE; s++) {
        const int64_t n = sizes[s];
        double got[7], want[7];
        kl_test_case("n=%lld", (long long)n);
        both v = make(all, 3 * n, 0, 5), u = make(f->host, 3 * n, 0, 5);
        for (int round = 0; round < 5; round++) {
            chain(all, n, v.dev, got);
            chain(f->host, n, u.dev, want);
            for (int k = 0; k < 7; k++)
                expect_near(got[k], want[k], 1e-13 * (double)(n + 1) * fmax(1, fabs(want[k])));
        }
        fetch(all, &v), fetch(f->host, &u);
        for (int64_t i = 0; i < 3 * n; i++)
            expect_near(v.host[i], u.host[i], 1e-12 * fmax(1, fabs(u.host[i])));
        drop(all, &v), drop(f->host, &u);
    }
    const int rounds = kl_test_rounds(60);
    for (int round = 0; round < rounds; round++) {
        uint64_t seed = (uint64_t)(5000 + round);
        const int most = 1 + round % 60;
        const int64_t room = (int64_t)(most + 3) * (most + 3) + 7;
        kl_batch b;
        kl_batch_init(&b);
        kl_test_case("round %d", round);
        lists_random(&b, room, 1 + lists_below(&seed, 20), most, round % 7 == 0, round % 5 != 0, &seed);
        compare(f->host, all, &b, room, round & 1, 30.0 * most);
        kl_batch_clear(&b);
    }
    kl_exec_close(&all);
}

/* Lists of the middle superblock: launches of one H x, and its result. */
static void test_superblock(void **state)
{
    fixture *const f = *state;
    kl_err err = {""};
    /* sectors are cut as a device wants them, that the runs may be compared */
    f->host->space = KL_SPACE_DEVICE;
    for (int k = 0, step = kl_test_step(4); k < 4; k += step) {
        core_job j;
        core_open_random(&j, core_model(k < 2 ? "heisenberg" : "hubbard", k < 2 ? "S=1/2" : "F=1/2"),
                         k < 2 ? "ladder:6x2" : "chain:8", NULL, (uint64_t)k + 1);
        double *y[3] = {NULL, NULL, NULL};
        int64_t n = 0;
        for (int w = 0; w < 3; w++) {
            kl_exec *const ex = w == 0 ? f->host : f->ex[w - 1];
            kl_engine *e = NULL;
            kl_bigop *l = NULL, *r = NULL;
            kl_superblock *s = NULL;
            const int strategy = k % 2 ? KL_STRATEGY_LR : KL_STRATEGY_L11R;
            const kl_qn target = k < 2 ? kl_qn_zero() : core_charge(j.model, "N_up=4 N_dn=4");
            const kl_engine_opts eo = {
                .target = target, .nstate = 1, .strategy = strategy, .solver = KL_SOLVER_DAVIDSON, .seed = 1};
            expect_ok(kl_engine_create(j.terms, ex, &eo, &e, &err), err);
            expect_ok(kl_engine_start(e, 40, 0, NULL, &err), err);
            kl_trunc_opts o = {.m = 40, .nstate = 1, .noise = 1e-4};
            kl_trunc_info info;
            /* far enough that executors keep the same states */
            const kl_solve_opts so = {.tol = 1e-8, .max_apply = 60};
            double energy[KL_MAX_STATE];
            kl_eig_stats stats;
            while (e->centre < e->nsite / 2 - 1) {
                expect_ok(kl_engine_solve(e, &so, energy, &stats, &err), err);
                expect_ok(kl_engine_move(e, 1, &o, &info, &err), err);
            }
            const int c = e->centre;
            expect_ok(kl_bigop_create(e->left_block[c], e->row, c, &l, &err), err);
            expect_ok(kl_bigop_create(e->right_block[c + 2], e->col, c + 1, &r, &err), err);
            if (strategy == KL_STRATEGY_LR) {
                expect_ok(kl_bigop_make_dense(l, &err), err);
                expect_ok(kl_bigop_make_dense(r, &err), err);
            }
            expect_ok(kl_superblock_create(ex, l, r, target, 0, &s, &err), err);
            kl_batch_plan plan;
            ex->vt.batch_explain(ex, &s->batch, &plan);
            kl_test_case("superblock %d run %d: %d launches, %lld groups in order, %d rounds", k, w,
                         plan.nlaunch, (long long)plan.nsequential, plan.nround);
            expect_true(plan.nlaunch <= 12 && plan.nsequential == 0);
            n = s->layout.n;
            /* Bases of two runs agree to signs at best: what they share is compared, <psi|H|psi> and the sum
               of the diagonal. */
            double xx, xy, trace;
            kl_dptr hx = {0}, one = {0};
            expect_ok(ex->vt.alloc(ex, n, &hx, &err), err);
            expect_ok(ex->vt.alloc(ex, n, &one, &err), err);
            ex->vt.fill(ex, n, 1.0, one);
            expect_ok(s->op.apply(&s->op, 1, e->psi, n, hx, n, &err), err);
            ex->vt.dots(ex, n, 1, e->psi, n, e->psi, &xx);
            ex->vt.dots(ex, n, 1, e->psi, n, hx, &xy);
            ex->vt.dots(ex, n, 1, s->diagonal, n, one, &trace);
            y[w] = kl_test_guarded(2);
            y[w][0] = xy / xx, y[w][1] = trace / (double)n;
            ex->vt.release(ex, &hx);
            ex->vt.release(ex, &one);
            kl_superblock_destroy(&s);
            kl_bigop_destroy(&l);
            kl_bigop_destroy(&r);
            kl_engine_destroy(&e);
        }
        kl_test_case("superblock %d dim=%lld", k, (long long)n);
        for (int w = 1; w < 3; w++) {
            expect_near(y[w][0], y[0][0], 1e-6 * (1 + fabs(y[0][0])));
            expect_near(y[w][1], y[0][1], 1e-6 * (1 + fabs(y[0][1])));
        }
        for (int w = 0; w < 3; w++) kl_test_free(y[w]);
        core_close(&j);
    }
    f->host->space = KL_SPACE_HOST;
}

/* ---- exact diagonalization ---- */

/* The host; the device twice; the device with vectors that are the host's and come by in pieces, of which
   rows are packed by the host, or copied as they lie. */
enum {
    STREAMED = 3,
    RUNS = STREAMED + 2,
};
static kl_status open_nth(int w, kl_exec **ex, kl_err *err)
{
    kl_exec *device = NULL;
    if (w < STREAMED) return w ? open_one(w - 1, ex, err) : kl_exec_open_host(1, ex, err);
    kl_status st = open_one(0, &device, err);
    if (st == KL_OK) st = kl_exec_open_streamed_take(&device, 1, 0, ex, err);
    if (st == KL_OK) kl_streamed_pack_below(*ex, w == STREAMED ? 4096 : 0);
    kl_exec_close(&device);
    return st;
}

/* y = H x of one job in the sectors of a product state, in both forms, against the host's. To open an
   executor takes longer than the products here. */
static void one_ed(const core_job *j, uint64_t seed)
{
    kl_err err = {""};
    kl_qn q = kl_qn_zero();
    for (int p = 0; p < j->terms->nsite; p++)
        q = kl_qn_add(
            j->model, q,
            kl_qn_of(
                j->model,
                j->terms->type[p]->state_charge[kl_test_bits(&seed) % (uint64_t)j->terms->type[p]->dim]));
    kl_exec *run[RUNS];
    for (int w = 0; w < RUNS; w++) expect_ok(open_nth(w, &run[w], &err), err);
    for (int form = KL_BIPARTITION_AUTO; form <= KL_BIPARTITION_SITES; form++) {
        double *y[RUNS] = {NULL}, dot[RUNS];
        int64_t n = 0;
        for (int w = 0; w < RUNS; w++) {
            kl_exec *const ex = run[w];
            kl_ed *ed = NULL;
            kl_dptr x = {0}, to = {0};
            expect_ok(kl_ed_create(j->terms, q, (kl_bipartition_form)form, ex, &ed, &err), err);
            n = ed->op.n;
            kl_test_case("%s run %d form %d n=%lld", j->name, w, form, (long long)n);
            both image = make(ex, n, 0, 0);
            to = image.dev;
            expect_ok(ex->vt.alloc(ex, n, &x, &err), err);
            expect_ok(kl_ed_random(ed, seed, x, &err), err);
            expect_ok(ed->op.apply_dot(&ed->op, x, to, &dot[w], &err), err);
            expect_ok(ed->op.apply(&ed->op, 1, x, n, to, n, &err), err);
            fetch(ex, &image);
            y[w] = kl_test_guarded(n);
            memcpy(y[w], image.host, (size_t)n * sizeof(double));
            drop(ex, &image);
            ex->vt.release(ex, &x);
            kl_ed_destroy(&ed);
        }
        double most = 1e-300;
        for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(y[0][i]));
        for (int w = 1; w < RUNS; w++) {
            for (int64_t i = 0; i < n; i++) expect_near(y[w][i], y[0][i], 1e-13 * most);
            expect_near(dot[w], dot[0], 1e-13 * most * (double)n);
        }
        for (int w = 0; w < RUNS; w++) kl_test_free(y[w]);
    }
    for (int w = 0; w < RUNS; w++) kl_exec_close(&run[w]);
}

static void test_ed(void **state)
{
    static const char *const lattices[] = {"chain:4", "ring:5", "ladder:3x2", "chain:7", NULL};
    kl_exec *ex = NULL;
    kl_err err = {""};
    (void)state;
    expect_ok(open_one(0, &ex, &err), err);
    const int can = ex->vt.kron_apply != NULL;
    kl_exec_close(&ex);
    if (!can) skip();
    const int step = kl_test_step(4);
    core_every_lattice(core_models, core_nmodel, lattices + step - 1, kl_test_rounds(600) < 600 ? 300 : 4000,
                       CORE_ONE_ORDER, one_ed);
}

static int64_t little;

static int64_t little_room(kl_exec *ex)
{
    (void)ex;
    return little;
}

/* Every solver of exact diagonalization on the device finds the host's energies, Davidson's method also with
   half of its basis on the host. */
static void test_ed_states(void **state)
{
    fixture *const f = *state;
    kl_err err = {""};
    static const struct {
        const char *model, *variant, *lattice, *charge;
    } cases[] = {{"hubbard", "F=1/2", "ladder:3x2", "N_up=3 N_dn=3"},
                 {"heisenberg", "S=1/2", "ring:12", "Sz=0"},
                 {"kondo", "S=1/2", "chain:4", "N=4 Sz=0"}};
    if (!f->ex[0]->vt.kron_apply || !f->ex[0]->vt.fuse) skip();
    const int all = 3 * (int)(sizeof cases / sizeof *cases), step = kl_test_step(all);
    for (int k = 0; k < all; k += step) {
        static const kl_ed_solver solvers[] = {KL_ED_LANCZOS, KL_ED_DAVIDSON, KL_ED_LOBPCG};
        const kl_ed_solver solver = solvers[(k + k / 3) % 3]; /* another one every third case too */
        core_job j;
        core_open(&j, core_model(cases[k / 3].model, cases[k / 3].variant), cases[k / 3].lattice, NULL, NULL);
        double energy[5];
        const int runs = solver == KL_ED_DAVIDSON ? 5 : 3;
        for (int w = 0; w < runs; w++) {
            kl_exec *const ex = w == 0 ? f->host : f->ex[(w - 1) % 2];
            int64_t (*const room)(kl_exec *) = ex->vt.room;
            kl_ed *ed = NULL;
            kl_ed_result r = {0};
            const kl_ed_opts o = {
                .solver = solver, .nstate = solver == KL_ED_LANCZOS && k == 0 ? 1 : 2, .seed = 1};
            expect_ok(kl_ed_create(j.terms, core_charge(j.model, cases[k / 3].charge), KL_BIPARTITION_AUTO,
                                   ex, &ed, &err),
                      err);
            little = 45 * kl_eig_stride(ed->op.n) * (int64_t)sizeof(double) / 8 * 9; /* of about 90 vectors */
            if (w > 2) ex->vt.room = little_room;
            expect_ok(kl_ed_run(ed, &o, NULL, NULL, &r, &err), err);
            ex->vt.room = room;
            kl_test_case("%s solver %d run %d", cases[k / 3].model, (int)o.solver, w);
            expect_true(r.stop == KL_ED_CONVERGED || r.stop == KL_ED_STAGNATED);
            energy[w] = r.energy[0];
            kl_ed_result_clear(&r);
            kl_ed_destroy(&ed);
        }
        for (int w = 1; w < runs; w++) expect_near(energy[w], energy[0], 2e-10 * fabs(energy[0]));
        core_close(&j);
    }
}

/* H v by the kernels of yamada2020 is ours, and a few steps of their LOBPCG come to the same energy. */
static void test_contest(void **state)
{
    fixture *const f = *state;
    kl_err err = {""};
    core_job j;
    core_open(&j, core_model("hubbard", "F=1/2"), "ladder:4x2", NULL, "U=3");
    for (int w = 0; w < 2; w++) {
        kl_exec *const ex = f->ex[w];
        if (!ex->baselines || !ex->baselines->kron_contest) continue;
        kl_ed *ed = NULL;
        kl_kron_contest c = {.steps = 6};
        expect_ok(kl_ed_create(j.terms, core_charge(j.model, "N_up=4 N_dn=3"), KL_BIPARTITION_FLAVOURS, ex,
                               &ed, &err),
                  err);
        const kl_status st = ex->baselines->kron_contest(ex, ed->kron, &c, &err);
        kl_ed_destroy(&ed);
        if (KL_TEST_CUDA && (st == KL_EABSENT || st == KL_ENOMEM)) continue; /* no cuSPARSE, little memory */
        expect_ok(st, err);
        for (int how = 0; how < KL_CONTEST_OURS; how++) {
            if (how == KL_CONTEST_CUSPARSE && !KL_TEST_CUDA) continue;
            kl_test_case("contest on %d, way %d", w, how);
            expect_true(c.total[how] > 0 && c.worst[how] < 1e-13);
            expect_near(c.energy[how], c.energy[KL_CONTEST_OURS], 1e-9);
        }
        expect_true(c.energy[KL_CONTEST_OURS] < -3 && c.flop > 0 && c.vectors != NULL);
    }
    core_close(&j);
}

int main(void)
{
    if (device_is_absent()) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truncations), cmocka_unit_test(test_superblock),
        cmocka_unit_test(test_ground),      cmocka_unit_test(test_hybrid),
        cmocka_unit_test(test_mixed),       cmocka_unit_test(test_ed_states),
        cmocka_unit_test(test_contest),
    };
    /* with executors of its own: all memory must be back after every case */
    const struct CMUnitTest alone[] = {cmocka_unit_test(test_ed)};
    /* a name, with * in it: tools that watch every access want less */
    cmocka_set_test_filter(getenv("KL_TEST_ONLY"));
    const int failed = cmocka_run_group_tests(tests, setup, teardown);
    return failed + cmocka_run_group_tests(alone, NULL, NULL);
}
