-- H = 0; expect 6: the flavour s is not summed
site(electron())
conserve { "N_up", "N_dn" }
parameters { t = 1 }
bond("nn", -t * (sum(s, cdag(i,s)*c(j,s)) + hc))
onsite(t * n(i, s))
