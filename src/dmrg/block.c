/* Operators of blocks and enlarged blocks.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/block.h"
#include "dmrg/scratch.h"
#include "base/mem.h"
#include "dmrg/channel.h"
#include "model/wigner.h"
#include "phase.h"
#include <string.h>

/* Charge shift of operator b of a cut as it acts on the block of one side. */
static kl_qn shift_of(const kl_mpo *m, kl_side side, int cut, int b)
{
    const kl_qn s = m->op[cut][b].shift;
    return side == KL_LEFT ? s : kl_qn_sub(m->model, kl_qn_zero(), s);
}

/* dst and src of every (operator, sector) of a basis. */
static void connect(const kl_mpo *m, kl_side side, int cut, const kl_basis *basis, int *dst, int *src)
{
    const int n = basis->nsec, spin = kl_model_spin(m->model);
    memset(src, -1, (size_t)m->nop[cut] * (size_t)n * sizeof *src);
    for (int b = 0; b < m->nop[cut]; b++) {
        const kl_qn shift = shift_of(m, side, cut, b);
        for (int i = 0; i < n; i++) {
            const kl_qn q = kl_qn_add(m->model, basis->q[i], shift);
            const int closed = spin < 0 || kl_triangle(basis->q[i].v[spin], m->op[cut][b].rank, q.v[spin]);
            const int j = closed ? kl_basis_find(basis, q) : -1;
            dst[b * n + i] = j;
            if (j >= 0) src[b * n + j] = i;
        }
    }
}

/* Matrices begin at even offsets, where a GPU can load two numbers at once. */
static int64_t even(int64_t n) { return n + n % 2; }

kl_status kl_block_create(kl_exec *ex, const kl_mpo *mpo, kl_side side, int cut, const kl_basis *basis,
                          kl_block **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_block *b = NULL;
    const int n = basis->nsec, nop = mpo->nop[cut];
    KL_TRY(kl_alloc(&b, 1, KL_MEM_BLOCK, err));
    *b = (kl_block){.side = side, .cut = cut, .mpo = mpo, .nop = nop, .ex = ex};
    KL_TRY(kl_basis_copy(basis, &b->basis, err));
    KL_TRY(kl_alloc(&b->dst, (int64_t)nop * n, KL_MEM_BLOCK, err));
    KL_TRY(kl_alloc(&b->src, (int64_t)nop * n, KL_MEM_BLOCK, err));
    KL_TRY(kl_alloc(&b->off, (int64_t)nop * n, KL_MEM_BLOCK, err));
    connect(mpo, side, cut, basis, b->dst, b->src);
    for (int k = 0; k < nop; k++)
        for (int i = 0; i < n; i++) {
            const int j = b->dst[k * n + i];
            b->off[k * n + i] = -1;
            if (j < 0 || kl_block_identity(b, k)) continue;
            b->off[k * n + i] = b->ndata;
            b->ndata += even((int64_t)basis->dim[j] * basis->dim[i]);
        }
    KL_TRY(kl_exec_alloc_operators(ex, b->ndata, &b->data, err));
out:
    if (st != KL_OK) kl_block_destroy(&b);
    *out = b;
    return st;
}

kl_status kl_block_create_edge(kl_exec *ex, const kl_mpo *mpo, kl_side side, kl_qn target, kl_block **out,
                               kl_err *err)
{
    kl_qn q = side == KL_LEFT ? kl_qn_edge(mpo->model, target) : kl_qn_zero();
    int dim = 1;
    const kl_basis basis = {.nsec = 1, .q = &q, .dim = &dim, .total = 1};
    return kl_block_create(ex, mpo, side, side == KL_LEFT ? 0 : mpo->nsite, &basis, out, err);
}

void kl_block_destroy(kl_block **pb)
{
    kl_block *const b = *pb;
    if (!b) return;
    if (b->ex) b->ex->vt.release(b->ex, &b->data);
    if (b->file) kl_scratch_close(&(int){b->file - 1});
    kl_basis_clear(&b->basis);
    kl_free(&b->dst);
    kl_free(&b->src);
    kl_free(&b->off);
    kl_free(pb);
}

static kl_status add_part(kl_bigop *g, int64_t from, kl_part x, kl_err *err)
{
    if (x.off < 0) /* identities between the same states become one */
        for (int64_t i = from; i < g->npart; i++)
            if (g->part[i].off < 0 && g->part[i].row == x.row && g->part[i].col == x.col) {
                g->part[i].coef += x.coef;
                return KL_OK;
            }
    if (g->npart == g->cap_part) {
        const int64_t cap = 2 * g->cap_part + 256;
        const kl_status st = kl_realloc(&g->part, cap, KL_MEM_RECORD, err);
        if (st != KL_OK) return st;
        g->cap_part = cap;
    }
    g->part[g->npart++] = x;
    return KL_OK;
}

/* sums are made for parts of one matrix, or for all of an operator's sector */
typedef enum repack_unit { PLACES, WHOLE } repack_unit;

static int same_place(const kl_part *a, const kl_part *b) { return a->row == b->row && a->col == b->col; }

static kl_rec sum_record(const kl_bigop *g, const kl_part *p, int64_t to, int ld)
{
    if (p->off < 0)
        return (kl_rec){.kind = KL_REC_FILL,
                        .beta = 1,
                        .at_c = KL_AT_Y,
                        .m = 1,
                        .n = p->nrow,
                        .ldc = ld + 1,
                        .c = to,
                        .alpha = p->coef};
    return (kl_rec){.kind = KL_REC_ADD,
                    .ta = p->dag,
                    .beta = 1,
                    .at_a = (uint8_t)kl_bigop_at(g, p),
                    .at_c = KL_AT_Y,
                    .m = p->nrow,
                    .n = p->ncol,
                    .lda = p->ld,
                    .ldc = ld,
                    .a = p->off,
                    .c = to,
                    .alpha = p->coef};
}

/* The parts of one operator and sector that are added to each matrix, in their order: for list p the parts
   head[p], next[head[p]] and so on to -1. WHOLE: all fall on one. Returns the number of lists. */
static int gather(const kl_bigop *g, repack_unit unit, int64_t from, int64_t to, int64_t *head, int64_t *tail,
                  int64_t *next)
{
    int n = 0;
    for (int64_t i = from; i < to; i++) {
        int p = 0;
        while (p < n && unit == PLACES && !same_place(&g->part[head[p]], &g->part[i])) p++;
        next[i - from] = -1;
        if (p == n) head[n++] = i;
        else next[tail[p] - from] = i;
        tail[p] = i;
    }
    return n;
}

/* Replaces parts by sums of them in a new pack. */
static kl_status repack(kl_bigop *g, repack_unit unit, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = g->block->ex;
    const kl_basis *const basis = &g->enlarged->basis;
    const int n = basis->nsec;
    kl_batch batch;
    kl_part *part = NULL;
    int64_t *first = NULL, *list = NULL, npart = 0, npack = 0, most = 0;
    kl_dptr pack = {0};
    kl_batch_init(&batch);
    KL_TRY(kl_alloc(&first, (int64_t)g->nop * n + 1, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&part, g->npart, KL_MEM_RECORD, err));
    for (int64_t at = 0; at < (int64_t)g->nop * n; at++)
        if (g->first[at + 1] - g->first[at] > most) most = g->first[at + 1] - g->first[at];
    KL_TRY(kl_alloc(&list, 3 * most, KL_MEM_RECORD, err));
    int64_t *const head = list, *const tail = list + most, *const next = list + 2 * most;
    for (int b = 0; b < g->nop; b++)
        for (int c = 0; c < n; c++) {
            const int64_t at = (int64_t)b * n + c, from = g->first[at];
            const int identity = kl_bigop_identity(g, b),
                      nplace = gather(g, unit, from, g->first[at + 1], head, tail, next);
            first[at] = npart;
            for (int p = 0; p < nplace; p++) {
                const kl_part *const one = &g->part[head[p]];
                const int alone = head[p] == tail[p];
                /* stays as it is; the identity is never multiplied */
                if (identity || (unit == PLACES && alone)) {
                    part[npart++] =
                        unit == PLACES
                            ? *one
                            : (kl_part){.nrow = basis->dim[c], .ncol = basis->dim[c], .off = -1, .coef = 1};
                    continue;
                }
                const int rows = unit == PLACES ? one->nrow : basis->dim[g->dst[at]],
                          cols = unit == PLACES ? one->ncol : basis->dim[c];
                KL_TRY(kl_batch_open_group(&batch, npack, (int64_t)rows * cols, err));
                for (int64_t j = head[p]; j >= 0; j = next[j - from]) {
                    const kl_part *const q = &g->part[j];
                    KL_TRY(kl_batch_reserve(&batch, 1, err));
                    *kl_batch_push(&batch) = sum_record(
                        g, q, npack + (unit == PLACES ? 0 : q->row + (int64_t)q->col * rows), rows);
                }
                kl_batch_close_group(&batch, 0);
                part[npart++] = (kl_part){.row = unit == PLACES ? one->row : 0,
                                          .nrow = rows,
                                          .col = unit == PLACES ? one->col : 0,
                                          .ncol = cols,
                                          .ld = rows,
                                          .packed = 1,
                                          .off = npack,
                                          .coef = 1};
                npack += even((int64_t)rows * cols);
            }
        }
    first[(int64_t)g->nop * n] = npart;
    batch.zero = 1;
    kl_bigop_bases(g, &batch);
    if (npack) {
        KL_TRY(kl_exec_alloc_operators(ex, npack, &pack, err));
        KL_TRY(kl_batch_run(&batch, ex, g->block->data, pack, err));
    }
    kl_free(&g->part);
    kl_free(&g->first);
    ex->vt.release(ex, &g->pack);
    g->part = part, g->first = first, g->npart = npart, g->cap_part = npart;
    g->pack = pack, g->npack = npack;
    part = NULL, first = NULL, pack.addr = 0;
out:
    kl_batch_clear(&batch);
    ex->vt.release(ex, &pack);
    kl_free(&list);
    kl_free(&part);
    kl_free(&first);
    return st;
}

kl_status kl_bigop_create(const kl_block *block, const kl_enlarged *e, int pos, kl_bigop **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_bigop *g = NULL;
    int *odd = NULL; /* of the states of the site, or of the sectors of the left block */
    const kl_mpo *const m = block->mpo;
    const int right = block->side == KL_RIGHT, n = e->basis.nsec, nb = block->basis.nsec, d = e->d;
    const int cut = right ? pos : pos + 1, spin = kl_model_spin(m->model);
    const kl_grow_list *const list = right ? m->right[pos] : m->left[pos];
    KL_TRY(kl_alloc(&g, 1, KL_MEM_RECORD, err));
    *g = (kl_bigop){.block = block, .enlarged = e, .cut = cut, .nop = m->nop[cut]};
    KL_TRY(kl_alloc(&g->dst, (int64_t)g->nop * n, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&g->src, (int64_t)g->nop * n, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&g->first, (int64_t)g->nop * n + 1, KL_MEM_RECORD, err));
    connect(m, block->side, cut, &e->basis, g->dst, g->src);
    KL_TRY(kl_alloc(&odd, right ? d : nb, KL_MEM_RECORD, err));
    for (int k = 0; k < (right ? d : nb); k++)
        odd[k] =
            kl_qn_odd(m->model, right ? kl_qn_of(m->model, e->site->state_charge[k]) : block->basis.q[k]);
    for (int b = 0; b < g->nop; b++)
        for (int c = 0; c < n; c++) {
            const int64_t from = g->npart;
            g->first[b * n + c] = from;
            const int to = g->dst[b * n + c];
            if (to < 0) continue;
            for (int64_t r = list[b].first; r < list[b].first + list[b].n; r++) {
                const kl_grow *const w = &m->grow[r];
                const kl_cut_op *const in = &m->op[block->cut][w->in];
                const kl_site_op *const o = &e->site->op[w->op];
                const int identity = kl_block_identity(block, w->in);
                for (int k = 0; k < o->nelem; k++) {
                    const int s = o->elem[k].col, t = o->elem[k].row;
                    const int i = e->part_sec[c * d + s];
                    if (i < 0) continue;
                    const int j = identity ? i
                                  : w->dag ? block->src[w->in * nb + i]
                                           : block->dst[w->in * nb + i];
                    if (j < 0 || e->home[j * d + t] != to) continue;
                    const int sign =
                        right ? kl_phase_record(in->odd, odd[s]) : kl_phase_record(o->odd, odd[i]);
                    const kl_junction at = {block, e, g->cut, b, w, o, {i, j}, {s, t}, {c, to}};
                    const double factor = spin < 0 ? 1.0 : kl_channel_factor(&at);
                    if (factor == 0) continue;
                    const kl_part x = {.row = e->part_off[to * d + t],
                                       .nrow = block->basis.dim[j],
                                       .col = e->part_off[c * d + s],
                                       .ncol = block->basis.dim[i],
                                       .ld = w->dag ? block->basis.dim[i] : block->basis.dim[j],
                                       .dag = (uint8_t)w->dag,
                                       .off = identity ? -1 : block->off[w->in * nb + (w->dag ? j : i)],
                                       .coef = w->coef * o->elem[k].value * sign * factor};
                    KL_TRY(add_part(g, from, x, err));
                }
            }
        }
    g->first[(int64_t)g->nop * n] = g->npart;
    KL_TRY(repack(g, PLACES, err));
out:
    kl_free(&odd);
    if (st != KL_OK) kl_bigop_destroy(&g);
    *out = g;
    return st;
}

int kl_bigop_identity(const kl_bigop *g, int op)
{
    const kl_cut_op *const o = &g->block->mpo->op[g->cut][op];
    return g->block->side == KL_LEFT ? o->left_identity : o->right_identity;
}

int64_t kl_bigop_dense_doubles(const kl_bigop *g)
{
    const kl_basis *const basis = &g->enlarged->basis;
    int64_t sum = 0;
    for (int b = 0; b < g->nop; b++)
        for (int c = 0; c < basis->nsec && !kl_bigop_identity(g, b); c++) {
            const int64_t at = (int64_t)b * basis->nsec + c;
            if (g->first[at + 1] > g->first[at]) sum += even((int64_t)basis->dim[g->dst[at]] * basis->dim[c]);
        }
    return sum;
}

kl_status kl_bigop_make_dense(kl_bigop *g, kl_err *err) { return repack(g, WHOLE, err); }

void kl_bigop_bases(const kl_bigop *g, kl_batch *b)
{
    b->base[g->block->side == KL_LEFT ? KL_AT_LEFT : KL_AT_RIGHT] = g->block->data;
    b->base[g->block->side == KL_LEFT ? KL_AT_LEFT_PACK : KL_AT_RIGHT_PACK] = g->pack;
}

void kl_bigop_destroy(kl_bigop **pg)
{
    kl_bigop *const g = *pg;
    if (!g) return;
    g->block->ex->vt.release(g->block->ex, &g->pack);
    kl_free(&g->dst);
    kl_free(&g->src);
    kl_free(&g->first);
    kl_free(&g->part);
    kl_free(pg);
}
