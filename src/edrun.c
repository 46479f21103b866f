/* `kronlat ed' and its plan: from options to a solved sector and its report.
   SPDX-License-Identifier: Apache-2.0 */
#include "edrun.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "edmeasure.h"
#include "json.h"
#include "mem.h"
#include "report.h"

kl_halves_form kl_edrun_form(const kl_options *o)
{
    return o->form == NULL || strcmp(o->form, "auto") == 0 ? KL_HALVES_AUTO : strcmp(o->form, "sites") == 0 ? KL_HALVES_SITES : KL_HALVES_FLAVOURS;
}

void kl_edrun_opts(const kl_task *t, kl_ed_opts *out)
{
    const kl_options *const o = t->o;
    *out = (kl_ed_opts){.nstate = o->states > 0 ? (int)o->states : 1, .accuracy = o->accuracy > 0 ? o->accuracy : 1e-10, .max_basis = (int)o->basis,
                        .max_apply = o->max_products > 0 ? (int)o->max_products : 2000, .seed = t->dmrg.seed,
                        .want_vectors = o->measure.n > 0 || (o->output != NULL && strcmp(o->output, "none") != 0)};
    for (int s = KL_ED_LANCZOS; s <= KL_ED_FULL; s++)
        if (o->solver != NULL && strcmp(o->solver, kl_ed_solver_name[s]) == 0) out->solver = (kl_ed_solver)s;
}

/* ---------------------------------------------------------------- progress */

typedef struct watcher {
    int (*interrupted)(void);
    int live, verbose, drawn;
    double last, started;
} watcher;

static int on_step(void *self, int napply, double energy, double residual)
{
    watcher *const w = self;
    const double now = kl_clock();
    if ((w->live && now - w->last > 0.2) || w->verbose) {
        fprintf(stderr, w->verbose ? "product %d  E %.12f  residual %.1e  %.1f s\n" : "\rproduct %d  E %.12f  residual %.1e  %.1f s   ", napply, energy, residual,
                now - w->started);
        w->drawn = w->live && !w->verbose;
        w->last = now;
    }
    return w->interrupted && w->interrupted();
}

static void clear_line(watcher *w)
{
    if (w->drawn) fprintf(stderr, "\r%79s\r", "");
    w->drawn = 0;
}

/* ---------------------------------------------------------------- reports */

static const char *stop_text(kl_ed_stop stop)
{
    static const char *const text[] = {"converged", "stagnated: this is what the arithmetic can reach", "not converged: --max-products reached", "interrupted"};
    return text[stop]; /* ORDER kl_ed_stop */
}

static void print_text(const kl_task *t, const kl_ed *ed, const kl_ed_result *r, const kl_ed_measured *m, int nmeasured)
{
    char charges[256], bytes[2][32];
    printf("%s%s%s%s, %s, %d sites, %s\n", t->model->name, *t->model->variant ? "(" : "", t->model->variant, *t->model->variant ? ")" : "", t->lat->spec, t->lat->nsite,
           kl_qn_print(t->model, t->target, charges, sizeof charges));
    printf("sector       %lld states, halves are %s (%lld and %lld states); %s a vector, %d held, tables %s\n", (long long)r->dim,
           ed->space->flavours ? "the two flavours" : "sites", (long long)ed->space->left.begin[ed->space->left.nsec],
           (long long)ed->space->right.begin[ed->space->right.nsec], kl_report_bytes(8.0 * (double)r->n, bytes[0]), r->nvector,
           kl_report_bytes((double)kl_kron_bytes(ed->kron), bytes[1]));
    for (int k = 0; k < r->nstate; k++) {
        printf("%s%-*d %.14g", k == 0 ? "energy " : "state  ", 5, k, r->energy[k]);
        if (k > 0) printf("  %.6e above the lowest", r->energy[k] - r->energy[0]);
        printf("  +- %.0e  residual %.1e", fmax(r->error[k], r->attainable), r->residual[k]);
        if (r->multiplet[k] > 1) printf("  one of %s%d that agree", r->open_multiplet && k + r->multiplet[k] >= r->nstate ? "at least " : "", r->multiplet[k]);
        printf("\n");
    }
    if (r->multiplet[0] == 0) printf("degeneracy   not looked at by one Lanczos vector; --states 2 tells\n");
    if (r->nfull > 0) printf("spectrum     all %d energies, from %.12g to %.12g\n", r->nfull, r->full[0], r->full[r->nfull - 1]);
    for (int i = 0; i < nmeasured; i++) kl_edmeasure_print(&m[i]);
    printf("stop         %s\n", stop_text(r->stop));
    printf("work         %s, %d products with H, %.3g s (%.3g s in them: %.3g million states a second), %d restarts; made ready in %.2g s; %s, %d thread%s\n",
           kl_ed_solver_name[r->solver], r->napply, r->seconds, r->seconds_apply, r->seconds_apply > 0 ? 1e-6 * r->napply * (double)r->dim / r->seconds_apply : 0.0,
           r->nrestart, ed->seconds_build, t->ex->name, t->ex->nthread, t->ex->nthread == 1 ? "" : "s");
}

static void print_json(const kl_task *t, const kl_ed *ed, const kl_ed_result *r, const kl_ed_measured *m, int nmeasured)
{
    char charges[256];
    kl_json j = kl_json_begin(stdout);
    kl_json_open(&j, NULL, '{');
    kl_json_text(&j, "program", "kronlat " KL_VERSION);
    kl_json_text(&j, "command", "ed");
    kl_json_text(&j, "model", t->model->name);
    kl_json_text(&j, "variant", t->model->variant);
    kl_json_text(&j, "lattice", t->lat->spec);
    kl_json_int(&j, "sites", t->lat->nsite);
    kl_json_text(&j, "charges", kl_qn_print(t->model, t->target, charges, sizeof charges));
    kl_json_int(&j, "dimension", r->dim);
    kl_json_text(&j, "halves", ed->space->flavours ? "flavours" : "sites");
    kl_json_int(&j, "vector_bytes", 8 * r->n);
    kl_json_int(&j, "vectors", r->nvector);
    kl_json_int(&j, "table_bytes", kl_kron_bytes(ed->kron));
    kl_json_reals(&j, "energy", r->nstate, r->energy);
    kl_json_reals(&j, "residual", r->nstate, r->residual);
    kl_json_reals(&j, "error", r->nstate, r->error);
    kl_json_real(&j, "attainable", r->attainable);
    kl_json_open(&j, "multiplet", '[');
    for (int k = 0; k < r->nstate; k++) kl_json_int(&j, NULL, r->multiplet[k]);
    kl_json_close(&j, ']');
    kl_json_bool(&j, "open_multiplet", r->open_multiplet);
    if (r->nfull > 0) kl_json_reals(&j, "spectrum", r->nfull, r->full);
    for (int i = 0; i < nmeasured; i++) kl_json_reals(&j, m[i].name, m[i].n, m[i].value);
    kl_json_bool(&j, "converged", r->stop == KL_ED_CONVERGED);
    kl_json_text(&j, "stop", stop_text(r->stop));
    kl_json_text(&j, "solver", kl_ed_solver_name[r->solver]);
    kl_json_int(&j, "products", r->napply);
    kl_json_real(&j, "seconds", r->seconds);
    kl_json_real(&j, "seconds_products", r->seconds_apply);
    kl_json_text(&j, "exec", t->ex->name);
    kl_json_int(&j, "threads", t->ex->nthread);
    kl_json_close(&j, '}');
    kl_json_end(&j);
}

/* The result file that `show' and `plot' read; it holds numbers, not vectors. */
static kl_status write_file(const kl_task *t, const kl_ed_result *r, const kl_ed_measured *m, int nmeasured, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result *f = NULL;
    kl_dmrg_result d = {.nstate = r->nstate, .error_estimate = fmax(r->error[0], r->attainable), .energy_extrapolated = r->energy[0],
                        .stop = r->stop == KL_ED_CONVERGED || r->stop == KL_ED_STAGNATED ? KL_STOP_CONVERGED : r->stop == KL_ED_INTERRUPTED ? KL_STOP_INTERRUPTED : KL_STOP_SCHEDULE,
                        .napply = r->napply, .seconds = r->seconds, .dim_max = r->dim};
    memcpy(d.energy, r->energy, sizeof(double) * (size_t)r->nstate);
    memcpy(d.energy_kept, r->energy, sizeof(double) * (size_t)r->nstate);
    double degeneracy[KL_MAX_ROOT];
    for (int k = 0; k < r->nstate; k++) degeneracy[k] = r->multiplet[k];
    const int64_t n = r->nstate, all = r->nfull;
    char options[512];
    snprintf(options, sizeof options, "model=%s\nmethod=ed\n", t->model->name);
    KL_TRY(kl_result_create(t->model, t->lat, t->params, t->target, t->dmrg.seed, KL_VERSION, t->o->command_line, options, &f, err));
    KL_TRY(kl_result_set_dmrg(f, &d, err));
    f->finished = r->stop != KL_ED_INTERRUPTED;
    KL_TRY(kl_result_add(f, "ed/residual", "|H x - E x| of each state", 1, &n, r->residual, err));
    KL_TRY(kl_result_add(f, "ed/degeneracy", "states that share the energy; 0: not looked at", 1, &n, degeneracy, err));
    if (all > 0) KL_TRY(kl_result_add(f, "ed/spectrum", "all energies of the sector", 1, &all, r->full, err));
    for (int i = 0; i < nmeasured; i++) KL_TRY(kl_result_add(f, m[i].name, m[i].note, m[i].rank, m[i].shape, m[i].value, err));
    KL_TRY(kl_result_write(t->o->output, f, NULL, err));
out:
    kl_result_destroy(&f);
    return st;
}

/* ---------------------------------------------------------------- commands */

kl_status kl_edrun_command(const kl_options *o, int (*interrupted)(void), int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *t = NULL;
    kl_ed *ed = NULL;
    kl_ed_opts opts;
    kl_ed_result r = {0};
    kl_dptr x = {0};
    int64_t ld = 0;
    kl_ed_measured *m = NULL;
    int nmeasured = 0;
    watcher w = {.interrupted = interrupted, .live = isatty(2), .verbose = o->verbose, .started = kl_clock()};
    KL_TRY(kl_options_check(o, err));
    KL_TRY(kl_task_create(o, 0, &t, err));
    KL_TRY(kl_edmeasure_check(t, o->measure.n, o->measure.text, err));
    KL_TRY(kl_task_charges(t, err));
    if (t->scanning) KL_TRY(kl_fail(err, KL_EINPUT, "--charge scan: exact diagonalization takes one sector; give each charge a value"));
    KL_TRY(kl_task_exec(o, &t->ex, err));
    kl_edrun_opts(t, &opts);
    opts.self = &w;
    opts.step = on_step;
    KL_TRY(kl_ed_create(t->terms, t->target, kl_edrun_form(o), t->ex, &ed, err));
    KL_TRY(kl_ed_run(ed, &opts, opts.want_vectors ? &x : NULL, &ld, &r, err));
    clear_line(&w);
    if (o->measure.n > 0 && r.stop != KL_ED_INTERRUPTED) KL_TRY(kl_edmeasure_run(t, ed, &r, x, ld, o->measure.n, o->measure.text, &m, &nmeasured, err));
    if (o->json) print_json(t, ed, &r, m, nmeasured);
    else print_text(t, ed, &r, m, nmeasured);
    *stopped = r.stop == KL_ED_INTERRUPTED;
    if (o->output != NULL && strcmp(o->output, "none") != 0) KL_TRY(write_file(t, &r, m, nmeasured, err));
out:
    clear_line(&w);
    kl_edmeasure_free(&m, nmeasured);
    if (x.addr) t->ex->vt.release(t->ex, &x);
    kl_ed_result_clear(&r);
    kl_ed_destroy(&ed);
    kl_task_destroy(&t);
    return st;
}

kl_status kl_edrun_plan(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *t = NULL;
    kl_ed_opts opts;
    kl_ed_plan p;
    char charges[256], bytes[4][32];
    KL_TRY(kl_task_create(o, 0, &t, err));
    KL_TRY(kl_task_charges(t, err));
    if (t->scanning) KL_TRY(kl_fail(err, KL_EINPUT, "--charge scan: a plan is for one sector; give each charge a value"));
    kl_edrun_opts(t, &opts);
    const int nthread = kl_task_threads(o);
    KL_TRY(kl_ed_make_plan(t->terms, t->target, kl_edrun_form(o), &opts, nthread, &p, err));
    kl_qn_print(t->model, t->target, charges, sizeof charges);
    if (o->json) {
        kl_json j = kl_json_begin(stdout);
        kl_json_open(&j, NULL, '{');
        kl_json_text(&j, "command", "plan");
        kl_json_text(&j, "method", "ed");
        kl_json_text(&j, "model", t->model->name);
        kl_json_text(&j, "lattice", t->lat->spec);
        kl_json_text(&j, "charges", charges);
        kl_json_text(&j, "halves", p.size.flavours ? "flavours" : "sites");
        kl_json_real(&j, "dimension", p.size.dim);
        kl_json_real(&j, "left_states", p.size.left);
        kl_json_real(&j, "right_states", p.size.right);
        kl_json_real(&j, "vector_bytes", p.vector_bytes);
        kl_json_int(&j, "vectors", p.nvector);
        kl_json_real(&j, "table_bytes", p.table_bytes);
        kl_json_real(&j, "seconds_product", p.seconds_apply);
        kl_json_close(&j, '}');
        kl_json_end(&j);
    } else {
        printf("%s, %s, %d sites, %s: exact diagonalization\n", t->model->name, t->lat->spec, t->lat->nsite, charges);
        printf("states       %.15g\n", p.size.dim);
        printf("halves       %s: %.15g and %.15g states\n", p.size.flavours ? "the two flavours" : "sites before and behind a cut", p.size.left, p.size.right);
        printf("memory       %s a vector, %d of them; tables about %s; %s in all\n", kl_report_bytes(p.vector_bytes, bytes[0]), p.nvector,
               kl_report_bytes(p.table_bytes, bytes[1]), kl_report_bytes(p.vector_bytes * p.nvector + p.table_bytes, bytes[2]));
        printf("time         about %.2g s a product with H on %d thread%s; 40 to 150 products for the lowest energy\n", p.seconds_apply, nthread, nthread == 1 ? "" : "s");
    }
out:
    kl_task_destroy(&t);
    return st;
}
