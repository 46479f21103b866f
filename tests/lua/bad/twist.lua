-- H = 0; expect 6: twist 0 and pi have a real gauge
site(electron())
conserve { "N_up", "N_dn" }
parameters { t = 1 }
bond("nn", -t * (sum(s, cdag(i,s)*c(j,s)) + hc))
bond("nn", cos(twist) * (cdag_up(i)*c_up(j) + hc))
