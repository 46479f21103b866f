-- What a physicist does in a day, from outside: lattices, correlators, scans, figures.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 physics.lua PROGRAM; prints TAP.
local HERE = arg[0]:match "^(.*/)" or ""
local kit = dofile(HERE .. "kit.lua")
local ok, run, json = kit.ok, kit.run, kit.json
local function near(a, b, tolerance) return a and math.abs(a - b) <= tolerance end
local function document(line)
    local status, out, err = run(line .. " --json")
    return status == 0 and json(out) or {}, err
end

-- Energies by another program: sites and bonds laid out by hand, scipy's eigsh on bit strings.
for spec, energy in pairs {
    ["kagome:torus:2x2"] = -5.444875216971856, ["honeycomb:torus:3x2"] = -6.930861488284974,
    ["triangular:torus:2,2x-2,4"] = -7.323961625254633, ["lieb:torus:2x2"] = -5.824230611204891,
    ["torus:3,1x-1,3"] = -7.3000680720578615,
} do
    local doc, err = document("ed heisenberg --charge Sz=0 --lattice " .. spec)
    ok(near(doc.energy, energy, 1e-9), "Heisenberg on " .. spec, doc.energy, err)
end
do
    local exact = document "ed heisenberg --charge Sz=0 --lattice kagome:YC4x3"
    local doc, err =
        document "dmrg heisenberg --charge Sz=0 --lattice kagome:YC4x3 --accuracy 1e-9 --output k.h5"
    ok(near(doc.energy, exact.energy, 1e-7) and doc.error_estimate < 1e-7,
        "a kagome cylinder by dmrg and ed", doc.energy, exact.energy, err)
    local lattice = document "lattice kagome:YC4x3"
    local nn = 0
    for _, bond in ipairs(lattice.bonds or {}) do
        for _, class in ipairs(bond.classes) do nn = nn + (class == "nn" and 1 or 0) end
    end
    ok(#lattice.sites == 18 and nn == 32 and lattice.sites[2].class == "B", "its sites, bonds and classes",
        nn)
end
for line, words in pairs {
    ["lattice kagome:YC5x4"] = "multiples of 2, not 5",
    ["lattice kagome:YC4x4 -o k.svg"] = "no effect without",
    ["lattice"] = "SPEC|FILE.lua is missing",
    ["dmrg heisenberg --lattice kagom:2x2 --charge Sz=0"] = "did you mean kagome",
} do
    local status, _, err = run(line)
    ok(status == 2 and err:find(words, 1, true) and not err:find "\n.", "refused: " .. line, err)
end

-- Operators on bonds: the same by dmrg and ed; sums of them are energies, and their squares.
do
    local pair = "cdag_up(i)*cdag_dn(j)+cdag_up(j)*cdag_dn(i)"
    local asked = {
        ([[corr("rung",%s,hc)]]):format(pair), "bond(nn,(cdag_up(i)*c_up(j)+hc)/2)",
        [[corr("leg",cdag_up(i)*c_up(j)*cdag_dn(j)*c_dn(i),hc)]], [[corr("nn",n_up(i)*n_dn(j),n_up(i)*n_dn(j))]],
    }
    local line = " hubbard --lattice ladder:3x2 -p U=4 --charge N_up=2 --charge N_dn=2"
    for _, what in ipairs(asked) do line = line .. " --measure '" .. what .. "'" end
    local exact, err = document("ed" .. line)
    local doc = document("dmrg" .. line .. " --accuracy 1e-10 -o b.h5")
    local n, worst = 0, 0
    for name, one in pairs(exact.measurements or {}) do
        if name:find "^bond" then
            n = n + 1
            local other = doc.measurements[name].value
            for i, row in ipairs(one.value) do
                local same = type(row) == "table" and row or { row }
                local new = type(row) == "table" and other[i] or { other[i] }
                for k, x in ipairs(same) do worst = math.max(worst, math.abs(x - new[k])) end
            end
        end
    end
    ok(n == 4 and worst < 1e-8, "operators on bonds by dmrg and ed", n, worst, err)
    local rung = exact.measurements["bondcorr/rung," .. pair .. ",hc"].value
    ok(near(rung[1][3], rung[3][1], 1e-12) and rung[2][2] > 0, "pairs: a symmetric matrix")
    local spins = document("dmrg heisenberg --lattice kagome:YC4x2 --charge Sz=0 --accuracy 1e-10 "
        .. "--measure 'bond(nn)' --measure 'corr(\"nn\",Sz(i)*Sz(j)+(Sp(i)*Sm(j)+hc)/2,hc)' -o s.h5")
    local sum, square = 0, 0
    for _, x in ipairs(spins.measurements["bond/nn"].value) do sum = sum + x end
    for name, one in pairs(spins.measurements) do
        if name:find "^bondcorr" then
            for _, row in ipairs(one.value) do for _, x in ipairs(row) do square = square + x end end
        end
    end
    ok(near(sum, spins.energy, 1e-8) and near(square, spins.energy ^ 2, 1e-6),
        "S.S on bonds adds up to the energy", sum, square, spins.energy)
end
for line, words in pairs {
    [ [[corr("rung",cdag_up(i)*cdag_dn(j),cdag_up(i)*cdag_dn(j))]] ] = "it changes the charge N_up by 2",
    ["bond(nn,cdag_up(i)*c_dn(j))"] = "it changes the charge N_up by 1",
    ["bond(diagonal,n_up(i))"] = "no bonds of class 'diagonal'",
    ["bond(nn,n_up(k))"] = "the ends of a bond are i and j",
    ["bond(nn,n_up(i)"] = "')' is missing",
    [ [[corr("nn",n_up(i))]] ] = "the second operator is missing",
    ["bond(nn,(n_up(i)+n_up(j))*)"] = "is missing",
} do 
    kit.refused("ed hubbard --lattice ladder:3x2 --charge N_up=1 --charge N_dn=1 --measure '" .. line .. "'", words)
end

-- Figures as numbers, which need no gnuplot: what they tell is what another formula says.
local function panel(doc, title)
    for _, one in ipairs(doc.panels or {}) do
        if one.title:find(title, 1, true) then return one end
    end
    return { series = {}, note = "no panel " .. title }
end
do
    run("dmrg heisenberg -p Delta=0 --sites 64 --charge Sz=0 --accuracy 1e-8 --measure 'connected(Sz,Sz)' "
        .. "--measure Sz -o xx.h5")
    local doc, err = document "plot xx.h5"
    local c, bar = panel(doc, "entropy").note:match "c = ([%d.]+) ± ([%d.]+)"
    ok(near(tonumber(c), 1, 0.05) and tonumber(bar) < 0.05, "c = 1 of free fermions on 64 sites",
        panel(doc, "entropy").note, err)
    -- density correlations of free fermions fall off as r^-2
    local power, off = panel(doc, "both axes").note:match "exponent ([%d.]+) ± ([%d.]+)"
    ok(near(tonumber(power), 2, math.max(tonumber(off) or 0, 0.1)) and tonumber(off) < 0.5,
        "their density correlations fall off by a power", panel(doc, "both axes").note)
    local spin = panel(doc, "by site").series[1]
    ok(spin and #spin.y == 64 and spin.y[7] == 0, "noise is drawn as nothing")
    local status, out = run "plot xx.h5 --csv xx.csv"
    local csv = kit.slurp(kit.at "xx.csv") or ""
    ok(status == 0 and out == "xx.csv\n" and csv:find "^panel,series,x,y,value,error\n" and
        csv:find '"entanglement entropy","",32,0%.', "the same as CSV", out)
    status, _, err = run "plot xx.h5 --csv xx.h5"
    ok(status == 2 and err:find "replace", "a table replaces no result", err)
end
do
    local names = {}
    for _, length in ipairs { 8, 12, 16, 24 } do
        run(("dmrg heisenberg -p Delta=0 --sites %d --charge Sz=0 --accuracy 1e-10 --states 2 -o l%d.h5"):format(
            length, length))
        names[#names + 1] = ("l%d.h5"):format(length)
    end
    local doc, err = document("plot " .. table.concat(names, " "))
    local energy, bar = panel(doc, "energy per site").note:match "limit (%-[%d.]+) ± ([%d.]+)"
    energy, bar = tonumber(energy), tonumber(bar)
    ok(energy and math.abs(energy + 1 / math.pi) <= bar and bar < 1e-3, "energy of the endless chain, -1/pi",
        panel(doc, "energy per site").note, err)
    ok(#panel(doc, "gap against size").series[1].x == 4, "gaps of all sizes")
end
do
    run "ed hubbard --sites 4 -p U=4 --charge N_up=2 --charge N_dn=2 --spectral cdag_up@0 --spectral c_up@0 -o a.h5"
    local a = panel(document "plot a.h5", "addition and removal")
    local function weight(s) -- by frequency
        local sum = 0
        for k = 2, #s.x do sum = sum + math.abs(s.x[k] - s.x[k - 1]) * (s.y[k] + s.y[k - 1]) / 2 end
        return sum
    end
    ok(#a.series == 2 and a.series[2].x[1] >= a.series[2].x[#a.series[2].x], "A of addition and removal")
    ok(#a.series == 2 and near(weight(a.series[1]) + weight(a.series[2]), 1, 0.06), "its weight is 1",
        #a.series == 2 and weight(a.series[1]) + weight(a.series[2]))
    local line = "ed heisenberg --lattice ring:8 --charge Sz=0 -o q.h5"
    for _, q in ipairs { 4, 0, 1, 3, 2, 7 } do line = line .. " --spectral Sz@q=" .. q end
    run(line)
    local map = panel(document "plot q.h5", "spectral function")
    ok(map.plane_x and #map.plane_x == 8 and map.plane_x[5] == 1 and map.note == "not computed: q = 5 6",
        "a map in numerical order, its gaps told", map.note)
    run "ed heisenberg --sites 6 --charge scan --temperatures 1,2 -o t.h5"
    local heat = panel(document "plot t.h5", "heat capacity per site").series[1]
    ok(heat and #heat.x == 2 and heat.error and heat.y[1] > 0, "heat with its errors")
end

kit.finish()
