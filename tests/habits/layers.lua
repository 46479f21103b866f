-- Reads every #include in src/, offload/ and cuda/ and fails where a folder looks into one that it may not
-- see, and where something appears outside the one place it belongs to (printing, exits, malloc, target
-- pragmas, CUDA, OpenMP, liblua, HDF5). It reads text, not meaning: what one folder may know of another
-- through a struct it was handed is for the reviewer.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/habits/layers.lua [ROOT]; prints TAP, exits 1 on a failure.

-- The folders of src/, from the lowest layer up, each with those that it may include besides itself: the only
-- such table. A new folder stands here and in src/meson.build. Executors and solvers run anything, so they
-- see no model and no lattice; algorithms see no option and no file.
local ctext = dofile((arg[0]:match "^(.*/)" or "./") .. "ctext.lua")
local layers = {
    { "base", "" },
    { "lua", "base" },
    { "model", "base lua" },
    { "chem", "base model" },
    { "sparse", "base" },
    { "record", "base sparse" },
    { "exec", "base sparse record" },
    { "comm", "base record exec" },
    { "device", "base sparse record exec" },
    { "solve", "base exec comm" },
    { "dmrg", "base model record exec comm solve" },
    { "ed", "base model sparse exec comm solve" },
    { "ci", "base model chem sparse record exec comm solve" },
    { "io", "base model chem sparse solve dmrg ci" },
    { "figure", "base io" },
    { "run", "base lua model chem sparse record exec comm solve dmrg ed ci io" },
    { "lib", "base model chem exec comm dmrg ed ci io figure run" },
    { "cli", "base lua model chem sparse record exec comm solve dmrg ed ci io figure run lib" },
    { "bench", "base model chem sparse record exec solve dmrg ed ci io run cli" },
    { "offload", "base sparse record exec device ci" },
    { "cuda", "base sparse record exec device ci" },
    { "mpi", "base" },
}
-- Headers of an executor of its own folder, seen where executors are opened.
local opened_by = { ["offload/offload.h"] = "exec.c", ["cuda/module.h"] = "exec_cuda.c",
    ["mpi/module.h"] = "comm.c" }

-- pattern, where it is allowed (folders or file names), what to do instead. Patterns see code without
-- comments and strings.
local function word(w) return "%f[%w_]" .. w .. "%f[^%w_]" end
local function call(w) return word(w) .. "%s*%(" end
local places = {
    { what = "prints", only = { "cli", "bench", "main.c" },
        why = "only src/cli and src/bench print; return a kl_status with a message",
      find = { call "printf", call "vprintf", call "puts", call "putchar", call "perror", word "stdout",
          word "stderr" } },
    { what = "ends the program", only = { "cli", "bench", "main.c" }, why = "return a kl_status",
      find = { call "exit", call "abort", call "quick_exit" } },
    { what = "allocates by itself", only = { "mem.c" }, why = "use kl_alloc and kl_free with a kind",
      find = { call "malloc", call "calloc", call "realloc", call "free", call "strdup", call "strndup",
          call "asprintf", call "aligned_alloc",
               call "posix_memalign", call "getline" } },
    { what = "has a target pragma", only = { "offload" }, why = "target regions live in offload/",
      find = { "#%s*pragma%s+omp%s+[%w_ ]*target" } },
    { what = "sees CUDA", only = { "cuda" }, why = "CUDA lives in cuda/",
      find = { word "cudaStream_t", call "cudaMalloc", word "__global__", word "__device__" } },
    { what = "reads numbers by the locale of the process", only = { "base.c" }, why = "use kl_parse_double",
      find = { call "strtod", call "strtof", call "strtold", call "atof", call "setlocale",
          call "uselocale" } },
    { what = "opens an HDF5 file", only = { "checked.c" },
        why = "kl_checked_open and kl_checked_create look at the checksum block first and pass descriptors",
      find = { call "H5Fopen", call "H5Fcreate", call "H5Fis_hdf5", call "H5Fis_accessible" } },
    { what = "starts a program", only = { "plot.c", "bench.c", "process.c", "beside.c" },
        why = "what a program is told may be a stranger's text",
      find = { call "system", call "popen", call "posix_spawn", call "posix_spawnp", call "execv",
          call "execvp", call "execve", call "execl", call "execlp" } },
    { what = "has threads of OpenMP", only = { "offload", "cuda" },
        why = "they spin where they wait; kl_par_for has threads that sleep",
      find = { "#%s*pragma%s+omp%s+parallel", "#%s*pragma%s+omp%s+for" } },
    { what = "uses OpenMP", only = { "base", "exec", "device", "solve", "ci", "offload", "cuda" },
        why = "algorithms go through the executor",
      find = { "#%s*pragma%s+omp", call "omp_[%w_]+" } },
}
-- Library headers and who may include them.
local system_headers = {
    { find = "^lua%.h$", only = { "model", "lua", "run", "cli" } },
        { find = "^lauxlib%.h$", only = { "model", "lua", "run", "cli" } },
    { find = "^lualib%.h$", only = { "luawords.c" } },
    { find = "^mpi", only = { "mpi" } },
    { find = "^hdf5", only = { "io" } }, { find = "^omp%.h$",
        only = { "base", "exec", "device", "solve", "ci", "offload", "cuda" } },
    { find = "^cuda", only = { "cuda" } }, { find = "^cublas", only = { "cuda" } },
        { find = "^cusparse", only = { "cuda" } },
    { find = "^cblas", only = { "base", "exec", "device" } },
        { find = "^blis", only = { "base", "exec", "device" } }, { find = "^libxsmm", only = { "bench.c" } },
            { find = "^lapack", only = { "base" } },
}
local root = arg[1] or "."
local may = {}
for _, row in ipairs(layers) do
    may[row[1]] = { [row[1]] = true }
    for name in row[2]:gmatch("%S+") do
        assert(may[name], row[1] .. " may include " .. name .. ", which stands on no lower layer")
        may[row[1]][name] = true
    end
end

-- The paths that hold each folder's files.
local folders = { offload = { "offload" }, mpi = { "mpi" },
    cuda = { "cuda", "cuda/kernels", "cuda/baselines" } }
for _, row in ipairs(layers) do folders[row[1]] = folders[row[1]] or { "src/" .. row[1] } end

local function list(folder)
    local files = {}
    local pipe = assert(io.popen(("ls -1 '%s/%s' 2>/dev/null"):format(root, folder)))
    for f in pipe:lines() do
        if f:match("%.[ch]$") or f:match("%.cu$") or f:match("%.cuh$") then files[#files + 1] = f end
    end
    pipe:close()
    return files
end

-- Without comments and the insides of strings; _Pragma("...") is written as the pragma that it is.
local function strip(text)
    return ctext.strip((text:gsub('_Pragma%s*%(%s*"([^"\n]*)"%s*%)', "#pragma %1")))
end

local tap = dofile((arg[0]:match "^(.*/)" or "./") .. "tap.lua")
local report = tap.report

local function allowed(only, layer, file)
    for _, o in ipairs(only) do
        if o == layer or o == file then return true end
    end
    return false
end

local function read(path)
    local handle = io.open(root .. "/" .. path)
    local text = handle and handle:read "a"
    if handle then handle:close() end
    return text
end

-- What is wrong with a quoted include; nil: nothing.
local function include_fault(layer, folder, file, header)
    if opened_by[header] then
        return opened_by[header] ~= file and layer ~= header:match "^%w+"
            and ('"%s" may be seen by %s only'):format(header, opened_by[header]) or nil
    end
    if header == "config.h" or header == "phase.h" then return nil end -- made by the build
    if header == "kronlat.h" then
        return layer ~= "lib" and layer ~= "cli" and "kronlat.h is for src/lib and src/cli" or nil
    end
    -- its own neighbour, in offload/ and cuda/
    if read(folder .. "/" .. header) then return nil end
    local other = header:match "^([%w_]+)/[%w_]+%.h$"
    if not other or not may[other] then
        return ('"%s" is in no folder of tests/habits/layers.lua'):format(header)
    end
    if not may[layer][other] then return ('%s includes "%s"; it may see %s'):format(layer, header,
        table.concat((function()
        local names = {}
        for name in pairs(may[layer]) do names[#names + 1] = name end
        table.sort(names)
        return names
    end)(), ", ")) end
end

local function check_file(layer, folder, file)
    local faults = {}
    local text = assert(read(folder .. "/" .. file))
    local function fault(line, ...)
        faults[#faults + 1] = ("%s/%s:%d: "):format(folder, file, line) .. string.format(...)
    end
    local number = 0
    for line in (text .. "\n"):gmatch "(.-)\n" do
        number = number + 1
        local mine, theirs = line:match '^%s*#%s*include%s+"([^"]+)"',
            line:match "^%s*#%s*include%s+<([^>]+)>"
        for _, h in ipairs(system_headers) do
            -- a library's header in quotes
            if mine and mine:find(h.find) and not mine:find "/" then mine, theirs = nil, mine end
        end
        local why = mine and include_fault(layer, folder, file, mine)
        if why then fault(number, "%s", why) end
        for _, h in ipairs(system_headers) do
            if theirs and theirs:find(h.find) and not allowed(h.only, layer, file) then
                fault(number, "<%s> does not belong in %s", theirs, layer)
            end
        end
    end
    number = 0
    local stripped = strip(text)
    local here = {} -- a file has few of these words: no line need be looked at for all others
    for _, p in ipairs(places) do
        local patterns = {}
        for _, pattern in ipairs(allowed(p.only, layer, file) and {} or p.find) do
            if stripped:find(assert(pattern:match "%a[%w_]+%a"), 1, true) then
                patterns[#patterns + 1] = pattern
            end
        end
        if #patterns > 0 then here[#here + 1] = { p, patterns } end
    end
    for line in (#here > 0 and stripped .. "\n" or ""):gmatch "(.-)\n" do
        number = number + 1
        for _, row in ipairs(here) do
            local p = row[1]
            for _, pattern in ipairs(row[2]) do
                local at = line:find(pattern)
                local before = at and line:sub(1, at - 1)
                -- a member of that name is no call of libc
                if at and not before:match "[%.]%s*$" and not before:match "%->%s*$" then
                    fault(number, "%s (%s): %s", p.what, line:match(pattern), p.why)
                    break
                end
            end
        end
    end
    report(folder .. "/" .. file, faults)
end

for _, row in ipairs(layers) do
    for _, folder in ipairs(folders[row[1]]) do
        for _, file in ipairs(list(folder)) do check_file(row[1], folder, file) end
    end
end

-- src/ itself holds the program's entry alone.
local strays = {}
for _, file in ipairs(list "src") do
    if file ~= "main.c" then strays[#strays + 1] = "src/" .. file .. " belongs in a folder" end
end
report("src holds main.c alone", strays)
tap.finish(1)
