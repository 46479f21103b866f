/* Runs gnuplot on a script that somebody writes, with the data inside: see plot.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cli/plot.h"
#include "base/atomicfile.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int has_ending(const char *text, const char *ending)
{
    const size_t n = strlen(text), k = strlen(ending);
    return n > k && strcmp(text + n - k, ending) == 0;
}

/* How many bytes of text are one character of UTF-8; 0: none. */
static int utf8_length(const unsigned char *text)
{
    const int n = text[0] < 0x80   ? 1
                  : text[0] < 0xc2 ? 0
                  : text[0] < 0xe0 ? 2
                  : text[0] < 0xf0 ? 3
                  : text[0] < 0xf5 ? 4
                                   : 0;
    for (int k = 1; k < n; k++)
        if ((text[k] & 0xc0) != 0x80) return 0;
    return n;
}

void kl_plot_quote(FILE *to, const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .,:;+-=()/_";
    const unsigned char *at = (const unsigned char *)text;
    fputc('"', to);
    while (*at != '\0') {
        const int n = utf8_length(at);
        if (n == 0) fputc('?', to);
        else if (*at < 0x20 || *at == 0x7f) fputc(' ', to);
        else if (n == 1 && strchr(plain, *at) != NULL) fputc(*at, to);
        else
            for (int k = 0; k < n; k++) fprintf(to, "\\%03o", at[k]);
        at += n > 0 ? n : 1;
    }
    fputc('"', to);
}

void kl_plot_page(FILE *to, const char *terminal, int pixels_x, int pixels_y)
{
    kl_plot_sheet(to, terminal, pixels_x, pixels_y, 0);
}

void kl_plot_sheet(FILE *to, const char *terminal, int pixels_x, int pixels_y, int dark)
{
    const char *const paper = dark ? "#16161a" : "white";
    fprintf(to, "set encoding utf8\n");
    if (strcmp(terminal, "pdfcairo") == 0)
        fprintf(to, "set terminal pdfcairo noenhanced size %gin,%gin background '%s'\n", pixels_x / 100.0,
                pixels_y / 100.0, paper);
    else
        fprintf(to, "set terminal %s noenhanced size %d,%d background '%s'\n", terminal, pixels_x, pixels_y,
                paper);
}

/* Starts gnuplot reading from *to. What it draws goes to the descriptor `page`, so that it opens no file and
   no name reaches it; its complaints go to a file that nobody else sees. The user's own start-up file is left
   out (-d). */
static kl_status start_gnuplot(int page, FILE *complaints, pid_t *pid, FILE **to, kl_err *err)
{
    int ends[2];
    char *const words[] = {"gnuplot", "-d", "-", NULL};
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return kl_fail(err, KL_EIO, "plot: no pipe to gnuplot: %s", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, page, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(complaints), STDERR_FILENO);
    const int code = posix_spawnp(pid, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    if (code != 0) {
        close(ends[1]);
        return code == ENOENT
                   ? kl_fail(err, KL_EABSENT,
                             "plot: gnuplot is not installed (Debian: apt-get install gnuplot-nox)")
                   : kl_fail(err, KL_EIO, "plot: gnuplot cannot be started: %s", strerror(code));
    }
    *to = fdopen(ends[1], "w");
    if (*to == NULL) {
        close(ends[1]);
        (void)waitpid(*pid, NULL, 0);
        return kl_fail(err, KL_EIO, "plot: no pipe to gnuplot: %s", strerror(errno));
    }
    return KL_OK;
}

/* gnuplot repeats the command and marks the column before it says "line N: why": that last line is the
   reason. */
static void read_reason(FILE *complaints, char *line, int size)
{
    char next[256];
    line[0] = '\0';
    while (fgets(next, sizeof(next), complaints) != NULL)
        if (strspn(next, " \t\n^") < strlen(next))
            snprintf(line, (size_t)size, "%.*s", (int)strcspn(next, "\n"), next + strspn(next, " \t"));
}

/* 1: the file ends as whole ones of its format do; gnuplot does not fail where a disk is full. */
static int is_whole(int fd, const char *ending)
{
    char tail[64] = "";
    struct stat info;
    if (fstat(fd, &info) != 0) return 0;
    const off_t from = info.st_size < (off_t)sizeof(tail) ? 0 : info.st_size - (off_t)sizeof(tail);
    ssize_t n = pread(fd, tail, sizeof(tail), from);
    while (n > 0 && (tail[n - 1] == '\n' || tail[n - 1] == '\r')) n--;
    const ssize_t length = (ssize_t)strlen(ending);
    return n >= length && memcmp(tail + n - length, ending, (size_t)length) == 0;
}

kl_status kl_plot_run(kl_plot_fn *script, const void *self, const char *option, const char *output,
                      kl_err *err)
{
    kl_status st = KL_OK;
    static const struct {
        const char *name, *terminal, *last; /* last: the end of a whole file, but for line breaks */
    } format[] = {{".svg", "svg", "</svg>"},
                  {".png", "pngcairo", "IEND\xae\x42\x60\x82"},
                  {".pdf", "pdfcairo", "%%EOF"}};
    enum { NFORMAT = sizeof(format) / sizeof(format[0]) };
    int kind = 0;
    while (kind < NFORMAT && !has_ending(output, format[kind].name)) kind++;
    char line[256] = "";
    kl_atomic_file atomic;
    kl_err why;
    FILE *complaints = NULL, *to = NULL;
    pid_t pid = 0;
    int status = 0;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, former;
    if (kind == NFORMAT)
        return kl_fail(err, KL_EINPUT, "%s: '%s' ends in no format; allowed: .svg .png .pdf", option, output);
    const kl_status named = kl_atomic_open(output, &atomic, &why); /* gnuplot would not say why it cannot */
    if (named == KL_EIO)
        return kl_fail(err, KL_EIO, "%s: %.300s cannot be written: %s", option, output, why.text);
    if (named != KL_OK) return kl_fail(err, named, "%s", why.text);

    sigaction(SIGPIPE, &ignore, &former); /* gnuplot may end before it has read all */
    complaints = tmpfile();
    if (complaints == NULL) KL_TRY(kl_fail(err, KL_EIO, "plot: no temporary file: %s", strerror(errno)));
    KL_TRY(start_gnuplot(atomic.fd, complaints, &pid, &to, err));
    script(to, self, format[kind].terminal);
    fclose(to);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    rewind(complaints);
    read_reason(complaints, line, sizeof(line));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        KL_TRY(kl_fail(err, KL_EIO, "plot: gnuplot failed: %s", line[0] != '\0' ? line : "no reason given"));
    if (!is_whole(atomic.fd, format[kind].last))
        KL_TRY(kl_fail(err, KL_EIO, "plot: %.300s cannot be written: gnuplot did not finish it: %s", output,
                       line[0] != '\0' ? line : "is the disk full?"));
    if (kl_atomic_publish(&atomic, &why) != KL_OK)
        KL_TRY(kl_fail(err, KL_EIO, "plot: %.300s cannot be written: %s%s%s", output, why.text,
                       line[0] != '\0' ? "; " : "", line));
out:
    kl_atomic_drop(&atomic); /* unless it was published */
    if (complaints != NULL) fclose(complaints);
    sigaction(SIGPIPE, &former, NULL);
    return st;
}
