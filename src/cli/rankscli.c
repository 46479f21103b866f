/* See rankscli.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/rankscli.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/isa.h"
#include "base/mem.h"
#include "base/par.h"
#include "cli/lastwords.h"
#include "cli/rankratescli.h"
#include "cli/report.h"
#include "comm/comm.h"
#include "comm/watch.h"
#include "config.h"

static kl_comm *comm;

kl_status kl_rankscli_begin(kl_err *err)
{
    kl_status st = KL_OK;
    const struct sigaction action = {.sa_handler = kl_comm_watch_on_signal, .sa_flags = SA_RESTART};
    sigaction(kl_comm_watch_signal(), &action, NULL);
    KL_TRY(kl_comm_open(kl_lastwords_tell, kl_lastwords_end, &comm, err));
    if (!kl_rankscli_tells() && freopen("/dev/null", "w", stdout) == NULL)
        KL_TRY(kl_fail(err, KL_EIO, "/dev/null cannot be opened"));
out:
    return st;
}

int kl_rankscli_tells(void) { return comm != NULL ? comm->rank == 0 : kl_comm_launched().rank == 0; }

/* What differs between machines without changing a result. */
static int may_differ(const char *name)
{
    return strcmp(name, "threads") == 0 || strcmp(name, "device") == 0 ||
           strcmp(name, "device-memory") == 0 || strcmp(name, "memory") == 0;
}

static kl_status describe(const kl_options *o, char **out, kl_err *err)
{
    kl_status st = KL_OK;
    const char *name, *text;
    char number[40];
    int64_t n = 200;
    for (int i = 0; kl_options_given(o, i, &name, &text, number); i++)
        n += (int64_t)strlen(name) + (int64_t)strlen(text) + 2;
    if (o->output) n += (int64_t)strlen(o->output) + 16;
    KL_TRY(kl_alloc(out, n, KL_MEM_MISC, err));
    int used = snprintf(*out, (size_t)n, "version=%s\ninstruction set=%s\ncommand=%s\n", KL_VERSION,
                        kl_isa_name[kl_isa_choose()], kl_command_name(o->command));
    if (o->output) used += snprintf(*out + used, (size_t)(n - used), "--output=%s\n", o->output);
    for (int i = 0; kl_options_given(o, i, &name, &text, number); i++)
        if (!may_differ(name)) used += snprintf(*out + used, (size_t)(n - used), "--%s=%s\n", name, text);
out:
    return st;
}

int kl_rankscli_bound(int64_t threads, int cores, int most, char *text, size_t n)
{
    if (threads > cores)
        snprintf(text, n, "--threads %lld: the launcher has bound this rank to %d core%s", (long long)threads,
                 cores, cores > 1 ? "s" : "");
    else if (threads == 0 && most > cores)
        snprintf(text, n, "the launcher has bound each rank to %d core%s, and there are %d for each", cores,
                 cores > 1 ? "s" : "", most);
    else return 0;
    const size_t used = strlen(text);
    snprintf(text + used, n - used, "; mpirun --bind-to none lets it have them");
    return 1;
}

/* Threads that share a core take longer than one. */
static void tell_binding(const kl_options *o)
{
    char text[240];
    if (comm->rank == 0 && kl_rankscli_bound(o->threads, kl_par_cpus(), comm->most_cores, text, sizeof text))
        kl_report_note(text);
}

kl_status kl_rankscli_agree(const kl_options *o, int *idle, kl_err *err)
{
    kl_status st = KL_OK;
    char *lines = NULL;
    *idle = 0;
    if (comm == NULL) return KL_OK;
    KL_TRY(describe(o, &lines, err));
    KL_TRY(kl_comm_same(comm, lines, err));
    switch (o->command) {
    case KL_CMD_ED: break;
    case KL_CMD_CI:
        if (o->plan) *idle = comm->rank > 0;
        else if (o->arrays != NULL || o->half)
            st = kl_fail(err, KL_EINPUT,
                         "%s: of several ranks each has its rows of the matrix; start one process",
                         o->half ? "--half" : "--arrays");
        break;
    case KL_CMD_DMRG:
        if (o->infinite)
            st =
                kl_fail(err, KL_EINPUT, "--infinite is done by one process, and %d were started", comm->size);
        break;
    case KL_CMD_DEVICES:
    case KL_CMD_TUNE:
        if (!o->help) KL_TRY(kl_rankratescli_measure(err));
        *idle = comm->rank > 0;
        break;
    case KL_CMD_PLAN:
    case KL_CMD_MODELS:
    case KL_CMD_SHOW:
    case KL_CMD_PLOT:
    case KL_CMD_VERSION:
    case KL_CMD_HELP: *idle = comm->rank > 0; break;
    default:
        if (o->help) *idle = comm->rank > 0;
        else
            st = kl_fail(err, KL_EINPUT,
                         "kronlat %s is done by one process, and %d were started; dmrg, ed and ci are shared",
                         kl_command_name(o->command), comm->size);
    }
    if (st == KL_OK && !*idle) tell_binding(o);
out:
    kl_free(&lines);
    return st;
}

/* Ranks that could not meet: where the first one could not either it has told it, and its launcher ends this
   one meanwhile. Else the reason is one of this machine, a library that is not installed there, say. */
static void tell_of_machine(const char *line)
{
    char text[1200];
    nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
    snprintf(text, sizeof text, "rank %d: %.1100s", kl_comm_launched().rank, line);
    kl_report_error(text);
}

void kl_rankscli_end(const char *line)
{
    if (line && kl_rankscli_tells()) kl_report_error(line);
    if (comm == NULL) {
        if (line && kl_comm_first_elsewhere()) tell_of_machine(line);
        return;
    }
    if (line) kl_comm_farewell(&comm, line);
    else kl_comm_close(&comm);
}
