-- Runs on several ranks: the same answers as one process, the same bits on the same number of ranks, and one
-- line at the end of what goes wrong.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/cli/ranks.lua KRONLAT [MPIRUN]; prints TAP, exits 1 on a failure. With $KL_TEST_ROUNDS,
-- for tools that watch the program, every run is made once, on two ranks or three, the longest are smaller.
-- With $KL_TEST_LONG each is made on two, three and four ranks, else on three and one of the others.

local here = arg[0]:match "^(.*/)" or "./"
local kit = dofile(here .. "kit.lua")
local json, near, ok, skip, shell, run = kit.json, kit.near, kit.ok, kit.skip, kit.shell, kit.run
local mpirun, watched, all = arg[2], os.getenv "KL_TEST_ROUNDS", os.getenv "KL_TEST_LONG"

-- What a launcher says, instead of a launcher.
local status, _, err = shell "KRONLAT_MPI=/nowhere OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 $K models"
ok(status == 2 and err:find "2 processes were started %(OMPI_COMM_WORLD_SIZE%)" and
    select(2, err:gsub("\n", "")) == 1, "without MPI several processes are refused in one line", status, err)
status, _, err = shell "KRONLAT_MPI=/nowhere OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 $K models"
ok(status == 2 and err == "", "by the first of them alone", status, err)
status, _, err = shell("OMPI_COMM_WORLD_LOCAL_RANK=0 KRONLAT_MPI=/nowhere OMPI_COMM_WORLD_SIZE=2 " ..
    "OMPI_COMM_WORLD_RANK=1 $K models")
ok(status == 2 and err:find "^kronlat: rank 1: 2 processes were started",
    "and, some time later, by the first one of another machine", status, err)
status = shell "KRONLAT_MPI=/nowhere OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 $K models"
ok(status == 0, "one process needs no MPI")

-- Open MPI leaks in libraries that it has closed, which no list of leaks can name.
local launch = ("ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 " ..
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 " ..
    "OMPI_MCA_hwloc_base_binding_policy=none %s -n "):format(mpirun or "")
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

-- Name, or names of what one run tells, command, tolerance of energies (1e-11), numbers of ranks (2 to 4).
-- Most runs on several, and more on three alone. What is truncated agrees to 1e-10, what is not to 1e-12,
-- unless it says more.
local hubbard = "hubbard -p U=4 --threads 1 --sites 6 --charge N_up=3 --charge N_dn=3 "
local spins = "ed heisenberg --threads 1 --lattice ladder:5x2 --charge Sz=0 "
local sweeps = "dmrg %s --threads 1 -o none "
local nitrogen = "n2.fcidump"
kit.spill(kit.at(nitrogen), kit.slurp(here .. "../data/n2-sto3g.fcidump"))
local three = { 3 }
local runs = {
    { { "Hubbard, Lanczos", "measured", "strings and populations", "spectral function" }, "ed " .. hubbard ..
        "--solver lanczos --measure n_up --measure entropy --measure 'corr(n_up,n_dn)' " ..
        "--measure 'string(n_up,expipi(n_dn),n_up)' --measure populations --spectral c_up@2 " ..
        "--frequencies -2,0,1.5 --steps 30" },
    { "Hubbard, four states by Davidson", "ed " .. hubbard .. "--solver davidson --states 4" },
    { "Hubbard, three states by LOBPCG", "ed " .. hubbard .. "--solver lobpcg --states 3" },
    { "Hubbard, halves by sites, Neumann",
        "ed " .. hubbard .. "--form sites --solver davidson --precondition neumann" },
    { "spins, two states by thick restart", spins .. "--solver lanczos --states 2" },
    { "spins, stored rows", spins .. "--store matrix --format hybrid" },
    { "spins, all states", "ed heisenberg --threads 1 --sites 8 --charge Sz=0 --solver full", nil, three },
    { "no symmetry", "ed ising --threads 1 --sites 10 --charge parity=0 --solver lanczos", nil, three },
    { "Kondo, three states",
        "ed kondo --threads 1 --sites 4 --charge N=4 --charge Sz=0 --states 3 --solver lobpcg", nil, three },
    { "fewer tiles than ranks", "ed heisenberg --threads 1 --sites 4 --charge Sz=1 --solver lanczos" },
    { "thermodynamics",
        "ed heisenberg --threads 1 --sites 12 --charge Sz=0 --temperatures 0.5,2 --samples 2 --seed 3" },
    { "CI, a full space by strings",
        "ci " .. nitrogen .. " --space full --threads 1 --roots 2 --residual 1e-9" },
    { "CI, stored rows", "ci " .. nitrogen .. " --space cisd --format hybrid --threads 1 --residual 1e-9" },
    { "CI, elements as they are needed",
        "ci " .. nitrogen .. " --space cisdt --store direct --threads 1 --residual 1e-9" },
    { "CI, a part of the rows stored",
        "ci " .. nitrogen .. " --space cisdt --store mixed --memory 0.0005 --threads 1 --residual 1e-9" },
    { "DMRG, nothing truncated", sweeps:format "heisenberg --sites 12 --charge Sz=0 --m 64", 1e-12 },
    { "DMRG, two factors a record, measured", sweeps:format "hubbard -p U=4 --sites 8 --charge N_up=4 " ..
        "--charge N_dn=4 --strategy lr --m 120 --measure n_up --measure 'corr(n_up,n_dn)'", 1e-10 },
    { "DMRG, three states on a ladder",
        sweeps:format "heisenberg --lattice ladder:6x2 --charge Sz=0 --states 3", 1e-10 },
    { "DMRG, one site, schedule with noise", sweeps:format "heisenberg --sites 16 --charge Sz=0 " ..
        "--sites-per-step 1 --schedule 40:1e-4,80:1e-6,120,120", 1e-10 },
    { "DMRG, total spin", sweeps:format "hubbard -p U=4 --sites 8 --charge N=8 --charge S=0", 1e-10 },
    { "DMRG, truncated by products",
        sweeps:format "heisenberg --sites 20 --charge Sz=0 --m 60 --truncation products", 1e-10, three },
    { "DMRG, sectors of which little goes", sweeps:format "heisenberg --lattice ladder:9x2 --charge Sz=0 " ..
        "--sites-per-step 1 --schedule 100:1e-4,220,220 --truncation products", 1e-10, three },
    { "DMRG, ways back that settle", sweeps:format "j1j2 -p J2=0.5 --lattice ladder:10x2 --charge Sz=0 " ..
        "--schedule 40:1e-4,40,40,40", 1e-10 },
    -- no more than what four products a bond leave of it is known of this one
    { "DMRG, leading parts of density matrices with noise", sweeps:format "hubbard -p U=4 " ..
        "--lattice ladder:6x2 --charge N_up=6 --charge N_dn=6 --schedule 250:1e-3,250 --max-products 4 " ..
        "--truncation products --inversion off", 1e-5, three },
    { "DMRG, half of the lattice", sweeps:format "hubbard -p U=4 --sites 16 --charge N_up=8 --charge N_dn=8 " ..
        "--schedule 40:1e-4,80,120,120", 1e-6, three },
    { "DMRG, all sectors", sweeps:format "heisenberg --sites 8 --charge scan", 1e-12, three },
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

local function levels(r) -- of a run, or of a table of many
    local list = {}
    for i, row in ipairs(r.runs or {}) do list[i] = row.energies or row.energy end
    return r.energies or r.energy or list
end

-- The runs of a case side by side, as launching takes longer than they do; each with a folder of its own for
-- the launcher, where Open MPI's do not meet. What each has said, or its error.
local function side_by_side(lines)
    local all, found = {}, {}
    for i, line in ipairs(lines) do
        all[i] = ("mkdir -p mpi%d; export OMPI_MCA_orte_tmpdir_base=$PWD/mpi%d; " ..
            "%s >%d.json 2>%d.err; echo $? >%d.status")
            :format(i, i, line, i, i, i)
    end
    shell("{ " .. table.concat(all, "; } & { ") .. "; } & wait")
    for i in ipairs(lines) do
        local status = kit.slurp(kit.at(i .. ".status"))
        local good, err = status == "0\n", kit.slurp(kit.at(i .. ".err"))
        if err == "" then err = "silent, status " .. tostring(status) end
        found[i] = { good and json(kit.slurp(kit.at(i .. ".json"))), err }
    end
    return found
end

for k, case in ipairs(runs) do
    local names, command = type(case[1]) == "table" and case[1] or { case[1] }, case[2] .. " --json"
    local tolerance, on = case[3] or 1e-11, case[4] or { 2, 3, 4 }
    local measured = math.max(1e-7, 10 * tolerance) -- the variance of a state that truncations leave open
    -- where energies differ, states do by the root of that
    local entropies = tolerance > 1e-9 and math.sqrt(tolerance) or measured
    if watched then on = { #on > 1 and k % 2 == 0 and 2 or 3 }
    elseif #on == 3 and not all then on = k % 2 == 0 and { 2, 3 } or { 3, 4 } end
    local solves = command:find "^ed" and not command:find "temperatures"
    if solves then command = command .. " --accuracy 1e-12" end
    local line = { "$K " .. command }
    for _, n in ipairs(on) do line[#line + 1] = launch .. n .. " $K " .. command end
    if not watched then line[#line + 1] = launch .. "3 $K " .. command end -- again, for its bits
    local found = side_by_side(line)
    local one, again = found[1][1], found[#found][1] -- watched: of the only one
    local wrong = not one and found[1][2] or not again and found[#found][2] or nil
    for i, n in ipairs(on) do
        local many, err = table.unpack(found[i + 1])
        wrong = wrong or (not many and err) or (not many.runs and many.ranks ~= n and "ranks are not told") or
            same(levels(one), levels(many), tolerance, "energies") or
            same(one.measurements or {}, many.measurements or {}, measured, "measurements") or
            same(one.entropy or {}, many.entropy or {}, entropies, "entropies") or
            n == 3 and (same(levels(many), levels(again), 0, "bits") or
                same(many.measurements or {}, again.measurements or {}, 0, "bits") or
                same(many.entropy or {}, again.entropy or {}, 0, "bits")) or nil
    end
    for _, name in ipairs(names) do
        ok(not wrong, ("%s: on %s ranks as on one"):format(name, table.concat(on, ", ")), wrong)
    end
end

-- What ends all ranks is told once.
-- Lanczos without a third vector, and what reports tell of ranks.
local lean = "ed " .. hubbard .. "--solver lanczos -o none "
local _, three_held = shell(launch .. "2 $K " .. lean)
local _, two_held = shell("export KRONLAT_VECTORS=two; " .. launch .. "2 $K " .. lean)
local values = "--measure 'corr(Sz,Sz)' --json"
local _, two_measured = shell("export KRONLAT_VECTORS=two; " .. launch .. "2 $K " .. lean .. values)
local _, one_measured = run(lean .. values)
ok(three_held:find "3 vectors held" and two_held:find "2 vectors held", "two vectors do for Lanczos",
    three_held, two_held)
local a, b = json(two_measured), json(one_measured)
local apart, key = 0, next(b.measurements)
for i, row in ipairs(a.measurements[key].value) do
    for j, v in ipairs(row) do
        apart = math.max(apart, math.abs(v - b.measurements[key].value[i][j]))
    end
end
ok(near(a.energy, b.energy, 1e-11) and a.vectors == 3 and apart < 1e-7,
    "and three where the state is measured, the same values", a.energy, b.energy, apart)
local _, timed = shell(launch .. "2 $K dmrg " .. hubbard .. "-o none --json")
local _, waited = shell(launch .. "2 $K dmrg " .. hubbard .. "-o none")
local parts = json(timed).seconds_of_ranks
ok(#parts == 2 and parts[1].truncation > 0 and parts[2]["waiting for other ranks"] > 0 and
    waited:find "waiting +for other ranks: rank 0 %d+ %%, rank 1 %d+ %%", "reports tell what ranks waited",
    timed, waited)

-- The trial behind few states: all ranks make it, and the bar is that of one process.
local few = "dmrg hubbard -p U=4 -o none --threads 1 --json --m 2 " ..
    (watched and "--sites 6 --charge N_up=3 --charge N_dn=3 --seed 2 --order 5,2,0,3,1,4" or
        "--sites 8 --charge N_up=4 --charge N_dn=4 --seed 3 --order 6,5,0,3,7,4,1,2")
local _, few_many, few_note = shell(launch .. "3 $K " .. few)
local many, single = json(few_many), json(select(2, run(few)))
ok(many and many.converged == false and many.stop == "m_max" and many.error_estimate > 3
    and near(many.energy, single.energy, 1e-10) and near(many.error_estimate, single.error_estimate, 1e-9)
    and #lines(few_note) == 1 and few_note:find "4 sweeps of m = 16 in the order fiedler end 3",
    "a trial of the error bar on three ranks", few_many, few_note)

local function told(name, command, pattern)
    local status, _, err = shell(command)
    local found = lines(err)
    ok(status ~= 0 and #found == 1 and found[1]:find(pattern), name, status, err)
end
told("bad input", launch .. "3 $K ed heisenberg --sites 8 --charge Sz=99", "Sz=99 cannot be had")
told("different options", launch .. "1 $K ed ising --sites 8 : -n 1 $K ed ising --sites 6",
    "rank 1 has %-%-sites=6, rank 0 has %-%-sites=8")
local stored = "$K ci " .. nitrogen .. " --space cisdt --store matrix --threads 1"
told("what goes wrong on one rank alone", ("%s2 %s : -n 1 %s --memory 1e-6"):format(launch, stored, stored),
    "rank 2: the matrix of %d+ determinants has")
told("what one process does", launch .. "2 $K dmrg heisenberg --sites 8 --charge Sz=0 --infinite --m 8",
    "infinite is done by one process, and 2 were started")
local version = select(2, run "--version"):match "%d%S+"
local program = kit.slurp(kit.program):gsub(version:gsub("%p", "%%%0"), (version:gsub("%d", "9")))
kit.spill(kit.at "other", program)
shell "chmod +x other"
local beside = kit.program:match "^(.*/)" .. "libkronlat-mpi.so"
told("different versions",
    ("export KRONLAT_MPI=%s; %s1 $K ed ising --sites 6 : -n 1 ./other ed ising --sites 6"):format(
        kit.quote(os.getenv "KRONLAT_MPI" or beside), launch), "rank 1 has version=9%.9%.9")
local _, _, bound = shell(launch .. "2 --bind-to core $K ed ising --sites 6 --charge parity=0 --threads 64 -o none")
ok(bound:find "note: %-%-threads 64: the launcher has bound this rank to %d+ cores?;" and
    #lines(bound) == 1, "a rank with fewer cores than threads is told once", bound)
local cache = ("export KRONLAT_CACHE=%s; "):format(kit.quote(kit.at "cache"))
local status, text, err = shell(cache .. launch .. "2 $K devices --json")
local between = status == 0 and json(text).between_ranks
ok(between and between.received_per_second > 1e6 and between.seconds_smallest > 0 and
    between.seconds_smallest < 1, "devices tells what ranks tell each other in a second", text, err)
status, text, err = shell(cache .. launch .. "2 $K tune")
ok(status == 0 and text:find "from the others", "tune on ranks measures that alone", text, err)
status, text, err = shell(cache .. "$K plan heisenberg --sites 8 --charge Sz=0 --m 16 --ranks 4")
ok(status == 0 and text:find "measured, 2 ranks on 1 machine", "and a plan asks it", text, err)
local plan = json(select(2, run "plan heisenberg --sites 8 --charge Sz=0 --m 16 --ranks 64 --json"))
ok(plan.ranks[#plan.ranks].idle > 0, "a plan says how many ranks idle")
local _, small = shell(launch .. "3 $K dmrg heisenberg --sites 6 --charge Sz=0 --output none")
local _, busy = shell(launch .. "3 $K dmrg heisenberg --sites 6 --charge Sz=0 --output none --json")
ok(small:find "ranks +no product was worth dividing" and json(busy).ranks_busy == 0,
    "a report says of ranks that they idled", small, busy)
local model = kit.slurp(here .. "../../models/ising.lua")
kit.spill(kit.at "0.lua", model)
kit.spill(kit.at "1.lua", model .. "\n-- another\n")
shell "mkdir a b && mv 0.lua a/my.lua && mv 1.lua b/my.lua"
local mine = "sh -c 'cd %s && exec $K ed my.lua --sites 6 --charge parity=0'"
told("different files", launch .. "1 " .. mine:format "a" .. " : -n 1 " .. mine:format "b",
    "rank 1 has contents of the files")

-- A rank is killed: the others end, and the checkpoint goes on, on any number of ranks. Where launching alone
-- takes seconds the machine is busy with other things: five seconds are that many more.
local function clock()
    local pipe = io.popen "date +%s.%N"
    local now = pipe:read "n"
    pipe:close()
    return now
end
local function killed(method, big)
    local before = clock()
    shell(launch .. "3 $K models")
    local allowed = 5 + 5 * ((clock() - before) // 1) // 1
    local want = json(select(2, run(big .. " -o none --json"))).energy
    shell(("rm -f pid.* %s.h5"):format(method)) -- of the one before
    local status, text, err = shell(([[
%s 3 sh -c 'echo $$ > pid.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
exec $K %s -o %s.h5 --checkpoint-every 0.05' & p=$!
for i in $(seq 600); do test -s %s.h5 && break; sleep 0.05; done
kill -9 $(cat pid.2) || { wait $p; exit 0; }; begun=$(date +%%s); wait $p; s=$?
test $(($(date +%%s) - begun)) -le %d || s=99
exit $s]]):format(launch, big, method, method, allowed))
    local found = lines(err)
    if status == 0 then return skip(method .. ": a rank that is killed", "the run was over before") end
    local hydra = text:find "EXIT STRING: Killed" -- MPICH's launcher kills the others before they tell
    ok(status ~= 99 and (hydra and #found == 0 or #found == 1 and found[1]:find "rank 2 was lost"),
        method .. ": a rank that is killed ends all in seconds", status, err)
    for _, n in ipairs { 2, 1 } do
        shell(("cp %s.h5 again.h5"):format(method))
        local status, text, err =
            shell(("%s%d $K %s --resume again.h5 --threads 1 --json"):format(launch, n, method))
        local e = status == 0 and json(text).energy
        ok(e and near(e, want, 1e-10), ("%s: the checkpoint goes on, on %d ranks"):format(method, n), e, want,
            err)
    end
end
killed("ed", ("ed heisenberg --lattice ring:%d --charge Sz=0 --threads 1"):format(watched and 18 or 20))
-- ranks number states in an order of their own, in which one process goes on
killed("ed", "ed hubbard --lattice square:4x3 -p U=4 --solver lanczos --threads 1 " ..
    (watched and "--charge N_up=4 --charge N_dn=4" or "--charge N_up=6 --charge N_dn=5"))
killed("dmrg", "dmrg hubbard -p U=4 --sites 8 --charge N_up=4 --charge N_dn=4 --threads 1 --schedule " ..
    "100:1e-4*2,256*6 --sites-per-step 2 --truncation exact")
kit.finish()
