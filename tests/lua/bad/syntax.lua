-- H = 0; expect 3: near
site(spin(1/2))
conserve Sz"
