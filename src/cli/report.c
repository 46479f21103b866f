/* Reports of runs as text, in which numbers are rounded to what they are worth.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/report.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/prof.h"
#include "cli/reporttext.h"
#include "comm/comm.h"
#include "exec/streamed.h"
#include "run/dmrgrun.h"
#include "run/request.h"

/* ---------------------------------------------------------------- numbers for people */

const char *kl_report_bytes(double bytes, char buf[32]) { return kl_mem_text(bytes, buf); }

const char *kl_report_time(double s, char buf[32])
{
    if (s < 100) snprintf(buf, 32, "%.3g s", s);
    else if (s < 6000) snprintf(buf, 32, "%d min %02d s", (int)s / 60, (int)s % 60);
    else snprintf(buf, 32, "%.0f h %02d min", floor(s / 3600), (int)(fmod(s, 3600) / 60));
    return buf;
}

const char *kl_report_flop(double flop, char buf[32])
{
    static const char *const unit[] = {"", "k", "M", "G", "T", "P", "E"};
    int u = 0;
    while (flop >= 1000 && u < 6) {
        flop /= 1000;
        u++;
    }
    snprintf(buf, 32, "%.3g %sflop", flop, unit[u]);
    return buf;
}

/* Numbers that point notation can hold: beyond, digits are lost or there are too many. */
static int fits_point(double e) { return e == 0 || (fabs(e) >= 1e-4 && fabs(e) < 1e12); }

/* An energy with all of its digits, for a column 23 wide. */
const char *kl_report_column(double e, char buf[40])
{
    snprintf(buf, 40, fits_point(e) ? "%.14f" : "%.15e", e);
    return buf;
}

/* An energy to one digit beyond its error, 15 significant ones at most. */
const char *kl_report_energy(double e, double error, char buf[40])
{
    const int whole = fabs(e) >= 1 ? (int)floor(log10(fabs(e))) + 1 : 1;
    int digits = 15 - whole;
    if (error > 0 && isfinite(error)) {
        const int useful = (int)ceil(-log10(error)) + 1;
        if (useful < digits) digits = useful;
    }
    if (!fits_point(e)) {
        const double beyond = error > 0 ? log10(fabs(e)) - log10(error) + 1 : 14;
        snprintf(buf, 40, "%.*e", beyond < 1 ? 1 : beyond < 14 ? (int)beyond : 14, e);
        return buf;
    }
    snprintf(buf, 40, "%.*f", digits < 1 ? 1 : digits, e);
    return buf;
}

const char *kl_report_stop(kl_dmrg_stop stop)
{
    switch (stop) {
    case KL_STOP_CONVERGED: return "the wanted accuracy is reached";
    case KL_STOP_SCHEDULE: return "the schedule is done";
    case KL_STOP_MAX_SWEEP: return "the largest number of sweeps is done";
    case KL_STOP_M_MAX: return "the largest m is reached";
    case KL_STOP_DISCARD: return "what --discard leaves out keeps m where it is";
    case KL_STOP_INTERRUPTED: return "interrupted";
    }
    return "unknown";
}

/* ---------------------------------------------------------------- a result as text */

static void print_params(FILE *to, const kl_result *r)
{
    for (int i = 0; i < r->nparam; i++) {
        const kl_result_param *p = &r->param[i];
        const int64_t n = kl_result_param_count(p);
        if (kl_result_param_even(p)) fprintf(to, " %s=%.10g", p->name, kl_result_param_at(p, 0));
        else if (n == 0) fprintf(to, " %s=()", p->name);
        else {
            double least = kl_result_param_at(p, 0), most = least;
            for (int64_t k = 1; k < n; k++) {
                least = fmin(least, kl_result_param_at(p, k));
                most = fmax(most, kl_result_param_at(p, k));
            }
            fprintf(to, " %s=(%lld values, %.4g to %.4g)", p->name, (long long)n, least, most);
        }
    }
}

static void print_head(FILE *to, const kl_result *r)
{
    char charges[512];
    fprintf(to, "%s%s%s%s   %s\n", r->model, r->variant[0] != '\0' ? "(" : "", r->variant,
            r->variant[0] != '\0' ? ")" : "", r->formula);
    if (strcmp(r->model, "molecule") == 0) fprintf(to, "orbitals     %d of %s\n", r->nsite, r->lattice);
    else fprintf(to, "lattice      %s, %d sites\n", r->lattice, r->nsite);
    if (r->nparam > 0) {
        fprintf(to, "parameters  ");
        print_params(to, r);
        fputc('\n', to);
    }
    if (r->ncharge > 0)
        fprintf(to, "charges      %s\n", kl_result_print_charges(r, charges, sizeof(charges)));
}

static void print_sweeps(FILE *to, const kl_dmrg_result *d)
{
    int halves = 0, multiplets = 0; /* m counts them, and their states are told too */
    for (int i = 0; i < d->nrow; i++) multiplets |= d->row[i].states > d->row[i].m_reached;
    fprintf(to, "\nsweep      m%s    noise %23s     change  discarded  products   largest H  seconds\n",
            multiplets ? "  states" : "", "energy");
    for (int i = 0; i < d->nrow; i++) {
        const kl_dmrg_row *r = &d->row[i];
        char noise[16], change[16], energy[40], states[32] = "";
        if (multiplets) snprintf(states, sizeof(states), " %7lld", (long long)r->states);
        snprintf(noise, sizeof(noise), r->noise > 0 ? "%.0e" : "-", r->noise);
        snprintf(change, sizeof(change), isfinite(r->change) ? "%.2e" : "-", r->change);
        fprintf(to, "%5d %6d%s %8s %23s %10s %10.2e %9lld %11lld %8.2f\n", i + 1, r->m_reached, states, noise,
                kl_report_column(r->energy[0], energy), change, r->discarded, (long long)r->napply,
                (long long)r->dim_max, r->seconds);
        halves += kl_is_folded(r->folded);
    }
    if (halves > 0)
        fprintf(to, "%d of these sweeps went over half of the lattice, of which the other half is the image\n",
                halves);
}

/* What is known of the states that were not asked for; begin: of the line. */
static void print_next(FILE *to, const kl_dmrg_result *d, const char *begin)
{
    if (d->unresolved > 0)
        fprintf(to,
                "%sanother lies within %.1e and is not told apart: what is kept may be a mixture; --states "
                "%d tells\n",
                begin, d->unresolved, d->nstate + 1);
    else if (isfinite(d->gap))
        fprintf(to, "%sthe next one seen in this sector lies about %.2g above%s\n", begin, d->gap,
                d->nstate > 1 ? " these" : "");
    else fprintf(to, "%swhether another lies as low, --states %d tells\n", begin, d->nstate + 1);
}

static void print_energies(FILE *to, const kl_result *r)
{
    const kl_dmrg_result *const d = &r->dmrg;
    const int components = kl_result_components(r);
    char e[40], one[64] = "states       1; ";
    const double scale = d->energy[0] != 0 ? fabs(d->energy[0]) : 1;
    fprintf(to, "\nenergy       %s  ", kl_report_energy(d->energy[0], d->error_estimate, e));
    if (isfinite(d->error_estimate)) fprintf(to, "+- %.1e", d->error_estimate);
    else if (d->wait == KL_WAIT_TRIAL)
        fprintf(to, "without an error bar: the other sweeps that were to tell it were interrupted");
    else
        fprintf(to, "without an error bar, which takes two sweeps without noise (of a molecule, after "
                    "sweeps with noise)");
    /* a bar larger than the energy is no relative error */
    if (d->error_estimate < fabs(d->energy[0]))
        fprintf(to, "  (relative %.1e)", d->error_estimate / fabs(d->energy[0]));
    fprintf(to, "\n");
    const kl_dmrg_row *const last = &d->row[d->nrow - 1];
    fprintf(to, "extrapolated %s  ", kl_report_energy(d->energy_extrapolated, d->error_estimate, e));
    if (last->sites != 1) fprintf(to, "to zero discarded weight (%.1e in the last sweep)\n", d->discarded);
    else
        fprintf(to, "to zero two-site variance (%.1e in the last sweep, one site at a time)\n",
                last->variance * last->unit * last->unit);
    const double above = d->energy_kept[0] - d->energy[0];
    if (fabs(above) > 1e-14 * scale)
        fprintf(to,
                "kept state   %s  %.1e %s: the energy of a sweep is its lowest, near the middle; the state "
                "is that of its end\n",
                kl_report_energy(d->energy_kept[0], fabs(above), e), fabs(above),
                above > 0 ? "above" : "below");
    if (d->distance > 0 && d->distance < 1)
        fprintf(to,
                "state        within about %.0e of the exact one: what is measured on it is good to twice "
                "that times the operator's norm at worst\n",
                d->distance);
    if (d->strings > 1)
        fprintf(to,
                "sectors      H keeps %d%s products of signs or flips of sites that no charge tells: a state "
                "of other values may lie lower than what trials met\n",
                d->strings, d->strings == KL_MOST_STRINGS ? " or more" : "");
    if (components > 1) snprintf(one, sizeof one, "states       1 multiplet of %d states; ", components);
    if (d->nstate == 1) {
        print_next(to, d, one);
        return;
    }
    if (components > 1) fprintf(to, "states       %d multiplets of %d states each\n", d->nstate, components);
    for (int k = 1; k < d->nstate; k++)
        fprintf(to, "state %-6d %s  %.6e above the lowest\n", k,
                kl_report_energy(d->energy[k], d->error_estimate, e), d->energy[k] - d->energy[0]);
    if (isfinite(d->gap) || d->unresolved > 0) print_next(to, d, "beyond       ");
    const int n = kl_dmrgrun_manifold(d);
    if (n == d->nstate)
        fprintf(to,
                "manifold     all %d states lie within the error of each other, and there may be more: ask "
                "for more states\n",
                n);
    else if (n > 1)
        fprintf(
            to,
            "manifold     the lowest %d states lie within the error of each other: a manifold, not a state\n",
            n);
}

static void print_stop(FILE *to, const kl_result *r)
{
    const int converged = kl_dmrgrun_converged(&r->dmrg), energy = kl_dmrgrun_energy_converged(&r->dmrg);
    const int settled = r->dmrg.wait == KL_WAIT_SPIN ||
                        (r->dmrg.wait == KL_WAIT_SECTORS && r->dmrg.stop == KL_STOP_CONVERGED);
    const char *why = settled ? "sweeps have settled" : kl_report_stop(r->dmrg.stop);
    /* nobody may want so little */
    if (energy && r->dmrg.error_estimate > 0.01 * fabs(r->dmrg.energy[0]))
        why = "as far as rounding allows, the energy being small next to the terms of H";
    if (!r->finished)
        fprintf(to, "stopped      a checkpoint after %d sweeps%s; go on from it with --resume\n",
                r->sweep_done, r->dmrg.nrow > r->sweep_done ? " and a part of the next" : "");
    else if (converged) fprintf(to, "stopped      converged: %s\n", why);
    else if (energy)
        fprintf(to,
                "stopped      the energy has converged: %s; the state has not: it is not told apart from "
                "another\n",
                why);
    else if (r->dmrg.stop == KL_STOP_SCHEDULE && r->dmrg.wait != KL_WAIT_SECTORS)
        fprintf(to, "stopped      %s%s\n", why,
                isfinite(r->dmrg.error_estimate) ? "; the error above says what it was enough for" : "");
    else if (r->dmrg.wait == KL_WAIT_NOTHING) fprintf(to, "stopped      NOT CONVERGED: %s\n", why);
    else
        fprintf(to, "stopped      NOT CONVERGED: %s; the accuracy waits for %s\n", why,
                kl_dmrg_wait_text[r->dmrg.wait]);
}

const char *kl_report_ranks(char out[KL_REPORT_RANKS])
{
    const kl_comm *const c = kl_comm_world();
    out[0] = '\0';
    if (c != NULL) snprintf(out, KL_REPORT_RANKS, "%d ranks, the first: ", c->size);
    return out;
}

/* Ranks that had nothing to do, where there are some. */
static void print_idle(FILE *to)
{
    const kl_comm *const c = kl_comm_world();
    if (c == NULL || c->most_busy == c->size) return;
    if (c->most_busy == 0)
        fprintf(to, "ranks        no product was worth dividing: each rank made all of them\n");
    else
        fprintf(to, "ranks        %d of %d had a part of any product: there was no more to share\n",
                c->most_busy, c->size);
}

/* What lies inside parts, where it is a hundredth; and how long the ranks waited for each other. */
static void print_inside(FILE *to, const kl_dmrg_result *d)
{
    enum { EACH = 8 }; /* ranks that are told one by one */
    const kl_comm *const c = kl_comm_world();
    const char *mark = "\ninside       ";
    for (int i = 0; i < KL_PROF_WAIT; i++) {
        if (d->inside.seconds[i] < 0.01 * d->seconds) continue;
        fprintf(to, "%s%s %.0f %%", mark, kl_prof_name[i], 100 * d->inside.seconds[i] / d->seconds);
        mark = ", ";
    }
    if (c == NULL || c->nsecond != KL_NPART + KL_NPROF + 1) return;
    fprintf(to, "\nwaiting      for other ranks:");
    for (int r = 0; r < c->size && r < EACH; r++) {
        const double *const t = c->seconds + (int64_t)r * c->nsecond;
        fprintf(to, "%s rank %d %.0f %%", r > 0 ? "," : "", r,
                100 * t[KL_NPART + KL_PROF_WAIT] / t[c->nsecond - 1]);
    }
    fprintf(to, c->size > EACH ? ", ..." : "");
}

/* Of a run that was to keep to so many bytes: what the whole process took. */
static void print_limit(FILE *to, double allowed)
{
    const double rounding = 1.02, process = (double)kl_mem_process_peak_bytes();
    char a[32], b[32];
    if (!(allowed > 0) || process == 0) return;
    fprintf(to, "; the whole process %s of %s allowed", kl_report_bytes(process, a),
            kl_report_bytes(allowed, b));
    if (process > rounding * allowed)
        fprintf(to, ": MORE THAN --host-memory, for a bond at work needs it; fewer states take less");
}

static void print_costs(FILE *to, const kl_dmrg_result *d, const kl_run_facts *facts)
{
    char a[32], b[32], ranks[KL_REPORT_RANKS];
    fprintf(to, "time         %s", kl_report_time(d->seconds, a));
    const char *mark = ":";
    for (int i = 0; i < KL_NPART && d->seconds > 0; i++) {
        if (d->seconds_part[i] < 0.01 * d->seconds) continue;
        fprintf(to, "%s %s %.0f %%", mark, kl_part_name[i], 100 * d->seconds_part[i] / d->seconds);
        mark = ",";
    }
    if (d->seconds > 0) print_inside(to, d);
    fprintf(to, "\nwork         %lld products with H, %s%s%s/s; largest H %lld\n", (long long)d->napply,
            kl_report_flop(d->flop, a), d->seconds > 0 ? ", " : "",
            d->seconds > 0 ? kl_report_flop(d->flop / d->seconds, b) : "", (long long)d->dim_max);
    if (facts == NULL) return;
    fprintf(to, "memory peak  %s", kl_report_bytes((double)kl_mem_total_peak_bytes(), a));
    int first = 1;
    for (int k = 0; k < KL_MEM_NKIND; k++) {
        const int64_t peak = kl_mem_peak_bytes((kl_mem_kind)k);
        if (peak * 50 < kl_mem_total_peak_bytes()) continue;
        fprintf(to, "%s %s %s", first ? ":" : ",", kl_mem_kind_name((kl_mem_kind)k),
                kl_report_bytes((double)peak, a));
        first = 0;
    }
    print_limit(to, facts->host_memory);
    if (kl_mem_device_peak_bytes() > 0)
        fprintf(to, "; on the device %s, of which %s were in use at a time",
                kl_report_bytes((double)kl_mem_device_peak_bytes(), a),
                kl_report_bytes((double)kl_mem_device_used_bytes(), b));
    fprintf(to, "\nmachine      %s%s, %d thread%s\n", kl_report_ranks(ranks), facts->exec, facts->nthread,
            facts->nthread == 1 ? "" : "s");
    print_idle(to);
}

/* What rounds to -0 is 0. */
static double without_sign(double x, double least) { return fabs(x) < least ? 0 : x; }

void kl_report_measured(FILE *to, const kl_measured *m, int nsite)
{
    enum {
        PER_LINE = 8,
        MOST = 64,
    };
    int64_t n = 1;
    int whole = m->rank == 2 || strncmp(m->name, "molecule/", 9) == 0; /* states of orbitals, say */
    for (int k = 0; k < m->rank; k++) n *= m->shape[k];
    for (int64_t i = 0; i < n; i++) whole &= m->data[i] == nearbyint(m->data[i]) && fabs(m->data[i]) < 1000;
    if (m->rank == 0 && m->note != NULL && strncmp(m->note, "note: ", 6) == 0) { /* of labels of irreps */
        fprintf(to, "\n%s\n", m->note);
        return;
    }
    fprintf(to, "\n%s%s%s\n", m->name, m->note != NULL ? ": " : "", m->note != NULL ? m->note : "");
    if (m->rank == 0) fprintf(to, "  %.12g\n", m->data[0]);
    else if (m->rank == 1) {
        const int64_t shown = n <= MOST || n <= nsite ? n : MOST;
        for (int64_t i = 0; i < shown; i++)
            fprintf(to, "%s%*.*f%s", i % PER_LINE == 0 ? "  " : " ", whole ? 4 : 13, whole ? 0 : 8,
                    without_sign(m->data[i], 5e-9),
                    i % PER_LINE == PER_LINE - 1 || i == shown - 1 ? "\n" : "");
        if (shown < n) fprintf(to, "  ... %lld more in the result file\n", (long long)(n - shown));
    } else if (m->rank == 2 && m->shape[0] <= 16 && m->shape[1] <= 16) {
        for (int64_t i = 0; i < m->shape[0]; i++) {
            fprintf(to, " ");
            for (int64_t j = 0; j < m->shape[1]; j++)
                fprintf(to, whole ? " %4.0f" : " %9.5f", without_sign(m->data[i * m->shape[1] + j], 5e-6));
            fputc('\n', to);
        }
    } else {
        fprintf(to, "  ");
        for (int k = 0; k < m->rank; k++) fprintf(to, "%s%lld", k > 0 ? " x " : "", (long long)m->shape[k]);
        fprintf(to, " numbers, in the result file and in --json\n");
    }
}

void kl_report_cutoff(FILE *to, const kl_result *r)
{
    double weight;
    int site;
    if (!kl_request_cutoff(r, &weight, &site)) return;
    fprintf(to, "cut-off      the highest occupation has a weight of %.1e at most (site %d)\n", weight, site);
    if (weight > KL_CUTOFF_SMALL)
        fprintf(to,
                "WARNING      that is more than %.0e: the energy is one of this cut-off; raise it (-p "
                "n_max=...) to see what it costs\n",
                KL_CUTOFF_SMALL);
}

static void print_entropy(FILE *to, const kl_result *r)
{
    if (r->dmrg.entropy == NULL || r->nsite < 2) return;
    int largest = 0;
    for (int c = 0; c < r->nsite - 1; c++)
        if (isnan(r->dmrg.entropy[c])) return; /* the run was interrupted where they were not needed */
        else if (r->dmrg.entropy[c] > r->dmrg.entropy[largest]) largest = c;
    fprintf(to, "entropy      %.6f at the middle cut, largest %.6f at cut %d%s\n",
            r->dmrg.entropy[(r->nsite - 1) / 2], r->dmrg.entropy[largest], largest,
            kl_result_components(r) > 1 ? "; of the right part, in the equal mixture of all Sz" : "");
}

void kl_report_head_of(FILE *to, const kl_result *r, const kl_run_facts *facts)
{
    fprintf(to, "kronlat %s   ", r->program);
    print_head(to, r);
    if (facts == NULL && r->command_line[0] != '\0')
        fprintf(to, "asked        kronlat %s\n", r->command_line);
}

void kl_report_result(FILE *to, const kl_result *r, const kl_run_facts *facts)
{
    const kl_dmrg_result *d = &r->dmrg;
    kl_report_head_of(to, r, facts);
    if (d->nrow > 0) print_sweeps(to, d);
    if (r->finished) print_energies(to, r);
    else fputc('\n', to);
    print_stop(to, r);
    if (r->finished) {
        print_entropy(to, r);
        kl_report_cutoff(to, r);
        print_costs(to, d, facts);
    }
    if (facts != NULL && facts->output != NULL) fprintf(to, "result       %s\n", facts->output);
    for (int i = 0; i < r->nmeasured; i++) kl_report_measured(to, &r->measured[i], r->nsite);
}

/* An entry of the list of all states: by energy, then by sector. */
typedef struct level {
    double energy;
    int sector, k;
    const char *name;
} level;

static int is_below(const level *a, const level *b)
{
    if (a->energy != b->energy) return a->energy < b->energy;
    return a->sector != b->sector ? a->sector < b->sector : a->k < b->k;
}

/* The state behind *at; at->sector -1: the first. Returns 0 where there is none. */
static int next_level(const kl_report_sectors *s, level *at)
{
    level best = {.sector = -1};
    for (int i = 0; i < s->n; i++) {
        const double *energy;
        const char *name;
        const int n = s->states(s->item, i, &energy, &name);
        for (int k = 0; k < n; k++) {
            const level one = {energy[k], i, k, name};
            if (at->sector >= 0 && !is_below(at, &one)) continue;
            if (best.sector < 0 || is_below(&one, &best)) best = one;
        }
    }
    if (best.sector >= 0) *at = best;
    return best.sector >= 0;
}

static int most_states(const kl_report_sectors *s)
{
    int most = 0;
    for (int i = 0; i < s->n; i++) {
        const double *energy;
        const char *name;
        const int n = s->states(s->item, i, &energy, &name);
        if (n > most) most = n;
    }
    return most;
}

void kl_report_levels_text(FILE *to, const kl_report_sectors *s)
{
    char energy[40];
    const int most = most_states(s);
    level at = {.sector = -1};
    if (most < 2) return;
    fprintf(to, "the lowest of all sectors\n");
    for (int k = 0; k < most && next_level(s, &at); k++)
        fprintf(to, "  %-6d %23s  %s\n", k, kl_report_column(at.energy, energy), at.name);
}

void kl_report_levels_json(kl_json *j, const kl_report_sectors *s)
{
    const int most = most_states(s);
    level at = {.sector = -1};
    if (next_level(s, &at)) kl_json_real(j, "energy", at.energy);
    kl_json_open(j, "energies", '[');
    at.sector = -1;
    for (int k = 0; k < most && next_level(s, &at); k++) kl_json_real(j, NULL, at.energy);
    kl_json_close(j, ']');
    kl_json_open(j, "sectors", '[');
    at.sector = -1;
    for (int k = 0; k < most && next_level(s, &at); k++) kl_json_text(j, NULL, at.name);
    kl_json_close(j, ']');
}

static int states_of_item(const void *item, int i, const double **energy, const char **name)
{
    const kl_report_item *const one = (const kl_report_item *)item + i;
    *energy = one->energy;
    *name = one->label;
    return one->nstate;
}

kl_report_sectors kl_report_sectors_of(int n, const kl_report_item *item)
{
    return (kl_report_sectors){n, item, states_of_item};
}

int kl_report_lowest(int n, const kl_report_item *item)
{
    int low = 0;
    for (int i = 1; i < n; i++)
        if (item[i].energy[0] < item[low].energy[0]) low = i;
    return low;
}

/* 1: its lowest state is not told apart from that of item low. */
static int is_as_low(const kl_report_item *item, int low, int i)
{
    return i != low &&
           item[i].energy[0] - item[low].energy[0] <= fmax(item[i].error_estimate + item[low].error_estimate,
                                                           64 * DBL_EPSILON * fabs(item[low].energy[0]));
}

/* Of the column of a measured value. */
static int value_width(const char *name)
{
    const int n = (int)strlen(name);
    return n > 14 ? n : 14;
}

static void print_table_head(FILE *to, const char *title, int width, const kl_report_item *first)
{
    fprintf(to, "%s\n%-*s %23s      error", title, width, "", "energy");
    if (first == NULL || !first->exact) fprintf(to, "  discarded      m");
    for (int k = 0; first != NULL && k < first->nvalue; k++)
        fprintf(to, " %*s", value_width(first->name[k]), first->name[k]);
    fputc('\n', to);
}

int kl_report_cut_rows(int n, const kl_report_item *item, char *text, size_t size)
{
    int many = 0, worst = 0;
    for (int i = 0; i < n; i++) {
        if (!item[i].cut || item[i].cut_weight <= KL_CUTOFF_SMALL) continue;
        if (many++ == 0 || item[i].cut_weight > item[worst].cut_weight) worst = i;
    }
    if (many == 0) return 0;
    snprintf(text, size,
             "the highest occupation has a weight of more than %.0e in %d of %d runs, %.1e at most (%s, site "
             "%d): these energies are of this cut-off; raise it (-p n_max=...) to see what it costs",
             KL_CUTOFF_SMALL, many, n, item[worst].cut_weight, item[worst].label, item[worst].cut_site);
    return 1;
}

static void print_cut_rows(FILE *to, int n, const kl_report_item *item)
{
    char text[480];
    if (kl_report_cut_rows(n, item, text, sizeof text)) fprintf(to, "WARNING  %s\n", text);
}

void kl_report_table(FILE *to, const char *title, int n, const kl_report_item *item, int levels)
{
    int width = 8;
    for (int i = 0; i < n; i++)
        if ((int)strlen(item[i].label) > width) width = (int)strlen(item[i].label);
    print_table_head(to, title, width, n > 0 ? &item[0] : NULL);
    const int low = n > 0 ? kl_report_lowest(n, item) : -1;
    for (int i = 0; i < n; i++) {
        const int done = item[i].energy_converged || item[i].stop == KL_STOP_SCHEDULE;
        char energy[40];
        fprintf(to, "%-*s %23s %10.1e", width, item[i].label, kl_report_column(item[i].energy[0], energy),
                item[i].error_estimate);
        if (!item[i].exact) fprintf(to, " %10.1e %6d", item[i].discarded, item[i].m);
        for (int k = 0; k < item[i].nvalue; k++)
            fprintf(to, " %*.9f", value_width(item[i].name[k]),
                    fabs(item[i].value[k]) < 5e-10 ? 0 : item[i].value[k]); /* no -0.000000000 */
        fprintf(to, "%s%s%s%s\n",
                item[i].lowest == 1                      ? "  <- lowest"
                : levels && is_as_low(item, low, i) != 0 ? "  as low"
                                                         : "",
                !done                                            ? "  NOT CONVERGED"
                : item[i].energy_converged && !item[i].converged ? "  NOT TOLD APART"
                                                                 : "",
                item[i].output[0] != '\0' ? "  " : "", item[i].output);
        for (int k = 1; k < item[i].nstate; k++)
            fprintf(to, "%-*s %23s\n", width, "", kl_report_column(item[i].energy[k], energy));
    }
    print_cut_rows(to, n, item);
    if (!levels) return;
    int as_low = 0;
    for (int i = 0; i < n; i++) as_low += is_as_low(item, low, i);
    if (n > 0) {
        const kl_report_sectors all = kl_report_sectors_of(n, item);
        kl_report_levels_text(to, &all);
    }
    if (as_low > 0)
        fprintf(to, "%d other sector%s within the error of the lowest: a manifold, not a state\n", as_low,
                as_low == 1 ? " lies" : "s lie");
}

void kl_report_streamed(FILE *to, const kl_exec *ex, double seconds, double products)
{
    const kl_streamed_facts *const f = kl_streamed_about(ex);
    char a[32];
    if (!f) return;
    fprintf(to, "beyond       %s on the host",
            f->far ? "vectors wait" : "what the device has no room for of the matrix waits");
    if (f->npiece > 0)
        fprintf(to, "; %s cross the bus in a product, in %d pieces, %.3g s by the rates of the start",
                kl_report_bytes(kl_streamed_bytes(f), a), f->npiece, kl_streamed_seconds(f, 0));
    if (f->npiece > 0 && f->work > 0)
        fprintf(to, "; copies alone take %.3g s, products alone %.3g s", f->copies, f->work);
    if (f->npiece > 0 && products > 0 && seconds > f->measuring)
        fprintf(to, "; it took %.3g s", (seconds - f->measuring) / products);
    fprintf(to, "\n");
}
