-- H = 0; expect 3: not small multiples
site(spin(1/2))
conserve { Q = pi*Sz }
onsite(Sz(i))
