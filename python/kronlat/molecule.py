"""Molecules by their integrals.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ._c import call, create, ffi, text


@dataclass
class Molecule:
    """H = core + sum_pq h_pq c+_p c_q + 1/2 sum_pqrs (pq|rs) c+_p c+_r c_s c_q, spins summed, in hartree.

    h: [orbital][orbital] over real orthonormal orbitals; [2][orbital][orbital] of alpha and beta.
    eri: [orbital]*4, (pq|rs); [3][orbital]*4 of alpha alpha, beta beta, alpha beta where h has two.
    electrons: how many; ms2: alpha less beta electrons.
    irreps: [orbital] 0 to 7, the product of two being their exclusive or; None: no symmetry is used.
    """

    h: Any = field(repr=False)
    eri: Any = field(repr=False)
    electrons: int
    ms2: int = 0
    core: float = 0.0
    irreps: Any = None

    def _problem(self) -> Any:
        h = np.ascontiguousarray(self.h, dtype=float)
        eri = np.ascontiguousarray(self.eri, dtype=float)
        norb, spins = h.shape[-1], h.ndim == 3
        wanted_h = (2, norb, norb) if spins else (norb, norb)
        wanted = (3,) + (norb,) * 4 if spins else (norb,) * 4
        if h.shape != wanted_h or eri.shape != wanted:
            raise ValueError(f"h {h.shape} and eri {eri.shape} do not fit; wanted: {wanted_h} and {wanted}")
        data = ffi.from_buffer("double[]", h), ffi.from_buffer("double[]", eri)
        problem = create(
            "problem", "problem_create_integrals", norb, self.electrons, self.ms2, spins, self.core, *data
        )
        if self.irreps is not None:
            irreps = np.ascontiguousarray(self.irreps, dtype=np.intc)
            call("problem_set_irreps", problem, len(irreps), ffi.from_buffer("int[]", irreps))
        return problem

    def _key(self) -> list[Any]:
        """What tells two molecules apart."""
        irreps = None if self.irreps is None else np.asarray(self.irreps).tolist()
        arrays = [np.ascontiguousarray(a, dtype=float).tobytes().hex() for a in (self.h, self.eri)]
        return arrays + [self.electrons, self.ms2, self.core, irreps]


@dataclass
class Fcidump:
    """A molecule in an FCIDUMP file."""

    path: str | os.PathLike[str]

    def _problem(self) -> Any:
        return create("problem", "problem_create_fcidump", text(self.path))

    def _key(self) -> list[Any]:
        return [Path(self.path).read_text(encoding="utf-8")]
