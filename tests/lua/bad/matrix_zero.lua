-- H = 0; expect 2: the matrix X is zero
site(matrices{ states = {"a","b"}, X = {{0,0},{0,0}} })
