-- Small helpers of the generator: refusals with a line, numbers as text, content hash, files. Knows nothing
-- of physics.
-- SPDX-License-Identifier: Apache-2.0
local util = {}

local MAX_REASON = 900 -- bytes of a refusal, which is one line
util.CHUNK = "@MODEL" -- chunk name of every model text; messages get the real path when they leave

-- Line of the model file that is being run, found on the call stack; nil outside of it.
function util.model_line()
    local level = 2
    while true do
        local info = debug.getinfo(level, "Sl")
        if not info then return nil end
        if info.source == util.CHUNK and info.currentline > 0 then return info.currentline end
        level = level + 1
    end
end

-- Leaves with a reason for the user. The line is the one given, or the one of the model that is being run.
function util.refuse_at(line, fmt, ...)
    local text = string.format(fmt, ...)
    if #text > MAX_REASON then text = string.sub(text, 1, MAX_REASON) .. "..." end
    error({refusal = true, line = line or 1, text = text}, 0)
end
function util.refuse(fmt, ...) util.refuse_at(util.model_line(), fmt, ...) end

-- What the action returns; or nil, line and reason of its refusal. A user gets no traceback: any other error
-- is a refusal too.
function util.attempt(action, ...)
    local ok, result = xpcall(action, function(e)
        if type(e) == "table" and e.refusal then return e end
        return {text = "internal error of the generator: " .. tostring(e), line = util.model_line() or 1}
    end, ...)
    if ok then return result end
    return nil, result.line, (string.gsub(result.text, "%s+", " "))
end

-- Names of a table in sorted order: the only order in which the generator walks a table with names.
function util.sorted_keys(t)
    local keys = {}
    for k in pairs(t) do keys[#keys + 1] = k end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    return keys
end

-- of a model that the generator's command reads; a molecule's list of terms is long
util.limits = {seconds = 10, seconds_per_byte = 2e-5, kib = 512 * 1024}
-- instructions between two looks: of a model's text, whose strings can double in three; of the generator
util.SHORT_STEPS, util.LONG_STEPS = 10, 1000
local CLOCK_STEPS = 10000   -- between two looks at the time

-- Lua does not know the line of a stack that is full.
local function with_line(e)
    if type(e) ~= "string" or not string.find(e, "stack overflow", 1, true) or string.find(e, "^MODEL:") then
        return e end
    return string.format("MODEL:%d: %s", util.model_line() or 1, e)
end

-- The action's results, which is given bounded memory, and time by the length of the model's text. Inside the
-- program its box bounds all that runs (src/lua/luabox.c), and there are no hooks.
function util.bounded(text, steps, action, ...)
    local hooked = debug.sethook and not debug.gethook()
    local function stop(why)
        debug.sethook() -- or the hook would refuse again while this refusal is passed on
        util.refuse("%s", why)
    end
    if hooked then
        local stop_at = os.clock() + util.limits.seconds + util.limits.seconds_per_byte * #text
        local floor, count = collectgarbage("count"), 0
        debug.sethook(function()
            count = count + steps
            if count % CLOCK_STEPS == 0 and os.clock() > stop_at then
                stop("the model runs too long (an endless loop?)")
            end
            if collectgarbage("count") > floor + util.limits.kib then
                stop("the model needs too much memory")
            end
        end, "", steps)
    end
    local results = table.pack(xpcall(action, with_line, ...))
    if hooked then debug.sethook() end
    if not results[1] then error(results[2], 0) end
    return table.unpack(results, 2, results.n)
end

-- A table that a model made: it has no metatable. What the language hands out has one.
function util.is_plain(v) return type(v) == "table" and getmetatable(v) == nil end

local function edit_distance(a, b)
    local row = {}
    for q = 0, #b do row[q] = q end
    for p = 1, #a do
        local diagonal = row[0]
        row[0] = p
        for q = 1, #b do
            local cost = string.byte(a, p) == string.byte(b, q) and 0 or 1
            local best = math.min(row[q] + 1, row[q - 1] + 1, diagonal + cost)
            diagonal, row[q] = row[q], best
        end
    end
    return row[#b]
end

-- Candidate nearest to `word`, nil when none is near.
function util.closest(word, candidates)
    if #word > 64 then return nil end
    local best, best_distance
    for _, candidate in ipairs(candidates) do
        local d = edit_distance(string.lower(word), string.lower(candidate))
        local short = math.min(#word, #candidate)
        if short >= 3 and string.sub(word, 1, short) == string.sub(candidate, 1, short) then
            d = math.min(d, 1) end
        if #candidate > 1 and d <= math.max(1, math.min(#word, #candidate) // 2)
            and (not best or d < best_distance) then
            best, best_distance = candidate, d
        end
    end
    return best
end

-- "; did you mean 'Sp'?" or, without a near one, the list.
function util.hint(word, candidates, what)
    local near = util.closest(word, candidates)
    if near then return string.format("; did you mean '%s'?", near) end
    if #candidates == 0 then return string.format("; there are no %s", what) end
    local shown = {}
    for c = 1, math.min(#candidates, 40) do shown[c] = candidates[c] end
    return string.format("; %s: %s%s", what, table.concat(shown, ", "), #candidates > 40 and ", ..." or "")
end

-- Shortest decimal text that reads back as the same double.
function util.number(v)
    if v == math.floor(v) and math.abs(v) < 1e15 then return string.format("%d", math.tointeger(v)) end
    for digits = 15, 17 do
        local s = string.format("%." .. digits .. "g", v)
        if tonumber(s) == v then return s end
    end
    return string.format("%.17g", v)
end

-- The same as a C double constant.
function util.c_number(v)
    local s = util.number(v)
    if not string.find(s, "[.en]") then s = s .. ".0" end
    return s
end

-- For people: small fractions as such.
function util.fraction(v)
    if v == math.floor(v) then return util.number(v) end
    for den = 2, 12 do
        local num = v * den
        if num == math.floor(num) and math.abs(num) < 1000 then
            return string.format("%d/%d", math.tointeger(num), den)
        end
    end
    return util.number(v)
end

-- "1/2", "3", "1e-3" -> number; nil for anything else.
function util.parse_number(text)
    local a, b = string.match(text, "^%s*([^/]+)/([^/]+)$")
    if a then
        a, b = tonumber(a), tonumber(b)
        if not a or not b or b == 0 then return nil end
        return a / b
    end
    return tonumber(text)
end

function util.is_finite(v) return v == v and v ~= math.huge and v ~= -math.huge end
function util.is_integer(v)
    return type(v) == "number" and util.is_finite(v) and v == math.floor(v) and math.abs(v) < 2 ^ 53
end

-- For messages: what stands where a number is wanted. No address of a table, whose digits differ from run to
-- run, and no -nan, which 0/0 is on some processors.
function util.described(v)
    if type(v) == "string" then return string.format("the text \"%s\"", string.sub(v, 1, 60)) end
    if type(v) == "boolean" or v == nil then return tostring(v) end
    if type(v) ~= "number" then return "a " .. type(v) end
    if v ~= v then return "not a number" end
    if not util.is_finite(v) then return v > 0 and "infinity" or "-infinity" end
    return util.number(v)
end

-- C string literal.
function util.c_string(s)
    local body = string.gsub(s, '[%c"\\?]', function(ch)
        if ch == '"' or ch == "\\" then return "\\" .. ch end
        if ch == "?" then return "\\?" end
        if ch == "\n" then return "\\n" end
        return string.format("\\%03o", string.byte(ch))
    end)
    return '"' .. body .. '"'
end

-- Text that is safe inside a C comment.
function util.c_comment(s)
    s = string.gsub(s, "%c", " ")
    s = string.gsub(s, "%*/", "* /")
    return (string.gsub(s, "/%*", "/ *"))
end

-- FNV-1a, 64 bits; pieces are separated so that moving text between them changes the hash. `before`: the hash
-- of pieces before these.
function util.hash(pieces, before)
    local h, byte = before or 0xcbf29ce484222325, string.byte
    for _, piece in ipairs(pieces) do
        for p = 1, #piece do h = (h ~ byte(piece, p)) * 0x100000001b3 end
        h = (h ~ 256) * 0x100000001b3
    end
    return h
end

function util.read(path)
    local f, why = io.open(path, "rb")
    if not f then return nil, why end
    local text
    text, why = f:read("a")
    f:close()
    return text, why
end

-- Writes only what differs, so that a build system sees no change where there is none.
function util.write_if_changed(path, text)
    if util.read(path) == text then return true end
    local f, why = io.open(path, "wb")
    if not f then return nil, why end
    local ok
    ok, why = f:write(text)
    if not f:close() then ok = nil end
    return ok, why
end

return util
