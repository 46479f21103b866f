/* Reports of exact diagonalization. Computes nothing that a result does not hold.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/edreport.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "config.h"
#include "base/mem.h"
#include "run/edspin.h"
#include "run/request.h"

static const kl_measured *find(const kl_result *r, const char *name)
{
    for (int i = 0; i < r->nmeasured; i++)
        if (strcmp(r->measured[i].name, name) == 0) return &r->measured[i];
    return NULL;
}

/* What the arithmetic can reach is all there is. */
static int is_converged(int stop) { return stop == KL_ED_CONVERGED || stop == KL_ED_STAGNATED; }

/* ---------------------------------------------------------------- text */

static const char *stop_text(int stop)
{
    static const char *const text[] = {
        "converged", "stagnated: this is what the arithmetic can reach",
        "NOT CONVERGED: --max-products reached", "interrupted",
        "NOT CONVERGED: the solver came to a stand; --solver davidson may go further"};
    return stop >= 0 && stop < 5 ? text[stop] : "unknown"; /* ORDER kl_ed_stop */
}

static const char *solver_text(double s)
{
    return s >= 0.0 && s <= (double)(int)KL_ED_FULL ? kl_ed_solver_name[(int)s] : "unknown";
}

static void print_states(FILE *to, const kl_result *r, const double *run)
{
    const kl_dmrg_result *const d = &r->dmrg;
    const double *const residual = kl_edresult_list(r, "ed/residual", d->nstate),
                        *const error = kl_edresult_list(r, "ed/error", d->nstate),
                        *const degeneracy = kl_edresult_list(r, "ed/degeneracy", d->nstate),
                        *const s2 = kl_edresult_list(r, "ed/s2", d->nstate);
    char spin[16];
    for (int k = 0; k < d->nstate && residual && error && degeneracy; k++) {
        fprintf(to, "%s%-*d %.14g", k == 0 ? "energy " : "state  ", 5, k, d->energy[k]);
        if (k > 0) fprintf(to, "  %.6e above the lowest", d->energy[k] - d->energy[0]);
        fprintf(to, "  +- %.0e  residual %.1e", fmax(error[k], run[KL_EDRUN_ATTAINABLE]), residual[k]);
        if (s2 && kl_edspin_text(s2[k], spin)) fprintf(to, "  S=%s", spin);
        else if (s2) fprintf(to, "  <S^2>=%.6f", s2[k]);
        if (degeneracy[k] > 1)
            fprintf(to, "  one of %s%.0f that agree",
                    run[KL_EDRUN_OPEN] != 0.0 && k + degeneracy[k] >= d->nstate ? "at least " : "",
                    degeneracy[k]);
        fputc('\n', to);
    }
    if (degeneracy && degeneracy[0] == 0.0)
        fprintf(to, "degeneracy   not looked at by one Lanczos vector; --states 2 tells\n");
    kl_report_cutoff(to, r);
    fprintf(to, "attainable   errors below %.0e mean nothing at this size of H\n", run[KL_EDRUN_ATTAINABLE]);
}

/* Energies of all states: a few by themselves, many by their ends. */
static void print_spectrum(FILE *to, const kl_measured *m, double attainable)
{
    enum {
        FEW = 70,
        LINE = 5,
    };
    const int64_t n = m->shape[0];
    fprintf(to, "spectrum     all %lld energies, from %.12g to %.12g%s\n", (long long)n, m->data[0],
            m->data[n - 1], n > FEW ? "; each is in --json and the result file" : "");
    for (int64_t i = 0; n <= FEW && i < n; i++)
        fprintf(to, "%s%17.12g%s", i % LINE == 0 ? "          " : "  ",
                fabs(m->data[i]) < attainable ? 0.0 : m->data[i],
                i % LINE == LINE - 1 || i + 1 == n ? "\n" : "");
}

/* Curves: every row of a short one, some of a long one. */
static void print_curve(FILE *to, const kl_measured *m)
{
    enum { SHORT = 64 };
    const int64_t n = m->shape[0], every = n <= SHORT ? 1 : (n + SHORT - 1) / SHORT;
    fprintf(to, "\n%s: %s\n", m->name, m->note != NULL ? m->note : "");
    for (int64_t i = 0; i < n; i += every)
        fprintf(to, "  %14.8g %16.9e\n", m->data[2 * i], m->data[2 * i + 1]);
    if (every > 1)
        fprintf(to, "  (one of every %lld of %lld; all are in --json and the result file)\n",
                (long long)every, (long long)n);
}

static int is_pairs(const kl_measured *m, const char *prefix)
{
    return strncmp(m->name, prefix, strlen(prefix)) == 0 && m->rank == 2 && m->shape[1] == 2;
}

static void print_thermal(FILE *to, const kl_result *r)
{
    const kl_measured *const t = find(r, "thermal/temperature");
    if (t == NULL || t->rank != 1) return;
    const kl_measured *column[3 + KL_MAX_CHI];
    int n = 0;
    for (int i = 0; i < r->nmeasured && n < 3 + KL_MAX_CHI; i++)
        if (is_pairs(&r->measured[i], "thermal/") && r->measured[i].shape[0] == t->shape[0])
            column[n++] = &r->measured[i];
    fprintf(to, "sectors      %s\n\n%11s", t->note != NULL ? t->note : "", "T");
    for (int c = 0; c < n; c++) fprintf(to, " %17s     +-  ", column[c]->name + strlen("thermal/"));
    fputc('\n', to);
    for (int64_t i = 0; i < t->shape[0]; i++) {
        fprintf(to, "%11.6g", t->data[i]);
        for (int c = 0; c < n; c++) {
            char error[16];
            snprintf(error, sizeof(error), isfinite(column[c]->data[2 * i + 1]) ? "%.1e" : "-",
                     column[c]->data[2 * i + 1]);
            fprintf(to, " %17.10g %7s", column[c]->data[2 * i], error);
        }
        fputc('\n', to);
    }
}

void kl_edreport_text(FILE *to, const kl_result *r, const kl_run_facts *facts)
{
    char ranks[KL_REPORT_RANKS];
    char a[32], b[32];
    const double *const run = kl_edresult_list(r, "ed/run", KL_NEDRUN);
    kl_report_head_of(to, r, facts);
    print_thermal(to, r);
    if (run != NULL) {
        fprintf(to,
                "sector       %.15g states, halves are %s (%.15g and %.15g states); %s a vector, tables %s",
                run[KL_EDRUN_DIM], run[KL_EDRUN_FLAVOURS] != 0.0 ? "the two flavours" : "sites",
                run[KL_EDRUN_LEFT], run[KL_EDRUN_RIGHT], kl_report_bytes(8.0 * run[KL_EDRUN_LENGTH], a),
                kl_report_bytes(run[KL_EDRUN_TABLES], b));
        if (run[KL_EDRUN_MATRIX] > 0.0)
            fprintf(to, ", stored matrix %s", kl_report_bytes(run[KL_EDRUN_MATRIX], a));
        if (r->finished) fprintf(to, "; %.0f vectors held\n", run[KL_EDRUN_NVECTOR]);
        else fputc('\n', to);
    }
    const double *const so_far = kl_edresult_list(r, "ed/so_far", 3);
    if (so_far != NULL)
        fprintf(to, "so far       %.0f products with H, energy %.14g, residual %.1e\n", so_far[0], so_far[1],
                so_far[2]);
    if (run != NULL && !r->finished) fprintf(to, "stop         a checkpoint; go on from it with --resume\n");
    if (run != NULL && r->finished) {
        print_states(to, r, run);
        const kl_measured *const all = find(r, "ed/spectrum");
        if (all != NULL && all->shape[0] > 0) print_spectrum(to, all, run[KL_EDRUN_ATTAINABLE]);
        fprintf(to, "stop         %s\n", stop_text((int)run[KL_EDRUN_STOP]));
        if ((int)run[KL_EDRUN_SOLVER] == KL_ED_FULL)
            fprintf(to, "work         all states by LAPACK, %.3g s; made ready in %.2g s\n",
                    run[KL_EDRUN_SECONDS], run[KL_EDRUN_SECONDS_BUILD]);
        else
            fprintf(to,
                    "work         %s, %.0f products with H, %.3g s (%.3g s in them: %.3g million states a "
                    "second), %.0f restarts; made ready in %.2g s\n",
                    solver_text(run[KL_EDRUN_SOLVER]), run[KL_EDRUN_NAPPLY], run[KL_EDRUN_SECONDS],
                    run[KL_EDRUN_SECONDS_PRODUCTS],
                    run[KL_EDRUN_SECONDS_PRODUCTS] > 0
                        ? 1e-6 * run[KL_EDRUN_NAPPLY] * run[KL_EDRUN_DIM] / run[KL_EDRUN_SECONDS_PRODUCTS]
                        : 0.0,
                    run[KL_EDRUN_NRESTART], run[KL_EDRUN_SECONDS_BUILD]);
    }
    if (facts != NULL)
        fprintf(to, "machine      %s%s, %d thread%s; memory peak %s; %.3g s in all\n", kl_report_ranks(ranks),
                facts->exec, facts->nthread, facts->nthread == 1 ? "" : "s",
                kl_report_bytes((double)kl_mem_total_peak_bytes(), a), facts->seconds);
    if (facts != NULL && facts->ran != NULL)
        kl_report_streamed(to, facts->ran, run != NULL ? run[KL_EDRUN_SECONDS_PRODUCTS] : 0,
                           run != NULL ? run[KL_EDRUN_NAPPLY] : 0);
    if (facts != NULL && facts->output != NULL) fprintf(to, "result       %s\n", facts->output);
    for (int i = 0; i < r->nmeasured; i++) {
        const kl_measured *const m = &r->measured[i];
        if (is_pairs(m, "spectral/")) print_curve(to, m);
        else if (strncmp(m->name, "ed/", 3) != 0 && strncmp(m->name, "thermal/", 8) != 0 &&
                 strncmp(m->name, "poles/", 6) != 0)
            kl_report_measured(to, m, r->nsite);
    }
}

static int states_of_item(const void *item, int i, const double **energy, const char **name)
{
    const kl_edreport_item *const one = (const kl_edreport_item *)item + i;
    *energy = one->found.energy;
    *name = one->label;
    return one->found.nstate;
}

double kl_edreport_error(const kl_edreport_item *item)
{
    return fmax(item->found.error[0], item->found.attainable);
}

static void json_item(kl_json *j, const kl_edreport_item *item)
{
    const kl_ed_result *const f = &item->found;
    kl_json_open(j, NULL, '{');
    kl_json_text(j, "label", item->label);
    kl_json_int(j, "dimension", f->dim);
    kl_json_real(j, "energy", f->energy[0]);
    kl_json_reals(j, "energies", f->nstate, f->energy);
    kl_json_real(j, "error_estimate", kl_edreport_error(item));
    kl_json_reals(j, "error", f->nstate, f->error);
    kl_json_bool(j, "converged", is_converged((int)f->stop));
    kl_json_text(j, "stop", stop_text((int)f->stop));
    kl_json_close(j, '}');
}

void kl_edreport_scan_json(kl_json *j, const kl_edreport_scan *scan)
{
    const kl_report_sectors all = {scan->n, scan->item, states_of_item};
    kl_json_open(j, "runs", '[');
    for (int i = 0; i < scan->n; i++) json_item(j, &scan->item[i]);
    kl_json_close(j, ']');
    kl_json_text(j, "lowest", scan->n > 0 ? scan->item[scan->lowest].label : NULL);
    if (scan->n > 0) kl_report_levels_json(j, &all);
    kl_gaptable_json(j, scan->gaps);
}

void kl_edreport_table(FILE *to, const char *title, const kl_edreport_scan *scan, int json)
{
    const int n = scan->n, lowest = scan->lowest;
    const kl_edreport_item *const item = scan->item;
    if (json) {
        kl_json j = kl_json_begin(to);
        kl_report_json_open(&j, KL_VERSION, "ed");
        kl_json_text(&j, "method", "ed");
        kl_json_text(&j, "title", title);
        kl_edreport_scan_json(&j, scan);
        kl_json_close(&j, '}');
        kl_json_end(&j);
        return;
    }
    int width = 8, equal = 0;
    for (int i = 0; i < n; i++)
        if ((int)strlen(item[i].label) > width) width = (int)strlen(item[i].label);
    fprintf(to, "%s\n%-*s %15s %20s    error\n", title, width, "", "states", "energy");
    for (int i = 0; i < n; i++) {
        const kl_ed_result *const f = &item[i].found;
        const double error = fmax(f->error[0], f->attainable), low = item[lowest].found.energy[0];
        const int same = i != lowest && f->energy[0] - low <= error + fmax(item[lowest].found.error[0],
                                                                           item[lowest].found.attainable);
        equal += same;
        fprintf(to, "%-*s %15lld %20.14g %8.0e%s%s\n", width, item[i].label, (long long)f->dim, f->energy[0],
                error,
                i == lowest ? "  <- lowest"
                : same      ? "  as low"
                            : "",
                !is_converged((int)f->stop) && f->stop != KL_ED_INTERRUPTED ? "  NOT CONVERGED" : "");
        for (int k = 1; k < f->nstate; k++)
            fprintf(to, "%-*s %15s %20.14g %8.0e\n", width, "", "", f->energy[k],
                    fmax(f->error[k], f->attainable));
    }
    if (n > 0) {
        const kl_report_sectors all = {n, item, states_of_item};
        kl_report_levels_text(to, &all);
    }
    if (equal > 0)
        fprintf(to, "%d other sector%s within the error of the lowest: a manifold, not a state\n", equal,
                equal == 1 ? " lies" : "s lie");
    kl_gaptable_print(to, scan->gaps);
}

/* ---------------------------------------------------------------- JSON */

void kl_edreport_json(FILE *to, const kl_result *r, const kl_run_facts *facts)
{
    const kl_dmrg_result *const d = &r->dmrg;
    const double *const run = kl_edresult_list(r, "ed/run", KL_NEDRUN);
    kl_json j = kl_json_begin(to);
    kl_report_json_head(&j, r, kl_report_command(facts, "ed"));
    kl_json_text(&j, "method", "ed");
    kl_json_bool(&j, "finished", r->finished);
    if (r->finished) {
        kl_json_real(&j, "energy", d->energy[0]);
        kl_json_reals(&j, "energies", d->nstate, d->energy);
        if (run != NULL) kl_json_real(&j, "error_estimate", d->error_estimate);
    }
    if (facts != NULL && facts->scan != NULL) {
        kl_json_open(&j, "scan", '{');
        kl_edreport_scan_json(&j, facts->scan);
        kl_json_close(&j, '}');
    }
    if (run != NULL && r->finished) {
        kl_json_real(&j, "attainable", run[KL_EDRUN_ATTAINABLE]);
        kl_json_bool(&j, "open_multiplet", run[KL_EDRUN_OPEN] != 0.0);
        kl_json_bool(&j, "converged", is_converged((int)run[KL_EDRUN_STOP]));
        kl_json_text(&j, "stop", stop_text((int)run[KL_EDRUN_STOP]));
        kl_json_text(&j, "solver", solver_text(run[KL_EDRUN_SOLVER]));
        kl_json_real(&j, "products", run[KL_EDRUN_NAPPLY]);
        kl_json_real(&j, "seconds", run[KL_EDRUN_SECONDS]);
        kl_json_real(&j, "seconds_products", run[KL_EDRUN_SECONDS_PRODUCTS]);
        kl_json_real(&j, "vectors", run[KL_EDRUN_NVECTOR]);
        double weight;
        int site;
        if (kl_request_cutoff(r, &weight, &site)) kl_report_json_cutoff(&j, weight, site);
    }
    if (run != NULL) {
        kl_json_real(&j, "dimension", run[KL_EDRUN_DIM]);
        kl_json_text(&j, "halves", run[KL_EDRUN_FLAVOURS] != 0.0 ? "flavours" : "sites");
        kl_json_real(&j, "vector_bytes", 8.0 * run[KL_EDRUN_LENGTH]);
        kl_json_real(&j, "table_bytes", run[KL_EDRUN_TABLES]);
        kl_json_real(&j, "matrix_bytes", run[KL_EDRUN_MATRIX]);
    }
    for (int i = 0; i < r->nmeasured; i++) /* "ed/residual" is told with the energies, under its own name */
        if (strncmp(r->measured[i].name, "ed/", 3) == 0 && strcmp(r->measured[i].name, "ed/run") != 0)
            kl_json_reals(&j, r->measured[i].name + 3, r->measured[i].shape[0], r->measured[i].data);
    kl_report_json_measured(&j, r, "ed/");
    kl_report_json_facts(&j, facts);
    kl_json_close(&j, '}');
    kl_json_end(&j);
}
