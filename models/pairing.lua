-- H = sum_<ij> [ -t (c+_i c_j + h.c.) + Delta (c_i c_j + h.c.) + V n_i n_j ] - sum_i mu_i n_i
-- Spinless fermions with pairing (Kitaev chain); only the parity of their number is conserved. t > 0: band bottom at momentum 0.
-- c_i c_j = -c_j c_i: a bond runs from the lower to the higher site number, and from the last to the first where a ring closes.

site(fermion())
conserve { parity = mod(n, 2) }

parameters { t = 1, Delta = 0.5, V = 0, mu = per_site(1) }

bond("nn", -t * (cdag(i)*c(j) + hc) + Delta * (c(i)*c(j) + hc) + V * n(i)*n(j))
onsite(-mu * n(i))
