-- H = 0; expect 1: the model has no site
parameters { J = 1 }
