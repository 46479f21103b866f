/* Every truncation of whole runs as users start them, two sites and one, against the best possible of the
   same wavefunctions for as many states: what is left out, and what is said to be.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "kl_test.h"
#include "base/dense.h"
#include "dmrg/truncate.h"

typedef struct tally {
    int nlooked, ntried; /* truncations, and those among them that looked for leading states */
    double best, found; /* sums of what they leave out */
    double worst; /* of one */
} tally;

/* Segment c of d's side, all wavefunctions side by side, to be freed; NULL: there is none. */
static double *segment(const kl_density *d, const double *psi, int c, int *rows, int *cols)
{
    const kl_layout *const lay = d->wave.layout;
    const int left = d->side == KL_LEFT, i = left ? c : lay->back[c], j = left ? lay->pair[c] : c;
    if (i < 0 || j < 0) return NULL;
    const int p = d->wave.row->basis.dim[i], q = d->wave.col->basis.dim[j];
    *rows = left ? p : q;
    *cols = (left ? q : p) * d->nstate;
    double *const a = malloc(sizeof *a * (size_t)*rows * (size_t)*cols);
    for (int s = 0; s < d->nstate; s++)
        for (int x = 0; x < p; x++)
            for (int y = 0; y < q; y++)
                a[left ? x + ((int64_t)s * q + y) * p : y + ((int64_t)s * p + x) * q] =
                    psi[s * lay->n + lay->off[i] + x + (int64_t)y * p];
    return a;
}

static int descending(const void *pa, const void *pb)
{
    const double a = *(const double *)pa, b = *(const double *)pb;
    return a > b ? -1 : a < b;
}

/* |a - Q Q^T a|^2, from the difference itself. */
static double lost(int rows, int cols, const double *a, int n, const double *q)
{
    double sum = 0, *const rest = malloc(sizeof *rest * (size_t)rows);
    for (int z = 0; z < cols; z++) {
        memcpy(rest, a + (int64_t)z * rows, sizeof *rest * (size_t)rows);
        for (int x = 0; x < n; x++) {
            const double dot = core_dot(rows, q + (int64_t)x * rows, rest);
            for (int r = 0; r < rows; r++) rest[r] -= dot * q[r + (int64_t)x * rows];
        }
        sum += core_dot(rows, rest, rest);
    }
    free(rest);
    return sum;
}

static void look(void *self, kl_exec *ex, const kl_density *d, const kl_trunc_opts *o, const kl_isometry *iso,
                 kl_dptr data, const kl_trunc_info *info)
{
    tally *const t = self;
    const kl_basis *const mine = kl_density_mine(d);
    const double *const psi = (const double *)d->wave.psi.addr, *const all = (const double *)data.addr;
    double *const w = malloc(sizeof *w * (size_t)mine->total), out = 0, best = 0;
    int64_t n = 0;
    kl_err err;
    (void)ex;
    if (o->noise > 0 || o->fill) { /* these are by the whole density matrix, with what noise adds */
        free(w);
        return;
    }
    for (int c = 0; c < mine->nsec; c++) {
        int rows, cols, kept = 0;
        int64_t at = 0;
        double *const a = segment(d, psi, c, &rows, &cols), *s;
        if (!a) continue;
        for (int k = 0; k < iso->basis.nsec; k++)
            if (iso->sec[k] == c) kept = iso->basis.dim[k], at = iso->off[k];
        out += lost(rows, cols, a, kept, all + at);
        const int few = rows < cols ? rows : cols;
        s = malloc(sizeof *s * (size_t)few);
        expect_ok(kl_dense_svd(rows, cols, a, rows, s, NULL, 1, NULL, 1, &err), err);
        for (int k = 0; k < few; k++) w[n++] = s[k] * s[k];
        free(s);
        free(a);
    }
    qsort(w, (size_t)n, sizeof *w, descending);
    for (int64_t i = n - 1; i >= info->m; i--) best += w[i];
    free(w);
    out /= d->nstate, best /= d->nstate;
    /* below, density matrices know nothing */
    const double floor = o->precise ? 1e-24 : 1e-15;
    t->nlooked++;
    t->ntried += info->ntried > 0;
    if (best > 100 * floor) {
        t->best += best;
        t->found += out;
        t->worst = fmax(t->worst, out / best);
    }
    if (out > 1.001 * best + floor)
        print_error("%s: %.3e left out, %.3e at best, m %d, one site %d, precise %d\n", kl_test_text, out,
                    best, info->m, o->narrow, o->precise);
    expect_true(out <= 1.001 * best + floor);
    expect_near(info->discarded, out, 1e-3 * out + (o->precise ? 1e-20 : 1e-13));
}

static const struct {
    const char *model, *variant, *lattice, *sets, *charge;
    double accuracy;
    int nstate;
    kl_sites sites;
} runs[] = {
    {"heisenberg", NULL, "chain:40", NULL, "Sz=0", 1e-9, 1, KL_SITES_AUTO},
    {"heisenberg", NULL, "chain:24", NULL, "Sz=0", 1e-8, 1, KL_SITES_TWO},
    {"heisenberg", "S=1", "chain:16", NULL, "Sz=1", 1e-7, 2, KL_SITES_AUTO},
    {"heisenberg", NULL, "cylinder:4x4", NULL, "Sz=0", 1e-6, 1, KL_SITES_AUTO},
    {"hubbard", NULL, "chain:16", "U=8", "N_up=8 N_dn=8", 1e-9, 1, KL_SITES_AUTO},
    {"hubbard", NULL, "chain:12", "U=4", "N_up=6 N_dn=5", 1e-9, 1, KL_SITES_TWO},
    {"hubbard", NULL, "cylinder:4x3", "U=8", "N_up=6 N_dn=6", 1e-5, 1, KL_SITES_AUTO},
    {"free_spins", NULL, "chain:14", "hx=0.7", NULL, 1e-9, 1, KL_SITES_AUTO},
};

static void test_runs(void **state)
{
    kl_err err = {""};
    int tried = 0;
    (void)state;
    /* of those that are watched one by two sites, one of two flavours and one without charges */
    for (size_t c = KL_TEST_WATCHED; c < sizeof runs / sizeof *runs; c += KL_TEST_WATCHED ? 3 : 1)
        for (kl_truncation way = KL_TRUNCATION_AUTO; way < KL_NTRUNCATION; way++) {
            tally sum = {0};
            core_job j;
            core_open(&j, core_model(runs[c].model, runs[c].variant), runs[c].lattice, NULL, runs[c].sets);
            const kl_qn target = core_charge(j.model, runs[c].charge);
            core_run r = core_auto(runs[c].accuracy, target, runs[c].nstate, KL_STRATEGY_AUTO);
            const kl_trunc_watch watch = {&sum, look};
            const kl_dmrg_monitor monitor = {.truncations = &watch};
            r.opts.truncation = way;
            r.opts.sites = runs[c].sites;
            kl_test_case("%s %s, %s", runs[c].model, runs[c].lattice, kl_truncation_name[way]);
            expect_ok(kl_dmrg_run(j.terms, j.ex, &r.opts, &monitor, &r.state, &r.res, &err), err);
            print_message("%s: %d truncations, %d by products, %.6f of the best, %.6f at most\n",
                          kl_test_text, sum.nlooked, sum.ntried, sum.found / sum.best, sum.worst);
            expect_true(sum.nlooked > 0);
            tried += sum.ntried;
            core_drop(&r);
            core_close(&j);
        }
    expect_true(tried > (KL_TEST_WATCHED ? 10 : 100));
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
