-- H = 0; expect 2: the structural parameter S is not used
structural { S = 1 }
site(spin(1/2))
conserve "Sz"
bond("nn", Sz(i)*Sz(j))
