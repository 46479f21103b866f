/* Checked files: see checked.h. Knows nothing of what they hold.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/checked.h"

#include "base/aside.h"
#include "base/infile.h"
#include "base/mem.h"
#include "base/par.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { CHECKSUM_BYTES = 512 };
#define CHECKSUM_TITLE "kronlat result"

/* ---------------------------------------------------------------- the checksum block: length and checksum in
   the user block */

typedef struct checksum {
    int64_t bytes; /* of the whole file */
    uint64_t hash; /* of all behind the checksum */
} checksum;

/* Large files are read in pieces by several threads, and their hash is that of the pieces' hashes. */
enum {
    WHOLE = KL_CHECKED_FORMAT, /* one hash of all */
    PIECES = KL_CHECKED_FORMAT + 1, /* as readers of the former format do not make it */
    CHUNK = 1 << 13, /* words at a time */
    MOST_THREADS = 8
};
static const int64_t piece_bytes = INT64_C(1) << 24, pieces_from = INT64_C(1) << 26;

typedef struct reading {
    int fd;
    int64_t step, npiece; /* step: bytes of a piece */
    int64_t next; /* that nobody has taken */
    struct piece {
        uint64_t hash;
        int64_t bytes; /* that are there */
        int error;
    } *piece;
} reading;

typedef struct reader {
    reading *of;
    pthread_t thread;
    int begun;
    uint64_t buffer[CHUNK];
} reader;

static void read_piece(const reading *r, int64_t p, uint64_t *buffer)
{
    struct piece *const out = &r->piece[p];
    const int64_t first = CHECKSUM_BYTES + p * r->step;
    *out = (struct piece){.hash = KL_HASH_EMPTY};
    while (out->bytes < r->step) {
        const int64_t rest = r->step - out->bytes, all = CHUNK * (int64_t)sizeof *buffer,
                      some = rest < all ? rest : all;
        int64_t have = 0;
        while (have < some) {
            const ssize_t n =
                pread(r->fd, (char *)buffer + have, (size_t)(some - have), first + out->bytes + have);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) out->error = errno;
            if (n <= 0) break;
            have += n;
        }
        const size_t padded = ((size_t)have + 7) / 8;
        memset((char *)buffer + have, 0, padded * 8 - (size_t)have);
        for (size_t i = 0; i < padded; i++) out->hash = kl_hash_mix(out->hash, buffer[i]);
        out->bytes += have;
        if (have < some) return;
    }
}

static void *read_pieces(void *self)
{
    reader *const t = self;
    for (;;) {
        const int64_t p = __atomic_fetch_add(&t->of->next, 1, __ATOMIC_RELAXED);
        if (p >= t->of->npiece) return NULL;
        read_piece(t->of, p, t->buffer);
    }
}

/* Threads of its own: a file may be written beside a run, which has the others. */
static kl_status read_by_all(reading *r, kl_err *err)
{
    kl_status st = KL_OK;
    reader *t = NULL;
    const int most = r->npiece < MOST_THREADS ? (int)r->npiece : MOST_THREADS,
              cores = most > 1 ? kl_par_threads(kl_par_cpus()) : 1, nthread = cores < most ? cores : most;
    KL_TRY(kl_alloc(&t, nthread, KL_MEM_MISC, err));
    for (int i = 0; i < nthread; i++) {
        t[i].of = r;
        t[i].begun = i > 0 && kl_aside_begin(&t[i].thread, read_pieces, &t[i]);
    }
    read_pieces(&t[0]);
    for (int i = 0; i < nthread; i++)
        if (t[i].begun) pthread_join(t[i].thread, NULL);
out:
    kl_free(&t);
    return st;
}

/* Reads fd from offset CHECKSUM_BYTES to its end; format: WHOLE or PIECES. */
static kl_status checksum_measure(int fd, const char *path, int format, checksum *out, kl_err *err)
{
    kl_status st = KL_OK;
    struct stat info;
    reading r = {.fd = fd, .step = format == PIECES ? piece_bytes : INT64_MAX - CHECKSUM_BYTES};
    if (fstat(fd, &info) != 0)
        KL_TRY(kl_fail(err, KL_EIO, "%.300s: cannot be read: %s", path, strerror(errno)));
    const int64_t length = info.st_size > CHECKSUM_BYTES ? info.st_size - CHECKSUM_BYTES : 0;
    r.npiece = format == PIECES && length > 0 ? (length + r.step - 1) / r.step : 1;
    KL_TRY(kl_alloc(&r.piece, r.npiece, KL_MEM_MISC, err));
    KL_TRY(read_by_all(&r, err));
    uint64_t hash = format == PIECES ? KL_HASH_EMPTY : r.piece->hash;
    out->bytes = CHECKSUM_BYTES;
    for (int64_t p = 0; p < r.npiece; p++) {
        if (r.piece[p].error)
            KL_TRY(kl_fail(err, KL_EIO, "%.300s: cannot be read: %s", path, strerror(r.piece[p].error)));
        if (format == PIECES) hash = kl_hash_mix(hash, r.piece[p].hash);
        out->bytes += r.piece[p].bytes;
    }
    out->hash = kl_hash_mix(hash, (uint64_t)out->bytes);
out:
    kl_free(&r.piece);
    return st;
}

/* The checksum says all of its block: any other byte in it is damage. */
static void checksum_print(const checksum *s, int format, char block[CHECKSUM_BYTES])
{
    memset(block, 0, CHECKSUM_BYTES);
    snprintf(block, CHECKSUM_BYTES, CHECKSUM_TITLE " %d (HDF5 from byte %d on)\nbytes %lld\nhash %016llx\n",
             format, (int)CHECKSUM_BYTES, (long long)s->bytes, (unsigned long long)s->hash);
}

static kl_status checksum_write(int fd, const char *path, kl_err *err)
{
    checksum s;
    char block[CHECKSUM_BYTES];
    struct stat info;
    if (fstat(fd, &info) != 0)
        return kl_fail(err, KL_EIO, "%.300s: cannot be read: %s", path, strerror(errno));
    const int format = info.st_size < pieces_from ? WHOLE : PIECES;
    const kl_status st = checksum_measure(fd, path, format, &s, err);
    if (st != KL_OK) return st;
    checksum_print(&s, format, block);
    const ssize_t n = pwrite(fd, block, sizeof(block), 0);
    return n == (ssize_t)sizeof(block) ? KL_OK
                                       : kl_fail(err, KL_EIO, "%.300s: cannot be written: %s", path,
                                                 n < 0 ? strerror(errno) : "the disk is full");
}

/* *size: of the file. */
static kl_status checksum_check(int fd, const char *path, int64_t *size, kl_err *err)
{
    kl_status st = KL_OK;
    char block[CHECKSUM_BYTES + 1] = {0}, wanted[CHECKSUM_BYTES];
    struct stat info;
    checksum have;
    int format = 0, skip = 0;
    long long bytes = 0;
    unsigned long long hash = 0;
    if (fstat(fd, &info) != 0)
        KL_TRY(kl_fail(err, KL_EIO, "%.300s: cannot be read: %s", path, strerror(errno)));
    const ssize_t n = pread(fd, block, CHECKSUM_BYTES, 0);
    if (n < 0) KL_TRY(kl_fail(err, KL_EIO, "%.300s: cannot be read: %s", path, strerror(errno)));
    if (info.st_size == 0)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "%.300s: is empty, no result file; a run under way may have taken the name and not "
                       "have written yet",
                       path));
    if (sscanf(block, CHECKSUM_TITLE " %d (HDF5 from byte %d on) bytes %lld hash %llx", &format, &skip,
               &bytes, &hash) != 4)
        KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: is no result file of kronlat (%lld bytes)", path,
                       (long long)info.st_size));
    if (format != WHOLE && format != PIECES)
        KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: has format %d; this program reads %d and %d", path, format,
                       WHOLE, PIECES));
    if (bytes != (long long)info.st_size)
        KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: is cut short or grown: %lld bytes, %lld when it was written",
                       path, (long long)info.st_size, bytes));
    KL_TRY(checksum_measure(fd, path, format, &have, err));
    *size = info.st_size;
    checksum_print(&have, format, wanted);
    if (have.bytes != bytes || memcmp(block, wanted, CHECKSUM_BYTES) != 0)
        KL_TRY(
            kl_fail(err, KL_EINPUT, "%.300s: was changed or damaged after it was written (checksum)", path));
out:
    return st;
}

kl_status kl_checked_renew(const char *path, kl_err *err)
{
    int fd;
    kl_status st = kl_infile_descriptor(path, O_RDWR, &fd, err);
    if (st != KL_OK) return st;
    st = checksum_write(fd, path, err);
    close(fd);
    return st;
}

enum { DESCRIPTOR_NAME = 32 };

/* HDF5 opens files by names: this one is the file that is open here already, whoever has exchanged its own
   name meanwhile. */
static const char *name_descriptor(int fd, char name[DESCRIPTOR_NAME])
{
    snprintf(name, DESCRIPTOR_NAME, "/proc/self/fd/%d", fd);
    return name;
}

/* The descriptor that HDF5 writes to, -1 if it does not tell. */
static int descriptor_of(hid_t file)
{
    void *handle = NULL;
    return H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) >= 0 && handle != NULL ? *(const int *)handle : -1;
}

/* Asks the disk for the bytes while the file is still empty: a full disk is found before HDF5 is in the
   middle of something. */
static kl_status reserve(int fd, const char *final, int64_t bytes, kl_err *err)
{
    const double megabytes = 1e-6 * (double)bytes;
    struct rlimit limit;
    struct statvfs disk;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        (uint64_t)bytes > limit.rlim_cur)
        return kl_fail(err, KL_EIO, "%.300s: cannot be written (%.1f MB): %s", final, megabytes,
                       strerror(EFBIG));
    if (fd < 0 || fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, bytes) == 0) return KL_OK;
    if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR)
        return kl_fail(err, KL_EIO, "%.300s: cannot be written (%.1f MB): %s", final, megabytes,
                       strerror(errno));
    if (fstatvfs(fd, &disk) == 0 && (double)disk.f_bavail * (double)disk.f_frsize < (double)bytes)
        return kl_fail(err, KL_EIO, "%.300s: cannot be written (%.1f MB): %s", final, megabytes,
                       strerror(ENOSPC));
    return KL_OK;
}

/* After a failed write HDF5 keeps what it could not flush, tries again when it closes, and may crash when it
   cannot: what is left goes to a file in memory that nobody reads. */
static void abandon(hid_t file)
{
    const int fd = descriptor_of(file), sink = memfd_create("kronlat-abandoned", MFD_CLOEXEC);
    if (fd >= 0 && sink >= 0) (void)dup3(sink, fd, O_CLOEXEC);
    if (sink >= 0) close(sink);
    H5Fclose(file);
}

static kl_status cannot(const char *path, const char *why, kl_err *err)
{
    return kl_fail(err, KL_EIO, "%.300s: cannot be written: %s", path, why);
}

/* HDF5 would not say why it cannot. */
static kl_status open_beside(const char *path, kl_atomic_file *p, kl_err *err)
{
    kl_err why;
    const kl_status st = kl_atomic_open(path, p, &why);
    if (st == KL_EIO) return cannot(path, why.text, err);
    return st == KL_OK ? st : kl_fail(err, st, "%s", why.text);
}

int kl_checked_is(const char *path)
{
    char text[sizeof CHECKSUM_TITLE] = "";
    FILE *from = NULL;
    kl_err ignored;
    struct stat info;
    /* of a pipe the first bytes would be gone */
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return 0;
    if (kl_infile_open(path, &from, &ignored) != KL_OK) return 0;
    const size_t n = fread(text, 1, sizeof text - 1, from);
    fclose(from);
    return n == sizeof text - 1 && strcmp(text, CHECKSUM_TITLE) == 0;
}

kl_status kl_checked_probe(const char *path, kl_err *err)
{
    kl_atomic_file p;
    const kl_status st = open_beside(path, &p, err);
    if (st == KL_OK) kl_atomic_drop(&p);
    return st;
}

int kl_checked_hold(const char *path)
{
    struct stat mine, there;
    for (;;) {
        int fd, bad;
        if (kl_infile_descriptor(path, O_RDONLY, &fd, NULL) != KL_OK) return -1;
        while ((bad = flock(fd, LOCK_EX | LOCK_NB)) != 0 && (errno == EINTR || errno == EWOULDBLOCK) &&
               !kl_interrupted())
            /* a lock that is waited for would outlast a request to stop */
            nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        if (!bad && fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_dev == there.st_dev &&
            mine.st_ino == there.st_ino)
            return fd;
        close(fd); /* who had it before has replaced it by another file: that one is to be locked */
        if (bad) return -1;
    }
}

static hid_t for_writing(void)
{
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST);
    H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
    /* the name is private until it is renamed, and some network disks cannot lock */
    H5Pset_file_locking(access, 0, 1);
    return access;
}

kl_status kl_checked_create(const char *path, int64_t bytes, kl_checked *f, kl_err *err)
{
    f->out = (kl_h5_out){.file = -1};
    f->path = path;
    const kl_status st = open_beside(path, &f->atomic, err);
    if (st != KL_OK) return st;
    /* where there is none HDF5 cannot even give the file up again, and says so when the program ends */
    const kl_status room = reserve(f->atomic.fd, path, bytes, err);
    if (room != KL_OK) {
        kl_atomic_drop(&f->atomic);
        return room;
    }
    const kl_status begun = kl_h5_begin(&f->quiet, err);
    if (begun != KL_OK) {
        kl_atomic_drop(&f->atomic);
        return begun;
    }
    f->out.failures = kl_h5_failures();
    const hid_t create = H5Pcreate(H5P_FILE_CREATE), access = for_writing();
    H5Pset_userblock(create, CHECKSUM_BYTES);
    /* of the root group: the same run writes the same bytes, whenever it does */
    H5Pset_obj_track_times(create, 0);
    char name[DESCRIPTOR_NAME];
    errno = 0;
    f->out.file = H5Fcreate(name_descriptor(f->atomic.fd, name), H5F_ACC_TRUNC, create, access);
    H5Pclose(create);
    H5Pclose(access);
    /* making the file gave the reserved space back */
    const kl_status reserved =
        kl_h5_ok(&f->out, f->out.file) ? reserve(f->atomic.fd, path, bytes, err) : KL_EIO;
    return reserved == KL_OK ? KL_OK : kl_checked_finish(f, f->out.failed ? KL_OK : reserved, err);
}

/* Writes length and checksum of a file that HDF5 has closed, syncs it and gives it its name. */
static kl_status publish(kl_checked *f, kl_err *err)
{
    kl_status st = KL_OK;
    struct stat whole;
    kl_err why;
    const int fd = f->atomic.fd;
    /* gives back what was reserved beyond the end */
    if (fstat(fd, &whole) != 0 || ftruncate(fd, whole.st_size) != 0)
        KL_TRY(cannot(f->path, strerror(errno), err));
    KL_TRY(checksum_write(fd, f->path, err));
    if (fsync(fd) != 0) KL_TRY(cannot(f->path, strerror(errno), err));
    if (kl_atomic_publish(&f->atomic, &why) != KL_OK)
        KL_TRY(kl_fail(err, KL_EIO, "%.300s: cannot be replaced: %s", f->path, why.text));
out:
    return st;
}

/* Ends what is done by HDF5. */
static kl_status close_file(kl_checked *f, kl_status written, kl_err *err)
{
    kl_status st = written;
    kl_h5_out *const w = &f->out;
    if (st == KL_OK && !w->failed) kl_h5_ok(w, H5Fflush(w->file, H5F_SCOPE_LOCAL));
    /* of a call whose answer nobody looked at */
    if (st == KL_OK && kl_h5_failures() != w->failures) kl_h5_ok(w, -1);
    if (w->file >= 0 && (st != KL_OK || w->failed)) abandon(w->file);
    else if (w->file >= 0) kl_h5_ok(w, H5Fclose(w->file));
    w->file = -1;
    kl_h5_end(f->quiet);
    if (st == KL_OK && w->failed)
        st = cannot(f->path, w->error != 0 ? strerror(w->error) : "HDF5 refused", err);
    return st;
}

kl_status kl_checked_finish(kl_checked *f, kl_status written, kl_err *err)
{
    kl_status st = close_file(f, written, err);
    if (st == KL_OK) st = publish(f, err);
    kl_atomic_drop(&f->atomic); /* unless it was published */
    return st;
}

kl_status kl_checked_pause(kl_checked *f, kl_status written, kl_err *err)
{
    const kl_status st = close_file(f, written, err);
    if (st == KL_OK) (void)sync_file_range(f->atomic.fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* where disks can */
    else kl_atomic_drop(&f->atomic);
    return st;
}

kl_status kl_checked_resume(kl_checked *f, kl_err *err)
{
    char name[DESCRIPTOR_NAME];
    const kl_status begun = kl_h5_begin(&f->quiet, err);
    if (begun != KL_OK) {
        kl_atomic_drop(&f->atomic);
        return begun;
    }
    f->out = (kl_h5_out){.file = -1, .failures = kl_h5_failures()};
    const hid_t access = for_writing();
    errno = 0;
    f->out.file = H5Fopen(name_descriptor(f->atomic.fd, name), H5F_ACC_RDWR, access);
    H5Pclose(access);
    return kl_h5_ok(&f->out, f->out.file) ? KL_OK : kl_checked_finish(f, KL_OK, err);
}

kl_status kl_checked_open(const char *path, kl_h5_in *in, kl_err *err)
{
    char name[DESCRIPTOR_NAME];
    *in = (kl_h5_in){.path = path, .file = -1};
    int fd;
    kl_status st = kl_infile_descriptor(path, O_RDONLY, &fd, err);
    if (st != KL_OK) return st;
    st = checksum_check(fd, path, &in->bytes, err);
    if (st == KL_OK) st = kl_h5_begin(&in->quiet, err);
    if (st == KL_OK) {
        in->failures = kl_h5_failures();
        const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
        H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
        H5Pset_file_locking(access, 0, 1); /* files are replaced, never changed in place */
        in->file = H5Fopen(name_descriptor(fd, name), H5F_ACC_RDONLY, access);
        H5Pclose(access);
        if (in->file < 0) {
            kl_h5_end(in->quiet);
            st = kl_h5_bad(in, "HDF5", "cannot read it", err);
        }
    }
    close(fd);
    return st;
}

void kl_checked_close(kl_h5_in *in)
{
    if (in->file <= 0) return;
    H5Fclose(in->file);
    kl_h5_end(in->quiet);
    in->file = -1;
}
