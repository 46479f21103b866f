/* `kronlat ed' and its plan: progress and reports of runs that run/edrun.h makes. Computes nothing itself.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/edcli.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/edreport.h"
#include "cli/json.h"
#include "cli/rankscli.h"
#include "config.h"
#include "lib/handles.h"
#include "run/edrun.h"

/* ---------------------------------------------------------------- progress */

typedef struct watcher {
    int live, verbose, drawn;
    double last, started;
    const kl_edreport_scan *scan; /* what --charge scan has found, when the sector of the lowest is solved */
} watcher;

static void on_product(void *self, int napply, double energy, double residual)
{
    watcher *const w = self;
    const double now = kl_clock();
    if ((!w->live || now - w->last <= 0.2) && !w->verbose) return;
    fprintf(stderr,
            w->verbose ? "product %d  E %.12f  residual %.1e  %.1f s\n"
                       : "\rproduct %d  E %.12f  residual %.1e  %.1f s   ",
            napply, energy, residual, now - w->started);
    w->drawn = w->live && !w->verbose;
    w->last = now;
}

static void clear_line(watcher *w)
{
    if (w->drawn) fprintf(stderr, "\r%79s\r", "");
    w->drawn = 0;
}

static void on_level(void *self, int step, double change)
{
    watcher *const w = self;
    clear_line(w);
    if (w->verbose) fprintf(stderr, "level %d  change %.1e  %.1f s\n", step, change, kl_clock() - w->started);
}

static void on_sample(void *self, const char *charges, int sample, int step)
{
    watcher *const w = self;
    const double now = kl_clock();
    if (!w->live || now - w->last <= 0.2) return;
    fprintf(stderr, "\r%s sample %d, step %d  %.1f s   ", charges, sample + 1, step, now - w->started);
    w->drawn = 1;
    w->last = now;
}

static void on_note(void *self, const char *text)
{
    clear_line(self);
    kl_report_note(text);
}

/* ---------------------------------------------------------------- one run */

static void print_result(const kl_task *t, const kl_result *r, const char *path, const watcher *w)
{
    const kl_run_facts facts = {t->ex->name, t->ex->nthread, path, kl_clock() - w->started, NULL, w->scan};
    if (t->o->json) kl_edreport_json(stdout, r, &facts);
    else kl_edreport_text(stdout, r, &facts);
}

static void say_interrupted(const char *path, int kept)
{
    char text[1400];
    if (!kl_rankscli_tells()) return;
    if (path == NULL) snprintf(text, sizeof(text), "interrupted; nothing was kept (no --output)");
    else if (!kept) snprintf(text, sizeof(text), "interrupted; nothing was kept (no checkpoint was written)");
    else
        snprintf(text, sizeof(text), "interrupted; go on with: kronlat %s --resume %.1000s",
                 kl_command_name(KL_CMD_ED), path);
    kl_report_error(text);
}

/* All that is asked for in the sector of t, or of all temperatures, by the library. Where the file cannot be
   written, the report comes all the same. done: a checkpoint to go on from, or NULL. */
static kl_status run_whole(kl_options *o, kl_task *t, kl_result *done, watcher *w, const kl_watch *watch,
                           int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    kronlat_problem *problem = NULL;
    kronlat_result *r = NULL;
    kronlat_error *const why = kronlat_error_create();
    const char *const path = o->resume != NULL ? o->resume : kl_edrun_writes(o) ? o->output : NULL;
    if (why == NULL) return kl_fail(err, KL_ENOMEM, "no memory to begin");
    KL_TRY(kl_problem_borrow(o, t, done, watch, &problem, err));
    problem->path = path;
    const kronlat_status found = kronlat_ed(problem, &r, why);
    clear_line(w);
    *stopped = found == KRONLAT_CANCELLED && r != NULL;
    if (*stopped) {
        say_interrupted(path, r->kept);
        goto out;
    }
    if (r != NULL) print_result(t, r->r, r->unwritten == KL_OK ? path : NULL, w);
    KL_TRY(kl_status_of(found, why, err));
out:
    kronlat_result_destroy(r);
    kronlat_problem_destroy(problem);
    kronlat_error_destroy(why);
    return st;
}

/* ---------------------------------------------------------------- many sectors */

/* The lowest energies of all; then all that was asked for in the sector of the lowest. */
static kl_status run_scan(kl_options *o, kl_task *t, watcher *w, const kl_watch *watch, int *stopped,
                          kl_err *err)
{
    kl_status st = KL_OK;
    kl_qn *sector = NULL;
    int64_t n = 0;
    kl_edreport_item *item = NULL;
    kl_edrun x = {.t = t, .watch = watch};
    int ndone = 0, lowest = 0;
    char title[512];
    KL_TRY(kl_task_sectors(t, &n, &sector, err));
    KL_TRY(kl_alloc(&item, n, KL_MEM_MISC, err));
    KL_TRY(kl_edrun_check_memory(t, n, sector, err));
    for (int64_t i = 0; i < n && !*stopped; i++) {
        kl_edreport_item *const to = &item[ndone];
        KL_TRY(kl_edrun_energies(&x, sector[i], &to->found, err));
        kl_free(&to->found.full); /* a scan tells the lowest */
        to->found.nfull = 0;
        kl_qn_print(t->model, sector[i], to->label, sizeof(to->label));
        *stopped = to->found.stop == KL_ED_INTERRUPTED;
        if (*stopped) break;
        if (to->found.energy[0] < item[lowest].found.energy[0]) lowest = ndone;
        ndone++;
    }
    clear_line(w);
    snprintf(title, sizeof(title), "%s%s%s%s, %s, all sectors, exact", t->model->name,
             *t->model->variant ? "(" : "", t->model->variant, *t->model->variant ? ")" : "", t->lat->spec);
    if (*stopped && kl_rankscli_tells()) kl_report_error("interrupted; the sectors told are done");
    const int more = !*stopped && (o->measure.n > 0 || o->spectral.n > 0 || kl_edrun_writes(o));
    if (!(more && o->json)) kl_edreport_table(stdout, title, ndone, item, lowest, o->json);
    if (more) {
        t->scanning = 0; /* one sector from here on: so says its checkpoint */
        const kl_edreport_scan scan = {ndone, lowest, item};
        w->scan = &scan;
        t->target = sector[lowest];
        st = run_whole(o, t, NULL, w, watch, stopped, err);
        w->scan = NULL;
    }
out:
    clear_line(w);
    for (int64_t i = 0; item != NULL && i < n; i++) kl_ed_result_clear(&item[i].found);
    kl_free(&item);
    kl_free(&sector);
    return st;
}

/* ---------------------------------------------------------------- commands */

kl_status kl_edcli_run(kl_options *o, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *t = NULL;
    kl_result *done = NULL;
    const int first = kl_rankscli_tells();
    watcher w = {.live = first && isatty(2), .verbose = first && o->verbose, .started = kl_clock()};
    const kl_watch watch = {.self = &w,
                            .note = first ? on_note : NULL,
                            .product = on_product,
                            .level = on_level,
                            .sample = on_sample};
    KL_TRY(kl_edrun_open(o, NULL, &t, &done, err));
    if (t->scanning && o->temperatures == NULL) KL_TRY(run_scan(o, t, &w, &watch, stopped, err));
    else KL_TRY(run_whole(o, t, done, &w, &watch, stopped, err));
out:
    kl_task_destroy(&t);
    kl_result_destroy(&done);
    return st;
}

kl_status kl_edcli_plan(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *t = NULL;
    kl_ed_opts opts;
    kl_ed_plan p;
    kl_rankplan *ranks = NULL;
    int nrank = 0;
    char charges[256], bytes[4][32];
    KL_TRY(kl_task_create(o, 0, &t, err));
    KL_TRY(kl_task_charges(t, err));
    KL_TRY(kl_task_one_sector(t, "a plan is for", err));
    kl_edrun_opts(t, &opts);
    const int nthread = kl_task_threads(o);
    KL_TRY(kl_ed_make_plan(t->terms, t->target, kl_edrun_form(o), &opts, nthread, &p, err));
    if (o->ranks > 0) KL_TRY(kl_rankplan_ed(&p, (int)o->ranks, &nrank, &ranks, err));
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
        kl_report_rankplan_json(&j, nrank, ranks);
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
        kl_report_rankplan(stdout, "product", nrank, ranks);
    }
out:
    kl_free(&ranks);
    kl_task_destroy(&t);
    return st;
}
