-- Result files of version 0.1.0, one of each kind: show and plot read them, dmrg starts from their states, ci
-- goes on with them; measure and the other --resume answer in one line.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/cli/earlier.lua KRONLAT DATA
local kit = dofile((arg[0]:match "^(.*/)" or "./") .. "kit.lua")
local ok, run, shell, json, near, refused = kit.ok, kit.run, kit.shell, kit.json, kit.near, kit.refused
local data = kit.absolute(arg[2]) .. "/0.1.0/"
shell("cp " .. kit.quote(data) .. "*.h5 .")

-- kind, lowest energy as version 0.1.0 told it (nil: a checkpoint tells none)
local kinds = {
    { "dmrg", -3.37493259868789 }, { "ed", -1.9531453086846 }, { "ci", -7.882403410336 },
    { "sweep", -7.29622981055876 }, { "spectra", -2.4935771338879 },
    { "thermodynamics", -2.4935771338879 },
    { "checkpoint" }, { "ed-checkpoint" }, { "ci-checkpoint" },
}
for _, row in ipairs(kinds) do
    local name, energy = row[1], row[2]
    local status, out, err = run("show " .. name .. ".h5 --json")
    local doc = status == 0 and json(out)
    ok(doc and doc.finished == (energy ~= nil), name .. ": show reads it", err)
    ok(doc and doc.program == "kronlat" and doc.version == "0.1.0", name .. ": show tells who wrote it", out)
    local told = doc and (not energy or near(doc.energy, energy, 2e-10))
    ok(told, name .. ": show tells its energy", doc and doc.energy)
    status, out, err = run("show " .. name .. ".h5")
    local whole = energy and #out > 200 or not energy and out:find("--resume", 1, true)
    ok(status == 0 and whole and err == "", name .. ": show prints it", err)
    if name == "ci-checkpoint" then refused("plot " .. name .. ".h5", "an unfinished run of ci")
    else
        status, _, err = run("plot " .. name .. ".h5 --output picture.svg")
        local picture = kit.slurp(kit.at "picture.svg")
        ok(status == 0 and picture and picture:find("</svg>", 1, true), name .. ": plot draws it", err)
        os.remove(kit.at "picture.svg")
    end
end

-- The fingerprint of a model was taken from its text and the generator's: it does not say whether today's
-- tables mean the same. A state is used as a first guess, and for nothing else.
local told = "0.1.0 told models apart by their text"
for _, name in ipairs { "dmrg", "sweep" } do refused("measure " .. name .. ".h5 --measure entropy", told) end
for _, name in ipairs { "ed", "ci", "spectra", "thermodynamics" } do
    refused("measure " .. name .. ".h5 --measure entropy", name .. ".h5")
end
for _, row in ipairs { { "heisenberg --sites 8 --charge Sz=0", "dmrg", -3.37493259868789 },
    { "ising --sites 6 --charge parity=0 -p h=1.5", "sweep", nil } } do
    local task, name, energy = table.unpack(row)
    local status, out, err = run("dmrg " .. task .. " --output none --json --start " .. name .. ".h5")
    local doc = status == 0 and json(out)
    local _, plain = run("dmrg " .. task .. " --output none --json")
    local right = doc and near(doc.energy, energy or json(plain).energy, 1e-9)
    ok(right, name .. ": dmrg starts from its state", err)
end
for _, name in ipairs { "ed", "ci", "thermodynamics", "ed-checkpoint", "ci-checkpoint" } do
    refused("dmrg heisenberg --sites 8 --charge Sz=0 --output none --start " .. name .. ".h5", name .. ".h5")
end
refused("dmrg --resume checkpoint.h5", told)
refused("ed --resume ed-checkpoint.h5", told)
refused("dmrg --resume dmrg.h5", "dmrg.h5")
refused("ed --resume ed.h5", "ed.h5")
refused("ci --resume ci.h5", "has finished")
-- integrals have a fingerprint of their own
shell("cp " .. kit.quote(data) .. "../h2o-sto3g.fcidump .")
local status, out, err = run "ci --resume ci-checkpoint.h5 --json"
local doc = status == 0 and json(out)
ok(doc and near(doc.energy, -75.0125782410930, 1e-10), "ci-checkpoint: ci goes on with it", err)
kit.finish()
