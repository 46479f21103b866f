"""H as a LinearOperator.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
import scipy.sparse.linalg as sl
from conftest import ONE

import kronlat as kl

RING = dict(lattice="ring:6", params=dict(U=4), charges=dict(N_up=3, N_dn=2), **ONE)


@pytest.fixture(scope="module")
def h():
    return kl.hamiltonian("hubbard", **RING)


def test_solver_of_scipy_finds_our_energies(h):
    energies = kl.ed("hubbard", states=3, **RING).energies
    found = np.sort(sl.eigsh(h, k=4, which="SA", tol=1e-12)[0])
    assert np.abs(found[:3] - energies).max() < 1e-9


def test_matrix(h):
    m = h.toarray()
    assert m.shape == (20 * 15, 20 * 15)
    assert np.abs(m - m.T).max() == 0
    assert np.abs(np.diag(m) - h.diagonal()).max() < 1e-14
    x = np.random.default_rng(1).normal(size=(300, 4))
    for order in "CF":
        block = np.asarray(x, order=order)
        assert np.abs(h @ block - m @ x).max() < 1e-12
    z = x[:, 0] + 1j * x[:, 1]
    assert np.abs(h @ z - m @ z).max() < 1e-12
    assert np.abs(h.H @ z - m @ z).max() < 1e-12
    assert np.abs(h @ x[::-1, 2] - m @ x[::-1, 2]).max() < 1e-12


def test_basis_states(h):
    assert h.states.shape == (300, 6)
    assert all(h.find(s) == i for i, s in enumerate(h.states))
    assert h.problem.local_states() == ["0", "up", "dn", "updn"]
    # U counts double occupation, state 3
    assert np.array_equal(h.diagonal(), 4.0 * (h.states == 3).sum(axis=1))
    with pytest.raises(kl.BadInput, match="not in the sector"):
        h.find([0] * 6)


def test_columns_in_order_are_not_copied(h):
    x = np.asfortranarray(np.ones((300, 2)))
    assert np.shares_memory(np.ascontiguousarray(x.T), x)
