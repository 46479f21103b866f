-- H = J1 sum_<ij> S_i.S_j + J2 sum_<<ij>> S_i.S_j - sum_i h_i Sz_i
-- Frustrated spins S: J1 on nearest, J2 on next-nearest neighbours, both antiferromagnetic for > 0.
-- On a chain J2 = J1/2 is the Majumdar-Ghosh point: -3/8 J1 a site.

structural { S = 1/2 }

site(spin(S))
conserve "Sz"

parameters { J1 = 1, J2 = 0.5, h = per_site(0) }

bond("nn",  J1 * S_dot_S(i,j))
bond("nnn", J2 * S_dot_S(i,j))
onsite(-h * Sz(i))
