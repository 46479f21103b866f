/* The box for texts of strangers: what it bounds, what it keeps away, and that its own library functions say
   what Lua's say.
   SPDX-License-Identifier: Apache-2.0 */
#include "kl_test.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <time.h>

#include "lua/luabox.h"

/* Of a processor, which other programs do not stretch. */
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Runs a text that returns one text; copies it to result, which may be NULL. */
static kl_status run(const kl_luabox_limits *limits, const char *text, int64_t n, char **result, kl_err *err)
{
    kl_status st = KL_OK;
    kl_luabox *box = NULL;
    KL_TRY(kl_luabox_create(limits, &box, err));
    KL_TRY(kl_luabox_load(box, text, n, "@file.lua", err));
    KL_TRY(kl_luabox_call(box, 0, 1, err));
    if (result != NULL) {
        assert_int_equal(lua_type(kl_luabox_state(box), -1), LUA_TSTRING);
        *result = kl_strdup(lua_tostring(kl_luabox_state(box), -1));
        if (*result == NULL) st = kl_fail(err, KL_ENOMEM, "no memory for the result");
    }
out:
    kl_luabox_destroy(&box);
    return st;
}

/* ---------------------------------------------------------------- the same as Lua */

/* Patterns and texts of a generator of random numbers of its own, all functions on them; what they return or
   raise, as one text. */
static const char same[] =
    "local seed = ...\n"
    "local state = 12345\n"
    "local function random(n) state = (state * 1103515245 + 12345) & 0x7fffffff return (state >> 8) % n + 1 "
    "end\n"
    "local atoms = {'a', 'b', '.', '%a', '%d', '%s', '%w', '%W', '%x', '%p', '%u', '%l', '%c', '%g', '[ab]', "
    "'[^a]', '[a-c]', '[%w_]', '[]]', '[^]b]', '[a-]', '(', ')', '()', '%1',\n"
    "    '%b()', '%bab', '%f[%w]', '%f[^a]', '^', '$', '*', '+', '-', '?', '%', '[', ']', '%%', '%.', '\\0', "
    "'1', ' ', '(a*)', '(.-)', 'a-', 'b*', '%w+', '[b-a]'}\n"
    "local signs = {'a', 'b', 'c', ' ', '1', '(', ')', '.', '%', '\\0', 'ab', 'aab', ']', '-', 'A', "
    "'\\200'}\n"
    "local function draw(from, n) local t = {} for i = 1, n do t[i] = from[random(#from)] end return "
    "table.concat(t) end\n"
    "local out = {}\n"
    "local function add(ok, ...)\n"
    "    local t = {tostring(ok)}\n"
    "    for i = 1, select('#', ...) do t[#t + 1] = tostring((select(i, ...))) end\n"
    "    t = table.concat(t, ','):gsub('^false,[^:]*:%d+: ', 'false,')\n"
    "    out[#out + 1] = t:gsub('%z', '0'):gsub(\" to '[^']*'\", '')\n"
    "end\n"
    "for round = 1, 20000 do\n"
    "    local s, p = draw(signs, random(12) - 1), draw(atoms, random(6))\n"
    "    add(pcall(string.find, s, p, random(9) - 5, random(7) == 1))\n"
    "    add(pcall(string.match, s, p))\n"
    "    add(pcall(string.gsub, s, p, ({'<%0>', '%1', '%%', '%', '%a', ''})[random(6)], random(4) ~= 1 and "
    "random(5) or nil))\n"
    "    add(pcall(string.gsub, s, p, function(a, b) if b then return end return random(3) == 1 and false or "
    "tostring(a) .. '!' end))\n"
    "    add(pcall(string.gsub, s, p, {a = 'x', ab = 1, [' '] = false}))\n"
    "    add(pcall(function() local t = {} for a, b in string.gmatch(s, p) do t[#t + 1] = tostring(a) .. "
    "tostring(b) end return table.concat(t, ';') end))\n"
    "end\n"
    "add(pcall(string.gsub, 'a', 'a', true)) add(pcall(string.gsub, 'a', 'a', function() return {} end)) "
    "add(pcall(string.rep, 'ab', 3, '-')) add(('x'):rep(-1))\n"
    "add(pcall(string.find, 'a\\0b', '\\0')) add(pcall(string.find, '', '')) add(pcall(string.find, 'abc', "
    "'', 10)) add(pcall(string.find, 'abc', 'c', -1)) add(10 .. '', '10' + 1)\n"
    "local t = {5, 3, 9, 1, 7} table.sort(t) add(table.concat(t, ' ')) table.sort(t, function(a, b) return a "
    "> b end) add(table.concat(t, ' '))\n"
    "add(table.concat(table.move(t, 1, 3, 2), ' ')) add(table.unpack(t)) add(pcall(error, 'x')) "
    "add(pcall(pcall)) add(select(2, pcall(pcall, error)))\n"
    "add(utf8.char(8364, 65)) add(utf8.len('\\u{20ac}a')) add(math.type(3), math.floor(2.5)) "
    "add(string.format('%5.2f|%q|%s', 1.5, 'a', nil))\n"
    "return table.concat(out, '\\n')\n";

static void test_same(void **state)
{
    (void)state;
    kl_err err = {{0}};
    char *mine = NULL;
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    assert_int_equal(luaL_loadbuffer(L, same, sizeof(same) - 1, "@file.lua"), LUA_OK);
    if (lua_pcall(L, 0, 1, 0) != LUA_OK) fail_msg("%s", lua_tostring(L, -1));
    if (run(&(kl_luabox_limits){.seconds = 60, .bytes = 1 << 30}, same, sizeof(same) - 1, &mine, &err) !=
        KL_OK)
        fail_msg("%s", err.text);
    const char *a = mine, *b = lua_tostring(L, -1);
    for (int line = 1; *a != '\0' || *b != '\0'; line++) {
        const size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
        if (na != nb || memcmp(a, b, na) != 0)
            fail_msg("line %d: the box says '%.*s', Lua '%.*s'", line, (int)na, a, (int)nb, b);
        a += na + (a[na] != '\0');
        b += nb + (b[nb] != '\0');
    }
    kl_free(&mine);
    lua_close(L);
    assert_int_equal(kl_mem_live_total(), 0);
}

/* ---------------------------------------------------------------- limits */

static const char time_limit[] = "takes more than", memory_limit[] = "needs too much memory",
                  text_limit[] = "makes a text of more than";
static const struct {
    const char *text, *says;
} limits[] = {
    {"while true do end", time_limit},
    {"::a:: goto a", time_limit},
    {"local function f() return f() end f()", time_limit},
    {"string.find(string.rep('a', 40), string.rep('a*', 40) .. 'b')", time_limit},
    {"string.match(string.rep('a', 40), string.rep('a-', 40) .. 'b')", time_limit},
    {"for x in string.gmatch(string.rep('a', 40), string.rep('a*', 40) .. 'b') do end", time_limit},
    {"string.gsub(string.rep('a', 40), string.rep('a?', 40) .. string.rep('a', 40) .. 'b', '')", time_limit},
    {"string.find(string.rep('a', 1 << 20), '.-.-b')", time_limit},
    {"return ('a'):rep(40):find(('a*'):rep(40) .. 'b')", time_limit},
    {"string.find(string.rep('(', 1 << 22), '%b()%b()%b()%b()')return('(' .. string.rep('(', 1 << "
     "22)):find('x?%b()x')",
     time_limit},
    {"string.find(string.rep('a', 1 << 20), '[' .. string.rep('b', 1 << 20) .. ']')", time_limit},
    {"local s = string.rep('a', 1 << 23) while true do local x = s == s .. '' end", time_limit},
    {"local t = {} for i = 1, 500 do t[i] = string.rep('a', 1 << 20) end table.sort(t, function(a, b) "
     "while true do end end)",
     time_limit},
    {"local t = {} for i = 1, 2000000 do t[i] = i end while true do table.sort(t, function(a, b) return "
     "a > b end) table.sort(t) end",
     time_limit},
    {"local s = string.rep('a', 1 << 23) local t = {} for i = 1, 100000 do t[i] = s end table.sort(t)",
     time_limit},
    {"while true do pcall(function() while true do end end) end", time_limit},
    {"local function f() while true do pcall(f) end end f()", time_limit},
    {"pcall(pcall, pcall, function() pcall(function() while true do end end) end) while true do end",
     time_limit},
    {"local t = table.pack(pcall(function() while true do end end)) while true do end", time_limit},
    {"string.gsub('a', 'a', function() while true do end end)", time_limit},
    {"string.gsub('a', 'a', function() while true do pcall(string.gsub, 'a', 'a', function() while true "
     "do end end) end end)",
     time_limit},
    {"local t = {} for i = 1, 1e6 do t[i] = i end while true do table.insert(t, 1, 0) table.remove(t, 1) "
     "end",
     time_limit},
    {"local t = {} for i = 1, 1e6 do t[i] = i end for i = 1, 1e6 do t[i] = nil end while true do next(t) "
     "end",
     time_limit},
    {"local t = table.pack(string.byte(string.rep('x', 100000), 1, -1)) while true do table.concat(t, "
     "',') end",
     time_limit},
    {"local s = string.rep(' ', 1 << 23) .. '1' while true do local x = s + 1 end", time_limit},
    {"local t = {} while true do t[#t + 1] = {} end", memory_limit},
    {"local t = {} while true do t[#t + 1] = string.rep('x', 1 << 20) .. #t end", memory_limit},
    {"while true do pcall(function() local t = {} while true do t = {t} end end) end", memory_limit},
    {"local s = 'x' while true do s = s .. s end", text_limit},
    {"local s = string.rep('x', 1 << 23) return s .. s .. s .. s .. s", text_limit},
    {"local t = {} for i = 1, 300 do t[i] = string.rep('x', 1 << 20) end return table.concat(t)",
     memory_limit},
    {"return string.rep('x', 1 << 30)", "string.rep"},
    {"return ('x'):rep(1e9, ' ')", "string.rep"},
    {"return string.rep('', 1 << 60, 'x')", "string.rep"},
    {"table.move({}, 1, 1 << 60, 2)", "table.move"},
    {"table.move({}, math.mininteger, math.maxinteger, 2)", "table.move"},
    {"return table.unpack({}, 1, 1e8)", "too many results"},
    {"return string.format('%9999999d', 1)", "invalid conversion"},
    {"local function f() return 1 + f() end f()", "stack overflow"},
    {"local function f() return pcall(f) end error((select(-1, f())))", "overflow"},
    {"local s = string.rep('(', 100000) return string.find(s, s)", "too"},
    {"return string.find(string.rep('x', 1000), string.rep('x?', 1000) .. string.rep('(x)', 20))",
     "too complex"},
    {"error(setmetatable({}, {}))", "setmetatable"},
    {"error({})", "an error without a message"},
    {"error('a\\nb\\27[2Jc')", "a b [2Jc"},
    {"error(nil)", "an error without a message"},
    {"local x <close> = {}", "non-closable"},
    {"load('x')", "load"},
    {"loadstring('x')", "loadstring"},
    {"require('io')", "require"},
    {"io.open('x')", "io"},
    {"os.exit()", "os"},
    {"dofile('x')", "dofile"},
    {"debug.sethook()", "debug"},
    {"collectgarbage()", "collectgarbage"},
    {"coroutine.create(error)", "coroutine"},
    {"print(1)", "print"},
    {"getmetatable('')", "getmetatable"},
    {"package.loadlib('x', '*')", "package"},
    {"string.dump(error)", "dump"},
    {"xpcall(error, error)", "xpcall"},
    {"warn('@on')", "warn"},
    {"_G.io.open('x')", "io"},
    {"\033Lua", "binary chunk"},
    {"return (", "unexpected symbol"},
};

static void test_limits(void **state)
{
    const double most = 0.1; /* long enough to be inside of what never ends */
    (void)state;
    for (size_t k = 0; k < sizeof(limits) / sizeof(limits[0]); k++) {
        kl_err err = {{0}};
        kl_test_case("%s", limits[k].text);
        const double before = seconds();
        const kl_status st =
            run(&(kl_luabox_limits){.path = "file.lua", .seconds = limits[k].says == time_limit ? most : 30},
                limits[k].text, (int64_t)strlen(limits[k].text), NULL, &err);
        const double took = seconds() - before;
        if (st == KL_OK || strstr(err.text, limits[k].says) == NULL)
            fail_msg("'%s' from: %s", err.text, limits[k].text);
        if (strncmp(err.text, "file.lua:", 9) != 0 || strpbrk(err.text, "\n\033") != NULL)
            fail_msg("'%s' from: %s", err.text, limits[k].text);
        if (took > (KL_TEST_WATCHED ? 90 : 10)) fail_msg("%.1f s: %s", took, limits[k].text);
        assert_int_equal(kl_mem_live_total(), 0);
    }
}

/* Texts whose compilation is quadratic, and nested too deeply. */
static void test_compiler(void **state)
{
    (void)state;
    static const char *const pieces[][3] = {
        {"local x = a", " or a", ""}, {"local a if a then ", "elseif a then ", "end"},
        {"local x = ", "(", ""},      {"", "do ", ""},
        {"local x = {", "{", ""},     {"return ", "-", "1"},
        {"local x = ''", "..''", ""}, {"local x = 2", "^2", ""},
        {"", "function f() ", ""},    {"x = {", "1,", "}"},
        {"", "goto a ", "::a::"},
    };
    enum { BYTES = 8 << 20 };
    char *text = NULL;
    assert_int_equal(kl_alloc(&text, BYTES + 100, KL_MEM_MISC, NULL), KL_OK);
    for (size_t k = 0; k < sizeof(pieces) / sizeof(pieces[0]); k++) {
        kl_err err = {{0}};
        int64_t n = (int64_t)strlen(pieces[k][0]);
        const int64_t length = (int64_t)strlen(pieces[k][1]);
        memcpy(text, pieces[k][0], (size_t)n);
        for (; n + length < BYTES; n += length) memcpy(text + n, pieces[k][1], (size_t)length);
        memcpy(text + n, pieces[k][2], strlen(pieces[k][2]));
        n += (int64_t)strlen(pieces[k][2]);
        const double before = seconds();
        const kl_status st =
            run(&(kl_luabox_limits){.path = "file.lua", .seconds = 0.5}, text, n, NULL, &err);
        if (st != KL_OK && strncmp(err.text, "file.lua", 8) != 0) fail_msg("'%s'", err.text);
        if (seconds() - before > (KL_TEST_WATCHED ? 60 : 4))
            fail_msg("%.1f s: %s%s...", seconds() - before, pieces[k][0], pieces[k][1]);
    }
    kl_free(&text);
    assert_int_equal(kl_mem_live_total(), 0);
}

/* ---------------------------------------------------------------- interrupts, our own code, no memory */

static int asks;
static int asked(void *most) { return ++asks > *(const int *)most; }

static void test_interrupt(void **state)
{
    (void)state;
    kl_err err = {{0}};
    static const char text[] =
        "\n\nwhile true do pcall(string.find, string.rep('a', 40), string.rep('a*', 40) .. 'b') end";
    asks = 0;
    int most = 3;
    assert_null(kl_on_interrupt((kl_interrupt){asked, &most}).asked);
    const double before = seconds();
    assert_int_equal(
        run(&(kl_luabox_limits){.path = "file.lua", .seconds = 1000}, text, sizeof(text) - 1, NULL, &err),
        KL_EINPUT);
    assert_ptr_equal(kl_on_interrupt((kl_interrupt){NULL, NULL}).self, &most);
    assert_string_equal(err.text, "file.lua:3: interrupted");
    assert_true(seconds() - before < (KL_TEST_WATCHED ? 10 : 1));
}

static void test_own_code(void **state)
{
    (void)state;
    kl_err err = {{0}};
    char *result = NULL;
    static const char text[] =
        "local got\n"
        "local environment = setmetatable({}, {__index = function(_, name) return name end, __newindex = "
        "function(_, name, value) got = name .. value end})\n"
        "local inner = assert(load('x = y', '@MODEL', 't', environment)) inner()\n"
        "local ok, why = pcall(load('return (\"x\"):rep(3)', '@MODEL', 't', environment))\n"
        "local bad, reason = load('x = = 2', '@MODEL', 't', {})\n"
        "local compiled = load('\\27Lua', '@MODEL', 't', {})\n"
        "return table.concat({got, tostring(ok), tostring(bad), reason, tostring(compiled), debug.getinfo(1, "
        "'l').currentline, tostring(debug.sethook)}, ' ')";
    if (run(&(kl_luabox_limits){.own_code = 1}, text, sizeof(text) - 1, &result, &err) != KL_OK)
        fail_msg("%s", err.text);
    assert_string_equal(result, "xy false nil MODEL:1: unexpected symbol near '=' nil 7 nil");
    kl_free(&result);
}

static void test_no_memory(void **state)
{
    (void)state;
    static const char text[] =
        "local t = {} for i = 1, 50 do t[i] = ('x'):rep(i):gsub('x', '%0y') end return table.concat(t)";
    int64_t k = 1;
    for (kl_status st = KL_ENOMEM; st != KL_OK; k++) {
        kl_err err = {{0}};
        char *result = NULL;
        kl_mem_fail_after(k);
        st = run(&(kl_luabox_limits){.path = "file.lua"}, text, sizeof(text) - 1, &result, &err);
        kl_mem_fail_after(0);
        assert_true(st == KL_OK || err.text[0] != '\0');
        kl_free(&result);
        assert_int_equal(kl_mem_live_total(), 0);
    }
    assert_true(k > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),      cmocka_unit_test(test_limits),   cmocka_unit_test(test_compiler),
        cmocka_unit_test(test_interrupt), cmocka_unit_test(test_own_code), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
