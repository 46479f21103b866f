/* Operations of a device on vectors, compared with the rate of its memory.
   SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench_lines.h"
#include "exec/baselines.h"
#include "base/mem.h"
#include "base/random.h"
#include "cli/report.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDEST = 24 /* columns of V */ };

typedef struct stream {
    kl_exec *ex;
    int what, nvec, waits;
    int64_t n, ldv;
    kl_dptr v, x, y;
    double out[WIDEST], c[WIDEST];
} stream;

enum { COPY, FILL, SCALE, AXPY, AXPBY, PRECONDITION, DOT, DOTS, COMBINE };

static kl_status stream_run(void *self, kl_err *err)
{
    stream *const s = self;
    const kl_vtable *const vt = &s->ex->vt;
    double last;
    switch (s->what) {
    case COPY: vt->copy(s->ex, s->n, s->x, s->y); break;
    case FILL: vt->fill(s->ex, s->n, 0.5, s->y); break;
    case SCALE: vt->axpby(s->ex, s->n, 0.75, s->x, 0.0, s->y); break;
    case AXPY: vt->axpby(s->ex, s->n, 1e-3, s->x, 1.0, s->y); break;
    case AXPBY: vt->axpby(s->ex, s->n, 1e-3, s->x, 0.75, s->y); break;
    case PRECONDITION: vt->precondition(s->ex, s->n, s->x, 3.0, 1e-3, s->y, s->y); break;
    case DOT: vt->dots(s->ex, s->n, 1, s->x, s->n, s->y, s->out); break;
    case DOTS: vt->dots(s->ex, s->n, s->nvec, s->v, s->ldv, s->x, s->out); break;
    default: vt->combine(s->ex, s->n, s->nvec, s->v, s->ldv, s->c, 0.0, s->y);
    }
    /* what was only asked for is done then */
    return s->waits ? vt->download(s->ex, &last, s->y, 1, err) : KL_OK;
}

/* y after the operation against the host's, on the first and last 100000 numbers. */
static kl_status stream_residual(stream *s, double *worst, kl_err *err)
{
    enum { PART = 100000 };
    kl_status st = KL_OK;
    double *a = NULL, *v = NULL;
    *worst = 0;
    const int nvec = s->what == DOTS || s->what == COMBINE ? s->nvec : 1;
    KL_TRY(kl_alloc(&a, 3 * PART, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&v, (int64_t)nvec * PART, KL_MEM_WORK, err));
    double *const x = a, *const y = a + PART, *const got = a + 2 * PART;
    stream part = *s;
    part.n = s->n < PART ? s->n : PART;
    for (int end = 0; end < 2; end++) {
        const int64_t n = part.n, from = end ? s->n - n : 0;
        part.x = kl_dptr_at(s->x, from), part.y = kl_dptr_at(s->y, from), part.v = kl_dptr_at(s->v, from);
        KL_TRY(s->ex->vt.download(s->ex, x, part.x, n, err));
        KL_TRY(s->ex->vt.download(s->ex, y, part.y, n, err));
        for (int j = 0; j < nvec && s->v.addr; j++)
            KL_TRY(s->ex->vt.download(s->ex, v + (int64_t)j * n, kl_dptr_at(part.v, j * s->ldv), n, err));
        KL_TRY(stream_run(&part, err));
        KL_TRY(s->ex->vt.download(s->ex, got, part.y, n, err));
        for (int j = 0; j < nvec && (s->what == DOT || s->what == DOTS); j++) {
            double sum = 0;
            for (int64_t i = 0; i < n; i++) sum += s->what == DOT ? x[i] * y[i] : v[j * n + i] * x[i];
            *worst = fmax(*worst, fabs(sum - part.out[j]) / (double)n);
        }
        for (int64_t i = 0; i < n; i++) {
            double want = 0;
            switch (s->what) {
            case COPY: want = x[i]; break;
            case FILL: want = 0.5; break;
            case SCALE: want = 0.75 * x[i]; break;
            case AXPY: want = 1e-3 * x[i] + y[i]; break;
            case AXPBY: want = 1e-3 * x[i] + 0.75 * y[i]; break;
            case PRECONDITION: want = y[i] / (x[i] - 3.0); break;
            case COMBINE:
                for (int j = 0; j < nvec; j++) want += s->c[j] * v[j * n + i];
                break;
            default: want = got[i];
            }
            const double off = fabs(got[i] - want);
            if (!(off <= *worst)) *worst = off;
        }
    }
out:
    kl_free(&a);
    kl_free(&v);
    return st;
}

static kl_status stream_line(kl_bench_device *b, stream *s, const char *name, double bytes, kl_err *err)
{
    kl_status st = KL_OK;
    double worst, t;
    /* copies are everybody's ceiling */
    if (!kl_bench_wanted(b, name) && (s->what != COPY || b->copy > 0)) return KL_OK;
    s->waits = !b->plain && s->what != DOT && s->what != DOTS;
    KL_TRY(stream_residual(s, &worst, err));
    if (!(worst < 1e-13)) {
        st = kl_fail(err, KL_EBROKEN, "bench: %s is off by %.1e", name, worst);
        goto out;
    }
    KL_TRY(kl_bench_steady(stream_run, s, &t, err));
    const double rate = bytes / t * 1e-9;
    if (s->what == COPY && b->copy == 0) b->copy = rate;
    const int reads = (s->what == DOT || s->what == DOTS) && b->read > 0;
    printf("%-13s n=%-10lld nvec=%-3d | %-7s %9.4f ms %8.1f GB/s %4.0f %% of %s | resid %.0e PASS\n", name,
           (long long)s->n, s->nvec, s->ex == b->plain ? "plain" : s->ex->name, t * 1e3, rate,
           100 * rate / (reads ? b->read : b->copy), reads ? "reading" : "copy", worst);
    fflush(stdout);
out:
    return st;
}

/* Reading and no more, by CUDA and the device's clock: what products of vectors cannot beat. */
static kl_status reading_ceiling(kl_bench_device *b, int64_t n, kl_dptr v, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = b->cuda ? b->cuda : b->ex;
    double out[WIDEST];
    kl_trial t = {.op = KL_OP_DOTS,
                  .way = KL_WAY_READ,
                  .repeat = 5,
                  .n = n,
                  .ldv = n,
                  .nvec = WIDEST,
                  .v = v,
                  .x = v,
                  .out = out};
    if (!(ex->baselines && ex->baselines->trial)) return KL_OK;
    KL_TRY(ex->baselines->trial(ex, &t, err));
    b->read = 8e-9 * (WIDEST + 1) * (double)n / t.seconds;
    printf("reading       n=%-10lld nvec=%-3d | CUDA    %9.4f ms %8.1f GB/s\n", (long long)n, WIDEST,
           t.seconds * 1e3, b->read);
out:
    return st;
}

kl_status kl_bench_streams(kl_bench_device *b, kl_err *err)
{
    static const struct {
        const char *name;
        int what, passes;
    } simple[] = {{"copy", COPY, 2}, {"fill", FILL, 1},   {"y=ax", SCALE, 2},
                  {"axpy", AXPY, 3}, {"axpby", AXPBY, 3}, {"precondition", PRECONDITION, 3},
                  {"dot", DOT, 2}};
    kl_status st = KL_OK;
    kl_dptr memory = {0};
    int any = kl_bench_wanted(b, "launch") || kl_bench_wanted(b, "V^T x") || kl_bench_wanted(b, "V y");
    for (size_t k = 0; k < sizeof simple / sizeof *simple; k++) any |= kl_bench_wanted(b, simple[k].name);
    if (!any) return KL_OK;
    const int64_t tall = b->n / 10, small = b->n / 400;
    const int64_t need = (WIDEST + 2) * (tall + 64) > 2 * b->n ? (WIDEST + 2) * (tall + 64) : 2 * b->n;
    KL_TRY(b->ex->vt.alloc(b->ex, need + 64, &memory, err));
    KL_TRY(kl_bench_put_random(b->ex, memory, need, err));
    KL_TRY(reading_ceiling(b, tall, memory, err));
    const int nexec = b->plain ? 2 : 1;
    /* what every launch costs, whatever it does */
    for (int plain = 0; plain < nexec && kl_bench_wanted(b, "launch"); plain++) {
        stream s = {.ex = plain ? b->plain : b->ex,
                    .n = 16,
                    .nvec = 1,
                    .what = FILL,
                    .y = memory,
                    .waits = !b->plain};
        double t;
        KL_TRY(kl_bench_steady(stream_run, &s, &t, err));
        printf("launch        n=16                  | %-7s %9.4f ms\n", plain ? "plain" : b->ex->name,
               t * 1e3);
    }
    for (int plain = 0; plain < nexec; plain++) {
        stream s = {
            .ex = plain ? b->plain : b->ex, .n = b->n, .nvec = 1, .x = memory, .y = kl_dptr_at(memory, b->n)};
        for (int j = 0; j < WIDEST; j++) s.c[j] = 0.04 * (j - 11.5);
        for (size_t k = 0; k < sizeof simple / sizeof *simple; k++) {
            s.what = simple[k].what;
            if ((s.what == FILL || s.what == DOT) && kl_bench_wanted(b, simple[k].name))
                KL_TRY(kl_bench_put_random(b->ex, memory, 2 * b->n, err));
            KL_TRY(stream_line(b, &s, simple[k].name, 8.0 * simple[k].passes * (double)s.n, err));
        }
        KL_TRY(kl_bench_put_random(b->ex, memory, need, err));
        for (int size = 0; size < 2; size++)
            for (int nvec = size ? 20 : 1; nvec <= (size ? 20 : WIDEST); nvec++) {
                s.n = size ? small : tall;
                s.ldv = (s.n + 15) / 16 * 16;
                s.nvec = nvec;
                s.v = kl_dptr_at(memory, 2 * s.ldv);
                s.x = memory;
                s.y = kl_dptr_at(memory, s.ldv);
                s.what = DOTS;
                KL_TRY(stream_line(b, &s, "V^T x", 8.0 * (s.nvec + 1) * (double)s.n, err));
                s.what = COMBINE;
                KL_TRY(stream_line(b, &s, "V y", 8.0 * (s.nvec + 1) * (double)s.n, err));
            }
    }
out:
    b->ex->vt.release(b->ex, &memory);
    return st;
}
