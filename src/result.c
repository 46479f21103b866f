/* Result files and checkpoints in HDF5. Does not decide when to write, and knows no command line.
   Nothing read from a file sizes an allocation before it was checked against what the file can hold.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define H5_USE_110_API /* newer releases keep these names */
#include "result.h"

#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "mem.h"

enum { SEAL_BYTES = 512, MAX_TEXT = 60000, MAX_NAME = 256 };
#define SEAL_TITLE "kronlat result"

/* HDF5 prints its own errors by default; a library does not print. */
typedef struct quiet {
    H5E_auto2_t print;
    void *data;
} quiet;

static quiet quiet_begin(void)
{
    quiet q = {NULL, NULL};
    H5Eget_auto2(H5E_DEFAULT, &q.print, &q.data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    return q;
}

static void quiet_end(quiet q) { H5Eset_auto2(H5E_DEFAULT, q.print, q.data); }

/* ---------------------------------------------------------------- the seal: length and checksum in the user block */

typedef struct seal {
    int64_t bytes; /* of the whole file */
    uint64_t hash; /* of all behind the seal */
} seal;

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 29);
}

/* Reads fd from offset SEAL_BYTES to its end. */
static kl_status seal_measure(int fd, const char *path, seal *out, kl_err *err)
{
    enum { CHUNK = 1 << 13 }; /* words */
    kl_status st = KL_OK;
    uint64_t *buffer = NULL;
    int64_t at = SEAL_BYTES;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    KL_TRY(kl_alloc(&buffer, CHUNK, KL_MEM_MISC, err));
    for (;;) {
        size_t have = 0;
        while (have < CHUNK * sizeof(uint64_t)) {
            const ssize_t n = pread(fd, (char *)buffer + have, CHUNK * sizeof(uint64_t) - have, at + (int64_t)have);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) KL_TRY(kl_fail(err, KL_EIO, "%.300s: cannot be read: %s", path, strerror(errno)));
            if (n == 0) break;
            have += (size_t)n;
        }
        if (have == 0) break;
        const size_t padded = (have + 7) / 8;
        memset((char *)buffer + have, 0, padded * 8 - have);
        for (size_t i = 0; i < padded; i++) hash = mix(hash, buffer[i]);
        at += (int64_t)have;
        if (have < CHUNK * sizeof(uint64_t)) break;
    }
    out->bytes = at;
    out->hash = mix(hash, (uint64_t)at);
out:
    kl_free(&buffer);
    return st;
}

static kl_status seal_write(int fd, const char *path, kl_err *err)
{
    seal s;
    char block[SEAL_BYTES] = {0};
    kl_status st = seal_measure(fd, path, &s, err);
    if (st != KL_OK) return st;
    snprintf(block, sizeof(block), SEAL_TITLE " %d (HDF5 from byte %d on)\nbytes %lld\nhash %016llx\n", KL_RESULT_FORMAT, (int)SEAL_BYTES, (long long)s.bytes,
             (unsigned long long)s.hash);
    const ssize_t n = pwrite(fd, block, sizeof(block), 0);
    return n == (ssize_t)sizeof(block) ? KL_OK : kl_fail(err, KL_EIO, "%.300s: cannot be written: %s", path, n < 0 ? strerror(errno) : "the disk is full");
}

static kl_status seal_check(const char *path, kl_err *err)
{
    kl_status st = KL_OK;
    char block[SEAL_BYTES + 1] = {0};
    struct stat info;
    seal have;
    int format = 0, skip = 0;
    long long bytes = 0;
    unsigned long long hash = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return kl_fail(err, KL_EIO, "%.300s: cannot be opened: %s", path, strerror(errno));
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) KL_TRY(kl_fail(err, KL_EIO, "%.300s: is no ordinary file", path));
    const ssize_t n = pread(fd, block, SEAL_BYTES, 0);
    if (n < 0) KL_TRY(kl_fail(err, KL_EIO, "%.300s: cannot be read: %s", path, strerror(errno)));
    if (sscanf(block, SEAL_TITLE " %d (HDF5 from byte %d on) bytes %lld hash %llx", &format, &skip, &bytes, &hash) != 4)
        KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: is no result file of kronlat (%lld bytes)", path, (long long)info.st_size));
    if (format != KL_RESULT_FORMAT)
        KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: has format %d; this program reads format %d", path, format, KL_RESULT_FORMAT));
    if (bytes != (long long)info.st_size)
        KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: is cut short or grown: %lld bytes, %lld when it was written", path, (long long)info.st_size, bytes));
    KL_TRY(seal_measure(fd, path, &have, err));
    if (have.hash != hash || have.bytes != bytes) KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: was changed or damaged after it was written (checksum)", path));
out:
    close(fd);
    return st;
}

kl_status kl_result_seal(const char *path, kl_err *err)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return kl_fail(err, KL_EIO, "%.300s: cannot be opened: %s", path, strerror(errno));
    const kl_status st = seal_write(fd, path, err);
    close(fd);
    return st;
}

/* ---------------------------------------------------------------- writing pieces */

/* One file being written: the first failure is kept, later calls do nothing, and the text is made once at the end. */
typedef struct writer {
    hid_t file;
    int failed;
    int error; /* errno at that moment */
} writer;

static int ok(writer *w, int64_t code)
{
    if (code >= 0) return 1;
    if (!w->failed) w->error = errno;
    w->failed = 1;
    return 0;
}

static void put_attribute(writer *w, hid_t at, const char *name, hid_t on_disk, hid_t in_memory, hsize_t n, const void *value)
{
    if (w->failed) return;
    const hid_t space = n == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &n, NULL);
    const hid_t attribute = H5Acreate2(at, name, on_disk, space, H5P_DEFAULT, H5P_DEFAULT);
    if (ok(w, attribute)) {
        ok(w, H5Awrite(attribute, in_memory, value));
        ok(w, H5Aclose(attribute));
    }
    H5Sclose(space);
}

static void put_int(writer *w, hid_t at, const char *name, int64_t value)
{
    put_attribute(w, at, name, H5T_STD_I64LE, H5T_NATIVE_INT64, 0, &value);
}

static void put_real(writer *w, hid_t at, const char *name, double value)
{
    put_attribute(w, at, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 0, &value);
}

static hid_t text_type(size_t size)
{
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, size);
    H5Tset_cset(type, H5T_CSET_UTF8);
    return type;
}

/* As an attribute, which HDF5 limits to 64 kB: longer texts are cut. */
static void put_text(writer *w, hid_t at, const char *name, const char *text)
{
    char cut[MAX_TEXT + 1];
    snprintf(cut, sizeof(cut), "%s", text != NULL ? text : "");
    const hid_t type = text_type(strlen(cut) + 1);
    put_attribute(w, at, name, type, type, 0, cut);
    H5Tclose(type);
}

static hid_t put_group(writer *w, hid_t at, const char *name)
{
    if (w->failed) return -1;
    const hid_t link = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(link, 1);
    const hid_t create = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_obj_track_times(create, 0);
    const hid_t group = H5Gcreate2(at, name, link, create, H5P_DEFAULT);
    H5Pclose(create);
    H5Pclose(link);
    return ok(w, group) ? group : -1;
}

static void end_group(hid_t group)
{
    if (group >= 0) H5Gclose(group);
}

/* Dataset of any rank (0: a scalar), its values and, if note is given, an attribute "note". Intermediate groups are made. */
static void put_array(writer *w, hid_t at, const char *name, hid_t on_disk, hid_t in_memory, int rank, const hsize_t *shape, const void *value, const char *note)
{
    if (w->failed) return;
    const hid_t link = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(link, 1);
    const hid_t space = rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(rank, shape, NULL);
    const hid_t create = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(create, 0); /* the same run writes the same bytes */
    const hid_t set = H5Dcreate2(at, name, on_disk, space, link, create, H5P_DEFAULT);
    if (ok(w, set)) {
        if (value != NULL) ok(w, H5Dwrite(set, in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, value));
        if (note != NULL) put_text(w, set, "note", note);
        ok(w, H5Dclose(set));
    }
    H5Sclose(space);
    H5Pclose(create);
    H5Pclose(link);
}

static void put_reals(writer *w, hid_t at, const char *name, int64_t n, const double *value, const char *note)
{
    const hsize_t shape = (hsize_t)n;
    put_array(w, at, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 1, &shape, value, note);
}

/* Rows [first, first + n) of an open one-dimensional dataset. */
static int select_part(hid_t set, int64_t first, int64_t n, hid_t *file_space, hid_t *memory_space)
{
    const hsize_t start = (hsize_t)first, count = (hsize_t)n;
    *file_space = H5Dget_space(set);
    *memory_space = H5Screate_simple(1, &count, NULL);
    return *file_space >= 0 && *memory_space >= 0 && H5Sselect_hyperslab(*file_space, H5S_SELECT_SET, &start, NULL, &count, NULL) >= 0;
}

/* ---------------------------------------------------------------- the table of sweeps */

typedef struct sweep_record { /* as in kl_dmrg_row, of fixed width */
    int64_t m, m_reached, napply, dim_max;
    double noise, change, discarded, seconds, flop;
    double energy[KL_MAX_ROOT];
} sweep_record;

/* The compound type with nstate energies; in_memory keeps the record's own places, on disk it is packed. */
static hid_t sweep_type(int nstate, int in_memory)
{
    static const struct {
        const char *name;
        size_t at;
        int is_int;
    } field[] = {
        {"m", offsetof(sweep_record, m), 1},           {"m_reached", offsetof(sweep_record, m_reached), 1},
        {"products", offsetof(sweep_record, napply), 1}, {"dim_max", offsetof(sweep_record, dim_max), 1},
        {"noise", offsetof(sweep_record, noise), 0},   {"change", offsetof(sweep_record, change), 0},
        {"discarded", offsetof(sweep_record, discarded), 0}, {"seconds", offsetof(sweep_record, seconds), 0},
        {"flop", offsetof(sweep_record, flop), 0},
    };
    enum { NFIELD = sizeof(field) / sizeof(field[0]) };
    const hsize_t n = (hsize_t)nstate;
    const hid_t energies = H5Tarray_create2(in_memory ? H5T_NATIVE_DOUBLE : H5T_IEEE_F64LE, 1, &n);
    const hid_t type = H5Tcreate(H5T_COMPOUND, in_memory ? sizeof(sweep_record) : 8 * (size_t)(NFIELD + nstate));
    for (size_t i = 0; i < NFIELD; i++) {
        const hid_t number = field[i].is_int ? (in_memory ? H5T_NATIVE_INT64 : H5T_STD_I64LE) : (in_memory ? H5T_NATIVE_DOUBLE : H5T_IEEE_F64LE);
        H5Tinsert(type, field[i].name, in_memory ? field[i].at : 8 * i, number);
    }
    H5Tinsert(type, "energy", in_memory ? offsetof(sweep_record, energy) : 8 * (size_t)NFIELD, energies);
    H5Tclose(energies);
    return type;
}

static kl_status put_sweeps(writer *w, const kl_dmrg_result *d, kl_err *err)
{
    sweep_record *record = NULL;
    kl_status st = kl_alloc(&record, d->nrow, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    for (int i = 0; i < d->nrow; i++) {
        const kl_dmrg_row *r = &d->row[i];
        record[i] = (sweep_record){r->m, r->m_reached, r->napply, r->dim_max, r->noise, r->change, r->discarded, r->seconds, r->flop, {0}};
        memcpy(record[i].energy, r->energy, sizeof(r->energy));
    }
    const hsize_t n = (hsize_t)d->nrow;
    const hid_t on_disk = sweep_type(d->nstate, 0), in_memory = sweep_type(d->nstate, 1);
    put_array(w, w->file, "sweeps", on_disk, in_memory, 1, &n, record, "one row for each sweep");
    H5Tclose(on_disk);
    H5Tclose(in_memory);
    kl_free(&record);
    return KL_OK;
}

/* ---------------------------------------------------------------- the state */

/* ORDER site_table: columns of /state/sites */
enum { SITE_ENLARGED, SITE_KEPT, SITE_DATA, SITE_NCOLUMN };

/* Position p of a state: its enlarged basis, and its isometry or NULL at the two centre positions. */
static const kl_enlarged *position_of(const kl_state *s, int p, const kl_isometry **iso)
{
    *iso = p < s->centre ? s->left[p] : p > s->centre + 1 ? s->right[p] : NULL;
    return p == s->centre ? s->row : p == s->centre + 1 ? s->col : (*iso)->enlarged;
}

static int64_t state_doubles(const kl_state *s)
{
    int64_t n = s->nstate * s->npsi;
    for (int p = 0; p < s->nsite; p++) {
        const kl_isometry *iso;
        position_of(s, p, &iso);
        if (iso != NULL) n += iso->ndata;
    }
    return n;
}

static void put_charges(int32_t *to, const kl_basis *b, int width)
{
    for (int i = 0; i < b->nsec; i++)
        for (int c = 0; c < width; c++) to[i * width + c] = b->q[i].v[c];
}

static kl_status put_state(writer *w, const kl_state *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int width = s->model->ncharge > 0 ? s->model->ncharge : 1;
    int64_t(*site)[SITE_NCOLUMN] = NULL;
    int32_t *enlarged = NULL, *kept = NULL, *dim = NULL;
    int64_t nenlarged = 0, nkept = 0, ndata = 0;
    hid_t group = -1, set = -1;
    KL_TRY(kl_alloc(&site, s->nsite, KL_MEM_MISC, err));
    for (int p = 0; p < s->nsite; p++) {
        const kl_isometry *iso;
        const kl_enlarged *e = position_of(s, p, &iso);
        site[p][SITE_ENLARGED] = e->basis.nsec;
        if (iso != NULL) {
            site[p][SITE_KEPT] = iso->basis.nsec;
            for (int i = 0; i < iso->basis.nsec; i++) site[p][SITE_DATA] += (int64_t)e->basis.dim[iso->sec[i]] * iso->basis.dim[i];
        }
        nenlarged += site[p][SITE_ENLARGED];
        nkept += site[p][SITE_KEPT];
        ndata += site[p][SITE_DATA];
    }
    KL_TRY(kl_alloc(&enlarged, nenlarged * width, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&kept, nkept * width, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&dim, nkept, KL_MEM_MISC, err));
    int64_t ie = 0, ik = 0;
    for (int p = 0; p < s->nsite; p++) {
        const kl_isometry *iso;
        const kl_enlarged *e = position_of(s, p, &iso);
        put_charges(enlarged + ie * width, &e->basis, width);
        ie += e->basis.nsec;
        if (iso == NULL) continue;
        put_charges(kept + ik * width, &iso->basis, width);
        for (int i = 0; i < iso->basis.nsec; i++) dim[ik + i] = iso->basis.dim[i];
        ik += iso->basis.nsec;
    }

    group = put_group(w, w->file, "state");
    put_int(w, group, "nsite", s->nsite);
    put_int(w, group, "centre", s->centre);
    put_int(w, group, "nstate", s->nstate);
    int64_t target[KL_MAX_CHARGE];
    for (int c = 0; c < KL_MAX_CHARGE; c++) target[c] = s->target.v[c];
    put_attribute(w, group, "target", H5T_STD_I64LE, H5T_NATIVE_INT64, KL_MAX_CHARGE, target);
    put_attribute(w, group, "energy", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, (hsize_t)s->nstate, s->energy);
    const hsize_t site_shape[2] = {(hsize_t)s->nsite, SITE_NCOLUMN};
    put_array(w, group, "sites", H5T_STD_I64LE, H5T_NATIVE_INT64, 2, site_shape, site, "by position: sectors of the enlarged block, sectors kept, numbers in data");
    const hsize_t enlarged_shape[2] = {(hsize_t)nenlarged, (hsize_t)width}, kept_shape[2] = {(hsize_t)nkept, (hsize_t)width}, dim_shape = (hsize_t)nkept;
    put_array(w, group, "enlarged_charge", H5T_STD_I32LE, H5T_NATIVE_INT32, 2, enlarged_shape, enlarged, NULL);
    put_array(w, group, "kept_charge", H5T_STD_I32LE, H5T_NATIVE_INT32, 2, kept_shape, kept, NULL);
    put_array(w, group, "kept_dim", H5T_STD_I32LE, H5T_NATIVE_INT32, 1, &dim_shape, dim, NULL);
    const hsize_t psi_shape[2] = {(hsize_t)s->nstate, (hsize_t)s->npsi};
    put_array(w, group, "psi", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 2, psi_shape, s->psi, "wavefunctions at the centre: sector by sector of the left part, column-major");

    put_reals(w, group, "data", ndata, NULL, "isometries by position, sector by sector, column-major");
    if (!w->failed && ndata > 0) {
        int64_t at = 0;
        set = H5Dopen2(group, "data", H5P_DEFAULT);
        for (int p = 0; p < s->nsite && ok(w, set); p++) {
            const kl_isometry *iso;
            const kl_enlarged *e = position_of(s, p, &iso);
            for (int i = 0; iso != NULL && i < iso->basis.nsec && !w->failed; i++) {
                const int64_t n = (int64_t)e->basis.dim[iso->sec[i]] * iso->basis.dim[i];
                hid_t file_space, memory_space;
                if (!select_part(set, at, n, &file_space, &memory_space)) w->failed = 1;
                else ok(w, H5Dwrite(set, H5T_NATIVE_DOUBLE, memory_space, file_space, H5P_DEFAULT, iso->data + iso->off[i]));
                H5Sclose(file_space);
                H5Sclose(memory_space);
                at += n;
            }
        }
        if (set >= 0) ok(w, H5Dclose(set));
    }
out:
    end_group(group);
    kl_free(&site);
    kl_free(&enlarged);
    kl_free(&kept);
    kl_free(&dim);
    return st;
}

/* ---------------------------------------------------------------- a run under way */

enum { RUN_PART = 1 << 20 }; /* doubles of a vector at a time */

static kl_status put_run(writer *w, const kl_result_run *run, kl_err *err)
{
    kl_status st = KL_OK;
    double *part = NULL;
    char name[32];
    const hid_t group = put_group(w, w->file, "run");
    KL_TRY(kl_alloc(&part, run->n < RUN_PART ? run->n : RUN_PART, KL_MEM_WORK, err));
    put_int(w, group, "nvector", run->nvector);
    put_int(w, group, "length", run->n);
    put_reals(w, group, "number", run->nnumber, run->number, "what the solver keeps of itself");
    for (int v = 0; v < run->nvector && !w->failed; v++) {
        snprintf(name, sizeof(name), "vector_%d", v);
        put_reals(w, group, name, run->n, NULL, NULL);
        const hid_t set = w->failed ? -1 : H5Dopen2(group, name, H5P_DEFAULT);
        for (int64_t first = 0; first < run->n && ok(w, set); first += RUN_PART) {
            const int64_t count = run->n - first < RUN_PART ? run->n - first : RUN_PART;
            hid_t file_space = -1, memory_space = -1;
            st = run->part(run->self, v, first, count, part, err);
            if (st == KL_OK)
                ok(w, select_part(set, first, count, &file_space, &memory_space) ? H5Dwrite(set, H5T_NATIVE_DOUBLE, memory_space, file_space, H5P_DEFAULT, part) : -1);
            if (memory_space >= 0) H5Sclose(memory_space);
            if (file_space >= 0) H5Sclose(file_space);
            if (st != KL_OK || w->failed) break;
        }
        if (set >= 0) H5Dclose(set);
        if (st != KL_OK) goto out;
    }
out:
    end_group(group);
    kl_free(&part);
    return st;
}

/* ---------------------------------------------------------------- writing a file */

static kl_status put_all(writer *w, const kl_result *r, const kl_state *state, const kl_result_run *run, kl_err *err)
{
    kl_status st = KL_OK;
    char text[32];
    put_text(w, w->file, "format", "kronlat result");
    put_int(w, w->file, "format_version", KL_RESULT_FORMAT);
    put_text(w, w->file, "program_version", r->program);
    put_text(w, w->file, "command_line", r->command_line);
    put_int(w, w->file, "finished", r->finished);
    put_int(w, w->file, "sweep_done", r->sweep_done);
    put_int(w, w->file, "seed", (int64_t)r->seed);

    const hid_t options_type = text_type(strlen(r->options) + 1);
    put_array(w, w->file, "options", options_type, options_type, 0, NULL, r->options, NULL);
    H5Tclose(options_type);

    hid_t group = put_group(w, w->file, "model");
    put_text(w, group, "name", r->model);
    put_text(w, group, "variant", r->variant);
    put_text(w, group, "formula", r->formula);
    snprintf(text, sizeof(text), "%016llx", (unsigned long long)r->model_hash);
    put_text(w, group, "hash", text);
    end_group(group);

    group = put_group(w, w->file, "lattice");
    put_text(w, group, "spec", r->lattice);
    snprintf(text, sizeof(text), "%016llx", (unsigned long long)r->lattice_hash);
    put_text(w, group, "hash", text);
    put_int(w, group, "nsite", r->nsite);
    const hsize_t nsite = (hsize_t)r->nsite, xy_shape[2] = {(hsize_t)r->nsite, 2};
    put_array(w, group, "order", H5T_STD_I32LE, H5T_NATIVE_INT, 1, &nsite, r->order, "lattice number of the site at each position");
    put_array(w, group, "xy", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 2, xy_shape, r->xy, "coordinates by lattice number");
    end_group(group);

    group = put_group(w, w->file, "charges");
    put_int(w, group, "count", r->ncharge);
    for (int c = 0; c < r->ncharge; c++) {
        snprintf(text, sizeof(text), "%d", c);
        const hid_t one = put_group(w, group, text);
        put_text(w, one, "name", r->charge[c].name);
        put_int(w, one, "modulus", r->charge[c].modulus);
        put_int(w, one, "unit_num", r->charge[c].unit_num);
        put_int(w, one, "unit_den", r->charge[c].unit_den);
        put_int(w, one, "value", r->charge[c].value);
        end_group(one);
    }
    end_group(group);

    group = put_group(w, w->file, "parameters");
    for (int i = 0; i < r->nparam; i++) {
        const hsize_t n = (hsize_t)r->param[i].n;
        put_array(w, group, r->param[i].name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, r->param[i].is_array, &n, r->param[i].value, NULL);
    }
    end_group(group);

    const kl_dmrg_result *d = &r->dmrg;
    group = put_group(w, w->file, "result");
    put_int(w, group, "nstate", d->nstate);
    put_int(w, group, "stop", d->stop);
    put_int(w, group, "direction", d->direction);
    put_real(w, group, "error_estimate", d->error_estimate);
    put_real(w, group, "energy_extrapolated", d->energy_extrapolated);
    put_real(w, group, "discarded", d->discarded);
    put_int(w, group, "products", d->napply);
    put_real(w, group, "flop", d->flop);
    put_real(w, group, "seconds", d->seconds);
    put_int(w, group, "dim_max", d->dim_max);
    put_int(w, group, "sector_max", d->sector_max);
    put_int(w, group, "matrix_max", d->matrix_max);
    put_real(w, group, "sector_mean", d->sector_mean);
    put_reals(w, group, "energy", d->nstate, d->energy, NULL);
    put_reals(w, group, "energy_kept", d->nstate, d->energy_kept, "<H> of the states in this file");
    put_reals(w, group, "seconds_part", KL_NPART, d->seconds_part, NULL);
    if (d->entropy != NULL) put_reals(w, group, "entropy", r->nsite - 1, d->entropy, "von Neumann entropy of the lowest state, by cut");
    end_group(group);
    if (d->nstate > 0) KL_TRY(put_sweeps(w, d, err));

    group = put_group(w, w->file, "measurements");
    for (int i = 0; i < r->nmeasured; i++) {
        const kl_measured *m = &r->measured[i];
        hsize_t shape[3];
        for (int k = 0; k < m->rank; k++) shape[k] = (hsize_t)m->shape[k];
        put_array(w, group, m->name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, m->rank, shape, m->data, m->note);
    }
    end_group(group);
    if (state != NULL) KL_TRY(put_state(w, state, err));
    if (run != NULL) KL_TRY(put_run(w, run, err));
out:
    return st;
}

/* An upper bound of the file's size, near enough to ask the disk for beforehand. */
static int64_t estimate_bytes(const kl_result *r, const kl_state *s, const kl_result_run *run)
{
    int64_t n = 65536 + 4 * MAX_TEXT + (int64_t)r->nsite * 512 + (int64_t)r->dmrg.nrow * (int64_t)sizeof(sweep_record) + (int64_t)strlen(r->options);
    for (int i = 0; i < r->nparam; i++) n += 1024 + 8 * r->param[i].n;
    for (int i = 0; i < r->nmeasured; i++) {
        int64_t size = 8;
        for (int k = 0; k < r->measured[i].rank; k++) size *= r->measured[i].shape[k];
        n += 1024 + size;
    }
    if (run != NULL) n += 8 * (run->nnumber + run->nvector * (run->n + 128));
    return s == NULL ? n : n + 8 * state_doubles(s);
}

/* The descriptor that HDF5 writes to, -1 if it does not tell. */
static int descriptor_of(hid_t file)
{
    void *handle = NULL;
    return H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) >= 0 && handle != NULL ? *(const int *)handle : -1;
}

/* Asks the disk for the bytes while the file is still empty: a full disk is found before HDF5 is in the middle of something. */
static kl_status reserve(hid_t file, const char *final, int64_t bytes, kl_err *err)
{
    const int fd = descriptor_of(file);
    const double megabytes = 1e-6 * (double)bytes;
    struct rlimit limit;
    struct statvfs disk;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && (uint64_t)bytes > limit.rlim_cur)
        return kl_fail(err, KL_EIO, "%.300s: cannot be written (%.1f MB): %s", final, megabytes, strerror(EFBIG));
    if (fd < 0 || fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, bytes) == 0) return KL_OK;
    if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR)
        return kl_fail(err, KL_EIO, "%.300s: cannot be written (%.1f MB): %s", final, megabytes, strerror(errno));
    if (fstatvfs(fd, &disk) == 0 && (double)disk.f_bavail * (double)disk.f_frsize < (double)bytes)
        return kl_fail(err, KL_EIO, "%.300s: cannot be written (%.1f MB): %s", final, megabytes, strerror(ENOSPC));
    return KL_OK;
}

/* After a failed write HDF5 keeps what it could not flush, tries again when it closes, and may crash when it cannot: what is left goes to a
   file in memory that nobody reads. */
static void abandon(hid_t file)
{
    const int fd = descriptor_of(file), sink = memfd_create("kronlat-abandoned", MFD_CLOEXEC);
    if (fd >= 0 && sink >= 0) (void)dup3(sink, fd, O_CLOEXEC);
    if (sink >= 0) close(sink);
    H5Fclose(file);
}

/* The renamed entry itself must reach the disk, or a power cut brings the old one back. */
static void sync_folder(const char *path)
{
    char folder[4096];
    snprintf(folder, sizeof(folder), "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash == NULL) snprintf(folder, sizeof(folder), ".");
    else slash[slash == folder] = '\0';
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd); /* some file systems cannot; the file itself is safe by then */
    close(fd);
}

static kl_status write_file(const char *path, const kl_result *r, const kl_state *state, const kl_result_run *run, kl_err *err)
{
    kl_status st = KL_OK;
    const quiet q = quiet_begin();
    writer w = {-1, 0, 0};
    char partial[4096];
    hid_t create = -1, access = -1;
    int fd = -1, made = 0;
    if (snprintf(partial, sizeof(partial), "%s.partial", path) >= (int)sizeof(partial))
        KL_TRY(kl_fail(err, KL_EINPUT, "%.80s...: the name of the file is too long", path));
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: is no ordinary file; a result would replace it", path));
    fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); /* HDF5 would not say why it cannot */
    if (fd < 0) KL_TRY(kl_fail(err, KL_EIO, "%.300s: cannot be written: %s", path, strerror(errno)));
    close(fd);
    fd = -1;
    made = 1;
    errno = 0;
    create = H5Pcreate(H5P_FILE_CREATE);
    access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_userblock(create, SEAL_BYTES);
    H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST);
    H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
    H5Pset_file_locking(access, 0, 1); /* the name is private until it is renamed, and some network disks cannot lock */
    w.file = H5Fcreate(partial, H5F_ACC_TRUNC, create, access);
    if (ok(&w, w.file)) {
        st = reserve(w.file, path, estimate_bytes(r, state, run), err);
        if (st == KL_OK) st = put_all(&w, r, state, run, err);
        if (st == KL_OK && !w.failed) ok(&w, H5Fflush(w.file, H5F_SCOPE_LOCAL));
        if (st != KL_OK || w.failed) abandon(w.file);
        else ok(&w, H5Fclose(w.file));
        if (st != KL_OK) goto out;
    }
    if (w.failed) KL_TRY(kl_fail(err, KL_EIO, "%.300s: cannot be written: %s", path, w.error != 0 ? strerror(w.error) : "HDF5 refused"));

    fd = open(partial, O_RDWR | O_CLOEXEC);
    if (fd < 0) KL_TRY(kl_fail(err, KL_EIO, "%.300s: cannot be written: %s", path, strerror(errno)));
    struct stat whole;
    if (fstat(fd, &whole) != 0 || ftruncate(fd, whole.st_size) != 0) /* gives back what was reserved beyond the end */
        KL_TRY(kl_fail(err, KL_EIO, "%.300s: cannot be written: %s", path, strerror(errno)));
    KL_TRY(seal_write(fd, path, err));
    if (fsync(fd) != 0) KL_TRY(kl_fail(err, KL_EIO, "%.300s: cannot be written: %s", path, strerror(errno)));
    if (rename(partial, path) != 0) KL_TRY(kl_fail(err, KL_EIO, "%.300s: cannot be replaced: %s", path, strerror(errno)));
    made = 0;
    sync_folder(path);
out:
    if (fd >= 0) close(fd);
    if (made) unlink(partial);
    if (create >= 0) H5Pclose(create);
    if (access >= 0) H5Pclose(access);
    quiet_end(q);
    return st;
}

kl_status kl_result_write(const char *path, const kl_result *r, const kl_state *state, kl_err *err) { return write_file(path, r, state, NULL, err); }

kl_status kl_result_write_run(const char *path, const kl_result *r, const kl_result_run *run, kl_err *err) { return write_file(path, r, NULL, run, err); }

/* ---------------------------------------------------------------- reading pieces */

typedef struct reader {
    const char *path;
    hid_t file;
    int64_t bytes; /* of the file: no dataset in it is larger */
} reader;

static kl_status bad(const reader *in, const char *what, const char *why, kl_err *err)
{
    return kl_fail(err, KL_EINPUT, "%.300s: is damaged: %s %s", in->path, what, why);
}

/* A stored number of n elements of in_memory type, from an attribute (n = 1 or a short list). */
static kl_status get_attribute(const reader *in, hid_t at, const char *name, hid_t in_memory, int64_t n, void *value, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t attribute = -1, space = -1, type = -1;
    attribute = H5Aopen(at, name, H5P_DEFAULT);
    if (attribute < 0) KL_TRY(bad(in, name, "is missing", err));
    space = H5Aget_space(attribute);
    type = H5Aget_type(attribute);
    if (space < 0 || type < 0 || H5Tget_class(type) != H5Tget_class(in_memory) || H5Sget_simple_extent_npoints(space) != n)
        KL_TRY(bad(in, name, "has the wrong type or length", err));
    if (H5Aread(attribute, in_memory, value) < 0) KL_TRY(bad(in, name, "cannot be read", err));
out:
    if (type >= 0) H5Tclose(type);
    if (space >= 0) H5Sclose(space);
    if (attribute >= 0) H5Aclose(attribute);
    return st;
}

static kl_status get_int(const reader *in, hid_t at, const char *name, int64_t least, int64_t most, int64_t *value, kl_err *err)
{
    *value = 0;
    kl_status st = get_attribute(in, at, name, H5T_NATIVE_INT64, 1, value, err);
    if (st == KL_OK && (*value < least || *value > most))
        st = kl_fail(err, KL_EINPUT, "%.300s: is damaged: %s is %lld, outside %lld to %lld", in->path, name, (long long)*value, (long long)least, (long long)most);
    return st;
}

static kl_status get_small(const reader *in, hid_t at, const char *name, int least, int most, int *value, kl_err *err)
{
    int64_t wide;
    const kl_status st = get_int(in, at, name, least, most, &wide, err);
    *value = (int)wide;
    return st;
}

static kl_status get_real(const reader *in, hid_t at, const char *name, double *value, kl_err *err)
{
    *value = 0;
    return get_attribute(in, at, name, H5T_NATIVE_DOUBLE, 1, value, err);
}

/* Text of an attribute, or of a scalar dataset (is_set). */
static kl_status get_text(const reader *in, hid_t at, const char *name, int is_set, char **text, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t it = -1, type = -1, space = -1, in_memory = -1;
    it = is_set ? H5Dopen2(at, name, H5P_DEFAULT) : H5Aopen(at, name, H5P_DEFAULT);
    if (it < 0) KL_TRY(bad(in, name, "is missing", err));
    type = is_set ? H5Dget_type(it) : H5Aget_type(it);
    space = is_set ? H5Dget_space(it) : H5Aget_space(it);
    const size_t size = type < 0 ? 0 : H5Tget_size(type);
    if (type < 0 || space < 0 || H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) > 0 || H5Sget_simple_extent_npoints(space) != 1 || size < 1 ||
        (int64_t)size > in->bytes)
        KL_TRY(bad(in, name, "is no text", err));
    kl_free(text);
    KL_TRY(kl_alloc(text, (int64_t)size + 1, KL_MEM_MISC, err));
    in_memory = text_type(size);
    if ((is_set ? H5Dread(it, in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, *text) : H5Aread(it, in_memory, *text)) < 0)
        KL_TRY(bad(in, name, "cannot be read", err));
    (*text)[size] = '\0';
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

static kl_status get_hash(const reader *in, hid_t at, const char *name, uint64_t *value, kl_err *err)
{
    char *text = NULL;
    unsigned long long x = 0;
    kl_status st = get_text(in, at, name, 0, &text, err);
    if (st == KL_OK && (strlen(text) != 16 || sscanf(text, "%16llx", &x) != 1)) st = bad(in, name, "is no fingerprint", err);
    *value = x;
    kl_free(&text);
    return st;
}

static kl_status get_group(const reader *in, hid_t at, const char *name, hid_t *group, kl_err *err)
{
    *group = H5Gopen2(at, name, H5P_DEFAULT);
    return *group >= 0 ? KL_OK : bad(in, name, "is missing", err);
}

/* Opens a dataset of numbers, checks class and that it is stored in full inside the file; shape has room for 3. */
static kl_status open_array(const reader *in, hid_t at, const char *name, H5T_class_t class, hid_t *set, int *rank, int64_t *shape, int64_t *count, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t space = -1, type = -1;
    hsize_t extent[3] = {0, 0, 0};
    *set = H5Dopen2(at, name, H5P_DEFAULT);
    if (*set < 0) KL_TRY(bad(in, name, "is missing", err));
    space = H5Dget_space(*set);
    type = H5Dget_type(*set);
    *rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    if (type < 0 || *rank < 0 || *rank > 3 || H5Tget_class(type) != class) KL_TRY(bad(in, name, "has the wrong type or rank", err));
    if (*rank > 0 && H5Sget_simple_extent_dims(space, extent, NULL) < 0) KL_TRY(bad(in, name, "has no shape", err));
    *count = 1;
    for (int k = 0; k < *rank; k++) {
        if (extent[k] > (hsize_t)in->bytes || !kl_mul_size(*count, (int64_t)extent[k], count)) KL_TRY(bad(in, name, "is larger than the file", err));
        shape[k] = (int64_t)extent[k];
    }
    int64_t bytes;
    if (!kl_mul_size(*count, (int64_t)H5Tget_size(type), &bytes) || bytes > in->bytes || (int64_t)H5Dget_storage_size(*set) != bytes)
        KL_TRY(bad(in, name, "is not stored in full", err));
out:
    if (type >= 0) H5Tclose(type);
    if (space >= 0) H5Sclose(space);
    if (st != KL_OK && *set >= 0) {
        H5Dclose(*set);
        *set = -1;
    }
    return st;
}

/* Reads all of a dataset into a new array; the rank and every extent that is not -1 on entry must agree. size: of one element in memory. */
static kl_status get_array(const reader *in, hid_t at, const char *name, hid_t in_memory, size_t size, int rank, int64_t *shape, kl_mem_kind kind, void **out,
                           kl_err *err)
{
    kl_status st = KL_OK;
    hid_t set = -1;
    int have_rank;
    int64_t have[3] = {0, 0, 0}, count = 0;
    *out = NULL;
    KL_TRY(open_array(in, at, name, H5Tget_class(in_memory), &set, &have_rank, have, &count, err));
    int fits = have_rank == rank;
    for (int k = 0; k < rank && fits; k++) fits = shape[k] < 0 || shape[k] == have[k];
    if (!fits) KL_TRY(bad(in, name, "has the wrong shape", err));
    for (int k = 0; k < rank; k++) shape[k] = have[k];
    KL_TRY(kl_alloc_bytes(out, count, size, kind, err));
    if (count > 0 && H5Dread(set, in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, *out) < 0) KL_TRY(bad(in, name, "cannot be read", err));
out:
    if (st != KL_OK) kl_free_ptr(out);
    if (set >= 0) H5Dclose(set);
    return st;
}

static kl_status get_reals(const reader *in, hid_t at, const char *name, int64_t n, kl_mem_kind kind, double **out, kl_err *err)
{
    return get_array(in, at, name, H5T_NATIVE_DOUBLE, sizeof(double), 1, &n, kind, (void **)out, err);
}

static kl_status reader_open(reader *in, const char *path, kl_err *err)
{
    *in = (reader){path, -1, 0};
    kl_status st = seal_check(path, err);
    if (st != KL_OK) return st;
    struct stat info;
    if (stat(path, &info) != 0) return kl_fail(err, KL_EIO, "%.300s: cannot be read: %s", path, strerror(errno));
    in->bytes = info.st_size;
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
    H5Pset_file_locking(access, 0, 1); /* files are replaced, never changed in place */
    in->file = H5Fopen(path, H5F_ACC_RDONLY, access);
    H5Pclose(access);
    if (in->file < 0) return kl_fail(err, KL_EINPUT, "%.300s: HDF5 cannot read it", path);
    return KL_OK;
}

static void reader_close(reader *in)
{
    if (in->file >= 0) H5Fclose(in->file);
    in->file = -1;
}

/* ---------------------------------------------------------------- reading the description */

static kl_status get_sweeps(const reader *in, kl_dmrg_result *d, kl_err *err)
{
    kl_status st = KL_OK;
    sweep_record *record = NULL;
    const hid_t in_memory = sweep_type(d->nstate, 1);
    int64_t n = -1;
    KL_TRY(get_array(in, in->file, "sweeps", in_memory, sizeof(sweep_record), 1, &n, KL_MEM_MISC, (void **)&record, err));
    if (n > 10000000) KL_TRY(bad(in, "sweeps", "has too many rows", err));
    KL_TRY(kl_alloc(&d->row, n, KL_MEM_MISC, err));
    for (int64_t i = 0; i < n; i++) {
        const sweep_record *r = &record[i];
        if (r->m < 0 || r->m > INT32_MAX || r->m_reached < 0 || r->m_reached > INT32_MAX) KL_TRY(bad(in, "sweeps", "holds an impossible m", err));
        kl_dmrg_row *to = &d->row[i];
        to->m = (int)r->m;
        to->m_reached = (int)r->m_reached;
        to->noise = r->noise;
        memcpy(to->energy, r->energy, sizeof(double) * (size_t)d->nstate);
        to->change = r->change;
        to->discarded = r->discarded;
        to->seconds = r->seconds;
        to->napply = r->napply;
        to->dim_max = r->dim_max;
        to->flop = r->flop;
    }
    d->nrow = (int)n;
out:
    H5Tclose(in_memory);
    kl_free(&record);
    return st;
}

static kl_status get_dmrg(const reader *in, int nsite, kl_dmrg_result *d, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t group = -1;
    int stop;
    double *list = NULL;
    KL_TRY(get_group(in, in->file, "result", &group, err));
    KL_TRY(get_small(in, group, "nstate", 0, KL_MAX_ROOT, &d->nstate, err));
    KL_TRY(get_small(in, group, "stop", 0, KL_STOP_INTERRUPTED, &stop, err));
    d->stop = (kl_dmrg_stop)stop;
    KL_TRY(get_small(in, group, "direction", -1, 1, &d->direction, err));
    KL_TRY(get_real(in, group, "error_estimate", &d->error_estimate, err));
    KL_TRY(get_real(in, group, "energy_extrapolated", &d->energy_extrapolated, err));
    KL_TRY(get_real(in, group, "discarded", &d->discarded, err));
    KL_TRY(get_int(in, group, "products", 0, INT64_MAX, &d->napply, err));
    KL_TRY(get_real(in, group, "flop", &d->flop, err));
    KL_TRY(get_real(in, group, "seconds", &d->seconds, err));
    KL_TRY(get_int(in, group, "dim_max", 0, INT64_MAX, &d->dim_max, err));
    KL_TRY(get_int(in, group, "sector_max", 0, INT64_MAX, &d->sector_max, err));
    KL_TRY(get_int(in, group, "matrix_max", 0, INT64_MAX, &d->matrix_max, err));
    KL_TRY(get_real(in, group, "sector_mean", &d->sector_mean, err));
    KL_TRY(get_reals(in, group, "energy", d->nstate, KL_MEM_MISC, &list, err));
    memcpy(d->energy, list, sizeof(double) * (size_t)d->nstate);
    kl_free(&list);
    KL_TRY(get_reals(in, group, "energy_kept", d->nstate, KL_MEM_MISC, &list, err));
    memcpy(d->energy_kept, list, sizeof(double) * (size_t)d->nstate);
    kl_free(&list);
    KL_TRY(get_reals(in, group, "seconds_part", KL_NPART, KL_MEM_MISC, &list, err));
    memcpy(d->seconds_part, list, sizeof(double) * KL_NPART);
    if (H5Lexists(group, "entropy", H5P_DEFAULT) > 0) KL_TRY(get_reals(in, group, "entropy", nsite - 1, KL_MEM_MISC, &d->entropy, err));
    if (d->nstate > 0) KL_TRY(get_sweeps(in, d, err));
out:
    kl_free(&list);
    end_group(group);
    return st;
}

/* Names of the links in a group, in HDF5's order by name. */
static kl_status link_name(const reader *in, hid_t group, hsize_t i, char name[MAX_NAME], kl_err *err)
{
    const ssize_t length = H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, MAX_NAME, H5P_DEFAULT);
    return length > 0 && length < MAX_NAME ? KL_OK : bad(in, "a name", "cannot be read", err);
}

static kl_status link_count(const reader *in, hid_t group, int64_t *n, kl_err *err)
{
    H5G_info_t info;
    if (H5Gget_info(group, &info) < 0 || info.nlinks > 1000000) return bad(in, "a group", "cannot be read", err);
    *n = (int64_t)info.nlinks;
    return KL_OK;
}

static kl_status get_params(const reader *in, kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t group = -1, set = -1;
    char name[MAX_NAME];
    int64_t n = 0;
    KL_TRY(get_group(in, in->file, "parameters", &group, err));
    KL_TRY(link_count(in, group, &n, err));
    KL_TRY(kl_alloc(&r->param, n, KL_MEM_MISC, err));
    for (int64_t i = 0; i < n; i++) {
        kl_result_param *p = &r->param[i];
        int rank;
        int64_t shape[3] = {1, 1, 1};
        KL_TRY(link_name(in, group, (hsize_t)i, name, err));
        KL_TRY(open_array(in, group, name, H5T_FLOAT, &set, &rank, shape, &p->n, err));
        H5Dclose(set);
        if (rank > 1) KL_TRY(bad(in, name, "has the wrong rank", err));
        p->is_array = rank;
        r->nparam = (int)i + 1;
        p->name = kl_strdup(name);
        if (p->name == NULL) KL_TRY(kl_fail(err, KL_ENOMEM, "no memory for the name of a parameter"));
        KL_TRY(get_array(in, group, name, H5T_NATIVE_DOUBLE, sizeof(double), rank, shape, KL_MEM_MISC, (void **)&p->value, err));
    }
out:
    end_group(group);
    return st;
}

static kl_status get_measured(const reader *in, hid_t group, const char *prefix, int depth, kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t child = -1;
    int64_t n = 0;
    double *data = NULL;
    char *note = NULL;
    if (depth > 4) KL_TRY(bad(in, "measurements", "is nested too deep", err));
    KL_TRY(link_count(in, group, &n, err));
    for (int64_t i = 0; i < n; i++) {
        char name[MAX_NAME], path[2 * MAX_NAME];
        H5O_info_t info;
        KL_TRY(link_name(in, group, (hsize_t)i, name, err));
        if (snprintf(path, sizeof(path), "%s%s%s", prefix, prefix[0] != '\0' ? "/" : "", name) >= MAX_NAME) KL_TRY(bad(in, name, "has an overlong name", err));
        if (H5Oget_info_by_name(group, name, &info, H5P_DEFAULT) < 0) KL_TRY(bad(in, path, "cannot be read", err));
        if (info.type == H5O_TYPE_GROUP) {
            KL_TRY(get_group(in, group, name, &child, err));
            KL_TRY(get_measured(in, child, path, depth + 1, r, err));
            H5Gclose(child);
            child = -1;
        } else if (info.type == H5O_TYPE_DATASET) {
            int rank;
            int64_t shape[3] = {1, 1, 1}, count;
            KL_TRY(open_array(in, group, name, H5T_FLOAT, &child, &rank, shape, &count, err));
            if (H5Aexists(child, "note") > 0) KL_TRY(get_text(in, child, "note", 0, &note, err));
            H5Dclose(child);
            child = -1;
            KL_TRY(get_array(in, group, name, H5T_NATIVE_DOUBLE, sizeof(double), rank, shape, KL_MEM_MISC, (void **)&data, err));
            KL_TRY(kl_result_add(r, path, note, rank, shape, data, err));
            kl_free(&data);
            kl_free(&note);
        }
    }
out:
    if (child >= 0) H5Oclose(child);
    kl_free(&data);
    kl_free(&note);
    return st;
}

static kl_status get_charges(const reader *in, kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t group = -1, one = -1;
    KL_TRY(get_group(in, in->file, "charges", &group, err));
    KL_TRY(get_small(in, group, "count", 0, KL_MAX_CHARGE, &r->ncharge, err));
    KL_TRY(kl_alloc(&r->charge, r->ncharge, KL_MEM_MISC, err));
    for (int c = 0; c < r->ncharge; c++) {
        char text[16];
        snprintf(text, sizeof(text), "%d", c);
        kl_result_charge *q = &r->charge[c];
        KL_TRY(get_group(in, group, text, &one, err));
        KL_TRY(get_text(in, one, "name", 0, &q->name, err));
        KL_TRY(get_small(in, one, "modulus", 0, INT16_MAX, &q->modulus, err));
        KL_TRY(get_small(in, one, "unit_num", 1, INT16_MAX, &q->unit_num, err));
        KL_TRY(get_small(in, one, "unit_den", 1, INT16_MAX, &q->unit_den, err));
        KL_TRY(get_small(in, one, "value", INT16_MIN, INT16_MAX, &q->value, err));
        H5Gclose(one);
        one = -1;
    }
out:
    end_group(one);
    end_group(group);
    return st;
}

static kl_status get_lattice(const reader *in, kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t group = -1;
    KL_TRY(get_group(in, in->file, "lattice", &group, err));
    KL_TRY(get_text(in, group, "spec", 0, &r->lattice, err));
    KL_TRY(get_hash(in, group, "hash", &r->lattice_hash, err));
    KL_TRY(get_small(in, group, "nsite", 1, 100000000, &r->nsite, err));
    int64_t order_shape = r->nsite, xy_shape[2] = {r->nsite, 2};
    KL_TRY(get_array(in, group, "order", H5T_NATIVE_INT, sizeof(int), 1, &order_shape, KL_MEM_MISC, (void **)&r->order, err));
    for (int i = 0; i < r->nsite; i++)
        if (r->order[i] < 0 || r->order[i] >= r->nsite) KL_TRY(bad(in, "order", "names a site that is not there", err));
    KL_TRY(get_array(in, group, "xy", H5T_NATIVE_DOUBLE, sizeof(double), 2, xy_shape, KL_MEM_MISC, (void **)&r->xy, err));
out:
    end_group(group);
    return st;
}

kl_status kl_result_read(const char *path, kl_result **out, kl_err *err)
{
    kl_status st = KL_OK;
    const quiet q = quiet_begin();
    reader in = {path, -1, 0};
    hid_t group = -1;
    kl_result *r = NULL;
    int64_t seed;
    *out = NULL;
    KL_TRY(reader_open(&in, path, err));
    KL_TRY(kl_alloc(&r, 1, KL_MEM_MISC, err));
    KL_TRY(get_text(&in, in.file, "program_version", 0, &r->program, err));
    KL_TRY(get_text(&in, in.file, "command_line", 0, &r->command_line, err));
    KL_TRY(get_text(&in, in.file, "options", 1, &r->options, err));
    KL_TRY(get_small(&in, in.file, "finished", 0, 1, &r->finished, err));
    KL_TRY(get_small(&in, in.file, "sweep_done", 0, INT32_MAX, &r->sweep_done, err));
    KL_TRY(get_int(&in, in.file, "seed", 0, INT64_MAX, &seed, err));
    r->seed = (uint64_t)seed;
    KL_TRY(get_group(&in, in.file, "model", &group, err));
    KL_TRY(get_text(&in, group, "name", 0, &r->model, err));
    KL_TRY(get_text(&in, group, "variant", 0, &r->variant, err));
    KL_TRY(get_text(&in, group, "formula", 0, &r->formula, err));
    KL_TRY(get_hash(&in, group, "hash", &r->model_hash, err));
    H5Gclose(group);
    group = -1;
    KL_TRY(get_lattice(&in, r, err));
    KL_TRY(get_charges(&in, r, err));
    KL_TRY(get_params(&in, r, err));
    KL_TRY(get_dmrg(&in, r->nsite, &r->dmrg, err));
    if (!r->finished && r->dmrg.nrow != r->sweep_done + (r->dmrg.direction != 0)) KL_TRY(bad(&in, "sweeps", "has another number of rows than sweeps were made", err));
    KL_TRY(get_group(&in, in.file, "measurements", &group, err));
    KL_TRY(get_measured(&in, group, "", 0, r, err));
    *out = r;
    r = NULL;
out:
    end_group(group);
    kl_result_destroy(&r);
    reader_close(&in);
    quiet_end(q);
    return st;
}

/* ---------------------------------------------------------------- reading the state */

typedef struct charge_list { /* ascending */
    int n;
    const kl_qn *q;
} charge_list;

static int in_list(void *self, kl_qn q)
{
    const charge_list *list = self;
    const kl_basis view = {list->n, (kl_qn *)list->q, NULL, 0};
    return kl_basis_find(&view, q) >= 0;
}

/* n charges of the table, strictly ascending. */
static kl_status to_charges(const reader *in, const int32_t *from, int64_t n, int width, int ncharge, kl_qn *to, kl_err *err)
{
    for (int64_t i = 0; i < n; i++) {
        to[i] = kl_qn_zero();
        for (int c = 0; c < width; c++) {
            if (from[i * width + c] < INT16_MIN || from[i * width + c] > INT16_MAX || (c >= ncharge && from[i * width + c] != 0))
                return bad(in, "state", "holds an impossible charge", err);
            to[i].v[c] = (int16_t)from[i * width + c];
        }
        if (i > 0 && kl_qn_cmp(to[i - 1], to[i]) >= 0) return bad(in, "state", "holds sectors out of order", err);
    }
    return KL_OK;
}

/* |Q^T Q v - v| for one vector v of random signs and sizes sees any defect of size 1e-9 in any column: cheap, and NaN fails too. */
static int is_isometry(int64_t rows, int64_t cols, const double *a, double *v, double *y)
{
    uint64_t x = UINT64_C(88172645463325252);
    for (int64_t j = 0; j < cols; j++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        v[j] = ((double)(x >> 11) * 0x1p-53 + 0.5) * ((x & 1) ? 1 : -1);
    }
    memset(y, 0, sizeof(double) * (size_t)rows);
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < rows; i++) y[i] += a[j * rows + i] * v[j];
    double defect = 0;
    for (int64_t j = 0; j < cols; j++) {
        double dot = 0;
        for (int64_t i = 0; i < rows; i++) dot += a[j * rows + i] * y[i];
        defect = fmax(defect, fabs(dot - v[j])); /* fmax drops NaN, so it is asked for by itself */
        if (!isfinite(dot)) return 0;
    }
    return defect <= 1e-9 * sqrt((double)(rows + cols));
}

typedef struct state_tables { /* the small datasets of /state */
    int64_t (*site)[SITE_NCOLUMN];
    int32_t *enlarged, *kept, *dim;
    int width;
    kl_qn *q; /* of one site */
} state_tables;

/* The enlarged basis of position p on top of `block`, as the file lists its sectors (first: of this position in the table). */
static kl_status rebuild_enlarged(const reader *in, const kl_model *m, const kl_basis *block, const kl_site_type *type, state_tables *t, int64_t first,
                                  int64_t n, kl_enlarged **out, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t most;
    if (n < 1 || !kl_mul_size(block->nsec, type->dim, &most) || n > most) return bad(in, "state", "holds an impossible number of sectors", err);
    KL_TRY(kl_realloc(&t->q, n, KL_MEM_MISC, err));
    KL_TRY(to_charges(in, t->enlarged + first * t->width, n, t->width, m->ncharge, t->q, err));
    charge_list list = {(int)n, t->q};
    KL_TRY(kl_enlarged_create(m, block, type, in_list, &list, out, err));
    if ((*out)->basis.nsec != n) KL_TRY(bad(in, "state", "holds sectors that the sites cannot make", err));
out:
    return st;
}

/* The isometry of position p over *e (taken), its matrices read from `set` at element `at`. */
static kl_status rebuild_isometry(const reader *in, const kl_model *m, kl_enlarged **e, state_tables *t, int p, int64_t first, hid_t set, int64_t at,
                                  kl_isometry **out, kl_err *err)
{
    kl_status st = KL_OK;
    double *work = NULL;
    int *sec = NULL;
    const int64_t n = t->site[p][SITE_KEPT];
    const int32_t *const dim = t->dim + first;
    hid_t file_space = -1, memory_space = -1;
    if (n < 1 || n > (*e)->basis.nsec) KL_TRY(bad(in, "state", "holds an impossible number of kept sectors", err));
    KL_TRY(kl_alloc(&sec, n, KL_MEM_MISC, err));
    KL_TRY(kl_realloc(&t->q, n, KL_MEM_MISC, err));
    KL_TRY(to_charges(in, t->kept + first * t->width, n, t->width, m->ncharge, t->q, err));
    int64_t ndata = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        sec[i] = kl_basis_find(&(*e)->basis, t->q[i]);
        if (sec[i] < 0 || dim[i] < 1 || dim[i] > (*e)->basis.dim[sec[i]]) KL_TRY(bad(in, "state", "holds a kept sector of impossible charge or size", err));
        const int64_t rows = (*e)->basis.dim[sec[i]];
        ndata += rows * dim[i];
        if (rows + dim[i] > largest) largest = rows + dim[i];
        if (ndata > t->site[p][SITE_DATA]) break;
    }
    if (ndata != t->site[p][SITE_DATA]) KL_TRY(bad(in, "state", "holds matrices of the wrong size", err));
    KL_TRY(kl_isometry_create_take(e, (int)n, sec, dim, out, err));
    kl_isometry *const iso = *out;
    if (!select_part(set, at, ndata, &file_space, &memory_space) || H5Dread(set, H5T_NATIVE_DOUBLE, memory_space, file_space, H5P_DEFAULT, iso->data) < 0)
        KL_TRY(bad(in, "state", "cannot be read", err));
    KL_TRY(kl_alloc(&work, largest, KL_MEM_WORK, err));
    for (int64_t i = 0; i < n; i++) {
        const int64_t rows = iso->enlarged->basis.dim[sec[i]], cols = dim[i];
        if (!is_isometry(rows, cols, iso->data + iso->off[i], work, work + cols))
            KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: is damaged: the tensor of position %d is no isometry (or not finite)", in->path, p));
    }
out:
    if (file_space >= 0) H5Sclose(file_space);
    if (memory_space >= 0) H5Sclose(memory_space);
    kl_free(&work);
    kl_free(&sec);
    return st;
}

static kl_status get_state(const reader *in, hid_t group, kl_state *s, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const m = s->model;
    const int nsite = s->nsite;
    state_tables t = {0};
    hid_t set = -1;
    int rank;
    int64_t target[KL_MAX_CHARGE], ndata, *start = NULL;
    int64_t have_nsite;
    double *energy = NULL;
    t.width = m->ncharge > 0 ? m->ncharge : 1;

    KL_TRY(get_int(in, group, "nsite", 1, INT32_MAX, &have_nsite, err));
    if (have_nsite != nsite) KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: holds a state of %lld sites; this lattice has %d", in->path, (long long)have_nsite, nsite));
    if (nsite < 2) KL_TRY(bad(in, "state", "has fewer than two sites", err));
    KL_TRY(get_small(in, group, "centre", 0, nsite - 2, &s->centre, err));
    KL_TRY(get_small(in, group, "nstate", 1, KL_MAX_ROOT, &s->nstate, err));
    KL_TRY(get_attribute(in, group, "target", H5T_NATIVE_INT64, KL_MAX_CHARGE, target, err));
    for (int c = 0; c < KL_MAX_CHARGE; c++) {
        if (target[c] < INT16_MIN || target[c] > INT16_MAX || (c >= m->ncharge && target[c] != 0)) KL_TRY(bad(in, "target", "is no charge", err));
        s->target.v[c] = (int16_t)target[c];
    }
    KL_TRY(kl_alloc(&energy, s->nstate, KL_MEM_MISC, err));
    KL_TRY(get_attribute(in, group, "energy", H5T_NATIVE_DOUBLE, s->nstate, energy, err));
    memcpy(s->energy, energy, sizeof(double) * (size_t)s->nstate);

    int64_t site_shape[2] = {nsite, SITE_NCOLUMN}, enlarged_shape[2] = {-1, t.width}, kept_shape[2] = {-1, t.width}, dim_shape;
    KL_TRY(get_array(in, group, "sites", H5T_NATIVE_INT64, sizeof(int64_t), 2, site_shape, KL_MEM_MISC, (void **)&t.site, err));
    KL_TRY(get_array(in, group, "enlarged_charge", H5T_NATIVE_INT32, sizeof(int32_t), 2, enlarged_shape, KL_MEM_MISC, (void **)&t.enlarged, err));
    KL_TRY(get_array(in, group, "kept_charge", H5T_NATIVE_INT32, sizeof(int32_t), 2, kept_shape, KL_MEM_MISC, (void **)&t.kept, err));
    dim_shape = kept_shape[0];
    KL_TRY(get_array(in, group, "kept_dim", H5T_NATIVE_INT32, sizeof(int32_t), 1, &dim_shape, KL_MEM_MISC, (void **)&t.dim, err));
    int64_t data_shape[3];
    KL_TRY(open_array(in, group, "data", H5T_FLOAT, &set, &rank, data_shape, &ndata, err));
    if (rank != 1) KL_TRY(bad(in, "data", "has the wrong rank", err));

    /* start[column][p]: where position p begins in each table; the ends must be the tables' ends */
    KL_TRY(kl_alloc(&start, (int64_t)SITE_NCOLUMN * (nsite + 1), KL_MEM_MISC, err));
    const int64_t end[SITE_NCOLUMN] = {enlarged_shape[0], kept_shape[0], ndata};
    for (int k = 0; k < SITE_NCOLUMN; k++) {
        int64_t *at = start + (int64_t)k * (nsite + 1);
        for (int p = 0; p < nsite; p++) {
            const int64_t n = t.site[p][k];
            const int centre = p == s->centre || p == s->centre + 1;
            if (n < 0 || n > end[k] - at[p] || (centre && k != SITE_ENLARGED && n != 0)) KL_TRY(bad(in, "sites", "does not fit the other tables", err));
            at[p + 1] = at[p] + n;
        }
        if (at[nsite] != end[k]) KL_TRY(bad(in, "sites", "does not fit the other tables", err));
    }
    const int64_t *at_enlarged = start, *at_kept = start + nsite + 1, *at_data = start + 2 * ((int64_t)nsite + 1);

    for (int side = 0; side < 2; side++) {
        const int step = side == 0 ? 1 : -1, stop = side == 0 ? s->centre : s->centre + 1;
        const kl_basis *block = &s->edge;
        for (int p = side == 0 ? 0 : nsite - 1;; p += step) {
            kl_enlarged *e = NULL;
            st = rebuild_enlarged(in, m, block, s->type[p], &t, at_enlarged[p], t.site[p][SITE_ENLARGED], &e, err);
            if (st == KL_OK && p == stop) {
                *(side == 0 ? &s->row : &s->col) = e;
                break;
            }
            kl_isometry **slot = side == 0 ? &s->left[p] : &s->right[p];
            if (st == KL_OK) st = rebuild_isometry(in, m, &e, &t, p, at_kept[p], set, at_data[p], slot, err);
            kl_enlarged_destroy(&e);
            if (st != KL_OK) goto out;
            block = &(*slot)->basis;
        }
    }

    KL_TRY(kl_alloc(&s->pair, s->row->basis.nsec, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&s->psi_off, s->row->basis.nsec, KL_MEM_MISC, err));
    for (int i = 0; i < s->row->basis.nsec; i++) {
        s->pair[i] = kl_basis_find(&s->col->basis, kl_qn_sub(m, s->target, s->row->basis.q[i]));
        s->psi_off[i] = s->npsi;
        if (s->pair[i] >= 0) s->npsi += (int64_t)s->row->basis.dim[i] * s->col->basis.dim[s->pair[i]];
    }
    int64_t psi_shape[2] = {s->nstate, s->npsi};
    KL_TRY(get_array(in, group, "psi", H5T_NATIVE_DOUBLE, sizeof(double), 2, psi_shape, KL_MEM_STATE, (void **)&s->psi, err));
    for (int k = 0; k < s->nstate; k++) {
        double norm = 0;
        for (int64_t i = 0; i < s->npsi; i++) norm += s->psi[k * s->npsi + i] * s->psi[k * s->npsi + i];
        if (!(fabs(norm - 1) < 1e-6)) KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: is damaged: wavefunction %d has norm^2 %g, not 1", in->path, k, norm));
        if (!isfinite(s->energy[k])) KL_TRY(bad(in, "energy", "is not finite", err));
    }
out:
    if (set >= 0) H5Dclose(set);
    kl_free(&energy);
    kl_free(&start);
    kl_free(&t.site);
    kl_free(&t.enlarged);
    kl_free(&t.kept);
    kl_free(&t.dim);
    kl_free(&t.q);
    return st;
}

kl_status kl_result_read_state(const char *path, const kl_terms *terms, kl_state **out, kl_err *err)
{
    kl_status st = KL_OK;
    const quiet q = quiet_begin();
    reader in = {path, -1, 0};
    hid_t group = -1;
    kl_state *s = NULL;
    *out = NULL;
    KL_TRY(reader_open(&in, path, err));
    if (H5Lexists(in.file, "state", H5P_DEFAULT) <= 0) KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: holds no state", path));
    KL_TRY(get_group(&in, in.file, "state", &group, err));
    KL_TRY(kl_state_create(terms, kl_qn_zero(), &s, err));
    KL_TRY(get_state(&in, group, s, err));
    *out = s;
    s = NULL;
out:
    kl_state_destroy(&s);
    end_group(group);
    reader_close(&in);
    quiet_end(q);
    return st;
}

/* ---------------------------------------------------------------- reading a run under way */

kl_status kl_result_read_run(const char *path, kl_result_run *run, kl_err *err)
{
    kl_status st = KL_OK;
    const quiet q = quiet_begin();
    reader in = {path, -1, 0};
    hid_t group = -1, set = -1;
    double *part = NULL;
    run->number = NULL;
    KL_TRY(reader_open(&in, path, err));
    if (H5Lexists(in.file, "run", H5P_DEFAULT) <= 0) KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: holds no run of exact diagonalization to go on with", path));
    KL_TRY(get_group(&in, in.file, "run", &group, err));
    KL_TRY(get_small(&in, group, "nvector", 0, 1000, &run->nvector, err));
    KL_TRY(get_int(&in, group, "length", 1, in.bytes, &run->n, err));
    run->nnumber = -1;
    KL_TRY(get_array(&in, group, "number", H5T_NATIVE_DOUBLE, sizeof(double), 1, &run->nnumber, KL_MEM_MISC, (void **)&run->number, err));
    for (int64_t i = 0; i < run->nnumber; i++)
        if (isnan(run->number[i])) KL_TRY(bad(&in, "number", "holds what is no number", err));
    if (run->part != NULL) KL_TRY(kl_alloc(&part, run->n < RUN_PART ? run->n : RUN_PART, KL_MEM_WORK, err));
    for (int v = 0; v < run->nvector && run->part != NULL; v++) {
        char name[32];
        int rank;
        int64_t shape[3], count;
        snprintf(name, sizeof(name), "vector_%d", v);
        KL_TRY(open_array(&in, group, name, H5T_FLOAT, &set, &rank, shape, &count, err));
        if (rank != 1 || count != run->n) KL_TRY(bad(&in, name, "has the wrong shape", err));
        for (int64_t first = 0; first < run->n; first += RUN_PART) {
            const int64_t now = run->n - first < RUN_PART ? run->n - first : RUN_PART;
            hid_t file_space = -1, memory_space = -1;
            const int read = select_part(set, first, now, &file_space, &memory_space) &&
                             H5Dread(set, H5T_NATIVE_DOUBLE, memory_space, file_space, H5P_DEFAULT, part) >= 0;
            if (memory_space >= 0) H5Sclose(memory_space);
            if (file_space >= 0) H5Sclose(file_space);
            if (!read) KL_TRY(bad(&in, name, "cannot be read", err));
            for (int64_t i = 0; i < now; i++)
                if (!isfinite(part[i])) KL_TRY(bad(&in, name, "holds a number that is not finite", err));
            KL_TRY(run->part(run->self, v, first, now, part, err));
        }
        H5Dclose(set);
        set = -1;
    }
out:
    if (st != KL_OK) kl_free(&run->number);
    if (set >= 0) H5Dclose(set);
    end_group(group);
    kl_free(&part);
    reader_close(&in);
    quiet_end(q);
    return st;
}

/* ---------------------------------------------------------------- the struct itself */

static kl_status copy_text(char **to, const char *from, kl_err *err)
{
    *to = kl_strdup(from != NULL ? from : "");
    return *to != NULL ? KL_OK : kl_fail(err, KL_ENOMEM, "no memory for a text of %zu bytes", from != NULL ? strlen(from) : 0);
}

uint64_t kl_lattice_fingerprint(const kl_lattice *lat)
{
    uint64_t h = mix(UINT64_C(0xcbf29ce484222325), (uint64_t)lat->nsite);
    for (int p = 0; p < lat->nsite; p++) h = mix(h, (uint64_t)lat->order[p]);
    for (int b = 0; b < lat->nbond; b++) {
        const kl_bond *bond = &lat->bond[b];
        uint64_t r;
        memcpy(&r, &bond->r, sizeof(r));
        h = mix(mix(mix(mix(h, (uint64_t)bond->i), (uint64_t)bond->j), (uint64_t)bond->reversed), r);
        for (int c = 0; c < bond->nclass; c++)
            for (const char *p = lat->bond_class[bond->cls[c]]; *p != '\0'; p++) h = mix(h, (unsigned char)*p);
    }
    return h;
}

kl_status kl_result_create(const kl_model *m, const kl_lattice *lat, const kl_params *p, kl_qn target, uint64_t seed, const char *program,
                           const char *command_line, const char *options, kl_result **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result *r = NULL;
    *out = NULL;
    KL_TRY(kl_alloc(&r, 1, KL_MEM_MISC, err));
    KL_TRY(copy_text(&r->program, program, err));
    KL_TRY(copy_text(&r->command_line, command_line, err));
    KL_TRY(copy_text(&r->options, options, err));
    KL_TRY(copy_text(&r->model, m->name, err));
    KL_TRY(copy_text(&r->variant, m->variant, err));
    KL_TRY(copy_text(&r->formula, m->formula, err));
    KL_TRY(copy_text(&r->lattice, lat->spec, err));
    r->model_hash = m->hash;
    r->lattice_hash = kl_lattice_fingerprint(lat);
    r->seed = seed;
    r->nsite = lat->nsite;
    KL_TRY(kl_alloc(&r->order, lat->nsite, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&r->xy, lat->nsite, KL_MEM_MISC, err));
    memcpy(r->order, lat->order, sizeof(int) * (size_t)lat->nsite);
    memcpy(r->xy, lat->xy, sizeof(*lat->xy) * (size_t)lat->nsite);
    KL_TRY(kl_alloc(&r->charge, m->ncharge, KL_MEM_MISC, err));
    for (int c = 0; c < m->ncharge; c++) {
        r->charge[c] = (kl_result_charge){NULL, m->charge[c].modulus, m->charge[c].unit_num, m->charge[c].unit_den, target.v[c]};
        r->ncharge = c + 1;
        KL_TRY(copy_text(&r->charge[c].name, m->charge[c].name, err));
    }
    KL_TRY(kl_alloc(&r->param, m->nparam, KL_MEM_MISC, err));
    for (int i = 0; i < m->nparam; i++) {
        kl_result_param *to = &r->param[i];
        const kl_param_kind kind = m->param[i].kind;
        r->nparam = i + 1;
        to->is_array = kind != KL_PARAM_SCALAR;
        to->n = kind == KL_PARAM_SCALAR ? 1 : kind == KL_PARAM_SITE ? p->nsite : p->nbond;
        KL_TRY(copy_text(&to->name, m->param[i].name, err));
        KL_TRY(kl_alloc(&to->value, to->n, KL_MEM_MISC, err));
        if (to->n > 0) memcpy(to->value, to->is_array ? p->array[i] : &p->scalar[i], sizeof(double) * (size_t)to->n);
    }
    *out = r;
    r = NULL;
out:
    kl_result_destroy(&r);
    return st;
}

static void clear_measured(kl_measured *m)
{
    kl_free(&m->name);
    kl_free(&m->note);
    kl_free(&m->data);
}

void kl_result_destroy(kl_result **result)
{
    kl_result *r = *result;
    if (r == NULL) return;
    char **const text[] = {&r->program, &r->command_line, &r->options, &r->model, &r->variant, &r->formula, &r->lattice};
    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) kl_free(text[i]);
    kl_free(&r->order);
    kl_free(&r->xy);
    for (int c = 0; c < r->ncharge && r->charge != NULL; c++) kl_free(&r->charge[c].name);
    kl_free(&r->charge);
    for (int i = 0; i < r->nparam; i++) {
        kl_free(&r->param[i].name);
        kl_free(&r->param[i].value);
    }
    kl_free(&r->param);
    for (int i = 0; i < r->nmeasured; i++) clear_measured(&r->measured[i]);
    kl_free(&r->measured);
    kl_dmrg_result_clear(&r->dmrg);
    kl_free(result);
}

kl_status kl_result_set_rows(kl_result *r, int nrow, const kl_dmrg_row *row, int nstate, kl_err *err)
{
    kl_dmrg_row *copy = NULL;
    kl_status st = kl_alloc(&copy, nrow, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    if (nrow > 0) memcpy(copy, row, sizeof(*row) * (size_t)nrow);
    kl_free(&r->dmrg.row);
    r->dmrg.row = copy;
    r->dmrg.nrow = nrow;
    r->dmrg.nstate = nstate;
    return KL_OK;
}

kl_status kl_result_set_dmrg(kl_result *r, const kl_dmrg_result *from, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dmrg_row *row = NULL;
    double *entropy = NULL;
    KL_TRY(kl_alloc(&row, from->nrow, KL_MEM_MISC, err));
    if (from->nrow > 0) memcpy(row, from->row, sizeof(*row) * (size_t)from->nrow);
    if (from->entropy != NULL) {
        KL_TRY(kl_alloc(&entropy, r->nsite - 1, KL_MEM_MISC, err));
        memcpy(entropy, from->entropy, sizeof(double) * (size_t)(r->nsite - 1));
    }
    kl_dmrg_result_clear(&r->dmrg);
    r->dmrg = *from;
    r->dmrg.row = row;
    r->dmrg.entropy = entropy;
    row = NULL;
    entropy = NULL;
out:
    kl_free(&row);
    kl_free(&entropy);
    return st;
}

kl_status kl_result_add(kl_result *r, const char *name, const char *note, int rank, const int64_t *shape, const double *data, kl_err *err)
{
    kl_status st = KL_OK;
    kl_measured one = {.rank = rank};
    int64_t n = 1;
    for (int k = 0; k < rank; k++) {
        one.shape[k] = shape[k];
        if (!kl_mul_size(n, shape[k], &n)) KL_TRY(kl_fail(err, KL_ENOMEM, "measurement %.100s is too large", name));
    }
    KL_TRY(copy_text(&one.name, name, err));
    if (note != NULL) KL_TRY(copy_text(&one.note, note, err));
    KL_TRY(kl_alloc(&one.data, n, KL_MEM_MISC, err));
    if (n > 0) memcpy(one.data, data, sizeof(double) * (size_t)n);
    int at = 0;
    while (at < r->nmeasured && strcmp(r->measured[at].name, name) != 0) at++;
    if (at == r->nmeasured) {
        KL_TRY(kl_realloc(&r->measured, r->nmeasured + 1, KL_MEM_MISC, err));
        r->nmeasured++;
    } else {
        clear_measured(&r->measured[at]);
    }
    r->measured[at] = one;
    one = (kl_measured){0};
out:
    clear_measured(&one);
    return st;
}

char *kl_result_print_charges(const kl_result *r, char *buf, size_t size)
{
    size_t at = 0;
    buf[0] = '\0';
    for (int c = 0; c < r->ncharge && at < size; c++) {
        const kl_result_charge *q = &r->charge[c];
        const int64_t num = (int64_t)q->value * q->unit_num;
        const char *gap = c > 0 ? " " : "";
        if (num % q->unit_den == 0) at += (size_t)snprintf(buf + at, size - at, "%s%s=%lld", gap, q->name, (long long)(num / q->unit_den));
        else at += (size_t)snprintf(buf + at, size - at, "%s%s=%lld/%d", gap, q->name, (long long)num, q->unit_den);
    }
    return buf;
}

kl_status kl_result_match(const char *path, const kl_result *r, const kl_model *m, const kl_lattice *lat, const kl_params *p, kl_qn target, int strict,
                          kl_err *err)
{
    if (strcmp(r->model, m->name) != 0 || strcmp(r->variant, m->variant) != 0)
        return kl_fail(err, KL_EINPUT, "%.300s: holds a state of model %s(%s), not of %s(%s)", path, r->model, r->variant, m->name, m->variant);
    if (r->model_hash != m->hash)
        return kl_fail(err, KL_EINPUT, "%.300s: was made with another version of model %s (fingerprint %016llx, now %016llx)", path, m->name,
                       (unsigned long long)r->model_hash, (unsigned long long)m->hash);
    if (r->nsite != lat->nsite) return kl_fail(err, KL_EINPUT, "%.300s: holds a state of %d sites (%s); this lattice has %d", path, r->nsite, r->lattice, lat->nsite);
    if (memcmp(r->order, lat->order, sizeof(int) * (size_t)r->nsite) != 0)
        return kl_fail(err, KL_EINPUT, "%.300s: holds a state of another order of the sites; give the same --order", path);
    if (strict && r->lattice_hash != kl_lattice_fingerprint(lat))
        return kl_fail(err, KL_EINPUT, "%.300s: was made on lattice %s, whose bonds differ from those of %s", path, r->lattice, lat->spec);
    for (int c = 0; c < m->ncharge; c++)
        if (c >= r->ncharge || r->charge[c].value != target.v[c]) {
            char have[256], want[256];
            return kl_fail(err, KL_EINPUT, "%.300s: holds a state with %s, not %s", path, kl_result_print_charges(r, have, sizeof(have)),
                           kl_qn_print(m, target, want, sizeof(want)));
        }
    for (int i = 0; i < m->nparam && strict; i++) {
        const kl_result_param *have = NULL;
        for (int k = 0; k < r->nparam; k++)
            if (strcmp(r->param[k].name, m->param[i].name) == 0) have = &r->param[k];
        if (have == NULL) return kl_fail(err, KL_EINPUT, "%.300s: has no value of parameter %s", path, m->param[i].name);
        if (m->param[i].kind == KL_PARAM_SCALAR) {
            if (have->n != 1 || have->value[0] != p->scalar[i])
                return kl_fail(err, KL_EINPUT, "%.300s: was made with %s=%.17g, not %.17g; to start from it with another value give --start", path, have->name,
                               have->n > 0 ? have->value[0] : 0.0, p->scalar[i]);
        } else if (have->n != (m->param[i].kind == KL_PARAM_SITE ? p->nsite : p->nbond) ||
                   (have->n > 0 && memcmp(have->value, p->array[i], sizeof(double) * (size_t)have->n) != 0)) {
            return kl_fail(err, KL_EINPUT, "%.300s: was made with other values of the array %s; to start from it give --start", path, have->name);
        }
    }
    return KL_OK;
}

kl_status kl_result_probe(const char *path, kl_err *err)
{
    char partial[1100];
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) return kl_fail(err, KL_EINPUT, "--output: %.300s is no ordinary file", path);
    snprintf(partial, sizeof(partial), "%s.partial", path);
    const int fd = open(partial, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return kl_fail(err, KL_EIO, "--output: %.300s cannot be written: %s", path, strerror(errno));
    close(fd);
    unlink(partial);
    return KL_OK;
}
