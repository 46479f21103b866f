/* The tune table: written, read, asked for the nearest size and for where a device overtakes the host; and
   what is refused.
   SPDX-License-Identifier: Apache-2.0 */
#include "kl_test.h"
#include "run/tune.h"
#include "run/placement.h"
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
    /* twice as slow at 128, four times as fast at 512: as fast a third of the way up, in powers */
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
    expect_true(!kl_tune_of(&(kl_call){.op = KL_OP_KRON, .n = 5}, &what, &size));
    static const char *const wrong[] = {"nonsense 12", "sweep 100 inf 1 1", "sweep 100 1 -1 1",
                                        "sweep 100 1 nan 1"};
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
