-- H = 0; expect 3: unknown name 'tostring'; texts and numbers are joined by two dots
site(spin(1/2))
local name = tostring(1)
