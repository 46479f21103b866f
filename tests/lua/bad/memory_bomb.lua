-- H = 0; expect 2: needs too much memory
local x = "xxxxxxxx" for n = 1, 100 do x = x .. x end
