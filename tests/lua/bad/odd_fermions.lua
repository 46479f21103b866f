-- H = 0; expect 6: odd number of fermionic operators
site(electron())
conserve { "N_up", "N_dn" }
parameters { t = 1 }
bond("nn", -t * (sum(s, cdag(i,s)*c(j,s)) + hc))
onsite(t * (c_up(i) + hc))
