/* See inversion.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "model/inversion.h"
#include "model/strings.h"
#include "model/wigner.h"
#include "phase.h"
#include <math.h>

/* of a coefficient: lattices compute some of them twice, from other ends */
#define SAME 1e-13

/* String i with positions from the other end, its operators by position again; 0: it is not written out. */
static int image(const kl_terms *t, int64_t i, kl_string *s)
{
    const kl_term *const from = &t->term[i];
    const kl_op_at *const op = t->op + from->first;
    const int n = from->nop, spin = kl_model_spin(t->model) >= 0;
    int odd[KL_MAX_FACTOR], key[KL_MAX_FACTOR], perm[KL_MAX_FACTOR];
    if (n > KL_MAX_FACTOR || (spin && n > 2)) return 0;
    *s = (kl_string){.coef = from->coef, .n = n};
    for (int k = 0; k < n; k++) {
        key[k] = t->nsite - 1 - op[k].pos;
        odd[k] = t->type[op[k].pos]->op[op[k].op].odd;
    }
    s->coef *= kl_phase_sort(n, key, odd, perm);
    for (int k = 0; k < n; k++) s->op[k] = (kl_op_at){key[k], op[perm[k]].op, op[perm[k]].rank};
    if (spin && n == 2) { /* two of one rank, coupled to 0 */
        const int rank = op[0].rank;
        s->coef *= kl_swap(0, rank, rank, 0, rank, rank);
        s->op[0].rank = rank, s->op[1].rank = 0;
    }
    return 1;
}

/* The place of a string in t, which is sorted; -1: it has none. */
static int64_t find(const kl_terms *t, const kl_string *s)
{
    int64_t low = 0, high = t->nterm - 1;
    while (low <= high) {
        const int64_t mid = (low + high) / 2;
        const int order = kl_ops_compare(s->op, s->n, t->op + t->term[mid].first, t->term[mid].nop);
        if (order == 0) return mid;
        if (order < 0) high = mid - 1;
        else low = mid + 1;
    }
    return -1;
}

int kl_inversion_keeps(const kl_terms *t)
{
    for (int p = 0; p < t->nsite / 2; p++)
        if (t->type[p] != t->type[t->nsite - 1 - p]) return 0;
    for (int64_t i = 0; i < t->nterm; i++) {
        kl_string s;
        if (!image(t, i, &s)) return 0;
        const int64_t at = find(t, &s);
        if (at < 0 || fabs(t->term[at].coef - s.coef) > SAME * fabs(s.coef)) return 0;
    }
    return 1;
}
