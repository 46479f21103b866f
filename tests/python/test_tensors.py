"""States and Hamiltonians as tensors, here and in TeNPy and block2.

SPDX-License-Identifier: Apache-2.0
"""

import tempfile

import numpy as np
import pytest
from conftest import ONE

import kronlat as kl

CHAIN = dict(lattice=6, params=dict(U=4), charges=dict(N_up=3, N_dn=2), **ONE)
CLOSE = 1e-12


@pytest.fixture(scope="module")
def found():
    return kl.dmrg("hubbard", accuracy=1e-13, m=200, **CHAIN)


@pytest.fixture(scope="module")
def psi(found):
    return found.mps()


def test_what_a_notebook_prints(found, psi):
    for shown in (psi, found.problem.mpo(), found.problem):
        assert len(repr(shown)) < 100
    with pytest.raises(kl.BadInput, match="real numbers only"):
        kl.dmrg("hubbard", lattice=6, params=dict(t=1j), charges=dict(N_up=3, N_dn=3))


def test_state_and_operator(found, psi):
    h = kl.hamiltonian("hubbard", **CHAIN)
    x = kl.ed("hubbard", keep_vectors=True, accuracy=1e-14, **CHAIN).vector()
    assert abs(abs(psi.amplitudes(h.states) @ x) - 1) < CLOSE
    assert abs(psi.overlap(psi) - 1) < CLOSE
    mpo = found.problem.mpo()
    assert abs(mpo.expectation(psi) - found.energy) < 1e-11
    # the amplitudes by contraction, and those of the whole vector
    places = np.ravel_multi_index(h.states[:, psi.sites].T, psi.dims)
    assert np.abs(psi.vector()[places] - psi.amplitudes(h.states)).max() < CLOSE


def test_matrix_of_the_mpo():
    system = dict(lattice="chain:3", params=dict(U=3), charges=dict(N_up=2, N_dn=1), **ONE)
    mpo, h = kl.Problem("hubbard", **system).mpo(), kl.hamiltonian("hubbard", **system)
    at = np.ravel_multi_index(h.states[:, mpo.sites].T, mpo.dims)
    assert np.abs(mpo.matrix()[np.ix_(at, at)] - h.toarray()).max() < CLOSE


def test_canonical_form(found):
    psi = found.mps(centre=3)
    for p in range(3):
        a = psi.dense(p).reshape(-1, psi.bonds[p + 1].dim)
        assert np.abs(a.T @ a - np.eye(a.shape[1])).max() < CLOSE
    for p in range(4, 6):
        a = psi.dense(p).reshape(psi.bonds[p].dim, -1)
        assert np.abs(a @ a.T - np.eye(len(a))).max() < CLOSE


def test_from_amplitudes(psi):
    states = kl.hamiltonian("hubbard", **CHAIN).states
    back = kl.MPS.from_amplitudes(states, psi.amplitudes(states), like=psi)
    assert abs(back.overlap(psi) - 1) < CLOSE
    assert np.abs(back.amplitudes(states) - psi.amplitudes(states)).max() < CLOSE


@pytest.mark.filterwarnings("ignore")
def test_tenpy(found, psi):
    pytest.importorskip("tenpy")
    from tenpy.algorithms import dmrg
    from tenpy.models.hubbard import FermiHubbardChain
    from tenpy.networks.mps import MPS

    model = FermiHubbardChain(dict(L=6, t=1, U=4, V=0, mu=0, bc_MPS="finite", cons_N="N", cons_Sz="Sz"))
    sites = model.lat.mps_sites()
    theirs = MPS.from_product_state(sites, ["up", "down"] * 2 + ["up", "empty"], bc="finite")
    truncation = dict(chi_max=200, svd_min=1e-14)
    energy = dmrg.run(
        theirs, model, dict(mixer=True, max_E_err=1e-14, trunc_params=truncation, max_sweeps=30)
    )["E"]
    assert abs(energy - found.energy) < 1e-11
    ours = psi.to_tenpy(sites)
    assert 1 - abs(theirs.overlap(ours)) < CLOSE
    assert abs(model.H_MPO.expectation_value(ours) - found.energy) < 1e-11
    back = kl.MPS.from_tenpy(theirs, like=psi)
    assert 1 - abs(back.overlap(psi)) < CLOSE
    assert abs(found.problem.mpo().to_tenpy(sites).expectation_value(theirs) - energy) < 1e-10
    with pytest.raises(ValueError, match="sites of TeNPy"):
        psi.to_tenpy(sites[:3])


def test_block2(found, psi):
    core = pytest.importorskip("pyblock2.driver.core")
    driver = core.DMRGDriver(
        scratch=tempfile.mkdtemp(), symm_type=core.SymmetryTypes.SZ, n_threads=1, stack_mem=1 << 28
    )
    driver.initialize_system(n_sites=6, n_elec=5, spin=1)
    builder = driver.expr_builder()
    for i in range(5):
        for word in ("cd", "CD"):
            builder.add_term(word, [i, i + 1], -1.0)
            builder.add_term(word, [i + 1, i], -1.0)
    for i in range(6):
        builder.add_term("cdCD", [i] * 4, 4.0)
    mpo = driver.get_mpo(builder.finalize(), iprint=0)
    ket = driver.get_random_mps(tag="KET", bond_dim=200, nroots=1)
    plan = dict(n_sweeps=16, bond_dims=[200] * 16, noises=[1e-4] * 4 + [0], thrds=[1e-14] * 16)
    assert abs(driver.dmrg(mpo, ket, iprint=0, **plan) - found.energy) < 1e-10
    back = kl.MPS.from_block2(driver, ket, like=psi)
    assert 1 - abs(back.overlap(psi)) < CLOSE
    states = kl.hamiltonian("hubbard", **CHAIN).states
    ours = psi.to_block2(driver, states)
    one = driver.get_identity_mpo()
    assert 1 - abs(driver.expectation(ours, one, ket, iprint=0)) < CLOSE
