-- Every command in README.md and docs/*.md runs, and what the text shows of its output is what the program
-- prints. Commands are the lines of fenced `sh` blocks, and indented lines, that begin with kronlat or
-- ./build/kronlat; and what sentences and tables say between backquotes, of which small siblings are run (see
-- `siblings`). A `text` block behind a command shows lines of its output: words must be equal, numbers
-- agree to one unit of the last digit shown, `...` in a line stands for anything and a line of `...` for
-- lines left out. A picture in a document is what the last command before it that writes one draws. HTML
-- comments steer: `<!-- file: NAME -->` keeps the next block as a file, `<!-- long -->` leaves the next block
-- to the long suite.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 docs.lua PROGRAM ROOT quick|long; prints TAP.
local HERE = arg[0]:match "^(.*/)" or ""
local kit = dofile(HERE .. "kit.lua")
local root, mode = kit.absolute(arg[2]), arg[3]

-- Commands that are not run here, and why.
local unrun = {
    { "%-%-exec[ =]cuda", "needs a GPU" },
    { "%-%-exec[ =]offload", "needs a GPU" },
    { "kronlat bench", "measures for minutes; tests/cli/physics.lua runs benchmarks of small sizes" },
    { "kronlat tune", "measures for half a minute and replaces the table of this machine" },
    { "%-%-beside", "needs another program" },
    { "mpirun", "needs MPI; tests/cli/ranks.lua has such runs" },
    { "completion bash%)", "is for an interactive shell" },
    { "man %-l", "needs man" },
}
-- What takes the place of names in capitals, and of sizes that need minutes or a GPU, in the commands of
-- sentences and tables.
local siblings = {
    { "RESULT%.h5", "result.h5" }, { "show FILE[.h5]*", "show result.h5" }, { "COMMAND", "dmrg" },
    { "TABLE%.csv", "table.csv" }, { "%f[%w]NAME", "hubbard" }, { "%f[%w]SPEC", "ladder:6x2" },
    { "%f[%w]FCIDUMP", "tests/data/h2o-sto3g.fcidump" },
    { "%f[%w]n2%.fcidump %-%-space level:7", "tests/data/n2-sto3g.fcidump --space level:4" },
    { "growth (.-)%-%-m %d+", "growth %1--m 16" },
    { "%-%-sites 100 (.-)N=100(.-)%-%-m %d+", "--sites 12 %1N=12%2--m 24" },
    { "ed hubbard (.-)square:%dx%d(.-)N_up=%d(.-)N_dn=%d", "ed hubbard %1square:3x2%2N_up=3%3N_dn=3" },
    { " %-%-device%-memory %S+", "" }, { "plan job%.lua", "plan one.lua" },
    { "%-%-exec %a+", "--exec host" }, { " %-%-projection 4streams", "" }, { " %-%-hybrid auto", "" },
}
-- Those that are not whole, and why.
local partial = {
    { "%.%.%.", "says that it goes on" }, { "plot %l+%.csv", "draws what a benchmark has written" },
    { "%-%-resume", "needs an unfinished run: tests/cli/resume.lua" },
    { "VERSION threads", "is a line of a file" }, { "^kronlat result", "are words of a file" },
    { "^kronlat plan %-%-method ed$", "wants a model" }, { "^kronlat measure RESULT.h5$", "wants --measure" },
}
local programs = { ["kronlat"] = true, ["./build/kronlat"] = true }
-- Words at the beginning of a block's lines that are no commands of the program: building and installing.
local building = { meson = true, ninja = true, ["CC=clang-22"] = true }

local function lines_of(path)
    local list = {}
    for line in (assert(kit.slurp(path), path) .. "\n"):gmatch "(.-)\n" do list[#list + 1] = line end
    return list
end

-- Steps of a document in its order: { kind = "file", name, text }, { kind = "command", line, long, shown,
-- picture }; picture: path of the kept one that the command draws again.
local function steps_of(document)
    local steps, inline, note, fence, block = {}, {}, {}, nil, {}
    local last, drawn -- the commands that a text block and a picture belong to
    local function command(text, number)
        local first = text:match "^%S+"
        local known = first and (programs[first] or building[first] or first:match "^%.?/?scripts/"
            or first:match "^tests/")
        if not known then return end
        last = { kind = "command", line = text:gsub("%s+#%s.*$", ""), number = number, long = note.long }
        steps[#steps + 1] = last
        if last.line:find("%.svg") then drawn = last end
    end
    local function close(number)
        if note.file then
            steps[#steps + 1] = { kind = "file", name = note.file, text = table.concat(block, "\n") .. "\n" }
        elseif fence == "sh" or fence == "" then
            for n, text in ipairs(block) do command(text, number - #block + n - 1) end
        elseif fence == "text" and last then
            last.shown, last = block, nil
        end
        note, fence, block = {}, nil, {}
    end
    for number, line in ipairs(lines_of(root .. "/" .. document)) do
        if fence then
            if line:match "^```" then close(number) else block[#block + 1] = line end
        elseif line:match "^```" then
            fence = line:match "^```(%w*)"
        elseif line:match "^!%[" then
            local kept = document:match "^(.*/)" or ""
            kept = kept .. assert(line:match "%]%((%S+%.svg)%)$", line)
            assert(drawn, document .. " draws no " .. kept).picture = kept
        elseif line:match "^<!%-%-" then
            local key, value = line:match "^<!%-%-%s*(%w+):?%s*(.-)%s*%-%->"
            if key then note[key] = value end
        elseif line:match "^    %S" then
            command(line:sub(5), number)
        elseif line:match "%S" and not line:match "^    " then
            note = {}
            for text in line:gmatch "`(kronlat [^`]+)`" do
                inline[#inline + 1] = { line = text:gsub("\\|", "|"), number = number }
            end
        end
    end
    return steps, inline
end

-- A number's value and the unit of its last digit.
local function number_of(word)
    local mantissa, exponent = word:match "^([+-]?%d[%d]*%.?%d*)[eE]([+-]?%d+)$"
    mantissa = mantissa or word:match "^[+-]?%d+%.?%d*$"
    if not mantissa then return nil end
    local decimals = #(mantissa:match "%.(%d*)$" or "")
    return tonumber(word), 10.0 ^ ((tonumber(exponent) or 0) - decimals)
end

local function words_of(line)
    local words = {}
    for word in line:gmatch "[^%s,;:()=]+" do words[#words + 1] = word end
    return words
end

-- Whether a shown line stands for a printed one. Integers have to be equal.
local function stands(shown, printed)
    local a, b = words_of(shown), words_of(printed)
    for k, word in ipairs(a) do
        if word == "..." then return true end
        if b[k] == nil then return false end
        local x, unit = number_of(word)
        local y = number_of(b[k])
        if x and y and word:match "[.eE]" then
            if math.abs(x - y) > 1.001 * unit then return false end
        elseif word ~= b[k] then
            return false
        end
    end
    return #a == #b
end

-- nil, or the first shown line that is not among the printed ones behind those of the lines before.
local function missing(shown, printed)
    local list, at = {}, 1
    for line in printed:gmatch "[^\n]+" do list[#list + 1] = line end
    for _, line in ipairs(shown) do
        if line:match "%S" and not line:match "^%s*%.%.%.%s*$" then
            local found
            for k = at, #list do
                if stands(line, list[k]) then
                    found = k
                    break
                end
            end
            if not found then return line end
            at = found + 1
        end
    end
    return nil
end

-- What a picture says: its texts, with tick marks left out where the numbers drawn are those of a run.
local function texts_of(svg, table_drawn)
    local texts = {}
    for text in svg:gmatch "<text[^>]*>(.-)</text>" do
        text = text:gsub("<[^>]*>", ""):gsub("%s+", " "):gsub("E = %S+", "E")
        text = text:gsub("(lowest is sweep %d+ of %d+): %S+", "%1") -- its last digits are the machine's
        if table_drawn or not tonumber(text) then texts[#texts + 1] = text end
    end
    return table.concat(texts, "\n")
end

-- nil, or how the picture that a command wrote differs from the kept one. Tables give the same bytes, by the
-- same gnuplot.
local function picture_fault(step)
    local path = step.line:match "%-%-output%s+(%S+%.svg)" or step.line:match "%-%-plot%s+(%S+%.svg)"
    local new, kept = path and kit.slurp(kit.at(path)), kit.slurp(root .. "/" .. step.picture)
    if not new or not kept then return "no picture" end
    local table_drawn = step.line:find("%.csv") ~= nil
    local function by(svg) return svg:match "Produced by GNUPLOT[^<]*" end
    if table_drawn and by(new) == by(kept) then return new ~= kept and "other bytes" or nil end
    return texts_of(new, table_drawn) ~= texts_of(kept, table_drawn) and "other texts" or nil
end

local function reason_not_to_run(line)
    if not programs[line:match "^%S+"] then return "builds or installs" end
    if line:find "bench compare %-%-from" then return nil end -- it draws what was measured
    for _, row in ipairs(unrun) do
        if line:find(row[1]) then return row[2] end
    end
    return nil
end

-- The test of the test: what a comparison must see and what it must leave alone.
kit.ok(stands("energy  -1.23 +- ...", "energy -1.2299 +- 3e-9"), "digits shown are compared")
kit.ok(not stands("energy  -1.25", "energy -1.2299"), "other digits are seen")
kit.ok(not stands("stop  converged", "stop  never"), "other words are seen")
kit.ok(missing({ "b", "a" }, "a\nb\n") == "a", "the order of lines is seen")
local two = "<text x='1'><tspan>a b</tspan></text><text>12</text>"
kit.ok(texts_of(two, true) == "a b\n12" and texts_of(two, false) == "a b", "the texts of a picture are seen")

local documents = { "README.md" }
local pipe = assert(io.popen("ls -1 " .. kit.quote(root .. "/docs") .. "/*.md"))
for path in pipe:lines() do documents[#documents + 1] = "docs/" .. path:match "[^/]+$" end
pipe:close()

-- The commands of sentences, once each in all documents: their small siblings run, and a command that is
-- named alone has a help.
local seen = {}
local function run_inline(document, inline)
    for _, step in ipairs(inline) do
        local name = ("%s:%d: %s"):format(document, step.number, step.line)
        local line, why = step.line, nil
        for _, row in ipairs(partial) do
            if line:find(row[1]) then why = row[2] end
        end
        for _, row in ipairs(siblings) do line = line:gsub(row[1], row[2]) end
        for _, row in ipairs(unrun) do
            if line:find(row[1]) then why = row[2] end
        end
        local named_alone = line:match "^kronlat %l+$" and line ~= "kronlat models"
        if named_alone then line = line .. " --help" end
        if why then
            kit.skip(name, why)
        elseif not seen[line] then
            local status, _, err = kit.shell((line:gsub("^kronlat", "$K", 1)))
            kit.ok(status == 0, name, line, ("status %d"):format(status), err)
        end
        seen[line] = true
    end
end

local ncommand = 0
for _, document in ipairs(documents) do
    local quoted = kit.quote(root)
    os.execute("rm -rf " .. kit.quote(kit.folder) .. " && mkdir -p " .. kit.quote(kit.at "build"))
    kit.shell("ln -s $K build/kronlat")
    kit.shell(("for d in tests examples models docs; do ln -s %s/$d $d; done"):format(quoted))
    local steps, inline = steps_of(document)
    for _, step in ipairs(steps) do
        local name = step.line and ("%s:%d: %s"):format(document, step.number, step.line)
        local why = step.line and reason_not_to_run(step.line)
        if step.kind == "file" then
            kit.spill(kit.at(step.name), step.text)
        elseif why then
            if mode == "quick" then kit.skip(name, why) end
        elseif step.long and mode == "quick" then
            kit.skip(name, "runs in the suite long")
        elseif mode == "quick" or step.long then
            ncommand = ncommand + 1
            local line = step.line:gsub("^%S+", "$K", 1)
            local status, out, err = kit.shell(line)
            local absent = status == 0 and step.shown and missing(step.shown, out)
            kit.ok(status == 0 and not absent, name, ("status %d"):format(status), err,
                absent and "not printed: " .. absent .. "\n" .. out or "")
            local other = step.picture and picture_fault(step)
            if step.picture then kit.ok(not other, step.picture .. " is what is drawn", other) end
        end
    end
    if mode == "quick" and #inline > 0 then
        kit.run "dmrg heisenberg --sites 8 --charge Sz=0 --output result.h5"
        kit.spill(kit.at "table.csv", kit.slurp(root .. "/docs/performance/ed.csv"))
        kit.spill(kit.at "job.lua", "return { command = 'ed', model = 'ising', sites = 6, charge = 'scan' }")
        kit.spill(kit.at "one.lua",
            "return { command = 'ed', model = 'ising', sites = 6, charge = 'parity=0' }")
        run_inline(document, inline)
    end
end
-- A table of bench compare with further columns, and without a residual, is read and written again.
local more = '"copy",100,1e-6,,,,,800,0,,kronlat bench compare,H200\n'
kit.spill(kit.at "far.csv", "operation,size,...,residual,command,card\n" .. more)
local far, told = kit.run "bench compare --from far.csv --csv again.csv"
kit.ok(far == 0 and told:find "resid not kept" and (kit.slurp(kit.at "again.csv") or ""):find
    '\n"copy",100,1e%-06,,,,,800,0,\n', "a table with further columns and no residual", told)
if mode == "quick" then
    for _, row in ipairs {
        { "operation,size\n1,2\n", "bad.csv:1: has no column 'case'" }, { "", "nothing to draw" },
        { "case,quantity,value,unit\n", "nothing to draw" },
        { "case,quantity,value,unit\na,b,1,\n", "nothing to draw" },
        { "case,quantity,value,unit\na,b,1,s\na,b,x,s\n", "bad.csv:3: 'x' is no number" },
        { "case,quantity,value,unit\na,b,nan,s\n", "bad.csv:2: 'nan' is no number" },
        { "case,quantity,value,unit\n\"a,b,1,s\n", "bad.csv:2: has no quantity" },
        { "case,quantity,value,unit\na\0b,c,1,s\n", "holds a zero byte" },
    } do
        kit.spill(kit.at "bad.csv", row[1])
        kit.refused("plot bad.csv", row[2])
    end
    local named = 'unit,more,value,quantity,case\ns,,1,"a ""b"", c","`d` $e"\ns,,2,q,-\nms,,-3e2,q,-\n'
    kit.spill(kit.at "good.csv", named)
    local status, _, err = kit.run "plot good.csv"
    local svg = kit.slurp(kit.at "good.svg") or ""
    local right = svg:find("a &quot;b&quot;, c", 1, true) or svg:find('a "b", c', 1, true)
    local has = status == 0 and right and svg:find("`d` $e", 1, true)
    local drawing = os.execute "command -v gnuplot >/dev/null"
    if drawing then kit.ok(has, "a table with columns in any order", err) end
    kit.ok(not kit.slurp(kit.at "bad.svg"), "bad tables leave no picture")
end
kit.ok(ncommand > 0, ("%d commands ran"):format(ncommand))
kit.finish()
