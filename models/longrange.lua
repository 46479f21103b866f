-- H = sum_i<j J / r_ij^alpha [ (S+_i S-_j + S-_i S+_j)/2 + Delta Sz_i Sz_j ] - sum_i h_i Sz_i
-- XXZ model of spin S between all pairs, falling off as a power of the distance. J > 0: antiferromagnet (frustrated);
-- alpha = 2 and Delta = 1 on a ring is close to the Haldane-Shastry model.

structural { S = 1/2 }

site(spin(S))
conserve "Sz"

parameters { J = 1, Delta = 1, alpha = 2, h = per_site(0) }

pairs(J/r^alpha * ((Sp(i)*Sm(j) + hc)/2 + Delta * Sz(i)*Sz(j)))
onsite(-h * Sz(i))
