-- H = sum_<ij> J [ (S+_i S-_j + S-_i S+_j)/2 + Delta Sz_i Sz_j ] - sum_i h_i Sz_i
-- XXZ model of spin S. J > 0: antiferromagnet; energies in units of J; h is a field along +z.

structural { S = 1/2 }

site(spin(S))
conserve "Sz"

parameters { J = 1, Delta = 1, h = per_site(0) }

bond("nn", J * ((Sp(i)*Sm(j) + hc)/2 + Delta * Sz(i)*Sz(j)))
onsite(-h * Sz(i))
