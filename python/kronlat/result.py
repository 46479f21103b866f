"""What a run found.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ._c import call, ffi, lib, text

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas
    import xarray

    from .problem import Problem
    from .tensors import MPS


class Result(Mapping[str, np.ndarray]):
    """Energies, and arrays by name: r["local/Sz"], r["sweep/energy"]; list(r) has the names.

    Of the excited state k measurements stand under "state_k/...". Energies are in units of the model's
    parameters, of molecules in hartree; sites count as the lattice does.
    """

    def __init__(self, handle: Any, notes: list[str] | None = None):
        self._c = handle
        self.problem: Problem | None = None  #: what it is of, where that is known
        self.notes = notes or []  #: lines that the run told

    @property
    def method(self) -> str:
        """ "dmrg", "ed" or "ci"."""
        return ffi.string(lib.kronlat_result_method(self._c)).decode()

    @property
    def finished(self) -> bool:
        """False: the run was cancelled, or the file held a checkpoint."""
        return bool(lib.kronlat_result_finished(self._c))

    @property
    def converged(self) -> bool:
        """Whether the wanted accuracy was reached, and no other state lies within DMRG's error bar."""
        return bool(lib.kronlat_result_converged(self._c))

    @property
    def energy_converged(self) -> bool:
        """Whether the wanted accuracy was reached; where `converged` is False beside it, what is kept and
        measured may be a mixture of states within the error bar."""
        return bool(lib.kronlat_result_energy_converged(self._c))

    @property
    def states(self) -> int:
        """States found."""
        return lib.kronlat_result_states(self._c)

    @property
    def energy(self) -> float:
        """Lowest energy."""
        return lib.kronlat_result_energy(self._c, 0)

    @property
    def error(self) -> float:
        """How far `energy` may be off: of DMRG an estimate, of ED a bound, of CI the residual."""
        return lib.kronlat_result_error(self._c, 0)

    @property
    def energies(self) -> np.ndarray:
        """[state], ascending."""
        return self["energy"]

    @property
    def errors(self) -> np.ndarray:
        """[state], of `energies`."""
        return self["error"]

    def text(self, what: str) -> str | None:
        """ "model", "variant", "formula", "lattice", "command_line" or "program"; None: it has none."""
        found = lib.kronlat_result_text(self._c, what.encode())
        return None if found == ffi.NULL else ffi.string(found).decode()

    # ---- arrays

    def _find(self, name: str) -> tuple[tuple[int, ...], Any]:
        """Shape and data of an array."""
        rank, shape, data = ffi.new("int *"), ffi.new("int64_t[4]"), ffi.new("const double **")
        call("result_array", self._c, text(name), rank, shape, data)
        return tuple(shape[k] for k in range(rank[0])), data[0]

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            ends = [known for known in self if known.rpartition("/")[2] == name]
            hint = f" (did you mean {ends[0]!r}?)" if ends else ""
            raise KeyError(f"the result has no {name!r}{hint}, only: {', '.join(self)}")
        shape, data = self._find(name)
        if not shape:
            return data[0]
        count = int(np.prod(shape))
        # A copy: measuring the same again moves the library's own.
        return np.frombuffer(ffi.buffer(data, 8 * count), dtype=float).reshape(shape).copy()

    def __iter__(self) -> Iterator[str]:
        seen = set()
        for i in range(lib.kronlat_result_count(self._c)):
            name = ffi.string(lib.kronlat_result_name(self._c, i)).decode()
            if name not in seen:
                yield name
            seen.add(name)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in list(iter(self))

    def vector(self, state: int = 0) -> np.ndarray:
        """[dimension]: a state of `ed(..., keep_vectors=True)`, in the basis of `hamiltonian`."""
        x = np.empty(lib.kronlat_result_dimension(self._c))
        call("result_vector", self._c, state, len(x), ffi.from_buffer("double[]", x))
        return x

    def determinants(self, state: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A state of `ci(..., keep_vectors=True)`: alpha and beta strings, and coefficients, [determinant].

        Bit p of a string is orbital p; creation operators stand in ascending order, alpha before beta.
        """
        n, c = ffi.new("int64_t *"), ffi.new("const double **")
        alpha, beta = ffi.new("const uint64_t **"), ffi.new("const uint64_t **")
        call("result_determinants", self._c, state, n, alpha, beta, c)

        def array(pointer: Any, kind: Any) -> np.ndarray:
            return np.frombuffer(ffi.buffer(pointer[0], 8 * n[0]), dtype=kind).copy()

        return array(alpha, np.uint64), array(beta, np.uint64), array(c, float)

    # ---- more from the state

    def measure(self, what: str) -> Any:
        """Measures "corr(Sz,Sz)", "Sz", "entropy", ... on the state of DMRG; what `kronlat measure` knows.

        The new array of the lowest state; {name: array} where there are several. The result keeps all.
        """
        before = {name: self._find(name) for name in self}
        call("result_measure", self._c, text(what))
        fresh = {name: self[name] for name in self if before.get(name) != self._find(name)}
        lowest = [name for name in fresh if not name.startswith("state_")]
        return fresh[lowest[0]] if len(lowest) == 1 else fresh

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file that `load` and `kronlat show` read."""
        call("result_save", self._c, text(path))

    def mps(self, state: int = 0, centre: int = 0) -> MPS:
        """A state of DMRG as a matrix product state, canonical about position centre.

        With the total spin S it is the component with Sz = S, in states of Sz.
        """
        from .tensors import mps_of

        return mps_of(self, state, centre)

    # ---- as others want it

    def to_xarray(self) -> xarray.Dataset:
        """All arrays with named dimensions."""
        from .tables import dataset

        return dataset(self)

    def to_pandas(self, of: str = "sweep") -> pandas.DataFrame:
        """A table of "sweep", "site" (local values), "state" (energies) or "cut" (entropies)."""
        from .tables import frame

        return frame(self, of)

    def plot(self, columns: int = 2, width: float = 7.0) -> matplotlib.figure.Figure:
        """The figures of `kronlat plot`, by matplotlib; width in inches (3.4: one column of a journal)."""
        from .figures import overview

        return overview([self], columns=columns, width=width)

    def __repr__(self) -> str:
        verdict = (
            "converged"
            if self.converged
            else "energy converged, state not told apart from another"
            if self.energy_converged
            else "not converged"
            if self.finished
            else "cancelled"
        )
        return f"<{self.method}: energy {self.energy:.12g} +- {self.error:.1e}, {verdict}>"
