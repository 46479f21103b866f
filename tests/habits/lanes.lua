-- Regions that any target runs know nothing of 32 lanes that step together: warps, their numbers and what
-- they pass each other stand behind KL_OFFLOAD_BARE or __NVPTX__, which images for NVIDIA's GPUs alone
-- have. AMD's wavefronts have 32 or 64 lanes, host devices none. Constants (NAME = ...) may be made of 32;
-- what is computed in a region may not. It reads text: what a region does with a constant is for the
-- reviewer.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/habits/lanes.lua [ROOT]; prints TAP, exits 1 on a failure.

local here = arg[0]:match "^(.*/)" or "./"
local ctext, tap = dofile(here .. "ctext.lua"), dofile(here .. "tap.lua")
local root = arg[1] or "."

-- Whether a condition holds for NVIDIA's images only.
local function nvidia(condition)
    return (condition:find "KL_OFFLOAD_BARE" or condition:find "__NVPTX__") and not condition:find "||"
        and not condition:find "!%s*defined"
end

local words = { "[%%/]%s*32%f[^%w]", "%f[%w]32%s*%*%s*%a", "shfl", "__nvvm",
    "%f[%w]lane%f[%W]", "%f[%w]warp%f[%W]" }

-- Lines of C, without comments and strings, that count on 32 lanes where another target comes by.
local function faults_of(text)
    local faults, stack, number = {}, {}, 0
    for line in (ctext.strip(text) .. "\n"):gmatch "(.-)\n" do
        number = number + 1
        local word, rest = line:match "^%s*#%s*(%a+)%s*(.*)"
        if word == "if" or word == "ifdef" then stack[#stack + 1] = nvidia(rest) and true or false
        elseif word == "ifndef" then stack[#stack + 1] = false
        elseif word == "elif" then stack[#stack] = nvidia(rest) and true or false
        elseif word == "else" then stack[#stack] = false
        elseif word == "endif" then stack[#stack] = nil
        end
        local bare = false
        for _, inside in ipairs(stack) do bare = bare or inside end
        local constant = line:match "^%s*[%u_]+%s*=[^=]"
        for _, pattern in ipairs((bare or constant or word) and {} or words) do
            if line:find(pattern) then
                faults[#faults + 1] = ("line %d: %s"):format(number, line:match "^%s*(.-)%s*$")
                break
            end
        end
    end
    return faults
end

-- The test of the test.
local sample = "#if KL_OFFLOAD_BARE\nint a = t % 32;\n#else\nint b = t % 32;\n#endif\n"
    .. "WARPS = N / 32,\nx = y / 320;\n"
tap.report("what counts on lanes is seen", table.concat(faults_of(sample), ";") == "line 4: int b = t % 32;"
    and {} or { table.concat(faults_of(sample), ";") })

local list = assert(io.popen("ls " .. root .. "/offload/*.c " .. root .. "/offload/*.h"))
for path in list:lines() do
    local file = assert(io.open(path))
    tap.report(path, faults_of(file:read "a"))
    file:close()
end
list:close()
tap.finish(20)
