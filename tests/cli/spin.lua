-- The total spin as a user meets it: what runs with S and runs with Sz both tell, what goes from one to the
-- other, and what is refused.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 spin.lua PROGRAM
local kit = dofile((arg[0]:match "^(.*/)" or "./") .. "kit.lua")
local ok, run, json = kit.ok, kit.run, kit.json
local watched = os.getenv "KL_TEST_ROUNDS" -- by tools that make all longer

local function numbers(x, list)
    list = list or {}
    if type(x) == "table" then
        for _, y in ipairs(x) do numbers(y, list) end
    elseif type(x) == "number" then list[#list + 1] = x end
    return list
end

local function result(line)
    local status, out, err = run(line .. " --threads 1 --json")
    return status == 0 and json(out) or nil, err
end

-- 1. Measured with S as with Sz = S --------------------------------------------------------------

local asked = {
    hubbard = {
        "Sz", "n_up", "docc", "corr(Sz,Sz)", "corr(Sp,Sm)", "corr(cdag_up,c_up)", "connected(n,n)",
            "populations",
        "string(cdag_up,P,c_up)", "structure(Sz,Sz)", "product(cdag_up@0,c_up@2,Sz@4)",
        'corr("nn",cdag_up(i)*cdag_dn(j)-cdag_dn(i)*cdag_up(j),hc)', 'connected("nn",Sz(i)*Sz(j),n(i)*n(j))',
        "density(0,2)", "mutual",
        "product(cdag_up@i,c_up@j+1,Sz@4)",
    },
    kondo = { "Sz_spin", "corr(Sz_electron,Sz_spin)", "populations" },
    heisenberg = { "Sz", "corr(Sp,Sm)", "string(Sz,expipi(Sz),Sz)" },
}
local mixed = [[
-- H = spins 1/2 and 1 in turn
site(spin(1/2))
site("odd", spin(1))
conserve "Sz"
bond("nn", S_dot_S(i,j))
]]
kit.spill(kit.at "mixed.lua", mixed)
asked["mixed.lua"] = { "Sz", "corr(Sp,Sm)", "populations" }
local cases = {
    { "hubbard", "--sites 6 -p U=3", "--charge N=6 --charge S=1", "--charge N_up=4 --charge N_dn=2" },
    { "hubbard", "--lattice ladder:3x2 -p U=6", "--charge N=5 --charge S=1/2",
        "--charge N_up=3 --charge N_dn=2" },
    { "kondo", "--sites 4", "--charge N=4 --charge S=0", "--charge N=4 --charge Sz=0" },
    { "heisenberg", "--sites 8 -p S=1", "--charge S=2", "--charge Sz=2" },
    { "mixed.lua", "--sites 6", "--charge S=3/2", "--charge Sz=3/2" },
}
for k, case in ipairs(cases) do
    local model, rest, spin, plain = table.unpack(case)
    local list = {}
    for _, what in ipairs(asked[model]) do
        local path = what:find "^string" and rest:find "lattice"
        if not path then list[#list + 1] = ("--measure '%s'"):format(what) end
    end
    local common = ("dmrg %s %s --m 300 %s"):format(model, rest, table.concat(list, " "))
    local a, why = result(("%s %s --output s%d.h5"):format(common, spin, k))
    local b, other = result(("%s %s --output p%d.h5"):format(common, plain, k))
    ok(a and b and math.abs(a.energy - b.energy) < 1e-10, "one energy with S and with Sz: " .. model, why,
        other)
    local S, note = spin:match "S=(%S+)", a and a.measurements["local/Sz"] and a.measurements["local/Sz"].note
    local told = note and note:match "of the component with Sz = (%S+)"
    if note then ok((told or "0") == S, "which component is told: " .. spin, note) end
    for name, m in pairs(b and b.measurements or {}) do
        local x, y = numbers(a and a.measurements[name] and a.measurements[name].value), numbers(m.value)
        local most = #x == #y and 0 or math.huge
        for i = 1, math.min(#x, #y) do most = math.max(most, math.abs(x[i] - y[i])) end
        ok(most < 1e-6, ("%s, %s with S: %s"):format(model, spin, name), most)
    end
end

-- 2. From one to the other -----------------------------------------------------------------------

for _, start in ipairs { "N_up=4 --charge N_dn=2", "N_up=3 --charge N_dn=3", "N_up=2 --charge N_dn=4" } do
    local first = result("dmrg hubbard --sites 6 -p U=3 --charge " .. start
        .. " --start s1.h5 --schedule 400 -o none")
    local s = first and first.sweeps and first.sweeps[1]
    ok(s ~= nil, "a run with Sz starts from a result with S: " .. start)
end
-- Larger ones, whose truncated bases lack sectors that Sz has: the first sweep is at the multiplet's energy.
for k, case in ipairs {
    { "hubbard --sites 12 -p U=4 --charge N=12 --charge S=0", { "N_up=6 --charge N_dn=6" } },
    { "heisenberg --sites 20 --charge S=2", { "Sz=2", "Sz=-2" } },
} do
    local spin, why = result(("dmrg %s --output m%d.h5"):format(case[1], k))
    for _, charge in ipairs(case[2]) do
        local first, other = result(("dmrg %s --charge %s --start m%d.h5 --schedule 400 -o none")
            :format(case[1]:match "^(.-) %-%-charge", charge, k))
        local e = first and first.sweeps[1].energies[1]
        ok(spin and e and math.abs(e - spin.energy) < 1e-8,
            ("%s goes on with %s"):format(case[1], charge), e, why, other)
    end
end

local again = result "measure s1.h5 --measure 'corr(Sz,Sz)' --measure energy"
ok(again and math.abs(again.measurements.energy.value - again.energy) < 1e-9, "measured later, from its file")

-- A path of spins, and its refusals.
local path = "dmrg heisenberg --sites 8 --charge S=%s --start path:%s -o none"
for _, case in ipairs { { "0", "0,1/2", -3.3749325986879 }, { "0", "0,1/2,1,1/2", -3.3749325986879 },
    { "1", "1,1/2:0,1/2", -2.9822404877629 } } do
    local told, why = result(path:format(case[1], case[2]))
    ok(told and math.abs(told.energy - case[3]) < 1e-11, "a run from the path " .. case[2], why)
end
for _, case in ipairs { { "0,0", "leads from spin 0 to 0" }, { "1/2", "goes from spin 1/2" },
    { "0,x", "'x' is no spin" }, { "0,1/2,0,1/2,0,1/2,0,1/2,0,1/2", "more than the 9 cuts" } } do
    kit.refused(path:format("0", case[1]), case[2])
end
kit.refused("dmrg tj --sites 4 --charge S=0 --charge N=4 --start path:0", "no multiplets of the sites")
kit.refused("dmrg heisenberg --sites 8 --charge Sz=0 --start path:0,1/2", "a path of spins is for runs with")

-- Six spins have 8 states on each half, which are three multiplets: one of 3/2, two of 1/2.
for _, case in ipairs { { "S=0", 3 }, { "Sz=0", 8 } } do
    local told, why = result("dmrg heisenberg --sites 6 --m 100 -o none --charge " .. case[1])
    local last = told and told.sweeps[#told.sweeps] or {}
    ok(last.m_reached == case[2] and last.states_reached == 8, "m and the states with " .. case[1], why)
end

-- 3. What else takes a model takes it with S -----------------------------------------------------

local chain = "hubbard --sites 20 -p U=8 --charge N=20 --charge S=0 "
local plan = result("plan " .. chain .. "--m 100")
local p = plan and plan.plans[1] or {}
ok(p.m == 100 and p.states > 180 and p.states < 260, "a plan tells multiplets and states", p.states)

local all = result "plan heisenberg --sites 16 --charge S=scan --m 40"
local two = (result "plan heisenberg --sites 16 --charge S=2 --m 40" or {}).plans
ok(all and two and #all.sectors == 9 and all.runs == 9 and all.sectors[3].charges == "S=2"
    and all.sectors[3].memory_bytes == two[1].memory_bytes and all.sectors[3].states == two[1].states,
    "a plan of all total spins", all and #all.sectors)
all = result "plan heisenberg --sites 16 --charge Sz=-1:1 --m 40"
ok(all and #all.sectors == 3 and all.runs == 2 and all.sectors[3].reflection_of == "Sz=-1",
    "a plan of a scan runs one of two reflections", all and all.runs)
local s, text = run("plan " .. chain .. "--m 100")
local table_there = text:find("     m  states ", 1, true) and text:find "   100     %d+ "
ok(s == 0 and table_there, "and so it prints", text)
s, text = run("explain " .. chain .. "--m 100")
ok(s == 0 and text:find("m = 100 multiplets of %d+ states"), "explain tells both, too", text)
s, text = run "bench hx heisenberg --sites 12 --charge S=0 --m 20 --threads 1"
local passed = select(2, text:gsub("PASS", ""))
local both = text:find "l11r" and text:find "host lr"
ok(s == 0 and both and passed >= 2 and not text:find "FAIL", "H x with S by both strategies", text)

for _, case in ipairs {
    { "S=1", 3, "states       1 multiplet of 3 states;" }, { "S=0", 1, "states       1;" },
    { "S=1 --states 2", 3, "states       2 multiplets of 3 states each" }, { "Sz=1", 1, "states       1;" },
} do
    local line = "dmrg heisenberg --sites 8 -o none --charge " .. case[1]
    local _, printed = run(line)
    local told = result(line)
    ok(printed:find(case[3], 1, true) and told and told.states_of_a_level == case[2],
        "the states that a level stands for, " .. case[1], printed)
end

local sweep = result "dmrg heisenberg --sites 8 --charge S=1 --sweep-parameter J=0.5,1,2 -o sweep.h5"
for k, J in ipairs { 0.5, 1, 2 } do
    local e = sweep and sweep.runs and sweep.runs[k] and sweep.runs[k].energy
    ok(e and math.abs(e + 2.9822404877629 * J) < 1e-9, "a sweep of parameters with S, J = " .. J, e)
end

-- Exact diagonalization tells S of each state, which is that of the run with S at its energy.
for _, case in ipairs {
    { "heisenberg --sites 8", "--charge Sz=0", { "S=0", "S=1", "S=2" } },
    { "hubbard --sites 4 -p U=3", "--charge N_up=2 --charge N_dn=1",
        { "N=3 --charge S=1/2", "N=3 --charge S=3/2" } },
    { "kondo --sites 3", "--charge N=3 --charge Sz=0", { "N=3 --charge S=0", "N=3 --charge S=1" } },
    { "mixed.lua --sites 5", "--charge Sz=1/2", { "S=1/2", "S=3/2" } },
} do
    local all, why = result(("ed %s %s --states 12 -o none"):format(case[1], case[2]))
    ok(all and #all.s2 == 12, "exact levels: " .. case[1], why)
    for k, charge in ipairs(case[3]) do
        local one = result(("dmrg %s --charge %s --m 200 -o none"):format(case[1], charge))
        local twice = tonumber((charge:match "S=(%d+)"))
        if not charge:find "/2" then twice = 2 * twice end
        local found, want = false, twice * (twice + 2) / 4
        for i, e in ipairs(all and all.energies or {}) do
            found = found or one and math.abs(e - one.energy) < 1e-9 and math.abs(all.s2[i] - want) < 1e-6
        end
        ok(found, ("level %d of %s has its S"):format(k, case[1]), charge, one and one.energy)
    end
end
local _, levels = run "ed heisenberg --sites 8 --charge Sz=0 --states 2 -o none"
ok(levels:find "energy 0 [^\n]* S=0\n" and levels:find "state  1 [^\n]* S=1\n", "and prints it", levels)
_, levels = run "ed heisenberg --sites 8 --charge Sz=0 -p Delta=0.5 -o none"
ok(levels:find "<S%^2>=0%.%d+", "or <S^2> where that is not S (S + 1)", levels)
_, levels = run "ed ising --sites 8 --charge parity=0 -o none"
ok(levels:find "energy 0" and not levels:find "S", "or nothing", levels)

-- 4. What plan says of memory is what a run takes, with the total spin and without ------------------

for k, case in ipairs {
    { "heisenberg --lattice cylinder:6x4 --charge S=0", 120 },
    { "heisenberg --lattice cylinder:8x4 --charge Sz=0", 160 },
    { "hubbard --lattice cylinder:6x4 -p U=4 --charge N=24 --charge S=0", 200 },
} do
    if k > 1 and watched then break end -- long there
    local common, m = case[1] .. " --max-products 2", case[2]
    local plan = result(("plan %s --m %d"):format(common, m))
    local made = result(("dmrg %s --schedule 60:1e-4:1e-3,%d:0:1e-3*2 -o none"):format(common, m))
    local said, had = plan and plan.plans[1].memory_bytes, made and made.memory_peak_bytes.total
    ok(said and had and math.abs(said / had - 1) < 0.1, "memory of " .. case[1],
        ("%s bytes were planned, %s taken"):format(said, had))
end

-- 5. Levels by total spin, each alone and right by default: Bethe's and exact diagonalization's -------

local levels_by_spin = {
    { "tj --lattice ladder:6x2 -p J=0.4 --charge N=10 --charge S=0", -6.997166042546927 },
    { "kondo --sites 6 --charge N=6 --charge S=0", -7.860096094205347 },
    { "hubbard --lattice ladder:6x2 -p U=8 --charge N=12 --charge S=0", -4.730255555119437 },
    { "heisenberg --sites 100 --charge S=0", -44.127739893296235 },
    { "heisenberg --sites 100 --charge S=1", -44.087299183785504 },
}
for k, case in ipairs(levels_by_spin) do
    if k > 3 and watched then break end
    local told, why = result(("dmrg %s -o none"):format(case[1]))
    local off = told and math.abs(told.energy - case[2])
    ok(off and told.converged and off <= told.error_estimate + 1e-12
        and told.error_estimate <= 1e-9 * math.abs(case[2]),
        "the level of " .. case[1], off, told and told.error_estimate, why)
end

-- 6. Refused in one line -------------------------------------------------------------------------

for _, case in ipairs {
    { "dmrg hubbard --sites 6 --charge N=6 --charge S=0 --start p1.h5", "holds a state without S" },
    { "dmrg hubbard --sites 6 --charge N_up=6 --charge N_dn=0 --start s1.h5 -p U=3",
        "has no component with" },
    { "dmrg hubbard --sites 6 --charge N=6 --charge S=0 --measure Sy",
        "'Sy' is no operator of model hubbard" },
    { "ed hubbard --sites 6 --charge N=6 --charge S=0", "exact diagonalization works with Sz, and tells S "
        .. "of each state: take --charge N_up=3 --charge N_dn=3" },
    { "ed kondo --sites 4 --charge N=4 --charge S=1", "take --charge N=4 --charge Sz=1" },
    { "ed heisenberg --sites 6 --charge S=scan", "take --charge Sz=S" },
    { "growth heisenberg --sites 8 --charge S=0 --m 20", "growth" },
    { "dmrg heisenberg --sites 8 --charge S=0 --pin Sz@0=1", "no scalar" },
    { "dmrg hubbard --sites 6 --charge N=5 --charge S=1",
        "has N=5 S=1; allowed: S=1/2 to 5/2 in steps of 1" },
    { "dmrg heisenberg --sites 8 --charge S=0 --start neel", "no definite total spin; give a path" },
    { "dmrg heisenberg --sites 8 --charge S=0 -p h=0.1", "heisenberg.lua:12" },
} do
    kit.refused(case[1], case[2])
end

kit.finish()
