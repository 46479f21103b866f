-- H = 0; expect 2: the identity I is always there
site(matrices{ states = {"a","b"}, I = {{1,0},{0,1}} })
