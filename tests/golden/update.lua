-- Writes the golden files again from the models; run it where their output changed on purpose, and read the
-- difference. Hashes, which change with the generator's own text, are zeros in them.
-- SPDX-License-Identifier: Apache-2.0
local here = string.match(arg[0], "^(.*/)") or "./"
for _, name in ipairs({"heisenberg", "pairing"}) do
    local path = string.format("%s%s.c", here, name)
    assert(os.execute(string.format("lua5.4 '%s../../gen/gen.lua' --model '%s../../models/%s.lua' --out '%s'",
        here, here, name, path)))
    local f = assert(io.open(path))
    local text = f:read("a")
    f:close()
    f = assert(io.open(path, "w"))
    f:write((string.gsub(text, assert(string.match(text, "inputs (%x+)%.")), string.rep("0", 16))))
    f:close()
end
