-- H = 0; expect 6: changes N_up by 1
site(electron())
conserve { "N_up", "N_dn" }
parameters { t = 1 }
bond("nn", -t * (sum(s, cdag(i,s)*c(j,s)) + hc))
onsite(t * (cdag_up(i)*c_dn(i) + hc))
