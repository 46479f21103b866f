/* See mirror.h. A map of a site's states that keeps which operators are odd maps the whole algebra of
   operators, signs of fermions included; H has it where the sum of its terms, written out in products of
   matrix units, does.
   SPDX-License-Identifier: Apache-2.0 */
#include "model/mirror.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum {
    MOST_SITE = 4,
    MOST_DIM = 64,
    MOST_SIGNED = 4, /* states of a site, up to which all signs are tried */
    MOST_ENTRY = 1 << 18,
};

/* A product of matrix units |row><col|, one for each site. */
typedef struct entry {
    int key[1 + 2 * MOST_SITE]; /* how many sites, which are odd; position and row, column of each */
    double value;
} entry;

typedef struct map { /* of the states of a site type */
    int state[MOST_DIM];
    double sign[MOST_DIM];
} map;

typedef struct search {
    const kl_terms *t;
    map *map; /* [ntype] */
    int64_t room;
    entry *entry; /* [room], half of them of H, half of its image */
} search;

kl_qn kl_mirror_image(const kl_model *m, const kl_mirror *by, kl_qn q)
{
    kl_qn out = kl_qn_zero();
    for (int c = 0; c < m->ncharge; c++) out.v[c] = (int16_t)(by->sum[c] + by->sign[c] * q.v[by->from[c]]);
    return out;
}

static int compare(const void *a, const void *b)
{
    const entry *const x = a, *const y = b;
    for (size_t i = 0; i < sizeof x->key / sizeof x->key[0]; i++)
        if (x->key[i] != y->key[i]) return x->key[i] < y->key[i] ? -1 : 1;
    return 0;
}

/* Number of matrix units in a term; 0: too many sites. */
static int64_t count_units(const kl_terms *t, const kl_term *term)
{
    int64_t n = 1;
    if (term->nop > MOST_SITE) return 0;
    for (int i = 0; i < term->nop; i++) {
        const kl_op_at *const at = &t->op[term->first + i];
        n *= t->type[at->pos]->op[at->op].nelem;
        if (n > MOST_ENTRY) return 0;
    }
    return n;
}

/* Entries of a term, or less those of its image; `to' has room for them. */
static void write_out(const search *s, const kl_term *term, int64_t n, int image, entry *to)
{
    const kl_terms *const t = s->t;
    for (int64_t k = 0; k < n; k++) {
        int64_t rest = k;
        memset(&to[k], 0, sizeof to[k]);
        to[k].value = image ? -term->coef : term->coef;
        to[k].key[0] = term->nop;
        for (int i = 0; i < term->nop; i++) {
            const kl_op_at *const at = &t->op[term->first + i];
            const kl_site_type *const type = t->type[at->pos];
            const kl_site_op *const o = &type->op[at->op];
            const kl_elem *const e = &o->elem[rest % o->nelem];
            const map *const by = &s->map[type - t->model->type];
            rest /= o->nelem;
            to[k].value *= image ? e->value * by->sign[e->row] * by->sign[e->col] : e->value;
            to[k].key[0] |= o->odd << (8 + i);
            to[k].key[1 + 2 * i] = at->pos;
            to[k].key[2 + 2 * i] =
                image ? by->state[e->row] * MOST_DIM + by->state[e->col] : e->row * MOST_DIM + e->col;
        }
    }
}

/* 1: the terms are their own image. */
static int is_kept(const search *s)
{
    const kl_terms *const t = s->t;
    int64_t n = 0;
    double largest = 0;
    for (int64_t i = 0; i < t->nterm; i++) {
        const int64_t nunit = count_units(t, &t->term[i]);
        for (int image = 0; image < 2; image++, n += nunit)
            write_out(s, &t->term[i], nunit, image, s->entry + n);
    }
    qsort(s->entry, (size_t)n, sizeof *s->entry, compare);
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(s->entry[i].value));
    for (int64_t i = 0; i < n;) {
        double sum = 0;
        int64_t k = i;
        for (; k < n && compare(&s->entry[i], &s->entry[k]) == 0; k++) sum += s->entry[k].value;
        if (fabs(sum) > 1e-12 * largest) return 0;
        i = k;
    }
    return 1;
}

/* The state that each state of the types goes to by its charges; 0: some state has no image, or several. */
static int map_states(const search *s, const kl_mirror *by)
{
    const kl_model *const m = s->t->model;
    for (int y = 0; y < m->ntype; y++) {
        const kl_site_type *const type = &m->type[y];
        int sum[KL_MAX_CHARGE] = {0};
        for (int c = 0; c < m->ncharge; c++) {
            int low = type->state_charge[0][c], high = low;
            for (int a = 0; a < type->dim; a++) {
                if (type->state_charge[a][c] < low) low = type->state_charge[a][c];
                if (type->state_charge[a][c] > high) high = type->state_charge[a][c];
            }
            if (by->sign[c] < 0) sum[c] = low + high;
        }
        for (int a = 0; a < type->dim; a++) {
            int images = 0;
            for (int b = 0; b < type->dim; b++) {
                int same = 1;
                for (int c = 0; c < m->ncharge; c++)
                    same &=
                        type->state_charge[b][c] == sum[c] + by->sign[c] * type->state_charge[a][by->from[c]];
                if (same) s->map[y].state[a] = b;
                images += same;
            }
            if (images != 1) return 0;
            s->map[y].sign[a] = 1;
        }
    }
    return 1;
}

/* All signs of the states of small sites, which are enough for a pair of electrons that changes sides. */
static int try_signs(const search *s)
{
    const kl_model *const m = s->t->model;
    const int dim = m->type[0].dim, tries = m->ntype == 1 && dim <= MOST_SIGNED ? 1 << (dim - 1) : 1;
    for (int k = 0; k < tries; k++) {
        for (int a = 0; a < dim; a++) s->map[0].sign[a] = a > 0 && k >> (a - 1) & 1 ? -1 : 1;
        if (is_kept(s)) return 1;
    }
    return 0;
}

/* Sums of charges over all sites, for those that change sign. */
static void add_up(const kl_terms *t, kl_mirror *by)
{
    for (int c = 0; c < t->model->ncharge; c++)
        for (int p = 0; p < t->nsite && by->sign[c] < 0; p++) {
            int low = t->type[p]->state_charge[0][c], high = low;
            for (int a = 1; a < t->type[p]->dim; a++) {
                const int v = t->type[p]->state_charge[a][c];
                if (v < low) low = v;
                if (v > high) high = v;
            }
            by->sum[c] += low + high;
        }
}

static kl_mirror nothing(int ncharge)
{
    kl_mirror by = {.sum = {0}};
    for (int c = 0; c < ncharge; c++) {
        by.sign[c] = 1;
        by.from[c] = c;
    }
    return by;
}

kl_status kl_mirror_find(const kl_terms *t, int *found, kl_mirror *out, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const m = t->model;
    search s = {.t = t};
    *found = 0;
    for (int64_t i = 0; i < t->nterm; i++) {
        const int64_t n = count_units(t, &t->term[i]);
        s.room += 2 * n;
        if (n == 0 || s.room > MOST_ENTRY) return KL_OK;
    }
    for (int y = 0; y < m->ntype; y++)
        if (m->type[y].dim > MOST_DIM) return KL_OK;
    if (kl_model_spin(m) >= 0) return KL_OK;
    KL_TRY(kl_alloc(&s.entry, s.room, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&s.map, m->ntype, KL_MEM_WORK, err));
    for (int c = 0; c < m->ncharge && !*found; c++)
        for (int k = c; k < m->ncharge && !*found; k++) {
            if (m->charge[c].modulus != m->charge[k].modulus || (c == k && m->charge[c].modulus > 0))
                continue;
            *out = nothing(m->ncharge);
            if (c == k) out->sign[c] = -1;
            out->from[c] = k;
            out->from[k] = c;
            *found = map_states(&s, out) && try_signs(&s);
        }
    if (*found) add_up(t, out);
out:
    kl_free(&s.map);
    kl_free(&s.entry);
    return st;
}
