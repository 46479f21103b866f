-- H = -t_f sum_<ij> (c+_i c_j + h.c.) - t_b sum_<ij> (b+_i b_j + h.c.) + U/2 sum_i n_b (n_b - 1) + W sum_i
-- n_f n_b
-- Bosons and spinless fermions on the same sites, at most three bosons a site.
-- Use: kronlat dmrg examples/mixture.lua --sites 12 --charge N_f=6 --charge N_b=6
site(product(fermion(), boson(3)))
conserve { N_f = n_fermion, N_b = n_boson }
parameters { t_f = 1, t_b = 1, U = 4, W = 2 }
bond("nn", -t_f * (cdag(i)*c(j) + hc) - t_b * (bdag(i)*b(j) + hc))
onsite(U/2 * n_boson(i)*(n_boson(i) - 1) + W * n_fermion(i)*n_boson(i))
