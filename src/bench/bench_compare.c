/* `kronlat bench compare`: each operation at each size on the host, by offload, by CUDA and by NVIDIA's
   libraries, with what the device's memory or one large product allow, measured in the same run. No time
   stands there without a residual against the host's answer. `kronlat tune` takes the same measurements at
   more sizes and writes them down for `--exec auto`.
   SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench_compare.h"
#include "base/infile.h"
#include "exec/baselines.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/prof.h"
#include "run/optime.h"
#include "cli/plot.h"
#include "cli/report.h"
#include "run/tune.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENOUGH 2.0 /* seconds */

enum {
    MOST_ROW = 96,
    NCOLUMN = 4,
    HOST = 0,
    OFFLOAD,
    CUDA,
    LIBRARY,
};
static const char *const column_name[NCOLUMN] = {"host", "offload", "cuda", "library"};

typedef struct row {
    kl_timed what;
    int64_t size;
    double bytes, flop;
    double seconds[NCOLUMN], residual, ceiling; /* 0: not there */
} row;

typedef struct bench {
    kl_exec *ex[3];
    char absent[3][200];
    const char *csv, *json, *plot, *only, *output, *from;
    double opening[3]; /* seconds */
    double spent[KL_NTIMED]; /* seconds on each operation, its operands included */
    int quick, nthread, nrow;
    row row[MOST_ROW];
    double read, copy, product; /* ceilings: bytes and flop a second; 0: no device */
} bench;

static const int64_t compare_sizes[KL_NTIMED][4] = {{100000, 10000000, 100000000},
                                                    {100000, 10000000, 100000000},
                                                    {100000, 500000, 5000000, 20000000},
                                                    {100000, 500000, 5000000, 20000000},
                                                    {100000, 5000000, 50000000},
                                                    {32768, 1048576},
                                                    {16, 64, 256, 512},
                                                    {128, 512, 1024},
                                                    {64, 256},
                                                    {63504, 853776, 11778624},
                                                    {63504, 853776},
                                                    {4900, 63504},
                                                    {32768, 1048576}};
static const int64_t tune_sizes[KL_NTIMED][8] = {{1000, 10000, 100000, 1000000, 10000000},
                                                 {1000, 10000, 100000, 1000000, 10000000},
                                                 {1000, 10000, 100000, 1000000, 5000000},
                                                 {1000, 10000, 100000, 1000000, 5000000},
                                                 {1000, 10000, 100000, 1000000, 10000000},
                                                 {1000, 10000, 100000, 1000000},
                                                 {4, 8, 16, 32, 64, 128, 256, 512},
                                                 {64, 128, 256, 512, 1024},
                                                 {32, 64, 128, 256, 512, 1024},
                                                 {4900, 63504, 853776, 11778624},
                                                 {400, 4900, 63504, 853776, 11778624},
                                                 {400, 4900, 63504, 853776},
                                                 {1000, 10000, 100000, 1000000}};

static int wanted(const bench *b, kl_timed what)
{
    return !b->only || strstr(kl_timed_name[what], b->only) != NULL;
}

static kl_status take_options(bench *b, const kl_options *o, kl_err *err)
{
    const kl_bench_options *const asked = &o->bench;
    b->csv = asked->csv;
    b->json = asked->json;
    b->plot = asked->plot;
    b->from = asked->from;
    b->only = asked->only;
    b->output = o->output;
    b->quick = asked->quick;
    b->nthread = (int)o->threads;
    int any = 0;
    for (int what = 0; what < KL_NTIMED; what++) any |= wanted(b, (kl_timed)what);
    if (!any) {
        char names[300] = "";
        for (int what = 0; what < KL_NTIMED; what++)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s'%s'", what ? ", " : "",
                     kl_timed_name[what]);
        return kl_fail(err, KL_EINPUT, "--only: '%s' is in the name of no operation; there are %s", b->only,
                       names);
    }
    return KL_OK;
}

/* A device may make its context and load its kernels when it is first asked for something. */
static void ask_something(kl_exec *ex)
{
    enum { N = 1000 };
    kl_err none;
    kl_dptr p = {0};
    double last;
    if (!ex || ex->vt.alloc(ex, N, &p, &none) != KL_OK) return;
    ex->vt.fill(ex, N, 1.0, p);
    if (ex->vt.download(ex, &last, kl_dptr_at(p, N - 1), 1, &none) == KL_OK)
        ex->vt.dots(ex, N, 1, p, N, p, &last);
    ex->vt.release(ex, &p);
}

/* CUDA first: what the driver takes to begin is its, and target regions need it, too. */
static kl_status open_all(bench *b, kl_err *err)
{
    kl_status st = KL_OK;
    kl_err why;
    int64_t start = kl_prof_clock();
    KL_TRY(kl_exec_open_host(b->nthread, &b->ex[HOST], err));
    b->opening[HOST] = 1e-9 * (double)(kl_prof_clock() - start);
    start = kl_prof_clock();
    if (kl_exec_open_cuda(KL_ANY_DEVICE, &b->ex[CUDA], &why) != KL_OK)
        snprintf(b->absent[CUDA], sizeof b->absent[CUDA], "%.199s", why.text);
    ask_something(b->ex[CUDA]);
    b->opening[CUDA] = 1e-9 * (double)(kl_prof_clock() - start);
    if (kl_exec_open_offload(KL_ANY_DEVICE, 0, &b->ex[OFFLOAD], &why) != KL_OK)
        snprintf(b->absent[OFFLOAD], sizeof b->absent[OFFLOAD], "%.199s", why.text);
    ask_something(b->ex[OFFLOAD]);
    b->opening[OFFLOAD] = 1e-9 * (double)(kl_prof_clock() - start);
    for (int i = OFFLOAD; i <= CUDA; i++)
        if (b->ex[i]) b->ex[i]->nthread = b->ex[HOST]->nthread;
out:
    return st;
}

static void close_all(bench *b)
{
    for (int i = CUDA; i >= HOST; i--) kl_exec_close(&b->ex[i]);
}

/* Reading, copying, and one large product: what no operation of the device can beat. */
static kl_status measure_ceilings(bench *b, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = b->ex[CUDA];
    kl_dptr v = {0};
    double out[32];
    /* 3.2 GB in all, as much as the largest V^T x reads, which else comes out above its ceiling: a launch has
       a beginning and an end */
    const int64_t n = b->quick ? 1000000 : 12500000;
    if (!ex || !(ex->baselines && ex->baselines->trial)) return KL_OK;
    kl_trial t = {
        .op = KL_OP_DOTS, .way = KL_WAY_READ, .repeat = 5, .n = n, .ldv = n, .nvec = 31, .out = out};
    KL_TRY(ex->vt.alloc(ex, 32 * n, &v, err));
    ex->vt.fill(ex, 32 * n, 1.0, v);
    t.v = t.x = v;
    KL_TRY(ex->baselines->trial(ex, &t, err));
    b->read = 256.0 * (double)n / t.seconds;
    t = (kl_trial){
        .op = KL_OP_COPY, .way = KL_WAY_OWN, .repeat = 5, .n = 16 * n, .x = v, .y = kl_dptr_at(v, 16 * n)};
    KL_TRY(ex->baselines->trial(ex, &t, err));
    b->copy = 256.0 * (double)n / t.seconds;
    ex->vt.release(ex, &v);
    kl_optime *o = NULL;
    double seconds, residual;
    KL_TRY(kl_optime_create(b->ex[HOST], KL_TIMED_LIST, b->quick ? 256 : 1024, &o, err));
    st = kl_optime_run(o, ex, 1, &seconds, &residual, err);
    if (st == KL_OK) b->product = kl_optime_flop(o) / seconds;
    if (st == KL_EABSENT) st = KL_OK;
    kl_optime_destroy(&o);
out:
    ex->vt.release(ex, &v);
    return st;
}

/* A device that is behind the host, and would take long at size `next`, is left out there. */
static int hopeless(const row *before, int column, int64_t next)
{
    const double power = before->what == KL_TIMED_LIST || before->what == KL_TIMED_EIGEN ? 3 : 1,
                 expected = before->seconds[column] * pow((double)next / (double)before->size, power);
    return before->seconds[column] > before->seconds[HOST] && expected > ENOUGH;
}

/* before: of the next smaller size, or NULL */
static kl_status measure(bench *b, kl_timed what, int64_t size, const row *before, int library, kl_err *err)
{
    kl_status st = KL_OK;
    kl_optime *o = NULL;
    row *const r = &b->row[b->nrow];
    *r = (row){.what = what, .size = size};
    KL_TRY(kl_optime_create(b->ex[HOST], what, size, &o, err));
    r->bytes = kl_optime_bytes(o), r->flop = kl_optime_flop(o);
    for (int c = 0; c < (library ? NCOLUMN : 3); c++) {
        kl_exec *const ex = b->ex[c == LIBRARY ? CUDA : c];
        double residual;
        kl_err why;
        if (!ex || (before && c != HOST && (before->seconds[c] == 0 || hopeless(before, c, size)))) continue;
        st = kl_optime_run(o, ex, c == LIBRARY, &r->seconds[c], &residual, &why);
        if (st != KL_OK) r->seconds[c] = 0;
        if (st != KL_OK && st != KL_EABSENT && st != KL_ENOMEM) {
            kl_fail(err, st, "%s", why.text);
            goto out;
        }
        st = KL_OK;
        if (residual > r->residual) r->residual = residual;
    }
    if (r->bytes > 0 && b->read > 0) r->ceiling = r->bytes / (kl_optime_writes(o) ? b->copy : b->read);
    else if (r->flop > 0 && b->product > 0) r->ceiling = r->flop / b->product;
    b->nrow++;
out:
    kl_optime_destroy(&o);
    return st;
}

/* A table that write_csv wrote. */
static kl_status read_csv(bench *b, kl_err *err)
{
    /* behind the name: size, four times, ceiling, bytes, flop, residual; what follows, such as who measured
       it and when, is for people */
    enum {
        COLUMNS = 9,
        RESIDUAL = COLUMNS - 1,
    };
    kl_status st = KL_OK;
    char line[512];
    FILE *f;
    kl_err why;
    st = kl_infile_open(b->from, &f, &why);
    if (st != KL_OK) return kl_fail(err, st, "--from: %s", why.text);
    for (int number = 1; fgets(line, sizeof line, f); number++) {
        row *const r = &b->row[b->nrow];
        double value[COLUMNS] = {[RESIDUAL] = NAN};
        int what = 0, k = 0, bad = b->nrow == MOST_ROW;
        if (number == 1) continue;
        char *const end = line[0] == '"' ? strchr(line + 1, '"') : NULL, *at = end ? end + 1 : line;
        if (end) *end = '\0';
        while (what < KL_NTIMED && (!end || strcmp(kl_timed_name[what], line + 1) != 0)) what++;
        at[strcspn(at, "\n")] = '\0';
        for (; *at == ',' && k < COLUMNS && !bad; k++) {
            char *const next = at + 1 + strcspn(at + 1, ","), kept = *next;
            *next = '\0';
            bad = at[1] && !kl_parse_double(at + 1, &value[k]);
            *next = kept;
            at = next;
        }
        if (bad || what == KL_NTIMED || k != COLUMNS || (*at && *at != ',') || !(value[0] >= 1))
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "--from: %s:%d is no row of a table that bench compare --csv wrote", b->from,
                           number));
        *r = (row){.what = (kl_timed)what,
                   .size = (int64_t)value[0],
                   .seconds = {value[1], value[2], value[3], value[4]},
                   .ceiling = value[5],
                   .bytes = value[6],
                   .flop = value[7],
                   .residual = value[RESIDUAL]};
        if (wanted(b, (kl_timed)what)) b->nrow++;
    }
out:
    fclose(f);
    return st;
}

static void print_time(double seconds)
{
    if (seconds > 0) printf(" %11.1f", seconds * 1e6);
    else printf(" %11s", "-");
}

static void print_row(const row *r)
{
    printf("%-26s %10lld", kl_timed_name[r->what], (long long)r->size);
    for (int c = 0; c < NCOLUMN; c++) print_time(r->seconds[c]);
    print_time(r->ceiling);
    if (r->ceiling > 0 && r->seconds[CUDA] > 0) printf(" %5.0f %%", 100 * r->ceiling / r->seconds[CUDA]);
    else printf("       -");
    if (isnan(r->residual)) printf("  resid not kept\n");
    else printf("  resid %.0e PASS\n", r->residual);
    fflush(stdout);
}

static void print_head(void)
{
    printf("microseconds, until the result is there; vectors by the library: by the device's clock\n%-26s "
           "%10s %11s %11s %11s %11s %11s %7s\n",
           "operation", "size", "host", "offload", "cuda", "library", "ceiling", "of it");
}

/* What is larger, of size `next`, would take longer and say nothing new: the host has lost, or is alone, or
   all devices would be left out. */
static int known(const bench *b, const row *r, int64_t next)
{
    int ndevice = 0, nhopeless = 0;
    for (int c = OFFLOAD; c <= CUDA; c++) {
        ndevice += b->ex[c] != NULL;
        nhopeless += b->ex[c] && (r->seconds[c] == 0 || hopeless(r, c, next));
    }
    if (ndevice > 0 && nhopeless == ndevice) return 1;
    const int product = r->what == KL_TIMED_KRON || r->what == KL_TIMED_SIGMA || r->what == KL_TIMED_ROWS;
    if (product && r->seconds[HOST] * (double)next / (double)r->size > ENOUGH / 4) return 1;
    const int lost = (r->seconds[OFFLOAD] > 0 && r->seconds[OFFLOAD] < r->seconds[HOST]) ||
                     (r->seconds[CUDA] > 0 && r->seconds[CUDA] < r->seconds[HOST]);
    return r->seconds[HOST] > ENOUGH || (r->what == KL_TIMED_SWEEP && lost);
}

static kl_status run_all(bench *b, int tuning, kl_err *err)
{
    kl_status st = KL_OK;
    printf("host: %s\n", b->ex[HOST]->where);
    for (int i = OFFLOAD; i <= CUDA; i++)
        printf("%s: %s\n", column_name[i], b->ex[i] ? b->ex[i]->where : b->absent[i]);
    if (b->read > 0)
        printf("ceilings: read %.0f GB/s, copy %.0f GB/s, products %.1f TFLOP/s\n", b->read * 1e-9,
               b->copy * 1e-9, b->product * 1e-12);
    print_head();
    for (int what = 0; what < KL_NTIMED; what++) {
        const int64_t *const size = tuning ? tune_sizes[what] : compare_sizes[what];
        const int most = tuning ? 8 : 4;
        if (!wanted(b, (kl_timed)what)) continue;
        const double begin = kl_prof_seconds();
        for (int i = 0;
             i < most && size[i] > 0 && (!b->quick || i < (tuning && what != KL_TIMED_SWEEP ? 3 : 1)); i++) {
            const row *const before = tuning && i > 0 ? &b->row[b->nrow - 1] : NULL;
            KL_TRY(measure(b, (kl_timed)what, size[i], before, !tuning, err));
            print_row(&b->row[b->nrow - 1]);
            if (tuning && i + 1 < most && known(b, &b->row[b->nrow - 1], size[i + 1])) break;
        }
        b->spent[what] = kl_prof_seconds() - begin;
    }
out:
    return st;
}

static kl_status write_csv(const bench *b, kl_err *err)
{
    FILE *const f = fopen(b->csv, "w");
    if (!f) return kl_fail(err, KL_EIO, "--csv: '%s' cannot be written", b->csv);
    fprintf(f, "operation,size,host,offload,cuda,library,ceiling,bytes,flop,residual\n");
    for (int i = 0; i < b->nrow; i++) {
        const row *const r = &b->row[i];
        fprintf(f, "\"%s\",%lld", kl_timed_name[r->what], (long long)r->size);
        for (int c = 0; c < NCOLUMN; c++)
            r->seconds[c] > 0 ? fprintf(f, ",%.9g", r->seconds[c]) : fprintf(f, ",");
        r->ceiling > 0 ? fprintf(f, ",%.9g", r->ceiling) : fprintf(f, ",");
        fprintf(f, ",%.9g,%.9g", r->bytes, r->flop);
        isnan(r->residual) ? fprintf(f, ",\n") : fprintf(f, ",%.3g\n", r->residual);
    }
    return fclose(f) == 0 ? KL_OK : kl_fail(err, KL_EIO, "--csv: '%s' cannot be written", b->csv);
}

static kl_status write_json(const bench *b, kl_err *err)
{
    FILE *const f = fopen(b->json, "w");
    if (!f) return kl_fail(err, KL_EIO, "--json: '%s' cannot be written", b->json);
    kl_json j = kl_json_begin(f);
    kl_json_open(&j, NULL, '{');
    for (int i = 0; i < 3; i++) kl_json_text(&j, column_name[i], b->ex[i] ? b->ex[i]->where : NULL);
    kl_json_real(&j, "read_bytes_per_second", b->read);
    kl_json_real(&j, "copy_bytes_per_second", b->copy);
    kl_json_real(&j, "product_flop_per_second", b->product);
    kl_json_open(&j, "rows", '[');
    for (int i = 0; i < b->nrow; i++) {
        const row *const r = &b->row[i];
        kl_json_open(&j, NULL, '{');
        kl_json_text(&j, "operation", kl_timed_name[r->what]);
        kl_json_int(&j, "size", r->size);
        for (int c = 0; c < NCOLUMN; c++)
            kl_json_real(&j, column_name[c], r->seconds[c] > 0 ? r->seconds[c] : NAN);
        kl_json_real(&j, "ceiling", r->ceiling > 0 ? r->ceiling : NAN);
        kl_json_real(&j, "bytes", r->bytes);
        kl_json_real(&j, "flop", r->flop);
        kl_json_real(&j, "residual", r->residual);
        kl_json_close(&j, '}');
    }
    kl_json_close(&j, ']');
    kl_json_close(&j, '}');
    kl_json_end(&j);
    return fclose(f) == 0 ? KL_OK : kl_fail(err, KL_EIO, "--json: '%s' cannot be written", b->json);
}

/* A panel an operation: time over size, both logarithmic, a line for each that has points. */
static void write_script(FILE *to, const void *self, const char *terminal)
{
    const bench *const b = self;
    int npanel = 0;
    for (int what = 0; what < KL_NTIMED; what++)
        for (int i = 0; i < b->nrow; i++)
            if (b->row[i].what == (kl_timed)what) {
                npanel++;
                break;
            }
    for (int c = 0; c <= NCOLUMN; c++)
        for (int what = 0; what < KL_NTIMED; what++) {
            fprintf(to, "$d%d_%d << EOD\n", c, what);
            for (int i = 0; i < b->nrow; i++) {
                const double t = c < NCOLUMN ? b->row[i].seconds[c] : b->row[i].ceiling;
                if (b->row[i].what == (kl_timed)what && t > 0)
                    fprintf(to, "%lld %.9g\n", (long long)b->row[i].size, t * 1e6);
            }
            fprintf(to, "EOD\n");
        }
    const int columns = npanel > 2 ? 4 : npanel > 0 ? npanel : 1, rows = (npanel + columns - 1) / columns;
    kl_plot_page(to, terminal, 360 * columns, 320 * (rows > 0 ? rows : 1) + 40);
    fprintf(to,
            "set grid\nset logscale xy\nset format xy '10^{%%L}'\nset termoption enhanced\nset key top left "
            "samplen 2\nset xlabel 'size'\nset ylabel 'microseconds'\nset multiplot layout %d,%d\n",
            rows > 0 ? rows : 1, columns);
    for (int what = 0; what < KL_NTIMED; what++) {
        int drawn = 0;
        for (int c = 0; c <= NCOLUMN; c++) {
            int points = 0;
            for (int i = 0; i < b->nrow; i++)
                points += b->row[i].what == (kl_timed)what &&
                          (c < NCOLUMN ? b->row[i].seconds[c] : b->row[i].ceiling) > 0;
            if (!points) continue;
            if (!drawn) {
                fprintf(to, "set title ");
                kl_plot_quote(to, kl_timed_name[what]);
                fprintf(to, "\nplot ");
            } else fprintf(to, ", ");
            drawn = 1;
            fprintf(to, "$d%d_%d using 1:2 with linespoints pointtype %d linewidth 1.5 title '%s'", c, what,
                    c + 4, c < NCOLUMN ? column_name[c] : "ceiling");
        }
        if (drawn) fprintf(to, "\n");
    }
    if (npanel == 0) fprintf(to, "set yrange [1:10]\nplot [1:10] 0.1 notitle\n");
    fprintf(to, "unset multiplot\nunset output\n");
}

kl_status kl_bench_compare(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    bench *b = NULL;
    KL_TRY(kl_alloc(&b, 1, KL_MEM_MISC, err));
    KL_TRY(take_options(b, o, err));
    if (b->from) {
        KL_TRY(read_csv(b, err));
        print_head();
        for (int i = 0; i < b->nrow; i++) print_row(&b->row[i]);
    } else {
        KL_TRY(open_all(b, err));
        KL_TRY(measure_ceilings(b, err));
        KL_TRY(run_all(b, 0, err));
    }
    if (b->csv) KL_TRY(write_csv(b, err));
    if (b->json) KL_TRY(write_json(b, err));
    if (b->plot) KL_TRY(kl_plot_run(write_script, b, "--plot", b->plot, err));
out:
    if (b) close_all(b);
    kl_free(&b);
    return st;
}

/* Lists of products by each way of running them on CUDA. */
static kl_status measure_ways(const bench *b, kl_tune *t, kl_err *err)
{
    static const int64_t size[] = {8, 32, 128, 512};
    static const kl_projection way[] = {KL_PROJECTION_GROUPED, KL_PROJECTION_4STREAMS,
                                        KL_PROJECTION_NOSTREAMS, KL_PROJECTION_LIBRARY};
    kl_status st = KL_OK;
    kl_exec *const ex = b->ex[CUDA];
    const kl_projection asked = ex->projection;
    kl_optime *o = NULL;
    for (int i = 0; i < (b->quick ? 2 : 4); i++) {
        KL_TRY(kl_optime_create(b->ex[HOST], KL_TIMED_LIST, size[i], &o, err));
        printf("64 products of %lld:", (long long)size[i]);
        for (int k = 0; k < 4 && t->nlist < KL_TUNE_MOST; k++) {
            double seconds, residual;
            ex->projection = way[k];
            KL_TRY(kl_optime_run(o, ex, 0, &seconds, &residual, err));
            t->list[t->nlist++] = (kl_tune_list){way[k], size[i], seconds};
            printf(" %s %.1f us", kl_projection_name[way[k]], seconds * 1e6);
        }
        printf("\n");
        kl_optime_destroy(&o);
    }
out:
    ex->projection = asked;
    kl_optime_destroy(&o);
    return st;
}

/* Layouts of sparse matrices, where a device has other ones. */
static kl_status measure_layouts(const bench *b, kl_tune *t, kl_err *err)
{
    static const char *const kind[2] = {"short", "long"};
    for (int e = OFFLOAD; e <= CUDA; e++)
        for (int longer = 0; longer < 2 && b->ex[e]; longer++) {
            kl_tune_layout *const l = &t->layout[t->nlayout];
            *l = (kl_tune_layout){.exec = e, .longer = longer};
            const kl_status st = kl_optime_layout(b->ex[e], longer, b->quick, &l->cost, err);
            if (st == KL_EABSENT) break;
            if (st != KL_OK) return st;
            printf("sparse matrix of %s rows, %s: laid out anew in %.3g ps of a core a non-zero, a product "
                   "takes %.3g ps less\n",
                   kind[longer], column_name[e], l->cost.lay_out, l->cost.gain);
            t->nlayout++;
        }
    return KL_OK;
}

/* The table that is there, whose other operations stay; empty where there is none. One that cannot be read,
   or is of another machine, or of other threads, has to be made anew as a whole. */
static kl_status read_others(const bench *b, const kl_tune *t, kl_tune *old, kl_err *err)
{
    kl_err why;
    const kl_status st = kl_tune_read(b->output, old, &why);
    if (st != KL_OK && (old->path[0] == '\0' || access(old->path, F_OK) != 0)) {
        old->n = old->nlist = 0;
        return KL_OK;
    }
    if (st != KL_OK) return kl_fail(err, KL_EINPUT, "--only: %s", why.text);
    if (old->nthread != t->nthread)
        return kl_fail(err, KL_EINPUT,
                       "--only: the table %.300s was measured with %d threads, not %d; allowed: --threads "
                       "%d, another --output, or all operations",
                       old->path, old->nthread, t->nthread, old->nthread);
    for (int i = OFFLOAD; i <= CUDA; i++)
        if (strcmp(old->where[i], t->where[i]) != 0)
            return kl_fail(err, KL_EINPUT,
                           "--only: the table %.300s was measured with %s '%.100s', not '%.100s'; allowed: "
                           "another --output, or all operations",
                           old->path, column_name[i], old->where[i], t->where[i]);
    return KL_OK;
}

static void keep_others(const bench *b, const kl_tune *old, kl_tune *t)
{
    for (int i = 0; i < old->n && t->n < KL_TUNE_MOST; i++)
        if (!wanted(b, old->row[i].what)) t->row[t->n++] = old->row[i];
    memcpy(t->opening, old->opening, sizeof t->opening);
    if (!wanted(b, KL_TIMED_SPMV)) {
        t->nlayout = old->nlayout;
        memcpy(t->layout, old->layout, sizeof t->layout);
    }
    if (wanted(b, KL_TIMED_LIST)) return;
    t->nlist = old->nlist;
    memcpy(t->list, old->list, sizeof t->list);
}

static void print_spent(const bench *b, double ways, double layouts, double all)
{
    printf("measured in %.1f s:", all);
    for (int what = 0; what < KL_NTIMED; what++)
        if (b->spent[what] > 0.05) printf(" %s %.1f,", kl_timed_name[what], b->spent[what]);
    printf(" ways of lists %.1f, layouts %.1f\n", ways, layouts);
    for (int i = OFFLOAD; i <= CUDA; i++)
        if (b->ex[i]) printf("%s: %.2f s from nothing to the first number\n", column_name[i], b->opening[i]);
}

kl_status kl_bench_tune(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    const double begin = kl_prof_seconds();
    bench *b = NULL;
    kl_tune *t = NULL, *old = NULL;
    KL_TRY(kl_alloc(&b, 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&t, 1, KL_MEM_MISC, err));
    KL_TRY(take_options(b, o, err));
    KL_TRY(kl_tune_probe(t, b->output, err));
    KL_TRY(open_all(b, err));
    t->nthread = b->ex[HOST]->nthread;
    for (int i = HOST; i <= CUDA; i++)
        if (b->ex[i]) t->opening[i] = b->opening[i];
    for (int i = OFFLOAD; i <= CUDA; i++)
        if (b->ex[i]) snprintf(t->where[i], sizeof t->where[i], "%s", b->ex[i]->where);
    KL_TRY(kl_alloc(&old, 1, KL_MEM_MISC, err));
    if (b->only) KL_TRY(read_others(b, t, old, err));
    KL_TRY(run_all(b, 1, err));
    for (int i = 0; i < b->nrow && t->n < KL_TUNE_MOST; i++) {
        t->row[t->n] = (kl_tune_row){.what = b->row[i].what, .size = b->row[i].size};
        memcpy(t->row[t->n++].seconds, b->row[i].seconds, sizeof t->row[0].seconds);
    }
    const double before = kl_prof_seconds();
    if (b->ex[CUDA] && wanted(b, KL_TIMED_LIST)) KL_TRY(measure_ways(b, t, err));
    const double between = kl_prof_seconds();
    if (wanted(b, KL_TIMED_SPMV)) KL_TRY(measure_layouts(b, t, err));
    const double after = kl_prof_seconds();
    if (b->only) keep_others(b, old, t);
    kl_tune_keep_rates(t, b->output);
    KL_TRY(kl_tune_write(t, b->output, err));
    print_spent(b, between - before, after - between, after - begin);
    printf("written to %s; --exec auto asks it from now on\n", t->path);
out:
    if (b) close_all(b);
    kl_free(&b);
    kl_free(&t);
    kl_free(&old);
    return st;
}
