/* Results and tables of runs as JSON (docs/files.md). Numbers read back to the same bits.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/report.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/json.h"
#include "cli/reporttext.h"
#include "run/dmrgrun.h"
#include "run/request.h"
#include "comm/comm.h"
#include "config.h"
#include "dmrg/schedule.h"

/* Why the run ended. */
static const char *stop_word(kl_dmrg_stop stop, kl_dmrg_wait wait, int energy, int converged)
{
    switch (stop) {
    case KL_STOP_CONVERGED:
        return converged                 ? "converged"
               : energy                  ? "energy_converged"
               : wait == KL_WAIT_SECTORS ? "sectors_untried"
                                         : "mixed_spins";
    case KL_STOP_SCHEDULE: return "schedule";
    case KL_STOP_MAX_SWEEP: return "max_sweeps";
    case KL_STOP_M_MAX: return "m_max";
    case KL_STOP_DISCARD: return "discard";
    case KL_STOP_INTERRUPTED: return "interrupted";
    }
    return "unknown";
}

static void json_array(kl_json *j, const kl_measured *m, int level, int64_t *at)
{
    if (level == m->rank) {
        kl_json_real(j, NULL, m->data[(*at)++]);
        return;
    }
    assert(level < KL_H5_MAX_RANK);
    kl_json_open(j, NULL, '[');
    for (int64_t i = 0; i < m->shape[level]; i++) json_array(j, m, level + 1, at);
    kl_json_close(j, ']');
}

void kl_report_json_open(kl_json *j, const char *version, const char *command)
{
    kl_json_open(j, NULL, '{');
    kl_json_text(j, "program", "kronlat");
    kl_json_text(j, "version", version);
    kl_json_text(j, "command", command);
}

/* Values as they were given: one for all, or one for each site or bond that terms use. */
static void json_param(kl_json *j, const kl_result_param *p)
{
    if (kl_result_param_even(p)) {
        kl_json_real(j, p->name, kl_result_param_at(p, 0));
        return;
    }
    kl_json_open(j, p->name, '[');
    for (int64_t k = 0; k < kl_result_param_count(p); k++) kl_json_real(j, NULL, kl_result_param_at(p, k));
    kl_json_close(j, ']');
}

void kl_report_json_head(kl_json *j, const kl_result *r, const char *command)
{
    kl_report_json_open(j, r->program, command);
    kl_json_text(j, "command_line", r->command_line);
    kl_json_text(j, "model", r->model);
    kl_json_text(j, "variant", r->variant);
    kl_json_text(j, "formula", r->formula);
    kl_json_text(j, "lattice", r->lattice);
    kl_json_int(j, "sites", r->nsite);
    kl_json_open(j, "parameters", '{');
    for (int i = 0; i < r->nparam; i++) json_param(j, &r->param[i]);
    kl_json_close(j, '}');
    kl_json_open(j, "charges", '{');
    for (int c = 0; c < r->ncharge; c++)
        kl_json_real(j, r->charge[c].name,
                     (double)r->charge[c].value * r->charge[c].unit_num / r->charge[c].unit_den);
    kl_json_close(j, '}');
    kl_json_int(j, "seed", (int64_t)r->seed);
}

void kl_report_json_measured(kl_json *j, const kl_result *r, const char *without)
{
    kl_json_open(j, "measurements", '{');
    for (int i = 0; i < r->nmeasured; i++) {
        int64_t at = 0;
        const kl_measured *m = &r->measured[i];
        if (without != NULL && strncmp(m->name, without, strlen(without)) == 0) continue;
        kl_json_open(j, m->name, '{');
        kl_json_text(j, "note", m->note);
        if (m->rank == 0) kl_json_real(j, "value", m->data[0]);
        else {
            kl_json_open(j, "value", '[');
            for (int64_t k = 0; k < m->shape[0]; k++) json_array(j, m, 1, &at);
            kl_json_close(j, ']');
        }
        kl_json_close(j, '}');
    }
    kl_json_close(j, '}');
}

void kl_report_json_facts(kl_json *j, const kl_run_facts *facts)
{
    if (facts == NULL) return;
    kl_json_text(j, "exec", facts->exec);
    kl_json_int(j, "threads", facts->nthread);
    if (kl_comm_world() != NULL) kl_json_int(j, "ranks", kl_comm_world()->size);
    kl_json_text(j, "output", facts->output);
    kl_json_real(j, "seconds_total", facts->seconds);
    kl_json_open(j, "memory_peak_bytes", '{');
    kl_json_int(j, "total", kl_mem_total_peak_bytes());
    kl_json_int(j, "process", kl_mem_process_peak_bytes());
    kl_json_int(j, "device", kl_mem_device_peak_bytes());
    kl_json_int(j, "device_in_use", kl_mem_device_used_bytes());
    for (int k = 0; k < KL_MEM_NKIND; k++)
        kl_json_int(j, kl_mem_kind_name((kl_mem_kind)k), kl_mem_peak_bytes((kl_mem_kind)k));
    kl_json_close(j, '}');
}

const char *kl_report_command(const kl_run_facts *facts, const char *of_method)
{
    return facts == NULL ? "show" : facts->command != NULL ? facts->command : of_method;
}

/* What the parts of each rank took, as kl_dmrgrun_go told them. */
static void json_ranks(kl_json *j, const kl_comm *c)
{
    kl_json_int(j, "ranks_busy", c->most_busy);
    if (c->nsecond != KL_NPART + KL_NPROF + 1) return;
    kl_json_open(j, "seconds_of_ranks", '[');
    for (int r = 0; r < c->size; r++) {
        const double *const t = c->seconds + (int64_t)r * c->nsecond;
        kl_json_open(j, NULL, '{');
        for (int i = 0; i < KL_NPART; i++) kl_json_real(j, kl_part_name[i], t[i]);
        for (int i = 0; i < KL_NPROF; i++) kl_json_real(j, kl_prof_name[i], t[KL_NPART + i]);
        kl_json_close(j, '}');
    }
    kl_json_close(j, ']');
}

void kl_report_result_json(FILE *to, const kl_result *r, const kl_run_facts *facts)
{
    const kl_dmrg_result *d = &r->dmrg;
    const int converged = kl_dmrgrun_converged(d);
    kl_json j = kl_json_begin(to);
    kl_report_json_head(&j, r, kl_report_command(facts, "dmrg"));
    kl_json_text(&j, "method", "dmrg");
    kl_json_bool(&j, "finished", r->finished);
    kl_json_int(&j, "sweeps_done", r->sweep_done);
    if (r->finished) {
        kl_json_real(&j, "energy", d->energy[0]);
        kl_json_reals(&j, "energies", d->nstate, d->energy);
        kl_json_reals(&j, "energies_kept", d->nstate, d->energy_kept);
        kl_json_real(&j, "error_estimate", d->error_estimate);
        kl_json_real(&j, "energy_extrapolated", d->energy_extrapolated);
        kl_json_real(&j, "discarded", d->discarded);
        kl_json_bool(&j, "converged", converged);
        kl_json_bool(&j, "energy_converged", kl_dmrgrun_energy_converged(d));
        kl_json_text(&j, "stop", stop_word(d->stop, d->wait, kl_dmrgrun_energy_converged(d), converged));
        kl_json_text(&j, "waits_for", kl_dmrg_wait_text[d->wait]);
        kl_json_real(&j, "gap", d->gap);
        kl_json_real(&j, "unresolved", d->unresolved);
        kl_json_real(&j, "state_distance", d->distance);
        kl_json_int(&j, "hidden_strings", d->strings);
        kl_json_int(&j, "manifold", kl_dmrgrun_manifold(d));
        kl_json_int(&j, "states_of_a_level", kl_result_components(r));
        kl_json_int(&j, "products", d->napply);
        kl_json_real(&j, "flop", d->flop);
        kl_json_int(&j, "dim_max", d->dim_max);
        kl_json_real(&j, "seconds", d->seconds);
        kl_json_open(&j, "seconds_by_part", '{');
        for (int i = 0; i < KL_NPART; i++) kl_json_real(&j, kl_part_name[i], d->seconds_part[i]);
        for (int i = 0; i < KL_NPROF && facts; i++) kl_json_real(&j, kl_prof_name[i], d->inside.seconds[i]);
        kl_json_close(&j, '}');
        if (d->entropy != NULL) kl_json_reals(&j, "entropy", r->nsite - 1, d->entropy);
        double weight;
        int site;
        if (kl_request_cutoff(r, &weight, &site)) kl_report_json_cutoff(&j, weight, site);
    }
    kl_json_open(&j, "sweeps", '[');
    for (int i = 0; i < d->nrow; i++) {
        const kl_dmrg_row *row = &d->row[i];
        kl_json_open(&j, NULL, '{');
        kl_json_int(&j, "m", row->m);
        kl_json_int(&j, "m_reached", row->m_reached);
        kl_json_int(&j, "states_reached", row->states > 0 ? row->states : row->m_reached);
        kl_json_real(&j, "noise", row->noise);
        kl_json_reals(&j, "energies", d->nstate, row->energy);
        kl_json_real(&j, "change", row->change);
        kl_json_real(&j, "discarded", row->discarded);
        kl_json_int(&j, "sites_per_step", row->sites == 1 ? 1 : 2);
        kl_json_bool(&j, "half_of_the_lattice", kl_is_folded(row->folded));
        kl_json_real(&j, "two_site_variance", row->variance * row->unit * row->unit);
        kl_json_int(&j, "products", row->napply);
        kl_json_int(&j, "dim_max", row->dim_max);
        kl_json_real(&j, "flop", row->flop);
        kl_json_real(&j, "seconds", row->seconds);
        kl_json_int(&j, "states_carried", row->held);
        kl_json_real(&j, "residual", row->residual);
        kl_json_real(&j, "kept_above", row->kept);
        kl_json_reals(&j, "gaps", KL_NGUARD, row->gap);
        kl_json_text(&j, "waits_for", kl_dmrg_wait_text[row->wait]);
        kl_json_close(&j, '}');
    }
    kl_json_close(&j, ']');
    kl_report_json_measured(&j, r, NULL);
    kl_report_json_facts(&j, facts);
    if (facts != NULL && kl_comm_world() != NULL) json_ranks(&j, kl_comm_world());
    kl_json_close(&j, '}');
    kl_json_end(&j);
}

void kl_report_json_cutoff(kl_json *j, double weight, int site)
{
    kl_json_open(j, "cutoff", '{');
    kl_json_real(j, "weight", weight);
    kl_json_int(j, "site", site);
    kl_json_bool(j, "small", weight <= KL_CUTOFF_SMALL);
    kl_json_close(j, '}');
}

static void json_item(kl_json *j, const kl_report_item *item)
{
    kl_json_open(j, NULL, '{');
    kl_json_text(j, "label", item->label);
    kl_json_real(j, "energy", item->energy[0]);
    kl_json_reals(j, "energies", item->nstate, item->energy);
    kl_json_real(j, "error_estimate", item->error_estimate);
    if (!item->exact) {
        kl_json_real(j, "discarded", item->discarded);
        kl_json_int(j, "m", item->m);
    }
    kl_json_bool(j, "converged", item->converged);
    if (!item->exact) kl_json_bool(j, "energy_converged", item->energy_converged);
    kl_json_text(j, "stop", stop_word(item->stop, item->wait, item->energy_converged, item->converged));
    if (item->lowest >= 0) kl_json_bool(j, "lowest", item->lowest);
    kl_json_text(j, "output", item->output[0] != '\0' ? item->output : NULL);
    if (item->cut) kl_report_json_cutoff(j, item->cut_weight, item->cut_site);
    if (item->nvalue > 0) {
        kl_json_open(j, "measured", '{');
        for (int k = 0; k < item->nvalue; k++) kl_json_real(j, item->name[k], item->value[k]);
        kl_json_close(j, '}');
    }
    kl_json_close(j, '}');
}

void kl_report_table_json(FILE *to, const char *title, int n, const kl_report_item *item, int levels,
                          const kl_gaptable *gaps)
{
    kl_json j = kl_json_begin(to);
    const char *const method = n > 0 && item[0].exact ? "ed" : "dmrg";
    kl_report_json_open(&j, KL_VERSION, method);
    kl_json_text(&j, "method", method);
    kl_json_text(&j, "title", title);
    kl_json_open(&j, "runs", '[');
    for (int i = 0; i < n; i++) json_item(&j, &item[i]);
    kl_json_close(&j, ']');
    if (levels && n > 0) {
        const kl_report_sectors all = kl_report_sectors_of(n, item);
        kl_json_text(&j, "lowest", item[kl_report_lowest(n, item)].label);
        kl_report_levels_json(&j, &all);
    }
    kl_gaptable_json(&j, gaps);
    kl_json_close(&j, '}');
    kl_json_end(&j);
}
