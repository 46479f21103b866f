-- The symbolic records against dense matrices: on sites in any order, every cut of every term multiplies out
-- to the term, blocks grow as the records say, and what is kept has the stated shift, parity and adjoint. The
-- matrices are Kronecker products with strings of their own.
-- SPDX-License-Identifier: Apache-2.0
local helper = dofile((string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "./") .. "helper.lua")
local matrix = require("matrix")

local function kron(a, b)
    local out = matrix.new(a.dim * b.dim)
    for _, x in ipairs(matrix.elements(a)) do
        for _, y in ipairs(matrix.elements(b)) do
            matrix.set(out, x[1] * b.dim + y[1], x[2] * b.dim + y[2], x[3] * y[3])
        end
    end
    return out
end

-- Operator `op` of a site type on `site` of nsite sites: an odd one has the parity matrix on every site
-- before its own.
local made = setmetatable({}, { __mode = "k" }) -- of each kind of site: terms share their operators
local function on_site(t, op, site, nsite)
    made[t] = made[t] or {}
    local key = (op * 64 + site) * 64 + nsite
    if made[t][key] then return made[t][key] end
    local parity = {}
    for p, odd in ipairs(t.space.parity) do parity[p] = 1.0 - 2 * odd end
    local before, one = matrix.diagonal(parity), matrix.identity(t.dim)
    local m = matrix.identity(1)
    for s = 1, nsite do
        m = kron(m, s == site and t.op[op].m or (s < site and t.op[op].odd == 1 and before or one))
    end
    made[t][key] = m
    return m
end

local function expect_equal(a, b, factor, what)
    local size = 1e-30
    for _, v in pairs(a.e) do size = math.max(size, math.abs(v)) end
    for _, v in pairs(matrix.add(a, b, -factor).e) do assert.is_true(math.abs(v) <= 1e-13 * size, what) end
    if not matrix.is_zero(a) then assert.is_false(matrix.is_zero(b), what) end
end

local function minus(mask, f) return (mask >> (f - 1)) & 1 == 1 and -1 or 1 end

-- Charges of a state of nsite sites, by the model's table.
local function charges(out, t, state, nsite)
    local sum = {}
    for c = 1, #out.charges do sum[c] = 0 end
    for _ = 1, nsite do
        for c = 1, #out.charges do sum[c] = sum[c] + t.charge[state % t.dim + 1][c] end
        state = state // t.dim
    end
    return sum
end

local function check_kept(out, t, k, m, nsite, what)
    for _, el in ipairs(matrix.elements(m)) do
        local row, col, odd = charges(out, t, el[1], nsite), charges(out, t, el[2], nsite), 0
        for c, charge in ipairs(out.charges) do
            local d = row[c] - col[c]
            if charge.modulus > 0 then d = d % charge.modulus end
            assert.are.equal(k.shift[c], d, what .. " shifts " .. charge.name)
            odd = odd + charge.odd * d
        end
        assert.are.equal(k.odd, odd % 2, what .. " parity")
    end
end

-- Term e with its factors on these sites (factors of one slot share a site), all of type t. Returns how many
-- rows were checked.
local function check_term(out, t, e, sites, nsite)
    local n, all = #e.factors, (1 << #e.factors) - 1
    local factor, turned, names = {}, {}, {}
    for f, given in ipairs(e.factors) do
        local op = given.op[t.index]
        factor[f] = on_site(t, op, sites[f], nsite)
        turned[f] = on_site(t, t.op[op].adjoint, sites[f], nsite)
        names[f] = t.op[t.op[op].adjoint].name
    end
    local kept, adjoint = {}, {}
    for mask = 0, all do
        kept[mask], adjoint[mask] = matrix.identity(t.dim ^ nsite // 1 | 0),
            matrix.identity(t.dim ^ nsite // 1 | 0)
        local list = {}
        for f = 1, n do
            if mask & (1 << (f - 1)) ~= 0 then
                kept[mask], adjoint[mask] = matrix.multiply(kept[mask], factor[f]),
                    matrix.multiply(adjoint[mask], turned[f])
                list[#list + 1] = names[f]
            end
        end
        local k = out.kept[e.split[mask].kept]
        local what = string.format("%s: %s", e.text, k.name)
        check_kept(out, t, k, kept[mask], nsite, what)
        expect_equal(matrix.transpose(kept[mask]), adjoint[mask], k.adjoint_factor, what .. " adjoint")
        if t.index == 1 then
            assert.are.equal(#list > 0 and table.concat(list, " ") or "1", out.kept[k.adjoint].name)
        end
        assert.are.equal(e.split[mask].kept, out.kept[k.adjoint].adjoint)
    end
    for mask = 0, all do
        local what, signs, rest = string.format("%s: row %d", e.text, mask), e.split[mask].signs, all ~ mask
        expect_equal(kept[all], matrix.multiply(kept[mask], kept[rest]), signs.sign, what .. ", superblock")
        for f = 1, n do
            local bit = 1 << (f - 1)
            if mask & bit == 0 then
                expect_equal(matrix.multiply(kept[mask], factor[f]), kept[mask | bit],
                    minus(signs.left_minus, f), what .. ", left block grows")
                expect_equal(matrix.multiply(factor[f], kept[mask]), kept[mask | bit],
                    minus(signs.right_minus, f), what .. ", right block grows")
            end
            for g = 1, n do -- block, site, site, block, each record with its sign
                local other = 1 << (g - 1)
                if g ~= f and mask & (bit | other) == 0 then
                    local right = all ~ mask ~ bit ~ other
                    local four = matrix.multiply(matrix.multiply(kept[mask], factor[f]),
                        matrix.multiply(factor[g], kept[right]))
                    local sign = e.split[mask | bit].signs.sign * minus(signs.left_minus,
                        f) * minus(e.split[right].signs.right_minus, g)
                    expect_equal(kept[all], four, sign, what .. ", l-1-1-r")
                end
            end
        end
        local used = signs.left_minus | signs.right_minus
        assert.are.equal(0, used & (mask | ~all), what .. " grows by what it holds")
    end
    return all + 1
end

-- Sites for the slots of a term, in rising, falling and mixed order.
local function arrangements(slots)
    local n, list = #slots, {}
    local function add(place)
        local at = {}
        for p, slot in ipairs(slots) do at[slot] = place(p) end
        list[#list + 1] = at
    end
    add(function(p) return p end)
    if n > 1 then add(function(p) return n + 1 - p end) end
    if n > 2 then
        add(function(p) return p % n + 1 end)
        add(function(p) return p <= 2 and 3 - p or p end)
    end
    return list
end

local function check_model(out)
    local rows = 0
    for index, t in ipairs(out.types) do
        t.index = index
        for _, e in ipairs(out.terms) do
            local slots, seen, possible, shared = {}, {}, true, false
            for _, f in ipairs(e.factors) do
                possible = possible and math.type(f.op[index]) == "integer"
                shared = shared or seen[f.slot]
                if not seen[f.slot] then slots[#slots + 1] = f.slot end
                seen[f.slot] = true
            end
            if possible and not shared and t.dim ^ #slots <= 300 then
                for _, at in ipairs(arrangements(slots)) do
                    local sites = {}
                    for f, given in ipairs(e.factors) do sites[f] = at[given.slot] end
                    rows = rows + check_term(out, t, e, sites, #slots)
                end
            end
        end
    end
    return rows
end

describe("symbolic records", function()
    for _, name in ipairs(helper.models) do
        it("of " .. name, function()
            assert.is_true(check_model(helper.lower(helper.model_text(name))) > 4)
        end)
    end
    -- three- to six-site terms, odd operators of every kind
    for _, name in ipairs({"strange", "majorana", "free_spins"}) do
        it("of " .. name, function()
            local text = assert(require("util").read(helper.root .. "tests/models/" .. name .. ".lua"))
            assert.is_true(check_model(helper.lower(text)) > 100)
        end)
    end
    it("of two kinds of sites, named sites and a constant", function()
        local out = assert(helper.lower(
            '-- H\nsite(spin(1))\nsite("ends", spin(1/2))\nconserve "Sz"\nparameters { J = 1, D = 1 }\nbond("nn", J * S_dot_S(i,j))\n'
            .. 'onsite(D * Sz(i)*Sz(i) + 2)\nnamed({"0", "3", "5"}, J * (Sp(i)*Sz(j)*Sm(k) + hc))\n'))
        assert.is_true(check_model(out) > 40)
    end)
    it("of a Z3 charge with factors that are no signs", function()
        local out = assert(helper.lower(
            '-- H\nsite(matrices{ states = {"0", "1", "2"}, Q = {{0,0,0}, {0,1,0}, {0,0,2}}, X = {{0,0,2}, {1,0,0}, {0,3,0}},\n'
            .. 'Y = {{0,2,0}, {0,0,6}, {4,0,0}} })\nconserve { Q = mod(Q, 3) }\nparameters { J = 1 }\nbond("nn", J * (X(i)*Y(j) + hc))\n'
            .. 'run(3, J * (X(i)*X(j)*X(k) + hc))\n'))
        assert.is_true(check_model(out) > 30)
        local factors = {}
        for _, k in ipairs(out.kept) do factors[#factors + 1] = k.adjoint_factor end
        assert.is_true(math.max(table.unpack(factors)) > 1)
    end)
    it("of operators that are multiples of each other, each with its own adjoint", function()
        local out = assert(helper.lower(
            '-- H\nsite(matrices{ states = {"a", "b"}, A = {{1,0}, {0,-1}}, B = {{2,0}, {0,-2}}, C = {{0,1}, {0,0}}, D = {{0,0}, {3,0}}, E = {{0,0}, {1,0}} })\n'
            .. 'conserve "nothing"\nparameters { J = 1 }\nbond("nn", J * (A(i)*B(j) + B(i)*A(j) + (C(i)*D(j) + hc)))\n'))
        assert.is_true(check_model(out) > 20)
        local op = out.types[1].op
        for p, o in ipairs(op) do
            assert.are.equal(p, op[o.adjoint].adjoint)
            expect_equal(matrix.transpose(o.m), op[o.adjoint].m, o.adjoint_factor, o.name)
        end
    end)
    it("know every operator that a random product of fermions leaves in a block", function()
        math.randomseed(11)
        local ops, count = {"c_up", "cdag_up", "c_dn", "cdag_dn", "n_up", "Sp", "Sm", "docc"}, 0
        for _ = 1, 25 do
            local product = {}
            for p, slot in ipairs({"i", "j", "k"}) do
                product[p] = string.format("%s(%s)", ops[math.random(#ops)], slot)
            end
            if math.random(2) == 1 then product[1], product[3] = product[3], product[1] end
            local out = helper.lower(
                '-- H\nsite(electron())\nconserve "nothing"\nparameters { J = 1 }\nrun(3, J * '
                    .. table.concat(product, "*") .. " + hc)\n")
            if out then
                check_model(out)
                count = count + 1
            end
        end
        assert.is_true(count > 10)
    end)
    it("are shared by terms with the same factors, and too many are refused", function()
        local c = assert(helper.generate(helper.model_text("j1j2")))
        local _, tables = string.gsub(c, "static const kl_split split_%d+%[%]", "")
        local _, terms = string.gsub(c, "{KL_PLACE_", "")
        assert.is_true(tables < terms)
        local product = {}
        for p = 1, 8 do product[p] = string.format("X(at(%d))", p) end
        local text = '-- H\nsite(spin(1/2))\nconserve "nothing"\nX = Sp + Sm\nfor d = 1, %d do run(8, d * '
            .. table.concat(product, "*") .. ") end\n"
        assert.is_truthy(helper.lower(string.format(text, 1)))
        local out, line, why = helper.lower(string.format(text, 40))
        assert.is_nil(out)
        assert.are.equal(5, line)
        assert.is_truthy(string.find(why, "cut in more than 1048576 ways", 1, true), why)
    end)

    -- 16 orbitals in momentum space, each term's adjoint being a term of its own
    it("reads thousands of terms in a second or two", function()
        -- seconds of the machine as it is now: others may run beside
        local before, word = os.clock(), ""
        for i = 1, 3e5 do word = string.sub(word .. i, -8) end
        local began = os.clock()
        local unit = began - before
        local out = assert(helper.lower('-- H\nsite(electron(1/2))\nconserve "each flavour"\n'
            .. "for p = 0, 15 do for q = 0, 15 do for r = 0, 15 do\n  local s = (p + r - q) % 16\n"
            .. "  if p ~= q and p ~= r and p ~= s and q ~= r and q ~= s and r ~= s then\n"
            .. '    named({p .. "", q .. "", r .. "", s .. ""}, cdag_up(i)*c_up(j)*cdag_dn(k)*c_dn(l)/16)\n'
            .. "  end\nend end end\n"))
        assert.are.equal(3136, #out.terms)
        assert.is_true(os.clock() - began < 20 * unit)
    end)
end)
