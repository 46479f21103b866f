-- H = 0; expect 2: state 'a' is listed twice
site(matrices{ states = {"a","a"}, X = {{0,1},{1,0}} })
