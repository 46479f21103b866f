-- H = 0; expect 3: the charge Sz is given twice
site(spin(1/2))
conserve("Sz", "Sz")
