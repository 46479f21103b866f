/* Basis of exact diagonalization on two halves.
   1. Halves are chosen by what their states add up to; 2. their states enumerated, charge by charge; 3. a
      state of the whole is an element of a block of two sectors.
   SPDX-License-Identifier: Apache-2.0 */
#include "ed/bipartition.h"
#include "base/mem.h"
#include "phase.h"
#include "ed/strands.h"
#include "ed/statecount.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = KL_KRON_LANES };

/* ---------------------------------------------------------------- sizes */

/* What a pair of halves comes to. */
static void pair_size(const kl_model *m, kl_qn target, const kl_statecount *l, const kl_statecount *r,
                      kl_bipartition_size *s)
{
    s->dim = s->n = s->left = s->right = s->largest = 0.0;
    for (int64_t i = 0; i < l->n; i++) {
        const int64_t j = kl_statecount_find(r, kl_qn_sub(m, target, l->q[i]));
        if (j < 0) continue;
        const double a = l->count[i], b = r->count[j];
        s->dim += a * b;
        s->n += a * ceil(b / (double)LANES) * (double)LANES;
        s->left += a;
        s->right += b;
        s->largest = fmax(s->largest, fmax(a, b));
    }
}

static kl_status site_sizes(const kl_terms *t, kl_qn target, kl_bipartition_size *best, kl_err *err)
{
    kl_status st = KL_OK;
    kl_statecount *l = NULL, *r = NULL;
    const kl_site_type **back = NULL;
    *best = (kl_bipartition_size){0};
    KL_TRY(kl_alloc(&back, t->nsite, KL_MEM_MISC, err));
    for (int p = 0; p < t->nsite; p++) back[p] = t->type[t->nsite - 1 - p];
    KL_TRY(kl_statecount_create(t->model, t->type, t->nsite, &l, err));
    KL_TRY(kl_statecount_create(t->model, back, t->nsite, &r, err));
    for (int cut = 1; cut < t->nsite; cut++) {
        kl_bipartition_size s = {.cut = cut};
        pair_size(t->model, target, &l[cut], &r[t->nsite - cut], &s);
        if (best->cut == 0 || s.left + s.right < best->left + best->right) *best = s;
    }
out:
    kl_statecount_free(&l, t->nsite);
    kl_statecount_free(&r, t->nsite);
    kl_free(&back);
    return st;
}

static kl_status flavour_sizes(const kl_terms *t, kl_qn target, const kl_flavour *f, kl_bipartition_size *out,
                               kl_err *err)
{
    kl_status st = KL_OK;
    kl_statecount *w[2] = {NULL, NULL};
    const kl_site_type **type = NULL;
    *out = (kl_bipartition_size){.flavours = 1};
    KL_TRY(kl_alloc(&type, t->nsite, KL_MEM_MISC, err));
    for (int s = 0; s < 2; s++) {
        for (int p = 0; p < t->nsite; p++) type[p] = &f->type[s];
        KL_TRY(kl_statecount_create(t->model, type, t->nsite, &w[s], err));
    }
    pair_size(t->model, target, &w[0][t->nsite], &w[1][t->nsite], out);
out:
    for (int s = 0; s < 2; s++) kl_statecount_free(&w[s], t->nsite);
    kl_free(&type);
    return st;
}

/* Whether the flavours are coupled by densities alone. */
static kl_status only_densities(const kl_terms *t, const kl_flavour *f, int *yes, kl_err *err)
{
    kl_status st = KL_OK;
    kl_strands list = {0};
    const kl_site_type **type = NULL;
    *yes = 1;
    KL_TRY(kl_alloc(&type, t->nsite, KL_MEM_MISC, err));
    for (int p = 0; p < t->nsite; p++) type[p] = &f->type[0];
    KL_TRY(kl_strands_split(t, 0, t->nterm, f, 0, &list, err));
    for (int64_t i = 0; i < list.n; i++)
        if (list.p[i].n[0] && list.p[i].n[1] &&
            !(kl_strand_is_diagonal(type, &list.p[i], 0) && kl_strand_is_diagonal(type, &list.p[i], 1)))
            *yes = 0;
out:
    kl_strands_clear(&list);
    kl_free(&type);
    return st;
}

static kl_status choose_form(const kl_terms *t, kl_qn target, kl_bipartition_form form, int charge[2],
                             kl_flavour **f, kl_bipartition_size *s, kl_err *err)
{
    kl_status st = KL_OK;
    *f = NULL;
    form = (kl_bipartition_form)(form & ~KL_BIPARTITION_SORTED);
    if (t->nsite < 2 && form == KL_BIPARTITION_SITES)
        KL_TRY(kl_fail(err, KL_EINPUT, "exact diagonalization on two halves needs at least 2 sites, not %d",
                       t->nsite));
    if (form != KL_BIPARTITION_SITES) KL_TRY(kl_flavour_find(t, charge, f, err));
    if (form == KL_BIPARTITION_FLAVOURS && !*f)
        KL_TRY(kl_fail(
            err, KL_EINPUT,
            "model %s: its sites are not two conserved flavours of one mode each, so it has no product form",
            t->model->name));
    int yes = 1;
    if (form == KL_BIPARTITION_AUTO && *f) KL_TRY(only_densities(t, *f, &yes, err));
    if (!yes) kl_flavour_free(f);
    if (*f) KL_TRY(flavour_sizes(t, target, *f, s, err));
    else KL_TRY(site_sizes(t, target, s, err));
    if (s->dim < 0.5) {
        char text[200];
        KL_TRY(kl_fail(err, KL_EINPUT, "the sector %s of these %d sites is empty",
                       kl_qn_print(t->model, target, text, sizeof(text)), t->nsite));
    }
out:
    if (st != KL_OK) kl_flavour_free(f);
    return st;
}

kl_status kl_bipartition_measure(const kl_terms *terms, kl_qn target, kl_bipartition_form form,
                                 kl_bipartition_size *out, kl_err *err)
{
    kl_flavour *f = NULL;
    int charge[2];
    const kl_status st = choose_form(terms, target, form, charge, &f, out, err);
    kl_flavour_free(&f);
    return st;
}

/* ---------------------------------------------------------------- basis */

static void half_clear(kl_half *h)
{
    kl_free(&h->type);
    kl_free(&h->stride);
    kl_free(&h->odd);
    kl_free(&h->q);
    kl_free(&h->begin);
    kl_free(&h->code);
    kl_free(&h->fewer);
}

typedef struct walk {
    const kl_model *model;
    kl_half *half;
    /* [npos + 1]: charges that positions p.. may have so that those before p can complete them */
    const kl_statecount *viable;
    int64_t *fill;       /* [nsec] */
} walk;

int kl_half_sector(const kl_half *h, kl_qn q)
{
    int lo = 0, hi = h->nsec - 1;
    while (lo <= hi) {
        const int mid = (lo + hi) / 2, c = kl_qn_cmp(h->q[mid], q);
        if (c == 0) return mid;
        if (c < 0) lo = mid + 1;
        else hi = mid - 1;
    }
    return -1;
}

/* Positions p - 1 down to 0, the slowest digit first, so that codes come out ascending. */
static void enumerate(const walk *w, int p, uint64_t code, kl_qn q)
{
    kl_half *const h = w->half;
    if (p == 0) {
        const int s = kl_half_sector(h, q);
        if (s >= 0) h->code[h->begin[s] + w->fill[s]++] = code;
        return;
    }
    for (int d = 0; d < h->type[p - 1]->dim; d++) {
        const kl_qn next = kl_qn_add(w->model, q, kl_qn_of(w->model, h->type[p - 1]->state_charge[d]));
        if (kl_statecount_find(&w->viable[p - 1], next) >= 0)
            enumerate(w, p - 1, code + (uint64_t)d * h->stride[p - 1], next);
    }
}

/* Particles on the last positions, each of which has one mode. */
static int particles_behind(const kl_half *h, uint64_t code)
{
    return h->behind > 0 ? __builtin_popcountll(code >> (h->npos - h->behind)) : 0;
}

static kl_status sort_by_particles(kl_half *h, kl_err *err)
{
    kl_status st = KL_OK;
    uint64_t *sorted = NULL;
    int64_t *to = NULL, most = 0;
    const int nkind = h->behind + 1;
    for (int s = 0; s < h->nsec; s++)
        if (h->begin[s + 1] - h->begin[s] > most) most = h->begin[s + 1] - h->begin[s];
    KL_TRY(kl_alloc(&h->fewer, (int64_t)h->nsec * (nkind + 1), KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&sorted, most, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&to, nkind, KL_MEM_WORK, err));
    for (int s = 0; s < h->nsec; s++) {
        uint64_t *const code = h->code + h->begin[s];
        int64_t *const fewer = h->fewer + (int64_t)s * (nkind + 1);
        const int64_t n = h->begin[s + 1] - h->begin[s];
        for (int64_t i = 0; i < n; i++) fewer[particles_behind(h, code[i]) + 1]++;
        for (int k = 0; k < nkind; k++) fewer[k + 1] += fewer[k];
        memcpy(to, fewer, (size_t)nkind * sizeof *to);
        for (int64_t i = 0; i < n; i++) sorted[to[particles_behind(h, code[i])]++] = code[i];
        memcpy(code, sorted, (size_t)n * sizeof *code);
    }
out:
    kl_free(&sorted);
    kl_free(&to);
    return st;
}

static int qn_order(const void *a, const void *b) { return kl_qn_cmp(*(const kl_qn *)a, *(const kl_qn *)b); }

/* Sectors `q` (ascending, each reachable) of a half whose types and first position are set. */
static kl_status half_fill(const kl_model *m, kl_half *h, int nsec, const kl_qn *q, kl_err *err)
{
    kl_status st = KL_OK;
    kl_statecount *w = NULL, *viable = NULL;
    int64_t *fill = NULL;
    if (h->npos > 62) KL_TRY(kl_fail(err, KL_EINPUT, "%d sites in a half; at most 62 are possible", h->npos));
    KL_TRY(kl_alloc(&h->stride, h->npos, KL_MEM_MISC, err));
    uint64_t stride = 1;
    for (int p = 0; p < h->npos; p++) {
        h->stride[p] = stride;
        if (stride > (UINT64_C(1) << 62) / (uint64_t)h->type[p]->dim)
            KL_TRY(kl_fail(
                err, KL_EINPUT,
                "%d sites of a half have more than 2^62 states; exact diagonalization needs fewer sites",
                h->npos));
        stride *= (uint64_t)h->type[p]->dim;
    }
    KL_TRY(kl_statecount_create(m, h->type, h->npos, &w, err));
    h->nsec = nsec;
    KL_TRY(kl_alloc(&h->q, nsec, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&h->begin, nsec + 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&fill, nsec, KL_MEM_MISC, err));
    memcpy(h->q, q, (size_t)nsec * sizeof(kl_qn));
    for (int s = 0; s < nsec; s++) {
        const double count = w[h->npos].count[kl_statecount_find(&w[h->npos], q[s])];
        if ((double)h->begin[s] + count > 4294967295.0)
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "a half of the lattice has %.4g states and more; at most 2^32 are possible",
                           (double)h->begin[s] + count));
        h->begin[s + 1] = h->begin[s] + (int64_t)count;
    }
    KL_TRY(kl_alloc(&h->code, h->begin[nsec], KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&viable, h->npos + 1, KL_MEM_MISC, err));
    for (int p = 0; p <= h->npos; p++) {
        KL_TRY(kl_alloc(&viable[p].q, nsec * w[p].n, KL_MEM_MISC, err));
        int64_t n = 0, k = 0;
        for (int s = 0; s < nsec; s++)
            for (int64_t i = 0; i < w[p].n; i++) viable[p].q[n++] = kl_qn_sub(m, q[s], w[p].q[i]);
        qsort(viable[p].q, (size_t)n, sizeof(kl_qn), qn_order);
        for (int64_t i = 0; i < n; i++)
            if (k == 0 || kl_qn_cmp(viable[p].q[k - 1], viable[p].q[i]) != 0)
                viable[p].q[k++] = viable[p].q[i];
        viable[p].n = k;
    }
    const walk go = {m, h, viable, fill};
    enumerate(&go, h->npos, 0, kl_qn_zero());
    KL_TRY(sort_by_particles(h, err));
out:
    kl_statecount_free(&w, h->npos);
    kl_statecount_free(&viable, h->npos);
    kl_free(&fill);
    return st;
}

static kl_status half_types(kl_half *h, const kl_model *m, int first, int npos,
                            const kl_site_type *const *type, const kl_site_type *only, kl_err *err)
{
    kl_status st = KL_OK;
    h->first = first;
    h->npos = npos;
    KL_TRY(kl_alloc(&h->type, npos, KL_MEM_MISC, err));
    for (int p = 0; p < npos; p++) {
        h->type[p] = only ? only : type[first + p];
        if (h->type[p]->dim > h->most) h->most = h->type[p]->dim;
    }
    KL_TRY(kl_alloc(&h->odd, (int64_t)npos * h->most, KL_MEM_MISC, err));
    for (int p = 0; p < npos; p++)
        for (int s = 0; s < h->type[p]->dim; s++)
            h->odd[p * h->most + s] = (unsigned char)kl_qn_odd(m, kl_qn_of(m, h->type[p]->state_charge[s]));
out:
    return st;
}

kl_status kl_bipartition_create(const kl_terms *terms, kl_qn target, kl_bipartition_form form,
                                kl_bipartition **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_bipartition *h = NULL;
    kl_statecount *wl = NULL, *wr = NULL;
    kl_qn *ql = NULL, *qr = NULL;
    kl_bipartition_size size;
    *out = NULL;
    KL_TRY(kl_alloc(&h, 1, KL_MEM_MISC, err));
    h->model = terms->model;
    h->type = terms->type;
    h->nsite = terms->nsite;
    h->target = target;
    KL_TRY(choose_form(terms, target, form, h->flavour_charge, &h->flavour, &size, err));
    h->flavours = size.flavours;
    h->cut = size.cut;
    if (size.n > 0x1p62)
        KL_TRY(kl_fail(err, KL_EINPUT, "the sector has %.4g states; at most 2^62 can be numbered", size.dim));
    if (h->flavours) {
        KL_TRY(half_types(&h->left, h->model, 0, h->nsite, NULL, &h->flavour->type[0], err));
        KL_TRY(half_types(&h->right, h->model, 0, h->nsite, NULL, &h->flavour->type[1], err));
        h->right.behind = form & KL_BIPARTITION_SORTED ? h->nsite / 2 : 0;
    } else {
        KL_TRY(half_types(&h->left, h->model, 0, h->cut, h->type, NULL, err));
        KL_TRY(half_types(&h->right, h->model, h->cut, h->nsite - h->cut, h->type, NULL, err));
    }
    KL_TRY(kl_statecount_create(h->model, h->left.type, h->left.npos, &wl, err));
    KL_TRY(kl_statecount_create(h->model, h->right.type, h->right.npos, &wr, err));
    const kl_statecount *const l = &wl[h->left.npos], *const r = &wr[h->right.npos];
    KL_TRY(kl_alloc(&ql, l->n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&qr, l->n, KL_MEM_MISC, err));
    int n = 0;
    for (int64_t i = 0; i < l->n; i++) {
        const kl_qn q = kl_qn_sub(h->model, target, l->q[i]);
        if (kl_statecount_find(r, q) < 0) continue;
        ql[n] = l->q[i];
        qr[n++] = q;
    }
    qsort(qr, (size_t)n, sizeof(kl_qn), qn_order);
    KL_TRY(half_fill(h->model, &h->left, n, ql, err));
    KL_TRY(half_fill(h->model, &h->right, n, qr, err));
    h->nblock = n;
    KL_TRY(kl_alloc(&h->left_sec, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&h->right_sec, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&h->block_of, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&h->off, n + 1, KL_MEM_MISC, err));
    for (int i = 0; i < n; i++) {
        h->left_sec[i] = h->block_of[i] = i;
        h->right_sec[i] = kl_half_sector(&h->right, kl_qn_sub(h->model, target, ql[i]));
        const int j = h->right_sec[i];
        const int64_t nl = h->left.begin[i + 1] - h->left.begin[i],
                      nr = h->right.begin[j + 1] - h->right.begin[j];
        h->dim += nl * nr;
        h->off[i + 1] = h->off[i] + nl * ((nr + LANES - 1) / LANES) * LANES;
    }
    h->n = h->off[n];
    *out = h;
    h = NULL;
out:
    kl_statecount_free(&wl, h ? h->left.npos : *out ? (*out)->left.npos : 0);
    kl_statecount_free(&wr, h ? h->right.npos : *out ? (*out)->right.npos : 0);
    kl_free(&ql);
    kl_free(&qr);
    kl_bipartition_destroy(&h);
    return st;
}

void kl_bipartition_destroy(kl_bipartition **p)
{
    kl_bipartition *h = *p;
    if (!h) return;
    half_clear(&h->left);
    half_clear(&h->right);
    kl_free(&h->left_sec);
    kl_free(&h->right_sec);
    kl_free(&h->block_of);
    kl_free(&h->off);
    kl_flavour_free(&h->flavour);
    kl_free(p);
}

/* Where in a sector states with as many particles on the last positions as a code lie: ascending codes. */
static const int64_t *alike(const kl_half *h, int sec, uint64_t code)
{
    return h->fewer + (int64_t)sec * (h->behind + 2) + particles_behind(h, code);
}

/* Index of a code in its sector, -1: none. */
static int64_t code_find(const kl_half *h, int sec, uint64_t code)
{
    const uint64_t *const c = h->code + h->begin[sec];
    const int64_t *const range = alike(h, sec, code);
    int64_t lo = range[0], hi = range[1] - 1;
    while (lo <= hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (c[mid] == code) return mid;
        if (c[mid] < code) lo = mid + 1;
        else hi = mid - 1;
    }
    return -1;
}

int64_t kl_half_find_near(const kl_half *h, int sec, uint64_t code, int64_t near)
{
    const uint64_t *const c = h->code + h->begin[sec];
    const int64_t *const range = alike(h, sec, code);
    const int64_t end = range[1];
    int64_t step = 1;
    if (near < range[0] || near >= end || c[near] > code) return code_find(h, sec, code);
    while (near + step < end && c[near + step] <= code) near += step, step *= 2;
    for (int64_t hi = near + step < end ? near + step : end; hi - near > 1;) {
        const int64_t mid = near + (hi - near) / 2;
        if (c[mid] <= code) near = mid;
        else hi = mid;
    }
    return c[near] == code ? near : -1;
}

int64_t kl_bipartition_rank(const kl_bipartition *h, const int *state, int *sign)
{
    uint64_t code[2] = {0, 0};
    kl_qn q = kl_qn_zero();
    if (sign) *sign = 1;
    for (int p = 0; p < h->nsite; p++) {
        if (h->flavours) {
            const int bits = h->flavour->bits_of[state[p]];
            code[0] += (uint64_t)(bits & 1) * h->left.stride[p];
            code[1] += (uint64_t)(bits >> 1) * h->right.stride[p];
            q = kl_qn_add(h->model, q, kl_qn_of(h->model, h->flavour->charge[0][bits & 1]));
        } else if (p < h->cut) {
            code[0] += (uint64_t)state[p] * h->left.stride[p];
            q = kl_qn_add(h->model, q, kl_qn_of(h->model, h->type[p]->state_charge[state[p]]));
        } else {
            code[1] += (uint64_t)state[p] * h->right.stride[p - h->cut];
        }
    }
    const int s = kl_half_sector(&h->left, q);
    if (s < 0) return -1;
    const int block = h->block_of[s], j = h->right_sec[block];
    const int64_t l = code_find(&h->left, s, code[0]), r = code_find(&h->right, j, code[1]);
    if (l < 0 || r < 0) return -1;
    if (sign && h->flavours) *sign = kl_phase_flavour_major(code[0], code[1]);
    const int64_t nl = h->left.begin[s + 1] - h->left.begin[s];
    return h->off[block] + (r / LANES * nl + l) * LANES + r % LANES;
}

void kl_half_digits(const kl_half *h, uint64_t code, int *d)
{
    for (int p = 0; p < h->npos; p++) {
        const uint64_t dim = (uint64_t)h->type[p]->dim, rest = dim == 2 ? code >> 1 : code / dim;
        d[p] = (int)(code - rest * dim);
        code = rest;
    }
}

int kl_bipartition_unrank(const kl_bipartition *h, int64_t index, int *state)
{
    int lo = 0, hi = h->nblock - 1;
    if (index < 0 || index >= h->n) return 0;
    while (lo < hi) {
        const int mid = (lo + hi + 1) / 2;
        if (h->off[mid] <= index) lo = mid;
        else hi = mid - 1;
    }
    const int s = h->left_sec[lo], j = h->right_sec[lo];
    const int64_t nl = h->left.begin[s + 1] - h->left.begin[s],
                  nr = h->right.begin[j + 1] - h->right.begin[j], at = index - h->off[lo];
    const int64_t l = at / LANES % nl, r = at / LANES / nl * LANES + at % LANES;
    if (r >= nr) return 0;
    const uint64_t a = h->left.code[h->left.begin[s] + l], b = h->right.code[h->right.begin[j] + r];
    if (h->flavours) {
        for (int p = 0; p < h->nsite; p++) state[p] = h->flavour->state_of[(a >> p & 1) | (b >> p & 1) << 1];
    } else {
        kl_half_digits(&h->left, a, state);
        kl_half_digits(&h->right, b, state + h->cut);
    }
    return 1;
}

/* ---------------------------------------------------------------- one operator between two sectors */

static int state_odd(const kl_model *m, const kl_site_type *t, int s)
{
    return kl_qn_odd(m, kl_qn_of(m, t->state_charge[s]));
}

/* Sign between a basis state and the same one of the physical mode order. */
static int mode_sign(const kl_bipartition *h, const int *state)
{
    if (!h->flavours) return 1;
    uint64_t bits[2] = {0, 0};
    for (int p = 0; p < h->nsite; p++) {
        const uint64_t b = (uint64_t)h->flavour->bits_of[state[p]];
        bits[0] |= (b & 1) << p;
        bits[1] |= (b >> 1) << p;
    }
    return kl_phase_flavour_major(bits[0], bits[1]);
}

void kl_bipartition_act(const kl_bipartition_op *op, int64_t begin, int64_t end, const double *x, double *y,
                        int *state)
{
    const kl_bipartition *const to = op->to;
    const double *const a = op->a;
    const int p = op->p, dim = to->type[p]->dim;
    for (int64_t i = begin; i < end; i++) {
        if (!kl_bipartition_unrank(to, i, state)) continue;
        const int row = state[p];
        double sum = 0.0;
        int sign, here = 1, before = 0;
        for (int col = 0; col < dim; col++) {
            if (a[row + col * dim] == 0.0) continue;
            state[p] = col;
            const int64_t j = kl_bipartition_rank(op->from, state, &sign);
            if (j >= 0) sum += a[row + col * dim] * sign * x[j];
        }
        state[p] = row;
        if (sum == 0.0) continue;
        here = mode_sign(to, state);
        for (int q = 0; q < p && op->odd; q++) before ^= state_odd(to->model, to->type[q], state[q]);
        y[i] += op->c * here * kl_phase_record(op->odd, before) * sum;
    }
}
