/* A Lua state for the texts of strangers: bounded memory, bounded processor time, no files, no finalizers, no
   access to other programs. Knows neither models nor jobs.

   Every block that Lua holds is counted by its allocator. Time is looked at every hundred instructions of Lua
   and at each call of a library function (luawords.c), whose own work is bounded or looks at the time too.
   What passes a limit ends the outermost call; pcall inside the box cannot catch it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_LUABOX_H
#define KL_LUABOX_H
#include "base/base.h"

typedef struct lua_State lua_State;

/* Zeros stand for the values in brackets. */
typedef struct kl_luabox_limits {
    const char *path; /* the file as messages call it; borrowed until the box is destroyed */
    /* chunk name of its text, whose lines messages give; borrowed (NULL: "@" and path) */
    const char *chunk;
    int64_t bytes; /* that Lua may hold (256 MiB) */
    int64_t string_bytes; /* of one string (16 MiB): comparing or joining two takes one instruction */
    double seconds; /* of processor time, all calls together (10 s) */
    /* 1: Lua of our own runs here too and finds load, setmetatable, debug.getinfo and so on. It keeps them
       from the stranger's text by an environment without them; strings have no methods then */
    int own_code;
} kl_luabox_limits;

typedef struct kl_luabox kl_luabox;

/* A box of its own, with the words of luawords.h. The limits are copied, but for their texts. */
kl_status kl_luabox_create(const kl_luabox_limits *limits, kl_luabox **out, kl_err *err) KL_MUST_CHECK;
void kl_luabox_destroy(kl_luabox **box);

/* Functions of the API that allocate or raise may only be used in C functions under kl_luabox_call. */
lua_State *kl_luabox_state(kl_luabox *box);

/* Pushes text[n] as a function. Compiled chunks are refused. */
kl_status kl_luabox_load(kl_luabox *box, const char *text, int64_t n, const char *chunk,
                         kl_err *err) KL_MUST_CHECK;

/* lua_call under the limits. After a failure one value is on the stack instead of function and arguments:
   what was raised, or nil where a limit was passed. err is one line, "FILE:LINE: what" where Lua knows the
   line. */
kl_status kl_luabox_call(kl_luabox *box, int narg, int nresult, kl_err *err) KL_MUST_CHECK;

/* For C functions in the box: raises where the time is over or the program was asked to stop. Costs a few
   nanoseconds. */
void kl_luabox_watch(lua_State *L);

/* The same for what a pcall caught: does nothing where that was no limit. code: of lua_pcall. */
void kl_luabox_rethrow(lua_State *L, int code);

int64_t kl_luabox_string_bytes(lua_State *L); /* the limit of one string */

/* lua_load from short pieces, with a look at the time before each: some texts take quadratic time to
   compile. */
int kl_luabox_load_pieces(lua_State *L, const char *text, size_t n, const char *chunk);

#endif
