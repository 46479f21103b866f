-- H = 0; expect 3: mod(Q, n) needs a whole number n from 2 to 64
site(boson(2))
conserve { Q = mod(n, 1) }
onsite(n(i))
