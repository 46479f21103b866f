/* `kronlat bench ed': products with H a second, each kernel checked against another and against a sum made element by element; and the time from nothing to
   the lowest energy.
   SPDX-License-Identifier: Apache-2.0 */
#include "edrun.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "prof.h"
#include "report.h"

/* (H v)_i for a few places from the diagonal and one column each: H e_i . v, H being symmetric. */
static kl_status spot_check(const kl_ed *ed, kl_dptr x, kl_dptr y, kl_dptr e, kl_dptr he, double *worst, kl_err *err)
{
    enum { SPOTS = 4 };
    kl_status st = KL_OK;
    kl_exec *const ex = ed->ex;
    const int64_t n = ed->op.n;
    *worst = 0.0;
    for (int s = 0; s < SPOTS; s++) {
        int64_t i = (int64_t)((double)n * (0.137 + 0.243 * s));
        int state[1024];
        while (!kl_halves_unrank(ed->space, i, state)) i = (i + 1) % n;
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

static kl_status one_kernel(const kl_ed *ed, const char *isa, int nthread, double seconds, double base, double *rate, kl_err *err)
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
    if (!(worst < 1e-13)) KL_TRY(kl_fail(err, KL_EBROKEN, "bench ed: (H v)_i and (H e_i) . v differ by %.1e", worst));
    *rate = (double)ed->space->dim / best;
    printf("H v  dim=%lld  %s %-7s threads=%d  %9.3f ms  %7.1f million states/s", (long long)ed->space->dim, ed->space->flavours ? "flavours" : "sites",
           isa ? isa : "best", nthread, best * 1e3, *rate * 1e-6);
    /* Where others use the machine as well, CPU time says more. */
    if (nthread == 1) printf(" (%.1f by CPU time)", 1e-6 * (double)ed->space->dim / cpu);
    if (base > 0) printf("  %.2f x the first line", *rate / base);
    printf("  resid %.0e PASS\n", worst);
    fflush(stdout);
out:
    if (ex)
        for (int i = 0; i < 4; i++) ex->vt.release(ex, &v[i]);
    kl_exec_close(&ex);
    unsetenv("KRONLAT_ISA");
    return st;
}

kl_status kl_edrun_bench(int argc, char **argv, kl_err *err)
{
    static const char *const isas[] = {"avx2", "generic"};
    kl_status st = KL_OK;
    kl_options *o = NULL;
    kl_task *t = NULL;
    kl_ed *ed = NULL;
    kl_ed_opts opts;
    kl_ed_result r = {0};
    double base = 0.0, rate;
    KL_TRY(kl_options_parse(argc, argv, &o, err));
    KL_TRY(kl_options_check(o, err));
    KL_TRY(kl_task_create(o, 0, &t, err));
    KL_TRY(kl_task_charges(t, err));
    KL_TRY(kl_task_exec(o, &t->ex, err));
    kl_edrun_opts(t, &opts);
    if (t->terms->nsite > 1024) KL_TRY(kl_fail(err, KL_EINPUT, "bench ed: %d sites; at most 1024", t->terms->nsite));
    KL_TRY(kl_ed_create(t->terms, t->target, kl_edrun_form(o), t->ex, &ed, err));
    KL_TRY(one_kernel(ed, NULL, 1, 2.0, 0.0, &base, err));
    for (int i = 0; i < 2; i++) KL_TRY(one_kernel(ed, isas[i], 1, 1.0, base, &rate, err));
    if (t->ex->nthread > 1) KL_TRY(one_kernel(ed, NULL, t->ex->nthread, 2.0, base, &rate, err));
    kl_ed_destroy(&ed);
    const double t0 = kl_clock(), c0 = kl_prof_cpu_seconds();
    KL_TRY(kl_ed_create(t->terms, t->target, kl_edrun_form(o), t->ex, &ed, err));
    KL_TRY(kl_ed_run(ed, &opts, NULL, NULL, &r, err));
    printf("E0   %.13f  +- %.0e  residual %.0e  %s, %d products, %.2f s (CPU %.2f) from nothing (%.2f s in products, %.2f s making lists), %d vectors of %.3g GB, %d threads\n",
           r.energy[0], fmax(r.error[0], r.attainable), r.residual[0], kl_ed_solver_name[r.solver], r.napply, kl_clock() - t0, kl_prof_cpu_seconds() - c0, r.seconds_apply, ed->seconds_build,
           r.nvector, 8e-9 * (double)r.n, t->ex->nthread);
out:
    kl_ed_result_clear(&r);
    kl_ed_destroy(&ed);
    kl_task_destroy(&t);
    kl_options_destroy(&o);
    return st;
}
