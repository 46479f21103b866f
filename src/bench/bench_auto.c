/* `kronlat bench auto`: the same runs by --exec auto and by each executor that is here, from tiny to full, as
   a user would start them: the wall time of processes, medians of rounds in which all choices take turns.
   The answers of all choices have to agree. What it says is how much `auto' loses to the best single choice.
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
#define ENOUGH 2.0 /* seconds of the best choice: runs of hundredths of a second vary by more than WITHIN */

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
    int n;
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

static kl_status run_once(const bench *b, const run_case *c, int choice, timed *t, kl_err *err)
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

/* As many rounds as were asked for; where nobody asked, more of what is over at once. */
static int wants_round(const bench *b, const timed t[NCHOICE], int r)
{
    const int more = !b->asked && r < MOST_ROUND && r * median(&t[best_of(t)]) < ENOUGH;
    return r < b->nround || more;
}

/* auto's median over that of the best choice by name. */
static kl_status one_case(const bench *b, const run_case *c, double *ratio, double *lost, kl_err *err)
{
    kl_status st = KL_OK;
    timed *t = NULL;
    KL_TRY(kl_alloc(&t, NCHOICE, KL_MEM_MISC, err));
    for (int r = 0; wants_round(b, t, r); r++)
        for (int k = 0; k < NCHOICE; k++) {
            /* there and back: what comes behind a run on a GPU takes longer */
            const int e = r % 2 ? NCHOICE - 1 - k : k;
            const double best = median(&t[best_of(t)]);
            if (!b->there[e] || (r > 0 && e != AUTO && median(&t[e]) > HOPELESS * best)) continue;
            KL_TRY(run_once(b, c, e, &t[e], err));
            const double off = fabs(t[e].energy - t[AUTO].energy) / fmax(fabs(t[AUTO].energy), 1e-300);
            if (!(off <= c->agree))
                KL_TRY(kl_fail(err, KL_EBROKEN,
                               "bench auto: --exec %s found the energy %.14g, --exec auto %.14g",
                               choice_name[e], t[e].energy, t[AUTO].energy));
        }
    const int best = best_of(t);
    *ratio = median(&t[AUTO]) / median(&t[best]);
    *lost = median(&t[AUTO]) - median(&t[best]);
    print_name(b, c);
    printf("  ");
    for (int e = 0; e < NCHOICE; e++) {
        if (t[e].n == 0) continue;
        qsort(t[e].wall, (size_t)t[e].n, sizeof *t[e].wall, ascending);
        printf("%s %.3f s", choice_name[e], median(&t[e]));
        if (t[e].n > 1) printf(" (%d: %.3f to %.3f)", t[e].n, t[e].wall[0], t[e].wall[t[e].n - 1]);
        printf(", ");
    }
    printf("auto: %s | auto / %s %.3f | same energies PASS\n", t[AUTO].where, choice_name[best], *ratio);
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
    int n = 0, close = 0;
    double most = 0;
    KL_TRY(kl_process_own("bench auto", b.own, err));
    for (int e = 2; e < NCHOICE; e++)
        if (!(b.there[e] = opens(&b, e))) printf("--exec %s: not here\n", choice_name[e]);
    printf("seconds of whole processes, medians of %d round%s%s (fastest to slowest)\n", b.nround,
           b.nround == 1 ? "" : "s", b.asked ? "" : ", or more of short ones");
    for (int i = 0; i < NCASE; i++) {
        double ratio, lost;
        if (!is_wanted(&b, &cases[i])) continue;
        KL_TRY(one_case(&b, &cases[i], &ratio, &lost, err));
        n++;
        close += ratio <= WITHIN;
        most = fmax(most, lost);
    }
    if (n == 0) KL_TRY(kl_fail(err, KL_EINPUT, "--only: '%s' is in none of the runs", b.only));
    printf("auto within 5 %% of the best single choice in %d of %d runs; at most %.3f s behind it\n", close,
           n, most);
out:
    return st;
}
