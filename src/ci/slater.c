/* Slater-Condon rules, string by string.

   A row of H for the determinant (ia, ib): T_alpha connects (ja, ib), T_beta (ia, jb), and V_ab = sum (pq|rs)
   E_pq^alpha E_rs^beta a move of each. So for every pair (ia, ja) that a move, a double excitation or nothing
   connects, the row of ja is spread over a table by beta string once, and serves all determinants in the row
   of ia. Moves are listed by the string that they make, hence by its irrep: only those that the target allows
   are looked at.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/slater.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/par.h"
#include "phase.h"

static const double too_small = 1e-14;

static inline int low_bit(uint64_t x) { return __builtin_ctzll(x); }
static inline uint64_t bit(int p) { return UINT64_C(1) << p; }

static inline double two(const kl_fcidump *f, int kind, int p, int q, int r, int s)
{
    return f->eri[kind][kl_pair(p, q) * f->npair + kl_pair(r, s)];
}

/* ---------------------------------------------------------------- one spin */

static double string_diagonal(const kl_fcidump *f, int spin, uint64_t x)
{
    double e = 0;
    for (uint64_t o = x; o != 0; o &= o - 1) {
        const int p = low_bit(o);
        e += f->h[spin][p * f->norb + p];
        for (uint64_t m = o & (o - 1); m != 0; m &= m - 1) {
            const int q = low_bit(m);
            e += two(f, spin, p, p, q, q) - two(f, spin, p, q, q, p);
        }
    }
    return e;
}

/* <x'| T |x>, x' = x with an electron moved from p to q. */
static double string_single(const kl_fcidump *f, int spin, uint64_t x, int p, int q)
{
    double e = f->h[spin][p * f->norb + q];
    for (uint64_t o = x & ~bit(p); o != 0; o &= o - 1) {
        const int k = low_bit(o);
        e += two(f, spin, q, p, k, k) - two(f, spin, q, k, k, p);
    }
    return e * kl_phase_hop(x, q, p);
}

/* Electrons from p1 and p2 to q1 and q2. */
static double string_double(const kl_fcidump *f, int spin, uint64_t x, int p1, int p2, int q1, int q2)
{
    const uint64_t middle = (x & ~bit(p1)) | bit(q1);
    return (two(f, spin, q1, p1, q2, p2) - two(f, spin, q1, p2, q2, p1)) * kl_phase_hop(x, q1, p1) *
           kl_phase_hop(middle, q2, p2);
}

double kl_slater_element(const kl_fcidump *f, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    const uint64_t from[2] = {c & ~a, d & ~b}, to[2] = {a & ~c, b & ~d}, ket[2] = {c, d};
    const int na = __builtin_popcountll(from[0]), nb = __builtin_popcountll(from[1]);
    if (na + nb > 2 || na != __builtin_popcountll(to[0]) || nb != __builtin_popcountll(to[1])) return 0;
    if (na + nb == 0) {
        double e = f->core + string_diagonal(f, 0, c) + string_diagonal(f, 1, d);
        for (uint64_t o = c; o != 0; o &= o - 1)
            for (uint64_t m = d; m != 0; m &= m - 1)
                e += two(f, 2, low_bit(o), low_bit(o), low_bit(m), low_bit(m));
        return e;
    }
    if (na == 1 && nb == 1) {
        const int p = low_bit(from[0]), q = low_bit(to[0]), r = low_bit(from[1]), s = low_bit(to[1]);
        return two(f, 2, q, p, s, r) * kl_phase_hop(c, q, p) * kl_phase_hop(d, s, r);
    }
    const int spin = nb > 0, p = low_bit(from[spin]), q = low_bit(to[spin]);
    if (na + nb == 2)
        return string_double(f, spin, ket[spin], p, low_bit(from[spin] & (from[spin] - 1)), q,
                             low_bit(to[spin] & (to[spin] - 1)));
    double e = 0;
    for (uint64_t o = ket[1 - spin]; o != 0; o &= o - 1) {
        const int k = low_bit(o);
        e += spin == 0 ? two(f, 2, q, p, k, k) : two(f, 2, k, k, q, p);
    }
    return string_single(f, spin, ket[spin], p, q) + e * kl_phase_hop(ket[spin], q, p);
}

typedef struct target { /* of a double excitation */
    int64_t to;
    double value;
} target;

typedef struct string_job {
    kl_slater *h;
    int spin;
    int64_t *count;  /* [strings]: count doubles only; NULL: fill */
    target **sorted; /* [nthread][most doubles of a string] */
} string_job;

static int by_string(const void *x, const void *y)
{
    const target *const a = x, *const b = y;
    return (a->to > b->to) - (a->to < b->to);
}

enum { STRINGS_PER_TASK = 16 };

static void string_task(void *self, int64_t task, int thread)
{
    const string_job *const job = self;
    kl_slater *const h = job->h;
    const int spin = job->spin;
    const kl_fcidump *const f = h->f;
    const kl_strings *const s = spin == 0 ? h->s->a : h->s->b;
    const uint64_t all = s->norb >= 64 ? ~UINT64_C(0) : bit(s->norb) - 1;
    for (int64_t i = task * STRINGS_PER_TASK; i < (task + 1) * STRINGS_PER_TASK && i < s->n; i++) {
        const uint64_t x = s->bits[i];
        if (job->count == NULL) {
            h->diag[spin][i] = string_diagonal(f, spin, x);
            for (int64_t k = s->move_off[i]; k < s->move_off[i + 1]; k++)
                h->single[spin][k] = string_single(f, spin, x, s->move[k].p, s->move[k].q);
        }
        int64_t n = 0;
        for (uint64_t o1 = x; o1 != 0; o1 &= o1 - 1)
            for (uint64_t o2 = o1 & (o1 - 1); o2 != 0; o2 &= o2 - 1) {
                const int p1 = low_bit(o1), p2 = low_bit(o2), g = f->irrep[p1] ^ f->irrep[p2];
                for (uint64_t v1 = all & ~x; v1 != 0; v1 &= v1 - 1)
                    for (uint64_t v2 = v1 & (v1 - 1); v2 != 0; v2 &= v2 - 1) {
                        const int q1 = low_bit(v1), q2 = low_bit(v2);
                        if ((f->irrep[q1] ^ f->irrep[q2]) != g) continue;
                        const int64_t to = kl_strings_find(s, (x & ~bit(p1) & ~bit(p2)) | bit(q1) | bit(q2));
                        if (to < 0) continue;
                        const double value = string_double(f, spin, x, p1, p2, q1, q2);
                        if (fabs(value) < too_small) continue;
                        if (job->count == NULL) job->sorted[thread][n] = (target){to, value};
                        n++;
                    }
            }
        if (job->count != NULL) {
            job->count[i] = n;
            continue;
        }
        target *const list = job->sorted[thread];
        if (n > 1) qsort(list, (size_t)n, sizeof(*list), by_string);
        for (int64_t k = 0; k < n; k++) {
            h->two_to[spin][h->two_off[spin][i] + k] = (int32_t)list[k].to;
            h->two[spin][h->two_off[spin][i] + k] = list[k].value;
        }
    }
}

kl_status kl_slater_create(const kl_fcidump *f, const kl_detspace *s, int nthread, kl_slater **out,
                           kl_err *err)
{
    kl_status st = KL_OK;
    kl_slater *h = NULL;
    int64_t *count = NULL;
    target **sorted = NULL;
    *out = NULL;
    if (f->norb != s->norb)
        return kl_fail(err, KL_EINPUT, "integrals of %d orbitals for strings of %d", f->norb, s->norb);
    KL_TRY(kl_alloc(&h, 1, KL_MEM_MISC, err));
    h->f = f;
    h->s = s;
    h->nthread = nthread > 1 ? nthread : 1;
    KL_TRY(kl_alloc(&sorted, h->nthread, KL_MEM_WORK, err));
    for (int spin = 0; spin < 2; spin++) {
        const kl_strings *const x = spin == 0 ? s->a : s->b;
        const int64_t ntask = (x->n + STRINGS_PER_TASK - 1) / STRINGS_PER_TASK;
        KL_TRY(kl_alloc(&h->diag[spin], x->n, KL_MEM_MATRIX, err));
        KL_TRY(kl_alloc(&h->single[spin], x->move_off[x->n], KL_MEM_MATRIX, err));
        KL_TRY(kl_alloc(&h->two_off[spin], x->n + 1, KL_MEM_MATRIX, err));
        KL_TRY(kl_alloc(&count, x->n, KL_MEM_WORK, err));
        string_job job = {h, spin, count, sorted};
        kl_par_for(h->nthread, ntask, string_task, &job);
        int64_t most = 0;
        for (int64_t i = 0; i < x->n; i++) {
            h->two_off[spin][i + 1] = h->two_off[spin][i] + count[i];
            if (count[i] > most) most = count[i];
        }
        kl_free(&count);
        for (int k = 0; k < h->nthread; k++) KL_TRY(kl_realloc(&sorted[k], most, KL_MEM_WORK, err));
        KL_TRY(kl_alloc(&h->two_to[spin], h->two_off[spin][x->n], KL_MEM_MATRIX, err));
        KL_TRY(kl_alloc(&h->two[spin], h->two_off[spin][x->n], KL_MEM_MATRIX, err));
        job.count = NULL;
        kl_par_for(h->nthread, ntask, string_task, &job);
    }
    *out = h;
    h = NULL;
out:
    for (int k = 0; sorted != NULL && k < (nthread > 1 ? nthread : 1); k++) kl_free(&sorted[k]);
    kl_free(&sorted);
    kl_free(&count);
    kl_slater_destroy(&h);
    return st;
}

void kl_slater_destroy(kl_slater **slater)
{
    kl_slater *h = *slater;
    if (h == NULL) return;
    for (int spin = 0; spin < 2; spin++) {
        kl_free(&h->diag[spin]);
        kl_free(&h->single[spin]);
        kl_free(&h->two_off[spin]);
        kl_free(&h->two_to[spin]);
        kl_free(&h->two[spin]);
    }
    kl_free(slater);
}

/* ---------------------------------------------------------------- rows */

static int64_t beta_of(const kl_detspace *s, int64_t ia, int64_t k)
{
    return s->full ? s->row_first[ia] + (k - s->row_off[ia]) : s->row_beta[k];
}

static int64_t position_of(const kl_detspace *s, int64_t k) { return s->full ? k : s->row_pos[k]; }

typedef struct diagonal_job {
    const kl_slater *h;
    double *d;
} diagonal_job;

static void diagonal_task(void *self, int64_t ia, int thread)
{
    const diagonal_job *const job = self;
    const kl_slater *const h = job->h;
    const kl_detspace *const s = h->s;
    double repulsion[KL_DET_MAX_ORB] = {0};
    (void)thread;
    for (int r = 0; r < s->norb; r++)
        for (uint64_t o = s->a->bits[ia]; o != 0; o &= o - 1)
            repulsion[r] += two(h->f, 2, low_bit(o), low_bit(o), r, r);
    for (int64_t k = s->row_off[ia]; k < s->row_off[ia + 1]; k++) {
        const int64_t ib = beta_of(s, ia, k);
        double e = h->f->core + h->diag[0][ia] + h->diag[1][ib];
        for (uint64_t o = s->b->bits[ib]; o != 0; o &= o - 1) e += repulsion[low_bit(o)];
        job->d[position_of(s, k)] = e;
    }
}

void kl_slater_diagonal(const kl_slater *h, double *d)
{
    diagonal_job job = {h, d};
    kl_par_for(h->nthread, h->s->a->n, diagonal_task, &job);
}

/* Where a determinant is: level << 48 | position + 1. */
static inline int64_t position(uint64_t key) { return (int64_t)(key & ((UINT64_C(1) << 48) - 1)) - 1; }

typedef struct matrix_job {
    const kl_slater *h;
    int lower, nlevel;
    uint64_t *key;         /* [n] by row of alpha string */
    /* [n][nlevel] by position: non-zeros of a row in columns of a level; then where the next one goes */
    int64_t *place;
    const double *diag;    /* [n] by position */
    uint32_t *column;      /* NULL: count only */
    double *value;
    /* [nthread][2][beta strings] keys of the determinants of ia, of ja; 0: not there */
    uint64_t **table;
    struct rows *task;     /* [ntask] */
    int64_t ntask;
} matrix_job;

/* Determinants [from, to) of the row of an alpha string: references have long ones. */
typedef struct rows {
    int64_t ia, from, to;
} rows;
enum { MOST_ROWS = 256 };

static inline void put(const matrix_job *job, int64_t row, uint64_t key, double value)
{
    const int64_t k = job->place[row * job->nlevel + (int64_t)(key >> 48)]++;
    if (job->column == NULL) return;
    job->column[k] = (uint32_t)position(key);
    job->value[k] = value;
}

static inline void emit(const matrix_job *job, int64_t row, uint64_t key, double value)
{
    if (key != 0 && fabs(value) >= too_small && !(job->lower && position(key) > row))
        put(job, row, key, value);
}

/* All elements <ia ib| H |ia jb>; columns of each row by string. */
static void same_alpha(const matrix_job *job, const rows *r, const uint64_t *t)
{
    const kl_slater *const h = job->h;
    const kl_detspace *const s = h->s;
    const kl_strings *const b = s->b;
    double repulsion[KL_DET_MAX_ORB * (KL_DET_MAX_ORB + 1) / 2];
    const int64_t npair = (int64_t)s->norb * (s->norb + 1) / 2;
    for (int64_t rs = 0; rs < npair; rs++) {
        repulsion[rs] = 0;
        for (uint64_t o = s->a->bits[r->ia]; o != 0; o &= o - 1)
            repulsion[rs] += h->f->eri[2][kl_pair(low_bit(o), low_bit(o)) * npair + rs];
    }
    for (int64_t k = r->from; k < r->to; k++) {
        const int64_t ib = beta_of(s, r->ia, k), row = position(job->key[k]);
        const int64_t *const moves = b->move_to + b->nirrep * ib + b->irrep[ib], *const pairs =
                                                                                     h->two_off[1] + ib;
        int64_t m = moves[0], d = pairs[0];
        for (int own = 0; m < moves[1] || d < pairs[1] || !own;) {
            const int64_t single = m < moves[1] ? b->move[m].to : INT64_MAX,
                          pair = d < pairs[1] ? h->two_to[1][d] : INT64_MAX;
            if (!own && ib < single && ib < pair) {
                put(job, row, job->key[k], job->diag != NULL ? job->diag[row] : 0.0);
                own = 1;
            } else if (single < pair) {
                const kl_move *const v = &b->move[m];
                emit(job, row, t[single], h->single[1][m++] + v->sign * repulsion[v->pair]);
            } else emit(job, row, t[pair], h->two[1][d++]);
        }
    }
}

/* <ia ib| H |ja jb>, ja by a move of ia: beta moves too, by what makes the irrep, or stays. */
static void moved_alpha(const matrix_job *job, const rows *r, int64_t move, const uint64_t *t)
{
    const kl_slater *const h = job->h;
    const kl_detspace *const s = h->s;
    const kl_strings *const b = s->b;
    const kl_move *const u = &s->a->move[move];
    const double *const v_ab = h->f->eri[2] + u->pair * h->f->npair;
    const int gb = s->a->irrep[u->to] ^ s->target, may_stay = s->a->irrep[u->to] == s->a->irrep[r->ia];
    for (int64_t k = r->from; k < r->to; k++) {
        const int64_t ib = beta_of(s, r->ia, k), row = position(job->key[k]);
        const int64_t *const moves = b->move_to + b->nirrep * ib + gb;
        const kl_move *v = b->move + moves[0], *const end = b->move + moves[1];
        if (may_stay && t[ib] != 0) {
            double e = 0;
            for (uint64_t o = b->bits[ib]; o != 0; o &= o - 1) e += v_ab[kl_pair(low_bit(o), low_bit(o))];
            for (; v < end && v->to < ib; v++) emit(job, row, t[v->to], v_ab[v->pair] * (u->sign * v->sign));
            emit(job, row, t[ib], h->single[0][move] + u->sign * e);
        }
        for (; v < end; v++) emit(job, row, t[v->to], v_ab[v->pair] * (u->sign * v->sign));
    }
}

static void spread(const matrix_job *job, int64_t ja, uint64_t *t, int on)
{
    const kl_detspace *const s = job->h->s;
    for (int64_t k = s->row_off[ja]; k < s->row_off[ja + 1]; k++) t[beta_of(s, ja, k)] = on ? job->key[k] : 0;
}

/* Two alpha electrons move: beta stays. t: the row of ia. */
static void moved_pair(const matrix_job *job, const rows *r, int64_t ja, double value, const uint64_t *t)
{
    const kl_detspace *const s = job->h->s;
    const int64_t first = beta_of(s, r->ia, r->from), last = beta_of(s, r->ia, r->to - 1);
    for (int64_t k = s->row_off[ja]; k < s->row_off[ja + 1]; k++) {
        const int64_t jb = beta_of(s, ja, k);
        if (jb >= first && jb <= last && t[jb] != 0) emit(job, position(t[jb]), job->key[k], value);
    }
}

/* Alpha strings that ia is connected with come in their order, and so do beta strings: within a level the
   columns of a row are met as they shall lie. */
static void row_task(void *self, int64_t task, int thread)
{
    const matrix_job *const job = self;
    const rows *const r = &job->task[task];
    const kl_slater *const h = job->h;
    const kl_strings *const a = h->s->a;
    uint64_t *const own = job->table[thread], *const other = own + h->s->b->n;
    const int64_t *const moves = a->move_off + r->ia, *const pairs = h->two_off[0] + r->ia;
    spread(job, r->ia, own, 1);
    int64_t m = moves[0], d = pairs[0];
    for (int met = 0; m < moves[1] || d < pairs[1] || !met;) {
        const int64_t single = m < moves[1] ? a->move[m].to : INT64_MAX,
                      pair = d < pairs[1] ? h->two_to[0][d] : INT64_MAX;
        if (!met && r->ia < single && r->ia < pair) {
            same_alpha(job, r, own);
            met = 1;
        } else if (single < pair) {
            spread(job, single, other, 1);
            moved_alpha(job, r, m++, other);
            spread(job, single, other, 0);
        } else moved_pair(job, r, pair, h->two[0][d++], own);
    }
    spread(job, r->ia, own, 0);
}

static void make_keys(const kl_detspace *s, uint64_t *key)
{
    for (int64_t k = 0; k < s->n; k++) {
        uint64_t level = 0;
        const int64_t at = position_of(s, k);
        for (int64_t before = 0; !s->full && at >= before + s->level_count[level]; level++)
            before += s->level_count[level];
        key[k] = level << 48 | (uint64_t)(at + 1);
    }
}

static void job_clear(matrix_job *job)
{
    for (int k = 0; job->table != NULL && k < job->h->nthread; k++) kl_free(&job->table[k]);
    kl_free(&job->table);
    kl_free(&job->task);
    kl_free(&job->key);
    kl_free(&job->place);
}

/* All rows, or those of one alpha string in `every`. */
static kl_status make_tasks(const kl_detspace *s, int every, matrix_job *job, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t room = 0;
    for (int64_t ia = 0; ia < s->a->n; ia += every)
        room += (s->row_off[ia + 1] - s->row_off[ia] + MOST_ROWS - 1) / MOST_ROWS;
    KL_TRY(kl_alloc(&job->task, room, KL_MEM_WORK, err));
    for (int64_t ia = 0; ia < s->a->n; ia += every)
        for (int64_t from = s->row_off[ia]; from < s->row_off[ia + 1]; from += MOST_ROWS)
            job->task[job->ntask++] = (rows){
                ia, from, from + MOST_ROWS < s->row_off[ia + 1] ? from + MOST_ROWS : s->row_off[ia + 1]};
out:
    return st;
}

static kl_status count_rows(const kl_slater *h, int lower, int every, matrix_job *job, kl_err *err)
{
    kl_status st = KL_OK;
    *job = (matrix_job){.h = h, .lower = lower, .nlevel = h->s->full ? 1 : h->s->nlevel};
    if (h->s->n > (int64_t)UINT32_MAX)
        return kl_fail(err, KL_EINPUT, "a stored matrix of %lld rows; at most 2^32 are supported",
                       (long long)h->s->n);
    KL_TRY(kl_alloc(&job->key, h->s->n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&job->place, h->s->n * job->nlevel, KL_MEM_WORK, err));
    make_keys(h->s, job->key);
    KL_TRY(kl_alloc(&job->table, h->nthread, KL_MEM_WORK, err));
    for (int k = 0; k < h->nthread; k++) KL_TRY(kl_alloc(&job->table[k], 2 * h->s->b->n, KL_MEM_WORK, err));
    KL_TRY(make_tasks(h->s, every, job, err));
    kl_par_for(h->nthread, job->ntask, row_task, job);
out:
    return st;
}

kl_status kl_slater_count(const kl_slater *h, int lower, int every, int64_t *nnz, kl_err *err)
{
    kl_status st = KL_OK;
    matrix_job job = {0};
    *nnz = 0;
    KL_TRY(count_rows(h, lower, every, &job, err));
    int64_t seen = 0, held = 0;
    for (int64_t i = 0; i < h->s->n * job.nlevel; i++) held += job.place[i];
    for (int64_t ia = 0; ia < h->s->a->n; ia += every) seen += h->s->row_off[ia + 1] - h->s->row_off[ia];
    *nnz = every == 1 || seen == 0 ? held : (int64_t)((double)held * (double)h->s->n / (double)seen);
out:
    job_clear(&job);
    return st;
}

typedef struct ranked { /* an alpha string by what its stored elements save */
    double worth;
    int64_t ia;
} ranked;

static int by_worth(const void *x, const void *y)
{
    const ranked *const a = x, *const b = y;
    if (a->worth != b->worth) return a->worth > b->worth ? -1 : 1;
    return (a->ia > b->ia) - (a->ia < b->ia);
}

static int64_t held_by(const matrix_job *job, int64_t k)
{
    int64_t sum = 0;
    const int64_t at = position_of(job->h->s, k);
    for (int l = 0; l < job->nlevel; l++) sum += job->place[at * job->nlevel + l];
    return sum;
}

/* Of the rows that were counted only those stay for which there is room. */
static kl_status choose_rows(const kl_slater *h, const kl_slater_part *part, matrix_job *job, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_detspace *const s = h->s;
    ranked *list = NULL;
    int64_t *held = NULL, room = h->most_nnz > 0 ? h->most_nnz : INT64_MAX, kept = 0;
    KL_TRY(kl_alloc(&list, s->a->n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&held, s->a->n, KL_MEM_WORK, err));
    for (int64_t ia = 0; ia < s->a->n; ia++) {
        for (int64_t k = s->row_off[ia]; k < s->row_off[ia + 1]; k++) held[ia] += held_by(job, k);
        list[ia] = (ranked){held[ia] > 0 ? part->cost[ia] / (double)held[ia] : 0, ia};
    }
    if (s->a->n > 1) qsort(list, (size_t)s->a->n, sizeof *list, by_worth);
    for (int64_t i = 0; i < s->a->n; i++) {
        const int64_t ia = list[i].ia;
        part->stored[ia] = held[ia] <= room;
        if (part->stored[ia]) room -= held[ia];
        for (int64_t k = s->row_off[ia]; !part->stored[ia] && k < s->row_off[ia + 1]; k++)
            memset(job->place + position_of(s, k) * job->nlevel, 0, (size_t)job->nlevel * sizeof(int64_t));
    }
    for (int64_t i = 0; i < job->ntask; i++)
        if (part->stored[job->task[i].ia]) job->task[kept++] = job->task[i];
    job->ntask = kept;
out:
    kl_free(&list);
    kl_free(&held);
    return st;
}

kl_status kl_slater_matrix(const kl_slater *h, int lower, const kl_slater_part *part, kl_spmat **out,
                           kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = h->s->n;
    matrix_job job = {0};
    int64_t *off = NULL;
    double *diag = NULL;
    *out = NULL;
    KL_TRY(kl_alloc(&off, n + 1, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&diag, n, KL_MEM_WORK, err));
    kl_slater_diagonal(h, diag);
    KL_TRY(count_rows(h, lower, 1, &job, err));
    if (part != NULL) KL_TRY(choose_rows(h, part, &job, err));
    for (int64_t i = 0; i < n; i++) {
        off[i + 1] = off[i];
        for (int64_t *p = job.place + i * job.nlevel; p < job.place + (i + 1) * job.nlevel; p++) {
            const int64_t here = *p;
            *p = off[i + 1];
            off[i + 1] += here;
        }
    }
    if (h->most_nnz > 0 && off[n] > h->most_nnz)
        KL_TRY(kl_fail(err, KL_ENOMEM,
                       "the matrix of %lld determinants has %.4g million non-zeros, %.3g GB; %.3g GB are "
                       "allowed (--memory); --store mixed makes the others as they are needed",
                       (long long)n, 1e-6 * (double)off[n], 12e-9 * (double)off[n],
                       12e-9 * (double)h->most_nnz));
    job.diag = diag;
    /* from nothing: not cleared, every element is written */
    KL_TRY(kl_realloc(&job.column, off[n], KL_MEM_MATRIX, err));
    KL_TRY(kl_realloc(&job.value, off[n], KL_MEM_MATRIX, err));
    kl_par_for(h->nthread, job.ntask, row_task, &job);
    KL_TRY(kl_spmat_take_csr(n, n, lower, &off, &job.column, &job.value, out, err));
out:
    job_clear(&job);
    kl_free(&job.column);
    kl_free(&job.value);
    kl_free(&diag);
    kl_free(&off);
    return st;
}

/* ---------------------------------------------------------------- for products without a matrix */

void kl_slater_spin_block(const kl_slater *h, int spin, int irrep, double *t)
{
    const kl_strings *const x = spin == 0 ? h->s->a : h->s->b;
    const int64_t first = x->first[irrep], n = x->first[irrep + 1] - first;
    const double core = spin == 0 ? h->f->core : 0.0;
    memset(t, 0, (size_t)(n * n) * sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        double *const row = t + i * n;
        row[i] = h->diag[spin][first + i] + core;
        for (int64_t m = x->move_off[first + i]; m < x->move_off[first + i + 1]; m++)
            if (x->irrep[x->move[m].to] == irrep) row[x->move[m].to - first] = h->single[spin][m];
        for (int64_t m = h->two_off[spin][first + i]; m < h->two_off[spin][first + i + 1]; m++)
            row[h->two_to[spin][m] - first] = h->two[spin][m];
    }
}

kl_status kl_slater_pairs_make(const kl_fcidump *f, kl_slater_pairs *out, kl_err *err)
{
    kl_status st = KL_OK;
    *out = (kl_slater_pairs){0};
    KL_TRY(kl_alloc(&out->local, f->npair, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&out->irrep, f->npair, KL_MEM_MISC, err));
    for (int p = 0; p < f->norb; p++)
        for (int q = 0; q <= p; q++) {
            const int64_t pq = kl_pair(p, q);
            const int x = f->irrep[p] ^ f->irrep[q];
            out->irrep[pq] = (uint8_t)x;
            out->local[pq] = (int16_t)out->n[x]++;
        }
    for (int x = 0; x < f->nirrep; x++)
        KL_TRY(kl_alloc(&out->v[x], (int64_t)out->n[x] * out->n[x], KL_MEM_MATRIX, err));
    for (int64_t pq = 0; pq < f->npair; pq++)
        for (int64_t rs = 0; rs < f->npair; rs++) {
            const int x = out->irrep[pq];
            if (out->irrep[rs] == x)
                out->v[x][(int64_t)out->local[pq] * out->n[x] + out->local[rs]] =
                    f->eri[2][pq * f->npair + rs];
        }
out:
    return st;
}

void kl_slater_pairs_clear(kl_slater_pairs *p)
{
    kl_free(&p->local);
    kl_free(&p->irrep);
    for (int x = 0; x < 8; x++) kl_free(&p->v[x]);
}
