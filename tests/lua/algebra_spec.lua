-- What a model text means: expressions, + hc, merging, per-site and per-bond values, flavours, charges, kinds of sites, products.
-- SPDX-License-Identifier: Apache-2.0
local helper = dofile((string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "./") .. "helper.lua")
local lower, matrix, language = require("lower"), require("matrix"), require("language")

local function terms(text, set)
    local out, line, why = helper.lower(text, set)
    assert.is_truthy(out, why and line .. ": " .. why)
    local list = {}
    for p, e in ipairs(out.terms) do list[p] = e.text end
    return list, out
end
local function spin_terms(lines)
    local list = terms(helper.spins(lines))
    return {table.unpack(list, 3)}
end
local function electron_terms(lines) return (terms("-- H\nsite(electron())\nconserve { \"N_up\", \"N_dn\" }\nparameters { t = 1 }\n" .. lines .. "\nonsite(t*n(i))\n")) end

describe("expressions", function()
    it("multiply out, gather numbers and merge equal products", function()
        assert.are.same({"J * Sz(i)*Sz(j)"}, spin_terms('bond("nn", J*Sz(i)*Sz(j)/2 + 0.5*J*Sz(i)*Sz(j))'))
        assert.are.same({"4*J * Sz(i)*Sz(j)"}, spin_terms('bond("nn", (2*J)*(Sz(i)*2)*Sz(j))'))
        assert.are.same({"J/2 * Sz(i)"}, spin_terms("onsite(J*Sz(i)*(1 - 1/2) + 0*Sz(i))"))
        assert.are.same({"(J - h(i))/2 * Sz(i)"}, spin_terms("onsite((J - h)/2*Sz(i))"))
    end)
    it("read + hc as the adjoint of all that stands before it", function()
        assert.are.same({"J * Sp(i)*Sm(j) + hc"}, spin_terms('bond("nn", J*Sp(i)*Sm(j) + hc)'))
        assert.are.same({"J * Sp(i)*Sm(j) + hc"}, spin_terms('bond("nn", J*(Sp(i)*Sm(j) + Sm(i)*Sp(j)))'))
        assert.are.same({"J * Sp(i)*Sm(j) + hc"}, spin_terms('bond("nn", J*Sp(i)*Sm(j) + J*adj(Sp(i)*Sm(j)))'))
        assert.are.same({"2*J * Sz(i)*Sz(j)"}, spin_terms('bond("nn", J*Sz(i)*Sz(j) + hc)')) -- its own adjoint: twice itself
        assert.are.same({"2*J * Sp(i)*Sm(j) + hc"}, spin_terms('bond("nn", J*Sp(i)*Sm(j) + hc + hc)'))
    end)
    it("multiply operators on one site through their matrices", function()
        assert.are.same({"J * (Sp*Sm)(i)"}, spin_terms("onsite(J*Sp(i)*Sm(i))"))
        assert.are.same({"J/4"}, spin_terms("onsite(J*Sz(i)*Sz(i))")) -- spin 1/2
        assert.are.same({"J/2 * Sp(i)*Sm(j) + hc"}, spin_terms('bond("nn", J*(Sz(i)*Sp(i)*Sm(j) + hc))'))
        assert.are.same({"J"}, spin_terms("onsite(J)"))
    end)
    it("take the sign of fermions when they sort a product", function()
        assert.are.same({"-t * cdag_up(i)*c_up(j) + hc", "t * n(i)"}, electron_terms('bond("nn", t*(c_up(j)*cdag_up(i) + hc))'))
        assert.are.same({"-t * c_up(i)*cdag_up(j) + hc", "t * n(i)"}, electron_terms('bond("nn", t*(cdag_up(j)*c_up(i) + hc))'))
        assert.are.same({"-t * n_dn(i)*n_up(j)", "t * n(i)"}, electron_terms('bond("nn", t*cdag_dn(i)*cdag_up(j)*c_dn(i)*c_up(j))'))
        assert.are.same({"-t * docc(i)", "t * n(i)"}, electron_terms("onsite(t*cdag_up(i)*cdag_dn(i)*c_up(i)*c_dn(i))"))
    end)
    it("sum over flavours and pairs of them", function()
        assert.are.same({"t * docc(i)", "t * n(i)"}, electron_terms("onsite(t*sum_pairs(s, s2, n(i,s)*n(i,s2)))"))
        assert.are.same({"t * n_up(i)*n_dn(j)", "t * n_dn(i)*n_up(j)", "t * n(i)"},
            electron_terms('bond("nn", t*sum(s, sum(s2, n(i,s)*n(j,s2))) - t*sum(s, n(i,s)*n(j,s)))'))
        local list = terms("-- H\nstructural { F = 3/2 }\nsite(electron(F))\nconserve \"N\"\nonsite(sum_pairs(s, s2, n(i,s)*n(i,s2)))\n")
        assert.are.equal(6, #list)
        assert.are.same({"-t * cdag_up(i)*c_up(j) + hc", "t * n(i)"}, electron_terms('bond("nn", -t*(cdag(i,"up")*c(j,"up") + hc))'))
    end)
    it("know sites, distance, coordinates and the size", function()
        assert.are.same({"(-1)^i*J * Sz(i)"}, spin_terms("onsite((-1)^i*J*Sz(i))"))
        assert.are.same({"J/r^3 * Sz(i)*Sz(j)"}, spin_terms("pairs(J/r^3*Sz(i)*Sz(j))"))
        assert.are.same({"J*cos(3.141592653589793*x)*y/N * Sz(i)"}, spin_terms("onsite(J*cos(pi*x)*y/N*Sz(i))"))
        assert.are.same({"h(i)*h(j) * Sz(i)*Sz(j)"}, spin_terms('bond("nnn", h(i)*h(j)*Sz(i)*Sz(j))'))
        assert.are.same({"J * Sz(i)*Sz(j)*Sz(k)*Sz(l)*Sz(at(5))"}, spin_terms("run(5, J*Sz(i)*Sz(j)*Sz(k)*Sz(l)*Sz(at(5)))"))
    end)
    it("take helper definitions, loops and powers", function()
        assert.are.same({"J/16"}, spin_terms("q = Sz*Sz\nonsite(J*q(i)^2)"))
        assert.are.equal(3, #spin_terms("for d = 1, 3 do pairs(d, J/d*Sz(i)*Sz(j)) end"))
    end)
    it("accept a Hamiltonian that is Hermitian only as a whole", function()
        local list = terms('-- H\nsite(electron())\nconserve "N"\nbond("nn", cdag_up(i)*c_up(j))\nbond("nn", cdag_up(j)*c_up(i))\n')
        assert.are.equal(2, #list)
        -- n_up - n = -n_dn: Hermitian only when seen as matrices
        list = terms('-- H\nsite(boson(3))\nconserve "nothing"\nonsite(b(i)*bdag(i)*b(i) - n(i)*b(i) + b(i)*n(i) - b(i)*bdag(i)*b(i) + hc)\n')
        assert.is_true(#list > 0)
    end)
    it("keep apart what is equal for positive parameters only", function()
        local same = spin_terms('bond("nn", J*Sp(i)*Sm(j) + J*Sm(i)*Sp(j))')
        assert.are.equal(1, #same)
        assert.are.equal(2, #spin_terms('bond("nn", abs(J)*Sp(i)*Sm(j) + J*Sm(i)*Sp(j))'))
        assert.are.equal(1, #spin_terms('bond("nn", sqrt(J)*Sp(i)*Sm(j) + sqrt(J)*Sm(i)*Sp(j))'))
    end)
end)

describe("charges", function()
    local function charges(text)
        local _, out = terms(text)
        local list = {}
        for p, c in ipairs(out.charges) do list[p] = string.format("%s %d %d/%d %d", c.name, c.modulus, c.num, c.den, c.odd) end
        return list, out
    end
    local hop = '\nbond("nn", sum(s, cdag(i,s)*c(j,s)) + hc)\n'
    it("get a unit and carry the fermion parity", function()
        assert.are.same({"Sz 0 1/2 0"}, charges('-- H\nsite(spin(3/2))\nconserve "Sz"\nonsite(Sz(i))\n'))
        assert.are.same({"Sz 0 1/1 0"}, charges('-- H\nsite(spin(1))\nconserve "Sz"\nonsite(Sz(i))\n'))
        assert.are.same({"N_up 0 1/1 1", "N_dn 0 1/1 1"}, charges('-- H\nsite(electron())\nconserve "each flavour"' .. hop))
        assert.are.same({"N 0 1/1 1", "Sz 0 1/2 0"}, charges('-- H\nsite(electron())\nconserve { N = n, Sz = Sz }' .. hop))
        assert.are.same({"Sz 0 1/2 1"}, charges('-- H\nsite(electron())\nconserve "Sz"' .. hop))
        assert.are.same({"Q 4 1/1 1"}, charges('-- H\nsite(electron())\nconserve { Q = mod(n, 4) }' .. hop))
        assert.are.same({"D 0 2/1 0"}, charges('-- H\nsite(boson(3))\nconserve { D = 2*n }\nonsite(n(i))\n'))
    end)
    it("get a Z2 parity where the others do not tell it", function()
        assert.are.same({"parity 2 1/1 1"}, charges('-- H\nsite(electron())\nconserve "nothing"' .. hop))
        assert.are.same({"Q 3 1/1 0", "parity 2 1/1 1"}, charges('-- H\nsite(electron())\nconserve { Q = mod(n, 3) }' .. hop))
        local list = charges('-- H\nsite(product(electron(), spin(1/2)))\nconserve { Sz = Sz_electron + Sz_spin }' .. hop)
        assert.are.same({"Sz 0 1/2 0", "parity 2 1/1 1"}, list)
    end)
    it("are none where none is asked for", function()
        assert.are.same({}, charges('-- H\nsite(spin(1/2))\nconserve "nothing"\nonsite(Sx(i))\n'))
    end)
    it("give every state of several kinds of sites its value", function()
        local _, out = charges('-- H\nsite(spin(1))\nsite("ends", spin(1/2))\nconserve "Sz"\nbond("nn", S_dot_S(i,j))\n')
        assert.are.equal("ends", out.types[2].where)
        assert.are.same({{2}, {0}, {-2}}, out.types[1].charge)
        assert.are.same({{1}, {-1}}, out.types[2].charge)
    end)
end)

describe("tables", function()
    it("hold every adjoint and every product of named operators", function()
        for _, name in ipairs(helper.models) do
            local out = assert(helper.lower(helper.model_text(name)))
            for _, t in ipairs(out.types) do
                for p, op in ipairs(t.op) do
                    local back = matrix.scale(t.op[op.adjoint].m, op.adjoint_factor)
                    assert.is_true(matrix.is_zero(matrix.add(matrix.transpose(op.m), back, -1)), name .. " " .. op.name)
                    for q, other in ipairs(t.op) do
                        local entry = t.table[p][q]
                        if op.named and other.named then assert.are_not.equal(lower.NONE, entry[1]) end
                        local m = matrix.multiply(op.m, other.m)
                        if entry[1] == lower.ZERO then
                            assert.is_true(matrix.is_zero(m))
                        elseif entry[1] ~= lower.NONE then
                            assert.is_truthy(matrix.ratio(m, matrix.scale(t.op[entry[1]].m, entry[2])))
                            assert.is_true(math.abs(matrix.ratio(m, t.op[entry[1]].m) - entry[2]) < 1e-13)
                        end
                    end
                end
            end
        end
    end)
    it("are closed for the factors of a term whose sites may coincide", function()
        local _, out = terms('-- H\nsite(boson(4))\nconserve "N"\nnamed({"0","1","2","3"}, bdag(i)*bdag(j)*b(k)*b(l) + hc)\n')
        local t = out.types[1]
        local at = out.terms[1].factors
        local p = at[1].op[1]
        for f = 2, 4 do
            assert.are_not.equal(lower.NONE, t.table[p][at[f].op[1]][1])
            p = t.table[p][at[f].op[1]][1]
        end
    end)
    it("take operators of several kinds of sites by name", function()
        local _, out = terms('-- H\nsite(electron())\nsite("even", spin(1/2))\nconserve { N = n, Sz = Sz }\nbond("nn", Sz(i)*Sz(j))\nonsite("odd", docc(i))\n')
        assert.are.same({lower.NONE}, {out.terms[2].factors[1].op[2]})
        assert.are.equal("Sz", out.types[2].op[out.terms[1].factors[1].op[2]].name)
    end)
    it("keep which of two equal operators was named", function()
        local _, out = terms('-- H\nsite(fermion{"a"})\nconserve "N"\nonsite(n_a(i) + n(i))\n')
        local t = out.types[1]
        for p in ipairs(t.op) do assert.are.same({p, 1}, t.table[1][p]) end
    end)
    it("cut explicit matrices and products to what the model says", function()
        local _, out = terms([[
-- H = clock model
site(matrices{ states = {"0", "1", "2"}, Q = {{0,0,0}, {0,1,0}, {0,0,2}}, X = {{0,0,1}, {1,0,0}, {0,1,0}} })
conserve { Q = mod(Q, 3) }
parameters { J = 1, h = 1 }
bond("nn", -J * (X(i)*adj(X(j)) + hc))
onsite(-h * Q(i))
]])
        local t = out.types[1]
        assert.are.equal("X^+", t.op[t.op[t.at.X].adjoint].name)
        assert.are.same({1}, t.op[t.at.X].shift)
    end)
end)

describe("structural parameters", function()
    it("choose the variant, in the order of the file", function()
        local model = language.read("-- H\nstructural { zeta = 2, alpha = 1/2 }\nsite(product(spin(alpha), boson(zeta)))\nconserve \"Sz\"\nonsite(Sz(i))\n", {alpha = "3/2"})
        assert.are.equal("zeta=2,alpha=3/2", language.variant(model))
    end)
end)
