/* See tune.h. A text file: a line for the program's version, one for each device, then one a measurement.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "run/tune.h"
#include "config.h"
#include "base/mem.h"
#include "base/folder.h"
#include "base/infile.h"
#include "base/atomicfile.h"
#include "record/record.h"
#include "sparse/spmat.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const kl_tune_exec[KL_TUNE_NEXEC] = {"host", "offload", "cuda"};

/* One word an operation. ORDER KL_TIMED */
static const char *const word[KL_NTIMED] = {"copy",  "axpy",  "dots", "combine", "fuse", "spmv", "list",
                                            "eigen", "sweep", "kron", "sigma",   "rows", "bring"};

/* The operation that is timed; KL_NOP: none alone. ORDER KL_TIMED */
static const kl_op timed_op[KL_NTIMED] = {KL_OP_COPY,  KL_OP_AXPBY, KL_OP_DOTS, KL_OP_COMBINE, KL_OP_FUSE,
                                          KL_OP_SPMV,  KL_OP_BATCH, KL_NOP,     KL_NOP,        KL_OP_KRON,
                                          KL_OP_SIGMA, KL_NOP,      KL_NOP};

/* Matrices whose layout was measured. */
static const char *const between[2] = {"hosts", "devices"}; /* as a line of ranks has them */
static const char *const row_length[2] = {"short-rows", "long-rows"};

#define TABLE "tune-table"
#define MOST_SIZE (INT64_C(1) << 50) /* of an operation; eight times as much is still a number */

/* The table's own name and its folder, opened; `make`: it and those above it are made. */
static kl_status own_path(char *path, size_t size, int make, int *folder, kl_err *err)
{
    const char *const named = getenv("KRONLAT_CACHE"), *const xdg = getenv("XDG_CACHE_HOME"),
                      *const home = getenv("HOME");
    const int n = named && *named      ? snprintf(path, size, "%s", named)
                  : xdg && *xdg == '/' ? snprintf(path, size, "%s/kronlat", xdg)
                  : home && *home      ? snprintf(path, size, "%s/.cache/kronlat", home)
                                       : -1;
    if (n < 0)
        return kl_fail(
            err, KL_EABSENT,
            "there is no folder for the tune table: none of KRONLAT_CACHE, XDG_CACHE_HOME and HOME is set");
    if ((size_t)n + 32 >= size)
        return kl_fail(err, KL_EINPUT, "the path of the tune table, %.200s..., is too long", path);
    const kl_status st = kl_folder_open_own(path, make, folder, err);
    snprintf(path + n, size - (size_t)n, "/" TABLE);
    return st;
}

/* Opens a temporary file for the table's own name, t->path. */
static kl_status open_partial(kl_tune *t, const char *path, kl_atomic_file *partial, kl_err *err)
{
    kl_status st = KL_OK;
    int folder = -1;
    kl_err why;
    if (path && snprintf(t->path, sizeof t->path, "%s", path) >= (int)sizeof t->path)
        KL_TRY(kl_fail(err, KL_EINPUT, "--output: the name is too long"));
    if (path && !path[0]) KL_TRY(kl_fail(err, KL_EINPUT, "--output: the name is empty"));
    if (!path) KL_TRY(own_path(t->path, sizeof t->path, 1, &folder, err));
    const kl_status opened =
        path ? kl_atomic_open(t->path, partial, &why) : kl_atomic_open_at(folder, TABLE, partial, &why);
    if (opened == KL_EIO)
        KL_TRY(kl_fail(err, KL_EIO, "the tune table %.300s cannot be written: %s", t->path, why.text));
    if (opened != KL_OK) KL_TRY(kl_fail(err, opened, "%s", why.text));
out:
    if (folder >= 0) close(folder);
    return st;
}

/* EABSENT, with the reason, where there is none to be read. */
static kl_status open_table(kl_tune *t, const char *path, FILE **f, kl_err *err)
{
    kl_err why = {{0}};
    int folder = -1;
    *f = NULL;
    if (path) snprintf(t->path, sizeof t->path, "%s", path);
    const kl_status st = path ? KL_OK : own_path(t->path, sizeof t->path, 0, &folder, &why);
    if (st != KL_OK && st != KL_EABSENT) return kl_fail(err, KL_EABSENT, "%s", why.text);
    if (path && kl_infile_open(path, f, NULL) != KL_OK) *f = NULL;
    const int fd = folder >= 0 ? openat(folder, TABLE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd >= 0) *f = fdopen(fd, "r");
    if (fd >= 0 && !*f) close(fd);
    if (folder >= 0) close(folder);
    return *f ? KL_OK : kl_fail(err, KL_EABSENT, "no tune table (%.300s): kronlat tune makes it", t->path);
}

kl_status kl_tune_probe(kl_tune *t, const char *path, kl_err *err)
{
    kl_atomic_file partial;
    const kl_status st = open_partial(t, path, &partial, err);
    if (st == KL_OK) kl_atomic_drop(&partial);
    return st;
}

kl_status kl_tune_write(kl_tune *t, const char *path, kl_err *err)
{
    kl_status st = KL_OK;
    kl_atomic_file partial = {.fd = -1};
    kl_err why;
    KL_TRY(open_partial(t, path, &partial, err));
    FILE *const f = kl_atomic_stream(&partial);
    if (!f)
        KL_TRY(kl_fail(err, KL_EIO, "the tune table %.300s cannot be written: %s", t->path, strerror(errno)));
    fprintf(f, "kronlat %s threads %d\n", KL_VERSION, t->nthread);
    for (int e = 1; e < KL_TUNE_NEXEC; e++)
        fprintf(f, "%s %s\n", kl_tune_exec[e], t->where[e][0] ? t->where[e] : "-");
    for (int i = 0; i < t->n; i++) {
        fprintf(f, "%s %lld", word[t->row[i].what], (long long)t->row[i].size);
        for (int e = 0; e < KL_TUNE_NEXEC; e++) fprintf(f, " %.6g", t->row[i].seconds[e]);
        fprintf(f, "\n");
    }
    for (int i = 0; i < t->nlist; i++)
        fprintf(f, "projection %s %lld %.6g\n", kl_projection_name[t->list[i].way],
                (long long)t->list[i].size, t->list[i].seconds);
    for (int e = 0; e < KL_TUNE_NEXEC; e++)
        if (t->opening[e] > 0) fprintf(f, "opening %s %.6g\n", kl_tune_exec[e], t->opening[e]);
    for (int i = 0; i < t->nlayout; i++)
        fprintf(f, "layout %s %s %.6g %.6g\n", kl_tune_exec[t->layout[i].exec],
                row_length[t->layout[i].longer], t->layout[i].cost.lay_out, t->layout[i].cost.gain);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < t->nrate[k]; i++)
            fprintf(f, "ranks %s %d %d %.6g %.6g\n", between[k], t->rate[k][i].ranks, t->rate[k][i].hosts,
                    t->rate[k][i].rate, t->rate[k][i].latency);
    const int bad = ferror(f), closed = fclose(f);
    if (bad || closed != 0)
        KL_TRY(kl_fail(err, KL_EIO, "the tune table %.300s cannot be written: %s", t->path, strerror(errno)));
    if (kl_atomic_publish(&partial, &why) != KL_OK)
        KL_TRY(kl_fail(err, KL_EIO, "the tune table %.300s cannot be written: %s", t->path, why.text));
out:
    kl_atomic_drop(&partial);
    return st;
}

static kl_status refuse_line(const kl_tune *t, const char *line, int number, const char *wanted, kl_err *err)
{
    return kl_fail(err, KL_EABSENT, "%.300s:%d: '%.60s' is no %s: kronlat tune makes the table anew", t->path,
                   number, line, wanted);
}

static int exec_named(const char *name)
{
    int e = 0;
    while (e < KL_TUNE_NEXEC && strcmp(kl_tune_exec[e], name) != 0) e++;
    return e;
}

static kl_status read_projection(kl_tune *t, const char *line, int number, kl_err *err)
{
    char what[16];
    long long size;
    kl_tune_list l = {.way = KL_PROJECTION_GROUPED};
    if (t->nlist == KL_TUNE_MOST || sscanf(line, "projection %15s %lld %lf", what, &size, &l.seconds) != 3)
        return refuse_line(t, line, number, "measurement", err);
    while (l.way < KL_NPROJECTION && strcmp(kl_projection_name[l.way], what) != 0) l.way++;
    if (l.way == KL_NPROJECTION || size < 1 || size > MOST_SIZE || !(l.seconds > 0))
        return refuse_line(t, line, number, "projection with a size", err);
    l.size = size;
    t->list[t->nlist++] = l;
    return KL_OK;
}

static kl_status read_opening(kl_tune *t, const char *line, int number, kl_err *err)
{
    char name[16];
    double seconds;
    if (sscanf(line, "opening %15s %lf", name, &seconds) != 2 || exec_named(name) == KL_TUNE_NEXEC ||
        !(seconds > 0 && isfinite(seconds)))
        return refuse_line(t, line, number, "executor with a time", err);
    t->opening[exec_named(name)] = seconds;
    return KL_OK;
}

static kl_status read_layout(kl_tune *t, const char *line, int number, kl_err *err)
{
    char name[16], length[16];
    kl_tune_layout l = {0};
    if (t->nlayout == 2 * KL_TUNE_NEXEC ||
        sscanf(line, "layout %15s %15s %lf %lf", name, length, &l.cost.lay_out, &l.cost.gain) != 4)
        return refuse_line(t, line, number, "measurement", err);
    l.exec = exec_named(name);
    l.longer = strcmp(length, row_length[1]) == 0;
    if (l.exec == KL_TUNE_NEXEC || strcmp(length, row_length[l.longer]) != 0 ||
        !(l.cost.lay_out > 0 && isfinite(l.cost.lay_out) && isfinite(l.cost.gain)))
        return refuse_line(t, line, number, "layout with its times", err);
    t->layout[t->nlayout++] = l;
    return KL_OK;
}

static kl_status read_rate(kl_tune *t, const char *line, int number, kl_err *err)
{
    char name[16];
    kl_rankrate r = {0};
    if (sscanf(line, "ranks %15s %d %d %lf %lf", name, &r.ranks, &r.hosts, &r.rate, &r.latency) != 5)
        return refuse_line(t, line, number, "measurement", err);
    const int devices = strcmp(name, between[1]) == 0;
    if (strcmp(name, between[devices]) != 0 || r.ranks < 2 || r.hosts < 1 || r.hosts > r.ranks ||
        !(r.rate > 0 && isfinite(r.rate) && r.latency > 0 && isfinite(r.latency)))
        return refuse_line(t, line, number, "rate between ranks", err);
    kl_tune_keep_rate(t, devices, &r);
    return KL_OK;
}

/* A measurement, behind the lines of version and devices. */
static kl_status read_line(kl_tune *t, const char *line, int number, kl_err *err)
{
    char what[16];
    long long size;
    int k = 0;
    kl_tune_row r = {.line = number};
    if (strncmp(line, "projection ", 11) == 0) return read_projection(t, line, number, err);
    if (strncmp(line, "opening ", 8) == 0) return read_opening(t, line, number, err);
    if (strncmp(line, "layout ", 7) == 0) return read_layout(t, line, number, err);
    if (strncmp(line, "ranks ", 6) == 0) return read_rate(t, line, number, err);
    if (t->n == KL_TUNE_MOST ||
        sscanf(line, "%15s %lld %lf %lf %lf", what, &size, &r.seconds[0], &r.seconds[1], &r.seconds[2]) != 5)
        return refuse_line(t, line, number, "measurement", err);
    while (k < KL_NTIMED && strcmp(word[k], what) != 0) k++;
    int bad = k == KL_NTIMED || size < 1 || size > MOST_SIZE; /* 0 seconds: not measured there */
    for (int e = 0; e < KL_TUNE_NEXEC; e++) bad |= !(r.seconds[e] >= 0 && isfinite(r.seconds[e]));
    if (bad) return refuse_line(t, line, number, "operation with a size and times", err);
    r.what = (kl_timed)k, r.size = size;
    t->row[t->n++] = r;
    return KL_OK;
}

kl_status kl_tune_read(const char *path, kl_tune *t, kl_err *err)
{
    kl_status st = KL_OK;
    FILE *f = NULL;
    char line[512], version[64];
    *t = (kl_tune){.n = 0};
    KL_TRY(open_table(t, path, &f, err));
    for (int number = 1; fgets(line, sizeof line, f); number++) {
        line[strcspn(line, "\n")] = '\0';
        if (number == 1) {
            if (sscanf(line, "kronlat %63s threads %d", version, &t->nthread) != 2 || t->nthread < 1 ||
                strcmp(version, KL_VERSION) != 0)
                KL_TRY(kl_fail(err, KL_EABSENT,
                               "the tune table %.300s is damaged or belongs to another version of the "
                               "program: kronlat tune makes it anew",
                               t->path));
            continue;
        }
        if (number <= KL_TUNE_NEXEC) {
            const char *const name = kl_tune_exec[number - 1];
            const size_t length = strlen(name);
            if (strncmp(line, name, length) != 0 || line[length] != ' ')
                KL_TRY(kl_fail(err, KL_EABSENT, "%.300s:%d: '%.40s'; wanted is a line of %s", t->path, number,
                               line, name));
            if (strcmp(line + length + 1, "-") != 0)
                snprintf(t->where[number - 1], sizeof t->where[0], "%.159s", line + length + 1);
            continue;
        }
        KL_TRY(read_line(t, line, number, err));
    }
    if (t->nthread < 1)
        KL_TRY(
            kl_fail(err, KL_EABSENT, "the tune table %.300s is empty: kronlat tune makes it anew", t->path));
out:
    if (f) fclose(f);
    return st;
}

void kl_tune_keep_rate(kl_tune *t, int devices, const kl_rankrate *rate)
{
    kl_rankrate *const all = t->rate[devices];
    int n = 0;
    for (int i = 0; i < t->nrate[devices]; i++)
        if (all[i].ranks != rate->ranks || all[i].hosts != rate->hosts) all[n++] = all[i];
    if (n == KL_TUNE_NRATE) memmove(all, all + 1, (size_t)--n * sizeof *all);
    all[n++] = *rate;
    t->nrate[devices] = n;
}

void kl_tune_keep_rates(kl_tune *t, const char *path)
{
    kl_tune *old = NULL;
    kl_err none;
    if (kl_alloc(&old, 1, KL_MEM_MISC, &none) != KL_OK) return;
    if (kl_tune_read(path, old, &none) == KL_OK) {
        memcpy(t->nrate, old->nrate, sizeof t->nrate);
        memcpy(t->rate, old->rate, sizeof t->rate);
    }
    kl_free(&old);
}

int kl_tune_rate(int devices, kl_rankrate *out)
{
    kl_tune *t = NULL;
    kl_err none;
    int n = 0;
    if (kl_alloc(&t, 1, KL_MEM_MISC, &none) != KL_OK) return 0;
    if (kl_tune_read(NULL, t, &none) == KL_OK) n = t->nrate[devices];
    if (n > 0) *out = t->rate[devices][n - 1];
    kl_free(&t);
    return n > 0;
}

kl_projection kl_tune_way(const kl_tune *t, double size)
{
    const kl_tune_list *best = NULL;
    double nearest = log(4.0) + 1e-9;
    for (int i = 0; i < t->nlist; i++) {
        const double far = fabs(log((double)t->list[i].size / size));
        if (far < nearest - 1e-9 || (best && fabs(far - nearest) < 1e-9 && t->list[i].size == best->size &&
                                     t->list[i].seconds < best->seconds))
            best = &t->list[i], nearest = far;
    }
    return best ? best->way : KL_PROJECTION_AUTO;
}

void kl_tune_ways(const kl_tune *t, kl_exec *device)
{
    const int e = exec_named(device->name), cuda = KL_TUNE_NEXEC - 1;
    if (e == KL_TUNE_NEXEC || strcmp(device->where, t->where[e]) != 0) return;
    for (int k = 0; k < KL_NSIZE && e == cuda; k++) device->fastest[k] = kl_tune_way(t, ldexp(1.0, k));
    for (int i = 0; i < t->nlayout; i++)
        if (t->layout[i].exec == e) device->layout[t->layout[i].longer] = t->layout[i].cost;
}

double kl_tune_seconds(const kl_tune *t, kl_timed what, double size, int exec)
{
    const kl_tune_row *below = NULL, *above = NULL;
    for (int i = 0; i < t->n; i++) {
        const kl_tune_row *const r = &t->row[i];
        if (r->what != what || !(r->seconds[exec] > 0)) continue;
        if ((double)r->size <= size && (!below || r->size > below->size)) below = r;
        if ((double)r->size >= size && (!above || r->size < above->size)) above = r;
    }
    if (!below && !above) return NAN;
    if (!below) return above->seconds[exec];
    if (!above) return below->seconds[exec] * size / (double)below->size;
    if (above->size == below->size) return below->seconds[exec];
    const double part = log(size / (double)below->size) / log((double)above->size / (double)below->size);
    return below->seconds[exec] * pow(above->seconds[exec] / below->seconds[exec], part);
}

int kl_tune_of(const kl_call *call, kl_timed *what, int64_t *size)
{
    const kl_op op = call->op == KL_OP_PRECONDITION ? KL_OP_AXPBY : call->op;
    int k = 0;
    while (k < KL_NTIMED && timed_op[k] != op) k++;
    *what = (kl_timed)k;
    *size = call->op == KL_OP_BATCH  ? (int64_t)(kl_batch_mean_size(call->batch) + 0.5)
            : call->op == KL_OP_SPMV ? call->matrix->nnz / KL_OPTIME_ROW
                                     : call->n;
    if (*size < 1) *size = 1;
    return k < KL_NTIMED;
}

int kl_tune_times(const kl_tune *t, int a, int b, kl_mixed_time out[KL_TUNE_MOST])
{
    int n = 0;
    for (int i = 0; i < t->n; i++) {
        const kl_tune_row *const r = &t->row[i];
        if (timed_op[r->what] != KL_NOP && r->seconds[a] > 0 && r->seconds[b] > 0)
            out[n++] = (kl_mixed_time){timed_op[r->what], r->size, {r->seconds[a], r->seconds[b]}};
    }
    return n;
}

int kl_tune_choose(const kl_tune *t, kl_timed what, int64_t size, char *why, size_t size_why)
{
    const kl_tune_row *r = NULL;
    for (int i = 0; i < t->n; i++)
        if (t->row[i].what == what && (!r || fabs(log((double)t->row[i].size / (double)size)) <
                                                 fabs(log((double)r->size / (double)size))))
            r = &t->row[i];
    int best = -1;
    for (int e = 0; r && e < KL_TUNE_NEXEC; e++)
        if (r->seconds[e] > 0 && (best < 0 || r->seconds[e] < r->seconds[best])) best = e;
    if (best < 0) {
        snprintf(why, size_why, "the tune table knows nothing of \"%s\"", word[what]);
        return -1;
    }
    int used = snprintf(why, size_why, "%s %lld:", word[what], (long long)r->size);
    for (int e = 0; e < KL_TUNE_NEXEC; e++)
        if (r->seconds[e] > 0 && used > 0 && (size_t)used < size_why)
            used += snprintf(why + used, size_why - (size_t)used, " %s %.3g us", kl_tune_exec[e],
                             r->seconds[e] * 1e6);
    if (used > 0 && (size_t)used < size_why)
        snprintf(why + used, size_why - (size_t)used, " (line %d)", r->line);
    return best;
}

#define FAR 8.0 /* times the largest size: what lies further is no measurement's business */

int kl_tune_from(const kl_tune *t, kl_timed what, int64_t *from, char *why, size_t size_why)
{
    const kl_tune_row *row[KL_TUNE_MOST];
    int n = 0;
    *from = INT64_MAX;
    for (int i = 0; i < t->n; i++) {
        if (t->row[i].what != what || !(t->row[i].seconds[0] > 0)) continue;
        int k = n++;
        for (; k > 0 && row[k - 1]->size > t->row[i].size; k--) row[k] = row[k - 1];
        row[k] = &t->row[i];
    }
    if (kl_tune_choose(t, what, n > 0 ? row[n - 1]->size : 1, why, size_why) < 0 || n == 0) return -1;
    int best = 0; /* of devices */
    for (int e = 1; e < KL_TUNE_NEXEC; e++)
        if (row[n - 1]->seconds[e] > 0 && (best == 0 || row[n - 1]->seconds[e] < row[n - 1]->seconds[best]))
            best = e;
    if (best == 0) return 0;
    int k = n - 1; /* the largest size at which the host is ahead */
    while (k >= 0 && row[k]->seconds[best] > 0 && row[k]->seconds[best] < row[k]->seconds[0]) k--;
    if (k < 0 || !(row[k]->seconds[best] > 0)) {
        *from = row[k + 1]->size;
        return best;
    }
    if (k == n - 1 && (k == 0 || !(row[--k]->seconds[best] > 0))) return 0;
    /* how far ahead the device is */
    const double before = log(row[k]->seconds[0] / row[k]->seconds[best]),
                 after = log(row[k + 1]->seconds[0] / row[k + 1]->seconds[best]);
    const double size = (double)row[k]->size *
                        exp(log((double)row[k + 1]->size / (double)row[k]->size) * before / (before - after));
    if (after <= before || !(size <= FAR * (double)row[n - 1]->size)) return 0;
    *from = (int64_t)ceil(size);
    return best;
}
