-- What a physicist does in a day, from outside: lattices, correlators, scans, figures, benchmarks.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 physics.lua PROGRAM; prints TAP. With $KL_TEST_ROUNDS, for tools that watch the program, some
-- cases of a kind are left out and some are smaller.
local HERE = arg[0]:match "^(.*/)" or ""
local kit = dofile(HERE .. "kit.lua")
local ok, run, json = kit.ok, kit.run, kit.json
local watched = os.getenv "KL_TEST_ROUNDS"
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
    local line = " heisenberg --charge Sz=0 --lattice kagome:YC4x" .. (watched and 2 or 3)
    local exact = document("ed" .. line)
    local doc, err = document("dmrg" .. line .. " --accuracy 1e-9 --output k.h5")
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
-- Places of electrons that never move are conserved, and no charge tells them.
do
    kit.spill(kit.at "places.lua", [[
-- H = -t sum (c+_i c_j + h.c.) + U sum nc_i nf_i
site(fermion{"c", "f"})
conserve { Nc = n_c, Nf = n_f }
parameters { t = 1, U = 4 }
bond("nn", -t * (cdag_c(i)*c_c(j) + hc))
onsite(U * n_c(i)*n_f(i))
]])
    local _, text = run "dmrg ./places.lua --sites 6 --charge Nc=3 --charge Nf=3 -o places.h5"
    local found = document "show places.h5"
    ok(text:find "\nsectors +H keeps 5 products of signs" and found.hidden_strings == 5,
        "strings that no charge tells", text)
    ok(found.converged == false and found.energy_converged and found.waits_for == "nothing",
        "all its placements are asked for", found.stop, found.waits_for)
    -- 1716 placements, two states, whose sectors are not searched: of neither a lower one is ruled out
    for _, line in ipairs { watched and "--sites 13 --charge Nc=1 --charge Nf=6" or
        "--sites 13 --charge Nc=5 --charge Nf=6",
        not watched and "--sites 12 --charge Nc=5 --charge Nf=5 --states 2" or nil } do
        _, text = run("dmrg ./places.lua -o places.h5 " .. line)
        local many = document "show places.h5"
        ok(text:find "\nstopped +NOT CONVERGED: sweeps have settled; the accuracy waits for a search through "
            and many.converged == false and many.energy_converged == false
            and many.stop == "sectors_untried" and many.waits_for:find "^a search through all sectors",
            "and not all: " .. line, text, many.stop)
    end
    local chain = document "dmrg heisenberg --sites 6 --charge Sz=0 --output none"
    ok(chain.hidden_strings == 0, "a chain with Sz has none", chain.hidden_strings)
end
-- Two states of a bad order: a product from which nothing is discarded has not converged.
do
    local chain = "hubbard --sites 8 -p U=4 --charge N_up=4 --charge N_dn=4 -o none"
    local exact = document("ed " .. chain)
    -- the last one keeps but one state in the end
    for order, seed in pairs { ["6,5,0,3,7,4,1,2"] = 3, ["0,7,2,5,4,3,6,1"] = 1, ["5,1,3,7,0,2,4,6"] = 3 } do
        local few = document(("dmrg %s --m 2 --seed %d --order %s"):format(chain, seed, order))
        ok(few.converged == false and few.energy_converged == false and few.stop == "m_max"
            and few.energy > exact.energy + 0.1 and few.energy - exact.energy <= few.error_estimate,
            "two states in the order " .. order, few.energy, few.error_estimate, few.stop)
        if watched then break end
    end
    -- one state of sites of eight
    local kondo = "kondo --sites 4 --charge N=4 --charge Sz=0 --output none "
    local few, exact = document("dmrg " .. kondo .. "--m 1"), document("ed " .. kondo)
    ok(few.converged == false and few.energy > exact.energy + 1
        and few.energy - exact.energy <= few.error_estimate, "one state", few.energy, few.error_estimate)
end
-- Few states that nobody asked for, in a random order: chains of free electrons, whose levels give the
-- energies (3.5e-8 and 7.1e-6 too high at bars of 2e-11 and 6e-8). Numbers alone: no code that others of
-- these runs have not.
if not watched then
    kit.spill(kit.at "electrons.lua", [[
-- H = -sum t_ij (c+_i c_j + h.c.) + sum h_i n_i
site(fermion())
conserve "N"
parameters { t = per_bond(1), h = per_site(0) }
bond("nn", -t * (cdag(i)*c(j) + hc))
onsite(h(i) * n(i))
]])
    for line, energy in pairs {
        ["-p t=-1.036,-0.8549,-0.4109,0,0,-1.13,0.2489,-0.5119,0,1.2,0.8063,0,0,1.259,0.5295,-0.3508,1.204," ..
            "-0.3911,0,1.076,1.205,0.9875,0.8782 -p h=9.577,-3.732,-2.725,5.964,-2.071,3.425,3.115,-6.678," ..
            "-1.65,-0.2924,-2.206,-7.18,-0.2274,-6.605,9.721,-4.605,-4.557,-1.49,5.607,-7.423,-1.104,5.088," ..
            "8.834,6.897 --charge N=15 --seed 52 --order 4,16,9,3,23,15,21,10,18,1,0,5,2,17,11,12,8,13,19,7," ..
            "20,22,6,14"] = -53.022950185703515,
        ["-p t=0.02509,0.5905,0.05939,1.386,0.5437,0.6344,8.794e-06,0.9339,0.8847,0.7432,1.279,0.6442," ..
            "0.0001297,0.7115,1.239,0.6868,0.003846,0.8764,2.982e-05,1.076,1.371e-06,1.411,1.31 -p " ..
            "h=4.655,-4.779,-0.9469,1.14,-9.951,1.479,-6.737,9.909,-1.904,-4.518,-7.397,-6.972,-3.671,2.161," ..
            "-7.688,-9.293,-6.733,9.306,9.104,9.632,2.614,3.472,0.2434,6.725 --charge N=11 --seed 85 " ..
            "--discard 1.297e-12 --sites-per-step 2 --order 21,7,19,18,22,3,6,13,14,1,2,4,8,16,20,11,23,0," ..
            "17,15,12,10,9,5"] = -70.1016313742876,
    } do
        local few, note = document("dmrg ./electrons.lua --sites 24 --threads 1 -o none " .. line)
        ok(few.energy and few.energy - energy <= few.error_estimate and few.error_estimate < 1e-4,
            "few states in a random order: " .. line, few.energy, few.error_estimate, note)
    end
end
-- Plaquettes that commute: the toric code with a field, Wen's model, Kitaev's on a honeycomb, whose fluxes no
-- charge tells.
do
    local head = { 'site(pauli()) conserve "nothing" parameters { h = 0 }' }
    local function four(list, a, format)
        list[#list + 1] = ('named({"%d", "%d", "%d", "%d"}, ' .. format .. ")"):format(a[1], a[2], a[3], a[4])
    end
    local toric, wen = { "-- H = toric code", head[1] }, { "-- H = Wen's plaquettes", head[1] }
    for x = 0, 1 do
        for y = 0, 2 do
            -- bonds of a torus of 2 x 3 cells: along x, along y
            local function h(i, j) return 2 * (i % 2 * 3 + j % 3) end
            local function v(i, j) return h(i, j) + 1 end
            four(toric, { h(x, y), h(x - 1, y), v(x, y), v(x, y - 1) }, "-sx(i)*sx(j)*sx(k)*sx(l)")
            four(toric, { h(x, y), h(x, y + 1), v(x, y), v(x + 1, y) }, "-sz(i)*sz(j)*sz(k)*sz(l)")
        end
    end
    for x = 0, 4 do
        for y = 0, 3 do
            local function s(i, j) return i % 5 * 4 + j % 4 end
            -- isy isy = -sy sy
            four(wen, { s(x, y), s(x + 1, y), s(x + 1, y + 1), s(x, y + 1) }, "sx(i)*isy(j)*sx(k)*isy(l)")
        end
    end
    toric[#toric + 1] = "onsite(-h * sx(i))"
    wen[#wen + 1] = "onsite(h * sz(i))"
    kit.spill(kit.at "toric.lua", table.concat(toric, "\n") .. "\n")
    kit.spill(kit.at "wen.lua", table.concat(wen, "\n") .. "\n")
    kit.spill(kit.at "fluxes.lua", [[
-- H = Kitaev on a honeycomb
site(pauli()) conserve "nothing" parameters { Jx = 1, Jy = 1, Jz = 1 }
bond("x", Jx * sx(i)*sx(j))
bond("y", -Jy * isy(i)*isy(j))
bond("z", Jz * sz(i)*sz(j))
]])
    for line, strings in pairs {
        ["./toric.lua --sites 12"] = 14,
        ["./toric.lua --sites 12 -p h=0.3"] = 7,
        ["./wen.lua --sites 20"] = 21,
        ["./fluxes.lua --lattice honeycomb:torus:2x3 -p Jz=1.4"] = 7,
    } do
        -- a million states: the others' are 4096
        if watched and strings == 21 then goto next end
        local exact = document("ed " .. line .. " -o none")
        local found, err = document("dmrg " .. line .. " -o none")
        ok(near(found.energy, exact.energy, found.error_estimate + exact.error_estimate)
            and found.error_estimate < 1e-7 and found.hidden_strings == strings, "fluxes: " .. line,
            found.energy, exact.energy, found.error_estimate, found.hidden_strings, err)
        -- four of the toric code without a field; a sector of 4096 states is solved as a whole, of 2^20 not
        local word = strings == 21 and "sectors_untried" or strings == 14 and "energy_converged"
        ok(found.stop == (word or found.stop) and found.converged == (found.stop == "converged")
            and found.converged == (found.unresolved == 0 and strings ~= 21),
            "and what it claims: " .. line, found.stop, found.unresolved)
        ::next::
    end
end
-- Majumdar and Ghosh: two states at -3/8 J a site.
do
    local dimers = "dmrg j1j2 --lattice ring:8 -p J2=0.5 --output none --charge "
    local _, text = run(dimers .. "Sz=0")
    ok(text:find "stopped +the energy has converged: [^\n]*; the state has not"
        and text:find "states +1; another lies within", "not told apart: not converged", text)
    local one, both = document(dimers .. "Sz=0"), document(dimers .. "Sz=0 --states 2")
    ok(one.converged == false and one.energy_converged and one.unresolved > 0
        and one.stop == "energy_converged" and near(one.energy, -3, 1e-11)
        and one.error_estimate >= one.unresolved, "the same in JSON", one)
    ok(both.converged and both.energy_converged and both.unresolved == 0 and both.stop == "converged"
        and near(both.energies[2], -3, 1e-11), "and both together have", both)
    _, text = run(dimers .. "Sz=0,4")
    ok(text:find "Sz=0[^\n]*<%- lowest  NOT TOLD APART" and not text:find "NOT CONVERGED",
        "and in a table of sectors", text)
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

-- Some sectors of all: ranges and lists of charges.
do
    local function sectors(line)
        local doc, err = document(line)
        local labels = {}
        for _, one in ipairs(doc.runs or {}) do labels[#labels + 1] = one.label end
        return table.concat(labels, " "), err, doc
    end
    ok(sectors "ed heisenberg --sites 8 --charge Sz=0:2" == "Sz=0 Sz=1 Sz=2", "a range of charges")
    ok(sectors "ed heisenberg --sites 8 --charge Sz=-2:4:2" == "Sz=-2 Sz=0 Sz=2 Sz=4", "a range with steps")
    local list, err, doc = sectors "dmrg heisenberg --sites 8 --charge Sz=3,0 -o scan.h5"
    ok(list == "Sz=0 Sz=3" and err:find "2 sectors", "a list of charges, announced", list, err)
    local one = document "ed heisenberg --sites 8 --charge Sz=0"
    ok(near(doc.energy, one.energy, 1e-8) and doc.lowest == "Sz=0", "its lowest sector", doc.energy,
        doc.lowest)
    ok(sectors "ed hubbard --sites 3 --charge N_up=0:1 --charge N_dn=1" == "N_up=0 N_dn=1 N_up=1 N_dn=1",
        "a range of one of two charges", (sectors "ed hubbard --sites 3 --charge N_up=0:1 --charge N_dn=1"))
    local some = document "ed heisenberg --sites 6 --charge Sz=0:1 --temperatures 1"
    local all = document "ed heisenberg --sites 6 --charge Sz=-3:3 --temperatures 1"
    local whole = document "ed heisenberg --sites 6 --charge scan --temperatures 1"
    local function heat(d) return d.measurements["thermal/heat"].value[1][1] end
    ok(near(heat(all), heat(whole), 1e-12) and math.abs(heat(some) - heat(all)) > 1e-3,
        "heat of some sectors", heat(some), heat(all), heat(whole))
    for line, words in pairs {
        ["Sz=0:9"] = "Sz=9 cannot be had", ["Sz=2:0"] = "no range", ["Sz=0,1:2"] = "not both",
        ["Sz=0,x"] = "Sz", ["Sz=1/2,0"] = "cannot be had",
    } do kit.refused("ed heisenberg --sites 8 --charge " .. line, words) end
end

-- Reflections: one run for two sectors, where H has them; a field takes them away.
do
    local scan, err = document "dmrg heisenberg --sites 8 --charge scan -o none"
    ok(#(scan.runs or {}) == 9 and scan.runs[2].energy == scan.runs[8].energy and err:find "5 runs",
        "Sz -> -Sz", err)
    local exact = document "ed heisenberg --sites 8 --charge scan"
    for i, one in ipairs(scan.runs or {}) do
        ok(near(one.energy, exact.runs[i].energy, 1e-8) and one.label == exact.runs[i].label, one.label,
            one.energy)
    end
    local tilted = document "ed heisenberg --sites 8 -p h=0.1 --charge scan"
    ok(near(tilted.runs[1].energy - tilted.runs[9].energy, 0.8, 1e-12)
        or near(tilted.runs[9].energy - tilted.runs[1].energy, 0.8, 1e-12), "a field: none",
        tilted.runs[1].energy)
    local electrons = document "ed hubbard --sites 3 -p U=4 --charge scan --solver full"
    local by = {}
    for _, one in ipairs(electrons.runs or {}) do by[one.label] = one.energy end
    ok(by["N_up=2 N_dn=1"] == by["N_up=1 N_dn=2"] and by["N_up=2 N_dn=1"] ~= by["N_up=2 N_dn=2"],
        "N_up and N_dn exchanged")
end

-- What a scan says of its runs at several values, and bands of thermodynamics only where there are errors.
do
    local _, err = document "ed hubbard --sites 3 --charge N_up=1 --charge N_dn=scan --sweep-parameter U=0:4:2"
    ok(err:find "4 sectors at each of 3 values, one run each", "sectors and values", err)
    _, err = document "ed heisenberg --charge Sz=scan --sweep-parameter sites=2:4:2 -o 's{sites}.{Sz}.h5'"
    ok(err:find "3 sectors at the first of 2 values, one run each", "sectors of sizes", err)
    for samples, bands in pairs { [1] = false, [4] = true } do
        for sites, exact in pairs { [6] = true, [14] = false } do
            run(("ed heisenberg --sites %d --charge scan --temperatures 1,2 --samples %d -o t.h5"):format(sites,
                samples))
            run "plot t.h5 --output t.svg"
            local said = kit.slurp(kit.at "t.svg"):find "one standard error" ~= nil
            ok(said == (bands and not exact), ("bands: %d sites, %d samples"):format(sites, samples))
        end
    end
end

-- Series: along sizes and parameters, each run with its file, which the same command does not make again.
do
    local line = "ed heisenberg --lattice ring --sweep-parameter sites=4:8:2 --charge Sz=0:1 "
        .. "--measure 'bond(nn)' -o 'r{sites}.{Sz}.h5' --csv r.csv"
    local doc, err = document(line)
    ok(#(doc.runs or {}) == 6 and doc.runs[1].label == "sites=4 Sz=0" and doc.runs[5].output == "r8.0.h5",
        "a series over sites and sectors", err)
    for _, one in ipairs(doc.runs or {}) do
        local n = tonumber(one.label:match "sites=(%d+)")
        ok(near(one.energy, n * one.measured["bond(nn)"], 1e-9), "its energy by bonds, " .. one.label)
    end
    local table_ = kit.slurp(kit.at "r.csv")
    ok(table_:find "^sites,Sz,energy,error,m,discarded,bond%(nn%),lowest,file\n4,0,%-"
        and select(2, table_:gsub("\n", "")) == 7, "its table", table_)
    local again, note = document(line)
    ok(select(2, note:gsub("taken from", "")) == 6 and again.runs[6].energy == doc.runs[6].energy,
        "the same command takes them", note)
    os.remove(kit.at "r8.1.h5")
    _, note = document(line)
    ok(select(2, note:gsub("taken from", "")) == 5, "and makes what is missing", note)
    _, note = document(line .. " --accuracy 1e-12")
    ok(not note:find "taken from", "other options are another run", note)
    local along = " hubbard --sites 4 --charge N_up=sites/2 --charge N_dn=2 --sweep-parameter U=0:8:4 "
        .. "--measure docc"
    local exact, swept = document("ed" .. along), document("dmrg" .. along .. " -o 'u{U}.h5'")
    for i, one in ipairs(exact.runs or {}) do
        local other = (swept.runs or {})[i] or { measured = {} }
        ok(near(one.energy, other.energy, 1e-8) and near(one.measured.docc, other.measured.docc, 1e-6)
            and other.output == "u" .. 4 * (i - 1) .. ".h5", "ed and dmrg along U, " .. one.label,
            other.energy)
    end
    along = "dmrg hubbard --sites 4 --sweep-parameter U=0:4:4 --charge N_up=1:2 --charge N_dn=2 -o 'l{U}.{N_up}.h5'"
    swept = document(along .. " --csv l.csv")
    local lows = {}
    for _, one in ipairs(swept.runs or {}) do lows[#lows + 1] = one.lowest and one.label or nil end
    ok(table.concat(lows, "; ") == "U=0 N_up=2 N_dn=2; U=4 N_up=1 N_dn=2", "the lowest sector of each value",
        table.concat(lows, "; "))
    ok((kit.slurp(kit.at "l.csv") or ""):find ",1,l0%.2%.h5\n4,1,2,.*,1,l4%.1%.h5\n4,2,2,.*,0,l4%.2%.h5\n$",
        "their table says so", kit.slurp(kit.at "l.csv"))
    local f = assert(io.open(kit.at "job.lua", "w"))
    f:write [[return { { command = "ed", model = "heisenberg", lattice = { "ring:6", "ladder:3x2" },
        charge = "Sz=0", output = "j{lattice}.h5" }, { model = "heisenberg", sites = { 4, 6 }, m = { 8, 16 },
        charge = "Sz=0", output = "j{sites}-{m}.h5" } }]]
    f:close()
    local status, out = run "run job.lua"
    ok(status == 0 and select(2, out:gsub("\nlattice ", "")) == 6, "a job of several runs and lists", out)
    for _, name in ipairs { "jring_6.h5", "jladder_3x2.h5", "j4-8.h5", "j6-16.h5" } do
        ok(kit.slurp(kit.at(name)) ~= nil, name)
    end
    local all = document "run job.lua"
    ok(#all == 6 and near(all[6].energy, -2.4935771338879, 1e-9) and all[6].sites == 6,
        "with --json their documents are one array", #all)
    kit.spill(kit.at "half.lua", [[return { command = "ed", model = "heisenberg", sites = { 4, 5 }, charge = "Sz=0",
        output = "none" }]])
    local failed, half, said = run "run half.lua --json"
    half = kit.json(half)
    ok(failed == 2 and half and half[1] and half[1].sites == 4 and #half == 1 and said ~= "",
        "of a run that fails the array has null", said)
    local six = document "show j6-16.h5"
    ok(near(six.energy, -2.4935771338879, 1e-9) and six.sites == 6, "each with its own", six.energy)
    for options, words in pairs {
        ["-o 'x{sites}{V}.h5'"] = "nothing is called 'V'", ["-o 'x{Sz}.h5'"] = "would write the same file",
        ["--sites 4"] = "not both",
    } do kit.refused("ed heisenberg --charge Sz=0 --sweep-parameter sites=4,6 " .. options, words) end
    kit.refused("dmrg heisenberg --sites 4 --charge Sz=0:1 -o 'x{sites}.h5'", "would write the same file")
    kit.refused("ed heisenberg --charge Sz=0 --sweep-parameter sites=4.5,6", "no number of sites")
    kit.refused("ed hubbard --sites 3 --charge N_up=sites/2 --charge N_dn=1", "N_up")
end

-- What a run still needs is told as it goes.
do
    local _, _, err =
        run "dmrg hubbard --lattice ladder:6x2 -p U=8 --charge N_up=6 --charge N_dn=6 --accuracy 1e-4 -v -o none"
    ok(err:find "about %d+ more sweeps?, to m = %d+: %d", "a forecast", err)
end

-- Density matrices of a few sites, mutual information, energies by bond: by dmrg and ed.
do
    local line = " hubbard --sites 3 -p U=3 --charge N_up=2 --charge N_dn=1 --measure mutual"
    for _, sites in ipairs { "0,2", "2,0", "1", "0,1,2" } do
        line = line .. " --measure 'density(" .. sites .. ")'"
    end
    line = line .. [[ --measure 'energies(nn)' --measure 'connected("nn",n_up(i)*n_dn(j),n_up(i)*n_dn(j))']]
        .. [[ --measure 'connected("nn",cdag_up(i)*c_up(j),hc)' --measure 'bond(nn,n_up(i)*n_dn(j))']]
        .. [[ --measure 'corr("nn",n_up(i)*n_dn(j),n_up(i)*n_dn(j))' --measure entropy]]
    local exact, err = document("ed" .. line)
    local doc, why = document("dmrg" .. line .. " -o p.h5")
    local e, d = exact.measurements or {}, doc.measurements or {}
    local n, worst = 0, 0
    for name, one in pairs(e) do
        if name ~= "entropy" and d[name] and type(one.value[1]) == "table" then
            n = n + 1
            for i, row in ipairs(one.value) do
                for k, x in ipairs(row) do worst = math.max(worst, math.abs(x - d[name].value[i][k])) end
            end
        end
    end
    ok(n >= 7 and worst < 1e-7, "they are the same by dmrg and ed", n, worst, err, why)
    local function moments(m)
        local trace, square = 0, 0
        for i, row in ipairs(m.value) do
            trace = trace + row[i]
            for k in ipairs(row) do square = square + row[k] * m.value[k][i] end
        end
        return trace, square
    end
    local _, one = moments(e["density/1"])
    for name, purity in pairs { ["0,2"] = one, ["2,0"] = one, ["0,1,2"] = 1 } do
        local trace, square = moments(e["density/" .. name])
        ok(near(trace, 1, 1e-10) and near(square, purity, 1e-10), "purity of sites " .. name, square, purity)
    end
    local m = e.mutual.value -- of a pure state S_02 = S_1
    ok(near(m[1][3], m[1][1] + m[3][3] - m[2][2], 1e-9), "mutual information of a pure state", m[1][3])
    local entropy = d.entropy.value
    ok(near(entropy[1], m[1][1], 1e-8), "entropy of the first site", entropy[1], m[1][1])
    local text = "nn,n_up(i)*n_dn(j)"
    local x, plain, less = e["bond/" .. text].value, e["bondcorr/" .. text .. ",n_up(i)*n_dn(j)"].value,
        e["bondconnected/" .. text .. ",n_up(i)*n_dn(j)"].value
    ok(near(less[1][2], plain[1][2] - x[1] * x[2], 1e-12), "connected correlations of bonds", less[1][2])
    local chain = document "dmrg heisenberg --lattice kagome:YC4x2 --charge Sz=0 --measure 'energies(nn)' -o n.h5"
    local sum = 0
    for _, v in ipairs(chain.measurements["energies/nn"].value) do sum = sum + v end
    ok(near(sum, chain.energy, 1e-7), "energies of bonds make the energy", sum, chain.energy)
    for what, words in pairs {
        ["density(0,0)"] = "twice", ["density(0,9)"] = "not on lattice", ["density(0,1,2,3)"] = "64 states",
        ["energies(rung)"] = "no bonds of class", ["energies(nn,Sz(i))"] = "bond(CLASS,X)",
    } do
        kit.refused("ed hubbard --sites 4 --charge N_up=2 --charge N_dn=2 --measure '" .. what .. "'", words)
    end
    kit.refused("dmrg heisenberg --sites 4 --charge S=0 --measure 'energies(nn)' -o none", "by bond")
    for _, charge in ipairs { "S", "Sz" } do
        local pair = document("dmrg heisenberg --sites 2 --measure mutual --measure 'density(0,1)' -o none --charge "
            .. charge .. "=0").measurements
        ok(near(pair.mutual.value[1][2], 2 * math.log(2), 1e-9)
            and near(pair["density/0,1"].value[2][3], -0.5, 1e-9), "a singlet, by " .. charge)
    end
end

-- Operators on bonds: the same by dmrg and ed; sums of them are energies, and their squares.
do
    local pair = "cdag_up(i)*cdag_dn(j)+cdag_up(j)*cdag_dn(i)"
    local asked = {
        ([[corr("rung",%s,hc)]]):format(pair), "bond(nn,(cdag_up(i)*c_up(j)+hc)/2)",
        [[corr("leg",cdag_up(i)*c_up(j)*cdag_dn(j)*c_dn(i),hc)]],
        [[corr("nn",n_up(i)*n_dn(j),n_up(i)*n_dn(j))]],
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
    kit.refused("ed hubbard --lattice ladder:3x2 --charge N_up=1 --charge N_dn=1 --measure '"
        .. line .. "'", words)
end

-- Figures as numbers, which need no gnuplot: what they tell is what another formula says.
local function panel(doc, title)
    for _, one in ipairs(doc.panels or {}) do
        if one.title:find(title, 1, true) then return one end
    end
    return { series = {}, note = "no panel " .. title }
end
do
    local length = watched and 40 or 64
    run(("dmrg heisenberg -p Delta=0 --sites %d --charge Sz=0 --accuracy 1e-8 --measure 'connected(Sz,Sz)' "
        .. "--measure Sz -o xx.h5"):format(length))
    local doc, err = document "plot xx.h5"
    local c, bar = panel(doc, "entropy").note:match "c = ([%d.]+) ± ([%d.]+)"
    ok(near(tonumber(c), 1, 0.05) and tonumber(bar) < 0.05, "c = 1 of free fermions on many sites",
        panel(doc, "entropy").note, err)
    -- density correlations of free fermions fall off as r^-2
    local power, off = panel(doc, "both axes").note:match "exponent ([%d.]+) ± ([%d.]+)"
    ok(near(tonumber(power), 2, math.max(tonumber(off) or 0, 0.1)) and tonumber(off) < 0.5,
        "their density correlations fall off by a power", panel(doc, "both axes").note)
    local spin = panel(doc, "by site").series[1]
    ok(spin and #spin.y == length and spin.y[7] == 0, "noise is drawn as nothing")
    local status, out = run "plot xx.h5 --csv xx.csv"
    local csv = kit.slurp(kit.at "xx.csv") or ""
    ok(status == 0 and out == "xx.csv\n" and csv:find "^panel,series,x,y,value,error\n" and
        csv:find('"entanglement entropy","",' .. length // 2 .. ",0%."), "the same as CSV", out)
    status, out = run "plot xx.h5 --csv -"
    ok(status == 0 and out == csv and kit.slurp(kit.at "-") == nil, "and by - on stdout")
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
    -- a sector that was run twice has no gap of 0, and what differs in more than size makes no line
    run "dmrg heisenberg -p Delta=0 --sites 8 --charge Sz=0 --accuracy 1e-10 -o again.h5"
    local line = "plot " .. table.concat(names, " ") .. " again.h5"
    local again = panel(document(line), "gap against size")
    ok(again and again.note == panel(doc, "gap against size").note, line, again and again.note)
    run "dmrg heisenberg -p Delta=0.5 --sites 8 --charge Sz=0 --accuracy 1e-10 --states 2 -o other.h5"
    local _, out = run("plot l8.h5 l12.h5 l16.h5 other.h5 --csv other.csv")
    ok(out:find "left out: gap and energy against size: the results differ in more than size and sector" and
        not kit.slurp(kit.at "other.csv"):find "against size", "no line through two parameters", out)
end
do -- bosons with a potential that makes three the best number of five
    local status, _, err = run("ed bose_hubbard --sites 2 -p mu=1 -p U=1.5 --charge N=2:5 --csv scan.csv")
    local marked, low, best = {}, math.huge, nil
    for n, e, mark in (kit.slurp(kit.at "scan.csv") or ""):gmatch "\n(%d),([^,]+),[^,]*,,,(%d)," do
        marked[#marked + 1] = mark == "1" and n or nil
        if tonumber(e) < low then low, best = tonumber(e), n end
    end
    ok(status == 0 and #marked == 1 and best == "3" and marked[1] == best,
        "a scan of ed marks the lowest in its table", table.concat(marked, " "), err)
end
do -- U of the Hubbard model may be an array, and is one number here
    run "ed hubbard --sites 2 --sweep-parameter U=0,3 --charge N_up=1 --charge N_dn=1 -o 'u{U}.h5'"
    local s = panel(document "plot u0.h5 u3.h5", "energy per site").series[1]
    ok(s and s.x[2] == 3 and near(s.y[1], -1, 1e-9) and near(s.y[2], -0.5, 1e-9), "energies against U",
        s and s.y[2])
    -- a line for each sector, which one electron has at -1/2 a site whatever U is
    run "ed hubbard --sites 2 --sweep-parameter U=0,3 --charge N_up=1 --charge N_dn=0 -o 'one{U}.h5'"
    s = panel(document "plot u0.h5 one0.h5 u3.h5 one3.h5", "energy per site").series
    ok(#s == 2 and s[1].name == "N_up=1 N_dn=1" and near(s[1].y[1], -1, 1e-9) and near(s[1].y[2], -0.5, 1e-9)
        and s[2].name == "N_up=1 N_dn=0" and near(s[2].y[1], -0.5, 1e-9) and near(s[2].y[2], -0.5, 1e-9),
        "a line for each sector against U", s[1].name, s[2] and s[2].name)
end
do
    run("ed hubbard --sites 4 -p U=4 --charge N_up=2 --charge N_dn=2 --spectral cdag_up@0 "
        .. "--spectral c_up@0 -o a.h5")
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
    run(("ci %stests/data/h2o-631g-fc.fcidump --space cisd --roots 2 --density -o ci.h5"):format(
        kit.absolute(HERE):gsub("tests/cli/$", ""):gsub("/%./$", "/")))
    local molecule = document "plot ci.h5"
    local states, occupied = panel(molecule, "states by irrep"), panel(molecule, "natural occupations")
    local electrons = 0
    for _, x in ipairs(occupied.series[1].y) do electrons = electrons + x end
    ok(#states.series == 2 and states.series[1].y[1] == 0 and near(electrons, 8, 1e-9)
        and #panel(molecule, "weight by level").series == 2, "states, weights and occupations of ci",
        electrons)
    run "ed heisenberg --sites 6 --charge scan --temperatures 1,2 -o t.h5"
    local heat = panel(document "plot t.h5", "heat capacity per site").series[1]
    ok(heat and #heat.x == 2 and heat.error and heat.y[1] > 0, "heat with its errors")
end

-- Products around closed paths: as many as a lattice has, and the same as when each is named.
do
    local function model(name, terms)
        kit.spill(kit.at(name), "-- H = loops\nsite(spin(1/2))\nconserve \"Sz\"\n"
            .. "parameters { J = 1, K = 0.3 }\n" .. terms)
    end
    local pair = "K * S_dot_S(i,j) * S_dot_S(k,l)"
    local bond = 'bond("nn", J * S_dot_S(i,j))\n'
    model("three.lua", bond .. 'loop(3, "nn", K * Sz(i)*Sz(j))')
    model("four.lua", bond .. ('loop(4, "nn", %s)'):format(pair))
    model("named.lua", bond .. ('named({"0","1","3","2"}, %s)\nnamed({"2","3","5","4"}, %s)'):format(pair, pair))
    -- all spins up: a quarter of J for each of 28 bonds, of K for each of 16 triangles
    local up = document "ed ./three.lua --lattice triangular:YC4x3 --charge Sz=6"
    ok(near(up.energy, 28 / 4 + 0.3 * 16 / 4, 1e-12), "triangles of a cylinder", up.energy)
    local loop, named = document "ed ./four.lua --lattice ladder:3x2 --charge Sz=0",
        document "ed ./named.lua --lattice ladder:3x2 --charge Sz=0"
    ok(near(loop.energy, named.energy, 1e-12), "plaquettes of a ladder", loop.energy, named.energy)
    up = document "ed ./four.lua --lattice cylinder:3x4 --charge Sz=6"
    ok(near(up.energy, 20 / 4 + 0.3 * 8 / 16, 1e-12), "plaquettes of a cylinder, not its rings", up.energy)
    model("bad.lua", 'loop(2, "nn", K * Sz(i)*Sz(j))')
    kit.refused("ed ./bad.lua --sites 4 --charge Sz=0", "from 3 to 6")
    model("bad.lua", bond .. 'loop(3, "none", K * Sz(i)*Sz(j))')
    kit.refused("ed ./bad.lua --sites 4 --charge Sz=0", "lacks")
end

-- Models of one's own: an Anderson star, bosons and fermions on the same sites.
do
    local root = kit.absolute(HERE):gsub("tests/cli/$", ""):gsub("/%./$", "/") .. "examples/"
    local star = (" %sanderson.lua --lattice %sbath.lua -p eps=0,-1.5,-1,-0.5,0,0.5,1,1.5 "):format(root, root)
        .. "--charge N_up=4 --charge N_dn=4 --measure docc"
    local exact, err = document("ed" .. star)
    local found, why = document("dmrg" .. star .. " -o none")
    ok(near(exact.energy, found.energy, 1e-8) and exact.measurements["local/docc"].value[1] < 0.2,
        "an Anderson star", exact.energy, found.energy, err, why)
    local mixture = (" %smixture.lua --sites 5 --charge N_f=2 --charge N_b=3"):format(root)
    exact, err = document("ed" .. mixture)
    found, why = document("dmrg" .. mixture .. " --accuracy 1e-9 -o none")
    ok(near(exact.energy, found.energy, 1e-7), "a Bose-Fermi mixture", exact.energy, found.energy, err, why)
end

-- Two states of momenta k and -k: of one of them numbers are those of a mixture, which is said; of both they
-- are the same on every site, and the weight of an electron that leaves is its density, 1/2.
do
    local line = "ed hubbard --lattice ring:6 -p U=6 --charge N_up=3 --charge N_dn=2 --spectral c_up@0 --json"
    local _, out, err = run(line)
    local one = json(out) or { measurements = {} }
    local function weight(doc)
        local note = (doc.measurements["spectral/c_up@0"] or {}).note or ""
        return tonumber(note:match "total weight ([%d.]+)")
    end
    ok(weight(one) and not near(weight(one), 0.5, 1e-3)
        and err:find "spectral functions are of one of the 2 states that agree.*%-%-states 2 gives the mean",
        "the spectral function of one of two states", out, err)
    _, out, err = run(line .. " --states 2")
    ok(near(weight(json(out) or one), 0.5, 1e-9) and err == "", "that of both", out, err)
    _, _, err = run((line:gsub("N_dn=2", "N_dn=3")))
    ok(err == "", "of the one lowest state nothing is said", err)
    _, _, err = run((line:gsub("N_dn=2", "N_dn=3"):gsub("ring:6", "ring:8")))
    ok(err:find "of the one state that was found; %-%-states 2 tells", "where nobody looked", err)
end

-- Lists with their second level joined give what they give as they stand, on every executor that is here.
for _, exec in ipairs { "host", "offload" } do
    local chain = " hubbard --sites 8 --m 30 -p U=4 --charge N_up=4 --charge N_dn=4 --strategy lr --exec " .. exec
    local plain = document("growth" .. chain)
    if not plain.iterations then kit.skip("joined lists by " .. exec, "it is not here")
    else
        local joined, why = document("growth" .. chain .. " --projection concat")
        local same = joined.iterations ~= nil
        for i, r in ipairs(plain.iterations) do
            same = same and near(r.energy, joined.iterations[i].energy, 1e-8)
        end
        ok(same, "joined lists by " .. exec, why)
        local told = document("explain" .. chain .. " --projection concat")
        ok(told.operations and told.operations[1].why:find "%d records joined to %d", "and explain says so",
            told)
        local dmrg = chain:gsub("%-%-m 30", "--m 40")
        if watched then dmrg = dmrg:gsub("sites 8", "sites 6"):gsub("(N_%a+)=4", "%1=3") end
        plain, joined = document("dmrg" .. dmrg .. " -o none"),
            document("dmrg" .. dmrg .. " -o none --projection concat")
        ok(plain.energy and near(plain.energy, joined.energy, 1e-6), "and sweeps", plain.energy,
            joined.energy)
    end
end
do
    local status, _, err = run "growth heisenberg --sites 4 --charge Sz=0 --m 4 --projection concat"
    ok(status == 2 and err:find "allowed: with %-%-exec cuda, host or offload", "joined lists, by whom", err)
end

-- Starts that are traps, a product whose walls are far from the ends (near ones leave by rounding) and the
-- result of a run that stayed there: given up with a note, and the energy is that of one wall. A start that
-- leads to the ground state is told nothing of.
do
    local chain = "dmrg heisenberg --sites 30 -p J=-1 -p Delta=3 --charge Sz=0 --output trap.h5 --start "
    local energy = -29 * 3 / 4 + math.sqrt(8) / 2
    run((chain:gsub("trap.h5", "walls.h5")) .. "'product:up*8,dn*15,up*7' --schedule 1")
    for _, start in ipairs { "'product:up*8,dn*15,up*7'", "walls.h5", "product:up*15,dn*15" } do
        local _, out, err = run(chain .. start .. " --json")
        local doc = json(out) or {}
        ok(near(doc.energy, energy, 1e-6) and near(doc.energy, energy, (doc.error_estimate or 0) + 1e-11)
            and (err:find "note: the first sweep from %-%-start ended above a product" ~= nil)
            == (start ~= "product:up*15,dn*15"), "a start that is a trap: " .. start, doc.energy, err)
    end
    local doc, err = document(chain:gsub("%-p J=%-1 %-p Delta=3", "") .. "neel")
    ok(doc.converged and err == "", "a start that leads to the ground state", doc.energy, err)
end

-- A sector of less than 65536 states in which a product with H takes long is none that is solved as a whole:
-- spins that are all coupled. Chains of as many states are.
for model, whole in pairs { heisenberg = true, longrange = false } do
    local line = " " .. model .. " --sites 18 --charge Sz=0"
    local doc, exact = document("dmrg" .. line .. " -o none"), document("ed" .. line)
    ok(doc.converged and near(doc.energy, exact.energy, doc.error_estimate + 1e-10)
        and (doc.dim_max == 48620) == whole, "18 spins: " .. model, doc.energy, exact.energy)
end

-- Benchmarks of small sizes: every time that they tell stands with a check.
for what, options in pairs {
    gemm = "",
    ed = "heisenberg --lattice ring:12 --charge Sz=0 --threads 1 --exact -5.3873909174452",
    hx = "hubbard --sites 8 -p U=4 --charge N_up=4 --charge N_dn=4 --m 64 --threads 1",
    dmrg = "heisenberg --sites 16 --charge Sz=0 --accuracy 1e-6 --exact -6.911737145575103",
} do
    local status, out, err = run("bench " .. what .. " " .. options)
    ok(status == 0 and out:find "PASS" and not out:find "FAIL", "bench " .. what, out, err)
end

kit.finish()
