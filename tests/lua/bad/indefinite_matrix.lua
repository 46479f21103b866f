-- H = 0; expect 2: the operator X has no definite shift of the charge Q
site(matrices{ states = {"a","b","c"}, Q = {{0,0,0},{0,1,0},{0,0,2}}, X = {{0,1,0},{1,0,0},{0,0,0}} })
conserve "Q"
onsite(X(i))
