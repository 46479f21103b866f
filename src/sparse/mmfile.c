/* Reads and writes Matrix Market files.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sparse/mmfile.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/infile.h"
#include "base/mem.h"
#include "base/atomicfile.h"

enum { MAX_LINE = 1024 };

typedef struct element {
    uint32_t row, column;
    double value;
} element;

typedef struct reader {
    FILE *from;
    const char *name;
    int64_t line;
    char text[MAX_LINE];
    int pattern, symmetric;
    int64_t nrow, ncol, announced, n, room;
    element *list;
} reader;

#define REFUSE(r, ...)                                                                           \
    do {                                                                                         \
        char text_[400];                                                                         \
        snprintf(text_, sizeof(text_), __VA_ARGS__);                                             \
        st = kl_fail(err, KL_EINPUT, "%.300s:%lld: %s", (r)->name, (long long)(r)->line, text_); \
        goto out;                                                                                \
    } while (0)

/* 1: a line is in r->text, without its end; 0: the file has ended; -1: too long. */
static int next_line(reader *r)
{
    if (fgets(r->text, sizeof(r->text), r->from) == NULL) return 0;
    r->line++;
    size_t n = strlen(r->text);
    if (n == sizeof(r->text) - 1 && r->text[n - 1] != '\n') return -1;
    while (n > 0 && isspace((unsigned char)r->text[n - 1])) r->text[--n] = '\0';
    return 1;
}

/* At most `most` words of the line, cut where they end; returns how many there are. */
static int split(char *line, int most, char **word)
{
    int n = 0;
    for (char *p = line;;) {
        while (isspace((unsigned char)*p)) p++;
        if (*p == '\0') return n;
        if (n < most) word[n] = p;
        n++;
        while (*p != '\0' && !isspace((unsigned char)*p)) p++;
        if (*p != '\0') *p++ = '\0';
    }
}

static void lower(char *s)
{
    for (; *s != '\0'; s++) *s = (char)tolower((unsigned char)*s);
}

static kl_status read_head(reader *r, kl_err *err)
{
    kl_status st = KL_OK;
    char *word[6];
    if (next_line(r) != 1) REFUSE(r, "the line '%%%%MatrixMarket ...' is missing");
    lower(r->text);
    if (split(r->text, 6, word) != 5 || strcmp(word[0], "%%matrixmarket") != 0)
        REFUSE(r,
               "a Matrix Market file begins with '%%%%MatrixMarket matrix coordinate real general' or alike");
    if (strcmp(word[1], "matrix") != 0 || strcmp(word[2], "coordinate") != 0)
        REFUSE(r, "'%.40s %.40s': only 'matrix coordinate' is sparse", word[1], word[2]);
    r->pattern = strcmp(word[3], "pattern") == 0;
    if (!r->pattern && strcmp(word[3], "real") != 0 && strcmp(word[3], "integer") != 0)
        REFUSE(r, "field '%.40s'; allowed: real integer pattern", word[3]);
    r->symmetric = strcmp(word[4], "symmetric") == 0;
    if (!r->symmetric && strcmp(word[4], "general") != 0)
        REFUSE(r, "symmetry '%.40s'; allowed: general symmetric", word[4]);
    int got;
    do got = next_line(r);
    while (got == 1 && (r->text[0] == '%' || r->text[0] == '\0'));
    if (got != 1) REFUSE(r, "the line of sizes is missing");
    if (split(r->text, 4, word) != 3 || !kl_parse_int(word[0], &r->nrow) ||
        !kl_parse_int(word[1], &r->ncol) || !kl_parse_int(word[2], &r->announced))
        REFUSE(r, "the line of sizes is not 'rows columns non-zeros'");
    if (r->nrow < 0 || r->ncol < 0 || r->nrow > INT32_MAX || r->ncol > INT32_MAX)
        REFUSE(r, "%lld rows and %lld columns; 0 to 2^31 - 1 are supported", (long long)r->nrow,
               (long long)r->ncol);
    if (r->announced < 0 || (double)r->announced > (double)r->nrow * (double)r->ncol)
        REFUSE(r, "%lld non-zeros in a matrix of %lld x %lld", (long long)r->announced, (long long)r->nrow,
               (long long)r->ncol);
    if (r->symmetric && r->nrow != r->ncol)
        REFUSE(r, "a symmetric matrix of %lld rows and %lld columns", (long long)r->nrow, (long long)r->ncol);
out:
    return st;
}

static kl_status read_elements(reader *r, kl_err *err)
{
    kl_status st = KL_OK;
    char *word[4];
    int got;
    const int wanted = r->pattern ? 2 : 3;
    while ((got = next_line(r)) == 1) {
        if (r->text[0] == '\0' || r->text[0] == '%') continue;
        int64_t i = 0, j = 0;
        double value = 1.0;
        const int n = split(r->text, 4, word);
        if (n != wanted) REFUSE(r, "%d words; an element is 'row column%s'", n, r->pattern ? "" : " value");
        if (!kl_parse_int(word[0], &i) || i < 1 || i > r->nrow)
            REFUSE(r, "row '%.40s'; allowed: 1 to %lld", word[0], (long long)r->nrow);
        if (!kl_parse_int(word[1], &j) || j < 1 || j > r->ncol)
            REFUSE(r, "column '%.40s'; allowed: 1 to %lld", word[1], (long long)r->ncol);
        if (!r->pattern && (!kl_parse_double(word[2], &value) || !isfinite(value)))
            REFUSE(r, "value '%.40s' is not a finite number", word[2]);
        if (r->n == r->announced) REFUSE(r, "more than the %lld elements announced", (long long)r->announced);
        if (r->n == r->room) {
            r->room = r->room > 0 ? 2 * r->room : 4096;
            KL_TRY(kl_realloc(&r->list, r->room, KL_MEM_MATRIX, err));
        }
        const int swap = r->symmetric && j > i;
        r->list[r->n++] = (element){(uint32_t)((swap ? j : i) - 1), (uint32_t)((swap ? i : j) - 1), value};
    }
    if (got < 0) REFUSE(r, "the line is longer than %d characters", MAX_LINE - 2);
    if (ferror(r->from)) KL_TRY(kl_fail(err, KL_EIO, "%.300s cannot be read: %s", r->name, strerror(errno)));
    if (r->n < r->announced)
        REFUSE(r, "the file ends after %lld of %lld elements", (long long)r->n, (long long)r->announced);
out:
    return st;
}

/* Two passes of counting, by column, then by row, leave columns in order within rows. */
static kl_status make_csr(reader *r, kl_spmat **out, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t *off = NULL, *place = NULL, kept = 0;
    element *sorted = NULL;
    uint32_t *column = NULL;
    double *value = NULL;
    const int64_t most = r->nrow > r->ncol ? r->nrow : r->ncol;
    KL_TRY(kl_alloc(&place, most + 1, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&sorted, r->n, KL_MEM_WORK, err));
    for (int by_row = 0; by_row < 2; by_row++) {
        memset(place, 0, (size_t)(most + 1) * sizeof(*place));
        for (int64_t k = 0; k < r->n; k++)
            place[(by_row ? r->list[k].row : r->list[k].column) + (int64_t)1]++;
        for (int64_t k = 0; k < most; k++) place[k + 1] += place[k];
        for (int64_t k = 0; k < r->n; k++)
            sorted[place[by_row ? r->list[k].row : r->list[k].column]++] = r->list[k];
        element *const swap = r->list;
        r->list = sorted;
        sorted = swap;
    }
    KL_TRY(kl_alloc(&off, r->nrow + 1, KL_MEM_MATRIX, err));
    for (int64_t k = 0; k < r->n; k++) {
        element *const e = &r->list[k];
        if (kept > 0 && r->list[kept - 1].row == e->row && r->list[kept - 1].column == e->column) {
            r->list[kept - 1].value += e->value;
            continue;
        }
        off[e->row + (int64_t)1]++;
        r->list[kept++] = *e;
    }
    for (int64_t i = 0; i < r->nrow; i++) off[i + 1] += off[i];
    KL_TRY(kl_alloc(&column, kept, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&value, kept, KL_MEM_MATRIX, err));
    for (int64_t k = 0; k < kept; k++) {
        column[k] = r->list[k].column;
        value[k] = r->list[k].value;
    }
    KL_TRY(kl_spmat_take_csr(r->nrow, r->ncol, r->symmetric, &off, &column, &value, out, err));
out:
    kl_free(&off);
    kl_free(&place);
    kl_free(&sorted);
    kl_free(&column);
    kl_free(&value);
    return st;
}

kl_status kl_mmfile_read_stream(FILE *from, const char *name, kl_spmat **out, kl_err *err)
{
    kl_status st = KL_OK;
    reader r = {.from = from, .name = name};
    *out = NULL;
    KL_TRY(read_head(&r, err));
    KL_TRY(read_elements(&r, err));
    KL_TRY(make_csr(&r, out, err));
out:
    kl_free(&r.list);
    return st;
}

kl_status kl_mmfile_read(const char *path, kl_spmat **out, kl_err *err)
{
    *out = NULL;
    FILE *from;
    kl_status st = kl_infile_open(path, &from, err);
    if (st != KL_OK) return st;
    st = kl_mmfile_read_stream(from, path, out, err);
    fclose(from);
    return st;
}

kl_status kl_mmfile_write(const char *path, const kl_spmat *m, const char *comment, kl_err *err)
{
    kl_status st = KL_OK;
    FILE *to = NULL;
    kl_atomic_file atomic = {.fd = -1};
    kl_err why;
    int64_t *column = NULL;
    double *value = NULL;
    KL_TRY(kl_alloc(&column, m->longest, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&value, m->longest, KL_MEM_WORK, err));
    st = kl_atomic_open(path, &atomic, &why);
    if (st == KL_EIO) KL_TRY(kl_fail(err, st, "%.300s cannot be written: %s", path, why.text));
    if (st != KL_OK) KL_TRY(kl_fail(err, st, "%s", why.text));
    to = kl_atomic_stream(&atomic);
    if (to == NULL) KL_TRY(kl_fail(err, KL_EIO, "%.300s cannot be written: %s", path, strerror(errno)));
    int64_t n = 0; /* ELL without lengths gives no zeros back */
    for (int64_t i = 0; i < m->nrow; i++) n += kl_spmat_row(m, i, column, value);
    fprintf(to, "%%%%MatrixMarket matrix coordinate real %s\n", m->symmetric ? "symmetric" : "general");
    if (comment != NULL) fprintf(to, "%% %s\n", comment);
    fprintf(to, "%lld %lld %lld\n", (long long)m->nrow, (long long)m->ncol, (long long)n);
    for (int64_t i = 0; i < m->nrow && !ferror(to); i++) {
        const int64_t have = kl_spmat_row(m, i, column, value);
        for (int64_t k = 0; k < have; k++)
            fprintf(to, "%lld %lld %.17g\n", (long long)i + 1, (long long)column[k] + 1, value[k]);
    }
    if (fflush(to) != 0 || ferror(to) || fsync(fileno(to)) != 0)
        st = kl_fail(err, KL_EIO, "%.300s cannot be written: %s", path, strerror(errno));
    if (fclose(to) != 0 && st == KL_OK)
        st = kl_fail(err, KL_EIO, "%.300s cannot be written: %s", path, strerror(errno));
    to = NULL;
    if (st == KL_OK && kl_atomic_publish(&atomic, &why) != KL_OK)
        st = kl_fail(err, KL_EIO, "%.300s cannot be written: %s", path, why.text);
out:
    kl_atomic_drop(&atomic);
    kl_free(&column);
    kl_free(&value);
    return st;
}
