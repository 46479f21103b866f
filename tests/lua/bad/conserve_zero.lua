-- H = 0; expect 3: the charge Q is zero in every state
site(spin(1/2))
conserve { Q = Sz - Sz }
onsite(Sz(i))
