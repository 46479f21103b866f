/* Executors: one function table over vectors in one memory space. `host` is complete here; `offload` fills
   the same table for a device and `cuda` overlays entries of it. Solvers and algorithms call through these
   wrappers and never touch the data.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EXEC_H
#define KL_EXEC_H
#include "base/base.h"
#include "base/dev.h"
#include "exec/eigcost.h"

typedef struct kl_exec kl_exec;
typedef struct kl_batch kl_batch; /* record.h */

typedef enum kl_space { KL_SPACE_HOST, KL_SPACE_DEVICE } kl_space;

typedef struct kl_kron kl_kron; /* kron.h */
typedef struct kl_spmv kl_spmv; /* spmv.h */
typedef struct kl_spmat kl_spmat; /* spmat.h */
typedef struct kl_moves kl_moves; /* moves.h */
typedef struct kl_dets kl_dets; /* dets.h */
typedef struct kl_kron_beyond kl_kron_beyond;
typedef struct kl_rows kl_rows; /* rows.h */
typedef struct kl_ranks kl_ranks; /* ranks.h */
typedef struct kl_baselines kl_baselines; /* baselines.h */
typedef struct kl_peers kl_peers; /* peers.h */

/* Linear combinations and inner products in one pass over memory: out_k = sum_j c[k][j] in_j, and dots of
   pairs, numbers 0..nin-1 being the inputs as they were and nin.. the outputs. Outputs may be inputs. A
   coefficient 0 reads nothing, so NaN there does no harm. */
enum {
    KL_FUSE_MOST = 96,
    KL_FUSE_MOST_OUT = 80,
    KL_FUSE_MOST_PAIR = 128,
};
typedef struct kl_fuse {
    int nin, nout, npair; /* at most KL_FUSE_MOST, _OUT and _PAIR */
    const kl_dptr *in, *out;
    const double *c;      /* [nout][nin], host; where the products go, if need be */
    const int (*pair)[2]; /* [npair] */
} kl_fuse;

/* A step of Davidson's method for one root: Ritz vector and residual, x = V y and r = W y - theta x, of k
   columns each. */
typedef struct kl_ritz {
    int k;
    int64_t ld; /* of V and of W */
    kl_dptr v, w, x, r;
    const double *y; /* [k], host */
    double theta;
} kl_ritz;

/* and its correction: t = (r - e x) / M, M = diag - theta as precondition has it. t may be r or x. */
typedef struct kl_correction {
    kl_dptr diag, r, x, t;
    double theta, floor, e;
} kl_correction;

/* Of a copy beside other work; or'ed. */
enum {
    KL_COPY_AFTER = 1, /* not before what was asked for until now is done */
    KL_COPY_MORE = 2,  /* another copy follows, whose ticket is good for this one, too: there is none */
    KL_COPY_BACK = 4,  /* among those that go back to the host, in an order of their own */
};

/* How a device with its own kernels and a vendor's library runs a list. ORDER KL_PROJECTION:
   kl_projection_name in exec.c */
typedef enum kl_projection {
    KL_PROJECTION_AUTO,
    KL_PROJECTION_GROUPED,   /* one launch of our kernel for each level of intermediates */
    /* library calls; four outputs at a time, a stream and a WORK each, their calls interleaved (nemes2014,
       Alg. 6, 7) */
    KL_PROJECTION_4STREAMS,
    /* as 4streams, after all that is added to an output has become one product (elwasif; concat.h) */
    KL_PROJECTION_CONCAT,
    KL_PROJECTION_BATCHED, /* joined likewise, and all products of a level in one call of the library */
    KL_PROJECTION_NOSTREAMS, /* library calls one after the other, one WORK */
    /* the library's grouped and strided-batched calls, round by round: for comparison */
    KL_PROJECTION_LIBRARY,
    /* operators stay on the host; those of one chunk of the list come in while the chunk before is multiplied
       (nemes2014, NoStreamAndStorage) */
    KL_PROJECTION_NOSTORAGE,
    KL_NPROJECTION
} kl_projection;
enum { KL_NSIZE = 16 }; /* powers of two that sizes of matrices are sorted by */
extern const char *const kl_projection_name[KL_NPROJECTION];

/* What laying a sparse matrix out anew takes of one core, once, and what every product takes less by it than
   by a warp a row: picoseconds a non-zero. lay_out 0: not measured. */
typedef struct kl_layout_cost {
    double lay_out, gain;
} kl_layout_cost;

/* npiece pieces of n doubles, each a stride behind the one before. */
typedef struct kl_copy_pieces {
    kl_dptr src, dst;
    int64_t n, npiece, src_stride, dst_stride;
} kl_copy_pieces;

enum { KL_NTICKET = 64 }; /* of copies during other work: see copy_async */

/* What a prepared list comes to; all 0 where an executor has nothing to say. */
typedef struct kl_batch_plan {
    int nlaunch, nround; /* kernels per apply; WORK is used anew in every round */
    int64_t ntile, npiece; /* tiles of outputs; products behind them, a product counted once a tile */
    int64_t nsequential; /* groups whose records had to stay in order, one launch each */
    int64_t work_bytes, list_bytes; /* work: buffers of operators that are streamed in, too */
    int64_t moved_bytes; /* operators that come from the host in every apply */
    double share; /* of the flops, done by the device; the rest is the host's */
    double padded; /* flops that the tiles do / flops asked for */
    const char *kernel; /* which kernel does the products */
} kl_batch_plan;

/* Numbers in an executor's memory that go to another rank's, or come from there. */
typedef struct kl_ranks_part {
    int peer, send;
    kl_dptr at;
    int64_t n;
} kl_ranks_part;
/* bytes of a name; exchanges in flight at most */
enum {
    KL_LINK_NAME = 128,
    KL_NLINK = 8,
};

/* Operations that an executor can be asked about before anything runs. ORDER KL_OP: op_name in exec.c */
typedef enum kl_op {
    KL_OP_COPY,
    KL_OP_AXPBY,
    KL_OP_PRECONDITION,
    KL_OP_DOTS,
    KL_OP_COMBINE,
    KL_OP_FUSE,
    KL_OP_BATCH,
    KL_OP_KRON,
    KL_OP_SPMV,
    KL_OP_SIGMA, /* y = H x of full configuration interaction */
    KL_OP_UPLOAD,
    KL_OP_DOWNLOAD,
    KL_NOP
} kl_op;
extern const char *const kl_op_name[KL_NOP];

typedef struct kl_call {
    kl_op op;
    int64_t n; /* length of the vectors */
    int nvec, nout; /* DOTS, COMBINE: width of V; FUSE: vectors read, and written */
    const kl_batch *batch; /* BATCH: a closed list, prepared or not, its operands anywhere */
    const kl_spmat *matrix; /* SPMV: its sizes and format; it may have no arrays yet */
    int64_t products; /* SPMV: how many vectors it will be multiplied with */
} kl_call;

/* Who takes a call, by which kernel, and why. */
typedef struct kl_choice {
    const char *exec, *kernel;
    int nlaunch; /* kernels started on a device */
    int64_t memory_bytes; /* held in addition to the operands */
    int64_t moved_bytes; /* BATCH: operators that come from the host in every apply */
    double share; /* BATCH: of the flops, the device's; 0 where nothing is shared */
    double bytes, flop; /* moved and done by one call, as kl_exec_explain counts them; bytes 0: not known */
    char why[240];
} kl_choice;

/* All counts are doubles unless a name ends in _bytes. V is nvec vectors of length n, vector j at V + j*ldv.
   Host arrays are plain pointers. */
typedef struct kl_vtable {
    /* contents undefined */
    kl_status (*alloc)(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err);
    void (*release)(kl_exec *ex, kl_dptr *p);
    /* NULL, or memory of the host that the device reads and writes too, slowly: the address is good on both
       sides. release gives it back. */
    kl_status (*alloc_far)(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err);
    /* with alloc_far: 1 where it gave p */
    int (*is_far)(kl_exec *ex, kl_dptr p);
    /* With alloc_far: copies between far memory and the device, in their order, during all that is asked for
       later; how: KL_COPY_AFTER, KL_COPY_MORE, KL_COPY_BACK. Returns a ticket, good for KL_NTICKET more of
       them. join waits until that copy is done: the host, or what the device is asked for from now on. */
    int (*copy_async)(kl_exec *ex, int64_t n, kl_dptr src, kl_dptr dst, int how);
    /* the same of many pieces as long as each other */
    int (*copy_pieces)(kl_exec *ex, const kl_copy_pieces *c, int how);
    void (*join)(kl_exec *ex, int ticket, int host);
    kl_status (*upload)(kl_exec *ex, kl_dptr dst, const double *src, int64_t n, kl_err *err);
    kl_status (*download)(kl_exec *ex, double *dst, kl_dptr src, int64_t n, kl_err *err);
    void (*copy)(kl_exec *ex, int64_t n, kl_dptr src, kl_dptr dst);
    void (*fill)(kl_exec *ex, int64_t n, double a, kl_dptr y); /* y = a */
    /* y = a x + b y; b = 0 never reads y */
    void (*axpby)(kl_exec *ex, int64_t n, double a, kl_dptr x, double b, kl_dptr y);
    /* out[j] = V_j . x */
    void (*dots)(kl_exec *ex, int64_t n, int nvec, kl_dptr v, int64_t ldv, kl_dptr x, double *out);
    /* y = sum_j c[j] V_j + b y; b = 0 never reads y */
    void (*combine)(kl_exec *ex, int64_t n, int nvec, kl_dptr v, int64_t ldv, const double *c, double b,
                    kl_dptr y);
    /* t = r / (d - theta), |d - theta| >= floor, sign kept */
    void (*precondition)(kl_exec *ex, int64_t n, kl_dptr diag, double theta, double floor, kl_dptr r,
                         kl_dptr t);
    /* All three or NULL. *square = r . r; dots[2] = r . x / M and x . x / M, to find e from. */
    void (*ritz)(kl_exec *ex, int64_t n, const kl_ritz *z, double *square);
    void (*correct_dots)(kl_exec *ex, int64_t n, const kl_correction *c, double *dots);
    void (*correct)(kl_exec *ex, int64_t n, const kl_correction *c);
    /* upload records, choose kernels; once per batch */
    kl_status (*batch_prepare)(kl_exec *ex, kl_batch *b, kl_err *err);
    /* y = sum of records on x; every element of y is written */
    kl_status (*batch_apply)(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err);
    /* NULL, or the same of nvec vectors side by side, ldx and ldy numbers apart */
    kl_status (*batch_apply_many)(kl_exec *ex, const kl_batch *b, int nvec, kl_dptr x, int64_t ldx, kl_dptr y,
                                  int64_t ldy, kl_err *err);
    void (*batch_release)(kl_exec *ex, kl_batch *b);
    /* dots[npair], host */
    void (*fuse)(kl_exec *ex, int64_t n, const kl_fuse *f, double *dots);
    /* NULL, or eigenvectors of nmat symmetric matrices that are worth a device: matrix i has n[i] rows, lies
       at a + off[i] and becomes its eigenvectors, whose values, ascending, stand in w (host) after those of
       the matrices before. */
    kl_status (*eigen)(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a, double *w,
                       kl_err *err);
    /* NULL, or: eigen will be asked for before long; what it takes to open is opened by a thread meanwhile.
       Asking again does nothing. */
    void (*eigen_soon)(kl_exec *ex);
    /* NULL, or inverse Cholesky factors: symmetric matrix i, n[i] rows at a + off[i], lower triangle read and
       spoilt, gives T at t + off[i], T^T A T = 1. good[i] (host, 1 before): 0 where A is not positive
       definite; T is undefined then. KL_EABSENT: no library; nothing has been touched. */
    kl_status (*roots)(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a, kl_dptr t,
                       char *good, kl_err *err);
    /* NULL, or, where there is no eigen, the part of it that is worth a device: matrix i, both triangles
       there, becomes Q of the tridiagonal Q^T A Q, whose diagonal stands in d (host) and whose next diagonal
       in e after those of the matrices before, n[i] of each, the last of e being 0. Q: its n[i] - 1
       reflections 1 - 2 v v^T / v.v in the columns, v below the diagonal, 1 on top or all 0; zeros above.
       KL_ENOMEM: nothing has been touched. */
    kl_status (*tridiagonal)(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a, double *d,
                             double *e, kl_err *err);
    /* upload tables, make work space; once */
    kl_status (*kron_prepare)(kl_exec *ex, kl_kron *k, kl_err *err);
    /* y = K x; *xy = x . y unless NULL */
    kl_status (*kron_apply)(kl_exec *ex, const kl_kron *k, kl_dptr x, kl_dptr y, double *xy, kl_err *err);
    void (*kron_release)(kl_exec *ex, kl_kron *k);
    /* NULL, or a product in parts, of one block without cross terms: y = (diagonal + a (x) 1) x, added to y
       where adds is 1; then, for some left states at a time, y += (1 (x) b) x. dot: x . y of the y that is
       there then; NULL: by dots. */
    kl_status (*kron_left)(kl_exec *ex, const kl_kron *k, int adds, kl_dptr x, kl_dptr y, kl_err *err);
    kl_status (*kron_beyond)(kl_exec *ex, const kl_kron *k, const kl_kron_beyond *b, kl_dptr x, kl_dptr y,
                             kl_err *err);
    kl_status (*kron_dot)(kl_exec *ex, const kl_kron *k, double *xy, kl_err *err);
    /* v[i] = kl_random_at(seed, first + i) where a state is, else 0; may be NULL */
    kl_status (*kron_random)(kl_exec *ex, const kl_kron *k, uint64_t seed, int64_t first, kl_dptr v,
                             kl_err *err);
    /* as kl_kron_diagonal; may be NULL */
    kl_status (*kron_diagonal)(kl_exec *ex, const kl_kron *k, kl_dptr d, kl_err *err);
    /* choose a way, upload; once per matrix */
    kl_status (*spmv_prepare)(kl_exec *ex, kl_spmv *s, kl_err *err);
    /* Y = A X, 1 to 16 vectors */
    kl_status (*spmv_apply)(kl_exec *ex, kl_spmv *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy,
                            kl_err *err);
    void (*spmv_release)(kl_exec *ex, kl_spmv *s);
    /* Devices only, for full configuration interaction (moves.h): panels of `nrow` rows of x from row `row`
       of the irrep on, and their elements added to y. */
    kl_status (*moves_fetch)(kl_exec *ex, const kl_moves *m, int64_t row, int64_t nrow, kl_dptr x,
                             kl_dptr panel, kl_err *err);
    kl_status (*moves_land)(kl_exec *ex, const kl_moves *m, int64_t row, int64_t nrow, kl_dptr panel,
                            kl_dptr y, kl_err *err);
    /* Devices only: the elements of y = H x that d says, of a Hamiltonian whose elements are made as they are
       needed (dets.h). */
    kl_status (*dets_apply)(kl_exec *ex, const kl_dets *d, kl_dptr x, kl_dptr y, kl_err *err);
    /* For vectors that ranks share: rows of x side by side in a buffer, and added to y from there. prepare
       and release may be NULL: there is nothing to be done. */
    kl_status (*rows_prepare)(kl_exec *ex, kl_rows *r, kl_err *err);
    void (*rows_release)(kl_exec *ex, kl_rows *r);
    kl_status (*rows_take)(kl_exec *ex, const kl_rows *r, kl_dptr x, kl_dptr buffer, kl_err *err);
    kl_status (*rows_add)(kl_exec *ex, const kl_rows *r, kl_dptr buffer, kl_dptr y, kl_err *err);
    /* NULL, or the executor wants to know that it is one of several ranks', linked or not, by the thread that
       works with it, before what follows. */
    void (*ranked)(kl_exec *ex);
    /* NULL, or devices of several ranks reach each other: the name of a link, which one rank makes up and all
       have to know, and the link, opened by all together, which a thread of its own may do while the executor
       is worked with: until that has ended the link is its. */
    kl_status (*link_name)(kl_exec *ex, char name[KL_LINK_NAME], kl_err *err);
    kl_status (*link_open)(kl_exec *ex, int rank, int size, const char name[KL_LINK_NAME], kl_err *err);
    /* All parts at once, after what the executor was asked for until now; what it is asked for from join on
       comes after them. */
    kl_status (*link_start)(kl_exec *ex, int npart, const kl_ranks_part *part, int *ticket, kl_err *err);
    void (*link_join)(kl_exec *ex, int ticket);
    /* how a prepared list is run */
    void (*batch_explain)(kl_exec *ex, const kl_batch *b, kl_batch_plan *plan);
    /* bytes that alloc can still give, about; INT64_MAX: not known */
    int64_t (*room)(kl_exec *ex);
    /* fills all but bytes and flop; runs and allocates nothing on a device */
    kl_status (*explain)(kl_exec *ex, const kl_call *call, kl_choice *choice, kl_err *err);
    /* gives back all that self holds, and self */
    void (*close)(kl_exec *ex);
} kl_vtable;

struct kl_exec {
    const char *name; /* "host", "offload", "cuda" */
    kl_space space;
    int nthread;
    /* 1: batch_apply may return before the device is done, though clocks then do not tell where time goes */
    int ahead;
    /* of lists prepared from now on; where there is only one way it means nothing */
    kl_projection projection;
    /* for AUTO: which way was measured to be fastest for products of 2^k on average; AUTO: not measured */
    kl_projection fastest[KL_NSIZE];
    kl_layout_cost layout[2]; /* of matrices of short rows, and of long ones */
    int64_t most_bytes; /* of device memory that may be taken; 0: all that is free */
    char where[160]; /* what it runs on, for reports */
    char chosen[200]; /* why --exec auto took it; "" where it was asked for */
    kl_vtable vt;
    void *self;
    kl_ranks *ranks; /* NULL: this process works by itself; else with others, see ranks.h and share.h */
    kl_eigen_cost eigen;
    const kl_baselines *baselines; /* what it is compared with; NULL: nothing */
    const kl_peers
        *peers; /* how devices of this host's processes write into each other's memory; NULL: not */
};

/* Which device of a kind. */
typedef struct kl_device_choice {
    int number; /* from 0; -1: the first that is visible (OpenMP: its default) */
    int in_turn; /* 1: of how many there are, modulo that: ranks of one machine take turns */
} kl_device_choice;
#define KL_ANY_DEVICE ((kl_device_choice){.number = -1})

/* nthread threads of this machine. */
kl_status kl_exec_open_host(int nthread, kl_exec **out, kl_err *err) KL_MUST_CHECK;
/* OpenMP target regions; EABSENT when they are not built in, or would run on the host. plain: 1 takes the
   kernels that every target has, also where there are better ones. */
kl_status kl_exec_open_offload(kl_device_choice which, int plain, kl_exec **out, kl_err *err) KL_MUST_CHECK;
/* CUDA, by the module libkronlat-cuda.so; EABSENT when there is no module, driver or GPU. Of both: EINPUT
   when there is no such device. */
kl_status kl_exec_open_cuda(kl_device_choice which, kl_exec **out, kl_err *err) KL_MUST_CHECK;
void kl_exec_close(kl_exec **ex);

/* New memory that holds n numbers of the host. */
kl_status kl_exec_copy_in(kl_exec *ex, const double *host, int64_t n, kl_dptr *out,
                          kl_err *err) KL_MUST_CHECK;

/* Memory for operators, which can wait on the host where the device has little: the device's own while it
   leaves as much again, else far memory where there is such. */
kl_status kl_exec_alloc_operators(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err) KL_MUST_CHECK;
/* Such memory that holds n numbers of the host. */
kl_status kl_exec_operators_in(kl_exec *ex, const double *host, int64_t n, kl_dptr *out,
                               kl_err *err) KL_MUST_CHECK;
/* Moves what kl_exec_alloc_operators gave: far 1: to the host, 0: to the device. Where that has no room, or
   there is no such memory, all stays where it is; 1: it moved. */
int kl_exec_move_operators(kl_exec *ex, int far, int64_t n, kl_dptr *p);
int kl_exec_is_far(kl_exec *ex, kl_dptr p);
/* An operator that was made on the device, n numbers at *p, goes on to the host (*p then says where) where
   all operators wait there, or where fewer bytes than it has are left on the device. */
void kl_exec_keep_operators(kl_exec *ex, int64_t n, kl_dptr *p);

/* The entry of ex->fastest that a list is for. */
kl_projection kl_exec_fastest(const kl_exec *ex, const kl_batch *b);

/* vt.explain, and what a call moves and does. */
kl_status kl_exec_explain(kl_exec *ex, const kl_call *call, kl_choice *choice, kl_err *err) KL_MUST_CHECK;

/* Closes, prepares, applies and releases a list that is used once; empties it. */
kl_status kl_batch_run(kl_batch *b, kl_exec *ex, kl_dptr x, kl_dptr y, kl_err *err) KL_MUST_CHECK;

#endif
