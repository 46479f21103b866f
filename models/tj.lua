-- H = -t sum_<ij>,s P (c+_is c_js + h.c.) P + J sum_<ij> [ S_i.S_j - W n_i n_j / 4 ],  P: no site is doubly occupied
-- t-J model, three states a site. J > 0: antiferromagnet. W = 1 keeps the term -n n/4, W = 0 drops it.

site(without(electron(), "updn"))
conserve { "N_up", "N_dn" }

parameters { t = 1, J = 0.4, W = 1, mu = per_site(0) }

bond("nn", -t * (sum(s, cdag(i,s)*c(j,s)) + hc) + J * (S_dot_S(i,j) - W * n(i)*n(j)/4))
onsite(-mu * n(i))
