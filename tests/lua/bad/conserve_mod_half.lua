-- H = 0; expect 3: has values that are not whole numbers
site(spin(1/2))
conserve { Q = mod(Sz, 2) }
onsite(Sz(i))
