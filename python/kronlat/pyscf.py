"""For PySCF: molecules from its mean fields, and solvers for CASCI and CASSCF, by full CI and by DMRG.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pyscf import ao2mo
from pyscf.fci import cistring, direct_spin1
from pyscf.fci.addons import _unpack_nelec
from pyscf.lib import StreamObject

from .molecule import Molecule
from .result import Result
from .run import ci, dmrg


def molecule(mf: Any) -> Molecule:
    """The molecule of a restricted mean field, over its orbitals; nothing is written to disk."""
    c = mf.mo_coeff
    if np.ndim(c) != 2:
        raise ValueError("a restricted mean field is wanted; unrestricted orbitals go by kl.Molecule")
    h = c.T @ mf.get_hcore() @ c
    eri = ao2mo.restore(1, ao2mo.kernel(mf.mol, c), c.shape[1])
    return Molecule(h, eri, mf.mol.nelectron, mf.mol.spin, mf.mol.energy_nuc())


def array_of(r: Result, norb: int, nelec: Any, state: int = 0) -> np.ndarray:
    """[alpha string][beta string]: a state kept by ci(..., keep_vectors=True) as PySCF orders it."""
    na, nb = _unpack_nelec(nelec)
    alpha, beta, coefficient = r.determinants(state)
    out = np.zeros((cistring.num_strings(norb, na), cistring.num_strings(norb, nb)))
    places = [cistring.strs2addr(norb, n, bits.astype(np.int64)) for n, bits in ((na, alpha), (nb, beta))]
    out[places[0], places[1]] = coefficient
    return out


class FCI(direct_spin1.FCISolver):
    """mc.fcisolver = kl.pyscf.FCI(mol): full CI by kronlat, with the density matrices of PySCF's solvers.

    residual: wanted |H x - E x|, hartree; the energy's error goes with its square.
    options: further ones of ci, such as threads=2.
    """

    def __init__(self, mol: Any = None, residual: float = 1e-7, **options: Any):
        super().__init__(mol)
        self.residual = residual
        self.options = options
        self.result: Result | None = None  #: of the last run

    def kernel(
        self, h1e: Any, eri: Any, norb: int, nelec: Any, ci0: Any = None, ecore: float = 0.0, **_: Any
    ) -> tuple[Any, Any]:
        """Energy, ecore included, and state [alpha string][beta string]; lists of nroots."""
        na, nb = nelec = _unpack_nelec(nelec, self.spin)
        system = Molecule(h1e, ao2mo.restore(1, eri, norb), na + nb, na - nb, float(ecore))
        options = dict(space="full", roots=self.nroots, residual=self.residual, **self.options)
        r = self.result = ci(system, keep_vectors=True, progress=False, **options)
        self.converged = r.converged
        states = [array_of(r, norb, nelec, k) for k in range(self.nroots)]
        self.eci: Any = r.energy if self.nroots == 1 else r.energies
        self.ci: Any = states[0] if self.nroots == 1 else states
        return self.eci, self.ci


class DMRGCI(StreamObject):
    """mc.fcisolver = kl.pyscf.DMRGCI(mol): the active space by DMRG, with one- and two-body density matrices.

    accuracy: wanted error of the energy, hartree.
    options: further ones of dmrg, such as m=500, schedule="250:1e-3,500:1e-4,500", threads=2.
    The state is the Result of the last run; there is one, the lowest with these electrons and this ms2.
    """

    def __init__(self, mol: Any = None, accuracy: float = 1e-9, **options: Any):
        self.mol = mol
        self.verbose = mol.verbose if mol is not None else 0
        self.stdout = mol.stdout if mol is not None else None
        self.spin = None
        self.nroots = 1
        self.accuracy = accuracy
        self.options = options
        self.converged = False
        self.result: Result | None = None  #: of the last run

    def dump_flags(self, verbose: Any = None) -> Any:
        """PySCF asks for what there is to tell."""
        return self

    def kernel(
        self, h1e: Any, eri: Any, norb: int, nelec: Any, ci0: Any = None, ecore: float = 0.0, **_: Any
    ) -> tuple[float, Result]:
        """Energy, ecore included, and the Result that density matrices are read from."""
        if self.nroots != 1:
            raise NotImplementedError("one state at a time; FCI takes several")
        na, nb = _unpack_nelec(nelec, self.spin)
        system = Molecule(h1e, ao2mo.restore(1, eri, norb), na + nb, na - nb, float(ecore))
        options: dict[str, Any] = {} if "schedule" in self.options else dict(accuracy=self.accuracy)
        options |= self.options
        r = self.result = dmrg(system, two_body=True, progress=False, **options)
        self.converged = r.converged
        return r.energy, r

    approx_kernel = kernel

    def make_rdm1s(self, state: Result, norb: int, nelec: Any, **_: Any) -> tuple[np.ndarray, np.ndarray]:
        """[p][q] of <q+ p>, alpha and beta."""
        return state["molecule/density_up"].T, state["molecule/density_dn"].T

    def make_rdm1(self, state: Result, norb: int, nelec: Any, **_: Any) -> np.ndarray:
        """Both spins."""
        up, dn = self.make_rdm1s(state, norb, nelec)
        return up + dn

    def make_rdm12(self, state: Result, norb: int, nelec: Any, **_: Any) -> tuple[np.ndarray, np.ndarray]:
        """And [p][q][r][s] of <p+ r+ s q>."""
        return self.make_rdm1(state, norb, nelec), state["molecule/two_body"]

    def spin_square(self, state: Result, norb: int, nelec: Any) -> tuple[float, float]:
        """<S^2> and the multiplicity."""
        s2 = float(state["molecule/s2"])
        return s2, float(np.sqrt(1 + 4 * s2))
