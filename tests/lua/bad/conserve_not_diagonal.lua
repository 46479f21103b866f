-- H = 0; expect 3: the charge Q is not diagonal
site(spin(1/2))
conserve { Q = Sx }
onsite(Sx(i))
