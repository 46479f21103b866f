-- C text for the tests of habits.
-- SPDX-License-Identifier: Apache-2.0
-- Use: local ctext = dofile(HERE .. "ctext.lua")
local ctext = {}

-- The text with comments and the insides of strings blanked, line breaks kept.
function ctext.strip(text)
    local out, i, n = {}, 1, #text
    while i <= n do
        local plain = text:find("[/\"']", i) or n + 1
        out[#out + 1] = text:sub(i, plain - 1)
        i = plain
        if i > n then break end
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

return ctext
