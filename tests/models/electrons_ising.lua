-- H = -t sum_<ij> (c+_i c_j + h.c.) + V sum_i n_i Sz_i + K sum_<ij> Sz_i Sz_j: electrons among spins of Ising
-- For the tests: each Sz_i is conserved, and no charge tells even their sum.

site(product(fermion{"c"}, spin(1/2)))
conserve { Nc = n_c }

parameters { t = 1, V = 2, K = 0.5 }

bond("nn", -t * (cdag_c(i)*c_c(j) + hc))
onsite(V * n_c(i)*Sz(i))
bond("nn", K * Sz(i)*Sz(j))
