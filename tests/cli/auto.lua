-- --exec auto for exact diagonalization and configuration interaction: a tune table written by hand sends
-- runs to the offload device or keeps them on the host. Skipped where the program has no such device.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/cli/auto.lua KRONLAT DATA; prints TAP, exits 1 on a failure.

local kit = dofile((arg[0]:match "^(.*/)" or "./") .. "kit.lua")
local ok, skip, at, shell = kit.ok, kit.skip, kit.at, kit.shell
local spill, json, near = kit.spill, kit.json, kit.near
local data = kit.absolute(arg[2])
local cached = "KRONLAT_CACHE=$PWD/cache $K "

local status, out = shell("$K bench auto --quick --rounds 2 " .. kit.quote(data .. "/h2o-sto3g.fcidump"))
ok(status == 0 and select(2, out:gsub("same energies PASS", "")) == 2
    and out:find "\nci h2o%-sto3g%.fcidump\n  auto [%d.]+ s %(%d+: [%d.]+ to [%d.]+%), host [%d.]+ s"
    and out:find "auto within 5 %% of the best single choice in [012] of 2 runs", "bench auto", out)
local refused, _, why = shell "$K bench auto --only nowhere"
ok(refused == 2 and why:find "%-%-only: 'nowhere' is in none of the runs", "bench auto, no such run", why)

local _, there = shell "$K explain heisenberg --sites 4 --charge Sz=0 --m 4 --threads 1 --exec offload --json"
local device = json(there)
if not device then
    skip("--exec auto for ed and ci", "this program has no offload device here")
    kit.finish()
end
local version = select(2, shell "$K --version"):match "kronlat (%S+)"

-- A device that has not even the memory for the first blocks leaves them to the host.
local _, none, note = kit.run("dmrg heisenberg --sites 16 --charge Sz=0 --exec offload --device-memory 1MB "
    .. "--threads 1 -o none --json")
local done = json(none)
ok(done and done.converged and near(done.energy, -6.9117371455749, 1e-8)
    and note:find "before the first sweep: .* %(%-%-device%-memory%); the host goes on from there",
    "a run with next to no device memory", none, note)

-- What little memory costs a sweep of DMRG: operators that come by, blocks that go out and come back.
local chain = "$K plan hubbard --sites 20 --charge N_up=10 --charge N_dn=10 --m 1000 --threads 1 --exec offload"
local _, little = shell(chain .. " --device-memory 60MB")
-- two bonds have as good as no room: images of a build with sanitizers leave them less
local bonds = tonumber(little:match("\na sweep takes about %d+%.%d+ times as long as where everything fits: "
    .. "at (%d+) of 19 bonds "))
ok(bonds and bonds >= 7 and bonds <= 9 and little:find "blocks of 5[56]%.%d MB go out and come back",
    "plan of a device with little memory", little)
_, little = shell(chain .. " --device-memory 60MB --json")
local beyond = json(little) and json(little).plans[1].beyond
ok(beyond and beyond.bonds_streamed == bonds and beyond.seconds > 0
    and beyond.seconds == json(little).plans[1].seconds_by_part["copies over the bus"],
    "the same in JSON", little)
local parts, sum = json(little).plans[1].seconds_by_part, 0
for _, seconds in pairs(parts) do sum = sum + seconds end
ok(math.abs(sum / json(little).plans[1].seconds_sweep - 1) < 1e-6 and parts["growth of blocks"] > 0
    and parts.truncation > 0, "parts of a sweep", little)
_, little = shell(chain)
ok(not little:find "times as long", "a plan without a limit", little)

-- Every product takes the host `host' seconds and the device `offload', which opens in `opening'.
local function table_of(host, offload, opening)
    local lines = { ("kronlat %s threads 1"):format(version), "offload " .. device.where, "cuda -" }
    for _, word in ipairs { "fuse", "kron", "sigma", "spmv", "bring" } do
        for _, size in ipairs { 100, 1000000 } do
            lines[#lines + 1] = ("%s %d %g %g 0"):format(word, size, host, offload)
        end
    end
    lines[#lines + 1] = ("opening offload %g"):format(opening)
    shell "mkdir -p cache"
    spill(at "cache/tune-table", table.concat(lines, "\n") .. "\n")
end

local runs = {
    { "the product form", "ed hubbard --sites 8 -p U=4 --charge N_up=4 --charge N_dn=4", -4.2358069991 },
    { "a stored matrix", "ed heisenberg --sites 12 --charge Sz=0 --store matrix", -5.1420906328 },
    { "several states", "ed heisenberg --sites 12 --charge Sz=0 --states 2", -5.1420906328 },
    { "a spectrum", "ed heisenberg --sites 12 --charge Sz=0 --spectral Sz@0", -5.1420906328 },
    { "thermodynamics", "ed heisenberg --sites 8 --charge scan --temperatures 1 --samples 2", -3.3749325987 },
    { "the matrix of ci", "ci " .. kit.quote(data .. "/h2o-sto3g.fcidump"), -75.0118731696 },
    { "full ci", "ci " .. kit.quote(data .. "/h2o-sto3g.fcidump") .. " --space full", -75.0125782411 },
}
local function where(command)
    local status, out = shell(cached .. command .. " --threads 1 --json")
    local told = json(out)
    return status == 0 and told and told.exec, told and told.energy, out
end
for _, case in ipairs {
    { "a device that is ahead", { 1, 1e-3, 1 }, "offload" },
    { "one that takes too long to open", { 1e-3, 1e-6, 1e4 }, "host" },
    { "one that is slower", { 1e-3, 1e-2, 0.1 }, "host" },
} do
    table_of(table.unpack(case[2]))
    for _, run in ipairs(runs) do
        local exec, energy, out = where(run[2])
        ok(exec == case[3] and near(energy, run[3], 1e-8), case[1] .. ": " .. run[1], out)
    end
end
table_of(1, 1e-3, 1)
local exec, _, out = where(runs[1][2] .. " --device-memory 1MB --states 6")
ok(exec == "host", "a device without the memory", out)
_, out = shell(cached .. "explain --method ed hubbard --sites 12 -p U=4 --charge N_up=6 --charge N_dn=6 "
    .. "--threads 1 --device-memory 1MB")
ok(out:find "auto: host: offload would be ahead, but has .* of the 20.7 MB that are needed",
    "and explain says so", out)
exec, _, out = where "ed heisenberg --sites 6 --charge Sz=0"
ok(exec == "host", "a sector that LAPACK solves", out)
kit.finish()
