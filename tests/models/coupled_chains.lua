-- H = sum_<ij along legs> S_i.S_j + Jr sum_<ij on rungs> S_i.S_j + Jx sum_<ij on diagonals> S_i.S_j
-- Chains that hardly know of each other: of an odd number of sites each, they have singlet and triplet close
-- together. Jx = 1: the spin of each rung is conserved, singlets everywhere or a chain of spins 1.

site(spin(1/2))
conserve "Sz"

parameters { Jr = 0.0001, Jx = 0 }

bond("leg", S_dot_S(i,j))
bond("rung", Jr * S_dot_S(i,j))
bond("diag", Jx * S_dot_S(i,j))
