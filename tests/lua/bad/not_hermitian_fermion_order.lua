-- H = 0; expect 4: not Hermitian
site(electron())
conserve "N"
bond("nn", cdag_up(i)*c_up(j) - cdag_up(j)*c_up(i))
