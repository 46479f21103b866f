"""y = H x for solvers of one's own.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np
from scipy.sparse.linalg import LinearOperator

from ._c import call, create, ffi, lib
from .errors import BadInput
from .problem import Problem


class Hamiltonian(LinearOperator):
    """H in one sector as a LinearOperator of scipy: real, symmetric, never stored.

    Basis states are products of local states of the sites; `states` lists them. Fermionic modes are filled
    in the order of `positions` and, at a site, in the model's.
    """

    def __init__(self, problem: Problem):
        self.problem = problem
        self._c = create("operator", "operator_create", problem._c)
        dimension = lib.kronlat_operator_dimension(self._c)
        super().__init__(np.dtype(float), (dimension, dimension))

    def _matmat(self, x: np.ndarray) -> np.ndarray:
        if np.iscomplexobj(x):
            return self._matmat(x.real) + 1j * self._matmat(x.imag)
        # The library wants vectors one after the other; columns in Fortran's order are that already.
        rows = np.ascontiguousarray(x.T, dtype=float)
        out = np.empty_like(rows)
        n = self.shape[0]
        data = ffi.from_buffer("double[]", rows), ffi.from_buffer("double[]", out)
        call("operator_apply", self._c, len(rows), data[0], n, data[1], n)
        return out.T

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        return self._matmat(x.reshape(-1, 1)).reshape(-1)

    def _adjoint(self) -> Hamiltonian:
        return self

    _transpose = _adjoint

    def diagonal(self) -> np.ndarray:
        """[dimension]: the diagonal of H."""
        out = np.empty(self.shape[0])
        call("operator_diagonal", self._c, ffi.from_buffer("double[]", out))
        return out

    def toarray(self) -> np.ndarray:
        """[dimension][dimension]: all of H, for small ones."""
        return self.matmat(np.eye(self.shape[0]))

    @property
    def sites(self) -> int:
        """Number of sites."""
        return lib.kronlat_operator_sites(self._c)

    @property
    def positions(self) -> np.ndarray:
        """[site]: position of each site in the order of the modes."""
        return np.array([lib.kronlat_operator_position(self._c, site) for site in range(self.sites)])

    def state(self, index: int) -> np.ndarray:
        """[site]: local state of each site in a basis state."""
        out = np.empty(self.sites, dtype=np.intc)
        call("operator_state", self._c, index, ffi.from_buffer("int[]", out))
        return out

    @property
    def states(self) -> np.ndarray:
        """[dimension][site]: all basis states."""
        return np.array([self.state(i) for i in range(self.shape[0])])

    def find(self, state: Any) -> int:
        """Index of a basis state given by its local states, [site]."""
        local = np.ascontiguousarray(state, dtype=np.intc)
        if local.shape != (self.sites,):
            raise BadInput(f"a state of shape {local.shape}; wanted: ({self.sites},)")
        index = lib.kronlat_operator_find(self._c, ffi.from_buffer("int[]", local))
        if index < 0:
            raise BadInput(f"state {local.tolist()} is not in the sector")
        return index


def hamiltonian(
    model: Any,
    lattice: Any = None,
    params: Mapping[str, Any] | None = None,
    charges: Mapping[str, Any] | str | None = None,
    **options: Any,
) -> Hamiltonian:
    """H of one sector, for scipy.sparse.linalg and others; arguments as of Problem."""
    return Hamiltonian(Problem(model, lattice, params, charges, **options))
