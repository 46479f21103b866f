-- What exact diagonalization measures is what DMRG measures, to 1e-9 where the energy is asked for to 1e-10,
-- in sectors that are solved as a whole (up to 65536 states) and in larger ones; and both refuse in the same
-- words.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/cli/alike.lua KRONLAT; prints TAP, exits 1 on a failure. Works in a folder of its own
-- below $TMPDIR or /tmp.

local kit = dofile((arg[0]:match "^(.*/)" or "./") .. "kit.lua")
local json, ok, run = kit.json, kit.ok, kit.run
local watched = os.getenv "KL_TEST_ROUNDS" -- by tools that make all longer

local function ed(line)
    local status, out, err = run("ed " .. line .. " --json")
    local doc = status == 0 and json(out)
    return doc and doc.energy, doc or (out .. err)
end

-- with little memory operators wait in files: the same bits, and fewer numbers at a time
do
    local line = ("dmrg hubbard --sites %d -p U=8 --charge N=%d --charge S=0 --schedule 60:1e-5,60 "):format(
        watched and 28 or 40, watched and 28 or 40) .. "--threads 1 -o none --json"
    local _, plain = run(line)
    local _, little = run(line .. " --host-memory 1MB --scratch .")
    local a, b = json(plain), json(little)
    ok(a and b and a.energy == b.energy, "--host-memory changes no bit", plain:sub(1, 200),
       little:sub(1, 200))
    ok(a and b and b.memory_peak_bytes.vectors < 0.95 * a.memory_peak_bytes.vectors, "and takes less",
       a and a.memory_peak_bytes, b and b.memory_peak_bytes)
    local status, _, err = run(line .. " --host-memory 1MB --scratch ./nowhere")
    ok(status ~= 0 and err:find("nowhere", 1, true), "a folder that is missing is named", err)
end

do
    for _, case in ipairs {
        { "hubbard --sites 6 -p U=3 --charge N_up=2 --charge N_dn=3", { "docc", "n_up*n_dn", "n_up-n_dn",
            "corr(cdag_up,c_up)", "connected(n,n)", "corr(Sp,Sm)", "structure(Sz,Sz)",
            "string(Sz,expipi(2*Sz),Sz)", "string(cdag_up,expipi(n),c_up)",
            "product(cdag_up@3,cdag_dn@0,c_dn@4,c_up@1)", "product(Sz@4,Sz@1;expipi(n))",
            "connected(n_up*n_dn,docc)", "populations", "product(cdag_up@i,cdag_dn@i,c_dn@j,c_up@j)",
            "product(cdag_up@3,cdag_dn@0,c_dn@j,c_up@i)", "product(cdag_up@k,c_dn@l+1,cdag_dn@k+2,c_up@i)",
            "product(cdag_up@i,c_up@j+1,Sz@2;expipi(n))" } },
        { "heisenberg --sites 5 -p S=1 --charge Sz=1 --order 3,1,2,0,4", { "string(Sz,expipi(Sz),Sz)",
            "string(Sp,expipi(Sz),Sm)", "product(Sp@4,Sz@3,Sm@2;Sz*Sz)", "corr(Sp*Sp,Sm*Sm)",
            "product(Sp@i,Sp@i+1,Sm@j,Sm@j+1)", "product((Sp+Sm)/2@i,Sz@j,(Sp+Sm)/2@k)" } },
        { "kondo --sites 4 -p J=1.3 --charge N=3 --charge Sz=1/2", { "n_up", "corr(cdag_dn,c_dn)" } },
        { "bose_hubbard --sites 6 -p U=3 --charge N=6", { "n", "corr(n,n)" } },
        { "tj --sites 8 --charge N_up=3 --charge N_dn=2", { "n_up", "corr(n_up,n_dn)" } },
        { "tj --sites 6 -p J=0.4 --charge N_up=2 --charge N_dn=2", { "n_up", "corr(cdag_dn,c_dn)",
            "corr(Sz,Sz)" } },
        { "tj --sites 8 --charge N_up=1 --charge N_dn=0 --order 7,2,1,0,3,5,6,4", { "corr(cdag_up,c_up)" } },
        { "heisenberg --sites 12 -p S=1 --charge Sz=0", { "Sz", "corr(Sz,Sz)", "corr(Sp,Sm)" } },
        { "heisenberg --sites 20 --charge Sz=3" .. (watched and "" or " --states 2"),
            { "Sz", "corr(Sz,Sz)" } },
    } do
        local words = ""
        for _, what in ipairs(case[2]) do words = words .. " --measure '" .. what .. "'" end
        local _, exact = ed(case[1] .. " --accuracy 1e-13 --measure entropy" .. words)
        local _, out = run("dmrg " .. case[1] .. " --accuracy 1e-10 --output none --json --measure entropy"
            .. words)
        local worst, count, other = 0, 0, json(out)
        local function compare(a, b)
            if type(a) ~= "table" then
                count, worst = count + 1, math.max(worst, math.abs(a - b))
            else
                for i = 1, #a do compare(a[i], b[i]) end
            end
        end
        local good = type(exact) == "table" and other
        for full, m in pairs(good and exact.measurements or {}) do
            local name = full:gsub("^state_%d+/", "")
            if name:find "^local/" or name:find "^correlation/" or name:find "^connected/"
                or name:find "^structure/" or name:find "^string/"
                or name:find "^product/" or name == "populations" then
                compare(m.value, other.measurements[full].value)
            end
        end
        local sites = case[1]:match "%-%-sites (%d+)"
        local cuts = good and other.measurements.entropy.value or {}
        local cut = exact.measurements and exact.measurements.entropy.value[1]
        local seen = false
        for i = 1, #cuts do seen = seen or math.abs(cuts[i] - cut) < 1e-6 end
        ok(good and count >= #case[2] * tonumber(sites) and worst < 1e-9 and seen,
            "ed and dmrg measure alike: " .. case[1]:match "^%S+", worst, count, cut,
            type(exact) == "string" and exact or out)
    end
end

for _, words in ipairs { "Szz", "corr(Sz)", "string(Sz,Sz)", "string(Sz,Sp,Sz)", "product(Sz)",
    "product(Sz@8)", "product(Sz@i+8)", "product(Sz@m)", "product(Sp@i,Sp@j)",
    "product(Sz@0;Sz;Sz)", "Sp", "(Sp+Sm)/2", "corr(Sp,Sp)", "product(Sp@0,Sz@1)", "foo(Sz)",
    "overlap(no.h5)" } do
    local told = {}
    for k, command in ipairs { "ed", "dmrg" } do
        local line = command .. " heisenberg --sites 6 --charge Sz=0 -o none --measure '" .. words .. "'"
        local status, out, err = run(line)
        told[k] = status .. out .. err
    end
    ok(told[1] == told[2] and told[1]:find("^2kronlat: %-%-measure '[^\n]+\n$"), "refused alike: " .. words,
        told[1], told[2])
end

for _, case in ipairs {
    { "ed heisenberg --sites 8 --charge Sz=0 --measure spectrum", "no spectrum of cuts" },
    { "dmrg heisenberg --sites 8 --charge Sz=0 --states 17", "from 1 to 16" },
    { "ed heisenberg --sites 8 --charge Sz=0 --states 71", "has only 70" },
} do kit.refused(case[1], case[2]) end

kit.finish()
