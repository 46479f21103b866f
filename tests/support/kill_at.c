/* Sends a program a signal once it has used some processor time, so that the moment is the same however busy
   the machine is. Measures nothing else.
   Use: kill_at SECONDS[@FILE] SIGNAL PROGRAM [ARGUMENT ...]; SIGNAL: INT, KILL, or INT,INT for a second one
   20 ms later. With a file the time counts from when that is there. Ends as the program ends, with 128 + N
   after signal N.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Processor time of all threads of a process; it stays what it was once the process has ended. */
static double seconds_of(clockid_t clock, double before)
{
    struct timespec now;
    if (clock_gettime(clock, &now) != 0) return before;
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* file: NULL, or what has to be there before time counts. */
static int wait_and_kill(pid_t child, double limit, const char *file, int signal, int twice)
{
    const struct timespec pause = {.tv_nsec = 1000000}, between = {.tv_nsec = 20000000};
    clockid_t clock;
    double used = 0;
    int status = 0, sent = clock_getcpuclockid(child, &clock) != 0;
    for (;;) {
        const pid_t ended = waitpid(child, &status, sent ? 0 : WNOHANG);
        if (ended == child) return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (ended < 0 && errno != EINTR) return 125;
        if (sent) continue;
        used = seconds_of(clock, used);
        if (file && access(file, F_OK) == 0) {
            limit += used;
            file = NULL;
        }
        if (!file && used >= limit) {
            kill(child, signal);
            if (twice) {
                nanosleep(&between, NULL);
                kill(child, signal); /* one that has ended is there until it is waited for */
            }
            sent = 1;
        } else {
            nanosleep(&pause, NULL);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "kill_at: SECONDS[@FILE] SIGNAL PROGRAM [ARGUMENT ...]\n");
        return 125;
    }
    const pid_t child = fork();
    if (child < 0) return 125;
    if (child == 0) {
        execv(argv[3], argv + 3);
        _exit(127);
    }
    char *end;
    const double limit = strtod(argv[1], &end);
    return wait_and_kill(child, limit, *end == '@' ? end + 1 : NULL,
                         strncmp(argv[2], "INT", 3) == 0 ? SIGINT : SIGKILL, strchr(argv[2], ',') != NULL);
}
