-- The work of H by pairs of patches in a plan, and the pictures of plans and growth.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/cli/pictures.lua KRONLAT; prints TAP, exits 1 on a failure.

local kit = dofile((arg[0]:match "^(.*/)" or "./") .. "kit.lua")
local ok, at, run, shell, json = kit.ok, kit.at, kit.run, kit.shell, kit.json

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
kit.finish()
