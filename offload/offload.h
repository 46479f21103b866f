/* What the files of the offload executor share.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_OFFLOAD_H
#define KL_OFFLOAD_H
#include "exec/exec.h"
#include "base/pool.h"
#include "record/record.h"
#include "device/spdev.h"

enum {
    KL_OFFLOAD_PART = 1 << 29 /* elements of a launch: indices stay int */,
    KL_SCRATCH = (1 << 21) + (1 << 11),
    KL_STEP_BYTES = 1 << 17,
    KL_COUNTERS = 4,
    KL_MOST_SM = 256,
    KL_RESULT = 1536
};

typedef struct kl_offload {
    int device;
    int on_host;       /* regions run in the host program: a build without images, for sanitizers */
    int arch;          /* sm number on NVIDIA GPUs, 1 on AMD, 0 elsewhere */
    int bare, tensor;  /* bare regions; FP64 tensor cores of at least sm_90 */
    int nsm;
    int l2_bytes;
    int back;          /* 1: the next pass over tall V had better begin at its end (belt.h) */
    void *driver;      /* handle of the driver library, where there is one */
    kl_pool pool, far; /* the device's memory, and the host's that it reaches */
    int nthread; /* that make pages of the latter */
    void *(*pin)(size_t, int); /* gives the latter; NULL: there is none */
    struct kl_offload_copies *copies; /* copies.c; NULL: they are done when they are asked for */
    struct kl_offload_divided *divided; /* divided.c; NULL until it is wanted */
    int whole; /* 1: the driver divides nothing */
    double *scratch;   /* [KL_SCRATCH] on the device: partial sums of combined regions */
    struct kl_slot *slot; /* [KL_SLOTS] on the device: those of bare ones (reduce_device.h) */
    double *result;    /* [KL_RESULT], small answers: pinned host memory that the device writes, or NULL */
    void (*unpin)(void *, int);
    /* [KL_COUNTERS] on the device, 0 between kernels: of tiles of products taken, of blocks that are done, of
       tiles of a first level that are written, of lone tiles taken */
    int *counter;
    void *step; /* [KL_STEP_BYTES] on the device: a fused step */
} kl_offload;

/* The number of teams: on a GPU `want`; on a processor one, of all threads, for its runtime complains of more
   threads than there are cores. */
static inline int kl_teams_of(const kl_offload *self, int want) { return self->arch ? want : 1; }

static inline double *kl_device(kl_dptr p) { return (double *)p.addr; }

/* mem.c */
void *kl_offload_get_block(void *self, int64_t bytes); /* of a pool */
void kl_offload_give_block(void *self, void *block);
int64_t kl_offload_free_bytes(const kl_offload *self); /* what the device could give out; -1: not known */
int64_t kl_offload_room(kl_exec *ex);
int kl_offload_put(void *self, void *to, const void *from, int64_t bytes); /* to the device; 0: done */
int kl_offload_get(const kl_offload *self, void *to, const void *from, int64_t bytes);
kl_status kl_offload_alloc(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err);
void kl_offload_release(kl_exec *ex, kl_dptr *p);
kl_status kl_offload_upload(kl_exec *ex, kl_dptr dst, const double *src, int64_t n, kl_err *err);
kl_status kl_offload_download(kl_exec *ex, double *dst, kl_dptr src, int64_t n, kl_err *err);

/* divided.c. NULL: as without a limit; 0: not one of these */
void *kl_offload_divided_get(kl_offload *self, int64_t bytes);
int kl_offload_divided_give(kl_offload *self, void *block);
void kl_offload_divided_close(kl_offload *self);

kl_status kl_offload_alloc_far(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err);
int kl_offload_is_far(kl_exec *ex, kl_dptr p);
void *kl_offload_get_far(void *self, int64_t bytes); /* of a pool */
void kl_offload_give_far(void *self, void *block);

/* copies.c: copies beside regions, where the driver is there to be asked for them */
void kl_offload_copies_open(kl_offload *self);
void kl_offload_copies_close(kl_offload *self);
int kl_offload_copy_pieces(kl_exec *ex, const kl_copy_pieces *c, int how);
int kl_offload_copy_async(kl_exec *ex, int64_t n, kl_dptr src, kl_dptr dst, int how);
void kl_offload_join(kl_exec *ex, int ticket, int host);

/* vec.c */
void kl_offload_copy(kl_exec *ex, int64_t n, kl_dptr src, kl_dptr dst);
void kl_offload_fill(kl_exec *ex, int64_t n, double a, kl_dptr y);
void kl_offload_axpby(kl_exec *ex, int64_t n, double a, kl_dptr x, double b, kl_dptr y);
void kl_offload_precondition(kl_exec *ex, int64_t n, kl_dptr diag, double theta, double floor, kl_dptr r,
                             kl_dptr t);

/* tall.c */
void kl_offload_dots(kl_exec *ex, int64_t n, int nvec, kl_dptr v, int64_t ldv, kl_dptr x, double *out);
void kl_offload_combine(kl_exec *ex, int64_t n, int nvec, kl_dptr v, int64_t ldv, const double *c, double b,
                        kl_dptr y);

/* fuse.c */
void kl_offload_fuse(kl_exec *ex, int64_t n, const kl_fuse *f, double *dots);

/* reduce.c */
kl_status kl_offload_tridiagonal(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a,
                                 double *d, double *e, kl_err *err);

/* kron.c */
kl_status kl_offload_kron_prepare(kl_exec *ex, kl_kron *k, kl_err *err);
kl_status kl_offload_kron_apply(kl_exec *ex, const kl_kron *k, kl_dptr x, kl_dptr y, double *xy, kl_err *err);
void kl_offload_kron_release(kl_exec *ex, kl_kron *k);

/* spmv.c */
/* What layouts of sparse matrices depend on. */
kl_spmachine kl_offload_spmachine(const kl_offload *self);
kl_status kl_offload_spmv_prepare(kl_exec *ex, kl_spmv *s, kl_err *err);
kl_status kl_offload_spmv_apply(kl_exec *ex, kl_spmv *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y,
                                int64_t ldy, kl_err *err);
void kl_offload_spmv_release(kl_exec *ex, kl_spmv *s);

/* packed.c */
/* xs: [ncol][nv] */
void kl_offload_packed_block(const kl_spdev *d, int nvec, int nv, const double *xs, double *y, int64_t ldy);

/* moves.c */
kl_status kl_offload_moves_fetch(kl_exec *ex, const kl_moves *m, int64_t row, int64_t nrow, kl_dptr x,
                                 kl_dptr panel, kl_err *err);
kl_status kl_offload_moves_land(kl_exec *ex, const kl_moves *m, int64_t row, int64_t nrow, kl_dptr panel,
                                kl_dptr y, kl_err *err);

/* dets.c */
kl_status kl_offload_dets_apply(kl_exec *ex, const kl_dets *d, kl_dptr x, kl_dptr y, kl_err *err);

/* batch.c */
kl_status kl_offload_batch_prepare(kl_exec *ex, kl_batch *b, kl_err *err);
kl_status kl_offload_batch_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err);
void kl_offload_batch_release(kl_exec *ex, kl_batch *b);
void kl_offload_batch_explain(kl_exec *ex, const kl_batch *b, kl_batch_plan *plan);
/* what preparing it would come to */
kl_status kl_offload_batch_dry(kl_exec *ex, const kl_batch *b, kl_batch_plan *plan, kl_err *err);

/* register.c */
/* Before the first region, from then on nothing; not 0: the runtime does not take images so late. */
int kl_offload_register(void);

/* explain.c */
kl_status kl_offload_explain(kl_exec *ex, const kl_call *call, kl_choice *choice, kl_err *err);

#endif
