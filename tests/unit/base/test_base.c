/* Messages, numbers, sizes, counted memory, counters.
   SPDX-License-Identifier: Apache-2.0 */
#include "kl_test.h"

#include "base/isa.h"
#include <fenv.h>
#include <locale.h>

static void test_fail(void **state)
{
    (void)state;
    kl_err err;
    expect_eq(kl_fail(&err, KL_EIO, "a %d\nb", 5), KL_EIO);
    assert_string_equal(err.text, "a 5 b"); /* one line */
    expect_eq(kl_fail(&err, KL_EINPUT, "in file: %s", err.text), KL_EINPUT);
    assert_string_equal(err.text, "in file: a 5 b"); /* an error may be part of its successor */
    expect_eq(kl_fail(NULL, KL_ENOMEM, "x"), KL_ENOMEM);
    char longer[3000];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    kl_fail(&err, KL_EIO, "%s", longer);
    expect_eq(strlen(err.text), sizeof(err.text) - 1);
}

static void test_sizes(void **state)
{
    (void)state;
    int64_t out;
    expect_true(kl_mul_size(0, INT64_MAX, &out) && out == 0);
    expect_true(kl_mul_size(INT64_MAX, 1, &out) && out == INT64_MAX);
    expect_true(!kl_mul_size(INT64_MAX / 2 + 1, 2, &out) && out == 0);
    expect_true(!kl_mul_size(-1, 2, &out));
}

static void test_numbers(void **state)
{
    (void)state;
    /* A host program with decimal commas changes nothing; where no such locale is installed this is the C
       locale once more. */
    setlocale(LC_ALL, "de_DE.UTF-8");
    static const struct {
        const char *text;
        int good;
        double value;
    } cases[] = {{"1.5", 1, 1.5}, {"-2e-3", 1, -2e-3}, {"1/2", 1, 0.5},       {" 3 / 4 ", 1, 0.75},
                 {"+7", 1, 7.0},  {"0x10", 1, 16.0},   {"1,5", 0, 0},         {"", 0, 0},
                 {"x", 0, 0},     {"1.5x", 0, 0},      {"1/0", 0, 0},         {"1/", 0, 0},
                 {"/2", 0, 0},    {"nan", 0, 0},       {"inf", 0, 0},         {"1e999", 0, 0},
                 {"1 2", 0, 0},   {"1/2/3", 0, 0},     {"1e308/1e-308", 0, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        kl_test_case("\"%s\"", cases[i].text);
        double value = 99.0;
        expect_eq(kl_parse_double(cases[i].text, &value), cases[i].good);
        expect_near(value, cases[i].good ? cases[i].value : 99.0, 0.0);
    }
    setlocale(LC_ALL, "C");
    int64_t whole = 5;
    expect_true(kl_parse_int("-42", &whole) && whole == -42);
    expect_true(kl_parse_int("9223372036854775807", &whole) && whole == INT64_MAX);
    static const char *const bad[] = {"9223372036854775808", "", "1.5", "x", "3 4", "1e3"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        kl_test_case("\"%s\"", bad[i]);
        expect_true(!kl_parse_int(bad[i], &whole));
    }
    expect_eq(whole, INT64_MAX);
}

static void test_closest(void **state)
{
    (void)state;
    static const char *const list[] = {"heisenberg", "hubbard", "N_up", "N_dn", "m", "accuracy", NULL};
    assert_string_equal(kl_closest("hubard", list), "hubbard");
    assert_string_equal(kl_closest("Heisenbreg", list), "heisenberg");
    assert_string_equal(kl_closest("Nup", list), "N_up");
    assert_string_equal(kl_closest("acuraccy", list), "accuracy");
    assert_null(kl_closest("zz", list));
    assert_null(kl_closest("", list));
    assert_null(kl_closest("q", list));
    static const char *const none[] = {NULL};
    assert_null(kl_closest("a", none));
}

static void test_memory(void **state)
{
    (void)state;
    kl_err err;
    expect_eq(kl_mem_live_total(), 0);
    kl_mem_reset_peaks();
    double *a = NULL;
    expect_ok(kl_alloc(&a, 1000, KL_MEM_BLOCK, &err), err);
    expect_eq((uintptr_t)a % 64, 0);
    for (int i = 0; i < 1000; i++) expect_true(a[i] == 0.0);
    expect_eq(kl_mem_live_bytes(KL_MEM_BLOCK), 8000);
    expect_eq(kl_mem_block_bytes(a), 8000);
    for (int i = 0; i < 1000; i++) a[i] = i;
    for (int64_t n = 1000; n < 200000; n += n / 3 + 1) { /* every remainder that realloc may land on */
        expect_ok(kl_realloc(&a, n, KL_MEM_BLOCK, &err), err);
        expect_eq((uintptr_t)a % 64, 0);
        for (int i = 0; i < 1000; i++) expect_true(a[i] == (double)i);
    }
    expect_ok(kl_realloc(&a, 10, KL_MEM_STATE, &err), err);
    expect_eq(kl_mem_live_bytes(KL_MEM_BLOCK), 0);
    expect_eq(kl_mem_live_bytes(KL_MEM_STATE), 80);
    expect_true(kl_mem_peak_bytes(KL_MEM_BLOCK) >= 8000 * 100);
    expect_true(a[9] == 9.0);

    /* What fails leaves the old block. */
    double *const same = a;
    expect_refused(kl_realloc(&a, INT64_MAX / 16, KL_MEM_STATE, &err), KL_ENOMEM, err, "states");
    expect_true(a == same && a[9] == 9.0);
    double *b = NULL;
    expect_refused(kl_alloc(&b, -1, KL_MEM_WORK, &err), KL_ENOMEM, err, "work");
    kl_mem_fail_after(2);
    expect_ok(kl_alloc(&b, 1, KL_MEM_WORK, &err), err);
    kl_free(&b);
    expect_eq(kl_alloc(&b, 1, KL_MEM_WORK, &err), KL_ENOMEM);
    expect_true(b == NULL);
    expect_ok(kl_alloc(&b, 1, KL_MEM_WORK, &err), err);
    kl_mem_fail_after(1);
    expect_true(kl_strdup("abc") == NULL);
    char *text = kl_strdup("abc");
    assert_string_equal(text, "abc");
    kl_free(&text);
    kl_free(&b);
    kl_free(&b); /* NULL by now */
    kl_free(&a);
    expect_ok(kl_alloc(&a, 0, KL_MEM_WORK, &err), err);
    expect_true(a != NULL);
    kl_free(&a);
    expect_eq(kl_mem_live_total(), 0);
    for (int kind = 0; kind < KL_MEM_NKIND; kind++) expect_true(strlen(kl_mem_kind_name(kind)) > 2);
    kl_mem_device_count(100);
    kl_mem_device_count(-60);
    expect_eq(kl_mem_device_live_bytes(), 40);
    expect_eq(kl_mem_device_peak_bytes(), 100);
    /* blocks that wait are taken, and not in use */
    kl_mem_device_use(30);
    kl_mem_device_use(-10);
    expect_eq(kl_mem_device_using_bytes(), 20);
    expect_eq(kl_mem_device_used_bytes(), 30);
    kl_mem_device_use(-20);
    kl_mem_device_count(-40);
}

static void test_many_threads(void **state)
{
    (void)state;
    int failed = 0;
#pragma omp parallel for num_threads(4) reduction(+ : failed)
    for (int i = 0; i < 20000; i++) {
        double *p = NULL;
        if (kl_alloc(&p, i % 977, KL_MEM_WORK, NULL) != KL_OK ||
            kl_realloc(&p, i % 1013 + 1, KL_MEM_WORK, NULL) != KL_OK)
            failed++;
        kl_free(&p);
    }
    expect_eq(failed, 0);
    expect_eq(kl_mem_live_total(), 0);
}

/* Pages for a driver to lock: whole, written by whoever touched them, and none where a machine has fewer. */
static void test_pages(void **state)
{
    enum { BYTES = 5 << 22 }; /* ten of 2 MiB, two tasks */
    (void)state;
    char *const pages = kl_mem_take_pages(BYTES, 2);
    expect_true(pages != NULL);
    expect_eq((uintptr_t)pages % (1 << 21), 0);
    for (int64_t i = 0; i < BYTES; i += 4096) expect_eq(pages[i], 0);
    memset(pages, 1, BYTES);
    kl_mem_give_pages(pages);
    expect_true(kl_mem_take_pages((int64_t)1 << 60, 2) == NULL);
    expect_eq(kl_mem_live_total(), 0);
}

/* The caller's floating-point mode comes back as it was: rounding, and numbers below the normal ones. */
static void test_float_mode(void **state)
{
    (void)state;
    volatile double tiny = 2.3e-308, half = 0.5, third = 3.0;
    volatile double small = tiny * half, up, near, flushed, again, back;
    expect_true(small > 0);
    fesetround(FE_UPWARD);
    up = 1.0 / third;
    const uint64_t mode = kl_isa_flush_denormals();
    near = 1.0 / third;
    flushed = tiny * half;
    kl_isa_restore_mode(mode);
    again = 1.0 / third;
    back = tiny * half;
    fesetround(FE_TONEAREST);
    expect_true(up > near && again == up);
    expect_true(back > 0);
#if defined(__x86_64__) || defined(__aarch64__)
    expect_true(flushed == 0);
#else
    expect_true(flushed >= 0);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fail),       cmocka_unit_test(test_sizes),  cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_closest),    cmocka_unit_test(test_memory), cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_float_mode), cmocka_unit_test(test_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
