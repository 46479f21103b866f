/* Whole runs: see bench_run.h. Both programs are started as a user would start them, and what they say of
   themselves is read from their JSON, so that any older build can be compared.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench/bench_run.h"
#include "base/base.h"
#include "base/mem.h"
#include "base/prof.h"
#include "bench/process.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_PART = 16,
    MOST_ROUND = 100,
};

/* What the JSON of a run says, and what the system says of its process. */
typedef struct told {
    double energy, bar, seconds, flop;
    double wall, cpu; /* of the process, its start and its measurements included */
    double reached;   /* of the run's seconds, until the energy was as good as wanted; negative: never */
    int npart, m, nsweep;
    char part[MOST_PART][40]; /* in the program's own words */
    double spent[MOST_PART];
} told;

/* ---- JSON ---- */

static void read_parts(const char *json, told *t)
{
    const char *p = kl_process_value(json, "seconds_by_part");
    const char *const end = p ? strchr(p, '}') : NULL;
    t->npart = 0;
    while (end && t->npart < MOST_PART && (p = strchr(p, '"')) != NULL && p < end) {
        char *const name = t->part[t->npart];
        if (sscanf(p, "\"%39[^\"]\"", name) != 1) break;
        t->spent[t->npart++] = kl_process_number(p, name);
        p = strchr(p + 1, '"') + 1;
    }
}

/* Sweeps, and when the first of them was as good as wanted. */
static void read_sweeps(const char *json, double exact, double accuracy, told *t)
{
    double clock = 0;
    t->reached = -1;
    t->m = t->nsweep = 0;
    for (const char *p = kl_process_value(json, "sweeps"); (p = strstr(p ? p : "", "\"m_reached\"")) != NULL;
         p++) {
        clock += kl_process_number(p, "seconds");
        t->nsweep++;
        t->m = (int)kl_process_number(p, "m_reached");
        const double off = fabs(kl_process_number(p, "energies") - exact);
        if (t->reached < 0 && off <= accuracy * fabs(exact)) t->reached = clock;
    }
}

/* ---- processes ---- */

/* The command line of `kronlat dmrg` for the same run. */
static kl_status command_line(const kl_options *o, const char *program, kl_process *w, kl_err *err)
{
    kl_status st = KL_OK;
    const char *name, *value;
    char number[40];
    KL_TRY(kl_process_word(w, "", program, err));
    KL_TRY(kl_process_word(w, "", "dmrg", err));
    KL_TRY(kl_process_word(w, "", o->model, err));
    for (int i = 0; kl_options_given(o, i, &name, &value, number); i++)
        if (strcmp(name, "exact") != 0 && strcmp(name, "beside") != 0 && strcmp(name, "rounds") != 0)
            KL_TRY(kl_process_word(w, name, value, err));
    KL_TRY(kl_process_word(w, "output", "none", err));
    KL_TRY(kl_process_word(w, "", "--json", err));
out:
    return st;
}

/* ---- one run ---- */

/* Whether a part of a run is told a second time, inside another one. */
static int is_inside(const char *part)
{
    for (int i = 0; i < KL_NPROF; i++)
        if (strcmp(part, kl_prof_name[i]) == 0) return 1;
    return 0;
}

static void print_inside(const told *t)
{
    int n = 0;
    for (int i = 0; i < t->npart; i++) {
        if (!is_inside(t->part[i]) || t->spent[i] < 0.005 * t->seconds) continue;
        printf("%s %s %.2f s (%.0f %%)", n++ > 0 ? "," : "inside  ", t->part[i], t->spent[i],
               100 * t->spent[i] / t->seconds);
    }
    if (n > 0) printf("\n");
}

static void print_run(const char *who, double exact, const told *t)
{
    double known = 0, solver = 0, product = 0;
    printf("%-8s E %.14g +- %.1e", who, t->energy, t->bar);
    if (exact != 0) printf("  rel.err %.1e", (t->energy - exact) / fabs(exact));
    printf("  m %d  %d sweeps  run %.2f s  process %.2f s, cpu %.2f s  %.3g Tflop  %.3g TFLOP/s\n", t->m,
           t->nsweep, t->seconds, t->wall, t->cpu, 1e-12 * t->flop, 1e-12 * t->flop / t->seconds);
    printf("%-8s", "");
    for (int i = 0; i < t->npart; i++) {
        const int inside = strstr(t->part[i], "products with H") != NULL; /* of the eigensolver's */
        const int other = strcmp(t->part[i], "other") == 0;
        if (is_inside(t->part[i])) continue;
        if (inside) product = t->spent[i];
        else if (!other) known += t->spent[i];
        if (strcmp(t->part[i], "eigensolver") == 0) solver = t->spent[i];
        else if (!inside && !other)
            printf(" %s %.2f s (%.0f %%),", t->part[i], t->spent[i], 100 * t->spent[i] / t->seconds);
    }
    printf(" H x %.2f s (%.0f %%), rest of the eigensolver %.2f s (%.0f %%), none of these %.2f s\n", product,
           100 * product / t->seconds, solver - product, 100 * (solver - product) / t->seconds,
           t->seconds - known);
    print_inside(t);
    if (exact == 0) return;
    if (t->reached >= 0)
        printf("%-8s accuracy after %.2f s, about %.2f s of cpu\n", "", t->reached,
               t->reached * t->cpu / t->wall);
    else printf("%-8s accuracy never reached\n", "");
    fflush(stdout);
}

static kl_status one_run(const kl_options *o, const char *program, const char *who, told *t, kl_err *err)
{
    kl_status st = KL_OK;
    char *text = NULL;
    kl_process w = {.what = "bench run"};
    *t = (told){0};
    KL_TRY(command_line(o, program, &w, err));
    KL_TRY(kl_process_run(&w, &text, err));
    t->wall = w.wall, t->cpu = w.cpu;
    t->energy = kl_process_number(text, "energy");
    t->bar = kl_process_number(text, "error_estimate");
    t->seconds = kl_process_number(text, "seconds");
    t->flop = kl_process_number(text, "flop");
    if (!isfinite(t->energy) || !isfinite(t->seconds)) {
        st =
            kl_fail(err, KL_EINPUT, "bench run: '%s dmrg' printed no energy and no time of one run", program);
        goto out;
    }
    read_parts(text, t);
    read_sweeps(text, o->bench.exact, o->accuracy > 0 ? o->accuracy : 1e-9, t);
    print_run(who, o->bench.exact, t);
out:
    kl_process_clear(&w);
    kl_free(&text);
    return st;
}

/* ---- both ---- */

static int ascending(const void *pa, const void *pb)
{
    const double a = *(const double *)pa, b = *(const double *)pb;
    return a < b ? -1 : a > b;
}

static double median(int n, double *x)
{
    qsort(x, (size_t)n, sizeof *x, ascending);
    return n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

/* Energies are one within their bars, which may be unknown, and what the sum of all digits leaves. */
static kl_status agree(const told *a, const told *b, kl_err *err)
{
    const double bars = fmax(a->bar, 0) + fmax(b->bar, 0), off = fabs(a->energy - b->energy);
    const double most = fmax(isfinite(bars) ? bars : 1e-4 * fabs(a->energy), 1e-12 * fabs(a->energy));
    if (off <= most) return KL_OK;
    return kl_fail(err, KL_EBROKEN,
                   "bench run: the energies %.14g and %.14g differ by %.1e, their bars are %.1e", a->energy,
                   b->energy, off, most);
}

kl_status kl_bench_whole_run(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    char own[KL_PROCESS_PATH];
    double wall[MOST_ROUND], cpu[MOST_ROUND], run[MOST_ROUND];
    const int n = o->bench.rounds > 0 ? (int)o->bench.rounds : 1;
    const char *const other = o->bench.program;
    KL_TRY(kl_process_own("bench run", own, err));
    if (other && strchr(other, '/') && access(other, X_OK) != 0)
        return kl_fail(err, KL_EINPUT, "bench run: '%s' cannot be started: %s", other, strerror(errno));
    for (int i = 0; i < n; i++) {
        told mine, theirs;
        KL_TRY(one_run(o, own, "kronlat", &mine, err));
        if (o->bench.exact != 0 && mine.reached < 0)
            KL_TRY(kl_fail(err, KL_EBROKEN, "bench run: the energy %.14g is %.1e from %.14g", mine.energy,
                           fabs(mine.energy - o->bench.exact), o->bench.exact));
        if (!other) continue;
        KL_TRY(one_run(o, other, "beside", &theirs, err));
        KL_TRY(agree(&mine, &theirs, err));
        wall[i] = mine.wall / theirs.wall;
        cpu[i] = mine.cpu / theirs.cpu;
        run[i] = mine.seconds / theirs.seconds;
    }
    if (other)
        printf("kronlat / beside, median of %d: run %.3f, process %.3f, cpu %.3f; same energies within their "
               "bars PASS\n",
               n, median(n, run), median(n, wall), median(n, cpu));
out:
    return st;
}
