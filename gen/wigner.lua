-- Clebsch-Gordan coefficients of the spins of sites, with the phases of Condon and Shortley. Spins and
-- projections are stored doubled: j = 3 is 3/2.
-- SPDX-License-Identifier: Apache-2.0
local wigner = {}

local factorials = {[0] = 1.0}
local function factorial(n) -- of n / 2
    n = n // 2
    for p = #factorials + 1, n do factorials[p] = factorials[p - 1] * p end
    return factorials[n]
end

function wigner.triangle(a, b, c) return (a + b + c) % 2 == 0 and math.abs(a - b) <= c and c <= a + b end

function wigner.sign(n) return n % 2 == 0 and 1 or -1 end

local function possible(j1, m1, j2, m2, j, m)
    if m1 + m2 ~= m or not wigner.triangle(j1, j2, j) then return false end
    if math.abs(m1) > j1 or math.abs(m2) > j2 or math.abs(m) > j then return false end
    return (j1 + m1) % 2 == 0 and (j2 + m2) % 2 == 0 and (j + m) % 2 == 0
end

-- <j1 m1 j2 m2 | j m>
function wigner.cg(j1, m1, j2, m2, j, m)
    if not possible(j1, m1, j2, m2, j, m) then return 0 end
    local f = factorial
    local square = (j + 1) * f(j1 + j2 - j) * f(j1 - j2 + j) * f(j2 + j - j1) / f(j1 + j2 + j + 2)
    square = square * f(j1 + m1) * f(j1 - m1) * f(j2 + m2) * f(j2 - m2) * f(j + m) * f(j - m)
    local low = math.max(0, j2 - j - m1, j1 - j + m2) // 2
    local high = math.min(j1 + j2 - j, j1 - m1, j2 + m2) // 2
    local sum = 0
    for t = low, high do
        local below = f(2 * t) * f(j1 + j2 - j - 2 * t) * f(j1 - m1 - 2 * t) * f(j2 + m2 - 2 * t)
        sum = sum + wigner.sign(t) / (below * f(j - j2 + m1 + 2 * t) * f(j - j1 - m2 + 2 * t))
    end
    return sum * math.sqrt(square)
end

-- (F3) of the adjoint A~_q = (-1)^(k-q) (A_-q)^+: A~[i, j] = this * A[j, i].
function wigner.tilde(i, j, k) return wigner.sign((j + k - i) // 2) * math.sqrt((j + 1) / (i + 1)) end

return wigner
