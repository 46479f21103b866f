/* The tune table: what each operation takes at each size on the host, by offload and by CUDA, on this
   machine. `kronlat tune` writes it; `--exec auto` asks it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TUNE_H
#define KL_TUNE_H
#include "run/optime.h"
#include "run/rankrates.h"
#include "exec/mixed.h"

enum {
    KL_TUNE_MOST = 128,
    KL_TUNE_NEXEC = 3,
    KL_TUNE_NRATE = 16,
};
extern const char *const kl_tune_exec[KL_TUNE_NEXEC]; /* host, offload, cuda */

typedef struct kl_tune_row {
    kl_timed what;
    int64_t size;
    /* 0: that executor does not do it; the last entry is not written down */
    double seconds[KL_TUNE_NEXEC + 1];
    int line;                          /* of the file */
} kl_tune_row;

/* A list of products of `size` by one way of running it on CUDA. */
typedef struct kl_tune_list {
    kl_projection way;
    int64_t size;
    double seconds;
} kl_tune_list;

/* What another layout of a sparse matrix does on a device: see kl_layout_cost. */
typedef struct kl_tune_layout {
    int exec, longer; /* of kl_tune_exec; 1: of long rows */
    kl_layout_cost cost;
} kl_tune_layout;

typedef struct kl_tune {
    char path[1024];
    char where[KL_TUNE_NEXEC][160]; /* the devices it was measured on; "": none */
    double opening[KL_TUNE_NEXEC]; /* seconds until it can run, from nothing; 0: not measured */
    int nthread, n;
    kl_tune_row row[KL_TUNE_MOST];
    int nlist;
    kl_tune_list list[KL_TUNE_MOST];
    int nlayout;
    kl_tune_layout layout[2 * KL_TUNE_NEXEC];
    int nrate[2]; /* between ranks, and between their devices, the latest last */
    kl_rankrate rate[2][KL_TUNE_NRATE];
} kl_tune;

/* path NULL: tune-table in the cache folder, which is made. */
kl_status kl_tune_write(kl_tune *t, const char *path, kl_err *err) KL_MUST_CHECK;
/* Whether it can be written there, tried before minutes are spent. */
kl_status kl_tune_probe(kl_tune *t, const char *path, kl_err *err) KL_MUST_CHECK;
/* EABSENT, with the reason: there is none, or it belongs to another version of the program. */
kl_status kl_tune_read(const char *path, kl_tune *t, kl_err *err) KL_MUST_CHECK;

/* Instead of what the table has for as many ranks on as many machines. */
void kl_tune_keep_rate(kl_tune *t, int devices, const kl_rankrate *rate);
/* From the table at `path`, if there is one. */
void kl_tune_keep_rates(kl_tune *t, const char *path);
/* The latest between ranks, or their devices; 0: none was measured. */
int kl_tune_rate(int devices, kl_rankrate *out);

/* Which executor does `what` at the size nearest to `size` (by ratio) fastest; why[size_why]: the times and
   the line. -1: nothing was measured. */
int kl_tune_choose(const kl_tune *t, kl_timed what, int64_t size, char *why, size_t size_why);

/* Seconds of `what` at `size` on an executor: between measured sizes by their powers, below them those of the
   smallest, above them as the largest, in proportion. NAN: it was not measured there. */
double kl_tune_seconds(const kl_tune *t, kl_timed what, double size, int exec);

/* The device that is fastest at the largest size, and *from which size on it is faster than the host: between
   measured sizes by their powers, beyond them by the trend of the last two. 0, the host, with *from INT64_MAX
   where there is no such size; -1: nothing was measured. */
int kl_tune_from(const kl_tune *t, kl_timed what, int64_t *from, char *why, size_t size_why);
/* The way that is fastest for products of the measured size nearest to `size`; AUTO: nothing was measured
   within a factor of four. */
kl_projection kl_tune_way(const kl_tune *t, double size);
/* What a call is timed as, and at which size; 0: as nothing. */
int kl_tune_of(const kl_call *call, kl_timed *what, int64_t *size);
/* What is timed on executors a and b both and is one operation of their tables: for kl_exec_open_mixed_take.
   Returns how many. */
int kl_tune_times(const kl_tune *t, int a, int b, kl_mixed_time out[KL_TUNE_MOST]);
/* Ways of lists for every size, and layouts of sparse matrices, on a device that the table was measured
   on. */
void kl_tune_ways(const kl_tune *t, kl_exec *device);

#endif
