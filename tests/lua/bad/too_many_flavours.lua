-- H = 0; expect 2: at most 8 are possible
site(electron(4))
