-- H = 0; expect 4: not Hermitian
site(electron())
conserve "N"
onsite(cdag_up(i)*c_dn(i))
