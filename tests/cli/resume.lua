-- Runs that are interrupted or killed at any moment, and go on: to the same bits where a checkpoint holds all
-- that decides.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/cli/resume.lua KRONLAT KILL_AT; prints TAP, exits 1 on a failure. Works in a folder of
-- its own below $TMPDIR or /tmp. Moments are told in processor time of the program
-- (tests/support/kill_at.c), so that other programs on the machine do not move them.

local here = arg[0]:match "^(.*/)" or "./"
local kit = dofile(here .. "kit.lua")
local absolute, slurp, quote, json, near = kit.absolute, kit.slurp, kit.quote, kit.json, kit.near
local ok, skip, at, shell, run = kit.ok, kit.skip, kit.at, kit.shell, kit.run
local energy, refused = kit.energy, kit.refused
local difference = kit.difference

-- For tools that watch every access: fewer rounds, and where many runs are made, shorter ones.
local watched = tonumber(os.getenv "KL_TEST_ROUNDS")
-- Kills at random moments: two rounds of each kind (one where that kind is killed twice a round), with
-- $KL_TEST_LONG as many as are listed; the suite overnight has 200 more (kills.lua).
local listed = os.getenv "KL_TEST_LONG" and math.huge
local function rounds(all, most) return math.min(all, watched or listed or most or 2) end
local shorter = { ["sites 32"] = "sites 12", ["sites 24"] = "sites 8", ["10,24"] = "6,8",
    ["ladder:6x2"] = "ladder:5x2", ["torus:6x2"] = "torus:5x2", ["ring %-%-sites 16"] = "ring --sites 12" }
local function short(line)
    for long, less in pairs(watched and shorter or {}) do line = line:gsub(long, less) end
    return line
end

local kill_at = quote(absolute(assert(arg[2], "the path of kill_at is missing")))

-- A run that nothing disturbs: its JSON, the processor time that it took, its status and its errors.
local function undisturbed(line)
    local status, out, err = shell(("$K %s --json; s=$?; times >times; (exit $s)"):format(line))
    local minutes, seconds, more, rest = slurp(at "times"):match "\n(%d+)m([%d.]+)s (%d+)m([%d.]+)s"
    os.remove(at "times") -- of the shell's children, the program's own and the kernel's for it
    return json(out), 60 * (minutes + more) + seconds + rest, status, err
end

-- A run that gets a signal once it has used so much processor time, or so much more once a file is there.
local function stopped(line, seconds, signal, before, file)
    return shell(("%s%s %.3f%s %s $K %s"):format(before or "", kill_at, seconds, file and "@" .. file or "",
        signal, line))
end

local long = "dmrg heisenberg --sites 64 --charge Sz=0 --accuracy 1e-10 --checkpoint-every 0.01 --threads 1"
local chain = watched and long:gsub("64", "32") or long
local doc, seconds, _, why = undisturbed(chain .. " -o whole.h5")
local reference = doc and doc.energy
if ok(near(reference, watched and -13.997315618224327 or -28.175424859743183, 3e-9), "Heisenberg chain",
    reference or why) then
    -- a checkpoint knows where in a sweep it was: what follows is what would have followed
    local tolerance = 1e-12 * math.abs(reference)
    local status, _, err = stopped(chain .. " -o i.h5", 0.6 * seconds, "INT")
    if status == 0 then
        skip("SIGINT", "the run was over before the signal")
    else
        ok(status == 130 and err:find "go on with: kronlat dmrg %-%-resume i.h5" and select(2, err:gsub("\n",
            "")) == 1, "SIGINT stops the run and keeps a checkpoint", status, err)
        local _, out = run "show i.h5"
        ok(out:find "a checkpoint after %d+ sweeps", "the checkpoint says what it is", out)
        refused("dmrg heisenberg --sites 62 --charge Sz=0 --resume i.h5",
            watched and "32 sites" or "64 sites")
        refused("dmrg -p J=2 --resume i.h5", "J=1, not 2")
        refused("dmrg --charge Sz=1 --resume i.h5", "Sz=0, not Sz=1")
        refused("dmrg --states 2 --resume i.h5", "is one of --states 1, not 2")
        refused("dmrg --m 8 --resume i.h5", "--m 8 would cut the ")
        local e, what = energy "dmrg --resume i.h5"
        ok(near(e, reference, tolerance), "resumed to the same energy", e, reference, what)
    end
end

-- Plain runs, those that start from another result, and those of several states: killed twice, at any moment.
math.randomseed(20240607)
shell(("$K dmrg heisenberg --sites %d --charge Sz=0 -p Delta=0.8 --m 40 --threads 1 -o start.h5")
    :format(watched and 32 or 64))
for _, case in ipairs {
    { "runs", chain, 3 }, { "runs that start from another result", chain .. " --start start.h5", 2 },
    { "runs of two states", (long:gsub("64", watched and "16" or "32")) .. " --states 2", 2 },
    -- some bonds multiply operators out, others have not the room: by sizes, not by what is in memory
    { "runs by lr with little memory", "dmrg hubbard --sites 12 -p U=8 --charge N_up=6 --charge N_dn=6 --schedule "
        .. "60:1e-4,120,120 --strategy lr --host-memory 22MB --scratch . --checkpoint-every 0.01 --threads 1", 2 },
    -- between sweeps alone: the first bond of a sweep asks for the energy before its truncation
    { "runs of bounded products", (watched and "dmrg heisenberg --lattice ladder:6x2" or
        "dmrg heisenberg --lattice cylinder:8x4") .. " --charge Sz=0 --max-products 4 "
        .. "--schedule 30:1e-4,40*5 --threads 1", 2 },
    { "runs with the total spin", (watched and "dmrg hubbard --sites 8 --charge N=8" or
        "dmrg hubbard --sites 20 --charge N=20") .. " -p U=8 --charge S=1 --accuracy 1e-9 "
        .. "--checkpoint-every 0.01 --threads 1", 2 },
} do
    local name, command = case[1], case[2]
    local doc, seconds = undisturbed(command .. " -o x.h5")
    local killed, good = 0, doc ~= nil
    for round = 1, good and rounds(case[3], 1) or 0 do
        os.remove(at "k.h5")
        local word = command .. " -o k.h5"
        for _ = 1, 2 do
            stopped(word, (0.1 + 0.7 * math.random()) * seconds, "KILL")
            if slurp(at "k.h5") then word = "dmrg --resume k.h5" end
        end
        local _, out, why = run(word .. " --json")
        local found = json(out)
        if why:find "has finished" then found = json(select(2,
            run "show k.h5 --json")) else killed = killed + 1 end
        for _, key in ipairs { "energies", "energies_kept", "error_estimate", "energy_extrapolated",
            "entropy",
            "sweeps_done", "measurements" } do
            local wrong = not found and why or difference(found[key], doc[key], key)
            if wrong then
                good = false
                print(("# %s, round %d: %s"):format(name, round, wrong))
            end
        end
    end
    ok(good, ("%s killed at random moments, resumed %d times, the same bits"):format(name, killed))
end

-- The same for exact diagonalization: a run that goes on ends with the same bits.
local exact = short "ed hubbard --lattice ladder:6x2 -p U=4 --charge N_up=5 --charge N_dn=4 --measure docc --checkpoint-every 0.01 --threads 1"
local whole, seconds = undisturbed(exact .. " -o x.h5")
if ok(whole and whole.converged, "a ladder, exact") then
    local function resume(name)
        local status, out, err = run("ed --json --resume " .. name)
        local found = status == 0 and json(out)
        return found and found.energy, found and found.measurements["local/docc"].value[3],
            found and found.products or (out .. err)
    end
    local status, _, err = stopped(exact .. " -o i.h5", 0.3 * seconds, "INT")
    if status == 0 then
        skip("SIGINT in exact diagonalization", "the run was over before the signal")
    else
        ok(status == 130 and err:find "go on with: kronlat ed %-%-resume i.h5" and select(2, err:gsub("\n",
            "")) == 1, "SIGINT stops an exact run and keeps a checkpoint", status, err)
        local _, out = run "show i.h5"
        ok(out:find "so far +%d+ products" and out:find "a checkpoint; go on",
            "an exact checkpoint says what it is", out)
        refused("ed -p U=5 --resume i.h5", "U=4, not 5")
        refused("ed --states 2 --resume i.h5", "same solver and number of states")
        refused("ed --form sites --resume i.h5", "holds a run under way, which --form cannot change")
        refused("ed --pin n_up@0=1 --resume i.h5", "which --pin cannot change")
        refused("dmrg --resume i.h5", "kronlat ed --resume")
        local e, docc, products = resume "i.h5"
        ok(e == whole.energy and docc == whole.measurements["local/docc"].value[3]
            and products == whole.products, "resumed to the same bits", e, docc, products)
    end
    local killed, good = 0, true
    for round = 1, rounds(3) do
        os.remove(at "k.h5")
        stopped(exact .. " -o k.h5", (0.1 + 0.6 * math.random()) * seconds, "KILL")
        local state = slurp(at "k.h5") and json(select(2, run "show k.h5 --json"))
        if state and not state.finished then
            killed = killed + 1
            local e, docc, what = resume "k.h5"
            if e ~= whole.energy or docc ~= whole.measurements["local/docc"].value[3] then
                good = false
                print(("# round %d: %s and %s, %s and %s expected (%s)"):format(round, tostring(e),
                    tostring(docc), tostring(whole.energy),
                      tostring(whole.measurements["local/docc"].value[3]), tostring(what)))
            end
        elseif state and state.energy ~= whole.energy then
            good = false
        end
    end
    ok(good, ("exact runs killed at random moments, resumed %d times, the same bits"):format(killed))
end

-- So do spectral functions, whose recurrence lives in another sector, and sums over typical states of all
-- sectors: killed and interrupted at any moment.
for _, case in ipairs {
    { "spectral functions",
        "ed hubbard --lattice torus:6x2 -p U=4 --charge N_up=4 --charge N_dn=3 --spectral cdag_up@q=1,0 --spectral cdag_dn@3 --broadening 0.02 --steps 100",
      { "--spectral n_up@0", "--broadening 0.3", "--frequencies 0:1:0.5", "--measure n_up", "--steps 90",
          "--accuracy 1e-5", "--states 2" } },
    { "thermodynamics",
        "ed heisenberg --lattice ring --sites 16 --charge scan --temperatures 0.2:1:0.2 --samples 8 --steps 60", { "--charge Sz=0", "--samples 4", "--steps 50", "--seed 2" } },
} do
    local name, command, fixed = table.unpack(case)
    command = short(command) .. " --checkpoint-every 0.01 --threads 1"
    local whole, seconds = undisturbed(command .. " -o x.h5")
    local good, resumed = whole ~= nil, 0
    for round = 1, good and rounds(3) or 0 do
        os.remove(at "k.h5")
        stopped(command .. " -o k.h5", (0.05 + 0.9 * math.random()) * seconds,
            round % 2 == 0 and "INT" or "KILL")
        local state = slurp(at "k.h5") and json(select(2, run "show k.h5 --json"))
        if state and not state.finished then
            resumed = resumed + 1
            if not state.so_far then -- past the solver
                for _, words in ipairs(#fixed > 0 and { "--pin Sz@0=1",
                    "--form auto" } or {}) do refused("ed --resume k.h5 " .. words,
                    "a run under way, which " .. words:match "%S+" .. " cannot change") end
                for _, words in ipairs(fixed) do refused("ed --resume k.h5 " .. words,
                    name .. " under way, which " .. words:match "%S+" .. " cannot change") end
                fixed = {}
            end
            local status, out, err = run "ed --json --resume k.h5"
            local found = status == 0 and json(out)
            local wrong = not found and err or difference(found.measurements, whole.measurements,
                "measurements")
            if wrong then
                good = false
                print(("# %s, round %d: %s"):format(name, round, wrong))
            end
        end
    end
    ok(good, ("%s stopped at random moments, resumed %d times, the same bits"):format(name, resumed))
end

-- A sweep of a parameter goes on with the values that are left, whichever of its files is named; each of them
-- ends with the bits of an undisturbed one.
do
    local chain = short "dmrg heisenberg --sites 32 --charge Sz=0 --accuracy 1e-10 --checkpoint-every 0 --threads 1"
        .. " --sweep-parameter Delta=0.5:1.5:0.25 -o "
    local function told(doc) -- of the table, but for the names of files
        for _, row in ipairs(doc and doc.runs or {}) do row.output = nil end
        return doc
    end
    local whole, seconds, status, err = undisturbed(chain .. "whole.h5")
    whole = told(whole)
    local labels = {}
    for value = 0.5, 1.5, 0.25 do labels[#labels + 1] = ("Delta=%.10g"):format(value) end
    if ok(status == 0 and whole and #whole.runs == 5 and whole.runs[5].label == "Delta=1.5",
        "a sweep of five values", status, err) then
        local good, resumed, twice = true, 0, 0
        for round = 1, rounds(3) do
            shell "rm -f k.*"
            local command, last = chain .. "k.h5"
            for _ = 1, 2 do
                stopped(command, (0.05 + 0.8 * math.random()) * seconds, round % 3 == 0 and "INT" or "KILL")
                for _, label in ipairs(labels) do
                    if slurp(at("k." .. label .. ".h5")) then last = "k." .. label .. ".h5" end
                end
                if last then
                    command = "dmrg --resume " .. last
                    resumed = resumed + 1
                end
            end
            if last then
                local state = json(select(2, run("show " .. last .. " --json")))
                if state and state.finished and last == "k.Delta=1.5.h5" then
                    twice = twice + 1
                    refused("dmrg --resume " .. last, "has finished")
                else
                    local _, text, why = run(command .. " --json")
                    local wrong = difference(told(json(text)) or {}, whole, "table")
                    if wrong and not wrong:find "^table/title" then
                        good = false
                        print(("# round %d, %s: %s %s"):format(round, command, wrong, why))
                    end
                end
                for _, label in ipairs(labels) do
                    local a, b = json(select(2, run("show whole." .. label .. ".h5 --json"))), json(select(2,
                        run("show k." .. label .. ".h5 --json")))
                    for _, key in ipairs { "energies", "energies_kept", "error_estimate",
                        "energy_extrapolated", "entropy", "measurements", "parameters" } do
                        local wrong = not b and "there is no file" or difference(a[key], b[key], key)
                        if wrong then
                            good = false
                            print(("# round %d, %s: %s"):format(round, label, wrong))
                        end
                    end
                end
            end
        end
        ok(good, ("sweeps killed at random moments, resumed %d times, the same bits (%d had ended)"):format(resumed, twice))

        -- killed between two values: a finished file is gone on from
        shell "rm -f k.*; cp whole.Delta=0.75.h5 k.Delta=0.75.h5"
        local _, text, why = run "dmrg --resume k.Delta=0.75.h5 --json"
        local rest = told(json(text))
        ok(rest and #rest.runs == 4 and not difference(rest.runs[4], whole.runs[5],
            "row") and not slurp(at "k.Delta=0.5.h5"), "from a finished value to the rest", text, why)
        refused("dmrg --resume whole.Delta=1.5.h5", "has finished")
        refused("dmrg --resume k.Delta=0.75.h5 --sweep-parameter Delta=1,2",
            "--resume and --sweep-parameter exclude each other")
        refused("dmrg --resume k.Delta=0.75.h5 -p Delta=2", "Delta=0.75, not 2")
        shell "cp whole.Delta=0.5.h5 k.Delta=1.h5"
        refused("dmrg --resume k.Delta=0.75.h5", "k.Delta=1.h5 is in the way")
        shell "mv k.Delta=0.75.h5 other.h5; rm -f k.*"
        local status, out, err = run "dmrg --resume other.h5"
        ok(status == 0 and out:find "other%.Delta=1%.5%.h5" and slurp(at "other.Delta=1.h5"),
            "a file of another name lends it to the rest", status, out, err)
        local doc = json(select(2, run "measure other.h5 --measure variance --json"))
        ok(doc and doc.measurements.variance and doc.parameters.Delta == 0.75,
            "measured on a value of a sweep", doc)
        status, out,
            err = run "dmrg heisenberg --sites 8 --charge Sz=0 --sweep-parameter Delta=0,1,0 -o loop.h5 --json"
        ok(status == 0 and json(out) and #json(out).runs == 3, "a sweep there and back", err)
    end
end

-- And for configuration interaction.
local dump = absolute(arg[0]):match "^(.*)/cli/" .. "/data/h2o-631g-fc.fcidump"
-- a checkpoint comes where a basis of so few vectors is full
local molecule = "ci " .. quote(dump)
    .. " --space full --irrep 1 --roots 2 --residual 1e-8 --basis 8 --checkpoint-every 0.02 --threads 1"
whole, seconds = undisturbed(molecule .. " -o x.h5")
if ok(whole and whole.converged and near(whole.states[1].energy, -76.11995518792072, 1e-10),
    "water, full configuration interaction") then
    for _, signal in ipairs { "INT", "KILL" } do
        os.remove(at "i.h5")
        local status, _, err = stopped(molecule .. " -o i.h5", 0.45 * seconds, signal)
        local state = slurp(at "i.h5") and select(2, run "show i.h5")
        if status == 0 or not state or not state:find "under way" then
            skip("SIG" .. signal .. " in configuration interaction",
                "the run was over before the signal, or had not begun")
        else
            if signal == "INT" then
                ok(status == 130 and err:find "go on with: kronlat ci %-%-resume i.h5" and select(2,
                    err:gsub("\n", "")) == 1, "SIGINT stops it and keeps a checkpoint", status, err)
                local unfinished = json(select(2, run "show i.h5 --json"))
                ok(unfinished and unfinished.finished == false and unfinished.space == "full"
                    and not unfinished.states and not unfinished.orbitals,
                   "JSON of a run under way says so, and no result of nothing")
                refused("ci --space cisd --resume i.h5", "this run needs 409")
                refused("ci --resume i.h5 " .. quote((dump:gsub("631g%-fc", "sto3g"))),
                    "are not those that i.h5 was begun with")
            end
            local _, out, why = run "ci --json --resume i.h5"
            local rest = json(out)
            ok(rest and rest.converged and rest.states[1].energy == whole.states[1].energy
                and rest.states[2].energy == whole.states[2].energy
                and rest.irreps[1].products == whole.irreps[1].products,
               "resumed after SIG" .. signal .. " to the same bits", out, why)
        end
    end
end

-- Where no checkpoint could be written, nobody is told to go on with one.
for _, long in ipairs { "ci " .. quote(dump) .. " --space full --roots 4 --residual 1e-9",
    "ed heisenberg --sites 20 --charge Sz=0 --states 3" } do
    os.remove(at "i.h5")
    local status, _, err = stopped(long .. " --threads 1 --checkpoint-every 0 -o i.h5", 0.45 * seconds, "INT",
        "ulimit -f 4; ")
    if status ~= 130 then
        skip("interrupted on a full disk", "the run was over before the signal")
    else
        ok(err:find("interrupted; nothing was kept (no checkpoint was written)", 1,
            true) and not err:find "go on with:" and not slurp(at "i.h5"),
           "interrupted on a full disk: " .. long:match "^%a+", status, err)
    end
end

-- A series is given again: what is there is taken, what was begun goes on, and the table is that of a series
-- that nobody killed.
do
    local method = {
        dmrg = short "dmrg heisenberg -p S=1 --sweep-parameter sites=10,24 --charge Sz=0:1 --accuracy 1e-8",
        ed = "ed heisenberg --lattice ring --sweep-parameter sites=14,18 --charge Sz=0:1",
    }
    for name, line in pairs(method) do
        line = line .. " --checkpoint-every 0 --threads 1 -o "
        local whole, seconds, status, err = undisturbed(line .. "'w{sites}.{Sz}.h5'")
        ok(status == 0 and whole and #whole.runs == 4, name .. ": a series of four", err)
        local good = true
        for round = 1, rounds(2) do
            shell "rm -f v*.h5"
            stopped(line .. "'v{sites}.{Sz}.h5'", (0.1 + 0.8 * math.random()) * seconds,
                round % 2 == 0 and "INT" or "KILL")
            local _, text, why = run(line .. "'v{sites}.{Sz}.h5' --json")
            local again = json(text) or { runs = {} }
            for k, row in ipairs(whole and whole.runs or {}) do
                local other = again.runs[k] or {}
                good = good and row.energy == other.energy and row.label == other.label
                    and row.error_estimate == other.error_estimate
            end
            if not good then ok(false, name .. ": a series that was killed", text, why) break end
        end
        ok(good, name .. ": a series that was killed goes on to the same bits")
    end
end

-- So does a scan, which keeps the sectors in files of their own until all are done.
do
    local line = short "dmrg heisenberg -p S=1 --sites 24 --charge Sz=0:2 --accuracy 1e-8 --checkpoint-every 0 "
        .. "--threads 1 -o "
    local whole, seconds, status, err = undisturbed(line .. "s.h5")
    ok(status == 0 and whole and #whole.runs == 3 and whole.runs[1].output == "s.h5"
        and not slurp(at "s.Sz=0.part.h5") and not slurp(at "s.Sz=2.part.h5"),
        "a scan leaves the state of its lowest sector", status, err)
    for round = 1, rounds(2) do
        shell "rm -f q*.h5"
        stopped(line .. "q.h5", (0.1 + 0.8 * math.random()) * seconds, round % 2 == 0 and "INT" or "KILL")
        local parts = slurp(at "q.Sz=0.part.h5") ~= nil
        local _, text, why = run(line .. "q.h5 --json")
        local again = json(text) or { runs = {} }
        local good = slurp(at "q.h5") and not slurp(at "q.Sz=0.part.h5") and not slurp(at "q.Sz=1.part.h5")
        for k, row in ipairs(whole and whole.runs or {}) do
            local other = again.runs[k] or {}
            good = good and row.energy == other.energy and row.error_estimate == other.error_estimate
        end
        ok(good, "a scan that was killed goes on to the same bits" .. (parts and ", from its files" or ""),
            text, why)
    end
end

-- And a plain scan by ed: sectors that are done are read, and its last part, the run of the lowest, goes on.
do
    local sites = watched and 6 or 8
    local line = ("ed hubbard --sites %d -p U=4 --charge scan --threads 1 --measure docc "):format(sites)
    local whole, seconds, _, err = undisturbed(line .. "-o e.h5")
    local rows = whole and whole.scan and whole.scan.runs or {}
    ok(#rows == (sites + 1) ^ 2 and not slurp(at "e.scan.part.h5"), "a scan by ed leaves its result alone",
        #rows, err)
    local taken = 0
    for round = 1, rounds(3) do
        shell "rm -f f*.h5"
        stopped(line .. "-o f.h5", 0.5 * math.random() * seconds, round % 2 == 0 and "INT" or "KILL", nil,
            "f.scan.part.h5")
        local _, text, why = run(line .. "--json -o f.h5")
        local again = json(text) or {}
        local others = again.scan and again.scan.runs or {}
        local good = again.energy == whole.energy and not slurp(at "f.scan.part.h5")
        for k, row in ipairs(rows) do
            local other = others[k] or { energies = {} }
            good = good and row.label == other.label and row.error_estimate == other.error_estimate
            for n, e in ipairs(row.energies) do good = good and e == other.energies[n] end
        end
        taken = taken + (why:find "taken from f%.scan%.part%.h5" and 1 or 0)
        ok(good, "a scan by ed that was killed goes on to the same bits", text:sub(1, 300), why)
    end
    ok(taken > 0, "from its file", taken)
end
kit.finish()
