/* Ties options, integrals, the run and its files together, and prints what came out. Computes nothing itself.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cli/cicli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ci/ci.h"
#include "io/cifile.h"
#include "config.h"
#include "cli/json.h"
#include "base/mem.h"
#include "sparse/mmfile.h"
#include "cli/outputs.h"
#include "cli/pace.h"
#include "cli/report.h"
#include "io/sealed.h"
#include "io/spfile.h"
#include "cli/task.h"

typedef struct context {
    const kl_options *o;
    int nmatrix, narrays, live;
    int64_t boundary;
    const char *path; /* of results and checkpoints; NULL: none */
    kl_ci_record record; /* what a checkpoint says */
    kl_pace pace;
    int resumed;
} context;

/* ---------------------------------------------------------------- what was asked */

static kl_status ask(const kl_options *o, kl_ci_opts *ci, kl_err *err)
{
    kl_status st = KL_OK;
    *ci = (kl_ci_opts){.irrep = -1,
                       .nroot = o->roots > 0 ? (int)o->roots : 1,
                       .frozen = (int)o->frozen,
                       .nelec = (int)o->electrons,
                       .have_ms2 = o->ms2 != KL_NO_MS2,
                       .ms2 = o->ms2 != KL_NO_MS2 ? (int)o->ms2 : 0,
                       .half = o->half,
                       .tol = o->residual,
                       .max_basis = (int)o->basis,
                       .pspace = (int)o->pspace,
                       .seed = o->seed > 0 ? (uint64_t)o->seed : 1,
                       .density = o->density};
    st = kl_ci_parse_space(o->space != NULL ? o->space : "cisd", ci, err);
    if (st != KL_OK) return kl_fail(err, st, "--space: %s", err->text);
    if (o->irrep != NULL && strcmp(o->irrep, "all") != 0) ci->irrep = o->irrep[0] - '1';
    ci->nref = o->reference.n;
    ci->ref = (const char *const *)o->reference.text;
    if (o->store != NULL)
        ci->store = strcmp(o->store, "matrix") == 0   ? KL_CI_MATRIX
                    : strcmp(o->store, "direct") == 0 ? KL_CI_DIRECT
                                                      : KL_CI_AUTO;
    if (o->format != NULL && !kl_spformat_parse(o->format, &ci->format.format))
        return kl_fail(err, KL_EINPUT, "--format: '%s' is not known", o->format);
    ci->format.boundary = o->boundary;
    ci->format.height = o->slice;
    ci->format.sigma = o->sigma;
    if (o->boundary > 0 && ci->format.format != KL_SP_HYBRID)
        return kl_fail(err, KL_EINPUT, "--boundary belongs to --format hybrid");
    if ((o->slice > 0 || o->sigma > 0) && ci->format.format != KL_SP_SELL && ci->format.format != KL_SP_SELLR)
        return kl_fail(err, KL_EINPUT, "--slice and --sigma belong to --format sell or sellr");
    if (o->half && ci->format.format != KL_SP_CSR && ci->format.format != KL_SP_HYBRID)
        return kl_fail(err, KL_EINPUT, "--half: format %s holds no symmetric halves; csr and hybrid do",
                       o->format);
    if (o->basis > 0 && o->basis < ci->nroot + 2)
        return kl_fail(err, KL_EINPUT, "--basis: %lld was given; %d roots need at least %d",
                       (long long)o->basis, ci->nroot, ci->nroot + 2);
    /* where even full spaces are stored */
    const int device = o->exec != NULL && (strcmp(o->exec, "offload") == 0 || strcmp(o->exec, "cuda") == 0);
    const int direct = ci->store == KL_CI_DIRECT || (ci->store == KL_CI_AUTO && ci->full && !device);
    if (direct && (o->matrix != NULL || o->arrays != NULL || o->format != NULL || o->half))
        return kl_fail(err, KL_EINPUT, "%s: a full space has no stored matrix; add --store matrix",
                       o->matrix != NULL   ? "--matrix"
                       : o->arrays != NULL ? "--arrays"
                       : o->format != NULL ? "--format"
                                           : "--half");
    ci->memory_bytes = o->memory > 0 ? (int64_t)(o->memory * 1e9) : 0;
    return KL_OK;
}

static void numbered(char *path, size_t size, const char *name, int n)
{
    if (n == 1) snprintf(path, size, "%s", name);
    else snprintf(path, size, "%s-%d", name, n);
}

static kl_status write_matrix(void *self, int irrep, const kl_spmat *csr, kl_err *err)
{
    context *const x = self;
    char path[1100], comment[200];
    if (x->o->matrix == NULL) return KL_OK;
    numbered(path, sizeof(path), x->o->matrix, ++x->nmatrix);
    snprintf(comment, sizeof(comment), "kronlat %s: %.120s, irrep %d", KL_VERSION, x->o->file, irrep + 1);
    const kl_status st = kl_mmfile_write(path, csr, comment, err);
    return st == KL_OK ? st : kl_fail(err, st, "--matrix: %s", err->text);
}

static kl_status write_arrays(void *self, int irrep, const kl_spmat *m, kl_err *err)
{
    context *const x = self;
    char path[1100];
    (void)irrep;
    if (x->o->arrays == NULL) return KL_OK;
    numbered(path, sizeof(path), x->o->arrays, ++x->narrays);
    const kl_status st = kl_spfile_write(path, m, m->format == KL_SP_HYBRID ? m->width : x->boundary, err);
    return st == KL_OK ? st : kl_fail(err, st, "--arrays: %s", err->text);
}

static int on_step(void *self, int irrep, int napply, double energy, double residual)
{
    const context *const x = self;
    if (x->o->verbose)
        fprintf(stderr, "irrep %d: %d products, %.10f, residual %.1e\n", irrep + 1, napply, energy, residual);
    return kl_interrupted();
}

static int is_due(void *self)
{
    const context *const x = self;
    return kl_pace_due(&x->pace);
}

static kl_status keep(void *self, int irrep, int nvec, int64_t n, const double *v, kl_err *err)
{
    context *const x = self;
    kl_err why;
    (void)err;
    const double start = kl_clock();
    kl_pace_done(&x->pace, start,
                 kl_cifile_write(x->path, &x->record, &(kl_ci_vectors){irrep, nvec, n, v}, &why), &why);
    return KL_OK;
}

static kl_status bring_back(void *self, int irrep, int most, int64_t n, int *nvec, double *v, kl_err *err)
{
    const context *const x = self;
    *nvec = 0;
    return x->resumed ? kl_cifile_vectors(x->path, irrep, most, n, nvec, v, err) : KL_OK;
}

/* Tries whether it can be written, before any work. path NULL: it was not asked for. */
static kl_status probe(const char *option, const char *path, kl_err *err)
{
    const kl_status st = path != NULL ? kl_sealed_probe(path, err) : KL_OK;
    return st == KL_OK ? st : kl_fail(err, st, "%s: %s", option, err->text);
}

/* The options as lines, for --resume. */
static kl_status options_text(const kl_options *o, char **out, kl_err *err)
{
    const char *name, *value;
    char number[40];
    size_t length = 1;
    for (int i = 0; kl_options_given(o, i, &name, &value, number); i++)
        length += strlen(name) + strlen(value) + 2;
    const kl_status st = kl_alloc(out, (int64_t)length, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    char *p = *out;
    for (int i = 0; kl_options_given(o, i, &name, &value, number); i++)
        p += sprintf(p, "%s=%s\n", name, value);
    return KL_OK;
}

/* What the file says, where the command line says nothing. */
static kl_status adopt(kl_options *o, const kl_ci_record *c, kl_err *err)
{
    kl_status st = KL_OK;
    char *copy = kl_strdup(c->options);
    if (copy == NULL) return kl_fail(err, KL_ENOMEM, "no memory for the options in %.300s", o->resume);
    char *rest = copy;
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        char *const equals = strchr(line, '=');
        if (equals == NULL) continue;
        *equals = '\0';
        if (strcmp(line, "output") != 0 && strcmp(line, "resume") != 0 && !kl_options_foreign(o, line))
            KL_TRY(kl_options_set(o, o->resume, line, equals + 1, err));
    }
    if (o->file == NULL) KL_TRY(kl_options_set(o, o->resume, "fcidump", c->fcidump, err));
out:
    kl_free(&copy);
    return st;
}

static void tell_block(void *self, int irrep, const kl_ci_block *b, int done)
{
    const context *const x = self;
    if (!x->live && !x->o->verbose) return;
    if (!done)
        fprintf(stderr, "irrep %d: %lld determinants, %.4g million non-zeros, built in %.2f s\n", irrep + 1,
                (long long)b->ndet, 1e-6 * (double)b->nnz, b->seconds_build);
    else
        fprintf(stderr, "irrep %d: %d products, residual %.1e, %.2f s\n", irrep + 1, b->napply, b->residual,
                b->seconds_solve);
}

/* ---------------------------------------------------------------- plan */

static const char *number_text(double x, char buf[32])
{
    if (x < 9e15) snprintf(buf, 32, "%.0f", x);
    else snprintf(buf, 32, "%.6e", x);
    return buf;
}

static void print_plan(FILE *to, const kl_options *o, const kl_ci_plan *p)
{
    char a[32], b[32], c[32], d[32];
    const int singlets = p->closed_shell && p->nalpha == p->nbeta;
    fprintf(to, "%s: %d orbitals (%d inactive, %d active), %d alpha and %d beta electrons, %d irrep%s\n",
            o->file, p->norb, p->ninactive, p->nactive, p->nalpha, p->nbeta, p->nirrep,
            p->nirrep == 1 ? "" : "s");
    fprintf(to, "reference %s  %.10f hartree\n", p->reference, p->reference_energy);
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
    fprintf(to, "reference %s  %.12f hartree\n", r->reference, r->reference_energy);
    if (r->note[0] != '\0') fprintf(to, "note: %s\n", r->note);
    fprintf(to, "\n%5s %20s %16s %10s %5s %9s   %s\n", "state", "energy, hartree", "- reference", "S^2",
            "irrep", "residual", "leading determinants");
    for (int i = 0; i < r->nstate; i++) {
        const kl_ci_state *const s = &r->state[i];
        fprintf(to, "%5d %20.12f %16.12f ", i + 1, s->energy, s->energy - r->reference_energy);
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

kl_status kl_cicli_show(const kl_options *o, kl_err *err)
{
    kl_ci_record c;
    const kl_status st = kl_cifile_read(o->file, &c, err);
    if (st != KL_OK) return st;
    if (!c.finished && !o->json)
        printf("%s: a run under way, space %s; go on with: kronlat ci --resume %s\n", c.fcidump, c.space,
               o->file);
    else if (o->json) print_result_json(stdout, &c, NULL, o->file);
    else print_result(stdout, &c, 0, NULL);
    kl_cifile_clear(&c);
    return KL_OK;
}

static kl_status fill_record(const kl_options *o, kl_ci_record *c, kl_err *err)
{
    c->program = kl_strdup(KL_VERSION);
    c->command_line = kl_strdup(o->command_line);
    c->fcidump = kl_strdup(o->file);
    c->space = kl_strdup(o->space != NULL ? o->space : "cisd");
    if (c->program == NULL || c->command_line == NULL || c->fcidump == NULL || c->space == NULL)
        return kl_fail(err, KL_ENOMEM, "no memory for the result");
    return options_text(o, &c->options, err);
}

kl_status kl_cicli_run(kl_options *o, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    kl_fcidump *f = NULL;
    kl_exec *ex = NULL;
    kl_ci_opts ci;
    kl_ci_plan plan = {0};
    kl_ci_record done = {0};
    const double started = kl_clock();
    context x = {.o = o, .live = isatty(2), .pace = kl_pace_begin(o->checkpoint_every)};
    kl_ci_monitor monitor = {
        .self = &x, .block = tell_block, .matrix = write_matrix, .stored = write_arrays, .step = on_step};
    if (o->resume != NULL) {
        KL_TRY(kl_cifile_read(o->resume, &done, err));
        if (done.finished)
            KL_TRY(kl_fail(err, KL_EINPUT, "--resume: the run in %.300s has finished", o->resume));
        KL_TRY(adopt(o, &done, err));
    }
    KL_TRY(kl_options_check(o, err));
    KL_TRY(ask(o, &ci, err));
    KL_TRY(kl_outputs_check(o, NULL, err));
    KL_TRY(kl_fcidump_read(o->file, &f, err));
    if (o->plan) {
        ci.nthread = kl_task_threads(o);
        KL_TRY(kl_ci_make_plan(f, &ci, &plan, err));
        if (o->json) print_plan_json(stdout, o, &plan);
        else print_plan(stdout, o, &plan);
        goto out;
    }
    x.path = o->resume != NULL                                     ? o->resume
             : o->output != NULL && strcmp(o->output, "none") != 0 ? o->output
                                                                   : NULL;
    x.resumed = x.pace.kept = o->resume != NULL;
    x.boundary = o->boundary;
    KL_TRY(probe("--matrix", o->matrix, err));
    KL_TRY(probe("--arrays", o->arrays, err));
    if (x.path != NULL) {
        KL_TRY(kl_sealed_probe(x.path, err));
        monitor.due = is_due;
        monitor.save = keep;
        monitor.load = bring_back;
    }
    KL_TRY(fill_record(o, &x.record, err));
    snprintf(x.record.integrals, sizeof(x.record.integrals), "%016llx",
             (unsigned long long)kl_fcidump_hash(f));
    if (done.integrals[0] != '\0' && strcmp(done.integrals, x.record.integrals) != 0)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--resume: the integrals in %.300s are not those that %.300s was begun with", o->file,
                       o->resume));
    KL_TRY(kl_task_exec(o, &ex, err));
    ci.nthread = ex->nthread;
    kl_ci_result r;
    KL_TRY(kl_ci_run(f, ex, &ci, &monitor, &r, err));
    x.record.r = r;
    *stopped = r.stopped;
    if (r.stopped) {
        char text[1400];
        if (x.path == NULL) snprintf(text, sizeof(text), "interrupted; nothing was kept (no --output)");
        else if (!x.pace.kept)
            snprintf(text, sizeof(text), "interrupted; nothing was kept (no checkpoint was written)");
        else snprintf(text, sizeof(text), "interrupted; go on with: kronlat ci --resume %.1000s", x.path);
        kl_report_error(text);
        goto out;
    }
    x.record.finished = 1;
    const kl_status written = x.path != NULL ? kl_cifile_write(x.path, &x.record, NULL, err) : KL_OK;
    /* before a full disk ends it: the energy is there */
    const kl_run_facts facts = {ex->name, ex->nthread, written == KL_OK ? x.path : NULL, kl_clock() - started,
                                NULL,     NULL};
    if (o->json) print_result_json(stdout, &x.record, &facts, NULL);
    else print_result(stdout, &x.record, (double)kl_mem_total_peak_bytes(), written == KL_OK ? x.path : NULL);
    if (!o->json && r.nstate < ci.nroot)
        printf("%d of the %d states asked for: the space has no more determinants\n", r.nstate, ci.nroot);
    KL_TRY(written);
out:
    kl_ci_plan_clear(&plan);
    kl_cifile_clear(&x.record);
    kl_cifile_clear(&done);
    kl_fcidump_destroy(&f);
    kl_exec_close(&ex);
    return st;
}
