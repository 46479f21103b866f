-- DMRG of molecules as a user meets it: energies against full CI, what changes no energy, files that go on,
-- wrong options and broken files.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/cli/molecules.lua KRONLAT DATA
local kit = dofile((arg[0]:match "^(.*/)" or "./") .. "kit.lua")
local ok, run, shell, json, near, refused = kit.ok, kit.run, kit.shell, kit.json, kit.near, kit.refused
shell("cp " .. kit.quote(kit.absolute(arg[2])) .. "/*.fcidump .")
local T = " --threads 1"
-- Under tools that watch every access: not what other tests show there, too.
local watched = os.getenv "KL_TEST_ROUNDS"

-- Energies told by full CI of the same program, which shares no code of states and signs with DMRG.
local function by_ci(options)
    local _, doc = kit.energy("ci " .. options .. " --space full")
    return doc and doc.energies or {}
end
local function compare(file, options, more)
    local asked = options:gsub("%-%-states", "--roots")
    local want = by_ci(file .. " " .. asked)
    local _, doc = kit.energy("dmrg " .. file .. " " .. options .. " " .. (more or "") .. " -o none" .. T)
    for k, e in ipairs(want) do
        local have = type(doc) == "table" and doc.energies[k]
        ok(have and near(have, e, 1e-9), ("%s %s %s: state %d is that of full CI"):format(file, options, more
            or "", k), have or doc, e)
    end
end
compare("lih-sto3g.fcidump", "--irrep 1 --states 3")
compare("h2o-sto3g.fcidump", "--irrep 1 --frozen 1 --states 2")
compare("h2o-sto3g.fcidump", "--irrep 1", "--order canonical --threshold 0")
compare("h2o-sto3g.fcidump", "--irrep 1", "--order genetic --reference 2222200")
compare("o2-triplet-sto3g.fcidump", "--ms2 2 --irrep 4", "--order mutual")
compare("oh-uhf-sto3g.fcidump", "--irrep 1 --states 2")
compare("lih-sto3g.fcidump", "--electrons 3 --ms2 1 --irrep 1")

local e, doc = kit.energy("dmrg n2-sto3g.fcidump -o n2.h5" .. T)
ok(near(e, -107.65282873057855, 1e-9), "N2: the exact energy", e)
ok(doc.measurements["molecule/order"] and #doc.measurements["molecule/order"].value == 10,
   "JSON tells the order of the orbitals")
local function told(d, name) return d and d.measurements["molecule/" .. name].value end
local natural = 0
for _, w in ipairs(told(doc, "natural_occupations")) do natural = natural + w end
ok(near(natural, 14, 1e-9) and near(told(doc, "s2"), 0, 1e-8), "natural occupations sum up, and S^2 is 0",
   natural, told(doc, "s2"))
local _, told_irreps = run("dmrg lih-sto3g.fcidump --irrep all --accuracy 1e-6 -o none" .. T)
local irreps = {}
for k in told_irreps:gmatch "\nN_up=2 N_dn=2 irrep=(%d) " do irreps[#irreps + 1] = k end
table.sort(irreps)
ok(table.concat(irreps, " ") == "1 2 3 4" and kit.energy("show n2.h5") ~= nil
   and select(2, run "show n2.h5"):find "charges +N_up=7 N_dn=7 irrep=1\n",
   "irreps are told by their numbers", told_irreps)
local drawn = {}
for _, one in ipairs(select(2, kit.energy "plot n2.h5").panels) do drawn[one.title] = one end
local occupied, mixed = drawn["natural occupations"], drawn["entropy of each orbital"]
ok(occupied and occupied.x == "natural orbital" and occupied.series[1].x[1] == 1 and mixed and mixed.y == "S"
   and drawn["discarded weight"] == nil, "orbitals are drawn by number, and no course of one sweep")
_, doc = kit.energy("ci n2-sto3g.fcidump --space full --density")
local _, mine = kit.energy("dmrg n2-sto3g.fcidump -o none --accuracy 1e-11" .. T)
for k, w in ipairs(doc and doc.states and doc.states[1].natural_occupations or {}) do
    ok(near(told(mine, "natural_occupations")[k], w, 1e-6), "natural occupation " .. k .. " is full CI's", w)
end
do -- two-body ones of each state make its energy, with Sz and with the total spin as a charge
    for _, charges in ipairs { "--irrep 1", "--irrep 1 --charge S=0" } do
        local _, d = kit.energy("dmrg h2o-sto3g.fcidump " .. charges
            .. " --states 2 --two-body --accuracy 1e-10 -o none" .. T)
        local second = d.measurements["state_1/molecule/energy_of_densities"]
        ok(near(told(d, "energy_of_densities"), d.energies[1], 1e-9)
           and near(second.value, d.energies[2], 1e-9),
            "density matrices of two states make their energies, " .. charges, d.energies[2], second.value)
    end
end
do -- of excited states, too; and operators of an orbital, by the words that lattice models have for them
    local asked = " o2-triplet-sto3g.fcidump --ms2 2 --irrep 4"
    local _, exact = kit.energy("ci" .. asked .. " --roots 3 --space full --density")
    local _, d = kit.energy("dmrg" .. asked .. " --states 3 --accuracy 1e-11 -o o2.h5 --measure n_up --measure Sz"
        .. " --measure 'corr(Sz,Sz)' --measure docc" .. T)
    for k, s in ipairs(exact and exact.states or {}) do
        local function of(name)
            return d.measurements[(k > 1 and "state_" .. k - 1 .. "/" or "") .. "molecule/" .. name].value
        end
        local worst = math.abs(of "s2" - s.s2)
        for i, w in ipairs(s.natural_occupations) do
            worst = math.max(worst, math.abs(w - of "natural_occupations"[i]))
        end
        ok(worst < 1e-6, "<S^2> and natural occupations of state " .. k .. " are full CI's", worst, s.s2)
    end
    local up, dn, worst, sum = told(d, "density_up"), told(d, "density_dn"), 0, 0
    local function of(name) return d.measurements[name].value end
    for i = 1, 10 do
        worst = math.max(worst, math.abs(of "local/n_up"[i] - up[i][i]),
            math.abs(of "local/Sz"[i] - (up[i][i] - dn[i][i]) / 2),
            math.abs(of "correlation/Sz,Sz"[i][i] - (up[i][i] + dn[i][i] - 2 * of "local/docc"[i]) / 4))
        for j = 1, 10 do sum = sum + of "correlation/Sz,Sz"[i][j] end
    end
    ok(worst < 1e-9 and near(sum, 1, 1e-9), "n_up, Sz, docc and corr(Sz,Sz) of orbitals", worst, sum)
    local _, _, err = run "measure o2.h5 --measure n_x"
    ok(err and err:find("it has cdag_up, cdag_dn, c_dn, c_up, n_up, n_dn, n, docc, Sz, Sp, Sm, P;", 1, true),
        "operators of an orbital are listed", err)
end
-- A lattice model written as integrals: nothing is exchanged, and the hoppings tell who stands beside whom.
local chain, place = { "&FCI NORB=8,NELEC=8,MS2=0,\n ORBSYM=1,1,1,1,1,1,1,1,\n ISYM=1,\n&END" },
    { 5, 2, 8, 1, 6, 3, 7, 4 }
for i = 1, 8 do chain[#chain + 1] = ("4 %d %d %d %d"):format(i, i, i, i) end
for i = 1, 7 do chain[#chain + 1] = ("-1 %d %d 0 0"):format(place[i], place[i + 1]) end
kit.spill(kit.at "chain.fcidump", table.concat(chain, "\n") .. "\n0 0 0 0 0\n")
e, doc = kit.energy("dmrg chain.fcidump --accuracy 1e-9 -o none" .. T)
local along = {}
for k, p in ipairs(told(doc, "order")) do along[k] = math.tointeger(p) end
along = table.concat(along, " ")
ok(along == table.concat(place, " ") or along:reverse() == table.concat(place, " "),
   "orbitals of a chain in the order of its hoppings", along)
ok(near(e, kit.energy "ed hubbard --sites 8 -p U=4 --charge N_up=4 --charge N_dn=4", 1e-9),
   "and the chain's energy", e)
-- Error bars of runs that end by a small m: in an order that parts what belongs together a state may settle
-- at a small discarded weight, or lack what the ground state has and leave nothing out at all.
for _, case in ipairs {
    { "h6-octahedron-sto3g.fcidump", "--order 3,4,2,5,6,1 --schedule 4:1e-4,6:1e-5,6,12" },
    { "oh-uhf-sto3g.fcidump", "--order 3,4,6,1,5,2 --schedule 4:1e-4,6:1e-5,6,12" },
    { "lih-sto3g.fcidump", "--order 1,3,4,6,5,2 --schedule 4:1e-4,6:1e-5,6,12" } } do
    local exact = kit.energy("ci " .. case[1] .. " --space full")
    e, doc = kit.energy(("dmrg %s -o none %s%s"):format(case[1], case[2], T))
    ok(e - exact > 1e-6 and e - exact < doc.error_estimate and doc.error_estimate < 10 * (e - exact),
       ("%s %s: the bar holds"):format(case[1], case[2]), e - exact, doc.error_estimate)
end
local sites = " --charge Sz=0 -p Delta=1.5 --order 6,3,8,0,12,14,7,9,11,15,13,4,1,5,10,2"
local full = kit.energy "ed heisenberg --sites 16 --charge Sz=0 -p Delta=1.5"
e, doc = kit.energy("dmrg heisenberg --sites 16 -o none --schedule 8*6" .. sites .. T)
ok(e - full > 0.5 and e - full < doc.error_estimate and doc.error_estimate < 2.2 * (e - full),
   "a chain in a random order: the bar holds, and is twice what the order of the chain ends lower by", e - full,
   doc.error_estimate)
e, doc = kit.energy("dmrg o2-triplet-sto3g.fcidump --ms2 2 --irrep 4 -o none" .. T)
local up, dn = 0, 0
for i, row in ipairs(told(doc, "density_up")) do up = up + row[i] end
for i, row in ipairs(told(doc, "density_dn")) do dn = dn + row[i] end
ok(near(up - dn, 2, 1e-9) and near(told(doc, "s2"), 2, 1e-7),
   "O2: traces of both spins, and S^2 of a triplet", up, dn, told(doc, "s2"))
-- leading determinants as ci names them, and two-body density matrices
_, doc = kit.energy("ci o2-triplet-sto3g.fcidump --ms2 2 --irrep 4 --space full")
_, mine = kit.energy("dmrg o2-triplet-sto3g.fcidump --ms2 2 --irrep 4 --two-body --accuracy 1e-11 "
                     .. "-o o2.h5" .. T)
local names = mine.measurements["molecule/leading_coefficients"].note
for k, x in ipairs(doc and doc.states[1].leading or {}) do
    if k > 2 then break end -- those that follow are degenerate, in any order
    local have = told(mine, "leading_coefficients")[k]
    ok(near(have, x.coefficient, 1e-6) and names:find(x.determinant, 1, true),
       "determinant " .. k .. " is full CI's", names, x)
end
ok(near(told(mine, "energy_of_densities"), mine.energy, 1e-9), "density matrices make the energy",
   told(mine, "energy_of_densities"), mine.energy)
local both, pairs_of, bent = told(mine, "two_body"), 0, 0
for p = 1, 10 do
    for r = 1, 10 do
        pairs_of = pairs_of + both[p][p][r][r]
        bent = math.max(bent, math.abs(both[p][r][2][8] - both[r][p][8][2]))
    end
end
ok(near(pairs_of, 16 * 15, 1e-8) and bent < 1e-14, "the trace is that of all pairs, and they are symmetric",
   pairs_of, bent)
if os.execute "command -v gnuplot >/dev/null" then
    local drawn, said = run "plot o2.h5"
    ok(drawn == 0 and #(kit.slurp(kit.at "o2.svg") or "") > 20000, "plot draws a molecule's result", said)
end
local known, text = run "show o2.h5"
ok(known == 0 and text:find("10 x 10 x 10 x 10 numbers", 1, true), "show tells of four indices", text)

e = kit.energy("dmrg n2-sto3g.fcidump --space cas:10,8 -o none" .. T)
local frozen = kit.energy("ci n2-sto3g.fcidump --space cas:10,8")
ok(near(e, frozen, 1e-9), "an active space has the energy that ci tells", e, frozen)

-- all irreps: the lowest is marked
local status, out = run("dmrg lih-sto3g.fcidump --irrep all -o none --json" .. T)
doc = json(out)
ok(status == 0 and doc and #doc.runs == 4 and near(doc.energy, -7.882403410335505, 1e-9),
   "all irreps one by one", out:sub(1, 300))

-- mutual information: one convention for orbitals and sites
_, doc = kit.energy("dmrg lih-sto3g.fcidump --measure mutual -o none" .. T)
local apart = 0
for i, row in ipairs(doc.measurements.mutual.value) do
    for j, x in ipairs(row) do
        apart = math.max(apart, math.abs(x - told(doc, "mutual_information")[i][j]))
    end
end
ok(apart < 1e-9, "orbitals have the mutual information of sites", apart)

-- with little memory of the host operators wait in files, and those of lr give way to those of l-1-1-r
if not watched then
    local line = "dmrg h2o-631g-fc.fcidump --schedule 60:1e-4,150,150 --strategy lr -o none" .. T
    local _, much = kit.energy(line)
    local _, little = kit.energy(line .. " --host-memory 1MB --scratch .")
    ok(near(much.energy, little.energy, 1e-9), "--host-memory changes no energy", much.energy, little.energy)
    ok(little.memory_peak_bytes.vectors < 0.6 * much.memory_peak_bytes.vectors, "and takes less",
        much.memory_peak_bytes.vectors, little.memory_peak_bytes.vectors)
end

-- the first blocks hold many determinants and little that is random: seeds soon agree (from 64 determinants
-- they were 4e-4 apart); numbers alone
if not watched then
    local first = {}
    for seed = 1, 2 do
        first[seed] = kit.energy("dmrg h2o-631g-fc.fcidump --m 60 --max-sweeps 1 -o none --seed " .. seed
            .. T)
    end
    ok(near(first[1], first[2], 3e-5) and near(first[1], -76.11928, 3e-5),
       "two seeds are at one energy after one sweep", first[1], first[2])
end

-- H10: all multiplets kept, the energy that other programs tell
if not watched then
    ok(near(kit.energy("dmrg h10-chain-sto6g.fcidump --charge S=0 --accuracy 1e-10 -o none" .. T),
        -5.424385376333, 1e-10), "H10 at full m")
end
-- the total spin as a charge: the same states and densities, in fewer multiplets than states
compare("h2o-sto3g.fcidump", "--irrep 1 --frozen 1", "--charge S=0")
local _, plain = kit.energy("dmrg o2-triplet-sto3g.fcidump --ms2 2 --irrep 4 --two-body --accuracy 1e-11 -o none" .. T)
local _, coupled = kit.energy("dmrg o2-triplet-sto3g.fcidump --charge S=1 --irrep 4 --two-body --accuracy 1e-11 "
                              .. "-o s.h5" .. T)
ok(near(coupled.energy, plain.energy, 1e-9) and near(told(coupled, "s2"), 2, 1e-9)
   and near(told(coupled, "energy_of_densities"), coupled.energy, 1e-9), "O2 with S=1 is the triplet",
   coupled.energy, plain.energy, told(coupled, "s2"))
local off = 0
for _, name in ipairs { "density_up", "density_dn", "mutual_information" } do
    for i, row in ipairs(told(plain, name)) do
        for j, x in ipairs(row) do off = math.max(off, math.abs(x - told(coupled, name)[i][j])) end
    end
end
ok(off < 1e-6, "densities of S=1 are those of Sz=1", off)
ok(near(kit.energy("dmrg o2-triplet-sto3g.fcidump --ms2 0 --irrep 4 --start s.h5 --accuracy 1e-9 -o none" .. T),
        plain.energy, 1e-9), "a run with Sz=0 starts from the triplet")
kit.energy("dmrg o2-triplet-sto3g.fcidump --ms2 2 --irrep 4 -o z.h5" .. T)
refused("dmrg o2-triplet-sto3g.fcidump --charge S=1 --irrep 4 --start z.h5", "without S")
refused("dmrg n2-sto3g.fcidump --charge S=1/2", "14 electrons in 10 orbitals have S from 0 to 3 in steps of 1")
refused("dmrg n2-sto3g.fcidump --electrons 5 --charge S=7/2", "5 electrons in 10 orbitals have S from 1/2 to")
refused("dmrg n2-sto3g.fcidump --charge S=-1", "S=0, S=1/2")
refused("dmrg n2-sto3g.fcidump --charge S=scan", "S=0, S=1/2")
refused("dmrg n2-sto3g.fcidump --charge N=14", "total spin alone")
refused("dmrg n2-sto3g.fcidump --charge S=0 --ms2 2", "--ms2 2")
refused("dmrg oh-uhf-sto3g.fcidump --charge S=1/2", "unrestricted")
for _, command in ipairs { "show s.h5", "measure s.h5 --measure entropy --measure 'corr(cdag_up,c_up)'",
                           "plan n2-sto3g.fcidump --m 60 --charge S=0",
                           "explain n2-sto3g.fcidump --m 60 --charge S=0" } do
    local fine, said = run(command)
    ok(fine == 0, command, said)
end
kit.spill(kit.at "spin.lua", 'return { fcidump = "n2-sto3g.fcidump", charge = { S = 1 }, output = "none" }')
local _, spun = run("run spin.lua --json" .. T)
local triplet = json(spun)
ok(triplet and triplet.charges.S == 1 and triplet.energy > -107.65282873057855 + 1e-2, "a job with S",
   spun:sub(1, 300))

-- show, measure, start, plan, explain, jobs, whatever the file's name
status, out = run "show n2.h5"
ok(status == 0 and out:find("10 of n2-sto3g.fcidump", 1, true), "show names the orbitals", out)
status, out = run("measure n2.h5 --measure 'corr(cdag_up,c_up)' --json" .. T)
doc = json(out)
local trace = 0
local density = doc and doc.measurements["correlation/cdag_up,c_up"]
for i, row in ipairs(density and density.value or {}) do trace = trace + row[i] end
ok(near(trace, 7, 1e-9), "the trace of the one-body density matrix is the number of electrons", trace, out)
e = kit.energy("dmrg n2-sto3g.fcidump --start n2.h5 -o none" .. T)
ok(near(e, -107.65282873057855, 1e-9), "a run starts from another's state", e)
status, out = run "plan n2-sto3g.fcidump --m 60 --json"
doc = json(out)
ok(status == 0 and doc, "plan prints JSON", out:sub(1, 200))
for _, case in ipairs { { "h2o-631g-fc", watched and 30 or 60 },
                        not watched and { "h10-chain-sto6g", 80 } or nil } do
    -- many determinants; noise
    local of = (" %s.fcidump --max-products 2 --schedule "):format(case[1])
    local noisy = of .. ("%d:1e-4:1e-2,%d:0:1e-2"):format(case[2], case[2])
    local plain = json(select(2, run("plan" .. of .. case[2] .. " --json")))
    doc = json(select(2, run("plan" .. noisy .. " --json")))
    local _, made = kit.energy("dmrg" .. noisy .. " -o none" .. T)
    local said, had = doc and doc.plans[1].memory_bytes, made and made.memory_peak_bytes.total
    ok(said and had and math.abs(said / had - 1) < 0.15 and said > plain.plans[1].memory_bytes,
        "a plan counts what noise keeps and what the start holds, " .. case[1], said, had)
end
status, out = run "explain n2-sto3g.fcidump --m 60"
ok(status == 0 and out:find("y = H x", 1, true), "explain says who multiplies", out)
shell "cp lih-sto3g.fcidump integrals.txt"
kit.spill(kit.at "job.lua", 'return { fcidump = "integrals.txt", frozen = 1, output = "none" }')
status, out = run("run job.lua --json" .. T)
doc = json(out)
ok(doc and doc.model == "molecule" and doc.charges.N_up == 1, "a job about a molecule", out:sub(1, 300))

-- a schedule without noise may lack charges: no bar is told; with noise it is one that holds
for _, s in ipairs { { watched and "10,12,12" or "20,30,30", nil },
                     not watched and { "20:1e-3,30:1e-4,30,30", true } or nil } do
    _, doc = kit.energy("dmrg h2o-631g-fc.fcidump -o none --schedule " .. s[1] .. T)
    local bar = doc and type(doc.error_estimate) == "number" and doc.error_estimate < math.huge
    ok(doc and (bar or nil) == s[2], "error bar of the schedule " .. s[1], doc and doc.error_estimate)
    ok(not bar or math.abs(doc.energy + 76.11995518792072) <= doc.error_estimate, "and it holds", doc)
end

-- few states in an arbitrary order: what guards took from the state is found again
_, doc = kit.energy("dmrg o2-triplet-sto3g.fcidump --ms2 2 --irrep 4 --m 24 --order 4,9,1,7,3,10,2,6,8,5 -o none"
                    .. T)
ok(doc and near(doc.energy, -147.744035433628, 1e-5) and doc.error_estimate < 1e-2
   and math.abs(doc.energy + 147.744035433628) <= doc.error_estimate, "never stuck at small m",
   doc and doc.energy)

-- a killed run goes on
if not watched then
    shell("($K dmrg h2o-631g-fc.fcidump --m 80 --checkpoint-every 0 -o k.h5" .. T .. " >/dev/null 2>&1 & p=$!; "
          .. "for i in $(seq 200); do [ -s k.h5 ] && break; sleep 0.05; done; sleep 0.3; kill -9 $p; wait $p)")
    status, out = run("dmrg --resume k.h5 --json" .. T)
    doc = json(out)
    if status == 2 then ok(out == "", "the run had ended before it was killed")
    else
        ok(doc and near(doc.energy, -76.11995518792072, doc.error_estimate + 1e-9)
            and doc.error_estimate < 1e-2, "a killed run goes on to the end", out:sub(1, 200))
    end
end

-- an unfinished run says where its integrals were, takes them from elsewhere, and no others
shell("cp lih-sto3g.fcidump moved.fcidump; ($K dmrg moved.fcidump --order canonical --max-sweeps 1 "
      .. "--checkpoint-every 0 -o m.h5" .. T .. " >/dev/null 2>&1 & p=$!; for i in $(seq 400); do "
      .. "[ -s m.h5 ] && kill -9 $p && break; sleep 0.002; done; wait $p); mv moved.fcidump there.fcidump")
status = run("show m.h5")
local _, told_of = run "show m.h5"
if status == 0 and told_of:find "--resume" then
    refused("dmrg --resume m.h5", "which cannot be read")
    refused("dmrg h2o-sto3g.fcidump --resume m.h5", "")
    status, out = run("dmrg there.fcidump --resume m.h5 --json" .. T)
    doc = json(out)
    ok(doc and near(doc.energy, -7.882403410335505, 1e-5), "integrals are taken from where they are now", out)
    local order = doc and told(doc, "order") or {}
    ok(order[1] == 1 and order[6] == 6, "in the order of the run that goes on", out)
end

-- wrong options
refused("dmrg lih-sto3g.fcidump --lattice chain:6", "--lattice belongs to")
refused("dmrg lih-sto3g.fcidump --charge N_up=2", "total spin alone")
refused("dmrg lih-sto3g.fcidump --sweep-parameter U=1,2", "--sweep-parameter belongs to")
refused("dmrg hubbard --sites 4 --frozen 2", "--frozen belongs to")
refused("dmrg lih-sto3g.fcidump --irrep 8", "irrep 8; this file's labels make 1 to 4")
refused("dmrg lih-sto3g.fcidump --ms2 1", "2 Sz = 1")
refused("dmrg lih-sto3g.fcidump --electrons 20", "do not fit")
refused("dmrg lih-sto3g.fcidump --frozen 6", "to be inactive")
refused("dmrg lih-sto3g.fcidump --frozen 2 --electrons 4 --space cas:2,2", "exclude each other")
refused("dmrg lih-sto3g.fcidump --space cisd", "allowed: full, cas:ELECTRONS,ORBITALS")
refused("dmrg lih-sto3g.fcidump --order 1,2,3", "--order: 3 orbitals are listed; the run has 6")
refused("dmrg lih-sto3g.fcidump --order nearest", "'nearest' at place 1")
refused("dmrg lih-sto3g.fcidump --frozen 1 --order 1,2,3,4,5", "'1,2,3,4,5' at place 1")
refused("dmrg lih-sto3g.fcidump --reference 22", "names 2 orbitals")
refused("dmrg lih-sto3g.fcidump --reference 220000 --reference lowest", "one determinant")
refused("dmrg lih-sto3g.fcidump --accuracy 1", "--accuracy")
refused("dmrg lih-sto3g.fcidump --threshold -1", "--threshold")
refused("dmrg lih-sto3g.fcidump --measure Sq", "'Sq' is no operator of model molecule")
refused("dmrg lih-sto3g.fcidump -o lih-sto3g.fcidump", "would replace the FCIDUMP file")
refused("dmrg h2o-sto3g.fcidump --start n2.h5", "n2.h5")
refused("dmrg n2-sto3g.fcidump --start n2.h5 --order canonical", "another order")
refused("dmrg lih-sto3g.fcidump hubbard", "one FCIDUMP, not two")
kit.spill(kit.at "both.lua", 'return { fcidump = "integrals.txt", model = "hubbard" }')
refused("run both.lua", "one of them, not both")

-- broken files: what a reader meets, told with its line
local head = "&FCI NORB=2,NELEC=2,MS2=0,ORBSYM=1,1, &END\n"
local broken = {
    { "&FCI NELEC=2 &END\n", "NORB" }, { "&FCI NORB=2,NELEC=2", "header" },
    { "&FCI NORB=0 &END\n", "NORB is 0" }, { "&FCI NORB=x &END\n", "NORB" },
    { "&FCI NORB=99999 &END\n", "NORB is 99999" }, { "&FCI NORB=2,NORB=3 &END\n", "twice" },
    { "&FCI NORB=2,NELEC=-1 &END\n", "NELEC" }, { "&FCI NORB=2,NELEC=9 &END\n1 1 1 0 0\n", "electrons" },
    { "&FCI NORB=2,MS2=5000 &END\n", "MS2" },
    { "&FCI NORB=2,ORBSYM=1,1,1,1,1,1 &END\n1 1 1 0 0\n", "ORBSYM" },
    { "&FCI NORB=2 2 &END\n", "" }, { "&FCI =2 &END\n", "'='" }, { head .. "x 1 1 0 0\n", "2" },
    { head .. "1.0 1 1\n", "2" }, { head .. "1.0 3 1 0 0\n", "2" }, { head .. "1.0 -1 1 0 0\n", "2" },
    { head .. "nan 1 1 0 0\n", "2" }, { head .. "1.0 1 1 0 0 7 8\n", "2" },
    { head .. "1.0 1 1 0 0\n2.0 1 1 0 0\n", "3" }, { head .. "(1.0,0.5) 2 1 0 0\n", "2" },
    { head .. "1.0 1 0 1 1\n", "2" }, { head .. "1e999 1 1 1 1\n", "2" },
}
for _, b in ipairs(broken) do
    kit.spill(kit.at "broken", b[1])
    refused("dmrg broken -o none", b[2])
end
kit.finish()
