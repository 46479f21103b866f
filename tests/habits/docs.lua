-- README is short, and what it and the other documents name is there: every relative link, and every path in
-- backticks that looks like a file of this tree. So is every source that a comment names. Every picture is
-- shown by a document; every row of docs/performance/ says by which command, on which card, at which commit
-- and when it was measured.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/habits/docs.lua [ROOT]; prints TAP, exits 1 on a failure.
local root = arg[1] or "."
local MOST = 8192 -- bytes of README.md

local function read(path)
    local file = io.open(root .. "/" .. path)
    local text = file and file:read "a"
    if file then file:close() end
    return text
end

local documents = { "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "python/README.md",
    "tests/data/README.md", "tests/habits/TRAPS.md" }
local pipe = assert(io.popen(("ls -1 '%s'/docs/*.md"):format(root)))
for path in pipe:lines() do documents[#documents + 1] = "docs/" .. path:match "[^/]+$" end
pipe:close()

local tap = dofile((arg[0]:match "^(.*/)" or "./") .. "tap.lua")
local report = tap.report

-- A folder opens, too.
local function exists(path)
    local file = io.open(root .. "/" .. path)
    if file then file:close() end
    return file ~= nil
end

-- The anchors of a document's headings, as the programs that show it make them.
local function anchors_of(text)
    local anchors = {}
    for heading in ("\n" .. text):gmatch "\n#+ ([^\n]+)" do
        anchors[heading:lower():gsub("[^%w _%-]", ""):gsub(" ", "-")] = true
    end
    return anchors
end

local size = #assert(read "README.md")
report("README.md has less than 8 KB", size < MOST and {} or {
    ("README.md has %d bytes; at most %d are allowed"):format(size, MOST) })
for _, document in ipairs(documents) do
    local faults = {}
    local text, folder = assert(read(document), document), document:match "^(.*/)" or ""
    for target in text:gmatch "%]%(([^)#%s]+)[^)]*%)" do
        if not target:match "^%a+:" and not exists(folder .. target) then
            faults[#faults + 1] = document .. " links to " .. target .. ", which is not there"
        end
    end
    for target, anchor in text:gmatch "%]%(([^)#%s]*)#([^)%s]+)%)" do
        local there = target == "" and text or not target:match "^%a+:" and read(folder .. target)
        if there and not anchors_of(there)[anchor] then
            local line = "%s links to #%s of %s, which is not there"
            faults[#faults + 1] = line:format(document, anchor, target)
        end
    end
    for path in text:gmatch "`([%w_]+/[%w_/.%-]+)`" do
        local top = path:match "^(%w+)/"
        local ours = top == "src" or top == "tests" or top == "docs" or top == "scripts" or top == "gen"
            or top == "cuda" or top == "offload" or top == "models" or top == "templates"
        if ours and not path:match "NAME" and not path:match "FOLDER" and not exists(path) then
            faults[#faults + 1] = document .. " names " .. path .. ", which is not there"
        end
    end
    report(document .. " names what is there", faults)
end

local function names_in(folder)
    local list, ls = {}, assert(io.popen(("ls -1 '%s/%s'"):format(root, folder)))
    for name in ls:lines() do list[#list + 1] = name end
    ls:close()
    return list
end
for _, name in ipairs(names_in "docs/img") do
    local shown = false
    for _, document in ipairs(documents) do
        shown = shown or read(document):find("img/" .. name .. ")", 1, true) ~= nil
    end
    report("docs/img/" .. name .. " is shown", shown and {} or { "no document shows it" })
end

-- The papers, row by row: what a paper has, what is here and how one sees it, each cell with something in it.
local rows, holes = 0, {}
for line in read("docs/papers.md"):gmatch "[^\n]+" do
    if line:find "^|" and not line:find "^| %-%-%-" then
        local n = 0
        for cell in line:gsub("\\|", "/"):sub(2):gmatch "([^|]*)|" do
            n = n + 1
            if not cell:find "%w" then holes[#holes + 1] = "an empty cell: " .. line end
        end
        if n ~= 3 then holes[#holes + 1] = ("%d cells: %s"):format(n, line) end
        rows = rows + 1
    end
end
if rows < 40 then holes[#holes + 1] = ("%d rows"):format(rows) end
report("docs/papers.md has no empty cell", holes)

-- Fields of a line of CSV.
local function fields_of(line)
    local fields, rest = {}, line .. ","
    while rest ~= "" do
        local quoted, behind = rest:match '^"(.-)",(.*)$'
        local plain, after = rest:match "^([^,]*),(.*)$"
        fields[#fields + 1], rest = quoted or plain, quoted and behind or after
    end
    return fields
end
local common = "case quantity value unit command card commit date"
for _, name in ipairs(names_in "docs/performance") do
    local faults, head = {}, nil
    for line in read("docs/performance/" .. name):gmatch "[^\n]+" do
        local row, fields = {}, fields_of(line)
        if not head then
            head = fields
        else
            for k, column in ipairs(head) do row[column] = fields[k] end
            for column in ("command card commit date"):gmatch "%a+" do
                if (row[column] or "") == "" then faults[#faults + 1] = "no " .. column .. ": " .. line end
            end
            if row.value and not tonumber(row.value) then
                faults[#faults + 1] = "its value is no number: " .. line
            end
        end
    end
    if name ~= "operations.csv" and table.concat(head, " ") ~= common then -- that is of bench compare --csv
        faults[#faults + 1] = "its columns are not " .. common
    end
    report("docs/performance/" .. name .. " says where its numbers are from", faults)
end

-- Sources that comments name, by their names without folders; those of others, and examples of names.
local elsewhere = { ["h.c"] = true, ["cuda.h"] = true, ["lapack.h"] = true, ["job.lua"] = true,
    ["config.h"] = true, ["phase.h"] = true, ["registry.c"] = true, ["embedded.c"] = true }
local folders = "src include offload cuda mpi gen models templates tests examples"
local find = ("cd '%s' && find %s -type f"):format(root, folders)
local sources, tree = {}, assert(io.popen(find))
for path in tree:lines() do
    elsewhere[path:match "[^/]+$"] = true
    local kind = path:match "%.(%a+)$"
    local ours = path:find "^src/" or path:find "^offload/" or path:find "^cuda/" or path:find "^gen/"
    if ours and kind and (" c h cu cuh lua "):find(" " .. kind .. " ", 1, true) then
        sources[#sources + 1] = path
    end
end
tree:close()
local faults = {}
for _, path in ipairs(sources) do
    for comment in read(path):gmatch(path:find "%.lua$" and "%-%-[^\n]*" or "/%*.-%*/") do
        for name in comment:gmatch "%f[%w_]([%l%d_]+%.[chl]u?a?)%f[^%w_]" do
            local kind = name:match "%.(%a+)$"
            if (kind == "c" or kind == "h" or kind == "cu" or kind == "lua") and not elsewhere[name] then
                faults[#faults + 1] = ("a comment of %s names %s, which is not there"):format(path, name)
            end
        end
    end
end
if #sources == 0 then faults[1] = "no source was found" end
report("comments name sources that are there", faults)
tap.finish(0)
