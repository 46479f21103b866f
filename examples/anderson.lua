-- H = U n_up n_dn + e n at the hub + sum_k eps_k n_k - V sum_k,s (c+_hub,s c_ks + h.c.): an Anderson
-- impurity in its star
-- Use: kronlat dmrg examples/anderson.lua --lattice examples/bath.lua -p eps=0,-1.5,-1,-0.5,0,0.5,1,1.5
-- --charge N_up=4 --charge N_dn=4
site(electron())
conserve { "N_up", "N_dn" }
parameters { U = 4, e = -2, V = 0.5, eps = per_site(0) }
bond("spoke", -V * (sum(s, cdag(i,s)*c(j,s)) + hc))
named({"hub"}, U * docc(i) + e * n(i))
onsite(eps(i) * n(i))
