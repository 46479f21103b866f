-- H = 0; expect 5: unknown name 'math'; functions stand by themselves
site(spin(1/2))
conserve "Sz"
parameters { J = 1 }
bond("nn", math.cos(J) * S_dot_S(i,j))
