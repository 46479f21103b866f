-- Multiplets of a site and its irreducible operators: finds them from Sz and S+, and writes any matrix of
-- the site as components of a basis of reduced matrices, which grows as it must. Spins are stored doubled.
-- A reduced matrix is defined by <t m'|T^k_q|s m> = <s m k q|t m'> T[t, s]; it is a flat list, entry (t -
-- 1) * n + s.
-- SPDX-License-Identifier: Apache-2.0
local util = require("util")
local matrix = require("matrix")
local wigner = require("wigner")

local irreducible = {}
local refuse_at = util.refuse_at
local NOISE = 1e-10

local function dot(a, b)
    local sum = 0
    for p = 1, #a do sum = sum + a[p] * b[p] end
    return sum
end

local function largest(list)
    local most, at = 0, 1
    for p, v in ipairs(list) do
        if math.abs(v) > most * (1 + 1e-9) then most, at = math.abs(v), p end
    end
    return most, at
end

local function scaled(list, f)
    local out = {}
    for p, v in ipairs(list) do out[p] = v * f end
    return out
end

local function apply(elements, v)
    local out = {}
    for p = 1, #v do out[p] = 0.0 end
    for _, el in ipairs(elements) do out[el[1] + 1] = out[el[1] + 1] + el[3] * v[el[2] + 1] end
    return out
end

-- An orthonormal basis of what the matrix maps to zero, among vectors that live on the states `here`.
local function null_space(elements, here, dim)
    local range, null = {}, {} -- columns of the matrix are made orthogonal; what vanishes says a combination
    for _, state in ipairs(here) do
        local v = {}
        for p = 1, dim do v[p] = p == state and 1.0 or 0.0 end
        local w = apply(elements, v)
        for _ = 1, 2 do
            for _, r in ipairs(range) do
                local c = dot(r.w, w)
                for p = 1, dim do w[p], v[p] = w[p] - c * r.w[p], v[p] - c * r.v[p] end
            end
        end
        local size = math.sqrt(dot(w, w))
        if size > NOISE then
            range[#range + 1] = {w = scaled(w, 1 / size), v = scaled(v, 1 / size)}
        else
            for _ = 1, 2 do
                for _, u in ipairs(null) do
                    local c = dot(u, v)
                    for p = 1, dim do v[p] = v[p] - c * u[p] end
                end
            end
            null[#null + 1] = scaled(v, 1 / math.sqrt(dot(v, v)))
        end
    end
    return null
end

-- States by charges and projection, in order: {q = charges, m = projection, here = {states}}.
local function cells(t, spin)
    local list, at = {}, {}
    for state = 1, t.dim do
        local m = 2 * matrix.get(spin.z, state - 1, state - 1)
        local q = math.floor(m + 0.5)
        local key = table.concat(t.scalar[state], " ") .. "/" .. q
        if not at[key] then
            at[key] = {q = t.scalar[state], m = q, here = {}}
            list[#list + 1] = at[key]
        end
        table.insert(at[key].here, state)
    end
    table.sort(list, function(a, b)
        for c = 1, #a.q do
            if a.q[c] ~= b.q[c] then return a.q[c] < b.q[c] end
        end
        return a.m < b.m
    end)
    return list
end

local function find_multiplets(site, t, spin)
    local plus, minus = matrix.elements(spin.plus), matrix.elements(matrix.transpose(spin.plus))
    for _, cell in ipairs(cells(t, spin)) do
        local tops = cell.m >= 0 and null_space(plus, cell.here, t.dim) or {}
        for _, v in ipairs(tops) do
            local _, first = largest(v)
            if v[first] < 0 then v = scaled(v, -1) end
            site.mult[#site.mult + 1] = {q = cell.q, j = cell.m}
            site.at[#site.at + 1] = #site.column
            for m = cell.m, -cell.m, -2 do
                site.column[#site.column + 1] = v
                local next_size = math.sqrt((cell.m + m) * (cell.m - m + 2) / 4)
                if m > -cell.m then v = scaled(apply(minus, v), 1 / next_size) end
            end
        end
    end
end

-- The matrix in the basis of multiplets, rows of columns.
local function turned(site, m)
    local elements, out = matrix.elements(m), {}
    for c, v in ipairs(site.column) do
        local w, column = apply(elements, v), {}
        for r, u in ipairs(site.column) do column[r] = dot(u, w) end
        out[c] = column
    end
    return out
end

local function check_closed(site, t, spin)
    local bad = #site.column ~= t.dim
    if not bad then
        local b = turned(site, spin.plus)
        for s, mult in ipairs(site.mult) do
            for p = 0, mult.j do
                for r = 1, t.dim do
                    local m = mult.j - 2 * p
                    local want = r == site.at[s] + p and math.sqrt((mult.j - m) * (mult.j + m + 2) / 4) or 0
                    bad = bad or math.abs(b[site.at[s] + p + 1][r] - want) > NOISE
                end
            end
        end
    end
    if bad then refuse_at(t.line, "%s: its states are no whole multiplets of the total spin", t.name) end
end

-- t: {name, line, dim, scalar = charges of each state without the spin's, odd = {1 where a charge counts
-- for parity}}; spin: {z, plus}.
function irreducible.site(t, spin)
    local site = {mult = {}, at = {}, column = {}, step = {}, op = {}, type = t}
    find_multiplets(site, t, spin)
    check_closed(site, t, spin)
    for p, mult in ipairs(site.mult) do
        for d = -mult.j, mult.j, 2 do site.step[#site.step + 1] = {mult = p, d = d} end
    end
    local one, zero, n = {}, {}, #site.mult
    for p = 1, n * n do one[p] = 0.0 end
    for p = 1, n do one[(p - 1) * n + p] = 1.0 end
    for c = 1, #t.odd do zero[c] = 0 end
    irreducible.expand(site, one, 0, zero, "I")
    return site
end

-- (F1): list of {k, q, shift, m}: m sum, of the component q of the operator of rank k with that reduced
-- matrix.
function irreducible.parts(site, m)
    local b, n, list, at = turned(site, m), #site.mult, {}, {}
    local function put(k, q, shift, place, v)
        local key = k .. " " .. q .. " " .. table.concat(shift, " ")
        if not at[key] then
            at[key] = {k = k, q = q, shift = shift, m = {}}
            for p = 1, n * n do at[key].m[p] = 0.0 end
            list[#list + 1] = at[key]
        end
        at[key].m[place] = v
    end
    for t, row in ipairs(site.mult) do
        for s, col in ipairs(site.mult) do
            local shift = {}
            for c = 1, #row.q do shift[c] = row.q[c] - col.q[c] end
            for k = math.abs(row.j - col.j), row.j + col.j, 2 do
                for q = -k, k, 2 do
                    local v = 0
                    for ms = -col.j, col.j, 2 do
                        if math.abs(ms + q) <= row.j then
                            local column = b[site.at[s] + (col.j - ms) // 2 + 1]
                            local x = column[site.at[t] + (row.j - ms - q) // 2 + 1]
                            v = v + wigner.cg(col.j, ms, k, q, row.j, ms + q) * x
                        end
                    end
                    v = v * (k + 1) / (row.j + 1)
                    if math.abs(v) > 1e-13 then put(k, q, shift, (t - 1) * n + s, v) end
                end
            end
        end
    end
    return list
end

function irreducible.tilde(site, m, k)
    local n, out = #site.mult, {}
    for t = 1, n do
        for s = 1, n do
            local v = m[(s - 1) * n + t]
            out[(t - 1) * n + s] = v ~= 0 and wigner.tilde(site.mult[t].j, site.mult[s].j, k) * v or 0.0
        end
    end
    return out
end

-- Coefficients of m in the listed matrices, or nil where it is not in their span.
local function combination(site, listed, m)
    local basis, rest, c = {}, scaled(m, 1), {}
    for p, place in ipairs(listed) do -- orthonormal vectors, each with what it is made of
        local w, made = scaled(site.op[place].m, 1), {}
        for r = 1, #listed do made[r] = r == p and 1 or 0 end
        for _ = 1, 2 do
            for _, u in ipairs(basis) do
                local f = dot(u.w, w)
                for x = 1, #w do w[x] = w[x] - f * u.w[x] end
                for x = 1, #made do made[x] = made[x] - f * u.made[x] end
            end
        end
        local size = math.sqrt(dot(w, w))
        basis[p] = {w = scaled(w, 1 / size), made = scaled(made, 1 / size)}
        c[p] = 0
    end
    for _ = 1, 2 do
        for _, u in ipairs(basis) do
            local f = dot(u.w, rest)
            for x = 1, #rest do rest[x] = rest[x] - f * u.w[x] end
            for x = 1, #c do c[x] = c[x] + f * u.made[x] end
        end
    end
    if largest(rest) > 1e-12 * math.max(1, (largest(m))) then return nil end
    return c
end

local function negative(shift)
    local out = {}
    for c, v in ipairs(shift) do out[c] = -v end
    return out
end

-- -1, 0, 1: the first charge that moves decides which of two adjoint shifts is grown.
local function direction(shift)
    for _, v in ipairs(shift) do
        if v ~= 0 then return v > 0 and 1 or -1 end
    end
    return 0
end

local function parity(site, shift)
    local sum = 0
    for c, v in ipairs(shift) do sum = sum + site.type.odd[c] * v end
    return sum % 2
end

local function grow(site, m, k, shift, self, name)
    local places, key = {}, table.concat(shift, " ")
    for p, op in ipairs(site.op) do
        local same = op.k == k and table.concat(op.shift, " ") == key and (self == 0 or op.factor == self)
        if same then places[#places + 1] = p end
    end
    local c, out = combination(site, places, m), {}
    if c then
        for p, v in ipairs(c) do
            if math.abs(v) > 1e-13 then out[#out + 1] = {op = places[p], f = v} end
        end
        return out
    end
    local _, at = largest(m)
    local f, n, ops = m[at], #site.op + 1, site.op
    local unit = scaled(m, 1 / f)
    unit[at] = 1.0
    local odd = parity(site, shift)
    local text = k > 0 and string.format("%s^%s", name, util.fraction(k / 2)) or name
    ops[n] = {
        name = text, k = k, shift = shift, odd = odd, m = unit,
        adjoint = self ~= 0 and n or n + 1, factor = self ~= 0 and self or 1,
    }
    if self == 0 then
        local other = irreducible.tilde(site, unit, k)
        ops[n + 1] = {
            name = text .. "~", k = k, shift = negative(shift), odd = odd, m = other,
            adjoint = n, factor = wigner.sign(k),
        }
    end
    return {{op = n, f = f}}
end

-- A reduced matrix in the basis of operators: list of {op, f}. Of two adjoint shifts one is grown, the
-- other holds the adjoints; what shifts nothing is cut into parts that are their own adjoints but for a
-- sign.
function irreducible.expand(site, m, k, shift, name)
    local way = direction(shift)
    if way < 0 then
        local list = irreducible.expand(site, irreducible.tilde(site, m, k), k, negative(shift), name)
        local out = {}
        for p, x in ipairs(list) do out[p] = {op = site.op[x.op].adjoint, f = x.f * wigner.sign(k)} end
        return out
    end
    if way > 0 then return grow(site, m, k, shift, 0, name) end
    if k % 2 ~= 0 then
        refuse_at(site.type.line, "%s: the operator %s has the half-integer rank %s of the total spin and "
            .. "changes no charge; that is not possible with S", site.type.name, name, util.fraction(k / 2))
    end
    local other, out = irreducible.tilde(site, m, k), {}
    for self = 1, -1, -2 do
        local half = {}
        for p = 1, #m do half[p] = (m[p] + self * other[p]) / 2 end
        if largest(half) > 1e-13 then
            for _, x in ipairs(grow(site, half, k, shift, self, name)) do out[#out + 1] = x end
        end
    end
    return out
end

return irreducible
