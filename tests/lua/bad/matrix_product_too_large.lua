-- H = 0; expect 2: a product of operators on one site has elements that are too large for a number
site(matrices{ states = {"a", "b"}, X = {{0, 1e160}, {1e160, 0}} })
conserve "nothing"
onsite(X(i))
