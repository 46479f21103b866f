-- H = -Jx sum_<ij along x> sx_i sx_j - Jz sum_<ij along y> sz_i sz_j: the quantum compass model
-- Products of sz along a row and of sx along a column leave H as it is and do not commute: every level is two.

site(pauli())
conserve "nothing"

parameters { Jx = 1, Jz = 0.6 }

bond("x", -Jx * sx(i)*sx(j))
bond("y", -Jz * sz(i)*sz(j))
