/* Symbolic records against the oracle: blocks are grown site by site, and H x of the superblock at every cut
   equals the oracle's, in the full space with isometries that drop nothing and in random truncated bases, for
   operators in parts, multiplied out, and one of each.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "dmrg/opdense.h"
#include "dmrg/renorm.h"
#include "kl_test.h"

typedef struct blocks {
    int n;
    kl_mpo *mpo;
    kl_block *left[65], *right[65]; /* by cut */
    core_space *lspace[65], *rspace[65];
    kl_reach lreach[65], rreach[65];
} blocks;

typedef struct filter {
    const kl_model *m;
    const kl_reach *other;
    kl_qn target;
} filter;

static int completes(void *self, kl_qn q)
{
    const filter *const f = self;
    return kl_reach_find(f->other, kl_qn_sub(f->m, f->target, q)) >= 0;
}

/* Random isometry over e, about `share` of each sector; share >= 1: the identity. */
static kl_isometry *isometry(kl_enlarged **e, double share, uint64_t *seed)
{
    kl_err err = {""};
    kl_isometry *o = NULL;
    const int n = (*e)->basis.nsec;
    int *const sec = calloc((size_t)n + 1, sizeof *sec), *const dim = calloc((size_t)n + 1, sizeof *dim),
               nsec = 0;
    for (int i = 0; i < n; i++) {
        const int all = (*e)->basis.dim[i];
        const int d = share >= 1 ? all : (int)(share * all + 0.5 + 0.5 * kl_test_uniform(seed));
        if (d > 0 || (i == n - 1 && nsec == 0)) sec[nsec] = i, dim[nsec++] = d > all ? all : d > 0 ? d : 1;
    }
    expect_ok(kl_isometry_create_take(e, nsec, sec, dim, &o, &err), err);
    for (int k = 0; k < nsec; k++) {
        const int rows = o->enlarged->basis.dim[sec[k]];
        double *const a = o->data + o->off[k];
        for (int64_t i = 0; i < (int64_t)rows * dim[k]; i++)
            a[i] = share >= 1 ? i % (rows + 1) == 0 : kl_test_uniform(seed);
        for (int c = 0; c < dim[k] && share < 1; c++) { /* Gram-Schmidt, twice */
            double *const x = a + (int64_t)c * rows;
            for (int pass = 0; pass < 2; pass++) {
                for (int b = 0; b < c; b++) {
                    const double f = core_dot(rows, a + (int64_t)b * rows, x);
                    for (int r = 0; r < rows; r++) x[r] -= f * a[(int64_t)b * rows + r];
                }
                const double norm = sqrt(core_dot(rows, x, x));
                for (int r = 0; r < rows; r++) x[r] /= norm;
            }
        }
    }
    free(sec);
    free(dim);
    return o;
}

static void open_blocks(blocks *b, const core_job *j, kl_qn target, int prune, double share, int dense,
                        uint64_t seed)
{
    kl_err err = {""};
    const kl_terms *const t = j->terms;
    *b = (blocks){.n = t->nsite};
    const int n = b->n;
    expect_ok(kl_mpo_create(t, &b->mpo, &err), err);
    for (int p = 0; p <= n; p++) {
        expect_ok(kl_reach_create(j->model, t->type, 0, p, 0, &b->lreach[p], &err), err);
        expect_ok(kl_reach_create(j->model, t->type, p, n, 0, &b->rreach[p], &err), err);
    }
    expect_ok(kl_block_create_edge(j->ex, b->mpo, KL_LEFT, kl_qn_zero(), &b->left[0], &err), err);
    expect_ok(kl_block_create_edge(j->ex, b->mpo, KL_RIGHT, kl_qn_zero(), &b->right[n], &err), err);
    b->lspace[0] = core_space_edge();
    b->rspace[n] = core_space_edge();
    for (int k = 0; k < 2 * (n - 2); k++) {
        const kl_side side = k < n - 2 ? KL_LEFT : KL_RIGHT;
        const int p = side == KL_LEFT ? k : n - 1 - (k - (n - 2)), from = side == KL_LEFT ? p : p + 1,
                  to = side == KL_LEFT ? p + 1 : p;
        kl_block **const blk = side == KL_LEFT ? b->left : b->right;
        core_space **const space = side == KL_LEFT ? b->lspace : b->rspace;
        filter f = {j->model, side == KL_LEFT ? &b->rreach[to] : &b->lreach[to], target};
        kl_enlarged *e = NULL;
        kl_bigop *g = NULL;
        expect_ok(kl_enlarged_create(j->model, &blk[from]->basis, t->type[p], prune ? completes : NULL, &f,
                                     &e, &err),
                  err);
        core_space *whole = core_space_enlarge(space[from], e, side);
        kl_isometry *o = isometry(&e, share, &seed);
        space[to] = core_space_truncate(whole, o);
        core_space_free(&whole);
        expect_ok(kl_bigop_create(blk[from], o->enlarged, p, &g, &err), err);
        if (dense) expect_ok(kl_bigop_make_dense(g, &err), err);
        kl_dptr data = core_upload(j->ex, o->ndata, o->data);
        expect_ok(kl_block_grow(j->ex, g, o, data, &blk[to], &err), err);
        j->ex->vt.release(j->ex, &data);
        kl_bigop_destroy(&g);
        kl_isometry_destroy(&o);
    }
}

static void close_blocks(blocks *b)
{
    for (int p = 0; p <= b->n; p++) {
        kl_block_destroy(&b->left[p]);
        kl_block_destroy(&b->right[p]);
        core_space_free(&b->lspace[p]);
        core_space_free(&b->rspace[p]);
        kl_reach_clear(&b->lreach[p]);
        kl_reach_clear(&b->rreach[p]);
    }
    kl_mpo_destroy(&b->mpo);
}

/* y = H x by the superblock, constant included. */
static void superblock_apply(const core_job *j, const kl_superblock *s, const double *x, double *y)
{
    kl_err err = {""};
    const int64_t n = s->layout.n;
    for (int64_t i = 0; i < n; i++) y[i] = NAN;
    kl_dptr dx = core_upload(j->ex, n, x), dy = core_upload(j->ex, n, y);
    expect_ok(s->op.apply(&s->op, 1, dx, n, dy, n, &err), err);
    core_download(j->ex, n, dy, y);
    j->ex->vt.release(j->ex, &dx);
    j->ex->vt.release(j->ex, &dy);
    for (int64_t i = 0; i < n; i++) y[i] += j->terms->constant * x[i];
}

enum { FORMS = 4 }; /* which of the two enlarged blocks is multiplied out */

static void check_cut(const core_job *j, const blocks *b, const core_full *full, kl_qn target, int c,
                      int prune, int form, uint64_t *seed)
{
    kl_err err = {""};
    kl_enlarged *row = NULL, *col = NULL;
    kl_bigop *l = NULL, *r = NULL;
    kl_superblock *s = NULL;
    filter fl = {j->model, &b->rreach[c + 1], target}, fr = {j->model, &b->lreach[c + 1], target};
    expect_ok(kl_enlarged_create(j->model, &b->left[c]->basis, j->terms->type[c], prune ? completes : NULL,
                                 &fl, &row, &err),
              err);
    expect_ok(kl_enlarged_create(j->model, &b->right[c + 2]->basis, j->terms->type[c + 1],
                                 prune ? completes : NULL, &fr, &col, &err),
              err);
    expect_ok(kl_bigop_create(b->left[c], row, c, &l, &err), err);
    expect_ok(kl_bigop_create(b->right[c + 2], col, c + 1, &r, &err), err);
    if (form & 1) expect_ok(kl_bigop_make_dense(l, &err), err);
    if (form & 2) expect_ok(kl_bigop_make_dense(r, &err), err);
    expect_ok(kl_superblock_create(j->ex, l, r, target, 0, &s, &err), err);
    core_space *rs = core_space_enlarge(b->lspace[c], row, KL_LEFT),
               *cs = core_space_enlarge(b->rspace[c + 2], col, KL_RIGHT);
    const int64_t n = s->layout.n, dim = rs->dim * cs->dim;
    expect_eq(dim, full->o->dim);
    const double allowed = 1e-13 * fmax(full->norm, 1e-300);
    double *const x = kl_test_guarded(n), *const y = kl_test_guarded(n), *const z = kl_test_guarded(n),
                  *const hz = kl_test_guarded(n), *const diag = kl_test_guarded(n),
                  *const fx = calloc((size_t)dim, sizeof *fx), *const fy = calloc((size_t)dim, sizeof *fy);
    for (int64_t i = 0; i < n; i++) x[i] = kl_test_uniform(seed), z[i] = kl_test_uniform(seed);
    const double nx = sqrt(core_dot(n, x, x)), nz = sqrt(core_dot(n, z, z));
    for (int64_t i = 0; i < n; i++) x[i] /= nx, z[i] /= nz;
    superblock_apply(j, s, x, y);
    core_expand(&s->layout, &row->basis, &col->basis, rs, cs, x, fx);
    if (n > 0) expect_near(core_dot(dim, fx, fx), 1.0, 1e-12); /* the bases are orthonormal */
    oracle_apply(full->s, fx, fy);
    core_project(&s->layout, &row->basis, &col->basis, rs, cs, fy, hz);
    double off = 0;
    for (int64_t i = 0; i < n; i++) off += (y[i] - hz[i]) * (y[i] - hz[i]);
    expect_near(sqrt(off), 0.0, allowed);
    superblock_apply(j, s, z, hz);
    expect_near(core_dot(n, z, y), core_dot(n, hz, x), 2 * allowed); /* <z|Hx> = <Hz|x> */
    core_download(j->ex, n, s->diagonal, diag);
    for (int k = 0; k < 12 && n > 0; k++) {
        const int64_t i = (int64_t)(kl_test_bits(seed) % (uint64_t)n);
        memset(z, 0, (size_t)n * sizeof *z);
        z[i] = 1;
        superblock_apply(j, s, z, hz);
        expect_near(diag[i] + j->terms->constant, hz[i], allowed);
    }
    kl_test_guards_hold(x, n), kl_test_guards_hold(y, n), kl_test_guards_hold(hz, n);
    kl_test_free(x), kl_test_free(y), kl_test_free(z), kl_test_free(hz), kl_test_free(diag);
    free(fx), free(fy);
    core_space_free(&rs), core_space_free(&cs);
    kl_superblock_destroy(&s);
    kl_bigop_destroy(&l), kl_bigop_destroy(&r);
    kl_enlarged_destroy(&row), kl_enlarged_destroy(&col);
}

/* All cuts for up to ntarget charges: the first, the last, the rest spread. share: see isometry(). */
static void check_job(const core_job *j, const core_full *full, int ntarget, double share, uint64_t seed)
{
    int nq;
    kl_qn *q = core_sectors(j, ntarget, &nq);
    for (int k = 0; k < nq; k++) {
        const int prune = k % 2 == 0;
        blocks b;
        kl_test_case("%s, target %d of %d, %s, share %g", j->name, k, nq, prune ? "pruned" : "all sectors",
                     share);
        open_blocks(&b, j, q[k], prune, share, (int)(seed % 2), seed + (uint64_t)k);
        for (int c = 0; c + 1 < b.n; c++)
            for (int form = 0; form < FORMS; form++) {
                kl_test_case("%s, target %d of %d, %s, share %g, centre %d, form %d", j->name, k, nq,
                             prune ? "pruned" : "all sectors", share, c, form);
                check_cut(j, &b, full, q[k], c, prune, form, &seed);
            }
        close_blocks(&b);
    }
    kl_free(&q);
}

static const char *const lattices[] = {"chain:2",    "chain:3",    "chain:5",      "chain:6",
                                       "ring:3",     "ring:4",     "ring:6",       "ladder:3x2",
                                       "ladder:2x2", "square:2x3", "cylinder:3x2", "cylinder:2x3",
                                       "torus:2x2",  "torus:3x3",  "torus:2x3",    NULL};

static void every_cut(const core_job *j, uint64_t seed)
{
    core_full full = core_full_open(j);
    check_job(j, &full, 2 + (int)(seed % 2), 1.0, kl_test_bits(&seed));
    check_job(j, &full, 1, 0.6, kl_test_bits(&seed));
    core_full_close(&full);
}

enum { MOST = KL_TEST_WATCHED ? 200 : 1300 }; /* states, so that all of H fits */

static void test_shipped_models(void **state)
{
    (void)state;
    core_every_lattice(kl_models_builtin, kl_models_nbuiltin, lattices, MOST, CORE_EVERY_ORDER, every_cut);
}

static void test_own_models(void **state)
{
    (void)state;
    core_every_lattice(core_models, core_nmodel, lattices, MOST, CORE_EVERY_ORDER, every_cut);
}

/* Larger ones, one sector each. */
static void test_larger(void **state)
{
    static const struct {
        const char *model, *lattice, *order;
    } cases[] = {{"hubbard", "square:2x3", "snake"},   {"hubbard", "torus:3x2", "column"},
                 {"strange", "ring:6", "0,3,1,5,2,4"}, {"tj", "square:4x2", "snake"},
                 {"free_spins", "ring:11", NULL},      {"longrange", "ring:12", "column"},
                 {"pairing", "cylinder:3x4", "snake"}, {"j1j2", "torus:3x4", "column"},
                 {"extended_hubbard", "ring:6", NULL}, {"kondo", "chain:4", NULL},
                 {"ising", "torus:4x3", "fiedler"},    {"majorana", "ring:10", "5,2,7,0,9,1,8,3,6,4"}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k += KL_TEST_WATCHED ? 5 : 1) {
        core_job j;
        core_open_random(&j, core_model(cases[k].model, NULL), cases[k].lattice, cases[k].order, 100 + k);
        core_full full = core_full_open(&j);
        check_job(&j, &full, 1, 1.0, k);
        check_job(&j, &full, 1, 0.3, k + 1);
        core_full_close(&full);
        core_close(&j);
    }
    core_no_memory();
}

/* A random product of 1 to 4 named operators that keeps the charges; the charge of the last one closes the
   sum. Returns the number, 0 for none. */
static int random_product(const core_job *j, uint64_t *seed, int distinct, int *pos, const char **name,
                          int *op)
{
    const int want = 1 + (int)(kl_test_bits(seed) % 4);
    kl_qn sum = kl_qn_zero();
    int odd = 0, n = 0;
    for (int tries = 0; tries < 400 && n < want; tries++) {
        const int p = (int)(kl_test_bits(seed) % (uint64_t)j->terms->nsite);
        const kl_site_type *const type = j->terms->type[p];
        const int o = (int)(kl_test_bits(seed) % (uint64_t)type->nop);
        int again = 0;
        for (int k = 0; k < n; k++) again |= pos[k] == p;
        if (!type->op[o].named || o == KL_OP_IDENTITY || (again && distinct)) continue;
        const kl_qn next = kl_qn_add(j->model, sum, kl_qn_of(j->model, type->op[o].shift));
        if (n == want - 1 && (kl_qn_cmp(next, kl_qn_zero()) || (odd ^ type->op[o].odd))) continue;
        sum = next;
        odd ^= type->op[o].odd;
        pos[n] = p, op[n] = o, name[n++] = type->op[o].name;
    }
    return n == want ? n : 0;
}

static void random_lists(const char *model, const char *variant, const char *lattice, int nterm, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        uint64_t seed = 977u * (uint64_t)round + strlen(model);
        kl_err err = {""};
        core_job j;
        core_open_random(&j, core_model(model, variant), lattice, NULL, kl_test_bits(&seed) % 1000);
        if (round % 2) { /* nothing but the random products */
            kl_terms_destroy(&j.terms);
            for (int p = 0; p < j.model->nparam; p++)
                if (strcmp(j.model->param[p].name, "alpha"))
                    expect_ok(kl_params_set(j.par, j.model->param[p].name, "0", 0, &err), err);
            expect_ok(kl_terms_create(j.model, j.lat, j.par, &j.terms, &err), err);
            expect_eq(j.terms->nterm, 0);
        }
        oracle *const o = oracle_create(j.model, j.lat, j.par);
        for (int t = 0; t < nterm; t++) {
            int pos[4], op[4];
            const char *name[4];
            kl_op_at at[4];
            const int n = random_product(&j, &seed, round % 3 != 0, pos, name, op);
            const double c = kl_test_uniform(&seed);
            for (int k = 0; k < n; k++) at[k] = (kl_op_at){.pos = pos[k], .op = op[k]};
            if (n == 0 || kl_terms_add(j.terms, c, n, at, 1, &err) != KL_OK)
                continue; /* a product on one site that the tables lack */
            oracle_add(o, c, n, pos, name, 1);
        }
        const size_t at = strlen(j.name);
        snprintf(j.name + at, sizeof j.name - at, ", random list %d", round);
        kl_test_case("%s", j.name);
        expect_ok(kl_terms_merge(j.terms, &err), err);
        core_full full = core_full_take(o);
        check_job(&j, &full, 2, round % 4 == 3 ? 0.5 : 1.0, seed);
        core_full_close(&full);
        core_close(&j);
    }
    core_no_memory();
}

static void test_random_lists(void **state)
{
    (void)state;
    random_lists("heisenberg", "S=1/2", "chain:7", 40, 12);
    random_lists("heisenberg", "S=1", "chain:5", 30, 8);
    random_lists("hubbard", "F=1/2", "chain:4", 60, 24);
    random_lists("hubbard", "F=1", "chain:3", 60, 8);
    random_lists("strange", NULL, "chain:4", 60, 24);
    random_lists("pairing", NULL, "chain:7", 60, 24);
    random_lists("ising", NULL, "chain:7", 60, 8);
    random_lists("tj", NULL, "chain:5", 60, 16);
    random_lists("kondo", "S=1/2", "chain:3", 60, 16);
    random_lists("majorana", NULL, "chain:7", 60, 24);
    random_lists("free_spins", NULL, "chain:6", 40, 8);
    random_lists("bose_hubbard", NULL, "chain:4", 40, 8);
}

/* The operators kept: numbers known from the theory, and none more. */
static void test_width(void **state)
{
    static const struct {
        const char *model, *lattice, *sets;
        int most;
    } cases[] = {
        {"heisenberg", "chain:20", NULL, 4}, /* 1, H, S+ (with S-), Sz */
        {"heisenberg", "chain:20", "Delta=0", 3},
        {"heisenberg", "chain:20", "J=0 h=1", 2},
        {"hubbard", "chain:20", NULL, 4}, /* 1, H, c_up, c_dn */
        {"hubbard", "chain:20", "t=0", 2},
        {"ising", "chain:20", NULL, 3},
        /* the bonds cut, at most: 5 legs and rungs and one that closes the ring */
        {"hubbard", "cylinder:4x4", NULL, 2 + 2 * 8},
        {"longrange", "chain:20", NULL, 2 + 2 * 10},
    };
    kl_err err = {""};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        core_job j;
        kl_mpo *m = NULL;
        core_open(&j, core_model(cases[k].model, NULL), cases[k].lattice, NULL, cases[k].sets);
        expect_ok(kl_mpo_create(j.terms, &m, &err), err);
        expect_true(m->nop_max <= cases[k].most);
        if (k < 6) expect_eq(m->nop_max, cases[k].most);
        kl_mpo_destroy(&m);
        core_close(&j);
    }
    core_no_memory();
}

static void test_no_memory(void **state)
{
    kl_err err = {""};
    core_job j;
    (void)state;
    core_open_random(&j, core_model("strange", NULL), "ring:4", NULL, 3);
    for (int64_t k = 1;; k++) {
        const int64_t before = kl_mem_live_total();
        kl_mpo *m = NULL;
        kl_mem_fail_after(k);
        const kl_status st = kl_mpo_create(j.terms, &m, &err);
        kl_mem_fail_after(0);
        kl_mpo_destroy(&m);
        expect_eq(kl_mem_live_total(), before);
        if (st == KL_OK) break;
        expect_eq(st, KL_ENOMEM);
    }
    core_close(&j);
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped_models), cmocka_unit_test(test_own_models),
        cmocka_unit_test(test_random_lists),   cmocka_unit_test(test_larger),
        cmocka_unit_test(test_width),          cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
