/* Models found by name and by file: built in, compiled into a cache of the test's own, loaded from it again; every way in which that can fail
   has its one line.
   SPDX-License-Identifier: Apache-2.0 */
#include "mem.h"
#include "modelcache.h"
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char root[] = "/tmp/kronlat_cache_XXXXXX", cache[64], mine[64];

static const char good[] = "-- H = J sum_<ij> Sz_i Sz_j\nstructural { S = 1/2 }\nsite(spin(S))\nconserve \"Sz\"\nparameters { J = 1 }\nbond(\"nn\", J * Sz(i)*Sz(j))\n";

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void remove_tree(const char *path)
{
    DIR *d = opendir(path);
    char inner[1024];
    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (unlink(inner) != 0) remove_tree(inner);
    }
    if (d != NULL) closedir(d);
    rmdir(path);
}

static int files_in(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) n += e->d_name[0] != '.';
    if (d != NULL) closedir(d);
    return n;
}

static int fresh(void **state)
{
    (void)state;
    remove_tree(cache);
    setenv("KRONLAT_CACHE", cache, 1);
    unsetenv("KRONLAT_LUA");
    unsetenv("CC");
    write_file(mine, good);
    return 0;
}

static const kl_model *find(const char *what, const char *const *structural, kl_model_origin origin)
{
    const kl_model *m = NULL;
    kl_modelcache_info info;
    kl_err err = {""};
    if (kl_model_find(what, structural, NULL, &m, &info, &err) != KL_OK) fail_msg("%s: %s", what, err.text);
    assert_int_equal(info.origin, origin);
    assert_true((info.object[0] != 0) == (origin != KL_MODEL_BUILTIN));
    assert_int_equal(kl_mem_live_total(), 0);
    return m;
}

static void refuse(const char *what, const char *const *structural, const char *const *words)
{
    const kl_model *m = NULL;
    kl_err err = {""};
    if (kl_model_find(what, structural, NULL, &m, NULL, &err) == KL_OK) fail_msg("%s was found", what);
    assert_null(m);
    assert_null(strchr(err.text, '\n'));
    for (; *words != NULL; words++)
        if (strstr(err.text, *words) == NULL) fail_msg("\"%s\" does not say \"%s\"", err.text, *words);
    assert_int_equal(kl_mem_live_total(), 0);
}

static void test_builtin(void **state)
{
    (void)state;
    assert_string_equal(find("heisenberg", NULL, KL_MODEL_BUILTIN)->variant, "S=1/2");
    assert_string_equal(find("heisenberg", (const char *[]){"S=0.5", NULL}, KL_MODEL_BUILTIN)->variant, "S=1/2");
    assert_string_equal(find("heisenberg", (const char *[]){"S=1", NULL}, KL_MODEL_BUILTIN)->variant, "S=1");
    assert_int_equal(access(cache, F_OK), -1); /* nothing was made */
}

static void test_compiled(void **state)
{
    (void)state;
    const kl_model *a = find("heisenberg", (const char *[]){"S=3/2", NULL}, KL_MODEL_COMPILED);
    assert_string_equal(a->variant, "S=3/2");
    assert_string_equal(a->name, "heisenberg");
    assert_int_equal(a->type[0].dim, 4);
    assert_int_equal(files_in(cache), 1); /* one object, nothing left over */
    struct stat info;
    assert_int_equal(stat(cache, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_ptr_equal(find("heisenberg", (const char *[]){"S=3/2", NULL}, KL_MODEL_CACHED), a);

    assert_int_equal(find(mine, NULL, KL_MODEL_COMPILED)->nterm, 1);
    find(mine, NULL, KL_MODEL_CACHED);
    assert_int_equal(find(mine, (const char *[]){"S=1", NULL}, KL_MODEL_COMPILED)->type[0].dim, 3);
    char changed[512];
    snprintf(changed, sizeof changed, "%sonsite(J * Sz(i)^2)\n", good);
    write_file(mine, changed);
    assert_int_equal(find(mine, NULL, KL_MODEL_COMPILED)->nterm, 2);
    assert_int_equal(files_in(cache), 4);
}

/* An object that was cut short, scribbled in, or put there by others is made again, never run. */
static void test_damaged(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        kl_modelcache_info info;
        const kl_model *m = NULL;
        kl_err err = {""};
        char text[256];
        snprintf(text, sizeof text, "%s-- %d\n", good, how); /* another name each time: the one before stays mapped */
        write_file(mine, text);
        if (kl_model_find(mine, NULL, NULL, &m, &info, &err) != KL_OK) fail_msg("%s", err.text);
        char copy[1100];
        snprintf(copy, sizeof copy, "%s.copy", info.object);
        FILE *in = fopen(info.object, "rb"), *to = fopen(copy, "wb");
        int c;
        for (long n = 0; (c = getc(in)) != EOF && !(how == 0 && n == 3000); n++) putc(how == 1 && n == 2000 ? c ^ 1 : c, to);
        if (how == 2) fputs("more", to);
        fclose(in);
        fclose(to);
        if (how == 3) chmod(copy, 0666);
        else chmod(copy, 0600);
        assert_int_equal(rename(copy, info.object), 0);
        assert_int_equal(kl_model_find(mine, NULL, NULL, &m, &info, &err), KL_OK);
        assert_int_equal(info.origin, KL_MODEL_COMPILED);
    }
}

static void test_refusals(void **state)
{
    char at[80];
    (void)state;
    refuse("hiesenberg", NULL, (const char *[]){"\"hiesenberg\"", "did you mean heisenberg?", "hubbard", NULL});
    refuse("/nowhere/x.lua", NULL, (const char *[]){"/nowhere/x.lua", "No such file", NULL});
    refuse("heisenberg", (const char *[]){"S", NULL}, (const char *[]){"\"S\"", "NAME=VALUE", NULL});
    refuse("heisenberg", (const char *[]){"Q=1", NULL}, (const char *[]){"heisenberg.lua:", "Q", NULL});
    refuse("heisenberg", (const char *[]){"S=0.3", NULL}, (const char *[]){"heisenberg.lua:", NULL});
    write_file(mine, "-- H\nsite(spin(1/2))\nconserve \"Sz\"\nbond(\"nn\", Sp(i)*Sp(j))\n");
    snprintf(at, sizeof at, "%s:4: ", mine);
    refuse(mine, NULL, (const char *[]){at, NULL});
    write_file(mine, "-- H\nsite(\n");
    snprintf(at, sizeof at, "%s:", mine);
    refuse(mine, NULL, (const char *[]){at, NULL});
    assert_int_equal(files_in(cache), 0);
}

static void test_tools(void **state)
{
    (void)state;
    setenv("KRONLAT_LUA", "/nowhere/lua", 1);
    refuse(mine, NULL, (const char *[]){mine, "no Lua 5.4", "/nowhere/lua", NULL});
    setenv("KRONLAT_LUA", "false", 1);
    refuse(mine, NULL, (const char *[]){mine, "generator failed", NULL});
    unsetenv("KRONLAT_LUA");
    setenv("CC", "/nowhere/cc -O9", 1);
    refuse(mine, NULL, (const char *[]){mine, "no C compiler", "/nowhere/cc", NULL});
    setenv("CC", "cc -Dkl_model=@", 1);
    refuse(mine, NULL, (const char *[]){mine, "does not compile", "error:", NULL});
    setenv("CC", "cc -O1", 1); /* words, no shell */
    find(mine, NULL, KL_MODEL_COMPILED);
    assert_int_equal(files_in(cache), 1);
}

static void test_folders(void **state)
{
    char file[80], deep[128];
    (void)state;
    snprintf(file, sizeof file, "%s/file", root);
    write_file(file, "x");
    setenv("KRONLAT_CACHE", file, 1);
    refuse(mine, NULL, (const char *[]){file, "not a folder", "KRONLAT_CACHE", NULL});
    snprintf(deep, sizeof deep, "%s/file/below", root);
    setenv("KRONLAT_CACHE", deep, 1);
    refuse(mine, NULL, (const char *[]){deep, "Not a directory", NULL});
    snprintf(deep, sizeof deep, "%s/open", root);
    assert_int_equal(mkdir(deep, 0700), 0);
    assert_int_equal(chmod(deep, 0777), 0);
    setenv("KRONLAT_CACHE", deep, 1);
    refuse(mine, NULL, (const char *[]){deep, "written by other users", NULL});
    if (geteuid() == 0) {
        chmod(deep, 0700);
        assert_int_equal(chown(deep, 12345, 12345), 0);
        refuse(mine, NULL, (const char *[]){deep, "another user", NULL});
        assert_int_equal(chown(deep, 0, 0), 0);
        setenv("KRONLAT_CACHE", "/proc/kronlat", 1); /* where even root cannot write */
        refuse(mine, NULL, (const char *[]){"/proc/kronlat", NULL});
    } else {
        chmod(deep, 0500);
        refuse(mine, NULL, (const char *[]){deep, "Permission denied", NULL});
        chmod(deep, 0700);
    }
    snprintf(deep, sizeof deep, "%s/a/b/c", root);
    setenv("KRONLAT_CACHE", deep, 1);
    find(mine, NULL, KL_MODEL_COMPILED);

    unsetenv("KRONLAT_CACHE");
    setenv("XDG_CACHE_HOME", root, 1);
    find(mine, NULL, KL_MODEL_COMPILED);
    snprintf(deep, sizeof deep, "%s/kronlat", root);
    assert_int_equal(files_in(deep), 1);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", root, 1);
    find(mine, NULL, KL_MODEL_COMPILED);
    snprintf(deep, sizeof deep, "%s/.cache/kronlat", root);
    assert_int_equal(files_in(deep), 1);
    unsetenv("HOME");
    refuse(mine, NULL, (const char *[]){"KRONLAT_CACHE", "HOME", NULL});

    const char *data = getenv("KRONLAT_DATA");
    char kept[1024];
    snprintf(kept, sizeof kept, "%s", data != NULL ? data : "");
    setenv("KRONLAT_DATA", root, 1);
    refuse(mine, NULL, (const char *[]){"KRONLAT_DATA", root, "gen/gen.lua", NULL});
    if (kept[0] != 0) setenv("KRONLAT_DATA", kept, 1);
    else unsetenv("KRONLAT_DATA");
}

static void test_no_memory(void **state)
{
    (void)state;
    find(mine, NULL, KL_MODEL_COMPILED);
    for (int64_t k = 1; k < 400; k++) {
        const kl_model *m = NULL;
        kl_err err = {""};
        kl_mem_fail_after(k);
        const kl_status st = kl_model_find(mine, NULL, NULL, &m, NULL, &err);
        kl_mem_fail_after(0);
        assert_int_equal(kl_mem_live_total(), 0);
        if (st == KL_OK) return;
    }
    fail_msg("more than 400 allocations");
}

int main(void)
{
    if (mkdtemp(root) == NULL) return 1;
    snprintf(cache, sizeof cache, "%s/cache", root);
    snprintf(mine, sizeof mine, "%s/mine.lua", root);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_builtin, fresh), cmocka_unit_test_setup(test_compiled, fresh), cmocka_unit_test_setup(test_damaged, fresh),
        cmocka_unit_test_setup(test_refusals, fresh), cmocka_unit_test_setup(test_tools, fresh),   cmocka_unit_test_setup(test_folders, fresh),
        cmocka_unit_test_setup(test_no_memory, fresh),
    };
    const int bad = cmocka_run_group_tests(tests, NULL, NULL);
    remove_tree(root);
    return bad;
}
