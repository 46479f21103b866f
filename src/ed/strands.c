/* Strings cut in two. Signs come from the generated phase.h only.
   SPDX-License-Identifier: Apache-2.0 */
#include "ed/strands.h"
#include "base/mem.h"
#include "phase.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static kl_status push(kl_strands *list, const kl_strand *p, kl_err *err)
{
    kl_status st = KL_OK;
    if (p->coef == 0.0) return KL_OK;
    if (p->n[0] + p->n[1] == 0) {
        list->constant += p->coef;
        return KL_OK;
    }
    if (list->n == list->room) {
        list->room = list->room ? 2 * list->room : 64;
        KL_TRY(kl_realloc(&list->p, list->room, KL_MEM_RECORD, err));
    }
    list->p[list->n++] = *p;
out:
    return st;
}

int kl_strand_compare(const kl_strand *a, const kl_strand *b, int side)
{
    if (a->n[side] != b->n[side]) return a->n[side] < b->n[side] ? -1 : 1;
    return a->n[side] ? memcmp(a->op[side], b->op[side], (size_t)a->n[side] * sizeof(kl_op_at)) : 0;
}

static int by_left(const void *a, const void *b)
{
    const int c = kl_strand_compare(a, b, 0);
    return c ? c : kl_strand_compare(a, b, 1);
}

static int by_right(const void *a, const void *b)
{
    const int c = kl_strand_compare(a, b, 1);
    return c ? c : kl_strand_compare(a, b, 0);
}

/* All products of one mode operator of each flavour for each factor of a string; sorted flavour by flavour
   with the sign of that. */
static kl_status expand(const kl_flavour *f, const kl_terms *t, const kl_term *term, kl_strands *out,
                        kl_err *err)
{
    kl_status st = KL_OK;
    int choice[KL_MAX_FACTOR] = {0};
    const kl_op_at *const op = t->op + term->first;
    for (;;) {
        double coef = term->coef;
        for (int k = 0; k < term->nop && coef != 0.0; k++)
            coef *= f->part[op[k].op][choice[k] / KL_NMODE][choice[k] % KL_NMODE];
        if (coef != 0.0) {
            int key[2 * KL_MAX_FACTOR], odd[2 * KL_MAX_FACTOR], n = 0;
            kl_strand p = {.coef = coef};
            for (int k = 0; k < term->nop; k++)
                for (int s = 0; s < 2; s++) {
                    const int o = s ? choice[k] % KL_NMODE : choice[k] / KL_NMODE;
                    if (o == KL_MODE_I) continue;
                    key[n] = s;
                    odd[n++] = o >= KL_MODE_C;
                    p.op[s][p.n[s]++] = (kl_op_at){.pos = op[k].pos, .op = o};
                }
            p.coef *= kl_phase_sort(n, key, odd, NULL);
            KL_TRY(push(out, &p, err));
        }
        int k = 0;
        while (k < term->nop && ++choice[k] == KL_NMODE * KL_NMODE) choice[k++] = 0;
        if (k == term->nop) break;
    }
out:
    return st;
}

/* Equal strands are added; what cancels is dropped. */
static void merge(kl_strands *list)
{
    if (list->n == 0) return;
    qsort(list->p, (size_t)list->n, sizeof(kl_strand), by_left);
    int64_t kept = 0;
    double size = 0.0;
    for (int64_t i = 0; i < list->n; i++) {
        if (kept > 0 && by_left(&list->p[kept - 1], &list->p[i]) == 0) {
            list->p[kept - 1].coef += list->p[i].coef;
            size += fabs(list->p[i].coef);
        } else {
            list->p[kept++] = list->p[i];
            size = fabs(list->p[i].coef);
        }
        const int last = i + 1 == list->n || by_left(&list->p[kept - 1], &list->p[i + 1]) != 0;
        if (last && fabs(list->p[kept - 1].coef) <= 1e-15 * size) kept--;
    }
    list->n = kept;
}

kl_status kl_strands_split(const kl_terms *t, int64_t from, int64_t to, const kl_flavour *f, int cut,
                           kl_strands *out, kl_err *err)
{
    kl_status st = KL_OK;
    for (int64_t i = from; i < to; i++) {
        const kl_term *const term = &t->term[i];
        if (f) {
            KL_TRY(expand(f, t, term, out, err));
            continue;
        }
        kl_strand p = {.coef = term->coef};
        for (int k = 0; k < term->nop; k++) {
            const kl_op_at o = t->op[term->first + k];
            const int s = o.pos >= cut;
            p.op[s][p.n[s]++] = (kl_op_at){.pos = s ? o.pos - cut : o.pos, .op = o.op};
        }
        KL_TRY(push(out, &p, err));
    }
    merge(out);
out:
    return st;
}

static int is_diagonal(const kl_site_op *op)
{
    for (int e = 0; e < op->nelem; e++)
        if (op->elem[e].row != op->elem[e].col) return 0;
    return 1;
}

int kl_strand_is_diagonal(const kl_site_type *const *type, const kl_strand *p, int side)
{
    for (int k = 0; k < p->n[side]; k++)
        if (!is_diagonal(&type[p->op[side][k].pos]->op[p->op[side][k].op])) return 0;
    return 1;
}

static int ptr_by_left(const void *a, const void *b)
{
    return by_left(*(kl_strand *const *)a, *(kl_strand *const *)b);
}
static int ptr_by_right(const void *a, const void *b)
{
    return by_right(*(kl_strand *const *)a, *(kl_strand *const *)b);
}

int64_t kl_strands_distinct(int64_t n, kl_strand *const *p, int side)
{
    int64_t k = 0;
    for (int64_t i = 0; i < n; i++) k += i == 0 || kl_strand_compare(p[i - 1], p[i], side) != 0;
    return k;
}

int kl_strands_group(int64_t n, kl_strand **p)
{
    if (n == 0) return 0;
    qsort(p, (size_t)n, sizeof *p, ptr_by_right);
    const int64_t right = kl_strands_distinct(n, p, 1);
    qsort(p, (size_t)n, sizeof *p, ptr_by_left);
    if (kl_strands_distinct(n, p, 0) <= right) return 0;
    qsort(p, (size_t)n, sizeof *p, ptr_by_right);
    return 1;
}

void kl_strands_clear(kl_strands *s)
{
    kl_free(&s->p);
    *s = (kl_strands){0};
}
