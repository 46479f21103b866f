/* See signstrings.h. 1. equations: a bit of each state but the first of every site, and one for its flip; the
   elements of an operator all change sign or none does, and so the product of a term's operators does not;
   2. charges: what they fix is left out; 3. strings: what solves the equations; 4. values.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/signstrings.h"
#include "base/blas.h"
#include "base/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_TERMS = 10000,
    MOST_STATES = 16, /* of a site */
    MOST_BITS = 1024,
    MOST_STRINGS = 32
};
#define LOST 0.98 /* size of a value that a state has */

/* ---- 1. equations ---- */

typedef struct equations {
    const kl_terms *t;
    int n, words; /* bits, words of a row */
    int *first; /* [nsite + 1]: bits of a site */
    uint64_t *row; /* [n][words]: row k has bit k and no other row has it, or it is 0 */
    uint64_t *next; /* [words]: the equation that is written */
} equations;

static int has(const uint64_t *row, int bit) { return (int)(row[bit / 64] >> (bit % 64) & 1); }

static void turn(equations *q, int bit) { q->next[bit / 64] ^= (uint64_t)1 << (bit % 64); }

/* The sign of a state; the first state of a site keeps its own. */
static void turn_state(equations *q, int p, int state)
{
    if (state > 0) turn(q, q->first[p] + state - 1);
}

static int flips(const equations *q, int p) { return q->first[p + 1] - q->first[p] == q->t->type[p]->dim; }

static void add(uint64_t *to, const uint64_t *row, int words)
{
    for (int w = 0; w < words; w++) to[w] ^= row[w];
}

/* Takes the equation that was written, and begins another one. */
static void take(equations *q)
{
    int bit = 0;
    for (int k = 0; k < q->n; k++)
        if (has(q->next, k) && has(q->row + (int64_t)k * q->words, k))
            add(q->next, q->row + (int64_t)k * q->words, q->words);
    while (bit < q->n && !has(q->next, bit)) bit++;
    for (int k = 0; k < q->n && bit < q->n; k++)
        if (has(q->row + (int64_t)k * q->words, bit)) add(q->row + (int64_t)k * q->words, q->next, q->words);
    if (bit < q->n) memcpy(q->row + (int64_t)bit * q->words, q->next, sizeof *q->next * (size_t)q->words);
    memset(q->next, 0, sizeof *q->next * (size_t)q->words);
}

/* Whether the exchange of both states makes of an operator itself, 1, or its negative, -1; 0: neither. */
static int flipped(const kl_site_op *o)
{
    double m[2][2] = {{0, 0}, {0, 0}};
    for (int i = 0; i < o->nelem; i++) m[o->elem[i].row][o->elem[i].col] = o->elem[i].value;
    for (int sign = 1; sign >= -1; sign -= 2)
        if (fabs(m[1][1] - sign * m[0][0]) + fabs(m[1][0] - sign * m[0][1]) < 1e-14) return sign;
    return 0;
}

static void take_term(equations *q, const kl_term *term)
{
    const kl_op_at *const op = q->t->op + term->first;
    for (int k = 0; k < term->nop; k++) {
        const int p = op[k].pos;
        const kl_site_op *const o = &q->t->type[p]->op[op[k].op];
        for (int i = 1; i < o->nelem; i++) {
            turn_state(q, p, o->elem[0].row);
            turn_state(q, p, o->elem[0].col);
            turn_state(q, p, o->elem[i].row);
            turn_state(q, p, o->elem[i].col);
            take(q);
        }
        if (!flips(q, p) || flipped(o) != 0) continue;
        turn(q, q->first[p + 1] - 1);
        take(q);
    }
    for (int k = 0; k < term->nop; k++) {
        const int p = op[k].pos;
        const kl_site_op *const o = &q->t->type[p]->op[op[k].op];
        if (o->nelem == 0) continue;
        turn_state(q, p, o->elem[0].row);
        turn_state(q, p, o->elem[0].col);
        if (flips(q, p) && flipped(o) < 0) turn(q, q->first[p + 1] - 1);
    }
    take(q);
}

/* ---- 2. charges ---- */

/* The largest number that divides the difference of any two states' values of a charge, on every site; 0: it
   tells no states apart. */
static int step_of(const kl_terms *t, int charge)
{
    int64_t step = 0;
    for (int p = 0; p < t->nsite; p++)
        for (int s = 1; s < t->type[p]->dim; s++)
            step =
                kl_gcd(step, abs(t->type[p]->state_charge[s][charge] - t->type[p]->state_charge[0][charge]));
    return (int)step;
}

/* (-1) to the power of the charge, in steps: the sum over the sites is the target's, so this string has one
   value in the whole sector. 0: of Z_n, whose sum is only known up to n, there may be none. */
static int write_parity(const equations *q, int charge, uint64_t *row)
{
    const int step = step_of(q->t, charge), modulus = q->t->model->charge[charge].modulus;
    memset(row, 0, sizeof *row * (size_t)q->words);
    if (step == 0 || (modulus > 0 && modulus / step % 2 == 1)) return 0;
    for (int p = 0; p < q->t->nsite; p++) {
        const kl_site_type *const type = q->t->type[p];
        for (int s = 1; s < type->dim; s++) {
            const int bit = q->first[p] + s - 1;
            if ((type->state_charge[s][charge] - type->state_charge[0][charge]) / step % 2 != 0)
                row[bit / 64] |= (uint64_t)1 << (bit % 64);
        }
    }
    return 1;
}

/* A bit that no equation fixes is set to 0 for each charge, so that no string is left that charges make. */
static kl_status fix_by_charges(equations *q, kl_err *err)
{
    kl_status st = KL_OK;
    uint64_t *row = NULL; /* [ncharge][words] */
    const int ncharge = q->t->model->ncharge;
    int bit[KL_MAX_CHARGE];
    KL_TRY(kl_alloc(&row, (int64_t)ncharge * q->words, KL_MEM_WORK, err));
    for (int c = 0; c < ncharge; c++) {
        uint64_t *const now = row + (int64_t)c * q->words;
        bit[c] = -1;
        if (!write_parity(q, c, now)) continue;
        for (int b = 0; b < c; b++)
            if (bit[b] >= 0 && has(now, bit[b])) add(now, row + (int64_t)b * q->words, q->words);
        for (int k = 0; k < q->n && bit[c] < 0; k++)
            if (has(now, k) && !has(q->row + (int64_t)k * q->words, k)) bit[c] = k;
        if (bit[c] < 0) continue; /* charges before it make it */
        turn(q, bit[c]);
        take(q);
    }
out:
    kl_free(&row);
    return st;
}

/* ---- 3. strings ---- */

/* The solution where bit `free` is set, and no other of the bits that are free. */
static void write_string(const equations *q, int free, int k, kl_signstrings *out)
{
    const int n = q->t->nsite;
    char *const sign = out->sign + (int64_t)k * n * out->d;
    for (int p = 0; p < n; p++)
        for (int b = q->first[p]; b < q->first[p + 1]; b++) {
            const uint64_t *const row = q->row + (int64_t)b * q->words;
            const char set = (char)(b == free || (has(row, b) && has(row, free)));
            const int state = b - q->first[p] + 1;
            if (state < q->t->type[p]->dim) sign[p * out->d + state] = set;
            else out->flip[(int64_t)k * n + p] = set;
        }
}

static kl_status solve(const equations *q, int most, kl_signstrings *out, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = q->t->nsite;
    int found = 0;
    out->d = kl_terms_most_states(q->t);
    KL_TRY(kl_alloc(&out->sign, (int64_t)most * n * out->d, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&out->flip, (int64_t)most * n, KL_MEM_WORK, err));
    memset(out->sign, 0, (size_t)most * (size_t)n * (size_t)out->d);
    memset(out->flip, 0, (size_t)most * (size_t)n);
    for (int b = 0; b < q->n && found < most; b++)
        if (!has(q->row + (int64_t)b * q->words, b)) write_string(q, b, found++, out);
    out->n = found;
out:
    return st;
}

kl_status kl_signstrings_find(const kl_terms *t, int all, int most, kl_signstrings *out, kl_err *err)
{
    kl_status st = KL_OK;
    equations q = {.t = t};
    *out = (kl_signstrings){0};
    if (kl_model_spin(t->model) >= 0 || t->nterm > MOST_TERMS) return KL_OK;
    KL_TRY(kl_alloc(&q.first, t->nsite + 1, KL_MEM_WORK, err));
    q.first[0] = 0;
    for (int p = 0; p < t->nsite; p++) {
        const int d = t->type[p]->dim;
        q.first[p + 1] = q.first[p] + d - 1 + (d == 2 && t->model->ncharge == 0);
        if (d > MOST_STATES || q.first[p + 1] > MOST_BITS) goto out;
    }
    q.n = q.first[t->nsite];
    q.words = q.n / 64 + 1;
    KL_TRY(kl_alloc(&q.row, (int64_t)q.n * q.words, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&q.next, q.words, KL_MEM_WORK, err));
    memset(q.row, 0, sizeof *q.row * (size_t)q.n * (size_t)q.words);
    memset(q.next, 0, sizeof *q.next * (size_t)q.words);
    for (int64_t i = 0; i < t->nterm; i++) take_term(&q, &t->term[i]);
    if (!all && t->model->ncharge > 0) KL_TRY(fix_by_charges(&q, err));
    KL_TRY(solve(&q, most, out, err));
out:
    kl_free(&q.first);
    kl_free(&q.row);
    kl_free(&q.next);
    if (st != KL_OK) kl_signstrings_clear(out);
    return st;
}

void kl_signstrings_clear(kl_signstrings *s)
{
    kl_free(&s->sign);
    kl_free(&s->flip);
    s->n = 0;
}

/* ---- 4. values ---- */

typedef struct string { /* of one site */
    const char *sign;
    int flip;
} string;

static string string_at(const kl_signstrings *s, int k, int nsite, int p)
{
    const int64_t at = (int64_t)k * nsite + p;
    return (string){s->sign + at * s->d, s->flip[at]};
}

/* to[n][n] = sum over states s of the site, sign(s) A_s'^T from A_s, of a matrix A of n columns in sector c
   of the enlarged basis; s' is what s is exchanged for. work: as large as A. */
static void carry(const kl_enlarged *e, int c, string u, double *const *from, const double *a, int n,
                  double *work, double *to)
{
    const int rows = e->basis.dim[c];
    memset(to, 0, sizeof *to * (size_t)n * (size_t)n);
    for (int s = 0; s < e->d; s++) {
        const int other = u.flip ? 1 - s : s, l = e->part_sec[c * e->d + s];
        if (l < 0) continue;
        const int m = e->block.dim[l];
        kl_dgemm('N', 'N', m, n, m, u.sign[s] ? -1 : 1, from[l], m, a + e->part_off[c * e->d + s], rows, 0,
                 work, m);
        kl_dgemm('T', 'N', n, n, m, 1, a + e->part_off[c * e->d + other], rows, work, m, 1, to, n);
    }
}

static void clear_matrices(double ***m, int n)
{
    for (int i = 0; *m && i < n; i++) kl_free(&(*m)[i]);
    kl_free(m);
}

/* The centre: of each pair of sectors psi is a matrix, rows the states of site 0. */
static kl_status at_centre(const kl_state *s, string u0, string u1, double *const *from, double *value,
                           kl_err *err)
{
    kl_status st = KL_OK;
    double *work = NULL, *turned = NULL, *e = NULL;
    for (int i = 0; i < s->row->basis.nsec; i++) {
        const int j = s->pair[i];
        if (j < 0) continue;
        const int rows = s->row->basis.dim[i], cols = s->col->basis.dim[j];
        KL_TRY(kl_realloc(&turned, (int64_t)rows * cols, KL_MEM_WORK, err));
        KL_TRY(kl_realloc(&work, (int64_t)rows * cols, KL_MEM_WORK, err));
        KL_TRY(kl_realloc(&e, (int64_t)rows * rows, KL_MEM_WORK, err));
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < cols; c++)
                turned[c + (int64_t)r * cols] = s->psi[s->psi_off[i] + r + (int64_t)c * rows];
        carry(s->col, j, u1, from, turned, rows, work, e);
        for (int state = 0; state < s->row->d; state++) {
            if (s->row->part_sec[i * s->row->d + state] < 0) continue;
            const int r = s->row->part_off[i * s->row->d + state],
                      other = s->row->part_off[i * s->row->d + (u0.flip ? 1 - state : state)];
            *value += (u0.sign[state] ? -1 : 1) * e[other + (int64_t)r * rows];
        }
    }
out:
    kl_free(&work);
    kl_free(&turned);
    kl_free(&e);
    return st;
}

kl_status kl_signstrings_value(const kl_signstrings *s, int k, const kl_state *state, double *value,
                               kl_err *err)
{
    kl_status st = KL_OK;
    const int n = state->nsite;
    double **now = NULL, **next = NULL, *work = NULL, norm = 0;
    int nnow = 1, nnext = 0;
    *value = 0;
    KL_TRY(kl_alloc(&now, 1, KL_MEM_WORK, err));
    now[0] = NULL;
    KL_TRY(kl_alloc(&now[0], 1, KL_MEM_WORK, err));
    now[0][0] = 1;
    for (int p = n - 1; p > 1; p--) {
        const kl_isometry *const iso = state->right[p];
        KL_TRY(kl_alloc(&next, iso->basis.nsec, KL_MEM_WORK, err));
        nnext = iso->basis.nsec;
        for (int c = 0; c < nnext; c++) next[c] = NULL;
        for (int c = 0; c < nnext; c++) {
            const int cols = iso->basis.dim[c], big = iso->sec[c];
            KL_TRY(kl_alloc(&next[c], (int64_t)cols * cols, KL_MEM_WORK, err));
            KL_TRY(kl_realloc(&work, (int64_t)iso->enlarged->basis.dim[big] * cols, KL_MEM_WORK, err));
            carry(iso->enlarged, big, string_at(s, k, n, p), now, iso->data + iso->off[c], cols, work,
                  next[c]);
        }
        clear_matrices(&now, nnow);
        now = next;
        nnow = nnext;
        next = NULL;
        nnext = 0;
    }
    KL_TRY(at_centre(state, string_at(s, k, n, 0), string_at(s, k, n, 1), now, value, err));
    for (int64_t i = 0; i < state->npsi; i++) norm += state->psi[i] * state->psi[i];
    *value /= norm;
out:
    clear_matrices(&now, nnow);
    clear_matrices(&next, nnext);
    kl_free(&work);
    return st;
}

kl_status kl_signstrings_lost(const kl_terms *t, const kl_state *state, int *yes, kl_err *err)
{
    kl_status st = KL_OK;
    kl_signstrings list = {0};
    double value;
    *yes = 0;
    if (state->centre != 0 || state->nsite < 3) return KL_OK;
    KL_TRY(kl_signstrings_find(t, 0, MOST_STRINGS, &list, err));
    for (int k = 0; k < list.n && !*yes; k++) {
        KL_TRY(kl_signstrings_value(&list, k, state, &value, err));
        *yes = fabs(value) < LOST;
    }
out:
    kl_signstrings_clear(&list);
    return st;
}
