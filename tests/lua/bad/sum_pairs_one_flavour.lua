-- H = 0; expect 6: sum over a flavour that does not occur in n(i, s)*n(i, s): s2
site(electron())
conserve { "N_up", "N_dn" }
parameters { t = 1, U = 4 }
bond("nn", -t * (sum(s, cdag(i,s)*c(j,s)) + hc))
onsite(U * sum_pairs(s, s2, n(i,s)*n(i,s)))
