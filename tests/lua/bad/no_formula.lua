-- expect 1: in this comment
site(spin(1/2))
conserve "Sz"
onsite(Sz(i))
