-- H = 0; expect 3: the charge 'MMMMMMMMMMMMMMMMMMMM...' is 65 characters long; at most 64 are possible
site(spin(1/2))
conserve { MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM = Sz }
onsite(Sz(i))
