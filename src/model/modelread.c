/* Finds a model by name or file, and runs the generator on those that are not built in.
   1. A built-in variant that fits is taken.
   2. Else the text is that of a shipped model or of the user's file.
   3. The generator's modules, which the program carries as texts, make tables of it in a box of Lua.
   4. These are copied into memory and checked.
   SPDX-License-Identifier: Apache-2.0 */
#include "model/modelread.h"
#include "base/infile.h"
#include "lua/luabox.h"
#include "base/mem.h"
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_FILE = 1 << 24 };

/* ---- the generator in its box ---- */

typedef struct job {
    const char *path, *source, *text;
    int64_t size;
    const char *const *setting;
    int spin; /* 1: the variant with the total spin */
    kl_tables **out;
    kl_status st;
    kl_err *err;
} job;

/* require(name) of the generator's modules; the upvalue is the table of those that are there already. */
static int require_module(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    const kl_embedded *m = kl_embedded_modules;
    if (lua_getfield(L, lua_upvalueindex(1), name) != LUA_TNIL) return 1;
    while (m->name != NULL && strcmp(m->name, name) != 0) m++;
    if (m->name == NULL) return luaL_error(L, "the generator has no module %s", name);
    if (luaL_loadbufferx(L, m->text, (size_t)m->size, lua_pushfstring(L, "=gen/%s.lua", name), "t") != LUA_OK)
        return lua_error(L);
    lua_call(L, 0, 1);
    lua_pushvalue(L, -1);
    lua_setfield(L, lua_upvalueindex(1), name);
    return 1;
}

static void push_module_field(lua_State *L, const char *module, const char *field)
{
    lua_getglobal(L, "require");
    lua_pushstring(L, module);
    lua_call(L, 1, 1);
    lua_getfield(L, -1, field);
    lua_remove(L, -2);
}

/* {S = "1/2", ...} */
static void push_settings(lua_State *L, const char *const *setting)
{
    lua_newtable(L);
    for (; setting != NULL && *setting != NULL; setting++) {
        const size_t name = strcspn(*setting, "=");
        lua_pushlstring(L, *setting, name);
        lua_pushstring(L, *setting + name + ((*setting)[name] == '='));
        lua_settable(L, -3);
    }
}

/* util.attempt(tables.of, source, text, settings, true, spin): tables, or nil, line and reason. */
static int generate(lua_State *L)
{
    job *const j = lua_touserdata(L, 1);
    lua_newtable(L);
    lua_pushcclosure(L, require_module, 1);
    lua_setglobal(L, "require");
    push_module_field(L, "util", "attempt");
    push_module_field(L, "tables", "of");
    lua_pushstring(L, j->source);
    lua_pushlstring(L, j->text, (size_t)j->size);
    push_settings(L, j->setting);
    lua_pushboolean(L, 1);
    lua_pushboolean(L, j->spin);
    lua_call(L, 6, 3);
    if (lua_isnil(L, -3))
        j->st = kl_fail(j->err, KL_EINPUT, "%.400s:%d: %.600s", j->path, (int)luaL_checkinteger(L, -2),
                        luaL_checkstring(L, -1));
    else j->st = kl_tables_create(L, -3, j->out, j->err);
    return 0;
}

static kl_status run(job j, kl_err *err)
{
    kl_status st = KL_OK;
    kl_luabox *box = NULL;
    const kl_luabox_limits limits = {
        .path = j.path,
        .chunk = "@MODEL", /* util.CHUNK */
        .bytes = INT64_C(512) << 20,
        .seconds = 10.0 + 2e-5 * (double)j.size, /* a molecule's list of terms is long */
        .own_code = 1,
    };
    *j.out = NULL;
    KL_TRY(kl_luabox_create(&limits, &box, err));
    lua_State *const L = kl_luabox_state(box);
    lua_pushcfunction(L, generate);
    lua_pushlightuserdata(L, &j);
    KL_TRY(kl_luabox_call(box, 1, 0, err));
    st = j.st;
out:
    kl_luabox_destroy(&box);
    if (st != KL_OK) kl_tables_destroy(j.out);
    return st;
}

static job job_of(const char *path, const char *text, int64_t size, const char *const *setting,
                  kl_tables **out, kl_err *err)
{
    const char *slash = strrchr(path, '/');
    return (job){.path = path,
                 .source = slash != NULL ? slash + 1 : path,
                 .text = text,
                 .size = size,
                 .setting = setting,
                 .out = out,
                 .err = err};
}

kl_status kl_modelread_text(const char *path, const char *text, int64_t size, const char *const *setting,
                            kl_tables **out, kl_err *err)
{
    return run(job_of(path, text, size, setting, out, err), err);
}

/* ---- built-in and shipped models ---- */

/* Has "S=1/2,F=1" another value for the name of the setting "S=1"? */
static int variant_differs(const char *variant, const char *setting)
{
    const size_t name = strcspn(setting, "=");
    for (const char *v = variant; *v != 0;) {
        char value[64];
        v += strspn(v, ", ;");
        const size_t n = strcspn(v, ",;"), key = strcspn(v, "=");
        if (key == name && key < n && strncmp(v, setting, name) == 0 && n - key - 1 < sizeof value) {
            double a = 0.0, b = 1.0;
            memcpy(value, v + key + 1, n - key - 1);
            value[n - key - 1] = 0;
            if (strcmp(value, setting + name + 1) == 0) return 0;
            return !kl_parse_double(value, &a) || !kl_parse_double(setting + name + 1, &b) || a != b;
        }
        v += n;
    }
    return 0;
}

static const kl_model *find_builtin(const char *name, const char *const *setting, int spin)
{
    for (int k = 0; k < kl_models_nbuiltin; k++) {
        const kl_model *m = kl_models_builtin[k];
        int fits = strcmp(m->name, name) == 0 && (kl_model_spin(m) >= 0) == spin;
        for (int s = 0; fits && setting != NULL && setting[s] != NULL; s++)
            fits = !variant_differs(m->variant, setting[s]);
        if (fits) return m;
    }
    return NULL;
}

const kl_embedded *kl_modelread_shipped(const char *name)
{
    for (const kl_embedded *m = kl_embedded_models; m->name != NULL; m++)
        if (strcmp(m->name, name) == 0) return m;
    return NULL;
}

/* "the model hubard is unknown (did you mean hubbard?); there are ..." */
static kl_status unknown_model(const char *what, kl_err *err)
{
    kl_status st = KL_OK;
    char all[700] = "";
    const char **name = NULL;
    int n = 0, nshipped = 0;
    size_t used = 0;
    while (kl_embedded_models[nshipped].name != NULL) nshipped++;
    KL_TRY(kl_alloc(&name, nshipped + kl_models_nbuiltin + 1, KL_MEM_MISC, err));
    for (; n < nshipped; n++) name[n] = kl_embedded_models[n].name;
    for (int k = 0; k < kl_models_nbuiltin; k++) {
        int seen = 0;
        for (int j = 0; j < n; j++) seen |= strcmp(name[j], kl_models_builtin[k]->name) == 0;
        if (!seen) name[n++] = kl_models_builtin[k]->name;
    }
    for (int k = 0; k < n && used < sizeof all; k++)
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", k > 0 ? ", " : "", name[k]);
    const char *near = kl_closest(what, name);
    struct stat info;
    if (stat(what, &info) == 0 && S_ISREG(info.st_mode)) {
        st = kl_fail(
            err, KL_EINPUT,
            "%.300s: the file is no model, whose name ends in .lua, and no molecule, which begins with "
            "&FCI%s",
            what, info.st_size == 0 ? ": it is empty" : "");
        goto out;
    }
    st = kl_fail(err, KL_EINPUT,
                 "the model \"%.100s\" is unknown%s%s%s; there are %s, and any file such as ./mine.lua", what,
                 near ? " (did you mean " : "", near ? near : "", near ? "?)" : "", n > 0 ? all : "none");
out:
    kl_free(&name);
    return st;
}

static int is_path(const char *what)
{
    const size_t n = strlen(what);
    return strchr(what, '/') != NULL || (n >= 4 && strcmp(what + n - 4, ".lua") == 0);
}

kl_status kl_modelread_find(const char *what, const char *const *setting, kl_tables **out, kl_err *err)
{
    kl_status st = KL_OK;
    char *text = NULL, path[128];
    int64_t size = 0;
    *out = NULL;
    for (int s = 0; setting != NULL && setting[s] != NULL; s++)
        if (setting[s][strcspn(setting[s], "=")] == 0)
            return kl_fail(err, KL_EINPUT, "parameter \"%.100s\": NAME=VALUE is expected, such as S=1",
                           setting[s]);
    if (is_path(what)) {
        KL_TRY(kl_infile_read(what, MAX_FILE, &text, &size, err));
        KL_TRY(kl_modelread_text(what, text, size, setting, out, err));
        goto out;
    }
    const kl_model *builtin = find_builtin(what, setting, 0);
    if (builtin != NULL) return kl_tables_borrow(builtin, out, err);
    const kl_embedded *shipped = kl_modelread_shipped(what);
    if (shipped == NULL) return unknown_model(what, err);
    snprintf(path, sizeof path, "models/%.100s.lua", shipped->name);
    KL_TRY(kl_modelread_text(path, shipped->text, shipped->size, setting, out, err));
out:
    kl_free(&text);
    return st;
}

kl_status kl_modelread_spin(const char *what, const char *text, int64_t size, const char *const *setting,
                            kl_tables **out, kl_err *err)
{
    kl_status st = KL_OK;
    char *own = NULL, path[128];
    job j = job_of(what, text, size, setting, out, err);
    *out = NULL;
    if (text == NULL && is_path(what)) {
        KL_TRY(kl_infile_read(what, MAX_FILE, &own, &size, err));
        j = job_of(what, own, size, setting, out, err);
    } else if (text == NULL) {
        const kl_model *const builtin = find_builtin(what, setting, 1);
        if (builtin != NULL) return kl_tables_borrow(builtin, out, err);
        const kl_embedded *const shipped = kl_modelread_shipped(what);
        if (shipped == NULL) KL_TRY(unknown_model(what, err));
        snprintf(path, sizeof path, "models/%.100s.lua", shipped->name);
        j = job_of(path, shipped->text, shipped->size, setting, out, err);
    }
    j.spin = 1;
    KL_TRY(run(j, err));
out:
    kl_free(&own);
    return st;
}
