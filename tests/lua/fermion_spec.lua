-- Signs: anticommutators from the rules, and the C functions of phase.h against the rules in Lua.
-- SPDX-License-Identifier: Apache-2.0
local helper = dofile((string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "./") .. "helper.lua")
local fermion, matrix = require("fermion"), require("matrix")

local function site(count)
    local parity = {}
    for state = 0, (1 << count) - 1 do
        local p, s = 0, state
        while s ~= 0 do p, s = p ~ 1, s & (s - 1) end
        parity[state + 1] = p
    end
    return {dim = 1 << count, parity = parity, c = fermion.modes(count)}
end

local function anticommutator(a, b) return matrix.add(matrix.multiply(a, b), matrix.multiply(b, a)) end
local function is_zero(m) return matrix.is_zero(m) end
local function is_identity(m) return is_zero(matrix.add(m, matrix.identity(m.dim), -1)) end

describe("fermion", function()
    -- Three sites with 2, 1 and 2 modes: all five annihilators as matrices on the whole space.
    local sites = {site(2), site(1), site(2)}
    local c, mode_site = {}, {}
    for s, x in ipairs(sites) do
        for f = 1, #x.c do
            c[#c + 1] = fermion.embed(sites, s, x.c[f], 1)
            mode_site[#c] = s
        end
    end

    it("gives {c_i, c_j} = 0 and {c_i, c+_j} = delta_ij on three sites", function()
        for a = 1, #c do
            for b = 1, #c do
                assert.is_true(is_zero(anticommutator(c[a], c[b])))
                local mixed = anticommutator(c[a], matrix.transpose(c[b]))
                if a == b then assert.is_true(is_identity(mixed)) else assert.is_true(is_zero(mixed)) end
            end
        end
    end)

    it("orders modes site by site, then flavour by flavour: c_f takes a sign for each occupied mode before it", function()
        local m = fermion.modes(3)
        for f = 1, 3 do
            for state = 0, 7 do
                local want = 0
                if (state >> (f - 1)) & 1 == 1 then
                    want = 1
                    for g = 1, f - 1 do
                        if (state >> (g - 1)) & 1 == 1 then want = -want end
                    end
                end
                assert.are.equal(want, matrix.get(m[f], state & ~(1 << (f - 1)), state))
            end
        end
    end)

    it("reorders products of operators on sites with the sign of sort, and their adjoints with that of adjoint", function()
        math.randomseed(7)
        for _ = 1, 60 do
            local n = math.random(1, 5)
            local key, odd, ops = {}, {}, {}
            for p = 1, n do
                local k = math.random(1, #c)
                local kind = math.random(1, 3)
                local m = kind == 1 and c[k] or kind == 2 and matrix.transpose(c[k])
                    or matrix.multiply(matrix.transpose(c[k]), c[k])
                key[p], odd[p], ops[p] = mode_site[k], kind < 3 and 1 or 0, m
            end
            local function product(list)
                local m = matrix.identity(c[1].dim)
                for _, x in ipairs(list) do m = matrix.multiply(m, x) end
                return m
            end
            local sign, perm = fermion.sort(key, odd)
            local sorted = {}
            for p = 1, n do
                sorted[p] = ops[perm[p]]
                if p > 1 then
                    assert.is_true(key[perm[p - 1]] < key[perm[p]]
                        or (key[perm[p - 1]] == key[perm[p]] and perm[p - 1] < perm[p]))
                end
            end
            assert.is_true(is_zero(matrix.add(product(ops), product(sorted), -sign)))
        end
        for s1 = 1, 5 do
            for s2 = 1, 5 do
                if mode_site[s1] < mode_site[s2] then
                    local p = matrix.multiply(c[s1], matrix.transpose(c[s2]))
                    local q = matrix.multiply(matrix.transpose(c[s1]), c[s2])
                    assert.is_true(is_zero(matrix.add(matrix.transpose(p), q, -fermion.adjoint({1, 1}))))
                end
            end
        end
    end)

    it("joins block operators with the sign of record", function()
        -- A on site 1 (x) B on site 2, both with only their own strings, equals embed(A) * embed(B)
        local two = {site(2), site(2)}
        local a, b = two[1].c[2], matrix.transpose(two[2].c[1])
        local whole = matrix.multiply(fermion.embed(two, 1, a, 1), fermion.embed(two, 2, b, 1))
        for _, ea in ipairs(matrix.elements(a)) do
            for _, eb in ipairs(matrix.elements(b)) do
                local want = fermion.record(1, two[1].parity[ea[2] + 1]) * ea[3] * eb[3]
                assert.are.equal(want, matrix.get(whole, ea[1] * 4 + eb[1], ea[2] * 4 + eb[2]))
            end
        end
    end)

    local function flavour_major_by_sorting(up, dn, nsite)
        local key, odd = {}, {}
        for s = 0, nsite - 1 do
            if (up >> s) & 1 == 1 then key[#key + 1], odd[#odd + 1] = s, 1 end
            if (dn >> s) & 1 == 1 then key[#key + 1], odd[#odd + 1] = 100 + s, 1 end
        end
        return (fermion.sort(key, odd))
    end

    it("relates site-major and flavour-major states", function()
        for up = 0, 15 do
            for dn = 0, 15 do
                assert.are.equal(flavour_major_by_sorting(up, dn, 4), fermion.flavour_major(up, dn))
            end
        end
    end)

    it("moves an electron with the sign of hop: every c+_p c_q on every state of five modes", function()
        local m = fermion.modes(5)
        for to = 0, 4 do
            for from = 0, 4 do
                local product = matrix.multiply(matrix.transpose(m[to + 1]), m[from + 1])
                for state = 0, 31 do
                    local gone = state & ~(1 << from)
                    if gone ~= state and gone & (1 << to) == 0 then
                        assert.are.equal(fermion.hop(state, to, from),
                            matrix.get(product, gone | (1 << to), state))
                    end
                end
            end
        end
    end)

    it("gives C the same signs", function()
        local cc = helper.cc()
        if not cc then pending("no C compiler") return end
        local folder = helper.folder()
        finally(function() helper.remove(folder) end)
        assert.are.equal(0, (helper.gen("--phase " .. folder .. "/phase.h")))
        local f = assert(io.open(folder .. "/t.c", "w"))
        f:write([[
#include "phase.h"
#include <stdio.h>
int main(void)
{
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) printf("%d %d\n", kl_phase_exchange(a, b), kl_phase_record(a, b));
    unsigned seed = 1;
    for (int round = 0; round < 200; round++) {
        int key[6], odd[6], perm[6], n = round % 7;
        for (int p = 0; p < n; p++) {
            seed = seed * 1103515245u + 12345u;
            key[p] = (int)(seed >> 16) % 4;
            odd[p] = (int)(seed >> 24) % 2;
        }
        printf("%d", n);
        for (int p = 0; p < n; p++) printf(" %d %d", key[p], odd[p]);
        printf(" %d", kl_phase_adjoint(n, odd));
        printf(" %d", kl_phase_sort(n, key, odd, perm));
        for (int p = 0; p < n; p++) printf(" %d", perm[p]);
        for (int p = 1; p < n; p++)
            if (key[p - 1] > key[p]) return 1;
        printf("\n");
    }
    for (unsigned up = 0; up < 16; up++)
        for (unsigned dn = 0; dn < 16; dn++) printf("%d\n", kl_phase_flavour_major(up, dn));
    for (int to = 0; to < 64; to += 3)
        for (int from = 0; from < 64; from += 3)
            printf("%d\n", kl_phase_hop(UINT64_C(0x9e3779b97f4a7c15), to, from));
    return 0;
}
]])
        f:close()
        local rc, _, err = helper.run(
            string.format("%s -std=c11 -Wall -Wextra -Werror -I %s %s/t.c -o %s/t", cc, folder, folder,
                folder))
        assert.are.equal("", err)
        assert.are.equal(0, rc)
        local status, out = helper.run(folder .. "/t")
        assert.are.equal(0, status)
        local lines = {}
        for line in string.gmatch(out, "[^\n]+") do lines[#lines + 1] = line end
        local p = 0
        for a = 0, 1 do
            for b = 0, 1 do
                p = p + 1
                assert.are.equal(fermion.exchange(a, b) .. " " .. fermion.record(a, b), lines[p])
            end
        end
        for _ = 1, 200 do
            p = p + 1
            local v = {}
            for number in string.gmatch(lines[p], "%-?%d+") do v[#v + 1] = tonumber(number) end
            local n, key, odd = v[1], {}, {}
            for q = 1, n do key[q], odd[q] = v[2 * q], v[2 * q + 1] end
            assert.are.equal(fermion.adjoint(odd), v[2 * n + 2])
            local sign, perm = fermion.sort(key, odd)
            assert.are.equal(sign, v[2 * n + 3])
            for q = 1, n do assert.are.equal(perm[q] - 1, v[2 * n + 3 + q]) end
        end
        for up = 0, 15 do
            for dn = 0, 15 do
                p = p + 1
                assert.are.equal(fermion.flavour_major(up, dn), tonumber(lines[p]))
            end
        end
        for to = 0, 63, 3 do
            for from = 0, 63, 3 do
                p = p + 1
                assert.are.equal(fermion.hop(0x9e3779b97f4a7c15, to, from), tonumber(lines[p]))
            end
        end
        assert.are.equal(#lines, p)
    end)
end)
