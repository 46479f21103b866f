"""Models and lattices made in Python.

SPDX-License-Identifier: Apache-2.0
"""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from conftest import ONE

import kronlat as kl
from kronlat.operators import (
    C,
    N,
    P,
    Q,
    S_dot_S,
    Sm,
    Sp,
    Sz,
    X,
    adj,
    at,
    c,
    cdag,
    docc,
    electron,
    hc,
    i,
    j,
    k,
    matrices,
    mod,
    n,
    per_bond,
    per_site,
    s,
    spin,
    sum,
)


def xxz():
    m = kl.Model("H = J sum_<ij> [(S+S- + S-S+)/2 + Delta SzSz] - sum_i h_i Sz_i", name="xxz")
    m.site(spin(Fraction(1, 2)))
    m.conserve("Sz")
    J, Delta, h = m.parameters(J=1, Delta=1, h=per_site(0))
    m.bond("nn", J * ((Sp(i) * Sm(j) + hc) / 2 + Delta * Sz(i) * Sz(j)))
    m.onsite(-h * Sz(i))
    return m


def test_text_is_what_a_model_file_says():
    assert xxz().text.splitlines() == [
        "-- H = J sum_<ij> [(S+S- + S-S+)/2 + Delta SzSz] - sum_i h_i Sz_i",
        "site(spin(1/2))",
        'conserve({"Sz"})',
        "parameters { J = 1, Delta = 1, h = per_site(0) }",
        'bond("nn", J * ((Sp(i) * Sm(j) + hc) / 2 + Delta * Sz(i) * Sz(j)))',
        "onsite(-h * Sz(i))",
    ]


@pytest.mark.parametrize(
    "expression, text",
    [
        (1 - (Sz(i) + Sz(j)), "1 - (Sz(i) + Sz(j))"),
        (Sz(i) - Sz(j) + 1, "Sz(i) - Sz(j) + 1"),
        (Sz(j) + (Sp(i) * Sm(j) + hc), "Sz(j) + (Sp(i) * Sm(j) + hc)"),
        (Sz(i) / (2 * Sz(j)), "Sz(i) / (2 * Sz(j))"),
        ((-1) ** i, "(-1) ^ i"),
        (-(Sz(i) ** 2), "-Sz(i) ^ 2"),
        ((Sz(i) + 1) ** 2, "(Sz(i) + 1) ^ 2"),
        (Fraction(1, 2) * Sz(i), "1/2 * Sz(i)"),
        (Sz(i) - Fraction(2, 3), "Sz(i) - 2/3"),
        (Sz(i) * Fraction(2, 3), "Sz(i) * (2/3)"),
        (np.float64(-0.1) * Sz(i), "(-0.1) * Sz(i)"),
        (c(i, "up"), 'c(i, "up")'),
    ],
)
def test_brackets(expression, text):
    assert repr(expression) == text


def test_model_equals_the_built_in_one():
    h = np.linspace(-1, 1, 8)
    system = dict(lattice=8, params=dict(Delta=0.7, h=h), charges=dict(Sz=1), **ONE)
    assert kl.ed(xxz(), **system).energy == pytest.approx(kl.ed("heisenberg", **system).energy, abs=1e-12)
    near = kl.dmrg(xxz().text, accuracy=1e-12, **system)
    assert near.energy == pytest.approx(kl.ed("heisenberg", **system).energy, abs=1e-10)


def test_electrons_with_flavours():
    m = kl.Model("H = -t sum_<ij>,s (c+_is c_js + h.c.) + U sum_i n_iup n_idn")
    m.site(electron())
    m.conserve("N_up", "N_dn")
    t, U = m.parameters(t=1, U=4)
    m.bond("nn", -t * (sum(s, cdag(i, s) * c(j, s)) + hc))
    m.onsite(U * docc(i))
    system = dict(lattice="ring:6", params=dict(U=3), charges=dict(N_up=3, N_dn=2), **ONE)
    assert kl.ed(m, **system).energy == pytest.approx(kl.ed("hubbard", **system).energy, abs=1e-11)


def test_explicit_matrices():
    m = kl.Model("H = -J sum_<ij> (X_i X+_j + h.c.) - h sum_i C_i: three-state clock model")
    shift = np.roll(np.eye(3), 1, axis=1)
    m.site(
        matrices(
            states=["0", "1", "2"],
            Q=np.diag([0, 0, 2]) + np.diag([0, 1, 0]),
            X=shift,
            C=np.diag([1, -0.5, -0.5]),
        )
    )
    m.conserve(Q=mod(Q, 3))
    J, h = m.parameters(J=1, h=1)
    m.bond("nn", -J * (X(i) * adj(X(j)) + hc))
    m.onsite(-h * C(i))
    one, two = np.eye(3), np.kron(shift, shift.T)
    dense = -(two + two.T) - 0.4 * (
        np.kron(np.diag([1, -0.5, -0.5]), one) + np.kron(one, np.diag([1, -0.5, -0.5]))
    )
    found = min(kl.ed(m, lattice=2, params=dict(h=0.4), charges=dict(Q=q), **ONE).energy for q in range(3))
    assert found == pytest.approx(np.linalg.eigvalsh(dense)[0], abs=1e-12)


def test_statements():
    m = kl.Model("H = what all statements add up to")
    m.structural(S=1)
    m.site(spin(kl.operators.S))
    m.conserve("Sz")
    q = m.define("q", Sz * Sz - Fraction(2, 3))
    J, K = m.parameters(J=per_bond(1), K=0.2)
    m.bond("nn", J * S_dot_S(i, j) + q(i) * q(j))
    m.run(3, K * S_dot_S(i, j) * Sz(k))
    m.pairs(2, 0.1 * Sz(i) * Sz(j))
    m.named([0, -1], -0.5 * (Sz(i) - Sz(j)))
    r = kl.ed(m, lattice=4, params=dict(S=1, J=[1, 2, 1]), charges=dict(Sz=0), **ONE)
    assert r["parameter/J"].tolist() == [1, 2, 1]
    with pytest.raises(kl.BadInput, match="model:3: "):
        kl.ed("-- H\nsite(spin(1/2))\nnonsense(1)\n", lattice=4)


def test_names_that_are_no_expressions():
    with pytest.raises(TypeError, match="no number"):
        Sz(i) * object()
    assert repr(at(5)) == "at(5)" and repr(N) == "N" and repr(P) == "P" and repr(n) == "n"


# ---- lattices


def test_bonds_as_arrays():
    ring = np.stack([np.arange(8), (np.arange(8) + 1) % 8], axis=1)
    known = kl.ed("heisenberg", lattice="ring:8", charges=dict(Sz=0), **ONE).energy
    assert kl.ed("heisenberg", lattice=ring, charges=dict(Sz=0), **ONE).energy == pytest.approx(
        known, abs=1e-12
    )
    adjacency = np.zeros((8, 8))
    adjacency[ring[:, 0], ring[:, 1]] = adjacency[ring[:, 1], ring[:, 0]] = 1
    lattice = kl.Lattice.from_matrix(adjacency)
    assert (lattice.sites, len(lattice.bonds)) == (8, 8)
    assert kl.dmrg("heisenberg", lattice=lattice, charges=dict(Sz=0), **ONE).energy == pytest.approx(
        known, abs=1e-8
    )


def test_classes_of_bonds_and_sites():
    pairs = {"nn": [(0, 1), (1, 2), (2, 3)], "nnn": [(0, 2), (1, 3)]}
    lattice = kl.Lattice(pairs, xy=[(x, 0) for x in range(4)], classes={"edge": [0, 3]})
    params = dict(J1=1, J2=0.5)
    got = kl.ed("j1j2", lattice=lattice, params=params, charges=dict(Sz=0), **ONE).energy
    assert got == pytest.approx(
        kl.ed("j1j2", lattice=4, params=params, charges=dict(Sz=0), **ONE).energy, abs=1e-12
    )
    m = xxz()
    m.onsite("edge", -0.5 * Sz(i))
    edge = kl.ed(m, lattice=lattice, charges=dict(Sz=1), **ONE).energy
    field = kl.ed(xxz(), lattice=lattice, params=dict(h=[0.5, 0, 0, 0.5]), charges=dict(Sz=1), **ONE).energy
    assert edge == pytest.approx(field, abs=1e-12)
    with pytest.raises(ValueError, match="shape"):
        kl.Lattice([[0, 1, 2]])
    with pytest.raises(ValueError, match="whole"):
        kl.Lattice([[0, 1], [1, 2.5]])
    with pytest.raises(ValueError, match="site 2; there are 2"):
        kl.Lattice([[0, 1], [1, 2]], xy=[(0, 0), (1, 0)])
    with pytest.raises(kl.BadInput, match="site"):
        kl.ed("heisenberg", lattice=[[0, 0]], charges=dict(Sz=0))


def test_values_by_bond():
    m = kl.Model("H = sum_<ij> J_ij S_i.S_j")
    m.site(spin(Fraction(1, 2)))
    m.conserve("Sz")
    J = m.parameters(J=per_bond(1))
    m.bond("nn", J * S_dot_S(i, j))

    def energy(bonds, values):
        return kl.ed(m, lattice=bonds, params=dict(J=values), charges=dict(Sz=0), **ONE).energy

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known = energy([(0, 1), (1, 2), (2, 3)], [1, 2, 3])
        assert known == pytest.approx(energy(4, [1, 2, 3]), abs=1e-12)
    assert kl.Lattice([(2, 3), (1, 0), (1, 2)]).bonds.tolist() == [[1, 0], [1, 2], [2, 3]]
    with pytest.warns(UserWarning, match="lower site"):
        assert energy([(2, 3), (0, 1), (1, 2)], [1, 2, 3]) == pytest.approx(known, abs=1e-12)


def test_loops():
    ring = kl.Model("H = J sum_<ij> S_i.S_j + K sum of plaquettes (S_i.S_j)(S_k.S_l)")
    ring.site(spin(Fraction(1, 2)))
    ring.conserve("Sz")
    J, K = ring.parameters(J=1, K=0.3)
    ring.bond("nn", J * S_dot_S(i, j))
    ring.loop(4, "nn", K * S_dot_S(i, j) * S_dot_S(k, at(4)))
    named = kl.Model(ring.text.splitlines()[0].removeprefix("-- "))
    named.site(spin(Fraction(1, 2)))
    named.conserve("Sz")
    J, K = named.parameters(J=1, K=0.3)
    named.bond("nn", J * S_dot_S(i, j))
    for x in range(2):
        corner = [2 * x, 2 * x + 1, 2 * x + 3, 2 * x + 2]
        named.named(corner, K * S_dot_S(i, j) * S_dot_S(k, at(4)))
    energy = [kl.ed(m, lattice="ladder:3x2", charges=dict(Sz=0), **ONE).energy for m in (ring, named)]
    assert energy[0] == pytest.approx(energy[1], abs=1e-12)


def test_star_import():
    names: dict = {}
    exec("from kronlat.operators import *", names)
    m = kl.Model("H = sum_<ij> S_i.S_j")
    m.site(names["spin"](1))
    m.conserve("Sz")
    m.bond("nn", names["S_dot_S"](names["i"], names["j"]))
    assert abs(kl.ed(m, lattice=2, charges=dict(Sz=0), **ONE).energy + 2) < 1e-12
    assert "sum" not in names and "exp" not in names
