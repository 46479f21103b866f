-- H = 0; expect 4: site(...) must come before conserve
site(spin(1))
conserve "Sz"
site("ends", spin(1/2))
