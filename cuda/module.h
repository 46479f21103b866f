/* What the program and its CUDA module know of each other. The module is a library of its own, opened when
   `--exec cuda` is asked for, so that one program runs with and without CUDA; it calls nothing of the program
   but what this table hands it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CUDA_MODULE_H
#define KL_CUDA_MODULE_H
#include "exec/baselines.h"
#include "record/chunk.h"
#include "record/concat.h"
#include "device/devbatch.h"
#include "device/devkron.h"
#include "device/storage.h"
#include "base/aside.h"
#include "base/mem.h"
#include "base/par.h"
#include "device/spdev.h"

#ifdef __cplusplus
extern "C" {
#endif

/* counts up when anything here or in the tables of exec.h, baselines.h, record.h, tileplan.h, spmv.h, pool.h
   and kron.h changes its meaning */
enum { KL_CUDA_ABI = 27 };

/* The program's part: functions of base.h, mem.h, par.h, aside.h, pool.h, devbatch.h, devkron.h under their
   names. */
typedef struct kl_cuda_host {
    kl_status (*fail)(kl_err *err, kl_status st, const char *fmt, ...) KL_PRINTF(3, 4);
    kl_status (*alloc_bytes)(void **ptr, int64_t n, size_t size, kl_mem_kind kind, kl_err *err);
    kl_status (*realloc_bytes)(void **ptr, int64_t n, size_t size, kl_mem_kind kind, kl_err *err);
    void (*free_ptr)(void **ptr);
    void *(*mem_take_pages)(int64_t bytes, int nthread);
    void (*mem_give_pages)(void *pages);
    void (*par_for)(int nthread, int64_t ntask, kl_par_fn *fn, void *self);
    int (*aside_begin)(pthread_t *thread, void *(*fn)(void *), void *self);
    void *(*pool_take)(kl_pool *p, int64_t bytes);
    void (*pool_give)(kl_pool *p, void *block, int64_t bytes);
    kl_status (*pool_alloc)(kl_pool *p, int64_t bytes, void **out, kl_err *err);
    void (*pool_release)(kl_pool *p, void *block);
    int (*pool_has)(const kl_pool *p, const void *address);
    int64_t (*pool_room)(const kl_pool *p);
    void (*pool_clear)(kl_pool *p);
    kl_projection (*projection_of)(const kl_exec *ex, const kl_batch *b);
    kl_status (*concat)(const kl_batch *in, kl_batch *out, kl_batch *pack, kl_err *err);
    void (*batch_clear)(kl_batch *b);
    int (*storage_wanted)(kl_exec *ex, const kl_batch *b);
    kl_status (*storage_prepare)(kl_exec *ex, kl_batch *b, const kl_storage_way *way, kl_err *err);
    void (*storage_release)(kl_exec *ex, kl_batch *b, kl_pool *pool);
    kl_status (*storage_apply)(kl_exec *ex, const kl_batch *b, const kl_storage_way *way, kl_dptr x,
                               kl_dptr y, kl_err *err);
    void (*storage_explain)(const kl_batch *b, kl_batch_plan *out);
    kl_status (*storage_dry)(kl_exec *ex, const kl_batch *b, const kl_storage_way *way, kl_batch_plan *out,
                             kl_err *err);
    kl_status (*devbatch_prepare)(kl_batch *b, const kl_tile_plan_opts *o, int64_t has, kl_pool *pool,
                                  kl_err *err);
    void (*devbatch_release)(kl_batch *b, kl_pool *pool);
    kl_status (*devbatch_check)(const kl_batch *b, kl_err *err);
    kl_status (*devbatch_dry)(const kl_batch *b, const kl_tile_plan_opts *o, int64_t has, const char *kernel,
                              kl_batch_plan *out, kl_err *err);
    void (*devbatch_choice)(const kl_batch_plan *plan, const char *lead, kl_choice *c);
    int (*devbatch_common)(const kl_call *call, kl_choice *c);
    kl_status (*spdev_prepare)(kl_exec *ex, const kl_spmachine *machine, kl_spmv *s, kl_err *err);
    void (*spdev_release)(kl_exec *ex, kl_spmv *s);
    kl_status (*spdev_ready)(kl_exec *ex, kl_spmv *s, int nvec, kl_spdev **out, int *nv, kl_err *err);
    void (*spdev_explain)(const kl_exec *ex, const kl_spmachine *machine, const kl_call *call, kl_choice *c);
    void (*devbatch_explain)(const kl_batch *b, const char *kernel, kl_batch_plan *out);
    kl_status (*devkron_prepare)(kl_kron *k, const kl_devkron_opts *o, kl_pool *pool, kl_err *err);
    void (*devkron_release)(kl_kron *k, kl_pool *pool);
} kl_cuda_host;

/* The module's part, under the name KL_CUDA_SYMBOL. Sizes tell apart what an ABI number forgot. */
#define KL_CUDA_SYMBOL "kl_cuda_module_table"
#define KL_CUDA_SIZES                                                                    \
    {sizeof(kl_cuda_host), sizeof(kl_exec),   sizeof(kl_batch),        sizeof(kl_piece), \
     sizeof(kl_tile_plan), sizeof(kl_launch), sizeof(kl_devkron_block)}
typedef struct kl_cuda_module {
    int abi;
    size_t bytes[7]; /* KL_CUDA_SIZES */
    const char *made_for; /* which GPUs, for messages */
    /* fills vt, where and self */
    kl_status (*open)(const kl_cuda_host *host, kl_device_choice which, kl_exec *ex, kl_err *err);
} kl_cuda_module;

#ifdef __cplusplus
}
#endif
#endif
