-- H = 0; expect 4: attempt to call a number value
site(spin(1/2))
conserve "Sz"
onsite(pi(2)*Sz(i))
