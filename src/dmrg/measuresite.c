/* Density matrices of sites, sectors by threads: see measuresite.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/measuresite.h"
#include "base/mem.h"
#include "base/par.h"

/* Density matrix of a site from its centre tensor T, on the host. */
typedef struct site_density {
    const kl_measure *m;
    int p;
    const double *centre;
    double *part; /* [sectors of the isometry][d][d] */
} site_density;

/* part[k][t + s*d] = sum T_(l,t) T_(l,s) over sector k, for t <= s. */
static void sector_density(void *self, int64_t k, int thread)
{
    const site_density *const x = self;
    const kl_isometry *const iso = x->m->can->left[x->p];
    const kl_enlarged *const e = iso->enlarged;
    const int d = e->d, big = iso->sec[k], rows = e->basis.dim[big];
    (void)thread;
    for (int s = 0; s < d; s++)
        for (int t = 0; t <= s; t++) {
            const int l = e->part_sec[big * d + s];
            if (l < 0 || e->part_sec[big * d + t] != l) continue;
            double sum = 0;
            for (int c = 0; c < kl_measure_beyond(x->m->can, x->p, (int)k); c++) {
                const double *const column = x->centre + x->m->at[x->p][k] + (int64_t)c * rows;
                const double *const a = column + e->part_off[big * d + s], *const b =
                                                                               column +
                                                                               e->part_off[big * d + t];
                for (int i = 0; i < e->block.dim[l]; i++) sum += a[i] * b[i];
            }
            x->part[(k * d + s) * d + t] = sum;
        }
}

kl_status kl_measure_density(const kl_measure *m, int p, const double *centre, double *w, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = m->can->left[p]->basis.nsec, d = m->can->left[p]->enlarged->d;
    site_density x = {m, p, centre, NULL};
    KL_TRY(kl_alloc(&x.part, (int64_t)n * d * d, KL_MEM_WORK, err));
    kl_par_for(m->ex->nthread, n, sector_density, &x);
    for (int64_t k = 0; k < n; k++)
        for (int s = 0; s < d; s++)
            for (int t = 0; t <= s; t++) {
                w[t + s * d] += x.part[(k * d + s) * d + t];
                if (t != s) w[s + t * d] += x.part[(k * d + s) * d + t];
            }
out:
    kl_free(&x.part);
    return st;
}
