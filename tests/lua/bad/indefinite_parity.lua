-- H = 0; expect 2: has no definite fermion parity
site(matrices{ states = {"a","b","c"}, odd = {"b"}, X = {{1,1,0},{1,0,0},{0,0,0}} })
conserve "nothing"
onsite(X(i))
