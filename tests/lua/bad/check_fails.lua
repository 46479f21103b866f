-- H = 0; expect 3: S must be 1
structural { S = 1/2 }
check(S == 1, "S must be 1")
site(spin(S))
