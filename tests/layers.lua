-- Reads every #include in src/, offload/ and cuda/ and fails where a file looks upwards, where a file has no row below, and where something appears
-- outside the one place it belongs to (printing, exits, malloc, target pragmas, CUDA, OpenMP, liblua, HDF5). It reads text, not meaning: what one
-- layer may know of another through a struct it was handed is for the reviewer.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/layers.lua [ROOT]; prints TAP, exits 1 on a failure.

-- A file may include its own layer and lower ones, except what `blind` takes away. Two things stand lower than their use suggests:
-- dense and gemm are arithmetic without physics, so that every layer may call them; lattice, params and terms are layer 1 because coefficients of the
-- generated tables are functions of a lattice's sites and a user's parameters, and because they know no sectors.
local layer_of = {
    [0] = "base clones config dense dev divide folder blas gemm gemm_tmpl infile isa luabox luapattern luawords mem par partial pool prof random",
    [1] = "coef embedded fcidump lattice model modelread params phase siteop tables terms",
    [2] = "cimatrix determinant detstate mmfile qn sector slater spmat",
    [3] = "assemble batch chunk concat record",
    [4] = "devbatch devkron devsigma belt gram few exec exec_absent exec_cuda exec_host hybrid pick moves sigma spmv spmv_tmpl batch_host fuse_host kron kron_host kron_kernel kron_tmpl cells cutting dests tiling spdev ptx fold_device spmv_device kron_device spmv_host",
    [5] = "columns davidson eig eigbase lanczos lean linop lobpcg ortho keep neumann",
    [6] = "block canonical ci cifile dmrg ed engine flavour coo growth halves measure mpo plan reclist renorm request result schedule state superblock edspectral edthermal kronmat kronsum spfile strands ways h5 sealed statefile turn",
    [7] = "bench beside bench_hx bench_offload bench_ci bench_compare bench_tall cicli bench_ed edkeep edmeasure edprobe edrun explain inventory job json lastwords main optime options outputs pace plot report task tune venue runfile edreport",
}

-- What a layer may not see although it lies below: executors and solvers run anything, so they see no model and no lattice.
local blind = {
    [4] = "lattice coef embedded model modelread params phase tables terms",
    [5] = "lattice coef embedded model modelread params phase tables terms sector",
}

-- Folders beside src/: each is a layer 4 of its own; exec.c and the loader of the CUDA module see them.
local folders = { src = "src", offload = 4, cuda = 4 }

-- pattern, where it is allowed (layer numbers, folder names or file names), what to do instead. Patterns see code without comments and strings.
local function word(w) return "%f[%w_]" .. w .. "%f[^%w_]" end
local function call(w) return word(w) .. "%s*%(" end
local places = {
    { what = "prints", only = { 7 }, why = "only layer 7 prints; return a kl_status with a message",
      find = { call "printf", call "vprintf", call "puts", call "putchar", call "perror", word "stdout", word "stderr" } },
    { what = "ends the program", only = { 7 }, why = "return a kl_status",
      find = { call "exit", call "abort", call "quick_exit" } },
    { what = "allocates by itself", only = { "mem.c" }, why = "use kl_alloc and kl_free with a kind",
      find = { call "malloc", call "calloc", call "realloc", call "free", call "strdup", call "strndup", call "asprintf", call "aligned_alloc",
               call "posix_memalign", call "getline" } },
    { what = "has a target pragma", only = { "offload" }, why = "target regions live in offload/",
      find = { "#%s*pragma%s+omp%s+[%w_ ]*target" } },
    { what = "sees CUDA", only = { "cuda" }, why = "CUDA lives in cuda/",
      find = { word "cudaStream_t", call "cudaMalloc", word "__global__", word "__device__" } },
    { what = "reads numbers by the locale of the process", only = { "base.c" }, why = "use kl_parse_double",
      find = { call "strtod", call "strtof", call "strtold", call "atof", call "setlocale", call "uselocale" } },
    { what = "opens an HDF5 file", only = { "sealed.c" }, why = "kl_sealed_open and kl_sealed_create look at the seal first and pass descriptors",
      find = { call "H5Fopen", call "H5Fcreate", call "H5Fis_hdf5", call "H5Fis_accessible" } },
    { what = "starts a program", only = { "plot.c", "bench.c", "beside.c" }, why = "what a program is told may be a stranger's text",
      find = { call "system", call "popen", call "posix_spawn", call "posix_spawnp", call "execv", call "execvp", call "execve", call "execl", call "execlp" } },
    { what = "has threads of OpenMP", only = { "offload", "cuda" }, why = "they spin where they wait; kl_par_for has threads that sleep",
      find = { "#%s*pragma%s+omp%s+parallel", "#%s*pragma%s+omp%s+for" } },
    { what = "uses OpenMP", only = { 0, 4, 5, "offload", "cuda" }, why = "algorithms go through the executor",
      find = { "#%s*pragma%s+omp", call "omp_[%w_]+" } },
}
-- Library headers and who may include them.
local system_headers = {
    { find = "^lua%.h$", only = { 1, 7, "luabox.c", "luapattern.c", "luawords.c" } }, { find = "^lauxlib%.h$", only = { 1, 7, "luabox.c", "luapattern.c", "luawords.c" } },
    { find = "^lualib%.h$", only = { "luawords.c" } },
    { find = "^hdf5", only = { 6, 7 } }, { find = "^omp%.h$", only = { 0, 4, 5, "offload", "cuda" } },
    { find = "^cuda", only = { "cuda" } }, { find = "^cublas", only = { "cuda" } }, { find = "^cusparse", only = { "cuda" } },
    { find = "^cblas", only = { 0, 4 } }, { find = "^blis", only = { 0, 4 } }, { find = "^libxsmm", only = { "bench.c" } }, { find = "^lapack", only = { 0 } },
}
-- Exceptions, "file: what", each with its reason.
local excused = {
}

local root = arg[1] or "."
local layer = {}
for n, names in pairs(layer_of) do
    for name in names:gmatch("%S+") do
        assert(not layer[name], name .. " has two layers")
        layer[name] = n
    end
end
local hidden = {}
for n, names in pairs(blind) do
    hidden[n] = {}
    for name in names:gmatch("%S+") do hidden[n][name] = true end
end

local function list(folder)
    local files = {}
    local pipe = assert(io.popen(("ls -1 '%s/%s' 2>/dev/null"):format(root, folder)))
    for f in pipe:lines() do
        if f:match("%.[ch]$") or f:match("%.cu$") or f:match("%.cuh$") then files[#files + 1] = f end
    end
    pipe:close()
    return files
end

-- The text with comments and the insides of strings blanked, line breaks kept, _Pragma("...") written as the pragma that it is.
local function strip(text)
    text = text:gsub('_Pragma%s*%(%s*"([^"\n]*)"%s*%)', "#pragma %1")
    local out, i, n = {}, 1, #text
    while i <= n do
        local two, c = text:sub(i, i + 1), text:sub(i, i)
        local stop
        if two == "/*" then
            stop = select(2, text:find("*/", i + 2, true)) or n
        elseif two == "//" then
            stop = (text:find("\n", i, true) or n + 1) - 1
        elseif c == '"' or c == "'" then
            local j = i + 1
            while j <= n and text:sub(j, j) ~= c do j = j + (text:sub(j, j) == "\\" and 2 or 1) end
            stop = math.min(j, n)
        end
        if stop then
            out[#out + 1] = text:sub(i, stop):gsub("[^\n]", " ")
            i = stop + 1
        else
            out[#out + 1] = c
            i = i + 1
        end
    end
    return table.concat(out)
end

local ntest, nfail = 0, 0
local function report(name, faults)
    ntest = ntest + 1
    if #faults > 0 then nfail = nfail + 1 end
    print(("%s %d - %s"):format(#faults == 0 and "ok" or "not ok", ntest, name))
    for _, f in ipairs(faults) do print("# " .. f) end
end

local function allowed(only, n, folder, file)
    for _, o in ipairs(only) do
        if o == n and folder == "src" or o == folder or o == file then return true end
    end
    return false
end

for _, folder in ipairs { "src", "offload", "cuda" } do
    for _, file in ipairs(list(folder)) do
        local faults = {}
        local stem = file:match("^(.*)%.%w+$")
        local n = folder == "src" and layer[stem] or folder ~= "src" and folders[folder] or nil
        if not n then
            faults[1] = ("%s/%s has no row in tests/layers.lua"):format(folder, file)
        else
            local handle = assert(io.open(root .. "/" .. folder .. "/" .. file))
            local text = handle:read("a")
            handle:close()
            local function fault(line, ...) faults[#faults + 1] = ("%s/%s:%d: "):format(folder, file, line) .. string.format(...) end
            local number = 0
            for line in (text .. "\n"):gmatch("(.-)\n") do
                number = number + 1
                local mine = line:match('^%s*#%s*include%s+"([^"]+)"')
                local theirs = line:match("^%s*#%s*include%s+<([^>]+)>")
                if mine then
                    local other = mine:match("([^/]+)%.%w+$")
                    local up = layer[other]
                    for _, h in ipairs(system_headers) do
                        if mine:find(h.find) and not mine:find "^cuda/" then theirs, other = mine, nil end
                    end
                    if not other then -- a library's header in quotes
                    elseif mine:match("^offload/") or mine:match("^cuda/") then
                        if folder == "src" and stem ~= "exec" and stem ~= "exec_cuda" then fault(number, '"%s" may be seen by exec.c and exec_cuda.c only', mine) end
                    elseif folder ~= "src" and list(folder)[1] and io.open(root .. "/" .. folder .. "/" .. mine) then -- its own neighbour
                    elseif not up then fault(number, '"%s" has no row in tests/layers.lua', mine)
                    elseif up > n then fault(number, 'layer %d includes "%s" of layer %d', n, mine, up)
                    elseif hidden[n] and hidden[n][other] then fault(number, 'layer %d may not know "%s"', n, mine)
                    end
                end
                if theirs then
                    for _, h in ipairs(system_headers) do
                        if theirs:find(h.find) and not allowed(h.only, n, folder, file) then
                            fault(number, "<%s> does not belong in layer %d", theirs, n)
                        end
                    end
                end
            end
            number = 0
            for line in (strip(text) .. "\n"):gmatch("(.-)\n") do
                number = number + 1
                for _, p in ipairs(places) do
                    if not allowed(p.only, n, folder, file) and not excused[file .. ": " .. p.what] then
                        for _, pattern in ipairs(p.find) do
                            local at = line:find(pattern)
                            local before = at and line:sub(1, at - 1)
                            if at and not before:match("[%.]%s*$") and not before:match("%->%s*$") then -- a member of that name is no call of libc
                                fault(number, "%s (%s): %s", p.what, line:match(pattern), p.why)
                                break
                            end
                        end
                    end
                end
            end
        end
        report(folder .. "/" .. file, faults)
    end
end
print("1.." .. ntest)
os.exit(nfail == 0 and ntest > 0)
