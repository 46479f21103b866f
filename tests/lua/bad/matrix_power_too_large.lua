-- H = 0; expect 4: a product of operators on one site has elements that are too large for a number
site(matrices{ states = {"a", "b"}, X = {{1e100, 0}, {0, 2e100}} })
conserve "nothing"
onsite(X(i)^4)
