-- H = 0; expect 4: the parameter Delta is not used
site(spin(1/2))
conserve "Sz"
parameters { Delta = 1 }
bond("nn", Sz(i)*Sz(j))
