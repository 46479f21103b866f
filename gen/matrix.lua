-- Sparse real matrices of one local space, exact where their elements are square roots of small fractions.
-- Rows and columns count from 0; element (row, col) is kept under the key col * dim + row, so that sorted
-- keys are C's order.
-- SPDX-License-Identifier: Apache-2.0
local util = require("util")

local matrix = {}

local function new(dim) return {dim = dim, e = {}} end
matrix.new = new

function matrix.set(m, row, col, v) m.e[col * m.dim + row] = v ~= 0 and v or nil end
function matrix.get(m, row, col) return m.e[col * m.dim + row] or 0 end

-- Sorted list of {row, col, value}.
function matrix.elements(m)
    local keys = {}
    for k in pairs(m.e) do keys[#keys + 1] = k end
    table.sort(keys)
    local list = {}
    for p, k in ipairs(keys) do list[p] = {k % m.dim, k // m.dim, m.e[k]} end
    return list
end

-- Values of a spin, boson or fermion operator are square roots of n/64; rounding noise of sqrt(2)*sqrt(2) is
-- taken out here. What is below `noise` is none.
local function snap(v, noise)
    local w = v * v * 64
    local n = math.floor(w + 0.5)
    if n == 0 then return math.abs(v) < noise and 0 or v end
    if n < 2 ^ 30 and math.abs(w - n) < 1e-14 * w then
        local root = math.sqrt(n / 64)
        return v < 0 and -root or root
    end
    return v
end

-- What counts as noise where the largest elements are of this size: matrices may be small as a whole. Those
-- of large ones stay, which may differ by many orders: n^8 of few bosons and of many.
local function noise_of(size) return 1e-14 * math.min(1, size) end
local function largest(m)
    local size = 0
    for _, v in pairs(m.e) do
        if v > size then size = v elseif -v > size then size = -v end
    end
    return size
end

function matrix.identity(dim)
    local m = new(dim)
    for p = 0, dim - 1 do m.e[p * dim + p] = 1.0 end
    return m
end

function matrix.diagonal(values)
    local m = new(#values)
    for p, v in ipairs(values) do matrix.set(m, p - 1, p - 1, v + 0.0) end
    return m
end

function matrix.transpose(m)
    local t = new(m.dim)
    for k, v in pairs(m.e) do t.e[(k % m.dim) * m.dim + k // m.dim] = v end
    return t
end

function matrix.scale(m, f)
    local s = new(m.dim)
    if f ~= 0 then
        for k, v in pairs(m.e) do s.e[k] = v * f end
    end
    return s
end

function matrix.add(a, b, f)
    f = f or 1
    local s, noise = new(a.dim), noise_of(math.max(largest(a), math.abs(f) * largest(b)))
    for k, v in pairs(a.e) do s.e[k] = v end
    for k, v in pairs(b.e) do
        local w = snap((s.e[k] or 0) + f * v, noise)
        s.e[k] = w ~= 0 and w or nil
    end
    return s
end

-- Columns that are not empty as lists row, value, row, value, ...; cached, with the largest element: matrices
-- do not change once they are multiplied.
local function columns(m)
    if not m.columns then
        local c = {}
        for _, el in ipairs(matrix.elements(m)) do
            local list = c[el[2]]
            if not list then list = {}; c[el[2]] = list end
            list[#list + 1], list[#list + 2] = el[1], el[3]
        end
        m.columns, m.largest = c, largest(m)
    end
    return m.columns
end

-- nil where an element is too large for a number. Loops count: this is where the generator spends its time.
function matrix.finite_product(a, b)
    local dim, ac, bc, p = a.dim, columns(a), columns(b), new(a.dim)
    local e = p.e
    for col, from in pairs(bc) do
        local base = col * dim
        for q = 1, #from, 2 do
            local list, factor = ac[from[q]], from[q + 1]
            if list then
                for r = 1, #list, 2 do
                    local k = base + list[r]
                    e[k] = (e[k] or 0) + list[r + 1] * factor
                end
            end
        end
    end
    local noise = noise_of(a.largest * b.largest)
    for k, v in pairs(e) do
        if v ~= 1 and v ~= -1 then
            if v - v ~= 0 then return nil end -- not finite
            local w = snap(v, noise)
            e[k] = w ~= 0 and w or nil
        end
    end
    return p
end

-- `line` is the one to name in a refusal; nil while a model is run.
function matrix.multiply(a, b, line)
    local p = matrix.finite_product(a, b)
    if not p then
        util.refuse_at(line or util.model_line(),
            "a product of operators on one site has elements that are too large for a number (beyond 1e308)")
    end
    return p
end

function matrix.is_zero(m) return next(m.e) == nil end

-- Key of the pattern of non-zeros: the same for matrices that are multiples of each other.
function matrix.pattern(m)
    local h, n = 0, 0
    for k in pairs(m.e) do
        local z = (k + 1) * 0x9E3779B97F4A7C15
        z = (z ~ (z >> 29)) * 0xBF58476D1CE4E5B9
        h = h + (z ~ (z >> 32))
        n = n + 1
    end
    return string.format("%d:%x", n, h)
end

-- f with a == f * b, or nil. Both are not zero.
function matrix.ratio(a, b)
    local first
    for k in pairs(b.e) do
        if not first or k < first then first = k end
    end
    if not a.e[first] then return nil end
    local factor = snap(a.e[first] / b.e[first], 0)
    -- no number says by how much
    if not util.is_finite(factor) or not util.is_finite(1 / factor) then return nil end
    for k, v in pairs(b.e) do
        local w = a.e[k]
        if not w or math.abs(w - factor * v) > 1e-13 * math.abs(factor * v) then return nil end
    end
    for k in pairs(a.e) do
        if not b.e[k] then return nil end
    end
    return factor
end

return matrix
