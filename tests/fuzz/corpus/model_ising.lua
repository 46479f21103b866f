-- H = -J sum_<ij> sx_i sx_j - sum_i h_i sz_i,  sx and sz being Pauli matrices (eigenvalues 1 and -1)
-- Transverse-field Ising model. J > 0: ferromagnet along x; h: field along +z; critical chain at h = J.
-- Conserved is the parity of the number of down spins, the product of all sz.

site(pauli())
conserve { parity = mod((1 - sz)/2, 2) }

parameters { J = 1, h = per_site(1) }

bond("nn", -J * sx(i)*sx(j))
onsite(-h * sz(i))
