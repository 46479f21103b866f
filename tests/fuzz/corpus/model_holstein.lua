-- H = -t sum_<ij>,s (c+_is c_js + h.c.) + U sum_i n_iup n_idn + omega sum_i b+_i b_i + g sum_i (n_i - n0)
-- (b+_i + b_i) Hubbard-Holstein model: electrons and one phonon mode a site, at most n_max phonons (look at
-- the weight of the highest occupation). omega: phonon energy, g: coupling; n0 shifts the rest position (n0 =
-- 1 suits half filling).

structural { n_max = 8 }

site(product(electron(), boson(n_max)))
conserve { "N_up", "N_dn" }

parameters { t = 1, U = 0, omega = 1, g = 1, n0 = 0 }

bond("nn", -t * (sum(s, cdag(i,s)*c(j,s)) + hc))
onsite(U * docc(i) + omega * n_boson(i) + g * (n_electron(i) - n0) * (bdag(i) + b(i)))
