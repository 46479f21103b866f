-- H = 0; expect 4: a DM term or a flux needs complex numbers
site(spin(1/2))
conserve "nothing"
bond("nn", Sx(i)*iSy(j) - iSy(i)*Sx(j))
