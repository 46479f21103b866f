-- H = 0; expect 5: expected
site(spin(1/2))
conserve "Sz"
bond("nn", Sz(i)*Sz(j)
