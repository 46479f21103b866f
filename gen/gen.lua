-- Command line of the generator: a model description becomes one C file. Reads nothing but the model, the templates and its own files.
--   gen.lua --model FILE [--set NAME=VALUE]... [--symbol NAME] --out OUT.c [--dep OUT.d]
--   gen.lua --model FILE [--set NAME=VALUE]... --describe
--   gen.lua --registry OUT.c [--dep OUT.d] SYMBOL...
--   gen.lua --phase OUT.h [--dep OUT.d]
-- Exit status 0, or 2 with one line "file:line: reason" on stderr.
-- SPDX-License-Identifier: Apache-2.0
local here = string.match(arg and arg[0] or "gen/gen.lua", "^(.*/)") or "./"
local above, last = string.match(here, "^(.*/)([^/]+)/$")
local root = above and last ~= "." and last ~= ".." and above or here .. "../"
package.path = here .. "?.lua;" .. package.path

local MODULES = {"util", "matrix", "fermion", "algebra", "space", "language", "lower", "emit"}
for _, name in ipairs(MODULES) do require(name) end
local util, language, lower, emit = require("util"), require("language"), require("lower"), require("emit")

local function stop(file, line, text)
    text = string.gsub(text, "%s+", " ")
    io.stderr:write(string.format("%s:%d: %s\n", file, line, text))
    os.exit(2)
end
local function usage(text) stop("gen.lua", 1, text) end

local read_files = {}
local function read(path)
    local text, why = util.read(path)
    if not text then stop(path, 1, "cannot be read: " .. tostring(why)) end
    read_files[#read_files + 1] = path
    return text
end
local function write(path, text)
    local ok, why = util.write_if_changed(path, text)
    if not ok then stop(path, 1, "cannot be written: " .. tostring(why)) end
end

-- A make rule that names every file read.
local function write_dep(path, target)
    local function escape(name) return (string.gsub(name, "[ #$\\]", {[" "] = "\\ ", ["#"] = "\\#", ["$"] = "$$", ["\\"] = "\\\\"})) end
    local parts = {}
    for p, name in ipairs(read_files) do parts[p] = escape(name) end
    write(path, escape(target) .. ": " .. table.concat(parts, " \\\n  ") .. "\n")
end

-- The generator's own text is part of every hash: another generator may make other tables.
local function generator_text(template_name)
    local pieces = {}
    for _, name in ipairs(MODULES) do pieces[#pieces + 1] = read(here .. name .. ".lua") end
    pieces[#pieces + 1] = read(arg[0])
    pieces[#pieces + 1] = read(root .. "templates/" .. template_name)
    return pieces, pieces[#pieces]
end

local function parse(words)
    local opt = {set = {}, symbols = {}}
    local takes_value = {["--model"] = "model", ["--out"] = "out", ["--dep"] = "dep", ["--symbol"] = "symbol", ["--registry"] = "registry", ["--phase"] = "phase"}
    local p = 1
    while p <= #words do
        local word = words[p]
        local key = takes_value[word]
        if key or word == "--set" then
            p = p + 1
            local value = words[p]
            if not value then usage(word .. " needs a value") end
            if key then
                if opt[key] then usage(word .. " is given twice") end
                opt[key] = value
            else
                local name, text = string.match(value, "^([%a_][%w_]*)=(.+)$")
                if not name then usage(string.format("--set %s: NAME=VALUE is expected", value)) end
                if opt.set[name] then usage(string.format("--set %s is given twice", name)) end
                opt.set[name] = text
            end
        elseif word == "--describe" then
            opt.describe = true
        elseif opt.registry and not string.find(word, "^%-") then
            opt.symbols[#opt.symbols + 1] = word
        else
            usage(string.format("unknown option '%s'%s", word,
                util.hint(word, {"--model", "--set", "--symbol", "--out", "--dep", "--describe", "--registry", "--phase"}, "options")))
        end
        p = p + 1
    end
    return opt
end

local function check_symbol(symbol)
    if not string.find(symbol, "^[%a_][%w_]*$") then usage(string.format("'%s' is not a C name", symbol)) end
end

-- Everything a refusal can come from runs in here, so that its line reaches the user and a traceback never does.
local function guarded(file, action)
    local ok, err = xpcall(action, function(e)
        if type(e) == "table" and e.refusal then return e end
        return {text = "internal error of the generator: " .. tostring(e), line = util.model_line() or 1}
    end)
    if not ok then stop(file, err.line, err.text) end
end

local function describe(model, out, name)
    local lines = {"name " .. name, "formula " .. model.formula, "variant " .. language.variant(model)}
    for _, s in ipairs(model.structural_order) do lines[#lines + 1] = string.format("structural %s %s", s, util.fraction(model.structural[s])) end
    for _, p in ipairs(out.params) do lines[#lines + 1] = string.format("parameter %s %s %s", p.name, p.kind, util.number(p.value)) end
    for _, c in ipairs(out.charges) do
        lines[#lines + 1] = string.format("charge %s %s unit %s", c.name, c.modulus == 0 and "U1" or "Z" .. c.modulus, util.fraction(c.num / c.den))
    end
    for _, t in ipairs(out.types) do
        local named = {}
        for _, op in ipairs(t.op) do
            if op.named then named[#named + 1] = op.name end
        end
        lines[#lines + 1] = string.format("site %s states %d at %s", string.gsub(t.name, "%s", ""), t.dim, t.where or "all")
        lines[#lines + 1] = "operators " .. table.concat(named, " ")
    end
    for _, e in ipairs(out.terms) do lines[#lines + 1] = string.format("term %d %s %s", e.line, e.st.word, e.text) end
    return table.concat(lines, "\n") .. "\n"
end

local function main(words)
    local opt = parse(words)
    if opt.phase then
        local pieces, template_text = generator_text("phase.h.tpl")
        guarded("gen.lua", function() write(opt.phase, emit.phase(template_text, util.hash(pieces))) end)
        if opt.dep then write_dep(opt.dep, opt.phase) end
        return
    end
    if opt.registry then
        local pieces, template_text = generator_text("registry.c.tpl")
        for _, s in ipairs(opt.symbols) do
            check_symbol(s)
            pieces[#pieces + 1] = s
        end
        guarded("gen.lua", function() write(opt.registry, emit.registry(opt.symbols, template_text, util.hash(pieces))) end)
        if opt.dep then write_dep(opt.dep, opt.registry) end
        return
    end
    if not opt.model then usage("--model, --registry or --phase is needed") end
    if not opt.out and not opt.describe then usage("--out or --describe is needed") end
    local symbol = opt.symbol or "kl_model_entry"
    check_symbol(symbol)
    local text = read(opt.model)
    local source = string.match(opt.model, "([^/]+)$")
    local name = string.gsub(source, "%.lua$", "")
    local pieces, template_text = generator_text("model.c.tpl")
    guarded(opt.model, function()
        local model = language.read(text, opt.set)
        local out = lower.model(model)
        if opt.describe then
            io.stdout:write(describe(model, out, name))
            return
        end
        local variant = language.variant(model)
        table.move({source, text, variant}, 1, 3, #pieces + 1, pieces)
        local c = emit.model(out, {
            name = name, source = source, variant = variant, formula = model.formula, symbol = symbol, hash = util.hash(pieces), template = template_text,
        })
        write(opt.out, c)
    end)
    if opt.dep and opt.out then write_dep(opt.dep, opt.out) end
end

main(arg)
