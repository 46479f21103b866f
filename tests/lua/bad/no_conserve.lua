-- H = 0; expect 3: must come after conserve
site(spin(1/2))
bond("nn", Sz(i)*Sz(j))
