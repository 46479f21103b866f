-- The fingerprint of a model: the same where the tables mean the same, another where they do not.
-- SPDX-License-Identifier: Apache-2.0
local helper = dofile((string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "./") .. "helper.lua")

local function hash(text, set) return assert(helper.tables(text, set)).hash end
local function replaced(text, from, to)
    local out, n = string.gsub(text, from, to)
    assert.is_true(n > 0, from)
    return out
end

describe("the fingerprint", function()
    it("is that of the parts where S_dot_S names a part of a product space", function()
        local head = '-- H\nsite(product(spin(1/2), spin(1/2)))\nconserve { Sz = Sz_1, Tz = Sz_2 }\n'
        assert.are.equal(hash(head .. 'bond("nn", S_dot_S_2(i,j))\n'),
            hash(head .. 'bond("nn", (Sp_2(i)*Sm_2(j) + Sm_2(i)*Sp_2(j))/2 + Sz_2(i)*Sz_2(j))\n'))
    end)
    local text = helper.spins("pairs(J*r^-2*(Sp(i)*Sm(j) + hc))\nrun(3, J*Sz(i)*Sz(k))\nnamed({'0'}, 2*Sz(i))")
    local first = hash(text)
    it("is a whole number, the same each time", function()
        assert.are.equal("integer", math.type(first))
        assert.are.equal(first, hash(text))
    end)
    for what, change in pairs({
        ["a comment and empty lines"] = {"\nsite%(", "\n-- a comment\n\n\nsite("},
        ["the formula"] = {"^%-%- H = 0", "-- H = something"},
        ["the default of a parameter"] = {"J = 1", "J = 3"},
        ["the order of the parameters"] = {"J = 1, h = per_site%(0%)", "h = per_site(0), J = 1"},
        ["the order of the terms"] = {'(bond%b()\n)(onsite%b()\n)', "%2%1"},
        ["spaces in a coefficient"] = {"J%*r", "J * r"},
    }) do
        it("is not changed by " .. what, function()
            assert.are.equal(first, hash(replaced(text, change[1], change[2])))
        end)
    end
    for what, change in pairs({
        ["a factor"] = {"2%*Sz", "2.0000001*Sz"},
        ["the sign of a term"] = {"run%(3, J", "run(3, -J"},
        ["a parameter's name"] = {"(%A)J(%A)", "%1K%2"},
        ["an operator"] = {"J%*Sz%(i%)%*Sz%(j%)", "J*(Sp(i)*Sm(j) + hc)"},
        ["the class of bonds"] = {'"nn"', '"nnn"'},
        ["the sites of a run"] = {"Sz%(i%)%*Sz%(k%)", "Sz(i)*Sz(j)"},
        ["the length of a run"] = {"run%(3", "run(4"},
        ["a name of a site"] = {"'0'", "'1'"},
        ["an exponent"] = {"r^%-2", "r^-3"},
        ["the spin"] = {"spin%(1/2%)", "spin(1)"},
        ["the charge"] = {'conserve "Sz"\n', 'conserve "nothing"\n'},
        ["a term more"] = {"$", 'onsite(J*Sz(i)^2)\n'},
    }) do
        it("is changed by " .. what, function()
            assert.are_not.equal(first, hash(replaced(text, change[1], change[2])))
        end)
    end
    it("differs between structural parameters and between the shipped models", function()
        local seen = {}
        for _, name in ipairs(helper.models) do
            local h = hash(helper.model_text(name))
            assert.is_nil(seen[h], name)
            seen[h] = name
        end
        local spins = helper.model_text("heisenberg")
        assert.are_not.equal(hash(spins), hash(spins, {S = "1"}))
    end)
end)
