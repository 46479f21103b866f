-- A job that computes: a Heisenberg chain in a field that decays from its left end.
-- Run: kronlat run examples/field.lua
local sites, h = 20, {}
for i = 0, sites - 1 do h[#h + 1] = ("%.6f"):format(0.5 * math.exp(-i / 4)) end
return {
    model = "heisenberg",
    sites = sites,
    p = { h = table.concat(h, ",") },
    charge = { Sz = 0 },
    accuracy = 1e-8,
    measure = { "Sz" },
}
