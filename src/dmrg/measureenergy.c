/* Energy and variance of a canonical state, centre by centre: see measure.h. Of several ranks each has some
   of the centres, for itself; blocks are grown by all together.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "comm/share.h"
#include "dmrg/measurebase.h"
#include "dmrg/renorm.h"
#include "dmrg/superblock.h"
#include <string.h>

int kl_measure_beyond(const kl_canonical *c, int p, int k)
{
    return kl_canonical_right(c, p + 1)->dim[c->layout[p + 1].pair[k]];
}

void kl_measure_put_by(kl_measure *m, int p, int64_t n)
{
    enum { ROOM = 16 }; /* tensors as long as this one that a device has room for */
    kl_exec *const ex = m->ex;
    m->length[p] = n;
    if (ex->vt.room(ex) / ROOM < n * (int64_t)sizeof(double))
        kl_exec_move_operators(ex, 1, n, &m->centre[p]);
}

kl_status kl_measure_run(const kl_measure *m, int p, kl_batch *b, kl_dptr y, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = m->ex;
    kl_dptr near = {0};
    if (!kl_exec_is_far(ex, m->centre[p])) return kl_batch_run(b, ex, m->centre[p], y, err);
    KL_TRY(ex->vt.alloc(ex, m->length[p], &near, err));
    ex->vt.join(ex, ex->vt.copy_async(ex, m->length[p], m->centre[p], near, KL_COPY_AFTER), 0);
    KL_TRY(kl_batch_run(b, ex, near, y, err));
out:
    ex->vt.release(ex, &near);
    return st;
}

typedef struct surround { /* of the two-site centre (p, p+1) */
    kl_enlarged *row, *col;
    kl_layout lay;
    kl_dptr psi, y; /* [lay.n]: the wavefunction, H times it */
} surround;

static void clear_surround(kl_exec *ex, surround *s)
{
    kl_enlarged_destroy(&s->row);
    kl_enlarged_destroy(&s->col);
    kl_layout_clear(&s->lay);
    ex->vt.release(ex, &s->psi);
    ex->vt.release(ex, &s->y);
}

/* On the host waits what the centre at site p asks for last, until the device has room for `doubles' numbers
   or nothing is left: blocks from the right end, then isometries. */
static void make_room(const kl_measure *m, kl_block **right, int p, int64_t doubles)
{
    kl_exec *const ex = m->ex;
    const int64_t bytes = 9 * doubles; /* pools give it in steps of an eighth */
    const int n = m->can->nsite;
    if (!ex->vt.alloc_far) return;
    for (int q = n - 1; q > p + 2 && ex->vt.room(ex) < bytes; q--)
        if (right[q] && right[q]->ndata > 0) kl_exec_move_operators(ex, 1, right[q]->ndata, &right[q]->data);
    for (int q = 0; q < n && ex->vt.room(ex) < bytes; q++) {
        if (q != p) kl_exec_move_operators(ex, 1, m->can->left[q]->ndata, &m->iso[q]);
        kl_exec_move_operators(ex, 1, m->length[q], &m->centre[q]);
    }
}

/* psi of sites p, p+1: left isometry, bond and right isometry multiplied. All sectors that any two sites here
   can make, psi's or not. */
static kl_status make_centre(const kl_measure *m, kl_exec *ex, kl_block **blocks, int p, surround *s,
                             kl_err *err)
{
    kl_status st = KL_OK;
    const kl_canonical *const c = m->can;
    const kl_isometry *const a = c->left[p], *const b = c->right[p + 1];
    const kl_layout *const bond = &c->layout[p + 1];
    kl_dptr middle = {0}, right = {0};
    kl_batch q;
    kl_batch_init(&q);
    KL_TRY(kl_enlarged_create(c->model, kl_canonical_left(c, p), c->type[p], NULL, NULL, &s->row, err));
    KL_TRY(
        kl_enlarged_create(c->model, kl_canonical_right(c, p + 2), c->type[p + 1], NULL, NULL, &s->col, err));
    KL_TRY(kl_layout_create(c->model, &s->row->basis, &s->col->basis, c->target, &s->lay, err));
    /* both vectors, their lists' work, what comes in here, and the next block */
    make_room(m, blocks, p, 4 * s->lay.n + bond->n + b->ndata + 2 * a->ndata);
    KL_TRY(ex->vt.alloc(ex, s->lay.n, &s->psi, err));
    KL_TRY(ex->vt.alloc(ex, s->lay.n, &s->y, err));
    KL_TRY(kl_exec_copy_in(ex, c->bond[p + 1], bond->n, &middle, err));
    KL_TRY(kl_exec_copy_in(ex, b->data, b->ndata, &right, err));
    for (int i = 0; i < s->row->basis.nsec; i++) {
        const int j = s->lay.pair[i], k = kl_basis_find(&a->basis, s->row->basis.q[i]),
                  l = k >= 0 ? bond->pair[k] : -1;
        if (j < 0) continue;
        const int rows = s->row->basis.dim[i], cols = s->col->basis.dim[j], da = k >= 0 ? a->basis.dim[k] : 0,
                  db = l >= 0 ? b->basis.dim[l] : 0;
        KL_TRY(kl_batch_open_group(&q, s->lay.off[i], (int64_t)rows * cols, err));
        KL_TRY(kl_batch_reserve(&q, 2, err));
        if (l >= 0) {
            *kl_batch_push(&q) = (kl_rec){.kind = KL_REC_GEMM,
                                          .at_a = KL_AT_LEFT,
                                          .at_b = KL_AT_X,
                                          .at_c = KL_AT_WORK,
                                          .m = rows,
                                          .n = db,
                                          .k = da,
                                          .lda = rows,
                                          .ldb = da,
                                          .ldc = rows,
                                          .a = a->off[k],
                                          .b = bond->off[k],
                                          .alpha = 1};
            *kl_batch_push(&q) = (kl_rec){.kind = KL_REC_GEMM,
                                          .tb = 1,
                                          .beta = 1,
                                          .at_a = KL_AT_WORK,
                                          .at_b = KL_AT_RIGHT,
                                          .at_c = KL_AT_Y,
                                          .m = rows,
                                          .n = cols,
                                          .k = db,
                                          .lda = rows,
                                          .ldb = cols,
                                          .ldc = rows,
                                          .b = b->off[l],
                                          .c = s->lay.off[i],
                                          .alpha = 1};
        }
        kl_batch_close_group(&q, (int64_t)rows * db);
    }
    q.zero = 1, q.nx = bond->n, q.ny = s->lay.n;
    q.base[KL_AT_LEFT] = m->iso[p], q.base[KL_AT_RIGHT] = right;
    KL_TRY(kl_batch_run(&q, ex, middle, s->psi, err));
out:
    kl_batch_clear(&q);
    ex->vt.release(ex, &middle);
    ex->vt.release(ex, &right);
    return st;
}

/* variance += |(1 - A A^T) y|^2, A the left isometry of site p, instead of psi; with last |y - E psi|^2,
   since nothing further right changes. */
static kl_status add_variance(kl_exec *ex, const kl_canonical *c, int p, kl_dptr left, surround *s,
                              double energy, int last, double *variance, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_isometry *const a = c->left[p];
    double square = 0;
    kl_batch q;
    kl_batch_init(&q);
    /* differs from y within the span of A only, and is the smaller one */
    ex->vt.axpby(ex, s->lay.n, -energy, s->psi, 1.0, s->y);
    for (int i = 0; i < s->row->basis.nsec && !last; i++) {
        const int j = s->lay.pair[i], k = kl_basis_find(&a->basis, s->row->basis.q[i]);
        if (j < 0) continue;
        const int rows = s->row->basis.dim[i], cols = s->col->basis.dim[j], n = k >= 0 ? a->basis.dim[k] : 0;
        const int64_t at = s->lay.off[i];
        KL_TRY(kl_batch_open_group(&q, at, (int64_t)rows * cols, err));
        KL_TRY(kl_batch_reserve(&q, 3, err));
        *kl_batch_push(&q) = (kl_rec){.kind = KL_REC_ADD,
                                      .at_a = KL_AT_X,
                                      .at_c = KL_AT_Y,
                                      .m = rows,
                                      .n = cols,
                                      .lda = rows,
                                      .ldc = rows,
                                      .a = at,
                                      .c = at,
                                      .alpha = 1};
        if (k >= 0) {
            *kl_batch_push(&q) = (kl_rec){.kind = KL_REC_GEMM,
                                          .ta = 1,
                                          .at_a = KL_AT_LEFT,
                                          .at_b = KL_AT_X,
                                          .at_c = KL_AT_WORK,
                                          .m = n,
                                          .n = cols,
                                          .k = rows,
                                          .lda = rows,
                                          .ldb = rows,
                                          .ldc = n,
                                          .a = a->off[k],
                                          .b = at,
                                          .alpha = 1};
            *kl_batch_push(&q) = (kl_rec){.kind = KL_REC_GEMM,
                                          .beta = 1,
                                          .at_a = KL_AT_LEFT,
                                          .at_b = KL_AT_WORK,
                                          .at_c = KL_AT_Y,
                                          .m = rows,
                                          .n = cols,
                                          .k = n,
                                          .lda = rows,
                                          .ldb = n,
                                          .ldc = rows,
                                          .a = a->off[k],
                                          .c = at,
                                          .alpha = -1};
        }
        kl_batch_close_group(&q, (int64_t)n * cols);
    }
    q.nx = q.ny = s->lay.n;
    q.base[KL_AT_LEFT] = left;
    if (!last) KL_TRY(kl_batch_run(&q, ex, s->y, s->psi, err));
    const kl_dptr v = last ? s->y : s->psi;
    ex->vt.dots(ex, s->lay.n, 1, v, s->lay.n, v, &square);
    *variance += square;
out:
    kl_batch_clear(&q);
    return st;
}

/* s: psi of the centre at site p, and H times it. Everything by ex, what operators take, too. */
static kl_status apply_at(const kl_measure *m, kl_exec *ex, kl_block *left, kl_block **right, int p,
                          surround *s, kl_err *err)
{
    kl_status st = KL_OK;
    left->ex = right[p + 2]->ex = ex;
    kl_bigop *row = NULL, *col = NULL;
    kl_superblock *h = NULL;
    KL_TRY(make_centre(m, ex, right, p, s, err));
    KL_TRY(kl_bigop_create(left, s->row, p, &row, err));
    KL_TRY(kl_bigop_create(right[p + 2], s->col, p + 1, &col, err));
    KL_TRY(kl_superblock_create(ex, row, col, m->can->target, 0, &h, err));
    KL_TRY(h->op.apply(&h->op, 1, s->psi, s->lay.n, s->y, s->lay.n, err));
out:
    kl_superblock_destroy(&h);
    kl_bigop_destroy(&row);
    kl_bigop_destroy(&col);
    left->ex = right[p + 2]->ex = m->ex;
    return st;
}

static kl_status next_block(kl_exec *ex, const kl_block *from, const kl_isometry *iso, int pos, kl_dptr data,
                            kl_block **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_bigop *g = NULL;
    KL_TRY(kl_bigop_create(from, iso->enlarged, pos, &g, err));
    KL_TRY(kl_block_grow(ex, g, iso, data, out, err));
out:
    kl_bigop_destroy(&g);
    return st;
}

void kl_measure_file(kl_measure *m, const char *scratch)
{
    m->filed = m->ex->space == KL_SPACE_HOST;
    m->scratch = scratch;
}

kl_status kl_measure_energy(kl_measure *m, const kl_terms *terms, double *energy, double *variance,
                            kl_err *err)
{
    kl_status st = KL_OK;
    kl_terms own = {0};
    double unit;
    kl_exec *const ex = m->ex;
    const kl_canonical *const c = m->can;
    const int n = c->nsite;
    kl_mpo *mpo = NULL;
    kl_block **right = NULL, *left = NULL, *next = NULL;
    surround s = {0};
    kl_dptr data = {0};
    double sum = 0, e = 0;
    if (terms->nsite != n)
        return kl_fail(err, KL_EINPUT, "a state of %d sites cannot be measured with a Hamiltonian of %d", n,
                       terms->nsite);
    for (int p = 0; p < n; p++)
        if (terms->type[p]->dim != c->type[p]->dim || strcmp(terms->type[p]->name, c->type[p]->name) != 0)
            return kl_fail(err, KL_EINPUT,
                           "position %d is a site of type %s in the state and %s in the Hamiltonian", p,
                           c->type[p]->name, terms->type[p]->name);
    KL_TRY(kl_terms_in_own_unit(terms, &own, &unit, err));
    KL_TRY(kl_mpo_create(&own, &mpo, err));
    KL_TRY(kl_alloc(&right, n + 1, KL_MEM_BLOCK, err));
    KL_TRY(kl_block_create_edge(ex, mpo, KL_RIGHT, c->target, &right[n], err));
    KL_TRY(kl_block_create_edge(ex, mpo, KL_LEFT, c->target, &left, err));
    for (int p = n - 1; p >= 2; p--) {
        make_room(m, right, p - 1, 4 * c->right[p]->ndata);
        KL_TRY(kl_exec_copy_in(ex, c->right[p]->data, c->right[p]->ndata, &data, err));
        KL_TRY(next_block(ex, right[p + 1], c->right[p], p, data, &right[p], err));
        ex->vt.release(ex, &data);
        if (!variance && p + 1 < n) kl_block_destroy(&right[p + 1]);
        if (right[p + 1] && right[p + 1]->ndata > 0 && m->filed)
            KL_TRY(kl_block_file(right[p + 1], m->scratch, err));
    }
    for (int p = 0; p < (variance ? n - 1 : 1); p++) {
        const int mine = p % kl_ranks_size(ex) == kl_ranks_mine(ex);
        kl_exec *const by = p == 0 ? ex : kl_share_alone(ex);
        KL_TRY(kl_block_unfile(right[p + 2], err));
        if (p == 0 || mine) KL_TRY(apply_at(m, by, left, right, p, &s, err));
        if (p == 0) ex->vt.dots(ex, s.lay.n, 1, s.psi, s.lay.n, s.y, &e);
        if (variance && mine)
            KL_TRY(add_variance(kl_share_alone(ex), c, p, m->iso[p], &s, e, p == n - 2, &sum, err));
        clear_surround(ex, &s);
        if (p == n - 2 || !variance) break;
        KL_TRY(next_block(ex, left, c->left[p], p, m->iso[p], &next, err));
        kl_block_destroy(&left);
        left = next;
        next = NULL;
        kl_block_destroy(&right[p + 2]);
    }
    kl_ranks_sum(ex, 1, &sum);
    *energy = (e + own.constant) * unit;
    if (variance) *variance = sum * unit * unit;
out:
    ex->vt.release(ex, &data);
    kl_block_destroy(&left);
    for (int p = 0; right && p <= n; p++) kl_block_destroy(&right[p]);
    kl_free(&right);
    clear_surround(ex, &s);
    kl_mpo_destroy(&mpo);
    kl_terms_clear_own(&own);
    return st;
}
