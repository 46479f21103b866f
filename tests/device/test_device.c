/* Executors of devices, compiled once for each: offload, with the best kernels of the device and with the
   plain ones, and CUDA, with all the memory and with so little that lists run in rounds. Every vector entry
   against plain loops (odd sizes, padded strides, addresses that allow no wide access, outputs full of NaN,
   guard words on the device), random lists of records against the host, and the device's memory back at the
   end. What the program runs: test_device_runs.c. On a GPU run it with
   OMP_TARGET_OFFLOAD=MANDATORY; without one the CUDA tests say SKIP.
   SPDX-License-Identifier: Apache-2.0 */
#include "device_kit.h"
#include "core.h"
#include "base/dense.h"
#include "ed/ed.h"
#include "exec/baselines.h"
#include "exec/hybrid.h"
#include "exec/roots.h"
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

/* So long that narrow passes have a beginning, a middle and an end on every device. They alternate in going
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
                if (k == 0) continue; /* then alternating with V y */
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

/* Fused steps of every size against the host's; outputs replace inputs, and what has coefficient 0
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
        /* the last shapes: what registers hold, at even offsets, products of outputs alone */
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
            for (kl_way way = KL_WAY_OWN;
                 ex->baselines && ex->baselines->trial && !plain && n > 0 && !large && way <= KL_WAY_SHARED;
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
        for (int k = 0; k < 2 && ex->vt.eigen_soon; k++) ex->vt.eigen_soon(ex); /* it is waited for */
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

/* T^T A T = 1 of matrices of any sizes at once, weights falling by many orders; one that is not positive
   definite is told, and the others are good. */
static void test_roots(void **state)
{
    fixture *const f = *state;
    static const int dim[] = {1, 2, 57, 0, 130, 31, 300, 5};
    enum {
        NMAT = 8,
        BAD = 5,
    };
    for (int which = 0; which < 2; which++) {
        kl_exec *const ex = f->ex[which];
        kl_err err = {""};
        int64_t off[NMAT], total = 0;
        char good[NMAT + 1] = {0};
        uint64_t seed = 5;
        for (int i = 0; i < NMAT; i++) off[i] = total, total += (int64_t)dim[i] * dim[i] + 3;
        both a = make(ex, total, 0, 38), t = make(ex, total, 0, 39);
        for (int i = 0; i < NMAT; i++) { /* D (B^T B / n + 1 / 4) D */
            const int n = dim[i];
            double *const m = a.host + off[i], *const b = kl_test_guarded((int64_t)n * n);
            for (int64_t k = 0; k < (int64_t)n * n; k++) b[k] = kl_test_uniform(&seed);
            for (int c = 0; c < n; c++)
                for (int r = 0; r < n; r++) {
                    double sum = r == c ? 0.25 : 0;
                    for (int k = 0; k < n; k++) sum += b[k + (int64_t)r * n] * b[k + (int64_t)c * n] / n;
                    m[r + (int64_t)c * n] = sum * pow(10, -4.0 * (r + c) / n);
                }
            if (i == BAD) m[7 + 7 * n] *= -1;
            kl_test_free(b);
        }
        expect_ok(ex->vt.upload(ex, a.dev, a.host, total, &err), err);
        const kl_roots roots = {NMAT, dim, off, total, a.dev, t.dev, good};
        expect_ok(kl_roots_find(ex, &roots, &err), err);
        fetch(ex, &t);
        for (int i = 0; i < NMAT; i++) {
            const int n = dim[i];
            const double *const m = a.host + off[i], *const x = t.host + off[i];
            kl_test_case("executor %d matrix %d", which, i);
            expect_eq(good[i], i != BAD);
            for (int c = 0; c < n && i != BAD; c++) {
                double *const column = kl_test_guarded(n); /* A t_c */
                for (int r = 0; r < n; r++) {
                    column[r] = 0;
                    for (int k = 0; k < n; k++) column[r] += m[r + (int64_t)k * n] * x[k + (int64_t)c * n];
                }
                for (int r = 0; r <= c; r++) {
                    double sum = 0;
                    for (int k = 0; k < n; k++) sum += x[k + (int64_t)r * n] * column[k];
                    expect_near(sum, r == c, 1e-10);
                }
                kl_test_free(column);
            }
        }
        drop(ex, &a);
        drop(ex, &t);
    }
}

/* The same through tridiagonal matrices: LAPACK has these, and their vectors are transformed by the
   reflections that stay there. All columns of some matrices, some of others. */
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
        const int blocks = strstr(ex->where, "bare") || strcmp(ex->name, "cuda") == 0;
        dim[10] = blocks && kl_test_rounds(9) == 9 ? 2200 : 0, count[10] = dim[10] / 500;
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
        /* operators on the host, where the executor has memory there: on a GPU plain regions have none */
        if (!KL_TEST_CUDA && round % 3 == 0 && f->ex[round % 2]->vt.alloc_far) {
            kl_exec *const ex = f->ex[round % 2];
            ex->projection = KL_PROJECTION_NOSTORAGE;
            kl_test_case("round %d, operators on the host", round);
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

int main(void)
{
    if (device_is_absent()) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),         cmocka_unit_test(test_streams),
        cmocka_unit_test(test_tall),         cmocka_unit_test(test_widths),
        cmocka_unit_test(test_combine_dots), cmocka_unit_test(test_eigen),
        cmocka_unit_test(test_roots),        cmocka_unit_test(test_tridiagonal),
        cmocka_unit_test(test_lists),        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_long),         cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_fuse),
    };
    /* a name, with * in it: tools that watch every access want less */
    cmocka_set_test_filter(getenv("KL_TEST_ONLY"));
    return cmocka_run_group_tests(tests, setup, teardown);
}
