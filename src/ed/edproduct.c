/* Products of operators of sites: see edproduct.h. Where A acts before the cut and B behind it,
   <A B> = sum of x(l', r') A(l', l) B(r', r) x(l, r); a factor is odd or even, and one that is both is a sum.
   SPDX-License-Identifier: Apache-2.0 */
#include "ed/edproduct.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/par.h"
#include "phase.h"

/* of a task */
enum {
    COLUMNS = 16,
    ELEMENTS = 64,
};

static int64_t size_of(const kl_half *h, int sec) { return h->begin[sec + 1] - h->begin[sec]; }

/* ---------------------------------------------------------------- the state across the cut */

typedef struct turning {
    const kl_bipartition *space;
    const double *x;
    kl_ed_cut *c;
    int *state;   /* [threads][nsite] */
    double *part; /* [tasks] of the square */
} turning;

/* Where a block's column r begins in a basis by sites, or where each of its states stands in one by
   flavours. */
static void turn_column(const turning *t, int block, int64_t r, double *to, int *state)
{
    const kl_bipartition *const h = t->c->h;
    const int s = h->left_sec[block];
    const int64_t nl = size_of(&h->left, s);
    if (!t->space->flavours) {
        const double *const from =
            t->x + h->off[block] + r / KL_KRON_LANES * nl * KL_KRON_LANES + r % KL_KRON_LANES;
        for (int64_t l = 0; l < nl; l++) to[l] = from[l * KL_KRON_LANES];
        return;
    }
    kl_half_digits(&h->right, h->right.code[h->right.begin[h->right_sec[block]] + r], state + h->cut);
    for (int64_t l = 0; l < nl; l++) {
        int sign;
        kl_half_digits(&h->left, h->left.code[h->left.begin[s] + l], state);
        const int64_t at = kl_bipartition_rank(t->space, state, &sign);
        to[l] = sign * t->x[at];
    }
}

static void turn_columns(void *self, int64_t task, int thread)
{
    const turning *const t = self;
    const kl_ed_cut *const c = t->c;
    const int nblock = c->h->nblock;
    const int64_t last = (task + 1) * COLUMNS, end = last < c->column[nblock] ? last : c->column[nblock];
    int block = 0;
    double square = 0.0;
    for (int64_t column = task * COLUMNS; column < end; column++) {
        while (column >= c->column[block + 1]) block++;
        const int64_t r = column - c->column[block], nl = size_of(&c->h->left, c->h->left_sec[block]);
        double *const to = c->x + c->off[block] + r * nl;
        turn_column(t, block, r, to, t->state + (int64_t)thread * c->h->nsite);
        for (int64_t l = 0; l < nl; l++) square += to[l] * to[l];
    }
    t->part[task] = square;
}

kl_status kl_ed_cut_create(const kl_terms *terms, const kl_bipartition *space, const double *x, int nthread,
                           kl_ed_cut **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_ed_cut *c = NULL;
    turning t = {.space = space, .x = x};
    *out = NULL;
    KL_TRY(kl_alloc(&c, 1, KL_MEM_MISC, err));
    if (space->flavours)
        KL_TRY(kl_bipartition_create(terms, space->target, KL_BIPARTITION_SITES, &c->own, err));
    const kl_bipartition *const h = c->h = space->flavours ? c->own : space;
    KL_TRY(kl_alloc(&c->block_of_right, h->right.nsec, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&c->column, h->nblock + 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&c->off, h->nblock + 1, KL_MEM_MISC, err));
    for (int s = 0; s < h->right.nsec; s++) c->block_of_right[s] = -1;
    for (int b = 0; b < h->nblock; b++) {
        const int64_t nr = size_of(&h->right, h->right_sec[b]);
        c->block_of_right[h->right_sec[b]] = b;
        c->column[b + 1] = c->column[b] + nr;
        c->off[b + 1] = c->off[b] + size_of(&h->left, h->left_sec[b]) * nr;
    }
    const int64_t ntask = (c->column[h->nblock] + COLUMNS - 1) / COLUMNS;
    KL_TRY(kl_alloc(&c->x, c->off[h->nblock], KL_MEM_VECTOR, err));
    KL_TRY(kl_alloc(&t.state, (int64_t)nthread * h->nsite, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t.part, ntask, KL_MEM_WORK, err));
    t.c = c;
    kl_par_for(nthread, ntask, turn_columns, &t);
    for (int64_t i = 0; i < ntask; i++) c->square += t.part[i];
    *out = c;
    c = NULL;
out:
    kl_free(&t.state);
    kl_free(&t.part);
    kl_ed_cut_destroy(&c);
    return st;
}

void kl_ed_cut_destroy(kl_ed_cut **pc)
{
    kl_ed_cut *const c = *pc;
    if (!c) return;
    kl_bipartition_destroy(&c->own);
    kl_free(&c->block_of_right);
    kl_free(&c->column);
    kl_free(&c->off);
    kl_free(&c->x);
    kl_free(pc);
}

/* ---------------------------------------------------------------- an operator of one half */

/* Of the states of two sectors, each counted from its first. */
typedef struct element {
    uint32_t from, to;
    double value;
} element;

/* Elements of one pair of sectors. */
typedef struct group {
    int from, to;
    int64_t begin, end;
} group;

typedef struct half_operator {
    element *list; /* group by group */
    int64_t n, cap;
    group *group; /* ascending by `from' */
    int ngroup, cap_group;
} half_operator;

static void half_operator_clear(half_operator *o)
{
    kl_free(&o->list);
    kl_free(&o->group);
}

typedef struct half_factor {
    int p, odd; /* position in the half; which part of it is meant */
    const double *a;
} half_factor;

/* What becomes of the states of a sector, before it is sorted by where they lead. */
typedef struct image {
    int to_sec;
    element e;
} image;

typedef struct acting {
    const kl_model *model;
    const kl_half *h;
    int n, *state; /* [npos] */
    const half_factor *f;
    uint32_t from;
    int from_sec;
    image *list;
    int64_t nlist, cap;
    kl_status st;
    kl_err *err;
} acting;

static void tell_image(acting *a, uint64_t code, kl_qn q, double value)
{
    const int sec = kl_half_sector(a->h, q);
    if (sec < 0 || a->st != KL_OK) return;
    const int64_t to = kl_half_find_near(a->h, sec, code, sec == a->from_sec ? (int64_t)a->from : -1);
    if (to < 0) return;
    if (a->nlist == a->cap) {
        a->st = kl_realloc(&a->list, 2 * a->cap + 64, KL_MEM_WORK, a->err);
        if (a->st != KL_OK) return;
        a->cap = 2 * a->cap + 64;
    }
    a->list[a->nlist++] = (image){sec, {a->from, (uint32_t)to, value}};
}

/* value * f[0] .. f[k - 1] |state>: the factors act one after the other, the last one first, each with the
   sign that the modes before its own give. */
static void act(acting *a, int k, uint64_t code, kl_qn q, double value)
{
    const kl_half *const h = a->h;
    if (k == 0) {
        tell_image(a, code, q, value);
        return;
    }
    const half_factor *const f = &a->f[k - 1];
    const int p = f->p, col = a->state[p], dim = h->type[p]->dim;
    int before = 0;
    for (int i = 0; i < p && f->odd; i++) before ^= h->odd[i * h->most + a->state[i]];
    for (int row = 0; row < dim; row++) {
        const double v = f->a[row + col * dim];
        if (v == 0.0 || (h->odd[p * h->most + row] ^ h->odd[p * h->most + col]) != f->odd) continue;
        kl_qn to = q;
        if (row != col)
            to =
                kl_qn_add(a->model, kl_qn_sub(a->model, q, kl_qn_of(a->model, h->type[p]->state_charge[col])),
                          kl_qn_of(a->model, h->type[p]->state_charge[row]));
        a->state[p] = row;
        act(a, k - 1, code + (uint64_t)row * h->stride[p] - (uint64_t)col * h->stride[p], to,
            value * v * kl_phase_record(f->odd, before));
        a->state[p] = col;
    }
}

static int image_order(const void *x, const void *y)
{
    const image *const a = x, *const b = y;
    if (a->to_sec != b->to_sec) return a->to_sec < b->to_sec ? -1 : 1;
    if (a->e.from != b->e.from) return a->e.from < b->e.from ? -1 : 1;
    return a->e.to < b->e.to ? -1 : a->e.to > b->e.to;
}

/* The images of a sector, as groups. */
static kl_status add_groups(half_operator *o, acting *a, kl_err *err)
{
    kl_status st = KL_OK;
    int many = 0;
    for (int64_t i = 1; i < a->nlist; i++) many |= a->list[i].to_sec != a->list[0].to_sec;
    if (many) qsort(a->list, (size_t)a->nlist, sizeof *a->list, image_order);
    if (o->n + a->nlist > o->cap) {
        KL_TRY(kl_realloc(&o->list, 2 * o->cap + a->nlist, KL_MEM_WORK, err));
        o->cap = 2 * o->cap + a->nlist;
    }
    for (int64_t i = 0; i < a->nlist; i++) {
        if (i == 0 || a->list[i].to_sec != a->list[i - 1].to_sec) {
            if (o->ngroup == o->cap_group) {
                KL_TRY(kl_realloc(&o->group, 2 * o->cap_group + 16, KL_MEM_WORK, err));
                o->cap_group = 2 * o->cap_group + 16;
            }
            o->group[o->ngroup++] = (group){a->from_sec, a->list[i].to_sec, o->n, o->n};
        }
        o->list[o->n++] = a->list[i].e;
        o->group[o->ngroup - 1].end = o->n;
    }
out:
    return st;
}

/* All elements of f[0] .. f[n - 1], times the sign that a source state gives an odd operator behind it. */
static kl_status half_operator_make(const kl_model *m, const kl_half *h, int n, const half_factor *f,
                                    int odd_behind, half_operator *o, kl_err *err)
{
    kl_status st = KL_OK;
    acting a = {.model = m, .h = h, .n = n, .f = f, .err = err};
    KL_TRY(kl_alloc(&a.state, h->npos, KL_MEM_WORK, err));
    for (int s = 0; s < h->nsec; s++) {
        a.from_sec = s;
        a.nlist = 0;
        const int odd = kl_qn_odd(m, h->q[s]);
        for (int64_t i = 0; i < size_of(h, s); i++) {
            const uint64_t code = h->code[h->begin[s] + i];
            a.from = (uint32_t)i;
            kl_half_digits(h, code, a.state);
            act(&a, n, code, h->q[s], kl_phase_record(odd_behind, odd));
        }
        KL_TRY(a.st);
        KL_TRY(add_groups(o, &a, err));
    }
out:
    kl_free(&a.state);
    kl_free(&a.list);
    return st;
}

/* ---------------------------------------------------------------- both halves */

typedef struct contraction {
    const kl_ed_cut *c;
    const half_operator *left, *right;
    double *part; /* [tasks] */
} contraction;

static const group *group_between(const half_operator *o, int from, int to)
{
    int low = 0, high = o->ngroup;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (o->group[mid].from < from) low = mid + 1;
        else high = mid;
    }
    for (; low < o->ngroup && o->group[low].from == from; low++)
        if (o->group[low].to == to) return &o->group[low];
    return NULL;
}

static double contract_group(const contraction *t, const group *r, int64_t begin, int64_t end)
{
    const kl_ed_cut *const c = t->c;
    const kl_bipartition *const h = c->h;
    const int b = c->block_of_right[r->from], to = c->block_of_right[r->to];
    if (b < 0 || to < 0) return 0.0;
    const group *const l = group_between(t->left, h->left_sec[b], h->left_sec[to]);
    if (!l) return 0.0;
    const int64_t nx = size_of(&h->left, h->left_sec[b]), ny = size_of(&h->left, h->left_sec[to]);
    double all = 0.0;
    for (int64_t j = begin; j < end; j++) {
        const element *const er = &t->right->list[j];
        const double *const x = c->x + c->off[b] + (int64_t)er->from * nx, *const y = c->x + c->off[to] +
                                                                                      (int64_t)er->to * ny;
        double sum = 0.0;
        for (int64_t i = l->begin; i < l->end; i++) {
            const element *const e = &t->left->list[i];
            sum += e->value * x[e->from] * y[e->to];
        }
        all += er->value * sum;
    }
    return all;
}

static void contract(void *self, int64_t task, int thread)
{
    const contraction *const t = self;
    const int64_t begin = task * ELEMENTS, end = begin + ELEMENTS;
    double sum = 0.0;
    (void)thread;
    for (int g = 0; g < t->right->ngroup; g++) {
        const group *const r = &t->right->group[g];
        const int64_t low = r->begin > begin ? r->begin : begin, high = r->end < end ? r->end : end;
        if (low < high) sum += contract_group(t, r, low, high);
    }
    t->part[task] = sum;
}

/* <x| f[0] .. f[n - 1] |x>, of each factor the part that is odd[] or is not. */
static kl_status one_parity(const kl_ed_cut *c, int n, const kl_ed_factor *f, const int *odd, int nthread,
                            double *value, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_bipartition *const h = c->h;
    half_operator op[2] = {{0}};
    half_factor *part = NULL;
    int *key = NULL, *sorted = NULL, *perm = NULL, nleft = 0, behind = 0;
    contraction t = {.c = c, .left = &op[0], .right = &op[1]};
    *value = 0.0;
    KL_TRY(kl_alloc(&part, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&key, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&sorted, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&perm, n, KL_MEM_WORK, err));
    for (int k = 0; k < n; k++) {
        key[k] = f[k].pos >= h->cut;
        sorted[k] = odd[k];
        nleft += !key[k];
        behind ^= key[k] & odd[k];
    }
    const int sign = kl_phase_sort(n, key, sorted, perm);
    for (int k = 0; k < n; k++)
        part[k] = (half_factor){f[perm[k]].pos - (k < nleft ? 0 : h->cut), sorted[k], f[perm[k]].a};
    KL_TRY(half_operator_make(h->model, &h->left, nleft, part, behind, &op[0], err));
    KL_TRY(half_operator_make(h->model, &h->right, n - nleft, part + nleft, 0, &op[1], err));
    const int64_t ntask = (op[1].n + ELEMENTS - 1) / ELEMENTS;
    KL_TRY(kl_alloc(&t.part, ntask, KL_MEM_WORK, err));
    kl_par_for(nthread, ntask, contract, &t);
    for (int64_t i = 0; i < ntask; i++) *value += t.part[i];
    *value *= sign;
out:
    half_operator_clear(&op[0]);
    half_operator_clear(&op[1]);
    kl_free(&part);
    kl_free(&key);
    kl_free(&sorted);
    kl_free(&perm);
    kl_free(&t.part);
    return st;
}

/* Bit 0: an operator has elements that are even, bit 1: that are odd. */
static int parities(const kl_bipartition *h, const kl_ed_factor *f)
{
    const kl_site_type *const type = h->type[f->pos];
    int seen = 0;
    for (int row = 0; row < type->dim; row++)
        for (int col = 0; col < type->dim; col++)
            if (f->a[row + col * type->dim] != 0.0)
                seen |= 1 << (kl_qn_odd(h->model, kl_qn_of(h->model, type->state_charge[row])) ^
                              kl_qn_odd(h->model, kl_qn_of(h->model, type->state_charge[col])));
    return seen;
}

kl_status kl_ed_product(const kl_ed_cut *c, int n, const kl_ed_factor *f, int nthread, double *value,
                        kl_err *err)
{
    kl_status st = KL_OK;
    int *odd = NULL, *seen = NULL, k = 0;
    double one;
    *value = 0.0;
    KL_TRY(kl_alloc(&odd, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&seen, n, KL_MEM_WORK, err));
    for (int i = 0; i < n; i++) {
        seen[i] = parities(c->h, &f[i]);
        odd[i] = seen[i] == 2;
        if (seen[i] == 0) goto out;
    }
    do { /* every choice of odd and even parts, counted in binary */
        int sum = 0;
        for (int i = 0; i < n; i++) sum ^= odd[i];
        if (!sum) KL_TRY(one_parity(c, n, f, odd, nthread, &one, err));
        if (!sum) *value += one / c->square;
        for (k = 0; k < n; k++) {
            if (seen[k] != 3) continue;
            odd[k] ^= 1;
            if (odd[k]) break;
        }
    } while (k < n);
out:
    kl_free(&odd);
    kl_free(&seen);
    return st;
}
