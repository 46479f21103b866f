-- The tables of a model as plain data: texts, whole numbers and real numbers in lists and records, as
-- src/model/model.h has them. Two writers take them: emit.lua writes them as C, src/model/tables.c puts them
-- into memory. There are no functions, no expressions and no matrices in them; indices count from 0, as in C.
-- SPDX-License-Identifier: Apache-2.0
local util = require("util")
local matrix = require("matrix")
local algebra = require("algebra")
local language = require("language")
local lower = require("lower")
local scalar = require("scalar")
local fingerprint = require("fingerprint")

local tables = {}
local refuse_at = util.refuse_at

local MAX_STEPS = 4096            -- KL_MAX_STEP of src/model/coef.h
local NO_OP, ZERO_OP = -2, -1     -- KL_OP_NONE and KL_OP_ZERO of src/model/model.h

-- Coefficients ------------------------------------------------------------------------------------

local operation = { -- of leaves and functions; the names are those of KL_COEF_OPS in src/model/coef.h
    add = "ADD", mul = "MUL", div = "DIV", pow = "POW", N = "NSITE", r = "R", x = "X", y = "Y",
    exp = "EXP", log = "LOG", sqrt = "SQRT", abs = "ABS", sin = "SIN", cos = "COS", tanh = "TANH",
}

-- A coefficient as steps {op, a, b, value}, each of which makes a value of those before it; equal parts are
-- one step, and the last one is the coefficient. index: of the parameters by name.
local function coef_steps(coef, index, line)
    local steps, place, done = {}, {}, {}
    local function step(op, a, b, value)
        local key = string.format("%s %d %d %a", op, a, b, value)
        if not place[key] then
            if #steps == MAX_STEPS then
                refuse_at(line, "a coefficient has more than %d different parts", MAX_STEPS)
            end
            place[key] = #steps
            steps[#steps + 1] = {op = op, a = a, b = b, value = value}
        end
        return place[key]
    end
    local function number(v) return step("NUMBER", 0, 0, v + 0.0) end
    local function parameter(t)
        local p = index[t.name]
        if t.kind == "scalar" then return step("SCALAR", p, 0, 0.0) end
        if t.kind == "bond" then return step("AT_BOND", p, 0, 0.0) end
        return step("AT_SITE", p, t.at - 1, 0.0)
    end
    local tree
    local function scaled(v)
        if not v.tree then return number(v.c) end
        local body = tree(v.tree)
        return v.c == 1 and body or step("MUL", number(v.c), body, 0.0)
    end
    local function make(t)
        if t.k == "par" then return parameter(t) end
        if t.k == "site" then return step("SITE", t.slot - 1, 0, 0.0) end
        if t.k == "add" or t.k == "pow" then return step(operation[t.k], scaled(t.a), scaled(t.b), 0.0) end
        if t.k == "mul" then return step("MUL", tree(t.a), tree(t.b), 0.0) end
        if t.k == "div" then return step("DIV", t.a and tree(t.a) or number(1), tree(t.b), 0.0) end
        if t.k == "fn" then return step(operation[t.name], scaled(t.a), 0, 0.0) end
        return step(operation[t.k], 0, 0, 0.0)
    end
    function tree(t) -- every tree once, however often it is used
        if not done[t] then done[t] = make(t) end
        return done[t]
    end
    scaled(coef)
    return steps
end

-- Lists that are written once and referred to by their indices.
local function shared()
    local list, place = {}, {}
    return list, function(key, make)
        if not place[key] then
            list[#list + 1] = make()
            place[key] = #list - 1
        end
        return place[key]
    end
end

-- Parts -------------------------------------------------------------------------------------------

local function operator(op)
    local elements = {}
    for p, el in ipairs(matrix.elements(op.m)) do
        elements[p] = {row = el[1], col = el[2], value = el[3] + 0.0}
    end
    return {
        name = op.name, shift = op.shift, odd = op.odd, named = op.named and 1 or 0, elements = elements,
        adjoint = op.adjoint - 1, adjoint_factor = op.adjoint_factor + 0.0, rank = op.rank or 0,
    }
end

-- product_op and product_factor: row a, column b holds op[a] * op[b], row by row.
local function site_type(t)
    local v = {
        name = t.name, where = t.where, states = t.state, charges = t.charge, ops = {},
        product_op = {}, product_factor = {}, spin = t.spin, other = t.other, vector = t.vector and {},
    }
    for _, row in ipairs(t.vector or {}) do
        for _, x in ipairs(row) do v.vector[#v.vector + 1] = x + 0.0 end
    end
    for p, op in ipairs(t.op) do v.ops[p] = operator(op) end
    for _, row in ipairs(t.table) do
        for _, entry in ipairs(row) do
            local op = entry[1]
            local place = op == lower.NONE and NO_OP or op == lower.ZERO and ZERO_OP or op - 1
            v.product_op[#v.product_op + 1] = place
            v.product_factor[#v.product_factor + 1] = place < 0 and 0.0 or entry[2] + 0.0
        end
    end
    return v
end

local function split_rows(e)
    local rows = {}
    for mask = 0, #e.split do
        local s = e.split[mask]
        local signs = s.signs
        rows[mask + 1] = {
            kept = s.kept - 1, sign = signs.sign,
            left_minus = signs.left_minus, right_minus = signs.right_minus,
        }
    end
    return rows
end

-- Keys by which equal lists are found.
local function split_key(e)
    local parts, n = {}, 0
    for mask = 0, #e.split do
        local s = e.split[mask]
        local signs = s.signs
        parts[n + 1], parts[n + 2] = s.kept, signs.sign
        parts[n + 3], parts[n + 4] = signs.left_minus, signs.right_minus
        n = n + 4
    end
    return table.concat(parts, " ")
end
local function coef_key(steps)
    local parts = {}
    for p, s in ipairs(steps) do parts[p] = string.format("%s %d %d %a", s.op, s.a, s.b, s.value) end
    return table.concat(parts, " ")
end

local function add_terms(v, out)
    local index = {}
    for p, param in ipairs(out.params) do index[param.name] = p - 1 end
    local add_coef, add_operators, add_sites, add_split
    v.coefs, add_coef = shared()
    v.operators, add_operators = shared()
    v.site_lists, add_sites = shared()
    v.splits, add_split = shared()
    for p, e in ipairs(out.terms) do
        local st = e.st
        local steps, factors = coef_steps(e.coef, index, st.line), {}
        local function coef() return {text = algebra.coef_text(e.coef), steps = steps} end
        local function sites() return {line = st.line, names = st.sites} end
        for f, factor in ipairs(e.factors) do
            local list = {}
            for t, op in ipairs(factor.op) do list[t] = op == lower.NONE and NO_OP or op - 1 end
            local place = add_operators(table.concat(list, " "), function() return list end)
            factors[f] = {slot = factor.slot - 1, operators = place}
        end
        v.terms[p] = {
            place = st.place, where = st.where, distance = (st.distance or 0) + 0.0, nslot = st.nslot,
            factors = factors, sites = st.sites and add_sites(table.concat(st.sites, "\0"), sites) or -1,
            split = e.split and add_split(split_key(e), function() return split_rows(e) end) or -1,
            ranks = e.ranks, check = e.check and 1 or 0,
            coef = add_coef(coef_key(steps), coef),
            plus_hc = e.hc and 1 or 0, line = st.line, text = e.text,
        }
    end
end

-- The whole ---------------------------------------------------------------------------------------

-- out: of lower.model. info: {name, source, variant, formula}.
local function of_model(out, info)
    local v = {
        name = info.name, variant = info.variant, formula = info.formula, source = info.source,
        charges = {}, params = {}, types = {}, kept = {}, terms = {},
    }
    for c, charge in ipairs(out.charges) do
        v.charges[c] = {
            name = charge.name, modulus = charge.modulus, num = charge.num, den = charge.den,
            odd = charge.odd, added = charge.added and 1 or 0, spin = charge.spin and 1 or 0,
        }
    end
    for p, param in ipairs(out.params) do
        v.params[p] = {name = param.name, kind = string.upper(param.kind), value = param.value + 0.0}
    end
    for p, t in ipairs(out.types) do v.types[p] = site_type(t) end
    for p, k in ipairs(out.kept) do
        v.kept[p] = {
            name = k.name, shift = k.shift, odd = k.odd, adjoint = k.adjoint - 1,
            adjoint_factor = k.adjoint_factor + 0.0,
        }
    end
    add_terms(v, out)
    v.hash = fingerprint.of(v)
    return v
end

-- Modules that make the tables: the program carries their text.
tables.modules = {
    "util", "matrix", "fermion", "algebra", "space", "language", "charges", "siteops", "lower", "wigner",
    "irreducible", "scalar", "fingerprint", "tables",
}

-- The tables of a model's text, or a refusal. source: the file's name without its folder; set: {name = text}
-- of structural parameters, and of others where `others` is true; spin: true for the variant with the total
-- spin as a charge.
function tables.of(source, text, set, others, spin)
    local model = language.read(text, set, others)
    local out, variant = lower.model(model), language.variant(model)
    if spin then
        out = scalar.model(text, out)
        variant = variant .. (variant ~= "" and "," or "") .. "spin=SU(2)"
    end
    return of_model(out, {
        name = string.gsub(source, "%.lua$", ""), source = source, variant = variant, formula = model.formula,
    })
end

return tables
