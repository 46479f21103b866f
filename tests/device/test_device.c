/* Executors of devices, compiled once for each: offload, with the best kernels of the device and with the
   plain ones, and CUDA, with all the memory and with so little that lists run in rounds. Every vector entry
   against plain loops (odd sizes, padded strides, addresses that allow no wide access, outputs full of NaN,
   guard words on the device), random lists of records and the lists of superblocks against the host, ground
   states against the host's, and the device's memory back at the end. On a GPU run it with
   OMP_TARGET_OFFLOAD=MANDATORY; without one the CUDA tests say SKIP.
   SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "core.h"
#include "base/dense.h"
#include "ed/ed.h"
#include "exec/baselines.h"
#include "exec/hybrid.h"
#include "kl_test.h"
#include "lists.h"
#include "exec/mixed.h"
#include "record/record.h"
#include "dmrg/superblock.h"
#include "dmrg/reflect.h"
#if !KL_TEST_CUDA
#include <omp.h>
#endif

static const double EPS = 2.220446049250313e-16;
static const int64_t sizes[] = {0, 1, 2, 31, 33, 597, 4097, 120001};
enum { NSIZE = sizeof(sizes) / sizeof(*sizes), G = KL_TEST_GUARD };

typedef struct fixture {
    kl_exec *ex[2], *host;
} fixture;

enum { ROOM = 4 << 20 };
#if KL_TEST_CUDA
enum { LITTLE = 96 << 20 };
static kl_status open_one(int plain, kl_exec **out, kl_err *err)
{
    const kl_status st = kl_exec_open_cuda(out, err);
    if (st == KL_OK && plain) (*out)->most_bytes = LITTLE;
    return st;
}
#else
static kl_status open_one(int plain, kl_exec **out, kl_err *err)
{
    return kl_exec_open_offload(plain, out, err);
}
#endif

static int setup(void **state)
{
    static fixture f;
    kl_err err = {""};
    for (int plain = 0; plain < 2; plain++)
        if (open_one(plain, &f.ex[plain], &err) != KL_OK) {
            print_error("%s\n", err.text);
            return -1;
        }
    if (kl_exec_open_host(1, &f.host, &err) != KL_OK) return -1;
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *const f = *state;
    for (int plain = 0; plain < 2; plain++) kl_exec_close(&f->ex[plain]);
    kl_exec_close(&f->host);
    if (kl_mem_device_live_bytes() != 0)
        print_error("%lld bytes of the device are not given back\n", (long long)kl_mem_device_live_bytes());
    return kl_mem_live_total() == 0 && kl_mem_device_live_bytes() == 0 ? 0 : -1;
}

/* A guarded array of the host and its copy, guards and all, on the device; `shift` doubles off the alignment
   of allocations. */
typedef struct both {
    double *host;
    int64_t n;
    kl_dptr all, dev;
} both;

static both make(kl_exec *ex, int64_t n, int shift, uint64_t seed)
{
    kl_err err = {""};
    both b = {.host = kl_test_guarded(n), .n = n};
    for (int64_t i = 0; seed && i < n; i++) b.host[i] = kl_test_uniform(&seed);
    expect_ok(ex->vt.alloc(ex, n + 2 * G + 1, &b.all, &err), err);
    b.dev = kl_dptr_at(b.all, G + shift);
    expect_ok(ex->vt.upload(ex, kl_dptr_at(b.all, shift), b.host - G, n + 2 * G, &err), err);
    return b;
}

/* The same in far memory, where the projection streams operators from there. */
static both make_operators(kl_exec *ex, int64_t n, int shift, uint64_t seed)
{
    kl_err err = {""};
    both b = make(ex, n, shift, seed);
    if (ex->projection != KL_PROJECTION_NOSTORAGE) return b;
    const kl_dptr near = b.all;
    expect_true(kl_exec_move_operators(ex, 1, n + 2 * G + 1, &b.all));
    expect_true(kl_exec_is_far(ex, b.all) && b.all.addr != near.addr);
    b.dev = kl_dptr_at(b.all, G + shift);
    expect_ok(ex->vt.upload(ex, kl_dptr_at(b.all, shift), b.host - G, n + 2 * G, &err), err);
    return b;
}

/* What the device has; its guards must stand. */
static void fetch(kl_exec *ex, const both *b)
{
    kl_err err = {""};
    expect_ok(ex->vt.download(ex, b->host - G, kl_dptr_at(b->dev, -G), b->n + 2 * G, &err), err);
    kl_test_guards_hold(b->host, b->n);
}

static void drop(kl_exec *ex, both *b)
{
    ex->vt.release(ex, &b->all);
    kl_test_free(b->host);
}

static void test_open(void **state)
{
    fixture *const f = *state;
    for (int plain = 0; plain < 2; plain++) {
        kl_exec *const ex = f->ex[plain];
        const kl_vtable *const v = &ex->vt;
        expect_true(v->alloc && v->release && v->upload && v->download && v->copy && v->fill && v->axpby &&
                    v->dots && v->combine && v->precondition);
        expect_true(v->batch_prepare && v->batch_apply && v->batch_release && v->batch_explain && v->room &&
                    v->explain && v->close);
        if (!KL_TEST_CUDA) expect_true(v->fuse && v->kron_prepare && v->kron_apply && v->kron_release);
        expect_true(ex->where[0] != '\0');
        assert_string_equal(ex->name, KL_TEST_CUDA ? "cuda" : "offload");
        expect_true(ex->space == KL_SPACE_DEVICE);
    }
#if !KL_TEST_CUDA
    if (!KL_OFFLOAD_ON_HOST) expect_true(omp_get_num_devices() > 0);
#endif
    kl_exec *ex = NULL;
    kl_err err = {""};
    for (int64_t k = 1; k <= 2; k++) {
        const int64_t live = kl_mem_live_total();
        kl_mem_fail_after(k);
        expect_eq(open_one(0, &ex, &err), KL_ENOMEM);
        kl_mem_fail_after(0);
        expect_true(ex == NULL);
        expect_eq(kl_mem_live_total(), live);
    }
    kl_dptr p;
    expect_refused(f->ex[0]->vt.alloc(f->ex[0], INT64_C(1) << 45, &p, &err), KL_ENOMEM, err, "device");
    expect_true(p.addr == 0);
}

static void test_streams(void **state)
{
    fixture *const f = *state;
    static const double factors[][2] = {{1.0, 0.0}, {-0.7, 1.0}, {2.0, -0.3}, {0.0, 1.0}, {0.0, 0.0}};
    for (int q = 0; q < 2 * NSIZE * 4; q++) {
        kl_exec *const ex = f->ex[q & 1];
        const int64_t n = sizes[q / 8];
        const int sx = q >> 1 & 1, sy = q >> 2 & 1;
        kl_test_case("plain=%d n=%lld shifts %d %d", q & 1, (long long)n, sx, sy);
        both x = make(ex, n, sx, 1), y = make(ex, n, sy, 0);
        ex->vt.copy(ex, n, x.dev, y.dev);
        fetch(ex, &y);
        expect_true(n == 0 || memcmp(y.host, x.host, (size_t)n * sizeof(double)) == 0);
        ex->vt.fill(ex, n, -2.5, y.dev);
        fetch(ex, &y);
        for (int64_t i = 0; i < n; i++) expect_true(y.host[i] == -2.5);
        drop(ex, &y);
        for (int c = 0; c < 5; c++) {
            const double a = factors[c][0], b = factors[c][1];
            both z = make(ex, n, sy, b != 0.0 ? 2 : 0);
            double *const old = kl_test_guarded(n);
            memcpy(old, z.host, (size_t)n * sizeof(double));
            ex->vt.axpby(ex, n, a, x.dev, b, z.dev);
            fetch(ex, &z);
            for (int64_t i = 0; i < n; i++)
                expect_near(z.host[i], a * x.host[i] + (b != 0.0 ? b * old[i] : 0.0), 4 * EPS);
            kl_test_free(old);
            drop(ex, &z);
        }
        both d = make(ex, n, sx, 3), r = make(ex, n, sy, 4), t = make(ex, n, sy, 0);
        const double theta = n > 0 ? d.host[n / 2] : 0.0, floor = 0.2;
        for (int in_place = 0; in_place < 2; in_place++) {
            both *const to = in_place ? &r : &t;
            double *const old = kl_test_guarded(n);
            memcpy(old, r.host, (size_t)n * sizeof(double));
            ex->vt.precondition(ex, n, d.dev, theta, floor, r.dev, to->dev);
            fetch(ex, to);
            for (int64_t i = 0; i < n; i++) {
                double gap = d.host[i] - theta;
                if (fabs(gap) < floor) gap = gap < 0.0 ? -floor : floor;
                expect_near(to->host[i], old[i] / gap, 4 * EPS / floor);
            }
            kl_test_free(old);
        }
        drop(ex, &x), drop(ex, &d), drop(ex, &r), drop(ex, &t);
    }
}

static void test_tall(void **state)
{
    fixture *const f = *state;
    static const int counts[] = {0, 1, 2, 3, 4, 5, 7, 12, 16, 21, 24, 25, 51};
    const int all = 2 * 13 * 2, step = kl_test_step(all);
    for (int s = 0; s < NSIZE; s++)
        for (int q = s % step; q < all; q += step) {
            kl_exec *const ex = f->ex[q & 1];
            const int shift = q >> 1 & 1, nvec = counts[q / 4];
            const int64_t n = sizes[s], ldv = n + (q % 3 == 0 ? 5 : 6);
            kl_test_case("plain=%d n=%lld nvec=%d shift=%d ldv=%lld", q & 1, (long long)n, nvec, shift,
                         (long long)ldv);
            both v = make(ex, nvec * ldv, shift, 7), x = make(ex, n, 0, 8);
            double out[51], again[51], c[51];
            uint64_t seed = 9;
            for (int j = 0; j < nvec; j++) c[j] = kl_test_uniform(&seed);
            ex->vt.dots(ex, n, nvec, v.dev, ldv, x.dev, out);
            ex->vt.dots(ex, n, nvec, v.dev, ldv, x.dev, again);
            for (int j = 0; j < nvec; j++) {
                double sum = 0.0;
                for (int64_t i = 0; i < n; i++) sum += v.host[i + j * ldv] * x.host[i];
                expect_near(out[j], sum, 4 * EPS * (double)n);
                expect_true(memcmp(&out[j], &again[j], sizeof *out) == 0);
            }
            for (int kind = 0; kind < 3; kind++) {
                const double b = kind == 0 ? 0.0 : kind == 1 ? 1.0 : -0.4;
                both y = make(ex, n, 0, b != 0.0 ? 6 : 0);
                double *const old = kl_test_guarded(n);
                memcpy(old, y.host, (size_t)n * sizeof(double));
                ex->vt.combine(ex, n, nvec, v.dev, ldv, c, b, y.dev);
                fetch(ex, &y);
                for (int64_t i = 0; i < n; i++) {
                    double sum = b != 0.0 ? b * old[i] : 0.0;
                    for (int j = 0; j < nvec; j++) sum += c[j] * v.host[i + j * ldv];
                    expect_near(y.host[i], sum, 4 * EPS * (nvec + 1));
                }
                kl_test_free(old);
                drop(ex, &y);
            }
            drop(ex, &v), drop(ex, &x);
        }
}

/* So long that narrow passes have a beginning, a middle and an end on every device. They take turns in going
   there and back, and V y does: nobody sees it in the answers. */
static void test_there_and_back(void **state)
{
    fixture *const f = *state;
    const int64_t n = KL_TEST_CUDA || KL_OFFLOAD_ON_HOST ? 350003 : 3500003, ldv = n + 5;
    for (int q = 0; q < 2; q++)
        for (int nvec = 1; nvec <= 3; nvec += 2) {
            kl_exec *const ex = f->ex[q];
            kl_test_case("plain=%d nvec=%d", q, nvec);
            both v = make(ex, nvec * ldv, 0, 7), x = make(ex, n, 0, 8), y = make(ex, n, 0, 0);
            const double c[3] = {0.5, -1.5, 0.25};
            double out[4][3], sum[3] = {0};
            for (int j = 0; j < nvec; j++)
                for (int64_t i = 0; i < n; i++) sum[j] += v.host[i + j * ldv] * x.host[i];
            for (int k = 0; k < 4; k++) {
                ex->vt.dots(ex, n, nvec, v.dev, ldv, x.dev, out[k]);
                for (int j = 0; j < nvec; j++) {
                    expect_near(out[k][j], sum[j], 1e-12 * (double)n);
                    expect_true(memcmp(&out[k][j], &out[0][j], sizeof out[0][j]) == 0);
                }
                if (k == 0) continue; /* then in turns with V y */
                ex->vt.combine(ex, n, nvec, v.dev, ldv, c, 0.0, y.dev);
                fetch(ex, &y);
                for (int64_t i = 0; i < n; i++) {
                    double want = 0.0;
                    for (int j = 0; j < nvec; j++) want += c[j] * v.host[i + j * ldv];
                    expect_near(y.host[i], want, 8 * EPS);
                }
            }
            drop(ex, &v), drop(ex, &x), drop(ex, &y);
        }
}

/* Fused steps of every size beside the host's; outputs take the place of inputs, and what has coefficient 0
   may be NaN. */
static void test_fuse(void **state)
{
    fixture *const f = *state;
    if (!f->ex[0]->vt.fuse) skip();
    enum { NSHAPE = 18 };
    static const int shape[NSHAPE][3] = {{1, 0, 1},     {3, 1, 1},  {4, 2, 1},   {2, 1, 4},   {4, 2, 4},
                                         {4, 3, 1},     {5, 2, 0},  {18, 0, 90}, {18, 15, 6}, {33, 31, 128},
                                         {96, 80, 128}, {7, 1, 33}, {6, 5, 15},  {6, 0, 21},  {3, 1, 1},
                                         {2, 3, 6},     {4, 5, 15}, {1, 1, 1}};
    for (int q = 0; q < 2 * NSIZE * NSHAPE; q++) {
        kl_exec *const ex = f->ex[q & 1];
        /* the last shapes: what registers hold, at even places, products of outputs alone */
        const int few = q / (2 * NSIZE) >= 12;
        const int64_t n = sizes[q / 2 % NSIZE] + few * (sizes[q / 2 % NSIZE] % 2);
        const int *const m = shape[q / (2 * NSIZE)], nin = m[0], nout = m[1], npair = m[2];
        if (n * (nin + nout) > 3000000) continue;
        kl_test_case("plain=%d n=%lld: %d in, %d out, %d pairs", q & 1, (long long)n, nin, nout, npair);
        uint64_t seed = (uint64_t)q + 1;
        double c[KL_FUSE_MOST * KL_FUSE_MOST_OUT], got[KL_FUSE_MOST_PAIR], want[KL_FUSE_MOST_PAIR];
        int pair[KL_FUSE_MOST_PAIR][2];
        /* full of NaN, and nobody may notice */
        const int unused = nin > 2 && nout > 0 ? lists_below(&seed, nin) : -1;
        for (int i = 0; i < nout * nin; i++)
            c[i] = i % nin == unused || lists_below(&seed, 4) == 0 ? 0.0 : kl_test_uniform(&seed);
        const int first = few && nout > 0 ? nin : 0;
        for (int p = 0; p < npair; p++)
            for (int k = 0; k < 2; k++) do
                    pair[p][k] = first + lists_below(&seed, nin + nout - first);
                while (pair[p][k] == unused);
        both in[2][KL_FUSE_MOST], out[2][KL_FUSE_MOST_OUT];
        for (int w = 0; w < 2; w++) {
            kl_exec *const e = w ? ex : f->host;
            kl_dptr from[KL_FUSE_MOST], to[KL_FUSE_MOST_OUT];
            for (int j = 0; j < nin; j++)
                from[j] = (in[w][j] = make(e, n, !few && j % 2, j == unused ? 0 : (uint64_t)j + 3)).dev;
            for (int k = 0; k < nout; k++) {
                out[w][k] = make(e, n, 0, 0);
                to[k] = k % 3 == 1 && k < nin ? from[k] : out[w][k].dev;
            }
            const kl_fuse step = {.nin = nin,
                                  .nout = nout,
                                  .npair = npair,
                                  .in = from,
                                  .out = to,
                                  .c = c,
                                  .pair = (const int (*)[2])pair};
            e->vt.fuse(e, n, &step, w ? got : want);
        }
        for (int p = 0; p < npair; p++) expect_near(got[p], want[p], 8 * EPS * (double)(n + 1) * (nin + 1));
        for (int w = 0; w < 2; w++)
            for (int i = 0; i < nin + nout; i++)
                fetch(w ? ex : f->host, i < nin ? &in[w][i] : &out[w][i - nin]);
        for (int i = 0; i < nin + nout; i++) {
            const both *const a = i < nin ? &in[1][i] : &out[1][i - nin], *const b = i < nin
                                                                                         ? &in[0][i]
                                                                                         : &out[0][i - nin];
            for (int64_t r = 0; r < n; r++)
                if (!isnan(a->host[r]) || !isnan(b->host[r]))
                    expect_near(a->host[r], b->host[r], 4 * EPS * (nin + 1));
        }
        for (int w = 0; w < 2; w++)
            for (int i = 0; i < nin + nout; i++)
                drop(w ? ex : f->host, i < nin ? &in[w][i] : &out[w][i - nin]);
    }
}

/* Every width up to beyond the widest belt, at heights that leave tails, fill all blocks and are worth other
   kernels; what an operation writes is full of NaN before. */
static void test_widths(void **state)
{
    fixture *const f = *state;
    enum { MOST = 40 };
    static const int64_t heights[] = {597, 33, 4099, 0, 1, 2, 31, 255, 70003, 2100001};
    const int rounds = kl_test_rounds(10);
    for (int q = 0; q < 2 * rounds; q++) {
        const int plain = q & 1, large = heights[q / 2] > 100000, most = large ? 33 : MOST;
        kl_exec *const ex = f->ex[plain];
        const int64_t n = heights[q / 2], ldv = n + n % 2 + 6;
        if (plain && large) continue;
        both v = make(ex, most * ldv, 0, 17), x = make(ex, n, 0, 18);
        double want[MOST] = {0}, *const sum = calloc((size_t)n + 1, sizeof *sum);
        for (int j = 0; j < most; j++)
            for (int64_t i = 0; i < n; i++) want[j] += v.host[i + j * ldv] * x.host[i];
        for (int nvec = 1; nvec <= most; nvec++) {
            double out[MOST], c[MOST];
            for (int j = 0; j < nvec; j++) c[j] = 0.1 * (j % 7) - 0.25, out[j] = NAN;
            for (int64_t i = 0; i < n; i++) sum[i] += c[nvec - 1] * v.host[i + (nvec - 1) * ldv];
            if (large && nvec % 4 > 1) continue;
            kl_test_case("plain=%d n=%lld nvec=%d", plain, (long long)n, nvec);
            ex->vt.dots(ex, n, nvec, v.dev, ldv, x.dev, out);
            for (int j = 0; j < nvec; j++) expect_near(out[j], want[j], 4 * EPS * (double)n);
            both y = make(ex, n, 0, 0);
            ex->vt.combine(ex, n, nvec, v.dev, ldv, c, 0.0, y.dev);
            fetch(ex, &y);
            for (int64_t i = 0; i < n; i++) expect_near(y.host[i], sum[i], 4 * EPS * (nvec + 1));
            drop(ex, &y);
            /* each way at every height, in belts too */
            for (kl_way way = KL_WAY_OWN; ex->baselines && !plain && n > 0 && !large && way <= KL_WAY_SHARED;
                 way++) {
                kl_err err = {""};
                kl_trial t = {.op = KL_OP_DOTS,
                              .way = way,
                              .belt = nvec % 3 ? 0 : 5,
                              .repeat = 1,
                              .n = n,
                              .ldv = ldv,
                              .nvec = nvec,
                              .v = v.dev,
                              .x = x.dev,
                              .out = out};
                for (int j = 0; j < nvec; j++) out[j] = NAN;
                const kl_status st = ex->baselines->trial(ex, &t, &err);
                if (st == KL_EABSENT) continue;
                expect_ok(st, err);
                for (int j = 0; j < nvec; j++) expect_near(out[j], want[j], 4 * EPS * (double)n);
            }
        }
        free(sum);
        drop(ex, &v), drop(ex, &x);
    }
}

/* An orthogonalization pass with the products that the next one begins with. */
static void test_combine_dots(void **state)
{
    fixture *const f = *state;
    static const int counts[] = {1, 2, 3, 8, 20, 31, 32, 60};
    for (int s = 0; s < NSIZE; s++)
        for (int q = 0; q < 8 * 4; q++) {
            const int nvec = counts[q / 4], shift = q >> 1 & 1;
            const int64_t n = sizes[s], ldv = n + 6 - n % 2;
            kl_exec *const ex = f->ex[n > 5000 ? 0 : q & 1];
            if (!ex->vt.fuse) continue;
            kl_test_case("plain=%d n=%lld nvec=%d shift=%d", q & 1, (long long)n, nvec, shift);
            both v = make(ex, (nvec + 1) * ldv, shift, 27);
            double *const old = kl_test_guarded((nvec + 1) * ldv), c[61], dots[61], want[61] = {0};
            kl_dptr in[61];
            int pair[61][2];
            uint64_t seed = 28;
            memcpy(old, v.host, (size_t)((nvec + 1) * ldv) * sizeof *old);
            for (int j = 0; j <= nvec; j++) {
                in[j] = kl_dptr_at(v.dev, j * ldv);
                c[j] = j == nvec && s % 2 ? 0.0 : kl_test_uniform(&seed);
                pair[j][0] = j < nvec ? j : nvec + 1;
                pair[j][1] = nvec + 1;
            }
            ex->vt.fuse(ex, n,
                        &(kl_fuse){.nin = nvec + 1,
                                   .nout = 1,
                                   .npair = nvec + 1,
                                   .in = in,
                                   .out = &in[nvec],
                                   .c = c,
                                   .pair = (const int (*)[2])pair},
                        dots);
            fetch(ex, &v);
            for (int64_t i = 0; i < n; i++) {
                double y = 0.0;
                for (int j = 0; j <= nvec; j++) y += c[j] * old[i + j * ldv];
                expect_near(v.host[i + nvec * ldv], y, 4 * EPS * (nvec + 1));
                for (int j = 0; j < nvec; j++) want[j] += old[i + j * ldv] * y;
                want[nvec] += y * y;
            }
            for (int j = 0; j <= nvec; j++)
                expect_near(dots[j], want[j], 8 * EPS * (double)(n + 1) * (nvec + 1));
            expect_true(memcmp(v.host, old, (size_t)(nvec * ldv) * sizeof *old) == 0);
            kl_test_free(old);
            drop(ex, &v);
        }
}

/* Matrices of any sizes at once against LAPACK's values, and A V = V w with orthonormal V; what is not a
   number is refused. */
static void test_eigen(void **state)
{
    fixture *const f = *state;
    static const int dim[] = {1, 2, 57, 0, 130, 31, 200, 5};
    enum { NMAT = 8 };
    for (int which = 0; which < 2; which++) {
        kl_exec *const ex = f->ex[which];
        kl_err err = {""};
        int64_t off[NMAT], total = 0, values = 0;
        if (!ex->vt.eigen) continue;
        for (int i = 0; i < NMAT; i++)
            off[i] = total, total += (int64_t)dim[i] * dim[i] + 3, values += dim[i];
        both a = make(ex, total, 0, 37);
        for (int i = 0; i < NMAT; i++)
            for (int r = 0; r < dim[i]; r++)
                for (int c = 0; c < r; c++)
                    a.host[off[i] + c + (int64_t)r * dim[i]] = a.host[off[i] + r + (int64_t)c * dim[i]];
        expect_ok(ex->vt.upload(ex, a.dev, a.host, total, &err), err);
        double *const old = kl_test_guarded(total), *const w = kl_test_guarded(values),
                      *const want = kl_test_guarded(201);
        memcpy(old, a.host, (size_t)total * sizeof *old);
        expect_ok(ex->vt.eigen(ex, NMAT, dim, off, a.dev, w, &err), err);
        fetch(ex, &a);
        const double *value = w;
        for (int i = 0; i < NMAT; value += dim[i++]) {
            const int n = dim[i];
            const double *const m = old + off[i], *const v = a.host + off[i], tol = 50 * EPS * n;
            kl_test_case("executor %d matrix %d", which, i);
            for (int c = 0; c < n; c++)
                for (int r = 0; r < n; r++) {
                    double left = 0.0, product = 0.0;
                    for (int k = 0; k < n; k++)
                        left += m[r + (int64_t)k * n] * v[k + (int64_t)c * n],
                            product += v[k + (int64_t)r * n] * v[k + (int64_t)c * n];
                    expect_near(left, value[c] * v[r + (int64_t)c * n], tol * n);
                    expect_near(product, r == c, tol);
                }
            double *const copy = kl_test_guarded((int64_t)n * n);
            memcpy(copy, m, (size_t)n * (size_t)n * sizeof *copy);
            expect_ok(kl_dense_eig(n, copy, n > 1 ? n : 1, want, &err), err);
            for (int c = 0; c < n; c++) expect_near(value[c], want[c], tol);
            kl_test_free(copy);
            for (int k = 0; k < 3; k++)
                expect_true(memcmp(&a.host[off[i] + (int64_t)n * n + k], &old[off[i] + (int64_t)n * n + k],
                                   sizeof *old) == 0);
        }
        kl_test_guards_hold(w, values);
        a.host[off[4] + 7] = NAN;
        expect_ok(ex->vt.upload(ex, a.dev, a.host, total, &err), err);
        expect_refused(ex->vt.eigen(ex, NMAT, dim, off, a.dev, w, &err), KL_EINPUT, err, "130 rows");
        kl_test_free(old);
        kl_test_free(w);
        kl_test_free(want);
        drop(ex, &a);
    }
}

/* The same by way of tridiagonal matrices: LAPACK has these, and their vectors are turned by the reflections
   that stay there. All columns of some matrices, some of others. */
static void test_tridiagonal(void **state)
{
    fixture *const f = *state;
    enum { NMAT = 11 };
    int dim[NMAT] = {1, 2, 57, 0, 130, 31, 200, 5, 3, 200}, count[NMAT] = {1, 2, 57, 0, 40, 31, 200, 0, 3, 7};
    for (int which = 0; which < 2; which++) {
        kl_exec *const ex = f->ex[which];
        kl_err err = {""};
        int64_t off[NMAT], at[NMAT], total = 0, values = 0, columns = 0;
        if (!ex->vt.tridiagonal) continue;
        /* more shared memory than a kernel has unasked */
        dim[10] = strstr(ex->where, "bare") && kl_test_rounds(9) == 9 ? 2200 : 0, count[10] = dim[10] / 500;
        for (int i = 0; i < NMAT; i++) {
            off[i] = total, total += (int64_t)dim[i] * dim[i] + 3, values += dim[i];
            at[i] = columns, columns += (int64_t)dim[i] * count[i];
        }
        both a = make(ex, total, 0, 41), z = make(ex, columns, 0, 43);
        for (int i = 0; i < NMAT; i++)
            for (int r = 0; r < dim[i]; r++)
                for (int c = 0; c <= r; c++) {
                    double *const below = &a.host[off[i] + r + (int64_t)c * dim[i]];
                    /* diagonal but for a row: reflections that are none */
                    if (i == 9) *below = r == c ? 1.0 / (1 + r % 3) : r == 150 && c < 3 ? 0.3 : 0;
                    a.host[off[i] + c + (int64_t)r * dim[i]] = *below;
                }
        expect_ok(ex->vt.upload(ex, a.dev, a.host, total, &err), err);
        double *const old = kl_test_guarded(total), *const d = kl_test_guarded(values),
                      *const e = kl_test_guarded(values);
        double *w[NMAT] = {NULL}, *v[NMAT] = {NULL};
        memcpy(old, a.host, (size_t)total * sizeof *old);
        expect_ok(ex->vt.tridiagonal(ex, NMAT, dim, off, a.dev, d, e, &err), err);
        kl_test_guards_hold(d, values);
        kl_test_guards_hold(e, values);
        for (int64_t i = 0, from = 0; i < NMAT; from += dim[i++]) {
            const int n = dim[i];
            if (n == 0) continue;
            w[i] = kl_test_guarded(n), v[i] = kl_test_guarded((int64_t)n * n);
            expect_near(e[from + n - 1], 0, 0);
            expect_ok(kl_dense_eig_tridiagonal(n, d + from, e + from, w[i], v[i], n, &err), err);
            memcpy(z.host + at[i], v[i] + (int64_t)(n - count[i]) * n,
                   (size_t)(n * count[i]) * sizeof(double));
        }
        expect_ok(ex->vt.upload(ex, z.dev, z.host, columns, &err), err);
        const kl_reflections q = {.nmat = NMAT, .n = dim, .off = off, .v = a.dev, .nv = total};
        const kl_reflected turned = {.count = count, .at = at, .data = z.dev, .ndata = columns};
        expect_ok(kl_reflect(ex, &q, &turned, &err), err);
        fetch(ex, &a);
        fetch(ex, &z);
        for (int i = 0; i < NMAT; i++) {
            const int n = dim[i];
            const double *const m = old + off[i], *const x = z.host + at[i], tol = 50 * EPS * n;
            kl_test_case("executor %d matrix %d", which, i);
            for (int c = 0; c < count[i]; c++)
                for (int r = 0; r < n; r++) {
                    double left = 0.0, product = 0.0;
                    for (int k = 0; k < n; k++)
                        left += m[r + (int64_t)k * n] * x[k + (int64_t)c * n],
                            product += r < count[i] ? x[k + (int64_t)r * n] * x[k + (int64_t)c * n] : 0;
                    expect_near(left, w[i][n - count[i] + c] * x[r + (int64_t)c * n], tol * n);
                    expect_near(product, r == c, r < count[i] ? tol : 1);
                }
            for (int c = 0; c + 1 < n; c++)
                for (int r = 0; r <= c; r++) expect_near(a.host[off[i] + r + (int64_t)c * n], 0, 0);
            for (int k = 0; k < 3; k++)
                expect_true(memcmp(&a.host[off[i] + (int64_t)n * n + k], &old[off[i] + (int64_t)n * n + k],
                                   sizeof *old) == 0);
            kl_test_free(w[i]);
            kl_test_free(v[i]);
        }
        a.host[off[4] + 7] = NAN;
        expect_ok(ex->vt.upload(ex, a.dev, a.host, total, &err), err);
        expect_refused(ex->vt.tridiagonal(ex, NMAT, dim, off, a.dev, d, e, &err), KL_EINPUT, err, "130 rows");
        kl_test_free(old);
        kl_test_free(d);
        kl_test_free(e);
        drop(ex, &a);
        drop(ex, &z);
    }
}

/* ---- lists ---- */

/* The list on the host and on ex; y full of NaN before. Returns launches. */
static int compare(kl_exec *host, kl_exec *ex, kl_batch *b, int64_t room, int shift, double scale)
{
    kl_err err = {""};
    double *y[2];
    kl_batch_plan plan = {0};
    for (int k = 0; k < 2; k++) {
        kl_exec *const e = k ? ex : host;
        both x = make(e, room, k ? shift : 0, 1), left = make_operators(e, room, 0, 2),
             right = make(e, room, 1, 3), out = make(e, b->ny, k ? shift : 0, 0);
        b->base[KL_AT_LEFT] = left.dev;
        b->base[KL_AT_RIGHT] = right.dev;
        const int64_t most = e->most_bytes;
        /* so little that large intermediates take rounds */
        if (k && most > 0) e->most_bytes += ROOM - e->vt.room(e);
        const kl_status made = e->vt.batch_prepare(e, b, &err);
        e->most_bytes = most;
        expect_ok(made, err);
        for (int twice = 0; twice < 2; twice++) expect_ok(e->vt.batch_apply(e, b, x.dev, out.dev, &err), err);
        e->vt.batch_explain(e, b, &plan);
        e->vt.batch_release(e, b);
        fetch(e, &out);
        y[k] = kl_test_guarded(b->ny);
        memcpy(y[k], out.host, (size_t)b->ny * sizeof(double));
        drop(e, &x), drop(e, &left), drop(e, &right), drop(e, &out);
    }
    for (int64_t i = 0; i < b->ny; i++) {
        if (isnan(y[0][i]) && isnan(y[1][i])) continue;
        expect_near(y[1][i], y[0][i], scale * 1e-14 * (1 + fabs(y[0][i])));
    }
    kl_test_free(y[0]), kl_test_free(y[1]);
    return plan.nlaunch;
}

static void test_lists(void **state)
{
    fixture *const f = *state;
    const int rounds = kl_test_rounds(KL_OFFLOAD_BARE || KL_TEST_CUDA ? 600 : 300);
    for (int round = 0; round < rounds; round++) {
        uint64_t seed = (uint64_t)round;
        const int most = round % 10 == 0 ? 200 : 1 + round % 60, wild = round % 3 == 0, zero = round % 2;
        const int64_t room = (int64_t)(most + 3) * (most + 3) + 7;
        kl_batch b;
        kl_batch_init(&b);
        kl_test_case("round %d most=%d wild=%d zero=%d", round, most, wild, zero);
        lists_random(&b, room, 1 + lists_below(&seed, 20), most, wild, zero, &seed);
        b.once = round % 4 == 1, b.lasting = round % 4 == 2; /* planned with less care, or with more */
        for (int plain = 0; plain < 2; plain++)
            compare(f->host, f->ex[plain], &b, room, round & 1, 30.0 * most);
        if (KL_TEST_CUDA && round < rounds / 3) { /* and as it may be told to */
            kl_exec *const ex = f->ex[round % 2]; /* the second one streams operators in many chunks */
            ex->projection =
                (kl_projection)(KL_PROJECTION_4STREAMS + round % (KL_NPROJECTION - KL_PROJECTION_4STREAMS));
            kl_test_case("round %d by %s", round, kl_projection_name[ex->projection]);
            compare(f->host, ex, &b, room, round & 1, 30.0 * most);
            ex->projection = KL_PROJECTION_AUTO;
        }
        kl_batch_clear(&b);
    }
}

/* Few tiles and long sums, which a kernel may cut into parts; packed and odd, with several records an
   output. */
static void test_long(void **state)
{
    fixture *const f = *state;
    static const int shape[][3] = {{1, 1, 3000},   {17, 33, 2500},   {130, 129, 1777},
                                   {300, 5, 4001}, {128, 128, 4096}, {597, 601, 597}};
    kl_err err = {""};
    const int all = 6 * 4, step = all / kl_test_rounds(all);
    for (int q = 0; q < all; q += step) {
        const int m = shape[q / 4][0], n = shape[q / 4][1], k = shape[q / 4][2], ta = q & 1, tb = q >> 1 & 1;
        const int64_t room = 601 * 4100;
        kl_batch b;
        kl_batch_init(&b);
        kl_test_case("m=%d n=%d k=%d ta=%d tb=%d", m, n, k, ta, tb);
        expect_ok(kl_batch_open_group(&b, 0, (int64_t)m * n, &err), err);
        expect_ok(kl_batch_reserve(&b, 3, &err), err);
        for (int r = 0; r < 3; r++)
            *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                          .ta = (uint8_t)ta,
                                          .tb = (uint8_t)tb,
                                          .beta = (uint8_t)(r > 0),
                                          .at_a = KL_AT_LEFT,
                                          .at_b = KL_AT_RIGHT,
                                          .at_c = KL_AT_Y,
                                          .m = m,
                                          .n = n,
                                          .k = k - 7 * r * (k > 2000),
                                          .lda = ta ? k : m,
                                          .ldb = tb ? n : k,
                                          .ldc = m,
                                          .a = r,
                                          .b = 3 * r,
                                          .alpha = r == 1         ? -0.3
                                                   : r == 2 && ta ? 1e-150
                                                                  : 1.5};
        kl_batch_close_group(&b, 0);
        b.nx = room, b.ny = (int64_t)m * n;
        expect_ok(kl_batch_close(&b, &err), err);
        for (int plain = 0; plain < 2; plain++) compare(f->host, f->ex[plain], &b, room, 0, 4.0 * k);
        kl_batch_clear(&b);
    }
}

/* Shapes at the edges of tiles, every transpose, odd and even leading dimensions, k from nothing to several
   stages, coefficients far apart. */
static void test_shapes(void **state)
{
    fixture *const f = *state;
    static const int side[] = {1, 8, 15, 16, 17, 31, 33, 64, 97, 128, 129, 193, 597},
                     depth[] = {0, 1, 7, 8, 9, 15, 16, 17, 31, 48, 65, 597};
    kl_err err = {""};
    const int all = 13 * 12 * 4, step = all / kl_test_rounds(all);
    for (int q = 0; q < all; q += step) {
        const int m = side[q % 13], n = side[(q * 5 + 3) % 13], k = depth[q / 13 % 12], ta = q / 156 & 1,
                  tb = q / 312 & 1;
        const int64_t room = 600 * 601;
        kl_batch b;
        kl_batch_init(&b);
        kl_test_case("m=%d n=%d k=%d ta=%d tb=%d", m, n, k, ta, tb);
        for (int g = 0; g < 2; g++) {
            const int ldc = m;
            expect_ok(kl_batch_open_group(&b, (int64_t)g * m * n, (int64_t)m * n, &err), err);
            expect_ok(kl_batch_reserve(&b, 4, &err), err);
            for (int r = 0; r < 4; r++) {
                const int t = ta ^ (r == 1), u = tb ^ (r == 2), kk = r == 3 ? (k + 3) % 600 : k;
                *kl_batch_push(&b) =
                    (kl_rec){.kind = KL_REC_GEMM,
                             .ta = (uint8_t)t,
                             .tb = (uint8_t)u,
                             .beta = (uint8_t)(r > 0),
                             .at_a = KL_AT_LEFT,
                             .at_b = KL_AT_RIGHT,
                             .at_c = KL_AT_Y,
                             .m = m,
                             .n = n,
                             .k = kk,
                             .lda = (t ? kk : m) + (g ? 1 : (t ? kk : m) % 2) + (t && kk == 0),
                             .ldb = (u ? n : kk) + (g ? 0 : (u ? n : kk) % 2) + (!u && kk == 0),
                             .ldc = ldc,
                             .a = g,
                             .b = 2 * r,
                             .c = (int64_t)g * m * n,
                             .alpha = r == 0        ? 1.0
                                      : r == 1      ? -0.3
                                      : r == 2 && g ? 1e-150
                                                    : 7.0};
            }
            kl_batch_close_group(&b, 0);
        }
        b.nx = room, b.ny = 2 * (int64_t)m * n;
        expect_ok(kl_batch_close(&b, &err), err);
        for (int plain = 0; plain < 2; plain++)
            expect_true(compare(f->host, f->ex[plain], &b, room, 0, 4.0 * (k + 4)) <= 2);
        kl_batch_clear(&b);
    }
}

/* ---- the program's own lists ---- */

/* Every model that is built in, and both strategies: the ground state on the device beside the host's; of
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
    for (size_t k = 0; k < 2 * sizeof cases / sizeof *cases; k += KL_TEST_WATCHED ? 3 : 1) {
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
    if (KL_TEST_CUDA) ground_states(*state, KL_PROJECTION_NOSTORAGE);
}

/* The host's share beside the device's: every ratio, measured ones too, operators on the device and on the
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
            all->projection = KL_TEST_CUDA && round % 3 == 0 ? KL_PROJECTION_NOSTORAGE : KL_PROJECTION_AUTO;
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
   or offload's own beside CUDA. */
static void test_mixed(void **state)
{
    fixture *const f = *state;
    static const kl_op op[] = {KL_OP_COPY, KL_OP_AXPBY, KL_OP_DOTS, KL_OP_COMBINE, KL_OP_FUSE};
    enum { NOP = sizeof op / sizeof *op };
    kl_err err = {""};
    kl_mixed_time time[2 * NOP + 2];
    kl_exec *first = NULL, *second = NULL, *all = NULL;
    if (kl_exec_open_offload(!KL_TEST_CUDA, &second, &err) == KL_EABSENT) skip();
    expect_ok(open_one(0, &first, &err), err);
    for (int k = 0; k < NOP; k++) /* neighbours never at the same place */
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
            expect_ok(kl_engine_start(e, 40, NULL, &err), err);
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
            expect_ok(kl_superblock_create(ex, l, r, target, &s, &err), err);
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

static kl_status open_nth(int w, kl_exec **ex, kl_err *err)
{
    return w ? open_one(w - 1, ex, err) : kl_exec_open_host(1, ex, err);
}

/* y = H x of one job in the sectors of a product state, in both forms, beside the host's. */
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
    for (int form = KL_BIPARTITION_AUTO; form <= KL_BIPARTITION_SITES; form++) {
        double *y[3] = {NULL}, dot[3];
        int64_t n = 0;
        for (int w = 0; w < 3; w++) {
            kl_exec *ex = NULL;
            kl_ed *ed = NULL;
            expect_ok(open_nth(w, &ex, &err), err);
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
            kl_exec_close(&ex);
        }
        double most = 1e-300;
        for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(y[0][i]));
        for (int w = 1; w < 3; w++) {
            for (int64_t i = 0; i < n; i++) expect_near(y[w][i], y[0][i], 1e-13 * most);
            expect_near(dot[w], dot[0], 1e-13 * most * (double)n);
        }
        for (int w = 0; w < 3; w++) kl_test_free(y[w]);
    }
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

int main(void)
{
#if KL_TEST_CUDA
    kl_exec *ex = NULL;
    kl_err err = {""};
    if (open_one(0, &ex, &err) == KL_EABSENT && !getenv("KL_TEST_MUST_RUN")) {
        printf("1..0 # SKIP %s\n", err.text);
        return 77;
    }
    kl_exec_close(&ex);
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),           cmocka_unit_test(test_streams),
        cmocka_unit_test(test_tall),           cmocka_unit_test(test_widths),
        cmocka_unit_test(test_combine_dots),   cmocka_unit_test(test_eigen),
        cmocka_unit_test(test_tridiagonal),    cmocka_unit_test(test_lists),
        cmocka_unit_test(test_shapes),         cmocka_unit_test(test_long),
        cmocka_unit_test(test_superblock),     cmocka_unit_test(test_ground),
        cmocka_unit_test(test_hybrid),         cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_fuse),
        cmocka_unit_test(test_ed_states),
    };
    /* with executors of its own: all memory must be back after every case */
    const struct CMUnitTest alone[] = {cmocka_unit_test(test_ed)};
    /* a name, with * in it: tools that watch every access want less */
    cmocka_set_test_filter(getenv("KL_TEST_ONLY"));
    const int failed = cmocka_run_group_tests(tests, setup, teardown);
    return failed + cmocka_run_group_tests(alone, NULL, NULL);
}
