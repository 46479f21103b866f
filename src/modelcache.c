/* Finds a model by name or file: built in, or generated and compiled into the user's cache and loaded from there.
   1. a built-in variant that fits is taken; 2. else the model file is found and everything that enters its tables is hashed into a file name;
   3. a sealed object of that name in the cache is loaded; 4. else generator and compiler run, and the object is sealed and renamed into place.
   SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* pipe2, ST_NOEXEC */
#include "modelcache.h"
#include "config.h"
#include "mem.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENTRY "kl_model_entry"
#define MAX_FILE (1 << 26)
#define MAX_WORDS 128

extern char **environ;

/* ---- hashing ---- */

typedef struct digest {
    uint64_t a, b;
} digest;

static void digest_bytes(digest *d, const void *data, int64_t n)
{
    const unsigned char *c = data;
    for (int64_t i = 0; i < n; i++) {
        d->a = (d->a ^ c[i]) * 0x100000001b3u;
        d->b = (d->b + c[i] + 1) * 0x9e3779b97f4a7c15u;
        d->b ^= d->b >> 31;
    }
}

/* With its end, so that ("ab", "c") and ("a", "bc") differ. */
static void digest_text(digest *d, const char *text)
{
    digest_bytes(d, text, (int64_t)strlen(text) + 1);
}

static const digest digest_start = {0xcbf29ce484222325u, 0x243f6a8885a308d3u};

static kl_status read_file(const char *path, char **out, int64_t *size, kl_err *err)
{
    kl_status st = KL_OK;
    char *text = NULL;
    struct stat info;
    int64_t n = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return kl_fail(err, errno == ENOENT ? KL_EINPUT : KL_EIO, "%.400s cannot be opened: %s", path, strerror(errno));
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > MAX_FILE) {
        st = kl_fail(err, KL_EINPUT, "%.400s is not a file of at most %d bytes", path, MAX_FILE);
        goto out;
    }
    KL_TRY(kl_alloc(&text, (int64_t)info.st_size + 1, KL_MEM_MISC, err));
    while (n < info.st_size) {
        const ssize_t got = read(fd, text + n, (size_t)(info.st_size - n));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            st = kl_fail(err, KL_EIO, "%.400s cannot be read: %s", path, strerror(errno));
            goto out;
        }
        if (got == 0) break;
        n += got;
    }
    text[n] = 0;
    *out = text;
    *size = n;
    text = NULL;
out:
    kl_free(&text);
    close(fd);
    return st;
}

static kl_status digest_file(digest *d, const char *path, kl_err *err)
{
    kl_status st = KL_OK;
    char *text = NULL;
    int64_t n = 0;
    KL_TRY(read_file(path, &text, &n, err));
    digest_bytes(d, &n, sizeof n);
    digest_bytes(d, text, n);
out:
    kl_free(&text);
    return st;
}

/* dir/name into path; a path that is cut would name another file. */
static kl_status join(char *path, size_t size, const char *dir, const char *name, kl_err *err)
{
    const int n = snprintf(path, size, "%s/%s", dir, name);
    if (n < 0 || (size_t)n >= size) return kl_fail(err, KL_EINPUT, "the path %.200s/%.200s is too long", dir, name);
    return KL_OK;
}

static int ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names in dir that end so, sorted, the list ending in NULL; to be freed by free_names. */
static kl_status list_names(const char *dir, const char *end, char ***out, int *count, kl_err *err)
{
    kl_status st = KL_OK;
    char **name = NULL;
    int n = 0;
    DIR *d = opendir(dir);
    if (d == NULL) return kl_fail(err, KL_EINPUT, "the folder %.400s cannot be opened: %s", dir, strerror(errno));
    KL_TRY(kl_alloc(&name, 1, KL_MEM_MISC, err));
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        if (e->d_name[0] == '.' || !ends_with(e->d_name, end)) continue;
        KL_TRY(kl_realloc(&name, n + 2, KL_MEM_MISC, err));
        name[n + 1] = NULL;
        name[n] = kl_strdup(e->d_name);
        if (name[n] == NULL) {
            st = kl_fail(err, KL_ENOMEM, "out of memory for a list of files");
            goto out;
        }
        n++;
    }
    qsort(name, (size_t)n, sizeof *name, compare_names);
    *out = name;
    *count = n;
    name = NULL;
out:
    closedir(d);
    for (int k = 0; name != NULL && k < n; k++) kl_free(&name[k]);
    kl_free(&name);
    return st;
}

static void free_names(char ***name, int n)
{
    for (int k = 0; *name != NULL && k < n; k++) kl_free(&(*name)[k]);
    kl_free(name);
}

static kl_status digest_folder(digest *d, const char *dir, const char *end, kl_err *err)
{
    kl_status st = KL_OK;
    char **name = NULL, path[PATH_MAX];
    int n = 0;
    KL_TRY(list_names(dir, end, &name, &n, err));
    for (int k = 0; k < n; k++) {
        digest_text(d, name[k]);
        KL_TRY(join(path, sizeof path, dir, name[k], err));
        KL_TRY(digest_file(d, path, err));
    }
out:
    free_names(&name, n);
    return st;
}

/* ---- running a program ---- */

typedef struct outcome {
    int started;    /* 0: there is no such program */
    int status;     /* exit status, or 128 + signal */
    char text[8192]; /* beginning of its stderr */
} outcome;

/* Runs argv with stdout and stdin on /dev/null, messages in English; argv[0] is searched in PATH. */
static kl_status run_program(const char *const *argv, outcome *o, kl_err *err)
{
    kl_status st = KL_OK;
    posix_spawn_file_actions_t act;
    const char **env = NULL;
    int pipe_end[2] = {-1, -1}, have_act = 0, n = 0;
    pid_t pid = 0;
    size_t used = 0;
    *o = (outcome){0, 0, ""};
    while (environ[n] != NULL) n++;
    KL_TRY(kl_alloc(&env, n + 2, KL_MEM_MISC, err));
    int kept = 0;
    for (int k = 0; k < n; k++)
        if (strncmp(environ[k], "LC_ALL=", 7) != 0 && strncmp(environ[k], "LANGUAGE=", 9) != 0) env[kept++] = environ[k];
    env[kept] = "LC_ALL=C";
    if (pipe2(pipe_end, O_CLOEXEC) != 0 || posix_spawn_file_actions_init(&act) != 0) {
        st = kl_fail(err, KL_EIO, "cannot start %.200s: %s", argv[0], strerror(errno));
        goto out;
    }
    have_act = 1;
    int bad = posix_spawn_file_actions_addopen(&act, 0, "/dev/null", O_RDONLY, 0);
    if (bad == 0) bad = posix_spawn_file_actions_addopen(&act, 1, "/dev/null", O_WRONLY, 0);
    if (bad == 0) bad = posix_spawn_file_actions_adddup2(&act, pipe_end[1], 2);
    if (bad == 0) bad = posix_spawnp(&pid, argv[0], &act, NULL, (char *const *)argv, (char *const *)env);
    if (bad == ENOENT || bad == EACCES || bad == ENOTDIR) goto out;
    if (bad != 0) {
        st = kl_fail(err, KL_EIO, "cannot start %.200s: %s", argv[0], strerror(bad));
        goto out;
    }
    o->started = 1;
    close(pipe_end[1]);
    pipe_end[1] = -1;
    for (;;) {
        char rest[4096];
        const size_t room = sizeof o->text - 1 - used;
        const ssize_t got = read(pipe_end[0], room > 0 ? o->text + used : rest, room > 0 ? room : sizeof rest);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        if (room > 0) used += (size_t)got;
    }
    o->text[used] = 0;
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) {
            st = kl_fail(err, KL_EIO, "lost sight of %.200s: %s", argv[0], strerror(errno));
            goto out;
        }
    o->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
out:
    if (have_act) posix_spawn_file_actions_destroy(&act);
    for (int k = 0; k < 2; k++)
        if (pipe_end[k] >= 0) close(pipe_end[k]);
    kl_free(&env);
    return st;
}

/* The first line that holds mark, or the first that is not empty; cut out of text. */
static const char *first_line(char *text, const char *mark)
{
    char *line = mark != NULL ? strstr(text, mark) : NULL;
    if (line == NULL) line = text + strspn(text, "\r\n");
    while (line > text && line[-1] != '\n') line--;
    line[strcspn(line, "\r\n")] = 0;
    return line[0] != 0 ? line : "it said nothing";
}

/* ---- where things are ---- */

static int is_gen_dir(const char *dir)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/gen.lua", dir);
    return n > 0 && n < (int)sizeof path && access(path, R_OK) == 0;
}

kl_status kl_modelcache_gen_dir(char *dir, size_t size, kl_err *err)
{
    const char *named = getenv("KRONLAT_DATA");
    const char *const place[] = {named, KL_DATADIR, KL_SOURCE_DIR};
    if (named != NULL && named[0] != 0) {
        const int n = snprintf(dir, size, "%s/gen", named);
        if (n > 0 && (size_t)n < size && is_gen_dir(dir)) return KL_OK;
        return kl_fail(err, KL_EINPUT, "the generator of models is not in KRONLAT_DATA=%.300s: there is no gen/gen.lua", named);
    }
    for (int k = 1; k < 3; k++) {
        const int n = snprintf(dir, size, "%s/gen", place[k]);
        if (n > 0 && (size_t)n < size && is_gen_dir(dir)) return KL_OK;
    }
    return kl_fail(err, KL_EABSENT, "the generator of models is neither in %s nor in %s: set KRONLAT_DATA to a folder with gen/, templates/, models/ and src/",
                   KL_DATADIR, KL_SOURCE_DIR);
}

/* reason: empty, or "cannot ...: " before what the system says. */
static kl_status refuse_cache(const char *dir, const char *reason, const char *why, kl_err *err)
{
    return kl_fail(err, KL_EIO, "the cache folder of generated models, %.300s, %s%s; set KRONLAT_CACHE to another folder", dir, reason, why);
}

/* Makes the folder and those above it, and checks that nobody else may put objects into it. */
static kl_status cache_dir(char *dir, size_t size, kl_err *err)
{
    const char *named = getenv("KRONLAT_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = 0;
    if (named != NULL && named[0] != 0) n = snprintf(dir, size, "%s", named);
    else if (xdg != NULL && xdg[0] == '/') n = snprintf(dir, size, "%s/kronlat", xdg);
    else if (home != NULL && home[0] != 0) n = snprintf(dir, size, "%s/.cache/kronlat", home);
    else return kl_fail(err, KL_EINPUT, "there is no folder for generated models: none of KRONLAT_CACHE, XDG_CACHE_HOME and HOME is set");
    if (n < 0 || (size_t)n + 64 >= size) return kl_fail(err, KL_EINPUT, "the path of the cache folder, %.200s..., is too long", dir);
    for (char *slash = strchr(dir + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash != NULL) *slash = 0;
        const int made = mkdir(dir, 0700), why = errno;
        const int fine = made == 0 || why == EEXIST || (slash != NULL && access(dir, F_OK) == 0);
        if (!fine) return refuse_cache(dir, "cannot be made or used: ", strerror(why), err);
        if (slash == NULL) break;
        *slash = '/';
    }
    struct stat info;
    if (stat(dir, &info) != 0) return refuse_cache(dir, "cannot be made or used: ", strerror(errno), err);
    if (!S_ISDIR(info.st_mode)) return refuse_cache(dir, "", "is not a folder", err);
    if (info.st_uid != geteuid()) return refuse_cache(dir, "", "belongs to another user, whose code would run as you", err);
    if ((info.st_mode & 022) != 0) return refuse_cache(dir, "", "can be written by other users (chmod 700 mends it)", err);
    return KL_OK;
}

/* ---- built-in models ---- */

/* Does "S=1/2,F=1" hold the setting "S=0.5"? */
static int variant_has(const char *variant, const char *setting)
{
    const size_t name = strcspn(setting, "=");
    for (const char *v = variant; *v != 0;) {
        char value[64];
        v += strspn(v, ", ;");
        const size_t n = strcspn(v, ",;"), key = strcspn(v, "=");
        if (key == name && key < n && strncmp(v, setting, name) == 0 && n - key - 1 < sizeof value && setting[name] == '=') {
            double a = 0.0, b = 1.0;
            memcpy(value, v + key + 1, n - key - 1);
            value[n - key - 1] = 0;
            if (strcmp(value, setting + name + 1) == 0) return 1;
            return kl_parse_double(value, &a) && kl_parse_double(setting + name + 1, &b) && a == b;
        }
        v += n;
    }
    return 0;
}

static const kl_model *find_builtin(const char *name, const char *const *structural)
{
    for (int k = 0; k < kl_models_nbuiltin; k++) {
        const kl_model *m = kl_models_builtin[k];
        int fits = strcmp(m->name, name) == 0;
        for (int s = 0; fits && structural != NULL && structural[s] != NULL; s++) fits = variant_has(m->variant, structural[s]);
        if (fits) return m;
    }
    return NULL;
}

/* "the model hubard is unknown (did you mean hubbard?); there are ..." */
static kl_status unknown_model(const char *what, const char *models_dir, kl_err *err)
{
    kl_status st = KL_OK;
    char **file = NULL, all[700] = "";
    const char **name = NULL;
    int nfile = 0, n = 0;
    size_t used = 0;
    if (models_dir != NULL && list_names(models_dir, ".lua", &file, &nfile, NULL) != KL_OK) nfile = 0;
    KL_TRY(kl_alloc(&name, nfile + kl_models_nbuiltin + 1, KL_MEM_MISC, err));
    for (int k = 0; k < nfile; k++) {
        file[k][strlen(file[k]) - 4] = 0;
        name[n++] = file[k];
    }
    for (int k = 0; k < kl_models_nbuiltin; k++) {
        int seen = 0;
        for (int j = 0; j < n; j++) seen |= strcmp(name[j], kl_models_builtin[k]->name) == 0;
        if (!seen) name[n++] = kl_models_builtin[k]->name;
    }
    for (int k = 0; k < n && used < sizeof all; k++) used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", k > 0 ? ", " : "", name[k]);
    const char *near = kl_closest(what, name);
    st = kl_fail(err, KL_EINPUT, "the model \"%.100s\" is unknown%s%s%s; there are %s, and any file such as ./mine.lua", what, near ? " (did you mean " : "",
                 near ? near : "", near ? "?)" : "", n > 0 ? all : "none");
out:
    kl_free(&name);
    free_names(&file, nfile);
    return st;
}

/* ---- sealed objects ---- */

typedef struct seal {
    char mark[16];
    digest content;
} seal;

static const char seal_mark[16] = "kronlat-object1";

/* Appends a checksum: the loader ignores what follows an ELF file's sections, and an object cut short would kill the program, not fail. */
static kl_status seal_object(const char *path, kl_err *err)
{
    kl_status st = KL_OK;
    char *text = NULL;
    int64_t n = 0;
    seal s = {.content = digest_start};
    memcpy(s.mark, seal_mark, sizeof s.mark);
    KL_TRY(read_file(path, &text, &n, err));
    digest_bytes(&s.content, text, n);
    const int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    int ok = fd >= 0 && fchmod(fd, 0600) == 0 && write(fd, &s, sizeof s) == (ssize_t)sizeof s && fsync(fd) == 0;
    const int why = errno;
    if (fd >= 0 && close(fd) != 0) ok = 0;
    if (!ok) st = kl_fail(err, KL_EIO, "%.400s cannot be written: %s", path, strerror(why));
out:
    kl_free(&text);
    return st;
}

/* 1: a sealed object of ours, whole. 0: there is none or it is damaged, stale or foreign: it is to be made again. */
static int is_sealed(const char *path)
{
    struct stat info;
    char *text = NULL;
    int64_t n = 0;
    int ok = 0;
    if (lstat(path, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 022) != 0) return 0;
    if (read_file(path, &text, &n, NULL) == KL_OK && n > (int64_t)sizeof(seal)) {
        seal have, want = {.content = digest_start};
        n -= (int64_t)sizeof(seal);
        memcpy(&have, text + n, sizeof have);
        digest_bytes(&want.content, text, n);
        ok = memcmp(have.mark, seal_mark, sizeof have.mark) == 0 && have.content.a == want.content.a && have.content.b == want.content.b;
    }
    kl_free(&text);
    return ok;
}

static kl_status load_object(const char *path, const char *dir, const kl_model **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_err inner = {""};
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        struct statvfs fs;
        const char *why = dlerror();
        if (statvfs(dir, &fs) == 0 && (fs.f_flag & ST_NOEXEC) != 0) return refuse_cache(dir, "", "is on a file system mounted noexec", err);
        return kl_fail(err, KL_EIO, "the generated model %.300s cannot be loaded: %.300s", path, why != NULL ? why : "no reason given");
    }
    const kl_model *m = dlsym(handle, ENTRY);
    if (m == NULL) {
        st = kl_fail(err, KL_EIO, "the generated model %.300s has no " ENTRY "; remove the file", path);
        goto out;
    }
    if (kl_model_check(m, &inner) != KL_OK) {
        st = kl_fail(err, KL_EIO, "the generated model %.300s is not usable: %.500s; remove the file", path, inner.text);
        goto out;
    }
    *out = m;
    handle = NULL; /* stays loaded: the tables are in it */
out:
    if (handle != NULL) dlclose(handle);
    return st;
}

/* ---- generator and compiler ---- */

/* Runs the first of the candidates that exists, its words followed by rest; tried gets what was looked for. */
static kl_status run_first(const char *const *candidate, const char *const *rest, outcome *o, char *tried, size_t size, kl_err *err)
{
    kl_status st = KL_OK;
    size_t used = 0;
    tried[0] = 0;
    for (int k = 0; candidate[k] != NULL; k++) {
        const char *argv[MAX_WORDS];
        char words[1024], *place = NULL;
        int n = 0;
        snprintf(words, sizeof words, "%s", candidate[k]);
        for (char *w = strtok_r(words, " \t", &place); w != NULL && n < MAX_WORDS / 2; w = strtok_r(NULL, " \t", &place)) argv[n++] = w;
        if (n == 0) continue;
        if (used < size) used += (size_t)snprintf(tried + used, size - used, "%s%s", used > 0 ? ", " : "", argv[0]);
        for (int r = 0; rest[r] != NULL; r++) {
            if (n == MAX_WORDS - 1) return kl_fail(err, KL_EINPUT, "too many structural parameters: at most %d words fit a command", MAX_WORDS);
            argv[n++] = rest[r];
        }
        argv[n] = NULL;
        KL_TRY(run_program(argv, o, err));
        if (o->started) break;
    }
out:
    return st;
}

static kl_status generate(const char *gen_dir, const char *source, const char *const *structural, const char *c_path, kl_err *err)
{
    kl_status st = KL_OK;
    char script[PATH_MAX], tried[400];
    const char *rest[MAX_WORDS];
    outcome o;
    int n = 0;
    KL_TRY(join(script, sizeof script, gen_dir, "gen.lua", err));
    rest[n++] = script;
    rest[n++] = "--model";
    rest[n++] = source;
    for (int s = 0; structural != NULL && structural[s] != NULL && n < MAX_WORDS - 8; s++) {
        rest[n++] = "--set";
        rest[n++] = structural[s];
    }
    rest[n++] = "--symbol";
    rest[n++] = ENTRY;
    rest[n++] = "--out";
    rest[n++] = c_path;
    rest[n] = NULL;
    const char *named = getenv("KRONLAT_LUA");
    const char *const any[] = {KL_LUA, "lua5.4", "lua-5.4", "lua54", NULL}, *const one[] = {named, NULL};
    KL_TRY(run_first(named != NULL && named[0] != 0 ? one : any, rest, &o, tried, sizeof tried, err));
    if (!o.started)
        st = kl_fail(err, KL_EABSENT, "the model %.300s must be generated and there is no Lua 5.4 (looked for %s; Debian: apt-get install lua5.4 lua-penlight)", source, tried);
    else if (o.status == 2) st = kl_fail(err, KL_EINPUT, "%.900s", first_line(o.text, NULL));
    else if (o.status != 0)
        st = kl_fail(err, KL_EABSENT, "the generator failed on %.200s: %.500s (it needs Lua 5.4 and Penlight; Debian: apt-get install lua5.4 lua-penlight)", source,
                     first_line(o.text, NULL));
out:
    return st;
}

static kl_status compile(const char *gen_dir, const char *source, const char *c_path, const char *so_path, kl_err *err)
{
    kl_status st = KL_OK;
    char include[PATH_MAX], tried[400];
    outcome o;
    const int n = snprintf(include, sizeof include, "-I%s/../src", gen_dir);
    if (n < 0 || n >= (int)sizeof include) return kl_fail(err, KL_EINPUT, "the path %.200s... is too long", gen_dir);
    const char *const rest[] = {"-std=gnu11", "-O2", "-fPIC", "-shared", "-w", include, "-o", so_path, c_path, "-lm", NULL};
    const char *named = getenv("CC");
    const char *const any[] = {KL_CC, "cc", "gcc", "clang", NULL}, *const one[] = {named, NULL};
    KL_TRY(run_first(named != NULL && named[0] != 0 ? one : any, rest, &o, tried, sizeof tried, err));
    if (!o.started)
        st = kl_fail(err, KL_EABSENT, "the model %.300s must be compiled and there is no C compiler (looked for %s; set CC, or Debian: apt-get install gcc libc6-dev)", source,
                     tried);
    else if (o.status != 0)
        st = kl_fail(err, KL_EIO, "the C of model %.300s does not compile (status %d): %.500s", source, o.status, first_line(o.text, "error:"));
out:
    return st;
}

/* Makes so_path in a folder of its own within the cache and renames it into place, whatever other processes do meanwhile. */
static kl_status build_object(const char *gen_dir, const char *source, const char *const *structural, const char *dir, const char *so_path, kl_err *err)
{
    kl_status st = KL_OK;
    char work[PATH_MAX], c_path[PATH_MAX], so_new[PATH_MAX];
    KL_TRY(join(work, sizeof work, dir, "build-XXXXXX", err));
    if (mkdtemp(work) == NULL) return refuse_cache(dir, "cannot be made or used: ", strerror(errno), err);
    c_path[0] = so_new[0] = 0;
    KL_TRY(join(c_path, sizeof c_path, work, "model.c", err));
    KL_TRY(join(so_new, sizeof so_new, work, "model.so", err));
    KL_TRY(generate(gen_dir, source, structural, c_path, err));
    KL_TRY(compile(gen_dir, source, c_path, so_new, err));
    KL_TRY(seal_object(so_new, err));
    if (rename(so_new, so_path) != 0) st = refuse_cache(dir, "cannot be made or used: ", strerror(errno), err);
out:
    if (c_path[0] != 0) unlink(c_path);
    if (so_new[0] != 0) unlink(so_new);
    rmdir(work);
    return st;
}

static kl_status name_object(const char *gen_dir, const char *source, const char *stem, const char *const *structural, const char *dir, char *so_path, size_t size,
                             kl_err *err)
{
    kl_status st = KL_OK;
    char path[PATH_MAX], name[200];
    struct utsname machine;
    const int abi = KL_MODEL_ABI;
    digest d = digest_start;
    KL_TRY(digest_file(&d, source, err));
    digest_text(&d, stem);
    for (int s = 0; structural != NULL && structural[s] != NULL; s++) digest_text(&d, structural[s]);
    digest_bytes(&d, &abi, sizeof abi);
    if (uname(&machine) == 0) {
        digest_text(&d, machine.sysname);
        digest_text(&d, machine.machine);
    }
    KL_TRY(digest_folder(&d, gen_dir, ".lua", err));
    KL_TRY(join(path, sizeof path, gen_dir, "../templates", err));
    KL_TRY(digest_folder(&d, path, ".tpl", err));
    KL_TRY(join(path, sizeof path, gen_dir, "../src/model.h", err));
    KL_TRY(digest_file(&d, path, err));
    KL_TRY(join(path, sizeof path, gen_dir, "../src/base.h", err));
    KL_TRY(digest_file(&d, path, err));
    snprintf(name, sizeof name, "%.100s-%016llx%016llx.so", stem, (unsigned long long)d.a, (unsigned long long)d.b);
    KL_TRY(join(so_path, size, dir, name, err));
out:
    return st;
}

kl_status kl_model_find(const char *what, const char *const *structural, const char *gen_dir, const kl_model **out, kl_modelcache_info *info, kl_err *err)
{
    kl_status st = KL_OK;
    char found_gen[PATH_MAX], models[PATH_MAX], stem[NAME_MAX + 1], dir[PATH_MAX];
    char source[sizeof info->source], so_path[sizeof info->object];
    kl_model_origin origin = KL_MODEL_BUILTIN;
    const int is_file = strchr(what, '/') != NULL || ends_with(what, ".lua");
    source[0] = so_path[0] = 0;
    for (int s = 0; structural != NULL && structural[s] != NULL; s++) {
        const char *equals = strchr(structural[s], '=');
        if (equals == NULL || equals == structural[s] || equals[1] == 0)
            return kl_fail(err, KL_EINPUT, "structural parameter \"%.100s\": NAME=VALUE is expected, such as S=1", structural[s]);
    }
    const kl_model *m = is_file ? NULL : find_builtin(what, structural);
    if (m != NULL) {
        KL_TRY(kl_model_check(m, err));
        goto found;
    }

    if (is_file) {
        if (snprintf(source, sizeof source, "%s", what) >= (int)sizeof source) return kl_fail(err, KL_EINPUT, "the path %.200s... is too long", what);
        if (access(source, R_OK) != 0) return kl_fail(err, KL_EINPUT, "the model file %.400s cannot be read: %s", what, strerror(errno));
    }
    if (gen_dir == NULL) {
        kl_err where = {""};
        st = kl_modelcache_gen_dir(found_gen, sizeof found_gen, &where);
        if (st != KL_OK) return is_file ? kl_fail(err, st, "%s", where.text) : unknown_model(what, NULL, err);
        gen_dir = found_gen;
    }
    if (!is_file) {
        char real[PATH_MAX];
        KL_TRY(join(models, sizeof models, gen_dir, "../models", err));
        if (realpath(models, real) != NULL) snprintf(models, sizeof models, "%s", real); /* messages about its files show no detour */
        if (snprintf(source, sizeof source, "%s/%s.lua", models, what) >= (int)sizeof source || access(source, R_OK) != 0) return unknown_model(what, models, err);
    }
    const char *base = strrchr(source, '/') != NULL ? strrchr(source, '/') + 1 : source;
    snprintf(stem, sizeof stem, "%.*s", (int)(strlen(base) - (ends_with(base, ".lua") ? 4 : 0)), base);
    KL_TRY(cache_dir(dir, sizeof dir, err));
    KL_TRY(name_object(gen_dir, source, stem, structural, dir, so_path, sizeof so_path, err));
    origin = KL_MODEL_CACHED;
    if (!is_sealed(so_path)) {
        KL_TRY(build_object(gen_dir, source, structural, dir, so_path, err));
        origin = KL_MODEL_COMPILED;
    }
    KL_TRY(load_object(so_path, dir, &m, err));
found:
    *out = m;
    if (info != NULL) {
        info->origin = origin;
        snprintf(info->source, sizeof info->source, "%s", source);
        snprintf(info->object, sizeof info->object, "%s", so_path);
    }
out:
    return st;
}
