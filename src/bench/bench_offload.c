/* `kronlat bench offload` and `kronlat bench cuda`: every operation of a device's executor on vectors and
   lists of the sizes that matter, each checked before it is timed. Rates are told with ceilings of the same
   run: for streams the copy, for products one large product. Streams are timed as a solver has them, one
   after the other: the median of 99 after 0.05 s of the same work, for after a rest the host's part of a
   launch takes 3 microseconds more. Products heat up the card, which then slows down: "burst" is the median
   of nine after 0.3 s of rest, "sustained" the median of nine after 0.6 s of the same work. Lists too short
   for the host's clock run several times in each of the nine, a millisecond in all: more would be lasting
   load, which slows the card down within a tenth of a second.
   SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench_offload.h"
#include "bench/bench_lines.h"
#include "dmrg/engine.h"
#include "dmrg/opdense.h"
#include "base/mem.h"
#include "base/random.h"
#include "cli/commandline.h"
#include "cli/report.h"
#include "dmrg/superblock.h"
#include "run/task.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static kl_status dgemm_ceiling(kl_bench_device *b, kl_err *err);

/* A list on the device by both kernels, and on the host where that was asked for; the last answer is what the
   others are compared with. x, y and bases are on the device. */
static kl_status list_lines(kl_bench_device *b, const char *name, kl_batch *q, kl_dptr x, kl_dptr y,
                            const int64_t *size, kl_err *err)
{
    kl_status st = KL_OK;
    double *want = NULL, *got = NULL, *copy[KL_NAT] = {NULL};
    kl_dptr kept[KL_NAT];
    double cuda = 0; /* seconds of its kernel */
    if (!kl_bench_wanted(b, name)) return KL_OK;
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
        if (b->own && k >= 0 && k + 1 < b->nway && !b->way[w].yardstick) continue;
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
        if (st == KL_OK && k >= 0) st = kl_bench_burst(b, list_run, &l, &t, err);
        if (st == KL_OK && k >= 0) st = kl_bench_sustained(b, list_run, &l, &u, err);
        ex->vt.batch_release(ex, q);
        if (st != KL_OK) goto out;
        if (k < 0) continue;
        t /= l.repeat, u /= l.repeat;
        const double rate = q->flop / t * 1e-12;
        char of[40] = "", share[40] = "", lasting[40] = "";
        if (b->way[k].yardstick) cuda = t;
        else if (cuda > 0) snprintf(of, sizeof of, ", %.0f %% of CUDA's", 100 * cuda / t);
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

/* EVEN: leading dimensions and offsets are even; FACTORS: each product has its own */
typedef enum operands { PACKED, EVEN, EVEN_FACTORS } operands;

/* Products of given shapes (m, n, k; the fourth number: 1 adds to the output before), operands after each
   other in LEFT and x. */
static kl_status shapes_line(kl_bench_device *b, const char *name, int n, const int (*shape)[4], int ta,
                             int tb, operands how, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch q;
    kl_dptr left = {0}, x = {0}, y = {0};
    int64_t nl = 0, nx = 0, ny = 0;
    uint64_t seed = 5;
    const int even = how != PACKED;
    kl_batch_init(&q);
    if (!kl_bench_wanted(b, name)) return KL_OK;
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
    KL_TRY(kl_bench_put_random(b->ex, left, nl, err));
    KL_TRY(kl_bench_put_random(b->ex, x, nx, err));
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

/* By CUDA every list is compared with what cuBLAS does with one large product in the same run. */
static kl_status dgemm_ceiling(kl_bench_device *b, kl_err *err)
{
    static const int one[1][4] = {{4096, 4096, 4096, 0}};
    kl_bench_device alone = *b;
    alone.only = NULL, alone.with_host = 0, alone.nway = 1; /* the first line: cuBLAS, call by call */
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

static kl_status bench_shapes(kl_bench_device *b, kl_err *err)
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
    KL_TRY(kl_block_create_edge(ex, e->mpo, side, e->target, out, err));
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
    KL_TRY(kl_bench_put_random(ex, (*out)->data, (*out)->ndata, err));
out:
    kl_basis_clear(&kept);
    kl_enlarged_destroy(&en);
    kl_free(&dim);
    return st;
}

static kl_status superblock_line(kl_bench_device *b, const kl_task *t, kl_strategy strategy, int m,
                                 kl_err *err)
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
    if (!kl_bench_wanted(b, name)) return KL_OK;
    const kl_engine_opts eo = {
        .target = t->target, .nstate = 1, .strategy = strategy, .solver = KL_SOLVER_DAVIDSON, .seed = 1};
    KL_TRY(kl_engine_create(t->terms, ex, &eo, &e, err));
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
    KL_TRY(kl_bench_put_random(ex, x, lay.n, err));
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

static kl_status bench_superblocks(kl_bench_device *b, kl_err *err)
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

/* The CUDA module in addition to offload, if it drives the same GPU: both are then in the device's one
   context and take each other's addresses. */
static void open_beside(kl_bench_device *b)
{
    kl_err absent;
    int ours = -1, theirs = -2;
    if (sscanf(b->ex->where, "device %d (sm_", &ours) != 1 ||
        kl_exec_open_cuda(KL_ANY_DEVICE, &b->cuda, &absent) != KL_OK)
        return;
    if (sscanf(b->cuda->where, "device %d (sm_", &theirs) != 1 || ours != theirs) kl_exec_close(&b->cuda);
}

kl_status kl_bench_offload(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_bench_options *const asked = &o->bench;
    kl_bench_device b = {.n = asked->elements > 0 ? asked->elements : 200000000,
                         .with_host = asked->host,
                         .quick = asked->quick,
                         .own = asked->own,
                         .shapes = asked->shapes,
                         .only = asked->only,
                         .nm = asked->m.n};
    const int cuda = o->command == KL_CMD_BENCH_CUDA;
    int64_t m[KL_BENCH_M];
    KL_TRY(kl_options_integers("--m", &asked->m, 2, 100000, KL_BENCH_M, m, err));
    for (int i = 0; i < b.nm; i++) b.m[i] = (int)m[i];
    if (b.nm == 0) b.m[b.nm++] = 2048, b.m[b.nm++] = 4096;
    if (cuda) {
        KL_TRY(kl_exec_open_cuda(KL_ANY_DEVICE, &b.ex, err));
        static const kl_projection ways[] = {KL_PROJECTION_NOSTREAMS, KL_PROJECTION_4STREAMS,
                                             KL_PROJECTION_CONCAT,    KL_PROJECTION_BATCHED,
                                             KL_PROJECTION_LIBRARY,   KL_PROJECTION_GROUPED};
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
            b.way[b.nway++] = (kl_bench_way){b.ex, ways[i], 0};
    } else {
        KL_TRY(kl_exec_open_offload(KL_ANY_DEVICE, 0, &b.ex, err));
        KL_TRY(kl_exec_open_offload(KL_ANY_DEVICE, 1, &b.plain, err));
        b.way[b.nway++] = (kl_bench_way){b.plain, KL_PROJECTION_AUTO, 0};
        open_beside(&b);
        if (b.cuda) b.way[b.nway++] = (kl_bench_way){b.cuda, KL_PROJECTION_GROUPED, 1};
        b.way[b.nway++] = (kl_bench_way){b.ex, KL_PROJECTION_AUTO, 0};
    }
    if (b.with_host) KL_TRY(kl_exec_open_host(0, &b.host, err));
    if (!b.shapes) KL_TRY(kl_bench_streams(&b, err));
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
