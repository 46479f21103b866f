-- H = 0; expect 2: has no state 'updnn'; did you mean 'updn'?
site(without(electron(), "updnn"))
