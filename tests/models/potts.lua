-- H = -sum_<ij> sum_a P_a(i) P_a(j) - g sum_i mix_i,  P_a = |a><a|, mix = sum_{a != b} |a><b|, three colours
-- Ordered for small g: three ground states that come together with length.

site(matrices{ states = {"a", "b", "c"}, pa = {{1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    pb = {{0, 0, 0}, {0, 1, 0}, {0, 0, 0}},
    pc = {{0, 0, 0}, {0, 0, 0}, {0, 0, 1}}, mix = {{0, 1, 1}, {1, 0, 1}, {1, 1, 0}} })
conserve "nothing"

parameters { g = 0.2 }

bond("nn", -pa(i)*pa(j) - pb(i)*pb(j) - pc(i)*pc(j))
onsite(-g * mix(i))
