/* What is the same for every executor.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/exec.h"
#include "exec/baselines.h"
#include "base/mem.h"
#include "record/record.h"
#include "sparse/spmat.h"
#include <math.h>

const char *const kl_projection_name[KL_NPROJECTION] = {"auto",    "grouped",   "4streams", "concat",
                                                        "batched", "nostreams", "library",  "nostorage"};
/* ORDER KL_OP */
const char *const kl_op_name[KL_NOP] = {"copy",       "y = a x + b y", "precondition",     "V^T x",
                                        "V y",        "fused step",    "list of products", "Kronecker sum",
                                        "sparse A x", "full CI",       "upload",           "download"};

const char *const kl_way_name[KL_NWAY] = {"own", "shared", "gemv", "gemm", "read"}; /* ORDER KL_WAY */

kl_status kl_exec_explain(kl_exec *ex, const kl_call *call, kl_choice *choice, kl_err *err)
{
    const double n = (double)call->n, width = call->nvec;
    *choice = (kl_choice){.exec = ex->name};
    switch (call->op) {
    case KL_OP_COPY: choice->bytes = 16 * n; break;
    case KL_OP_AXPBY: choice->bytes = 24 * n, choice->flop = 3 * n; break;
    case KL_OP_PRECONDITION: choice->bytes = 24 * n, choice->flop = 2 * n; break;
    case KL_OP_DOTS:
    case KL_OP_COMBINE: choice->bytes = 8 * n * (width + 1), choice->flop = 2 * n * width; break;
    case KL_OP_FUSE:
        choice->bytes = 8 * n * (width + call->nout), choice->flop = 2 * n * width * call->nout;
        break;
    case KL_OP_BATCH: choice->bytes = call->batch->bytes, choice->flop = call->batch->flop; break;
    case KL_OP_KRON:
    case KL_OP_SIGMA: choice->bytes = 16 * n; break;
    case KL_OP_SPMV:
        choice->bytes = 16 * n + 12 * (double)call->matrix->nnz, choice->flop = 2 * (double)call->matrix->nnz;
        break;
    default: choice->bytes = 8 * n;
    }
    return ex->vt.explain(ex, call, choice, err);
}

kl_projection kl_exec_fastest(const kl_exec *ex, const kl_batch *b)
{
    int other = 1;
    while (other < KL_NSIZE && ex->fastest[other] == ex->fastest[0]) other++;
    if (other == KL_NSIZE)
        return ex->fastest[0]; /* of any size: a cube root a record is what it would take */
    const double size = kl_batch_mean_size(b);
    const int k = size < 1 ? 0 : (int)(log2(size) + 0.5);
    return ex->fastest[k < KL_NSIZE ? k : KL_NSIZE - 1];
}

int kl_exec_is_far(kl_exec *ex, kl_dptr p) { return ex->vt.alloc_far && p.addr != 0 && ex->vt.is_far(ex, p); }

kl_status kl_exec_copy_in(kl_exec *ex, const double *host, int64_t n, kl_dptr *out, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(ex->vt.alloc(ex, n, out, err));
    KL_TRY(ex->vt.upload(ex, *out, host, n, err));
out:
    return st;
}

kl_status kl_exec_operators_in(kl_exec *ex, const double *host, int64_t n, kl_dptr *out, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_exec_alloc_operators(ex, n, out, err));
    KL_TRY(ex->vt.upload(ex, *out, host, n, err));
out:
    return st;
}

/* Whether operators of so many bytes have place on the device, of whose memory `room` is left. */
static int have_place(const kl_exec *ex, int64_t room, int64_t bytes)
{
    return ex->projection != KL_PROJECTION_NOSTORAGE && room / 2 >= bytes;
}

kl_status kl_exec_alloc_operators(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err)
{
    kl_err none;
    if (!ex->vt.alloc_far) return ex->vt.alloc(ex, n, out, err);
    const int64_t bytes = n * (int64_t)sizeof(double);
    if (n == 0 || (have_place(ex, ex->vt.room(ex), bytes) && ex->vt.alloc(ex, n, out, &none) == KL_OK))
        return n ? KL_OK : ex->vt.alloc(ex, n, out, err);
    return ex->vt.alloc_far(ex, n, out, err);
}

void kl_exec_keep_operators(kl_exec *ex, int64_t n, kl_dptr *p)
{
    const int64_t bytes = n * (int64_t)sizeof(double);
    /* it counts as used already, so what is left is compared with it, not with twice of it: the room of a
       device without a limit is INT64_MAX, to which nothing can be added */
    if (ex->vt.alloc_far && (ex->projection == KL_PROJECTION_NOSTORAGE || ex->vt.room(ex) < bytes))
        kl_exec_move_operators(ex, 1, n, p);
}

int kl_exec_move_operators(kl_exec *ex, int far, int64_t n, kl_dptr *p)
{
    kl_dptr to = {0};
    kl_err none;
    if (!ex->vt.alloc_far || p->addr == 0 || kl_exec_is_far(ex, *p) == far) return 0;
    if ((far ? ex->vt.alloc_far : ex->vt.alloc)(ex, n, &to, &none) != KL_OK) return 0;
    /* the bus goes between them by itself; what upload takes goes through buffers */
    ex->vt.join(ex, ex->vt.copy_async(ex, n, *p, to, KL_COPY_AFTER), 1);
    ex->vt.release(ex, p);
    *p = to;
    return 1;
}

void kl_exec_close(kl_exec **ex)
{
    if (*ex == NULL) return;
    (*ex)->vt.close(*ex);
    kl_free(ex);
}

kl_status kl_batch_run(kl_batch *b, kl_exec *ex, kl_dptr x, kl_dptr y, kl_err *err)
{
    kl_status st = KL_OK;
    b->once = 1;
    KL_TRY(kl_batch_close(b, err));
    KL_TRY(ex->vt.batch_prepare(ex, b, err));
    KL_TRY(ex->vt.batch_apply(ex, b, x, y, err));
out:
    ex->vt.batch_release(ex, b);
    kl_batch_reset(b);
    return st;
}
