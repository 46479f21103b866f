-- H = -sum_<ij> t_ij (c+_i c_j + h.c.) + sum_i h_i n_i
-- For the tests: parts of a chain that nothing joins, or hardly, and the exact energy at any size.

site(fermion())
conserve "N"

parameters { t = per_bond(1), h = per_site(0) }

bond("nn", -t * (cdag(i)*c(j) + hc))
onsite(h(i) * n(i))
