-- The program as a user meets it: energies, reports, files, jobs, interruption, one line for every mistake.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/cli/cli.lua KRONLAT KILL_AT; prints TAP, exits 1 on a failure. Has a folder in $TMPDIR.

local here = arg[0]:match "^(.*/)" or "./"
local kit = dofile(here .. "kit.lua")
local absolute, slurp, spill, quote, json, near, folder = kit.absolute, kit.slurp, kit.spill, kit.quote,
    kit.json, kit.near, kit.folder
local ok, skip, at, shell, run, files, energy, refused = kit.ok, kit.skip, kit.at, kit.shell, kit.run,
    kit.files, kit.energy, kit.refused

-- ---- energies and reports ----

do
    local e, doc = energy "dmrg heisenberg --sites 16 --charge Sz=0 --output none"
    ok(near(e, -6.911737145575103, 1e-9), "Heisenberg chain of 16", e or doc)
    e, doc = energy "dmrg hubbard --sites 8 -p U=2 --charge N_up=4 --charge N_dn=4 --output none"
    ok(near(e, -6.225634144681335, 1e-8), "Hubbard chain of 8", e or doc)
    ok(e and doc.converged == true and doc.sweeps and #doc.sweeps > 1 and doc.charges.N_up == 4
        and doc.parameters.U == 2, "what JSON says of it")
    local l11r = energy "dmrg hubbard --sites 8 -p U=2 --charge N_up=4 --charge N_dn=4 --output none --strategy l11r --solver lanczos"
    ok(near(l11r, -6.225634144681335, 1e-8), "by l11r and Lanczos", l11r)
    e = energy "dmrg heisenberg --lattice ring:4 --charge Sz=0 --output none"
    ok(near(e, -2, 1e-10), "ring of 4", e)
    e = energy "dmrg heisenberg --sites 4 -p S=1 --charge Sz=0 --output none"
    ok(near(e, -4.6457513110645906, 1e-9), "spin 1, a structural parameter", e)
    e, doc = energy "dmrg hubbard --sites 6 -p U=4 --charge N_up=3 --charge N_dn=3 --states 3 --output none"
    ok(e and #doc.energies == 3 and doc.energies[1] <= doc.energies[2] and doc.energies[2] <= doc.energies[3],
        "three states ascend")
    e = energy "dmrg heisenberg --sites 6 --charge Sz=0 --start neel --pin Sz@0=-0.5 --order snake --seed 3 --threads 1 --output none"
    ok(e ~= nil and e < -2.4935771 and e > -3, "a pinning field and a Neel start", e)
    e = energy "dmrg heisenberg --sites 6 --charge Sz=0 --schedule '20:1e-4*2,30*2' --start product:up*3,dn*3 --output none"
    ok(near(e, -2.4935771338879, 1e-9), "a schedule and a product start", e)

    e, doc = energy "dmrg hubbard --sites 16 -p U=4 --charge N_up=8 --charge N_dn=8 --schedule 24:1e-4,24*3 --measure energy -o kept.h5"
    ok(e and doc.energies_kept[1] > e + 1e-7 and near(doc.measurements.energy.value, doc.energies_kept[1],
        1e-12 * math.abs(e)), "the kept state's energy is its own", e and doc.energies_kept[1])
    local again = json(select(2, run "measure kept.h5 --measure energy --json")) or json(select(2,
        run "show kept.h5 --json"))
    ok(e and again and again.energies_kept[1] == doc.energies_kept[1]
        and near(again.measurements.energy.value, doc.energies_kept[1], 1e-12 * math.abs(e)),
       "and so it is when measured later", again and again.energies_kept[1])
    os.remove(at "kept.h5")

    -- Two bosons on two sites, t = 1, U = 4: [[4, -2], [-2, 0]] on (|20> + |02>)/sqrt(2) and |11>.
    e, doc = energy "dmrg bose_hubbard --sites 2 -p n_max=2 -p U=4 --charge N=2 --output none"
    local low = 2 - math.sqrt(8)
    local both = 4 / (4 + (4 - low) ^ 2) -- (4 - low) a = 2 b
    ok(near(e, low, 1e-10) and near(doc.cutoff.weight, both / 2, 1e-10) and doc.cutoff.small == false,
        "the weight of the highest occupation", e, doc and doc.cutoff and doc.cutoff.weight, both / 2)
    local _, text = run "dmrg bose_hubbard --sites 2 -p n_max=2 -p U=4 --charge N=2 --output none"
    ok(text:find "cut%-off +the highest occupation has a weight of" and text:find "WARNING[^\n]*n_max",
        "and the warning", text)
    _, text = run "dmrg bose_hubbard --sites 4 -p n_max=8 -p U=40 --charge N=4 --output none"
    ok(text:find "cut%-off" and not text:find "WARNING", "no warning where the cut-off costs nothing", text)

    local status, out = run "dmrg heisenberg --sites 8 --charge Sz=0 --output none"
    ok(status == 0 and out:find "energy +%-3%.3749325" and out:find "extrapolated"
        and out:find "stopped +converged" and out:find "memory peak" and out:find "time ", "the text report",
        out)
    status, out = run "dmrg heisenberg --sites 6 --charge scan --output none"
    ok(status == 0 and out:find "Sz=0[^\n]*<%- lowest" and out:find "Sz=%-3", "--charge scan", out)
    status, out = run "dmrg hubbard --sites 4 --charge N_up=2 --charge N_dn=scan --json --output none"
    local scan = json(out)
    ok(status == 0 and scan and #scan.runs == 5 and scan.lowest:find "N_dn=", "--charge NAME=scan in JSON",
        out)
    status, out = run "plan hubbard --sites 16 --charge N_up=8 --charge N_dn=8 --m 64"
    ok(status == 0 and out:find "size of H" and out:find "work by charge" and out:find "patch pairs by size",
        "plan", out)
    status, out = run "plan hubbard --sites 16 --charge N_up=8 --charge N_dn=8 --json"
    local plan = json(out)
    ok(status == 0 and plan and #plan.plans >= 3 and plan.plans[1].memory_bytes > 0, "plan in JSON", out)
    status, out = run "plan hubbard --sites 16 --charge N_up=8 --charge N_dn=8 --schedule 32:1e-5,64*2,48 --json"
    local swept = json(out)
    ok(status == 0 and swept and #swept.plans == 1 and swept.plans[1].m == 64
        and swept.plans[1].memory_bytes > plan.plans[1].memory_bytes, "plan of a schedule", out)
    status, out = run "explain hubbard --sites 16 --charge N_up=8 --charge N_dn=8 --m 64 --json"
    local told = json(out)
    ok(status == 0 and told and told.exec == "host" and #told.operations >= 8
        and told.operations[1].operation == "y = H x" and told.operations[1].flop > 1e4
       and told.operations[1].why ~= "" and told.vector_bytes > 0, "explain in JSON", out)
    status, out = run "explain heisenberg --sites 12 --charge Sz=0 --method ed"
    ok(status == 0 and out:find "y = H x +n = %d+ +host" and out:find "fused step", "explain --method ed",
        out)
    local explain = "KRONLAT_CACHE=$PWD/cache $K explain heisenberg --sites 12 --charge Sz=0 --m 64"
    status, out = shell(explain)
    ok(status == 0 and out:find "%-%-exec auto: host: no tune table", "explain without a tune table", out)
    local few = os.getenv "KL_TEST_ROUNDS" and -- all but the longest, which `bench compare` has smaller
        ("copy axpy columns products sparse sweeps ED full"):gsub("%S+", " --only %0;")
    for only in (few or ";"):gmatch "([^;]*);" do
        status, out = shell("KRONLAT_CACHE=$PWD/cache $K tune --quick --threads 2" .. only)
        ok(status == 0 and out:find "written to .*/cache/tune%-table", "tune" .. only, out)
    end
    status, out = shell(explain)
    ok(status == 0 and out:find "%-%-exec auto: host: sweep %d+: host .* %(line %d+%)"
        and out:find "measured: dots %d+: host", "explain by the tune table", out)
    status, out = shell "KRONLAT_CACHE=$PWD/cache $K explain heisenberg --sites 12 --charge Sz=0 --method ed"
    ok(status == 0 and out:find "auto: host: some 100 products with H .* take host [%d.e-]+ s.- by the tune"
        and out:find "measured: kron 4900: host", "explain --method ed by the tune table", out)
    local h2o = "KRONLAT_CACHE=$PWD/cache $K explain --method ci " .. absolute(arg[0]):match "^(.*)/cli/"
        .. "/data/h2o-631g-fc.fcidump"
    status, out = shell(h2o .. " --space full --irrep 1")
    ok(status == 0 and out:find "products with H" and out:find "y = H x +61441 determinants +host"
        and out:find "measured: sigma 63504: host", "explain --method ci", out)
    status, out = shell(h2o .. " --json")
    told = json(out)
    ok(status == 0 and told and told.operations[1].measured:find "^spmv" and told.space == "cisd"
        and told.chosen:find "^host: some", "explain --method ci in JSON", out)
    local before = slurp(at "cache/tune-table")
    status, out = shell "KRONLAT_CACHE=$PWD/cache $K tune --quick --threads 2 --only eigen"
    local after = slurp(at "cache/tune-table")
    local function others(text) return (text:gsub("eigen[^\n]*\n", "")) end
    ok(status == 0 and others(after) == others(before) and after:find "\neigen %d", -- by the clock: how many
        "tune --only leaves the others", after)
    status, out = shell "KRONLAT_CACHE=$PWD/cache $K tune --quick --threads 1 --only copy 2>&1"
    ok(status == 2 and out:find "measured with 2 threads, not 1; allowed: %-%-threads 2"
        and slurp(at "cache/tune-table") == after, "tune --only with other threads", out)
    status, out = shell "KRONLAT_CACHE=$PWD/cache $K tune --quick --threads 2 --only nothing 2>&1"
    ok(status == 2 and out:find "'nothing' is in the name of no operation; there are 'copy'"
        and slurp(at "cache/tune-table") == after, "tune --only what is not there", out)
    status, out = shell ": >cache/tune-table; KRONLAT_CACHE=$PWD/cache $K tune --quick --threads 1 --only copy 2>&1"
    ok(status == 2 and out:find "tune%-table is empty" and not out:find "0 threads", "an empty table", out)
    status, out = shell "echo 'kronlat x threads' >cache/tune-table; KRONLAT_CACHE=$PWD/cache $K explain heisenberg --sites 12 --charge Sz=0 --m 64"
    ok(status == 0 and out:find "tune%-table is damaged or belongs to another version",
        "a tune table with a strange first line", out)
    spill(at "cache/tune-table", after)
    status, out = shell("sed -i s/^list/lost/ cache/tune-table; " .. explain)
    ok(status == 0 and out:find "tune%-table:%d+: 'lost 4 .* is no operation", "a broken tune table", out)
    status, out = shell "KRONLAT_CACHE=$PWD/cache $K tune --quick --output /nowhere/at/all --only copy"
    ok(status == 2, "tune into a folder that is not there", out)
    local nrow, of = few and 1 or 13, few and " --only 'by rows'" or ""
    status, out = run("bench compare --quick --threads 2 --csv compare.csv --json compare.json" .. of)
    local rows = json(slurp(at "compare.json") or "")
    ok(status == 0 and rows and #rows.rows == nrow and rows.rows[1].host > 0 and
        select(2, (slurp(at "compare.csv") or ""):gsub("\n", "")) == nrow + 1, "bench compare", out)
    status, out = run "bench compare --from compare.csv --csv again.csv"
    ok(status == 0 and slurp(at "again.csv") == slurp(at "compare.csv"), "bench compare --from", out)
    refused("bench compare --from compare.json", "compare.json:2 is no row of a table")
    for what in ("gemm gemv_trans gemv_normal compare dmrg run auto hx hx:--replay offload cuda ed ci"):gmatch "%S+" do
        what = what:gsub(":", " ")
        status, out = run("bench " .. what .. " --help")
        ok(status == 0 and out:find "Usage: kronlat bench", "bench " .. what .. " --help", out)
    end
    for what in ("gemv_trans:--width compare:--only hx:--replay offload:--only offload:--m cuda:--elements ci:--rows"):gmatch "%S+" do
        local option = what:match ":(.*)"
        local said
        status, _, said = run("bench " .. what:gsub(":", " "))
        ok(status == 2 and said:find(option .. ": ", 1, true) and said:find "value is missing",
            "bench " .. what .. " without its value", said)
    end
    local small = "bench run heisenberg --sites 16 --charge Sz=0"
    status, out = run(small .. " --accuracy 1e-8 --threads 1 --beside $K --rounds 2")
    local runs, ratio = select(2, out:gsub("TFLOP/s\n", "")), tonumber(out:match "median of 2: run ([%d.]+)")
    local rest = tonumber(out:match "none of these (%-?[%d.]+) s") -- negative where a part is told twice
    ok(status == 0 and runs == 4 and out:find "truncation [%d.]+ s" and ratio and ratio > 0 and rest
        and rest > -0.02 and out:find "PASS", "bench run compared with itself", out)
    status, _, said = run(small .. " --exact -7")
    ok(status ~= 0 and said:find "bench run: the energy %-6%.91%d+ is 8%.8e%-02 from %-7",
        "bench run, wrong energy", said)
    status, out = run "bench gemv_trans --exec host --height 1000 --width 1 --width 20 --csv tall.csv"
    ok(status == 0 and select(2, (slurp(at "tall.csv") or ""):gsub("\n", "")) == 7, "bench gemv_trans", out)
    status, out = run "bench gemv_normal --exec host --height 1000 --width 1 --width 20 --csv normal.csv"
    ok(status == 0 and select(2, (slurp(at "normal.csv") or ""):gsub(",V y\n", "")) == 4,
        "bench gemv_normal", out)
    shell "rm -rf cache compare.csv again.csv compare.json tall.csv normal.csv"
    status, out = run "dmrg heisenberg --sites 20 --charge Sz=0 --schedule 20:0:1e-4,90:0:1e-6 --full-sectors -o none"
    ok(status == 0 and out:find "%-8%.68", "--full-sectors", out)
    status, out = run "dmrg heisenberg --sites 20 --charge Sz=0 --schedule 32:1e-5,48 -o none"
    ok(status == 0 and out:find "without an error bar" and not out:find "inf%f[%A]", "one sweep: no bar", out)
    status, out = run "growth heisenberg --sites 12 --m 32 --charge Sz=0"
    ok(status == 0 and out:find "largest H_SB" and out:find "%-5%.142090", "growth, in the form of Table 5",
        out)
    status, out = run "dmrg heisenberg --sites 12 --m 32 --charge Sz=0 --infinite --json"
    local growth = json(out)
    ok(status == 0 and growth and #growth.iterations == 5 and growth.table5.dim_max > 0, "--infinite in JSON",
        out)
    status, out = run "growth heisenberg --sites 12 --m 32 --charge Sz=0 -p J=1e-10 --json"
    local small = json(out)
    ok(status == 0 and small
        and math.abs(small.iterations[5].energy / growth.iterations[5].energy - 1e-10) < 1e-20,
        "growth does not depend on the unit of energies", out)
    for _, size in ipairs { "1e-7", "1e5" } do
        local _, exact
        spill(at "units.lua",
            ('-- H = sum_<ij> J Y_i Y_j + sum_i h Z_i\nsite(matrices{ states = {"a", "b"}, Y = {{0,%s},{%s,0}}, Z = {{1,0},{0,-1}} })\nconserve "nothing"\nparameters { J = 1/%s^2, h = 0.3 }\nbond("nn", J*Y(i)*Y(j))\nonsite(h*Z(i))\n'):format(size, size, size))
        _, exact = run "ed units.lua --sites 8 -o none --json"
        status, out = run "dmrg units.lua --sites 8 -o none --json"
        exact, out = json(exact), json(out)
        ok(status == 0 and exact and out and math.abs(out.energy - exact.energy) < 1e-9,
            "dmrg does not depend on the unit of operators: elements " .. size, out and out.energy)
    end
    spill(at "units.lua",
        '-- H = -J sum_<ij> A_i A_j - g sum_i A_i\nsite(matrices{ states = {"a", "b"}, A = {{0,1e14},{1e14,0}} })\nconserve "nothing"\nparameters { J = 1e-28, g = 1e-15 }\nbond("nn", -J*A(i)*A(j))\nonsite(-g*A(i))\n')
    out = json(select(2, run "ed units.lua --sites 4 -o none --measure A --measure 'corr(A,A)' --json"))
    ok(out and math.abs(out.measurements["local/A"].value[1] - 1e14) < 1e3
        and math.abs(out.measurements["correlation/A,A"].value[1][2] - 1e28) < 1e17,
        "ed measures operators in large units", out and out.energy)
    shell "rm -f units.lua"
    -- scales that lie far apart: what is told of the error holds
    for _, case in ipairs { { "heisenberg --sites 20 --charge Sz=1 -p Delta=1e6", -4250000.9594979 },
        { "heisenberg --sites 20 --charge Sz=1 -p Delta=1e4 --accuracy 1e-7", -42500.95998575 },
                            { "hubbard --sites 8 --charge N_up=4 --charge N_dn=4 -p U=1e8 --solver lanczos",
                                -2.049973e-7 }, {
                                "hubbard --sites 8 --charge N_up=4 --charge N_dn=4 -p U=1e7",
                                -2.049973e-6 } } do
        status, out = run("dmrg " .. case[1] .. " -o none --json")
        out = json(out)
        ok(status == 0 and out
            and math.abs(out.energy - case[2]) <= out.error_estimate + 1e-14 * math.abs(case[2]),
            "the error told holds: " .. case[1], out and out.energy, out and out.error_estimate)
    end
    status, out = run "growth hubbard --sites 8 --m 260 -p U=1e7 --charge N_up=4 --charge N_dn=4"
    ok(status == 0 and out:find "residual reached", "growth says what residual was reached", out)
    out = json(select(2,
        run "dmrg heisenberg --sites 12 --charge Sz=0 --states 2 -p J=1e-12 -p h=1e-13,0,0,0,0,0,0,0,0,0,0,0 -o none --json"))
    ok(out and out.manifold == 1, "a manifold does not depend on the unit of energies", out and out.manifold)
    for _, unit in ipairs { "1e-290", "1e-165", "1e-20", "1e36", "1e38", "1e100", "1e300" } do
        status, out = run("dmrg heisenberg --sites 8 --charge Sz=0 --m 20 -o none -p J=" .. unit)
        local text = out:match "\nenergy +(%S+)"
        ok(status == 0 and text and math.abs(tonumber(text) / tonumber(unit) + 3.374932598688) < 1e-10
            and out:find("1 +20 +1e%-04 +%-3%.37493259868789%d*e"),
           "energies in any unit keep their digits: " .. unit, out)
    end
    -- a Hamiltonian that is Hermitian as a sum, not line by line: the Hubbard ring of 4 in momentum space
    local sums = { "-- H = Hubbard ring in momentum space", "site(electron(1/2))", 'conserve "each flavour"',
        "parameters { U = 4 }", 'named({"0"}, -2 * n(i))', 'named({"2"}, 2 * n(i))' }
    for q = 0, 3 do
        for k = 0, 15 do
            local sites, slot, four = {}, {}, { (k // 4 + q) % 4, k // 4, (k % 4 - q) % 4, k % 4 }
            for f, site in ipairs(four) do
                if not slot[site] then
                    sites[#sites + 1] = ('"%d"'):format(site)
                    slot[site] = ("ijkl"):sub(#sites, #sites)
                end
                four[f] = slot[site]
            end
            sums[#sums + 1] = ("named({%s}, U/4 * cdag_up(%s)*c_up(%s)*cdag_dn(%s)*c_dn(%s))"):format(
                table.concat(sites, ","), table.unpack(four))
        end
    end
    spill(at "momenta.lua", table.concat(sums, "\n") .. "\n")
    for _, command in ipairs { "ed", "dmrg" } do
        out = json(select(2, run(command .. " ./momenta.lua --sites 4 --charge N_up=2 --charge N_dn=2 -o none --json")))
        local e = out and (out.energy or out.energies and out.energies[1])
        ok(e and math.abs(e + 2.1027484834621) < 1e-9, "Hermitian as a sum: " .. command, e)
    end
    spill(at "momenta.lua", table.concat(sums, "\n", 1, #sums - 1) .. "\n")
    status, out, err = run "ed ./momenta.lua --sites 4 --charge N_up=2 --charge N_dn=2 -o none"
    ok(status == 2 and err:find "is not Hermitian", "a sum that is not Hermitian is refused", err)
    os.remove(at "momenta.lua")
    for _, command in ipairs { "ed", "dmrg" } do
        out = json(select(2, run(command .. " heisenberg --sites 6 --charge Sz=0 -o none --json "
            .. "--measure 'corr(Sp,adj(Sp))' --measure 'corr(Sp,Sm)'")))
        local m = out and out.measurements or {}
        local a, b = m["correlation/Sp,adj(Sp)"], m["correlation/Sp,Sm"]
        ok(a and b and math.abs(a.value[1][4] - b.value[1][4]) < 1e-12 and math.abs(b.value[1][4]) > 0.1,
            "corr(X, adj(X)): " .. command, a and a.value[1][4], b and b.value[1][4])
    end
    local strings = {}
    for _, order in ipairs { "column", "4,0,5,2,1,3" } do
        out = json(select(2, run("dmrg heisenberg --sites 6 --charge Sz=0 -p S=1 --measure 'string(Sz,expipi(Sz),Sz)' "
            .. "-o none --json --order " .. order)))
        strings[#strings + 1] = out and out.measurements["string/Sz,expipi(Sz),Sz"].value[1][5]
    end
    ok(strings[1] and strings[2] and math.abs(strings[1] - strings[2]) < 1e-7,
        "a string is between sites by their numbers, whatever --order", strings[1], strings[2])
    status, out, err = run "dmrg heisenberg --lattice ladder:4x2 --charge Sz=0 -p S=1 --measure 'string(Sz,expipi(Sz),Sz)'"
    ok(status == 2 and err:find "sites 1 and 2 of lattice ladder:4x2 are not bonded",
        "a string along no path of bonds is refused", err)
    for _, solver in ipairs { "full", "davidson" } do
        out = json(select(2,
            run("ed j1j2 --lattice ring:8 --charge Sz=0 -p h=1e-6,-1e-6,0,0,0,0,0,0 --states 2 -o none --json --solver " .. solver)))
        ok(out and out.degeneracy[1] == 1 and math.abs(out.energies[2] - out.energies[1] - 5.86e-13) < 2e-14,
            "levels 6e-13 apart are two: " .. solver, out and out.degeneracy[1])
    end
    local far = "ed hubbard --sites 8 --charge N_up=4 --charge N_dn=4 -p U=1e5 --states 2 -o none "
    out = json(select(2, run(far .. "--json")))
    ok(out and out.solver == "lobpcg" and out.converged and out.degeneracy[1] == 1
        and near(out.energies[2] - out.energies[1], 1.570769e-5, 1e-9), "levels 1e-10 of |H| apart")
    out = json(select(2, run(far .. "--precondition none --json"))) -- it finds no way down from U
    ok(out and out.solver == "davidson", "where LOBPCG comes to a stand Davidson's method goes on")
    status, out = run(far .. "--precondition none --solver lobpcg")
    ok(out:find "NOT CONVERGED: the solver came to a stand", "LOBPCG says that it came to a stand", out)
    status, out = run "models"
    ok(status == 0 and out:find "heisenberg" and out:find "charges Sz", "models", out)
    ok(json(select(2, run "models --json")) ~= nil, "models in JSON")
    status, out = run "models heisenberg -p S=1"
    ok(status == 0 and out:find "S=1" and out:find "3 states" and out:find "terms", "one model", out)
    ok(json(select(2, run "models hubbard --json")) ~= nil, "one model in JSON")
    status, out = run "devices"
    ok(status == 0 and out:find "BLAS.*LAPACK.*%-%-exec +host\n[^\n]+cuda[^\n]+\n[^\n]+offload", "devices", out)
    local devices = json(select(2, run "devices --json"))
    ok(devices and devices.blas ~= "unknown" and devices.lapack ~= "unknown", "devices in JSON")
    if devices and os.execute "command -v ldd >/dev/null" then -- trap: a second BLAS that nobody named
        local named, missing = table.concat(devices.loaded, "\n"), {}
        for name in select(2, shell "ldd $K"):gmatch "(%S+) =>" do
            for _, part in ipairs { "blas", "blis", "lapack", "gomp", "libomp" } do
                if name:find(part, 1, true) and not named:find(name, 1,
                    true) then missing[#missing + 1] = name end
            end
        end
        ok(#devices.loaded >= 2 and #missing == 0, "every BLAS, LAPACK and OpenMP in the process is named",
            named, table.concat(missing, " "))
    end
    status, out = run "--version"
    ok(status == 0 and out:match "^kronlat %d[%d%.]*[%w%-]*\n$", "--version", out)
end

for _, command in ipairs { "", "dmrg ", "ed ", "ci ", "run ", "plan ", "explain ", "growth ", "models ",
    "devices ", "measure ", "show ", "plot ", "bench ", "tune ", "completion ", "man " } do
    local status, out, err = run(command .. "--help")
    ok(status == 0 and err == "" and out:find "kronlat" and (command == "devices " or out:find "Example"),
        "help of '" .. command .. "'", out, err)
end

-- ---- files ----

do
    local status, out, err = run "dmrg heisenberg --sites 10 --charge Sz=0 -o a.h5"
    ok(status == 0 and out:find "result +a.h5" and files() == "a.h5", "a result file and nothing else", out,
        err, files())
    status, out = run "show a.h5"
    ok(status == 0 and out:find "heisenberg" and out:find "energy +%-4%.25803", "show", out)
    local shown = json(select(2, run "show a.h5 --json"))
    ok(shown and near(shown.energy, -4.258035207, 1e-8), "show in JSON")
    local e = energy "dmrg heisenberg --sites 10 -p Delta=0.9 --charge Sz=0 --start a.h5 --m 40 -o b.h5"
    ok(e ~= nil and e > -4.2580352, "a start from a file with another parameter", e)
    status, out, err = run "dmrg heisenberg --sites 4 --charge Sz=0"
    local first = files():match "heisenberg%-%S+"
    run "dmrg heisenberg --sites 4 --charge Sz=0"
    ok(status == 0 and first and files():find("heisenberg-chain4-Sz=0-2.h5", 1, true),
        "a name made up never replaces a file", files())
    run "dmrg heisenberg --sites 4 --charge Sz=0 -o four.h5"
    status, out = run "dmrg hubbard --sites 2 -p U=1 --charge scan -o scan.h5"
    local scanned = json(select(2, run "measure scan.h5 --measure n_up --json"))
    ok(status == 0 and scanned and scanned.measurements["local/n_up"]
        and near(scanned.measurements["local/n_up"].value[1], 0.5, 1e-9),
        "--charge scan writes a file of one sector", out)
    local asked = { "Sz", "entropy", "energy", "populations", "'corr(Sz,Sz)'", "variance" }
    status, out, err = shell("for m in " .. table.concat(asked, " ")
        .. "; do $K measure four.h5 --measure $m --threads 1 >/dev/null & done; wait")
    local inside, kinds = json(select(2, run "show four.h5 --json")), 0
    for _ in pairs(inside and inside.measurements or {}) do kinds = kinds + 1 end
    ok(kinds == #asked, "measured by six at once, all is in the file", kinds, err)
    local again, what = energy "dmrg heisenberg --sites 4 --charge Sz=0 --start four.h5 --output none"
    ok(near(again, -1.6160254037844, 1e-8), "--start from a state of four columns", again, what)
    os.remove(at "four.h5")
    status, out = run "dmrg hubbard --sites 4 --charge N_up=2 --charge N_dn=2 --sweep-parameter U=0:2:1 -o u.h5 --json"
    local sweep = json(out)
    ok(status == 0 and sweep and #sweep.runs == 3 and near(sweep.runs[1].energies[1], -4.4721359549996,
        1e-9) and slurp(at "u.U=2.h5") ~= nil, "--sweep-parameter", out)
    if os.execute "command -v gnuplot >/dev/null" then
        status, out = run "plot a.h5"
        ok(status == 0 and (slurp(at "a.svg") or ""):find "<svg", "plot", out)
        local failed = {}
        -- a limit on files is a disk that is full: gnuplot itself does not fail
        for _, format in ipairs { "svg", "png", "pdf" } do
            local good = run("plot a.h5 -o part." .. format) == 0 and #slurp(at("part." .. format)) > 4096
            spill(at("part." .. format), "old")
            local code, text, why = shell("(trap '' XFSZ; ulimit -f 4; $K plot a.h5 -o part." .. format
                .. ")")
            good = good and code == 2 and text == ""
                and why:find "cannot be written: gnuplot did not finish it" and select(2, why:gsub("\n",
                "")) == 1 and slurp(at("part." .. format)) == "old"
            if not good then failed[#failed + 1] = format .. ": " .. code .. " " .. why end
        end
        ok(#failed == 0 and not files():find "partial", "a plot that gnuplot cannot finish keeps the old one",
            table.concat(failed, "\n"), files())
        shell "rm -f part.*"
        for _, name in ipairs { "|touch CANARY #.svg", "<touch CANARY #.svg", "`touch CANARY`.svg",
            "$(touch CANARY).svg", "'; system('touch CANARY') #.svg",
                                "\n!touch CANARY\n.svg", "\"\\.png", "@x.pdf" } do
            local code, _, why = run("plot a.h5 --output " .. quote(name))
            local by_name = name:gsub("%.%w+$", "")
            local second, _, too = shell("cp a.h5 " .. quote(by_name .. ".h5") .. " && $K plot "
                .. quote(by_name .. ".h5"))
            ok(code == 0 and second == 0 and #(slurp(at(name)) or "") > 1000 and #(slurp(at(by_name
                .. ".svg")) or "") > 1000 and not slurp(at "CANARY"),
               "a plot named " .. name:gsub("\n", " "):gsub("#", "."), why, too)
            for _, ending in ipairs { name:match "%.%w+$", ".svg", ".h5" } do os.remove(at(by_name
                .. ending)) end
        end
        status, out, err = run "plot a.h5 --output x.gif"
        ok(status == 2 and err:find ".svg .png .pdf", "an unknown format", err)
    else
        skip("plot", "no gnuplot")
    end
    local path_only = at "bin"
    os.execute("mkdir " .. quote(path_only))
    status, out, err = shell("PATH=" .. quote(path_only) .. " $K plot a.h5")
    ok(status == 2 and err:find "gnuplot is not installed" and select(2, err:gsub("\n", "")) == 1,
        "no gnuplot gets its line", err)
    os.execute("rm -r " .. quote(path_only))
end

-- ---- exact diagonalization ----

do
    local function ed(line)
        local status, out, err = run("ed " .. line .. " --json")
        local doc = status == 0 and json(out)
        return doc and doc.energy, doc or (out .. err)
    end
    local e, doc = ed "hubbard --sites 8 -p U=2 --charge N_up=4 --charge N_dn=4"
    ok(near(e, -6.225634144681335, 1e-9) and doc.dimension == 4900 and doc.halves == "flavours"
        and doc.converged, "ed: Hubbard chain", doc)
    for _, more in ipairs { "--solver lobpcg --precondition neumann", "--solver davidson --precondition none",
        "--solver lobpcg --states 3", "--store matrix --format sell --slice 16",
                            "--store matrix --format hybrid --half", "--form sites" } do
        local other = ed("hubbard --sites 8 -p U=2 --charge N_up=4 --charge N_dn=4 " .. more)
        ok(near(other, e, 1e-8), "ed: the same by " .. more, other)
    end
    local _, pair = ed "hubbard --lattice ring:4 -p U=3 --charge N_up=2 --charge N_dn=1 --states 4 --solver lobpcg --measure 'connected(n_up,n_up)' --measure entropy"
    local mixed = pair.measurements and pair.measurements["manifold/connected/n_up,n_up"]
    ok(mixed and near(mixed.value[1][2], mixed.value[2][3], 1e-7) and near(mixed.value[1][2],
        mixed.value[4][1], 1e-7) and not pair.measurements["manifold/entropy"],
       "ed: the mixture of a multiplet has the lattice's symmetry", mixed and mixed.value)
    local rising, falling = ed "hubbard --sites 6 -p U=1,2,3,4,5,6 --charge N_up=3 --charge N_dn=2",
        ed "hubbard --sites 6 -p U=6,5,4,3,2,1 --charge N_up=3 --charge N_dn=2"
    local even = ed "hubbard --sites 6 -p U=3.5 --charge N_up=3 --charge N_dn=2"
    ok(near(rising, falling, 1e-9) and math.abs(rising - even) > 1e-3, "ed: U by site", rising, falling, even)
    local status, out, err = run "plan ed hubbard --lattice ring:6"
    ok(status == 2 and err:find("plan --method ed hubbard", 1, true), "plan ed MODEL: told how", err)
    local all, swept = json(select(2,
        run "ed heisenberg --sites 4 --charge scan --states 5 --solver full --json -o none") or ""),
        json(select(2, run "dmrg heisenberg --sites 4 --charge scan --states 5 --json -o none") or "")
    local same = all and swept and #all.runs == 5 and #swept.runs == 5
    for i = 1, same and 5 or 0 do
        same = same and #all.runs[i].energies == #swept.runs[i].energies
        for k, e in ipairs(all.runs[i].energies) do same = same and near(e, swept.runs[i].energies[k],
            1e-9) end
    end
    ok(same and #all.runs[1].energies == 1 and #all.runs[3].energies == 5,
        "a scan for five states takes of a small sector those there are, by either way")
    local status, out = run "ed heisenberg --lattice ring:6 --charge Sz=0 --solver full -o none"
    ok(status == 0 and out:find "spectrum     all 20 energies" and select(2, out:gsub("0%.118033988",
        "")) == 1, "ed: the energies of a small sector are listed", out)
    local status,
        out = run "ed heisenberg --lattice ring:8 --charge Sz=0 --solver full --states 4 --measure Sz --measure 'corr(Sz,Sz)' --measure entropy -o e.h5"
    ok(status == 0 and out:find "spectrum +all 70 energies" and out:find "entropy"
        and out:find "correlation/Sz,Sz", "ed: all states, measured", out)
    status, out = run "show e.h5"
    ok(status == 0 and out:find "sector +70 states" and out:find "energy 0 +%-3%.651093408937"
        and out:find "state  3", "show, of exact diagonalization", out)
    local shown = json(select(2, run "show e.h5 --json"))
    ok(shown and shown.method == "ed" and #shown.spectrum == 70 and #shown.energies == 4
        and shown.measurements["local/Sz"], "show in JSON, of exact diagonalization")
    -- what a model and a lattice file say of sites that are not there, or not what they seem
    local hamiltonian = '-- H = sum_<ij> J S_i.S_j\nsite(spin(1/2))\n%sconserve "Sz"\nparameters { J = 1 }\n%s\n'
    local two = 'return { sites = { { %s }, {}, {} }, bonds = { { 0, 1 }, { 1, 2%s } } }\n'
    for _, case in ipairs {
        { "", 'named({"0", "-3"}, J*S_dot_S(i,j))', "", "both site 0" },
        { 'site("end", spin(1))', 'bond("nn", J*S_dot_S(i,j))', "",
            'class "end", which lattice chain lacks' },
        { 'site("ends", spin(1)) site("first", spin(3/2))', 'bond("nn", J*S_dot_S(i,j))', "",
            "stands before this one" },
        { "", "pairs(1.414, J*S_dot_S(i,j))", "--lattice square:2x2", "but some at 1.414213562" },
        { "", "pairs(J*exp(-r)*S_dot_S(i,j))", two:format("", ""), "no x and y" },
        { "", 'onsite(J*(-1)^x*Sz(i))', two:format("", ""), "no x and y" },
        { "", 'bond("nn", J*S_dot_S(i,j))', two:format('name = "1"', ""), "taken for a site's number" },
        { "", 'bond("nn", J*S_dot_S(i,j))', two:format('class = "odd"', ""), "take another word" },
        { "", 'bond("nn", J*S_dot_S(i,j))', two:format('clas = "imp"', ""), "site 0: unknown entry 'clas'" },
        { "", 'bond("nn", J*S_dot_S(i,j))', two:format("", ', "nn", 2'), "bond 2: unknown entry '4'" },
        { "", 'bond("nn", J*S_dot_S(i,j))', two:format("", ", R = 2"), "bond 2: unknown entry 'R'" },
        { "", 'bond("nn", J*S_dot_S(i,j))', two:format("", ", r = 0/0"), "bond 2: r is not a number" },
    } do
        local types, term, lattice, word = table.unpack(case)
        spill(at "slip.lua", hamiltonian:format(types == "" and "" or types .. "\n", term))
        if lattice:find "^return" then spill(at "three.lua", lattice) lattice = "--lattice three.lua" end
        local status, out, err = run("ed ./slip.lua " .. (lattice == "" and "--sites 3" or lattice)
            .. " --charge scan")
        ok(status == 2 and out == "" and select(2, err:gsub("\n", "")) == 1 and err:find(word, 1, true),
            "one line: " .. word, status, err)
    end
    shell "rm -f slip.lua three.lua"
    spill(at "ends.lua",
        '-- H = sum_<ij> J S_i.S_j - sum_i h Sz_i\nsite(spin(1))\nsite("ends", spin(1/2))\nconserve "Sz"\nparameters { J = per_bond(1), h = per_site(0) }\nbond("nn", J * S_dot_S(i,j))\nonsite(-h * Sz(i))\n')
    local words = "./ends.lua --sites 5 --charge Sz=0 -p 'h=0.3,-0.1,0.7,0.2,-0.4' --json -o none --measure P --measure 'structure(P,P)' --measure 'connected(Sp,Sm)' --measure 'corr((Sp+Sm)/2,(Sp+Sm)/2)' " ..
                  "--measure 'local(Sz+Sp)' --measure '(Sz*Sz)'"
    local exact, swept = json(select(2, run("ed " .. words)) or ""), json(select(2,
        run("dmrg " .. words)) or "")
    local worst, compared = 0, 0
    local function compare(a, b)
        if type(a) == "table" then
            for k, v in pairs(a) do compare(v, b[k]) end
        else worst, compared = math.max(worst, math.abs(a - b)), compared + 1 end
    end
    for name, m in pairs(exact and exact.measurements or {}) do compare(m.value,
        swept.measurements[name].value) end
    ok(compared == 70 and worst < 1e-6,
        "ed measures what dmrg does: sums of operators, and those that some sites lack", compared, worst)
    os.remove(at "ends.lua")
    status, out = run "ed heisenberg --sites 6 --charge scan"
    ok(status == 0 and out:find "Sz=0[^\n]*<%- lowest" and out:find "Sz=%-3", "ed --charge scan", out)
    status, out = run "ed hubbard --sites 4 -p U=4 --charge N_up=2 --charge N_dn=scan --json"
    local scan = json(out)
    ok(status == 0 and scan and #scan.runs == 5 and scan.lowest:find "N_dn=", "ed --charge NAME=scan in JSON",
        out)
    -- Two sites: S+ leads from the singlet to the triplet, 1 above, with the weight <S- S+> = 1/2.
    e, doc = ed "heisenberg --sites 2 --charge Sz=0 --spectral Sp@0 --spectral Sz@-1 --broadening 0.01 --frequencies 0:2:0.5 -o s.h5"
    local curve = doc.measurements["spectral/Sp@0"].value
    ok(near(e, -0.75, 1e-12) and #curve == 5 and near(curve[3][2], 0.5 / (math.pi * 0.01),
        1e-8) and near(doc.measurements["poles/Sp@0"].value[1][1], 1, 1e-10), "a spectral function", doc)
    -- Momentum (1/2, 1/2): of a ring of 4 all weight is at the lowest triplet, 1 above.
    e, doc = ed "heisenberg --lattice ring:4 --charge Sz=0 --spectral Sz@q=2 --broadening 0.05 --frequencies 1,5"
    local at_pi = doc.measurements["poles/Sz@q=2"].value
    ok(near(e, -2, 1e-10) and near(at_pi[1][1], 1, 1e-8) and at_pi[1][2] > 0.6,
        "a spectral function at a momentum", doc)
    -- A field on every other site: cosine and sine of momentum 1 lead to different states. The curve is of
    -- both, on a window that shows both.
    e, doc = ed "heisenberg --lattice ring:4 -p h=0,-3,0,-3 --charge Sz=1 --spectral Sz@q=1 --broadening 0.02"
    local poles, seen = doc.measurements["poles/Sz@q=1"].value, doc.measurements["spectral/Sz@q=1"].value
    local function lorentzians(w)
        local a = 0
        for _, p in ipairs(poles) do a = a + p[2] * 0.02 / ((w - p[1]) ^ 2 + 0.02 ^ 2) / math.pi end
        return a
    end
    local off, area = 0, 0
    for i, point in ipairs(seen) do
        off = math.max(off, math.abs(point[2] - lorentzians(point[1])))
        area = area + (i > 1 and (point[1] - seen[i - 1][1]) * (point[2] + seen[i - 1][2]) / 2 or 0)
    end
    ok(#poles == 2 and near(poles[1][1], (math.sqrt(13) - 3) / 2, 1e-9) and near(poles[2][1],
        (math.sqrt(13) + 3) / 2, 1e-9) and seen[1][1] < poles[1][1] and seen[#seen][1] > poles[2][1]
       and off < 1e-9 and near(area, 0.25, 0.01), "the frequencies of a momentum show all of its weight", off,
           area, doc)
    -- Three spins: the lowest energy comes twice with Sz=1/2, and both states lead to the same two energies.
    e, doc = ed "heisenberg --lattice ring:3 --charge Sz=1/2 --states 2 --spectral Sz@0 --broadening 0.02"
    poles = doc.measurements["poles/Sz@0"].value
    ok(#poles == 2 and near(poles[1][1], 0, 1e-9) and near(poles[2][1], 1.5,
        1e-9) and near(poles[1][2] + poles[2][2], 0.25, 1e-9),
        "poles of a multiplet, by energy and equal ones as one", doc)
    -- Two spins: energies -3/4 and three times 1/4.
    status, out = run "ed heisenberg --sites 2 --charge scan --temperatures 0.5,1 --json -o t.h5"
    doc = json(out)
    local z = 1 + 3 * math.exp(-1)
    ok(status == 0 and doc and near(doc.measurements["thermal/energy"].value[2][1],
        -0.75 + 3 * math.exp(-1) / z, 1e-12)
       and near(doc.measurements["thermal/chi_Sz"].value[2][1], 2 * math.exp(-1) / z,
           1e-12) and doc.charges.Sz == nil, "thermodynamics", out)
    -- null, which json() leaves out
    status, out = run "ed heisenberg --sites 12 --charge Sz=0 --temperatures 1 --samples 1 --json -o one.h5"
    doc = json(out)
    local _, text = run "show one.h5"
    ok(status == 0 and doc and #doc.measurements["thermal/energy"].value[1] == 1
        and text:find "\n +1 +%-2%.%d+ +%- +%d%.%d+ +%- +%d%.%d+ +%-\n", "one sample has no error bars", out,
        text)
    os.remove(at "one.h5")
    status, out = run "ed heisenberg --sites 6 --charge Sz=0 --temperatures 1e-200,1e200 --json -o none"
    doc = json(out)
    local heat = doc and doc.measurements["thermal/heat"].value
    ok(status == 0 and heat and #heat[1] == 2 and heat[1][1] == 0 and heat[2][1] == 0,
        "no heat capacity at the ends of all temperatures", out)
    status, out = run "ed hubbard --sites 2 --charge N_up=scan --charge N_dn=1 --temperatures 1 -o none"
    ok(status == 0 and out:find "charges +N_dn=1\n" and out:find "summed over all N_up"
       and not out:find "chi_N ", "a sum over sectors tells the charges that are fixed", out)
    status, out = run "show t.h5"
    ok(status == 0 and out:find "sectors +3, summed over all Sz" and out:find "chi_Sz",
        "show, of thermodynamics", out)
    status, out = run "plan heisenberg --lattice torus:6x6 --charge Sz=0 --method ed"
    ok(status == 0 and out:find "9075135300" and out:find "72%.6 GB a vector", "plan of a sector beyond 2^31",
        out)
    if os.execute "command -v gnuplot >/dev/null" then
        for _, name in ipairs { "e", "s", "t" } do
            status, out = run("plot " .. name .. ".h5")
            ok(status == 0 and (slurp(at(name .. ".svg")) or ""):find "<svg", "plot of " .. name .. ".h5",
                out)
            os.remove(at(name .. ".svg"))
        end
    end
end

-- ---- jobs ----

do
    spill(at "job.lua",
        "return { model = 'hubbard', sites = 4, p = { U = 4 }, charge = { N_up = 2, N_dn = 2 }, output = 'none', json = true }\n")
    local status, out, err = run "run job.lua"
    local doc = json(out)
    ok(status == 0 and doc and near(doc.energy, -1.9531453086749, 1e-8) and doc.parameters.U == 4, "a job",
        out, err)
    status, out = run "run job.lua -p U=0"
    doc = json(out)
    ok(status == 0 and doc and near(doc.energy, -4.4721359549996, 1e-9), "what is typed wins over the job",
        out)
    spill(at "ring.lua",
        "local b = {} for i = 0, 5 do b[#b + 1] = { i, (i + 1) % 6 } end return { sites = 6, bonds = b }\n")
    local e = energy "dmrg heisenberg --lattice ring.lua --charge Sz=0 --output none"
    ok(near(e, -2.8027756377320, 1e-9), "a lattice file", e)
end

-- ---- models that are not built in: read by the program alone, without a compiler, a Lua or a home ----

do
    spill(at "own.lua",
        "-- H = sum J Sz Sz - h Sx, Ising in a field\nsite(spin(1/2))\nconserve \"nothing\"\nparameters { J = 1, h = 0.5 }\n" ..
        "bond(\"nn\", J * Sz(i)*Sz(j))\nonsite(-h * (Sp(i) + Sm(i))/2)\n")
    local before = files()
    for _, line in ipairs { "models ./own.lua", "plan ./own.lua --sites 6", "ed ./own.lua --sites 6 -o none",
        "dmrg ./own.lua --sites 6 -o none", "growth ./own.lua --sites 6",
        "models hubbard -p F=3/2", "dmrg heisenberg --sites 4 -p S=3/2 --charge Sz=0 -o none" } do
        local status, out, err = shell("env -i PATH=/nonexistent $K " .. line)
        ok(status == 0 and files() == before, line .. ", alone", status, out, err)
    end
    local status, out = run "ed ./own.lua --sites 6 -o none --json"
    local doc = json(out)
    local same = json(select(2, run "dmrg ./own.lua --sites 6 -o none --json"))
    ok(status == 0 and doc and same and near(doc.energy, same.energy, 1e-9), "a model of one's own", out)
    for _, file in ipairs { "inject_c", "model_oob_slot" } do
        os.execute(("cp %s %s"):format(quote(absolute(here .. "../data/hostile/" .. file .. ".lua")),
            quote(folder)))
        before = files()
        for _, command in ipairs { "models", "plan", "ed", "dmrg" } do
            local err
            status, out, err = run(command .. " ./" .. file .. ".lua" .. (command == "models" and ""
                or " --sites 4 --charge Sz=0"))
            ok(status == 2 and out == "" and err:match "^kronlat: [^\n]*%.lua:%d+[^\n]*\n$"
                and files() == before, command .. " " .. file, status, out, err, files())
        end
        os.remove(at(file .. ".lua"))
    end
    os.remove(at "own.lua")
end

-- ---- configuration interaction: a Hubbard dimer as integrals ----

do
    local exact = (4 - math.sqrt(32)) / 2
    spill(at "dimer.fcidump",
        " &FCI NORB=2,NELEC=2,MS2=0,\n &END\n 4.0 1 1 1 1\n 4.0 2 2 2 2\n -1.0 1 2 0 0\n 0.0 0 0 0 0\n")
    local status, out,
        err = run "ci dimer.fcidump --space full --store matrix --output dimer.h5 --arrays arrays.h5 --json"
    local doc = json(out)
    ok(status == 0 and doc and near(doc.states[1].energy, exact, 1e-10), "ci: energy of integrals", out, err)
    local arrays = slurp(at "arrays.h5")
    ok(arrays and arrays:find("rest_column", 1, true) and arrays:find("row_nonzeros", 1, true), "ci --arrays")
    status, out = run "show dimer.h5 --json"
    local shown = json(out)
    ok(status == 0 and shown and shown.states[1].energy == doc.states[1].energy
        and shown.irreps[1].nonzeros == doc.irreps[1].nonzeros, "ci: show says what was found", out)
    ok(shown and shown.finished and doc.finished, "ci: JSON says that the run has finished", out)
    status, out = run "show dimer.h5"
    ok(status == 0 and out:find "space full" and out:find "leading determinants"
        and not out:find "peak memory", "ci: show, without a peak memory that is its own", out)
    status, out, err = run "ci --resume dimer.h5"
    ok(status == 2 and err:find "has finished", "ci: a run that has finished does not go on", err)
    spill(at "endless.fcidump",
        " &FCI NORB=2,NELEC=2,MS2=0,\n &END\n 1e308 1 1 1 1\n 1e308 1 1 0 0\n 1e308 2 2 0 0\n 1e308 0 0 0 0\n")
    kit.refused("ci endless.fcidump --space full", "energies must be finite")
    status, out = run "ci dimer.fcidump --space full --plan --json"
    local plan = json(out)
    ok(status == 0 and plan and plan.space_by_irrep[1].nonzeros == 12
        and not plan.space_by_irrep[1].nonzeros_sampled, "ci --plan counts non-zeros", out)
    local wide = { "&FCI NORB=64,NELEC=64,MS2=0\n/\n" }
    for p = 1, 64 do wide[#wide + 1] = ("%g %d %d 0 0\n"):format(0.1 * p - 9, p, p) end
    spill(at "wide.fcidump", table.concat(wide))
    status, out = run "ci wide.fcidump --space full --plan --json"
    ok(status == 0 and json(out) and out:find '"determinants": null\n' and not out:find "solver_bytes",
        "ci --plan: beyond 64 bits there are no numbers", out)
    status, out = run "ci wide.fcidump --electrons 32 --space cas:32,32 --plan --json"
    plan = status == 0 and json(out)
    ok(plan and plan.space_by_irrep[1].determinants > 1e17 and not plan.space_by_irrep[1].solver_bytes,
        "ci --plan: no bytes where 64 bits hold the determinants alone", out)
    os.remove(at "wide.fcidump")
    -- the same molecule in hartree and in units a million times as large: determinants and levels are the
    -- same
    local units = {}
    for _, unit in ipairs { 1, 1e-6 } do
        local lines = {}
        for line in io.lines(absolute(arg[0]):match "^(.*)/cli/" .. "/data/h6-octahedron-sto3g.fcidump") do
            local value, at_orbitals = line:match "^%s*(%S+)(%s+%d+%s+%d+%s+%d+%s+%d+)%s*$"
            lines[#lines + 1] = value and ("%.17g%s"):format(value * unit, at_orbitals) or line
        end
        spill(at "h6.fcidump", table.concat(lines, "\n") .. "\n")
        status, out = run(("ci h6.fcidump --space cisd --roots 2 --reference lowest --residual %g"):format(
            1e-6 * unit))
        units[#units + 1] = status == 0 and out:match "reference ([2ud0]+)" .. (out:find "one level"
            and ", one level" or "") or out
    end
    status, out = run "ci h6.fcidump --space cisd --json"
    ok(status == 0 and json(out).reference == "222000",
        "ci: the reference is the file's own, its first orbitals", out)
    status, out = run "ci h6.fcidump --space cisd --reference lowest"
    ok(status == 0 and out:find "reference 2ud200.*; open shells: orbitals 2, 3\n",
        "ci: the lowest determinant is an option, and its open shells are told", out)
    os.remove(at "h6.fcidump")
    ok(units[1] == "2ud200" and units[2] == "2ud200",
        "ci: reference and levels follow the units of the integrals", units[1], units[2])
    spill(at "twofold.fcidump",
        " &FCI NORB=3,NELEC=1,MS2=1,\n &END\n -1 1 1 0 0\n -1 2 2 0 0\n -0.9999999 3 3 0 0\n")
    status, out = run "ci twofold.fcidump --space full --roots 3"
    ok(status == 0 and out:find "states 1 and 2 are closer than 1.0e%-09 hartree: one level"
        and not out:find "states 2 and 3", "ci: what is one level follows residuals and energies", out)
    os.remove(at "twofold.fcidump")
    status, out, err = run "ci dimer.fcidump --space full -v"
    ok(status == 0 and err:find "irrep 1: %d+ products, %-?%d", "ci -v tells each step, terminal or not", err)
    spill(at "cimodel.lua",
        'return { command = "ci", fcidump = "dimer.fcidump", space = "full", model = "x" }\n')
    spill(at "ci.lua", 'return { command = "ci", fcidump = "dimer.fcidump", space = "full" }\n')
    status, out, err = run "run ci.lua --roots 2 --json"
    doc = json(out)
    ok(status == 0 and doc and #doc.states == 2 and near(doc.states[1].energy, exact, 1e-10),
        "ci: a job file", out, err)
    status, out, err = run "run cimodel.lua"
    ok(status == 2 and err:find "ci has no model", "ci: a job refuses model", err)
    status, out, err = run "run ci.lua --m 5"
    ok(status == 2 and err:find("--m", 1, true), "ci: a job takes no option of dmrg", err)
end

-- ---- one line for each mistake, exit 2, and nothing written ----

do -- names of our own making
    local status, out,
        err = shell("for D in 0.5 1 1.5; do $K dmrg heisenberg --sites 12 --charge Sz=0 -p Delta=$D --json >$D.json & done; wait")
    local seen, n = {}, 0
    for _, D in ipairs { 0.5, 1, 1.5 } do
        local doc = json(slurp(at(D .. ".json")) or "")
        local kept = doc and json(select(2, run("show " .. doc.output .. " --json")) or "")
        if kept and not seen[doc.output] and kept.parameters.Delta == D and kept.energy == doc.energy then
            n = n + 1 end
        if doc then seen[doc.output] = true end
    end
    ok(n == 3, "three runs at once without --output leave three files", files(), err)
    shell "rm -f heisenberg-chain12*.h5 0.5.json 1.json 1.5.json"
    local before = files()
    status, out, err = shell(quote(absolute(arg[2])) .. " 0.2 INT,INT $K dmrg heisenberg --sites 100 --charge Sz=0 " ..
            "--m 2000 --accuracy 1e-12 --checkpoint-every 1000")
    local after = files() -- as before, or with a checkpoint that is whole
    ok(status >= 130 and not after:find "partial" and (after == before
        or run "show heisenberg-chain100-Sz=0.h5" == 0), "an interrupted run leaves no empty file", status,
        err, after)
    shell "rm -f heisenberg-chain100*"
    refused("dmrg heisenberg --sites 12 --charge Sz=0 --save-records /no/such/folder/x", "cannot be written")
    status, out,
        err = shell "for k in 1 2; do $K dmrg heisenberg --sites 14 --charge Sz=0 --sweep-parameter Delta=1,2; done"
    ok(status == 0 and files():find("heisenberg-chain14-Sz=0-2.Delta=1.h5", 1, true),
        "a second sweep of a parameter leaves the first one's files", files(), err)
    shell "rm -f heisenberg-chain14-*"
    status, out,
        err = shell "for k in 1 2 3 4; do $K dmrg heisenberg --sites 12 --charge Sz=0 -p Delta=0.$k -o same.h5 >same.$k & done; wait; $K show same.h5"
    ok(status == 0 and not files():find "partial",
        "several runs that write the same --output leave a whole file", out, err, files())
    shell "rm -f same.*"
end

do -- what is read is not replaced, and two outputs are two files
    spill(at "mol.fcidump", slurp(at "dimer.fcidump"))
    spill(at "mym.lua",
        "site(spin(1/2))\nconserve \"Sz\"\nparameters { J = 1, h = { 0, per = \"site\" } }\n"
            .. "bond(\"nn\", J * Sz(i)*Sz(j))\nonsite(h * Sz(i))\n")
    spill(at "fields.txt", "1 2 3 4 5 6\n")
    spill(at "self.lua",
        'return { model = "heisenberg", sites = 6, charge = { Sz = 0 }, output = "self.lua" }\n')
    shell "ln -s mol.fcidump link.fcidump; ln mol.fcidump hard.fcidump; mkdir sub"
    local ci = "ci mol.fcidump --space full --store matrix "
    for _, case in ipairs {
        { ci .. "--output mol.fcidump",
            "--output mol.fcidump: would replace the FCIDUMP file that is read, mol.fcidump" },
        { ci .. "--output ./sub/../mol.fcidump", "FCIDUMP" },
        { ci .. "--matrix link.fcidump", "--matrix link.fcidump: would replace the FCIDUMP" },
        { ci .. "--arrays hard.fcidump", "--arrays hard.fcidump: would replace the FCIDUMP" },
        { ci .. "--matrix same --arrays ./same", "--matrix same writes the same file" },
        { ci .. "--output a1.h5 --arrays a1.h5", "--output a1.h5 writes the same file" },
        { ci .. "--matrix same --arrays same-2", "writes the same file, same-2" },
        { "ed ./mym.lua --sites 6 --charge Sz=0 --output mym.lua", "the model file" },
        { "ed heisenberg --lattice ring.lua --charge Sz=0 --output ring.lua", "the lattice file" },
        { "dmrg ./mym.lua --sites 6 --charge Sz=0 -p h=@fields.txt --output fields.txt",
            "the file of a --parameter" },
        { "dmrg heisenberg --sites 6 --charge Sz=0 --output d1.h5 --save-records d1.h5",
            "--output d1.h5 writes the same file" },
        { "dmrg heisenberg --sites 10 --charge Sz=0 --start a.h5 --output none --save-records a.h5",
            "the --start file" },
        { "dmrg heisenberg --sites 10 --charge Sz=0 --measure 'overlap(a.h5)' --output a.h5",
            "the file of --measure overlap" },
        { "run self.lua", "the job file" },
    } do refused(case[1], case[2]) end
    shell "rm -rf mol.fcidump link.fcidump hard.fcidump mym.lua fields.txt self.lua sub"
end

do
    local status, out = run "dmrg heisenberg --sites 4 --charge Sz=2 -p J=0 --output none"
    ok(status == 0 and out:find "energy +%-?0%.0" and not out:find "relative",
        "no relative error of an energy that is 0", out)
    status, out = run "ed heisenberg --sites 4 --charge scan --states 2 --output none"
    ok(status == 0, "a scan takes what small sectors have", out)
end

for _, case in ipairs {
    { "ed heisenberg --sites 4 --charge Sz=2 --states 2 --output none",
        "--states: 2 states are asked for, but the sector Sz=2 has only 1" },
    -- what was begun for the spectrum is given back
    { "ed blbq --sites 3 -p J=1e308 --charge scan --output none", "must be finite" },
    { "KRONLAT_ISA=foo $K dmrg heisenberg --sites 4 --charge Sz=0 --output none",
        "KRONLAT_ISA=foo: no such instruction set; allowed: ", raw = true }, -- those of this machine
    { "KRONLAT_ISA=foo $K bench gemm", "KRONLAT_ISA=foo", raw = true },
    { "echo 'site(spin(1/2))' >o.lua; $K dmrg ./o.lua --sites 4; s=$?; rm o.lua; (exit $s)",
        "./o.lua:1: line 1 must be a comment with the Hamiltonian", raw = true },
    { "dmrg heisenberg --sites 4 -p Delta=0:1:0.5",
        "Delta=0.5 or Delta=1/2; several values in turn are for --sweep-parameter" },
    { "dmgr", "did you mean `dmrg'" },
    { "help dmgr", "did you mean `dmrg'" },
    { "dmrg", "MODEL is missing" },
    { "dmrg hubard --sites 4", "did you mean hubbard" },
    { "dmrg ./no/such.lua --sites 4", "no/such.lua" },
    { "dmrg heisenberg --charge Sz=0", "--sites or --lattice is missing" },
    { "dmrg heisenberg --sites 4", "Sz: -2 to 2" },
    { "dmrg hubbard --sites 4", "--charge N_up=2 --charge N_dn=2" },
    { "dmrg hubbard --sites 4 --charge N_up=2", "N_dn" },
    { "dmrg heisenberg --sites 5 --charge Sz=0", "-5/2 to 5/2 in steps of 1" },
    { "dmrg heisenberg --sites 4 --charge Sz=3", "allowed: Sz: -2 to 2" },
    { "dmrg heisenberg --sites 4 --charge Sz=1/2", "cannot be had" },
    { "dmrg heisenberg --sites 4 --charge Sz=1/3", "Sz=1/3" },
    { "dmrg heisenberg --sites 4 --charge N=1", "'N'" },
    { "dmrg hubbard --sites 4 --charge N_up=-1 --charge N_dn=0", "N_up: 0 to 4" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 -p K=1", "allowed: J Delta h S" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 -p J=x", "J=" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 -p J=1,2", "J=" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 -p J=nan", "J=" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 -p h=1,2", "h" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 -p h=@nofile", "nofile" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 -p 'h=uniform(1)'", "uniform" },
    { "dmrg heisenberg --lattice hexagon:3x3 --charge Sz=0", "hexagon" },
    { "dmrg heisenberg --lattice square:3x0 --charge Sz=0", "square:3x0" },
    { "dmrg heisenberg --lattice chain:6 --sites 8 --charge Sz=0", "chain:6" },
    { "dmrg heisenberg --lattice nofile.lua --charge Sz=0", "nofile.lua" },
    { "dmrg heisenberg --sites 1 --charge Sz=1/2", "at least 2" },
    { "dmrg heisenberg --sites 4 --order 0,1,2 --charge Sz=0", "3 sites are listed" },
    { "dmrg heisenberg --sites 4 --order 0,1,2,2 --charge Sz=0", "twice" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 --start product:up,sideways", "allowed: up dn" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 --start product:up", "Sz=2, but the run is for Sz=0" },
    { "dmrg heisenberg --sites 4 --charge Sz=1 --start neel", "taking turns" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 --start nofile.h5", "nofile.h5" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 --pin Sz@4=1", "site '4'" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 --pin Q@0=1", "no operator 'Q'" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 --pin Sp@0=1", "Sz" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 --pin Sz@0=x", "'x' is not a number" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 --sweep-parameter K=0:1:1", "\"K\"" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 --sweep-parameter seed=1.5,2", "seed=1.5 is no seed" },
    { "dmrg heisenberg --sites 40000 --charge Sz=0", "at most 32767" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 --output /no/such/folder/x.h5", "/no/such/folder" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 --output /dev/full", "ordinary" },
    { "dmrg heisenberg --sites 4 --charge scan --start a.h5", "scan" },
    { "dmrg --resume nofile.h5", "nofile.h5" },
    { "dmrg --resume a.h5", "has finished" },
    { "dmrg --resume scan.h5", "has finished" },
    { "dmrg heisenberg --sites 8 --charge Sz=0 --start a.h5", "10 sites" },
    { "dmrg heisenberg --sites 10 --charge Sz=1 --start a.h5", "Sz=0, not Sz=1" },
    { "dmrg heisenberg --sites 10 -p S=1 --charge Sz=0 --start a.h5", "heisenberg(S=1/2)" },
    { "dmrg hubbard --sites 10 --charge N_up=5 --charge N_dn=5 --start a.h5", "heisenberg" },
    { "dmrg heisenberg --sites 10 --order 1,0,2,3,4,5,6,7,8,9 --charge Sz=0 --start a.h5", "order" },
    { "KRONLAT_CUDA=/no/such.so $K dmrg heisenberg --sites 4 --charge Sz=0 --exec cuda",
        "--exec cuda: /no/such.so", raw = true },
    { "dmrg heisenberg --sites 4 --charge Sz=0 --hybrid auto", "no device to share with" },
    { "dmrg heisenberg --sites 4 --charge Sz=0 --projection concat", "with --exec cuda" },
    { "plan heisenberg --sites 4 --charge scan --method ed", "one sector" },
    { "plan heisenberg --sites 4 --charge scan --ranks 2", "--ranks is for one sector" },
    { "dmrg hubbard --sites 5 --charge S=0", "for example --charge N=5 --charge S=1/2" },
    { "growth heisenberg --sites 7 --charge Sz=1/2", "even number" },
    { "growth heisenberg --charge Sz=0", "even number" },
    { "models nomodel", "nomodel" },
    { "show nofile.h5", "nofile.h5" },
    { "show job.lua", "no result file" },
    { "show .", "ordinary" },
    { "plot job.lua", "no result file" },
    { "plot a.h5 --output /no/such/folder/x.svg", "/no/such/folder" },
    { "tune --output /no/such/folder/table", "/no/such/folder" },
    { "bench compare --only everything", "'everything' is in the name of no operation" },
    { "measure dimer.h5 --measure Sz", "holds 'ci'" },
    { "dmrg --resume arrays.h5", "holds 'matrix'" },
    { "ci --resume a.h5", "no result of `kronlat ci'" },
    { "ci dimer.fcidump --space full --store matrix --matrix .", "ordinary" },
    { "ci dimer.fcidump --space full --store matrix --matrix nodir/x", "--matrix: nodir/x" },
    { "ci dimer.fcidump --space full --store matrix --arrays nodir/x", "--arrays: nodir/x" },
    { "tune --only copy --output .", "ordinary" },
    { "bench dmrg --resume a.h5", "bench dmrg: --resume belongs to `kronlat dmrg'" },
    { "bench dmrg --accuracy 1e-5", "MODEL is missing" },
    { "bench hx --threads 1", "MODEL is missing" },
    { "bench run heisenberg --sites 4 --charge Sz=0 --rounds 0", "rounds" },
    { "bench run heisenberg --sites 4 --charge Sz=0 --beside /nowhere/kronlat", "'/nowhere/kronlat' cannot be started" },
    { "bench dmrg heisenberg --sites 4 --charge scan", "one sector" },
    { "bench ed heisenberg --sites 4 --charge scan", "one sector" },
    { "ci dimer.fcidump --space cas:5,2", "5 electrons in 2 orbitals; allowed: 0 to 4" },
    { "ci dimer.fcidump --space level:63", "allowed: 0 to 62" },
    { "ci dimer.fcidump --frozen 3", "--frozen" },
    { "ci dimer.fcidump --ms2 1", "in steps of 2" },
    { "ci dimer.fcidump --reference 2", "the file has 2" },
    { "ci a.h5", "holds a result and no integrals; allowed here: an FCIDUMP file, which begins with &FCI" },
    { "ci .", "cannot be read: Is a directory" },
    { "run nofile.lua", "nofile.lua" },
    { "run a.h5", "a.h5" },
    { "ed heisenberg --sites 8 --charge Sz=5", "Sz" },
    { "ed heisenberg --lattice torus:6x6 --charge Sz=0", "no symmetry of the lattice is used" },
    { "ed heisenberg --sites 8 --charge Sz=0 --solver arnoldi", "davidson lanczos lobpcg full" },
    { "ed heisenberg --sites 20 --charge Sz=0 --solver full", "at most 10000" },
    { "ed heisenberg --sites 8 --charge Sz=0 --measure Sp", "changes the charge" },
    { "ed heisenberg --sites 8 --charge Sz=0 --measure Sq", "did you mean" },
    { "ed heisenberg --sites 8 --charge Sz=0 --spectral Sz", "OPERATOR@SITE" },
    { "ed heisenberg --sites 8 --charge Sz=0 --spectral Sz@8", "sites 0 to 7" },
    { "ed heisenberg --sites 8 --charge Sz=0 --spectral Sz@q=1", "not periodic" },
    { "ed heisenberg --sites 8 --charge Sz=0 --spectral '(Sp+Sm)/2@0'", "more ways than one" },
    { "ed heisenberg --sites 8 --charge Sz=0 --temperatures 0:1:0.5", "above 0" },
    { "ed heisenberg --sites 8 --charge Sz=0 --temperatures 1:2", "FROM:TO:STEP" },
    { "plan heisenberg --sites 8 --charge Sz=0 --temperatures 1", "belongs to `kronlat ed'" },
    { "ed heisenberg --sites 8 --charge Sz=0 --temperatures 1 --spectral Sz@0", "exclude each other" },
    { "ed heisenberg --sites 8 --charge Sz=0 --temperatures 1 --accuracy 1e-5", "exclude each other" },
    { "ed heisenberg --sites 8 --charge Sz=0 --temperatures 1 --max-products 10", "exclude each other" },
    { "ed heisenberg --sites 8 --charge Sz=0 --temperatures 1 --basis 10", "exclude each other" },
    { "ed heisenberg --sites 16 --charge Sz=0 --store matrix --memory 0.00001", "--memory" },
    { "ed --resume a.h5", "not of exact diagonalization" },
    { "ed --resume e.h5", "has finished" },
    { "dmrg --resume e.h5", "kronlat ed --resume" },
    { "dmrg heisenberg --sites 8 --charge Sz=0 --spectral Sz@0", "--spectral belongs to `kronlat ed'" },
    { "ed heisenberg --sites 8 --charge Sz=0 -o /no/such/folder/x.h5", "/no/such/folder" },
    { "ed heisenberg --sites 8 --charge Sz=0 --measure Sp", "changes the charge Sz by 1," },
    { "ed heisenberg --sites 8 --charge Sz=0 --spectral Sz@4294967297", "no site and no momentum" },
    { "ed heisenberg --lattice ring:8 --charge Sz=0 --spectral Sz@q=4294967296", "no momentum" },
    { "ed heisenberg --lattice ring:8 --charge Sz=0 --spectral Sz@q=pi", "2 pi M / 8, so that @q=4 is pi" },
    { "ed hubbard --sites 8 --charge N_up=4,N_up=3", "given twice, as 'N_up=4' and as 'N_up=3'" },
    { "ed heisenberg --sites 8 --charge Sz=0 --measure entanglement", "it has Sz, Sp, Sm; allowed: an op" },
    { "ed heisenberg --sites 8 --charge Sz=0 --pin Sp@0=1", "changes the conserved Sz by 1;" },
    { "dmrg heisenberg --sites 8 --charge Sz=0 -p J=2 --sweep-parameter J=1,2", "not both" },
    { "growth heisenberg --sites 8 --charge Sz=0 -p h=1,2,3,4,5,6,7,8", "one value for all of them" },
    { "ed heisenberg --sites 8 --charge Sz=0 --measure 'corr(Sp,Sp)'", "by 2," },
    { "ed heisenberg --sites 8 --charge Sz=0 --measure 'foo(Sz)'", "no such measurement; allowed:" },
    { "ed heisenberg --sites 8 --charge Sz=0 --measure '" .. ("Sz+"):rep(140) .. "Sz'", "too long" },
    { "ed heisenberg --sites 8 --charge Sz=0 --measure 'corr(Sz," .. ("Sz+"):rep(130) .. "Sz)'", "too long" },
    { "ed heisenberg --sites 8 --charge Sz=0 --spectral '" .. ("Sz+"):rep(50) .. "Sz@0'", "too long" },
    { "ed heisenberg --sites 16 --charge Sz=0 --solver full", "12870 states; at most 10000" },
    { "plan --method ed heisenberg --sites 16 --charge Sz=0 --solver full", "12870 states; at most 10000" },
    { "dmrg heisenberg --sites 8 --charge Sz=0 --measure 'overlap(e.h5)'", "holds no state" },
    { "dmrg heisenberg --sites 8 --charge scan --measure Sz -o none", "give --output" },
} do refused(case[1], case[2], case.raw) end

do
    local whole = slurp(at "a.h5")
    spill(at "cut.h5", whole:sub(1, #whole // 2))
    refused("show cut.h5", "cut short")
    refused("dmrg heisenberg --sites 10 --charge Sz=0 --start cut.h5", "cut short")
    spill(at "cut.h5", whole:sub(1, -100) .. "?" .. whole:sub(-98))
    refused("dmrg --resume cut.h5", "checksum")
    -- in the checksum block, in its empty part, in HDF5's own first bytes
    for _, place in ipairs { 40, 300, 510, 513, 600, 2000 } do
        spill(at "cut.h5", whole:sub(1, place - 1) .. string.char(whole:byte(place) ~ 4)
            .. whole:sub(place + 1))
        refused("show cut.h5", "cut.h5: ")
        refused("ci --resume cut.h5", "cut.h5: ")
    end
    spill(at "cut.h5", "")
    refused("show cut.h5", "is empty, no result file")
    os.remove(at "cut.h5")
    local status, _, err = shell "$K show a.h5 >/dev/full"
    ok(status == 2 and err:find "stdout", "a report into a full disk", err)
    status, _, err = shell "ulimit -f 4; $K dmrg heisenberg --sites 10 --charge Sz=0 -o a.h5"
    ok(status == 2 and err:find "a.h5: cannot be written" and slurp(at "a.h5") == whole
        and not files():find "partial", "a full disk leaves the old file", err, files())
end

do -- links: no temporary name writes what they point at, and an output of that name replaces it
    spill(at "victim", "precious")
    shell "ln -s victim x.h5.partial; ln victim y.h5.partial; ln -s victim z.svg.partial; mkdir far; ln -s far/x.h5 x.h5"
    local ed = "ed heisenberg --sites 4 --charge Sz=0 -o "
    local status, out, err = shell("$K " .. ed .. "x.h5 && $K " .. ed
        .. "y.h5 && test -h x.h5 -a -h x.h5.partial")
    ok(status == 0 and slurp(at "victim") == "precious" and run "show far/x.h5" == 0 and run "show x.h5" == 0
        and run "show y.h5" == 0, "links in the way of an output", out, err)
    if shell "ln -s victim bait.h5 && chown -h 12345 bait.h5" == 0 then
        refused(ed .. "bait.h5", "bait.h5: is a link of user 12345")
        ok(slurp(at "victim") == "precious", "a link of another user is not followed")
    else
        skip("a link of another user", "only root can make one")
    end
    shell "rm -rf victim x.h5* y.h5* z.svg* far bait.h5; mkdir -m 777 common"
    status, out,
        err = shell "chmod 777 common; KRONLAT_CACHE=$PWD/common/cache $K tune --quick --threads 1 --only copy"
    ok(status == 2 and err:find "all users can write 'common'" and select(2, err:gsub("\n",
        "")) == 1 and not slurp(at "common/cache"), "a tune table where all can write", err)
    shell "rm -r common"
end

do -- file systems of the tests' own, where a namespace of one's own may mount them
    local mounted = shell "mkdir disk && unshare -rm mount -t tmpfs -o size=64k tmpfs disk" == 0
    local function on(options, line)
        return shell(("unshare -rm sh -c 'mount -t tmpfs -o mode=700,%s tmpfs disk && %s; s=$?; ls disk >&2; exit $s'"):format(options, line))
    end
    if mounted then
        local status, out, err = on("size=64k",
            "$K dmrg heisenberg --sites 24 --charge Sz=0 -o disk/x.h5 >/dev/null")
        ok(status == 2 and err:find "disk/x.h5: cannot be written" and err:find "No space left"
            and not err:find "partial", "a disk that is full", status, err, out)
        status, out, err = on("size=64k",
            "dd if=/dev/zero of=disk/fill bs=1k count=64 2>/dev/null; $K dmrg heisenberg --sites 12 --charge Sz=0 -o disk/x.h5 >/dev/null")
        ok(status == 2 and err:find "disk/x.h5: cannot be written" and err:find "No space left"
            and not err:find "HDF5", "a disk without one byte left", status, err, out)
    else
        skip("a disk that is full", "no mounts in a namespace of one's own here")
    end
    os.execute("rmdir " .. quote(at "disk"))
end

kit.finish()
