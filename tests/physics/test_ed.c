/* Exact diagonalization: H v against the oracle's matrix for every model, both forms of cutting a system in
   two, every instruction set and any number of threads; energies by every solver; energies known from
   elsewhere; DMRG; sizes beyond 2^31.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "ed/ed.h"
#include "ed/kronsum.h"
#include "exec/kronparts.h"
#include "kl_test.h"

#include <stdlib.h>
#include <string.h>

static const char *const lattices[] = {"chain:2",   "chain:5",   "ring:6",       "ladder:3x2", "square:2x3",
                                       "torus:2x2", "torus:3x3", "cylinder:2x3", NULL};
static const char *const isas[] = {"avx512", "avx2", "generic"};

/* Digits of the oracle's state. */
static void digits_of(const oracle *o, int64_t s, int *d)
{
    for (int p = 0; p < o->n; p++) d[p] = (int)(s / o->stride[p] % o->type[p]->dim);
}

/* H v, diagonal and ranks of one sector against the oracle. */
static void same_matrix(const core_job *j, const oracle *o, kl_qn q, kl_bipartition_form form, uint64_t seed)
{
    kl_err err = {""};
    oracle_sector *const s = oracle_sector_create(o, core_of(q).charge);
    kl_ed *ed = NULL;
    expect_ok(kl_ed_create(j->terms, q, form, j->ex, &ed, &err), err);
    expect_eq(ed->space->dim, s->dim);
    const int64_t n = ed->op.n;
    int64_t *const at = calloc((size_t)s->dim, sizeof *at);
    double *const sign = calloc((size_t)s->dim, sizeof *sign), *const x = calloc((size_t)s->dim, sizeof *x),
                  *const y = calloc((size_t)s->dim, sizeof *y);
    double *const v = calloc((size_t)n, sizeof *v), *const hv = calloc((size_t)n, sizeof *hv),
                  *const first = calloc((size_t)n, sizeof *first);
    double *const diag = calloc((size_t)s->dim, sizeof *diag);
    char *const used = calloc((size_t)n, 1);
    double size = 1;
    for (int64_t i = 0; i < s->dim; i++) {
        int d[64], back[64], sg;
        digits_of(o, s->state[i], d);
        at[i] = kl_bipartition_rank(ed->space, d, &sg);
        expect_true(at[i] >= 0 && at[i] < n && !used[at[i]]);
        used[at[i]] = 1;
        sign[i] = sg;
        expect_true(kl_bipartition_unrank(ed->space, at[i], back));
        expect_true(memcmp(d, back, (size_t)o->n * sizeof *d) == 0);
        x[i] = kl_test_uniform(&seed);
        v[at[i]] = x[i] * sign[i];
    }
    for (int64_t i = 0; i < n; i++) {
        int back[64];
        expect_eq(kl_bipartition_unrank(ed->space, i, back), used[i]);
    }
    oracle_apply(s, x, y);
    for (int64_t e = 0; e < s->nelem; e++) {
        size = fmax(size, fabs(s->value[e]));
        if (s->row[e] == s->col[e]) diag[s->row[e]] += s->value[e];
    }
    double *d = calloc((size_t)n, sizeof *d);
    kl_kron_diagonal(ed->kron, 0, ed->kron->n, d);
    for (int64_t i = 0; i < s->dim; i++) expect_near(d[at[i]], diag[i], 1e-13 * size * 20);
    const kl_dptr vx = core_upload(j->ex, n, v), vy = core_upload(j->ex, n, v);
    for (int isa = 0; isa < 3; isa++) {
        setenv("KRONLAT_ISA", isas[isa], 1);
        for (int threads = 1; threads <= 3; threads += 2) {
            kl_exec many = *j->ex;
            many.nthread = threads;
            j->ex->vt.kron_release(j->ex, ed->kron);
            expect_ok(j->ex->vt.kron_prepare(&many, ed->kron, &err), err);
            double dot = 0, want = 0;
            j->ex->vt.fill(j->ex, n, (double)NAN, vy);
            expect_ok(j->ex->vt.kron_apply(&many, ed->kron, vx, vy, &dot, &err), err);
            core_download(j->ex, n, vy, hv);
            for (int64_t i = 0; i < n; i++) {
                want += v[i] * hv[i];
                if (!used[i]) expect_true(hv[i] == 0.0);
            }
            for (int64_t i = 0; i < s->dim; i++) expect_near(hv[at[i]], y[i] * sign[i], 1e-13 * size * 20);
            expect_near(dot, want, 1e-12 * size * (double)s->dim);
            if (threads == 1) memcpy(first, hv, (size_t)n * sizeof *hv);
            else expect_true(memcmp(first, hv, (size_t)n * sizeof *hv) == 0);
        }
    }
    unsetenv("KRONLAT_ISA");
    kl_dptr give = vx;
    j->ex->vt.release(j->ex, &give);
    give = vy;
    j->ex->vt.release(j->ex, &give);
    kl_ed_destroy(&ed);
    oracle_sector_destroy((oracle_sector **)(uintptr_t)&s);
    free(at), free(sign), free(x), free(y), free(v), free(hv), free(first), free(diag), free(used), free(d);
}

static void some_sectors(const core_job *j, uint64_t seed)
{
    kl_err err = {""};
    oracle *o = oracle_create(j->model, j->lat, j->par);
    int n;
    kl_qn *q = core_sectors(j, 6, &n);
    for (int i = 0; i < n; i++) {
        char text[128];
        for (int f = 0; f < 4; f++) {
            static const kl_bipartition_form forms[] = {KL_BIPARTITION_AUTO, KL_BIPARTITION_SITES,
                                                        KL_BIPARTITION_FLAVOURS,
                                                        KL_BIPARTITION_FLAVOURS | KL_BIPARTITION_SORTED};
            const kl_bipartition_form form = forms[f];
            kl_bipartition_size size;
            if (f >= 2 && kl_bipartition_measure(j->terms, q[i], form, &size, &err) != KL_OK) continue;
            kl_test_case("%s, %s, form %d", j->name, kl_qn_print(j->model, q[i], text, sizeof text),
                         (int)form);
            same_matrix(j, o, q[i], form, kl_test_bits(&seed));
        }
    }
    kl_free(&q);
    oracle_destroy(&o);
}

static void test_matrix_shipped(void **state)
{
    (void)state;
    core_every_lattice(kl_models_builtin, kl_models_nbuiltin, lattices, 5000, CORE_ONE_ORDER, some_sectors);
}

static void test_matrix_own(void **state)
{
    (void)state;
    core_every_lattice(core_models, core_nmodel, lattices, 5000, CORE_ONE_ORDER, some_sectors);
}

/* Lowest energies of a sector against the oracle, by every solver; and those of DMRG with nothing
   truncated. */
static void every_solver(const core_job *j, const oracle *o, kl_qn q, uint64_t seed)
{
    kl_err err = {""};
    double w[6], size = 1;
    const int have = oracle_energies(o, core_of(q).charge, 6, w, NULL);
    for (int k = 0; k < have; k++) size = fmax(size, fabs(w[k]));
    kl_ed *ed = NULL;
    expect_ok(kl_ed_create(j->terms, q, KL_BIPARTITION_AUTO, j->ex, &ed, &err), err);
    char text[128];
    for (int solver = KL_ED_AUTO; solver <= KL_ED_FULL; solver++)
        for (int nstate = 1; nstate <= 3; nstate += 2) {
            kl_test_case("%s, %s, solver %s, %d states of %lld", j->name,
                         kl_qn_print(j->model, q, text, sizeof text), kl_ed_solver_name[solver], nstate,
                         (long long)ed->space->dim);
            const kl_ed_opts opts = {.solver = (kl_ed_solver)solver,
                                     .nstate = nstate,
                                     .accuracy = 1e-11,
                                     .seed = kl_test_bits(&seed) % 1000};
            kl_ed_result r;
            kl_dptr x = {0};
            int64_t ld = 0;
            expect_ok(kl_ed_run(ed, &opts, nstate == 1 && seed % 2 ? NULL : &x, &ld, &r, &err), err);
            expect_eq(r.nstate, nstate < ed->space->dim ? nstate : ed->space->dim);
            expect_true(r.stop == KL_ED_CONVERGED || r.stop == KL_ED_STAGNATED);
            for (int k = 0; k < r.nstate && k < have; k++) expect_near(r.energy[k], w[k], 1e-10 * size);
            for (int k = 0; k < r.nstate && x.addr; k++) { /* they are what they say */
                kl_dptr y;
                double e, norm, left;
                expect_ok(j->ex->vt.alloc(j->ex, ed->op.n, &y, &err), err);
                const kl_dptr xk = kl_dptr_at(x, k * ld);
                expect_ok(ed->op.apply_dot(&ed->op, xk, y, &e, &err), err);
                j->ex->vt.dots(j->ex, ed->op.n, 1, xk, ld, xk, &norm);
                expect_near(norm, 1, 1e-12);
                j->ex->vt.axpby(j->ex, ed->op.n, -e, xk, 1, y);
                j->ex->vt.dots(j->ex, ed->op.n, 1, y, ld, y, &left);
                expect_near(e, r.energy[k], 1e-10 * size);
                expect_true(sqrt(left) <= 1e-4 * size);
                j->ex->vt.release(j->ex, &y);
            }
            if (x.addr) j->ex->vt.release(j->ex, &x);
            kl_ed_result_clear(&r);
        }
    kl_ed_destroy(&ed);
    core_run run = core_exact(4096, q, 1, KL_STRATEGY_AUTO);
    core_go(j, &run);
    expect_near(run.res.energy[0], w[0], 1e-11 * size);
    core_drop(&run);
}

/* Whatever is found in a sector of one state is exact. */
static void test_one_state(void **state)
{
    kl_err err = {""};
    (void)state;
    for (int small = 0; small < 2; small++) {
        core_job j;
        core_open(&j, core_model("heisenberg", "S=1/2"), "chain:5", NULL, small ? "J=0.3" : NULL);
        kl_ed *ed = NULL;
        expect_ok(kl_ed_create(j.terms, core_charge(j.model, "Sz=5/2"), KL_BIPARTITION_AUTO, j.ex, &ed, &err),
                  err);
        for (int solver = KL_ED_AUTO; solver <= KL_ED_FULL; solver++) {
            kl_test_case("%s, solver %s", j.name, kl_ed_solver_name[solver]);
            const kl_ed_opts opts = {
                .solver = (kl_ed_solver)solver, .nstate = 1, .accuracy = 1e-11, .seed = 1};
            kl_ed_result r;
            expect_ok(kl_ed_run(ed, &opts, NULL, NULL, &r, &err), err);
            expect_eq(r.stop, KL_ED_CONVERGED);
            expect_near(r.energy[0], small ? 0.3 : 1.0, 1e-14);
            kl_ed_result_clear(&r);
        }
        kl_ed_destroy(&ed);
        core_close(&j);
    }
    core_no_memory();
}

static void two_sectors(const core_job *j, uint64_t seed)
{
    int n;
    kl_qn *q = core_sectors(j, 5, &n);
    oracle *o = oracle_create(j->model, j->lat, j->par);
    every_solver(j, o, q[n / 2], kl_test_bits(&seed));
    every_solver(j, o, q[n / 3], kl_test_bits(&seed));
    kl_free(&q);
    oracle_destroy(&o);
}

static void test_energies(void **state)
{
    (void)state;
    static const char *const few[] = {"chain:4", "ring:6", "ladder:3x2", "square:2x3", NULL};
    core_every_lattice(kl_models_builtin, kl_models_nbuiltin, few, KL_TEST_WATCHED ? 800 : 5000,
                       CORE_ONE_ORDER, two_sectors);
}

typedef struct known {
    const char *model, *variant, *lattice, *sets;
    int charge[4];
    double energy, relative;
} known;

static void one_known(const known *k, kl_ed_solver solver)
{
    kl_err err = {""};
    core_job j;
    kl_qn q = {{0}};
    core_open(&j, core_model(k->model, k->variant), k->lattice, NULL, k->sets);
    for (int c = 0; c < j.model->ncharge; c++) q.v[c] = (int16_t)k->charge[c];
    kl_ed *ed = NULL;
    expect_ok(kl_ed_create(j.terms, q, KL_BIPARTITION_AUTO, j.ex, &ed, &err), err);
    const kl_ed_opts opts = {.solver = solver, .nstate = 1, .accuracy = 2e-11, .seed = 3};
    if (KL_TEST_WATCHED && ed->op.n > 20000) {
        kl_ed_destroy(&ed);
        core_close(&j);
        return;
    }
    kl_ed_result r;
    expect_ok(kl_ed_run(ed, &opts, NULL, NULL, &r, &err), err);
    kl_test_case("%s by %s: %d products", j.name, kl_ed_solver_name[solver], r.napply);
    expect_near(r.energy[0], k->energy, k->relative * fabs(k->energy));
    expect_eq(r.stop, KL_ED_CONVERGED);
    kl_ed_result_clear(&r);
    kl_ed_destroy(&ed);
    core_close(&j);
}

/* n fermions in an open chain of l, t = 1 */
static double band(int l, int n)
{
    double e = 0;
    for (int k = 1; k <= n; k++) e -= 2 * cos(M_PI * k / (l + 1));
    return e;
}

static void test_known(void **state)
{
    (void)state;
    const known list[] = {
        {"heisenberg", "S=1/2", "chain:16", "J=1", {0}, -6.911737145575103, 1e-10},
        {"heisenberg", "S=1/2", "chain:20", "J=1", {0}, -8.682473334398966, 1e-10},
        {"heisenberg", "S=1/2", "torus:4x4", "J=1", {0}, -0.701780200 * 16, 1e-9},
        {"hubbard", "F=1/2", "chain:8", "U=2", {4, 4}, -6.225634144681335, 1e-10},
        {"hubbard", "F=1/2", "ring:6", "U=4", {3, 3}, -3.668706178873, 1e-10},
        {"hubbard", "F=1/2", "ring:8", "U=4", {4, 4}, -4.603526299989, 1e-10},
        {"hubbard", "F=1/2", "ring:10", "U=8", {5, 5}, -3.314996729088, 1e-10},
        {"hubbard", "F=1/2", "ring:12", "U=4", {6, 6}, -6.920353562419, 1e-10},
        {"hubbard", "F=1/2", "ladder:6x2", "U=4", {6, 6}, -7.846350569211074, 1e-10},
        {"hubbard", "F=1/2", "ladder:6x2", "U=8", {6, 6}, -4.730255555119437, 1e-10},
        {"hubbard", "F=1/2", "cylinder:3x4", "U=4", {6, 6}, -9.205275862050465, 1e-10},
        {"hubbard", "F=1/2", "cylinder:3x4", "U=8", {6, 6}, -5.553744712541735, 1e-10},
        {"tj", NULL, "ladder:6x2", "J=0.4", {5, 5}, -6.997166042546927, 1e-10},
        {"hubbard", "F=3/2", "chain:4", "U=2", {1, 1, 1, 1}, -3.968701041177016, 1e-10},
        {"hubbard", "F=3/2", "chain:4", "U=4", {1, 1, 1, 1}, -2.627427009300165, 1e-10},
        {"hubbard", "F=3/2", "chain:4", "U=8", {1, 1, 1, 1}, -1.452047576001611, 1e-10},
        {"hubbard", "F=3/2", "chain:8", "U=4", {2, 2, 2, 2}, -5.845687533207021, 1e-10},
        {"j1j2", "S=1/2", "ring:12", "J2=0.5", {0}, -3.0 / 8.0 * 12, 1e-10}, /* Majumdar and Ghosh */
        {"blbq", "S=1", "ring:8", "J=1", {0}, -2.0 / 3.0 * 8, 1e-10},        /* AKLT */
        {"ising", NULL, "chain:14", "J=1", {0}, 1 - 1 / sin(M_PI / 58), 1e-10}, /* critical */
        {"hubbard", "F=1/2", "chain:10", "U=0", {5, 4}, band(10, 5) + band(10, 4), 1e-10},
        {"heisenberg", "S=1/2", "chain:16", "Delta=0", {0}, band(16, 8) / 2, 1e-10},
    };
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) one_known(&list[k], KL_ED_LANCZOS);
    one_known(&list[0], KL_ED_LOBPCG);
    one_known(&list[6], KL_ED_LOBPCG);
    one_known(&list[5], KL_ED_DAVIDSON);
    core_no_memory();
}

/* A diagonal far wider than what couples it: random starts lie in its middle, and must not stay there. */
static void test_wide_diagonal(void **state)
{
    (void)state;
    static const struct {
        const char *model, *variant, *lattice, *sets, *charge;
    } list[] = {{"blbq", "S=1", "chain:6", "J=1/3 D=16", "Sz=1"},
                {"blbq", "S=1", "chain:6", "J=1/3 D=8", "Sz=1"},
                {"ising", NULL, "chain:10", "h=20", "parity=0"},
                {"bose_hubbard", NULL, "chain:5", "U=100", "N=4"},
                {"bose_hubbard", NULL, "chain:5", "U=40", "N=5"}};
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        kl_err err = {""};
        core_job j;
        kl_ed *ed = NULL;
        kl_ed_result all, r;
        core_open(&j, core_model(list[k].model, list[k].variant), list[k].lattice, NULL, list[k].sets);
        expect_ok(
            kl_ed_create(j.terms, core_charge(j.model, list[k].charge), KL_BIPARTITION_AUTO, j.ex, &ed, &err),
            err);
        expect_ok(kl_ed_run(ed, &(kl_ed_opts){.solver = KL_ED_FULL, .nstate = 4}, NULL, NULL, &all, &err),
                  err);
        for (int nstate = 1; nstate <= 4; nstate++)
            for (uint64_t seed = 1; seed <= 4; seed++) {
                kl_test_case("%s, %d states, seed %d", j.name, nstate, (int)seed);
                expect_ok(
                    kl_ed_run(ed,
                              &(kl_ed_opts){
                                  .solver = KL_ED_LOBPCG, .nstate = nstate, .accuracy = 1e-11, .seed = seed},
                              NULL, NULL, &r, &err),
                    err);
                expect_true(r.stop == KL_ED_CONVERGED || r.stop == KL_ED_STAGNATED);
                for (int i = 0; i < nstate; i++)
                    expect_near(r.energy[i], all.full[i], 1e-10 * fabs(all.full[all.nfull - 1]));
                kl_ed_result_clear(&r);
            }
        kl_ed_result_clear(&all);
        kl_ed_destroy(&ed);
        core_close(&j);
    }
    core_no_memory();
}

/* Levels close to each other, and energies small in relation to |H|: who says converged is as near as it
   says; a state that is asked for has a residual as small as the energy's error. */
static void test_close_levels(void **state)
{
    (void)state;
    static const struct {
        const char *model, *variant, *lattice, *sets, *charge;
    } list[] = {{"heisenberg", "S=1/2", "chain:12", "Delta=10", "Sz=0"},
                {"heisenberg", "S=1/2", "ring:12", "Delta=30", "Sz=0"},
                {"heisenberg", "S=1/2", "ladder:5x2", "Delta=-1", "Sz=1"},
                {"hubbard", "F=1/2", "ladder:3x2", "U=10000", "N_up=3 N_dn=3"},
                {"hubbard", "F=1/2", "ring:5", "U=100", "N_up=2 N_dn=3"},
                {"j1j2", "S=1/2", "ring:10", "J2=0.5", "Sz=0"}};
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        kl_err err = {""};
        core_job j;
        kl_ed *ed = NULL;
        kl_ed_result all, r;
        core_open(&j, core_model(list[k].model, list[k].variant), list[k].lattice, NULL, list[k].sets);
        expect_ok(
            kl_ed_create(j.terms, core_charge(j.model, list[k].charge), KL_BIPARTITION_AUTO, j.ex, &ed, &err),
            err);
        expect_ok(kl_ed_run(ed, &(kl_ed_opts){.solver = KL_ED_FULL, .nstate = 1}, NULL, NULL, &all, &err),
                  err);
        const double size = fmax(fabs(all.full[0]), fabs(all.full[all.nfull - 1])),
                     wanted = 1e-10 * fmax(fabs(all.full[0]), 1e-3 * size);
        for (int solver = KL_ED_LANCZOS; solver <= KL_ED_LOBPCG; solver++)
            for (int vectors = 0; vectors < 2; vectors++) {
                kl_dptr x = {0};
                int64_t ld = 0;
                kl_test_case("%s %s, %s%s", j.name, list[k].sets, kl_ed_solver_name[solver],
                             vectors ? ", with its state" : "");
                expect_ok(
                    kl_ed_run(ed,
                              &(kl_ed_opts){.solver = (kl_ed_solver)solver, .nstate = 1, .max_apply = 4000},
                              vectors ? &x : NULL, &ld, &r, &err),
                    err);
                expect_true(r.stop == KL_ED_CONVERGED || r.stop == KL_ED_STAGNATED);
                expect_near(r.energy[0], all.full[0], fmax(r.error[0], 64 * r.attainable));
                expect_true(r.error[0] <= fmax(wanted, 64 * r.attainable) * 1.01);
                if (vectors) expect_true(r.residual[0] <= 1e-10 * size * 1.01);
                /* levels 1e-7 of H apart took 520 and more by a preconditioner that saw one scale in them */
                if (solver == KL_ED_LOBPCG) expect_true(r.napply <= 300);
                if (x.addr) j.ex->vt.release(j.ex, &x);
                kl_ed_result_clear(&r);
            }
        kl_ed_result_clear(&all);
        kl_ed_destroy(&ed);
        core_close(&j);
    }
    core_no_memory();
}

/* As many states as the sector has: vectors are longer than that, and nothing of them may lie between
   states. */
static void test_all_states(void **state)
{
    (void)state;
    static const struct {
        const char *model, *variant, *lattice, *sets, *charge;
        int dim;
    } list[] = {{"hubbard", "F=1/2", "chain:2", "mu=-1,-0.3 t=0.5", "N_up=1 N_dn=0", 2},
                {"hubbard", "F=1/2", "chain:3", "mu=-1,-0.3,-0.2 t=0", "N_up=1 N_dn=0", 3},
                {"heisenberg", "S=1/2", "chain:4", "J=-1 h=0.1,0.2,0.4,0.8", "Sz=0", 6}};
    for (size_t k = 0; k < sizeof list / sizeof *list; k++)
        for (int solver = KL_ED_LANCZOS; solver <= KL_ED_LOBPCG; solver++) {
            kl_err err = {""};
            core_job j;
            kl_ed *ed = NULL;
            kl_ed_result all, r;
            kl_dptr x = {0}, y = {0};
            int64_t ld = 0;
            core_open(&j, core_model(list[k].model, list[k].variant), list[k].lattice, NULL, list[k].sets);
            kl_test_case("%s %s, %s", j.name, list[k].sets, kl_ed_solver_name[solver]);
            expect_ok(kl_ed_create(j.terms, core_charge(j.model, list[k].charge), KL_BIPARTITION_AUTO, j.ex,
                                   &ed, &err),
                      err);
            expect_ok(kl_ed_run(ed, &(kl_ed_opts){.solver = KL_ED_FULL, .nstate = 1}, NULL, NULL, &all, &err),
                      err);
            expect_ok(kl_ed_run(ed, &(kl_ed_opts){.solver = (kl_ed_solver)solver, .nstate = list[k].dim}, &x,
                                &ld, &r, &err),
                      err);
            expect_ok(j.ex->vt.alloc(j.ex, ed->op.n, &y, &err), err);
            for (int i = 0; i < list[k].dim; i++) {
                double square;
                expect_near(r.energy[i], all.full[i], 1e-12);
                expect_ok(ed->op.apply(&ed->op, 1, kl_dptr_at(x, i * ld), ld, y, ld, &err), err);
                j.ex->vt.axpby(j.ex, ed->op.n, -r.energy[i], kl_dptr_at(x, i * ld), 1.0, y);
                j.ex->vt.dots(j.ex, ed->op.n, 1, y, ld, y, &square);
                expect_true(sqrt(square) < 1e-9);
            }
            j.ex->vt.release(j.ex, &x);
            j.ex->vt.release(j.ex, &y);
            kl_ed_result_clear(&all);
            kl_ed_result_clear(&r);
            kl_ed_destroy(&ed);
            core_close(&j);
        }
    core_no_memory();
}

/* Any number of states, all of a sector too, by the solvers that have no limit. */
static void test_many_states(void **state)
{
    (void)state;
    static const int count[] = {16, 17, 40, 252};
    kl_err err = {""};
    core_job j;
    kl_ed *ed = NULL;
    kl_ed_result all, r;
    core_open(&j, core_model("heisenberg", "S=1/2"), "chain:10", NULL, "J=1 h=0.3");
    expect_ok(kl_ed_create(j.terms, (kl_qn){{0}}, KL_BIPARTITION_AUTO, j.ex, &ed, &err), err);
    expect_ok(kl_ed_run(ed, &(kl_ed_opts){.solver = KL_ED_FULL, .nstate = 252}, NULL, NULL, &all, &err), err);
    expect_eq(all.nstate, 252);
    for (int solver = KL_ED_LANCZOS; solver <= KL_ED_DAVIDSON; solver++)
        for (int c = 0; c < 4; c++) {
            const kl_ed_opts opts = {.solver = (kl_ed_solver)solver, .nstate = count[c], .max_apply = 20000};
            expect_ok(kl_ed_run(ed, &opts, NULL, NULL, &r, &err), err);
            kl_test_case("%s, %d states", kl_ed_solver_name[solver], count[c]);
            expect_true(r.stop == KL_ED_CONVERGED || r.stop == KL_ED_STAGNATED);
            expect_eq(r.nstate, count[c]);
            for (int k = 0; k < r.nstate; k++) {
                expect_near(r.energy[k], all.full[k], 1e-10);
                expect_true(fabs(r.energy[k] - all.full[k]) <= fmax(r.error[k], 1e-13));
                expect_true(r.multiplet[k] >= 1);
            }
            kl_ed_result_clear(&r);
        }
    const kl_ed_opts opts = {.solver = KL_ED_LOBPCG, .nstate = 17};
    expect_refused(kl_ed_run(ed, &opts, NULL, NULL, &r, &err), KL_EINPUT, err, "1 to 16");
    kl_ed_result_clear(&all);
    kl_ed_destroy(&ed);
    core_close(&j);
    core_no_memory();
}

/* Two states share the lowest energy: told by guard vectors also where only one is asked for. */
static void test_multiplet(void **state)
{
    (void)state;
    kl_err err = {""};
    core_job j;
    kl_ed *ed = NULL;
    core_open(&j, core_model("j1j2", "S=1/2"), "ring:12", NULL, "J2=0.5");
    expect_ok(kl_ed_create(j.terms, (kl_qn){{0}}, KL_BIPARTITION_AUTO, j.ex, &ed, &err), err);
    for (int solver = KL_ED_LANCZOS; solver <= KL_ED_FULL; solver++)
        for (int nstate = 1; nstate <= 3; nstate++) {
            if (solver == KL_ED_LANCZOS && nstate == 1) continue;
            kl_ed_result r;
            expect_ok(
                kl_ed_run(ed,
                          &(kl_ed_opts){.solver = (kl_ed_solver)solver, .nstate = nstate, .accuracy = 1e-11},
                          NULL, NULL, &r, &err),
                err);
            kl_test_case("%s, %d states", kl_ed_solver_name[solver], nstate);
            expect_near(r.energy[0], -4.5, 1e-9);
            for (int k = 0; k < nstate && k < 2; k++) expect_eq(r.multiplet[k], 2);
            if (nstate == 3) expect_true(r.energy[2] > -4.4 && r.multiplet[2] != 2);
            expect_true(!r.open_multiplet || nstate == 3);
            kl_ed_result_clear(&r);
        }
    kl_ed_destroy(&ed);
    core_close(&j);
    core_no_memory();
}

/* States of the right flavour by their particles on the last half of the sites, then by code; and what two
   ranks read of each other for it: states with a particle more, or one less, than their own, a third of
   all. */
static void test_order_of_flavours(void **state)
{
    (void)state;
    enum {
        SITES = 16,
        FEW = 3,
        TILES = 11440 / KL_KRON_LANES,
    };
    kl_err err = {""};
    core_job j;
    core_open(&j, core_model("hubbard", "F=1/2"), "square:4x4", NULL, "U=4");
    kl_bipartition *h = NULL;
    kl_kron *k = NULL;
    static char wanted[TILES];
    expect_ok(kl_bipartition_create(j.terms, (kl_qn){{1, 7}}, KL_BIPARTITION_FLAVOURS | KL_BIPARTITION_SORTED,
                                    &h, &err),
              err);
    expect_ok(kl_kron_compile(h, j.terms, 0, j.terms->nterm, &k, &err), err);
    expect_eq(h->right.begin[1], TILES * KL_KRON_LANES);
    const uint64_t *const code = h->right.code;
    for (int64_t i = 0; i + 1 < TILES * KL_KRON_LANES; i++) {
        const int a = __builtin_popcountll(code[i] >> SITES / 2),
                  b = __builtin_popcountll(code[i + 1] >> SITES / 2);
        expect_true(a < b || (a == b && code[i] < code[i + 1]));
    }
    for (int rank = 0; rank < 2; rank++) {
        int64_t n = 0;
        kl_kronparts_wanted(k, rank * TILES / 2, (rank + 1) * TILES / 2, wanted);
        for (int64_t t = 0; t < TILES; t++) {
            n += wanted[t];
            const int a = __builtin_popcountll(code[t * KL_KRON_LANES] >> SITES / 2);
            expect_true(!wanted[t] || a == (rank ? FEW : FEW + 1));
        }
        expect_true(n > 0 && (double)n < 0.35 * (double)TILES);
    }
    kl_kron_destroy(&k);
    kl_bipartition_destroy(&h);
    core_close(&j);
    core_no_memory();
}

/* Sizes of sectors that no vector is made of: half-filled Hubbard on 18 and 20 sites, with 2.4 and 34
   thousand million states. */
static void test_large(void **state)
{
    (void)state;
    static const struct {
        const char *lattice;
        int n;
        int64_t dim;
    } list[] = {{"square:6x3", 9, INT64_C(2363904400)}, {"square:5x4", 10, INT64_C(34134779536)}};
    for (size_t c = 0; c < 2; c++)
        for (int form = KL_BIPARTITION_SITES; form <= KL_BIPARTITION_FLAVOURS; form++) {
            kl_err err = {""};
            core_job j;
            core_open(&j, core_model("hubbard", "F=1/2"), list[c].lattice, NULL, "U=4");
            kl_test_case("%s form %d", j.name, form);
            const kl_qn q = {{(int16_t)list[c].n, (int16_t)list[c].n}};
            kl_bipartition_size size;
            expect_ok(kl_bipartition_measure(j.terms, q, (kl_bipartition_form)form, &size, &err), err);
            expect_true(size.dim == (double)list[c].dim);
            if (form == KL_BIPARTITION_SITES && c == 1) { /* 2 million states a half: the sizes are enough */
                core_close(&j);
                continue;
            }
            kl_bipartition *h = NULL;
            expect_ok(kl_bipartition_create(j.terms, q, (kl_bipartition_form)form, &h, &err), err);
            expect_eq(h->dim, list[c].dim);
            expect_true(h->n >= h->dim && size.n == (double)h->n);
            uint64_t seed = 4;
            int64_t beyond = 0;
            for (int k = 0; k < 20000; k++) {
                int s[64];
                const int64_t i = (int64_t)(kl_test_bits(&seed) % (uint64_t)h->n);
                if (!kl_bipartition_unrank(h, i, s)) continue;
                expect_eq(kl_bipartition_rank(h, s, NULL), i);
                beyond += i > INT32_MAX;
                s[k % h->nsite] = (s[k % h->nsite] + 1) % 4; /* another sector */
                expect_eq(kl_bipartition_rank(h, s, NULL), -1);
            }
            expect_true(beyond > 1000);
            expect_eq(kl_bipartition_unrank(h, h->n, (int[64]){0}), 0);
            expect_eq(kl_bipartition_unrank(h, -1, (int[64]){0}), 0);
            kl_bipartition_destroy(&h);
            core_close(&j);
        }
    core_no_memory();
}

/* Bad input is told in one line, and the k-th allocation may fail. */
static void test_refusals(void **state)
{
    (void)state;
    kl_err err = {""};
    core_job j;
    kl_ed *ed = NULL;
    core_open(&j, core_model("heisenberg", "S=1/2"), "chain:6", NULL, NULL);
    expect_refused(kl_ed_create(j.terms, (kl_qn){{8}}, KL_BIPARTITION_AUTO, j.ex, &ed, &err), KL_EINPUT, err,
                   "empty");
    expect_refused(kl_ed_create(j.terms, (kl_qn){{0}}, KL_BIPARTITION_FLAVOURS, j.ex, &ed, &err), KL_EINPUT,
                   err, "flavours");
    expect_ok(kl_ed_create(j.terms, (kl_qn){{0}}, KL_BIPARTITION_AUTO, j.ex, &ed, &err), err);
    kl_ed_result r;
    expect_refused(kl_ed_run(ed, &(kl_ed_opts){.nstate = 0}, NULL, NULL, &r, &err), KL_EINPUT, err, "1 or");
    kl_ed_destroy(&ed);
    for (int64_t k = 1;; k++) {
        kl_mem_fail_after(k);
        kl_status st = kl_ed_create(j.terms, (kl_qn){{0}}, KL_BIPARTITION_AUTO, j.ex, &ed, &err);
        if (st == KL_OK)
            st = kl_ed_run(ed, &(kl_ed_opts){.nstate = 2, .solver = k % 2 ? KL_ED_LOBPCG : KL_ED_FULL}, NULL,
                           NULL, &r, &err);
        if (st == KL_OK) kl_ed_result_clear(&r);
        kl_mem_fail_after(0);
        kl_ed_destroy(&ed);
        if (st == KL_OK) break;
        kl_ed_result_clear(&r);
        expect_eq(st, KL_ENOMEM);
        expect_true(k < 10000);
    }
    core_close(&j);
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix_shipped),
        cmocka_unit_test(test_matrix_own),
        cmocka_unit_test(test_energies),
        cmocka_unit_test(test_one_state),
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_wide_diagonal),
        cmocka_unit_test(test_close_levels),
        cmocka_unit_test(test_all_states),
        cmocka_unit_test(test_many_states),
        cmocka_unit_test(test_multiplet),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_order_of_flavours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
