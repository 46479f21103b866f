-- Ready-made local spaces: states, their parity, and named operators as matrices. Signs come from
-- fermion.lua. A space is {name, kind, dim, state = {...}, parity = {...}, op = {...}, order = {...}, flavour
-- = {...} or nil, spin = {z, plus} or nil: Sz and S+ of the total spin}; charges come later, from `conserve`.
-- SPDX-License-Identifier: Apache-2.0
local util = require("util")
local matrix = require("matrix")
local fermion = require("fermion")

local space = {}
local refuse = util.refuse
local MAX_DIM = 256

local Space = {opaque = true}
Space.__name = "local space"
function space.is(v) return getmetatable(v) == Space end

local function new(name, kind, states, parity)
    local s = setmetatable({name = name, kind = kind, dim = #states, state = states, parity = parity, op = {},
        order = {}}, Space)
    if s.dim > MAX_DIM then
        refuse("%s has %d states; at most %d are possible on one site", name, s.dim, MAX_DIM)
    end
    return s
end

local function put(s, name, m)
    s.op[name] = m
    s.order[#s.order + 1] = name
end

local function zeros(count)
    local list = {}
    for p = 1, count do list[p] = 0 end
    return list
end

local function check_spin(S, what)
    if type(S) ~= "number" or not util.is_integer(2 * S) or S < 0.5 then
        refuse("%s must be 1/2, 1, 3/2, ..., got %s", what, util.described(S))
    end
    if 2 * S + 1 > MAX_DIM then
        refuse("%s gives %s states; at most %d are possible on one site", what, util.number(2 * S + 1),
            MAX_DIM)
    end
end

-- Sz, S+ and S- on the states m = S, S-1, ..., -S.
local function spin_matrices(S)
    local dim = math.tointeger(2 * S) + 1
    local z, plus = {}, matrix.new(dim)
    for p = 0, dim - 1 do
        local m = S - p
        z[p + 1] = m
        if p > 0 then matrix.set(plus, p - 1, p, math.sqrt(S * (S + 1) - m * (m + 1))) end
    end
    return matrix.diagonal(z), plus, matrix.transpose(plus), z
end

-- spin(S): Sz, Sp = S+, Sm = S-, Sx, iSy = i Sy (real), and for whole S the string factor P = exp(i pi Sz).
function space.spin(S)
    check_spin(S, "the spin")
    local z, plus, minus, m = spin_matrices(S)
    local states = {"up", "dn"}
    if S ~= 0.5 then
        for p, v in ipairs(m) do states[p] = util.fraction(v) end
    end
    local s = new(string.format("spin(%s)", util.fraction(S)), "spin", states, zeros(#m))
    s.spin = {z = z, plus = plus}
    put(s, "Sz", z)
    put(s, "Sp", plus)
    put(s, "Sm", minus)
    put(s, "Sx", matrix.scale(matrix.add(plus, minus), 0.5))
    put(s, "iSy", matrix.scale(matrix.add(plus, minus, -1), 0.5))
    if util.is_integer(S) then
        local p = {}
        for q, v in ipairs(m) do p[q] = v % 2 == 0 and 1 or -1 end
        put(s, "P", matrix.diagonal(p))
    end
    return s
end

-- pauli(): spin 1/2 in Pauli units: sz, sx = s+ + s-, isy = i sy (real), sp, sm.
function space.pauli()
    local z, plus, minus = spin_matrices(0.5)
    local s = new("pauli", "spin", {"up", "dn"}, zeros(2))
    s.spin = {z = z, plus = plus}
    put(s, "sz", matrix.scale(z, 2))
    put(s, "sx", matrix.add(plus, minus))
    put(s, "isy", matrix.add(plus, minus, -1))
    put(s, "sp", plus)
    put(s, "sm", minus)
    return s
end

-- Fermions with these flavours: c_f, cdag_f, n_f for each, n, docc (pairs of particles), P = (-1)^n.
local function fermions(name, flavours)
    local count = #flavours
    local c = fermion.modes(count)
    local dim = 1 << count
    local states, parity = {}, {}
    for state = 0, dim - 1 do
        local label, particles = "", 0
        for f = 1, count do
            if (state >> (f - 1)) & 1 == 1 then
                label = label .. (count == 1 and "1" or flavours[f])
                particles = particles + 1
            end
        end
        states[state + 1] = particles == 0 and "0" or label
        parity[state + 1] = particles & 1
    end
    local s = new(name, "fermion", states, parity)
    s.flavour, s.family = flavours, {c = true, cdag = true, n = true}
    local n, docc = matrix.new(dim), matrix.new(dim)
    local number = {}
    for f = 1, count do
        local suffix = flavours[f] == "" and "" or "_" .. flavours[f]
        number[f] = matrix.multiply(matrix.transpose(c[f]), c[f])
        put(s, "c" .. suffix, c[f])
        put(s, "cdag" .. suffix, matrix.transpose(c[f]))
        if suffix ~= "" then put(s, "n" .. suffix, number[f]) end
        for g = 1, f - 1 do docc = matrix.add(docc, matrix.multiply(number[g], number[f])) end
        n = matrix.add(n, number[f])
    end
    put(s, "n", n)
    if count > 1 then put(s, "docc", docc) end
    local p = {}
    for q, odd in ipairs(parity) do p[q] = fermion.record(1, odd) end
    put(s, "P", matrix.diagonal(p))
    return s, c, number
end

-- fermion(): spinless; fermion{"a", "b", ...}: those flavours, modes in this order.
function space.fermion(flavours)
    if flavours == nil then
        local s = fermions("fermion", {""})
        s.family, s.flavour = nil, nil
        return s
    end
    if type(flavours) ~= "table" or #flavours == 0 then
        refuse("fermion{...} needs a list of flavours such as {\"up\", \"dn\"}; fermion() has none")
    end
    if #flavours > 8 then refuse("fermion{...} has %d flavours; at most 8 are possible", #flavours) end
    local seen = {}
    for p, f in ipairs(flavours) do
        if math.type(f) == "integer" then f = tostring(f) end
        if type(f) ~= "string" or not string.find(f, "^[%w_]+$") then
            refuse("flavour %d of fermion{...} must be a name of letters and digits", p)
        end
        if seen[f] then refuse("flavour '%s' is listed twice", f) end
        seen[f] = true
    end
    local list = {}
    for p, f in ipairs(flavours) do list[p] = tostring(f) end
    return (fermions("fermion{" .. table.concat(list, ",") .. "}", list))
end

-- electron(F): 2F+1 flavours, "up" and "dn" for F = 1/2, else 1, 2, ... from the largest projection down;
-- with Sz, and for F = 1/2 Sp, Sm.
function space.electron(F)
    if F == nil then F = 0.5 end
    check_spin(F, "the spin of the electrons")
    local count = math.tointeger(2 * F) + 1
    if count > 8 then
        refuse("electrons of spin %s have %d flavours; at most 8 are possible", util.fraction(F), count)
    end
    local flavours = {}
    for f = 1, count do flavours[f] = count == 2 and (f == 1 and "up" or "dn") or tostring(f) end
    local s, c, number = fermions(F == 0.5 and "electron" or string.format("electron(%s)", util.fraction(F)),
        flavours)
    s.kind = "electron"
    local z = matrix.new(s.dim)
    for f = 1, count do z = matrix.add(z, number[f], F + 1 - f) end
    put(s, "Sz", z)
    local plus = matrix.new(s.dim)
    for f = 2, count do -- raises the projection F + 1 - f
        local size = math.sqrt((f - 1) * (count - f + 1))
        plus = matrix.add(plus, matrix.multiply(matrix.transpose(c[f - 1]), c[f]), size)
    end
    if count == 2 then
        put(s, "Sp", plus)
        put(s, "Sm", matrix.transpose(plus))
    end
    s.spin = {z = z, plus = plus}
    return s
end

-- boson(n_max): occupations 0..n_max; b, bdag, n, P = (-1)^n, and top, the projector on n_max: reports tell
-- the weight there of every operator called top or top_PART, for it says what the cut-off costs.
function space.boson(n_max)
    if not util.is_integer(n_max) or n_max < 1 then
        refuse("boson(n_max) needs a whole number of at least 1, got %s", util.described(n_max))
    end
    local states, n, p = {}, {}, {}
    if n_max >= MAX_DIM then
        refuse("boson(%d) has %d states; at most %d are possible on one site", n_max, n_max + 1, MAX_DIM)
    end
    local lower = matrix.new(math.tointeger(n_max) + 1)
    for q = 0, n_max do
        q = math.tointeger(q)
        states[q + 1], n[q + 1], p[q + 1] = tostring(q), q, q % 2 == 0 and 1 or -1
        if q > 0 then matrix.set(lower, q - 1, q, math.sqrt(q)) end
    end
    local s = new(string.format("boson(%d)", math.tointeger(n_max)), "boson", states, zeros(#states))
    put(s, "b", lower)
    put(s, "bdag", matrix.transpose(lower))
    put(s, "n", matrix.diagonal(n))
    put(s, "P", matrix.diagonal(p))
    local top = matrix.new(#states)
    matrix.set(top, #states - 1, #states - 1, 1)
    put(s, "top", top)
    return s
end

-- product(A, B, ...): all operators of the parts. A name that several parts have gets its part's kind behind
-- it (Sz_electron, Sz_spin), or its number where the kinds are the same (Sz_1, Sz_2). Mode order: part by
-- part.
function space.product(...)
    local parts = {...}
    if #parts < 2 then refuse("product(...) needs at least two local spaces") end
    local names, count, kinds = {}, {}, {}
    local dim = 1
    for p, part in ipairs(parts) do
        if not space.is(part) then
            refuse("part %d of product(...) is not a local space such as spin(1/2) or electron()", p)
        end
        names[p] = part.name
        kinds[part.kind] = (kinds[part.kind] or 0) + 1
        dim = dim * part.dim
        for _, name in ipairs(part.order) do count[name] = (count[name] or 0) + 1 end
    end
    if dim > MAX_DIM then
        refuse("the product has %d states; at most %d are possible on one site", dim, MAX_DIM)
    end
    local states = {""}
    for p, part in ipairs(parts) do
        local longer = {}
        for _, before in ipairs(states) do
            for _, state in ipairs(part.state) do
                longer[#longer + 1] = p == 1 and state or before .. "." .. state
            end
        end
        states = longer
    end
    local s = new(string.format("product(%s)", table.concat(names, ", ")), "product", states,
        fermion.product_parity(parts))
    local flavoured = {}
    for p, part in ipairs(parts) do -- the total spin is the sum of theirs
        if part.spin then
            local z = fermion.embed(parts, p, part.spin.z, 0)
            local plus = fermion.embed(parts, p, part.spin.plus, 0)
            if s.spin then z, plus = matrix.add(s.spin.z, z), matrix.add(s.spin.plus, plus) end
            s.spin = {z = z, plus = plus}
        end
    end
    for p, part in ipairs(parts) do
        local tag = kinds[part.kind] > 1 and tostring(p) or part.kind
        for _, name in ipairs(part.order) do
            local full = count[name] > 1 and name .. "_" .. tag or name
            local m = part.op[name]
            if s.op[full] then refuse("the operator %s occurs twice in %s", full, s.name) end
            local odd, reason = space.parity_of(part, m)
            if not odd then refuse("the operator %s of %s %s", name, part.name, reason) end
            put(s, full, fermion.embed(parts, p, m, odd))
        end
        if part.family then flavoured[#flavoured + 1] = part end
    end
    if #flavoured == 1 then -- c(i, s) means those of the only part with flavours
        s.flavour, s.family = flavoured[1].flavour, {}
        for family in pairs(flavoured[1].family) do
            if s.op[family .. "_" .. s.flavour[1]] then s.family[family] = true end
        end
    end
    return s
end

-- without(A, "updn", ...): A without some of its states, operators cut to what is left.
function space.without(base, ...)
    if not space.is(base) then
        refuse("without(...) needs a local space first, as in without(electron(), \"updn\")")
    end
    local drop = {}
    for _, name in ipairs({...}) do
        local known
        for _, state in ipairs(base.state) do known = known or state == name end
        if not known then
            refuse("%s has no state '%s'%s", base.name, tostring(name),
                util.hint(tostring(name), base.state, "states"))
        end
        drop[name] = true
    end
    if next(drop) == nil then refuse("without(...) needs the name of a state to leave out") end
    local place, states, parity, left = {}, {}, {}, {}
    for p, state in ipairs(base.state) do
        if drop[state] then
            left[#left + 1] = state
        else
            place[p - 1] = #states
            states[#states + 1] = state
            parity[#parity + 1] = base.parity[p]
        end
    end
    if #states < 2 then refuse("%s would keep %d states; at least 2 are needed", base.name, #states) end
    local s = new(string.format("%s without %s", base.name, table.concat(left, ", ")), base.kind, states,
        parity)
    s.flavour, s.family = base.flavour, base.family
    local function cut(whole)
        local m = matrix.new(#states)
        for _, el in ipairs(matrix.elements(whole)) do
            if place[el[1]] and place[el[2]] then matrix.set(m, place[el[1]], place[el[2]], el[3]) end
        end
        return m
    end
    for _, name in ipairs(base.order) do put(s, name, cut(base.op[name])) end
    if base.spin then s.spin = {z = cut(base.spin.z), plus = cut(base.spin.plus)} end
    return s
end

-- The matrices that spin = {"Sz", "Sp"} names: a spin by its commutators.
local function named_spin(s, names)
    if type(names) ~= "table" or #names ~= 2 then
        refuse('spin must name the matrices of Sz and S+, as in spin = {"Sz", "Sp"}')
    end
    for _, name in ipairs(names) do
        if not s.op[name] then
            refuse("spin names the matrix '%s', which is not there%s", tostring(name),
                util.hint(tostring(name), s.order, "matrices"))
        end
    end
    local z, plus = s.op[names[1]], s.op[names[2]]
    local minus = matrix.transpose(plus)
    local function commutator(a, b) return matrix.add(matrix.multiply(a, b), matrix.multiply(b, a), -1) end
    local function differ(a, b)
        local most = 0
        for _, v in pairs(matrix.add(a, b, -1).e) do most = math.max(most, math.abs(v)) end
        return most > 1e-12
    end
    for _, el in ipairs(matrix.elements(z)) do
        if el[1] ~= el[2] then refuse("spin: %s must be diagonal", names[1]) end
    end
    if differ(commutator(z, plus), plus) or differ(commutator(plus, minus), matrix.scale(z, 2)) then
        refuse("spin: %s and %s are not Sz and S+ of a spin: [Sz, S+] = S+ and [S+, S-] = 2 Sz must hold",
            names[1], names[2])
    end
    return {z = z, plus = plus}
end

-- matrices{ states = {...}, odd = {...}, spin = {"Sz", "Sp"}, NAME = {{...}, ...}, ... }: rows of numbers;
-- odd lists the states of odd fermion parity, spin names two of the matrices. `order` is the order of the
-- names in the file.
function space.matrices(t, order)
    if type(t) ~= "table" then refuse("matrices{...} needs states and operators") end
    local states = t.states
    if type(states) ~= "table" or #states < 2 then
        refuse("matrices{...} needs states = {\"a\", \"b\", ...}, at least two")
    end
    local at, parity, list = {}, {}, {}
    for p, state in ipairs(states) do
        state = math.type(state) == "integer" and tostring(state) or state
        if type(state) ~= "string" or not string.find(state, "^[%w_+%-./]+$") then
            refuse("state %d of matrices{...} must be a name of letters and digits", p)
        end
        if at[state] then refuse("state '%s' is listed twice", state) end
        at[state], parity[p], list[p] = p, 0, state
    end
    if t.odd ~= nil then
        if type(t.odd) ~= "table" then
            refuse("odd must list the states of odd fermion parity, as in odd = {\"1\"}")
        end
        for _, state in ipairs(t.odd) do
            if not at[tostring(state)] then
                refuse("odd names the state '%s', which is not in states%s", tostring(state),
                    util.hint(tostring(state), list, "states"))
            end
            parity[at[tostring(state)]] = 1
        end
    end
    local s = new("matrices", "matrices", list, parity)
    for _, name in ipairs(order) do
        if name ~= "states" and name ~= "odd" and name ~= "spin" then
            local rows = t[name]
            if name == "I" then refuse("the identity I is always there and cannot be redefined") end
            if type(rows) ~= "table" or #rows ~= s.dim then
                refuse("the matrix %s needs %d rows, got %s", name, s.dim,
                    type(rows) == "table" and tostring(#rows) or type(rows))
            end
            local m = matrix.new(s.dim)
            for p, row in ipairs(rows) do
                if type(row) ~= "table" or #row ~= s.dim then
                    refuse("row %d of the matrix %s needs %d numbers, got %s", p, name, s.dim,
                        type(row) == "table" and tostring(#row) or type(row))
                end
                for q, v in ipairs(row) do
                    if type(v) ~= "number" or not util.is_finite(v) then
                        refuse("element (%d, %d) of the matrix %s must be a real number", p, q, name)
                    end
                    matrix.set(m, p - 1, q - 1, v + 0.0)
                end
            end
            if matrix.is_zero(m) then refuse("the matrix %s is zero", name) end
            local odd, reason = space.parity_of(s, m)
            if not odd then refuse("the matrix %s %s", name, reason) end
            put(s, name, m)
        end
    end
    if #s.order == 0 then refuse("matrices{...} has no operator") end
    s.explicit = true
    if t.spin ~= nil then s.spin = named_spin(s, t.spin) end
    return s
end

-- 0 or 1, or nil and the reason.
function space.parity_of(s, m)
    local odd
    for _, el in ipairs(matrix.elements(m)) do
        local p = s.parity[el[1] + 1] ~ s.parity[el[2] + 1]
        if odd and p ~= odd then
            return nil, string.format(
                "has no definite fermion parity: it joins states of the same and of different parity (%s and %s)",
                s.state[el[2] + 1], s.state[el[1] + 1])
        end
        odd = p
    end
    return odd or 0
end

return space
