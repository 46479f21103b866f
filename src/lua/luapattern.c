/* Lua's patterns (reference manual 6.4.1) by a matcher that looks at the time: backtracking is exponential in
   the number of quantifiers, and Lua's own runs to its end in C, where no hook is called. The functions are
   those of Lua's string library, with its messages.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include <ctype.h>
#include <lauxlib.h>
#include <lua.h>
#include <stddef.h>
#include <string.h>

#include "lua/luabox.h"
#include "lua/luawords.h"

enum {
    MOST_CAPTURES = 32,
    MOST_DEPTH = 200,
    STEPS_PER_LOOK = 4096,
};
enum {
    OPEN_CAPTURE = -1,
    POSITION_CAPTURE = -2,
};

typedef struct matcher {
    lua_State *L;
    const char *text, *text_end, *pattern_end;
    int depth, ncapture;
    unsigned steps;
    struct {
        const char *from;
        ptrdiff_t length; /* or OPEN_CAPTURE or POSITION_CAPTURE */
    } capture[MOST_CAPTURES];
} matcher;

static void step(matcher *m)
{
    if (++m->steps % STEPS_PER_LOOK == 0) kl_luabox_watch(m->L);
}

/* ---------------------------------------------------------------- one character */

/* Behind the character class that begins at p. */
static const char *class_end(matcher *m, const char *p)
{
    if (*p == '%') {
        if (p + 1 == m->pattern_end) luaL_error(m->L, "malformed pattern (ends with '%%')");
        return p + 2;
    }
    if (*p != '[') return p + 1;
    p++;
    if (p < m->pattern_end && *p == '^') p++;
    do { /* a ] that comes first stands for itself */
        step(m);
        if (p >= m->pattern_end) luaL_error(m->L, "malformed pattern (missing ']')");
        if (*p++ == '%') p++;
    } while (p >= m->pattern_end || *p != ']');
    return p + 1;
}

static int letter_matches(int c, int letter)
{
    int is;
    switch (tolower(letter)) {
    case 'a': is = isalpha(c); break;
    case 'c': is = iscntrl(c); break;
    case 'd': is = isdigit(c); break;
    case 'g': is = isgraph(c); break;
    case 'l': is = islower(c); break;
    case 'p': is = ispunct(c); break;
    case 's': is = isspace(c); break;
    case 'u': is = isupper(c); break;
    case 'w': is = isalnum(c); break;
    case 'x': is = isxdigit(c); break;
    case 'z': is = c == 0; break; /* of Lua 5.1 */
    default: return letter == c;
    }
    return isupper(letter) ? !is : is != 0;
}

/* set: at its '['; last: at its ']'. */
static int set_matches(matcher *m, int c, const char *set, const char *last)
{
    const int inside = set[1] != '^';
    const char *p = set + (inside ? 1 : 2);
    while (p < last) {
        step(m);
        if (*p == '%') {
            if (letter_matches(c, (unsigned char)p[1])) return inside;
            p += 2;
        } else if (p[1] == '-' && p + 2 < last) {
            if ((unsigned char)p[0] <= c && c <= (unsigned char)p[2]) return inside;
            p += 3;
        } else {
            if ((unsigned char)*p == c) return inside;
            p++;
        }
    }
    return !inside;
}

/* Whether the character at s is in the class from p to end. */
static int one_matches(matcher *m, const char *s, const char *p, const char *end)
{
    step(m);
    if (s >= m->text_end) return 0;
    const int c = (unsigned char)*s;
    switch (*p) {
    case '.': return 1;
    case '%': return letter_matches(c, (unsigned char)p[1]);
    case '[': return set_matches(m, c, p, end - 1);
    default: return (unsigned char)*p == c;
    }
}

/* ---------------------------------------------------------------- items of a pattern */

static const char *match(matcher *m, const char *s, const char *p);

/* %bxy */
static const char *match_balance(matcher *m, const char *s, const char *p)
{
    if (p + 1 >= m->pattern_end) luaL_error(m->L, "malformed pattern (missing arguments to '%%b')");
    if (s >= m->text_end || *s != p[0]) return NULL;
    ptrdiff_t open = 1;
    while (++s < m->text_end) {
        step(m);
        if (*s == p[1]) {
            if (--open == 0) return s + 1;
        } else if (*s == p[0]) open++;
    }
    return NULL;
}

/* As many as possible, then fewer. */
static const char *match_most(matcher *m, const char *s, const char *p, const char *end)
{
    ptrdiff_t n = 0;
    while (one_matches(m, s + n, p, end)) n++;
    for (; n >= 0; n--) {
        const char *const to = match(m, s + n, end + 1);
        if (to != NULL) return to;
    }
    return NULL;
}

static const char *match_fewest(matcher *m, const char *s, const char *p, const char *end)
{
    for (;; s++) {
        const char *const to = match(m, s, end + 1);
        if (to != NULL) return to;
        if (!one_matches(m, s, p, end)) return NULL;
    }
}

static const char *begin_capture(matcher *m, const char *s, const char *p, ptrdiff_t length)
{
    if (m->ncapture >= MOST_CAPTURES) luaL_error(m->L, "too many captures");
    m->capture[m->ncapture].from = s;
    m->capture[m->ncapture++].length = length;
    const char *const to = match(m, s, p);
    if (to == NULL) m->ncapture--;
    return to;
}

static const char *end_capture(matcher *m, const char *s, const char *p)
{
    int c = m->ncapture - 1;
    while (c >= 0 && m->capture[c].length != OPEN_CAPTURE) c--;
    if (c < 0) luaL_error(m->L, "invalid pattern capture");
    m->capture[c].length = s - m->capture[c].from;
    const char *const to = match(m, s, p);
    if (to == NULL) m->capture[c].length = OPEN_CAPTURE;
    return to;
}

/* %1 */
static const char *match_capture(matcher *m, const char *s, int digit)
{
    const int c = digit - '1';
    if (c < 0 || c >= m->ncapture || m->capture[c].length == OPEN_CAPTURE)
        luaL_error(m->L, "invalid capture index %%%d", c + 1);
    const ptrdiff_t n = m->capture[c].length;
    step(m);
    return n != POSITION_CAPTURE && m->text_end - s >= n && memcmp(m->capture[c].from, s, (size_t)n) == 0
               ? s + n
               : NULL;
}

/* %f[set]: between a character outside of the set and one inside. */
static int at_frontier(matcher *m, const char *s, const char *set, const char *end)
{
    const int before = s == m->text ? 0 : (unsigned char)s[-1];
    const int after = s == m->text_end ? 0 : (unsigned char)*s;
    return !set_matches(m, before, set, end - 1) && set_matches(m, after, set, end - 1);
}

/* Where the match of the pattern from p on ends that begins at s, or NULL. Loops over what has one
   continuation, calls itself for choices. */
static const char *match_from(matcher *m, const char *s, const char *p)
{
    while (p < m->pattern_end) {
        step(m);
        if (*p == '(') {
            if (p + 1 < m->pattern_end && p[1] == ')') return begin_capture(m, s, p + 2, POSITION_CAPTURE);
            return begin_capture(m, s, p + 1, OPEN_CAPTURE);
        }
        if (*p == ')') return end_capture(m, s, p + 1);
        if (*p == '$' && p + 1 == m->pattern_end) return s == m->text_end ? s : NULL;
        const int escaped = *p == '%' && p + 1 < m->pattern_end ? (unsigned char)p[1] : 0;
        if (escaped == 'b') {
            s = match_balance(m, s, p + 2);
            p += 4;
        } else if (escaped == 'f') {
            p += 2;
            if (p >= m->pattern_end || *p != '[') luaL_error(m->L, "missing '[' after '%%f' in pattern");
            const char *const end = class_end(m, p);
            if (!at_frontier(m, s, p, end)) return NULL;
            p = end;
        } else if (isdigit(escaped)) {
            s = match_capture(m, s, escaped);
            p += 2;
        } else {
            const char *const end = class_end(m, p);
            const char quantifier = end < m->pattern_end ? *end : '\0';
            if (quantifier == '-') return match_fewest(m, s, p, end);
            if (quantifier == '*') return match_most(m, s, p, end);
            const int one = one_matches(m, s, p, end);
            if (quantifier == '+') return one ? match_most(m, s + 1, p, end) : NULL;
            if (quantifier == '?') {
                const char *const to = one ? match(m, s + 1, end + 1) : NULL;
                if (to != NULL) return to;
                p = end + 1;
            } else {
                s = one ? s + 1 : NULL;
                p = end;
            }
        }
        if (s == NULL) return NULL;
    }
    return s;
}

static const char *match(matcher *m, const char *s, const char *p)
{
    if (++m->depth > MOST_DEPTH) luaL_error(m->L, "pattern too complex");
    const char *const to = match_from(m, s, p);
    m->depth--;
    return to;
}

/* A fresh attempt at s. */
static const char *attempt(matcher *m, const char *s, const char *p)
{
    m->depth = m->ncapture = 0;
    return match(m, s, p);
}

/* ---------------------------------------------------------------- captures as values */

/* Capture c on the stack's top; the whole match, from s to e, for the first where there is none. */
static void push_capture(matcher *m, int c, const char *s, const char *e)
{
    if (c >= m->ncapture) {
        if (c != 0) luaL_error(m->L, "invalid capture index %%%d", c + 1);
        lua_pushlstring(m->L, s, (size_t)(e - s));
    } else if (m->capture[c].length == OPEN_CAPTURE) luaL_error(m->L, "unfinished capture");
    else if (m->capture[c].length == POSITION_CAPTURE)
        lua_pushinteger(m->L, m->capture[c].from - m->text + 1);
    else lua_pushlstring(m->L, m->capture[c].from, (size_t)m->capture[c].length);
}

static int push_captures(matcher *m, const char *s, const char *e)
{
    const int n = m->ncapture == 0 && s != NULL ? 1 : m->ncapture;
    luaL_checkstack(m->L, n, "too many captures");
    for (int c = 0; c < n; c++) push_capture(m, c, s, e);
    return n;
}

/* Text and pattern are arguments 1 and 2, or upvalues. */
static matcher begin(lua_State *L, int text, int pattern, const char **p)
{
    size_t length, pattern_length;
    const char *const s = luaL_checklstring(L, text, &length);
    *p = luaL_checklstring(L, pattern, &pattern_length);
    kl_luabox_watch(L);
    return (matcher){.L = L, .text = s, .text_end = s + length, .pattern_end = *p + pattern_length};
}

/* Offset of the argument that says where to begin; behind the text's end: nowhere. */
static size_t start_of(lua_State *L, int arg, size_t length)
{
    const lua_Integer at = luaL_optinteger(L, arg, 1);
    if (at > 0) return (size_t)at - 1;
    if (at == 0 || at < -(lua_Integer)length) return 0;
    return length - (size_t)-at;
}

static int has_specials(const char *p, const char *end)
{
    for (; p < end; p++)
        if (*p != '\0' && strchr("^$*+?.([%-", *p) != NULL) return 1;
    return 0;
}

static int find(lua_State *L, int wants_place)
{
    const char *p;
    matcher m = begin(L, 1, 2, &p);
    const size_t length = (size_t)(m.text_end - m.text), start = start_of(L, 3, length);
    if (start > length) {
        lua_pushnil(L);
        return 1;
    }
    if (wants_place && (lua_toboolean(L, 4) || !has_specials(p, m.pattern_end))) {
        const size_t wanted = (size_t)(m.pattern_end - p);
        const char *const at = memmem(m.text + start, length - start, p, wanted);
        if (at == NULL) {
            lua_pushnil(L);
            return 1;
        }
        lua_pushinteger(L, at - m.text + 1);
        lua_pushinteger(L, at - m.text + (ptrdiff_t)wanted);
        return 2;
    }
    const int anchored = p < m.pattern_end && *p == '^';
    for (const char *s = m.text + start; s <= m.text_end; s++) {
        const char *const e = attempt(&m, s, p + anchored);
        if (e != NULL && !wants_place) return push_captures(&m, s, e);
        if (e != NULL) {
            lua_pushinteger(L, s - m.text + 1);
            lua_pushinteger(L, e - m.text);
            return push_captures(&m, NULL, NULL) + 2;
        }
        if (anchored) break;
    }
    lua_pushnil(L);
    return 1;
}

int kl_luapattern_find(lua_State *L) { return find(L, 1); }
int kl_luapattern_match(lua_State *L) { return find(L, 0); }

/* Upvalues: text, pattern, offset to go on at, end of the last match (-1: none). */
static int next_match(lua_State *L)
{
    const char *p;
    matcher m = begin(L, lua_upvalueindex(1), lua_upvalueindex(2), &p);
    const lua_Integer last = lua_tointeger(L, lua_upvalueindex(4));
    for (const char *s = m.text + lua_tointeger(L, lua_upvalueindex(3)); s <= m.text_end; s++) {
        const char *const e = attempt(&m, s, p);
        if (e == NULL || e - m.text == last) continue;
        for (int up = 3; up <= 4; up++) {
            lua_pushinteger(L, e - m.text);
            lua_replace(L, lua_upvalueindex(up));
        }
        return push_captures(&m, s, e);
    }
    return 0;
}

int kl_luapattern_gmatch(lua_State *L)
{
    size_t length;
    luaL_checklstring(L, 1, &length);
    luaL_checkstring(L, 2);
    const size_t start = start_of(L, 3, length);
    lua_settop(L, 2);
    lua_pushinteger(L, (lua_Integer)(start > length ? length + 1 : start));
    lua_pushinteger(L, -1);
    lua_pushcclosure(L, next_match, 4);
    return 1;
}

/* ---------------------------------------------------------------- gsub */

/* The text of argument 3 with %0 to %9 and %% replaced. */
static void add_text(matcher *m, luaL_Buffer *b, const char *s, const char *e)
{
    size_t n;
    const char *const text = lua_tolstring(m->L, 3, &n);
    for (size_t i = 0; i < n; i++) {
        step(m);
        if (text[i] != '%') {
            luaL_addchar(b, text[i]);
            continue;
        }
        i++; /* a zero stands behind the text's end */
        if (text[i] == '%') luaL_addchar(b, '%');
        else if (text[i] == '0') luaL_addlstring(b, s, (size_t)(e - s));
        else if (isdigit((unsigned char)text[i])) {
            push_capture(m, text[i] - '1', s, e);
            luaL_tolstring(m->L, -1, NULL); /* positions are numbers */
            lua_remove(m->L, -2);
            luaL_addvalue(b);
        } else luaL_error(m->L, "invalid use of '%%' in replacement string");
    }
}

/* Adds what argument 3, a text, table or function, makes of the match from s to e. */
static void add_value(matcher *m, luaL_Buffer *b, const char *s, const char *e)
{
    lua_State *const L = m->L;
    const int type = lua_type(L, 3);
    if (type == LUA_TFUNCTION) {
        lua_pushvalue(L, 3);
        lua_call(L, push_captures(m, s, e), 1);
    } else if (type == LUA_TTABLE) {
        push_capture(m, 0, s, e);
        lua_gettable(L, 3);
    } else {
        add_text(m, b, s, e);
        return;
    }
    if (!lua_toboolean(L, -1)) {
        lua_pop(L, 1);
        luaL_addlstring(b, s, (size_t)(e - s));
        return;
    }
    if (!lua_isstring(L, -1)) luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    luaL_addvalue(b);
}

int kl_luapattern_gsub(lua_State *L)
{
    const char *p;
    matcher m = begin(L, 1, 2, &p);
    const int type = lua_type(L, 3);
    luaL_argexpected(
        L, type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE, 3,
        "string/function/table");
    const lua_Integer most = luaL_optinteger(L, 4, m.text_end - m.text + 1);
    const int anchored = p < m.pattern_end && *p == '^';
    const char *s = m.text, *last = NULL;
    lua_Integer n = 0;
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    while (n < most) {
        const char *const e = attempt(&m, s, p + anchored);
        if (e != NULL && e != last) {
            n++;
            add_value(&m, &b, s, e);
            s = last = e;
        } else if (s < m.text_end) luaL_addchar(&b, *s++);
        else break;
        if (anchored) break;
    }
    luaL_addlstring(&b, s, (size_t)(m.text_end - s));
    luaL_pushresult(&b);
    lua_pushinteger(L, n);
    return 2;
}
