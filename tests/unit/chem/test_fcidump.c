/* FCIDUMP files as programs write them, and as nothing should: variants that must give the same integrals,
   refusals with their line, folding against the whole, mutated bytes, and every allocation failing in turn.
   SPDX-License-Identifier: Apache-2.0 */
#include "kl_test.h"
#include "chem/fcidump.h"

static kl_status read_text(const char *text, kl_fcidump **f, kl_err *err)
{
    FILE *from = fmemopen((void *)(uintptr_t)text, strlen(text), "rb");
    assert_non_null(from);
    const kl_status st = kl_fcidump_read_stream(from, "t", f, err);
    fclose(from);
    return st;
}

static const char plain[] =
    "&FCI NORB=2,NELEC=2,MS2=0,ORBSYM=1,5,ISYM=1,\n&END\n"
    " 0.7  1 1 1 1\n 0.1 2 1 2 1\n 0.6 2 2 1 1\n 0.5 2 2 2 2\n -1.2 1 1 0 0\n -0.4 2 2 0 0\n 0.3 0 0 0 0\n";

static void same(const kl_fcidump *a, const kl_fcidump *b)
{
    expect_eq(a->norb, b->norb);
    expect_eq(a->nelec, b->nelec);
    expect_eq(a->ms2, b->ms2);
    expect_near(a->core, b->core, 0);
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < a->norb * a->norb; k++) expect_near(a->h[s][k], b->h[s][k], 0);
    for (int s = 0; s < 3; s++)
        for (int64_t k = 0; k < a->npair * a->npair; k++) expect_near(a->eri[s][k], b->eri[s][k], 0);
}

static void test_variants(void **state)
{
    (void)state;
    static const char *const text[] = {
        /* no MS2, no ISYM, / at the end, keys over lines, other programs' keys, lower case, a list by
           repetition */
        "&fci norb=2,\n nelec=2\n orbsym=1,\n 5\n pntgrp='D2h' npr=3*1, thr=1e-5\n /\n"
        " 0.7  1 1 1 1\n 0.1 2 1 2 1\n 0.6 2 2 1 1\n 0.5 2 2 2 2\n -1.2 1 1 0 0\n -0.4 2 2 0 0\n 0.3 0 0 0 "
        "0\n",
        /* other orders of the indices, repeated entries, orbital energies, blank lines, Fortran exponents */
        " &FCI NORB= 2,NELEC= 2,ORBSYM=1,5 &END\n"
        "0.7D+00 1 1 1 1\n1.0D-1 1 2 1 2\n 0.1 1 2 2 1\n\n6.0d-01 1 1 2 2\n 0.5 2 2 2 2\n -0.55 1 0 0 0\n "
        "0.2 2 0 0 0\n-1.2 1 1 0 0\n-0.4E0 2 2 0 0\n+0.3 0 0 0 0\n",
        /* $FCI, exponents without a letter, complex numbers that are real, no newline at the end */
        "$FCI NORB=2 NELEC=2 ORBSYM=1,5\n$END\n7.0-001 1 1 1 1\n(0.1,0.0) 1 2 1 2\n0.6 1 1 2 2\n0.5 2 2 2 "
        "2\n-1.2 1 1 0 0\n-0.4 2 2 0 0\n0.3 0 0 0 0",
        /* no labels; a byte-order mark */
        "\xef\xbb\xbf&FCI NORB=2,NELEC=2\n/\n 0.7  1 1 1 1\n 0.1 2 1 2 1\n 0.6 2 2 1 1\n 0.5 2 2 2 2\n -1.2 "
        "1 1 0 0\n "
        "-0.4 2 2 0 0\n 0.3 0 0 0 0\r\n",
        /* unrestricted, six parts */
        "&FCI NORB=2,NELEC=2,MS2=0,IUHF=1,ORBSYM=2*1\n&END\n"
        "0.7 1 1 1 1\n0.1 2 1 2 1\n0.6 2 2 1 1\n0.5 2 2 2 2\n0 0 0 0 0\n0.7 1 1 1 1\n0.1 2 1 2 1\n0.6 2 2 1 "
        "1\n0.5 2 2 2 2\n0 0 0 0 0\n"
        "0.7 1 1 1 1\n0.1 2 1 2 1\n0.6 2 2 1 1\n0.6 1 1 2 2\n0.5 2 2 2 2\n0 0 0 0 0\n-1.2 1 1 0 0\n-0.4 2 2 "
        "0 0\n0 0 0 0 0\n-1.2 1 1 0 0\n-0.4 2 2 0 0\n0 0 0 0 0\n"
        "0.3 0 0 0 0\n",
        /* unrestricted, spin orbitals; NORB counts them */
        "&FCI NORB=4,NELEC=2,UHF=.TRUE.,ORBSYM=1,1,1,1\n&END\n"
        "0.7 1 1 1 1\n0.7 1 1 2 2\n0.7 2 2 2 2\n0.1 3 1 3 1\n0.1 3 1 4 2\n0.1 4 2 4 2\n0.6 3 3 1 1\n0.6 3 3 "
        "2 2\n0.6 4 4 1 1\n0.6 4 4 2 2\n"
        "0.5 3 3 3 3\n0.5 3 3 4 4\n0.5 4 4 4 4\n-1.2 1 1 0 0\n-1.2 2 2 0 0\n-0.4 3 3 0 0\n-0.4 4 4 0 0\n0.3 "
        "0 0 0 0\n",
    };
    kl_err err;
    kl_fcidump *a = NULL, *b = NULL;
    expect_ok(read_text(plain, &a, &err), err);
    expect_eq(a->nirrep, 8);
    expect_eq(a->irrep[1], 4);
    for (size_t k = 0; k < sizeof(text) / sizeof(*text); k++) {
        kl_test_case("variant %d", (int)k);
        expect_ok(read_text(text[k], &b, &err), err);
        same(b, a);
        expect_eq(b->nirrep, k < 3 ? 8 : 1);
        expect_eq(b->unrestricted, k > 3);
        kl_fcidump_destroy(&b);
    }
    /* labels that the integrals contradict, and labels of other programs, are not used and told */
    expect_ok(read_text("&FCI NORB=2,NELEC=2,ORBSYM=1,2\n/\n0.1 1 2 0 0\n", &b, &err), err);
    expect_eq(b->nirrep, 1);
    expect_true(strstr(b->note, "forbids") != NULL);
    kl_fcidump_destroy(&b);
    expect_ok(read_text("&FCI NORB=2,NELEC=0,ORBSYM=1,14\n/\n0.1 1 2 0 0\n", &b, &err), err);
    expect_true(strstr(b->note, "14") != NULL);
    expect_eq(b->nelec, 0);
    kl_fcidump_destroy(&b);
    static const char *const label[][2] = {{"0,1", "forbids"},
                                           {"0,8", "labels from 0 to 8"},
                                           {"0,0", ""},
                                           {"4*0", ""},
                                           {"2*1,1,2", "the two of orbital 2 differ, 1 and 2"}};
    for (int k = 0; k < 5; k++) {
        char file[100];
        kl_test_case("ORBSYM=%s", label[k][0]);
        snprintf(file, sizeof(file), "&FCI NORB=2,NELEC=2,ORBSYM=%s\n/\n0.1 1 2 0 0\n", label[k][0]);
        expect_ok(read_text(file, &b, &err), err);
        expect_eq(b->nirrep, 1);
        expect_true(label[k][1][0] != '\0' ? strstr(b->note, label[k][1]) != NULL : b->note[0] == '\0');
        kl_fcidump_destroy(&b);
    }
    /* the base is the one under which no integral is forbidden, 1 where both fit */
    static const struct {
        const char *text;
        int nirrep, first, from_zero;
    } bases[] = {{"&FCI NORB=2,NELEC=2,ORBSYM=0,1\n/\n0.1 1 1 0 0\n", 2, 0, 1},
                 {"&FCI NORB=2,NELEC=2,ORBSYM=1,2\n/\n0.1 1 1 0 0\n", 2, 0, 0},
                 {"&FCI NORB=3,NELEC=2,ORBSYM=0,5,5\n/\n0.1 2 3 0 0\n", 8, 0, 1},
                 /* 1 x 2 x 4 = 7 from 0 on, and 0 x 1 x 3 = 2, which is not 6, from 1 on */
                 {"&FCI NORB=4,NELEC=2,ORBSYM=1,2,4,7\n/\n0.1 1 2 3 4\n0.1 1 1 0 0\n", 8, 1, 1}};
    for (int k = 0; k < 4; k++) {
        kl_test_case("bases %d", k);
        expect_ok(read_text(bases[k].text, &b, &err), err);
        expect_eq(b->nirrep, bases[k].nirrep);
        expect_eq(b->irrep[0], bases[k].first);
        expect_eq(strstr(b->note, "from 0") != NULL, bases[k].from_zero);
        kl_fcidump_destroy(&b);
    }
    kl_fcidump_destroy(&a);
    expect_eq(kl_mem_live_total(), 0);
}

static void test_refusals(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"", "t:1"},
        {"hello\n", "t:1: an FCIDUMP file begins with &FCI"},
        {"&FCI NORB=2,NELEC=2\n", "ends inside the header"},
        {"&FCI NELEC=2\n/\n", "no NORB"},
        {"&FCI NORB=0\n/\n", "NORB is 0"},
        {"&FCI NORB=2,NORB=3\n/\n", "NORB is given twice, 2 and then 3"},
        {"&FCI NORB=2,NELEC=1,1,0\n/\n", "NELEC holds more than one number: 1 and 1"},
        {"&FCI NORB=2,NELEC=2,MS2=0,0\n/\n", "MS2 holds more than one number"},
        {"&FCI NORB=2,NELEC=2,ORBSYM=1,1,1\n/\n0.1 1 1 0 0\n", "ORBSYM has 3 labels for 2 orbitals"},
        {"&FCI NORB=100000\n/\n", "NORB is 100000"},
        {"&FCI NORB=two\n/\n", "'TWO'"},
        {"&FCI =2\n/\n", "without a name"},
        {"&FCI 7 NORB=2\n/\n", "t:1: '7' stands"},
        {"&FCI NORB=2,ORBSYM=9999999*1\n/\n", "repeated"},
        {"&FCI NORB=2\n/ 0.5 1 1 0 0\n", "behind the end of the header"},
        {"&FCI NORB=2\n/\n0.5 1 1 1\n", "t:3: 3 of 4 indices"},
        {"&FCI NORB=2\n/\n0.5 1 1 1 1 1\n", "t:3: '1' behind"},
        {"&FCI NORB=2\n/\nabc 1 1 1 1\n", "t:3: 'abc'"},
        {"&FCI NORB=2\n/\nnan 1 1 1 1\n", "t:3: 'nan'"},
        {"&FCI NORB=2\n/\n1e999 1 1 1 1\n", "t:3"},
        {"&FCI NORB=2\n/\n0.5 1 3 1 1\n", "t:3: index 2 is 3"},
        {"&FCI NORB=2\n/\n0.5 1 -1 1 1\n", "index 2 is -1"},
        {"&FCI NORB=2\n/\n0.5 1 1 1 0\n", "name no integral"},
        {"&FCI NORB=2\n/\n0.5 0 1 1 1\n", "name no integral"},
        {"&FCI NORB=2\n/\n(0.5,0.5) 1 1 0 0\n", "complex"},
        {"&FCI NORB=2\n/\n0.5 1 2 0 0\n0.25 2 1 0 0\n", "t:4: integral 2 1 0 0 is 0.25 here and 0.5"},
        {"&FCI NORB=2,NELEC=2\n/\n0.5 0 0 0 0\n0.0 0 0 0 0\n", "IUHF=1"},
        {"&FCI NORB=2,NELEC=5\n/\n", "at most 4"},
        {"&FCI NORB=2,NELEC=2,MS2=1\n/\n", "MS2 is 1"},
        {"&FCI NORB=2,NELEC=2,IUHF=1\n/\n0 0 0 0 0\n0 0 0 0 0\n", "ends in part 3"},
        {"&FCI NORB=2,NELEC=2,IUHF=1\n/\n0 0 0 0 0\n0 0 0 0 0\n0.5 1 1 0 0\n",
         "one-electron integral in part 3"},
        {"&FCI NORB=4,NELEC=2,UHF=.TRUE.\n/\n0.5 1 2 0 0\n", "mix spins"},
        {"&FCI NORB=4,NELEC=2,UHF=.MAYBE.\n/\n0.5 1 2 0 0\n", "UHF is '.MAYBE.'"},
        {"&FCI NORB=2,NELEC=2\n/\n0.5 1 1 1 1\n0.5 2 2 1 1\n", "t:5: the file ends with neither"},
    };
    kl_err err;
    kl_fcidump *f = NULL;
    for (size_t k = 0; k < sizeof(bad) / sizeof(*bad); k++) {
        kl_test_case("%s", bad[k][0]);
        if (bad[k][0][0] == '\0') continue; /* fmemopen refuses emptiness */
        expect_refused(read_text(bad[k][0], &f, &err), KL_EINPUT, err, bad[k][1]);
        expect_true(f == NULL);
    }
    /* a byte of zero hid the line that it begins */
    static char zeros[][64] = {"&FCI NORB=2\n/\n0.5 1 1 0 0\n@0.5 1 2 0 0\n",
                               "&FCI NORB=2\n/\n0.5 1 1 0 0@\n", "&FCI NORB=2\n/\n0.5 1 1 0 0@",
                               "&FCI NORB=2@,NELEC=1\n/\n0.5 1 1 0 0\n"};
    static const char *const said[] = {"t:4: the line has a byte", "t:3: the line has a byte",
                                       "t:3: the line has a byte", "NORB is '2?'"};
    for (size_t k = 0; k < sizeof zeros / sizeof *zeros; k++) {
        const size_t n = strlen(zeros[k]);
        *strchr(zeros[k], '@') = '\0';
        FILE *from = fmemopen(zeros[k], n, "rb");
        expect_refused(kl_fcidump_read_stream(from, "t", &f, &err), KL_EINPUT, err, said[k]);
        fclose(from);
    }
    expect_eq(kl_fcidump_read("/nowhere/at.all", &f, &err), KL_EIO);
    expect_eq(kl_mem_live_total(), 0);
}

/* Any byte may change, vanish or be doubled: an answer or a refusal, never a crash, a leak, or a number that
   is not finite. */
static void test_fuzz(void **state)
{
    (void)state;
    static const char *const seed_text[] = {
        plain,
        "&FCI NORB=2,NELEC=2,MS2=0,IUHF=1,ORBSYM=2*1\n&END\n0.7 1 1 1 1\n0 0 0 0 0\n0.7 1 1 1 1\n0 0 0 0 "
        "0\n0.7 1 1 1 1\n0 0 0 0 0\n-1.2 1 1 0 0\n0 0 0 0 0\n"
        "-1.2 1 1 0 0\n0 0 0 0 0\n0.3 0 0 0 0\n",
        "&FCI NORB=4,NELEC=2,UHF=.TRUE.,ORBSYM=1,1,1,1\n&END\n0.7 1 1 1 1\n0.7 1 1 2 2\n0.7D+00 2 2 2 "
        "2\n(0.1,0.0) 3 1 3 1\n-1.2 1 1 0 0\n0.3 0 0 0 0\n",
    };
    static const char spice[] = "0123456789.,-+eEdD()*/&$='\" \n\tFCINORBT";
    uint64_t seed = 20260101;
    int accepted = 0;
    for (int round = 0; round < 6000; round++) {
        char text[2048];
        snprintf(text, sizeof(text) - 64, "%s", seed_text[round % 3]);
        const int changes = 1 + (int)(kl_test_bits(&seed) % 6);
        for (int c = 0; c < changes; c++) {
            const size_t n = strlen(text), at = kl_test_bits(&seed) % n;
            switch (kl_test_bits(&seed) % 4) {
            case 0: text[at] = spice[kl_test_bits(&seed) % (sizeof(spice) - 1)]; break;
            case 1: memmove(text + at, text + at + 1, n - at); break;
            case 2: memmove(text + at + 1, text + at, n - at + 1); break;
            default: text[at] = (char)(1 + kl_test_bits(&seed) % 255); break;
            }
            if (text[0] == '\0') memcpy(text, "&", 2);
        }
        kl_test_case("round %d", round);
        kl_err err = {{0}};
        kl_fcidump *f = NULL;
        if (read_text(text, &f, &err) == KL_OK) {
            accepted++;
            for (int64_t k = 0; k < f->npair * f->npair; k++) expect_true(isfinite(f->eri[2][k]));
            expect_true(isfinite(f->core));
        } else {
            expect_true(f == NULL);
            expect_true(err.text[0] != '\0' && strchr(err.text, '\n') == NULL);
        }
        kl_fcidump_destroy(&f);
    }
    expect_true(accepted > 100);
    expect_eq(kl_mem_live_total(), 0);
}

static void test_allocations(void **state)
{
    (void)state;
    for (int64_t k = 1;; k++) {
        kl_err err;
        kl_fcidump *f = NULL, *g = NULL;
        static const int core[1] = {0}, active[1] = {1};
        kl_test_case("allocation %lld fails", (long long)k);
        kl_mem_fail_after(k);
        kl_status st = read_text(plain, &f, &err);
        if (st == KL_OK) st = kl_fcidump_fold(f, 1, core, 1, active, &g, &err);
        kl_mem_fail_after(0);
        kl_fcidump_destroy(&f);
        kl_fcidump_destroy(&g);
        expect_eq(kl_mem_live_total(), 0);
        if (st == KL_OK) break;
        expect_eq(st, KL_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_variants), cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_fuzz), cmocka_unit_test(test_allocations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
