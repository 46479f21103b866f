-- H = 0; expect 7: needs the name of a class first
site(spin(1/2))
conserve "Sz"
parameters { J = 1, h = per_site(0), K = per_bond(1) }
bond("nn", J*K * Sz(i)*Sz(j))
onsite(h * Sz(i))
bond(J * Sz(i)*Sz(j))
