/* Products of operators on states of exact diagonalization: every model shipped, random vectors of random
   sectors, both forms of the basis, against the oracle.
   SPDX-License-Identifier: Apache-2.0 */
#include "termsetup.h"
#include "ed/edproduct.h"
#include "model/modelread.h"

enum {
    MOST_FACTOR = 10,
    MOST_SITE = 10,
};

/* A full matrix of an operator of the tables. */
static double *matrix_of(const kl_site_type *type, const kl_site_op *op)
{
    double *const a = calloc((size_t)(type->dim * type->dim), sizeof *a);
    for (int e = 0; e < op->nelem; e++) a[op->elem[e].row + op->elem[e].col * type->dim] += op->elem[e].value;
    return a;
}

/* A random vector of the sector, in the order of the basis and in that of the oracle. */
static void random_vector(const kl_bipartition *h, const oracle *o, uint64_t *seed, double *x, double *psi)
{
    int digits[MOST_SITE];
    memset(psi, 0, sizeof(double) * (size_t)o->dim);
    for (int64_t i = 0; i < h->n; i++) {
        int sign;
        int64_t at = 0;
        x[i] = 0;
        if (!kl_bipartition_unrank(h, i, digits)) continue;
        expect_eq(kl_bipartition_rank(h, digits, &sign), i);
        for (int p = 0; p < h->nsite; p++) at += digits[p] * o->stride[p];
        psi[at] = kl_test_uniform(seed);
        x[i] = sign * psi[at];
    }
}

/* Operators at sites, drawn until together they conserve the charges. Returns how many; 0: none came up. */
static int draw(const oracle *o, uint64_t *seed, int *site, const kl_site_op **op, const char **name)
{
    for (int tries = 0; tries < 300; tries++) {
        const int n = 1 + (int)(kl_test_bits(seed) % MOST_FACTOR);
        kl_qn sum = kl_qn_zero();
        for (int k = 0; k < n; k++) {
            site[k] = (int)(kl_test_bits(seed) % (uint64_t)o->n);
            const kl_site_type *const type = o->type[o->lattice->position[site[k]]];
            do op[k] = &type->op[kl_test_bits(seed) % (uint64_t)type->nop];
            while (!op[k]->named);
            name[k] = op[k]->name;
            sum = kl_qn_add(o->model, sum, kl_qn_of(o->model, op[k]->shift));
        }
        if (kl_qn_cmp(sum, kl_qn_zero()) == 0) return n;
    }
    return 0;
}

/* One factor A becomes A + B / 2, B any operator of its site, odd where A is even or not. */
static void check_sum(const oracle *o, const kl_ed_cut *c, const double *psi, uint64_t *seed, int n,
                      const int *site, const char *const *name, kl_ed_factor *f)
{
    kl_err err = {""};
    const int k = (int)(kl_test_bits(seed) % (uint64_t)n), pos = f[k].pos;
    const kl_site_type *const type = o->type[pos];
    const kl_site_op *other;
    const char *with[MOST_FACTOR];
    double value, *const b = calloc((size_t)(type->dim * type->dim), sizeof *b);
    const double *const was = f[k].a;
    do other = &type->op[kl_test_bits(seed) % (uint64_t)type->nop];
    while (!other->named);
    memcpy(with, name, (size_t)n * sizeof *with);
    with[k] = other->name;
    for (int i = 0; i < type->dim * type->dim; i++) b[i] = was[i];
    for (int e = 0; e < other->nelem; e++)
        b[other->elem[e].row + other->elem[e].col * type->dim] += 0.5 * other->elem[e].value;
    f[k].a = b;
    expect_ok(kl_ed_product(c, n, f, 1, &value, &err), err);
    const double want = oracle_expect(o, psi, n, site, name) + 0.5 * oracle_expect(o, psi, n, site, with);
    expect_near(value, want, 1e-12 * fmax(1, fabs(want)));
    f[k].a = was;
    free(b);
}

static int check_sector(const term_setup *s, const oracle *o, kl_bipartition_form form, uint64_t *seed)
{
    kl_err err = {""};
    kl_bipartition *h = NULL;
    int site[MOST_FACTOR], nonzero = 0;
    const kl_site_op *op[MOST_FACTOR];
    const char *name[MOST_FACTOR];
    kl_qn target = kl_qn_zero();
    for (int p = 0; p < o->n; p++) {
        const kl_site_type *const type = o->type[p];
        target = kl_qn_add(o->model, target,
                           kl_qn_of(o->model, type->state_charge[kl_test_bits(seed) % (uint64_t)type->dim]));
    }
    expect_ok(kl_bipartition_create(s->terms, target, form, &h, &err), err);
    double *const x = malloc(sizeof(double) * (size_t)h->n), *const psi =
                                                                 malloc(sizeof(double) * (size_t)o->dim);
    random_vector(h, o, seed, x, psi);
    kl_ed_cut *c[2] = {NULL, NULL};
    for (int k = 0; k < 2; k++) expect_ok(kl_ed_cut_create(s->terms, h, x, k + 1, &c[k], &err), err);
    expect_true(c[0]->square == c[1]->square);
    expect_near(c[0]->square, core_dot(o->dim, psi, psi), 1e-12 * c[0]->square);
    for (int round = 0; round < 12; round++) {
        const int n = draw(o, seed, site, op, name);
        if (n == 0) continue;
        kl_ed_factor f[MOST_FACTOR];
        double value[2];
        for (int k = 0; k < n; k++) {
            const int pos = s->lat->position[site[k]];
            f[k] = (kl_ed_factor){pos, matrix_of(o->type[pos], op[k])};
        }
        for (int k = 0; k < 2; k++) expect_ok(kl_ed_product(c[k], n, f, k + 1, &value[k], &err), err);
        const double want = oracle_expect(o, psi, n, site, name);
        expect_near(value[0], want, 1e-12 * fmax(1, fabs(want)));
        expect_true(value[0] == value[1]);
        nonzero += fabs(want) > 1e-6;
        check_sum(o, c[0], psi, seed, n, site, name, f);
        for (int k = 0; k < n; k++) free((double *)(uintptr_t)f[k].a);
    }
    for (int k = 0; k < 2; k++) kl_ed_cut_destroy(&c[k]);
    kl_bipartition_destroy(&h);
    free(x);
    free(psi);
    return nonzero;
}

static void test_every_model(void **state)
{
    static const char *const small[] = {"n_max=2", NULL};
    kl_err err = {""};
    uint64_t seed = 20;
    int nmodel = 0, nonzero = 0;
    (void)state;
    for (const kl_embedded *e = kl_embedded_models; e->name != NULL; e++) {
        kl_tables *tables = NULL;
        const int bosons = strstr(e->name, "holstein") != NULL || strstr(e->name, "bose") != NULL;
        expect_ok(kl_modelread_text(e->name, e->text, e->size, bosons ? small : NULL, &tables, &err), err);
        const kl_model *const m = tables->model;
        char spec[32];
        int dim = 1, n = 0;
        for (int t = 0; t < m->ntype; t++) dim = m->type[t].dim > dim ? m->type[t].dim : dim;
        for (int64_t all = dim; all <= 4096 && n < 8; all *= dim) n++;
        snprintf(spec, sizeof spec, "chain:%d", n < 2 ? 2 : n);
        term_setup s = {NULL, NULL, NULL};
        kl_lattice *lat = NULL;
        expect_ok(kl_lattice_create(spec, 0, 0, &lat, &err), err);
        expect_ok(kl_lattice_reorder(lat, "fiedler", &err), err);
        s.lat = lat;
        expect_ok(kl_params_create(m, lat, &s.par, &err), err);
        if (kl_terms_create(m, lat, s.par, &s.terms, &err) == KL_OK) {
            oracle *o = oracle_create(m, lat, s.par);
            for (int form = KL_BIPARTITION_AUTO; form <= KL_BIPARTITION_SITES; form++)
                for (int round = 0; round < 4; round++) {
                    kl_test_case("%s, form %d, sector %d, seed %llu", e->name, form, round,
                                 (unsigned long long)seed);
                    nonzero += check_sector(&s, o, (kl_bipartition_form)form, &seed);
                }
            oracle_destroy(&o);
            nmodel++;
        }
        term_drop(&s);
        kl_tables_destroy(&tables);
    }
    expect_true(nmodel > 8);
    expect_true(nonzero > 100);
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
