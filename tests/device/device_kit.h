/* What the tests of executors of devices share: executors that are open from the first test to the last (of
   offload with the best kernels and with the plain ones; of CUDA with all the memory and with little),
   guarded arrays on a device, and a list on the device against the host's. Each test program has its own.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_KIT_H
#define DEVICE_KIT_H
#include "config.h"
#include "exec/exec.h"
#include "kl_test.h"
#include "record/record.h"

#include <stdlib.h>
#include <string.h>

static const int64_t sizes[] = {0, 1, 2, 31, 33, 597, 4097, 120001};
enum {
    NSIZE = sizeof(sizes) / sizeof(*sizes),
    G = KL_TEST_GUARD,
};

typedef struct fixture {
    kl_exec *ex[2], *host;
} fixture;

enum { ROOM = 4 << 20 };
#if KL_TEST_CUDA
enum { LITTLE = 96 << 20 };
static kl_status open_one(int plain, kl_exec **out, kl_err *err)
{
    const kl_status st = kl_exec_open_cuda(KL_ANY_DEVICE, out, err);
    if (st == KL_OK && plain) (*out)->most_bytes = LITTLE;
    return st;
}
#else
static kl_status open_one(int plain, kl_exec **out, kl_err *err)
{
    return kl_exec_open_offload(KL_ANY_DEVICE, plain, out, err);
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

static inline both make(kl_exec *ex, int64_t n, int shift, uint64_t seed)
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
static inline both make_operators(kl_exec *ex, int64_t n, int shift, uint64_t seed)
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
static inline void fetch(kl_exec *ex, const both *b)
{
    kl_err err = {""};
    expect_ok(ex->vt.download(ex, b->host - G, kl_dptr_at(b->dev, -G), b->n + 2 * G, &err), err);
    kl_test_guards_hold(b->host, b->n);
}

static inline void drop(kl_exec *ex, both *b)
{
    ex->vt.release(ex, &b->all);
    kl_test_free(b->host);
}

/* Says SKIP where this machine has no such device, unless KL_TEST_MUST_RUN is set. */
static int device_is_absent(void)
{
#if KL_TEST_CUDA
    kl_exec *ex = NULL;
    kl_err err = {""};
    if (open_one(0, &ex, &err) == KL_EABSENT && !getenv("KL_TEST_MUST_RUN")) {
        printf("1..0 # SKIP %s\n", err.text);
        return 1;
    }
    kl_exec_close(&ex);
#endif
    return 0;
}

/* The list on the host and on ex; y full of NaN before. Returns launches. */
static inline int compare(kl_exec *host, kl_exec *ex, kl_batch *b, int64_t room, int shift, double scale)
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

#endif
