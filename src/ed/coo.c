/* Matrices of a half, column by column. Signs come from the generated phase.h only.
   SPDX-License-Identifier: Apache-2.0 */
#include "ed/coo.h"
#include "base/mem.h"
#include "phase.h"

#include <math.h>

static kl_status push(kl_coo *c, int64_t row, int64_t col, double value, kl_err *err)
{
    kl_status st = KL_OK;
    if (c->n == c->room) {
        c->room = c->room ? 2 * c->room : 1024;
        KL_TRY(kl_realloc(&c->e, c->room, KL_MEM_MATRIX, err));
    }
    c->e[c->n++] = (kl_coo_elem){(uint32_t)row, (uint32_t)col, value};
out:
    return st;
}

/* One column under construction. */
typedef struct acting {
    const kl_half *half;
    int *d;              /* [npos] digits now */
    uint64_t odd;        /* positions whose state is odd */
    int target;          /* sector */
    int64_t col, *near;  /* row that this string led to last: the next column's lies behind it as a rule */
    kl_coo *out;
} acting;

/* Operators op[0 .. k) are still to act, the last one first. */
static kl_status act(acting *a, int k, const kl_op_at *op, uint64_t code, double value, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_half *const h = a->half;
    if (k == 0) {
        const int64_t row = kl_half_find_near(h, a->target, code, *a->near);
        /* a charge that Z_n reduces may leave the listed sectors; nothing else does */
        if (row < 0) return KL_OK;
        *a->near = row;
        return push(a->out, row, a->col, value, err);
    }
    const int p = op[k - 1].pos, from = a->d[p];
    const kl_site_op *const o = &h->type[p]->op[op[k - 1].op];
    const uint64_t bit = UINT64_C(1) << p;
    if (o->odd) {
        value *= kl_phase_record(1, __builtin_parityll(a->odd & (bit - 1)));
        a->odd ^= bit;
    }
    for (int e = 0; e < o->nelem; e++) {
        if (o->elem[e].col != from) continue;
        a->d[p] = o->elem[e].row;
        KL_TRY(act(a, k - 1, op, code + ((uint64_t)a->d[p] - (uint64_t)from) * h->stride[p],
                   value * o->elem[e].value, err));
    }
out:
    a->d[p] = from;
    if (o->odd) a->odd ^= bit;
    return st;
}

kl_status kl_coo_add(kl_coo *out, const kl_model *m, const kl_coo_strings *t, int *d, int64_t *near,
                     kl_err *err)
{
    kl_status st = KL_OK;
    const kl_half *const h = t->half;
    acting a = {.half = h, .d = d, .target = t->target, .out = out};
    const double sign = kl_phase_record(t->partner_odd, kl_qn_odd(m, h->q[t->source]));
    for (int64_t k = 0; k < t->n; k++) near[k] = 0;
    for (int64_t i = h->begin[t->source]; i < h->begin[t->source + 1]; i++) {
        kl_half_digits(h, h->code[i], d);
        a.odd = 0;
        for (int q = 0; q < h->npos; q++) a.odd |= (uint64_t)h->odd[q * h->most + d[q]] << q;
        a.col = i - h->begin[t->source];
        for (int64_t k = 0; k < t->n; k++) {
            const kl_strand *const p = t->p[k];
            a.near = &near[k];
            KL_TRY(act(&a, p->n[t->side], p->op[t->side], h->code[i], t->bare ? sign : sign * p->coef, err));
        }
    }
out:
    return st;
}

/* Rows together (a counting sort keeps the order of pushes, which is that of the columns), equal indices
   added in that order; small remnants of cancellation dropped. */
kl_status kl_coo_close(kl_coo *c, int64_t nrow, kl_err *err)
{
    kl_status st = KL_OK;
    kl_coo_elem *sorted = NULL;
    int64_t *at = NULL;
    if (c->n > UINT32_MAX)
        KL_TRY(kl_fail(err, KL_EINPUT, "a matrix of one half has %lld elements; at most 2^32 are possible",
                       (long long)c->n));
    KL_TRY(kl_alloc(&sorted, c->n, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&at, nrow + 1, KL_MEM_MATRIX, err));
    for (int64_t i = 0; i < c->n; i++) at[c->e[i].row + 1]++;
    for (int64_t r = 0; r < nrow; r++) at[r + 1] += at[r];
    for (int64_t i = 0; i < c->n; i++) sorted[at[c->e[i].row]++] = c->e[i];
    int64_t kept = 0;
    for (int64_t i = 0; i < c->n;) {
        kl_coo_elem sum = sorted[i];
        double size = fabs(sum.value);
        for (i++; i < c->n && sorted[i].row == sum.row && sorted[i].col == sum.col; i++) {
            sum.value += sorted[i].value;
            size += fabs(sorted[i].value);
        }
        if (fabs(sum.value) > 1e-15 * size) c->e[kept++] = sum;
    }
    c->n = kept;
out:
    kl_free(&sorted);
    kl_free(&at);
    return st;
}

kl_status kl_coo_op(kl_coo *c, int64_t nrow, int64_t ncol, double *diagonal, kl_kron_op **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_kron_op *o = NULL;
    *out = NULL;
    if (diagonal) {
        int64_t kept = 0;
        for (int64_t i = 0; i < c->n; i++) {
            if (c->e[i].row == c->e[i].col) diagonal[c->e[i].row] += c->e[i].value;
            else c->e[kept++] = c->e[i];
        }
        c->n = kept;
    }
    if (c->n == 0) return KL_OK;
    KL_TRY(kl_alloc(&o, 1, KL_MEM_MATRIX, err));
    o->nrow = nrow;
    o->ncol = ncol;
    o->nnz = c->n;
    o->unit = 1;
    o->scale = fabs(c->e[0].value);
    for (int64_t i = 1; i < c->n && o->unit; i++) o->unit = fabs(c->e[i].value) == o->scale;
    KL_TRY(kl_alloc(&o->ptr, nrow + 1, KL_MEM_MATRIX, err));
    for (int64_t i = 0; i < c->n; i++) o->ptr[c->e[i].row + 1]++;
    for (int64_t r = 0; r < nrow; r++) o->ptr[r + 1] += o->ptr[r];
    if (ncol <= 65536) KL_TRY(kl_alloc(&o->idx16, c->n, KL_MEM_MATRIX, err));
    else KL_TRY(kl_alloc(&o->idx32, c->n, KL_MEM_MATRIX, err));
    if (o->unit) KL_TRY(kl_alloc(&o->minus, nrow, KL_MEM_MATRIX, err));
    else KL_TRY(kl_alloc(&o->coef, c->n, KL_MEM_MATRIX, err));
    for (int64_t r = 0; r < nrow; r++) {
        uint32_t to = o->ptr[r];
        for (int minus = 0; minus < (o->unit ? 2 : 1); minus++) {
            for (uint32_t i = o->ptr[r]; i < o->ptr[r + 1]; i++) {
                if (o->unit && (c->e[i].value < 0.0) != minus) continue;
                if (o->idx16) o->idx16[to] = (uint16_t)c->e[i].col;
                else o->idx32[to] = c->e[i].col;
                if (!o->unit) o->coef[to] = c->e[i].value;
                to++;
            }
            if (o->unit && !minus) o->minus[r] = to;
        }
    }
    *out = o;
    o = NULL;
out:
    kl_kron_op_destroy(&o);
    return st;
}
