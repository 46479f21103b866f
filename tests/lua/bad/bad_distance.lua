-- H = 0; expect 7: pairs(distance, ...) needs a positive number
site(spin(1/2))
conserve "Sz"
parameters { J = 1, h = per_site(0), K = per_bond(1) }
bond("nn", J*K * Sz(i)*Sz(j))
onsite(h * Sz(i))
pairs(-1, J * Sz(i)*Sz(j))
