/* Exact diagonalization: H v against the oracle's matrix for every model, both ways of cutting a system in two, every instruction set and any number of
   threads; energies by every solver; energies known from elsewhere; DMRG; sizes beyond 2^31.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "ed.h"
#include "kl_test.h"

#include <stdlib.h>
#include <string.h>

static const char *const lattices[] = {"chain:2", "chain:5", "ring:6", "ladder:3x2", "square:2x3", "torus:2x2", "torus:3x3", "cylinder:2x3"};
static const char *const isas[] = {"avx512", "avx2", "generic"};

/* Digits of the oracle's state. */
static void digits_of(const oracle *o, int64_t s, int *d)
{
    for (int p = 0; p < o->n; p++) d[p] = (int)(s / o->stride[p] % o->type[p]->dim);
}

/* H v, diagonal and ranks of one sector against the oracle. */
static void same_matrix(const core_job *j, const oracle *o, kl_qn q, kl_halves_form form, uint64_t seed)
{
    kl_err err = {""};
    int charge[KL_MAX_CHARGE] = {0};
    for (int c = 0; c < j->model->ncharge; c++) charge[c] = q.v[c];
    oracle_sector *const s = oracle_sector_create(o, charge);
    kl_ed *ed = NULL;
    expect_ok(kl_ed_create(j->terms, q, form, j->ex, &ed, &err), err);
    expect_eq(ed->space->dim, s->dim);
    const int64_t n = ed->op.n;
    int64_t *const at = calloc((size_t)s->dim, sizeof *at);
    double *const sign = calloc((size_t)s->dim, sizeof *sign), *const x = calloc((size_t)s->dim, sizeof *x), *const y = calloc((size_t)s->dim, sizeof *y);
    double *const v = calloc((size_t)n, sizeof *v), *const hv = calloc((size_t)n, sizeof *hv), *const first = calloc((size_t)n, sizeof *first);
    double *const diag = calloc((size_t)s->dim, sizeof *diag);
    char *const used = calloc((size_t)n, 1);
    double size = 1;
    for (int64_t i = 0; i < s->dim; i++) {
        int d[64], back[64], sg;
        digits_of(o, s->state[i], d);
        at[i] = kl_halves_rank(ed->space, d, &sg);
        expect_true(at[i] >= 0 && at[i] < n && !used[at[i]]);
        used[at[i]] = 1;
        sign[i] = sg;
        expect_true(kl_halves_unrank(ed->space, at[i], back));
        expect_true(memcmp(d, back, (size_t)o->n * sizeof *d) == 0);
        x[i] = kl_test_uniform(&seed);
        v[at[i]] = x[i] * sign[i];
    }
    for (int64_t i = 0; i < n; i++) {
        int back[64];
        expect_eq(kl_halves_unrank(ed->space, i, back), used[i]);
    }
    oracle_apply(s, x, y);
    for (int64_t e = 0; e < s->nelem; e++) {
        size = fmax(size, fabs(s->value[e]));
        if (s->row[e] == s->col[e]) diag[s->row[e]] += s->value[e];
    }
    double *d = calloc((size_t)n, sizeof *d);
    kl_kron_diagonal(ed->kron, d);
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

/* All sectors, or `most` of them spread over the list. */
static void every_sector(const core_job *j, const oracle *o, int most, uint64_t seed)
{
    kl_err err = {""};
    kl_qn *q = NULL;
    int64_t nq = 0;
    expect_ok(kl_dmrg_sectors(j->terms, &q, &nq, &err), err);
    const int64_t step = nq <= most ? 1 : nq / most;
    for (int64_t i = step / 2; i < nq; i += step) {
        char text[128];
        for (int form = KL_HALVES_AUTO; form <= KL_HALVES_FLAVOURS; form++) {
            kl_halves_size size;
            if (form == KL_HALVES_FLAVOURS && kl_halves_measure(j->terms, q[i], form, &size, &err) != KL_OK) continue;
            kl_test_case("%s, %s, form %d", j->name, kl_qn_print(j->model, q[i], text, sizeof text), form);
            same_matrix(j, o, q[i], (kl_halves_form)form, kl_test_bits(&seed));
        }
    }
    kl_free(&q);
}

static void every_lattice(const kl_model *m)
{
    uint64_t seed = m->hash + 1;
    for (size_t l = 0; l < sizeof lattices / sizeof *lattices; l++) {
        if (!core_dim(m, lattices[l], 5000)) continue;
        char order[64];
        core_job j;
        const char *const colon = strchr(lattices[l], ':') + 1, *const x = strchr(colon, 'x');
        core_random_order(x ? atoi(colon) * atoi(x + 1) : atoi(colon), kl_test_bits(&seed), order, sizeof order);
        core_open_random(&j, m, lattices[l], l % 2 ? order : NULL, kl_test_bits(&seed) % 1000000);
        oracle *o = oracle_create(m, j.lat, j.par);
        every_sector(&j, o, 5, kl_test_bits(&seed));
        oracle_destroy(&o);
        core_close(&j);
    }
    core_no_memory();
}

static void test_matrix_shipped(void **state)
{
    (void)state;
    for (int k = 0; k < kl_models_nbuiltin; k++) every_lattice(kl_models_builtin[k]);
}

static void test_matrix_own(void **state)
{
    (void)state;
    for (int k = 0; k < core_nmodel; k++) every_lattice(core_models[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix_shipped),
        cmocka_unit_test(test_matrix_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
