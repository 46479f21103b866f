/* The offload executor: OpenMP target regions on the default device behind the usual table. Opening it proves
   that regions run there: a program that was asked for a GPU and lands on the host says so and stops.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "contest.h"
#include "offload.h"
#include "target.h"
#include <dlfcn.h>
#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

enum { SLOTS = KL_SLOTS * (int)sizeof(kl_slot) }; /* bytes */

#if KL_OFFLOAD_BARE
/* The device is handed to us in a context whose host thread sleeps until a kernel is done, which doubles the
   time of a short one. A context that is there already keeps its flags: so it is made first, one that spins,
   and stays for the life of the program. Numbers: cuda.h. */
static void *open_driver(int device, int *nsm, int *l2_bytes)
{
    enum {
        SPIN = 1,
        MULTIPROCESSORS = 16,
        L2_BYTES = 38,
    };
    void *const lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    int (*init)(unsigned), (*get)(int *, int), (*attribute)(int *, int, int), (*flags)(int, unsigned),
        (*retain)(void **, int), (*current)(void *);
    int dev = 0;
    void *context = NULL;
    if (!lib) return NULL;
    *(void **)&init = dlsym(lib, "cuInit");
    *(void **)&get = dlsym(lib, "cuDeviceGet");
    *(void **)&attribute = dlsym(lib, "cuDeviceGetAttribute");
    *(void **)&flags = dlsym(lib, "cuDevicePrimaryCtxSetFlags_v2");
    *(void **)&retain = dlsym(lib, "cuDevicePrimaryCtxRetain");
    *(void **)&current = dlsym(lib, "cuCtxSetCurrent");
    if (!init || !get || !attribute || !flags || !retain || !current || init(0) != 0 ||
        get(&dev, device) != 0)
        return NULL;
    if (attribute(nsm, MULTIPROCESSORS, dev) != 0) *nsm = 0;
    if (attribute(l2_bytes, L2_BYTES, dev) != 0) *l2_bytes = 0;
    flags(dev, SPIN); /* fails when someone else made the context: then it is theirs to say */
    if (retain(&context, dev) == 0) current(context);
    return lib;
}
#endif

/* What a region says of where it runs. A combined directive: one region that is not, nor made such by the
   compiler, brings the runtime's allocator into the image, and with it a server thread on the host, which
   makes every launch of the program two to five times as long and streams a third slower. */
static void probe(int *on_host, int *arch)
{
    int seen[2] = {-1, -1};
    KL_FLAT(1, map(from : seen))
    for (int i = 0; i < 1; i++) {
        seen[0] = omp_is_initial_device();
#if defined(__NVPTX__) && defined(__CUDA_ARCH__)
        seen[1] = __CUDA_ARCH__ / 10;
#elif defined(__AMDGCN__)
        seen[1] = 1;
#else
        seen[1] = 0;
#endif
    }
    *on_host = seen[0];
    *arch = seen[1];
}

static void offload_close(kl_exec *ex)
{
    kl_offload *self = ex->self;
    kl_pool_give(&self->pool, self->scratch, KL_SCRATCH * (int64_t)sizeof(double));
    kl_pool_give(&self->pool, self->slot, SLOTS);
    kl_pool_give(&self->pool, self->counter, KL_COUNTERS * (int64_t)sizeof(int));
    kl_pool_give(&self->pool, self->step, KL_STEP_BYTES);
    if (self->result) self->unpin(self->result, self->device);
    kl_pool_clear(&self->pool);
    kl_pool_clear(&self->far);
    kl_offload_divided_close(self);
    kl_offload_copies_close(self);
    kl_free(&self);
}

static const kl_vtable operations = {
    .alloc = kl_offload_alloc,
    .release = kl_offload_release,
    .upload = kl_offload_upload,
    .download = kl_offload_download,
    .copy = kl_offload_copy,
    .fill = kl_offload_fill,
    .axpby = kl_offload_axpby,
    .dots = kl_offload_dots,
    .combine = kl_offload_combine,
    .precondition = kl_offload_precondition,
    .batch_prepare = kl_offload_batch_prepare,
    .batch_apply = kl_offload_batch_apply,
    .batch_release = kl_offload_batch_release,
    .fuse = kl_offload_fuse,
    .tridiagonal = kl_offload_tridiagonal,
    .kron_prepare = kl_offload_kron_prepare,
    .kron_apply = kl_offload_kron_apply,
    .kron_release = kl_offload_kron_release,
    .spmv_prepare = kl_offload_spmv_prepare,
    .spmv_apply = kl_offload_spmv_apply,
    .spmv_release = kl_offload_spmv_release,
    .moves_fetch = kl_offload_moves_fetch,
    .moves_land = kl_offload_moves_land,
    .dets_apply = kl_offload_dets_apply,
    .batch_explain = kl_offload_batch_explain,
    .room = kl_offload_room,
    .explain = kl_offload_explain,
    .close = offload_close,
};

/* Memory of the host that the device reaches, by names of LLVM's runtime, looked up so that programs without
   it link. */
static void open_far(kl_exec *ex)
{
    static const int64_t no_limit = 0;
    kl_offload *const self = ex->self;
    *(void **)&self->pin = dlsym(RTLD_DEFAULT, "llvm_omp_target_alloc_host");
    *(void **)&self->unpin = dlsym(RTLD_DEFAULT, "llvm_omp_target_free_host");
    if (!self->pin || !self->unpin) self->pin = NULL;
    /* on other GPUs than those of bare regions nobody has tried it */
    if (!KL_OFFLOAD_ON_HOST && (!self->pin || (self->arch != 0 && !self->bare))) return;
    self->far = (kl_pool){.ctx = self,
                          .get = kl_offload_get_far,
                          .give = kl_offload_give_far,
                          .put = kl_offload_put,
                          .single = self->on_host,
                          .most = &no_limit,
                          .far = 1};
    kl_offload_copies_open(self);
    ex->vt.alloc_far = kl_offload_alloc_far;
    ex->vt.is_far = kl_offload_is_far;
    ex->vt.copy_async = kl_offload_copy_async;
    ex->vt.copy_pieces = kl_offload_copy_pieces;
    ex->vt.join = kl_offload_join;
}

/* Regions run on OpenMP's default device. */
static kl_status choose_device(kl_device_choice which, int ndevice, kl_err *err)
{
    if (which.number < 0 || (which.in_turn && ndevice == 0)) return KL_OK;
    const int number = which.in_turn ? which.number % ndevice : which.number;
    if (ndevice > 0 && number >= ndevice)
        return kl_fail(err, KL_EINPUT, "--device %d: OpenMP sees %d device%s; allowed: 0 to %d", number,
                       ndevice, ndevice == 1 ? "" : "s", ndevice - 1);
    if (ndevice > 0) omp_set_default_device(number);
    return KL_OK;
}

kl_status kl_exec_open_offload(kl_device_choice which, int plain, kl_exec **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_offload *self = NULL;
    int on_host = -1;
    *out = NULL;
    KL_TRY(kl_alloc(&self, 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(out, 1, KL_MEM_MISC, err));
    /* threads: of what LAPACK does here */
    *(*out) = (kl_exec){
        .name = "offload", .space = KL_SPACE_DEVICE, .nthread = omp_get_max_threads(), .self = self};
    if (!KL_OFFLOAD_ON_HOST && kl_offload_register() != 0)
        KL_TRY(kl_fail(err, KL_EABSENT, "--exec offload: the runtime of target regions is not libomptarget"));
    const int ndevice = KL_OFFLOAD_ON_HOST ? 0 : omp_get_num_devices();
    KL_TRY(choose_device(which, ndevice, err));
    self->device = KL_OFFLOAD_ON_HOST ? omp_get_initial_device() : omp_get_default_device();
    self->pool.ctx = self, self->pool.get = kl_offload_get_block, self->pool.give = kl_offload_give_block,
    self->pool.put = kl_offload_put;
    self->pool.most = &(*out)->most_bytes;
    self->nsm = 16;
#if KL_OFFLOAD_BARE
    self->driver = open_driver(self->device, &self->nsm, &self->l2_bytes);
#endif
    if (!KL_OFFLOAD_ON_HOST && ndevice == 0) {
        st = kl_fail(err, KL_EABSENT, "--exec offload: OpenMP sees no device; this program has images for %s",
                     KL_OFFLOAD_IMAGES);
        goto out;
    }
    if (!KL_OFFLOAD_ON_HOST && self->device >= ndevice) {
        st = kl_fail(err, KL_EABSENT,
                     "--exec offload: device %d is asked for (OMP_DEFAULT_DEVICE); OpenMP sees %d",
                     self->device, ndevice);
        goto out;
    }
    probe(&on_host, &self->arch);
    if (on_host != KL_OFFLOAD_ON_HOST) {
        st = kl_fail(
            err, KL_EABSENT,
            "--exec offload: regions run on the host, not on device %d of %d; this program has images for %s",
            self->device, ndevice, KL_OFFLOAD_IMAGES);
        goto out;
    }
    self->on_host = on_host;
    self->pool.single = on_host;
    self->bare = KL_OFFLOAD_BARE && self->arch >= 70 && !plain;
    self->tensor = self->bare && self->arch >= 90;
    if (self->nsm <= 0) self->nsm = 64;
    /* partial sums of KL_BELT columns by KL_BLOCK threads of each: KL_SCRATCH */
    if (self->nsm > KL_MOST_SM) self->nsm = KL_MOST_SM;
    static const int zero[KL_COUNTERS];
    self->scratch = kl_pool_take(&self->pool, KL_SCRATCH * (int64_t)sizeof(double));
    self->slot = kl_pool_take(&self->pool, SLOTS);
    self->counter = kl_pool_take(&self->pool, (int64_t)sizeof zero);
    self->step = kl_pool_take(&self->pool, KL_STEP_BYTES);
    if (!self->scratch || !self->slot || !self->counter || !self->step ||
        kl_offload_put(self, self->counter, zero, (int64_t)sizeof zero) != 0) {
        st = kl_fail(err, KL_ENOMEM, "--exec offload: device %d gives no memory", self->device);
        goto out;
    }
    static const kl_baselines baselines = {.kron_contest = kl_offload_kron_contest};
    (*out)->baselines = &baselines;
    (*out)->vt = operations;
    open_far(*out);
    if (self->bare) {
        if (self->pin) self->result = self->pin(KL_RESULT * sizeof(double), self->device);
        if (!self->result) self->bare = self->tensor = 0;
    }
    if (self->bare)
        kl_offload_fill(*out, SLOTS / (int64_t)sizeof(double), 0.0, (kl_dptr){(uintptr_t)self->slot});
    char device[80] = "";
    if (self->arch > 1)
        snprintf(device, sizeof device, "device %d (sm_%d, %d multiprocessors), ", self->device, self->arch,
                 self->nsm);
    else if (!on_host) snprintf(device, sizeof device, "device %d, ", self->device);
    snprintf((*out)->where, sizeof(*out)->where, "%simages for %s, %s regions", device, KL_OFFLOAD_IMAGES,
             self->bare ? "bare" : "combined");
    /* LAPACK on the host of an H200; tune measures */
    static const kl_eigen_time cores[] = {{64, 0.4e-3, 0}, {128, 1.2e-3, 0}, {256, 4.7e-3, 0},
                                          {512, 22e-3, 0}, {1024, 0.15, 0},  {2500, 2.2, 0}};
    (*out)->eigen.least = self->bare ? 128 : INT_MAX; /* one thread a row is for tests */
    (*out)->eigen.ntime = (int)(sizeof cores / sizeof *cores);
    memcpy((*out)->eigen.time, cores, sizeof cores);
    (*out)->eigen.reduce_row = 14e-6, (*out)->eigen.reduce_byte = 1 / 3.5e12;
    return KL_OK;
out:
    if (*out) offload_close(*out);
    else kl_free(&self);
    kl_free(out);
    return st;
}
