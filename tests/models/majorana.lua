-- H = products of two, four and six Majorana operators (a = c + c+, b = c+ - c): odd operators that are their
-- own adjoint, or its negative For the tests: no physics is meant.

site(matrices{ states = {"0", "1"}, odd = {"1"}, a = {{0, 1}, {1, 0}}, b = {{0, -1}, {1, 0}},
    ba = {{-1, 0}, {0, 1}} })
conserve "nothing"

parameters { J = 1, K = 0.6, M = 0.4, h = per_site(0.3), h0 = 0.7, alpha = 1 }

bond("nn", J * a(i)*b(j) + K * b(i)*a(j))
pairs(M / r^alpha * (a(i)*b(j) - 2 * b(i)*a(j)))
pairs(M * ba(i)*ba(j))
run(4, K * a(i)*a(j)*a(k)*a(l) + M * a(i)*b(j)*a(k)*b(l) + h0 * b(i)*b(j)*b(k)*b(l))
run(6, M * a(i)*a(j)*a(k)*a(l)*a(at(5))*b(at(6)))
onsite(h * ba(i))
