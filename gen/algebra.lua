-- The two kinds of expression that a model is written in: coefficients (numbers, parameters, r, x, y, N) and
-- sums of operator products. Lua's own + - * / ^ build them. Knows names and slots, not matrices: those meet
-- in lower.lua.
-- SPDX-License-Identifier: Apache-2.0
local util = require("util")

local algebra = {}
local refuse = util.refuse
local SLOT_NAMES = {"i", "j", "k", "l"}
local MAX_MONOMIALS = 4096
-- parts of a coefficient when it is written out; a shared part counts as often as it is used
local MAX_SIZE = 4096
local MAX_TEXT = 200        -- bytes of an expression in a message

function algebra.slot_name(slot) return SLOT_NAMES[slot] or string.format("at(%d)", slot) end

-- Coefficients: a number times a tree (nil for a plain number), so that constants gather in front. ----------
local Coef = {opaque = true} -- opaque: a model holds it through a proxy (language.lua)
Coef.__name = "coefficient"

local Ops = {opaque = true} -- sums of operator products, below
Ops.__name = "operator"
local Slot = {opaque = true} -- i, j, k, l
Slot.__name = "site"
local Flavour = {opaque = true} -- s, s2
Flavour.__name = "flavour"
local hc = setmetatable({}, {__name = "hc", opaque = true})
algebra.hc = hc

local function is(v, class) return getmetatable(v) == class end
function algebra.is_coef(v) return is(v, Coef) end
function algebra.is_ops(v) return is(v, Ops) end
function algebra.is_slot(v) return is(v, Slot) end
function algebra.is_flavour(v) return is(v, Flavour) end

local function coef(c, tree)
    if c - c ~= 0 then
        refuse("a coefficient is not a finite number here (division by zero, or the root of a negative number; complex numbers are not possible)")
    end
    if c == 0 then tree = nil end
    if tree and (tree.size or 1) > MAX_SIZE then
        refuse("a coefficient has more than %d parts when it is written out", MAX_SIZE)
    end
    return setmetatable({c = c, tree = tree}, Coef)
end
function algebra.number(v) return coef(v + 0.0) end
function algebra.unit(v) return coef(1.0, v.tree) end -- without the number in front
function algebra.parameter(name, kind) return coef(1.0, {k = "par", name = name, kind = kind}) end
function algebra.symbol(name) return coef(1.0, {k = name}) end

function algebra.slot(number) return setmetatable({slot = number}, Slot) end
function algebra.flavour(name) return setmetatable({name = name}, Flavour) end

-- Anything that may stand for a number, as a coefficient; nil if it may not.
local function to_coef(v)
    if type(v) == "number" then return coef(v + 0.0) end
    if is(v, Coef) then return v end
    if is(v, Slot) then return coef(1.0, {k = "site", slot = v.slot}) end
    return nil
end
algebra.to_coef = to_coef

-- Text with precedence: 1 sum, 2 product, 3 power, 4 atom. --------------------------------------------------
local render_coef

local function atom_text(t)
    if t.k == "par" then
        return type(t.at) == "number" and string.format("%s(%s)", t.name, algebra.slot_name(t.at)) or t.name
    end
    return t.k == "site" and algebra.slot_name(t.slot) or t.k
end

local function render_tree(t)
    if t.k == "add" then
        local left = render_coef(t.a, 1)
        if t.b.c < 0 then return left .. " - " .. render_coef(coef(-t.b.c, t.b.tree), 2), 1 end
        return left .. " + " .. render_coef(t.b, 1), 1
    elseif t.k == "mul" then
        local a, pa = render_tree(t.a)
        local b, pb = render_tree(t.b)
        if pa < 2 then a = "(" .. a .. ")" end
        if pb < 2 or (pb == 2 and t.b.k == "div") then b = "(" .. b .. ")" end
        return a .. "*" .. b, 2
    elseif t.k == "div" then
        local a, pa = "1", 4
        if t.a then a, pa = render_tree(t.a) end
        local b, pb = render_tree(t.b)
        if pa < 2 then a = "(" .. a .. ")" end
        if pb < 3 then b = "(" .. b .. ")" end
        return a .. "/" .. b, 2
    elseif t.k == "pow" then
        return render_coef(t.a, 4) .. "^" .. render_coef(t.b, 4), 3
    elseif t.k == "fn" then
        return string.format("%s(%s)", t.name, render_coef(t.a, 0)), 4
    end
    return atom_text(t), 4
end

-- Text of c * tree, in brackets where it binds less than `least`.
function render_coef(v, least)
    local text, p
    if not v.tree then
        text = util.fraction(v.c)
        p = v.c < 0 and 1 or (string.find(text, "/", 1, true) and 2 or 4)
    elseif v.c == 1 then
        text, p = render_tree(v.tree)
    else
        text, p = render_tree(v.tree)
        if p < 2 then text = "(" .. text .. ")" end
        local size = math.abs(v.c)
        if size ~= 1 then
            local inverse = 1 / size
            if inverse == math.floor(inverse) then
                text = text .. "/" .. util.number(inverse)
            else
                if v.tree.k == "div" and p == 2 then text = "(" .. text .. ")" end
                text = util.fraction(size) .. "*" .. text
            end
        end
        p = 2
        if v.c < 0 then text, p = "-" .. text, 1 end
    end
    if p < least then text = "(" .. text .. ")" end
    return text
end

function algebra.coef_text(v, least) return render_coef(v, least or 0) end

-- Walks all atoms; `change` may return another atom, and the rebuilt coefficient is returned.
local function map_coef(v, change)
    local function map_tree(t)
        local copy = {k = t.k, size = t.size, bare = t.bare}
        if t.k == "add" or t.k == "pow" then
            copy.a, copy.b = map_coef(t.a, change), map_coef(t.b, change)
        elseif t.k == "mul" or t.k == "div" then
            copy.a, copy.b = t.a and map_tree(t.a), map_tree(t.b)
        elseif t.k == "fn" then
            copy.name, copy.a = t.name, map_coef(t.a, change)
        else
            return change(t) or t
        end
        return copy
    end
    return setmetatable({c = v.c, tree = v.tree and map_tree(v.tree)}, Coef)
end
algebra.map_coef = map_coef

local numeric = {
    exp = math.exp, log = math.log, sqrt = math.sqrt, abs = math.abs, sin = math.sin, cos = math.cos,
    tanh = function(a)
        local e = math.exp(-2 * math.abs(a))
        local t = (1 - e) / (1 + e)
        return a < 0 and -t or t
    end,
}
algebra.functions = numeric

-- Number for given atoms, for numerical tests.
function algebra.coef_value(v, atom)
    local function tree(t)
        if t.k == "add" then return algebra.coef_value(t.a, atom) + algebra.coef_value(t.b, atom) end
        if t.k == "pow" then return algebra.coef_value(t.a, atom) ^ algebra.coef_value(t.b, atom) end
        if t.k == "mul" then return tree(t.a) * tree(t.b) end
        if t.k == "div" then return (t.a and tree(t.a) or 1.0) / tree(t.b) end
        if t.k == "fn" then return numeric[t.name](algebra.coef_value(t.a, atom)) end
        return atom(t)
    end
    return v.tree and v.c * tree(v.tree) or v.c
end

-- How many parts a tree has: those of another number are not the same, which is seen without writing them out
-- at every + of a long sum.
local function size(t) return t and (t.size or 1) or 0 end
-- A site that stands in the tree as a letter, not as number(i).
local function bare(t) return t and (t.bare or (t.k == "site" and not t.explicit and t.slot or nil)) end
-- A part made of the trees a and b, either of which may be nil, with what is known of all of it.
local function part(t, a, b)
    t.size, t.bare = 1 + size(a) + size(b), bare(a) or bare(b)
    return t
end

local function same_tree(a, b)
    if a == b then return true end
    if not a or not b or size(a) ~= size(b) then return false end
    return render_tree(a) == render_tree(b)
end

local function add(a, b)
    if a.c == 0 then return b end
    if b.c == 0 then return a end
    if same_tree(a.tree, b.tree) then return coef(a.c + b.c, a.tree) end
    return coef(1.0, part({k = "add", a = a, b = b}, a.tree, b.tree))
end
local function mul(a, b)
    local tree = a.tree
    if a.tree and b.tree then
        tree = part({k = "mul", a = a.tree, b = b.tree}, a.tree, b.tree)
    elseif b.tree then
        tree = b.tree
    end
    return coef(a.c * b.c, tree)
end
local function div(a, b)
    if b.c == 0 then refuse("division by zero") end
    local tree = a.tree
    if b.tree then
        tree = not same_tree(a.tree, b.tree) and part({k = "div", a = a.tree, b = b.tree}, a.tree, b.tree)
            or nil
    end
    return coef(a.c / b.c, tree)
end
local function power(a, b)
    if not a.tree and not b.tree then return coef(a.c ^ b.c) end
    if not b.tree and b.c == 1 then return a end
    if not b.tree and b.c == 0 then return coef(1.0) end
    return coef(1.0, part({k = "pow", a = a, b = b}, a.tree, b.tree))
end
algebra.coef_add, algebra.coef_mul = add, mul

function algebra.apply(name, v)
    if is(v, Ops) then
        refuse("%s() of an operator is not possible; write the matrix elements with site(matrices{...})",
            name)
    end
    if is(v, Slot) then v = to_coef(v) end
    if type(v) == "number" then
        local w = numeric[name](v)
        if not util.is_finite(w) then
            refuse("%s(%s) is not a finite real number%s", name, util.number(v),
                name == "sqrt" and "; complex numbers are not possible here" or "")
        end
        return w
    end
    if not is(v, Coef) then
        refuse("%s() needs a number or a parameter, got %s", name, algebra.describe(v))
    end
    if not v.tree then return algebra.apply(name, v.c) end
    if name == "exp" and bare(v.tree) then
        local slot = algebra.slot_name(bare(v.tree))
        refuse("in exp() '%s' is the number of a site, not the imaginary unit (phases, flux and twist are not possible: "
            .. "use a real gauge, flux pi as a sign of one hopping); write exp(... number(%s)) if the number is meant", slot, slot)
    end
    return coef(1.0, part({k = "fn", name = name, a = v}, v.tree))
end

-- Operators: a list of monomials {coef, factors, hc}; a factor is {op =, flavour =, slot =}, slot nil until i

local function short(text) return #text > MAX_TEXT and string.sub(text, 1, MAX_TEXT) .. "..." or text end

function algebra.describe(v)
    local mt = getmetatable(v)
    if v == nil then return "nothing" end
    if mt == Coef then return "the coefficient " .. short(algebra.coef_text(v)) end
    if mt == Ops then return "the operator " .. short(algebra.ops_text(v)) end
    if mt == Slot then return "the site " .. algebra.slot_name(v.slot) end
    if mt == Flavour then return "the flavour " .. v.name end
    if v == hc then return "hc" end
    if type(v) == "number" and util.is_finite(v) then return "the number " .. util.number(v) end
    if type(v) == "number" or type(v) == "string" then return util.described(v) end
    return "a " .. (type(v) == "table" and mt and mt.__name or type(v))
end

local function ops(list)
    if #list > MAX_MONOMIALS then
        refuse("an expression multiplies out into more than %d products", MAX_MONOMIALS)
    end
    return setmetatable({list = list}, Ops)
end
algebra.ops = ops

function algebra.operator(name, needs_flavour)
    return ops({{coef = coef(1.0), factors = {{op = name, needs = needs_flavour}}}})
end

local function to_ops(v)
    if is(v, Ops) then return v end
    local c = to_coef(v)
    return c and ops(c.c == 0 and {} or {{coef = c, factors = {}}})
end
algebra.to_ops = to_ops

local function adjoint_monomial(m)
    local factors = {}
    for p = #m.factors, 1, -1 do
        local f = m.factors[p]
        factors[#factors + 1] = {op = f.op, flavour = f.flavour, slot = f.slot, needs = f.needs,
            dagger = not f.dagger}
    end
    return {coef = m.coef, factors = factors}
end

function algebra.adjoint(v)
    v = to_ops(v)
    if not v then refuse("adj() needs an operator") end
    local list = {}
    for p, m in ipairs(v.list) do list[p] = m.hc and m or adjoint_monomial(m) end
    return ops(list)
end

-- The same with "+ hc" written out.
local function expand(v)
    local list
    for p, m in ipairs(v.list) do
        if m.hc and not list then list = table.move(v.list, 1, p - 1, 1, {}) end
        if m.hc then
            list[#list + 1] = {coef = m.coef, factors = m.factors}
            list[#list + 1] = adjoint_monomial(m)
        elseif list then
            list[#list + 1] = m
        end
    end
    return list and ops(list) or v
end

local function factor_text(f)
    local name = f.op
    if f.dagger then name = "adj(" .. name .. ")" end
    if not f.slot then return name end
    local flavour = f.flavour and ", " .. f.flavour.name or ""
    return string.format("%s(%s%s)", name, algebra.slot_name(f.slot), flavour)
end
function algebra.monomial_text(m, name)
    local parts = {}
    for p, f in ipairs(m.factors) do parts[p] = name and name(f) or factor_text(f) end
    local product = table.concat(parts, "*")
    local text
    if #parts == 0 then
        text = algebra.coef_text(m.coef)
    elseif not m.coef.tree and m.coef.c == 1 then
        text = product
    elseif not m.coef.tree and m.coef.c == -1 then
        text = "-" .. product
    else
        local c = m.coef
        if c.c < 0 then
            text = "-" .. algebra.coef_text(coef(-c.c, c.tree), 2)
        else
            text = algebra.coef_text(c, 2)
        end
        text = text .. " * " .. product
    end
    return m.hc and text .. " + hc" or text
end
function algebra.ops_text(v)
    local parts = {}
    for p = 1, math.min(#v.list, 4) do parts[p] = algebra.monomial_text(v.list[p]) end
    if #v.list > 4 then parts[5] = "..." end
    return #parts == 0 and "0" or table.concat(parts, " + ")
end

local function wrong(what, a, b)
    for _, v in ipairs({a, b}) do
        if v == hc then
            refuse("hc can only be added, as in A + hc, which means A plus its Hermitian adjoint")
        end
        if is(v, Flavour) then
            refuse("the flavour %s belongs inside an operator, as in n(i, %s)", v.name, v.name)
        end
    end
    refuse("cannot %s %s and %s", what, algebra.describe(a), algebra.describe(b))
end

local meta = {}
function meta.__add(a, b)
    if b == hc then
        if not is(a, Ops) then refuse("hc needs an operator before it, got %s", algebra.describe(a)) end
        local list = {}
        for p, m in ipairs(a.list) do
            if m.hc then
                list[p] = {coef = mul(coef(2.0), m.coef), factors = m.factors, hc = true}
            else
                list[p] = {coef = m.coef, factors = m.factors, hc = true}
            end
        end
        return ops(list)
    end
    local ca, cb = to_coef(a), to_coef(b)
    if ca and cb then return add(ca, cb) end
    local oa, ob = to_ops(a), to_ops(b)
    if not oa or not ob then wrong("add", a, b) end
    local list = table.move(oa.list, 1, #oa.list, 1, {})
    return ops(table.move(ob.list, 1, #ob.list, #list + 1, list))
end
function meta.__unm(a)
    if a == hc then wrong("negate", a, a) end
    return meta.__mul(-1, a)
end
function meta.__sub(a, b)
    if b == hc then refuse("hc can only be added, as in A + hc; for A - hc write A - adj(A)") end
    local ca, cb = to_coef(a), to_coef(b)
    if (ca or to_ops(a)) and (cb or to_ops(b)) then return meta.__add(a, meta.__mul(-1, b)) end
    wrong("subtract", a, b)
end
function meta.__mul(a, b)
    local ca, cb = to_coef(a), to_coef(b)
    if ca and cb then return mul(ca, cb) end
    if (ca and is(b, Ops)) or (cb and is(a, Ops)) then
        local c, list = ca or cb, {}
        if c.c ~= 0 then
            for p, m in ipairs((ca and b or a).list) do
                list[p] = {coef = mul(c, m.coef), factors = m.factors, hc = m.hc}
            end
        end
        return ops(list)
    end
    if not is(a, Ops) or not is(b, Ops) then wrong("multiply", a, b) end
    a, b = expand(a), expand(b)
    if #a.list * #b.list > MAX_MONOMIALS then
        refuse("an expression multiplies out into more than %d products", MAX_MONOMIALS)
    end
    local list = {}
    for _, p in ipairs(a.list) do
        for _, q in ipairs(b.list) do
            local factors = table.move(p.factors, 1, #p.factors, 1, {})
            table.move(q.factors, 1, #q.factors, #factors + 1, factors)
            if #factors > 64 then refuse("a product of more than 64 operators") end
            list[#list + 1] = {coef = mul(p.coef, q.coef), factors = factors}
        end
    end
    return ops(list)
end
function meta.__div(a, b)
    local cb = to_coef(b)
    if not cb then wrong("divide", a, b) end
    local ca = to_coef(a)
    if ca then return div(ca, cb) end
    if not is(a, Ops) then wrong("divide", a, b) end
    return meta.__mul(div(coef(1.0), cb), a)
end
function meta.__pow(a, b)
    local ca, cb = to_coef(a), to_coef(b)
    if ca and cb then return power(ca, cb) end
    if not is(a, Ops) then wrong("raise", a, b) end
    local e = cb and not cb.tree and cb.c
    if not e or not util.is_integer(e) or e < 1 or e > 8 then
        refuse("an operator can only be raised to a whole power from 1 to 8, got %s", algebra.describe(b))
    end
    local v = a
    for _ = 2, e do v = meta.__mul(v, a) end
    return v
end
local function no_order(a, b)
    local v = is(a, Coef) and a or b
    refuse("%s is a number that is only known at run time; only structural parameters can be compared",
        algebra.describe(v))
end
local function no_concat() refuse("'..' does not apply to parameters or operators") end
local function no_modulo()
    refuse("%% and // do not apply to parameters or operators; a charge modulo n is written mod(Q, n)")
end
local function no_new_field() refuse("parameters and operators cannot be changed") end
for _, class in ipairs({Coef, Ops, Slot, Flavour, getmetatable(hc)}) do
    for event, handler in pairs(meta) do class[event] = handler end
    class.__lt, class.__le, class.__concat, class.__mod, class.__idiv = no_order, no_order, no_concat,
        no_modulo, no_modulo
    class.__newindex = no_new_field
end

-- h(i): the value of a per-site parameter on a site.
function Coef.__call(v, site)
    local t = v.tree
    if not t or t.k ~= "par" or v.c ~= 1 then
        refuse("%s is not a per-site parameter and takes no site", algebra.coef_text(v))
    end
    if t.kind == "scalar" then
        refuse("%s is one number for the whole lattice; declare it as %s = per_site(...) to write %s(i)",
            t.name, t.name, t.name)
    end
    if t.kind == "bond" then
        refuse("%s is per bond and takes no site; write it bare inside bond(...)", t.name)
    end
    if not is(site, Slot) then
        refuse("%s(...) needs one of the sites i, j, k, l, got %s", t.name, algebra.describe(site))
    end
    return coef(1.0, {k = "par", name = t.name, kind = "site", at = site.slot})
end

-- Sz(i), c(i, s), (Sz*Sz - 2/3)(i).
function Ops.__call(v, site, flavour)
    if not is(site, Slot) then
        local more = is(site, Coef) and "; a neighbour is the site j of bond(...) or run(...)"
            or (type(site) == "number" and "; for a fixed site use named({...}, ...)" or "")
        refuse("%s needs one of the sites i, j, k, l, got %s%s", algebra.ops_text(v), algebra.describe(site),
            more)
    end
    local list = {}
    for p, m in ipairs(v.list) do
        local factors = {}
        for q, f in ipairs(m.factors) do
            if f.slot then refuse("%s already has a site", factor_text(f)) end
            local op, at = f.op, nil
            if flavour ~= nil then
                if #m.factors ~= 1 or #v.list ~= 1 then
                    refuse("a flavour goes with a single operator, as in n(i, s)")
                end
                if is(flavour, Flavour) then
                    at = flavour
                elseif type(flavour) == "string" or math.type(flavour) == "integer" then
                    op = op .. "_" .. flavour
                else
                    refuse("%s(i, ...) takes s, s2 or the name of a flavour, got %s", op,
                        algebra.describe(flavour))
                end
                algebra.check_flavour(f.op, at, op)
            elseif f.needs then
                refuse("%s needs a flavour: %s(i, s) inside sum(s, ...), or a name as in %s_%s(i)", f.op,
                    f.op, f.op, f.needs)
            end
            factors[q] = {op = op, flavour = at, slot = site.slot, dagger = f.dagger}
        end
        list[p] = {coef = m.coef, factors = factors, hc = m.hc}
    end
    return ops(list)
end

-- Replaces placeholders by flavours: map[placeholder] = "up". Returns the sum and which of them occurred.
function algebra.substitute(v, map)
    local list, seen = {}, {}
    for p, m in ipairs(v.list) do
        local factors = {}
        for q, f in ipairs(m.factors) do
            if f.flavour and map[f.flavour] then
                factors[q] = {op = f.op .. "_" .. map[f.flavour], slot = f.slot, dagger = f.dagger}
                seen[f.flavour] = true
            else
                factors[q] = f
            end
        end
        list[p] = {coef = m.coef, factors = factors, hc = m.hc}
    end
    return ops(list), seen
end

return algebra
