/* `kronlat bench`: the same operation by every path, each checked against one answer before its time is
   printed. One line a measurement: what and shape, time, rate, share of the dgemm rate measured in the same
   run, residual.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/bench_auto.h"
#include "bench/bench_offload.h"
#include "bench/bench_ci.h"
#include "bench/bench_compare.h"
#include "bench/bench_hx.h"
#include "bench/bench_run.h"
#include "bench/bench_tall.h"
#include "cli/commandline.h"
#include "bench/bench_ed.h"
#include "base/blas.h"
#include "config.h"
#include "dmrg/engine.h"
#include "dmrg/opdense.h"
#include "base/gemm.h"
#include "exec/joined.h"
#include "base/mem.h"
#include "base/prof.h"
#include "cli/report.h"
#include "run/task.h"
#ifdef KL_HAVE_XSMM
#include <libxsmm.h>
#endif

/* ---------------------------------------------------------------- gemm */

static double rate(int n, int blas, kl_gemm_fn *gemm, const double *a, const double *b, double *c)
{
    double best = 0;
    for (int r = 0; r < 5; r++) {
        int64_t runs = 0;
        const double t0 = kl_clock();
        double t;
        do {
            for (int i = 0; i < 4; i++) {
                if (blas) kl_dgemm('N', 'T', n, n, n, 1.0, a, n, b, n, 0.0, c, n);
                else gemm(0, 1, n, n, n, 1.0, a, n, b, n, 0.0, c, n);
            }
            runs += 4;
            t = kl_clock() - t0;
        } while (t < 4e-3);
        const double g = 2e-9 * n * n * n * (double)runs / t;
        best = g > best ? g : best;
    }
    return best;
}

#ifdef KL_HAVE_XSMM
/* libxsmm makes a kernel per shape: its rate once made, and what making one costs (alpha = 1 and a plain
   first factor are all it serves). */
static void print_xsmm(int n, const double *a, const double *b, double *c)
{
    const double one = 1, zero = 0;
    const int flags = LIBXSMM_GEMM_FLAG_TRANS_B;
    double best = 0;
    const double t0 = kl_clock();
    libxsmm_dmmdispatch(n, n, n - 1, &n, &n, &n, &one, &zero, &flags, NULL);
    const double make = kl_clock() - t0;
    const libxsmm_dmmfunction f = libxsmm_dmmdispatch(n, n, n, &n, &n, &n, &one, &zero, &flags, NULL);
    if (!f) return;
    for (int r = 0; r < 5; r++) {
        const double t1 = kl_clock();
        int64_t runs = 0;
        double t;
        do {
            for (int i = 0; i < 4; i++) f(a, b, c);
            runs += 4;
            t = kl_clock() - t1;
        } while (t < 4e-3);
        const double g = 2e-9 * n * n * n * (double)runs / t;
        best = g > best ? g : best;
    }
    printf(" | libxsmm %7.2f GFLOP/s, a new shape %.0f us", best, make * 1e6);
}
#endif

static kl_status bench_gemm(kl_err *err)
{
    enum { MOST = 512 };
    static const int sizes[] = {4, 8, 12, 16, 24, 32, 48, 64, 100, 128, 200, 256, 384, MOST};
    kl_status st = KL_OK;
    double *x = NULL;
    const char *isa;
    kl_gemm_fn *const gemm = kl_gemm_choose(&isa);
    KL_TRY(kl_alloc(&x, 4 * (int64_t)MOST * MOST, KL_MEM_WORK, err));
    double *const a = x, *const b = a + MOST * MOST, *const c = b + MOST * MOST, *const d = c + MOST * MOST;
    for (int i = 0; i < 2 * MOST * MOST; i++) x[i] = sin(i * 0.7 + 1);
    kl_blas_init();
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const int n = sizes[s];
        double worst = 0;
        gemm(0, 1, n, n, n, 1.0, a, n, b, n, 0.0, c, n);
        kl_dgemm('N', 'T', n, n, n, 1.0, a, n, b, n, 0.0, d, n);
        for (int i = 0; i < n * n; i++) worst = fmax(worst, fabs(c[i] - d[i]));
        const double limit = 4 * 2.3e-16 * n, ours = rate(n, 0, gemm, a, b, c),
                     theirs = rate(n, 1, gemm, a, b, d);
        if (!(worst < limit * 4)) {
            st = kl_fail(err, KL_EBROKEN, "gemm n=%d: the two answers differ by %.1e", n, worst);
            goto out;
        }
        printf("gemm NT n=%-4d | kronlat %s %7.2f GFLOP/s | BLAS %7.2f GFLOP/s", n, isa, ours, theirs);
#ifdef KL_HAVE_XSMM
        if (n <= 128) print_xsmm(n, a, b, d);
#endif
        printf(" | resid %.0e PASS\n", worst);
    }
out:
    kl_free(&x);
    return st;
}

/* ---------------------------------------------------------------- dmrg */

typedef struct watch {
    double exact, accuracy, cpu0, reached;
} watch;

static void on_sweep(void *self, const kl_dmrg_row *rows, int nrow)
{
    watch *const w = self;
    const kl_dmrg_row *const r = &rows[nrow - 1];
    const double cpu = kl_prof_cpu_seconds() - w->cpu0, rel = (r->energy[0] - w->exact) / fabs(w->exact);
    printf("  m %5d  E %.12f", r->m_reached, r->energy[0]);
    if (w->exact != 0) printf("  rel.err %9.2e", rel);
    printf("  discarded %.1e  cpu %7.2f\n", r->discarded, cpu);
    if (w->exact != 0 && w->reached < 0 && fabs(rel) <= w->accuracy) w->reached = cpu;
    fflush(stdout);
}

/* Runs a command and looks for the first line whose 'rel.err' is small enough; its 'cpu' goes out, -1 when
   there is none. */
static kl_status beside(const char *command, double accuracy, double *seconds, kl_err *err)
{
    char line[1024];
    *seconds = -1;
    FILE *const f = popen(command, "r");
    if (!f) return kl_fail(err, KL_EIO, "bench: '%s' cannot be run", command);
    while (fgets(line, sizeof line, f)) {
        const char *const e = strstr(line, "rel.err"), *const c = e ? strstr(e, "cpu") : NULL;
        printf("    beside: %s", line);
        if (!c) continue;
        char num[2][40];
        double rel, cpu;
        if (sscanf(e + 7, " %39s", num[0]) == 1 && sscanf(c + 3, " %39s", num[1]) == 1 &&
            kl_parse_double(num[0], &rel) && kl_parse_double(num[1], &cpu) && fabs(rel) <= accuracy &&
            *seconds < 0)
            *seconds = cpu;
    }
    return pclose(f) == 0 ? KL_OK : kl_fail(err, KL_EIO, "bench: '%s' failed", command);
}

static kl_status bench_dmrg_one(kl_options *o, double exact, const char *command, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *t = NULL;
    kl_state *state = NULL;
    kl_dmrg_result res = {0};
    KL_TRY(kl_options_check(o, err));
    o->command = KL_CMD_DMRG;
    watch w = {.exact = exact,
               .accuracy = o->accuracy > 0 ? o->accuracy : 1e-9,
               .reached = -1,
               .cpu0 = kl_prof_cpu_seconds()};
    KL_TRY(kl_task_create(o, 0, &t, err));
    KL_TRY(kl_task_settle(t, err));
    KL_TRY(kl_task_charges(t, err));
    KL_TRY(kl_task_one_sector(t, "a benchmark is of", err));
    KL_TRY(kl_task_aim(t, t->target, err));
    printf("dmrg %s%s%s%s %s sites=%d accuracy=%.0e threads=%d\n", t->model->name,
           *t->model->variant ? "(" : "", t->model->variant, *t->model->variant ? ")" : "", t->lat->spec,
           t->lat->nsite, w.accuracy, t->ex->nthread);
    const kl_dmrg_monitor mon = {.self = &w, .sweep = on_sweep};
    KL_TRY(kl_dmrg_run(t->terms, t->ex, &t->dmrg, &mon, &state, &res, err));
    const double all = kl_prof_cpu_seconds() - w.cpu0;
    double theirs = -1;
    if (command) KL_TRY(beside(command, w.accuracy, &theirs, err));
    if (exact != 0 && w.reached < 0)
        KL_TRY(kl_fail(err, KL_EBROKEN, "bench dmrg: the energy is %.12f, %.1e from %.12f; wanted was %.0e",
                       res.energy[0], fabs((res.energy[0] - exact) / exact), exact, w.accuracy));
    if (exact != 0)
        printf("  kronlat: accuracy reached after %.2f CPU s, stopped by itself after %.2f | rel.err %.1e, "
               "own estimate %.1e | PASS\n",
               w.reached, all, (res.energy[0] - exact) / fabs(exact),
               res.error_estimate / fabs(res.energy[0]));
    else
        printf("  kronlat: stopped by itself after %.2f CPU s | own estimate %.1e\n", all,
               res.error_estimate / fabs(res.energy[0]));
    if (theirs > 0 && exact != 0)
        printf("  beside: %.2f CPU s | ratio kronlat / beside %.3f (to its own stop %.3f)\n", theirs,
               w.reached / theirs, all / theirs);
out:
    kl_state_destroy(&state);
    kl_dmrg_result_clear(&res);
    kl_task_destroy(&t);
    return st;
}

/* ---------------------------------------------------------------- hx */

static int at_middle(void *self)
{
    const kl_dmrg_step *const s = self;
    return s->m > 0 && s->direction > 0 && s->bond == s->nstep / 4;
}

typedef struct stopper {
    int m;
    kl_dmrg_step last;
} stopper;

static void remember(void *self, const kl_dmrg_step *s)
{
    stopper *const w = self;
    w->last = *s;
    if (s->m < w->m) w->last.m = 0;
}

static int stop_there(void *self) { return at_middle(&((stopper *)self)->last); }

static double measured_dgemm(void)
{
    double best = 0;
    for (int i = 0; i < 3; i++) {
        const double g = kl_blas_measure(512);
        best = g > best ? g : best;
    }
    return best;
}

/* One H x by a strategy and a number of threads; y[lay->n] of the first call is what later ones are compared
   with. */
static kl_status hx_once(const kl_task *t, kl_state **state, kl_strategy strategy, int nthread, int joins,
                         double ceiling, double **y0, double *base, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *ex = NULL, *plain = NULL;
    kl_engine *e = NULL;
    kl_bigop *l = NULL, *r = NULL;
    kl_superblock *s = NULL;
    kl_dptr x = {0}, y = {0};
    double *host = NULL;
    KL_TRY(kl_exec_open_host(nthread, &plain, err));
    if (joins) KL_TRY(kl_exec_open_joined_take(&plain, &ex, err));
    else ex = plain, plain = NULL;
    const kl_engine_opts eo = {
        .target = t->target, .nstate = 1, .strategy = strategy, .solver = KL_SOLVER_DAVIDSON, .seed = 1};
    KL_TRY(kl_engine_create(t->terms, ex, &eo, &e, err));
    KL_TRY(kl_engine_resume_take(e, state, err));
    KL_TRY(kl_engine_state(e, (double[KL_MAX_STATE]){0}, state, err));
    const int c = e->centre;
    KL_TRY(kl_bigop_create(e->left_block[c], e->row, c, &l, err));
    KL_TRY(kl_bigop_create(e->right_block[c + 2], e->col, c + 1, &r, err));
    if (strategy == KL_STRATEGY_LR) {
        KL_TRY(kl_bigop_make_dense(l, err));
        KL_TRY(kl_bigop_make_dense(r, err));
    }
    KL_TRY(kl_superblock_create(ex, l, r, t->target, 0, &s, err));
    const int64_t n = s->layout.n;
    KL_TRY(kl_alloc(&host, n, KL_MEM_WORK, err));
    for (int64_t i = 0; i < n; i++) host[i] = sin((double)i * 0.37 + 1);
    KL_TRY(ex->vt.alloc(ex, n, &x, err));
    KL_TRY(ex->vt.alloc(ex, n, &y, err));
    KL_TRY(ex->vt.upload(ex, x, host, n, err));
    double best = INFINITY, worst = 0, size = 0;
    for (int rep = 0; rep < 9; rep++) {
        const double t0 = kl_clock();
        KL_TRY(s->op.apply(&s->op, 1, x, n, y, n, err));
        const double dt = kl_clock() - t0;
        if (rep > 0 && dt < best) best = dt;
    }
    KL_TRY(ex->vt.download(ex, host, y, n, err));
    if (!*y0) {
        *y0 = host;
        host = NULL;
    }
    for (int64_t i = 0; host && i < n; i++)
        worst = fmax(worst, fabs(host[i] - (*y0)[i])), size = fmax(size, fabs((*y0)[i]));
    const double resid = host ? worst / size : 0;
    if (!(resid < 1e-12)) {
        st = kl_fail(err, KL_EBROKEN, "bench hx: %s on %d threads differs from the first answer by %.1e",
                     strategy == KL_STRATEGY_LR ? "lr" : "l11r", nthread, resid);
        goto out;
    }
    if (*base <= 0) *base = best;
    printf("hx %s m=%lld dim=%lld records=%lld | host %-4s%s threads=%d %9.3f ms %7.2f GFLOP/s (%3.0f %% of "
           "dgemm x threads) | %.2f x the first line | resid %.0e PASS\n",
           t->model->name, (long long)t->o->m, (long long)n, (long long)s->batch.nrec,
           strategy == KL_STRATEGY_LR ? "lr" : "l11r", joins ? " joined" : "", nthread, best * 1e3,
           s->batch.flop / best * 1e-9, 100 * s->batch.flop / best * 1e-9 / (ceiling * nthread), *base / best,
           resid);
out:
    if (ex) {
        ex->vt.release(ex, &x);
        ex->vt.release(ex, &y);
    }
    kl_superblock_destroy(&s);
    kl_bigop_destroy(&l);
    kl_bigop_destroy(&r);
    kl_engine_destroy(&e);
    kl_exec_close(&ex);
    kl_exec_close(&plain);
    kl_free(&host);
    return st;
}

static kl_status bench_hx(kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *t = NULL;
    kl_state *state = NULL;
    kl_dmrg_result res = {0};
    double *y0 = NULL, base = 0;
    kl_dmrg_sweep sweeps[64];
    KL_TRY(kl_options_check(o, err));
    o->command = KL_CMD_DMRG;
    if (o->m <= 0) o->m = 512;
    KL_TRY(kl_task_create(o, 0, &t, err));
    KL_TRY(kl_task_exec(o, &t->ex, err));
    KL_TRY(kl_task_charges(t, err));
    KL_TRY(kl_task_one_sector(t, "a benchmark is of", err));
    KL_TRY(kl_task_aim(t, t->target, err));
    int n = 0;
    for (int m = 32; n < 63; m *= 2) {
        const int capped = m < o->m ? m : (int)o->m;
        sweeps[n++] = (kl_dmrg_sweep){.m = capped, .noise = capped < o->m ? 1e-5 : 0, .tol = 1e-4};
        if (capped == o->m) break;
    }
    sweeps[n++] = (kl_dmrg_sweep){.m = (int)o->m + 1, .tol = 1e-4}; /* stops at its middle */
    stopper w = {.m = (int)o->m + 1};
    const kl_dmrg_monitor mon = {.self = &w, .step = remember, .interrupted = stop_there};
    t->dmrg.nsweep = n;
    t->dmrg.sweep = sweeps;
    t->dmrg.max_apply = 3;
    t->dmrg.sites = KL_SITES_TWO; /* what each strategy puts together */
    KL_TRY(kl_dmrg_run(t->terms, t->ex, &t->dmrg, &mon, &state, &res, err));
    const double ceiling = measured_dgemm();
    printf("dgemm n=512, one thread: %.1f GFLOP/s\n", ceiling);
    const int many = t->ex->nthread;
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < (many > 1 ? 4 : 2); k++)
            KL_TRY(hx_once(t, &state, s ? KL_STRATEGY_LR : KL_STRATEGY_L11R, k < 2 ? 1 : many, k % 2, ceiling,
                           &y0, &base, err));
out:
    kl_free(&y0);
    kl_state_destroy(&state);
    kl_dmrg_result_clear(&res);
    kl_task_destroy(&t);
    return st;
}

/* ---------------------------------------------------------------- */

static const struct {
    const char *words[10];
    double exact; /* Bethe ansatz, open chain */
} cases[] = {
    {{"bench", "dmrg", "heisenberg", "--sites=100", "--charge=Sz=0", "--accuracy=1e-10", "--threads=1"},
     -44.127739893296235},
    {{"bench", "dmrg", "hubbard", "--sites=100", "-pU=8", "--charge=N_up=50", "--charge=N_dn=50",
      "--accuracy=1e-8", "--threads=1"},
     -32.545776173090661},
    {{"bench", "dmrg", "hubbard", "--sites=100", "-pU=8", "--charge=N_up=50", "--charge=N_dn=50",
      "--accuracy=1e-10", "--threads=1"},
     -32.545776173090661},
};
enum { NCASE = sizeof cases / sizeof *cases };

/* Without a model: all cases, each with another program where these are named. */
static kl_status bench_cases(const kl_options *asked, kl_err *err)
{
    kl_status st = KL_OK;
    kl_options *o = NULL;
    const char *name, *value;
    char number[40];
    for (int i = 0; kl_options_given(asked, i, &name, &value, number); i++)
        if (strcmp(name, "beside") != 0)
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "bench dmrg: MODEL is missing; without one --beside alone is allowed, not --%s",
                           name));
    if (asked->bench.beside.n > NCASE)
        KL_TRY(kl_fail(err, KL_EINPUT, "--beside: at most %d commands", (int)NCASE));
    for (int i = 0; i < NCASE; i++) {
        char *words[10];
        int n = 0;
        while (n < 10 && cases[i].words[n]) words[n] = (char *)(uintptr_t)cases[i].words[n], n++;
        KL_TRY(kl_commandline_parse(n, words, &o, err));
        KL_TRY(bench_dmrg_one(o, cases[i].exact,
                              i < asked->bench.beside.n ? asked->bench.beside.text[i] : NULL, err));
        kl_options_destroy(&o);
    }
out:
    kl_options_destroy(&o);
    return st;
}

kl_status kl_bench_run(kl_options *o, kl_err *err)
{
    const kl_bench_options *const b = &o->bench;
    const char *const beside = b->beside.n > 0 ? b->beside.text[0] : NULL;
    if (o->model != NULL && b->beside.n > 1)
        return kl_fail(err, KL_EINPUT, "--beside: one command for one model, not %d", b->beside.n);
    if (kl_options_typed(o, (const char *const[]){"exact", NULL}) && b->exact == 0)
        return kl_fail(err, KL_EINPUT, "--exact: 0 is not an energy to compare with");
    switch (o->command) {
    case KL_CMD_TUNE: return kl_bench_tune(o, err);
    case KL_CMD_BENCH_GEMM: return bench_gemm(err);
    case KL_CMD_BENCH_GEMV_TRANS:
    case KL_CMD_BENCH_GEMV_NORMAL: return kl_bench_tall(o, err);
    case KL_CMD_BENCH_COMPARE: return kl_bench_compare(o, err);
    case KL_CMD_BENCH_DMRG: return o->model ? bench_dmrg_one(o, b->exact, beside, err) : bench_cases(o, err);
    case KL_CMD_BENCH_ED: return kl_bench_ed(o, b->exact, beside, err);
    case KL_CMD_BENCH_CI: return kl_bench_ci(o, err);
    case KL_CMD_BENCH_AUTO: return kl_bench_auto(o, err);
    case KL_CMD_BENCH_RUN: return kl_bench_whole_run(o, err);
    case KL_CMD_BENCH_HX: return bench_hx(o, err);
    case KL_CMD_BENCH_REPLAY: return kl_bench_replay(o, err);
    case KL_CMD_BENCH_OFFLOAD:
    case KL_CMD_BENCH_CUDA: return kl_bench_offload(o, err);
    default: kl_commandline_help(KL_CMD_BENCH); return KL_OK;
    }
}
