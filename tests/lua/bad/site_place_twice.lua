-- H = 0; expect 4: site("ends", ...) is given twice
site(spin(1))
site("ends", spin(1/2))
site("ends", spin(1/2))
