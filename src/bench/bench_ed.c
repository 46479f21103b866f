/* `kronlat bench ed': products with H a second, each kernel checked against another and against a sum made
   element by element; and the time from nothing to the lowest energy.
   SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench_ed.h"
#include "exec/baselines.h"
#include "run/edrun.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/beside.h"
#include "solve/eig.h"
#include "solve/lobpcg.h"
#include "base/mem.h"
#include "base/prof.h"
#include "cli/report.h"

/* (H v)_i for a few i from the diagonal and one column each: H e_i . v, H being symmetric. */
static kl_status spot_check(const kl_ed *ed, kl_dptr x, kl_dptr y, kl_dptr e, kl_dptr he, double *worst,
                            kl_err *err)
{
    enum { SPOTS = 4 };
    kl_status st = KL_OK;
    kl_exec *const ex = ed->ex;
    const int64_t n = ed->op.n;
    *worst = 0.0;
    for (int s = 0; s < SPOTS; s++) {
        int64_t i = (int64_t)((double)n * (0.137 + 0.243 * s));
        int state[1024];
        while (!kl_bipartition_unrank(ed->space, i, state)) i = (i + 1) % n;
        double one = 1.0, want, have, size;
        ex->vt.fill(ex, n, 0.0, e);
        KL_TRY(ex->vt.upload(ex, kl_dptr_at(e, i), &one, 1, err));
        KL_TRY(ex->vt.kron_apply(ex, ed->kron, e, he, NULL, err));
        ex->vt.dots(ex, n, 1, he, n, x, &want);
        ex->vt.dots(ex, n, 1, he, n, he, &size);
        KL_TRY(ex->vt.download(ex, &have, kl_dptr_at(y, i), 1, err));
        *worst = fmax(*worst, fabs(have - want) / fmax(sqrt(size), 1e-300));
    }
out:
    return st;
}

/* States a second, by the clock and by the CPU time of all threads: where others use the machine as well, the
   latter says more. */
typedef struct speed {
    double wall, cpu;
} speed;

static kl_status one_kernel(const kl_ed *ed, const char *isa, int nthread, double seconds, const speed *base,
                            speed *rate, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *ex = NULL;
    kl_dptr v[4] = {{0}};
    const int64_t n = ed->op.n;
    if (isa) setenv("KRONLAT_ISA", isa, 1);
    KL_TRY(kl_exec_open_host(nthread, &ex, err));
    kl_ed part = *ed;
    part.ex = ex;
    ed->ex->vt.kron_release(ed->ex, ed->kron);
    KL_TRY(ex->vt.kron_prepare(ex, ed->kron, err));
    for (int i = 0; i < 4; i++) KL_TRY(ex->vt.alloc(ex, n, &v[i], err));
    KL_TRY(kl_ed_random(&part, 5, v[0], err));
    double best = INFINITY, cpu = INFINITY, worst, all = 0.0;
    for (int rep = 0; rep < 3 || (all < seconds && rep < 200); rep++) {
        double dot;
        const double t0 = kl_clock(), c0 = kl_prof_cpu_seconds();
        KL_TRY(ex->vt.kron_apply(ex, ed->kron, v[0], v[1], &dot, err));
        const double t = kl_clock() - t0, c = kl_prof_cpu_seconds() - c0;
        if (rep > 0 && t < best) best = t;
        if (rep > 0 && c < cpu) cpu = c;
        all += t;
    }
    KL_TRY(spot_check(&part, v[0], v[1], v[2], v[3], &worst, err));
    if (!(worst < 1e-13))
        KL_TRY(kl_fail(err, KL_EBROKEN, "bench ed: (H v)_i and (H e_i) . v differ by %.1e", worst));
    rate->wall = (double)ed->space->dim / best;
    rate->cpu = (double)ed->space->dim * nthread / cpu;
    printf("H v  dim=%lld  %s %-7s threads=%d  %9.3f ms  %7.1f million states/s", (long long)ed->space->dim,
           ed->space->flavours ? "flavours" : "sites", isa ? isa : "best", nthread, best * 1e3,
           rate->wall * 1e-6);
    printf(" (%.1f by CPU time)", 1e-6 * rate->cpu);
    if (base)
        printf("  %.2f x the first line (%.2f by CPU time)", rate->wall / base->wall, rate->cpu / base->cpu);
    printf("  resid %.0e PASS\n", worst);
    fflush(stdout);
out:
    if (ex)
        for (int i = 0; i < 4; i++) ex->vt.release(ex, &v[i]);
    kl_exec_close(&ex);
    unsetenv("KRONLAT_ISA");
    return st;
}

/* ---------------------------------------------------------------- devices */

static double median(int n, double *t)
{
    for (int i = 1; i < n; i++) /* a handful of numbers */
        for (int j = i; j > 0 && t[j] < t[j - 1]; j--) {
            const double s = t[j];
            t[j] = t[j - 1];
            t[j - 1] = s;
        }
    return t[n / 2];
}

/* |H v by ed's executor - H v by the host| / |H v|, v random. */
static kl_status beside_host(const kl_ed *ed, int nthread, kl_dptr x, kl_dptr y, double *residual,
                             kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = ed->ex, *host = NULL;
    kl_dptr hx = {0}, hy = {0};
    kl_kron k = *ed->kron; /* the same tables, another executor's work space */
    const int64_t n = ed->op.n;
    double size, off, dot, host_dot;
    k.device = NULL;
    KL_TRY(kl_exec_open_host(nthread, &host, err));
    KL_TRY(host->vt.alloc(host, n, &hx, err));
    KL_TRY(host->vt.alloc(host, n, &hy, err));
    KL_TRY(ex->vt.download(ex, (double *)hx.addr, x, n, err));
    KL_TRY(host->vt.kron_prepare(host, &k, err));
    KL_TRY(host->vt.kron_apply(host, &k, hx, hy, &host_dot, err));
    host->vt.dots(host, n, 1, hy, n, hy, &size);
    KL_TRY(ex->vt.kron_apply(ex, ed->kron, x, y, &dot, err));
    KL_TRY(ex->vt.download(ex, (double *)hx.addr, y, n, err));
    host->vt.axpby(host, n, -1.0, hx, 1.0, hy);
    host->vt.dots(host, n, 1, hy, n, hy, &off);
    *residual = fmax(sqrt(off / size), fabs(dot - host_dot) / sqrt(size * (double)n));
    if (!(*residual < 1e-13))
        KL_TRY(kl_fail(err, KL_EBROKEN, "bench ed: H v by %s and by the host differ by %.1e of |H v|",
                       ex->name, *residual));
out:
    if (k.device) host->vt.kron_release(host, &k);
    if (host) {
        host->vt.release(host, &hx);
        host->vt.release(host, &hy);
    }
    kl_exec_close(&host);
    return st;
}

/* Tables 1 and 3 of yamada2020, on this machine. */
static void print_contest(const kl_kron_contest *c, double ours_fused)
{
    static const char *const method[] = {"conventional", "cuSPARSE", "tuned", "ours"}; /* ORDER KL_CONTEST */
    static const char *const part[] = {"D v", "V A_dn^T", "A_up V", "transpose", "transpose, add"};
    printf("%-22s", "yamada2020, Table 1");
    for (int m = 0; m < KL_NCONTEST; m++) printf("%14s", method[m]);
    printf("   ms\n");
    for (int p = 0; p < 5; p++) {
        printf("  %-20s", part[p]);
        for (int m = 0; m < KL_NCONTEST; m++) {
            if (c->ms[m][p] > 0.0) printf("%14.3f", c->ms[m][p]);
            else
                printf("%14s", p > 0 || c->total[m] == 0 ? "-"
                               : m == KL_CONTEST_OURS    ? "in A_up V"
                                                         : "in V A_dn^T");
        }
        printf("\n");
    }
    printf("  %-20s", "H v");
    for (int m = 0; m < KL_NCONTEST; m++) {
        if (c->total[m] > 0.0) printf("%14.3f", c->total[m]);
        else printf("%14s", "-");
    }
    printf("   resid");
    for (int m = 0; m < KL_CONTEST_OURS; m++)
        if (c->total[m] > 0.0) printf(" %.0e", c->worst[m]);
    printf("\n");
    if (c->steps == 0) return;
    printf("yamada2020, Table 3: LOBPCG, %d steps\n", c->steps);
    const double gflop = 1e-9 * c->flop * c->steps;
    for (int m = 0; m < KL_NCONTEST; m++)
        if (c->seconds[m] > 0.0)
            printf("  %-12s + %s  %8.3f s  %8.1f GFLOPS   E %.12f\n", method[m], c->vectors, c->seconds[m],
                   gflop / c->seconds[m], c->energy[m]);
    printf("  %-12s + ours    %8.3f s  %8.1f GFLOPS   ", method[KL_CONTEST_OURS], ours_fused,
           gflop / ours_fused);
    if (c->seconds[KL_CONTEST_CUSPARSE] > 0.0)
        printf("%.2f x cuSPARSE + %s, ", c->seconds[KL_CONTEST_CUSPARSE] / ours_fused, c->vectors);
    printf("%.2f x the tuned H v + %s\n", c->seconds[KL_CONTEST_TUNED] / ours_fused, c->vectors);
}

/* LOBPCG's steps by the clock, from the first one's begin on. */
typedef struct steps {
    int made, most;
    double begin, end, energy;
} steps;

static int on_step(void *self, int napply, double energy, double residual)
{
    steps *const s = self;
    (void)napply;
    (void)residual;
    if (s->made == 0) s->begin = kl_clock();
    s->end = kl_clock();
    s->energy = energy;
    return s->made++ == s->most;
}

/* The two passes of a step of LOBPCG with one vector: inner products of x, w, p and their images, and five of
   them anew with all inner products of these, which have to be those that the first pass foretells. */
static kl_status fused_steps(const kl_ed *ed, double copy_ms, kl_err *err)
{
    enum {
        IN = 6,
        OUT = 5,
        PAIRS = IN * (IN + 1) / 2,
        NEW = OUT * (OUT + 1) / 2,
        ROUNDS = 9,
    };
    kl_status st = KL_OK;
    kl_exec *const ex = ed->ex;
    const int64_t n = ed->op.n;
    kl_dptr v[IN] = {{0}};
    double c[OUT][IN], g[IN][IN], dots[PAIRS], ms[2][ROUNDS], worst = 0.0;
    int old[PAIRS][2], made[NEW][2], k = 0;
    for (int j = 0; j < IN; j++) KL_TRY(ex->vt.alloc(ex, n, &v[j], err));
    for (int j = 0; j < IN; j++) KL_TRY(kl_ed_random(ed, 20 + (uint64_t)j, v[j], err));
    for (int j = 0; j < IN; j++)
        for (int i = 0; i <= j; i++, k++) old[k][0] = i, old[k][1] = j;
    for (int j = k = 0; j < OUT; j++)
        for (int i = 0; i <= j; i++, k++) made[k][0] = IN + i, made[k][1] = IN + j;
    for (int i = 0; i < OUT; i++)
        for (int j = 0; j < IN; j++) c[i][j] = 0.3 * cos(1.0 + 5.0 * i + 3.0 * j);
    const kl_fuse inner = {.nin = IN, .npair = PAIRS, .in = v, .pair = (const int (*)[2])old};
    const kl_fuse update = {
        .nin = IN, .nout = OUT, .npair = NEW, .in = v, .out = v, .c = c[0], .pair = (const int (*)[2])made};
    for (int r = 0; r < ROUNDS; r++) {
        double t0 = kl_clock();
        ex->vt.fuse(ex, n, &inner, dots);
        ms[0][r] = 1e3 * (kl_clock() - t0);
        for (k = 0; k < PAIRS; k++) g[old[k][0]][old[k][1]] = g[old[k][1]][old[k][0]] = dots[k];
        t0 = kl_clock();
        ex->vt.fuse(ex, n, &update, dots);
        ms[1][r] = 1e3 * (kl_clock() - t0);
        for (k = 0; k < NEW; k++) {
            const double *const a = c[made[k][0] - IN], *const b = c[made[k][1] - IN];
            double want = 0.0, size = 1e-300;
            for (int i = 0; i < IN; i++)
                for (int j = 0; j < IN; j++)
                    want += a[i] * g[i][j] * b[j], size += fabs(a[i] * g[i][j] * b[j]);
            worst = fmax(worst, fabs(dots[k] - want) / size);
            if (!isfinite(dots[k])) worst = INFINITY;
        }
    }
    if (!(worst < 1e-11))
        KL_TRY(kl_fail(
            err, KL_EBROKEN,
            "bench ed: inner products of a fused update by %s are %.1e away from those of what went in",
            ex->name, worst));
    const double t[2] = {median(ROUNDS, ms[0]), median(ROUNDS, ms[1])}, rate = 2.0 / copy_ms;
    printf("LOBPCG's passes: inner products of 6 vectors %8.3f ms (%.0f %% of copy), 5 of 6 vectors anew "
           "with theirs %8.3f ms (%.0f %%)  resid %.0e PASS\n",
           t[0], 100 * IN / t[0] / rate, t[1], 100 * (IN + OUT) / t[1] / rate, worst);
    fflush(stdout);
out:
    for (int j = 0; j < IN; j++) ex->vt.release(ex, &v[j]);
    return st;
}

static kl_status on_device(kl_ed *ed, int nthread, kl_err *err)
{
    enum {
        ROUNDS = 9,
        COPIES = 5,
        STEPS = 164,
    };
    kl_status st = KL_OK;
    kl_exec *const ex = ed->ex;
    const int64_t n = ed->op.n, ld = kl_eig_stride(n);
    kl_dptr x = {0}, y = {0};
    double ms[ROUNDS], copy[ROUNDS], residual = 0.0, one;
    kl_kron_contest c = {.steps = STEPS};
    KL_TRY(ex->vt.alloc(ex, ld, &x, err));
    KL_TRY(ex->vt.alloc(ex, ld, &y, err));
    KL_TRY(kl_ed_random(ed, 5, x, err));
    KL_TRY(beside_host(ed, nthread, x, y, &residual, err));
    for (int i = 0; i < ROUNDS; i++) {
        const double t0 = kl_clock();
        for (int k = 0; k < COPIES; k++) ex->vt.copy(ex, n, x, y);
        ex->vt.dots(ex, 1, 1, y, n, y, &one); /* waits for them */
        copy[i] = 1e3 * (kl_clock() - t0) / (double)COPIES;
    }
    for (int i = 0; i < ROUNDS; i++) {
        const double t0 = kl_clock();
        KL_TRY(ex->vt.kron_apply(ex, ed->kron, x, y, &one, err));
        ms[i] = 1e3 * (kl_clock() - t0);
    }
    const double each = median(ROUNDS, ms), ceiling = median(ROUNDS, copy), gb = 8e-9 * (double)n;
    printf("H v  dim=%lld  %s %s  %8.3f ms  %7.2f billion states/s  %5.0f GB/s in five passes (%.0f %% of "
           "copy, %.0f GB/s)  resid %.0e PASS\n",
           (long long)ed->space->dim, ed->space->flavours ? "flavours" : "sites", ex->name, each,
           1e-6 * (double)ed->space->dim / each, 5e3 * gb / each, 100 * 2.5 * ceiling / each,
           2e3 * gb / ceiling, residual);
    fflush(stdout);
    KL_TRY(fused_steps(ed, ceiling, err));
    if (ex->baselines && ex->baselines->kron_contest && ed->space->flavours) {
        steps count = {.most = STEPS};
        const kl_eig_opts o = {.nroot = 1,
                               .max_apply = 2 * STEPS,
                               .tol = 0.0,
                               .trust_start = 1,
                               .self = &count,
                               .step = on_step};
        kl_eig_stats stats;
        double energy, told;
        ex->vt.release(ex, &y);
        KL_TRY(kl_ed_random(ed, 11, x, err));
        KL_TRY(kl_lobpcg_solve(&ed->op, &o, 1, x, ld, &energy, &told, &stats, err));
        ex->vt.release(ex, &x);
        KL_TRY(ex->baselines->kron_contest(ex, ed->kron, &c, err));
        print_contest(&c, count.end - count.begin);
        printf("  (ours: %d steps with %d products, %.3f s of them in these; E %.12f)\n", count.made - 1,
               stats.napply, stats.seconds_apply, count.energy);
    }
out:
    ex->vt.release(ex, &x);
    ex->vt.release(ex, &y);
    return st;
}

/* ---------------------------------------------------------------- all of it */

kl_status kl_bench_ed(kl_options *o, double exact, const char *beside, kl_err *err)
{
    static const char *const isas[] = {"avx2", "generic"};
    kl_status st = KL_OK;
    kl_task *t = NULL;
    kl_ed *ed = NULL;
    kl_ed_opts opts;
    kl_ed_result r = {0};
    speed base = {0}, rate;
    KL_TRY(kl_options_check(o, err));
    o->command = KL_CMD_ED;
    KL_TRY(kl_task_create(o, 0, &t, err));
    KL_TRY(kl_task_charges(t, err));
    KL_TRY(kl_task_one_sector(t, "a benchmark is of", err));
    KL_TRY(kl_task_exec(o, &t->ex, err));
    kl_edrun_opts(t, &opts);
    if (t->terms->nsite > 1024)
        KL_TRY(kl_fail(err, KL_EINPUT, "bench ed: %d sites; at most 1024", t->terms->nsite));
    KL_TRY(kl_ed_create(t->terms, t->target, kl_edrun_form(o), t->ex, &ed, err));
    if (t->ex->space == KL_SPACE_DEVICE) {
        KL_TRY(on_device(ed, kl_task_threads(o), err));
    } else {
        KL_TRY(one_kernel(ed, NULL, 1, 2.0, NULL, &base, err));
        for (int i = 0; i < 2; i++) KL_TRY(one_kernel(ed, isas[i], 1, 1.0, &base, &rate, err));
        if (t->ex->nthread > 1) KL_TRY(one_kernel(ed, NULL, t->ex->nthread, 2.0, &base, &rate, err));
    }
    kl_ed_destroy(&ed);
    const double t0 = kl_clock(), c0 = kl_prof_cpu_seconds();
    KL_TRY(kl_ed_create(t->terms, t->target, kl_edrun_form(o), t->ex, &ed, err));
    KL_TRY(kl_ed_run(ed, &opts, NULL, NULL, &r, err));
    printf("E0   %.13f  +- %.0e  residual %.0e  %s, %d products, %.2f s (CPU %.2f) from nothing (%.2f s in "
           "products, %.2f s making lists), %d vectors of %.3g GB, %d threads\n",
           r.energy[0], fmax(r.error[0], r.attainable), r.residual[0], kl_ed_solver_name[r.solver], r.napply,
           kl_clock() - t0, kl_prof_cpu_seconds() - c0, r.seconds_apply, ed->seconds_build, r.nvector,
           8e-9 * (double)r.n, t->ex->nthread);
    const double ours = kl_prof_cpu_seconds() - c0;
    if (exact != 0.0) {
        const double off = fabs(r.energy[0] - exact) / fabs(exact);
        printf("     relative error %.1e of %.15g: %s\n", off, exact, off <= opts.accuracy ? "PASS" : "FAIL");
        if (!(off <= opts.accuracy))
            KL_TRY(kl_fail(err, KL_EBROKEN, "bench ed: the energy is %.15g, %.1e away from %.15g",
                           r.energy[0], off, exact));
    }
    if (beside) {
        double their_rate, their_energy, cpu;
        KL_TRY(kl_beside_run(beside, &their_rate, &their_energy, &cpu, err));
        if (their_rate > 0.0 && base.wall > 0.0)
            printf("     H v: %.2f x the rate beside\n", 1e-6 * base.wall / their_rate);
        if (their_energy != 0.0)
            printf("     E0: energies differ by %.1e; CPU time %.2f s, beside %.2f s, ratio %.4f\n",
                   fabs(their_energy - r.energy[0]), ours, cpu, ours / cpu);
    }
out:
    kl_ed_result_clear(&r);
    kl_ed_destroy(&ed);
    kl_task_destroy(&t);
    return st;
}
