-- H = 0; expect 4: parameters needs { name = default, ... }
site(spin(1/2))
conserve "Sz"
parameters { 1, 2 }
