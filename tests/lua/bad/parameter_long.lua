-- H = 0; expect 4: a parameter 'JJJJJJJJJJJJJJJJJJJJ...' is 61 characters long; at most 60 are possible
site(spin(1/2))
conserve "Sz"
parameters { JJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJ = 1 }
onsite(Sz(i))
