-- H = 0; expect 3: charges (an added fermion parity included); at most 8
site(fermion{"1","2","3","4","5","6","7","8"})
conserve { A=n_1+n_2, B=n_2+n_3, C=n_3+n_4, D=n_4+n_5, E=n_5+n_6, F=n_6+n_7, G=n_7+n_8, K=n_8+n_1, L=n_1+n_3 }
onsite(n(i))
