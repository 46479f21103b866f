/* The commands of kronlat. Ties options, tasks, DMRG, result files and reports together; computes and prints
   nothing itself. Exit status: 0 when a run ended, converged or not (the report says which); 2 for bad input,
   no memory or no disk, with one line on stderr; 130 when interrupted. A checkpoint that cannot be written is
   told once and does not end a run; a final result that cannot be does, after the report was printed.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/bench.h"
#include "cli/cicli.h"
#include "cli/commandline.h"
#include "cli/dmrgcli.h"
#include "cli/completion.h"
#include "io/cifile.h"
#include "config.h"
#include "cli/edreport.h"
#include "cli/edcli.h"
#include "cli/explain.h"
#include "cli/inventory.h"
#include "base/isa.h"
#include "run/job.h"
#include "cli/manpage.h"
#include "cli/lastwords.h"
#include "base/mem.h"
#include "run/outputs.h"
#include "run/dmrgrun.h"
#include "base/partial.h"
#include "cli/plot.h"
#include "cli/report.h"
#include "run/runfile.h"
#include "io/sealed.h"
#include "run/task.h"

enum { STATUS_OK = 0, STATUS_BAD = 2, STATUS_INTERRUPTED = 130 };

static volatile sig_atomic_t interrupts;
static pthread_t writer; /* the thread that makes files */

/* The first signal asks the run to stop at the next bond; another one ends the program there and then. */
static void on_signal(int number)
{
    if (!pthread_equal(pthread_self(), writer)) { /* while it is here no new file appears */
        pthread_kill(writer, number);
        return;
    }
    if (++interrupts > 1) {
        kl_dmrgcli_abandon();
        kl_partial_abandon();
        signal(number, SIG_DFL);
        raise(number);
    }
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    writer = pthread_self();
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGXFSZ, &action, NULL); /* a file size limit is an error of write, told like a full disk */
}

/* Matrices of truncation and lists come and go by the hundred each bond. Kept by the allocator they need no
   new pages each time, a twentieth of a run; vectors go back to the system. */
static void keep_memory(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 256 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 16 << 20);
#endif
}

static int was_interrupted(void *none)
{
    (void)none;
    return interrupts > 0;
}

/* ---------------------------------------------------------------- plan and growth */

static kl_status command_plan(const kl_options *o, kl_err *err)
{
    static const int ladder[] = {64, 128, 256, 512, 1024};
    enum { NLADDER = sizeof(ladder) / sizeof(ladder[0]) };
    kl_status st = KL_OK;
    kl_task *t = NULL;
    kl_dmrg_plan plan[NLADDER];
    char charges[256], lattice[256];
    int n = 0;
    memset(plan, 0, sizeof(plan));
    KL_TRY(kl_options_check(o, err));
    if (o->method != NULL && strcmp(o->method, "ed") == 0) return kl_edcli_plan(o, err);
    KL_TRY(kl_task_create(o, (int)o->sites, &t, err));
    KL_TRY(kl_task_charges(t, err));
    KL_TRY(kl_task_one_sector(t, "a plan is for", err));
    KL_TRY(kl_task_aim(t, t->target, err));
    KL_TRY(kl_task_exec(o, &t->ex, err));
    const int widest = kl_options_widest(o);
    for (int i = 0; i < (widest > 0 ? 1 : NLADDER); i++) {
        KL_TRY(kl_dmrg_make_plan(t->terms, t->ex, &t->dmrg, widest > 0 ? widest : ladder[i], &plan[i], err));
        n = i + 1;
    }
    snprintf(lattice, sizeof(lattice), "%.200s, %d sites", t->lat->spec, t->lat->nsite);
    const kl_report_head head = {t->model, lattice,
                                 kl_qn_print(t->model, t->target, charges, sizeof(charges))};
    if (o->json) kl_report_plan_json(stdout, &head, n, plan);
    else kl_report_plan(stdout, &head, n, plan);
out:
    for (int i = 0; i < n; i++) kl_dmrg_plan_clear(&plan[i]);
    kl_task_destroy(&t);
    return st;
}

typedef struct growth {
    const kl_task *whole; /* of the full length */
    kl_qn target;
    int nsite;
} growth;

/* Terms of a chain of nsite sites and the reachable charges nearest to the target's share of it. */
static kl_status growth_terms(void *self, int nsite, kl_terms **out, kl_qn *target, kl_err *err)
{
    const growth *g = self;
    kl_status st = KL_OK;
    kl_task *t = NULL;
    kl_qn *sector = NULL;
    int64_t n = 0;
    const kl_model *const m = g->whole->model;
    KL_TRY(kl_task_chain(g->whole, nsite, &t, err));
    KL_TRY(kl_dmrg_sectors(t->terms, &sector, &n, err));
    double best = INFINITY;
    for (int64_t i = 0; i < n; i++) {
        double far = 0;
        for (int c = 0; c < m->ncharge; c++) {
            const double wanted =
                m->charge[c].modulus > 0 ? g->target.v[c] : (double)g->target.v[c] * nsite / g->nsite;
            far += (sector[i].v[c] - wanted) * (sector[i].v[c] - wanted);
        }
        if (far < best) {
            best = far;
            *target = sector[i];
        }
    }
    *out = t->terms;
    t->terms = NULL;
out:
    kl_free(&sector);
    kl_task_destroy(&t);
    return st;
}

static kl_status command_growth(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *t = NULL;
    kl_growth_row *row = NULL;
    char charges[256], lattice[64];
    if (o->sites < 4 || o->sites % 2 != 0)
        return kl_fail(
            err, KL_EINPUT,
            "--sites: growth adds two sites at a time and needs an even number from 4 on, not %lld",
            (long long)o->sites);
    KL_TRY(kl_options_check(o, err));
    KL_TRY(kl_outputs_check(o, NULL, err));
    KL_TRY(kl_task_create(o, 0, &t, err));
    KL_TRY(kl_task_charges(t, err));
    KL_TRY(kl_task_one_sector(t, "growth is for", err));
    for (int i = 0; i < t->model->nparam; i++) {
        const kl_param_kind kind = t->model->param[i].kind;
        const kl_result_param list = {.n = kind == KL_PARAM_SCALAR ? 0
                                           : kind == KL_PARAM_SITE ? t->params->nsite
                                                                   : t->params->nbond,
                                      .value = t->params->array[i]};
        if (list.n > 0 && !kl_result_param_even(&list))
            KL_TRY(kl_fail(
                err, KL_EINPUT,
                "--parameter %s: growth begins with 4 sites and takes one value for all of them, no list",
                t->model->param[i].name));
    }
    KL_TRY(kl_task_exec(o, &t->ex, err));
    const int n = ((int)o->sites - 2) / 2;
    KL_TRY(kl_alloc(&row, n, KL_MEM_MISC, err));
    growth g = {t, t->target, (int)o->sites};
    const kl_growth_opts opts = {.nsite = (int)o->sites,
                                 .m = o->m > 0 ? (int)o->m : 256,
                                 .strategy = t->dmrg.strategy,
                                 .tol = 1e-8,
                                 .max_basis = o->basis > 0 ? (int)o->basis : 20,
                                 .records = o->save_records,
                                 .seed = t->dmrg.seed,
                                 .self = &g,
                                 .make_terms = growth_terms};
    KL_TRY(kl_dmrg_grow(&opts, t->ex, row, err));
    snprintf(lattice, sizeof(lattice), "chain, grown from 4 to %d sites, m = %d, %s, %d thread%s", opts.nsite,
             opts.m, t->ex->name, t->ex->nthread, t->ex->nthread == 1 ? "" : "s");
    const kl_report_head head = {t->model, lattice,
                                 kl_qn_print(t->model, t->target, charges, sizeof(charges))};
    if (o->json) kl_report_growth_json(stdout, &head, n, row);
    else kl_report_growth(stdout, &head, n, row);
out:
    kl_free(&row);
    kl_task_destroy(&t);
    return st;
}

/* ---------------------------------------------------------------- files */

static kl_status command_show(const kl_options *o, kl_err *err)
{
    kl_result *r = NULL;
    if (kl_cifile_is(o->file)) return kl_cicli_show(o, err);
    const kl_status st = kl_result_read(o->file, &r, err);
    if (st != KL_OK) return st;
    const int ed = kl_edresult_is(r);
    if (o->json) (ed ? kl_edreport_json : kl_report_result_json)(stdout, r, NULL);
    else (ed ? kl_edreport_text : kl_report_result)(stdout, r, NULL);
    kl_result_destroy(&r);
    return KL_OK;
}

/* The system is that of the file's own options. */
static kl_status command_measure(kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result *r = NULL;
    kl_task *t = NULL;
    kl_state *state = NULL;
    const double started = kl_clock();
    int held = -1;
    if (o->measure.n == 0)
        return kl_fail(err, KL_EINPUT,
                       "measure: --measure is missing; `kronlat measure --help' lists what can be measured");
    held = kl_sealed_hold(o->file); /* or what others measure meanwhile would be lost */
    if (interrupts > 0)
        KL_TRY(kl_fail(err, KL_EIO, "%.300s: interrupted while another program had the file", o->file));
    KL_TRY(kl_result_read(o->file, &r, err));
    o->command = KL_CMD_DMRG;
    const kl_text_list asked = o->measure;
    o->measure = (kl_text_list){0}; /* what was asked of the run is in the file */
    st = kl_runfile_adopt(o, r, err);
    for (int i = 0; i < o->measure.n; i++) kl_free(&o->measure.text[i]);
    kl_free(&o->measure.text);
    o->measure = asked;
    if (st != KL_OK) goto out;
    KL_TRY(kl_task_create(o, 0, &t, err));
    KL_TRY(kl_dmrgrun_check_measure(t, err));
    KL_TRY(kl_task_charges(t, err));
    KL_TRY(kl_result_match(o->file, r, t->model, t->lat, t->params, t->target, 0, err));
    KL_TRY(kl_result_read_state(o->file, t->terms, &state, err));
    KL_TRY(kl_task_exec(o, &t->ex, err));
    KL_TRY(kl_dmrgrun_measure(t, state, 0, r, err));
    st = kl_result_write(o->file, r, state, err);
    if (held >= 0) close(held);
    held = -1;
    const kl_run_facts facts = {t->ex->name, t->ex->nthread, st == KL_OK ? o->file : NULL,
                                kl_clock() - started};
    if (o->json) kl_report_result_json(stdout, r, &facts);
    else kl_report_result(stdout, r, &facts);
out:
    if (held >= 0) close(held);
    kl_state_destroy(&state);
    kl_task_destroy(&t);
    kl_result_destroy(&r);
    return st;
}

static kl_status command_plot(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result *r = NULL;
    char path[1024];
    if (o->output != NULL) snprintf(path, sizeof(path), "%s", o->output);
    else {
        const size_t length = strlen(o->file);
        const int cut = length > 3 && strcmp(o->file + length - 3, ".h5") == 0 ? 3 : 0;
        snprintf(path, sizeof(path), "%.*s.svg", (int)(length - (size_t)cut), o->file);
    }
    KL_TRY(kl_outputs_check(o, NULL, err));
    KL_TRY(kl_result_read(o->file, &r, err));
    KL_TRY(kl_plot_result(r, path, err));
    printf("%s\n", path);
out:
    kl_result_destroy(&r);
    return st;
}

/* ---------------------------------------------------------------- main */

/* stdout may be a full disk or a closed pipe: what was not written must not look like success. */
static kl_status flush_output(kl_err *err)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return KL_OK;
    return kl_fail(err, KL_EIO, "the report cannot be written to stdout: %s", strerror(errno));
}

/* DMRG, exact diagonalization or configuration interaction. */
static kl_status command_run(kl_options *o, int *status, kl_err *err)
{
    int stopped = 0;
    const kl_status st = o->command == KL_CMD_DMRG ? kl_dmrgcli_run(o, &stopped, err)
                         : o->command == KL_CMD_ED ? kl_edcli_run(o, &stopped, err)
                                                   : kl_cicli_run(o, &stopped, err);
    if (st == KL_OK && stopped) *status = STATUS_INTERRUPTED;
    return st;
}

static kl_status command_man(const kl_options *o, kl_err *err)
{
    kl_command command;
    const kl_status st = kl_manpage_command(o->file, &command, err);
    if (st == KL_OK) kl_manpage_print(command);
    return st;
}

static int is_bench(kl_command command)
{
    return command == KL_CMD_BENCH || command == KL_CMD_TUNE ||
           (command >= KL_CMD_BENCH_GEMM && command <= KL_CMD_BENCH_CUDA);
}

static kl_status dispatch(kl_options *o, int *status, kl_err *err)
{
    kl_status st = KL_OK;
    if (o->command == KL_CMD_VERSION || o->version) {
        printf("kronlat %s\n", KL_VERSION);
        return KL_OK;
    }
    if (o->command == KL_CMD_HELP || o->help) {
        kl_commandline_help(o->command);
        return KL_OK;
    }
    if (o->command == KL_CMD_RUN) {
        char *job = o->file; /* a job of ci names a file of its own */
        o->file = NULL;
        st = kl_job_load(job, o, err);
        if (st == KL_OK) st = kl_outputs_check(o, job, err);
        kl_free(&job);
    }
    if (st != KL_OK) return st;
    switch (o->command) {
    case KL_CMD_DMRG:
        if (!o->infinite) return command_run(o, status, err);
        st = kl_options_check(o, err);
        return st == KL_OK ? command_growth(o, err) : st;
    case KL_CMD_ED:
    case KL_CMD_CI: return command_run(o, status, err);
    case KL_CMD_PLAN: return command_plan(o, err);
    case KL_CMD_EXPLAIN: return kl_explain_command(o, err);
    case KL_CMD_GROWTH: return command_growth(o, err);
    case KL_CMD_MODELS: return kl_inventory_models(o, err);
    case KL_CMD_DEVICES: return kl_inventory_devices(o, err);
    case KL_CMD_MEASURE: return command_measure(o, err);
    case KL_CMD_SHOW: return command_show(o, err);
    case KL_CMD_PLOT: return command_plot(o, err);
    case KL_CMD_COMPLETION: return kl_completion_script(o->file, err);
    case KL_CMD_MAN: return command_man(o, err);
    default:
        if (is_bench(o->command)) return kl_bench_run(o, err);
        return kl_fail(err, KL_EABSENT, "%s is not built into this program", kl_command_name(o->command));
    }
}

int main(int argc, char **argv)
{
    kl_err err = {{0}};
    kl_options *o = NULL;
    int status = STATUS_OK;
    char help[] = "--help", *words[] = {argv[0], argc > 2 ? argv[2] : NULL, help, NULL};
    keep_memory();
    (void)kl_isa_flush_denormals();
    kl_lastwords_prepare(STATUS_BAD);
    /* `help COMMAND' is `COMMAND --help' */
    if (argc > 2 && strcmp(argv[1], "help") == 0) argc = 3, argv = words;
    kl_status st = kl_isa_check(&err);
    if (st != KL_OK) {
        kl_report_error(err.text);
        return STATUS_BAD;
    }
    (void)kl_on_interrupt((kl_interrupt){was_interrupted, NULL});
    if (argc > 2 && strcmp(argv[1], "completion") == 0 && strcmp(argv[2], "--words") == 0) {
        kl_completion_words(argc - 3, argv + 3); /* asked by the scripts, at every press of the key */
        return STATUS_OK;
    }
    st = kl_commandline_parse(argc - 1, argv + 1, &o, &err);
    if (st == KL_OK && !is_bench(o->command)) catch_signals(); /* a benchmark has nothing to save */
    if (st == KL_OK) st = dispatch(o, &status, &err);
    if (st == KL_OK) st = flush_output(&err);
    if (st != KL_OK) {
        fflush(stdout);
        kl_report_error(err.text);
        status = interrupts > 0 ? STATUS_INTERRUPTED : STATUS_BAD;
    }
    kl_options_destroy(&o);
    return status;
}
