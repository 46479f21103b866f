-- docs/models.md is true: its examples are accepted, and it has every word of the language.
-- SPDX-License-Identifier: Apache-2.0
local helper = dofile((string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "./") .. "helper.lua")
local util, language = require("util"), require("language")

describe("docs/models.md", function()
    local text = util.read(helper.root .. "docs/models.md")
    local count = 0
    for example in string.gmatch(text, "```lua\n(.-)```") do
        count = count + 1
        it("has an example " .. count .. " that works", function()
            local c, line, why = helper.generate(example)
            assert.is_truthy(c, why and line .. ": " .. why)
        end)
    end
    it("has examples", function() assert.is_true(count >= 4) end)
    it("has every word of the language", function()
        local words = language.read(helper.model_text("heisenberg")).words
        for _, word in ipairs(util.sorted_keys(words)) do
            assert.is_truthy(string.find(text, "%f[%w_]" .. word .. "%f[^%w_]"), word)
        end
    end)
end)
