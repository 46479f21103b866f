-- H = -t sum_<ij> (b+_i b_j + h.c.) + U/2 sum_i n_i (n_i - 1) + V sum_<ij> n_i n_j - sum_i mu_i n_i
-- Bosons, at most n_max on a site (look at the weight of the highest occupation). U > 0 repels.

structural { n_max = 4 }

site(boson(n_max))
conserve "N"

parameters { t = 1, U = 4, V = 0, mu = per_site(0) }

bond("nn", -t * (bdag(i)*b(j) + hc) + V * n(i)*n(j))
onsite(U/2 * n(i)*(n(i) - 1) - mu * n(i))
