-- H = 0; expect 4: a definition cannot be called 'Sz'
site(spin(1/2))
conserve "Sz"
Sz = 1
