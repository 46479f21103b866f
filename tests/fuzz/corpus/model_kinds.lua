-- H = spins of two kinds, one of them given by its matrices
site(spin(1/2))
site("odd", matrices{ states = {"p", "0", "m"}, spin = {"Sz", "Sp"},
    Sz = {{1, 0, 0}, {0, 0, 0}, {0, 0, -1}}, Sp = {{0, 2^0.5, 0}, {0, 0, 2^0.5}, {0, 0, 0}},
    Sm = {{0, 0, 0}, {2^0.5, 0, 0}, {0, 2^0.5, 0}} })
conserve "Sz"
parameters { J = 1, h = 0 }
bond("nn", J * S_dot_S(i,j))
run(3, S_dot_S(i,k)^2)
onsite(-h * Sz(i))
