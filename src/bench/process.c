/* See process.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench/process.h"
#include "base/mem.h"
#include "base/prof.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

kl_status kl_process_word(kl_process *p, const char *name, const char *value, kl_err *err)
{
    const size_t size = strlen(name) + strlen(value) + 4;
    char *text = NULL;
    if (p->n == KL_PROCESS_WORDS)
        return kl_fail(err, KL_EINPUT, "%s: more than %d words", p->what, KL_PROCESS_WORDS);
    const kl_status st = kl_alloc(&text, (int64_t)size, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    if (*name) snprintf(text, size, "--%s=%s", name, value);
    else snprintf(text, size, "%s", value);
    p->word[p->n++] = text;
    return KL_OK;
}

void kl_process_clear(kl_process *p)
{
    for (int i = 0; i < p->n; i++) kl_free(&p->word[i]);
    p->n = 0;
}

static kl_status read_all(FILE *from, char **text, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t n = 0, room = 0;
    for (size_t got = 1; got > 0; n += (int64_t)got) {
        if (room - n < 2) KL_TRY(kl_realloc(text, room = 2 * room + (1 << 16), KL_MEM_MISC, err));
        got = fread(*text + n, 1, (size_t)(room - n - 1), from);
    }
    (*text)[n] = '\0';
out:
    return st;
}

kl_status kl_process_run(kl_process *p, char **text, kl_err *err)
{
    kl_status st = KL_OK;
    int ends[2], status = 0;
    pid_t pid = 0;
    struct rusage used = {0};
    char *const *const word = p->word;
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0) return kl_fail(err, KL_EIO, "%s: no pipe: %s", p->what, strerror(errno));
    const double start = kl_prof_seconds();
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const int code = posix_spawnp(&pid, word[0], &actions, NULL, word, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *const from = fdopen(ends[0], "r");
    if (code != 0 || !from) {
        if (from) fclose(from);
        else close(ends[0]);
        if (code == 0) (void)waitpid(pid, NULL, 0);
        return kl_fail(err, KL_EINPUT, "%s: '%s' cannot be started: %s", p->what, word[0],
                       strerror(code ? code : errno));
    }
    st = read_all(from, text, err);
    fclose(from);
    while (wait4(pid, &status, 0, &used) < 0 && errno == EINTR) continue;
    KL_TRY(st);
    p->wall = kl_prof_seconds() - start;
    p->cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
             1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        st = kl_fail(err, KL_EINPUT, "%s: '%s %s' ended with status %d", p->what, word[0],
                     p->n > 1 ? word[1] : "",
                     WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
out:
    return st;
}

kl_status kl_process_own(const char *what, char path[KL_PROCESS_PATH], kl_err *err)
{
    const ssize_t length = readlink("/proc/self/exe", path, KL_PROCESS_PATH - 1);
    if (length < 0) return kl_fail(err, KL_EIO, "%s: this program's own name: %s", what, strerror(errno));
    path[length] = '\0';
    return KL_OK;
}

const char *kl_process_value(const char *from, const char *key)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    const char *p = from ? strstr(from, quoted) : NULL;
    if (!p) return NULL;
    p += strlen(quoted);
    p += strspn(p, " :[\n");
    return p;
}

double kl_process_number(const char *from, const char *key)
{
    char word[64];
    double x = NAN;
    const char *const p = kl_process_value(from, key);
    if (!p || sscanf(p, "%63[-+.0-9a-zA-Z]", word) != 1 || !kl_parse_double(word, &x)) return NAN;
    return x;
}
