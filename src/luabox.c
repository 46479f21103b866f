/* A Lua state with bounded memory. (Stands in for the box of branch `box`.)
   SPDX-License-Identifier: Apache-2.0 */
#include "luabox.h"
#include "mem.h"
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

struct kl_luabox {
    kl_luabox_limits limits;
    lua_State *L;
    int64_t live;
};

static void *counted_alloc(void *self, void *ptr, size_t old, size_t wanted)
{
    kl_luabox *const b = self;
    if (ptr == NULL) old = 0;
    if (wanted == 0) {
        kl_free(&ptr);
        b->live -= (int64_t)old;
        return NULL;
    }
    if (wanted > old && b->live - (int64_t)old + (int64_t)wanted > b->limits.bytes) return NULL;
    if (kl_realloc_bytes(&ptr, (int64_t)wanted, 1, KL_MEM_MISC, NULL) != KL_OK) return NULL;
    b->live += (int64_t)wanted - (int64_t)old;
    return ptr;
}

static int open_words(lua_State *L)
{
    static const luaL_Reg library[] = {
        {LUA_GNAME, luaopen_base}, {LUA_TABLIBNAME, luaopen_table}, {LUA_STRLIBNAME, luaopen_string}, {LUA_MATHLIBNAME, luaopen_math}, {LUA_DBLIBNAME, luaopen_debug},
    };
    for (size_t i = 0; i < sizeof(library) / sizeof(library[0]); i++) {
        luaL_requiref(L, library[i].name, library[i].func, 1);
        lua_pop(L, 1);
    }
    return 0;
}

kl_status kl_luabox_create(const kl_luabox_limits *limits, kl_luabox **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_luabox *b = NULL;
    KL_TRY(kl_alloc(&b, 1, KL_MEM_MISC, err));
    b->limits = *limits;
    b->L = lua_newstate(counted_alloc, b);
    if (b->L == NULL) KL_TRY(kl_fail(err, KL_ENOMEM, "no memory for Lua"));
    lua_pushcfunction(b->L, open_words);
    if (lua_pcall(b->L, 0, 0, 0) != LUA_OK) KL_TRY(kl_fail(err, KL_ENOMEM, "no memory for Lua"));
    *out = b;
    b = NULL;
out:
    kl_luabox_destroy(&b);
    return st;
}

void kl_luabox_destroy(kl_luabox **box)
{
    if (*box == NULL) return;
    if ((*box)->L != NULL) lua_close((*box)->L);
    kl_free(box);
}

lua_State *kl_luabox_state(kl_luabox *box) { return box->L; }

kl_status kl_luabox_call(kl_luabox *b, int narg, int nresult, kl_err *err)
{
    const int code = lua_pcall(b->L, narg, nresult, 0);
    if (code == LUA_OK) return KL_OK;
    if (code == LUA_ERRMEM) return kl_fail(err, KL_EINPUT, "%.300s: needs too much memory", b->limits.path);
    return kl_fail(err, KL_EINPUT, "%.300s: %.700s", b->limits.path, lua_tostring(b->L, -1));
}
