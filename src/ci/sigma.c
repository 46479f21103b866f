/* y = H x with H = T_alpha + T_beta + V_ab and x a matrix X[ia][ib] of blocks by irrep.

   1. Y = T_alpha X + X T_beta, block by block: as dense products where T is not thin, else row by row over
      its non-zeros.
   2. V_ab, one row ia of Y at a time, and one irrep of orbital pairs at a time: the rows of X that a move of
      alpha leads to stand side by
      side; a product with the integrals (pq|rs) makes of them one vector for each pair rs; these are added
      where the move rs of beta
      leads. A row of Y belongs to one thread.
   This is how the host does it; devsigma.c does the same for many rows at a time.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/sigma.h"
#include "base/clones.h"

#include <string.h>

#include "base/blas.h"
#include "ci/devsigma.h"
#include "exec/streamed.h"
#include "base/gemm.h"
#include "base/mem.h"
#include "base/par.h"
#include "exec/spmv.h"

/* The sanitizers instrument the resolver of a clone before they are ready. */
enum {
    TILE = 8,               /* rows of X that a thin T_beta takes at once */
    PANEL = 128,            /* rows of Y by one task of a dense T */
    CACHE_DOUBLES = 24576,  /* vectors for pairs rs that are made before they are added: 192 KiB */
    BLAS_FROM = 96          /* products of that many columns go to the BLAS */
};

/* T below this share of non-zeros is multiplied as a sparse matrix: a dense product is 6 to 8 times faster an
   element. */
static const double thin = 0.12;
enum { DENSE_MOST = 8192 };

typedef struct part { /* T of one spin in one irrep */
    int64_t n;
    double *dense; /* [n][n], or NULL */
    kl_spmat *thin; /* the same as CSR */
} part;

typedef struct target { /* y[to] += or -= v[from] */
    int32_t to, from;
} target;

struct kl_sigma {
    kl_exec *ex;
    const kl_slater *h;
    kl_gemm_fn *gemm;
    int nirrep;
    part t[2][8];
    kl_slater_pairs pairs;
    /* where vectors live on a device all is done there, and nothing else of this is used */
    kl_devsigma *device;
    kl_dptr x, y; /* where vectors are the host's: the two of a product, on the device */
    /* beta irrep of the row, irrep of the pair: [2 npair + 1] into list: plus, minus, plus, ... */
    int64_t *list_off[8][8];
    target *list[8][8];
    int nwork; /* threads that have work space */
    double **work; /* [nwork] */
    /* where its parts begin, in doubles; work_y + CACHE_DOUBLES.. is the end */
    int64_t work_x, work_v, work_y;
    int64_t flops;
    int64_t from, to; /* rows of Y that are made */
};

static inline int low_bit(uint64_t x) { return __builtin_ctzll(x); }

/* ---------------------------------------------------------------- set up */

static const kl_strings *strings_of(const kl_sigma *s, int spin)
{
    return spin == 0 ? s->h->s->a : s->h->s->b;
}

static kl_status make_part(kl_sigma *s, int spin, int g, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_slater *const h = s->h;
    const kl_strings *const x = strings_of(s, spin);
    const int64_t first = x->first[g], n = x->first[g + 1] - first;
    part *const t = &s->t[spin][g];
    int64_t *off = NULL, nnz = 0;
    uint32_t *column = NULL;
    double *value = NULL;
    t->n = n;
    if (n == 0) return KL_OK;
    for (int64_t i = first; i < first + n; i++) {
        nnz += 1 + h->two_off[spin][i + 1] - h->two_off[spin][i];
        for (int64_t m = x->move_off[i]; m < x->move_off[i + 1]; m++) nnz += x->irrep[x->move[m].to] == g;
    }
    if (n <= DENSE_MOST && (double)nnz > thin * (double)n * (double)n) {
        KL_TRY(kl_alloc(&t->dense, n * n, KL_MEM_MATRIX, err));
        kl_slater_spin_block(h, spin, g, t->dense);
        return KL_OK;
    }
    const double core = spin == 0 ? h->f->core : 0.0;
    KL_TRY(kl_alloc(&off, n + 1, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&column, nnz, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&value, nnz, KL_MEM_MATRIX, err));
    int64_t k = 0;
    for (int64_t i = 0; i < n; i++) {
        column[k] = (uint32_t)i;
        value[k++] = h->diag[spin][first + i] + core;
        for (int64_t m = x->move_off[first + i]; m < x->move_off[first + i + 1]; m++) {
            if (x->irrep[x->move[m].to] != g) continue;
            column[k] = (uint32_t)(x->move[m].to - first);
            value[k++] = h->single[spin][m];
        }
        for (int64_t m = h->two_off[spin][first + i]; m < h->two_off[spin][first + i + 1]; m++) {
            column[k] = (uint32_t)(h->two_to[spin][m] - first);
            value[k++] = h->two[spin][m];
        }
        off[i + 1] = k;
    }
    /* columns in no order: the loops used here do not mind */
    KL_TRY(kl_spmat_take_csr(n, n, 0, &off, &column, &value, &t->thin, err));
out:
    kl_free(&off);
    kl_free(&column);
    kl_free(&value);
    return st;
}

/* For every irrep gk of a row's beta strings and every irrep x of pairs: where each pair's vector, over
   strings of gk ^ x, is added. */
static kl_status make_lists(kl_sigma *s, int gk, int x, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_strings *const b = s->h->s->b;
    const int64_t first = b->first[gk], from = b->first[gk ^ x];
    int64_t *fill = NULL;
    KL_TRY(kl_alloc(&s->list_off[gk][x], 2 * s->pairs.n[x] + 1, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&fill, 2 * s->pairs.n[x] + 1, KL_MEM_WORK, err));
    int64_t *const off = s->list_off[gk][x];
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t kb = first; kb < b->first[gk + 1]; kb++) {
            for (int64_t m = b->move_off[kb]; m < b->move_off[kb + 1]; m++) {
                const kl_move *const v = &b->move[m];
                if (s->pairs.irrep[v->pair] != x) continue;
                const int64_t k = 2 * s->pairs.local[v->pair] + (v->sign < 0);
                if (pass == 0) off[k + 1]++;
                else s->list[gk][x][fill[k]++] = (target){(int32_t)(kb - first), (int32_t)(v->to - from)};
            }
            for (uint64_t o = b->bits[kb]; x == 0 && o != 0; o &= o - 1) {
                const int64_t k = 2 * s->pairs.local[kl_pair(low_bit(o), low_bit(o))];
                if (pass == 0) off[k + 1]++;
                else s->list[gk][x][fill[k]++] = (target){(int32_t)(kb - first), (int32_t)(kb - first)};
            }
        }
        if (pass == 1) break;
        for (int k = 0; k < 2 * s->pairs.n[x]; k++) fill[k + 1] = off[k + 1] += off[k];
        KL_TRY(kl_alloc(&s->list[gk][x], off[2 * s->pairs.n[x]], KL_MEM_MATRIX, err));
    }
out:
    kl_free(&fill);
    return st;
}

static kl_status make_work(kl_sigma *s, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_detspace *const d = s->h->s;
    int64_t longest = 1, most_pairs = 1;
    for (int g = 0; g < s->nirrep; g++) {
        const int64_t n = d->b->first[g + 1] - d->b->first[g];
        if (n > longest) longest = n;
        if (s->pairs.n[g] > most_pairs) most_pairs = s->pairs.n[g];
    }
    const int64_t moves = d->nalpha * (int64_t)(d->norb - d->nalpha + 1) + 1;
    const int64_t chunk = longest * 8 > CACHE_DOUBLES ? longest * 8 : CACHE_DOUBLES;
    s->nwork = s->ex->nthread > 1 ? s->ex->nthread : 1;
    s->work_x = 2 * TILE * longest;
    s->work_v = s->work_x + longest * moves;
    s->work_y = s->work_v + moves * most_pairs;
    KL_TRY(kl_alloc(&s->work, s->nwork, KL_MEM_WORK, err));
    for (int k = 0; k < s->nwork; k++) KL_TRY(kl_alloc(&s->work[k], s->work_y + chunk, KL_MEM_WORK, err));
out:
    return st;
}

static void count_flops(kl_sigma *s)
{
    const kl_detspace *const d = s->h->s;
    for (int g = 0; g < s->nirrep; g++) {
        const int64_t na = d->a->first[g + 1] - d->a->first[g],
                      nb = d->b->first[(g ^ d->target) + 1] - d->b->first[g ^ d->target];
        const part *const ta = &s->t[0][g], *const tb = &s->t[1][g ^ d->target];
        s->flops += 2 * nb * (ta->thin != NULL ? ta->thin->nnz : na * na) +
                    2 * na * (tb->thin != NULL ? tb->thin->nnz : nb * nb);
    }
    for (int64_t ia = 0; ia < d->a->n; ia++) {
        const int gk = d->a->irrep[ia] ^ d->target;
        if (d->row_off[ia + 1] == d->row_off[ia]) continue;
        int64_t m[8] = {d->nalpha};
        for (int64_t k = d->a->move_off[ia]; k < d->a->move_off[ia + 1]; k++)
            m[s->pairs.irrep[d->a->move[k].pair]]++;
        for (int x = 0; x < s->nirrep; x++)
            s->flops += 2 * m[x] * s->pairs.n[x] * (d->b->first[(gk ^ x) + 1] - d->b->first[gk ^ x]);
    }
}

double kl_sigma_row_flops(const kl_sigma *s, int64_t row)
{
    const kl_detspace *const d = s->h->s;
    const int g = d->a->irrep[row], gk = g ^ d->target;
    const part *const ta = &s->t[0][g], *const tb = &s->t[1][gk];
    const double na = (double)ta->n, nb = (double)tb->n;
    double sum = 2 * nb * (ta->thin != NULL ? (double)ta->thin->nnz / na : na) +
                 2 * (tb->thin != NULL ? (double)tb->thin->nnz : nb * nb);
    if (nb == 0) return 0;
    for (int64_t k = d->a->move_off[row]; k < d->a->move_off[row + 1]; k++) {
        const int x = s->pairs.irrep[d->a->move[k].pair];
        sum += 2.0 * s->pairs.n[x] * (double)(d->b->first[(gk ^ x) + 1] - d->b->first[gk ^ x]);
    }
    return sum + 2.0 * s->pairs.n[0] * nb;
}

void kl_sigma_take_rows(kl_sigma *s, int64_t from, int64_t to)
{
    s->from = from;
    s->to = to;
}

kl_status kl_sigma_create(kl_exec *ex, const kl_slater *h, kl_sigma **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_sigma *s = NULL;
    *out = NULL;
    if (!h->s->full)
        return kl_fail(err, KL_EINPUT, "products without a matrix need a full space; this one is a list");
    KL_TRY(kl_alloc(&s, 1, KL_MEM_MISC, err));
    s->ex = ex;
    s->h = h;
    s->gemm = kl_gemm_choose(NULL);
    s->nirrep = h->s->nirrep;
    kl_exec *const there = kl_streamed_device(ex);
    if (ex->space == KL_SPACE_DEVICE || there) {
        if (there) { /* first: panels take what is left */
            KL_TRY(there->vt.alloc(there, h->s->n, &s->x, err));
            KL_TRY(there->vt.alloc(there, h->s->n, &s->y, err));
        }
        KL_TRY(kl_devsigma_create(there ? there : ex, h, 0, &s->device, err));
        s->flops = kl_devsigma_flops(s->device);
        *out = s;
        return KL_OK;
    }
    KL_TRY(kl_slater_pairs_make(h->f, &s->pairs, err));
    for (int spin = 0; spin < 2; spin++)
        for (int g = 0; g < s->nirrep; g++) KL_TRY(make_part(s, spin, g, err));
    for (int gk = 0; gk < s->nirrep; gk++)
        for (int x = 0; x < s->nirrep; x++) KL_TRY(make_lists(s, gk, x, err));
    KL_TRY(make_work(s, err));
    count_flops(s);
    kl_sigma_take_rows(s, 0, h->s->a->n);
    *out = s;
    s = NULL;
out:
    kl_sigma_destroy(&s);
    return st;
}

void kl_sigma_destroy(kl_sigma **sigma)
{
    kl_sigma *s = *sigma;
    if (s == NULL) return;
    for (int g = 0; g < 8; g++) {
        for (int spin = 0; spin < 2; spin++) {
            kl_free(&s->t[spin][g].dense);
            kl_spmat_destroy(&s->t[spin][g].thin);
        }
        for (int x = 0; x < 8; x++) {
            kl_free(&s->list_off[g][x]);
            kl_free(&s->list[g][x]);
        }
    }
    for (int k = 0; k < s->nwork && s->work != NULL; k++) kl_free(&s->work[k]);
    kl_free(&s->work);
    kl_slater_pairs_clear(&s->pairs);
    kl_devsigma_destroy(&s->device);
    kl_exec *const there = kl_streamed_device(s->ex);
    if (s->x.addr) there->vt.release(there, &s->x);
    if (s->y.addr) there->vt.release(there, &s->y);
    kl_free(sigma);
}

int64_t kl_sigma_flops(const kl_sigma *s) { return s->flops; }

/* ---------------------------------------------------------------- products */

typedef struct product {
    kl_sigma *s;
    const double *x;
    double *y;
} product;

static void multiply(const kl_sigma *s, int m, int n, int k, const double *a, const double *b, double beta,
                     double *c)
{
    if (n >= BLAS_FROM && k >= BLAS_FROM) kl_dgemm('N', 'N', m, n, k, 1.0, a, m, b, k, beta, c, m);
    else s->gemm(0, 0, m, n, k, 1.0, a, m, b, k, beta, c, m);
}

KL_CLONED static void add_scaled(int64_t n, double a, const double *x, double *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] += a * x[i];
}

/* 1. Rows [from, to) of irrep g. */
static void one_spin(const product *p, int g, int64_t from, int64_t to, double *work)
{
    const kl_sigma *const s = p->s;
    const kl_detspace *const d = s->h->s;
    const part *const ta = &s->t[0][g], *const tb = &s->t[1][g ^ d->target];
    const int64_t first = d->a->first[g], nb = tb->n, rows = to - from;
    const double *const block = p->x + d->row_off[first], *const x = block + from * nb;
    double *const y = p->y + d->row_off[first] + from * nb;
    /* T is symmetric */
    if (ta->dense != NULL)
        multiply(s, (int)nb, (int)rows, (int)ta->n, block, ta->dense + from * ta->n, 0.0, y);
    else {
        memset(y, 0, (size_t)(rows * nb) * sizeof(double));
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = kl_sp_offset(ta->thin, ta->thin->start, from + i);
                 k < kl_sp_offset(ta->thin, ta->thin->start, from + i + 1); k++)
                add_scaled(nb, ta->thin->rest_value[k],
                           block + kl_sp_column(ta->thin, ta->thin->rest_column, k) * nb, y + i * nb);
    }
    if (tb->dense != NULL) {
        multiply(s, (int)nb, (int)rows, (int)nb, tb->dense, x, 1.0, y);
        return;
    }
    kl_spmv_units *const units = tb->thin->index_bytes == 2 ? kl_spmv_units_16 : kl_spmv_units_32;
    double *const in = work, *const out = work + TILE * nb;
    for (int64_t i = 0; i < rows; i += TILE) {
        const int64_t n = rows - i < TILE ? rows - i : TILE;
        for (int64_t j = 0; j < nb; j++)
            for (int64_t r = 0; r < TILE; r++) in[j * TILE + r] = r < n ? x[(i + r) * nb + j] : 0.0;
        units(tb->thin, 0, nb, TILE, in, out, NULL);
        for (int64_t r = 0; r < n; r++)
            for (int64_t j = 0; j < nb; j++) y[(i + r) * nb + j] += out[j * TILE + r];
    }
}

static inline void add_list(const target *t, int64_t n, const double *v, double *y)
{
    for (int64_t k = 0; k < n; k++) y[t[k].to] += v[t[k].from];
}

static inline void subtract_list(const target *t, int64_t n, const double *v, double *y)
{
    for (int64_t k = 0; k < n; k++) y[t[k].to] -= v[t[k].from];
}

/* 2. */
static void both_spins(const product *p, int64_t ia, double *work)
{
    const kl_sigma *const s = p->s;
    const kl_detspace *const d = s->h->s;
    const kl_strings *const a = d->a;
    const int gk = a->irrep[ia] ^ d->target;
    double *const y = p->y + d->row_off[ia], *const side = work + s->work_x, *const v = work + s->work_v,
                  *const made = work + s->work_y;
    if (d->row_off[ia + 1] == d->row_off[ia]) return;
    for (int xi = 0; xi < s->nirrep; xi++) {
        const int64_t nj = d->b->first[(gk ^ xi) + 1] - d->b->first[gk ^ xi];
        const int np = s->pairs.n[xi];
        int m = 0;
        const double *row_v[KL_DET_MAX_ORB * KL_DET_MAX_ORB];
        int8_t sign[KL_DET_MAX_ORB * KL_DET_MAX_ORB];
        if (nj == 0 || np == 0) continue;
        for (uint64_t o = a->bits[ia]; xi == 0 && o != 0; o &= o - 1, m++) {
            row_v[m] = s->pairs.v[0] + (int64_t)s->pairs.local[kl_pair(low_bit(o), low_bit(o))] * np;
            sign[m] = 1;
        }
        /* The occupations themselves all act on the row of ia: their integrals are summed, and one row stands
           for them. */
        const int ndiag = m;
        m = ndiag > 0;
        if (m > 0) memcpy(side, p->x + d->row_off[ia], (size_t)nj * sizeof(double));
        int nmove = 0;
        for (int64_t k = a->move_off[ia]; k < a->move_off[ia + 1]; k++) {
            const kl_move *const u = &a->move[k];
            if (s->pairs.irrep[u->pair] != xi) continue;
            memcpy(side + (m + nmove) * nj, p->x + d->row_off[u->to], (size_t)nj * sizeof(double));
            row_v[ndiag + nmove] = s->pairs.v[xi] + (int64_t)s->pairs.local[u->pair] * np;
            sign[ndiag + nmove++] = (int8_t)u->sign;
        }
        const int k_all = m + nmove;
        if (k_all == 0) continue;
        for (int rs = 0; rs < np; rs++) {
            double *const column = v + (int64_t)rs * k_all;
            if (m > 0) {
                double sum = 0;
                for (int k = 0; k < ndiag; k++) sum += row_v[k][rs];
                column[0] = sum;
            }
            for (int k = 0; k < nmove; k++) column[m + k] = sign[ndiag + k] * row_v[ndiag + k][rs];
        }
        int chunk = (int)(CACHE_DOUBLES / nj);
        if (chunk < 8) chunk = 8;
        const int64_t *const off = s->list_off[gk][xi];
        const target *const list = s->list[gk][xi];
        for (int first = 0; first < np; first += chunk) {
            const int n = np - first < chunk ? np - first : chunk;
            s->gemm(0, 0, (int)nj, n, k_all, 1.0, side, (int)nj, v + (int64_t)first * k_all, k_all, 0.0, made,
                    (int)nj);
            for (int rs = first; rs < first + n; rs++) {
                const double *const from = made + (int64_t)(rs - first) * nj;
                add_list(list + off[2 * rs], off[2 * rs + 1] - off[2 * rs], from, y);
                subtract_list(list + off[2 * rs + 1], off[2 * rs + 2] - off[2 * rs + 1], from, y);
            }
        }
    }
}

static void panel_task(void *self, int64_t task, int thread)
{
    const product *const p = self;
    const kl_strings *const a = p->s->h->s->a;
    for (int g = 0; g < p->s->nirrep; g++) { /* panels irrep by irrep */
        const int64_t n = a->first[g + 1] - a->first[g], npanel = (n + PANEL - 1) / PANEL;
        if (task >= npanel) {
            task -= npanel;
            continue;
        }
        int64_t from = task * PANEL, to = (task + 1) * PANEL < n ? (task + 1) * PANEL : n;
        if (from < p->s->from - a->first[g]) from = p->s->from - a->first[g];
        if (to > p->s->to - a->first[g]) to = p->s->to - a->first[g];
        if (from < to && p->s->t[1][g ^ p->s->h->s->target].n > 0)
            one_spin(p, g, from, to, p->s->work[thread]);
        return;
    }
}

static void row_task(void *self, int64_t task, int thread)
{
    const product *const p = self;
    both_spins(p, p->s->from + task, p->s->work[thread]);
}

/* Vectors are the host's: one after the other comes and goes. */
static kl_status apply_far(kl_sigma *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const d = kl_streamed_device(s->ex);
    const int64_t n = s->h->s->n;
    for (int v = 0; v < nvec; v++) {
        d->vt.join(d, d->vt.copy_async(d, n, kl_dptr_at(x, v * ldx), s->x, KL_COPY_AFTER), 0);
        KL_TRY(kl_devsigma_apply(s->device, 1, s->x, n, s->y, n, err));
        d->vt.join(d, d->vt.copy_async(d, n, s->y, kl_dptr_at(y, v * ldy), KL_COPY_AFTER), 1);
    }
out:
    return st;
}

kl_status kl_sigma_apply(kl_sigma *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy, kl_err *err)
{
    if (s->x.addr != 0) return apply_far(s, nvec, x, ldx, y, ldy, err);
    if (s->device != NULL) return kl_devsigma_apply(s->device, nvec, x, ldx, y, ldy, err);
    const kl_strings *const a = s->h->s->a;
    int64_t npanel = 0;
    for (int g = 0; g < s->nirrep; g++) npanel += (a->first[g + 1] - a->first[g] + PANEL - 1) / PANEL;
    for (int v = 0; v < nvec; v++) {
        product p = {s, (const double *)x.addr + v * ldx, (double *)y.addr + v * ldy};
        kl_par_for(s->nwork, npanel, panel_task, &p);
        kl_par_for(s->nwork, s->to - s->from, row_task, &p);
    }
    return KL_OK;
}
