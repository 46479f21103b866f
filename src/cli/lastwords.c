/* Last words: see lastwords.h. What runs here has a full heap and maybe a full stack: it allocates nothing
   and has a stack of its own.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cli/lastwords.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/h5.h"
#include "base/atomicfile.h"

static int status_of_end = EXIT_FAILURE, to = STDERR_FILENO;
static const int deadly[] = {SIGSEGV, SIGABRT}; /* SIGABRT: free() finds what HDF5 has freed twice */
enum { NDEADLY = sizeof deadly / sizeof deadly[0] };
static struct sigaction former[NDEADLY]; /* a sanitizer's report, or none */

static void end_inside_hdf5(void)
{
    static const char line[] =
        "kronlat: HDF5 ended the program, which it does where memory runs out; files are as they were\n";
    kl_atomic_abandon();
    (void)!write(to, line, sizeof line - 1);
    _exit(status_of_end);
}

static void on_crash(int number)
{
    if (kl_h5_is_busy()) end_inside_hdf5();
    for (int i = 0; i < NDEADLY; i++)
        if (deadly[i] == number) sigaction(number, &former[i], NULL);
    if (number == SIGABRT) raise(number); /* of the others the instruction comes again */
}

static void on_exit_of_program(void)
{
    if (kl_h5_is_busy()) end_inside_hdf5();
}

void kl_lastwords_prepare(int status)
{
    static char stack[1 << 16];
    const stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK | SA_NODEFER};
    const int copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); /* see start in h5.c */
    if (copy >= 0) to = copy;
    status_of_end = status;
    kl_h5_of_program();
    if (sigaltstack(&own, NULL) == 0)
        for (int i = 0; i < NDEADLY; i++) sigaction(deadly[i], &action, &former[i]);
    (void)atexit(on_exit_of_program);
}

void kl_lastwords_tell(const char *line)
{
    char text[1400];
    snprintf(text, sizeof text, "kronlat: %.1300s\n", line);
    (void)!write(to, text, strlen(text));
}

void kl_lastwords_end(const char *line)
{
    kl_atomic_abandon();
    if (line[0] != '\0') kl_lastwords_tell(line);
    _exit(status_of_end);
}

/* Where HDF5 gets no memory for a block it gives back what it keeps for later, the description of the list of
   the block as well, tries again and counts the block in that description: the heap is spoiled (1.10.8). It
   finds this function of the program before its own, gives nothing back, tries again and says what it lacks.
   Weak: a library that is linked into the program keeps its own; so does that of BLIS below. */
int H5FL_garbage_coll(void);

__attribute__((weak, visibility("default"))) int H5FL_garbage_coll(void) { return 0; }

/* BLIS has no way to tell its caller that it got no memory: it prints its own lines and aborts. This one it
   finds first. */
void bli_check_error_code_helper(int code, const char *file, unsigned long line);

__attribute__((weak, visibility("default"))) void bli_check_error_code_helper(int code, const char *file,
                                                                              unsigned long line)
{
    enum { BLIS_SUCCESS = -1 };
    char text[600];
    if (code == BLIS_SUCCESS) return;
    snprintf(text, sizeof text,
             "%s (its error %d, %.200s, line %lu), and has no way to go on; files are as they were",
             strstr(file, "malloc") != NULL ? "no memory for BLIS" : "BLIS refuses", code, file, line);
    kl_lastwords_end(text);
}
