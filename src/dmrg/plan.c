/* What a run would need, from charges and counts alone: the blocks are laid out at every cut as if m states
   were kept, nothing is allocated for their contents.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/dmrg.h"
#include "dmrg/engine.h"
#include "dmrg/halves.h"
#include "dmrg/onesite.h"
#include "dmrg/opdense.h"
#include "dmrg/planside.h"
#include "dmrg/settle.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/prof.h"
#include "dmrg/density.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An executor that neither allocates nor computes. */
static kl_status dry_alloc(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err)
{
    (void)ex, (void)n, (void)err;
    out->addr = 0;
    return KL_OK;
}

static void dry_release(kl_exec *ex, kl_dptr *p)
{
    (void)ex;
    p->addr = 0;
}

static kl_status dry_upload(kl_exec *ex, kl_dptr dst, const double *src, int64_t n, kl_err *err)
{
    (void)ex, (void)dst, (void)src, (void)n, (void)err;
    return KL_OK;
}

static void dry_fill(kl_exec *ex, int64_t n, double a, kl_dptr y) { (void)ex, (void)n, (void)a, (void)y; }

static kl_status dry_prepare(kl_exec *ex, kl_batch *b, kl_err *err)
{
    (void)ex, (void)b, (void)err;
    return KL_OK;
}

static kl_status dry_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err)
{
    (void)ex, (void)b, (void)x, (void)y, (void)err;
    return KL_OK;
}

static void dry_batch_release(kl_exec *ex, kl_batch *b) { (void)ex, (void)b; }

static int by_flop(const void *pa, const void *pb)
{
    const struct kl_dmrg_pair *const a = pa, *const b = pb;
    return a->flop != b->flop ? (a->flop > b->flop ? -1 : 1) : kl_qn_cmp(a->left, b->left);
}

/* What one H x takes of the device's memory by each way, and which way a run would take. */
static kl_status plan_ways(kl_dmrg_plan *p, kl_exec *ex, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_projection asked = ex->projection;
    const int64_t room = ex->vt.room(ex);
    if (!ex->vt.alloc_far) goto out;
    p->room_bytes = room < INT64_MAX ? room : 0;
    for (int k = KL_PROJECTION_AUTO + 1; k < KL_NPROJECTION; k++) {
        struct kl_dmrg_way *const w = &p->way[p->nway++];
        const kl_call call = {.op = KL_OP_BATCH, .n = p->dim, .batch = &p->apply};
        kl_choice c;
        const double begun = kl_prof_seconds();
        ex->projection = (kl_projection)k;
        KL_TRY(kl_exec_explain(ex, &call, &c, err));
        *w = (struct kl_dmrg_way){.name = kl_projection_name[k],
                                  .list_bytes = c.memory_bytes,
                                  .operator_bytes = k == KL_PROJECTION_NOSTORAGE ? 0 : 8 * p->centre_doubles,
                                  .moved_bytes = c.moved_bytes,
                                  .seconds = kl_prof_seconds() - begun};
        w->total_bytes = w->operator_bytes + w->list_bytes + p->least_bytes;
        w->fits = room == INT64_MAX || w->total_bytes <= room;
    }
    const kl_projection fastest = kl_exec_fastest(ex, &p->apply);
    kl_projection taken = asked != KL_PROJECTION_AUTO     ? asked
                          : fastest != KL_PROJECTION_AUTO ? fastest
                                                          : KL_PROJECTION_GROUPED;
    if (asked == KL_PROJECTION_AUTO && !p->way[taken - 1].fits) taken = KL_PROJECTION_GROUPED;
    if (asked == KL_PROJECTION_AUTO && !p->way[taken - 1].fits) taken = KL_PROJECTION_NOSTREAMS;
    if (!p->way[taken - 1].fits) taken = KL_PROJECTION_NOSTORAGE;
    p->way[taken - 1].taken = 1;
out:
    ex->projection = asked;
    return st;
}

/* The middle bond of a run that does not run: blocks of made-up bases without numbers. */
typedef struct middle {
    kl_engine *e;
    kl_plan_side s[2];
    kl_enlarged *row, *col;
    kl_bigop *l, *r;
    kl_layout lay;
    kl_batch batch; /* y = H x */
    kl_block *absorbed; /* one site at a time: the right block with the other site, or NULL; */
    int64_t nparts; /* of LR: doubles of the packs that were multiplied out, and stay as long */
    double list_seconds; /* that listing the operators that grow took */
    int64_t two; /* numbers of the wavefunction of two sites then, which is there before and after */
    int64_t centre; /* doubles of the packs of the bond that has most of them */
    int64_t base_bytes; /* of terms, and of the operators' growth, whatever m is; */
    int64_t begin_bytes; /* while these are made */
    int64_t noise_bytes; /* of the lists of noise, where it opened sectors */
} middle;

static void clear_middle(middle *c, int n)
{
    kl_batch_clear(&c->batch);
    kl_bigop_destroy(&c->l);
    kl_bigop_destroy(&c->r);
    kl_layout_clear(&c->lay);
    kl_enlarged_destroy(&c->row);
    kl_enlarged_destroy(&c->col);
    kl_block_destroy(&c->absorbed);
    for (int i = 0; i < 2; i++) kl_plan_side_clear(&c->s[i], n);
    kl_engine_destroy(&c->e);
}

/* The right side of the middle becomes a block that has its site, as in a one-site step. */
static kl_status absorb(const kl_terms *terms, kl_exec *dry, const kl_dmrg_opts *o, kl_dmrg_plan *plan,
                        middle *mid, kl_err *err)
{
    kl_status st = KL_OK;
    const int c = terms->nsite / 2 - 1, m = plan->m + kl_onesite_more(plan->m, plan->m);
    const kl_plan_keep keep = {.m = m};
    kl_basis kept = {0};
    kl_layout two = {0};
    KL_TRY(kl_layout_create(terms->model, &mid->row->basis, &mid->col->basis, o->target, &two, err));
    mid->two = two.n;
    KL_TRY(kl_plan_kept(mid->e, KL_RIGHT, c + 1, keep, &mid->col->basis, &kept, err));
    KL_TRY(kl_block_create(dry, mid->e->mpo, KL_RIGHT, c + 1, &kept, &mid->absorbed, err));
    kl_enlarged_destroy(&mid->col);
    KL_TRY(kl_onesite_bare(mid->absorbed, &mid->col, &mid->r, err));
    plan->absorbed = (int)kept.total;
out:
    kl_layout_clear(&two);
    kl_basis_clear(&kept);
    return st;
}

/* Doubles of the packs of bond c: of the parts, and of operators multiplied out, which stay as long. */
static kl_status bond_doubles(const middle *mid, int c, int lr, int64_t *out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_enlarged *e = NULL;
    kl_bigop *g = NULL;
    *out = 0;
    for (int i = 0; i < 2; i++) {
        const kl_block *const b = i ? mid->s[1].block[c + 2] : mid->s[0].block[c];
        int64_t dense = 0;
        KL_TRY(kl_engine_enlarge(mid->e, i ? KL_RIGHT : KL_LEFT, c + i, &b->basis, &e, err));
        KL_TRY(kl_bigop_create(b, e, c + i, &g, err));
        if (lr) KL_TRY(kl_bigop_dense_doubles(g, &dense, err));
        *out += g->npack + dense;
        kl_bigop_destroy(&g);
        kl_enlarged_destroy(&e);
    }
out:
    kl_bigop_destroy(&g);
    kl_enlarged_destroy(&e);
    return st;
}

/* The bond whose operators are most, by their number and the states on both sides: in molecules seldom the
   middle one, to which all others are compared. */
static int widest_bond(const middle *mid, int n)
{
    const double clearly = 1.02;
    int best = n / 2 - 1;
    double most = 0;
    for (int k = -1; k + 2 <= n; k++) {
        const int c = k < 0 ? n / 2 - 1 : k;
        const double left = (double)mid->s[0].block[c]->basis.total,
                     right = (double)mid->s[1].block[c + 2]->basis.total,
                     work = (left * left + right * right) * mid->e->mpo->nop[c + 1];
        if (k >= 0 && !(work > clearly * most)) continue;
        most = work;
        best = c;
    }
    return best;
}

/* What a block that grows from g takes on its way: products of its operators with the kept states. A device
   has all of them at a time. */
static int64_t growth_doubles(const kl_bigop *g, const kl_basis *kept)
{
    const kl_basis *const all = &g->enlarged->basis;
    int64_t sum = 0;
    for (int c = 0; c < all->nsec; c++) {
        const int k = kl_basis_find(kept, all->q[c]);
        for (int op = 0; k >= 0 && op < g->nop; op++) {
            const int64_t at = (int64_t)op * all->nsec + c;
            int rows = 0;
            for (int64_t i = g->first[at]; i < g->first[at + 1]; i++)
                if (g->part[i].off >= 0 && g->part[i].nrow > rows) rows = g->part[i].nrow;
            sum += (int64_t)rows * kept->dim[k];
        }
    }
    return sum;
}

/* Flops of its growth: parts of an operator by kept states of its source, their sum by those of its image. */
static double growth_flop(const kl_bigop *g, const kl_basis *kept)
{
    const kl_basis *const all = &g->enlarged->basis;
    double sum = 0;
    for (int op = 0; op < g->nop; op++)
        for (int c = 0; c < all->nsec && !kl_bigop_identity(g, op); c++) {
            const int64_t at = (int64_t)op * all->nsec + c;
            const int from = kl_basis_find(kept, all->q[c]),
                      to = g->dst[at] < 0 ? -1 : kl_basis_find(kept, all->q[g->dst[at]]);
            if (from < 0 || to < 0 || g->first[at] == g->first[at + 1]) continue;
            for (int64_t i = g->first[at]; i < g->first[at + 1]; i++)
                if (g->part[i].off >= 0) sum += 2.0 * g->part[i].nrow * g->part[i].ncol * kept->dim[from];
            sum += 2.0 * all->dim[g->dst[at]] * kept->dim[to] * kept->dim[from];
        }
    return sum;
}

/* dry: an executor that gives no memory and runs nothing. */
static kl_status make_middle(const kl_terms *terms, kl_exec *ex, kl_exec *dry, const kl_dmrg_opts *o,
                             kl_plan_keep keep, kl_dmrg_plan *plan, middle *mid, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = terms->nsite, c = n / 2 - 1, lr = o->strategy == KL_STRATEGY_LR;
    const kl_engine_opts eo = {.target = o->target,
                               .nstate = o->nstate,
                               .strategy = o->strategy,
                               .solver = o->solver,
                               .max_basis = o->max_basis,
                               .seed = o->seed,
                               .full = o->full};
    const int64_t before = kl_mem_live_total() - o->held_bytes;
    kl_mem_watch();
    KL_TRY(kl_engine_create(terms, ex, &eo, &mid->e, err));
    mid->base_bytes = kl_mem_live_total() - before;
    mid->begin_bytes = kl_mem_watched_peak() - before;
    for (int i = 0; i < 2; i++)
        KL_TRY(kl_plan_side_lay(mid->e, dry, i ? KL_RIGHT : KL_LEFT, keep, &mid->s[i], err));
    const kl_block *const left = mid->s[0].block[c], *const right = mid->s[1].block[c + 2];
    KL_TRY(kl_engine_enlarge(mid->e, KL_LEFT, c, &left->basis, &mid->row, err));
    KL_TRY(kl_engine_enlarge(mid->e, KL_RIGHT, c + 1, &right->basis, &mid->col, err));
    const int one = plan->sites == 1;
    const double begun = kl_prof_seconds();
    KL_TRY(kl_bigop_create(left, mid->row, c, &mid->l, err));
    if (one) KL_TRY(absorb(terms, dry, o, plan, mid, err));
    else KL_TRY(kl_bigop_create(right, mid->col, c + 1, &mid->r, err));
    mid->list_seconds = kl_prof_seconds() - begun;
    KL_TRY(kl_layout_create(terms->model, &mid->row->basis, &mid->col->basis, o->target, &mid->lay, err));
    int64_t dense[2] = {0, 0};
    KL_TRY(kl_bigop_dense_doubles(mid->l, &dense[0], err));
    KL_TRY(kl_bigop_dense_doubles(mid->r, &dense[1], err));
    plan->dense_doubles = dense[0] + dense[1];
    plan->lr_too_large = lr && !kl_engine_lr_fits(ex, plan->dense_doubles, mid->lay.n, o->nstate);
    if (lr && !plan->lr_too_large) {
        mid->nparts = mid->l->npack + mid->r->npack;
        KL_TRY(kl_bigop_make_dense(mid->l, err));
        KL_TRY(kl_bigop_make_dense(mid->r, err));
    }
    KL_TRY(kl_superblock_records(mid->l, mid->r, &mid->lay, &mid->batch, err));
    if (keep.opened > 0) {
        const kl_density d = {.wave = {.row = mid->row, .col = mid->col, .layout = &mid->lay},
                              .nstate = o->nstate,
                              .grown = mid->l};
        mid->noise_bytes = kl_density_noise_bytes(ex, &d);
    }
    plan->centre_doubles =
        left->ndata + (one ? mid->absorbed->ndata : right->ndata) + mid->l->npack + mid->r->npack;
    const int widest = one ? c : widest_bond(mid, n);
    if (widest != c) KL_TRY(bond_doubles(mid, widest, lr && !plan->lr_too_large, &mid->centre, err));
    const int64_t here = mid->l->npack + mid->r->npack + mid->nparts;
    if (here > mid->centre) mid->centre = here;
out:
    return st;
}

typedef struct part {
    int64_t at;
    int pair;
} part;

static int by_place(const void *pa, const void *pb)
{
    const part *const a = pa, *const b = pb;
    return (a->at > b->at) - (a->at < b->at);
}

/* The pair whose part of a vector holds element `at'; part[n] ascends. */
static int pair_at(const part *p, int n, int64_t at)
{
    int low = 0, high = n;
    while (high - low > 1) {
        const int between = low + (high - low) / 2;
        if (p[between].at <= at) low = between;
        else high = between;
    }
    return p[low].pair;
}

/* The records of one group: what reads x says where the work comes from, and what reads WORK goes on with
   it. */
static void add_group(const kl_batch *b, const kl_group *g, const part *p, int npair,
                      struct kl_dmrg_cell *row)
{
    int from = 0;
    for (int64_t i = g->first; i < g->last; i++) {
        const kl_rec *const r = &b->rec[i];
        if (r->at_a == KL_AT_X) from = pair_at(p, npair, r->a);
        else if (r->kind == KL_REC_GEMM && r->at_b == KL_AT_X) from = pair_at(p, npair, r->b);
        row[from].records++;
        row[from].flop += kl_rec_flop(r);
    }
}

static kl_status make_cells(kl_dmrg_plan *plan, const kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = plan->npair;
    part *p = NULL;
    struct kl_dmrg_cell *row = NULL;
    KL_TRY(kl_alloc(&p, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&row, n, KL_MEM_MISC, err));
    for (int k = 0; k < n; k++) p[k] = (part){plan->pair[k].at, k};
    qsort(p, (size_t)n, sizeof *p, by_place);
    for (int i = 0; i < b->ngroup; i++) {
        const int to = pair_at(p, n, b->group[i].y);
        int used = 0;
        memset(row, 0, (size_t)n * sizeof *row);
        add_group(b, &b->group[i], p, n, row);
        for (int k = 0; k < n; k++) used += row[k].records > 0;
        KL_TRY(kl_realloc(&plan->cell, plan->ncell + used, KL_MEM_MISC, err));
        for (int k = 0; k < n; k++)
            if (row[k].records > 0)
                plan->cell[plan->ncell++] = (struct kl_dmrg_cell){to, k, row[k].records, row[k].flop};
    }
out:
    kl_free(&p);
    kl_free(&row);
    return st;
}

/* Pairs of sectors, those of the most work first; the lists that a step runs move to the plan. */
static kl_status take_lists(const kl_dmrg_opts *o, kl_dmrg_plan *plan, middle *mid, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_layout *const lay = &mid->lay;
    const kl_basis *const row = &mid->row->basis, *const col = &mid->col->basis;
    KL_TRY(kl_alloc(&plan->pair, lay->npair, KL_MEM_MISC, err));
    for (int i = 0, g = 0; i < lay->nsec; i++) {
        const int j = lay->pair[i];
        if (j < 0) continue;
        const kl_group *const group = &mid->batch.group[g++];
        plan->pair[plan->npair++] =
            (struct kl_dmrg_pair){row->q[i], col->q[j], row->dim[i], col->dim[j], group->y, group->flop};
    }
    qsort(plan->pair, (size_t)plan->npair, sizeof *plan->pair, by_flop);
    KL_TRY(make_cells(plan, &mid->batch, err));
    const kl_density d = {.wave = {.row = mid->row, .col = mid->col, .layout = lay}, .nstate = o->nstate};
    KL_TRY(kl_density_records(&d, &plan->density, err));
    KL_TRY(kl_batch_close(&plan->density, err));
    KL_TRY(kl_batch_close(&mid->batch, err));
    mid->batch.lasting = 1;
    plan->apply = mid->batch;
    kl_batch_init(&mid->batch);
out:
    return st;
}

/* Bytes while the variance of a run's last state is measured, which takes more than its sweeps where the
   bases of solvers are small: its canonical form, isometries of both sides, the right ones the state's own,
   and the wavefunctions between them; of a device copies of the left isometries; their products with these
   wavefunctions; operators right of a step, and the step. A device has copies, products, operators and step,
   the host the rest. */
static int64_t measuring_bytes(const kl_exec *ex, const kl_dmrg_opts *o, const middle *mid, int64_t lists)
{
    const int n = mid->e->nsite, c = n / 2 - 1, device = ex->space == KL_SPACE_DEVICE;
    const kl_block *const *const left = (const kl_block *const *)mid->s[0].block,
                                 *const *const right = (const kl_block *const *)mid->s[1].block;
    const int64_t dim = mid->two > 0 ? mid->two : mid->lay.n,
                  packs = mid->l->npack + (mid->two > 0 ? mid->l->npack : mid->r->npack);
    const double states = (double)left[c]->basis.total * (double)right[c + 2]->basis.total;
    int64_t held = device ? 0 : dim * o->nstate, beyond = 0, most = 0;
    for (int p = 0; p < n; p++) {
        const int64_t l = mid->s[0].iso[p + 1 < n ? p + 1 : n - 1], r = mid->s[1].iso[p > 0 ? p : 1];
        held += 2 * l + (device ? 0 : r);
    }
    for (int cut = 1; cut < n && !device; cut++)
        for (int k = 0; k < left[cut]->basis.nsec; k++)
            held += (int64_t)left[cut]->basis.dim[k] * left[cut]->basis.dim[k];
    for (int p = n - 2; p >= 0; p--) {
        const double here = (double)left[p]->basis.total * (double)right[p + 2]->basis.total / states;
        const double step = (double)(2 * dim + packs) + (double)lists / 8;
        beyond += right[p + 2]->ndata;
        const int64_t sum = beyond + left[p]->ndata + (int64_t)(here < 1 ? here * step : step);
        if (sum > most) most = sum;
    }
    return 8 * (held + most) / 8 * (device ? 9 : 8); /* pools round up */
}

/* Of the whole process that has so many bytes of ours: the program and its libraries, and what lies free
   between blocks (0 to a fifth). */
static int64_t process_bytes(int64_t ours)
{
    const int64_t program = 17000000;
    return program + ours + ours / 10;
}

/* Sizes, and the memory at the fullest moment: blocks of one side up to the middle and of the other side from
   there, with the solver's vectors. */
static void count_memory(const kl_exec *ex, const kl_dmrg_opts *o, const middle *mid, kl_dmrg_plan *plan)
{
    const int n = plan->nsite, c = n / 2 - 1;
    const kl_basis *const row = &mid->row->basis;
    const int64_t dim = mid->lay.n;
    int64_t blocks = 0, density = 0;
    for (int k = 1; k <= c + 1; k++) blocks += mid->s[0].bytes[k];
    for (int k = c + 1; k < n; k++) blocks += mid->s[1].bytes[k];
    const kl_eig_opts eig = {.solver = o->solver,
                             .nroot = o->nstate,
                             .max_basis = kl_engine_basis(o->max_basis, o->nstate, kl_dmrg_max_apply(o))};
    /* psi, psi of the next centre, diagonal */
    const int64_t vectors =
        8 * (dim * (2 * o->nstate + 1) + 2 * mid->two * o->nstate + kl_eig_work_doubles(&eig, dim));
    for (int i = 0; i < row->nsec; i++) {
        /* the matrices, on the executor or here, their vectors, and what these are made of */
        density += 24 * (int64_t)row->dim[i] * row->dim[i];
        if (row->dim[i] > plan->matrix_max) plan->matrix_max = row->dim[i];
    }
    const int64_t packs = mid->base_bytes + blocks + 8 * mid->centre,
                  parts = (mid->l->npart + mid->r->npart) * (int64_t)sizeof(kl_part);
    /* intermediates: of H x those of each thread; a device has those of all outputs at a time, and of growth
       after it */
    int64_t solve = vectors + 8 * mid->batch.nwork * ex->nthread, all_work = 0;
    for (int i = 0; i < mid->batch.ngroup; i++) all_work += mid->batch.group[i].nwork;
    if (ex->space == KL_SPACE_DEVICE) {
        const int64_t growth = 8 * growth_doubles(mid->l, &mid->s[0].block[c + 1]->basis);
        solve = vectors + 8 * all_work;
        if (growth > solve) solve = growth;
    }
    plan->memory_bytes = packs + parts + density + solve + mid->batch.nrec * (int64_t)sizeof(kl_rec);
    /* the lists of noise, when those of H x are gone */
    const int64_t noise = packs + parts + density + 8 * dim * (2 * o->nstate + 1) + mid->noise_bytes;
    if (noise > plan->memory_bytes) plan->memory_bytes = noise;
    if (ex->space == KL_SPACE_DEVICE) plan->memory_bytes += plan->memory_bytes / 8; /* pools round up */
    /* before the products, while sums are listed */
    const int64_t listing =
        packs + parts + (mid->l->list_bytes > mid->r->list_bytes ? mid->l->list_bytes : mid->r->list_bytes);
    if (listing > plan->memory_bytes) plan->memory_bytes = listing;
    plan->sweep_bytes = plan->memory_bytes;
    plan->measuring_bytes =
        measuring_bytes(ex, o, mid,
                        ex->space == KL_SPACE_DEVICE
                            ? 8 * all_work
                            : parts + 2 * mid->batch.nrec * (int64_t)sizeof(kl_rec) + 8 * mid->batch.nwork);
    plan->states = kl_basis_states(mid->e->terms->model, &mid->s[0].block[c + 1]->basis);
    plan->dim = dim;
    plan->nsector = mid->lay.npair;
    plan->nrecord = mid->batch.nrec;
    plan->bond_op_max = mid->e->mpo->nop_max;
    plan->bond_op_mid = mid->e->mpo->nop[n / 2];
    plan->flop_apply = mid->batch.flop;
    plan->solver_doubles = kl_eig_work_doubles(&eig, dim);
    plan->max_basis = eig.max_basis;
    plan->operator_doubles = blocks / 8;
    /* the state itself, too */
    plan->least_bytes = kl_engine_least_bytes(dim, o->nstate) + 8 * dim * o->nstate;
}

/* In all, of the sweeps' and of what is measured; begin: while terms and operators' growth are made. */
static void sum_memory(const kl_exec *ex, int64_t begin, kl_dmrg_plan *plan)
{
    plan->memory_bytes =
        plan->sweep_bytes > plan->measuring_bytes ? plan->sweep_bytes : plan->measuring_bytes;
    if (ex->space == KL_SPACE_DEVICE) {
        /* the executor's own, without the blocks that the measured rates have left waiting */
        plan->memory_bytes += kl_mem_device_using_bytes();
        plan->device_bytes = kl_pool_most(plan->memory_bytes);
        if (ex->most_bytes > 0 && ex->most_bytes < plan->device_bytes) plan->device_bytes = ex->most_bytes;
    } else {
        if (begin > plan->memory_bytes) plan->memory_bytes = begin;
        plan->process_bytes = process_bytes(plan->memory_bytes);
    }
}

/* Products with H at a bond. */
static int products_of(const kl_dmrg_opts *o)
{
    enum { PRODUCTS = 5 }; /* where fewer are not asked for */
    return o->max_apply > 0 && o->max_apply < PRODUCTS ? o->max_apply : PRODUCTS;
}

/* The work of the bond whose left block has c sites, in some unit: states of both blocks, and the operators
   of the cut. */
static double bond_work(const middle *mid, int c)
{
    const double left = (double)mid->s[0].block[c]->basis.total,
                 right = (double)mid->s[1].block[c + 2]->basis.total;
    return left * right * (left + right) * mid->e->mpo->nop[c + 1];
}

/* Steps over all bonds by their work, in steps at the middle. */
static double steps_like_middle(const middle *mid, int n)
{
    double sum = 0;
    for (int c = 0; c + 2 <= n; c++) sum += bond_work(mid, c);
    const double at_middle = bond_work(mid, n / 2 - 1);
    return at_middle > 0 ? sum / at_middle : 1;
}

static kl_status count_seconds(kl_exec *ex, const kl_dmrg_opts *o, const middle *mid, kl_dmrg_plan *plan,
                               kl_err *err)
{
    kl_status st = KL_OK;
    const int n = plan->nsite;
    const double times =
        plan->halves ? 1 : 2; /* there and back over half of the lattice, or over all of it */
    const kl_basis *const row = &mid->row->basis, *const kept = &mid->s[0].block[n / 2]->basis;
    kl_plan_sector *sector = NULL;
    kl_plan_middle m = {.nstate = o->nstate,
                        .narrow = plan->sites == 1,
                        .mean_rows = (int)(mid->lay.npair ? row->total / row->nsec : 4),
                        .nproduct = plan->products,
                        .flop = plan->flop_apply,
                        .nrecord = (double)plan->nrecord,
                        .dim = plan->dim,
                        .list_seconds = mid->list_seconds,
                        .nstep = times * (n > 2 ? n - 2 : 1),
                        .growth_flop = growth_flop(mid->l, kept),
                        .nlike = times * steps_like_middle(mid, n)};
    KL_TRY(kl_alloc(&sector, row->nsec, KL_MEM_WORK, err));
    for (int k = 0; k < row->nsec; k++) {
        const int j = mid->lay.pair[k], i = kl_basis_find(kept, row->q[k]);
        if (j < 0) continue;
        sector[m.nsector++] = (kl_plan_sector){row->dim[k], mid->col->basis.dim[j], i < 0 ? 0 : kept->dim[i]};
    }
    m.sector = sector;
    KL_TRY(kl_plan_seconds(ex, &m, plan->seconds_part, &plan->rate, err));
out:
    kl_free(&sector);
    return st;
}

/* Bytes on the device of the block at a cut, which bytes[cut] counts with its isometry here and there. */
static double there_bytes(const kl_plan_side *s, int cut)
{
    return ((double)s->bytes[cut] + 8.0 * (double)s->block[cut]->ndata) / 2;
}

/* What each bond asks of the device, as the middle one does: vectors by the states of both sides. */
static void list_bonds(const middle *mid, const kl_dmrg_plan *plan, int nstate, kl_plan_bond *bond)
{
    const int n = plan->nsite, at = n / 2 - 1;
    const kl_plan_side *const s = mid->s;
    const double states = (double)s[0].block[at]->basis.total * (double)s[1].block[at + 2]->basis.total,
                 operators = (double)(s[0].block[at]->ndata + s[1].block[at + 2]->ndata),
                 middle_work = bond_work(mid, at);
    for (int c = 0; c + 2 <= n; c++) {
        const kl_block *const left = s[0].block[c], *const right = s[1].block[c + 2];
        const double share = (double)left->basis.total * (double)right->basis.total / states;
        kl_plan_bond *const b = &bond[c];
        *b = (kl_plan_bond){
            .work = middle_work > 0 ? bond_work(mid, c) / middle_work : 0,
            .operator_bytes = operators > 0 ? 8.0 * (double)plan->centre_doubles *
                                                  (double)(left->ndata + right->ndata) / operators
                                            : 0,
            .least_bytes = (double)kl_engine_least_bytes((int64_t)(share * (double)plan->dim), nstate) +
                           9.0 * share * (double)plan->dim * nstate, /* wavefunctions, before any solver */
            .vector_bytes = 8.0 * share * (double)plan->solver_doubles,
            .block_bytes = there_bytes(&s[0], c + 1)};
        for (int k = 1; k <= c; k++) b->kept_bytes += there_bytes(&s[0], k);
        for (int k = c + 2; k < n; k++) b->kept_bytes += there_bytes(&s[1], k);
    }
}

/* Seconds of a step that moves blocks, beside their copies: 0.2 s a sweep of 8x4 Hubbard with 1500 states at
   a quarter of the memory, CUDA and target regions alike (H100 and H200). */
#define MOVING_STEP 3e-3

/* What the device's memory, where it is less than a run wants, adds to a sweep. */
static kl_status count_beyond(kl_exec *ex, const kl_dmrg_opts *o, const middle *mid, kl_dmrg_plan *plan,
                              kl_err *err)
{
    kl_status st = KL_OK;
    kl_plan_bond *bond = NULL;
    const int64_t room = ex->vt.room(ex);
    plan->apply_seconds = plan->rate > 0 ? plan->flop_apply / plan->rate : 0;
    if (plan->nway == 0 || room == INT64_MAX || !ex->vt.copy_async) goto out;
    KL_TRY(kl_alloc(&bond, plan->nsite, KL_MEM_WORK, err));
    KL_TRY(kl_bus_measure(ex, &plan->bus, err));
    list_bonds(mid, plan, o->nstate, bond);
    const kl_plan_rates r = {.room = (double)room,
                             .up = plan->bus.up,
                             .down = plan->bus.down,
                             .lock = plan->bus.lock,
                             .seconds = plan->apply_seconds,
                             .moved_bytes = (double)plan->way[KL_PROJECTION_NOSTORAGE - 1].moved_bytes,
                             .list = fmax(0, plan->way[KL_PROJECTION_NOSTORAGE - 1].seconds -
                                                 plan->way[KL_PROJECTION_GROUPED - 1].seconds),
                             .wait = MOVING_STEP,
                             .nproduct = plan->products};
    plan->beyond = kl_plan_beyond_of(plan->nsite - 1, bond, plan->nsite / 2 - 1, &r);
    plan->seconds_part[KL_PLAN_BUS] = plan->beyond.seconds;
out:
    kl_free(&bond);
    return st;
}

/* The memory of sweeps beside the settled ones of plan->m states: two sites are optimized together where
   noise opened sectors; held: bytes of what the run keeps meanwhile. */
static kl_status count_other(const kl_terms *terms, kl_exec *ex, kl_exec *dry, const kl_dmrg_opts *o,
                             kl_plan_keep keep, int64_t held, kl_dmrg_plan *plan, kl_err *err)
{
    kl_status st = KL_OK;
    middle mid = {0};
    kl_dmrg_plan p = {.m = keep.m, .nsite = plan->nsite, .sites = keep.opened > 0 ? 2 : plan->sites};
    kl_batch_init(&mid.batch);
    KL_TRY(make_middle(terms, ex, dry, o, keep, &p, &mid, err));
    count_memory(ex, o, &mid, &p);
    const int64_t most = p.sweep_bytes + held;
    if (most > plan->sweep_bytes) plan->sweep_bytes = most;
out:
    clear_middle(&mid, terms->nsite);
    return st;
}

/* Of all sweeps: those with noise keep more states, the first has the products that it begins with, and
   behind few states a trial keeps more. */
static kl_status count_all(const kl_terms *terms, kl_exec *ex, kl_exec *dry, const kl_dmrg_opts *o,
                           kl_dmrg_plan *plan, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_plan_keep noisy = kl_plan_keeps(o, plan->m), first = kl_plan_begins(o, plan->m);
    const int trial = kl_dmrg_trial_m(plan->m);
    kl_dmrg_opts guarded = *o;
    /* of the automatic schedule's sweeps with noise the first three carry guards */
    if (o->nsweep == 0 && plan->m <= KL_FIRST_MANY * 8 / 5 && o->nstate + KL_NGUARD <= KL_MAX_STATE)
        guarded.nstate += KL_NGUARD;
    if (noisy.opened > 0) KL_TRY(count_other(terms, ex, dry, &guarded, noisy, 0, plan, err));
    if (first.m > 0) KL_TRY(count_other(terms, ex, dry, &guarded, first, 0, plan, err));
    if (trial > plan->m)
        KL_TRY(count_other(terms, ex, dry, o, (kl_plan_keep){.m = trial},
                           ex->space == KL_SPACE_DEVICE ? 0 : o->held_bytes, plan, err));
out:
    return st;
}

kl_status kl_dmrg_make_plan(const kl_terms *terms, kl_exec *ex, const kl_dmrg_opts *o, int m,
                            kl_dmrg_plan *plan, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec dry = *ex;
    middle mid = {0};
    kl_batch_init(&mid.batch);
    dry.vt.alloc = dry_alloc;
    dry.vt.release = dry_release;
    dry.vt.upload = dry_upload;
    dry.vt.fill = dry_fill;
    dry.vt.batch_prepare = dry_prepare;
    dry.vt.batch_apply = dry_apply;
    dry.vt.batch_release = dry_batch_release;
    *plan = (kl_dmrg_plan){.m = m,
                           .nsite = terms->nsite,
                           .halves = !o->whole_sweeps && kl_halves_possible(terms, o->target),
                           .sites = o->sites == KL_SITES_TWO || terms->nsite < 4 ? 2 : 1,
                           .products = products_of(o)};
    KL_TRY(make_middle(terms, ex, &dry, o, (kl_plan_keep){.m = m}, plan, &mid, err));
    count_memory(ex, o, &mid, plan);
    KL_TRY(count_seconds(ex, o, &mid, plan, err));
    KL_TRY(take_lists(o, plan, &mid, err));
    KL_TRY(plan_ways(plan, ex, err));
    KL_TRY(count_beyond(ex, o, &mid, plan, err));
    for (int k = 0; k < KL_NPLAN; k++) plan->seconds_sweep += plan->seconds_part[k];
    if (plan->sites == 1 && kl_settle_planned(o, m))
        plan->seconds_settled = kl_plan_settled(plan->seconds_part);
    clear_middle(&mid, terms->nsite);
    KL_TRY(count_all(terms, ex, &dry, o, plan, err));
    sum_memory(ex, mid.begin_bytes, plan);
out:
    clear_middle(&mid, terms->nsite);
    if (st != KL_OK) kl_dmrg_plan_clear(plan);
    return st;
}

void kl_dmrg_plan_clear(kl_dmrg_plan *plan)
{
    kl_free(&plan->pair);
    kl_free(&plan->cell);
    kl_batch_clear(&plan->apply);
    kl_batch_clear(&plan->density);
}
