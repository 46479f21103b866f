-- H = 0; expect 2: row 2 of the matrix X needs 2 numbers, got 1
site(matrices{ states = {"a","b"}, X = {{0,1},{1}} })
