-- H = 0; expect 4: needs a real number as default
site(spin(1/2))
conserve "Sz"
parameters { J = "one" }
