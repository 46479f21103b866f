-- H = 0; expect 7: K is per bond and can only be used in bond
site(spin(1/2))
conserve "Sz"
parameters { J = 1, h = per_site(0), K = per_bond(1) }
bond("nn", J*K * Sz(i)*Sz(j))
onsite(h * Sz(i))
onsite(K * Sz(i))
