-- H = 0; expect 4: the operator docc vanishes
site(without(electron(), "updn"))
conserve "N"
onsite(docc(i))
