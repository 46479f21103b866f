/* Irreducible operators of an orbital and scalars made of them: see coupled.h. Outline:
   1. matrices of one orbital between its states 0, up, dn, updn, and their irreducible parts;
   2. the ten operators from matrices whose components are known; their adjoints by the rule of reduced ones;
   3. a product with its spins: sorted by sites, multiplied on each, cut into irreducible parts; what every
      choice of parts gives to every path of ranks, by Clebsch-Gordan coefficients. The sum over spins is a
      scalar, so that the paths that end at 0 are all of it.
   SPDX-License-Identifier: Apache-2.0 */
#include "chem/coupled.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "model/wigner.h"
#include "phase.h"

enum {
    DIM = 4,
    SHELLS = KL_COUPLED_SHELLS,
    MOST_PARTS = 4, /* irreducible operators in the product on one orbital */
};
#define NOISE 1e-12

typedef double matrix[DIM][DIM]; /* [to][from]; a state is 1 for up and 2 for down */

/* ---------------------------------------------------------------- 1. matrices of an orbital */

static void elementary(int creates, int down, matrix a)
{
    const int mode = down ? 2 : 1;
    memset(a, 0, sizeof(matrix));
    for (int s = 0; s < DIM; s++)
        if (!(s & mode)) {
            const double sign = down && (s & 1) ? -1 : 1;
            if (creates) a[s | mode][s] = sign;
            else a[s][s | mode] = sign;
        }
}

static void times(const matrix a, const matrix b, matrix ab)
{
    matrix c;
    memset(c, 0, sizeof c);
    for (int i = 0; i < DIM; i++)
        for (int j = 0; j < DIM; j++)
            for (int k = 0; k < DIM; k++) c[i][j] += a[i][k] * b[k][j];
    memcpy(ab, c, sizeof c);
}

static void unit(matrix a)
{
    memset(a, 0, sizeof(matrix));
    for (int s = 0; s < DIM; s++) a[s][s] = 1;
}

/* State of a multiplet with the projection m (doubled). */
static int state_of(int shell, int m) { return shell == 0 ? 0 : shell == 2 ? 3 : m > 0 ? 1 : 2; }

/* The part of a matrix of rank k and component q, as a reduced matrix. */
static void part_of(const matrix a, int k, int q, double reduced[SHELLS][SHELLS])
{
    for (int t = 0; t < SHELLS; t++)
        for (int s = 0; s < SHELLS; s++) {
            const int to = kl_coupled_spin(t), from = kl_coupled_spin(s);
            double sum = 0;
            for (int m = -from; m <= from; m += 2)
                if (m + q >= -to && m + q <= to)
                    sum += kl_clebsch(from, m, k, q, to, m + q) * a[state_of(t, m + q)][state_of(s, m)];
            reduced[t][s] = (k + 1.0) / (to + 1.0) * sum;
        }
}

/* ---------------------------------------------------------------- 2. operators */

enum {
    ONE,
    NUMBER,
    DOUBLE,
    SPIN,
    CDAG,
    CDAG_T, /* its adjoint, as an irreducible operator */
    CDAG_N,
    CDAG_N_T,
    PAIR,
    PAIR_T,
};

/* Where an operator has an element that those before it, of its rank and electrons, lack. */
static const int lead[KL_COUPLED_OPS][2] = {{0, 0}, {1, 1}, {2, 2}, {1, 1}, {1, 0},
                                            {0, 1}, {2, 1}, {1, 2}, {2, 0}, {0, 2}};

static void define(kl_coupled *c, int op, const char *name, const matrix a, int rank, int q, int adds)
{
    c->name[op] = name;
    c->rank[op] = rank;
    c->adds[op] = adds;
    c->adjoint[op] = op;
    c->adjoint_factor[op] = rank == 2 ? -1 : 1;
    part_of(a, rank, q, c->reduced[op]);
}

/* op + 1 is the adjoint of op; of that the adjoint is op but for the sign of half-integer ranks. */
static void define_adjoint(kl_coupled *c, int op, const char *name)
{
    const int rank = c->rank[op];
    c->name[op + 1] = name;
    c->rank[op + 1] = rank;
    c->adds[op + 1] = -c->adds[op];
    c->adjoint[op] = op + 1;
    c->adjoint[op + 1] = op;
    c->adjoint_factor[op] = 1;
    c->adjoint_factor[op + 1] = rank % 2 != 0 ? -1 : 1;
    for (int t = 0; t < SHELLS; t++)
        for (int s = 0; s < SHELLS; s++)
            c->reduced[op + 1][t][s] =
                c->reduced[op][s][t] == 0
                    ? 0
                    : kl_tilde(kl_coupled_spin(t), kl_coupled_spin(s), rank) * c->reduced[op][s][t];
}

void kl_coupled_create(kl_coupled *c)
{
    matrix one, up, dn, n_up, n_dn, n, both, sz, a;
    memset(c, 0, sizeof *c);
    unit(one);
    elementary(1, 0, up);
    elementary(1, 1, dn);
    elementary(0, 0, a);
    times(up, a, n_up);
    elementary(0, 1, a);
    times(dn, a, n_dn);
    times(n_up, n_dn, both);
    for (int i = 0; i < DIM; i++)
        for (int j = 0; j < DIM; j++) {
            n[i][j] = n_up[i][j] + n_dn[i][j];
            sz[i][j] = (n_up[i][j] - n_dn[i][j]) / 2;
        }
    define(c, ONE, "1", one, 0, 0, 0);
    define(c, NUMBER, "n", n, 0, 0, 0);
    define(c, DOUBLE, "docc", both, 0, 0, 0);
    define(c, SPIN, "S", sz, 2, 0, 0);
    define(c, CDAG, "cdag", up, 1, 1, 1);
    define_adjoint(c, CDAG, "cdag~");
    times(up, n_dn, a);
    define(c, CDAG_N, "cdag*n", a, 1, 1, 1);
    define_adjoint(c, CDAG_N, "cdag*n~");
    times(up, dn, a);
    define(c, PAIR, "pair", a, 0, 0, 2);
    define_adjoint(c, PAIR, "pair~");
}

/* ---------------------------------------------------------------- 3. products */

typedef struct part { /* f * component q of an operator */
    int op, q;
    double f;
} part;

/* A matrix that adds so many electrons, and q / 2 to Sz, as a sum of the operators. */
static int parts_of(const kl_coupled *c, const matrix a, int adds, int q, part *list)
{
    int n = 0;
    for (int rank = q < 0 ? -q : q; rank <= 2; rank += 2) {
        double left[SHELLS][SHELLS];
        part_of(a, rank, q, left);
        for (int op = 0; op < KL_COUPLED_OPS; op++) {
            if (c->rank[op] != rank || c->adds[op] != adds) continue;
            const double f = left[lead[op][0]][lead[op][1]] / c->reduced[op][lead[op][0]][lead[op][1]];
            if (fabs(f) < NOISE) continue;
            for (int t = 0; t < SHELLS; t++)
                for (int s = 0; s < SHELLS; s++) left[t][s] -= f * c->reduced[op][t][s];
            assert(n < MOST_PARTS);
            list[n++] = (part){op, q, f};
        }
    }
    return n;
}

typedef struct walk {
    const kl_coupled *c;
    kl_coupled_sum *sum;
    int nsite, site[KL_COUPLED_FACTORS], nparts[KL_COUPLED_FACTORS];
    part parts[KL_COUPLED_FACTORS][MOST_PARTS];
    kl_coupled_string now;
} walk;

static int same_string(const kl_coupled_string *a, const kl_coupled_string *b)
{
    int same = a->n == b->n;
    for (int k = 0; same && k < a->n; k++)
        same = a->site[k] == b->site[k] && a->op[k] == b->op[k] && a->rank[k] == b->rank[k];
    return same;
}

static void add_string(walk *w, double f)
{
    kl_coupled_sum *const sum = w->sum;
    int k = 0;
    while (k < sum->n && !same_string(&sum->string[k], &w->now)) k++;
    if (k == sum->n) {
        assert(sum->n < KL_COUPLED_MOST);
        sum->string[sum->n] = w->now;
        sum->string[sum->n++].coef = 0;
    }
    sum->string[k].coef += f;
}

/* All parts of the sites from `at` on, and all ranks, behind a string of rank k and component q. */
static void follow(walk *w, int at, int k, int q, double f)
{
    if (at == w->nsite) {
        if (k == 0) add_string(w, f);
        return;
    }
    assert(at < KL_COUPLED_FACTORS);
    for (int i = 0; i < w->nparts[at]; i++) {
        const part *const x = &w->parts[at][i];
        const int rank = w->c->rank[x->op], n = w->now.n;
        if (x->op == ONE) {
            follow(w, at + 1, k, q, f * x->f); /* depth: sites of one product */
            continue;
        }
        for (int whole = k > rank ? k - rank : rank - k; whole <= k + rank; whole += 2) {
            const double g = kl_clebsch(k, q, rank, x->q, whole, q + x->q);
            if (g == 0) continue;
            w->now.site[n] = w->site[at];
            w->now.op[n] = x->op;
            w->now.rank[n] = whole;
            w->now.n = n + 1;
            follow(w, at + 1, whole, q + x->q, f * x->f * g); /* depth: sites of one product */
            w->now.n = n;
        }
    }
}

/* The product with these spins, 1 for down. */
static void add_product(const kl_coupled *c, int n, const int *site, const int *down, kl_coupled_sum *sum)
{
    walk w = {.c = c, .sum = sum};
    int key[KL_COUPLED_FACTORS], odd[KL_COUPLED_FACTORS] = {1, 1, 1, 1}, perm[KL_COUPLED_FACTORS];
    for (int k = 0; k < n; k++) key[k] = site[k];
    const double sign = kl_phase_sort(n, key, odd, perm);
    for (int k = 0; k < n;) {
        const int at = site[perm[k]];
        int adds = 0, q = 0;
        matrix a, b;
        unit(a);
        for (; k < n && site[perm[k]] == at; k++) {
            const int creates = perm[k] < n / 2, d = down[perm[k]];
            elementary(creates, d, b);
            times(a, b, a);
            adds += creates ? 1 : -1;
            q += creates == d ? -1 : 1;
        }
        w.site[w.nsite] = at;
        w.nparts[w.nsite] = parts_of(c, a, adds, q, w.parts[w.nsite]);
        w.nsite++;
    }
    follow(&w, 0, 0, 0, sign);
}

void kl_coupled_product(const kl_coupled *c, int n, const int *site, kl_coupled_sum *sum)
{
    int kept = 0;
    sum->n = 0;
    for (int s = 0; s < 2; s++)
        for (int t = 0; t < (n == 4 ? 2 : 1); t++)
            add_product(c, n, site, n == 4 ? (const int[]){s, t, t, s} : (const int[]){s, s}, sum);
    for (int k = 0; k < sum->n; k++)
        if (fabs(sum->string[k].coef) > NOISE) sum->string[kept++] = sum->string[k];
    sum->n = kept;
}
