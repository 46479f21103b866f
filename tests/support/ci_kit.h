/* What the tests of configuration interaction and of molecules share: an executor that is open from the first
   test to the last, files of tests/data, options. Each test program has its own.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CI_KIT_H
#define CI_KIT_H
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

#endif
