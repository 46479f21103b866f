-- H = 0; expect 2: boson(n_max) needs a whole number of at least 1, got a table
site(boson({}))
