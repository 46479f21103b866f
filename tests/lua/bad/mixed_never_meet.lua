-- H = 0; expect 5: no kind of site has all of the operators
site(spin(1/2))
site("odd", boson(2))
conserve { "Sz" }
onsite(Sz(i)*n(i))
