-- What a model text means: expressions, + hc, merging, per-site and per-bond values, flavours, charges, kinds
-- of sites, products.
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
local function electron_terms(lines)
    return (terms("-- H\nsite(electron())\nconserve { \"N_up\", \"N_dn\" }\nparameters { t = 1 }\n" .. lines
        .. "\nonsite(t*n(i))\n"))
end

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
        assert.are.same({"J * Sp(i)*Sm(j) + hc"},
            spin_terms('bond("nn", J*Sp(i)*Sm(j) + J*adj(Sp(i)*Sm(j)))'))
        -- its own adjoint: twice itself
        assert.are.same({"2*J * Sz(i)*Sz(j)"}, spin_terms('bond("nn", J*Sz(i)*Sz(j) + hc)'))
        assert.are.same({"2*J * Sp(i)*Sm(j) + hc"}, spin_terms('bond("nn", J*Sp(i)*Sm(j) + hc + hc)'))
    end)
    it("multiply operators on one site through their matrices", function()
        assert.are.same({"J * (Sp*Sm)(i)"}, spin_terms("onsite(J*Sp(i)*Sm(i))"))
        assert.are.same({"J/4"}, spin_terms("onsite(J*Sz(i)*Sz(i))")) -- spin 1/2
        assert.are.same({"J/2 * Sp(i)*Sm(j) + hc"}, spin_terms('bond("nn", J*(Sz(i)*Sp(i)*Sm(j) + hc))'))
        assert.are.same({"J"}, spin_terms("onsite(J)"))
    end)
    it("take the sign of fermions when they sort a product", function()
        assert.are.same({"-t * cdag_up(i)*c_up(j) + hc", "t * n(i)"},
            electron_terms('bond("nn", t*(c_up(j)*cdag_up(i) + hc))'))
        assert.are.same({"-t * c_up(i)*cdag_up(j) + hc", "t * n(i)"},
            electron_terms('bond("nn", t*(cdag_up(j)*c_up(i) + hc))'))
        assert.are.same({"-t * n_dn(i)*n_up(j)", "t * n(i)"},
            electron_terms('bond("nn", t*cdag_dn(i)*cdag_up(j)*c_dn(i)*c_up(j))'))
        assert.are.same({"-t * docc(i)", "t * n(i)"},
            electron_terms("onsite(t*cdag_up(i)*cdag_dn(i)*c_up(i)*c_dn(i))"))
    end)
    it("sum over flavours and pairs of them", function()
        assert.are.same({"t * docc(i)", "t * n(i)"},
            electron_terms("onsite(t*sum_pairs(s, s2, n(i,s)*n(i,s2)))"))
        assert.are.same({"t * n_up(i)*n_dn(j)", "t * n_dn(i)*n_up(j)", "t * n(i)"},
            electron_terms('bond("nn", t*sum(s, sum(s2, n(i,s)*n(j,s2))) - t*sum(s, n(i,s)*n(j,s)))'))
        local list = terms(
            "-- H\nstructural { F = 3/2 }\nsite(electron(F))\nconserve \"N\"\nonsite(sum_pairs(s, s2, n(i,s)*n(i,s2)))\n")
        assert.are.equal(6, #list)
        assert.are.same({"-t * cdag_up(i)*c_up(j) + hc", "t * n(i)"},
            electron_terms('bond("nn", -t*(cdag(i,"up")*c(j,"up") + hc))'))
    end)
    it("know sites, distance, coordinates and the size", function()
        assert.are.same({"(-1)^i*J * Sz(i)"}, spin_terms("onsite((-1)^i*J*Sz(i))"))
        assert.are.same({"J/r^3 * Sz(i)*Sz(j)"}, spin_terms("pairs(J/r^3*Sz(i)*Sz(j))"))
        assert.are.same({"J*cos(3.141592653589793*x)*y/N * Sz(i)"},
            spin_terms("onsite(J*cos(pi*x)*y/N*Sz(i))"))
        assert.are.same({"h(i)*h(j) * Sz(i)*Sz(j)"}, spin_terms('bond("nnn", h(i)*h(j)*Sz(i)*Sz(j))'))
        assert.are.same({"J * Sz(i)*Sz(j)*Sz(k)*Sz(l)*Sz(at(5))"},
            spin_terms("run(5, J*Sz(i)*Sz(j)*Sz(k)*Sz(l)*Sz(at(5)))"))
    end)
    it("sum a product over flavours of which some of its parts have one or none", function()
        local list = electron_terms("onsite(t*sum_pairs(s, s2, (n(i,s) - 1/2)*(n(i,s2) - 1/2)))")
        assert.are.same({"t * docc(i)", "-t/2 * n_up(i)", "-t/2 * n_dn(i)", "t/4", "t * n(i)"}, list)
    end)
    it("take coefficients of hundreds of terms within the bound on a model's time", function()
        assert.are.equal(1, #spin_terms("q = 0\nfor d = 1, 1000 do q = q + J^d end\nonsite(q*Sz(i))"))
        assert.are.same({"2*(J*x + J*y) * Sz(i)"},
            spin_terms("onsite((J*x + J*y)*Sz(i) + (J*x + J*y)*Sz(i))"))
    end)
    it("take helper definitions, loops and powers", function()
        assert.are.same({"J/16"}, spin_terms("q = Sz*Sz\nonsite(J*q(i)^2)"))
        assert.are.equal(3, #spin_terms("for d = 1, 3 do pairs(d, J/d*Sz(i)*Sz(j)) end"))
    end)
    it("accept a Hamiltonian that is Hermitian only as a whole", function()
        local list = terms(
            '-- H\nsite(electron())\nconserve "N"\nbond("nn", cdag_up(i)*c_up(j))\nbond("nn", cdag_up(j)*c_up(i))\n')
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
        for p, c in ipairs(out.charges) do
            list[p] = string.format("%s %d %d/%d %d", c.name, c.modulus, c.num, c.den, c.odd)
        end
        return list, out
    end
    local hop = '\nbond("nn", sum(s, cdag(i,s)*c(j,s)) + hc)\n'
    it("get a unit and carry the fermion parity", function()
        assert.are.same({"Sz 0 1/2 0"}, charges('-- H\nsite(spin(3/2))\nconserve "Sz"\nonsite(Sz(i))\n'))
        assert.are.same({"Sz 0 1/1 0"}, charges('-- H\nsite(spin(1))\nconserve "Sz"\nonsite(Sz(i))\n'))
        assert.are.same({"N_up 0 1/1 1", "N_dn 0 1/1 1"},
            charges('-- H\nsite(electron())\nconserve "each flavour"' .. hop))
        assert.are.same({"N 0 1/1 1", "Sz 0 1/2 0"},
            charges('-- H\nsite(electron())\nconserve { N = n, Sz = Sz }' .. hop))
        assert.are.same({"Sz 0 1/2 1"}, charges('-- H\nsite(electron())\nconserve "Sz"' .. hop))
        assert.are.same({"Q 4 1/1 1"}, charges('-- H\nsite(electron())\nconserve { Q = mod(n, 4) }' .. hop))
        assert.are.same({"D 0 2/1 0"}, charges('-- H\nsite(boson(3))\nconserve { D = 2*n }\nonsite(n(i))\n'))
    end)
    it("get a Z2 parity where the others do not tell it", function()
        assert.are.same({"parity 2 1/1 1"}, charges('-- H\nsite(electron())\nconserve "nothing"' .. hop))
        assert.are.same({"Q 3 1/1 0", "parity 2 1/1 1"},
            charges('-- H\nsite(electron())\nconserve { Q = mod(n, 3) }' .. hop))
        local list = charges(
            '-- H\nsite(product(electron(), spin(1/2)))\nconserve { Sz = Sz_electron + Sz_spin }' .. hop)
        assert.are.same({"Sz 0 1/2 0", "parity 2 1/1 1"}, list)
    end)
    it("are none where none is asked for", function()
        assert.are.same({}, charges('-- H\nsite(spin(1/2))\nconserve "nothing"\nonsite(Sx(i))\n'))
    end)
    it("give every state of several kinds of sites its value", function()
        local _, out = charges(
            '-- H\nsite(spin(1))\nsite("ends", spin(1/2))\nconserve "Sz"\nbond("nn", S_dot_S(i,j))\n')
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
                    assert.is_true(matrix.is_zero(matrix.add(matrix.transpose(op.m), back, -1)),
                        name .. " " .. op.name)
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
        local _, out = terms(
            '-- H\nsite(boson(4))\nconserve "N"\nnamed({"0","1","2","3"}, bdag(i)*bdag(j)*b(k)*b(l) + hc)\n')
        local t = out.types[1]
        local at = out.terms[1].factors
        local p = at[1].op[1]
        for f = 2, 4 do
            assert.are_not.equal(lower.NONE, t.table[p][at[f].op[1]][1])
            p = t.table[p][at[f].op[1]][1]
        end
    end)
    it("take operators of several kinds of sites by name", function()
        local _, out = terms(
            '-- H\nsite(electron())\nsite("even", spin(1/2))\nconserve { N = n, Sz = Sz }\nbond("nn", Sz(i)*Sz(j))\nonsite("odd", docc(i))\n')
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
    it("multiply on mixed kinds of sites only what has one adjoint on all of them", function()
        local kinds = '-- H\nsite(spin(1))\nsite("ends", %s)\nconserve "nothing"\nparameters { A = 1 }\n%s\n'
        -- i Sy S+ is its own adjoint on one kind of site, and not on the other
        assert.are.same({"A * (iSy*Sp)(i) + hc"},
            (terms(string.format(kinds, "spin(1/2)", "onsite(A*(iSy(i)*Sp(i) + hc))"))))
        local list, out = terms(string.format(kinds, "spin(3/2)", 'bond("nn", A*S_dot_S(i,j)^4)'))
        assert.is_true(#list > 10)
        for _, e in ipairs(out.terms) do
            for _, f in ipairs(e.factors) do
                local one, two = out.types[1].op[f.op[1]], out.types[2].op[f.op[2]]
                assert.are.equal(one.adjoint_factor, two.adjoint_factor)
            end
        end
    end)
    it("drop a product that only its adjoint shows to be zero", function()
        assert.are.same({"n(i)"},
            (terms('-- H\nsite(electron())\nsite("ends", without(electron(), "updn"))\nconserve "nothing"\n'
            .. "onsite(Sp(i)*cdag_dn(i)*Sp(i)*c_up(i) + hc)\nonsite(n(i))\n")))
    end)
    it("keep products of small matrices, and take rounding noise out of them", function()
        local function small(term)
            return terms('-- H\nsite(matrices{ states = {"a", "b"}, Y = {{0, 1e-9}, {1e-9, 0}}, D = {{1e-9, 1e-9}, {1e-9, -1e-9}} })\nconserve "nothing"\n'
                .. "parameters { J = 1 }\n" .. term .. "\n")
        end
        local _, out = small("onsite(J*Y(i)*Y(i))")
        assert.is_true(math.abs(out.terms[1].coef.c / 1e-18 - 1) < 1e-12)
        -- 2e-18 times the identity, without elements off the diagonal
        _, out = small("onsite(J*D(i)*D(i))")
        assert.are.equal(1, #out.terms)
        assert.is_true(math.abs(out.terms[1].coef.c / 2e-18 - 1) < 1e-12)
        _, out = terms('-- H\nsite(matrices{ states = {"a", "b"}, X = {{1e10, 0}, {0, 1e-3}} })\nconserve "nothing"\nonsite(X(i)*X(i))\n')
        -- 1e-6 stays in a sum with 1e20
        assert.are.equal(2, #matrix.elements(out.types[1].op[out.terms[1].factors[1].op[1]].m))
        -- not Hermitian, which the sum of small matrices still has to tell
        local refused, _, why =
            helper.lower('-- H\nsite(matrices{ states = {"a", "b"}, Y = {{0, 1e-9}, {0, 0}} })\nconserve "nothing"\nonsite(1e-9*Y(i))\n')
        assert.is_nil(refused)
        assert.is_truthy(string.find(why, "not Hermitian", 1, true), why)
    end)
    it("hold products of large matrices as far as the terms need them", function()
        assert.is_truthy(helper.generate(
            '-- H\nsite(matrices{ states = {"a", "b"}, X = {{1e100, 1}, {1, -1e100}} })\nconserve "nothing"\nonsite(X(i))\n'))
    end)
end)

describe("structural parameters", function()
    it("choose the variant, in the order of the file", function()
        local model = language.read(
            "-- H\nstructural { zeta = 2, alpha = 1/2 }\nsite(product(spin(alpha), boson(zeta)))\nconserve \"Sz\"\nonsite(Sz(i))\n", {alpha = "3/2"})
        assert.are.equal("zeta=2,alpha=3/2", language.variant(model))
    end)
end)
