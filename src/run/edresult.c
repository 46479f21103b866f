/* Exact diagonalization in a result: see edresult.h. Prints nothing.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/edresult.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static const char run_note[] =
    "states, length of a vector, halves are flavours, states of the halves, vectors held, bytes of tables, "
    "bytes of a stored matrix, solver, products, "
    "restarts, attainable error, open multiplet, stop, seconds: all, in products, making ready";

static int has(const kl_result *r, const char *name)
{
    for (int i = 0; i < r->nmeasured; i++)
        if (strcmp(r->measured[i].name, name) == 0) return 1;
    return 0;
}

int kl_edresult_is(const kl_result *r) { return has(r, "ed/run") || has(r, "thermal/temperature"); }

/* What the arithmetic can reach is all there is. */
static int is_converged(int stop) { return stop == KL_ED_CONVERGED || stop == KL_ED_STAGNATED; }

kl_status kl_edresult_add(kl_result *r, const kl_ed *ed, const kl_ed_result *f, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_dmrg_result d = {.nstate = f->nstate,
                              .gap = INFINITY,
                              .energy = f->energy,
                              .energy_kept = f->energy,
                              .error_estimate = f->nstate > 0 ? fmax(f->error[0], f->attainable) : 0.0,
                              .energy_extrapolated = f->nstate > 0 ? f->energy[0] : 0.0,
                              .stop = is_converged((int)f->stop)     ? KL_STOP_CONVERGED
                                      : f->stop == KL_ED_INTERRUPTED ? KL_STOP_INTERRUPTED
                                                                     : KL_STOP_SCHEDULE,
                              .napply = f->napply,
                              .seconds = f->seconds,
                              .dim_max = f->dim};
    const double run[KL_NEDRUN] = {[KL_EDRUN_DIM] = (double)f->dim,
                                   [KL_EDRUN_LENGTH] = (double)f->n,
                                   [KL_EDRUN_FLAVOURS] = ed->space->flavours,
                                   [KL_EDRUN_LEFT] = (double)ed->space->left.begin[ed->space->left.nsec],
                                   [KL_EDRUN_RIGHT] = (double)ed->space->right.begin[ed->space->right.nsec],
                                   [KL_EDRUN_NVECTOR] = f->nvector,
                                   [KL_EDRUN_TABLES] = (double)kl_kron_bytes(ed->kron),
                                   [KL_EDRUN_MATRIX] =
                                       ed->matrix ? (double)kl_spmat_measured_bytes(ed->matrix) : 0.0,
                                   [KL_EDRUN_SOLVER] = f->solver,
                                   [KL_EDRUN_NAPPLY] = f->napply,
                                   [KL_EDRUN_NRESTART] = f->nrestart,
                                   [KL_EDRUN_ATTAINABLE] = f->attainable,
                                   [KL_EDRUN_OPEN] = f->open_multiplet,
                                   [KL_EDRUN_STOP] = f->stop,
                                   [KL_EDRUN_SECONDS] = f->seconds,
                                   [KL_EDRUN_SECONDS_PRODUCTS] = f->seconds_apply,
                                   [KL_EDRUN_SECONDS_BUILD] = ed->seconds_build};
    double *degeneracy = NULL;
    const int64_t n = f->nstate, all = f->nfull, nrun = KL_NEDRUN;
    KL_TRY(kl_alloc(&degeneracy, n, KL_MEM_MISC, err));
    for (int k = 0; k < f->nstate; k++) degeneracy[k] = f->multiplet[k];
    KL_TRY(kl_result_set_dmrg(r, &d, err));
    r->finished = f->stop != KL_ED_INTERRUPTED;
    KL_TRY(kl_result_add(r, "ed/run", run_note, 1, &nrun, run, err));
    KL_TRY(kl_result_add(r, "ed/residual", "|H x - E x| of each state", 1, &n, f->residual, err));
    KL_TRY(kl_result_add(r, "ed/error", "bound of each energy's error", 1, &n, f->error, err));
    KL_TRY(kl_result_add(r, "ed/degeneracy", "states that share the energy; 0: not looked at", 1, &n,
                         degeneracy, err));
    if (all > 0) KL_TRY(kl_result_add(r, "ed/spectrum", "all energies of the sector", 1, &all, f->full, err));
out:
    kl_free(&degeneracy);
    return st;
}

const double *kl_edresult_list(const kl_result *r, const char *name, int64_t n)
{
    for (int i = 0; i < r->nmeasured; i++) {
        const kl_measured *const m = &r->measured[i];
        if (strcmp(m->name, name) == 0) return m->rank == 1 && m->shape[0] >= n ? m->data : NULL;
    }
    return NULL;
}

int kl_edresult_whole(const kl_ed_result *found)
{
    const int many = found->multiplet[0];
    return many > 1 && many <= found->nstate && !(found->open_multiplet && many >= found->nstate) ? many : 0;
}

kl_status kl_edresult_states(const kl_result *r, kl_ed_result *found, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_dmrg_result *const d = &r->dmrg;
    const double *const run = kl_edresult_list(r, "ed/run", KL_NEDRUN),
                        *const residual = kl_edresult_list(r, "ed/residual", d->nstate),
                        *const error = kl_edresult_list(r, "ed/error", d->nstate),
                        *const degeneracy = kl_edresult_list(r, "ed/degeneracy", d->nstate);
    if (run == NULL || residual == NULL || error == NULL || degeneracy == NULL)
        return kl_fail(err, KL_EINPUT, "the result is of no run of exact diagonalization");
    KL_TRY(kl_ed_result_states(found, d->nstate, err));
    found->dim = (int64_t)run[KL_EDRUN_DIM];
    found->n = (int64_t)run[KL_EDRUN_LENGTH];
    found->attainable = run[KL_EDRUN_ATTAINABLE];
    found->open_multiplet = (int)run[KL_EDRUN_OPEN];
    found->stop = (kl_ed_stop)run[KL_EDRUN_STOP];
    found->solver = (kl_ed_solver)run[KL_EDRUN_SOLVER];
    for (int k = 0; k < d->nstate; k++) {
        found->energy[k] = d->energy[k];
        found->residual[k] = residual[k];
        found->error[k] = error[k];
        found->multiplet[k] = (int)degeneracy[k];
    }
out:
    return st;
}

kl_status kl_edresult_add_spectral(kl_result *r, const char *name, double broadening, const kl_ed_spectral *s,
                                   kl_err *err)
{
    kl_status st = KL_OK;
    double *pair = NULL;
    char path[200], note[160];
    const int most = s->nomega > s->npole ? s->nomega : s->npole;
    KL_TRY(kl_alloc(&pair, 2 * most, KL_MEM_MISC, err));
    int64_t shape[2] = {s->nomega, 2};
    for (int i = 0; i < s->nomega; i++) pair[2 * i] = s->omega[i], pair[2 * i + 1] = s->a[i];
    snprintf(path, sizeof(path), "spectral/%.150s", name);
    snprintf(note, sizeof(note), "frequency and A, broadening %.6g, total weight %.12g, %d levels, %s",
             broadening, s->total, s->nstep, s->converged ? "converged" : "NOT CONVERGED: more --steps");
    KL_TRY(kl_result_add(r, path, note, 2, shape, pair, err));
    int64_t kept = 0;
    for (int i = 0; i < s->npole; i++)
        if (s->weight[i] > 1e-12 * s->total) pair[2 * kept] = s->pole[i], pair[2 * kept++ + 1] = s->weight[i];
    shape[0] = kept;
    snprintf(path, sizeof(path), "poles/%.150s", name);
    KL_TRY(kl_result_add(r, path, "energy above the lowest, and weight", 2, shape, pair, err));
out:
    kl_free(&pair);
    return st;
}

/* 1: the sum runs over all values of what it is made of. */
static int is_scanned(const kl_model *m, const kl_thermal_charge *of, const int scan[KL_MAX_CHARGE])
{
    int some = 0;
    for (int c = 0; c < m->ncharge; c++) {
        if (of->factor[c] == 0.0) continue;
        if (!scan[c]) return 0;
        some = 1;
    }
    return some;
}

kl_status kl_edresult_add_thermal(kl_result *r, const kl_model *m, const int scan[KL_MAX_CHARGE], int nsample,
                                  const kl_thermal_facts *facts, int n, const kl_thermal_row *row,
                                  kl_err *err)
{
    kl_status st = KL_OK;
    double *v = NULL;
    const int64_t shape[2] = {n, 2};
    char name[80], note[400], summed[160] = "";
    size_t used = 0;
    KL_TRY(kl_alloc(&v, 2 * n, KL_MEM_MISC, err));
    for (int i = 0; i < n; i++) v[i] = row[i].temperature;
    for (int c = 0; c < m->ncharge && used + 40 < sizeof(summed); c++)
        if (scan[c])
            used += (size_t)snprintf(summed + used, sizeof(summed) - used, "%s%.30s",
                                     used > 0 ? ", " : ", summed over all ", m->charge[c].name);
    snprintf(
        note, sizeof(note),
        "%lld%s (%lld by all energies), %.15g states, %lld lowest by themselves, %d samples, %lld products "
        "with H, lowest energy %.12g",
        (long long)facts->nsector, summed, (long long)facts->nfull, facts->dim, (long long)facts->nlow,
        nsample, (long long)facts->napply, facts->lowest);
    KL_TRY(kl_result_add(r, "thermal/temperature", note, 1, shape, v, err));
    for (int i = 0; i < n; i++) v[2 * i] = row[i].energy, v[2 * i + 1] = row[i].energy_error;
    KL_TRY(kl_result_add(r, "thermal/energy", "<H> and its error", 2, shape, v, err));
    for (int i = 0; i < n; i++) v[2 * i] = row[i].heat, v[2 * i + 1] = row[i].heat_error;
    KL_TRY(kl_result_add(r, "thermal/heat", "heat capacity and its error", 2, shape, v, err));
    for (int i = 0; i < n; i++) v[2 * i] = row[i].entropy, v[2 * i + 1] = row[i].entropy_error;
    KL_TRY(kl_result_add(r, "thermal/entropy", "entropy and its error", 2, shape, v, err));
    kl_thermal_charge charge[KL_MAX_CHI];
    const int nchi = kl_thermal_charges(m, charge);
    for (int c = 0; c < nchi; c++) {
        if (!is_scanned(m, &charge[c], scan)) continue;
        for (int i = 0; i < n; i++) v[2 * i] = row[i].chi[c], v[2 * i + 1] = row[i].chi_error[c];
        snprintf(name, sizeof(name), "thermal/chi_%.60s", charge[c].name);
        KL_TRY(kl_result_add(r, name, "(<Q^2> - <Q>^2) / T of the charge, and its error", 2, shape, v, err));
    }
    double lowest = facts->lowest;
    const kl_dmrg_result d = {.nstate = 1,
                              .gap = INFINITY,
                              .energy = &lowest,
                              .energy_kept = &lowest,
                              .energy_extrapolated = facts->lowest,
                              .stop = KL_STOP_CONVERGED,
                              .napply = facts->napply};
    KL_TRY(kl_result_set_dmrg(r, &d, err));
    for (int c = r->ncharge - 1; c >= 0; c--)
        if (scan[c]) kl_result_drop_charge(r, c);
    r->finished = 1;
out:
    kl_free(&v);
    return st;
}
