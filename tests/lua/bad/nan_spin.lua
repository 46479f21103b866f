-- H = 0; expect 2: the spin must be 1/2, 1, 3/2, ..., got not a number
site(spin(0/0))
