-- H = 0; expect 5: onsite, bond, pairs and run are sums over sites by themselves
site(spin(1/2))
conserve "Sz"
parameters { h = 1 }
for site = 1, N do onsite(h * Sz(i)) end
