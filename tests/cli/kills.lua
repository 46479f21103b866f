-- Runs of every kind that keep checkpoints, killed at random moments and gone on with: what they end with is,
-- to the bit, what an undisturbed run ends with. A scan is given again, and goes on; of a sweep of parameters
-- the last file does. Of ranks one is killed.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/cli/kills.lua KRONLAT FCIDUMP KILLS [SEED [WORD [MPIRUN]]]; WORD: only kinds that have it
-- in their names. Prints TAP, exits 1 on a failure. Works in a folder of its own below $TMPDIR or /tmp.

local here = arg[0]:match "^(.*/)" or "./"
local kit = dofile(here .. "kit.lua")
local slurp, json, ok, at, shell, run = kit.slurp, kit.json, kit.ok, kit.at, kit.shell, kit.run
local molecule, wanted, seed = kit.quote(kit.absolute(arg[2])), tonumber(arg[3]), tonumber(arg[4] or "1")
local mpirun = arg[6] and kit.quote(arg[6])

-- A file in the folder of that one.
local function beside(name) return kit.quote((kit.absolute(arg[2]):gsub("[^/]*$", name))) end

math.randomseed(seed)
local difference = kit.difference

shell "$K dmrg heisenberg --sites 48 --charge Sz=0 -p Delta=0.8 --m 40 --threads 1 -o start.h5"
local chain = "dmrg heisenberg --sites 48 --charge Sz=0 --accuracy 1e-10 --measure Sz"
local kinds = {
    { name = "dmrg", command = chain, again = "dmrg --resume k.h5" },
    { name = "dmrg --start", command = chain .. " --start start.h5", again = "dmrg --resume k.h5" },
    { name = "dmrg of two states", command = chain:gsub("48", "24") .. " --states 2",
        again = "dmrg --resume k.h5" },
    { name = "dmrg with sweeps for what is measured", again = "dmrg --resume k.h5",
        command = "dmrg heisenberg -p S=1 --sites 12 --charge Sz=0 --accuracy 1e-10 --measure Sz" },
    { name = "dmrg by --strategy lr", command = chain:gsub("48", "32") .. " --strategy lr",
        again = "dmrg --resume k.h5" },
    { name = "dmrg with an error bar by a trial", again = "dmrg --resume k.h5",
        command = "dmrg heisenberg --sites 14 --charge Sz=0 --m 16 --order 6,3,8,0,12,13,7,9,11,4,1,5,10,2" },
    { name = "dmrg in a unit of 1e-200", command = chain .. " -p J=1e-200", again = "dmrg --resume k.h5" },
    { name = "dmrg of a molecule, two roots", again = "dmrg --resume k.h5",
        command = "dmrg " .. molecule .. " --states 2 --m 24" },
    { name = "dmrg of a molecule with S", command = "dmrg " .. molecule .. " --charge S=0",
        again = "dmrg --resume k.h5" },
    { name = "dmrg of a molecule by unrestricted orbitals", again = "dmrg --resume k.h5",
        command = "dmrg " .. beside("oh-uhf-sto3g.fcidump") .. " --m 24" },
    { name = "dmrg of a molecule by lr in little memory", again = "dmrg --resume k.h5",
        command = "dmrg " .. beside("h2o-631g-fc.fcidump")
            .. " --schedule 60:1e-4,120,120 --strategy lr --host-memory 24MB" },
    { name = "dmrg with the total spin", again = "dmrg --resume k.h5",
        command = "dmrg hubbard --sites 12 -p U=8 --charge N=12 --charge S=0 --measure docc" },
    { name = "dmrg, a parameter swept", last = "k.h=1.5.h5",
        again = "dmrg --resume $(ls k.h=*.h5 | tail -n 1)",
        command = "dmrg ising --sites 24 --charge parity=0 --sweep-parameter h=0.5,1.1,1.5" },
    { name = "dmrg, sizes and sectors", output = "'k{sites}.{Sz}.h5'",
        command = "dmrg heisenberg --sweep-parameter sites=10,16 --charge Sz=0:1" },
    { name = "dmrg, a scan", command = "dmrg hubbard --sites 6 --charge N_up=scan --charge N_dn=3 -p U=4" },
    { name = "ed", command = "ed hubbard --lattice ladder:5x2 --charge N_up=5 --charge N_dn=5 --measure docc",
        again = "ed --resume k.h5" },
    { name = "ed of three states", command = "ed heisenberg --sites 18 --charge Sz=0 --states 3",
        again = "ed --resume k.h5" },
    { name = "ed of three states by Davidson's method", again = "ed --resume k.h5",
        command = "ed heisenberg --sites 18 --charge Sz=0 --states 3 --solver davidson" },
    { name = "ed, a parameter swept", output = "'k{Delta}.h5'",
        command = "ed heisenberg --sites 16 --charge Sz=0 --sweep-parameter Delta=0.5,1.1,1.5" },
    { name = "ed, spectral functions", again = "ed --resume k.h5",
        command = "ed hubbard --lattice ladder:5x2 -p U=4 --charge N_up=4 --charge N_dn=4 "
            .. "--spectral cdag_up@3 --steps 100" },
    { name = "ed, thermodynamics", again = "ed --resume k.h5",
        command = "ed heisenberg --lattice ring --sites 16 --charge scan --temperatures 0.2:1:0.2 "
            .. "--samples 8" },
    { name = "ci", command = "ci " .. molecule .. " --space full --residual 1e-9",
        again = "ci --resume k.h5" },
    { name = "dmrg by two ranks", command = chain, again = "dmrg --resume k.h5", ranks = true },
    { name = "ed by two ranks", again = "ed --resume k.h5", ranks = true,
        command = "ed hubbard --lattice ladder:5x2 --charge N_up=5 --charge N_dn=4" },
    { name = "ci of four roots", command = "ci " .. molecule .. " --space full --residual 1e-10 --roots 4",
        again = "ci --resume k.h5" },
}
for k = arg[5] and #kinds or 0, 1, -1 do
    if not kinds[k].name:find(arg[5], 1, true) then table.remove(kinds, k) end
end
local common = { energies = true, energy = true, energies_kept = true, error_estimate = true, states = true,
    energy_extrapolated = true, entropy = true, measurements = true, runs = true }

-- What must be the same: nothing of times, names and work.
local function essence(doc)
    local out = {}
    for key, value in pairs(doc) do if common[key] then out[key] = value end end
    for _, row in ipairs(out.runs or {}) do row.output, row.seconds = nil, nil end
    return out
end

-- Each rank tells its process.
local launch = mpirun and "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
    .. "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none " .. mpirun
    .. " -n 2 sh -c "
    .. [['echo $$ >rank.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec $K %s']]
if mpirun and shell(launch:format "models") ~= 0 then mpirun = nil end
local function words(kind, line) return kind.ranks and launch:format(line) or "$K " .. line end
for k = #kinds, 1, -1 do if kinds[k].ranks and not mpirun then table.remove(kinds, k) end end

local kills, attempts = 0, 0
for _, kind in ipairs(kinds) do
    kind.command = kind.command .. " --threads 1" .. (kind.again and " --checkpoint-every 0.01" or "")
    local began = io.popen("date +%s.%N"):read "n"
    local output = (kind.output or "x.h5"):gsub("k", "x")
    local status, out, err = shell(words(kind, kind.command .. " --json -o " .. output))
    kind.seconds = io.popen("date +%s.%N"):read "n" - began
    kind.whole = status == 0 and json(out) and essence(json(out))
    kind.good = ok(kind.whole, kind.name .. ": undisturbed", err)
    kind.kills, kind.resumed = 0, 0
end
while kills < wanted and attempts < 5 * wanted do
    local kind = kinds[attempts % #kinds + 1]
    local command = kind.command .. " -o " .. (kind.output or "k.h5")
    attempts = attempts + 1
    shell "rm -f k*.h5*"
    for _ = 1, kind.good and math.random(3) or 0 do
        local line = "rm -f rank.*; %s >/dev/null 2>&1 & p=$!; sleep %.3f; kill -9 %s 2>/dev/null "
            .. "&& echo killed; wait $p"
        local _, said = shell(line:format(words(kind, command), math.random() * kind.seconds,
            kind.ranks and "$(cat rank.1)" or "$p"))
        if said:find "killed" then
            kills, kind.kills = kills + 1, kind.kills + 1
            if (kind.again or kind.output) and shell "ls k*.h5" == 0 then
                command, kind.resumed = kind.again or command, kind.resumed + 1
            end
        end
    end
    if kind.good then
        local _, out, err = shell(words(kind, command .. " --json"))
        local whole = kind.whole
        if err:find "has finished" then
            _, out, err = run("show " .. (kind.last or "k.h5") .. " --json")
            if kind.last then -- of a sweep the last file
                whole = essence(json(select(2, run("show " .. kind.last:gsub("^k", "x") .. " --json"))))
            end
        end
        local doc = json(out)
        local wrong = not doc and err or difference(essence(doc), whole, kind.name)
        if wrong then
            kind.bad = wrong
            print(("# seed %d, attempt %d, %s: %s"):format(seed, attempts, command, wrong))
        end
    end
end
for _, kind in ipairs(kinds) do
    ok(not kind.bad, ("%s: killed %d times, gone on with %d times, the same"):format(kind.name,
        kind.kills, kind.resumed), kind.bad)
end
ok(kills >= wanted, ("%d kills"):format(kills))
kit.finish()
