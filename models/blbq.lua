-- H = J sum_<ij> [ S_i.S_j + beta (S_i.S_j)^2 ] + D sum_i (Sz_i)^2
-- Bilinear-biquadratic model. S = 1 and beta = 1/3 is the AKLT chain, -2/3 J a bond; beta = 0 the Heisenberg chain.
-- In angles: J = cos(theta), J beta = sin(theta). D > 0 favours Sz = 0.

structural { S = 1 }

site(spin(S))
conserve "Sz"

parameters { J = 1, beta = 1/3, D = per_site(0) }

bond("nn", J * (S_dot_S(i,j) + beta * S_dot_S(i,j)^2))
onsite(D * Sz(i)^2)
