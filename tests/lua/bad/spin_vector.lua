-- H = 0; expect 5: unknown name 'S'; S_i.S_j is S_dot_S(i,j)
site(spin(1/2))
conserve "Sz"
parameters { J = 1 }
bond("nn", J * S(i)*S(j))
