-- H = spins without any charge: fields along x, three- and four-spin products, Sy Sy written by its
-- antisymmetric factors For the tests: one sector holds everything.

structural { S = 1/2 }

site(spin(S))
conserve "nothing"

parameters { J = 1, g = 0.5, d = 0.3, k3 = 0.7, k4 = 0.2, hx = per_site(0.4), alpha = 2 }

bond("nn", J * S_dot_S(i,j) - g * (Sp(i) - Sm(i))*(Sp(j) - Sm(j)) + d * (Sp(i) + Sm(i))*Sz(j))
pairs(J / r^alpha * Sz(i)*Sz(j))
run(3, k3 * (Sp(i) + Sm(i))*Sz(j)*(Sp(k) + Sm(k)) + d * (Sp(i) - Sm(i))*Sz(j)*(Sp(k) - Sm(k)))
run(4, k4 * (Sp(i)*Sm(j)*Sp(k)*Sm(l) + hc) + d * (Sp(i) - Sm(i))*(Sp(l) - Sm(l))*Sz(j)*Sz(k))
onsite(-hx * (Sp(i) + Sm(i)) / 2)
