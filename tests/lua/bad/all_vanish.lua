-- H = 0; expect 4: all terms vanish
site(electron())
conserve "N"
onsite(docc(i) - n_up(i)*n_dn(i))
