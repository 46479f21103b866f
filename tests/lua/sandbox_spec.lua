-- A model file cannot reach out of its box, cannot run on, and leaves nothing behind.
-- SPDX-License-Identifier: Apache-2.0
local helper = dofile((string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "./") .. "helper.lua")

local function refused(text)
    local out, line, why = helper.lower(text)
    assert.is_nil(out)
    return line, why
end

local limits = require("util").limits

describe("sandbox", function()
    local seconds = limits.seconds
    setup(function() limits.seconds = 0.3 end)
    teardown(function() limits.seconds = seconds end)
    it("has none of Lua's libraries", function()
        for _, name in ipairs({"io", "os", "debug", "package", "string", "table", "math", "coroutine", "utf8",
            "require", "load", "loadstring", "loadfile", "dofile",
            "pcall", "xpcall", "error", "assert", "print", "getmetatable", "setmetatable", "rawget", "rawset",
                "rawequal", "next", "select", "tostring", "tonumber",
            "type", "collectgarbage", "ipairs", "_G", "arg", "warn"}) do
            local line, why = refused("-- H\nlocal a = 1\nlocal b = " .. name .. "\n")
            assert.are.equal(3, line)
            assert.is_truthy(string.find(why, "unknown name '" .. name .. "'", 1, true), why)
        end
    end)
    it("gives strings no methods, and gives them back to everybody else", function()
        for _, call in ipairs({'("x"):rep(9)', '("x").format', '(""):dump()', '("%d"):format(1)'}) do
            refused("-- H\nlocal a = " .. call .. "\na = a + 1\n")
        end
        assert.are.equal("xx", ("x"):rep(2))
    end)
    it("keeps the words of the language and its own tables as they are", function()
        for _, text in ipairs({"bond = 1", "pi = 3", "_ENV.Sz = 1", "spin = nil", "function site() end"}) do
            local line = refused("-- H\nsite(spin(1/2))\n" .. text .. "\nconserve \"Sz\"\nonsite(Sz(i))\n")
            assert.are.equal(3, line, text)
        end
        assert.is_truthy(helper.lower(helper.model_text("heisenberg")))
    end)
    it("ends what does not end by itself", function()
        for _, text in ipairs({"while true do end", "repeat until false", "::a:: goto a",
            "for n = 1, 1e18 do end", "local function f() f() end f()",
            "local t = {} for n = 1, 1e9 do t[n] = {} end", "local x = 'abc' while true do x = x .. x end",
                "local t = {} while true do t = {t, t, {}} end",
            "local function f() return f() end f()", "site(spin(1/2)) x = Sz(i) while true do x = x + x end",
                "site(spin(1/2)) x = Sz(i) while true do x = x * x end"}) do
            local before = os.clock()
            refused("-- H\n" .. text .. "\n")
            assert.is_true(os.clock() - before < 10, text)
        end
    end)
    it("refuses compiled chunks", function()
        refused("-- H\n" .. string.dump(function() end))
        refused(string.dump(function() end))
        refused("")
        refused("\0")
        refused("-- H\n\0")
    end)
end)
