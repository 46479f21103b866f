/* Spaces of one irrep, H on them stored or as products only, and their lowest states. See ci.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/cisector.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/prof.h"
#include "base/random.h"

/* guards: roots above the wanted ones, which may come down */
enum {
    DEFAULT_PSPACE = 120,
    MOST_PSPACE = 2000,
    MIN_GUARD = KL_CISECTOR_GUARD,
    MAX_GUARD = 4,
};
/* states of the small block this close above the last wanted one are followed too */
static const double guard_window = 0.15;
/* norm of what is random in a start vector of norm 1: a tenth costs no more than a product or two; a third
   and thrice of it find the same states */
static const double random_part = 0.1;
/* hartree: determinants this high above the lowest get half of its share */
static const double random_width = 1.0;

static kl_status sector_apply(const kl_linop *h, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy,
                              kl_err *err)
{
    kl_status st = KL_OK;
    kl_cisector *const s = h->self;
    const int ranks = kl_ranks_size(h->ex);
    const int64_t at = s->piece != NULL ? s->piece[kl_ranks_mine(h->ex)].at : 0;
    if (s->sigma != NULL) KL_TRY(kl_sigma_apply(s->sigma, nvec, x, ldx, y, ldy, err));
    else if (s->spmv != NULL && s->spmv->m->nrow > 0)
        KL_TRY(kl_spmv_apply(s->spmv, nvec, x, ldx, kl_dptr_at(y, at), ldy, err));
    for (int v = 0; v < nvec && s->piece != NULL; v++)
        KL_TRY(kl_share_exchange_there(h->ex, ranks, s->piece, kl_dptr_at(y, v * ldy), err));
    if (s->rowsigma != NULL) KL_TRY(kl_rowsigma_apply(s->rowsigma, nvec, x, ldx, y, ldy, err));
out:
    return st;
}

/* Rows of H that this rank multiplies, from first to last; of `start' those of y begin. */
static kl_status divide(kl_cisector *s, kl_exec *ex, int64_t nrow, const double *cost, const int64_t *start,
                        int64_t *from, int64_t *to, kl_err *err)
{
    kl_status st = KL_OK;
    const int size = kl_ranks_size(ex);
    int64_t *first = NULL;
    KL_TRY(kl_alloc(&first, size + 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&s->piece, size, KL_MEM_MISC, err));
    kl_share_rows(ex, nrow, cost, first);
    for (int r = 0; r < size; r++) {
        const int64_t low = start ? start[first[r]] : first[r],
                      high = start ? start[first[r + 1]] : first[r + 1];
        s->piece[r] = (kl_share_piece){r, low, high - low};
    }
    *from = first[kl_ranks_mine(ex)];
    *to = first[kl_ranks_mine(ex) + 1];
out:
    kl_free(&first);
    return st;
}

static kl_status divide_strings(kl_cisector *s, kl_exec *ex, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = s->space->a->n;
    double *cost = NULL;
    int64_t from, to;
    if (kl_ranks_size(ex) == 1) return KL_OK;
    KL_TRY(kl_alloc(&cost, n, KL_MEM_WORK, err));
    for (int64_t i = 0; i < n; i++) cost[i] = kl_sigma_row_flops(s->sigma, i);
    KL_TRY(divide(s, ex, n, cost, s->space->row_off, &from, &to, err));
    kl_sigma_take_rows(s->sigma, from, to);
out:
    kl_free(&cost);
    return st;
}

/* Of a stored matrix each rank keeps its own rows. */
static kl_status divide_matrix(kl_cisector *s, kl_exec *ex, kl_spmat **csr, kl_err *err)
{
    kl_status st = KL_OK;
    kl_spmat *whole = *csr;
    double *cost = NULL;
    int64_t from, to;
    if (kl_ranks_size(ex) == 1) return KL_OK;
    KL_TRY(kl_alloc(&cost, whole->nrow, KL_MEM_WORK, err));
    for (int64_t i = 0; i < whole->nrow; i++)
        cost[i] = (double)(kl_sp_offset(whole, whole->start, i + 1) - kl_sp_offset(whole, whole->start, i));
    KL_TRY(divide(s, ex, whole->nrow, cost, NULL, &from, &to, err));
    *csr = NULL;
    KL_TRY(kl_spmat_rows(whole, from, to, csr, err));
out:
    if (*csr != whole) kl_spmat_destroy(&whole);
    kl_free(&cost);
    return st;
}

void kl_cisector_clear(kl_cisector *s, kl_exec *ex)
{
    if (s->x.addr != 0) ex->vt.release(ex, &s->x);
    if (s->op.diagonal.addr != 0) ex->vt.release(ex, &s->op.diagonal);
    kl_pspace_clear(&s->block);
    kl_free(&s->energy);
    kl_spmv_destroy(&s->spmv);
    kl_spmat_destroy(&s->matrix);
    kl_free(&s->piece);
    kl_sigma_destroy(&s->sigma);
    kl_rowsigma_destroy(&s->rowsigma);
    kl_slater_destroy(&s->h);
    kl_detspace_destroy(&s->space);
}

int64_t kl_cisector_memory(const kl_ci_opts *o)
{
    if (o->memory_bytes > 0) return o->memory_bytes;
    return (int64_t)(0.5 * kl_mem_machine_bytes());
}

/* The matrix, whole, or, where it may be mixed, the rows that there is room for; the others are left to
   rowsigma. */
static kl_status make_matrix(kl_cisector *s, kl_exec *ex, const kl_ci_opts *o, kl_ci_block *info,
                             kl_spmat **csr, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t nalpha = s->space->a->n;
    kl_slater_part part = {0};
    double *cost = NULL;
    if (o->half || o->store == KL_CI_MATRIX) return kl_slater_matrix(s->h, o->half, NULL, csr, err);
    KL_TRY(kl_rowsigma_create(ex, s->h, &s->rowsigma, err));
    KL_TRY(kl_alloc(&cost, nalpha, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&part.stored, nalpha, KL_MEM_WORK, err));
    kl_rowsigma_costs(s->rowsigma, cost);
    part.cost = cost;
    KL_TRY(kl_slater_matrix(s->h, 0, &part, csr, err));
    KL_TRY(kl_rowsigma_divide(s->rowsigma, part.stored, err));
    info->rows_made = kl_rowsigma_rows(s->rowsigma);
    info->flops = kl_rowsigma_flops(s->rowsigma);
    info->made_there = kl_rowsigma_there(s->rowsigma);
    if (info->rows_made == 0) kl_rowsigma_destroy(&s->rowsigma);
out:
    kl_free(&cost);
    kl_free(&part.stored);
    return st;
}

static kl_status store_matrix(kl_cisector *s, kl_exec *ex, const kl_ci_opts *o, const kl_ci_monitor *monitor,
                              kl_ci_block *info, kl_err *err)
{
    kl_status st = KL_OK;
    kl_spmat *csr = NULL;
    kl_spopts format = o->format;
    double start = kl_prof_seconds();
    format.nthread = o->nthread;
    s->h->most_nnz = kl_cisector_memory(o) / 12 + 1; /* 0 is any number */
    KL_TRY(make_matrix(s, ex, o, info, &csr, err));
    info->seconds_matrix = kl_prof_seconds() - start;
    kl_spmat_look(csr, o->format.boundary, &info->facts);
    if (monitor != NULL && monitor->matrix != NULL)
        KL_TRY(monitor->matrix(monitor->self, s->irrep, csr, err));
    KL_TRY(divide_matrix(s, ex, &csr, err));
    start = kl_prof_seconds();
    if (o->format.format == KL_SP_CSR && o->format.index_bytes == 0) {
        s->matrix = csr;
        csr = NULL;
    } else KL_TRY(kl_spmat_convert(csr, &format, &s->matrix, err));
    info->seconds_matrix += kl_prof_seconds() - start;
    info->nnz = (int64_t)kl_ranks_total(ex, (double)s->matrix->nnz);
    info->matrix_bytes = kl_spmat_measured_bytes(s->matrix);
    info->formula_bytes = kl_spmat_formula_bytes(s->matrix);
    if (monitor != NULL && monitor->stored != NULL)
        KL_TRY(monitor->stored(monitor->self, s->irrep, s->matrix, err));
out:
    kl_spmat_destroy(&csr);
    return st;
}

/* Eigenvectors of the small block, and a part of them over the whole space that is random, larger where the
   diagonal d is low: states that labels do not tell apart (spin, degenerate irreps) are blind to each other,
   and one that is in no start vector would never be found. */
static kl_status start_vectors(kl_cisector *s, kl_exec *ex, const double *d, uint64_t seed,
                               const kl_ci_monitor *monitor, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = s->space->n;
    const kl_pspace *const b = &s->block;
    const int keeping = monitor != NULL && monitor->load != NULL;
    double *x = NULL;
    int nkept = 0;
    KL_TRY(ex->vt.alloc(ex, n * s->nvec, &s->x, err));
    KL_TRY(kl_alloc(&x, keeping ? n * s->nvec : n, KL_MEM_VECTOR, err));
    if (keeping) KL_TRY(monitor->load(monitor->self, s->irrep, s->nvec, n, &nkept, x, err));
    if (nkept > 0) KL_TRY(ex->vt.upload(ex, s->x, x, n * nkept, err));
    double lowest = INFINITY;
    for (int64_t i = 0; i < n; i++) lowest = fmin(lowest, d[i]);
    uint64_t random = seed + ((uint64_t)s->irrep << 32);
    for (int j = nkept; j < s->nvec; j++) {
        double square = 0;
        memset(x, 0, (size_t)n * sizeof(double));
        /* the block may be all: then its eigenvectors are the answer */
        for (int64_t i = 0; i < n && b->size < n; i++) {
            x[i] = kl_random_uniform(&random) / (d[i] - lowest + random_width);
            square += x[i] * x[i];
        }
        for (int64_t i = 0; i < n && square > 0; i++) x[i] *= random_part / sqrt(square);
        for (int k = 0; k < b->nrun && j < b->size; k++)
            for (int i = 0; i < b->run[k].n; i++)
                x[b->run[k].at + i] += b->vector[b->run[k].first + i + (int64_t)j * b->size];
        KL_TRY(ex->vt.upload(ex, kl_dptr_at(s->x, j * n), x, n, err));
    }
out:
    kl_free(&x);
    return st;
}

/* Determinants of the small block: more for more roots, and more than there are roots. */
static int default_pspace(int nroot)
{
    const int wanted = DEFAULT_PSPACE + 10 * nroot;
    return wanted < MOST_PSPACE ? wanted : nroot + MAX_GUARD < MOST_PSPACE ? MOST_PSPACE : nroot + MAX_GUARD;
}

kl_status kl_cisector_open(kl_cisector *s, const kl_ciorbitals *l, kl_exec *ex, const kl_ci_opts *o,
                           const kl_ci_monitor *monitor, kl_ci_block *info, double **d, kl_err *err)
{
    kl_status st = KL_OK;
    const double start = kl_prof_seconds();
    const kl_det_spec spec = kl_ciorbitals_spec(l, o, s->irrep);
    KL_TRY(kl_detspace_create(&spec, o->nthread, &s->space, err));
    const int64_t n = s->space->n;
    info->ndet = n;
    info->nalpha_string = s->space->a->n;
    info->nbeta_string = s->space->b->n;
    if (n == 0) goto out;
    KL_TRY(kl_slater_create(l->g, s->space, o->nthread, &s->h, err));
    info->seconds_list = kl_prof_seconds() - start;
    if (kl_ci_is_direct(o) && !s->space->full) {
        KL_TRY(kl_rowsigma_create(ex, s->h, &s->rowsigma, err));
        KL_TRY(kl_rowsigma_divide(s->rowsigma, NULL, err));
        info->flops = kl_rowsigma_flops(s->rowsigma);
        info->made_there = kl_rowsigma_there(s->rowsigma);
        info->rows_made = n;
    } else if (kl_ci_is_direct(o)) {
        KL_TRY(kl_sigma_create(ex, s->h, &s->sigma, err));
        info->flops = kl_sigma_flops(s->sigma);
        KL_TRY(divide_strings(s, ex, err));
    } else {
        KL_TRY(store_matrix(s, ex, o, monitor, info, err));
        KL_TRY(kl_spmv_create(ex, s->matrix, (int64_t)KL_CISECTOR_PRODUCTS * o->nroot, &s->spmv, err));
        info->seconds_bring = s->spmv->seconds;
        info->way = s->spmv->way;
        info->way_pays = s->spmv->pays;
    }
    s->op = (kl_linop){.n = n, .ex = ex, .self = s, .apply = sector_apply};
    KL_TRY(kl_alloc(d, n, KL_MEM_VECTOR, err));
    kl_slater_diagonal(s->h, *d);
out:
    return st;
}

kl_status kl_cisector_make(kl_cisector *s, const kl_ciorbitals *l, kl_exec *ex, const kl_ci_opts *o,
                           const kl_ci_monitor *monitor, kl_ci_block *info, kl_err *err)
{
    kl_status st = KL_OK;
    const double start = kl_prof_seconds();
    double *d = NULL;
    KL_TRY(kl_cisector_open(s, l, ex, o, monitor, info, &d, err));
    const int64_t n = s->space->n;
    if (n == 0) goto out;
    KL_TRY(ex->vt.alloc(ex, n, &s->op.diagonal, err));
    KL_TRY(ex->vt.upload(ex, s->op.diagonal, d, n, err));
    KL_TRY(kl_pspace_make(&s->block, l->g, s->space, ex, s->op.diagonal, d,
                          o->pspace > 0 ? o->pspace : default_pspace(o->nroot), err));
    s->nroot = o->nroot < n ? o->nroot : (int)n;
    s->nvec = s->nroot;
    while (s->nvec < s->nroot + MAX_GUARD && s->nvec < n &&
           (s->nvec < s->nroot + MIN_GUARD ||
            (s->nvec < s->block.size &&
             s->block.energy[s->nvec] < s->block.energy[s->nroot - 1] + guard_window)))
        s->nvec++;
    KL_TRY(kl_alloc(&s->energy, 2 * (int64_t)s->nvec, KL_MEM_MISC, err));
    s->residual = s->energy + s->nvec;
    KL_TRY(start_vectors(s, ex, d, o->seed, monitor, err));
    info->seconds_build = kl_prof_seconds() - start;
    if (monitor != NULL && monitor->block != NULL) monitor->block(monitor->self, s->irrep, info, 0);
out:
    kl_free(&d);
    return st;
}

typedef struct watching {
    const kl_cisector *s;
    const kl_ci_monitor *monitor;
} watching;

static int on_step(void *self, int napply, double energy, double residual)
{
    const watching *const w = self;
    return w->monitor->step(w->monitor->self, w->s->irrep, napply, energy, residual);
}

/* The lowest nroot vectors of the sector to tol; those above the ceiling, and those beyond what was asked
   for, only until they are known to stay there. */
kl_status kl_cisector_solve(kl_cisector *s, const kl_ci_opts *o, const kl_cisector_stage *g,
                            const kl_ci_monitor *monitor, const kl_keeper *keeper, kl_ci_block *info,
                            kl_err *err)
{
    kl_status st = KL_OK;
    const double start = kl_prof_seconds();
    const int nroot = g->nroot;
    watching w = {s, monitor};
    const int basis = o->max_basis > 0 && o->max_basis < nroot + 2 ? nroot + 2 : o->max_basis;
    const kl_eig_opts eig = {.solver = o->solver,
                             .nroot = nroot,
                             .max_basis = basis,
                             .max_apply = o->max_apply > 0 ? o->max_apply : 1000 + 200 * nroot,
                             .tol = g->tol,
                             .nguard = nroot > s->nroot ? nroot - s->nroot : 0,
                             .ceiling = g->ceiling,
                             .bounded = isfinite(g->ceiling),
                             .trust_start = s->block.size == s->space->n,
                             .seed = o->seed,
                             .precond = &s->block.precond,
                             .self = &w,
                             .step = monitor != NULL && monitor->step != NULL ? on_step : NULL,
                             .keeper = keeper};
    KL_TRY(kl_eig_solve(&s->op, &eig, s->x, s->space->n, s->energy, s->residual, &s->stats, err));
    if (!s->stats.stopped) s->done = g->last ? 2 : 1;
    info->napply += s->stats.napply;
    info->converged = s->stats.converged || s->stats.stagnated;
    info->residual = 0;
    for (int k = 0; k < nroot && k < s->nroot && (k == 0 || s->energy[k] <= g->ceiling); k++)
        info->residual = fmax(info->residual, s->residual[k]);
    info->seconds_solve += kl_prof_seconds() - start;
    if (g->last && !s->stats.stopped && monitor != NULL && monitor->block != NULL)
        monitor->block(monitor->self, s->irrep, info, 1);
out:
    return st;
}
