-- H = 0; expect 2: the matrix X needs 2 rows, got 3
site(matrices{ states = {"a","b"}, X = {{0,1},{1,0},{0,0}} })
