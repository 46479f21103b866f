-- The words that a model file may use, and the closed box in which it runs: no files, no loading, bounded
-- time and memory. Reading a file gives the model as written; lower.lua checks it and makes tables of it.
-- SPDX-License-Identifier: Apache-2.0
local util = require("util")
local algebra = require("algebra")
local space = require("space")

local language = {}
local refuse, refuse_at = util.refuse, util.refuse_at

local MAX_SLOTS, MAX_LOOP = 8, 6
local MAX_STATEMENTS = 100000
local MAX_DEPTH = 4         -- of lists within lists that are handed to a word

-- Asked for often, and not possible: each says why and what to do instead.
local REAL_ONLY = "kronlat computes with real numbers only"
local not_possible = {
    Sy = REAL_ONLY .. ": Sy has imaginary elements; use iSy = (Sp - Sm)/2, and Sy(i)*Sy(j) = -iSy(i)*iSy(j)",
    sy = REAL_ONLY .. ": sy has imaginary elements; use isy = sp - sm, and sy(i)*sy(j) = -isy(i)*isy(j)",
    im = REAL_ONLY .. ": there is no imaginary unit; look for a real gauge",
    complex = REAL_ONLY .. ": there are no complex coefficients; look for a real gauge",
    flux = REAL_ONLY
        .. ": a flux is not possible; flux 0 and pi have a real gauge (reverse the sign of the hopping on one bond of the ring)",
    twist = REAL_ONLY
        .. ": a twist is not possible; twist 0 and pi have a real gauge (reverse the sign of the coupling on the closing bond)",
    phase = REAL_ONLY
        .. ": phase factors are not possible; on an open chain they can be gauged away, on a ring 0 and pi are real",
    DM = REAL_ONLY .. ": a Dzyaloshinskii-Moriya (DM) term along z is not possible as such; on an open chain a rotation of the spins about z is a real gauge: "
        .. "J becomes sqrt(J^2 + D^2) in the xy part",
}
not_possible.i_unit, not_possible.Peierls = not_possible.im, not_possible.phase
not_possible.dm, not_possible.Flux, not_possible.Twist = not_possible.DM, not_possible.flux,
    not_possible.twist

-- Names that a model may give, and what to write where it has not.
local ONE_FILE = "a model is one file, which reads nothing else"
local written_otherwise = {
    math = "functions stand by themselves: cos(x), not math.cos(x)",
    I = "the identity is the number 1, and there is no imaginary unit: " .. REAL_ONLY,
    S = "S_i.S_j is S_dot_S(i,j), one component Sz(i); a spin to be chosen by -p S=1 needs structural { S = 1/2 }",
    string = "texts are joined by two dots: \"n_\" .. f",
    tostring = "texts and numbers are joined by two dots: \"n_\" .. f",
    table = "a list grows by list[#list + 1] = x",
    print = "`kronlat models FILE' shows what a model says",
    require = ONE_FILE,
    dofile = ONE_FILE,
    io = ONE_FILE,
    os = ONE_FILE,
}

local function strip_comments(text)
    return (string.gsub(text, "%-%-[^\n]*", function(c) return string.rep(" ", #c) end))
end

-- Names of a table constructor in the order of the file, which Lua itself does not keep.
local function file_order(model, word, t)
    local names = {}
    for k in pairs(t) do
        if type(k) == "string" then names[#names + 1] = k end
    end
    table.sort(names)
    local line, from = util.model_line() or 1, 1
    for _ = 2, line do from = (string.find(model.stripped, "\n", from, true) or 0) + 1 end
    local start, stop = string.find(model.stripped, word .. "%s*%(?%s*%b{}", from)
    local body = start and string.sub(model.stripped, start, stop) or string.sub(model.stripped, from)
    local at = {}
    for _, name in ipairs(names) do
        local count, first = 0, nil
        for position in string.gmatch(body, "%f[%w_]()" .. name .. "%s*=%f[^=]") do
            count, first = count + 1, first or position
        end
        if count > 1 and start then refuse("%s is given twice", name) end
        at[name] = first or math.huge
    end
    table.sort(names, function(a, b) if at[a] ~= at[b] then return at[a] < at[b] end return a < b end)
    return names
end

-- of parameters, and of flavours in the names of charges: what the program and its result files have room for
local MAX_NAME = 60

local function check_length(name, what, most)
    if #name > most then
        refuse("%s '%s...' is %d characters long; at most %d are possible", what, string.sub(name, 1, 20),
            #name, most)
    end
end

local function check_name(model, name, what)
    if not string.find(name, "^%a[%w_]*$") then
        refuse("%s '%s' must be a name of letters, digits and _", what, name)
    end
    check_length(name, what, MAX_NAME)
    if not_possible[name] then refuse("%s", not_possible[name]) end
    if model.words[name] ~= nil then
        refuse("%s cannot be called '%s': that word is part of the model language", what, name)
    end
    if model.structural[name] ~= nil or model.params[name] then
        refuse("'%s' is already a parameter", name)
    end
    if model.operators[name] then
        refuse("%s cannot be called '%s': that is an operator of the site", what, name)
    end
    if model.globals[name] ~= nil then refuse("'%s' is already defined", name) end
end

local function operator_names(model)
    return util.sorted_keys(model.operators)
end

-- The operator called `name`, or nil.
local function find_operator(model, name)
    local known = model.operators[name]
    if not known then return nil end
    return algebra.operator(name, known ~= true and known or nil)
end

local function need_operator(model, name, whence)
    local op = find_operator(model, name)
    if not op then
        refuse("%s needs the operator %s, which no site has%s", whence, name,
            util.hint(name, operator_names(model), "operators"))
    end
    return op
end

-- S_i.S_j, of a part of a product space by its suffix: "_1", "_spin".
local function spin_dot(model, part)
    local word = "S_dot_S" .. part
    return function(a, b)
        local plus, minus, z = need_operator(model, "Sp" .. part, word),
            need_operator(model, "Sm" .. part, word), need_operator(model, "Sz" .. part, word)
        return (plus(a) * minus(b) + minus(a) * plus(b)) / 2 + z(a) * z(b)
    end
end

local function need_site(model, word)
    if #model.types == 0 then
        refuse("%s must come after site(...), which says what lives on a site", word)
    end
end

local function statement(model, word, st, expr)
    need_site(model, word)
    if not model.conserved then
        refuse("%s must come after conserve, which names the conserved charges (conserve \"nothing\" if there is none)", word)
    end
    if #model.statements >= MAX_STATEMENTS then refuse("more than %d terms", MAX_STATEMENTS) end
    if expr == nil then refuse("%s has no term in it", word) end
    if expr == algebra.hc then refuse("hc can only be added, as in A + hc") end
    local sum = algebra.to_ops(expr)
    if not sum then refuse("%s needs operators, got %s", word, algebra.describe(expr)) end
    st.word, st.expr, st.line = word, sum, util.model_line()
    model.statements[#model.statements + 1] = st
end

-- Numbers and symbols.
local function add_numbers(w)
    w.pi, w.hc, w.r, w.x, w.y, w.N = math.pi, algebra.hc, algebra.symbol("r"), algebra.symbol("x"),
        algebra.symbol("y"), algebra.symbol("N")
    w.i, w.j, w.k, w.l = algebra.slot(1), algebra.slot(2), algebra.slot(3), algebra.slot(4)
    w.s, w.s2 = algebra.flavour("s"), algebra.flavour("s2")
    function w.at(number)
        if not util.is_integer(number) or number < 1 or number > MAX_SLOTS then
            refuse("at(...) needs a whole number from 1 to %d", MAX_SLOTS)
        end
        return algebra.slot(math.tointeger(number))
    end
    function w.number(slot)
        if not algebra.is_slot(slot) then
            refuse("number(...) needs one of the sites i, j, k, l, got %s", algebra.describe(slot))
        end
        return algebra.map_coef(algebra.to_coef(slot), function(t)
            return {k = "site", slot = t.slot, explicit = true}
        end)
    end
    for name in pairs(algebra.functions) do
        w[name] = function(v) return algebra.apply(name, v) end
    end
    function w.adj(v) return algebra.adjoint(v) end
end

-- Structural parameters, local spaces, sites.
local function add_structure(w, model)
    function w.structural(t)
        if not util.is_plain(t) then refuse("structural needs { name = value, ... }") end
        if model.structural_line then refuse("structural is given twice") end
        if #model.types > 0 then refuse("structural must come before site(...)") end
        model.structural_line = util.model_line()
        if #t > 0 then refuse("structural needs { name = value, ... }") end
        for _, name in ipairs(file_order(model, "structural", t)) do
            local value = t[name]
            check_name(model, name, "a structural parameter")
            if type(value) ~= "number" or not util.is_finite(value) then
                refuse("the structural parameter %s needs a number as default, got %s", name, util.described(value))
            end
            local text = model.set[name]
            if text then
                local given = util.parse_number(text)
                if not given or not util.is_finite(given) then refuse("%s=%s is not a number", name, text) end
                value = given
            end
            model.structural[name] = value
            model.structural_order[#model.structural_order + 1] = name
        end
    end

    w.spin, w.pauli, w.electron, w.fermion, w.boson = space.spin, space.pauli, space.electron, space.fermion,
        space.boson
    w.product, w.without = space.product, space.without
    function w.matrices(t)
        return space.matrices(t, util.is_plain(t) and file_order(model, "matrices", t) or {})
    end

    function w.site(where, what)
        if what == nil then where, what = nil, where end
        if not space.is(what) then
            refuse("site(...) needs a local space such as spin(1/2), electron(), fermion{...}, boson(8), product(...) or matrices{...}, got %s", algebra.describe(what))
        end
        if where ~= nil and (type(where) ~= "string" or not string.find(where, "^[%w_%-]+$")) then
            refuse('site(where, space) needs "ends", "first", "last", "odd", "even" or a site class of a lattice file, got %s',
                algebra.describe(where))
        end
        if model.conserved then refuse("site(...) must come before conserve") end
        for _, t in ipairs(model.types) do
            if t.where == where then
                if where then refuse("site(\"%s\", ...) is given twice", where) end
                refuse("site(...) is given twice; other kinds of sites need a place, as in site(\"ends\", spin(1/2))")
            end
        end
        for _, name in ipairs(what.order) do
            if model.words[name] ~= nil or model.structural[name] ~= nil or not_possible[name] then
                refuse("an operator cannot be called '%s': that word is taken", name)
            end
            if model.params[name] then
                refuse("an operator cannot be called '%s': that is a parameter", name)
            end
            model.operators[name] = true
        end
        for family in pairs(what.family or {}) do
            if not model.operators[family] then model.operators[family] = what.flavour[1] end
            model.family[family] = true
        end
        for _, f in ipairs(what.flavour or {}) do
            if not model.has_flavour[f] then
                model.has_flavour[f] = true
                model.flavours[#model.flavours + 1] = f
            end
        end
        model.types[#model.types + 1] = {space = what, where = where, line = util.model_line()}
    end
end

-- Charges.
local function add_charges(w, model)
    local Modulus = {__name = "modulus", opaque = true}
    function w.mod(v, n)
        if not algebra.to_ops(v) then
            refuse("mod(Q, n) needs a diagonal operator first, got %s", algebra.describe(v))
        end
        if not util.is_integer(n) or n < 2 or n > 64 then
            refuse("mod(Q, n) needs a whole number n from 2 to 64")
        end
        return setmetatable({expr = algebra.to_ops(v), modulus = math.tointeger(n)}, Modulus)
    end
    local function charge(name, v)
        if not string.find(name, "^%a[%w_]*$") then
            refuse("a charge '%s' must be a name of letters, digits and _", name)
        end
        check_length(name, "the charge", MAX_NAME + 4)
        for _, c in ipairs(model.charges) do
            if c.name == name then refuse("the charge %s is given twice", name) end
        end
        local modulus = 0
        if getmetatable(v) == Modulus then v, modulus = v.expr, v.modulus end
        local expr = algebra.is_ops(v) and v
        if not expr then
            refuse("the charge %s must be a diagonal operator such as n or Sz, or mod(n, 2), got %s", name,
                algebra.describe(v))
        end
        model.charges[#model.charges + 1] = {name = name, expr = expr, modulus = modulus,
            line = util.model_line()}
    end
    local function charge_by_name(name)
        if name == "each flavour" then
            if #model.flavours == 0 then refuse("conserve \"each flavour\" needs fermions with flavours") end
            for _, f in ipairs(model.flavours) do charge("N_" .. f, find_operator(model, "n_" .. f)) end
            return
        end
        local op = find_operator(model, name)
        if not op and string.sub(name, 1, 1) == "N" then
            op = find_operator(model, "n" .. string.sub(name, 2))
        end
        if not op then
            refuse("no operator '%s' to conserve%s; a combination is written as in conserve { Q = n_up - n_dn }", name,
                util.hint(name, operator_names(model), "operators"))
        end
        charge(name, op)
    end
    function w.conserve(first, ...)
        need_site(model, "conserve")
        if model.conserved then refuse("conserve is given twice; put all charges into one") end
        model.conserved = true
        model.conserve_line = util.model_line()
        if first == "nothing" and select("#", ...) == 0 then return end
        if util.is_plain(first) then
            if select("#", ...) > 0 then refuse("conserve takes one list") end
            for _, name in ipairs(first) do
                if type(name) ~= "string" then
                    refuse("conserve { ... } needs names in quotes or NAME = operator")
                end
                charge_by_name(name)
            end
            for _, name in ipairs(file_order(model, "conserve", first)) do charge(name, first[name]) end
        else
            for _, name in ipairs({first, ...}) do
                if type(name) ~= "string" then
                    refuse("conserve needs names in quotes or { NAME = operator }, got %s",
                        algebra.describe(name))
                end
                charge_by_name(name)
            end
        end
        if #model.charges == 0 then
            refuse("conserve names no charge; write conserve \"nothing\" if there is none")
        end
    end
end

-- Run-time parameters.
local function add_parameters(w, model)
    local Array = {__name = "array", opaque = true}
    local function array(kind)
        return function(v)
            if type(v) ~= "number" or not util.is_finite(v) then
                refuse("per_%s(...) needs a number as default", kind)
            end
            return setmetatable({kind = kind, value = v}, Array)
        end
    end
    w.per_site, w.per_bond = array("site"), array("bond")
    function w.parameters(t)
        if not util.is_plain(t) or #t > 0 then refuse("parameters needs { name = default, ... }") end
        for _, name in ipairs(file_order(model, "parameters", t)) do
            local v, kind = t[name], "scalar"
            check_name(model, name, "a parameter")
            if getmetatable(v) == Array then v, kind = v.value, v.kind end
            if type(v) ~= "number" or not util.is_finite(v) then
                refuse("the parameter %s needs a real number as default, per_site(number) or per_bond(number), got %s", name, algebra.describe(v))
            end
            model.params[name] = {name = name, kind = kind, value = v + 0.0, line = util.model_line()}
            model.param_order[#model.param_order + 1] = name
        end
    end
end

-- Sums over flavours.
local function add_sums(w, model)
    local function sum_over(names, v, choices)
        local sum = algebra.to_ops(v)
        if not sum then refuse("sum(...) needs operators, got %s", algebra.describe(v)) end
        if #model.flavours == 0 then refuse("sum over flavours: no site has flavours") end
        local total = algebra.ops({})
        for _, choice in ipairs(choices) do
            local map = {}
            for p, name in ipairs(names) do map[name] = choice[p] end
            local part, replaced = algebra.substitute(sum, map)
            -- in the sum, not in each product of it: (n(i,s) - 1/2)*(n(i,s2) - 1/2) has some with one of them
            -- or none
            for _, name in ipairs(names) do
                if not replaced[name] then
                    refuse("sum over a flavour that does not occur in %s: %s", algebra.ops_text(sum),
                        name.name)
                end
            end
            total = total + part
        end
        return total
    end
    function w.sum(s, v)
        if not algebra.is_flavour(s) then
            refuse("sum(s, ...) needs the flavour s or s2 first, got %s", algebra.describe(s))
        end
        local choices = {}
        for p, f in ipairs(model.flavours) do choices[p] = {f} end
        return sum_over({s}, v, choices)
    end
    function w.sum_pairs(s, s2, v)
        if not algebra.is_flavour(s) or not algebra.is_flavour(s2) or s == s2 then
            refuse("sum_pairs(s, s2, ...) needs the two flavours s and s2 first")
        end
        local choices = {}
        for p, f in ipairs(model.flavours) do
            for q = p + 1, #model.flavours do choices[#choices + 1] = {f, model.flavours[q]} end
        end
        return sum_over({s, s2}, v, choices)
    end
    w.S_dot_S = spin_dot(model, "")
end

-- Terms.
local function add_terms(w, model)
    local function class_name(word, class)
        if type(class) ~= "string" or not string.find(class, "^[%w_%-]+$") then
            refuse("%s needs the name of a class first, as in %s(\"nn\", ...), got %s", word, word,
                algebra.describe(class))
        end
        return class
    end
    function w.onsite(where, expr)
        if type(where) == "string" then where = class_name("onsite", where) else where, expr = nil, where end
        statement(model, "onsite", {place = "SITE", where = where, nslot = 1}, expr)
    end
    function w.bond(class, expr)
        statement(model, "bond", {place = "BOND", where = class_name("bond", class), nslot = 2}, expr)
    end
    function w.pairs(distance, expr)
        if expr == nil then distance, expr = nil, distance end
        if distance ~= nil
            and (type(distance) ~= "number" or not util.is_finite(distance) or distance <= 0) then
            refuse("pairs(distance, ...) needs a positive number, got %s", algebra.describe(distance))
        end
        statement(model, "pairs", {place = "PAIR", distance = distance, nslot = 2}, expr)
    end
    function w.run(length, expr)
        if not util.is_integer(length) or length < 1 or length > MAX_SLOTS then
            refuse("run(length, ...) needs a whole number from 1 to %d", MAX_SLOTS)
        end
        statement(model, "run", {place = "RUN", nslot = math.tointeger(length)}, expr)
    end
    function w.loop(length, class, expr)
        if not util.is_integer(length) or length < 3 or length > MAX_LOOP then
            refuse("loop(length, class, ...) needs a whole number from 3 to %d", MAX_LOOP)
        end
        statement(model, "loop",
            {place = "LOOP", where = class_name("loop", class), nslot = math.tointeger(length)}, expr)
    end
    function w.named(sites, expr)
        if not util.is_plain(sites) or #sites == 0 then
            refuse("named(sites, ...) needs a list of sites such as {\"0\", \"-1\"}, got %s",
                algebra.describe(sites))
        end
        if #sites > MAX_SLOTS then refuse("named(...) takes at most %d sites, got %d", MAX_SLOTS, #sites) end
        local list = {}
        for p, v in ipairs(sites) do
            if math.type(v) == "integer" then v = tostring(v) end
            if type(v) ~= "string" or v == "" or string.find(v, "[%c]") then
                refuse("site %d of named(...) must be a number or a name in quotes", p)
            end
            list[p] = v
        end
        statement(model, "named", {place = "NAMED", nslot = #list, sites = list}, expr)
    end
    function w.check(condition, reason)
        if not condition then
            refuse("%s", type(reason) == "string" and reason or "a check of the model failed")
        end
    end
end

-- All words that a model can use.
local function make_words(model)
    local w = {}
    add_numbers(w)
    add_structure(w, model)
    add_charges(w, model)
    add_parameters(w, model)
    add_sums(w, model)
    add_terms(w, model)
    return w
end

-- The border between a model and the generator: what a model holds of the language is an empty table that
-- stands for a value in here. Nothing can be read from or written into it; it can be added, multiplied,
-- called and handed to words.
local inside = setmetatable({}, {__mode = "k"}) -- proxy -> value
local proxy = {__name = "expression", __metatable = false}

local function hand_out(v)
    local class = type(v) == "table" and getmetatable(v)
    if not class or not class.opaque then return v end
    local out = setmetatable({}, proxy)
    inside[out] = v
    return out
end

-- The value for what a model hands in; tables of its own are copied, with what they hold.
local function take_in(v, depth)
    if type(v) ~= "table" then return v end
    if inside[v] then return inside[v] end
    if not util.is_plain(v) then refuse("_ENV is no value") end
    if depth == MAX_DEPTH then refuse("lists within lists, more than %d deep", MAX_DEPTH) end
    local copy = {}
    for key, value in next, v do
        if type(key) ~= "string" and type(key) ~= "number" then
            refuse("a list has an entry whose key is a %s; allowed: names and numbers", type(key))
        end
        copy[key] = take_in(value, depth + 1)
    end
    return copy
end

local function guard(f)
    return function(...)
        local given = table.pack(...)
        for p = 1, given.n do given[p] = take_in(given[p], 0) end
        return hand_out(f(table.unpack(given, 1, given.n)))
    end
end

local function class_of(v) return type(v) == "table" and getmetatable(v) or nil end
for _, event in ipairs({"__add", "__sub", "__mul", "__div", "__pow", "__unm", "__mod", "__idiv", "__concat",
    "__lt", "__le", "__call"}) do
    proxy[event] = guard(function(a, b, ...)
        local handler = class_of(a) and class_of(a)[event]
        if not handler and event ~= "__call" then handler = class_of(b) and class_of(b)[event] end
        if not handler then
            refuse("%s cannot be used in this way", algebra.describe(class_of(a) and a or b))
        end
        return handler(a, b, ...)
    end)
end
function proxy.__index(v, name)
    refuse("%s has no parts%s", algebra.describe(inside[v]),
        type(name) == "string" and string.format(", and none called '%s'", string.sub(name, 1, 60)) or "")
end
function proxy.__newindex(v) refuse("%s cannot be changed", algebra.describe(inside[v])) end
function proxy.__len(v) refuse("%s has no length", algebra.describe(inside[v])) end

local function make_environment(model)
    local words = {}
    for name, v in pairs(model.words) do words[name] = type(v) == "function" and guard(v) or hand_out(v) end
    local function candidates()
        local seen, list = {}, {}
        for _, t in ipairs({words, model.structural, model.params, model.operators, model.globals}) do
            for name in pairs(t) do
                if not seen[name] then seen[name] = true; list[#list + 1] = name end
                local part = t == model.operators and string.match(name, "^Sp(_[%w_]+)$")
                if part then list[#list + 1] = "S_dot_S" .. part end
            end
        end
        if #model.types > 0 and not find_operator(model, "Sp") then -- sites without one spin have no S_dot_S
            for n, name in ipairs(list) do if name == "S_dot_S" then table.remove(list, n); break end end
        end
        table.sort(list)
        return list
    end
    return setmetatable({}, {
        __index = function(_, name)
            if type(name) ~= "string" then refuse("a name is expected") end
            if words[name] ~= nil then return words[name] end
            if model.structural[name] ~= nil then
                model.structural_used[name] = true
                return model.structural[name]
            end
            local p = model.params[name]
            if p then return hand_out(algebra.parameter(name, p.kind)) end
            local op = find_operator(model, name)
            if op then return hand_out(op) end
            if model.globals[name] ~= nil then return model.globals[name] end
            local part = string.match(name, "^S_dot_S(_[%w_]+)$")
            if part and find_operator(model, "Sp" .. part) then return guard(spin_dot(model, part)) end
            if not_possible[name] then refuse("%s", not_possible[name]) end
            if written_otherwise[name] then
                refuse("unknown name '%s'; %s", name, written_otherwise[name]) end
            local near = util.closest(name, candidates())
            refuse("unknown name '%s'%s", string.sub(name, 1, 60),
                near and string.format("; did you mean '%s'?", near)
                    or (#model.types == 0 and "; operators are known after site(...)"
                        or "; a number of yours is declared before: parameters { NAME = 1 }"))
        end,
        __newindex = function(_, name, value)
            if type(name) ~= "string" then refuse("a name is expected") end
            if model.globals[name] == nil then check_name(model, name, "a definition") end
            model.globals[name] = value
        end,
        __metatable = false,
    })
end

-- Runs a chunk without the methods of strings, which lead to Lua's library. In the program strings have none.
local function run_closed(text, chunk)
    local strings = getmetatable("")
    if not strings then return pcall(util.bounded, text, util.SHORT_STEPS, chunk) end
    local methods = strings.__index
    strings.__index = {}
    local ok, err = pcall(util.bounded, text, util.SHORT_STEPS, chunk)
    strings.__index = methods
    return ok, err
end

-- What Lua says about a line, in words of a model.
local function from_lua(message)
    local line, text = string.match(message, "^MODEL:(%d+): (.*)$")
    if not line then
        line = string.match(message, "MODEL:(%d+):")
        text = message
    end
    text = string.gsub(text, "%s+", " ")
    if string.find(text, "stack overflow", 1, true) then text = "endless recursion" end
    if string.find(text, "^malformed number near '[%d.]+[ij]") then
        text = text .. "; there is no imaginary unit: kronlat computes with real numbers only"
    end
    if string.find(text, "^bad 'for' ") then
        text = text .. "; the number of sites and parameters are known when a run begins, not here: "
            .. "onsite, bond, pairs and run are sums over sites by themselves"
    end
    return tonumber(line) or 1, text
end

-- text: the file; set: {name = text} of structural parameters; others: true where it may name other
-- parameters too. Returns the model as written, or raises a refusal.
function language.read(text, set, others)
    text = string.gsub(text, "\r\n", "\n")
    text = string.gsub(text, "^\xEF\xBB\xBF", "")
    local model = {
        text = text, stripped = strip_comments(text), set = set or {},
        structural = {}, structural_order = {}, structural_used = {}, params = {}, param_order = {},
            operators = {}, family = {}, has_flavour = {},
        flavours = {}, types = {}, charges = {}, statements = {}, globals = {}, words = {},
    }
    local formula = string.match(text, "^%-%-%s*([^\n]*)")
    if not formula or string.sub(formula, 1, 1) == "[" or not string.find(formula, "H") then
        -- A hint only; which word is a job is found before any Lua runs, by names_job of commandline.c.
        local job = string.find(model.stripped, "^%s*return%f[%W]")
        local lacks = formula and not string.find(formula, "H") and "; there is no H in this comment" or ""
        refuse_at(1, "line 1 must be a comment with the Hamiltonian, as in: -- H = J sum_<ij> S_i.S_j"
            .. (job and "; a file that returns options is a job, for kronlat run or plan" or lacks))
    end
    model.formula = string.gsub(formula, "%s+$", "")
    if string.find(text, "\27", 1, true) or string.find(text, "\0", 1, true) then
        refuse_at(1, "the file is not a text")
    end
    model.words = make_words(model)
    algebra.check_flavour = function(name, placeholder, full)
        if not model.family[name] then refuse("the operator %s has no flavours", name) end
        if not placeholder and not model.operators[full] then
            refuse("no flavour %s%s", string.sub(full, #name + 2),
                util.hint(string.sub(full, #name + 2), model.flavours, "flavours"))
        end
    end
    local chunk, why = load(text, util.CHUNK, "t", make_environment(model))
    -- Lua's parser gave up, and knows no line
    if not chunk and (type(why) ~= "string" or string.find(why, "C stack overflow", 1, true)) then
        refuse_at(1, "the model is nested too deeply (too many brackets or blocks within each other)")
    end
    if not chunk then local line, reason = from_lua(why); refuse_at(line, "%s", reason) end
    local ok, err = run_closed(text, chunk)
    if not ok then
        if type(err) == "table" and err.refusal then error(err, 0) end
        if type(err) == "string"
            and (string.find(err, "^MODEL:") or string.find(err, "stack overflow", 1, true)
            or string.find(err, "not enough memory", 1, true)) then
            local line, reason = from_lua(err)
            refuse_at(line, "%s", reason)
        end
        error(err, 0)
    end

    for _, name in ipairs(util.sorted_keys(model.set)) do
        if model.structural[name] == nil and not others then
            if model.params[name] then
                refuse_at(model.params[name].line, "%s is a run-time parameter, not a structural one", name)
            end
            refuse_at(model.structural_line or 1, "no structural parameter '%s'%s", name,
                util.hint(name, model.structural_order, "structural parameters"))
        end
    end
    if #model.types == 0 then refuse_at(1, "the model has no site(...), which says what lives on a site") end
    if not model.conserved then
        refuse_at(model.types[#model.types].line,
            "the model has no conserve line; write conserve \"nothing\" if no charge is conserved")
    end
    if #model.statements == 0 then
        refuse_at(1, "the model has no terms: write onsite, bond, pairs, run or named")
    end
    for _, name in ipairs(model.structural_order) do
        if not model.structural_used[name] then
            refuse_at(model.structural_line, "the structural parameter %s is not used", name)
        end
    end
    local places = {}
    for _, t in ipairs(model.types) do places[t.where or ""] = t end
    if not places[""] and not (places.odd and places.even) then
        refuse_at(model.types[1].line,
            "site(\"%s\", ...) leaves sites without a local space; add site(...) for all others",
                model.types[1].where)
    end
    return model
end

function language.variant(model)
    local parts = {}
    for p, name in ipairs(model.structural_order) do
        parts[p] = name .. "=" .. util.fraction(model.structural[name])
    end
    return table.concat(parts, ",")
end

return language
