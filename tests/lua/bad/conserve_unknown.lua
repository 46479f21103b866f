-- H = 0; expect 3: no operator 'Sq' to conserve; did you mean
site(spin(1/2))
conserve "Sq"
