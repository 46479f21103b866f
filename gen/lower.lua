-- From the model as written to tables: terms and their symbolic records, over the charges of charges.lua and
-- the operators of siteops.lua. Checks what a Hamiltonian must obey. Signs come from fermion.lua only.
-- SPDX-License-Identifier: Apache-2.0
local util = require("util")
local algebra = require("algebra")
local matrix = require("matrix")
local fermion = require("fermion")
local charges = require("charges")
local siteops = require("siteops")

local lower = {}
local refuse_at = util.refuse_at

local MAX_FACTOR, MAX_TERMS, MAX_RECORDS = 8, 100000, 1 << 20
local IDENTITY, ZERO, NONE = siteops.IDENTITY, siteops.ZERO, "none"

-- 1. Terms --------------------------------------------------------------------------------------------------

-- A lowered factor is {slot, op = {index or NONE per type}, odd}. A lowered product has coef, factors and is
-- zero where factors is nil.

local function each_assignment(out, slots, visit) -- all choices of a type for every slot
    local chosen = {}
    local function go(p)
        if p > #slots then return visit(chosen) end
        for t = 1, #out.types do
            chosen[slots[p]] = t
            go(p + 1)
        end
    end
    go(1)
end

local function slots_of(factors)
    local seen, list = {}, {}
    for _, f in ipairs(factors) do
        if not seen[f.slot] then seen[f.slot] = true; list[#list + 1] = f.slot end
    end
    table.sort(list)
    return list
end

local function factor_name(out, f)
    for p, t in ipairs(out.types) do
        if f.op[p] ~= NONE then return t.op[f.op[p]].name end
    end
end
local function product_text(out, m)
    local parts = {}
    for p, f in ipairs(m.factors) do
        local name = factor_name(out, f)
        if string.find(name, "[^%w_]") then name = "(" .. name .. ")" end
        parts[p] = string.format("%s(%s)", name, algebra.slot_name(f.slot))
    end
    return table.concat(parts, "*")
end

-- Sorted by slot with the sign of fermion.lua, same slots multiplied where all types agree, on the factor and
-- on that of the adjoint: a term has one number for all types. Returns factors (nil: zero) and factor.
local function canonical(out, factors, line)
    local key, odd = {}, {}
    for p, f in ipairs(factors) do key[p], odd[p] = f.slot, f.odd end
    local scale, perm = fermion.sort(key, odd)
    local list = {}
    for p = 1, #factors do
        local f = factors[perm[p]]
        local last = list[#list]
        local merged, factor, turn, zeros, count = {}, nil, nil, 0, 0
        if last and last.slot == f.slot then
            local same = true
            for t, type_ in ipairs(out.types) do
                merged[t] = NONE
                if last.op[t] ~= NONE and f.op[t] ~= NONE then
                    local q, g = siteops.product(out, type_, last.op[t], f.op[t], line)
                    count = count + 1
                    if q == ZERO then
                        zeros = zeros + 1
                    else
                        same = same and (factor == nil or factor == g)
                        -- a single type always agrees, and its table keeps its order
                        if #out.types > 1 and same then
                            local _, h = siteops.adjoint(out, type_, q)
                            same, turn = turn == nil or turn == h, h
                        end
                        merged[t], factor = q, g
                    end
                end
            end
            if zeros == count then return nil, 0 end
            if not same or zeros > 0 then last = nil end
        else
            last = nil
        end
        if last then
            list[#list] = {slot = f.slot, op = merged, odd = last.odd ~ f.odd}
            scale = scale * factor
        else
            list[#list + 1] = f
        end
    end
    local kept = {}
    for _, f in ipairs(list) do
        local identity = true
        for t = 1, #out.types do identity = identity and f.op[t] == IDENTITY end
        if not identity then kept[#kept + 1] = f end
    end
    return kept, scale
end

local function product_key(out, factors, anywhere)
    local parts = {}
    for _, f in ipairs(factors) do
        parts[#parts + 1] = anywhere and "" or f.slot
        for t = 1, #out.types do parts[#parts + 1] = f.op[t] end
    end
    return table.concat(parts, ",")
end

local function adjoint_factors(out, factors, line)
    local list, scale = {}, 1
    for p = #factors, 1, -1 do
        local f = factors[p]
        local op, factor = {}, nil
        for t, type_ in ipairs(out.types) do
            op[t] = NONE
            if f.op[t] ~= NONE then
                local q, g = siteops.adjoint(out, type_, f.op[t])
                if factor and factor ~= g then
                    refuse_at(line, "the adjoint of %s has different factors on different kinds of sites",
                        factor_name(out, f))
                end
                op[t], factor = q, g
            end
        end
        list[#list + 1] = {slot = f.slot, op = op, odd = f.odd}
        scale = scale * factor
    end
    if not util.is_finite(scale) then
        refuse_at(line, "the adjoint of a product has a factor that is too large for a number (beyond 1e308)")
    end
    return list, scale
end

-- One product of the statement: names to indices, with all checks. Returns factors as written, and a factor.
local function resolve(out, st, m)
    local line = st.line
    local factors, scale = {}, 1
    for _, f in ipairs(m.factors) do
        if not f.slot then refuse_at(line, "%s needs a site, as in %s(i)", f.op, f.op) end
        if f.flavour then
            refuse_at(line, "the flavour %s is not summed: write sum(%s, ...)", f.flavour.name,
                f.flavour.name)
        end
        if f.slot > st.nslot then
            local allowed = {}
            for p = 1, st.nslot do allowed[p] = algebra.slot_name(p) end
            refuse_at(line, "%s(%s): %s has only the site%s %s", f.op, algebra.slot_name(f.slot), st.word,
                st.nslot > 1 and "s" or "", table.concat(allowed, ", "))
        end
        local op, some, reason, odd = {}, false, nil, nil
        for t, type_ in ipairs(out.types) do
            op[t] = type_.at[f.op] or NONE
            if op[t] ~= NONE then
                some = true
                local here = type_.op[op[t]].odd
                if odd and odd ~= here then
                    refuse_at(line, "%s is fermionic on one kind of site and not on another", f.op)
                end
                odd = here
            end
            reason = reason or type_.hidden[f.op]
        end
        if not some then refuse_at(line, "the operator %s %s", f.op, reason or "is on no site") end
        factors[#factors + 1] = {slot = f.slot, op = op, odd = odd}
        if f.dagger then
            local list, g = adjoint_factors(out, {factors[#factors]}, line)
            factors[#factors], scale = list[1], scale * g
        end
    end
    -- Parity and charges, for every choice of the kinds of sites that meet.
    local text = algebra.monomial_text({coef = algebra.number(1), factors = m.factors})
    local odd = 0
    for _, f in ipairs(factors) do odd = odd ~ f.odd end
    if odd == 1 then refuse_at(line, "%s has an odd number of fermionic operators", text) end
    local possible = #factors == 0
    each_assignment(out, slots_of(factors), function(chosen)
        local total = {}
        for _, f in ipairs(factors) do
            if f.op[chosen[f.slot]] == NONE then return end
        end
        possible = true
        for _, f in ipairs(factors) do
            local shift = out.types[chosen[f.slot]].op[f.op[chosen[f.slot]]].shift
            for c = 1, #out.charges do total[c] = (total[c] or 0) + shift[c] end
        end
        for c, charge in ipairs(out.charges) do
            local d = total[c] or 0
            if charge.modulus > 0 then d = d % charge.modulus end
            if d ~= 0 then
                refuse_at(line, "%s changes %s by %s; every term must conserve %s%s", text, charge.name,
                    charges.text(charge, d), charge.name,
                    charge.added and " (the parity of the number of fermions)"
                        or string.format(" (drop %s from conserve if it is not conserved)", charge.name))
            end
        end
    end)
    if not possible then refuse_at(line, "no kind of site has all of the operators in %s", text) end
    return factors, scale
end

-- Per-site parameters get their site, per-bond ones their bond; everything else is checked against the
-- placement.
local function resolve_coef(st, c, used)
    return algebra.map_coef(c, function(t)
        if t.k == "par" then
            used[t.name] = true
            if t.kind == "site" then
                local at = t.at
                if not at then
                    if st.nslot > 1 then
                        refuse_at(st.line, "%s is per site: write %s(i) or %s(j)", t.name, t.name, t.name)
                    end
                    at = 1
                end
                if at > st.nslot then
                    refuse_at(st.line, "%s(%s): %s has only %d site%s", t.name, algebra.slot_name(at),
                        st.word, st.nslot, st.nslot > 1 and "s" or "")
                end
                return {k = "par", name = t.name, kind = "site", at = at}
            elseif t.kind == "bond" then
                if st.place ~= "BOND" then
                    refuse_at(st.line, "%s is per bond and can only be used in bond(...), not in %s(...)",
                        t.name, st.word)
                end
                return {k = "par", name = t.name, kind = "bond", at = "bond"}
            end
        elseif t.k == "site" and t.slot > st.nslot then
            refuse_at(st.line, "%s: %s has only %d site%s", algebra.slot_name(t.slot), st.word, st.nslot,
                st.nslot > 1 and "s" or "")
        elseif t.k == "r" and st.nslot < 2 then
            refuse_at(st.line, "r is the distance of i and j; %s has only one site", st.word)
        end
    end)
end

-- A number for every atom of a coefficient, the same on every run: enough to tell different expressions
-- apart. Beyond POSITIVE rounds parameters have either sign and another size, or abs(J) were J.
local POSITIVE, ROUNDS = 3, 9
local function probe(round)
    return function(t)
        local name = t.k .. (t.name or "") .. tostring(t.at or "") .. tostring(t.slot or "") .. round
        local share = (util.hash({name}) >> 12) / 2.0 ^ 52
        return round > POSITIVE and t.k == "par" and 8 * share - 4 or 0.3 + share
    end
end
local function same_value(a, b)
    for round = 1, ROUNDS do
        local p, q = algebra.coef_value(a, probe(round)), algebra.coef_value(b, probe(round))
        -- roots and logarithms have no value there
        local known = round <= POSITIVE or (util.is_finite(p) and util.is_finite(q))
        if known and not (math.abs(p - q) <= 1e-12 * (math.abs(p) + math.abs(q))) then return false end
    end
    return true
end

lower.same_value = same_value

-- A coefficient that is zero whatever the parameters are.
function lower.vanishes(c)
    for round = 1, ROUNDS do
        local v = algebra.coef_value(c, probe(round))
        if util.is_finite(v) and math.abs(v) > 1e-11 then return false end
    end
    return true
end

local function lower_statement(model, out, st, used)
    local entries, at = {}, {}
    local function add(coef, factors)
        local list, scale = canonical(out, factors, st.line)
        coef = algebra.coef_mul(algebra.number(scale), coef)
        if not list or coef.c == 0 then return end
        if #list > MAX_FACTOR then
            refuse_at(st.line, "a product of %d operators; at most %d are possible", #list, MAX_FACTOR)
        end
        local key = product_key(out, list)
        local e = at[key]
        if e then
            e.coef = algebra.coef_add(e.coef, coef)
        else
            e = {coef = coef, factors = list, key = key}
            at[key] = e
            entries[#entries + 1] = e
        end
    end
    for _, m in ipairs(st.expr.list) do
        local coef = resolve_coef(st, m.coef, used)
        local factors, scale = resolve(out, st, m)
        coef = algebra.coef_mul(algebra.number(scale), coef)
        add(coef, factors)
        if m.hc then
            local reverse, g = adjoint_factors(out, factors, st.line)
            add(algebra.coef_mul(algebra.number(g), coef), reverse)
        end
    end
    -- Pairs of adjoints with the same coefficient become one term with "+ hc".
    local terms = {}
    for _, e in ipairs(entries) do
        if not e.done and e.coef.c ~= 0 then
            local reverse, g = adjoint_factors(out, e.factors, st.line)
            local list, scale = canonical(out, reverse, st.line)
            -- or the adjoint is zero, and with it the product, which read from the left did not show it
            if list then
                e.done = true
                e.adjoint_key, e.adjoint_scale = product_key(out, list), g * scale
                local partner = at[e.adjoint_key]
                if partner and partner ~= e and not partner.done
                    and same_value(algebra.coef_mul(algebra.number(e.adjoint_scale), e.coef),
                        partner.coef) then
                    partner.done, e.hc = true, true
                end
                terms[#terms + 1] = e
            end
        end
    end
    for _, e in ipairs(terms) do
        if #e.factors == 0 then
            local op = {}
            for t = 1, #out.types do op[t] = IDENTITY end
            e.factors, e.constant = {{slot = 1, op = op, odd = 0}}, true
        end
        e.st, e.line = st, st.line
        local text = algebra.coef_text(e.coef, e.constant and 0 or 2)
        if not e.constant then
            local body = product_text(out, e)
            if not e.coef.tree and math.abs(e.coef.c) == 1 then
                text = (e.coef.c < 0 and "-" or "") .. body
            elseif e.coef.c < 0 then
                text = "-" .. algebra.coef_text(algebra.coef_mul(algebra.number(-1), e.coef), 2) .. " * "
                    .. body
            else
                text = text .. " * " .. body
            end
        end
        e.text = e.hc and text .. " + hc" or text
        out.terms[#out.terms + 1] = e
        if #out.terms > MAX_TERMS then refuse_at(st.line, "more than %d terms", MAX_TERMS) end
    end
end

-- 2. Hermiticity --------------------------------------------------------------------------------------------

-- The sum of terms as a matrix on one site of each slot's type, where it is small enough.
local function group_matrix(out, terms, chosen, nslot)
    local parts, dim = {}, 1
    for slot = 1, nslot do
        local t = out.types[chosen[slot]]
        parts[slot] = {dim = t.dim, parity = t.space.parity}
        dim = dim * t.dim
    end
    if dim > 4096 then return nil end
    local total = matrix.new(dim)
    for _, e in ipairs(terms) do
        local m, possible = matrix.identity(dim), true
        for _, f in ipairs(e.factors) do
            local p = f.op[chosen[f.slot]]
            if p == NONE then possible = false; break end
            local op = out.types[chosen[f.slot]].op[p]
            m = matrix.multiply(m, fermion.embed(parts, f.slot, op.m, op.odd), e.line)
        end
        if possible then
            local c = algebra.coef_value(e.coef, probe(1))
            total = matrix.add(total, m, c)
            if e.hc then total = matrix.add(total, matrix.transpose(m), c) end
        end
    end
    return total
end

-- Whether terms of another placement may hold what is missing: on one lattice a bond of two classes, or the
-- sites of two named terms, are the same. Then the sum is checked when the lattice is known
-- (src/model/terms.c).
local function may_be_elsewhere(groups, order, key, e)
    for _, other in ipairs(order) do
        for _, x in ipairs(other ~= key and groups[other] or {}) do
            if not x.hc and #x.factors == #e.factors then return true end
        end
    end
    return false
end

local function check_hermitian(out)
    local groups, order = {}, {}
    for _, e in ipairs(out.terms) do
        local st = e.st
        local key = table.concat({st.place, st.where or "", tostring(st.distance), st.nslot,
            table.concat(st.sites or {}, "\0")}, "\1")
        if not groups[key] then groups[key] = {}; order[#order + 1] = key end
        table.insert(groups[key], e)
    end
    for _, key in ipairs(order) do
        local terms, sum, scale = groups[key], {}, {}
        for _, e in ipairs(terms) do
            local c = algebra.coef_value(e.coef, probe(1))
            if not util.is_finite(c) then c = 1 end
            sum[e.key] = (sum[e.key] or 0) + c
            scale[e.key] = (scale[e.key] or 0) + math.abs(c)
            if e.hc then
                sum[e.adjoint_key] = (sum[e.adjoint_key] or 0) + e.adjoint_scale * c
                scale[e.adjoint_key] = (scale[e.adjoint_key] or 0) + math.abs(c)
            end
        end
        local culprit
        for _, e in ipairs(terms) do
            if not e.hc and not culprit then
                local want, have = e.adjoint_scale * sum[e.key], sum[e.adjoint_key] or 0
                if math.abs(want - have) > 1e-12 * (scale[e.key] + (scale[e.adjoint_key] or 0)) then
                    culprit = e end
            end
        end
        -- the same operator may be written in two forms: decide by the matrix where that is possible. It
        -- costs most of all, and says nothing where the lattice has to decide anyway.
        if culprit and not may_be_elsewhere(groups, order, key, culprit) then
            local hermitian, slots = true, {}
            for slot = 1, culprit.st.nslot do slots[slot] = slot end
            if #slots <= 4 then
                each_assignment(out, slots, function(chosen)
                    local m = group_matrix(out, terms, chosen, #slots)
                    if not m then hermitian = false; return end
                    local size = 0
                    for _, v in pairs(m.e) do size = math.max(size, math.abs(v)) end
                    for _, el in ipairs(matrix.elements(m)) do
                        if math.abs(el[3] - matrix.get(m, el[2], el[1])) > 1e-11 * size then
                            hermitian = false end
                    end
                end)
            else
                hermitian = false
            end
            if not hermitian then
                refuse_at(culprit.line,
                    "the Hamiltonian is not Hermitian: the adjoint of %s is missing; add + hc (a DM term or a flux needs complex numbers, which are not possible: look for a real gauge)",
                    culprit.text)
            end
        end
    end
end

-- 3. Symbolic records ---------------------------------------------------------------------------------------

-- The operator that a block keeps of the listed factors, in their order: its index among out.kept; appended,
-- with its adjoint, if it is not there.
local function keep(out, factors, line)
    local key = product_key(out, factors, true)
    local place = out.kept_at[key]
    if place then return place end
    local k = {odd = 0, shift = {}}
    local names, odd, reverse, scale = {}, {}, {}, 1
    for c = 1, #out.charges do k.shift[c] = 0 end
    for p, f in ipairs(factors) do
        local op
        for t, type_ in ipairs(out.types) do
            if f.op[t] ~= NONE then op = op or type_.op[f.op[t]] end
        end
        for c in ipairs(out.charges) do k.shift[c] = k.shift[c] + op.shift[c] end
        names[p], odd[p], k.odd = op.name, f.odd, k.odd ~ f.odd
        local turned, g = adjoint_factors(out, {f}, line)
        reverse[p], scale = turned[1], scale * g
    end
    for c, charge in ipairs(out.charges) do
        if charge.modulus > 0 then k.shift[c] = k.shift[c] % charge.modulus end
    end
    k.name = #names > 0 and table.concat(names, " ") or "1"
    k.adjoint_factor = fermion.adjoint(odd) * scale
    out.kept[#out.kept + 1] = k
    place = #out.kept
    out.kept_at[key] = place
    k.adjoint = keep(out, reverse, line)
    return place
end

-- Signs of all cuts of a product with these parities, as kl_split has them.
local function cut_signs(odd)
    local function sign_of(left, right) -- of moving the factors of `left` before those of `right`
        local keys, odds = {}, {}
        for f = 1, #odd do
            local bit = 1 << (f - 1)
            if (left | right) & bit ~= 0 then keys[#keys + 1], odds[#odds + 1] = right & bit, odd[f] end
        end
        return (fermion.sort(keys, odds))
    end
    local all, rows = (1 << #odd) - 1, {}
    for mask = 0, all do
        local row = {sign = sign_of(mask, all ~ mask), left_minus = 0, right_minus = 0}
        for f = 1, #odd do
            local bit = 1 << (f - 1)
            if mask & bit == 0 then
                if sign_of(mask, bit) < 0 then row.left_minus = row.left_minus | bit end
                if sign_of(bit, mask) < 0 then row.right_minus = row.right_minus | bit end
            end
        end
        rows[mask] = row
    end
    return rows
end

-- Refuses terms with too many cuts, before any is made.
local function count_cuts(out)
    local total = 0
    for _, e in ipairs(out.terms) do
        total = total + (1 << #e.factors)
        if total > MAX_RECORDS then
            refuse_at(e.line,
                "the terms up to here can be cut in more than %d ways; use fewer products of many operators",
                    MAX_RECORDS)
        end
    end
end

-- What kl_split tells, for every term: e.split[mask] for each set of factors on the left of a cut.
local function lower_records(out)
    local signs = {}
    -- rows[signs][kept]: splits that are alike are one table, of which a molecule would have millions
    local rows = {}
    out.kept, out.kept_at = {}, {}
    count_cuts(out)
    keep(out, {})
    for _, e in ipairs(out.terms) do
        local odd = {}
        for f, factor in ipairs(e.factors) do odd[f] = factor.odd end
        local pattern = table.concat(odd)
        signs[pattern] = signs[pattern] or cut_signs(odd)
        e.split = {}
        for mask = 0, (1 << #odd) - 1 do
            local factors = {}
            for f, factor in ipairs(e.factors) do
                if mask & (1 << (f - 1)) ~= 0 then factors[#factors + 1] = factor end
            end
            local kept, row = keep(out, factors, e.line), signs[pattern][mask]
            rows[row] = rows[row] or {}
            rows[row][kept] = rows[row][kept] or {kept = kept, signs = row}
            e.split[mask] = rows[row][kept]
        end
    end
end

-- 4. Closure ------------------------------------------------------------------------------------------------

-- All products that C can need: pairs of named operators, and what may fall on one site when the sites of a
-- term coincide.
local function close_products(out)
    for p, t in ipairs(out.types) do
        for _, e in ipairs(out.terms) do
            if e.st.place == "NAMED" or e.st.place == "RUN" or #out.types > 1 then
                local n = #e.factors
                for subset = 1, (1 << n) - 1 do
                    local acc, dead
                    for q = 1, n do
                        if subset & (1 << (q - 1)) ~= 0 and not dead then
                            local op = e.factors[q].op[p]
                            if op == NONE then
                                dead = true
                            elseif acc then
                                acc = siteops.product(out, t, acc, op, e.line)
                                dead = acc == ZERO
                            else
                                acc = op
                            end
                        end
                    end
                end
            end
        end
        local named = {}
        for q, op in ipairs(t.op) do
            if op.named then named[#named + 1] = q end
        end
        for _, a in ipairs(named) do
            for _, b in ipairs(named) do siteops.product(out, t, a, b, t.line) end
        end
        local q = 1
        while q <= #t.op do -- adjoints may be appended meanwhile
            siteops.adjoint(out, t, q)
            q = q + 1
        end
        -- What else is a multiple of a listed operator is said too, as far as that stays cheap.
        local elements = 0
        for _, op in ipairs(t.op) do
            for _ in pairs(op.m.e) do elements = elements + 1 end
        end
        local everything = elements * #t.op <= 4000000
        t.table = {}
        for a = 1, #t.op do
            local row = {}
            for b = 1, #t.op do
                local known = t.products[a * 65536 + b]
                if known then
                    row[b] = known
                elseif a == IDENTITY then
                    row[b] = {b, 1}
                elseif b == IDENTITY then
                    row[b] = {a, 1}
                elseif everything then
                    local m, r, f = matrix.finite_product(t.op[a].m, t.op[b].m), nil, nil
                    if m then r, f = siteops.find(t, m) end
                    row[b] = r and {r, f or 0} or {NONE, 0}
                else
                    row[b] = {NONE, 0}
                end
            end
            t.table[a] = row
        end
    end
end

lower.NONE, lower.ZERO = NONE, ZERO

local function lower_model(model)
    local out = {types = {}, charges = {}, terms = {}, params = {}}
    siteops.types(model, out)
    local used = {}
    for _, st in ipairs(model.statements) do lower_statement(model, out, st, used) end
    for p, name in ipairs(model.param_order) do
        if not used[name] then
            refuse_at(model.params[name].line, "the parameter %s is not used by any term", name)
        end
        out.params[p] = model.params[name]
    end
    if #out.terms == 0 then refuse_at(model.statements[1].line, "all terms vanish") end
    check_hermitian(out)
    lower_records(out)
    close_products(out)
    return out
end

-- Model as written (language.read) -> tables.
function lower.model(model) return util.bounded(model.text, util.LONG_STEPS, lower_model, model) end

return lower
