"""For PySCF: molecules from its mean fields and active spaces; solvers for CASCI and CASSCF.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb, sqrt
from typing import Any

import numpy as np
from pyscf import ao2mo, symm
from pyscf.fci import cistring, direct_spin1
from pyscf.fci.addons import _unpack_nelec
from pyscf.lib import StreamObject
from pyscf.scf.hf_symm import get_orbsym

from .molecule import Molecule
from .result import Result
from .run import ci, dmrg


def d2h(irreps: Any) -> Any:
    """PySCF's numbers of irreps as those of D2h and its subgroups, of linear molecules and atoms, too."""
    return np.asarray(irreps) % 10


def irreps_of(mol: Any, *orbitals: Any) -> Any:
    """[orbital] 0 to 7; None: there is no symmetry, the orbitals do not keep it, or alpha and beta differ."""
    if not mol.symmetry:
        return None
    try:
        found = [d2h(get_orbsym(mol, c, mol.intor_symmetric("int1e_ovlp"), True)) for c in orbitals]
    except ValueError:
        return None
    return found[0] if all(np.array_equal(found[0], one) for one in found) else None


def molecule(source: Any) -> Molecule:
    """The molecule of a mean field, over its orbitals, of both spins where it is unrestricted; or the active
    space of CASCI or CASSCF. With the irreps of its orbitals; nothing is written to disk."""
    mol = source.mol
    if hasattr(source, "ncas"):
        h, core = source.get_h1eff()
        n, (up, dn) = source.ncas, source.nelecas
        irreps = irreps_of(mol, source.mo_coeff)
        if irreps is not None:
            irreps = irreps[source.ncore : source.ncore + n]
        return Molecule(h, ao2mo.restore(1, source.get_h2eff(), n), up + dn, up - dn, float(core), irreps)
    c, core = source.mo_coeff, float(source.energy_nuc())
    spins = (c,) if np.ndim(c) == 2 else tuple(c)
    n = spins[0].shape[1]
    h = np.array([one.T @ source.get_hcore() @ one for one in spins])
    pairs = ((0, 0),) if len(spins) == 1 else ((0, 0), (1, 1), (0, 1))
    eri = np.array(
        [
            ao2mo.kernel(mol, (spins[p], spins[p], spins[q], spins[q]), compact=False).reshape((n,) * 4)
            for p, q in pairs
        ]
    )
    if len(spins) == 1:
        h, eri = h[0], eri[0]
    return Molecule(h, eri, mol.nelectron, mol.spin, core, irreps_of(mol, *spins))


def array_of(r: Result, norb: int, nelec: Any, state: int = 0) -> np.ndarray:
    """[alpha string][beta string]: a state kept by ci(..., keep_vectors=True) as PySCF orders it."""
    na, nb = _unpack_nelec(nelec)
    alpha, beta, coefficient = r.determinants(state)
    out = np.zeros((cistring.num_strings(norb, na), cistring.num_strings(norb, nb)))
    places = [cistring.strs2addr(norb, n, bits.astype(np.int64)) for n, bits in ((na, alpha), (nb, beta))]
    out[places[0], places[1]] = coefficient
    return out


def _of(solver: Any, asked: dict[str, Any], name: str) -> Any:
    """What a call asks for, else what is set at the solver."""
    return getattr(solver, name) if asked.get(name) is None else asked[name]


def _asked(
    solver: Any, h1e: Any, eri: Any, norb: int, nelec: tuple[int, int], core: float, asked: dict[str, Any]
) -> tuple[Molecule, dict[str, Any]]:
    """What PySCF asks a solver for: the active space, and the irrep, if one is wanted."""
    na, nb = nelec
    orbsym, wfnsym = _of(solver, asked, "orbsym"), _of(solver, asked, "wfnsym")
    irreps = d2h(orbsym) if orbsym is not None and len(orbsym) == norb else None
    system = Molecule(h1e, ao2mo.restore(1, eri, norb), na + nb, na - nb, float(core), irreps)
    if irreps is None or wfnsym is None:
        return system, {}
    if isinstance(wfnsym, str):
        wfnsym = symm.irrep_name2id(solver.mol.groupname, wfnsym)
    return system, dict(irrep=int(d2h(wfnsym)) + 1)


def _wanted_spin(solver: Any, nelec: tuple[int, int]) -> float | None:
    """<S^2> that mc.fix_spin_(ss=...) asks for, of the smallest spin where it names none; None: any."""
    if not hasattr(solver, "ss_penalty"):
        return None
    least = abs(nelec[0] - nelec[1]) / 2
    return least * (least + 1) if solver.ss_value is None else float(solver.ss_value)


class FCI(direct_spin1.FCISolver):
    """mc.fcisolver = kl.pyscf.FCI(mol): full CI by kronlat, with the density matrices of PySCF's solvers.

    residual: wanted |H x - E x|, hartree; the energy's error goes with its square.
    options: further ones of ci, such as threads=2.
    States are the lowest of wfnsym, which a molecule with symmetry has, and of the spin of mc.fix_spin_().
    """

    def __init__(self, mol: Any = None, residual: float = 1e-7, **options: Any):
        super().__init__(mol)
        self.residual = residual
        self.options = options
        self.result: Result | None = None  #: of the last run

    def kernel(
        self, h1e: Any, eri: Any, norb: int, nelec: Any, ci0: Any = None, ecore: float = 0.0, **asked: Any
    ) -> tuple[Any, Any]:
        """Energy, ecore included, and state [alpha string][beta string]; lists of nroots."""
        nelec = _unpack_nelec(nelec, self.spin)
        nroots = _of(self, asked, "nroots")
        system, options = _asked(self, h1e, eri, norb, nelec, ecore, asked)
        options |= dict(space="full", residual=self.residual, keep_vectors=True, progress=False)
        s2, dim, roots = _wanted_spin(self, nelec), comb(norb, nelec[0]) * comb(norb, nelec[1]), nroots
        while True:
            r = self.result = ci(system, roots=roots, **(options | self.options))
            kept = [k for k, have in enumerate(r["s2"]) if s2 is None or abs(have - s2) < 0.1][:nroots]
            if len(kept) == nroots:
                break
            if roots >= dim:
                raise ValueError(f"{len(kept)} states have <S^2> = {s2:g}, {nroots} are wanted")
            roots = min(2 * roots + 2, dim)  # those between are of other spins
        self.converged = r.converged
        energies, states = r.energies[kept], [array_of(r, norb, nelec, k) for k in kept]
        self.eci: Any = energies[0] if nroots == 1 else energies
        self.ci: Any = states[0] if nroots == 1 else states
        return self.eci, self.ci


@dataclass(frozen=True)
class State:
    """A state of DMRGCI: the run that found it, and which of the run's states it is."""

    result: Result
    index: int

    def measured(self, name: str) -> Any:
        """What was measured on it, such as "density_up"."""
        return self.result[(f"state_{self.index}/" if self.index else "") + "molecule/" + name]


class DMRGCI(StreamObject):
    """mc.fcisolver = kl.pyscf.DMRGCI(mol): the active space by DMRG, with one- and two-body density matrices.

    accuracy: wanted error of the energy, hartree.
    options: further ones of dmrg, such as m=500, schedule="250:1e-3,500:1e-4,500", threads=2.
    States are the lowest of wfnsym, which a molecule with symmetry has; with mc.fix_spin_(ss=S*(S+1)) those
    of one spin, by runs with the total spin, which are several times faster.
    """

    def __init__(self, mol: Any = None, accuracy: float = 1e-9, **options: Any):
        self.mol = mol
        self.verbose = mol.verbose if mol is not None else 0
        self.stdout = mol.stdout if mol is not None else None
        self.spin: int | None = None
        self.orbsym = self.wfnsym = None
        self.nroots = 1
        self.accuracy = accuracy
        self.options = options
        self.converged: Any = False
        self.result: Result | None = None  #: of the last run

    def dump_flags(self, verbose: Any = None) -> Any:
        """PySCF asks for what there is to tell."""
        return self

    def kernel(
        self, h1e: Any, eri: Any, norb: int, nelec: Any, ci0: Any = None, ecore: float = 0.0, **asked: Any
    ) -> tuple[Any, Any]:
        """Energy, ecore included, and State that density matrices are read from; lists of nroots."""
        nelec = _unpack_nelec(nelec, self.spin)
        nroots = _of(self, asked, "nroots")
        system, options = _asked(self, h1e, eri, norb, nelec, ecore, asked)
        options |= dict(two_body=True, progress=False)
        if nroots > 1:
            options |= dict(states=nroots)
        if "schedule" not in self.options:
            options |= dict(accuracy=self.accuracy)
        s2 = _wanted_spin(self, nelec)
        if s2 is not None:
            options |= dict(charges=dict(S=Fraction(round(sqrt(1 + 4 * s2)) - 1, 2)))
        r = self.result = dmrg(system, **(options | self.options))
        self.converged = r.converged
        states = [State(r, k) for k in range(nroots)]
        return (r.energy, states[0]) if nroots == 1 else (r.energies[:nroots], states)

    approx_kernel = kernel

    def make_rdm1s(self, state: State, norb: int, nelec: Any, **_: Any) -> tuple[np.ndarray, np.ndarray]:
        """[p][q] of <q+ p>, alpha and beta."""
        up, dn = state.measured("density_up").T, state.measured("density_dn").T
        na, nb = _unpack_nelec(nelec, self.spin)
        measured = np.trace(up - dn)  # with the total spin Sz = S is measured; the spin density goes with Sz
        if abs(measured - (na - nb)) > 0.5:
            both, apart = up + dn, (up - dn) * (na - nb) / measured
            up, dn = (both + apart) / 2, (both - apart) / 2
        return up, dn

    def make_rdm1(self, state: State, norb: int, nelec: Any, **_: Any) -> np.ndarray:
        """Both spins."""
        up, dn = DMRGCI.make_rdm1s(self, state, norb, nelec)  # not those that PySCF averages
        return up + dn

    def make_rdm12(self, state: State, norb: int, nelec: Any, **_: Any) -> tuple[np.ndarray, np.ndarray]:
        """And [p][q][r][s] of <p+ r+ s q>."""
        return DMRGCI.make_rdm1(self, state, norb, nelec), state.measured("two_body")

    def spin_square(self, state: State, norb: int, nelec: Any) -> tuple[float, float]:
        """<S^2> and the multiplicity."""
        s2 = float(state.measured("s2"))
        return s2, float(np.sqrt(1 + 4 * s2))
