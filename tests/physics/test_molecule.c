/* Molecules by DMRG: term lists made from integrals against full configuration interaction, which shares
   neither signs nor states with them: several roots, irreps, restricted and unrestricted orbitals, any order
   of the orbitals and any rotation among them; what the threshold leaves out; wrong orders and sectors.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci_kit.h"
#include "core.h"
#include "chem/molecule.h"
#include "ci/ci.h"
#include "ci/cioperator.h"
#include "dmrg/opsums.h"
#include "dmrg/tensors.h"
#include "kl_test.h"

/* The lowest energies of an irrep by configuration interaction. */
static int by_ci(const kl_fcidump *f, int irrep, int nroot, double *energy, int *nalpha, int *nbeta)
{
    kl_err err;
    kl_ci_result r;
    kl_ci_opts o = {.irrep = irrep, .nroot = nroot, .tol = 1e-8, .seed = 1};
    kl_ci_plan plan;
    expect_ok(kl_ci_parse_space("full", &o, &err), err);
    expect_ok(kl_ci_make_plan(f, &o, &plan, &err), err);
    if (plan.ndet[irrep] < nroot) o.nroot = (int)plan.ndet[irrep];
    kl_ci_plan_clear(&plan);
    expect_ok(kl_ci_run(f, ex, &o, NULL, &r, &err), err);
    const int n = r.nstate;
    for (int i = 0; i < n; i++) energy[i] = r.state[i].energy;
    *nalpha = r.nalpha;
    *nbeta = r.nbeta;
    kl_ci_result_clear(&r);
    return n;
}

static kl_molecule *molecule_of(const kl_fcidump *f, const char *how, double threshold, int spin)
{
    kl_err err;
    kl_molecule *m = NULL;
    int order[64];
    expect_ok(kl_orbitals_order(f, NULL, how, NULL, order, &err), err);
    expect_ok(kl_molecule_create(f, order, threshold, spin, &m, &err), err);
    return m;
}

static kl_molecule *molecule(const kl_fcidump *f, const char *how, double threshold)
{
    return molecule_of(f, how, threshold, 0);
}

static void by_dmrg(const kl_molecule *m, kl_qn target, int nstate, uint64_t seed, const int *start,
                    double *energy)
{
    core_job j = {.model = &m->model, .terms = m->terms, .ex = ex};
    core_run r = core_exact(4096, target, nstate, KL_STRATEGY_AUTO);
    r.opts.seed = seed;
    r.opts.start = start;
    core_go(&j, &r);
    for (int i = 0; i < nstate; i++) energy[i] = r.res.energy[i];
    core_drop(&r);
}

/* All roots of an irrep by both, in an order of the orbitals. */
static void compare(const char *name, const kl_fcidump *f, const char *how, int irrep, int nroot)
{
    kl_err err;
    double want[8], have[8];
    int nalpha, nbeta;
    kl_qn target;
    const int n = by_ci(f, irrep, nroot, want, &nalpha, &nbeta);
    kl_molecule *m = molecule(f, how, 0);
    kl_test_case("%s irrep %d order %s", name, irrep + 1, how);
    expect_ok(kl_molecule_target(m, nalpha, nbeta, irrep, &target, &err), err);
    by_dmrg(m, target, n, 1, NULL, have);
    for (int i = 0; i < n; i++) expect_near(have[i], want[i], 1e-9);
    kl_molecule_destroy(&m);
}

/* ---------------------------------------------------------------- the total spin as a charge */

static int by_energy(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Number of configurations of an irrep that couple to S = spin / 2: of that Sz less those of the next. */
static int64_t ndet_of(const kl_fcidump *f, int nelec, int ms2, int irrep)
{
    kl_err err;
    kl_ci_opts o = {.irrep = irrep, .nelec = nelec, .have_ms2 = 1, .ms2 = ms2};
    kl_ci_plan plan;
    if (ms2 > nelec || (nelec + ms2) / 2 > f->norb) return 0;
    expect_ok(kl_ci_parse_space("full", &o, &err), err);
    expect_ok(kl_ci_make_plan(f, &o, &plan, &err), err);
    const int64_t n = plan.ndet[irrep];
    kl_ci_plan_clear(&plan);
    return n;
}

/* The lowest states of every S together are those that configuration interaction finds of the lowest Sz. */
static void compare_spins(const char *name, const kl_fcidump *f, const char *how, int irrep, int nroot)
{
    enum { MOST = 64 };
    double want[8], have[MOST];
    int nalpha, nbeta, nhave = 0;
    const int n = by_ci(f, irrep, nroot, want, &nalpha, &nbeta), nelec = nalpha + nbeta;
    kl_molecule *m = molecule_of(f, how, 0, 1);
    for (int spin = abs(nalpha - nbeta); spin <= nelec; spin += 2) {
        kl_err err;
        kl_qn target;
        const int64_t nstate = ndet_of(f, nelec, spin, irrep) - ndet_of(f, nelec, spin + 2, irrep);
        if (nstate == 0) continue;
        kl_test_case("%s irrep %d order %s 2S %d", name, irrep + 1, how, spin);
        expect_ok(kl_molecule_target(m, (nelec + spin) / 2, (nelec - spin) / 2, irrep, &target, &err), err);
        expect_eq(kl_molecule_irrep(m, target), irrep);
        by_dmrg(m, target, nstate < n ? (int)nstate : n, 1, NULL, have + nhave);
        nhave += nstate < n ? (int)nstate : n;
    }
    qsort(have, (size_t)nhave, sizeof *have, by_energy);
    expect_true(nhave >= n);
    for (int i = 0; i < n; i++) expect_near(have[i], want[i], 1e-9);
    kl_molecule_destroy(&m);
}

static void test_spins(void **state)
{
    (void)state;
    static const struct {
        const char *file, *order;
        int nroot;
    } list[] = {{"lih-sto3g.fcidump", "fiedler", 3},
                {"lih-sto3g.fcidump", "6,1,4,3,5,2", 2},
                {"h6-chain-sto6g.fcidump", "canonical", 3},
                {"hubbard-3x2.fcidump", "fiedler", 3}};
    const int count = (int)(sizeof list / sizeof *list), step = kl_test_stride(count, 3);
    for (int k = 0; k < count; k += step) {
        kl_fcidump *f = load(list[k].file);
        for (int irrep = 0; irrep < f->nirrep; irrep++)
            compare_spins(list[k].file, f, list[k].order, irrep, list[k].nroot);
        kl_fcidump_destroy(&f);
    }
}

/* What has no total spin, and the path of multiplets that a determinant begins with. */
static void test_spin_starts(void **state)
{
    (void)state;
    kl_err err;
    kl_fcidump *f = load("oh-uhf-sto3g.fcidump");
    int order[64];
    kl_molecule *m = NULL;
    kl_qn target;
    expect_ok(kl_orbitals_order(f, NULL, "canonical", NULL, order, &err), err);
    core_refused(kl_molecule_create(f, order, 0, 1, &m, &err), &err,
                 (const char *const[]){"unrestricted", "S", NULL});
    kl_fcidump_destroy(&f);
    f = load("lih-sto3g.fcidump");
    m = molecule_of(f, "canonical", 0, 1);
    core_refused(kl_molecule_target(m, 1, 3, 0, &target, &err), &err,
                 (const char *const[]){"1 up", "M = S", NULL});
    expect_eq(kl_model_spin(&m->model), m->model.ncharge - 1);
    const unsigned char up[] = {1, 1, 0, 1, 0, 0}, dn[] = {1, 0, 1, 0, 0, 0};
    int start[6], spin = 1;
    kl_molecule_start(m, up, dn, start); /* Sz = 1/2: 2 u d u 0 0 */
    for (int p = 0; p < 6; p++) spin += m->terms->type[p]->state_charge[start[p]][m->model.ncharge - 1];
    expect_eq(spin, 0);
    expect_eq(start[0], 3);
    expect_eq(start[1], 1); /* from 1/2 to 0, */
    expect_eq(start[2], 2); /* back, */
    expect_eq(start[3], 1); /* and to 0 again */
    kl_molecule_destroy(&m);
    kl_fcidump_destroy(&f);
}

static void test_files(void **state)
{
    (void)state;
    static const struct {
        const char *file, *order;
        int nroot;
    } list[] = {{"lih-sto3g.fcidump", "fiedler", 3},    {"lih-sto3g.fcidump", "6,1,4,3,5,2", 2},
                {"h2o-sto3g.fcidump", "fiedler", 2},    {"h6-chain-sto6g.fcidump", "canonical", 2},
                {"oh-uhf-sto3g.fcidump", "fiedler", 2}, {"oh-uhf-sto3g.fcidump", "2,6,1,3,5,4", 1},
                {"hubbard-3x2.fcidump", "fiedler", 2}};
    const int count = (int)(sizeof list / sizeof *list), step = kl_test_stride(count, 3);
    for (int k = 0; k < count; k += step) {
        kl_fcidump *f = load(list[k].file);
        for (int irrep = 0; irrep < f->nirrep; irrep++)
            compare(list[k].file, f, list[k].order, irrep, list[k].nroot);
        kl_fcidump_destroy(&f);
    }
}

/* ---------------------------------------------------------------- random integrals */

enum { N = 4 };

typedef struct integrals {
    double h[2][N][N], g[3][N][N][N][N]; /* aa, bb, ab */
} integrals;

/* With all symmetries that integrals over real orbitals have; restricted: one set for both spins. */
static void random_integrals(integrals *x, int unrestricted, uint64_t seed)
{
    for (int spin = 0; spin < 2; spin++)
        for (int p = 0; p < N; p++)
            for (int q = 0; q <= p; q++)
                x->h[spin][p][q] = x->h[spin][q][p] =
                    spin > 0 && !unrestricted ? x->h[0][p][q] : kl_random_uniform(&seed);
    for (int kind = 0; kind < 3; kind++)
        for (int p = 0; p < N; p++)
            for (int q = 0; q <= p; q++)
                for (int r = 0; r < N; r++)
                    for (int s = 0; s <= r; s++) {
                        if (kind < 2 && p * (p + 1) / 2 + q < r * (r + 1) / 2 + s) continue;
                        const double v =
                            kind > 0 && !unrestricted ? x->g[0][p][q][r][s] : kl_random_uniform(&seed);
                        for (int k = 0; k < 4; k++) {
                            const int a = k & 1 ? q : p, b = k & 1 ? p : q, c = k & 2 ? s : r,
                                      d = k & 2 ? r : s;
                            x->g[kind][a][b][c][d] = v;
                            if (kind < 2) x->g[kind][c][d][a][b] = v;
                        }
                    }
}

/* The same Hamiltonian in orbitals rotated by an angle in the plane of p and q. */
static void rotate(integrals *x, int p, int q, double angle)
{
    const double c = cos(angle), s = sin(angle);
    for (int spin = 0; spin < 2; spin++)
        for (int axis = 0; axis < 2; axis++)
            for (int i = 0; i < N; i++) {
                double *const a = axis ? &x->h[spin][i][p] : &x->h[spin][p][i], *const b =
                                                                                    axis ? &x->h[spin][i][q]
                                                                                         : &x->h[spin][q][i];
                const double u = *a, v = *b;
                *a = c * u - s * v;
                *b = s * u + c * v;
            }
    static const int stride[4] = {N * N * N, N * N, N, 1};
    for (int kind = 0; kind < 3; kind++)
        for (int axis = 0; axis < 4; axis++)
            for (int i = 0; i < N * N * N * N; i++) {
                if (i / stride[axis] % N != p) continue;
                double *const a = &x->g[kind][0][0][0][0] + i, *const b = a + (q - p) * stride[axis];
                const double u = *a, v = *b;
                *a = c * u - s * v;
                *b = s * u + c * v;
            }
}

static void put_pairs(FILE *to, const double g[N][N][N][N], int mixed)
{
    for (int p = 0; p < N; p++)
        for (int q = 0; q <= p; q++)
            for (int r = 0; r < N; r++)
                for (int s = 0; s <= r; s++)
                    if (mixed || kl_pair(p, q) >= kl_pair(r, s))
                        fprintf(to, "%.17g %d %d %d %d\n", g[p][q][r][s], p + 1, q + 1, r + 1, s + 1);
}

static void put_single(FILE *to, const double h[N][N])
{
    for (int p = 0; p < N; p++)
        for (int q = 0; q <= p; q++) fprintf(to, "%.17g %d %d 0 0\n", h[p][q], p + 1, q + 1);
}

static kl_fcidump *write_and_read(const integrals *x, int unrestricted, int nelec, int ms2)
{
    kl_err err;
    kl_fcidump *f = NULL;
    FILE *const file = tmpfile();
    assert_non_null(file);
    fprintf(file, "&FCI NORB=%d, NELEC=%d, MS2=%d,%s\n&END\n", N, nelec, ms2, unrestricted ? " IUHF=1," : "");
    for (int kind = 0; kind < (unrestricted ? 3 : 1); kind++) {
        put_pairs(file, x->g[kind], kind == 2);
        if (unrestricted) fprintf(file, "0 0 0 0 0\n");
    }
    for (int spin = 0; spin < (unrestricted ? 2 : 1); spin++) {
        put_single(file, x->h[spin]);
        if (unrestricted) fprintf(file, "0 0 0 0 0\n");
    }
    fprintf(file, "0.75 0 0 0 0\n");
    rewind(file);
    expect_ok(kl_fcidump_read_stream(file, "random", &f, &err), err);
    fclose(file);
    return f;
}

static void test_random(void **state)
{
    (void)state;
    static const struct {
        int nelec, ms2;
    } list[] = {{1, 1}, {3, 1}, {4, 0}, {4, -2}, {5, 3}, {7, -1}, {8, 0}};
    static const char *const order[] = {"fiedler", "canonical", "3,1,4,2", "4,2,3,1"};
    const int rounds = kl_test_rounds(14);
    for (int k = 0; k < rounds; k++) {
        integrals x;
        const int unrestricted = k & 1, at = k / 2 % 7;
        random_integrals(&x, unrestricted, (uint64_t)k + 1);
        kl_fcidump *f = write_and_read(&x, unrestricted, list[at].nelec, list[at].ms2);
        compare("random", f, order[k % 4], 0, 3);
        if (!unrestricted && list[at].ms2 >= 0) compare_spins("random", f, order[k % 4], 0, 4);
        double before[8], after[8];
        int na, nb;
        const int n = by_ci(f, 0, 2, before, &na, &nb);
        kl_fcidump_destroy(&f);
        rotate(&x, 0, 2, 0.7);
        rotate(&x, 1, 3, -1.1);
        f = write_and_read(&x, unrestricted, list[at].nelec, list[at].ms2);
        kl_molecule *m = molecule(f, "fiedler", 0);
        kl_err err;
        kl_qn target;
        expect_ok(kl_molecule_target(m, na, nb, 0, &target, &err), err);
        by_dmrg(m, target, n, 2, NULL, after);
        for (int i = 0; i < n; i++) expect_near(after[i], before[i], 1e-9);
        kl_molecule_destroy(&m);
        kl_fcidump_destroy(&f);
    }
}

/* ---------------------------------------------------------------- starts, thresholds, limits */

/* From the determinant of the file and from nothing, by several seeds: never stuck. */
static void test_starts(void **state)
{
    (void)state;
    kl_err err;
    kl_fcidump *f = load("n2-sto3g.fcidump");
    kl_molecule *m = molecule(f, "fiedler", 0);
    unsigned char occ[64] = {0};
    int start[64];
    kl_qn target;
    for (int p = 0; p < f->nelec / 2; p++) occ[p] = 1;
    expect_eq(kl_molecule_start(m, occ, occ, start), 0);
    expect_ok(kl_molecule_target(m, f->nelec / 2, f->nelec / 2, 0, &target, &err), err);
    const int rounds = kl_test_rounds(4);
    for (int k = 0; k < rounds; k++) {
        core_job j = {.model = &m->model, .terms = m->terms, .ex = ex};
        core_run r = core_auto(1e-10, target, 1, KL_STRATEGY_AUTO);
        kl_test_case("n2-sto3g seed %d", k + 1);
        r.opts.seed = (uint64_t)k + 1;
        r.opts.start = k % 2 ? NULL : start;
        core_go(&j, &r);
        expect_near(r.res.energy[0], -107.65282873057855, 1e-7);
        expect_eq(r.res.stop, KL_STOP_CONVERGED);
        core_drop(&r);
    }
    kl_molecule_destroy(&m);
    kl_fcidump_destroy(&f);
}

/* The reference of as many up as down electrons has closed shells, though an open one may lie lower. */
static void test_closed_shells(void **state)
{
    (void)state;
    kl_err err;
    int opened = 0;
    for (int seed = 1; seed <= 20; seed++) {
        integrals x;
        random_integrals(&x, seed & 1, (uint64_t)seed);
        kl_fcidump *f = write_and_read(&x, seed & 1, 4, 0);
        for (int closed = 0; closed < 2; closed++) {
            kl_ciorbitals l;
            kl_ci_opts o = ask("full", 1);
            o.lowest = 1;
            o.closed = closed;
            expect_ok(kl_ciorbitals_make(f, &o, &l, &err), err);
            const int differ = memcmp(l.occ, l.occ + N, N) != 0;
            kl_test_case("seed %d closed %d", seed, closed);
            if (closed) expect_eq(differ, 0);
            else opened += differ;
            kl_ciorbitals_clear(&l);
        }
        kl_fcidump_destroy(&f);
    }
    expect_true(opened > 0);
}

/* Irreps stay together, two that exchange most side by side; each orbital occurs once. */
static void test_order_by_irreps(void **state)
{
    (void)state;
    static const char *const files[] = {"n2-sto3g.fcidump", "o2-triplet-sto3g.fcidump", "lih-sto3g.fcidump"};
    for (int k = 0; k < 3; k++) {
        kl_err err;
        kl_fcidump *f = load(files[k]);
        int order[64], seen[64] = {0}, changes = 0;
        expect_ok(kl_orbitals_order(f, NULL, "fiedler", NULL, order, &err), err);
        for (int p = 0; p < f->norb; p++) seen[order[p]]++;
        for (int p = 0; p < f->norb; p++) expect_eq(seen[p], 1);
        /* of N2 and O2 by axes: sigma with sigma*, pi_x with pi_x*, pi_y with pi_y* */
        for (int p = 1; p < f->norb; p++) {
            const int a = f->irrep[order[p - 1]], b = f->irrep[order[p]];
            changes += k < 2 ? a % 4 != b % 4 : a != b;
        }
        kl_test_case("%s", files[k]);
        expect_true(k < 2 ? changes == 2 : changes < f->norb - 1);
        kl_fcidump_destroy(&f);
    }
}

/* Orbitals that know of each other along a chain stand along that chain; what knows of none goes by the
   exchange. */
static void test_order_by_information(void **state)
{
    (void)state;
    enum { CHAIN = 10 };
    static const int chain[CHAIN] = {4, 9, 1, 7, 3, 2, 6, 8, 5, 0};
    kl_err err;
    double mutual[CHAIN * CHAIN] = {0};
    int order[CHAIN], plain[CHAIN];
    kl_fcidump *f = load("h10-chain-sto6g.fcidump");
    expect_eq(f->norb, CHAIN);
    for (int p = 0; p < CHAIN; p++) f->irrep[p] = 0;
    for (int k = 1; k < CHAIN; k++)
        mutual[chain[k] * CHAIN + chain[k - 1]] = mutual[chain[k - 1] * CHAIN + chain[k]] = 0.3;
    expect_ok(kl_orbitals_order(f, NULL, "mutual", mutual, order, &err), err);
    for (int k = 0; k < CHAIN; k++)
        expect_eq(order[k], order[0] == chain[0] ? chain[k] : chain[CHAIN - 1 - k]);
    memset(mutual, 0, sizeof mutual);
    expect_ok(kl_orbitals_order(f, NULL, "fiedler", NULL, plain, &err), err);
    expect_ok(kl_orbitals_order(f, NULL, "mutual", mutual, order, &err), err);
    expect_true(memcmp(order, plain, sizeof plain) == 0);
    kl_fcidump_destroy(&f);
}

/* What is left out changes no energy by more than is told. */
static void test_threshold(void **state)
{
    (void)state;
    kl_err err;
    static const double threshold[] = {1e-6, 1e-3, 2e-2};
    kl_fcidump *f = load("lih-sto3g.fcidump");
    kl_molecule *m = molecule(f, "fiedler", 0);
    kl_qn target;
    double all, some;
    int64_t nterm = m->terms->nterm;
    expect_ok(kl_molecule_target(m, 2, 2, 0, &target, &err), err);
    by_dmrg(m, target, 1, 1, NULL, &all);
    expect_eq(m->ndropped, 0);
    kl_molecule_destroy(&m);
    for (int k = 0; k < 3; k++) {
        kl_test_case("threshold %g", threshold[k]);
        m = molecule(f, "fiedler", threshold[k]);
        by_dmrg(m, target, 1, 1, NULL, &some);
        expect_true(fabs(some - all) <= m->dropped + 1e-10);
        expect_true(m->terms->nterm <= nterm);
        if (k > 0) expect_true(m->ndropped > 0 && m->dropped > 0);
        nterm = m->terms->nterm;
        kl_molecule_destroy(&m);
    }
    kl_fcidump_destroy(&f);
}

static void test_refused(void **state)
{
    (void)state;
    kl_err err;
    kl_fcidump *f = load("lih-sto3g.fcidump");
    int order[64];
    kl_molecule *m = NULL;
    kl_qn target;
    core_refused(kl_orbitals_order(f, NULL, "1,2,3,4,5,7", NULL, order, &err), &err,
                 (const char *const[]){"'7'", "place 6", "1 to 6", NULL});
    core_refused(kl_orbitals_order(f, NULL, "1,2,2,4,5,6", NULL, order, &err), &err,
                 (const char *const[]){"orbital 2", "twice", NULL});
    core_refused(kl_orbitals_order(f, NULL, "1,2,3", NULL, order, &err), &err,
                 (const char *const[]){"3 orbitals", "has 6", NULL});
    core_refused(kl_orbitals_order(f, NULL, "snail", NULL, order, &err), &err,
                 (const char *const[]){"'snail'", "fiedler", "canonical", NULL});
    expect_ok(kl_orbitals_order(f, NULL, "canonical", NULL, order, &err), err);
    core_refused(kl_molecule_create(f, order, -1, 0, &m, &err), &err,
                 (const char *const[]){"threshold", "-1", NULL});
    m = molecule(f, "canonical", 0);
    core_refused(kl_molecule_target(m, 7, 2, 0, &target, &err), &err,
                 (const char *const[]){"7 up", "6 orbitals", NULL});
    core_refused(kl_molecule_target(m, 2, 2, 4, &target, &err), &err,
                 (const char *const[]){"irrep 5", "1 to 4", NULL});
    kl_molecule_destroy(&m);
    const int64_t before = kl_mem_live_total();
    for (int64_t k = 1;; k += k < 20 ? 1 : 7) {
        kl_mem_fail_after(k);
        const kl_status st = kl_molecule_create(f, order, 0, 0, &m, &err);
        kl_mem_fail_after(0);
        kl_molecule_destroy(&m);
        expect_eq(kl_mem_live_total(), before);
        if (st == KL_OK) break;
        expect_eq(st, KL_ENOMEM);
    }
    kl_fcidump_destroy(&f);
}

/* <s| H |f> of the tensors of a Hamiltonian, s and f by position. */
static double element(const kl_tensors *t, const int *s, const int *f)
{
    double row[400] = {1}, next[400];
    for (int p = 0; p < t->nsite; p++) {
        const kl_basis *const left = &t->bond[p], *const right = &t->bond[p + 1];
        int l0 = 0;
        memset(next, 0, sizeof next);
        for (int64_t i = 0, at = -1; i < t->site[p].nblock; i++) {
            const kl_tensor_block *const b = &t->site[p].block[i];
            for (; at < b->left; at++) l0 = at < 0 ? 0 : l0 + left->dim[at];
            if (b->state != s[p] || b->from != f[p]) continue;
            int r0 = 0;
            for (int k = 0; k < b->right; k++) r0 += right->dim[k];
            for (int l = 0; l < left->dim[b->left]; l++)
                for (int r = 0; r < right->dim[b->right]; r++)
                    next[r0 + r] += row[l0 + l] * t->site[p].data[b->at + l * right->dim[b->right] + r];
        }
        memcpy(row, next, sizeof row);
    }
    return row[0];
}

/* H between determinants, with its signs: terms of DMRG as tensors, against products of configuration
   interaction. */
static void compare_elements(const char *file, int irrep)
{
    kl_err err;
    kl_fcidump *f = load(file);
    kl_molecule *m = molecule(f, "canonical", 0);
    kl_tensors *t = NULL;
    kl_ci_operator *op = NULL;
    kl_ci_opts o = ask("full", 1);
    int to[64], from[64], sign[2];
    o.irrep = irrep;
    expect_ok(kl_tensors_of_terms(m->terms, &t, &err), err);
    expect_ok(kl_ci_operator_create(f, ex, &o, &op, &err), err);
    const kl_linop *const h = &op->sector.op;
    double *const x = calloc((size_t)(2 * h->n), sizeof *x), *const y = x + h->n, worst = 0, largest = 0;
    kl_dptr dx = {0}, dy = {0};
    expect_ok(ex->vt.alloc(ex, h->n, &dx, &err), err);
    expect_ok(ex->vt.alloc(ex, h->n, &dy, &err), err);
    for (int64_t j = 0; j < h->n; j += 1 + h->n / 4) {
        memset(x, 0, (size_t)h->n * sizeof *x);
        x[j] = 1;
        expect_ok(ex->vt.upload(ex, dx, x, h->n, &err), err);
        expect_ok(h->apply(h, 1, dx, h->n, dy, h->n, &err), err);
        expect_ok(ex->vt.download(ex, y, dy, h->n, &err), err);
        kl_ci_operator_at(op, j, from, &sign[0]);
        expect_eq(kl_ci_operator_find(op, from), j);
        for (int64_t i = 0; i < h->n; i++) {
            kl_ci_operator_at(op, i, to, &sign[1]);
            const double want = op->unit * sign[0] * sign[1] * y[i];
            worst = fmax(worst, fabs(element(t, to, from) - want));
            if (i != j) largest = fmax(largest, fabs(want));
        }
    }
    expect_true(largest > 1e-3);
    expect_near(worst, 0, 1e-11);
    ex->vt.release(ex, &dx);
    ex->vt.release(ex, &dy);
    free(x);
    kl_ci_operator_destroy(&op);
    kl_tensors_destroy(&t);
    kl_molecule_destroy(&m);
    kl_fcidump_destroy(&f);
}

static void test_elements(void **state)
{
    (void)state;
    compare_elements("lih-sto3g.fcidump", 0);
    compare_elements("h6-chain-sto6g.fcidump", 0);
    compare_elements("oh-uhf-sto3g.fcidump", 0);
}

/* What a growth record and an element of its site operator add to a grown operator. */
typedef struct growth {
    int s, t, in, dag; /* in: -1, the identity */
    double coef;
} growth;

static int by_growth(const void *pa, const void *pb)
{
    const growth *const a = pa, *const b = pb;
    const int order[4] = {a->s - b->s, a->t - b->t, a->in - b->in, a->dag - b->dag};
    for (int i = 0; i < 4; i++)
        if (order[i] != 0) return order[i];
    return 0;
}

/* Sorted, those alike summed, zeros left out. */
static int merge(growth *list, int n)
{
    int out = 0;
    qsort(list, (size_t)n, sizeof *list, by_growth);
    for (int i = 0; i < n; i++)
        if (out > 0 && by_growth(&list[out - 1], &list[i]) == 0) list[out - 1].coef += list[i].coef;
        else {
            if (out > 0 && fabs(list[out - 1].coef) < 1e-14) out--;
            list[out++] = list[i];
        }
    return out > 0 && fabs(list[out - 1].coef) < 1e-14 ? out - 1 : out;
}

enum { GROWTHS = 1 << 16 };

static int identity_of(const kl_mpo *m, int left, int cut, int b)
{
    return left ? m->op[cut][b].left_identity : m->op[cut][b].right_identity;
}

static growth growth_of(const kl_mpo *m, int left, int pos, const kl_grow *w, int elem)
{
    const kl_elem *const e = &m->type[pos]->op[w->op].elem[elem];
    const int in = identity_of(m, left, left ? pos : pos + 1, w->in) ? -1 : w->in;
    return (growth){e->col, e->row, in, in < 0 ? 0 : w->dag, w->coef * e->value};
}

static int growths_of_records(const kl_mpo *m, int left, int pos, int b, growth *list)
{
    const kl_grow_list *const records = &(left ? m->left[pos] : m->right[pos])[b];
    int n = 0;
    for (int64_t r = records->first; r < records->first + records->n; r++)
        for (int k = 0; k < m->type[pos]->op[m->grow[r].op].nelem; k++)
            list[n++] = growth_of(m, left, pos, &m->grow[r], k);
    return merge(list, n);
}

static int growths_of_sums(const kl_mpo *m, const kl_opsums *s, int left, int pos, int b, growth *list)
{
    kl_err err;
    kl_kinds kinds;
    int n = 0;
    expect_ok(kl_kinds_create(m, left, left ? pos : pos + 1, &kinds, &err), err);
    for (int64_t r = s->first_rest[b]; r < s->first_rest[b + 1]; r++)
        list[n++] = growth_of(m, left, pos, &m->grow[s->rest[r].grow], s->rest[r].elem);
    for (int64_t k = s->first_of[b]; k < s->first_of[b + 1]; k++) {
        const kl_sum_place *const p = &s->place[s->place_of[k]];
        const int own = s->out_of[k];
        expect_eq(s->out[p->out + own], b);
        for (int64_t i = p->one; i < p->one + p->none; i++)
            if (s->one[i].out == own) list[n++] = (growth){p->s, p->t, -1, 0, s->one[i].coef};
        for (int64_t i = p->term; i < p->term + p->nterm; i++) {
            const kl_sum_term *const t = &s->term[i];
            int at = 0;
            while (kinds.order[at] != t->in) at++;
            for (int j = 0; j < t->nin; j++)
                list[n++] =
                    (growth){p->s, p->t, kinds.order[at + j], t->dag, s->w[t->w + j + (int64_t)own * t->nin]};
        }
    }
    kl_kinds_clear(&kinds);
    return merge(list, n);
}

/* Places and what is left are all growth records, and most of these are in places. */
static void check_sums(const kl_terms *terms, double least)
{
    kl_err err;
    kl_mpo *m = NULL;
    growth *const have = malloc(2 * GROWTHS * sizeof *have), *const want = have + GROWTHS;
    int64_t rest = 0, all = 0;
    expect_ok(kl_mpo_create(terms, &m, &err), err);
    for (int side = 0; side < 2; side++)
        for (int pos = 0; pos < m->nsite; pos++) {
            const kl_opsums *const s = side ? &m->left_sums[pos] : &m->right_sums[pos];
            const int nop = m->nop[side ? pos + 1 : pos];
            for (int b = 0; b < nop; b++) {
                const int n = growths_of_records(m, side, pos, b, want);
                assert_int_equal(growths_of_sums(m, s, side, pos, b, have), n);
                for (int i = 0; i < n; i++) {
                    expect_true(by_growth(&have[i], &want[i]) == 0);
                    expect_near(have[i].coef, want[i].coef, 1e-13);
                }
                all += n;
            }
            rest += s->first_rest[nop];
        }
    expect_true((double)rest <= (1 - least) * (double)all);
    kl_mpo_destroy(&m);
    free(have);
}

static void test_sums(void **state)
{
    (void)state;
    kl_fcidump *f = load("n2-sto3g.fcidump");
    for (int spin = 0; spin < 2; spin++) {
        kl_molecule *m = molecule_of(f, "fiedler", 0, spin);
        check_sums(m->terms, 0.3);
        kl_molecule_destroy(&m);
    }
    kl_fcidump_destroy(&f);
    f = load("oh-uhf-sto3g.fcidump");
    kl_molecule *m = molecule(f, "canonical", 0);
    check_sums(m->terms, 0);
    kl_molecule_destroy(&m);
    kl_fcidump_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files),
                                       cmocka_unit_test(test_spins),
                                       cmocka_unit_test(test_spin_starts),
                                       cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_starts),
                                       cmocka_unit_test(test_threshold),
                                       cmocka_unit_test(test_closed_shells),
                                       cmocka_unit_test(test_order_by_irreps),
                                       cmocka_unit_test(test_order_by_information),
                                       cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_elements),
                                       cmocka_unit_test(test_sums)};
    return cmocka_run_group_tests(tests, open_exec, close_exec);
}
