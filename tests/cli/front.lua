-- The front door: help, manual pages and completion say what the program takes, and no more.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/cli/front.lua KRONLAT VERSION [PAGE ...]; PAGE: manual pages as the build made them.
-- Prints TAP,
-- exits 1 on a failure.

local pipe = io.popen "pwd"
local pwd = pipe:read "l"
pipe:close()
local function absolute(path) return path:sub(1, 1) == "/" and path or pwd .. "/" .. path end
local program, version = absolute(arg[1]), arg[2]

local ntest, nfail = 0, 0
local function ok(good, name, ...)
    ntest = ntest + 1
    print(("%s %d - %s"):format(good and "ok" or "not ok", ntest, name))
    if good then return end
    nfail = nfail + 1
    for _, text in ipairs { ... } do print("# " .. tostring(text):gsub("\n", "\n# ")) end
end
local function skip(name, why)
    ntest = ntest + 1
    print(("ok %d - %s # SKIP %s"):format(ntest, name, why))
end

local function quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end
-- What a shell line prints, both streams, and whether it went well.
local function shell(line)
    local p = io.popen("{ " .. line .. " ; } 2>&1")
    local out = p:read "a"
    return out, p:close()
end
local function run(line) return shell(quote(program) .. " " .. line) end
local function has(tool) return select(2, shell("command -v " .. tool)) end
local function sorted(set)
    local list = {}
    for name in pairs(set) do list[#list + 1] = name end
    table.sort(list)
    return table.concat(list, " ")
end
local function slurp(path)
    local f = io.open(path, "rb")
    local text = f and f:read "a"
    if f then f:close() end
    return text
end

ok(run "--version" == "kronlat " .. version .. "\n", "the program's version is the build's", run "--version",
    version)

local commands, list = {}, {}
for name in run "--help":gmatch "\n  ([%l]+) +%u" do
    commands[name] = true
    list[#list + 1] = name
end
ok(#list >= 16 and commands.dmrg and commands.completion, "the commands", sorted(commands))

-- Options by their help: an option's line begins with its letter or its name.
local function options_of(help)
    local set = {}
    for line in help:gmatch "[^\n]+" do
        local name = line:match "^  %-%a, %-%-([%l%-%d]+)" or line:match "^      %-%-([%l%-%d]+)"
        if name then set[name] = true end
    end
    return set
end

local bench = {}
for what in run "bench --help":gmatch "\n  ([%l_]+) +%u" do bench[#bench + 1] = "bench " .. what end
ok(#bench >= 9, "what can be measured", table.concat(bench, ", "))

-- ---- manual pages ----

local made = {}
for i = 3, #arg do made[arg[i]:match "([^/]+)%.1$"] = absolute(arg[i]) end
if next(made) then
    local wanted = { kronlat = true }
    for name in pairs(commands) do wanted["kronlat-" .. name] = true end
    ok(sorted(made) == sorted(wanted), "a manual page for each command", sorted(made), sorted(wanted))
end
for _, name in ipairs { "kronlat", table.unpack(list) } do
    local page = run("man " .. name)
    local file = name == "kronlat" and name or "kronlat-" .. name
    ok(page:find("^%.TH KRONLAT") and page:find("kronlat " .. version:gsub("%-", "\\-"), 1,
        true) or page:find(version, 1, true),
       "manual page of " .. name, page:sub(1, 200))
    if made[file] then ok(slurp(made[file]) == page, "manual page of " .. name .. " as the build made it") end
    local told, taken = {}, name == "kronlat" and {} or options_of(run(name .. " --help"))
    for option in page:gmatch "\\fB\\%-\\%-([%l%d\\%-]+)\\fR" do told[option:gsub("\\", "")] = true end
    if name == "bench" then
        for _, what in ipairs(bench) do
            for option in pairs(options_of(run(what .. " --help"))) do taken[option] = true end
        end
        for option in pairs(options_of(run "bench hx --replay --help")) do taken[option] = true end
        taken.help, taken.version = true, true
    end
    ok(sorted(told) == sorted(taken), "manual page and help of " .. name .. " tell the same options",
        sorted(told), sorted(taken))
    if has "groff" then
        local out, good = shell(quote(program) .. " man " .. name .. " | groff -ww -man -Tascii -z")
        ok(good and out == "", "groff has nothing against the page of " .. name, out)
    elseif has "mandoc" then
        local out = shell(quote(program) .. " man " .. name
            .. " | mandoc -T lint -W warning | grep -v 'missing date'")
        ok(out == "", "mandoc has nothing against the page of " .. name, out)
    else skip("manual page of " .. name .. " is rendered", "neither groff nor mandoc is here") end
end
ok(not select(2, run "man nothing") and run("man nothing"):find "is no command", "man of what is no command",
    run "man nothing")

-- ---- completion ----

local function words(line)
    local parts = {}
    for word in (line .. " "):gmatch "(%S*) " do parts[#parts + 1] = quote(word) end
    local set = {}
    for candidate in run("completion --words " .. table.concat(parts, " ")):gmatch "[^\n]+" do
        set[candidate:match "^[^\t]*"] = true
    end
    return set
end

ok(words "dm".dmrg and not words "dm".ed and words ""["--help"] and words "help p".plan,
    "commands are completed", sorted(words ""))
local molecule = os.tmpname()
local f = assert(io.open(molecule, "w"))
f:write "&FCI NORB=2 &END\n"
f:close()
for _, name in ipairs { "dmrg", "ed", "ci", "plan", "growth", "models", "show", "tune",
    table.unpack(bench) } do
    local offered, taken = {}, options_of(run(name .. " --help"))
    for word in pairs(words(name .. " --")) do offered[word:sub(3)] = true end
    if name == "dmrg" or name == "plan" then
        for word in pairs(words(name .. " " .. molecule .. " --")) do offered[word:sub(3)] = true end
    end
    if name == "plan" then
        for word in pairs(words "plan --method ed --") do offered[word:sub(3)] = true end
    end
    ok(sorted(offered) == sorted(taken), name .. ": options are completed, and no others", sorted(offered),
        sorted(taken))
end
os.remove(molecule)
for _, case in ipairs {
    { "dmrg hei", "heisenberg" },
    { "dmrg heisenberg --charge ", "Sz= scan" },
    { "dmrg hubbard --sites 4 --charge N_", "N_dn= N_up=" },
    { "dmrg hubbard --sites 4 --charge=N_u", "--charge=N_up=" },
    { "dmrg kitaev --charge ", nil },
    { "ed heisenberg -p ", "Delta= J= S= h=" },
    { "dmrg heisenberg --exec ", "auto cuda host offload" },
    { "dmrg heisenberg --exec=o", "--exec=offload" },
    { "dmrg heisenberg --spectral ", ":file" },
    { "plan --method ", "dmrg ed" },
    { "plan --method ed heisenberg --solver l", "lanczos lobpcg" },
    { "dmrg nomodel --charge ", "" },
    { "completion ", "bash fish zsh" },
    { "bench g", "gemm gemv_normal gemv_trans" },
    { "nocommand ", "" },
    { "show ", ":file" },
} do
    local offered = words(case[1])
    if case[2] == ":file" then ok(offered[":file"], case[1] .. ": files are completed", sorted(offered))
    elseif case[2] then
        offered[":file"] = nil
        ok(sorted(offered) == case[2], "'" .. case[1] .. "' may become " .. case[2], sorted(offered))
    end
end
local models = words "dmrg "
local n = 0
for name in run "models --json":gmatch '"name": "([%w_]+)"' do
    n = n + 1
    ok(models[name], "model " .. name .. " is completed")
end
ok(n > 5, "there are models")

-- As bash would call it: words are broken at = : and @, and only the last piece is replaced.
if has "bash" then
    local function bash(line, ...)
        local pieces = {}
        for _, word in ipairs { ... } do pieces[#pieces + 1] = quote(word) end
        local script = ([[eval "$(%s completion bash)"; COMP_LINE=%s; COMP_POINT=${#COMP_LINE}; COMP_WORDS=(%s); ]]
            .. [[COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); compopt() { :; }; _kronlat %s; echo "${COMPREPLY[@]}"]]):format(
            quote(program), quote(line), table.concat(pieces, " "), quote(program))
        -- Names of files are completed too: none here can be taken for a model's.
        return (shell("cd / && bash -c " .. quote(script)):gsub("\n$", ""))
    end
    for _, case in ipairs {
        { { "kronlat grow", "kronlat", "grow" }, "growth" },
        { { "kronlat dmrg heis", "kronlat", "dmrg", "heis" }, "heisenberg" },
        { { "kronlat dmrg heisenberg --acc", "kronlat", "dmrg", "heisenberg", "--acc" }, "--accuracy" },
        { { "kronlat dmrg hubbard --charge N_u", "kronlat", "dmrg", "hubbard", "--charge", "N_u" }, "N_up=" },
        { { "kronlat dmrg hubbard --exec=h", "kronlat", "dmrg", "hubbard", "--exec", "=", "h" }, "host" },
        { { "kronlat dmrg hubbard --strategy=", "kronlat", "dmrg", "hubbard", "--strategy", "=" },
            "auto lr l11r" },
        { { "kronlat dmrg hubbard --lattice to", "kronlat", "dmrg", "hubbard", "--lattice", "to" },
            "torus:" },
        { { "kronlat bench comp", "kronlat", "bench", "comp" }, "compare" },
    } do
        local got = bash(table.unpack(case[1]))
        ok(got == case[2], "bash: '" .. case[1][1] .. "' becomes " .. case[2], got)
    end
else skip("completion in bash", "no bash is here") end
for _, name in ipairs { "zsh", "fish" } do
    local script, good = run("completion " .. name)
    ok(good and script:find "completion %-%-words", "completion script for " .. name)
end
-- As the shells would call them. zsh: its completion system is stood in for by functions that print what they
-- are handed; fish tells by itself what it would offer.
local function zsh(pieces)
    return ([=[compdef() { : }; compadd() { while [[ $1 != -- ]] do shift; done; shift; print -l -- "$@" };
        _files() { print :file }; eval "$(%s completion zsh)"; words=(%s); CURRENT=%d; _kronlat]=]):format(
        quote(program), table.concat(pieces, " "), #pieces)
end
local function fish(pieces, line)
    return ("function kronlat; %s $argv; end; kronlat completion fish | source; complete -C %s"):format(
        quote(program), quote(line))
end
for _, shell_of in ipairs { { "zsh", zsh, "-f -c " }, { "fish", fish, "--no-config -c " } } do
    local name = shell_of[1]
    if has(name) then
        for _, case in ipairs {
            { "kronlat grow", "growth" },
            { "kronlat dmrg heis", "heisenberg" },
            { "kronlat dmrg heisenberg --acc", "--accuracy" },
            { "kronlat dmrg hubbard --charge N_u", "N_up=" },
            { "kronlat bench comp", "compare" },
            { "kronlat dmrg hubbard --strategy ", "auto l11r lr" },
        } do
            local pieces = { name == "zsh" and quote(program) or "kronlat" }
            for word in (case[1]:match " (.*)$" .. " "):gmatch "(%S*) " do
                pieces[#pieces + 1] = quote(word)
            end
            -- Names of files are completed too: none there can be taken for a model's.
            local out = shell("cd / && " .. name .. " " .. shell_of[3] .. quote(shell_of[2](pieces, case[1])))
            local offered = {}
            for line in out:gmatch "[^\n]+" do
                local word = line:match "^[^\t]*"
                if word:sub(1, #(case[1]:match "%S*$")) == case[1]:match "%S*$" and word ~= ":file"
                    and not word:find "/" then offered[word] = true end
            end
            ok(sorted(offered) == case[2], name .. ": '" .. case[1] .. "' becomes " .. case[2], out)
        end
    else skip("completion in " .. name, "no " .. name .. " is here") end
end
ok(run("completion tcsh"):find "allowed: bash zsh fish", "completion for another shell",
    run "completion tcsh")

-- ---- every command's help is its own ----

for _, case in ipairs {
    { "dmrg", "boundary" }, { "dmrg", "neumann-order" }, { "dmrg", "samples" }, { "dmrg", "form" }, { "ed",
        "m" }, { "ed", "strategy" },
    { "ed", "schedule" }, { "growth", "lattice" }, { "show", "threads" }, { "models", "sites" },
} do ok(not options_of(run(case[1] .. " --help"))[case[2]], case[1] .. " --help tells nothing of --"
    .. case[2]) end
local help = run "dmrg --help"
ok(help:find "%-%-sites" < help:find "%-%-accuracy" and help:find "%-%-json" < help:find "Rarely needed" and
   help:find "Rarely needed" < help:find "%-%-max%-sweeps", "daily options come first", help)

print("1.." .. ntest)
os.exit(nfail == 0 and ntest > 0)
