-- Kagome lattice of 2 x 2 cells of three sites, closed in both directions: twelve sites, four neighbours
-- each.
-- Use: --lattice examples/kagome.lua
local L, W = 2, 2
local sites, bonds = {}, {}
local function number(x, y, s) return 3 * ((x % L) * W + y % W) + s end
for x = 0, L - 1 do
    for y = 0, W - 1 do
        for s = 0, 2 do -- the corners of a triangle that points up
            local dx, dy = ({ 0, 1, 0.5 })[s + 1], ({ 0, 0, 0.866025404 })[s + 1]
            sites[#sites + 1] = { x = 2 * x + y + dx, y = 1.732050808 * y + dy }
        end
        local a, b, c = number(x, y, 0), number(x, y, 1), number(x, y, 2)
        for _, bond in ipairs { { a, b }, { b, c }, { c, a }, -- and the triangle that points down
            { b, number(x + 1, y, 0) }, { c, number(x, y + 1, 0) }, { b, number(x + 1, y - 1, 2) } } do
            bonds[#bonds + 1] = { bond[1], bond[2], r = 1 }
        end
    end
end
return { sites = sites, bonds = bonds }
