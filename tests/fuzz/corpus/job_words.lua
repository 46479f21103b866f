local p = {}
for k, v in pairs({ U = 4, t = 1 }) do p[k] = v end
local s = ("x"):rep(3):gsub("x", "%0y"):upper()
local t = table.pack(string.find(s, "(Y)X", 1), string.match(s, "%u+"), string.format("%d %s", #s, s))
table.sort(t, function(a, b) return tostring(a) < tostring(b) end)
return { command = "ed", model = "hubbard", sites = 2 * 2, lattice = "ladder:2x2", p = p,
    charge = { "N_up=2", "N_dn=2" } }
