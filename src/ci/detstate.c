/* Expectation values, row by row of a space; rows are summed in blocks of fixed size, so that threads change
   no bit.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/detstate.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/par.h"
#include "phase.h"

enum { MAX_BLOCK = 128 };

static inline int low_bit(uint64_t x) { return __builtin_ctzll(x); }
static inline uint64_t bit(int p) { return UINT64_C(1) << p; }

static int64_t beta_of(const kl_detspace *s, int64_t ia, int64_t k)
{
    return s->full ? s->row_first[ia] + (k - s->row_off[ia]) : s->row_beta[k];
}
static int64_t position_of(const kl_detspace *s, int64_t k) { return s->full ? k : s->row_pos[k]; }

typedef struct job {
    const kl_detspace *s;
    const double *c;
    int64_t rows, width;  /* alpha strings of a block, doubles of its sum */
    double *sum;          /* [nblock][width] */
    double **table;       /* [nthread][beta strings] coefficients of one row, 0 where there is none */
    int spin_only;
} job;

static void spread(const job *j, int64_t ia, double *t, int on)
{
    const kl_detspace *const s = j->s;
    for (int64_t k = s->row_off[ia]; k < s->row_off[ia + 1]; k++)
        t[beta_of(s, ia, k)] = on ? j->c[position_of(s, k)] : 0.0;
}

/* sum of <E_pq^alpha E_qp^beta> over all p and q. */
static double exchange(const job *j, int64_t ia, double *t)
{
    const kl_detspace *const s = j->s;
    const uint64_t alpha = s->a->bits[ia];
    double sum = 0;
    for (int64_t k = s->row_off[ia]; k < s->row_off[ia + 1]; k++) {
        const double c = j->c[position_of(s, k)];
        sum += c * c * __builtin_popcountll(alpha & s->b->bits[beta_of(s, ia, k)]);
    }
    for (int64_t m = s->a->move_off[ia]; m < s->a->move_off[ia + 1]; m++) {
        const kl_move *const u = &s->a->move[m]; /* alpha from p to q, so beta from q to p */
        if (s->row_off[u->to + 1] == s->row_off[u->to]) continue;
        spread(j, u->to, t, 1);
        for (int64_t k = s->row_off[ia]; k < s->row_off[ia + 1]; k++) {
            const uint64_t beta = s->b->bits[beta_of(s, ia, k)];
            if (!(beta & bit(u->q)) || (beta & bit(u->p))) continue;
            const int64_t to = kl_strings_find(s->b, (beta & ~bit(u->q)) | bit(u->p));
            if (to >= 0 && t[to] != 0.0)
                sum += j->c[position_of(s, k)] * t[to] * (u->sign * kl_phase_hop(beta, u->p, u->q));
        }
        spread(j, u->to, t, 0);
    }
    return sum;
}

static void densities(const job *j, int64_t ia, double *t, double *alpha, double *beta)
{
    const kl_detspace *const s = j->s;
    const int n = s->norb;
    double weight = 0;
    spread(j, ia, t, 1);
    for (int64_t k = s->row_off[ia]; k < s->row_off[ia + 1]; k++) {
        const double c = j->c[position_of(s, k)];
        const int64_t ib = beta_of(s, ia, k);
        weight += c * c;
        for (uint64_t o = s->b->bits[ib]; o != 0; o &= o - 1) beta[low_bit(o) * (n + 1)] += c * c;
        for (int64_t m = s->b->move_off[ib]; m < s->b->move_off[ib + 1]; m++) {
            const kl_move *const v = &s->b->move[m];
            beta[v->p * n + v->q] += v->sign * c * t[v->to];
        }
    }
    spread(j, ia, t, 0);
    for (uint64_t o = s->a->bits[ia]; o != 0; o &= o - 1) alpha[low_bit(o) * (n + 1)] += weight;
    for (int64_t m = s->a->move_off[ia]; m < s->a->move_off[ia + 1]; m++) {
        const kl_move *const u = &s->a->move[m];
        if (s->row_off[u->to + 1] == s->row_off[u->to]) continue;
        double sum = 0;
        spread(j, u->to, t, 1);
        for (int64_t k = s->row_off[ia]; k < s->row_off[ia + 1]; k++)
            sum += j->c[position_of(s, k)] * t[beta_of(s, ia, k)];
        spread(j, u->to, t, 0);
        alpha[u->p * n + u->q] += u->sign * sum;
    }
}

static void block_task(void *self, int64_t task, int thread)
{
    const job *const j = self;
    const int64_t to = (task + 1) * j->rows < j->s->a->n ? (task + 1) * j->rows : j->s->a->n;
    double *const sum = j->sum + task * j->width;
    for (int64_t ia = task * j->rows; ia < to; ia++) {
        if (j->s->row_off[ia + 1] == j->s->row_off[ia]) continue;
        if (j->spin_only) sum[0] += exchange(j, ia, j->table[thread]);
        else densities(j, ia, j->table[thread], sum, sum + j->s->norb * j->s->norb);
    }
}

/* out[width] */
static kl_status run(const kl_detspace *s, int nthread, const double *c, int spin_only, int64_t width,
                     double *out, kl_err *err)
{
    kl_status st = KL_OK;
    if (nthread < 1) nthread = 1;
    job j = {.s = s,
             .c = c,
             .rows = (s->a->n + MAX_BLOCK - 1) / MAX_BLOCK,
             .width = width,
             .spin_only = spin_only};
    if (j.rows < 1) j.rows = 1;
    const int64_t nblock = (s->a->n + j.rows - 1) / j.rows;
    KL_TRY(kl_alloc(&j.sum, nblock * width, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&j.table, nthread, KL_MEM_WORK, err));
    for (int k = 0; k < nthread; k++) KL_TRY(kl_alloc(&j.table[k], s->b->n, KL_MEM_WORK, err));
    kl_par_for(nthread, nblock, block_task, &j);
    memset(out, 0, (size_t)width * sizeof(double));
    for (int64_t b = 0; b < nblock; b++)
        for (int64_t k = 0; k < width; k++) out[k] += j.sum[b * width + k];
out:
    for (int k = 0; k < nthread && j.table != NULL; k++) kl_free(&j.table[k]);
    kl_free(&j.table);
    kl_free(&j.sum);
    return st;
}

kl_status kl_detstate_spin(const kl_detspace *s, int nthread, const double *c, double *s2, kl_err *err)
{
    double sum = 0;
    const kl_status st = run(s, nthread, c, 1, 1, &sum, err);
    const double ms = 0.5 * (s->nalpha - s->nbeta);
    *s2 = ms * (ms + 1) + s->nbeta - sum;
    return st;
}

kl_status kl_detstate_density(const kl_detspace *s, int nthread, const double *c, double *alpha, double *beta,
                              kl_err *err)
{
    kl_status st = KL_OK;
    double *both = NULL;
    const int64_t square = (int64_t)s->norb * s->norb;
    KL_TRY(kl_alloc(&both, 2 * square, KL_MEM_WORK, err));
    KL_TRY(run(s, nthread, c, 0, 2 * square, both, err));
    memcpy(alpha, both, (size_t)square * sizeof(double));
    memcpy(beta, both + square, (size_t)square * sizeof(double));
out:
    kl_free(&both);
    return st;
}

int kl_detstate_leading(const kl_detspace *s, const double *c, int n, int64_t *at)
{
    int have = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (have == n && (n == 0 || !(fabs(c[i]) > fabs(c[at[n - 1]])))) continue;
        int k = have < n ? have++ : n - 1;
        for (; k > 0 && fabs(c[i]) > fabs(c[at[k - 1]]); k--) at[k] = at[k - 1];
        at[k] = i;
    }
    return have;
}
