/* See leaders.h. 1. the energy of a determinant as a quadratic form of its occupations, so that a move costs
   a few numbers; 2. descents; 3. the space that H selects; 4. its lowest states;
   5. the mutual information of orbitals in them.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/leaders.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dense.h"
#include "base/mem.h"
#include "base/random.h"
#include "ci/slater.h"

enum {
    RANDOM = 12,     /* determinants that descents begin with, besides the first one */
    MOST_MOVES = 200, /* of a descent */
    MOST_BEGIN = 12, /* minima that selection begins with */
    ROUNDS = 4,
    SPACE = 400,     /* determinants at the end, */
    GROWS = 4,       /* and so many times more in each round */
    ROOM = 1 << 18,  /* of the table of candidates, */
    FILLED = ROOM / 2
};
#define MOST_PAIRS 2e7 /* moves that a round may look at */
#define EPSILON 2e-4   /* of a coefficient: smaller ones are no candidates */
#define LEAST_GAP 0.1  /* hartree, of a candidate above the lowest state */

typedef struct det {
    uint64_t bits[2];
    double energy; /* without the core */
    double weight;
} det;

/* An electron of one spin from i to a; both counted through alpha, then beta orbitals. */
typedef struct move {
    int i, a, irrep;
    double change; /* of the energy */
} move;

typedef struct search {
    const kl_fcidump *f;
    int n, irrep, nstate;
    double *pair; /* [2n][2n]: of two occupied spin orbitals, J - K or J */
    double *level; /* [2n]: of the determinant looked at: what an electron there has */
    move *move;    /* [2n n / 2] */
    int nmove;
    /* [ROOM] candidates by hash; bits 0, 0: free; after a round the first nleft are those that were not
       taken, the heaviest first */
    det *table;
    int ncandidate, nleft;
} search;

/* ---- 1. energies ---- */

static double two(const kl_fcidump *f, int kind, int p, int q, int r, int s)
{
    return f->eri[kind][kl_pair(p, q) * f->npair + kl_pair(r, s)];
}

static int has(const det *d, int n, int x) { return (int)(d->bits[x >= n] >> (x >= n ? x - n : x) & 1); }

static void make_pairs(search *s)
{
    const int n = s->n;
    for (int x = 0; x < 2 * n; x++)
        for (int y = 0; y < 2 * n; y++) {
            const int p = x % n, q = y % n, k = x / n, l = y / n;
            double *const e = &s->pair[(int64_t)x * 2 * n + y];
            if (k == l) *e = two(s->f, k, p, p, q, q) - two(s->f, k, p, q, q, p);
            else *e = k == 0 ? two(s->f, 2, p, p, q, q) : two(s->f, 2, q, q, p, p);
        }
}

static void make_levels(search *s, det *d)
{
    const int n = s->n;
    d->energy = 0;
    for (int x = 0; x < 2 * n; x++) {
        const double h = s->f->h[x / n][(x % n) * (n + 1)];
        double e = h;
        for (int y = 0; y < 2 * n; y++)
            if (has(d, n, y)) e += s->pair[(int64_t)x * 2 * n + y];
        s->level[x] = e;
        if (has(d, n, x)) d->energy += 0.5 * (h + e);
    }
}

/* All moves of one electron. */
static void make_moves(search *s, const det *d)
{
    const int n = s->n;
    s->nmove = 0;
    for (int i = 0; i < 2 * n; i++)
        for (int a = i / n * n; a < (i / n + 1) * n && has(d, n, i); a++)
            if (!has(d, n, a))
                s->move[s->nmove++] =
                    (move){.i = i,
                           .a = a,
                           .irrep = s->f->irrep[i % n] ^ s->f->irrep[a % n],
                           .change = s->level[a] - s->level[i] - s->pair[(int64_t)i * 2 * n + a]};
}

static int meet(const move *x, const move *y) { return x->i == y->i || x->a == y->a; }

static double change_of(const search *s, const move *x, const move *y)
{
    const double *const a = s->pair + (int64_t)x->a * 2 * s->n, *const i = s->pair + (int64_t)x->i * 2 * s->n;
    return x->change + y->change + a[y->a] + i[y->i] - a[y->i] - i[y->a];
}

static void go(const search *s, const move *x, det *d)
{
    const int spin = x->i >= s->n;
    d->bits[spin] ^= UINT64_C(1) << (x->i % s->n) | UINT64_C(1) << (x->a % s->n);
}

static int irrep_of(const search *s, const det *d)
{
    int g = 0;
    for (int x = 0; x < 2 * s->n; x++)
        if (has(d, s->n, x)) g ^= s->f->irrep[x % s->n];
    return g;
}

/* ---- 2. descents ---- */

/* To a determinant of the irrep that no move of one or two electrons lowers. 0: none was found. */
static int descend(search *s, det *d)
{
    for (int step = 0; step < MOST_MOVES; step++) {
        const int need = irrep_of(s, d) ^ s->irrep;
        const move *best[2] = {NULL, NULL};
        double change = need ? INFINITY : -1e-9;
        make_levels(s, d);
        make_moves(s, d);
        for (int k = 0; k < s->nmove; k++) {
            const move *const x = &s->move[k];
            if (x->irrep == need && x->change < change) change = x->change, best[0] = x, best[1] = NULL;
            for (int l = 0; l < k; l++) {
                const move *const y = &s->move[l];
                if ((x->irrep ^ y->irrep) != need || meet(x, y)) continue;
                const double both = change_of(s, x, y);
                if (both < change) change = both, best[0] = x, best[1] = y;
            }
        }
        if (best[0] == NULL) return need == 0;
        go(s, best[0], d);
        if (best[1] != NULL) go(s, best[1], d);
    }
    make_levels(s, d);
    return irrep_of(s, d) == s->irrep;
}

static void put(det *d, int *n, det x)
{
    for (int k = 0; k < *n; k++)
        if (d[k].bits[0] == x.bits[0] && d[k].bits[1] == x.bits[1]) return;
    d[(*n)++] = x;
}

static int lower_first(const void *x, const void *y)
{
    const det *const a = x, *const b = y;
    if (a->energy != b->energy) return a->energy < b->energy ? -1 : 1;
    if (a->bits[0] != b->bits[0]) return a->bits[0] < b->bits[0] ? -1 : 1;
    return (a->bits[1] > b->bits[1]) - (a->bits[1] < b->bits[1]);
}

static uint64_t random_string(int norb, int nelec, uint64_t *rng)
{
    uint64_t x = 0;
    while (__builtin_popcountll(x) < nelec) x |= UINT64_C(1) << kl_random_next(rng) % (uint64_t)norb;
    return x;
}

/* d: room for 2 RANDOM + 4. *n: how many. */
static void find_minima(search *s, const uint64_t first[2], det *d, int *n)
{
    uint64_t rng = 1;
    const int up = __builtin_popcountll(first[0]), dn = __builtin_popcountll(first[1]);
    *n = 0;
    for (int k = 0; k <= RANDOM; k++) {
        det x = {.bits = {first[0], first[1]}};
        if (k > 0) x.bits[0] = random_string(s->n, up, &rng), x.bits[1] = random_string(s->n, dn, &rng);
        if (!descend(s, &x)) continue;
        put(d, n, x);
        if (up != dn) continue;
        det turned = {.bits = {x.bits[1], x.bits[0]}};
        make_levels(s, &turned);
        put(d, n, turned);
    }
    qsort(d, (size_t)*n, sizeof *d, lower_first);
    if (*n > MOST_BEGIN) *n = MOST_BEGIN;
    det given = {.bits = {first[0], first[1]}};
    make_levels(s, &given);
    if (irrep_of(s, &given) == s->irrep) put(d, n, given);
}

/* ---- 3. selection ---- */

/* Where a determinant is in the table, or would be. */
static det *place_of(const search *s, const uint64_t bits[2])
{
    uint64_t key = bits[0] * UINT64_C(0x9e3779b97f4a7c15) ^ bits[1] * UINT64_C(0xd1342543de82ef95);
    key ^= key >> 29;
    for (uint64_t k = key * UINT64_C(0xbf58476d1ce4e5b9) >> 32;; k++) {
        det *const d = &s->table[k % ROOM];
        const int there = d->bits[0] == bits[0] && d->bits[1] == bits[1];
        if (there || (d->bits[0] == 0 && d->bits[1] == 0)) return d;
    }
}

/* h: of H between the two; lowest: the energy of the lowest state. */
static void offer(search *s, const det *from, const move *x, const move *y, double h, double lowest)
{
    const double change = y != NULL ? change_of(s, x, y) : x->change;
    det to = {.bits = {from->bits[0], from->bits[1]}, .energy = from->energy + change};
    to.weight = fabs(h) * from->weight / fmax(to.energy - lowest, LEAST_GAP);
    if (to.weight < EPSILON) return;
    go(s, x, &to);
    if (y != NULL) go(s, y, &to);
    det *const place = place_of(s, to.bits);
    if (place->bits[0] == 0 && place->bits[1] == 0) {
        if (s->ncandidate >= FILLED) return;
        s->ncandidate++;
        *place = to;
    } else if (to.weight > place->weight) place->weight = to.weight;
}

static void offer_all(search *s, det *from, double lowest)
{
    const int n = s->n;
    make_levels(s, from);
    make_moves(s, from);
    for (int k = 0; k < s->nmove; k++) {
        const move *const x = &s->move[k];
        const int i = x->i % n, a = x->a % n, up = x->i < n;
        if (x->irrep == 0) {
            det to = *from;
            go(s, x, &to);
            offer(s, from, x, NULL,
                  kl_slater_element(s->f, to.bits[0], to.bits[1], from->bits[0], from->bits[1]), lowest);
        }
        for (int l = 0; l < k; l++) {
            const move *const y = &s->move[l];
            if (x->irrep != y->irrep || meet(x, y)) continue;
            const int j = y->i % n, b = y->a % n;
            if (up != (y->i < n))
                offer(s, from, x, y, up ? two(s->f, 2, a, i, b, j) : two(s->f, 2, b, j, a, i), lowest);
            else if (x->i > y->i && x->a > y->a) /* each pair once: i with a or with b are the same */
                offer(s, from, x, y, two(s->f, !up, a, i, b, j) - two(s->f, !up, a, j, b, i), lowest);
        }
    }
}

static int heavier_first(const void *x, const void *y)
{
    const det *const a = x, *const b = y;
    return a->weight != b->weight ? (a->weight < b->weight) - (a->weight > b->weight) : lower_first(x, y);
}

/* ---- 4. states ---- */

/* Weights of the determinants in the lowest states, the heaviest first. */
static kl_status solve(const search *s, det *d, int n, double *energy, kl_err *err)
{
    kl_status st = KL_OK;
    double *h = NULL, *w = NULL;
    KL_TRY(kl_alloc(&h, (int64_t)n * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&w, n, KL_MEM_WORK, err));
    for (int j = 0; j < n; j++)
        for (int i = j; i < n; i++)
            h[i + (int64_t)j * n] =
                kl_slater_element(s->f, d[i].bits[0], d[i].bits[1], d[j].bits[0], d[j].bits[1]);
    KL_TRY(kl_dense_eig(n, h, n, w, err));
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int k = 0; k < s->nstate && k < n; k++) sum += h[i + (int64_t)k * n] * h[i + (int64_t)k * n];
        d[i].weight = sqrt(sum);
    }
    *energy = w[0];
    qsort(d, (size_t)n, sizeof *d, heavier_first);
out:
    kl_free(&h);
    kl_free(&w);
    return st;
}

/* The space grows from d[*n], room for SPACE + 2 RANDOM + 4. */
static kl_status grow(search *s, det *d, int *n, double *energy, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(solve(s, d, *n, energy, err));
    for (int round = 0; round < ROUNDS && *n < SPACE; round++) {
        const int most = *n * GROWS < SPACE ? *n * GROWS : SPACE;
        double pairs = 0;
        memset(s->table, 0, sizeof *s->table * ROOM);
        s->ncandidate = 0;
        for (int k = 0; k < *n && pairs < MOST_PAIRS; k++) {
            offer_all(s, &d[k], *energy - s->f->core);
            pairs += 0.5 * s->nmove * s->nmove;
        }
        for (int k = 0; k < *n; k++) { /* those that are there are no candidates */
            det *const own = place_of(s, d[k].bits);
            own->weight = 0;
        }
        int count = 0;
        for (int k = 0; k < ROOM; k++)
            if (s->table[k].weight > 0) s->table[count++] = s->table[k];
        qsort(s->table, (size_t)count, sizeof *s->table, heavier_first);
        const int take = count < most - *n ? count : most - *n;
        memcpy(d + *n, s->table, (size_t)take * sizeof *d);
        *n += take;
        s->nleft = count - take;
        memmove(s->table, s->table + take, (size_t)s->nleft * sizeof *d);
        KL_TRY(solve(s, d, *n, energy, err));
    }
out:
    return st;
}

/* ---- 5. mutual information ---- */

static int occupation(const det *d, int p)
{
    return (int)(d->bits[0] >> p & 1) + 2 * (int)(d->bits[1] >> p & 1);
}

/* Joint weights of the occupations of two orbitals, joint[n][n][16], the first orbital below the second:
   where a determinant differs from the heaviest one, its weight goes to another cell. */
static void add_joint(const search *s, const det *base, const det *d, double *joint)
{
    const int n = s->n;
    const double x = d->weight * d->weight;
    for (int p = 0; p < n; p++)
        for (int q = p + 1; q < n; q++) {
            const int was = occupation(base, p) * 4 + occupation(base, q),
                      is = occupation(d, p) * 4 + occupation(d, q);
            double *const cell = joint + ((int64_t)p * n + q) * 16;
            cell[was] -= x;
            cell[is] += x;
        }
}

static double information(const double *cell, double all)
{
    double one[4] = {0}, other[4] = {0}, sum = 0;
    for (int k = 0; k < 16; k++) one[k / 4] += cell[k] / all, other[k % 4] += cell[k] / all;
    for (int k = 0; k < 16; k++)
        if (cell[k] > 1e-14 * all) sum += cell[k] / all * log(cell[k] / all / (one[k / 4] * other[k % 4]));
    return fmax(sum, 0);
}

static kl_status find_mutual(const search *s, const det *d, int count, double *mutual, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = s->n;
    double *joint = NULL, all = 0;
    KL_TRY(kl_alloc(&joint, (int64_t)n * n * 16, KL_MEM_WORK, err));
    for (int k = 0; k < count + s->nleft; k++) {
        const det *const x = k < count ? &d[k] : &s->table[k - count];
        all += x->weight * x->weight;
        if (k > 0) add_joint(s, &d[0], x, joint);
    }
    for (int p = 0; p < n; p++)
        for (int q = p + 1; q < n; q++) {
            double *const cell = joint + ((int64_t)p * n + q) * 16;
            cell[occupation(&d[0], p) * 4 + occupation(&d[0], q)] += all;
            mutual[p * n + q] = mutual[q * n + p] = information(cell, all);
        }
out:
    kl_free(&joint);
    return st;
}

kl_status kl_leaders_find(const kl_fcidump *f, const kl_leaders_ask *ask, kl_leaders *out, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = f->norb;
    search s = {.f = f, .n = n, .irrep = ask->irrep, .nstate = ask->nstate};
    det *d = NULL;
    int count = 0;
    *out = (kl_leaders){.n = 0};
    if (n > KL_DET_MAX_ORB || (ask->first[0] == 0 && ask->first[1] == 0)) return KL_OK;
    KL_TRY(kl_alloc(&s.pair, (int64_t)4 * n * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&s.level, 2 * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&s.move, (int64_t)n * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&s.table, ROOM, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&d, SPACE + 2 * RANDOM + 4, KL_MEM_WORK, err));
    make_pairs(&s);
    find_minima(&s, ask->first, d, &count);
    if (count == 0) goto out;
    KL_TRY(grow(&s, d, &count, &out->energy, err));
    KL_TRY(kl_alloc(&out->mutual, (int64_t)n * n, KL_MEM_MISC, err));
    KL_TRY(find_mutual(&s, d, count, out->mutual, err));
    KL_TRY(kl_alloc(&out->det, count, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&out->weight, count, KL_MEM_MISC, err));
    for (; out->n < count && out->n < ask->most; out->n++) {
        memcpy(out->det[out->n], d[out->n].bits, sizeof d->bits);
        out->weight[out->n] = d[out->n].weight;
    }
out:
    if (st != KL_OK) kl_leaders_clear(out);
    kl_free(&s.pair);
    kl_free(&s.level);
    kl_free(&s.move);
    kl_free(&s.table);
    kl_free(&d);
    return st;
}

void kl_leaders_clear(kl_leaders *l)
{
    kl_free(&l->det);
    kl_free(&l->weight);
    kl_free(&l->mutual);
    l->n = 0;
}
