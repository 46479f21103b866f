-- H = 0; expect 3: structural must come before site
site(spin(1))
structural { S = 1 }
