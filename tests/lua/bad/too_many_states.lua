-- H = 0; expect 2: at most 256 are possible on one site
site(product(electron(), boson(99)))
