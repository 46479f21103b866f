-- The work of H by pairs of patches in a plan, and the pictures of plans and growth.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/cli/pictures.lua KRONLAT; prints TAP, exits 1 on a failure.

local kit = dofile((arg[0]:match "^(.*/)" or "./") .. "kit.lua")
local ok, at, run, shell, json = kit.ok, kit.at, kit.run, kit.shell, kit.json
local watched = os.getenv "KL_TEST_ROUNDS" -- by tools that make all longer

for _, strategy in ipairs { "lr", "l11r" } do
    local _, out = run("plan hubbard --sites 12 --charge N_up=6 --charge N_dn=6 --m 40 --json --strategy "
        .. strategy)
    local plan = assert(json(out), out).plans[1]
    local flop, records, there, symmetric = {}, 0, {}, true
    for _, cell in ipairs(plan.work_between_pairs) do
        flop[cell.to] = (flop[cell.to] or 0) + cell.flop
        records = records + cell.records
        there[cell.to .. " " .. cell.from] = true
    end
    for _, cell in ipairs(plan.work_between_pairs) do
        symmetric = symmetric and there[cell.from .. " " .. cell.to]
    end
    local same = true
    for i, pair in ipairs(plan.pairs) do same = same and flop[i - 1] == pair.flop end
    ok(same, strategy .. ": the work of a patch is that of its pairs", out)
    ok(records == plan.records, strategy .. ": every record is in a pair of patches", records)
    ok(symmetric, strategy .. ": H leads from J to I where it leads from I to J")
    ok(there["0 0"] and #plan.work_between_pairs < (#plan.pairs) ^ 2, strategy .. ": not every pair has work")
end

-- Memory of the strategies of nemes2014, by iteration.
do
    local _, out = run "growth heisenberg --sites 12 --charge Sz=0 --m 16 --strategy lr --json"
    local good = true
    for _, r in ipairs(assert(json(out), out).iterations) do
        local list = r.list
        good = good and list.vector_bytes == 16 * r.dim and list.all_work_bytes >= list.one_work_bytes
            and list.operator_bytes > 0 and list.basis_bytes % (8 * r.dim) == 0 and list.device_share == 0
    end
    ok(good, "memory of growth, by iteration", out)
    local status, _, err = run "bench ci --csv x.csv"
    ok(status == 2 and err:find "add %-%-tables", "bench ci --csv without tables", err)
end

-- What figures tell, as numbers. name: of a panel, or how it begins.
local function figure(files)
    local _, out, err = run("plot " .. files .. " --json")
    local f = json(out)
    if not f then return {}, out .. err end
    return f, out
end

local function panel(f, name)
    for _, p in ipairs(f.panels or {}) do
        if p.title:sub(1, #name) == name then return p end
    end
    return { note = "", series = {} }
end

-- The central charge is 1 of all these, within an error that a paper can use where nothing hides it.
for k, case in ipairs {
    { "dmrg heisenberg --lattice ring:16 --charge Sz=0", 0.04 },
    { "dmrg heisenberg --sites 64 --charge Sz=0", 0.1 },
    { "dmrg heisenberg -p Delta=0.5 --sites 64 --charge Sz=0", 0.05 },
    { "dmrg heisenberg -p Delta=0.7 --sites 48 --charge Sz=0", 0.15 },
    { "dmrg j1j2 -p J2=0.2411 --sites 64 --charge Sz=0", 0.05 } } do
    if k > 2 and watched then break end
    run(case[1] .. " --accuracy 1e-8 --threads 1 --output c.h5")
    local f, out = figure "c.h5"
    local note = panel(f, "entanglement").note
    local c, error = note:match "c = ([%d.]+) ± ([%d.]+)"
    c, error = tonumber(c), tonumber(error)
    ok(c and math.abs(c - 1) <= error and error < case[2], "central charge of " .. case[1], note,
        c and "" or out)
end

-- With the total spin the entropies of a singlet are those of any component; above it the spin stands on the
-- left, which the panel says.
for _, case in ipairs { { 0, "c = [%d.]+ ± " }, { 1, "^S > 0: of the right part, in the equal mixture" } } do
    run("dmrg heisenberg --lattice ring:16 --accuracy 1e-8 --threads 1 --output c.h5 --charge S=" .. case[1])
    local f, out = figure "c.h5"
    local p = panel(f, "entanglement")
    ok(p.note:find(case[2]) and #p.series == 2 - case[1], "entropies with S=" .. case[1], p.note, out)
end

-- Sweeps: every point is drawn, above the extrapolated energy or without the lowest, which is told.
do
    local good, seen = true, {}
    for _, accuracy in ipairs { "1e-4", "1e-8" } do
        run("dmrg hubbard -p U=4 --sites 12 --charge N_up=6 --charge N_dn=6 --accuracy " .. accuracy
            .. " --threads 1 --output e.h5")
        local p = panel(figure "e.h5", "energy above the ")
        for _, y in ipairs(p.series[1] and p.series[1].y or { 0 }) do good = good and y > 0 end
        seen[#seen + 1] = p.note
        good = good and (p.note:find "^extrapolated: %-%d"
            or p.note:find "^the lowest is sweep %d+ of %d+: %-%d")
    end
    ok(good, "energies by sweep", table.unpack(seen))
end

-- Sectors of one system stand against their charge, lattices by column, pairs of bonds by distance; what
-- several results do not show is told.
do
    local pairs_of = "'corr(\"rung\",cdag_up(i)*cdag_dn(j)+cdag_up(j)*cdag_dn(i),hc)'"
    run("dmrg hubbard -p U=8 --lattice ladder:4x2 --charge N_up=3:4 --charge N_dn=4 --m 60 --threads 1 "
        .. "--measure n --measure 'density(0,1)' --measure " .. pairs_of .. " --output 'd{N_up}.h5'")
    local f, out = figure "d3.h5 d4.h5"
    local energy, n, rung = panel(f, "energy per site"), panel(f, "⟨n⟩ by site, mean of each column"),
        panel(f, "⟨c†↑(i)")
    ok(energy.x == "N_up" and energy.series[1].x[1] == 3 and energy.series[1].x[2] == 4, "energies by charge",
        out)
    ok(#n.series == 2 and n.series[1].name == "N_up = 3" and #n.series[1].x == 4 and n.y == "⟨n⟩",
        "densities by column, named by the charge", out)
    local mean = 0
    for _, v in ipairs(n.series[1] and n.series[1].y or {}) do mean = mean + v / 4 end
    ok(math.abs(mean - 7 / 8) < 1e-6, "whose mean is the filling", mean)
    ok(#rung.series == 2 and rung.x == "distance along the row" and #rung.series[2].x == 3,
        "pairs by distance", out)
    ok(out:find "density/0,1" and out:find "only plots of one result", "what is left out is told", out)
end

-- Pairs go by the shorter way: to the far end of a chain, and around a torus, of bonds too.
do
    run "ed heisenberg --sites 8 --charge Sz=0 --measure 'corr(Sp,Sm)' --output p8.h5"
    local _, doc = run "show p8.h5 --json"
    local ends = math.abs(json(doc).measurements["correlation/Sp,Sm"].value[1][8])
    local p, out = panel(figure "p8.h5", "correlation"), nil
    local curve = p.series[1] or { x = {}, y = {} }
    ok(curve.x[7] == 7 and math.abs(curve.y[7] - ends) < 1e-12, "a chain's ends", ends, curve.y[7])
    run("ed heisenberg --lattice torus:6x2 --charge Sz=0 --measure 'corr(Sz,Sz)' "
        .. "--measure 'corr(\"rung\",Sp(i)*Sm(j),hc)' --output p6.h5")
    p, out = figure "p6.h5"
    for _, name in ipairs { "correlation ⟨Sᶻ Sᶻ⟩: both", "⟨S⁺(i)" } do
        curve = panel(p, name).series[1] or { x = {} }
        ok(table.concat(curve.x, " ") == "1 2 3", "distances on a torus: " .. name, out)
    end
end

-- Structure factors of several results stand against q; of three sizes the limit has an error.
do
    run("ed heisenberg --sweep-parameter sites=4,6,8 --lattice ring --charge Sz=0 "
        .. "--measure 'structure(Sz,Sz)' --output 'q{sites}.h5'")
    local f, out = figure "q4.h5 q6.h5 q8.h5"
    local s = panel(f, "structure factor")
    ok(s.x == "q / π" and #s.series == 3 and s.series[3].x[5] == 1, "structure factors against q", out)
    local error = panel(f, "energy per site").note:match "± ([%d.]+)"
    ok(error and tonumber(error) > 1e-4, "limit of three sizes", panel(f, "energy per site").note)
end

-- The structure factor over a grid of momenta: a map of the zone, whose sum rule is that of the spins.
do
    run("dmrg heisenberg --lattice torus:4x3 --charge Sz=0 --accuracy 1e-8 --threads 1 "
        .. "--measure 'structure(Sz,Sz)' --output z.h5")
    local f, out = figure "z.h5"
    local map = panel(f, "structure factor")
    local sum = 0
    for _, v in ipairs(map.plane or {}) do sum = sum + v / 12 end
    local good = map.plane_x and table.concat(map.plane_x, " ") == "-0.5 0 0.5 1" and #map.plane_y == 3
        and #map.outline == 8
    ok(good and math.abs(sum - 1 / 4) < 1e-6 and math.abs(map.plane[4 + 2]) < 1e-6,
        "structure factor as a map", sum, out)
end

if shell "gnuplot --version" ~= 0 then kit.skip("pictures", "no gnuplot")
else
    for _, case in ipairs {
        { "plan heisenberg --sites 12 --charge Sz=0 --m 16", "plan.svg", "share, %" },
        { "growth heisenberg --sites 12 --charge Sz=0 --m 16", "growth.svg", "NoStreams" },
    } do
        local status, out, err = run(case[1] .. " --plot " .. case[2])
        local svg = kit.slurp(at(case[2])) or ""
        ok(status == 0 and svg:find(case[3], 1, true) and svg:find "</svg>", case[1] .. " --plot", out, err)
    end
    kit.spill(at "tall.csv", [[
rows,width,exec,way,belt,seconds,gb_per_s,of_reading,of_library,residual,operation
1000,1,cuda,own,0,1e-6,16,1,1,1e-16,V^T x
1000,9,cuda,own,8,1e-6,80,1,1,1e-16,V^T x
1000,2,cuda,gemv,0,1e-6,24,1,1,1e-16,V y
]])
    local drawn, told, why = run "plot tall.csv --output tall.svg"
    local curves = kit.slurp(at "tall.svg") or ""
    ok(drawn == 0 and curves:find("belts of 8", 1, true) and curves:find("V^T x of 1000 rows", 1, true)
        and curves:find("V y of 1000 rows", 1, true), "plot draws what bench gemv_trans wrote", told .. why)
    kit.spill(at "tall.csv", "rows,width,exec,way,belt,seconds,gb_per_s,of_reading,of_library,residual\n1,x\n")
    drawn, _, why = run "plot tall.csv --output tall.svg"
    ok(drawn == 2 and why:find "tall%.csv:2: is no row of a table", "and refuses what it did not", why)
    local status, _, err = run "plan heisenberg --sites 8 --charge Sz=0 --m 8 --plot x.txt"
    ok(status == 2 and err:find "allowed: .svg .png .pdf", "a picture of no format", err)
end

-- The entanglement spectrum of a chain in halves: weights exp(-y) whose sum is 1, those of Sz and -Sz of the
-- left part alike.
do
    run "dmrg heisenberg --sites 8 --charge Sz=0 --measure spectrum -o spectrum.h5"
    local _, csv, err = run "plot spectrum.h5 --csv -"
    local sum, n, up, down = 0, 0, 0, 0
    for x, y in csv:gmatch '"entanglement spectrum at the middle cut","",([-%d.e]+),([-%d.e]+),' do
        local weight = math.exp(-y)
        sum, n = sum + weight, n + 1
        up, down = up + (tonumber(x) == 1 and weight or 0), down + (tonumber(x) == -1 and weight or 0)
    end
    ok(n > 3 and math.abs(sum - 1) < 1e-7 and up > 0.01 and math.abs(up - down) < 1e-9,
        "an entanglement spectrum", sum, n, up, down, csv, err)
    ok(not err:find "left out" and not csv:find "left out", "of which nothing is left out", err)
end

-- Bonds against a parameter: their mean, which the table of the sweep has as well.
do
    local _, out = run("dmrg heisenberg --lattice ladder:3x2 --charge Sz=0 --measure 'bond(rung)' "
        .. "--sweep-parameter Delta=0,1 -o 'r{Delta}.h5' --json")
    local doc = json(out) or { runs = {} }
    local _, csv, err = run "plot r0.h5 r1.h5 --csv -"
    for k, r in ipairs(doc.runs) do
        local y = csv:match(('"⟨S·S⟩ on bonds rung, mean over bonds","",%d,([-%%d.e]+),'):format(k - 1))
        ok(y and math.abs(tonumber(y) - r.measured["bond(rung)"]) < 1e-12, "bonds of run " .. k, csv, out)
    end
    ok(#doc.runs == 2 and err == "", "and nothing is left out", err)
end

kit.finish()
