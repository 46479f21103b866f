/* Operators multiplied out: see opdense.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/opdense.h"
#include "base/mem.h"
#include "base/par.h"
#include <string.h>

/* Where matrices lie: the stacks of kinds, and those of operators that are in no kind because the other side
   has the identity for them. */
typedef struct laying {
    const kl_bigop *of;
    kl_kinds kinds;
    int64_t *stack; /* [kinds.n * nsec] as in kl_bigop */
    int64_t *alone; /* [nop * nsec]: of an operator in no kind; -1: it has no matrix there */
    int *kind, *nth; /* [nop]: its kind, or -1, and its place there */
    int64_t npack;
} laying;

static void clear_laying(laying *x)
{
    kl_kinds_clear(&x->kinds);
    kl_free(&x->stack);
    kl_free(&x->alone);
    kl_free(&x->kind);
    kl_free(&x->nth);
}

static int64_t parts_of(const kl_bigop *g, int op, int c)
{
    const int64_t at = (int64_t)op * g->enlarged->basis.nsec + c;
    return g->first[at + 1] - g->first[at];
}

static kl_status lay_out(const kl_bigop *of, laying *x, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_basis *const basis = &of->enlarged->basis;
    const int n = basis->nsec, nop = of->nop;
    *x = (laying){.of = of};
    KL_TRY(kl_kinds_create_both(of->block->mpo, of->cut, &x->kinds, err));
    KL_TRY(kl_alloc(&x->stack, (int64_t)x->kinds.n * n, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&x->alone, (int64_t)nop * n, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&x->kind, nop, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&x->nth, nop, KL_MEM_RECORD, err));
    for (int b = 0; b < nop; b++) x->kind[b] = -1;
    for (int k = 0; k < x->kinds.n; k++) {
        const int first = x->kinds.first[k], many = x->kinds.first[k + 1] - first;
        for (int i = 0; i < many; i++) {
            x->kind[x->kinds.order[first + i]] = k;
            x->nth[x->kinds.order[first + i]] = i;
        }
        for (int c = 0; c < n; c++) {
            int64_t some = 0;
            for (int i = 0; i < many && some == 0; i++) some = parts_of(of, x->kinds.order[first + i], c);
            x->stack[(int64_t)k * n + c] = some > 0 ? x->npack : -1;
            if (some == 0) continue;
            const int to = of->dst[(int64_t)x->kinds.order[first] * n + c];
            x->npack += kl_block_room(basis->dim[to] * many, basis->dim[c]);
        }
    }
    for (int b = 0; b < nop; b++)
        for (int c = 0; c < n; c++) {
            const int64_t at = (int64_t)b * n + c;
            x->alone[at] = -1;
            if (x->kind[b] >= 0 || kl_bigop_identity(of, b) || parts_of(of, b, c) == 0) continue;
            x->alone[at] = x->npack;
            x->npack += kl_block_room(basis->dim[of->dst[at]], basis->dim[c]);
        }
out:
    if (st != KL_OK) clear_laying(x);
    return st;
}

kl_status kl_bigop_dense_doubles(const kl_bigop *of, int64_t *out, kl_err *err)
{
    laying x;
    const kl_status st = lay_out(of, &x, err);
    if (st != KL_OK) return st;
    *out = x.npack;
    clear_laying(&x);
    return KL_OK;
}

/* The whole of an operator from sector c, which has some parts, as one part. */
static kl_part whole_of(const laying *x, int op, int c)
{
    const kl_basis *const basis = &x->of->enlarged->basis;
    const int64_t at = (int64_t)op * basis->nsec + c;
    const int kind = x->kind[op], rows = basis->dim[x->of->dst[at]];
    if (kl_bigop_identity(x->of, op))
        return (kl_part){.nrow = basis->dim[c], .ncol = basis->dim[c], .off = -1, .coef = 1};
    if (kind < 0)
        return (kl_part){
            .nrow = rows, .ncol = basis->dim[c], .ld = rows, .packed = 1, .off = x->alone[at], .coef = 1};
    return (kl_part){.nrow = rows,
                     .ncol = basis->dim[c],
                     .ld = rows * (x->kinds.first[kind + 1] - x->kinds.first[kind]),
                     .packed = 1,
                     .off = x->stack[(int64_t)kind * basis->nsec + c] + (int64_t)x->nth[op] * rows,
                     .coef = 1};
}

/* Adds a part of an operator to the whole. */
static kl_rec add_to(const kl_bigop *of, const kl_part *p, const kl_part *whole)
{
    return kl_bigop_add(of, p, whole->off + p->row + (int64_t)p->col * whole->ld, whole->ld);
}

/* The records of a group: operators order[0, many) from sector c. */
typedef struct summing {
    int many, c;
    const int *order;
} summing;

typedef struct listing {
    const laying *x;
    kl_batch *b;
    const summing *group;
} listing;

static void list_task(void *self, int64_t i, int thread)
{
    const listing *const l = self;
    const kl_bigop *const of = l->x->of;
    const summing *const g = &l->group[i];
    kl_rec *to = l->b->rec + l->b->group[i].first;
    (void)thread;
    for (int k = 0; k < g->many; k++) {
        const int64_t at = (int64_t)g->order[k] * of->enlarged->basis.nsec + g->c;
        if (of->first[at] == of->first[at + 1]) continue;
        const kl_part whole = whole_of(l->x, g->order[k], g->c);
        for (int64_t p = of->first[at]; p < of->first[at + 1]; p++) *to++ = add_to(of, &of->part[p], &whole);
    }
}

/* Room for the records of a group that writes [at, at + n). */
static kl_status open_sum(const laying *x, const summing *g, int64_t at, int64_t n, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t nrec = 0;
    for (int k = 0; k < g->many; k++) nrec += parts_of(x->of, g->order[k], g->c);
    KL_TRY(kl_batch_open_group(b, at, n, err));
    KL_TRY(kl_batch_reserve(b, nrec, err));
    b->nrec += nrec;
    b->group[b->ngroup - 1].last = b->nrec;
out:
    return st;
}

/* A group for each stack, and for each matrix that is in none. They add to zeros: most of a stack is never
   written, and is nothing to list. */
static kl_status list_sums(const laying *x, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_bigop *const of = x->of;
    const kl_basis *const basis = &of->enlarged->basis;
    const int n = basis->nsec;
    int *single = NULL;
    summing *group = NULL;
    KL_TRY(kl_alloc(&group, ((int64_t)x->kinds.n + of->nop) * n, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&single, of->nop, KL_MEM_RECORD, err));
    for (int k = 0; k < x->kinds.n; k++)
        for (int c = 0; c < n; c++) {
            const int *const order = x->kinds.order + x->kinds.first[k];
            const int many = x->kinds.first[k + 1] - x->kinds.first[k];
            const int64_t at = x->stack[(int64_t)k * n + c];
            if (at < 0) continue;
            const int to = of->dst[(int64_t)order[0] * n + c];
            group[b->ngroup] = (summing){many, c, order};
            KL_TRY(
                open_sum(x, &group[b->ngroup], at, (int64_t)basis->dim[to] * many * basis->dim[c], b, err));
        }
    for (int op = 0; op < of->nop; op++) {
        single[op] = op;
        for (int c = 0; c < n; c++) {
            const int64_t at = x->alone[(int64_t)op * n + c];
            if (at < 0) continue;
            const int to = of->dst[(int64_t)op * n + c];
            group[b->ngroup] = (summing){1, c, single + op};
            KL_TRY(open_sum(x, &group[b->ngroup], at, (int64_t)basis->dim[to] * basis->dim[c], b, err));
        }
    }
    listing all = {x, b, group};
    kl_par_for(of->block->ex->nthread, b->ngroup, list_task, &all);
    kl_batch_count(b);
    kl_bigop_bases(of, b);
out:
    kl_free(&group);
    kl_free(&single);
    return st;
}

static kl_status list_parts(const laying *x, kl_bigop *g, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = g->enlarged->basis.nsec;
    int64_t all = 0;
    KL_TRY(kl_alloc(&g->first, (int64_t)g->nop * n + 1, KL_MEM_RECORD, err));
    for (int op = 0; op < g->nop; op++)
        for (int c = 0; c < n; c++) {
            g->first[(int64_t)op * n + c] = all;
            all += parts_of(x->of, op, c) > 0;
        }
    g->first[(int64_t)g->nop * n] = all;
    KL_TRY(kl_alloc(&g->part, all, KL_MEM_RECORD, err));
    for (int op = 0; op < g->nop; op++)
        for (int c = 0; c < n; c++)
            if (parts_of(x->of, op, c) > 0) g->part[g->npart++] = whole_of(x, op, c);
out:
    return st;
}

kl_status kl_bigop_dense(const kl_bigop *of, kl_bigop **out, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t links = (int64_t)of->nop * of->enlarged->basis.nsec;
    kl_exec *const ex = of->block->ex;
    kl_bigop *g = NULL;
    laying x = {.of = of};
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_alloc(&g, 1, KL_MEM_RECORD, err));
    *g = (kl_bigop){.block = of->block, .enlarged = of->enlarged, .cut = of->cut, .nop = of->nop};
    KL_TRY(kl_alloc(&g->dst, links, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&g->src, links, KL_MEM_RECORD, err));
    memcpy(g->dst, of->dst, (size_t)links * sizeof *g->dst);
    memcpy(g->src, of->src, (size_t)links * sizeof *g->src);
    KL_TRY(lay_out(of, &x, err));
    KL_TRY(list_parts(&x, g, err));
    if (x.npack > 0) {
        KL_TRY(list_sums(&x, &b, err));
        g->list_bytes = b.nrec * (int64_t)sizeof(kl_rec);
        KL_TRY(kl_exec_alloc_operators(ex, x.npack, &g->pack, err));
        ex->vt.fill(ex, x.npack, 0.0, g->pack);
        KL_TRY(kl_batch_run(&b, ex, of->block->data, g->pack, err));
    }
    g->npack = x.npack;
    g->kinds = x.kinds, x.kinds = (kl_kinds){0};
    g->stack = x.stack, x.stack = NULL;
out:
    clear_laying(&x);
    kl_batch_clear(&b);
    if (st != KL_OK) kl_bigop_destroy(&g);
    *out = g;
    return st;
}

kl_status kl_bigop_make_dense(kl_bigop *g, kl_err *err)
{
    kl_bigop *dense = NULL;
    const kl_status st = kl_bigop_dense(g, &dense, err);
    if (st != KL_OK) return st;
    const kl_bigop parts = *g;
    *g = *dense;
    *dense = parts;
    if (dense->list_bytes > g->list_bytes) g->list_bytes = dense->list_bytes;
    kl_bigop_destroy(&dense);
    return KL_OK;
}
