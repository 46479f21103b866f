-- Error bars of models that nobody tuned for: spins, electrons, bosons, local moments on chains, rings,
-- ladders, cylinders and graphs, whose couplings and fields are random, over decades, with parts that nothing
-- or hardly anything joins, in orders of the sites that are none, with few states. DMRG's energies and
-- correlations are compared with those of exact diagonalization, which shares no solver with it. A run that
-- says it has not tried all sectors promises no bar. Bars are estimates. Of 2131 such runs on chains
-- (2026-11-28) 4 were outside three bars, all of couplings over seven decades, one because the reference
-- could not part its levels; of 1300 with other sites and lattices none. Of 166 of free fermions on 8 to 32
-- sites, whose levels are those of one, 2 (of 167 before the charges of parts were searched 5), both right
-- since charges that disorder has caught are looked for. Left of those before: a graph of 31 sites, 1.3e-4 at
-- 2e-7, caught among three states of one energy; --discard in a random order, 5.6 bars (seed 81059).
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/cli/promises.lua KRONLAT RUNS [SEED]; the k-th run is that of seed SEED + k alone. Prints
-- TAP, and each run outside its bar with its command; exits 1 where more than one of 200 is outside three.

local here = arg[0]:match "^(.*/)" or "./"
local kit = dofile(here .. "kit.lua")
local json, ok, run = kit.json, kit.ok, kit.run
local runs, seed = tonumber(arg[2]), tonumber(arg[3] or "0")
io.stdout:setvbuf "line" -- a night's log can be read while it grows

local random = math.random
local function between(a, b) return a + (b - a) * random() end
local function one_of(list) return list[random(#list)] end
local function either() return one_of { 1, -1 } end
local function text(x) return ("%.4g"):format(x) end
local function series(n, make)
    local words = {}
    for i = 1, n do words[i] = text(make()) end
    return table.concat(words, ",")
end

local bonds = {
    function() return either() * 10 ^ between(-6, 2) end,
    function() return random() < 0.3 and 0 or either() * between(0.2, 1.5) end,
    function() return between(0.5, 1.5) * (random() < 0.3 and 10 ^ between(-7, -1) or 1) end,
    function() return between(-1.5, 1.5) end,
    function() return 1 end,
}
local fields = {
    function() return 0 end,
    function() return between(-1, 1) end,
    function() return between(-10, 10) end,
    function() return either() * 10 ^ between(-4, 2) end,
}

local head = [[
structural { S = 1/2 }
site(spin(S))
conserve "Sz"
]]
local models = {
    fermions = [[
-- H = -sum_<ij> t_ij (c+_i c_j + h.c.) + sum_i h_i n_i
site(fermion())
conserve "N"
parameters { t = per_bond(1), h = per_site(0) }
bond("nn", -t * (cdag(i)*c(j) + hc))
onsite(h(i) * n(i))
]],
    spins = "-- H = sum_<ij> J_ij [(S+_i S-_j + S-_i S+_j)/2 + D_ij Sz_i Sz_j] + sum_i h_i Sz_i\n" .. head .. [[
parameters { J = per_bond(1), D = per_bond(1), h = per_site(0) }
bond("nn", J * ((Sp(i)*Sm(j) + hc)/2 + D * Sz(i)*Sz(j)))
onsite(h(i) * Sz(i))
]],
    vectors = "-- H = sum_<ij> J_ij S_i.S_j\n" .. head .. [[
parameters { J = per_bond(1) }
bond("nn", J * S_dot_S(i,j))
]],
    electrons = [[
-- H = sum_<ij> [-t_ij sum_s (c+_is c_js + h.c.) + V_ij n_i n_j + K_ij (pairs hop)] + sum_i U_i docc + h_i n
site(electron())
conserve { "N_up", "N_dn" }
parameters { t = per_bond(1), V = per_bond(0), K = per_bond(0), U = per_site(4), h = per_site(0) }
bond("nn", -t * (sum(s, cdag(i,s)*c(j,s)) + hc) + V * n(i)*n(j))
bond("nn", K * (cdag_up(i)*cdag_dn(i)*c_dn(j)*c_up(j) + hc))
onsite(U(i) * docc(i) + h(i) * n(i))
]],
    bosons = [[
-- H = sum_<ij> [-t_ij (b+_i b_j + h.c.) + V_ij n_i n_j] + sum_i U_i n_i (n_i - 1)/2 + h_i n_i
structural { n_max = 3 }
site(boson(n_max))
conserve "N"
parameters { t = per_bond(1), V = per_bond(0), U = per_site(4), h = per_site(0) }
bond("nn", -t * (bdag(i)*b(j) + hc) + V * n(i)*n(j))
onsite(U(i)/2 * (n*n)(i) + (h(i) - U(i)/2) * n(i))
]],
    tj = [[
-- H = sum_<ij> [-t_ij sum_s (c+_is c_js + h.c.) + J_ij (S_i.S_j - n_i n_j/4)] + sum_i h_i n_i, no site twice
site(without(electron(), "updn"))
conserve { "N_up", "N_dn" }
parameters { t = per_bond(1), J = per_bond(0.4), h = per_site(0) }
bond("nn", -t * (sum(s, cdag(i,s)*c(j,s)) + hc) + J * (S_dot_S(i,j) - n(i)*n(j)/4))
onsite(h(i) * n(i))
]],
    kondo = [[
-- H = sum_<ij> [-t_ij sum_s (c+_is c_js + h.c.) + J_ij S_i.S_j] + sum_i K_i s_i.S_i
site(product(electron(), spin(1/2)))
conserve { N = n, Sz = Sz_electron + Sz_spin }
parameters { t = per_bond(1), J = per_bond(0), K = per_site(1) }
bond("nn", -t * (sum(s, cdag(i,s)*c(j,s)) + hc) + J * S_dot_S_spin(i,j))
onsite(K(i) * ((Sp_electron*Sm_spin)(i)/2 + hc + (Sz_electron*Sz_spin)(i)))
]],
    parity = [[
-- H = sum_<ij> [J_ij sx_i sx_j + V_ij sy_i sy_j + D_ij sz_i sz_j] + sum_i h_i sz_i
site(pauli())
conserve { parity = mod((1 - sz)/2, 2) }
parameters { J = per_bond(1), V = per_bond(1), D = per_bond(1), h = per_site(0) }
bond("nn", J * sx(i)*sx(j) - V * isy(i)*isy(j) + D * sz(i)*sz(j))
onsite(h(i) * sz(i))
]],
    pairing = [[
-- H = sum_<ij> [-t_ij (c+_i c_j + h.c.) + K_ij (c_i c_j + h.c.) + V_ij n_i n_j] + sum_i h_i n_i
site(fermion())
conserve { parity = mod(n, 2) }
parameters { t = per_bond(1), K = per_bond(0.5), V = per_bond(0), h = per_site(0) }
bond("nn", -t * (cdag(i)*c(j) + hc) + K * (c(i)*c(j) + hc) + V * n(i)*n(j))
onsite(h(i) * n(i))
]],
}
models.nothing = models.parity:gsub("conserve [^\n]*", 'conserve "nothing"'):gsub("h = per_site%(0%)",
    "%0, g = per_site(0)") .. "onsite(g(i) * sx(i))\n"
for name, model in pairs(models) do kit.spill(kit.at(name .. ".lua"), model) end

-- Words of a model and its sector.
local function spin_words(n, S, bond)
    local top = S == 1 and 2 * n or n
    local halves = random() < 0.7 and top % 2 or top - 2 * random(0, top // 2)
    return halves, ("-p S=%s -p J=%s"):format(S == 1 and "1" or "1/2", series(n - 1, bond))
end
local make = {
    function(bond, field)
        local n = random(5, 14)
        return n, ("fermions.lua --lattice chain:%d -p t=%s -p h=%s --charge N=%d"):format(n,
            series(n - 1, bond), series(n, field), random(n - 1))
    end,
    function(bond, field)
        local S = one_of { 1 / 2, 1 / 2, 1 }
        local n = random(4, S == 1 and 8 or 12)
        local halves, words = spin_words(n, S, bond)
        local D = random() < 0.5 and series(n - 1, function() return between(-1.5, 1.5) end) or "1"
        return n, ("spins.lua --lattice chain:%d %s -p D=%s -p h=%s --charge Sz=%d/2"):format(n, words, D,
            series(n, field), halves)
    end,
    function(bond)
        local S = one_of { 1 / 2, 1 / 2, 1 }
        local n = random(4, S == 1 and 8 or 12)
        local halves, words = spin_words(n, S, bond)
        return n, ("vectors.lua --lattice chain:%d %s --charge %s=%d/2"):format(n, words,
            one_of { "S", "Sz" }, halves)
    end,
    function(bond, field)
        local n = random(3, 6)
        local U = text(10 ^ between(-1, 1.5))
        return n, ("electrons.lua --lattice chain:%d -p t=%s -p U=%s -p h=%s --charge N_up=%d,N_dn=%d")
            :format(n, series(n - 1, bond), U, series(n, field), random(n - 1), random(n - 1))
    end,
}
make[5] = make[1] -- whose parts keep charges of their own most often

-- Lattices that close, and graphs: how many sites and bonds they have, and what they are called.
local function lattice(most)
    local n, kind = random(4, most), random(5)
    if kind == 1 then return n, n - 1, "chain:" .. n
    elseif kind == 2 then return n, n, "ring:" .. n
    elseif kind == 3 then
        local l = n // 2
        return 2 * l, l + 2 * (l - 1), ("ladder:%dx2"):format(l)
    elseif kind == 4 and n >= 6 then
        local l = n // 3
        return 3 * l, 3 * l + 3 * (l - 1), ("cylinder:%dx3"):format(l)
    end
    local bond, seen = {}, {}
    local function add(a, b)
        if a ~= b and not seen[a * n + b] and not seen[b * n + a] then
            seen[a * n + b], bond[#bond + 1] = true, ("{%d,%d}"):format(a, b)
        end
    end
    for b = 1, n - 1 do add(random(0, b - 1), b) end
    for _ = 1, random(0, n) do add(random(0, n - 1), random(0, n - 1)) end
    local list = table.concat(bond, ",")
    kit.spill(kit.at "graph.lua", ("return { sites = %d, bonds = { %s } }"):format(n, list))
    return n, #bond, "./graph.lua"
end
local function on_lattice(name, most, by_bond, by_site, charges, measured)
    return function(bond, field)
        local n, nbond, spec = lattice(most)
        local line = ("%s.lua --lattice %s"):format(name, spec)
        for _, p in ipairs(by_bond) do
            line = line .. (" -p %s=%s"):format(p, series(nbond, random() < 0.5 and bond or one_of(bonds)))
        end
        for _, p in ipairs(by_site) do
            line = line .. (" -p %s=%s"):format(p, series(n, p == "h" and field or
                one_of { function() return 4 end, function() return between(-8, 8) end }))
        end
        return n, line .. charges(n), measured
    end
end
local function numbers(beyond)
    return function(n) return (" --charge N=%d"):format(random(n + beyond)) end
end
local function parities() return (" --charge parity=%d"):format(random(0, 1)) end
for _, one in ipairs {
    on_lattice("electrons", 6, { "t", "V", "K" }, { "U", "h" }, function(n)
        return (" --charge N_up=%d,N_dn=%d"):format(random(0, n), random(0, n))
    end, "corr(cdag_up,c_up)"),
    on_lattice("bosons", 6, { "t", "V" }, { "U", "h" }, numbers(1), "corr(bdag,b)"),
    on_lattice("tj", 8, { "t", "J" }, { "h" }, function(n)
        local up = random(0, n)
        return (" --charge N_up=%d,N_dn=%d"):format(up, random(0, n - up))
    end, "corr(cdag_up,c_up)"),
    on_lattice("kondo", 4, { "t", "J" }, { "K" }, function(n)
        local N = random(0, 2 * n)
        return (" --charge N=%d,%s=%d/2"):format(N, one_of { "S", "Sz" }, (N + n) % 2)
    end, "corr(cdag_up,c_up)"),
    on_lattice("parity", 10, { "J", "V", "D" }, { "h" }, parities, "corr(sx,sx)"),
    on_lattice("nothing", 9, { "J", "V", "D" }, { "h", "g" }, function() return "" end, "corr(sx,sx)"),
    on_lattice("pairing", 10, { "t", "K", "V" }, { "h" }, parities, "corr(cdag,c)"),
    on_lattice("fermions", 30, { "t" }, { "h" }, numbers(-1)),
} do make[#make + 1] = one end

-- How a run is told when to end.
local ends = {
    function() return "--accuracy " .. text(10 ^ between(-11, -4)) end,
    function() return "--m " .. one_of { 1, 2, 3, 4, 6, 8, 12, 16, 24 } end,
    function()
        local m = one_of { 2, 4, 6, 8, 12, 16, 24 }
        return "--schedule " .. one_of { "%d:1e-4*2,%d*2", "%d*2,%d*2", "%d:1e-3,%d*3" }:format(m,
            one_of { m, 2 * m })
    end,
    function() return "--discard " .. text(10 ^ between(-12, -3)) end,
}
local function shuffled(n)
    local order = {}
    for i = 1, n do table.insert(order, random(i), i - 1) end
    return table.concat(order, ",")
end

-- The lowest energies of the sector by exact diagonalization, and their error; levels that lie too close for
-- an iterative solver by LAPACK, where that takes no minutes.
local function levels(line, most)
    local how = "ed ./%s --states %d --accuracy 1e-12 --threads 1 --json -o none"
    local _, out, err = run(how:format(line, most))
    local all_there_are = err:match "has only (%d+)"
    if all_there_are then _, out = run(how:format(line, all_there_are)) end
    local doc = json(out)
    if doc and not doc.converged and doc.dimension <= 1500 then
        _, out = run(how:format(line, #doc.energies) .. " --solver full")
        doc = json(out)
    end
    return doc and doc.energies, doc and math.max(table.unpack(doc.error))
end

-- Fermions that are free, of any number: the lowest levels of one, summed.
local function of_one(model, n)
    local N = tonumber(model:match "N=(%d+)$")
    local level, uncertain = levels(model:gsub("N=%d+$", "N=1"), n)
    local sum = 0
    for k = 1, math.min(N, n) do sum = sum + level[k] end
    return { sum }, N * uncertain
end

-- It has no total spin: S are the levels of Sz equal to S without those of Sz + 1.
local function exact(model, states)
    local halves = model:match " S=(%d+)/2$"
    if not halves then return levels(model, states) end
    local function sector(twice) return (model:gsub(" S=%d+/2$", (" Sz=%d/2"):format(twice))) end
    local all, uncertain = levels(sector(halves), states + 30) -- low ones may be of higher S
    local above, more = levels(sector(halves + 2), states + 30)
    for _, higher in ipairs(above or {}) do
        local best
        for i, e in ipairs(all or {}) do
            if not best or math.abs(e - higher) < math.abs(all[best] - higher) then best = i end
        end
        if best and math.abs(all[best] - higher) < 1e-9 * math.max(1, math.abs(higher)) then
            table.remove(all, best)
        end
    end
    return all, math.max(uncertain or 0, more or 0)
end

-- By how many times what the state's distance allows a measured correlation differs from that of exact
-- diagonalization; 0 where no one state is meant.
local function off_by(dmrg, energies, model, what)
    local size = math.max(1, math.abs(energies[1]))
    local alone = not energies[2] or energies[2] - energies[1] > 1e-6 * size
    if not alone or dmrg.state_distance >= 1 or model:find " S=%d+/2$" then return 0 end
    local how = "ed ./%s --measure '%s' --accuracy 1e-13 --threads 1 --json -o none"
    local doc = json(select(2, run(how:format(model, what))))
    if not doc or not doc.converged then return 0 end
    local worst, norm = 0, what:find "bdag" and 3 or 1
    for name, exact_one in pairs(doc.measurements) do
        if name:find "^corr" then
            for i, row in ipairs(exact_one.value) do
                for j, x in ipairs(row) do
                    worst = math.max(worst, math.abs(x - dmrg.measurements[name].value[i][j]))
                end
            end
        end
    end
    return worst / norm / (2 * dmrg.state_distance + 1e-7)
end

local count = { run = 0, untried = 0, measured = 0, far = 0 }
local outside = { [1] = 0, [3] = 0, [10] = 0 }
for k = 1, runs do
    math.randomseed(seed + k)
    local n, model, what = one_of(make)(one_of(bonds), one_of(fields))
    local free = model:find "^fermions" and n > 14
    local states = (free or random() < 0.7) and 1 or random(2, 3)
    local how = { one_of(ends)(), "--seed", random(99), "--states", states }
    if random() < 0.35 then how[#how + 1] = "--order " .. shuffled(n) end
    if random() < 0.5 then how[#how + 1] = "--sites-per-step " .. random(2) end
    local measured = what and states == 1 and random() < 0.5
    if measured then how[#how + 1] = ("--measure '%s'"):format(what) end
    local command = ("dmrg ./%s %s --threads 1 --json -o none"):format(model, table.concat(how, " "))
    local _, told = run(command)
    local dmrg = json(told)
    local energies, uncertain = (free and of_one or exact)(model, free and n or states + 1)
    if dmrg and energies and energies[1] then -- a sector may have no state
        local error_, size = 0, 1
        for s = 1, math.min(states, #dmrg.energies, #energies) do
            error_ = math.max(error_, math.abs(dmrg.energies[s] - energies[s]))
            size = math.max(size, math.abs(energies[s]))
        end
        count.run = count.run + 1
        local bars = (error_ - uncertain) / (dmrg.error_estimate + 1e-11 * size) -- to which both know it
        if dmrg.waits_for:find "search through all sectors" then count.untried = count.untried + 1
        elseif bars > 1 then
            print(("# seed %d: %.1e off at a bar of %.1e: %s"):format(seed + k, error_, dmrg.error_estimate,
                command))
            for most in pairs(outside) do if bars > most then outside[most] = outside[most] + 1 end end
        elseif measured then
            local times = off_by(dmrg, energies, model, what)
            count.measured = count.measured + 1
            if times > 1 then
                count.far = count.far + (times > 3 and 1 or 0)
                print(("# seed %d: values %.1f times as far off as told: %s"):format(seed + k, times,
                    command))
            end
        end
    end
end
ok(count.run >= 0.8 * runs, ("%d of %d models have the sector"):format(count.run, runs))
local told = "%d, %d and %d of %d are outside 1, 3 and 10 bars; %d say that they have not tried all sectors"
ok(outside[3] <= runs / 200, told:format(outside[1], outside[3], outside[10], count.run, count.untried))
told = "%d of %d have values farther off than three times what is told"
ok(count.far <= runs / 200, told:format(count.far, count.measured))
kit.finish()
