/* Operators of blocks, one by one: parts and dense form of an enlarged block against plain loops over the
   factors, self-adjointness as promised, truncation of a block's operators, plans of sectors.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "dmrg/opdense.h"
#include "dmrg/renorm.h"
#include "kl_test.h"
#include "phase.h"
#include <unistd.h>

/* Matrix of operator `op` of a block from sector i, as the block holds it; NULL where there is none. To be
   freed. */
static double *block_matrix(const kl_block *b, int op, int i)
{
    const int n = b->basis.nsec, j = b->dst[op * n + i];
    if (j < 0) return NULL;
    const int64_t size = (int64_t)b->basis.dim[i] * b->basis.dim[j];
    double *const a = calloc((size_t)size + 1, sizeof *a);
    if (b->off[op * n + i] < 0) {
        expect_true(kl_block_identity(b, op) && i == j);
        for (int r = 0; r < b->basis.dim[i]; r++) a[r + (int64_t)r * b->basis.dim[i]] = 1;
    } else core_download(b->ex, size, kl_dptr_at(b->data, b->off[op * n + i]), a);
    return a;
}

/* The same of an enlarged block, from its parts. */
static double *parts_matrix(const kl_bigop *g, int op, int c)
{
    const kl_basis *const s = &g->enlarged->basis;
    const int n = s->nsec, to = g->dst[op * n + c];
    if (to < 0) {
        expect_eq(g->first[op * n + c], g->first[op * n + c + 1]);
        return NULL;
    }
    double *const a = calloc((size_t)s->dim[c] * (size_t)s->dim[to] + 1, sizeof *a);
    for (int64_t k = g->first[op * n + c]; k < g->first[op * n + c + 1]; k++) {
        const kl_part *const p = &g->part[k];
        expect_true(p->row >= 0 && p->row + p->nrow <= s->dim[to] && p->col >= 0 &&
                    p->col + p->ncol <= s->dim[c]);
        if (p->off < 0) {
            expect_eq(p->nrow, p->ncol);
            for (int r = 0; r < p->nrow; r++) a[p->row + r + (int64_t)(p->col + r) * s->dim[to]] += p->coef;
            continue;
        }
        const int rows = p->dag ? p->ncol : p->nrow, cols = p->dag ? p->nrow : p->ncol;
        const int64_t size = (int64_t)p->ld * (cols - 1) + rows;
        double *const x = malloc((size_t)size * sizeof *x);
        /* operators multiplied out stand stacked, others alone */
        expect_true(g->stack ? p->ld >= rows && p->ld % rows == 0 : p->ld == rows);
        core_download(g->block->ex, size, kl_dptr_at(p->packed ? g->pack : g->block->data, p->off), x);
        for (int q = 0; q < p->ncol; q++)
            for (int r = 0; r < p->nrow; r++)
                a[p->row + r + (int64_t)(p->col + q) * s->dim[to]] +=
                    p->coef * x[p->dag ? q + (int64_t)r * p->ld : r + (int64_t)q * p->ld];
        free(x);
    }
    return a;
}

/* From the symbolic records alone: sum of coef * (block operator) (x) (site operator), elements placed one by
   one, signs from phase.h. */
static double *plain_matrix(const kl_bigop *g, int pos, int op, int c)
{
    const kl_block *const b = g->block;
    const kl_mpo *const m = b->mpo;
    const kl_enlarged *const e = g->enlarged;
    const int right = b->side == KL_RIGHT, n = e->basis.nsec, nb = b->basis.nsec, to = g->dst[op * n + c];
    if (to < 0) return NULL;
    const int rows = e->basis.dim[to];
    double *const a = calloc((size_t)rows * (size_t)e->basis.dim[c] + 1, sizeof *a);
    const kl_grow_list *const list = right ? &m->right[pos][op] : &m->left[pos][op];
    for (int64_t k = list->first; k < list->first + list->n; k++) {
        const kl_grow *const w = &m->grow[k];
        const kl_cut_op *const in = &m->op[b->cut][w->in];
        const kl_site_op *const o = &e->site->op[w->op];
        for (int x = 0; x < o->nelem; x++)
            for (int i = 0; i < nb; i++) {
                const int s = o->elem[x].col, t = o->elem[x].row;
                if (e->part_sec[c * e->d + s] != i) continue;
                for (int j = 0; j < nb; j++) {
                    if (e->part_sec[to * e->d + t] != j) continue;
                    const int from = w->dag ? j : i, into = w->dag ? i : j;
                    if (b->dst[w->in * nb + from] != into) continue;
                    double *const l = block_matrix(b, w->in, from);
                    const int before = right
                                           ? kl_qn_odd(m->model, kl_qn_of(m->model, e->site->state_charge[s]))
                                           : kl_qn_odd(m->model, b->basis.q[i]);
                    const int sign = (right ? in->odd : o->odd) && before ? -1 : 1;
                    for (int q = 0; q < b->basis.dim[i]; q++)
                        for (int r = 0; r < b->basis.dim[j]; r++)
                            a[e->part_off[to * e->d + t] + r +
                              (int64_t)(e->part_off[c * e->d + s] + q) * rows] +=
                                w->coef * o->elem[x].value * sign *
                                l[w->dag ? q + (int64_t)r * b->basis.dim[i]
                                         : r + (int64_t)q * b->basis.dim[j]];
                    free(l);
                }
            }
    }
    return a;
}

static double difference(const double *a, const double *b, int64_t n, double *size)
{
    double off = 0;
    for (int64_t i = 0; i < n; i++) off = fmax(off, fabs(a[i] - b[i])), *size = fmax(*size, fabs(b[i]));
    return off;
}

/* An isometry that keeps about two thirds of every sector, by a rotation that is easy to write down. */
static kl_isometry *isometry(kl_enlarged **e)
{
    kl_err err = {""};
    kl_isometry *o = NULL;
    const int n = (*e)->basis.nsec;
    int *const sec = malloc((size_t)n * sizeof *sec), *const dim = malloc((size_t)n * sizeof *dim);
    for (int c = 0; c < n; c++) sec[c] = c, dim[c] = (2 * (*e)->basis.dim[c] + 2) / 3;
    expect_ok(kl_isometry_create_take(e, n, sec, dim, &o, &err), err);
    for (int c = 0; c < n; c++) { /* columns of a Householder reflection */
        const int rows = o->enlarged->basis.dim[c];
        double norm = 0;
        for (int r = 0; r < rows; r++) norm += (1.0 + r) * (1.0 + r);
        for (int q = 0; q < dim[c]; q++)
            for (int r = 0; r < rows; r++)
                o->data[o->off[c] + r + (int64_t)q * rows] = (r == q) - 2 * (1.0 + r) * (1.0 + q) / norm;
    }
    free(sec);
    free(dim);
    return o;
}

/* A block from one of half the states of each sector, and of none of some sectors, is the same. */
static void check_known(const core_job *j, const kl_bigop *g, const kl_isometry *o, kl_dptr data,
                        const kl_block *want)
{
    kl_err err = {""};
    kl_enlarged *e = NULL;
    kl_isometry *few = NULL;
    kl_block *known = NULL, *have = NULL;
    const int n = o->basis.nsec;
    int *const sec = calloc((size_t)n + 1, sizeof *sec), *const dim = calloc((size_t)n + 1, sizeof *dim);
    int nsec = 0;
    for (int c = 0; c < n; c++) {
        if (c % 4 == 3) continue;
        sec[nsec] = o->sec[c];
        dim[nsec++] = (o->basis.dim[c] + 1) / 2;
    }
    expect_ok(kl_enlarged_copy(o->enlarged, &e, &err), err);
    expect_ok(kl_isometry_create_take(&e, nsec, sec, dim, &few, &err), err);
    for (int k = 0; k < nsec; k++)
        for (int c = 0; c < n; c++)
            if (o->sec[c] == sec[k])
                memcpy(few->data + few->off[k], o->data + o->off[c],
                       sizeof(double) * (size_t)o->enlarged->basis.dim[sec[k]] * (size_t)dim[k]);
    kl_dptr there = core_upload(j->ex, few->ndata, few->data);
    expect_ok(kl_block_grow(j->ex, g, few, there, &known, &err), err);
    for (int least = 1; least <= 4; least += 3) {
        expect_ok(kl_block_grow_on(j->ex, g, o, data, known, least, &have, &err), err);
        expect_eq(have->ndata, want->ndata);
        for (int op = 0; op < g->nop; op++)
            for (int c = 0; c < n; c++) {
                const int to = want->dst[op * n + c];
                double big = 1e-300;
                expect_eq(have->dst[op * n + c], to);
                if (to < 0) continue;
                double *const a = block_matrix(have, op, c), *const b = block_matrix(want, op, c);
                const int64_t size = (int64_t)o->basis.dim[c] * o->basis.dim[to];
                const double off = difference(a, b, size, &big);
                expect_near(off, 0, 1e-13 * big * (4.0 + (double)size));
                free(a);
                free(b);
            }
        kl_block_destroy(&have);
    }
    kl_block_destroy(&known);
    j->ex->vt.release(j->ex, &there);
    kl_isometry_destroy(&few);
    free(sec);
    free(dim);
}

/* A block that waits in a file comes back as it was, and of this memory the file holds the matrices alone. */
static void check_file(kl_block *b)
{
    kl_err err = {""};
    const int n = b->basis.nsec;
    double *const x = (double *)b->data.addr;
    double *const read = calloc((size_t)b->ndata + 1, sizeof *read);
    char *const used = calloc((size_t)b->ndata + 1, 1);
    for (int64_t at = 0; at < (int64_t)b->nop * n; at++)
        if (b->off[at] >= 0)
            memset(used + b->off[at], 1, (size_t)b->basis.dim[b->dst[at]] * (size_t)b->basis.dim[at % n]);
    double *const want = calloc((size_t)b->ndata + 1, sizeof *want);
    for (int64_t i = 0; i < b->ndata; i++) {
        want[i] = used[i] ? x[i] : 0;
        if (!used[i]) x[i] = 7;
    }
    expect_ok(kl_block_file(b, NULL, &err), err);
    expect_eq(pread(b->file - 1, read, (size_t)b->ndata * sizeof *read, 0),
              (ssize_t)b->ndata * (ssize_t)sizeof *read);
    expect_true(memcmp(read, want, (size_t)b->ndata * sizeof *read) == 0);
    expect_ok(kl_block_unfile(b, &err), err);
    expect_true(memcmp((const double *)b->data.addr, want, (size_t)b->ndata * sizeof *read) == 0);
    free(used);
    free(read);
    free(want);
}

static int keep_even(void *self, kl_qn q)
{
    (void)self;
    return q.v[0] % 4 != 3; /* some sectors are missing */
}

static void check_side(const core_job *j, kl_side side, int drop)
{
    kl_err err = {""};
    kl_mpo *m = NULL;
    kl_block *b = NULL;
    const int n = j->terms->nsite;
    expect_ok(kl_mpo_create(j->terms, &m, &err), err);
    expect_ok(kl_block_create_edge(j->ex, m, side, kl_qn_zero(), &b, &err), err);
    for (int k = 0; k < n - 1; k++) {
        const int pos = side == KL_LEFT ? k : n - 1 - k;
        kl_enlarged *e = NULL;
        kl_bigop *g = NULL;
        expect_ok(kl_enlarged_create(j->model, &b->basis, j->terms->type[pos],
                                     drop && k > 1 ? keep_even : NULL, NULL, &e, &err),
                  err);
        const int ns = e->basis.nsec;
        if (ns == 0) {
            kl_enlarged_destroy(&e);
            break;
        }
        kl_isometry *o = isometry(&e);
        kl_dptr data = core_upload(j->ex, o->ndata, o->data);
        kl_block *next[2] = {NULL, NULL};
        for (int dense = 0; dense < 2; dense++) {
            expect_ok(kl_bigop_create(b, o->enlarged, pos, &g, &err), err);
            if (dense) expect_ok(kl_bigop_make_dense(g, &err), err);
            for (int op = 0; op < g->nop; op++)
                for (int c = 0; c < ns; c++) {
                    kl_test_case("%s, side %d, position %d, operator %d, sector %d, dense %d", j->name,
                                 (int)side, pos, op, c, dense);
                    double *const have = parts_matrix(g, op, c), *const want = plain_matrix(g, pos, op, c);
                    const int to = g->dst[op * ns + c];
                    expect_eq(have == NULL, want == NULL);
                    if (to >= 0) {
                        const int64_t size = (int64_t)o->enlarged->basis.dim[c] * o->enlarged->basis.dim[to];
                        double big = 1e-300;
                        expect_eq(g->src[op * ns + to], c);
                        const double off = difference(have, want, size, &big);
                        expect_near(off, 0, 1e-14 * big * (4.0 + (double)m->ngrow));
                        const kl_cut_op *const w = &m->op[g->cut][op];
                        const int self =
                            side == KL_LEFT ? w->self : w->self * kl_phase_exchange(w->odd, w->odd);
                        if (self) { /* transposed from the other sector */
                            double *const back = parts_matrix(g, op, to);
                            expect_true(back != NULL && g->dst[op * ns + to] == c);
                            const int rc = o->enlarged->basis.dim[c], rt = o->enlarged->basis.dim[to];
                            for (int q = 0; q < rc; q++)
                                for (int r = 0; r < rt; r++)
                                    expect_near(back[q + (int64_t)r * rc], self * have[r + (int64_t)q * rt],
                                                1e-13 * big * (4.0 + (double)m->ngrow));
                            free(back);
                        }
                        if (kl_bigop_identity(g, op))
                            for (int64_t i = 0; i < size; i++)
                                expect_true(have[i] == (i % (o->enlarged->basis.dim[c] + 1) == 0));
                    }
                    free(have);
                    free(want);
                }
            expect_ok(kl_block_grow(j->ex, g, o, data, &next[dense], &err), err);
            for (int op = 0; op < g->nop; op++) /* O^T G O by plain loops */
                for (int c = 0; c < ns; c++) {
                    const int to = g->dst[op * ns + c];
                    expect_eq(next[dense]->dst[op * ns + c], to); /* every sector kept some states */
                    if (to < 0) continue;
                    double *const have = block_matrix(next[dense], op, c), *const mid =
                                                                               parts_matrix(g, op, c);
                    const int rows = o->enlarged->basis.dim[to], cols = o->enlarged->basis.dim[c],
                              mr = o->basis.dim[to], mc = o->basis.dim[c];
                    double big = 1e-300;
                    for (int64_t i = 0; i < (int64_t)rows * cols; i++) big = fmax(big, fabs(mid[i]));
                    for (int y = 0; y < mc; y++)
                        for (int x = 0; x < mr; x++) {
                            double sum = 0;
                            for (int q = 0; q < cols; q++)
                                for (int r = 0; r < rows; r++)
                                    sum += o->data[o->off[to] + r + (int64_t)x * rows] *
                                           mid[r + (int64_t)q * rows] *
                                           o->data[o->off[c] + q + (int64_t)y * cols];
                            expect_near(have[x + (int64_t)y * mr], sum, 1e-14 * big * (rows + cols + 4));
                        }
                    free(have);
                    free(mid);
                }
            check_known(j, g, o, data, next[dense]);
            kl_bigop_destroy(&g);
        }
        kl_block_destroy(&next[1]);
        j->ex->vt.release(j->ex, &data);
        kl_isometry_destroy(&o);
        check_file(b);
        kl_block_destroy(&b);
        b = next[0];
    }
    kl_block_destroy(&b);
    kl_mpo_destroy(&m);
}

static void test_blocks(void **state)
{
    static const struct {
        const char *model, *variant, *lattice;
    } cases[] = {
        {"heisenberg", "S=1/2", "ring:6"}, {"hubbard", "F=1/2", "ring:4"},  {"hubbard", "F=1", "chain:3"},
        {"strange", NULL, "ring:4"},       {"majorana", NULL, "ring:7"},    {"free_spins", "S=1", "ring:4"},
        {"pairing", NULL, "torus:2x3"},    {"tj", NULL, "square:2x2"},      {"kondo", "S=1/2", "chain:3"},
        {"holstein", "n_max=1", "ring:3"}, {"longrange", "S=1", "chain:4"}, {"bose_hubbard", NULL, "ring:3"}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int t = 0; t < 4; t++) {
            core_job j;
            core_open_random(&j, core_model(cases[k].model, cases[k].variant), cases[k].lattice, NULL,
                             7 * k + (size_t)t);
            check_side(&j, t % 2 ? KL_RIGHT : KL_LEFT, t / 2);
            core_close(&j);
        }
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
