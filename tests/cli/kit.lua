-- What tests of the program from outside share: a folder of their own, the program run there, JSON read, TAP
-- printed.
-- SPDX-License-Identifier: Apache-2.0
-- Use: local kit = dofile(HERE .. "kit.lua"), where arg[1] is the program.

local pipe = io.popen("pwd") -- the tests run in another folder
local pwd = pipe:read("l")
pipe:close()
local function absolute(path) return path:sub(1, 1) == "/" and path or pwd .. "/" .. path end
local program = absolute(assert(arg[1], "the program's path is missing"))

local ntest, failures = 0, {}
local function ok(good, name, ...)
    ntest = ntest + 1
    print(("%s %d - %s"):format(good and "ok" or "not ok", ntest, name))
    if not good then
        local report = { ("# %d failed: %s"):format(ntest, name) }
        for _, text in ipairs { ... } do report[#report + 1] = "# " .. tostring(text):gsub("\n", "\n# ") end
        failures[#failures + 1] = table.concat(report, "\n")
        print(failures[#failures])
    end
    return good
end
local function skip(name, why)
    ntest = ntest + 1
    print(("ok %d - %s # SKIP %s"):format(ntest, name, why))
end

local function quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end
local function slurp(path)
    local f = io.open(path, "rb")
    if not f then return nil end
    local text = f:read("a")
    f:close()
    return text
end
local function spill(path, text)
    local f = assert(io.open(path, "wb"))
    f:write(text)
    f:close()
end

pipe = io.popen("mktemp -d")
local folder = pipe:read("l")
pipe:close()
local function at(name) return folder .. "/" .. name end

-- Runs a shell line in the folder with $K as the program: status, stdout, stderr.
local function shell(line)
    local full = ("cd %s && export K=%s && { %s ; } >%s 2>%s </dev/null"):format(quote(folder),
        quote(program), line, quote(folder .. ".out"), quote(folder .. ".err"))
    local _, how, code = os.execute(full)
    return how == "exit" and code or 128 + code, slurp(folder .. ".out"), slurp(folder .. ".err")
end
local function run(line) return shell("$K " .. line) end

local function files()
    local list = {}
    local p = io.popen("ls -1 " .. quote(folder))
    for name in p:lines() do list[#list + 1] = name end
    p:close()
    return table.concat(list, " ")
end

-- Reads JSON as strictly as needed to see that it is JSON. null: what stands for null (nil: nothing does);
-- lists have `list` as their metatable.
local list = {}
local function json(text, null)
    local pos = 1
    local value
    local function blank() pos = text:find("[^ \n\t\r]", pos) or #text + 1 end
    local function take(s)
        blank()
        if text:sub(pos, pos + #s - 1) ~= s then error(("%s expected at byte %d"):format(s, pos)) end
        pos = pos + #s
    end
    local function peek() blank() return text:sub(pos, pos) end
    local function string_value()
        take '"'
        local out = {}
        while true do
            local c = text:sub(pos, pos)
            if c == "" or c:byte() < 32 then error("string broken at byte " .. pos) end
            pos = pos + 1
            if c == '"' then return table.concat(out) end
            if c == "\\" then
                local e = text:sub(pos, pos)
                if e == "u" then pos = pos + 4 elseif not e:match('["\\/bfnrt]') then error("escape at byte "
                    .. pos) end
                pos = pos + 1
            end
            out[#out + 1] = c
        end
    end
    function value()
        local c = peek()
        if c == "{" then
            local t = {}
            take "{"
            if peek() == "}" then take "}" return t end
            repeat
                blank()
                local key = string_value()
                take ":"
                t[key] = value()
                local more = peek() == ","
                take(more and "," or "}")
            until not more
            return t
        elseif c == "[" then
            local t = setmetatable({}, list)
            take "["
            if peek() == "]" then take "]" return t end
            repeat
                t[#t + 1] = value()
                local more = peek() == ","
                take(more and "," or "]")
            until not more
            return t
        elseif c == '"' then return string_value()
        end
        local word = text:match("^[%w%+%-%.]+", pos) or error("value expected at byte " .. pos)
        pos = pos + #word
        if word == "null" then return null elseif word == "true" then return true elseif word == "false" then
            return false end
        return tonumber(word) or error("'" .. word .. "' is no number")
    end
    local good, result = pcall(function()
        local v = value()
        blank()
        if pos <= #text then error("more text at byte " .. pos) end
        return v
    end)
    if not good then return nil, result end
    return result
end

local function near(a, b, tolerance) return a ~= nil and math.abs(a - b) <= tolerance end

local function energy(line)
    local status, out, err = run(line .. " --json")
    local doc, why = json(out)
    if status ~= 0 or not doc then return nil, ("status %d: %s%s"):format(status, err, why or "") end
    return doc.energy, doc
end

-- Bad input: one line that holds the word, status 2, and no file more or less.
local function refused(line, word, raw)
    local before = files()
    local status, out, err = (raw and shell or run)(line)
    local lines = select(2, err:gsub("\n", ""))
    ok(status == 2 and out == "" and lines == 1 and err:match "^kronlat: " and err:find(word, 1,
        true) and files() == before,
       "refused: " .. line:sub(1, 90), ("status %d, %d lines, files %s"):format(status, lines, files()), err)
end

-- Where two values of JSON differ.
local function difference(a, b, where) -- the first, or nothing
    if type(a) ~= "table" or type(b) ~= "table" then return a ~= b and ("%s is %s, not %s"):format(where,
        tostring(a), tostring(b)) or nil end
    for _, t in ipairs { a, b } do
        for k in pairs(t) do
            local found = difference(a[k], b[k], where .. "/" .. k)
            if found then return found end
        end
    end
end

-- The end of a test: what failed once more, the plan, and the folder gone.
local function finish()
    os.execute("rm -rf " .. quote(folder) .. " " .. quote(folder .. ".out") .. " " .. quote(folder .. ".err"))
    for _, text in ipairs(failures) do print(text) end
    print("1.." .. ntest)
    os.exit(#failures == 0 and ntest > 0)
end

return {
    absolute = absolute, program = program, ok = ok, skip = skip, quote = quote, slurp = slurp, spill = spill,
    at = at, folder = folder, shell = shell, run = run, files = files, json = json, list = list, near = near,
    energy = energy, refused = refused, difference = difference, finish = finish,
}
