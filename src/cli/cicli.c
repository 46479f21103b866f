/* `kronlat ci': progress and reports of runs that run/cirun.h makes. Computes nothing itself.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/cicli.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/json.h"
#include "config.h"
#include "cli/rankscli.h"
#include "cli/report.h"
#include "lib/handles.h"
#include "run/cirun.h"
#include "run/runfile.h"
#include "run/task.h"

/* ---------------------------------------------------------------- progress */

typedef struct watcher {
    int live, verbose;
} watcher;

static void on_product(void *self, int irrep, int napply, double energy, double residual)
{
    const watcher *const w = self;
    if (w->verbose)
        fprintf(stderr, "irrep %d: %d products, %.10f, residual %.1e\n", irrep + 1, napply, energy, residual);
}

static void on_block(void *self, int irrep, const kl_ci_block *b, int done)
{
    const watcher *const w = self;
    if (!w->live && !w->verbose) return;
    if (!done)
        fprintf(stderr, "irrep %d: %lld determinants, %.4g million non-zeros, built in %.2f s\n", irrep + 1,
                (long long)b->ndet, 1e-6 * (double)b->nnz, b->seconds_build);
    else
        fprintf(stderr, "irrep %d: %d products, residual %.1e, %.2f s\n", irrep + 1, b->napply, b->residual,
                b->seconds_solve);
}

static void on_note(void *self, const char *text)
{
    (void)self;
    if (kl_rankscli_tells()) kl_report_note(text);
}

/* ---------------------------------------------------------------- plan */

static const char *number_text(double x, char buf[32])
{
    if (x < 9e15) snprintf(buf, 32, "%.0f", x);
    else snprintf(buf, 32, "%.6e", x);
    return buf;
}

/* An energy in point notation to `digits` digits; by a power of ten where the file's unit makes that
   unreadable. */
static const char *hartree(double e, double reference, int digits, char buf[48])
{
    const double size = fabs(reference);
    snprintf(buf, 48, size == 0 || (size >= 1e-4 && size < 1e12) ? "%.*f" : "%.*e", digits, e);
    return buf;
}

/* "2ud200 (open shells: orbitals 2, 3)" */
static void print_reference(FILE *to, const char *reference, double energy, int digits)
{
    char text[48];
    int open = 0;
    fprintf(to, "reference %s  %s hartree", reference, hartree(energy, energy, digits, text));
    for (int p = 0; reference[p] != '\0'; p++)
        if (reference[p] == 'u' || reference[p] == 'd')
            fprintf(to, "%s%d", open++ == 0 ? "; open shells: orbitals " : ", ", p + 1);
    fprintf(to, "%s\n", open == 0 ? "; closed shells" : "");
}

static void print_plan(FILE *to, const kl_options *o, const kl_ci_plan *p)
{
    char a[32], b[32], c[32], d[32];
    const int singlets = p->closed_shell && p->nalpha == p->nbeta;
    fprintf(to, "%s: %d orbitals (%d inactive, %d active), %d alpha and %d beta electrons, %d irrep%s\n",
            o->file, p->norb, p->ninactive, p->nactive, p->nalpha, p->nbeta, p->nirrep,
            p->nirrep == 1 ? "" : "s");
    print_reference(to, p->reference, p->reference_energy, 10);
    if (p->note[0] != '\0') fprintf(to, "note: %s\n", p->note);
    fprintf(to, "\n%5s %22s %22s%s\n", "level", "determinants", "up to this level",
            singlets ? "           singlet CSFs       up to this level" : "");
    double sum = 0, csf = 0;
    for (int k = 0; k < p->nlevel; k++) {
        sum += p->det[8][k];
        csf += p->csf[8][k];
        fprintf(to, "%5d %22s %22s", k, number_text(p->det[8][k], a), number_text(sum, b));
        if (singlets) fprintf(to, " %22s %22s", number_text(p->csf[8][k], c), number_text(csf, d));
        fputc('\n', to);
    }
    fprintf(to, "\nspace %s\n%5s %22s %22s %16s %14s%s\n", o->space != NULL ? o->space : "cisd", "irrep",
            "determinants", "solver memory, GB", "non-zeros", "matrix, GB",
            singlets ? "   singlet CSFs (all levels)" : "");
    for (int g = 0; g < p->nirrep; g++) {
        double all = 0;
        for (int k = 0; k < p->nlevel; k++) all += p->csf[g][k];
        if (p->ndet[g] < 0) fprintf(to, "%5d %22s %22s", g + 1, "above 4e18", "");
        else if (p->bytes_vectors[g] < 0) fprintf(to, "%5d %22lld %22s", g + 1, (long long)p->ndet[g], "");
        else
            fprintf(to, "%5d %22lld %22.4g", g + 1, (long long)p->ndet[g],
                    1e-9 * (double)p->bytes_vectors[g]);
        if (p->nnz[g] > 0)
            fprintf(to, " %s%15lld %14.4g", p->nnz_sampled[g] ? "~" : " ", (long long)p->nnz[g],
                    12e-9 * (double)p->nnz[g]);
        else fprintf(to, " %16s %14s", "-", "-");
        if (singlets) fprintf(to, " %27s", number_text(all, a));
        fputc('\n', to);
    }
    for (int g = 0; g < p->nirrep; g++)
        if (p->nnz[g] > 0 && p->stored[g] < 1)
            fprintf(to,
                    "irrep %d: about %.0f %% of the non-zeros would be stored, the others made as they are "
                    "needed\n",
                    g + 1, 100 * p->stored[g]);
}

static void print_plan_json(FILE *to, const kl_options *o, const kl_ci_plan *p)
{
    kl_json j = kl_json_begin(to);
    kl_report_json_open(&j, KL_VERSION, "ci");
    kl_json_text(&j, "method", "ci");
    kl_json_text(&j, "file", o->file);
    kl_json_int(&j, "orbitals", p->norb);
    kl_json_int(&j, "inactive", p->ninactive);
    kl_json_int(&j, "active", p->nactive);
    kl_json_int(&j, "alpha", p->nalpha);
    kl_json_int(&j, "beta", p->nbeta);
    kl_json_int(&j, "irreps", p->nirrep);
    kl_json_text(&j, "reference", p->reference);
    kl_json_real(&j, "reference_energy", p->reference_energy);
    if (p->note[0] != '\0') kl_json_text(&j, "note", p->note);
    kl_json_open(&j, "levels", '[');
    for (int k = 0; k < p->nlevel; k++) {
        kl_json_open(&j, NULL, '{');
        kl_json_int(&j, "level", k);
        kl_json_real(&j, "determinants", p->det[8][k]);
        if (p->closed_shell && p->nalpha == p->nbeta) kl_json_real(&j, "singlets", p->csf[8][k]);
        kl_json_open(&j, "determinants_by_irrep", '[');
        for (int g = 0; g < p->nirrep; g++) kl_json_real(&j, NULL, p->det[g][k]);
        kl_json_close(&j, ']');
        kl_json_close(&j, '}');
    }
    kl_json_close(&j, ']');
    kl_json_open(&j, "space_by_irrep", '[');
    for (int g = 0; g < p->nirrep; g++) {
        kl_json_open(&j, NULL, '{');
        kl_json_int(&j, "irrep", g + 1);
        if (p->ndet[g] < 0) kl_json_text(&j, "determinants", NULL); /* above what 64 bits hold */
        else kl_json_int(&j, "determinants", p->ndet[g]);
        if (p->bytes_vectors[g] >= 0) kl_json_int(&j, "solver_bytes", p->bytes_vectors[g]);
        if (p->nnz[g] > 0) kl_json_int(&j, "nonzeros", p->nnz[g]);
        if (p->nnz[g] > 0) kl_json_bool(&j, "nonzeros_sampled", p->nnz_sampled[g]);
        if (p->nnz[g] > 0) kl_json_real(&j, "stored_share", p->stored[g]);
        kl_json_close(&j, '}');
    }
    kl_json_close(&j, ']');
    kl_json_close(&j, '}');
    kl_json_end(&j);
}

/* ---------------------------------------------------------------- result */

static void print_blocks(FILE *to, const kl_ci_result *r)
{
    fprintf(to, "%5s %12s %9s %9s %10s %9s %9s %9s\n", "irrep", "determinants", "alpha", "beta", "products",
            "residual", "build, s", "solve, s");
    for (int g = 0; g < r->nirrep; g++) {
        const kl_ci_block *const b = &r->block[g];
        if (b->ndet == 0) continue;
        fprintf(to, "%5d %12lld %9lld %9lld %10d %9.1e %9.2f %9.2f\n", g + 1, (long long)b->ndet,
                (long long)b->nalpha_string, (long long)b->nbeta_string, b->napply, b->residual,
                b->seconds_build, b->seconds_solve);
    }
    for (int g = 0; g < r->nirrep; g++) {
        const kl_ci_block *const b = &r->block[g];
        if (b->rows_made > 0)
            fprintf(
                to, "irrep %d: the elements of %lld of %lld rows are made as they are needed, by the %s\n",
                g + 1, (long long)b->rows_made, (long long)b->ndet, b->made_there ? "device" : "processor");
    }
    if (r->direct) return;
    fprintf(to, "\nmatrix %s%s\n%5s %13s %10s %10s %10s %13s %13s %8s %9s %9s %9s\n",
            kl_spformat_name(r->format), r->half ? ", one half" : "", "irrep", "non-zeros", "MB", "formula",
            "BOUNDARY", "reference", "expansion", "longest", "sparsity", "reference", "expansion");
    for (int g = 0; g < r->nirrep; g++) {
        const kl_ci_block *const b = &r->block[g];
        const kl_spmat_facts *const f = &b->facts;
        if (b->ndet == 0) continue;
        fprintf(to, "%5d %13lld %10.3f %10.3f %10lld %13lld %13lld %8lld %9.6f %9.6f %9.6f\n", g + 1,
                (long long)b->nnz, 1e-6 * (double)b->matrix_bytes, 1e-6 * (double)b->formula_bytes,
                (long long)f->boundary, (long long)f->nnz_reference, (long long)f->nnz_expansion,
                (long long)f->longest, f->sparsity, f->sparsity_reference, f->sparsity_expansion);
    }
    for (int g = 0; g < r->nirrep; g++) { /* of a run on a device */
        const kl_ci_block *const b = &r->block[g];
        if (b->ndet == 0 || b->way == KL_SPWAY_AUTO) continue;
        fprintf(to, "irrep %d: products by way %s, there in %.2f s", g + 1, kl_spway_name(b->way),
                b->seconds_bring);
        if (b->way_pays > b->napply)
            fprintf(to, "; a faster layout would pay from %lld products on", (long long)b->way_pays);
        fputc('\n', to);
    }
}

static void print_occupations(FILE *to, int norb, const double *natural, int state, const char *spin)
{
    if (natural == NULL) return;
    fprintf(to, "\nnatural occupations of state %d%s\n", state + 1, spin);
    for (int p = 0; p < norb; p++)
        fprintf(to, "%s%.6f", p % 10 == 0 ? (p > 0 ? "\n  " : "  ") : " ",
                fabs(natural[p]) < 5e-7 ? 0.0 : natural[p]);
    fputc('\n', to);
}

/* peak: bytes; 0 where an earlier run found the result, whose memory no file tells. */
static void print_result(FILE *to, const kl_ci_record *c, double peak, const char *output)
{
    const kl_ci_result *const r = &c->r;
    fprintf(to, "%s: %d orbitals (%d inactive, %d active), %d alpha and %d beta electrons, space %s%s\n",
            c->fcidump, r->norb, r->ninactive, r->nactive, r->nalpha, r->nbeta, c->space,
            r->direct ? ", no matrix" : "");
    const double zero = r->reference_energy;
    char energy[48], above[48];
    print_reference(to, r->reference, zero, 12);
    if (r->note[0] != '\0') fprintf(to, "note: %s\n", r->note);
    fprintf(to, "\n%5s %20s %16s %10s %5s %9s   %s\n", "state", "energy, hartree", "- reference", "S^2",
            "irrep", "residual", "leading determinants");
    for (int i = 0; i < r->nstate; i++) {
        const kl_ci_state *const s = &r->state[i];
        fprintf(to, "%5d %20s %16s ", i + 1, hartree(s->energy, zero, 12, energy),
                hartree(s->energy - zero, zero, 12, above));
        if (isnan(s->s2)) fprintf(to, "%10s", "-");
        else fprintf(to, "%10.6f", fabs(s->s2) < 5e-7 ? 0.0 : s->s2);
        fprintf(to, " %5d %9.1e  ", s->irrep + 1, s->residual);
        for (int k = 0; k < s->nleading && k < 3; k++)
            fprintf(to, " %+.4f %s", s->leading[k], s->leading_text[k]);
        fputc('\n', to);
    }
    for (int i = 1; i < r->nstate; i++) {
        const kl_ci_state *const s = &r->state[i - 1];
        /* residuals bound errors; integrals have few digits */
        const double near = s[0].residual + s[1].residual + 1e-9 * fmax(fabs(s[0].energy), fabs(s[1].energy));
        if (s[1].energy - s[0].energy < near)
            fprintf(
                to,
                "states %d and %d are closer than %.1e hartree: one level, of which any mixture is a state\n",
                i, i + 1, near);
    }
    if (r->nlevel > 0) {
        fprintf(to, "\nweight by excitation level\n");
        for (int i = 0; i < r->nstate; i++) {
            fprintf(to, "%5d", i + 1);
            for (int k = 0; k < r->nlevel; k++) fprintf(to, " %.6f", r->state[i].level_weight[k]);
            fputc('\n', to);
        }
    }
    for (int i = 0; i < r->nstate; i++) {
        print_occupations(to, r->norb, r->state[i].natural, i, "");
        print_occupations(to, r->norb, r->state[i].natural_spin[0], i, ", alpha");
        print_occupations(to, r->norb, r->state[i].natural_spin[1], i, ", beta");
    }
    fputc('\n', to);
    print_blocks(to, r);
    if (!r->converged) fprintf(to, "\nNOT CONVERGED: a residual is above what was asked for\n");
    fprintf(to, "\n%.2f s", r->seconds_all);
    if (peak > 0) fprintf(to, ", peak memory %.3g MB", 1e-6 * peak);
    if (output != NULL) fprintf(to, ", written to %s", output);
    fputc('\n', to);
}

/* facts: NULL for a result that is read. */
static void print_result_json(FILE *to, const kl_ci_record *c, const kl_run_facts *facts, const char *output)
{
    const kl_ci_result *const r = &c->r;
    kl_json j = kl_json_begin(to);
    kl_report_json_open(&j, c->program, kl_report_command(facts, "ci"));
    kl_json_text(&j, "command_line", c->command_line);
    kl_json_text(&j, "method", "ci");
    kl_json_text(&j, "file", c->fcidump);
    kl_json_text(&j, "space", c->space);
    kl_json_bool(&j, "finished", c->finished);
    if (!c->finished) { /* a checkpoint says no more */
        kl_json_text(&j, "output", output);
        goto out;
    }
    kl_json_int(&j, "orbitals", r->norb);
    kl_json_int(&j, "inactive", r->ninactive);
    kl_json_int(&j, "active", r->nactive);
    kl_json_int(&j, "alpha", r->nalpha);
    kl_json_int(&j, "beta", r->nbeta);
    kl_json_text(&j, "reference", r->reference);
    kl_json_real(&j, "reference_energy", r->reference_energy);
    if (r->note[0] != '\0') kl_json_text(&j, "note", r->note);
    kl_json_real(&j, "energy", r->nstate > 0 ? r->state[0].energy : NAN);
    kl_json_open(&j, "energies", '[');
    for (int i = 0; i < r->nstate; i++) kl_json_real(&j, NULL, r->state[i].energy);
    kl_json_close(&j, ']');
    kl_json_real(&j, "error_estimate", r->nstate > 0 ? r->state[0].residual : NAN); /* bounds it */
    kl_json_bool(&j, "converged", r->converged);
    kl_json_text(&j, "stop", r->converged ? "converged" : "a residual is above what was asked for");
    kl_json_open(&j, "states", '[');
    for (int i = 0; i < r->nstate; i++) {
        const kl_ci_state *const s = &r->state[i];
        kl_json_open(&j, NULL, '{');
        kl_json_real(&j, "energy", s->energy);
        kl_json_real(&j, "s2", s->s2);
        kl_json_int(&j, "irrep", s->irrep + 1);
        kl_json_real(&j, "residual", s->residual);
        kl_json_open(&j, "leading", '[');
        for (int k = 0; k < s->nleading; k++) {
            kl_json_open(&j, NULL, '{');
            kl_json_text(&j, "determinant", s->leading_text[k]);
            kl_json_real(&j, "coefficient", s->leading[k]);
            kl_json_close(&j, '}');
        }
        kl_json_close(&j, ']');
        if (s->level_weight != NULL) kl_json_reals(&j, "weight_by_level", r->nlevel, s->level_weight);
        if (s->natural != NULL) kl_json_reals(&j, "natural_occupations", r->norb, s->natural);
        if (s->natural_spin[0] != NULL)
            kl_json_reals(&j, "natural_occupations_alpha", r->norb, s->natural_spin[0]);
        if (s->natural_spin[1] != NULL)
            kl_json_reals(&j, "natural_occupations_beta", r->norb, s->natural_spin[1]);
        if (s->density[0] != NULL)
            kl_json_reals(&j, "density_alpha", (int64_t)r->norb * r->norb, s->density[0]);
        if (s->density[1] != NULL)
            kl_json_reals(&j, "density_beta", (int64_t)r->norb * r->norb, s->density[1]);
        kl_json_close(&j, '}');
    }
    kl_json_close(&j, ']');
    kl_json_open(&j, "irreps", '[');
    for (int g = 0; g < r->nirrep; g++) {
        const kl_ci_block *const b = &r->block[g];
        if (b->ndet == 0) continue;
        kl_json_open(&j, NULL, '{');
        kl_json_int(&j, "irrep", g + 1);
        kl_json_int(&j, "determinants", b->ndet);
        kl_json_int(&j, "products", b->napply);
        kl_json_bool(&j, "converged", b->converged);
        kl_json_real(&j, "seconds_build", b->seconds_build);
        if (b->way != KL_SPWAY_AUTO) kl_json_text(&j, "products_way", kl_spway_name(b->way));
        kl_json_real(&j, "seconds_solve", b->seconds_solve);
        if (b->rows_made > 0) kl_json_int(&j, "rows_made", b->rows_made);
        if (!r->direct) {
            kl_json_text(&j, "format", kl_spformat_name(r->format));
            kl_json_int(&j, "nonzeros", b->nnz);
            kl_json_int(&j, "matrix_bytes", b->matrix_bytes);
            kl_json_int(&j, "formula_bytes", b->formula_bytes);
            kl_json_int(&j, "boundary", b->facts.boundary);
            kl_json_int(&j, "nonzeros_reference", b->facts.nnz_reference);
            kl_json_int(&j, "nonzeros_expansion", b->facts.nnz_expansion);
            kl_json_int(&j, "rows_reference", b->facts.rows_reference);
            kl_json_int(&j, "rows_expansion", b->facts.rows_expansion);
            kl_json_int(&j, "longest_row_nonzeros", b->facts.longest);
            kl_json_int(&j, "longest_row", b->facts.longest_row);
            kl_json_real(&j, "sparsity", b->facts.sparsity);
            kl_json_real(&j, "sparsity_reference", b->facts.sparsity_reference);
            kl_json_real(&j, "sparsity_expansion", b->facts.sparsity_expansion);
        }
        kl_json_close(&j, '}');
    }
    kl_json_close(&j, ']');
    kl_json_real(&j, "seconds", r->seconds_all);
    if (facts == NULL) kl_json_text(&j, "output", output);
    kl_report_json_facts(&j, facts);
out:
    kl_json_close(&j, '}');
    kl_json_end(&j);
}

/* ---------------------------------------------------------------- the commands */

void kl_cicli_show(const kl_options *o, const kl_ci_record *c)
{
    if (!c->finished && !o->json)
        printf("%s: a run under way, space %s; go on with: kronlat ci --resume %s\n", c->fcidump, c->space,
               o->file);
    else if (o->json) print_result_json(stdout, c, NULL, o->file);
    else print_result(stdout, c, 0, NULL);
}

static kl_status show_plan(kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_fcidump *f = NULL;
    kl_ci_plan plan = {0};
    kl_cirun x;
    KL_TRY(kl_cirun_open(o, &x, err));
    KL_TRY(kl_runfile_integrals(o->file, &f, err));
    x.opts.nthread = kl_task_threads(o);
    KL_TRY(kl_ci_make_plan(f, &x.opts, &plan, err));
    if (o->json) print_plan_json(stdout, o, &plan);
    else print_plan(stdout, o, &plan);
out:
    kl_cirun_clear(&x);
    kl_ci_plan_clear(&plan);
    kl_fcidump_destroy(&f);
    return st;
}

static void say_interrupted(const char *path, int kept)
{
    char text[1400];
    if (!kl_rankscli_tells()) return;
    if (path == NULL) snprintf(text, sizeof(text), "interrupted; nothing was kept (no --output)");
    else if (!kept) snprintf(text, sizeof(text), "interrupted; nothing was kept (no checkpoint was written)");
    else snprintf(text, sizeof(text), "interrupted; go on with: kronlat ci --resume %.1000s", path);
    kl_report_error(text);
}

static void print_run(const kl_options *o, const kronlat_result *r, const char *path, double started)
{
    const char *const written = r->unwritten == KL_OK ? path : NULL;
    const kl_run_facts facts = {
        .exec = r->executor, .nthread = r->nthread, .output = written, .seconds = kl_clock() - started};
    if (o->json) print_result_json(stdout, &r->ci, &facts, NULL);
    else print_result(stdout, &r->ci, (double)kl_mem_total_peak_bytes(), written);
}

/* By the library. Where the file cannot be written, the report comes all the same. */
kl_status kl_cicli_run(kl_options *o, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    kronlat_problem *problem = NULL;
    kronlat_result *r = NULL;
    const double started = kl_clock();
    watcher w = {.live = isatty(2) && kl_rankscli_tells(), .verbose = o->verbose && kl_rankscli_tells()};
    const kl_watch watch = {.self = &w, .note = on_note, .block = on_block, .block_product = on_product};
    if (o->plan) return show_plan(o, err);
    kronlat_error *const why = kronlat_error_create();
    if (why == NULL) return kl_fail(err, KL_ENOMEM, "no memory to begin");
    KL_TRY(kl_problem_borrow(o, NULL, NULL, &watch, &problem, err));
    const kronlat_status found = kronlat_ci(problem, &r, why);
    const char *const path = kl_cirun_path(o);
    *stopped = found == KRONLAT_CANCELLED && r != NULL;
    if (*stopped) {
        say_interrupted(path, r->kept);
        goto out;
    }
    if (r != NULL) print_run(o, r, path, started);
    KL_TRY(kl_status_of(found, why, err));
out:
    kronlat_result_destroy(r);
    kronlat_problem_destroy(problem);
    kronlat_error_destroy(why);
    return st;
}
