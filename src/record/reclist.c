/* See reclist.h. The first line names the format; then, for each list, a line `list TITLE`, a line of sizes,
   and for each group a line of its own and one a record.
   SPDX-License-Identifier: Apache-2.0 */
#include "record/reclist.h"
#include "base/infile.h"
#include "base/mem.h"
#include "base/atomicfile.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FIRST_LINE "kronlat records 1"
static const int64_t MOST = (int64_t)1 << 40; /* of any length or number in a file */

static kl_status cannot(const char *path, const char *why, kl_err *err)
{
    return kl_fail(err, KL_EIO, "records: '%.300s' cannot be written: %s", path, why);
}

static kl_status close_to(const char *path, FILE *f, kl_err *err)
{
    const int bad = ferror(f);
    return fclose(f) != 0 || bad ? cannot(path, strerror(errno), err) : KL_OK;
}

kl_status kl_reclist_create(const char *path, kl_err *err)
{
    kl_atomic_file p;
    kl_err why;
    kl_status st = kl_atomic_open(path, &p, &why);
    if (st == KL_EIO) return cannot(path, why.text, err);
    if (st != KL_OK) return kl_fail(err, st, "records: %s", why.text);
    FILE *const f = kl_atomic_stream(&p);
    if (!f) KL_TRY(cannot(path, strerror(errno), err));
    fprintf(f, FIRST_LINE "\n");
    KL_TRY(close_to(path, f, err));
    if (kl_atomic_publish(&p, &why) != KL_OK) KL_TRY(cannot(path, why.text, err));
out:
    kl_atomic_drop(&p); /* unless it was published */
    return st;
}

kl_status kl_reclist_append(const char *path, const char *title, const kl_batch *b, kl_err *err)
{
    FILE *const f = fopen(path, "a");
    if (!f) return cannot(path, strerror(errno), err);
    const off_t before = fseeko(f, 0, SEEK_END) == 0 ? ftello(f) : -1;
    fprintf(f, "list %s\n", title);
    fprintf(f, "x %lld y %lld zero %d groups %d\n", (long long)b->nx, (long long)b->ny, b->zero, b->ngroup);
    for (int g = 0; g < b->ngroup; g++) {
        const kl_group *const q = &b->group[g];
        fprintf(f, "group %lld %lld work %lld records %lld\n", (long long)q->y, (long long)q->ny,
                (long long)q->nwork, (long long)(q->last - q->first));
        for (int64_t i = q->first; i < q->last; i++) {
            const kl_rec *const r = &b->rec[i];
            fprintf(f, "%d %d %d %d %d %d %d %d %d %d %d %d %d %lld %lld %lld %.17g\n", r->kind, r->ta, r->tb,
                    r->beta, r->at_a, r->at_b, r->at_c, r->m, r->n, r->k, r->lda, r->ldb, r->ldc,
                    (long long)r->a, (long long)r->b, (long long)r->c, r->alpha);
        }
    }
    const kl_status st = close_to(path, f, err);
    /* the lists of before stay, and are whole */
    if (st == KL_OK || (before >= 0 && truncate(path, before) == 0)) return st;
    return kl_fail(err, KL_EIO, "records: '%.300s' ends in the middle of a list and cannot be written: %s",
                   path, strerror(errno));
}

typedef struct reader {
    FILE *f;
    const char *path;
    int64_t line;
    char text[256];
} reader;

/* 0 at the end of the file. */
static int next_line(reader *r)
{
    if (!fgets(r->text, sizeof r->text, r->f)) return 0;
    r->line++;
    r->text[strcspn(r->text, "\n")] = '\0';
    return 1;
}

static kl_status wrong(const reader *r, const char *wanted, kl_err *err)
{
    return kl_fail(err, KL_EINPUT, "%.300s:%lld: '%.60s'; wanted is %s", r->path, (long long)r->line, r->text,
                   wanted);
}

static int within(int64_t x, int64_t least, int64_t most) { return x >= least && x <= most; }

/* 1: rows x cols numbers with this leading dimension lie within `at`; the operators' memory grows as they are
   wanted. */
static int reaches(kl_reclist *l, int64_t nwork, int at, int64_t off, int64_t rows, int64_t cols, int64_t ld,
                   int diagonal)
{
    const kl_batch *const b = &l->list;
    if (rows == 0 || cols == 0) return 1;
    if (!within(off, 0, MOST) || ld < (diagonal || cols == 1 ? 1 : rows) || (cols - 1) > MOST / ld) return 0;
    const int64_t end = off + (cols - 1) * ld + rows;
    if (at == KL_AT_X) return end <= b->nx;
    if (at == KL_AT_Y) return end <= b->ny;
    if (at == KL_AT_WORK) return end <= nwork;
    if (end > MOST) return 0;
    if (end > l->size[at]) l->size[at] = end;
    return 1;
}

static kl_status read_record(reader *in, kl_reclist *l, const kl_group *g, int64_t nwork, kl_err *err)
{
    int small[7], shape[6];
    long long off[3];
    double alpha;
    if (!next_line(in) ||
        sscanf(in->text, "%d %d %d %d %d %d %d %d %d %d %d %d %d %lld %lld %lld %lf", &small[0], &small[1],
               &small[2], &small[3], &small[4], &small[5], &small[6], &shape[0], &shape[1], &shape[2],
               &shape[3], &shape[4], &shape[5], &off[0], &off[1], &off[2], &alpha) != 17)
        return wrong(in, "a record of 17 numbers", err);
    int good = within(small[0], KL_REC_GEMM, KL_REC_FILL) &&
               (small[6] == KL_AT_Y || small[6] == KL_AT_WORK) && alpha == alpha;
    for (int i = 1; i < 4; i++) good = good && within(small[i], 0, 1);
    for (int i = 4; i < 6; i++) good = good && within(small[i], 0, KL_AT_RIGHT_PACK) && small[i] != KL_AT_Y;
    for (int i = 0; i < 6; i++) good = good && shape[i] >= 0;
    if (!good) return wrong(in, "a record of known kind and places", err);
    const kl_rec r = {.kind = (uint8_t)small[0],
                      .ta = (uint8_t)small[1],
                      .tb = (uint8_t)small[2],
                      .beta = (uint8_t)small[3],
                      .at_a = (uint8_t)small[4],
                      .at_b = (uint8_t)small[5],
                      .at_c = (uint8_t)small[6],
                      .m = shape[0],
                      .n = shape[1],
                      .k = shape[2],
                      .lda = shape[3],
                      .ldb = shape[4],
                      .ldc = shape[5],
                      .a = off[0],
                      .b = off[1],
                      .c = off[2],
                      .alpha = alpha};
    const int64_t inner = r.kind == KL_REC_GEMM ? r.k : r.n;
    good = reaches(l, nwork, r.at_c, r.c, r.m, r.n, r.ldc, r.m == 1) &&
           (r.at_c != KL_AT_Y || r.m == 0 || r.n == 0 ||
            (r.c >= g->y && r.c + (int64_t)(r.n - 1) * r.ldc + r.m <= g->y + g->ny));
    if (r.kind != KL_REC_FILL)
        good =
            good && reaches(l, nwork, r.at_a, r.a, r.ta ? inner : r.m, r.ta ? r.m : inner, r.lda, r.m == 1);
    if (r.kind == KL_REC_GEMM)
        good = good && reaches(l, nwork, r.at_b, r.b, r.tb ? r.n : r.k, r.tb ? r.k : r.n, r.ldb, 0);
    if (!good) return wrong(in, "a record within x, its group's segment and its work", err);
    const kl_status st = kl_batch_reserve(&l->list, 1, err);
    if (st == KL_OK) *kl_batch_push(&l->list) = r;
    return st;
}

static kl_status read_list(reader *in, kl_reclist *l, kl_err *err)
{
    kl_status st = KL_OK;
    long long nx, ny, y, n, nwork, nrec;
    int64_t end = 0;
    int zero, ngroup;
    snprintf(l->title, sizeof l->title, "%.79s", in->text + 5);
    if (!next_line(in) ||
        sscanf(in->text, "x %lld y %lld zero %d groups %d", &nx, &ny, &zero, &ngroup) != 4 ||
        !within(nx, 0, MOST) || !within(ny, 0, MOST) || !within(zero, 0, 1) || ngroup < 0)
        KL_TRY(wrong(in, "'x N y N zero 0|1 groups N'", err));
    l->list.nx = nx, l->list.ny = ny, l->list.zero = zero;
    for (int g = 0; g < ngroup; g++) {
        if (!next_line(in) ||
            sscanf(in->text, "group %lld %lld work %lld records %lld", &y, &n, &nwork, &nrec) != 4 ||
            !within(y, end, ny) || !within(n, 0, ny - y) || !within(nwork, 0, MOST) || !within(nrec, 0, MOST))
            KL_TRY(wrong(in, "'group Y N work N records N', behind the group before", err));
        end = y + n;
        KL_TRY(kl_batch_open_group(&l->list, y, n, err));
        const kl_group own = l->list.group[l->list.ngroup - 1];
        for (int64_t i = 0; i < nrec; i++) KL_TRY(read_record(in, l, &own, nwork, err));
        kl_batch_close_group(&l->list, nwork);
    }
    KL_TRY(kl_batch_close(&l->list, err));
out:
    return st;
}

kl_status kl_reclist_read(const char *path, int *n, kl_reclist **out, kl_err *err)
{
    kl_status st = KL_OK;
    reader in = {.path = path};
    kl_err why;
    *n = 0;
    *out = NULL;
    st = kl_infile_open(path, &in.f, &why);
    if (st != KL_OK) return kl_fail(err, st, "records: %s", why.text);
    if (!next_line(&in) || strcmp(in.text, FIRST_LINE) != 0)
        KL_TRY(wrong(&in, "a file of records ('" FIRST_LINE "')", err));
    while (next_line(&in)) {
        if (strncmp(in.text, "list ", 5) != 0) KL_TRY(wrong(&in, "'list TITLE'", err));
        KL_TRY(kl_realloc(out, *n + 1, KL_MEM_RECORD, err));
        (*out)[*n] = (kl_reclist){.title = ""};
        kl_reclist *const l = &(*out)[(*n)++];
        kl_batch_init(&l->list);
        KL_TRY(read_list(&in, l, err));
    }
    if (*n == 0) KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: no list of records in it", path));
out:
    fclose(in.f);
    if (st != KL_OK) {
        kl_reclist_destroy(*n, out);
        *n = 0;
    }
    return st;
}

void kl_reclist_destroy(int n, kl_reclist **list)
{
    for (int i = 0; i < n; i++) kl_batch_clear(&(*list)[i].list);
    kl_free(list);
}
