"""Configuration interaction for PySCF: molecules from its mean fields, and a solver for CASCI and CASSCF.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pyscf import ao2mo
from pyscf.fci import cistring, direct_spin1
from pyscf.fci.addons import _unpack_nelec

from .molecule import Molecule
from .result import Result
from .run import ci


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
