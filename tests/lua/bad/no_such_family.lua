-- H = 0; expect 6: the operator docc has no flavours
site(electron())
conserve { "N_up", "N_dn" }
parameters { t = 1 }
bond("nn", -t * (sum(s, cdag(i,s)*c(j,s)) + hc))
onsite(t * sum(s, docc(i, s)))
