-- The one place where a fermionic sign is decided: strings inside a site, and the rules between sites that C
-- takes from phase.h. Mode order is the physical one, site by site, then flavour by flavour as listed
-- (nemes2014, Eqs. 5-7): an operator carries the factor (-1) for every occupied mode before its own. Nothing
-- outside of this file writes such a factor.
-- SPDX-License-Identifier: Apache-2.0
local matrix = require("matrix")

local fermion = {}

-- Rules. Each is written twice side by side, for this generator and for C; a test compares the two. ---------

-- Sign of AB = sign * BA for operators on different modes.
function fermion.exchange(odd_a, odd_b) return (odd_a & odd_b & 1) == 1 and -1 or 1 end

-- Stable sort of a product of operators by key. Returns the sign and, for every position, where its operator
-- stood (from 1).
function fermion.sort(key, odd)
    local perm, sign = {}, 1
    for p = 1, #key do
        local q = p
        while q > 1 and key[perm[q - 1]] > key[p] do
            perm[q] = perm[q - 1]
            sign = sign * fermion.exchange(odd[perm[q]], odd[p])
            q = q - 1
        end
        perm[q] = p
    end
    return sign, perm
end

-- (A1 A2 ... An)^+ = An^+ ... A1^+ = sign * A1^+ A2^+ ... An^+ for operators on different sites.
function fermion.adjoint(odd)
    local m = 0
    for _, o in ipairs(odd) do m = m + (o & 1) end
    return (m * (m - 1) // 2) % 2 == 1 and -1 or 1
end

-- (A (x) B) |l>|r> = sign * A|l> (x) B|r>, where A and B carry only the strings inside their own block.
function fermion.record(right_odd, left_source_parity)
    return (right_odd & left_source_parity & 1) == 1 and -1 or 1
end

-- Site-major state (site by site, on each first up then dn) = sign * flavour-major state (all up, then all
-- dn).
function fermion.flavour_major(up, dn)
    local odd = 0
    while up ~= 0 do -- every up mode moves to the left past the dn modes of the sites before it
        local lowest = up & -up
        local before = dn & (lowest - 1)
        while before ~= 0 do
            before = before & (before - 1)
            odd = odd ~ 1
        end
        up = up ~ lowest
    end
    return odd == 1 and -1 or 1
end

-- c+_to c_from |state> = sign * |state with the electron moved>, bit p of state being mode p; the move must
-- be possible. 1 for to = from.
function fermion.hop(state, to, from)
    local low, high = math.min(to, from), math.max(to, from)
    local between, odd = state & ((1 << high) - 1) & ~((2 << low) - 1), 0
    while between ~= 0 do
        between = between & (between - 1)
        odd = odd ~ 1
    end
    return odd == 1 and -1 or 1
end

fermion.c_rules = {
    {
        formula = "A B = sign * B A, A and B on different modes: sign = (-1)^(odd_a odd_b).",
        head = "static inline int kl_phase_exchange(int odd_a, int odd_b)",
        body = [[
    return (odd_a & odd_b & 1) ? -1 : 1;]],
    },
    {
        formula = "Stable sort of the product A[0] A[1] ... by key[n] (a site's position), in place: key[n] and odd[n] are sorted with it, equal keys keep "
            .. "their order, perm[p] (NULL allowed) becomes where operator p stood before. Old product = sign * new product, sign = (-1)^(crossings of two odd ones).",
        head = "static inline int kl_phase_sort(int n, int *key, int *odd, int *perm)",
        body = [[
    int sign = 1;
    for (int p = 0; p < n; p++) {
        const int k = key[p], o = odd[p];
        int q = p;
        while (q > 0 && key[q - 1] > k) {
            key[q] = key[q - 1];
            odd[q] = odd[q - 1];
            if (perm) perm[q] = perm[q - 1];
            sign *= kl_phase_exchange(odd[q], o);
            q--;
        }
        key[q] = k;
        odd[q] = o;
        if (perm) perm[q] = p;
    }
    return sign;]],
    },
    {
        formula = "(A[0] A[1] ... A[n-1])^+ = sign * A[0]^+ A[1]^+ ... A[n-1]^+, operators on different sites: sign = (-1)^(m(m-1)/2), m of them odd.",
        head = "static inline int kl_phase_adjoint(int n, const int *odd)",
        body = [[
    int m = 0;
    for (int p = 0; p < n; p++) m += odd[p] & 1;
    return ((m * (m - 1) / 2) & 1) ? -1 : 1;]],
    },
    {
        formula = "(A (x) B) |l>|r> = sign * A|l> (x) B|r>, A and B carrying only the strings inside their own block: sign = (-1)^(p(B) p(l)), "
            .. "l the source state (or sector) of the left factor.",
        head = "static inline int kl_phase_record(int right_odd, int left_source_parity)",
        body = [[
    return (right_odd & left_source_parity & 1) ? -1 : 1;]],
    },
    {
        formula = "Site-major state (site by site, on each up before dn) = sign * flavour-major state (all up, then all dn), both as products of creation "
            .. "operators in that order on the vacuum; bit s of up and dn is site s. sign = (-1)^(pairs with dn on a site before up's).",
        head = "static inline int kl_phase_flavour_major(uint64_t up, uint64_t dn)",
        body = [[
    int odd = 0;
    while (up != 0) {
        const uint64_t lowest = up & (~up + 1u);
        for (uint64_t before = dn & (lowest - 1u); before != 0; before &= before - 1u) odd ^= 1;
        up ^= lowest;
    }
    return odd ? -1 : 1;]],
    },
    {
        formula = "c+_to c_from |state> = sign * |state with the electron moved>, bit p of state being mode p, the move being possible: "
            .. "sign = (-1)^(occupied modes strictly between).",
        head = "static inline int kl_phase_hop(uint64_t state, int to, int from)",
        body = [[
    const int low = to < from ? to : from, high = to < from ? from : to;
    const uint64_t below_high = (UINT64_C(1) << high) - 1u, up_to_low = (UINT64_C(2) << low) - 1u;
    uint64_t s = state & below_high & ~up_to_low;
    s ^= s >> 32;
    s ^= s >> 16;
    s ^= s >> 8;
    s ^= s >> 4;
    return (0x6996u >> (s & 15u)) & 1u ? -1 : 1;]],
    },
}

-- Strings inside a site. ------------------------------------------------------------------------------------

-- Matrices c[f] of `count` modes on 2^count states; bit f-1 of a state's number is mode f, and the state is
-- c+_1^(n1) c+_2^(n2) ... |0>, so c_f takes (-1) for each occupied mode before it.
function fermion.modes(count)
    local dim, c = 1 << count, {}
    for f = 1, count do
        local m = matrix.new(dim)
        local bit = 1 << (f - 1)
        for state = 0, dim - 1 do
            if state & bit ~= 0 then
                local sign = 1.0
                for g = 1, f - 1 do
                    sign = sign * fermion.record(1, (state >> (g - 1)) & 1)
                end
                matrix.set(m, state ~ bit, state, sign)
            end
        end
        c[f] = m
    end
    return c
end

-- Parity 0 or 1 of every state of a product of parts; the first part's states are the slow index.
function fermion.product_parity(parts)
    local list = {0}
    for _, part in ipairs(parts) do
        local longer = {}
        for _, before in ipairs(list) do
            for state = 1, part.dim do longer[#longer + 1] = before ~ part.parity[state] end
        end
        list = longer
    end
    return list
end

-- The operator `m` (odd = 0 or 1) of part `which` on the product of all parts: an odd one takes the parity of
-- the parts before it.
function fermion.embed(parts, which, m, odd)
    local before, after = {}, 1
    for p = 1, which - 1 do before[p] = parts[p] end
    for p = which + 1, #parts do after = after * parts[p].dim end
    local parity = fermion.product_parity(before)
    local out = matrix.new(#parity * m.dim * after)
    for _, el in ipairs(matrix.elements(m)) do
        for left = 0, #parity - 1 do
            local v = el[3] * fermion.record(odd, parity[left + 1])
            for right = 0, after - 1 do
                matrix.set(out, (left * m.dim + el[1]) * after + right,
                    (left * m.dim + el[2]) * after + right, v)
            end
        end
    end
    return out
end

return fermion
