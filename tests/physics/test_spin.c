/* Total spin as a charge: every level of a list from exact diagonalization, two levels of one spin, random
   models that are scalars, in any order of their sites, against the same models with Sz, entropies and
   spectra of both, and saved states that go on.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/canonical.h"
#include "dmrg/engine.h"
#include "dmrg/measure.h"
#include "oracle.h"
#include "spin_kit.h"

/* ---- levels that are known ---- */

typedef struct level {
    char model[64], lattice[32], parameters[64], particles[16], energy[40], next[40];
    int sites, spin;
} level;

static void check_level(const level *l, kl_strategy strategy, int nstate)
{
    char text[64], path[600];
    const char *setting[9] = {NULL};
    system_t s;
    int n = 0;
    snprintf(text, sizeof text, "%s", l->parameters);
    for (char *next = text, *word; n < 8 && (word = strsep(&next, ",")) != NULL;) setting[n++] = word;
    const int own = strchr(l->model, '/') != NULL;
    snprintf(path, sizeof path, "%s%s", own ? kl_test_data("../../") : "", l->model);
    open_system(&s, path, NULL, 1, l->lattice, l->sites, setting);
    kl_err err;
    kl_qn target = kl_qn_zero();
    double energy[2] = {NAN, NAN};
    char spin[16];
    kl_state *state = NULL;
    snprintf(spin, sizeof spin, "%d/2", l->spin);
    expect_ok(kl_qn_set(s.model, &target, "S", spin, &err), err);
    if (l->particles[0] != '-') expect_ok(kl_qn_set(s.model, &target, "N", l->particles, &err), err);
    kl_test_case("%s %s %d %s N=%s 2S=%d", l->model, l->lattice, l->sites, l->parameters, l->particles,
                 l->spin);
    levels(&s, target, strategy, nstate, energy, &state);
    expect_near(energy[0], atof(l->energy), 1e-11);
    if (nstate > 1) expect_near(energy[1], atof(l->next), 1e-9);
    kl_state_destroy(&state);
    close_system(&s);
}

static int read_level(FILE *f, level *l)
{
    return fscanf(f, "%63s %31s %d %63s %15s %d %39s %39s", l->model, l->lattice, &l->sites, l->parameters,
                  l->particles, &l->spin, l->energy, l->next) == 8;
}

/* Each by both strategies; every third with its next level. */
static void test_levels(void **unused)
{
    (void)unused;
    FILE *const f = fopen(kl_test_data("spin_levels.txt"), "r");
    char comment[256];
    level l;
    int n = 0;
    expect_true(f != NULL);
    for (int line = 0; line < 2; line++) expect_true(fgets(comment, sizeof comment, f) != NULL);
    while (read_level(f, &l)) {
        const int two = n % 3 == 0 && strcmp(l.next, "nan") != 0 && strncmp(l.model, "tests", 5) != 0;
        if (n % kl_test_stride(72, 5) == 0) {
            check_level(&l, KL_STRATEGY_L11R, two ? 2 : 1);
            check_level(&l, KL_STRATEGY_LR, 1);
        }
        n++;
    }
    fclose(f);
    expect_eq(n, 72);
}

/* ---- random models ---- */

typedef struct writer {
    char text[6000];
    size_t used;
    uint64_t seed;
    int nsite;
} writer;

static int draw(writer *w, int n) { return (int)(kl_test_bits(&w->seed) % (uint64_t)n); }

static void put(writer *w, const char *fmt, ...) KL_PRINTF(2, 3);
static void put(writer *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    w->used += (size_t)vsnprintf(w->text + w->used, sizeof w->text - w->used, fmt, args);
    va_end(args);
}

/* named({"2", "0", ...}, x * what): n different sites in any order; nothing where there are fewer. */
static void put_on(writer *w, int n, const char *what)
{
    int site[8];
    if (n > w->nsite) return;
    for (int i = 0; i < w->nsite; i++) {
        const int k = draw(w, i + 1);
        site[i] = site[k];
        site[k] = i;
    }
    put(w, "named({");
    for (int i = 0; i < n; i++) put(w, "%s\"%d\"", i > 0 ? ", " : "", site[i]);
    put(w, "}, %.3f * %s)\n", kl_test_uniform(&w->seed), what);
}

static void put_spins(writer *w)
{
    for (int k = 0; k < 4; k++) put_on(w, 2, k % 2 ? "S_dot_S(i,j)*S_dot_S(i,j)" : "S_dot_S(i,j)");
    put_on(w, 3, "(S_dot_S(i,j)*S_dot_S(j,k) + hc)");
    put_on(w, 4, "S_dot_S(i,j)*S_dot_S(k,l)");
}

static void put_electrons(writer *w, int pairs)
{
    for (int k = 0; k < 4; k++) {
        put_on(w, 2, "(sum(s, cdag(i,s)*c(j,s)) + hc)");
        put_on(w, 2, "n(i)*n(j)");
    }
    put_on(w, 2, "S_dot_S(i,j)");
    put_on(w, 3, "T(i,j,k)");
    put_on(w, 4, "C(i,j,k,l)");
    put_on(w, 3, "C(i,j,j,k)");
    if (pairs) put_on(w, 2, "(cdag_up(i)*cdag_dn(i)*c_dn(j)*c_up(j) + hc)");
    if (pairs) put(w, "onsite(0.7 * docc(i))\n");
}

static const char *const electron_words =
    "function T(a, b, d) return cdag_up(a)*Sz(b)*c_up(d) - cdag_dn(a)*Sz(b)*c_dn(d)"
    " + cdag_up(a)*Sm(b)*c_dn(d) + cdag_dn(a)*Sp(b)*c_up(d) + hc end\n"
    "function C(a, b, d, e) return sum(s, sum(s2, cdag(a,s)*cdag(b,s2)*c(d,s2)*c(e,s))) + hc end\n";

/* Local spins on the odd sites, electrons on the others. */
static void put_both(writer *w)
{
    put(w, "named({\"0\", \"2\"}, sum(s, cdag(i,s)*c(j,s)) + hc)\n");
    put(w, "named({\"4\", \"2\"}, 0.8 * (sum(s, cdag(i,s)*c(j,s)) + hc))\n");
    put(w, "named({\"2\", \"3\", \"0\"}, 0.6 * T(i,j,k))\n");
    put(w, "onsite(\"even\", 1.3 * docc(i))\n");
    for (int k = 0; k < 4; k++) put_on(w, 2, "S_dot_S(i,j)");
}

static const struct {
    const char *site, *conserve;
    int nsite;
} kinds[] = {
    {"site(spin(1/2))", "\"Sz\"", 5},
    {"site(spin(1))", "\"Sz\"", 4},
    {"site(electron())", "\"each flavour\"", 4},
    {"site(without(electron(), \"updn\"))", "\"each flavour\"", 4},
    {"site(spin(1/2))\nsite(\"odd\", spin(1))", "\"Sz\"", 4},
    {"site(\"even\", electron())\nsite(\"odd\", spin(1/2))", "{ N = n, Sz = Sz }", 5},
    {"site(spin(1/2))\nsite(\"ends\", matrices{ states = {\"p\", \"0\", \"m\"}, spin = {\"Sz\", \"Sp\"},\n"
     "Sz = {{1, 0, 0}, {0, 0, 0}, {0, 0, -1}}, Sp = {{0, 2^0.5, 0}, {0, 0, 2^0.5}, {0, 0, 0}},\n"
     "Sm = {{0, 0, 0}, {2^0.5, 0, 0}, {0, 2^0.5, 0}} })",
     "\"Sz\"", 4},
};
enum { NKIND = sizeof kinds / sizeof *kinds };

static void write_model(writer *w, int kind)
{
    const int electrons = strstr(kinds[kind].site, "electron") != NULL;
    put(w, "-- H = random\n%s\nconserve %s\n", kinds[kind].site, kinds[kind].conserve);
    put(w, "%s", electrons ? electron_words : "");
    if (strstr(kinds[kind].site, "even") != NULL) put_both(w);
    else if (electrons) put_electrons(w, strstr(kinds[kind].site, "without") == NULL);
    else put_spins(w);
}

/* The charges with Sz = S of a state with these, in a model with Sz, with N and Sz, or with N_up and N_dn. */
static kl_qn with_component(const kl_model *m, const kl_model *spin, kl_qn q)
{
    kl_qn to = kl_qn_zero();
    const int s = q.v[kl_model_spin(spin)];
    const kl_charge *const last = &m->charge[m->ncharge - 1];
    if (strcmp(last->name, "Sz") == 0) {
        to = q;
        to.v[m->ncharge - 1] = (int16_t)(s * last->unit_den / (2 * last->unit_num));
    } else to.v[0] = (int16_t)((q.v[0] + s) / 2), to.v[1] = (int16_t)((q.v[0] - s) / 2);
    return to;
}

/* The lowest level with Sz = S is the lowest of all spins from S on. */
static void check_random(int kind, int nsite, uint64_t seed)
{
    writer w = {.seed = seed, .nsite = nsite};
    kl_err err;
    system_t spin, plain;
    kl_qn *sector = NULL;
    int64_t n = 0;
    double energy[256];
    write_model(&w, kind);
    kl_test_case("kind %d seed %llu\n%.150s", kind, (unsigned long long)seed, w.text);
    const char *const none[] = {NULL};
    open_system(&spin, "./random.lua", w.text, 1, "chain", w.nsite, none);
    open_system(&plain, "./random.lua", w.text, 0, "chain", w.nsite, none);
    expect_ok(kl_dmrg_sectors(spin.terms, &sector, &n, &err), err);
    oracle *o = oracle_create(plain.model, plain.lat, plain.par);
    expect_true(n <= 256);
    for (int64_t i = 0; i < n; i++) {
        kl_state *state = NULL;
        levels(&spin, sector[i], i % 2 ? KL_STRATEGY_LR : KL_STRATEGY_L11R, 1, &energy[i], &state);
        kl_state_destroy(&state);
    }
    for (int64_t i = 0; i < n; i++) {
        const int s = kl_model_spin(spin.model);
        double lowest = INFINITY, exact = NAN;
        for (int64_t k = 0; k < n; k++)
            if (sector[k].v[s] >= sector[i].v[s] && (s == 0 || sector[k].v[0] == sector[i].v[0]))
                lowest = fmin(lowest, energy[k]);
        const kl_qn q = with_component(plain.model, spin.model, sector[i]);
        expect_eq(oracle_energies(o, core_of(q).charge, 1, &exact, NULL), 1);
        expect_near(lowest, exact, 1e-10);
    }
    oracle_destroy(&o);
    kl_free(&sector);
    close_system(&spin);
    close_system(&plain);
}

static void test_random(void **unused)
{
    (void)unused;
    for (int round = 0; round < kl_test_rounds(2 * NKIND); round++) {
        const int kind = round % NKIND, most = kinds[kind].nsite,
                  fixed = strstr(kinds[kind].site, "even") != NULL;
        const int nsite = fixed || round < NKIND ? most : 2 + round % (most - 1);
        check_random(kind, nsite, 77u + (uint64_t)round);
    }
}

/* ---- spectra against those with Sz ---- */

static void open_canonical(const system_t *s, kl_qn target, kl_exec *ex, kl_canonical **c, double *variance)
{
    kl_err err;
    kl_state *state = NULL;
    kl_measure *m = NULL;
    double energy, again;
    levels(s, target, KL_STRATEGY_L11R, 1, &energy, &state);
    expect_ok(kl_canonical_create(ex, state, 0, c, &err), err);
    expect_ok(kl_canonical_schmidt(*c, 1, &err), err);
    expect_ok(kl_measure_create(ex, state, 0, s->lat, &m, &err), err);
    expect_ok(kl_measure_energy(m, s->terms, &again, variance, &err), err);
    expect_near(again, energy, 1e-11);
    kl_measure_destroy(&m);
    kl_state_destroy(&state);
}

static void check_spectra(const char *model, const char *lattice, int n, const char *particles)
{
    kl_err err;
    system_t spin, plain;
    kl_exec *ex = NULL;
    kl_canonical *a = NULL, *b = NULL;
    double va, vb, wa[4096], wb[4096];
    kl_qn target = kl_qn_zero();
    const char *const none[] = {NULL};
    kl_test_case("%s %s %d", model, lattice, n);
    open_system(&spin, model, NULL, 1, lattice, n, none);
    open_system(&plain, model, NULL, 0, lattice, n, none);
    if (particles != NULL) expect_ok(kl_qn_set(spin.model, &target, "N", particles, &err), err);
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    open_canonical(&spin, target, ex, &a, &va);
    open_canonical(&plain, with_component(plain.model, spin.model, target), ex, &b, &vb);
    expect_near(va, 0, 1e-16);
    for (int cut = 1; cut < a->nsite; cut++) {
        const int na = core_cut_weights(a, cut, wa), nb = core_cut_weights(b, cut, wb);
        for (int i = 0; i < na && i < nb; i++) expect_near(wa[i], wb[i], 1e-9 * (wb[i] > 1e-4) + 1e-10);
        expect_true(na > 1);
        expect_near(kl_canonical_entropy(a, cut), kl_canonical_entropy(b, cut), 1e-7);
    }
    kl_canonical_destroy(&a);
    kl_canonical_destroy(&b);
    kl_exec_close(&ex);
    close_system(&spin);
    close_system(&plain);
}

static void test_spectra(void **unused)
{
    (void)unused;
    check_spectra("heisenberg", "chain", 10, NULL);
    check_spectra("heisenberg", "ring", 8, NULL);
    check_spectra("hubbard", "chain", 6, "6");
}

/* ---- what the spin refuses ---- */

static void test_refusals(void **unused)
{
    (void)unused;
    static const char *const field[] = {"h=0.1", NULL}, *const easy[] = {"Delta=0.5", NULL};
    kl_err err;
    for (int k = 0; k < 2; k++) {
        kl_tables *tables = NULL;
        kl_lattice *lat = NULL;
        kl_params *par = NULL;
        kl_terms *terms = NULL;
        const char *const *const setting = k ? easy : field;
        expect_ok(kl_modelread_spin("heisenberg", NULL, 0, setting, &tables, &err), err);
        expect_ok(kl_lattice_create("chain", 6, 0, &lat, &err), err);
        expect_ok(kl_params_create(tables->model, lat, &par, &err), err);
        set_all(par, tables->model, setting);
        expect_refused(
            kl_terms_create(tables->model, lat, par, &terms, &err), KL_EINPUT, err,
            k ? "heisenberg.lua:11: what is left of J*Delta * Sz(i)*Sz(j) beside its scalar is the 0 "
                "component of a tensor of rank 2; with J - J*Delta = 0, or without S"
              : "heisenberg.lua:12: -h(i) * Sz(i) is the 0 component of a vector; with h(i) = 0, "
                "or without S (here it is 0.1)");
        kl_params_destroy(&par);
        kl_lattice_destroy(&lat);
        kl_tables_destroy(&tables);
    }
    kl_tables *tables = NULL;
    expect_refused(kl_modelread_spin("pairing", NULL, 0, NULL, &tables, &err), KL_EINPUT, err,
                   "has no total spin");
    expect_refused(kl_modelread_spin("nothing", NULL, 0, NULL, &tables, &err), KL_EINPUT, err, "is unknown");
}

/* ---- starts by a path ---- */

/* The energy of a path is that of pairs and fours of coupled spins; a thousandth of noise is mixed in. */
static void test_path(void **unused)
{
    static const struct {
        const char *model, *particles, *spin;
        int sites, path[9]; /* the doubled spins of the cuts */
        double energy;
    } list[] = {{"heisenberg", NULL, "0", 8, {0, 1, 0, 1, 0, 1, 0, 1, 0}, -3},
                {"heisenberg", NULL, "1", 8, {2, 1, 0, 1, 0, 1, 0, 1, 0}, -2},
                {"heisenberg", NULL, "0", 8, {0, 1, 2, 1, 0, 1, 2, 1, 0}, 0},
                {"tj", "4", "0", 6, {0, 1, 0, 0, 0, 1, 0}, -0.8}};
    (void)unused;
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        kl_err err;
        kl_exec *ex = NULL;
        kl_engine *e = NULL;
        system_t s;
        kl_qn target = kl_qn_zero();
        int start[8];
        double energy;
        open_system(&s, list[k].model, NULL, 1, "chain", list[k].sites, (const char *const[]){NULL});
        if (list[k].particles != NULL)
            expect_ok(kl_qn_set(s.model, &target, "N", list[k].particles, &err), err);
        expect_ok(kl_qn_set(s.model, &target, "S", list[k].spin, &err), err);
        for (int p = 0; p < list[k].sites; p++) { /* the first step that fits: a hole where the spin stays */
            const kl_site_type *const site = s.terms->type[p];
            const int d = list[k].path[p + 1] - list[k].path[p], at = kl_model_spin(s.model);
            for (start[p] = 0; site->state_charge[start[p]][at] != d;) start[p]++;
        }
        expect_ok(kl_exec_open_host(1, &ex, &err), err);
        const kl_engine_opts o = {.target = target, .nstate = 1, .seed = 4};
        expect_ok(kl_engine_create(s.terms, ex, &o, &e, &err), err);
        expect_ok(kl_engine_start(e, 12, 1, start, &err), err);
        expect_ok(kl_engine_energy(e, &energy, &err), err);
        kl_test_case("path %zu", k);
        expect_near(energy, list[k].energy, 0.02);
        start[0] = start[0] == s.terms->type[0]->dim - 1 ? start[0] - 1 : s.terms->type[0]->dim - 1;
        expect_refused(kl_engine_start(e, 12, 1, start, &err), KL_EINPUT, err, "the start state has");
        kl_engine_destroy(&e);
        kl_exec_close(&ex);
        close_system(&s);
    }
}

/* ---- one site at a time ---- */

static void test_one_site(void **unused)
{
    static const struct {
        const char *model, *lattice, *setting[2], *particles, *spin;
        int sites, nstate;
    } list[] = {{"heisenberg", "chain", {NULL}, NULL, "0", 30, 1},
                {"heisenberg", "chain", {NULL}, NULL, "2", 30, 2},
                {"hubbard", "chain", {"U=8", NULL}, "16", "1", 16, 1},
                {"hubbard", "ladder:8x2", {"U=6", NULL}, "14", "0", 16, 1}};
    (void)unused;
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        kl_err err;
        kl_exec *ex = NULL;
        system_t s;
        kl_dmrg_result r[2] = {{0}};
        kl_qn target = kl_qn_zero();
        open_system(&s, list[k].model, NULL, 1, list[k].lattice, list[k].sites, list[k].setting);
        if (list[k].particles != NULL)
            expect_ok(kl_qn_set(s.model, &target, "N", list[k].particles, &err), err);
        expect_ok(kl_qn_set(s.model, &target, "S", list[k].spin, &err), err);
        expect_ok(kl_exec_open_host(1, &ex, &err), err);
        for (int one = 0; one < 2; one++) {
            kl_state *state = NULL;
            const kl_dmrg_opts o = {.strategy = k % 2 ? KL_STRATEGY_LR : KL_STRATEGY_L11R,
                                    .sites = one ? KL_SITES_ONE : KL_SITES_TWO,
                                    .nstate = list[k].nstate,
                                    .target = target,
                                    .accuracy = 1e-6,
                                    .seed = 2};
            expect_ok(kl_dmrg_run(s.terms, ex, &o, NULL, &state, &r[one], &err), err);
            expect_true(r[one].stop == KL_STOP_CONVERGED && (r[one].row[r[one].nrow - 1].sites == 1) == one);
            kl_state_destroy(&state);
        }
        kl_test_case("%s on %s, S = %s", list[k].model, list[k].lattice, list[k].spin);
        for (int i = 0; i < list[k].nstate; i++)
            expect_near(r[0].energy[i], r[1].energy[i], r[0].error_estimate + r[1].error_estimate);
        for (int one = 0; one < 2; one++) kl_dmrg_result_clear(&r[one]);
        kl_exec_close(&ex);
        close_system(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_levels),  cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_spectra), cmocka_unit_test(test_one_site),
                                       cmocka_unit_test(test_path),    cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
