"""Molecules: integrals in memory, and PySCF's CASCI and CASSCF on our solver.

SPDX-License-Identifier: Apache-2.0
"""

import functools

import numpy as np
import pytest
from conftest import ONE

import kronlat as kl


def test_two_sites_by_integrals():
    h = np.array([[0.0, -1.0], [-1.0, 0.0]])
    eri = np.zeros((2,) * 4)
    eri[0, 0, 0, 0] = eri[1, 1, 1, 1] = 4.0
    r = kl.ci(
        kl.Molecule(h, eri, electrons=2, core=0.5), space="full", residual=1e-10, keep_vectors=True, **ONE
    )
    assert r.energy == pytest.approx(2 - np.sqrt(8) + 0.5, abs=1e-12)
    alpha, beta, coefficient = r.determinants()
    assert sorted(zip(alpha, beta)) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert coefficient @ coefficient == pytest.approx(1, abs=1e-12)
    with pytest.raises(kl.BadInput, match="keeps no determinants"):
        kl.ci(kl.Molecule(h, eri, 2), space="full", **ONE).determinants()
    with pytest.raises(ValueError, match="do not fit"):
        kl.ci(kl.Molecule(h, eri[:1], 2))


def test_hamiltonian_of_a_molecule(data):
    h = kl.hamiltonian(kl.Fcidump(data / "lih-sto3g.fcidump"), space="full", irrep=1, **ONE)
    energy = kl.ci(data / "lih-sto3g.fcidump", space="full", residual=1e-9, **ONE).energy
    assert np.linalg.eigvalsh(h.toarray())[0] == pytest.approx(energy, abs=1e-10)
    assert h.find(h.state(5)) == 5
    assert h.states.max() == 3
    found = kl.dmrg(data / "lih-sto3g.fcidump", accuracy=1e-10, **ONE)  # a molecule by its first line
    assert found.energy == pytest.approx(energy, abs=1e-9)


def test_frozen_orbitals_keep_their_signs(data):
    # signs against PySCF's energy of the state itself
    pyscf = pytest.importorskip("pyscf")
    from pyscf import fci, gto, scf

    mol = gto.M(atom="Li 0 0 0; H 0 0 1.6", basis="sto-3g", verbose=0)
    system = kl.pyscf.molecule(scf.RHF(mol).run())
    assert pyscf.__version__
    for options in (dict(space="full"), dict(space="full", frozen=1)):
        r = kl.ci(system, residual=1e-9, keep_vectors=True, **options, **ONE)
        state = kl.pyscf.array_of(r, 6, (2, 2))
        theirs = fci.direct_spin1.energy(system.h, system.eri, state, 6, (2, 2)) + system.core
        assert theirs == pytest.approx(r.energy, abs=1e-11)


DIMERS = pytest.mark.parametrize(
    "atom, spin, electrons", [("N 0 0 0; N 0 0 1.1", 0, 6), ("O 0 0 0; O 0 0 1.2", 2, 8)]
)


@functools.cache
def casscf_of_pyscf(atom, spin, electrons):
    from pyscf import gto, mcscf, scf

    mol = gto.M(atom=atom, basis="6-31g", spin=spin, verbose=0)
    mf = scf.ROHF(mol).run()
    return mol, mf, mcscf.CASSCF(mf, 6, electrons).run(conv_tol=1e-10)


@DIMERS
def test_casscf(atom, spin, electrons):
    mcscf = pytest.importorskip("pyscf.mcscf")
    mol, mf, own = casscf_of_pyscf(atom, spin, electrons)
    ours = mcscf.CASSCF(mf, 6, electrons)
    ours.fcisolver = kl.pyscf.FCI(mol, **ONE)
    ours.run(conv_tol=1e-10)
    assert ours.converged
    assert ours.e_tot == pytest.approx(own.e_tot, abs=1e-8)
    occupations = [np.linalg.eigvalsh(mc.fcisolver.make_rdm1(mc.ci, 6, mc.nelecas)) for mc in (own, ours)]
    assert np.abs(occupations[0] - occupations[1]).max() < 1e-4


@DIMERS
def test_casscf_by_dmrg(atom, spin, electrons):
    mcscf = pytest.importorskip("pyscf.mcscf")
    mol, mf, own = casscf_of_pyscf(atom, spin, electrons)
    ours = mcscf.CASSCF(mf, 6, electrons)
    ours.fcisolver = kl.pyscf.DMRGCI(mol, **ONE)
    ours.run(conv_tol=1e-10)
    assert ours.converged
    assert ours.e_tot == pytest.approx(own.e_tot, abs=1e-8)
    s2, multiplicity = ours.fcisolver.spin_square(ours.ci, 6, ours.nelecas)
    assert s2 == pytest.approx(spin / 2 * (spin / 2 + 1), abs=1e-6)
    assert multiplicity == pytest.approx(spin + 1, abs=1e-6)
    up, dn = ours.fcisolver.make_rdm1s(ours.ci, 6, ours.nelecas)
    assert (np.trace(up), np.trace(dn)) == pytest.approx(ours.nelecas, abs=1e-9)
    # both density matrices, against those of PySCF's solver on the same integrals
    h, core = ours.get_h1eff()
    energy, state = own.fcisolver.kernel(h, ours.get_h2eff(), 6, ours.nelecas, ecore=core)
    assert energy == pytest.approx(ours.e_tot, abs=1e-8)
    for a, b in zip(
        own.fcisolver.make_rdm12(state, 6, ours.nelecas), ours.fcisolver.make_rdm12(ours.ci, 6, ours.nelecas)
    ):
        assert np.abs(a - b).max() < 1e-4


def test_casci_of_several_states():
    pytest.importorskip("pyscf")
    from pyscf import gto, mcscf, scf

    mol = gto.M(atom="N 0 0 0; N 0 0 1.1", basis="6-31g", verbose=0)
    mf = scf.RHF(mol).run()
    own, ours = mcscf.CASCI(mf, 6, 6), mcscf.CASCI(mf, 6, 6)
    ours.fcisolver = kl.pyscf.FCI(mol, **ONE)
    own.fcisolver.nroots = ours.fcisolver.nroots = 3
    # degenerate states may come in any mixture: energies alone
    assert np.abs(np.array(own.kernel()[0]) - np.array(ours.kernel()[0])).max() < 1e-8
    one, two = ours.fcisolver.make_rdm12(ours.ci[0], 6, (3, 3))
    h, core = ours.get_h1eff()
    from pyscf import ao2mo

    eri = ao2mo.restore(1, ours.get_h2eff(), 6)
    energy = np.einsum("pq,pq", h, one) + 0.5 * np.einsum("pqrs,pqrs", eri, two) + core
    assert energy == pytest.approx(ours.e_tot[0], abs=1e-9)


@functools.cache
def carbon_dimer():
    from pyscf import gto, scf

    mol = gto.M(atom="C 0 0 0; C 0 0 1.25", basis="sto-3g", symmetry="D2h", verbose=0)
    return mol, scf.RHF(mol).run()


def active_space(cls, solver=None, wfnsym=None, ss=None, states=1):
    mc = cls(carbon_dimer()[1], 6, 8)
    if solver is not None:
        mc.fcisolver = solver(carbon_dimer()[0], **ONE)
    mc.fcisolver.wfnsym, mc.fcisolver.conv_tol = wfnsym, 1e-12
    if ss is not None:
        mc.fix_spin_(ss=ss, shift=0.5)
    if states > 1:
        mc = mc.state_average([1 / states] * states)
    return mc.run(conv_tol=1e-10)


def energies(mc):
    return np.atleast_1d(getattr(mc, "e_states", mc.e_tot))


@pytest.mark.parametrize("solver", ["FCI", "DMRGCI"])
def test_irreps_and_spins_of_pyscf(solver):
    mcscf = pytest.importorskip("pyscf.mcscf")
    ours = getattr(kl.pyscf, solver)
    for asked in (dict(wfnsym="B1g", states=3), dict(ss=0, states=2), dict(ss=2, wfnsym="B1u")):
        own, found = active_space(mcscf.CASCI, **asked), active_space(mcscf.CASCI, ours, **asked)
        assert np.abs(energies(own) - energies(found)).max() < 1e-8, asked
        if "ss" in asked:
            state = found.ci[-1] if "states" in asked else found.ci
            s2, _ = ours.spin_square(found.fcisolver, state, 6, (4, 4))
            assert s2 == pytest.approx(asked["ss"], abs=1e-6)
    # alpha and beta of a triplet with Sz = 0, which DMRG measures at Sz = 1
    up, dn = found.fcisolver.make_rdm1s(found.ci, 6, (4, 4))
    assert np.abs(up - dn).max() < 1e-6
    with pytest.raises(ValueError):
        active_space(mcscf.CASCI, ours, ss=0.75)


@pytest.mark.parametrize("solver", ["FCI", "DMRGCI"])
def test_casscf_of_averaged_states(solver):
    mcscf = pytest.importorskip("pyscf.mcscf")
    asked = dict(ss=0, states=2)
    own, found = (active_space(mcscf.CASSCF, s, **asked) for s in (None, getattr(kl.pyscf, solver)))
    assert found.converged
    assert np.mean(energies(found)) == pytest.approx(np.mean(energies(own)), abs=1e-7)


def test_molecules_of_pyscf():
    pytest.importorskip("pyscf")
    from pyscf import gto, mcscf, scf

    _, mf = carbon_dimer()
    whole, active = kl.pyscf.molecule(mf), kl.pyscf.molecule(mcscf.CASCI(mf, 6, 8))
    assert set(whole.irreps) == {0, 2, 3, 5, 6, 7}
    assert (active.electrons, list(active.irreps)) == (8, list(whole.irreps[2:8]))
    by_space = kl.ci(whole, space="cas:8,6", irrep=1, residual=1e-8, **ONE).energy
    assert kl.ci(active, space="full", irrep=1, residual=1e-8, **ONE).energy == pytest.approx(
        by_space, abs=1e-9
    )
    # both spins: the reference determinant is the mean field
    mf = scf.UHF(gto.M(atom="O 0 0 0; H 0 0 0.97", basis="sto-3g", spin=1, verbose=0)).run()
    radical = kl.pyscf.molecule(mf)
    assert radical.h.shape == (2, 6, 6)
    assert kl.ci(radical, space="cisd", **ONE)["reference_energy"] == pytest.approx(mf.e_tot, abs=1e-9)
