-- The star of an Anderson impurity: a hub and seven levels of its bath, each joined to the hub alone.
-- Use: --lattice examples/bath.lua
local sites, bonds = { { name = "hub" } }, {}
for k = 1, 7 do sites[k + 1] = { name = "bath" .. k }; bonds[k] = { "hub", "bath" .. k, "spoke" } end
return { sites = sites, bonds = bonds }
