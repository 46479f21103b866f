-- H = 0; expect 3: the parameter J needs a real number as default, per_site(number) or per_bond(number), got not a number
site(spin(1/2))
parameters { J = 0/0 }
