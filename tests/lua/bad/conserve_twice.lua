-- H = 0; expect 4: conserve is given twice
site(spin(1/2))
conserve "Sz"
conserve "Sz"
