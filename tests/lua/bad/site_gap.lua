-- H = 0; expect 2: leaves sites without a local space
site("odd", spin(1))
conserve "Sz"
onsite(Sz(i))
