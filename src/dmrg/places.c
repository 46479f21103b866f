/* See places.h. 1. energies of placements, each asked for once; 2. descents; 3. where they begin; 4. the best
   of them in full.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/places.h"
#include "base/mem.h"
#include "base/random.h"
#include "dmrg/ownunit.h"
#include "dmrg/products.h"
#include "dmrg/signstrings.h"
#include "dmrg/stringtrials.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BEST = 6, /* placements run in full at most */
    SHUFFLED = 4, /* descents from placements at random */
    EVERY = 1100, /* where there are no more, all placements are asked for: ten spins of Ising have 1024 */
    ASKED = 1000, /* placements that are asked for anyhow */
    STEPS = 50000, /* labels set while they are counted */
    /* of their energies: states kept, half-sweeps, products with H at a bond */
    KEPT = 16,
    PASSES = 3,
    PRODUCTS = 5
};
#define NOISE 1e-4
#define HAS 0.9 /* size of a value that a state has */
/* of the run's work: once descents have taken that, and asked for so many placements, they end */
#define MOST_WORK 1.0
/* of the unit: by which a neighbour has to lie lower; by which two half-sweeps are too high at most; and by
   which a placement may lie higher than the best one and be run in full */
#define FALLS 1e-5
#define HOPELESS 0.05
#define CLOSE 1e-4

int kl_places_worth(const kl_labels *l) { return l->nfree > 1 && l->moving; }

/* ---- 1. energies ---- */

typedef struct asked {
    char *label; /* [nsite] */
    double energy; /* INFINITY: no state has the charges */
} asked;

typedef struct search {
    const kl_terms *t;
    kl_exec *ex;
    const kl_engine_opts *e;
    const kl_dmrg_opts *o;
    const kl_dmrg_monitor *mon;
    const kl_valley_here *here;
    const kl_labels *l;
    int n, room;
    asked *known; /* [n] */
    double flop, most, unit;
    int interrupted;
} search;

static int is_spent(const search *s) { return s->interrupted || (s->n > ASKED && s->flop > s->most); }

/* *is 1: some state of the placement has the charges. */
static kl_status is_possible(const search *s, const kl_placed *x, int *is, kl_err *err)
{
    kl_reach r;
    const kl_status st = kl_reach_create(&x->model, x->terms.type, 0, s->t->nsite, 0, &r, err);
    if (st != KL_OK) return st;
    *is = kl_reach_find(&r, s->o->target) >= 0;
    kl_reach_clear(&r);
    return KL_OK;
}

/* About the energy within a placement, by three half-sweeps, or two where that is enough to see that it lies
   above `best`. */
static kl_status feel(search *s, const kl_placed *x, double best, double *energy, kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *e = NULL;
    KL_TRY(kl_engine_create(&x->terms, s->ex, s->e, &e, err));
    KL_TRY(kl_engine_start(e, KEPT, 0, NULL, err));
    for (int k = 0; k < PASSES; k++) {
        const kl_valley_pass pass = {.m = KEPT,
                                     .max_apply = PRODUCTS,
                                     .direction = k % 2 == 0 ? 1 : -1,
                                     .noise = k < PASSES - 1 ? NOISE : 0,
                                     .fresh = k == 0};
        KL_TRY(kl_valleys_pass(e, &pass, energy, err));
        *energy += x->terms.constant;
        if (k == PASSES - 2 && *energy > best + HOPELESS * s->unit) break;
    }
    s->flop += e->flop;
    s->interrupted |= s->mon && s->mon->interrupted && s->mon->interrupted(s->mon->self);
out:
    kl_engine_destroy(&e);
    return st;
}

/* *which: its number among those known. */
static kl_status ask(search *s, const char *label, double best, int *which, kl_err *err)
{
    kl_status st = KL_OK;
    kl_placed x = {.type = NULL};
    char *own = NULL;
    int possible;
    const size_t n = (size_t)s->t->nsite;
    for (*which = 0; *which < s->n; ++*which)
        if (memcmp(s->known[*which].label, label, n) == 0) return KL_OK;
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        KL_TRY(kl_realloc(&s->known, s->room, KL_MEM_WORK, err));
    }
    KL_TRY(kl_alloc(&own, s->t->nsite, KL_MEM_WORK, err));
    memcpy(own, label, n);
    asked now = {.label = own, .energy = INFINITY};
    KL_TRY(kl_placed_create(s->t, s->l, label, &x, err));
    KL_TRY(is_possible(s, &x, &possible, err));
    if (possible) KL_TRY(feel(s, &x, best, &now.energy, err));
    s->known[s->n++] = now;
    own = NULL;
out:
    kl_placed_clear(&x);
    kl_free(&own);
    return st;
}

/* ---- 2. descents ---- */

static void exchange(char *label, int p, int q)
{
    const char was = label[p];
    label[p] = label[q];
    label[q] = was;
}

/* Neighbour k of all: that of an exchange of sites p and q > p, or with another label at p. 0: it is none. */
static int make_neighbour(const search *s, const char *from, int64_t k, char *to)
{
    const int n = s->t->nsite, p = (int)(k % n), q = (int)(k / n);
    memcpy(to, from, (size_t)n);
    if (q >= n) {
        if (q - n + 1 >= s->l->n[p]) return 0;
        to[p] = (char)((to[p] + q - n + 1) % s->l->n[p]);
        return 1;
    }
    if (q <= p || from[p] == from[q] || !kl_labels_alike(s->l, s->t, p, q)) return 0;
    exchange(to, p, q);
    return 1;
}

/* A step that meets all of n numbers, in an order in which neighbours are far apart. */
static int64_t step_of(int64_t n)
{
    int64_t step = (int64_t)(0.618 * (double)n) + 1;
    while (kl_gcd(n, step) != 1) step++;
    return step;
}

/* As far down as it goes from a placement, which becomes the last one. */
static kl_status descend(search *s, char *label, kl_err *err)
{
    kl_status st = KL_OK;
    char *next = NULL;
    int here, there, most = 1;
    const int n = s->t->nsite;
    for (int p = 0; p < n; p++) most = s->l->n[p] > most ? s->l->n[p] : most;
    const int64_t all = (int64_t)n * (n + most - 1), step = step_of(all);
    KL_TRY(kl_alloc(&next, n, KL_MEM_WORK, err));
    KL_TRY(ask(s, label, INFINITY, &here, err));
    for (int64_t k = 0, since = 0; since < all && !is_spent(s); since++, k = (k + step) % all) {
        if (!make_neighbour(s, label, k, next)) continue;
        KL_TRY(ask(s, next, s->known[here].energy, &there, err));
        if (!(s->known[there].energy < s->known[here].energy - FALLS * s->unit)) continue;
        memcpy(label, next, (size_t)n);
        here = there;
        since = -1;
    }
out:
    kl_free(&next);
    return st;
}

/* ---- 3. where they begin ---- */

/* The label of each site in the state found; *is 0: it has none there. */
static kl_status find_labels(const search *s, char *label, int *is, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = s->t->nsite;
    kl_signstrings one = {.n = 1, .d = s->l->most};
    *is = 1;
    KL_TRY(kl_alloc(&one.sign, (int64_t)n * one.d, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&one.flip, n, KL_MEM_WORK, err));
    memset(one.sign, 0, (size_t)n * (size_t)one.d);
    memset(one.flip, 0, (size_t)n);
    for (int p = 0; p < n && *is; p++) {
        double value = -1;
        label[p] = (char)(s->l->n[p] - 1);
        for (int g = 0; g + 1 < s->l->n[p]; g++) {
            for (int a = 0; a < s->t->type[p]->dim; a++)
                one.sign[p * one.d + a] = s->l->of[p * s->l->most + a] == g;
            KL_TRY(kl_signstrings_value(&one, 0, s->here->state, &value, err));
            if (fabs(value) < HAS) *is = 0;
            if (value < 0) label[p] = (char)g;
        }
        memset(one.sign, 0, (size_t)n * (size_t)one.d);
    }
out:
    kl_signstrings_clear(&one);
    return st;
}

/* Those of a product that has the charges; *n 0: none was looked for. */
static kl_status find_product(const search *s, char *label, int *n, kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *e = NULL;
    kl_products low = {0};
    KL_TRY(kl_engine_create(s->t, s->ex, s->e, &e, err));
    KL_TRY(kl_products_find(e, 1, &low, err));
    *n = low.n;
    for (int p = 0; p < s->t->nsite && *n > 0; p++) label[p] = (char)s->l->of[p * s->l->most + low.state[p]];
out:
    kl_engine_destroy(&e);
    kl_products_clear(&low);
    return st;
}

/* Where labels stand: in a row, from both ends, in sublattices, and spread as evenly as they can be. */
typedef enum order { IN_A_ROW, AT_THE_ENDS, EVEN_FIRST, ODD_FIRST, EVENLY, NORDER } order;

/* Sites that an even number of terms joins to the first one come before the others, or after them. */
static void sort_by_colour(const signed char *colour, int odd_first, int *site, int m)
{
    int n = 0;
    for (int odd = 0; odd < 2; odd++)
        for (int k = n; k < m; k++) {
            if ((colour[site[k]] == 1) != (odd ^ odd_first)) continue;
            const int now = site[k];
            memmove(site + n + 1, site + n, sizeof *site * (size_t)(k - n));
            site[n++] = now;
        }
}

/* colour[nsite]: whether the shortest way to the first site is of an odd number of terms. */
static void find_colours(const kl_terms *t, signed char *colour)
{
    memset(colour, -1, (size_t)t->nsite);
    colour[0] = 0;
    for (int more = 1; more;) {
        more = 0;
        for (int64_t i = 0; i < t->nterm; i++)
            for (int k = 1; k < t->term[i].nop; k++) {
                const int p = t->op[t->term[i].first + k - 1].pos, q = t->op[t->term[i].first + k].pos;
                if ((colour[p] < 0) == (colour[q] < 0)) continue;
                if (colour[p] < 0) colour[p] = (signed char)!colour[q];
                else colour[q] = (signed char)!colour[p];
                more = 1;
            }
    }
}

/* count[h] labels h for m sites, each time the one that is furthest behind its share. */
static void spread(const int *count, int most, const int *site, int m, char *to)
{
    for (int k = 0; k < m; k++) {
        int g = 0;
        double behind = -INFINITY;
        for (int h = 0; h < most; h++) {
            double late = (k + 0.5) * count[h] / m;
            for (int i = 0; i < k; i++) late -= to[site[i]] == h;
            if (count[h] == 0 || late <= behind) continue;
            behind = late;
            g = h;
        }
        to[site[k]] = (char)g;
    }
}

/* The same, the label of fewest sites before the others. */
static void fill(int *count, int most, const int *site, int m, int ends, char *to)
{
    for (int k = 0; k < m;) {
        int g = -1;
        for (int h = 0; h < most; h++)
            if (count[h] > 0 && (g < 0 || count[h] < count[g])) g = h;
        for (; count[g] > 0; count[g]--, k++)
            to[site[!ends ? k : k % 2 == 0 ? k / 2 : m - 1 - k / 2]] = (char)g;
    }
}

/* The labels of `from` in another order, among sites alike. */
static kl_status arrange(const search *s, const char *from, order o, char *to, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = s->t->nsite;
    int *site = NULL, *count = NULL;
    char *done = NULL;
    signed char *colour = NULL;
    KL_TRY(kl_alloc(&site, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&count, s->l->most, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&done, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&colour, n, KL_MEM_WORK, err));
    find_colours(s->t, colour);
    memset(done, 0, (size_t)n);
    for (int first = 0; first < n; first++) {
        int m = 0;
        if (done[first]) continue;
        memset(count, 0, sizeof *count * (size_t)s->l->most);
        for (int p = first; p < n; p++) {
            if (done[p] || !kl_labels_alike(s->l, s->t, first, p)) continue;
            done[p] = 1;
            site[m++] = p;
            count[(int)from[p]]++;
        }
        if (o == EVEN_FIRST || o == ODD_FIRST) sort_by_colour(colour, o == ODD_FIRST, site, m);
        if (o == EVENLY) spread(count, s->l->most, site, m, to);
        else fill(count, s->l->most, site, m, o == AT_THE_ENDS, to);
    }
out:
    kl_free(&site);
    kl_free(&count);
    kl_free(&done);
    kl_free(&colour);
    return st;
}

/* Where position p goes, of n in rows of w: image 0 turns rows round, 1 their order, 2 .. shift all. */
static int image_of(int p, int n, int w, int image)
{
    if (image == 0) return p - p % w + w - 1 - p % w;
    return image == 1 ? (n / w - 1 - p / w) * w + p % w : (p + (image - 1) * w) % n;
}

/* Images of a placement as lattices have them, whether this one does or not: where they have the same energy
   they will be seen. */
static kl_status ask_images(search *s, const char *best, kl_err *err)
{
    kl_status st = KL_OK;
    char *label = NULL, *from = NULL;
    int there;
    const int n = s->t->nsite;
    KL_TRY(kl_alloc(&label, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&from, n, KL_MEM_WORK, err));
    memcpy(from, best, (size_t)n);
    KL_TRY(ask(s, from, INFINITY, &there, err));
    const double lowest = s->known[there].energy;
    for (int w = 1; w <= n; w++)
        for (int image = 0; n % w == 0 && image <= (w == 1 ? n : 1) && !is_spent(s); image++) {
            int same = 1;
            for (int p = 0; p < n; p++) {
                const int q = image_of(p, n, w, image);
                same &= kl_labels_alike(s->l, s->t, p, q);
                label[q] = from[p];
            }
            if (same) KL_TRY(ask(s, label, lowest, &there, err));
        }
out:
    kl_free(&label);
    kl_free(&from);
    return st;
}

/* The labels of `from` in any order, among sites alike. */
static void shuffle(const search *s, const char *from, uint64_t *rng, char *to)
{
    const int n = s->t->nsite;
    memcpy(to, from, (size_t)n);
    for (int p = n - 1; p > 0; p--) {
        const int q = (int)(kl_random_next(rng) % (uint64_t)(p + 1));
        if (kl_labels_alike(s->l, s->t, p, q)) exchange(to, p, q);
    }
}

static const char *best_of(const search *s)
{
    int best = 0;
    for (int k = 1; k < s->n; k++)
        if (s->known[k].energy < s->known[best].energy) best = k;
    return s->known[best].label;
}

typedef struct every { /* placements that are gone through */
    int any; /* 1: all that charges allow; 0: those of the same labels among sites alike */
    int *first; /* [nsite] the first site alike */
    int *left; /* [nsite][most] labels that sites alike have not got yet, at the first one */
    int told[KL_MAX_CHARGE]; /* 1: labels alone tell the charge */
    int *least, *largest; /* [nsite + 1][KL_MAX_CHARGE] what sites from there on have of such a charge */
    int has[KL_MAX_CHARGE]; /* what sites before have of it */
    char *label; /* [nsite] */
    int n, steps, asking; /* how many; labels set; 1: each is asked for */
    double best;
} every;

/* Of a charge that labels tell: the value of label h at position p. */
static int charge_of(const search *s, int p, int h, int c)
{
    int a = 0;
    while (s->l->of[p * s->l->most + a] != h) a++;
    return s->t->type[p]->state_charge[a][c];
}

static int labels_tell(const search *s, int c)
{
    if (s->t->model->charge[c].modulus > 0) return 0;
    for (int p = 0; p < s->t->nsite; p++)
        for (int a = 0; a < s->t->type[p]->dim; a++)
            if (s->t->type[p]->state_charge[a][c] != charge_of(s, p, s->l->of[p * s->l->most + a], c))
                return 0;
    return 1;
}

static kl_status bound_charges(const search *s, every *a, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = s->t->nsite;
    KL_TRY(kl_alloc(&a->least, (int64_t)(n + 1) * KL_MAX_CHARGE, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&a->largest, (int64_t)(n + 1) * KL_MAX_CHARGE, KL_MEM_WORK, err));
    for (int c = 0; c < s->t->model->ncharge; c++) {
        a->told[c] = labels_tell(s, c);
        a->least[n * KL_MAX_CHARGE + c] = a->largest[n * KL_MAX_CHARGE + c] = 0;
        for (int p = n - 1; p >= 0 && a->told[c]; p--) {
            int low = INT_MAX, high = INT_MIN;
            for (int h = 0; h < s->l->n[p]; h++) {
                const int v = charge_of(s, p, h, c);
                low = v < low ? v : low;
                high = v > high ? v : high;
            }
            a->least[p * KL_MAX_CHARGE + c] = low + a->least[(p + 1) * KL_MAX_CHARGE + c];
            a->largest[p * KL_MAX_CHARGE + c] = high + a->largest[(p + 1) * KL_MAX_CHARGE + c];
        }
    }
out:
    return st;
}

/* Whether sites from p on can have what the charges want still. */
static int is_within(const search *s, const every *a, int p)
{
    int within = 1;
    for (int c = 0; c < s->t->model->ncharge; c++) {
        if (!a->told[c]) continue;
        const int rest = s->o->target.v[c] - a->has[c];
        within &= rest >= a->least[p * KL_MAX_CHARGE + c] && rest <= a->largest[p * KL_MAX_CHARGE + c];
    }
    return within;
}

/* Label h comes to position p (by 1), or goes (by -1). */
static void set_label(const search *s, every *a, int p, int h, int by)
{
    a->label[p] = (char)h;
    a->left[a->first[p] * s->l->most + h] -= by;
    for (int c = 0; c < s->t->model->ncharge; c++)
        if (a->told[c]) a->has[c] += by * charge_of(s, p, h, c);
}

/* From position p on; more than EVERY are not counted. */
static kl_status go_through(search *s, int p, every *a, kl_err *err)
{
    kl_status st = KL_OK;
    int which;
    if (p == s->t->nsite) {
        a->n++;
        if (a->asking) KL_TRY(ask(s, a->label, a->best, &which, err));
        return KL_OK;
    }
    for (int h = 0; h < s->l->n[p] && a->n <= EVERY && a->steps < STEPS && !s->interrupted; h++) {
        if (!a->any && a->left[a->first[p] * s->l->most + h] == 0) continue;
        a->steps++;
        set_label(s, a, p, h, 1);
        if (is_within(s, a, p + 1)) KL_TRY(go_through(s, p + 1, a, err)); /* depth: the sites */
        set_label(s, a, p, h, -1);
    }
out:
    return st;
}

/* *n: how many there are, EVERY at most where they are counted to the end. */
static kl_status count_all(search *s, every *a, int any, int *few, kl_err *err)
{
    a->any = any;
    a->n = a->steps = 0;
    const kl_status st = go_through(s, 0, a, err);
    *few = a->n <= EVERY && a->steps < STEPS;
    return st;
}

/* Where they are few, all that charges allow, or at least those of the same labels: nothing is missed of
   these. *all 1: there are no others. */
static kl_status ask_all(search *s, const char *from, int *few, int *all, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = s->t->nsite;
    every a = {.best = INFINITY};
    KL_TRY(kl_alloc(&a.first, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&a.left, (int64_t)n * s->l->most, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&a.label, n, KL_MEM_WORK, err));
    KL_TRY(bound_charges(s, &a, err));
    memset(a.left, 0, sizeof *a.left * (size_t)n * (size_t)s->l->most);
    for (int p = 0; p < n; p++) {
        int q = 0;
        while (!kl_labels_alike(s->l, s->t, q, p)) q++;
        a.first[p] = q;
        a.left[q * s->l->most + from[p]]++;
    }
    KL_TRY(count_all(s, &a, 1, all, err));
    *few = *all;
    if (!*all) KL_TRY(count_all(s, &a, 0, few, err));
    for (int k = 0; k < s->n; k++) a.best = fmin(a.best, s->known[k].energy);
    a.n = a.steps = 0;
    a.asking = 1;
    if (*few) KL_TRY(go_through(s, 0, &a, err));
out:
    kl_free(&a.first);
    kl_free(&a.left);
    kl_free(&a.least);
    kl_free(&a.largest);
    kl_free(&a.label);
    return st;
}

/* From the placement found, and from others of the labels that this leads to. *all 1: no placement was left
   out. */
static kl_status descend_from_all(search *s, const char *found, int *all, kl_err *err)
{
    kl_status st = KL_OK;
    char *base = NULL, *label = NULL;
    int few;
    const int n = s->t->nsite;
    KL_TRY(kl_alloc(&base, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&label, n, KL_MEM_WORK, err));
    memcpy(base, found, (size_t)n);
    KL_TRY(descend(s, base, err));
    KL_TRY(ask_all(s, base, &few, all, err));
    for (int o = 0; o < NORDER && !few && !is_spent(s); o++) {
        KL_TRY(arrange(s, base, (order)o, label, err));
        KL_TRY(descend(s, label, err));
    }
    uint64_t rng = s->o->seed;
    for (int k = 0; k < SHUFFLED && !few && !is_spent(s); k++) {
        shuffle(s, base, &rng, label);
        KL_TRY(descend(s, label, err));
    }
    if (!few && !is_spent(s)) KL_TRY(ask_images(s, best_of(s), err));
out:
    kl_free(&base);
    kl_free(&label);
    return st;
}

/* ---- 4. the best ones ---- */

static int lower_first(const void *a, const void *b)
{
    const double x = ((const asked *)a)->energy, y = ((const asked *)b)->energy;
    return (x > y) - (x < y);
}

/* A run within a placement by the options of the run. */
static kl_status run_within(search *s, const kl_placed *x, kl_state **end, kl_dmrg_result *res, kl_err *err)
{
    const kl_dmrg_monitor quiet = {.self = s->mon ? s->mon->self : NULL,
                                   .interrupted = s->mon ? s->mon->interrupted : NULL};
    const kl_dmrg_opts opts = kl_valleys_alone(s->o);
    const kl_status st = kl_dmrg_run_scaled(&x->terms, s->ex, &opts, &quiet, end, res, err);
    if (st == KL_OK) s->interrupted |= res->stop == KL_STOP_INTERRUPTED;
    return st;
}

typedef struct full { /* a placement run in full */
    double energy, bar;
    int same; /* that of the state found */
} full;

/* One of them in full; its state becomes *lower where it lies below what there is. found: the placement of
   the state found, NULL: it has none. */
static kl_status run_full(search *s, const asked *one, const char *found, kl_valley *lower, full *out,
                          kl_err *err)
{
    kl_status st = KL_OK;
    kl_placed x = {.type = NULL};
    kl_state *end = NULL;
    kl_dmrg_result res = {.nstate = 0};
    *out = (full){.energy = INFINITY};
    KL_TRY(kl_placed_create(s->t, s->l, one->label, &x, err));
    KL_TRY(run_within(s, &x, &end, &res, err));
    if (s->interrupted || !end || end->centre != 0) goto out;
    out->energy = res.energy[0];
    out->bar = res.error_estimate;
    out->same = found && memcmp(found, one->label, (size_t)s->t->nsite) == 0;
    if (out->energy >= s->here->energy - s->here->bar - out->bar ||
        (lower->state && out->energy >= lower->energy))
        goto out;
    kl_state_destroy(&lower->state);
    KL_TRY(kl_placed_embed(&x, s->t, s->ex, s->e, end, &lower->state, err));
    lower->energy = out->energy;
out:
    kl_dmrg_result_clear(&res);
    kl_state_destroy(&end);
    kl_placed_clear(&x);
    return st;
}

/* Whether another placement is not told apart from the state that the run goes on with. */
static double rival_of(const full *all, int n, double energy, double bar, int own)
{
    double rival = 0;
    for (int k = 0; k < n; k++)
        if (k != own && fabs(all[k].energy - energy) <= bar + all[k].bar)
            rival = fmax(rival, bar + all[k].bar);
    return rival;
}

static kl_status compare_best(search *s, const char *found, kl_valley *lower, kl_valley_settled *settled,
                              kl_err *err)
{
    kl_status st = KL_OK;
    full all[BEST];
    int n = 0, own = -1;
    qsort(s->known, (size_t)s->n, sizeof *s->known, lower_first);
    for (; n < s->n && n < BEST && !s->interrupted; n++) {
        if (!(s->known[n].energy < s->known[0].energy + CLOSE * s->unit)) break;
        KL_TRY(run_full(s, &s->known[n], found, lower, &all[n], err));
        if (lower->state ? all[n].energy == lower->energy : all[n].same) own = n;
    }
    if (!lower->state) settled->rival = rival_of(all, n, s->here->energy, s->here->bar, own);
    else if (!s->interrupted)
        *settled = (kl_valley_settled){.cut = settled->cut,
                                       .known = settled->strings == 0,
                                       .energy = lower->energy,
                                       .bar = all[own].bar,
                                       .beyond = rival_of(all, n, lower->energy, all[own].bar, own)};
out:
    return st;
}

static kl_status count_strings(const search *s, const char *label, int *strings, kl_err *err)
{
    kl_placed x = {.type = NULL};
    kl_status st = kl_placed_create(s->t, s->l, label, &x, err);
    if (st == KL_OK) st = kl_stringtrials_count(&x.terms, strings, err);
    kl_placed_clear(&x);
    return st;
}

kl_status kl_places_compare(const kl_terms *t, kl_exec *ex, const kl_engine_opts *e, const kl_dmrg_opts *o,
                            const kl_dmrg_monitor *mon, const kl_valley_here *here, kl_valley *lower,
                            kl_valley_settled *settled, kl_err *err)
{
    kl_status st = KL_OK;
    kl_labels l = {0};
    char *found = NULL;
    search s = {.t = t, .ex = ex, .e = e, .o = o, .mon = mon, .here = here, .l = &l};
    int has, all, any = 1;
    *lower = (kl_valley){0};
    settled->cut = 0;
    settled->strings = 1; /* there may be */
    s.most = MOST_WORK * here->flop;
    s.unit = kl_terms_units(t).gap;
    KL_TRY(kl_labels_find(t, &l, err));
    if (!kl_places_worth(&l) || here->state->centre != 0 || t->nsite < 3) goto out;
    settled->cut = 1;
    KL_TRY(kl_alloc(&found, t->nsite, KL_MEM_WORK, err));
    KL_TRY(find_labels(&s, found, &has, err));
    if (!has) KL_TRY(find_product(&s, found, &any, err));
    if (!any) goto out;
    KL_TRY(descend_from_all(&s, found, &all, err));
    settled->cut = !all || s.interrupted;
    KL_TRY(count_strings(&s, found, &settled->strings, err));
    KL_TRY(compare_best(&s, has ? found : NULL, lower, settled, err));
out:
    for (int k = 0; k < s.n; k++) kl_free(&s.known[k].label);
    kl_free(&s.known);
    kl_free(&found);
    kl_labels_clear(&l);
    if (st != KL_OK) kl_state_destroy(&lower->state);
    return st;
}
