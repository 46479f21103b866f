-- Every public function of src/ is documented: in its header, by a comment in its paragraph; where a header
-- has at most two, or its first comment names it, by that; or in docs/glossary.md. What destroys, clears,
-- releases and frees says so by its name. Texts of kernels (src/device/ptx.h, src/device/*_device.h) are left
-- out: their functions are instructions and steps of the kernels that stand below them.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/habits/names.lua [ROOT]; prints TAP, exits 1 on a failure.
local root = arg[1] or "."
local here = arg[0]:match "^(.*/)" or "./"
local tap, ctext = dofile(here .. "tap.lua"), dofile(here .. "ctext.lua")

local function read(path)
    local file = assert(io.open(path, "rb"))
    local text = file:read "a"
    file:close()
    return text
end
local glossary = read(root .. "/docs/glossary.md")

-- Names declared or defined at the beginning of a line; bodies have been taken out.
local function functions_of(code)
    local names = {}
    for name in ("\n" .. code):gmatch "\n[%a_][^\n;={}#]-%f[%w_](kl_[%w_]+)%s*%(" do
        names[#names + 1] = name
    end
    return names
end

local endings = { "_destroy$", "_clear$", "_release$", "_free$" }
local function told_by_name(name)
    for _, ending in ipairs(endings) do
        if name:find(ending) then return true end
    end
end

local pipe = assert(io.popen(("cd '%s' && ls src/*/*.h"):format(root)))
for path in pipe:lines() do
    if path ~= "src/device/ptx.h" and not path:find "_device%.h$" then
        local text = read(root .. "/" .. path):gsub("\n{\n.-\n}", "\n;")
        local first = text:match "^/%*(.-)%*/" or ""
        local faults = {}
        for paragraph in (text .. "\n\n"):gmatch "(.-)\n\n+" do
            for _, name in ipairs(paragraph:find("/*", 1, true) and {} or functions_of(paragraph)) do
                local entry = name:gsub("^kl_host_", "")
                local named = first:find(entry, 1, true) or glossary:find(name, 1, true)
                if not named and not told_by_name(name) then
                    faults[#faults + 1] = name .. " has no comment"
                end
            end
        end
        if #functions_of(ctext.strip(text)) <= 2 and first ~= "" then faults = {} end
        tap.report(path, faults)
    end
end
pipe:close()
tap.finish(100)
