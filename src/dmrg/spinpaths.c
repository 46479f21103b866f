/* Strings of operators in a state of the total spin as sums of coupled ones (measurespin.c says how).
   Outline:
   1. the operators of the list are cut into components of irreducible ones; what differs in its component
      alone is one operator of the multiplets;
   2. a string is cut behind its first half. The part before, the tensor of the edge with it, is coupled from
      the left to a rank K, the part behind from the right to the same rank: for every path of ranks a
      product of Clebsch-Gordan coefficients, a beginning and an end, which strings share.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/spinpaths.h"
#include "base/mem.h"
#include "model/wigner.h"
#include <math.h>
#include <stdlib.h>

#define ALIKE 1e-13 /* of the largest element: matrices that differ by a factor are one operator */

typedef struct part { /* coef times component q (doubled) of an operator of the multiplets */
    int op, q;
    double coef;
} part;

typedef struct known { /* an operator of the list's own tables */
    int read, n;
    part *part;
    kl_irreducibles x;
} known;

typedef struct way { /* a path of ranks up to a node */
    int node, rank;
    double coef;
} way;

typedef struct ways {
    int n, room;
    way *list;
} ways;

/* ---------------------------------------------------------------- 1. operators of the multiplets */

/* y = *factor x, of all their elements. */
static int alike(const kl_irreducible *x, const kl_irreducible *y, int t, double *factor)
{
    if (x->rank != y->rank || x->n[t] != y->n[t] || kl_qn_cmp(x->shift, y->shift) != 0) return 0;
    double most = 0;
    for (int k = 0; k < x->n[t]; k++) {
        const kl_elem *const a = &x->elem[t][k], *const b = &y->elem[t][k];
        if (a->row != b->row || a->col != b->col) return 0;
        most = fmax(most, fabs(b->value));
    }
    *factor = y->elem[t][0].value / x->elem[t][0].value;
    for (int k = 0; k < x->n[t]; k++)
        if (fabs(y->elem[t][k].value - *factor * x->elem[t][k].value) > ALIKE * most) return 0;
    return 1;
}

static kl_status read_operator(kl_spinpaths *w, int t, int op, const known **out, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_site_type *const type = &w->t->model->type[t];
    const kl_site_op *const o = &type->op[op];
    known *const x = &w->known[t][op];
    double *a = NULL;
    *out = x;
    if (x->read) return KL_OK;
    x->read = 1;
    KL_TRY(kl_alloc(&a, (int64_t)type->dim * type->dim, KL_MEM_WORK, err));
    for (int k = 0; k < o->nelem; k++) a[o->elem[k].row + o->elem[k].col * type->dim] = o->elem[k].value;
    KL_TRY(kl_irreducibles_add(w->m->can->model, t, a, &x->x, err));
    KL_TRY(kl_alloc(&x->part, x->x.n, KL_MEM_WORK, err));
    for (int k = 0; k < x->x.n; k++) {
        const kl_irreducible *const y = &x->x.list[k];
        double factor = 1;
        int r = 0;
        while (r < w->nreduced && (w->reduced[r].type != t || !alike(w->reduced[r].x, y, t, &factor))) r++;
        if (r == w->nreduced) {
            KL_TRY(kl_realloc(&w->reduced, w->nreduced + 1, KL_MEM_WORK, err));
            w->reduced[w->nreduced++] = (kl_reduced){t, y};
            factor = 1;
        }
        x->part[x->n++] = (part){r, y->part, factor};
    }
out:
    kl_free(&a);
    return st;
}

/* ---------------------------------------------------------------- 2. paths of ranks */

static kl_status add_way(ways *s, int node, int rank, double coef, kl_err *err)
{
    kl_status st = KL_OK;
    for (int k = 0; k < s->n; k++)
        if (s->list[k].node == node) {
            s->list[k].coef += coef;
            return KL_OK;
        }
    if (s->n == s->room) {
        s->room = 2 * s->room + 16;
        KL_TRY(kl_realloc(&s->list, s->room, KL_MEM_WORK, err));
    }
    s->list[s->n++] = (way){node, rank, coef};
out:
    return st;
}

/* Component q of operator x is coupled to paths whose component is Q: behind beginnings, before ends. */
static kl_status go_on(kl_spinpaths *w, kl_nodes *s, int pos, const part *x, const ways *from, int Q,
                       int until, ways *to, kl_err *err)
{
    kl_status st = KL_OK;
    const int before = s == &w->begin;
    const kl_irreducible *const o = w->reduced[x->op].x;
    to->n = 0;
    for (int k = 0; k < from->n; k++) {
        const way *const f = &from->list[k];
        for (int K = abs(f->rank - o->rank); K <= f->rank + o->rank; K += 2) {
            const double c = before ? kl_clebsch(f->rank, Q, o->rank, x->q, K, Q + x->q)
                                    : kl_clebsch(o->rank, x->q, f->rank, Q, K, Q + x->q);
            if (fabs(c) < KL_SPIN_ZERO) continue;
            const kl_node node = {
                .pos = pos,
                .op = x->op,
                .other = f->node,
                .rank = K,
                .until = -1,
                .shift =
                    f->node < 0 ? o->shift : kl_qn_add(w->m->can->model, o->shift, s->list[f->node].shift)};
            int at;
            KL_TRY(kl_nodes_find(s, &node, &at, err));
            int *const asked = &s->list[at].until;
            if (until >= 0 && (*asked < 0 || *asked > until)) *asked = until;
            KL_TRY(add_way(to, at, K, f->coef * c * x->coef, err));
        }
    }
out:
    return st;
}

/* The tensors of the edge that may stand before components of these ranks. */
static kl_status start(kl_spinpaths *w, int ranks, ways *s, kl_err *err)
{
    kl_status st = KL_OK;
    s->n = 0;
    KL_TRY(add_way(s, -1, 0, kl_tensors_weight(w->m, 0), err));
    for (int L = 1; L <= kl_tensors_spin(w->m) && 2 * L <= ranks; L++) {
        const kl_node edge = {
            .pos = -1, .op = -1, .other = -1, .rank = 2 * L, .until = -1, .shift = kl_qn_zero()};
        int at;
        KL_TRY(kl_nodes_find(&w->begin, &edge, &at, err));
        KL_TRY(add_way(s, at, 2 * L, kl_tensors_weight(w->m, L), err));
    }
out:
    return st;
}

static kl_status add_path(kl_spinpaths *w, int64_t from, const kl_path *x, kl_err *err)
{
    kl_status st = KL_OK;
    for (int64_t k = from; k < w->npath; k++)
        if (w->path[k].begin == x->begin && w->path[k].end == x->end) {
            w->path[k].coef += x->coef;
            return KL_OK;
        }
    if (w->npath == w->room) {
        w->room = 2 * w->room + 1024;
        KL_TRY(kl_realloc(&w->path, w->room, KL_MEM_WORK, err));
    }
    w->path[w->npath++] = *x;
out:
    return st;
}

typedef struct string { /* a term, of each operator one component */
    int n;
    const kl_op_at *op;
    const part **part; /* [n] */
    ways way[4]; /* beginnings and ends, and one operator less */
} string;

static void swap(ways *a, ways *b)
{
    const ways x = *a;
    *a = *b;
    *b = x;
}

/* The paths of one choice of components; those of this term begin at `from`. */
static kl_status add_choice(kl_spinpaths *w, int64_t term, int64_t from, string *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = s->n, before = n / 2;
    int Q = 0, ranks = 0;
    ways *const begin = &s->way[0], *const end = &s->way[1];
    for (int k = 0; k < n; k++) {
        Q += s->part[k]->q;
        ranks += w->reduced[s->part[k]->op].x->rank;
    }
    if (Q != 0) return KL_OK;
    KL_TRY(start(w, ranks, begin, err));
    for (int k = 0; k < before; k++) {
        KL_TRY(go_on(w, &w->begin, s->op[k].pos, s->part[k], begin, Q, -1, &s->way[2], err));
        swap(begin, &s->way[2]);
        Q += s->part[k]->q;
    }
    const int sum = Q;
    end->n = 0;
    KL_TRY(add_way(end, -1, 0, 1, err));
    for (int k = n - 1; k >= before; k--) {
        const int until = k > before ? s->op[k - 1].pos + 1 : -1;
        KL_TRY(go_on(w, &w->end, s->op[k].pos, s->part[k], end, Q - sum, until, &s->way[3], err));
        swap(end, &s->way[3]);
        Q += s->part[k]->q;
    }
    for (int i = 0; i < begin->n; i++)
        for (int j = 0; j < end->n; j++) {
            const way *const a = &begin->list[i], *const b = &end->list[j];
            const double c = a->rank == b->rank ? kl_clebsch(a->rank, sum, b->rank, -sum, 0, 0) : 0;
            if (fabs(c) < KL_SPIN_ZERO) continue;
            int *const until = &w->begin.list[a->node].until;
            if (*until < s->op[before].pos) *until = s->op[before].pos;
            KL_TRY(add_path(w, from, &(kl_path){term, a->node, b->node, a->coef * b->coef * c}, err));
        }
out:
    return st;
}

static kl_status cut_terms(kl_spinpaths *w, kl_err *err)
{
    kl_status st = KL_OK;
    string s = {0};
    const known **op = NULL;
    int *choice = NULL, most = 0;
    for (int64_t i = 0; i < w->t->nterm; i++) most = w->t->term[i].nop > most ? w->t->term[i].nop : most;
    KL_TRY(kl_alloc(&s.part, most, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&op, most, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&choice, most, KL_MEM_WORK, err));
    for (int64_t i = 0; i < w->t->nterm; i++) {
        const int64_t from = w->npath;
        int empty = 0;
        s.n = w->t->term[i].nop;
        s.op = w->t->op + w->t->term[i].first;
        if (s.n < 2) continue;
        for (int k = 0; k < s.n; k++) {
            KL_TRY(read_operator(w, kl_tensors_type(w->m, s.op[k].pos), s.op[k].op, &op[k], err));
            choice[k] = 0;
            empty |= op[k]->n == 0;
        }
        for (int k = empty ? -1 : 0; k >= 0;) {
            for (k = 0; k < s.n; k++) s.part[k] = &op[k]->part[choice[k]];
            KL_TRY(add_choice(w, i, from, &s, err));
            for (k = s.n - 1; k >= 0 && ++choice[k] == op[k]->n; k--) choice[k] = 0;
        }
    }
    kl_nodes_keep(&w->begin);
out:
    for (int k = 0; k < 4; k++) kl_free(&s.way[k].list);
    kl_free(&s.part);
    kl_free(&op);
    kl_free(&choice);
    return st;
}

/* Paths in the order of their ends. */
static kl_status sort_paths(kl_spinpaths *w, kl_err *err)
{
    kl_status st = KL_OK;
    kl_path *sorted = NULL;
    KL_TRY(kl_alloc(&w->first, w->end.n + 2, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&sorted, w->npath, KL_MEM_WORK, err));
    for (int64_t k = 0; k < w->npath; k++) w->first[w->path[k].end + 2]++;
    for (int x = 1; x <= w->end.n; x++) w->first[x + 1] += w->first[x];
    for (int64_t k = 0; k < w->npath; k++) sorted[w->first[w->path[k].end + 1]++] = w->path[k];
    kl_free(&w->path);
    w->path = sorted;
    sorted = NULL;
out:
    kl_free(&sorted);
    return st;
}

kl_status kl_spinpaths_make(kl_spinpaths *s, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const model = s->t->model;
    KL_TRY(kl_alloc(&s->known, model->ntype, KL_MEM_WORK, err));
    for (int t = 0; t < model->ntype; t++)
        KL_TRY(kl_alloc(&s->known[t], model->type[t].nop, KL_MEM_WORK, err));
    KL_TRY(cut_terms(s, err));
    KL_TRY(sort_paths(s, err));
out:
    return st;
}

void kl_spinpaths_clear(kl_spinpaths *s)
{
    for (int t = 0; s->known != NULL && t < s->t->model->ntype; t++) {
        for (int o = 0; s->known[t] != NULL && o < s->t->model->type[t].nop; o++) {
            kl_irreducibles_clear(&s->known[t][o].x);
            kl_free(&s->known[t][o].part);
        }
        kl_free(&s->known[t]);
    }
    kl_free(&s->known);
    kl_free(&s->reduced);
    kl_free(&s->path);
    kl_free(&s->first);
    kl_nodes_clear(&s->begin);
    kl_nodes_clear(&s->end);
}
