/* Sparse matrices to HDF5.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/spfile.h"

#include "base/mem.h"
#include "io/checked.h"

/* An array of the matrix, if it has it. */
static void put(kl_h5_out *w, const char *name, hid_t on_disk, hid_t in_memory, int64_t n, const void *data)
{
    const hsize_t size = (hsize_t)n;
    if (data != NULL) kl_h5_put_array(w, w->file, name, on_disk, in_memory, 1, &size, data, NULL);
}

static void put_words(kl_h5_out *w, const char *name, int bytes, int64_t n, const void *data)
{
    if (bytes == 2) put(w, name, H5T_STD_U16LE, H5T_NATIVE_UINT16, n, data);
    else if (bytes == 4) put(w, name, H5T_STD_U32LE, H5T_NATIVE_UINT32, n, data);
    else put(w, name, H5T_STD_U64LE, H5T_NATIVE_UINT64, n, data);
}

static kl_status put_rows(kl_h5_out *w, const kl_spmat *m, int64_t boundary, kl_err *err)
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
    kl_h5_put_ints(w, w->file, "row_nonzeros", m->nrow, count);
    if (boundary > 0) {
        kl_h5_put_ints(w, w->file, "row_nonzeros_reference", m->nrow, left);
        kl_h5_put_ints(w, w->file, "row_nonzeros_expansion", m->nrow, right);
    }
out:
    kl_free(&column);
    kl_free(&value);
    kl_free(&count);
    return st;
}

kl_status kl_spfile_write(const char *path, const kl_spmat *m, int64_t boundary, kl_err *err)
{
    const struct {
        const char *name;
        int64_t value;
    } number[] = {{"rows", m->nrow},
                  {"columns", m->ncol},
                  {"nonzeros", m->nnz},
                  {"one_half", m->symmetric},
                  {"width", m->width},
                  {"slice_height", m->height},
                  {"sigma", m->sigma},
                  {"boundary", boundary},
                  {"longest_row", m->longest_row},
                  {"longest_row_nonzeros", m->longest}};
    kl_checked f;
    kl_status st = kl_checked_create(path, kl_spmat_measured_bytes(m) + 24 * m->nrow + 65536, &f, err);
    if (st != KL_OK) return st;
    kl_h5_out *const w = &f.out;
    kl_h5_put_text(w, w->file, "kind", "matrix");
    kl_h5_put_text(w, w->file, "format", kl_spformat_name(m->format));
    for (size_t k = 0; k < sizeof(number) / sizeof(*number); k++)
        kl_h5_put_int(w, w->file, number[k].name, number[k].value);
    put(w, "value", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, m->nplace, m->value);
    put_words(w, "column", m->index_bytes, m->nplace, m->column);
    put_words(w, "slice_off", m->offset_bytes, m->nslice + 1, m->slice_off);
    put_words(w, "length", 4, m->nrow, m->length);
    put_words(w, "order", 4, m->nrow, m->order);
    put(w, "rest_value", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, m->nrest, m->rest_value);
    put_words(w, "rest_column", m->index_bytes, m->nrest, m->rest_column);
    put_words(w, "start", m->offset_bytes, m->nrow + (m->end == NULL), m->start);
    put_words(w, "end", m->offset_bytes, m->nrow, m->end);
    return kl_checked_finish(&f, put_rows(w, m, boundary, err), err);
}
