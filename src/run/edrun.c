/* Exact diagonalization from options to results: see edrun.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/edrun.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "config.h"
#include "io/checked.h"
#include "run/beyond.h"
#include "run/edmeasure.h"
#include "run/edprobe.h"
#include "run/edresult.h"
#include "run/edspin.h"
#include "run/outputs.h"
#include "run/request.h"
#include "run/runfile.h"
#include "solve/davidson.h"

kl_bipartition_form kl_edrun_form(const kl_options *o)
{
    return o->form == NULL || strcmp(o->form, "auto") == 0 ? KL_BIPARTITION_AUTO
           : strcmp(o->form, "sites") == 0                 ? KL_BIPARTITION_SITES
                                                           : KL_BIPARTITION_FLAVOURS;
}

/* of more states, per state */
enum {
    PRODUCTS = 2000,
    PRODUCTS_EACH = 500,
    MANY = 16,
};
enum {
    FEW = 1000000
}; /* states of a sector whose total spin and cut-off are told though nothing else wants eigenvectors */

void kl_edrun_opts(const kl_task *t, kl_ed_opts *out)
{
    const kl_options *const o = t->o;
    *out = (kl_ed_opts){.nstate = o->states > 0 ? (int)o->states : 1,
                        .accuracy = o->accuracy > 0 ? o->accuracy : 1e-10,
                        .max_basis = (int)o->basis,
                        .max_apply = o->max_products > 0 ? (int)o->max_products
                                     : o->states > MANY  ? (int)(PRODUCTS_EACH * o->states)
                                                         : PRODUCTS,
                        .seed = t->dmrg.seed,
                        .sorted = t->ex && kl_ranks_size(t->ex) > 1, /* no executor: for a plan */
                        .want_vectors = o->measure.n > 0 || o->spectral.n > 0};
    for (int s = KL_ED_LANCZOS; s <= KL_ED_FULL; s++)
        if (o->solver != NULL && strcmp(o->solver, kl_ed_solver_name[s]) == 0) out->solver = (kl_ed_solver)s;
    out->neumann = (int)o->neumann_order;
    for (int p = KL_ED_DIAGONAL; p <= KL_ED_BARE; p++)
        if (o->precondition != NULL && strcmp(o->precondition, kl_ed_precondition_name[p]) == 0)
            out->precondition = (kl_ed_precondition)p;
}

int kl_edrun_writes(const kl_options *o) { return o->output != NULL && strcmp(o->output, "none") != 0; }

/* ---------------------------------------------------------------- who is told */

static int on_step(void *self, int napply, double energy, double residual)
{
    kl_edrun *const x = self;
    x->seen[0] = napply;
    x->seen[1] = energy;
    x->seen[2] = residual;
    if (x->watch != NULL && x->watch->product != NULL)
        x->watch->product(x->watch->self, napply, energy, residual);
    return kl_ranks_any(x->t->ex, kl_interrupted());
}

static int on_level(void *self, int level, double change)
{
    const kl_edrun *const x = self;
    const kl_watch *const w = x->watch;
    if (w != NULL && w->level != NULL) w->level(w->self, level, change);
    return kl_ranks_any(x->t->ex, kl_interrupted());
}

/* ---------------------------------------------------------------- one sector */

/* Before anything large is allocated. What a device has is the executor's to say. */
static kl_status check_memory(const kl_task *t, kl_qn target, const kl_ed_opts *opts, kl_err *err)
{
    kl_ed_plan p;
    char a[32], b[32], c[32], charges[256];
    const kl_status st =
        kl_ed_make_plan(t->terms, target, kl_edrun_form(t->o), opts, t->ex->nthread, &p, err);
    /* of the ranks that share this machine */
    const kl_comm *const shared = t->ex->ranks != NULL ? t->ex->ranks->comm : NULL;
    const double part = shared != NULL ? (double)shared->nlocal / shared->size : 1.0,
                 need = part * p.vector_bytes * p.nvector +
                        (shared != NULL ? shared->nlocal : 1) * p.table_bytes;
    if (st != KL_OK || t->ex->space != KL_SPACE_HOST || need <= kl_mem_machine_bytes()) return st;
    return kl_fail(err, KL_ENOMEM,
                   "the sector %s of %s has %.15g states: %d vectors of %s need %s, and this machine has %s; "
                   "no symmetry of the lattice is used to make sectors smaller",
                   kl_qn_print(t->model, target, charges, sizeof charges), t->lat->spec, p.size.dim,
                   p.nvector, kl_mem_text(p.vector_bytes, a), kl_mem_text(need, b),
                   kl_mem_text(kl_mem_machine_bytes(), c));
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

kl_status kl_edrun_operator(const kl_task *t, kl_qn target, const kl_ed_opts *opts, kl_ed **ed, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_options *const o = t->o;
    KL_TRY(check_memory(t, target, opts, err));
    const kl_bipartition_form form = kl_edrun_form(o);
    KL_TRY(
        kl_ed_create(t->terms, target, opts->sorted ? form | KL_BIPARTITION_SORTED : form, t->ex, ed, err));
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

/* r anew, for the sector of ed; options: of the command line. */
static kl_status make_result(const kl_task *t, const kl_ed *ed, const kl_ed_result *found,
                             const char *options, kl_result **r, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result_destroy(r);
    const kl_result_origin origin = {KL_VERSION, t->o->command_line, options};
    KL_TRY(kl_result_create(t->model, t->lat, t->params, t->dmrg.target, t->dmrg.seed, &origin, r, err));
    KL_TRY(kl_edresult_add(*r, ed, found, err));
out:
    return st;
}

/* An unfinished run goes on as it was begun. */
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

/* Numbers of one state of several that agree are those of any mixture. */
static void tell_one_of_many(const kl_edrun *x, const kl_ed_result *found)
{
    const kl_options *const o = x->t->o;
    const int many = found->multiplet[0];
    const char *const what = o->spectral.n > 0 ? "spectral functions are" : "what is measured is";
    char note[300];
    if (many == 1 || kl_edresult_whole(found) > 0 || (o->spectral.n == 0 && (o->measure.n == 0 || many == 0)))
        return;
    if (many == 0)
        snprintf(
            note, sizeof note,
            "%s of the one state that was found; --states 2 tells whether others are as low, and takes the "
            "mean over them",
            what);
    else if (found->open_multiplet)
        snprintf(
            note, sizeof note,
            "%s of one of at least %d states that agree in the lowest energy, which may be any mixture of "
            "them; more --states give the mean over all",
            what, many);
    else
        snprintf(
            note, sizeof note,
            "%s of one of the %d states that agree in the lowest energy, which may be any mixture of them; "
            "--states %d gives the mean over all",
            what, many, many);
    kl_watch_note(x->watch, note);
}

/* The states of a sector, and what is measured on them; a run that goes on may have them already. */
static kl_status find_states(kl_edrun *w, kl_ed_opts *opts, const char *options, kl_edkeep *keep,
                             kl_ed_result *found, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_task *const t = w->t;
    const kl_options *const o = t->o;
    kl_ed *const ed = w->ed;
    kl_ed_measured *m = NULL;
    int nmeasured = 0;
    if (keep->stage == KL_EDSTAGE_SPECTRA) {
        KL_TRY(refuse_typed(o,
                            (const char *const[]){"spectral", "broadening", "frequencies", "measure", "steps",
                                                  "states", "accuracy", "solver", NULL},
                            "spectral functions", err));
        KL_TRY(kl_edkeep_vectors(keep, 0, err));
        KL_TRY(kl_edprobe_states(keep, ed, found, &w->x, &w->ldx, err));
        return kl_result_read(keep->path, &keep->r, err);
    }
    if (keep->file.number) KL_TRY(kl_edkeep_vectors(keep, kl_linop_all(&ed->op), err));
    KL_TRY(make_result(
        t, ed, &(kl_ed_result){.dim = ed->space->dim, .n = kl_linop_all(&ed->op), .stop = KL_ED_INTERRUPTED},
        options, &keep->r, err));
    keep->seen = w->seen;
    if (keep->path) opts->keeper = &keep->keeper;
    opts->as_found = !opts->want_vectors;
    const char *top[KL_REQUEST_STANDARD];
    const int told = w->square != NULL || (t->molecule == NULL && kl_request_tops(t->model, top) > 0);
    const int wanted = opts->want_vectors || (told && ed->space->dim <= FEW);
    KL_TRY(kl_ed_run(ed, opts, wanted ? &w->x : NULL, &w->ldx, found, err));
    keep->seen = NULL;
    keep->stage = KL_EDSTAGE_SPECTRA;
    keep->keeper.from = NULL;
    if (found->stop == KL_ED_INTERRUPTED) return KL_OK;
    KL_TRY(make_result(t, ed, found, options, &keep->r, err)); /* a new one, without what a checkpoint held */
    if (w->square != NULL && w->x.addr)
        KL_TRY(kl_edspin_add(w->square, ed, found->nstate, w->x, w->ldx, keep->r, err));
    KL_TRY(kl_edmeasure_run(t, ed, found, w->x, w->ldx, &m, &nmeasured, err));
    for (int i = 0; i < nmeasured; i++)
        KL_TRY(kl_result_add(keep->r, m[i].name, m[i].note, m[i].rank, m[i].shape, m[i].value, err));
out:
    kl_edmeasure_free(&m, nmeasured);
    return st;
}

kl_status kl_edrun_sector(kl_edrun *x, kl_qn target, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *const t = x->t;
    kl_edkeep keep;
    kl_ed_opts opts;
    kl_ed_result found = {0};
    char *options = NULL;
    kl_edkeep_open(&keep, t->ex, x->path, t->o->checkpoint_every, x->watch);
    keep.pace.kept = x->going_on;
    kl_edrun_opts(t, &opts);
    opts.want_vectors |= x->want_vectors;
    opts.self = x;
    opts.step = on_step;
    t->dmrg.target = target;
    if (x->going_on) {
        KL_TRY(kl_edkeep_read(&keep, err));
        opts.sorted = keep.sorted;
    }
    KL_TRY(kl_edrun_operator(t, target, &opts, &x->ed, err));
    if (t->molecule == NULL) KL_TRY(kl_edspin_create(t, &x->square, err));
    keep.n = kl_linop_all(&x->ed->op);
    keep.begin = x->ed->begin;
    keep.sorted = x->ed->space->right.behind > 0;
    KL_TRY(kl_runfile_options(t->o, t, NULL, &options, err));
    KL_TRY(find_states(x, &opts, options, &keep, &found, err));
    x->stopped = found.stop == KL_ED_INTERRUPTED;
    if (!x->stopped) {
        tell_one_of_many(x, &found);
        const kl_edprobe_opts probes = {.keep = keep.path ? &keep : NULL, .self = x, .step = on_level};
        KL_TRY(kl_edprobe_run(t, x->ed, &found, x->x, x->ldx, &probes, keep.r, &x->stopped, err));
    }
    keep.r->finished = !x->stopped;
    x->r = keep.r;
    keep.r = NULL;
out:
    x->kept = keep.pace.kept;
    kl_edkeep_close(&keep);
    kl_result_destroy(&keep.r);
    kl_free(&options);
    kl_ed_result_clear(&found);
    kl_edspin_destroy(&x->square);
    if (st != KL_OK) kl_edrun_clear(x);
    else if (!x->want_vectors) {
        if (x->x.addr) t->ex->vt.release(t->ex, &x->x);
        kl_ed_destroy(&x->ed);
    }
    return st;
}

void kl_edrun_clear(kl_edrun *x)
{
    if (x->x.addr) x->t->ex->vt.release(x->t->ex, &x->x);
    kl_ed_destroy(&x->ed);
    kl_result_destroy(&x->r);
}

/* ---------------------------------------------------------------- many sectors */

kl_status kl_edrun_check_memory(const kl_task *t, int64_t n, const kl_qn *sector, kl_err *err)
{
    kl_status st = KL_OK;
    kl_ed_opts opts;
    kl_edrun_opts(t, &opts);
    opts.want_vectors = 0;
    for (int64_t i = 0; i < n && st == KL_OK; i++) st = check_memory(t, sector[i], &opts, err);
    return st;
}

kl_status kl_edrun_energies(kl_edrun *x, kl_qn target, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *const t = x->t;
    kl_ed *ed = NULL;
    kl_ed_opts opts;
    kl_ed_result found = {0};
    char *options = NULL;
    kl_edrun_opts(t, &opts);
    opts.self = x;
    opts.step = on_step;
    opts.want_vectors = 0;
    t->dmrg.target = target;
    KL_TRY(kl_edrun_operator(t, target, &opts, &ed, err));
    KL_TRY(kl_runfile_options(t->o, t, NULL, &options, err));
    KL_TRY(kl_ed_run(ed, &opts, NULL, NULL, &found, err));
    KL_TRY(make_result(t, ed, &found, options, &x->r, err));
    x->stopped = found.stop == KL_ED_INTERRUPTED;
out:
    kl_free(&options);
    kl_ed_result_clear(&found);
    kl_ed_destroy(&ed);
    return st;
}

/* ---------------------------------------------------------------- thermodynamics */

typedef struct sampling { /* of one sector */
    const kl_edrun *x;
    char charges[160];
} sampling;

static int on_sample(void *self, int sample, int step)
{
    const sampling *const s = self;
    const kl_watch *const w = s->x->watch;
    if (w != NULL && w->sample != NULL) w->sample(w->self, s->charges, sample, step);
    return kl_ranks_any(s->x->t->ex, kl_interrupted());
}

/* What a sector needs at most: for its samples, or for its lowest states. */
static kl_status thermal_opts(const kl_task *t, kl_qn sector, int sorted, kl_ed_opts *out, kl_err *err)
{
    kl_ed_plan p;
    *out = (kl_ed_opts){.solver = KL_ED_LANCZOS, .nstate = 1, .sorted = sorted};
    const kl_status st = kl_ed_make_plan(t->terms, sector, kl_edrun_form(t->o), out, t->ex->nthread, &p, err);
    if (st != KL_OK || p.size.dim <= (double)KL_ED_FULL_AUTO) return st;
    *out = kl_thermal_lowest(p.size.dim);
    out->sorted = sorted;
    return KL_OK;
}

kl_status kl_edrun_thermal(kl_edrun *x, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *const t = x->t;
    sampling watched = {.x = x};
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
                            .self = &watched,
                            .step = on_sample};
    kl_ed_opts needs;
    int sorted = kl_ranks_size(t->ex) > 1;
    kl_edkeep_open(&keep, t->ex, x->path, o->checkpoint_every, x->watch);
    keep.pace.kept = x->going_on;
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
    for (int64_t i = 0; i < n; i++) {
        KL_TRY(thermal_opts(t, sector[i], sorted, &needs, err));
        KL_TRY(check_memory(t, sector[i], &needs, err));
    }
    t->dmrg.target = t->target;
    KL_TRY(kl_runfile_options(o, t, NULL, &options, err));
    if (x->going_on) {
        KL_TRY(kl_edkeep_read(&keep, err));
        if (keep.stage != KL_EDSTAGE_THERMAL)
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "--resume: %.300s holds no thermodynamics under way; leave --temperatures out",
                           keep.path));
        KL_TRY(refuse_typed(o, (const char *const[]){"charge", "samples", "steps", "seed", NULL},
                            "thermodynamics", err));
        sorted = keep.sorted;
        keep.keeper.from = &keep.file.from; /* its numbers; the vectors when the sector is there */
    }
    keep.stage = KL_EDSTAGE_THERMAL;
    if (keep.path) opts.keeper = &keep.keeper;
    KL_TRY(kl_thermal_create(t->model, &opts, &sum, err));
    for (int64_t i = kl_thermal_about(sum).nsector; i < n && !x->stopped; i++) {
        kl_qn_print(t->model, sector[i], watched.charges, sizeof(watched.charges));
        KL_TRY(thermal_opts(t, sector[i], sorted, &needs, err));
        KL_TRY(kl_edrun_operator(t, sector[i], &needs, &ed, err));
        keep.n = kl_linop_all(&ed->op);
        keep.begin = ed->begin;
        keep.sorted = ed->space->right.behind > 0;
        if (keep.keeper.from) KL_TRY(kl_edkeep_vectors(&keep, kl_linop_all(&ed->op), err));
        KL_TRY(make_result(
            t, ed,
            &(kl_ed_result){.dim = ed->space->dim, .n = kl_linop_all(&ed->op), .stop = KL_ED_INTERRUPTED},
            options, &keep.r, err));
        for (int c = t->model->ncharge - 1; c >= 0; c--)
            if (t->scan[c]) kl_result_drop_charge(keep.r, c);
        KL_TRY(kl_thermal_add(sum, ed, &x->stopped, err));
        kl_edkeep_close(&keep);
        kl_ed_destroy(&ed);
    }
    if (x->stopped) goto out;
    KL_TRY(kl_alloc(&row, ntemperature, KL_MEM_MISC, err));
    for (int i = 0; i < ntemperature; i++) KL_TRY(kl_thermal_evaluate(sum, temperature[i], &row[i], err));
    const kl_thermal_facts facts = kl_thermal_about(sum);
    kl_result_destroy(&keep.r);
    const kl_result_origin origin = {KL_VERSION, o->command_line, options};
    KL_TRY(kl_result_create(t->model, t->lat, t->params, t->target, t->dmrg.seed, &origin, &keep.r, err));
    KL_TRY(kl_edresult_add_thermal(keep.r, t->model, t->scan, opts.nsample, &facts, ntemperature, row, err));
out:
    x->kept = keep.pace.kept;
    if (st == KL_OK) {
        x->r = keep.r;
        keep.r = NULL;
    }
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

/* ---------------------------------------------------------------- before a run */

/* Products with H in a sector, about: what runs were seen to take. */
static void count_products(const kl_options *o, const kl_ed_plan *p, int nstate, kl_work *w)
{
    const double lanczos = 100, block = 60, levels = 200, some_samples = 20, some_steps = 100;
    const double steps = o->steps > 0 ? (double)o->steps : o->temperatures != NULL ? some_steps : levels;
    double alone = 0;
    if (o->temperatures != NULL) {
        nstate = kl_thermal_lowest(p->size.dim).nstate;
        alone = (o->samples > 0 ? (double)o->samples : some_samples) * fmin(steps, p->size.dim);
    } else if (p->solver == KL_ED_FULL) return;
    else alone = (double)o->spectral.n * fmin(steps, p->size.dim);
    /* Davidson's method, and Lanczos' of several states, pass over a basis instead: about as much */
    w->width = nstate + (int)KL_ED_GUARDS;
    if (nstate > 1) w->block = block * w->width;
    else if (nstate == 1) alone += lanczos;
    w->products = alone + w->block;
}

/* Vectors that the solver wants on a device at least. */
static double least_vectors(const kl_ed_plan *p, const kl_ed_opts *opts)
{
    const int n = opts->nstate + KL_ED_GUARDS;
    const kl_eig_opts o = {.nroot = n, .max_basis = opts->max_basis};
    return p->solver == KL_ED_DAVIDSON ? kl_davidson_least_columns(&o, INT64_C(1) << 30) + n + 1 : p->nvector;
}

/* What the sectors of t come to: [*n], to be freed. */
static kl_status find_work(const kl_task *t, int64_t *n, kl_work **out, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_options *const o = t->o;
    const int stored = o->store != NULL && strcmp(o->store, "matrix") == 0;
    kl_qn *sector = NULL;
    kl_ed_opts opts;
    kl_ed_plan p;
    *n = 1;
    kl_edrun_opts(t, &opts);
    if (o->temperatures != NULL) opts = (kl_ed_opts){.solver = KL_ED_LANCZOS, .nstate = 1};
    if (t->scanning) KL_TRY(kl_task_sectors(t, n, &sector, err));
    KL_TRY(kl_alloc(out, *n, KL_MEM_MISC, err));
    for (int64_t i = 0; i < *n; i++) {
        kl_work *const w = &(*out)[i];
        KL_TRY(kl_ed_make_plan(t->terms, sector != NULL ? sector[i] : t->target, kl_edrun_form(o), &opts, 1,
                               &p, err));
        const double nonzeros = stored ? p.size.n * p.row_nonzeros : 0;
        *w = (kl_work){.what = stored ? KL_TIMED_SPMV : KL_TIMED_KRON,
                       .size = fmax(stored ? nonzeros / (int)KL_OPTIME_ROW : p.size.n, 1),
                       .scale = stored ? 1 : p.slower,
                       .n = fmax(p.size.n, 1),
                       .bytes = p.vector_bytes * p.nvector + p.table_bytes + 12 * nonzeros,
                       .tables = p.table_bytes,
                       .least = p.vector_bytes * least_vectors(&p, &opts)};
        count_products(o, &p, opts.nstate, w);
    }
out:
    kl_free(&sector);
    return st;
}

kl_status kl_edrun_exec(kl_task *t, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t n = 0;
    kl_work *work = NULL;
    if (kl_placement_automatic(t->o) || t->o->exec != NULL) KL_TRY(find_work(t, &n, &work, err));
    KL_TRY(kl_task_exec_work(t->o, n, work, &t->ex, err));
    KL_TRY(kl_beyond_wrap(n, work, &t->ex, err));
out:
    kl_free(&work);
    return st;
}

kl_status kl_edrun_open(kl_options *o, const kl_task_given *given, kl_task **t, kl_result **done, kl_err *err)
{
    kl_status st = KL_OK;
    *t = NULL;
    *done = NULL;
    if (o->resume != NULL) {
        KL_TRY(kl_option_says("resume", kl_result_read(o->resume, done, err), err));
        if (!kl_edresult_is(*done))
            KL_TRY(kl_fail(
                err, KL_EINPUT,
                "--resume: %.300s is not of exact diagonalization; `kronlat dmrg --resume' goes on with it",
                o->resume));
        if ((*done)->finished)
            KL_TRY(kl_fail(err, KL_EINPUT, "--resume: the run in %.300s has finished", o->resume));
        KL_TRY(kl_runfile_adopt(o, *done, err));
        /* another H, or another order of its states */
        KL_TRY(refuse_typed(o, (const char *const[]){"pin", "form", NULL}, "a run", err));
    }
    KL_TRY(kl_options_check(o, err));
    KL_TRY(kl_outputs_check(o, NULL, err));
    KL_TRY(kl_task_create_given(o, given, t, err));
    KL_TRY(kl_edmeasure_check(*t, o->measure.n, o->measure.text, err));
    for (int i = 0; i < o->spectral.n; i++) KL_TRY(kl_edprobe_check(*t, o->spectral.text[i], err));
    KL_TRY(kl_task_charges(*t, err));
    KL_TRY(kl_edrun_exec(*t, err));
    if (kl_edrun_writes(o) && kl_ranks_first((*t)->ex)) KL_TRY(kl_checked_probe(o->output, err));
    if (*done)
        KL_TRY(kl_result_match(o->resume, *done, (*t)->model, (*t)->lat, (*t)->params, (*t)->target,
                               KL_MATCH_RUN, err));
    if (!*done && o->temperatures == NULL && !(*t)->scanning) KL_TRY(check_states(*t, (*t)->target, err));
out:
    if (st != KL_OK) kl_task_destroy(t);
    if (st != KL_OK) kl_result_destroy(done);
    return st;
}
