/* The progress line, and the one line of an error or a note below it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/prof.h"
#include "cli/report.h"
#include "cli/reporttext.h"
#include "dmrg/forecast.h"
#include "dmrg/schedule.h"

double kl_clock(void) { return kl_prof_seconds(); }

static int line_drawn; /* a progress line stands on the terminal; there is one terminal */

static void clear_line(void)
{
    if (line_drawn) fputs("\r\033[K", stderr);
    line_drawn = 0;
}

/* One line. Names of strangers may be in it, and a terminal would obey control characters. */
static void put_line(const char *opening, const char *text)
{
    clear_line();
    fputs(opening, stderr);
    for (const char *c = text; *c != '\0'; c++)
        fputc((unsigned char)*c < ' ' || *c == 127 ? ' ' : *c, stderr);
    fputc('\n', stderr);
}

void kl_report_error(const char *text) { put_line("kronlat: ", text); }

void kl_report_note(const char *text) { put_line("kronlat: note: ", text); }

/* ---------------------------------------------------------------- progress */

void kl_progress_begin(kl_progress *p, int verbose, int nsweep)
{
    *p = (kl_progress){.live = isatty(STDERR_FILENO) == 1, .verbose = verbose, .nsweep = nsweep};
    p->sweep_start = kl_clock();
}

void kl_progress_step(kl_progress *p, const kl_dmrg_step *s)
{
    const double now = kl_clock();
    if (s->sweep != p->sweep) {
        p->sweep = s->sweep;
        p->sweep_start = now;
    }
    if (!p->live || (now - p->last < 0.1 && s->istep + 1 < s->nstep)) return;
    p->last = now;
    char left[48] = "", change[32] = "", total[16] = "";
    if (s->istep > 2) {
        char t[32];
        snprintf(left, sizeof(left), "  %s left in this sweep",
                 kl_report_time((now - p->sweep_start) * (s->nstep - s->istep) / s->istep, t));
    }
    if (p->have_energy) snprintf(change, sizeof(change), "  change %.1e", s->energy - p->previous_energy);
    if (p->nsweep > 0) snprintf(total, sizeof(total), "/%d", p->nsweep + p->sweep_before);
    fprintf(stderr, "\r%ssweep %d%s %s site %d  m %d  E %.11g%s  discarded %.1e%s%s\033[K", p->prefix,
            p->sweep_before + s->sweep + 1, total, s->direction > 0 ? "->" : "<-", s->bond, s->m, s->energy,
            change, s->discarded, left, p->forecast);
    fflush(stderr);
    line_drawn = 1;
}

/* Of a run that has to keep more states. */
static void make_forecast(kl_progress *p, const kl_dmrg_row *first, int nrow)
{
    const kl_dmrg_row *const row = &first[nrow - 1];
    const double wanted = p->wanted > 0 ? p->wanted : p->accuracy * fabs(row->energy[0]);
    kl_forecast f;
    char time[32];
    p->forecast[0] = '\0';
    if (row->wait != KL_WAIT_TRUNCATION || !kl_forecast_make(first, nrow, wanted, &f)) return;
    const double digit = pow(10, fmax(floor(log10(f.m)) - 1, 0)); /* two digits are enough */
    snprintf(p->forecast, sizeof p->forecast, "  about %d more sweep%s, to m = %.0f: %s", f.sweeps,
             f.sweeps > 1 ? "s" : "", digit * round(f.m / digit), kl_report_time(f.seconds, time));
}

void kl_progress_sweep(kl_progress *p, const kl_dmrg_row *first, int nrow)
{
    const kl_dmrg_row *const row = &first[nrow - 1];
    p->previous_energy = row->energy[0];
    p->have_energy = 1;
    make_forecast(p, first, nrow);
    if (!p->verbose) return;
    clear_line();
    char states[48] = "";
    if (row->states > row->m_reached)
        snprintf(states, sizeof(states), " multiplets, %lld states", (long long)row->states);
    fprintf(stderr,
            "%ssweep %d  m %d%s  noise %.0e  E %.15g  change %.2e  discarded %.2e  %.2f s  waits for %s%s\n",
            p->prefix, p->sweep_before + nrow, row->m_reached, states, row->noise, row->energy[0],
            row->change, row->discarded, row->seconds, kl_dmrg_wait_text[row->wait], p->forecast);
}

void kl_progress_end(kl_progress *p)
{
    (void)p;
    clear_line();
}
