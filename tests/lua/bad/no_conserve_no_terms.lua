-- H = 0; expect 2: no conserve line
site(spin(1/2))
