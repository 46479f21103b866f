/* `kronlat ed' and its plan: progress and reports of runs that run/edrun.h makes. Computes nothing itself.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/edcli.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/edreport.h"
#include "base/json.h"
#include "cli/rankscli.h"
#include "cli/runtable.h"
#include "cli/series.h"
#include "cli/tasknotes.h"
#include "config.h"
#include "lib/handles.h"
#include "run/edresult.h"
#include "run/edrun.h"
#include "run/edscan.h"
#include "run/outputs.h"
#include "run/request.h"

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
    if (sample < 0)
        fprintf(stderr, "\r%s lowest states, product %d  %.1f s   ", charges, step, now - w->started);
    else fprintf(stderr, "\r%s sample %d, step %d  %.1f s   ", charges, sample + 1, step, now - w->started);
    w->drawn = 1;
    w->last = now;
}

static void on_note(void *self, const char *text)
{
    clear_line(self);
    kl_report_note(text);
}

static kl_watch watch_of(watcher *w)
{
    return (kl_watch){.self = w,
                      .note = kl_rankscli_tells() ? on_note : NULL,
                      .product = on_product,
                      .level = on_level,
                      .sample = on_sample};
}

/* ---------------------------------------------------------------- one run */

static void print_result(const kl_task *t, const kl_result *r, const char *path, const watcher *w)
{
    const kl_run_facts facts = {.exec = t->ex->name,
                                .nthread = t->ex->nthread,
                                .output = path,
                                .seconds = kl_clock() - w->started,
                                .scan = w->scan,
                                .ran = t->ex};
    if (t->o->json) kl_edreport_json(stdout, r, &facts);
    else kl_edreport_text(stdout, r, &facts);
}

/* Energies alone say nothing of what a cut-off costs. r NULL: these are all there is. Told once. */
static void tell_unseen(const kl_task *t, const kl_result *r)
{
    static int told;
    const char *top[KL_REQUEST_STANDARD];
    double weight;
    int site;
    if (told || t->molecule != NULL || !kl_rankscli_tells() || kl_request_tops(t->model, top) == 0) return;
    if (r != NULL && kl_request_cutoff(r, &weight, &site)) return;
    told = 1;
    kl_report_note("what the cut-off of the highest occupation costs was not looked at; a larger one (-p "
                   "n_max=...) tells, or --measure top where one sector is solved");
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
   written, what was found comes all the same. done: a checkpoint to go on from, or NULL; *stopped 1: somebody
   asked to stop, and *r is what a checkpoint would say. */
static kl_status find_whole(kl_options *o, kl_task *t, kl_result *done, const kl_watch *watch,
                            kronlat_result **r, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    kronlat_problem *problem = NULL;
    kronlat_error *const why = kronlat_error_create();
    if (why == NULL) return kl_fail(err, KL_ENOMEM, "no memory to begin");
    KL_TRY(kl_problem_borrow(o, t, done, watch, &problem, err));
    problem->path = o->resume != NULL ? o->resume : kl_edrun_writes(o) ? o->output : NULL;
    const kronlat_status found = kronlat_ed(problem, r, why);
    *stopped = found == KRONLAT_CANCELLED && *r != NULL;
    if (!*stopped) KL_TRY(kl_status_of(found, why, err));
out:
    kronlat_problem_destroy(problem);
    kronlat_error_destroy(why);
    return st;
}

static kl_status run_whole(kl_options *o, kl_task *t, kl_result *done, watcher *w, const kl_watch *watch,
                           int *stopped, kl_err *err)
{
    kronlat_result *r = NULL;
    const char *const path = o->resume != NULL ? o->resume : kl_edrun_writes(o) ? o->output : NULL;
    const kl_status st = find_whole(o, t, done, watch, &r, stopped, err);
    clear_line(w);
    if (*stopped) say_interrupted(path, r->kept);
    else if (r != NULL) {
        print_result(t, r->r, r->unwritten == KL_OK ? path : NULL, w);
        tell_unseen(t, r->r);
    }
    kronlat_result_destroy(r);
    return st;
}

static kl_status open_one(void *self, kl_options *o, kl_task **t, kl_err *err)
{
    kl_result *done = NULL; /* there is no --resume */
    kl_status st = KL_OK;
    (void)self;
    KL_TRY(kl_edrun_open(o, NULL, t, &done, err));
    KL_TRY(kl_tasknotes(*t, err));
out:
    return st;
}

/* One of a series of runs. */
static kl_status run_one(void *self, kl_task *t, kl_result *done, const char *label, kl_result **r,
                         char *path, kl_err *err)
{
    kl_status st = KL_OK;
    watcher *const w = self;
    kronlat_result *found = NULL;
    int stopped = 0;
    const kl_watch watch = watch_of(w);
    (void)label;
    KL_TRY(find_whole((kl_options *)(uintptr_t)t->o, t, done, &watch, &found, &stopped, err));
    *r = found->r;
    found->r = NULL;
    (*r)->finished = !stopped;
    if (!stopped) tell_unseen(t, *r);
    snprintf(path, 1024, "%s", kl_edrun_writes(t->o) ? t->o->output : "");
out:
    clear_line(w);
    kronlat_result_destroy(found);
    return st;
}

/* ---------------------------------------------------------------- many sectors */

/* How many sectors there are, and about how long they take: a hundred products with H each. */
static kl_status announce(const kl_options *o, const kl_task *t, int64_t n, const kl_qn *sector,
                          const int64_t *image, kl_err *err)
{
    kl_status st = KL_OK;
    char note[120];
    double seconds = 0;
    kl_ed_opts opts;
    if (n < 2 || !kl_rankscli_tells()) return KL_OK;
    kl_edrun_opts(t, &opts);
    for (int64_t i = 0; i < n; i++) {
        kl_ed_plan p;
        if (image[i] >= 0) continue;
        KL_TRY(kl_ed_make_plan(t->terms, sector[i], kl_edrun_form(o), &opts, kl_task_threads(o), &p, err));
        seconds += 100 * p.seconds_apply;
    }
    if (seconds < 1) return KL_OK; /* nobody waits */
    snprintf(note, sizeof note, "%lld sectors, about %.2g s", (long long)n, seconds);
    kl_report_note(note);
out:
    return st;
}

/* The energies of a sector's reflection are its own. */
static kl_status copy_energies(const kl_ed_result *from, kl_ed_result *to, kl_err *err)
{
    const size_t n = sizeof(double) * (size_t)from->nstate;
    const kl_status st = kl_ed_result_states(to, from->nstate, err);
    if (st != KL_OK) return st;
    to->dim = from->dim;
    to->n = from->n;
    to->attainable = from->attainable;
    to->open_multiplet = from->open_multiplet;
    to->stop = from->stop;
    to->solver = from->solver;
    memcpy(to->energy, from->energy, n);
    memcpy(to->residual, from->residual, n);
    memcpy(to->error, from->error, n);
    memcpy(to->multiplet, from->multiplet, sizeof(int) * (size_t)from->nstate);
    return KL_OK;
}

/* The file of --csv; on stdout its lines. */
static kl_status write_table(const kl_options *o, const kl_edreport_scan *told, int to_stdout, kl_err *err)
{
    const int n = told->n, lowest = told->lowest;
    const kl_edreport_item *const item = told->item;
    kl_status st = KL_OK;
    kl_report_item *row = NULL;
    if (o->csv == NULL || n == 0) return KL_OK;
    KL_TRY(kl_alloc(&row, n, KL_MEM_MISC, err));
    for (int i = 0; i < n; i++) {
        const kl_ed_result *const f = &item[i].found;
        row[i].exact = 1;
        row[i].lowest = i == lowest;
        row[i].nstate = f->nstate < KL_MAX_STATE ? f->nstate : KL_MAX_STATE;
        row[i].error_estimate = kl_edreport_error(&item[i]);
        memcpy(row[i].energy, f->energy, sizeof(double) * (size_t)row[i].nstate);
        snprintf(row[i].label, sizeof row[i].label, "%s", item[i].label);
    }
    if (!kl_runtable_piped(o)) KL_TRY(kl_runtable_csv(o, n, row, told->gaps, err));
    else if (to_stdout) kl_runtable_print(stdout, n, row, told->gaps);
out:
    kl_free(&row);
    return st;
}

/* Sums of --gap over the sectors that are done. row[n] is theirs. */
static kl_status find_gaps(const kl_options *o, int n, const kl_edreport_item *item, kl_gaptable_row **row,
                           kl_gaptable *out, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(row, n, KL_MEM_MISC, err));
    for (int i = 0; i < n; i++)
        (*row)[i] = (kl_gaptable_row){item[i].label, item[i].found.energy[0], kl_edreport_error(&item[i])};
    KL_TRY(kl_gaptable_create(o->gap.n, o->gap.text, n, *row, out, err));
out:
    return st;
}

/* A scan: its sectors, which of them H reflects into others, and what is found. */
typedef struct scan {
    kl_task *t;
    const kl_watch *watch;
    int64_t n, *image;
    kl_qn *sector;
    int ndone, lowest;
    kl_edreport_item *item; /* [n] */
    char path[1024]; /* of what is done, beside the file of the result; "": none is kept */
    kl_edscan kept;
} scan;

static kl_status open_scan(const kl_options *o, kl_task *t, scan *s, kl_err *err)
{
    kl_status st = KL_OK;
    char note[1200];
    s->t = t;
    KL_TRY(kl_task_sectors(t, &s->n, &s->sector, err));
    KL_TRY(kl_alloc(&s->item, s->n, KL_MEM_MISC, err));
    KL_TRY(kl_edrun_check_memory(t, s->n, s->sector, err));
    KL_TRY(kl_alloc(&s->image, s->n, KL_MEM_MISC, err));
    KL_TRY(kl_task_images(t, s->n, s->sector, s->image, err));
    KL_TRY(announce(o, t, s->n, s->sector, s->image, err));
    t->dmrg.target = t->target;
    if (!kl_edrun_writes(o)) goto out;
    KL_TRY(kl_series_name(o->output, "scan.part", s->path, err));
    KL_TRY(kl_outputs_check_one(o, s->path, err));
    KL_TRY(kl_edscan_read(t, s->path, s->n, s->sector, &s->kept, err));
    snprintf(note, sizeof note, "%d of these sectors: taken from %.1000s", s->kept.n, s->path);
    if (s->kept.n > 0 && kl_rankscli_tells()) kl_report_note(note);
out:
    return st;
}

static void close_scan(scan *s)
{
    for (int64_t i = 0; s->item != NULL && i < s->n; i++) kl_ed_result_clear(&s->item[i].found);
    kl_free(&s->item);
    kl_free(&s->image);
    kl_free(&s->sector);
    kl_edscan_clear(&s->kept);
}

/* The energies of sector i, by the library. */
static kl_status find_energies(const scan *s, int64_t i, kl_ed_result *found, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *const t = s->t;
    const kl_qn whole = t->target;
    kronlat_problem *problem = NULL;
    kronlat_result *r = NULL;
    kronlat_error *const why = kronlat_error_create();
    if (why == NULL) return kl_fail(err, KL_ENOMEM, "no memory to begin");
    t->scanning = 0; /* one sector */
    t->target = s->sector[i];
    KL_TRY(kl_problem_borrow((kl_options *)(uintptr_t)t->o, t, NULL, s->watch, &problem, err));
    const kronlat_status answer = kronlat_ed_energies(problem, &r, why);
    *stopped = answer == KRONLAT_CANCELLED;
    if (!*stopped) {
        KL_TRY(kl_status_of(answer, why, err));
        KL_TRY(kl_edresult_states(r->r, found, err));
    }
out:
    t->scanning = 1;
    t->target = t->dmrg.target = whole;
    kronlat_result_destroy(r);
    kronlat_problem_destroy(problem);
    kronlat_error_destroy(why);
    return st;
}

/* The energies of sector i. *stopped 1: somebody asked to stop. */
static kl_status scan_sector(scan *s, int64_t i, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    kl_edreport_item *const to = &s->item[i];
    kl_qn_print(s->t->model, s->sector[i], to->label, sizeof(to->label));
    if (i < s->kept.n) {
        KL_TRY(kl_edscan_take(&s->kept, (int)i, &to->found, err));
    } else {
        if (s->image[i] >= 0) KL_TRY(copy_energies(&s->item[s->image[i]].found, &to->found, err));
        else KL_TRY(find_energies(s, i, &to->found, stopped, err));
        if (*stopped) goto out;
        if (s->path[0] != '\0') KL_TRY(kl_edscan_add(s->t, s->path, s->sector[i], &to->found, &s->kept, err));
    }
    if (to->found.energy[0] < s->item[s->lowest].found.energy[0]) s->lowest = (int)i;
    s->ndone = (int)i + 1;
out:
    return st;
}

/* All that is asked for in the sector of the lowest. */
static kl_status finish_scan(kl_options *o, const scan *s, const kl_edreport_scan *told, watcher *w,
                             const kl_watch *watch, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *const t = s->t;
    kl_result *done = NULL;
    t->scanning = 0; /* one sector from here on: so says its checkpoint */
    t->target = t->dmrg.target = s->sector[s->lowest];
    w->scan = told;
    if (s->path[0] != '\0') KL_TRY(kl_series_done(t, o->output, &done, err));
    if (done != NULL && done->finished) kl_result_destroy(&done); /* measured anew, as it is asked for */
    KL_TRY(run_whole(o, t, done, w, watch, stopped, err));
    if (!*stopped && s->path[0] != '\0' && kl_ranks_first(t->ex)) unlink(s->path);
out:
    w->scan = NULL;
    kl_result_destroy(&done);
    return st;
}

/* The lowest energies of all; then all that was asked for in the sector of the lowest. */
static kl_status run_scan(kl_options *o, kl_task *t, watcher *w, const kl_watch *watch, int *stopped,
                          kl_err *err)
{
    kl_status st = KL_OK;
    scan s = {.t = t, .watch = watch};
    kl_gaptable gaps = {0};
    kl_gaptable_row *row = NULL;
    char title[512], label[128];
    KL_TRY(open_scan(o, t, &s, err));
    kl_qn_print(t->model, s.sector[0], label, sizeof label);
    KL_TRY(kl_gaptable_check(o->gap.n, o->gap.text, label, err));
    for (int64_t i = 0; i < s.n && !*stopped; i++) {
        KL_TRY(scan_sector(&s, i, stopped, err));
        if (!*stopped && kl_rankscli_tells())
            KL_TRY(write_table(o, &(kl_edreport_scan){s.ndone, s.lowest, s.item, &gaps}, 0, err));
    }
    KL_TRY(find_gaps(o, s.ndone, s.item, &row, &gaps, err));
    const kl_edreport_scan told = {s.ndone, s.lowest, s.item, &gaps};
    if (s.ndone == s.n && kl_rankscli_tells()) KL_TRY(write_table(o, &told, 1, err));
    clear_line(w);
    snprintf(title, sizeof(title), "%s%s%s%s, %s, by sector, exact", t->model->name,
             *t->model->variant ? "(" : "", t->model->variant, *t->model->variant ? ")" : "", t->lat->spec);
    if (*stopped && kl_rankscli_tells())
        kl_report_error(s.path[0] != '\0'
                            ? "interrupted; the sectors told are done, and the same command goes on with the "
                              "others"
                            : "interrupted; the sectors told are done; with --output FILE the same command "
                              "would go on with the others");
    const int more = !*stopped && (o->measure.n > 0 || o->spectral.n > 0 || kl_edrun_writes(o));
    if (!(more && o->json) && !kl_runtable_piped(o)) kl_edreport_table(stdout, title, &told, o->json);
    if (!more) tell_unseen(t, NULL);
    if (more) KL_TRY(finish_scan(o, &s, &told, w, watch, stopped, err));
out:
    clear_line(w);
    kl_gaptable_clear(&gaps);
    kl_free(&row);
    close_scan(&s);
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
    const kl_watch watch = watch_of(&w);
    if (kl_series_is(o)) return kl_series_run(o, &(kl_series_method){&w, open_one, run_one}, stopped, err);
    KL_TRY(kl_edrun_open(o, NULL, &t, &done, err));
    KL_TRY(kl_runtable_check(o, t->scanning && o->temperatures == NULL, err));
    if (kl_runtable_piped(o) && (o->measure.n > 0 || o->spectral.n > 0 || kl_edrun_writes(o)))
        KL_TRY(kl_fail(err, KL_EINPUT, "--csv -: stdout has the report of the lowest sector; name a file"));
    KL_TRY(kl_tasknotes(t, err));
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
    const kl_rankrate between = kl_rankplan_between(o->exec != NULL && strcmp(o->exec, "cuda") == 0);
    if (o->ranks > 0) KL_TRY(kl_rankplan_ed(&p, (int)o->ranks, &between, &nrank, &ranks, err));
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
        kl_report_rankplan(stdout, "product", &between, nrank, ranks);
        const kl_rankplan *const last = nrank > 1 ? &ranks[nrank - 1] : NULL;
        if (last && p.size.flavours && p.solver == KL_ED_LANCZOS && opts.nstate == 1)
            printf("a vector less does where there is no memory for it: %s on a rank of %d\n",
                   kl_report_bytes(last->bytes - p.vector_bytes / last->ranks, bytes[0]), last->ranks);
    }
out:
    kl_free(&ranks);
    kl_task_destroy(&t);
    return st;
}
