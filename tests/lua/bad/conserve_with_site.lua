-- H = 0; expect 3: is written without sites
site(spin(1/2))
conserve { Q = Sz(i) }
onsite(Sz(i))
