/* The strings of a Hamiltonian sorted and merged; what cancels is dropped, and charges, parity and
   Hermiticity of the rest are checked. And some of them as a list.
   SPDX-License-Identifier: Apache-2.0 */
#include "model/strings.h"
#include "base/mem.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANCEL_TOL 1e-15
#define HERMITE_TOL 1e-12

void kl_string_adjoint(const kl_terms *t, kl_string *s)
{
    if (s->n > 0) s->coef *= kl_terms_kept(t, s->rest[0])->adjoint_factor;
    for (int k = 0; k < s->n; k++) {
        s->op[k].op = t->type[s->op[k].pos]->op[s->op[k].op].adjoint;
        s->rest[k] = kl_terms_kept(t, s->rest[k])->adjoint;
    }
}

int kl_ops_compare(const kl_op_at *a, int na, const kl_op_at *b, int nb)
{
    for (int k = 0; k < na && k < nb; k++) {
        if (a[k].pos != b[k].pos) return a[k].pos < b[k].pos ? -1 : 1;
        if (a[k].op != b[k].op) return a[k].op < b[k].op ? -1 : 1;
    }
    for (int k = 0; na == nb && k < na; k++)
        if (a[k].rank != b[k].rank) return a[k].rank < b[k].rank ? -1 : 1;
    return na - nb;
}

/* The first two operators packed in order, so that most comparisons touch no other memory. */
typedef struct handle {
    uint64_t key;
    int64_t term;
} handle;

static uint64_t pack_key(const kl_op_at *o, int n)
{
    const uint64_t first = ((uint64_t)o[0].pos << 12 | (uint64_t)o[0].op) + 1,
                   second = n > 1 ? ((uint64_t)o[1].pos << 12 | (uint64_t)o[1].op) + 1 : 0;
    return first << 32 | second;
}

static int compare_handles(const kl_terms *t, const handle *a, const handle *b)
{
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    const kl_term *x = &t->term[a->term], *y = &t->term[b->term];
    return kl_ops_compare(t->op + x->first, x->nop, t->op + y->first, y->nop);
}

/* Stable merge sort: equal strings are summed in the order they were written, so that the same input gives
   the same bits. */
static void sort_handles(const kl_terms *t, handle *h, handle *spare, int64_t n)
{
    handle *from = h, *to = spare;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t lo = 0; lo < n; lo += 2 * width) {
            const int64_t mid = lo + width < n ? lo + width : n, hi = lo + 2 * width < n ? lo + 2 * width : n;
            int64_t a = lo, b = mid;
            for (int64_t k = lo; k < hi; k++)
                to[k] = a < mid && (b >= hi || compare_handles(t, &from[a], &from[b]) <= 0) ? from[a++]
                                                                                            : from[b++];
        }
        handle *swap = from;
        from = to;
        to = swap;
    }
    if (from != h) memcpy(h, from, (size_t)n * sizeof *h);
}

/* "cdag_up(0) * c_up(3)", positions as DMRG positions. */
static void print_string(const kl_terms *t, const kl_op_at *op, int n, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (int k = 0; k < n && used < size; k++)
        used += (size_t)snprintf(text + used, size - used, "%s%s(%d)", k > 0 ? " * " : "",
                                 t->type[op[k].pos]->op[op[k].op].name, op[k].pos);
}

/* "hubbard.lua:14" or "an added term". */
void kl_string_origin(const kl_terms *t, int def, char *text, size_t size)
{
    if (def < 0) snprintf(text, size, "an added term");
    else
        snprintf(text, size, "%s:%d: \"%.160s\"", t->model->source, t->model->term[def].line,
                 t->model->term[def].text);
}

/* Lists that were not made by kl_terms_add may hold longer strings (kl_stringterms_create). */
static kl_status check_lengths(const kl_terms *t, kl_err *err)
{
    char origin[320];
    for (int64_t k = 0; k < t->nterm; k++) {
        if (t->term[k].nop >= 1 && t->term[k].nop <= KL_MAX_FACTOR) continue;
        kl_string_origin(t, t->def[k], origin, sizeof origin);
        return kl_fail(err, KL_EINPUT, "%s: a string of %d operators; 1 to %d can be merged", origin,
                       t->term[k].nop, KL_MAX_FACTOR);
    }
    return KL_OK;
}

static kl_status check_string(const kl_terms *t, const kl_term *term, int def, kl_err *err)
{
    const kl_model *m = t->model;
    const kl_op_at *op = t->op + term->first;
    const kl_kept *whole = kl_terms_kept(t, t->rest[term->first]);
    const int *const shift = whole->shift;
    char origin[320], text[320];
    for (int q = 0; q < m->ncharge; q++) {
        const kl_charge *c = &m->charge[q];
        if (shift[q] == 0) continue;
        kl_string_origin(t, def, origin, sizeof origin);
        print_string(t, op, term->nop, text, sizeof text);
        if (shift[q] * c->unit_num % c->unit_den == 0)
            return kl_fail(err, KL_EINPUT,
                           "%s: %s changes the conserved %s by %d; every term must conserve it", origin, text,
                           c->name, shift[q] * c->unit_num / c->unit_den);
        return kl_fail(err, KL_EINPUT,
                       "%s: %s changes the conserved %s by %d/%d; every term must conserve it", origin, text,
                       c->name, shift[q] * c->unit_num, c->unit_den);
    }
    if (whole->odd) {
        kl_string_origin(t, def, origin, sizeof origin);
        print_string(t, op, term->nop, text, sizeof text);
        return kl_fail(err, KL_EINPUT,
                       "%s: %s has an odd number of fermionic operators; every term must have an even number",
                       origin, text);
    }
    return KL_OK;
}

/* Every string's adjoint must be in the list with the same coefficient. A missing one counts as zero. */
static kl_status check_hermitian(const kl_terms *t, kl_err *err)
{
    double largest = 0.0;
    for (int64_t k = 0; k < t->nterm; k++) largest = fmax(largest, fabs(t->term[k].coef));
    for (int64_t k = 0; k < t->nterm; k++) {
        const kl_term *term = &t->term[k];
        kl_string s = {.coef = term->coef, .n = term->nop};
        memcpy(s.op, t->op + term->first, (size_t)s.n * sizeof *s.op);
        memcpy(s.rest, t->rest + term->first, (size_t)s.n * sizeof *s.rest);
        kl_string_adjoint(t, &s);
        int64_t lo = 0, hi = t->nterm;
        while (lo < hi) {
            const int64_t mid = lo + (hi - lo) / 2;
            const kl_term *x = &t->term[mid];
            if (kl_ops_compare(t->op + x->first, x->nop, s.op, s.n) < 0) lo = mid + 1;
            else hi = mid;
        }
        const int found =
            lo < t->nterm && kl_ops_compare(t->op + t->term[lo].first, t->term[lo].nop, s.op, s.n) == 0;
        const double other = found ? t->term[lo].coef : 0.0;
        if (fabs(other - s.coef) <= HERMITE_TOL * fmax(fabs(other), fabs(s.coef)) + CANCEL_TOL * largest)
            continue;
        char origin[320], text[320], adjoint[320];
        kl_string_origin(t, t->def[k], origin, sizeof origin);
        print_string(t, t->op + term->first, term->nop, text, sizeof text);
        print_string(t, s.op, s.n, adjoint, sizeof adjoint);
        return kl_fail(err, KL_EINPUT,
                       "%s: the Hamiltonian is not Hermitian: %.15g %s needs %.15g %s, which has %.15g (add "
                       "\"+ h.c.\"?)",
                       origin, term->coef, text, s.coef, adjoint, other);
    }
    return KL_OK;
}

kl_status kl_terms_merge(kl_terms *t, kl_err *err)
{
    kl_status st = KL_OK;
    handle *h = NULL, *spare = NULL;
    kl_terms merged = *t; /* a view with arrays of its own, swapped in at the end */
    merged.term = NULL;
    merged.op = NULL;
    merged.rest = NULL;
    merged.def = NULL;
    merged.nterm = merged.nop = 0;
    merged.term_room = t->nterm;
    merged.op_room = t->nop;
    KL_TRY(check_lengths(t, err));
    KL_TRY(kl_alloc(&h, t->nterm, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&spare, t->nterm, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&merged.term, t->nterm, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&merged.op, t->nop, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&merged.rest, t->nop, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&merged.def, t->nterm, KL_MEM_MISC, err));
    for (int64_t k = 0; k < t->nterm; k++)
        h[k] = (handle){pack_key(t->op + t->term[k].first, t->term[k].nop), k};
    sort_handles(t, h, spare, t->nterm);
    for (int64_t from = 0, to = 0; from < t->nterm; from = to) {
        double sum = 0.0, size = 0.0;
        int def = t->def[h[from].term];
        for (to = from; to < t->nterm && compare_handles(t, &h[from], &h[to]) == 0; to++) {
            const int d = t->def[h[to].term];
            if (d >= 0 && (def < 0 || d < def)) def = d;
            sum += t->term[h[to].term].coef;
            size += fabs(t->term[h[to].term].coef);
        }
        if (fabs(sum) <= CANCEL_TOL * size) continue;
        const kl_term *first = &t->term[h[from].term];
        merged.term[merged.nterm] = (kl_term){sum, first->nop, merged.nop};
        merged.def[merged.nterm++] = def;
        memcpy(merged.op + merged.nop, t->op + first->first, (size_t)first->nop * sizeof *t->op);
        memcpy(merged.rest + merged.nop, t->rest + first->first, (size_t)first->nop * sizeof *t->rest);
        merged.nop += first->nop;
    }
    for (int64_t k = 0; k < merged.nterm; k++)
        KL_TRY(check_string(&merged, &merged.term[k], merged.def[k], err));
    KL_TRY(check_hermitian(&merged, err));
    const kl_terms old = *t;
    *t = merged;
    merged = old;
out:
    kl_free(&h);
    kl_free(&spare);
    kl_free(&merged.term);
    kl_free(&merged.op);
    kl_free(&merged.rest);
    kl_free(&merged.def);
    return st;
}

kl_status kl_terms_check_charges(const kl_terms *t, kl_err *err)
{
    for (int c = 0; c < t->model->ncharge; c++) {
        int64_t sum = 0;
        for (int p = 0; p < t->nsite && t->model->charge[c].modulus == 0; p++) {
            int64_t most = 0;
            for (int s = 0; s < t->type[p]->dim; s++) {
                const int64_t q = t->type[p]->state_charge[s][c];
                most = q > most ? q : -q > most ? -q : most;
            }
            sum += most;
        }
        if (sum > INT16_MAX)
            return kl_fail(
                err, KL_EINPUT,
                "charge %.100s of model %.100s reaches %lld units on %d sites; at most %d are possible",
                t->model->charge[c].name, t->model->name, (long long)sum, t->nsite, INT16_MAX);
    }
    return KL_OK;
}

/* ---------------------------------------------------------------- some of them */

kl_status kl_terms_room(kl_terms *to, const kl_terms *t, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(&to->term, t->nterm + 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&to->def, t->nterm + 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&to->op, t->nop + 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&to->rest, t->nop + 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&to->kept, t->nkept + 1, KL_MEM_MISC, err));
    if (t->nkept > 0) memcpy(to->kept, t->kept, sizeof *t->kept * (size_t)t->nkept);
    to->nkept = t->nkept;
    to->kept_room = t->nkept + 1;
    to->term_room = t->nterm + 1;
    to->op_room = t->nop + 1;
out:
    return st;
}

void kl_terms_pick(kl_terms *to, const kl_terms *t, int64_t i)
{
    const kl_term *const from = &t->term[i];
    to->def[to->nterm] = t->def[i];
    to->term[to->nterm++] = (kl_term){.coef = from->coef, .nop = from->nop, .first = to->nop};
    memcpy(to->op + to->nop, t->op + from->first, sizeof *t->op * (size_t)from->nop);
    memcpy(to->rest + to->nop, t->rest + from->first, sizeof *t->rest * (size_t)from->nop);
    to->nop += from->nop;
}
