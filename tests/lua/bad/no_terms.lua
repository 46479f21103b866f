-- H = 0; expect 1: the model has no terms
site(spin(1/2))
conserve "Sz"
