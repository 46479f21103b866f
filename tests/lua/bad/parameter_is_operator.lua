-- H = 0; expect 4: that is an operator of the site
site(spin(1/2))
conserve "Sz"
parameters { Sz = 1 }
