-- Random model texts are accepted or refused with a line; never an error of the generator itself, never a run
-- without end. KRONLAT_FUZZ=SEED:ROUNDS tries others.
-- SPDX-License-Identifier: Apache-2.0
local helper = dofile((string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "./") .. "helper.lua")

local seed, rounds = string.match(os.getenv("KRONLAT_FUZZ") or "1:100", "(%d+):(%d+)")
seed, rounds = tonumber(seed), tonumber(rounds)

local words = {
    "structural", "site", "conserve", "parameters", "bond", "onsite", "pairs", "run",
    "loop", "named", "check",
        "spin", "pauli", "electron", "fermion", "boson", "product", "without",
    "matrices", "mod", "per_site", "per_bond", "sum", "sum_pairs", "S_dot_S", "adj", "hc", "exp", "sqrt",
        "abs", "number", "at", "i", "j", "k", "l", "s", "s2", "r", "x", "y", "N", "pi",
    "Sz", "Sp", "Sm", "Sx", "iSy", "c", "cdag", "n", "c_up", "cdag_dn", "n_up", "docc", "P", "b", "bdag",
        "sx", "sz", "J", "h", "K", "S", "F", "n_max", "Sy", "im", "flux",
    "1", "2", "0", "-1", "0.5", "1/2", "3", "1e9", "1e308", "0/0", '"nn"', '"nnn"', '"Sz"', '"N"',
        '"each flavour"', '"nothing"', '"up"', '"ends"', '""', "nil", "true",
    "(", ")", "{", "}", "[", "]", "+", "-", "*", "/", "^", "%", "//", "..", "==", "<", ",", ";", "=", ".",
        ":", "#", "not", "and", "or", "local", "function", "return", "end", "if",
    "then", "for", "do", "while", "in", "\n", "\n", "\n", "--", "~", "|", "&", "<<", "::", "goto", "'", '"',
        "[[", "_ENV",
}
local skeletons = { -- a term for random expressions where they mean something
    '-- H\nsite(spin(1/2))\nconserve "nothing"\nparameters { J = 1, h = per_site(1), K = per_bond(1) }\nbond("nn", J*K*Sz(i)*Sz(j) + h(i)*Sz(i))\n%s\n',
    '-- H\nsite(electron())\nconserve "each flavour"\nparameters { J = 1, h = per_site(1), K = per_bond(1) }\nbond("nn", J*K*n(i)*n(j) + h(i)*n(i))\n%s\n',
    '-- H\nsite(product(electron(), boson(1)))\nsite("odd", spin(1))\nconserve "nothing"\nparameters { J = 1, h = per_site(1), K = per_bond(1) }\nbond("nn", J*K*n_up(i)*n_up(j) + h(i)*Sz(j))\n%s\n',
    '-- H\n%s\n',
}
local atoms = {
    {"Sz(i)", "Sp(i)", "Sm(j)", "Sx(i)", "iSy(j)", "Sz(j)", "Sz", "hc", "J", "h", "h(i)", "K", "2", "r", "i",
        "pi", "(-1)^i"},
    {"c_up(i)", "cdag_up(j)", "c(i,s)", "cdag(j,s)", "n(i)", "n(j,s2)", "docc(i)", "Sz(i)", "hc", "J", "h(j)",
        "K", "P(i)", "s", "c", "3", "N"},
    {"c_up(i)", "cdag_dn(j)", "Sz(i)", "n_electron(i)", "n_boson(j)", "b(i)", "bdag(i)", "P(i)", "hc", "J",
        "h(i)", "Sp(i)", "c(i, s)", "x"},
    {"spin(1)", "electron()", "boson(2)", "fermion()", "pauli()", "1", '"ends"', "Sz", "n", "pi"},
}

local function pick(list) return list[math.random(#list)] end
local function expression(kind, depth)
    local p = math.random(10)
    if depth == 0 or p <= 2 then return pick(atoms[kind]) end
    if p <= 7 then
        return expression(kind, depth - 1) .. pick({" + ", " - ", "*", "*", "/", "^"})
            .. expression(kind, depth - 1)
    end
    if p == 8 then return "(" .. expression(kind, depth - 1) .. " + hc)" end
    if p == 9 then
        return pick({"-", "adj", "sqrt", "exp", "abs"}) .. "(" .. expression(kind, depth - 1) .. ")"
    end
    return pick({"sum(s, ", "sum_pairs(s, s2, ", "mod(", "at("}) .. expression(kind, depth - 1) .. ")"
end
local function statement(kind)
    local e = expression(kind, math.random(0, 4))
    return pick({'bond("nn", %s)', "onsite(%s)", "pairs(%s)", "pairs(2, %s)", "run(3, %s)",
        'named({"0", "-1"}, %s)', "q = %s", 'onsite("odd", %s)', "local q = %s"}):format(
            (e:gsub("%%", "%%%%")))
end
local function soup(count)
    local t = {}
    for p = 1, count do t[p] = pick(words) end
    return table.concat(t, pick({" ", "", " "}))
end
local function mutate(text)
    for _ = 1, math.random(1, 4) do
        local at = math.random(#text)
        local p = math.random(8)
        if p == 1 then
            text = text:sub(1, at - 1) .. text:sub(at + math.random(1, 6))
        elseif p == 2 then
            text = text:sub(1, at) .. string.char(math.random(0, 255)) .. text:sub(at + 1)
        elseif p == 3 then
            text = text:sub(1, at) .. " " .. pick(words) .. " " .. text:sub(at + 1)
        elseif p == 4 then
            text = text:sub(1, at)
        elseif p == 5 then
            local from = math.random(#text)
            text = text:sub(1, at) .. text:sub(from, from + math.random(40)) .. text:sub(at + 1)
        else -- another word instead of one
            local names = {}
            for a, w, z in text:gmatch("()([%w_]+)()") do names[#names + 1] = {a, w, z} end
            local n = #names > 0 and pick(names)
            if n then text = text:sub(1, n[1] - 1) .. pick(words) .. text:sub(n[3]) end
        end
        if #text == 0 then return "x" end
    end
    return text
end

local function try(text)
    local before = os.clock()
    local ok, c, line, why = pcall(helper.generate, text)
    assert.is_true(ok, tostring(c) .. "\nfrom this text:\n" .. text)
    if not c then
        assert.is_truthy(math.type(line) == "integer" and line >= 1 and type(why) == "string" and #why > 0
            and #why < 2000, "a refusal without line or reason from:\n" .. text)
        assert.is_nil(string.find(why, "%.lua:%d"), why)
    end
    assert.is_true(os.clock() - before < 20, "too slow:\n" .. text)
    return c ~= nil
end

describe("random model texts", function()
    it("made by mutating the shipped models", function()
        math.randomseed(seed)
        local accepted = 0
        for round = 1, rounds do
            local name = helper.models[round % #helper.models + 1]
            if try(mutate(helper.model_text(name))) then accepted = accepted + 1 end
        end
        if rounds >= 100 then assert.is_true(accepted > 0) end
    end)
    it("made of random expressions", function()
        math.randomseed(seed + 1)
        local accepted = 0
        for _ = 1, 2 * rounds do
            local kind = math.random(#skeletons)
            local lines = {}
            for p = 1, math.random(1, 2) do lines[p] = statement(kind) end
            if try((skeletons[kind]:gsub("%%s", function() return table.concat(lines, "\n") end))) then
                accepted = accepted + 1
            end
        end
        if rounds >= 100 then assert.is_true(accepted > 10) end
    end)
    it("pass the checks of the program that loads their tables, where the generator accepts them", function()
        local cc = helper.cc()
        if not cc then pending("no C compiler") return end
        math.randomseed(seed + 5)
        local folder, count, texts = helper.folder(), 0, {}
        finally(function() helper.remove(folder) end)
        local function write(name, text)
            local f = assert(io.open(folder .. "/" .. name, "w"))
            f:write(text)
            f:close()
        end
        for _ = 1, math.max(40, rounds) do
            local kind, lines = math.random(#skeletons), {}
            for p = 1, math.random(1, 3) do lines[p] = statement(kind) end
            local text = skeletons[kind]:gsub("%%s", function() return table.concat(lines, "\n") end)
            local c = helper.generate(text, nil, "model_" .. count)
            if c and count < 30 then
                write("m" .. count .. ".c", c)
                texts[count], count = text, count + 1
            end
        end
        local externs, list = {}, {}
        for p = 0, count - 1 do
            externs[#externs + 1] = "extern const kl_model model_" .. p .. ";"
            list[#list + 1] = "&model_" .. p
        end
        write("main.c", '#include "model/model.h"\n#include <stdio.h>\n' .. table.concat(externs, "\n") .. "\nstatic const kl_model *const list[] = {" .. table.concat(list, ", ") .. [[};
int main(void)
{
    for (int k = 0; k < (int)(sizeof list / sizeof *list); k++) {
        kl_err err = {""};
        if (kl_model_check(list[k], &err) != KL_OK) printf("%d %s\n", k, err.text);
    }
    return 0;
}
]])
        assert.are.equal(0, (helper.gen("--phase " .. folder .. "/phase.h")))
        local _, root = helper.run("cd " .. helper.quote(helper.root) .. " && pwd")
        root = helper.quote((string.gsub(root, "%s+$", "")))
        local sources = string.gsub("model/model.c model/coef.c model/wigner.c base/mem.c base/par.c base/base.c", "%S+",
            root .. "/src/%0")
        local rc, _, err = helper.run(
            string.format("cd %s && %s -std=gnu11 -O1 -pthread -I %s/src -I . *.c %s -lm -o check",
                helper.quote(folder), cc, root, sources))
        assert.are.equal(0, rc, err)
        local _, said = helper.run(helper.quote(folder .. "/check"))
        local bad = tonumber(string.match(said, "^%d+"))
        assert.are.equal("", said, bad and texts[bad])
        if rounds >= 100 then assert.is_true(count >= 10) end
    end)
    it("made of random words", function()
        math.randomseed(seed + 2)
        for _ = 1, 2 * rounds do
            local text = soup(math.random(1, 30))
            try((pick(skeletons):gsub("%%s", function() return text end)))
        end
    end)
    it("made of random bytes", function()
        math.randomseed(seed + 3)
        for _ = 1, rounds do
            local t = {}
            for p = 1, math.random(0, 80) do t[p] = string.char(math.random(0, 255)) end
            try((math.random(2) == 1 and "-- H\n" or "") .. table.concat(t))
        end
    end)
    it("through the command line", function()
        math.randomseed(seed + 4)
        local path = os.tmpname()
        finally(function() os.remove(path) end)
        for round = 1, math.min(rounds, 30) do
            local f = assert(io.open(path, "w"))
            f:write((mutate(helper.model_text(helper.models[round % #helper.models + 1]))))
            f:close()
            local rc, _, err = helper.gen("--model " .. path .. " --describe")
            assert.is_true(rc == 0 or rc == 2)
            if rc == 2 then assert.is_truthy(string.find(err, "^[^\n]*:%d+: [^\n]+\n$"), err) end
            assert.is_nil(string.find(err, "internal error", 1, true), err)
        end
    end)
end)
