-- Every file of tests/lua/bad is refused with file, line and the reason that its first line names; so are bad
-- command lines.
-- SPDX-License-Identifier: Apache-2.0
local helper = dofile((string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "./") .. "helper.lua")
local util = require("util")

local function check_one_line(err)
    assert.is_truthy(string.find(err, "^[^\n]+:%d+: [^\n]+\n$"), err)
    assert.is_nil(string.find(err, "traceback", 1, true), err)
    assert.is_nil(string.find(err, "internal error", 1, true), err)
end

describe("bad model", function()
    local _, list = helper.run("ls " .. helper.here .. "bad")
    local count = 0
    for name in string.gmatch(list, "(%S+)%.lua") do
        count = count + 1
        it(name, function()
            local path = helper.here .. "bad/" .. name .. ".lua"
            local line, fragment = string.match(util.read(path), "expect (%d+): ([^\n]*)")
            local out = os.tmpname()
            os.remove(out)
            local rc, stdout, err = helper.gen(string.format("--model %s --out %s", path, out),
                string.find(fragment, "runs too long", 1, true) and 1)
            assert.are.equal(2, rc, err)
            assert.are.equal("", stdout)
            check_one_line(err)
            local where = path .. ":" .. line .. ": "
            assert.are.equal(where, string.sub(err, 1, #where))
            assert.is_truthy(string.find(err, fragment, 1, true), err .. " lacks " .. fragment)
            assert.is_nil(util.read(out)) -- nothing half written
        end)
    end
    it("comes in at least 40 kinds", function() assert.is_true(count >= 40) end)
end)

describe("bad command line", function()
    local model = helper.model_path("heisenberg")
    local cases = {
        {"", "--model, --registry, --phase or --embed is needed"},
        {"--model " .. model, "--out or --describe is needed"},
        {"--model", "--model needs a value"},
        {"--mdel x", "unknown option '--mdel'; did you mean '--model'?"},
        {"--model nowhere.lua --out x.c", "nowhere.lua:1: cannot be read"},
        {"--model " .. model .. " --set SS=1 --out x.c", "heisenberg.lua:4: no structural parameter 'SS'"},
        {"--model " .. model .. " --set J=1 --out x.c", "J is a run-time parameter, not a structural one"},
        {"--model " .. model .. " --set S=two --out x.c", "heisenberg.lua:4: S=two is not a number"},
        {"--model " .. model .. " --set S=0.3 --out x.c", "heisenberg.lua:6: the spin must be 1/2, 1, 3/2"},
        {"--model " .. helper.model_path("bose_hubbard") .. " --set n_maximum=4 --out x.c",
            "did you mean 'n_max'?"},
        {"--model " .. helper.model_path("bose_hubbard") .. " --set n_max=4.5 --out x.c",
            "bose_hubbard.lua:6: boson(n_max) needs a whole number of at least 1, got 4.5"},
        {"--model " .. model .. " --set S --out x.c", "NAME=VALUE is expected"},
        {"--model " .. model .. " --symbol 2x --out x.c", "'2x' is not a C name"},
        {"--model " .. model .. " --out /nonexistent/folder/x.c", "cannot be written"},
    }
    for _, case in ipairs(cases) do
        it(case[2], function()
            local rc, _, err = helper.gen(case[1])
            assert.are.equal(2, rc, err)
            check_one_line(err)
            assert.is_truthy(string.find(err, case[2], 1, true), err)
        end)
    end
end)
