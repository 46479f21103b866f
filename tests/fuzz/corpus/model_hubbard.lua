-- H = -t sum_<ij>,s (c+_is c_js + h.c.) + sum_i,s<s' U_i n_is n_is' - sum_i mu_i n_i
-- Hubbard model of fermions with spin F: 2F+1 flavours, U_i on each pair of them at site i. F = 1/2: flavours
-- up, dn; else 1, 2, ... t > 0 puts the bottom of the band at momentum 0; U > 0 repels. Modes are ordered
-- site by site, on a site flavour by flavour.

structural { F = 1/2 }

site(electron(F))
conserve "each flavour"

parameters { t = 1, U = per_site(4), mu = per_site(0) }

bond("nn", -t * (sum(s, cdag(i,s)*c(j,s)) + hc))
onsite(U * docc(i) - mu * n(i))
