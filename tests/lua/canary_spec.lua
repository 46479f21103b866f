-- Hostile model texts: random programs that reach for the system by every path, with pieces of C and of
-- shells at every place for a text. No canary file appears, nothing of the host changes, each is answered in
-- time, and what the C text says outside of comments and strings is ours. KRONLAT_FUZZ=SEED:ROUNDS tries
-- others.
-- SPDX-License-Identifier: Apache-2.0
local helper = dofile((string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "./") .. "helper.lua")
local limits = require("util").limits

local seed, rounds = string.match(os.getenv("KRONLAT_FUZZ") or "1:400", "(%d+):(%d+)")
seed, rounds = tonumber(seed), tonumber(rounds)

local CANARY = os.tmpname()
os.remove(CANARY)

local function pick(list) return list[math.random(#list)] end

-- What a text may hold: ends of strings and comments, splices, preprocessor lines, commands.
local pieces = {
    'system("touch ' .. CANARY .. '")', "$(touch " .. CANARY .. ")", "`touch " .. CANARY .. "`", "| touch "
        .. CANARY, "; touch " .. CANARY .. " ;", "os.execute('touch " .. CANARY .. "')",
    "*/ ", "/* ", "//", "\\", '"', "'", "??/", "??'", "\\\n", "\n#include </dev/zero>\n", "\n", "\r", "%s%n",
        "]]", "]==]", "--[[", "}", "{", ";", "__attribute__((constructor))", "\\x22", "\\0", "\1", "\127",
    "\u{2028}", "\xff\xfe", "a", "nn", "Sz", "up", "0", "-1",
}
local function text()
    local t = {}
    for p = 1, math.random(3) do t[p] = pick(pieces) end
    return string.format("%q", table.concat(t)):gsub("\\\n", "\\n"):gsub("\r", "\\r")
end

local names = {
    "io", "os", "debug", "package", "require", "load", "loadstring", "loadfile", "dofile", "string", "table",
        "math", "coroutine", "utf8", "print", "error", "pcall", "xpcall", "select", "next", "pairs",
    "ipairs", "rawget", "rawset", "rawequal", "rawlen", "setmetatable", "getmetatable", "collectgarbage",
        "tostring", "tonumber", "type", "_G", "_ENV", "arg", "_VERSION", "__index", "__metatable", "tree",
            "list",
    "coef", "k", "c", "slot", "name", "op", "factors", "dim", "state", "execute", "popen", "rep", "format",
        "sethook", "getinfo", "self", "words", "globals", "refusal",
}
local objects = {"Sz(i)", "Sp", "J", "h", "h(i)", "i", "s", "hc", "r", "N", "spin(1/2)", "electron()",
    "mod(Sz, 2)", "per_site(1)", "_ENV", "bond", "Sz(i)*J", "exp(J)", "('')", "(1)", "({})", "q", "pi"}
local words = {"bond", "onsite", "pairs", "run",
    "loop", "named", "site", "conserve", "parameters", "structural",
    "check", "spin", "fermion", "matrices", "product", "without", "sum", "adj", "exp", "mod", "number", "at",
        "per_site"}

local value
local function call(depth) return pick(words) .. "(" .. value(depth) .. ", " .. value(depth) .. ")" end
function value(depth)
    local p = math.random(12)
    if depth == 0 or p <= 2 then return pick(objects) end
    if p == 3 then return text() end
    if p == 4 then return pick(names) end
    if p == 5 then return "(" .. value(depth - 1) .. ")." .. pick(names) end
    if p == 6 then return "(" .. value(depth - 1) .. "):" .. pick(names) .. "(" .. value(depth - 1) .. ")" end
    if p == 7 then
        return "{" .. value(depth - 1) .. ", " .. pick(names) .. " = " .. value(depth - 1) .. ", ["
            .. value(depth - 1) .. "] = " .. value(depth - 1) .. "}"
    end
    if p == 8 then return "(" .. value(depth - 1) .. ")(" .. value(depth - 1) .. ")" end
    if p == 9 then return call(depth - 1) end
    if p == 10 then
        return "(function(...) "
            .. pick({"return ...", "while true do end", "return _ENV", "q = ...",
                "local _ENV = ... return os"}) .. " end)(" .. value(depth - 1) .. ")"
    end
    return "(" .. value(depth - 1) .. ")"
        .. pick({"+", "-", "*", "/", "^", "..", "==", "<", "%", "//", "&", "[1] or ", " and "}) .. "("
            .. value(depth - 1) .. ")"
end
local function line()
    local p = math.random(9)
    if p == 1 then return pick(objects) .. "." .. pick(names) .. " = " .. value(2) end
    if p == 2 then return "(" .. value(1) .. ")." .. pick(names) .. "." .. pick(names) .. " = " .. text() end
    if p == 3 then return "q = " .. value(3) end
    if p == 4 then return "for a, b in " .. value(2) .. " do q = a end" end
    if p == 5 then return "_ENV." .. pick(names) .. " = " .. value(2) end
    if p == 6 then return "named({" .. text() .. ", " .. text() .. "}, J*Sz(i)*Sz(j))" end
    if p == 7 then return "bond(" .. text() .. ", J*Sz(i)*Sz(j))" end
    if p == 8 then return "onsite(" .. text() .. ", h*Sz(i))" end
    return call(3)
end
local function program(lines)
    local formula = text():gsub("\\n", " "):gsub("[\r\n]", " ")
    local t = {"-- H = " .. formula,
        pick({"site(spin(1/2))", "site(product(spin(1/2), electron()))",
            "site(matrices{ states = {" .. text() .. ', "b"}, Sz = {{1,0},{0,-1}} })',
        'site(spin(1/2)) site(' .. text() .. ", spin(1))"}),
            pick({'conserve "Sz"', 'conserve "nothing"', "conserve { [" .. text() .. "] = Sz }"}),
                "parameters { J = 1, h = per_site(1) }"}
    for _ = 1, lines do t[#t + 1] = pick({"do " .. line() .. " end", line()}) end
    t[#t + 1] = 'bond("nn", J*Sz(i)*Sz(j)) onsite(h*Sz(i))'
    return table.concat(t, "\n") .. "\n"
end

-- The C text without comments and strings, after splices of lines and trigraphs, as a compiler sees it.
local function code(c)
    c = c:gsub("%?%?/", "\\"):gsub("\\\n", "")
    local out, at = {}, 1
    while at <= #c do
        local two, one = c:sub(at, at + 1), c:sub(at, at)
        if two == "/*" then
            at = select(2, assert(c:find("*/", at + 2, true))) + 1
        elseif one == '"' then
            local p = at + 1
            while c:sub(p, p) ~= '"' do
                assert(c:sub(p, p) ~= "\n" and p <= #c, "a string without end")
                p = p + (c:sub(p, p) == "\\" and 2 or 1)
            end
            at = p + 1
        else
            out[#out + 1] = one
            at = at + 1
        end
    end
    return table.concat(out)
end

-- Everything that is reachable from the globals and from the metatable of strings, as one text.
local function state_of_host()
    local seen, list = {}, {}
    local function walk(prefix, t)
        if seen[t] then return end
        seen[t] = true
        for k, v in pairs(t) do
            if type(k) == "string" and not k:find("^_?%d") then
                list[#list + 1] = prefix .. k .. "=" .. tostring(v)
                if type(v) == "table" and prefix:len() < 30 and v ~= package.loaded then
                    walk(prefix .. k .. ".", v)
                end
            end
        end
    end
    for _, name in ipairs({"string", "table", "math", "io", "os", "debug", "coroutine", "utf8"}) do
        walk(name .. ".", _G[name])
    end
    for k, v in pairs(_G) do list[#list + 1] = tostring(k) .. "=" .. tostring(v) end
    for k, v in pairs(getmetatable("")) do list[#list + 1] = "''" .. tostring(k) .. "=" .. tostring(v) end
    table.sort(list)
    return table.concat(list, "\n")
end

describe("hostile model texts", function()
    local seconds = limits.seconds
    setup(function() limits.seconds = 0.3 end)
    teardown(function() limits.seconds = seconds end)
    it("run no command, change nothing of the host and end", function()
        math.randomseed(seed)
        local accepted, before = 0, state_of_host()
        for _ = 1, rounds do
            local t = program(math.random(0, 3))
            local started = os.clock()
            local ok, c, at, why = pcall(helper.generate, t)
            assert.is_true(ok, tostring(c) .. "\nfrom this text:\n" .. t)
            assert.is_true(os.clock() - started < 10, "too slow:\n" .. t)
            if c then
                accepted = accepted + 1
                for _, word in ipairs({"system", "touch", "constructor", "include </dev", "execute"}) do
                    assert.is_nil(code(c):find(word, 1, true), word .. " in the code from:\n" .. t .. "\n"
                        .. c)
                end
            else
                assert.is_true(math.type(at) == "integer" and at >= 1 and type(why) == "string"
                    and #why < 2000, t)
                assert.is_nil(why:find("%.lua:%d"), why .. "\nfrom this text:\n" .. t)
            end
        end
        assert.is_nil(io.open(CANARY))
        assert.are.equal(before, state_of_host())
        if rounds >= 100 then assert.is_true(accepted > 10) end
    end)
end)
