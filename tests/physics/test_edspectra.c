/* Around exact diagonalization: H as a stored matrix, runs that are broken off and go on, preconditioners,
   spectral functions and thermodynamics, each against the oracle's matrices or against the same run
   undisturbed.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "saver.h"
#include "base/dense.h"
#include "ed/ed.h"
#include "ed/edspectral.h"
#include "ed/edthermal.h"
#include "kl_test.h"
#include "ed/kronmat.h"

#include <stdlib.h>
#include <string.h>

static kl_ed *open_ed(const core_job *j, const char *charge)
{
    kl_err err = {""};
    kl_ed *ed = NULL;
    expect_ok(kl_ed_create(j->terms, core_charge(j->model, charge), KL_BIPARTITION_AUTO, j->ex, &ed, &err),
              err);
    return ed;
}

/* ---------------------------------------------------------------- stored */

static void test_stored(void **state)
{
    (void)state;
    static const struct {
        const char *model, *variant, *lattice, *charge;
    } list[] = {{"hubbard", "F=1/2", "square:2x3", "N_up=3 N_dn=2"},
                {"kondo", "S=1/2", "chain:4", "N=3 Sz=1/2"},
                {"tj", NULL, "torus:3x2", "N_up=2 N_dn=2"},
                {"holstein", "n_max=8", "chain:3", "N_up=1 N_dn=1"}};
    for (size_t c = 0; c < sizeof list / sizeof *list; c++) {
        kl_err err = {""};
        core_job j;
        core_open_random(&j, core_model(list[c].model, list[c].variant), list[c].lattice, NULL, 40 + c);
        kl_ed *ed = open_ed(&j, list[c].charge);
        const int64_t n = ed->op.n;
        double *const y = calloc((size_t)n, sizeof *y), *const z = calloc((size_t)n, sizeof *z);
        kl_dptr v[2];
        double dot, dot_stored, norm = 0.0;
        for (int i = 0; i < 2; i++) expect_ok(j.ex->vt.alloc(j.ex, n, &v[i], &err), err);
        expect_ok(kl_ed_random(ed, 3, v[0], &err), err);
        expect_ok(ed->op.apply_dot(&ed->op, v[0], v[1], &dot, &err), err);
        core_download(j.ex, n, v[1], y);
        for (int64_t i = 0; i < n; i++) norm = fmax(norm, fabs(y[i]));
        for (int f = 0; f < KL_NSP; f++)
            for (int half = 0; half < 2; half++) {
                const kl_spopts format = {.format = (kl_spformat)f, .height = 8, .sigma = 16};
                if (half && f != KL_SP_CSR && f != KL_SP_HYBRID) continue;
                kl_test_case("%s, %s, half %d", j.name, kl_spformat_name((kl_spformat)f), half);
                expect_ok(kl_ed_store(ed, &format, half, 0.0, &err), err);
                expect_ok(ed->op.apply_dot(&ed->op, v[0], v[1], &dot_stored, &err), err);
                core_download(j.ex, n, v[1], z);
                for (int64_t i = 0; i < n; i++) expect_near(z[i], y[i], 1e-13 * norm);
                expect_near(dot_stored, dot, 1e-12 * fabs(dot) + 1e-12 * norm);
                expect_true((double)kl_spmat_measured_bytes(ed->matrix) > 0.0);
            }
        expect_refused(kl_ed_store(ed, &(kl_spopts){.format = KL_SP_CSR}, 0, 1000.0, &err), KL_ENOMEM, err,
                       "--memory");
        for (int i = 0; i < 2; i++) j.ex->vt.release(j.ex, &v[i]);
        free(y), free(z);
        kl_ed_destroy(&ed);
        core_close(&j);
    }
    core_no_memory();
}

/* ---------------------------------------------------------------- broken off */

static int save_step(void *self, int napply, double energy, double residual)
{
    (void)napply, (void)energy, (void)residual;
    return saver_stops(self);
}

static void test_broken_off(void **state)
{
    (void)state;
    for (int c = 0; c < 8; c++) {
        static const kl_ed_solver solver[] = {KL_ED_LANCZOS,  KL_ED_LANCZOS,  KL_ED_LOBPCG,  KL_ED_LOBPCG,
                                              KL_ED_DAVIDSON, KL_ED_DAVIDSON, KL_ED_LANCZOS, KL_ED_LANCZOS};
        const int nstate = c < 2 ? 1 : c % 2 ? 3 : 2, vectors = c % 2;
        kl_err err = {""};
        core_job j;
        core_open(&j, core_model("hubbard", "F=1/2"), KL_TEST_WATCHED ? "ladder:3x2" : "ladder:4x2", NULL,
                  "U=4");
        kl_ed *ed = open_ed(&j, "N_up=3 N_dn=3");
        kl_ed_opts opts = {.solver = solver[c], .nstate = nstate, .accuracy = 1e-12, .seed = 7};
        kl_ed_result whole, part;
        kl_dptr x = {0};
        int64_t ld;
        int resumed = 0;
        expect_ok(kl_ed_run(ed, &opts, vectors ? &x : NULL, &ld, &whole, &err), err);
        if (x.addr) j.ex->vt.release(j.ex, &x);
        /* A recurrence is stopped at every look, the last one too. */
        for (int i = 0; i < 400; i += i % 200 < 10 || (i >= 200 && nstate == 1) ? 1
                                      : KL_TEST_WATCHED                         ? 47
                                                                                : 17) {
            const int after = i % 200 + 1, looks = i >= 200;
            saver s = {.ex = j.ex, .n = ed->op.n, .countdown = looks ? 0 : after, .looks = looks ? after : 0};
            kl_keeper keeper = {.self = &s, .due = saver_due, .write = saver_write};
            opts.keeper = &keeper;
            opts.self = &s;
            opts.step = save_step;
            kl_test_case("%s, %d states, vectors %d, %s %d", kl_ed_solver_name[solver[c]], nstate, vectors,
                         looks ? "stopped at look" : "broken off at", after);
            expect_ok(kl_ed_run(ed, &opts, vectors ? &x : NULL, &ld, &part, &err), err);
            if (x.addr) j.ex->vt.release(j.ex, &x);
            kl_ed_result_clear(&part);
            if (s.have) {
                kl_keeper again = {.from = &s.kept, .self = &s, .due = saver_due, .write = saver_write};
                opts.keeper = &again;
                opts.step = NULL;
                expect_ok(kl_ed_run(ed, &opts, vectors ? &x : NULL, &ld, &part, &err), err);
                if (x.addr) j.ex->vt.release(j.ex, &x);
                expect_eq(part.stop, KL_ED_CONVERGED);
                expect_eq(part.napply, whole.napply);
                for (int k = 0; k < nstate; k++)
                    expect_true(part.energy[k] == whole.energy[k] && part.residual[k] == whole.residual[k]);
                kl_ed_result_clear(&part);
                resumed++;
            }
            saver_close(&s);
        }
        expect_true(resumed > (c < 4 ? 5 : 0));
        kl_ed_result_clear(&whole);
        kl_ed_destroy(&ed);
        core_close(&j);
    }
    core_no_memory();
}

/* Numbers of a checkpoint that somebody wrote on purpose: refused or gone on with, and nothing else. */
static void test_damaged_checkpoint(void **state)
{
    (void)state;
    static const double wild[] = {-1, 0.5, 3, 1e9, 1e300, (double)INFINITY};
    kl_err err = {""};
    core_job j;
    core_open(&j, core_model("heisenberg", "S=1/2"), "chain:8", NULL, "h=0.3,0,0.1,0,0,0,0,0");
    kl_ed *ed = open_ed(&j, "Sz=0");
    for (int solver = KL_ED_LANCZOS; solver <= KL_ED_LOBPCG; solver++) {
        saver s = {.ex = j.ex, .n = ed->op.n, .countdown = 2};
        kl_keeper keeper = {.self = &s, .due = saver_due, .write = saver_write};
        kl_ed_opts opts = {.solver = (kl_ed_solver)solver,
                           .nstate = 2,
                           .max_basis = 7,
                           .max_apply = 60,
                           .accuracy = 1e-13,
                           .keeper = &keeper,
                           .self = &s,
                           .step = save_step};
        kl_ed_result r;
        int gone_on = 0, refused = 0;
        expect_ok(kl_ed_run(ed, &opts, NULL, NULL, &r, &err), err);
        kl_ed_result_clear(&r);
        assert_true(s.have);
        const kl_keeper again = {.from = &s.kept, .self = &s, .due = saver_due, .write = saver_write};
        opts.keeper = &again;
        opts.step = NULL;
        for (int64_t i = 0; i < s.kept.nnumber && i < 60; i++)
            for (size_t w = 0; w < sizeof wild / sizeof *wild; w += KL_TEST_WATCHED ? 2 : 1) {
                const double was = s.number[i];
                kl_test_case("%s, number %d is %g", kl_ed_solver_name[solver], (int)i, wild[w]);
                s.number[i] = wild[w];
                const kl_status st = kl_ed_run(ed, &opts, NULL, NULL, &r, &err);
                expect_true(st == KL_OK || st == KL_EINPUT || st == KL_ENOCONV);
                gone_on += st == KL_OK;
                refused += st != KL_OK;
                if (st == KL_OK) kl_ed_result_clear(&r);
                s.number[i] = was;
            }
        expect_true(gone_on > 20 && refused > 10);
        saver_close(&s);
    }
    kl_ed_destroy(&ed);
    core_close(&j);
    core_no_memory();
}

/* Numbers and vectors of another run. */
static void test_foreign_checkpoint(void **state)
{
    (void)state;
    kl_err err = {""};
    core_job j;
    core_open(&j, core_model("heisenberg", "S=1/2"), "chain:12", NULL, NULL);
    kl_ed *ed = open_ed(&j, "Sz=0");
    const double number[3] = {1, 2, 3};
    double *const zero = calloc((size_t)ed->op.n, sizeof *zero);
    const kl_dptr vector[2] = {{(uintptr_t)zero}, {(uintptr_t)zero}};
    const kl_keep from = {.nnumber = 3, .number = number, .nvector = 2, .vector = vector};
    const kl_keeper keeper = {.from = &from, .due = saver_due, .write = saver_write};
    kl_ed_opts opts = {.solver = KL_ED_LANCZOS, .nstate = 1, .keeper = &keeper};
    kl_ed_result r;
    expect_refused(kl_ed_run(ed, &opts, NULL, NULL, &r, &err), KL_EINPUT, err, "not those of a recurrence");
    opts.solver = KL_ED_LOBPCG;
    opts.nstate = 2;
    expect_refused(kl_ed_run(ed, &opts, NULL, NULL, &r, &err), KL_EINPUT, err,
                   "same solver and number of states");
    free(zero);
    kl_ed_destroy(&ed);
    core_close(&j);
    core_no_memory();
}

/* ---------------------------------------------------------------- preconditioners */

static void test_preconditioners(void **state)
{
    (void)state;
    for (int solver = KL_ED_DAVIDSON; solver <= KL_ED_LOBPCG; solver++) {
        double energy[4] = {0};
        int products[4] = {0};
        kl_err err = {""};
        core_job j;
        core_open(&j, core_model("hubbard", "F=1/2"), "ladder:4x2", NULL, "U=8");
        kl_ed *ed = open_ed(&j, "N_up=4 N_dn=4");
        for (int p = 0; p < 4; p++) {
            static const kl_ed_precondition kind[] = {KL_ED_DIAGONAL, KL_ED_BARE, KL_ED_NEUMANN,
                                                      KL_ED_NEUMANN};
            const kl_ed_opts opts = {.solver = (kl_ed_solver)solver,
                                     .nstate = 2,
                                     .accuracy = 1e-12,
                                     .seed = 5,
                                     .precondition = kind[p],
                                     .neumann = p == 3 ? 4 : 0};
            kl_ed_result r;
            kl_test_case("%s, preconditioner %s", kl_ed_solver_name[solver],
                         kl_ed_precondition_name[kind[p]]);
            expect_ok(kl_ed_run(ed, &opts, NULL, NULL, &r, &err), err);
            expect_eq(r.stop, KL_ED_CONVERGED);
            energy[p] = r.energy[0];
            products[p] = r.napply;
            expect_near(energy[p], energy[0], 1e-11 * fabs(energy[0]));
            kl_ed_result_clear(&r);
        }
        /* A series of order 2 spends three products a step and saves LOBPCG nearly half of the steps. */
        if (solver == KL_ED_LOBPCG)
            expect_true(products[2] / 3 < products[0] * 2 / 3 && products[0] < products[1]);
        kl_ed_destroy(&ed);
        core_close(&j);
    }
    core_no_memory();
}

/* ---------------------------------------------------------------- spectral functions */

typedef struct spectral_case {
    const char *model, *variant, *lattice, *sets, *charge, *op;
    int plus_hc, site;
    double eta;
    const char *order;
} spectral_case;

/* The oracle's own: O|0> in the full space, all eigenstates of the sector that it leads to. */
static void check_spectral(const spectral_case *known)
{
    const char *const charge = known->charge, *const op = known->op;
    const double eta = known->eta;
    const int site = known->site;
    kl_err err = {""};
    core_job j;
    core_open(&j, core_model(known->model, known->variant), known->lattice, known->order, known->sets);
    kl_test_case("%s, %s, %s at %d", j.name, charge, op, site);
    const kl_qn q = core_charge(j.model, charge);
    int from[KL_MAX_CHARGE] = {0}, to[KL_MAX_CHARGE] = {0}, odd;
    kl_ed *ed = open_ed(&j, charge);
    oracle *o = oracle_create(j.model, j.lat, j.par);
    double *const psi = calloc((size_t)o->dim, sizeof *psi), e0;
    for (int c = 0; c < j.model->ncharge; c++) from[c] = q.v[c];
    oracle_energies(o, from, 1, &e0, psi);
    /* O alone, on everything; its adjoint, where it comes along, leads to another sector. */
    oracle *const only = oracle_create(j.model, j.lat, j.par);
    only->nstring = 0;
    oracle_add(only, 1.0, 1, &j.lat->position[site], &known->op, known->plus_hc);
    oracle_sector *all = oracle_sector_create(only, NULL);
    kl_siteop *so = NULL;
    kl_qn shift;
    expect_ok(kl_siteop_create(j.model, op, &so, &err), err);
    expect_ok(kl_ed_spectral_shift(so, &shift, &odd, &err), err);
    const kl_qn target = kl_qn_add(j.model, q, shift);
    for (int c = 0; c < j.model->ncharge; c++) to[c] = target.v[c];
    oracle_sector *s = oracle_sector_create(o, to);
    double *const phi_full = calloc((size_t)o->dim, sizeof *phi_full),
                  *const phi = calloc((size_t)s->dim + 1, sizeof *phi), total = 0;
    for (int64_t e = 0; e < all->nelem; e++)
        phi_full[all->state[all->row[e]]] += all->value[e] * psi[all->state[all->col[e]]];
    for (int64_t i = 0; i < s->dim; i++) phi[i] = phi_full[s->state[i]];
    for (int64_t i = 0; i < s->dim; i++) total += phi[i] * phi[i];
    double *const h = oracle_dense(s), *const w = calloc((size_t)s->dim + 1, sizeof *w);
    expect_ok(kl_dense_eig((int)s->dim, h, (int)s->dim, w, &err), err);
    /* Ours. */
    kl_ed_opts opts = {.solver = KL_ED_LANCZOS, .nstate = 1, .accuracy = 1e-14, .seed = 2};
    kl_ed_result r;
    kl_dptr x;
    int64_t ld;
    expect_ok(kl_ed_run(ed, &opts, &x, &ld, &r, &err), err);
    double coef[64] = {0}, omega[60];
    coef[j.lat->position[site]] = 1.0;
    for (int i = 0; i < 60; i++) omega[i] = -2.0 + 0.25 * i;
    const kl_ed_spectral_opts so_opts = {.broadening = eta, .nomega = 60, .omega = omega};
    kl_ed_spectral out;
    expect_ok(kl_ed_spectral_run(ed, j.terms, x, r.energy[0], so, coef, &so_opts, &out, &err), err);
    expect_true(out.converged);
    expect_eq(out.dim, s->dim);
    expect_near(out.total, total, 1e-8);
    double most = 1e-3;
    double *const want = calloc(60, sizeof *want);
    for (int i = 0; i < 60; i++) {
        for (int64_t n = 0; n < s->dim; n++) {
            double overlap = 0;
            for (int64_t k = 0; k < s->dim; k++) overlap += h[k + n * s->dim] * phi[k];
            const double far = omega[i] - (w[n] - e0);
            want[i] += overlap * overlap * eta / (far * far + eta * eta) / 3.14159265358979323846;
        }
        most = fmax(most, want[i]);
    }
    /* it stops where a step changes less than 1e-6 */
    for (int i = 0; i < 60; i++) expect_near(out.a[i], want[i], 1e-5 * most);
    double sum = 0;
    for (int i = 0; i < out.npole; i++) sum += out.weight[i];
    expect_near(sum, total, 1e-8);
    kl_ed_spectral_clear(&out);
    kl_ed_result_clear(&r);
    j.ex->vt.release(j.ex, &x);
    free(psi), free(phi_full), free(phi), free(h), free(w), free(want);
    kl_siteop_destroy(&so);
    oracle_sector_destroy(&s);
    oracle_sector_destroy(&all);
    oracle_destroy((oracle **)(uintptr_t)&only);
    oracle_destroy(&o);
    kl_ed_destroy(&ed);
    core_close(&j);
}

static void test_spectral(void **state)
{
    (void)state;
    static const spectral_case known[] = {
        {"heisenberg", "S=1/2", "chain:10", "J=1 h=normal(0,0.3)", "Sz=0", "Sz", 0, 4, 0.1, NULL},
        /* more steps than states */
        {"heisenberg", "S=1/2", "chain:8", "J=1 h=normal(0,0.6)", "Sz=0", "Sz", 0, 3, 0.02, NULL},
        {"heisenberg", "S=1/2", "chain:9", "J=1 h=normal(0,0.3)", "Sz=1/2", "Sp", 1, 0, 0.1, NULL},
        {"hubbard", "F=1/2", "square:3x2", "U=4 mu=normal(0,0.3)", "N_up=2 N_dn=3", "cdag_up", 1, 3, 0.1,
         NULL},
        {"hubbard", "F=1/2", "square:3x2", "U=4 mu=normal(0,0.3)", "N_up=3 N_dn=3", "c_dn", 1, 4, 0.1,
         "3,1,0,5,4,2"},
        {"hubbard", "F=1/2", "square:3x2", "U=4 mu=normal(0,0.3)", "N_up=3 N_dn=2", "n_up", 0, 1, 0.1,
         "3,1,0,5,4,2"},
        {"tj", NULL, "chain:6", "J=0.4", "N_up=2 N_dn=1", "c_up", 1, 2, 0.1, NULL},
        {"kondo", "S=1/2", "chain:4", "J=1.3", "N=3 Sz=1/2", "cdag_dn", 1, 1, 0.1, NULL},
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) check_spectral(&known[k]);
    core_no_memory();
}

/* Sectors that do not exist, and operators that lead nowhere in particular. */
static void test_spectral_edges(void **state)
{
    (void)state;
    kl_err err = {""};
    core_job j;
    core_open(&j, core_model("hubbard", "F=1/2"), "chain:4", NULL, "U=4");
    kl_ed *ed = open_ed(&j, "N_up=4 N_dn=1");
    kl_siteop *op = NULL, *mixed = NULL;
    double coef[4] = {1, 0, 0, 0};
    kl_dptr x;
    kl_ed_spectral out;
    kl_ed_spectral_opts opts = {.broadening = 0.1};
    expect_ok(kl_siteop_create(j.model, "cdag_up", &op, &err), err);
    expect_ok(kl_siteop_create(j.model, "c_up+cdag_up", &mixed, &err), err);
    expect_ok(j.ex->vt.alloc(j.ex, ed->op.n, &x, &err), err);
    expect_ok(kl_ed_random(ed, 1, x, &err), err);
    expect_ok(kl_ed_spectral_run(ed, j.terms, x, 0.0, op, coef, &opts, &out, &err), err);
    expect_true(out.total == 0.0 && out.dim == 0 && out.converged && out.npole == 0 && out.nomega > 0 &&
                out.a[0] == 0.0);
    kl_ed_spectral_clear(&out);
    expect_refused(kl_ed_spectral_run(ed, j.terms, x, 0.0, mixed, coef, &opts, &out, &err), KL_EINPUT, err,
                   "more ways than one");
    opts.broadening = 0.0;
    expect_refused(kl_ed_spectral_run(ed, j.terms, x, 0.0, op, coef, &opts, &out, &err), KL_EINPUT, err,
                   "above 0");
    j.ex->vt.release(j.ex, &x);
    kl_siteop_destroy(&op);
    kl_siteop_destroy(&mixed);
    kl_ed_destroy(&ed);
    core_close(&j);
    core_no_memory();
}

/* ---------------------------------------------------------------- thermodynamics */

/* Of electrons N_up and N_dn come first here, and their sum and half difference after them. */
static double thermal_charge(const kl_model *m, int c, kl_qn q)
{
    const double first = (double)q.v[0] * m->charge[0].unit_num / m->charge[0].unit_den;
    return c == 0 ? first : c == 1 ? q.v[1] : c == 2 ? q.v[0] + q.v[1] : 0.5 * (q.v[0] - q.v[1]);
}

static void thermal_case(const char *model, const char *variant, const char *lattice, const char *sets)
{
    kl_err err = {""};
    core_job j;
    core_open(&j, core_model(model, variant), lattice, NULL, sets);
    oracle *o = oracle_create(j.model, j.lat, j.par);
    int nq;
    kl_qn *q = core_sectors(&j, INT32_MAX, &nq);
    int64_t n = 0;
    double *const e = calloc((size_t)o->dim, sizeof *e);
    kl_qn *const of = calloc((size_t)o->dim, sizeof *of);
    kl_thermal *sum[2] = {NULL, NULL};
    for (int way = 0; way < 2; way++) {
        const kl_thermal_opts opts = {
            .nsample = 40, .nstep = way ? 60 : 0, .full = way ? 1 : 5000, .seed = 11};
        expect_ok(kl_thermal_create(j.model, &opts, &sum[way], &err), err);
    }
    for (int i = 0; i < nq; i++) {
        int stopped;
        const int have = oracle_energies(o, core_of(q[i]).charge, (int)(o->dim - n), e + n, NULL);
        for (int k = 0; k < have; k++) of[n + k] = q[i];
        n += have;
        for (int way = 0; way < 2; way++) {
            kl_ed *ed = NULL;
            expect_ok(kl_ed_create(j.terms, q[i], KL_BIPARTITION_AUTO, j.ex, &ed, &err), err);
            expect_ok(kl_thermal_add(sum[way], ed, &stopped, &err), err);
            expect_eq(stopped, 0);
            kl_ed_destroy(&ed);
        }
    }
    expect_eq(n, o->dim);
    kl_thermal_charge charge[KL_MAX_CHI];
    const int nchi = kl_thermal_charges(j.model, charge);
    expect_eq(nchi, strcmp(j.model->charge[0].name, "N_up") == 0 ? 4 : 1);
    for (double t = 0.05; t < 20; t *= 2.5) {
        double low = INFINITY, z = 0, u = 0, u2 = 0, m[KL_MAX_CHI] = {0}, m2[KL_MAX_CHI] = {0};
        for (int64_t i = 0; i < n; i++) low = fmin(low, e[i]);
        for (int64_t i = 0; i < n; i++) {
            const double w = exp(-(e[i] - low) / t);
            z += w;
            u += w * (e[i] - low);
            u2 += w * (e[i] - low) * (e[i] - low);
            for (int c = 0; c < nchi; c++) {
                const double value = thermal_charge(j.model, c, of[i]);
                m[c] += w * value;
                m2[c] += w * value * value;
            }
        }
        const double heat = (u2 / z - u / z * (u / z)) / t / t, entropy = log(z) + u / z / t;
        kl_thermal_row r;
        for (int way = 0; way < 2; way++) {
            kl_test_case("%s, T=%g, %s", j.name, t, way ? "typical states" : "all energies");
            expect_ok(kl_thermal_evaluate(sum[way], t, &r, &err), err);
            const double more = way ? 6.0 : 0.0;
            expect_near(r.energy, low + u / z, 1e-9 + more * r.energy_error);
            expect_near(r.heat, heat, 1e-8 + more * r.heat_error);
            expect_near(r.entropy, entropy, 1e-9 + more * r.entropy_error);
            for (int c = 0; c < nchi; c++)
                expect_near(r.chi[c], (m2[c] / z - m[c] / z * (m[c] / z)) / t, 1e-9 + more * r.chi_error[c]);
            /* An error bar that is no bar would pass the above. */
            expect_true(way ? r.energy_error < 0.05 * fabs(low) && r.entropy_error < 0.3
                            : r.energy_error == 0.0);
        }
    }
    const kl_thermal_facts f = kl_thermal_about(sum[1]);
    expect_eq(f.nsector, nq);
    expect_true(f.dim == (double)o->dim);
    kl_thermal_row none;
    expect_refused(kl_thermal_evaluate(sum[0], 0.0, &none, &err), KL_EINPUT, err, "above 0");
    for (int way = 0; way < 2; way++) kl_thermal_destroy(&sum[way]);
    free(e), free(of);
    kl_free(&q);
    oracle_destroy(&o);
    core_close(&j);
}

static void test_thermal(void **state)
{
    (void)state;
    thermal_case("heisenberg", "S=1/2", "ring:10", "J=1");
    thermal_case("hubbard", "F=1/2", "chain:4", "U=4");
    thermal_case("tj", NULL, "ring:6", "J=0.5");
    core_no_memory();
}

/* A ring by so many typical states, where no sector is small; 0: by all its energies. */
static kl_thermal_row typical(int nsample, uint64_t seed, double temperature)
{
    kl_err err = {""};
    core_job j;
    core_open(&j, core_model("heisenberg", "S=1/2"), "ring:8", NULL, NULL);
    kl_ed *ed = open_ed(&j, "Sz=0");
    kl_thermal *sum = NULL;
    kl_thermal_row r;
    int stopped;
    const kl_thermal_opts opts = {.nsample = nsample ? nsample : 1, .full = nsample ? 1 : 5000, .seed = seed};
    expect_ok(kl_thermal_create(j.model, &opts, &sum, &err), err);
    expect_ok(kl_thermal_add(sum, ed, &stopped, &err), err);
    expect_ok(kl_thermal_evaluate(sum, temperature, &r, &err), err);
    kl_thermal_destroy(&sum);
    kl_ed_destroy(&ed);
    core_close(&j);
    return r;
}

/* Where only the lowest states count there is nothing that a random vector could tell: a ring in one sector
   of 924 states, colder than its gap, against all its energies. */
static void test_thermal_cold(void **state)
{
    (void)state;
    kl_err err = {""};
    core_job j;
    kl_thermal *sum[2] = {NULL, NULL};
    kl_thermal_row r, exact;
    int stopped;
    core_open(&j, core_model("heisenberg", "S=1/2"), "ring:12", NULL, NULL);
    kl_ed *ed = open_ed(&j, "Sz=0");
    for (int way = 0; way < 2; way++) {
        const kl_thermal_opts opts = {.nsample = 4, .full = way ? 5000 : 0, .seed = 3};
        expect_ok(kl_thermal_create(j.model, &opts, &sum[way], &err), err);
        expect_ok(kl_thermal_add(sum[way], ed, &stopped, &err), err);
    }
    for (double t = 0.01; t < 0.2; t *= 2) {
        expect_ok(kl_thermal_evaluate(sum[0], t, &r, &err), err);
        expect_ok(kl_thermal_evaluate(sum[1], t, &exact, &err), err);
        kl_test_case("ring of 12, T=%g", t);
        expect_near(r.energy, exact.energy, 1e-10 + 6 * r.energy_error);
        expect_near(r.heat, exact.heat, 1e-9 + 6 * r.heat_error);
        expect_near(r.entropy, exact.entropy, 1e-10 + 6 * r.entropy_error);
        /* samples alone: a third of a unit of the entropy, whatever the temperature */
        expect_true(r.energy_error < (t < 0.05 ? 1e-10 : 1e-3) && r.entropy_error < (t < 0.05 ? 1e-9 : 1e-2));
    }
    for (int way = 0; way < 2; way++) kl_thermal_destroy(&sum[way]);
    kl_ed_destroy(&ed);
    core_close(&j);
    core_no_memory();
}

/* At an infinite temperature two samples make the mean of each: no sample of one seed may be one of
   another. */
static void test_thermal_seeds(void **state)
{
    (void)state;
    double one[4], two[4];
    for (int s = 0; s < 4; s++) {
        kl_test_case("typical states, seed %d", s + 1);
        one[s] = typical(1, (uint64_t)s + 1, 1e9).energy;
        two[s] = typical(2, (uint64_t)s + 1, 1e9).energy;
        expect_true(two[s] == typical(2, (uint64_t)s + 1, 1e9).energy);
    }
    kl_thermal_row r = typical(1, 1, 0.5);
    /* nobody knows */
    expect_true(isfinite(r.energy) && isnan(r.energy_error) && isnan(r.heat_error) &&
                isnan(r.entropy_error) && isnan(r.chi_error[0]));
    r = typical(2, 1, 0.5);
    /* one sector has one charge */
    expect_true(r.energy_error > 0 && r.heat_error > 0 && r.entropy_error > 0 && r.chi_error[0] == 0.0);
    for (int s = 0; s < 4; s++)
        for (int other = 0; other < 4; other++)
            if (other != s) expect_true(fabs(2 * two[s] - one[s] - one[other]) > 1e-5);
    core_no_memory();
}

/* Few samples may agree by chance: the spread of three made a bar twenty times too small. */
static void test_thermal_few(void **state)
{
    (void)state;
    for (double t = 0.15; t < 1; t *= 2) {
        const kl_thermal_row exact = typical(0, 1, t);
        double outside = 0;
        for (int s = 1; s <= 40; s++) {
            const kl_thermal_row r = typical(2, (uint64_t)s, t);
            kl_test_case("two typical states, T=%g, seed %d", t, s);
            expect_near(r.energy, exact.energy, 5 * r.energy_error);
            expect_near(r.heat, exact.heat, 5 * r.heat_error);
            expect_near(r.entropy, exact.entropy, 5 * r.entropy_error);
            outside += fabs(r.energy - exact.energy) > r.energy_error;
        }
        kl_test_case("two typical states, T=%g: %g of 40 outside one bar", t, outside);
        expect_true(outside >= 1 && outside <= 16); /* a bar is no more than what it says */
    }
    core_no_memory();
}

/* ---------------------------------------------------------------- broken off, and the same bits */

static int stop_when_saved(void *self, int sample, int step)
{
    (void)sample, (void)step;
    return saver_stops(self);
}

/* All sectors that are not in yet; *stopped as the last one says. s: NULL, or what keeps it. */
static void add_rest(core_job *j, const kl_qn *q, int nq, kl_thermal *sum, saver *s, int *stopped)
{
    kl_err err = {""};
    *stopped = 0;
    for (int i = (int)kl_thermal_about(sum).nsector; i < nq && !*stopped; i++) {
        kl_ed *ed = NULL;
        expect_ok(kl_ed_create(j->terms, q[i], KL_BIPARTITION_AUTO, j->ex, &ed, &err), err);
        if (s != NULL) s->n = kl_linop_all(&ed->op);
        expect_ok(kl_thermal_add(sum, ed, stopped, &err), err);
        kl_ed_destroy(&ed);
    }
}

static void test_thermal_broken_off(void **state)
{
    (void)state;
    kl_err err = {""};
    core_job j;
    core_open(&j, core_model("heisenberg", "S=1/2"), "ring:10", NULL, NULL);
    int nq, stopped, resumed = 0, between = 0;
    kl_qn *q = core_sectors(&j, INT32_MAX, &nq);
    kl_thermal_opts opts = {.nsample = 3, .nstep = 24, .full = 30, .seed = 5};
    kl_thermal *sum = NULL;
    kl_thermal_row whole, row;
    expect_ok(kl_thermal_create(j.model, &opts, &sum, &err), err);
    add_rest(&j, q, nq, sum, NULL, &stopped);
    expect_ok(kl_thermal_evaluate(sum, 0.3, &whole, &err), err);
    const kl_thermal_facts facts = kl_thermal_about(sum);
    kl_thermal_destroy(&sum);
    for (int i = 0; i < 1200; i += KL_TEST_WATCHED ? 61 : 17) {
        const int after = i % 600 + 1, looks = i >= 600;
        saver s = {.ex = j.ex, .countdown = looks ? 0 : after, .looks = looks ? after : 0};
        kl_keeper keeper = {.self = &s, .due = saver_due, .write = saver_write};
        kl_thermal_opts now = opts;
        now.keeper = &keeper;
        now.self = &s;
        now.step = stop_when_saved;
        kl_test_case("typical states, %s %d", looks ? "stopped at look" : "broken off at", after);
        expect_ok(kl_thermal_create(j.model, &now, &sum, &err), err);
        add_rest(&j, q, nq, sum, &s, &stopped);
        kl_thermal_destroy(&sum);
        if (!s.have) continue;
        const kl_keeper again = {.from = &s.kept, .self = &s, .due = saver_due, .write = saver_write};
        now = opts;
        now.keeper = &again;
        expect_ok(kl_thermal_create(j.model, &now, &sum, &err), err);
        add_rest(&j, q, nq, sum, &s, &stopped);
        expect_ok(kl_thermal_evaluate(sum, 0.3, &row, &err), err);
        expect_true(memcmp(&row, &whole, sizeof row) == 0);
        const kl_thermal_facts f = kl_thermal_about(sum);
        expect_true(f.nsector == facts.nsector && f.nfull == facts.nfull && f.napply == facts.napply &&
                    f.dim == facts.dim && f.lowest == facts.lowest);
        kl_thermal_destroy(&sum);
        resumed++;
        between += s.kept.nvector == 0;
        static const struct {
            int at;
            double value;
        } wrong[] = {{0, -1e5}, {0, 0.5}, {1, 1e18}, {2, NAN}, {5, 3}, {6, 1e300}, {6, -1}, {7, 17}};
        for (unsigned k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            const double was = s.number[wrong[k].at];
            s.number[wrong[k].at] = wrong[k].value;
            expect_refused(kl_thermal_create(j.model, &now, &sum, &err), KL_EINPUT, err, "not those");
            s.number[wrong[k].at] = was;
        }
        s.kept.nnumber -= 1; /* damaged */
        if (s.kept.nvector > 0) {
            expect_ok(kl_thermal_create(j.model, &now, &sum, &err), err);
            kl_ed *ed = NULL;
            expect_ok(
                kl_ed_create(j.terms, q[kl_thermal_about(sum).nsector], KL_BIPARTITION_AUTO, j.ex, &ed, &err),
                err);
            expect_refused(kl_thermal_add(sum, ed, &stopped, &err), KL_EINPUT, err, "not those");
            kl_ed_destroy(&ed);
            kl_thermal_destroy(&sum);
        } else {
            expect_refused(kl_thermal_create(j.model, &now, &sum, &err), KL_EINPUT, err, "not those");
        }
        saver_close(&s);
    }
    expect_true(resumed > (KL_TEST_WATCHED ? 5 : 25) && between > 0);
    kl_free(&q);
    core_close(&j);
    core_no_memory();
}

static int stop_curve(void *self, int step, double change)
{
    (void)step, (void)change;
    return saver_stops(self);
}

static void test_spectral_broken_off(void **state)
{
    (void)state;
    kl_err err = {""};
    core_job j;
    core_open(&j, core_model("hubbard", "F=1/2"), "ladder:4x2", NULL, "U=4");
    kl_ed *ed = open_ed(&j, "N_up=3 N_dn=3");
    kl_ed_result r;
    kl_dptr x;
    int64_t ld;
    kl_siteop *op = NULL;
    int resumed = 0;
    double coef[8] = {0, 1, 0, 0, -0.5};
    expect_ok(kl_ed_run(ed, &(kl_ed_opts){.nstate = 1, .accuracy = 1e-12, .seed = 7}, &x, &ld, &r, &err),
              err);
    expect_ok(kl_siteop_create(j.model, "cdag_up", &op, &err), err);
    const kl_ed_spectral_opts opts = {.broadening = 0.1, .max_steps = 60};
    kl_ed_spectral whole, part;
    expect_ok(kl_ed_spectral_run(ed, j.terms, x, r.energy[0], op, coef, &opts, &whole, &err), err);
    for (int i = 1; i < 2 * whole.nstep; i += i % whole.nstep < 25 ? 1 : 13) {
        const int after = i % whole.nstep, looks = i >= whole.nstep;
        saver s = {.ex = j.ex, .countdown = looks ? 0 : after, .looks = looks ? after : 0};
        const kl_keeper keeper = {.self = &s, .due = saver_due, .write = saver_write};
        kl_ed_spectral_opts now = opts;
        now.keeper = &keeper;
        now.self = &s;
        now.step = stop_curve;
        kl_test_case("a curve of %d levels, %s %d", whole.nstep, looks ? "stopped at look" : "broken off at",
                     after);
        expect_ok(kl_ed_spectral_run(ed, j.terms, x, r.energy[0], op, coef, &now, &part, &err), err);
        const int stopped = part.stopped;
        kl_ed_spectral_clear(&part);
        if (s.have && stopped) {
            const kl_keeper again = {.from = &s.kept, .self = &s, .due = saver_due, .write = saver_write};
            now = opts;
            now.keeper = &again;
            expect_ok(kl_ed_spectral_run(ed, j.terms, x, r.energy[0], op, coef, &now, &part, &err), err);
            expect_true(part.nstep == whole.nstep && part.converged == whole.converged &&
                        part.total == whole.total);
            expect_true(memcmp(part.a, whole.a, sizeof(double) * (size_t)whole.nomega) == 0);
            expect_true(memcmp(part.weight, whole.weight, sizeof(double) * (size_t)whole.npole) == 0);
            kl_ed_spectral_clear(&part);
            resumed++;
        }
        saver_close(&s);
    }
    expect_true(resumed > 15);
    kl_ed_spectral_clear(&whole);
    kl_siteop_destroy(&op);
    j.ex->vt.release(j.ex, &x);
    kl_ed_result_clear(&r);
    kl_ed_destroy(&ed);
    core_close(&j);
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stored),
        cmocka_unit_test(test_broken_off),
        cmocka_unit_test(test_damaged_checkpoint),
        cmocka_unit_test(test_foreign_checkpoint),
        cmocka_unit_test(test_preconditioners),
        cmocka_unit_test(test_spectral),
        cmocka_unit_test(test_spectral_edges),
        cmocka_unit_test(test_thermal),
        cmocka_unit_test(test_thermal_cold),
        cmocka_unit_test(test_thermal_seeds),
        cmocka_unit_test(test_thermal_few),
        cmocka_unit_test(test_thermal_broken_off),
        cmocka_unit_test(test_spectral_broken_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
