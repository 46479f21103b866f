-- H = 0; expect 5: unknown name 'S_dot_S_3'; did you mean 'S_dot_S_1'?
site(product(spin(1/2), spin(1/2)))
conserve { Sz = Sz_1, Tz = Sz_2 }
parameters { J = 1 }
bond("nn", J * S_dot_S_3(i,j))
