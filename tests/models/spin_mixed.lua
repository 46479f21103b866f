-- H = hopping + U docc + V n n + pairs that hop + S.S + W c+ (S.sigma) c + products of four operators
-- Scalars of the total spin of every sort, for six electrons' sites.

site(electron())
conserve "each flavour"

parameters { U = 4, V = 0.5, W = 1 }

bond("nn", -(sum(s, cdag(i,s)*c(j,s)) + hc))
onsite(U * docc(i))
bond("nn", V * n(i)*n(j))
run(3, 0.3 * (cdag_up(i)*cdag_dn(i)*c_dn(k)*c_up(k) + hc))
run(3, 0.4 * S_dot_S(i,k))
function T(a, b, d)
    return cdag_up(a)*Sz(b)*c_up(d) - cdag_dn(a)*Sz(b)*c_dn(d) + cdag_up(a)*Sm(b)*c_dn(d)
        + cdag_dn(a)*Sp(b)*c_up(d) + hc
end
run(3, 0.35 * W * T(i,j,k))
named({"3", "0", "5"}, 0.25 * W * T(i,j,k))
function C(a, b, d, e) return sum(s, sum(s2, cdag(a,s)*cdag(b,s2)*c(d,s2)*c(e,s))) + hc end
named({"0", "3", "4", "1"}, 0.3 * C(i,j,k,l))
named({"5", "2", "1", "3"}, -0.2 * C(i,j,k,l))
named({"0", "2", "5"}, 0.15 * C(i,j,j,k))
