/* HDF5 layout: attributes of the root say what was computed; /energy, /s2, /irrep, /residual have an entry for each state; /state/N holds leading
   determinants, weights by level, and density_alpha, density_beta, natural_occupations where they were asked for; /irreps/NAME has an entry for
   each irrep. A run under way (attribute finished 0) has no states but start vectors, /vectors/IRREP [nvec][n].
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define H5_USE_110_API
#include "cifile.h"
#include "mem.h"
#include "result.h"

#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

kl_status kl_cifile_probe(const char *path, kl_err *err)
{
    if (strlen(path) > 1000) return kl_fail(err, KL_EINPUT, "--output: the name is too long");
    return kl_result_probe(path, err);
}

typedef struct writer {
    hid_t file;
    int failed;
} writer;

static void check(writer *w, long result) { w->failed |= result < 0; }

static hid_t no_times(hid_t property_class)
{
    const hid_t create = H5Pcreate(property_class);
    H5Pset_obj_track_times(create, 0); /* the same run writes the same bytes */
    return create;
}

static void put_array(writer *w, const char *name, hid_t on_disk, hid_t in_memory, int rank, const hsize_t *shape, const void *data)
{
    const hid_t link = H5Pcreate(H5P_LINK_CREATE), create = no_times(H5P_DATASET_CREATE);
    H5Pset_create_intermediate_group(link, 1);
    const hid_t space = H5Screate_simple(rank, shape, NULL), set = H5Dcreate2(w->file, name, on_disk, space, link, create, H5P_DEFAULT);
    check(w, (long)set);
    if (set >= 0) {
        check(w, H5Dwrite(set, in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
        check(w, H5Dclose(set));
    }
    H5Sclose(space);
    H5Pclose(create);
    H5Pclose(link);
}

static void put_reals(writer *w, const char *name, hsize_t n, const double *x)
{
    put_array(w, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 1, &n, x);
}

static void put_ints(writer *w, const char *name, hsize_t n, const int64_t *x)
{
    put_array(w, name, H5T_STD_I64LE, H5T_NATIVE_INT64, 1, &n, x);
}

static void put_attribute(writer *w, const char *name, hid_t on_disk, hid_t in_memory, const void *data)
{
    const hid_t space = H5Screate(H5S_SCALAR), attribute = H5Acreate2(w->file, name, on_disk, space, H5P_DEFAULT, H5P_DEFAULT);
    check(w, (long)attribute);
    if (attribute >= 0) {
        check(w, H5Awrite(attribute, in_memory, data));
        check(w, H5Aclose(attribute));
    }
    H5Sclose(space);
}

static hid_t text_type(size_t size)
{
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, size > 0 ? size : 1);
    H5Tset_cset(type, H5T_CSET_UTF8);
    return type;
}

static void put_text(writer *w, const char *name, const char *text)
{
    const hid_t type = text_type(strlen(text) + 1);
    put_attribute(w, name, type, type, text);
    H5Tclose(type);
}

static void put_state(writer *w, const kl_ci_result *r, int i)
{
    const kl_ci_state *const s = &r->state[i];
    char name[64], words[KL_CI_LEADING][1024];
    const hsize_t square[2] = {(hsize_t)r->norb, (hsize_t)r->norb}, nleading = (hsize_t)s->nleading;
    const hid_t type = text_type(sizeof(words[0]));
    memset(words, 0, sizeof(words));
    for (int k = 0; k < s->nleading; k++) snprintf(words[k], sizeof(words[k]), "%s", s->leading_text[k]);
    snprintf(name, sizeof(name), "state/%d/leading_determinants", i + 1);
    put_array(w, name, type, type, 1, &nleading, words);
    H5Tclose(type);
    snprintf(name, sizeof(name), "state/%d/leading_coefficients", i + 1);
    put_reals(w, name, nleading, s->leading);
    if (s->level_weight != NULL) {
        snprintf(name, sizeof(name), "state/%d/weight_by_level", i + 1);
        put_reals(w, name, (hsize_t)r->nlevel, s->level_weight);
    }
    if (s->natural == NULL) return;
    snprintf(name, sizeof(name), "state/%d/natural_occupations", i + 1);
    put_reals(w, name, (hsize_t)r->norb, s->natural);
    for (int spin = 0; spin < 2; spin++) {
        snprintf(name, sizeof(name), "state/%d/density_%s", i + 1, spin == 0 ? "alpha" : "beta");
        put_array(w, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 2, square, s->density[spin]);
    }
}

/* What is kept of an irrep, one data set each. */
typedef struct block_field {
    const char *name;
    size_t offset;
    char type; /* i: int64_t, n: int, d: double */
} block_field;
#define FIELD(name, member, type) {name, offsetof(kl_ci_block, member), type}
static const block_field block_fields[] = {
    FIELD("determinants", ndet, 'i'), FIELD("alpha_strings", nalpha_string, 'i'), FIELD("beta_strings", nbeta_string, 'i'), FIELD("nonzeros", nnz, 'i'),
    FIELD("matrix_bytes", matrix_bytes, 'i'), FIELD("formula_bytes", formula_bytes, 'i'), FIELD("boundary", facts.boundary, 'i'), FIELD("nonzeros_all", facts.nnz, 'i'),
    FIELD("nonzeros_reference", facts.nnz_reference, 'i'), FIELD("nonzeros_expansion", facts.nnz_expansion, 'i'), FIELD("rows_reference", facts.rows_reference, 'i'),
    FIELD("rows_expansion", facts.rows_expansion, 'i'), FIELD("longest_row_nonzeros", facts.longest, 'i'), FIELD("longest_row", facts.longest_row, 'i'),
    FIELD("sparsity", facts.sparsity, 'd'), FIELD("sparsity_reference", facts.sparsity_reference, 'd'), FIELD("sparsity_expansion", facts.sparsity_expansion, 'd'),
    FIELD("products", napply, 'n'), FIELD("converged", converged, 'n'), FIELD("residual", residual, 'd'), FIELD("seconds_build", seconds_build, 'd'),
    FIELD("seconds_solve", seconds_solve, 'd'),
};
enum { NFIELD = sizeof(block_fields) / sizeof(*block_fields) };

/* Numbers of the whole run: attributes. */
static const struct {
    const char *name;
    size_t offset;
} sizes[] = {
    {"orbitals", offsetof(kl_ci_result, norb)}, {"inactive", offsetof(kl_ci_result, ninactive)}, {"active", offsetof(kl_ci_result, nactive)},
    {"alpha", offsetof(kl_ci_result, nalpha)},  {"beta", offsetof(kl_ci_result, nbeta)},         {"irreps_of_the_file", offsetof(kl_ci_result, nirrep)},
    {"converged", offsetof(kl_ci_result, converged)}, {"no_matrix", offsetof(kl_ci_result, direct)}, {"one_half", offsetof(kl_ci_result, half)},
    {"levels", offsetof(kl_ci_result, nlevel)},
};
enum { NSIZE = sizeof(sizes) / sizeof(*sizes) };

static void put_all(writer *w, const kl_ci_record *c)
{
    const kl_ci_result *const r = &c->r;
    double energy[KL_MAX_ROOT], s2[KL_MAX_ROOT], residual[KL_MAX_ROOT];
    int64_t irrep[KL_MAX_ROOT], label[8];
    put_text(w, "program", c->program);
    put_text(w, "kind", "ci");
    put_text(w, "command_line", c->command_line);
    put_text(w, "options", c->options);
    put_text(w, "fcidump", c->fcidump);
    put_text(w, "space", c->space);
    put_text(w, "format", kl_spformat_name(r->format));
    if (r->reference != NULL) put_text(w, "reference", r->reference);
    if (r->note[0] != '\0') put_text(w, "note", r->note);
    put_attribute(w, "reference_energy", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &r->reference_energy);
    put_attribute(w, "seconds", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &r->seconds_all);
    const int64_t finished = c->finished;
    put_attribute(w, "finished", H5T_STD_I64LE, H5T_NATIVE_INT64, &finished);
    for (int k = 0; k < NSIZE; k++) {
        const int64_t x = *(const int *)((const char *)r + sizes[k].offset);
        put_attribute(w, sizes[k].name, H5T_STD_I64LE, H5T_NATIVE_INT64, &x);
    }
    if (!c->finished) return;
    for (int i = 0; i < r->nstate; i++) {
        energy[i] = r->state[i].energy;
        s2[i] = r->state[i].s2;
        residual[i] = r->state[i].residual;
        irrep[i] = r->state[i].irrep + 1;
        put_state(w, r, i);
    }
    put_reals(w, "energy", (hsize_t)r->nstate, energy);
    put_reals(w, "s2", (hsize_t)r->nstate, s2);
    put_reals(w, "residual", (hsize_t)r->nstate, residual);
    put_ints(w, "irrep", (hsize_t)r->nstate, irrep);
    hsize_t n = 0;
    for (int g = 0; g < r->nirrep; g++)
        if (r->block[g].ndet > 0) label[n++] = g + 1;
    put_ints(w, "irreps/label", n, label);
    for (int k = 0; k < NFIELD; k++) {
        const block_field *const f = &block_fields[k];
        char name[64];
        int64_t whole[8];
        double real[8];
        snprintf(name, sizeof(name), "irreps/%s", f->name);
        for (hsize_t i = 0; i < n; i++) {
            const char *const at = (const char *)&r->block[label[i] - 1] + f->offset;
            if (f->type == 'd') real[i] = *(const double *)at;
            else whole[i] = f->type == 'i' ? *(const int64_t *)at : *(const int *)at;
        }
        if (f->type == 'd') put_reals(w, name, n, real);
        else put_ints(w, name, n, whole);
    }
}

/* The folder too, so that the new name survives a loss of power. */
static int sync_path(const char *path, int folder)
{
    const int fd = open(path, folder ? O_RDONLY | O_DIRECTORY | O_CLOEXEC : O_RDWR | O_CLOEXEC);
    if (fd < 0) return -1;
    const int result = fsync(fd);
    close(fd);
    return folder && result != 0 && errno == EINVAL ? 0 : result;
}

/* Vectors of other irreps come over from the file as it was. */
static void put_vectors(writer *w, const char *path, const kl_ci_vectors *v)
{
    char name[32];
    const hid_t old = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), link = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(link, 1);
    for (int g = 0; g < 8; g++) {
        snprintf(name, sizeof(name), "vectors/%d", g + 1);
        if (g == v->irrep) {
            const hsize_t shape[2] = {(hsize_t)v->nvec, (hsize_t)v->n};
            put_array(w, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 2, shape, v->x);
        } else if (old >= 0 && H5Lexists(old, "vectors", H5P_DEFAULT) > 0 && H5Lexists(old, name, H5P_DEFAULT) > 0)
            check(w, H5Ocopy(old, name, w->file, name, H5P_DEFAULT, link));
    }
    H5Pclose(link);
    if (old >= 0) H5Fclose(old);
}

kl_status kl_cifile_write(const char *path, const kl_ci_record *c, const kl_ci_vectors *vectors, kl_err *err)
{
    char partial[1100], folder[1100];
    writer w = {-1, 0};
    H5E_auto2_t print;
    void *data;
    if (snprintf(partial, sizeof(partial), "%s.partial", path) >= (int)sizeof(partial)) return kl_fail(err, KL_EINPUT, "--output: the name is too long");
    snprintf(folder, sizeof(folder), "%s", path);
    char *const slash = strrchr(folder, '/');
    if (slash == NULL) snprintf(folder, sizeof(folder), ".");
    else slash[slash == folder] = '\0';
    H5Eget_auto2(H5E_DEFAULT, &print, &data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    w.file = H5Fcreate(partial, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    check(&w, (long)w.file);
    if (w.file >= 0) {
        put_all(&w, c);
        if (vectors != NULL) put_vectors(&w, path, vectors);
        check(&w, H5Fclose(w.file));
    }
    H5Eset_auto2(H5E_DEFAULT, print, data);
    if (!w.failed) w.failed = sync_path(partial, 0) != 0 || rename(partial, path) != 0 || sync_path(folder, 1) != 0;
    if (!w.failed) return KL_OK;
    const int why = errno;
    unlink(partial);
    return kl_fail(err, KL_EIO, "%.300s cannot be written: %s", path, strerror(why));
}

/* ---------------------------------------------------------------- reading */

typedef struct reader {
    hid_t file;
    const char *path;
    kl_err *err;
} reader;

static kl_status broken(const reader *r, const char *name, const char *why)
{
    return kl_fail(r->err, KL_EINPUT, "%.300s: %s %s; it is no result of `kronlat ci', or was damaged", r->path, name, why);
}

static kl_status get_number(const reader *r, const char *name, hid_t in_memory, void *out)
{
    const hid_t a = H5Aopen(r->file, name, H5P_DEFAULT);
    const hid_t space = a >= 0 ? H5Aget_space(a) : -1;
    const int good = space >= 0 && H5Sget_simple_extent_npoints(space) == 1 && H5Aread(a, in_memory, out) >= 0;
    if (space >= 0) H5Sclose(space);
    if (a >= 0) H5Aclose(a);
    return good ? KL_OK : broken(r, name, "is missing or no number");
}

static kl_status get_text(const reader *r, const char *name, char **out)
{
    enum { MOST = 1 << 20 };
    kl_status st = KL_OK;
    const hid_t a = H5Aopen(r->file, name, H5P_DEFAULT), type = a >= 0 ? H5Aget_type(a) : -1;
    const size_t size = type >= 0 && H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 ? H5Tget_size(type) : 0;
    if (size == 0 || size > MOST) st = broken(r, name, "is missing or no text");
    if (st == KL_OK) st = kl_alloc(out, (int64_t)size + 1, KL_MEM_MISC, r->err);
    if (st == KL_OK && H5Aread(a, type, *out) < 0) st = broken(r, name, "cannot be read");
    if (type >= 0) H5Tclose(type);
    if (a >= 0) H5Aclose(a);
    return st;
}

/* A data set of exactly these dimensions. */
static kl_status get_array(const reader *r, const char *name, hid_t in_memory, int rank, const hsize_t *shape, void *out)
{
    hsize_t have[2] = {0, 0};
    const hid_t set = H5Dopen2(r->file, name, H5P_DEFAULT), space = set >= 0 ? H5Dget_space(set) : -1;
    int good = space >= 0 && H5Sget_simple_extent_ndims(space) == rank && rank <= 2 && H5Sget_simple_extent_dims(space, have, NULL) == rank;
    for (int k = 0; k < rank && good; k++) good = have[k] == shape[k];
    good = good && H5Dread(set, in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) >= 0;
    if (space >= 0) H5Sclose(space);
    if (set >= 0) H5Dclose(set);
    return good ? KL_OK : broken(r, name, "is missing or of another shape");
}

static int64_t count_of(const reader *r, const char *name)
{
    hsize_t n[2] = {0, 0};
    const hid_t set = H5Dopen2(r->file, name, H5P_DEFAULT), space = set >= 0 ? H5Dget_space(set) : -1;
    const int good = space >= 0 && H5Sget_simple_extent_ndims(space) == 1 && H5Sget_simple_extent_dims(space, n, NULL) == 1;
    if (space >= 0) H5Sclose(space);
    if (set >= 0) H5Dclose(set);
    return good ? (int64_t)n[0] : -1;
}

static int is_there(const reader *r, const char *name) { return H5Lexists(r->file, name, H5P_DEFAULT) > 0; }

static kl_status get_state(const reader *rd, kl_ci_result *r, int i)
{
    kl_status st = KL_OK;
    kl_err *const err = rd->err;
    kl_ci_state *const s = &r->state[i];
    char name[64], (*words)[1024] = NULL;
    const hsize_t square[2] = {(hsize_t)r->norb, (hsize_t)r->norb}, norb = (hsize_t)r->norb, nlevel = (hsize_t)r->nlevel;
    const hid_t type = text_type(sizeof(words[0]));
    snprintf(name, sizeof(name), "state/%d/leading_coefficients", i + 1);
    const int64_t n = count_of(rd, name);
    if (n < 0 || n > KL_CI_LEADING) KL_TRY(broken(rd, name, "is missing or too long"));
    const hsize_t nleading = (hsize_t)n;
    KL_TRY(get_array(rd, name, H5T_NATIVE_DOUBLE, 1, &nleading, s->leading));
    KL_TRY(kl_alloc(&words, n + 1, KL_MEM_WORK, err));
    snprintf(name, sizeof(name), "state/%d/leading_determinants", i + 1);
    KL_TRY(get_array(rd, name, type, 1, &nleading, words));
    for (s->nleading = 0; s->nleading < n; s->nleading++) {
        words[s->nleading][1023] = '\0';
        s->leading_text[s->nleading] = kl_strdup(words[s->nleading]);
        if (s->leading_text[s->nleading] == NULL) KL_TRY(kl_fail(err, KL_ENOMEM, "no memory for the states in %.300s", rd->path));
    }
    snprintf(name, sizeof(name), "state/%d/weight_by_level", i + 1);
    if (is_there(rd, name)) {
        KL_TRY(kl_alloc(&s->level_weight, r->nlevel + 1, KL_MEM_MISC, err));
        KL_TRY(get_array(rd, name, H5T_NATIVE_DOUBLE, 1, &nlevel, s->level_weight));
    }
    snprintf(name, sizeof(name), "state/%d/natural_occupations", i + 1);
    if (!is_there(rd, name)) goto out;
    KL_TRY(kl_alloc(&s->natural, r->norb, KL_MEM_MISC, err));
    KL_TRY(get_array(rd, name, H5T_NATIVE_DOUBLE, 1, &norb, s->natural));
    for (int spin = 0; spin < 2; spin++) {
        snprintf(name, sizeof(name), "state/%d/density_%s", i + 1, spin == 0 ? "alpha" : "beta");
        KL_TRY(kl_alloc(&s->density[spin], (int64_t)r->norb * r->norb, KL_MEM_MISC, err));
        KL_TRY(get_array(rd, name, H5T_NATIVE_DOUBLE, 2, square, s->density[spin]));
    }
out:
    H5Tclose(type);
    kl_free(&words);
    return st;
}

static kl_status get_states(const reader *rd, kl_ci_result *r)
{
    kl_status st = KL_OK;
    double energy[KL_MAX_ROOT], s2[KL_MAX_ROOT], residual[KL_MAX_ROOT];
    int64_t irrep[KL_MAX_ROOT], label[8];
    const int64_t n = count_of(rd, "energy"), nblock = count_of(rd, "irreps/label");
    if (n < 0 || n > KL_MAX_ROOT) KL_TRY(broken(rd, "energy", "is missing or too long"));
    if (nblock < 0 || nblock > 8) KL_TRY(broken(rd, "irreps/label", "is missing or too long"));
    const hsize_t nstate = (hsize_t)n, nb = (hsize_t)nblock;
    KL_TRY(get_array(rd, "energy", H5T_NATIVE_DOUBLE, 1, &nstate, energy));
    KL_TRY(get_array(rd, "s2", H5T_NATIVE_DOUBLE, 1, &nstate, s2));
    KL_TRY(get_array(rd, "residual", H5T_NATIVE_DOUBLE, 1, &nstate, residual));
    KL_TRY(get_array(rd, "irrep", H5T_NATIVE_INT64, 1, &nstate, irrep));
    KL_TRY(get_array(rd, "irreps/label", H5T_NATIVE_INT64, 1, &nb, label));
    KL_TRY(kl_alloc(&r->state, n, KL_MEM_MISC, rd->err));
    for (r->nstate = 0; r->nstate < n;) {
        const int i = r->nstate++;
        r->state[i] = (kl_ci_state){.energy = energy[i], .s2 = s2[i], .residual = residual[i], .irrep = (int)(irrep[i] - 1)};
        if (irrep[i] < 1 || irrep[i] > 8) KL_TRY(broken(rd, "irrep", "names none of 1 to 8"));
        KL_TRY(get_state(rd, r, i));
    }
    for (int64_t i = 0; i < nblock; i++)
        if (label[i] < 1 || label[i] > r->nirrep) KL_TRY(broken(rd, "irreps/label", "names an irrep that is not there"));
    for (int k = 0; k < NFIELD; k++) {
        const block_field *const f = &block_fields[k];
        char name[64];
        int64_t whole[8];
        double real[8];
        snprintf(name, sizeof(name), "irreps/%s", f->name);
        KL_TRY(get_array(rd, name, f->type == 'd' ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT64, 1, &nb, f->type == 'd' ? (void *)real : (void *)whole));
        for (int64_t i = 0; i < nblock; i++) {
            char *const at = (char *)&r->block[label[i] - 1] + f->offset;
            if (f->type == 'd') *(double *)at = real[i];
            else if (f->type == 'i') *(int64_t *)at = whole[i];
            else *(int *)at = (int)whole[i];
        }
    }
out:
    return st;
}

static hid_t open_quietly(const char *path)
{
    H5E_auto2_t print;
    void *data;
    H5Eget_auto2(H5E_DEFAULT, &print, &data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    const hid_t file = H5Fis_hdf5(path) > 0 ? H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT) : -1;
    H5Eset_auto2(H5E_DEFAULT, print, data);
    return file;
}

int kl_cifile_is(const char *path)
{
    const hid_t file = open_quietly(path);
    if (file < 0) return 0;
    const reader r = {file, path, NULL};
    char *kind = NULL;
    const int is = H5Aexists(file, "kind") > 0 && get_text(&r, "kind", &kind) == KL_OK && strcmp(kind, "ci") == 0;
    kl_free(&kind);
    H5Fclose(file);
    return is;
}

kl_status kl_cifile_read(const char *path, kl_ci_record *out, kl_err *err)
{
    kl_status st = KL_OK;
    H5E_auto2_t print;
    void *data;
    char *text = NULL;
    int64_t x = 0;
    *out = (kl_ci_record){0};
    const reader rd = {open_quietly(path), path, err};
    kl_ci_result *const r = &out->r;
    if (rd.file < 0) return kl_fail(err, KL_EINPUT, "%.300s: cannot be read as a result of `kronlat ci'", path);
    H5Eget_auto2(H5E_DEFAULT, &print, &data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    KL_TRY(get_text(&rd, "program", &out->program));
    KL_TRY(get_text(&rd, "command_line", &out->command_line));
    KL_TRY(get_text(&rd, "options", &out->options));
    KL_TRY(get_text(&rd, "fcidump", &out->fcidump));
    KL_TRY(get_text(&rd, "space", &out->space));
    KL_TRY(get_text(&rd, "format", &text));
    if (!kl_spformat_parse(text, &r->format)) KL_TRY(broken(&rd, "format", "is not known"));
    if (H5Aexists(rd.file, "reference") > 0) KL_TRY(get_text(&rd, "reference", &r->reference));
    if (H5Aexists(rd.file, "note") > 0) {
        kl_free(&text);
        KL_TRY(get_text(&rd, "note", &text));
        snprintf(r->note, sizeof(r->note), "%s", text);
    }
    KL_TRY(get_number(&rd, "reference_energy", H5T_NATIVE_DOUBLE, &r->reference_energy));
    KL_TRY(get_number(&rd, "seconds", H5T_NATIVE_DOUBLE, &r->seconds_all));
    KL_TRY(get_number(&rd, "finished", H5T_NATIVE_INT64, &x));
    out->finished = x != 0;
    for (int k = 0; k < NSIZE; k++) {
        KL_TRY(get_number(&rd, sizes[k].name, H5T_NATIVE_INT64, &x));
        if (x < 0 || x > 1000000) KL_TRY(broken(&rd, sizes[k].name, "is out of range"));
        *(int *)((char *)r + sizes[k].offset) = (int)x;
    }
    if (r->norb > 10000 || r->nirrep > 8 || r->nlevel > 2 * KL_DET_MAX_ORB + 1) KL_TRY(broken(&rd, "orbitals, irreps_of_the_file or levels", "are out of range"));
    if (out->finished) KL_TRY(get_states(&rd, r));
out:
    H5Eset_auto2(H5E_DEFAULT, print, data);
    H5Fclose(rd.file);
    kl_free(&text);
    if (st != KL_OK) kl_cifile_clear(out);
    return st;
}

kl_status kl_cifile_vectors(const char *path, int irrep, int most, int64_t n, int *nvec, double *x, kl_err *err)
{
    kl_status st = KL_OK;
    char name[32];
    hsize_t have[2] = {0, 0};
    hid_t set = -1, all = -1, some = -1;
    *nvec = 0;
    const reader rd = {open_quietly(path), path, err};
    if (rd.file < 0) return kl_fail(err, KL_EINPUT, "%.300s: cannot be read as a result of `kronlat ci'", path);
    snprintf(name, sizeof(name), "vectors/%d", irrep + 1);
    if (!is_there(&rd, "vectors") || !is_there(&rd, name)) goto out;
    set = H5Dopen2(rd.file, name, H5P_DEFAULT);
    all = set >= 0 ? H5Dget_space(set) : -1;
    if (all < 0 || H5Sget_simple_extent_ndims(all) != 2 || H5Sget_simple_extent_dims(all, have, NULL) != 2) KL_TRY(broken(&rd, name, "holds no vectors"));
    if ((int64_t)have[1] != n)
        KL_TRY(kl_fail(err, KL_EINPUT, "--resume: %.300s holds vectors of %lld numbers for irrep %d; this run needs %lld", path, (long long)have[1], irrep + 1, (long long)n));
    const hsize_t from[2] = {0, 0}, count[2] = {have[0] < (hsize_t)most ? have[0] : (hsize_t)most, have[1]};
    some = H5Screate_simple(2, count, NULL);
    if (H5Sselect_hyperslab(all, H5S_SELECT_SET, from, NULL, count, NULL) < 0 || H5Dread(set, H5T_NATIVE_DOUBLE, some, all, H5P_DEFAULT, x) < 0)
        KL_TRY(broken(&rd, name, "cannot be read"));
    *nvec = (int)count[0];
out:
    if (some >= 0) H5Sclose(some);
    if (all >= 0) H5Sclose(all);
    if (set >= 0) H5Dclose(set);
    H5Fclose(rd.file);
    return st;
}

void kl_cifile_clear(kl_ci_record *c)
{
    kl_ci_result_clear(&c->r);
    kl_free(&c->program);
    kl_free(&c->command_line);
    kl_free(&c->options);
    kl_free(&c->fcidump);
    kl_free(&c->space);
}
