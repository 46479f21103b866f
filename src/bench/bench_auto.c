/* `kronlat bench auto`: the same runs by --exec auto and by each executor that is here, from tiny to full, as
   a user would start them: the wall time of processes, medians of rounds in which all choices take turns.
   The answers of all choices have to agree. What it says is how much `auto' loses to the best single choice:
   the median, over rounds, of one time over the other, and between which bounds that median lies, for where
   both do the same thing they differ by noise, which two medians of their own would count as a loss or as a
   gain. Rounds go on until the bounds say on which side of 5 % it is, or for a while.
   SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench_auto.h"
#include "base/mem.h"
#include "bench/process.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_ROUND = 100,
    MOST_CASE_WORDS = 16,
    NCHOICE = 4,
    AUTO = 0,
};
static const char *const choice_name[NCHOICE] = {"auto", "host", "cuda", "offload"};

#define WITHIN 1.05 /* of the best single choice */
#define HOPELESS 2.0 /* times the best: not run again */
#define BEHIND 1.25 /* the same in rounds that only tell auto from the best */
#define ENOUGH 2.0 /* seconds of the best choice: runs of hundredths of a second vary by more than WITHIN */
#define PATIENCE 15.0 /* seconds of the best choice until bounds that say nothing are left as they are */
#define TAIL 0.05 /* how often a bound is wrong where rounds do not depend on each other */

typedef struct run_case {
    int quick, file; /* 1: belongs to --quick; needs FCIDUMP */
    const char *word[MOST_CASE_WORDS];
    double agree; /* relative difference of energies that the runs' own accuracy allows */
} run_case;

static const run_case cases[] = {
    {1, 0, {"ed", "heisenberg", "--sites=12", "--charge=Sz=0"}, 1e-9},
    {0, 0, {"ed", "heisenberg", "--lattice=ring:24", "--charge=Sz=0"}, 1e-9},
    {0, 0, {"ed", "hubbard", "--lattice=torus:4x4", "-pU=4", "--charge=N_up=5", "--charge=N_dn=5"}, 1e-9},
    {0, 0, {"ed", "hubbard", "--lattice=square:4x4", "-pU=4", "--charge=N_up=7", "--charge=N_dn=7"}, 1e-9},
    {0,
     0,
     {"ed", "heisenberg", "--lattice=ring:20", "--charge=Sz=0", "--spectral=Sz@0", "--store=matrix"},
     1e-9},
    {1, 1, {"ci", NULL}, 1e-8},
    {0, 1, {"ci", NULL, "--space=level:6", "--store=matrix"}, 1e-8},
    {0, 1, {"ci", NULL, "--space=full"}, 1e-8},
    {0, 0, {"dmrg", "heisenberg", "--sites=100", "--charge=Sz=0", "--accuracy=1e-8", "--output=none"}, 1e-7},
    {0,
     0,
     {"dmrg", "hubbard", "--lattice=ladder:6x2", "-pU=4", "--charge=N_up=6", "--charge=N_dn=6",
      "--schedule=200:1e-5*2,800:1e-6,1500*2", "--output=none"},
     1e-6},
};
enum { NCASE = sizeof cases / sizeof *cases };

/* One choice for a case. */
typedef struct timed {
    int n, round[MOST_ROUND];
    double wall[MOST_ROUND], energy;
    char where[64]; /* in the program's own words */
} timed;

typedef struct bench {
    const char *file, *only;
    char own[KL_PROCESS_PATH];
    int quick, nround, asked, there[NCHOICE]; /* asked: for nround */
} bench;

static int ascending(const void *pa, const void *pb)
{
    const double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

static double median(const timed *t)
{
    double x[MOST_ROUND];
    if (t->n == 0) return INFINITY;
    memcpy(x, t->wall, (size_t)t->n * sizeof *x);
    qsort(x, (size_t)t->n, sizeof *x, ascending);
    return t->n % 2 ? x[t->n / 2] : 0.5 * (x[t->n / 2 - 1] + x[t->n / 2]);
}

/* auto's time over another choice's, of the rounds that have both: their median and its bounds. */
typedef struct ratio {
    int n;
    double low, middle, high;
} ratio;

/* How many of n values, from either end, a bound of the median leaves out: of n rounds, each of which is as
   likely above it as below, fewer than k are on one side in less than TAIL of all cases. -1: too few. */
static int left_out(int n)
{
    double chance = pow(0.5, n), sum = 0; /* of k, and of at most k, on one side */
    int k = 0;
    for (; k < n / 2; k++) {
        sum += chance;
        if (sum > TAIL) break;
        chance *= (double)(n - k) / (k + 1);
    }
    return k - 1;
}

static ratio ratio_of(const timed *a, const timed *b)
{
    double x[MOST_ROUND];
    ratio r = {0, 0, INFINITY, INFINITY}; /* nothing is known */
    for (int i = 0, k = 0; i < a->n; i++) {
        while (k < b->n && b->round[k] < a->round[i]) k++;
        if (k < b->n && b->round[k] == a->round[i]) x[r.n++] = a->wall[i] / b->wall[k];
    }
    if (r.n == 0) return r;
    qsort(x, (size_t)r.n, sizeof *x, ascending);
    r.middle = r.n % 2 ? x[r.n / 2] : 0.5 * (x[r.n / 2 - 1] + x[r.n / 2]);
    const int out = left_out(r.n);
    if (out >= 0) r.low = x[out], r.high = x[r.n - 1 - out];
    return r;
}

static kl_status run_once(const bench *b, const run_case *c, int choice, int round, timed *t, kl_err *err)
{
    kl_status st = KL_OK;
    char *text = NULL;
    kl_process p = {.what = "bench auto"};
    KL_TRY(kl_process_word(&p, "", b->own, err));
    for (int i = 0; i < MOST_CASE_WORDS && (c->word[i] || (c->file && i == 1)); i++)
        KL_TRY(kl_process_word(&p, "", c->word[i] ? c->word[i] : b->file, err));
    KL_TRY(kl_process_word(&p, "exec", choice_name[choice], err));
    KL_TRY(kl_process_word(&p, "", "--json", err));
    KL_TRY(kl_process_run(&p, &text, err));
    t->round[t->n] = round;
    t->wall[t->n++] = p.wall;
    t->energy = kl_process_number(text, "energy");
    const char *const where = kl_process_value(text, "exec");
    if (!where || sscanf(where, "\"%63[^\"]", t->where) != 1) t->where[0] = '\0';
    if (!isfinite(t->energy))
        st = kl_fail(err, KL_EINPUT, "bench auto: a run by --exec %s printed no energy", choice_name[choice]);
out:
    kl_process_clear(&p);
    kl_free(&text);
    return st;
}

/* Whether an executor opens here: asked in a process of its own, so that no context stays open. */
static int opens(const bench *b, int choice)
{
    char *text = NULL;
    kl_err ignored;
    kl_process p = {.what = "bench auto"};
    static const char *const word[] = {"explain", "heisenberg", "--sites=4", "--charge=Sz=0", "--m=4"};
    kl_status st = kl_process_word(&p, "", b->own, &ignored);
    for (size_t i = 0; i < sizeof word / sizeof *word && st == KL_OK; i++)
        st = kl_process_word(&p, "", word[i], &ignored);
    if (st == KL_OK) st = kl_process_word(&p, "exec", choice_name[choice], &ignored);
    if (st == KL_OK) st = kl_process_run(&p, &text, &ignored);
    kl_process_clear(&p);
    kl_free(&text);
    return st == KL_OK;
}

static int best_of(const timed t[NCHOICE])
{
    int best = 1;
    for (int e = 2; e < NCHOICE; e++)
        if (median(&t[e]) < median(&t[best])) best = e;
    return best;
}

static void print_name(const bench *b, const run_case *c)
{
    char name[200] = "";
    for (int i = 0; i < MOST_CASE_WORDS && (c->word[i] || (c->file && i == 1)); i++) {
        const char *const slash = b->file && !c->word[i] ? strrchr(b->file, '/') : NULL;
        const char *const word = c->word[i] ? c->word[i] : slash ? slash + 1 : b->file;
        if (strcmp(word, "--output=none") == 0) continue;
        const size_t used = strlen(name);
        snprintf(name + used, sizeof name - used, "%s%s", used ? " " : "", word);
    }
    printf("%s\n", name);
}

/* As many rounds as were asked for; where nobody asked, more of what is over at once, and then more of auto
   and of what comes near the best. */
static int wants_round(const bench *b, const timed t[NCHOICE], int r, double *hopeless)
{
    const int best = best_of(t);
    const double seconds = r * median(&t[best]);
    *hopeless = HOPELESS;
    if (r < b->nround) return 1;
    if (b->asked || r == MOST_ROUND) return 0;
    if (seconds < ENOUGH) return 1;
    const ratio q = ratio_of(&t[AUTO], &t[best]);
    *hopeless = BEHIND;
    return q.low <= WITHIN && q.high > WITHIN && seconds < PATIENCE;
}

static void print_times(timed t[NCHOICE])
{
    printf("  ");
    for (int e = 0; e < NCHOICE; e++) {
        if (t[e].n == 0) continue;
        qsort(t[e].wall, (size_t)t[e].n, sizeof *t[e].wall, ascending);
        printf("%s %.3f s", choice_name[e], median(&t[e]));
        if (t[e].n > 1) printf(" (%d: %.3f to %.3f)", t[e].n, t[e].wall[0], t[e].wall[t[e].n - 1]);
        printf(", ");
    }
}

/* auto over the best choice by name. */
static kl_status one_case(const bench *b, const run_case *c, ratio *q, kl_err *err)
{
    kl_status st = KL_OK;
    timed *t = NULL;
    double hopeless;
    KL_TRY(kl_alloc(&t, NCHOICE, KL_MEM_MISC, err));
    for (int r = 0; wants_round(b, t, r, &hopeless); r++)
        for (int k = 0; k < NCHOICE; k++) {
            /* there and back: what comes behind a run on a GPU takes longer */
            const int e = r % 2 ? NCHOICE - 1 - k : k;
            const double best = median(&t[best_of(t)]);
            if (!b->there[e] || (r > 0 && e != AUTO && median(&t[e]) > hopeless * best)) continue;
            KL_TRY(run_once(b, c, e, r, &t[e], err));
            const double off = fabs(t[e].energy - t[AUTO].energy) / fmax(fabs(t[AUTO].energy), 1e-300);
            if (!(off <= c->agree))
                KL_TRY(kl_fail(err, KL_EBROKEN,
                               "bench auto: --exec %s found the energy %.14g, --exec auto %.14g",
                               choice_name[e], t[e].energy, t[AUTO].energy));
        }
    const int best = best_of(t);
    *q = ratio_of(&t[AUTO], &t[best]);
    print_name(b, c);
    print_times(t);
    printf("auto: %s | auto / %s %.3f", t[AUTO].where, choice_name[best], q->middle);
    if (q->low > 0) printf(" (%.3f to %.3f by %d rounds)", q->low, q->high, q->n);
    printf(" | same energies PASS\n");
    fflush(stdout);
out:
    kl_free(&t);
    return st;
}

static int is_wanted(const bench *b, const run_case *c)
{
    if ((c->file && !b->file) || (b->quick && !c->quick)) return 0;
    int named = b->only == NULL;
    for (int i = 0; i < MOST_CASE_WORDS && c->word[0]; i++)
        named |= !named && c->word[i] && strstr(c->word[i], b->only) != NULL;
    return named;
}

kl_status kl_bench_auto(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    bench b = {.file = o->file,
               .only = o->bench.only,
               .quick = o->bench.quick,
               .nround = o->bench.rounds > 0 ? (int)o->bench.rounds : 3,
               .asked = o->bench.rounds > 0,
               .there = {1, 1}};
    int n = 0, close = 0, behind = 0;
    double most = 0;
    KL_TRY(kl_process_own("bench auto", b.own, err));
    for (int e = 2; e < NCHOICE; e++)
        if (!(b.there[e] = opens(&b, e))) printf("--exec %s: not here\n", choice_name[e]);
    printf("seconds of whole processes, medians of %d round%s%s (fastest to slowest)\n", b.nround,
           b.nround == 1 ? "" : "s", b.asked ? "" : ", or more of short ones");
    for (int i = 0; i < NCASE; i++) {
        ratio q;
        if (!is_wanted(&b, &cases[i])) continue;
        KL_TRY(one_case(&b, &cases[i], &q, err));
        n++;
        close += q.middle <= WITHIN;
        behind += q.low > WITHIN;
        most = fmax(most, q.middle);
    }
    if (n == 0) KL_TRY(kl_fail(err, KL_EINPUT, "--only: '%s' is in none of the runs", b.only));
    printf(
        "auto within 5 %% of the best single choice in %d of %d runs, behind by more in %d, not told apart "
        "from that in %d; the largest ratio is %.3f\n",
        close, n, behind, n - close - behind, most);
out:
    return st;
}
