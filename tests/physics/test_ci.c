/* Configuration interaction against what is known and against an oracle that shares no code with it: the
   oracle reads the file itself, writes H in second quantization over interleaved spin orbitals with signs of
   its own, and diagonalizes it by LAPACK.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci_kit.h"
#include "kl_test.h"
#include <unistd.h>
#include <lapack.h>

#include "ci/ci.h"
#include "ci/cisector.h"
#include "io/cifile.h"
#include "base/dense.h"
#include "base/mem.h"
#include "io/checked.h"
#include "ci/slater.h"
#include "exec/spmv.h"

/* ---------------------------------------------------------------- the oracle */

typedef struct oracle {
    int n, nelec, unrestricted;    /* orbitals; spin orbital of (p, spin) is 2 p + spin */
    double core, h[2][16][16], g[3][16][16][16][16]; /* g[0] aa, [1] bb, [2] ab */
} oracle;

static oracle *oracle_read(const char *file)
{
    oracle *const o = calloc(1, sizeof(*o));
    FILE *from = fopen(kl_test_data(file), "rb");
    char line[512];
    int part = 0, ms2;
    assert_non_null(from);
    while (fgets(line, sizeof(line), from) != NULL && strstr(line, "&END") == NULL) {
        const char *at;
        if ((at = strstr(line, "NORB=")) != NULL)
            sscanf(at, "NORB=%d,NELEC=%d,MS2=%d", &o->n, &o->nelec, &ms2);
        if (strstr(line, "IUHF=1") != NULL) o->unrestricted = 1;
    }
    while (fgets(line, sizeof(line), from) != NULL) {
        double x;
        int i, j, k, l;
        if (sscanf(line, "%lf %d %d %d %d", &x, &i, &j, &k, &l) != 5) continue;
        if (i == 0) {
            if (o->unrestricted && part < 5) part++;
            else o->core = x;
            continue;
        }
        const int spin = o->unrestricted && part == 4;
        if (k == 0) {
            o->h[spin][i - 1][j - 1] = o->h[spin][j - 1][i - 1] = x;
            if (!o->unrestricted) o->h[1][i - 1][j - 1] = o->h[1][j - 1][i - 1] = x;
            continue;
        }
        for (int kind = 0; kind < 3; kind++) {
            if (o->unrestricted && kind != part) continue;
            for (int swap = 0; swap < 8; swap++) {
                int a = i - 1, b = j - 1, c = k - 1, d = l - 1, t;
                if (swap & 1) t = a, a = b, b = t;
                if (swap & 2) t = c, c = d, d = t;
                if (swap & 4) {
                    if (kind == 2 && o->unrestricted) continue;
                    t = a, a = c, c = t;
                    t = b, b = d, d = t;
                }
                o->g[kind][a][b][c][d] = x;
            }
        }
    }
    fclose(from);
    return o;
}

/* Operators on a word of occupied spin orbitals: the sign counts those below. 0: the result vanishes. */
static int annihilate(uint32_t *w, int p)
{
    if (!(*w >> p & 1)) return 0;
    int sign = 1;
    for (int q = 0; q < p; q++)
        if (*w >> q & 1) sign = -sign;
    *w &= ~(UINT32_C(1) << p);
    return sign;
}

static int create(uint32_t *w, int p)
{
    if (*w >> p & 1) return 0;
    int sign = 1;
    for (int q = 0; q < p; q++)
        if (*w >> q & 1) sign = -sign;
    *w |= UINT32_C(1) << p;
    return sign;
}

/* Lowest eigenvalues in the determinants with na and nb electrons that the mask of levels lets through.
   Returns the dimension. */
static int oracle_solve(const oracle *o, int na, int nb, uint64_t levels, uint32_t reference, double *lowest,
                        int nlowest)
{
    int dim = 0;
    const int nspin = 2 * o->n;
    int *const index = malloc(sizeof(int) << nspin);
    uint32_t *const word = malloc(sizeof(uint32_t) << nspin);
    for (uint32_t w = 0; w < UINT32_C(1) << nspin; w++) {
        index[w] = -1;
        if (__builtin_popcount(w & 0x55555555u) != na || __builtin_popcount(w & 0xaaaaaaaau) != nb) continue;
        if (!(levels >> __builtin_popcount(w & ~reference) & 1)) continue;
        word[dim] = w;
        index[w] = dim++;
    }
    double *const h = calloc((size_t)dim * (size_t)dim, sizeof(double)), *const e = calloc((size_t)dim + 1,
                                                                                           sizeof(double));
    for (int k = 0; k < dim; k++) {
        h[k + (int64_t)k * dim] += o->core;
        for (int q = 0; q < nspin; q++) {
            uint32_t w1 = word[k];
            const int s1 = annihilate(&w1, q);
            if (s1 == 0) continue;
            for (int p = q % 2; p < nspin; p += 2) {
                uint32_t w = w1;
                const int s = create(&w, p);
                if (s != 0 && index[w] >= 0)
                    h[index[w] + (int64_t)k * dim] += s * s1 * o->h[q % 2][p / 2][q / 2];
            }
            for (int t = 0; t < nspin; t++) { /* 1/2 (pq|rt) c+_p c+_r c_t c_q */
                uint32_t w2 = w1;
                const int s2 = annihilate(&w2, t);
                if (s2 == 0) continue;
                for (int r = t % 2; r < nspin; r += 2) {
                    uint32_t w3 = w2;
                    const int s3 = create(&w3, r);
                    if (s3 == 0) continue;
                    for (int p = q % 2; p < nspin; p += 2) {
                        uint32_t w = w3;
                        const int s4 = create(&w, p);
                        if (s4 == 0 || index[w] < 0) continue;
                        const double g = q % 2 == 0 ? (t % 2 == 0 ? o->g[0][p / 2][q / 2][r / 2][t / 2]
                                                                  : o->g[2][p / 2][q / 2][r / 2][t / 2])
                                                    : (t % 2 == 0 ? o->g[2][r / 2][t / 2][p / 2][q / 2]
                                                                  : o->g[1][p / 2][q / 2][r / 2][t / 2]);
                        h[index[w] + (int64_t)k * dim] += 0.5 * s1 * s2 * s3 * s4 * g;
                    }
                }
            }
        }
    }
    const int work_size = 64 * dim + 64;
    int info = 0;
    double *const work = malloc((size_t)work_size * sizeof(double));
    LAPACK_dsyev("N", "L", &dim, h, &dim, e, work, &work_size, &info);
    expect_eq(info, 0);
    for (int k = 0; k < nlowest; k++) lowest[k] = k < dim ? e[k] : NAN;
    free(work);
    free(h);
    free(e);
    free(word);
    free(index);
    return dim;
}

/* ---------------------------------------------------------------- energies.json */

/* The numbers behind "key": in one object, a list or a single one; returns how many. */
static int numbers(const char *object, const char *key, int most, double *out)
{
    char quoted[64];
    snprintf(quoted, sizeof(quoted), "\"%s\"", key);
    const char *p = strstr(object, quoted), *end = strchr(object, '}');
    if (p == NULL || p > end) return 0;
    p = strchr(p, ':') + 1;
    int n = 0;
    while (*p == ' ' || *p == '[' || *p == '\n') p++;
    while (n < most) {
        char *after;
        out[n] = strtod(p, &after);
        if (after == p) break;
        n++;
        p = after;
        while (*p == ',' || *p == ' ' || *p == '\n') p++;
        if (*p == ']' || *p == '}' || *p == '"') break;
    }
    return n;
}

static void test_known_energies(void **state)
{
    (void)state;
    static char text[16384];
    FILE *from = fopen(kl_test_data("energies.json"), "rb");
    assert_non_null(from);
    text[fread(text, 1, sizeof(text) - 1, from)] = '\0';
    fclose(from);
    int nfile = 0;
    for (char *p = strchr(text, '{'); p != NULL; p = strchr(p + 1, '{')) {
        char file[128];
        double scf = 0, fci[8], s2[8], cisd, alpha, ndet;
        kl_err err;
        kl_ci_result r;
        assert_int_equal(sscanf(strstr(p, "\"file\""), "\"file\": \"%127[^\"]\"", file), 1);
        const int nfci = numbers(p, "fci", 8, fci), ns2 = numbers(p, "s2", 8, s2);
        assert_int_equal(numbers(p, "scf", 1, &scf), 1);
        numbers(p, "alpha", 1, &alpha);
        numbers(p, "determinants", 1, &ndet);
        kl_fcidump *f = load(file);
        nfile++;
        kl_test_case("%s full", file);
        kl_ci_opts o = ask("full", nfci);
        o.density = f->unrestricted;
        expect_ok(kl_ci_run(f, ex, &o, NULL, &r, &err), err);
        if (f->unrestricted) { /* occupations by spin; the two sets of orbitals have no common density */
            double sum[2] = {0, 0};
            expect_true(r.state[0].natural == NULL);
            for (int k = 0; k < 2 * r.norb; k++) {
                const double x = r.state[0].natural_spin[k % 2][k / 2];
                expect_true(x > -1e-12 && x < 1 + 1e-12);
                sum[k % 2] += x;
            }
            expect_near(sum[0], r.nalpha, 1e-12);
            expect_near(sum[1], r.nbeta, 1e-12);
        }
        expect_eq(r.nstate, nfci);
        expect_eq(r.nalpha, (int)alpha);
        expect_near(r.reference_energy, scf, 1e-9);
        int64_t all = 0;
        for (int g = 0; g < r.nirrep; g++) all += r.block[g].ndet;
        expect_eq(all, (int64_t)ndet);
        for (int k = 0; k < nfci; k++) {
            expect_near(r.state[k].energy, fci[k], 1e-9);
            if (k < ns2) expect_near(r.state[k].s2, s2[k], 1e-6);
            else expect_true(f->unrestricted && isnan(r.state[k].s2));
        }
        kl_ci_result_clear(&r);
        if (numbers(p, "cisd", 1, &cisd) == 1) {
            kl_test_case("%s cisd", file);
            o = ask("cisd", 1);
            expect_ok(kl_ci_run(f, ex, &o, NULL, &r, &err), err);
            expect_near(r.state[0].energy, cisd, 1e-9);
            kl_ci_result_clear(&r);
        }
        kl_fcidump_destroy(&f);
    }
    expect_eq(nfile, 7);
}

/* An unfinished run as version 0.1.0 wrote it: start vectors by irrep, and nothing else. */
static void check_old_checkpoint(const char *path, const kl_ci_record *record)
{
    kl_err err;
    kl_ci_record back;
    int nvec;
    double v[12], w[12];
    for (int k = 0; k < 12; k++) v[k] = k + 0.25;
    expect_ok(kl_cifile_write(path, record, NULL, &err), err);
    const hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT),
                group = H5Gcreate2(file, "vectors", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                space = H5Screate_simple(2, (const hsize_t[]){3, 4}, NULL),
                set = H5Dcreate2(group, "3", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
    H5Dclose(set);
    H5Sclose(space);
    H5Gclose(group);
    H5Fclose(file);
    expect_ok(kl_checked_renew(path, &err), err);
    expect_ok(kl_cifile_read(path, &back, &err), err);
    expect_true(!back.finished && !back.has_run);
    kl_cifile_clear(&back);
    expect_ok(kl_cifile_vectors(path, 2, 16, 4, &nvec, w, &err), err);
    expect_true(nvec == 3 && memcmp(v, w, sizeof v) == 0);
    expect_ok(kl_cifile_vectors(path, 2, 2, 4, &nvec, w, &err), err);
    expect_eq(nvec, 2);
    expect_ok(kl_cifile_vectors(path, 0, 16, 4, &nvec, w, &err), err);
    expect_eq(nvec, 0);
    expect_refused(kl_cifile_vectors(path, 2, 16, 5, &nvec, w, &err), KL_EINPUT, err, "4 numbers");
}

/* Every space, excited roots included, irreps and not, against the oracle. */
static void test_oracle(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        int na, nb;
    } mol[] = {{"lih-sto3g.fcidump", 2, 2},      {"h2o-sto3g.fcidump", 5, 5},
               {"h6-chain-sto6g.fcidump", 3, 3}, {"oh-uhf-sto3g.fcidump", 5, 4},
               {"h6-chain-sto6g.fcidump", 4, 2}, {"lih-sto3g.fcidump", 2, 1},
               {"lih-sto3g.fcidump", 1, 3}};
    static const char *const space[] = {"cis", "cid", "cisd", "cisdt", "cisdtq", "level:5", "full"};
    static const uint64_t levels[] = {3, 5, 7, 15, 31, 63, ~UINT64_C(0)};
    enum { ROOTS = 5 };
    for (size_t m = 0; m < sizeof(mol) / sizeof(*mol); m++) {
        oracle *o = oracle_read(mol[m].file);
        kl_fcidump *f = load(mol[m].file);
        for (size_t s = 0; s < sizeof(space) / sizeof(*space); s++) {
            kl_err err;
            kl_ci_result r;
            double wanted[ROOTS];
            uint32_t reference = 0;
            kl_ci_opts opts = ask(space[s], ROOTS);
            opts.nelec = mol[m].na + mol[m].nb;
            opts.ms2 = mol[m].na - mol[m].nb;
            opts.have_ms2 = 1;
            opts.pspace = 20; /* small, so that the solver works */
            kl_test_case("%s %d+%d %s", mol[m].file, mol[m].na, mol[m].nb, space[s]);
            expect_ok(kl_ci_run(f, ex, &opts, NULL, &r, &err), err);
            for (int p = 0; p < o->n; p++) {
                const char c = r.reference[p];
                if (c == '2' || c == 'u') reference |= UINT32_C(1) << (2 * p);
                if (c == '2' || c == 'd') reference |= UINT32_C(2) << (2 * p);
            }
            const int dim = oracle_solve(o, mol[m].na, mol[m].nb, levels[s], reference, wanted, ROOTS);
            int64_t all = 0;
            for (int g = 0; g < r.nirrep; g++) all += r.block[g].ndet;
            expect_eq(all, dim);
            expect_eq(r.nstate, dim < ROOTS ? dim : ROOTS);
            for (int k = 0; k < r.nstate; k++) expect_near(r.state[k].energy, wanted[k], 1e-10);
            kl_ci_result_clear(&r);
        }
        kl_fcidump_destroy(&f);
        free(o);
    }
}

/* Any number of roots, all of a space too, by irreps and not; not one more. */
static void test_many_roots(void **state)
{
    (void)state;
    static const struct {
        const char *file, *space;
        int na, nb, pspace;
    } mol[] = {{"lih-sto3g.fcidump", "full", 2, 1, 0},
               {"h2o-sto3g.fcidump", "cisd", 5, 5, 0},
               {"oh-uhf-sto3g.fcidump", "full", 5, 4, 30}};
    for (size_t m = 0; m < sizeof(mol) / sizeof(*mol); m++) {
        enum { MOST = 500 };
        kl_err err;
        kl_ci_result r;
        double wanted[MOST];
        oracle *o = oracle_read(mol[m].file);
        kl_fcidump *f = load(mol[m].file);
        const int full = strcmp(mol[m].space, "full") == 0;
        uint32_t reference = 0;
        for (int p = 0; p < 5; p++) reference |= UINT32_C(3) << (2 * p);
        const int dim =
            oracle_solve(o, mol[m].na, mol[m].nb, full ? ~UINT64_C(0) : 7, reference, wanted, MOST);
        assert_true(dim > 40 && dim < MOST);
        const int count[] = {17, 40, dim, dim + 1};
        for (int c = 0; c < 4; c++) {
            kl_ci_opts opts = ask(mol[m].space, count[c]);
            opts.nelec = mol[m].na + mol[m].nb;
            opts.ms2 = mol[m].na - mol[m].nb;
            opts.have_ms2 = 1;
            opts.pspace = mol[m].pspace;
            kl_test_case("%s %s, %d of %d roots", mol[m].file, mol[m].space, count[c], dim);
            if (count[c] > dim) {
                char part[60];
                snprintf(part, sizeof part, "has only %d determinants", dim);
                expect_refused(kl_ci_run(f, ex, &opts, NULL, &r, &err), KL_EINPUT, err, part);
                continue;
            }
            expect_ok(kl_ci_run(f, ex, &opts, NULL, &r, &err), err);
            expect_true(r.converged);
            expect_eq(r.nstate, count[c]);
            for (int k = 0; k < r.nstate; k++) expect_near(r.state[k].energy, wanted[k], 1e-9);
            kl_ci_result_clear(&r);
        }
        kl_fcidump_destroy(&f);
        free(o);
    }
}

/* States that only hidden symmetries tell apart: spin, and a space group whose irreps have no labels. The
   lowest need not be in the small block's lowest. */
static void test_hidden_symmetries(void **state)
{
    (void)state;
    enum { ROOTS = 8 };
    static const struct {
        const char *file;
        int na, nb;
    } mol[] = {{"hubbard-3x2.fcidump", 2, 3},
               {"hubbard-3x2.fcidump", 3, 2},
               {"hubbard-3x2.fcidump", 3, 3},
               {"h6-octahedron-sto3g.fcidump", 3, 3},
               {"h6-octahedron-sto3g.fcidump", 2, 3}};
    static const int pspace[] = {0, 1, 20};
    for (size_t m = 0; m < sizeof(mol) / sizeof(*mol); m++) {
        oracle *o = oracle_read(mol[m].file);
        kl_fcidump *f = load(mol[m].file);
        double wanted[ROOTS];
        oracle_solve(o, mol[m].na, mol[m].nb, ~UINT64_C(0), 0, wanted, ROOTS);
        for (int nroot = 1; nroot <= ROOTS; nroot += KL_TEST_WATCHED ? 3 : 1)
            for (size_t p = 0; p < sizeof(pspace) / sizeof(*pspace); p++) {
                kl_err err;
                kl_ci_result r;
                kl_ci_opts opts = ask("full", nroot);
                opts.nelec = mol[m].na + mol[m].nb;
                opts.ms2 = mol[m].na - mol[m].nb;
                opts.have_ms2 = 1;
                opts.pspace = pspace[p];
                opts.seed = (uint64_t)nroot;
                kl_test_case("%s %d+%d roots %d pspace %d", mol[m].file, mol[m].na, mol[m].nb, nroot,
                             pspace[p]);
                expect_ok(kl_ci_run(f, ex, &opts, NULL, &r, &err), err);
                expect_true(r.converged);
                expect_eq(r.nstate, nroot);
                for (int k = 0; k < nroot; k++) expect_near(r.state[k].energy, wanted[k], 1e-10);
                kl_ci_result_clear(&r);
            }
        kl_fcidump_destroy(&f);
        free(o);
    }
}

/* One answer by every storage of H, by no storage, by one irrep at a time and by all labels taken
   away. */
static void test_ways(void **state)
{
    (void)state;
    kl_err err;
    kl_ci_result r, other;
    kl_fcidump *f = load("o2-triplet-sto3g.fcidump");
    kl_ci_opts o = ask("full", 4);
    expect_ok(kl_ci_run(f, ex, &o, NULL, &r, &err), err);
    expect_eq(r.direct, 1);
    for (int format = 0; format < KL_NSP; format++)
        for (int half = 0; half < (format == KL_SP_CSR || format == KL_SP_HYBRID ? 2 : 1); half++) {
            o.store = KL_CI_MATRIX;
            o.format = (kl_spopts){.format = (kl_spformat)format};
            o.half = half;
            kl_test_case("%s half %d", kl_spformat_name((kl_spformat)format), half);
            expect_ok(kl_ci_run(f, ex, &o, NULL, &other, &err), err);
            for (int k = 0; k < 4; k++) expect_near(other.state[k].energy, r.state[k].energy, 1e-10);
            for (int g = 0; g < 8; g++) expect_eq(other.block[g].matrix_bytes, other.block[g].formula_bytes);
            kl_ci_result_clear(&other);
        }
    o = ask("full", 1);
    for (int k = 0; k < 4; k++) {
        double lowest = INFINITY;
        for (int g = 0; g < 8; g++) {
            o.irrep = g;
            if (r.block[g].ndet == 0) continue;
            expect_ok(kl_ci_run(f, ex, &o, NULL, &other, &err), err);
            expect_eq(other.state[0].irrep, g);
            lowest = fmin(lowest, other.state[0].energy);
            kl_ci_result_clear(&other);
        }
        expect_near(lowest, r.state[0].energy, 1e-10);
        if (k == 0) break;
    }
    memset(f->irrep, 0, (size_t)f->norb * sizeof(int));
    f->nirrep = 1;
    o = ask("full", 4);
    expect_ok(kl_ci_run(f, ex, &o, NULL, &other, &err), err);
    for (int k = 0; k < 4; k++) {
        expect_near(other.state[k].energy, r.state[k].energy, 1e-10);
        expect_near(other.state[k].s2, r.state[k].s2, 1e-6);
    }
    kl_ci_result_clear(&other);
    kl_ci_result_clear(&r);
    kl_fcidump_destroy(&f);
}

/* The energy from the density matrices' one-body part and traces; occupations; spin multiplets meet across
   Sz. */
static void test_states(void **state)
{
    (void)state;
    kl_err err;
    kl_ci_result r, high;
    kl_fcidump *f = load("h6-chain-sto6g.fcidump");
    kl_ci_opts o = ask("full", 3);
    o.density = 1;
    expect_ok(kl_ci_run(f, ex, &o, NULL, &r, &err), err);
    for (int k = 0; k < 3; k++) {
        double trace[2] = {0, 0}, sum = 0;
        for (int spin = 0; spin < 2; spin++)
            for (int p = 0; p < r.norb; p++) {
                trace[spin] += r.state[k].density[spin][p * (r.norb + 1)];
                for (int q = 0; q < r.norb; q++)
                    expect_near(r.state[k].density[spin][p * r.norb + q],
                                r.state[k].density[spin][q * r.norb + p], 1e-12);
            }
        expect_near(trace[0], 3, 1e-12);
        expect_near(trace[1], 3, 1e-12);
        for (int p = 0; p < r.norb; p++) {
            sum += r.state[k].natural[p];
            expect_true(r.state[k].natural[p] > -1e-12 && r.state[k].natural[p] < 2 + 1e-12);
            if (p > 0) expect_true(r.state[k].natural[p] <= r.state[k].natural[p - 1]);
        }
        expect_near(sum, 6, 1e-12);
    }
    /* dE/dh by a field on one orbital pair is the density matrix */
    const uint64_t hash = kl_fcidump_hash(f);
    double *const h = f->h[0];
    const double step = 1e-4, gamma = r.state[0].density[0][1] + r.state[0].density[1][1];
    double e[2];
    for (int side = 0; side < 2; side++) {
        const double d = side == 0 ? step : -step;
        h[1] += d;
        h[f->norb] += d;
        expect_true(kl_fcidump_hash(f) != hash); /* by which a run that goes on knows its integrals */
        kl_ci_opts one = ask("full", 1);
        expect_ok(kl_ci_run(f, ex, &one, NULL, &high, &err), err);
        e[side] = high.state[0].energy;
        kl_ci_result_clear(&high);
        h[1] -= d;
        h[f->norb] -= d;
    }
    expect_near((e[0] - e[1]) / (2 * step), 2 * gamma, 1e-6);
    /* the triplet of Sz = 0 is the lowest state of Sz = 1 */
    o.ms2 = 2;
    o.have_ms2 = 1;
    expect_ok(kl_ci_run(f, ex, &o, NULL, &high, &err), err);
    expect_near(high.state[0].energy, r.state[1].energy, 1e-9);
    expect_near(high.state[0].s2, 2.0, 1e-6);
    kl_ci_result_clear(&high);
    kl_ci_result_clear(&r);
    kl_fcidump_destroy(&f);
}

/* Inactive orbitals: an active space of all orbitals is the full space, a frozen core the CAS without it;
   several references. */
static void test_active(void **state)
{
    (void)state;
    kl_err err;
    kl_ci_result a, b;
    kl_fcidump *f = load("h2o-sto3g.fcidump");
    kl_ci_opts o = ask("cas:10,7", 3), p = ask("full", 3);
    expect_ok(kl_ci_run(f, ex, &o, NULL, &a, &err), err);
    expect_ok(kl_ci_run(f, ex, &p, NULL, &b, &err), err);
    for (int k = 0; k < 3; k++) expect_near(a.state[k].energy, b.state[k].energy, 1e-11);
    kl_ci_result_clear(&a);
    kl_ci_result_clear(&b);
    o = ask("cas:8,6", 2);
    p = ask("full", 2);
    p.frozen = 1;
    p.density = o.density = 1;
    expect_ok(kl_ci_run(f, ex, &o, NULL, &a, &err), err);
    expect_ok(kl_ci_run(f, ex, &p, NULL, &b, &err), err);
    for (int k = 0; k < 2; k++) expect_near(a.state[k].energy, b.state[k].energy, 1e-11);
    expect_near(a.reference_energy, -74.96302313846286, 1e-9);
    expect_near(a.state[0].natural[0], 2.0, 1e-12);
    expect_true(a.state[0].energy > -75.01257824109202 && a.state[0].energy < -74.97);
    kl_ci_result_clear(&a);
    kl_ci_result_clear(&b);
    /* an empty active space of one determinant: its energy */
    o = ask("cas:2,1", 1);
    expect_ok(kl_ci_run(f, ex, &o, NULL, &a, &err), err);
    expect_near(a.state[0].energy, a.reference_energy, 1e-11);
    kl_ci_result_clear(&a);
    /* two references: the union of their singles and doubles, by the oracle's count of words */
    static const char *const ref[] = {"2222200", "2222020"};
    o = ask("cisd", 1);
    o.ref = ref;
    o.nref = 2;
    expect_ok(kl_ci_run(f, ex, &o, NULL, &a, &err), err);
    int64_t all = 0, wanted = 0;
    for (int g = 0; g < a.nirrep; g++) all += a.block[g].ndet;
    for (uint32_t w = 0; w < 1u << 14; w++) {
        if (__builtin_popcount(w & 0x1555) != 5 || __builtin_popcount(w & 0x2aaa) != 5) continue;
        wanted += __builtin_popcount(w & ~0x03ffu) <= 2 || __builtin_popcount(w & ~0x0cffu) <= 2;
    }
    expect_eq(all, wanted);
    expect_true(a.state[0].energy < -75.01187316962859 && a.state[0].energy > -75.01257824109202);
    kl_ci_result_clear(&a);
    static const char *const wrong[] = {"222220", "22222x0", "2222u00"};
    for (int k = 0; k < 3; k++) {
        o.ref = wrong + k;
        o.nref = 1;
        expect_refused(kl_ci_run(f, ex, &o, NULL, &a, &err), KL_EINPUT, err, "reference '");
    }
    expect_refused(kl_ci_parse_space("cas:8,3", &o, &err), KL_EINPUT, err, "8 electrons in 3 orbitals");
    expect_refused(kl_ci_parse_space("cisdx", &o, &err), KL_EINPUT, err, "allowed: cis");
    o = ask("cas:9,6", 1);
    expect_refused(kl_ci_run(f, ex, &o, NULL, &a, &err), KL_EINPUT, err, "even number");
    o = ask("full", 1);
    o.nelec = 15;
    expect_refused(kl_ci_run(f, ex, &o, NULL, &a, &err), KL_EINPUT, err, "orbitals");
    o.nelec = 10;
    o.have_ms2 = 1;
    o.ms2 = 3;
    expect_refused(kl_ci_run(f, ex, &o, NULL, &a, &err), KL_EINPUT, err, "steps of 2");
    o = ask("cisd", 1);
    o.memory_bytes = 1000;
    o.store = KL_CI_MATRIX;
    expect_refused(kl_ci_run(f, ex, &o, NULL, &a, &err), KL_ENOMEM, err, "GB are allowed");
    kl_fcidump_destroy(&f);
}

/* Where core orbitals lie among the active ones and see only their density, freezing them changes no state:
   the same coefficients with the same signs, of two such orbitals with even and odd numbers of electrons
   below them. */
static void test_frozen_signs(void **state)
{
    (void)state;
    enum { N = 6 };
    kl_err err;
    for (int where = 0; where < 4; where++)
        for (int ms2 = 0; ms2 < 5; ms2 += 2) {
            static const int place[][2] = {{0, 1}, {1, 4}, {2, 3}, {3, 5}};
            const int *const core = place[where];
            char text[8000];
            int at = sprintf(text, "&FCI NORB=%d,NELEC=8,MS2=%d\n/\n", N, ms2);
            kl_test_case("core orbitals %d and %d, MS2 %d", core[0] + 1, core[1] + 1, ms2);
            uint64_t seed = 7;
            for (int p = 0; p < N; p++)
                for (int q = 0; q <= p; q++) {
                    const int pc = p == core[0] || p == core[1], qc = q == core[0] || q == core[1];
                    for (int r = 0; r <= p; r++)
                        for (int s = 0; s <= (r == p ? q : r); s++) {
                            const int nc =
                                pc + qc + (r == core[0] || r == core[1]) + (s == core[0] || s == core[1]);
                            seed = seed * 6364136223846793005u + 1442695040888963407u;
                            const double x = 0.2 * ((double)(seed >> 40) / (1 << 24) - 0.5);
                            if (nc == 0)
                                at += sprintf(text + at, "%.9f %d %d %d %d\n",
                                              x + (p == q && r == s ? 0.5 : 0), p + 1, q + 1, r + 1, s + 1);
                            else if (p == q && r == s)
                                at += sprintf(text + at, "0.4 %d %d %d %d\n", p + 1, q + 1, r + 1, s + 1);
                        }
                    seed = seed * 6364136223846793005u + 1442695040888963407u;
                    if (p == q)
                        at += sprintf(text + at, "%.9f %d %d 0 0\n", pc ? -30.0 - p : -3.0 + 0.2 * p, p + 1,
                                      p + 1);
                    else if (!pc && !qc)
                        at += sprintf(text + at, "%.9f %d %d 0 0\n",
                                      0.4 * ((double)(seed >> 40) / (1 << 24) - 0.5), p + 1, q + 1);
                }
            kl_fcidump *f = NULL;
            FILE *from = fmemopen(text, (size_t)at, "rb");
            assert_non_null(from);
            expect_ok(kl_fcidump_read_stream(from, "t", &f, &err), err);
            fclose(from);
            const kl_ci_opts o = ask("full", 1);
            kl_ci_opts frozen = o, cas = ask("cas:4,4", 1);
            frozen.lowest = cas.lowest = 1; /* the core orbitals are not the first ones */
            frozen.frozen = 2;
            kl_ci_result whole, part;
            expect_ok(kl_ci_run(f, ex, &o, NULL, &whole, &err), err);
            for (int k = 0; k < 2; k++) {
                int shared = 0;
                expect_ok(kl_ci_run(f, ex, k == 0 ? &frozen : &cas, NULL, &part, &err), err);
                const kl_ci_state *const a = &whole.state[0], *const b = &part.state[0];
                expect_near(a->energy, b->energy, 1e-9);
                expect_true(a->leading[0] > 0 && b->leading[0] > 0);
                for (int i = 0; i < a->nleading; i++)
                    for (int j = 0; j < b->nleading; j++)
                        if (strcmp(a->leading_text[i], b->leading_text[j]) == 0) {
                            expect_near(a->leading[i], b->leading[j], 1e-5);
                            shared += fabs(a->leading[i]) > 1e-3;
                        }
                expect_true(shared >= (ms2 == 4 ? 1 : 4));
                kl_ci_result_clear(&part);
            }
            kl_ci_result_clear(&whole);
            kl_fcidump_destroy(&f);
        }
}

/* Table 1 of mahmoud2018: singlet configuration state functions of H2O in 6-31G(d) (10 electrons, 19
   orbitals), cumulative; and those in A1, which the table leaves out. */
static void test_table_1(void **state)
{
    (void)state;
    static const double table[] = {1,       71,       2556,     42596,    391126,  2114666,
                                   7147876, 15836556, 24490201, 29044751, 30046752};
    /* 10 a1, 1 a2, 3 b1, 5 b2; occupied 3 a1, 1 b1, 1 b2 */
    static const int irrep[19] = {0, 0, 0, 2, 3, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 3, 3, 3, 3};
    static const uint64_t ref[1][2] = {{31, 31}};
    const kl_det_spec spec = {.norb = 19,
                              .nalpha = 5,
                              .nbeta = 5,
                              .nirrep = 4,
                              .irrep = irrep,
                              .target = 0,
                              .levels = 7,
                              .nref = 1,
                              .ref = ref};
    double det[2 * KL_DET_MAX_ORB + 1], csf[2 * KL_DET_MAX_ORB + 1], sum = 0;
    int nlevel = 0;
    int64_t n = 0;
    kl_err err;
    expect_ok(kl_det_levels(&spec, -1, &nlevel, det, csf, &err), err);
    expect_eq(nlevel, 11);
    for (int k = 0; k < nlevel; k++) {
        sum += csf[k];
        expect_near(sum, table[k], 0);
    }
    expect_ok(kl_det_levels(&spec, 0, &nlevel, det, csf, &err), err);
    sum = 0;
    for (int k = 0; k < nlevel; k++) sum += csf[k];
    expect_near(sum, 7536400, 0);
    /* what is counted is what is listed */
    for (uint64_t levels = 1; levels < 64; levels = 2 * levels + 1)
        for (int target = 0; target < 4; target++) {
            kl_det_spec s = spec;
            kl_detspace *space = NULL;
            s.levels = levels;
            s.target = target;
            if (levels > 15) continue;
            expect_ok(kl_detspace_count(&s, &n, &err), err);
            expect_ok(kl_detspace_create(&s, 2, &space, &err), err);
            expect_eq(space->n, n);
            for (int64_t i = 0; i < space->n; i += 97) {
                int64_t ia, ib;
                kl_detspace_at(space, i, &ia, &ib);
                expect_eq(kl_detspace_find(space, space->a->bits[ia], space->b->bits[ib]), i);
            }
            kl_detspace_destroy(&space);
        }
}

/* As many orbitals as there can be, with references that differ in every electron; and strings that nobody
   could list. */
static void test_limits(void **state)
{
    (void)state;
    kl_err err = {""};
    const uint64_t low = UINT32_MAX, ref[2][2][2] = {{{low, low}, {~low, ~low}}, {{~low, ~low}, {low, low}}};
    for (int k = 0; k < 2; k++) {
        const kl_det_spec spec = {
            .norb = 64, .nalpha = 32, .nbeta = 32, .nirrep = 1, .nref = 2, .ref = ref[k], .levels = 3};
        kl_detspace *space = NULL;
        expect_ok(kl_detspace_create(&spec, 2, &space, &err), err);
        expect_eq(space->n, 2 * (1 + 2 * 32 * 32));
        kl_detspace_destroy(&space);
    }
    const kl_det_spec full = {.norb = 40, .nalpha = 20, .nbeta = 20, .nirrep = 1, .full = 1},
                      listed = {.norb = 64,
                                .nalpha = 32,
                                .nbeta = 32,
                                .nirrep = 1,
                                .nref = 1,
                                .ref = ref[0],
                                .levels = 511};
    kl_detspace *none = NULL;
    expect_refused(kl_detspace_create(&full, 2, &none, &err), KL_EINPUT, err, "1.378e+11 strings");
    expect_refused(kl_detspace_create(&listed, 2, &none, &err), KL_EINPUT, err, "strings of one spin");
    expect_true(none == NULL);
}

static void test_threads_and_file(void **state)
{
    (void)state;
    kl_err err;
    kl_exec *one = NULL;
    kl_ci_result a, b;
    kl_fcidump *f = load("n2-sto3g.fcidump");
    expect_ok(kl_exec_open_host(1, &one, &err), err);
    static const char *const space[] = {"full", "cisdt"};
    for (int s = 0; s < 2; s++) {
        kl_ci_opts o = ask(space[s], 2);
        o.density = 1;
        kl_test_case("%s", space[s]);
        expect_ok(kl_ci_run(f, ex, &o, NULL, &a, &err), err);
        expect_ok(kl_ci_run(f, one, &o, NULL, &b, &err), err);
        for (int k = 0; k < 2; k++) {
            expect_true(a.state[k].energy == b.state[k].energy);
            expect_true(a.state[k].s2 == b.state[k].s2);
            expect_eq(memcmp(a.state[k].density[0], b.state[k].density[0],
                             sizeof(double) * (size_t)(a.norb * a.norb)),
                      0);
        }
        kl_ci_record record = {.r = a,
                               .finished = 1,
                               .program = "test",
                               .command_line = "ci n2",
                               .options = "space=x\n",
                               .fcidump = "n2",
                               .space = (char *)(uintptr_t)space[s],
                               .integrals = "0123456789abcdef"},
                     back;
        char path[] = "/tmp/kronlat-ci-XXXXXX";
        const int fd = mkstemp(path);
        assert_true(fd >= 0);
        close(fd);
        expect_ok(kl_checked_probe(path, &err), err);
        expect_ok(kl_cifile_write(path, &record, NULL, &err), err);
        expect_true(kl_cifile_is(path) && !kl_cifile_is("/nowhere/at/all.h5"));
        expect_ok(kl_cifile_read(path, &back, &err), err); /* what was written comes back, number by number */
        expect_true(back.finished && strcmp(back.options, "space=x\n") == 0 &&
                    strcmp(back.space, space[s]) == 0 && strcmp(back.r.reference, a.reference) == 0);
        expect_true(strcmp(back.integrals, record.integrals) == 0);
        expect_eq(back.r.nstate, 2);
        for (int k = 0; k < 2; k++) {
            const kl_ci_state *const x = &a.state[k], *const y = &back.r.state[k];
            expect_true(x->energy == y->energy && x->s2 == y->s2 && x->residual == y->residual &&
                        x->irrep == y->irrep && x->nleading == y->nleading);
            expect_true(memcmp(x->leading, y->leading, sizeof(double) * (size_t)x->nleading) == 0 &&
                        strcmp(x->leading_text[0], y->leading_text[0]) == 0);
            expect_true(memcmp(x->natural, y->natural, sizeof(double) * (size_t)a.norb) == 0);
            expect_true(memcmp(x->density[1], y->density[1], sizeof(double) * (size_t)(a.norb * a.norb)) ==
                        0);
        }
        for (int g = 0; g < 8; g++)
            expect_true(a.block[g].ndet == back.r.block[g].ndet && a.block[g].nnz == back.r.block[g].nnz &&
                        a.block[g].facts.sparsity == back.r.block[g].facts.sparsity);
        kl_cifile_clear(&back);
        /* An unfinished run. */
        double number[2] = {1.5, -3};
        int nvec;
        kl_result_run run = {.stage = 0, .nnumber = 2, .number = number}, got = {0};
        record.finished = 0;
        expect_ok(kl_cifile_write(path, &record, &run, &err), err);
        expect_ok(kl_cifile_read_run(path, &got, &err), err);
        expect_true(got.nnumber == 2 && memcmp(got.number, number, sizeof number) == 0 && got.nvector == 0);
        kl_free(&got.number);
        kl_free(&got.n);
        expect_ok(kl_cifile_vectors(path, 0, 16, 4, &nvec, number, &err), err);
        expect_eq(nvec, 0);
        check_old_checkpoint(path, &record);
        expect_ok(kl_cifile_write(path, &record, &run, &err), err);
        expect_ok(kl_cifile_read(path, &back, &err), err);
        expect_true(!back.finished && back.has_run && back.r.nstate == 0);
        kl_cifile_clear(&back);
        assert_true(truncate(path, 3000) == 0);
        expect_refused(kl_cifile_read(path, &back, &err), KL_EINPUT, err, path);
        unlink(path);
        expect_eq(kl_cifile_write("/nowhere/at/all.h5", &record, NULL, &err), KL_EIO);
        kl_ci_result_clear(&a);
        kl_ci_result_clear(&b);
    }
    kl_fcidump_destroy(&f);
    kl_exec_close(&one);
}

/* What a plan says of non-zeros is what is stored: exactly in small spaces, to a per cent or so from a sample
   of the rows. */
static void test_plan_counts(void **state)
{
    (void)state;
    kl_err err;
    kl_fcidump *f = load("h2o-631g-fc.fcidump");
    kl_ci_opts o = ask("cisdtq", 1);
    kl_ci_plan plan;
    kl_ci_result r;
    o.irrep = 1;
    o.tol = 1;
    expect_ok(kl_ci_run(f, ex, &o, NULL, &r, &err), err);
    expect_ok(kl_ci_make_plan(f, &o, &plan, &err), err);
    expect_eq(plan.nnz[1], r.block[1].nnz);
    expect_true(!plan.nnz_sampled[1] && plan.nnz[0] == 0);
    kl_ci_plan_clear(&plan);
    kl_ci_result_clear(&r);
    kl_det_spec spec = {
        .norb = 12, .nalpha = 4, .nbeta = 4, .nirrep = f->nirrep, .irrep = f->irrep, .target = 0, .full = 1};
    kl_detspace *space = NULL;
    kl_slater *h = NULL;
    int64_t all, some;
    expect_ok(kl_detspace_create(&spec, 2, &space, &err), err);
    expect_ok(kl_slater_create(f, space, 2, &h, &err), err);
    expect_ok(kl_slater_count(h, 0, 1, &all, &err), err);
    expect_ok(kl_slater_count(h, 0, 7, &some, &err), err);
    expect_near((double)some / (double)all, 1.0, 0.03);
    kl_slater_destroy(&h);
    kl_detspace_destroy(&space);
    kl_fcidump_destroy(&f);
}

/* Eigenvectors of the small block have a spin, but where levels meet. */
static void test_start_spins(void **state)
{
    (void)state;
    static const char *const file[] = {"h2o-631g-fc.fcidump", "n2-sto3g.fcidump", "o2-triplet-sto3g.fcidump"};
    for (int m = KL_TEST_WATCHED ? 2 : 0; m < 3; m++) {
        kl_err err;
        kl_fcidump *f = load(file[m]);
        kl_ci_opts o = ask("full", 1);
        kl_ciorbitals l = {0};
        kl_cisector s = {.irrep = 0};
        kl_ci_block info = {0};
        double *c, s2;
        int nseen = 0;
        kl_test_case("%s", file[m]);
        o.nthread = 1;
        o.pspace = 100;
        expect_ok(kl_ciorbitals_make(f, &o, &l, &err), err);
        expect_ok(kl_cisector_make(&s, &l, ex, &o, NULL, &info, &err), err);
        const kl_pspace *const b = &s.block;
        expect_true(b->size > 50 && b->size <= 100 && b->size < s.space->n);
        c = calloc((size_t)s.space->n, sizeof *c);
        for (int j = 0; j < b->size; j++) {
            if ((j > 0 && b->energy[j] - b->energy[j - 1] < 1e-6) ||
                (j + 1 < b->size && b->energy[j + 1] - b->energy[j] < 1e-6))
                continue;
            for (int k = 0; k < b->nrun; k++)
                for (int i = 0; i < b->run[k].n; i++)
                    c[b->run[k].at + i] = b->vector[b->run[k].first + i + j * b->size];
            expect_ok(kl_detstate_spin(s.space, 1, c, &s2, &err), err);
            const double spin = 0.5 * (sqrt(1 + 4 * fabs(s2)) - 1);
            expect_near(spin, round(spin), 1e-6);
            nseen++;
        }
        expect_true(nseen > 20);
        free(c);
        kl_cisector_clear(&s, ex);
        kl_ciorbitals_clear(&l);
        kl_fcidump_destroy(&f);
    }
}

static void test_allocations(void **state)
{
    (void)state;
    static const char *const space[] = {"full", "cisd"};
    kl_fcidump *f = load("oh-uhf-sto3g.fcidump");
    for (int s = 0; s < 2; s++) {
        kl_ci_opts o = ask(space[s], 1);
        o.density = 1;
        o.pspace = 6;
        ci_fail_allocations(f, &o, space[s], 400);
    }
    kl_fcidump_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_known_energies),
                                       cmocka_unit_test(test_oracle),
                                       cmocka_unit_test(test_ways),
                                       cmocka_unit_test(test_many_roots),
                                       cmocka_unit_test(test_hidden_symmetries),
                                       cmocka_unit_test(test_states),
                                       cmocka_unit_test(test_active),
                                       cmocka_unit_test(test_frozen_signs),
                                       cmocka_unit_test(test_table_1),
                                       cmocka_unit_test(test_threads_and_file),
                                       cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_allocations),
                                       cmocka_unit_test(test_start_spins),
                                       cmocka_unit_test(test_plan_counts)};
    return cmocka_run_group_tests(tests, open_exec, close_exec);
}
