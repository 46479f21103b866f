/* The tune table: written, read, asked for the nearest size and for where a device overtakes the host; and
   what is refused.
   SPDX-License-Identifier: Apache-2.0 */
#include "kl_test.h"
#include "run/tune.h"
#include "run/placement.h"
#include "sparse/spmat.h"
#include <stdlib.h>
#include <unistd.h>

static kl_tune example(void)
{
    kl_tune t = {.nthread = 4};
    snprintf(t.where[2], sizeof t.where[2], "a device");
    const struct {
        kl_timed what;
        int64_t size;
        double host, cuda;
    } row[] = {{KL_TIMED_DOTS, 1000, 1e-6, 1e-5}, {KL_TIMED_DOTS, 100000, 1e-4, 2e-5},
               {KL_TIMED_SWEEP, 32, 0.01, 0.16},  {KL_TIMED_SWEEP, 512, 4, 1},
               {KL_TIMED_SWEEP, 128, 0.2, 0.4},   {KL_TIMED_COPY, 10, 1e-7, 1e-5},
               {KL_TIMED_EIGEN, 1024, 0.4, 0.08}, {KL_TIMED_EIGEN, 64, 0.002, 0.004}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        t.row[t.n++] =
            (kl_tune_row){.what = row[i].what, .size = row[i].size, .seconds = {row[i].host, 0, row[i].cuda}};
    return t;
}

static void test_table(void **state)
{
    kl_err err = {""};
    char path[] = "/tmp/kronlat-tune-XXXXXX", why[160];
    kl_tune t = example(), r;
    int64_t from;
    (void)state;
    const int made = mkstemp(path);
    expect_true(made >= 0);
    close(made);
    expect_ok(kl_tune_write(&t, path, &err), err);
    expect_ok(kl_tune_read(path, &r, &err), err);
    expect_eq(r.n, t.n);
    expect_eq(r.nthread, 4);
    expect_true(strcmp(r.where[2], "a device") == 0 && !r.where[1][0]);
    for (int i = 0; i < t.n; i++)
        expect_true(r.row[i].what == t.row[i].what && r.row[i].size == t.row[i].size &&
                    r.row[i].seconds[2] == t.row[i].seconds[2]);
    expect_eq(kl_tune_choose(&r, KL_TIMED_DOTS, 2000, why, sizeof why), 0);
    expect_eq(kl_tune_choose(&r, KL_TIMED_DOTS, 1000000, why, sizeof why), 2);
    expect_true(strstr(why, "100000") != NULL);
    expect_eq(kl_tune_choose(&r, KL_TIMED_FUSE, 10, why, sizeof why), -1);
    /* twice as slow at 128, four times as fast at 512: as fast at a third of the distance, in powers */
    expect_eq(kl_tune_from(&r, KL_TIMED_SWEEP, &from, why, sizeof why), 2);
    expect_eq(from, (int64_t)ceil(128 * pow(4, 1.0 / 3)));
    expect_eq(kl_tune_from(&r, KL_TIMED_COPY, &from, why, sizeof why), 0);
    expect_true(from == INT64_MAX);
    /* 1.6 times as slow at 128 and 1.25 at 512: as fast where the trend leads to, unless that is too far, or
       away from it */
    const struct {
        double cuda;
        int64_t from;
    } beyond[] = {
        {5, (int64_t)ceil(512 * pow(4, log(1.25) / log(1.6 / 1.25)))}, {6.2, INT64_MAX}, {6.5, INT64_MAX}};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        kl_tune u = t;
        u.row[3].seconds[2] = beyond[i].cuda;
        u.row[4].seconds[2] = 0.32;
        expect_eq(kl_tune_from(&u, KL_TIMED_SWEEP, &from, why, sizeof why),
                  beyond[i].from < INT64_MAX ? 2 : 0);
        expect_eq(from, beyond[i].from);
    }
    expect_eq(kl_tune_from(&r, KL_TIMED_FUSE, &from, why, sizeof why), -1);
    /* what the host had no memory for */
    kl_tune blind = {.n = 1, .row = {{.what = KL_TIMED_SWEEP, .size = 100, .seconds = {0, 1e-3, 1e-3}}}};
    expect_eq(kl_tune_from(&blind, KL_TIMED_SWEEP, &from, why, sizeof why), -1);
    kl_exec device = {.name = "cuda"};
    kl_placement_eigen(&r, 2, &device);
    expect_eq(device.eigen.ntime, 2);
    expect_eq(device.eigen.time[0].n, 64);
    expect_near(device.eigen.time[1].here, 0.2, 1e-15); /* eight matrices on four threads */
    expect_near(device.eigen.time[1].there, 0.01, 1e-15);
    kl_mixed_time time[KL_TUNE_MOST];
    expect_eq(kl_tune_times(&r, 0, 2, time), 3); /* of the sweeps and eigenvectors none */
    expect_true(time[1].op == KL_OP_DOTS && time[1].size == 100000 && time[1].seconds[0] == 1e-4 &&
                time[1].seconds[1] == 2e-5);
    expect_true(time[2].op == KL_OP_COPY);
    expect_eq(kl_tune_times(&r, 2, 1, time), 0); /* nothing of offload */
    kl_timed what;
    int64_t size;
    expect_true(kl_tune_of(&(kl_call){.op = KL_OP_PRECONDITION, .n = 77}, &what, &size) &&
                what == KL_TIMED_AXPY && size == 77);
    expect_true(kl_tune_of(&(kl_call){.op = KL_OP_FUSE, .n = 0}, &what, &size) && what == KL_TIMED_FUSE &&
                size == 1);
    expect_true(kl_tune_of(&(kl_call){.op = KL_OP_KRON, .n = 5}, &what, &size) && what == KL_TIMED_KRON &&
                size == 5);
    const kl_spmat matrix = {.nrow = 10, .ncol = 10, .nnz = 7 * KL_OPTIME_ROW};
    expect_true(kl_tune_of(&(kl_call){.op = KL_OP_SPMV, .n = 10, .matrix = &matrix}, &what, &size) &&
                what == KL_TIMED_SPMV && size == 7);
    expect_true(!kl_tune_of(&(kl_call){.op = KL_OP_UPLOAD, .n = 5}, &what, &size));
    static const char *const wrong[] = {
        "nonsense 12",       "sweep 100 inf 1 1", "sweep 100 1 -1 1",          "sweep 100 1 nan 1",
        "opening nowhere 1", "opening cuda -1",   "layout cuda wide-rows 1 1", "layout cuda short-rows 0 1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        expect_ok(kl_tune_write(&t, path, &err), err);
        FILE *const f = fopen(path, "a");
        fprintf(f, "%s\n", wrong[i]);
        fclose(f);
        expect_eq(kl_tune_read(path, &r, &err), KL_EABSENT);
    }
    unlink(path);
    expect_eq(kl_tune_read(path, &r, &err), KL_EABSENT);
}

/* Layouts and openings are read as they were written, and told to the device that they were measured on. */
static void test_device_facts(void **state)
{
    kl_err err = {""};
    char path[] = "/tmp/kronlat-tune-XXXXXX";
    kl_tune t = example(), r;
    kl_exec here = {.name = "cuda", .where = "a device"}, other = {.name = "cuda", .where = "another"},
            offload = {.name = "offload"};
    (void)state;
    const int made = mkstemp(path);
    expect_true(made >= 0);
    close(made);
    t.opening[0] = 1e-4, t.opening[2] = 0.25;
    t.layout[0] = (kl_tune_layout){2, 0, {40000, 3}};
    t.layout[1] = (kl_tune_layout){2, 1, {20000, -0.5}};
    t.nlayout = 2;
    expect_ok(kl_tune_write(&t, path, &err), err);
    expect_ok(kl_tune_read(path, &r, &err), err);
    unlink(path);
    expect_true(r.opening[0] == 1e-4 && r.opening[1] == 0 && r.opening[2] == 0.25);
    expect_eq(r.nlayout, 2);
    kl_tune_ways(&r, &here);
    kl_tune_ways(&r, &other);
    kl_tune_ways(&r, &offload);
    expect_true(here.layout[0].lay_out == 40000 && here.layout[1].gain == -0.5);
    expect_true(other.layout[0].lay_out == 0 && offload.layout[0].lay_out == 0);
}

/* A machine whose device makes products of a million states ten times as fast as the host, and small ones
   ten times as slowly. */
static kl_tune machine(void)
{
    kl_tune t = {.nthread = 4, .opening = {1e-4, 0, 0.5}};
    snprintf(t.where[2], sizeof t.where[2], "a device");
    const struct {
        kl_timed what;
        int64_t size;
        double host, cuda;
    } row[] = {{KL_TIMED_KRON, 1000, 1e-6, 1e-5},  {KL_TIMED_KRON, 1000000, 1e-2, 1e-3},
               {KL_TIMED_FUSE, 1000, 1e-6, 1e-5},  {KL_TIMED_FUSE, 1000000, 1e-3, 1e-4},
               {KL_TIMED_SPMV, 1000, 1e-5, 1e-5},  {KL_TIMED_SPMV, 1000000, 1e-2, 1e-3},
               {KL_TIMED_BRING, 1000, 1e-5, 1e-3}, {KL_TIMED_BRING, 1000000, 1e-4, 0.4}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        t.row[t.n++] =
            (kl_tune_row){.what = row[i].what, .size = row[i].size, .seconds = {row[i].host, 0, row[i].cuda}};
    return t;
}

static void test_seconds(void **state)
{
    const kl_tune t = machine();
    double s[KL_WORK_TIMES];
    (void)state;
    expect_near(kl_tune_seconds(&t, KL_TIMED_KRON, 10, 0), 1e-6, 1e-20); /* no less than the smallest takes */
    expect_near(kl_tune_seconds(&t, KL_TIMED_KRON, 1e6, 2), 1e-3, 1e-18);
    expect_near(kl_tune_seconds(&t, KL_TIMED_KRON, 5e6, 0), 5e-2, 1e-15);
    /* half of the distance in powers */
    expect_near(kl_tune_seconds(&t, KL_TIMED_KRON, sqrt(1e3 * 1e6), 0), 1e-4, 1e-12);
    expect_true(isnan(kl_tune_seconds(&t, KL_TIMED_KRON, 1000, 1)));
    expect_true(isnan(kl_tune_seconds(&t, KL_TIMED_SIGMA, 1000, 0)));
    const kl_work kron = {.what = KL_TIMED_KRON, .size = 1e6, .scale = 2, .n = 1e6, .products = 100};
    kl_work_seconds(&t, 1, &kron, s);
    expect_near(s[0], 1e-4 + 100 * (2e-2 + 1e-3), 1e-12);
    expect_near(s[2], 0.5 + 100 * (2e-3 + 1e-4), 1e-12);
    expect_true(isnan(s[1])); /* it was not measured */
    const kl_work spmv = {.what = KL_TIMED_SPMV, .size = 1e6, .scale = 1, .n = 1e3, .products = 10};
    kl_work_seconds(&t, 1, &spmv, s);
    expect_near(s[2], 0.5 + 10 * (1e-3 + 1e-5) + 0.4, 1e-12);
    /* 60 of the products by a solver of 6 vectors: each with 6 passes over twice as many numbers */
    kl_work block = kron;
    block.block = 60;
    block.width = 6;
    kl_work_seconds(&t, 1, &block, s);
    expect_near(s[0], 1e-4 + 100 * 2e-2 + 40 * 1e-3 + 60 * 6 * 2e-3, 1e-12);
    expect_near(s[2], 0.5 + 100 * 2e-3 + 40 * 1e-4 + 60 * 6 * 2e-4, 1e-12);
    const kl_work both[2] = {kron, spmv};
    double sum[KL_WORK_TIMES];
    kl_work_seconds(&t, 2, both, sum);
    expect_near(sum[2], 0.5 + 100 * (2e-3 + 1e-4) + 10 * (1e-3 + 1e-5) + 0.4, 1e-12);
    kl_work_seconds(&t, 1, &(kl_work){.what = KL_TIMED_SIGMA, .size = 5, .scale = 1, .n = 5, .products = 1},
                    s);
    expect_true(isnan(s[0]) && isnan(s[2]));
}

/* What is said of work on this machine, where that device is not. */
static void expect_placed(kl_work work, const char *why)
{
    kl_err err = {""};
    kl_exec *host = NULL, *out = NULL;
    kl_options *o = NULL;
    expect_ok(kl_options_create(KL_CMD_ED, &o, &err), err);
    expect_ok(kl_exec_open_host(1, &host, &err), err);
    expect_ok(kl_placement_work(o, 1, &work, host, &out, &err), err);
    expect_true(out == NULL);
    if (strstr(host->chosen, why) == NULL) fail_msg("'%s' does not say '%s'", host->chosen, why);
    kl_exec_close(&host);
    kl_options_destroy(&o);
}

static void test_placement(void **state)
{
    kl_err err = {""};
    char folder[] = "/tmp/kronlat-tune-XXXXXX", path[64];
    kl_tune t = machine();
    (void)state;
    expect_true(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/tune-table", folder);
    setenv("KRONLAT_CACHE", folder, 1);
    const kl_work tiny = {.what = KL_TIMED_KRON, .size = 100, .scale = 1, .n = 100, .products = 100};
    expect_placed(tiny, "no tune table");
    expect_ok(kl_tune_write(&t, path, &err), err);
    expect_placed(tiny,
                  "host: some 100 products with H and what belongs to them take host 0.0003 s cuda 0.502 s");
    kl_work large = tiny;
    large.size = large.n = 1e7;
    expect_placed(large,
                  "host: the tune table says cuda, measured on 'a device'"); /* here is none, or another */
    large.bytes = 1e18;
    expect_placed(large, "host: no device has the");
    large.bytes = 0, large.what = KL_TIMED_SIGMA;
    expect_placed(large, "knows nothing of such products");
    large.products = 0;
    expect_placed(large, "by LAPACK");
    unlink(path);
    rmdir(folder);
}

/* Two seconds of any sweep on the host by the run's plan; *run counts questions. */
static double two_seconds(void *run, int m)
{
    (void)m;
    ++*(int *)run;
    return 2;
}

/* A device that takes half a second to open, and half of what the host takes for a sweep of 512 states, a
   fifth for 2048. */
static void test_opening(void **state)
{
    (void)state;
    kl_exec host = {.name = "host"};
    int asked = 0;
    const kl_dmrg_sweep sweep[] = {{.m = 100}, {.m = 512}, {.m = 2048}, {.m = 2048}};
    kl_placement p = {.table = {.nthread = 1, .n = 2, .opening = {0, 0, 0.5}, .where = {"", "", "nowhere"}},
                      .host = &host,
                      .which = 2,
                      .from = 200,
                      .sweep_seconds = two_seconds,
                      .run = &asked,
                      .nsweep = 1,
                      .sweep = sweep};
    p.table.row[0] = (kl_tune_row){.what = KL_TIMED_SWEEP, .size = 512, .seconds = {1, 0, 0.7}};
    p.table.row[1] = (kl_tune_row){.what = KL_TIMED_SWEEP, .size = 2048, .seconds = {10, 0, 2}};
    p.sweep = &sweep[1]; /* one sweep, which gains 0.6 s: what it takes to open, and no libraries */
    expect_near(kl_placement_gain(&p, 512), 0.6, 1e-12);
    expect_true(kl_placement_at(&p, 100) == &host && asked == 1); /* too few states to ask */
    expect_true(kl_placement_at(&p, 512) == &host && !p.refused && asked == 2);
    expect_true(strstr(p.why, "0.6 s less, and opening it 0.75 s") != NULL);
    expect_true(kl_placement_at(&p, 512) == &host && asked == 2); /* the same question */
    /* all three of them: 0.6 + 2 * 1.6 s, and a device that is asked for, and not there */
    p.nsweep = 4, p.sweep = sweep, p.asked = 0;
    expect_near(kl_placement_gain(&p, 512), 3.8, 1e-12);
    expect_near(kl_placement_gain(&p, 1000), 3.2, 1e-12);
    expect_true(kl_placement_at(&p, 512) == &host && p.refused && p.began == 512);
    /* a schedule that is not known */
    kl_placement q = p;
    q.refused = q.nsweep = q.asked = 0, q.sweep = NULL;
    expect_near(kl_placement_gain(&q, 512), 2.4, 1e-12);
    expect_true(kl_placement_at(&q, 512) == &host && q.refused);
    /* no run to ask */
    kl_placement r = {.table = p.table, .host = &host, .which = 2, .from = 200};
    expect_true(kl_placement_at(&r, 512) == &host && r.refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_opening), cmocka_unit_test(test_table),
                                       cmocka_unit_test(test_device_facts), cmocka_unit_test(test_seconds),
                                       cmocka_unit_test(test_placement)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
