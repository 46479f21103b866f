/* Job and lattice files. Lua's values become the same texts that a command line would hold, so that every
   check happens once, in options.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "run/job.h"

#include <lauxlib.h>
#include <lua.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/infile.h"
#include "lua/luabox.h"
#include "base/mem.h"

enum {
    MAX_FILE = 1 << 24,
    MAX_WISHES = 10000 /* entries of one list of options, each of which is compared with the others */
};

/* One file being read. What Lua raises (no memory, wrong type) unwinds to read_file; what this program
   refuses is kept in st and err. */
typedef struct job {
    const char *path;
    lua_CFunction read; /* (value, job): what is made of the value that the file returns */
    kl_options *o;
    int which, count; /* of the runs of a job */
    kl_lattice **lattice;
    kl_status st;
    kl_err *err;
} job;

/* Leaves the Lua side at once; read_file finds the status. */
static _Noreturn void leave(lua_State *L, job *j, kl_status st)
{
    j->st = st;
    lua_pushnil(L);
    lua_error(L);
    __builtin_unreachable(); /* lua_error does not return, but is not declared so */
}

/* What stands there, for a message: no -nan, which 0/0 is on some processors, and no address. */
static const char *seen_text(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    const int type = lua_type(L, index);
    if (type == LUA_TNUMBER && !isfinite(lua_tonumber(L, index)))
        return lua_pushstring(L, isnan(lua_tonumber(L, index)) ? "not a number"
                                 : lua_tonumber(L, index) > 0  ? "infinity"
                                                               : "-infinity");
    if (type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TBOOLEAN || type == LUA_TNIL)
        return luaL_tolstring(L, index, NULL);
    return lua_pushfstring(L, "a %s", lua_typename(L, type));
}

/* A number, text or boolean as a command line would spell it, on the stack's top; `what` opens the
   refusal. */
static const char *scalar_text(lua_State *L, job *j, int index, const char *what)
{
    index = lua_absindex(L, index);
    switch (lua_type(L, index)) {
    case LUA_TNUMBER:
        if (lua_isinteger(L, index)) lua_pushfstring(L, "%I", (LUAI_UACINT)lua_tointeger(L, index));
        else {
            char text[40];
            const double x = lua_tonumber(L, index);
            if (!isfinite(x))
                leave(L, j,
                      kl_fail(j->err, KL_EINPUT, "%s: %s is %s; allowed: a finite number or a text", j->path,
                              what, seen_text(L, index)));
            if (x == floor(x) && fabs(x) < 1e15) snprintf(text, sizeof(text), "%.0f", x);
            else snprintf(text, sizeof(text), "%.17g", x);
            lua_pushstring(L, text);
        }
        break;
    case LUA_TSTRING: {
        size_t length;
        const char *text = lua_tolstring(L, index, &length);
        if (strlen(text) != length)
            leave(L, j, kl_fail(j->err, KL_EINPUT, "%s: %s holds a zero byte", j->path, what));
        lua_pushvalue(L, index);
        break;
    }
    case LUA_TBOOLEAN: lua_pushstring(L, lua_toboolean(L, index) ? "true" : "false"); break;
    default:
        leave(L, j,
              kl_fail(j->err, KL_EINPUT, "%s: %s is a %s; allowed: a number or a text", j->path, what,
                      luaL_typename(L, index)));
    }
    return lua_tostring(L, -1);
}

/* The length of a list. Entries other than those from 1 on would be wishes that nobody hears. */
static lua_Integer list_length(lua_State *L, job *j, int list, const char *what)
{
    const int top = lua_gettop(L);
    const lua_Integer n = (lua_Integer)lua_rawlen(L, list);
    for (lua_pushnil(L); lua_next(L, list) != 0; lua_settop(L, top + 1)) {
        if (lua_isinteger(L, top + 1) && lua_tointeger(L, top + 1) >= 1 && lua_tointeger(L, top + 1) <= n)
            continue;
        const char *const seen = seen_text(L, top + 1);
        leave(
            L, j,
            kl_fail(
                j->err, KL_EINPUT,
                "%s: %s has an entry '%.60s' outside of its list; a list is numbered from 1 on, without gaps",
                j->path, what, seen));
    }
    lua_settop(L, top);
    return n;
}

/* Scalars as they are, lists of scalars as "a,b,c"; on the stack's top. */
static const char *value_text(lua_State *L, job *j, int index, const char *what)
{
    index = lua_absindex(L, index);
    if (lua_type(L, index) != LUA_TTABLE) return scalar_text(L, j, index, what);
    const lua_Integer n = list_length(L, j, index, what);
    if (n == 0) leave(L, j, kl_fail(j->err, KL_EINPUT, "%s: %s is an empty list", j->path, what));
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (lua_Integer i = 1; i <= n; i++) {
        if (i > 1) luaL_addchar(&b, ',');
        lua_rawgeti(L, index, i);
        const char *text = scalar_text(L, j, -1, what);
        lua_pushstring(L, text);
        lua_replace(L, -3);
        lua_pop(L, 1);
        luaL_addvalue(&b);
    }
    luaL_pushresult(&b);
    return lua_tostring(L, -1);
}

static void set_option(lua_State *L, job *j, const char *key, const char *text)
{
    const kl_status st = kl_options_set(j->o, j->path, key, text, j->err);
    if (st != KL_OK) leave(L, j, st);
}

/* { U = 4, h = {0.1, 0.2} }, or { "U=4" }, or one text. */
static void set_list(lua_State *L, job *j, const char *key, int index)
{
    index = lua_absindex(L, index);
    if (lua_type(L, index) != LUA_TTABLE) {
        set_option(L, j, key, scalar_text(L, j, index, key));
        lua_pop(L, 1);
        return;
    }
    int n = 0;
    for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
        char what[128];
        kl_luabox_watch(L);
        if (++n > MAX_WISHES)
            leave(
                L, j,
                kl_fail(j->err, KL_EINPUT, "%s: %s has more than %d entries", j->path, key, (int)MAX_WISHES));
        if (lua_type(L, -2) == LUA_TSTRING) {
            const char *name = lua_tostring(L, -2);
            snprintf(what, sizeof(what), "%.40s.%.60s", key, name);
            const char *text = value_text(L, j, -1, what);
            set_option(L, j, key, lua_pushfstring(L, "%s=%s", name, text));
            lua_pop(L, 2);
        } else {
            set_option(L, j, key, scalar_text(L, j, -1, key));
            lua_pop(L, 1);
        }
    }
}

/* ---- lists, each of whose values is a run */

enum {
    MOST_LIST = 16,
    MOST_RUN = 10000,
};

typedef struct lists {
    int n;
    struct list {
        char name[64];
        int length;
    } list[MOST_LIST];
} lists;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct list *)a)->name, ((const struct list *)b)->name);
}

/* Options that take one value and have a list in the table at `index`, by name; how many runs they make. */
static int find_lists(lua_State *L, job *j, int index, lists *all)
{
    const int top = lua_gettop(L);
    int runs = 1;
    all->n = 0;
    for (lua_pushnil(L); lua_next(L, index) != 0; lua_settop(L, top + 1)) {
        kl_option_kind kind;
        kl_err ignored;
        if (lua_type(L, top + 1) != LUA_TSTRING || lua_type(L, top + 2) != LUA_TTABLE) continue;
        const char *const key = lua_tostring(L, top + 1);
        const int lattice = strcmp(key, "lattice") == 0;
        if (kl_options_kind(j->o, j->path, key, &kind, &ignored) != KL_OK) continue; /* refused later */
        if (!lattice && kind != KL_OPTION_INT && kind != KL_OPTION_REAL) continue;
        if (lattice && lua_rawlen(L, top + 2) == 0)
            leave(
                L, j,
                kl_fail(j->err, KL_EINPUT,
                        "%s: lattice is a table; allowed: a text, a list of them, or the name of a file that "
                        "returns sites and bonds",
                        j->path));
        const lua_Integer length = list_length(L, j, top + 2, key);
        if (length == 0) leave(L, j, kl_fail(j->err, KL_EINPUT, "%s: %s is an empty list", j->path, key));
        if (all->n == MOST_LIST || length * runs > MOST_RUN)
            leave(L, j,
                  kl_fail(j->err, KL_EINPUT, "%s: these are more than %d lists or %d runs", j->path,
                          (int)MOST_LIST, (int)MOST_RUN));
        struct list *const to = &all->list[all->n++];
        snprintf(to->name, sizeof to->name, "%s", key);
        to->length = (int)length;
        runs *= to->length;
    }
    qsort(all->list, (size_t)all->n, sizeof all->list[0], by_name);
    return runs;
}

/* The table at `index` with a value in the place of each list, and in that of their names in `output`. */
static void choose_values(lua_State *L, job *j, int index, int which)
{
    lists all;
    const int top = lua_gettop(L), runs = find_lists(L, j, index, &all);
    int patterns = 0;
    for (int k = all.n - 1; k >= 0; k--) {
        const struct list *const one = &all.list[k];
        char pattern[80];
        lua_getfield(L, index, one->name);
        lua_rawgeti(L, -1, 1 + which % one->length);
        which /= one->length;
        char text[200];
        if (lua_type(L, -1) == LUA_TNUMBER && !lua_isinteger(L, -1))
            snprintf(text, sizeof text, "%.10g", lua_tonumber(L, -1)); /* a name, no value */
        else snprintf(text, sizeof text, "%s", scalar_text(L, j, -1, one->name));
        for (char *c = text; *c != '\0'; c++)
            if (*c == '/' || *c == ':') *c = '_';
        lua_settop(L, top + 2);
        lua_getfield(L, index, "output");
        snprintf(pattern, sizeof pattern, "{%s}", one->name);
        const char *const output = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
        patterns += output == NULL || strstr(output, pattern) != NULL || strcmp(output, "none") == 0;
        if (output != NULL && strstr(output, pattern) != NULL) {
            luaL_gsub(L, output, pattern, text);
            lua_setfield(L, index, "output");
        }
        lua_settop(L, top + 2);
        lua_setfield(L, index, one->name);
        lua_settop(L, top);
    }
    if (runs > 1 && patterns < all.n)
        leave(L, j,
              kl_fail(
                  j->err, KL_EINPUT,
                  "%s: output: %d runs would write one file; a name for each has what is listed in it, as in "
                  "\"run{%s}.h5\"",
                  j->path, runs, all.list[0].name));
}

/* What a file returns has to be a table. */
static void want_table(lua_State *L, job *j, const char *what)
{
    const int none = lua_isnoneornil(L, 1);
    if (lua_istable(L, 1)) return;
    leave(L, j,
          kl_fail(j->err, KL_EINPUT, "%s: must return a table %s; it returned %s%s", j->path, what,
                  none ? "nothing" : "a ", none ? "" : luaL_typename(L, 1)));
}

/* Where a plan is wanted of a job, that of its command; chosen: of the run that is read. */
static void set_command(lua_State *L, job *j, const char *word, int chosen)
{
    set_option(L, j, "command", word);
    if (!j->o->planned || j->o->command == KL_CMD_PLAN) return;
    if (j->o->command == KL_CMD_CI) {
        if (chosen) set_option(L, j, "plan", "");
    } else if (j->o->command == KL_CMD_GROWTH)
        leave(L, j,
              kl_fail(j->err, KL_EINPUT, "%s: plan knows no job of growth; allowed: dmrg ed ci", j->path));
    else {
        const int exact = j->o->command == KL_CMD_ED;
        set_option(L, j, "command", "plan");
        if (exact && chosen) set_option(L, j, "method", "ed");
    }
}

/* Puts the table of run j->which in the place of what the file returned, 1; counts the runs. */
static void choose_run(lua_State *L, job *j)
{
    lists ignored;
    want_table(L, j, "of options");
    lua_rawgeti(L, 1, 1);
    const int many = lua_type(L, -1) == LUA_TTABLE;
    lua_pop(L, 1);
    const lua_Integer n = many ? list_length(L, j, 1, "the list of runs") : 1;
    int at = -1, within = 0;
    for (lua_Integer i = 1; i <= n; i++) {
        if (many) lua_rawgeti(L, 1, i);
        else lua_pushvalue(L, 1);
        if (lua_type(L, -1) != LUA_TTABLE)
            leave(L, j,
                  kl_fail(j->err, KL_EINPUT, "%s: run %lld is a %s; allowed: a table of options", j->path,
                          (long long)i, luaL_typename(L, -1)));
        kl_luabox_watch(L);
        lua_getfield(L, -1, "command"); /* it says what the options take */
        set_command(L, j, lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "dmrg", 0);
        lua_pop(L, 1);
        const int runs = find_lists(L, j, lua_gettop(L), &ignored);
        if (at < 0 && j->which < j->count + runs) {
            at = (int)i;
            within = j->which - j->count;
        }
        j->count += runs;
        if (j->count > MOST_RUN)
            leave(L, j,
                  kl_fail(j->err, KL_EINPUT, "%s: these are more than %d runs", j->path, (int)MOST_RUN));
        lua_pop(L, 1);
    }
    if (many) lua_rawgeti(L, 1, at < 0 ? 1 : at);
    else lua_pushvalue(L, 1);
    lua_replace(L, 1);
    lua_getfield(L, 1, "command");
    set_command(L, j, lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "dmrg", 0);
    lua_pop(L, 1);
    choose_values(L, j, 1, within);
}

static int read_job(lua_State *L)
{
    job *const j = lua_touserdata(L, 2);
    choose_run(L, j);
    lua_getfield(L, 1, "command");
    set_command(L, j, lua_isnil(L, -1) ? "dmrg" : scalar_text(L, j, -1, "command"), 1);
    lua_getfield(L, 1, "method"); /* it says whose options the others are, and what was typed wins over it */
    const int plans = j->o->command == KL_CMD_PLAN && !lua_isnil(L, -1);
    if (plans) set_option(L, j, "method", scalar_text(L, j, -1, "method"));
    lua_getfield(L, 1, "fcidump"); /* so does this */
    const int molecule = !lua_isnil(L, -1);
    if (molecule) {
        kl_option_kind kind;
        const kl_status st = kl_options_kind(j->o, j->path, "fcidump", &kind, j->err);
        if (st != KL_OK) leave(L, j, st);
        set_option(L, j, "fcidump", scalar_text(L, j, -1, "fcidump"));
    }
    const kl_status taken = kl_options_take_typed(j->o, j->err);
    if (taken != KL_OK) leave(L, j, taken);
    lua_settop(L, 2);
    for (lua_pushnil(L); lua_next(L, 1) != 0; lua_settop(L, 3)) {
        if (lua_type(L, 3) != LUA_TSTRING)
            leave(L, j,
                  kl_fail(j->err, KL_EINPUT, "%s: entry %s has no name; options go by their names", j->path,
                          scalar_text(L, j, 3, "a key")));
        const char *key = lua_tostring(L, 3);
        if (strcmp(key, "command") == 0 || (plans && strcmp(key, "method") == 0)) continue;
        if (molecule && strcmp(key, "fcidump") == 0) continue;
        if (j->o->planned && kl_options_foreign(j->o, key))
            continue; /* the run takes it, its plan does not */
        kl_option_kind kind;
        const kl_status st = kl_options_kind(j->o, j->path, key, &kind, j->err);
        if (st != KL_OK) leave(L, j, st);
        if (kind == KL_OPTION_LIST) set_list(L, j, key, 4);
        else if (kind == KL_OPTION_FLAG) {
            if (lua_type(L, 4) != LUA_TBOOLEAN)
                leave(L, j,
                      kl_fail(j->err, KL_EINPUT, "%s: %s is a %s; allowed: true or false", j->path, key,
                              luaL_typename(L, 4)));
            if (lua_toboolean(L, 4)) set_option(L, j, key, "");
        } else set_option(L, j, key, value_text(L, j, 4, key));
    }
    return 0;
}

/* ---------------------------------------------------------------- lattices */

static char *copy_field(lua_State *L, job *j, int table, const char *name)
{
    char *copy = NULL;
    lua_getfield(L, table, name);
    if (!lua_isnil(L, -1)) {
        copy = kl_strdup(scalar_text(L, j, -1, name));
        if (copy == NULL)
            leave(L, j, kl_fail(j->err, KL_ENOMEM, "%s: no memory for the name of a site", j->path));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return copy;
}

static double real_field(lua_State *L, job *j, int table, const char *what, lua_Integer nth, const char *name,
                         double missing)
{
    lua_getfield(L, table, name);
    double x = missing;
    if (!lua_isnil(L, -1)) {
        if (lua_type(L, -1) != LUA_TNUMBER || !isfinite(lua_tonumber(L, -1)))
            leave(L, j,
                  kl_fail(j->err, KL_EINPUT, "%s: %s %lld: %s is %s; allowed: a finite number", j->path, what,
                          (long long)nth, name, seen_text(L, -1)));
        x = lua_tonumber(L, -1);
    }
    lua_pop(L, 1);
    return x;
}

/* No keys of a site or a bond but these: a slip of the pen would be a wish that nobody hears. nlist: how many
   entries without a key. */
static void check_keys(lua_State *L, job *j, int table, const char *what, lua_Integer nth,
                       const char *const *known, lua_Integer nlist, const char *allowed)
{
    const int top = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, table) != 0; lua_settop(L, top + 1)) {
        if (lua_isinteger(L, top + 1) && lua_tointeger(L, top + 1) >= 1 && lua_tointeger(L, top + 1) <= nlist)
            continue;
        const char *const key = lua_type(L, top + 1) == LUA_TSTRING ? lua_tostring(L, top + 1) : NULL;
        int good = 0;
        for (int k = 0; key != NULL && known[k] != NULL; k++) good |= strcmp(key, known[k]) == 0;
        if (good) continue;
        const char *const seen = seen_text(L, top + 1);
        leave(L, j,
              kl_fail(j->err, KL_EINPUT, "%s: %s %lld: unknown entry '%.60s'; allowed: %s", j->path, what,
                      (long long)nth, seen, allowed));
    }
    lua_settop(L, top);
}

/* A site by number or name, element `at` of the bond on the stack's top. names: table of the sites' numbers
   by their names. */
static int bond_site(lua_State *L, job *j, const kl_lattice *lat, int names, lua_Integer bond, int at)
{
    lua_rawgeti(L, -1, at);
    int site = -1;
    if (lua_isinteger(L, -1)) {
        const lua_Integer i = lua_tointeger(L, -1);
        if (i >= 0 && i < lat->nsite) site = (int)i;
    } else if (lua_type(L, -1) == LUA_TSTRING) {
        lua_pushvalue(L, -1);
        lua_rawget(L, names);
        if (lua_isinteger(L, -1)) site = (int)lua_tointeger(L, -1);
        lua_pop(L, 1);
    }
    if (site < 0) {
        const char *const seen = seen_text(L, -1);
        leave(
            L, j,
            kl_fail(j->err, KL_EINPUT,
                    "%s: bond %lld: site '%.60s' is not there; allowed: 0 to %d, or a name given under sites",
                    j->path, (long long)bond, seen, lat->nsite - 1));
    }
    lua_pop(L, 1);
    return site;
}

/* Names go into messages and reports, on terminals. */
static void check_name(lua_State *L, job *j, const char *what, lua_Integer nth, const char *name)
{
    for (const char *c = name; c != NULL && *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            leave(L, j,
                  kl_fail(j->err, KL_EINPUT, "%s: %s %lld: a name or class holds a control character",
                          j->path, what, (long long)nth));
}

/* Site i, the table at index `here`. */
static void read_site(lua_State *L, job *j, kl_lattice *lat, int here, int i)
{
    kl_err *const err = j->err;
    if (lua_type(L, here) != LUA_TTABLE)
        leave(L, j,
              kl_fail(err, KL_EINPUT, "%s: site %d is a %s; allowed: a table { name=, x=, y=, class= }",
                      j->path, i, luaL_typename(L, here)));
    check_keys(L, j, here, "site", i, (const char *const[]){"name", "x", "y", "class", NULL}, 0,
               "name x y class");
    kl_free(&lat->site_name[i]);
    lat->site_name[i] = copy_field(L, j, here, "name");
    check_name(L, j, "site", i, lat->site_name[i]);
    int64_t number;
    if (lat->site_name[i] != NULL && kl_parse_int(lat->site_name[i], &number))
        leave(L, j,
              kl_fail(err, KL_EINPUT,
                      "%s: site %d has the name '%s', which would be taken for a site's number", j->path, i,
                      lat->site_name[i]));
    kl_free(&lat->site_class[i]);
    lat->site_class[i] = copy_field(L, j, here, "class");
    check_name(L, j, "site", i, lat->site_class[i]);
    if (lat->site_class[i] != NULL && kl_is_position_class(lat->site_class[i]))
        leave(L, j,
              kl_fail(err, KL_EINPUT,
                      "%s: site %d is of class '%s', which means places on every lattice; take another word",
                      j->path, i, lat->site_class[i]));
    lua_getfield(L, here, "x");
    lat->has_xy |= !lua_isnil(L, -1);
    lua_pop(L, 1);
    lat->xy[i][0] = real_field(L, j, here, "site", i, "x", lat->xy[i][0]);
    lat->xy[i][1] = real_field(L, j, here, "site", i, "y", lat->xy[i][1]);
}

/* Fills cls with the classes of bond b, the table at index `here`; their texts live as long as it. */
static int read_classes(lua_State *L, job *j, int here, lua_Integer b, const char *cls[KL_MAX_BOND_CLASS])
{
    kl_err *const err = j->err;
    int ncls = 0;
    lua_rawgeti(L, here, 3);
    const int at = lua_gettop(L);
    if (lua_isnil(L, at)) cls[ncls++] = "nn";
    else if (lua_type(L, at) == LUA_TSTRING) cls[ncls++] = lua_tostring(L, at);
    else if (lua_type(L, at) == LUA_TTABLE) {
        char what[64];
        snprintf(what, sizeof(what), "bond %lld: its class", (long long)b);
        const lua_Integer nclass = list_length(L, j, at, what);
        for (lua_Integer c = 1; c <= nclass; c++) {
            if (ncls == KL_MAX_BOND_CLASS)
                leave(L, j,
                      kl_fail(err, KL_EINPUT, "%s: bond %lld has more than %d classes", j->path, (long long)b,
                              KL_MAX_BOND_CLASS));
            lua_rawgeti(L, at, c);
            if (lua_type(L, -1) != LUA_TSTRING)
                leave(L, j,
                      kl_fail(err, KL_EINPUT, "%s: bond %lld: a class is a %s; allowed: a text", j->path,
                              (long long)b, luaL_typename(L, -1)));
            cls[ncls++] = lua_tostring(L, -1);
            lua_pop(L, 1);
        }
    } else
        leave(L, j,
              kl_fail(err, KL_EINPUT, "%s: bond %lld: its class is a %s; allowed: a text or a list of texts",
                      j->path, (long long)b, luaL_typename(L, at)));
    for (int c = 0; c < ncls; c++) check_name(L, j, "bond", b, cls[c]);
    return ncls;
}

/* Bond b, the table on the stack's top. names: as for bond_site. */
static void read_bond(lua_State *L, job *j, kl_lattice *lat, int names, lua_Integer b)
{
    const int here = lua_gettop(L);
    const char *cls[KL_MAX_BOND_CLASS];
    if (lua_type(L, here) != LUA_TTABLE)
        leave(L, j,
              kl_fail(j->err, KL_EINPUT, "%s: bond %lld is a %s; allowed: { i, j, class }", j->path,
                      (long long)b, luaL_typename(L, here)));
    const int i = bond_site(L, j, lat, names, b, 1), k = bond_site(L, j, lat, names, b, 2);
    if (i == k)
        leave(
            L, j,
            kl_fail(j->err, KL_EINPUT, "%s: bond %lld joins site %d with itself", j->path, (long long)b, i));
    const double far =
        lat->has_xy ? hypot(lat->xy[i][0] - lat->xy[k][0], lat->xy[i][1] - lat->xy[k][1]) : 1.0;
    check_keys(L, j, here, "bond", b, (const char *const[]){"r", NULL}, 3,
               "two sites, a class or a list of classes, r=");
    const double r = real_field(L, j, here, "bond", b, "r", far);
    const int ncls = read_classes(L, j, here, b, cls);
    const kl_status st = kl_lattice_add_bond(lat, i, k, r, cls, ncls, j->err);
    if (st != KL_OK)
        leave(L, j,
              kl_fail(j->err, st, "%s: bond %lld: %s", j->path, (long long)b,
                      j->err != NULL ? j->err->text : ""));
}

static int read_lattice(lua_State *L)
{
    enum {
        MAX_SITES = 1000000,
        SITES = 3,
        NAMES = 4,
        BONDS = 5,
    };
    job *const j = lua_touserdata(L, 2);
    kl_err *const err = j->err;
    want_table(L, j, "with sites and bonds");
    for (lua_pushnil(L); lua_next(L, 1) != 0; lua_settop(L, 3)) {
        static const char *const known[] = {"sites", "bonds", NULL};
        const char *key = lua_type(L, 3) == LUA_TSTRING ? lua_tostring(L, 3) : "(a number)";
        if (strcmp(key, "sites") == 0 || strcmp(key, "bonds") == 0) continue;
        const char *near = kl_closest(key, known);
        leave(L, j,
              kl_fail(err, KL_EINPUT, "%s: unknown key '%.60s'%s%s%s; allowed: sites bonds", j->path, key,
                      near ? ", did you mean '" : "", near ? near : "", near ? "'?" : ""));
    }
    lua_settop(L, 2);

    lua_getfield(L, 1, "sites");
    lua_newtable(L);
    const int listed = lua_type(L, SITES) == LUA_TTABLE;
    const lua_Integer nsite = listed                    ? list_length(L, j, SITES, "sites")
                              : lua_isinteger(L, SITES) ? lua_tointeger(L, SITES)
                                                        : -1;
    if (nsite < 1 || nsite > MAX_SITES)
        leave(L, j,
              kl_fail(err, KL_EINPUT, "%s: sites must be a list or a number of 1 to %d sites", j->path,
                      (int)MAX_SITES));
    kl_status st = kl_lattice_create_empty(j->path, (int)nsite, j->lattice, err);
    if (st != KL_OK) leave(L, j, st);
    kl_lattice *const lat = *j->lattice;
    for (int i = 0; i < lat->nsite && listed; i++) {
        kl_luabox_watch(L);
        lua_rawgeti(L, SITES, i + 1);
        read_site(L, j, lat, lua_gettop(L), i);
        lua_settop(L, NAMES);
        if (lat->site_name[i] == NULL) continue;
        lua_pushinteger(L, i);
        lua_setfield(L, NAMES, lat->site_name[i]);
    }
    lua_getfield(L, 1, "bonds");
    if (lua_type(L, BONDS) != LUA_TTABLE)
        leave(L, j,
              kl_fail(err, KL_EINPUT, "%s: bonds is a %s; allowed: a list of { i, j, class }", j->path,
                      luaL_typename(L, BONDS)));
    const lua_Integer nbond = list_length(L, j, BONDS, "bonds");
    for (lua_Integer b = 1; b <= nbond; b++) {
        kl_luabox_watch(L);
        lua_rawgeti(L, BONDS, b);
        read_bond(L, j, lat, NAMES, b);
        lua_settop(L, BONDS);
    }
    st = kl_lattice_finish(lat, err);
    if (st != KL_OK) leave(L, j, kl_fail(err, st, "%s: %s", j->path, err != NULL ? err->text : ""));
    return 0;
}

/* ---------------------------------------------------------------- a file */

/* Runs the file, argument 1, and hands its value to the reader, under one protection. */
static int run_file(lua_State *L)
{
    job *const j = lua_touserdata(L, 2);
    lua_pushcfunction(L, j->read);
    lua_pushvalue(L, 1);
    lua_call(L, 0, 1);
    lua_pushvalue(L, 2);
    lua_call(L, 2, 0);
    return 0;
}

static kl_status read_file(job *j)
{
    kl_status st = KL_OK;
    kl_luabox *box = NULL;
    char *text = NULL, chunk[1024];
    int64_t length = 0;
    kl_err why;
    snprintf(chunk, sizeof(chunk), "@%s", j->path);
    KL_TRY(kl_infile_read(j->path, MAX_FILE, &text, &length, j->err));
    if (strncmp(text, "kronlat result", strlen("kronlat result")) == 0)
        KL_TRY(kl_fail(j->err, KL_EINPUT, "%s: holds a result; `kronlat show %.300s' reads it", j->path,
                       j->path));
    KL_TRY(kl_luabox_create(&(kl_luabox_limits){.path = j->path, .seconds = 5.0}, &box, j->err));
    lua_State *const L = kl_luabox_state(box);
    lua_pushcfunction(L, run_file);
    KL_TRY(kl_luabox_load(box, text, length, chunk, j->err));
    lua_pushlightuserdata(L, j);
    st = kl_luabox_call(box, 2, 0, &why);
    if (j->st != KL_OK) KL_TRY(j->st);
    const int model = strncmp(text, "--", 2) == 0 && strstr(text, "\nsite(") != NULL;
    if (st != KL_OK)
        KL_TRY(kl_fail(j->err, st, "%s%s%s", why.text,
                       model ? "; this looks like a model: kronlat dmrg " : "", model ? j->path : ""));
out:
    kl_luabox_destroy(&box);
    kl_free(&text);
    return st;
}

kl_status kl_job_load(const char *path, int which, int *count, kl_options *o, kl_err *err)
{
    job j = {.path = path, .read = read_job, .o = o, .which = which, .err = err};
    const kl_status st = read_file(&j);
    *count = j.count;
    if (st == KL_OK && o->command == KL_CMD_CI && o->file == NULL && o->resume == NULL)
        return kl_fail(err, KL_EINPUT, "%s: fcidump is missing; it is the file with the integrals", path);
    if (st == KL_OK && o->command != KL_CMD_CI && o->model == NULL && !o->molecule && o->resume == NULL)
        return kl_fail(err, KL_EINPUT, "%s: model is missing; `kronlat models' lists the models", path);
    return st;
}

kl_status kl_job_lattice(const char *path, kl_lattice **out, kl_err *err)
{
    *out = NULL;
    job j = {.path = path, .read = read_lattice, .lattice = out, .err = err};
    const kl_status st = read_file(&j);
    if (st != KL_OK) kl_lattice_destroy(out);
    return st;
}
