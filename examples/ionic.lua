-- H = -t sum_<ij>,s (c+_is c_js + h.c.) + U sum_i n_iup n_idn + D sum_i (-1)^i n_i
site(electron())
conserve { "N_up", "N_dn" }
parameters { t = 1, U = 4, D = 1 }
bond("nn", -t * (cdag_up(i)*c_up(j) + cdag_dn(i)*c_dn(j) + hc))
onsite(U * docc(i) + D * (-1)^i * n(i))
