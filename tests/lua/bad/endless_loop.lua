-- H = 0; expect 2: runs too long
while true do end
