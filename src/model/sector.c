/* Bases sorted by charge.
   SPDX-License-Identifier: Apache-2.0 */
#include "model/sector.h"
#include "base/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void kl_basis_clear(kl_basis *b)
{
    kl_free(&b->q);
    kl_free(&b->dim);
    b->nsec = 0;
    b->total = 0;
}

kl_status kl_basis_copy(const kl_basis *from, kl_basis *to, kl_err *err)
{
    kl_status st = KL_OK;
    *to = (kl_basis){.nsec = from->nsec, .total = from->total};
    KL_TRY(kl_alloc(&to->q, from->nsec, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&to->dim, from->nsec, KL_MEM_MISC, err));
    if (from->nsec) {
        memcpy(to->q, from->q, (size_t)from->nsec * sizeof *to->q);
        memcpy(to->dim, from->dim, (size_t)from->nsec * sizeof *to->dim);
    }
out:
    if (st != KL_OK) kl_basis_clear(to);
    return st;
}

int kl_basis_find(const kl_basis *b, kl_qn q)
{
    int lo = 0, hi = b->nsec - 1;
    while (lo <= hi) {
        const int mid = (lo + hi) / 2, c = kl_qn_cmp(b->q[mid], q);
        if (c == 0) return mid;
        if (c < 0) lo = mid + 1;
        else hi = mid - 1;
    }
    return -1;
}

int64_t kl_basis_states(const kl_model *m, const kl_basis *b)
{
    const int spin = kl_model_spin(m);
    int64_t n = 0;
    for (int i = 0; i < b->nsec; i++) n += (int64_t)b->dim[i] * (spin < 0 ? 1 : b->q[i].v[spin] + 1);
    return n;
}

static int by_charge(const void *a, const void *b) { return kl_qn_cmp(*(const kl_qn *)a, *(const kl_qn *)b); }

kl_status kl_enlarged_create(const kl_model *m, const kl_basis *block, const kl_site_type *site,
                             int (*keep)(void *self, kl_qn q), void *self, kl_enlarged **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_enlarged *e = NULL;
    const int d = site->dim;
    const int64_t most = (int64_t)block->nsec * d;
    KL_TRY(kl_alloc(&e, 1, KL_MEM_MISC, err));
    e->site = site;
    e->d = d;
    KL_TRY(kl_basis_copy(block, &e->block, err));
    KL_TRY(kl_alloc(&e->basis.q, most, KL_MEM_MISC, err));
    kl_qn *const q = e->basis.q;
    int n = 0;
    for (int i = 0; i < block->nsec; i++)
        for (int s = 0; s < d; s++) {
            kl_qn c;
            if (kl_qn_step(m, block->q[i], site, s, 1, &c)) q[n++] = c;
        }
    /* each charge is asked for once: it comes from up to d sectors */
    qsort(q, (size_t)n, sizeof *q, by_charge);
    int nsec = 0;
    kl_qn last = kl_qn_zero();
    for (int i = 0; i < n; i++) {
        const kl_qn c = q[i];
        if ((i == 0 || kl_qn_cmp(c, last)) && (!keep || keep(self, c))) q[nsec++] = c;
        last = c;
    }
    e->basis.nsec = nsec;
    KL_TRY(kl_alloc(&e->basis.dim, nsec, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&e->part_sec, (int64_t)nsec * d, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&e->part_off, (int64_t)nsec * d, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&e->home, most, KL_MEM_MISC, err));
    memset(e->home, -1, (size_t)most * sizeof *e->home);
    for (int c = 0; c < nsec; c++) {
        int rows = 0;
        for (int s = 0; s < d; s++) {
            kl_qn from;
            const int open = kl_qn_step(m, q[c], site, s, -1, &from);
            const int i = open ? kl_basis_find(block, from) : -1;
            e->part_sec[c * d + s] = i;
            e->part_off[c * d + s] = rows;
            if (i < 0) continue;
            rows += block->dim[i];
            e->home[i * d + s] = c;
        }
        e->basis.dim[c] = rows;
        e->basis.total += rows;
    }
out:
    if (st != KL_OK) kl_enlarged_destroy(&e);
    *out = e;
    return st;
}

void kl_enlarged_destroy(kl_enlarged **pe)
{
    kl_enlarged *const e = *pe;
    if (!e) return;
    kl_basis_clear(&e->block);
    kl_basis_clear(&e->basis);
    kl_free(&e->part_sec);
    kl_free(&e->part_off);
    kl_free(&e->home);
    kl_free(pe);
}

typedef struct weighted {
    kl_qn q;
    double w;
} weighted;

static int weighted_by_charge(const void *a, const void *b)
{
    return kl_qn_cmp(((const weighted *)a)->q, ((const weighted *)b)->q);
}

static int weighted_by_weight(const void *pa, const void *pb)
{
    const weighted *const a = pa, *const b = pb;
    if (a->w != b->w) return a->w > b->w ? -1 : 1;
    return kl_qn_cmp(a->q, b->q);
}

/* log(exp(a) + exp(b)) */
static double log_sum(double a, double b)
{
    const double hi = a > b ? a : b, lo = a > b ? b : a;
    return hi + log1p(exp(lo - hi));
}

/* Step s of a site. */
typedef struct stride {
    const kl_model *model;
    const kl_site_type *site;
    int s, free; /* 1: without spins there is one from every charge, by as much */
    kl_qn by;
} stride;

/* The first of from[j..n) that the step goes on from, and where it leads. */
static int64_t next_open(const stride *t, const kl_reach *from, int64_t j, kl_qn *to)
{
    if (t->free && j < from->n) {
        for (int c = 0; c < KL_MAX_CHARGE; c++) to->v[c] = (int16_t)(from->q[j].v[c] + t->by.v[c]);
        return j;
    }
    while (j < from->n && !kl_qn_step(t->model, from->q[j], t->site, t->s, 1, to)) j++;
    return j;
}

/* to[] = from[0..n) raised by the step, merged with old[0..k); both ascending. Returns the length. */
static int64_t merge(const stride *t, const weighted *old, int64_t k, const kl_reach *from, weighted *to)
{
    kl_qn q = kl_qn_zero();
    int64_t i = 0, j = next_open(t, from, 0, &q), n = 0;
    while (i < k || j < from->n) {
        const int cmp = i == k ? 1 : j == from->n ? -1 : kl_qn_cmp(old[i].q, q);
        if (cmp <= 0) to[n] = old[i++];
        else to[n] = (weighted){q, from->log_count[j]};
        if (cmp == 0) to[n].w = log_sum(to[n].w, from->log_count[j]);
        if (cmp >= 0) j = next_open(t, from, j + 1, &q);
        n++;
    }
    return n;
}

kl_status kl_reach_extend(const kl_model *m, const kl_reach *from, const kl_site_type *site, int64_t most,
                          kl_reach *to, kl_err *err)
{
    kl_status st = KL_OK;
    weighted *all = NULL, *next = NULL;
    int cyclic = 0;
    int64_t n = 0;
    *to = (kl_reach){0};
    for (int c = 0; c < m->ncharge; c++) cyclic |= m->charge[c].modulus != 0;
    KL_TRY(kl_alloc(&all, from->n * site->dim, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&next, from->n * site->dim, KL_MEM_MISC, err));
    for (int s = 0; s < site->dim; s++) {
        if (cyclic) { /* raised charges are in no order */
            for (int64_t i = 0; i < from->n; i++) {
                all[n].w = from->log_count[i];
                n += kl_qn_step(m, from->q[i], site, s, 1, &all[n].q);
            }
            continue;
        }
        const stride t = {.model = m,
                          .site = site,
                          .s = s,
                          .free = kl_model_spin(m) < 0,
                          .by = kl_qn_of(m, site->state_charge[s])};
        n = merge(&t, all, n, from, next);
        weighted *const swap = all;
        all = next;
        next = swap;
    }
    if (cyclic) {
        qsort(all, (size_t)n, sizeof *all, weighted_by_charge);
        int64_t k = 0;
        for (int64_t i = 0; i < n; i++) {
            if (k && !kl_qn_cmp(all[k - 1].q, all[i].q)) all[k - 1].w = log_sum(all[k - 1].w, all[i].w);
            else all[k++] = all[i];
        }
        n = k;
    }
    if (most && n > most) {
        qsort(all, (size_t)n, sizeof *all, weighted_by_weight);
        n = most;
        qsort(all, (size_t)n, sizeof *all, weighted_by_charge);
    }
    KL_TRY(kl_alloc(&to->q, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&to->log_count, n, KL_MEM_MISC, err));
    for (int64_t i = 0; i < n; i++) to->q[i] = all[i].q, to->log_count[i] = all[i].w;
    to->n = n;
out:
    if (st != KL_OK) kl_reach_clear(to);
    kl_free(&all);
    kl_free(&next);
    return st;
}

kl_status kl_reach_create(const kl_model *m, const kl_site_type *const *type, int first, int last,
                          int64_t most, kl_reach *out, kl_err *err)
{
    return kl_reach_from(m, kl_qn_zero(), type, first, last, most, out, err);
}

kl_status kl_reach_from(const kl_model *m, kl_qn edge, const kl_site_type *const *type, int first, int last,
                        int64_t most, kl_reach *out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_reach now = {0};
    KL_TRY(kl_alloc(&now.q, 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&now.log_count, 1, KL_MEM_MISC, err));
    now.q[0] = edge;
    now.n = 1;
    for (int p = first; p < last; p++) {
        kl_reach next;
        KL_TRY(kl_reach_extend(m, &now, type[p], most, &next, err));
        kl_reach_clear(&now);
        now = next;
    }
out:
    if (st != KL_OK) kl_reach_clear(&now);
    *out = now;
    return st;
}

kl_status kl_reach_copy(const kl_reach *from, kl_reach *to, kl_err *err)
{
    kl_status st = KL_OK;
    *to = (kl_reach){.n = from->n};
    KL_TRY(kl_alloc(&to->q, from->n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&to->log_count, from->n, KL_MEM_MISC, err));
    memcpy(to->q, from->q, (size_t)from->n * sizeof *to->q);
    memcpy(to->log_count, from->log_count, (size_t)from->n * sizeof *to->log_count);
out:
    if (st != KL_OK) kl_reach_clear(to);
    return st;
}

void kl_reach_clear(kl_reach *r)
{
    kl_free(&r->q);
    kl_free(&r->log_count);
    r->n = 0;
}

int64_t kl_reach_find(const kl_reach *r, kl_qn q)
{
    int64_t lo = 0, hi = r->n - 1;
    while (lo <= hi) {
        const int64_t mid = (lo + hi) / 2;
        const int c = kl_qn_cmp(r->q[mid], q);
        if (c == 0) return mid;
        if (c < 0) lo = mid + 1;
        else hi = mid - 1;
    }
    return -1;
}
