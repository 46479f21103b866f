/* What others do for H v of a Hubbard model, to be timed against our own: the conventional and the tuned
   kernels of yamada2020, Figs. 1 and 2, and cuSPARSE, all on V as a plain column-major matrix with one entry
   stored for every diagonal element; and their LOBPCG, Fig. 3, by cuBLAS calls as in Fig. 5. cuSPARSE and
   cuBLAS are opened when they are asked for: nothing else here needs them.
   SPDX-License-Identifier: Apache-2.0 */
#include "../device.h"
#include "device/devkron.h"
#include "device/pencil.h"

#include <cublas_v2.h>
#include <cusparse.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LANES = KL_KRON_LANES,
    SIDE = 32,
    TEAM = 256,
    ROUNDS = 7,
    GROUPS = 3,
    STRIP = 8,
    SHARED = 36 << 10, /* bytes that a tuned kernel may take */
};

/* ---------------------------------------------------------------- libraries */

/* clang-format off */
#define CALLS(X) \
    X(sparse, cusparseCreate) \
    X(sparse, cusparseDestroy) \
    X(sparse, cusparseSetStream) \
    X(sparse, cusparseCreateCsr) \
    X(sparse, cusparseDestroySpMat) \
    X(sparse, cusparseCreateDnMat) \
    X(sparse, cusparseDestroyDnMat) \
    X(sparse, cusparseSpMM_bufferSize) \
    X(sparse, cusparseSpMM) \
    X(blas, cublasCreate_v2) \
    X(blas, cublasDestroy_v2) \
    X(blas, cublasSetStream_v2) \
    X(blas, cublasDdot_v2) \
    X(blas, cublasDaxpy_v2) \
    X(blas, cublasDscal_v2) \
    X(blas, cublasDcopy_v2) \
    X(blas, cublasDnrm2_v2)
/* clang-format on */

struct libraries {
    void *sparse, *blas;
#define MEMBER(lib, name) decltype(&::name) name;
    CALLS(MEMBER)
#undef MEMBER
};

static void *open_one(const char *const *names)
{
    void *p = nullptr;
    for (; !p && *names; names++) p = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    return p;
}

static bool open_libraries(libraries *l)
{
    static const char *const sparse[] = {"libcusparse.so", "libcusparse.so.13", "libcusparse.so.12", nullptr},
                             *const blas[] = {"libcublas.so", "libcublas.so.13", "libcublas.so.12", nullptr};
    memset(l, 0, sizeof *l);
    l->sparse = open_one(sparse);
    l->blas = open_one(blas);
    if (!l->sparse || !l->blas) return false;
#define FIND(lib, call)                                \
    l->call = (decltype(l->call))dlsym(l->lib, #call); \
    if (!l->call) return false;
    CALLS(FIND)
#undef FIND
    return true;
}

static void close_libraries(libraries *l)
{
    if (l->sparse) dlclose(l->sparse);
    if (l->blas) dlclose(l->blas);
}

/* ---------------------------------------------------------------- kernels of Fig. 1 */

struct csr {
    int n, nnz;
    int most[2]; /* entries of SIDE rows, and of STRIP rows, that a block brings */
    int *ptr, *col; /* device */
    double *val;
};

static __global__ void times_diagonal(int64_t n, const double *__restrict__ d, const double *__restrict__ v,
                                      double *__restrict__ w)
{
    const int64_t i = (int64_t)blockIdx.x * TEAM + threadIdx.x;
    if (i < n) w[i] = d[i] * v[i];
}

/* out[j + i nc] = (add ? out : 0) + in[i + j nr] for a column-major nr x nc matrix `in' */
template <int ADD>
static __global__ void transpose(int nr, int nc, const double *__restrict__ in, double *__restrict__ out)
{
    __shared__ double t[SIDE][SIDE + 1];
    const int i0 = (int)blockIdx.x * SIDE, j0 = (int)blockIdx.y * SIDE, x = (int)threadIdx.x;
    for (int y = (int)threadIdx.y; y < SIDE; y += 8)
        if (i0 + x < nr && j0 + y < nc) t[y][x] = in[i0 + x + (int64_t)(j0 + y) * nr];
    __syncthreads();
    for (int y = (int)threadIdx.y; y < SIDE; y += 8)
        if (i0 + y < nr && j0 + x < nc) {
            double *const o = out + j0 + x + (int64_t)(i0 + y) * nc;
            *o = ADD ? *o + t[x][y] : t[x][y];
        }
}

/* Fig. 1 (a): W += A V from the transposed copy R, through a square of shared memory. */
static __global__ void conventional_left(int nl, int nr, csr a, const double *__restrict__ r,
                                         double *__restrict__ w)
{
    __shared__ double t[SIDE][SIDE + 1];
    const int i0 = (int)blockIdx.x * SIDE, j0 = (int)blockIdx.y * SIDE, x = (int)threadIdx.x,
              y = (int)threadIdx.y;
    if (i0 + x < nl && j0 + y < nr) t[x][y] = w[i0 + x + (int64_t)(j0 + y) * nl];
    __syncthreads();
    if (i0 + y < nl && j0 + x < nr) {
        double s = t[y][x];
        for (int k = a.ptr[i0 + y]; k < a.ptr[i0 + y + 1]; k++)
            s += a.val[k] * r[j0 + x + (int64_t)a.col[k] * nr];
        t[y][x] = s;
    }
    __syncthreads();
    if (i0 + x < nl && j0 + y < nr) w[i0 + x + (int64_t)(j0 + y) * nl] = t[x][y];
}

/* Fig. 1 (b): W += V B^T. */
static __global__ void conventional_right(int nl, csr b, const double *__restrict__ v, double *__restrict__ w)
{
    const int i = (int)blockIdx.x * SIDE + (int)threadIdx.x, j = (int)blockIdx.y * STRIP + (int)threadIdx.y;
    if (i >= nl || j >= b.n) return;
    double s = w[i + (int64_t)j * nl];
    for (int k = b.ptr[j]; k < b.ptr[j + 1]; k++) s += v[i + (int64_t)b.col[k] * nl] * b.val[k];
    w[i + (int64_t)j * nl] = s;
}

/* Fig. 2: the rows of a block's part of A come to shared memory, which every thread of the block reads; a row
   of threads brings a row. Returns where its first entry lies there. */
static __device__ int bring_row(const csr &a, int row, int first_row, double *val, int *col)
{
    if (row >= a.n) return 0;
    const int first = a.ptr[first_row];
    for (int k = a.ptr[row] + (int)threadIdx.x; k < a.ptr[row + 1]; k += SIDE) {
        val[k - first] = a.val[k];
        col[k - first] = a.col[k];
    }
    return a.ptr[row] - first;
}

/* conventional_left with the rows of A in shared memory, of `most' entries. */
static __global__ void tuned_left(int nl, int nr, csr a, int most, const double *__restrict__ r,
                                  double *__restrict__ w)
{
    extern __shared__ double val[];
    int *const col = (int *)(val + most);
    __shared__ double t[SIDE][SIDE + 1];
    const int i0 = (int)blockIdx.x * SIDE, j0 = (int)blockIdx.y * SIDE, x = (int)threadIdx.x,
              y = (int)threadIdx.y;
    const int at = bring_row(a, i0 + y, i0, val, col);
    if (i0 + x < nl && j0 + y < nr) t[x][y] = w[i0 + x + (int64_t)(j0 + y) * nl];
    __syncthreads();
    if (i0 + y < nl && j0 + x < nr) {
        const int n = a.ptr[i0 + y + 1] - a.ptr[i0 + y];
        double s = t[y][x];
        for (int k = at; k < at + n; k++) s += val[k] * r[j0 + x + (int64_t)col[k] * nr];
        t[y][x] = s;
    }
    __syncthreads();
    if (i0 + x < nl && j0 + y < nr) w[i0 + x + (int64_t)(j0 + y) * nl] = t[x][y];
}

/* W = D V + V B^T in one loop. */
static __global__ void tuned_right(int nl, csr b, int most, const double *__restrict__ d,
                                   const double *__restrict__ v, double *__restrict__ w)
{
    extern __shared__ double val[];
    int *const col = (int *)(val + most);
    const int i = (int)blockIdx.x * SIDE + (int)threadIdx.x, j0 = (int)blockIdx.y * STRIP,
              j = j0 + (int)threadIdx.y;
    const int at = bring_row(b, j, j0, val, col);
    __syncthreads();
    if (i >= nl || j >= b.n) return;
    const int n = b.ptr[j + 1] - b.ptr[j];
    double s = d[i + (int64_t)j * nl] * v[i + (int64_t)j * nl];
    for (int k = at; k < at + n; k++) s += v[i + (int64_t)col[k] * nl] * val[k];
    w[i + (int64_t)j * nl] = s;
}

/* From our tiles to a plain matrix. */
static __global__ void unpack(int64_t nl, int64_t nr, const double *__restrict__ tiles,
                              double *__restrict__ plain)
{
    const int64_t at = (int64_t)blockIdx.x * TEAM + threadIdx.x, i = at % nl, j = at / nl;
    if (j < nr) plain[at] = tiles[(j / LANES * nl + i) * LANES + j % LANES];
}

/* Largest |a - b| and |b|; bits of doubles that are not negative compare as integers do, and NaN is above
   all. */
static __global__ void compare(int64_t n, const double *__restrict__ a, const double *__restrict__ b,
                               unsigned long long *most)
{
    unsigned long long d = 0, s = 0;
    for (int64_t i = (int64_t)blockIdx.x * TEAM + threadIdx.x; i < n; i += (int64_t)gridDim.x * TEAM) {
        const unsigned long long e = (unsigned long long)__double_as_longlong(fabs(a[i] - b[i])),
                                 f = (unsigned long long)__double_as_longlong(fabs(b[i]));
        d = e > d ? e : d;
        s = f > s ? f : s;
    }
    atomicMax(most, d);
    atomicMax(most + 1, s);
}

/* ---------------------------------------------------------------- a contest */

enum {
    CONVENTIONAL = KL_CONTEST_CONVENTIONAL,
    CUSPARSE = KL_CONTEST_CUSPARSE,
    TUNED = KL_CONTEST_TUNED,
    OURS = KL_CONTEST_OURS
};

struct contest {
    kl_exec *ex;
    kl_cuda *self;
    const kl_kron *k;
    libraries lib;
    cusparseHandle_t sparse;
    cublasHandle_t blas;
    int nl, nr;
    int64_t n; /* of a plain vector */
    csr a, b;
    cusparseSpMatDescr_t sa, sb;
    double *d, *r, *t; /* diagonal; V transposed; a product with it */
    void *buffer[2];
    cudaEvent_t from, to;
    double *v[6]; /* vectors, plain or tiles */
    int64_t room; /* doubles of each */
};

static kl_status get(contest *c, int64_t bytes, void *out, kl_err *err)
{
    return c->self->host->pool_alloc(&c->self->pool, bytes > 0 ? bytes : 8, (void **)out, err);
}

static kl_status put_csr(contest *c, const kl_kron_op *o, int64_t n, csr *to, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_cuda_host *const host = c->self->host;
    const int64_t nnz = o ? o->nnz : 0;
    int *ptr = nullptr, *col = nullptr;
    double *val = nullptr;
    to->n = (int)n;
    to->nnz = (int)nnz;
    if ((st = host->alloc_bytes((void **)&ptr, n + 1, sizeof *ptr, KL_MEM_WORK, err)) != KL_OK) goto out;
    if ((st = host->alloc_bytes((void **)&col, nnz, sizeof *col, KL_MEM_WORK, err)) != KL_OK) goto out;
    if ((st = host->alloc_bytes((void **)&val, nnz, sizeof *val, KL_MEM_WORK, err)) != KL_OK) goto out;
    for (int64_t i = 0; o && i < n; i++) {
        ptr[i + 1] = (int)o->ptr[i + 1];
        for (uint32_t q = o->ptr[i]; q < o->ptr[i + 1]; q++) {
            col[q] = o->idx16 ? (int)o->idx16[q] : (int)o->idx32[q];
            val[q] = !o->unit ? o->coef[q] : q < o->minus[i] ? o->scale : -o->scale;
        }
    }
    for (int which = 0; which < 2; which++) {
        const int64_t rows = which ? STRIP : SIDE;
        to->most[which] = 1;
        for (int64_t i = 0; i < n; i += rows) {
            const int entries = ptr[i + rows < n ? i + rows : n] - ptr[i];
            if (entries > to->most[which]) to->most[which] = entries;
        }
    }
    if ((st = get(c, (n + 1) * (int64_t)sizeof *ptr, &to->ptr, err)) != KL_OK) goto out;
    if ((st = get(c, nnz * (int64_t)sizeof *col, &to->col, err)) != KL_OK) goto out;
    if ((st = get(c, nnz * (int64_t)sizeof *val, &to->val, err)) != KL_OK) goto out;
    kl_cuda_put(c->self, to->ptr, ptr, (n + 1) * (int64_t)sizeof *ptr);
    kl_cuda_put(c->self, to->col, col, nnz * (int64_t)sizeof *col);
    kl_cuda_put(c->self, to->val, val, nnz * (int64_t)sizeof *val);
out:
    host->free_ptr((void **)&ptr);
    host->free_ptr((void **)&col);
    host->free_ptr((void **)&val);
    return st;
}

static unsigned blocks_of(int64_t n) { return (unsigned)((n + TEAM - 1) / TEAM); }

/* Row-major dense matrices: cuSPARSE is several times slower on column-major ones (spmm with the sparse
   matrix on the rows). */
static bool spmm(contest *c, int which, const double *x, double *y, double beta)
{
    cusparseDnMatDescr_t dx, dy;
    const int64_t rows = which ? c->nr : c->nl, cols = which ? c->nl : c->nr;
    const double one = 1.0;
    if (c->lib.cusparseCreateDnMat(&dx, rows, cols, cols, (void *)x, CUDA_R_64F, CUSPARSE_ORDER_ROW) !=
        CUSPARSE_STATUS_SUCCESS)
        return false;
    bool good = c->lib.cusparseCreateDnMat(&dy, rows, cols, cols, y, CUDA_R_64F, CUSPARSE_ORDER_ROW) ==
                CUSPARSE_STATUS_SUCCESS;
    if (good && !c->buffer[which]) {
        size_t bytes = 0;
        kl_err err;
        good = c->lib.cusparseSpMM_bufferSize(c->sparse, CUSPARSE_OPERATION_NON_TRANSPOSE,
                                              CUSPARSE_OPERATION_NON_TRANSPOSE, &one, which ? c->sb : c->sa,
                                              dx, &beta, dy, CUDA_R_64F, CUSPARSE_SPMM_ALG_DEFAULT,
                                              &bytes) == CUSPARSE_STATUS_SUCCESS &&
               get(c, (int64_t)bytes + 8, &c->buffer[which], &err) == KL_OK;
    }
    good = good &&
           c->lib.cusparseSpMM(c->sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE,
                               &one, which ? c->sb : c->sa, dx, &beta, dy, CUDA_R_64F,
                               CUSPARSE_SPMM_ALG_DEFAULT, c->buffer[which]) == CUSPARSE_STATUS_SUCCESS;
    c->lib.cusparseDestroyDnMat(dx);
    c->lib.cusparseDestroyDnMat(dy);
    return good;
}

static size_t shared_bytes(int entries) { return (size_t)entries * (sizeof(double) + sizeof(int)); }

/* The parts of H v, ORDER of kl_kron_contest's rows. */
static bool part(contest *c, int how, int what, const double *v, double *w)
{
    const cudaStream_t s = c->self->stream;
    const dim3 square((unsigned)(c->nl + SIDE - 1) / SIDE, (unsigned)(c->nr + SIDE - 1) / SIDE),
        back((unsigned)(c->nr + SIDE - 1) / SIDE, (unsigned)(c->nl + SIDE - 1) / SIDE), strip(SIDE, STRIP),
        rows((unsigned)(c->nl + SIDE - 1) / SIDE, (unsigned)(c->nr + STRIP - 1) / STRIP);
    switch (what) {
    case 0:
        if (how == TUNED) return true; /* in 1 */
        times_diagonal<<<blocks_of(c->n), TEAM, 0, s>>>(c->n, c->d, v, w);
        return true;
    case 1:
        if (how == CUSPARSE) return spmm(c, 1, v, w, 1.0);
        if (how == TUNED && shared_bytes(c->b.most[1]) > SHARED) return false;
        if (how == TUNED) {
            tuned_right<<<rows, strip, shared_bytes(c->b.most[1]), s>>>(c->nl, c->b, c->b.most[1], c->d, v,
                                                                        w);
            return true;
        }
        conventional_right<<<rows, strip, 0, s>>>(c->nl, c->b, v, w);
        return true;
    case 2:
        if (how == CUSPARSE) return spmm(c, 0, c->r, c->t, 0.0);
        if (how == TUNED && shared_bytes(c->a.most[0]) > SHARED) return false;
        if (how == TUNED) {
            tuned_left<<<square, dim3(SIDE, SIDE), shared_bytes(c->a.most[0]), s>>>(c->nl, c->nr, c->a,
                                                                                    c->a.most[0], c->r, w);
            return true;
        }
        conventional_left<<<square, dim3(SIDE, SIDE), 0, s>>>(c->nl, c->nr, c->a, c->r, w);
        return true;
    case 3: transpose<0><<<square, strip, 0, s>>>(c->nl, c->nr, v, c->r); return true;
    default:
        if (how == CUSPARSE) transpose<1><<<back, strip, 0, s>>>(c->nr, c->nl, c->t, w);
        return true;
    }
}

static bool apply(contest *c, int how, const double *v, double *w)
{
    static const int order[] = {0, 3, 1, 2, 4};
    kl_err err;
    if (how == OURS)
        return kl_cuda_kron_apply(c->ex, c->k, kl_dptr{(uintptr_t)v}, kl_dptr{(uintptr_t)w}, nullptr, &err) ==
               KL_OK;
    bool good = true;
    for (int i = 0; i < 5; i++) good = good && part(c, how, order[i], v, w);
    return good;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Median of ROUNDS, milliseconds, the first run dropped; what < 0: all of H v. */
static double clock_of(contest *c, int how, int what)
{
    double ms[ROUNDS + 1];
    for (int i = 0; i <= ROUNDS; i++) {
        float t = NAN;
        bool good = true;
        cudaEventRecord(c->from, c->self->stream);
        if (what >= 0 && how == OURS) kl_cuda_kron_half(c->self, c->k, what == 1, c->v[0], c->v[1]);
        else good = what >= 0 ? part(c, how, what, c->v[0], c->v[1]) : apply(c, how, c->v[0], c->v[1]);
        cudaEventRecord(c->to, c->self->stream);
        if (cudaEventSynchronize(c->to) != cudaSuccess ||
            cudaEventElapsedTime(&t, c->from, c->to) != cudaSuccess || !good)
            t = NAN;
        ms[i] = t;
    }
    qsort(ms + 1, ROUNDS, sizeof *ms, by_size);
    return ms[1 + ROUNDS / 2];
}

/* ---------------------------------------------------------------- LOBPCG by cuBLAS */

/* Fig. 3 with one call of cuBLAS for every vector operation of Fig. 5; ten inner products a step. Seconds of
   `steps' steps, NaN when something failed. */
static double lobpcg(contest *c, int how, int64_t n, int steps, double *energy)
{
    enum { x, X, w, W, p, P };
    double *const *const v = c->v;
    const libraries *const l = &c->lib;
    const int length = (int)n;
    double mu = 0.0, norm, xx;
    bool good = apply(c, how, v[x], v[X]);
    auto dot = [&](int i, int j) {
        double s = NAN;
        good = good && l->cublasDdot_v2(c->blas, length, v[i], 1, v[j], 1, &s) == CUBLAS_STATUS_SUCCESS;
        return s;
    };
    auto scale = [&](int i, double f) {
        good = good && l->cublasDscal_v2(c->blas, length, &f, v[i], 1) == CUBLAS_STATUS_SUCCESS;
    };
    auto add = [&](int to, double f, int from) {
        good = good && l->cublasDaxpy_v2(c->blas, length, &f, v[from], 1, v[to], 1) == CUBLAS_STATUS_SUCCESS;
    };
    auto copy = [&](int to, int from) {
        good = good && l->cublasDcopy_v2(c->blas, length, v[from], 1, v[to], 1) == CUBLAS_STATUS_SUCCESS;
    };
    auto length_of = [&](int i) {
        double s = NAN;
        good = good && l->cublasDnrm2_v2(c->blas, length, v[i], 1, &s) == CUBLAS_STATUS_SUCCESS;
        return s;
    };
    xx = dot(x, x);
    scale(x, 1 / sqrt(xx));
    scale(X, 1 / sqrt(xx));
    mu = dot(x, X);
    copy(w, X);
    add(w, -mu, x);
    scale(w, 1 / length_of(w));
    cudaMemsetAsync(v[p], 0, (size_t)n * sizeof(double), c->self->stream);
    cudaMemsetAsync(v[P], 0, (size_t)n * sizeof(double), c->self->stream);
    cudaEventRecord(c->from, c->self->stream);
    for (int step = 0; step < steps && good; step++) {
        good = good && apply(c, how, v[w], v[W]);
        double a[3][3], b[3][3], s[3] = {0, 0, 0};
        a[0][0] = dot(w, W), a[1][1] = dot(x, X), a[0][1] = a[1][0] = dot(x, W);
        b[0][0] = 1, b[1][1] = dot(x, x), b[0][1] = b[1][0] = dot(w, x);
        a[2][2] = dot(p, P), a[0][2] = a[2][0] = dot(w, P), a[1][2] = a[2][1] = dot(x, P);
        b[2][2] = 1, b[0][2] = b[2][0] = dot(w, p), b[1][2] = b[2][1] = dot(x, p);
        if (step == 0 || !kl_pencil_lowest(3, a, b, &mu, s)) {
            s[2] = 0.0;
            good = good && kl_pencil_lowest(2, a, b, &mu, s);
        }
        scale(p, s[2]), scale(P, s[2]);
        add(p, s[0], w), add(P, s[0], W);
        scale(x, s[1]), scale(X, s[1]);
        add(x, 1.0, p), add(X, 1.0, P);
        copy(w, X);
        add(w, -mu, x);
        norm = length_of(p);
        scale(p, 1 / norm), scale(P, 1 / norm);
        norm = length_of(w);
        scale(w, 1 / norm);
    }
    cudaEventRecord(c->to, c->self->stream);
    float ms = NAN;
    if (cudaEventSynchronize(c->to) != cudaSuccess ||
        cudaEventElapsedTime(&ms, c->from, c->to) != cudaSuccess || !good)
        return NAN;
    *energy = mu;
    return 1e-3 * ms;
}

/* ---------------------------------------------------------------- the executor's entry */

static kl_status prepare(contest *c, kl_err *err)
{
    const kl_cuda_host *const host = c->self->host;
    const kl_kron_block *const b = c->k->block;
    kl_status st;
    if (c->k->nblock != 1 || b->ncross != 0 || b->nl * b->nr > INT32_MAX)
        return host->fail(err, KL_EINPUT,
                          "the tables of yamada2020 are for H = D + A (x) 1 + 1 (x) B with fewer than 2^31 "
                          "states: a Hubbard model in its product form");
    if (!open_libraries(&c->lib))
        return host->fail(err, KL_EABSENT, "cuSPARSE and cuBLAS cannot be opened: %.300s", dlerror());
    c->nl = (int)b->nl;
    c->nr = (int)b->nr;
    c->n = b->nl * b->nr;
    c->room = c->k->n;
    if ((st = put_csr(c, b->a, b->nl, &c->a, err)) != KL_OK ||
        (st = put_csr(c, b->b, b->nr, &c->b, err)) != KL_OK)
        return st;
    double **const vectors[] = {&c->d,    &c->r,    &c->t,    &c->v[0], &c->v[1],
                                &c->v[2], &c->v[3], &c->v[4], &c->v[5]};
    for (double **v : vectors)
        if ((st = get(c, c->room * (int64_t)sizeof(double), v, err)) != KL_OK) return st;
    if (cudaEventCreate(&c->from) != cudaSuccess || cudaEventCreate(&c->to) != cudaSuccess)
        return kl_cuda_check(c->self, "events", err);
    const cusparseIndexType_t i32 = CUSPARSE_INDEX_32I;
    if (c->lib.cusparseCreate(&c->sparse) != CUSPARSE_STATUS_SUCCESS ||
        c->lib.cusparseSetStream(c->sparse, c->self->stream) != CUSPARSE_STATUS_SUCCESS ||
        c->lib.cusparseCreateCsr(&c->sa, c->nl, c->nl, c->a.nnz, c->a.ptr, c->a.col, c->a.val, i32, i32,
                                 CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F) != CUSPARSE_STATUS_SUCCESS ||
        c->lib.cusparseCreateCsr(&c->sb, c->nr, c->nr, c->b.nnz, c->b.ptr, c->b.col, c->b.val, i32, i32,
                                 CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F) != CUSPARSE_STATUS_SUCCESS ||
        c->lib.cublasCreate_v2(&c->blas) != CUBLAS_STATUS_SUCCESS ||
        c->lib.cublasSetStream_v2(c->blas, c->self->stream) != CUBLAS_STATUS_SUCCESS)
        return host->fail(err, KL_EABSENT, "cuSPARSE or cuBLAS refused to start");
    return KL_OK;
}

static void finish(contest *c)
{
    const kl_cuda_host *const host = c->self->host;
    cudaStreamSynchronize(c->self->stream);
    if (c->sa) c->lib.cusparseDestroySpMat(c->sa);
    if (c->sb) c->lib.cusparseDestroySpMat(c->sb);
    if (c->sparse) c->lib.cusparseDestroy(c->sparse);
    if (c->blas) c->lib.cublasDestroy_v2(c->blas);
    if (c->from) cudaEventDestroy(c->from);
    if (c->to) cudaEventDestroy(c->to);
    void *const blocks[] = {c->a.ptr, c->a.col, c->a.val, c->b.ptr,     c->b.col,     c->b.val,
                            c->d,     c->r,     c->t,     c->buffer[0], c->buffer[1], c->v[0],
                            c->v[1],  c->v[2],  c->v[3],  c->v[4],      c->v[5]};
    for (void *p : blocks) host->pool_release(&c->self->pool, p);
    close_libraries(&c->lib);
}

/* Start of a vector: random tiles, made plain for those who want it so. */
static kl_status start(contest *c, bool plain, kl_err *err)
{
    double *const tiles = plain ? c->v[5] : c->v[0];
    const kl_status st = kl_cuda_kron_random(c->ex, c->k, 11, 0, kl_dptr{(uintptr_t)tiles}, err);
    if (st == KL_OK && plain)
        unpack<<<blocks_of(c->n), TEAM, 0, c->self->stream>>>(c->nl, c->nr, tiles, c->v[0]);
    return st;
}

extern "C" kl_status kl_cuda_kron_contest(kl_exec *ex, const kl_kron *k, kl_kron_contest *out, kl_err *err)
{
    contest c = {};
    c.ex = ex;
    c.self = (kl_cuda *)ex->self;
    c.k = k;
    const int steps = out->steps;
    memset(out, 0, sizeof *out);
    out->steps = steps;
    out->vectors = "cuBLAS";
    kl_status st = prepare(&c, err);
    /* 97.2 a state of 4x4 sites with 7 and 7 electrons, which 2087 Gflop of Table 3 are in 164 steps */
    if (st == KL_OK)
        out->flop = (double)c.n * (46.8 + 2.0 * ((double)c.a.nnz / c.nl + (double)c.b.nnz / c.nr));
    const cudaStream_t s = c.self->stream;
    unsigned long long *const most = (unsigned long long *)c.self->scratch;
    if (st != KL_OK) goto out;
    if ((st = kl_cuda_kron_diagonal(ex, k, kl_dptr{(uintptr_t)c.v[0]}, err)) != KL_OK) goto out;
    unpack<<<blocks_of(c.n), TEAM, 0, s>>>(c.nl, c.nr, c.v[0], c.d);
    /* v[4] = H v of ours, plain */
    if ((st = start(&c, false, err)) != KL_OK) goto out;
    for (int what = 1; what <= 2; what++) out->ms[OURS][what] = clock_of(&c, OURS, what);
    out->total[OURS] = clock_of(&c, OURS, -1);
    unpack<<<blocks_of(c.n), TEAM, 0, s>>>(c.nl, c.nr, c.v[1], c.v[4]);
    if ((st = start(&c, true, err)) != KL_OK) goto out;
    for (int how = CONVENTIONAL; how < OURS; how++) {
        unsigned long long bits[2];
        double size[2];
        cudaMemsetAsync(c.v[1], 0xff, (size_t)c.n * sizeof(double), s); /* NaN */
        out->total[how] = clock_of(&c, how, -1);
        cudaMemsetAsync(most, 0, sizeof bits, s);
        compare<<<1024, TEAM, 0, s>>>(c.n, c.v[1], c.v[4], most);
        kl_cuda_get(c.self, bits, most, sizeof bits);
        memcpy(size, bits, sizeof size);
        out->worst[how] = size[0] / size[1];
        for (int what = how == TUNED ? 1 : 0; what < 5; what++) out->ms[how][what] = clock_of(&c, how, what);
    }
    for (int how = CONVENTIONAL; how <= OURS && steps > 0; how++) {
        if ((st = start(&c, how != OURS, err)) != KL_OK) goto out;
        out->seconds[how] = lobpcg(&c, how, how == OURS ? k->n : c.n, steps, &out->energy[how]);
    }
    st = kl_cuda_check(c.self, "the tables of yamada2020", err);
out:
    finish(&c);
    return st;
}
