-- H = 0; expect 2: an operator cannot be called 'bond'
site(matrices{ states = {"a","b"}, bond = {{0,1},{1,0}} })
