/* An orthonormal basis of a wavefunction's columns: see settle.h. Of each sector A, rows x cols:
     1. G = A^T A, or A A^T where that is smaller: its eigenvalues are the weights, if they are wanted
     2. where there are more rows than columns U = A, made orthonormal by gramcolumns.h
     3. where there are no more rows than columns, U = 1
   Ranks divide the sectors.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/settle.h"
#include "base/dense.h"
#include "base/mem.h"
#include "base/par.h"
#include "comm/share.h"
#include "dmrg/gramcolumns.h"
#include <math.h>

/* Of the error that truncation leaves: what sweeps may still change where bases no longer have to find new
   states both ways. By the processor chains of 24 to 60 sites end no higher so, cylinders of m = 200 a
   ten-thousandth of their error bar. */
#define MOVES 0.1

int kl_settle_wanted(const kl_schedule *s, const kl_stage *g, const kl_dmrg_result *rows)
{
    const int k = rows->nrow;
    if (s->opts->nsweep == 0 || k == 0) return 0;
    const kl_dmrg_row *const b = &rows->row[k - 1];
    if (g->sites != 1 || g->noise > 0 || g->held > 1 || b->again || (k > 1 && b[-1].again)) return 0;
    /* the way there tells the two-site variance only where the bases had as many states before */
    if (b->sites != 1 || b->noise > 0 || b->m != g->m) return 0;
    const kl_outlook now = kl_schedule_outlook(s, rows);
    /* what is as good as it is to be has an error bar of changes, which settling makes smaller */
    if (!(now.truncation > now.wanted) || now.change > MOVES * now.truncation) return 0;
    return k + 1 >= s->opts->nsweep || now.truncation < INFINITY;
}

int kl_settle_planned(const kl_dmrg_opts *o, int m)
{
    int found = 0;
    for (int k = 2; k < o->nsweep; k++) { /* the first one has two sites */
        const kl_dmrg_sweep *const b = &o->sweep[k];
        found |= b->m == m && b[-1].m == m && !(b->noise > 0) && !(b[-1].noise > 0);
    }
    return found && o->nstate == 1 && o->sites != KL_SITES_TWO;
}

/* A sector. */
typedef struct piece {
    int sec, rows, cols;
    int kept;    /* states: the fewer of the two */
    int mine;    /* 1: this rank's */
    int64_t psi; /* where the wavefunction has it */
    int64_t gram; /* G [kept x kept], of this rank's */
    int64_t to;  /* in the isometry */
} piece;

typedef struct settling {
    kl_exec *ranks, *ex; /* all of them; this one alone */
    const kl_density *d;
    int n;
    piece *piece; /* in the order of the sectors */
    int *owner;
    kl_isometry *iso;
    int64_t ngram;
    kl_dptr gram;     /* [ngram] */
    kl_dptr u, spare;   /* [iso->ndata] */
    /* tridiagonal matrices of G, one after the other */
    double *diagonal, *beside;
    int64_t nrow;
} settling;

static int is_tall(const piece *p) { return p->rows > p->cols; }

static kl_status lay_out(settling *s, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_density *const d = s->d;
    const kl_layout *const lay = d->wave.layout;
    const kl_basis *const mine = kl_density_mine(d), *const other = kl_density_other(d);
    const int left = d->side == KL_LEFT;
    kl_enlarged *own = NULL;
    int *sec = NULL, *dim = NULL;
    double *cost = NULL;
    KL_TRY(kl_alloc(&s->piece, mine->nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&s->owner, mine->nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&sec, mine->nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&dim, mine->nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&cost, mine->nsec, KL_MEM_WORK, err));
    for (int c = 0; c < mine->nsec; c++) {
        const int i = left ? c : lay->back[c], j = left ? lay->pair[c] : c;
        if (i < 0 || j < 0) continue;
        const int rows = mine->dim[c], cols = other->dim[left ? j : i], kept = rows < cols ? rows : cols;
        if (kept == 0) continue;
        cost[s->n] = (double)rows * cols * kept;
        sec[s->n] = c;
        dim[s->n] = kept;
        s->piece[s->n++] = (piece){.sec = c, .rows = rows, .cols = cols, .kept = kept, .psi = lay->off[i]};
    }
    KL_TRY(kl_share_owners(s->ranks, s->n, cost, s->owner, err));
    KL_TRY(kl_enlarged_copy(left ? d->wave.row : d->wave.col, &own, err));
    KL_TRY(kl_isometry_shape_take(&own, s->n, sec, dim, &s->iso, err));
    for (int i = 0; i < s->n; i++) {
        piece *const p = &s->piece[i];
        p->to = s->iso->off[i];
        p->mine = s->owner[i] == kl_ranks_mine(s->ranks);
        p->gram = s->ngram;
        if (p->mine) s->ngram += (int64_t)p->kept * p->kept;
    }
    KL_TRY(s->ex->vt.alloc(s->ex, s->iso->ndata, &s->u, err));
out:
    kl_enlarged_destroy(&own);
    kl_free(&sec);
    kl_free(&dim);
    kl_free(&cost);
    return st;
}

/* 1. */
static kl_status make_gram(settling *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int transposed = s->d->side == KL_RIGHT; /* the wavefunction has A^T */
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < s->n; i++) {
        const piece *const p = &s->piece[i];
        const int n = p->kept, turned = is_tall(p) != transposed;
        if (!p->mine) continue;
        kl_rec r = {.kind = KL_REC_GEMM,
                    .ta = (uint8_t)turned,
                    .tb = (uint8_t)!turned,
                    .at_a = KL_AT_X,
                    .at_b = KL_AT_X,
                    .at_c = KL_AT_Y,
                    .k = is_tall(p) ? p->rows : p->cols,
                    .a = p->psi,
                    .b = p->psi,
                    .c = p->gram,
                    .alpha = 1};
        r.m = r.n = r.ldc = n;
        r.lda = r.ldb = transposed ? p->cols : p->rows;
        KL_TRY(kl_batch_push_alone(&b, (int64_t)n * n, r, err));
    }
    b.nx = s->d->wave.layout->n;
    b.ny = s->ngram;
    KL_TRY(s->ex->vt.alloc(s->ex, s->ngram, &s->gram, err));
    if (b.ngroup > 0) KL_TRY(kl_batch_run(&b, s->ex, s->d->wave.psi, s->gram, err));
out:
    kl_batch_clear(&b);
    return st;
}

/* 1. A matrix that a thread makes tridiagonal. */
typedef struct reduction {
    int n;
    double *a, *d, *e;
    kl_status status;
    kl_err error;
} reduction;

static void reduce_task(void *self, int64_t nth, int thread)
{
    reduction *const r = (reduction *)self + nth;
    double *t = NULL;
    (void)thread;
    r->status = kl_realloc(&t, (int64_t)KL_DENSE_PANEL * r->n, KL_MEM_WORK, &r->error);
    if (r->status == KL_OK) r->status = kl_dense_eig_reduce(r->n, r->a, r->n, r->d, r->e, t, &r->error);
    kl_free(&t);
}

static kl_status reduce_here(settling *s, kl_err *err)
{
    kl_status st = KL_OK;
    double *host = NULL;
    reduction *task = NULL;
    int count = 0;
    int64_t row = 0;
    KL_TRY(kl_realloc(&host, s->ngram, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&task, s->n, KL_MEM_WORK, err));
    KL_TRY(s->ex->vt.download(s->ex, host, s->gram, s->ngram, err));
    for (int i = 0; i < s->n; i++) {
        const piece *const p = &s->piece[i];
        if (!p->mine) continue;
        task[count++] =
            (reduction){.n = p->kept, .a = host + p->gram, .d = s->diagonal + row, .e = s->beside + row};
        row += p->kept;
    }
    kl_par_for(s->ex->nthread, count, reduce_task, task);
    for (int i = 0; i < count; i++) {
        if (task[i].status == KL_OK) continue;
        st = kl_fail(err, task[i].status, "%s", task[i].error.text);
        goto out;
    }
out:
    kl_free(&task);
    kl_free(&host);
    return st;
}

/* 1. Tridiagonal matrices of G, which is spoilt. */
static kl_status reduce(settling *s, kl_err *err)
{
    kl_status st = KL_OK;
    int *n = NULL, count = 0;
    int64_t *off = NULL;
    KL_TRY(kl_alloc(&n, s->n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&off, s->n, KL_MEM_WORK, err));
    for (int i = 0; i < s->n; i++) {
        if (!s->piece[i].mine) continue;
        n[count] = s->piece[i].kept;
        off[count++] = s->piece[i].gram;
        s->nrow += s->piece[i].kept;
    }
    KL_TRY(kl_realloc(&s->diagonal, s->nrow, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&s->beside, s->nrow, KL_MEM_WORK, err));
    st = s->ex->vt.tridiagonal && count > 0
             ? s->ex->vt.tridiagonal(s->ex, count, n, off, s->gram, s->diagonal, s->beside, err)
             : KL_ENOMEM;
    if (st == KL_ENOMEM) st = reduce_here(s, err);
out:
    kl_free(&n);
    kl_free(&off);
    return st;
}

/* 1. The entropy of all ranks' weights, which are taken. */
static kl_status read_entropy_take(settling *s, kl_unread *u, double *entropy, kl_err *err)
{
    kl_status st = KL_OK;
    kl_entropies *one = NULL;
    KL_TRY(kl_entropies_create(1, NULL, &one, err));
    *kl_entropies_open(one, 0) = *u;
    *u = (kl_unread){0};
    KL_TRY(kl_entropies_read(one, s->ranks, s->ex->nthread, entropy, err));
out:
    kl_entropies_destroy(&one);
    return st;
}

/* 1. Weights: left unread where somebody reads them later, by each rank those of its own sectors. */
static kl_status take_weights(settling *s, const kl_trunc_opts *o, kl_trunc_info *info, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_basis *const mine = kl_density_mine(s->d);
    const int spin = s->d->grown ? kl_model_spin(s->d->grown->block->mpo->model) : -1;
    const int64_t n = s->d->wave.layout->n;
    kl_unread u = {0};
    int64_t at = 0;
    KL_TRY(reduce(s, err));
    KL_TRY(kl_alloc(&u.part, s->n, KL_MEM_WORK, err));
    for (int i = 0; i < s->n; i++) {
        const piece *const p = &s->piece[i];
        if (!p->mine) continue;
        u.part[u.npart++] =
            (kl_unread_part){.n = p->kept, .states = spin < 0 ? 1 : mine->q[p->sec].v[spin] + 1, .at = at};
        at += p->kept;
    }
    s->ex->vt.dots(s->ex, n, 1, s->d->wave.psi, n, s->d->wave.psi, &u.sum);
    u.d = s->diagonal, u.e = s->beside;
    s->diagonal = s->beside = NULL;
    u.open = 1;
    if (o->unread) {
        *o->unread = u;
        u = (kl_unread){0};
    } else KL_TRY(read_entropy_take(s, &u, &info->entropy, err));
out:
    kl_unread_clear(&u);
    return st;
}

/* 2. */
static kl_status copy_columns(settling *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int transposed = s->d->side == KL_RIGHT;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < s->n; i++) {
        const piece *const p = &s->piece[i];
        if (!p->mine || !is_tall(p)) continue;
        const kl_rec r = {.kind = KL_REC_ADD,
                          .ta = (uint8_t)transposed,
                          .at_a = KL_AT_X,
                          .at_c = KL_AT_Y,
                          .m = p->rows,
                          .n = p->cols,
                          .lda = transposed ? p->cols : p->rows,
                          .ldc = p->rows,
                          .a = p->psi,
                          .c = p->to,
                          .alpha = 1};
        KL_TRY(kl_batch_push_alone(&b, (int64_t)p->rows * p->cols, r, err));
    }
    b.nx = s->d->wave.layout->n;
    b.ny = s->iso->ndata;
    if (b.ngroup > 0) KL_TRY(kl_batch_run(&b, s->ex, s->d->wave.psi, s->u, err));
out:
    kl_batch_clear(&b);
    return st;
}

/* 2. */
static kl_status orthonormalize(settling *s, kl_err *err)
{
    kl_status st = KL_OK;
    kl_gramcolumns columns = {0};
    kl_column_block *block = NULL;
    int ntall = 0;
    KL_TRY(kl_alloc(&block, s->n, KL_MEM_WORK, err));
    for (int i = 0; i < s->n; i++) {
        const piece *const p = &s->piece[i];
        const int tall = p->mine && is_tall(p);
        block[i] = (kl_column_block){.rows = p->rows, .width = tall ? p->cols : 0, .at = tall ? p->to : -1};
        ntall += tall;
    }
    if (ntall == 0) goto out;
    KL_TRY(s->ex->vt.alloc(s->ex, s->iso->ndata, &s->spare, err));
    KL_TRY(kl_gramcolumns_open(s->ex, s->n, block, &columns, err));
    const kl_gramcolumns_at at = {block, &s->u, &s->spare, s->iso->ndata};
    const kl_gramcolumns_opts o = {.dependent = KL_DEPENDENT_REPLACED,
                                   .first = s->ex->vt.roots ? KL_FIRST_ROOTS : KL_FIRST_PASSES};
    KL_TRY(kl_gramcolumns_run(&columns, &at, &o, err));
out:
    kl_gramcolumns_close(&columns);
    kl_free(&block);
    return st;
}

/* 3. */
static kl_status fill_units(settling *s, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < s->n; i++) {
        const piece *const p = &s->piece[i];
        if (!p->mine || is_tall(p)) continue;
        kl_rec r = {.kind = KL_REC_FILL, .at_c = KL_AT_Y, .c = p->to};
        r.m = r.n = r.ldc = p->rows;
        KL_TRY(kl_batch_open_group(&b, p->to, (int64_t)p->rows * p->rows, err));
        KL_TRY(kl_batch_reserve(&b, 2, err));
        *kl_batch_push(&b) = r;
        r.m = r.beta = 1, r.ldc = p->rows + 1, r.alpha = 1;
        *kl_batch_push(&b) = r;
        kl_batch_close_group(&b, 0);
    }
    b.nx = s->d->wave.layout->n;
    b.ny = s->iso->ndata;
    if (b.ngroup > 0) KL_TRY(kl_batch_run(&b, s->ex, s->d->wave.psi, s->u, err));
out:
    kl_batch_clear(&b);
    return st;
}

/* All ranks get the states of all sectors. */
static kl_status share_states(const settling *s, kl_err *err)
{
    kl_status st = KL_OK;
    kl_share_piece *part = NULL;
    KL_TRY(kl_alloc(&part, s->n, KL_MEM_WORK, err));
    for (int i = 0; i < s->n; i++) {
        const piece *const p = &s->piece[i];
        part[i] = (kl_share_piece){s->owner[i], p->to, (int64_t)p->rows * p->kept};
    }
    KL_TRY(kl_share_exchange_there(s->ranks, s->n, part, s->u, err));
out:
    kl_free(&part);
    return st;
}

static void count(const settling *s, kl_trunc_info *info)
{
    const kl_basis *const b = &s->iso->basis;
    const int spin = s->d->grown ? kl_model_spin(s->d->grown->block->mpo->model) : -1;
    info->m = (int)b->total;
    info->nsec = b->nsec;
    info->nattempt = 1;
    for (int k = 0; k < b->nsec; k++) {
        info->states += b->dim[k] * (spin < 0 ? 1 : (int64_t)b->q[k].v[spin] + 1);
        if (b->dim[k] > info->matrix_max) info->matrix_max = b->dim[k];
    }
}

kl_status kl_settle(kl_exec *ex, const kl_density *d, const kl_trunc_opts *o, kl_isometry **out,
                    kl_dptr *data, kl_trunc_info *info, kl_err *err)
{
    kl_status st = KL_OK;
    settling s = {.ranks = ex, .ex = kl_share_alone(ex), .d = d};
    *info = (kl_trunc_info){.entropy = NAN};
    *out = NULL;
    data->addr = 0;
    KL_TRY(lay_out(&s, err));
    if (o->spectrum) {
        KL_TRY(make_gram(&s, err));
        KL_TRY(take_weights(&s, o, info, err));
    }
    s.ex->vt.release(s.ex, &s.gram);
    KL_TRY(copy_columns(&s, err));
    KL_TRY(orthonormalize(&s, err));
    s.ex->vt.release(s.ex, &s.spare);
    KL_TRY(fill_units(&s, err));
    KL_TRY(share_states(&s, err));
    count(&s, info);
    if (o->watch) o->watch->seen(o->watch->self, ex, d, o, s.iso, s.u, info);
    *out = s.iso;
    *data = s.u;
    s.iso = NULL;
    s.u.addr = 0;
out:
    s.ex->vt.release(s.ex, &s.gram);
    s.ex->vt.release(s.ex, &s.u);
    s.ex->vt.release(s.ex, &s.spare);
    kl_isometry_destroy(&s.iso);
    kl_free(&s.piece);
    kl_free(&s.owner);
    kl_free(&s.diagonal);
    kl_free(&s.beside);
    return st;
}
