/* What a result file remembers of the command line, so that --resume FILE is enough, and what such a file is
   called.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RUNFILE_H
#define KL_RUNFILE_H
#include "chem/fcidump.h"
#include "run/task.h"

/* One value of --sweep-parameter. */
typedef struct kl_runfile_point {
    const char *sweep; /* "U=0:8:0.5", as it was asked for */
    int index;         /* of the value, from 0 */
    double value;
} kl_runfile_point;

/* What was asked, as "name=value" lines that --resume reads back. Charges are those of dmrg.target, and one
   parameter may be set by a sweep (`at', NULL: none), which stands there as a whole, too. */
kl_status kl_runfile_options(const kl_options *o, const kl_task *t, const kl_runfile_point *at, char **out,
                             kl_err *err) KL_MUST_CHECK;

/* The point of a sweep that a result is of, which borrows *text; *text NULL: it is of none. */
kl_status kl_runfile_swept(const kl_result *r, char **text, kl_runfile_point *at, kl_err *err) KL_MUST_CHECK;

/* 1: path can be read, and is the result of a molecule. */
int kl_runfile_of_molecule(const char *path);

/* EINPUT where a model is wanted and path is another file that the program knows: integrals, a result. */
kl_status kl_runfile_no_model(const char *path, kl_err *err) KL_MUST_CHECK;

/* The integrals of a molecule. EINPUT where path is something else that the program knows: a result, a
   model. */
kl_status kl_runfile_integrals(const char *path, kl_fcidump **out, kl_err *err) KL_MUST_CHECK;

/* The name in the next line of a file's options, "m=200", and its value, both within the text *rest, which is
   taken apart; NULL: there is none. */
char *kl_runfile_line(char **rest, char **value);

/* What the file says, where the command line says nothing. */
kl_status kl_runfile_adopt(kl_options *o, const kl_result *done, kl_err *err) KL_MUST_CHECK;

/* Of a run that begins with the state of o->start and names no model: the system of that file, where the
   command line says nothing; charges, the sites and their order as a whole, parameters one by one. EINPUT: it
   is of a molecule. */
kl_status kl_runfile_adopt_system(kl_options *o, kl_err *err) KL_MUST_CHECK;

/* "hubbard-chain16-N_up=8,N_dn=8.h5" (label "U=4": "....U=4.h5"), with a number where that is taken: a name
   of our own making never replaces a file. An empty file keeps it from other processes; EIO where none can be
   made. */
kl_status kl_runfile_reserve(const kl_task *t, const char *label, char *path, size_t size,
                             kl_err *err) KL_MUST_CHECK;

/* Removes what is reserved if nothing was written there since; a signal handler may call it. */
void kl_runfile_release(const char *path);

#endif
