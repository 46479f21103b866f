-- H = 0; expect 5: 'J' is already a parameter
site(spin(1/2))
conserve "Sz"
parameters { J = 1 }
parameters { J = 2 }
bond("nn", J*Sz(i)*Sz(j))
