/* Exact diagonalization.
   1. basis and H on two halves; 2. a solver on kl_linop; 3. multiplets, told by guard vectors above the
      states asked for.
   SPDX-License-Identifier: Apache-2.0 */
#include "ed/ed.h"
#include "base/dense.h"
#include "ed/kronmat.h"
#include "ed/kronsum.h"
#include "solve/recurrence.h"
#include "solve/lobpcg.h"
#include "base/mem.h"
#include "solve/neumann.h"
#include "base/prof.h"
#include "base/random.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = KL_KRON_LANES };

const char *const kl_ed_solver_name[] = {"auto", "lanczos", "davidson", "lobpcg", "full"}; /* ORDER KL_ED */
/* ORDER KL_ED_PRECONDITION */
const char *const kl_ed_precondition_name[] = {"diagonal", "neumann", "none"};

/* ---------------------------------------------------------------- H */

/* y = H x for one vector, and x . y where xy is not NULL. */
static kl_status apply_one(const kl_ed *ed, kl_dptr x, kl_dptr y, double *xy, kl_err *err)
{
    kl_status st = KL_OK;
    if (!ed->spread && !ed->spmv) return ed->ex->vt.kron_apply(ed->ex, ed->kron, x, y, xy, err);
    if (!ed->spmv) return kl_kronspread_apply(ed->spread, x, y, xy, err);
    if (ed->begin) {
        KL_TRY(kl_ranks_gather(ed->ex, ed->begin, x, ed->whole, err));
        if (ed->op.n > 0) KL_TRY(kl_spmv_apply(ed->spmv, 1, ed->whole, ed->kron->n, y, ed->op.n, err));
    } else KL_TRY(kl_spmv_apply(ed->spmv, 1, x, ed->op.n, y, ed->op.n, err));
    if (xy) ed->ex->vt.dots(ed->ex, ed->op.n, 1, x, ed->op.n, y, xy);
out:
    return st;
}

static kl_status ed_apply(const kl_linop *op, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy,
                          kl_err *err)
{
    kl_status st = KL_OK;
    const kl_ed *const ed = op->self;
    if (ed->spmv && !ed->begin) return kl_spmv_apply(ed->spmv, nvec, x, ldx, y, ldy, err);
    /* of the last vector: a device is done when it is there, so that the caller's clock tells the truth */
    double xy;
    for (int i = 0; i < nvec; i++)
        KL_TRY(
            apply_one(ed, kl_dptr_at(x, i * ldx), kl_dptr_at(y, i * ldy), i + 1 == nvec ? &xy : NULL, err));
out:
    return st;
}

static kl_status ed_apply_dot(const kl_linop *op, kl_dptr x, kl_dptr y, double *xy, kl_err *err)
{
    return apply_one(op->self, x, y, xy, err);
}

static kl_status ed_add_dot(const kl_linop *op, kl_dptr x, kl_dptr y, double *xy, kl_err *err)
{
    const kl_ed *const ed = op->self;
    return kl_kronspread_add(ed->spread, x, y, xy, err);
}

static kl_status ed_random(const kl_linop *op, uint64_t seed, kl_dptr v, kl_err *err)
{
    return kl_ed_random(op->self, seed, v, err);
}

kl_status kl_ed_create(const kl_terms *terms, kl_qn target, kl_bipartition_form form, kl_exec *ex,
                       kl_ed **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_ed *ed = NULL;
    kl_terms own = {0};
    const int64_t start = kl_prof_clock();
    *out = NULL;
    if (!ex->vt.kron_apply || !ex->vt.fuse)
        return kl_fail(err, KL_EABSENT,
                       "the executor %s cannot do exact diagonalization yet; allowed: --exec host", ex->name);
    KL_TRY(kl_alloc(&ed, 1, KL_MEM_MISC, err));
    ed->ex = ex;
    KL_TRY(kl_bipartition_create(terms, target, form, &ed->space, err));
    KL_TRY(kl_terms_in_own_unit(terms, &own, &ed->unit, err));
    KL_TRY(kl_kron_compile(ed->space, &own, 0, own.nterm, &ed->kron, err));
    if (ex->ranks) {
        KL_TRY(kl_kronspread_borders(ed->kron, ex, &ed->begin, err));
        KL_TRY(kl_kronspread_create(ed->kron, ex, ed->begin, &ed->spread, err));
    } else KL_TRY(ex->vt.kron_prepare(ex, ed->kron, err));
    const int me = kl_ranks_mine(ex);
    ed->op = (kl_linop){.n = ed->begin ? ed->begin[me + 1] - ed->begin[me] : ed->space->n,
                        .begin = ed->begin,
                        .ex = ex,
                        .self = ed,
                        .apply = ed_apply,
                        .apply_dot = ed_apply_dot,
                        .dim = ed->space->dim,
                        .random = ed_random};
    if (ed->spread && kl_kronspread_can_add(ed->spread)) ed->op.add_dot = ed_add_dot;
    ed->seconds_build = 1e-9 * (double)(kl_prof_clock() - start);
    *out = ed;
    ed = NULL;
out:
    kl_terms_clear_own(&own);
    kl_ed_destroy(&ed);
    return st;
}

kl_status kl_ed_store(kl_ed *ed, const kl_spopts *format, int half, double most, kl_err *err)
{
    enum { ABOUT = 100 }; /* products of a Lanczos run */
    kl_status st = KL_OK;
    kl_spmat *csr = NULL, *part = NULL;
    const int64_t start = kl_prof_clock();
    const int64_t first = ed->begin ? ed->begin[kl_ranks_mine(ed->ex)] : 0;
    kl_spmv_destroy(&ed->spmv);
    kl_spmat_destroy(&ed->matrix);
    if (half && ed->begin)
        KL_TRY(kl_fail(err, KL_EINPUT, "one half of a matrix is not for ranks, which have rows of it"));
    KL_TRY(kl_kron_matrix(ed->kron, first, first + ed->op.n, ed->ex->nthread, most, &csr, err));
    if (half) {
        KL_TRY(kl_spmat_half(csr, &part, err));
        kl_spmat_destroy(&csr);
        csr = part;
        part = NULL;
    }
    kl_spopts opts = *format;
    opts.nthread = ed->ex->nthread;
    if (format->format != KL_SP_CSR) KL_TRY(kl_spmat_convert(csr, &opts, &ed->matrix, err));
    else {
        ed->matrix = csr;
        csr = NULL;
    }
    KL_TRY(kl_spmv_create(ed->ex, ed->matrix, ABOUT, &ed->spmv, err));
    ed->op.add_dot = NULL;
    if (ed->begin) KL_TRY(ed->ex->vt.alloc(ed->ex, ed->kron->n, &ed->whole, err));
    ed->seconds_build += 1e-9 * (double)(kl_prof_clock() - start);
out:
    kl_spmat_destroy(&csr);
    return st;
}

void kl_ed_destroy(kl_ed **p)
{
    kl_ed *ed = *p;
    if (!ed) return;
    kl_spmv_destroy(&ed->spmv);
    kl_spmat_destroy(&ed->matrix);
    if (ed->op.diagonal.addr) ed->ex->vt.release(ed->ex, &ed->op.diagonal);
    if (ed->whole.addr) ed->ex->vt.release(ed->ex, &ed->whole);
    kl_kronspread_destroy(&ed->spread);
    if (ed->kron && !ed->begin) ed->ex->vt.kron_release(ed->ex, ed->kron);
    kl_kron_destroy(&ed->kron);
    kl_free(&ed->begin);
    kl_bipartition_destroy(&ed->space);
    kl_free(p);
}

static kl_status make_diagonal(kl_ed *ed, kl_err *err)
{
    kl_status st = KL_OK;
    double *d = NULL;
    if (ed->op.diagonal.addr) return KL_OK;
    KL_TRY(ed->ex->vt.alloc(ed->ex, ed->op.n, &ed->op.diagonal, err));
    if (ed->ex->vt.kron_diagonal && !ed->begin)
        return ed->ex->vt.kron_diagonal(ed->ex, ed->kron, ed->op.diagonal, err);
    const int64_t first = ed->begin ? ed->begin[kl_ranks_mine(ed->ex)] : 0;
    KL_TRY(kl_alloc(&d, ed->op.n, KL_MEM_WORK, err));
    kl_kron_diagonal(ed->kron, first, first + ed->op.n, d);
    KL_TRY(ed->ex->vt.upload(ed->ex, ed->op.diagonal, d, ed->op.n, err));
out:
    kl_free(&d);
    return st;
}

/* Tile by tile, so that no second vector is needed on the host; of the tiles that are this rank's. */
kl_status kl_ed_random(const kl_ed *ed, uint64_t seed, kl_dptr v, kl_err *err)
{
    kl_status st = KL_OK;
    double *part = NULL;
    int64_t most = 0;
    const int64_t begin = ed->begin ? ed->begin[kl_ranks_mine(ed->ex)] : 0, end = begin + ed->op.n;
    const kl_kron *const own = ed->spread ? kl_kronspread_own(ed->spread) : ed->kron;
    if (ed->ex->vt.kron_random && own) return ed->ex->vt.kron_random(ed->ex, own, seed, begin, v, err);
    for (int64_t i = 0; i < ed->kron->nblock; i++)
        if (ed->kron->block[i].nl > most) most = ed->kron->block[i].nl;
    KL_TRY(kl_alloc(&part, most * LANES, KL_MEM_WORK, err));
    for (int64_t i = 0; i < ed->kron->nblock; i++) {
        const kl_kron_block *const b = &ed->kron->block[i];
        for (int64_t t = 0; t < b->ntile; t++) {
            const int64_t at = b->off + t * b->nl * LANES,
                          used = b->nr - t * LANES < LANES ? b->nr - t * LANES : LANES;
            if (at < begin || at >= end) continue;
            for (int64_t l = 0; l < b->nl; l++)
                for (int64_t k = 0; k < LANES; k++)
                    part[l * LANES + k] = k < used ? kl_random_at(seed, at + l * LANES + k) : 0.0;
            KL_TRY(ed->ex->vt.upload(ed->ex, kl_dptr_at(v, at - begin), part, b->nl * LANES, err));
        }
    }
out:
    kl_free(&part);
    return st;
}

/* ---------------------------------------------------------------- solvers */

typedef struct starter {
    const kl_ed *ed;
    const kl_ed_opts *opts;
} starter;

static kl_status lean_start(void *self, kl_dptr v, kl_err *err)
{
    const starter *const s = self;
    return kl_ed_random(s->ed, s->opts->seed, v, err);
}

static int lean_step(void *self, int napply, double energy, double residual)
{
    const starter *const s = self;
    return s->opts->step ? s->opts->step(s->opts->self, napply, energy, residual) : 0;
}

static kl_status solve_by_recurrence(kl_ed *ed, const kl_ed_opts *opts, kl_dptr x, kl_ed_result *r,
                                     kl_err *err)
{
    kl_status st = KL_OK;
    starter s = {ed, opts};
    kl_recurrence_stats stats;
    kl_recurrence_opts o = {.max_apply = opts->max_apply,
                            .want_vector = x.addr != 0,
                            .self = &s,
                            .start = lean_start,
                            .step = lean_step,
                            .keeper = opts->keeper};
    const char *const wish = getenv("KRONLAT_VECTORS");
    o.two = wish != NULL && strcmp(wish, "two") == 0;
    o.tol_rel = opts->accuracy;
    KL_TRY(kl_recurrence_solve(&ed->op, &o, x, &r->energy[0], &stats, err));
    r->attainable = KL_EIG_ROUNDING * stats.norm_h;
    /* recurrences may tell less than any product with H could show */
    r->residual[0] = r->error[0] = fmax(stats.residual, r->attainable);
    r->napply = stats.napply;
    r->nrestart = stats.nrestart;
    r->nvector = stats.nvector;
    r->seconds_apply = stats.seconds_apply;
    r->stop = stats.stopped     ? KL_ED_INTERRUPTED
              : stats.converged ? KL_ED_CONVERGED
              : stats.stagnated ? KL_ED_STAGNATED
                                : KL_ED_MAX_APPLY;
out:
    return st;
}

/* States that share an energy to what is known of it; n looked at, of which the first `asked` are told.
   Converged to rounding they still differ by some of it: each Ritz value is a sum over the basis of a
   solver. */
static void find_multiplets(kl_ed_result *r, int n, const double *energy, const double *error, int whole)
{
    for (int i = 0; i < n;) {
        int j = i + 1;
        while (j < n && energy[j] - energy[i] <= 2 * (error[i] + error[j]) + 16 * r->attainable) j++;
        for (int k = i; k < j && k < r->nstate; k++) r->multiplet[k] = j - i;
        if (i < r->nstate) r->open_multiplet = j == n && !whole;
        i = j;
    }
}

/* Where ranks share vectors each does all of it: it is small. */
static kl_status solve_full(kl_ed *ed, kl_dptr *vectors, int64_t ldv, kl_ed_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = ed->kron->n, dim = ed->space->dim;
    int64_t *place = NULL;
    double *a = NULL, *host = NULL;
    kl_dptr x = {0}, y = {0};
    KL_TRY(kl_ed_check_full((double)dim, err));
    KL_TRY(kl_alloc(&place, dim, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&a, dim * dim, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&host, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&r->full, dim, KL_MEM_MISC, err));
    KL_TRY(ed->ex->vt.alloc(ed->ex, n, &x, err));
    KL_TRY(ed->ex->vt.alloc(ed->ex, n, &y, err));
    int64_t k = 0;
    for (int64_t i = 0; i < ed->kron->nblock; i++) {
        const kl_kron_block *const b = &ed->kron->block[i];
        for (int64_t t = 0; t < b->ntile; t++)
            for (int64_t l = 0; l < b->nl; l++)
                for (int64_t q = 0; q < LANES && t * LANES + q < b->nr; q++)
                    place[k++] = b->off + (t * b->nl + l) * LANES + q;
    }
    if (ed->begin) KL_TRY(ed->ex->vt.kron_prepare(ed->ex, ed->kron, err));
    for (int64_t c = 0; c < dim; c++) {
        host[place[c]] = 1.0;
        KL_TRY(ed->ex->vt.upload(ed->ex, x, host, n, err));
        host[place[c]] = 0.0;
        if (ed->begin) KL_TRY(ed->ex->vt.kron_apply(ed->ex, ed->kron, x, y, NULL, err));
        else KL_TRY(ed_apply(&ed->op, 1, x, n, y, n, err));
        KL_TRY(ed->ex->vt.download(ed->ex, host, y, n, err));
        for (int64_t row = 0; row < dim; row++) a[row + c * dim] = host[place[row]];
        memset(host, 0, (size_t)n * sizeof(double));
    }
    r->napply = (int)dim;
    KL_TRY(kl_dense_eig((int)dim, a, (int)dim, r->full, err));
    r->nfull = (int)dim;
    r->nvector = 2;
    r->attainable = 16 * DBL_EPSILON * fmax(fabs(r->full[0]), fabs(r->full[dim - 1]));
    for (int i = 0; i < r->nstate; i++) {
        r->energy[i] = r->full[i];
        r->error[i] = r->attainable;
        if (vectors) {
            for (int64_t row = 0; row < dim; row++) host[place[row]] = a[row + i * dim];
            KL_TRY(kl_ranks_upload(ed->ex, ed->begin, n, kl_dptr_at(*vectors, i * ldv), host, err));
        }
    }
    /* Errors of LAPACK's are relative to |H|; the multiplets of all states are known. */
    for (int i = 0; i < r->nstate; i++) {
        int count = 0;
        for (int64_t j = 0; j < dim; j++) count += fabs(r->full[j] - r->full[i]) <= 4 * r->attainable;
        r->multiplet[i] = count;
        r->residual[i] = r->attainable;
    }
out:
    if (ed->begin) ed->ex->vt.kron_release(ed->ex, ed->kron);
    ed->ex->vt.release(ed->ex, &x);
    ed->ex->vt.release(ed->ex, &y);
    kl_free(&place);
    kl_free(&a);
    kl_free(&host);
    return st;
}

/* Of n Ritz pairs: residual^2 / gap, where the others show a gap, or the residual. */
static double error_of(int i, int n, const double *energy, double residual)
{
    double gap = INFINITY;
    for (int j = 0; j < n; j++)
        if (fabs(energy[j] - energy[i]) > 4 * residual) gap = fmin(gap, fabs(energy[j] - energy[i]));
    return isfinite(gap) && gap > residual ? fmin(residual, residual * residual / gap) : residual;
}

#define STUCK 1000 /* times what is attainable: a solver that comes to a stand there has found no end */
#define VECTOR_ACCURACY 1e-10 /* |H x - E x| of states that are measured, in units of |H| */

/* A block of vectors that becomes the lowest states. */
typedef struct block {
    kl_dptr x;
    int n; /* vectors: the states asked for and guards */
    int64_t ld;
    double scale; /* |H| as one product shows it */
    double largest; /* size of an energy, which says more of |H| in large spaces than a random vector */
    double worst; /* error of an energy */
    double *energy, *residual, *error; /* [n] */
    kl_eig_stats stats;
    int before; /* products of the solver's earlier runs */
    int again; /* 1: it runs once more, to a smaller tolerance */
} block;

/* Stands between the solver and who keeps it: adds what is known of its runs. ORDER of the numbers:
   list_runs, then the solver's. */
typedef struct keeping {
    const kl_keeper *to;
    block *b;
    kl_eig_opts *o;
    kl_ed_result *r;
    int *products; /* by the preconditioner */
    int sorted; /* states of the right flavour are sorted by particles: bipartition.h */
} keeping;
/* The first of the numbers that are kept, and with an order of states that earlier programs did not know. */
static const int RUNS_MARK = 7000, SORTED_MARK = 7001;
enum { RUNS = 9 };

static void list_runs(const keeping *k, kl_keep_list *l)
{
    int mark = k->sorted ? SORTED_MARK : RUNS_MARK, solver = (int)k->r->solver;
    kl_keep_int(l, &mark);
    kl_keep_int(l, &solver);
    kl_keep_int(l, &k->b->before);
    kl_keep_int(l, &k->b->again);
    kl_keep_int(l, &k->o->max_apply);
    kl_keep_int(l, &k->r->nrestart);
    kl_keep_int(l, k->products);
    kl_keep_reals(l, 1, &k->o->tol);
    kl_keep_reals(l, 1, &k->b->largest);
    k->r->solver = (kl_ed_solver)solver;
}

static int keep_due(void *self)
{
    return ((const keeping *)self)->to->due(((const keeping *)self)->to->self);
}

static kl_status keep_write(void *self, const kl_keep *solver, kl_err *err)
{
    const keeping *const k = self;
    kl_status st = KL_OK;
    kl_keep out = *solver;
    double *number = NULL;
    out.nnumber += RUNS;
    KL_TRY(kl_alloc(&number, out.nnumber, KL_MEM_WORK, err));
    list_runs(k, &(kl_keep_list){.at = number});
    memcpy(number + RUNS, solver->number, (size_t)solver->nnumber * sizeof *number);
    out.number = number;
    st = k->to->write(k->to->self, &out, err);
out:
    kl_free(&number);
    return st;
}

/* The runs that a checkpoint knows of; *solver: what the current one kept. One of version 0.1.0 keeps start
   vectors alone, and the products made until then. */
static kl_status take_up_runs(const keeping *k, kl_keep *solver, int *old, kl_err *err)
{
    const kl_keep *const from = k->to->from;
    *old = from->nnumber == 1 && from->nvector == k->b->n;
    if (*old) {
        k->b->before = (int)from->number[0];
        return KL_OK;
    }
    const int mark = k->sorted ? SORTED_MARK : RUNS_MARK;
    const int is_solver = from->nnumber > RUNS && from->number[0] == mark &&
                          from->number[1] >= (double)KL_ED_LANCZOS && from->number[1] <= (double)KL_ED_LOBPCG;
    if (!is_solver || (k->r->solver != (kl_ed_solver)from->number[1] && k->r->solver != KL_ED_LOBPCG))
        return kl_eig_refuse(from, kl_ed_solver_name[k->r->solver], k->b->n, err);
    list_runs(k, &(kl_keep_list){.at = (double *)(uintptr_t)from->number, .reading = 1});
    *solver = kl_keep_behind(from, RUNS, 0);
    return KL_OK;
}

/* Random vectors, or those that are kept, and the scale of H. */
static kl_status start_block(kl_ed *ed, const kl_ed_opts *opts, block *b, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = b->n;
    double e, square, one;
    KL_TRY(ed->ex->vt.alloc(ed->ex, n * b->ld, &b->x, err));
    for (int i = 0; i < n; i++)
        KL_TRY(kl_ed_random(ed, opts->seed + (uint64_t)i, kl_dptr_at(b->x, i * b->ld), err));
    const kl_dptr last = kl_dptr_at(b->x, (n - 1) * b->ld);
    KL_TRY(ed_apply_dot(&ed->op, b->x, last, &e, err));
    ed->ex->vt.dots(ed->ex, ed->op.n, 1, last, b->ld, last, &square);
    ed->ex->vt.dots(ed->ex, ed->op.n, 1, b->x, b->ld, b->x, &one);
    b->scale = sqrt(square / one);
    KL_TRY(kl_ed_random(ed, opts->seed + (uint64_t)n - 1, last, err));
    if (n == 1) KL_TRY(kl_ed_random(ed, opts->seed, b->x, err));
    if (!(b->scale > 0.0)) b->scale = 1.0;
    b->largest = b->scale;
out:
    return st;
}

/* The vectors that a checkpoint of version 0.1.0 holds. */
static kl_status take_starts(kl_ed *ed, const kl_keep *from, const block *b, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dptr *to = NULL;
    KL_TRY(kl_alloc(&to, b->n, KL_MEM_WORK, err));
    for (int i = 0; i < b->n; i++) to[i] = kl_dptr_at(b->x, i * b->ld);
    KL_TRY(kl_keep_take(from, &ed->op, b->n, to, err));
out:
    kl_free(&to);
    return st;
}

/* One run of the solver. */
static kl_status solve_once(kl_linop *h, kl_eig_opts *o, block *b, kl_ed_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    if (r->solver == KL_ED_LOBPCG) {
        KL_TRY(kl_lobpcg_solve(h, o, r->nstate, b->x, b->ld, b->energy, b->residual, &b->stats, err));
        r->nvector = kl_lobpcg_columns(b->n) + b->n;
    } else {
        o->solver = r->solver == KL_ED_LANCZOS ? KL_SOLVER_LANCZOS : KL_SOLVER_DAVIDSON;
        KL_TRY(kl_eig_solve(h, o, b->x, b->ld, b->energy, b->residual, &b->stats, err));
        r->nvector = (int)(kl_eig_work_doubles(o, kl_linop_all(h)) / kl_eig_stride(kl_linop_all(h))) + b->n;
    }
    r->nrestart += b->stats.nrestart;
    r->seconds_apply += b->stats.seconds_apply;
    b->before += b->stats.napply;
out:
    return st;
}

/* The solver's runs: again to a smaller tolerance where the first was not enough, or by Davidson's method
   where LOBPCG is stuck. */
static kl_status solve_to_accuracy(const kl_ed_opts *opts, kl_linop *h, kl_eig_opts *o, kl_keeper *keeper,
                                   block *b, kl_ed_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    kl_eig_stats *const stats = &b->stats;
    for (;; b->again = 1) {
        KL_TRY(solve_once(h, o, b, r, err));
        keeper->from = NULL;
        /* as far as this solver comes; the first tolerance was reached */
        if (b->again && !stats->converged && !stats->stopped) stats->stagnated = 1;
        b->worst = 0.0;
        for (int i = 0; i < r->nstate; i++) {
            b->worst = fmax(b->worst, error_of(i, b->n, b->energy, b->residual[i]));
            b->largest = fmax(b->largest, fabs(b->energy[i]));
        }
        const double wanted =
            fmax(opts->accuracy * fmax(fabs(b->energy[0]), 1e-3 * b->scale), 64 * DBL_EPSILON * b->scale);
        const int stuck = !stats->converged && !stats->stopped && stats->stagnated &&
                          b->worst > STUCK * KL_EIG_ROUNDING * b->largest;
        /* Davidson's method, which goes on from these vectors, has come further */
        if (stuck && r->solver == KL_ED_LOBPCG && opts->solver == KL_ED_AUTO) {
            r->solver = KL_ED_DAVIDSON;
            b->again = -1;
        } else if (!stats->converged || stats->stopped || b->again || b->worst <= wanted || o->tol <= wanted)
            break;
        /* levels are closer, or the energy is smaller in relation to |H|, than was to be expected */
        else o->tol = wanted;
        if (o->max_apply > 0) o->max_apply = o->max_apply > stats->napply ? o->max_apply - stats->napply : 1;
    }
out:
    return st;
}

static kl_ed_stop stop_of(const block *b, double attainable)
{
    if (b->stats.stopped) return KL_ED_INTERRUPTED;
    if (b->stats.converged) return KL_ED_CONVERGED;
    if (!b->stats.stagnated) return KL_ED_MAX_APPLY;
    return b->worst > STUCK * attainable ? KL_ED_STUCK : KL_ED_STAGNATED;
}

/* Davidson, thick-restart Lanczos and LOBPCG with guard vectors above the states asked for. */
static kl_status solve_block(kl_ed *ed, const kl_ed_opts *opts, kl_dptr *vectors, int64_t *ldv,
                             kl_ed_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    block b = {.n = r->nstate + KL_ED_GUARDS, .ld = kl_eig_stride(ed->op.n)};
    if (r->nstate <= KL_LOBPCG_MOST && b.n > KL_LOBPCG_MOST) b.n = KL_LOBPCG_MOST;
    if (b.n > ed->space->dim) b.n = (int)ed->space->dim;
    kl_neumann neumann = {0};
    const int bare = r->solver == KL_ED_LANCZOS || opts->precondition == KL_ED_BARE;
    KL_TRY(kl_alloc(&b.energy, 3 * b.n, KL_MEM_WORK, err));
    b.residual = b.energy + b.n;
    b.error = b.residual + b.n;
    if (!bare) KL_TRY(make_diagonal(ed, err));
    KL_TRY(start_block(ed, opts, &b, err));
    kl_linop h = ed->op;
    if (bare) h.diagonal = (kl_dptr){0};
    if (!bare && opts->precondition == KL_ED_NEUMANN)
        KL_TRY(kl_neumann_open(&h, opts->neumann > 0 ? opts->neumann : 2, &neumann, err));
    /* Of the energy residual^2 / gap is wrong, and guard vectors show the gap; of what is measured on a
       state, residual / gap. */
    const double tol =
        fmax(opts->accuracy, vectors && !opts->as_found ? VECTOR_ACCURACY : 0.02 * sqrt(opts->accuracy));
    kl_eig_opts o = {.nroot = b.n,
                     .max_basis = opts->max_basis,
                     .max_apply = opts->max_apply,
                     .seed = opts->seed,
                     .stay_below = 1,
                     .self = opts->self,
                     .step = opts->step,
                     .precond = neumann.h ? &neumann.precond : NULL,
                     .tol = tol * b.scale};
    keeping k = {.to = opts->keeper,
                 .b = &b,
                 .o = &o,
                 .r = r,
                 .products = &neumann.products,
                 .sorted = ed->space->right.behind > 0};
    kl_keep solver = {0};
    kl_keeper keeper = {.self = &k, .due = keep_due, .write = keep_write};
    if (opts->keeper) o.keeper = &keeper;
    if (opts->keeper && opts->keeper->from) {
        int old;
        KL_TRY(take_up_runs(&k, &solver, &old, err));
        if (!old) keeper.from = &solver;
        else KL_TRY(take_starts(ed, opts->keeper->from, &b, err));
    }
    KL_TRY(solve_to_accuracy(opts, &h, &o, &keeper, &b, r, err));
    if (neumann.st != KL_OK) KL_TRY(neumann.st);
    r->nvector += !bare + (neumann.h != NULL);
    r->attainable = KL_EIG_ROUNDING * b.largest;
    r->napply = b.before + neumann.products;
    r->stop = stop_of(&b, r->attainable);
    for (int i = 0; i < b.n; i++) b.error[i] = error_of(i, b.n, b.energy, b.residual[i]);
    for (int i = 0; i < r->nstate; i++) {
        r->energy[i] = b.energy[i];
        r->residual[i] = b.residual[i];
        r->error[i] = fmax(b.error[i], r->attainable);
    }
    find_multiplets(r, b.n, b.energy, b.error, b.n == ed->space->dim);
    if (vectors) {
        *vectors = b.x;
        *ldv = b.ld;
        b.x.addr = 0;
    }
out:
    if (neumann.h) kl_neumann_close(&neumann);
    ed->ex->vt.release(ed->ex, &b.x);
    kl_free(&b.energy);
    return st;
}

/* Stands between a solver, which counts in the sector's own unit, and who watches it. */
typedef struct teller {
    const kl_ed_opts *to;
    double unit;
} teller;

static int tell_step(void *self, int napply, double energy, double residual)
{
    const teller *const t = self;
    return t->to->step(t->to->self, napply, energy * t->unit, residual * t->unit);
}

static void scale_result(kl_ed_result *r, double by)
{
    for (int i = 0; i < r->nstate; i++) {
        r->energy[i] *= by;
        r->residual[i] = kl_bound_in(r->residual[i], by);
        r->error[i] = kl_bound_in(r->error[i], by);
    }
    for (int i = 0; i < r->nfull; i++) r->full[i] *= by;
    r->attainable = kl_bound_in(r->attainable, by);
}

kl_status kl_ed_run(kl_ed *ed, const kl_ed_opts *given, kl_dptr *vectors, int64_t *ldv, kl_ed_result *r,
                    kl_err *err)
{
    kl_status st = KL_OK;
    kl_ed_opts opts = *given;
    teller told = {given, ed->unit};
    kl_dptr x = {0};
    const int64_t start = kl_prof_clock();
    if (given->step) {
        opts.self = &told;
        opts.step = tell_step;
    }
    *r = (kl_ed_result){.dim = ed->space->dim, .n = ed->kron->n, .solver = opts.solver};
    if (vectors) vectors->addr = 0;
    if (opts.nstate < 1) KL_TRY(kl_fail(err, KL_EINPUT, "%d states; 1 or more are allowed", opts.nstate));
    if (opts.accuracy <= 0.0) opts.accuracy = 1e-10;
    if (r->solver == KL_ED_AUTO) r->solver = kl_ed_solver_for((double)ed->space->dim, opts.nstate);
    KL_TRY(kl_ed_result_states(r, opts.nstate < ed->space->dim ? opts.nstate : (int)ed->space->dim, err));
    if (r->solver == KL_ED_LOBPCG && r->nstate > KL_LOBPCG_MOST)
        KL_TRY(kl_fail(err, KL_EINPUT, "LOBPCG: %d states; 1 to %d are allowed (Davidson takes more)",
                       r->nstate, KL_LOBPCG_MOST));
    const int by_recurrence = r->solver == KL_ED_LANCZOS && r->nstate == 1;
    if (opts.as_found && by_recurrence) vectors = NULL;
    if (vectors && (by_recurrence || r->solver == KL_ED_FULL)) {
        *ldv = kl_eig_stride(ed->op.n);
        KL_TRY(ed->ex->vt.alloc(ed->ex, r->nstate * *ldv, &x, err));
    }
    if (by_recurrence) KL_TRY(solve_by_recurrence(ed, &opts, x, r, err));
    else if (r->solver == KL_ED_FULL) KL_TRY(solve_full(ed, vectors ? &x : NULL, vectors ? *ldv : 0, r, err));
    else KL_TRY(solve_block(ed, &opts, vectors, ldv, r, err));
    scale_result(r, ed->unit);
    for (int i = 0; i < r->nstate; i++)
        if (!isfinite(r->energy[i]))
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "the energy of state %d is beyond the largest number; energies must be finite: "
                           "count them in a larger unit",
                           i));
    if (vectors && x.addr) {
        *vectors = x;
        x.addr = 0;
    }
    r->seconds = 1e-9 * (double)(kl_prof_clock() - start);
out:
    if (st != KL_OK) kl_ed_result_clear(r);
    ed->ex->vt.release(ed->ex, &x);
    return st;
}

void kl_ed_result_clear(kl_ed_result *r)
{
    kl_free(&r->full);
    kl_free(&r->energy);
    kl_free(&r->multiplet);
    r->residual = r->error = NULL;
    r->nfull = r->nstate = 0;
}

kl_status kl_ed_result_states(kl_ed_result *r, int nstate, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t room = nstate > 0 ? nstate : 1;
    KL_TRY(kl_alloc(&r->energy, 3 * room, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&r->multiplet, room, KL_MEM_MISC, err));
    r->residual = r->energy + room;
    r->error = r->residual + room;
    r->nstate = nstate;
out:
    return st;
}
