-- H = 0; expect 2: attempt to call a nil value (method 'rep')
local x = ("x"):rep(1e9)
