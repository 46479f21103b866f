-- H = 0; expect 4: changes Q by 1
site(boson(3))
conserve { Q = mod(n, 3) }
onsite(b(i)*b(i)+hc)
