/* Bases and wavefunctions that a run begins with, and the weights of those that it carries: see engine.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/dense.h"
#include "base/mem.h"
#include "base/random.h"
#include "dmrg/engine.h"
#include "dmrg/engineroom.h"
#include "dmrg/onesite.h"
#include "dmrg/sectorfill.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* of a wanted state's: a guard's energy is hardly higher for it, the wanted states' is by far lower */
#define GUARD_WEIGHT 0.0625

static double log_sum(double a, double b) { return fmax(a, b) + log1p(exp(-fabs(a - b))); }

/* The logarithm of the number of states with the charges of entry i: of multiplets those of at least this
   spin, each of which has one such component; without a total spin the number of states alone. *next: the
   same from the next spin on. */
static double log_states(const kl_model *m, const kl_reach *r, int64_t i, double *next)
{
    const int spin = kl_model_spin(m);
    kl_qn q = r->q[i];
    *next = -INFINITY;
    for (int64_t k = i + 1; spin >= 0 && k < r->n; k++) {
        q.v[spin] = r->q[k].v[spin];
        if (kl_qn_cmp(q, r->q[k]) != 0) break;
        *next = *next == -INFINITY ? r->log_count[k] : log_sum(*next, r->log_count[k]);
    }
    return *next == -INFINITY ? r->log_count[i] : log_sum(r->log_count[i], *next);
}

/* The logarithm of the weight of a sector: of the states that have its charges on both sides, a and b, to the
   power; of multiplets the difference of two such weights, which counts those of this spin and of no larger
   one. */
static double log_weight(const kl_engine *e, const kl_reach *mine, int64_t a, const kl_reach *other,
                         int64_t b, double power)
{
    double above_a, above_b;
    if (a < 0 || b < 0) return -INFINITY;
    const double here = log_states(e->terms->model, mine, a, &above_a) +
                        log_states(e->terms->model, other, b, &above_b),
                 above = above_a + above_b;
    return power * here + (above == -INFINITY ? 0 : log1p(-exp(power * (above - here))));
}

kl_status kl_engine_no_state(const kl_terms *terms, kl_qn target, kl_err *err)
{
    const kl_model *const m = terms->model;
    const int spin = kl_model_spin(m);
    kl_reach all = {0};
    int low = -1, high = -1; /* S that go with the other charges */
    char q[128], with[128] = "", a[32], b[32];
    if (spin >= 0 &&
        kl_reach_create(m, terms->type, 0, terms->nsite, 0, &all, NULL) == KL_OK) /* else it is not told */
        for (int64_t i = 0; i < all.n; i++) {
            kl_qn other = all.q[i];
            other.v[spin] = target.v[spin];
            if (kl_qn_cmp(other, target) != 0) continue;
            if (low < 0 || all.q[i].v[spin] < low) low = all.q[i].v[spin];
            if (all.q[i].v[spin] > high) high = all.q[i].v[spin];
        }
    kl_reach_clear(&all);
    if (low >= 0)
        snprintf(with, sizeof with, "; allowed: S=%s", kl_charge_print(&m->charge[spin], low, a, 32));
    if (low < high)
        snprintf(with, sizeof with, "; allowed: S=%s to %s in steps of 1", a,
                 kl_charge_print(&m->charge[spin], high, b, 32));
    return kl_fail(err, KL_EINPUT, "no state of these %d sites has %s%s", terms->nsite,
                   kl_qn_print(m, target, q, sizeof q), with);
}

/* Of about m states of a block beyond cut p, how many fall into each sector of its basis: the weight of a
   sector is the number of paths that make it and complete it, to a power that makes the distribution as
   narrow as that of the few sites which m states can resolve. */
kl_status kl_engine_share(const kl_engine *e, kl_side side, int cut, int m, const kl_basis *basis, int *dim,
                          kl_err *err)
{
    kl_status st = KL_OK;
    const kl_reach *const mine = side == KL_RIGHT ? &e->reach_right[cut] : &e->reach_left[cut];
    const kl_reach *const other = side == KL_RIGHT ? &e->reach_left[cut] : &e->reach_right[cut];
    const int n = basis->nsec, near = cut < e->nsite - cut ? cut : e->nsite - cut;
    const int d = e->terms->type[cut < e->nsite ? cut : cut - 1]->dim;
    const double resolved = log((double)m) / log(d > 1 ? d : 2.0) + 2.0,
                 power = near > resolved ? near / resolved : 1.0;
    double *share = NULL, top = -INFINITY, sum = 0;
    int total = 0;
    KL_TRY(kl_alloc(&share, n, KL_MEM_WORK, err));
    for (int c = 0; c < n; c++) {
        const int64_t a = kl_reach_find(mine, basis->q[c]),
                      b = kl_reach_find(other, kl_qn_sub(e->terms->model, e->target, basis->q[c]));
        share[c] = log_weight(e, mine, a, other, b, power);
        if (share[c] > top) top = share[c];
    }
    for (int c = 0; c < n; c++) sum += share[c] = exp(share[c] - top);
    /* as kl_select does */
    const int full = (e->full || e->ex->space == KL_SPACE_DEVICE) && m >= KL_FULL_FROM * n;
    double scale = 1;
    do {
        total = 0;
        for (int c = 0; c < n; c++) {
            int k = (int)ceil(m * scale * share[c] / sum - 0.05);
            if (k < 1 && share[c] == 1.0) k = 1;
            if (full) k = kl_sector_even(k, basis->dim[c]);
            dim[c] = k < basis->dim[c] ? k : basis->dim[c];
            total += dim[c];
        }
        scale *= 0.995;
    } while (full && total > m && scale > 0.5);
    if (full) kl_sectors_fill(n, dim, basis->dim, m / KL_MORE);
    /* room for this number of wavefunctions */
    for (int c = 0, met = 0; total < e->nstate && met < n; c = (c + 1) % n) {
        met = dim[c] < basis->dim[c] ? 0 : met + 1;
        if (!met) dim[c]++, total++;
    }
out:
    kl_free(&share);
    return st;
}

/* Products that a start holds: the isometries beyond a cut have the rest of each among their columns. */
typedef struct products {
    int n;
    const int *state; /* [n][nsite] */
    kl_qn *charge; /* [n][nsite + 1]: of sites p.. of each */
    int *column; /* [n]: of its sector of the last block, where sites p.. of each are; equal ones share it */
    int *room; /* [3][n] */
} products;

static const int *state_of(const kl_engine *e, const products *x, int k)
{
    return x->state + (int64_t)k * e->nsite;
}

static kl_qn charge_of(const kl_engine *e, const products *x, int k, int p)
{
    return x->charge[(int64_t)k * (e->nsite + 1) + p];
}

/* Which rows of sector c of site p (x) the block beyond the products are in: row[n], column[k] the place of
   product k there, -1 for those of other sectors. Returns how many rows. */
static int rows_of(const kl_engine *e, const products *x, int p, const kl_enlarged *en, int c, int *row,
                   int *column)
{
    int n = 0;
    for (int k = 0; k < x->n; k++) {
        column[k] = -1;
        if (kl_qn_cmp(charge_of(e, x, k, p), en->basis.q[c])) continue;
        const int s = kl_step_from_other(en->site, state_of(e, x, k)[p]),
                  at = en->part_off[c * en->d + s] + x->column[k];
        int i = 0;
        while (i < n && row[i] != at) i++;
        if (i == n) row[n++] = at;
        column[k] = i;
    }
    return n;
}

/* Random right isometry at position p over the block beyond it. */
static kl_status random_isometry(kl_engine *e, int p, int m, products *x, kl_err *err)
{
    kl_status st = KL_OK;
    kl_enlarged *en = NULL;
    kl_isometry *iso = NULL;
    int *sec = NULL, *dim = NULL, nsec = 0;
    int *const row = x->room, *const column = row + x->n, *const next = column + x->n;
    uint64_t rng = e->seed * 1000003u + (uint64_t)p;
    KL_TRY(kl_engine_enlarge(e, KL_RIGHT, p, &e->right_block[p + 1]->basis, &en, err));
    const int n = en->basis.nsec;
    KL_TRY(kl_alloc(&sec, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&dim, n, KL_MEM_WORK, err));
    KL_TRY(kl_engine_share(e, KL_RIGHT, p, m, &en->basis, dim, err));
    for (int c = 0; c < n; c++) {
        const int least = rows_of(e, x, p, en, c, row, column);
        if (dim[c] < least) dim[c] = least;
        if (dim[c] > 0) sec[nsec] = c, dim[nsec] = dim[c], nsec++;
    }
    KL_TRY(kl_isometry_create_take(&en, nsec, sec, dim, &iso, err));
    for (int c = 0; c < nsec; c++) {
        const int rows = iso->enlarged->basis.dim[iso->sec[c]];
        double *const a = iso->data + iso->off[c];
        for (int64_t i = 0; i < (int64_t)rows * iso->basis.dim[c]; i++) a[i] = kl_random_uniform(&rng);
        /* the first columns are the products: columns of the block (x) their states of this site */
        const int nrow = rows_of(e, x, p, iso->enlarged, iso->sec[c], row, column);
        for (int i = 0; i < nrow; i++) {
            memset(a + (int64_t)i * rows, 0, (size_t)rows * sizeof *a);
            a[row[i] + (int64_t)i * rows] = 1;
        }
        for (int k = 0; k < x->n; k++)
            if (column[k] >= 0) next[k] = column[k];
        KL_TRY(kl_dense_qr(rows, iso->basis.dim[c], a, rows, NULL, 0, err));
    }
    for (int k = 0; k < x->n; k++) x->column[k] = next[k];
    KL_TRY(kl_engine_set_isometry_take(e, KL_RIGHT, p, &iso, &(kl_dptr){0}, err));
out:
    kl_enlarged_destroy(&en);
    kl_isometry_destroy(&iso);
    kl_free(&sec);
    kl_free(&dim);
    return st;
}

kl_status kl_engine_product_charges(const kl_engine *e, const int *start, kl_qn *product, kl_err *err)
{
    const kl_model *const model = e->terms->model;
    char a[128], b[128];
    int open = 1;
    product[e->nsite] = kl_qn_zero();
    for (int p = e->nsite - 1; p >= 0; p--) {
        const kl_site_type *const site = e->terms->type[p];
        open &= kl_qn_step(model, product[p + 1], site, kl_step_from_other(site, start[p]), 1, &product[p]);
    }
    if (open && !kl_qn_cmp(product[0], e->target)) return KL_OK;
    return kl_fail(err, KL_EINPUT, "the start state has %s, but %s is asked for",
                   open ? kl_qn_print(model, product[0], a, sizeof a) : "multiplets that do not couple",
                   kl_qn_print(model, e->target, b, sizeof b));
}

/* Wavefunction k is product k, and a little of all the rest. */
static kl_status begin_with(kl_engine *e, const products *x, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const model = e->terms->model;
    const int64_t len = e->layout.n * e->nstate;
    double *host = NULL;
    KL_TRY(kl_alloc(&host, len, KL_MEM_WORK, err));
    KL_TRY(e->ex->vt.download(e->ex, host, e->psi, len, err));
    for (int k = 0; k < x->n && k < e->nstate; k++) {
        const int *const s = state_of(e, x, k);
        double *const psi = host + k * e->layout.n;
        for (int64_t i = 0; i < e->layout.n; i++) psi[i] *= 1e-3;
        kl_qn first;
        const int open = kl_qn_step(model, kl_qn_edge(model, e->target), e->row->site, s[0], 1, &first),
                  i = open ? kl_basis_find(&e->row->basis, first) : -1, j = i < 0 ? -1 : e->layout.pair[i];
        if (j < 0) KL_TRY(kl_fail(err, KL_EINPUT, "the start state cannot be completed"));
        const int r = e->row->part_off[i * e->row->d + s[0]],
                  c = e->col->part_off[j * e->col->d + kl_step_from_other(e->col->site, s[1])] + x->column[k];
        psi[e->layout.off[i] + r + (int64_t)c * e->row->basis.dim[i]] = 1;
    }
    KL_TRY(e->ex->vt.upload(e->ex, e->psi, host, len, err));
out:
    kl_free(&host);
    return st;
}

kl_status kl_engine_start(kl_engine *e, int m, int nproduct, const int *product, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = e->nsite;
    products x = {.n = nproduct, .state = product};
    KL_TRY(kl_alloc(&x.charge, (int64_t)nproduct * (n + 1), KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&x.column, nproduct, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&x.room, (int64_t)3 * nproduct, KL_MEM_WORK, err));
    for (int k = 0; k < nproduct; k++) {
        KL_TRY(kl_engine_product_charges(e, state_of(e, &x, k), x.charge + (int64_t)k * (n + 1), err));
        x.column[k] = 0;
    }
    for (int p = n - 1; p > 1; p--) {
        KL_TRY(random_isometry(e, p, m, &x, err));
        KL_TRY(kl_engine_rebuild(e, KL_RIGHT, p, err));
        KL_TRY(kl_engine_put_away(e, KL_RIGHT, p, err));
    }
    KL_TRY(kl_engine_open(e, 0, err));
    if (nproduct > 0) KL_TRY(begin_with(e, &x, err));
out:
    kl_free(&x.charge);
    kl_free(&x.column);
    kl_free(&x.room);
    return st;
}

kl_status kl_engine_hold(kl_engine *e, int nstate, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dptr psi = {0};
    const int64_t n = e->layout.n;
    if (nstate > e->nstate) {
        KL_TRY(e->ex->vt.alloc(e->ex, n * nstate, &psi, err));
        e->ex->vt.copy(e->ex, n * e->nstate, e->psi, psi);
        e->ex->vt.fill(e->ex, n * (nstate - e->nstate), 0.0, kl_dptr_at(psi, n * e->nstate));
        e->ex->vt.release(e->ex, &e->psi);
        e->psi = psi;
    }
    if (nstate != e->nstate) kl_onesite_forget(e);
    e->nstate = nstate;
out:
    return st;
}

void kl_engine_count_on(kl_engine *e, const kl_engine *from)
{
    for (int i = 0; i < KL_NPART; i++) e->seconds[i] += from->seconds[i];
    e->flop += from->flop;
    e->napply += from->napply;
    e->nsector_sum += from->nsector_sum;
    e->nsector_count += from->nsector_count;
    if (from->dim_max > e->dim_max) e->dim_max = from->dim_max;
    if (from->sector_max > e->sector_max) e->sector_max = from->sector_max;
    if (from->matrix_max > e->matrix_max) e->matrix_max = from->matrix_max;
}

void kl_engine_weigh(kl_engine *e, int nwanted)
{
    const int n = e->nstate;
    e->nwanted = nwanted;
    const double one = n / (nwanted + GUARD_WEIGHT * (n - nwanted));
    for (int i = 0; i < n && n > nwanted; i++) {
        const kl_dptr x = kl_dptr_at(e->psi, i * e->layout.n);
        const double weight = i < nwanted ? one : GUARD_WEIGHT * one;
        e->ex->vt.combine(e->ex, e->layout.n, 0, x, e->layout.n, NULL, sqrt(weight), x);
    }
}

kl_engine_opts kl_engine_options(const kl_engine *e)
{
    return (kl_engine_opts){.target = e->target,
                            .nstate = e->nstate,
                            .strategy = e->strategy,
                            .solver = e->solver,
                            .max_basis = e->max_basis,
                            .seed = e->seed,
                            .full = e->full,
                            .host_bytes = e->host_bytes,
                            .lr_bytes = e->lr_bytes,
                            .scratch = e->scratch,
                            .reaches = e->reaches};
}

kl_status kl_engine_go_to(kl_engine **pe, kl_exec *ex, const double *energy, kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *const from = *pe, *e = NULL;
    kl_state *s = NULL;
    if (ex == from->ex) return KL_OK;
    KL_TRY(kl_engine_state(from, energy, &s, err));
    const kl_engine_opts same = kl_engine_options(from);
    KL_TRY(kl_engine_create(from->terms, ex, &same, &e, err));
    KL_TRY(kl_engine_resume_take(e, &s, err));
    kl_engine_count_on(e, from);
    kl_engine_destroy(pe);
    *pe = e;
    e = NULL;
out:
    kl_state_destroy(&s);
    kl_engine_destroy(&e);
    return st;
}

void kl_engine_drop_operators(kl_engine *e)
{
    for (int i = 0; i < 2; i++) kl_bigop_destroy(&e->dense[i]);
    kl_bigop_destroy(&e->row_op);
    kl_bigop_destroy(&e->col_op);
    for (int p = 0; p <= e->nsite; p++) {
        kl_block_destroy(&e->left_block[p]);
        kl_block_destroy(&e->right_block[p]);
    }
}
