/* HDF5 as our files use it: numbers, texts and arrays, as attributes and as data sets. What is written keeps
   the first failure; what is read is checked for type, shape and full storage before it sizes an allocation.
   Opens no files: checked.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_H5_H
#define KL_H5_H
#define H5_USE_110_API /* newer releases keep these names */
#include <hdf5.h>

#include "base/mem.h"

enum {
    KL_H5_MAX_TEXT = 60000,
    KL_H5_MAX_RANK = 4, /* indices of an array */
    KL_H5_MAX_NAME =
        1024 /* of a path in a file: a measurement is named by its request, which may have 400 characters */
};

/* For a program's start, once: HDF5 is used by kronlat alone. It then leaves no handler for the program's
   exit and prints nothing while it starts. */
void kl_h5_of_program(void);

/* HDF5 prints its own errors by default; a library does not print: not between these two. Between them HDF5
   belongs to the calling thread, and others wait in begin; both are called by one thread, in pairs. */
typedef struct kl_h5_quiet {
    H5E_auto2_t print;
    void *data;
} kl_h5_quiet;
kl_status kl_h5_begin(kl_h5_quiet *q, kl_err *err) KL_MUST_CHECK; /* ENOMEM: HDF5 cannot start */
void kl_h5_end(kl_h5_quiet q);
int kl_h5_is_busy(void);  /* between the two; may be asked in a handler of signals */
int kl_h5_failures(void); /* how many calls have failed so far; between the two of this thread alone */

/* A file being written: after the first failure later calls do nothing; who closes the file makes one message
   of it. */
typedef struct kl_h5_out {
    hid_t file;
    int failed;
    int error; /* errno at that moment */
    int failures; /* of HDF5 before this file (kl_h5_failures) */
} kl_h5_out;

int kl_h5_ok(kl_h5_out *w, int64_t code); /* whether code, of HDF5, is no failure; remembers one */

/* An attribute of n numbers or texts of these types, a scalar for n = 0. */
void kl_h5_put_attribute(kl_h5_out *w, hid_t at, const char *name, hid_t on_disk, hid_t in_memory, hsize_t n,
                         const void *value);
void kl_h5_put_int(kl_h5_out *w, hid_t at, const char *name, int64_t value);
void kl_h5_put_real(kl_h5_out *w, hid_t at, const char *name, double value);
/* an attribute, cut at MAX_TEXT as HDF5 has none above 64 kB */
void kl_h5_put_text(kl_h5_out *w, hid_t at, const char *name, const char *text);
/* a data set of any length */
void kl_h5_put_long_text(kl_h5_out *w, hid_t at, const char *name, const char *text);

/* A data set of this shape[rank], row-major (rank 0: a scalar); value NULL: to be filled in parts; note, if
   not NULL, becomes its attribute. Groups in name ("local/Sz") are made where they are missing. */
void kl_h5_put_array(kl_h5_out *w, hid_t at, const char *name, hid_t on_disk, hid_t in_memory, int rank,
                     const hsize_t *shape, const void *value, const char *note);
void kl_h5_put_reals(kl_h5_out *w, hid_t at, const char *name, int64_t n, const double *value,
                     const char *note);
void kl_h5_put_ints(kl_h5_out *w, hid_t at, const char *name, int64_t n, const int64_t *value);
/* rows [first, first + n) of an open set of rank 1 or 2 */
void kl_h5_put_part(kl_h5_out *w, hid_t set, int64_t first, int64_t n, const double *value);

hid_t kl_h5_put_group(kl_h5_out *w, hid_t at, const char *name); /* -1 on failure */
/* the same of which readers get the members in the order in which they were written, not by name */
hid_t kl_h5_put_ordered_group(kl_h5_out *w, hid_t at, const char *name);
void kl_h5_end_group(hid_t group); /* accepts -1 */
/* of size bytes with the final 0, in UTF-8 */
hid_t kl_h5_text_type(size_t size);

/* Texts of a stranger's file reach a terminal: control characters but tabs and line breaks become '?'. For
   texts that get_text has not read. */
void kl_h5_make_plain(char *text);

/* A file being read. Everything below answers EINPUT, "PATH: is damaged: NAME why", for what is not as it was
   asked for. */
typedef struct kl_h5_in {
    const char *path;
    hid_t file;
    int64_t bytes; /* of the file: no data set in it is larger */
    kl_h5_quiet quiet;
    int failures; /* of HDF5 before this file */
} kl_h5_in;

/* Whether every call of HDF5 since the file was opened succeeded: what asks whether a part is there takes a
   failure for a no. For the end of reading. */
kl_status kl_h5_check(const kl_h5_in *in, kl_err *err) KL_MUST_CHECK;

/* The failure of a file that is damaged: EINPUT, "PATH: is damaged: NAME why". */
kl_status kl_h5_bad(const kl_h5_in *in, const char *name, const char *why, kl_err *err);

/* An attribute of n numbers of in_memory's class. */
kl_status kl_h5_get_attribute(const kl_h5_in *in, hid_t at, const char *name, hid_t in_memory, int64_t n,
                              void *value, kl_err *err) KL_MUST_CHECK;
kl_status kl_h5_get_int(const kl_h5_in *in, hid_t at, const char *name, int64_t least, int64_t most,
                        int64_t *value, kl_err *err) KL_MUST_CHECK;
kl_status kl_h5_get_small(const kl_h5_in *in, hid_t at, const char *name, int least, int most, int *value,
                          kl_err *err) KL_MUST_CHECK;
kl_status kl_h5_get_real(const kl_h5_in *in, hid_t at, const char *name, double *value,
                         kl_err *err) KL_MUST_CHECK;
/* replaces *text */
kl_status kl_h5_get_text(const kl_h5_in *in, hid_t at, const char *name, char **text,
                         kl_err *err) KL_MUST_CHECK;
kl_status kl_h5_get_long_text(const kl_h5_in *in, hid_t at, const char *name, char **text,
                              kl_err *err) KL_MUST_CHECK;

kl_status kl_h5_get_group(const kl_h5_in *in, hid_t at, const char *name, hid_t *group,
                          kl_err *err) KL_MUST_CHECK;
int kl_h5_has(const kl_h5_in *in, const char *name); /* whether a link of this path from the root is there */

/* Links of a group in order of their names. */
kl_status kl_h5_link_count(const kl_h5_in *in, hid_t group, int64_t *n, kl_err *err) KL_MUST_CHECK;
kl_status kl_h5_link_name(const kl_h5_in *in, hid_t group, int64_t i, char name[KL_H5_MAX_NAME],
                          kl_err *err) KL_MUST_CHECK;

/* Opens a data set of this class that is stored in full; shape has room for 3, *count is their product. */
kl_status kl_h5_open_array(const kl_h5_in *in, hid_t at, const char *name, H5T_class_t class, hid_t *set,
                           int *rank, int64_t shape[KL_H5_MAX_RANK], int64_t *count,
                           kl_err *err) KL_MUST_CHECK;

/* Reads all of a data set into a new array, row-major. The rank, and every extent that is not -1 on entry,
   must agree; an element in memory is as large as in_memory. */
kl_status kl_h5_get_array(const kl_h5_in *in, hid_t at, const char *name, hid_t in_memory, int rank,
                          int64_t *shape, kl_mem_kind kind, void **out, kl_err *err) KL_MUST_CHECK;
kl_status kl_h5_get_reals(const kl_h5_in *in, hid_t at, const char *name, int64_t n, kl_mem_kind kind,
                          double **out, kl_err *err) KL_MUST_CHECK;

/* Reads the n elements of a one-dimensional data set into out[n]. */
kl_status kl_h5_get_list(const kl_h5_in *in, hid_t at, const char *name, hid_t in_memory, int64_t n,
                         void *out, kl_err *err) KL_MUST_CHECK;

/* Rows [first, first + n) of an open set of rank 1 or 2; name for the message. */
kl_status kl_h5_get_part(const kl_h5_in *in, hid_t set, const char *name, int64_t first, int64_t n,
                         double *value, kl_err *err) KL_MUST_CHECK;

#endif
