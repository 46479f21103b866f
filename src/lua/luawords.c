/* What a stranger's text finds in a box: Lua's own functions where their work is linear in what they are
   given, with a look at the time before each, and functions of our own where it is not. Offers no coroutines
   (their hooks would be others), no metatables (finalizers, weak tables whose collection is quadratic), no
   files and no other programs.
   SPDX-License-Identifier: Apache-2.0 */
#include "lua/luawords.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <string.h>

#include "lua/luabox.h"

enum { MOST_MOVED = 1 << 22 }; /* elements of table.move, which walks over absent ones too */

/* Any function of Lua's libraries that has no upvalues. */
static int watched(lua_State *L)
{
    kl_luabox_watch(L);
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* ---------------------------------------------------------------- functions of our own */

/* Limits go on upwards: a loop around pcall must end. */
static int words_pcall(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_pushboolean(L, 1);
    lua_insert(L, 1);
    const int code = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0);
    if (code == LUA_OK) return lua_gettop(L);
    kl_luabox_rethrow(L, code);
    lua_pushboolean(L, 0);
    lua_insert(L, -2);
    return 2;
}

/* xpcall(f, handler, ...). */
static int words_xpcall(lua_State *L)
{
    const int n = lua_gettop(L);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_pushboolean(L, 1);
    lua_pushvalue(L, 1);
    lua_rotate(L, 3, 2); /* f, handler, true, f, arguments */
    const int code = lua_pcall(L, n - 2, LUA_MULTRET, 2);
    if (code == LUA_OK) return lua_gettop(L) - 2;
    kl_luabox_rethrow(L, code);
    lua_pushboolean(L, 0);
    lua_insert(L, -2);
    return 2;
}

static int words_rep(lua_State *L)
{
    size_t length, between;
    luaL_checklstring(L, 1, &length);
    const lua_Integer n = luaL_checkinteger(L, 2);
    luaL_optlstring(L, 3, "", &between);
    const int64_t most = kl_luabox_string_bytes(L);
    if (n < 1 || length + between == 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    if ((int64_t)(length + between) > most / n)
        return luaL_error(L, "string.rep: a text would have more than %I bytes", (LUAI_UACINT)most);
    return watched(L);
}

static int words_move(lua_State *L)
{
    const lua_Integer from = luaL_checkinteger(L, 2), to = luaL_checkinteger(L, 3);
    if (to >= from && (lua_Unsigned)to - (lua_Unsigned)from >= MOST_MOVED)
        return luaL_error(L, "table.move: more than %d elements", (int)MOST_MOVED);
    return watched(L);
}

/* Instead of the user's order, which may be a function in C, or of <, which runs no instruction of Lua. */
static int watched_less(lua_State *L)
{
    kl_luabox_watch(L);
    if (lua_isnil(L, lua_upvalueindex(1))) {
        lua_pushboolean(L, lua_compare(L, 1, 2, LUA_OPLT));
        return 1;
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 2, 1);
    return 1;
}

static int words_sort(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    lua_pushcclosure(L, watched_less, 1);
    return watched(L);
}

/* load(text, chunk, mode, environment) for our own code: text only, no function that gives pieces, no
   compiled chunks. */
static int words_load(lua_State *L)
{
    size_t n;
    const char *const text = luaL_checklstring(L, 1, &n);
    const char *const chunk = luaL_optstring(L, 2, text);
    const int code = kl_luabox_load_pieces(L, text, n, chunk);
    if (code != LUA_OK) {
        kl_luabox_rethrow(L, code);
        lua_pushnil(L);
        lua_insert(L, -2);
        return 2;
    }
    if (!lua_isnone(L, 4)) {
        lua_pushvalue(L, 4);
        lua_setupvalue(L, -2, 1);
    }
    return 1;
}

/* ---------------------------------------------------------------- tables of functions */

typedef struct word {
    const char *name;
    lua_CFunction own; /* NULL: Lua's. Its upvalue is Lua's function of this name where there is one */
} word;

static const word base_words[] = {
    {"assert", NULL},       {"error", NULL},    {"ipairs", NULL},   {"next", NULL},   {"pairs", NULL},
    {"pcall", words_pcall}, {"rawequal", NULL}, {"rawget", NULL},   {"rawlen", NULL}, {"rawset", NULL},
    {"select", NULL},       {"tonumber", NULL}, {"tostring", NULL}, {"type", NULL},   {NULL, NULL},
};
static const word own_code_words[] = {{"getmetatable", NULL},
                                      {"setmetatable", NULL},
                                      {"load", words_load},
                                      {"xpcall", words_xpcall},
                                      {NULL, NULL}};
static const word string_words[] = {
    {"byte", NULL},
    {"char", NULL},
    {"find", kl_luapattern_find},
    {"format", NULL},
    {"gmatch", kl_luapattern_gmatch},
    {"gsub", kl_luapattern_gsub},
    {"len", NULL},
    {"lower", NULL},
    {"match", kl_luapattern_match},
    {"rep", words_rep},
    {"reverse", NULL},
    {"sub", NULL},
    {"upper", NULL},
    {NULL, NULL},
};
static const word table_words[] = {
    {"concat", NULL}, {"insert", NULL},     {"move", words_move}, {"pack", NULL},
    {"remove", NULL}, {"sort", words_sort}, {"unpack", NULL},     {NULL, NULL},
};
static const word utf8_words[] = {{"char", NULL}, {"codepoint", NULL}, {"codes", NULL},
                                  {"len", NULL},  {"offset", NULL},    {NULL, NULL}};
static const word debug_words[] = {{"getinfo", NULL}, {"traceback", NULL}, {NULL, NULL}};

/* Puts the words into the table at index `into`; the one at `from` holds Lua's own. */
static void put_words(lua_State *L, int into, int from, const word *words)
{
    for (const word *w = words; w->name != NULL; w++) {
        lua_getfield(L, from, w->name);
        lua_pushcclosure(L, w->own != NULL ? w->own : watched, 1);
        lua_setfield(L, into, w->name);
    }
}

/* Not by luaL_requiref, which would leave Lua's own table for a `require` to find. */
static void open_library(lua_State *L, int globals, const char *name, lua_CFunction open, const word *words)
{
    lua_pushcfunction(L, open);
    lua_call(L, 0, 1);
    if (words != NULL) {
        lua_newtable(L);
        put_words(L, lua_gettop(L), lua_gettop(L) - 1, words);
    } else {
        lua_pushvalue(L, -1);
    }
    lua_setfield(L, globals, name);
    lua_pop(L, 1);
}

/* Methods of strings, ("x"):rep(2), come from the metatable that all strings share; it must not hold Lua's
   own functions. */
static void close_strings(lua_State *L, int globals, int methods)
{
    lua_pushliteral(L, "");
    if (methods && lua_getmetatable(L, -1)) {
        lua_getfield(L, globals, LUA_STRLIBNAME);
        lua_setfield(L, -2, "__index");
    } else {
        lua_pushnil(L);
        lua_setmetatable(L, -2);
    }
    lua_settop(L, globals);
}

void kl_luawords_open(lua_State *L, int own_code)
{
    lua_settop(L, 0);
    lua_newtable(L); /* 1: the globals to be */
    lua_pushcfunction(L, luaopen_base);
    lua_call(L, 0, 1); /* 2: Lua's */
    put_words(L, 1, 2, base_words);
    if (own_code) put_words(L, 1, 2, own_code_words);
    lua_settop(L, 1);
    open_library(L, 1, LUA_STRLIBNAME, luaopen_string, string_words);
    open_library(L, 1, LUA_TABLIBNAME, luaopen_table, table_words);
    open_library(L, 1, LUA_UTF8LIBNAME, luaopen_utf8, utf8_words);
    open_library(L, 1, LUA_MATHLIBNAME, luaopen_math, NULL); /* each of a few instructions */
    if (own_code) open_library(L, 1, LUA_DBLIBNAME, luaopen_debug, debug_words);
    close_strings(L, 1, !own_code);
    lua_pushvalue(L, 1);
    lua_setfield(L, 1, LUA_GNAME);
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
}
