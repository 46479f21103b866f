/* Sparse matrices in the storage formats of Mahmoud, Hoffmann and Reza, Computation 6 (2018) 45: CSR, ELL,
   ELLPACK-R, sliced ELL and its R form, and the hybrid of ELL for the first BOUNDARY non-zeros of each row
   and CSR for the rest. Stores and converts; multiplies nothing.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SPMAT_H
#define KL_SPMAT_H
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ORDER KL_SP: names in spmat.c */
typedef enum kl_spformat {
    KL_SP_CSR,
    KL_SP_ELL,
    KL_SP_ELLR,
    KL_SP_SELL,
    KL_SP_SELLR,
    KL_SP_HYBRID,
    KL_NSP
} kl_spformat;

/* Every format has two parts, of which either may be empty: a regular one with a fixed number of entries for
   each row (of a slice), and a rest in CSR. Entries without a non-zero hold 0 and a column of the matrix, so
   that kernels need not look. Columns ascend in a row.

   ELL, ELLR   regular [width][nrow], by columns (one thread a row reads side by side)
   SELL, SELLR regular slice by slice, [width of slice][height]; the last slice is as high as all; with sigma
   > 1 rows are sorted by
               length within groups of sigma, row k is row order[k] of the matrix
   HYBRID      regular [nrow][width] by rows (one warp a row), width = BOUNDARY; rest start[row]..end[row]
   CSR         rest only, start[row]..start[row + 1] */
typedef struct kl_spmat kl_spmat;
struct kl_spmat {
    kl_spformat format;
    int symmetric;       /* only columns <= row are stored */
    int index_bytes;     /* of a column: 2 or 4, unsigned */
    int offset_bytes;    /* of a position in an array: 4 or 8, unsigned */
    int64_t nrow, ncol;
    int64_t nnz;         /* non-zeros stored */
    int64_t longest, longest_row; /* non-zeros of the longest row, and which it is */

    int64_t width, nplace; /* entries a row (ELL, HYBRID), and of the whole regular part */
    int64_t height, sigma, nslice;
    double *value;       /* [nplace] */
    void *column;        /* [nplace] */
    void *slice_off;     /* [nslice + 1] */
    uint32_t *length;    /* [nrow] non-zeros by row: R forms and HYBRID */
    uint32_t *order;     /* [nrow] sigma > 1 */

    int64_t nrest;
    double *rest_value;  /* [nrest] */
    void *rest_column;   /* [nrest] */
    void *start, *end;   /* CSR: start [nrow + 1]; HYBRID: both [nrow] */
};

typedef struct kl_spopts {
    kl_spformat format;
    int64_t boundary;    /* HYBRID: entries a row; 0: the most that pads the matrix by 2 % */
    int64_t height;      /* SELL: rows of a slice; 0: 32 */
    int64_t sigma;       /* SELL: rows that are sorted together; 0 and 1: none */
    int index_bytes;     /* 2, 4; 0: the narrowest that fits */
    int nthread;         /* that lay it out; 0: one */
} kl_spopts;

/* Entry i of an array of offsets of m, whatever its width. */
static inline int64_t kl_sp_offset(const kl_spmat *m, const void *array, int64_t i)
{
    return m->offset_bytes == 4 ? (int64_t)((const uint32_t *)array)[i]
                                : (int64_t)((const uint64_t *)array)[i];
}

/* The same of an array of columns. */
static inline int64_t kl_sp_column(const kl_spmat *m, const void *array, int64_t i)
{
    return m->index_bytes == 2 ? (int64_t)((const uint16_t *)array)[i]
                               : (int64_t)((const uint32_t *)array)[i];
}

/* Takes CSR arrays over (on success they are nulled): off [nrow+1], column [nnz] < ncol, ascending in each
   row; value [nnz]. Columns are narrowed to 16 bits where they fit, in place. symmetric: columns are <=
   row. */
kl_status kl_spmat_take_csr(int64_t nrow, int64_t ncol, int symmetric, int64_t **off, uint32_t **column,
                            double **value, kl_spmat **out, kl_err *err) KL_MUST_CHECK;

/* A CSR matrix in another format (CSR included, with other indices). Only CSR and HYBRID hold symmetric
   halves. */
kl_status kl_spmat_convert(const kl_spmat *csr, const kl_spopts *opts, kl_spmat **out,
                           kl_err *err) KL_MUST_CHECK;

/* Half of a symmetric CSR matrix. EINPUT names the first element that has no equal mirror image (to 1e-12 of
   the largest). */
kl_status kl_spmat_half(const kl_spmat *csr, kl_spmat **out, kl_err *err) KL_MUST_CHECK;
/* Rows [from, to) of a whole CSR matrix. */
kl_status kl_spmat_rows(const kl_spmat *csr, int64_t from, int64_t to, kl_spmat **out,
                        kl_err *err) KL_MUST_CHECK;
void kl_spmat_destroy(kl_spmat **m);

/* Bytes by the paper's formula for this matrix (with the widths of index and offset really used; sliced ELL:
   the sum over slices), and bytes really taken by the arrays. */
int64_t kl_spmat_formula_bytes(const kl_spmat *m);
int64_t kl_spmat_measured_bytes(const kl_spmat *m);

/* What the paper's program tells of a matrix, for a boundary. The reference region of a row are the columns
   up to its BOUNDARY-th non-zero, the expansion space the others; sparsity is the share of zeros in a
   region. */
typedef struct kl_spmat_facts {
    int64_t boundary;
    int64_t nnz, nnz_reference, nnz_expansion;
    int64_t rows_reference, rows_expansion; /* rows with a non-zero in the region */
    int64_t longest, longest_row;
    double sparsity, sparsity_reference, sparsity_expansion;
} kl_spmat_facts;
/* boundary 0: the one that HYBRID would choose */
void kl_spmat_look(const kl_spmat *csr, int64_t boundary, kl_spmat_facts *facts);

/* Row i in order of columns: at most m->longest entries; returns how many. */
int64_t kl_spmat_row(const kl_spmat *m, int64_t i, int64_t *column, double *value);

const char *kl_spformat_name(kl_spformat format);
int kl_spformat_parse(const char *name, kl_spformat *out); /* 1: known */

#ifdef __cplusplus
}
#endif
#endif
