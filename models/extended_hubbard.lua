-- H = -t sum_<ij>,s (c+_is c_js + h.c.) + sum_i U_i n_iup n_idn + V sum_<ij> n_i n_j - sum_i mu_i n_i
-- Electrons with a repulsion V > 0 between neighbours. t > 0 puts the bottom of the band at momentum 0.

site(electron())
conserve { "N_up", "N_dn" }

parameters { t = 1, U = per_site(4), V = 1, mu = per_site(0) }

bond("nn", -t * (sum(s, cdag(i,s)*c(j,s)) + hc) + V * n(i)*n(j))
onsite(U * docc(i) - mu * n(i))
