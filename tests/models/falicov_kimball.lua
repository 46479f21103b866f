-- H = -t sum_<ij> (c+_i c_j + h.c.) + U sum_i nc_i nf_i: electrons c among others that never move
-- For the tests: each nf_i is conserved, and no charge tells where the f are.

site(fermion{"c", "f"})
conserve { Nc = n_c, Nf = n_f }

parameters { t = 1, U = 4 }

bond("nn", -t * (cdag_c(i)*c_c(j) + hc))
onsite(U * n_c(i)*n_f(i))
