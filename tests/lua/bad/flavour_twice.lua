-- H = 0; expect 2: flavour 'a' is listed twice
site(fermion{"a", "a"})
