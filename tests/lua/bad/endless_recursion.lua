-- H = 0; expect 2: the model runs too long
local function f() return f() + 1 end f()
