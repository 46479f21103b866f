/* Operators of blocks and enlarged blocks.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/block.h"
#include "dmrg/scratch.h"
#include "base/mem.h"
#include "base/par.h"
#include "dmrg/channel.h"
#include "dmrg/opstacks.h"
#include "dmrg/opsums.h"
#include "model/wigner.h"
#include "phase.h"
#include <string.h>

/* Charge shift of operator b of a cut as it acts on the block of one side. */
static kl_qn shift_of(const kl_mpo *m, kl_side side, int cut, int b)
{
    const kl_qn s = m->op[cut][b].shift;
    return side == KL_LEFT ? s : kl_qn_sub(m->model, kl_qn_zero(), s);
}

/* An operator before b that leads from the same sectors to the same ones, or -1: of the last one of each of
   the shifts and ranks in seen, to which b is added. */
static int same_before(const kl_mpo *m, int cut, int b, int *nseen, int *seen, int most)
{
    const kl_cut_op *const op = m->op[cut];
    for (int i = 0; i < *nseen; i++)
        if (op[seen[i]].rank == op[b].rank && kl_qn_cmp(op[seen[i]].shift, op[b].shift) == 0) return seen[i];
    if (*nseen < most) seen[(*nseen)++] = b;
    return -1;
}

/* dst and src of every (operator, sector) of a basis. */
static void connect(const kl_mpo *m, kl_side side, int cut, const kl_basis *basis, int *dst, int *src)
{
    enum { SEEN = 128 };
    const int n = basis->nsec, spin = kl_model_spin(m->model);
    int seen[SEEN], nseen = 0;
    memset(src, -1, (size_t)m->nop[cut] * (size_t)n * sizeof *src);
    for (int b = 0; b < m->nop[cut]; b++) {
        const kl_qn shift = shift_of(m, side, cut, b);
        const int same = same_before(m, cut, b, &nseen, seen, SEEN);
        if (same >= 0) {
            memcpy(dst + (int64_t)b * n, dst + (int64_t)same * n, (size_t)n * sizeof *dst);
            memcpy(src + (int64_t)b * n, src + (int64_t)same * n, (size_t)n * sizeof *src);
            continue;
        }
        for (int i = 0; i < n; i++) {
            const kl_qn q = kl_qn_add(m->model, basis->q[i], shift);
            const int closed = spin < 0 || kl_triangle(basis->q[i].v[spin], m->op[cut][b].rank, q.v[spin]);
            const int j = closed ? kl_basis_find(basis, q) : -1;
            dst[b * n + i] = j;
            if (j >= 0) src[b * n + j] = i;
        }
    }
}

kl_status kl_block_create(kl_exec *ex, const kl_mpo *mpo, kl_side side, int cut, const kl_basis *basis,
                          kl_block **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_block *b = NULL;
    kl_kinds kinds = {0};
    const int n = basis->nsec, nop = mpo->nop[cut];
    KL_TRY(kl_alloc(&b, 1, KL_MEM_BLOCK, err));
    *b = (kl_block){.side = side, .cut = cut, .mpo = mpo, .nop = nop, .ex = ex};
    KL_TRY(kl_basis_copy(basis, &b->basis, err));
    KL_TRY(kl_alloc(&b->dst, (int64_t)nop * n, KL_MEM_BLOCK, err));
    KL_TRY(kl_alloc(&b->src, (int64_t)nop * n, KL_MEM_BLOCK, err));
    KL_TRY(kl_alloc(&b->off, (int64_t)nop * n, KL_MEM_BLOCK, err));
    connect(mpo, side, cut, basis, b->dst, b->src);
    KL_TRY(kl_kinds_create(mpo, side == KL_LEFT, cut, &kinds, err));
    for (int64_t k = 0; k < (int64_t)nop * n; k++) b->off[k] = -1;
    for (int g = 0; g < kinds.n; g++)
        for (int i = 0; i < n; i++)
            for (int k = kinds.first[g]; k < kinds.first[g + 1]; k++) {
                const int64_t at = (int64_t)kinds.order[k] * n + i;
                if (b->dst[at] < 0) continue;
                b->off[at] = b->ndata;
                b->ndata += kl_block_room(basis->dim[b->dst[at]], basis->dim[i]);
            }
    KL_TRY(kl_exec_alloc_operators(ex, b->ndata, &b->data, err));
out:
    kl_kinds_clear(&kinds);
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

/* What lies between matrices was never written: it is whatever this memory held before, and is no matter of a
   file. */
static void clear_gaps(kl_block *b)
{
    double *const data = (double *)b->data.addr;
    const int n = b->basis.nsec;
    for (int64_t at = 0; at < (int64_t)b->nop * n; at++) {
        if (b->off[at] < 0) continue;
        const int rows = b->basis.dim[b->dst[at]], cols = b->basis.dim[at % n];
        const int64_t size = (int64_t)rows * cols, room = kl_block_room(rows, cols);
        memset(data + b->off[at] + size, 0, (size_t)(room - size) * sizeof *data);
    }
}

kl_status kl_block_file(kl_block *b, const char *folder, kl_err *err)
{
    int fd;
    clear_gaps(b);
    const kl_status st = kl_scratch_write(folder, (const double *)b->data.addr, b->ndata, &fd, err);
    if (st != KL_OK) return st;
    b->file = fd + 1;
    b->ex->vt.release(b->ex, &b->data);
    return KL_OK;
}

kl_status kl_block_unfile(kl_block *b, kl_err *err)
{
    kl_status st = KL_OK;
    if (!b->file) return KL_OK;
    KL_TRY(kl_exec_alloc_operators(b->ex, b->ndata, &b->data, err));
    KL_TRY(kl_scratch_read(b->file - 1, b->ex, b->data, b->ndata, err));
    kl_scratch_close(&(int){b->file - 1});
    b->file = 0;
out:
    return st;
}

/* While parts are made: where one that is packed lies, in the pack itself or in its operator's own. */
enum {
    IN_PACK = 1,
    OWN_PACK = 2,
};

typedef struct part_list {
    kl_part *part;
    int64_t n, cap;
} part_list;

/* What one thread makes of one operator: its parts, and the sums among them, whose pack begins at 0. */
typedef struct made {
    part_list sector; /* from one sector, as growth records make them: before sums */
    part_list all;
    kl_batch batch;
    int64_t npack;
    int64_t *list, nlist; /* room for gather */
    kl_status st;
    kl_err err;
} made;

typedef struct making {
    kl_bigop *g;
    const kl_opstacks *stacks; /* NULL, or sums of many operators at once, the beginning of the pack */
    const int *odd; /* of the states of the site, or of the sectors of the left block */
    int64_t *first; /* as in kl_bigop, but from the operator's first part on */
    made *op; /* [nop] */
} making;

static void clear_room(made *own)
{
    kl_free(&own->sector.part);
    kl_free(&own->list);
}

static void clear_made(const making *x)
{
    for (int b = 0; x->op && b < x->g->nop; b++) {
        clear_room(&x->op[b]);
        kl_free(&x->op[b].all.part);
        kl_batch_clear(&x->op[b].batch);
    }
}

static int threads_for(const kl_bigop *g)
{
    enum { FEW = 32 };
    return g->nop < FEW ? 1 : g->block->ex->nthread;
}

static kl_status push_part(part_list *l, kl_part x, kl_err *err)
{
    if (l->n == l->cap) {
        const int64_t cap = 2 * l->cap + 64;
        const kl_status st = kl_realloc(&l->part, cap, KL_MEM_RECORD, err);
        if (st != KL_OK) return st;
        l->cap = cap;
    }
    l->part[l->n++] = x;
    return KL_OK;
}

/* Identities between the same states become one. */
static kl_status add_part(part_list *l, kl_part x, kl_err *err)
{
    for (int64_t i = 0; x.off < 0 && i < l->n; i++)
        if (l->part[i].off < 0 && l->part[i].row == x.row && l->part[i].col == x.col) {
            l->part[i].coef += x.coef;
            return KL_OK;
        }
    return push_part(l, x, err);
}

static int same_place(const kl_part *a, const kl_part *b) { return a->row == b->row && a->col == b->col; }

kl_rec kl_bigop_add(const kl_bigop *g, const kl_part *p, int64_t to, int ld)
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
   head[p], next[head[p]] and so on to -1. Returns the number of lists. */
static int gather(int64_t n, const kl_part *part, int64_t *head, int64_t *tail, int64_t *next)
{
    int nlist = 0;
    for (int64_t i = 0; i < n; i++) {
        int p = 0;
        while (p < nlist && !same_place(&part[head[p]], &part[i])) p++;
        next[i] = -1;
        if (p == nlist) head[nlist++] = i;
        else next[tail[p]] = i;
        tail[p] = i;
    }
    return nlist;
}

/* What becomes of the n parts of operator b from sector c. */
static kl_status add_sums(const making *x, int b, int c, int64_t n, const kl_part *part, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_bigop *const g = x->g;
    const int64_t at = (int64_t)b * g->enlarged->basis.nsec + c;
    const int identity = kl_bigop_identity(g, b);
    made *const own = &x->op[b];
    x->first[at] = own->all.n;
    if (3 * n > own->nlist) {
        KL_TRY(kl_realloc(&own->list, 6 * n, KL_MEM_RECORD, err));
        own->nlist = 6 * n;
    }
    int64_t *const head = own->list, *const tail = head + n, *const next = tail + n;
    const int nplace = gather(n, part, head, tail, next);
    for (int p = 0; p < nplace; p++) {
        const kl_part *const one = &part[head[p]];
        const int alone = head[p] == tail[p];
        /* stays as it is; the identity is never multiplied */
        if (identity || alone) {
            KL_TRY(push_part(&own->all, *one, err));
            continue;
        }
        const int rows = one->nrow, cols = one->ncol;
        KL_TRY(kl_batch_open_group(&own->batch, own->npack, (int64_t)rows * cols, err));
        for (int64_t j = head[p]; j >= 0; j = next[j]) {
            KL_TRY(kl_batch_reserve(&own->batch, 1, err));
            *kl_batch_push(&own->batch) = kl_bigop_add(g, &part[j], own->npack, rows);
        }
        kl_batch_close_group(&own->batch, 0);
        KL_TRY(push_part(&own->all,
                         (kl_part){.row = one->row,
                                   .nrow = rows,
                                   .col = one->col,
                                   .ncol = cols,
                                   .ld = rows,
                                   .packed = OWN_PACK,
                                   .off = own->npack,
                                   .coef = 1},
                         err));
        own->npack += kl_block_room(rows, cols);
    }
out:
    return st;
}

/* The parts of all operators one behind the other; first[] counts from the first of them. */
static kl_status collect_parts(const making *x, kl_part **part, int64_t *npart, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = x->g->enlarged->basis.nsec;
    int64_t total = 0, npack = x->stacks ? x->stacks->npack : 0;
    for (int b = 0; b < x->g->nop; b++) {
        if (x->op[b].st != KL_OK) {
            if (err) *err = x->op[b].err;
            return x->op[b].st;
        }
        total += x->op[b].all.n;
    }
    KL_TRY(kl_alloc(part, total, KL_MEM_RECORD, err));
    total = 0;
    for (int b = 0; b < x->g->nop; b++) {
        made *const own = &x->op[b];
        for (int c = 0; c < n; c++) x->first[(int64_t)b * n + c] += total;
        for (int64_t i = 0; i < own->all.n; i++) {
            kl_part *const to = &(*part)[total + i];
            *to = own->all.part[i];
            if (to->packed == OWN_PACK) to->off += npack, to->packed = IN_PACK;
        }
        total += own->all.n;
        npack += own->npack;
        kl_free(&own->all.part);
    }
    x->first[(int64_t)x->g->nop * n] = total;
    *npart = total;
out:
    return st;
}

/* Has task make the parts of every operator, runs their sums, behind those of stacks, and puts both in the
   place of what g has. */
static kl_status make_parts(making *x, kl_par_fn *task, kl_err *err)
{
    kl_status st = KL_OK;
    kl_bigop *const g = x->g;
    kl_exec *const ex = g->block->ex;
    const int64_t nw = x->stacks ? x->stacks->sums->nw : 0;
    kl_batch batch;
    kl_part *part = NULL;
    int64_t npart = 0, npack = 0, nrec = x->stacks ? x->stacks->batch.nrec : 0;
    kl_dptr pack = {0}, w = {0};
    kl_batch_init(&batch);
    KL_TRY(kl_alloc(&x->first, (int64_t)g->nop * g->enlarged->basis.nsec + 1, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&x->op, g->nop, KL_MEM_RECORD, err));
    kl_par_for(threads_for(g), g->nop, task, x);
    KL_TRY(collect_parts(x, &part, &npart, err));
    for (int b = 0; b < g->nop; b++) nrec += x->op[b].batch.nrec;
    /* parts before, of each operator and of all of them; records likewise */
    const int64_t bytes = (g->npart + 2 * npart) * (int64_t)sizeof *part + 2 * nrec * (int64_t)sizeof(kl_rec);
    if (bytes > g->list_bytes) g->list_bytes = bytes;
    KL_TRY(kl_batch_reserve(&batch, nrec, err));
    if (x->stacks) {
        KL_TRY(kl_batch_join(&batch, &x->stacks->batch, 0, err));
        npack = x->stacks->npack;
    }
    for (int b = 0; b < g->nop; b++) {
        KL_TRY(kl_batch_join(&batch, &x->op[b].batch, npack, err));
        npack += x->op[b].npack;
        kl_batch_clear(&x->op[b].batch);
    }
    batch.zero = 1;
    kl_bigop_bases(g, &batch);
    if (nw) {
        KL_TRY(ex->vt.alloc(ex, nw, &w, err));
        KL_TRY(ex->vt.upload(ex, w, x->stacks->sums->w, nw, err));
        batch.base[kl_opstacks_w(g)] = w;
    }
    if (npack) {
        KL_TRY(kl_exec_alloc_operators(ex, npack, &pack, err));
        KL_TRY(kl_batch_run(&batch, ex, g->block->data, pack, err));
    }
    kl_free(&g->part);
    kl_free(&g->first);
    ex->vt.release(ex, &g->pack);
    g->part = part, g->first = x->first, g->npart = npart, g->cap_part = npart;
    g->pack = pack, g->npack = npack;
    part = NULL, x->first = NULL, pack.addr = 0;
out:
    clear_made(x);
    kl_free(&x->op);
    kl_free(&x->first);
    kl_batch_clear(&batch);
    ex->vt.release(ex, &w);
    ex->vt.release(ex, &pack);
    kl_free(&part);
    return st;
}

/* The part of operator b from sector c that a growth record makes by an element of its site operator. */
static kl_status make_part(const making *x, int b, int c, const kl_sum_rest *rest, kl_err *err)
{
    const kl_bigop *const g = x->g;
    const kl_block *const block = g->block;
    const kl_enlarged *const e = g->enlarged;
    const kl_mpo *const m = block->mpo;
    const int nb = block->basis.nsec, d = e->d, to = g->dst[b * e->basis.nsec + c];
    const kl_grow *const w = &m->grow[rest->grow];
    const kl_site_op *const o = &e->site->op[w->op];
    const int identity = kl_block_identity(block, w->in);
    const int s = o->elem[rest->elem].col, t = o->elem[rest->elem].row;
    const int i = e->part_sec[c * d + s];
    if (i < 0) return KL_OK;
    const int j = identity ? i : w->dag ? block->src[w->in * nb + i] : block->dst[w->in * nb + i];
    if (j < 0 || e->home[j * d + t] != to) return KL_OK;
    const kl_junction at = {block, e, g->cut, b, w, o, {i, j}, {s, t}, {c, to}};
    const double factor = kl_junction_factor(&at, x->odd);
    if (factor == 0) return KL_OK;
    const kl_part one = {.row = e->part_off[to * d + t],
                         .nrow = block->basis.dim[j],
                         .col = e->part_off[c * d + s],
                         .ncol = block->basis.dim[i],
                         .ld = w->dag ? block->basis.dim[i] : block->basis.dim[j],
                         .dag = (uint8_t)w->dag,
                         .off = identity ? -1 : block->off[w->in * nb + (w->dag ? j : i)],
                         .coef = w->coef * o->elem[rest->elem].value * factor};
    return add_part(&x->op[b].sector, one, err);
}

/* The parts of operator b from sector c. */
static kl_status make_sector(const making *x, int b, int c, kl_err *err)
{
    kl_status st = KL_OK;
    part_list *const sector = &x->op[b].sector;
    const kl_opsums *const sums = x->stacks->sums;
    const int n = x->g->enlarged->basis.nsec;
    sector->n = 0;
    if (x->g->dst[b * n + c] < 0) goto out;
    for (int64_t r = sums->first_rest[b]; r < sums->first_rest[b + 1]; r++)
        KL_TRY(make_part(x, b, c, &sums->rest[r], err));
    for (int64_t k = sums->first_of[b]; k < sums->first_of[b + 1]; k++) {
        const int place = sums->place_of[k];
        if (x->stacks->at[(int64_t)place * n + c] < 0) continue;
        KL_TRY(add_part(sector, kl_opstacks_part(x->g, x->stacks, place, c, sums->out_of[k]), err));
    }
out:
    if (st == KL_OK) st = add_sums(x, b, c, sector->n, sector->part, err);
    return st;
}

static void make_task(void *self, int64_t b, int thread)
{
    const making *const x = self;
    made *const own = &x->op[b];
    (void)thread;
    for (int c = 0; c < x->g->enlarged->basis.nsec && own->st == KL_OK; c++)
        own->st = make_sector(x, (int)b, c, &own->err);
    clear_room(own);
}

kl_status kl_bigop_create(const kl_block *block, const kl_enlarged *e, int pos, kl_bigop **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_bigop *g = NULL;
    kl_opstacks stacks = {0};
    int *odd = NULL;
    const kl_mpo *const m = block->mpo;
    const int right = block->side == KL_RIGHT, n = e->basis.nsec, nb = block->basis.nsec, d = e->d;
    const int cut = right ? pos : pos + 1;
    KL_TRY(kl_alloc(&g, 1, KL_MEM_RECORD, err));
    *g = (kl_bigop){.block = block, .enlarged = e, .cut = cut, .nop = m->nop[cut]};
    KL_TRY(kl_alloc(&g->dst, (int64_t)g->nop * n, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&g->src, (int64_t)g->nop * n, KL_MEM_RECORD, err));
    connect(m, block->side, cut, &e->basis, g->dst, g->src);
    KL_TRY(kl_alloc(&odd, right ? d : nb, KL_MEM_RECORD, err));
    for (int k = 0; k < (right ? d : nb); k++)
        odd[k] =
            kl_qn_odd(m->model, right ? kl_qn_of(m->model, e->site->state_charge[k]) : block->basis.q[k]);
    KL_TRY(kl_opstacks_create(g, pos, odd, &stacks, err));
    making x = {.g = g, .stacks = &stacks, .odd = odd};
    KL_TRY(make_parts(&x, make_task, err));
out:
    kl_opstacks_clear(&stacks);
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
    kl_kinds_clear(&g->kinds);
    kl_free(&g->stack);
    kl_free(pg);
}
