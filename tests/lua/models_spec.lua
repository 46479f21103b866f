-- Shipped models: their C compiles without a warning, and their tables give exact energies through a dense H
-- made here.
-- SPDX-License-Identifier: Apache-2.0
local helper = dofile((string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "./") .. "helper.lua")

local function chain(n)
    local b = {nn = {}, nnn = {}}
    for s = 1, n - 1 do b.nn[s] = {s, s + 1} end
    for s = 1, n - 2 do b.nnn[s] = {s, s + 2} end
    return b
end
local function ring(n)
    local b = chain(n)
    b.nn[n] = {1, n}
    return b
end

local function energy(name, n, bonds, params, set)
    local out = assert(helper.lower(helper.model_text(name), set))
    local all = {}
    for _, p in ipairs(out.params) do all[p.name] = p.value end
    for k, v in pairs(params or {}) do
        assert.is_truthy(all[k], k)
        all[k] = v
    end
    local h, dim = helper.dense(out, n, bonds, all)
    local e, skew = helper.lowest(h, dim)
    assert.is_true(skew < 1e-13)
    return e
end
local function near(want, have)
    assert.is_true(math.abs(want - have) < 1e-11 * (1 + math.abs(want)),
        string.format("%.15g expected, got %.15g", want, have))
end

describe("shipped model", function()
    local cc = helper.cc()
    local _, listed = helper.run("ls " .. helper.root .. "models")
    it("is in the list of these specs", function()
        local names = {}
        for name in string.gmatch(listed, "(%S+)%.lua") do names[#names + 1] = name end
        assert.are.same(helper.models, names)
    end)
    for _, name in ipairs(helper.models) do
        it(name .. " is short, says H first, and compiles", function()
            local text = helper.model_text(name)
            local _, lines = string.gsub(text, "\n", "\n")
            assert.is_true(lines <= 25)
            assert.is_truthy(string.find(text, "^%-%- H = "))
            if not cc then pending("no C compiler") return end
            local folder = helper.folder()
            finally(function() helper.remove(folder) end)
            local rc, _, err = helper.gen(
                string.format("--model %s --out %s/m.c --dep %s/m.d", helper.model_path(name), folder,
                    folder))
            assert.are.equal("", err)
            assert.are.equal(0, rc)
            rc, _, err = helper.run(string.format(
                "%s -std=gnu11 -Wall -Wextra -Wconversion -Wno-sign-conversion -Werror -I %ssrc -c %s/m.c -o %s/m.o", cc, helper.root, folder, folder))
            assert.are.equal("", err)
            assert.are.equal(0, rc)
        end)
    end

    -- mu = 1 favours two particles: E - 2 mu
    it("hubbard: two sites", function()
        near((4 - math.sqrt(16 + 16)) / 2 - 2, energy("hubbard", 2, chain(2), {mu = 1}))
    end)
    it("hubbard: free electrons", function()
        local want = 0
        for k = 1, 4 do want = want + 2 * math.min(0, -2 * math.cos(math.pi * k / 5)) end
        near(want, energy("hubbard", 4, chain(4), {U = 0}))
    end)
    it("hubbard of spin 3/2: free fermions", function()
        near(-4, energy("hubbard", 2, chain(2), {U = 0}, {F = "3/2"}))
    end)
    it("extended_hubbard: two electrons on two sites", function()
        near(2.25 - math.sqrt(1.75 ^ 2 + 4 * 4), energy("extended_hubbard", 2, chain(2),
            {t = 2, U = 4, V = 0.5}))
    end)
    it("heisenberg: ring of four", function() near(-2, energy("heisenberg", 4, ring(4))) end)
    it("heisenberg: two spins 1", function() near(-2, energy("heisenberg", 2, chain(2), nil, {S = "1"})) end)
    it("heisenberg: saturated by a field", function()
        near(0.25 * 3 - 4 * 5 / 2, energy("heisenberg", 4, chain(4), {h = 5}))
    end)
    it("j1j2: Majumdar-Ghosh", function()
        local b = ring(6)
        for s = 5, 6 do b.nnn[s] = {s - 4, s} end
        near(-3 * 6 / 8, energy("j1j2", 6, b))
    end)
    it("blbq: AKLT", function() near(-2, energy("blbq", 4, chain(4))) end)
    it("ising: critical chain", function()
        near(1 - 1 / math.sin(math.pi / (2 * (2 * 6 + 1))), energy("ising", 6, chain(6)))
    end)
    it("bose_hubbard: two bosons on two sites", function()
        -- n = 2 by mu; E = (U - sqrt(U^2 + 16 t^2))/2
        near((20 - math.sqrt(400 + 16)) / 2 - 2 * 5, energy("bose_hubbard", 2, chain(2), {U = 20, mu = 5},
            {n_max = "3"}))
    end)
    it("tj: a singlet on two sites", function() near(-4, energy("tj", 2, chain(2), {J = 4, t = 1})) end)
    it("kondo: one site", function() near(-0.75 * 4, energy("kondo", 1, chain(1), {J = 4})) end)
    it("kondo: two sites without J are free electrons", function()
        near(-2, energy("kondo", 2, chain(2), {J = 0}))
    end)
    it("holstein: one site is a displaced oscillator", function()
        -- two electrons: U + -(2g)^2/omega, up to the cut at n_max
        near(-4 * 0.1 ^ 2, energy("holstein", 1, chain(1), {g = 0.1}, {n_max = "12"}))
    end)
    it("pairing: t = Delta, mu = 0 has -t a bond", function()
        near(-4, energy("pairing", 5, chain(5), {t = 1, Delta = 1, mu = 0}))
    end)
    it("longrange: three spins", function()
        -- J/r^0: all pairs equal, E = (S(S+1) - 9/4)/2 with S = 1/2
        near((0.75 - 2.25) / 2, energy("longrange", 3, chain(3), {alpha = 0}))
    end)
end)

describe("variants", function()
    local cc = helper.cc()
    for _, case in ipairs({{"hubbard", "F=3/2"}, {"heisenberg", "S=2"}, {"blbq", "S=3/2"},
        {"bose_hubbard", "n_max=8"}, {"holstein", "n_max=2"}, {"kondo", "S=1"}}) do
        it(case[1] .. " with " .. case[2] .. " compiles", function()
            local key, value = string.match(case[2], "(.*)=(.*)")
            if not cc then pending("no C compiler") return end
            local folder = helper.folder()
            finally(function() helper.remove(folder) end)
            local f = assert(io.open(folder .. "/m.c", "w"))
            f:write((assert(helper.generate(helper.model_text(case[1]), {[key] = value}))))
            f:close()
            local rc, _, err = helper.run(
                string.format("%s -std=gnu11 -Wall -Wextra -Werror -I %ssrc -fsyntax-only %s/m.c", cc,
                    helper.root, folder))
            assert.are.equal("", err)
            assert.are.equal(0, rc)
        end)
    end
end)
