/* `kronlat ed' and its plan: from options to solved sectors, what is measured on them, and checkpoints.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/edrun.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "cli/edkeep.h"
#include "cli/edmeasure.h"
#include "cli/edprobe.h"
#include "cli/edreport.h"
#include "cli/json.h"
#include "base/mem.h"
#include "cli/outputs.h"
#include "cli/runfile.h"
#include "io/sealed.h"

kl_halves_form kl_edrun_form(const kl_options *o)
{
    return o->form == NULL || strcmp(o->form, "auto") == 0 ? KL_HALVES_AUTO
           : strcmp(o->form, "sites") == 0                 ? KL_HALVES_SITES
                                                           : KL_HALVES_FLAVOURS;
}

void kl_edrun_opts(const kl_task *t, kl_ed_opts *out)
{
    const kl_options *const o = t->o;
    *out = (kl_ed_opts){.nstate = o->states > 0 ? (int)o->states : 1,
                        .accuracy = o->accuracy > 0 ? o->accuracy : 1e-10,
                        .max_basis = (int)o->basis,
                        .max_apply = o->max_products > 0 ? (int)o->max_products : 2000,
                        .seed = t->dmrg.seed,
                        .want_vectors = o->measure.n > 0 || o->spectral.n > 0};
    for (int s = KL_ED_LANCZOS; s <= KL_ED_FULL; s++)
        if (o->solver != NULL && strcmp(o->solver, kl_ed_solver_name[s]) == 0) out->solver = (kl_ed_solver)s;
    out->neumann = (int)o->neumann_order;
    for (int p = KL_ED_DIAGONAL; p <= KL_ED_BARE; p++)
        if (o->precondition != NULL && strcmp(o->precondition, kl_ed_precondition_name[p]) == 0)
            out->precondition = (kl_ed_precondition)p;
}

/* ---------------------------------------------------------------- progress */

typedef struct watcher {
    int live, verbose, drawn;
    double last, started;
    char prefix[160];
    const kl_edreport_scan *scan; /* what --charge scan has found, when the sector of the lowest is solved */
    double seen[3]; /* products, lowest energy and its residual at the last step */
} watcher;

static int on_step(void *self, int napply, double energy, double residual)
{
    watcher *const w = self;
    const double now = kl_clock();
    w->seen[0] = napply;
    w->seen[1] = energy;
    w->seen[2] = residual;
    if ((w->live && now - w->last > 0.2) || w->verbose) {
        fprintf(stderr,
                w->verbose ? "product %d  E %.12f  residual %.1e  %.1f s\n"
                           : "\rproduct %d  E %.12f  residual %.1e  %.1f s   ",
                napply, energy, residual, now - w->started);
        w->drawn = w->live && !w->verbose;
        w->last = now;
    }
    return kl_interrupted();
}

static void clear_line(watcher *w)
{
    if (w->drawn) fprintf(stderr, "\r%79s\r", "");
    w->drawn = 0;
}

static int on_level(void *self, int step, double change)
{
    watcher *const w = self;
    if (w->verbose) fprintf(stderr, "level %d  change %.1e  %.1f s\n", step, change, kl_clock() - w->started);
    return kl_interrupted();
}

/* ---------------------------------------------------------------- one sector */

/* Before anything large is allocated. What a device has is the executor's to say. */
static kl_status check_memory(const kl_task *t, kl_qn target, const kl_ed_opts *opts, kl_err *err)
{
    kl_ed_plan p;
    char a[32], b[32], c[32], charges[256];
    const kl_status st =
        kl_ed_make_plan(t->terms, target, kl_edrun_form(t->o), opts, t->ex->nthread, &p, err);
    const double need = p.vector_bytes * p.nvector + p.table_bytes;
    if (st != KL_OK || t->ex->space != KL_SPACE_HOST || need <= kl_mem_machine_bytes()) return st;
    return kl_fail(err, KL_ENOMEM,
                   "the sector %s of %s has %.15g states: %d vectors of %s need %s, and this machine has %s; "
                   "no symmetry of the lattice is used to make sectors smaller",
                   kl_qn_print(t->model, target, charges, sizeof charges), t->lat->spec, p.size.dim,
                   p.nvector, kl_report_bytes(p.vector_bytes, a), kl_report_bytes(need, b),
                   kl_report_bytes(kl_mem_machine_bytes(), c));
}

/* Asked for by name: a scan takes all that a small sector has. */
static kl_status check_states(const kl_task *t, kl_qn target, kl_err *err)
{
    kl_ed_opts opts;
    kl_ed_plan p;
    char charges[256];
    kl_edrun_opts(t, &opts);
    const kl_status st =
        kl_ed_make_plan(t->terms, target, kl_edrun_form(t->o), &opts, t->ex->nthread, &p, err);
    if (st != KL_OK || (double)opts.nstate <= p.size.dim) return st;
    kl_qn_print(t->model, target, charges, sizeof charges);
    return kl_fail(err, KL_EINPUT, "--states: %d states are asked for, but the sector%s%s has only %.15g",
                   opts.nstate, charges[0] != '\0' ? " " : "", charges, p.size.dim);
}

static kl_status make_ed(const kl_task *t, kl_qn target, const kl_ed_opts *opts, kl_ed **ed, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_options *const o = t->o;
    KL_TRY(check_memory(t, target, opts, err));
    KL_TRY(kl_ed_create(t->terms, target, kl_edrun_form(o), t->ex, ed, err));
    if (o->store != NULL && strcmp(o->store, "matrix") == 0) {
        kl_spopts format = {
            .format = KL_SP_CSR, .boundary = o->boundary, .height = o->slice, .sigma = o->sigma};
        if (o->format != NULL) (void)kl_spformat_parse(o->format, &format.format);
        KL_TRY(kl_ed_store(*ed, &format, o->half,
                           o->memory > 0 ? 1e9 * o->memory : 0.5 * kl_mem_machine_bytes(), err));
    }
out:
    if (st != KL_OK) kl_ed_destroy(ed);
    return st;
}

static int writes(const kl_options *o) { return o->output != NULL && strcmp(o->output, "none") != 0; }

static void print_result(const kl_task *t, const kl_result *r, const char *path, const watcher *w)
{
    const kl_run_facts facts = {t->ex->name, t->ex->nthread, path, kl_clock() - w->started, NULL, w->scan};
    if (t->o->json) kl_edreport_json(stdout, r, &facts);
    else kl_edreport_text(stdout, r, &facts);
}

/* Where the file cannot be written, the report comes all the same. path: NULL for none. */
static kl_status write_and_print(const kl_task *t, const kl_result *r, const char *path, const watcher *w,
                                 kl_err *err)
{
    const kl_status st = path ? kl_result_write(path, r, NULL, err) : KL_OK;
    print_result(t, r, st == KL_OK ? path : NULL, w);
    return st;
}

static void say_interrupted(const kl_edkeep *keep)
{
    char text[1400];
    if (keep->path == NULL) snprintf(text, sizeof(text), "interrupted; nothing was kept (no --output)");
    else if (!keep->pace.kept)
        snprintf(text, sizeof(text), "interrupted; nothing was kept (no checkpoint was written)");
    else
        snprintf(text, sizeof(text), "interrupted; go on with: kronlat %s --resume %.1000s",
                 kl_command_name(KL_CMD_ED), keep->path);
    kl_report_error(text);
}

/* r anew, for the sector of ed; options: of the command line. */
static kl_status make_result(const kl_task *t, const kl_ed *ed, const kl_ed_result *found,
                             const char *options, kl_result **r, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result_destroy(r);
    KL_TRY(kl_result_create(t->model, t->lat, t->params, t->dmrg.target, t->dmrg.seed, KL_VERSION,
                            t->o->command_line, options, r, err));
    KL_TRY(kl_edreport_add(*r, ed, found, err));
out:
    return st;
}

/* What is under way goes on as it was begun. */
static kl_status refuse_typed(const kl_options *o, const char *const *names, const char *under_way,
                              kl_err *err)
{
    const char *const name = kl_options_typed(o, names);
    return name == NULL
               ? KL_OK
               : kl_fail(err, KL_EINPUT,
                         "--resume: %.300s holds %s under way, which --%s cannot change; leave it out",
                         o->resume, under_way, name);
}

/* The states of a sector, and what is measured on them; a run that goes on may have them already. */
static kl_status find_states(const kl_task *t, kl_ed *ed, kl_ed_opts *opts, const char *options, watcher *w,
                             kl_edkeep *keep, kl_ed_result *found, kl_dptr *x, int64_t *ld, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_options *const o = t->o;
    kl_ed_measured *m = NULL;
    int nmeasured = 0;
    if (keep->stage == KL_EDSTAGE_SPECTRA) {
        KL_TRY(refuse_typed(o,
                            (const char *const[]){"spectral", "broadening", "frequencies", "measure", "steps",
                                                  "states", "accuracy", "solver", NULL},
                            "spectral functions", err));
        KL_TRY(kl_edkeep_vectors(keep, 0, err));
        KL_TRY(kl_edprobe_states(keep, ed, found, x, ld, err));
        return kl_result_read(keep->path, &keep->r, err);
    }
    if (keep->number) KL_TRY(kl_edkeep_vectors(keep, ed->op.n, err));
    KL_TRY(make_result(t, ed,
                       &(kl_ed_result){.dim = ed->space->dim, .n = ed->op.n, .stop = KL_ED_INTERRUPTED},
                       options, &keep->r, err));
    keep->seen = w->seen;
    if (keep->path) opts->keeper = &keep->keeper;
    KL_TRY(kl_ed_run(ed, opts, opts->want_vectors ? x : NULL, ld, found, err));
    keep->seen = NULL;
    keep->stage = KL_EDSTAGE_SPECTRA;
    keep->keeper.from = NULL;
    if (found->stop == KL_ED_INTERRUPTED) return KL_OK;
    clear_line(w);
    KL_TRY(make_result(t, ed, found, options, &keep->r, err)); /* without what a checkpoint said */
    KL_TRY(kl_edmeasure_run(t, ed, found, *x, *ld, o->measure.n, o->measure.text, &m, &nmeasured, err));
    for (int i = 0; i < nmeasured; i++)
        KL_TRY(kl_result_add(keep->r, m[i].name, m[i].note, m[i].rank, m[i].shape, m[i].value, err));
out:
    kl_edmeasure_free(&m, nmeasured);
    return st;
}

/* going_on: from a checkpoint. */
static kl_status run_sector(kl_task *t, kl_qn target, int going_on, watcher *w, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_options *const o = t->o;
    kl_edkeep keep;
    kl_ed *ed = NULL;
    kl_ed_opts opts;
    kl_ed_result found = {0};
    kl_dptr x = {0};
    int64_t ld = 0;
    char *options = NULL;
    kl_edkeep_open(&keep, t->ex,
                   o->resume != NULL ? o->resume
                   : writes(o)       ? o->output
                                     : NULL,
                   o->checkpoint_every);
    keep.pace.kept = going_on;
    kl_edrun_opts(t, &opts);
    opts.self = w;
    opts.step = on_step;
    t->dmrg.target = target;
    KL_TRY(make_ed(t, target, &opts, &ed, err));
    keep.n = ed->op.n;
    if (going_on) KL_TRY(kl_edkeep_read(&keep, err));
    KL_TRY(kl_runfile_options(o, t, NULL, &options, err));
    KL_TRY(find_states(t, ed, &opts, options, w, &keep, &found, &x, &ld, err));
    *stopped = found.stop == KL_ED_INTERRUPTED;
    if (!*stopped) {
        const kl_edprobe_opts probes = {.keep = keep.path ? &keep : NULL, .self = w, .step = on_level};
        KL_TRY(kl_edprobe_run(t, ed, &found, x, ld, &probes, keep.r, stopped, err));
    }
    clear_line(w);
    if (*stopped) {
        say_interrupted(&keep);
        goto out;
    }
    keep.r->finished = 1;
    KL_TRY(write_and_print(t, keep.r, keep.path, w, err));
out:
    clear_line(w);
    kl_edkeep_close(&keep);
    kl_result_destroy(&keep.r);
    kl_free(&options);
    if (x.addr) t->ex->vt.release(t->ex, &x);
    kl_ed_result_clear(&found);
    kl_ed_destroy(&ed);
    return st;
}

/* ---------------------------------------------------------------- many sectors */

/* The lowest energies of all; then all that was asked for in the sector of the lowest. */
static kl_status run_scan(kl_task *t, watcher *w, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_options *const o = t->o;
    kl_qn *sector = NULL;
    int64_t n = 0;
    kl_edreport_item *item = NULL;
    kl_ed *ed = NULL;
    kl_ed_opts opts;
    int ndone = 0, lowest = 0;
    char title[512];
    KL_TRY(kl_task_sectors(t, &n, &sector, err));
    KL_TRY(kl_alloc(&item, n, KL_MEM_MISC, err));
    kl_edrun_opts(t, &opts);
    opts.self = w;
    opts.step = on_step;
    opts.want_vectors = 0;
    for (int64_t i = 0; i < n; i++) KL_TRY(check_memory(t, sector[i], &opts, err));
    for (int64_t i = 0; i < n && !*stopped; i++) {
        kl_edreport_item *const to = &item[ndone];
        KL_TRY(make_ed(t, sector[i], &opts, &ed, err));
        KL_TRY(kl_ed_run(ed, &opts, NULL, NULL, &to->found, err));
        kl_ed_result_clear(&to->found);
        kl_ed_destroy(&ed);
        kl_qn_print(t->model, sector[i], to->label, sizeof(to->label));
        *stopped = to->found.stop == KL_ED_INTERRUPTED;
        if (*stopped) break;
        if (to->found.energy[0] < item[lowest].found.energy[0]) lowest = ndone;
        ndone++;
    }
    clear_line(w);
    snprintf(title, sizeof(title), "%s%s%s%s, %s, all sectors, exact", t->model->name,
             *t->model->variant ? "(" : "", t->model->variant, *t->model->variant ? ")" : "", t->lat->spec);
    if (*stopped) kl_report_error("interrupted; the sectors told are done");
    const int more = !*stopped && (o->measure.n > 0 || o->spectral.n > 0 || writes(o));
    if (!(more && o->json)) kl_edreport_table(stdout, title, ndone, item, lowest, o->json);
    if (more) {
        t->scanning = 0; /* one sector from here on: so says its checkpoint */
        const kl_edreport_scan scan = {ndone, lowest, item};
        w->scan = &scan;
        st = run_sector(t, sector[lowest], 0, w, stopped, err);
        w->scan = NULL;
    }
out:
    kl_ed_destroy(&ed);
    kl_free(&item);
    kl_free(&sector);
    return st;
}

static int on_sample(void *self, int sample, int step)
{
    watcher *const w = self;
    const double now = kl_clock();
    if ((w->live && now - w->last > 0.2)) {
        fprintf(stderr, "\r%s sample %d, step %d  %.1f s   ", w->prefix, sample + 1, step, now - w->started);
        w->drawn = 1;
        w->last = now;
    }
    return kl_interrupted();
}

static kl_status run_thermal(kl_task *t, int going_on, watcher *w, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_options *const o = t->o;
    kl_qn *sector = NULL;
    kl_ed *ed = NULL;
    kl_thermal *sum = NULL;
    kl_thermal_row *row = NULL;
    char *options = NULL;
    double *temperature = NULL;
    int64_t n = 0;
    int ntemperature = 0;
    kl_edkeep keep;
    kl_thermal_opts opts = {.nsample = o->samples > 0 ? (int)o->samples : 20,
                            .nstep = (int)o->steps,
                            .seed = t->dmrg.seed,
                            .self = w,
                            .step = on_sample};
    const kl_ed_opts three = {.solver = KL_ED_LANCZOS, .nstate = 1};
    kl_edkeep_open(&keep, t->ex,
                   o->resume != NULL ? o->resume
                   : writes(o)       ? o->output
                                     : NULL,
                   o->checkpoint_every);
    keep.pace.kept = going_on;
    KL_TRY(kl_options_values("--temperatures", o->temperatures, &ntemperature, &temperature, err));
    for (int i = 0; i < ntemperature; i++)
        if (!(temperature[i] > 0.0))
            KL_TRY(kl_fail(err, KL_EINPUT, "--temperatures: %g; every temperature has to be above 0",
                           temperature[i]));
    if (t->scanning) KL_TRY(kl_task_sectors(t, &n, &sector, err));
    else {
        KL_TRY(kl_alloc(&sector, 1, KL_MEM_MISC, err));
        sector[0] = t->target;
        n = 1;
    }
    for (int64_t i = 0; i < n; i++) KL_TRY(check_memory(t, sector[i], &three, err));
    t->dmrg.target = t->target;
    KL_TRY(kl_runfile_options(o, t, NULL, &options, err));
    if (going_on) {
        KL_TRY(kl_edkeep_read(&keep, err));
        if (keep.stage != KL_EDSTAGE_THERMAL)
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "--resume: %.300s holds no thermodynamics under way; leave --temperatures out",
                           keep.path));
        KL_TRY(refuse_typed(o, (const char *const[]){"charge", "samples", "steps", "seed", NULL},
                            "thermodynamics", err));
        keep.keeper.from = &keep.from; /* its numbers; the vectors when the sector is there */
    }
    keep.stage = KL_EDSTAGE_THERMAL;
    if (keep.path) opts.keeper = &keep.keeper;
    KL_TRY(kl_thermal_create(t->model, &opts, &sum, err));
    for (int64_t i = kl_thermal_about(sum).nsector; i < n && !*stopped; i++) {
        kl_qn_print(t->model, sector[i], w->prefix, sizeof(w->prefix));
        KL_TRY(make_ed(t, sector[i], &three, &ed, err));
        keep.n = ed->op.n;
        if (keep.keeper.from) KL_TRY(kl_edkeep_vectors(&keep, ed->op.n, err));
        KL_TRY(make_result(t, ed,
                           &(kl_ed_result){.dim = ed->space->dim, .n = ed->op.n, .stop = KL_ED_INTERRUPTED},
                           options, &keep.r, err));
        for (int c = t->model->ncharge - 1; c >= 0; c--)
            if (t->scan[c]) kl_result_drop_charge(keep.r, c);
        KL_TRY(kl_thermal_add(sum, ed, stopped, err));
        kl_edkeep_close(&keep);
        kl_ed_destroy(&ed);
    }
    clear_line(w);
    if (*stopped) {
        say_interrupted(&keep);
        goto out;
    }
    KL_TRY(kl_alloc(&row, ntemperature, KL_MEM_MISC, err));
    for (int i = 0; i < ntemperature; i++) KL_TRY(kl_thermal_evaluate(sum, temperature[i], &row[i], err));
    const kl_thermal_facts facts = kl_thermal_about(sum);
    kl_result_destroy(&keep.r);
    KL_TRY(kl_result_create(t->model, t->lat, t->params, t->target, t->dmrg.seed, KL_VERSION, o->command_line,
                            options, &keep.r, err));
    KL_TRY(kl_edreport_add_thermal(keep.r, t->model, t->scan, opts.nsample, &facts, ntemperature, row, err));
    KL_TRY(write_and_print(t, keep.r, keep.path, w, err));
out:
    clear_line(w);
    kl_edkeep_close(&keep);
    kl_result_destroy(&keep.r);
    kl_free(&options);
    kl_free(&row);
    kl_thermal_destroy(&sum);
    kl_ed_destroy(&ed);
    kl_free(&temperature);
    kl_free(&sector);
    return st;
}

/* ---------------------------------------------------------------- commands */

kl_status kl_edrun_command(kl_options *o, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *t = NULL;
    kl_result *done = NULL;
    watcher w = {.live = isatty(2), .verbose = o->verbose, .started = kl_clock()};
    if (o->resume != NULL) {
        KL_TRY(kl_result_read(o->resume, &done, err));
        if (!kl_edreport_is(done))
            KL_TRY(kl_fail(
                err, KL_EINPUT,
                "--resume: %.300s is not of exact diagonalization; `kronlat dmrg --resume' goes on with it",
                o->resume));
        if (done->finished)
            KL_TRY(kl_fail(err, KL_EINPUT, "--resume: the run in %.300s has finished", o->resume));
        KL_TRY(kl_runfile_adopt(o, done, err));
        /* another H, or another order of its states */
        KL_TRY(refuse_typed(o, (const char *const[]){"pin", "form", NULL}, "a run", err));
    }
    KL_TRY(kl_options_check(o, err));
    KL_TRY(kl_outputs_check(o, NULL, err));
    KL_TRY(kl_task_create(o, 0, &t, err));
    KL_TRY(kl_edmeasure_check(t, o->measure.n, o->measure.text, err));
    for (int i = 0; i < o->spectral.n; i++) KL_TRY(kl_edprobe_check(t, o->spectral.text[i], err));
    KL_TRY(kl_task_charges(t, err));
    KL_TRY(kl_task_exec(o, &t->ex, err));
    if (writes(o)) KL_TRY(kl_sealed_probe(o->output, err));
    if (done) KL_TRY(kl_result_match(o->resume, done, t->model, t->lat, t->params, t->target, 1, err));
    if (o->temperatures != NULL) KL_TRY(run_thermal(t, done != NULL, &w, stopped, err));
    else if (t->scanning) KL_TRY(run_scan(t, &w, stopped, err));
    else {
        if (done == NULL) KL_TRY(check_states(t, t->target, err));
        KL_TRY(run_sector(t, t->target, done != NULL, &w, stopped, err));
    }
out:
    kl_task_destroy(&t);
    kl_result_destroy(&done);
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
    KL_TRY(kl_task_one_sector(t, "a plan is for", err));
    kl_edrun_opts(t, &opts);
    const int nthread = kl_task_threads(o);
    KL_TRY(kl_ed_make_plan(t->terms, t->target, kl_edrun_form(o), &opts, nthread, &p, err));
    kl_qn_print(t->model, t->target, charges, sizeof charges);
    if (o->json) {
        kl_json j = kl_json_begin(stdout);
        kl_report_json_open(&j, KL_VERSION, "plan");
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
        printf("%s, %s, %d sites, %s: exact diagonalization\n", t->model->name, t->lat->spec, t->lat->nsite,
               charges);
        printf("states       %.15g\n", p.size.dim);
        printf("halves       %s: %.15g and %.15g states\n",
               p.size.flavours ? "the two flavours" : "sites before and behind a cut", p.size.left,
               p.size.right);
        printf("memory       %s a vector, %d of them; tables about %s; %s in all\n",
               kl_report_bytes(p.vector_bytes, bytes[0]), p.nvector, kl_report_bytes(p.table_bytes, bytes[1]),
               kl_report_bytes(p.vector_bytes * p.nvector + p.table_bytes, bytes[2]));
        if (p.solver == KL_ED_FULL)
            printf("time         all states by LAPACK, some %.2g s\n",
                   3.5e-10 * p.size.dim * p.size.dim * p.size.dim);
        else
            printf("time         about %.2g s a product with H on %d thread%s; 40 to 250 products for the "
                   "lowest energy\n",
                   p.seconds_apply, nthread, nthread == 1 ? "" : "s");
    }
out:
    kl_task_destroy(&t);
    return st;
}
