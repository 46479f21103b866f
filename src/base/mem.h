/* Every allocation of the library: by kind, checked, counted. Device memory is counted here too, apart from
   the host's.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MEM_H
#define KL_MEM_H
#include <stdio.h>

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ORDER KL_MEM: names in mem.c */
typedef enum kl_mem_kind {
    KL_MEM_MISC,     /* small objects, tables, strings */
    KL_MEM_BLOCK,    /* operators of the blocks */
    KL_MEM_STATE,    /* isometries and wavefunctions */
    KL_MEM_VECTOR,   /* bases of the eigensolvers */
    KL_MEM_RECORD,   /* operation records */
    KL_MEM_WORK,     /* intermediates of products */
    KL_MEM_MATRIX,   /* stored sparse matrices, determinants */
    KL_MEM_NKIND
} kl_mem_kind;

/* *ptr = zeroed array of n elements of size bytes each, 64-byte aligned. n = 0 gives a valid pointer to free.
   ENOMEM names the kind and the size asked for. */
kl_status kl_alloc_bytes(void **ptr, int64_t n, size_t size, kl_mem_kind kind, kl_err *err) KL_MUST_CHECK;

/* Grows or shrinks to n elements and keeps the contents; new elements are NOT zeroed. */
kl_status kl_realloc_bytes(void **ptr, int64_t n, size_t size, kl_mem_kind kind, kl_err *err) KL_MUST_CHECK;

int64_t kl_mem_block_bytes(const void *ptr); /* bytes that a block was asked for; 0 for NULL */

/* Frees and nulls; NULL is accepted. */
void kl_free_ptr(void **ptr);

#define kl_alloc(pptr, n, kind, err) kl_alloc_bytes((void **)(pptr), (n), sizeof(**(pptr)), (kind), (err))
#define kl_realloc(pptr, n, kind, err) kl_realloc_bytes((void **)(pptr), (n), sizeof(**(pptr)), (kind), (err))
#define kl_free(pptr) kl_free_ptr((void **)(pptr))

char *kl_strdup(const char *s); /* NULL when there is no memory; kind MISC */

/* *out = what `write' writes, kind MISC. */
kl_status kl_text_written(void (*write)(const void *self, FILE *to), const void *self, char **out,
                          kl_err *err) KL_MUST_CHECK;

const char *kl_mem_kind_name(kl_mem_kind kind);
int64_t kl_mem_live_bytes(kl_mem_kind kind);
int64_t kl_mem_peak_bytes(kl_mem_kind kind);
int64_t kl_mem_total_peak_bytes(void); /* peak of the sum, not sum of the peaks */
int64_t kl_mem_live_total(void); /* 0 at the end of every test */
void kl_mem_reset_peaks(void);
/* Of the host, since the last kl_mem_watch: the peak. One watcher at a time. */
void kl_mem_watch(void);
int64_t kl_mem_watched_peak(void);
double kl_mem_machine_bytes(void); /* memory of this machine */
/* The peak of the whole process as the system counts it, with what is of no kind of ours: the program and its
   libraries. 0: the system does not tell. */
int64_t kl_mem_process_peak_bytes(void);
/* Of so many bytes for the whole process what is left for our own blocks, 1 MB at least; 0 for 0. */
int64_t kl_mem_ours_of(double allowed);
/* Half of what is left where the program takes 20 MB: the same at any time. */
int64_t kl_mem_half_of(double allowed);
const char *kl_mem_text(double bytes, char buf[32]); /* "1.25 GB"; returns buf */

/* Whole pages of 2 MiB, where the system gives such, that are there already, touched by so many threads: for
   a driver that will lock them, and takes longer where it has to make them. Not counted; NULL: no memory. */
void *kl_mem_take_pages(int64_t bytes, int nthread);
void kl_mem_give_pages(void *pages);

/* Memory of the host that comes from elsewhere, a device's pinned memory: it counts as if it were ours. */
void kl_mem_count(kl_mem_kind kind, int64_t change);

/* Device memory: executors report what they take (change > 0) and give back (change < 0). */
void kl_mem_device_count(int64_t change);
int64_t kl_mem_device_live_bytes(void);
int64_t kl_mem_device_peak_bytes(void);
/* Of it what was in use at a time: executors keep blocks that wait for the next who wants as much. */
void kl_mem_device_use(int64_t change);
int64_t kl_mem_device_used_bytes(void); /* the peak */
int64_t kl_mem_device_using_bytes(void);

/* Makes the k-th allocation from now on fail (k = 1 is the next); 0 switches it off. For tests. */
void kl_mem_fail_after(int64_t k);

#ifdef __cplusplus
}
#endif
#endif
