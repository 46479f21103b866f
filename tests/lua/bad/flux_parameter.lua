-- H = 0; expect 4: a flux is not possible; flux 0 and pi have a real gauge
site(electron())
conserve "N"
parameters { flux = 0.1 }
