-- H = 0; expect 5: runs too long
site(spin(1))
conserve "Sz"
parameters { J = 1 }
for d = 1, 1e9 do pairs(d, J*(1/3)^d*S_dot_S(i,j)) end
