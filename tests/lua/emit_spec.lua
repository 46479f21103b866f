-- The C file: coefficients against their values here, the same bytes on every run, depfile, registry, golden
-- output.
-- SPDX-License-Identifier: Apache-2.0
local helper = dofile((string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "./") .. "helper.lua")
local util, algebra, emit = require("util"), require("algebra"), require("emit")

describe("coefficients", function()
    it("in C have the values of the expressions", function()
        local cc = helper.cc()
        if not cc then pending("no C compiler") return end
        local lines = {}
        local expressions = {
            "J/2", "-J", "J - K2", "-(J - K2)", "J*(K2 - J)*K2", "J/(K2*J)", "J/K2/3", "J/(K2/J)",
                "(J + K2)^2", "J^-K2", "2^J", "-J^2", "1/J", "3 - J", "J - (K2 - 1)",
            "J*-2 - K2*-3", "exp(-r/K2)", "sqrt(J*J + K2^2)", "abs(J - K2)", "sin(J)*cos(K2)", "log(K2)",
                "tanh(J)", "J/r^K2", "r*x - y", "N*J", "(-1)^i*J", "(i - j)/N", "h(i)*h(j)",
            "h(j)/h(i)", "B*J", "J/(2*pi)", "exp(-number(i)/K2)", "1e-300*J*1e200", "J/7*7", "(J/3)*6",
        }
        for p, e in ipairs(expressions) do lines[p] = string.format('bond("c%d", (%s)*Sz(i)*Sz(j))', p, e) end
        local text = '-- H\nsite(spin(1/2))\nconserve "Sz"\nparameters { J = 1, K2 = 2, h = per_site(1), B = per_bond(1) }\n' .. table.concat(lines, "\n") .. "\n"
        local out = assert(helper.lower(text))
        local c = assert(helper.generate(text))
        local folder = helper.folder()
        finally(function() helper.remove(folder) end)
        local f = assert(io.open(folder .. "/m.c", "w"))
        f:write(c, [[
#include <stdio.h>
int main(void)
{
    const double scalar[] = {1.7, 0.6, 0, 0}, h[] = {0.1, 0.2, 0.3, -0.4, 0.5, 0.6}, b[] = {7, 8, 9};
    const double *const array[] = {NULL, NULL, h, b};
    const kl_coef_args a = {scalar, array, {3, 5}, 2, 6, 2.5, 1.25, -0.5};
    for (int k = 0; k < kl_model_entry.nterm; k++)
        printf("%.17g\n", kl_coef_eval(&kl_model_entry.term[k].coef, &a));
    return 0;
}
]])
        f:close()
        local rc, _, err = helper.run(
            string.format("%s -std=gnu11 -Wall -Wextra -Wconversion -Wno-sign-conversion -Werror -I %ssrc %s/m.c %ssrc/model/coef.c -lm -o %s/m", cc, helper.root, folder, helper.root, folder))
        assert.are.equal("", err)
        assert.are.equal(0, rc)
        local _, got = helper.run(folder .. "/m")
        local p = 0
        local values = {J = 1.7, K2 = 0.6, B = 9, N = 6, r = 2.5, x = 1.25, y = -0.5, site = {3, 5},
            h = {-0.4, 0.6}}
        for number in string.gmatch(got, "%S+") do
            p = p + 1
            local want = algebra.coef_value(out.terms[p].coef, function(t)
                if t.k == "site" then return values.site[t.slot] end
                if t.k == "par" and t.kind == "site" then return values.h[t.at] end
                return values[t.name or t.k]
            end)
            assert.is_true(math.abs(want - tonumber(number)) <= 4e-16 * math.abs(want),
                expressions[p] .. " gave " .. number)
            -- and the expression means what Lua's own arithmetic says
            local env = {i = 3, j = 5, J = 1.7, K2 = 0.6, B = 9, N = 6, r = 2.5, x = 1.25, y = -0.5,
                pi = math.pi, h = function(s)
                return s == 3 and -0.4 or 0.6
            end,
                number = function(s) return s end, tanh = algebra.functions.tanh}
            local plain = assert(load("return " .. expressions[p], "e", "t",
                setmetatable(env, {__index = math})))()
            assert.is_true(math.abs(plain - want) <= 4e-15 * math.abs(plain), expressions[p])
        end
        assert.are.equal(#expressions, p)
    end)
end)

describe("steps of a coefficient", function()
    local function steps(lines, expression)
        local v = assert(helper.tables(helper.spins(lines .. "\nrun(2, (" .. expression .. ")*Sz(i)*Sz(j))")))
        for _, term in ipairs(v.terms) do
            if term.place == "RUN" then return v.coefs[term.coef + 1].steps end
        end
    end
    it("are one for parts that are equal", function()
        local list = {}
        for p, s in ipairs(steps("", "(J + r)/(r + J) + (J + r)*2")) do list[p] = s.op end
        assert.are.equal("SCALAR R ADD ADD DIV NUMBER MUL ADD", table.concat(list, " "))
    end)
    it("do not grow with the text of a power by squares", function()
        assert.are.equal(3 + 10, #steps("local c = J + r for n = 1, 10 do c = c*c end", "c"))
    end)
    it("have their limit", function()
        local line, why = select(2,
            helper.tables(helper.spins(
                "local c = J for n = 1, 4100 do c = c + n*r^n end\nrun(2, c*Sz(i)*Sz(j))")))
        assert.is_truthy(line and string.find(why, "parts", 1, true), why)
    end)
end)

describe("the writer of C", function()
    local function tables()
        return assert(helper.tables(helper.spins('onsite(J^2*Sz(i))\nnamed({"0"}, Sz(i))')))
    end
    local template = assert(util.read(helper.root .. "templates/model.c.tpl"))
    it("takes nothing but names, numbers and texts where they belong", function()
        assert.is_truthy(emit.model(tables(), "kl_m", template))
        local evil = "0}; int evil = {1"
        local faults = {
            function(v)
                v.coefs[1].steps[1].op = "MUL}; int x = {0"
            end, function(v) v.coefs[1].steps[1].a = evil end, function(v) v.coefs[1].steps[1].b = 0.0 end,
            function(v) v.coefs[1].steps[1].value = evil end, function(v)
                v.coefs[1].steps[1].value = 1 / 0
            end, function(v) v.terms[1].line = evil end,
            function(v)
                v.terms[1].plus_hc = evil
            end, function(v) v.terms[1].nslot = evil end, function(v) v.terms[1].place = evil end,
            function(v)
                v.types[1].ops[2].elements[1].row = evil
            end, function(v) v.types[1].ops[2].shift[1] = evil end,
            function(v)
                v.types[1].product_op[8] = evil
            end, function(v) v.types[1].charges[1][1] = evil end, function(v) v.params[1].kind = evil end,
            function(v) v.params[1].value = evil end, function(v) v.kept[2].odd = evil end, function(v)
                v.charges[1].modulus = evil
            end,
            function(v) v.splits[1][1].sign = evil end, function(v)
                v.site_lists[1].line = evil
            end, function(v) v.hash = evil end, function(v) v.name = {} end,
        }
        for p, spoil in ipairs(faults) do
            local v = tables()
            spoil(v)
            assert.is_false((pcall(emit.model, v, "kl_m", template)), "fault " .. p)
        end
        assert.is_false((pcall(emit.model, tables(), "kl_m; int x", template)))
    end)
    it("keeps texts within their quotes and comments", function()
        local v = tables()
        for _, field in ipairs({"name", "variant", "formula", "source"}) do
            v[field] = '*/ "); #include "x" /* \\ \n@ if $(x)'
        end
        v.terms[1].text, v.coefs[1].text, v.types[1].states[1] = v.name, v.name, v.name
        local cc = helper.cc()
        if not cc then pending("no C compiler") return end
        local folder = helper.folder()
        finally(function() helper.remove(folder) end)
        local f = assert(io.open(folder .. "/m.c", "w"))
        f:write((emit.model(v, "kl_m", template)))
        f:close()
        local rc, _, err = helper.run(
            string.format("%s -std=gnu11 -Wall -Wextra -Werror -I %ssrc -fsyntax-only %s/m.c", cc,
                helper.root, folder))
        assert.are.equal("", err)
        assert.are.equal(0, rc)
    end)
end)

describe("generated file", function()
    it("has the same bytes on every run, wherever it runs", function()
        local folder = helper.folder()
        finally(function() helper.remove(folder) end)
        local _, root = helper.run("cd " .. helper.quote(helper.root) .. " && pwd")
        root = string.gsub(root, "%s+$", "")
        for _, name in ipairs({"hubbard", "holstein", "ising"}) do
            assert.are.equal(0,
                (helper.gen(string.format("--model %s --out %s/a.c", helper.model_path(name), folder))))
            assert.are.equal(0,
                (helper.run(string.format("cd %s && lua5.4 %s/gen/gen.lua --model %s/models/%s.lua --out b.c",
                    folder, root, root, name))))
            assert.are.equal(0,
                (helper.run(string.format(
                    "cd %s/gen && LC_ALL=C lua5.4 gen.lua --model ../models/%s.lua --out %s/c.c", root, name,
                        folder))))
            local a = util.read(folder .. "/a.c")
            assert.are.equal(a, util.read(folder .. "/b.c"))
            assert.are.equal(a, util.read(folder .. "/c.c"))
            assert.is_nil(string.find(a, root, 1, true))
        end
    end)
    it("is written only if it changes, and its hash follows text and structure", function()
        local folder = helper.folder()
        finally(function() helper.remove(folder) end)
        local function make(set)
            assert.are.equal(0,
                (helper.gen(string.format("--model %s %s --out %s/a.c", helper.model_path("heisenberg"), set,
                    folder))))
            return string.match(util.read(folder .. "/a.c"), "tables (%x+)%.")
        end
        local first = make("")
        helper.run(string.format("touch -d '2001-01-01 00:00:00' %s/a.c", folder))
        assert.are.equal(first, make(""))
        local _, old = helper.run(string.format("find %s/a.c -newermt 2002-01-01", folder))
        assert.are.equal("", old)
        assert.are.equal(first, make("--set S=1/2"))
        assert.are_not.equal(first, make("--set S=1"))
    end)
    it("comes with a rule that names every file read", function()
        local folder = helper.folder()
        finally(function() helper.remove(folder) end)
        assert.are.equal(0,
            (helper.gen(string.format("--model %s --out %s/a.c --dep %s/a.d", helper.model_path("heisenberg"),
                folder, folder))))
        local dep = util.read(folder .. "/a.d")
        assert.are.equal(folder .. "/a.c: ", string.match(dep, "^[^:]*: "))
        local _, files = helper.run("ls " .. helper.root .. "gen")
        for name in string.gmatch(files, "%S+%.lua") do
            assert.is_truthy(string.find(dep, "/" .. name, 1, true), name)
        end
        assert.is_truthy(string.find(dep, "models/heisenberg.lua", 1, true))
        assert.is_truthy(string.find(dep, "templates/model.c.tpl", 1, true))
    end)
    it("survives odd names and comments", function()
        local folder = helper.folder()
        finally(function() helper.remove(folder) end)
        local path = folder .. "/odd \"name\" $x #1.lua"
        local f = assert(io.open(path, "w"))
        f:write("-- H = a*/b /* ?? \\ \"q\" */ % $(1) @ end\n@\n")
        f:close()
        assert.are.equal(2,
            (helper.gen(string.format("--model %s --out %s/a.c", helper.quote(path), folder))))
        f = assert(io.open(path, "w"))
        f:write("-- H = a*/b /* ??/ \\ \"q\" */ % $(1) @ end\n",
            "site(spin(1/2))\nconserve \"Sz\"\nnamed({\"a\\\"??/b\"}, Sz(i))\n")
        f:close()
        local rc, _, err = helper.gen(
            string.format("--model %s --out %s/a.c --dep %s/a.d", helper.quote(path), folder, folder))
        assert.are.equal("", err)
        assert.are.equal(0, rc)
        local cc = helper.cc()
        if not cc then pending("no C compiler") return end
        rc, _, err = helper.run(string.format(
            "%s -std=gnu11 -Wall -Wextra -Werror -I %ssrc -fsyntax-only %s/a.c", cc, helper.root, folder))
        assert.are.equal("", err)
        assert.are.equal(0, rc)
    end)
    it("lists the models of a program", function()
        local folder = helper.folder()
        finally(function() helper.remove(folder) end)
        for _, symbols in ipairs({"", "kl_a kl_b"}) do
            local rc, _, err = helper.gen(string.format("--registry %s/r.c %s", folder, symbols))
            assert.are.equal("", err)
            assert.are.equal(0, rc)
            local cc = helper.cc()
            if not cc then pending("no C compiler") return end
            rc, _, err = helper.run(string.format(
                "%s -std=gnu11 -Wall -Wextra -Werror -I %ssrc -fsyntax-only %s/r.c", cc, helper.root, folder))
            assert.are.equal("", err)
            assert.are.equal(0, rc)
        end
    end)
    it("is described for other tools", function()
        local rc, out = helper.gen("--model " .. helper.model_path("heisenberg") .. " --set S=1 --describe")
        assert.are.equal(0, rc)
        for _, line in ipairs({"name heisenberg", "structural S 1", "parameter Delta scalar 1",
            "parameter h site 0", "charge Sz U1 unit 1", "variant S=1", "operators I Sz Sp Sm P"}) do
            assert.is_truthy(string.find("\n" .. out, "\n" .. line .. "\n", 1, true), line)
        end
    end)
end)

describe("golden output", function()
    for _, name in ipairs({"heisenberg", "pairing", "hubbard_spin"}) do
        it(name, function()
            local out, model = os.tmpname(), string.gsub(name, "_spin$", "")
            finally(function() os.remove(out) end)
            local variant = model ~= name and "--spin" or ""
            assert.are.equal(0, (helper.gen(string.format("--model %s %s --out %s", helper.model_path(model),
                variant, out))))
            -- where this differs on purpose: lua5.4 tests/golden/update.lua, and read what changed
            local golden = assert(util.read(helper.root .. "tests/golden/" .. name .. ".c"))
            assert.are.equal(golden, util.read(out))
        end)
    end
end)
