-- Charges of a model: from expressions to whole numbers with a unit, and the parity of fermions among them.
-- SPDX-License-Identifier: Apache-2.0
local util = require("util")
local algebra = require("algebra")
local matrix = require("matrix")

local charges = {}
local refuse_at = util.refuse_at

local MAX_CHARGE = 8

-- The matrix of a bare operator expression on one type; operators that this type lacks count as zero.
local function local_matrix(t, expr, line, what)
    local total = matrix.new(t.space.dim)
    for _, m in ipairs(expr.list) do
        if m.coef.tree then
            refuse_at(line, "%s contains %s, which is only known at run time", what,
                algebra.coef_text(m.coef))
        end
        if m.hc then refuse_at(line, "%s is diagonal and needs no hc", what) end
        local product = matrix.identity(t.space.dim)
        for _, f in ipairs(m.factors) do
            if f.slot then refuse_at(line, "%s is written without sites, as in n_up - n_dn", what) end
            local op = t.space.op[f.op]
            if not op and f.needs then
                refuse_at(line, "%s needs a flavour here, as in %s_%s", f.op, f.op, f.needs)
            end
            op = op or matrix.new(t.space.dim)
            product = matrix.multiply(product, f.dagger and matrix.transpose(op) or op, line)
        end
        total = matrix.add(total, product, m.coef.c)
    end
    return total
end

local function gcd(a, b)
    while b ~= 0 do a, b = b, a % b end
    return a
end

-- Values of a charge in every state of every type, and all of them in one list.
local function values_of(charge, out)
    local what = "the charge " .. charge.name
    local values, all = {}, {}
    for p, t in ipairs(out.types) do
        local m = local_matrix(t, charge.expr, charge.line, what)
        values[p] = {}
        for state = 0, t.dim - 1 do
            values[p][state + 1] = matrix.get(m, state, state)
            all[#all + 1] = values[p][state + 1]
        end
        for _, el in ipairs(matrix.elements(m)) do
            if el[1] ~= el[2] then
                refuse_at(charge.line, "%s is not diagonal: it joins the states %s and %s of %s", what,
                    t.state[el[2] + 1], t.state[el[1] + 1], t.name)
            end
        end
    end
    return values, all
end

-- The smallest d that makes whole numbers of d times these values; nil where there is none.
local function denominator(all, most)
    for d = 1, most do
        local whole = true
        for _, v in ipairs(all) do
            if math.abs(v * d - math.floor(v * d + 0.5)) > 1e-12 * math.max(1, math.abs(v * d))
                or math.abs(v * d) > 1e6 then whole = false end
        end
        if whole then return d end
    end
    return nil
end

-- One charge in its own unit num / den, as whole numbers.
local function add_charge(charge, out)
    local what = "the charge " .. charge.name
    local values, all = values_of(charge, out)
    local den = denominator(all, charge.modulus > 0 and 1 or 24)
    if not den then
        refuse_at(charge.line, "%s has values that are %s", what,
            charge.modulus > 0 and "not whole numbers" or "not small multiples of 1/1 to 1/24")
    end
    local num, nonzero = 0, false
    for p, list in ipairs(values) do
        for q, v in ipairs(list) do
            local n = math.floor(v * den + 0.5)
            if charge.modulus > 0 then n = n % charge.modulus end
            values[p][q] = math.tointeger(n)
            num = gcd(num, math.abs(values[p][q]))
            nonzero = nonzero or n ~= 0
        end
    end
    if not nonzero then refuse_at(charge.line, "%s is zero in every state", what) end
    if charge.modulus > 0 then num = 1 end
    for p, list in ipairs(values) do
        local t = out.types[p]
        for q, n in ipairs(list) do t.charge[q][#out.charges + 1] = n // num end
    end
    local common = gcd(num, den)
    out.charges[#out.charges + 1] = {name = charge.name, modulus = charge.modulus, num = num // common,
        den = den // common, odd = 0, line = charge.line}
end

-- Whether the charges of this subset add up to the parity of every state.
local function is_parity(out, subset)
    for c = 1, #out.charges do
        if subset & (1 << (c - 1)) ~= 0 and out.charges[c].modulus % 2 ~= 0 then return false end
    end
    for _, t in ipairs(out.types) do
        for state = 1, t.dim do
            local sum = 0
            for c = 1, #out.charges do
                if subset & (1 << (c - 1)) ~= 0 then sum = sum + t.charge[state][c] end
            end
            if sum % 2 ~= t.space.parity[state] then return false end
        end
    end
    return true
end

local function size_of(subset)
    local count = 0
    while subset > 0 do count, subset = count + (subset & 1), subset >> 1 end
    return count
end

-- Parity as a sum of charges mod 2, with as few of them as possible; a Z2 charge of its own where there is
-- none.
local function add_parity(model, out)
    local best
    for subset = 1, (1 << #out.charges) - 1 do
        if (not best or size_of(subset) < size_of(best)) and is_parity(out, subset) then best = subset end
    end
    if best then
        for c = 1, #out.charges do out.charges[c].odd = (best >> (c - 1)) & 1 end
        return
    end
    local name = "parity"
    for _, c in ipairs(out.charges) do
        if c.name == name then name = "fermion_parity" end
    end
    for _, t in ipairs(out.types) do
        for state = 1, t.dim do t.charge[state][#out.charges + 1] = t.space.parity[state] end
    end
    out.charges[#out.charges + 1] = {name = name, modulus = 2, num = 1, den = 1, odd = 1,
        line = model.conserve_line, added = true}
end

-- out.charges and the charges of each state of out.types.
function charges.lower(model, out)
    for _, charge in ipairs(model.charges) do add_charge(charge, out) end
    local fermionic = false
    for _, t in ipairs(out.types) do
        for _, odd in ipairs(t.space.parity) do fermionic = fermionic or odd == 1 end
    end
    if fermionic then add_parity(model, out) end
    if #out.charges > MAX_CHARGE then
        refuse_at(model.conserve_line,
            "%d charges (an added fermion parity included); at most %d are possible", #out.charges,
                MAX_CHARGE)
    end
    for c, charge in ipairs(out.charges) do
        for d = 1, c - 1 do
            if out.charges[d].name == charge.name then
                refuse_at(charge.line, "the charge %s is given twice", charge.name)
            end
        end
    end
end

-- Value of a stored charge in the user's unit.
function charges.text(charge, n)
    if charge.modulus > 0 then return tostring(n) end
    return util.fraction(n * charge.num / charge.den)
end

return charges
