/* Truncations against the best possible: see tally.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "tally.h"
#include "base/dense.h"
#include "core.h"
#include "kl_test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

void tally_look(void *self, kl_exec *ex, const kl_density *d, const kl_trunc_opts *o, const kl_isometry *iso,
                kl_dptr data, const kl_trunc_info *info)
{
    tally *const t = self;
    const kl_basis *const mine = kl_density_mine(d);
    const int filled = o->full || ex->space == KL_SPACE_DEVICE;
    const int64_t npsi = d->wave.layout->n * d->nstate;
    double *const w = malloc(sizeof *w * (size_t)(mine->total + 1)), out = 0, best = 0;
    double *const psi = malloc(sizeof *psi * (size_t)npsi);
    double *const all = malloc(sizeof *all * (size_t)iso->ndata);
    int64_t n = 0;
    kl_err err;
    /* noise: these are by the whole density matrix, with what noise adds */
    if (o->noise > 0 || o->fill || o->narrow < t->narrow) goto out;
    expect_ok(ex->vt.download(ex, psi, d->wave.psi, npsi, &err), err);
    expect_ok(ex->vt.download(ex, all, data, iso->ndata, &err), err);
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
        for (int k = kept; k < few && filled; k++) best += s[k] * s[k];
        free(s);
        free(a);
    }
    qsort(w, (size_t)n, sizeof *w, descending);
    for (int64_t i = n - 1; i >= info->m && !filled; i--) best += w[i];
    out /= d->nstate, best /= d->nstate;
    /* below, density matrices know nothing */
    const double floor = o->precise ? 1e-24 : 1e-15;
    t->nlooked++;
    t->ntried += info->ntried > 0;
    t->nleast += info->nleast;
    /* weights that were asked for are known, or all that are missing have been put off: those of sectors
       found by what goes, or of all of them where the basis settles */
    const int settles = o->settle && o->narrow && o->nstate == 1;
    const int later = o->unread ? o->unread->npart : 0;
    expect_true(later == 0 || (o->spectrum && later == (settles ? info->nsec : info->nleast)));
    expect_true(isnan(info->entropy) == ((settles || info->nleast > 0) && (!o->spectrum || later > 0)));
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
out:
    free(w);
    free(psi);
    free(all);
}
