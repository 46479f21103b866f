-- What a physicist does in a day, from outside: lattices, correlators, scans, figures.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 physics.lua PROGRAM; prints TAP.
local HERE = arg[0]:match "^(.*/)" or ""
local kit = dofile(HERE .. "kit.lua")
local ok, run, json = kit.ok, kit.run, kit.json
local function near(a, b, tolerance) return a and math.abs(a - b) <= tolerance end
local function document(line)
    local status, out, err = run(line .. " --json")
    return status == 0 and json(out) or {}, err
end

-- Energies by another program: sites and bonds laid out by hand, scipy's eigsh on bit strings.
for spec, energy in pairs {
    ["kagome:torus:2x2"] = -5.444875216971856, ["honeycomb:torus:3x2"] = -6.930861488284974,
    ["triangular:torus:2,2x-2,4"] = -7.323961625254633, ["lieb:torus:2x2"] = -5.824230611204891,
    ["torus:3,1x-1,3"] = -7.3000680720578615,
} do
    local doc, err = document("ed heisenberg --charge Sz=0 --lattice " .. spec)
    ok(near(doc.energy, energy, 1e-9), "Heisenberg on " .. spec, doc.energy, err)
end
do
    local exact = document "ed heisenberg --charge Sz=0 --lattice kagome:YC4x3"
    local doc, err =
        document "dmrg heisenberg --charge Sz=0 --lattice kagome:YC4x3 --accuracy 1e-9 --output k.h5"
    ok(near(doc.energy, exact.energy, 1e-7) and doc.error_estimate < 1e-7,
        "a kagome cylinder by dmrg and ed", doc.energy, exact.energy, err)
    local lattice = document "lattice kagome:YC4x3"
    local nn = 0
    for _, bond in ipairs(lattice.bonds or {}) do
        for _, class in ipairs(bond.classes) do nn = nn + (class == "nn" and 1 or 0) end
    end
    ok(#lattice.sites == 18 and nn == 32 and lattice.sites[2].class == "B", "its sites, bonds and classes",
        nn)
end
for line, words in pairs {
    ["lattice kagome:YC5x4"] = "multiples of 2, not 5",
    ["lattice kagome:YC4x4 -o k.svg"] = "no effect without",
    ["lattice"] = "SPEC|FILE.lua is missing",
    ["dmrg heisenberg --lattice kagom:2x2 --charge Sz=0"] = "did you mean kagome",
} do
    local status, _, err = run(line)
    ok(status == 2 and err:find(words, 1, true) and not err:find "\n.", "refused: " .. line, err)
end
kit.finish()
