-- H = 0; expect 6: not the imaginary unit
site(electron())
conserve { "N_up", "N_dn" }
parameters { t = 1 }
bond("nn", -t * (sum(s, cdag(i,s)*c(j,s)) + hc))
bond("nn", exp(i*t) * cdag_up(i)*c_up(j) + hc)
