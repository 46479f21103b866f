local b = {} for i = 0, 5 do b[#b + 1] = { i, (i + 1) % 6 } end return { sites = 6, bonds = b }
