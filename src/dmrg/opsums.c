/* Sums of a block's operators as products: see opsums.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/opsums.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

/* A product takes as long as a few additions of what it reads: worth while where its coefficients are no
   more than so many times those that are not zero. */
enum { SPARSE = 4 };

/* ---- kinds ---- */

typedef struct named {
    const kl_cut_op *op;
    int number;
} named;

static int by_kind(const kl_cut_op *a, const kl_cut_op *b)
{
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    if (a->odd != b->odd) return a->odd < b->odd ? -1 : 1;
    return kl_qn_cmp(a->shift, b->shift);
}

typedef int compare_fn(const kl_cut_op *a, const kl_cut_op *b);

/* Those that are their own adjoint come last. */
static int by_kind_and_self(const kl_cut_op *a, const kl_cut_op *b)
{
    const int order = by_kind(a, b);
    return order != 0 ? order : (a->self != 0) - (b->self != 0);
}

static int by_kind_and_number(const void *pa, const void *pb)
{
    const named *const a = pa, *const b = pb;
    const int order = by_kind(a->op, b->op);
    return order != 0 ? order : a->number < b->number ? -1 : a->number > b->number;
}

static int by_self_and_number(const void *pa, const void *pb)
{
    const named *const a = pa, *const b = pb;
    const int order = by_kind_and_self(a->op, b->op);
    return order != 0 ? order : a->number < b->number ? -1 : a->number > b->number;
}

/* The kinds of list[n], sorted, of which `same` says which are one. */
static kl_status list_kinds(const named *list, int n, compare_fn *same, kl_kinds *out, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(&out->order, n, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&out->first, (int64_t)n + 1, KL_MEM_RECORD, err));
    out->nop = n;
    for (int i = 0; i < n; i++) {
        if (i == 0 || same(list[i - 1].op, list[i].op) != 0) out->first[out->n++] = i;
        out->order[i] = list[i].number;
    }
    out->first[out->n] = n;
out:
    return st;
}

/* The kinds of a cut's operators by `sorted` and `same`, without identities of one side (left: 1 or 0), or of
   any (-1). */
static kl_status kinds_of(const kl_mpo *m, int cut, int left, int (*sorted)(const void *, const void *),
                          compare_fn *same, kl_kinds *out, kl_err *err)
{
    kl_status st = KL_OK;
    named *list = NULL;
    int n = 0;
    *out = (kl_kinds){0};
    KL_TRY(kl_alloc(&list, m->nop[cut], KL_MEM_RECORD, err));
    for (int b = 0; b < m->nop[cut]; b++) {
        const kl_cut_op *const o = &m->op[cut][b];
        const int identity = (left != 0 && o->left_identity) || (left != 1 && o->right_identity);
        if (!identity) list[n++] = (named){o, b};
    }
    qsort(list, (size_t)n, sizeof *list, sorted);
    KL_TRY(list_kinds(list, n, same, out, err));
out:
    kl_free(&list);
    if (st != KL_OK) kl_kinds_clear(out);
    return st;
}

kl_status kl_kinds_create(const kl_mpo *m, int left, int cut, kl_kinds *out, kl_err *err)
{
    return kinds_of(m, cut, left ? 1 : 0, by_kind_and_number, by_kind, out, err);
}

kl_status kl_kinds_create_both(const kl_mpo *m, int cut, kl_kinds *out, kl_err *err)
{
    return kinds_of(m, cut, -1, by_self_and_number, by_kind_and_self, out, err);
}

void kl_kinds_clear(kl_kinds *k)
{
    kl_free(&k->order);
    kl_free(&k->first);
}

/* ---- entries: a growth record and an element of its site operator ---- */

typedef struct entry {
    int out; /* place of the grown operator in the order of kinds */
    int kind; /* its kind */
    int s, t;
    int in, in_kind; /* likewise of the block's; -1: the identity */
    int dag, odd, rank; /* of the term: odd and rank of the site operator */
    int b, elem; /* grown operator, element */
    int64_t grow;
    double coef;
} entry;

static int64_t sign_of(int64_t x) { return x < 0 ? -1 : x > 0; }

/* By place, then by term; entries of one place and term stand behind each other. */
static int by_term(const entry *a, const entry *b)
{
    if (a->in_kind != b->in_kind) return a->in_kind < b->in_kind ? -1 : 1;
    if (a->dag != b->dag) return a->dag < b->dag ? -1 : 1;
    if (a->odd != b->odd) return a->odd < b->odd ? -1 : 1;
    return (int)sign_of(a->rank - b->rank);
}

static int by_place(const entry *a, const entry *b)
{
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->s != b->s) return a->s < b->s ? -1 : 1;
    return (int)sign_of(a->t - b->t);
}

static int by_all(const void *pa, const void *pb)
{
    const entry *const a = pa, *const b = pb;
    int order = by_place(a, b);
    if (order == 0) order = by_term(a, b);
    if (order == 0) order = (int)sign_of(a->out - b->out);
    if (order == 0) order = (int)sign_of(a->grow - b->grow);
    return order != 0 ? order : (int)sign_of(a->elem - b->elem);
}

/* As the operators and their records are listed. */
static int by_record(const void *pa, const void *pb)
{
    const entry *const a = pa, *const b = pb;
    if (a->b != b->b) return a->b < b->b ? -1 : 1;
    const int order = (int)sign_of(a->grow - b->grow);
    return order != 0 ? order : (int)sign_of(a->elem - b->elem);
}

/* ---- the lists ---- */

typedef struct building {
    const kl_mpo *m;
    kl_opsums *to;
    const kl_site_type *site;
    kl_kinds in, out;
    int nop;
    int *nth_in, *kind_in; /* of an operator of the block: where it stands, and its kind; -1: an identity */
    int *nth_out, *kind_out;
    entry *list;
    int64_t n;
    int *count; /* [out.nop] entries of each in the place that is looked at, then its number there, or -1 */
    int64_t cap_place, cap_out, cap_term, cap_one, cap_w;
    kl_err *err;
} building;

static kl_status number(const kl_kinds *k, int nop, int **nth, int **kind, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(nth, nop, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(kind, nop, KL_MEM_RECORD, err));
    for (int b = 0; b < nop; b++) (*nth)[b] = (*kind)[b] = -1;
    for (int g = 0; g < k->n; g++)
        for (int i = k->first[g]; i < k->first[g + 1]; i++) (*nth)[k->order[i]] = i, (*kind)[k->order[i]] = g;
out:
    return st;
}

static kl_status collect(building *x, const kl_grow_list *list)
{
    kl_status st = KL_OK;
    const kl_mpo *const m = x->m;
    for (int pass = 0; pass < 2; pass++) {
        x->n = 0;
        for (int b = 0; b < x->nop; b++)
            for (int64_t r = list[b].first; r < list[b].first + list[b].n; r++) {
                const kl_grow *const w = &m->grow[r];
                const kl_site_op *const o = &x->site->op[w->op];
                for (int k = 0; k < o->nelem; k++, x->n++) {
                    if (pass == 0) continue;
                    x->list[x->n] = (entry){.out = x->nth_out[b],
                                            .kind = x->kind_out[b],
                                            .s = o->elem[k].col,
                                            .t = o->elem[k].row,
                                            .in = x->nth_in[w->in],
                                            .in_kind = x->kind_in[w->in],
                                            .dag = w->dag,
                                            .odd = o->odd,
                                            .rank = o->rank,
                                            .b = b,
                                            .elem = k,
                                            .grow = r,
                                            .coef = w->coef * o->elem[k].value};
                }
            }
        if (pass == 0) KL_TRY(kl_alloc(&x->list, x->n, KL_MEM_RECORD, x->err));
    }
out:
    return st;
}

#define MORE(array, n, cap)                                             \
    do {                                                                \
        if ((n) >= (cap)) {                                             \
            (cap) = 2 * (n) + 64;                                       \
            KL_TRY(kl_realloc(&(array), (cap), KL_MEM_RECORD, x->err)); \
        }                                                               \
    } while (0)

/* The next term of [from, to): its entries whose operator is in the place are [*from, end). Returns how many
   of those there are; lo, hi: the first and last operator that they read. */
static int64_t next_term(const building *x, int64_t from, int64_t to, int64_t *end, int *lo, int *hi)
{
    int64_t n = 0;
    *lo = x->in.nop, *hi = -1;
    for (*end = from; *end < to && by_term(&x->list[from], &x->list[*end]) == 0; ++*end) {
        const entry *const e = &x->list[*end];
        if (x->count[e->out] < 0) continue;
        n++;
        if (e->in < *lo) *lo = e->in;
        if (e->in > *hi) *hi = e->in;
    }
    return n;
}

/* 1: sums of nout operators by entries [from, to) are worth being products. */
static int is_dense(const building *x, int64_t from, int64_t to, int nout)
{
    int64_t entries = 0, dense = 0;
    for (int64_t i = from, end; i < to; i = end) {
        int lo, hi;
        const int64_t n = next_term(x, i, to, &end, &lo, &hi);
        if (x->list[i].in_kind < 0 || n == 0) continue;
        entries += n;
        dense += (int64_t)(hi - lo + 1) * nout;
    }
    return nout > 1 && entries > nout && dense <= SPARSE * entries;
}

static kl_status add_terms(building *x, kl_sum_place *p, int64_t from, int64_t to)
{
    kl_status st = KL_OK;
    kl_opsums *const s = x->to;
    p->transposed = 1;
    for (int64_t i = from, end; i < to; i = end) {
        int lo, hi;
        const int64_t n = next_term(x, i, to, &end, &lo, &hi);
        if (n == 0) continue;
        if (x->list[i].in_kind < 0) {
            for (int64_t k = i; k < end; k++) {
                const entry *const e = &x->list[k];
                if (x->count[e->out] < 0) continue;
                MORE(s->one, s->none, x->cap_one);
                s->one[s->none++] = (kl_sum_one){x->count[e->out], e->grow, e->coef};
                p->none++;
            }
            continue;
        }
        const int nin = hi - lo + 1;
        const int64_t w = s->nw, size = (int64_t)nin * p->nout;
        MORE(s->term, s->nterm, x->cap_term);
        if (w + size > x->cap_w) {
            x->cap_w = 2 * (w + size);
            KL_TRY(kl_realloc(&s->w, x->cap_w, KL_MEM_RECORD, x->err));
        }
        memset(s->w + w, 0, (size_t)size * sizeof *s->w);
        s->nw += size;
        for (int64_t k = i; k < end; k++) {
            const entry *const e = &x->list[k];
            if (x->count[e->out] >= 0) s->w[w + e->in - lo + (int64_t)x->count[e->out] * nin] += e->coef;
        }
        p->transposed &= x->list[i].dag;
        s->term[s->nterm++] = (kl_sum_term){x->in.order[lo], nin, x->list[i].dag, x->list[i].grow, w};
        p->nterm++;
    }
out:
    return st;
}

/* The entries [from, to) of one kind and pair of site states: a place where they are dense; what is left. */
static kl_status add_place(building *x, int64_t from, int64_t to, int64_t *left)
{
    kl_status st = KL_OK;
    kl_opsums *const s = x->to;
    const int first = x->out.first[x->list[from].kind], last = x->out.first[x->list[from].kind + 1];
    kl_sum_place p = {x->list[from].s, x->list[from].t, 0, 0, 0, s->nout, s->nterm, s->none, 0};
    /* those with one entry are no sums */
    for (int i = first; i < last; i++) x->count[i] = 0;
    for (int64_t i = from; i < to; i++) x->count[x->list[i].out]++;
    for (int i = first; i < last; i++) x->count[i] = x->count[i] > 1 ? p.nout++ : -1;
    const int dense = is_dense(x, from, to, p.nout);
    if (dense) {
        MORE(s->place, s->nplace, x->cap_place);
        if (s->nout + p.nout > x->cap_out) {
            x->cap_out = 2 * (s->nout + p.nout);
            KL_TRY(kl_realloc(&s->out, x->cap_out, KL_MEM_RECORD, x->err));
        }
        for (int i = first; i < last; i++)
            if (x->count[i] >= 0) s->out[s->nout++] = x->out.order[i];
        KL_TRY(add_terms(x, &p, from, to));
        s->place[s->nplace++] = p;
    }
    for (int64_t i = from; i < to; i++)
        if (!dense || x->count[x->list[i].out] < 0) x->list[(*left)++] = x->list[i];
out:
    return st;
}

/* What is in no place, as it is listed; and where each operator is. */
static kl_status add_rest(building *x, int64_t left)
{
    kl_status st = KL_OK;
    kl_opsums *const s = x->to;
    KL_TRY(kl_alloc(&s->rest, left, KL_MEM_RECORD, x->err));
    KL_TRY(kl_alloc(&s->first_rest, (int64_t)x->nop + 1, KL_MEM_RECORD, x->err));
    KL_TRY(kl_alloc(&s->first_of, (int64_t)x->nop + 2, KL_MEM_RECORD, x->err));
    KL_TRY(kl_alloc(&s->place_of, s->nout, KL_MEM_RECORD, x->err));
    KL_TRY(kl_alloc(&s->out_of, s->nout, KL_MEM_RECORD, x->err));
    qsort(x->list, (size_t)left, sizeof *x->list, by_record);
    int64_t at = 0;
    for (int b = 0; b < x->nop; b++) {
        s->first_rest[b] = at;
        for (; at < left && x->list[at].b == b; at++)
            s->rest[at] = (kl_sum_rest){x->list[at].grow, x->list[at].elem};
    }
    s->first_rest[x->nop] = at;
    for (int64_t i = 0; i < s->nout; i++) s->first_of[s->out[i] + 2]++;
    for (int b = 0; b < x->nop; b++) s->first_of[b + 2] += s->first_of[b + 1];
    for (int p = 0; p < s->nplace; p++)
        for (int i = 0; i < s->place[p].nout; i++) {
            const int64_t to = s->first_of[s->out[s->place[p].out + i] + 1]++;
            s->place_of[to] = p;
            s->out_of[to] = i;
        }
out:
    return st;
}

kl_status kl_opsums_create(const kl_mpo *m, int left, int pos, kl_opsums *out, kl_err *err)
{
    kl_status st = KL_OK;
    const int from = left ? pos : pos + 1, to = left ? pos + 1 : pos;
    building x = {.m = m, .to = out, .site = m->type[pos], .nop = m->nop[to], .err = err};
    *out = (kl_opsums){0};
    KL_TRY(kl_kinds_create(m, left, from, &x.in, err));
    KL_TRY(kl_kinds_create(m, left, to, &x.out, err));
    KL_TRY(number(&x.in, m->nop[from], &x.nth_in, &x.kind_in, err));
    KL_TRY(number(&x.out, m->nop[to], &x.nth_out, &x.kind_out, err));
    KL_TRY(kl_alloc(&x.count, x.out.nop, KL_MEM_RECORD, err));
    KL_TRY(collect(&x, left ? m->left[pos] : m->right[pos]));
    qsort(x.list, (size_t)x.n, sizeof *x.list, by_all);
    int64_t rest = 0;
    for (int64_t i = 0, end; i < x.n; i = end) {
        for (end = i + 1; end < x.n && by_place(&x.list[i], &x.list[end]) == 0;) end++;
        if (x.list[i].kind >= 0) KL_TRY(add_place(&x, i, end, &rest));
        else
            for (int64_t k = i; k < end; k++) x.list[rest++] = x.list[k]; /* the identity stays itself */
    }
    KL_TRY(add_rest(&x, rest));
out:
    kl_kinds_clear(&x.in);
    kl_kinds_clear(&x.out);
    kl_free(&x.nth_in);
    kl_free(&x.kind_in);
    kl_free(&x.nth_out);
    kl_free(&x.kind_out);
    kl_free(&x.count);
    kl_free(&x.list);
    if (st != KL_OK) kl_opsums_clear(out);
    return st;
}

void kl_opsums_clear(kl_opsums *s)
{
    kl_free(&s->place);
    kl_free(&s->out);
    kl_free(&s->term);
    kl_free(&s->one);
    kl_free(&s->w);
    kl_free(&s->place_of);
    kl_free(&s->out_of);
    kl_free(&s->first_of);
    kl_free(&s->rest);
    kl_free(&s->first_rest);
}
