/* HDF5 layout: attributes of the root say what was computed; /energy, /s2, /irrep, /residual have an entry for each state; /state/N holds leading
   determinants, weights by level, and density_alpha, density_beta, natural_occupations where they were asked for; /irreps/N the sizes.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define H5_USE_110_API
#include "cifile.h"
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

static void put_all(writer *w, const kl_ci_result *r, const char *fcidump, const char *space, const char *program, const char *command_line)
{
    double energy[KL_MAX_ROOT], s2[KL_MAX_ROOT], residual[KL_MAX_ROOT];
    int64_t irrep[KL_MAX_ROOT], label[8], ndet[8], nnz[8], bytes[8];
    const int64_t sizes[] = {r->norb, r->ninactive, r->nactive, r->nalpha, r->nbeta, r->nirrep, r->converged};
    static const char *const size_name[] = {"orbitals", "inactive", "active", "alpha", "beta", "irreps_of_the_file", "converged"};
    put_text(w, "program", program);
    put_text(w, "kind", "ci");
    put_text(w, "command_line", command_line);
    put_text(w, "fcidump", fcidump);
    put_text(w, "space", space);
    put_text(w, "reference", r->reference);
    if (r->note[0] != '\0') put_text(w, "note", r->note);
    put_attribute(w, "reference_energy", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &r->reference_energy);
    for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) put_attribute(w, size_name[k], H5T_STD_I64LE, H5T_NATIVE_INT64, &sizes[k]);
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
    for (int g = 0; g < r->nirrep; g++) {
        if (r->block[g].ndet == 0) continue;
        label[n] = g + 1;
        ndet[n] = r->block[g].ndet;
        nnz[n] = r->block[g].nnz;
        bytes[n++] = r->block[g].matrix_bytes;
    }
    put_ints(w, "irreps/label", n, label);
    put_ints(w, "irreps/determinants", n, ndet);
    put_ints(w, "irreps/nonzeros", n, nnz);
    put_ints(w, "irreps/matrix_bytes", n, bytes);
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

kl_status kl_cifile_write(const char *path, const kl_ci_result *r, const char *fcidump, const char *space, const char *program, const char *command_line,
                          kl_err *err)
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
        put_all(&w, r, fcidump, space, program, command_line);
        check(&w, H5Fclose(w.file));
    }
    H5Eset_auto2(H5E_DEFAULT, print, data);
    if (!w.failed) w.failed = sync_path(partial, 0) != 0 || rename(partial, path) != 0 || sync_path(folder, 1) != 0;
    if (!w.failed) return KL_OK;
    const int why = errno;
    unlink(partial);
    return kl_fail(err, KL_EIO, "%.300s cannot be written: %s", path, strerror(why));
}
