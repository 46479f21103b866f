/* The moving parts of DMRG: see engine.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/engine.h"
#include "dmrg/engineroom.h"
#include "dmrg/fitstate.h"
#include "solve/davidson.h"
#include "base/mem.h"
#include "base/prof.h"
#include "base/random.h"
#include "record/reclist.h"
#include "dmrg/onesite.h"
#include "dmrg/opdense.h"
#include "dmrg/renorm.h"
#include "dmrg/wave.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Times the residual of the wanted states: by three the first sweeps take a fifth fewer products and find the
   same energies and gaps; by ten sweeps of a spin-1 chain took guards for what they were not. */
#define GUARD_LOOSE 3.0

enum {
    WHOLE_BASIS = 60 /* vectors of Lanczos where the superblock is the sector */
};

kl_status kl_engine_create(const kl_terms *terms, kl_exec *ex, const kl_engine_opts *o, kl_engine **out,
                           kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *e = NULL;
    const int n = terms->nsite;
    KL_TRY(kl_alloc(&e, 1, KL_MEM_MISC, err));
    *e = (kl_engine){.ex = ex,
                     .terms = terms,
                     .nsite = n,
                     .nstate = o->nstate,
                     .nwanted = o->nstate,
                     .target = o->target,
                     .strategy = o->strategy,
                     .solver = o->solver,
                     .max_basis = o->max_basis,
                     .seed = o->seed,
                     .full = o->full,
                     .host_bytes = o->host_bytes,
                     .lr_bytes = o->lr_bytes,
                     .scratch = o->scratch,
                     .centre = -1};
    if (n < 2) {
        st = kl_fail(err, KL_EINPUT, "DMRG works on two sites at a time: the lattice has %d", n);
        goto out;
    }
    if (o->nstate < 1 || o->nstate > KL_MAX_STATE) {
        st = kl_fail(err, KL_EINPUT, "%d states are asked for; 1 to %d are allowed", o->nstate, KL_MAX_STATE);
        goto out;
    }
    KL_TRY(kl_alloc(&e->left, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&e->right, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&e->left_data, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&e->right_data, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&e->left_block, n + 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&e->right_block, n + 1, KL_MEM_MISC, err));
    KL_TRY(kl_reaches_take(terms, o->target, o->reaches, &e->reaches, err));
    e->reach_left = e->reaches->left;
    e->reach_right = e->reaches->right;
    KL_TRY(kl_mpo_create(terms, &e->mpo, err));
    KL_TRY(kl_block_create_edge(ex, e->mpo, KL_LEFT, o->target, &e->left_block[0], err));
    KL_TRY(kl_block_create_edge(ex, e->mpo, KL_RIGHT, o->target, &e->right_block[n], err));
out:
    if (st != KL_OK) kl_engine_destroy(&e);
    *out = e;
    return st;
}

static void drop_warm(kl_engine *e)
{
    kl_onesite_forget(e);
    kl_isometry_destroy(&e->warm);
    e->ex->vt.release(e->ex, &e->warm_data);
}

/* The isometry that was opened is there for the next truncation. */
static void keep_warm(kl_engine *e, kl_side side, int pos)
{
    kl_isometry **const iso = side == KL_LEFT ? &e->left[pos] : &e->right[pos];
    kl_dptr *const data = side == KL_LEFT ? &e->left_data[pos] : &e->right_data[pos];
    drop_warm(e);
    e->warm_side = side;
    e->warm = *iso;
    e->warm_data = *data;
    *iso = NULL;
    data->addr = 0;
}

static void drop_dense(kl_engine *e)
{
    for (int i = 0; i < 2; i++) kl_bigop_destroy(&e->dense[i]);
}

static void drop_operators(kl_engine *e)
{
    drop_dense(e);
    kl_bigop_destroy(&e->row_op);
    kl_bigop_destroy(&e->col_op);
}

static void drop_centre(kl_engine *e)
{
    drop_operators(e);
    kl_onesite_destroy(e);
    kl_layout_clear(&e->layout);
    kl_enlarged_destroy(&e->row);
    kl_enlarged_destroy(&e->col);
    e->ex->vt.release(e->ex, &e->psi);
}

void kl_engine_destroy(kl_engine **pe)
{
    kl_engine *const e = *pe;
    if (!e) return;
    drop_centre(e);
    drop_warm(e);
    for (int p = 0; p <= e->nsite; p++) {
        if (e->left_block) kl_block_destroy(&e->left_block[p]);
        if (e->right_block) kl_block_destroy(&e->right_block[p]);
        if (p == e->nsite) break;
        if (e->left) kl_isometry_destroy(&e->left[p]);
        if (e->right) kl_isometry_destroy(&e->right[p]);
        if (e->left_data) e->ex->vt.release(e->ex, &e->left_data[p]);
        if (e->right_data) e->ex->vt.release(e->ex, &e->right_data[p]);
    }
    kl_reaches_leave(&e->reaches);
    kl_free(&e->left_block);
    kl_free(&e->right_block);
    kl_free(&e->left);
    kl_free(&e->right);
    kl_free(&e->left_data);
    kl_free(&e->right_data);
    kl_mpo_destroy(&e->mpo);
    kl_free(pe);
}

/* Charges that the other side of cut `cut` can complete to the target. */
typedef struct completion {
    const kl_model *model;
    const kl_reach *other;
    kl_qn target;
} completion;

static int can_complete(void *self, kl_qn q)
{
    const completion *const c = self;
    return kl_reach_find(c->other, kl_qn_sub(c->model, c->target, q)) >= 0;
}

/* Left: block 0..pos-1 (x) site pos; right: site pos (x) block pos+1.. */
kl_status kl_engine_enlarge(const kl_engine *e, kl_side side, int pos, const kl_basis *block,
                            kl_enlarged **out, kl_err *err)
{
    completion c = {e->terms->model, side == KL_LEFT ? &e->reach_right[pos + 1] : &e->reach_left[pos],
                    e->target};
    return kl_enlarged_create(e->terms->model, block, e->terms->type[pos], can_complete, &c, out, err);
}

kl_status kl_engine_set_isometry_take(kl_engine *e, kl_side side, int pos, kl_isometry **iso, kl_dptr *data,
                                      kl_err *err)
{
    kl_isometry **const slot = side == KL_LEFT ? &e->left[pos] : &e->right[pos];
    kl_dptr *const to = side == KL_LEFT ? &e->left_data[pos] : &e->right_data[pos];
    kl_status st = KL_OK;
    kl_isometry_destroy(slot);
    e->ex->vt.release(e->ex, to);
    *slot = *iso;
    *iso = NULL;
    if (data->addr) {
        *to = *data;
        data->addr = 0;
        goto out;
    }
    KL_TRY(kl_exec_alloc_operators(e->ex, (*slot)->ndata, to, err));
    KL_TRY(e->ex->vt.upload(e->ex, *to, (*slot)->data, (*slot)->ndata, err));
    kl_free(&(*slot)->data);
out:
    return st;
}

/* Block beyond position pos from the one before it and the isometry there. LR grows from operators multiplied
   out, those of the centre where they are still there: a run that goes on rebuilds its blocks to the bit, but
   where the host has no memory for them. */
static kl_status grow(kl_engine *e, kl_side side, int pos, const kl_bigop *grown, kl_err *err)
{
    kl_status st = KL_OK;
    kl_block **const slot = side == KL_LEFT ? &e->left_block[pos + 1] : &e->right_block[pos];
    const kl_bigop *from = grown == (side == KL_LEFT ? e->row_op : e->col_op) ? e->dense[side] : NULL;
    kl_bigop *made = NULL;
    int64_t doubles = 0;
    kl_block_destroy(slot);
    if (e->strategy == KL_STRATEGY_LR) {
        int fits;
        KL_TRY(kl_bigop_dense_doubles(grown, &doubles, err));
        KL_TRY(kl_engine_lr_grows(e, doubles, from != NULL, &fits, err));
        if (!fits) from = NULL;
        else if (from == NULL) KL_TRY(kl_bigop_dense(grown, &made, err));
    }
    if (from == NULL) from = made ? made : grown;
    KL_TRY(side == KL_LEFT ? kl_block_grow(e->ex, from, e->left[pos], e->left_data[pos], slot, err)
                           : kl_block_grow(e->ex, from, e->right[pos], e->right_data[pos], slot, err));
out:
    kl_bigop_destroy(&made);
    return st;
}

kl_status kl_engine_rebuild(kl_engine *e, kl_side side, int pos, kl_err *err)
{
    kl_status st = KL_OK;
    kl_bigop *g = NULL;
    kl_block *const from = side == KL_LEFT ? e->left_block[pos] : e->right_block[pos + 1];
    const kl_isometry *const iso = side == KL_LEFT ? e->left[pos] : e->right[pos];
    KL_TRY(kl_engine_bring_block(e, from, err));
    KL_TRY(kl_bigop_create(from, iso->enlarged, pos, &g, err));
    KL_TRY(grow(e, side, pos, g, err));
out:
    kl_bigop_destroy(&g);
    return st;
}

kl_status kl_engine_open(kl_engine *e, int c, kl_err *err)
{
    kl_status st = KL_OK;
    double *host = NULL;
    uint64_t rng = e->seed * 7919u + (uint64_t)c;
    drop_centre(e);
    drop_warm(e);
    KL_TRY(kl_engine_enlarge(e, KL_LEFT, c, &e->left_block[c]->basis, &e->row, err));
    KL_TRY(kl_engine_enlarge(e, KL_RIGHT, c + 1, &e->right_block[c + 2]->basis, &e->col, err));
    KL_TRY(kl_layout_create(e->terms->model, &e->row->basis, &e->col->basis, e->target, &e->layout, err));
    e->centre = c;
    if (e->layout.n > e->dim_max) e->dim_max = e->layout.n;
    const int64_t len = e->layout.n * e->nstate;
    KL_TRY(kl_alloc(&host, len, KL_MEM_WORK, err));
    for (int64_t i = 0; i < len; i++) host[i] = kl_random_uniform(&rng);
    KL_TRY(e->ex->vt.alloc(e->ex, len, &e->psi, err));
    KL_TRY(e->ex->vt.upload(e->ex, e->psi, host, len, err));
out:
    kl_free(&host);
    return st;
}

kl_status kl_engine_resume_take(kl_engine *e, kl_state **ps, kl_err *err)
{
    kl_status st = KL_OK;
    kl_state *const s = *ps;
    if (s->nsite != e->nsite || kl_qn_cmp(s->target, e->target) || s->nstate < 1) {
        char a[128], b[128];
        st = kl_fail(err, KL_EINPUT, "the saved state has %d sites and %s, this run %d and %s", s->nsite,
                     kl_qn_print(s->model, s->target, a, sizeof a), e->nsite,
                     kl_qn_print(e->terms->model, e->target, b, sizeof b));
        goto out;
    }
    for (int p = 0; p < e->nsite; p++)
        if (s->type[p] != e->terms->type[p]) {
            st =
                kl_fail(err, KL_EINPUT,
                        "the saved state has a site \"%s\" of model %s at position %d, this run \"%s\" of %s",
                        s->type[p]->name, s->model->name, p, e->terms->type[p]->name, e->terms->model->name);
            goto out;
        }
    KL_TRY(kl_engine_fit_state(e, s, err));
    for (int p = 0; p < s->centre; p++) {
        KL_TRY(kl_engine_set_isometry_take(e, KL_LEFT, p, &s->left[p], &(kl_dptr){0}, err));
        KL_TRY(kl_engine_rebuild(e, KL_LEFT, p, err));
        KL_TRY(kl_engine_put_away(e, KL_LEFT, p, err));
    }
    for (int p = s->nsite - 1; p > s->centre + 1; p--) {
        KL_TRY(kl_engine_set_isometry_take(e, KL_RIGHT, p, &s->right[p], &(kl_dptr){0}, err));
        KL_TRY(kl_engine_rebuild(e, KL_RIGHT, p, err));
        KL_TRY(kl_engine_put_away(e, KL_RIGHT, p, err));
    }
    for (int side = KL_LEFT; side <= KL_RIGHT; side++) {
        const int p = side == KL_LEFT ? s->centre : s->centre + 1;
        kl_isometry **const slot = side == KL_LEFT ? &s->left[p] : &s->right[p];
        if (!*slot) continue;
        KL_TRY(kl_engine_set_isometry_take(e, (kl_side)side, p, slot, &(kl_dptr){0}, err));
        keep_warm(e, (kl_side)side, p);
    }
    drop_centre(e);
    e->row = s->row, e->col = s->col;
    s->row = s->col = NULL;
    KL_TRY(kl_layout_create(e->terms->model, &e->row->basis, &e->col->basis, e->target, &e->layout, err));
    if (e->layout.n != s->npsi) {
        st = kl_fail(err, KL_EBROKEN, "the saved wavefunction has %lld numbers, its bases make %lld",
                     (long long)s->npsi, (long long)e->layout.n);
        goto out;
    }
    e->centre = s->centre;
    KL_TRY(e->ex->vt.alloc(e->ex, e->layout.n * e->nstate, &e->psi, err));
    /* more states than were saved: the solver starts those at random */
    e->ex->vt.fill(e->ex, e->layout.n * e->nstate, 0.0, e->psi);
    KL_TRY(e->ex->vt.upload(e->ex, e->psi, s->psi,
                            e->layout.n * (s->nstate < e->nstate ? s->nstate : e->nstate), err));
    if (s->narrow && s->nstate == e->nstate) KL_TRY(kl_onesite_resume(e, s->narrow, s->nnarrow, err));
out:
    kl_state_destroy(ps);
    return st;
}

kl_status kl_engine_make_operators(kl_engine *e, kl_err *err)
{
    kl_status st = KL_OK;
    if (e->row_op) return KL_OK;
    KL_TRY(kl_engine_bring_block(e, e->left_block[e->centre], err));
    KL_TRY(kl_engine_bring_block(e, e->right_block[e->centre + 2], err));
    KL_TRY(kl_engine_begin_bond(e, err));
    kl_engine_settle(e);
    KL_TRY(kl_bigop_create(e->left_block[e->centre], e->row, e->centre, &e->row_op, err));
    KL_TRY(kl_bigop_create(e->right_block[e->centre + 2], e->col, e->centre + 1, &e->col_op, err));
out:
    return st;
}

/* Operators that H x takes: the centre's, or for LR those multiplied out, in e->dense. LR's take several
   times the memory, and where the device has not got that, l-1-1-r's serve. A side without a site is copied,
   too: its operators are matrices as they are, and stacked they are few products. */
static kl_status operators_of_product(kl_engine *e, const kl_bigop *of[2], kl_err *err)
{
    kl_status st = KL_OK;
    int64_t doubles = 0;
    KL_TRY(kl_engine_make_operators(e, err));
    of[0] = e->row_op, of[1] = e->col_op;
    drop_dense(e);
    if (e->strategy != KL_STRATEGY_LR) goto out;
    for (int i = 0; i < 2; i++) {
        int64_t one = 0;
        KL_TRY(kl_bigop_dense_doubles(of[i], &one, err));
        doubles += one;
    }
    int has;
    KL_TRY(kl_engine_lr_multiplies(e, doubles, &has, err));
    if (!has) has = 8 * doubles < kl_superblock_list_bytes(of[0], of[1], &e->layout);
    if (kl_ranks_any(e->ex, !has || !kl_engine_lr_fits(e->ex, doubles, e->layout.n, e->nstate))) {
        e->nlr_too_large++;
        goto out;
    }
    for (int i = 0; i < 2; i++) {
        KL_TRY(kl_bigop_dense(of[i], &e->dense[i], err));
        of[i] = e->dense[i];
    }
out:
    return st;
}

/* What was multiplied out stays for growth where memory for as much again is left; a side without a site does
   not grow. */
static void keep_dense(kl_engine *e)
{
    int64_t doubles = 0;
    if (e->one) kl_bigop_destroy(&e->dense[e->one->side]);
    for (int i = 0; i < 2; i++) doubles += e->dense[i] ? e->dense[i]->npack : 0;
    const int limited = e->host_bytes > 0 && kl_mem_live_total() + 8 * doubles > e->host_bytes;
    if (limited || (e->ex->vt.room && e->ex->vt.room(e->ex) < 9 * doubles)) drop_dense(e);
}

int kl_engine_basis(int wanted, int nstate, int max_apply)
{
    const int most = wanted > 0            ? wanted
                     : 2 * nstate + 8 > 20 ? 2 * nstate + 8
                                           : 20,
              filled = max_apply > 0 ? max_apply + 2 * nstate : most, least = nstate + 2;
    const int basis = filled < most ? filled : most;
    return basis > least ? basis : least;
}

/* A basis of fewer vectors, each with its product with H, where the executor's memory, or another rank's,
   holds no more. */
static int basis_that_fits(const kl_engine *e, int wanted)
{
    /* an eighth for pools that round up */
    const double room = e->ex->vt.room ? (double)e->ex->vt.room(e->ex) : INFINITY,
                 one = 9.0 * (double)(e->layout.n + 16);
    int basis = wanted;
    while (basis > e->nstate + 2 &&
           one * kl_davidson_columns(&(kl_eig_opts){.nroot = e->nstate, .max_basis = basis}, e->layout.n) >
               room)
        basis--;
    return (int)kl_ranks_least(e->ex, basis);
}

/* Of the sites of `mine`, with what those of `other` can complete. */
static double completed(const kl_engine *e, const kl_reach *mine, const kl_reach *other)
{
    double n = 0;
    for (int64_t i = 0; i < mine->n; i++)
        if (kl_reach_find(other, kl_qn_sub(e->terms->model, e->target, mine->q[i])) >= 0)
            n += round(exp(mine->log_count[i]));
    return n;
}

void kl_engine_size(const kl_engine *e, double *sector, double *block, double *work)
{
    const int left = e->nsite / 2 - 1, right = left + 2; /* sites of that block; where this one begins */
    const kl_qn whole = kl_qn_sub(e->terms->model, e->target, kl_qn_zero());
    *sector = round(exp(e->reach_left[e->nsite].log_count[kl_reach_find(&e->reach_left[e->nsite], whole)]));
    *block = fmax(completed(e, &e->reach_left[left], &e->reach_right[left]),
                  completed(e, &e->reach_right[right], &e->reach_left[right]));
    const double enlarged = completed(e, &e->reach_left[left + 1], &e->reach_right[left + 1]);
    *work = *sector * (*sector / fmax(enlarged, 1)) * e->mpo->nop[left + 1];
}

/* To every wavefunction as much of a random one. */
static kl_status add_random(kl_engine *e, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = e->layout.n;
    double *host = NULL, square, other;
    kl_dptr v = {0};
    KL_TRY(kl_alloc(&host, n, KL_MEM_WORK, err));
    KL_TRY(e->ex->vt.alloc(e->ex, n, &v, err));
    for (int i = 0; i < e->nstate; i++) {
        const kl_dptr x = kl_dptr_at(e->psi, i * n);
        for (int64_t j = 0; j < n; j++) host[j] = kl_random_at(e->seed + (uint64_t)i, j);
        KL_TRY(e->ex->vt.upload(e->ex, v, host, n, err));
        e->ex->vt.dots(e->ex, n, 1, v, n, v, &square);
        e->ex->vt.dots(e->ex, n, 1, x, n, x, &other);
        e->ex->vt.axpby(e->ex, n, sqrt(other > 0 ? other / square : 1), v, 1.0, x);
    }
out:
    e->ex->vt.release(e->ex, &v);
    kl_free(&host);
    return st;
}

/* What lists that ran ahead of the host still do is no part of the eigensolver's time. */
static kl_status wait_for_lists(const kl_engine *e, kl_err *err)
{
    double ignored;
    return e->ex->space == KL_SPACE_DEVICE ? e->ex->vt.download(e->ex, &ignored, e->psi, 1, err) : KL_OK;
}

/* The eigenproblem where each rank has its part of the wavefunctions, which come together again after it, and
   are no longer whole meanwhile. */
static kl_status solve_spread(kl_engine *e, kl_superblock *s, const kl_eig_opts *o, double *energy,
                              kl_eig_stats *stats, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t *const begin = s->op.begin;
    const int64_t n = s->op.n, ld = kl_eig_stride(n), from = begin[kl_ranks_mine(e->ex)];
    kl_dptr x = {0};
    KL_TRY(e->ex->vt.alloc(e->ex, ld * e->nstate, &x, err));
    for (int i = 0; i < e->nstate; i++)
        e->ex->vt.copy(e->ex, n, kl_dptr_at(e->psi, i * e->layout.n + from), kl_dptr_at(x, i * ld));
    e->ex->vt.release(e->ex, &e->psi);
    KL_TRY(kl_eig_solve(&s->op, o, x, ld, energy, e->residual, stats, err));
    KL_TRY(e->ex->vt.alloc(e->ex, e->layout.n * e->nstate, &e->psi, err));
    for (int i = 0; i < e->nstate; i++)
        KL_TRY(
            kl_ranks_gather(e->ex, begin, kl_dptr_at(x, i * ld), kl_dptr_at(e->psi, i * e->layout.n), err));
out:
    e->ex->vt.release(e->ex, &x);
    return st;
}

kl_status kl_engine_solve(kl_engine *e, const kl_solve_opts *o, double *energy, kl_eig_stats *stats,
                          kl_err *err)
{
    kl_status st = KL_OK;
    kl_superblock *s = NULL;
    const kl_bigop *of[2];
    const int whole = o->scope != KL_SOLVE_PART;
    const double t0 = kl_prof_seconds();
    kl_onesite_forget(e);
    KL_TRY(operators_of_product(e, of, err));
    KL_TRY(kl_superblock_create(e->ex, of[0], of[1], e->target, 1, &s, err));
    if (kl_engine_spill(e)) {
        kl_superblock_destroy(&s);
        KL_TRY(kl_superblock_create(e->ex, of[0], of[1], e->target, 1, &s, err));
    }
    if (o->records && kl_ranks_first(e->ex)) KL_TRY(kl_reclist_append(o->records, o->title, &s->batch, err));
    KL_TRY(wait_for_lists(e, err));
    const double t1 = kl_prof_seconds();
    const kl_eig_opts opts = {
        .solver = whole ? KL_SOLVER_LANCZOS : e->solver,
        .nroot = e->nstate,
        .nguard = whole ? 0 : o->nguard,
        .guard_loose = GUARD_LOOSE,
        .max_basis =
            basis_that_fits(e, whole ? WHOLE_BASIS : kl_engine_basis(e->max_basis, e->nstate, o->max_apply)),
        .max_apply = o->max_apply,
        .tol = o->tol,
        .tol_rel = o->tol_rel,
        .worth = o->worth,
        .seed = e->seed,
        .trust_start = o->trust_start,
        .lines = o->lines};
    if (o->lines) kl_engine_count_memory(e, of, &s->batch, &opts);
    if (e->layout.n < e->nstate) {
        st = kl_fail(err, KL_EINPUT, "%d states are asked for, but the sector has only %lld", e->nstate,
                     (long long)e->layout.n);
        goto out;
    }
    KL_TRY(kl_engine_begin_solve(e, &opts, err));
    if (o->scope == KL_SOLVE_SECTOR_AFRESH) KL_TRY(add_random(e, err));
    if (s->op.begin) KL_TRY(solve_spread(e, s, &opts, energy, stats, err));
    else KL_TRY(kl_eig_solve(&s->op, &opts, e->psi, e->layout.n, energy, e->residual, stats, err));
    if (e->layout.n > e->dim_max) e->dim_max = e->layout.n;
    e->seconds[KL_PART_PLAN] += t1 - t0;
    e->seconds[KL_PART_SOLVE] += kl_prof_seconds() - t1;
    e->seconds[KL_PART_APPLY] += stats->seconds_apply;
    for (int i = 0; i < KL_NLINE; i++) e->seconds_line[i] += stats->seconds_line[i];
    e->napply += stats->napply;
    e->flop += stats->napply * s->batch.flop;
    for (int i = 0; i < e->layout.nsec; i++) {
        const int j = e->layout.pair[i];
        const int64_t side = e->row->basis.dim[i], all = j < 0 ? 0 : side * e->col->basis.dim[j];
        if (side > e->matrix_max) e->matrix_max = side;
        if (all > e->sector_max) e->sector_max = all;
    }
    e->nsector_sum += e->row->basis.nsec;
    e->nsector_count++;
out:
    kl_superblock_destroy(&s);
    keep_dense(e);
    return st;
}

kl_status kl_engine_energy(kl_engine *e, double *energy, kl_err *err)
{
    kl_status st = KL_OK;
    kl_superblock *s = NULL;
    const kl_bigop *of[2];
    kl_dptr y = {0};
    KL_TRY(operators_of_product(e, of, err));
    KL_TRY(kl_superblock_create(e->ex, of[0], of[1], e->target, 0, &s, err));
    KL_TRY(e->ex->vt.alloc(e->ex, e->layout.n, &y, err));
    for (int i = 0; i < e->nstate; i++) {
        double xx, xy;
        const kl_dptr x = kl_dptr_at(e->psi, i * e->layout.n);
        KL_TRY(s->op.apply(&s->op, 1, x, e->layout.n, y, e->layout.n, err));
        e->ex->vt.dots(e->ex, e->layout.n, 1, x, e->layout.n, x, &xx);
        e->ex->vt.dots(e->ex, e->layout.n, 1, x, e->layout.n, y, &xy);
        energy[i] = xy / xx;
    }
out:
    kl_superblock_destroy(&s);
    keep_dense(e);
    e->ex->vt.release(e->ex, &y);
    return st;
}

void kl_engine_put_centre_take(kl_engine *e, int c, int direction, kl_enlarged **row, kl_enlarged **col,
                               kl_layout *layout, kl_dptr *psi)
{
    drop_centre(e);
    e->row = *row, e->col = *col, e->layout = *layout, e->psi = *psi, e->centre = c;
    *row = *col = NULL, *layout = (kl_layout){0}, psi->addr = 0;
    keep_warm(e, direction > 0 ? KL_RIGHT : KL_LEFT, direction > 0 ? c + 1 : c);
}

static kl_isometry_on isometry_at(const kl_engine *e, kl_side side, int pos)
{
    return side == KL_LEFT ? (kl_isometry_on){e->left[pos], e->left_data[pos]}
                           : (kl_isometry_on){e->right[pos], e->right_data[pos]};
}

kl_status kl_engine_move(kl_engine *e, int direction, const kl_trunc_opts *o, kl_trunc_info *info,
                         kl_err *err)
{
    kl_status st = KL_OK;
    const int c = e->centre, right = direction > 0;
    const kl_side side = right ? KL_LEFT : KL_RIGHT, other = right ? KL_RIGHT : KL_LEFT;
    /* site absorbed, site whose isometry is opened */
    const int pos = right ? c : c + 1, open = right ? c + 2 : c - 1;
    kl_isometry *iso = NULL;
    kl_enlarged *row = NULL, *col = NULL;
    kl_layout lay = {0};
    kl_ahead ahead = {0};
    kl_dptr psi = {0}, data = {0};
    double t = kl_prof_seconds(), u;
    KL_TRY(kl_engine_make_operators(e, err));
    kl_engine_settle_growth(e, side);
    const kl_bigop *const grown = right ? e->row_op : e->col_op;
    const kl_wave wave = kl_engine_wave(e);
    const kl_warm warm = {e->warm, e->warm_data};
    kl_trunc_opts with = *o;
    with.narrow = e->one != NULL;
    with.settle |= kl_onesite_keeps_all(e, o);
    with.target = e->target;
    with.warm = e->warm_side != side && !e->one ? &warm : NULL;
    KL_TRY(kl_truncate(e->ex, side, &wave, grown, &with, &iso, &data, info, err));
    drop_warm(e);
    KL_TRY(kl_engine_set_isometry_take(e, side, pos, &iso, &data, err));
    e->seconds[KL_PART_TRUNCATE] += (u = kl_prof_seconds()) - t, t = u;
    KL_TRY(grow(e, side, pos, grown, err));
    e->seconds[KL_PART_GROW] += (u = kl_prof_seconds()) - t, t = u;
    if (e->one) drop_operators(e);
    const int to = c + direction;
    const kl_isometry *const opened = right ? e->right[open] : e->left[open];
    /* the isometry that is opened comes back, and the wavefunction is transformed */
    kl_engine_make_room(e, 9 * (opened->ndata + e->layout.n * e->nstate));
    KL_TRY(kl_engine_bring_isometry(e, other, open, err));
    kl_exec_move_operators(e->ex, 0, opened->ndata, right ? &e->right_data[open] : &e->left_data[open]);
    KL_TRY(kl_engine_enlarge(e, KL_LEFT, to, &e->left_block[to]->basis, &row, err));
    KL_TRY(kl_engine_enlarge(e, KL_RIGHT, to + 1, &e->right_block[to + 2]->basis, &col, err));
    KL_TRY(kl_layout_create(e->terms->model, &row->basis, &col->basis, e->target, &lay, err));
    KL_TRY(e->ex->vt.alloc(e->ex, lay.n * e->nstate, &psi, err));
    const kl_wave next = {.row = row, .col = col, .layout = &lay, .psi = psi};
    const kl_isometry_on made = isometry_at(e, side, pos), known = isometry_at(e, other, open);
    if (e->one) KL_TRY(kl_onesite_carry(e, direction, made, known, &next, &ahead, err));
    else KL_TRY(kl_wave_transform(e->ex, direction, e->nstate, &wave, made, known, &next, err));
    kl_engine_put_centre_take(e, to, direction, &row, &col, &lay, &psi);
    kl_onesite_keep(e, &ahead, right ? &e->right_block[open] : &e->left_block[open + 1]);
    KL_TRY(kl_engine_put_away(e, side, pos, err));
    e->seconds[KL_PART_TRANSFORM] += kl_prof_seconds() - t;
out:
    kl_isometry_destroy(&iso);
    kl_enlarged_destroy(&row);
    kl_enlarged_destroy(&col);
    kl_layout_clear(&lay);
    kl_ahead_clear(e->ex, &ahead);
    e->ex->vt.release(e->ex, &psi);
    e->ex->vt.release(e->ex, &data);
    return st;
}
