-- H = -t sum_<ij>,s (c+_is c_js + h.c.) + J sum_i s_i.S_i + U sum_i n_iup n_idn,  s_i: spin of the electrons, S_i: local spin
-- Kondo lattice: on every site electrons and a spin S. J > 0: antiferromagnetic. Sz counts both.

structural { S = 1/2 }

site(product(electron(), spin(S)))
conserve { N = n, Sz = Sz_electron + Sz_spin }

parameters { t = 1, J = 1, U = 0 }

bond("nn", -t * (sum(s, cdag(i,s)*c(j,s)) + hc))
onsite(J * ((Sp_electron(i)*Sm_spin(i) + hc)/2 + Sz_electron(i)*Sz_spin(i)) + U * docc(i))
