-- Renders lowered models as C through the templates. Holds no physics: every number comes from lower.lua.
-- SPDX-License-Identifier: Apache-2.0
local template = require("pl.template")
local util = require("util")
local algebra = require("algebra")
local matrix = require("matrix")
local fermion = require("fermion")
local lower = require("lower")

local emit = {}
local WIDTH = 128

local function render(text, env)
    env._escape, env.ipairs = "@", ipairs
    local out, why = template.substitute(text, env)
    if not out then error(why, 0) end
    return out
end

-- Items joined by ", " and broken before WIDTH.
local function wrap(items, indent, first)
    local lines, line = {}, first or ""
    for p, item in ipairs(items) do
        local piece = item .. (p < #items and ", " or "")
        if #line + #piece > WIDTH and line ~= "" then
            lines[#lines + 1] = (string.gsub(line, " $", ""))
            line = indent
        end
        line = line .. piece
    end
    lines[#lines + 1] = line
    return table.concat(lines, "\n")
end

local q = util.c_string

local function index_of(v)
    if v == lower.NONE then return "KL_OP_NONE" end
    return tostring(v - 1)
end

local function charges_of(out, shift)
    local parts = {}
    for c, charge in ipairs(out.charges) do
        if shift[c] ~= 0 then parts[#parts + 1] = string.format("%s %s%s", charge.name, shift[c] > 0 and charge.modulus == 0 and "+" or "", lower.charge_text(charge, shift[c])) end
    end
    return table.concat(parts, ", ")
end

-- "N_up +1, fermionic, adjoint c_up"; x: an operator or what is kept of several, with adjoint_factor
local function facts(out, x, adjoint)
    local moves = charges_of(out, x.shift)
    if x.adjoint_factor ~= 1 then adjoint = util.number(x.adjoint_factor) .. " " .. adjoint end
    return string.format("%s%s%s, adjoint %s", x.name, moves ~= "" and ", " .. moves or "", x.odd == 1 and ", fermionic" or "", adjoint)
end

local function int_list(list)
    if #list == 0 then return "0" end
    return table.concat(list, ", ")
end

local function type_view(out, t, index)
    local v = {index = index - 1, charge_rows = {}, ops = {}, product_rows = {}}
    v.meaning = util.c_comment(string.format("%s, %d states, %s", t.name, t.dim, t.where and "on sites \"" .. t.where .. "\"" or (#out.types > 1 and "on all other sites" or "on every site")))
    local states = {}
    for p, state in ipairs(t.state) do
        states[p] = q(state)
        local parts = {}
        for c, charge in ipairs(out.charges) do parts[c] = charge.name .. "=" .. lower.charge_text(charge, t.charge[p][c]) end
        v.charge_rows[p] = {init = int_list(t.charge[p]), meaning = util.c_comment(state .. (#parts > 0 and ": " .. table.concat(parts, " ") or ""))}
    end
    v.states = wrap(states, "    ")
    for p, op in ipairs(t.op) do
        local elements = {}
        for e, el in ipairs(matrix.elements(op.m)) do elements[e] = string.format("{%d, %d, %s}", el[1], el[2], util.c_number(el[3])) end
        v.ops[p] = {
            index = p - 1, name = util.c_comment(op.name), elements = wrap(elements, "    "),
            init = string.format("%s, {%s}, %d, %d, %s, %d, %d, type%d_elem_%d", q(op.name), int_list(op.shift), op.odd, op.adjoint - 1,
                util.c_number(op.adjoint_factor), op.named and 1 or 0, #elements, index - 1, p - 1),
            meaning = util.c_comment(string.format("%d: %s", p - 1, facts(out, op, t.op[op.adjoint].name))),
        }
        local row = {}
        for b, entry in ipairs(t.table[p]) do
            if entry[1] == lower.NONE then
                row[b] = "NONE"
            elseif entry[1] == lower.ZERO then
                row[b] = "ZERO"
            else
                row[b] = string.format("{%d, %s}", entry[1] - 1, util.c_number(entry[2]))
            end
        end
        v.product_rows[p] = {meaning = util.c_comment(op.name .. " * ..."), init = wrap(row, "    ") .. ","}
    end
    v.init = string.format("%s, %s, %d, type%d_state, type%d_charge, %d, type%d_op, type%d_product", q(t.name), t.where and q(t.where) or "NULL", t.dim, index - 1, index - 1,
        #t.op, index - 1, index - 1)
    return v
end

local place_text = {
    SITE = function(st) return st.where and "sites of class " .. st.where or "every site" end,
    BOND = function(st) return "bonds of class " .. st.where end,
    PAIR = function(st) return st.distance and "pairs at distance " .. util.number(st.distance) or "all pairs" end,
    RUN = function(st) return string.format("%d consecutive sites", st.nslot) end,
    NAMED = function(st) return "sites " .. table.concat(st.sites, ", ") end,
}

-- out: lower.model's tables. info: {name, source, variant, formula, symbol, hash, template}.
function emit.model(out, info)
    local env = {
        symbol = info.symbol, hash = string.format("%016x", info.hash), source = util.c_comment(info.source), formula = util.c_comment(info.formula),
        variant = info.variant, c_name = q(info.name), c_variant = q(info.variant), c_formula = q(info.formula), c_source = q(info.source),
        charges = {}, params = {}, types = {}, coefs = {}, factor_ops = {}, site_lists = {}, terms = {}, kept = {}, splits = {},
    }
    for c, charge in ipairs(out.charges) do
        local unit = charge.den == 1 and tostring(charge.num) or string.format("%d/%d", charge.num, charge.den)
        env.charges[c] = {
            init = string.format("%s, %d, %d, %d, %d", q(charge.name), charge.modulus, charge.num, charge.den, charge.odd),
            meaning = string.format("%s: %s, unit %s%s%s", charge.name, charge.modulus == 0 and "U(1)" or "Z" .. charge.modulus, unit,
                charge.odd == 1 and ", counts for fermion parity" or "", charge.added and ", added by the generator" or ""),
        }
    end
    local index = {}
    local kinds = {scalar = "KL_PARAM_SCALAR", site = "KL_PARAM_SITE", bond = "KL_PARAM_BOND"}
    for p, param in ipairs(out.params) do
        index[param.name] = p - 1
        env.params[p] = {
            init = string.format("%s, %s, %s", q(param.name), kinds[param.kind], util.c_number(param.value)),
            meaning = string.format("%d: %s = %s%s", p - 1, param.name, util.number(param.value), param.kind == "scalar" and "" or ", per " .. param.kind),
        }
    end
    for p, t in ipairs(out.types) do env.types[p] = type_view(out, t, p) end
    for p, k in ipairs(out.kept) do
        env.kept[p] = {
            init = string.format("%s, {%s}, %d, %d, %s", q(k.name), int_list(k.shift), k.odd, k.adjoint - 1, util.c_number(k.adjoint_factor)),
            meaning = util.c_comment(string.format("%d: %s", p - 1, facts(out, k, out.kept[k.adjoint].name))),
        }
    end
    local coef_at, ops_at, sites_at, split_at = {}, {}, {}, {}
    for p, e in ipairs(out.terms) do
        local st = e.st
        local body = algebra.coef_c(e.coef, index)
        if not coef_at[body] then
            env.coefs[#env.coefs + 1] = {index = #env.coefs, body = body, constant = not string.find(body, "a->", 1, true), meaning = util.c_comment(algebra.coef_text(e.coef))}
            coef_at[body] = #env.coefs - 1
            if string.find(body, "%f[%w]%l+%(") then env.needs_math = true end
        end
        local factors = {}
        for f, factor in ipairs(e.factors) do
            local ops, meaning = {}, nil
            for t, type_ in ipairs(out.types) do
                ops[t] = index_of(factor.op[t])
                if factor.op[t] ~= lower.NONE then meaning = meaning or type_.op[factor.op[t]].name end
            end
            local init = table.concat(ops, ", ")
            if not ops_at[init] then
                env.factor_ops[#env.factor_ops + 1] = {name = "ops_" .. #env.factor_ops, init = init, meaning = util.c_comment(meaning)}
                ops_at[init] = env.factor_ops[#env.factor_ops].name
            end
            factors[f] = string.format("{%d, %s}", factor.slot - 1, ops_at[init])
        end
        local sites = "NULL"
        if st.sites then
            local list = {}
            for s, site in ipairs(st.sites) do list[s] = q(site) end
            local init = table.concat(list, ", ")
            if not sites_at[init] then
                env.site_lists[#env.site_lists + 1] = {name = "sites_" .. #env.site_lists, init = init, line = st.line}
                sites_at[init] = env.site_lists[#env.site_lists].name
            end
            sites = sites_at[init]
        end
        local all, rows, inits = #e.split, {}, {}
        for mask = 0, all do
            local s = e.split[mask]
            inits[mask + 1] = string.format("%d, %d, 0x%x, 0x%x", s.kept - 1, s.signs.sign, s.signs.left_minus, s.signs.right_minus)
            rows[mask + 1] = {init = inits[mask + 1], meaning = util.c_comment(out.kept[s.kept].name .. " | " .. out.kept[e.split[all - mask].kept].name)}
        end
        local split = table.concat(inits, ";")
        if not split_at[split] then
            env.splits[#env.splits + 1] = {index = #env.splits, rows = rows, meaning = util.c_comment(out.kept[e.split[all].kept].name)}
            split_at[split] = #env.splits - 1
        end
        env.terms[p] = {
            index = p - 1, factors = table.concat(factors, ", "), meaning = util.c_comment(e.text),
            place = util.c_comment(place_text[st.place](st)),
            init = string.format("KL_PLACE_%s, %s, %s, %d, %s, %d, factor_%d, split_%d, coef_%d, %d, %d, %s", st.place, st.where and q(st.where) or "NULL",
                util.c_number(st.distance or 0), st.nslot, sites, #factors, p - 1, split_at[split], coef_at[body], e.hc and 1 or 0, st.line, q(e.text)),
        }
    end
    return render(info.template, env)
end

function emit.registry(symbols, template_text, hash)
    return render(template_text, {symbols = symbols, hash = string.format("%016x", hash)})
end

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
        rules[p] = {formula = table.concat(lines, "\n"), head = rule.head, body = rule.body}
    end
    return render(template_text, {rules = rules, hash = string.format("%016x", hash)})
end

return emit
