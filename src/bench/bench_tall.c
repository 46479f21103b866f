/* `kronlat bench gemv_trans`: V^T x (nemes2014, Alg. 4) for every width and height, with sums by shuffles and
   by trees in shared memory, with belts of several widths, against gemv and gemm of the vendor's library and
   of the host's BLAS; `bench gemv_normal`: V y (Fig. 11) against gemv. Every way is checked against the host's
   loops before its time is printed; the ceiling is the time to read as many bytes, in the same minute. Beside
   offload, which has no clock of the device's and no library, CUDA's module measures ceiling and library.
   SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench_tall.h"
#include "exec/baselines.h"
#include "base/mem.h"
#include "base/prof.h"
#include "base/random.h"
#include "cli/report.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_HEIGHT = 16,
    MOST_WIDTH = 64,
    MOST_BELT = 8,
    WIDEST = 256,
    REPEAT = 9,
    ROUNDS = 3,
};

typedef struct bench {
    kl_op op; /* DOTS: V^T x; COMBINE: V y */
    const char *name; /* of the command */
    kl_exec *ex, *host;
    kl_exec *peer; /* NULL, or CUDA on the device of ex, which is offload */
    int64_t height[MOST_HEIGHT], width[MOST_WIDTH], belt[MOST_BELT];
    int nheight, nwidth, nbelt;
    int named; /* 1: heights or widths are the user's, and all are wanted */
    kl_dptr v, x; /* on ex; x: of V y the result */
    double *hv, *hx; /* the same on the host */
    double want[WIDEST], got[WIDEST], factor[WIDEST];
    double *answer; /* V y by the host's loops */
    FILE *csv;
    double memory; /* bytes a second of reading what no cache holds; 0: not known */
} bench;

static int by_time(const void *pa, const void *pb)
{
    const double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

/* Of shapes that nobody named: on a busy host all of them take minutes. */
static const double most_seconds = 60;

/* One product V^T x of a shape by a way, and what came of it. */
typedef struct trial {
    int64_t n, ldv;
    int nvec, on_host;
    kl_way way;
    int belt; /* columns of a pass; 0: the way's own */
    double seconds, worst; /* < 0: that way is not here; largest error */
} trial;

/* Where an executor has no trials: by the host's clock, launches and returns included; V^T x waits for every
   result, V y for the last. */
static kl_status time_calls(kl_exec *ex, kl_trial *t, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t start = 0;
    double last;
    if (t->way != KL_WAY_OWN || t->belt != 0)
        return kl_fail(err, KL_EABSENT, "%s has one way to do %s", ex->name, kl_op_name[t->op]);
    for (int r = -1; r < t->repeat; r++) {
        if (r == 0) start = kl_prof_clock();
        if (t->op == KL_OP_DOTS) ex->vt.dots(ex, t->n, t->nvec, t->v, t->ldv, t->x, t->out);
        else ex->vt.combine(ex, t->n, t->nvec, t->v, t->ldv, t->c, 0.0, t->y);
        if (r < 0 && t->op != KL_OP_DOTS) KL_TRY(ex->vt.download(ex, &last, t->y, 1, err));
    }
    if (t->op != KL_OP_DOTS) KL_TRY(ex->vt.download(ex, &last, t->y, 1, err));
    t->seconds = 1e-9 * (double)(kl_prof_clock() - start) / t->repeat;
out:
    return st;
}

/* Largest error, of a sum of n, or of nvec, products of numbers up to 1. */
static kl_status compare(bench *b, trial *p, kl_exec *ex, kl_dptr y, kl_err *err)
{
    enum { PART = 1 << 16 };
    kl_status st = KL_OK;
    double *part = NULL;
    if (b->op == KL_OP_DOTS) {
        for (int j = 0; j < p->nvec; j++) {
            const double off = fabs(b->got[j] - b->want[j]) / (double)p->n;
            if (!(off <= p->worst)) p->worst = off;
        }
        goto out;
    }
    KL_TRY(kl_alloc(&part, PART, KL_MEM_WORK, err));
    for (int64_t i = 0; i < p->n; i += PART) {
        const int64_t n = p->n - i < PART ? p->n - i : PART;
        KL_TRY(ex->vt.download(ex, part, kl_dptr_at(y, i), n, err));
        for (int64_t k = 0; k < n; k++) {
            const double off = fabs(part[k] - b->answer[i + k]) / p->nvec;
            if (!(off <= p->worst)) p->worst = off;
        }
    }
out:
    kl_free(&part);
    return st;
}

/* The median of some rounds. */
static kl_status measure(bench *b, trial *p, kl_err *err)
{
    kl_status st = KL_OK;
    const int own = p->way == KL_WAY_OWN || p->way == KL_WAY_SHARED, reads = p->way == KL_WAY_READ;
    kl_exec *const ex = p->on_host ? b->host : !own && b->peer ? b->peer : b->ex;
    const int repeat = p->on_host ? 1 : p->n < 1000000 ? 4 * REPEAT : REPEAT;
    const kl_dptr x = p->on_host ? (kl_dptr){(uintptr_t)b->hx} : b->x;
    double t[ROUNDS];
    kl_trial one = {.op = reads ? KL_OP_DOTS : b->op,
                    .way = p->way,
                    .belt = p->belt,
                    .repeat = repeat,
                    .n = p->n,
                    .ldv = p->ldv,
                    .nvec = p->nvec,
                    .v = p->on_host ? (kl_dptr){(uintptr_t)b->hv} : b->v,
                    .x = x,
                    .y = x,
                    .c = b->factor,
                    .out = b->got};
    p->seconds = -1;
    p->worst = 0;
    for (int r = 0; r < ROUNDS; r++) {
        for (int j = 0; j < p->nvec; j++) b->got[j] = NAN;
        if (b->op == KL_OP_COMBINE && !reads) ex->vt.fill(ex, p->n, NAN, x);
        kl_err why;
        st = ex->baselines && ex->baselines->trial ? ex->baselines->trial(ex, &one, &why)
                                                   : time_calls(ex, &one, &why);
        if (st == KL_EABSENT) return KL_OK;
        if (st != KL_OK) return kl_fail(err, st, "%s", why.text);
        t[r] = one.seconds;
    }
    if (!reads) KL_TRY(compare(b, p, ex, x, err));
    if (!(p->worst < 1e-13))
        return kl_fail(err, KL_EBROKEN, "%s: n = %lld, width %d by %s is off by %.1e", b->name,
                       (long long)p->n, p->nvec, kl_way_name[p->way], p->worst);
    qsort(t, ROUNDS, sizeof *t, by_time);
    p->seconds = t[ROUNDS / 2];
out:
    return st;
}

/* ceiling: seconds of reading as much; library: of the vendor's fastest. 0: none. */
static void line(const bench *b, const trial *p, double ceiling, double library)
{
    const int own = p->way == KL_WAY_OWN || p->way == KL_WAY_SHARED;
    const char *const exec = p->on_host ? "host" : !own && b->peer ? b->peer->name : b->ex->name;
    const double t = p->seconds, rate = 8e-9 * (double)p->n * (p->nvec + 1) / t;
    if (!(t > 0)) return;
    if (b->csv)
        fprintf(b->csv, "%lld,%d,%s,%s,%d,%.9g,%.6g,%.6g,%.6g,%.3g,%s\n", (long long)p->n, p->nvec, exec,
                kl_way_name[p->way], p->belt, t, rate, ceiling > 0 ? ceiling / t : 0.0,
                library > 0 ? library / t : 0.0, p->worst, b->op == KL_OP_DOTS ? "V^T x" : "V y");
    if (p->way == KL_WAY_READ) return; /* told with every other line */
    printf("n=%-9lld width %2d | %-5s %-8s", (long long)p->n, p->nvec, exec, kl_way_name[p->way]);
    if (p->belt) printf(" belts of %-3d", p->belt);
    else printf("             ");
    printf(" %9.2f us %8.1f GB/s", t * 1e6, rate);
    if (b->memory > 0 && ceiling > 0) printf(" %5.1f %% of memory's", 1e11 * rate / b->memory);
    if (ceiling > 0) printf(" %5.1f %% of reading", 100 * ceiling / t);
    if (library > 0) printf(", %.2f x the library", library / t);
    printf(" | resid %.0e PASS\n", p->worst);
}

static const kl_way libraries[] = {KL_WAY_LIBRARY, KL_WAY_GEMM};

/* On the device: reading, the vendor's ways, then ours, without belts and with. */
static kl_status on_device(bench *b, trial p, kl_err *err)
{
    static const kl_way ways[] = {KL_WAY_OWN, KL_WAY_SHARED};
    kl_status st = KL_OK;
    double library = INFINITY;
    p.way = KL_WAY_READ;
    KL_TRY(measure(b, &p, err));
    const double ceiling = p.seconds;
    line(b, &p, 0, 0);
    for (int i = 0; i < 2; i++) {
        p.way = libraries[i];
        KL_TRY(measure(b, &p, err));
        line(b, &p, ceiling, 0);
        if (p.seconds > 0 && p.seconds < library) library = p.seconds;
    }
    if (!isfinite(library)) library = 0;
    for (int i = 0; i < 2; i++) {
        p.way = ways[i];
        KL_TRY(measure(b, &p, err));
        line(b, &p, ceiling, library);
    }
    p.way = KL_WAY_OWN;
    for (int i = 0; i < b->nbelt && b->op == KL_OP_DOTS; i++) {
        if (b->belt[i] >= p.nvec) continue;
        p.belt = (int)b->belt[i];
        KL_TRY(measure(b, &p, err));
        line(b, &p, ceiling, library);
    }
out:
    return st;
}

static kl_status one_width(bench *b, int64_t n, int64_t ldv, int nvec, kl_err *err)
{
    enum { HOST_MOST = 2000000 };
    kl_status st = KL_OK;
    trial p = {.n = n, .ldv = ldv, .nvec = nvec};
    const kl_dptr v = {(uintptr_t)b->hv};
    if (b->op == KL_OP_DOTS) b->host->vt.dots(b->host, n, nvec, v, ldv, (kl_dptr){(uintptr_t)b->hx}, b->want);
    else b->host->vt.combine(b->host, n, nvec, v, ldv, b->factor, 0.0, (kl_dptr){(uintptr_t)b->answer});
    if (b->ex != b->host) KL_TRY(on_device(b, p, err));
    p.on_host = 1;
    for (int i = 0; i < 3 && n <= HOST_MOST; i++) {
        p.way = i == 0 ? KL_WAY_OWN : libraries[i - 1];
        KL_TRY(measure(b, &p, err));
        line(b, &p, 0, 0);
    }
out:
    return st;
}

static kl_status sweep(bench *b, kl_err *err)
{
    kl_status st = KL_OK;
    const double begun = kl_prof_seconds();
    int64_t tallest = 0, widest = 0;
    for (int i = 0; i < b->nheight; i++) tallest = b->height[i] > tallest ? b->height[i] : tallest;
    for (int i = 0; i < b->nwidth; i++) widest = b->width[i] > widest ? b->width[i] : widest;
    const int64_t room = (tallest + 64) * (widest + 1);
    KL_TRY(kl_realloc(&b->hv, room, KL_MEM_VECTOR, err));
    KL_TRY(kl_realloc(&b->hx, tallest, KL_MEM_VECTOR, err));
    if (b->op == KL_OP_COMBINE) KL_TRY(kl_realloc(&b->answer, tallest, KL_MEM_VECTOR, err));
    for (int j = 0; j < WIDEST; j++) b->factor[j] = 0.9 * cos(0.7 * j + 1);
    uint64_t seed = 11;
    for (int64_t i = 0; i < room; i++) b->hv[i] = kl_random_uniform(&seed);
    for (int64_t i = 0; i < tallest; i++) b->hx[i] = kl_random_uniform(&seed);
    if (b->ex != b->host) {
        KL_TRY(b->ex->vt.alloc(b->ex, room, &b->v, err));
        KL_TRY(b->ex->vt.alloc(b->ex, tallest, &b->x, err));
        KL_TRY(b->ex->vt.upload(b->ex, b->v, b->hv, room, err));
        KL_TRY(b->ex->vt.upload(b->ex, b->x, b->hx, tallest, err));
    }
    if (b->ex != b->host) { /* the largest array there is, at least twenty times what a cache holds */
        enum { LEAST = 1 << 27 };
        const int64_t n = tallest * (widest + 1);
        trial p = {.n = n / 2, .ldv = n / 2, .nvec = 1, .way = KL_WAY_READ};
        if (n >= LEAST) KL_TRY(measure(b, &p, err));
        if (n >= LEAST && p.seconds > 0) b->memory = 8.0 * (double)(n / 2 * 2) / p.seconds;
        if (b->memory > 0)
            printf("memory is read at %.1f GB/s; the ceiling \"reading\" is as many bytes as each line "
                   "moves, a part of them from the cache where it holds one\n",
                   1e-9 * b->memory);
    }
    if (b->csv)
        fprintf(b->csv,
                "rows,width,exec,way,belt,seconds,gb_per_s,of_reading,of_library,residual,operation\n");
    int left = 0;
    for (int i = 0; i < b->nheight; i++)
        for (int k = 0; k < b->nwidth; k++) {
            if (!b->named && kl_prof_seconds() - begun > most_seconds) {
                left++;
                continue;
            }
            const int64_t lines = (b->height[i] + 7) / 8; /* the stride of the eigensolvers' vectors */
            KL_TRY(one_width(b, b->height[i], 8 * (lines + (lines % 2 == 0)), (int)b->width[k], err));
            fflush(stdout);
        }
    if (left > 0)
        printf("%.0f s are over: %d of %d shapes are left out; those of --height and --width are all made\n",
               most_seconds, left, b->nheight * b->nwidth);
out:
    return st;
}

/* Where nobody names heights. A device that does not know how much memory is free may be the host itself,
   which takes long for tall ones and is not asked beyond 2 million rows. */
static void usual_heights(bench *b)
{
    static const int64_t heights[] = {100000, 500000, 2000000, 5000000, 20000000};
    const int host = b->ex == b->host || b->ex->vt.room(b->ex) == INT64_MAX;
    for (b->nheight = 0; b->nheight < (host ? 3 : 5); b->nheight++)
        b->height[b->nheight] = heights[b->nheight];
}

kl_status kl_bench_tall(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_bench_options *const asked = &o->bench;
    const char *const csv = asked->csv;
    const int normal = o->command == KL_CMD_BENCH_GEMV_NORMAL;
    bench b = {.op = normal ? KL_OP_COMBINE : KL_OP_DOTS,
               .name = kl_command_name(o->command),
               .nheight = asked->height.n,
               .nwidth = asked->width.n,
               .nbelt = asked->belt.n};
    KL_TRY(kl_options_integers("--height", &asked->height, 1, 100000000, MOST_HEIGHT, b.height, err));
    KL_TRY(kl_options_integers("--width", &asked->width, 1, WIDEST, MOST_WIDTH, b.width, err));
    KL_TRY(kl_options_integers("--belt", &asked->belt, 1, 32, MOST_BELT, b.belt, err));
    b.named = b.nheight > 0 || b.nwidth > 0;
    for (int i = 0; b.nwidth == 0 && i < 32; i++) b.width[i] = i + 1;
    if (b.nwidth == 0) b.nwidth = 32;
    if (b.nbelt == 0) b.belt[b.nbelt++] = 8, b.belt[b.nbelt++] = 16;
    KL_TRY(kl_exec_open_host(0, &b.host, err));
    if (o->exec != NULL && strcmp(o->exec, "host") == 0) b.ex = b.host;
    else if (o->exec != NULL && strcmp(o->exec, "offload") == 0) {
        kl_err none;
        if (kl_exec_open_cuda(KL_ANY_DEVICE, &b.peer, &none) != KL_OK)
            printf("no ceiling, no library: %s\n", none.text);
        KL_TRY(kl_exec_open_offload(KL_ANY_DEVICE, 0, &b.ex, err));
    } else KL_TRY(kl_exec_open_cuda(KL_ANY_DEVICE, &b.ex, err));
    if (b.nheight == 0) usual_heights(&b);
    if (csv) {
        b.csv = fopen(csv, "w");
        if (!b.csv) KL_TRY(kl_fail(err, KL_EIO, "--csv: '%s' cannot be written", csv));
    }
    printf("%s, %s; host: %s\n", normal ? "V y" : "V^T x", b.ex->where, b.host->where);
    KL_TRY(sweep(&b, err));
out:
    if (b.csv && fclose(b.csv) != 0 && st == KL_OK)
        st = kl_fail(err, KL_EIO, "--csv: '%s' cannot be written", csv);
    if (b.ex && b.ex != b.host) {
        b.ex->vt.release(b.ex, &b.v);
        b.ex->vt.release(b.ex, &b.x);
        kl_exec_close(&b.ex);
    }
    kl_exec_close(&b.peer);
    kl_exec_close(&b.host);
    kl_free(&b.hv);
    kl_free(&b.hx);
    kl_free(&b.answer);
    return st;
}
