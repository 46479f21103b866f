-- The k-th allocation of a command fails, those inside HDF5 counted too: it ends well, or with one line and
-- status 2, within a minute; it prints nothing of HDF5's, BLIS's or glibc's, and leaves the files as they
-- were or whole. With KL_FAIL_ON in the environment all allocations after the k-th fail as well.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/cli/memory.lua KRONLAT FAILING_MALLOC.so FCIDUMP [all|HOW MANY [JOBS]]: of each command's
-- k, a sample as it stands, by so many processes. KL_MEMORY_SECONDS: how long at most; what was tried is
-- told. Prints TAP, exits 1 on a failure.

local program, shim, fcidump = arg[1], arg[2], arg[3]
local sample = arg[4] == "all" and math.huge or tonumber(arg[4] or 16)
local njob, job = (arg[5] or "1"):match "^(%d+):?(%d*)$" -- JOBS:WHICH is one of them
njob, job = tonumber(njob), tonumber(job)

local function capture(line)
    local pipe = assert(io.popen(line))
    local text = pipe:read("a")
    pipe:close()
    return text
end
local function absolute(path) return path:sub(1, 1) == "/" and path or capture("pwd"):gsub("\n",
    "/") .. path end
program, shim, fcidump = absolute(program), absolute(shim), absolute(fcidump)
local folder = capture("mktemp -d"):gsub("\n", "")
local function at(name) return folder .. "/" .. name end
local function slurp(name)
    local f = io.open(at(name), "rb")
    local text = f and f:read("a")
    if f then f:close() end
    return text
end
local function spill(name, text)
    local f = assert(io.open(at(name), "wb"))
    f:write(text)
    f:close()
end

-- One thread: how often several ask for memory is not the same each time.
local function run(line, k)
    local given = k and ("timeout 60 env LD_PRELOAD=%s KL_FAIL_AT=%d KL_FAIL_COUNT=n"):format(shim, k) or ""
    local _, how,
        code = os.execute(("cd %s && OMP_NUM_THREADS=1 %s %s %s >out 2>err </dev/null"):format(folder, given,
        program, line))
    return how == "exit" and code or 128 + code, slurp "out", slurp "err"
end

local seconds = tonumber(os.getenv "KL_MEMORY_SECONDS")
local last = seconds and os.time() + seconds or math.huge

-- What is wrong with the outcome, nil if nothing. file: what the command writes, with the text it had before.
local function fault(case, status, out, err, before)
    local lines = select(2, err:gsub("\n", ""))
    if status == 0 then
        if err ~= "" then return "status 0 and a text" end
        if case.same and out ~= case.reference then return "another report" end
    elseif status ~= 2 or lines ~= 1 or not err:find "^kronlat: " then
        return ("status %d, %d lines"):format(status, lines)
    end
    if slurp(case.file .. ".partial") then return case.file .. ".partial is left" end
    local now = slurp(case.file)
    if status == 0 and case.whole and run("show " .. case.file) ~= 0 then return case.file
        .. " cannot be read" end
    if status ~= 0 and now ~= before and run("show " .. case.file) ~= 0 then return case.file
        .. " was spoiled" end
end

local cases = {
    { line = "show a.h5", file = "a.h5", same = true },
    { line = "plot a.h5 -o a.svg", file = "a.svg", gnuplot = true },
    { line = "measure a.h5 --measure Sz", file = "a.h5", whole = true },
    { line = "measure s.h5 --measure 'corr(Sp,Sm)' --measure 'product(Sz@0,Sz@2,Sp@0,Sm@3)' "
        .. "--measure 'product(Sp@i,Sm@1,Sz@i)'", file = "s.h5", whole = true },
    { line = "dmrg heisenberg --sites 5 --charge Sz=1/2 --schedule 3:1e-4,3 -o b.h5", file = "b.h5",
        whole = true },
    { line = "ed heisenberg --sites 4 --charge Sz=0 -o c.h5", file = "c.h5", whole = true },
    { line = "ci " .. fcidump .. " --space cisd -o d.h5", file = "d.h5", whole = true },
}

assert(run "dmrg heisenberg --sites 5 --charge Sz=1/2 --schedule 3:1e-4,3 -o a.h5" == 0, slurp "err")
assert(run "dmrg heisenberg --sites 4 --charge S=1 --schedule 3:1e-4,3 -o s.h5" == 0, slurp "err")
local have_gnuplot = os.execute "command -v gnuplot >/dev/null"

-- Every so manyth k of a command, of those of the sample.
local function try(case, which, of)
    local before = slurp(case.file)
    local status, out, err = run(case.line, 0)
    assert(status == 0, err)
    case.reference = out
    local t = { n = tonumber(slurp "n"), tried = 0, told = 0, faults = {} }
    before = before or slurp(case.file)
    local step = math.max(1, sample < t.n and t.n // math.floor(sample) or 1)
    for k = (step > 1 and 1 + t.n % step or 1) + which * step, t.n, of * step do
        if os.time() > last then break end
        if slurp(case.file) ~= before then spill(case.file, before) end
        status, out, err = run(case.line, k)
        t.tried = t.tried + 1
        local why = fault(case, status, out, err, before)
        if why then
            os.remove(at(case.file .. ".partial"))
            t.faults[#t.faults + 1] = ("# k = %d: %s: %s"):format(k, why, err:sub(1, 300):gsub("%s+", " "))
        elseif status ~= 0 then
            t.told = t.told + 1
        end
    end
    spill(case.file, before)
    return t
end

-- The same by several processes, each of which prints a line for each command.
local function try_all()
    local tally, pipes = {}, {}
    for i = 0, njob - 1 do
        pipes[i] = assert(io.popen(("lua5.4 '%s' '%s' '%s' '%s' %s %d:%d"):format(arg[0], program, shim,
            fcidump, arg[4], njob, i)))
    end
    for i = 0, njob - 1 do
        local text = pipes[i]:read "a"
        assert(pipes[i]:close(), "a process failed: " .. text)
        local t
        for line in text:gmatch "[^\n]+" do
            local number, n, tried, told = line:match "^(%d+) (%d+) (%d+) (%d+)$"
            if number then
                t = tally[tonumber(number)] or { n = n, tried = 0, told = 0, faults = {} }
                tally[tonumber(number)] = t
                t.tried, t.told = t.tried + tried, t.told + told
            else
                t.faults[#t.faults + 1] = line
            end
        end
    end
    return tally
end

local tally, bad = njob > 1 and not job and try_all() or {}, 0
for number, case in ipairs(cases) do
    local name = case.line:gsub("/[^ ]*/", "")
    local t = tally[number]
    if case.gnuplot and not have_gnuplot then
        if not job then print(("ok %d - %s # SKIP no gnuplot"):format(number, name)) end
    elseif job then
        t = try(case, job, njob)
        print(("%d %d %d %d"):format(number, t.n, t.tried, t.told))
        for _, line in ipairs(t.faults) do print(line) end
    else
        t = t or try(case, 0, 1)
        if #t.faults > 0 then bad = bad + 1 end
        print(("%s %d - %s"):format(#t.faults == 0 and "ok" or "not ok", number, name))
        print(("# %d of %d allocations failed: %d told in a line, %d bad"):format(t.tried, t.n, t.told,
            #t.faults))
        for i = 1, math.min(#t.faults, 20) do print(t.faults[i]) end
    end
end
if not job then print("1.." .. #cases) end
os.execute("rm -rf " .. folder)
os.exit(bad == 0)
