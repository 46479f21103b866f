-- Runs on several ranks: the same answers as one process, the same bits on the same number of ranks, and one
-- line at the end of what goes wrong.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/cli/ranks.lua KRONLAT [MPIRUN]; prints TAP, exits 1 on a failure.

local here = arg[0]:match "^(.*/)" or "./"
local kit = dofile(here .. "kit.lua")
local json, near, ok, skip, shell, run = kit.json, kit.near, kit.ok, kit.skip, kit.shell, kit.run
local mpirun = arg[2]

-- What a launcher says, instead of a launcher.
local status, _, err = shell "KRONLAT_MPI=/nowhere OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 $K models"
ok(status == 2 and err:find "2 processes were started %(OMPI_COMM_WORLD_SIZE%)" and
    select(2, err:gsub("\n", "")) == 1, "without MPI several processes are refused in one line", status, err)
status, _, err = shell "KRONLAT_MPI=/nowhere OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 $K models"
ok(status == 2 and err == "", "by the first of them alone", status, err)
status = shell "KRONLAT_MPI=/nowhere OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 $K models"
ok(status == 0, "one process needs no MPI")

local launch = ("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
    .. "OMPI_MCA_hwloc_base_binding_policy=none %s -n "):format(mpirun or "")
local works = mpirun and shell(launch .. "2 $K models") == 0
if not works then
    skip("runs on ranks", mpirun and "no MPI module, or its launcher does not work here" or "no mpirun")
    kit.finish()
end

local function lines(text) -- ours alone: launchers add their own
    local found = {}
    for line in text:gmatch "kronlat: [^\n]*" do found[#found + 1] = line end
    return found
end

-- model, charges and lattice; solvers; stored matrices; spectra, thermodynamics, measuring
local hubbard = "ed hubbard -p U=4 --threads 1 --sites 6 --charge N_up=3 --charge N_dn=3 "
local spins = "ed heisenberg --threads 1 --lattice ladder:5x2 --charge Sz=0 "
local runs = {
    { "Hubbard, Lanczos", hubbard .. "--solver lanczos" },
    { "Hubbard, four states by Davidson", hubbard .. "--solver davidson --states 4" },
    { "Hubbard, three states by LOBPCG", hubbard .. "--solver lobpcg --states 3" },
    { "Hubbard, halves by sites, Neumann",
        hubbard .. "--form sites --solver davidson --precondition neumann" },
    { "spins, two states by thick restart", spins .. "--solver lanczos --states 2" },
    { "spins, stored rows", spins .. "--store matrix --format hybrid" },
    { "spins, all states", "ed heisenberg --threads 1 --sites 8 --charge Sz=0 --solver full" },
    { "no symmetry", "ed ising --threads 1 --sites 10 --charge parity=0 --solver lanczos" },
    { "Kondo, three states",
        "ed kondo --threads 1 --sites 4 --charge N=4 --charge Sz=0 --states 3 --solver lobpcg" },
    { "fewer tiles than ranks", "ed heisenberg --threads 1 --sites 4 --charge Sz=1 --solver lanczos" },
    { "measured", hubbard .. "--solver lanczos --measure n_up --measure entropy --measure 'corr(n_up,n_dn)'" },
    { "strings and populations",
        hubbard .. "--solver lanczos --measure 'string(n_up,expipi(n_dn),n_up)' --measure populations" },
    { "spectral function", hubbard .. "--solver lanczos --spectral c_up@2 --frequencies -2,0,1.5 --steps 30" },
    { "thermodynamics",
        "ed heisenberg --threads 1 --sites 12 --charge Sz=0 --temperatures 0.5,2 --samples 2 --seed 3" },
}

local function same(a, b, tolerance, where)
    if type(a) ~= "table" or type(b) ~= "table" then
        local good = a == b or (type(a) == "number" and type(b) == "number" and
            math.abs(a - b) <= tolerance * math.max(1, math.abs(a)))
        return not good and ("%s: %s and %s"):format(where, a, b) or nil
    end
    for k in pairs(a) do
        local found = same(a[k], b[k], tolerance, where .. "/" .. tostring(k))
        if found then return found end
    end
end

for _, case in ipairs(runs) do
    local name, command = case[1], case[2] .. " --accuracy 1e-12 --json"
    if command:find "temperatures" then command = command:gsub(" %-%-accuracy 1e%-12", "") end
    local status, text, err = run(command)
    local one = status == 0 and json(text)
    local wrong = not one and err or nil
    for n = 2, 4 do
        local status, text, err = shell(launch .. n .. " $K " .. command)
        local many = status == 0 and json(text)
        wrong = wrong or (not many and err) or (many.ranks ~= n and "ranks are not told") or
            same(one.energies or one.energy, many.energies or many.energy, 1e-11, "energies") or
            same(one.measurements or {}, many.measurements or {}, 1e-7, "measurements")
        if n == 3 and not wrong then
            local again = json(select(2, shell(launch .. n .. " $K " .. command)))
            wrong = same(many.energies or many.energy, again.energies or again.energy, 0, "bits") or
                same(many.measurements or {}, again.measurements or {}, 0, "bits")
        end
    end
    ok(not wrong, name .. ": on 2, 3 and 4 ranks as on one", wrong)
end

-- What ends all ranks is told once.
local function told(name, command, pattern)
    local status, _, err = shell(command)
    local found = lines(err)
    ok(status ~= 0 and #found == 1 and found[1]:find(pattern), name, status, err)
end
told("bad input", launch .. "3 $K ed heisenberg --sites 8 --charge Sz=99", "Sz=99 cannot be had")
told("different options", launch .. "1 $K ed ising --sites 8 : -n 1 $K ed ising --sites 6",
    "rank 1 has %-%-sites=6, rank 0 has %-%-sites=8")
told("what one process does", launch .. "2 $K dmrg heisenberg --sites 8 --charge Sz=0",
    "dmrg is done by one process, and 2 were started")
local model = kit.slurp(here .. "../../models/ising.lua")
kit.spill(kit.at "0.lua", model)
kit.spill(kit.at "1.lua", model .. "\n-- another\n")
shell "mkdir a b && mv 0.lua a/my.lua && mv 1.lua b/my.lua"
local mine = "sh -c 'cd %s && exec $K ed my.lua --sites 6 --charge parity=0'"
told("different files", launch .. "1 " .. mine:format "a" .. " : -n 1 " .. mine:format "b",
    "rank 1 has contents of the files")

-- A rank is killed: the others end, and the checkpoint goes on, on any number of ranks.
local big = "ed heisenberg --lattice ring:20 --charge Sz=0 --threads 1"
local want = json(select(2, run(big .. " --json"))).energy
local status, _, err = shell(([[
%s 3 sh -c 'echo $$ > pid.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec $K %s -o r.h5 --checkpoint-every 0.05' & p=$!
for i in $(seq 600); do test -s r.h5 && break; sleep 0.05; done
kill -9 $(cat pid.2); begun=$(date +%%s); wait $p; s=$?
test $(($(date +%%s) - begun)) -le 5 || s=99
exit $s]]):format(launch, big))
local found = lines(err)
if status == 0 then
    skip("a rank that is killed", "the run was over before")
else
    ok(status ~= 99 and #found == 1 and found[1]:find "rank 2 was lost",
        "a rank that is killed ends all in seconds", status, err)
    for _, n in ipairs { 2, 1 } do
        shell "cp r.h5 again.h5"
        local status, text, err = shell(launch .. n .. " $K ed --resume again.h5 --threads 1 --json")
        local e = status == 0 and json(text).energy
        ok(e and near(e, want, 1e-10), ("the checkpoint goes on, on %d ranks"):format(n), e, want, err)
    end
end
kit.finish()
