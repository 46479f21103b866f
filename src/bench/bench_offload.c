/* `kronlat bench offload` and `kronlat bench cuda`: every operation of a device's executor on vectors and
   lists of the sizes that matter, each checked before it is timed. Rates stand beside ceilings of the same
   run: for streams the copy, for products one large product. Streams are timed as a solver has them, one
   after the other: the median of 99 after 0.05 s of the same work, for after a rest the host's part of a
   launch takes 3 microseconds more. Products heat up the card, which then slows down: "burst" is the median
   of nine after 0.3 s of rest, "sustained" the median of nine after 0.6 s of the same work. Lists too short
   for the host's clock run several times in each of the nine, a millisecond in all: more would be lasting
   load, which slows the card down within a tenth of a second.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench/bench_offload.h"
#include "dmrg/engine.h"
#include "base/mem.h"
#include "exec/baselines.h"
#include "base/random.h"
#include "cli/commandline.h"
#include "cli/report.h"
#include "dmrg/superblock.h"
#include "run/task.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_M = 8 };

/* One way to run a list. */
typedef struct way {
    kl_exec *ex;
    kl_projection projection;
    int beside; /* 1: a yardstick, shown before our best kernel */
} way;

typedef struct bench {
    /* plain: NULL for CUDA; cuda: beside offload, where the module is here and the device is the same */
    kl_exec *ex, *plain, *host, *cuda;
    way way[5];                 /* the first gives the answer */
    int nway, quick, own, shapes;
    const char *only;
    int any; /* of the lines was wanted */
    int64_t n;
    int m[MOST_M], nm, with_host;
    /* ceilings: GB/s, GB/s, TFLOP/s; 0: not measured, read also where CUDA is not there to do it */
    double copy, read, product;
    double rate; /* TFLOP/s of the list that was last */
} bench;

typedef kl_status run_fn(void *self, kl_err *err);

static int by_time(const void *pa, const void *pb)
{
    const double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

static void rest(double seconds)
{
    const struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    nanosleep(&t, NULL);
}

enum { NINE = 9, MANY = 99 };

/* The median of so many runs, an odd number. */
static kl_status median(int runs, run_fn *f, void *self, double *seconds, kl_err *err)
{
    double t[MANY];
    for (int i = 0; i < runs; i++) {
        const double t0 = kl_clock();
        const kl_status st = f(self, err);
        if (st != KL_OK) return st;
        t[i] = kl_clock() - t0;
    }
    qsort(t, (size_t)runs, sizeof *t, by_time);
    *seconds = t[runs / 2];
    return KL_OK;
}

static int wanted(bench *b, const char *name)
{
    const int is = !b->only || strstr(name, b->only) != NULL;
    b->any |= is;
    return is;
}

static kl_status burst(const bench *b, run_fn *f, void *self, double *seconds, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(f(self, err));
    rest(b->quick ? 0.05 : 0.3);
    KL_TRY(f(self, err));
    KL_TRY(median(NINE, f, self, seconds, err));
out:
    return st;
}

/* Among others of the same work, which has gone on for so long. */
static kl_status lasting(double before, int runs, run_fn *f, void *self, double *seconds, kl_err *err)
{
    kl_status st = KL_OK;
    for (const double t0 = kl_clock(); kl_clock() - t0 < before;) KL_TRY(f(self, err));
    KL_TRY(median(runs, f, self, seconds, err));
out:
    return st;
}

static kl_status sustained(const bench *b, run_fn *f, void *self, double *seconds, kl_err *err)
{
    *seconds = NAN;
    return b->quick ? KL_OK : lasting(0.6, NINE, f, self, seconds, err);
}

static kl_status steady(run_fn *f, void *self, double *seconds, kl_err *err)
{
    return lasting(0.05, MANY, f, self, seconds, err);
}

/* Numbers in (-1, 1) that no two places share for long. */
static kl_status put_random(kl_exec *ex, kl_dptr p, int64_t n, kl_err *err)
{
    enum { CHUNK = 1000003 };
    kl_status st = KL_OK;
    double *host = NULL;
    uint64_t seed = 1;
    KL_TRY(kl_alloc(&host, CHUNK, KL_MEM_WORK, err));
    for (int i = 0; i < CHUNK; i++) host[i] = kl_random_uniform(&seed);
    for (int64_t at = 0; at < n; at += CHUNK)
        KL_TRY(ex->vt.upload(ex, kl_dptr_at(p, at), host, n - at < CHUNK ? n - at : CHUNK, err));
out:
    kl_free(&host);
    return st;
}

/* ---- streams ---- */

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

static kl_status stream_line(bench *b, stream *s, const char *name, double bytes, kl_err *err)
{
    kl_status st = KL_OK;
    double worst, t;
    /* copies are everybody's ceiling */
    if (!wanted(b, name) && (s->what != COPY || b->copy > 0)) return KL_OK;
    s->waits = !b->plain && s->what != DOT && s->what != DOTS;
    KL_TRY(stream_residual(s, &worst, err));
    if (!(worst < 1e-13)) {
        st = kl_fail(err, KL_EBROKEN, "bench: %s is off by %.1e", name, worst);
        goto out;
    }
    KL_TRY(steady(stream_run, s, &t, err));
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
static kl_status reading_ceiling(bench *b, int64_t n, kl_dptr v, kl_err *err)
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

static kl_status bench_streams(bench *b, kl_err *err)
{
    static const struct {
        const char *name;
        int what, passes;
    } simple[] = {{"copy", COPY, 2}, {"fill", FILL, 1},   {"y=ax", SCALE, 2},
                  {"axpy", AXPY, 3}, {"axpby", AXPBY, 3}, {"precondition", PRECONDITION, 3},
                  {"dot", DOT, 2}};
    kl_status st = KL_OK;
    kl_dptr memory = {0};
    int any = wanted(b, "launch") || wanted(b, "V^T x") || wanted(b, "V y");
    for (size_t k = 0; k < sizeof simple / sizeof *simple; k++) any |= wanted(b, simple[k].name);
    if (!any) return KL_OK;
    const int64_t tall = b->n / 10, small = b->n / 400;
    const int64_t need = (WIDEST + 2) * (tall + 64) > 2 * b->n ? (WIDEST + 2) * (tall + 64) : 2 * b->n;
    KL_TRY(b->ex->vt.alloc(b->ex, need + 64, &memory, err));
    KL_TRY(put_random(b->ex, memory, need, err));
    KL_TRY(reading_ceiling(b, tall, memory, err));
    const int nexec = b->plain ? 2 : 1;
    /* what every launch costs, whatever it does */
    for (int plain = 0; plain < nexec && wanted(b, "launch"); plain++) {
        stream s = {.ex = plain ? b->plain : b->ex,
                    .n = 16,
                    .nvec = 1,
                    .what = FILL,
                    .y = memory,
                    .waits = !b->plain};
        double t;
        KL_TRY(steady(stream_run, &s, &t, err));
        printf("launch        n=16                  | %-7s %9.4f ms\n", plain ? "plain" : b->ex->name,
               t * 1e3);
    }
    for (int plain = 0; plain < nexec; plain++) {
        stream s = {
            .ex = plain ? b->plain : b->ex, .n = b->n, .nvec = 1, .x = memory, .y = kl_dptr_at(memory, b->n)};
        for (int j = 0; j < WIDEST; j++) s.c[j] = 0.04 * (j - 11.5);
        for (size_t k = 0; k < sizeof simple / sizeof *simple; k++) {
            s.what = simple[k].what;
            if ((s.what == FILL || s.what == DOT) && wanted(b, simple[k].name))
                KL_TRY(put_random(b->ex, memory, 2 * b->n, err));
            KL_TRY(stream_line(b, &s, simple[k].name, 8.0 * simple[k].passes * (double)s.n, err));
        }
        KL_TRY(put_random(b->ex, memory, need, err));
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

/* ---- lists ---- */

/* seconds of runs in a row, so that launches and returns do not count; MOST_RUNS at most */
#define ENOUGH 1e-3
static const double MOST_RUNS = 20;

typedef struct list {
    kl_exec *ex;
    kl_batch *b;
    kl_dptr x, y;
    int repeat; /* runs in a row, the last of which is waited for */
} list;

static kl_status list_run(void *self, kl_err *err)
{
    const list *const l = self;
    kl_status st = KL_OK;
    for (int i = 0; i < l->repeat && st == KL_OK; i++) {
        l->ex->ahead = i + 1 < l->repeat;
        st = l->ex->vt.batch_apply(l->ex, l->b, l->x, l->y, err);
    }
    l->ex->ahead = 0;
    return st;
}

static kl_status dgemm_ceiling(bench *b, kl_err *err);

/* A list on the device by both kernels, and on the host where that was asked for; the last answer is what the
   others are compared with. x, y and bases are on the device. */
static kl_status list_lines(bench *b, const char *name, kl_batch *q, kl_dptr x, kl_dptr y,
                            const int64_t *size, kl_err *err)
{
    kl_status st = KL_OK;
    double *want = NULL, *got = NULL, *copy[KL_NAT] = {NULL};
    kl_dptr kept[KL_NAT];
    double beside = 0; /* seconds by CUDA's kernel */
    if (!wanted(b, name)) return KL_OK;
    if (!b->plain && b->product == 0) KL_TRY(dgemm_ceiling(b, err));
    memcpy(kept, q->base, sizeof kept);
    KL_TRY(kl_alloc(&want, q->ny, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&got, q->ny, KL_MEM_WORK, err));
    if (b->with_host) {
        kl_dptr hx = {0};
        for (int i = 0; i < KL_NAT; i++) {
            const int64_t n = i == KL_AT_X ? q->nx : i == KL_AT_Y || i == KL_AT_WORK ? 0 : size[i];
            if (n == 0) continue;
            KL_TRY(kl_alloc(&copy[i], n, KL_MEM_WORK, err));
            KL_TRY(b->ex->vt.download(b->ex, copy[i], i == KL_AT_X ? x : kept[i], n, err));
            if (i == KL_AT_X) hx.addr = (uintptr_t)copy[i];
            else q->base[i].addr = (uintptr_t)copy[i];
        }
        KL_TRY(b->host->vt.batch_prepare(b->host, q, err));
        const double t0 = kl_clock();
        st = b->host->vt.batch_apply(b->host, q, hx, (kl_dptr){(uintptr_t)want}, err);
        const double t = kl_clock() - t0;
        b->host->vt.batch_release(b->host, q);
        memcpy(q->base, kept, sizeof kept);
        KL_TRY(st);
        printf("%-30s | host, %d threads   %10.3f ms %7.2f TFLOP/s\n", name, b->host->nthread, t * 1e3,
               q->flop / t * 1e-12);
    }
    for (int k = b->with_host ? 0 : -1; k < b->nway; k++) { /* -1: the answer */
        const int w = k < 0 ? 0 : k;
        if (b->own && k >= 0 && k + 1 < b->nway && !b->way[w].beside) continue;
        kl_exec *const ex = b->way[w].ex;
        ex->projection = b->way[w].projection;
        kl_batch_plan plan;
        list l = {ex, q, x, y, 1};
        double t = 0, u = 0, worst = 0, most = 0;
        const double t0 = kl_clock();
        KL_TRY(ex->vt.batch_prepare(ex, q, err));
        const double make = kl_clock() - t0;
        ex->vt.batch_explain(ex, q, &plan);
        ex->vt.fill(ex, q->ny, NAN, y);
        st = list_run(&l, err);
        if (st == KL_OK) st = ex->vt.download(ex, k < 0 ? want : got, y, q->ny, err);
        if (st == KL_OK && k >= 0) {
            for (int64_t i = 0; i < q->ny; i++) {
                if (isnan(got[i]) && isnan(want[i])) continue; /* between outputs */
                const double off = isnan(got[i]) || isnan(want[i]) ? INFINITY : fabs(got[i] - want[i]);
                worst = fmax(worst, off);
                most = fmax(most, fabs(want[i]));
            }
            if (!(worst <= 1e-12 * most))
                st = kl_fail(err, KL_EBROKEN, "bench: %s by %s differs by %.1e of %.1e", name, plan.kernel,
                             worst, most);
        }
        if (st == KL_OK && k >= 0 && !b->plain) {
            const double t1 = kl_clock();
            st = list_run(&l, err);
            const double once = kl_clock() - t1;
            if (once < ENOUGH)
                l.repeat = MOST_RUNS * once < ENOUGH ? (int)MOST_RUNS : (int)(ENOUGH / once) + 1;
        }
        if (st == KL_OK && k >= 0) st = burst(b, list_run, &l, &t, err);
        if (st == KL_OK && k >= 0) st = sustained(b, list_run, &l, &u, err);
        ex->vt.batch_release(ex, q);
        if (st != KL_OK) goto out;
        if (k < 0) continue;
        t /= l.repeat, u /= l.repeat;
        const double rate = q->flop / t * 1e-12;
        char of[40] = "", share[40] = "", lasting[40] = "";
        if (b->way[k].beside) beside = t;
        else if (beside > 0) snprintf(of, sizeof of, ", %.0f %% of CUDA's", 100 * beside / t);
        b->rate = rate;
        /* --quick has none */
        if (!isnan(u)) snprintf(lasting, sizeof lasting, " (sustained %6.2f)", q->flop / u * 1e-12);
        if (b->product > 0)
            snprintf(share, sizeof share, " %4.0f %% of %s", 100 * rate / b->product,
                     b->plain ? "one product" : "dgemm 4096");
        printf("%-30s | %-18s %d launches %9.3f ms %6.2f TFLOP/s%s%s%s | padded %.3f, %lld tiles, %lld "
               "pieces, work %.2f GB, %d rounds, %lld in order, plan %.1f ms | resid %.0e PASS\n",
               name, plan.kernel, plan.nlaunch, t * 1e3, rate, lasting, share, of, plan.padded,
               (long long)plan.ntile, (long long)plan.npiece, (double)plan.work_bytes * 1e-9, plan.nround,
               (long long)plan.nsequential, make * 1e3, worst / most);
        fflush(stdout);
    }
out:
    for (int i = 0; i < KL_NAT; i++) kl_free(&copy[i]);
    kl_free(&want);
    kl_free(&got);
    return st;
}

/* EVEN: leading dimensions and places are even; FACTORS: each product has its own */
typedef enum operands { PACKED, EVEN, EVEN_FACTORS } operands;

/* Products of given shapes (m, n, k; the fourth number: 1 adds to the output before), operands after each
   other in LEFT and x. */
static kl_status shapes_line(bench *b, const char *name, int n, const int (*shape)[4], int ta, int tb,
                             operands how, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch q;
    kl_dptr left = {0}, x = {0}, y = {0};
    int64_t nl = 0, nx = 0, ny = 0;
    uint64_t seed = 5;
    const int even = how != PACKED;
    kl_batch_init(&q);
    if (!wanted(b, name)) return KL_OK;
    for (int i = 0; i < n; i++) {
        const int m = shape[i][0], c = shape[i][1], k = shape[i][2];
        const int lda = (ta ? k : m) + (even && (ta ? k : m) % 2),
                  ldb = (tb ? c : k) + (even && (tb ? c : k) % 2), ldc = m + (even && m % 2);
        if (!shape[i][3]) KL_TRY(kl_batch_open_group(&q, ny, (int64_t)ldc * c, err));
        KL_TRY(kl_batch_reserve(&q, 1, err));
        *kl_batch_push(&q) = (kl_rec){.kind = KL_REC_GEMM,
                                      .ta = (uint8_t)ta,
                                      .tb = (uint8_t)tb,
                                      .beta = shape[i][3] != 0,
                                      .at_a = KL_AT_LEFT,
                                      .at_b = KL_AT_X,
                                      .at_c = KL_AT_Y,
                                      .m = m,
                                      .n = c,
                                      .k = k,
                                      .lda = lda,
                                      .ldb = ldb,
                                      .ldc = ldc,
                                      .a = nl,
                                      .b = nx,
                                      .c = ny,
                                      .alpha = how == EVEN_FACTORS ? kl_random_uniform(&seed) : 1};
        nl += (int64_t)lda * (ta ? m : k), nx += (int64_t)ldb * (tb ? k : c);
        if (even) nl = (nl + 15) / 16 * 16, nx = (nx + 15) / 16 * 16;
        if (i + 1 < n && shape[i + 1][3]) continue;
        kl_batch_close_group(&q, 0);
        ny += (int64_t)ldc * c;
        if (even) ny = (ny + 15) / 16 * 16;
    }
    q.nx = nx, q.ny = ny;
    KL_TRY(kl_batch_close(&q, err));
    KL_TRY(b->ex->vt.alloc(b->ex, nl, &left, err));
    KL_TRY(b->ex->vt.alloc(b->ex, nx, &x, err));
    KL_TRY(b->ex->vt.alloc(b->ex, ny, &y, err));
    KL_TRY(put_random(b->ex, left, nl, err));
    KL_TRY(put_random(b->ex, x, nx, err));
    b->ex->vt.fill(b->ex, ny, 0.0, y);
    q.base[KL_AT_LEFT] = left;
    q.ny = ny;
    int64_t size[KL_NAT] = {0};
    size[KL_AT_LEFT] = nl;
    KL_TRY(list_lines(b, name, &q, x, y, size, err));
out:
    kl_batch_clear(&q);
    b->ex->vt.release(b->ex, &left);
    b->ex->vt.release(b->ex, &x);
    b->ex->vt.release(b->ex, &y);
    return st;
}

/* By CUDA every list stands beside what cuBLAS does with one large product in the same run. */
static kl_status dgemm_ceiling(bench *b, kl_err *err)
{
    static const int one[1][4] = {{4096, 4096, 4096, 0}};
    bench alone = *b;
    alone.only = NULL, alone.with_host = 0, alone.nway = 1; /* the first way: cuBLAS, call by call */
    alone.product = -1;
    const kl_status st = shapes_line(&alone, "ceiling: one 4096, dgemm", 1, one, 0, 0, EVEN, err);
    b->product = alone.rate;
    return st;
}

/* A number in (0, 1). */
static double unit(uint64_t *s) { return 0.5 * (1 + kl_random_uniform(s)); }

/* Fifty outputs, their sizes spread as the sectors of a block are, to 1150, four to nine products each. */
static int like_dmrg(int (*shape)[4])
{
    int size[50], n = 0;
    uint64_t s = 11;
    for (int i = 0; i < 50; i++) {
        const double x = (i - 24.5) / 11.0;
        size[i] = (int)fmax(6, 1150 * exp(-0.5 * x * x) * (0.7 + 0.3 * unit(&s)));
    }
    for (int i = 0; i < 50; i++) {
        const int records = 4 + (int)(6 * unit(&s)), j = i + (int)(5 * unit(&s)) - 2;
        for (int r = 0; r < records; r++, n++) {
            const int k = i + (int)(7 * unit(&s)) - 3;
            shape[n][0] = size[i],
            shape[n][1] = size[j < 0    ? 0
                               : j > 49 ? 49
                                        : j],
            shape[n][2] = size[k < 0    ? 0
                               : k > 49 ? 49
                                        : k],
            shape[n][3] = r > 0;
        }
    }
    return n;
}

static kl_status bench_shapes(bench *b, kl_err *err)
{
    enum { MOST = 8000 };
    kl_status st = KL_OK;
    int (*shape)[4] = NULL;
    const int one[2][4] = {{4096, 4096, 4096, 0}, {1704, 1704, 1704, 0}};
    uint64_t s = 7;
    KL_TRY(kl_alloc(&shape, MOST, KL_MEM_WORK, err));
    const int (*const shapes)[4] = (const int (*)[4])shape;
    KL_TRY(shapes_line(b, "one 4096 x 4096 x 4096", 1, one, 0, 0, EVEN, err));
    if (b->plain) b->product = b->rate; /* 0 where --only left it out */
    KL_TRY(shapes_line(b, "one 1704 x 1704 x 1704", 1, one + 1, 0, 0, EVEN, err));
    for (int i = 0; i < 400; i++)
        for (int k = 0; k < 3; k++) {
            const double u = unit(&s);
            shape[i][k] = (int)(20 + 1080 * u * u);
        }
    for (int t = 0; t < 4; t++) {
        static const char *const names[] = {"400 shapes 20..1100, NN", "400 shapes 20..1100, TN",
                                            "400 shapes 20..1100, NT", "400 shapes 20..1100, TT"};
        KL_TRY(shapes_line(b, names[t], 400, shapes, t & 1, t >> 1, EVEN, err));
    }
    KL_TRY(shapes_line(b, "400 shapes, factors, TT", 400, shapes, 1, 1, EVEN_FACTORS, err));
    KL_TRY(shapes_line(b, "400 shapes, packed, NN", 400, shapes, 0, 0, PACKED, err));
    for (int i = 0; i < 8000; i++)
        for (int k = 0; k < 3; k++) shape[i][k] = 4 + (int)(29 * unit(&s));
    KL_TRY(shapes_line(b, "8000 shapes 4..32, NN", 8000, shapes, 0, 0, EVEN, err));
    for (int n = 64; n <= 512; n *= 2) {
        char name[64];
        for (int i = 0; i < 256; i++) shape[i][0] = shape[i][1] = shape[i][2] = n;
        snprintf(name, sizeof name, "256 of %d", n);
        KL_TRY(shapes_line(b, name, 256, shapes, 0, 0, EVEN, err));
    }
    const int n = like_dmrg(shape);
    KL_TRY(shapes_line(b, "50 outputs as in DMRG, NN", n, shapes, 0, 0, EVEN, err));
    KL_TRY(shapes_line(b, "50 outputs as in DMRG, NT", n, shapes, 0, 1, EVEN, err));
    KL_TRY(shapes_line(b, "50 outputs, factors, NT", n, shapes, 0, 1, EVEN_FACTORS, err));
out:
    kl_free(&shape);
    return st;
}

/* ---- superblocks: the shapes of m states at the middle of a chain, numbers at random ---- */

static kl_status side_block(kl_engine *e, kl_exec *ex, kl_side side, int m, int last, kl_block **out,
                            kl_err *err)
{
    kl_status st = KL_OK;
    kl_enlarged *en = NULL;
    kl_basis kept = {0};
    int *dim = NULL;
    const int step = side == KL_LEFT ? 1 : -1;
    KL_TRY(kl_block_create_edge(ex, e->mpo, side, out, err));
    for (int cut = side == KL_LEFT ? 0 : e->nsite; cut != last; cut += step) {
        KL_TRY(kl_engine_enlarge(e, side, side == KL_LEFT ? cut : cut - 1, &(*out)->basis, &en, err));
        KL_TRY(kl_alloc(&dim, en->basis.nsec, KL_MEM_WORK, err));
        KL_TRY(kl_engine_share(e, side, cut + step, m, &en->basis, dim, err));
        KL_TRY(kl_alloc(&kept.q, en->basis.nsec, KL_MEM_MISC, err));
        KL_TRY(kl_alloc(&kept.dim, en->basis.nsec, KL_MEM_MISC, err));
        for (int c = 0; c < en->basis.nsec; c++) {
            if (!dim[c]) continue;
            kept.q[kept.nsec] = en->basis.q[c];
            kept.dim[kept.nsec++] = dim[c];
            kept.total += dim[c];
        }
        kl_block_destroy(out);
        KL_TRY(kl_block_create(ex, e->mpo, side, cut + step, &kept, out, err));
        kl_basis_clear(&kept);
        kl_enlarged_destroy(&en);
        kl_free(&dim);
    }
    KL_TRY(put_random(ex, (*out)->data, (*out)->ndata, err));
out:
    kl_basis_clear(&kept);
    kl_enlarged_destroy(&en);
    kl_free(&dim);
    return st;
}

static kl_status superblock_line(bench *b, const kl_task *t, kl_strategy strategy, int m, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = b->ex;
    kl_engine *e = NULL;
    kl_block *lb = NULL, *rb = NULL;
    kl_enlarged *row = NULL, *col = NULL;
    kl_bigop *l = NULL, *r = NULL;
    kl_layout lay = {0};
    kl_batch q;
    kl_dptr x = {0}, y = {0};
    char name[80];
    kl_batch_init(&q);
    const int length = snprintf(name, sizeof name, "%s m=%d %s", t->model->name, m,
                                strategy == KL_STRATEGY_LR ? "lr" : "l11r");
    if (!wanted(b, name)) return KL_OK;
    KL_TRY(kl_engine_create(t->terms, ex, t->target, 1, strategy, KL_SOLVER_DAVIDSON, 0, 1, &e, err));
    const int c = t->terms->nsite / 2 - 1;
    KL_TRY(side_block(e, ex, KL_LEFT, m, c, &lb, err));
    KL_TRY(side_block(e, ex, KL_RIGHT, m, c + 2, &rb, err));
    KL_TRY(kl_engine_enlarge(e, KL_LEFT, c, &lb->basis, &row, err));
    KL_TRY(kl_engine_enlarge(e, KL_RIGHT, c + 1, &rb->basis, &col, err));
    KL_TRY(kl_layout_create(t->model, &row->basis, &col->basis, t->target, &lay, err));
    KL_TRY(kl_bigop_create(lb, row, c, &l, err));
    KL_TRY(kl_bigop_create(rb, col, c + 1, &r, err));
    if (strategy == KL_STRATEGY_LR) {
        KL_TRY(kl_bigop_make_dense(l, err));
        KL_TRY(kl_bigop_make_dense(r, err));
    }
    KL_TRY(kl_superblock_records(l, r, &lay, &q, err));
    KL_TRY(kl_batch_close(&q, err));
    KL_TRY(ex->vt.alloc(ex, lay.n, &x, err));
    KL_TRY(ex->vt.alloc(ex, lay.n, &y, err));
    KL_TRY(put_random(ex, x, lay.n, err));
    int64_t size[KL_NAT] = {0};
    size[KL_AT_LEFT] = lb->ndata, size[KL_AT_LEFT_PACK] = l->npack;
    size[KL_AT_RIGHT] = rb->ndata, size[KL_AT_RIGHT_PACK] = r->npack;
    snprintf(name + length, sizeof name - (size_t)length, " n=%.3g", (double)lay.n);
    KL_TRY(list_lines(b, name, &q, x, y, size, err));
out:
    kl_batch_clear(&q);
    ex->vt.release(ex, &x);
    ex->vt.release(ex, &y);
    kl_layout_clear(&lay);
    kl_bigop_destroy(&l);
    kl_bigop_destroy(&r);
    kl_enlarged_destroy(&row);
    kl_enlarged_destroy(&col);
    kl_block_destroy(&lb);
    kl_block_destroy(&rb);
    kl_engine_destroy(&e);
    return st;
}

static kl_status bench_superblocks(bench *b, kl_err *err)
{
    static const char *const words[2][8] = {
        {"dmrg", "heisenberg", "--sites=64", "--charge=Sz=0"},
        {"dmrg", "hubbard", "--sites=32", "-pU=4", "--charge=N_up=16", "--charge=N_dn=16"}};
    kl_status st = KL_OK;
    kl_options *o = NULL;
    kl_task *t = NULL;
    for (int model = 0; model < 2; model++) {
        char *argv[8];
        int argc = 0;
        while (argc < 8 && words[model][argc]) argv[argc] = (char *)(uintptr_t)words[model][argc], argc++;
        KL_TRY(kl_commandline_parse(argc, argv, &o, err));
        KL_TRY(kl_task_create(o, 0, &t, err));
        KL_TRY(kl_task_charges(t, err));
        KL_TRY(kl_task_aim(t, t->target, err));
        for (int i = 0; i < b->nm; i++)
            for (int s = 0; s < 2; s++)
                KL_TRY(superblock_line(b, t, s ? KL_STRATEGY_L11R : KL_STRATEGY_LR, b->m[i], err));
        kl_task_destroy(&t);
        kl_options_destroy(&o);
    }
out:
    kl_task_destroy(&t);
    kl_options_destroy(&o);
    return st;
}

/* The CUDA module beside offload, if it drives the same GPU: both are then in the device's one context and
   take each other's addresses. */
static void open_beside(bench *b)
{
    kl_err absent;
    int ours = -1, theirs = -2;
    if (sscanf(b->ex->where, "device %d (sm_", &ours) != 1 || kl_exec_open_cuda(&b->cuda, &absent) != KL_OK)
        return;
    if (sscanf(b->cuda->where, "device %d (sm_", &theirs) != 1 || ours != theirs) kl_exec_close(&b->cuda);
}

kl_status kl_bench_offload(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_bench_options *const asked = &o->bench;
    bench b = {.n = asked->elements > 0 ? asked->elements : 200000000,
               .with_host = asked->host,
               .quick = asked->quick,
               .own = asked->own,
               .shapes = asked->shapes,
               .only = asked->only,
               .nm = asked->m.n};
    const int cuda = o->command == KL_CMD_BENCH_CUDA;
    int64_t m[MOST_M];
    KL_TRY(kl_options_integers("--m", &asked->m, 2, 100000, MOST_M, m, err));
    for (int i = 0; i < b.nm; i++) b.m[i] = (int)m[i];
    if (b.nm == 0) b.m[b.nm++] = 2048, b.m[b.nm++] = 4096;
    if (cuda) {
        KL_TRY(kl_exec_open_cuda(&b.ex, err));
        static const kl_projection ways[] = {KL_PROJECTION_NOSTREAMS, KL_PROJECTION_4STREAMS,
                                             KL_PROJECTION_CONCAT, KL_PROJECTION_LIBRARY,
                                             KL_PROJECTION_GROUPED};
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) b.way[b.nway++] = (way){b.ex, ways[i], 0};
    } else {
        KL_TRY(kl_exec_open_offload(0, &b.ex, err));
        KL_TRY(kl_exec_open_offload(1, &b.plain, err));
        b.way[b.nway++] = (way){b.plain, KL_PROJECTION_AUTO, 0};
        open_beside(&b);
        if (b.cuda) b.way[b.nway++] = (way){b.cuda, KL_PROJECTION_GROUPED, 1};
        b.way[b.nway++] = (way){b.ex, KL_PROJECTION_AUTO, 0};
    }
    if (b.with_host) KL_TRY(kl_exec_open_host(0, &b.host, err));
    if (!b.shapes) KL_TRY(bench_streams(&b, err));
    KL_TRY(bench_shapes(&b, err));
    if (!b.shapes) KL_TRY(bench_superblocks(&b, err));
    if (!b.any)
        st = kl_fail(err, KL_EINPUT,
                     "--only: '%s' is in the name of no line, such as \"V^T x\", \"400 shapes\" or \"hubbard "
                     "m=2048 l11r\"",
                     b.only);
out:
    kl_exec_close(&b.cuda);
    kl_exec_close(&b.ex);
    kl_exec_close(&b.plain);
    kl_exec_close(&b.host);
    return st;
}
