-- The fingerprint of a model's tables: two files of a model have the same one where the tables mean the same,
-- so that a state made with one can be used with the other. It covers the charges, the states of the sites
-- and the terms. Comments, the order of the lines, names of operators, defaults of parameters and what blocks
-- keep of a term do not change what a state means, and are left out, so that neither a comment nor a change
-- of the generator makes a saved state unusable.
-- SPDX-License-Identifier: Apache-2.0
local util = require("util")

local fingerprint = {}

-- Elements are computed, and another version may round their last digits differently.
local function element(x) return string.format("%.12g", x + 0.0) end

local function charge_text(c)
    return string.format("%s %d %d/%d %d %d", c.name, c.modulus, c.num, c.den, c.odd, c.spin)
end

local function numbers(list, format)
    local parts = {}
    for p, x in ipairs(list or {}) do parts[p] = string.format(format, x) end
    return table.concat(parts, " ")
end

-- An operator is what it does to the states.
local function operator_text(op)
    local parts = {op.odd, op.rank}
    for _, el in ipairs(op.elements) do
        parts[#parts + 1] = string.format("%d,%d,%s", el.row, el.col, element(el.value))
    end
    return table.concat(parts, " ")
end

local function type_hash(t)
    local pieces = {t.where or "", table.concat(t.states, " "), numbers(t.spin, "%d"), numbers(t.other, "%d")}
    for s, charges in ipairs(t.charges) do pieces[4 + s] = numbers(charges, "%d") end
    for _, x in ipairs(t.vector or {}) do pieces[#pieces + 1] = element(x) end
    return util.hash(pieces)
end

-- A coefficient's steps, with the names of the parameters instead of their indices.
local function coef_hash(v, coef)
    local of_parameter = {SCALAR = true, AT_SITE = true, AT_BOND = true}
    local pieces = {}
    for p, s in ipairs(coef.steps) do
        local a = of_parameter[s.op] and v.params[s.a + 1].name or s.a
        pieces[p] = string.format("%s %s %d %a", s.op, a, s.b, s.value)
    end
    return util.hash(pieces)
end

-- [p]: of the operators of a factor on every type of site.
local function operator_hashes(v)
    local of_type, of_list = {}, {}
    for t, site in ipairs(v.types) do
        of_type[t] = {}
        for p, op in ipairs(site.ops) do of_type[t][p] = operator_text(op) end
    end
    for p, list in ipairs(v.operators) do
        local pieces = {}
        for t, op in ipairs(list) do pieces[t] = op < 0 and tostring(op) or of_type[t][op + 1] end
        of_list[p] = util.hash(pieces)
    end
    return of_list
end

local function mix(h, word)
    h = (h ~ word) * 0x100000001b3
    return h ~ (h >> 29)
end

-- v: the tables but for their hash. Terms are added up, so that their order does not matter.
function fingerprint.of(v)
    local head = {}
    for _, c in ipairs(v.charges) do head[#head + 1] = charge_text(c) end
    local h = util.hash(head)
    for _, t in ipairs(v.types) do h = mix(h, type_hash(t)) end
    local operators, coefs, places = operator_hashes(v), {}, {}
    for p, coef in ipairs(v.coefs) do coefs[p] = coef_hash(v, coef) end
    for p, list in ipairs(v.site_lists) do places[p] = util.hash(list.names) end
    local sum = 0
    for _, term in ipairs(v.terms) do
        local text = string.format("%s %s %a %d %d %d %s", term.place, term.where or "", term.distance,
            term.nslot, term.plus_hc, term.check, numbers(term.ranks, "%d"))
        local one = mix(util.hash({text}), coefs[term.coef + 1])
        if term.sites >= 0 then one = mix(one, places[term.sites + 1]) end
        for _, f in ipairs(term.factors) do one = mix(mix(one, f.slot), operators[f.operators + 1]) end
        sum = sum + one
    end
    return mix(h, sum)
end

return fingerprint
