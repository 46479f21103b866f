-- H = 0; expect 4: multiplies out into more than
site(electron())
conserve "N"
onsite((n_up(i) + n_dn(i) + docc(i) + Sz(i))^8)
