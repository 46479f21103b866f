-- H = sum of products that stress the signs of fermions: only parity is kept, strings of two to four odd
-- operators, currents, exchange at any distance For the tests: no physics is meant. Antisymmetric operators
-- on both sides of a cut, operators that are odd and their own adjoint's negative.

site(electron())
conserve { parity = mod(n, 2) }

parameters { t = 1, p = 0.3, w = 0.2, q = 0.4, cur = 0.5, tri = 0.7, alpha = 1.5, mu = per_site(0.1) }

bond("nn", -t * (sum(s, cdag(i,s)*c(j,s)) + hc) + p * (c_up(i)*c_dn(j) - 0.3 * c_dn(i)*c_up(j) + hc))
bond("nn", w * (cdag_up(i)*c_dn(j) + hc) + q * (cdag_up(i)*cdag_dn(i)*c_dn(j)*c_up(j) + hc))
pairs(q / r^alpha * (S_dot_S(i,j) + n_up(i)*n_dn(j)))
run(3, tri * (cdag_up(i)*n_dn(j)*c_up(k) + hc) + w * (c_up(i)*n_up(j)*c_up(k) + hc)
    + p * (c_up(i)*Sp(j)*c_dn(k) + hc))
run(4, cur * (cdag_up(i)*c_up(j) - cdag_up(j)*c_up(i)) * (cdag_dn(k)*c_dn(l) - cdag_dn(l)*c_dn(k)))
run(4, w * (c_up(i)*c_dn(j)*c_up(k)*c_dn(l) + hc) + p * (cdag_up(i)*cdag_dn(l)*c_dn(k)*c_up(j) + hc))
onsite(-mu * n(i) + p * (c_up(i)*c_dn(i) + hc))
