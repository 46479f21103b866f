/* Finds and opens the CUDA module. Whatever prevents it (not built, made for another program, no
   driver, no GPU) is one line.
   SPDX-License-Identifier: Apache-2.0 */
#include "cuda/module.h"
#include "exec/exec.h"
#include "base/mem.h"
#include "base/module.h"
#include "device/spdev.h"
#include <dlfcn.h>
#include <string.h>

static const kl_cuda_host services = {
    .fail = kl_fail,
    .alloc_bytes = kl_alloc_bytes,
    .realloc_bytes = kl_realloc_bytes,
    .free_ptr = kl_free_ptr,
    .mem_take_pages = kl_mem_take_pages,
    .mem_give_pages = kl_mem_give_pages,
    .par_for = kl_par_for,
    .aside_begin = kl_aside_begin,
    .pool_take = kl_pool_take,
    .pool_give = kl_pool_give,
    .pool_alloc = kl_pool_alloc,
    .pool_release = kl_pool_release,
    .pool_has = kl_pool_has,
    .pool_room = kl_pool_room,
    .pool_clear = kl_pool_clear,
    .projection_of = kl_exec_fastest,
    .concat = kl_concat,
    .batch_clear = kl_batch_clear,
    .storage_wanted = kl_storage_wanted,
    .storage_prepare = kl_storage_prepare,
    .storage_release = kl_storage_release,
    .storage_apply = kl_storage_apply,
    .storage_explain = kl_storage_explain,
    .storage_dry = kl_storage_dry,
    .devbatch_prepare = kl_devbatch_prepare,
    .devbatch_release = kl_devbatch_release,
    .devbatch_check = kl_devbatch_check,
    .devbatch_dry = kl_devbatch_dry,
    .devbatch_choice = kl_devbatch_choice,
    .devbatch_common = kl_devbatch_common,
    .spdev_explain = kl_spdev_explain,
    .spdev_prepare = kl_spdev_prepare,
    .spdev_release = kl_spdev_release,
    .spdev_ready = kl_spdev_ready,
    .devbatch_explain = kl_devbatch_explain,
    .devkron_prepare = kl_devkron_prepare,
    .devkron_release = kl_devkron_release,
};

static const kl_module module = {.what = "--exec cuda",
                                 .file = "libkronlat-cuda.so",
                                 .variable = "KRONLAT_CUDA",
                                 .option = "-Dcuda=enabled"};

kl_status kl_exec_open_cuda(kl_device_choice which, kl_exec **out, kl_err *err)
{
    kl_status st = KL_OK;
    void *library;
    char path[KL_MODULE_PATH];
    *out = NULL;
    /* stays for the life of the program: a GPU's context outlives an executor */
    KL_TRY(kl_module_open(&module, &library, path, err));
    const kl_cuda_module *const m = dlsym(library, KL_CUDA_SYMBOL);
    static const size_t bytes[] = KL_CUDA_SIZES;
    _Static_assert(sizeof bytes == sizeof m->bytes, "a place for each");
    if (!m || m->abi != KL_CUDA_ABI || memcmp(m->bytes, bytes, sizeof bytes) != 0) {
        st = kl_fail(err, KL_EABSENT,
                     "--exec cuda: %.400s belongs to another version of the program (its interface is %d, "
                     "wanted is %d): build both together",
                     path, m ? m->abi : 0, KL_CUDA_ABI);
        goto out;
    }
    KL_TRY(kl_alloc(out, 1, KL_MEM_MISC, err));
    **out = (kl_exec){.name = "cuda", .space = KL_SPACE_DEVICE, .nthread = 1};
    KL_TRY(m->open(&services, which, *out, err));
    return KL_OK;
out:
    kl_free(out);
    return st;
}
