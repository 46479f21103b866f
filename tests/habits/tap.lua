-- What the habits report: a line of TAP for each name, and what is at fault below it.
-- SPDX-License-Identifier: Apache-2.0
local tap = { ntest = 0, nfail = 0 }

function tap.report(name, faults)
    tap.ntest = tap.ntest + 1
    if #faults > 0 then tap.nfail = tap.nfail + 1 end
    print(("%s %d - %s"):format(#faults == 0 and "ok" or "not ok", tap.ntest, name))
    for _, fault in ipairs(faults) do print("# " .. fault) end
end

-- Ends the program; fewer tests than `least` are a failure, too.
function tap.finish(least)
    print("1.." .. tap.ntest)
    os.exit(tap.nfail == 0 and tap.ntest >= least)
end

return tap
