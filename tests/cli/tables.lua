-- Tables of many runs, from outside: what they warn of, and what they go through.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tables.lua PROGRAM; prints TAP.
local HERE = arg[0]:match "^(.*/)" or ""
local kit = dofile(HERE .. "kit.lua")
local ok, run, json, near = kit.ok, kit.run, kit.json, kit.near

-- Three bosons on three sites of at most two. A table tells of a cut-off that shows as the report of one run
-- does, and so does exact diagonalization that has a state.
do
    local line = " bose_hubbard --sites 3 -p n_max=2 -p U=2 --charge N=3"
    local _, out = run("ed" .. line .. " --measure top --json")
    local exact = json(out) or {}
    local top = exact.measurements and exact.measurements["local/top"].value or { 0 }
    local weight = math.max(table.unpack(top))
    ok(weight > 1e-3 and exact.cutoff and near(exact.cutoff.weight, weight, 1e-14) and not exact.cutoff.small,
        "the cut-off of an exact state", out)
    for _, kind in ipairs { { "values", " --sweep-parameter V=0,1" }, { "sectors", ",1" } } do
        local what, more = kind[1], kind[2]
        local status, text, err = run("dmrg" .. line .. more .. " -o none")
        ok(status == 0 and text:find "\nWARNING  the highest occupation has a weight of more than 1e%-06 in %d of "
            and not err:find "WARNING", "a table of " .. what .. " warns of its cut-off", text, err)
        _, text = run("dmrg" .. line .. more .. " -o none --json")
        local doc = json(text) or { runs = {} }
        local found
        for _, r in ipairs(doc.runs) do found = found or r.label:find "[V=]=?[03]$" and r.cutoff end
        ok(found and near(found.weight, weight, 1e-8) and found.small == false, "and its JSON has it", text)
        _, text, err = run("dmrg" .. line .. more .. " -o none --csv -")
        ok(not text:find "WARNING" and err:find "note: the highest occupation has a weight",
            "beside lines for programs it is a note", text, err)
    end
    local _, text, err = run("ed" .. line .. " --states 2")
    ok(text:find "\nWARNING +that is more than 1e%-06", "exact states say so unasked", text)
    _, text, err = run("ed" .. line:gsub("sites 3", "sites 8"):gsub("N=3", "N=8"))
    ok(not text:find "cut%-off" and err:find "was not looked at.*%-%-measure top",
        "energies alone say that they do not", text, err)
    _, text, err = run("ed" .. line:gsub("n_max=2", "n_max=3") .. " --states 2")
    ok(text:find "\ncut%-off" and text:find "WARNING", "three bosons reach a third", text)
    _, text, err = run("ed" .. line:gsub("n_max=2", "n_max=4") .. " --states 2")
    ok(text:find "\ncut%-off" and not text:find "WARNING" and err == "", "and not a fourth", text, err)
end
-- Along what no state can be carried over: structural parameters, and seeds of random arrays. Each value is a
-- run by itself, with the energy of that run, and each file holds all that was asked.
do
    local line = " --sites 4 -p U=2 --charge N=4"
    local along = "dmrg bose_hubbard" .. line .. " --sweep-parameter n_max=2:4:1 -o 'b{n_max}.h5'"
    local _, text = run(along .. " --json")
    local doc = json(text) or { runs = {} }
    local same = #doc.runs == 3
    for k, r in ipairs(doc.runs) do
        local _, out = run(("ed bose_hubbard%s -p n_max=%d --json"):format(line, k + 1))
        same = same and near(r.energy, (json(out) or {}).energy, 1e-8)
            and r.output == ("b%d.h5"):format(k + 1)
    end
    ok(same, "a structural parameter by dmrg", text)
    local status, out, err = run(along)
    local _, taken = err:gsub("which holds this run", "")
    ok(status == 0 and taken == 3, "is not run twice", out, err)
end
for _, command in ipairs { "dmrg", "ed" } do
    local line = " heisenberg --sites 6 -p 'h=uniform(-3,3)' --charge Sz=0 "
    local none = command == "dmrg" and " -o none" or ""
    local _, text = run(command .. line .. "--sweep-parameter seed=1:3:1 --json" .. none)
    local doc = json(text) or { runs = {} }
    local same, sum = #doc.runs == 3, 0
    for k, r in ipairs(doc.runs) do
        local _, out = run(("ed%s --seed %d --json"):format(line, k))
        same = same and near(r.energy, (json(out) or {}).energy, 1e-8)
        sum = sum + r.energy
    end
    ok(same and math.abs(sum / 3 - doc.runs[1].energy) > 1e-3, "three arrays at random by " .. command, text)
    kit.refused(command .. line .. "--seed 2 --sweep-parameter seed=1,2" .. none, "which seed, not both")
end
-- A run that has ended goes on with more states by its file alone, which says the system: parameters one by
-- one, those of random arrays with their seed. What is typed wins.
do
    local line = " heisenberg --lattice ring:10 -p Delta=0.5 -p 'h=uniform(-1,1)' --seed 7 --charge Sz=1"
    run("dmrg" .. line .. " --m 6 -o few.h5")
    local exact = json(select(2, run("ed" .. line .. " --json"))) or {}
    local _, text, err = run "dmrg --start few.h5 --accuracy 1e-9 -o more.h5 --json"
    local doc = json(text) or {}
    ok(near(doc.energy, exact.energy, 1e-7) and doc.seed == 7 and doc.converged, "--start FILE alone", text,
        err)
    _, text, err = run "dmrg --start few.h5 -p Delta=1 --accuracy 1e-9 -o none --json"
    exact = json(select(2, run("ed" .. line:gsub("Delta=0.5", "Delta=1") .. " --json"))) or {}
    doc = json(text) or {}
    ok(near(doc.energy, exact.energy, 1e-7), "and another parameter", text, err)
    local status
    status, text, err = run("dmrg --start few.h5 --sweep-parameter Delta=0.5,1 --accuracy 1e-9 "
        .. "-o 'd{Delta}.h5' --json")
    doc = json(text) or { runs = { {}, {} } }
    ok(status == 0 and near(doc.runs[2].energy, exact.energy, 1e-7), "and along one", text, err)
    kit.refused("dmrg --resume more.h5", "kronlat dmrg --start more.h5 --m")
    kit.refused("dmrg --start few.h5 --charge Sz=0 -o none", "holds a state with Sz=1, not Sz=0")
    kit.refused("dmrg --start neel", "MODEL is missing")
end
-- Sums of energies of neighbouring runs against the Hubbard dimer and two spins, which are known: of sectors
-- by either method, along a parameter, and in every form in which tables are told.
do
    local gap = "'E(N_up+1)+E(N_up-1)-2E'"
    local dimer = " hubbard --sites 2 --charge N_up=0:2 --charge N_dn=1 --gap " .. gap
    for _, command in ipairs { "ed", "dmrg" } do
        local none = command == "dmrg" and " -o none" or ""
        local _, text = run(command .. dimer .. " -p U=4 --json" .. none)
        local g = ((json(text) or {}).gaps or { { values = {} } })[1]
        ok(#g.values == 1 and g.values[1].label == "N_up=1 N_dn=1" and g.formula == gap:gsub("'", "")
            and near(g.values[1].value, 32 ^ 0.5 - 2, 1e-8) and g.values[1].error < 1e-8,
            "a charge gap by " .. command, text)
        _, text = run(command .. dimer .. " -p U=4" .. none)
        ok(text:find "\nE%(N_up%+1%)%+E%(N_up%-1%)%-2E\nN_up=1 N_dn=1 +3%.65685424%d* +%d", "and its lines",
            text)
        _, text = run(command .. dimer .. " --sweep-parameter U=0,4 --csv -" .. none)
        local lines = {}
        for line in text:gmatch "[^\n]+" do lines[#lines + 1] = line end
        ok(#lines == 7 and lines[1]:find(",E(N_up+1)+E(N_up-1)-2E,error_of_gap_1,", 1, true)
            and near(tonumber(lines[3]:match "^0,1,1,.*,([^,]+),[^,]+,%d,$"), 2, 1e-8)
            and near(tonumber(lines[6]:match "^4,1,1,.*,([^,]+),[^,]+,%d,$"), 32 ^ 0.5 - 2, 1e-8)
            and lines[2]:find "^0,0,1,.*,,,%d,$", "and the lines for programs", text)
        _, text = run(command .. dimer .. " -p U=4 --csv gaps.csv" .. none)
        ok((kit.slurp(kit.at "gaps.csv") or ""):find "\n1,1,[^\n]*,3%.65685424", "and their file", text)
        kit.refused(command .. " heisenberg --sites 2 --charge Sz=scan --gap '(E(Sz+1)-E)*1'" .. none,
            "nothing more is possible where '*1' stands")
        _, text = run(command .. " heisenberg --sites 2 --charge Sz=scan --json --gap '-(2*E-2 E(Sz+2/2))/2'"
            .. none)
        g = ((json(text) or {}).gaps or { { values = {} } })[1]
        ok(#g.values == 2 and g.values[2].label == "Sz=0" and near(g.values[2].value, 1, 1e-9)
            and near(g.values[1].value, -1, 1e-9), "a gap of spins by " .. command, text)
        kit.refused(command .. " heisenberg --sites 2 --charge Sz=scan --gap 'E(N+1)-E'" .. none,
            "nothing is called 'N' in this table; known: Sz=-1")
        kit.refused(command .. " heisenberg --sites 2 --charge Sz=0 --gap 'E(Sz+1)-E'" .. none,
            "--gap E(Sz+1)-E: one run makes no table of runs")
        _, text = run(command .. " heisenberg --sites 2 --charge Sz=0 --sweep-parameter J=1,2 --json"
            .. " --gap 'E(J+1)-E'" .. none)
        g = ((json(text) or {}).gaps or { { values = {} } })[1]
        ok(#g.values == 1 and near(g.values[1].value, -0.75, 1e-9), "along a parameter by " .. command, text)
    end
    for text, why in pairs { ["2"] = "E has to stand", ["E+"] = "E has to stand",
        ["E(N"] = "')' has to stand at the end", ["E(1)"] = "the name of a charge",
        ["E(N+x)"] = "a number has to stand", ["E/0"] = "a number has to stand",
        ["((((((((((E))))))))))"] = "no more brackets", [("E+"):rep(20) .. "E"] = "no more energies" } do
        kit.refused("ed heisenberg --sites 2 --charge Sz=scan --gap '" .. text .. "'", why)
    end
end
kit.finish()
