/* States of a total spin written out in components of Sz: H x of a random vector is the same vector before
   and after, of every component; Schmidt values and what is measured are those of the vector in the full
   space.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "dmrg/canonical.h"
#include "dmrg/components.h"
#include "dmrg/measure.h"
#include "kl_test.h"
#include "model/modelread.h"

static kl_err err;

typedef struct pair { /* a model on a lattice, with the total spin and without */
    kl_tables *spin_tables, *plain_tables;
    core_job spin, plain;
    core_full full;
} pair_t;

/* An executor that says it could make inverse Cholesky factors: canonical forms are made by them then. */
static kl_status roots_here(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a, kl_dptr t,
                            char *good, kl_err *e)
{
    (void)ex, (void)nmat, (void)n, (void)off, (void)a, (void)t, (void)good;
    return kl_fail(e, KL_EABSENT, "none");
}

static int npair; /* opened so far: every second one has such executors */

static void open_pair(pair_t *p, const char *model, const char *variant, const char *lattice,
                      const char *order, const char *sets)
{
    const char *const setting[] = {variant, NULL};
    const int own = strchr(model, '/') != NULL;
    char path[600];
    snprintf(path, sizeof path, "%s%s", own ? kl_test_data("../../") : "", model);
    expect_ok(kl_modelread_spin(path, NULL, 0, setting, &p->spin_tables, &err), err);
    expect_ok(kl_modelread_find(path, setting, &p->plain_tables, &err), err);
    core_open(&p->spin, p->spin_tables->model, lattice, order, sets);
    core_open(&p->plain, p->plain_tables->model, lattice, order, sets);
    if (npair++ % 2) p->spin.ex->vt.roots = p->plain.ex->vt.roots = roots_here;
    p->full = core_full_open(&p->plain);
}

static void close_pair(pair_t *p)
{
    core_full_close(&p->full);
    core_close(&p->spin);
    core_close(&p->plain);
    kl_tables_destroy(&p->spin_tables);
    kl_tables_destroy(&p->plain_tables);
}

static double norm_of(int64_t n, const double *x) { return sqrt(core_dot(n, x, x)); }

/* A random state of the sector with all of its multiplets, and H times it. */
static void make_states(const pair_t *p, kl_qn target, uint64_t seed, kl_state **x, kl_state **hx)
{
    kl_engine *e = NULL;
    kl_superblock *h = NULL;
    kl_dptr y = {0};
    const double energy = 0;
    double unused;
    const kl_engine_opts o = {.target = target, .nstate = 1, .seed = seed};
    expect_ok(kl_engine_create(p->spin.terms, p->spin.ex, &o, &e, &err), err);
    expect_ok(kl_engine_start(e, 4000, 0, NULL, &err), err);
    expect_ok(kl_engine_state(e, &energy, x, &err), err);
    expect_ok(kl_engine_state(e, &energy, hx, &err), err);
    expect_ok(kl_engine_energy(e, &unused, &err), err); /* makes the operators */
    expect_ok(kl_superblock_create(p->spin.ex, e->row_op, e->col_op, target, 0, &h, &err), err);
    const int64_t n = e->layout.n;
    expect_ok(p->spin.ex->vt.alloc(p->spin.ex, n, &y, &err), err);
    expect_ok(h->op.apply(&h->op, 1, e->psi, n, y, n, &err), err);
    core_download(p->spin.ex, n, y, (*hx)->psi);
    /* of no particle */
    if (norm_of(n, (*hx)->psi) < 1e-13) memcpy((*hx)->psi, (*x)->psi, (size_t)n * sizeof(double));
    p->spin.ex->vt.release(p->spin.ex, &y);
    kl_superblock_destroy(&h);
    kl_engine_destroy(&e);
}

/* Of a singlet the Schmidt values are those of any component; of S > 0 the left end's spin is mixed in. */
static void compare_spectra(const pair_t *p, const kl_state *spin, const kl_state *plain, double allowed,
                            double of_entropy)
{
    enum { MOST = 20000 };
    static double a[MOST], b[MOST];
    kl_canonical *x = NULL, *y = NULL;
    expect_ok(kl_canonical_create(p->spin.ex, spin, 0, &x, &err), err);
    expect_ok(kl_canonical_create(p->plain.ex, plain, 0, &y, &err), err);
    expect_ok(kl_canonical_schmidt(x, 1, &err), err);
    expect_ok(kl_canonical_schmidt(y, 1, &err), err);
    for (int cut = 1; cut < spin->nsite; cut++) {
        const int na = core_cut_weights(x, cut, a), nb = core_cut_weights(y, cut, b);
        expect_true(na > 0);
        for (int i = 0; i < na || i < nb; i++) expect_near(i < na ? a[i] : 0, i < nb ? b[i] : 0, allowed);
        expect_near(kl_canonical_entropy(x, cut), kl_canonical_entropy(y, cut), of_entropy);
    }
    kl_canonical_destroy(&x);
    kl_canonical_destroy(&y);
}

static double largest_difference(int n, const double *a, const double *b)
{
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

static int products_seen; /* that are not 0 */

/* Random products of three or four operators, on sites that may be equal. */
static void check_products(const pair_t *p, kl_measure *m, const double *psi, uint64_t seed)
{
    const kl_model *const model = p->plain.model;
    const int n = p->plain.terms->nsite;
    for (int trial = 0; trial < 60; trial++) {
        int site[4], count = 3 + trial % 2;
        const char *name[4];
        kl_siteop *op[4] = {NULL};
        double value;
        for (int k = 0; k < count; k++) {
            const kl_site_type *const type = &model->type[kl_test_bits(&seed) % (uint64_t)model->ntype];
            const kl_site_op *o;
            do o = &type->op[1 + kl_test_bits(&seed) % (uint64_t)(type->nop - 1)];
            while (!o->named);
            do site[k] = (int)(kl_test_bits(&seed) % (uint64_t)n);
            while (kl_model_type_at(model, p->plain.lat, site[k]) != type);
            name[k] = o->name;
            expect_ok(kl_siteop_create(model, o->name, &op[k], &err), err);
        }
        expect_ok(kl_measure_product(m, count, site, (const kl_siteop *const *)op, NULL, &value, &err), err);
        const double exact = oracle_expect(p->full.o, psi, count, site, name);
        expect_near(value, exact, 1e-12);
        products_seen += fabs(exact) > 1e-6;
        for (int k = 0; k < count; k++) kl_siteop_destroy(&op[k]);
    }
}

/* A named operator of this type. */
static int pick_operator(const kl_site_type *type, uint64_t *seed)
{
    int op;
    do op = 1 + (int)(kl_test_bits(seed) % (uint64_t)(type->nop - 1));
    while (!type->op[op].named);
    return op;
}

/* Random strings of one to six operators on rising positions, all measured at once; most of them are made of
   operators and their adjoints, which conserve all charges together. */
static void check_strings(const pair_t *p, kl_measure *m, const double *psi, uint64_t seed)
{
    enum {
        STRINGS = 80,
        MOST = 6,
    };
    const int n = p->plain.terms->nsite, longest = n < MOST ? n : MOST;
    kl_term term[STRINGS];
    kl_op_at at[STRINGS * MOST];
    double value[STRINGS];
    kl_terms t = *p->plain.terms;
    t.term = term;
    t.op = at;
    t.nterm = STRINGS;
    t.nop = 0;
    for (int k = 0; k < STRINGS; k++) {
        const int count = 1 + (int)(kl_test_bits(&seed) % (uint64_t)longest);
        int chosen[MOST], last = -1;
        term[k] = (kl_term){.coef = 1, .nop = count, .first = t.nop};
        for (int i = 0; i < count; i++) {
            const int room = n - (count - i) - last;
            const int pos = last + 1 + (int)(kl_test_bits(&seed) % (uint64_t)room);
            const kl_site_type *const type = t.type[pos];
            chosen[i] = pick_operator(type, &seed);
            if (i > 0 && t.type[last] == type && kl_test_bits(&seed) % 4 != 0)
                chosen[i] = type->op[chosen[i - 1]].adjoint;
            if (!type->op[chosen[i]].named) chosen[i] = pick_operator(type, &seed);
            at[t.nop++] = (kl_op_at){pos, chosen[i], 0};
            last = pos;
        }
    }
    expect_ok(kl_measure_terms(m, &t, value, &err), err);
    for (int k = 0; k < STRINGS; k++) {
        int site[MOST];
        const char *name[MOST];
        for (int i = 0; i < term[k].nop; i++) {
            const kl_op_at o = at[term[k].first + i];
            site[i] = p->plain.lat->order[o.pos];
            name[i] = t.type[o.pos]->op[o.op].name;
        }
        const double exact = oracle_expect(p->full.o, psi, term[k].nop, site, name);
        expect_near(value[k], exact, 1e-12);
        products_seen += fabs(exact) > 1e-6;
    }
}

/* Every named operator at every site, and with every other at every two, of the state as it is and written
   out. */
static void check_measured(const pair_t *p, const kl_state *spin, const kl_state *plain, const double *psi)
{
    const core_job *const j = &p->plain;
    const int n = plain->nsite;
    double one[64], two[2][64 * 64], *share[2] = {NULL, NULL};
    int d[2];
    kl_measure *m[2] = {NULL};
    expect_ok(kl_measure_create(p->spin.ex, spin, 0, p->spin.lat, &m[0], &err), err);
    expect_ok(kl_measure_create(j->ex, plain, 0, j->lat, &m[1], &err), err);
    for (int a = 1; a < j->model->type[0].nop; a++)
        for (int b = 1; b < j->model->type[0].nop; b++) {
            const kl_site_op *const op = &j->model->type[0].op[a], *const other = &j->model->type[0].op[b];
            if (!op->named || !other->named) continue;
            kl_siteop *x = NULL, *y = NULL;
            const char *const name[] = {op->name, other->name};
            expect_ok(kl_siteop_create(j->model, op->name, &x, &err), err);
            expect_ok(kl_siteop_create(j->model, other->name, &y, &err), err);
            for (int which = 0; which < 2; which++) {
                expect_ok(kl_measure_local(m[which], x, one, &err), err);
                expect_ok(kl_measure_pairs(m[which], x, NULL, y, 0, two[which], &err), err);
                for (int i = 0; i < n; i++)
                    expect_near(one[i], oracle_expect(p->full.o, psi, 1, &i, name), 1e-12);
            }
            expect_near(largest_difference(n * n, two[0], two[1]), 0, 1e-12);
            for (int i = 0; i < n && b == op->adjoint; i++)
                for (int k = 0; k < n; k++) {
                    const int site[] = {i, k};
                    expect_near(two[0][i * n + k], oracle_expect(p->full.o, psi, 2, site, name), 1e-12);
                }
            kl_siteop_destroy(&x);
            kl_siteop_destroy(&y);
        }
    for (int which = 0; which < 2; which++) {
        expect_ok(kl_measure_populations(m[which], &d[which], &share[which], &err), err);
        check_products(p, m[which], psi, 11);
        check_strings(p, m[which], psi, 7);
    }
    expect_eq(d[0], d[1]);
    expect_near(largest_difference(n * d[0], share[0], share[1]), 0, 1e-12);
    kl_free(&share[0]);
    kl_free(&share[1]);
    kl_measure_destroy(&m[0]);
    kl_measure_destroy(&m[1]);
}

/* One component of x and of H x, target NULL: M = S. */
static void check_component(const pair_t *p, const kl_state *x, const kl_state *hx, const kl_qn *target)
{
    kl_state *wx = NULL, *wy = NULL;
    const int64_t n = p->full.o->dim;
    expect_ok(kl_components_create(p->spin.ex, x, 0, p->plain.terms, target, &wx, &err), err);
    expect_ok(kl_components_create(p->spin.ex, hx, 0, p->plain.terms, target, &wy, &err), err);
    double *const vx = core_state_vector(wx, 0), *const vy = core_state_vector(wy, 0),
                  *const hv = calloc((size_t)n, sizeof *hv);
    expect_near(norm_of(n, vx), 1, 1e-13);
    oracle_apply(p->full.s, vx, hv);
    /* the constant of the terms is no part of H x */
    for (int64_t i = 0; i < n; i++) hv[i] -= p->spin.terms->constant * vx[i];
    const double size = norm_of(n, hv);
    for (int64_t i = 0; i < n; i++) expect_near(hv[i], size * vy[i], 1e-13 * p->full.norm);
    if (target == NULL) {
        check_measured(p, x, wx, vx);
        if (x->target.v[kl_model_spin(x->model)] == 0) compare_spectra(p, x, wx, 1e-14, 1e-12);
    }
    free(vx);
    free(vy);
    free(hv);
    kl_state_destroy(&wx);
    kl_state_destroy(&wy);
}

/* Every spin, and every component of it: the charges of the components are those of M = S with S- applied. */
static void check_pair(pair_t *p, int most)
{
    int n = 0, m = 0;
    kl_qn *sector = core_sectors(&p->spin, most, &n), *plain = core_sectors(&p->plain, 1 << 20, &m);
    for (int i = 0; i < n; i++) {
        kl_state *x = NULL, *hx = NULL, *wide = NULL;
        char text[128];
        int components = 0;
        kl_test_case("%s %s", p->spin.name, kl_qn_print(p->spin.model, sector[i], text, sizeof text));
        make_states(p, sector[i], 5u + (uint64_t)i, &x, &hx);
        check_component(p, x, hx, NULL);
        for (int k = 0; k < m; k++) {
            const kl_status st =
                kl_components_create(p->spin.ex, x, 0, p->plain.terms, &plain[k], &wide, &err);
            if (st == KL_OK) check_component(p, x, hx, &plain[k]);
            else expect_true(st == KL_EINPUT && strstr(err.text, "has no component with") != NULL);
            components += st == KL_OK;
            kl_state_destroy(&wide);
        }
        expect_eq(components, sector[i].v[kl_model_spin(p->spin.model)] + 1);
        kl_state_destroy(&x);
        kl_state_destroy(&hx);
    }
    kl_free(&sector);
    kl_free(&plain);
    close_pair(p);
}

static void test_components(void **unused)
{
    (void)unused;
    static const char *const row[][5] = {
        {"heisenberg", "S=1/2", "ring:7", NULL, ""},
        {"heisenberg", "S=1", "ladder:2x2", "snake", "J=0.7"},
        {"heisenberg", "S=3/2", "chain:4", NULL, ""},
        {"hubbard", NULL, "ladder:2x2", NULL, "U=3 mu=0.2"},
        {"kondo", NULL, "chain:3", NULL, "J=1.3 U=2"},
        {"tj", NULL, "ring:5", NULL, ""},
        {"tests/models/spin_rings.lua", "S=1", "ring:4", NULL, ""},
        {"tests/models/spin_mixed.lua", NULL, "chain:6", NULL, ""},
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        pair_t p;
        open_pair(&p, row[k][0], row[k][1], row[k][2], row[k][3], row[k][4]);
        products_seen = 0;
        check_pair(&p, 4);
        expect_true(products_seen > 10);
    }
    core_no_memory();
}

/* A truncated state begins a run with Sz at its own energy. */
static void test_start(void **unused)
{
    (void)unused;
    static const char *const row[][4] = {{"heisenberg", "S=1/2", "chain:16", ""},
                                         {"heisenberg", "S=1", "ring:8", ""},
                                         {"hubbard", NULL, "ladder:4x2", "U=5"},
                                         {"tj", NULL, "chain:10", "J=0.5"}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        pair_t p = {0};
        const char *const setting[] = {row[k][1], NULL};
        expect_ok(kl_modelread_spin(row[k][0], NULL, 0, setting, &p.spin_tables, &err), err);
        expect_ok(kl_modelread_find(row[k][0], setting, &p.plain_tables, &err), err);
        core_open(&p.spin, p.spin_tables->model, row[k][2], NULL, row[k][3]);
        core_open(&p.plain, p.plain_tables->model, row[k][2], NULL, row[k][3]);
        core_run r =
            core_exact(12, core_charge(p.spin.model, k < 2 ? "S=1" : "N=6 S=1"), 2, KL_STRATEGY_AUTO);
        core_go(&p.spin, &r);
        for (int which = 0; which < 2; which++) {
            kl_state *wide = NULL;
            kl_engine *e = NULL;
            kl_measure *m = NULL;
            double energy[2];
            kl_test_case("%s state %d", p.spin.name, which);
            expect_ok(kl_measure_create(p.spin.ex, r.state, which, p.spin.lat, &m, &err), err);
            expect_ok(kl_measure_energy(m, p.spin.terms, &energy[0], NULL, &err), err);
            kl_measure_destroy(&m);
            expect_ok(kl_components_create(p.spin.ex, r.state, which, p.plain.terms, NULL, &wide, &err), err);
            const kl_engine_opts o = {.target = wide->target, .nstate = 1, .seed = 1};
            expect_ok(kl_engine_create(p.plain.terms, p.plain.ex, &o, &e, &err), err);
            expect_ok(kl_engine_resume_take(e, &wide, &err), err);
            expect_ok(kl_engine_energy(e, &energy[1], &err), err);
            expect_near(energy[1] + p.plain.terms->constant, energy[0], 1e-11);
            kl_engine_destroy(&e);
        }
        core_drop(&r);
        core_close(&p.spin);
        core_close(&p.plain);
        kl_tables_destroy(&p.spin_tables);
        kl_tables_destroy(&p.plain_tables);
    }
    core_no_memory();
}

/* Ground states of runs with S = 0 and with Sz = 0, neither of which knows of the other: equal Schmidt values
   at every cut. */
static void test_spectra(void **unused)
{
    (void)unused;
    static const char *const row[][6] = {
        {"heisenberg", "S=1/2", "chain:12", "", "S=0", "Sz=0"},
        {"heisenberg", "S=1", "chain:6", "", "S=0", "Sz=0"},
        {"j1j2", NULL, "ladder:4x2", "J2=0.3", "S=0", "Sz=0"},
        {"hubbard", NULL, "ladder:3x2", "U=5", "N=6 S=0", "N_up=3 N_dn=3"},
        {"tj", NULL, "chain:8", "J=0.5", "N=6 S=0", "N_up=3 N_dn=3"},
        {"kondo", NULL, "chain:4", "J=1.3", "N=4 S=0", "N=4 Sz=0"},
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        pair_t p = {0};
        open_pair(&p, row[k][0], row[k][1], row[k][2], NULL, row[k][3]);
        core_run x = core_exact(4000, core_charge(p.spin.model, row[k][4]), 1, KL_STRATEGY_AUTO),
                 y = core_exact(4000, core_charge(p.plain.model, row[k][5]), 1, KL_STRATEGY_AUTO);
        core_go(&p.spin, &x);
        core_go(&p.plain, &y);
        kl_test_case("%s: ground states of two runs", p.spin.name);
        expect_near(x.state->energy[0], y.state->energy[0], 1e-12 * fabs(y.state->energy[0]));
        compare_spectra(&p, x.state, y.state, 1e-12, 1e-11);
        core_drop(&x);
        core_drop(&y);
        close_pair(&p);
    }
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_components), cmocka_unit_test(test_start),
                                       cmocka_unit_test(test_spectra)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
