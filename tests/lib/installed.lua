-- The library as others have it: installed into an empty folder, found by pkg-config alone, its example
-- built by several compilers, its names compared with a list.
-- SPDX-License-Identifier: Apache-2.0
-- Use: lua5.4 tests/lib/installed.lua SOURCE BUILD PREFIX LIBDIR KINDS COMPILER...; KINDS are
-- "shared static", a COMPILER is "gcc" or "g++ -x c++"; prints TAP, exits 1 on a failure.
local source, build, prefix, libdir, kinds = table.unpack(arg, 1, 5)
local ntest, nfail = 0, 0
local function ok(good, name, ...)
    ntest = ntest + 1
    if not good then nfail = nfail + 1 end
    print(("%s %d - %s"):format(good and "ok" or "not ok", ntest, name))
    if not good then
        for _, text in ipairs { ... } do print((("# " .. tostring(text)):gsub("\n", "\n# "))) end
    end
    return good
end
local function shell(line)
    local pipe = assert(io.popen("{ " .. line .. " ; } 2>&1"))
    local out = pipe:read "a"
    local good = pipe:close()
    return good, out
end
local function lines(text)
    local list = {}
    for line in text:gmatch "[^\n]+" do list[#list + 1] = line end
    table.sort(list)
    return table.concat(list, "\n")
end
local function read(path)
    local file = assert(io.open(path))
    local text = file:read "a"
    file:close()
    return text
end

local _, folder = shell "mktemp -d"
folder = folder:match "[^\n]+"
local root = folder .. "/root"
local good, out = shell(("DESTDIR=%s meson install -C %s --no-rebuild --quiet"):format(root, build))
ok(good, "installed into an empty folder", out)

-- pkg-config as a user has it, who installed to `root`
local lib = root .. prefix .. "/" .. libdir
local config = ("PKG_CONFIG_PATH=%s/pkgconfig pkg-config --define-variable=prefix=%s%s")
    :format(lib, root, prefix)
good, out = shell(config .. " --cflags --libs kronlat")
local alone = out:find("-lkronlat", 1, true) and not out:find "hdf5"
ok(good and alone, "pkg-config names this library alone", out)

local kept
for i = 6, #arg do
    for kind in kinds:gmatch "%S+" do
        local static = kind == "static"
        local flags = ("$(%s --cflags --libs kronlat)"):format(config)
        if static then
            flags = ("$(%s --cflags kronlat) -Wl,-Bstatic $(%s --libs kronlat) "):format(config, config)
                .. ("-Wl,-Bdynamic $(%s --libs --static kronlat | sed s/-lkronlat//)"):format(config)
        end
        local program = folder .. "/library"
        local compile = "%s -Wall -Wextra -Werror %s/examples/library.c -o %s %s"
        good, out = shell(compile:format(arg[i], source, program, flags))
        if ok(good, ("%s builds the example, %s"):format(arg[i], kind), out) then
            good, out = shell(("LD_LIBRARY_PATH=%s %s"):format(static and "/nonexistent" or lib, program))
            kept = kept or out
            local right = out:match "^E = %-6%.22563414%d+, to %S+\n<n_up> at site 0: 0%.500000\n"
            ok(good and out == kept and right, ("what %s made runs, %s"):format(arg[i], kind), out)
        end
    end
end

-- The program as it is installed: a model of one's own with no compiler and no Lua to be found, its manual
-- page, and completion where shells look for it.
local program = root .. prefix .. "/bin/kronlat"
local command = "dmrg %s/examples/ionic.lua --sites 8 --charge N_up=4 --charge N_dn=4 --output none --json"
good, out = shell(("cd / && env -i PATH=/nonexistent HOME=%s %s " .. command):format(folder, program, source))
local energy = tonumber(out:match '"energy": *(%-[%d%.]+)')
local right = good and energy and math.abs(energy + 4.8205862301348) < 1e-8
ok(right, "a model of one's own, no compiler and no Lua", out)
local share = root .. prefix .. "/share"
for _, file in ipairs { "man/man1/kronlat.1", "man/man1/kronlat-dmrg.1", "kronlat/models/hubbard.lua",
    "bash-completion/completions/kronlat.bash", "zsh/site-functions/_kronlat",
    "fish/vendor_completions.d/kronlat.fish" } do
    local there = io.open(share .. "/" .. file)
    if there then there:close() end
    ok(there ~= nil, "installed: share/" .. file)
end
if shell "command -v man" then
    good, out = shell(("MANPATH=%s/man man -P cat kronlat"):format(share))
    ok(good and out:find "NAME" and out:find "kronlat", "man kronlat", out:sub(1, 200))
end

-- The CUDA module is looked for in the folder of the library in use, wherever the program lies.
local asks = [[
#include <kronlat.h>
#include <stdio.h>
int main(void)
{
    kronlat_problem *p = NULL;
    kronlat_result *r = NULL;
    kronlat_error *const e = kronlat_error_create();
    const int failed =
        kronlat_problem_create("heisenberg", &p, e) || kronlat_problem_set(p, "sites", "4", e) ||
        kronlat_problem_set(p, "exec", "cuda", e) || kronlat_problem_set(p, "charge", "Sz=0", e) ||
        kronlat_ed(p, &r, e);
    printf("%s", failed ? kronlat_error_message(e) : "found");
}
]]
if kinds:find "shared" then
    local file = assert(io.open(folder .. "/asks.c", "w"))
    file:write(asks)
    file:close()
    local flags = ("$(%s --cflags --libs kronlat)"):format(config)
    good, out = shell(("%s %s/asks.c -o %s/asks %s"):format(arg[6], folder, folder, flags))
    ok(good, "a program that asks for CUDA is built", out)
    local module = lib .. "/libkronlat-cuda.so"
    local there = io.open(module)
    if there then there:close() end
    _, out = shell(("cd / && env -u KRONLAT_CUDA LD_LIBRARY_PATH=%s %s/asks"):format(lib, folder))
    local absent = out:find("is not built into", 1, true)
    ok(there and not absent or absent and out:find(lib, 1, true), "the CUDA module is looked for there", out)
end

-- Names: a list by hand, the header, and what both libraries show.
local golden = lines(read(source .. "/tests/lib/symbols.txt"))
local declared = {}
local header = read(source .. "/include/kronlat.h"):gsub("/%*.-%*/", "")
for name in header:gmatch "(kronlat_[%w_]+)%(" do declared[#declared + 1] = name end
ok(lines(table.concat(declared, "\n")) == golden, "the header declares what the list names", #declared)
for kind in kinds:gmatch "%S+" do
    local file = kind == "shared" and "-D %s/libkronlat.so" or "-g %s/libkronlat.a"
    good, out = shell("nm --defined-only " .. file:format(lib) .. " | awk 'NF == 3 { print $3 }'")
    ok(good and lines(out) == golden, "the " .. kind .. " library shows these names and no other", out)
end
good, out = shell(("readelf -d %s/libkronlat.so"):format(lib))
ok(good and out:match "SONAME.*%[libkronlat%.so%.0%]", "the shared library has its soname", out)
good, out = shell(("nm -D --undefined-only %s/libkronlat.so"):format(lib))
local forbidden
for name in ("exit _exit abort signal sigaction setlocale atexit printf puts"):gmatch "%S+" do
    if out:find((" %s@"):format(name), 1, true) then forbidden = name end
end
ok(good and not forbidden, "no exit, no signal handler, no locale, nothing printed", forbidden)

os.execute("rm -rf " .. folder)
print("1.." .. ntest)
os.exit(nfail == 0)
