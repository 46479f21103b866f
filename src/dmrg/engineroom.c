/* Where the device has little memory: see engineroom.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/engineroom.h"
#include "base/mem.h"
#include "dmrg/onesite.h"
#include "dmrg/scratch.h"
#include "solve/davidson.h"

/* Bytes of the vectors of a solve: its diagonal, and columns of a basis. Pools give memory in steps of an
   eighth. */
static int64_t vector_bytes(int64_t n, int ncolumn) { return 9 * (n + 16) * (int64_t)(ncolumn + 1); }

/* Of these, what an eigensolver wants on the device in any case: the shortest basis; intermediate results of
   a list take a quarter of what is free before. */
int64_t kl_engine_least_bytes(int64_t n, int nstate)
{
    const kl_eig_opts shortest = {.nroot = nstate, .max_basis = nstate + 2};
    return vector_bytes(n, kl_davidson_columns(&shortest, n)) / 3 * 4;
}

int kl_engine_lr_fits(kl_exec *ex, int64_t dense_doubles, int64_t n, int nstate)
{
    return !ex->vt.alloc_far || ex->projection == KL_PROJECTION_NOSTORAGE ||
           ex->vt.room(ex) >= 9 * dense_doubles + kl_engine_least_bytes(n, nstate);
}

/* Moves a block's operators; 1: they moved. */
static int move_block(kl_engine *e, kl_block *b, int far)
{
    return b && !b->away && b->ndata > 0 && kl_exec_move_operators(e->ex, far, b->ndata, &b->data);
}

/* What is not used at this centre goes to the host, the farthest first, until the device has `bytes` to
   give. */
void kl_engine_make_room(kl_engine *e, int64_t bytes)
{
    const int c = e->centre;
    if (!e->ex->vt.alloc_far) return;
    for (int far = e->nsite; far > 0 && e->ex->vt.room(e->ex) < bytes; far--)
        for (int side = 0; side < 2 && e->ex->vt.room(e->ex) < bytes; side++) {
            /* a site; its block lies beyond it, as seen from the centre */
            const int p = side ? c + 1 + far : c - far;
            if (p < 0 || p >= e->nsite) continue;
            kl_dptr *const data = side ? &e->right_data[p] : &e->left_data[p];
            const kl_isometry *const iso = side ? e->right[p] : e->left[p];
            if (far > 1) move_block(e, side ? e->right_block[p] : e->left_block[p + 1], 1);
            if (iso && !iso->away) kl_exec_move_operators(e->ex, 1, iso->ndata, data);
        }
}

/* Of both sides of the centre; without a site for the one that was absorbed. */
static void blocks_of_centre(const kl_engine *e, kl_block *block[2])
{
    block[KL_LEFT] = e->left_block[e->centre];
    block[KL_RIGHT] = e->right_block[e->centre + 2];
    if (e->one) block[e->one->side] = e->one->block;
}

static int operators_stay(const kl_engine *e)
{
    return !e->ex->vt.alloc_far || e->ex->projection == KL_PROJECTION_NOSTORAGE;
}

/* Bytes that the pool takes for a block's operators. */
static int64_t taken(const kl_block *b) { return b->ndata * (int64_t)sizeof(double) / 8 * 9; }

/* On the device where that leaves `need` bytes, else on the host. */
static void settle(kl_engine *e, kl_block *const block[2], int64_t need)
{
    kl_exec *const ex = e->ex;
    for (int i = 0; i < 2; i++) {
        if (!block[i]) continue;
        const int64_t room = ex->vt.room(ex);
        if (kl_exec_is_far(ex, block[i]->data)) {
            if (room - taken(block[i]) >= need) move_block(e, block[i], 0);
        } else if (room < need) move_block(e, block[i], 1);
    }
}

void kl_engine_settle(kl_engine *e)
{
    kl_block *block[2];
    if (operators_stay(e)) return;
    blocks_of_centre(e, block);
    if (e->absorb_bytes > 0) { /* no solve yet */
        kl_engine_make_room(e, e->absorb_bytes + taken(block[0]) + taken(block[1]));
        settle(e, block, e->absorb_bytes);
        return;
    }
    const kl_eig_opts all = {.nroot = e->nstate, .max_basis = kl_engine_basis(e->max_basis, e->nstate, 0)};
    const int64_t n = e->layout.n, need = kl_engine_least_bytes(n, e->nstate),
                  most = vector_bytes(n, kl_davidson_columns(&all, n));
    kl_engine_make_room(e, most > need ? most : need);
    /* what the absorbed site's block grew from is not used any more */
    kl_block *const grown = !e->one                   ? NULL
                            : e->one->side == KL_LEFT ? e->left_block[e->centre]
                                                      : e->right_block[e->centre + 2];
    if (e->ex->vt.room(e->ex) < need) move_block(e, grown, 1);
    settle(e, block, need);
}

int kl_engine_spill(kl_engine *e)
{
    kl_block *block[2];
    const kl_eig_opts shortest = {.nroot = e->nstate, .max_basis = e->nstate + 2};
    const int64_t n = e->layout.n;
    if (operators_stay(e) || kl_ranks_size(e->ex) > 1 || e->dense[0] || e->dense[1] ||
        e->ex->vt.room(e->ex) >= vector_bytes(n, kl_davidson_columns(&shortest, n)))
        return 0;
    blocks_of_centre(e, block);
    kl_engine_make_room(e, INT64_MAX);
    const int left = move_block(e, block[KL_LEFT], 1), right = move_block(e, block[KL_RIGHT], 1);
    return left || right;
}

void kl_engine_settle_growth(kl_engine *e, kl_side side)
{
    enum { ROOM = 3 }; /* the block that is made, a truncation's work, what lists take; as large each */
    kl_block *block[2];
    if (operators_stay(e)) return;
    blocks_of_centre(e, block);
    kl_block *const b = block[side];
    if (!b || !kl_exec_is_far(e->ex, b->data)) return;
    kl_engine_make_room(e, (ROOM + 1) * taken(b));
    if (e->ex->vt.room(e->ex) >= (ROOM + 1) * taken(b)) move_block(e, b, 0);
}

void kl_engine_count_memory(kl_engine *e, const kl_bigop *const of[2], const kl_batch *b,
                            const kl_eig_opts *opts)
{
    kl_exec *const ex = e->ex;
    kl_batch_plan plan = {.share = 0};
    const int64_t room = ex->vt.room(ex);
    double work = 0;
    int64_t operators = 0;
    for (int i = 0; i < 2; i++)
        operators += e->dense[i] ? e->dense[i]->npack : of[i]->block->ndata + of[i]->npack;
    for (int i = 0; i < b->ngroup; i++) work += (double)b->group[i].nwork;
    ex->vt.batch_explain(ex, b, &plan);
    e->list = (kl_list_cost){.operator_bytes = 8 * operators,
                             .vector_bytes = 8 * (b->nx + b->ny),
                             .all_work_bytes = 8 * (int64_t)work,
                             .one_work_bytes = 8 * b->nwork,
                             .run_bytes = plan.work_bytes + plan.list_bytes,
                             .moved_bytes = plan.moved_bytes,
                             .basis_bytes = 8 * e->layout.n * kl_davidson_columns(opts, e->layout.n),
                             .free_bytes = ex->space == KL_SPACE_DEVICE && room < INT64_MAX ? room : 0,
                             .share = ex->space != KL_SPACE_DEVICE ? 0
                                      : plan.share > 0             ? plan.share
                                                                   : 1};
}

/* Of the host's memory a block takes what lies there. */
static int64_t host_bytes_of(const kl_engine *e, const kl_block *b)
{
    const int there = e->ex->space == KL_SPACE_HOST || (b && kl_exec_is_far(e->ex, b->data));
    return b && there && !b->away && !b->file ? b->ndata * (int64_t)sizeof(double) : 0;
}

kl_status kl_engine_keep_to_memory(kl_engine *e, int64_t more, kl_err *err)
{
    enum { LEAST = 1 << 12 }; /* smaller ones are not worth a file */
    kl_status st = KL_OK;
    const int c = e->centre;
    if (e->host_bytes == 0 || kl_ranks_size(e->ex) > 1) return KL_OK;
    for (int far = e->nsite; far > 0 && kl_mem_live_total() + more > e->host_bytes; far--)
        for (int side = 0; side < 2; side++) {
            const int cut = side ? c + 2 + far : c - far;
            if (cut < 0 || cut > e->nsite) continue;
            kl_block *const b = side ? e->right_block[cut] : e->left_block[cut];
            if (host_bytes_of(e, b) >= LEAST && kl_mem_live_total() + more > e->host_bytes)
                KL_TRY(kl_block_file(b, e->scratch, err));
        }
out:
    return st;
}

/* lr_bytes decides, not what happens to be in memory: a run that was resumed has other amounts of that, and
   shall have the same bits. */
static int lr_is_limited(const kl_engine *e)
{
    return e->host_bytes > 0 && e->ex->space == KL_SPACE_HOST && kl_ranks_size(e->ex) == 1;
}

kl_status kl_engine_lr_multiplies(kl_engine *e, int64_t doubles, int *fits, kl_err *err)
{
    kl_status st = KL_OK;
    *fits = 1;
    if (!lr_is_limited(e)) goto out;
    const kl_eig_opts o = {.nroot = e->nstate, .max_basis = kl_engine_basis(e->max_basis, e->nstate, 0)};
    const int64_t more =
        doubles * (int64_t)sizeof(double) + vector_bytes(e->layout.n, kl_davidson_columns(&o, e->layout.n));
    *fits = more <= e->lr_bytes;
    if (*fits && e->centre >= 0) KL_TRY(kl_engine_keep_to_memory(e, more, err));
out:
    return st;
}

kl_status kl_engine_lr_grows(kl_engine *e, int64_t doubles, int there, int *fits, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t more = doubles * (int64_t)sizeof(double);
    *fits = !lr_is_limited(e) || more <= e->lr_bytes / 2;
    /* where there is no centre, any block may be in use */
    if (*fits && !there && e->centre >= 0) KL_TRY(kl_engine_keep_to_memory(e, more, err));
out:
    return st;
}

kl_status kl_engine_begin_bond(kl_engine *e, kl_err *err)
{
    const kl_status st = kl_engine_keep_to_memory(e, e->bond_bytes, err);
    e->bond_begin = kl_mem_live_total();
    kl_mem_watch();
    return st;
}

kl_status kl_engine_begin_solve(kl_engine *e, const kl_eig_opts *o, kl_err *err)
{
    if (e->ex->space != KL_SPACE_HOST) return KL_OK;
    return kl_engine_keep_to_memory(e, vector_bytes(e->layout.n, kl_davidson_columns(o, e->layout.n)), err);
}

/* The bond is done: what it took, room for the next one, whose block from a file is wanted soon. */
static kl_status end_bond(kl_engine *e, kl_side side, kl_err *err)
{
    const int ahead = side == KL_LEFT ? e->centre + 3 : e->centre - 1;
    const kl_block *const b = e->centre < 0 || ahead < 0 || ahead > e->nsite ? NULL
                              : side == KL_LEFT                              ? e->right_block[ahead]
                                                                             : e->left_block[ahead];
    if (b && b->file) kl_scratch_expect(b->file - 1);
    if (e->bond_begin > 0) e->bond_bytes = kl_mem_watched_peak() - e->bond_begin;
    return kl_engine_keep_to_memory(e, e->bond_bytes, err);
}

kl_status kl_engine_put_away(kl_engine *e, kl_side side, int pos, kl_err *err)
{
    kl_status st = KL_OK;
    kl_isometry *const iso = side == KL_LEFT ? e->left[pos] : e->right[pos];
    kl_block *const b = side == KL_LEFT ? e->left_block[pos] : e->right_block[pos + 1];
    if (kl_ranks_size(e->ex) == 1) return e->host_bytes > 0 ? end_bond(e, side, err) : KL_OK;
    if (iso && !iso->away) {
        KL_TRY(kl_share_put_away(e->ex, iso->ndata,
                                 side == KL_LEFT ? &e->left_data[pos] : &e->right_data[pos], err));
        iso->away = 1;
    }
    if (b && !b->away && b->ndata > 0) {
        KL_TRY(kl_share_put_away(e->ex, b->ndata, &b->data, err));
        b->away = 1;
    }
out:
    return st;
}

kl_status kl_engine_bring_block(kl_engine *e, kl_block *b, kl_err *err)
{
    kl_status st = KL_OK;
    if (b->file) {
        KL_TRY(kl_engine_keep_to_memory(e, b->ndata * (int64_t)sizeof(double), err));
        KL_TRY(kl_block_unfile(b, err));
    }
    if (!b->away) return KL_OK;
    b->away = 0;
    st = kl_share_bring(e->ex, b->ndata, &b->data, err);
out:
    return st;
}

kl_status kl_engine_bring_isometry(kl_engine *e, kl_side side, int pos, kl_err *err)
{
    kl_isometry *const iso = side == KL_LEFT ? e->left[pos] : e->right[pos];
    if (!iso->away) return KL_OK;
    iso->away = 0;
    return kl_share_bring(e->ex, iso->ndata, side == KL_LEFT ? &e->left_data[pos] : &e->right_data[pos], err);
}

kl_status kl_engine_carry(kl_engine *e, int to, const kl_trunc_opts *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_trunc_info info;
    while (e->centre != to) KL_TRY(kl_engine_move(e, e->centre < to ? 1 : -1, o, &info, err));
out:
    return st;
}
