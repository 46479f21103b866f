/* Density matrices of sites, sectors by threads, or scalar products on a device: see measuresite.h.
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

static kl_status density_here(const kl_measure *m, int p, const double *centre, double *w, kl_err *err)
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

/* The rows of each site state one behind the other, on the device. */
typedef struct rows {
    int64_t *off; /* [d] where a state's begin */
    kl_dptr data; /* [m->length[p]] */
} rows;

/* Sector k's rows of site state s: whose they are in the block, -1: there are none, and how many numbers. */
static int part_at(const kl_measure *m, int p, int k, int s, int64_t *numbers)
{
    const kl_isometry *const iso = m->can->left[p];
    const kl_enlarged *const e = iso->enlarged;
    const int l = e->part_sec[iso->sec[k] * e->d + s];
    *numbers = l < 0 ? 0 : (int64_t)e->block.dim[l] * kl_measure_beyond(m->can, p, k);
    return l;
}

static kl_status sort_rows(const kl_measure *m, int p, kl_dptr centre, rows *x, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_isometry *const iso = m->can->left[p];
    const kl_enlarged *const e = iso->enlarged;
    int64_t at = 0, numbers;
    kl_batch b;
    kl_batch_init(&b);
    for (int s = 0; s < e->d; s++) {
        x->off[s] = at;
        for (int k = 0; k < iso->basis.nsec; k++) {
            const int l = part_at(m, p, k, s, &numbers), big = iso->sec[k];
            if (l < 0) continue;
            kl_rec r = {.kind = KL_REC_ADD, .at_a = KL_AT_X, .at_c = KL_AT_Y, .c = at, .alpha = 1};
            r.m = r.ldc = e->block.dim[l];
            r.n = kl_measure_beyond(m->can, p, k);
            r.lda = e->basis.dim[big];
            r.a = m->at[p][k] + e->part_off[big * e->d + s];
            KL_TRY(kl_batch_push_alone(&b, numbers, r, err));
            at += numbers;
        }
    }
    b.nx = m->length[p];
    b.ny = at;
    KL_TRY(kl_batch_run(&b, m->ex, centre, x->data, err));
out:
    kl_batch_clear(&b);
    return st;
}

/* Scalar products of the rows of states s and t, a stretch of sectors where both have them at a time. */
static double product_of(const kl_measure *m, int p, const rows *x, int s, int t)
{
    const int n = m->can->left[p]->basis.nsec;
    int64_t at = x->off[s], other = x->off[t], length = 0, mine = 0, its = 0;
    double sum = 0;
    for (int k = 0; k <= n; k++) {
        const int l = k < n ? part_at(m, p, k, s, &mine) : -1;
        const int same = k < n ? part_at(m, p, k, t, &its) == l : 0;
        if (same) {
            length += mine;
            continue;
        }
        double one = 0;
        if (length > 0)
            m->ex->vt.dots(m->ex, length, 1, kl_dptr_at(x->data, at), length, kl_dptr_at(x->data, other),
                           &one);
        sum += one;
        if (k == n) break;
        at += length + mine;
        other += length + its;
        length = 0;
    }
    return sum;
}

kl_status kl_measure_density(const kl_measure *m, int p, kl_dptr centre, double *w, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = m->ex;
    const int d = m->can->left[p]->enlarged->d;
    rows x = {0};
    double *host = NULL;
    kl_err why;
    if (ex->space == KL_SPACE_HOST) return density_here(m, p, (const double *)centre.addr, w, err);
    KL_TRY(kl_alloc(&x.off, d, KL_MEM_WORK, err));
    if (ex->vt.alloc(ex, m->length[p], &x.data, &why) != KL_OK) { /* the host has the memory for it */
        KL_TRY(kl_realloc(&host, m->length[p], KL_MEM_WORK, err));
        KL_TRY(ex->vt.download(ex, host, centre, m->length[p], err));
        KL_TRY(density_here(m, p, host, w, err));
        goto out;
    }
    KL_TRY(sort_rows(m, p, centre, &x, err));
    for (int s = 0; s < d; s++)
        for (int t = 0; t <= s; t++) w[t + s * d] = w[s + t * d] = product_of(m, p, &x, s, t);
out:
    ex->vt.release(ex, &x.data);
    kl_free(&x.off);
    kl_free(&host);
    return st;
}
