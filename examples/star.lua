-- A star: one site in the middle, named "hub", and three arms of two sites. The bonds at the hub have a
-- class of
-- their own besides nn.
-- Use: --lattice examples/star.lua
local sites, bonds = { { name = "hub", class = "impurity" } }, {}
for arm = 1, 3 do
    sites[#sites + 1] = { name = "near" .. arm }
    sites[#sites + 1] = { name = "far" .. arm }
    bonds[#bonds + 1] = { "hub", "near" .. arm, { "nn", "spoke" } }
    bonds[#bonds + 1] = { "near" .. arm, "far" .. arm }
end
return { sites = sites, bonds = bonds }
