/* Files and folders that strangers have touched: links and names where something is to be written, folders
   that others can change, texts in result files that mean something to gnuplot or to a shell, and seals with
   one bit changed.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "kl_test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/atomicfile.h"
#include "figure/panels.h"
#include "cli/plot.h"
#include "io/checked.h"

enum { STRANGER = 12345 }; /* a user that is not us */

static char folder[64];

static int enter_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/kronlat-files-XXXXXX");
    return mkdtemp(folder) == NULL || chdir(folder) != 0;
}

static int leave_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "cd / && rm -rf %s", folder);
    return system(command) != 0;
}

static void spill(const char *name, const char *text)
{
    FILE *const f = fopen(name, "w");
    assert_true(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* All that a small file holds. */
static const char *slurp(const char *name)
{
    static char text[256];
    FILE *const f = fopen(name, "r");
    if (f == NULL) return "(no file)";
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

static int is_link(const char *name)
{
    struct stat info;
    return lstat(name, &info) == 0 && S_ISLNK(info.st_mode);
}

/* Writes "new" at path. */
static kl_status replace(const char *path, kl_err *err)
{
    kl_atomic_file p;
    const kl_status st = kl_atomic_open(path, &p, err);
    if (st != KL_OK) return st;
    FILE *const f = kl_atomic_stream(&p);
    assert_true(f != NULL && fputs("new", f) >= 0 && fclose(f) == 0);
    return kl_atomic_publish(&p, err);
}

/* Whatever has the name of the partial file: nothing is written through it. */
static void test_names_in_the_way(void **unused)
{
    (void)unused;
    kl_err err = {""};
    spill("victim", "precious");
    assert_int_equal(symlink("victim", "soft.partial"), 0);
    assert_int_equal(symlink("nowhere", "gone.partial"), 0);
    assert_int_equal(link("victim", "hard.partial"), 0);
    assert_int_equal(mkdir("folder.partial", 0700), 0);
    assert_int_equal(mkfifo("pipe.partial", 0600), 0);
    spill("left.partial", "what a killed process left");
    for (const char *const *name =
             (const char *const[]){"soft", "gone", "hard", "folder", "pipe", "left", NULL};
         *name != NULL; name++) {
        kl_test_case("%s", *name);
        expect_ok(replace(*name, &err), err);
        assert_string_equal(slurp(*name), "new");
    }
    assert_string_equal(slurp("victim"), "precious");
    assert_true(is_link("soft.partial") && is_link("gone.partial") && access("nowhere", F_OK) != 0);
    assert_int_equal(access("left.partial", F_OK), -1); /* its name was taken over */
}

/* A link at the name itself stays; what it points at is replaced, in its own folder. */
static void test_output_links(void **unused)
{
    (void)unused;
    kl_err err = {""};
    char long_text[400];
    assert_int_equal(mkdir("store", 0700), 0);
    spill("store/data", "old");
    assert_int_equal(symlink("store/data", "one"), 0);
    assert_int_equal(symlink("../one", "store/two"), 0);
    assert_int_equal(symlink("store/fresh", "dangling"), 0);
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_int_equal(symlink("store", "door"), 0);
    expect_ok(replace("store/two", &err), err);
    assert_true(is_link("one") && is_link("store/two"));
    assert_string_equal(slurp("store/data"), "new");
    expect_ok(replace("dangling", &err), err);
    assert_true(is_link("dangling"));
    assert_string_equal(slurp("store/fresh"), "new");
    expect_refused(replace("loop", &err), KL_EIO, err, "Too many levels");
    expect_refused(replace("door", &err), KL_EINPUT, err, "no ordinary file");
    expect_refused(replace("door/", &err), KL_EINPUT, err, "no ordinary file");
    expect_refused(replace("nowhere/x", &err), KL_EIO, err, "No such file");
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    expect_refused(replace(long_text, &err), KL_EINPUT, err, "too long");
    expect_ok(replace("door/fresh", &err), err); /* links in the path of the name are the user's business */
}

static void test_foreign_names(void **unused)
{
    (void)unused;
    kl_err err = {""};
    if (geteuid() != 0) skip(); /* only root can make a file of another user */
    spill("mine", "precious");
    assert_int_equal(symlink("mine", "bait"), 0);
    assert_int_equal(lchown("bait", STRANGER, STRANGER), 0);
    expect_refused(replace("bait", &err), KL_EINPUT, err, "link of user 12345");
    assert_string_equal(slurp("mine"), "precious");
    spill("ours.partial", "of another user");
    assert_int_equal(chown("ours.partial", STRANGER, STRANGER), 0);
    expect_ok(replace("ours", &err), err);
    assert_string_equal(slurp("ours.partial"), "of another user");
}

static kl_status open_folder(const char *path, int make, kl_err *err)
{
    int fd;
    const kl_status st = kl_folder_open_own(path, make, &fd, err);
    assert_true((fd >= 0) == (st == KL_OK));
    if (fd >= 0) close(fd);
    return st;
}

static void test_folders(void **unused)
{
    (void)unused;
    kl_err err = {""};
    struct stat info;
    expect_refused(open_folder("a/b", 0, &err), KL_EABSENT, err, "No such file");
    expect_ok(open_folder("a/b//c/", 1, &err), err);
    assert_true(stat("a/b/c", &info) == 0 && (info.st_mode & 0777) == 0700);
    expect_ok(open_folder("a/./b/../b", 0, &err), err);
    assert_int_equal(symlink("a", "to_a"), 0);
    expect_ok(open_folder("to_a/b/d", 1, &err), err);
    assert_int_equal(stat("a/b/d", &info), 0);
    assert_int_equal(symlink("round", "round"), 0);
    expect_refused(open_folder("round", 1, &err), KL_EIO, err, "Too many levels");
    spill("a/file", "");
    expect_refused(open_folder("a/file/x", 1, &err), KL_EIO, err, "Not a directory");

    assert_int_equal(mkdir("open", 0700), 0);
    assert_int_equal(chmod("open", 0777), 0);
    expect_refused(open_folder("open/x", 1, &err), KL_EINPUT, err, "all users can write");
    assert_int_equal(access("open/x", F_OK), -1);
    assert_int_equal(chmod("open", 01777), 0); /* as /tmp is */
    expect_ok(open_folder("open/x", 1, &err), err);
    expect_refused(open_folder("open", 1, &err), KL_EINPUT, err, "all users can write");
    if (geteuid() != 0) return;
    assert_int_equal(chown("a/b", STRANGER, STRANGER), 0);
    expect_refused(open_folder("a/b/c", 1, &err), KL_EINPUT, err, "user 12345");
    assert_int_equal(lchown("to_a", STRANGER, STRANGER), 0);
    expect_refused(open_folder("to_a", 1, &err), KL_EINPUT, err, "user 12345");
}

/* Nothing but letters, digits, plain signs and numbered bytes, whatever the text is. */
static void test_quote(void **unused)
{
    (void)unused;
    uint64_t random = 8;
    char text[64], *quoted = NULL;
    size_t size = 0;
    for (int round = 0; round < 20000; round++) {
        const int n = (int)(kl_random_next(&random) % sizeof text);
        for (int i = 0; i < n; i++) text[i] = (char)(1 + kl_random_next(&random) % 255);
        text[n] = '\0';
        FILE *const to = open_memstream(&quoted, &size);
        kl_plot_quote(to, text);
        fclose(to);
        assert_true(size >= 2 && quoted[0] == '"' && quoted[size - 1] == '"');
        for (size_t i = 1; i < size - 1; i++) {
            if (quoted[i] == '\\') {
                assert_true(strspn(quoted + i + 1, "01234567") >= 3);
                i += 3;
            } else if (strchr("\"'`$@#|<>{}[]&!%^*~\n\r", quoted[i]) != NULL) {
                fail_msg("round %d: %s", round, quoted);
            }
        }
        free(quoted);
    }
}

static const char *const hostile[] = {"|touch CANARY",
                                      "<touch CANARY",
                                      "`touch CANARY`",
                                      "$(touch CANARY)",
                                      "'\nsystem('touch CANARY')\n'",
                                      "\"\n!touch CANARY\n\"",
                                      "\\",
                                      "\\\"",
                                      "''",
                                      "'",
                                      "\"",
                                      "@x",
                                      "#",
                                      "\n",
                                      "\r\n!touch CANARY\n",
                                      "$energy",
                                      "EOD\n",
                                      "{/Symbol a}",
                                      "%s%n",
                                      "\xff\xfe",
                                      "\033[2J",
                                      "caf\xc3\xa9",
                                      "</text><script>alert(1)</script>",
                                      "&amp;",
                                      "`touch CANARY>&2`",
                                      "'.system(\"touch CANARY\").'"};
enum { NHOSTILE = sizeof hostile / sizeof hostile[0] };

static char *any_text(uint64_t *random)
{
    char text[256] = "";
    const int n = 1 + (int)(kl_random_next(random) % 3);
    for (int i = 0; i < n; i++) strcat(text, hostile[kl_random_next(random) % NHOSTILE]);
    return kl_strdup(text);
}

/* A result of a stranger: all of its texts are hostile. */
static kl_result *hostile_result(uint64_t *random)
{
    enum { NSITE = 4 };
    static const double value[NSITE * 2] = {0, 1, 1, 2, 2, 0.5, 3, 1};
    static const int64_t profile = NSITE, curve[2] = {NSITE, 2};
    kl_err err = {""};
    kl_result *r = NULL;
    expect_ok(kl_alloc(&r, 1, KL_MEM_MISC, &err), err);
    char **const text[] = {&r->program, &r->command_line, &r->options, &r->model,
                           &r->variant, &r->formula,      &r->lattice};
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) *text[i] = any_text(random);
    r->nsite = NSITE;
    expect_ok(kl_alloc(&r->charge, 1, KL_MEM_MISC, &err), err);
    r->ncharge = 1;
    r->charge[0] = (kl_result_charge){.name = any_text(random), .unit_num = 1, .unit_den = 1};
    for (int k = 0; k < 4; k++) {
        char name[300], *tail = any_text(random);
        snprintf(name, sizeof name, "%s%s", k == 0 ? "spectral/" : "", tail);
        expect_ok(kl_result_add(r, name, tail, k == 0 ? 2 : 1, k == 0 ? curve : &profile, value, &err), err);
        kl_free(&tail);
    }
    return r;
}

static void test_hostile_plots(void **unused)
{
    (void)unused;
    kl_err err = {""};
    uint64_t random = 30;
    if (system("command -v gnuplot >/dev/null") != 0) skip();
    const int rounds = kl_test_rounds(24);
    for (int round = 0; round < rounds; round++) {
        static const char *const ending[] = {".svg", ".png", ".pdf"};
        char output[300], *name = any_text(&random);
        kl_result *r = hostile_result(&random);
        snprintf(output, sizeof output, "%s%s", name, ending[round % 3]);
        for (char *c = output; *c != '\0'; c++)
            if (*c == '/') *c = '_';
        kl_test_case("round %d, output %s", round, output);
        kl_figure f = {.npanel = 0};
        expect_ok(kl_panels_one(r, &f, &err), err);
        expect_ok(kl_figure_draw(&f, (kl_figure_look){1 + round % 2, round % 4 < 2}, output, &err), err);
        kl_figure_clear(&f);
        assert_int_equal(access(output, F_OK), 0);
        assert_int_equal(access("CANARY", F_OK), -1);
        if (round % 3 == 0) {
            char command[128];
            assert_int_equal(rename(output, "page.svg"), 0);
            snprintf(command, sizeof command, "! grep -q '<script' page.svg");
            assert_int_equal(system(command), 0);
        }
        kl_free(&name);
        kl_result_destroy(&r);
    }
}

/* Every bit of the checksum block counts, and no HDF5 is asked about a file whose checksum block is
   broken. */
static void test_seal(void **unused)
{
    (void)unused;
    enum { CHECKSUM = 512 };
    kl_err err = {""};
    kl_checked f;
    kl_h5_in in;
    expect_ok(kl_checked_create("checked.h5", 1 << 16, &f, &err), err);
    kl_h5_put_int(&f.out, f.out.file, "seed", 7);
    expect_ok(kl_checked_finish(&f, KL_OK, &err), err);
    expect_ok(kl_checked_open("checked.h5", &in, &err), err);
    kl_checked_close(&in);
    const int fd = open("checked.h5", O_RDWR);
    assert_true(fd >= 0);
    for (int bit = 0; bit < 8 * CHECKSUM; bit++) {
        unsigned char was, now;
        assert_int_equal(pread(fd, &was, 1, bit / 8), 1);
        now = (unsigned char)(was ^ 1 << bit % 8);
        assert_int_equal(pwrite(fd, &now, 1, bit / 8), 1);
        if (kl_checked_open("checked.h5", &in, &err) != KL_EINPUT)
            fail_msg("bit %d of the checksum block is not seen", bit);
        assert_int_equal(pwrite(fd, &was, 1, bit / 8), 1);
    }
    close(fd);
    expect_ok(kl_checked_open("checked.h5", &in, &err), err);
    kl_checked_close(&in);
    assert_int_equal(mkfifo("pipe.h5", 0600), 0);
    expect_refused(kl_checked_open("pipe.h5", &in, &err), KL_EIO, err, "ordinary");
}

/* A file too large for one thread: pieces have hashes of their own. Where its bytes are right HDF5 is asked,
   and refuses. One that was made before is read as well. */
static void test_large_seal(void **unused)
{
    (void)unused;
    enum {
        CHECKSUM = 512,
        PIECE = 1 << 24,
        PIECES = 5,
    };
    const int64_t size = CHECKSUM + (int64_t)PIECES * PIECE + 3;
    kl_err err = {""};
    kl_h5_in in;
    char block[CHECKSUM] = "";
    const int fd = open("large.h5", O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0 && ftruncate(fd, size) == 0);
    for (int p = 0; p < PIECES; p++) assert_int_equal(pwrite(fd, &p, 1, CHECKSUM + (int64_t)p * PIECE), 1);
    expect_ok(kl_checked_renew("large.h5", &err), err);
    assert_int_equal(pread(fd, block, CHECKSUM, 0), CHECKSUM);
    assert_true(strncmp(block, "kronlat result 3 ", 17) == 0);
    expect_refused(kl_checked_open("large.h5", &in, &err), KL_EINPUT, err, "HDF5");
    for (int p = 0; p < PIECES; p++) { /* as a piece in another's place would have it, and at its end */
        const unsigned char next = (unsigned char)(p + 1), was = (unsigned char)p, one = 1, zero = 0;
        const int64_t at = CHECKSUM + (int64_t)p * PIECE, end = at + PIECE - 1 + (p + 1 == PIECES ? 3 : 0);
        assert_int_equal(pwrite(fd, &next, 1, at), 1);
        expect_refused(kl_checked_open("large.h5", &in, &err), KL_EINPUT, err, "checksum");
        assert_int_equal(pwrite(fd, &was, 1, at), 1);
        assert_int_equal(pwrite(fd, &one, 1, end), 1);
        expect_refused(kl_checked_open("large.h5", &in, &err), KL_EINPUT, err, "checksum");
        assert_int_equal(pwrite(fd, &zero, 1, end), 1);
    }
    uint64_t hash = KL_HASH_EMPTY;
    for (int64_t at = 0; at < size - CHECKSUM; at += 8)
        hash = kl_hash_mix(hash, at % PIECE == 0 ? (uint64_t)(at / PIECE < PIECES ? at / PIECE : 0) : 0);
    hash = kl_hash_mix(hash, (uint64_t)size);
    memset(block, 0, CHECKSUM);
    snprintf(block, CHECKSUM, "kronlat result 2 (HDF5 from byte 512 on)\nbytes %lld\nhash %016llx\n",
             (long long)size, (unsigned long long)hash);
    assert_int_equal(pwrite(fd, block, CHECKSUM, 0), CHECKSUM);
    expect_refused(kl_checked_open("large.h5", &in, &err), KL_EINPUT, err, "HDF5");
    assert_int_equal(ftruncate(fd, size - 1), 0);
    expect_refused(kl_checked_open("large.h5", &in, &err), KL_EINPUT, err, "cut short");
    close(fd);
    assert_int_equal(unlink("large.h5"), 0);
}

/* What a terminal would obey is not printed. */
static void test_texts(void **unused)
{
    (void)unused;
    kl_err err = {""};
    kl_checked f;
    kl_h5_in in;
    char *text = NULL, name[KL_H5_MAX_NAME];
    const double one = 1.0;
    expect_ok(kl_checked_create("texts.h5", 1 << 16, &f, &err), err);
    kl_h5_put_text(&f.out, f.out.file, "model",
                   "a\033[2Jb\tc\nd\177\xc2\x9b"
                   "e caf\xc3\xa9");
    kl_h5_put_reals(&f.out, f.out.file, "x\033[2J", 1, &one, NULL);
    expect_ok(kl_checked_finish(&f, KL_OK, &err), err);
    expect_ok(kl_checked_open("texts.h5", &in, &err), err);
    expect_ok(kl_h5_get_text(&in, in.file, "model", &text, &err), err);
    assert_string_equal(text, "a?[2Jb\tc\nd???e caf\xc3\xa9");
    expect_refused(kl_h5_link_name(&in, in.file, 0, name, &err), KL_EINPUT, err, "control character");
    kl_free(&text);
    kl_checked_close(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_in_the_way),
        cmocka_unit_test(test_output_links),
        cmocka_unit_test(test_foreign_names),
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_quote),
        cmocka_unit_test(test_hostile_plots),
        cmocka_unit_test(test_seal),
        cmocka_unit_test(test_large_seal),
        cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
