/* Formats of sparse matrices: made from CSR, measured, read back.
   SPDX-License-Identifier: Apache-2.0 */
#include "sparse/spmat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/par.h"

/* ORDER KL_SP */
static const char *const format_name[KL_NSP] = {"csr", "ell", "ellr", "sell", "sellr", "hybrid"};

const char *kl_spformat_name(kl_spformat format) { return format_name[format]; }

int kl_spformat_parse(const char *name, kl_spformat *out)
{
    for (int k = 0; k < KL_NSP; k++)
        if (strcmp(name, format_name[k]) == 0) {
            *out = (kl_spformat)k;
            return 1;
        }
    return 0;
}

enum {
    DEFAULT_HEIGHT = 32,
    WARP = 32,
};
static const double padding_allowed = 0.02; /* of the non-zeros, where BOUNDARY is ours to choose */

static int narrow_enough(int64_t ncol) { return ncol <= 65536 ? 2 : 4; }

void kl_spmat_destroy(kl_spmat **matrix)
{
    kl_spmat *m = *matrix;
    if (m == NULL) return;
    kl_free(&m->value);
    kl_free(&m->column);
    kl_free(&m->slice_off);
    kl_free(&m->length);
    kl_free(&m->order);
    kl_free(&m->rest_value);
    kl_free(&m->rest_column);
    kl_free(&m->start);
    kl_free(&m->end);
    kl_free(matrix);
}

static void set_offset(const kl_spmat *m, void *array, int64_t i, int64_t x)
{
    if (m->offset_bytes == 4) ((uint32_t *)array)[i] = (uint32_t)x;
    else ((uint64_t *)array)[i] = (uint64_t)x;
}

static void set_column(const kl_spmat *m, void *array, int64_t i, int64_t x)
{
    if (m->index_bytes == 2) ((uint16_t *)array)[i] = (uint16_t)x;
    else ((uint32_t *)array)[i] = (uint32_t)x;
}

static kl_status alloc_words(void **array, int64_t n, int bytes, kl_err *err)
{
    return kl_alloc_bytes(array, n, (size_t)bytes, KL_MEM_MATRIX, err);
}

static void find_longest(kl_spmat *m)
{
    m->longest = m->longest_row = 0;
    for (int64_t i = 0; i < m->nrow; i++) {
        const int64_t n = kl_sp_offset(m, m->start, i + 1) - kl_sp_offset(m, m->start, i);
        if (n <= m->longest) continue;
        m->longest = n;
        m->longest_row = i;
    }
}

kl_status kl_spmat_take_csr(int64_t nrow, int64_t ncol, int symmetric, int64_t **off, uint32_t **column,
                            double **value, kl_spmat **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_spmat *m = NULL;
    *out = NULL;
    if (nrow < 0 || ncol < 0 || ncol > (int64_t)UINT32_MAX + 1 || nrow > (int64_t)UINT32_MAX + 1)
        return kl_fail(err, KL_EINPUT,
                       "a sparse matrix of %lld rows and %lld columns; 0 to 2^32 are supported",
                       (long long)nrow, (long long)ncol);
    KL_TRY(kl_alloc(&m, 1, KL_MEM_MISC, err));
    const int64_t nnz = (*off)[nrow];
    m->format = KL_SP_CSR;
    m->symmetric = symmetric;
    m->index_bytes = narrow_enough(ncol);
    m->offset_bytes = nnz <= UINT32_MAX ? 4 : 8;
    m->nrow = nrow;
    m->ncol = ncol;
    m->nnz = m->nrest = nnz;
    KL_TRY(alloc_words(&m->start, nrow + 1, m->offset_bytes, err));
    for (int64_t i = 0; i <= nrow; i++) set_offset(m, m->start, i, (*off)[i]);
    void *narrow = *column;
    if (m->index_bytes == 2) { /* entry k of the narrow array lies before entry k of the wide one */
        for (int64_t k = 0; k < nnz; k++) {
            const uint16_t c = (uint16_t)(*column)[k];
            memcpy((char *)narrow + 2 * k, &c, 2);
        }
        KL_TRY(kl_realloc_bytes(&narrow, nnz, 2, KL_MEM_MATRIX, err));
    }
    m->rest_column = narrow;
    m->rest_value = *value;
    find_longest(m);
    kl_free(off);
    *column = NULL;
    *value = NULL;
    *out = m;
    return KL_OK;
out:
    kl_spmat_destroy(&m);
    return st;
}

/* ---------------------------------------------------------------- formats */

/* Non-zeros of row i of any format. */
static int64_t row_length(const kl_spmat *m, int64_t i)
{
    if (m->length != NULL) return m->length[i];
    if (m->format == KL_SP_CSR) return kl_sp_offset(m, m->start, i + 1) - kl_sp_offset(m, m->start, i);
    return -1;
}

/* The largest width of rows with at most 2 % of padding. */
static int64_t choose_boundary(const kl_spmat *m)
{
    kl_err none;
    int64_t *rows = NULL, pad = 0, boundary = 0, shorter = 0;
    if (kl_alloc(&rows, m->longest + 1, KL_MEM_WORK, &none) != KL_OK) return 0; /* CSR in effect */
    for (int64_t i = 0; i < m->nrow; i++) rows[row_length(m, i)]++;
    /* from b-1 to b every row shorter than b gets one more entry to pad */
    for (int64_t b = 1; b <= m->longest; b++) {
        shorter += rows[b - 1];
        pad += shorter;
        if ((double)pad > padding_allowed * (double)m->nnz) break;
        boundary = b;
    }
    kl_free(&rows);
    return boundary >= WARP ? boundary / WARP * WARP : boundary;
}

typedef struct row_size {
    uint32_t length, row;
} row_size;

static int longest_first(const void *x, const void *y)
{
    const row_size *const a = x, *const b = y;
    if (a->length != b->length) return a->length < b->length ? 1 : -1;
    return (a->row > b->row) - (a->row < b->row);
}

static kl_status sort_rows(kl_spmat *m, const kl_spmat *csr, kl_err *err)
{
    kl_status st = KL_OK;
    row_size *list = NULL;
    KL_TRY(kl_alloc(&m->order, m->nrow, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&list, m->nrow, KL_MEM_WORK, err));
    for (int64_t i = 0; i < m->nrow; i++) list[i] = (row_size){(uint32_t)row_length(csr, i), (uint32_t)i};
    for (int64_t i = 0; i < m->nrow; i += m->sigma)
        qsort(list + i, (size_t)(m->nrow - i < m->sigma ? m->nrow - i : m->sigma), sizeof(*list),
              longest_first);
    for (int64_t i = 0; i < m->nrow; i++) m->order[i] = list[i].row;
out:
    kl_free(&list);
    return st;
}

/* Copies the first `n` non-zeros of row i to entries first, first + step, ...; pads to `width` with the row's
   last column. */
static void lay_row(kl_spmat *m, const kl_spmat *csr, int64_t i, int64_t width, int64_t first, int64_t step)
{
    const int64_t from = kl_sp_offset(csr, csr->start, i), have = row_length(csr, i);
    int64_t last = i < m->ncol ? i : 0;
    for (int64_t k = 0; k < width; k++) {
        const int64_t place = first + k * step;
        if (k < have) last = kl_sp_column(csr, csr->rest_column, from + k);
        m->value[place] = k < have ? csr->rest_value[from + k] : 0.0;
        set_column(m, m->column, place, last);
    }
}

enum { ROWS_PER_TASK = 256 };

typedef struct laying {
    kl_spmat *m;
    const kl_spmat *csr;
} laying;

static void regular_task(void *self, int64_t task, int thread)
{
    const laying *const l = self;
    kl_spmat *const m = l->m;
    (void)thread;
    for (int64_t i = task * ROWS_PER_TASK; i < (task + 1) * ROWS_PER_TASK && i < m->nrow; i++) {
        if (m->format == KL_SP_HYBRID) lay_row(m, l->csr, i, m->width, i * m->width, 1);
        else lay_row(m, l->csr, i, m->width, i, m->nrow);
    }
}

static kl_status lay_regular(kl_spmat *m, const kl_spmat *csr, int nthread, kl_err *err)
{
    kl_status st = KL_OK;
    laying l = {m, csr};
    if (!kl_mul_size(m->nrow, m->width, &m->nplace))
        KL_TRY(kl_fail(err, KL_ENOMEM, "%s: %lld rows of %lld places do not fit", format_name[m->format],
                       (long long)m->nrow, (long long)m->width));
    KL_TRY(kl_alloc(&m->value, m->nplace, KL_MEM_MATRIX, err));
    KL_TRY(alloc_words(&m->column, m->nplace, m->index_bytes, err));
    kl_par_for(nthread, (m->nrow + ROWS_PER_TASK - 1) / ROWS_PER_TASK, regular_task, &l);
out:
    return st;
}

static void slice_task(void *self, int64_t s, int thread)
{
    const laying *const l = self;
    kl_spmat *const m = l->m;
    const int64_t place = kl_sp_offset(m, m->slice_off, s),
                  width = (kl_sp_offset(m, m->slice_off, s + 1) - place) / m->height;
    (void)thread;
    for (int64_t k = s * m->height; k < (s + 1) * m->height && k < m->nrow; k++)
        lay_row(m, l->csr, m->order != NULL ? m->order[k] : k, width, place + k - s * m->height, m->height);
}

static kl_status lay_slices(kl_spmat *m, const kl_spmat *csr, const kl_spopts *opts, kl_err *err)
{
    kl_status st = KL_OK;
    laying l = {m, csr};
    m->height = opts->height > 0 ? opts->height : DEFAULT_HEIGHT;
    m->sigma = opts->sigma > 1 ? opts->sigma : 1;
    m->nslice = (m->nrow + m->height - 1) / m->height;
    if (m->sigma > 1) KL_TRY(sort_rows(m, csr, err));
    for (int pass = 0; pass < 2; pass++) { /* the size of all, then of each */
        int64_t place = 0;
        for (int64_t s = 0; s < m->nslice; s++) {
            int64_t width = 0;
            for (int64_t k = s * m->height; k < (s + 1) * m->height && k < m->nrow; k++) {
                const int64_t n = row_length(csr, m->order != NULL ? m->order[k] : k);
                if (n > width) width = n;
            }
            if (pass == 1) set_offset(m, m->slice_off, s, place);
            place += width * m->height;
        }
        if (pass == 1) set_offset(m, m->slice_off, m->nslice, place);
        if (pass == 1) break;
        m->nplace = place;
        m->offset_bytes = place <= UINT32_MAX ? 4 : 8;
        /* entries below the last row stay 0, column 0 */
        KL_TRY(kl_alloc(&m->value, place, KL_MEM_MATRIX, err));
        KL_TRY(alloc_words(&m->column, place, m->index_bytes, err));
        KL_TRY(alloc_words(&m->slice_off, m->nslice + 1, m->offset_bytes, err));
    }
    kl_par_for(opts->nthread, m->nslice, slice_task, &l);
out:
    return st;
}

static void rest_task(void *self, int64_t task, int thread)
{
    const laying *const l = self;
    kl_spmat *const m = l->m;
    const kl_spmat *const csr = l->csr;
    (void)thread;
    for (int64_t i = task * ROWS_PER_TASK; i < (task + 1) * ROWS_PER_TASK && i < m->nrow; i++) {
        const int64_t from = kl_sp_offset(csr, csr->start, i), have = row_length(csr, i);
        int64_t at = kl_sp_offset(m, m->start, i);
        for (int64_t k = m->width; k < have; k++, at++) {
            m->rest_value[at] = csr->rest_value[from + k];
            set_column(m, m->rest_column, at, kl_sp_column(csr, csr->rest_column, from + k));
        }
    }
}

static kl_status lay_rest(kl_spmat *m, const kl_spmat *csr, int nthread, kl_err *err)
{
    kl_status st = KL_OK;
    laying l = {m, csr};
    const int hybrid = m->format == KL_SP_HYBRID;
    for (int64_t i = 0; i < m->nrow; i++) {
        const int64_t n = row_length(csr, i) - m->width;
        m->nrest += n > 0 ? n : 0;
    }
    m->offset_bytes = m->nrest <= UINT32_MAX ? 4 : 8;
    KL_TRY(kl_alloc(&m->rest_value, m->nrest, KL_MEM_MATRIX, err));
    KL_TRY(alloc_words(&m->rest_column, m->nrest, m->index_bytes, err));
    KL_TRY(alloc_words(&m->start, m->nrow + !hybrid, m->offset_bytes, err));
    if (hybrid) KL_TRY(alloc_words(&m->end, m->nrow, m->offset_bytes, err));
    int64_t at = 0;
    for (int64_t i = 0; i < m->nrow; i++) {
        const int64_t n = row_length(csr, i) - m->width;
        set_offset(m, m->start, i, at);
        at += n > 0 ? n : 0;
        if (hybrid) set_offset(m, m->end, i, at);
    }
    if (!hybrid) set_offset(m, m->start, m->nrow, at);
    kl_par_for(nthread, (m->nrow + ROWS_PER_TASK - 1) / ROWS_PER_TASK, rest_task, &l);
out:
    return st;
}

kl_status kl_spmat_convert(const kl_spmat *csr, const kl_spopts *opts, kl_spmat **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_spmat *m = NULL;
    *out = NULL;
    if (csr->format != KL_SP_CSR)
        return kl_fail(err, KL_EINPUT, "only a CSR matrix is converted, not %s", format_name[csr->format]);
    if (opts->format < 0 || opts->format >= KL_NSP)
        return kl_fail(err, KL_EINPUT, "sparse format %d; 0 to %d are known", (int)opts->format, KL_NSP - 1);
    if (csr->symmetric && opts->format != KL_SP_CSR && opts->format != KL_SP_HYBRID)
        return kl_fail(err, KL_EINPUT, "format %s holds no symmetric halves; csr and hybrid do",
                       format_name[opts->format]);
    if (opts->boundary < 0 || opts->height < 0 || opts->height > 65536 || opts->sigma < 0)
        return kl_fail(
            err, KL_EINPUT,
            "boundary %lld, slice height %lld, sigma %lld: 0 or more are allowed, a height of at most 65536",
            (long long)opts->boundary, (long long)opts->height, (long long)opts->sigma);
    if (opts->index_bytes != 0 && opts->index_bytes != 2 && opts->index_bytes != 4)
        return kl_fail(err, KL_EINPUT, "indices of %d bytes; 2 and 4 are allowed", opts->index_bytes);
    if (opts->index_bytes == 2 && narrow_enough(csr->ncol) > 2)
        return kl_fail(err, KL_EINPUT, "16-bit indices hold columns 0 to 65535; this matrix has %lld",
                       (long long)csr->ncol);
    KL_TRY(kl_alloc(&m, 1, KL_MEM_MISC, err));
    m->format = opts->format;
    m->symmetric = csr->symmetric;
    m->index_bytes = opts->index_bytes > 0 ? opts->index_bytes : narrow_enough(csr->ncol);
    m->offset_bytes = 4;
    m->nrow = csr->nrow;
    m->ncol = csr->ncol;
    m->nnz = csr->nnz;
    m->longest = csr->longest;
    m->longest_row = csr->longest_row;
    m->sigma = 1;
    if (m->format == KL_SP_ELLR || m->format == KL_SP_SELLR || m->format == KL_SP_HYBRID) {
        KL_TRY(kl_alloc(&m->length, m->nrow, KL_MEM_MATRIX, err));
        for (int64_t i = 0; i < m->nrow; i++) m->length[i] = (uint32_t)row_length(csr, i);
    }
    if (m->format == KL_SP_SELL || m->format == KL_SP_SELLR) KL_TRY(lay_slices(m, csr, opts, err));
    if (m->format == KL_SP_ELL || m->format == KL_SP_ELLR) m->width = csr->longest;
    if (m->format == KL_SP_HYBRID) m->width = opts->boundary > 0 ? opts->boundary : choose_boundary(csr);
    if (m->width > 0) KL_TRY(lay_regular(m, csr, opts->nthread, err));
    if (m->format == KL_SP_HYBRID || m->format == KL_SP_CSR) KL_TRY(lay_rest(m, csr, opts->nthread, err));
    *out = m;
    m = NULL;
out:
    kl_spmat_destroy(&m);
    return st;
}

/* ---------------------------------------------------------------- halves */

static double element_at(const kl_spmat *csr, int64_t i, int64_t j)
{
    int64_t low = kl_sp_offset(csr, csr->start, i), high = kl_sp_offset(csr, csr->start, i + 1);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2, c = kl_sp_column(csr, csr->rest_column, middle);
        if (c == j) return csr->rest_value[middle];
        if (c < j) low = middle + 1;
        else high = middle;
    }
    return 0.0;
}

kl_status kl_spmat_rows(const kl_spmat *csr, int64_t from, int64_t to, kl_spmat **out, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t first = kl_sp_offset(csr, csr->start, from), n = kl_sp_offset(csr, csr->start, to) - first;
    int64_t *off = NULL;
    uint32_t *column = NULL;
    double *value = NULL;
    KL_TRY(kl_alloc(&off, to - from + 1, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&column, n, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&value, n, KL_MEM_MATRIX, err));
    for (int64_t i = from; i < to; i++) off[i - from + 1] = kl_sp_offset(csr, csr->start, i + 1) - first;
    for (int64_t k = 0; k < n; k++) column[k] = (uint32_t)kl_sp_column(csr, csr->rest_column, first + k);
    memcpy(value, csr->rest_value + first, (size_t)n * sizeof *value);
    KL_TRY(kl_spmat_take_csr(to - from, csr->ncol, 0, &off, &column, &value, out, err));
out:
    kl_free(&off);
    kl_free(&column);
    kl_free(&value);
    return st;
}

kl_status kl_spmat_half(const kl_spmat *csr, kl_spmat **out, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t *off = NULL, n = 0;
    uint32_t *column = NULL;
    double *value = NULL, largest = 0;
    *out = NULL;
    if (csr->format != KL_SP_CSR || csr->symmetric)
        return kl_fail(err, KL_EINPUT, "a half is made of a whole CSR matrix");
    if (csr->nrow != csr->ncol)
        return kl_fail(err, KL_EINPUT, "a matrix of %lld rows and %lld columns is not symmetric",
                       (long long)csr->nrow, (long long)csr->ncol);
    for (int64_t k = 0; k < csr->nnz; k++) largest = fmax(largest, fabs(csr->rest_value[k]));
    KL_TRY(kl_alloc(&off, csr->nrow + 1, KL_MEM_MATRIX, err));
    for (int64_t i = 0; i < csr->nrow; i++)
        for (int64_t k = kl_sp_offset(csr, csr->start, i); k < kl_sp_offset(csr, csr->start, i + 1); k++) {
            const int64_t j = kl_sp_column(csr, csr->rest_column, k);
            if (fabs(csr->rest_value[k] - element_at(csr, j, i)) > 1e-12 * largest)
                KL_TRY(kl_fail(
                    err, KL_EINPUT,
                    "the matrix is not symmetric: element (%lld, %lld) is %.17g and (%lld, %lld) is %.17g",
                    (long long)i + 1, (long long)j + 1, csr->rest_value[k], (long long)j + 1,
                    (long long)i + 1, element_at(csr, j, i)));
            n += j <= i;
        }
    KL_TRY(kl_alloc(&column, n, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&value, n, KL_MEM_MATRIX, err));
    n = 0;
    for (int64_t i = 0; i < csr->nrow; i++) {
        for (int64_t k = kl_sp_offset(csr, csr->start, i); k < kl_sp_offset(csr, csr->start, i + 1); k++) {
            const int64_t j = kl_sp_column(csr, csr->rest_column, k);
            if (j > i) continue;
            column[n] = (uint32_t)j;
            value[n++] = csr->rest_value[k];
        }
        off[i + 1] = n;
    }
    KL_TRY(kl_spmat_take_csr(csr->nrow, csr->ncol, 1, &off, &column, &value, out, err));
out:
    kl_free(&off);
    kl_free(&column);
    kl_free(&value);
    return st;
}

/* ---------------------------------------------------------------- sizes and facts */

int64_t kl_spmat_formula_bytes(const kl_spmat *m)
{
    const int64_t entry = (int64_t)sizeof(double) + m->index_bytes, word = m->offset_bytes;
    switch (m->format) {
    case KL_SP_CSR: return m->nnz * entry + (m->nrow + 1) * word;
    case KL_SP_ELL: return m->nrow * m->longest * entry;
    case KL_SP_ELLR: return m->nrow * m->longest * entry + m->nrow * 4;
    case KL_SP_HYBRID: return m->nrow * (4 + 2 * word) + m->nrow * m->width * entry + m->nrest * entry;
    default: break;
    }
    int64_t bytes = (m->nslice + 1) * word + (m->sigma > 1 ? m->nrow * 4 : 0) +
                    (m->format == KL_SP_SELLR ? m->nrow * 4 : 0);
    for (int64_t s = 0; s < m->nslice; s++)
        bytes += (kl_sp_offset(m, m->slice_off, s + 1) - kl_sp_offset(m, m->slice_off, s)) * entry;
    return bytes;
}

int64_t kl_spmat_measured_bytes(const kl_spmat *m)
{
    return kl_mem_block_bytes(m->value) + kl_mem_block_bytes(m->column) + kl_mem_block_bytes(m->slice_off) +
           kl_mem_block_bytes(m->length) + kl_mem_block_bytes(m->order) + kl_mem_block_bytes(m->rest_value) +
           kl_mem_block_bytes(m->rest_column) + kl_mem_block_bytes(m->start) + kl_mem_block_bytes(m->end);
}

int64_t kl_spmat_row(const kl_spmat *m, int64_t i, int64_t *column, double *value)
{
    int64_t n = 0, first = 0, step = 1, width = m->width;
    if (m->format == KL_SP_HYBRID) first = i * m->width;
    if (m->format == KL_SP_ELL || m->format == KL_SP_ELLR) {
        first = i;
        step = m->nrow;
    }
    if (m->format == KL_SP_SELL || m->format == KL_SP_SELLR) {
        int64_t k = i;
        if (m->order != NULL)
            for (k = i / m->sigma * m->sigma; m->order[k] != (uint32_t)i;) k++;
        const int64_t slice = k / m->height;
        first = kl_sp_offset(m, m->slice_off, slice);
        width = (kl_sp_offset(m, m->slice_off, slice + 1) - first) / m->height;
        first += k % m->height;
        step = m->height;
    }
    if (m->length != NULL && m->length[i] < width) width = m->length[i];
    for (int64_t k = 0; k < width; k++) {
        const int64_t c = kl_sp_column(m, m->column, first + k * step);
        /* padding, or a zero that need not be known */
        if (m->length == NULL && m->value[first + k * step] == 0.0) continue;
        column[n] = c;
        value[n++] = m->value[first + k * step];
    }
    if (m->start == NULL) return n;
    const int64_t to = m->format == KL_SP_CSR ? kl_sp_offset(m, m->start, i + 1) : kl_sp_offset(m, m->end, i);
    for (int64_t k = kl_sp_offset(m, m->start, i); k < to; k++) {
        column[n] = kl_sp_column(m, m->rest_column, k);
        value[n++] = m->rest_value[k];
    }
    return n;
}

void kl_spmat_look(const kl_spmat *csr, int64_t boundary, kl_spmat_facts *facts)
{
    *facts = (kl_spmat_facts){.nnz = csr->nnz, .longest = csr->longest, .longest_row = csr->longest_row};
    facts->boundary = boundary > 0 ? boundary : choose_boundary(csr);
    double places = 0;
    for (int64_t i = 0; i < csr->nrow; i++) {
        const int64_t from = kl_sp_offset(csr, csr->start, i), n = row_length(csr, i),
                      left = n < facts->boundary ? n : facts->boundary;
        facts->nnz_reference += left;
        facts->nnz_expansion += n - left;
        facts->rows_reference += left > 0;
        facts->rows_expansion += n > left;
        if (left > 0) places += (double)kl_sp_column(csr, csr->rest_column, from + left - 1) + 1.0;
    }
    const double all = (double)csr->nrow * (double)csr->ncol;
    facts->sparsity = all > 0 ? 1.0 - (double)csr->nnz / all : 0.0;
    facts->sparsity_reference = places > 0 ? 1.0 - (double)facts->nnz_reference / places : 0.0;
    facts->sparsity_expansion = all > places ? 1.0 - (double)facts->nnz_expansion / (all - places) : 0.0;
}
