/* What lines of `kronlat bench offload' and `kronlat bench cuda' share: the executors, and how work is timed.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BENCH_LINES_H
#define KL_BENCH_LINES_H
#include "exec/exec.h"

enum { KL_BENCH_M = 8 };

/* One way to run a list. */
typedef struct kl_bench_way {
    kl_exec *ex;
    kl_projection projection;
    int yardstick; /* 1: not ours, shown before our best kernel */
} kl_bench_way;

typedef struct kl_bench_device {
    /* plain: NULL for CUDA; cuda: in addition to offload, where the module is here and the device is the
       same */
    kl_exec *ex, *plain, *host, *cuda;
    kl_bench_way way[6]; /* the first gives the answer */
    int nway, quick, own, shapes;
    const char *only;
    int any; /* of the lines was wanted */
    int64_t n;
    int m[KL_BENCH_M], nm, with_host;
    /* ceilings: GB/s, GB/s, TFLOP/s; 0: not measured, read also where CUDA is not there to do it */
    double copy, read, product;
    double rate; /* TFLOP/s of the list that was last */
} kl_bench_device;

/* The work that is timed. */
typedef kl_status kl_bench_fn(void *self, kl_err *err);

/* 1: --only names this line. */
int kl_bench_wanted(kl_bench_device *b, const char *name);

/* Seconds of f, a median: after a rest; among others of the same work for 0.6 s (NAN with --quick); of many
   after 0.05 s of the same work. */
kl_status kl_bench_burst(const kl_bench_device *b, kl_bench_fn *f, void *self, double *seconds, kl_err *err);
kl_status kl_bench_sustained(const kl_bench_device *b, kl_bench_fn *f, void *self, double *seconds,
                             kl_err *err);
kl_status kl_bench_steady(kl_bench_fn *f, void *self, double *seconds, kl_err *err);

/* Numbers in (-1, 1) that do not repeat for long. */
kl_status kl_bench_put_random(kl_exec *ex, kl_dptr p, int64_t n, kl_err *err);

/* Operations on vectors, a line each. */
kl_status kl_bench_streams(kl_bench_device *b, kl_err *err);

#endif
