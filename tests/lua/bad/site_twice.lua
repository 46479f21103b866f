-- H = 0; expect 3: site(...) is given twice
site(spin(1/2))
site(spin(1))
