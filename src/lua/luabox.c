/* The limits of a box and what is said when one is passed. The library functions that a box offers are in
   luawords.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "lua/luabox.h"

#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lua/luawords.h"
#include "base/mem.h"

enum {
    HOOK_EVERY = 100,
    PIECE = 256,
    BLOCK_COST = 64 /* of mem.c and the allocator below it, for each block */
};

typedef enum passed { NONE, TOO_LONG, TOO_BIG, STRING_TOO_BIG, ASKED_TO_STOP } passed;

struct kl_luabox {
    kl_luabox_limits limits;
    char own_chunk[1024];
    lua_State *L;
    int64_t live;   /* bytes that Lua holds, with the cost of blocks */
    passed refused; /* why the allocator refused last; Lua may do without after a collection */
    passed over;    /* the limit that ends the call */
    int line;       /* of the stranger's text where it was passed, 0: unknown */
    double used;    /* seconds of the calls before this one */
    double started;
    struct timespec seen; /* the last look at the clock */
};

static kl_luabox *box_of(lua_State *L)
{
    kl_luabox *b;
    memcpy(&b, lua_getextraspace(L), sizeof(b));
    return b;
}

static void *counted_alloc(void *self, void *ptr, size_t old, size_t wanted)
{
    kl_luabox *const b = self;
    const int is_string =
        ptr == NULL && old == LUA_TSTRING; /* without a block, old is the type of the object */
    const int64_t before = ptr != NULL ? (int64_t)old + BLOCK_COST : 0;
    if (wanted == 0) {
        kl_free(&ptr);
        b->live -= before;
        return NULL;
    }
    if (is_string && wanted > (size_t)b->limits.string_bytes) {
        b->refused = STRING_TOO_BIG;
        return NULL;
    }
    b->refused = TOO_BIG;
    const int64_t live =
        wanted > (size_t)b->limits.bytes ? INT64_MAX : b->live - before + (int64_t)wanted + BLOCK_COST;
    if (live > b->limits.bytes && (ptr == NULL || wanted > old)) return NULL; /* Lua counts on shrinking */
    if (kl_realloc_bytes(&ptr, (int64_t)wanted, 1, KL_MEM_MISC, NULL) != KL_OK) return NULL;
    b->live = live;
    return ptr;
}

static double processor_seconds(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The innermost line of the stranger's text that is being run. */
static int line_of(lua_State *L, const char *chunk)
{
    lua_Debug at;
    for (int level = 0; lua_getstack(L, level, &at); level++)
        if (lua_getinfo(L, "Sl", &at) && at.currentline > 0 && strcmp(at.source, chunk) == 0)
            return at.currentline;
    return 0;
}

void kl_luabox_watch(lua_State *L)
{
    kl_luabox *const b = box_of(L);
    if (b->over == NONE) {
        struct timespec now = {0};
        clock_gettime(CLOCK_MONOTONIC_COARSE,
                      &now); /* moves every few milliseconds and asks no kernel, which the other clock does */
        if (now.tv_sec == b->seen.tv_sec && now.tv_nsec == b->seen.tv_nsec) return;
        b->seen = now;
        if (kl_interrupted()) b->over = ASKED_TO_STOP;
        else if (b->used + processor_seconds() - b->started > b->limits.seconds) b->over = TOO_LONG;
        else return;
        b->line = line_of(L, b->limits.chunk);
    }
    lua_pushnil(L);
    lua_error(L);
}

void kl_luabox_rethrow(lua_State *L, int code)
{
    kl_luabox *const b = box_of(L);
    if (code == LUA_ERRMEM && b->over == NONE) b->over = b->refused;
    if (b->over != NONE) kl_luabox_watch(L);
}

int64_t kl_luabox_string_bytes(lua_State *L) { return box_of(L)->limits.string_bytes; }

static void count_hook(lua_State *L, lua_Debug *where)
{
    (void)where;
    kl_luabox_watch(L);
}

/* ---------------------------------------------------------------- calls */

static kl_status tell_limit(const kl_luabox *b, kl_err *err)
{
    char where[16] = "";
    if (b->line > 0) snprintf(where, sizeof(where), ":%d", b->line);
    const char *const path = b->limits.path;
    switch (b->over) {
    case ASKED_TO_STOP: return kl_fail(err, KL_EINPUT, "%.300s%s: interrupted", path, where);
    case TOO_LONG:
        return kl_fail(
            err, KL_EINPUT,
            "%.300s%s: takes more than the %.3g s of processor time that a file may take (an endless loop?)",
            path, where, b->limits.seconds);
    case STRING_TOO_BIG:
        return kl_fail(err, KL_EINPUT,
                       "%.300s: makes a text of more than %lld MB; allowed: %lld MB for one text", path,
                       (long long)(b->limits.string_bytes >> 20), (long long)(b->limits.string_bytes >> 20));
    default:
        return kl_fail(err, KL_EINPUT, "%.300s: needs too much memory; allowed: %lld MB", path,
                       (long long)(b->limits.bytes >> 20));
    }
}

/* What was raised, as one line. Signs that a terminal would obey become blanks. */
static kl_status tell_error(kl_luabox *b, kl_err *err)
{
    char text[sizeof(err->text)];
    const char *const why =
        lua_type(b->L, -1) == LUA_TSTRING ? lua_tostring(b->L, -1) : "an error without a message";
    snprintf(text, sizeof(text), "%s", why);
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 127) *c = ' ';
    const int has_path =
        strstr(text, b->limits.path) != NULL || strncmp(text, "...", 3) == 0; /* Lua cuts a long path */
    return kl_fail(err, KL_EINPUT, "%.300s%s%.700s", has_path ? "" : b->limits.path, has_path ? "" : ": ",
                   text);
}

static kl_status finish(kl_luabox *b, int code, kl_err *err)
{
    b->used += processor_seconds() - b->started;
    if (code == LUA_OK) return KL_OK;
    if (code == LUA_ERRMEM && b->over == NONE) b->over = b->refused;
    if (b->over == NONE) return tell_error(b, err);
    lua_pop(b->L, 1);
    lua_pushnil(b->L);
    return tell_limit(b, err);
}

kl_status kl_luabox_call(kl_luabox *b, int narg, int nresult, kl_err *err)
{
    b->started = processor_seconds();
    return finish(b, lua_pcall(b->L, narg, nresult, 0), err);
}

typedef struct pieces {
    const char *text;
    size_t left;
} pieces;

/* The compiler walks the list of an expression's jumps at each `or`: a long one takes quadratic time, and no
   instruction is run meanwhile. */
static const char *next_piece(lua_State *L, void *self, size_t *size)
{
    pieces *const p = self;
    kl_luabox_watch(L);
    const char *const text = p->text;
    *size = p->left < PIECE ? p->left : PIECE;
    p->text += *size;
    p->left -= *size;
    return text;
}

int kl_luabox_load_pieces(lua_State *L, const char *text, size_t n, const char *chunk)
{
    pieces p = {text, n};
    return lua_load(L, next_piece, &p, chunk, "t");
}

kl_status kl_luabox_load(kl_luabox *b, const char *text, int64_t n, const char *chunk, kl_err *err)
{
    b->started = processor_seconds();
    return finish(b, kl_luabox_load_pieces(b->L, text, (size_t)n, chunk), err);
}

/* ---------------------------------------------------------------- create and destroy */

static int open_words(lua_State *L)
{
    kl_luawords_open(L, box_of(L)->limits.own_code);
    return 0;
}

kl_status kl_luabox_create(const kl_luabox_limits *limits, kl_luabox **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_luabox *b = NULL;
    *out = NULL;
    KL_TRY(kl_alloc(&b, 1, KL_MEM_MISC, err));
    b->limits = *limits;
    if (b->limits.path == NULL) b->limits.path = "Lua";
    if (b->limits.bytes == 0) b->limits.bytes = INT64_C(256) << 20;
    if (b->limits.string_bytes == 0) b->limits.string_bytes = INT64_C(16) << 20;
    if (b->limits.seconds <= 0) b->limits.seconds = 10.0;
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    b->limits.seconds *= 0.05; /* A fuzzer finds endless files soon and would spend its hours in them. */
#endif
    if (b->limits.chunk == NULL) {
        snprintf(b->own_chunk, sizeof(b->own_chunk), "@%s", b->limits.path);
        b->limits.chunk = b->own_chunk;
    }
    b->L = lua_newstate(counted_alloc, b);
    if (b->L == NULL) KL_TRY(kl_fail(err, KL_ENOMEM, "%.300s: no memory for Lua", b->limits.path));
    memcpy(lua_getextraspace(b->L), &b, sizeof(b));
    lua_sethook(b->L, count_hook, LUA_MASKCOUNT, HOOK_EVERY);
    lua_pushcfunction(b->L, open_words);
    KL_TRY(kl_luabox_call(b, 0, 0, err));
    *out = b;
    b = NULL;
out:
    kl_luabox_destroy(&b);
    return st;
}

void kl_luabox_destroy(kl_luabox **box)
{
    if (*box == NULL) return;
    if ((*box)->L != NULL) lua_close((*box)->L); /* there are no finalizers to run */
    kl_free(box);
}

lua_State *kl_luabox_state(kl_luabox *b) { return b->L; }
