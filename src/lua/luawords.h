/* The library functions of a box (luabox.h). Each takes milliseconds at most or looks at the time while it
   works.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_LUAWORDS_H
#define KL_LUAWORDS_H

struct lua_State;

/* Fills the globals. own_code: of kl_luabox_limits. */
void kl_luawords_open(struct lua_State *L, int own_code);

/* string.find, match, gmatch and gsub, by a matcher that looks at the time (luapattern.c). */
int kl_luapattern_find(struct lua_State *L);
int kl_luapattern_match(struct lua_State *L);
int kl_luapattern_gmatch(struct lua_State *L);
int kl_luapattern_gsub(struct lua_State *L);

#endif
