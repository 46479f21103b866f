-- H = sum_<ij> J S_i.S_j + K sum_i (S_i.S_{i+1}) Sz_{i+2} - h (Sz_0 - Sz_last)
site(spin(1/2))
conserve "Sz"
parameters { J = 1, K = 0.2, h = 0.5 }
bond("nn", J * S_dot_S(i,j))
run(3, K * S_dot_S(i,j) * Sz(k))
named({"0", "-1"}, -h * (Sz(i) - Sz(j)))
