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
#include "cli/completion.h"
#include "config.h"
#include "cli/dmrgcli.h"
#include "cli/edcli.h"
#include "cli/explain.h"
#include "cli/latticecli.h"
#include "cli/listing.h"
#include "base/isa.h"
#include "run/job.h"
#include "cli/manpage.h"
#include "cli/lastwords.h"
#include "base/mem.h"
#include "run/outputs.h"
#include "base/atomicfile.h"
#include "cli/planrun.h"
#include "cli/plotcli.h"
#include "cli/rankratescli.h"
#include "cli/rankscli.h"
#include "comm/comm.h"
#include "cli/report.h"
#include "cli/resultcli.h"
#include "run/runfile.h"
#include "io/checked.h"

enum {
    STATUS_OK = 0,
    STATUS_BAD = 2,
    STATUS_INTERRUPTED = 130,
};

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
        kl_dmrgcli_release();
        kl_atomic_abandon();
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

/* Where the host's memory is limited, what is freed goes back to the system at once: kept, it was 270 MB of
   750 in a run that was to take 470. */
static void give_memory_back(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 20);
    mallopt(M_TOP_PAD, 0);
    malloc_trim(0);
#endif
}

static int was_interrupted(void *none)
{
    (void)none;
    return interrupts > 0;
}

/* ---------------------------------------------------------------- main */

/* stdout may be a full disk or a closed pipe: what was not written must not look like success. */
static kl_status flush_output(kl_err *err)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return KL_OK;
    return kl_fail(err, KL_EIO, "the report cannot be written to stdout: %s", strerror(errno));
}

static kl_status command_dmrg(kl_options *o, int *status, kl_err *err)
{
    int stopped = 0;
    if (o->host_memory > 0) give_memory_back();
    const kl_status st = kl_dmrgcli_run(o, &stopped, err);
    if (st == KL_OK && stopped) *status = STATUS_INTERRUPTED;
    return st;
}

static kl_status command_ed(kl_options *o, int *status, kl_err *err)
{
    int stopped = 0;
    const kl_status st = kl_edcli_run(o, &stopped, err);
    if (st == KL_OK && stopped) *status = STATUS_INTERRUPTED;
    return st;
}

static kl_status command_ci(kl_options *o, int *status, kl_err *err)
{
    int stopped = 0;
    const kl_status st = kl_cicli_run(o, &stopped, err);
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

/* The runs of one command: a job may have several. With --json theirs is one array of documents. */
typedef struct runs {
    int which, count, listed;
} runs;

static kl_status dispatch(kl_options *o, runs *all, int *status, kl_err *err)
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
        st = kl_job_load(job, all->which, &all->count, o, err);
        if (st == KL_OK) st = kl_outputs_check(o, job, err);
        kl_free(&job);
    }
    int idle = 0;
    if (st == KL_OK) st = kl_rankscli_agree(o, &idle, err);
    if (st != KL_OK || idle) return st;
    if (all->count > 1 && o->json) puts(all->listed++ ? "," : "[");
    switch (o->command) {
    case KL_CMD_DMRG: return command_dmrg(o, status, err);
    case KL_CMD_ED: return command_ed(o, status, err);
    case KL_CMD_CI: return command_ci(o, status, err);
    case KL_CMD_PLAN: return kl_planrun_plan(o, err);
    case KL_CMD_EXPLAIN: return kl_explain_command(o, err);
    case KL_CMD_GROWTH: return kl_planrun_growth(o, err);
    case KL_CMD_MODELS: return kl_list_models(o, err);
    case KL_CMD_LATTICE: return kl_latticecli_show(o, err);
    case KL_CMD_DEVICES: return kl_list_devices(o, err);
    case KL_CMD_MEASURE: return kl_resultcli_measure(o, err);
    case KL_CMD_SHOW: return kl_resultcli_show(o, err);
    case KL_CMD_PLOT: return kl_plotcli_run(o, err);
    case KL_CMD_COMPLETION: return kl_completion_script(o->file, err);
    case KL_CMD_MAN: return command_man(o, err);
    default:
        if (o->command == KL_CMD_TUNE && kl_comm_world() != NULL) return kl_rankratescli_keep(o->output, err);
        if (is_bench(o->command)) return kl_bench_run(o, err);
        return kl_fail(err, KL_EABSENT, "%s is not built into this program", kl_command_name(o->command));
    }
}

/* Options are read anew for each run of a job. Of a run that fails the array has null, and ends there. */
static kl_status run_all(int argc, char **argv, kl_options *o, int *status, kl_err *err)
{
    runs all = {.count = 1};
    const int job = o->command == KL_CMD_RUN;
    kl_status st = dispatch(o, &all, status, err);
    while (job && ++all.which < all.count && st == KL_OK && *status == STATUS_OK) {
        kl_options *next = NULL;
        st = kl_commandline_parse(argc, argv, &next, err);
        if (st == KL_OK) st = dispatch(next, &all, status, err);
        kl_options_destroy(&next);
    }
    if (all.listed) puts(st == KL_OK ? "]" : "null\n]");
    return st;
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
    st = kl_rankscli_begin(&err);
    if (st == KL_OK) st = kl_commandline_parse(argc - 1, argv + 1, &o, &err);
    if (st == KL_OK && !is_bench(o->command)) catch_signals(); /* a benchmark has nothing to save */
    if (st == KL_OK) st = run_all(argc - 1, argv + 1, o, &status, &err);
    if (st == KL_OK) st = flush_output(&err);
    if (st != KL_OK) {
        fflush(stdout);
        status = interrupts > 0 ? STATUS_INTERRUPTED : STATUS_BAD;
    }
    kl_rankscli_end(st != KL_OK ? err.text : NULL);
    kl_options_destroy(&o);
    return status;
}
