-- H = 0; expect 4: J is given twice
site(spin(1/2))
conserve "Sz"
parameters { J = 1, J = 2 }
bond("nn", J*Sz(i)*Sz(j))
