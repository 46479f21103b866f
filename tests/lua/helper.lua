-- What the specs of the generator share: where its files are, runs of it inside and outside of this process.
-- SPDX-License-Identifier: Apache-2.0
local helper = {}

local here = string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "./"
helper.here = here
helper.root = here .. "../../"
package.path = helper.root .. "gen/?.lua;" .. package.path

local util, language, lower, tables, emit = require("util"), require("language"), require("lower"),
    require("tables"), require("emit")

helper.models = {
    "blbq", "bose_hubbard", "extended_hubbard", "heisenberg", "holstein", "hubbard", "ising", "j1j2", "kondo",
        "longrange", "pairing", "tj",
}

function helper.model_path(name) return helper.root .. "models/" .. name .. ".lua" end
function helper.model_text(name) return assert(util.read(helper.model_path(name))) end

-- Tables of a model text; a refusal comes back as nil, line, text. Anything else is raised.
function helper.lower(text, set)
    local ok, out = pcall(function() return lower.model(language.read(text, set)) end)
    if ok then return out end
    if type(out) == "table" and out.refusal then return nil, out.line, out.text end
    error(out, 0)
end

-- The tables of a model text, or nil, line, text of its refusal.
function helper.tables(text, set) return util.attempt(tables.of, "m.lua", text, set) end

-- The same up to the C text.
function helper.generate(text, set, symbol)
    local v, line, why = helper.tables(text, set)
    if not v then return nil, line, why end
    return emit.model(v, symbol or "kl_model_entry",
        assert(util.read(helper.root .. "templates/model.c.tpl")))
end

-- Short model around some lines: spins 1/2 with parameters J and h.
function helper.spins(lines)
    return '-- H = 0\nsite(spin(1/2))\nconserve "Sz"\nparameters { J = 1, h = per_site(0) }\nbond("nn", J*Sz(i)*Sz(j))\nonsite(h*Sz(i))\n' .. lines .. "\n"
end

function helper.quote(s) return "'" .. string.gsub(s, "'", "'\\''") .. "'" end

-- Runs a shell command: exit status, stdout, stderr.
function helper.run(command)
    local out, err = os.tmpname(), os.tmpname()
    local _, kind, status = os.execute(string.format("%s > %s 2> %s", command, out, err))
    local o, e = util.read(out), util.read(err)
    os.remove(out)
    os.remove(err)
    return kind == "exit" and status or 128 + status, o, e
end

-- A run of the command. seconds: that a model may take, other than those of util.limits.
function helper.gen(arguments, seconds)
    local limit = seconds and string.format("-e %s", helper.quote(string.format(
        "package.path = %q .. package.path require('util').limits.seconds = %g",
        helper.root .. "gen/?.lua;", seconds))) or ""
    return helper.run(string.format("%s %s %sgen/gen.lua %s", os.getenv("LUA") or "lua5.4", limit,
        helper.quote(helper.root), arguments))
end

-- A C compiler, or nil.
function helper.cc()
    for _, cc in ipairs({os.getenv("CC") or "gcc", "gcc", "clang", "clang-22", "cc"}) do
        if helper.run(cc .. " --version") == 0 then return cc end
    end
    return nil
end

-- A new folder, removed by helper.remove.
function helper.folder()
    local name = os.tmpname()
    os.remove(name)
    assert(os.execute("mkdir " .. helper.quote(name)))
    return name
end
function helper.remove(folder) os.execute("rm -rf " .. helper.quote(folder)) end

-- H of a lowered model on `nsite` sites of one type as a dense matrix, with its own Jordan-Wigner strings (a
-- Kronecker product of local matrices, parity matrices to the left of odd ones). bonds: list of {i, j}.
-- params: scalars; arrays count as these too.
function helper.dense(out, nsite, bonds, params)
    local algebra = require("algebra")
    local t = out.types[1]
    local d = t.dim
    local dim = d ^ nsite // 1 | 0
    local h = {}
    for a = 1, dim do h[a] = {} end
    local function elements(op)
        local m = {}
        for k, v in pairs(t.op[op].m.e) do m[#m + 1] = {k % d, k // d, v} end
        return m
    end
    local digits = {}
    local function split(state)
        for s = nsite, 1, -1 do
            digits[s] = state % d
            state = state // d
        end
    end
    -- applies op on site to a vector {state = amplitude}
    local function apply(op, site, v)
        local w, els, odd = {}, elements(op), t.op[op].odd
        for state, x in pairs(v) do
            split(state)
            local sign, place = 1, d ^ (nsite - site) // 1 | 0
            if odd == 1 then
                for s = 1, site - 1 do
                    if t.space.parity[digits[s] + 1] == 1 then sign = -sign end
                end
            end
            local col = digits[site]
            for _, el in ipairs(els) do
                if el[2] == col then
                    local to = state + (el[1] - col) * place
                    w[to] = (w[to] or 0) + sign * el[3] * x
                end
            end
        end
        return w
    end
    local function add(e, sites)
        local c = algebra.coef_value(e.coef, function(a)
            if a.k == "par" then return params[a.name] end
            if a.k == "r" then return math.abs(sites[1] - sites[2]) end
            if a.k == "N" then return nsite end
            return sites[a.slot or 1] - 1
        end)
        for state = 0, dim - 1 do
            local v = {[state] = c}
            for f = #e.factors, 1, -1 do v = apply(e.factors[f].op[1], sites[e.factors[f].slot], v) end
            for to, x in pairs(v) do
                h[to + 1][state + 1] = (h[to + 1][state + 1] or 0) + x
                if e.hc then h[state + 1][to + 1] = (h[state + 1][to + 1] or 0) + x end
            end
        end
    end
    for _, e in ipairs(out.terms) do
        local place = e.st.place
        if place == "SITE" then
            for s = 1, nsite do add(e, {s}) end
        elseif place == "BOND" then
            for _, b in ipairs(bonds[e.st.where] or {}) do add(e, b) end
        elseif place == "PAIR" then
            for a = 1, nsite do
                for b = a + 1, nsite do add(e, {a, b}) end
            end
        else
            error("placement " .. place)
        end
    end
    return h, dim
end

-- Lowest eigenvalue by a plain Lanczos recursion, and the largest |H - H^T|.
function helper.lowest(h, dim)
    local rows, skew = {}, 0
    for a = 1, dim do
        rows[a] = {}
        for b, v in pairs(h[a]) do
            rows[a][#rows[a] + 1] = {b, v}
            skew = math.max(skew, math.abs(v - (h[b][a] or 0)))
        end
    end
    local basis, alpha, beta = {}, {}, {}
    local v = {}
    local seed = 12345
    for a = 1, dim do
        seed = (seed * 1103515245 + 12345) % 2147483648
        v[a] = seed / 2147483648 - 0.5
    end
    local function norm(x)
        local s = 0
        for a = 1, dim do s = s + x[a] * x[a] end
        return math.sqrt(s)
    end
    local n = norm(v)
    for a = 1, dim do v[a] = v[a] / n end
    for step = 1, math.min(dim, 120) do
        basis[step] = v
        local w = {}
        for a = 1, dim do
            local s = 0
            for _, e in ipairs(rows[a]) do s = s + e[2] * v[e[1]] end
            w[a] = s
        end
        local s = 0
        for a = 1, dim do s = s + w[a] * v[a] end
        alpha[step] = s
        for _ = 1, 2 do
            for _, u in ipairs(basis) do
                local o = 0
                for a = 1, dim do o = o + u[a] * w[a] end
                for a = 1, dim do w[a] = w[a] - o * u[a] end
            end
        end
        local b = norm(w)
        if b < 1e-10 then break end
        beta[step] = b
        for a = 1, dim do w[a] = w[a] / b end
        v = w
    end
    -- bisection by Sturm counts
    local m = #alpha
    local function below(x)
        local count, q = 0, 1
        for k = 1, m do
            q = alpha[k] - x - (k > 1 and beta[k - 1] ^ 2 / q or 0)
            if q == 0 then q = 1e-300 end
            if q < 0 then count = count + 1 end
        end
        return count
    end
    local lo, hi = -1e3, 1e3
    for _ = 1, 200 do
        local mid = (lo + hi) / 2
        if below(mid) >= 1 then hi = mid else lo = mid end
    end
    return (lo + hi) / 2, skew
end

return helper
