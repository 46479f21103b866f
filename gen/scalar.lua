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
local MAX_PICKS = 1 << 20

-- 1. Charges --------------------------------------------------------------------------------------

-- By how much S+ changes charge c of a type; nil where it changes it by several amounts.
local function change_of(t, c)
    local change
    for _, el in ipairs(matrix.elements(t.space.spin.plus)) do
        local here = t.charge[el[1] + 1][c] - t.charge[el[2] + 1][c]
        if change and change ~= here then return nil end
        change = here
    end
    return change or 0
end

-- "N" of "N_up" and "N_dn".
local function common_name(a, b)
    local p, q = string.match(a, "^(.*)_[^_]*$"), string.match(b, "^(.*)_[^_]*$")
    return p and p == q and p or a .. "+" .. b
end

-- Charges that are scalars: list of {name, of = {places}, ...}. What S+ changes goes, or the sum of two
-- stays.
local function scalar_charges(out, t, line)
    local kept, moving = {}, {}
    for c, charge in ipairs(out.charges) do
        local change = change_of(t, c)
        if not change or (change ~= 0 and charge.modulus > 0) then
            refuse_at(line, "the charge %s does not go with the total spin S; drop it from conserve",
                charge.name)
        end
        if change == 0 then kept[#kept + 1] = {charge = charge, of = {c}}
        else moving[#moving + 1] = {c = c, change = change} end
    end
    if #moving == 2 and moving[1].change == -moving[2].change then
        local a, b = out.charges[moving[1].c], out.charges[moving[2].c]
        if a.num ~= b.num or a.den ~= b.den then
            refuse_at(line, "the charges %s and %s have no sum in one unit, which S would need", a.name,
                b.name)
        end
        local name = common_name(a.name, b.name)
        local sum = {name = name, modulus = 0, num = a.num, den = a.den, odd = a.odd | b.odd}
        table.insert(kept, 1, {charge = sum, of = {moving[1].c, moving[2].c}})
    elseif #moving > 1 then
        refuse_at(line, "the charges %s and %s both change with the total spin S; drop one from conserve",
            out.charges[moving[1].c].name, out.charges[moving[2].c].name)
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

-- Factors of a product and of its adjoint, as matrices by slot, with the number in front.
local function products_of(t, e)
    local plain = {by = {}, name = {}, factor = 1}
    for _, f in ipairs(e.factors) do
        local op, before = t.op[f.op[1]], plain.by[f.slot]
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

-- Adds number * product to the group's tensors, under the place of the coefficient.
local function add_product(group, site, product, number, base, line)
    local lists, count = {}, 1
    for slot = 1, group.nslot do
        local m = product.by[slot]
        lists[slot] = m and components(site, m, product.name[slot]) or {{op = IDENTITY, f = 1, q = 0}}
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

local function gather(out, site, t)
    local groups, at = {}, {}
    for _, e in ipairs(out.terms) do
        local key = placement(e.st)
        local group = at[key]
        if not group then
            group = {nslot = e.st.nslot, at = {}, list = {}, base = {}, base_at = {}, size = {}, st = e.st}
            at[key] = group
            groups[#groups + 1] = group
        end
        local text = e.coef.tree and algebra.coef_text(algebra.unit(e.coef)) or ""
        if not group.base_at[text] then
            group.base[#group.base + 1] = {coef = algebra.unit(e.coef), first = e}
            group.base_at[text] = #group.base
        end
        for _, product in ipairs(products_of(t, e)) do
            add_product(group, site, product, e.coef.c, group.base_at[text], e.line)
        end
    end
    return groups
end

-- 3. Scalars --------------------------------------------------------------------------------------

-- All ways to couple the ranks one by one to 0: lists of the ranks on the way.
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
    local closed = {}
    for _, path in ipairs(paths) do
        if path[#path] == 0 then closed[#closed + 1] = path end
    end
    return closed
end

-- The unit tensor of a path: list of {key, f}, the squares of f sum up to 1.
local function unit_tensor(ranks, path)
    local list, q = {}, {}
    local function go(p, m, f)
        if p > #ranks then
            if m == 0 then list[#list + 1] = {key = table.concat(q, " "), f = f} end
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

-- The sum of what is known by place of a coefficient, as one coefficient.
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

local function string_text(coef, site, ops)
    local names = {}
    for slot, op in ipairs(ops) do
        local name = string.format("%s(%s)", site.op[op].name, algebra.slot_name(slot))
        if op ~= IDENTITY then names[#names + 1] = name end
    end
    local front = algebra.coef_text(coef, #names > 0 and 2 or 0)
    if #names == 0 then return front end
    return front .. " * [" .. table.concat(names, "*") .. "]"
end

local function add_string(result, group, site, ops, path, coef, first)
    local factors, ranks = {}, {}
    for slot, op in ipairs(ops) do
        if op ~= IDENTITY then
            factors[#factors + 1] = {slot = slot, op = {op}}
            ranks[#ranks + 1] = path[slot]
        end
    end
    if #factors == 0 then factors, ranks = {{slot = 1, op = {IDENTITY}}}, {0} end
    result.terms[#result.terms + 1] = {
        st = group.st, coef = coef, factors = factors, ranks = ranks, hc = false,
        text = string_text(coef, site, ops), line = first.line,
    }
end

-- Takes the scalars out of a tensor: its entries become what is left.
local function take_scalars(result, group, site, tensor)
    local ranks = {}
    for slot, op in ipairs(tensor.ops) do ranks[slot] = site.op[op].k end
    for _, path in ipairs(paths_of(ranks)) do
        local unit, v = unit_tensor(ranks, path), {}
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
            add_string(result, group, site, tensor.ops, path, coef, first)
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

-- What is left: a refusal, or a check.
local function check_rest(result, group, entry, seen)
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
    if not coef.tree then
        refuse_at(source.line, "%s is not a scalar of the total spin; leave out S and give the "
            .. "charges that the model names", source.text)
    end
    local text = string.format("%s is not a scalar of the total spin unless %s = 0", source.text,
        algebra.coef_text(coef))
    result.terms[#result.terms + 1] = {
        st = group.st, coef = coef, factors = {{slot = 1, op = {IDENTITY}}}, ranks = {0}, hc = false,
        check = true, line = source.line, text = text,
    }
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

local function scalar_model(out)
    local t = out.types[1]
    if #out.types > 1 then
        refuse_at(out.types[2].line, "a model with several kinds of site cannot have the total spin S yet; "
            .. "leave out S")
    end
    if not t.space.spin then
        refuse_at(t.line, "%s has no total spin (no Sz and S+ that belong to it); leave out S", t.name)
    end
    local kept = scalar_charges(out, t, t.line)
    local site = irreducible.site(describe_type(out, t, kept), t.space.spin)
    local result = {types = {}, charges = {}, terms = {}, params = out.params, kept = {}, spin = true}
    for c, k in ipairs(kept) do result.charges[c] = k.charge end
    result.charges[#result.charges + 1] = {name = "S", modulus = 0, num = 1, den = 2, odd = 0, spin = true}
    for _, group in ipairs(gather(out, site, t)) do
        local seen = {}
        for _, tensor in ipairs(group.list) do take_scalars(result, group, site, tensor) end
        for _, tensor in ipairs(group.list) do
            for _, entry in ipairs(tensor.list) do check_rest(result, group, entry, seen) end
        end
    end
    local some = false
    for _, e in ipairs(result.terms) do some = some or not e.check end
    if not some then refuse_at(t.line, "no term is a scalar of the total spin; leave out S") end
    local zero = {}
    for c = 1, #result.charges do zero[c] = 0 end
    result.kept[1] = {name = "1", shift = zero, odd = 0, adjoint = 1, adjoint_factor = 1}
    result.types[1] = step_type(site, t, #result.charges)
    result.site = site
    return result
end

-- out: of lower.model.
function scalar.model(text, out) return util.bounded(text, util.LONG_STEPS, scalar_model, out) end

return scalar
