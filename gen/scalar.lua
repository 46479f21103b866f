-- The model with the total spin as a charge: from the tables of lower.lua to multiplets, irreducible
-- operators and strings of them that are coupled to scalars, from left to right. What of a term is no
-- scalar must vanish: at once, where that is known here, else it becomes a check on the coefficients when
-- they have values.
-- SPDX-License-Identifier: Apache-2.0
local util = require("util")
local algebra = require("algebra")
local matrix = require("matrix")
local lower = require("lower")
local irreducible = require("irreducible")
local wigner = require("wigner")

local scalar = {}
local refuse_at = util.refuse_at
local NOISE, IDENTITY = 1e-12, 1
local MAX_PICKS, MAX_GROUPS = 1 << 20, 1 << 12

-- 1. Charges --------------------------------------------------------------------------------------

-- By how much S+ changes charge c: list of the amounts, over all kinds of site.
local function changes_of(out, c)
    local list, seen = {}, {}
    for _, t in ipairs(out.types) do
        for _, el in ipairs(t.space.spin and matrix.elements(t.space.spin.plus) or {}) do
            local change = t.charge[el[1] + 1][c] - t.charge[el[2] + 1][c]
            if not seen[change] then list[#list + 1] = change end
            seen[change] = true
        end
    end
    return list
end

-- "N" of "N_up" and "N_dn".
local function common_name(list)
    local first = string.match(list[1].name, "^(.*)_[^_]*$")
    local names = {}
    for p, charge in ipairs(list) do
        names[p] = charge.name
        if string.match(charge.name, "^(.*)_[^_]*$") ~= first then first = nil end
    end
    return first or table.concat(names, "+")
end

-- Whether S+ leaves the sum of these charges as it is.
local function sum_stays(out, moving)
    for _, t in ipairs(out.types) do
        for _, el in ipairs(t.space.spin and matrix.elements(t.space.spin.plus) or {}) do
            local sum = 0
            for _, c in ipairs(moving) do sum = sum + t.charge[el[1] + 1][c] - t.charge[el[2] + 1][c] end
            if sum ~= 0 then return false end
        end
    end
    return true
end

-- The sum of charges that S+ moves.
local function sum_of(out, moving, line)
    local list, sum = {}, {modulus = 0, odd = 0}
    for p, c in ipairs(moving) do
        local charge = out.charges[c]
        list[p], sum.odd = charge, sum.odd | charge.odd
        sum.num, sum.den = sum.num or charge.num, sum.den or charge.den
        if charge.num ~= sum.num or charge.den ~= sum.den then
            refuse_at(line, "the charges %s and %s have no sum in one unit, which S would need",
                list[1].name, charge.name)
        end
    end
    sum.name = common_name(list)
    return {charge = sum, of = moving}
end

-- Charges that are scalars: list of {charge, of = {indices}}. What S+ moves goes, or the sum of several
-- stays.
local function scalar_charges(out, line)
    local kept, moving, indefinite = {}, {}, nil
    for c, charge in ipairs(out.charges) do
        local changes = changes_of(out, c)
        local moves = #changes > 1 or (changes[1] or 0) ~= 0
        if moves and charge.modulus > 0 then
            refuse_at(line, "the charge %s does not go with the total spin S; drop it from conserve",
                charge.name)
        end
        if not moves then kept[#kept + 1] = {charge = charge, of = {c}} else moving[#moving + 1] = c end
        if #changes > 1 then indefinite = charge end
    end
    if #moving > 1 and sum_stays(out, moving) then
        table.insert(kept, 1, sum_of(out, moving, line))
    elseif #moving > 1 then
        refuse_at(line, "the charges %s and %s both change with the total spin S; drop one from conserve",
            out.charges[moving[1]].name, out.charges[moving[2]].name)
    elseif indefinite then
        refuse_at(line, "the charge %s does not go with the total spin S; drop it from conserve",
            indefinite.name)
    end
    for _, k in ipairs(kept) do
        if k.charge.name == "S" then refuse_at(line, "a charge has the total spin's name, S") end
    end
    return kept
end

local function describe_type(out, t, kept)
    local given = {name = t.name, line = t.line, dim = t.dim, scalar = {}, odd = {}}
    for c, k in ipairs(kept) do given.odd[c] = k.charge.odd end
    for state = 1, t.dim do
        local values, sum = {}, 0
        for c, k in ipairs(kept) do
            local v = 0
            for _, place in ipairs(k.of) do v = v + t.charge[state][place] end
            if k.charge.modulus > 0 then v = v % k.charge.modulus end
            values[c], sum = v, sum + k.charge.odd * v
        end
        if sum % 2 ~= t.space.parity[state] then
            refuse_at(t.line, "%s: the parity of fermions does not follow from the charges that go with S",
                t.name)
        end
        given.scalar[state] = values
    end
    return given
end

-- 2. Terms as tensors -----------------------------------------------------------------------------

local function placement(st)
    local sites = table.concat(st.sites or {}, "\0")
    return table.concat({st.place, st.where or "", tostring(st.distance), st.nslot, sites}, "\1")
end

-- Factors of a product and of its adjoint, as matrices by slot, with the number in front; nil where a kind of
-- site lacks one of them.
local function products_of(out, e, kinds)
    local plain = {by = {}, name = {}, factor = 1}
    for _, f in ipairs(e.factors) do
        local t, place = out.types[kinds[f.slot]], f.op[kinds[f.slot]]
        if place == lower.NONE then return nil end
        local op, before = t.op[place], plain.by[f.slot]
        plain.by[f.slot] = before and matrix.multiply(before, op.m, e.line) or op.m
        plain.name[f.slot] = plain.name[f.slot] or op.name
    end
    if not e.hc then return {plain} end
    local odd, turned = 0, {by = {}, factor = 1, name = plain.name}
    for _, f in ipairs(e.factors) do
        if f.odd == 1 then odd = odd + 1 end
        turned.by[f.slot] = matrix.transpose(plain.by[f.slot])
    end
    turned.factor = odd * (odd - 1) // 2 % 2 == 0 and 1 or -1 -- its fermionic factors are in the other order
    return {plain, turned}
end

-- {op, f, q} of a site matrix.
local function components(site, m, name)
    local list = {}
    for _, part in ipairs(irreducible.parts(site, m)) do
        for _, x in ipairs(irreducible.expand(site, part.m, part.k, part.shift, name)) do
            list[#list + 1] = {op = x.op, f = x.f, q = part.q}
        end
    end
    return list
end

-- Adds number * product to the group's tensors, under the index of the coefficient.
local function add_product(group, sites, product, number, base, line)
    local lists, count = {}, 1
    for slot = 1, group.nslot do
        local m = product.by[slot]
        lists[slot] = m and components(sites[group.kinds[slot]], m, product.name[slot])
            or {{op = IDENTITY, f = 1, q = 0}}
        count = count * math.max(1, #lists[slot])
    end
    if count > MAX_PICKS then
        refuse_at(line, "a term has more than %d components of the total spin; use fewer factors", MAX_PICKS)
    end
    local ops, q = {}, {}
    local function pick(slot, v)
        if slot > group.nslot then
            local key, component = table.concat(ops, " "), table.concat(q, " ")
            local tensor = group.at[key]
            if not tensor then
                tensor = {ops = {table.unpack(ops)}, at = {}, list = {}}
                group.at[key] = tensor
                group.list[#group.list + 1] = tensor
            end
            local entry = tensor.at[component]
            if not entry then
                entry = {v = {}}
                tensor.at[component] = entry
                tensor.list[#tensor.list + 1] = entry
            end
            entry.v[base] = (entry.v[base] or 0) + v
            group.size[base] = math.max(group.size[base] or 0, math.abs(v))
            return
        end
        for _, x in ipairs(lists[slot]) do
            ops[slot], q[slot] = x.op, x.q
            pick(slot + 1, v * x.f)
        end
    end
    pick(1, number * product.factor)
end

-- Terms by placement: {st, nslot, acts = {[slot] = true}, list}.
local function placements(out)
    local list, at = {}, {}
    for _, e in ipairs(out.terms) do
        local key = placement(e.st)
        local p = at[key]
        if not p then
            p = {st = e.st, nslot = e.st.nslot, acts = {}, list = {}}
            at[key] = p
            list[#list + 1] = p
        end
        p.list[#p.list + 1] = e
        for _, f in ipairs(e.factors) do p.acts[f.slot] = true end
    end
    return list
end

-- One group for every way in which kinds of site can meet: kinds[slot], of the slots that something acts on.
local function groups_of(out, p)
    local groups = {{}}
    for slot = 1, p.nslot do
        local longer = {}
        for _, kinds in ipairs(groups) do
            for kind = 1, p.acts[slot] and #out.types or 0 do
                local copy = table.move(kinds, 1, p.nslot, 1, {})
                copy[slot] = kind
                longer[#longer + 1] = copy
            end
        end
        if #longer > MAX_GROUPS then
            refuse_at(p.st.line, "kinds of site can meet here in more than %d ways; use fewer with S",
                MAX_GROUPS)
        end
        if #longer > 0 then groups = longer end
    end
    return groups
end

local function gather(out, sites, p, kinds)
    local group = {
        nslot = p.nslot, at = {}, list = {}, base = {}, base_at = {}, size = {}, st = p.st, kinds = kinds,
        ntype = #out.types, sites = sites,
    }
    for _, e in ipairs(p.list) do
        local text = e.coef.tree and algebra.coef_text(algebra.unit(e.coef)) or ""
        if not group.base_at[text] then
            group.base[#group.base + 1] = {coef = algebra.unit(e.coef), first = e}
            group.base_at[text] = #group.base
        end
        for _, product in ipairs(products_of(out, e, kinds) or {}) do
            add_product(group, sites, product, e.coef.c, group.base_at[text], e.line)
        end
    end
    return group
end

-- 3. Scalars --------------------------------------------------------------------------------------

-- All ways to couple the ranks one by one: lists of the ranks on the way.
local function paths_of(ranks)
    local paths = {{ranks[1]}}
    for p = 2, #ranks do
        local longer = {}
        for _, path in ipairs(paths) do
            local last = path[#path]
            for k = math.abs(last - ranks[p]), last + ranks[p], 2 do
                local copy = table.move(path, 1, #path, 1, {})
                copy[p] = k
                longer[#longer + 1] = copy
            end
        end
        paths = longer
    end
    return paths
end

local function scalar_paths(ranks)
    local closed = {}
    for _, path in ipairs(paths_of(ranks)) do
        if path[#path] == 0 then closed[#closed + 1] = path end
    end
    return closed
end

-- The unit tensor of a path and a component of its last rank: list of {key, f}, the squares of f sum up to 1.
local function unit_tensor(ranks, path, total)
    local list, q = {}, {}
    local function go(p, m, f)
        if p > #ranks then
            if m == total then list[#list + 1] = {key = table.concat(q, " "), f = f} end
            return
        end
        for x = -ranks[p], ranks[p], 2 do
            local g = p == 1 and 1 or wigner.cg(path[p - 1], m, ranks[p], x, path[p], m + x)
            if g ~= 0 then
                q[p] = x
                go(p + 1, m + x, f * g)
            end
        end
    end
    go(1, 0, 1)
    return list
end

-- The sum of what is known by index of a coefficient, as one coefficient.
local function coefficient(group, v)
    local sum
    for base = 1, #group.base do
        if v[base] and math.abs(v[base]) > 1e-13 * group.size[base] then
            local part = algebra.coef_mul(algebra.number(v[base]), group.base[base].coef)
            sum = sum and algebra.coef_add(sum, part) or part
        end
    end
    return sum
end

local function string_text(coef, group, ops)
    local names = {}
    for slot, op in ipairs(ops) do
        local site = group.sites[group.kinds[slot] or 1]
        local name = string.format("%s(%s)", site.op[op].name, algebra.slot_name(slot))
        if op ~= IDENTITY then names[#names + 1] = name end
    end
    local front = algebra.coef_text(coef, #names > 0 and 2 or 0)
    if #names == 0 then return front end
    return front .. " * [" .. table.concat(names, "*") .. "]"
end

-- An operator of one kind of site; sites of other kinds do not fit.
local function factor_of(group, slot, op)
    local list = {}
    for t = 1, group.ntype do list[t] = t == group.kinds[slot] and op or lower.NONE end
    return {slot = slot, op = list}
end

-- Factors and ranks of a string; with several kinds of site, identities say where the others must be.
local function factors_of(group, ops, path)
    local factors, ranks = {}, {}
    for slot = 1, group.nslot do
        local op = ops[slot] or IDENTITY
        if op ~= IDENTITY or (group.ntype > 1 and group.kinds[slot]) then
            factors[#factors + 1] = factor_of(group, slot, op)
            ranks[#ranks + 1] = path[slot] or 0
        end
    end
    if #factors > 0 then return factors, ranks end
    local any = {}
    for t = 1, group.ntype do any[t] = IDENTITY end
    return {{slot = 1, op = any}}, {0}
end

local function add_string(result, group, ops, path, coef, first)
    local factors, ranks = factors_of(group, ops, path)
    result.terms[#result.terms + 1] = {
        st = group.st, coef = coef, factors = factors, ranks = ranks, hc = false,
        text = string_text(coef, group, ops), line = first.line,
    }
end

-- Takes the scalars out of a tensor: its entries become what is left.
local function take_scalars(result, group, tensor)
    local ranks = {}
    for slot, op in ipairs(tensor.ops) do ranks[slot] = group.sites[group.kinds[slot] or 1].op[op].k end
    tensor.ranks = ranks
    for _, path in ipairs(scalar_paths(ranks)) do
        local unit, v = unit_tensor(ranks, path, 0), {}
        for _, u in ipairs(unit) do
            local entry = tensor.at[u.key]
            for base, x in pairs(entry and entry.v or {}) do v[base] = (v[base] or 0) + u.f * x end
        end
        for _, u in ipairs(unit) do
            local entry = tensor.at[u.key]
            if not entry then
                entry = {v = {}}
                tensor.at[u.key] = entry
                tensor.list[#tensor.list + 1] = entry
            end
            for base, x in pairs(v) do entry.v[base] = (entry.v[base] or 0) - u.f * x end
        end
        local coef, first = coefficient(group, v), nil
        for base = #group.base, 1, -1 do
            local seen = v[base] and math.abs(v[base]) > 1e-13 * group.size[base]
            if seen then first = group.base[base].first end
        end
        if coef and coef.c ~= 0 and not lower.vanishes(coef) then
            add_string(result, group, tensor.ops, path, coef, first)
            tensor.scalar = true
        end
    end
end

-- Numbers in proportion to the first, those next to small fractions as these.
local function rounded(v, n, most)
    local first, out = nil, {}
    for base = 1, n do
        if v[base] then
            first = first or (v[base] < 0 and -most or most)
            local x = v[base] / first
            local near = math.floor(24 * x + 0.5) / 24
            out[base] = near ~= 0 and math.abs(x - near) < 1e-12 and near or x
        end
    end
    return out
end

local function vector_name(k)
    return k == 2 and "a vector" or string.format("a tensor of rank %s", util.fraction(k / 2))
end

-- What a tensor without its scalars is: "the 0 component of a vector".
local function kind_of(group, tensor)
    local ranks, places, seen = {}, {}, {}
    for _, path in ipairs(paths_of(tensor.ranks)) do
        local k = path[#path]
        for m = -k, k, 2 do
            local sum = {}
            for _, u in ipairs(unit_tensor(tensor.ranks, path, m)) do
                local entry = tensor.at[u.key]
                for base, x in pairs(entry and entry.v or {}) do sum[base] = (sum[base] or 0) + u.f * x end
            end
            for base, x in pairs(sum) do
                local some = math.abs(x) > NOISE * group.size[base]
                if some and not seen[k] then ranks[#ranks + 1] = k end
                if some and not seen[k .. " " .. m] then places[#places + 1] = m end
                if some then seen[k], seen[k .. " " .. m] = true, true end
            end
        end
    end
    if #ranks == 0 then return "no scalar" end
    if #places == 1 then
        return string.format("the %s component of %s", util.fraction(places[1] / 2), vector_name(ranks[1]))
    end
    local names = {}
    table.sort(ranks)
    for p, k in ipairs(ranks) do names[p] = vector_name(k) end
    return "made of components of " .. table.concat(names, " and of ")
end

-- What is left: a refusal, or a check.
local function check_rest(result, group, tensor, entry, seen)
    local v, most, source = {}, 0, nil
    for base = 1, #group.base do
        local x = entry.v[base]
        if x and math.abs(x) > NOISE * group.size[base] then
            v[base] = x
            if math.abs(x) >= most * (1 - 1e-9) then most, source = math.abs(x), group.base[base].first end
        end
    end
    local coef = coefficient(group, v)
    if not coef or lower.vanishes(coef) then return end
    coef = coefficient(group, rounded(v, #group.base, most))
    for _, other in ipairs(seen) do
        local minus = algebra.coef_mul(algebra.number(-1), other)
        if lower.same_value(other, coef) or lower.same_value(minus, coef) then return end
    end
    seen[#seen + 1] = coef
    local what = string.format(tensor.scalar and "what is left of %s beside its scalar is %s" or "%s is %s",
        source.text, kind_of(group, tensor))
    if not coef.tree then
        refuse_at(source.line, "%s; leave out S and give the charges that the model names", what)
    end
    local factors, ranks = factors_of(group, {}, {})
    result.terms[#result.terms + 1] = {
        st = group.st, coef = coef, factors = factors, ranks = ranks, hc = false, check = true,
        line = source.line,
        text = string.format("%s; with %s = 0, or without S", what, algebra.coef_text(coef)),
    }
end

-- A kind of site that lacks an operator of a term must not be where the term is.
local function check_missing(result, out, e)
    for _, f in ipairs(e.factors) do
        local lacking, name, op = {}, nil, {}
        for t, type_ in ipairs(out.types) do
            op[t] = f.op[t] == lower.NONE and IDENTITY or lower.NONE
            if f.op[t] == lower.NONE then lacking[#lacking + 1] = type_.name
            else name = name or type_.op[f.op[t]].name end
        end
        if #lacking > 0 then
            result.terms[#result.terms + 1] = {
                st = e.st, coef = e.coef, factors = {{slot = f.slot, op = op}}, ranks = {0}, hc = false,
                check = true, line = e.line,
                text = string.format("%s needs %s on site %s, which %s lacks", e.text, name,
                    algebra.slot_name(f.slot), table.concat(lacking, " or ")),
            }
        end
    end
end

-- 4. Tables ---------------------------------------------------------------------------------------

local function step_type(site, t, ncharge)
    local n, dim = #site.mult, #site.step
    local v = {
        name = t.name, where = t.where, line = t.line, dim = dim, state = {}, charge = {}, op = {},
        table = {}, spin = {}, other = {}, vector = {},
    }
    for s, step in ipairs(site.step) do
        local mult = site.mult[step.mult]
        v.state[s] = string.format("%d:%s", step.mult - 1, util.fraction(step.d / 2))
        v.charge[s] = table.move(mult.q, 1, #mult.q, 1, {})
        v.charge[s][ncharge] = step.d
        v.spin[s] = mult.j
        v.other[s] = s - step.d - 1
        v.vector[s] = site.column[site.at[step.mult] + (mult.j - step.d) // 2 + 1]
    end
    for p, op in ipairs(site.op) do
        local m = matrix.new(dim)
        for r, row in ipairs(site.step) do
            for c, col in ipairs(site.step) do
                local x = op.m[(row.mult - 1) * n + col.mult]
                if x ~= 0 then matrix.set(m, r - 1, c - 1, x) end
            end
        end
        local shift = table.move(op.shift, 1, #op.shift, 1, {})
        shift[ncharge] = 0
        v.op[p] = {
            name = op.name, m = m, shift = shift, odd = op.odd, named = false, rank = op.k,
            adjoint = op.adjoint, adjoint_factor = op.factor,
        }
    end
    return v
end

-- Sites without any spin, such as bosons, have multiplets of one state.
local function spin_of(t)
    return t.space.spin or {z = matrix.new(t.dim), plus = matrix.new(t.dim)}
end

local function check_spin(out)
    for _, t in ipairs(out.types) do
        if t.space.spin then return end
    end
    local t = out.types[1]
    refuse_at(t.line, "%s has no total spin (no Sz and S+ that belong to it); leave out S", t.name)
end

local function scalar_model(out)
    check_spin(out)
    local line = out.types[1].line
    local kept, sites = scalar_charges(out, line), {}
    local result = {types = {}, charges = {}, terms = {}, params = out.params, kept = {}, spin = true}
    for p, t in ipairs(out.types) do
        sites[p] = irreducible.site(describe_type(out, t, kept), spin_of(t))
    end
    for c, k in ipairs(kept) do result.charges[c] = k.charge end
    result.charges[#result.charges + 1] = {name = "S", modulus = 0, num = 1, den = 2, odd = 0, spin = true}
    for _, p in ipairs(placements(out)) do
        for _, kinds in ipairs(groups_of(out, p)) do
            local group, seen = gather(out, sites, p, kinds), {}
            for _, tensor in ipairs(group.list) do take_scalars(result, group, tensor) end
            for _, tensor in ipairs(group.list) do
                for _, entry in ipairs(tensor.list) do check_rest(result, group, tensor, entry, seen) end
            end
        end
        for _, e in ipairs(p.list) do check_missing(result, out, e) end
    end
    local some = false
    for _, e in ipairs(result.terms) do some = some or not e.check end
    if not some then refuse_at(line, "no term is a scalar of the total spin; leave out S") end
    local zero = {}
    for c = 1, #result.charges do zero[c] = 0 end
    result.kept[1] = {name = "1", shift = zero, odd = 0, adjoint = 1, adjoint_factor = 1}
    for p, t in ipairs(out.types) do result.types[p] = step_type(sites[p], t, #result.charges) end
    result.sites = sites
    return result
end

-- out: of lower.model.
function scalar.model(text, out) return util.bounded(text, util.LONG_STEPS, scalar_model, out) end

return scalar
