/* Measurements: every number against the state written out in the full Hilbert space and the oracle's own
   fermionic signs, for states that are truncated and no eigenstates, on every kind of lattice and charge; and
   against what is known exactly: free fermions, Majumdar-Ghosh, AKLT, spin and particle sum rules, conserved
   momenta.
   SPDX-License-Identifier: Apache-2.0 */
#include "kl_test.h"

#include "core.h"
#include "base/dense.h"
#include "dmrg/dmrg.h"
#include "dmrg/measure.h"
#include "base/prof.h"
#include "run/bondmeasure.h"
#include "run/request.h"
#include "run/requestread.h"

enum { MAX_N = 16 };

static kl_err err;

/* A state of the job in the sector of `charge` ("N_up=2 Sz=1/2"): nsweep sweeps with m states. */
static kl_state *make_state(const core_job *j, const char *charge, int m, int nsweep, int nstate,
                            uint64_t seed, double tol, kl_dmrg_result *res)
{
    kl_dmrg_sweep sweep[32];
    kl_dmrg_opts o = {.nstate = nstate, .nsweep = nsweep, .sweep = sweep, .seed = seed};
    kl_state *s = NULL;
    kl_dmrg_result own;
    char text[128], *rest = text;
    snprintf(text, sizeof text, "%s", charge);
    for (char *word = strtok_r(rest, " ", &rest); word; word = strtok_r(rest, " ", &rest)) {
        char *const value = strchr(word, '=');
        *value = '\0';
        expect_ok(kl_qn_set(j->model, &o.target, word, value + 1, &err), err);
    }
    for (int i = 0; i < nsweep; i++)
        sweep[i] = (kl_dmrg_sweep){.m = m, .noise = i < nsweep - 2 ? 1e-5 : 0, .tol = tol};
    kl_test_case("%s %s m=%d", j->name, charge, m);
    expect_ok(kl_dmrg_run(j->terms, j->ex, &o, NULL, &s, &own, &err), err);
    if (res) *res = own;
    else kl_dmrg_result_clear(&own);
    return s;
}

static kl_siteop *make_op(const core_job *j, const char *text)
{
    kl_siteop *o = NULL;
    expect_ok(kl_siteop_create(j->model, text, &o, &err), err);
    return o;
}

static kl_measure *open_measure(const core_job *j, const kl_state *s, int which)
{
    kl_measure *m = NULL;
    expect_ok(kl_measure_create(j->ex, s, which, j->lat, &m, &err), err);
    expect_ok(kl_canonical_schmidt(kl_measure_state(m), 2, &err), err);
    return m;
}

static void pairs(const core_job *j, kl_measure *m, const char *a, const char *between, const char *b,
                  int connected, double *value)
{
    kl_siteop *oa = make_op(j, a), *ob = make_op(j, b), *os = between ? make_op(j, between) : NULL;
    expect_ok(kl_measure_pairs(m, oa, os, ob, connected, value, &err), err);
    kl_siteop_destroy(&oa);
    kl_siteop_destroy(&ob);
    kl_siteop_destroy(&os);
}

static void local(const core_job *j, kl_measure *m, const char *a, double *value)
{
    kl_siteop *oa = make_op(j, a);
    expect_ok(kl_measure_local(m, oa, value, &err), err);
    kl_siteop_destroy(&oa);
}

static double product(const core_job *j, kl_measure *m, int n, const int *site, const char *const *op,
                      const char *between)
{
    kl_siteop *o[16], *s = between ? make_op(j, between) : NULL;
    double value = NAN;
    for (int k = 0; k < n; k++) o[k] = make_op(j, op[k]);
    expect_ok(kl_measure_product(m, n, site, (const kl_siteop *const *)o, s, &value, &err), err);
    for (int k = 0; k < n; k++) kl_siteop_destroy(&o[k]);
    kl_siteop_destroy(&s);
    return value;
}

/* ---- against the full vector ---- */

static void check_local(const core_job *j, kl_measure *m, const oracle *o, const double *psi, double tol)
{
    double value[MAX_N];
    for (int a = 0; a < j->model->type[0].nop; a++) {
        const char *const name = j->model->type[0].op[a].name;
        if (!j->model->type[0].op[a].named) continue;
        local(j, m, name, value);
        for (int i = 0; i < o->n; i++) expect_near(value[i], oracle_expect(o, psi, 1, &i, &name), tol);
    }
}

static void check_pairs(const core_job *j, kl_measure *m, const oracle *o, const double *psi, const char *a,
                        const char *b, const char *between, double tol)
{
    double value[MAX_N * MAX_N], minus[MAX_N * MAX_N], la[MAX_N], lb[MAX_N];
    const int n = o->n;
    pairs(j, m, a, between, b, 0, value);
    pairs(j, m, a, between, b, 1, minus);
    local(j, m, a, la);
    local(j, m, b, lb);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            int site[MAX_N] = {i, k}, count = 2;
            const char *op[MAX_N] = {a, b};
            const int p = j->lat->position[i], q = j->lat->position[k];
            for (int r = 0; between && r < n; r++)
                if ((r > p && r < q) || (r > q && r < p))
                    site[count] = j->lat->order[r], op[count++] = between;
            kl_test_case("%s <%s_%d %s_%d>%s%s", j->name, a, i, b, k, between ? " with " : "",
                         between ? between : "");
            const double want = oracle_expect(o, psi, count, site, op);
            expect_near(value[i * n + k], want, tol);
            expect_near(minus[i * n + k], want - la[i] * lb[k], tol);
            /* one product at a time takes another road */
            const char *const two[] = {a, b};
            expect_near(product(j, m, 2, site, two, between), want, tol);
        }
}

/* Strings between sites by their numbers. */
static void check_strings(const core_job *j, kl_measure *m, const oracle *o, const double *psi, const char *a,
                          const char *b, const char *between, double tol)
{
    double value[MAX_N * MAX_N];
    const int n = o->n;
    kl_siteop *oa = make_op(j, a), *ob = make_op(j, b), *os = make_op(j, between);
    expect_ok(kl_measure_strings(m, j->lat, oa, os, ob, value, &err), err);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            int site[MAX_N] = {i, k}, count = 2;
            const char *op[MAX_N] = {a, b};
            for (int r = i < k ? i + 1 : k + 1; r < (i < k ? k : i); r++)
                site[count] = r, op[count++] = between;
            kl_test_case("%s <%s_%d %s_%d> by number with %s", j->name, a, i, b, k, between);
            expect_near(value[i * n + k], oracle_expect(o, psi, count, site, op), tol);
        }
    kl_siteop_destroy(&oa);
    kl_siteop_destroy(&ob);
    kl_siteop_destroy(&os);
}

/* Products of operators at random; between: NULL, or what stands on the sites between. */
typedef struct random_products {
    int nname;
    const char *const *name;
    const char *between;
    int count;
    uint64_t seed;
} random_products;

static void check_products(const core_job *j, kl_measure *m, const oracle *o, const double *psi,
                           random_products c, double tol)
{
    const char *const between = c.between;
    for (int round = 0; round < c.count; round++) {
        int site[MAX_N], all = 2 + (int)(kl_test_bits(&c.seed) % 3);
        const char *op[MAX_N];
        const int n = all;
        int lo = o->n, hi = -1;
        for (int k = 0; k < n; k++) {
            site[k] = (int)(kl_test_bits(&c.seed) % (uint64_t)o->n);
            op[k] = c.name[kl_test_bits(&c.seed) % (uint64_t)c.nname];
            if (j->lat->position[site[k]] < lo) lo = j->lat->position[site[k]];
            if (j->lat->position[site[k]] > hi) hi = j->lat->position[site[k]];
        }
        const double seen = product(j, m, n, site, op, between);
        for (int p = lo + 1; between && p < hi; p++) {
            int taken = 0;
            for (int k = 0; k < n; k++) taken |= j->lat->position[site[k]] == p;
            if (!taken) site[all] = j->lat->order[p], op[all++] = between;
        }
        kl_test_case("%s %s_%d %s_%d ... (%d operators, round %d)", j->name, op[0], site[0], op[1], site[1],
                     n, round);
        expect_near(seen, oracle_expect(o, psi, all, site, op), tol);
    }
}

/* Entropy of the first `cut` positions from the full vector. */
static kl_status each_letter(const void *from, kl_bondop_fn *tell, void *self, kl_err *e)
{
    return kl_request_each(from, tell, self, e);
}

/* A_i B_j A_j+1 B_i over all i and j, and with a site that is told. */
static void check_letters(const core_job *j, kl_measure *m, const oracle *o, const double *psi, const char *a,
                          const char *b, double tol)
{
    const char *const form[] = {"product(%s@i,%s@j,%s@j+1,%s@i)", "product(%s@k,%s@1,%s@i+2,%s@k+1)"};
    const char *const op[] = {a, b, a, b};
    for (int f = 0; f < 2; f++) {
        kl_request q;
        char text[200];
        double value[MAX_N * MAX_N];
        const int rows = f == 0 ? o->n : o->n - 1, columns = f == 0 ? o->n - 1 : o->n - 2;
        snprintf(text, sizeof text, form[f], a, b, a, b);
        kl_test_case("%s %s", j->name, text);
        if (kl_request_read(text, j->model, j->lat, &q, &err) != KL_OK) { /* it changes a charge */
            const int site[4] = {0, 1, 2, 0};
            expect_near(oracle_expect(o, psi, 4, site, op), 0, tol);
            continue;
        }
        expect_eq(q.nletter, 2);
        expect_eq(q.length[0], rows);
        expect_eq(q.length[1], columns);
        expect_ok(
            kl_productmeasure(m, j->terms, j->lat, each_letter, &q, (int64_t)rows * columns, value, &err),
            err);
        for (int i = 0; i < rows; i++)
            for (int k = 0; k < columns; k++) {
                const int site[2][4] = {{i, k, k + 1, i}, {i, 1, k + 2, i + 1}};
                kl_test_case("%s %s at %d, %d", j->name, text, i, k);
                expect_near(value[i * columns + k], oracle_expect(o, psi, 4, site[f], op), tol);
            }
        kl_request_clear(&q);
    }
}

static double full_entropy(const oracle *o, const double *psi, int cut)
{
    int64_t right = 1;
    for (int p = cut; p < o->n; p++) right *= o->type[p]->dim;
    const int64_t leftn = o->dim / right;
    double *rho = calloc((size_t)(leftn * leftn), sizeof *rho), *w = calloc((size_t)leftn, sizeof *w),
           sum = 0;
    for (int64_t a = 0; a < leftn; a++)
        for (int64_t b = 0; b < leftn; b++)
            rho[a + b * leftn] = core_dot(right, psi + a * right, psi + b * right);
    expect_ok(kl_dense_eig((int)leftn, rho, (int)leftn, w, &err), err);
    for (int64_t a = 0; a < leftn; a++)
        if (w[a] > 1e-300) sum -= w[a] * log(w[a]);
    free(rho);
    free(w);
    return sum;
}

static void check_whole(const core_job *j, kl_measure *m, const core_full *full, const double *psi,
                        int neighbours_only, double tol)
{
    const oracle *const o = full->o;
    double *h = calloc((size_t)o->dim, sizeof *h), energy, variance, alone, worst, exact = 0;
    oracle_apply(full->s, psi, h);
    const double e = core_dot(o->dim, psi, h);
    for (int64_t i = 0; i < o->dim; i++) exact += (h[i] - e * psi[i]) * (h[i] - e * psi[i]);
    kl_test_case("%s", j->name);
    expect_ok(kl_measure_energy(m, j->terms, &energy, &variance, &err), err);
    expect_ok(kl_measure_energy(m, j->terms, &alone, NULL, &err), err);
    expect_near(energy, e, tol * full->norm);
    expect_near(alone, e, tol * full->norm);
    if (neighbours_only) expect_near(variance, exact, tol * full->norm * full->norm);
    expect_true(variance <= exact + tol * full->norm * full->norm);
    expect_ok(kl_measure_charge_error(m, &worst, &err), err);
    expect_near(worst, 0, 1e-12);
    for (int cut = 0; cut <= o->n; cut++) {
        int64_t dim = 1;
        for (int p = 0; p < cut; p++) dim *= o->type[p]->dim;
        if (dim <= 256)
            expect_near(kl_canonical_entropy(kl_measure_state(m), cut), full_entropy(o, psi, cut), 1e-10);
    }
    free(h);
}

typedef struct scenario {
    const char *model, *variant, *lattice, *order, *sets, *charge;
    int m, neighbours_only;
    const char *between;
    const char *pair[12];  /* two by two */
    const char *name[8];   /* of random products */
} scenario;

static const scenario scenarios[] = {
    {"heisenberg",
     "S=1/2",
     "chain:7",
     "column",
     "h=0.3,-0.2,0.5,0,0.1,-0.4,0.2 Delta=0.6",
     "Sz=1/2",
     5,
     1,
     "Sz",
     {"Sz", "Sz", "Sp", "Sm", "Sm", "Sp", "Sp", "Sz"},
     {"Sz", "Sp", "Sm"}},
    {"heisenberg",
     "S=1",
     "ladder:3x2",
     "snake",
     "h=0.3,-0.2,0.5,0,0.1,-0.4",
     "Sz=1",
     7,
     0,
     "P",
     {"Sz", "Sz", "Sp", "Sm", "Sm", "Sp"},
     {"Sz", "Sp", "Sm", "P"}},
    {"hubbard",
     "F=1/2",
     "chain:5",
     "column",
     "U=3 mu=0.4,-0.2,0.1,0.3,0",
     "N_up=3 N_dn=2",
     9,
     1,
     "P",
     {"cdag_up", "c_up", "c_up", "cdag_up", "cdag_dn", "c_dn", "n", "n", "Sp", "Sm", "cdag_up", "cdag_up"},
     {"cdag_up", "c_up", "cdag_dn", "c_dn", "n_up", "Sp"}},
    {"hubbard",
     "F=1/2",
     "ladder:3x2",
     "snake",
     "U=2 mu=uniform(-1,1)",
     "N_up=3 N_dn=2",
     14,
     0,
     "P",
     {"cdag_up", "c_up", "c_dn", "cdag_dn", "n_up", "n_dn", "Sm", "Sp"},
     {"cdag_up", "c_up", "cdag_dn", "c_dn", "docc", "n_up"}},
    {"hubbard",
     "F=1/2",
     "ring:4",
     "2,0,3,1",
     "U=2",
     "N_up=2 N_dn=1",
     14,
     0,
     NULL,
     {"cdag_dn", "c_dn", "c_dn", "cdag_dn", "Sz", "Sz"},
     {"cdag_up", "c_up", "cdag_dn", "c_dn"}},
    {"tj",
     NULL,
     "ladder:3x2",
     "column",
     "mu=uniform(-1,1)",
     "N_up=2 N_dn=1",
     12,
     0,
     NULL,
     {"cdag_up", "c_up", "n", "n", "Sp", "Sm"},
     {"cdag_up", "c_up", "cdag_dn", "c_dn"}},
    {"bose_hubbard",
     NULL,
     "chain:5",
     "column",
     "mu=uniform(-1,1)",
     "N=4",
     6,
     1,
     "P",
     {"bdag", "b", "b", "bdag", "n", "n"},
     {"b", "bdag", "n"}},
    {"pairing",
     NULL,
     "chain:8",
     "column",
     "V=0.7 mu=uniform(-1,1)",
     "parity=1",
     5,
     1,
     "P",
     {"cdag", "c", "c", "cdag", "c", "c", "cdag", "cdag", "n", "n"},
     {"c", "cdag", "n"}},
    {"pairing",
     NULL,
     "ladder:4x2",
     "snake",
     "V=0.7 mu=uniform(-1,1)",
     "parity=0",
     9,
     0,
     "P",
     {"cdag", "c", "c", "cdag", "c", "c", "cdag", "cdag"},
     {"c", "cdag"}},
    {"ising",
     NULL,
     "chain:8",
     "column",
     "h=uniform(0.5,1.5)",
     "parity=1",
     4,
     1,
     "sz",
     {"sx", "sx", "isy", "sx", "sx", "isy", "sp", "sm"},
     {"sx", "sz", "sp"}},
    {"kondo",
     "S=1/2",
     "chain:3",
     "column",
     "U=1",
     "N=3 Sz=1",
     12,
     1,
     NULL,
     {"cdag_up", "c_up", "Sp_spin", "Sm_electron", "Sz_spin", "Sz_electron"},
     {"cdag_up", "c_up", "Sp_spin", "Sm_electron", "n_dn"}},
    {"longrange",
     NULL,
     "chain:7",
     "column",
     "",
     "Sz=1/2",
     6,
     0,
     NULL,
     {"Sz", "Sz", "Sp", "Sm"},
     {"Sz", "Sp", "Sm"}},
};

static void test_against_full(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof scenarios / sizeof *scenarios; k++) {
        const scenario *const c = &scenarios[k];
        core_job j;
        core_open(&j, core_model(c->model, c->variant), c->lattice, c->order, c->sets);
        core_full full = core_full_open(&j);
        kl_state *s = make_state(&j, c->charge, c->m, 2, 2, 3 + k, 1e-3, NULL),
                 *t = make_state(&j, c->charge, c->m + 3, 3, 1, 77 + k, 1e-2, NULL);
        double *psi[3];
        kl_measure *m[3];
        int nname = 0;
        while (nname < 8 && c->name[nname]) nname++;
        for (int i = 0; i < 3; i++) {
            psi[i] = core_state_vector(i < 2 ? s : t, i < 2 ? i : 0);
            const double norm = sqrt(core_dot(full.o->dim, psi[i], psi[i]));
            for (int64_t x = 0; x < full.o->dim; x++) psi[i][x] /= norm;
            m[i] = open_measure(&j, i < 2 ? s : t, i < 2 ? i : 0);
            check_local(&j, m[i], full.o, psi[i], 1e-12);
            for (int q = 0; q < 12 && c->pair[q]; q += 2) {
                check_pairs(&j, m[i], full.o, psi[i], c->pair[q], c->pair[q + 1], NULL, 1e-12);
                if (i == 2) check_letters(&j, m[i], full.o, psi[i], c->pair[q], c->pair[q + 1], 1e-12);
                if (c->between && i == 0)
                    check_pairs(&j, m[i], full.o, psi[i], c->pair[q], c->pair[q + 1], c->between, 1e-12);
                if (c->between && i == 0)
                    check_strings(&j, m[i], full.o, psi[i], c->pair[q], c->pair[q + 1], c->between, 1e-12);
            }
            const random_products plain = {nname, c->name, NULL, 60, 11 + k},
                                  strings = {nname, c->name, c->between, 30, 12 + k};
            check_products(&j, m[i], full.o, psi[i], plain, 1e-12);
            if (c->between) check_products(&j, m[i], full.o, psi[i], strings, 1e-12);
            check_whole(&j, m[i], &full, psi[i], c->neighbours_only, 1e-13);
        }
        for (int a = 0; a < 3; a++)
            for (int b = 0; b < 3; b++) {
                double seen;
                kl_test_case("%s <%d|%d>", j.name, a, b);
                expect_ok(kl_canonical_overlap(kl_measure_state(m[a]), kl_measure_state(m[b]), &seen, &err),
                          err);
                expect_near(seen, core_dot(full.o->dim, psi[a], psi[b]), 1e-12);
            }
        for (int i = 0; i < 3; i++) {
            kl_measure_destroy(&m[i]);
            free(psi[i]);
        }
        kl_state_destroy(&s);
        kl_state_destroy(&t);
        core_full_close(&full);
        core_close(&j);
        core_no_memory();
    }
}

/* ---- against what is known ---- */

/* U = 0: <c+_i c_j> = sum over the lowest N modes of the hopping matrix, each flavour. */
static void free_fermions(const char *lattice, const char *order, int up, int m, double tol)
{
    core_job j;
    char charge[64];
    double g[MAX_N * MAX_N], h[MAX_N * MAX_N] = {0}, w[MAX_N], nn[MAX_N * MAX_N];
    core_open(&j, core_model("hubbard", "F=1/2"), lattice, order, "U=0 t=1");
    snprintf(charge, sizeof charge, "N_up=%d N_dn=%d", up, up);
    kl_state *s = make_state(&j, charge, m, 12, 1, 5, 1e-9, NULL);
    kl_measure *x = open_measure(&j, s, 0);
    const int n = j.lat->nsite;
    for (int b = 0; b < j.lat->nbond; b++) {
        const char *const cls = j.lat->bond_class[j.lat->bond[b].cls[0]];
        if (strcmp(cls, "nn") == 0)
            h[j.lat->bond[b].i * n + j.lat->bond[b].j] = h[j.lat->bond[b].j * n + j.lat->bond[b].i] = -1;
    }
    expect_ok(kl_dense_eig(n, h, n, w, &err), err);
    expect_true(w[up] - w[up - 1] > 0.05); /* a closed shell */
    pairs(&j, x, "cdag_up", NULL, "c_up", 0, g);
    pairs(&j, x, "n_up", NULL, "n_up", 1, nn);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            double want = 0;
            for (int a = 0; a < up; a++) want += h[a * n + i] * h[a * n + k];
            kl_test_case("%s %s: i=%d j=%d", lattice, order, i, k);
            expect_near(g[i * n + k], want, tol);
            expect_near(nn[i * n + k], i == k ? want * (1 - want) : -want * want, tol); /* Wick */
        }
    double sum = 0, density[MAX_N];
    local(&j, x, "n_up + n_dn", density);
    for (int i = 0; i < n; i++) sum += density[i];
    expect_near(sum, 2 * up, 1e-12);
    kl_measure_destroy(&x);
    kl_state_destroy(&s);
    core_close(&j);
    core_no_memory();
}

static void test_free_fermions(void **state)
{
    (void)state;
    free_fermions("chain:6", "column", 3, 64, 1e-8);
    free_fermions("ladder:3x2", "snake", 3, 64, 1e-8);
    free_fermions("ring:6", "column", 3, 64, 1e-8);
}

/* Total spin and Hermiticity. */
static void test_total_spin(void **state)
{
    (void)state;
    core_job j;
    core_open(&j, core_model("heisenberg", "S=1"), "chain:8", NULL, NULL);
    kl_state *s = make_state(&j, "Sz=1", 80, 8, 1, 5, 1e-9, NULL); /* the triplet */
    kl_measure *m = open_measure(&j, s, 0);
    double zz[MAX_N * MAX_N], pm[MAX_N * MAX_N], mp[MAX_N * MAX_N], xx[MAX_N * MAX_N], yy[MAX_N * MAX_N],
        total = 0, z = 0, sz[MAX_N];
    const int n = 8;
    pairs(&j, m, "Sz", NULL, "Sz", 0, zz);
    pairs(&j, m, "Sp", NULL, "Sm", 0, pm);
    pairs(&j, m, "Sm", NULL, "Sp", 0, mp);
    pairs(&j, m, "(Sp + Sm)/2", NULL, "(Sp + Sm)/2", 0, xx);
    pairs(&j, m, "(Sp - Sm)/2", NULL, "(Sp - Sm)/2", 0, yy); /* i Sy: real */
    local(&j, m, "Sz", sz);
    for (int i = 0; i < n; i++) {
        z += sz[i];
        for (int k = 0; k < n; k++) {
            total += zz[i * n + k] + (pm[i * n + k] + mp[i * n + k]) / 2;
            expect_near(pm[i * n + k], pm[k * n + i], 1e-13);
            expect_near(xx[i * n + k] - yy[i * n + k], (pm[i * n + k] + mp[i * n + k]) / 2, 1e-12);
        }
    }
    expect_near(total, 2, 1e-9);
    expect_near(z, 1, 1e-12);
    /* S(k) of S.S: S(0) = S(S+1)/N, and the sum over momenta counts S(S+1) of the sites */
    double (*k)[2], sk[MAX_N], sum = 0;
    int shape[2];
    for (int i = 0; i < n * n; i++) zz[i] += (pm[i] + mp[i]) / 2;
    expect_ok(kl_lattice_momenta(j.lat, shape, &k, &err), err);
    const int nk = shape[0] * shape[1];
    expect_eq(nk, n);
    kl_structure_factor(j.lat, zz, nk, (const double (*)[2])k, sk);
    for (int i = 0; i < nk; i++) sum += sk[i];
    expect_near(sk[0], 2.0 / n, 1e-9);
    expect_near(sum, n * 2, 1e-10);
    expect_near(k[n / 2][0], M_PI, 1e-15);
    expect_true(sk[n / 2] > sk[n / 2 - 1]); /* antiferromagnet */
    kl_free(&k);
    kl_measure_destroy(&m);
    kl_state_destroy(&s);
    core_close(&j);
    core_no_memory();
}

/* J2 = J1/2: dimers. Entropies ln 2 and 0 in turn; strings of dimers are products. */
static void test_majumdar_ghosh(void **state)
{
    (void)state;
    core_job j;
    core_open(&j, core_model("j1j2", NULL), "chain:12", NULL, "J1=1 J2=0.5");
    kl_state *s = make_state(&j, "Sz=0", 32, 12, 1, 5, 1e-10, NULL);
    kl_measure *m = open_measure(&j, s, 0);
    double energy, variance, zz[MAX_N * MAX_N];
    expect_ok(kl_measure_energy(m, j.terms, &energy, &variance, &err), err);
    expect_near(energy, -0.375 * 12, 1e-10);
    expect_near(variance, 0, 1e-15);
    for (int cut = 1; cut < 12; cut++) {
        kl_test_case("cut %d", cut);
        expect_near(kl_canonical_entropy(kl_measure_state(m), cut), cut % 2 ? log(2) : 0, 1e-7);
    }
    pairs(&j, m, "Sz", NULL, "Sz", 0, zz);
    for (int i = 0; i < 12; i++)
        for (int k = 0; k < 12; k++)
            expect_near(zz[i * 12 + k], i == k ? 0.25 : i / 2 == k / 2 ? -0.25 : 0, 1e-7);
    kl_measure_destroy(&m);
    kl_state_destroy(&s);
    core_close(&j);
    core_no_memory();
}

/* AKLT, open: one of the four ground states, made unique by Sz = 1 (both end spins up): <Sz exp(i pi sum Sz)
   Sz> = -4/9 in the bulk at every distance. */
static void test_aklt(void **state)
{
    (void)state;
    enum { N = 14 };
    core_job j;
    core_open(&j, core_model("blbq", NULL), "chain:14", NULL, "beta=1/3");
    kl_state *s = make_state(&j, "Sz=1", 24, 12, 1, 5, 1e-11, NULL);
    kl_measure *m = open_measure(&j, s, 0);
    double energy, variance, order[MAX_N * MAX_N], zz[MAX_N * MAX_N];
    expect_ok(kl_measure_energy(m, j.terms, &energy, &variance, &err), err);
    expect_near(energy, -2.0 / 3 * (N - 1), 1e-10);
    expect_near(variance, 0, 1e-15);
    pairs(&j, m, "Sz", "expipi(Sz)", "Sz", 0, order);
    pairs(&j, m, "Sz", NULL, "Sz", 0, zz);
    for (int i = 4; i < N - 4; i++)
        for (int k = i + 1; k < N - 4; k++) {
            kl_test_case("i=%d j=%d", i, k);
            expect_near(order[i * N + k], -4.0 / 9, 2e-2); /* ends reach in as 3^-4 */
            expect_near(order[k * N + i], order[i * N + k], 1e-12);
        }
    expect_near(order[6 * N + 8], -4.0 / 9, 2e-3);
    expect_near(zz[6 * N + 7], -4.0 / 9, 2e-3); /* (4/3) (-1/3)^r */
    for (int cut = 5; cut < 10; cut++)
        expect_near(kl_canonical_entropy(kl_measure_state(m), cut), log(2), 1e-3);
    const int site[] = {5, 6, 7, 8, 9};
    const char *const op[] = {"Sz", "expipi(Sz)", "expipi(Sz)", "expipi(Sz)", "Sz"};
    expect_near(product(&j, m, 5, site, op, NULL), order[5 * N + 9], 1e-12);
    kl_measure_destroy(&m);
    kl_state_destroy(&s);
    core_close(&j);
    core_no_memory();
}

/* Grid momenta: on a torus of free spins up the structure factor is a peak at 0. Here: plane wave of one
   magnon on a ring has S(k) known. */
static void test_momenta(void **state)
{
    (void)state;
    kl_lattice *lat;
    double (*k)[2], c[36], sk[6];
    int shape[2];
    expect_ok(kl_lattice_create("torus:3x2", 0, 0, &lat, &err), err);
    expect_ok(kl_lattice_momenta(lat, shape, &k, &err), err);
    const int nk = shape[0] * shape[1];
    expect_eq(nk, 6);
    for (int i = 0; i < 6; i++)
        for (int l = 0; l < 6; l++)
            c[i * 6 + l] =
                cos(2 * M_PI / 3 * (lat->xy[i][0] - lat->xy[l][0]) + M_PI * (lat->xy[i][1] - lat->xy[l][1]));
    kl_structure_factor(lat, c, nk, (const double (*)[2])k, sk);
    for (int a = 0; a < 6; a++) {
        const double kx = k[a][0], ky = k[a][1];
        const int peak =
            fabs(ky - M_PI) < 1e-12 && (fabs(kx - 2 * M_PI / 3) < 1e-12 || fabs(kx - 4 * M_PI / 3) < 1e-12);
        expect_near(sk[a], peak ? 3 : 0, 1e-12);
    }
    kl_free(&k);
    kl_lattice_destroy(&lat);
    core_no_memory();
}

/* ---- operators as text, and refusals ---- */

static void test_siteop(void **state)
{
    (void)state;
    const kl_model *const hub = core_model("hubbard", "F=1/2"), *const spin = core_model("heisenberg", "S=1");
    kl_siteop *a, *b;
    static const char *const same[][2] = {{"n_up*n_dn", "docc"},
                                          {"n_up + n_dn", "n"},
                                          {"cdag_up*c_dn", "Sp"},
                                          {"2*Sz/2", "Sz"},
                                          {"-(-(n))", "n"},
                                          {"cdag_up*c_up", "n_up"},
                                          {"expipi(n)", "P"},
                                          {" ( n_up-n_dn ) * 0.5 ", "Sz"},
                                          {"1 - n + 2e-0*docc*.5 ", "(1-n_up)*(1-n_dn)"}};
    for (size_t k = 0; k < sizeof same / sizeof *same; k++) {
        kl_test_case("%s = %s", same[k][0], same[k][1]);
        expect_ok(kl_siteop_create(hub, same[k][0], &a, &err), err);
        expect_ok(kl_siteop_create(hub, same[k][1], &b, &err), err);
        expect_true(kl_siteop_equal(a, b));
        kl_siteop_destroy(&a);
        kl_siteop_destroy(&b);
    }
    expect_ok(kl_siteop_create(spin, "Sp", &a, &err), err);
    expect_ok(kl_siteop_create(spin, "Sm", &b, &err), err);
    expect_true(kl_siteop_adjoint(a, b) && !kl_siteop_equal(a, b) && !kl_siteop_adjoint(a, a));
    kl_siteop_destroy(&a);
    kl_siteop_destroy(&b);
    static const struct {
        const char *text, *part;
    } wrong[] = {{"", "expected"},
                 {"Szz", "did you mean 'Sz'"},
                 {"foo", "it has Sz, Sp, Sm"},
                 {"Sz*", "expected"},
                 {"(Sz", "')' is missing"},
                 {"Sz Sz", "expected"},
                 {"Sz/0", "zero"},
                 {"Sz/Sp", "number"},
                 {"sin(Sz)", "expipi"},
                 {"expipi(Sp)", "diagonal"},
                 {"expipi(Sz/2)", "whole"},
                 {"expipi(Sz", "')'"},
                 {"1.2.3", "number"},
                 {"Sz)", "expected"},
                 {"#", "expected"},
                 {"((((((((((((((((((((((((((((((((((((Sz))))))))))))))))))))))))))))))))))))", "brackets"}};
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        kl_test_case("%s", wrong[k].text);
        expect_refused(kl_siteop_create(spin, wrong[k].text, &a, &err), KL_EINPUT, err, wrong[k].part);
        expect_true(a == NULL);
    }
    core_no_memory();
}

static void test_refusals(void **state)
{
    (void)state;
    core_job j, k;
    core_open(&j, core_model("heisenberg", "S=1"), "chain:4", NULL, NULL);
    core_open(&k, core_model("heisenberg", "S=1/2"), "chain:5", NULL, NULL);
    kl_state *s = make_state(&j, "Sz=0", 8, 2, 1, 5, 1e-3, NULL),
             *t = make_state(&k, "Sz=1/2", 8, 2, 1, 5, 1e-3, NULL);
    kl_measure *m = open_measure(&j, s, 0), *n = open_measure(&k, t, 0), *none = NULL;
    kl_siteop *z = make_op(&j, "Sz"), *p = make_op(&j, "Sp"), *mixed = make_op(&j, "Sz + Sp");
    double v[16], x;
    expect_refused(kl_measure_create(j.ex, s, 1, j.lat, &none, &err), KL_EINPUT, err, "wavefunction 1");
    expect_refused(kl_measure_create(j.ex, s, 0, k.lat, &none, &err), KL_EINPUT, err, "4 sites");
    expect_refused(kl_measure_pairs(m, z, p, z, 0, v, &err), KL_EINPUT, err, "'Sp' is to stand between");
    expect_refused(kl_measure_pairs(m, z, mixed, z, 0, v, &err), KL_EINPUT, err, "conserve");
    expect_refused(kl_measure_product(m, 1, (const int[]){4}, (const kl_siteop *const[]){z}, NULL, &x, &err),
                   KL_EINPUT, err, "0 to 3");
    expect_refused(kl_measure_energy(m, k.terms, &x, NULL, &err), KL_EINPUT, err, "4 sites");
    expect_refused(kl_canonical_overlap(kl_measure_state(m), kl_measure_state(n), &x, &err), KL_EINPUT, err,
                   "4 and 5 sites");
    kl_siteop_destroy(&z);
    kl_siteop_destroy(&p);
    kl_siteop_destroy(&mixed);
    kl_measure_destroy(&m);
    kl_measure_destroy(&n);
    kl_state_destroy(&s);
    kl_state_destroy(&t);
    core_close(&j);
    core_close(&k);
    core_no_memory();
}

/* ---- requests ---- */

static const kl_measured *find(const kl_result *r, const char *name)
{
    for (int i = 0; i < r->nmeasured; i++)
        if (strcmp(r->measured[i].name, name) == 0) return &r->measured[i];
    print_error("no measurement %s\n", name);
    fail();
    return NULL;
}

/* The two dimer states of a Majumdar-Ghosh ring: each may break the translation, their mean may not. */
/* Values of the two states of a ring at the Majumdar-Ghosh point, and of their manifold. */
static void check_requested(const kl_result *r, const kl_dmrg_result *found)
{
    const double *const mean = find(r, "manifold/correlation/Sz , Sz")->data,
                        *const one = find(r, "correlation/Sz , Sz")->data,
                        *const two = find(r, "state_1/correlation/Sz , Sz")->data;
    for (int d = 0; d < 8; d++)
        for (int i = 0; i < 8; i++) {
            expect_near(mean[i * 8 + (i + d) % 8], mean[d], 1e-7);
            expect_near(mean[i * 8 + (i + d) % 8], (one[i * 8 + (i + d) % 8] + two[i * 8 + (i + d) % 8]) / 2,
                        1e-14);
        }
    expect_near(find(r, "energy")->data[0], -3, 1e-9);
    for (int cut = 0; cut < 7; cut++) expect_near(find(r, "entropy")->data[cut], found->entropy[cut], 1e-10);
    for (int k = 0; k < 2; k++)
        expect_near(find(r, k ? "state_1/energy" : "energy")->data[0], found->energy_kept[k], 1e-12 * 3);
    expect_near(find(r, "variance")->data[0], 0, 1e-12);
    const kl_measured *const w = find(r, "spectrum/weights");
    for (int cut = 0; cut < 7; cut++) {
        double sum = 0;
        for (int64_t i = 0; i < w->shape[1]; i++) {
            sum += w->data[cut * w->shape[1] + i];
            if (i) expect_true(w->data[cut * w->shape[1] + i] <= w->data[cut * w->shape[1] + i - 1]);
        }
        expect_near(sum, 1, 1e-12);
    }
}

static void refuse_requests(const core_job *j)
{
    static const struct {
        const char *text, *part;
    } wrong[] = {{"Szz", "did you mean 'Sz'"},
                 {"corr(Sz)", "2 operators"},
                 {"corr(Sz,Sz,Sz)", "2 operators"},
                 {"corr", "brackets"},
                 {"corr(Sz,Sz", "')'"},
                 {"cor(Sz,Sz)", "no such measurement"},
                 {"product(Sz)", "its site"},
                 {"product(Sz@8)", "0 to 7"},
                 {"product(Sz@-9)", "0 to 7"},
                 {"product(Sz@x)", "'x'"},
                 {"product(Sz@i+8)", "'i+8'"},
                 {"product(Sp@i,Sz@j)", "charge Sz by 1"},
                 {"product(Sz@0;Sz;Sz)", "only one"},
                 {"product(Sz@0;Sp)", "conserve"},
                 {"string(Sz,Sm,Sz)", "conserve"},
                 {"string(Sz,Sz)", "3 operators"},
                 {"string(Sz,0*Sz,Sz)", "vanish"},
                 {"entropy()", "alone"},
                 {"overlap()", "missing"},
                 {"overlap(no/such.h5)", "cannot be opened"},
                 {"", "expected"},
                 {"corr(Sz;Sz)", "product"},
                 {"Sz,Sz", "1 operator"},
                 {"Sp", "charge Sz by 1"},
                 {"(Sp+Sm)/2", "0 in every sector"},
                 {"corr(Sp,Sp)", "charge Sz by 2"},
                 {"product(Sp@0,Sz@1)", "0 in every sector"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        kl_test_case("%s", wrong[i].text);
        expect_refused(kl_request_check(wrong[i].text, j->model, j->lat, &err),
                       strncmp(wrong[i].text, "overlap(no", 10) ? KL_EINPUT : KL_EIO, err, wrong[i].part);
    }
}

static void test_requests(void **state)
{
    (void)state;
    core_job j;
    core_open(&j, core_model("j1j2", NULL), "ring:8", NULL, "J1=1 J2=0.5");
    kl_dmrg_result found;
    kl_state *s = make_state(&j, "Sz=0", 40, 10, 2, 5, 1e-10, &found);
    kl_result *r = NULL, *again = NULL;
    expect_near(found.energy[0], -3, 1e-9);
    expect_near(found.energy[1], -3, 1e-9);
    const kl_result_origin origin = {"test", "test", ""};
    expect_ok(kl_result_create(j.model, j.lat, j.par, s->target, 1, &origin, &r, &err), err);
    expect_ok(kl_result_set_dmrg(r, &found, &err), err);
    r->finished = 1;
    const kl_request_scene scene = {.terms = j.terms, .lat = j.lat, .params = j.par, .ex = j.ex};
    const char *const ask[] = {"Sz",
                               " corr( Sz , Sz ) ",
                               "connected(Sz*Sz,Sz)",
                               "string(Sz,expipi(2*Sz),Sz)",
                               "structure(Sz,Sz)",
                               "product(Sp@0,Sm@3)",
                               "product(Sz@0,Sz@5;expipi(2*Sz))",
                               "populations",
                               "entropy",
                               "spectrum",
                               "energy",
                               "variance",
                               "corr((Sp+Sm)/2,Sp)",
                               "local(Sz/2)"};
    const int n = (int)(sizeof ask / sizeof *ask);
    for (int i = 0; i < n; i++) expect_ok(kl_request_check(ask[i], j.model, j.lat, &err), err);
    expect_ok(kl_request_run(&scene, n, ask, s, 2, r, &err), err);
    static const struct {
        const char *name;
        int rank;
        int64_t n;
    } want[] = {{"local/Sz", 1, 8},
                {"state_1/local/Sz", 1, 8},
                {"manifold/local/Sz", 1, 8},
                {"correlation/Sz , Sz", 2, 8},
                {"manifold/connected/Sz*Sz,Sz", 2, 8},
                {"string/Sz,expipi(2*Sz),Sz", 2, 8},
                {"structure/Sz,Sz", 1, 8},
                {"product/Sp@0,Sm@3", 0, 0},
                {"product/Sz@0,Sz@5;expipi(2*Sz)", 0, 0},
                {"populations", 2, 8},
                {"entropy", 1, 7},
                {"state_1/spectrum/weights", 2, 7},
                {"spectrum/charges", 3, 7},
                {"energy", 0, 0},
                {"manifold/variance", 0, 0},
                {"correlation/(Sp+Sm):2,Sp", 2, 8},
                {"local/Sz:2", 1, 8}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const kl_measured *const m = find(r, want[i].name);
        kl_test_case("%s", m->name);
        expect_eq(m->rank, want[i].rank);
        if (m->rank) expect_eq(m->shape[0], want[i].n);
    }
    check_requested(r, &found);
    /* a result file is something to overlap with */
    const char *const path = "test_measure.h5";
    char ask_overlap[64];
    snprintf(ask_overlap, sizeof ask_overlap, "overlap(%s)", path);
    const char *const list[] = {ask_overlap};
    expect_ok(kl_result_write(path, r, s, &err), err);
    expect_ok(kl_result_read(path, &again, &err), err);
    expect_eq(again->nmeasured, r->nmeasured);
    expect_ok(kl_request_run(&scene, 1, list, s, 2, r, &err), err);
    expect_near(find(r, "overlap/test_measure.h5")->data[0], 1, 1e-12);
    expect_near(find(r, "overlap/test_measure.h5")->data[1], 0, 1e-12);
    remove(path);
    refuse_requests(&j);
    kl_dmrg_result_clear(&found);
    kl_result_destroy(&r);
    kl_result_destroy(&again);
    kl_state_destroy(&s);
    core_close(&j);
    core_no_memory();
}

static void test_no_memory(void **state)
{
    (void)state;
    core_job j;
    core_open(&j, core_model("hubbard", "F=1/2"), "chain:4", NULL, NULL);
    kl_state *s = make_state(&j, "N_up=2 N_dn=2", 8, 2, 1, 5, 1e-3, NULL);
    kl_siteop *a = make_op(&j, "cdag_up"), *b = make_op(&j, "c_up");
    int ok = 0;
    for (int64_t k = 1; !ok && k < 20000; k += 1 + k / 50) {
        kl_measure *m = NULL;
        double v[16], x, y;
        int d;
        double *pop = NULL;
        kl_test_case("allocation %lld", (long long)k);
        kl_mem_fail_after(k);
        kl_status st = kl_measure_create(j.ex, s, 0, j.lat, &m, &err);
        if (st == KL_OK) st = kl_measure_pairs(m, a, NULL, b, 0, v, &err);
        if (st == KL_OK)
            st = kl_measure_product(m, 2, (const int[]){2, 0}, (const kl_siteop *const[]){a, b}, NULL, &x,
                                    &err);
        if (st == KL_OK) st = kl_measure_populations(m, &d, &pop, &err);
        if (st == KL_OK) st = kl_canonical_schmidt(kl_measure_state(m), 2, &err);
        if (st == KL_OK) st = kl_canonical_overlap(kl_measure_state(m), kl_measure_state(m), &x, &err);
        if (st == KL_OK) st = kl_measure_energy(m, j.terms, &x, &y, &err);
        kl_mem_fail_after(0);
        kl_free(&pop);
        kl_measure_destroy(&m);
        ok = st == KL_OK;
        expect_true(ok || st == KL_ENOMEM);
    }
    expect_true(ok);
    kl_siteop_destroy(&a);
    kl_siteop_destroy(&b);
    kl_state_destroy(&s);
    core_close(&j);
    core_no_memory();
}

/* All pairs of 100 sites: seconds, not minutes, and still exact sums. */
static void test_speed(void **state)
{
    (void)state;
    if (KL_TEST_WATCHED) skip(); /* nobody times what is watched */
    core_job j;
    core_open(&j, core_model("heisenberg", "S=1/2"), "chain:100", NULL, NULL);
    kl_state *s = make_state(&j, "Sz=0", 100, 3, 1, 5, 1e-4, NULL);
    const double t0 = kl_prof_seconds();
    kl_measure *m = open_measure(&j, s, 0);
    const double t1 = kl_prof_seconds();
    double *zz = calloc(100 * 100, sizeof *zz);
    pairs(&j, m, "Sz", NULL, "Sz", 0, zz);
    const double t2 = kl_prof_seconds();
    pairs(&j, m, "Sp", NULL, "Sm", 0, zz);
    const double t3 = kl_prof_seconds();
    double energy, variance;
    expect_ok(kl_measure_energy(m, j.terms, &energy, &variance, &err), err);
    print_message("# N=100 m=100: canonical form %.2f s, <Sz Sz> %.2f s, <S+ S-> %.2f s, variance %.2f s: "
                  "E=%.12f var=%.3e\n",
                  t1 - t0, t2 - t1, t3 - t2, kl_prof_seconds() - t3, energy, variance);
    expect_true(t3 - t1 < 60);
    pairs(&j, m, "Sz", NULL, "Sz", 0, zz);
    for (int i = 0; i < 100; i++) {
        double sum = 0;
        for (int k = 0; k < 100; k++) sum += zz[i * 100 + k];
        kl_test_case("row %d", i);
        expect_near(sum, 0, 1e-11); /* Sz_total |psi> = 0 */
    }
    free(zz);
    kl_measure_destroy(&m);
    kl_state_destroy(&s);
    core_close(&j);
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_siteop),       cmocka_unit_test(test_momenta),
        cmocka_unit_test(test_against_full), cmocka_unit_test(test_free_fermions),
        cmocka_unit_test(test_total_spin),   cmocka_unit_test(test_majumdar_ghosh),
        cmocka_unit_test(test_aklt),         cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_requests),     cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
