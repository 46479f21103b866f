-- H = -t sum_<ij> (c+_i c_j + h.c.) + W sum_triangles (c+_i c_j n_k + h.c.) + K sum_squares (c+_i c_j c+_k c_l + h.c.)
-- Spinless fermions around triangles and squares of bonds.

site(fermion())
conserve { N = n }

parameters { t = 1, W = 0.3, K = 0.2 }

bond("nn", -t * (cdag(i)*c(j) + hc))
loop(3, "nn", W * (cdag(i)*c(j)*n(k) + hc))
loop(4, "nn", K * (cdag(i)*c(j)*cdag(k)*c(l) + hc))
