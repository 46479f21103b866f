-- H = sum_<ij along legs> S_i.S_j + Jr sum_<ij on rungs> S_i.S_j
-- Chains that hardly know of each other: of an odd number of sites each, they have singlet and triplet close
-- together.

site(spin(1/2))
conserve "Sz"

parameters { Jr = 0.0001 }

bond("leg", S_dot_S(i,j))
bond("rung", Jr * S_dot_S(i,j))
