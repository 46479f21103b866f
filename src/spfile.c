/* Sparse matrices to HDF5.
   SPDX-License-Identifier: Apache-2.0 */
#define H5_USE_110_API
#include "spfile.h"

#include <errno.h>
#include <hdf5.h>
#include <string.h>
#include <unistd.h>

#include "mem.h"

typedef struct writer {
    hid_t file;
    int failed;
} writer;

static void put(writer *w, const char *name, hid_t on_disk, hid_t in_memory, int64_t n, const void *data)
{
    const hsize_t size = (hsize_t)n;
    if (data == NULL) return;
    const hid_t create = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, &size, NULL);
    H5Pset_obj_track_times(create, 0);
    const hid_t set = H5Dcreate2(w->file, name, on_disk, space, H5P_DEFAULT, create, H5P_DEFAULT);
    w->failed |= set < 0 || H5Dwrite(set, in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0;
    if (set >= 0) H5Dclose(set);
    H5Sclose(space);
    H5Pclose(create);
}

static void put_words(writer *w, const char *name, int bytes, int64_t n, const void *data)
{
    if (bytes == 2) put(w, name, H5T_STD_U16LE, H5T_NATIVE_UINT16, n, data);
    else if (bytes == 4) put(w, name, H5T_STD_U32LE, H5T_NATIVE_UINT32, n, data);
    else put(w, name, H5T_STD_U64LE, H5T_NATIVE_UINT64, n, data);
}

static void put_attribute(writer *w, const char *name, hid_t on_disk, hid_t in_memory, const void *data)
{
    const hid_t space = H5Screate(H5S_SCALAR), attribute = H5Acreate2(w->file, name, on_disk, space, H5P_DEFAULT, H5P_DEFAULT);
    w->failed |= attribute < 0 || H5Awrite(attribute, in_memory, data) < 0;
    if (attribute >= 0) H5Aclose(attribute);
    H5Sclose(space);
}

static kl_status put_rows(writer *w, const kl_spmat *m, int64_t boundary, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t *column = NULL, *count = NULL;
    double *value = NULL;
    KL_TRY(kl_alloc(&column, m->longest + 1, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&value, m->longest + 1, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&count, 3 * (m->nrow + 1), KL_MEM_WORK, err));
    int64_t *const left = count + m->nrow + 1, *const right = left + m->nrow + 1;
    for (int64_t i = 0; i < m->nrow; i++) {
        count[i] = kl_spmat_row(m, i, column, value);
        left[i] = count[i] < boundary ? count[i] : boundary;
        right[i] = count[i] - left[i];
    }
    put(w, "row_nonzeros", H5T_STD_I64LE, H5T_NATIVE_INT64, m->nrow, count);
    if (boundary > 0) {
        put(w, "row_nonzeros_reference", H5T_STD_I64LE, H5T_NATIVE_INT64, m->nrow, left);
        put(w, "row_nonzeros_expansion", H5T_STD_I64LE, H5T_NATIVE_INT64, m->nrow, right);
    }
out:
    kl_free(&column);
    kl_free(&value);
    kl_free(&count);
    return st;
}

kl_status kl_spfile_write(const char *path, const kl_spmat *m, int64_t boundary, kl_err *err)
{
    kl_status st = KL_OK;
    H5E_auto2_t print;
    void *data;
    const struct {
        const char *name;
        int64_t value;
    } number[] = {{"rows", m->nrow}, {"columns", m->ncol}, {"nonzeros", m->nnz}, {"one_half", m->symmetric}, {"width", m->width}, {"slice_height", m->height}, {"sigma", m->sigma},
                  {"boundary", boundary}, {"longest_row", m->longest_row}, {"longest_row_nonzeros", m->longest}};
    H5Eget_auto2(H5E_DEFAULT, &print, &data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    writer w = {H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), 0};
    if (w.file < 0) {
        st = kl_fail(err, KL_EIO, "%.300s cannot be written: %s", path, strerror(errno));
        goto out;
    }
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, strlen(kl_spformat_name(m->format)) + 1);
    put_attribute(&w, "format", text, text, kl_spformat_name(m->format));
    H5Tclose(text);
    for (size_t k = 0; k < sizeof(number) / sizeof(*number); k++) put_attribute(&w, number[k].name, H5T_STD_I64LE, H5T_NATIVE_INT64, &number[k].value);
    put(&w, "value", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, m->nplace, m->value);
    put_words(&w, "column", m->index_bytes, m->nplace, m->column);
    put_words(&w, "slice_off", m->offset_bytes, m->nslice + 1, m->slice_off);
    put_words(&w, "length", 4, m->nrow, m->length);
    put_words(&w, "order", 4, m->nrow, m->order);
    put(&w, "rest_value", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, m->nrest, m->rest_value);
    put_words(&w, "rest_column", m->index_bytes, m->nrest, m->rest_column);
    put_words(&w, "start", m->offset_bytes, m->nrow + (m->end == NULL), m->start);
    put_words(&w, "end", m->offset_bytes, m->nrow, m->end);
    st = put_rows(&w, m, boundary, err);
    w.failed |= H5Fclose(w.file) < 0;
    if (st == KL_OK && w.failed) st = kl_fail(err, KL_EIO, "%.300s cannot be written: %s", path, strerror(errno));
    if (st != KL_OK) unlink(path);
out:
    H5Eset_auto2(H5E_DEFAULT, print, data);
    return st;
}
