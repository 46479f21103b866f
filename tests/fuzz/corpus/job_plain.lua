local n = 4
return { command = "dmrg", model = "heisenberg", sites = n, p = { J = 1, h = { 0.1, 0.2 } },
    charge = { Sz = 0 }, measure = { "Sz", "corr(Sz,Sz)" }, output = "none", json = true }
