-- Every name of include/kronlat.h is documented there: each declaration stands below a comment, with at most
-- other declarations of the same paragraph between; the comment names every parameter that is more than a
-- handle, and gives arrays their shape; a handle and a constant have a comment, too.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/habits/header.lua [ROOT]; prints TAP, exits 1 on a failure.
local root = arg[1] or "."
local file = assert(io.open(root .. "/include/kronlat.h"))
local text = file:read "a"
file:close()

local tap = dofile((arg[0]:match "^(.*/)" or "./") .. "tap.lua")
local report = tap.report

-- Handles, what the rules at the top of the header say of all functions, and where results go.
local known = {}
for word in ("problem result op tensors progress error out self state i told asked"):gmatch "%S+" do
    known[word] = true
end

-- The parameters of a list, { name, array }: array where it is a pointer to numbers or texts.
local function parameters_of(list)
    local found, flat = {}, list:sub(2, -2):gsub("%(%*([%w_]+)%)%s*%b()", " %1")
    for piece in (flat .. ","):gmatch "([^,]*)," do
        local name = piece:match "([%w_]+)%s*$"
        local numbers = piece:find "double%s*%*" or piece:find "int%d*_?t?%s*%*"
            or piece:find "char%s*%*const%s*%*"
        if name and name ~= "void" then found[#found + 1] = { name = name, array = numbers ~= nil } end
    end
    return found
end

local function says(comment, name) return comment:find("%f[%w_]" .. name .. "%f[^%w_]") ~= nil end
-- "x[n]", "*n determinants", "*rank: ..." or "Any pointer may be NULL": how an array or a result is told.
local function tells_shape(comment, name)
    return comment:find("%f[%w_]" .. name .. "%[") or comment:find("%*" .. name .. "%f[^%w_]")
end

-- Paragraphs: lines without an empty one between; a comment holds for what follows in its paragraph.
local names = {}
for paragraph in (text .. "\n\n"):gmatch "(.-)\n%s*\n" do
    local comment, at = nil, 1
    while true do
        local from, to = paragraph:find("/%*.-%*/", at)
        local code = paragraph:sub(at, (from or 0) - 1)
        for kind, name, list in code:gmatch "([%w_ %*]-)(kronlat_[%w_]+)(%b());" do
            local faults = {}
            if not comment then faults[1] = "no comment stands above it" end
            for _, p in ipairs(comment and parameters_of(list) or {}) do
                if not known[p.name] and not says(comment, p.name) then
                    faults[#faults + 1] = "the comment does not name " .. p.name
                elseif p.array and not known[p.name] and not tells_shape(comment, p.name) then
                    faults[#faults + 1] = "the comment does not tell the shape of " .. p.name
                end
            end
            names[#names + 1] = name
            local destroys = name:find "_destroy$" and #faults == 1 and not comment
            report(name, destroys and kind:find "void" and {} or faults)
        end
        if not from then break end
        comment, at = paragraph:sub(from, to), to + 1
    end
end

-- Handles and constants of enumerations: a comment above, or of a constant behind it.
for name in text:gmatch "typedef struct [%w_]+ (kronlat_[%w_]+);" do
    local before = text:match("([^\n]*)\ntypedef struct " .. name)
    report(name, before:find "%*/%s*$" and {} or { "no comment stands above it" })
end
for body, name in text:gmatch "typedef enum kronlat_[%w_]+ (%b{}) (kronlat_[%w_]+);" do
    local faults, own = {}, 0
    for constant in body:gmatch "(KRONLAT_[%w_]+) = " do
        local line = body:match("[^\n]*%f[%w_]" .. constant .. "%f[^%w_][^\n]*")
        local above = body:match("([^\n]*)\n[^\n]*%f[%w_]" .. constant .. "%f[^%w_]") or ""
        own = own + 1
        if not line:find "/%*" and not above:find "^%s*/%*" and not above:find "%*/%s*$" then
            faults[#faults + 1] = constant .. " has no comment"
        end
    end
    if own == 0 then faults[1] = "no constant was found" end
    report(name, faults)
end
report("the names are those of tests/lib/symbols.txt", (function()
    local listed = {}
    for name in io.lines(root .. "/tests/lib/symbols.txt") do listed[name] = true end
    local faults = {}
    for _, name in ipairs(names) do
        if not listed[name] then faults[#faults + 1] = name .. " is not listed" end
        listed[name] = nil
    end
    for name in pairs(listed) do faults[#faults + 1] = name .. " was not found in the header" end
    return faults
end)())
tap.finish(2)
