-- Keeps lines, files, functions and lists of parameters short, and one statement (but behind a case label)
-- and one constant of an enumeration a line, in src/, include/, offload/, cuda/, mpi/, gen/, templates/ and
-- tests/; lines short in python/, examples/ and the files of the build as well. Inputs of tests (golden
-- files, data, models, seeds of the fuzzers) are no part of it.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/habits/limits.lua [ROOT]; prints TAP, exits 1 on a failure.

local ctext = dofile((arg[0]:match "^(.*/)" or "./") .. "ctext.lua")

local COLUMNS, STRING = 110, 60
local FILE, TEST_FILE, FUNCTION, PARAMETERS = 700, 1000, 100, 9

-- Lists of arguments that BLAS, LAPACK and cuSOLVER have, too: readers know their order.
local known = { kl_dgemm = true, kl_dense_svd = true, tile = true, syevd = true }

local root = arg[1] or "."

local function read(path)
    local handle = assert(io.open(root .. "/" .. path, "rb"))
    local text = handle:read "a"
    handle:close()
    return text
end

local function lines_of(text)
    local lines = {}
    if text:sub(-1) ~= "\n" then text = text .. "\n" end
    for line in text:gmatch "(.-)\n" do lines[#lines + 1] = line end
    return lines
end

-- Parameters between the parentheses of "(...)": commas outside inner brackets.
local function count_parameters(list)
    local inside = list:sub(2, -2)
    if inside:match "^%s*$" or inside:match "^%s*void%s*$" then return 0 end
    local depth, n = 0, 1
    for c in inside:gmatch "[%(%)%[%]{}<>,]" do
        if c == "," then n = depth == 0 and n + 1 or n
        else depth = depth + (c:find "[%(%[{<]" and 1 or -1) end
    end
    return n
end

-- Functions of C text as { name, lines, parameters }: a body stands between braces in the first column, as
-- clang-format puts them.
local function c_functions(text)
    local lines, found, i = lines_of(ctext.strip(text)), {}, 1
    while i <= #lines do
        local stop = i
        if lines[i] == "{" then
            local first = i - 1
            while first > 1 and not lines[first]:match "^[%a_]" do first = first - 1 end
            local head = table.concat(lines, " ", first, i - 1)
            while stop <= #lines and not lines[stop]:match "^}" do stop = stop + 1 end
            local name, list = head:match "([%w_]+)%s*(%b())[^%(%)]*$"
            if name and not head:match "=%s*$" then
                found[#found + 1] = { name = name, lines = stop - i + 1, parameters = count_parameters(list) }
            end
        else
            local name, list = lines[i]:match "^[%a_].-([%w_]+)(%b())%s*{.*}%s*$"
            if name then
                found[#found + 1] = { name = name, lines = 1, parameters = count_parameters(list) }
            end
        end
        i = stop + 1
    end
    -- entries of tables: (*name)(...)
    for name, list in ctext.strip(text):gmatch "%(%*([%w_]+)%)%s*(%b())" do
        found[#found + 1] = { name = name, lines = 1, parameters = count_parameters(list) }
    end
    return found
end

-- Named functions of Lua text; a body ends at the `end` that stands under its beginning.
local function lua_functions(text)
    local lines, found = lines_of(text), {}
    for i, line in ipairs(lines) do
        local indent, name, list = line:match "^(%s*)local function ([%w_]+)%s*(%b())%s*$"
        if not name then indent, name, list = line:match "^(%s*)function ([%w_%.:]+)%s*(%b())%s*$" end
        if not name then indent, name, list = line:match "^(%s*)([%w_%.]+) = function%s*(%b())%s*$" end
        if name then
            local stop = i
            while stop <= #lines and not (lines[stop]:match "^(%s*)end" == indent) do stop = stop + 1 end
            found[#found + 1] = { name = name, lines = stop - i + 1, parameters = count_parameters(list) }
        end
    end
    return found
end

-- A line may be longer where a single string or an address makes it so: help, messages, tables of text.
local function too_long(line)
    if #line <= COLUMNS or (utf8.len(line) or #line) <= COLUMNS then return false end
    local longest = line:find "%[%[" and STRING or 0
    for _, pattern in ipairs { '"[^"]*"', "'[^']*'", "https?://%S+" } do
        for text in line:gmatch(pattern) do longest = math.max(longest, #text) end
    end
    return longest < STRING
end

-- How many statements end in a line of C without comments and strings, those in brackets left out.
local function statements(line)
    local depth, n = 0, 0
    for c in line:gmatch "[%(%)%[%];]" do
        if c == ";" then n = n + (depth <= 0 and 1 or 0)
        else depth = depth + (c:find "[%(%[]" and 1 or -1) end
    end
    return n
end

-- Lines of C that say several things: two statements, or two constants of an enumeration.
local function crowded(text)
    local faults = {}
    for n, line in ipairs(lines_of(ctext.strip(text))) do
        local label = line:match "^%s*case%f[%W]" or line:match "^%s*default%s*:"
        if not label and statements(line) > 1 then
            faults[#faults + 1] = ("line %d has two statements"):format(n)
        end
        local constants = line:match "enum[%s%w_]*{(.*)"
        if constants and select(2, constants:gsub("=", "")) > 1 then
            faults[#faults + 1] = ("line %d has two constants"):format(n)
        end
    end
    return faults
end

-- Faults of one file: its name, or that of a function or a limit -> what is wrong.
local function faults_of(path)
    local text, faults = read(path), {}
    local lines = lines_of(text)
    local most = path:find "^tests/" and TEST_FILE or FILE
    if #lines > most then faults["file"] = ("%d lines; at most %d"):format(#lines, most) end
    local count, first = 0, nil
    for n, line in ipairs(lines) do
        if too_long(line) then
            count = count + 1
            first = first or n
        end
    end
    if count > 0 then
        faults["lines"] = ("%d lines have more than %d columns, first line %d"):format(count, COLUMNS, first)
    end
    if not path:find "%.[chl]u?[ah]?$" then return faults end
    local several = path:find "%.lua$" and {} or crowded(text)
    if #several > 0 then faults["crowded"] = table.concat(several, ", ") end
    for _, f in ipairs((path:find "%.lua$" and lua_functions or c_functions)(text)) do
        if f.lines > FUNCTION then
            faults[f.name] = ("%s has %d lines; at most %d"):format(f.name, f.lines, FUNCTION)
        end
        local excused = known[f.name] and (path:find "^src/base/" or path == "cuda/solver.h")
        if f.parameters > PARAMETERS and not excused then
            faults[f.name] = ("%s has %d parameters; at most %d"):format(f.name, f.parameters, PARAMETERS)
        end
    end
    return faults
end

local function files()
    local list = "cd '%s' && find src include offload cuda mpi gen templates tests python examples "
        .. "meson.build meson_options.txt -type f | LC_ALL=C sort"
    local pipe = assert(io.popen(list:format(root)))
    local all = {}
    for path in pipe:lines() do
        local name, extension = path:match "[^/]+$", path:match "%.(%a+)$"
        local build = name == "meson.build" or name == "meson_options.txt"
        local input = path:find "^tests/golden/" or path:find "^tests/data/" or path:find "^tests/models/" or
            path:find "^tests/fuzz/corpus/" or path:find "^tests/lua/bad/"
        local known_kind = extension and (" c h cu cuh lua py "):find(" " .. extension .. " ", 1, true)
        if not input and (known_kind or build) then
            all[#all + 1] = path
        end
    end
    pipe:close()
    return all
end

local tap = dofile((arg[0]:match "^(.*/)" or "./") .. "tap.lua")
local report = tap.report
for _, path in ipairs(files()) do
    local faults = {}
    for _, what in pairs(faults_of(path)) do faults[#faults + 1] = path .. ": " .. what end
    table.sort(faults)
    tap.report(path, faults)
end
tap.finish(2)
