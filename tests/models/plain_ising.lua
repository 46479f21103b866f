-- H = -4 sum_i Sz_i Sz_i+1 - 2 g sum_i Sx_i: the transverse-field Ising chain without its parity
-- Ordered for g < 1: two ground states that come together with length, and no charge that parts them.

site(spin(1/2))
conserve "nothing"

parameters { g = 0.8 }

bond("nn", -4 * Sz(i)*Sz(j))
onsite(-2*g * Sx(i))
