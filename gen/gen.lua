-- Command line of the generator: a model description becomes one C file. Reads nothing but the model, the
-- templates and its own files.
--   gen.lua --model FILE [--set NAME=VALUE]... [--spin] [--symbol NAME] --out OUT.c [--dep OUT.d]
--   gen.lua --model FILE [--set NAME=VALUE]... [--spin] --describe
--   gen.lua --registry OUT.c [--dep OUT.d] SYMBOL...
--   gen.lua --phase OUT.h [--dep OUT.d]
--   gen.lua --embed OUT.c [--dep OUT.d] MODEL.lua...
-- Exit status 0, or 2 with one line "file:line: reason" on stderr.
-- SPDX-License-Identifier: Apache-2.0
local here = string.match(arg and arg[0] or "gen/gen.lua", "^(.*/)") or "./"
local above, last = string.match(here, "^(.*/)([^/]+)/$")
local root = above and last ~= "." and last ~= ".." and above or here .. "../"
package.path = here .. "?.lua;" .. package.path

local util, tables, emit = require("util"), require("tables"), require("emit")

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
    local marks = {[" "] = "\\ ", ["#"] = "\\#", ["$"] = "$$", ["\\"] = "\\\\"}
    local function escape(name) return (string.gsub(name, "[ #$\\]", marks)) end
    local parts = {}
    for p, name in ipairs(read_files) do parts[p] = escape(name) end
    write(path, escape(target) .. ": " .. table.concat(parts, " \\\n  ") .. "\n")
end

-- {name, text} of the modules that make tables, all of which are named in the rule.
local function module_files()
    local files = {}
    for p, name in ipairs(tables.modules) do files[p] = {name = name, text = read(here .. name .. ".lua")} end
    return files
end
local function hash_of(...)
    local pieces = {}
    for _, files in ipairs({...}) do
        for _, file in ipairs(files) do pieces[#pieces + 1] = file.text end
    end
    return util.hash(pieces)
end

-- The template, and what else decides what the C looks like is named in the rule.
local function writer_text(template_name)
    read(here .. "emit.lua")
    read(arg[0])
    return read(root .. "templates/" .. template_name)
end

local function parse(words)
    local opt = {set = {}, rest = {}}
    local takes_value = {
        ["--model"] = "model", ["--out"] = "out", ["--dep"] = "dep", ["--symbol"] = "symbol",
        ["--registry"] = "registry", ["--phase"] = "phase", ["--embed"] = "embed",
    }
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
        elseif word == "--spin" then -- the variant with the total spin as a charge
            opt.spin = true
        elseif (opt.registry or opt.embed) and not string.find(word, "^%-") then
            opt.rest[#opt.rest + 1] = word
        else
            local options = util.sorted_keys(takes_value)
            table.move({"--set", "--spin", "--describe"}, 1, 3, #options + 1, options)
            usage(string.format("unknown option '%s'%s", word, util.hint(word, options, "options")))
        end
        p = p + 1
    end
    return opt
end

local function check_symbol(symbol)
    if not string.find(symbol, "^[%a_][%w_]*$") then usage(string.format("'%s' is not a C name", symbol)) end
end

-- Runs the action; a refusal ends the program.
local function guarded(file, action, ...)
    local result, line, why = util.attempt(action, ...)
    if result == nil then stop(file, line, why) end
    return result
end

local words = {SITE = "onsite", BOND = "bond", PAIR = "pairs", RUN = "run", NAMED = "named", LOOP = "loop"}
local function describe(v)
    local lines = {"name " .. v.name, "formula " .. v.formula, "variant " .. v.variant}
    local function add(format, ...) lines[#lines + 1] = string.format(format, ...) end
    for key, value in string.gmatch(v.variant, "([^,=]+)=([^,]+)") do add("structural %s %s", key, value) end
    for _, p in ipairs(v.params) do
        add("parameter %s %s %s", p.name, string.lower(p.kind), util.number(p.value))
    end
    for _, c in ipairs(v.charges) do
        local group = c.modulus > 0 and "Z" .. c.modulus or c.spin == 1 and "SU2" or "U1"
        add("charge %s %s unit %s", c.name, group, util.fraction(c.num / c.den))
    end
    for _, t in ipairs(v.types) do
        local named = {}
        for _, op in ipairs(t.ops) do
            if op.named == 1 then named[#named + 1] = op.name end
        end
        add("site %s states %d at %s", string.gsub(t.name, "%s", ""), #t.states, t.where or "all")
        add("operators %s", table.concat(named, " "))
    end
    for _, term in ipairs(v.terms) do add("term %d %s %s", term.line, words[term.place], term.text) end
    return table.concat(lines, "\n") .. "\n"
end

local function write_phase(opt)
    local template_text = writer_text("phase.h.tpl")
    local hash = util.hash({read(here .. "fermion.lua"), template_text})
    write(opt.phase, guarded("gen.lua", emit.phase, template_text, hash))
    return opt.phase
end

local function write_registry(opt)
    for _, s in ipairs(opt.rest) do check_symbol(s) end
    local template_text = writer_text("registry.c.tpl")
    local hash = util.hash(opt.rest, util.hash({template_text}))
    write(opt.registry, guarded("gen.lua", emit.registry, opt.rest, template_text, hash))
    return opt.registry
end

local function write_embedded(opt)
    local models, modules = {}, module_files()
    for p, path in ipairs(opt.rest) do
        models[p] = {name = string.match(path, "([^/]-)%.lua$") or path, text = read(path)}
    end
    local template_text = writer_text("embedded.c.tpl")
    write(opt.embed, guarded("gen.lua", emit.embedded, modules, models, hash_of(modules, models),
        template_text))
    return opt.embed
end

local function write_model(opt)
    if not opt.out and not opt.describe then usage("--out or --describe is needed") end
    local symbol = opt.symbol or "kl_model_entry"
    check_symbol(symbol)
    local text, source = read(opt.model), string.match(opt.model, "([^/]+)$")
    module_files()
    local v = guarded(opt.model, tables.of, source, text, opt.set, false, opt.spin)
    if opt.describe then
        io.stdout:write(describe(v))
        return nil
    end
    write(opt.out, guarded(opt.model, emit.model, v, symbol, writer_text("model.c.tpl")))
    return opt.out
end

local function main(words)
    local opt = parse(words)
    local make = opt.phase and write_phase or opt.registry and write_registry or opt.embed and write_embedded
        or opt.model and write_model
    if not make then usage("--model, --registry, --phase or --embed is needed") end
    local target = make(opt)
    if opt.dep and target then write_dep(opt.dep, target) end
end

main(arg)
