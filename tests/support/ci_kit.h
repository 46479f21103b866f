/* What the tests of configuration interaction and of molecules share: an executor that is open from the first
   test to the last, files of tests/data, options. Each test program has its own.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CI_KIT_H
#define CI_KIT_H
#include "base/dense.h"
#include "base/mem.h"
#include "ci/ci.h"
#include "kl_test.h"

static kl_exec *ex;

static int open_exec(void **state)
{
    (void)state;
    kl_err err;
    return kl_exec_open_host(2, &ex, &err) != KL_OK;
}

static int close_exec(void **state)
{
    (void)state;
    kl_exec_close(&ex);
    return kl_mem_live_total() != 0;
}

static kl_fcidump *load(const char *file)
{
    kl_err err;
    kl_fcidump *f = NULL;
    expect_ok(kl_fcidump_read(kl_test_data(file), &f, &err), err);
    return f;
}

static inline kl_ci_opts ask(const char *space, int nroot)
{
    kl_err err;
    kl_ci_opts o = {.irrep = -1, .nroot = nroot, .tol = 1e-7, .seed = 1};
    expect_ok(kl_ci_parse_space(space, &o, &err), err);
    return o;
}

/* A run with its k-th allocation failing, for every k up to `all' and every seventh from there on, until none
   fails: ENOMEM, and nothing is left behind. */
static inline void ci_fail_allocations(const kl_fcidump *f, const kl_ci_opts *o, const char *what,
                                       int64_t all)
{
    for (int64_t k = 1;; k += k > all ? 7 : 1) {
        kl_err err;
        kl_exec *own = NULL; /* one that keeps nothing for the next solver */
        kl_ci_result r = {0};
        kl_dense_release();
        const int64_t before = kl_mem_live_total();
        expect_ok(kl_exec_open_host(1, &own, &err), err);
        kl_test_case("%s, allocation %lld fails", what, (long long)k);
        kl_mem_fail_after(k);
        const kl_status st = kl_ci_run(f, own, o, NULL, &r, &err);
        kl_mem_fail_after(0);
        kl_ci_result_clear(&r);
        kl_exec_close(&own);
        expect_eq(kl_mem_live_total(), before);
        if (st == KL_OK) break;
        expect_eq(st, KL_ENOMEM);
    }
}

#endif
