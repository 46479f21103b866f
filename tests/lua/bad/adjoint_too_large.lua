-- H = 0; expect 4: the adjoint of a product has a factor that is too large for a number
site(matrices{ states = {"a", "b"}, A = {{0, 1e100}, {0, 0}}, B = {{0, 0}, {1e-100, 0}} })
conserve "nothing"
run(2, A(i)*A(j) + hc)
