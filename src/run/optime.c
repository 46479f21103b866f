/* See optime.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/optime.h"
#include "base/dense.h"
#include "base/divide.h"
#include "base/mem.h"
#include "base/par.h"
#include "base/prof.h"
#include "base/random.h"
#include "chem/fcidump.h"
#include "ci/ci.h"
#include "ci/rowsigma.h"
#include "ci/sigma.h"
#include "ed/ed.h"
#include "record/record.h"
#include "exec/baselines.h"
#include "exec/spmv.h"
#include "run/operands.h"
#include "run/task.h"
#include "dmrg/reflect.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ORDER KL_TIMED */
const char *const kl_timed_name[KL_NTIMED] = {"copy",
                                              "axpy",
                                              "V^T x, 20 columns",
                                              "V y, 20 columns",
                                              "10 products of 6 vectors",
                                              "sparse A x",
                                              "64 products",
                                              "8 eigenproblems",
                                              "2 sweeps of DMRG",
                                              "H x, ED",
                                              "H x, full CI",
                                              "H x, CI by rows",
                                              "sparse A brought"};

enum {
    WIDTH = 20,
    FUSED = 6,
    FUSED_PAIRS = 10,
    NPRODUCT = 64,
    NMATRIX = 8,
    MANY_RUNS = 31,
    RUNS = 7,
    LONG_RUNS = 3,
};
/* seconds: of what is shorter, more runs; a virtual machine that is away for two milliseconds was seen in
   most of seven */
#define SHORT 0.005
#define LONG 0.1 /* of what takes longer, fewer runs will do */
#define VERY_LONG 0.5 /* one more than the first */
#define TOO_LONG 2.0 /* the first alone */

static const int fused_pair[FUSED_PAIRS][2] = {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 1},
                                               {1, 2}, {1, 4}, {2, 2}, {2, 5}, {0, 5}};

struct kl_optime {
    kl_exec *host;
    kl_timed what;
    int64_t size, ld;
    int64_t nin, nout; /* doubles that are read, and written */
    int nsum; /* numbers that come to the host */
    double *in, *want; /* [nin]; [nout + nsum] */
    double factor[WIDTH];
    kl_spmat *matrix;
    kl_options *options; /* of a sweep, and of a sector */
    kl_task *task;
    kl_fcidump *integrals;
    kl_detspace *space;
    kl_slater *slater;
    double bytes, flop;
    double first; /* seconds of the host for the answer */
};

/* What one executor holds of it. */
typedef struct place {
    const kl_optime *o;
    kl_exec *ex;
    int library;
    kl_dptr in, out;
    kl_batch list;
    kl_spmv *spmv;
    kl_ed *ed;
    kl_sigma *sigma;
    kl_rowsigma *rows;
    double sum[NMATRIX * 4096];
} place;

double kl_optime_bytes(const kl_optime *o) { return o->bytes; }
double kl_optime_flop(const kl_optime *o) { return o->flop; }
int kl_optime_writes(const kl_optime *o) { return o->what == KL_TIMED_COPY || o->what == KL_TIMED_AXPY; }

void kl_optime_destroy(kl_optime **po)
{
    kl_optime *const o = *po;
    if (!o) return;
    kl_spmat_destroy(&o->matrix);
    kl_task_destroy(&o->task);
    kl_options_destroy(&o->options);
    kl_slater_destroy(&o->slater);
    kl_detspace_destroy(&o->space);
    kl_fcidump_destroy(&o->integrals);
    kl_free(&o->in);
    kl_free(&o->want);
    kl_free(po);
}

static kl_status make_list(const kl_optime *o, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    const int s = (int)o->size;
    const int64_t ld = s + s % 2, each = ld * s;
    kl_batch_init(b);
    for (int i = 0; i < NPRODUCT; i++) {
        KL_TRY(kl_batch_open_group(b, i * each, each, err));
        KL_TRY(kl_batch_reserve(b, 1, err));
        *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                     .beta = 1,
                                     .at_a = KL_AT_LEFT,
                                     .at_b = KL_AT_X,
                                     .at_c = KL_AT_Y,
                                     .m = s,
                                     .n = s,
                                     .k = s,
                                     .lda = (int)ld,
                                     .ldb = (int)ld,
                                     .ldc = (int)ld,
                                     .a = i * each,
                                     .b = i * each,
                                     .c = i * each,
                                     .alpha = 1};
        kl_batch_close_group(b, 0);
    }
    b->zero = 1;
    b->nx = b->ny = NPRODUCT * each;
    KL_TRY(kl_batch_close(b, err));
out:
    return st;
}

/* Matrices, and what becomes of them until their kept vectors. */
typedef struct reduced {
    /* each: tasks that its kept vectors are; here: by LAPACK, else by the executor */
    int n, kept, each, here;
    double *a, *factor, *d, *e, *z; /* of all matrices, one after the other */
    kl_divided divided[NMATRIX];
    kl_status *status; /* of the tasks */
} reduced;

static void reduce_one(void *self, int64_t task, int thread)
{
    reduced *const r = self;
    const int64_t n = r->n;
    (void)thread;
    double *const d = r->d + task * n, *const e = r->e + task * n;
    r->status[task] = kl_dense_eig_reduce(r->n, r->a + task * n * n, r->n, d, e,
                                          r->factor + task * KL_DENSE_PANEL * n, NULL);
    if (r->status[task] == KL_OK && n <= KL_DIVIDE_WHOLE)
        r->status[task] =
            kl_divide(1, 1, &r->n, &(const double *){d}, &(const double *){e}, &r->divided[task], NULL);
}

enum { TOGETHER = 48 }; /* columns of a task */

static void make_columns(void *self, int64_t task, int thread)
{
    reduced *const r = self;
    const int64_t n = r->n, matrix = task / r->each, from = task % r->each * TOGETHER;
    const int count = (int)(r->kept - from < TOGETHER ? r->kept - from : TOGETHER);
    double *const z = r->z + (matrix * r->kept + from) * n;
    (void)thread;
    kl_divided_columns(&r->divided[matrix], (int)(n - r->kept + from), count, z);
    if (r->here)
        r->status[task] = kl_dense_eig_transform(r->n, r->a + matrix * n * n, r->n,
                                                 r->factor + matrix * KL_DENSE_PANEL * n, count, z, NULL);
}

static kl_status all_well(const reduced *r, kl_err *err)
{
    for (int i = 0; i < NMATRIX * r->each; i++)
        if (r->status[i] != KL_OK)
            return kl_fail(err, r->status[i], "eigenvectors of matrices of %d rows cannot be found", r->n);
    return KL_OK;
}

/* As truncation does it, which keeps a quarter of the vectors or so. */
static kl_status truncated(place *p, const int *n, const int64_t *off, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = p->ex;
    const int64_t size = p->o->size, kept = (size + 3) / 4, all = NMATRIX * size;
    const double *d[NMATRIX], *e[NMATRIX];
    int count[NMATRIX];
    int64_t at[NMATRIX];
    kl_dptr columns = {0};
    reduced r = {.n = (int)size,
                 .kept = (int)kept,
                 .each = (int)((kept + TOGETHER - 1) / TOGETHER),
                 .here = ex->space == KL_SPACE_HOST};
    KL_TRY(kl_alloc(&r.status, NMATRIX * r.each, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&r.d, 2 * all, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&r.z, all * kept, KL_MEM_WORK, err));
    r.e = r.d + all;
    if (r.here) {
        r.a = (double *)p->in.addr;
        KL_TRY(kl_realloc(&r.factor, KL_DENSE_PANEL * all, KL_MEM_WORK, err));
        kl_par_for(ex->nthread, NMATRIX, reduce_one, &r);
        KL_TRY(all_well(&r, err));
    } else KL_TRY(ex->vt.tridiagonal(ex, NMATRIX, n, off, p->in, r.d, r.e, err));
    for (int i = 0; i < NMATRIX; i++)
        d[i] = r.d + i * size, e[i] = r.e + i * size, count[i] = (int)kept, at[i] = i * kept * size;
    if (!r.here || size > KL_DIVIDE_WHOLE) KL_TRY(kl_divide(ex->nthread, NMATRIX, n, d, e, r.divided, err));
    for (int i = 0; i < NMATRIX; i++)
        memcpy(p->sum + i * size, r.divided[i].w, (size_t)size * sizeof *p->sum);
    kl_par_for(ex->nthread, NMATRIX * r.each, make_columns, &r);
    KL_TRY(all_well(&r, err));
    if (r.here) goto out;
    KL_TRY(ex->vt.alloc(ex, all * kept, &columns, err));
    KL_TRY(ex->vt.upload(ex, columns, r.z, all * kept, err));
    const kl_reflections q = {.nmat = NMATRIX, .n = n, .off = off, .v = p->in, .nv = all * size};
    const kl_reflected z = {.count = count, .at = at, .data = columns, .ndata = all * kept};
    KL_TRY(kl_reflect(ex, &q, &z, err));
out:
    ex->vt.release(ex, &columns);
    for (int i = 0; i < NMATRIX; i++) kl_divided_clear(&r.divided[i]);
    kl_free(&r.status);
    kl_free(&r.d);
    kl_free(&r.z);
    kl_free(&r.factor);
    return st;
}

/* Sites, or orbitals, at half filling that have this number of states, with equal numbers of both spins. */
static int half_filled(int64_t size)
{
    double half = 1; /* states of one spin: n over n / 2 */
    int n = 0;
    while (half * half < (double)size) {
        n += 2;
        half *= 4.0 * (n - 1) / n;
    }
    return n;
}

/* Of the sweep, and of the sector. */
static kl_status make_chain(kl_optime *o, int nsite, kl_err *err)
{
    char sites[24], up[24], dn[24];
    const char *const option[][2] = {
        {"model", "hubbard"}, {"sites", sites}, {"p", "U=4"}, {"charge", up}, {"charge", dn}};
    kl_status st = KL_OK;
    snprintf(sites, sizeof sites, "%d", nsite);
    snprintf(up, sizeof up, "N_up=%d", nsite / 2);
    snprintf(dn, sizeof dn, "N_dn=%d", nsite / 2);
    KL_TRY(kl_options_create(KL_CMD_DMRG, &o->options, err));
    for (size_t k = 0; k < sizeof option / sizeof *option; k++)
        KL_TRY(kl_options_set(o->options, "tune", option[k][0], option[k][1], err));
    KL_TRY(kl_task_create(o->options, 0, &o->task, err));
    KL_TRY(kl_task_charges(o->task, err));
    KL_TRY(kl_task_aim(o->task, o->task->target, err));
out:
    return st;
}

static kl_status make_sector(kl_optime *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_bipartition_size size;
    KL_TRY(make_chain(o, half_filled(o->size), err));
    KL_TRY(kl_bipartition_measure(o->task->terms, o->task->target, KL_BIPARTITION_AUTO, &size, err));
    o->nin = o->nout = (int64_t)size.n;
    o->bytes = 16 * size.n;
out:
    return st;
}

double kl_optime_connected(int64_t size)
{
    const int n = half_filled(size);
    return kl_ci_connected(n, n / 2, n / 2);
}

/* Random integrals do: products take no notice of them. */
static kl_status make_molecule(kl_optime *o, uint64_t *seed, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = half_filled(o->size);
    kl_fcidump *f = NULL;
    KL_TRY(kl_alloc(&o->integrals, 1, KL_MEM_MISC, err));
    f = o->integrals;
    f->norb = f->nelec = n, f->nirrep = 1, f->npair = kl_pair(n, 0);
    KL_TRY(kl_alloc(&f->irrep, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&f->h[0], (int64_t)n * n, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&f->eri[0], f->npair * f->npair, KL_MEM_MATRIX, err));
    f->h[1] = f->h[0], f->eri[1] = f->eri[2] = f->eri[0];
    for (int p = 0; p < n; p++)
        for (int q = 0; q <= p; q++) f->h[0][p * n + q] = f->h[0][q * n + p] = kl_random_uniform(seed);
    for (int64_t i = 0; i < f->npair; i++)
        for (int64_t j = 0; j <= i; j++)
            f->eri[0][i * f->npair + j] = f->eri[0][j * f->npair + i] = 0.1 * kl_random_uniform(seed);
    const kl_det_spec spec = {
        .norb = n, .nalpha = n / 2, .nbeta = n / 2, .nirrep = 1, .irrep = f->irrep, .full = 1};
    KL_TRY(kl_detspace_create(&spec, o->host->nthread, &o->space, err));
    KL_TRY(kl_slater_create(f, o->space, o->host->nthread, &o->slater, err));
    o->nin = o->nout = o->space->n;
    o->bytes = 16.0 * (double)o->space->n;
out:
    return st;
}

static kl_status one_sweep(place *p, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *const t = p->o->task;
    kl_state *state = NULL;
    kl_dmrg_result found = {0};
    kl_dmrg_sweep sweep[2] = {{.m = (int)p->o->size, .tol = 1e-6}, {.m = (int)p->o->size, .tol = 1e-6}};
    t->dmrg.sweep = sweep, t->dmrg.nsweep = 2, t->dmrg.max_apply = 3;
    KL_TRY(kl_dmrg_run(t->terms, p->ex, &t->dmrg, NULL, &state, &found, err));
    p->sum[0] = found.energy[0];
out:
    t->dmrg.sweep = NULL, t->dmrg.nsweep = 0;
    kl_state_destroy(&state);
    kl_dmrg_result_clear(&found);
    return st;
}

/* Everything but the operation itself: operands there, lists prepared. */
static kl_status open_place(place *p, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_optime *const o = p->o;
    kl_exec *const ex = p->ex;
    KL_TRY(ex->vt.alloc(ex, o->nin, &p->in, err));
    KL_TRY(ex->vt.alloc(ex, o->nout + 1, &p->out, err));
    KL_TRY(ex->vt.upload(ex, p->in, o->in, o->nin, err));
    ex->vt.fill(ex, o->nout + 1, 0.0, p->out);
    if (o->what == KL_TIMED_SPMV || o->what == KL_TIMED_BRING) {
        if (!ex->vt.spmv_apply) KL_TRY(kl_fail(err, KL_EABSENT, "%s has no sparse products", ex->name));
    }
    if (o->what == KL_TIMED_SPMV) {
        KL_TRY(kl_spmv_create_way(ex, o->matrix, p->library ? KL_SPWAY_CUSPARSE : KL_SPWAY_AUTO, 0, &p->spmv,
                                  err));
    }
    if (o->what == KL_TIMED_KRON) {
        KL_TRY(kl_ed_create(o->task->terms, o->task->target, KL_BIPARTITION_AUTO, ex, &p->ed, err));
        KL_TRY(kl_ed_random(p->ed, 4242, p->in, err)); /* ends of tiles hold no state, and stay 0 */
    }
    if (o->what == KL_TIMED_SIGMA) KL_TRY(kl_sigma_create(ex, o->slater, &p->sigma, err));
    if (o->what == KL_TIMED_ROWS) {
        KL_TRY(kl_rowsigma_create(ex, o->slater, &p->rows, err));
        KL_TRY(kl_rowsigma_divide(p->rows, NULL, err));
    }
    if (o->what == KL_TIMED_LIST) {
        KL_TRY(make_list(o, &p->list, err));
        p->list.base[KL_AT_LEFT] = kl_dptr_at(p->in, o->nin / 2);
        const kl_projection kept = ex->projection;
        if (p->library) ex->projection = KL_PROJECTION_LIBRARY;
        st = ex->vt.batch_prepare(ex, &p->list, err);
        ex->projection = kept;
    }
out:
    return st;
}

static void close_place(place *p)
{
    if (p->list.prepared) p->ex->vt.batch_release(p->ex, &p->list);
    kl_batch_clear(&p->list);
    kl_spmv_destroy(&p->spmv);
    kl_sigma_destroy(&p->sigma);
    kl_rowsigma_destroy(&p->rows);
    kl_ed_destroy(&p->ed);
    p->ex->vt.release(p->ex, &p->in);
    p->ex->vt.release(p->ex, &p->out);
}

static kl_status once(place *p, kl_err *err)
{
    const kl_optime *const o = p->o;
    kl_exec *const ex = p->ex;
    kl_status st = KL_OK;
    switch (o->what) {
    case KL_TIMED_COPY: ex->vt.copy(ex, o->size, p->in, p->out); break;
    case KL_TIMED_AXPY: ex->vt.axpby(ex, o->size, 0.5, p->in, 1.0, p->out); break;
    case KL_TIMED_DOTS:
        ex->vt.dots(ex, o->size, WIDTH, p->in, o->ld, kl_dptr_at(p->in, WIDTH * o->ld), p->sum);
        return KL_OK;
    case KL_TIMED_COMBINE: ex->vt.combine(ex, o->size, WIDTH, p->in, o->ld, o->factor, 0.0, p->out); break;
    case KL_TIMED_FUSE: {
        kl_dptr in[FUSED];
        if (!ex->vt.fuse) return kl_fail(err, KL_EABSENT, "%s has no fused steps", ex->name);
        for (int j = 0; j < FUSED; j++) in[j] = kl_dptr_at(p->in, j * o->ld);
        ex->vt.fuse(ex, o->size, &(kl_fuse){.nin = FUSED, .npair = FUSED_PAIRS, .in = in, .pair = fused_pair},
                    p->sum);
        return KL_OK;
    }
    case KL_TIMED_SPMV: st = kl_spmv_apply(p->spmv, 1, p->in, o->size, p->out, o->size, err); break;
    case KL_TIMED_LIST: st = ex->vt.batch_apply(ex, &p->list, p->in, p->out, err); break;
    case KL_TIMED_SWEEP: return one_sweep(p, err);
    case KL_TIMED_KRON: st = p->ed->op.apply(&p->ed->op, 1, p->in, o->nin, p->out, o->nout, err); break;
    case KL_TIMED_SIGMA: st = kl_sigma_apply(p->sigma, 1, p->in, o->nin, p->out, o->nout, err); break;
    case KL_TIMED_ROWS: st = kl_rowsigma_apply(p->rows, 1, p->in, o->nin, p->out, o->nout, err); break;
    case KL_TIMED_BRING:
        kl_spmv_destroy(&p->spmv);
        st = kl_spmv_create(ex, o->matrix, 1, &p->spmv, err);
        if (st == KL_OK) st = kl_spmv_apply(p->spmv, 1, p->in, o->size, p->out, o->size, err);
        break;
    default: {
        int n[NMATRIX];
        int64_t off[NMATRIX];
        if (ex->space == KL_SPACE_DEVICE && !ex->vt.eigen && !ex->vt.tridiagonal)
            return kl_fail(err, KL_EABSENT, "%s leaves eigenvectors to the host", ex->name);
        for (int i = 0; i < NMATRIX; i++) n[i] = (int)o->size, off[i] = i * o->size * o->size;
        return ex->vt.eigen ? ex->vt.eigen(ex, NMATRIX, n, off, p->in, p->sum, err)
                            : truncated(p, n, off, err);
    }
    }
    double last; /* what was only asked for is done when this is here */
    return st == KL_OK && ex->space == KL_SPACE_DEVICE ? ex->vt.download(ex, &last, p->out, 1, err) : st;
}

static int by_time(const void *pa, const void *pb)
{
    const double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

/* Vectors by the library, which only a trial reaches. */
static kl_status trial(place *p, double *seconds, kl_err *err)
{
    static const kl_op op[] = {KL_OP_COPY, KL_OP_AXPBY, KL_OP_DOTS, KL_OP_COMBINE};
    const kl_optime *const o = p->o;
    const double half = 0.5;
    kl_trial t = {.op = op[o->what],
                  .way = KL_WAY_LIBRARY,
                  .repeat = RUNS,
                  .n = o->size,
                  .ldv = o->ld,
                  .nvec = WIDTH,
                  .v = p->in,
                  .c = o->what == KL_TIMED_AXPY ? &half : o->factor,
                  .x = o->what == KL_TIMED_DOTS ? kl_dptr_at(p->in, WIDTH * o->ld) : p->in,
                  .y = p->out,
                  .out = p->sum};
    if (!(p->ex->baselines && p->ex->baselines->trial))
        return kl_fail(err, KL_EABSENT, "%s has no library to compare with", p->ex->name);
    kl_status st = p->ex->baselines->trial(p->ex, &t, err);
    *seconds = t.seconds;
    if (st != KL_OK || o->what != KL_TIMED_DOTS) return st;
    t.way = KL_WAY_GEMM;
    st = p->ex->baselines->trial(p->ex, &t, err);
    if (st == KL_OK && t.seconds < *seconds) *seconds = t.seconds;
    return st;
}

/* Largest difference from the host's answer, relative to the largest number of it. */
static kl_status compare(const kl_optime *o, place *p, double *residual, kl_err *err)
{
    kl_status st = KL_OK;
    double *got = NULL, most = 1e-300, worst = 0;
    KL_TRY(kl_realloc(&got, o->nout + 1, KL_MEM_WORK, err));
    KL_TRY(p->ex->vt.download(p->ex, got, p->out, o->nout, err));
    for (int64_t i = 0; i < o->nout + o->nsum; i++) {
        const double have = i < o->nout ? got[i] : p->sum[i - o->nout], off = fabs(have - o->want[i]);
        if (!(off <= worst)) worst = off;
        most = fmax(most, fabs(o->want[i]));
    }
    /* sums of n products may cancel */
    *residual = worst / (most + (o->nsum && o->what < KL_TIMED_EIGEN ? sqrt((double)o->size) : 0));
    /* from a random start two sweeps are hardly enough, and devices fill sectors up */
    const double most_off = o->what == KL_TIMED_SWEEP ? 1e-2 : 1e-11;
    if (!(*residual < most_off))
        st = kl_fail(err, KL_EBROKEN, "%s of size %lld on %s differs from the host by %.1e",
                     kl_timed_name[o->what], (long long)o->size, p->ex->name, *residual);
out:
    kl_free(&got);
    return st;
}

kl_status kl_optime_run(kl_optime *o, kl_exec *ex, int library, double *seconds, double *residual,
                        kl_err *err)
{
    kl_status st = KL_OK;
    double t[MANY_RUNS];
    place *p = NULL;
    *seconds = *residual = 0;
    if (library && (o->what == KL_TIMED_FUSE || o->what >= KL_TIMED_EIGEN || ex->space == KL_SPACE_HOST))
        return kl_fail(err, KL_EABSENT, "no library has %s", kl_timed_name[o->what]);
    if (ex == o->host && (o->what == KL_TIMED_SWEEP || o->first > VERY_LONG)) {
        *seconds =
            o->first; /* the answer itself: there is nothing to compare it with, and no need to repeat */
        return KL_OK;
    }
    KL_TRY(kl_alloc(&p, 1, KL_MEM_WORK, err));
    p->o = o, p->ex = ex, p->library = library;
    KL_TRY(open_place(p, err));
    if (library && o->what <= KL_TIMED_COMBINE) {
        KL_TRY(trial(p, seconds, err));
        if (o->what == KL_TIMED_DOTS) KL_TRY(compare(o, p, residual, err));
        goto out;
    }
    const int64_t first = kl_prof_clock();
    KL_TRY(once(p, err));
    const double about = 1e-9 * (double)(kl_prof_clock() - first);
    const int nrun = about > TOO_LONG                                 ? 0
                     : o->what == KL_TIMED_SWEEP || about > VERY_LONG ? 1
                     : about > LONG                                   ? LONG_RUNS
                     : about > SHORT                                  ? RUNS
                                                                      : MANY_RUNS;
    KL_TRY(compare(o, p, residual, err));
    for (int r = 0; r < nrun; r++) {
        /* they are where the matrices were */
        if (o->what == KL_TIMED_EIGEN) KL_TRY(ex->vt.upload(ex, p->in, o->in, o->nin, err));
        const int64_t start = kl_prof_clock();
        KL_TRY(once(p, err));
        t[r] = 1e-9 * (double)(kl_prof_clock() - start);
    }
    qsort(t, (size_t)nrun, sizeof *t, by_time);
    *seconds = nrun > 0 ? t[nrun / 2] : about;
out:
    if (p) close_place(p);
    kl_free(&p);
    return st;
}

/* Of size rows, with weights that fall off as a wavefunction's do: a product of a random matrix with itself,
   columns scaled. */
static void density(double *a, double *work, int n, uint64_t *seed)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            work[i + j * n] = kl_random_uniform(seed) * exp(-20.0 * (double)j / n);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = j; i < n; i++) { /* a band of its columns is enough to mix, and cheap */
            double sum = 0;
            for (int64_t k = 0; k < n; k += n / 16 + 1) sum += work[i + k * n] * work[j + k * n];
            a[i + j * n] = a[j + i * n] = sum + (i == j ? exp(-20.0 * (double)i / n) : 0.0);
        }
}

kl_status kl_optime_create(kl_exec *host, kl_timed what, int64_t size, kl_optime **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_optime *o = NULL;
    place *p = NULL;
    double *work = NULL;
    uint64_t seed = 4242 + (uint64_t)what;
    const double n = (double)size;
    const int64_t lines = (size + 7) / 8, square = (size + size % 2) * size;
    KL_TRY(kl_alloc(&o, 1, KL_MEM_MISC, err));
    *o = (kl_optime){.host = host, .what = what, .size = size, .ld = 8 * (lines + (lines % 2 == 0))};
    for (int j = 0; j < WIDTH; j++) o->factor[j] = 0.04 * (j - 9.5);
    switch (what) {
    case KL_TIMED_COPY: o->nin = o->nout = size, o->bytes = 16 * n; break;
    case KL_TIMED_AXPY: o->nin = o->nout = size, o->bytes = 24 * n, o->flop = 2 * n; break;
    case KL_TIMED_DOTS:
        o->nin = (WIDTH + 1) * o->ld, o->nsum = WIDTH, o->bytes = 8 * n * (double)(WIDTH + 1),
        o->flop = 2 * n * (double)WIDTH;
        break;
    case KL_TIMED_COMBINE:
        o->nin = WIDTH * o->ld, o->nout = size, o->bytes = 8 * n * (double)(WIDTH + 1),
        o->flop = 2 * n * (double)WIDTH;
        break;
    case KL_TIMED_FUSE:
        o->nin = FUSED * o->ld, o->nsum = FUSED_PAIRS, o->bytes = 8 * n * (double)FUSED,
        o->flop = 2 * n * (double)FUSED_PAIRS;
        break;
    case KL_TIMED_SPMV:
    case KL_TIMED_BRING: o->nin = o->nout = size; break;
    case KL_TIMED_LIST:
        o->nin = 2 * NPRODUCT * square, o->nout = NPRODUCT * square,
        o->flop = 2 * n * n * n * (double)NPRODUCT;
        break;
    case KL_TIMED_SWEEP:
        o->nsum = 1;
        st = make_chain(o, 20, err);
        break;
    case KL_TIMED_KRON: st = make_sector(o, err); break;
    case KL_TIMED_SIGMA:
    case KL_TIMED_ROWS: st = make_molecule(o, &seed, err); break;
    default: o->nin = NMATRIX * size * size, o->nsum = (int)(NMATRIX * size);
    }
    KL_TRY(st);
    if (what == KL_TIMED_EIGEN && size > 4096) {
        st = kl_fail(err, KL_EINPUT, "eigenproblems of %lld rows; at most 4096 are timed", (long long)size);
        goto out;
    }
    KL_TRY(kl_realloc(&o->in, o->nin, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&o->want, o->nout + o->nsum, KL_MEM_WORK, err));
    if (what == KL_TIMED_EIGEN) {
        KL_TRY(kl_realloc(&work, size * size, KL_MEM_WORK, err));
        density(o->in, work, (int)size, &seed);
        for (int i = 1; i < NMATRIX; i++)
            memcpy(o->in + i * size * size, o->in, (size_t)(size * size) * sizeof *o->in);
    } else kl_operands_fill(host->nthread, o->nin, seed, o->in);
    if (what == KL_TIMED_SPMV || what == KL_TIMED_BRING) {
        KL_TRY(kl_operands_matrix(host->nthread, size, size < KL_OPTIME_ROW ? size : KL_OPTIME_ROW,
                                  &o->matrix, err));
        o->bytes = (double)kl_spmv_bytes(o->matrix, 1);
        o->flop = 2 * n * fmin(n, (int)KL_OPTIME_ROW);
    }
    KL_TRY(kl_alloc(&p, 1, KL_MEM_WORK, err));
    p->o = o, p->ex = host;
    KL_TRY(open_place(p, err));
    const int64_t start = kl_prof_clock();
    KL_TRY(once(p, err));
    o->first = 1e-9 * (double)(kl_prof_clock() - start);
    KL_TRY(host->vt.download(host, o->want, p->out, o->nout, err));
    for (int i = 0; i < o->nsum; i++) o->want[o->nout + i] = p->sum[i];
out:
    if (p) close_place(p);
    kl_free(&p);
    kl_free(&work);
    if (st != KL_OK) kl_optime_destroy(&o);
    *out = o;
    return st;
}

/* Median seconds of a product by a way, and of one core to lay the matrix out and bring it there. */
static kl_status time_way(kl_exec *ex, const kl_spmat *m, kl_spway way, kl_dptr x, double *apply,
                          double *prepare, kl_err *err)
{
    kl_status st = KL_OK;
    kl_spmv *s = NULL;
    double t[RUNS], last;
    const kl_dptr y = kl_dptr_at(x, m->ncol);
    KL_TRY(kl_spmv_create_way(ex, m, way, 0, &s, err));
    *prepare = s->seconds;
    for (int r = -1; r < RUNS; r++) {
        const int64_t start = kl_prof_clock();
        KL_TRY(kl_spmv_apply(s, 1, x, m->ncol, y, m->nrow, err));
        KL_TRY(ex->vt.download(ex, &last, y, 1, err));
        if (r >= 0) t[r] = 1e-9 * (double)(kl_prof_clock() - start);
    }
    qsort(t, RUNS, sizeof *t, by_time);
    *apply = t[RUNS / 2];
out:
    kl_spmv_destroy(&s);
    return st;
}

kl_status kl_optime_layout(kl_exec *ex, int longer, int quick, kl_layout_cost *out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_spmat *m = NULL;
    kl_dptr x = {0};
    double stored, apply, there, laid_out;
    const int64_t n = longer ? 32768 : 500000, part = quick ? 8 : 1;
    KL_TRY(kl_operands_matrix(ex->nthread, n / part, longer ? 512 : KL_OPTIME_ROW, &m, err));
    KL_TRY(ex->vt.alloc(ex, m->ncol + m->nrow, &x, err));
    ex->vt.fill(ex, m->ncol, 1.0, x);
    KL_TRY(time_way(ex, m, KL_SPWAY_WARP, x, &stored, &there, err));
    KL_TRY(time_way(ex, m, longer ? KL_SPWAY_PACKED : KL_SPWAY_TILES, x, &apply, &laid_out, err));
    const double each = 1e12 / (double)m->nnz;
    out->gain = (stored - apply) * each;
    out->lay_out = fmax(laid_out - there, 1e-6) * each * ex->nthread;
out:
    ex->vt.release(ex, &x);
    kl_spmat_destroy(&m);
    return st;
}
