-- H = 0; expect 2: the spin must be 1/2, 1, 3/2, ..., got 0.3
site(spin(0.3))
