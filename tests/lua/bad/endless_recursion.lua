-- H = 0; expect 2: endless recursion
local function f() return f() + 1 end f()
