-- expect 1: line 1 must be a comment
site(spin(1/2))
conserve "Sz"
onsite(Sz(i))
