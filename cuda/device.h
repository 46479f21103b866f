/* What the files of the CUDA module share.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CUDA_DEVICE_H
#define KL_CUDA_DEVICE_H
#ifdef __CUDACC__
#define KL_ON_DEVICE __host__ __device__
#define KL_DEV static __device__ __forceinline__
#endif
#include "exec/peers.h"
#include "module.h"
#if defined(__has_include)
#if __has_include(<nccl.h>)
#define KL_CUDA_NCCL 1 /* else devices of several ranks are not linked */
#endif
#endif
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

/* doubles */
enum {
    KL_RESULT = 1024,
    KL_SCRATCH = 2 * KL_RESULT,
};
enum { KL_STAGING = 96 << 10 };                  /* bytes */

/* Streams with handles of the libraries: Cholesky factors of four matrices at a time take half as long as one
   after the other (H100). Four that are diagonalized at a time are 6 % faster than two, on an H200 and on an
   H100, but need two threads more than LAPACK's. */
enum {
    KL_NSOLVER = 4,
    KL_NEIGEN = 2,
};
typedef struct kl_cuda_solver {
    void *handle; /* of cuSOLVER */
    cublasHandle_t blas; /* NULL until it is wanted */
    cudaStream_t stream;
    void *work; /* while it runs */
} kl_cuda_solver;

/* What is used of cuBLAS: found at the first call that wants it, so that the module runs without. */
enum { KL_NLANE = 4 };
typedef struct kl_cublas {
    cublasHandle_t handle[KL_NLANE]; /* one a lane */
    cudaStream_t lane[KL_NLANE]; /* the first is the executor's stream */
    cudaEvent_t here, there[KL_NLANE];
    __typeof__(&cublasDgemm) dgemm;
    __typeof__(&cublasDgemv) dgemv; /* this one and the next two: for trials */
    __typeof__(&cublasDaxpy) daxpy;
    __typeof__(&cublasDcopy) dcopy;
    __typeof__(&cublasDgemmStridedBatched) strided;
    __typeof__(&cublasDgemmGroupedBatched) grouped;
    __typeof__(&cublasDestroy) destroy;
} kl_cublas;

/* Copies during the products. */
typedef struct kl_cuda_loads {
    cudaStream_t copies, back; /* back: KL_COPY_BACK */
    cudaEvent_t here;
    cudaEvent_t ticket[KL_NTICKET];
    int next;
} kl_cuda_loads;

typedef struct kl_cuda_link kl_cuda_link; /* link.c */
typedef struct kl_cuda_crew kl_cuda_crew; /* crew.c */

typedef struct kl_cuda {
    const kl_cuda_host *host;
    int ranked; /* 1: there are other ranks */
    kl_cuda_link *link; /* NULL, or to their devices; of the thread that opens it until that has ended */
    struct kl_cuda_peers *peers; /* peers.c; NULL until one is wanted */
    int device, sm, nsm; /* sm: 90 for 9.0 */
    int64_t l2_bytes;
    int shared_bytes; /* that a block can have */
    int back; /* 1: the next pass over tall V had better begin at its end (belt.h) */
    cudaStream_t stream; /* all work goes here, in its order; what hands numbers to the host waits for it */
    cudaEvent_t done;
    kl_pool pool, far; /* the device's memory, and the host's that it reaches */
    int nthread; /* that make pages of the latter */
    kl_cuda_loads *loads; /* NULL until something is far */
    double *scratch; /* [KL_SCRATCH] on the device: what trials need besides their vectors */
    struct kl_slot *slot; /* [KL_SLOTS] on the device: see reduce_device.h */
    double *result; /* [KL_RESULT] pinned host memory that the device writes */
    int *counter; /* [4] on the device, 0 between kernels: of products */
    int *turns; /* [KL_TURNS] likewise: tiles in parts */
    kl_cublas *blas; /* NULL until it is wanted */
    kl_cuda_solver solver[KL_NSOLVER];
    pthread_t opening; /* opens these, */
    int is_opening; /* 1: it has not been waited for; */
    int was_opening; /* 1: it has run */
    kl_cuda_crew *crew; /* NULL until one is wanted */
    /* [KL_STAGING] bytes of pinned memory, and on the device: what a kernel reads more of than fits its
       arguments */
    void *staging, *table;
    int64_t nfree; /* bytes that were free when the pool last took or gave some; -1: to be asked for */
} kl_cuda;

static inline double *kl_device(kl_dptr p) { return (double *)p.addr; }

/* What went wrong on the device since the last look, as a status: launches and copies cannot say it
   themselves. */
static inline kl_status kl_cuda_check(const kl_cuda *self, const char *what, kl_err *err)
{
    const cudaError_t e = cudaGetLastError();
    if (e == cudaSuccess) return KL_OK;
    return self->host->fail(err, e == cudaErrorMemoryAllocation ? KL_ENOMEM : KL_EBROKEN,
                            "--exec cuda: %s: %s", what, cudaGetErrorString(e));
}

void kl_cuda_solver_close(kl_cuda *self); /* solver.c */

/* roots.c */
void kl_cuda_roots_close(kl_cuda *self);
kl_status kl_cuda_roots(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a, kl_dptr t,
                        char *good, kl_err *err);

/* tridiagonal.c */
kl_status kl_cuda_tridiagonal(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a, double *d,
                              double *e, kl_err *err);

/* mem.c */
void kl_cuda_ranked(kl_exec *ex);
void *kl_cuda_get_block(void *self, int64_t bytes);
void kl_cuda_give_block(void *self, void *block);
int kl_cuda_put(void *self, void *to, const void *from, int64_t bytes);
int kl_cuda_get(void *self, void *to, const void *from, int64_t bytes);
int64_t kl_cuda_room(kl_exec *ex);
kl_status kl_cuda_alloc(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err);
void kl_cuda_release(kl_exec *ex, kl_dptr *p);
void *kl_cuda_get_far(void *self, int64_t bytes);
void kl_cuda_give_far(void *self, void *block);
kl_status kl_cuda_alloc_far(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err);
int kl_cuda_is_far(kl_exec *ex, kl_dptr p);
kl_status kl_cuda_upload(kl_exec *ex, kl_dptr dst, const double *src, int64_t n, kl_err *err);
kl_status kl_cuda_download(kl_exec *ex, double *dst, kl_dptr src, int64_t n, kl_err *err);
/* to a new array of d; *out: its address */
kl_status kl_cuda_send(kl_exec *ex, kl_spdev *d, const void *from, int64_t bytes, void *out, kl_err *err);

/* loads.c */
kl_status kl_cuda_loads_open(kl_cuda *self, kl_err *err);
void kl_cuda_loads_close(kl_cuda *self);
int kl_cuda_copy_pieces(kl_exec *ex, const kl_copy_pieces *c, int how);
int kl_cuda_copy_async(kl_exec *ex, int64_t n, kl_dptr src, kl_dptr dst, int how);
void kl_cuda_join(kl_exec *ex, int ticket, int host);

/* vec.cu */
void kl_cuda_copy(kl_exec *ex, int64_t n, kl_dptr src, kl_dptr dst);
void kl_cuda_fill(kl_exec *ex, int64_t n, double a, kl_dptr y);
void kl_cuda_axpby(kl_exec *ex, int64_t n, double a, kl_dptr x, double b, kl_dptr y);
void kl_cuda_precondition(kl_exec *ex, int64_t n, kl_dptr diag, double theta, double floor, kl_dptr r,
                          kl_dptr t);

/* tall.cu */
void kl_cuda_dots(kl_exec *ex, int64_t n, int nvec, kl_dptr v, int64_t ldv, kl_dptr x, double *out);
void kl_cuda_combine(kl_exec *ex, int64_t n, int nvec, kl_dptr v, int64_t ldv, const double *c, double b,
                     kl_dptr y);

/* fuse.cu */
void kl_cuda_fuse(kl_exec *ex, int64_t n, const kl_fuse *f, double *dots);

/* fusedsmall.cu: fuse for what fusedsmall.h says, which also finds the products in self->result when the
   stream is done */
cudaError_t kl_cuda_fused_small_start(const kl_cuda *self, int64_t n, const kl_fuse *f);

/* trial.cu */
kl_status kl_cuda_trial(kl_exec *ex, kl_trial *t, kl_err *err);

/* eigen.c */
void kl_cuda_eigen_soon(kl_exec *ex);
void kl_cuda_eigen_wait(kl_cuda *self); /* until nothing is opened by a thread any more */
kl_status kl_cuda_eigen(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a, double *w,
                        kl_err *err);

/* batch.c */
kl_status kl_cuda_batch_prepare(kl_exec *ex, kl_batch *b, kl_err *err);
kl_status kl_cuda_batch_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err);
void kl_cuda_batch_release(kl_exec *ex, kl_batch *b);
void kl_cuda_batch_explain(kl_exec *ex, const kl_batch *b, kl_batch_plan *plan);
const char *kl_cuda_batch_reason(kl_exec *ex, const kl_batch *b); /* why it does so */
/* what preparing it would come to */
kl_status kl_cuda_batch_dry(kl_exec *ex, const kl_batch *b, kl_batch_plan *plan, kl_err *err);

/* grouped.c: the tiles that our kernels take, and the launches of a list that was prepared for them */
void kl_cuda_list_opts(const kl_exec *ex, kl_tile_plan_opts o[2]);
void kl_cuda_launch_list(const kl_cuda *self, const kl_devbatch *p, const double *x, double *y);

/* blas.c */
void *kl_cuda_open_cublas(void); /* the library; NULL, and dlerror() says why: it is not here */
kl_status kl_cuda_blas(kl_cuda *self, kl_cublas **out, kl_err *err);
void kl_cuda_blas_close(kl_cuda *self);

/* streams.c: records by library calls, on one lane or four */
kl_status kl_cuda_streams_prepare(kl_cuda *self, kl_batch *b, int nlane, kl_err *err);
kl_status kl_cuda_streams_apply(kl_cuda *self, const kl_batch *b, const double *x, double *y, kl_err *err);
void kl_cuda_streams_release(kl_cuda *self, kl_batch *b);
void kl_cuda_streams_explain(const kl_batch *b, kl_batch_plan *plan);

/* library.c: a prepared list whose pieces stand apart, by grouped and strided-batched calls */
kl_status kl_cuda_library_apply(kl_cuda *self, const kl_devbatch *p, const kl_launch *l, const double *x,
                                double *y, kl_err *err);

/* explain.c */
kl_status kl_cuda_explain(kl_exec *ex, const kl_call *call, kl_choice *choice, kl_err *err);

/* sums.cu */
void kl_cuda_sums(const kl_cuda *self, const kl_tile_cell *cell, int ncell, const kl_summand *term,
                  const double *x, double *y);

/* one record that is no product: C = alpha op(A) + beta C or alpha + beta C */
void kl_cuda_sum_record(cudaStream_t stream, const kl_rec *r, const double *a, double *c);

/* kron.cu */
kl_status kl_cuda_kron_prepare(kl_exec *ex, kl_kron *k, kl_err *err);
kl_status kl_cuda_kron_apply(kl_exec *ex, const kl_kron *k, kl_dptr x, kl_dptr y, double *xy, kl_err *err);
void kl_cuda_kron_release(kl_exec *ex, kl_kron *k);
kl_status kl_cuda_kron_left(kl_exec *ex, const kl_kron *k, int adds, kl_dptr x, kl_dptr y, kl_err *err);
kl_status kl_cuda_kron_beyond(kl_exec *ex, const kl_kron *k, const kl_kron_beyond *b, kl_dptr x, kl_dptr y,
                              kl_err *err);
kl_status kl_cuda_kron_dot(kl_exec *ex, const kl_kron *k, double *xy, kl_err *err);
kl_status kl_cuda_kron_random(kl_exec *ex, const kl_kron *k, uint64_t seed, int64_t first, kl_dptr v,
                              kl_err *err);
kl_status kl_cuda_kron_diagonal(kl_exec *ex, const kl_kron *k, kl_dptr d, kl_err *err);
/* one of the two kernels of an apply, right first */
void kl_cuda_kron_half(const kl_cuda *self, const kl_kron *k, int right, const double *x, double *y);

/* contest.cu */
kl_status kl_cuda_kron_contest(kl_exec *ex, const kl_kron *k, kl_kron_contest *out, kl_err *err);

/* gemm.cu */
cudaError_t kl_cuda_products_init(const kl_cuda *self);
int kl_cuda_products_shared(void); /* bytes of shared memory that a block of it takes */
kl_tile_plan_opts kl_cuda_products_opts(const kl_cuda *self);
void kl_cuda_products(const kl_cuda *self, const kl_piece *piece, int ntile, const double *x, double *y);

/* small.cu */
kl_tile_plan_opts kl_cuda_small_opts(const kl_cuda *self);
void kl_cuda_small(const kl_cuda *self, const kl_piece *piece, int ntile, int adds, const double *x,
                   double *y);

/* spmv.c */
kl_status kl_cuda_spmv_prepare(kl_exec *ex, kl_spmv *s, kl_err *err);
kl_status kl_cuda_spmv_apply(kl_exec *ex, kl_spmv *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y,
                             int64_t ldy, kl_err *err);
void kl_cuda_spmv_release(kl_exec *ex, kl_spmv *s);

/* spmv.cu: y = A x for 1 to 16 vectors, and [nrow][nv] to columns of y. */
/* What layouts of sparse matrices depend on. */
kl_spmachine kl_cuda_spmachine(const kl_cuda *self);
void kl_cuda_spmv(const kl_cuda *self, const kl_spdev *d, int nvec, int nv, const double *x, int64_t ldx,
                  double *y, int64_t ldy);
void kl_cuda_spmv_gather(const kl_cuda *self, int64_t ncol, int nvec, int nv, const double *x, int64_t ldx,
                         double *xs);
void kl_cuda_spmv_scatter(const kl_cuda *self, int64_t nrow, int nvec, int nv, const double *ys, double *y,
                          int64_t ldy);

/* rows.cu */
kl_status kl_cuda_rows_prepare(kl_exec *ex, kl_rows *r, kl_err *err);
void kl_cuda_rows_release(kl_exec *ex, kl_rows *r);
kl_status kl_cuda_rows_take(kl_exec *ex, const kl_rows *r, kl_dptr x, kl_dptr buffer, kl_err *err);
kl_status kl_cuda_rows_add(kl_exec *ex, const kl_rows *r, kl_dptr buffer, kl_dptr y, kl_err *err);

/* link.c */
kl_status kl_cuda_link_name(kl_exec *ex, char name[KL_LINK_NAME], kl_err *err);
kl_status kl_cuda_link_open(kl_exec *ex, int rank, int size, const char name[KL_LINK_NAME], kl_err *err);
kl_status kl_cuda_link_start(kl_exec *ex, int npart, const kl_ranks_part *part, int *ticket, kl_err *err);
void kl_cuda_link_join(kl_exec *ex, int ticket);
void kl_cuda_link_close(kl_cuda *self);

/* peers.c */
extern const kl_peers kl_cuda_peers_table;
void kl_cuda_peers_close(kl_cuda *self);

/* moves.cu */
kl_status kl_cuda_moves_fetch(kl_exec *ex, const kl_moves *m, int64_t row, int64_t nrow, kl_dptr x,
                              kl_dptr panel, kl_err *err);
kl_status kl_cuda_moves_land(kl_exec *ex, const kl_moves *m, int64_t row, int64_t nrow, kl_dptr panel,
                             kl_dptr y, kl_err *err);

/* dets.cu */
kl_status kl_cuda_dets_apply(kl_exec *ex, const kl_dets *d, kl_dptr x, kl_dptr y, kl_err *err);

/* Yardsticks, behind d->library: cusparse.c, csr5.cu. CSR5 takes a vector at a time. */
kl_status kl_cuda_cusparse_prepare(kl_exec *ex, const kl_spmat *m, kl_spdev *d, kl_err *err);
kl_status kl_cuda_cusparse_apply(kl_exec *ex, kl_spdev *d, int nvec, int nv, const double *x, int64_t ldx,
                                 double *y, int64_t ldy, kl_err *err);
void kl_cuda_cusparse_release(kl_exec *ex, kl_spdev *d);
kl_status kl_cuda_csr5_prepare(kl_exec *ex, const kl_spmat *m, kl_spdev *d, kl_err *err);
void kl_cuda_csr5(const kl_cuda *self, const kl_spdev *d, const double *x, double *y);

#ifdef __cplusplus
}
#endif
#endif
