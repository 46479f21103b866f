/* A Lua state with bounded memory. (Stands in for the box of branch `box`.)
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_LUABOX_H
#define KL_LUABOX_H
#include "base.h"
typedef struct lua_State lua_State;
typedef struct kl_luabox_limits {
    const char *path, *chunk;
    int64_t bytes;
    int own_code;
} kl_luabox_limits;
typedef struct kl_luabox kl_luabox;
kl_status kl_luabox_create(const kl_luabox_limits *limits, kl_luabox **out, kl_err *err) KL_MUST_CHECK;
void kl_luabox_destroy(kl_luabox **box);
lua_State *kl_luabox_state(kl_luabox *box);
kl_status kl_luabox_call(kl_luabox *box, int narg, int nresult, kl_err *err) KL_MUST_CHECK;
#endif
