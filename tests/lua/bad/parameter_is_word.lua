-- H = 0; expect 4: that word is part of the model language
site(spin(1/2))
conserve "Sz"
parameters { r = 1 }
