/* Products of operators of sites on a matrix product state: of bonds, and over letters. They become strings
   of the operators that the model's tables have, and all strings are measured at once (kl_measure_terms); a
   product that the tables lack, as where two bonds share a site, is measured by itself.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/bondmeasure.h"
#include "base/mem.h"
#include "phase.h"
#include "run/sitepart.h"

#include <string.h>

enum {
    MOST = 2 * KL_BONDOP_FACTORS,
    MOST_KNOWN = 512,
};

/* A product of operators on one site of a type, as tables have it. */
typedef struct known {
    const kl_site_type *type;
    int n, found;
    const kl_siteop *op[MOST];
    kl_sitepart part;
} known;

typedef struct batch {
    kl_measure *m;
    const kl_terms *sites;
    const kl_lattice *lat;
    double *value;
    kl_terms t;
    int64_t room;
    int64_t *row;
    double *coef;
    int nknown;
    known *known;
} batch;

/* The product of n operators on one site. */
static kl_status product_on(batch *b, const kl_site_type *type, int n, const kl_siteop *const *op,
                            known **out, kl_err *err)
{
    kl_status st = KL_OK;
    const int d = type->dim;
    const int64_t t = type - b->sites->model->type;
    double *a = NULL, *ab = NULL;
    for (int k = 0; k < b->nknown; k++)
        if (b->known[k].type == type && b->known[k].n == n &&
            memcmp(b->known[k].op, op, sizeof *op * (size_t)n) == 0) {
            *out = &b->known[k];
            return KL_OK;
        }
    if (b->nknown == MOST_KNOWN)
        return kl_fail(err, KL_EINPUT, "these operators have too many products on a site");
    known *const x = &b->known[b->nknown++];
    *x = (known){.type = type, .n = n, .found = 1};
    memcpy(x->op, op, sizeof *op * (size_t)n);
    KL_TRY(kl_alloc(&a, (int64_t)d * d, KL_MEM_WORK, err));
    for (int i = 0; i < d; i++) a[i * (d + 1)] = 1;
    for (int k = 0; k < n; k++) {
        const double *const f = op[k]->mat[t];
        KL_TRY(kl_alloc(&ab, (int64_t)d * d, KL_MEM_WORK, err));
        for (int c = 0; f != NULL && c < d; c++)
            for (int l = 0; l < d; l++)
                for (int r = 0; r < d; r++) ab[r + c * d] += a[r + l * d] * f[l + c * d];
        kl_free(&a);
        a = ab;
        ab = NULL;
    }
    int zero = 1;
    for (int i = 0; i < d * d; i++) zero &= a[i] == 0;
    if (!zero) KL_TRY(kl_sitepart_find(type, a, &x->part, &x->found, err));
    *out = x;
out:
    kl_free(&a);
    kl_free(&ab);
    return st;
}

static kl_status push(batch *b, int64_t row, double coef, int nop, const kl_op_at *op, kl_err *err)
{
    kl_status st = KL_OK;
    kl_terms *const t = &b->t;
    if (nop == 0) {
        b->value[row] += coef;
        return KL_OK;
    }
    if (t->nterm == b->room) {
        b->room = b->room > 0 ? 2 * b->room : 256;
        KL_TRY(kl_realloc(&t->term, b->room, KL_MEM_WORK, err));
        KL_TRY(kl_realloc(&t->op, MOST * b->room, KL_MEM_WORK, err));
        KL_TRY(kl_realloc(&b->row, b->room, KL_MEM_WORK, err));
        KL_TRY(kl_realloc(&b->coef, b->room, KL_MEM_WORK, err));
    }
    b->row[t->nterm] = row;
    b->coef[t->nterm] = coef;
    t->term[t->nterm++] = (kl_term){.coef = 1, .nop = nop, .first = t->nop};
    memcpy(t->op + t->nop, op, sizeof *op * (size_t)nop);
    t->nop += nop;
out:
    return st;
}

/* One product: sorted by position with its sign, what falls on one site multiplied, each a sum of operators
   of the tables, multiplied out. */
static kl_status add(void *self, int64_t row, double coef, int n, const int *site, const kl_siteop *const *op,
                     const int *odd, kl_err *err)
{
    kl_status st = KL_OK;
    batch *const b = self;
    int key[MOST], sign_odd[MOST], perm[MOST], pos[MOST], choice[MOST] = {0}, ngroup = 0, found = 1;
    const kl_siteop *sorted[MOST];
    known *group[MOST];
    for (int k = 0; k < n; k++) {
        key[k] = b->lat->position[site[k]];
        sign_odd[k] = odd[k];
    }
    const double sign = kl_phase_sort(n, key, sign_odd, perm);
    for (int k = 0; k < n; k++) sorted[k] = op[perm[k]];
    for (int k = 0; k < n; ngroup++) {
        int last = k;
        while (last < n && key[last] == key[k]) last++;
        pos[ngroup] = key[k];
        KL_TRY(product_on(b, b->sites->type[key[k]], last - k, sorted + k, &group[ngroup], err));
        if (group[ngroup]->found && group[ngroup]->part.n == 0) return KL_OK; /* the product is 0 */
        found &= group[ngroup]->found;
        k = last;
    }
    if (!found) {
        double one;
        KL_TRY(kl_measure_product(b->m, n, site, op, NULL, &one, err));
        b->value[row] += coef * one;
        return KL_OK;
    }
    for (int g = 0; g >= 0;) {
        kl_op_at string[MOST];
        double c = coef * sign;
        int nop = 0;
        kl_qn sum = kl_qn_zero();
        for (g = 0; g < ngroup; g++) {
            const kl_sitepart *const p = &group[g]->part;
            c *= p->coef[choice[g]];
            if (p->op[choice[g]] == KL_OP_IDENTITY) continue;
            string[nop++] = (kl_op_at){pos[g], p->op[choice[g]], 0};
            sum = kl_qn_add(b->sites->model, sum,
                            kl_qn_of(b->sites->model, b->sites->type[pos[g]]->op[p->op[choice[g]]].shift));
        }
        if (kl_qn_cmp(sum, kl_qn_zero()) == 0) KL_TRY(push(b, row, c, nop, string, err));
        for (g = ngroup - 1; g >= 0 && ++choice[g] == group[g]->part.n; g--) choice[g] = 0;
    }
out:
    return st;
}

kl_status kl_productmeasure(kl_measure *m, const kl_terms *sites, const kl_lattice *lat,
                            kl_products_each *each, const void *from, int64_t nvalue, double *value,
                            kl_err *err)
{
    kl_status st = KL_OK;
    double *one = NULL;
    batch b = {.m = m,
               .sites = sites,
               .lat = lat,
               .value = value,
               .t = {.model = sites->model, .nsite = sites->nsite, .type = sites->type}};
    memset(value, 0, sizeof(double) * (size_t)nvalue);
    KL_TRY(kl_alloc(&b.known, MOST_KNOWN, KL_MEM_WORK, err));
    KL_TRY(each(from, add, &b, err));
    if (b.t.nterm == 0) goto out;
    KL_TRY(kl_alloc(&one, b.t.nterm, KL_MEM_WORK, err));
    KL_TRY(kl_measure_terms(m, &b.t, one, err));
    for (int64_t k = 0; k < b.t.nterm; k++) value[b.row[k]] += b.coef[k] * one[k];
out:
    for (int k = 0; k < b.nknown; k++) kl_sitepart_clear(&b.known[k].part);
    kl_free(&b.known);
    kl_free(&b.t.term);
    kl_free(&b.t.op);
    kl_free(&b.row);
    kl_free(&b.coef);
    kl_free(&one);
    return st;
}

typedef struct bonds {
    const kl_bondop *x, *y;
    int n;
    const int (*bond)[2];
} bonds;

static kl_status each_bond(const void *from, kl_bondop_fn *tell, void *self, kl_err *err)
{
    const bonds *const b = from;
    return kl_bondop_each(b->x, b->y, b->n, b->bond, tell, self, err);
}

kl_status kl_bondmeasure(kl_measure *m, const kl_terms *sites, const kl_lattice *lat, const kl_bondop *x,
                         const kl_bondop *y, int nbond, const int (*bond)[2], double *value, kl_err *err)
{
    const bonds b = {x, y, nbond, bond};
    const int64_t nvalue = (int64_t)nbond * (y != NULL ? nbond : 1);
    return kl_productmeasure(m, sites, lat, each_bond, &b, nvalue, value, err);
}
