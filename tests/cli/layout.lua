-- The layout of result files, as docs/files.md writes it down, against files that the program makes and files
-- of version 0.1.0: what a file holds is in the table, what the table names is in a file, and shapes are so.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/cli/layout.lua KRONLAT H5LIST SOURCE
local kit = dofile((arg[0]:match "^(.*/)" or "./") .. "kit.lua")
local source = kit.absolute(arg[3])
local h5list = kit.quote(kit.absolute(arg[2]))

-- The section of result files: rows of its table, and the words of the paragraphs behind it.
local text = assert(kit.slurp(source .. "/docs/files.md")):match "\n## Result files\n(.-)\n## "
local rows, prose = {}, {}
for line in text:gmatch "[^\n]+" do
    local first, second, third = line:match "^| (.-) | (.-) | (.-) ?|$"
    if first and first:find "^`/" then
        local row = { paths = {}, attributes = first:find "attributes" ~= nil, words = {}, shape = third }
        for path in first:gmatch "`(/[^`]*)`" do row.paths[#row.paths + 1] = path end
        for word in second:gmatch "`([^`]+)`" do row.words[word] = true end
        rows[#rows + 1] = row
    else
        for word in line:gmatch "`([^`]+)`" do prose[word] = true end
    end
end
kit.ok(#rows > 12, "the table of docs/files.md is read", #rows)

-- What files hold: objects, attributes with their numbers.
local function list(names)
    local status, out, err = kit.shell(h5list .. " " .. names)
    kit.ok(status == 0, "listed: " .. names, err)
    local found, number = {}, {}
    for line in out:gmatch "[^\n]+" do
        local path, value = line:match "^(/%S*@[%w_]+)%s*(%S*)$"
        if path and not path:find "@%d+$" then
            found[#found + 1] = { path = path:match "^(.*)@", attribute = path:match "@([%w_]+)$" }
            number[path] = tonumber(value)
        elseif not line:find "^file " then
            local name, kind, shape = line:match "^(/.-) (%a+) ?([%d,]*)$"
            found[#found + 1] = { path = name, kind = kind, shape = shape }
        end
    end
    return found, number
end

local used = {}
local function row_of(path)
    for _, row in ipairs(rows) do
        for _, p in ipairs(row.paths) do
            local pattern = "^" .. p:gsub("%-", "%%-"):gsub("NAME", ".+"):gsub("/%.%.%.", "/.+") .. "$"
            if path:find(pattern) then return row end
        end
    end
end
-- Whether the table, or for what is below /state the text behind it, names an entry.
local function is_told(e)
    local last = e.path:match "[^/]*$"
    if e.attribute then
        if e.attribute == "note" then return true end -- says what its array is
        local owner = e.path:gsub("/%d+$", "")
        for _, row in ipairs(rows) do
            for _, p in ipairs(row.paths) do
                if (p == e.path or p == owner) and row.words[e.attribute] then
                    used[p .. "@" .. e.attribute] = true
                    return true
                end
            end
        end
        return owner:find "^/state" and prose[e.attribute]
    end
    if row_of(e.path) then return true end
    if e.kind == "group" then -- of something that is told
        for _, row in ipairs(rows) do
            for _, p in ipairs(row.paths) do
                if p:sub(1, #e.path + 1) == e.path:gsub("/$", "") .. "/" or e.path == "/" then return true end
            end
        end
        if e.path:find "^/charges/%d+$" or e.path:find "^/measurements/" then return true end
    end
    if e.path:find "^/state/" then return prose[last] end
    local parent = row_of((e.path:gsub("/[^/]*$", "")))
    if parent and (parent.words[last] or parent.words[(last:gsub("_%d+$", "_0"))]) then
        used[parent.paths[1] .. "/" .. last] = true
        return true
    end
    return false
end

-- "nsite - 1" with the numbers of this file; nil: told in words.
local function extents(shape, number)
    local at = { nsite = number["/lattice@nsite"], nstate = number["/result@nstate"] }
    local out = {}
    for part in shape:gmatch "[^,]+" do
        local name, less = part:match "^%s*(%a+)%s*%-%s*(%d+)%s*$"
        name = name or part:match "^%s*(%a+)%s*$"
        local value = tonumber(part) or name and at[name] and at[name] - (tonumber(less) or 0)
        if not value then return nil end
        out[#out + 1] = ("%d"):format(value)
    end
    return #out > 0 and table.concat(out, ",") or nil
end

local function check(name, path)
    local found, number = list(kit.quote(path))
    local missing, wrong = {}, {}
    for _, e in ipairs(found) do
        local name_of = e.path .. (e.attribute and "@" .. e.attribute or "")
        if not is_told(e) then missing[#missing + 1] = name_of end
        local row = e.kind == "data" and row_of(e.path)
        local want = row and extents(row.shape, number)
        if want and want ~= e.shape then
            wrong[#wrong + 1] = ("%s is %s; docs/files.md says %s"):format(e.path, e.shape, want)
        end
    end
    kit.ok(#missing == 0, name .. ": docs/files.md names all that is in it", table.concat(missing, "\n"))
    kit.ok(#wrong == 0, name .. ": shapes are as docs/files.md has them", table.concat(wrong, "\n"))
end

local made = {
    { "dmrg",
        "dmrg heisenberg --sites 8 --charge Sz=0 --m 16 --states 2 --measure Sz --measure 'corr(Sz,Sz)'" },
    { "ed",
        "ed hubbard --sites 4 -p mu=1,2,3,4 --charge N_up=2 --charge N_dn=2 --states 2 --measure n_up" },
    { "spectra", "ed heisenberg --sites 6 --charge Sz=0 --spectral Sz@2" },
    { "thermodynamics",
        "ed heisenberg --sites 6 --charge scan --temperatures 0.5:1:0.5 --samples 3 --steps 10" },
}
for _, m in ipairs(made) do
    local file = kit.at(m[1]:gsub(" ", "-") .. ".h5")
    local status, _, err = kit.run(m[2] .. " --output " .. kit.quote(file))
    if kit.ok(status == 0, m[1] .. ": a run writes its file", err) then check(m[1], file) end
end
for name in ("dmrg ed spectra thermodynamics sweep checkpoint"):gmatch "%S+" do
    check("0.1.0 " .. name, source .. "/tests/data/0.1.0/" .. name .. ".h5")
end
local unused = {}
for _, row in ipairs(rows) do
    if row.attributes or row.paths[1] == "/sweeps" then
        for word in pairs(row.words) do
            local key = row.paths[1] .. (row.attributes and "@" or "/") .. word
            if not used[key] and not word:find "^%d" and word ~= "show" then unused[#unused + 1] = key end
        end
    end
end
table.sort(unused)
kit.ok(#unused == 0, "files hold all that docs/files.md names", table.concat(unused, "\n"))
kit.finish()
