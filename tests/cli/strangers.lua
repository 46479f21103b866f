-- Files of strangers through the program: models, jobs and lattices that reach out, run on or ask for
-- everything are answered by one line within
-- seconds and leave nothing behind; one signal ends every wait for a file.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/cli/strangers.lua KRONLAT FOLDER, with tests/data/hostile as the folder; prints TAP,
-- exits 1 on a failure. With $KL_TEST_ROUNDS, for tools that watch the program, one file runs into its 5 s,
-- job_hang_pattern, for it is Lua's own code that is busy then.

local function output(command)
    local p = assert(io.popen(command))
    local text = p:read("a")
    p:close()
    return (text:gsub("%s+$", ""))
end
local function quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end
local program, hostile = output("realpath " .. quote(arg[1])), output("realpath " .. quote(arg[2]))
local folder = output "mktemp -d"
local watched = os.getenv "KL_TEST_ROUNDS"
local SECONDS = 60 -- of wall time, in which a signal ends what waits
-- What a file may take of a processor, the most that the program allows being 5 s; on the wall a machine that
-- is busy with other things stretches it.
local within = "ulimit -t 60; timeout -k 5 600 $K "

local function slurp(path)
    local f = io.open(path, "rb")
    if not f then return "" end
    local text = f:read("a")
    f:close()
    return text
end
local function spill(name, text)
    local f = assert(io.open(folder .. "/" .. name, "wb"))
    f:write(text)
    f:close()
end

-- Runs a shell line in the folder with $K as the program: status, stdout and stderr together.
local function shell(line)
    local _, how,
        code = os.execute(("cd %s && export K=%s && { %s ; } >%s.out 2>&1 </dev/null"):format(quote(folder),
        quote(program), line, folder))
    return how == "exit" and code or 128 + code, slurp(folder .. ".out")
end

local ntest, nfail = 0, 0
local function ok(good, name, said)
    ntest = ntest + 1
    if not good then nfail = nfail + 1 end
    print(("%s %d - %s%s"):format(good and "ok" or "not ok", ntest, name,
        good and "" or "\n# " .. tostring(said):gsub("\n", "\n# ")))
end

local command = { job = "run %s", lattice = "ed heisenberg --lattice %s --charge Sz=0 -o none",
    model = "ed %s --sites 4 -o none --charge scan" }

-- The file is answered by one line with its name and `says`, and nothing new lies in the folder.
local function refused(kind, name, path, says)
    local before = output("ls -A " .. quote(folder))
    local status, said = shell(within .. command[kind]:format(quote(path)))
    local one_line = said:find "^kronlat: [^\n]*\n$"
    ok(status == 2 and one_line and said:find(path:match "[^/]*$", 1, true) and said:find(says, 1,
        true) and not said:find "%c[^\n]*\n$", name, ("status %d: %s"):format(status, said:sub(1, 2000)))
    local after = output("ls -A " .. quote(folder))
    if after ~= before then ok(false, name .. " leaves nothing behind", before .. "\n-> " .. after) end
end

-- ---- the files of tests/data/hostile ----

local files = {
    inject_c = { "model", "inject_c.lua:6: the coefficient r has no parts" },
    model_oob_slot = { "model", "model_oob_slot.lua:6: the coefficient i has no parts" },
    model_hang_cycle = { "model", "model_hang_cycle.lua:6: the coefficient J + N has no parts" },
    model_hang_dag = { "model", "model_hang_dag.lua:6: a coefficient has more than 4096 parts" },
    -- in the program a text is too long, in the generator's command the memory
    model_memory = { "model", "" },
    job_hang_gc = { "job", "job_hang_gc.lua:1: attempt to call a nil value (global 'setmetatable')" },
    job_hang_pattern = { "job", "job_hang_pattern.lua:3: takes more than the 5 s of processor time" },
    job_hang_rep = { "job", nil }, -- an empty text, however often
}
-- A result file with one byte of its seal changed: one line, and none of HDF5's.
do
    local path = quote(hostile .. "/../../fuzz/corpus/result_flipped.h5")
    local status, said = shell(within .. "show " .. path)
    ok(status == 2 and select(2, said:gsub("\n", "")) == 1 and said:find "damaged" and not said:find "HDF5",
        "a flipped byte in a seal", said)
end
for name in output("ls " .. quote(hostile)):gmatch "([%w_]+)%.lua" do
    local case = files[name]
    if not case then
        ok(false, name .. ".lua has no row in tests/cli/strangers.lua")
    elseif case[2] then
        refused(case[1], name, hostile .. "/" .. name .. ".lua", case[2])
    else
        local status, said = shell(("%s run %s/%s.lua"):format(within, quote(hostile), name))
        ok(status == 0, name, said)
    end
end

-- ---- their relatives ----

-- Files that run on take their 5 s of a processor: a loop of each kind here, Lua's compiler and
-- job_hang_pattern. Those that tests/unit/lua/test_luabox.c ends sooner, string.gmatch too, are many more.
local time = "takes more than the 5 s of processor time"
local jobs = {
    { "a pcall that catches the end", "while true do pcall(function() while true do end end) end", time },
    { "format", "return string.format('%9999999d', 1)", "invalid conversion" },
    { "rep", "return ('x'):rep(1e9)", "string.rep" },
    { "move", "table.move({}, 1, 1 << 60, 2)", "table.move" },
    { "concat", "local t = {} for i = 1, 400 do t[i] = ('x'):rep(1 << 20) end return table.concat(t)",
        "memory" },
    { "a table constructor", "return {" .. ("1,"):rep(1 << 20) .. "}", "has no name" },
    { "recursion", "local function f() return 1 + f() end f()", "stack overflow" },
    { "a long or", "local a return a" .. (" or a"):rep(1 << 20), time },
    { "brackets", "return " .. ("("):rep(100000), "" },
    { "tables in tables", "local t = {} for i = 1, 1e7 do t = { t } end return t", "" },
    { "a list with a hole", "local t = {} t[1 << 60] = 1 return { model = 'hubbard', p = { U = t } }",
        "outside of its list" },
    { "more parameters than anything has",
        "local p = {} for i = 1, 3e4 do p['x' .. i] = i end return { model = 'hubbard', sites = 4, p = p }",
        "more than 10000 entries" },
    { "a value that is no number", "return { model = 'heisenberg', sites = 4, accuracy = 0 / 0 }",
        "accuracy is not a number; allowed" },
    { "a list with an infinite value", "return { model = 'heisenberg', sites = { 1 / 0, 4 } }",
        "sites is infinity; allowed" },
    { "a command", "os.execute('touch CANARY')", "global 'os'" },
    { "a file", "io.open('CANARY', 'w')", "global 'io'" },
    { "a library", "require 'os'", "global 'require'" },
    { "a compiled chunk", string.dump(function() end), "binary chunk" },
    { "terminal codes in an error", "error('\\27[2J\\27]0;title\\7')", "[2J" },
    { "an output that is a command",
        "return { model = 'heisenberg', sites = 4, charge = 'Sz=0', output = 'no/such/folder/$(touch CANARY)' }", "no/such/folder", "run" },
}
for _, case in ipairs(jobs) do
    spill("job.lua", case[2])
    if watched and case[3] == time then goto next end
    if case[4] then
        local status, said = shell(within .. "run job.lua")
        ok(status == 2 and said:find(case[3], 1, true) and slurp(folder .. "/CANARY") == "",
            "job: " .. case[1], said)
    else
        refused("job", "job: " .. case[1], "job.lua", case[3])
    end
    ::next::
end
os.remove(folder .. "/job.lua")

local lattices = {
    { "a loop", "while true do end", time },
    { "a site that is no number", "return { sites = 2, bonds = { { 0, 0 / 0 } } }",
        "site 'not a number' is not there" },
    { "a million bonds between two sites",
        "local b = {} for i = 1, 1e6 do b[i] = { 0, 1, 'c' .. i } end return { sites = 2, bonds = b }", "" },
    { "a bond listed a hundred thousand times",
        "local b = {} for i = 1, 1e5 do b[i] = { 0, 1 } end return { sites = 2, bonds = b }", "twice" },
    { "a hundred thousand names",
        "local s, b = {}, {} for i = 1, 1e5 do s[i] = { name = 's' .. i } end for i = 1, 1e5 - 1 do b[i] = { 's' .. i, 's' .. i + 1 } end b[#b + 1] = { 's1', 'x' } return { sites = s, bonds = b }", "site 'x' is not there" },
    { "a class that is a text of a megabyte",
        "return { sites = 2, bonds = { { 0, 1, ('x'):rep(1 << 20) } } }", "" },
}
for _, case in ipairs(lattices) do
    spill("lattice.lua", case[2])
    if not (watched and case[3] == time) then
        refused("lattice", "lattice: " .. case[1], "lattice.lua", case[3])
    end
end
os.remove(folder .. "/lattice.lua")

local head = '-- H\nsite(spin(1/2))\nconserve "Sz"\nparameters { J = 1, h = per_site(0) }\n'
local models = { -- what line 5 says, and what is answered
    { "a field of an operator", "Sz(i).list[1].factors = 3", "has no parts" },
    { "a new field", "J.c = 3", "cannot be changed" },
    { "a field of a slot", "i.slot = 99", "cannot be changed" },
    { "a field of a space", "local s = spin(1/2) s.dim = 1e9", "cannot be changed" },
    { "a part of a space", "local s = spin(1/2) local op = s.op", "has no parts" },
    { "a field of hc", "hc.x = 1", "cannot be changed" },
    { "a modulus", "local q = mod(Sz, 2) q.modulus = 1e9", "cannot be changed" },
    { "a method of strings", "local x = ('x'):rep(1e9)", "" },
    { "the length of an operator", "local n = #Sz", "has no length" },
    { "the environment as a value", 'named(_ENV, Sz(i))', "" },
    { "lists in lists", "local t = {} for n = 1, 1e5 do t = {t} end named(t, Sz(i))", "deep" },
    { "a cyclic list", "local t = {} t[1] = t named(t, Sz(i))", "deep" },
    { "a table as key", "conserve { [Sz] = Sz }", "" },
    { "a name that is C", 'named({"*/ }; int x = system(\\"touch CANARY\\"); /*", "1"}, J*Sz(i)*Sz(j))', "" },
    { "a class that is C", 'bond("*/ system(1); /*", Sz(i)*Sz(j))', "needs the name of a class" },
    { "a thousand kinds of sites", 'for n = 1, 1000 do site("a", spin(1/2)) end', "" },
    { "a deep coefficient", "local c = J for n = 1, 1e6 do c = exp(c) end", "more than 4096 parts" },
    { "a deep sum", "local c = J for n = 1, 1e6 do c = c + 1 end", "more than 4096 parts" },
    { "a library", "local x = os", "unknown name 'os'" },
    { "the global table", "local x = _G", "unknown name '_G'" },
}
for _, case in ipairs(models) do
    spill("model.lua", head .. case[2] .. '\nbond("nn", J*Sz(i)*Sz(j))\n')
    refused("model", "model: " .. case[1], "./model.lua", case[3])
end
os.remove(folder .. "/model.lua")

-- ---- files that have no end, and signals ----

shell "mkfifo pipe"
for _, case in ipairs {
    { "ed heisenberg --sites 4 --charge Sz=0 -p h=@/dev/zero", "/dev/zero: is no ordinary file" },
    { "ed heisenberg --sites 4 --charge Sz=0 -p h=@.", "Is a directory" },
    { "ci /dev/zero", "/dev/zero: is no ordinary file" },
    { "run /dev/zero", "/dev/zero: is no ordinary file" },
    { "run .", "Is a directory" },
    { "show pipe", "pipe: is no ordinary file" },
    { "ci --resume pipe", "pipe: is no ordinary file" },
    { "measure pipe --measure Sz", "pipe: is no ordinary file" },
} do
    local status, said = shell(("timeout %d $K %s"):format(SECONDS, case[1]))
    ok(status == 2 and said:find(case[2], 1, true), case[1], said)
end
-- A shell's background jobs ignore INT; env gives it back. Signals wait until the program catches them,
-- which takes longer on a loaded machine, and half a second more; who does not end is killed.
local signalled = "env --default-signal=INT $K %s & p=$!; "
    .. "for i in $(seq 600); do grep -q '^SigCgt:.*[2367abef]$' /proc/$p/status && break; sleep 0.05; done; "
    .. "sleep 0.5; kill -%s $p; ( exec >/dev/null 2>&1; sleep %d; kill -KILL $p ) & k=$!; wait $p; s=$?; "
    .. "kill $k; (exit $s)"
for _, wait in ipairs { "ed heisenberg --sites 4 --charge Sz=0 -p h=@pipe", "ci pipe", "run pipe" } do
    for _, signal in ipairs { "INT", "TERM" } do
        local status, said = shell(signalled:format(wait, signal, SECONDS))
        ok(status == 130, ("one %s ends `%s'"):format(signal, wait), ("status %d: %s"):format(status, said))
    end
end
spill("loop.lua", "while true do end")
local status, said = shell(signalled:format("run loop.lua", "INT", SECONDS))
ok(status == 130 and said:find("loop.lua:1: interrupted", 1, true), "one INT ends a job that loops",
    ("status %d: %s"):format(status, said))
status, said = shell "{ echo 0 0.5 0 0 >pipe & } ; $K ed heisenberg --sites 4 --charge Sz=0 -o none -p h=@pipe"
ok(status == 0, "numbers may come through a pipe", said)

os.execute(("rm -rf %s %s.out"):format(folder, folder))
print("1.." .. ntest)
os.exit(nfail == 0)
