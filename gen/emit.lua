-- Writes the tables of a model (tables.lua) as C through the templates. Holds no physics, and no text of a
-- model reaches the C but as a checked atom.
-- SPDX-License-Identifier: Apache-2.0
local template = require("pl.template")
local util = require("util")
local fermion = require("fermion")
local charges = require("charges")

local emit = {}
local WIDTH = 110

-- Atoms -------------------------------------------------------------------------------------------

-- A piece of C. Only the functions of this section make them, of checked values and of this file's own texts.
local Atom = {__tostring = function(a) return a.text end}
local function atom(text) return setmetatable({text = text}, Atom) end
local function is_atom(v) return getmetatable(v) == Atom end

local function name(s)
    assert(type(s) == "string" and string.find(s, "^[A-Za-z_][A-Za-z0-9_]*$"), "a C name is expected")
    return atom(s)
end
local function int(n)
    assert(math.type(n) == "integer", "a whole number is expected")
    return atom(string.format("%d", n))
end
local function hex(n)
    assert(math.type(n) == "integer", "a whole number is expected")
    return atom(string.format("0x%x", n))
end
local function real(x)
    assert(math.type(x) == "float" and util.is_finite(x), "a finite real number is expected")
    return atom(util.c_number(x))
end
local function text(s)
    assert(type(s) == "string", "a text is expected")
    return atom(util.c_string(s))
end
local function text_or_null(s) return s == nil and atom("NULL") or text(s) end

-- What stands in a comment.
local function note(s)
    local safe = util.c_comment(s)
    assert(not string.find(safe, "*/", 1, true), "a comment ends early")
    return atom(safe)
end

-- The format, a text of this file, with atoms at its %s.
local function fill(format, ...)
    local parts = {...}
    for p, a in ipairs(parts) do
        assert(is_atom(a), "an atom is expected")
        parts[p] = a.text
    end
    return atom(string.format(format, table.unpack(parts)))
end

-- Atoms joined by ", " and broken before WIDTH.
local function wrap(atoms, indent)
    local lines, line = {}, ""
    for p, a in ipairs(atoms) do
        assert(is_atom(a), "an atom is expected")
        local piece = a.text .. (p < #atoms and ", " or "")
        if #line + #piece > WIDTH and line ~= "" then
            lines[#lines + 1] = (string.gsub(line, " $", ""))
            line = indent or "    "
        end
        line = line .. piece
    end
    lines[#lines + 1] = line
    return atom(table.concat(lines, "\n"))
end

local function map(list, make)
    local atoms = {}
    for p, v in ipairs(list) do atoms[p] = make(v) end
    return atoms
end
local function ints(list) return #list == 0 and int(0) or wrap(map(list, int)) end

-- Only atoms, whole numbers and truth values, in lists and records, may meet a template.
local function check(v)
    if is_atom(v) or math.type(v) == "integer" or type(v) == "boolean" then return end
    assert(type(v) == "table" and not getmetatable(v), "an atom is expected")
    for _, inner in pairs(v) do check(inner) end
end

local function render(template_text, env)
    check(env)
    env._escape, env.ipairs = "@", ipairs
    local out, why = template.substitute(template_text, env)
    if not out then error(why, 0) end
    return out
end

-- A model -----------------------------------------------------------------------------------------

local function charges_of(v, shift)
    local parts = {}
    for c, charge in ipairs(v.charges) do
        local sign = shift[c] > 0 and charge.modulus == 0 and "+" or ""
        local move = string.format("%s %s%s", charge.name, sign, charges.text(charge, shift[c]))
        if shift[c] ~= 0 then parts[#parts + 1] = move end
    end
    return table.concat(parts, ", ")
end

-- "N_up +1, fermionic, adjoint c_up"; x: an operator or what is kept of several
local function facts(v, x, adjoint)
    local moves = charges_of(v, x.shift)
    if x.adjoint_factor ~= 1 then adjoint = util.number(x.adjoint_factor) .. " " .. adjoint end
    if moves ~= "" then moves = ", " .. moves end
    return string.format("%s%s%s, adjoint %s", x.name, moves, x.odd == 1 and ", fermionic" or "", adjoint)
end

local function charge_view(charge)
    local unit = charge.den == 1 and tostring(charge.num) or string.format("%d/%d", charge.num, charge.den)
    local group = charge.modulus == 0 and (charge.spin == 1 and "total spin" or "U(1)")
        or "Z" .. charge.modulus
    local parity = charge.odd == 1 and ", counts for fermion parity" or ""
    local added = charge.added == 1 and ", added by the generator" or ""
    return {
        init = fill("%s, %s, %s, %s, %s, %s", text(charge.name), int(charge.modulus), int(charge.num),
            int(charge.den), int(charge.odd), int(charge.spin)),
        meaning = note(string.format("%s: %s, unit %s%s%s", charge.name, group, unit, parity, added)),
    }
end

local function operator_view(v, t, index, p)
    local op = t.ops[p]
    local elements = map(op.elements, function(el)
        return fill("{%s, %s, %s}", int(el.row), int(el.col), real(el.value))
    end)
    return {
        index = p - 1, name = note(op.name), elements = wrap(elements),
        init = fill("%s, {%s}, %s, %s, %s, %s, %s, type%s_elem_%s, %s", text(op.name), ints(op.shift),
            int(op.odd), int(op.adjoint), real(op.adjoint_factor), int(op.named), int(#elements), int(index),
                int(p - 1), int(op.rank)),
        meaning = note(string.format("%d: %s", p - 1, facts(v, op, t.ops[op.adjoint + 1].name))),
    }
end

local function product_view(t, p)
    local row = {}
    for b = 1, #t.ops do
        local at = (p - 1) * #t.ops + b
        local op = t.product_op[at]
        row[b] = op == -2 and name("NONE") or op == -1 and name("ZERO")
            or fill("{%s, %s}", int(op), real(t.product_factor[at]))
    end
    return {meaning = note(t.ops[p].name .. " * ..."), init = fill("%s,", wrap(row))}
end

-- Steps of the total spin: what stands instead of products.
local function step_views(t)
    local view = {spin = ints(t.spin), other = ints(t.other), rows = {}}
    for s, state in ipairs(t.states) do
        local row = {}
        for p = 1, #t.states do row[p] = real(t.vector[(s - 1) * #t.states + p]) end
        view.rows[s] = {init = fill("%s,", wrap(row)), meaning = note(state)}
    end
    return view
end

local function type_view(v, index)
    local t = v.types[index + 1]
    local place = #v.types > 1 and "on all other sites" or "on every site"
    if t.where then place = "on sites \"" .. t.where .. "\"" end
    local view = {index = index, charge_rows = {}, ops = {}, product_rows = {}}
    view.states = wrap(map(t.states, text))
    view.meaning = note(string.format("%s, %d states, %s", t.name, #t.states, place))
    for s, state in ipairs(t.states) do
        local parts = {}
        for c, charge in ipairs(v.charges) do
            parts[c] = charge.name .. "=" .. charges.text(charge, t.charges[s][c])
        end
        local values = #parts > 0 and ": " .. table.concat(parts, " ") or ""
        view.charge_rows[s] = {init = ints(t.charges[s]), meaning = note(state .. values)}
    end
    for p = 1, #t.ops do
        view.ops[p] = operator_view(v, t, index, p)
        if not t.spin then view.product_rows[p] = product_view(t, p) end
    end
    view.steps = t.spin and step_views(t) or false
    local i, tail = int(index), "type%s_product, NULL, NULL, NULL, NULL"
    if t.spin then tail = "NULL, type%s_spin, type%s_other, type%s_vector, NULL" end
    view.init = fill("%s, %s, %s, type%s_state, type%s_charge, %s, type%s_op, %s", text(t.name),
        text_or_null(t.where), int(#t.states), i, i, int(#t.ops), i, fill(tail, i, i, i))
    return view
end

local function coef_view(coef, index)
    local steps = map(coef.steps, function(s)
        return fill("{%s, %s, %s, %s}", name("KL_COEF_" .. s.op), int(s.a), int(s.b), real(s.value))
    end)
    return {index = index, steps = wrap(steps), meaning = note(coef.text)}
end

local function operators_view(v, list, index)
    local meaning = "none"
    for t = #list, 1, -1 do
        if list[t] >= 0 then meaning = v.types[t].ops[list[t] + 1].name end
    end
    return {index = index, init = ints(list), meaning = note(meaning)}
end

local function split_view(v, rows, index)
    local view = {index = index, rows = {}, meaning = note(v.kept[rows[#rows].kept + 1].name)}
    for p, s in ipairs(rows) do
        local rest = rows[#rows - p + 1]
        view.rows[p] = {
            init = fill("%s, %s, %s, %s", int(s.kept), int(s.sign), hex(s.left_minus), hex(s.right_minus)),
            meaning = note(v.kept[s.kept + 1].name .. " | " .. v.kept[rest.kept + 1].name),
        }
    end
    return view
end

local place_text = {
    SITE = function(term) return term.where and "sites of class " .. term.where or "every site" end,
    BOND = function(term) return "bonds of class " .. term.where end,
    PAIR = function(term)
        return term.distance > 0 and "pairs at distance " .. util.number(term.distance) or "all pairs"
    end,
    RUN = function(term) return string.format("%d consecutive sites", term.nslot) end,
    NAMED = function(_, sites) return "sites " .. table.concat(sites, ", ") end,
    LOOP = function(term)
        return string.format("closed paths of %d bonds of class %s", term.nslot, term.where)
    end,
}

local function term_view(v, index)
    local term = v.terms[index + 1]
    local sites = v.site_lists[term.sites + 1]
    local factors = map(term.factors, function(f)
        return fill("{%s, ops_%s}", int(f.slot), int(f.operators))
    end)
    local site_list = sites and fill("sites_%s", int(term.sites)) or name("NULL")
    local split, ranks = name("NULL"), name("NULL")
    if term.ranks then ranks = fill("rank_%s", int(index)) else split = fill("split_%s", int(term.split)) end
    return {
        ranks = term.ranks and ints(term.ranks) or false,
        index = index, factors = wrap(factors), meaning = note(term.text),
        place = note(place_text[term.place](term, sites and sites.names)),
        init = fill("%s, %s, %s, %s, %s, %s, factor_%s, %s, {%s, coef_%s}, %s, %s, %s, %s, %s",
            name("KL_PLACE_" .. term.place), text_or_null(term.where), real(term.distance), int(term.nslot),
            site_list, int(#factors), int(index), split, int(#v.coefs[term.coef + 1].steps), int(term.coef),
            int(term.plus_hc), int(term.line), text(term.text), ranks, int(term.check)),
    }
end

local function hash_of(hash) return atom(string.format("%016x", hash)) end

-- v: of tables.of. symbol: the C name of the model.
function emit.model(v, symbol, template_text)
    local env = {
        symbol = name(symbol), hash = hash_of(v.hash), source = note(v.source), formula = note(v.formula),
        has_variant = v.variant ~= "", variant = note(v.variant), c_name = text(v.name),
        c_variant = text(v.variant), c_formula = text(v.formula), c_source = text(v.source),
        charges = map(v.charges, charge_view), params = {}, types = {}, coefs = {}, operators = {},
        site_lists = {}, terms = {}, kept = {}, splits = {},
    }
    for p, param in ipairs(v.params) do
        local kind = param.kind == "SCALAR" and "" or ", per " .. string.lower(param.kind)
        env.params[p] = {
            init = fill("%s, %s, %s", text(param.name), name("KL_PARAM_" .. param.kind), real(param.value)),
            meaning = note(string.format("%d: %s = %s%s", p - 1, param.name, util.number(param.value), kind)),
        }
    end
    for p, k in ipairs(v.kept) do
        env.kept[p] = {
            init = fill("%s, {%s}, %s, %s, %s, 0", text(k.name), ints(k.shift), int(k.odd), int(k.adjoint),
                real(k.adjoint_factor)),
            meaning = note(string.format("%d: %s", p - 1, facts(v, k, v.kept[k.adjoint + 1].name))),
        }
    end
    for p = 1, #v.types do env.types[p] = type_view(v, p - 1) end
    for p, coef in ipairs(v.coefs) do env.coefs[p] = coef_view(coef, p - 1) end
    for p, list in ipairs(v.operators) do env.operators[p] = operators_view(v, list, p - 1) end
    for p, list in ipairs(v.site_lists) do
        env.site_lists[p] = {index = p - 1, init = wrap(map(list.names, text)), line = list.line}
    end
    for p, rows in ipairs(v.splits) do env.splits[p] = split_view(v, rows, p - 1) end
    for p = 1, #v.terms do env.terms[p] = term_view(v, p - 1) end
    return render(template_text, env)
end

-- Other files -------------------------------------------------------------------------------------

function emit.registry(symbols, template_text, hash)
    return render(template_text, {symbols = map(symbols, name), hash = hash_of(hash)})
end

-- Texts for the program: lists of {name, text} of the generator's modules and of models; hash of both.
function emit.embedded(modules, models, hash, template_text)
    local files = {}
    local function view(file)
        local lines, index = {}, #files
        for line in string.gmatch(file.text, "[^\n]*\n?") do
            if line ~= "" then lines[#lines + 1] = text(line) end
        end
        files[index + 1] = {index = index, lines = lines, meaning = note(file.name)}
        return {init = fill("%s, file_%s, %s", text(file.name), int(index), int(#file.text))}
    end
    local env = {modules = map(modules, view), models = map(models, view)}
    env.files, env.hash = files, hash_of(hash)
    return render(template_text, env)
end

-- The rules are C of the generator's own.
function emit.phase(template_text, hash)
    local rules = {}
    for p, rule in ipairs(fermion.c_rules) do
        local words, lines, line = {}, {}, ""
        for word in string.gmatch(rule.formula, "%S+") do words[#words + 1] = word end
        for _, word in ipairs(words) do
            if #line + #word > WIDTH - 6 then
                lines[#lines + 1] = line
                line = "  "
            end
            line = line == "" and word or line .. " " .. word
        end
        lines[#lines + 1] = line
        rules[p] = {formula = atom(table.concat(lines, "\n")), head = atom(rule.head), body = atom(rule.body)}
    end
    return render(template_text, {rules = rules, hash = hash_of(hash)})
end

return emit
