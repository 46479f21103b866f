/* A program started as a user would start it: its words, what it prints, and what it takes.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PROCESS_H
#define KL_PROCESS_H
#include "base/base.h"

enum {
    KL_PROCESS_WORDS = 300,
    KL_PROCESS_PATH = 4096,
};

typedef struct kl_process {
    const char *what; /* who starts it: for messages */
    int n;
    char *word[KL_PROCESS_WORDS + 1]; /* the program's name first */
    double wall, cpu;                 /* seconds, its start included */
} kl_process;

/* One more word: --name=value, or value alone where name is empty. */
kl_status kl_process_word(kl_process *p, const char *name, const char *value, kl_err *err) KL_MUST_CHECK;
/* Starts it and waits for its end: *text, the caller's, is what it printed. EINPUT: it cannot be started, or
   did not end with status 0. */
kl_status kl_process_run(kl_process *p, char **text, kl_err *err) KL_MUST_CHECK;
void kl_process_clear(kl_process *p);
/* The path of this program itself. */
kl_status kl_process_own(const char *what, char path[KL_PROCESS_PATH], kl_err *err) KL_MUST_CHECK;

/* In JSON that it printed: what stands behind the first "key": at or after `from`; NULL: nothing does. */
const char *kl_process_value(const char *from, const char *key);
double kl_process_number(const char *from, const char *key); /* NAN: none */

#endif
