-- A wrong value of any option is told in a line that names the option as it is typed.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/cli/options.lua KRONLAT FCIDUMP; prints TAP, exits 1 on a failure.

local here = arg[0]:match "^(.*/)" or "./"
local kit = dofile(here .. "kit.lua")
local ok, run = kit.ok, kit.run
local molecule = kit.quote(kit.absolute(arg[2]))

-- Of every command the options that take a value; one that may be anything is no matter.
for name, begun in pairs {
    dmrg = "dmrg heisenberg --sites 6 --charge Sz=0 -o none",
    ed = "ed heisenberg --sites 6 --charge Sz=0 -o none",
    ci = "ci " .. molecule, ["dmrg of a molecule"] = "dmrg " .. molecule .. " -o none",
    plan = "plan heisenberg --sites 6 --charge Sz=0",
    growth = "growth heisenberg --sites 4 --charge Sz=0 --m 4",
    measure = "measure nothing.h5 --measure Sz", plot = "plot nothing.h5",
} do
    local unnamed, n = {}, 0
    for option in select(2, run(begun .. " --help")):gmatch "\n  [ %-][ %a]..(%-%-[%l-]+) %u" do
        local status, _, err = run(("%s %s @wrong"):format(begun, option))
        local lines = select(2, err:gsub("\n", ""))
        local told = err:find(option, 1, true) or err:find("nothing.h5", 1, true)
        n = n + 1
        if status ~= 0 and not (status == 2 and lines == 1 and told) then
            unnamed[#unnamed + 1] = ("%s, status %d: %s"):format(option, status, err)
        end
    end
    ok(n > 0 and #unnamed == 0, ("wrong values of %d options of %s"):format(n, name), table.concat(unnamed))
end

for _, case in ipairs {
    { "dmrg heisenberg --sites 6 --charge Sz=0 --order 1,2", "--order: 2 sites are listed" },
    { "dmrg " .. molecule .. " --order 1,2", "--order: 2 orbitals are listed" },
    { "dmrg heisenberg --lattice moebius:4x4", '--lattice: lattice "moebius:4x4" is unknown' },
    { "dmrg heisenberg --sites 1 --charge Sz=0", "--sites: lattice chain has 1 site" },
    { "ed heisenberg --sites 8 --charge Sz=0 --measure Q", "--measure 'Q'" },
    { "dmrg --resume nothing.h5", "--resume: nothing.h5" },
    { "dmrg heisenberg --sites 6 --charge Sz=0 -o none --csv one.csv", "--csv one.csv: one run makes no table" },
    { "ed heisenberg --sites 6 --charge scan -o none --temperatures 1:2:1 --csv one.csv", "--csv one.csv:" },
    { "ci " .. molecule .. " --reference 22", "--reference '22'" },
    { "ed heisenberg --sites 8 --charge Sz=0 --basis 10", "--basis has no effect without --solver davidson" },
    { "ed heisenberg --sites 8 --charge Sz=0 --states 2 --solver lobpcg --basis 10", "no effect" },
    { "ed heisenberg --sites 8 --charge Sz=0 --solver lanczos --basis 10", "keeps three vectors" },
    { "ed heisenberg --sites 8 --charge Sz=0 --basis 32767", "from 3 to 32766" },
    { "ed hubbard --lattice ladder:7x2 --charge N_up=7 --charge N_dn=7 --solver davidson --basis 30000",
        "this machine has" },
    { "dmrg " .. molecule .. " --lattice ring:6", "--lattice belongs to `kronlat dmrg MODEL'" },
    { "dmrg heisenberg --sites 6 --charge Sz=0 --host-memory 1GB --scratch nowhere", "--scratch nowhere:" },
    { "dmrg heisenberg --sites 6 --charge Sz=0 --sweep-parameter J=1:2:1 -o 'x{J}{J'", "a '{' has no '}'" },
    { "ed hubbard --sites 4 --charge N=4 --charge Sz=0", "N and Sz are N_up = N/2 + Sz, N_dn = N/2 - Sz" },
    { "dmrg heisenberg --sites 6 --charge Sz=0 --exec host --device-memory 1GB", "memory: --exec host takes none" },
    { "ed " .. molecule, "begins with &FCI" }, { "models " .. molecule, "begins with &FCI" },
} do kit.refused(case[1], case[2]) end

-- A job where a model is wanted, and the reverse.
kit.spill(kit.at "job.lua", "return { model = 'heisenberg', sites = 8 }\n")
kit.spill(kit.at "model.lua", "-- H = sum_<ij> S_i.S_j\nsite(spin(1))\nbond('nn', S_dot_S(i,j))\n")
kit.refused("dmrg job.lua --sites 8", "a file that returns options is a job, for kronlat run")
kit.spill(kit.at "many.lua", "-- Heisenberg\nlocal n = {}\nfor i = 4, 6, 2 do\n  n[#n + 1] = i\nend\n" ..
    "return { command = 'ed', model = 'heisenberg', sites = n,\n" ..
    "  charge = { Sz = 0 }, measure = { 'Sz' }, output = 'x{sites}.h5' }\n")
local status, out = run "plan many.lua --json"
local plans = kit.json(out)
ok(status == 0 and plans and #plans == 2 and plans[1].dimension == 6 and plans[2].dimension == 20 and
    plans[1].method == "ed", "plan takes a job, and leaves out what its runs alone take", out)
status, out = run "plan job.lua --charge Sz=1 --json"
plans = kit.json(out)
ok(status == 0 and plans and plans.charges == "Sz=1" and plans.method == "dmrg",
    "and what is typed behind it", out)
kit.refused("plan job.lua --charge Sz=1 --measure Sz", "--measure belongs to")
kit.refused("run model.lua", "this looks like a model: kronlat dmrg model.lua")
kit.spill(kit.at "result.h5", "kronlat result 2 (HDF5 from byte 512 on)\n")
kit.refused("run result.h5", "holds a result; `kronlat show result.h5'")
kit.refused("dmrg heisenberg --lattice result.h5 --charge Sz=0", "result.h5")
kit.refused("dmrg result.h5 --sites 4", "result.h5: holds a result and no model; --start and --resume")

-- Entries of several names in one text; the comma of a list is none between names.
for _, case in ipairs {
    { "N_up=2,N_dn=1 -p U=8", "-p U=8", "N_up=2 --charge N_dn=1" },
    { "N_dn=1,N_up=1:2 -p U=8,7,8,8,t=2", "-p U=8,7,8,8 -p t=2", "N_up=1:2 --charge N_dn=1" } } do
    local one = select(2, run("ed hubbard --sites 4 --json --charge " .. case[1]))
    local two = select(2, run(("ed hubbard --sites 4 --json %s --charge %s"):format(case[2], case[3])))
    local function energies(text)
        local all = {}
        for list in text:gmatch '"energies": (%b[])' do all[#all + 1] = list end
        return table.concat(all, " ")
    end
    ok(#energies(one) > 10 and energies(one) == energies(two), "--charge " .. case[1], one .. two)
end
kit.refused("ed hubbard --sites 4 --charge N_up=2,N_up=3", "--charge: given twice, as 'N_up=2' and")
kit.refused("ed hubbard --sites 4 --charge N_up=2.5,N_dn=1", "charge N_up=2.5 is no whole number")
kit.refused("ed heisenberg --sites 4 --charge Sz=1/3", "charge Sz=1/3 is no multiple of 1/2")
kit.refused("ed hubbard --sites 4", "N_up, N_dn of model hubbard are not given")
kit.refused("ed hubbard --sites 4 --charge N_up=1", "N_dn of model hubbard is not given")

-- Words that are nearly right, and files of another kind.
run "dmrg heisenberg --sites 4 --charge Sz=0 -o chain.h5"
run("ci " .. molecule .. " -o molecule.h5")
for _, case in ipairs {
    { "plot molecule.h5 chain.h5", "molecule.h5: holds a result of ci, which is drawn by itself" },
    { "measure chain.h5 --measure Sz@3", "at one: product(Sz@3)" },
    { "measure chain.h5 --measure 'correlation(Sz,Sz)'", "did you mean corr?" },
    { "measure chain.h5 --measure Variance", "did you mean variance?" },
    { "measure chain.h5 --measure 'expipi(Sp)'", "'Sp' is none" },
    { "measure chain.h5 --measure Sz/0", "division by zero at the end" },
    { "ci heisenberg", "is a model, which dmrg and ed take" },
} do kit.refused(case[1], case[2]) end

-- What begins with adj() is an operator, as anywhere else.
status, out = run "ed hubbard --sites 4 --charge N_up=2,N_dn=1 --measure 'adj(Sp)*Sp'"
ok(status == 0 and out:find("local/adj%(Sp%)%*Sp"), "--measure 'adj(Sp)*Sp'", out)

-- Lines of a table on stdout, in place of the report; nothing is written to a file of that name.
for _, of in ipairs { "dmrg heisenberg --charge scan -o none", "ed heisenberg --charge scan",
    "ed heisenberg --charge Sz=0 --sweep-parameter J=0:2:0.5", "dmrg heisenberg --charge Sz=0:1 -o none" } do
    local more = of .. " --sites 4 --csv "
    local text = select(2, run(more .. "-"))
    run(more .. "table.csv")
    ok(#text > 100 and text == kit.slurp(kit.at "table.csv") and not kit.slurp(kit.at "-"), more .. "-", text)
end
kit.refused("ed heisenberg --sites 4 --charge scan --csv - --json", "--csv -: stdout has what --json prints")
kit.refused("ed heisenberg --sites 4 --charge scan --csv - --measure Sz", "--csv -: stdout has the report")

out = select(2, run "ed heisenberg --sites 4 --charge Sz=0 --sweep-parameter S=0.5,1 --measure Sz")
ok(out:find "^heisenberg, S=0.5,1\n" and not out:find "%-0%.0+%f[^0]", "the title of several variants", out)

kit.refused("plan " .. molecule .. " --method ci", "--method belongs to `kronlat plan MODEL'")
kit.refused("plan " .. molecule .. " --space cisd", "`kronlat ci' takes others")
kit.refused("dmrg heisenberg --sites 4 --charge S=0,Sz=0", "it has S (the total spin")

-- What --form chooses is so with a stored matrix, too.
for form, halves in pairs { sites = "sites %(16 and 16", flavours = "the two flavours %(6 and 6" } do
    local of = "ed hubbard --lattice ring:4 --charge N_up=2,N_dn=2 --store matrix --form "
    status, out = run(of .. form)
    ok(status == 0 and out:find("halves are " .. halves) and out:find "stored matrix" and
        out:find "energy 0 +%-2.10274848346", of .. form, out)
end
kit.refused("ed heisenberg --sites 8 --charge Sz=0 --store matrix --form flavours", "has no product form")

-- A block keeps no more states than it has.
out = select(2, run "explain heisenberg --sites 8 --charge Sz=0 --m 1000")
ok(out:find "from 16 states to 16" and out:find "isometries, up +96 numbers", "explain of few states", out)

-- What stands nowhere on a lattice is told, and what a small circumference makes of a pair, once in a series.
for _, case in ipairs {
    { "ed j1j2 --sites 2 -p J2=1 --charge Sz=0", "j1j2.lua:%d+: chain of 2 sites has no bond of class nnn" },
    { "dmrg heisenberg --lattice ring:2 --charge Sz=0:1 --output none", "ring:2 joins pairs of class nn" },
    { "ed heisenberg --lattice ring:2 --double-bonds --charge Sz=0", nil },
    { "ed j1j2 --sites 3 -p J2=1 --charge Sz=1/2", nil } } do
    local status, _, err = run(case[1])
    local _, told = err:gsub(case[2] or "note:", "")
    ok(status == 0 and told == (case[2] and 1 or 0), case[1], err)
end

-- Values that are listed by bond go by the lower site, then by the higher: where a list in the order of a
-- file, or around a ring, would mean other bonds, the order is told.
kit.spill(kit.at "bonds.lua", [[
-- H = sum_<ij> t_ij (c+_i c_j + h.c.)
site(fermion())
conserve "N"
parameters { t = per_bond(1) }
bond("nn", t * (cdag(i)*c(j) + hc))
]])
kit.spill(kit.at "square.lua", "return { sites = 4, bonds = { {2,3}, {3,0}, {0,1}, {1,2} } }")
for _, case in ipairs {
    { "ring:4 -p t=1,0,0,5", "5", true }, { "./square.lua -p t=1,0,0,5", "5", true },
    { "ring:12 -p t=1,0,0,5,0,0,0,0,0,0,0,0", "5", "0%-1, 0%-11, 1%-2, 2%-3, %.%.%., 10%-11\n" },
    { "chain:4 -p t=1,0,5", "5" }, { "ring:4 -p t=3", "6" }, { "ring:4 -p t=uniform(1,1)", "2" } } do
    local line = "ed ./bonds.lua --charge N=1 --lattice " .. case[1]:gsub("uniform.*", "'%0'")
    local _, text, err = run(line)
    local told = err:find "values of t go to the bonds by the lower site, then by the higher: 0%-1, "
    ok(text:find("\nenergy 0 +%-" .. case[2] .. "%f[^0-9.]") and not told == not case[3] and
        (type(case[3]) ~= "string" or err:find(case[3])), line, err, text)
end

kit.finish()
