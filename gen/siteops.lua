-- Kinds of sites with their operators: shift of the charges, parity, adjoint, and products on one site.
-- SPDX-License-Identifier: Apache-2.0
local util = require("util")
local matrix = require("matrix")
local space = require("space")
local charges = require("charges")

-- Indices of operators count from 1 here; emit.lua subtracts. ZERO: a product that vanishes.
local siteops = {IDENTITY = 1, ZERO = "zero"}
local refuse_at = util.refuse_at

local MAX_OPS = 2000

-- charge(row) - charge(col) for all elements; nil and the reason where they differ.
local function shift_of(out, t, m)
    local shift
    for _, el in ipairs(matrix.elements(m)) do
        local here = {}
        for c, charge in ipairs(out.charges) do
            local d = t.charge[el[1] + 1][c] - t.charge[el[2] + 1][c]
            if charge.modulus > 0 then d = d % charge.modulus end
            here[c] = d
            if shift and shift[c] ~= d then
                return nil, string.format(
                    "has no definite shift of the charge %s: it changes it by %s and by %s; drop %s from conserve or use operators that change it by one amount",
                    charge.name, charges.text(charge, shift[c]), charges.text(charge, d),
                        charge.name)
            end
        end
        shift = shift or here
    end
    return shift
end

-- Index and factor of the listed operator that m is a multiple of; ZERO; or nil.
function siteops.find(t, m)
    if matrix.is_zero(m) then return siteops.ZERO end
    for _, p in ipairs(t.bucket[matrix.pattern(m)] or {}) do
        local f = matrix.ratio(m, t.op[p].m)
        if f then return p, f end
    end
    return nil
end

function siteops.append(out, t, name, m, named)
    local shift = shift_of(out, t, m)
    local odd = space.parity_of(t.space, m)
    t.op[#t.op + 1] = {name = name, m = m, shift = shift, odd = odd, named = named}
    if #t.op > MAX_OPS then
        refuse_at(t.line, "%s needs more than %d operators with their products", t.name, MAX_OPS)
    end
    local pattern = matrix.pattern(m)
    t.bucket[pattern] = t.bucket[pattern] or {}
    table.insert(t.bucket[pattern], #t.op)
    return #t.op
end

-- Adjoint of operator p; appended if it is not there. Where several are multiples of each other each keeps to
-- its own partner: itself, if it can.
function siteops.adjoint(out, t, p)
    local op = t.op[p]
    if not op.adjoint then
        local m = matrix.transpose(op.m)
        local q, f = p, matrix.ratio(m, op.m)
        if not f then
            q = nil
            for _, c in ipairs(t.bucket[matrix.pattern(m)] or {}) do
                if not q and not t.op[c].adjoint then
                    f = matrix.ratio(m, t.op[c].m)
                    q = f and c
                end
            end
        end
        if not q then
            local name = op.name .. "^+"
            if op.parts then
                local parts = {}
                for s = #op.parts, 1, -1 do
                    local a = siteops.adjoint(out, t, op.parts[s])
                    parts[#parts + 1] = t.op[a].name
                end
                name = table.concat(parts, "*")
            end
            q, f = siteops.append(out, t, name, m, false), 1
        end
        op.adjoint, op.adjoint_factor = q, f
        t.op[q].adjoint, t.op[q].adjoint_factor = p, 1 / f
    end
    return op.adjoint, op.adjoint_factor
end

-- Index and factor of op[a]*op[b]; appended if it is not there.
function siteops.product(out, t, a, b, line)
    -- named operators may be multiples of each other: the identity keeps which one it was
    if a == siteops.IDENTITY then return b, 1 end
    if b == siteops.IDENTITY then return a, 1 end
    local key = a * 65536 + b
    local known = t.products[key]
    if not known then
        local m = matrix.multiply(t.op[a].m, t.op[b].m, line)
        local p, f = siteops.find(t, m)
        if not p then
            p, f = siteops.append(out, t, t.op[a].name .. "*" .. t.op[b].name, m, false), 1
            t.op[p].parts = table.move(t.op[b].parts or {b}, 1, #(t.op[b].parts or {b}),
                #(t.op[a].parts or {a}) + 1, table.move(t.op[a].parts or {a}, 1, #(t.op[a].parts or {a}), 1,
                    {}))
        end
        known = {p, f or 0}
        t.products[key] = known
    end
    return known[1], known[2]
end

function siteops.types(model, out)
    for p, given in ipairs(model.types) do
        local s = given.space
        local t = {name = s.name, where = given.where, line = given.line, space = s, dim = s.dim,
            state = s.state, charge = {}, op = {}, bucket = {}, products = {}, at = {}, hidden = {}}
        for state = 1, s.dim do t.charge[state] = {} end
        out.types[p] = t
    end
    charges.lower(model, out)
    for _, t in ipairs(out.types) do
        siteops.append(out, t, "I", matrix.identity(t.dim), true)
        t.at.I = siteops.IDENTITY
        for _, name in ipairs(t.space.order) do
            local m = t.space.op[name]
            local shift, reason = shift_of(out, t, m)
            if matrix.is_zero(m) then
                t.hidden[name] = "vanishes on " .. t.name .. (string.find(t.name, " without ", 1, true) and
                    ", where products are made of what is left of their factors; matrices{...} can give them" or
                    "")
            elseif not shift then
                if t.space.explicit then refuse_at(t.line, "the operator %s %s", name, reason) end
                t.hidden[name] = reason
            else
                t.at[name] = siteops.append(out, t, name, m, true)
            end
        end
    end
end

return siteops
