-- Every document that the program prints with --json has the shape that docs/json.schema.json writes down,
-- and what version 0.1.0 told is still told.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/cli/schema.lua KRONLAT; prints TAP, exits 1 on a failure. Works in a folder of its own
-- below $TMPDIR or /tmp.

local here = arg[0]:match "^(.*/)" or "./"
local kit = dofile(here .. "kit.lua")
local slurp, spill, quote, near = kit.slurp, kit.spill, kit.quote, kit.near
local ok, at, shell, run = kit.ok, kit.at, kit.shell, kit.run

local null = setmetatable({}, { __tostring = function() return "null" end })
local function json(text) return kit.json(text, null) end
local root = kit.absolute(here):gsub("tests/cli/$", ""):gsub("/%./$", "/")
local schema, why = json(assert(slurp(root .. "docs/json.schema.json"), "docs/json.schema.json is missing"))
assert(schema, why)

-- ---- the words of JSON Schema that the file uses; another one is an error ----

local function kind(v)
    if v == null then return "null" end
    if type(v) == "table" then return getmetatable(v) == kit.list and "array" or "object" end
    return type(v) == "number" and (math.type(v) == "integer" or v == math.floor(v)) and "integer" or type(v)
end

local check -- the first fault of v, or nothing

local words = {
    ["$ref"] = function(name, v, where) return check(schema["$defs"][name:match "^#/%$defs/(.+)$"], v,
        where) end,
    type = function(wanted, v, where)
        local seen = kind(v)
        for _, w in ipairs(type(wanted) == "table" and wanted or { wanted }) do
            if w == seen or (w == "number" and seen == "integer") then return end
        end
        return ("%s is %s, not %s"):format(where, seen, type(wanted) == "table" and table.concat(wanted,
            " or ") or wanted)
    end,
    const = function(wanted, v, where) return v ~= wanted and ("%s is '%s', not '%s'"):format(where,
        tostring(v), wanted) or nil end,
    enum = function(wanted, v, where)
        for _, w in ipairs(wanted) do
            if w == v then return end
        end
        return ("%s is '%s', none of %s"):format(where, tostring(v), table.concat(wanted, ", "))
    end,
    required = function(names, v, where)
        for _, name in ipairs(kind(v) == "object" and names or {}) do
            if v[name] == nil then return ("%s has no '%s'"):format(where, name) end
        end
    end,
    properties = function(all, v, where)
        for name, value in pairs(kind(v) == "object" and v or {}) do
            local fault = all[name] and check(all[name], value, where .. "/" .. name)
            if fault then return fault end
        end
    end,
    additionalProperties = function(rest, v, where, all)
        for name, value in pairs(kind(v) == "object" and v or {}) do
            if not (all.properties and all.properties[name]) then
                local fault
                if rest == false then fault = ("%s has '%s', which the schema does not know"):format(where,
                    name)
                else fault = check(rest, value, where .. "/" .. name) end
                if fault then return fault end
            end
        end
    end,
    items = function(each, v, where)
        for i, value in ipairs(kind(v) == "array" and v or {}) do
            local fault = check(each, value, where .. "/" .. i)
            if fault then return fault end
        end
    end,
    minItems = function(least, v, where) return kind(v) == "array" and #v < least
        and ("%s has %d entries, fewer than %d"):format(where, #v, least) or nil end,
    oneOf = function(all, v, where)
        local good, faults = 0, {}
        for _, one in ipairs(all) do
            local fault = check(one, v, where)
            if fault then faults[#faults + 1] = fault else good = good + 1 end
        end
        return good ~= 1 and ("%s has %d of the shapes that are allowed: %s"):format(where, good,
            table.concat(faults, "; ")) or nil
    end,
}
local silent = { description = true, title = true, ["$schema"] = true, ["$defs"] = true }

function check(s, v, where)
    assert(s, where .. ": no such definition")
    for word, value in pairs(s) do
        if not silent[word] then
            local fault = assert(words[word], "the checker does not know the word " .. word)(value, v, where,
                s)
            if fault then return fault end
        end
    end
end

-- ---- documents ----

local dump = quote(root .. "tests/data/h2o-sto3g.fcidump")
-- name, its definition in the schema, command, and the keys of version 0.1.0.
local result = "program version command_line model variant formula lattice sites parameters charges seed "
local facts = " exec threads output seconds_total memory_peak_bytes"
local ended = " energy energies energies_kept error_estimate energy_extrapolated discarded converged stop products flop dim_max seconds seconds_by_part"
local solved = " finished energy energies attainable open_multiplet converged stop solver products seconds seconds_products vectors dimension halves vector_bytes table_bytes "
    .. "matrix_bytes residual error degeneracy measurements"
local molecule = "file space finished orbitals inactive active alpha beta reference reference_energy converged states irreps seconds output"
local documents = {
    { "a run", "dmrg",
        "dmrg heisenberg --sites 8 --charge Sz=0 --states 2 -o r.h5 --measure Sz --measure 'corr(Sz,Sz)' --json",
      result .. "finished sweeps_done sweeps measurements" .. ended .. facts },
    { "a cut-off", "dmrg",
        "dmrg holstein --sites 2 -p n_max=2 --charge N_up=1 --charge N_dn=1 -o none --json", "cutoff" },
    { "a sweep of a parameter", "dmrg_sweep",
        "dmrg heisenberg --sites 4 --charge Sz=0 --sweep-parameter Delta=0,1 -o none --json",
        "program title runs" },
    { "a sweep by exact diagonalization", "ed_sweep",
        "ed heisenberg --charge Sz=0 --sweep-parameter sites=4,6 --measure 'product(Sz@0,Sz@1)' --json",
        "program title runs" },
    { "a scan", "dmrg_scan", "dmrg heisenberg --sites 4 --charge scan --states 2 -o none --json",
        "program title runs lowest" },
    { "a gap of sectors", "dmrg_scan",
        "dmrg heisenberg --sites 4 --charge Sz=0:1 --gap 'E(Sz+1)-E' -o none --json", "gaps" },
    { "a gap of exact sectors", "ed_scan", "ed heisenberg --sites 4 --charge Sz=0:1 --gap 'E(Sz+1)-E' --json",
        "gaps" },
    { "what show says", "dmrg", "show r.h5 --json", result .. "finished sweeps_done sweeps measurements"
        .. ended },
    { "what measure says", "dmrg", "measure r.h5 --measure entropy --measure spectrum --json",
        result .. "measurements" .. facts },
    { "an exact run", "ed", "ed heisenberg --sites 8 --charge Sz=0 --states 2 --measure Sz -o e.h5 --json",
        result .. "method" .. solved .. facts },
    { "what show says of it", "ed", "show e.h5 --json", result .. "method" .. solved },
    { "all energies", "ed", "ed heisenberg --sites 6 --charge Sz=0 --solver full --json", "spectrum" },
    { "an exact scan", "ed_scan", "ed heisenberg --sites 4 --charge scan --states 3 --json",
        "title runs lowest" },
    { "an exact scan and the states of its lowest sector", "ed",
        "ed heisenberg --sites 4 --charge scan --states 3 --measure Sz --json", result .. solved },
    { "spectral functions", "ed", "ed heisenberg --sites 8 --charge Sz=0 --spectral Sz@0 --json",
        result .. solved .. facts },
    { "thermodynamics", "ed", "ed heisenberg --sites 8 --charge scan --temperatures 1,2 --json",
        result .. "method finished measurements" .. facts },
    { "a molecule", "ci", "ci " .. dump .. " --space cisd --roots 2 --density -o c.h5 --json", molecule },
    { "a molecule without a matrix", "ci", "ci " .. dump .. " --space cas:4,4 --json", molecule },
    { "what show says of a molecule", "ci", "show c.h5 --json", molecule },
    { "a plan of a molecule", "ci_plan", "ci " .. dump .. " --plan --json",
        "file orbitals inactive active alpha beta irreps reference reference_energy levels space_by_irrep" },
    { "a plan", "plan", "plan heisenberg --sites 8 --charge Sz=0 --m 16 --json",
        "program model variant lattice charges plans" },
    { "a plan of a scan", "plan_scan", "plan heisenberg --sites 8 --charge Sz=scan --m 16 --json",
        "program model variant lattice runs seconds_sweep memory_bytes sectors" },
    { "an exact plan", "plan_ed", "plan --method ed heisenberg --sites 8 --charge Sz=0 --json",
      "command method model lattice charges halves dimension left_states right_states vector_bytes vectors table_bytes seconds_product" },
    { "an explanation", "explain", "explain heisenberg --sites 8 --charge Sz=0 --m 16 --json",
      "command model lattice charges method exec where chosen operations operator_bytes vector_bytes work_bytes" },
    { "an explanation of ci", "explain", "explain --json --method ci " .. dump,
      "command file space method exec where chosen operations operator_bytes vector_bytes work_bytes" },
    { "an exact explanation", "explain", "explain --method ed heisenberg --sites 8 --charge Sz=0 --json",
        "command model lattice charges method exec where operations" },
    { "growth", "growth", "growth heisenberg --sites 8 --charge Sz=0 --m 16 --json",
        "program model variant charges residual_asked iterations table5" },
    { "the models", "models", "models --json", "" },
    { "a model", "model", "models hubbard --json",
        "name variant formula charges parameters sites terms kept records" },
    { "a lattice", "lattice", "lattice kagome:YC4x2 --json", "" },
    { "a figure", "plot", "plot r.h5 --json", "" },
    { "a job of two runs", "jobs", "run two_runs.lua --json", "" },
    { "the devices", "devices", "devices --json",
        "processor cores memory_bytes kernels blas lapack openmp loaded exec" },
}
spill(at "two_runs.lua",
    "return { model = 'heisenberg', sites = {4, 6}, charge = { Sz = 0 }, output = 'none' }")
local seen, printed = {}, {}
for _, row in ipairs(documents) do
    local name, shape, command, keys = table.unpack(row)
    local status, out, err = run(command)
    local doc, broken = json(out)
    local fault = not doc and (err .. (broken or "")) or check({ ["$ref"] = "#/$defs/" .. shape }, doc,
        shape) or check(schema, doc, "document")
    ok(status == 0 and not fault, name .. " has the shape of " .. shape, fault, out:sub(1, 400))
    local lost = {}
    for key in keys:gmatch "%S+" do
        if not doc or doc[key] == nil then lost[#lost + 1] = key end
    end
    ok(#lost == 0, name .. " still tells what 0.1.0 told", table.concat(lost, " "))
    seen[shape], printed[name] = true, doc
end
local missing = {}
for _, one in ipairs(schema.oneOf) do
    local name = one["$ref"]:match "[%w_]+$"
    if not seen[name] then missing[#missing + 1] = name end
end
ok(#missing == 0, "every shape of the schema is printed by some command", table.concat(missing, " "))

-- A checkpoint tells what there is.
local status = shell("$K dmrg hubbard --sites 60 -p U=8 --charge N_up=30 --charge N_dn=30 --accuracy 1e-12 "
    .. "--checkpoint-every 0 --threads 1 -o i.h5 >/dev/null 2>&1 & p=$!; "
    .. "while [ ! -e i.h5 ] && kill -0 $p 2>/dev/null; do sleep 0.05; done; kill -9 $p; wait $p")
local doc = slurp(at "i.h5") and json(select(2, run "show i.h5 --json"))
ok(status ~= 0 and doc and doc.finished == false and not doc.energy and not check(schema, doc, "checkpoint"),
    "a checkpoint", doc and check(schema, doc, "checkpoint"))

-- ---- the checker sees what is wrong ----

do
    local text = select(2, run "show r.h5 --json")
    for _, case in ipairs {
        { '"program": "kronlat"', '"program": "another"' }, { '"command": "show"', '"command": "ed"' },
            { '"sites": 8', '"sites": "8"' },
        { '"sites": 8', '"sites": 8.5' }, { '"finished": true', '"finished": 1' }, { '"energies": %[',
            '"energies": [], "other": [' }, { '"seed": 1', '"seed": null' },
        { '"sweeps_done"', '"sweeps_made"' }, { '"note": "', '"remark": "' },
    } do
        local changed, n = text:gsub(case[1], case[2], 1)
        ok(n == 1 and json(changed) and check(schema, json(changed), "document"),
            "the schema refuses " .. case[2], n)
    end
end

-- ---- what the values are ----

do
    local scan, with, plain = printed["a scan"], printed["an exact scan and the states of its lowest sector"],
        printed["an exact scan"]
    -- four spins: 0, then a triplet, one state of which has each Sz
    local energies = { -1.6160254037844386, -0.95710678118654757 }
    ok(near(scan.energies[1], energies[1], 1e-9) and near(scan.energies[2], energies[2],
        1e-9) and #scan.energies == 2 and scan.sectors[1] == "Sz=0" and #scan.runs == 5,
       "a scan tells the lowest of all sectors", scan.energies[2])
    ok(#plain.energies == 3 and near(plain.energies[1], energies[1], 1e-12) and near(plain.energies[2],
        energies[2], 1e-12) and near(plain.energies[3], energies[2], 1e-12) and
       plain.sectors[1] == "Sz=0" and plain.sectors[2] ~= plain.sectors[3]
           and plain.energy == plain.energies[1] and #plain.runs[2].energies == 3, "so does an exact one",
       plain.energies[3], plain.sectors[3])
    ok(with.scan and near(with.scan.energies[3], energies[2], 1e-12) and #with.scan.runs == 5
        and near(with.energies[2], energies[2], 1e-12) and with.charges.Sz == 0,
       "states of the lowest sector, and the energies of all")
    local water = printed["a molecule"]
    ok(water.energy == water.states[1].energy and water.energies[2] == water.states[2].energy
        and #water.energies == 2, "energies of a molecule")

    -- Arrays tell one value for each bond that terms use, and no defaults of others.
    spill(at "two.lua", [[
-- H = sum_<ij> J_ij Sz_i Sz_j + sum_<<ij>> K_ij Sz_i Sz_j
site(spin(1/2))
conserve "Sz"
parameters { J = per_bond(1), K = per_bond(0.5) }
bond("nn", J * Sz(i)*Sz(j))
bond("far", K * Sz(i)*Sz(j))
]])
    spill(at "lattice.lua", "return { sites = 3, bonds = { {0, 1, 'nn'}, {0, 2, 'far'}, {1, 2, 'nn'} } }")
    for _, case in ipairs {
        { "-p J=2,3", "2 3", "0.5" }, { "-p J=2", "2", "0.5" }, { "-p J=2,3 -p K=7", "2 3", "7" },
    } do
        for _, command in ipairs { "dmrg", "ed" } do
            local _, out, err = run(command
                .. " ./two.lua --lattice lattice.lua --charge Sz=1/2 -o two.h5 --json " .. case[1])
            local found = json(out)
            local function told(doc, name)
                local v = doc and doc.parameters[name]
                return type(v) == "table" and table.concat(v, " ") or tostring(v)
            end
            local again = json(select(2, run "show two.h5 --json"))
            ok(told(found, "J") == case[2] and told(found, "K") == case[3] and told(again,
                "J") == case[2] and told(again, "K") == case[3],
               command .. " " .. case[1] .. ": arrays by bond", told(found, "J"), told(found, "K"),
                   told(again, "J"), err)
        end
    end
end

kit.finish()
