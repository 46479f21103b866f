-- H = 0; expect 7: needs one of the sites i, j, k, l, got the number 0
site(spin(1/2))
conserve "Sz"
parameters { J = 1, h = per_site(0), K = per_bond(1) }
bond("nn", J*K * Sz(i)*Sz(j))
onsite(h * Sz(i))
onsite(J * Sz(0))
