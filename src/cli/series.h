/* Runs that know nothing of each other, one after the other, each with its file: along the number of sites,
   seeds or a structural parameter, of exact diagonalization or with a scan along any parameter, and one for
   each sector of a scan.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SERIES_H
#define KL_SERIES_H
#include "io/result.h"
#include "run/task.h"

/* How a method makes one of them. */
typedef struct kl_series_method {
    void *self;
    /* checks, and the task of o, its executor opened */
    kl_status (*open)(void *self, kl_options *o, kl_task **t, kl_err *err);
    /* The run of the sector t->target into o->output. done: NULL, or the part of it that is there. label: for
       progress. *r: the caller's to destroy, not finished where somebody asked to stop; path[1024]: its file,
       "" for none. */
    kl_status (*go)(void *self, kl_task *t, kl_result *done, const char *label, kl_result **r, char *path,
                    kl_err *err);
} kl_series_method;

/* 1: what o asks for is such a series. */
int kl_series_is(const kl_options *o);

/* Runs them and prints their table. A file that holds the very same run, finished, is taken as it is; begun,
   it goes on. *stopped 1: somebody asked to stop. */
kl_status kl_series_run(kl_options *o, const kl_series_method *method, int *stopped,
                        kl_err *err) KL_MUST_CHECK;

/* The name of a run's file: {NAME} in `pattern' stands for the value of NAME in `label', "U=4 Sz=0"; without
   braces the label goes before .h5. EINPUT: a name that no label has. */
kl_status kl_series_name(const char *pattern, const char *label, char out[1024], kl_err *err) KL_MUST_CHECK;

/* The run that a file holds, where it is this one, finished or not; else *done NULL. t->dmrg.target: its
   sector. */
kl_status kl_series_done(const kl_task *t, const char *path, kl_result **done, kl_err *err) KL_MUST_CHECK;

#endif
