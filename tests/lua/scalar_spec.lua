-- The total spin as a charge: coefficients, multiplets, and strings that multiplied out are the terms they
-- come from.
-- SPDX-License-Identifier: Apache-2.0
local helper = dofile((string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "./") .. "helper.lua")
local util, algebra, matrix = require("util"), require("algebra"), require("matrix")
local language, lower, scalar = require("language"), require("lower"), require("scalar")
local tables, wigner = require("tables"), require("wigner")

local function spin_tables(text, set) return util.attempt(tables.of, "m.lua", text, set, false, true) end

-- Both variants of a model text.
local function both(text, set)
    local out = lower.model(language.read(text, set))
    return out, scalar.model(text, out)
end

local function kron(a, b)
    local out = matrix.new(a.dim * b.dim)
    for _, x in ipairs(matrix.elements(a)) do
        for _, y in ipairs(matrix.elements(b)) do
            matrix.set(out, x[1] * b.dim + y[1], x[2] * b.dim + y[2], x[3] * y[3])
        end
    end
    return out
end

-- A matrix of one site on `site` of nsite, odd ones with parities before them.
local function on_site(t, m, odd, site, nsite)
    local parity = {}
    for p, x in ipairs(t.space.parity) do parity[p] = 1.0 - 2 * x end
    local all = matrix.identity(1)
    for s = 1, nsite do
        local between = s < site and odd == 1 and matrix.diagonal(parity) or matrix.identity(t.dim)
        all = kron(all, s == site and m or between)
    end
    return all
end

-- Component q of an irreducible operator as a matrix between the states of the site.
local function component(site, op, q)
    local dim, n = #site.column, #site.mult
    local m = matrix.new(dim)
    for t, row in ipairs(site.mult) do
        for s, col in ipairs(site.mult) do
            local reduced = op.m[(t - 1) * n + s]
            for ms = -col.j, col.j, 2 do
                local f = reduced * wigner.cg(col.j, ms, op.k, q, row.j, ms + q)
                if f ~= 0 then
                    local u = site.column[site.at[t] + (row.j - ms - q) // 2 + 1]
                    local v = site.column[site.at[s] + (col.j - ms) // 2 + 1]
                    for a = 1, dim do
                        for b = 1, dim do
                            local x = matrix.get(m, a - 1, b - 1) + f * u[a] * v[b]
                            if u[a] ~= 0 and v[b] ~= 0 then matrix.set(m, a - 1, b - 1, x) end
                        end
                    end
                end
            end
        end
    end
    return m
end

-- A string as a matrix on nsite sites: coupled one by one from the left.
local function string_matrix(t, site, e, nsite)
    local partial = {[0] = matrix.identity(math.tointeger(t.dim ^ nsite))}
    local rank = 0
    for f, factor in ipairs(e.factors) do
        local op, next_rank, grown = site.op[factor.op[1]], e.ranks[f], {}
        for q = -op.k, op.k, 2 do
            local here = on_site(t, component(site, op, q), op.odd, factor.slot, nsite)
            for m = -rank, rank, 2 do
                local c = wigner.cg(rank, m, op.k, q, next_rank, m + q)
                if c ~= 0 then
                    local part = matrix.scale(matrix.multiply(partial[m], here), c)
                    grown[m + q] = grown[m + q] and matrix.add(grown[m + q], part) or part
                end
            end
        end
        partial, rank = grown, next_rank
    end
    return partial[0]
end

local function term_matrix(t, e, nsite)
    local m = matrix.identity(math.tointeger(t.dim ^ nsite))
    for _, f in ipairs(e.factors) do
        m = matrix.multiply(m, on_site(t, t.op[f.op[1]].m, f.odd, f.slot, nsite))
    end
    return e.hc and matrix.add(m, matrix.transpose(m)) or m
end

local function largest(m)
    local size = 0
    for _, v in pairs(m.e) do size = math.max(size, math.abs(v)) end
    return size
end

-- All terms of one number of slots, as they are and as strings, with these values of the parameters.
local function compare(text, set, value, most)
    local out, strings = both(text, set)
    local t = out.types[1]
    local function atom(x) return value[x.name or x.k] or 1.7 end
    local seen = 0
    for nsite = 1, most do
        local total = matrix.new(math.tointeger(t.dim ^ nsite))
        for _, e in ipairs(out.terms) do
            if e.st.nslot == nsite then
                total = matrix.add(total, term_matrix(t, e, nsite), algebra.coef_value(e.coef, atom))
                seen = seen + 1
            end
        end
        local size = math.max(1e-30, largest(total))
        for _, e in ipairs(strings.terms) do
            local c = algebra.coef_value(e.coef, atom)
            if e.st.nslot == nsite and e.check then assert.is_true(math.abs(c) < 1e-12, e.text) end
            if e.st.nslot == nsite and not e.check then
                total = matrix.add(total, string_matrix(t, strings.sites[1], e, nsite), -c)
            end
        end
        local left = largest(total)
        assert.is_true(left <= 1e-12 * size, string.format("%d sites: %g is left", nsite, left))
    end
    assert.is_true(seen > 0)
end

describe("the total spin", function()
    it("has orthonormal coefficients", function()
        for j1 = 0, 5 do
            for j2 = 0, 5 do
                for m = -(j1 + j2), j1 + j2, 2 do
                    for j = math.abs(j1 - j2), j1 + j2, 2 do
                        for other = math.abs(j1 - j2), j1 + j2, 2 do
                            local sum = 0
                            for m1 = -j1, j1, 2 do
                                local f = wigner.cg(j1, m1, j2, m - m1, other, m)
                                sum = sum + f * wigner.cg(j1, m1, j2, m - m1, j, m)
                            end
                            local want = j == other and math.abs(m) <= j and 1 or 0
                            assert.is_true(math.abs(sum - want) < 1e-14)
                        end
                    end
                end
            end
        end
        assert.are.equal(math.sqrt(1 / 2), wigner.cg(1, 1, 1, -1, 0, 0))
        assert.is_true(math.abs(wigner.cg(2, 0, 2, 0, 4, 0) - math.sqrt(2 / 3)) < 1e-15)
        assert.are.equal(0, wigner.cg(2, 0, 2, 0, 2, 0))
    end)

    it("writes every term of the shipped models as scalars", function()
        local one = {J = 0.7, Delta = 1, h = 0, D = 0, beta = 0.4, t = 1.3, U = 2.1, mu = 0.3}
        compare(helper.model_text("heisenberg"), {S = "1/2"}, one, 2)
        compare(helper.model_text("heisenberg"), {S = "3/2"}, one, 2)
        compare(helper.model_text("blbq"), {}, one, 2)
        compare(helper.model_text("j1j2"), {}, one, 2)
        compare(helper.model_text("longrange"), {}, one, 2)
        compare(helper.model_text("hubbard"), {}, one, 2)
        compare(helper.model_text("extended_hubbard"), {}, one, 2)
        compare(helper.model_text("tj"), {}, one, 2)
        compare(helper.model_text("kondo"), {}, one, 2)
    end)

    it("writes products of three and four factors as scalars", function()
        local text = assert(util.read(helper.root .. "tests/models/spin_rings.lua"))
        compare(text, {}, {J = 1, K = 0.3, Q = 0.2}, 4)
        compare(text, {S = "1"}, {J = 1, K = 0.3, Q = 0.2}, 4)
        compare(assert(util.read(helper.root .. "tests/models/spin_mixed.lua")), {}, {U = 4, V = 0.5}, 4)
    end)

    it("finds the multiplets of a site and the charges that stay", function()
        local v = assert(spin_tables(helper.model_text("hubbard")))
        assert.are.equal("N", v.charges[1].name)
        assert.are.equal("S", v.charges[2].name)
        assert.are.equal(1, v.charges[2].spin)
        assert.are.same({{0, 0}, {1, -1}, {1, 1}, {2, 0}}, v.types[1].charges)
        assert.are.same({0, 1, 1, 0}, v.types[1].spin)
        assert.are.same({0, 2, 1, 3}, v.types[1].other)
        v = assert(spin_tables(helper.model_text("kondo")))
        assert.are.same({1, 1, 0, 2, 2, 2, 1, 1}, v.types[1].spin)
        v = assert(spin_tables(helper.model_text("heisenberg"), {S = "1"}))
        assert.are.equal(1, #v.charges)
        assert.are.same({{-2}, {0}, {2}}, v.types[1].charges)
        assert.are.equal("S=1,spin=SU(2)", v.variant)
    end)

    it("has few operators and strings", function()
        local function texts(name, set)
            local list = {}
            for _, e in ipairs(assert(spin_tables(helper.model_text(name), set)).terms) do
                local text = string.gsub(e.text, "^.-%[", "[")
                if e.check == 0 then list[#list + 1] = text .. " " .. table.concat(e.ranks, ",") end
            end
            return list
        end
        assert.are.same({"[Sp^1(i)*Sp^1(j)] 2,0"}, texts("heisenberg", {S = "1/2"}))
        assert.are.same({
            "[cdag_up^1/2(i)*cdag_up^1/2~(j)] 1,0", "[cdag_up^1/2~(i)*cdag_up^1/2(j)] 1,0",
            "[docc(i)] 0", "[n(i)] 0",
        }, texts("hubbard"))
        assert.are.same({
            "[Sp^1(i)*Sp^1(j)] 2,0", "[Sp*Sp^2(i)*Sp*Sp^2(j)] 4,0", "4/3*J*beta 0", "2/3*D(i) 0",
        }, texts("blbq"))
    end)

    it("says what is no scalar", function()
        local head = "-- H = 0\nsite(spin(1/2))\nconserve \"nothing\"\nparameters { J = 1, h = 0, K = 2 }\n"
        local bond = "bond(\"nn\", J * S_dot_S(i,j) + h)\n"
        local _, line, why = spin_tables(head .. bond .. "onsite(0.5 * Sz(i) + K)\n")
        assert.are.equal(6, line)
        assert.are.equal("1/2 * Sz(i) is the 0 component of a vector; leave out S and give the charges that "
            .. "the model names", why)
        local v = assert(spin_tables(head .. "bond(\"nn\", J * S_dot_S(i,j))\nonsite(h * Sx(i) + K)\n"))
        local checks = {}
        for _, e in ipairs(v.terms) do if e.check == 1 then checks[#checks + 1] = e end end
        assert.are.equal(1, #checks)
        assert.are.equal(6, checks[1].line)
        assert.are.equal("h * Sx(i) is made of components of a vector; with h = 0, or without S",
            checks[1].text)
        for _, e in ipairs(assert(spin_tables(helper.model_text("heisenberg"))).terms) do
            if e.check == 1 and e.place == "BOND" then
                local want = "what is left of J*Delta * Sz(i)*Sz(j) beside its scalar is the 0 component of "
                    .. "a tensor of rank 2; with J - J*Delta = 0, or without S"
                assert.are.equal(want, e.text)
            end
        end
        _, _, why = spin_tables(helper.model_text("bose_hubbard"))
        assert.is_truthy(string.find(why, "has no total spin", 1, true))
    end)

    it("takes several kinds of site, and electrons of any spin", function()
        local v = assert(spin_tables("-- H\nsite(spin(1/2))\nsite(\"odd\", spin(1))\nconserve \"Sz\"\n"
            .. "bond(\"nn\", S_dot_S(i,j))\nonsite(\"odd\", 0 * Sz(i) + 2)\n"))
        local ops = {}
        for _, e in ipairs(v.terms) do
            local list = {}
            for f, factor in ipairs(e.factors) do
                list[f] = table.concat(v.operators[factor.operators + 1], "/")
            end
            ops[#ops + 1] = table.concat(list, " ") .. " " .. table.concat(e.ranks, ",")
        end
        assert.are.same({
            "1/-2 1/-2 2,0", "1/-2 -2/1 2,0", "-2/1 1/-2 2,0", "-2/1 -2/1 2,0", "0/-2 0", "-2/0 0",
        }, ops)
        v = assert(spin_tables("-- H\nsite(\"even\", electron())\nsite(\"odd\", boson(1))\n"
            .. "conserve { N = n_up + n_dn, Sz = Sz }\nbond(\"nn\", docc(i)*(b(j) + bdag(j)))\n"
            .. "onsite(\"even\", docc(i))\n"))
        assert.are.same({0, 0}, v.types[2].spin)
        local missing = v.terms[#v.terms]
        assert.are.equal(1, missing.check)
        assert.are.equal("docc(i) needs docc on site i, which boson(1) lacks", missing.text)
        v = assert(spin_tables(helper.model_text("hubbard"), {F = "3/2"}))
        assert.are.equal("N", v.charges[1].name)
        assert.are.same({0, 3, 3, 3, 3, 0, 4, 4, 4, 4, 4, 3, 3, 3, 3, 0}, v.types[1].spin)
    end)

    it("is named by explicit matrices", function()
        local text = "-- H\nsite(matrices{ states = {\"u\", \"d\"}, spin = %s,\n"
            .. "Sz = {{%s, 0}, {0, -0.5}}, Sp = {{0, 1}, {0, 0}}, Sm = {{0, 0}, {1, 0}} })\n"
            .. "conserve \"Sz\"\nbond(\"nn\", S_dot_S(i,j))\n"
        local function why(spin, z)
            local _, line, reason = spin_tables(string.format(text, spin, z or 0.5))
            assert.is_true(line == 2 or line == 3)
            return reason
        end
        local v = assert(spin_tables(string.format(text, '{"Sz", "Sp"}', 0.5)))
        assert.are.same({1, 1}, v.types[1].spin)
        assert.is_truthy(string.find(why '"Sz"', "spin must name the matrices of Sz and S+", 1, true))
        assert.is_truthy(string.find(why '{"Sz", "Sq"}', "'Sq', which is not there", 1, true))
        assert.is_truthy(string.find(why '{"Sp", "Sz"}', "spin: Sp must be diagonal", 1, true))
        assert.is_truthy(string.find(why('{"Sz", "Sp"}', 1.5), "are not Sz and S+ of a spin", 1, true))
        assert.is_truthy(string.find(why "nil", "has no total spin", 1, true))
    end)
end)
