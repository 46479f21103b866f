/* HDF5 primitives: see h5.h. Knows no result, no model and no file name's meaning.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/h5.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* HDF5 keeps its state for the whole process and is usually built without locks: one thread at a time is in
   it, from begin to end, and what follows is that thread's. A thread may open a file while it has another. */
static pthread_mutex_t in_use = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static volatile sig_atomic_t nopen; /* files between begin and end, for a handler of signals */
static int of_program; /* HDF5 is for this program alone: see kl_h5_of_program */

int kl_h5_is_busy(void) { return nopen > 0; }

static int nfailure;  /* calls of HDF5 that failed */
static int no_memory; /* one of them since begin, for want of memory */

int kl_h5_failures(void) { return nfailure; }

static herr_t look_at(unsigned n, const H5E_error2_t *e, void *none)
{
    (void)n;
    (void)none;
    if (e->maj_num == H5E_RESOURCE || e->min_num == H5E_NOSPACE || e->min_num == H5E_CANTALLOC) no_memory = 1;
    return 0;
}

/* What HDF5 calls where it would print: it prints nothing, and no failure gets lost. */
static herr_t on_failure(hid_t stack, void *none)
{
    static int looking; /* looking at what failed may fail, too */
    (void)none;
    nfailure++;
    if (looking) return 0;
    looking = 1;
    H5Ewalk2(stack, H5E_WALK_DOWNWARD, look_at, NULL);
    looking = 0;
    return 0;
}

static int exchange(kl_h5_quiet *q)
{
    return H5Eget_auto2(H5E_DEFAULT, &q->print, &q->data) >= 0 &&
           H5Eset_auto2(H5E_DEFAULT, on_failure, NULL) >= 0;
}

void kl_h5_of_program(void) { of_program = 1; }

/* HDF5 prints what fails while it starts, before it can be told not to: meanwhile stderr leads nowhere. Other
   threads than ours may write there in somebody else's program, which keeps it as it is. */
static int start(void)
{
    if (!of_program) return H5open() >= 0;
    /* we close what we open; HDF5 itself, where memory has failed it, ends in a crash or in text */
    H5dont_atexit();
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC),
              was = nowhere < 0 ? -1 : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (was >= 0) (void)dup2(nowhere, STDERR_FILENO);
    kl_h5_quiet q;
    const int good = H5open() >= 0 && exchange(&q) && H5Eset_auto2(H5E_DEFAULT, q.print, q.data) >= 0;
    if (was >= 0) (void)dup2(was, STDERR_FILENO);
    if (was >= 0) close(was);
    if (nowhere >= 0) close(nowhere);
    return good;
}

kl_status kl_h5_begin(kl_h5_quiet *q, kl_err *err)
{
    static enum { NOT_YET, STARTED, FAILED } state; /* an HDF5 that has half started is not started again */
    *q = (kl_h5_quiet){NULL, NULL};
    pthread_mutex_lock(&in_use);
    if (nopen++ == 0) no_memory = 0;
    if (state == NOT_YET) state = start() ? STARTED : FAILED;
    if (state == STARTED && exchange(q)) return KL_OK;
    nopen--;
    pthread_mutex_unlock(&in_use);
    return kl_fail(err, KL_ENOMEM, "HDF5 cannot start: is there no memory?");
}

void kl_h5_end(kl_h5_quiet q)
{
    H5Eset_auto2(H5E_DEFAULT, q.print, q.data);
    nopen--;
    pthread_mutex_unlock(&in_use);
}

int kl_h5_ok(kl_h5_out *w, int64_t code)
{
    if (code >= 0) return 1;
    if (!w->failed) w->error = errno;
    w->failed = 1;
    return 0;
}

void kl_h5_put_attribute(kl_h5_out *w, hid_t at, const char *name, hid_t on_disk, hid_t in_memory, hsize_t n,
                         const void *value)
{
    if (w->failed) return;
    const hid_t space = n == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &n, NULL);
    const hid_t attribute = H5Acreate2(at, name, on_disk, space, H5P_DEFAULT, H5P_DEFAULT);
    if (kl_h5_ok(w, attribute)) {
        kl_h5_ok(w, H5Awrite(attribute, in_memory, value));
        kl_h5_ok(w, H5Aclose(attribute));
    }
    H5Sclose(space);
}

void kl_h5_put_int(kl_h5_out *w, hid_t at, const char *name, int64_t value)
{
    kl_h5_put_attribute(w, at, name, H5T_STD_I64LE, H5T_NATIVE_INT64, 0, &value);
}

void kl_h5_put_real(kl_h5_out *w, hid_t at, const char *name, double value)
{
    kl_h5_put_attribute(w, at, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 0, &value);
}

hid_t kl_h5_text_type(size_t size)
{
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, size);
    H5Tset_cset(type, H5T_CSET_UTF8);
    return type;
}

void kl_h5_put_text(kl_h5_out *w, hid_t at, const char *name, const char *text)
{
    char cut[KL_H5_MAX_TEXT + 1];
    snprintf(cut, sizeof(cut), "%s", text != NULL ? text : "");
    const hid_t type = kl_h5_text_type(strlen(cut) + 1);
    kl_h5_put_attribute(w, at, name, type, type, 0, cut);
    H5Tclose(type);
}

void kl_h5_put_long_text(kl_h5_out *w, hid_t at, const char *name, const char *text)
{
    const hid_t type = kl_h5_text_type(strlen(text) + 1);
    kl_h5_put_array(w, at, name, type, type, 0, NULL, text, NULL);
    H5Tclose(type);
}

/* Whether a group knows in which order its members were written. */
static int is_in_order(hid_t group)
{
    unsigned kept = 0;
    if (H5Iget_type(group) != H5I_GROUP) return 0;
    const hid_t create = H5Gget_create_plist(group);
    if (create < 0) return 0;
    const int known = H5Pget_link_creation_order(create, &kept) >= 0 && (kept & H5P_CRT_ORDER_INDEXED);
    H5Pclose(create);
    return known;
}

/* One group, without the time of day: the same run writes the same bytes. */
static hid_t create_group(hid_t at, const char *name, int in_order)
{
    const hid_t create = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_obj_track_times(create, 0);
    if (in_order) H5Pset_link_creation_order(create, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    const hid_t group = H5Gcreate2(at, name, H5P_DEFAULT, create, H5P_DEFAULT);
    H5Pclose(create);
    return group;
}

/* The groups that a name lies in, where they are missing: those that the library makes by itself have the
   time of day. */
static void create_way(kl_h5_out *w, hid_t at, const char *name)
{
    for (const char *end = strchr(name, '/'); end != NULL && !w->failed; end = strchr(end + 1, '/')) {
        char part[2 * KL_H5_MAX_NAME];
        if (end - name >= (ptrdiff_t)sizeof part) {
            w->failed = 1, w->error = ENAMETOOLONG;
            return;
        }
        snprintf(part, sizeof part, "%.*s", (int)(end - name), name);
        if (H5Lexists(at, part, H5P_DEFAULT) > 0) continue;
        const hid_t group = create_group(at, part, is_in_order(at));
        if (kl_h5_ok(w, group)) H5Gclose(group);
    }
}

hid_t kl_h5_put_group(kl_h5_out *w, hid_t at, const char *name)
{
    create_way(w, at, name);
    if (w->failed) return -1;
    const hid_t group = create_group(at, name, 0);
    return kl_h5_ok(w, group) ? group : -1;
}

hid_t kl_h5_put_ordered_group(kl_h5_out *w, hid_t at, const char *name)
{
    if (w->failed) return -1;
    const hid_t group = create_group(at, name, 1);
    return kl_h5_ok(w, group) ? group : -1;
}

void kl_h5_end_group(hid_t group)
{
    if (group >= 0) H5Gclose(group);
}

void kl_h5_put_array(kl_h5_out *w, hid_t at, const char *name, hid_t on_disk, hid_t in_memory, int rank,
                     const hsize_t *shape, const void *value, const char *note)
{
    create_way(w, at, name);
    if (w->failed) return;
    const hid_t space = rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(rank, shape, NULL);
    const hid_t create = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(create, 0);
    const hid_t set = H5Dcreate2(at, name, on_disk, space, H5P_DEFAULT, create, H5P_DEFAULT);
    if (kl_h5_ok(w, set)) {
        if (value != NULL) kl_h5_ok(w, H5Dwrite(set, in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, value));
        if (note != NULL) kl_h5_put_text(w, set, "note", note);
        kl_h5_ok(w, H5Dclose(set));
    }
    H5Sclose(space);
    H5Pclose(create);
}

void kl_h5_put_ints(kl_h5_out *w, hid_t at, const char *name, int64_t n, const int64_t *value)
{
    const hsize_t shape = (hsize_t)n;
    kl_h5_put_array(w, at, name, H5T_STD_I64LE, H5T_NATIVE_INT64, 1, &shape, value, NULL);
}

void kl_h5_put_reals(kl_h5_out *w, hid_t at, const char *name, int64_t n, const double *value,
                     const char *note)
{
    const hsize_t shape = (hsize_t)n;
    kl_h5_put_array(w, at, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 1, &shape, value, note);
}

/* Between memory and rows [first, first + n) of an open set of rank 1 or 2, to (or from) the disk. */
static int move_part(hid_t set, int64_t first, int64_t n, void *to, const void *from)
{
    hsize_t start[2] = {(hsize_t)first, 0}, count[2] = {0, 1};
    const hid_t file = H5Dget_space(set);
    if (file < 0 || H5Sget_simple_extent_ndims(file) > 2 || H5Sget_simple_extent_dims(file, count, NULL) < 1)
        return 0;
    count[0] = (hsize_t)n;
    const hsize_t all = count[0] * count[1];
    const hid_t memory = H5Screate_simple(1, &all, NULL);
    const int done = H5Sselect_hyperslab(file, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
                     (to != NULL ? H5Dread(set, H5T_NATIVE_DOUBLE, memory, file, H5P_DEFAULT, to)
                                 : H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, file, H5P_DEFAULT, from)) >= 0;
    H5Sclose(memory);
    H5Sclose(file);
    return done;
}

void kl_h5_put_part(kl_h5_out *w, hid_t set, int64_t first, int64_t n, const double *value)
{
    if (!w->failed) kl_h5_ok(w, move_part(set, first, n, NULL, value) ? 0 : -1);
}

/* ---------------------------------------------------------------- reading */

kl_status kl_h5_bad(const kl_h5_in *in, const char *what, const char *why, kl_err *err)
{
    if (no_memory) return kl_fail(err, KL_ENOMEM, "%.300s: HDF5 has no memory to read %s", in->path, what);
    return kl_fail(err, KL_EINPUT, "%.300s: is damaged: %s %s", in->path, what, why);
}

kl_status kl_h5_check(const kl_h5_in *in, kl_err *err)
{
    return nfailure == in->failures ? KL_OK : kl_h5_bad(in, "HDF5", "cannot read a part of it", err);
}

kl_status kl_h5_get_attribute(const kl_h5_in *in, hid_t at, const char *name, hid_t in_memory, int64_t n,
                              void *value, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t attribute = -1, space = -1, type = -1;
    attribute = H5Aopen(at, name, H5P_DEFAULT);
    if (attribute < 0) KL_TRY(kl_h5_bad(in, name, "is missing", err));
    space = H5Aget_space(attribute);
    type = H5Aget_type(attribute);
    if (space < 0 || type < 0 || H5Tget_class(type) != H5Tget_class(in_memory) ||
        H5Sget_simple_extent_npoints(space) != n)
        KL_TRY(kl_h5_bad(in, name, "has the wrong type or length", err));
    if (H5Aread(attribute, in_memory, value) < 0) KL_TRY(kl_h5_bad(in, name, "cannot be read", err));
out:
    if (type >= 0) H5Tclose(type);
    if (space >= 0) H5Sclose(space);
    if (attribute >= 0) H5Aclose(attribute);
    return st;
}

kl_status kl_h5_get_int(const kl_h5_in *in, hid_t at, const char *name, int64_t least, int64_t most,
                        int64_t *value, kl_err *err)
{
    *value = 0;
    kl_status st = kl_h5_get_attribute(in, at, name, H5T_NATIVE_INT64, 1, value, err);
    if (st == KL_OK && (*value < least || *value > most))
        st = kl_fail(err, KL_EINPUT, "%.300s: is damaged: %s is %lld, outside %lld to %lld", in->path, name,
                     (long long)*value, (long long)least, (long long)most);
    return st;
}

kl_status kl_h5_get_small(const kl_h5_in *in, hid_t at, const char *name, int least, int most, int *value,
                          kl_err *err)
{
    int64_t wide;
    const kl_status st = kl_h5_get_int(in, at, name, least, most, &wide, err);
    *value = (int)wide;
    return st;
}

kl_status kl_h5_get_real(const kl_h5_in *in, hid_t at, const char *name, double *value, kl_err *err)
{
    *value = 0;
    return kl_h5_get_attribute(in, at, name, H5T_NATIVE_DOUBLE, 1, value, err);
}

/* Of an attribute, or of a scalar data set (is_set). */
/* Whether a terminal takes what stands here for an order: control characters of ASCII and, in UTF-8, of ISO
   8859. */
static int is_control(const char *text)
{
    const unsigned char *const c = (const unsigned char *)text;
    return (c[0] < 0x20 && c[0] != '\n' && c[0] != '\t') || c[0] == 0x7f ||
           (c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0);
}

void kl_h5_make_plain(char *text)
{
    for (; *text != '\0'; text++) {
        if (!is_control(text)) continue;
        if ((unsigned char)*text == 0xc2) *text++ = '?';
        *text = '?';
    }
}

static kl_status get_text(const kl_h5_in *in, hid_t at, const char *name, int is_set, char **text,
                          kl_err *err)
{
    kl_status st = KL_OK;
    hid_t it = -1, type = -1, space = -1, in_memory = -1;
    it = is_set ? H5Dopen2(at, name, H5P_DEFAULT) : H5Aopen(at, name, H5P_DEFAULT);
    if (it < 0) KL_TRY(kl_h5_bad(in, name, "is missing", err));
    type = is_set ? H5Dget_type(it) : H5Aget_type(it);
    space = is_set ? H5Dget_space(it) : H5Aget_space(it);
    const size_t size = type < 0 ? 0 : H5Tget_size(type);
    if (type < 0 || space < 0 || H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) > 0 ||
        H5Sget_simple_extent_npoints(space) != 1 || size < 1 || (int64_t)size > in->bytes)
        KL_TRY(kl_h5_bad(in, name, "is no text", err));
    kl_free(text);
    KL_TRY(kl_alloc(text, (int64_t)size + 1, KL_MEM_MISC, err));
    in_memory = kl_h5_text_type(size);
    if ((is_set ? H5Dread(it, in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, *text)
                : H5Aread(it, in_memory, *text)) < 0)
        KL_TRY(kl_h5_bad(in, name, "cannot be read", err));
    (*text)[size] = '\0';
    kl_h5_make_plain(*text);
out:
    if (in_memory >= 0) H5Tclose(in_memory);
    if (space >= 0) H5Sclose(space);
    if (type >= 0) H5Tclose(type);
    if (it >= 0) {
        if (is_set) H5Dclose(it);
        else H5Aclose(it);
    }
    return st;
}

kl_status kl_h5_get_text(const kl_h5_in *in, hid_t at, const char *name, char **text, kl_err *err)
{
    return get_text(in, at, name, 0, text, err);
}

kl_status kl_h5_get_long_text(const kl_h5_in *in, hid_t at, const char *name, char **text, kl_err *err)
{
    return get_text(in, at, name, 1, text, err);
}

kl_status kl_h5_get_group(const kl_h5_in *in, hid_t at, const char *name, hid_t *group, kl_err *err)
{
    *group = H5Gopen2(at, name, H5P_DEFAULT);
    return *group >= 0 ? KL_OK : kl_h5_bad(in, name, "is missing", err);
}

int kl_h5_has(const kl_h5_in *in, const char *name)
{
    char part[KL_H5_MAX_NAME];
    /* HDF5 wants to be asked step by step */
    for (const char *slash = strchr(name, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof(part), "%.*s", (int)(slash - name), name);
        if (H5Lexists(in->file, part, H5P_DEFAULT) <= 0) return 0;
    }
    return H5Lexists(in->file, name, H5P_DEFAULT) > 0;
}

kl_status kl_h5_open_array(const kl_h5_in *in, hid_t at, const char *name, H5T_class_t class, hid_t *set,
                           int *rank, int64_t shape[KL_H5_MAX_RANK], int64_t *count, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t space = -1, type = -1;
    hsize_t extent[KL_H5_MAX_RANK] = {0};
    *set = H5Dopen2(at, name, H5P_DEFAULT);
    if (*set < 0) KL_TRY(kl_h5_bad(in, name, "is missing", err));
    space = H5Dget_space(*set);
    type = H5Dget_type(*set);
    *rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    if (type < 0 || *rank < 0 || *rank > KL_H5_MAX_RANK || H5Tget_class(type) != class)
        KL_TRY(kl_h5_bad(in, name, "has the wrong type or rank", err));
    if (*rank > 0 && H5Sget_simple_extent_dims(space, extent, NULL) < 0)
        KL_TRY(kl_h5_bad(in, name, "has no shape", err));
    *count = 1;
    for (int k = 0; k < *rank; k++) {
        if (extent[k] > (hsize_t)in->bytes || !kl_mul_size(*count, (int64_t)extent[k], count))
            KL_TRY(kl_h5_bad(in, name, "is larger than the file", err));
        shape[k] = (int64_t)extent[k];
    }
    int64_t bytes;
    if (!kl_mul_size(*count, (int64_t)H5Tget_size(type), &bytes) || bytes > in->bytes ||
        (int64_t)H5Dget_storage_size(*set) != bytes)
        KL_TRY(kl_h5_bad(in, name, "is not stored in full", err));
out:
    if (type >= 0) H5Tclose(type);
    if (space >= 0) H5Sclose(space);
    if (st != KL_OK && *set >= 0) {
        H5Dclose(*set);
        *set = -1;
    }
    return st;
}

kl_status kl_h5_get_array(const kl_h5_in *in, hid_t at, const char *name, hid_t in_memory, int rank,
                          int64_t *shape, kl_mem_kind kind, void **out, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t set = -1;
    int have_rank;
    int64_t have[KL_H5_MAX_RANK] = {0}, count = 0;
    *out = NULL;
    KL_TRY(kl_h5_open_array(in, at, name, H5Tget_class(in_memory), &set, &have_rank, have, &count, err));
    int fits = have_rank == rank;
    for (int k = 0; k < rank && fits; k++) fits = shape[k] < 0 || shape[k] == have[k];
    if (!fits) KL_TRY(kl_h5_bad(in, name, "has the wrong shape", err));
    for (int k = 0; k < rank; k++) shape[k] = have[k];
    const size_t size = H5Tget_size(in_memory);
    if (size == 0) KL_TRY(kl_h5_bad(in, name, "cannot be read", err));
    KL_TRY(kl_alloc_bytes(out, count, size, kind, err));
    if (count > 0 && H5Dread(set, in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, *out) < 0)
        KL_TRY(kl_h5_bad(in, name, "cannot be read", err));
out:
    if (st != KL_OK) kl_free_ptr(out);
    if (set >= 0) H5Dclose(set);
    return st;
}

kl_status kl_h5_get_reals(const kl_h5_in *in, hid_t at, const char *name, int64_t n, kl_mem_kind kind,
                          double **out, kl_err *err)
{
    return kl_h5_get_array(in, at, name, H5T_NATIVE_DOUBLE, 1, &n, kind, (void **)out, err);
}

kl_status kl_h5_get_list(const kl_h5_in *in, hid_t at, const char *name, hid_t in_memory, int64_t n,
                         void *out, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t set = -1;
    int rank;
    int64_t shape[KL_H5_MAX_RANK], count = 0;
    KL_TRY(kl_h5_open_array(in, at, name, H5Tget_class(in_memory), &set, &rank, shape, &count, err));
    if (rank != 1 || count != n) KL_TRY(kl_h5_bad(in, name, "has the wrong shape", err));
    if (count > 0 && H5Dread(set, in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) < 0)
        KL_TRY(kl_h5_bad(in, name, "cannot be read", err));
out:
    if (set >= 0) H5Dclose(set);
    return st;
}

kl_status kl_h5_get_part(const kl_h5_in *in, hid_t set, const char *name, int64_t first, int64_t n,
                         double *value, kl_err *err)
{
    return move_part(set, first, n, value, NULL) ? KL_OK : kl_h5_bad(in, name, "cannot be read", err);
}

kl_status kl_h5_link_name(const kl_h5_in *in, hid_t group, int64_t i, char name[KL_H5_MAX_NAME], kl_err *err)
{
    const H5_index_t by = is_in_order(group) ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
    const ssize_t length =
        H5Lget_name_by_idx(group, ".", by, H5_ITER_INC, (hsize_t)i, name, KL_H5_MAX_NAME, H5P_DEFAULT);
    if (length <= 0 || length >= KL_H5_MAX_NAME) return kl_h5_bad(in, "a name", "cannot be read", err);
    for (const char *c = name; *c != '\0'; c++)
        if (is_control(c)) return kl_h5_bad(in, "a name", "holds a control character", err);
    return KL_OK;
}

kl_status kl_h5_link_count(const kl_h5_in *in, hid_t group, int64_t *n, kl_err *err)
{
    H5G_info_t info;
    if (H5Gget_info(group, &info) < 0 || info.nlinks > 1000000)
        return kl_h5_bad(in, "a group", "cannot be read", err);
    *n = (int64_t)info.nlinks;
    return KL_OK;
}
